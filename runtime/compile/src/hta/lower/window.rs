//! Lowers operators that slide a window over an image: convolutions and poolings.

use udo_hta::{Divisor, Op, Window};

use super::{LayerNode, LayerParts, Lowering, matrix};

/// Returns a window with its strides, dilations and pads.
fn window(
    layer: &LayerNode<'_>,
    kernel: [usize; 2],
    x: [usize; 4],
    y: [usize; 4],
) -> Result<Window, String> {
    let (strides, dilations) = (layer.pair("strides", 1)?, layer.pair("dilations", 1)?);
    let explicit_pads = || match layer.setting("pads") {
        Some(crate::resolve::ParamSetting::Ints(pads)) if !pads.is_empty() => {
            let pads: Option<Vec<usize>> = pads.iter().map(|&pad| pad.try_into().ok()).collect();
            let pads = pads.and_then(|pads| <[usize; 4]>::try_from(pads).ok());
            pads.ok_or("has pads other than four numbers of 0 or more")
        }
        _ => Ok([0; 4]),
    };
    let is_lower = match layer.text("auto_pad").unwrap_or("NOTSET") {
        "SAME_UPPER" => false,
        "SAME_LOWER" => true,
        "VALID" => return Ok(Window { kernel, strides, dilations, pads: [0; 4] }),
        _ => return Ok(Window { kernel, strides, dilations, pads: explicit_pads()? }),
    };
    // SAME pads divide the padding by two; an odd element goes to the end (UPPER) or to the beginning (LOWER).
    let pads_along = |axis: usize| {
        let (kernel, stride) = (kernel.get(axis)?, strides.get(axis)?);
        let dilated = kernel.checked_sub(1)?.checked_mul(*dilations.get(axis)?)?.checked_add(1)?;
        let covered =
            y.get(axis + 1)?.checked_sub(1)?.checked_mul(*stride)?.checked_add(dilated)?;
        let total = covered.saturating_sub(*x.get(axis + 1)?);
        let smaller = total / 2;
        Some(if is_lower { [total - smaller, smaller] } else { [smaller, total - smaller] })
    };
    let pads = pads_along(0)
        .zip(pads_along(1))
        .map(|([top, bottom], [left, right])| [top, left, bottom, right]);
    Ok(Window { kernel, strides, dilations, pads: pads.ok_or("has no windows")? })
}

pub(super) fn conv<'a>(
    lowering: &Lowering<'a>,
    layer: &LayerNode<'a>,
) -> Result<LayerParts<'a>, String> {
    let (x, y) = (lowering.shaped(layer, 0)?, lowering.output(layer)?);
    let weights = lowering.graph.desc(layer.input(3));
    let [outputs, per_group, height, width] = *weights.shape() else {
        return Err(format!("has weights {weights}, expected four dimensions"));
    };
    let window = window(layer, [height, width], x.nhwc, y.nhwc)?;
    let weights = matrix::weights(lowering, layer, [3, 4, 5, 8], false)?;
    let [.., channels] = x.nhwc;
    let op = match layer.int("group").unwrap_or(1) {
        1 => Op::Conv { window, weights },
        _ if per_group == 1
            && outputs.is_multiple_of(channels)
            && i64::try_from(channels).ok() == layer.int("group") =>
        {
            Op::Depthwise { window, weights }
        }
        groups => {
            return Err(format!(
                "has {groups} groups of {per_group} channels, expected one group, or one for each channel"
            ));
        }
    };
    Ok(LayerParts { op, reads: vec![0] })
}

/// Returns the window of a pooling that stays inside the padded image.
fn pooled(lowering: &Lowering<'_>, layer: &LayerNode<'_>) -> Result<Window, String> {
    let (x, y) = (lowering.shaped(layer, 0)?, lowering.output(layer)?);
    let window = window(layer, layer.pair("kernel_shape", 1)?, x.nhwc, y.nhwc)?;
    let [_, height, width, _] = x.nhwc;
    if window.output(height, width) != Some([y.nhwc[1], y.nhwc[2]]) {
        return Err("has windows that extend beyond the image (ceil_mode)".to_owned());
    }
    if !x.is_image {
        return Err("pools a value that is not an image".to_owned());
    }
    Ok(window)
}

pub(super) fn max_pool<'a>(
    lowering: &Lowering<'a>,
    layer: &LayerNode<'a>,
) -> Result<LayerParts<'a>, String> {
    Ok(LayerParts { op: Op::MaxPool { window: pooled(lowering, layer)? }, reads: vec![0] })
}

pub(super) fn average_pool<'a>(
    lowering: &Lowering<'a>,
    layer: &LayerNode<'a>,
) -> Result<LayerParts<'a>, String> {
    check_layout(layer)?;
    let divisor = match layer.int("count_include_pad") {
        Some(1) => Divisor::Kernel,
        _ => Divisor::Inside,
    };
    Ok(LayerParts {
        op: Op::AveragePool { window: pooled(lowering, layer)?, divisor },
        reads: vec![0],
    })
}

fn check_layout(layer: &LayerNode<'_>) -> Result<(), String> {
    match layer.int("channels_last") {
        Some(1) => Err("has channels last, expected them second".to_owned()),
        _ => Ok(()),
    }
}

/// Returns a window of the image's size.
fn whole_image(lowering: &Lowering<'_>, layer: &LayerNode<'_>) -> Result<Window, String> {
    let x = lowering.shaped(layer, 0)?;
    let [_, height, width, _] = x.nhwc;
    if !x.is_image {
        return Err("pools a value that is not an image".to_owned());
    }
    Ok(Window { kernel: [height, width], ..Window::ONE })
}

pub(super) fn global_max_pool<'a>(
    lowering: &Lowering<'a>,
    layer: &LayerNode<'a>,
) -> Result<LayerParts<'a>, String> {
    Ok(LayerParts { op: Op::MaxPool { window: whole_image(lowering, layer)? }, reads: vec![0] })
}

pub(super) fn global_average_pool<'a>(
    lowering: &Lowering<'a>,
    layer: &LayerNode<'a>,
) -> Result<LayerParts<'a>, String> {
    check_layout(layer)?;
    let window = whole_image(lowering, layer)?;
    Ok(LayerParts { op: Op::AveragePool { window, divisor: Divisor::Inside }, reads: vec![0] })
}
