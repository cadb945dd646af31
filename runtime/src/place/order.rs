//! In which order of dimensions a kernel gets its tensors.

use udo_api::{Core, Facts, KernelDef, Layout, Port, PortRule, Side};

use super::Operand;
use super::ports::Ports;
use super::site::Site;
use crate::cores::{Memory, Order};

/// Puts a form in another order; whether that can be.
fn turn(Operand { form, .. }: &mut Operand, order: Order) -> bool {
    let turned = form.turned(order);
    *form = turned.unwrap_or(*form);
    turned.is_some()
}

impl Site<'_> {
    /// Turns the forms that `kernel` wants channels last, or else those of a node that does as well in the
    /// order in which its inputs come.
    pub(super) fn order(
        &self,
        kernel: &KernelDef,
        core: Core,
        ports: &mut Ports,
    ) -> Result<(), String> {
        let is_last = |side: Side, index: usize| {
            self.rule(kernel, side, index).is_some_and(PortRule::is_channels_last)
        };
        let inputs = ports.inputs.iter_mut().enumerate().map(|(at, o)| (Side::Input, at, o));
        let outputs = ports.outputs.iter_mut().enumerate().map(|(at, o)| (Side::Output, at, o));
        let mut asks = false;
        for (side, index, operand) in inputs.chain(outputs) {
            if operand.form.desc.is_absent() || !is_last(side, index) {
                continue;
            }
            asks = true;
            if !turn(operand, Order::ChannelsLast) {
                let side = if side == Side::Input { "input" } else { "output" };
                let found = operand.form.desc;
                return Err(format!("{side} {index} is {found}, wanted four fixed dimensions"));
            }
        }
        if !asks && Memory::of(core) == Memory::Host {
            self.follow(ports);
        }
        Ok(())
    }

    /// Turns the forms of a node whose results lie where its operands do, if one of them comes turned or
    /// the options want that.
    fn follow(&self, ports: &mut Ports) {
        let schema = self.bound.op.schema();
        let order = |at: usize| {
            let (_, form) = self.made.of(self.node.input(at))?;
            Some(form.order)
        };
        let turned = self.options.prefers_channels_last
            || (0..ports.inputs.len()).any(|at| order(at) == Some(Order::ChannelsLast));
        let says_order = |port: &Port| port.rank4_layout() != Layout::AsGiven;
        if !turned || schema.inputs().iter().chain(schema.outputs()).any(says_order) {
            return;
        }
        let facts = schema.known_facts();
        let (joins, elementwise) = (facts.has(Facts::JOINS), facts.has(Facts::ELEMENTWISE));
        if !joins && !elementwise {
            return;
        }
        let params = if joins { self.bound.params.turned() } else { None };
        if joins && params.is_none() {
            return;
        }
        let (mut inputs, mut outputs) = (ports.inputs.clone(), ports.outputs.clone());
        // A single number serves all places alike.
        let stays = |Operand { form, .. }: &Operand| {
            form.desc.is_absent() || (!joins && form.desc.len() == 1)
        };
        let fits = inputs.iter_mut().all(|o| stays(o) || turn(o, Order::ChannelsLast))
            && outputs.iter_mut().all(|o| turn(o, Order::ChannelsLast));
        if fits {
            (ports.inputs, ports.outputs, ports.params) = (inputs, outputs, params);
        }
    }
}
