//! Layers that combine tensors pixel by pixel: sums, products, concats, tables and softmax.

use udo_api::{Shape, resolve_axis};
use udo_hta::Op;

use super::shape::Shaped;
use super::{LayerParts, Lowering, Use};
use crate::resolve::{ParamSetting, TypedGraph};
use udo_graph::memory::Tensor;

pub(super) fn add<'a>(lowering: &Lowering<'a>, of: &Use<'a>) -> Result<LayerParts<'a>, String> {
    Ok(LayerParts { op: Op::Add, reads: pair(lowering, of)? })
}

pub(super) fn mul<'a>(lowering: &Lowering<'a>, of: &Use<'a>) -> Result<LayerParts<'a>, String> {
    Ok(LayerParts { op: Op::Mul, reads: pair(lowering, of)? })
}

/// Returns the ports of both operands; an operand with one element for each channel comes last.
fn pair(lowering: &Lowering<'_>, use_of: &Use<'_>) -> Result<Vec<usize>, String> {
    let [x, y] = [lowering.shaped(use_of, 0)?, lowering.shaped(use_of, 3)?];
    let whole = lowering.output(use_of)?;
    let is_whole = |of: Shaped| of.nhwc == whole.nhwc && of.is_image == whole.is_image;
    let [.., channels] = whole.nhwc;
    let is_row = |of: Shaped, port: usize| {
        let is_made = lowering.derived.rows.contains_key(&(use_of.at, port));
        is_made || (of.nhwc == [1, 1, 1, channels] && of.is_image == whole.is_image)
    };
    if is_whole(x) && (is_whole(y) || is_row(y, 3)) {
        return Ok(vec![0, 3]);
    }
    if is_whole(y) && is_row(x, 0) {
        return Ok(vec![3, 0]);
    }
    Err("combines tensors of different shapes, expected equal ones or a number for each channel"
        .to_owned())
}

/// Returns a constant scalar operand of a sum or product, repeated for each channel, and its port.
pub(super) fn rows(graph: &TypedGraph, of: &Use<'_>) -> Option<(usize, Tensor)> {
    let is_pair = matches!(of.bound.op.schema().name(), "QLinearAdd" | "QLinearMul");
    let [.., channels] = Shaped::from_desc(&graph.desc(of.bound.node.output(0))).ok()?.nhwc;
    let known = |port: &usize| graph.known(of.input(*port)).is_some_and(|it| it.desc().len() == 1);
    let port = [3, 0].into_iter().find(known).filter(|_| is_pair)?;
    let number = graph.known(of.input(port))?.get::<u8>()?.first().copied()?;
    let row = Tensor::from_slice(Shape::new(&[channels]).ok()?, &vec![number; channels]).ok()?;
    Some((port, row))
}

/// Returns whether an axis is the channel axis.
fn along_channels(lowering: &Lowering<'_>, of: &Use<'_>, port: usize) -> Result<bool, String> {
    let rank = lowering.graph.desc(of.input(port)).rank();
    let axis = of.int("axis").and_then(|axis| resolve_axis(axis, rank));
    Ok(axis == Some(lowering.shaped(of, port)?.channel_axis(rank)))
}

pub(super) fn concat<'a>(lowering: &Lowering<'a>, of: &Use<'a>) -> Result<LayerParts<'a>, String> {
    if !along_channels(lowering, of, 2)? {
        return Err("joins along an axis other than channels".to_owned());
    }
    Ok(LayerParts { op: Op::Concat, reads: (2..of.bound.node.inputs.len()).step_by(3).collect() })
}

/// The first operator set in which `Softmax` normalizes over one axis.
const ONE_AXIS: i64 = 13;

pub(super) fn softmax<'a>(lowering: &Lowering<'a>, of: &Use<'a>) -> Result<LayerParts<'a>, String> {
    let x = lowering.shaped(of, 0)?;
    let goes_on = of.int("opset").is_some_and(|opset| opset < ONE_AXIS) && x.is_image;
    if !along_channels(lowering, of, 0)? || goes_on {
        return Err("normalizes along an axis other than channels".to_owned());
    }
    Ok(LayerParts { op: Op::Softmax, reads: vec![0] })
}

/// Returns the table of a node, if it has one.
pub(super) fn table(of: &Use<'_>) -> Option<[u8; 256]> {
    let Some(ParamSetting::Ints(entries)) = of.setting("table") else { return None };
    let entries: Option<Vec<u8>> = entries.iter().map(|&entry| entry.try_into().ok()).collect();
    entries?.try_into().ok()
}

pub(super) fn lookup<'a>(lowering: &Lowering<'a>, of: &Use<'a>) -> Result<LayerParts<'a>, String> {
    let table = lowering.derived.tables.get(&of.at).ok_or("has no table of 256 values")?;
    Ok(LayerParts { op: Op::Lookup { table }, reads: vec![0] })
}
