//! Layers that combine tensors pixel by pixel: sums, products, concats, tables and softmax.

use udo_api::{Shape, resolve_axis};
use udo_hta::Op;

use super::shape::Shaped;
use super::{LayerNode, LayerParts, Lowering};
use crate::resolve::{ParamSetting, TypedGraph};
use udo_graph::memory::Tensor;

pub(super) fn add<'a>(
    lowering: &Lowering<'a>,
    layer: &LayerNode<'a>,
) -> Result<LayerParts<'a>, String> {
    Ok(LayerParts { op: Op::Add, reads: pair(lowering, layer)? })
}

pub(super) fn mul<'a>(
    lowering: &Lowering<'a>,
    layer: &LayerNode<'a>,
) -> Result<LayerParts<'a>, String> {
    Ok(LayerParts { op: Op::Mul, reads: pair(lowering, layer)? })
}

/// Returns the ports of both operands; an operand with one element for each channel comes last.
fn pair(lowering: &Lowering<'_>, layer: &LayerNode<'_>) -> Result<Vec<usize>, String> {
    let [x, y] = [lowering.shaped(layer, 0)?, lowering.shaped(layer, 3)?];
    let output = lowering.output(layer)?;
    let has_output_shape =
        |shape: Shaped| shape.nhwc == output.nhwc && shape.is_image == output.is_image;
    let [.., channels] = output.nhwc;
    let is_row = |shape: Shaped, port: usize| {
        let is_repeated = lowering.derived.rows.contains_key(&(layer.at, port));
        is_repeated || (shape.nhwc == [1, 1, 1, channels] && shape.is_image == output.is_image)
    };
    if has_output_shape(x) && (has_output_shape(y) || is_row(y, 3)) {
        return Ok(vec![0, 3]);
    }
    if has_output_shape(y) && is_row(x, 0) {
        return Ok(vec![3, 0]);
    }
    Err("combines tensors of different shapes, expected equal ones or a number for each channel"
        .to_owned())
}

/// Returns a constant scalar operand of a sum or product, repeated for each channel, and its port.
pub(super) fn rows(graph: &TypedGraph, layer: &LayerNode<'_>) -> Option<(usize, Tensor)> {
    let is_pair = matches!(layer.bound.op.schema().name(), "QLinearAdd" | "QLinearMul");
    let [.., channels] = Shaped::from_desc(&graph.desc(layer.bound.node.output(0))).ok()?.nhwc;
    let is_scalar = |port: &usize| {
        graph.known(layer.input(*port)).is_some_and(|tensor| tensor.desc().len() == 1)
    };
    let port = [3, 0].into_iter().find(is_scalar).filter(|_| is_pair)?;
    let number = graph.known(layer.input(port))?.get::<u8>()?.first().copied()?;
    let row = Tensor::from_slice(Shape::new(&[channels]).ok()?, &vec![number; channels]).ok()?;
    Some((port, row))
}

/// Returns whether an axis is the channel axis.
fn along_channels(
    lowering: &Lowering<'_>,
    layer: &LayerNode<'_>,
    port: usize,
) -> Result<bool, String> {
    let rank = lowering.graph.desc(layer.input(port)).rank();
    let axis = layer.int("axis").and_then(|axis| resolve_axis(axis, rank));
    Ok(axis == Some(lowering.shaped(layer, port)?.channel_axis(rank)))
}

pub(super) fn concat<'a>(
    lowering: &Lowering<'a>,
    layer: &LayerNode<'a>,
) -> Result<LayerParts<'a>, String> {
    if !along_channels(lowering, layer, 2)? {
        return Err("joins along an axis other than channels".to_owned());
    }
    Ok(LayerParts {
        op: Op::Concat,
        reads: (2..layer.bound.node.inputs.len()).step_by(3).collect(),
    })
}

/// The first ONNX operator set in which `Softmax` normalizes over one axis; earlier ones include all later axes.
const ONE_AXIS: i64 = 13;

pub(super) fn softmax<'a>(
    lowering: &Lowering<'a>,
    layer: &LayerNode<'a>,
) -> Result<LayerParts<'a>, String> {
    let x = lowering.shaped(layer, 0)?;
    let spans_pixels = layer.int("opset").is_some_and(|opset| opset < ONE_AXIS) && x.is_image;
    if !along_channels(lowering, layer, 0)? || spans_pixels {
        return Err("normalizes along an axis other than channels".to_owned());
    }
    Ok(LayerParts { op: Op::Softmax, reads: vec![0] })
}

/// Returns the table of a `Lookup` node: the output value for each of the 256 input values.
pub(super) fn table(layer: &LayerNode<'_>) -> Option<[u8; 256]> {
    let Some(ParamSetting::Ints(entries)) = layer.setting("table") else { return None };
    let entries: Option<Vec<u8>> = entries.iter().map(|&entry| entry.try_into().ok()).collect();
    entries?.try_into().ok()
}

pub(super) fn lookup<'a>(
    lowering: &Lowering<'a>,
    layer: &LayerNode<'a>,
) -> Result<LayerParts<'a>, String> {
    let table = lowering.derived.tables.get(&layer.at).ok_or("has no table of 256 values")?;
    Ok(LayerParts { op: Op::Lookup { table }, reads: vec![0] })
}
