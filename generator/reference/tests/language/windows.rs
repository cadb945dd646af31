//! Convolutions, pooling and padding in plain Rust, written without the reference language: oracles for its operators.
//!
//! Images are `[batch, channel, row, column]`; `x` is the input, `w` the weights, `u` and `v` the row and column in a
//! window.

use crate::naive::{Call, T, coords};

pub(crate) fn conv2d(call: &Call<'_>) -> Vec<T> {
    let (x, w, strides, pads, dilations) =
        (call.t("x"), call.t("w"), call.l("strides"), call.l("pads"), call.l("dilations"));
    let groups = call.i("group") as usize;
    let output_extent = |axis: usize| {
        let span = dilations[axis] * (w.dims[axis + 2] as i64 - 1) + 1;
        ((x.dims[axis + 2] as i64 + pads[axis] + pads[axis + 2] - span) / strides[axis] + 1)
            as usize
    };
    vec![T::from_fn(&[x.dims[0], w.dims[0], output_extent(0), output_extent(1)], |coord| {
        let group = coord[1] / (w.dims[0] / groups);
        let mut sum = if call.has("b") { call.t("b").v[coord[1]] } else { 0.0 };
        // A tap is one weight of the window.
        for tap in 0..w.dims[1..].iter().product() {
            let [channel, u, v] = coords(tap, &w.dims[1..])[..] else { unreachable!() };
            let row = coord[2] as i64 * strides[0] + u as i64 * dilations[0] - pads[0];
            let col = coord[3] as i64 * strides[1] + v as i64 * dilations[1] - pads[1];
            let input_channel = (group * w.dims[1] + channel) as i64;
            sum += x.or(&[coord[0] as i64, input_channel, row, col], 0.0)
                * w.at(&[coord[1], channel, u, v]);
        }
        sum
    })]
}

/// Computes a transposed convolution: adds each input element, times the weights, to the outputs that it reaches.
pub(crate) fn conv_transpose2d(call: &Call<'_>) -> Vec<T> {
    let (x, w, strides, pads) = (call.t("x"), call.t("w"), call.l("strides"), call.l("pads"));
    let output_extent = |axis: usize| {
        ((x.dims[axis + 2] as i64 - 1) * strides[axis] + w.dims[axis + 2] as i64
            - pads[axis]
            - pads[axis + 2]) as usize
    };
    let dims = [x.dims[0], w.dims[1], output_extent(0), output_extent(1)];
    let mut y = T::from_fn(&dims, |_| 0.0);
    for input_index in 0..x.v.len() {
        let input_coord = coords(input_index, &x.dims);
        // A tap is one weight of the window.
        for tap in 0..w.dims[1..].iter().product() {
            let [o, u, v] = coords(tap, &w.dims[1..])[..] else { unreachable!() };
            let row = input_coord[2] as i64 * strides[0] + u as i64 - pads[0];
            let col = input_coord[3] as i64 * strides[1] + v as i64 - pads[1];
            if row >= 0 && col >= 0 && (row as usize) < dims[2] && (col as usize) < dims[3] {
                let output_index = ((input_coord[0] * dims[1] + o) * dims[2] + row as usize)
                    * dims[3]
                    + col as usize;
                y.v[output_index] += x.v[input_index] * w.at(&[input_coord[1], o, u, v]);
            }
        }
    }
    vec![y]
}

/// Computes each output from the elements of its window and the number of them inside the image. Elements beyond the
/// image are `outside`.
pub(crate) fn pool(call: &Call<'_>, outside: f64, reduce: impl Fn(&[f64], usize) -> f64) -> Vec<T> {
    let (x, kernel, strides, pads) =
        (call.t("x"), call.l("kernel"), call.l("strides"), call.l("pads"));
    let output_extent = |axis: usize| {
        ((x.dims[axis + 2] as i64 + pads[axis] + pads[axis + 2] - kernel[axis]) / strides[axis] + 1)
            as usize
    };
    vec![T::from_fn(&[x.dims[0], x.dims[1], output_extent(0), output_extent(1)], |coord| {
        let (mut window, mut inside) = (Vec::new(), 0);
        for u in 0..kernel[0] {
            for v in 0..kernel[1] {
                let (row, col) = (
                    coord[2] as i64 * strides[0] + u - pads[0],
                    coord[3] as i64 * strides[1] + v - pads[1],
                );
                window.push(x.or(&[coord[0] as i64, coord[1] as i64, row, col], outside));
                inside += usize::from(
                    row >= 0 && col >= 0 && row < x.dims[2] as i64 && col < x.dims[3] as i64,
                );
            }
        }
        reduce(&window, inside)
    })]
}

pub(crate) fn pad(call: &Call<'_>) -> Vec<T> {
    let (x, pads, mode) = (call.t("x"), call.l("pads"), call.s("mode"));
    let rank = x.dims.len();
    let dims: Vec<usize> = (0..rank)
        .map(|axis| (x.dims[axis] as i64 + pads[axis] + pads[axis + rank]) as usize)
        .collect();
    vec![T::from_fn(&dims, |coord| {
        let input_coord: Vec<i64> = (0..rank)
            .map(|axis| {
                let (input_coord, dim) = (coord[axis] as i64 - pads[axis], x.dims[axis] as i64);
                match mode {
                    "edge" => input_coord.clamp(0, dim - 1),
                    "reflect" if input_coord < 0 => -input_coord,
                    "reflect" if input_coord >= dim => 2 * dim - 2 - input_coord,
                    _ => input_coord,
                }
            })
            .collect();
        x.or(&input_coord, if mode == "constant" { call.f("value") } else { f64::NAN })
    })]
}
