//! Products of matrices, batched over the axes before the last two.

use udo_api::{
    Core, Dim, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpDef, OpSchema,
    Port, Shape, TensorDesc, input, input_like, output_like, types,
};

use crate::broadcast::{Broadcast, broadcast_shapes};
use crate::number::Number;

pub(crate) const OP: OpDef = OpDef::of::<MatMul>();
pub(crate) const KERNELS: &[KernelDef] = &[KernelDef::new::<Products>("MatMul", Core::CPU)
    .types(&[input(0, NUMBERS), input_like(1, 0), output_like(0, 0)])];

const NUMBERS: udo_api::TypeSet =
    types::F32.or(types::F64).or(types::INDEX).or(types::U32).or(types::U64);
const TYPES: udo_api::TypeSet = NUMBERS.or(types::F16);

struct MatMul;

impl Op for MatMul {
    const SCHEMA: OpSchema = OpSchema::new(
        "MatMul",
        &[Port::required("A", TYPES), Port::required("B", TYPES)],
        &[Port::required("Y", TYPES)],
        &[],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (a, b) = (cx.input(0)?, cx.input(1)?);
        let (rows, depth, a_batch) = split(&a, Side::Left)?;
        let (cols, b_depth, b_batch) = split(&b, Side::Right)?;
        if depth.bound() != b_depth.bound() || a.dtype() != b.dtype() {
            return Err(Error::new(format!("inputs are {a} and {b}, which do not multiply")));
        }
        let batch = broadcast_shapes(a_batch, b_batch)?;
        let dims: Vec<Dim> = batch.iter().chain(rows).chain(cols).collect();
        let shape = Shape::of_dims(&dims)?;
        cx.set_output(0, a.dtype().map_or(TensorDesc::ABSENT, |t| TensorDesc::new(t, shape)))
    }
}

#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

/// The dimension that an operand adds to the result, the one that is summed over, and the batch.
fn split(x: &TensorDesc, side: Side) -> Result<(Option<Dim>, Dim, Shape), Error> {
    let dims: Vec<Dim> = x.full_shape().iter().collect();
    Ok(match (dims.as_slice(), side) {
        ([], _) => return Err(Error::new(format!("an input is {x}, wanted rank 1 or more"))),
        ([depth], _) => (None, *depth, Shape::SCALAR),
        ([batch @ .., rows, depth], Side::Left) => (Some(*rows), *depth, Shape::of_dims(batch)?),
        ([batch @ .., depth, cols], Side::Right) => (Some(*cols), *depth, Shape::of_dims(batch)?),
    })
}

struct Products {
    batch: Broadcast,
    rows: usize,
    depth: usize,
    cols: usize,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Products {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let (a, b) = (cx.input(0)?, cx.input(1)?);
        let (rows, depth, a_batch) = split(&a, Side::Left)?;
        let (cols, _, b_batch) = split(&b, Side::Right)?;
        let batch = Broadcast::of(a_batch.dims(), b_batch.dims())
            .ok_or_else(|| Error::new(format!("inputs are {a} and {b}, which do not multiply")))?;
        let run = of_type!(
            a.dtype(),
            [F32 = f32, F64 = f64, I32 = i32, I64 = i64, U32 = u32, U64 = u64],
            T => execute::<T>
        )?;
        let extent = |dim: Option<Dim>| dim.map_or(1, Dim::bound);
        Ok(Self { batch, rows: extent(rows), depth: depth.bound(), cols: extent(cols), run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

fn execute<T: Number>(kernel: &Products, mut io: Io<'_>) -> Result<(), ExecError> {
    let &Products { rows, depth, cols, .. } = kernel;
    let (a, b) = (io.inputs.get::<T>(0)?, io.inputs.get::<T>(1)?);
    let y = io.outputs.take::<T>(0)?;
    if rows * cols == 0 {
        return Ok(());
    }
    for ([a_at, b_at], y) in kernel.batch.positions().zip(y.chunks_exact_mut(rows * cols)) {
        let a = &a[a_at * rows * depth..][..rows * depth];
        let b = &b[b_at * depth * cols..][..depth * cols];
        for (row, y) in y.chunks_exact_mut(cols).enumerate() {
            y.fill(T::ZERO);
            for (&a, b) in a[row * depth..][..depth].iter().zip(b.chunks_exact(cols)) {
                for (y, &b) in y.iter_mut().zip(b) {
                    *y = y.plus(a.times(b));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{Run, assert_near, noise, tensor};

    #[test]
    fn small_products() {
        let two_by_two = tensor(&[2, 2], &[1i32, 2, 3, 4]);
        let pair = tensor(&[2], &[10i32, 1]);
        let cases = [
            (two_by_two.clone(), two_by_two.clone(), vec![2, 2], vec![7, 10, 15, 22]),
            (two_by_two.clone(), pair.clone(), vec![2], vec![12, 34]),
            (pair.clone(), two_by_two, vec![2], vec![13, 24]),
            (pair.clone(), pair, vec![], vec![101]),
        ];
        for (a, b, dims, wanted) in cases {
            let y = Run::new("MatMul").input(a).input(b).one();
            assert_eq!((y.dims(), y.values::<i32>()), (dims, wanted));
        }
    }

    #[test]
    fn batches_broadcast() {
        let (a, b) = (noise(2 * 3 * 4), noise(5 * 4 * 6));
        let run = Run::new("MatMul").input(tensor(&[2, 1, 3, 4], &a));
        let y = run.input(tensor(&[5, 4, 6], &b)).one();
        assert_eq!(y.dims(), [2, 5, 3, 6]);
        let mut wanted = Vec::new();
        for i in 0..2 * 5 * 3 * 6usize {
            let (p, q, m, n) = (i / 90, i / 18 % 5, i / 6 % 3, i % 6);
            let term =
                |k: usize| f64::from(a[(p * 3 + m) * 4 + k]) * f64::from(b[(q * 4 + k) * 6 + n]);
            wanted.push((0..4).map(term).sum());
        }
        assert_near(&y.values::<f32>(), &wanted, 1e-5);
    }
}
