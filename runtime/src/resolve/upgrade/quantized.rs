//! Operators on quantized values that are those on numbers, between a step that makes numbers and one that quantizes them.

use super::edit::{Edit, new_node, own_node, with_ints};
use crate::graph::{Attr, Node, ValueId};

/// What values at a port stand for, by the scale and the zero point at the next two.
fn numbers(edit: &mut Edit<'_>, name: &str, port: usize) -> Result<ValueId, String> {
    let inputs = [port, port + 1, port + 2].map(|port| edit.node.input(port)).to_vec();
    edit.first(name, Node { inputs, ..own_node("DequantizeLinear", &[]) }, None)
}

/// Makes the node the quantization of numbers by the scale and the zero point at two ports.
fn quantized(edit: &mut Edit<'_>, numbers: ValueId, scale: usize) {
    let numbers = [Some(numbers), edit.node.input(scale), edit.node.input(scale + 1)].to_vec();
    edit.end_own("QuantizeLinear", numbers);
}

pub(super) fn choice(edit: &mut Edit<'_>) -> Result<(), String> {
    let (choice, x, y) = (edit.required(0)?, numbers(edit, "x", 1)?, numbers(edit, "y", 4)?);
    let chosen = edit.first("chosen", new_node("Where", &[choice, x, y]), None)?;
    quantized(edit, chosen, 7);
    Ok(())
}

pub(super) fn reduce_mean(edit: &mut Edit<'_>) -> Result<(), String> {
    let axes = edit.take_ints("axes")?;
    let keepdims = edit.take_int("keepdims")?.unwrap_or(1);
    let x = numbers(edit, "x", 0)?;
    let axes = axes.map(|axes| edit.list("axes", &axes)).transpose()?;
    let inputs: Vec<ValueId> = [x].into_iter().chain(axes).collect();
    let mut mean = new_node("ReduceMean", &inputs);
    mean.attrs.push(("keepdims".to_owned(), Attr::Int(keepdims)));
    let mean = edit.first("mean", mean, None)?;
    quantized(edit, mean, 3);
    Ok(())
}

/// A recurrent operator with quantized weights, each gate's numbers of which are a column: as numbers, which are packed
/// before the run. ONNX Runtime quantizes what these are multiplied by as well.
pub(super) fn lstm(edit: &mut Edit<'_>) -> Result<(), String> {
    let mut weights = Vec::new();
    for (name, port, scale) in [("w", 1, 8), ("r", 2, 10)] {
        let (found, numbers) = (edit.input(port), edit.input(scale));
        let turned = with_ints(new_node("Transpose", &[edit.required(port)?]), "perm", &[0, 2, 1]);
        let turned = edit.first(&format!("{name}.turned"), turned, None)?;
        let mut of = [turned, edit.required(scale)?, edit.required(scale + 1)?];
        // A number for each direction, or for each column of it: blocks of a row with ones.
        let blocks: &[i64] = match numbers.rank() {
            1 => &[0, 1, 1],
            2 => &[0, 0, 1],
            _ => return Err(format!("input {scale} is {numbers}, wanted rank 1 or 2")),
        };
        if found.rank() != 3 {
            return Err(format!("input {port} is {found}, wanted rank 3"));
        }
        let shape = edit.list(&format!("{name}.blocks"), blocks)?;
        for (part, number) in of.iter_mut().skip(1).enumerate() {
            let part = format!("{name}.numbers.{part}");
            *number = edit.first(&part, new_node("Reshape", &[*number, shape]), None)?;
        }
        weights.push(dequantized(edit, name, of)?);
    }
    let mut inputs = edit.node.inputs.clone();
    inputs.truncate(8);
    for (input, weights) in inputs.iter_mut().skip(1).zip(weights) {
        *input = Some(weights);
    }
    edit.end("LSTM", &[]);
    edit.node.inputs = inputs;
    Ok(())
}

/// `(x - zero) * scale`, with numbers that broadcast.
fn dequantized(
    edit: &mut Edit<'_>,
    name: &str,
    [x, scale, zero]: [ValueId; 3],
) -> Result<ValueId, String> {
    let mut wide = [x, zero];
    for (value, part) in wide.iter_mut().zip(["values", "zero"]) {
        let cast = new_node("CastLike", &[*value, scale]);
        *value = edit.first(&format!("{name}.{part}"), cast, None)?;
    }
    let apart = edit.first(&format!("{name}.apart"), new_node("Sub", &wide), None)?;
    edit.first(name, new_node("Mul", &[apart, scale]), None)
}
