//! A tensor cut along an axis.

use udo_api::{
    Core, DType, Dim, Element, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op,
    OpSchema, Param, Port, Shape, Value, input, output_like, types,
};

use crate::Def;
use crate::family::axes::AxisSplit;

pub(crate) const DEF: Def = Def::of::<Split>(KERNELS);

const KERNELS: &[KernelDef] =
    &[KernelDef::new::<Pieces>("Split", Core::CPU)
        .types(&[input(0, types::ANY), output_like(0, 0)])];

struct Split;

impl Op for Split {
    const SCHEMA: OpSchema = OpSchema::new(
        "Split",
        &[
            Port::required("input", types::ANY),
            // Before opset 13 the lengths are a parameter.
            Port::optional("split", types::I64).is_static(),
        ],
        &[Port::required("outputs", types::ANY).repeated()],
        &[
            Param::scalar("axis", DType::I64).default(Value::int(0)),
            Param::scalar("num_outputs", DType::I64).optional(),
            Param::tensor("split", DType::I64).optional(),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let axis = cx.axis("axis", x.rank())?;
        let mut dims: Vec<Dim> = x.full_shape().iter().collect();
        let Some(Dim::Fixed(extent)) = dims.get(axis).copied() else {
            return Err(Error::new(format!("input 0 is {x}, wanted a fixed axis {axis}")));
        };
        for (index, len) in lengths(cx, extent)?.into_iter().enumerate() {
            dims[axis] = Dim::Fixed(len);
            cx.set_output(index, x.with_shape(Shape::of_dims(&dims)?))?;
        }
        Ok(())
    }
}

/// The length of each piece.
fn lengths(cx: &InferCx<'_>, extent: usize) -> Result<Vec<usize>, Error> {
    let count = cx.output_count();
    let declared = if cx.has_input(1) {
        Some(cx.constant_ints(1)?.ok_or_else(|| {
            Error::new("input 1, the lengths of the pieces, is not known before the run")
        })?)
    } else if cx.has_param("split") {
        Some(cx.ints("split")?.to_vec())
    } else {
        None
    };
    if let Some(declared) = declared {
        let lengths: Vec<usize> =
            declared.iter().filter_map(|&len| usize::try_from(len).ok()).collect();
        let sum = lengths.iter().try_fold(0usize, |sum, &len| sum.checked_add(len));
        if lengths.len() != count || declared.len() != count || sum != Some(extent) {
            return Err(Error::new(format!(
                "the pieces are {declared:?}, wanted {count} that add up to {extent}"
            )));
        }
        return Ok(lengths);
    }
    if cx.has_param("num_outputs") && usize::try_from(cx.int("num_outputs")?) != Ok(count) {
        let found = cx.int("num_outputs")?;
        return Err(Error::new(format!("parameter \"num_outputs\" is {found}, wanted {count}")));
    }
    let len = extent.div_ceil(count.max(1));
    Ok((0..count).map(|i| extent.saturating_sub(i * len).min(len)).collect())
}

struct Pieces {
    outer: usize,
    row: usize,
    /// Elements of a row that go to each output.
    widths: Vec<usize>,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Pieces {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let axis = cx.axis("axis", x.rank())?;
        let around = AxisSplit::at(x.shape(), axis);
        let widths = (0..cx.output_count())
            .map(|i| Ok(AxisSplit::at(cx.output(i)?.shape(), axis).len * around.inner))
            .collect::<Result<_, Error>>()?;
        let run = of_any!(x.dtype(), T => execute::<T>)?;
        Ok(Self { outer: around.outer, row: around.len * around.inner, widths, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

fn execute<T: Element>(kernel: &Pieces, mut io: Io<'_>) -> Result<(), ExecError> {
    let x = io.inputs.get::<T>(0)?;
    let mut start = 0;
    for (index, &width) in kernel.widths.iter().enumerate() {
        let y = io.outputs.take::<T>(index)?;
        for row in 0..kernel.outer {
            let from = &x[row * kernel.row + start..][..width];
            y[row * width..][..width].copy_from_slice(from);
        }
        start += width;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn pieces_follow_each_other() {
        let x = tensor(&[2, 5], &[0i32, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let runs = [
            bench("Split").input(x.clone()).ints("split", &[3, 2]),
            bench("Split").input(x.clone()).constant(tensor(&[2], &[3i64, 2])),
            bench("Split").input(x.clone()).int("num_outputs", 2),
        ];
        for run in runs {
            let y = run.int("axis", -1).outputs(2).all();
            assert_eq!((y[0].dims(), y[1].dims()), (vec![2, 3], vec![2, 2]));
            assert_eq!(y[0].values::<i32>(), [0, 1, 2, 5, 6, 7]);
            assert_eq!(y[1].values::<i32>(), [3, 4, 8, 9]);
        }
    }

    #[test]
    fn pieces_must_add_up() {
        let run = bench("Split").input(tensor(&[3], &[0i32; 3])).outputs(2);
        let error = run.ints("split", &[1, 1]).error();
        assert_eq!(error, "the pieces are [1, 1], wanted 2 that add up to 3");
    }
}
