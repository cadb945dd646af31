//! Prints a lookup-table kernel for the DSP, for operators whose output is a function of one stored byte: finalize
//! computes all 256 results, and a run looks them up.

use udo_reference::Ports;

use super::{
    OpFormula, PLAIN, indented, is_encoded,
    node::params,
    state::{KernelState, Loops},
    stored_type,
};
use crate::config::{Core, Tensor};

/// Prints the conversion of a byte between `u8` and the 8-bit type `byte_type`; `cast` is the conversion method for
/// `i8`.
fn byte_code(byte_type: &str, code: &str, cast: &str) -> String {
    if byte_type == "u8" {
        code.to_owned()
    } else {
        format!("{}.{cast}()", code.trim_start_matches('*'))
    }
}

/// Prints the tables and the loops that fill them; `None` if the operator is not a function of one stored byte.
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
    let float_ports = Ports {
        inputs: vec!["f32".into()],
        outputs: op.outputs.iter().map(|_| "f32".into()).collect(),
    };
    let kernel = program.rust(&float_ports);
    let input_type = stored_type(input, core);
    let mut finalize_lines = vec![
        format!("let encoding = cx.input(0)?.encoding().unwrap_or({PLAIN});"),
        "let mut input_0 = [0.0_f32; 256];".to_owned(),
        "for (code, to) in (0..=u8::MAX).zip(&mut input_0) {".to_owned(),
        format!("    *to = encoding.dequantize({});", byte_code(input_type, "code", "cast_signed")),
        "}".to_owned(),
    ];
    let settings = params(op);
    finalize_lines.extend(settings.lines);
    let mut shapes = vec!["Some(&[256])".to_owned()];
    shapes.extend(settings.arguments);
    finalize_lines.push(format!("let plan = plan({}).map_err(wanted)?;", shapes.join(", ")));
    let mut arguments = vec!["&plan".to_owned(), "&input_0".to_owned()];
    for (index, part) in kernel.scratch.iter().enumerate() {
        let zero = if part.element == "f32" { "0.0" } else { "0" };
        finalize_lines.push(format!("let mut scratch_{index} = [{zero}_{}; 256];", part.element));
        arguments.push(format!("&mut scratch_{index}"));
    }
    for index in 0..op.outputs.len() {
        finalize_lines.push(format!("let mut output_{index} = [0.0_f32; 256];"));
        arguments.push(format!("&mut output_{index}"));
    }
    finalize_lines.push(format!("execute({}).map_err(wanted)?;", arguments.join(", ")));
    let (mut fields, mut constructor, mut execute_lines) = (Vec::new(), Vec::new(), Vec::new());
    for (index, output) in op.outputs.iter().enumerate() {
        let output_type = stored_type(output, core);
        fields.push(format!("/// The values of output {index} for each stored value."));
        fields.push(format!("table_{index}: [{output_type}; 256],"));
        finalize_lines
            .push(format!("let encoding = cx.output({index})?.encoding().unwrap_or({PLAIN});"));
        finalize_lines.push(format!(
            "let table_{index} = output_{index}.map(|value| encoding.quantize(value));"
        ));
        constructor.push(format!("table_{index}"));
        execute_lines.push(format!("let from = inputs.get::<{input_type}>(0)?;"));
        execute_lines.push(format!(
            "for (to, from) in outputs.take::<{output_type}>({index})?.iter_mut().zip(from) {{"
        ));
        let byte = byte_code(input_type, "*from", "cast_unsigned");
        execute_lines.push(format!("    *to = self.table_{index}[usize::from({byte})];"));
        execute_lines.push("}".to_owned());
    }
    execute_lines.push("Ok(())".to_owned());
    finalize_lines.push(format!("Ok(Self {{ {} }})", constructor.join(", ")));
    // Shape inference has seen the real node's shapes; here each stored value is an element.
    let state = KernelState {
        fields: indented(&fields, 1),
        constructor: indented(&finalize_lines, 2),
        workspace: "Workspace::NONE".to_owned(),
        io: "let Io { inputs, mut outputs, .. } = io;".to_owned(),
        run: indented(&execute_lines, 2),
    };
    Some(Loops { state: state.print(), execute: kernel.text })
}
