//! Tensors one after the other along an axis.

use udo_api::{
    Core, DType, Dim, Element, Error, ExecError, Facts, FinalizeCx, InferCx, Io, Kernel, KernelDef,
    Node, Op, OpSchema, Param, Port, Shape, input, output_like, types,
};

use crate::Def;
use crate::family::elementwise::GRAIN;
use crate::family::axes::AxisSplit;

pub(crate) const DEF: Def = Def::of::<Concat>(KERNELS);

const KERNELS: &[KernelDef] =
    &[KernelDef::new::<Joined>("Concat", Core::CPU)
        .types(&[input(0, types::ANY), output_like(0, 0)])];

struct Concat;

impl Op for Concat {
    const SCHEMA: OpSchema = OpSchema::new(
        "Concat",
        &[Port::required("inputs", types::ANY).repeated()],
        &[Port::required("concat_result", types::ANY)],
        &[Param::scalar("axis", DType::I64).optional()],
    )
    .facts(Facts::JOINS);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let first = cx.input(0)?;
        let axis = axis(cx, first.rank())?;
        let mut dims: Vec<Dim> = first.full_shape().iter().collect();
        for index in 1..cx.input_count() {
            let next = cx.input(index)?;
            let fits = next.dtype() == first.dtype() && next.rank() == first.rank();
            for (at, (dim, other)) in dims.iter_mut().zip(next.full_shape().iter()).enumerate() {
                *dim = match (*dim, other) {
                    (Dim::Fixed(a), Dim::Fixed(b)) if at == axis => Dim::Fixed(a.saturating_add(b)),
                    (a, b) if at == axis => Dim::UpTo(a.bound().saturating_add(b.bound())),
                    (a, b) if fits && a.bound() == b.bound() => a,
                    _ => return Err(misfit(index, &next, &first, axis)),
                };
            }
            if !fits {
                return Err(misfit(index, &next, &first, axis));
            }
        }
        let shape = Shape::of_dims(&dims)?;
        cx.set_output(0, first.dtype().map_or(first, |t| first.with_dtype(t)).with_shape(shape))
    }
}

fn misfit(
    index: usize,
    found: &udo_api::TensorDesc,
    first: &udo_api::TensorDesc,
    axis: usize,
) -> Error {
    Error::new(format!("input {index} is {found}, wanted {first} but for axis {axis}"))
}

fn axis(node: &Node<'_>, rank: usize) -> Result<usize, Error> {
    // The operator's first version takes the channels where no axis is given.
    if node.opset() < 4 && !node.has_param("axis") && rank > 1 {
        return Ok(1);
    }
    node.axis("axis", rank)
}

struct Joined {
    /// Elements that each input adds to a row, and of the whole row.
    widths: Vec<usize>,
    row: usize,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Joined {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let y = cx.output(0)?;
        let axis = axis(cx, y.rank())?;
        let around = AxisSplit::at(y.shape(), axis);
        let widths = (0..cx.input_count())
            .map(|i| Ok(AxisSplit::at(cx.input(i)?.shape(), axis).len * around.inner))
            .collect::<Result<_, Error>>()?;
        let run = of_any!(y.dtype(), T => execute::<T>)?;
        Ok(Self { widths, row: around.len * around.inner, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

fn execute<T: Element>(kernel: &Joined, io: Io<'_>) -> Result<(), ExecError> {
    let Io { inputs, mut outputs, parallel, .. } = io;
    let rows = (GRAIN / kernel.row.max(1)).max(1);
    parallel.chunks_mut(outputs.take::<T>(0)?, rows * kernel.row, |piece, y| {
        let mut start = 0;
        for (index, &width) in kernel.widths.iter().enumerate() {
            let x = &inputs.get::<T>(index)?[piece * rows * width..];
            for (row, y) in y.chunks_exact_mut(kernel.row).enumerate() {
                y[start..][..width].copy_from_slice(&x[row * width..][..width]);
            }
            start += width;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn parts_lie_side_by_side() {
        let (a, b) = (tensor(&[2, 1], &[1i16, 2]), tensor(&[2, 2], &[3i16, 4, 5, 6]));
        for axis in [1, -1] {
            let run = bench("Concat").input(a.clone()).input(b.clone()).input(a.clone());
            let y = run.int("axis", axis).one();
            assert_eq!(y.dims(), [2, 4]);
            assert_eq!(y.values::<i16>(), [1, 3, 4, 1, 2, 5, 6, 2]);
        }
        let y = bench("Concat").input(b.clone()).input(b.clone()).int("axis", 0).one();
        assert_eq!(y.values::<i16>(), [3, 4, 5, 6, 3, 4, 5, 6]);
    }

    #[test]
    fn many_rows_are_shared_out() {
        let part = |from: i32, cols: usize| {
            let values: Vec<i32> = (0..20_000 * cols as i32).map(|i| from + i).collect();
            tensor(&[20_000, cols], &values)
        };
        let run = bench("Concat").threads(3).input(part(0, 3)).input(part(-7, 1));
        let y = run.int("axis", 1).one().values::<i32>();
        for (row, y) in y.chunks(4).enumerate() {
            let first = row as i32;
            assert_eq!(y, [first * 3, first * 3 + 1, first * 3 + 2, first - 7]);
        }
        let empty =
            bench("Concat").input(tensor::<u8>(&[3, 0], &[])).input(tensor::<u8>(&[3, 0], &[]));
        assert_eq!(empty.int("axis", 1).one().dims(), [3, 0]);
    }

    #[test]
    fn parts_must_fit() {
        let run = bench("Concat").input(tensor(&[2, 1], &[1i16, 2]));
        let error = run.input(tensor(&[3, 1], &[1i16, 2, 3])).int("axis", 1).error();
        assert_eq!(error, "input 1 is i16[3,1], wanted i16[2,1] but for axis 1");
    }
}
