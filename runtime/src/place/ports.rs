//! In which types and forms a kernel would get a node's tensors.

use udo_api::{Core, DType, EpilogueStep, KernelDef, KernelFlags, Port, Side, TensorDesc, Wanted};

use super::Operand;
use super::site::Site;
use crate::cores::{Form, forms};
use crate::graph::ValueId;
use crate::resolve::Params;

/// A node's tensors as one kernel would get them.
pub(super) struct Ports {
    pub(super) inputs: Vec<Operand>,
    pub(super) outputs: Vec<Operand>,
    /// The parameters, where they are not those of the node.
    pub(super) params: Option<Params>,
    /// What the kernel does to the first output before it stores it.
    pub(super) epilogue: Vec<EpilogueStep>,
}

impl Ports {
    /// The descriptions of the inputs, and of the outputs.
    pub(super) fn descs(&self) -> [Vec<TensorDesc>; 2] {
        let descs = |operands: &[Operand]| operands.iter().map(|o| o.form.desc).collect();
        [descs(&self.inputs), descs(&self.outputs)]
    }
}

impl Site<'_> {
    /// What `kernel` would get on `core`, or why it does not take the node.
    pub(super) fn ports(&self, kernel: &KernelDef, core: Core) -> Result<Ports, String> {
        let mut ports =
            Ports { inputs: Vec::new(), outputs: Vec::new(), params: None, epilogue: Vec::new() };
        for (index, &value) in self.node.inputs.iter().enumerate() {
            let form = self.form(kernel, core, Side::Input, index, value, &ports.inputs)?;
            ports.inputs.push(Operand { value, form });
        }
        for (index, &value) in self.node.outputs.iter().enumerate() {
            let form = self.form(kernel, core, Side::Output, index, value, &ports.inputs)?;
            ports.outputs.push(Operand { value, form });
        }
        self.check_bounds(kernel, &ports)?;
        self.order(kernel, core, &mut ports)?;
        Ok(ports)
    }

    fn check_bounds(&self, kernel: &KernelDef, ports: &Ports) -> Result<(), String> {
        let schema = self.bound.op.schema();
        let takes_bounds = kernel.known_flags().has(KernelFlags::BOUNDED);
        let bounded = |operand: &Operand| !operand.form.desc.full_shape().is_fixed();
        if let Some(index) = ports.inputs.iter().position(bounded).filter(|_| !takes_bounds) {
            let name = schema.input(index).map_or("?", Port::name);
            let found = ports.inputs[index].form.desc;
            return Err(format!(
                "input {name:?} is {found}, and the kernel wants fixed dimensions"
            ));
        }
        if let Some(index) = ports.outputs.iter().position(bounded) {
            let refuse = |why: &str| {
                let name = schema.output(index).map_or("?", Port::name);
                Err(format!("output {name:?} is {}, and {why}", ports.outputs[index].form.desc))
            };
            if !takes_bounds {
                return refuse("the kernel does not declare BOUNDED");
            }
            if kernel.vtable().gpu.is_some() {
                return refuse("a GPU kernel cannot say its extents");
            }
        }
        Ok(())
    }

    /// The form in which `value` comes to a port, in the model's order of dimensions.
    pub(super) fn form(
        &self,
        kernel: &KernelDef,
        core: Core,
        side: Side,
        index: usize,
        value: Option<ValueId>,
        inputs: &[Operand],
    ) -> Result<Form, String> {
        let schema = self.bound.op.schema();
        let (ports, port) = match side {
            Side::Input => (schema.inputs().len(), schema.input(index)),
            Side::Output => (schema.outputs().len(), schema.output(index)),
        };
        let (Some(_), Some(port)) = (value, port) else { return Ok(Form::ABSENT) };
        // The rule of a repeated port is that of its first tensor.
        let rule_port = index.min(ports.saturating_sub(1));
        let rule =
            kernel.type_rules().iter().find(|r| r.side() == Some(side) && r.port() == rule_port);
        let types = match rule.map(udo_api::TypeRule::wanted) {
            Some(Wanted::Types(types)) => types,
            // An input that is left out says nothing.
            Some(Wanted::SameAsInput(other)) => inputs
                .get(other)
                .and_then(|operand| operand.form.desc.dtype())
                .map_or(port.types_on(core), DType::set),
            None => port.types_on(core),
        };
        let forms = self.forms(core, value);
        if let Some(form) = forms.iter().find(|f| f.is_in(types)) {
            return Ok(Form::of(*form));
        }
        let what = match side {
            Side::Input => "input",
            Side::Output => "output",
        };
        let desc = self.graph.desc(value);
        let is_unencoded = desc.dtype().is_some_and(DType::is_float)
            && self.graph.quantized(value).is_none()
            && forms.len() == 1;
        let is_fixed_point = !types.has(DType::F32) && !types.is_empty() && core.arch() > 0;
        let hint = if is_unencoded && is_fixed_point {
            ", and the model has no encoding for it"
        } else {
            ""
        };
        Err(format!("{what} {:?} is {desc}, wanted {types}{hint}", port.name()))
    }

    /// The forms that a value can take on `core`, the preferred one first.
    pub(super) fn forms(&self, core: Core, value: Option<ValueId>) -> Vec<TensorDesc> {
        let fixed = value.and_then(|v| self.graph.values.get(v.index())?.quantized_desc());
        forms(core, &self.graph.desc(value), fixed.as_ref(), &self.options.profile)
    }
}
