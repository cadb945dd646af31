//! Operators that move a window over images, and what is around them, in plain Rust.

use crate::naive::{Call, T, coords};

pub(crate) fn conv2d(c: &Call<'_>) -> Vec<T> {
    let (x, w, s, p, d) = (c.t("x"), c.t("w"), c.l("strides"), c.l("pads"), c.l("dilations"));
    let groups = c.i("group") as usize;
    let extent = |k: usize| {
        let span = d[k] * (w.dims[k + 2] as i64 - 1) + 1;
        ((x.dims[k + 2] as i64 + p[k] + p[k + 2] - span) / s[k] + 1) as usize
    };
    vec![T::from_fn(&[x.dims[0], w.dims[0], extent(0), extent(1)], |at| {
        let group = at[1] / (w.dims[0] / groups);
        let mut sum = if c.has("b") { c.t("b").v[at[1]] } else { 0.0 };
        for number in 0..w.dims[1..].iter().product() {
            let [channel, u, v] = coords(number, &w.dims[1..])[..] else { unreachable!() };
            let row = at[2] as i64 * s[0] + u as i64 * d[0] - p[0];
            let col = at[3] as i64 * s[1] + v as i64 * d[1] - p[1];
            let from = (group * w.dims[1] + channel) as i64;
            sum += x.or(&[at[0] as i64, from, row, col], 0.0) * w.at(&[at[1], channel, u, v]);
        }
        sum
    })]
}

/// Each input spread over the outputs that it reaches.
pub(crate) fn conv_transpose2d(c: &Call<'_>) -> Vec<T> {
    let (x, w, s, p) = (c.t("x"), c.t("w"), c.l("strides"), c.l("pads"));
    let extent = |k: usize| {
        ((x.dims[k + 2] as i64 - 1) * s[k] + w.dims[k + 2] as i64 - p[k] - p[k + 2]) as usize
    };
    let dims = [x.dims[0], w.dims[1], extent(0), extent(1)];
    let mut y = T::from_fn(&dims, |_| 0.0);
    for from in 0..x.v.len() {
        let at = coords(from, &x.dims);
        for number in 0..w.dims[1..].iter().product() {
            let [o, u, v] = coords(number, &w.dims[1..])[..] else { unreachable!() };
            let row = at[2] as i64 * s[0] + u as i64 - p[0];
            let col = at[3] as i64 * s[1] + v as i64 - p[1];
            if row >= 0 && col >= 0 && (row as usize) < dims[2] && (col as usize) < dims[3] {
                let to = ((at[0] * dims[1] + o) * dims[2] + row as usize) * dims[3] + col as usize;
                y.v[to] += x.v[from] * w.at(&[at[1], o, u, v]);
            }
        }
    }
    vec![y]
}

/// All of each window, and how many of it are inside.
pub(crate) fn pool(c: &Call<'_>, outside: f64, f: impl Fn(&[f64], usize) -> f64) -> Vec<T> {
    let (x, k, s, p) = (c.t("x"), c.l("kernel"), c.l("strides"), c.l("pads"));
    let extent = |a: usize| ((x.dims[a + 2] as i64 + p[a] + p[a + 2] - k[a]) / s[a] + 1) as usize;
    vec![T::from_fn(&[x.dims[0], x.dims[1], extent(0), extent(1)], |at| {
        let (mut window, mut inside) = (Vec::new(), 0);
        for u in 0..k[0] {
            for v in 0..k[1] {
                let (row, col) = (at[2] as i64 * s[0] + u - p[0], at[3] as i64 * s[1] + v - p[1]);
                window.push(x.or(&[at[0] as i64, at[1] as i64, row, col], outside));
                inside += usize::from(
                    row >= 0 && col >= 0 && row < x.dims[2] as i64 && col < x.dims[3] as i64,
                );
            }
        }
        f(&window, inside)
    })]
}

pub(crate) fn pad(c: &Call<'_>) -> Vec<T> {
    let (x, pads, mode) = (c.t("x"), c.l("pads"), c.s("mode"));
    let rank = x.dims.len();
    let dims: Vec<usize> =
        (0..rank).map(|a| (x.dims[a] as i64 + pads[a] + pads[a + rank]) as usize).collect();
    vec![T::from_fn(&dims, |at| {
        let place: Vec<i64> = (0..rank)
            .map(|a| {
                let (place, dim) = (at[a] as i64 - pads[a], x.dims[a] as i64);
                match mode {
                    "edge" => place.clamp(0, dim - 1),
                    "reflect" if place < 0 => -place,
                    "reflect" if place >= dim => 2 * dim - 2 - place,
                    _ => place,
                }
            })
            .collect();
        x.or(&place, if mode == "constant" { c.f("value") } else { f64::NAN })
    })]
}
