//! Maps the operations of `NNRt` on images, which are channels-last unless the tensor's description says otherwise.
//!
//! The operators of this runtime have channels second: transposes are added around them, and passes remove those that
//! cancel out.

use udo_api::{AxisEncoding, Encodings};

use super::{Lower, Result, invalid};
use udo_engine::device::{Extent, SpecDetails};
use udo_graph::graph::{Attr, ValueId};

/// The index of `valid` among the choices of attribute `pad_mode`.
const VALID: i64 = 1;

pub(super) fn avg_pool(lower: &mut Lower<'_>) -> Result<()> {
    pool(lower, "AveragePool", "GlobalAveragePool")
}

pub(super) fn max_pool(lower: &mut Lower<'_>) -> Result<()> {
    pool(lower, "MaxPool", "GlobalMaxPool")
}

/// Lowers a pooling with windows, or over the whole image.
fn pool(lower: &mut Lower<'_>, windows_op: &str, global_op: &str) -> Result<()> {
    let images = images(lower, 0)?;
    let y = if lower.flag("global")? {
        lower.node(global_op, &[images], &[])
    } else {
        let kernel = lower.exactly::<2>("kernel_size")?;
        let mut attrs = vec![("kernel_shape", Attr::Ints(kernel.to_vec()))];
        attrs.extend(strides(lower)?);
        attrs.extend(pads(lower)?);
        attrs.push(("ceil_mode", Attr::Int(lower.int("round_mode")?)));
        lower.node(windows_op, &[images], &attrs)
    };
    give_images(lower, y)
}

pub(super) fn conv(lower: &mut Lower<'_>) -> Result<()> {
    let group = lower.int("group")?;
    convolution(lower, group)
}

/// Lowers a depthwise convolution: a group for each input channel.
pub(super) fn depthwise(lower: &mut Lower<'_>) -> Result<()> {
    let channels = if lower.is_nchw(0)? { 1 } else { lower.rank(0)?.saturating_sub(1) };
    let Some(Extent::Fixed(channels)) = lower.input(0)?.extent(channels) else {
        let found = lower.input(0)?;
        return Err(invalid(format!("input 0 is {found}, expected channels that are fixed")));
    };
    convolution(lower, i64::try_from(channels).unwrap_or(i64::MAX))
}

/// Lowers a convolution.
fn convolution(lower: &mut Lower<'_>, group: i64) -> Result<()> {
    let x = images(lower, 0)?;
    let weights = weights(lower, &[0, 3, 1, 2])?;
    let bias = lower.bias(2)?;
    let mut attrs = vec![("group", Attr::Int(group))];
    attrs.extend(strides(lower)?);
    attrs.push(("dilations", Attr::Ints(lower.exactly::<2>("dilation")?.to_vec())));
    attrs.extend(pads(lower)?);
    let y = lower.node("Conv", &[x, weights, bias], &attrs);
    give_images(lower, y)
}

pub(super) fn conv_transpose(lower: &mut Lower<'_>) -> Result<()> {
    let group = lower.int("group")?;
    let x = images(lower, 0)?;
    let weights =
        if group == 1 { weights(lower, &[3, 0, 1, 2])? } else { grouped_weights(lower, group)? };
    let bias = lower.bias(2)?;
    let mut attrs = vec![("group", Attr::Int(group))];
    attrs.extend(strides(lower)?);
    attrs.push(("dilations", Attr::Ints(lower.exactly::<2>("dilation")?.to_vec())));
    attrs.push(("output_padding", Attr::Ints(lower.exactly::<2>("output_padding")?.to_vec())));
    attrs.extend(pads(lower)?);
    let y = lower.node("ConvTranspose", &[x, weights, bias], &attrs);
    give_images(lower, y)
}

/// Returns weights with permuted axes. They are transposed as stored integers, so that they stay constants.
fn weights(lower: &mut Lower<'_>, perm: &[i64]) -> Result<ValueId> {
    let (stored, spec) = (lower.stored(1)?, *lower.input(1)?);
    if spec.rank() != perm.len() {
        return Err(invalid(format!("input 1 is {spec}, expected {} dimensions", perm.len())));
    }
    let permuted = lower.transposed(stored, perm);
    match spec.encodings() {
        None => Ok(permuted),
        Some(encodings) => {
            let encodings = permuted_encodings(encodings, perm)?;
            lower.dequantized(permuted, spec.dtype(), encodings)
        }
    }
}

/// Returns encodings for permuted axes.
fn permuted_encodings(encodings: Encodings, perm: &[i64]) -> Result<Encodings> {
    let Encodings::PerAxis(encoding) = encodings else { return Ok(encodings) };
    let is_encoded_axis =
        |&from: &i64| usize::try_from(from).is_ok_and(|from| from == encoding.axis());
    let axis = perm.iter().position(is_encoded_axis).unwrap_or(encoding.axis());
    let permuted = AxisEncoding::intern(axis, encoding.scales(), encoding.zero_points());
    permuted.map(Encodings::PerAxis).map_err(|error| invalid(error.to_string()))
}

/// Returns weights of a grouped transposed convolution: the input channels of each group, which are last, move next to
/// the groups.
fn grouped_weights(lower: &mut Lower<'_>, group: i64) -> Result<ValueId> {
    let &[outputs, height, width, inputs] = lower.extents(1)?.as_slice() else {
        return Err(invalid(format!("input 1 is {}, expected 4 dimensions", lower.input(1)?)));
    };
    let groups = usize::try_from(group).ok().filter(|&group| group > 0);
    let groups = groups.filter(|&group| outputs.is_multiple_of(group)).ok_or_else(|| {
        invalid(format!("attribute \"group\" is {group}, expected a divisor of {outputs}"))
    })?;
    let [group_outputs, height, width, inputs] = [outputs / groups, height, width, inputs]
        .map(|extent| i64::try_from(extent).unwrap_or(i64::MAX));
    let weights = lower.x(1)?;
    let by_group = lower.reshaped(weights, &[group, group_outputs, height, width, inputs])?;
    let inputs_second = lower.transposed(by_group, &[0, 4, 1, 2, 3]);
    lower.reshaped(inputs_second, &[-1, group_outputs, height, width])
}

fn strides(lower: &Lower<'_>) -> Result<Option<(&'static str, Attr)>> {
    Ok(Some(("strides", Attr::Ints(lower.exactly::<2>("stride")?.to_vec()))))
}

/// Returns the padding attribute: a mode, or a pad for each edge; `None` if neither is set.
fn pads(lower: &Lower<'_>) -> Result<Option<(&'static str, Attr)>> {
    if lower.has("pad") && lower.has("pad_mode") {
        return Err(invalid(
            "attributes \"pad\" and \"pad_mode\" are both given, expected one of them",
        ));
    }
    if lower.has("pad") {
        let [top, bottom, left, right] = lower.exactly::<4>("pad")?;
        return Ok(Some(("pads", Attr::Ints(vec![top, left, bottom, right]))));
    }
    if !lower.has("pad_mode") || lower.int("pad_mode")? == VALID {
        return Ok(None);
    }
    Ok(Some(("auto_pad", Attr::Text("SAME_UPPER".to_owned()))))
}

/// Returns the real values of an image input with its channels second.
fn images(lower: &mut Lower<'_>, port: usize) -> Result<ValueId> {
    let rank = lower.rank(port)?;
    if rank != 4 {
        let found = lower.input(port)?;
        return Err(invalid(format!("input {port} is {found}, expected images of 4 dimensions")));
    }
    channels_second(lower, port)
}

/// Returns the real values of an input of any rank with its channels second.
fn channels_second(lower: &mut Lower<'_>, port: usize) -> Result<ValueId> {
    let (x, rank) = (lower.x(port)?, lower.rank(port)?);
    if lower.is_nchw(port)? || rank < 3 {
        return Ok(x);
    }
    Ok(lower.transposed(x, &to_second(rank)))
}

/// Returns the permutation that moves channels from the last axis to the second.
fn to_second(rank: usize) -> Vec<i64> {
    let axes: Vec<i64> = (0i64..).take(rank).collect();
    let [batch, inner @ .., last] = axes.as_slice() else { return axes };
    [&[*batch, *last], inner].concat()
}

/// Returns the inverse permutation, which moves channels last.
fn to_last(rank: usize) -> Vec<i64> {
    let axes: Vec<i64> = (0i64..).take(rank).collect();
    let [batch, channels, inner @ ..] = axes.as_slice() else { return axes };
    [&[*batch], inner, &[*channels]].concat()
}

/// Moves channels to their position in input 0.
fn restore_channels(lower: &mut Lower<'_>, y: ValueId) -> Result<ValueId> {
    let rank = lower.rank(0)?;
    if lower.is_nchw(0)? || rank < 3 {
        return Ok(y);
    }
    Ok(lower.transposed(y, &to_last(rank)))
}

/// Sets the output to an image with its channels second, after the activation.
fn give_images(lower: &mut Lower<'_>, y: ValueId) -> Result<()> {
    // The activation comes first, so that it is fused with its producer.
    let y = match lower.int("activation")? {
        0 => y,
        1 => lower.node("Relu", &[y], &[]),
        _ => lower.clipped(y, Some(0.0), Some(6.0))?,
    };
    let y = restore_channels(lower, y)?;
    lower.give(0, y)
}

pub(super) fn batch_norm(lower: &mut Lower<'_>) -> Result<()> {
    let x = channels_second(lower, 0)?;
    let mut inputs = vec![x];
    for port in 1..5 {
        inputs.push(lower.x(port)?);
    }
    let epsilon = [("epsilon", Attr::Float(lower.float("epsilon")?))];
    let y = lower.node("BatchNormalization", &inputs, &epsilon);
    let y = restore_channels(lower, y)?;
    lower.give(0, y)
}

pub(super) fn instance_norm(lower: &mut Lower<'_>) -> Result<()> {
    let x = channels_second(lower, 0)?;
    let inputs = [x, lower.x(1)?, lower.x(2)?];
    let epsilon = [("epsilon", Attr::Float(lower.float("epsilon")?))];
    let y = lower.node("InstanceNormalization", &inputs, &epsilon);
    let y = restore_channels(lower, y)?;
    lower.give(0, y)
}

/// Returns a vector with an element for each channel, in a shape that broadcasts to input 0.
fn per_channel(lower: &mut Lower<'_>, port: usize) -> Result<ValueId> {
    let value = lower.x(port)?;
    let rank = lower.rank(0)?;
    if !lower.is_nchw(0)? {
        return Ok(value);
    }
    let mut dims = vec![1; rank.saturating_sub(1)];
    if let Some(first) = dims.first_mut() {
        *first = -1;
    }
    lower.reshaped(value, &dims)
}

pub(super) fn bias_add(lower: &mut Lower<'_>) -> Result<()> {
    if lower.rank(1)? != 1 {
        return Err(invalid(format!("input 1 is {}, expected one dimension", lower.input(1)?)));
    }
    let inputs = [lower.x(0)?, per_channel(lower, 1)?];
    let y = lower.node("Add", &inputs, &[]);
    lower.give(0, y)
}

pub(super) fn prelu(lower: &mut Lower<'_>) -> Result<()> {
    let inputs = [lower.x(0)?, per_channel(lower, 1)?];
    let y = lower.node("PRelu", &inputs, &[]);
    lower.give(0, y)
}

pub(super) fn resize(lower: &mut Lower<'_>) -> Result<()> {
    let mode = match lower.int("coordinate_mode")? {
        0 => "asymmetric",
        1 => "align_corners",
        _ => "half_pixel",
    };
    let (height, width) = (lower.int("new_height")?, lower.int("new_width")?);
    let images = images(lower, 0)?;
    let sizes = lower.int_list(&[height, width])?;
    let policy = if lower.flag("preserve_aspect_ratio")? { "not_larger" } else { "stretch" };
    let text = |text: &str| Attr::Text(text.to_owned());
    let attrs = [
        ("mode", text("linear")),
        ("axes", Attr::Ints(vec![2, 3])),
        ("coordinate_transformation_mode", text(mode)),
        ("keep_aspect_ratio_policy", text(policy)),
        ("exclude_outside", Attr::Int(lower.int("exclude_outside")?)),
    ];
    let y = lower.node_of("Resize", &[Some(images), None, None, Some(sizes)], &attrs);
    let y = restore_channels(lower, y)?;
    lower.give(0, y)
}

pub(super) fn lrn(lower: &mut Lower<'_>) -> Result<()> {
    let radius = lower.int("depth_radius")?;
    let size = radius.checked_mul(2).and_then(|twice| twice.checked_add(1));
    let size = size.filter(|_| radius >= 0).ok_or_else(|| {
        invalid(format!("attribute \"depth_radius\" is {radius}, expected a number of channels"))
    })?;
    let divisor = i32::try_from(size).map(f64::from).map_err(|_| {
        invalid(format!("attribute \"depth_radius\" is {radius}, expected fewer channels"))
    })?;
    let images = images(lower, 0)?;
    let attrs = [
        ("size", Attr::Int(size)),
        // ONNX divides alpha by the size.
        ("alpha", Attr::Float(lower.float("alpha")? * divisor)),
        ("beta", Attr::Float(lower.float("beta")?)),
        ("bias", Attr::Float(lower.float("bias")?)),
    ];
    let y = lower.node("LRN", &[images], &attrs);
    let y = restore_channels(lower, y)?;
    lower.give(0, y)
}

pub(super) fn depth_to_space(lower: &mut Lower<'_>) -> Result<()> {
    let mode = if lower.int("mode")? == 0 { "DCR" } else { "CRD" };
    let block = lower.int("block_size")?;
    let attrs = [("blocksize", Attr::Int(block)), ("mode", Attr::Text(mode.to_owned()))];
    rearranged(lower, "DepthToSpace", &attrs)
}

pub(super) fn space_to_depth(lower: &mut Lower<'_>) -> Result<()> {
    let block = lower.int("block_size")?;
    rearranged(lower, "SpaceToDepth", &[("blocksize", Attr::Int(block))])
}

pub(super) fn batch_to_space(lower: &mut Lower<'_>) -> Result<()> {
    let crops = ("crops", Attr::Ints(lower.exactly::<4>("crops")?.to_vec()));
    let block = ("block", Attr::Ints(lower.exactly::<2>("block_shape")?.to_vec()));
    rearranged(lower, "udo:BatchToSpace", &[block, crops])
}

pub(super) fn space_to_batch(lower: &mut Lower<'_>) -> Result<()> {
    let pads = ("pads", Attr::Ints(lower.exactly::<4>("paddings")?.to_vec()));
    let block = ("block", Attr::Ints(lower.exactly::<2>("block_shape")?.to_vec()));
    rearranged(lower, "udo:SpaceToBatch", &[block, pads])
}

/// Adds an operator that moves the elements of images.
fn rearranged(lower: &mut Lower<'_>, op: &str, attrs: &[(&str, Attr)]) -> Result<()> {
    let images = images(lower, 0)?;
    let y = lower.node(op, &[images], attrs);
    let y = restore_channels(lower, y)?;
    lower.give(0, y)
}
