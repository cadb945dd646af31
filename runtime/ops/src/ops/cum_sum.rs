//! The sums of the elements along an axis up to each of them.

use udo_api::{
    Bf16, Core, DType, Element, Error, ExecError, F16, FinalizeCx, InferCx, Io, Kernel, KernelDef,
    Op, OpSchema, Param, Port, TypeSet, Value, input, output_like, resolve_axis, types,
};

use crate::Def;
use crate::family::axes::AxisSplit;
use crate::family::elementwise::infer_like_input;
use crate::family::movement::Indices;
use crate::family::partition::row_grain;
use crate::number::Number;

pub(crate) const DEF: Def = Def::of::<CumSum>(KERNELS);

const TYPES: TypeSet = types::FLOATS.or(types::INDEX).or(types::U32).or(types::U64);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Sums>("CumSum", Core::CPU).ports(&[
    input(0, TYPES).bounded(),
    input(1, types::INDEX),
    output_like(0, 0).bounded(),
])];

struct CumSum;

impl Op for CumSum {
    const SCHEMA: OpSchema = OpSchema::new(
        "CumSum",
        &[Port::required("x", TYPES), Port::required("axis", types::INDEX)],
        &[Port::required("y", TYPES)],
        &[
            Param::scalar("exclusive", DType::I64).default(Value::int(0)),
            Param::scalar("reverse", DType::I64).default(Value::int(0)),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (x, axis) = (cx.input(0)?, cx.input(1)?);
        if axis.len() != 1 {
            return Err(Error::new(format!("input 1 is {axis}, wanted one number")));
        }
        if let Some([axis]) = cx.constant_ints(1)?.as_deref()
            && resolve_axis(*axis, x.rank()).is_none()
        {
            let rank = x.rank();
            return Err(Error::new(format!("input 1 is {axis}, wanted an axis of rank {rank}")));
        }
        infer_like_input(cx)
    }
}

/// An element that is added up as a number of type `Sum`.
trait Summed: Element {
    type Sum: Number;
    fn widen(self) -> Self::Sum;
    fn of_sum(sum: Self::Sum) -> Self;
}

macro_rules! summed {
    ($($t:ty, $sum:ty, $x:ident => $widen:expr, $of_sum:expr;)*) => {$(
        impl Summed for $t {
            type Sum = $sum;
            #[inline]
            fn widen(self) -> $sum { let $x = self; $widen }
            #[inline]
            fn of_sum($x: $sum) -> Self { $of_sum }
        }
    )*};
}

summed! {
    f32, f32, x => x, x;
    f64, f64, x => x, x;
    F16, f32, x => x.to_f32(), Self::from_f32(x);
    Bf16, f32, x => x.to_f32(), Self::from_f32(x);
    i32, i32, x => x, x;
    i64, i64, x => x, x;
    u32, u32, x => x, x;
    u64, u64, x => x, x;
}

struct Sums {
    is_exclusive: bool,
    is_reverse: bool,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
}

/// Columns whose sums are held at once.
const COLUMNS: usize = 64;

impl Kernel for Sums {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let run = of_type!(
            cx.input(0)?.dtype(),
            [
                F32 = f32, F64 = f64, F16 = F16, Bf16 = Bf16,
                I32 = i32, I64 = i64, U32 = u32, U64 = u64,
            ],
            T => Self::execute_of::<T>
        )?;
        Ok(Self { is_exclusive: cx.flag("exclusive")?, is_reverse: cx.flag("reverse")?, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

impl Sums {
    fn execute_of<T: Summed>(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let (x, dims) = (io.inputs.get::<T>(0)?, io.inputs.shape(0)?);
        let axis = Indices::get(&io.inputs, 1)?.position(0, dims.len())?;
        let y = io.outputs.take::<T>(0)?;
        let AxisSplit { len, inner, .. } = AxisSplit::at(dims, axis);
        let block = len * inner;
        let grain = row_grain(block);
        io.parallel.chunks_mut(&mut y[..x.len()], grain, |chunk, y| {
            let x = x[chunk * grain..].chunks_exact(block.max(1));
            for (x, y) in x.zip(y.chunks_exact_mut(block.max(1))) {
                for first in (0..inner).step_by(COLUMNS) {
                    let columns = (inner - first).min(COLUMNS);
                    self.columns(&x[first..], &mut y[first..], inner, columns);
                }
            }
            Ok(())
        })?;
        io.outputs.set_shape(0, dims)
    }

    /// The sums of the first `columns` columns.
    fn columns<T: Summed>(&self, x: &[T], y: &mut [T], stride: usize, columns: usize) {
        let mut sums = [T::Sum::ZERO; COLUMNS];
        let sums = &mut sums[..columns];
        let rows = x.len().div_ceil(stride);
        for step in 0..rows {
            let row = if self.is_reverse { rows - 1 - step } else { step } * stride;
            let (x, y) = (&x[row..][..columns], &mut y[row..][..columns]);
            for ((sum, x), y) in sums.iter_mut().zip(x).zip(y) {
                let before = *sum;
                *sum = before.add(x.widen());
                *y = T::of_sum(if self.is_exclusive { before } else { *sum });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::numerics::settled_on_any_threads;
    use crate::testing::{Bench, bench, noise, tensor};

    fn along(run: Bench, axis: i64) -> Bench {
        run.constant(tensor(&[], &[axis]))
    }

    #[test]
    fn sums_run_from_either_end_with_or_without_the_element() {
        let run = || bench("CumSum").input(tensor(&[2, 3], &[1i32, 2, 3, 4, 5, i32::MAX]));
        let along_last = |run: Bench| along(run, -1).one().values::<i32>();
        assert_eq!(along_last(run()), [1, 3, 6, 4, 9, i32::MIN + 8]);
        assert_eq!(along_last(run().int("exclusive", 1)), [0, 1, 3, 0, 4, 9]);
        assert_eq!(along_last(run().int("reverse", 1))[..3], [6, 5, 3]);
        let both = run().int("reverse", 1).int("exclusive", 1);
        assert_eq!(along_last(both), [5, 3, 0, i32::MIN + 4, i32::MAX, 0]);
        assert_eq!(along(run(), 0).one().values::<i32>()[3..5], [5, 7]);
    }

    #[test]
    fn every_type_is_added_up() {
        fn check<T: Summed>(of: impl Fn(u8) -> T) {
            let y = bench("CumSum")
                .input(tensor(&[3], &[1, 2, 4].map(&of)))
                .constant(tensor(&[], &[0i32]));
            assert_eq!(y.one().values::<T>(), [1, 3, 7].map(of), "{}", T::DTYPE);
        }
        check(f32::from);
        check(f64::from);
        check(|x| F16::from_f32(x.into()));
        check(|x| Bf16::from_f32(x.into()));
        check(i64::from);
        check(u32::from);
        check(u64::from);
    }

    #[test]
    fn the_axis_may_be_known_in_the_run_alone() {
        let x = tensor(&[2, 2], &[1f32, 2.0, 3.0, 4.0]);
        let run = |axis: i32| bench("CumSum").input(x.clone()).input(tensor(&[], &[axis]));
        assert_eq!(run(-2).one().values::<f32>(), [1.0, 2.0, 4.0, 6.0]);
        assert_eq!(run(2).error(), ExecError::bad_value(2, 0).to_string());
        let error = along(bench("CumSum").input(x.clone()), 2).error();
        assert_eq!(error, "input 1 is 2, wanted an axis of rank 2");
        let error = bench("CumSum").input(x).input(tensor(&[2], &[0i64, 1])).error();
        assert_eq!(error, "input 1 is i64[2], wanted one number");
    }

    #[test]
    fn blocks_are_shared_out() {
        let dims = [30, 40, 70];
        let x = noise(dims.iter().product());
        for axis in 0..3 {
            let y = settled_on_any_threads(&along(bench("CumSum").input(tensor(&dims, &x)), axis));
            let AxisSplit { len, inner, .. } = AxisSplit::at(&dims, axis as usize);
            for (at, y) in y.values::<f32>().iter().enumerate() {
                let row = at / inner % len;
                let sum: f64 = (0..=row).map(|back| f64::from(x[at - back * inner])).sum();
                assert!((f64::from(*y) - sum).abs() < 1e-5, "{y} at {at}, wanted {sum}");
            }
        }
    }
}
