//! Quantized operators that become `DequantizeLinear`, a float operator and `QuantizeLinear`, or that are only renamed.

use super::UDO;
use super::edit::{Edit, new_node, own_node};
use udo_graph::graph::{Attr, Node, ValueId};

/// Dequantizes an input with the scale and zero point at the next two ports.
fn dequantized(edit: &mut Edit<'_>, name: &str, port: usize) -> Result<ValueId, String> {
    let inputs = [port, port + 1, port + 2].map(|port| edit.node.input(port)).to_vec();
    edit.first(name, Node { inputs, ..own_node("DequantizeLinear", &[]) }, None)
}

/// Turns the node into the quantization of `value`, with the scale at port `scale` and the zero point at the next one.
fn quantize(edit: &mut Edit<'_>, value: ValueId, scale: usize) {
    let inputs = [Some(value), edit.node.input(scale), edit.node.input(scale + 1)].to_vec();
    edit.end_own("QuantizeLinear", inputs);
}

/// Upgrades `QLinearWhere`.
pub(super) fn choice(edit: &mut Edit<'_>) -> Result<(), String> {
    let (choice, x, y) =
        (edit.required(0)?, dequantized(edit, "x", 1)?, dequantized(edit, "y", 4)?);
    let chosen = edit.first("chosen", new_node("Where", &[choice, x, y]), None)?;
    quantize(edit, chosen, 7);
    Ok(())
}

/// Upgrades `QLinearReduceMean`.
pub(super) fn reduce_mean(edit: &mut Edit<'_>) -> Result<(), String> {
    let axes = edit.take_ints("axes")?;
    let keepdims = edit.take_int("keepdims")?.unwrap_or(1);
    let x = dequantized(edit, "x", 0)?;
    let axes = axes.map(|axes| edit.list("axes", &axes)).transpose()?;
    let inputs: Vec<ValueId> = [x].into_iter().chain(axes).collect();
    let mut mean = new_node("ReduceMean", &inputs);
    mean.attrs.push(("keepdims".to_owned(), Attr::Int(keepdims)));
    let mean = edit.first("mean", mean, None)?;
    quantize(edit, mean, 3);
    Ok(())
}

/// Upgrades a matrix product of values with up to 16 bits and an optional bias for each column.
pub(super) fn product(edit: &mut Edit<'_>) -> Result<(), String> {
    edit.required(7)?;
    if edit.node.input(8).is_some() {
        edit.rename(UDO, "QLinearMatMulAdd");
    } else {
        edit.node.inputs.truncate(8);
        edit.rename("", "QLinearMatMul");
    }
    Ok(())
}
