//! A first kernel on the DSP for functions of one stored byte: finalize computes all 256 results.

use udo_reference::Ports;

use super::{
    OpFormula, PLAIN, indented, is_encoded,
    node::params,
    state::{KernelState, Loops},
    stored_type,
};
use crate::config::{Core, Tensor};

/// Prints the conversion of a byte to the type `of`, with a change of sign if that is signed.
fn of_code(of: &str, code: &str, cast: &str) -> String {
    if of == "u8" { code.to_owned() } else { format!("{}.{cast}()", code.trim_start_matches('*')) }
}

/// Prints the state and the loops that fill it, if the operator is such a function.
pub(super) fn print(OpFormula { op, program, .. }: &OpFormula<'_>, core: Core) -> Option<Loops> {
    let is_byte =
        |port: &Tensor| is_encoded(port, core) && matches!(stored_type(port, core), "u8" | "i8");
    let [input] = op.inputs.as_slice() else { return None };
    let is_table = matches!(core, Core::Dsp(_))
        && program.is_pointwise()
        && is_byte(input)
        && op.outputs.iter().all(is_byte);
    if !is_table {
        return None;
    }
    // The tables are computed from floats.
    let numbers = Ports {
        inputs: vec!["f32".into()],
        outputs: op.outputs.iter().map(|_| "f32".into()).collect(),
    };
    let kernel = program.rust(&numbers);
    let of = stored_type(input, core);
    let mut lines = vec![
        format!("let encoding = cx.input(0)?.encoding().unwrap_or({PLAIN});"),
        "let mut input_0 = [0.0_f32; 256];".to_owned(),
        "for (code, to) in (0..=u8::MAX).zip(&mut input_0) {".to_owned(),
        format!("    *to = encoding.dequantize({});", of_code(of, "code", "cast_signed")),
        "}".to_owned(),
    ];
    let settings = params(op);
    lines.extend(settings.lines);
    let mut shapes = vec!["Some(&[256])".to_owned()];
    shapes.extend(settings.arguments);
    lines.push(format!("let plan = plan({}).map_err(wanted)?;", shapes.join(", ")));
    let mut arguments = vec!["&plan".to_owned(), "&input_0".to_owned()];
    for (index, part) in kernel.scratch.iter().enumerate() {
        let zero = if part.element == "f32" { "0.0" } else { "0" };
        lines.push(format!("let mut scratch_{index} = [{zero}_{}; 256];", part.element));
        arguments.push(format!("&mut scratch_{index}"));
    }
    for index in 0..op.outputs.len() {
        lines.push(format!("let mut output_{index} = [0.0_f32; 256];"));
        arguments.push(format!("&mut output_{index}"));
    }
    lines.push(format!("execute({}).map_err(wanted)?;", arguments.join(", ")));
    let (mut fields, mut made, mut run) = (Vec::new(), Vec::new(), Vec::new());
    for (index, output) in op.outputs.iter().enumerate() {
        let to = stored_type(output, core);
        fields.push(format!("/// The values of output {index} for each stored value."));
        fields.push(format!("table_{index}: [{to}; 256],"));
        lines.push(format!("let encoding = cx.output({index})?.encoding().unwrap_or({PLAIN});"));
        lines.push(format!(
            "let table_{index} = output_{index}.map(|value| encoding.quantize(value));"
        ));
        made.push(format!("table_{index}"));
        run.push(format!("let from = inputs.get::<{of}>(0)?;"));
        run.push(format!(
            "for (to, from) in outputs.take::<{to}>({index})?.iter_mut().zip(from) {{"
        ));
        let byte = of_code(of, "*from", "cast_unsigned");
        run.push(format!("    *to = self.table_{index}[usize::from({byte})];"));
        run.push("}".to_owned());
    }
    run.push("Ok(())".to_owned());
    lines.push(format!("Ok(Self {{ {} }})", made.join(", ")));
    // Shape inference has seen the real node's shapes; here each stored value is an element.
    let kept = KernelState {
        fields: indented(&fields, 1),
        made: indented(&lines, 2),
        space: "Workspace::NONE".to_owned(),
        io: "let Io { inputs, mut outputs, .. } = io;".to_owned(),
        run: indented(&run, 2),
    };
    Some(Loops { kept: kept.print(), execute: kernel.text })
}
