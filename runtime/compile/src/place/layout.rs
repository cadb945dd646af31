//! In which layout a kernel gets its tensors.

use udo_api::{Core, Facts, KernelDef, Layout, Port, PortRule, Side, resolve_axis};
use udo_host::ParamSetting;

use super::Operand;
use super::ports::Ports;
use super::unplaced::Unplaced;
use crate::resolve::LayoutRule;
use udo_engine::cores::Memory;

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
            // The rule of a port with several tensors is for those that are images.
            if !set_nhwc(operand) && !self.is_repeated(side, index) {
                let side = if side == Side::Input { "input" } else { "output" };
                let found = operand.format.desc;
                return Err(format!("{side} {index} is {found}, wanted four fixed dimensions"));
            }
        }
        if !asks && Memory::of(core) == Memory::Host {
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

    /// Whether an input is made in NHWC, or the options want it so.
    fn comes_nhwc(&self, at: usize) -> bool {
        let made = self.produced.of(self.node.input(at)).map(|(_, format)| format.layout());
        self.options.prefers_channels_last || made == Some(Layout::Nhwc)
    }

    /// Sets the layout of the first input and of the output of a node that works along an axis, if the input comes in NHWC.
    fn move_axis(&self, ports: &mut Ports) {
        let params = self.bound.params.in_layout(Layout::Nhwc).filter(|_| self.comes_nhwc(0));
        let ([x, ..], [y, ..]) = (&mut ports.inputs[..], &mut ports.outputs[..]) else { return };
        let (mut input, mut output) = (*x, *y);
        if params.is_some() && set_nhwc(&mut input) && set_nhwc(&mut output) {
            (*x, *y, ports.params) = (input, output, params);
        }
    }

    /// Has a node that brings axes into another order take its input as it comes, and make NHWC where that leaves it
    /// nothing to do.
    fn compose_order(&self, ports: &mut Ports) {
        let ([x, ..], [y, ..]) = (&mut ports.inputs[..], &mut ports.outputs[..]) else { return };
        let (mut input, mut nhwc) = (*x, *y);
        let from =
            if self.comes_nhwc(0) && set_nhwc(&mut input) { Layout::Nhwc } else { Layout::AsGiven };
        let Some(order) = self.order(from) else { return };
        let last: Option<Vec<usize>> =
            Layout::NHWC_AXES.iter().map(|&axis| order.get(axis).copied()).collect();
        let last = last.filter(|order| order.is_sorted() && set_nhwc(&mut nhwc));
        let (order, output) = match last {
            Some(last) if !order.is_sorted() => (last, nhwc),
            _ => (order, *y),
        };
        let order = order.into_iter().filter_map(|axis| i64::try_from(axis).ok()).collect();
        if let Some(params) = self.bound.params.with_ints("perm", order) {
            (*x, *y, ports.params) = (input, output, Some(params));
        }
    }

    /// The place in a layout of the input's axis behind each axis of the output.
    fn order(&self, layout: Layout) -> Option<Vec<usize>> {
        let mut settings = self.bound.params.settings().iter();
        let given = match settings.find(|(name, _)| *name == "perm")? {
            (_, ParamSetting::Ints(axes)) => axes.clone(),
            _ => vec![3, 2, 1, 0],
        };
        given.iter().map(|&axis| layout.axis(resolve_axis(axis, 4)?)).collect()
    }

    /// Sets the layout of all ports of a node whose results lie where its operands do.
    fn propagate_layout(&self, ports: &mut Ports) {
        let schema = self.bound.op.schema();
        let says_layout = |port: &Port| port.rank4_layout() != Layout::AsGiven;
        if schema.inputs().iter().chain(schema.outputs()).any(says_layout) {
            return;
        }
        let facts = schema.known_facts();
        if facts.has(Facts::CONCAT) {
            self.propagate_to_all(ports, true, false);
        } else if facts.has(Facts::ELEMENTWISE) {
            self.propagate_to_all(ports, false, true);
        }
    }

    /// Sets the layout of all ports to NHWC, if an input comes so or the options want that. The node may have an axis, and
    /// single numbers, which serve all places alike.
    fn propagate_to_all(&self, ports: &mut Ports, has_axis: bool, has_numbers: bool) {
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
        let stays = |Operand { format, .. }: &Operand| {
            format.desc.is_absent() || (has_numbers && format.desc.len() == 1)
        };
        let fits =
            inputs.iter_mut().all(|o| stays(o) || set_nhwc(o)) && outputs.iter_mut().all(set_nhwc);
        if fits {
            (ports.inputs, ports.outputs, ports.params) = (inputs, outputs, params);
        }
    }
}
