//! Views: the variables of templates, made of a checked config. They contain names, flags, and code that is already
//! formatted.

mod kernel;
mod params;
mod reference;
mod sample;
mod schema;
mod test;
mod types;

use serde::Serialize;

use crate::{
    config::{Core, Op, Package},
    names,
    stamp::Stamp,
};

pub use kernel::OPENCL_SUPPORT;
pub(crate) use kernel::{GpuSource, cpu, dsp, gpu};
pub(crate) use params::ParamsView;
pub(crate) use reference::{ReferenceView, formula};
pub(crate) use schema::{registration, schema};

/// A package for all templates.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PackageView {
    pub(crate) name: String,
    /// Its version, if the config sets it.
    pub(crate) version: Option<String>,
    /// The version of the SDK.
    pub(crate) sdk_version: &'static str,
    /// The config files, such as `config/a.json, config/b.json`.
    pub(crate) configs: String,
    /// The dependency on `udo-api`, as a TOML value.
    pub(crate) udo_api: String,
    /// The crate that kernels share.
    pub(crate) common: String,
    /// The dependency on `udo-testing`, as a TOML value.
    pub(crate) udo_testing: String,
    /// The registration library, then the implementation libraries.
    pub(crate) libraries: Vec<LibraryView>,
    /// Whether files are or were printed from references.
    pub(crate) has_reference: bool,
    /// Whether kernels have parameter structs.
    pub(crate) has_params: bool,
    /// Whether OpenCL C is printed from references.
    pub(crate) has_opencl: bool,
    /// The support code that files printed from references share.
    pub(crate) support: String,
    /// The additional code for the GPU, which formats constants for OpenCL C.
    pub(crate) constants_support: &'static str,
    pub(crate) opencl_support: &'static str,
    /// The formulas of its operators that have references.
    pub(crate) formulas: Vec<FormulaView>,
    /// The libraries for `make`: `cpu`, `gpu` and `dsp`, each with its crates.
    pub(crate) targets: Vec<MakeTarget>,
}

/// The formula of an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FormulaView {
    pub(crate) op: String,
    /// The reference as written, indented as a Markdown code block.
    pub(crate) source: String,
}

impl FormulaView {
    /// Returns the formulas of a package.
    pub(crate) fn all(package: &Package) -> Vec<Self> {
        let formula = |op: &Op| {
            let line = |line: &str| format!("    {line}").trim_end().to_owned();
            let lines: Vec<String> = op.reference.as_deref()?.lines().map(line).collect();
            Some(Self { op: op.name.clone(), source: lines.join("\n") })
        };
        package.ops.iter().filter_map(formula).collect()
    }
}

/// A target of the Makefile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct MakeTarget {
    pub(crate) name: &'static str,
    /// The arguments for Cargo, such as `-p a -p b`.
    pub(crate) crates: String,
}

/// One library crate of a package.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LibraryView {
    /// The crate's folder, such as `DSP_V66/softmax`.
    pub(crate) folder: String,
    /// The relative path from its sources to the package, such as `../../`.
    pub(crate) up: &'static str,
    pub(crate) crate_name: String,
    /// `reg`, or the core such as `dsp:v68`.
    pub(crate) core: String,
    /// The library's path in `dist/`.
    pub(crate) file: String,
    /// The title, such as `the CPU`.
    pub(crate) title: String,
    /// The modules of its operators' parameters.
    pub(crate) params: Vec<String>,
    /// The modules of its operators' formulas.
    pub(crate) formulas: Vec<String>,
    /// The modules of its operators.
    pub(crate) modules: Vec<String>,
    /// The DSP architecture of a library that may hold any number of operators.
    pub(crate) arch: Option<u16>,
    /// The operator modules whose files belong to another library.
    pub(crate) shared: Vec<SharedView>,
    /// The operators' names.
    pub(crate) ops: Vec<String>,
    /// The package's name.
    pub(crate) package: String,
    /// The paths of its kernels, in config order.
    pub(crate) kernels: Vec<String>,
    /// The tables of its `lib.rs`.
    pub(crate) tables: String,
    /// The imports of its `lib.rs`.
    pub(crate) imports: String,
}

/// Files that a library uses from another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct SharedView {
    /// The other library's folder.
    pub(crate) folder: String,
    /// The module that contains them, such as `v68`.
    pub(crate) name: String,
    pub(crate) modules: Vec<String>,
}

/// One operator in one library.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct OpView {
    pub(crate) name: String,
    pub(crate) module: String,
    /// The type of the operator.
    pub(crate) type_name: String,
    /// The fingerprint of its config.
    pub(crate) config: String,
    pub(crate) title: String,
    pub(crate) imports: String,
    /// The constants at the start of the file.
    pub(crate) tables: String,
    /// The declaration of the computing function, if it depends on the config.
    pub(crate) signature: String,
    /// The struct of its parameters, if kernels have one and the operator has parameters.
    pub(crate) params: Option<ParamsView>,
    /// The registration of a DSP kernel, `dsp_kernel!(..);`.
    pub(crate) registration: String,
    /// The reason why no code is printed from its reference, if it has one.
    pub(crate) note: Option<String>,
    /// The code printed from its reference, if any.
    pub(crate) reference: Option<ReferenceView>,
    /// A node for the test of shape inference printed from a reference.
    pub(crate) sample: Option<SampleView>,
    /// The code that gives each output the shape of the first input.
    pub(crate) inference: String,
    /// The arguments of the OpenCL kernel.
    pub(crate) args: Vec<GpuArgView>,
    /// Whether some arguments are optional.
    pub(crate) has_optional_args: bool,
    /// The parameters of the OpenCL function, comma-separated.
    pub(crate) cl_params: String,
    /// The test of its kernel, if it is a kernel's file.
    pub(crate) test: Option<TestView>,
}

/// The test of a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct TestView {
    /// The names of `udo-api` that it uses.
    pub(crate) types: String,
    /// The statement that creates the bench.
    pub(crate) bench: String,
    /// The assertion for a finished kernel.
    pub(crate) wanted: String,
    /// A node with its results by the reference, if the kernel is printed from one.
    pub(crate) sample: Option<SampleView>,
}

/// A node of a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct SampleView {
    /// The names of `udo-api` that it uses, if any.
    pub(crate) types: String,
    /// The names of `udo-testing` that it uses.
    pub(crate) helpers: String,
    /// The statements that create the node and compare the results.
    pub(crate) body: String,
}

/// One buffer of an OpenCL kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct GpuArgView {
    /// `input` or `output`.
    pub(crate) side: &'static str,
    pub(crate) port: usize,
    /// Whether a node may omit it; the kernel is then built without it.
    pub(crate) may_be_absent: bool,
}

impl OpView {
    fn new(op: &Op, core: Option<Core>) -> Self {
        Self {
            name: op.name.clone(),
            module: names::module_name(&op.name),
            type_name: names::to_upper_camel_case(&op.name),
            config: Stamp::for_op(op, core).fingerprint(),
            title: String::new(),
            imports: String::new(),
            tables: String::new(),
            signature: String::new(),
            params: None,
            registration: String::new(),
            note: None,
            reference: None,
            sample: None,
            inference: inference(op),
            args: Vec::new(),
            has_optional_args: false,
            cl_params: String::new(),
            test: core.map(|core| test::test(op, core)),
        }
    }
}

/// Prints `cx.set_output(0, first)` for each output, with its own type if the config differs; optional outputs only if
/// the node has them.
fn inference(op: &Op) -> String {
    let first = op.inputs.first().map(|input| &input.types);
    let mut lines = Vec::new();
    for (index, output) in op.outputs.iter().enumerate() {
        let has_type_of_first = first.is_none_or(|first| *first == output.types);
        let mut statements = Vec::new();
        if has_type_of_first {
            statements.push(format!("cx.set_output({index}, first)?;"));
        } else {
            statements.push(format!("let of = {};", reference::output_type(op, output)));
            statements
                .push(format!("cx.set_output({index}, TensorDesc::new(of, first.full_shape()))?;"));
        }
        if output.is_optional {
            lines.push(format!("if cx.output_count() > {index} {{"));
            lines.extend(statements.iter().map(|line| format!("    {line}")));
            lines.push("}".to_owned());
        } else {
            lines.extend(statements);
        }
    }
    match lines.last_mut() {
        Some(last) if last.ends_with("?;") => last.truncate(last.len() - 2),
        _ => lines.push("Ok(())".to_owned()),
    }
    lines.join("\n        ")
}

/// Returns the folder, crate and library names of one core's library; DSPs before V68 have one per operator.
pub(crate) fn library(package: &Package, core: Core, op: Option<&Op>) -> LibraryView {
    let name = &package.name;
    let prefix = names::to_snake_case(name);
    let folder = core.to_string();
    let lower = folder.to_ascii_lowercase();
    let (file, core_name, title) = match core {
        Core::Cpu => (format!("libUdo{name}ImplCpu.so"), "cpu".to_owned(), "the CPU".to_owned()),
        Core::Gpu => (format!("libUdo{name}ImplGpu.so"), "gpu".to_owned(), "the GPU".to_owned()),
        Core::Dsp(arch) => (
            format!("{lower}/libUdo{name}ImplDsp.so"),
            format!("dsp:v{arch}"),
            format!("the DSP V{arch}"),
        ),
    };
    let mut view = LibraryView {
        crate_name: format!("{prefix}_{lower}"),
        folder,
        up: "../../",
        core: core_name,
        file,
        title,
        params: Vec::new(),
        formulas: Vec::new(),
        modules: Vec::new(),
        arch: match core {
            Core::Dsp(arch) if op.is_none() => Some(arch),
            Core::Cpu | Core::Gpu | Core::Dsp(_) => None,
        },
        shared: Vec::new(),
        ops: Vec::new(),
        package: name.clone(),
        kernels: Vec::new(),
        tables: String::new(),
        imports: String::new(),
    };
    if let Some(op) = op {
        let module = names::module_name(&op.name);
        view.crate_name = format!("{prefix}_{lower}_{module}");
        view.folder = format!("{}/{module}", view.folder);
        view.up = "../../../";
        view.file = format!("{lower}/libUdo{name}ImplDsp_{}.so", op.name);
    }
    view
}
