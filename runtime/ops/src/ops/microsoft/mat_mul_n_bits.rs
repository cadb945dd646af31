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
        cx.set_output(0, a.with_shape(Shape::from_dims(&dims)?))
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
    block_len: usize,
    blocks_per_column: usize,
}

impl Sizes {
    fn read(node: &Node<'_>) -> Result<Self, Error> {
        let (depth, columns, block_len) =
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
        if !block_len.is_power_of_two() || block_len < LEAST_BLOCK {
            let expected = format!("expected a power of two from {LEAST_BLOCK} on");
            return Err(Error::new(format!("parameter \"block_size\" is {block_len}, {expected}")));
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
        let (a, blocks_per_column) = (node.input(A)?, depth.div_ceil(block_len));
        if a.shape().last() != Some(&depth) {
            return Err(Error::new(format!("input {A} is {a}, expected rows of {depth}")));
        }
        let rows = a.len() / depth;
        let sizes = Self { rows, depth, columns, bits, block_len, blocks_per_column };
        sizes.check(node)?;
        Ok(sizes)
    }

    /// Checks the number of elements of each input.
    fn check(&self, node: &Node<'_>) -> Result<(), Error> {
        let &Self { columns, block_len, blocks_per_column, .. } = self;
        let blocks = columns.saturating_mul(blocks_per_column);
        let is_packed =
            node.has_input(ZERO_POINTS) && node.input(ZERO_POINTS)?.dtype() == Some(DType::U8);
        let zeros =
            if is_packed { columns.saturating_mul(self.bytes(blocks_per_column)) } else { blocks };
        let weights = blocks.saturating_mul(self.bytes(block_len));
        let expected = [(B, weights), (SCALES, blocks), (ZERO_POINTS, zeros)];
        for (port, len) in expected.into_iter().chain([(BIAS, columns)]) {
            if node.has_input(port) && node.input(port)?.len() != len {
                let input = node.input(port)?;
                return Err(Error::new(format!(
                    "input {port} is {input}, expected {len} elements"
                )));
            }
        }
        Ok(())
    }

    /// Returns the depth rounded up to whole blocks.
    fn padded_depth(&self) -> usize {
        self.block_len.saturating_mul(self.blocks_per_column)
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
        let &Self { columns, bits, block_len, blocks_per_column, .. } = self;
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
        let b = Blocks::new(width, [block_len, blocks_per_column, columns], values, scales, zeros);
        b.ok_or(ExecError::bad_value(values.len() as i64, B))
    }
}

/// 2-bit rows of an input, widened to 4 bits because the kernels read 4 or 8: before the run for constants, else in
/// every run.
#[derive(Clone, Copy)]
struct Widened {
    port: usize,
    /// Bytes of a 2-bit row.
    row_len: usize,
    /// Bytes of a widened row.
    wide_row_len: usize,
    /// Bytes of all widened rows.
    len: usize,
    /// The result for constants.
    packed: Option<Packed<u8>>,
}

impl Widened {
    fn new(
        cx: &FinalizeCx<'_>,
        port: usize,
        rows: usize,
        [row_len, wide_row_len]: [usize; 2],
    ) -> Result<Self, Error> {
        let len = rows.saturating_mul(wide_row_len);
        // The recipe: all numbers that determine the result, besides the input. `fill` gets them.
        let recipe = [row_len as u64, wide_row_len as u64];
        let packed = if cx.is_constant(port) {
            Some(cx.pack(&[port], &recipe, len, Self::fill)?)
        } else {
            None
        };
        Ok(Self { port, row_len, wide_row_len, len, packed })
    }

    /// Widens the constant `sources`.
    fn fill(recipe: &[u64], sources: &Sources<'_>, y: &mut [u8]) -> Result<(), Error> {
        let &[row_len, wide_row_len] = recipe else { return Err(wrong_recipe(recipe)) };
        widen(sources.get::<u8>(0)?, row_len as usize, y, wide_row_len as usize);
        Ok(())
    }

    /// Returns the scratch bytes for widening in a run; 0 for constants.
    fn scratch_len(self) -> usize {
        if self.packed.is_some() { 0 } else { self.len }
    }

    /// Returns the widened rows.
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
        widen(inputs.get::<u8>(self.port)?, self.row_len, y, self.wide_row_len);
        Ok(y)
    }
}

/// Widens 2-bit values to 4 bits row by row: one source byte gives two.
fn widen(x: &[u8], row_len: usize, y: &mut [u8], wide_row_len: usize) {
    for (x, y) in x.chunks_exact(row_len.max(1)).zip(y.chunks_exact_mut(wide_row_len.max(1))) {
        for (index, y) in y.iter_mut().enumerate() {
            let two_values = x[index / 2] >> (index % 2 * 4);
            *y = two_values & 0b11 | (two_values & 0b1100) << 2;
        }
    }
}

/// Up to this many rows, weights are dequantized in registers; with more, a tile of them is dequantized to memory
/// first.
const MAX_REGISTER_ROWS: usize = 12;

/// Dequantized elements of a tile. As f32, dequantized and packed, they fill half of a 1 MiB second-level cache.
const TILE_LEN: usize = 1 << 16;

/// The column count of a part is a multiple of this.
const COLUMN_STEP: usize = 16;

/// The kernel. Parts, which threads share, have some columns of all rows.
struct Product {
    sizes: Sizes,
    part_columns: usize,
    /// Columns per dequantized tile; 0 if weights are dequantized in registers.
    tile_columns: usize,
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
        let part_columns = columns.div_ceil(parts).next_multiple_of(COLUMN_STEP).min(columns);
        let max_columns =
            (TILE_LEN / sizes.padded_depth().max(1) / COLUMN_STEP * COLUMN_STEP).max(COLUMN_STEP);
        let tile_columns = if rows > MAX_REGISTER_ROWS { max_columns.min(part_columns) } else { 0 };
        let mut widened = [None; 2];
        if sizes.bits == 2 {
            let Sizes { block_len, blocks_per_column, .. } = sizes;
            let blocks = columns.saturating_mul(blocks_per_column);
            let row_len = sizes.bytes(block_len);
            widened[0] = Some(Widened::new(cx, B, blocks, [row_len, 2 * row_len])?);
            if cx.has_input(ZERO_POINTS) && cx.input(ZERO_POINTS)?.dtype() == Some(DType::U8) {
                let row_lens = [sizes.bytes(blocks_per_column), blocks_per_column.div_ceil(2)];
                widened[1] = Some(Widened::new(cx, ZERO_POINTS, columns, row_lens)?);
            }
        }
        Ok(Self { sizes, part_columns, tile_columns, widened })
    }

    fn workspace(&self) -> Workspace {
        let [arranged_len, products_len, part_len] = self.scratch_lens();
        let tiles_len = self.parts().saturating_mul(part_len);
        let widened_lens = self.widened.iter().flatten().map(|widened| widened.scratch_len());
        let floats = Workspace::for_elements::<f32>(arranged_len);
        let floats = floats.and::<f32>(products_len).and::<f32>(tiles_len);
        widened_lens.fold(floats, Workspace::and::<u8>)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, mut scratch, parallel, packed, .. } = io;
        let Sizes { rows, depth, columns, .. } = self.sizes;
        let (x, y) = (inputs.get::<f32>(A)?, outputs.take::<f32>(0)?);
        let [arranged_len, products_len, part_len] = self.scratch_lens();
        let a = scratch.take::<f32>(arranged_len)?;
        let products = scratch.take::<f32>(products_len)?;
        let parts = scratch.take::<f32>(self.parts() * part_len)?;
        if rows == 0 {
            return Ok(());
        }
        let mut bytes = [None; 2];
        for (bytes, widened) in bytes.iter_mut().zip(self.widened) {
            *bytes =
                widened.map(|widened| widened.get(&inputs, &packed, &mut scratch)).transpose()?;
        }
        let b = self.sizes.blocks(&inputs, bytes)?;
        // The kernels may read the left side in another order, block by block.
        let a = if is_arranged(&b, depth) {
            x
        } else {
            arrange(&b, depth, x, a);
            &*a
        };
        let bias = if inputs.has(BIAS) { inputs.get::<f32>(BIAS)? } else { &[] };
        // A single row is written in place. Several rows are computed part by part and copied to `y` afterwards.
        let target = if rows == 1 { &mut *y } else { &mut *products };
        parallel.chunks_mut_with(
            target,
            rows * self.part_columns,
            parts,
            part_len,
            |part, y, scratch| {
                let first = part * self.part_columns;
                self.multiply_columns(&b, first, a, y, scratch);
                let width = y.len() / rows;
                if let Some(bias) = bias.get(first..first + width) {
                    y.chunks_exact_mut(width).for_each(|y| add(y, bias));
                }
                Ok(())
            },
        )?;
        if rows == 1 {
            return Ok(());
        }
        let (products, grain) = (&*products, partition::row_grain(columns));
        parallel.chunks_mut(y, grain, |chunk, y| {
            for (row, y) in y.chunks_exact_mut(columns).enumerate() {
                let row = chunk * (grain / columns) + row;
                for (part, y) in y.chunks_mut(self.part_columns).enumerate() {
                    let start = part * self.part_columns * rows + row * y.len();
                    y.copy_from_slice(&products[start..][..y.len()]);
                }
            }
            Ok(())
        })
    }
}

impl Product {
    /// Returns the scratch elements for the arranged left side, for products before they are copied to the output, and
    /// for the tile of a part.
    fn scratch_lens(&self) -> [usize; 3] {
        let Sizes { rows, columns, .. } = self.sizes;
        let depth = self.sizes.padded_depth();
        let products = if rows == 1 { 0 } else { rows.saturating_mul(columns) };
        let packed = if self.tile_columns == 0 { 0 } else { packed_len(depth, self.tile_columns) };
        [
            rows.saturating_mul(depth),
            products,
            self.tile_columns
                .saturating_mul(depth)
                .saturating_add(packed)
                .next_multiple_of(COLUMN_STEP),
        ]
    }

    fn parts(&self) -> usize {
        self.sizes.columns.div_ceil(self.part_columns.max(1))
    }

    /// Computes the columns from `first` on for all rows.
    fn multiply_columns(
        &self,
        b: &Blocks<'_>,
        first: usize,
        a: &[f32],
        y: &mut [f32],
        scratch: &mut [f32],
    ) {
        let (rows, depth) = (self.sizes.rows, self.sizes.padded_depth());
        let width = y.len() / rows;
        if self.tile_columns == 0 {
            return multiply(b, first..first + width, a, y, width);
        }
        let (dequantized, packed) = scratch.split_at_mut(self.tile_columns * depth);
        for start in (0..width).step_by(self.tile_columns) {
            let count = self.tile_columns.min(width - start);
            dequantize_columns(b, first + start..first + start + count, dequantized);
            pack_b(dequantized, depth, Layout::Transposed, depth, count, packed);
            let y = &mut y[start..];
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
        block_len: usize,
        zeros: Zeros,
        has_bias: bool,
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Zeros {
        None,
        Quantized,
        Floats,
    }

    const PLAIN: Case = Case {
        rows: 1,
        depth: 64,
        columns: 40,
        bits: 4,
        block_len: 32,
        zeros: Zeros::None,
        has_bias: false,
    };

    const CASES: &[Case] = &[
        PLAIN,
        Case { rows: 3, zeros: Zeros::Quantized, has_bias: true, ..PLAIN },
        Case { rows: 20, depth: 100, columns: 70, zeros: Zeros::Floats, has_bias: true, ..PLAIN },
        Case { bits: 8, depth: 96, block_len: 16, zeros: Zeros::Quantized, ..PLAIN },
        Case { bits: 8, rows: 33, columns: 130, ..PLAIN },
        Case { rows: 2, depth: 33, columns: 1, block_len: 16, ..PLAIN },
        Case { rows: 0, ..PLAIN },
        Case {
            rows: 5,
            depth: 700,
            columns: 300,
            block_len: 128,
            zeros: Zeros::Quantized,
            ..PLAIN
        },
        Case { bits: 2, ..PLAIN },
        Case {
            bits: 2,
            rows: 3,
            depth: 90,
            block_len: 16,
            zeros: Zeros::Quantized,
            has_bias: true,
            ..PLAIN
        },
        Case { bits: 2, rows: 20, depth: 300, zeros: Zeros::Quantized, ..PLAIN },
        Case { bits: 2, rows: 2, zeros: Zeros::Floats, ..PLAIN },
    ];

    /// Returns quantized test values.
    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 37 + i / 7 * 11 + 5) as u8).collect()
    }

    impl Case {
        fn blocks_per_column(&self) -> usize {
            self.depth.div_ceil(self.block_len)
        }

        /// Returns left side, scales, float zero points and bias.
        fn floats(&self) -> [Vec<f32>; 4] {
            let blocks = self.columns * self.blocks_per_column();
            let zeros = noise(blocks).iter().map(|x| 4.0 + x).collect();
            let scales = noise(blocks + 1).split_off(1);
            [noise(self.rows * self.depth), scales, zeros, noise(self.columns)]
        }

        fn bench_with(&self) -> Bench {
            self.bench_with_bytes(Bench::constant)
        }

        /// Builds a node; `add_bytes` adds weights and zero points as constants or as inputs.
        fn bench_with_bytes(&self, add_bytes: fn(Bench, Tensor) -> Bench) -> Bench {
            let &Self { rows, depth, columns, bits, block_len, .. } = self;
            let (block_bytes, [x, scales, zeros, bias]) = (block_len * bits / 8, self.floats());
            let values = bytes(columns * self.blocks_per_column() * block_bytes);
            let run = bench("com.microsoft:MatMulNBits").input(tensor(&[rows, depth], &x));
            let run =
                add_bytes(run, tensor(&[columns, self.blocks_per_column(), block_bytes], &values));
            let run = run.constant(tensor(&[columns * self.blocks_per_column()], &scales));
            let zero_bytes = (self.blocks_per_column() * bits).div_ceil(8);
            let run = match self.zeros {
                Zeros::None => run.absent(),
                Zeros::Quantized => {
                    add_bytes(run, tensor(&[columns * zero_bytes], &bytes(columns * zero_bytes)))
                }
                Zeros::Floats => {
                    run.constant(tensor(&[columns * self.blocks_per_column()], &zeros))
                }
            };
            let run = run.absent();
            let run = if self.has_bias { run.constant(tensor(&[columns], &bias)) } else { run };
            let run = run.int("K", depth as i64).int("N", columns as i64);
            run.int("bits", bits as i64).int("block_size", block_len as i64)
        }

        /// Computes the output from dequantized weights.
        fn expected(&self) -> Vec<f64> {
            let &Self { rows, depth, columns, bits, block_len, .. } = self;
            let (block_bytes, blocks, [x, scales, zeros, bias]) =
                (block_len * bits / 8, self.blocks_per_column(), self.floats());
            let values = bytes(columns * blocks * block_bytes);
            let zero_bytes = (blocks * bits).div_ceil(8);
            let packed_zeros = bytes(columns * zero_bytes);
            let value = |bytes: &[u8], index: usize| match bits {
                8 => f64::from(bytes[index]),
                4 => f64::from(bytes[index / 2] >> (index % 2 * 4) & 15),
                _ => f64::from(bytes[index / 4] >> (index % 4 * 2) & 3),
            };
            let weight = |column: usize, k: usize| {
                let block = column * blocks + k / block_len;
                let zero = match self.zeros {
                    Zeros::None => f64::from(1 << (bits - 1)),
                    Zeros::Quantized => value(&packed_zeros[column * zero_bytes..], k / block_len),
                    Zeros::Floats => f64::from(zeros[block]),
                };
                (value(&values[block * block_bytes..], k % block_len) - zero)
                    * f64::from(scales[block])
            };
            let outputs = (0..rows * columns).map(|index| {
                let (row, column) = (index / columns, index % columns);
                let terms = (0..depth).map(|k| f64::from(x[row * depth + k]) * weight(column, k));
                terms.sum::<f64>() + if self.has_bias { f64::from(bias[column]) } else { 0.0 }
            });
            outputs.collect()
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
            let y = case.bench_with_bytes(Bench::input).one();
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
