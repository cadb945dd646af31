//! Benchmarks of `winograd`, relative to direct convolution and to its own limits.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on stops")]

use std::hint::black_box;

use udo_simd::conv_f32::{Plan, Shape, Strides};
use udo_simd::gemm_f32::{self, Batch, Epilogue};
use udo_simd::indirect::Window;
use udo_simd::winograd::{self, Layer, Tile};

use crate::harness::{self, Lines, Summary, Unit, geomean, ratio, section};

/// Layers of well-known networks: height and width, and channels.
const LAYERS: [(&str, usize, usize); 6] = [
    ("ResNet", 56, 64),
    ("ResNet", 28, 128),
    ("ResNet", 14, 256),
    ("ResNet", 7, 512),
    ("VGG", 112, 128),
    ("VGG", 28, 512),
];

/// Prints the rows.
pub(crate) fn run(summary: &mut Summary) {
    section(
        "winograd: the direct sum's operations over the time, which may pass the peak; then as a multiple\n\
         of the direct sum's speed, and the fraction of the time that the products alone take",
    );
    let (mut ratios, mut chosen_ratios) = (Vec::new(), Vec::new());
    for (network, size, channels) in LAYERS {
        let layer = Layer::same(1, [size, size], [channels; 2]);
        let choice = winograd::choose(&layer, 0);
        let mut chosen_ratio = 1.0;
        for tile in [Tile::F4x4, Tile::F2x2] {
            let name = format!("{network} {size}x{size}x{channels} {tile:?}");
            let speed = row(&name, tile, layer);
            if choice == winograd::Algorithm::Winograd(tile) {
                chosen_ratio = speed;
            }
            if network == "ResNet" && tile == Tile::F4x4 {
                ratios.push(speed);
            }
        }
        println!("  {:<44} {choice:?}", "  chosen");
        if network == "ResNet" {
            chosen_ratios.push(chosen_ratio);
        }
    }
    let (f4x4, as_chosen) = (geomean(&ratios), geomean(&chosen_ratios));
    println!("  geometric means over ResNet: F(4x4, 3x3) {f4x4:.2} x, as chosen {as_chosen:.2} x");
    summary.add("winograd", f4x4);
}

/// Returns the speed of a layer relative to direct convolution.
fn row(name: &str, tile: Tile, layer: Layer) -> f64 {
    let Layer { channels: [c, k], input: [height, width], .. } = layer;
    let pixels = height * width;
    let weights: Vec<f32> = (0..9 * c * k).map(|i| (i % 23) as f32 / 23.0 - 0.5).collect();
    let mut packed = Lines::new(winograd::packed_len(tile, layer.channels));
    let mut workspace = vec![0.0; winograd::pack_workspace_len(layer.channels)];
    winograd::pack(tile, &weights, layer.channels, packed.slice(), &mut workspace);
    let mut workspace = Lines::new(winograd::workspace_len(tile, &layer));
    let (mut x, mut y) = (filled(pixels * c), Lines::new(pixels * k));
    let (x, y) = (x.slice(), y.slice());
    let rows = 0..winograd::tile_rows(tile, &layer);
    let mut direct = Direct::new([height, width], [c, k], &weights);
    let mut products = Products::new(tile, &layer, workspace.slice().len());

    let (packed, workspace) = (packed.slice(), workspace.slice());
    let mut run_winograd = || {
        winograd::conv(tile, &layer, rows.clone(), x, packed, y, &Epilogue::default(), workspace);
        black_box(&mut *y);
    };
    harness::row(name, Unit::Flops, (18 * pixels * c * k) as f64, &mut run_winograd);
    let speed = ratio("  of the direct sum", &mut run_winograd, || direct.run(x));
    ratio("  products' fraction", run_winograd, || products.run(packed));
    speed
}

/// Direct convolution: the indirect algorithm.
struct Direct {
    plan: Plan,
    table: Vec<u32>,
    packed: Lines<f32>,
    y: Lines<f32>,
    channels: [usize; 2],
}

impl Direct {
    fn new(size: [usize; 2], [channels, outputs]: [usize; 2], weights: &[f32]) -> Self {
        let shape = Shape { window: Window::square(size, 3, 1, 1), channels, outputs, groups: 1 };
        let plan = Plan::new(&shape).unwrap();
        let mut table = vec![0; plan.table_len()];
        assert!(plan.fill(&mut table));
        let mut packed = Lines::new(plan.packed_len());
        plan.pack(weights, &Strides::onnx(&shape), packed.slice());
        let y = Lines::new(plan.rows() * outputs);
        Self { plan, table, packed, y, channels: [channels, outputs] }
    }

    fn run(&mut self, x: &[f32]) {
        let ([c, k], rows) = (self.channels, 0..self.plan.rows());
        let (packed, y) = (self.packed.slice(), self.y.slice());
        self.plan.run(x, c, &self.table, packed, rows, y, k, &Epilogue::default());
        black_box(y);
    }
}

/// The matrix products of a layer without the transforms, in blocks of the same number of tiles.
struct Products {
    a: Lines<f32>,
    c: Lines<f32>,
    points: usize,
    tiles: usize,
    block: usize,
    channels: [usize; 2],
}

impl Products {
    fn new(tile: Tile, layer: &Layer, workspace_len: usize) -> Self {
        let points = (tile.size() + 2).pow(2);
        let tiles = winograd::tile_rows(tile, layer) * layer.output[1].div_ceil(tile.size());
        let [c, k] = layer.channels;
        let block = workspace_len / points / (c + k);
        let (a, c) = (filled(points * block * c), Lines::new(points * block * k));
        Self { a, c, points, tiles, block, channels: layer.channels }
    }

    fn run(&mut self, packed: &[f32]) {
        let [c, k] = self.channels;
        let batch = Batch {
            count: self.points,
            a: self.block * c,
            packed: packed.len() / self.points,
            c: self.block * k,
            residual: 0,
        };
        let parts = self.tiles.div_ceil(self.block);
        for part in 0..parts {
            let m = (self.tiles + part) / parts;
            let (a, product) = (self.a.slice(), self.c.slice());
            gemm_f32::gemm_batched(&batch, a, c, m, c, packed, k, product, k, &Epilogue::default());
            black_box(product);
        }
    }
}

/// Returns `len` numbers between -0.5 and 0.5.
fn filled(len: usize) -> Lines<f32> {
    let mut lines = Lines::new(len);
    lines.slice().iter_mut().enumerate().for_each(|(i, x)| *x = (i % 17) as f32 / 17.0 - 0.5);
    lines
}
