//! What meets pixel by pixel: sums, products, tensors behind each other, tables and shares.

use udo_api::resolve_axis;
use udo_hta::Op;

use super::shape::Shaped;
use super::{Lowering, Made, Use};
use crate::resolve::ParamSetting;

pub(super) fn add<'a>(lowering: &Lowering<'a>, of: &Use<'a>) -> Result<Made<'a>, String> {
    Ok(Made { op: Op::Add, reads: pair(lowering, of)? })
}

pub(super) fn mul<'a>(lowering: &Lowering<'a>, of: &Use<'a>) -> Result<Made<'a>, String> {
    Ok(Made { op: Op::Mul, reads: pair(lowering, of)? })
}

/// The ports of both operands, the one with a number for each channel last.
fn pair(lowering: &Lowering<'_>, of: &Use<'_>) -> Result<Vec<usize>, String> {
    let [x, y] = [lowering.shaped(of, 0)?, lowering.shaped(of, 3)?];
    let whole = lowering.output(of)?;
    let is_whole = |of: Shaped| of.nhwc == whole.nhwc && of.is_image == whole.is_image;
    let [.., channels] = whole.nhwc;
    let is_row = |of: Shaped| of.nhwc == [1, 1, 1, channels] && of.is_image == whole.is_image;
    if is_whole(x) && (is_whole(y) || is_row(y)) {
        return Ok(vec![0, 3]);
    }
    if is_whole(y) && is_row(x) {
        return Ok(vec![3, 0]);
    }
    Err("meets tensors of other shapes than the same, or a number for each channel".to_owned())
}

/// Whether an axis is the channels'.
fn along_channels(lowering: &Lowering<'_>, of: &Use<'_>, port: usize) -> Result<bool, String> {
    let rank = lowering.graph.desc(of.input(port)).rank();
    let axis = of.int("axis").and_then(|axis| resolve_axis(axis, rank));
    Ok(axis == Some(lowering.shaped(of, port)?.channel_axis(rank)))
}

pub(super) fn concat<'a>(lowering: &Lowering<'a>, of: &Use<'a>) -> Result<Made<'a>, String> {
    if !along_channels(lowering, of, 2)? {
        return Err("joins along another axis than channels".to_owned());
    }
    Ok(Made { op: Op::Concat, reads: (2..of.bound.node.inputs.len()).step_by(3).collect() })
}

/// The operator set of ONNX from which on Softmax goes along one axis.
const ONE_AXIS: i64 = 13;

pub(super) fn softmax<'a>(lowering: &Lowering<'a>, of: &Use<'a>) -> Result<Made<'a>, String> {
    let x = lowering.shaped(of, 0)?;
    let goes_on = of.int("opset").is_some_and(|opset| opset < ONE_AXIS) && x.is_image;
    if !along_channels(lowering, of, 0)? || goes_on {
        return Err("sums up along another axis than channels".to_owned());
    }
    Ok(Made { op: Op::Softmax, reads: vec![0] })
}

/// The table of a node, if it has one.
pub(super) fn table(of: &Use<'_>) -> Option<[u8; 256]> {
    let Some(ParamSetting::Ints(entries)) = of.setting("table") else { return None };
    let entries: Option<Vec<u8>> = entries.iter().map(|&entry| entry.try_into().ok()).collect();
    entries?.try_into().ok()
}

pub(super) fn lookup<'a>(lowering: &Lowering<'a>, of: &Use<'a>) -> Result<Made<'a>, String> {
    let table = lowering.derived.tables.get(&of.at).ok_or("has no table of 256 values")?;
    Ok(Made { op: Op::Lookup { table }, reads: vec![0] })
}
