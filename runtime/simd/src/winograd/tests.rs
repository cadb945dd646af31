//! Compares Winograd's algorithm with naive sums, on every instruction set.

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
    /// Whether the epilogue adds a bias, and a residual.
    addends: (bool, bool),
    activation: Activation,
    /// Rows of tiles per call.
    step: usize,
    /// The end of slices that touches a protected page.
    edge: Edge,
}

impl Case {
    fn plain(tile: Tile, layer: Layer) -> Self {
        let activation = Activation::None;
        let (addends, step, edge) = ((false, false), usize::MAX, Edge::End);
        Self { layer, tile, addends, activation, step, edge }
    }

    fn name(&self, isa: Isa) -> String {
        let Self { layer, tile, addends, activation, step, .. } = self;
        format!("{isa:?} {tile:?} {addends:?} {activation:?} by {step}: {layer:?}")
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
struct Data {
    x: Vec<f32>,
    weights: Vec<f32>,
    bias: Vec<f32>,
    residual: Vec<f32>,
    /// Elements between pixels of the residual.
    ld: usize,
}

impl Data {
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

/// Runs a case with the kernels of an instruction set, in ranges of rows, on slices next to protected pages.
fn run(isa: Isa, case: Case, data: &Data) -> Vec<f32> {
    let Case { layer, tile, addends, activation, step, edge } = case;
    let [c, k] = layer.channels;
    let guarded = |values: &[f32]| Guarded::new(values, edge);
    let mut packed = guarded(&vec![f32::NAN; packed_len_on(isa, tile, layer.channels)]);
    let mut buffer = guarded(&vec![f32::NAN; c * k]);
    pack_on(isa, tile, &guarded(&data.weights), layer.channels, &mut packed, &mut buffer);
    let plan = Plan::new(isa, tile, &layer);
    let mut workspace = guarded(&vec![f32::NAN; plan.workspace_len()]);
    let (x, bias) = (guarded(&data.x), guarded(&data.bias));
    let pixel = layer.pixel_strides[1];
    let mut y = vec![-7.5; len(layer.images * layer.output[0] * layer.output[1], k, pixel)];
    let row_count = tile_rows(tile, &layer);
    let mut start = 0;
    while start < row_count {
        let rows = start..start.saturating_add(step).min(row_count);
        start = rows.end;
        let pixels = pixel_rows(tile, &layer, rows.clone());
        let (first, count) = (pixels.start * layer.output[1], pixels.len() * layer.output[1]);
        let pixels_of_range =
            |stride: usize| first * stride..first * stride + len(count, k, stride);
        let residual = guarded(&data.residual[pixels_of_range(data.ld)]);
        let epilogue = Epilogue {
            bias: addends.0.then_some(&*bias),
            residual: addends.1.then_some((&*residual, data.ld)),
            activation,
        };
        let mut out = guarded(&y[pixels_of_range(pixel)]);
        plan.conv(rows, &x, &packed, &mut out, &epilogue, &mut workspace);
        y[pixels_of_range(pixel)].copy_from_slice(&out);
    }
    y
}

/// Returns, for each input channel of an output pixel, its nine input values, and the largest absolute value in its
/// tile.
fn taps_of_channels(
    case: Case,
    x: &[f32],
    image: usize,
    output: [usize; 2],
) -> Vec<([f64; 9], f64)> {
    let Case { layer, tile, .. } = case;
    let read = |row: usize, col: usize, c: usize| {
        let row = row.checked_sub(layer.pads[0]).filter(|&row| row < layer.input[0]);
        let col = col.checked_sub(layer.pads[1]).filter(|&col| col < layer.input[1]);
        let (Some(row), Some(col)) = (row, col) else { return 0.0 };
        let pixel = (image * layer.input[0] + row) * layer.input[1] + col;
        f64::from(x[pixel * layer.pixel_strides[0] + c])
    };
    let corner = output.map(|output| output - output % tile.size());
    let channel = |c: usize| {
        let taps = std::array::from_fn(|tap| read(output[0] + tap / 3, output[1] + tap % 3, c));
        let tile = (0..tile.points()).map(|i| (i / tile.extent(), i % tile.extent()));
        let sizes = tile.map(|(row, col)| read(corner[0] + row, corner[1] + col, c).abs());
        (taps, sizes.fold(0.0, f64::max))
    };
    (0..layer.channels[0]).map(channel).collect()
}

/// Compares each output with its sum, within the bound documented in the module. Returns the largest fraction of the
/// bound, and the root mean square error relative to a direct sum in `f32`.
fn check(isa: Isa, case: Case, data: &Data) -> (f64, f64) {
    let Case { layer, tile, addends, activation, .. } = case;
    let y = run(isa, case, data);
    let [inputs, outputs] = layer.channels;
    let eps = f64::from(f32::EPSILON);
    let growth = tile.growth() * (inputs as f64 + 20.0) * eps / 2.0;
    let (mut largest_fraction, mut error_sum, mut direct_error_sum) = (0.0f64, 0.0, 0.0);
    for (pixel, y) in y.chunks(layer.pixel_strides[1].max(1)).enumerate() {
        let (row, col) = (pixel / layer.output[1], pixel % layer.output[1]);
        let output = [row % layer.output[0], col];
        let taps_of_channels = self::taps_of_channels(case, &data.x, row / layer.output[0], output);
        for (k, &actual) in y.iter().enumerate() {
            if k >= outputs {
                assert_eq!(actual.to_bits(), (-7.5f32).to_bits(), "gap, {}", case.name(isa));
                continue;
            }
            let weights = data.weights[k * inputs * 9..].chunks_exact(9);
            let (mut sum, mut direct_sum, mut magnitude) = (0.0, 0.0f32, 0.0);
            for ((taps, largest), weights) in taps_of_channels.iter().zip(weights) {
                sum += taps.iter().zip(weights).map(|(x, &w)| x * f64::from(w)).sum::<f64>();
                direct_sum =
                    taps.iter().zip(weights).fold(direct_sum, |sum, (&x, w)| sum + x as f32 * w);
                magnitude +=
                    largest * weights.iter().fold(0.0, |max: f64, &w| max.max(w.abs().into()));
            }
            direct_error_sum += (f64::from(direct_sum) - sum).powi(2);
            let bias = if addends.0 { f64::from(data.bias[k]) } else { 0.0 };
            let addend = if addends.1 { data.residual[pixel * data.ld + k].into() } else { 0.0 };
            sum += bias + addend;
            let expected = activate(activation, sum);
            let bound = growth * magnitude + 2.0 * eps * (bias.abs() + addend.abs() + sum.abs());
            let bound = match activation {
                Activation::Silu | Activation::Gelu => 1.2 * bound + 4e-7 * sum.abs(),
                _ => bound,
            };
            let error = (f64::from(actual) - expected).abs();
            assert!(
                error <= bound,
                "{output:?}, channel {k} is {actual}, expected {expected} +- {bound}, {}",
                case.name(isa)
            );
            largest_fraction = largest_fraction.max(error / bound.max(f64::MIN_POSITIVE));
            error_sum += error * error;
        }
    }
    (largest_fraction, (error_sum / direct_error_sum).sqrt())
}

fn layer(images: usize, size: [usize; 2], channels: [usize; 2], pads: [usize; 4]) -> Layer {
    let out = |axis: usize| (size[axis] + pads[axis] + pads[axis + 2]).saturating_sub(2);
    Layer {
        pads: [pads[0], pads[1]],
        output: [out(0), out(1)],
        ..Layer::same(images, size, channels)
    }
}

fn isas_and_tiles() -> impl Iterator<Item = (Isa, Tile)> {
    Isa::available().iter().flat_map(|&isa| TILES.map(|tile| (isa, tile)))
}

#[test]
fn outputs_match_for_partial_tiles() {
    for (isa, tile) in isas_and_tiles() {
        for size in (0..11).flat_map(|height| (0..11).map(move |width| [height, width])) {
            for (pads, edge) in
                [([0; 4], Edge::Start), ([1; 4], Edge::End), ([2, 0, 1, 3], Edge::Start)]
            {
                let layer = layer(1, size, [3, 2], pads);
                let case = Case { edge, ..Case::plain(tile, layer) };
                check(isa, case, &Data::noise(&layer));
            }
        }
        for c in [0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33] {
            for k in [0, 1, 2, 7, 8, 9, 15, 16, 17, 33, 49] {
                let layer = Layer::same(1, [5, 6], [c, k]);
                check(isa, Case::plain(tile, layer), &Data::noise(&layer));
            }
        }
    }
}

#[test]
fn outputs_match_with_epilogues_strides_images_and_ranges() {
    let activations = [
        Activation::None,
        Activation::Relu,
        Activation::Relu6,
        Activation::Clamp(-0.5, 0.75),
        Activation::Silu,
        Activation::Gelu,
    ];
    for (isa, tile) in isas_and_tiles() {
        for activation in activations {
            for addends in [(false, false), (true, false), (false, true), (true, true)] {
                for (step, gap, edge) in [(1, 0, Edge::End), (2, 5, Edge::Start), (5, 1, Edge::End)]
                {
                    let layer = layer(3, [9, 6], [5, 19], [1; 4]);
                    let layer = Layer { pixel_strides: [5 + gap, 19 + 2 * gap], ..layer };
                    let case = Case { layer, tile, addends, activation, step, edge };
                    check(isa, case, &Data::noise(&layer));
                }
            }
        }
    }
}

#[test]
fn layers_of_several_blocks_match() {
    for (isa, tile) in isas_and_tiles() {
        for (images, size, channels) in [
            (2, [33, 37], [5, 7]),
            (1, [31, 28], [70, 50]),
            (50, [4, 4], [17, 96]),
            (1, [3, 240], [300, 3]),
        ] {
            let layer = Layer::same(images, size, channels);
            let case = Case { addends: (true, true), ..Case::plain(tile, layer) };
            check(isa, case, &Data::noise(&layer));
        }
    }
}

#[test]
fn windows_in_the_padding_match() {
    for (isa, tile) in isas_and_tiles() {
        for (pads, output) in [([9, 0], [5, 30]), ([0, 13], [40, 9]), ([7, 8], [1, 1])] {
            let layer = Layer { output, pads, ..Layer::same(2, [4, 5], [3, 17]) };
            check(isa, Case::plain(tile, layer), &Data::noise(&layer));
        }
    }
}

#[test]
fn errors_stay_within_the_bound() {
    for (isa, tile) in isas_and_tiles() {
        let layer = Layer::same(1, [13, 14], [64, 24]);
        let case = Case::plain(tile, layer);
        let mut data = Data::noise(&layer);
        let (largest_fraction, ratio) = check(isa, case, &data);
        assert!(
            largest_fraction < 2e-3,
            "{largest_fraction} of the bound on noise, {}",
            case.name(isa)
        );
        assert!(ratio < 2.5, "{ratio} times the error of a direct sum, {}", case.name(isa));

        // Signs that cancel between taps, or add up at the points.
        let signs: [fn(usize) -> bool; 4] =
            [|i| i % 2 == 0, |i| i % 3 == 0, |i| i % 5 < 2, |i| (i / 64) % 2 == 0];
        for sign in signs {
            for (i, x) in data.x.iter_mut().enumerate() {
                *x = (1.0 + 1e-3 * x.abs()).copysign(if sign(i) { 1.0 } else { -1.0 });
            }
            for (i, w) in data.weights.iter_mut().enumerate() {
                *w = (1.0 + 1e-3 * w.abs()).copysign(if sign(i / 9) { 1.0 } else { -1.0 });
            }
            check(isa, case, &data);
        }

        // Values of all magnitudes, next to each other.
        let mut data = Data::noise(&layer);
        for (i, x) in data.x.iter_mut().enumerate() {
            *x *= 2.0f32.powi((i * 7 % 41) as i32 - 20);
        }
        for (i, w) in data.weights.iter_mut().enumerate() {
            *w *= 2.0f32.powi((i * 5 % 37) as i32 - 18);
        }
        check(isa, case, &data);
    }
}

#[test]
fn non_finite_values_reach_only_tiles_that_read_them() {
    let layer = Layer::same(1, [12, 12], [3, 5]);
    for (isa, tile) in isas_and_tiles() {
        for poison in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for poisoned in [[0, 0], [4, 7], [5, 5], [11, 3]] {
                let mut data = Data::noise(&layer);
                data.x[(poisoned[0] * 12 + poisoned[1]) * 3 + 1] = poison;
                let y = run(isa, Case::plain(tile, layer), &data);
                for (i, y) in y.iter().enumerate() {
                    let output = [i / 5 / 12, i / 5 % 12];
                    let contains = |axis: usize, from: usize, len: usize| {
                        // A window starts one pixel before its output.
                        (from..from + len).contains(&(poisoned[axis] + 1))
                    };
                    let is_reached = (0..2).all(|axis| contains(axis, output[axis], 3));
                    let corner = output.map(|poisoned| poisoned - poisoned % tile.size());
                    let shares_tile =
                        (0..2).all(|axis| contains(axis, corner[axis], tile.extent()));
                    assert!(
                        !is_reached || !y.is_finite(),
                        "{output:?} hides {poison} at {poisoned:?}"
                    );
                    assert!(
                        shares_tile || y.is_finite(),
                        "{output:?} of {tile:?} has {poison} from {poisoned:?}"
                    );
                }
            }
        }
    }
}

/// Computes [`Tile::growth`] from the transforms of unit vectors.
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
    let magnitude = |x: S::F| f64::from(simd.sum(x).abs()) / S::LANES as f64;
    let unit = |i: usize| std::array::from_fn(|j| simd.splat(f32::from(u8::from(i == j))));
    let (mut inputs, mut largest) = ([0.0; A], [0.0; M]);
    for i in 0..A {
        for (sum, x) in inputs.iter_mut().zip(Filter::<M, A>::input(simd, unit(i))) {
            *sum += magnitude(x);
        }
    }
    for (i, (weights, inputs)) in Filter::<M, A>::WEIGHTS.iter().zip(inputs).enumerate() {
        let weights: f64 = weights.iter().map(|w| w.abs()).sum();
        for (sum, x) in largest.iter_mut().zip(Filter::<M, A>::output(simd, unit(i))) {
            *sum += magnitude(x) * weights * inputs;
        }
    }
    largest.iter().fold(0.0, |max: f64, &sum| max.max(sum)).powi(2)
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
    let choice = |size: usize, channels: [usize; 2]| {
        choose::choose_on(Isa::Avx512, &Layer::same(1, [size, size], channels), 0)
    };
    let (f2x2, f4x4) = (Algorithm::Winograd(Tile::F2x2), Algorithm::Winograd(Tile::F4x4));
    for (size, channels) in
        [(56, 64), (28, 128), (14, 256), (112, 128), (28, 512), (7, 64), (14, 16)]
    {
        assert_eq!(choice(size, [channels; 2]), f4x4, "{size}, {channels}");
    }
    for channels in [128, 256, 512] {
        assert_eq!(choice(7, [channels; 2]), f2x2, "{channels}");
    }
    for (size, channels) in
        [(7, [8, 8]), (7, [16, 16]), (14, [8, 8]), (224, [3, 64]), (1, [512, 512])]
    {
        assert_eq!(choice(size, channels), Algorithm::Direct, "{size}, {channels:?}");
    }
    // Longer products hide the latency of loading weights.
    let small = Layer::same(1, [7, 7], [512, 512]);
    assert_eq!(choose::choose_on(Isa::Avx2, &small, 0), f4x4);
    assert_eq!(choose(&small, 0), choose::choose_on(isa(), &small, 0));
    assert_eq!(choice(usize::MAX, [usize::MAX; 2]), Algorithm::Direct);
}

#[test]
fn a_price_per_byte_disables_winograd_for_small_images_first() {
    let choice = |size: usize, price: u32| {
        choose::choose_on(Isa::Avx512, &Layer::same(1, [size, size], [128, 128]), price)
    };
    let (f2x2, f4x4) = (Algorithm::Winograd(Tile::F2x2), Algorithm::Winograd(Tile::F4x4));
    let prices = [0, 100, 1000];
    assert_eq!(prices.map(|price| choice(14, price)), [f2x2, Algorithm::Direct, Algorithm::Direct]);
    assert_eq!(prices.map(|price| choice(56, price)), [f4x4, f2x2, Algorithm::Direct]);
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
fn inconsistent_arguments_are_refused() {
    let layer = Layer { pixel_strides: [4, 9], ..Layer::same(2, [5, 6], [3, 8]) };
    let (weights, packed) = (9 * 3 * 8, packed_len(Tile::F4x4, [3, 8]));
    let (x, y, workspace) = (59 * 4 + 3, 59 * 9 + 8, workspace_len(Tile::F4x4, &layer));
    let is_refused = |layer: Layer,
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
    let lengths = [x, packed, y, 8, y, workspace];
    assert!(!is_refused(layer, 0..4, lengths));
    for i in 0..lengths.len() {
        let mut shortened = lengths;
        shortened[i] -= 1;
        assert!(is_refused(layer, 0..4, shortened), "length {i}");
    }
    assert!(is_refused(layer, 0..5, lengths));
    assert!(is_refused(layer, Range { start: 3, end: 2 }, lengths));
    assert!(is_refused(Layer { pixel_strides: [4, 7], ..layer }, 0..4, lengths));
    assert!(is_refused(Layer { input: [usize::MAX / 8, 6], ..layer }, 0..4, lengths));
    assert!(is_refused(Layer { pads: [usize::MAX, 0], ..layer }, 0..4, lengths));
    assert!(is_refused(Layer { images: usize::MAX / 8, ..layer }, 0..4, lengths));

    let is_refused = |weights: usize, out: usize, workspace: usize| {
        std::panic::catch_unwind(|| {
            let (mut out, mut workspace) = (vec![0.0; out], vec![0.0; workspace]);
            pack(Tile::F4x4, &vec![0.0; weights], [3, 8], &mut out, &mut workspace);
        })
        .is_err()
    };
    assert!(!is_refused(weights, packed, 24));
    assert!(is_refused(weights - 1, packed, 24));
    assert!(is_refused(weights, packed - 1, 24));
    assert!(is_refused(weights, packed, 23));
}

#[test]
fn layers_make_no_heap_calls() {
    let layer = Layer::same(1, [9, 9], [20, 30]);
    let data = Data::noise(&layer);
    for (isa, tile) in isas_and_tiles() {
        let plan = Plan::new(isa, tile, &layer);
        let mut packed = vec![0.0; packed_len_on(isa, tile, layer.channels)];
        let (mut buffer, mut y) = (vec![0.0; 600], vec![0.0; 81 * 30]);
        let mut workspace = vec![0.0; plan.workspace_len()];
        let epilogue = Epilogue { activation: Activation::Gelu, ..Epilogue::default() };
        // The first run may allocate, while it detects the instruction set.
        let quiet = (0..1000).any(|_| {
            let before = udo_api::guard::thread_heap_calls();
            pack_on(isa, tile, &data.weights, layer.channels, &mut packed, &mut buffer);
            let plan = Plan::new(isa, tile, &layer);
            let rows = 0..tile_rows(tile, &layer);
            plan.conv(rows, &data.x, &packed, &mut y, &epilogue, &mut workspace);
            udo_api::guard::thread_heap_calls() == before
        });
        assert!(quiet, "each of many layers called the heap");
    }
}
