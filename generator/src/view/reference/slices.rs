//! Prints the first kernel of an operator with a reference for the CPU and the DSP: loops over slices that convert
//! elements to numbers when read, and back when written.

use udo_reference::{Codes, Port, Ports, RustKernel};

use super::{
    Kernel, OpFormula, PLAIN, Uses, indented, is_encoded, module, node,
    state::{KernelState, Loops},
    stored_type, table,
};
use crate::config::{Core, Tensor};

/// The names of `udo-api` that the printed kernel may import.
const NAMES: &[&str] = &[
    "Bool",
    "DspParam",
    "Encoding",
    "Error",
    "ExecError",
    "F16",
    "FinalizeCx",
    "Io",
    "Node",
    "Quant",
    "Workspace",
];

/// Prints the module of a kernel.
pub(super) fn print(source: &OpFormula<'_>, core: Core) -> Kernel {
    let Loops { state, execute } =
        table::print(source, core).unwrap_or_else(|| loops(source, core));
    let support = udo_reference::support();
    let uses = Uses::with_formula(source, NAMES).and_support(&support);
    Kernel { code: module("loops", &uses, &[&state, &execute]), opencl: String::new() }
}

/// Prints the loops of a kernel over the stored elements.
fn loops(source: &OpFormula<'_>, core: Core) -> Loops {
    let port = |port: &Tensor| port_of(port, core);
    let ports = Ports {
        inputs: source.op.inputs.iter().map(port).collect(),
        outputs: source.op.outputs.iter().map(port).collect(),
    };
    let kernel = source.program.rust(&ports);
    Loops { state: print_state(source, core, &kernel), execute: kernel.text }
}

/// Returns how the loops access the elements of a port.
fn port_of(port: &Tensor, core: Core) -> Port {
    let element_type = stored_type(port, core);
    if !is_encoded(port, core) {
        return element_type.into();
    }
    // The encoding's own functions use single precision, which cannot represent all 32-bit integers.
    let codes = if matches!(element_type, "i32" | "u32") {
        Codes {
            load: "((f64::from({port}.data[{at}]) - f64::from({port}.encoding.zero_point)) * f64::from({port}.encoding.scale)) as f32".to_owned(),
            store: format!("((f64::from({{value}}) / f64::from({{encoding}}.scale)).round_ties_even() + f64::from({{encoding}}.zero_point)) as {element_type}"),
        }
    } else {
        Codes {
            load: "{port}.encoding.dequantize({port}.data[{at}])".to_owned(),
            store: "{encoding}.quantize({value})".to_owned(),
        }
    };
    Port { element: element_type.to_owned(), codes: Some(codes) }
}

/// Prints `struct Kept`: the state from finalize, and the call of the loops.
fn print_state(source: &OpFormula<'_>, core: Core, kernel: &RustKernel) -> String {
    let (op, is_bounded) = (source.op, source.formula.is_bounded);
    let mut lines = Lines { is_bounded, ..Lines::default() };
    let plan = node::plan(source, "false", Some(core));
    lines.fields.push("plan: Plan,".to_owned());
    lines.constructor.push(format!("plan: {}?,", plan.call));
    lines.arguments.push("&self.plan".to_owned());
    for (index, port) in op.inputs.iter().enumerate() {
        lines.input(index, port, core);
    }
    for (index, param) in op.tensor_params.iter().enumerate() {
        lines.list(index, param);
    }
    for (index, part) in kernel.scratch.iter().enumerate() {
        let (element, extents) = (&part.element, &part.extents);
        lines.workspace.push(format!(".and::<{element}>(self.plan.{extents}.size())"));
        lines.run.push(format!(
            "let scratch_{index} = scratch.take::<{element}>(self.plan.{extents}.size())?;"
        ));
        lines.arguments.push(format!("scratch_{index}"));
    }
    for (index, (port, extents)) in op.outputs.iter().zip(&source.formula.extents).enumerate() {
        lines.output(index, port, core);
        if is_bounded {
            lines.extents(index, extents);
        }
    }
    let parts = [lines.print(), node::list_types(op, core), plan.function];
    parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join("\n")
}

/// The parts of `struct Kept`, one entry per printed line.
#[derive(Default)]
struct Lines {
    is_bounded: bool,
    /// The fields of the state.
    fields: Vec<String>,
    /// The initializers of the fields.
    constructor: Vec<String>,
    /// The calls that add scratch memory to the workspace.
    workspace: Vec<String>,
    /// The statements before the call of the loops.
    run: Vec<String>,
    /// The statements after it.
    after: Vec<String>,
    /// The arguments of the call.
    arguments: Vec<String>,
}

impl Lines {
    /// Adds an input, with its encoding if it has one.
    fn input(&mut self, index: usize, port: &Tensor, core: Core) {
        let element_type = stored_type(port, core);
        let (present, absent) = if is_encoded(port, core) {
            (format!("Quant::<{element_type}>::of(inputs, {index})?"), "Quant::default()")
        } else {
            (format!("inputs.get::<{element_type}>({index})?"), "&[]")
        };
        let value = if port.may_be_absent() {
            format!("if inputs.has({index}) {{ {present} }} else {{ {absent} }}")
        } else {
            present
        };
        self.run.push(format!("let input_{index} = {value};"));
        self.arguments.push(format!("input_{index}"));
    }

    /// Adds an output, followed by its encoding.
    fn output(&mut self, index: usize, port: &Tensor, core: Core) {
        let element_type = stored_type(port, core);
        self.run.push(format!("let output_{index} = outputs.take::<{element_type}>({index})?;"));
        self.arguments.push(format!("output_{index}"));
        if is_encoded(port, core) {
            let encoding = format!("outputs.encoding({index}).unwrap_or({PLAIN})");
            self.run.push(format!("let encoding_{index} = {encoding};"));
            self.arguments.push(format!("encoding_{index}"));
        }
    }

    /// Adds the statements that set the dimensions of an output, which a run determines.
    fn extents(&mut self, index: usize, extents: &str) {
        self.after.push("let mut dims = [0; 8];".to_owned());
        self.after.push(format!("let rank = done.{extents}.items().len();"));
        self.after.push(format!("for (to, dim) in dims.iter_mut().zip(done.{extents}.items()) {{"));
        self.after.push("    *to = *dim as usize;".to_owned());
        self.after.push("}".to_owned());
        self.after.push(format!("outputs.set_shape({index}, &dims[..rank])?;"));
    }

    /// Adds a tensor parameter.
    fn list(&mut self, index: usize, param: &Tensor) {
        self.fields.push(format!("list_{index}: {},", node::list_type(param)));
        self.constructor.push(format!("list_{index}: {},", node::list(param)));
        self.arguments.push(format!("&self.list_{index}"));
    }

    fn print(mut self) -> String {
        let done = if self.is_bounded { "let done = " } else { "" };
        self.run.push(format!("{done}execute({})?;", self.arguments.join(", ")));
        self.run.append(&mut self.after);
        self.run.push("Ok(())".to_owned());
        let takes_scratch = if self.workspace.is_empty() { "" } else { "mut scratch, " };
        let workspace = format!("Workspace::NONE{}", self.workspace.concat());
        KernelState {
            fields: indented(&self.fields, 1),
            constructor: format!(
                "        Ok(Self {{\n{}        }})\n",
                indented(&self.constructor, 3)
            ),
            workspace,
            io: format!("let Io {{ inputs, mut outputs, {takes_scratch}.. }} = io;"),
            run: indented(&self.run, 2),
        }
        .print()
    }
}
