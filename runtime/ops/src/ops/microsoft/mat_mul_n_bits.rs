//! Matrix product with 2-, 4- or 8-bit weights. Each block of a column has its own scale and zero point.

use udo_api::{
    Core, DType, Dim, Error, ExecError, FinalizeCx, InferCx, Inputs, Io, Kernel, KernelDef, Node,
    Op, OpSchema, Packed, PackedConstants, Param, Port, Scratch, Shape, Sources, TypeSet, Value,
    Workspace, input, input_like, output_like, types,
};
use udo_simd::gemm_blocks::{
    Blocks, LEAST_BLOCK, Width, Zeros, arrange, dequantize_columns, is_arranged, multiply,
};
use udo_simd::gemm_f32::{Epilogue, Layout, gemm, pack_b, packed_len};

use crate::Def;
use crate::family::argument::count;
use crate::family::partition;
use crate::number::wrong_recipe;

pub(crate) const DEF: Def = Def::new::<MatMulNBits>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Product>("MatMulNBits", Core::CPU).ports(&[
    input(0, types::F32),
    input(1, types::U8),
    input_like(2, 0),
    input(3, ZEROS),
    input_like(5, 0),
    output_like(0, 0),
])];

const A: usize = 0;
const B: usize = 1;
const SCALES: usize = 2;
const ZERO_POINTS: usize = 3;
const GROUPS: usize = 4;
const BIAS: usize = 5;

const ZEROS: TypeSet = types::U8.or(types::F32);

struct MatMulNBits;

impl Op for MatMulNBits {
    const SCHEMA: OpSchema = OpSchema::new(
        "MatMulNBits",
        &[
            Port::required("A", types::F32),
            Port::required("B", types::U8),
            Port::required("scales", types::F32),
            Port::optional("zero_points", ZEROS),
            Port::optional("g_idx", types::I32),
            Port::optional("bias", types::F32),
        ],
        &[Port::required("Y", types::F32)],
        &[
            Param::scalar("K", DType::I64),
            Param::scalar("N", DType::I64),
            // The lowest accuracy that an implementation may compute in; this one always uses f32.
            Param::scalar("accuracy_level", DType::I64).default(Value::int(0)),
            Param::scalar("bits", DType::I64).default(Value::int(4)),
            Param::scalar("block_size", DType::I64),
            Param::scalar("weight_prepacked", DType::I64).default(Value::int(0)),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let sizes = Sizes::read(cx)?;
        let a = cx.input(A)?;
        let mut dims: Vec<Dim> = a.full_shape().iter().collect();
        if let Some(last) = dims.last_mut() {
            *last = Dim::Fixed(sizes.columns);
        }
        cx.set_output(0, a.with_shape(Shape::of_dims(&dims)?))
    }
}

/// The sizes of a product.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    rows: usize,
    depth: usize,
    columns: usize,
    /// Bits per weight: 2, 4 or 8.
    bits: usize,
    /// Weights per block.
    block: usize,
    /// Blocks per column.
    blocks: usize,
}

impl Sizes {
    fn read(node: &Node<'_>) -> Result<Self, Error> {
        let (depth, columns, block) =
            (count(node, "K")?, count(node, "N")?, count(node, "block_size")?);
        let bits = match node.int("bits")? {
            2 => 2,
            4 => 4,
            8 => 8,
            bits => {
                return Err(Error::new(format!(
                    "parameter \"bits\" is {bits}, expected 2, 4 or 8"
                )));
            }
        };
        if !block.is_power_of_two() || block < LEAST_BLOCK {
            let expected = format!("expected a power of two from {LEAST_BLOCK} on");
            return Err(Error::new(format!("parameter \"block_size\" is {block}, {expected}")));
        }
        if node.flag("weight_prepacked")? {
            let expected = "expected 0: only the documented order of values is supported";
            return Err(Error::new(format!("parameter \"weight_prepacked\" is 1, {expected}")));
        }
        if node.has_input(GROUPS) {
            return Err(Error::new(format!(
                "input {GROUPS}, an order of rows, is there, expected none"
            )));
        }
        let (a, blocks) = (node.input(A)?, depth.div_ceil(block));
        if a.shape().last() != Some(&depth) {
            return Err(Error::new(format!("input {A} is {a}, expected rows of {depth}")));
        }
        let rows = a.len() / depth;
        let sizes = Self { rows, depth, columns, bits, block, blocks };
        sizes.check(node)?;
        Ok(sizes)
    }

    fn check(&self, node: &Node<'_>) -> Result<(), Error> {
        let &Self { columns, block, blocks, .. } = self;
        let all = columns.saturating_mul(blocks);
        let is_packed =
            node.has_input(ZERO_POINTS) && node.input(ZERO_POINTS)?.dtype() == Some(DType::U8);
        let zeros = if is_packed { columns.saturating_mul(self.bytes(blocks)) } else { all };
        let expected =
            [(B, all.saturating_mul(self.bytes(block))), (SCALES, all), (ZERO_POINTS, zeros)];
        for (port, len) in expected.into_iter().chain([(BIAS, columns)]) {
            if node.has_input(port) && node.input(port)?.len() != len {
                let found = node.input(port)?;
                return Err(Error::new(format!(
                    "input {port} is {found}, expected {len} elements"
                )));
            }
        }
        Ok(())
    }

    /// Returns the depth with the last block filled up.
    fn whole_depth(&self) -> usize {
        self.block.saturating_mul(self.blocks)
    }

    /// Returns the bytes of `values` weights, rounded up.
    fn bytes(&self, values: usize) -> usize {
        values.saturating_mul(self.bits).div_ceil(8)
    }

    /// Returns the weights and zero points from the inputs, or those widened to 4 bits.
    fn blocks<'a>(
        &self,
        inputs: &Inputs<'a>,
        [values, zeros]: [Option<&'a [u8]>; 2],
    ) -> Result<Blocks<'a>, ExecError> {
        let &Self { columns, bits, block, blocks, .. } = self;
        let zeros = if let Some(zeros) = zeros {
            Zeros::Quantized(zeros)
        } else if !inputs.has(ZERO_POINTS) {
            Zeros::Same((1u8 << (bits - 1)).into())
        } else if inputs.dtype(ZERO_POINTS)? == DType::U8 {
            Zeros::Quantized(inputs.get::<u8>(ZERO_POINTS)?)
        } else {
            Zeros::Floats(inputs.get::<f32>(ZERO_POINTS)?)
        };
        let values = if let Some(values) = values { values } else { inputs.get::<u8>(B)? };
        let (width, scales) =
            (if bits == 8 { Width::Eight } else { Width::Four }, inputs.get::<f32>(SCALES)?);
        let b = Blocks::new(width, [block, blocks, columns], values, scales, zeros);
        b.ok_or(ExecError::bad_value(values.len() as i64, B))
    }
}

/// 2-bit rows widened to 4 bits, which the kernels read: before the run for constants, else in every run.
#[derive(Clone, Copy)]
struct Widened {
    port: usize,
    /// Bytes of a 2-bit row, and of the widened row.
    row: usize,
    wide: usize,
    len: usize,
    packed: Option<Packed<u8>>,
}

impl Widened {
    fn new(
        cx: &FinalizeCx<'_>,
        port: usize,
        rows: usize,
        [row, wide]: [usize; 2],
    ) -> Result<Self, Error> {
        let len = rows.saturating_mul(wide);
        let recipe = [row as u64, wide as u64];
        let packed = if cx.is_constant(port) {
            Some(cx.pack(&[port], &recipe, len, Self::fill)?)
        } else {
            None
        };
        Ok(Self { port, row, wide, len, packed })
    }

    fn fill(recipe: &[u64], sources: &Sources<'_>, y: &mut [u8]) -> Result<(), Error> {
        let &[row, wide] = recipe else { return Err(wrong_recipe(recipe)) };
        widen(sources.get::<u8>(0)?, row as usize, y, wide as usize);
        Ok(())
    }

    /// Returns the scratch bytes for widening in a run; 0 for constants.
    fn scratch_len(self) -> usize {
        if self.packed.is_some() { 0 } else { self.len }
    }

    fn get<'a>(
        self,
        inputs: &Inputs<'_>,
        packed: &PackedConstants<'a>,
        scratch: &mut Scratch<'a>,
    ) -> Result<&'a [u8], ExecError> {
        if let Some(constant) = self.packed {
            return packed.get(constant);
        }
        let y = scratch.take::<u8>(self.len)?;
        widen(inputs.get::<u8>(self.port)?, self.row, y, self.wide);
        Ok(y)
    }
}

/// Widens 2-bit values to 4 bits row by row: one source byte gives two.
fn widen(x: &[u8], row: usize, y: &mut [u8], wide: usize) {
    for (x, y) in x.chunks_exact(row.max(1)).zip(y.chunks_exact_mut(wide.max(1))) {
        for (at, y) in y.iter_mut().enumerate() {
            let two = x[at / 2] >> (at % 2 * 4);
            *y = two & 0b11 | (two & 0b1100) << 2;
        }
    }
}

/// Up to this many rows, weights are dequantized in registers; with more, a tile of them is dequantized to memory
/// first.
const FEW: usize = 12;

/// Dequantized elements of a tile: plain and packed they fill half of a 1 MiB second-level cache.
const AT_HAND: usize = 1 << 16;

/// The column count of a part is a multiple of this.
const STEP: usize = 16;

struct Product {
    sizes: Sizes,
    /// Columns per part.
    part: usize,
    /// Columns per dequantized tile; 0 if weights are dequantized in registers.
    tile: usize,
    /// Widened weights and zero points, for 2 bits.
    widened: [Option<Widened>; 2],
}

impl Kernel for Product {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let sizes = Sizes::read(cx)?;
        let Sizes { rows, columns, .. } = sizes;
        let parts = match cx.threads() {
            1 => 1,
            threads => partition::most_grains(threads),
        };
        let part = columns.div_ceil(parts).next_multiple_of(STEP).min(columns);
        let most = (AT_HAND / sizes.whole_depth().max(1) / STEP * STEP).max(STEP);
        let tile = if rows > FEW { most.min(part) } else { 0 };
        let mut widened = [None; 2];
        if sizes.bits == 2 {
            let Sizes { block, blocks, .. } = sizes;
            let values = columns.saturating_mul(blocks);
            let row = sizes.bytes(block);
            widened[0] = Some(Widened::new(cx, B, values, [row, 2 * row])?);
            if cx.has_input(ZERO_POINTS) && cx.input(ZERO_POINTS)?.dtype() == Some(DType::U8) {
                let row = [sizes.bytes(blocks), blocks.div_ceil(2)];
                widened[1] = Some(Widened::new(cx, ZERO_POINTS, columns, row)?);
            }
        }
        Ok(Self { sizes, part, tile, widened })
    }

    fn workspace(&self) -> Workspace {
        let [arranged, products, own] = self.lens();
        let own = self.parts().saturating_mul(own);
        let bytes = self.widened.iter().flatten().map(|widened| widened.scratch_len());
        let numbers = Workspace::for_elements::<f32>(arranged).and::<f32>(products).and::<f32>(own);
        bytes.fold(numbers, Workspace::and::<u8>)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, mut scratch, parallel, packed, .. } = io;
        let Sizes { rows, depth, columns, .. } = self.sizes;
        let (x, y) = (inputs.get::<f32>(A)?, outputs.take::<f32>(0)?);
        let [arranged, products, own_len] = self.lens();
        let a = scratch.take::<f32>(arranged)?;
        let products = scratch.take::<f32>(products)?;
        let own = scratch.take::<f32>(self.parts() * own_len)?;
        if rows == 0 {
            return Ok(());
        }
        let mut wide = [None; 2];
        for (wide, widened) in wide.iter_mut().zip(self.widened) {
            *wide =
                widened.map(|widened| widened.get(&inputs, &packed, &mut scratch)).transpose()?;
        }
        let b = self.sizes.blocks(&inputs, wide)?;
        let a = if is_arranged(&b, depth) {
            x
        } else {
            arrange(&b, depth, x, a);
            &*a
        };
        let bias = if inputs.has(BIAS) { inputs.get::<f32>(BIAS)? } else { &[] };
        // A single row is written in place. Several rows are computed part by part and copied to `y` afterwards.
        let to = if rows == 1 { &mut *y } else { &mut *products };
        parallel.chunks_mut_with(to, rows * self.part, own, own_len, |part, y, own| {
            let first = part * self.part;
            self.columns(&b, first, a, y, own);
            let width = y.len() / rows;
            if let Some(bias) = bias.get(first..first + width) {
                y.chunks_exact_mut(width).for_each(|y| add(y, bias));
            }
            Ok(())
        })?;
        if rows == 1 {
            return Ok(());
        }
        let (products, grain) = (&*products, partition::row_grain(columns));
        parallel.chunks_mut(y, grain, |chunk, y| {
            for (at, y) in y.chunks_exact_mut(columns).enumerate() {
                let row = chunk * (grain / columns) + at;
                for (part, y) in y.chunks_mut(self.part).enumerate() {
                    let from = part * self.part * rows + row * y.len();
                    y.copy_from_slice(&products[from..][..y.len()]);
                }
            }
            Ok(())
        })
    }
}

impl Product {
    /// Returns the scratch elements for the left side, for outputs that are not yet in place, and per part.
    fn lens(&self) -> [usize; 3] {
        let Sizes { rows, columns, .. } = self.sizes;
        let depth = self.sizes.whole_depth();
        let products = if rows == 1 { 0 } else { rows.saturating_mul(columns) };
        let packed = if self.tile == 0 { 0 } else { packed_len(depth, self.tile) };
        [
            rows.saturating_mul(depth),
            products,
            self.tile.saturating_mul(depth).saturating_add(packed).next_multiple_of(STEP),
        ]
    }

    fn parts(&self) -> usize {
        self.sizes.columns.div_ceil(self.part.max(1))
    }

    /// Computes some columns of all rows.
    fn columns(&self, b: &Blocks<'_>, first: usize, a: &[f32], y: &mut [f32], own: &mut [f32]) {
        let (rows, depth) = (self.sizes.rows, self.sizes.whole_depth());
        let width = y.len() / rows;
        if self.tile == 0 {
            return multiply(b, first..first + width, a, y, width);
        }
        let (wide, packed) = own.split_at_mut(self.tile * depth);
        for from in (0..width).step_by(self.tile) {
            let count = self.tile.min(width - from);
            dequantize_columns(b, first + from..first + from + count, wide);
            pack_b(wide, depth, Layout::Transposed, depth, count, packed);
            let y = &mut y[from..];
            gemm(a, depth, rows, depth, packed, count, y, width, &Epilogue::default());
        }
    }
}

fn add(y: &mut [f32], x: &[f32]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += x);
}

#[cfg(test)]
mod tests {
    use crate::family::numerics::settled_on_any_threads;
    use crate::testing::{Bench, Tensor, assert_near, bench, noise, tensor};

    /// The sizes of a product, and its kind of zero points.
    #[derive(Clone, Copy, Debug)]
    struct Case {
        rows: usize,
        depth: usize,
        columns: usize,
        bits: usize,
        block: usize,
        zeros: Zeros,
        has_bias: bool,
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Zeros {
        None,
        Quantized,
        Floats,
    }

    const CASE: Case = Case {
        rows: 1,
        depth: 64,
        columns: 40,
        bits: 4,
        block: 32,
        zeros: Zeros::None,
        has_bias: false,
    };

    const CASES: &[Case] = &[
        CASE,
        Case { rows: 3, zeros: Zeros::Quantized, has_bias: true, ..CASE },
        Case { rows: 20, depth: 100, columns: 70, zeros: Zeros::Floats, has_bias: true, ..CASE },
        Case { bits: 8, depth: 96, block: 16, zeros: Zeros::Quantized, ..CASE },
        Case { bits: 8, rows: 33, columns: 130, ..CASE },
        Case { rows: 2, depth: 33, columns: 1, block: 16, ..CASE },
        Case { rows: 0, ..CASE },
        Case { rows: 5, depth: 700, columns: 300, block: 128, zeros: Zeros::Quantized, ..CASE },
        Case { bits: 2, ..CASE },
        Case {
            bits: 2,
            rows: 3,
            depth: 90,
            block: 16,
            zeros: Zeros::Quantized,
            has_bias: true,
            ..CASE
        },
        Case { bits: 2, rows: 20, depth: 300, zeros: Zeros::Quantized, ..CASE },
        Case { bits: 2, rows: 2, zeros: Zeros::Floats, ..CASE },
    ];

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 37 + i / 7 * 11 + 5) as u8).collect()
    }

    impl Case {
        fn blocks(&self) -> usize {
            self.depth.div_ceil(self.block)
        }

        fn numbers(&self) -> [Vec<f32>; 4] {
            let all = self.columns * self.blocks();
            let zeros = noise(all).iter().map(|x| 4.0 + x).collect();
            [noise(self.rows * self.depth), noise(all + 1).split_off(1), zeros, noise(self.columns)]
        }

        fn bench_with(&self) -> Bench {
            self.given_with(Bench::constant)
        }

        /// Runs the case with weights and zero points passed as constants or as inputs.
        fn given_with(&self, bytes_are: fn(Bench, Tensor) -> Bench) -> Bench {
            let &Self { rows, depth, columns, bits, block, .. } = self;
            let (blob, [x, scales, zeros, bias]) = (block * bits / 8, self.numbers());
            let values = bytes(columns * self.blocks() * blob);
            let run = bench("com.microsoft:MatMulNBits").input(tensor(&[rows, depth], &x));
            let run = bytes_are(run, tensor(&[columns, self.blocks(), blob], &values));
            let run = run.constant(tensor(&[columns * self.blocks()], &scales));
            let row = (self.blocks() * bits).div_ceil(8);
            let run = match self.zeros {
                Zeros::None => run.absent(),
                Zeros::Quantized => bytes_are(run, tensor(&[columns * row], &bytes(columns * row))),
                Zeros::Floats => run.constant(tensor(&[columns * self.blocks()], &zeros)),
            };
            let run = run.absent();
            let run = if self.has_bias { run.constant(tensor(&[columns], &bias)) } else { run };
            let run = run.int("K", depth as i64).int("N", columns as i64);
            run.int("bits", bits as i64).int("block_size", block as i64)
        }

        fn expected(&self) -> Vec<f64> {
            let &Self { rows, depth, columns, bits, block, .. } = self;
            let (blob, blocks, [x, scales, zeros, bias]) =
                (block * bits / 8, self.blocks(), self.numbers());
            let values = bytes(columns * blocks * blob);
            let row = (blocks * bits).div_ceil(8);
            let packed_zeros = bytes(columns * row);
            let part = |bytes: &[u8], at: usize| match bits {
                8 => f64::from(bytes[at]),
                4 => f64::from(bytes[at / 2] >> (at % 2 * 4) & 15),
                _ => f64::from(bytes[at / 4] >> (at % 4 * 2) & 3),
            };
            let weight = |column: usize, k: usize| {
                let own = column * blocks + k / block;
                let zero = match self.zeros {
                    Zeros::None => f64::from(1 << (bits - 1)),
                    Zeros::Quantized => part(&packed_zeros[column * row..], k / block),
                    Zeros::Floats => f64::from(zeros[own]),
                };
                (part(&values[own * blob..], k % block) - zero) * f64::from(scales[own])
            };
            let all = (0..rows * columns).map(|at| {
                let (row, column) = (at / columns, at % columns);
                let terms = (0..depth).map(|k| f64::from(x[row * depth + k]) * weight(column, k));
                terms.sum::<f64>() + if self.has_bias { f64::from(bias[column]) } else { 0.0 }
            });
            all.collect()
        }
    }

    #[test]
    fn products_match_dequantized_values() {
        for case in CASES {
            println!("{case:?}");
            let y = if case.rows > 12 {
                case.bench_with().threads(3).one()
            } else {
                settled_on_any_threads(&case.bench_with())
            };
            assert_near(&y.values::<f32>(), &case.expected(), 2e-4);
            let y = case.given_with(Bench::input).one();
            assert_near(&y.values::<f32>(), &case.expected(), 2e-4);
        }
    }

    #[test]
    fn mismatched_inputs_are_refused() {
        let run = |x: Tensor, values: usize, scales: usize| {
            let run = bench("com.microsoft:MatMulNBits").input(x);
            let run = run.constant(tensor(&[values], &vec![0u8; values]));
            run.constant(tensor(&[scales], &vec![0f32; scales])).int("K", 32).int("N", 2)
        };
        let x = || tensor(&[1, 32], &[0f32; 32]);
        let fits = || run(x(), 32, 2);
        let error = fits().int("block_size", 24).error();
        assert_eq!(error, "parameter \"block_size\" is 24, expected a power of two from 16 on");
        let error = fits().int("block_size", 32).int("bits", 3).error();
        assert_eq!(error, "parameter \"bits\" is 3, expected 2, 4 or 8");
        let error = run(tensor(&[1, 31], &[0f32; 31]), 32, 2).int("block_size", 32).error();
        assert_eq!(error, "input 0 is f32[1,31], expected rows of 32");
        let error = run(x(), 31, 2).int("block_size", 32).error();
        assert_eq!(error, "input 1 is u8[31], expected 32 elements");
        let error = run(x(), 32, 3).int("block_size", 32).error();
        assert_eq!(error, "input 2 is f32[3], expected 2 elements");
        let error = fits().int("block_size", 32).int("weight_prepacked", 1).error();
        assert!(error.starts_with("parameter \"weight_prepacked\" is 1"), "{error}");
        let order = fits().absent().constant(tensor(&[32], &[0i32; 32]));
        let error = order.int("block_size", 32).error();
        assert_eq!(error, "input 4, an order of rows, is there, expected none");
    }
}
