//! What is printed from an operator's reference: shape inference, and a first kernel on the CPU.

use serde::Serialize;
use udo_reference::{Class, Ports, Program, RustKernel};

use super::{dtype, element, schema::is_quantized};
use crate::{
    code::import,
    config::{Core, DataType, Family, Op, Tensor},
    reference,
};

/// What stands before a printed module: it is no code to be read line by line before somebody works on it.
const MARKS: &str =
    "#[rustfmt::skip]\n#[allow(clippy::all, dead_code, reason = \"printed from the reference\")]\n";

/// What a file shows of its operator's reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ReferenceView {
    /// The source, as lines of a comment that documents the file.
    pub(crate) comment: String,
    /// The module that is printed from it.
    pub(crate) code: String,
    /// The statements of `infer` that use it.
    pub(crate) inference: String,
    /// Whether elements decide extents of outputs.
    pub(crate) is_bounded: bool,
}

/// The source as lines of a comment.
fn comment(source: &str) -> String {
    let line = |line: &str| format!("//!     {line}").trim_end().to_owned();
    source.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The module of that name that holds these texts.
fn module(name: &str, parts: &[&str]) -> String {
    let line = |line: &str| {
        if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") }
    };
    let body: String = parts.join("\n").trim_end().lines().map(line).collect();
    format!("{MARKS}mod {name} {{\n{body}}}")
}

/// The program of an operator with a reference. It was read with the config, so that it reads again.
fn program(op: &Op) -> Option<(Program, &str)> {
    let program = reference::program(op).ok().flatten()?;
    Some((program, op.reference.as_deref()?))
}

/// What infers the shapes of an operator.
pub(super) fn inference(op: &Op) -> Option<ReferenceView> {
    let (program, source) = program(op)?;
    // The elements of inputs that are known are integers of any width here.
    let word = |port: &Tensor| match reference::class(port) {
        Class::Float => "f32".to_owned(),
        Class::Int | Class::Bool => "i64".to_owned(),
    };
    let ports = Ports {
        inputs: op.inputs.iter().map(word).collect(),
        outputs: op.outputs.iter().map(word).collect(),
    };
    let kernel = program.rust(&ports);
    let mut lines = vec!["let shapes = shapes::outputs(cx)?;".to_owned()];
    for (index, output) in op.outputs.iter().enumerate() {
        let set = [
            format!("let of = {};", output_type(op, output)),
            format!("cx.set_output({index}, TensorDesc::new(of, shapes[{index}]))?;"),
        ];
        if output.is_optional {
            lines.push(format!("if cx.output_count() > {index} {{"));
            lines.extend(set.map(|line| format!("    {line}")));
            lines.push("}".to_owned());
        } else {
            lines.extend(set);
        }
    }
    lines.push("Ok(())".to_owned());
    let (mut uses, mut glue) = (vec!["Dim", "Error", "InferCx", "Node", "Shape"], Vec::new());
    glue.extend([
        outputs(&kernel),
        of_node(op, &kernel, None),
        EXTENTS.to_owned(),
        SHAPE.to_owned(),
    ]);
    for (class, text, names) in
        [(Class::Float, REALS, ["DType", "F16"].as_slice()), (Class::Int, INTEGERS, &["DType"])]
    {
        if op.inputs.iter().any(|port| port.is_static && reference::class(port) == class) {
            uses.extend(names);
            glue.push(text.to_owned());
        }
    }
    let (uses, glue) = (import("udo_api", &uses) + "\n", glue.join("\n"));
    let texts = [uses.as_str(), &glue, &kernel.plan, &kernel.finalize, &kernel.shape_support];
    Some(ReferenceView {
        comment: comment(source),
        code: module("shapes", &texts),
        inference: lines.join("\n        "),
        is_bounded: kernel.is_bounded,
    })
}

/// The function that gives the shapes of all outputs.
fn outputs(kernel: &RustKernel) -> String {
    let mut lines = vec![format!("let plan = of_node(cx{})?;", least(kernel, "false"))];
    let other = if kernel.is_bounded {
        let why = "// What the elements decide differs between as many as there may be and none.";
        lines.extend([
            why.to_owned(),
            format!("let least = of_node(cx{})?;", least(kernel, "true")),
        ]);
        "least"
    } else {
        "plan"
    };
    lines.push("Ok([".to_owned());
    let each = kernel.extents.iter();
    lines.extend(each.map(|dims| format!("    shape(cx, plan.{dims}, {other}.{dims})?,")));
    lines.push("])".to_owned());
    format!(
        "/// The shapes of the outputs.\npub fn outputs(cx: &InferCx<'_>) -> Result<[Shape; {}], Error> {{\n{}}}\n",
        kernel.extents.len(),
        indented(&lines, 1)
    )
}

/// The argument that asks for the least extents, where there is one.
fn least(kernel: &RustKernel, value: &str) -> String {
    if kernel.is_bounded { format!(", {value}") } else { String::new() }
}

/// The type of an output: that of the first input of the same types on every core, else the one that the config says.
fn output_type(op: &Op, output: &Tensor) -> String {
    let said =
        format!("DType::{}", dtype(output.types.first().map_or(DataType::Float32, |t| t.dtype)));
    let twin =
        op.inputs.iter().position(|input| input.types == output.types && !input.may_be_absent());
    match twin {
        Some(input) => format!("cx.input({input})?.dtype().unwrap_or({said})"),
        None => said,
    }
}

/// The function that makes the plan of a node: in `infer` without a core, else in finalize on one.
fn of_node(op: &Op, kernel: &RustKernel, core: Option<Core>) -> String {
    let (mut lines, mut arguments) = (Vec::new(), Vec::new());
    if kernel.is_bounded {
        arguments.push("least".to_owned());
    }
    for (index, port) in op.inputs.iter().enumerate() {
        lines.push(format!("let extents_{index} = extents(cx, {index})?;"));
        arguments.push(format!("extents_{index}.as_deref()"));
        if port.is_static {
            let elements = match (core, reference::class(port)) {
                (None, Class::Int | Class::Bool) => format!("integers(cx, {index})?"),
                (None, Class::Float) => format!("reals(cx, {index})?"),
                (Some(core), _) => format!("cx.constant::<{}>({index})?", stored(port, core)),
            };
            let name = &port.name;
            lines.push(format!("let elements_{index} = {elements};"));
            lines.push(format!("if extents_{index}.is_some() && elements_{index}.is_none() {{"));
            lines.push(format!(
                "    return Err(Error::new(\"input {name} is no constant of the model\"));"
            ));
            lines.push("}".to_owned());
            lines.push(format!("let elements_{index} = elements_{index}.unwrap_or_default();"));
            // A list of its own, or a part of the model.
            arguments.push(format!("&elements_{index}"));
        }
    }
    for param in &op.scalar_params {
        let method = match param.dtype.family() {
            Family::Float(_) | Family::Fixed => "float",
            Family::Integer(..) => "int",
            Family::Text => "text",
        };
        arguments.push(format!("cx.{method}({:?})?", param.name));
    }
    for (index, param) in op.tensor_params.iter().enumerate() {
        lines.push(format!("let list_{index} = {};", list(param)));
        arguments.push(format!("&[list_{index}.len() as i64]"));
        arguments.push(format!("&list_{index}"));
    }
    let (lines, arguments) = (indented(&lines, 1), arguments.join(", "));
    let least = if kernel.is_bounded { ", least: bool" } else { "" };
    format!(
        "/// What is known of a node with its shapes.\nfn of_node(cx: &Node<'_>{least}) -> Result<Plan, Error> {{\n\
         {lines}    plan({arguments})\n        .map_err(|Fault(wanted)| Error::new(format!(\"wanted {{wanted}}\")))\n}}\n"
    )
}

/// A tensor parameter as the printed parts read it.
fn list(param: &Tensor) -> String {
    match reference::class(param) {
        Class::Float => format!(
            "cx.floats({:?})?.iter().map(|value| *value as f32).collect::<Box<[f32]>>()",
            param.name
        ),
        Class::Int | Class::Bool => format!("Box::<[i64]>::from(cx.ints({:?})?)", param.name),
    }
}

const EXTENTS: &str = r#"fn extents(cx: &Node<'_>, index: usize) -> Result<Option<Vec<i64>>, Error> {
    if !cx.has_input(index) {
        return Ok(None);
    }
    let shape = cx.input(index)?.full_shape();
    if shape.iter().any(|dim| matches!(dim, Dim::UpTo(_))) {
        let text = format!("input {index} has an extent that each run says, wanted known ones");
        return Err(Error::new(text));
    }
    Ok(Some(shape.dims().iter().map(|dim| *dim as i64).collect()))
}
"#;

const REALS: &str = r"/// The elements of an input that is known from the start.
fn reals(cx: &Node<'_>, index: usize) -> Result<Option<Vec<f32>>, Error> {
    if !cx.has_input(index) {
        return Ok(None);
    }
    if cx.input(index)?.dtype() == Some(DType::F16) {
        let halves = cx.constant::<F16>(index)?;
        return Ok(halves.map(|halves| halves.iter().map(|half| half.to_f32()).collect()));
    }
    Ok(cx.constant::<f32>(index)?.map(<[f32]>::to_vec))
}
";

const INTEGERS: &str = r"/// The elements of an input that is known from the start.
fn integers(cx: &Node<'_>, index: usize) -> Result<Option<Vec<i64>>, Error> {
    fn wide<T: Copy + Into<i64>>(values: Option<&[T]>) -> Option<Vec<i64>> {
        values.map(|values| values.iter().map(|value| (*value).into()).collect())
    }
    if !cx.has_input(index) {
        return Ok(None);
    }
    Ok(match cx.input(index)?.dtype() {
        Some(DType::U8) => wide(cx.constant::<u8>(index)?),
        Some(DType::U16) => wide(cx.constant::<u16>(index)?),
        Some(DType::U32) => wide(cx.constant::<u32>(index)?),
        Some(DType::I8) => wide(cx.constant::<i8>(index)?),
        Some(DType::I16) => wide(cx.constant::<i16>(index)?),
        _ => cx.constant_ints(index)?,
    })
}
";

const SHAPE: &str = r"/// The shape of an output: bounded where the elements decide, and open as soon as an input is.
fn shape(cx: &InferCx<'_>, most: List, least: List) -> Result<Shape, Error> {
    let mut is_open = false;
    for index in 0..cx.input_count() {
        is_open |= cx.has_input(index)
            && cx.input(index)?.full_shape().iter().any(|dim| matches!(dim, Dim::Open(_)));
    }
    let mut dims = [Dim::Fixed(0); 8];
    for (to, (&most, &least)) in dims.iter_mut().zip(most.items().iter().zip(least.items())) {
        *to = match most as usize {
            bound if most != least => Dim::UpTo(bound),
            extent if is_open => Dim::Open(extent),
            extent => Dim::Fixed(extent),
        };
    }
    Shape::of_dims(&dims[..most.items().len()])
}
";

/// The lines so many blocks deep.
fn indented(lines: &[String], depth: usize) -> String {
    let margin = "    ".repeat(depth);
    let each: Vec<String> = lines.iter().map(|line| format!("{margin}{line}\n")).collect();
    each.concat()
}

/// How the elements of a port are stored on a core.
fn stored(port: &Tensor, core: Core) -> &'static str {
    element(port.type_on(core).unwrap_or(DataType::Float32))
}

/// Whether a kernel of single precision has to convert what is stored.
fn is_converted(port: &Tensor, core: Core) -> bool {
    match stored(port, core) {
        "f32" => false,
        "F16" => true,
        _ => is_quantized(port),
    }
}

/// A first kernel on the CPU, if the reference gives one: not where a node may leave out an output, and not where
/// elements that shapes depend on would have to be converted.
pub(super) fn cpu(op: &Op) -> Option<ReferenceView> {
    let core = Core::Cpu;
    let has_odd_static = op.inputs.iter().any(|port| port.is_static && is_converted(port, core));
    if has_odd_static || op.outputs.iter().any(|output| output.is_optional) {
        return None;
    }
    let (program, source) = program(op)?;
    let word = |port: &Tensor| if is_converted(port, core) { "f32" } else { stored(port, core) };
    let ports = Ports {
        inputs: op.inputs.iter().map(|port| word(port).to_owned()).collect(),
        outputs: op.outputs.iter().map(|port| word(port).to_owned()).collect(),
    };
    let kernel = program.rust(&ports);
    let uses =
        "use udo_api::{Dim, Error, ExecError, FinalizeCx, Io, Node, Status, Workspace, F16};\n";
    let uses = if op.inputs.iter().chain(&op.outputs).any(|port| stored(port, core) == "F16") {
        uses.to_owned()
    } else {
        uses.replace(", F16", "")
    };
    let glue = [kept(op, &kernel), of_node(op, &kernel, Some(core)), EXTENTS.to_owned()].join("\n");
    let RustKernel { plan, finalize, elements, execute, support, .. } = &kernel;
    let texts = [uses.as_str(), &glue, plan, finalize, execute, elements, support];
    Some(ReferenceView {
        comment: comment(source),
        code: module("loops", &texts),
        inference: String::new(),
        is_bounded: kernel.is_bounded,
    })
}

/// `struct Kept`: what finalize keeps, and the call of the loops.
fn kept(op: &Op, kernel: &RustKernel) -> String {
    let mut lines = Lines::default();
    lines.fields.push("plan: Plan,".to_owned());
    lines.made.push(format!("plan: of_node(cx{})?,", least(kernel, "false")));
    lines.arguments.push("&self.plan".to_owned());
    for (index, (port, extents)) in op.inputs.iter().zip(&kernel.input_extents).enumerate() {
        lines.input(index, port, extents);
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
        lines.output(index, port, extents);
        if kernel.is_bounded {
            lines.extents(index, extents);
        }
    }
    lines.print(kernel.is_bounded)
}

/// What is printed of a kernel, line by line.
#[derive(Default)]
struct Lines {
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

impl Lines {
    /// An input, as numbers where it is stored as something else.
    fn input(&mut self, index: usize, port: &Tensor, extents: &str) {
        let of = stored(port, Core::Cpu);
        let given = if port.may_be_absent() {
            format!("if inputs.has({index}) {{ inputs.get::<{of}>({index})? }} else {{ &[] }}")
        } else {
            format!("inputs.get::<{of}>({index})?")
        };
        self.run.push(format!("let input_{index} = {given};"));
        if is_converted(port, Core::Cpu) {
            self.converted("input", index, extents);
            let number = if of == "F16" {
                "from.to_f32()".to_owned()
            } else {
                self.run.push(format!("let encoding = inputs.encoding({index})?;"));
                "((f64::from(*from) - f64::from(encoding.zero_point)) * f64::from(encoding.scale)) as f32".to_owned()
            };
            self.run
                .push(format!("for (to, from) in input_{index}.iter_mut().zip(stored_{index}) {{"));
            self.run.push(format!("    *to = {number};"));
            self.run.push("}".to_owned());
        }
        self.arguments.push(format!("input_{index}"));
    }

    /// An output, stored behind the call where it is not numbers.
    fn output(&mut self, index: usize, port: &Tensor, extents: &str) {
        let of = stored(port, Core::Cpu);
        self.run.push(format!("let output_{index} = outputs.take::<{of}>({index})?;"));
        if is_converted(port, Core::Cpu) {
            self.converted("output", index, extents);
            let number = if of == "F16" {
                "F16::from_f32(*from)".to_owned()
            } else {
                self.after.push(format!("let encoding = outputs.encoding({index})?;"));
                format!(
                    "((f64::from(*from) / f64::from(encoding.scale)).round_ties_even() + f64::from(encoding.zero_point)) as {of}"
                )
            };
            self.after.push(format!(
                "for (to, from) in stored_{index}.iter_mut().zip(output_{index}.iter()) {{"
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
        let of = if reference::class(param) == Class::Float { "f32" } else { "i64" };
        self.fields.push(format!("list_{index}: Box<[{of}]>,"));
        self.made.push(format!("list_{index}: {},", list(param)));
        self.arguments.push(format!("&self.list_{index}"));
    }

    fn print(mut self, is_bounded: bool) -> String {
        let done = if is_bounded { "let done = " } else { "" };
        self.run.push(format!("{done}execute({})", self.arguments.join(", ")));
        self.run.push("    .map_err(|Fault(_)| ExecError::of(Status::FAILED))?;".to_owned());
        self.run.append(&mut self.after);
        self.run.push("Ok(())".to_owned());
        let takes_scratch = if self.space.is_empty() { "" } else { "mut scratch, " };
        format!(
            "/// What finalize keeps.\npub struct Kept {{\n{}}}\n\nimpl Kept {{\n    pub fn of(cx: &FinalizeCx<'_>) -> Result<Self, Error> {{\n        Ok(Self {{\n{}        }})\n    }}\n\n    \
             pub fn workspace(&self) -> Workspace {{\n        Workspace::NONE{}\n    }}\n\n    \
             pub fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {{\n        let Io {{ inputs, mut outputs, {takes_scratch}.. }} = io;\n{}    }}\n}}\n",
            indented(&self.fields, 1),
            indented(&self.made, 3),
            self.space.concat(),
            indented(&self.run, 2),
        )
    }
}
