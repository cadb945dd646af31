//! Splits a tensor along an axis.
//!
//! `movement` builds the operator, which only moves elements. `EXAMPLES` are tests, in which the elements of the
//! inputs count up from 0. `stripped` is the GPU kernel. A strip is a run of elements that are adjacent in both
//! tensors.

use udo_api::{
    Bits, Core, DType, Dim, Error, ExecError, Facts, FinalizeCx, InferCx, Io, KernelDef, MAX_RANK,
    OpSchema, Param, Port, Shape, Value, types,
};

use crate::Def;
use crate::family::argument::IntsArgument;
use crate::family::movement::{
    BOUNDED, Direction, Example, Movement, Setting, Stripped, Strips, kernel, movement, stripped,
};

pub(crate) const DEF: Def = movement::<Split>();

const LENGTHS: IntsArgument =
    IntsArgument { input: 1, name: "split", what: "lengths of the pieces" };

struct Split {
    /// Strips: for each output, the elements that are adjacent in the input.
    strips: Strips,
    axis: usize,
    /// The length of each output along the axis.
    lengths: Vec<usize>,
    /// Whether the extents are known only in the run.
    is_bounded: bool,
}

impl Movement for Split {
    const SCHEMA: OpSchema = OpSchema::new(
        "Split",
        &[Port::required("input", types::ANY), LENGTHS.port()],
        &[Port::required("outputs", types::ANY).repeated()],
        &[
            Param::scalar("axis", DType::I64).default(Value::int(0)),
            Param::scalar("num_outputs", DType::I64).optional(),
        ],
    )
    .facts(Facts::SAME_ENCODING);
    const KERNELS: &'static [KernelDef] = &[
        kernel::<Self>(Core::CPU).ports(BOUNDED),
        stripped::<Self>(),
        kernel::<Self>(Core::DSP_V68).ports(BOUNDED),
    ];
    const EXAMPLES: &'static [Example] = &[
        Example {
            inputs: &[&[2, 5]],
            ints: &[(&[2], &[3, 2])],
            params: &[("axis", Setting::Int(-1))],
            outputs: &[(&[2, 3], &[0, 1, 2, 5, 6, 7]), (&[2, 2], &[3, 4, 8, 9])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[2, 5]],
            params: &[("axis", Setting::Int(1)), ("num_outputs", Setting::Int(2))],
            outputs: &[(&[2, 3], &[0, 1, 2, 5, 6, 7]), (&[2, 2], &[3, 4, 8, 9])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[4, 1]],
            ints: &[(&[3], &[0, 1, 3])],
            outputs: &[(&[0, 1], &[]), (&[1, 1], &[0]), (&[3, 1], &[1, 2, 3])],
            ..Example::NONE
        },
    ];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let axis = cx.axis("axis", x.rank())?;
        let mut dims: Vec<Dim> = x.full_shape().iter().collect();
        let Some(extent) = dims.get(axis).and_then(|dim| dim.exact()) else {
            return Err(Error::new(format!("input 0 is {x}, expected a fixed axis {axis}")));
        };
        for (index, len) in output_lengths(cx, extent)?.into_iter().enumerate() {
            dims[axis] = dims[axis].with(len);
            cx.set_output(index, x.with_shape(Shape::from_dims(&dims)?))?;
        }
        Ok(())
    }

    fn plan(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let axis = cx.axis("axis", x.rank())?;
        let is_bounded = !x.full_shape().is_fixed();
        if x.full_shape().iter().skip(axis).any(|dim| dim.exact().is_none()) {
            return Err(Error::new(format!("input 0 is {x}, expected fixed axes from {axis} on")));
        }
        let length = |index| Ok(cx.output(index)?.shape().get(axis).copied().unwrap_or(0));
        let lengths: Vec<usize> =
            (0..cx.output_count()).map(length).collect::<Result<_, Error>>()?;
        Ok(Self { strips: Self::strips(cx)?, axis, lengths, is_bounded })
    }

    fn execute<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let x = inputs.get_bits::<B>(0)?;
        let mut dims = [0; MAX_RANK];
        let dims = &mut dims[..inputs.shape(0)?.len()];
        dims.copy_from_slice(inputs.shape(0)?);
        self.strips.cut(parallel, x, |index| {
            if self.is_bounded {
                dims[self.axis] = self.lengths[index];
                outputs.set_shape(index, dims)?;
            }
            outputs.take_bits(index)
        })
    }
}

impl Stripped for Split {
    const DIRECTION: Direction = Direction::Cut;

    fn strips(cx: &FinalizeCx<'_>) -> Result<Strips, Error> {
        let x = cx.input(0)?;
        let axis = cx.axis("axis", x.rank())?;
        let mut offset = 0;
        // Outputs of fixed extents may be views of the input.
        let view_count = if x.full_shape().is_fixed() { cx.output_count() } else { 0 };
        for index in 0..view_count {
            cx.tie_output_in_input(index, 0, axis, offset)?;
            offset += cx.output(index)?.shape().get(axis).copied().unwrap_or(0);
        }
        let parts = (0..cx.output_count()).map(|index| cx.output(index));
        Strips::along(axis, &x, parts)
    }
}

/// Returns the length of each output along the axis. Without lengths in the node, all are equal but the last.
fn output_lengths(cx: &InferCx<'_>, extent: usize) -> Result<Vec<usize>, Error> {
    let count = cx.output_count();
    if let Some(declared) = LENGTHS.read(cx)? {
        let lengths: Vec<usize> =
            declared.iter().filter_map(|&len| usize::try_from(len).ok()).collect();
        let sum = lengths.iter().try_fold(0usize, |sum, &len| sum.checked_add(len));
        if lengths.len() != count || declared.len() != count || sum != Some(extent) {
            return Err(Error::new(format!(
                "the pieces are {declared:?}, expected {count} that add up to {extent}"
            )));
        }
        return Ok(lengths);
    }
    if cx.has_param("num_outputs") && usize::try_from(cx.int("num_outputs")?) != Ok(count) {
        let declared = cx.int("num_outputs")?;
        return Err(Error::new(format!(
            "parameter \"num_outputs\" is {declared}, expected {count}"
        )));
    }
    let len = extent.div_ceil(count.max(1));
    Ok((0..count).map(|i| extent.saturating_sub(i * len).min(len)).collect())
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn bounded_rows_are_read_in_the_run() {
        use udo_api::Dim::{Fixed, UpTo};

        let x = tensor(&[2, 3], &[1u8, 2, 3, 4, 5, 6]).bounded(&[UpTo(5), Fixed(3)]);
        let y = bench("Split").input(x).int("axis", 1).outputs(2).all();
        assert_eq!(y[0].desc().full_shape().to_string(), "[<=5,2]");
        assert_eq!((y[0].dims(), y[0].values::<u8>()), (vec![2, 2], vec![1, 2, 4, 5]));
        assert_eq!((y[1].dims(), y[1].values::<u8>()), (vec![2, 1], vec![3, 6]));
    }

    #[test]
    fn pieces_must_add_up() {
        let run = bench("Split").input(tensor(&[3], &[0i32; 3])).outputs(2);
        let error = run.constant(tensor(&[2], &[1i64, 1])).error();
        assert_eq!(error, "the pieces are [1, 1], expected 2 that add up to 3");
    }
}
