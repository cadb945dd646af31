//! Concatenates tensors along an axis.
//!
//! `movement` builds the operator, which only moves elements. `EXAMPLES` are tests, in which the elements of the
//! inputs count up from 0. `stripped` is the GPU kernel. A strip is a run of elements that are adjacent in both
//! tensors.

use udo_api::{
    Bits, Core, DType, Dim, Error, ExecError, Facts, FinalizeCx, InferCx, Inputs, Io, KernelDef,
    MAX_RANK, OpSchema, Param, Port, Shape, TensorDesc, types,
};

use crate::Def;
use crate::family::axes::{Axes, AxisSplit};
use crate::family::movement::{
    BOUNDED, Direction, Example, Movement, Setting, Stripped, Strips, join, kernel, movement,
    stripped,
};

pub(crate) const DEF: Def = movement::<Concat>();

struct Concat {
    /// Strips: for each input, the elements that are adjacent in the output.
    strips: Strips,
    axis: usize,
    /// Whether extents are known only in the run.
    is_bounded: bool,
}

impl Movement for Concat {
    const SCHEMA: OpSchema = OpSchema::new(
        "Concat",
        &[Port::required("inputs", types::ANY).repeated()],
        &[Port::required("concat_result", types::ANY)],
        &[Param::scalar("axis", DType::I64)],
    )
    .facts(Facts::CONCAT);
    const KERNELS: &'static [KernelDef] =
        &[kernel::<Self>(Core::CPU).ports(BOUNDED), stripped::<Self>()];
    const EXAMPLES: &'static [Example] = &[
        Example {
            inputs: &[&[2, 1], &[2, 2], &[2, 1]],
            params: &[("axis", Setting::Int(-1))],
            outputs: &[(&[2, 4], &[0, 2, 3, 6, 1, 4, 5, 7])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[1, 2], &[2, 2]],
            params: &[("axis", Setting::Int(0))],
            outputs: &[(&[3, 2], &[0, 1, 2, 3, 4, 5])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[3, 0], &[3, 0]],
            params: &[("axis", Setting::Int(1))],
            outputs: &[(&[3, 0], &[])],
            ..Example::NONE
        },
    ];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let first = cx.input(0)?;
        let axis = cx.axis("axis", first.rank())?;
        let mut dims: Vec<Dim> = first.full_shape().iter().collect();
        for index in 1..cx.input_count() {
            let next = cx.input(index)?;
            let fits = next.dtype() == first.dtype() && next.rank() == first.rank();
            for (dim_axis, (dim, other)) in
                dims.iter_mut().zip(next.full_shape().iter()).enumerate()
            {
                *dim = match (*dim, other) {
                    (a, b) if dim_axis == axis => {
                        a.with_both(b, a.bound().saturating_add(b.bound()))
                    }
                    (a, b) if fits && a.bound() == b.bound() => a,
                    _ => return Err(mismatch(index, &next, &first, axis)),
                };
            }
            if !fits {
                return Err(mismatch(index, &next, &first, axis));
            }
        }
        let shape = Shape::from_dims(&dims)?;
        cx.set_output(0, first.dtype().map_or(first, |t| first.with_dtype(t)).with_shape(shape))
    }

    fn plan(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let y = cx.output(0)?;
        let (axis, is_bounded) = (cx.axis("axis", y.rank())?, !y.full_shape().is_fixed());
        Ok(Self { strips: Self::strips(cx)?, axis, is_bounded })
    }

    fn execute<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        if self.is_bounded {
            let (dims, rank) = self.output_extents(&inputs)?;
            outputs.set_shape(0, &dims[..rank])?;
            let AxisSplit { len, inner, .. } = AxisSplit::at(&dims[..rank], self.axis);
            let width = |index: usize| inputs.shape(index).map_or(0, |x| x[self.axis] * inner);
            let widths = (0..self.strips.count()).map(width);
            let count = dims[..rank].iter().product();
            let y = &mut outputs.take_bits::<B>(0)?[..count];
            return join(parallel, y, len * inner, &widths, |index| inputs.get_bits(index));
        }
        self.strips.join(parallel, outputs.take_bits::<B>(0)?, |index| inputs.get_bits(index))
    }
}

impl Concat {
    /// Returns the output's extents in this run, and their count.
    fn output_extents(&self, inputs: &Inputs<'_>) -> Result<(Axes, usize), ExecError> {
        let first = inputs.shape(0)?;
        let mut dims = [0; MAX_RANK];
        dims.iter_mut().zip(first).for_each(|(dim, &extent)| *dim = extent);
        for index in 1..self.strips.count() {
            let next = inputs.shape(index)?;
            for (axis, (dim, &extent)) in dims.iter_mut().zip(next).enumerate() {
                match axis == self.axis {
                    true => *dim += extent,
                    false if *dim == extent => {}
                    false => return Err(ExecError::bad_value(extent as i64, index)),
                }
            }
        }
        Ok((dims, first.len()))
    }
}

impl Stripped for Concat {
    const DIRECTION: Direction = Direction::Join;

    fn strips(cx: &FinalizeCx<'_>) -> Result<Strips, Error> {
        let y = cx.output(0)?;
        let parts = (0..cx.input_count()).map(|index| cx.input(index));
        Strips::along(cx.axis("axis", y.rank())?, &y, parts)
    }
}

fn mismatch(index: usize, part: &TensorDesc, first: &TensorDesc, axis: usize) -> Error {
    Error::new(format!("input {index} is {part}, expected {first} but for axis {axis}"))
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn bounded_inputs_are_concatenated_in_the_run() {
        use udo_api::Dim::{Fixed, UpTo};

        let run = |bounds: [udo_api::Dim; 2], rows: usize, axis: i64| {
            let x = tensor(&[2, 2], &[1i16, 2, 3, 4]).bounded(&bounds);
            let other = tensor(&[rows, 2], &[9i16, 8, 7, 6][..rows * 2]).bounded(&bounds);
            bench("Concat").input(x).input(other).int("axis", axis)
        };
        let y = run([UpTo(3), Fixed(2)], 1, 0).one();
        assert_eq!(y.desc().full_shape().to_string(), "[<=6,2]");
        assert_eq!((y.dims(), y.values::<i16>()), (vec![3, 2], vec![1, 2, 3, 4, 9, 8]));
        let y = run([UpTo(3), Fixed(2)], 2, 1).one();
        assert_eq!(y.desc().full_shape().to_string(), "[<=3,4]");
        assert_eq!((y.dims(), y.values::<i16>()), (vec![2, 4], vec![1, 2, 9, 8, 3, 4, 7, 6]));
        run([UpTo(3), Fixed(2)], 1, 1).error();
    }

    #[test]
    fn other_extents_must_be_equal() {
        let run = bench("Concat").input(tensor(&[2, 1], &[1i16, 2]));
        let error = run.input(tensor(&[3, 1], &[1i16, 2, 3])).int("axis", 1).error();
        assert_eq!(error, "input 1 is i16[3,1], expected i16[2,1] but for axis 1");
    }
}
