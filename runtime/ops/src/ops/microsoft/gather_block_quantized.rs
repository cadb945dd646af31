//! Gathers rows of a 4- or 8-bit table and dequantizes them; each block of a row has its own scale and zero point.

use udo_api::{
    Core, DType, Dim, Error, ExecError, FinalizeCx, InferCx, Inputs, Io, Kernel, KernelDef, Node,
    Op, OpSchema, Param, Port, Shape, Value, input, input_like, output_like, types,
};

use crate::Def;
use crate::family::argument::count;
use crate::family::movement::Indices;
use crate::family::partition::row_grain;

pub(crate) const DEF: Def = Def::new::<GatherBlockQuantized>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<GatherRows>("GatherBlockQuantized", Core::CPU)
    .ports(&[
        input(0, types::U8),
        input(1, types::INDEX),
        input(2, types::F32),
        input_like(3, 0),
        output_like(0, 2),
    ])];

const DATA: usize = 0;
const INDICES: usize = 1;
const SCALES: usize = 2;
const ZERO_POINTS: usize = 3;

struct GatherBlockQuantized;

impl Op for GatherBlockQuantized {
    const SCHEMA: OpSchema = OpSchema::new(
        "GatherBlockQuantized",
        &[
            Port::required("data", types::U8),
            Port::required("indices", types::INDEX),
            Port::required("scales", types::F32),
            Port::optional("zero_points", types::U8),
        ],
        &[Port::required("output", types::F32)],
        &[
            Param::scalar("bits", DType::I64).default(Value::int(4)),
            Param::scalar("block_size", DType::I64).default(Value::int(128)),
            Param::scalar("gather_axis", DType::I64).default(Value::int(0)),
            Param::scalar("quantize_axis", DType::I64).default(Value::int(1)),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let table = Table::read(cx)?;
        let (data, scales) = (cx.input(DATA)?, cx.input(SCALES)?);
        let inner = data.shape()[1..data.rank() - 1].iter().copied().map(Dim::Fixed);
        let dims: Vec<Dim> = cx.input(INDICES)?.full_shape().iter().chain(inner).collect();
        let shape = Shape::from_dims(&[dims, vec![Dim::Fixed(table.line_len)]].concat())?;
        cx.set_output(0, scales.with_shape(shape))
    }
}

/// A quantized table. A row consists of lines along the last axis, and a line of blocks with a scale each.
#[derive(Clone, Copy, Debug)]
struct Table {
    rows: usize,
    lines_per_row: usize,
    /// Values per line.
    line_len: usize,
    /// Bits per value, 4 or 8.
    bits: usize,
    /// Values per block.
    block_len: usize,
}

impl Table {
    fn read(node: &Node<'_>) -> Result<Self, Error> {
        let (data, scales) = (node.input(DATA)?, node.input(SCALES)?);
        let bits = match node.int("bits")? {
            4 => 4,
            8 => 8,
            bits => {
                return Err(Error::new(format!("parameter \"bits\" is {bits}, expected 4 or 8")));
            }
        };
        let block_len = count(node, "block_size")?;
        let last = data.rank().checked_sub(1).filter(|&last| last > 0);
        let last = last.ok_or_else(|| {
            Error::new(format!("input {DATA} is {data}, expected rank 2 or more"))
        })?;
        for (name, expected) in [("gather_axis", 0), ("quantize_axis", last)] {
            let axis = node.axis(name, data.rank())?;
            if axis != expected {
                return Err(Error::new(format!(
                    "parameter {name:?} is {axis}, expected {expected}"
                )));
            }
        }
        let line_len = data.shape()[last].saturating_mul(8 / bits);
        let outer = &data.shape()[..last];
        let [rows, inner @ ..] = outer else {
            return Err(Error::new(format!("input {DATA} is {data}, expected rank 2 or more")));
        };
        let table =
            Self { rows: *rows, lines_per_row: inner.iter().product(), line_len, bits, block_len };
        let scale_dims = [outer, &[table.blocks_per_line()]].concat();
        if scales.shape() != scale_dims {
            return Err(Error::new(format!("input {SCALES} is {scales}, expected {scale_dims:?}")));
        }
        let zero_dims = [outer, &[table.zero_bytes_per_line()]].concat();
        if node.has_input(ZERO_POINTS) && node.input(ZERO_POINTS)?.shape() != zero_dims {
            let zeros = node.input(ZERO_POINTS)?;
            return Err(Error::new(format!(
                "input {ZERO_POINTS} is {zeros}, expected {zero_dims:?}"
            )));
        }
        Ok(table)
    }

    fn blocks_per_line(&self) -> usize {
        self.line_len.div_ceil(self.block_len)
    }

    fn zero_bytes_per_line(&self) -> usize {
        self.blocks_per_line().saturating_mul(self.bits).div_ceil(8)
    }

    /// Returns the value at an index. Of two 4-bit values in a byte, the low half comes first.
    fn value(&self, bytes: &[u8], index: usize) -> u8 {
        match self.bits {
            4 => bytes[index / 2] >> (index % 2 * 4) & 15,
            _ => bytes[index],
        }
    }
}

/// The kernel.
struct GatherRows(Table);

impl Kernel for GatherRows {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Table::read(cx).map(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let Table { lines_per_row, line_len, .. } = self.0;
        let indices = Indices::get(&inputs, INDICES)?;
        let y = outputs.take::<f32>(0)?;
        let grain = row_grain(line_len);
        parallel.chunks_mut(y, grain, |chunk, y| {
            for (line, y) in y.chunks_exact_mut(line_len).enumerate() {
                let line = chunk * (grain / line_len) + line;
                let index = indices.value(line / lines_per_row);
                self.dequantize_line(&inputs, index, line % lines_per_row, y)?;
            }
            Ok(())
        })
    }
}

impl GatherRows {
    /// Dequantizes one line of the row at an index. Negative indices count from the end; an index out of range yields
    /// zeros.
    fn dequantize_line(
        &self,
        inputs: &Inputs<'_>,
        index: i64,
        line: usize,
        y: &mut [f32],
    ) -> Result<(), ExecError> {
        let Self(table) = self;
        let row = if index < 0 { index.saturating_add(table.rows as i64) } else { index };
        let Some(row) = usize::try_from(row).ok().filter(|&row| row < table.rows) else {
            y.fill(0.0);
            return Ok(());
        };
        let line = row * table.lines_per_row + line;
        let (bytes, blocks) = (table.line_len * table.bits / 8, table.blocks_per_line());
        let data = &inputs.get::<u8>(DATA)?[line * bytes..][..bytes];
        let scales = &inputs.get::<f32>(SCALES)?[line * blocks..][..blocks];
        let zeros = if inputs.has(ZERO_POINTS) { inputs.get::<u8>(ZERO_POINTS)? } else { &[] };
        let zeros =
            zeros.get(line * table.zero_bytes_per_line()..).filter(|zeros| !zeros.is_empty());
        for (block, (y, scale)) in y.chunks_mut(table.block_len).zip(scales).enumerate() {
            // Without zero points, the middle of the range is 0.
            let middle = 1 << (table.bits - 1);
            let zero = zeros.map_or(middle, |zeros| table.value(zeros, block));
            let start = block * table.block_len;
            for (index, y) in y.iter_mut().enumerate() {
                *y = (f32::from(table.value(data, start + index)) - f32::from(zero)) * scale;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, bench, tensor};

    fn bench_with(bits: i64, columns: usize, values: &[u8]) -> Bench {
        let run = bench("com.microsoft:GatherBlockQuantized");
        let run = run.input(tensor(&[values.len() / columns, columns], values));
        run.int("bits", bits).int("block_size", 2)
    }

    #[test]
    fn gathered_rows_are_dequantized() {
        let scales = tensor(&[2, 2], &[1f32, 2.0, 0.5, 4.0]);
        let run = bench_with(4, 2, &[0x98, 0x7a, 0xf0, 0x21]).input(tensor(&[3], &[1i64, -2, 2]));
        let run = run.input(scales);
        let y = run.clone().one();
        assert_eq!(y.dims(), [3, 4]);
        let expected = [-4.0, 3.5, -28.0, -24.0, 0.0, 1.0, 4.0, -2.0, 0.0, 0.0, 0.0, 0.0f32];
        assert_eq!(y.values::<f32>(), expected);
        let y = run.input(tensor(&[2, 1], &[0x21u8, 0x43])).one().values::<f32>();
        assert_eq!(y[..4], [-1.5, 6.0, -12.0, -8.0]);
        assert_eq!(y[4..8], [7.0, 8.0, 16.0, 10.0]);
        let run = bench_with(8, 3, &[128, 130, 127]).input(tensor(&[1, 1], &[0i32]));
        let y = run.input(tensor(&[1, 2], &[0.5f32, 2.0])).one();
        assert_eq!((y.dims(), y.values::<f32>()), (vec![1, 1, 3], vec![0.0, 1.0, -2.0]));
    }

    #[test]
    fn mismatched_inputs_are_refused() {
        let run = |bits| bench_with(bits, 2, &[0; 4]).input(tensor(&[1], &[0i64]));
        let scales = |blocks: usize| tensor(&[2, blocks], &vec![0f32; 2 * blocks]);
        assert_eq!(run(2).input(scales(2)).error(), "parameter \"bits\" is 2, expected 4 or 8");
        assert_eq!(run(4).input(scales(1)).error(), "input 2 is f32[2,1], expected [2, 2]");
        let zeros = run(4).input(scales(2)).input(tensor(&[2, 2], &[0u8; 4]));
        assert_eq!(zeros.error(), "input 3 is u8[2,2], expected [2, 1]");
        let error = run(4).input(scales(2)).int("gather_axis", 1).error();
        assert_eq!(error, "parameter \"gather_axis\" is 1, expected 0");
    }
}
