//! Convolutions and poolings.

use udo_hta::{Divisor, Op, Window};

use super::{LayerParts, Lowering, Use, matrix};

/// Returns a window with its strides, dilations and pads.
fn window(
    of: &Use<'_>,
    kernel: [usize; 2],
    x: [usize; 4],
    y: [usize; 4],
) -> Result<Window, String> {
    let (strides, dilations) = (of.pair("strides", 1)?, of.pair("dilations", 1)?);
    let given = || match of.setting("pads") {
        Some(crate::resolve::ParamSetting::Ints(pads)) if !pads.is_empty() => {
            let pads: Option<Vec<usize>> = pads.iter().map(|&pad| pad.try_into().ok()).collect();
            let pads = pads.and_then(|pads| <[usize; 4]>::try_from(pads).ok());
            pads.ok_or("has pads other than four numbers of 0 or more")
        }
        _ => Ok([0; 4]),
    };
    let lower = match of.text("auto_pad").unwrap_or("NOTSET") {
        "SAME_UPPER" => Some(false),
        "SAME_LOWER" => Some(true),
        "VALID" => return Ok(Window { kernel, strides, dilations, pads: [0; 4] }),
        _ => return Ok(Window { kernel, strides, dilations, pads: given()? }),
    };
    let along = |axis: usize| {
        let (kernel, stride) = (kernel.get(axis)?, strides.get(axis)?);
        let reach = kernel.checked_sub(1)?.checked_mul(*dilations.get(axis)?)?.checked_add(1)?;
        let covered = y.get(axis + 1)?.checked_sub(1)?.checked_mul(*stride)?.checked_add(reach)?;
        let total = covered.saturating_sub(*x.get(axis + 1)?);
        let less = total / 2;
        Some(if lower == Some(true) { [total - less, less] } else { [less, total - less] })
    };
    let pads =
        along(0).zip(along(1)).map(|([top, bottom], [left, right])| [top, left, bottom, right]);
    Ok(Window { kernel, strides, dilations, pads: pads.ok_or("has no windows")? })
}

pub(super) fn conv<'a>(lowering: &Lowering<'a>, of: &Use<'a>) -> Result<LayerParts<'a>, String> {
    let (x, y) = (lowering.shaped(of, 0)?, lowering.output(of)?);
    let weights = lowering.graph.desc(of.input(3));
    let [outputs, per_group, down, across] = *weights.shape() else {
        return Err(format!("has weights {weights}, expected four dimensions"));
    };
    let window = window(of, [down, across], x.nhwc, y.nhwc)?;
    let weights = matrix::weights(lowering, of, [3, 4, 5, 8], false)?;
    let [.., channels] = x.nhwc;
    let op = match of.int("group").unwrap_or(1) {
        1 => Op::Conv { window, weights },
        _ if per_group == 1
            && outputs.is_multiple_of(channels)
            && i64::try_from(channels).ok() == of.int("group") =>
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

/// Returns a pooling window that covers the whole image.
fn pooled(lowering: &Lowering<'_>, of: &Use<'_>) -> Result<Window, String> {
    let (x, y) = (lowering.shaped(of, 0)?, lowering.output(of)?);
    let window = window(of, of.pair("kernel_shape", 1)?, x.nhwc, y.nhwc)?;
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
    of: &Use<'a>,
) -> Result<LayerParts<'a>, String> {
    Ok(LayerParts { op: Op::MaxPool { window: pooled(lowering, of)? }, reads: vec![0] })
}

pub(super) fn average_pool<'a>(
    lowering: &Lowering<'a>,
    of: &Use<'a>,
) -> Result<LayerParts<'a>, String> {
    check_layout(of)?;
    let divisor = match of.int("count_include_pad") {
        Some(1) => Divisor::Kernel,
        _ => Divisor::Inside,
    };
    Ok(LayerParts {
        op: Op::AveragePool { window: pooled(lowering, of)?, divisor },
        reads: vec![0],
    })
}

fn check_layout(of: &Use<'_>) -> Result<(), String> {
    match of.int("channels_last") {
        Some(1) => Err("has channels last, expected them second".to_owned()),
        _ => Ok(()),
    }
}

/// Returns a window of the image's size.
fn whole(lowering: &Lowering<'_>, of: &Use<'_>) -> Result<Window, String> {
    let x = lowering.shaped(of, 0)?;
    let [_, height, width, _] = x.nhwc;
    if !x.is_image {
        return Err("pools a value that is not an image".to_owned());
    }
    Ok(Window { kernel: [height, width], ..Window::ONE })
}

pub(super) fn global_max_pool<'a>(
    lowering: &Lowering<'a>,
    of: &Use<'a>,
) -> Result<LayerParts<'a>, String> {
    Ok(LayerParts { op: Op::MaxPool { window: whole(lowering, of)? }, reads: vec![0] })
}

pub(super) fn global_average_pool<'a>(
    lowering: &Lowering<'a>,
    of: &Use<'a>,
) -> Result<LayerParts<'a>, String> {
    check_layout(of)?;
    let window = whole(lowering, of)?;
    Ok(LayerParts { op: Op::AveragePool { window, divisor: Divisor::Inside }, reads: vec![0] })
}
