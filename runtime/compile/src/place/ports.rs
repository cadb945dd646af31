//! Determines the formats in which a kernel gets a node's tensors: for each port, the type, encoding and layout that
//! the kernel's rules and the core allow.

use udo_api::{
    AxisEncoding, Core, DType, EpilogueStep, KernelDef, Port, PortRule, Side, TensorDesc,
};

use super::candidate::PlaceCandidate;
use super::{Operand, Pitch};
use crate::resolve::{Params, port_rule, port_types, takes_encoding};
use udo_engine::cores::{Format, descs_on, is_quantized};
use udo_graph::graph::ValueId;

/// A node's tensors as a kernel gets them.
pub(super) struct Ports {
    pub(super) inputs: Vec<Operand>,
    pub(super) outputs: Vec<Operand>,
    /// The parameters, if they differ from the node's.
    pub(super) params: Option<Params>,
    /// The steps that the kernel applies to the first output before it stores it.
    pub(super) epilogue: Vec<EpilogueStep>,
}

impl Ports {
    /// Returns the descriptions of the inputs and of the outputs.
    pub(super) fn descs(&self) -> [Vec<TensorDesc>; 2] {
        let descs = |operands: &[Operand]| operands.iter().map(|o| o.format.desc).collect();
        [descs(&self.inputs), descs(&self.outputs)]
    }
}

impl PlaceCandidate<'_> {
    /// Returns the tensors that `kernel` gets on `core`, or why it does not accept the node.
    pub(super) fn ports(&self, kernel: &KernelDef, core: Core) -> Result<Ports, String> {
        let mut ports =
            Ports { inputs: Vec::new(), outputs: Vec::new(), params: None, epilogue: Vec::new() };
        for (index, &value) in self.node.inputs.iter().enumerate() {
            let format = self.format(kernel, core, Side::Input, index, value, &ports.inputs)?;
            let rule = self.rule(kernel, Side::Input, index);
            ports.inputs.push(Operand { value, format, pitch: Pitch::from_rule(rule) });
        }
        for (index, &value) in self.node.outputs.iter().enumerate() {
            let format = self.format(kernel, core, Side::Output, index, value, &ports.inputs)?;
            let rule = self.rule(kernel, Side::Output, index);
            ports.outputs.push(Operand { value, format, pitch: Pitch::from_rule(rule) });
        }
        self.check_bounds(kernel, &ports)?;
        self.set_layouts(kernel, core, &mut ports)?;
        Ok(ports)
    }

    /// Refuses bounded extents at ports whose rules do not support them.
    fn check_bounds(&self, kernel: &KernelDef, ports: &Ports) -> Result<(), String> {
        let schema = self.bound.op.schema();
        let is_refused = |side: Side, index: usize, operand: &Operand| {
            let rule = self.rule(kernel, side, index);
            let is_bounded = !operand.format.desc.full_shape().is_fixed();
            is_bounded && !rule.is_some_and(PortRule::takes_bounded)
        };
        let mut inputs = ports.inputs.iter().enumerate();
        let refused = inputs.find(|(index, input)| is_refused(Side::Input, *index, input));
        if let Some((index, input)) = refused {
            let name = schema.input(index).map_or("?", Port::name);
            let desc = input.format.desc;
            return Err(format!("input {name:?} is {desc}, and the kernel needs fixed dimensions"));
        }
        for (index, output) in ports.outputs.iter().enumerate() {
            let refuse = |why: &str| {
                let name = schema.output(index).map_or("?", Port::name);
                Err(format!("output {name:?} is {}, and {why}", output.format.desc))
            };
            if is_refused(Side::Output, index, output) {
                return refuse("the kernel does not support bounded ones there");
            }
            if kernel.is_gpu() && !output.format.desc.full_shape().is_fixed() {
                return refuse("a GPU kernel cannot return its extents");
            }
        }
        Ok(())
    }

    /// Returns the kernel's rule for a port.
    pub(super) fn rule(
        &self,
        kernel: &KernelDef,
        side: Side,
        index: usize,
    ) -> Option<&'static PortRule> {
        port_rule(self.bound.op.schema(), kernel, side, index)
    }

    /// Returns the format in which a port gets `value`, in the model's layout.
    pub(super) fn format(
        &self,
        kernel: &KernelDef,
        core: Core,
        side: Side,
        index: usize,
        value: Option<ValueId>,
        inputs: &[Operand],
    ) -> Result<Format, String> {
        let schema = self.bound.op.schema();
        let port = match side {
            Side::Input => schema.input(index),
            Side::Output => schema.output(index),
        };
        let (Some(_), Some(port)) = (value, port) else { return Ok(Format::ABSENT) };
        let dtype = |port: usize| inputs.get(port).and_then(|input| input.format.desc.dtype());
        let types = port_types(schema, kernel, core, (side, index), dtype);
        let descs = self.descs_on(core, value);
        let rule = self.rule(kernel, side, index);
        let mut matching = descs.iter().filter(|desc| desc.is_in(types));
        if let Some(desc) = matching.clone().find(|desc| takes_encoding(rule, desc)) {
            return Ok(Format::from_desc(*desc));
        }
        let side = match side {
            Side::Input => "input",
            Side::Output => "output",
        };
        if let Some(desc) = matching.next() {
            let axis = desc.axis_encoding().map_or(0, AxisEncoding::axis);
            return Err(format!(
                "{side} {:?} is {desc} with an encoding for each position of axis {axis}, and the kernel takes one per \
                 tensor",
                port.name()
            ));
        }
        let desc = self.graph.desc(value);
        let is_unencoded = desc.dtype().is_some_and(DType::is_float)
            && self.graph.quantized(value).is_none()
            && descs.len() == 1;
        let is_fixed_point = !types.has(DType::F32) && !types.is_empty() && is_quantized(core);
        let hint = if is_unencoded && is_fixed_point {
            ", and the model has no encoding for it"
        } else {
            ""
        };
        Err(format!("{side} {:?} is {desc}, expected {types}{hint}", port.name()))
    }

    /// Returns how a value can be stored on `core`, preferred first.
    pub(super) fn descs_on(&self, core: Core, value: Option<ValueId>) -> Vec<TensorDesc> {
        let quantized = value.and_then(|v| self.graph.values.get(v.index())?.quantized_desc());
        descs_on(core, &self.graph.desc(value), quantized.as_ref(), &self.options.profile)
    }
}
