//! A first kernel over slices: on the CPU, and on the DSP, where it works on numbers that are made of stored values and stored
//! as such behind it.

use udo_reference::{Ports, Program, RustKernel};

use super::{
    indented, is_converted, is_encoded, module,
    node::{self, Known},
    odd_static, stored, table,
};
use crate::config::{Core, Op, Tensor};

/// The names of `udo-api` that such a kernel may use.
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
    "Workspace",
];

/// The module of a kernel, no OpenCL C, and whether its outputs are bounded.
pub(super) fn printed(
    op: &Op,
    core: Core,
    program: &Program,
) -> Result<(String, String, bool), String> {
    let word = |port: &Tensor| if is_converted(port, core) { "f32" } else { stored(port, core) };
    let ports = Ports {
        inputs: op.inputs.iter().map(|port| word(port).to_owned()).collect(),
        outputs: op.outputs.iter().map(|port| word(port).to_owned()).collect(),
    };
    let kernel = program.rust(&ports);
    odd_static(op, core, &kernel.reads_static)?;
    let known = Known { is_bounded: kernel.is_bounded, reads_static: &kernel.reads_static };
    let glue = match table::kept(op, core, program, &kernel) {
        Some(table) => table,
        None => [kept(op, core, &kernel), node::of_node(op, &known, Some(core))].join("\n"),
    };
    let text = kernel.text(&glue);
    let text = module("loops", NAMES, &["reference"], &[&glue, &text]);
    Ok((text, String::new(), kernel.is_bounded))
}

/// `struct Kept`: what finalize keeps, and the call of the loops.
fn kept(op: &Op, core: Core, kernel: &RustKernel) -> String {
    let mut lines = Lines {
        is_dsp: matches!(core, Core::Dsp(_)),
        is_bounded: kernel.is_bounded,
        ..Lines::default()
    };
    lines.fields.push("plan: Plan,".to_owned());
    lines.made.push(format!("plan: of_node(cx{})?,", node::least(kernel.is_bounded, "false")));
    lines.arguments.push("&self.plan".to_owned());
    for (index, (port, extents)) in op.inputs.iter().zip(&kernel.input_extents).enumerate() {
        lines.input(index, port, core, extents);
    }
    for (index, param) in op.tensor_params.iter().enumerate() {
        lines.list(index, param);
    }
    for (index, part) in kernel.scratch.iter().enumerate() {
        let (element, extents) = (&part.element, &part.extents);
        lines.space.push(format!(".and::<{element}>(self.plan.{extents}.size())"));
        lines.run.push(format!(
            "let scratch_{index} = scratch.take::<{element}>(self.plan.{extents}.size())?;"
        ));
        lines.arguments.push(format!("scratch_{index}"));
    }
    for (index, (port, extents)) in op.outputs.iter().zip(&kernel.extents).enumerate() {
        lines.output(index, port, core, extents);
        if kernel.is_bounded {
            lines.extents(index, extents);
        }
    }
    lines.print()
}

/// What is printed of a kernel, line by line.
#[derive(Default)]
struct Lines {
    is_dsp: bool,
    is_bounded: bool,
    /// Of what finalize keeps.
    fields: Vec<String>,
    /// How that is made.
    made: Vec<String>,
    /// What scratch there is.
    space: Vec<String>,
    /// Up to the call, and behind it.
    run: Vec<String>,
    after: Vec<String>,
    arguments: Vec<String>,
}

/// The encoding of a port of a DSP: a stored value is a number where it has none, as for functions of DSPs.
fn or_plain(encoding: &str) -> String {
    format!("{encoding}.unwrap_or({PLAIN})")
}

/// The encoding of what stands for itself.
pub(super) const PLAIN: &str = "Encoding { scale: 1.0, zero_point: 0 }";

impl Lines {
    /// An input, as numbers where it is stored as something else.
    fn input(&mut self, index: usize, port: &Tensor, core: Core, extents: &str) {
        let of = stored(port, core);
        let given = if port.may_be_absent() {
            format!("if inputs.has({index}) {{ inputs.get::<{of}>({index})? }} else {{ &[] }}")
        } else {
            format!("inputs.get::<{of}>({index})?")
        };
        self.run.push(format!("let input_{index} = {given};"));
        if is_converted(port, core) {
            self.converted("input", index, extents);
            if is_encoded(port, core) {
                let encoding = format!("inputs.encoding({index})");
                let encoding = if self.is_dsp { or_plain(&encoding) } else { encoding + "?" };
                self.run.push(format!("let encoding = {encoding};"));
            }
            let number = if of == "F16" {
                "from.to_f32()"
            } else if self.is_dsp {
                "encoding.dequantize(*from)"
            } else {
                "((f64::from(*from) - f64::from(encoding.zero_point)) * f64::from(encoding.scale)) as f32"
            };
            self.run
                .push(format!("for (to, from) in input_{index}.iter_mut().zip(stored_{index}) {{"));
            self.run.push(format!("    *to = {number};"));
            self.run.push("}".to_owned());
        }
        self.arguments.push(format!("input_{index}"));
    }

    /// An output, stored behind the call where it is not numbers.
    fn output(&mut self, index: usize, port: &Tensor, core: Core, extents: &str) {
        let of = stored(port, core);
        self.run.push(format!("let output_{index} = outputs.take::<{of}>({index})?;"));
        if is_converted(port, core) {
            self.converted("output", index, extents);
            if is_encoded(port, core) {
                let encoding = format!("outputs.encoding({index})");
                let encoding = if self.is_dsp { or_plain(&encoding) } else { encoding + "?" };
                self.after.push(format!("let encoding = {encoding};"));
            }
            let number = if of == "F16" {
                "F16::from_f32(*from)".to_owned()
            } else if self.is_dsp {
                "encoding.quantize(*from)".to_owned()
            } else {
                format!(
                    "((f64::from(*from) / f64::from(encoding.scale)).round_ties_even() + f64::from(encoding.zero_point)) as {of}"
                )
            };
            // Of an output that elements decide, what is there.
            let there = if self.is_bounded {
                format!(".take(done.{extents}.size())")
            } else {
                String::new()
            };
            self.after.push(format!(
                "for (to, from) in stored_{index}.iter_mut().zip(output_{index}.iter()){there} {{"
            ));
            self.after.push(format!("    *to = {number};"));
            self.after.push("}".to_owned());
        }
        self.arguments.push(format!("output_{index}"));
    }

    /// Numbers in scratch, in the place of what is stored.
    fn converted(&mut self, side: &str, index: usize, extents: &str) {
        self.space.push(format!(".and::<f32>(self.plan.{extents}.size())"));
        self.run.push(format!("let stored_{index} = {side}_{index};"));
        self.run.push(format!("let {side}_{index} = scratch.take::<f32>(stored_{index}.len())?;"));
    }

    /// The extents of an output that a run says.
    fn extents(&mut self, index: usize, extents: &str) {
        self.after.push("let mut dims = [0; 8];".to_owned());
        self.after.push(format!("let rank = done.{extents}.items().len();"));
        self.after.push(format!("for (to, dim) in dims.iter_mut().zip(done.{extents}.items()) {{"));
        self.after.push("    *to = *dim as usize;".to_owned());
        self.after.push("}".to_owned());
        self.after.push(format!("outputs.set_shape({index}, &dims[..rank])?;"));
    }

    /// A parameter that is a tensor.
    fn list(&mut self, index: usize, param: &Tensor) {
        self.fields.push(format!("list_{index}: {},", node::list_type(param)));
        self.made.push(format!("list_{index}: {},", node::list(param)));
        self.arguments.push(format!("&self.list_{index}"));
    }

    fn print(mut self) -> String {
        let done = if self.is_bounded { "let done = " } else { "" };
        self.run.push(format!("{done}execute({})?;", self.arguments.join(", ")));
        self.run.append(&mut self.after);
        self.run.push("Ok(())".to_owned());
        let takes_scratch = if self.space.is_empty() { "" } else { "mut scratch, " };
        let space = format!("Workspace::NONE{}", self.space.concat());
        let lines = [
            indented(&self.fields, 1),
            format!("        Ok(Self {{\n{}        }})\n", indented(&self.made, 3)),
            space,
            format!("let Io {{ inputs, mut outputs, {takes_scratch}.. }} = io;"),
            indented(&self.run, 2),
        ];
        whole(&lines)
    }
}

/// `struct Kept` of its fields, how it is made, its scratch, what a run takes, and what it does.
pub(super) fn whole([fields, made, space, io, run]: &[String; 5]) -> String {
    format!(
        "/// What finalize keeps.\npub struct Kept {{\n{fields}}}\n\nimpl Kept {{\n    pub fn of(cx: &FinalizeCx<'_>) -> Result<Self, Error> {{\n{made}    }}\n\n    \
         pub fn workspace(&self) -> Workspace {{\n        {space}\n    }}\n\n    \
         pub fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {{\n        {io}\n{run}    }}\n}}\n"
    )
}
