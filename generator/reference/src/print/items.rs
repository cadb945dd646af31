//! Prints a program as work items: for each tensor an OpenCL C kernel whose work item computes one element, and the
//! equivalent calls in Rust for cores without OpenCL C.

use std::fmt::Write as _;

use super::{
    Common, Printer, Scratch,
    access::{Accesses, Reads},
    names::Names,
    opencl,
    rust::Rust,
    support,
};
use crate::{
    ir::{Code, DefKind, Guard, Source, StepKind},
    signature::{Class, ParamKind, Signature},
};

/// A kernel of work items, whose code a package places next to its [`Formula`](super::Formula).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemKernel {
    /// `fn constants(plan, ..) -> String`: the constants before the OpenCL C, from the plan and the elements of tensor
    /// parameters, in order.
    pub constants: String,
    /// The tensors, in the order of computation.
    pub items: Vec<Item>,
    /// The tensors that are stored between launches.
    pub scratch: Vec<Scratch>,
    /// The OpenCL C, to follow `constants` and [`opencl_support`](crate::opencl_support).
    pub opencl: String,
}

/// The computation of one tensor, with one work item per element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The formula's function for one element.
    pub name: String,
    /// Its arguments after the plan and the index: functions of an element's index.
    pub arguments: Vec<String>,
    /// The kernel in OpenCL C.
    pub kernel: String,
    /// Its arguments.
    pub buffers: Vec<Buffer>,
    /// The plan's field with the tensor's dimensions.
    pub extents: String,
    /// The conditions under which the tensor is computed.
    pub guards: Vec<FieldGuard>,
    /// The scratch that stores the element.
    pub scratch: Option<usize>,
    /// The output that stores the element.
    pub output: Option<usize>,
    /// The class of the elements.
    pub class: Class,
}

/// A required value of a bool field of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldGuard {
    /// The field.
    pub field: String,
    /// The required value.
    pub holds: bool,
}

/// A buffer of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// An input; an omitted one is not passed.
    Input(usize),
    /// An output.
    Output(usize),
    /// Scratch, by its index.
    Scratch(usize),
}

/// Prints the program as work items, if elements do not determine a dimension.
pub(crate) fn items(code: &Code, signature: &Signature, accesses: &Accesses) -> Option<ItemKernel> {
    let code = &super::rests::with_rests(code);
    // Outputs lose precision when stored, so outputs that the program reads again are stored in scratch memory, too.
    let is_output = |def: usize| code.outputs.iter().any(|output| output.def == def);
    let is_kept = |def: &usize| !is_output(*def) || super::is_read(code, *def);
    let scratch = (0..code.defs.len()).filter(is_kept).collect();
    let reads = Reads { accesses, scratch };
    let common = Common::new(code, signature);
    let rust = common.printer(&Rust::Plan);
    if rust.is_bounded() {
        return None;
    }
    let opencl = opencl::OpenClC { reads: &reads };
    let names = Names::of_opencl(code, signature, rust.names.strings());
    let device = Printer { names: &names, ..common.printer(&opencl) };
    let kernels: Vec<Kernel> =
        (0..code.defs.len()).map(|def| device.kernel(def, guards_of(code, def), &reads)).collect();
    let items = code.steps.iter().filter_map(|step| {
        let StepKind::Def(def) = step.kind else { return None };
        let kernel = kernels.get(def)?;
        let element = common.elements.get(def)?.as_ref()?;
        let argument = |source: &Source| reads.function(*source, &rust.element(*source));
        let guard = |Guard { slot, holds }: &Guard| FieldGuard {
            field: rust.names.scalar(*slot).to_owned(),
            holds: *holds,
        };
        Some(Item {
            name: format!("element_of_{}", rust.names.def(def)),
            arguments: element.sources.iter().map(argument).collect(),
            kernel: kernel.name.clone(),
            buffers: kernel.buffers.clone(),
            extents: rust.names.dims(Source::Def(def)),
            guards: step.guards.iter().map(guard).collect(),
            scratch: reads.scratch_of(def),
            output: rust.output_of(def),
            class: code.defs.get(def)?.class,
        })
    });
    let kept = reads.scratch.iter().map(|def| Scratch {
        name: rust.names.def(*def).to_owned(),
        element: rust.element(Source::Def(*def)),
        extents: rust.names.dims(Source::Def(*def)),
    });
    Some(ItemKernel {
        items: items.collect(),
        scratch: kept.collect(),
        constants: constants(&rust, &device),
        opencl: device.opencl(&kernels),
    })
}

/// Returns the conditions under which the tensor is computed.
fn guards_of(code: &Code, def: usize) -> &[Guard] {
    let step =
        code.steps.iter().find(|step| matches!(step.kind, StepKind::Def(index) if index == def));
    step.map_or(&[], |step| step.guards.as_slice())
}

/// A kernel in OpenCL C.
struct Kernel {
    name: String,
    buffers: Vec<Buffer>,
    text: String,
}

impl Printer<'_> {
    /// Returns the buffer name of a stored tensor; an output of the same tensor has the tensor's own name.
    pub(super) fn kept_name(&self, def: usize) -> String {
        let name = self.names.def(def);
        if self.output_of(def).is_some() { format!("kept_{name}") } else { name.to_owned() }
    }

    /// Returns a tensor with the body of its element function.
    fn body_of(&self, number: usize) -> Option<(&crate::ir::Def, String)> {
        let def = self.code.defs.get(number)?;
        match &def.kind {
            DefKind::Elements { binders, body } => {
                Some((def, self.element_body(number, def, binders, body)))
            }
            DefKind::Select(_) => None,
        }
    }

    /// Prints the kernel that computes a tensor.
    fn kernel(&self, number: usize, guards: &[Guard], reads: &Reads<'_>) -> Kernel {
        let output_name = self.names.def(number);
        let name = format!("{}_{output_name}", reads.accesses.prefix);
        let Some((def, text)) = self.body_of(number) else {
            return Kernel { name, buffers: Vec::new(), text: String::new() };
        };
        let (mut parameters_of_sources, mut absent_inputs, mut buffers) =
            (String::new(), String::new(), Vec::new());
        for source in super::sources_of(self.code, def) {
            let (buffer, element, buffer_name) = match source {
                Source::Param(_) => continue,
                Source::Input(input) => {
                    let port = reads.accesses.inputs.get(input);
                    let element = port.map_or("", |port| port.opencl.element.as_str());
                    (Buffer::Input(input), element, self.names.source(source).to_owned())
                }
                Source::Def(read) => {
                    let Some(scratch) = reads.scratch_of(read) else { continue };
                    let element = opencl::stored_type(self.class(source));
                    (Buffer::Scratch(scratch), element, self.kept_name(read))
                }
            };
            if !support::has_word(&text, &buffer_name) {
                continue;
            }
            buffers.push(buffer);
            let parameter = format!("__global const {element} *{buffer_name}");
            if self.may_be_absent(source) {
                let _ = write!(
                    parameters_of_sources,
                    "#ifdef HAS_{buffer_name}\n    {parameter},\n#endif\n"
                );
                let _ = write!(
                    absent_inputs,
                    "#ifndef HAS_{buffer_name}\n    {parameter} = 0;\n#endif\n"
                );
            } else {
                let _ = writeln!(parameters_of_sources, "    {parameter},");
            }
        }
        let mut own_parameters = Vec::new();
        let mut stores = String::new();
        if let Some(scratch) = reads.scratch_of(number) {
            let scratch_name = self.kept_name(number);
            buffers.push(Buffer::Scratch(scratch));
            own_parameters
                .push(format!("    __global {} *{scratch_name}", opencl::stored_type(def.class)));
            let _ = writeln!(stores, "    {scratch_name}[number] = value;");
        }
        if let Some(output) = self.output_of(number) {
            let port = reads.accesses.outputs.get(output);
            buffers.push(Buffer::Output(output));
            own_parameters.push(format!(
                "    __global {} *{output_name}",
                port.map_or("", |port| port.opencl.element.as_str())
            ));
            let store = port.map_or(String::new(), |port| port.opencl.store(output_name, "value"));
            let _ = writeln!(stores, "    {store}");
        }
        let parameters = own_parameters.join(",\n");
        let dims = self.names.dims(Source::Def(number));
        let guard = |Guard { slot, holds }: &Guard| {
            let sign = if *holds { "!" } else { "" };
            format!(" || {sign}plan.{}", self.names.scalar(*slot))
        };
        let guards = guards.iter().map(guard).collect::<Vec<_>>().concat();
        let text = format!(
            "__kernel void {name}(\n{parameters_of_sources}{parameters}\n) {{\n{absent_inputs}    const Plan plan = KNOWN;\n    const long number = (long)get_global_id(0);\n    if (number >= list_count(plan.{dims}){guards}) {{\n        return;\n    }}\n{text}{stores}}}\n"
        );
        Kernel { name, buffers, text }
    }

    fn may_be_absent(&self, source: Source) -> bool {
        let Source::Input(input) = source else { return false };
        self.signature.inputs.get(input).is_some_and(|port| port.optional && port.default.is_none())
    }

    /// Prints the source after the constants.
    fn opencl(&self, kernels: &[Kernel]) -> String {
        let texts: String =
            kernels.iter().map(|kernel| kernel.text.as_str()).collect::<Vec<_>>().join("\n");
        let mut fields = String::new();
        for (name, field_type) in self.device_fields() {
            let field_type = match field_type {
                "List" => "List",
                "f64" => "float",
                _ => "long",
            };
            let _ = writeln!(fields, "    {field_type} {name};");
        }
        let mut lists = String::new();
        for (param, class) in self.list_params() {
            let (name, field_type) = (self.names.param(param), opencl::stored_type(class));
            if support::has_word(&texts, name) {
                let _ = writeln!(lists, "__constant {field_type} {name}[] = LIST_{name};");
            }
        }
        format!(
            "// Data that depends on shapes. Work items copy it, since a compiler misread lists in constants.\ntypedef struct {{\n{fields}}} Plan;\n\n__constant Plan KNOWN = PLAN;\n{lists}\n{texts}"
        )
    }

    /// Returns the fields of the device's plan, without padding between them: with padding, constants of a kernel were
    /// misread.
    fn device_fields(&self) -> Vec<(String, &'static str)> {
        let mut fields = self.fields();
        fields.sort_by_key(|(_, of)| *of == "f64");
        fields
    }

    /// Iterates over the tensor parameters and their classes.
    fn list_params(&self) -> impl Iterator<Item = (usize, Class)> {
        let params = self.signature.params.iter().enumerate();
        params.filter_map(|(number, param)| match param.kind {
            ParamKind::Tensor(class) => Some((number, class)),
            ParamKind::Scalar(_) | ParamKind::Text => None,
        })
    }
}

/// Prints `fn constants`, which formats the plan as initializers for the device's source.
fn constants(rust: &Printer<'_>, device: &Printer<'_>) -> String {
    let (mut parameters, mut lines) = (vec!["plan: &Plan".to_owned()], String::new());
    for (input, port) in rust.signature.inputs.iter().enumerate() {
        if port.optional && port.default.is_none() {
            let (field, name) =
                (rust.names.present(input), device.names.source(Source::Input(input)));
            let _ = write!(
                lines,
                "    if plan.{field} {{\n        text.push_str(\"#define HAS_{name}\\n\");\n    }}\n"
            );
        }
    }
    for (param, class) in rust.list_params() {
        let (of, function) = match class {
            Class::Float => ("f32", "text_of_reals"),
            Class::Int | Class::Bool => ("i64", "text_of_ints"),
        };
        let (name, macro_name) = (rust.names.param(param), device.names.param(param));
        parameters.push(format!("{name}: &[{of}]"));
        let _ = writeln!(
            lines,
            "    text += &format!(\"#define LIST_{macro_name} {{}}\\n\", {function}({name}));"
        );
    }
    let mut fields = String::new();
    for (name, of) in rust.device_fields() {
        let value = match of {
            "List" => format!("text_of_list(plan.{name})"),
            "f64" => format!("text_of_real(plan.{name} as f32)"),
            "bool" => format!("text_of_int(i64::from(plan.{name}))"),
            _ => format!("text_of_int(plan.{name})"),
        };
        let _ = writeln!(fields, "        {value},");
    }
    let mutable = if lines.is_empty() { "" } else { "mut " };
    let body = format!(
        "    let fields = [\n{fields}    ];\n    let {mutable}text = format!(\"#define PLAN {{{{{{}}}}}}\\n\", fields.join(\", \"));\n{lines}    text\n"
    );
    let function = super::rust::function("pub fn constants", &parameters, "String", &body);
    format!(
        "/// Returns the OpenCL C constants that depend on shapes, which precede the source.\n{function}"
    )
}
