//! Chooses the layout in which a kernel gets its tensors: the model's own, or channels-last (NHWC). Kernels may require
//! NHWC at a port. To avoid transposes, nodes that work in either layout take that of their inputs.

use udo_api::{Core, Facts, KernelDef, Layout, Port, PortRule, Side, resolve_axis};
use udo_host::ParamSetting;

use super::Operand;
use super::candidate::PlaceCandidate;
use super::ports::Ports;
use crate::resolve::LayoutRule;
use udo_engine::cores::Memory;

/// Sets an operand to NHWC; returns whether it can be.
fn set_nhwc(Operand { format, .. }: &mut Operand) -> bool {
    let nhwc = format.in_layout(Layout::Nhwc);
    *format = nhwc.unwrap_or(*format);
    nhwc.is_some()
}

impl PlaceCandidate<'_> {
    /// Sets the layout of ports for which `kernel` requires NHWC. Otherwise propagates the layout of the inputs through
    /// a node that works in any layout.
    pub(super) fn set_layouts(
        &self,
        kernel: &KernelDef,
        core: Core,
        ports: &mut Ports,
    ) -> Result<(), String> {
        let is_channels_last = |side: Side, index: usize| {
            self.rule(kernel, side, index).is_some_and(PortRule::is_channels_last)
        };
        let inputs = ports.inputs.iter_mut().enumerate().map(|(at, o)| (Side::Input, at, o));
        let outputs = ports.outputs.iter_mut().enumerate().map(|(at, o)| (Side::Output, at, o));
        let mut requires_nhwc = false;
        for (side, index, operand) in inputs.chain(outputs) {
            if operand.format.desc.is_absent() || !is_channels_last(side, index) {
                continue;
            }
            requires_nhwc = true;
            // For a repeated port, the rule applies only to tensors of rank 4.
            if !set_nhwc(operand) && !self.is_repeated(side, index) {
                let side = if side == Side::Input { "input" } else { "output" };
                let desc = operand.format.desc;
                return Err(format!("{side} {index} is {desc}, expected four fixed dimensions"));
            }
        }
        if !requires_nhwc && Memory::for_core(core) == Memory::Host {
            match self.bound.layout {
                Some(LayoutRule::Axis) => self.move_axis(ports),
                Some(LayoutRule::Order) => self.compose_order(ports),
                Some(LayoutRule::Join) => self.propagate_to_all(ports, true, true),
                None => self.propagate_layout(ports),
            }
        }
        Ok(())
    }

    fn is_repeated(&self, side: Side, index: usize) -> bool {
        let schema = self.bound.op.schema();
        let port = match side {
            Side::Input => schema.input(index),
            Side::Output => schema.output(index),
        };
        port.is_some_and(Port::is_repeated)
    }

    /// Returns whether an input is produced in NHWC, or the options prefer NHWC.
    fn comes_nhwc(&self, port: usize) -> bool {
        let layout = self.produced.get(self.node.input(port)).map(|(_, format)| format.layout());
        self.options.prefers_channels_last || layout == Some(Layout::Nhwc)
    }

    /// Sets the first input and output of a node with an axis to NHWC, if the input is produced in NHWC.
    fn move_axis(&self, ports: &mut Ports) {
        let params = self.bound.params.in_layout(Layout::Nhwc).filter(|_| self.comes_nhwc(0));
        let ([x, ..], [y, ..]) = (&mut ports.inputs[..], &mut ports.outputs[..]) else { return };
        let (mut input, mut output) = (*x, *y);
        if params.is_some() && set_nhwc(&mut input) && set_nhwc(&mut output) {
            (*x, *y, ports.params) = (input, output, params);
        }
    }

    /// Composes a transpose with the layouts of its input and output. It reads the input in the layout in which it is
    /// produced. If writing NHWC then keeps the order of the axes, it does that and moves nothing.
    fn compose_order(&self, ports: &mut Ports) {
        let ([x, ..], [y, ..]) = (&mut ports.inputs[..], &mut ports.outputs[..]) else { return };
        let (mut input, mut nhwc) = (*x, *y);
        let from =
            if self.comes_nhwc(0) && set_nhwc(&mut input) { Layout::Nhwc } else { Layout::AsGiven };
        let Some(order) = self.order(from) else { return };
        let to_nhwc: Option<Vec<usize>> =
            Layout::NHWC_AXES.iter().map(|&axis| order.get(axis).copied()).collect();
        let to_nhwc = to_nhwc.filter(|order| order.is_sorted() && set_nhwc(&mut nhwc));
        let (order, output) = match to_nhwc {
            Some(to_nhwc) if !order.is_sorted() => (to_nhwc, nhwc),
            _ => (order, *y),
        };
        let order = order.into_iter().filter_map(|axis| i64::try_from(axis).ok()).collect();
        if let Some(params) = self.bound.params.with_ints("perm", order) {
            (*x, *y, ports.params) = (input, output, Some(params));
        }
    }

    /// Returns, for each axis of the output, the position of the input's axis in a layout.
    fn order(&self, layout: Layout) -> Option<Vec<usize>> {
        let mut settings = self.bound.params.settings().iter();
        let perm = match settings.find(|(name, _)| *name == "perm")? {
            (_, ParamSetting::Ints(axes)) => axes.clone(),
            _ => vec![3, 2, 1, 0],
        };
        perm.iter().map(|&axis| layout.axis(resolve_axis(axis, 4)?)).collect()
    }

    /// Propagates the layout through a node whose results have the layout of its operands.
    fn propagate_layout(&self, ports: &mut Ports) {
        let schema = self.bound.op.schema();
        let has_layout = |port: &Port| port.rank4_layout() != Layout::AsGiven;
        if schema.inputs().iter().chain(schema.outputs()).any(has_layout) {
            return;
        }
        let facts = schema.known_facts();
        if facts.has(Facts::CONCAT) {
            self.propagate_to_all(ports, true, false);
        } else if facts.has(Facts::ELEMENTWISE) {
            self.propagate_to_all(ports, false, true);
        }
    }

    /// Sets all ports to NHWC if an input is produced in NHWC or the options prefer it. `has_axis` tells that a
    /// parameter is an axis, which must be converted; `has_scalars` that inputs may be scalars, which have no layout.
    fn propagate_to_all(&self, ports: &mut Ports, has_axis: bool, has_scalars: bool) {
        let comes_nhwc = self.options.prefers_channels_last
            || (0..ports.inputs.len()).any(|at| self.comes_nhwc(at));
        if !comes_nhwc {
            return;
        }
        let params = if has_axis { self.bound.params.in_layout(Layout::Nhwc) } else { None };
        if has_axis && params.is_none() {
            return;
        }
        let (mut inputs, mut outputs) = (ports.inputs.clone(), ports.outputs.clone());
        let has_no_layout = |Operand { format, .. }: &Operand| {
            format.desc.is_absent() || (has_scalars && format.desc.len() == 1)
        };
        let fits = inputs.iter_mut().all(|o| has_no_layout(o) || set_nhwc(o))
            && outputs.iter_mut().all(set_nhwc);
        if fits {
            (ports.inputs, ports.outputs, ports.params) = (inputs, outputs, params);
        }
    }
}
