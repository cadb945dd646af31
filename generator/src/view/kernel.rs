//! The op files of implementation libraries, and their tables.

use super::{
    GpuArgView, LibraryView, OpView, ParamsView, SharedView, library, reference, sample,
    types::{core_code, dtype, element, gpu_type, list_element, own_type, type_set, type_set_code},
};
use crate::{
    code::{Expr, WIDTH, constant, fields, import, signature, untouched_macro},
    config::{Core, DataType, Family, Op, Package, Tensor},
    names,
};

/// The keywords of OpenCL C that are not keywords of C.
const OPENCL_KEYWORDS: &[&str] = &[
    "bfloat16",
    "constant",
    "event_t",
    "global",
    "half",
    "image",
    "kernel",
    "local",
    "pipe",
    "quad",
    "read_only",
    "read_write",
    "sampler_t",
    "uchar",
    "uint",
    "ulong",
    "uniform",
    "ushort",
    "vec_step",
    "write_only",
];

impl LibraryView {
    /// Returns the view of the library with the kernels of these operators.
    pub(crate) fn of_kernels(package: &Package, core: Core, ops: &[&Op], op: Option<&Op>) -> Self {
        let mut view = library(package, core, op);
        view.ops = ops.iter().map(|op| op.name.clone()).collect();
        view.modules = ops.iter().map(|op| names::module_name(&op.name)).collect();
        view.kernels = view.modules.iter().map(|name| format!("ops::{name}::KERNEL")).collect();
        view.print_tables();
        // rustfmt sorts `mod` lines; the tables keep the order of the config.
        view.modules.sort_unstable();
        // Functions for the DSP get parameters as arguments.
        if matches!(core, Core::Cpu | Core::Gpu) {
            let ops = ops.iter().filter(|op| ParamsView::new(op).is_some());
            view.params = ops.map(|op| names::module_name(&op.name)).collect();
            view.params.sort_unstable();
        }
        view.imports = import("udo_api", &["KernelDef", "PackageV1"]);
        view
    }

    /// Prints the tables of its kernels.
    fn print_tables(&mut self) {
        let kernels = self.kernels.iter().map(Expr::atom).collect();
        let mut tables = vec![constant("const NAME: &str", &Expr::text(&self.package))];
        if let Some(arch) = self.arch {
            // Libraries of several architectures share files, which use this constant.
            tables.push(constant("pub const ARCH: u16", &Expr::atom(arch.to_string())));
        }
        tables.push(constant("const KERNELS: &[KernelDef]", &Expr::Array(kernels)));
        self.tables = tables.join("\n\n");
    }

    /// Uses the operator file of another architecture's library.
    pub(crate) fn take(&mut self, op: &Op, from: Core) {
        let module = names::module_name(&op.name);
        let folder = from.to_string();
        let name = folder.to_ascii_lowercase().trim_start_matches("dsp_").to_owned();
        self.modules.retain(|own| *own != module);
        for kernel in
            self.kernels.iter_mut().filter(|kernel| **kernel == format!("ops::{module}::KERNEL"))
        {
            *kernel = format!("{name}::{module}::KERNEL");
        }
        match self.shared.iter_mut().find(|shared| shared.name == name) {
            Some(shared) => {
                shared.modules.push(module);
                shared.modules.sort_unstable();
            }
            None => self.shared.push(SharedView { folder, name, modules: vec![module] }),
        }
        self.print_tables();
    }

    /// Adds the formulas of these operators, which its kernels use.
    pub(crate) fn use_formulas<'o>(&mut self, ops: impl Iterator<Item = &'o Op>) {
        self.formulas = ops.map(|op| names::module_name(&op.name)).collect();
        self.formulas.sort_unstable();
    }

    /// Whether the operator's file belongs to another library.
    pub(crate) fn takes(&self, op: &Op) -> bool {
        let module = names::module_name(&op.name);
        self.shared.iter().any(|shared| shared.modules.contains(&module))
    }
}

/// Returns the view of an operator on the CPU.
pub(crate) fn cpu(op: &Op) -> OpView {
    let mut view = OpView::new(op, Some(Core::Cpu));
    let main = op.inputs.first().and_then(|tensor| tensor.type_on(Core::Cpu));
    view.type_name.push_str(dtype(main.unwrap_or(DataType::Float32)));
    view.params = ParamsView::new(op);
    "the CPU".clone_into(&mut view.title);
    let mut used =
        vec!["Core", "Error", "ExecError", "FinalizeCx", "Io", "Kernel", "KernelDef", "PortRule"];
    let is_printed = view.print_kernel(op, Core::Cpu);
    if is_printed {
        used.push("Workspace");
    }
    let rules = fixed_rules(op, Core::Cpu, &mut used);
    let rules = view.bounded_rules(rules, op);
    let entry = kernel_entry(&view, "KernelDef::new", Core::Cpu);
    view.tables = tables(&entry, rules);
    view.imports = import("udo_api", &used);
    view
}

/// Returns the view of an operator on a DSP: a plain function, outputs first.
pub(crate) fn dsp(op: &Op, arch: u16) -> OpView {
    let core = Core::Dsp(arch);
    let mut view = OpView::new(op, Some(core));
    view.type_name.push_str("Dsp");
    view.title = if core.is_one_op_per_library() {
        format!("the DSP V{arch}")
    } else {
        format!("the DSP from V{arch} on")
    };
    let mut used =
        vec!["Core", "Cost", "ExecError", "KernelDef", "Scratch", "PortRule", "dsp_kernel"];
    let is_printed = view.print_kernel(op, core);
    let rules = fixed_rules(op, core, &mut used);
    let rules = view.bounded_rules(rules, op);
    let entry =
        kernel_entry(&view, "KernelDef::new", core).then("cost", [Expr::atom("Cost::Snail")]);
    view.tables = tables(&entry, rules);
    if is_printed {
        used.retain(|name| !["Scratch", "dsp_kernel"].contains(name));
        used.extend(["Error", "FinalizeCx", "Io", "Kernel", "Workspace"]);
        view.imports = import("udo_api", &used);
        return view;
    }

    let suffix = if core.is_one_op_per_library() { "execute_op" } else { "impl" };
    let function = format!("{}_{suffix}", view.module);
    let outputs = ports(&op.outputs, core, "QuantMut", &mut used);
    let inputs = ports(&op.inputs, core, "Quant", &mut used);
    let params = dsp_params(op);

    let tensors = outputs.iter().chain(&inputs).map(|port| port.argument.clone());
    let mut arguments: Vec<String> = tensors.collect();
    arguments.extend(params.iter().map(|(field, of, _)| format!("_{field}: {of}")));
    arguments.push("_vtcm: Scratch<'_>".to_owned());
    view.signature = signature(&function, &arguments, "Result<(), ExecError>");

    let list = |ports: &[DspPort]| -> String {
        ports.iter().map(|port| port.entry.as_str()).collect::<Vec<_>>().join(", ")
    };
    let params = params.into_iter().map(|(field, of, name)| {
        let name = if field == name { String::new() } else { format!(" = {name:?}") };
        format!("{field}: {of}{name}")
    });
    let parts = [
        format!("out: [{}]", list(&outputs)),
        format!("in: [{}]", list(&inputs)),
        fields("params: ", &params.collect::<Vec<_>>()),
    ];
    let head = format!("{} = {function}", view.type_name);
    view.registration = untouched_macro("dsp_kernel", &head, &parts);
    view.imports = import("udo_api", &used);
    view
}

/// A port of a DSP function.
struct DspPort {
    /// Its entry in `dsp_kernel!`.
    entry: String,
    argument: String,
}

fn ports(
    tensors: &[Tensor],
    core: Core,
    view: &'static str,
    used: &mut Vec<&'static str>,
) -> Vec<DspPort> {
    let port = |tensor: &Tensor| {
        let of = element(tensor.type_on(core).unwrap_or(DataType::Uint8));
        used.push(view);
        used.extend(own_type(of));
        let (mut entry, mut given) = (of.to_owned(), format!("{view}<'_, {of}>"));
        if tensor.may_be_absent() {
            entry = format!("Option<{entry}>");
            given = format!("Option<{given}>");
        }
        DspPort { entry, argument: format!("_{}: {given}", variable(&tensor.name)) }
    };
    tensors.iter().map(port).collect()
}

/// Returns the parameters of a DSP function: the variable, its type, and the parameter's name.
fn dsp_params(op: &Op) -> Vec<(String, String, &str)> {
    let scalars = op.scalar_params.iter().map(|param| {
        let of = match param.dtype.family() {
            Family::Text => "&str",
            Family::Float(_) | Family::Fixed => "f32",
            Family::Integer(..) => element(param.dtype),
            Family::Truth => "bool",
        };
        (variable(&param.name), or_none(of.to_owned(), param.may_be_absent()), param.name.as_str())
    });
    let lists = op.tensor_params.iter().map(|tensor| {
        // A list is absent or present; an empty default is an empty list.
        let may_be_absent = tensor.is_optional && tensor.default.is_none();
        let of = or_none(format!("&[{}]", list_element(tensor)), may_be_absent);
        (variable(&tensor.name), of, tensor.name.as_str())
    });
    scalars.chain(lists).collect()
}

fn or_none(of: String, may_be_absent: bool) -> String {
    if may_be_absent { format!("Option<{of}>") } else { of }
}

impl OpView {
    /// Prints a first kernel and its test, if the operator's reference gives one on the core; returns whether it
    /// does.
    fn print_kernel(&mut self, op: &Op, core: Core) -> bool {
        match reference::kernel(op, core) {
            Some(Ok(printed)) => self.reference = Some(printed),
            Some(Err(why)) => self.note = Some(why.to_string()),
            None => {}
        }
        if let (Some(_), Some(test)) = (&self.reference, &mut self.test) {
            test.sample = sample::sample(op, core);
        }
        self.reference.is_some()
    }

    /// Marks outputs as bounded if elements determine dimensions.
    fn bounded_rules(&self, mut rules: Vec<Expr>, op: &Op) -> Vec<Expr> {
        if self.reference.as_ref().is_some_and(|printed| printed.is_bounded) {
            let outputs = rules.split_off(op.inputs.len());
            rules.extend(outputs.into_iter().map(|rule| rule.then("bounded", [])));
        }
        rules
    }
}

/// How the OpenCL C of an operator includes the shared code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GpuSource {
    /// The library joins the files at compile time.
    Joined,
    /// The operator's own file contains a copy, as in earlier versions.
    Pasted,
}

impl GpuSource {
    /// Returns the value of `SOURCE`. Each file's lines are counted from its first one, under its name.
    fn constant(self, module: &str) -> String {
        let own = format!("kernels/{module}.cl");
        // Matches rustfmt's layout of a macro whose text is too wide.
        let file = |path: String| {
            let line = format!("include_str!({path:?})");
            let is_short = "    ".len() + line.len() < WIDTH;
            let below = || format!("include_str!(\n        {path:?}\n    )");
            Expr::atom(if is_short { line } else { below() })
        };
        let value = match self {
            Self::Pasted => Expr::call("include_str!", [Expr::text(&format!("../../{own}"))]),
            Self::Joined => Expr::call(
                "concat!",
                [
                    Expr::text(&format!("#line 1 {OPENCL_SUPPORT:?}\n")),
                    file(format!("../../../{OPENCL_SUPPORT}")),
                    Expr::text(&format!("#line 1 \"GPU/{own}\"\n")),
                    file(format!("../../{own}")),
                ],
            ),
        };
        constant("const SOURCE: &str", &value)
    }
}

/// The file of a package with the code that all of its printed OpenCL C shares.
pub const OPENCL_SUPPORT: &str = "common/reference.cl";

/// Returns the view of an operator on the GPU: OpenCL C, and one work item in Rust.
pub(crate) fn gpu(op: &Op, source: GpuSource) -> OpView {
    let mut view = OpView::new(op, Some(Core::Gpu));
    view.type_name = gpu_type(op);
    view.params = ParamsView::new(op);
    "the GPU".clone_into(&mut view.title);
    let mut used = vec![
        "Buffers",
        "Error",
        "ExecError",
        "FinalizeCx",
        "GpuArg",
        "GpuKernel",
        "KernelDef",
        "KernelInfo",
        "Launch",
        "PortRule",
        "WorkItem",
        "WorkItemFn",
    ];
    let rules = storage_rules(op, &mut used);
    let entry =
        Expr::call(format!("KernelDef::gpu::<{}>", view.type_name), [Expr::text(&view.name)]);
    let is_printed = view.print_kernel(op, Core::Gpu);
    // A file that is not printed uses no shared code.
    let source = if is_printed { source } else { GpuSource::Pasted };
    let mut constants = vec![
        tables(&entry.then("ports", [Expr::atom("PORTS")]), rules),
        source.constant(&view.module),
    ];
    if let Some(printed) = view.reference.as_mut() {
        if source == GpuSource::Pasted {
            printed.opencl = [udo_reference::opencl_support(), "\n\n", &printed.opencl].concat();
        }
        let is_kept =
            |name: &&str| !["Buffers", "ExecError", "GpuArg", "Launch", "WorkItem"].contains(name);
        used.retain(is_kept);
        view.tables = constants.join("\n\n");
        view.imports = import("udo_api", &used);
        return view;
    }
    let name = format!("{}_kernel", view.module);
    constants.push(constant("const KERNEL_NAME: &str", &Expr::text(&name)));
    view.tables = constants.join("\n\n");
    let item = ["_item: WorkItem".to_owned(), "_buffers: &Buffers<'_>".to_owned()];
    let params: Vec<String> =
        [format!("_kernel: &{}", view.type_name)].into_iter().chain(item).collect();
    view.signature = signature("work_item", &params, "Result<(), ExecError>");
    let mut cl_params = ClParams::default();
    for (side, qualifier, tensors) in [("input", "const ", &op.inputs), ("output", "", &op.outputs)]
    {
        for (port, tensor) in tensors.iter().enumerate() {
            let may_be_absent = tensor.may_be_absent();
            view.args.push(GpuArgView { side, port, may_be_absent });
            let of = match tensor.type_on(Core::Gpu) {
                Some(DataType::Uint8 | DataType::Bool8) => "uchar",
                Some(DataType::Uint32) => "uint",
                Some(DataType::Int32) => "int",
                Some(DataType::Int64) => "long",
                Some(_) | None => "UDO_STORAGE",
            };
            let mut name = names::variable_name(&tensor.name);
            if OPENCL_KEYWORDS.contains(&name.as_str()) {
                name.push('_');
            }
            let param = format!("__global {qualifier}{of} *{name}");
            let condition = may_be_absent.then(|| format!("HAS_{}_{port}", side.to_uppercase()));
            cl_params.add(&param, condition.as_deref());
        }
    }
    view.has_optional_args = view.args.iter().any(|arg| arg.may_be_absent);
    view.cl_params = cl_params.lines.join("\n");
    view.imports = import("udo_api", &used);
    view
}

/// The parameters of an OpenCL function, one per line, optional ones between `#ifdef` and `#endif`.
#[derive(Default)]
struct ClParams {
    lines: Vec<String>,
    /// Whether a required parameter comes before.
    is_anchored: bool,
}

impl ClParams {
    fn add(&mut self, param: &str, condition: Option<&str>) {
        match (condition, self.is_anchored) {
            (Some(condition), true) => {
                self.lines.push(format!("#ifdef {condition}\n    , {param}\n#endif"));
            }
            (Some(condition), false) => {
                self.lines.push(format!("#ifdef {condition}\n    {param},\n#endif"));
            }
            (None, is_anchored) => {
                match self.lines.last_mut().filter(|line| is_anchored && !line.ends_with("#endif"))
                {
                    Some(line) => {
                        line.push(',');
                        self.lines.push(format!("    {param}"));
                    }
                    None if is_anchored => self.lines.push(format!("    , {param}")),
                    None => self.lines.push(format!("    {param}")),
                }
                self.is_anchored = true;
            }
        }
    }
}

/// Returns the variable of a tensor or parameter; `vtcm` is reserved.
fn variable(name: &str) -> String {
    let variable = names::variable_name(name);
    if variable == "vtcm" { variable + "_" } else { variable }
}

fn kernel_entry(view: &OpView, path: &str, core: Core) -> Expr {
    let of_crate = matches!(core, Core::Dsp(_)) && !core.is_one_op_per_library();
    let core = if of_crate { "Core::dsp(crate::ARCH)".to_owned() } else { core_code(core) };
    let args = [Expr::text(&view.name), Expr::atom(core)];
    Expr::call(format!("{path}::<{}>", view.type_name), args).then("ports", [Expr::atom("PORTS")])
}

fn tables(entry: &Expr, rules: Vec<Expr>) -> String {
    let entry = constant("pub(crate) const KERNEL: KernelDef", entry);
    let rules = constant("const PORTS: &[PortRule]", &Expr::Array(rules));
    format!("{entry}\n\n{rules}")
}

fn rule(function: &'static str, port: usize, what: impl Into<String>) -> Expr {
    Expr::call(function, [Expr::atom(port.to_string()), Expr::atom(what)])
}

/// Prints one type per port.
fn fixed_rules(op: &Op, core: Core, used: &mut Vec<&'static str>) -> Vec<Expr> {
    let mut rules = Vec::new();
    for (side, tensors) in [("input", &op.inputs), ("output", &op.outputs)] {
        for (port, tensor) in tensors.iter().enumerate() {
            let Some(data_type) = tensor.type_on(core) else { continue };
            used.extend([side, "types"]);
            rules.push(rule(side, port, type_set_code(&[dtype(data_type)])));
        }
    }
    rules
}

/// Prints f32 or f16, the same one on all ports.
fn storage_rules(op: &Op, used: &mut Vec<&'static str>) -> Vec<Expr> {
    let mut rules = Vec::new();
    let mut first_float = None;
    for (side, like, tensors) in
        [("input", "input_like", &op.inputs), ("output", "output_like", &op.outputs)]
    {
        for (port, tensor) in tensors.iter().enumerate() {
            let Some(data_type) = tensor.type_on(Core::Gpu) else { continue };
            let is_float = matches!(data_type.family(), Family::Float(_));
            rules.push(match first_float {
                Some(first) if is_float => {
                    used.push(like);
                    rule(like, port, format!("{first}"))
                }
                Some(_) | None => {
                    used.extend([side, "types"]);
                    let set = type_set(Core::Gpu, data_type);
                    if is_float && side == "input" {
                        first_float = Some(port);
                    }
                    rule(side, port, type_set_code(&set))
                }
            });
        }
    }
    rules
}
