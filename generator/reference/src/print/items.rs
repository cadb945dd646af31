//! A program as work items: a function for each tensor that works out one element, in Rust and in OpenCL C.

use std::fmt::Write as _;

use super::{Ports, Printer, Scratch, language::Real, names::Names, opencl, rust::Rust, support};
use crate::{
    ir::{Code, DefKind, Source, StepKind},
    signature::{Class, ParamKind, Signature},
};

/// How work items reach the elements of tensors. In texts `{at}` stands for the number of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accesses {
    /// What `plan` gets the elements of static inputs as.
    pub ports: Ports,
    /// The inputs.
    pub inputs: Vec<PortAccess>,
    /// The outputs, of which `load` is not used.
    pub outputs: Vec<PortAccess>,
    /// Of each parameter that is a tensor an element in Rust; nothing for the others.
    pub params: Vec<String>,
    /// An element of scratch in Rust, where `{scratch}` stands for the number of the scratch, and `{element}` for its type.
    pub scratch_load: String,
    /// The parameters of functions in Rust, behind the plan and the number, which the texts above use: names and types.
    pub arguments: Vec<(String, String)>,
    /// The error of these functions, which is made of a `Fault`.
    pub error: String,
    /// What names of kernels in OpenCL C begin with.
    pub prefix: String,
}

/// How work items reach the elements of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortAccess {
    /// An element as a number, in Rust.
    pub load: String,
    /// The same in OpenCL C.
    pub opencl: OpenClAccess,
}

/// How OpenCL C reaches the elements of a port, where `{name}` stands for the port's buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenClAccess {
    /// The type of the buffer's elements.
    pub element: String,
    /// An element as a number.
    pub load: String,
    /// The statement that stores the number `{value}`.
    pub store: String,
}

impl OpenClAccess {
    pub(super) fn load(&self, name: &str, at: &str) -> String {
        self.load.replace("{name}", name).replace("{at}", at)
    }

    fn store(&self, name: &str, value: &str) -> String {
        let store = self.store.replace("{name}", name).replace("{at}", "number");
        store.replace("{value}", value)
    }
}

/// A kernel of work items as text, in the parts that a package puts where they belong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemKernel {
    /// `struct Plan` and `fn plan(..) -> Result<Plan, Fault>`, as of [`RustKernel`](super::RustKernel).
    pub plan: String,
    /// `fn constants(plan, ..) -> String`: what has to stand before the OpenCL C, out of the plan and the elements of
    /// parameters that are tensors, in order.
    pub constants: String,
    /// The tensors, in the order in which they are worked out.
    pub items: Vec<Item>,
    /// What is kept between two of them.
    pub scratch: Vec<Scratch>,
    /// OpenCL C, behind what `constants` says.
    pub opencl: String,
    /// Whether `plan` reads the elements of a static input.
    pub reads_static: Vec<bool>,
}

/// How one tensor is worked out: as many work items as it has elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The function in Rust, which gives one element: its name and its text.
    pub name: String,
    /// Its text.
    pub code: String,
    /// The kernel in OpenCL C.
    pub kernel: String,
    /// Its arguments.
    pub buffers: Vec<Buffer>,
    /// The field of the plan that holds the tensor's extents.
    pub extents: String,
    /// Fields of the plan that are truth values, and what each has to be, else the tensor is left out.
    pub guards: Vec<(String, bool)>,
    /// Where the element goes.
    pub scratch: Option<usize>,
    /// Where it goes as well.
    pub output: Option<usize>,
    /// What it is.
    pub class: Class,
}

/// A buffer of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// An input; one that a node may leave out is then no argument.
    Input(usize),
    /// An output.
    Output(usize),
    /// Scratch by its number.
    Scratch(usize),
}

/// What is read, and where it is.
pub(super) struct Reads<'a> {
    pub(super) accesses: &'a Accesses,
    /// The tensors that are kept between two launches.
    scratch: Vec<usize>,
}

impl Reads<'_> {
    pub(super) fn scratch_of(&self, def: usize) -> Option<usize> {
        self.scratch.iter().position(|kept| *kept == def)
    }
}

/// The program as work items, if no elements decide an extent.
pub(crate) fn items(code: &Code, signature: &Signature, accesses: &Accesses) -> Option<ItemKernel> {
    let code = &super::rests::with_rests(code);
    // Numbers of outputs lose digits where they are stored, so those that are read again are kept.
    let is_output = |def: usize| code.outputs.iter().any(|output| output.def == def);
    let is_kept = |def: &usize| !is_output(*def) || super::is_read(code, *def);
    let scratch = (0..code.defs.len()).filter(is_kept).collect();
    let reads = Reads { accesses, scratch };
    let stored = |class| match class {
        Class::Float => "f32",
        Class::Int => "i64",
        Class::Bool => "u8",
    };
    let outputs = signature.outputs.iter().map(|port| stored(port.class).into()).collect();
    let ports = Ports { inputs: accesses.ports.inputs.clone(), outputs };
    let language = Rust::Items(&reads);
    let arguments = accesses.arguments.iter().map(|(name, _)| name.as_str());
    let own: Vec<&str> = arguments.chain(CONSTANTS_OWN).collect();
    let rust = Printer {
        code,
        signature,
        ports: &ports,
        names: Names::beside(&own, code, signature),
        language: &language,
    };
    if rust.is_bounded() {
        return None;
    }
    let functions: Vec<String> =
        (0..code.defs.len()).map(|def| rust.item_function(def, accesses)).collect();
    // What is known with the shapes comes from slices, as in any kernel.
    let shapes = Printer { names: rust.names.clone(), language: &Rust::Slices, ..rust };
    let finalize = shapes.finalize();
    let device = opencl::OpenClC { reads: &reads };
    let names = Names::of_opencl(code, signature, shapes.names.texts());
    let device = Printer { code, signature, ports: &ports, names, language: &device };
    let kernels: Vec<Kernel> =
        (0..code.defs.len()).map(|def| device.kernel(def, guards_of(code, def), &reads)).collect();
    let constants = constants(&shapes, &device);
    let texts: Vec<&str> =
        functions.iter().map(String::as_str).chain([constants.as_str()]).collect();
    let plan = finalize.text(&finalize.reads(&texts, None));
    let items = code.steps.iter().filter_map(|step| {
        let StepKind::Def(def) = step.kind else { return None };
        let kernel = kernels.get(def)?;
        let guard = |(slot, wanted): &(usize, bool)| (rust.names.scalar(*slot).to_owned(), *wanted);
        Some(Item {
            name: format!("element_of_{}", rust.names.def(def)),
            code: functions.get(def)?.clone(),
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
        opencl: device.opencl(&kernels),
        reads_static: shapes.reads_static(),
        plan,
        constants,
    })
}

/// What has to hold, else the tensor is left out.
fn guards_of(code: &Code, def: usize) -> &[(usize, bool)] {
    let step = code.steps.iter().find(|step| matches!(step.kind, StepKind::Def(of) if of == def));
    step.map_or(&[], |step| step.guards.as_slice())
}

/// A kernel in OpenCL C.
struct Kernel {
    name: String,
    buffers: Vec<Buffer>,
    text: String,
}

impl Printer<'_> {
    /// The buffer of a tensor that is kept; where it is an output as well, that has the tensor's own name.
    pub(super) fn kept_name(&self, def: usize) -> String {
        let name = self.names.def(def);
        if self.output_of(def).is_some() { format!("kept_{name}") } else { name.to_owned() }
    }

    /// The function that works out one element of a tensor.
    fn item_function(&self, number: usize, accesses: &Accesses) -> String {
        let Some((def, text)) = self.body_of(number) else { return String::new() };
        let error = &accesses.error;
        let unused = |name: &str| if support::has_bare(&text, name) { "" } else { "_" };
        let named = |(name, of): &(String, String)| format!("{}{name}: {of}", unused(name));
        let plan = ("plan".to_owned(), "&Plan".to_owned());
        let number_of = ("number".to_owned(), "usize".to_owned());
        let parameters: Vec<String> =
            [plan, number_of].iter().chain(&accesses.arguments).map(named).collect();
        let class = super::rust::type_of(def.class, Real::F32);
        let head = format!("fn element_of_{}", self.names.def(number));
        super::rust::function(&head, &parameters, &format!("Result<{class}, {error}>"), &text)
    }

    /// A tensor of elements, and the body of a function that works out one of them.
    fn body_of(&self, number: usize) -> Option<(&crate::ir::Def, String)> {
        let def = self.code.defs.get(number)?;
        match &def.kind {
            DefKind::Elements { binders, body } => {
                Some((def, self.element_body(number, def, binders, body)))
            }
            DefKind::Select(_) => None,
        }
    }

    /// The kernel that works out a tensor.
    fn kernel(&self, number: usize, guards: &[(usize, bool)], reads: &Reads<'_>) -> Kernel {
        let own = self.names.def(number);
        let name = format!("{}_{own}", reads.accesses.prefix);
        let Some((def, text)) = self.body_of(number) else {
            return Kernel { name, buffers: Vec::new(), text: String::new() };
        };
        let (mut head, mut absent, mut buffers) = (String::new(), String::new(), Vec::new());
        for source in super::sources_of(self.code, def) {
            let (buffer, element, called) = match source {
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
            if !support::has_word(&text, &called) {
                continue;
            }
            buffers.push(buffer);
            let parameter = format!("__global const {element} *{called}");
            if self.may_be_absent(source) {
                let _ = write!(head, "#ifdef HAS_{called}\n    {parameter},\n#endif\n");
                let _ = write!(absent, "#ifndef HAS_{called}\n    {parameter} = 0;\n#endif\n");
            } else {
                let _ = writeln!(head, "    {parameter},");
            }
        }
        let mut own_parameters = Vec::new();
        let mut stores = String::new();
        if let Some(scratch) = reads.scratch_of(number) {
            let kept = self.kept_name(number);
            buffers.push(Buffer::Scratch(scratch));
            own_parameters.push(format!("    __global {} *{kept}", opencl::stored_type(def.class)));
            let _ = writeln!(stores, "    {kept}[number] = value;");
        }
        if let Some(output) = self.output_of(number) {
            let port = reads.accesses.outputs.get(output);
            buffers.push(Buffer::Output(output));
            own_parameters.push(format!(
                "    __global {} *{own}",
                port.map_or("", |port| port.opencl.element.as_str())
            ));
            let store = port.map_or(String::new(), |port| port.opencl.store(own, "value"));
            let _ = writeln!(stores, "    {store}");
        }
        let parameters = own_parameters.join(",\n");
        let dims = self.names.dims(Source::Def(number));
        let guard = |(slot, wanted): &(usize, bool)| {
            let sign = if *wanted { "!" } else { "" };
            format!(" || {sign}plan.{}", self.names.scalar(*slot))
        };
        let guards = guards.iter().map(guard).collect::<Vec<_>>().concat();
        let text = format!(
            "__kernel void {name}(\n{head}{parameters}\n) {{\n{absent}    const Plan plan = KNOWN;\n    const long number = (long)get_global_id(0);\n    if (number >= list_count(plan.{dims}){guards}) {{\n        return;\n    }}\n{text}{stores}}}\n"
        );
        Kernel { name, buffers, text }
    }

    fn may_be_absent(&self, source: Source) -> bool {
        let Source::Input(input) = source else { return false };
        self.signature.inputs.get(input).is_some_and(|port| port.optional && port.default.is_none())
    }

    /// The source, behind the constants.
    fn opencl(&self, kernels: &[Kernel]) -> String {
        let texts: String =
            kernels.iter().map(|kernel| kernel.text.as_str()).collect::<Vec<_>>().join("\n");
        let mut fields = String::new();
        for (name, of) in self.device_fields() {
            let of = match of {
                "List" => "List",
                "f64" => "float",
                _ => "long",
            };
            let _ = writeln!(fields, "    {of} {name};");
        }
        let mut lists = String::new();
        for (param, class) in self.list_params() {
            let (name, of) = (self.names.param(param), opencl::stored_type(class));
            if support::has_word(&texts, name) {
                let _ = writeln!(lists, "__constant {of} {name}[] = LIST_{name};");
            }
        }
        let support = support::opencl(&texts);
        let pragma = "#pragma OPENCL FP_CONTRACT OFF";
        format!(
            "{pragma}\n\n{support}\n// What is known with the shapes. Work items copy it: a compiler was seen to read other lists than are in constants.\ntypedef struct {{\n{fields}}} Plan;\n\n__constant Plan KNOWN = PLAN;\n{lists}\n{texts}"
        )
    }

    /// The fields of the plan as a device has them: nothing lies between them, as a kernel was seen to be right without padding in
    /// its constants that was wrong with it.
    fn device_fields(&self) -> Vec<(String, &'static str)> {
        let mut fields = self.fields();
        fields.sort_by_key(|(_, of)| *of == "f64");
        fields
    }

    /// The parameters that are tensors, and what their elements are.
    fn list_params(&self) -> impl Iterator<Item = (usize, Class)> {
        let params = self.signature.params.iter().enumerate();
        params.filter_map(|(number, param)| match param.kind {
            ParamKind::Tensor(class) => Some((number, class)),
            ParamKind::Scalar(_) | ParamKind::Text => None,
        })
    }
}

/// The names that `constants` has beside those of its parameters.
const CONSTANTS_OWN: [&str; 2] = ["fields", "text"];

/// `fn constants`: the plan of the one as the initializers that the source of the other names.
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
        "/// What stands before the OpenCL C: what is known with the shapes, as constants.\n{function}"
    )
}
