//! In which order of dimensions a kernel gets its tensors.

use udo_api::{Core, Facts, KernelDef, KernelFlags, Layout, Port};

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
        let flags = kernel.known_flags();
        let wanted = [
            ("input", flags.has(KernelFlags::CHANNELS_LAST_IN), ports.inputs.first_mut()),
            ("output", flags.has(KernelFlags::CHANNELS_LAST_OUT), ports.outputs.first_mut()),
        ];
        if wanted.iter().any(|(_, wanted, _)| *wanted) {
            for (side, wanted, operand) in wanted {
                let Some(operand) = operand.filter(|_| wanted) else { continue };
                if !turn(operand, Order::ChannelsLast) {
                    let found = operand.form.desc;
                    return Err(format!("{side} 0 is {found}, wanted four fixed dimensions"));
                }
            }
        } else if Memory::of(core) == Memory::Host {
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
