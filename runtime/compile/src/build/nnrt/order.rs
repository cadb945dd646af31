//! Maps the operations of `NNRt` that sort or search values, and its assertion.

use super::{Lower, Result, invalid};
use udo_graph::graph::{Attr, ValueId};

pub(super) fn top_k(lower: &mut Lower<'_>) -> Result<()> {
    let axis = lower.int("axis")?;
    let sorted = lower.int("sorted")?;
    let k = lower.ints(1)?;
    let [values, indices] = top(lower, k, axis, sorted)?;
    lower.give(0, values)?;
    lower.give_cast(1, indices)
}

/// Returns the `k` largest elements along an axis, and their indices.
fn top(lower: &mut Lower<'_>, k: ValueId, axis: i64, sorted: i64) -> Result<[ValueId; 2]> {
    let x = lower.x(0)?;
    let attrs = [("axis", Attr::Int(axis)), ("sorted", Attr::Int(sorted))];
    let outputs = lower.nodes("TopK", &[Some(x), Some(k)], &attrs, 2);
    outputs.try_into().map_err(|_| invalid("a node of two outputs has another number"))
}

pub(super) fn arg_max(lower: &mut Lower<'_>) -> Result<()> {
    let (axis, keep) = (lower.int("axis")?, lower.int("keep_dims")?);
    let (k, wants_value) = (lower.int("top_k")?, lower.flag("out_max_value")?);
    if k < 1 {
        return Err(invalid(format!("attribute \"top_k\" is {k}, expected a number above 0")));
    }
    if k == 1 && !wants_value {
        let x = lower.x(0)?;
        let attrs = [("axis", Attr::Int(axis)), ("keepdims", Attr::Int(keep))];
        let y = lower.node("ArgMax", &[x], &attrs);
        return lower.give_cast(0, y);
    }
    let count = lower.int_list(&[k])?;
    let [values, indices] = top(lower, count, axis, 1)?;
    let mut y = if wants_value { values } else { indices };
    if k == 1 && keep == 0 {
        let axes = lower.int_list(&[axis])?;
        y = lower.node("Squeeze", &[y, axes], &[]);
    }
    if wants_value { lower.give(0, y) } else { lower.give_cast(0, y) }
}

/// Returns the input unchanged, or fails the run. The number of elements to print is ignored.
pub(super) fn assert(lower: &mut Lower<'_>) -> Result<()> {
    let inputs = [lower.x(1)?, lower.x(0)?];
    let y = lower.node("udo:Assert", &inputs, &[]);
    lower.give(0, y)
}

pub(super) fn detection_post_process(lower: &mut Lower<'_>) -> Result<()> {
    if lower.flag("out_quantized")? {
        return Err(Lower::refuse(
            "attribute \"out_quantized\" is 1; quantize the outputs' tensors instead",
        ));
    }
    let scale = lower.floats("scale").filter(|scale| scale.len() == 4);
    let scale = scale.ok_or_else(|| {
        invalid("attribute \"scale\" is missing, expected numbers for y, x, height and width")
    })?;
    let attrs = [
        ("scale", Attr::Floats(scale)),
        ("iou_threshold", Attr::Float(lower.float("nms_iou_threshold")?)),
        ("score_threshold", Attr::Float(lower.float("nms_score_threshold")?)),
        ("max_detections", Attr::Int(lower.int("max_detections")?)),
        ("detections_per_class", Attr::Int(lower.int("detections_per_class")?)),
        ("max_classes_per_detection", Attr::Int(lower.int("max_classes_per_detection")?)),
        ("num_classes", Attr::Int(lower.int("num_classes")?)),
        ("regular", Attr::Int(lower.int("use_regular_nms")?)),
    ];
    let mut inputs = Vec::with_capacity(3);
    for port in 0..3 {
        inputs.push(Some(lower.x(port)?));
    }
    let outputs = lower.nodes("udo:DetectionPostProcess", &inputs, &attrs, 4);
    outputs.into_iter().enumerate().try_for_each(|(port, value)| lower.give_cast(port, value))
}
