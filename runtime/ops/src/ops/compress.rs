//! Selects the slices along an axis, or the elements, for which a condition is true.
//!
//! `movement` builds the operator, which only moves elements. `EXAMPLES` are tests, in which the elements of the
//! inputs count up from 0. Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Bits, Bool, Core, DType, Dim, Error, ExecError, FinalizeCx, InferCx, Io, KernelDef, MAX_RANK,
    OpSchema, Param, Port, PortRule, Shape, input, output_like, types,
};

use crate::Def;
use crate::family::axes::AxisSplit;
use crate::family::movement::{Example, Movement, Setting, kernel, movement};

pub(crate) const DEF: Def = movement::<Compress>();

const RULES: &[PortRule] =
    &[input(0, types::ANY).bounded(), input(1, types::BOOL).bounded(), output_like(0, 0).bounded()];

struct Compress {
    /// `None` selects single elements of the flattened input.
    axis: Option<usize>,
}

impl Movement for Compress {
    const SCHEMA: OpSchema = OpSchema::new(
        "Compress",
        &[Port::required("input", types::ANY), Port::required("condition", types::BOOL)],
        &[Port::required("output", types::ANY)],
        &[Param::scalar("axis", DType::I64).optional()],
    );
    const KERNELS: &'static [KernelDef] = &[kernel::<Self>(Core::CPU).ports(RULES)];
    const EXAMPLES: &'static [Example] = &[
        Example {
            inputs: &[&[3, 2]],
            bools: &[&[false, true, true]],
            params: &[("axis", Setting::Int(0))],
            outputs: &[(&[2, 2], &[2, 3, 4, 5])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[3, 2]],
            bools: &[&[false, true]],
            params: &[("axis", Setting::Int(-1))],
            outputs: &[(&[3, 1], &[1, 3, 5])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[3, 2]],
            bools: &[&[false, true, false, false, true]],
            outputs: &[(&[2], &[1, 4])],
            ..Example::NONE
        },
    ];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (x, condition) = (cx.input(0)?, cx.input(1)?);
        if condition.rank() != 1 {
            return Err(Error::new(format!("input 1 is {condition}, expected a list")));
        }
        let mut dims: Vec<Dim> = x.full_shape().iter().collect();
        let axis = if cx.has_param("axis") { Some(cx.axis("axis", x.rank())?) } else { None };
        let extent = match axis {
            Some(axis) => dims[axis],
            None => dims.drain(..).fold(Dim::Fixed(1), |flat, dim| flat.with_both(dim, x.len())),
        };
        let count = match cx.constant::<Bool>(1)? {
            Some(bools) => {
                extent.with(bools.iter().take(extent.bound()).filter(|flag| flag.get()).count())
            }
            None => Dim::UpTo(condition.len().min(extent.bound())),
        };
        match axis {
            Some(axis) => dims[axis] = count,
            None => dims.push(count),
        }
        cx.set_output(0, x.with_shape(Shape::from_dims(&dims)?))
    }

    fn plan(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let rank = cx.input(0)?.rank();
        let axis = if cx.has_param("axis") { Some(cx.axis("axis", rank)?) } else { None };
        Ok(Self { axis })
    }

    fn execute<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let (x, dims) = (inputs.get_bits::<B>(0)?, inputs.shape(0)?);
        // Without an axis, the input counts as one axis with all elements.
        let flat = [x.len()];
        let (axis, dims) = self.axis.map_or((0, &flat[..]), |axis| (axis, dims));
        let AxisSplit { len, inner, .. } = AxisSplit::at(dims, axis);
        let bools = inputs.get::<Bool>(1)?;
        let bools = &bools[..bools.len().min(len)];
        let mut unwritten = outputs.take_bits::<B>(0)?;
        for block in x.chunks_exact((len * inner).max(1)) {
            let slices = block.chunks_exact(inner.max(1)).zip(bools);
            for (slice, _) in slices.filter(|(_, flag)| flag.get()) {
                let (y, remaining) = unwritten.split_at_mut(inner);
                y.copy_from_slice(slice);
                unwritten = remaining;
            }
        }
        let mut extents = [0; MAX_RANK];
        extents.iter_mut().zip(dims).for_each(|(y_extent, &extent)| *y_extent = extent);
        extents[axis] = bools.iter().filter(|flag| flag.get()).count();
        outputs.set_shape(0, &extents[..dims.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, bench, tensor};

    fn bench_with(bools: &[bool]) -> Bench {
        let bools: Vec<Bool> = bools.iter().map(|&flag| Bool::from(flag)).collect();
        let run = bench("Compress").input(tensor(&[2, 2], &[1u8, 2, 3, 4]));
        run.input(tensor(&[bools.len()], &bools))
    }

    #[test]
    fn slices_or_elements_are_selected_in_the_run() {
        let y = bench_with(&[true, false]).int("axis", 1).one();
        assert_eq!(y.desc().full_shape().to_string(), "[2,<=2]");
        assert_eq!((y.dims(), y.values::<u8>()), (vec![2, 1], vec![1, 3]));
        let y = bench_with(&[false, true, true]).one();
        assert_eq!(y.desc().full_shape().to_string(), "[<=3]");
        assert_eq!(y.values::<u8>(), [2, 3]);
        let y = bench_with(&[true, true, true, false, true, true]).one();
        assert_eq!(
            (y.dims(), y.values::<u8>()),
            (vec![3], vec![1, 2, 3]),
            "flags past the input select nothing"
        );
        assert_eq!(bench_with(&[]).one().dims(), [0]);
    }

    #[test]
    fn bounded_inputs_are_read_in_the_run() {
        let x = tensor(&[1, 2], &[1i64, 2]).bounded(&[Dim::UpTo(3), Dim::Fixed(2)]);
        let bools = tensor(&[3], &[Bool::from(true); 3]);
        let y = bench("Compress").input(x).constant(bools).int("axis", 0).one();
        assert_eq!(y.desc().full_shape().to_string(), "[<=3,2]");
        assert_eq!((y.dims(), y.values::<i64>()), (vec![1, 2], vec![1, 2]));
    }

    #[test]
    fn conditions_must_have_one_axis() {
        let run = bench("Compress").input(tensor(&[1], &[1u8]));
        let error = run.input(tensor(&[1, 1], &[Bool::from(true)])).error();
        assert_eq!(error, "input 1 is bool[1,1], expected a list");
    }
}
