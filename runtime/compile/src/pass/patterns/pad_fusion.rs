//! Moves padding into the operator that follows: Conv(Pad(x, p), pads) -> Conv(x, p + pads), where the padded value is
//! neutral for the operator.

use udo_api::{DType, resolve_axis};

use crate::pass::{Candidate, Operand, Replacement};
use udo_graph::graph::Attr;
use udo_graph::memory::TensorStorage;

/// Operators without negative results; they propagate NaN.
const NOT_NEGATIVE: &[&str] = &["Abs", "HardSigmoid", "Relu", "Sigmoid", "Softmax", "Softplus"];

/// Returns the convolution or pooling with the padding included.
pub(in crate::pass) fn find(node: &Candidate<'_>) -> Option<Replacement> {
    let op = node.op()?;
    let pad = node.made_by(0, "Pad")?;
    if pad.text("mode") != Some("constant") || node.int("ceil_mode") == Some(1) {
        return None;
    }
    let own_pads = own_pads(node)?;
    let sums = own_pads.iter().zip(added_pads(&pad)?);
    let pads: Vec<i64> = sums.map(|(own, added)| own + added).collect();
    let mut padded = Replacement::from_node(node)?;
    let is_neutral = match op {
        "Conv" | "LpPool" => is_zero(&pad, 2)?,
        "ConvInteger" | "QLinearConv" => is_zero_point(&pad, node, 2)?,
        "AveragePool" => {
            padded.set("count_include_pad", Attr::Int(1));
            let counts_padding = node.int("count_include_pad") == Some(1);
            is_zero(&pad, 2)? && (counts_padding || own_pads.iter().all(|&pad| pad == 0))
        }
        "MaxPool" => {
            pads_with_lowest(&pad) || (is_zero(&pad, 2)? && zeros_never_win(node, &pad, &pads)?)
        }
        _ => false,
    };
    padded.attrs.retain(|(name, _)| *name != "auto_pad");
    padded.set("pads", Attr::Ints(pads));
    *padded.inputs.first_mut()? = Operand::Value(pad.input_id(0)?);
    is_neutral.then_some(padded)
}

/// Returns the pads of a window operator, all begins before all ends; `None` if they depend on extents.
pub(super) fn own_pads(node: &Candidate<'_>) -> Option<Vec<i64>> {
    let count = 2 * node.input(0).rank().checked_sub(2)?;
    let zeros = || Some(vec![0; count]);
    match node.text("auto_pad") {
        None | Some("NOTSET") => match node.ints("pads") {
            Some(pads) => Some(pads.to_vec()).filter(|pads| pads.len() == count),
            None => zeros(),
        },
        Some("VALID") => zeros(),
        Some(_) => None,
    }
}

/// Returns the pads of a `Pad` node in the order of [`own_pads`], if none is negative and only spatial axes are padded.
fn added_pads(pad: &Candidate<'_>) -> Option<Vec<i64>> {
    let (rank, pads) = (pad.input(0).rank(), pad.constant::<i64>(1)?);
    let axes: Vec<i64> = match pad.input_id(3) {
        None => (0..).take(rank).collect(),
        Some(_) => match pad.constant::<i32>(3) {
            Some(axes) => axes.iter().copied().map(i64::from).collect(),
            None => pad.constant::<i64>(3)?.to_vec(),
        },
    };
    let (begins, ends) = pads.split_at_checked(axes.len())?;
    if begins.len() != ends.len() || pads.iter().any(|&pad| pad < 0) {
        return None;
    }
    let mut all_pads = [vec![0; rank], vec![0; rank]];
    for ((&axis, &begin), &end) in axes.iter().zip(begins).zip(ends) {
        let axis = resolve_axis(axis, rank)?;
        *all_pads[0].get_mut(axis)? += begin;
        *all_pads[1].get_mut(axis)? += end;
    }
    let are_images = all_pads.iter().all(|pads| pads.iter().take(2).all(|&pad| pad == 0));
    are_images.then(|| all_pads.iter().flat_map(|pads| pads.iter().skip(2).copied()).collect())
}

/// Returns whether an input is omitted or 0; `None` if a run computes it.
fn is_zero(node: &Candidate<'_>, port: usize) -> Option<bool> {
    match node.input_id(port) {
        Some(_) => Some(node.tensor(port)?.stored().iter().all(|&byte| byte == 0)),
        None => Some(true),
    }
}

/// Returns whether the padded value is the zero point.
fn is_zero_point(pad: &Candidate<'_>, node: &Candidate<'_>, port: usize) -> Option<bool> {
    if is_zero(pad, 2)? && is_zero(node, port)? {
        return Some(true);
    }
    Some(pad.tensor(2)?.bytes() == node.tensor(port)?.bytes())
}

/// Returns whether the padded value is the lowest of its type.
fn pads_with_lowest(pad: &Candidate<'_>) -> bool {
    let is_f32 = pad.scalar(2) == Some(f32::NEG_INFINITY);
    let is_f64 = pad.constant::<f64>(2) == Some(&[f64::NEG_INFINITY]);
    let is_u8 = pad.input(0).dtype() == Some(DType::U8) && is_zero(pad, 2) == Some(true);
    is_f32 || is_f64 || is_u8 || pad.constant::<i8>(2) == Some(&[i8::MIN])
}

/// Returns whether padded zeros never change a maximum: every window contains an element, and no element is negative.
fn zeros_never_win(node: &Candidate<'_>, pad: &Candidate<'_>, pads: &[i64]) -> Option<bool> {
    let windows = node.ints("kernel_shape")?;
    let has_elements = pad.input(0).full_shape().is_fixed() && !pad.input(0).shape().contains(&0);
    let are_dense = node.ints("dilations").is_none_or(|steps| steps.iter().all(|&step| step == 1));
    let contain_elements =
        pads.iter().zip(windows.iter().cycle()).all(|(pad, window)| pad < window);
    let producer = pad.producer(0)?;
    let is_clip =
        producer.op() == Some("Clip") && producer.scalar(1).is_some_and(|least| least >= 0.0);
    let is_not_negative = is_clip || producer.op().is_some_and(|op| NOT_NEGATIVE.contains(&op));
    Some(has_elements && are_dense && contain_elements && is_not_negative)
}
