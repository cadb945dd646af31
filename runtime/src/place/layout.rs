//! In which layout a kernel gets its tensors.

use udo_api::{Core, Facts, KernelDef, Layout, Port, PortRule, Side};

use super::Operand;
use super::ports::Ports;
use super::unplaced::Unplaced;
use crate::cores::Memory;

/// Says of an operand that it comes in NHWC; whether it can.
fn set_nhwc(Operand { format, .. }: &mut Operand) -> bool {
    let nhwc = format.in_layout(Layout::Nhwc);
    *format = nhwc.unwrap_or(*format);
    nhwc.is_some()
}

impl Unplaced<'_> {
    /// Sets the layout of ports that `kernel` wants in NHWC, or else propagates that of the inputs through a node that
    /// does as well in any layout.
    pub(super) fn set_layouts(
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
            if operand.format.desc.is_absent() || !is_last(side, index) {
                continue;
            }
            asks = true;
            if !set_nhwc(operand) {
                let side = if side == Side::Input { "input" } else { "output" };
                let found = operand.format.desc;
                return Err(format!("{side} {index} is {found}, wanted four fixed dimensions"));
            }
        }
        if !asks && Memory::of(core) == Memory::Host {
            self.propagate_layout(ports);
        }
        Ok(())
    }

    /// Sets the layout of all ports of a node whose results lie where its operands do to NHWC, if one of those comes so
    /// or the options want that.
    fn propagate_layout(&self, ports: &mut Ports) {
        let schema = self.bound.op.schema();
        let layout = |at: usize| {
            let (_, format) = self.produced.of(self.node.input(at))?;
            Some(format.layout())
        };
        let comes_nhwc = self.options.prefers_channels_last
            || (0..ports.inputs.len()).any(|at| layout(at) == Some(Layout::Nhwc));
        let says_layout = |port: &Port| port.rank4_layout() != Layout::AsGiven;
        if !comes_nhwc || schema.inputs().iter().chain(schema.outputs()).any(says_layout) {
            return;
        }
        let facts = schema.known_facts();
        let (concatenates, elementwise) = (facts.has(Facts::CONCAT), facts.has(Facts::ELEMENTWISE));
        if !concatenates && !elementwise {
            return;
        }
        let params = if concatenates { self.bound.params.in_layout(Layout::Nhwc) } else { None };
        if concatenates && params.is_none() {
            return;
        }
        let (mut inputs, mut outputs) = (ports.inputs.clone(), ports.outputs.clone());
        // A single number serves all places alike.
        let stays = |Operand { format, .. }: &Operand| {
            format.desc.is_absent() || (!concatenates && format.desc.len() == 1)
        };
        let fits =
            inputs.iter_mut().all(|o| stays(o) || set_nhwc(o)) && outputs.iter_mut().all(set_nhwc);
        if fits {
            (ports.inputs, ports.outputs, ports.params) = (inputs, outputs, params);
        }
    }
}
