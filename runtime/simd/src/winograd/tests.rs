//! Every instruction set compared with a naive sum.

use super::points::{Filter, Transform};
use super::*;
use crate::gemm_f32::Activation;
use crate::isa::{SimdOp, Vector, dispatch};
use crate::testing::noise;
use crate::testing::{Edge, Guarded};

const TILES: [Tile; 2] = [Tile::F2x2, Tile::F4x4];

/// A layer to check.
#[derive(Clone, Copy)]
struct Case {
    layer: Layer,
    tile: Tile,
    with: (bool, bool),
    activation: Activation,
    /// Rows of tiles per call.
    step: usize,
    /// Where the memory of inputs and outputs is fenced.
    edge: Edge,
}

impl Case {
    fn plain(tile: Tile, layer: Layer) -> Self {
        let activation = Activation::None;
        let (with, step, edge) = ((false, false), usize::MAX, Edge::End);
        Self { layer, tile, with, activation, step, edge }
    }

    fn name(&self, isa: Isa) -> String {
        let Self { layer, tile, with, activation, step, .. } = self;
        format!("{isa:?} {tile:?} {with:?} {activation:?} by {step}: {layer:?}")
    }
}

/// Returns the elements of `pixels` pixels at a stride.
fn len(pixels: usize, channels: usize, stride: usize) -> usize {
    if pixels == 0 || channels == 0 { 0 } else { (pixels - 1) * stride + channels }
}

fn activate(activation: Activation, x: f64) -> f64 {
    let clamp = |low: f64, high: f64| if x.is_nan() { x } else { x.clamp(low, high) };
    match activation {
        Activation::None => x,
        Activation::Relu => clamp(0.0, f64::INFINITY),
        Activation::Relu6 => clamp(0.0, 6.0),
        Activation::Clamp(low, high) => clamp(low.into(), high.into()),
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Gelu => {
            let mut erf = [0.0];
            crate::math::erf(&[(x * std::f64::consts::FRAC_1_SQRT_2) as f32], &mut erf);
            0.5 * x * (1.0 + f64::from(erf[0]))
        }
    }
}

/// The data of a case.
struct Numbers {
    x: Vec<f32>,
    weights: Vec<f32>,
    bias: Vec<f32>,
    residual: Vec<f32>,
    /// Elements between pixels of the residual.
    ld: usize,
}

impl Numbers {
    fn noise(layer: &Layer) -> Self {
        let [c, k] = layer.channels;
        let pixels = |size: [usize; 2]| layer.images * size[0] * size[1];
        let ld = layer.pixel_strides[1] + 3;
        Self {
            x: noise(len(pixels(layer.input), c, layer.pixel_strides[0])),
            weights: noise(9 * c * k).iter().map(|w| 2.0 * w).collect(),
            bias: noise(k),
            residual: noise(len(pixels(layer.output), k, ld)),
            ld,
        }
    }
}

/// Runs a case with the kernels of an instruction set, in ranges of rows, on fenced memory.
fn run(isa: Isa, case: Case, numbers: &Numbers) -> Vec<f32> {
    let Case { layer, tile, with, activation, step, edge } = case;
    let [c, k] = layer.channels;
    let fenced = |values: &[f32]| Guarded::new(values, edge);
    let mut packed = fenced(&vec![f32::NAN; packed_len_on(isa, tile, layer.channels)]);
    let mut buffer = fenced(&vec![f32::NAN; c * k]);
    pack_on(isa, tile, &fenced(&numbers.weights), layer.channels, &mut packed, &mut buffer);
    let plan = Plan::new(isa, tile, &layer);
    let mut workspace = fenced(&vec![f32::NAN; plan.workspace_len()]);
    let (x, bias) = (fenced(&numbers.x), fenced(&numbers.bias));
    let pixel = layer.pixel_strides[1];
    let mut y = vec![-7.5; len(layer.images * layer.output[0] * layer.output[1], k, pixel)];
    let all = tile_rows(tile, &layer);
    let mut from = 0;
    while from < all {
        let rows = from..from.saturating_add(step).min(all);
        from = rows.end;
        let pixels = pixel_rows(tile, &layer, rows.clone());
        let (first, count) = (pixels.start * layer.output[1], pixels.len() * layer.output[1]);
        let part = |stride: usize| first * stride..first * stride + len(count, k, stride);
        let residual = fenced(&numbers.residual[part(numbers.ld)]);
        let epilogue = Epilogue {
            bias: with.0.then_some(&*bias),
            residual: with.1.then_some((&*residual, numbers.ld)),
            activation,
        };
        let mut out = fenced(&y[part(pixel)]);
        plan.conv(rows, &x, &packed, &mut out, &epilogue, &mut workspace);
        y[part(pixel)].copy_from_slice(&out);
    }
    y
}

/// Returns the terms of a pixel's sum per input channel: its taps, and the largest absolute value in its tile.
fn reads(case: Case, x: &[f32], image: usize, at: [usize; 2]) -> Vec<([f64; 9], f64)> {
    let Case { layer, tile, .. } = case;
    let read = |row: usize, col: usize, c: usize| {
        let row = row.checked_sub(layer.pads[0]).filter(|&row| row < layer.input[0]);
        let col = col.checked_sub(layer.pads[1]).filter(|&col| col < layer.input[1]);
        let (Some(row), Some(col)) = (row, col) else { return 0.0 };
        let pixel = (image * layer.input[0] + row) * layer.input[1] + col;
        f64::from(x[pixel * layer.pixel_strides[0] + c])
    };
    let corner = at.map(|at| at - at % tile.size());
    let channel = |c: usize| {
        let taps = std::array::from_fn(|tap| read(at[0] + tap / 3, at[1] + tap % 3, c));
        let tile = (0..tile.points()).map(|i| (i / tile.extent(), i % tile.extent()));
        let sizes = tile.map(|(row, col)| read(corner[0] + row, corner[1] + col, c).abs());
        (taps, sizes.fold(0.0, f64::max))
    };
    (0..layer.channels[0]).map(channel).collect()
}

/// Compares each output with its sum, within the bound documented in the module. Returns the largest fraction of the
/// bound, and the root mean square error relative to a direct sum in `f32`.
fn check(isa: Isa, case: Case, numbers: &Numbers) -> (f64, f64) {
    let Case { layer, tile, with, activation, .. } = case;
    let y = run(isa, case, numbers);
    let [inputs, outputs] = layer.channels;
    let eps = f64::from(f32::EPSILON);
    let growth = tile.growth() * (inputs as f64 + 20.0) * eps / 2.0;
    let (mut share, mut squares, mut direct) = (0.0f64, 0.0, 0.0);
    for (pixel, y) in y.chunks(layer.pixel_strides[1].max(1)).enumerate() {
        let (row, col) = (pixel / layer.output[1], pixel % layer.output[1]);
        let at = [row % layer.output[0], col];
        let reads = reads(case, &numbers.x, row / layer.output[0], at);
        for (k, &actual) in y.iter().enumerate() {
            if k >= outputs {
                assert_eq!(actual.to_bits(), (-7.5f32).to_bits(), "gap, {}", case.name(isa));
                continue;
            }
            let weights = numbers.weights[k * inputs * 9..].chunks_exact(9);
            let (mut sum, mut short, mut size) = (0.0, 0.0f32, 0.0);
            for ((taps, largest), weights) in reads.iter().zip(weights) {
                sum += taps.iter().zip(weights).map(|(x, &w)| x * f64::from(w)).sum::<f64>();
                short = taps.iter().zip(weights).fold(short, |sum, (&x, w)| sum + x as f32 * w);
                size +=
                    largest * weights.iter().fold(0.0, |most: f64, &w| most.max(w.abs().into()));
            }
            direct += (f64::from(short) - sum).powi(2);
            let bias = if with.0 { f64::from(numbers.bias[k]) } else { 0.0 };
            let added = if with.1 { numbers.residual[pixel * numbers.ld + k].into() } else { 0.0 };
            sum += bias + added;
            let expected = activate(activation, sum);
            let bound = growth * size + 2.0 * eps * (bias.abs() + added.abs() + sum.abs());
            let bound = match activation {
                Activation::Silu | Activation::Gelu => 1.2 * bound + 4e-7 * sum.abs(),
                _ => bound,
            };
            let error = (f64::from(actual) - expected).abs();
            assert!(
                error <= bound,
                "{at:?}, channel {k} is {actual}, expected {expected} +- {bound}, {}",
                case.name(isa)
            );
            share = share.max(error / bound.max(f64::MIN_POSITIVE));
            squares += error * error;
        }
    }
    (share, (squares / direct).sqrt())
}

fn layer(images: usize, size: [usize; 2], channels: [usize; 2], pads: [usize; 4]) -> Layer {
    let out = |axis: usize| (size[axis] + pads[axis] + pads[axis + 2]).saturating_sub(2);
    Layer {
        pads: [pads[0], pads[1]],
        output: [out(0), out(1)],
        ..Layer::same(images, size, channels)
    }
}

fn every_form() -> impl Iterator<Item = (Isa, Tile)> {
    Isa::available().iter().flat_map(|&isa| TILES.map(|tile| (isa, tile)))
}

#[test]
fn outputs_are_right_at_every_remainder() {
    for (isa, tile) in every_form() {
        for size in (0..11).flat_map(|height| (0..11).map(move |width| [height, width])) {
            for (pads, edge) in
                [([0; 4], Edge::Start), ([1; 4], Edge::End), ([2, 0, 1, 3], Edge::Start)]
            {
                let layer = layer(1, size, [3, 2], pads);
                let case = Case { edge, ..Case::plain(tile, layer) };
                check(isa, case, &Numbers::noise(&layer));
            }
        }
        for c in [0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33] {
            for k in [0, 1, 2, 7, 8, 9, 15, 16, 17, 33, 49] {
                let layer = Layer::same(1, [5, 6], [c, k]);
                check(isa, Case::plain(tile, layer), &Numbers::noise(&layer));
            }
        }
    }
}

#[test]
fn epilogues_strides_images_and_ranges_are_right() {
    let activations = [
        Activation::None,
        Activation::Relu,
        Activation::Relu6,
        Activation::Clamp(-0.5, 0.75),
        Activation::Silu,
        Activation::Gelu,
    ];
    for (isa, tile) in every_form() {
        for activation in activations {
            for with in [(false, false), (true, false), (false, true), (true, true)] {
                for (step, gap, edge) in [(1, 0, Edge::End), (2, 5, Edge::Start), (5, 1, Edge::End)]
                {
                    let layer = layer(3, [9, 6], [5, 19], [1; 4]);
                    let layer = Layer { pixel_strides: [5 + gap, 19 + 2 * gap], ..layer };
                    let case = Case { layer, tile, with, activation, step, edge };
                    check(isa, case, &Numbers::noise(&layer));
                }
            }
        }
    }
}

#[test]
fn layers_of_several_blocks_are_right() {
    for (isa, tile) in every_form() {
        for (images, size, channels) in [
            (2, [33, 37], [5, 7]),
            (1, [31, 28], [70, 50]),
            (50, [4, 4], [17, 96]),
            (1, [3, 240], [300, 3]),
        ] {
            let layer = Layer::same(images, size, channels);
            let case = Case { with: (true, true), ..Case::plain(tile, layer) };
            check(isa, case, &Numbers::noise(&layer));
        }
    }
}

#[test]
fn windows_may_lie_in_the_padding() {
    for (isa, tile) in every_form() {
        for (pads, output) in [([9, 0], [5, 30]), ([0, 13], [40, 9]), ([7, 8], [1, 1])] {
            let layer = Layer { output, pads, ..Layer::same(2, [4, 5], [3, 17]) };
            check(isa, Case::plain(tile, layer), &Numbers::noise(&layer));
        }
    }
}

#[test]
fn errors_stay_within_the_bound() {
    for (isa, tile) in every_form() {
        let layer = Layer::same(1, [13, 14], [64, 24]);
        let case = Case::plain(tile, layer);
        let mut numbers = Numbers::noise(&layer);
        let (share, ratio) = check(isa, case, &numbers);
        assert!(share < 2e-3, "{share} of the bound on noise, {}", case.name(isa));
        assert!(ratio < 2.5, "{ratio} times the error of a direct sum, {}", case.name(isa));

        // Signs that cancel between taps, or add up at the points.
        let signs: [fn(usize) -> bool; 4] =
            [|i| i % 2 == 0, |i| i % 3 == 0, |i| i % 5 < 2, |i| (i / 64) % 2 == 0];
        for sign in signs {
            for (i, x) in numbers.x.iter_mut().enumerate() {
                *x = (1.0 + 1e-3 * x.abs()).copysign(if sign(i) { 1.0 } else { -1.0 });
            }
            for (i, w) in numbers.weights.iter_mut().enumerate() {
                *w = (1.0 + 1e-3 * w.abs()).copysign(if sign(i / 9) { 1.0 } else { -1.0 });
            }
            check(isa, case, &numbers);
        }

        // Values of all magnitudes, next to each other.
        let mut numbers = Numbers::noise(&layer);
        for (i, x) in numbers.x.iter_mut().enumerate() {
            *x *= 2.0f32.powi((i * 7 % 41) as i32 - 20);
        }
        for (i, w) in numbers.weights.iter_mut().enumerate() {
            *w *= 2.0f32.powi((i * 5 % 37) as i32 - 18);
        }
        check(isa, case, &numbers);
    }
}

#[test]
fn non_finite_values_reach_only_tiles_that_read_them() {
    let layer = Layer::same(1, [12, 12], [3, 5]);
    for (isa, tile) in every_form() {
        for poison in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for at in [[0, 0], [4, 7], [5, 5], [11, 3]] {
                let mut numbers = Numbers::noise(&layer);
                numbers.x[(at[0] * 12 + at[1]) * 3 + 1] = poison;
                let y = run(isa, Case::plain(tile, layer), &numbers);
                for (i, y) in y.iter().enumerate() {
                    let out = [i / 5 / 12, i / 5 % 12];
                    let within = |axis: usize, from: usize, len: usize| {
                        // A window starts one pixel before its output.
                        (from..from + len).contains(&(at[axis] + 1))
                    };
                    let depends = (0..2).all(|axis| within(axis, out[axis], 3));
                    let corner = out.map(|at| at - at % tile.size());
                    let shares = (0..2).all(|axis| within(axis, corner[axis], tile.extent()));
                    assert!(!depends || !y.is_finite(), "{out:?} hides {poison} at {at:?}");
                    assert!(
                        shares || y.is_finite(),
                        "{out:?} of {tile:?} has {poison} from {at:?}"
                    );
                }
            }
        }
    }
}

/// `growth` computed from the transforms of unit vectors.
struct Growth(Tile);

impl SimdOp for Growth {
    type Out = f64;

    fn run<S: Vector>(self, simd: S) -> f64 {
        match self.0 {
            Tile::F2x2 => growth::<S, 2, 4>(simd),
            Tile::F4x4 => growth::<S, 4, 6>(simd),
        }
    }
}

fn growth<S: Vector, const M: usize, const A: usize>(simd: S) -> f64
where
    Filter<M, A>: Transform<M, A>,
{
    let size = |x: S::F| f64::from(simd.sum(x).abs()) / S::LANES as f64;
    let unit = |i: usize| std::array::from_fn(|j| simd.splat(f32::from(u8::from(i == j))));
    let (mut inputs, mut largest) = ([0.0; A], [0.0; M]);
    for i in 0..A {
        for (sum, x) in inputs.iter_mut().zip(Filter::<M, A>::input(simd, unit(i))) {
            *sum += size(x);
        }
    }
    for (i, (weights, inputs)) in Filter::<M, A>::WEIGHTS.iter().zip(inputs).enumerate() {
        let weights: f64 = weights.iter().map(|w| w.abs()).sum();
        for (sum, x) in largest.iter_mut().zip(Filter::<M, A>::output(simd, unit(i))) {
            *sum += size(x) * weights * inputs;
        }
    }
    largest.iter().fold(0.0, |most: f64, &sum| most.max(sum)).powi(2)
}

#[test]
fn growth_follows_from_the_matrices() {
    for tile in TILES {
        let actual = dispatch(Isa::Portable, Growth(tile));
        assert!((tile.growth() - 1.0..=tile.growth()).contains(&actual), "{tile:?}: {actual}");
    }
}

#[test]
fn the_choice_follows_the_measurements() {
    let chosen = |size: usize, channels: [usize; 2]| {
        choose::choose_on(Isa::Avx512, &Layer::same(1, [size, size], channels), 0)
    };
    let (two, four) = (Algorithm::Winograd(Tile::F2x2), Algorithm::Winograd(Tile::F4x4));
    for (size, channels) in
        [(56, 64), (28, 128), (14, 256), (112, 128), (28, 512), (7, 64), (14, 16)]
    {
        assert_eq!(chosen(size, [channels; 2]), four, "{size}, {channels}");
    }
    for channels in [128, 256, 512] {
        assert_eq!(chosen(7, [channels; 2]), two, "{channels}");
    }
    for (size, channels) in
        [(7, [8, 8]), (7, [16, 16]), (14, [8, 8]), (224, [3, 64]), (1, [512, 512])]
    {
        assert_eq!(chosen(size, channels), Algorithm::Direct, "{size}, {channels:?}");
    }
    // Longer products hide the latency of loading weights.
    let small = Layer::same(1, [7, 7], [512, 512]);
    assert_eq!(choose::choose_on(Isa::Avx2, &small, 0), four);
    assert_eq!(choose(&small, 0), choose::choose_on(isa(), &small, 0));
    assert_eq!(chosen(usize::MAX, [usize::MAX; 2]), Algorithm::Direct);
}

#[test]
fn a_price_per_byte_disables_winograd_for_small_images_first() {
    let at = |size: usize, price: u32| {
        choose::choose_on(Isa::Avx512, &Layer::same(1, [size, size], [128, 128]), price)
    };
    let (two, four) = (Algorithm::Winograd(Tile::F2x2), Algorithm::Winograd(Tile::F4x4));
    let prices = [0, 100, 1000];
    assert_eq!(prices.map(|price| at(14, price)), [two, Algorithm::Direct, Algorithm::Direct]);
    assert_eq!(prices.map(|price| at(56, price)), [four, two, Algorithm::Direct]);
}

#[test]
fn pixel_rows_match_tile_rows() {
    let layer = Layer { output: [10, 3], ..Layer::same(2, [10, 3], [1, 1]) };
    assert_eq!(tile_rows(Tile::F4x4, &layer), 6);
    assert_eq!(pixel_rows(Tile::F4x4, &layer, 0..3), 0..10);
    assert_eq!(pixel_rows(Tile::F4x4, &layer, 2..4), 8..14);
    assert_eq!(pixel_rows(Tile::F4x4, &layer, 5..6), 18..20);
    assert_eq!(pixel_rows(Tile::F2x2, &layer, 4..10), 8..20);
    assert_eq!(pixel_rows(Tile::F2x2, &layer, 10..10), 20..20);
}

#[test]
fn mismatched_inputs_are_refused() {
    let layer = Layer { pixel_strides: [4, 9], ..Layer::same(2, [5, 6], [3, 8]) };
    let (weights, packed) = (9 * 3 * 8, packed_len(Tile::F4x4, [3, 8]));
    let (x, y, workspace) = (59 * 4 + 3, 59 * 9 + 8, workspace_len(Tile::F4x4, &layer));
    let refused = |layer: Layer,
                   rows: Range<usize>,
                   [x, packed, y, bias, residual, workspace]: [usize; 6]| {
        std::panic::catch_unwind(|| {
            let (bias, residual) = (vec![0.0; bias], vec![0.0; residual]);
            let epilogue = Epilogue {
                bias: Some(&bias),
                residual: Some((&residual, 9)),
                activation: Activation::None,
            };
            let (x, packed, mut y) = (vec![0.0; x], vec![0.0; packed], vec![0.0; y]);
            let mut workspace = vec![0.0; workspace];
            conv(Tile::F4x4, &layer, rows, &x, &packed, &mut y, &epilogue, &mut workspace);
        })
        .is_err()
    };
    let enough = [x, packed, y, 8, y, workspace];
    assert!(!refused(layer, 0..4, enough));
    for i in 0..enough.len() {
        let mut short = enough;
        short[i] -= 1;
        assert!(refused(layer, 0..4, short), "length {i}");
    }
    assert!(refused(layer, 0..5, enough));
    assert!(refused(layer, Range { start: 3, end: 2 }, enough));
    assert!(refused(Layer { pixel_strides: [4, 7], ..layer }, 0..4, enough));
    assert!(refused(Layer { input: [usize::MAX / 8, 6], ..layer }, 0..4, enough));
    assert!(refused(Layer { pads: [usize::MAX, 0], ..layer }, 0..4, enough));
    assert!(refused(Layer { images: usize::MAX / 8, ..layer }, 0..4, enough));

    let refused = |weights: usize, out: usize, workspace: usize| {
        std::panic::catch_unwind(|| {
            let (mut out, mut workspace) = (vec![0.0; out], vec![0.0; workspace]);
            pack(Tile::F4x4, &vec![0.0; weights], [3, 8], &mut out, &mut workspace);
        })
        .is_err()
    };
    assert!(!refused(weights, packed, 24));
    assert!(refused(weights - 1, packed, 24));
    assert!(refused(weights, packed - 1, 24));
    assert!(refused(weights, packed, 23));
}

#[test]
fn layers_make_no_thread_heap_calls() {
    let layer = Layer::same(1, [9, 9], [20, 30]);
    let numbers = Numbers::noise(&layer);
    for (isa, tile) in every_form() {
        let plan = Plan::new(isa, tile, &layer);
        let mut packed = vec![0.0; packed_len_on(isa, tile, layer.channels)];
        let (mut buffer, mut y) = (vec![0.0; 600], vec![0.0; 81 * 30]);
        let mut workspace = vec![0.0; plan.workspace_len()];
        let epilogue = Epilogue { activation: Activation::Gelu, ..Epilogue::default() };
        // Other tests may allocate meanwhile, if the count is not per thread.
        let quiet = (0..1000).any(|_| {
            let before = udo_api::guard::thread_heap_calls();
            pack_on(isa, tile, &numbers.weights, layer.channels, &mut packed, &mut buffer);
            let plan = Plan::new(isa, tile, &layer);
            let rows = 0..tile_rows(tile, &layer);
            plan.conv(rows, &numbers.x, &packed, &mut y, &epilogue, &mut workspace);
            udo_api::guard::thread_heap_calls() == before
        });
        assert!(quiet, "each of many layers called the heap");
    }
}
