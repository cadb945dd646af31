//! Converts ONNX Runtime's `EmbedLayerNormalization`, in floating point and quantized: the sum of word, position and
//! segment embeddings, normalized.

use udo_api::{DType, Shape};

use super::composed::EPSILON;
use super::edit::{Edit, new_node, own_node, with_int};
use udo_engine::cores::convert;
use udo_graph::graph::{Attr, ValueId};

/// A table of embeddings, with the ports of its scale and zero point if it is quantized.
#[derive(Clone, Copy)]
struct Table {
    name: &'static str,
    port: usize,
    encoding: Option<[usize; 2]>,
}

pub(super) fn float(edit: &mut Edit<'_>) -> Result<(), String> {
    let table = |name, port| Table { name, port, encoding: None };
    let tables = [table("word", 2), table("position", 3), table("segment", 4)];
    let sum = sum(edit, tables, edit.node.input(8))?;
    let (scale, bias) = (edit.required(5)?, edit.required(6)?);
    normalized(edit, sum, [scale, bias])
}

pub(super) fn quantized(edit: &mut Edit<'_>) -> Result<(), String> {
    let table = |name, port, scale, zero| Table { name, port, encoding: Some([scale, zero]) };
    let tables =
        [table("word", 2, 8, 13), table("position", 3, 9, 14), table("segment", 4, 10, 15)];
    let sum = sum(edit, tables, None)?;
    let scale = (edit.required(5)?, table("scale", 5, 11, 16));
    let bias = (edit.required(6)?, table("bias", 6, 12, 17));
    let scale = dequantized(edit, &scale.1, scale.0)?;
    let bias = dequantized(edit, &bias.1, bias.0)?;
    normalized(edit, sum, [scale, bias])
}

/// Returns the sum of the word, position and segment embeddings, which may also be an output.
fn sum(
    edit: &mut Edit<'_>,
    [word, position, segment]: [Table; 3],
    positions: Option<ValueId>,
) -> Result<ValueId, String> {
    let ids = edit.required(0)?;
    let words = rows(edit, &word, ids)?;
    let positions = match positions {
        Some(positions) => rows(edit, &position, positions)?,
        None => first_rows(edit, &position)?,
    };
    let sum_output = edit.node.output(2);
    let sum = new_node("Add", &[words, positions]);
    let Some(segments) = edit.node.input(1) else { return edit.first("sum", sum, sum_output) };
    let two = edit.first("two", sum, None)?;
    let segments = rows(edit, &segment, segments)?;
    edit.first("sum", new_node("Add", &[two, segments]), sum_output)
}

/// Returns the rows of a table at some indices.
fn rows(edit: &mut Edit<'_>, table: &Table, indices: ValueId) -> Result<ValueId, String> {
    let from = edit.required(table.port)?;
    let rows = new_node("Gather", &[from, indices]);
    let rows = edit.first(&format!("{}.rows", table.name), rows, None)?;
    dequantized(edit, table, rows)
}

/// Returns the first rows of the table: positions default to 0, 1, 2 and so on.
fn first_rows(edit: &mut Edit<'_>, table: &Table) -> Result<ValueId, String> {
    let (from, ids) = (edit.required(table.port)?, edit.input(0));
    let &[_, len] = ids.shape() else { return Err(format!("input 0 is {ids}, expected rank 2")) };
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let (start, end) = (edit.list("start", &[0])?, edit.list("end", &[len])?);
    let rows = new_node("Slice", &[from, start, end, start]);
    let rows = edit.first(&format!("{}.rows", table.name), rows, None)?;
    dequantized(edit, table, rows)
}

/// Dequantizes rows of a table.
fn dequantized(edit: &mut Edit<'_>, table: &Table, rows: ValueId) -> Result<ValueId, String> {
    let Some([scale, zero]) = table.encoding else { return Ok(rows) };
    let operands = [rows, edit.required(scale)?, edit.required(zero)?];
    edit.first(table.name, own_node("DequantizeLinear", &operands), None)
}

/// Turns the node into the normalization of a sum, and adds the output with the number of words of each sequence.
fn normalized(
    edit: &mut Edit<'_>,
    sum: ValueId,
    [scale, bias]: [ValueId; 2],
) -> Result<(), String> {
    edit.take("mask_index_type");
    if edit.node.attr("epsilon").is_none() {
        edit.set("epsilon", Attr::Float(EPSILON));
    }
    if let Some(lengths) = edit.node.output(1) {
        add_lengths(edit, lengths)?;
    }
    edit.node.outputs.truncate(1);
    edit.end("LayerNormalization", &[sum, scale, bias]);
    Ok(())
}

/// Adds the number of ones in the mask of each sequence; zeros without a mask.
fn add_lengths(edit: &mut Edit<'_>, lengths: ValueId) -> Result<(), String> {
    let Some(mask) = edit.node.input(7) else {
        let batch = edit.input(0).shape().first().copied().unwrap_or(0);
        let batch = edit.list("batch", &[i64::try_from(batch).unwrap_or(i64::MAX)])?;
        let mut zeros = new_node("ConstantOfShape", &[batch]);
        let shape = Shape::new(&[1]).map_err(|e| e.to_string())?;
        let zero = convert::from_numbers(DType::I32, shape, &[0.0]).map_err(|e| e.to_string())?;
        zeros.attrs.push(("value".to_owned(), Attr::Tensor(zero)));
        return edit.first("lengths", zeros, Some(lengths)).map(drop);
    };
    let (unmasked, axis) = (edit.numbers_like(7, "one", &[], &[1.0])?, edit.list("axis", &[1])?);
    let words = edit.first("words", new_node("Equal", &[mask, unmasked]), None)?;
    let to = i64::from(DType::I32.onnx());
    let words = edit.first("ones", with_int(new_node("Cast", &[words]), "to", to), None)?;
    let sums = with_int(new_node("ReduceSum", &[words, axis]), "keepdims", 0);
    edit.first("lengths", sums, Some(lengths)).map(drop)
}
