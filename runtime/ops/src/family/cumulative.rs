//! Cumulative operations along an axis: `CumSum` and `CumProd`.

use std::marker::PhantomData;

use udo_api::{
    Bf16, Buffers, Core, DType, Element, Error, ExecError, F16, FinalizeCx, GpuArg, GpuKernel,
    InferCx, Io, Kernel, KernelDef, KernelInfo, Launch, Op, OpSchema, Param, Port, TypeSet, Value,
    WorkItemFn, input, output_like, resolve_axis, types,
};

use crate::Def;
use crate::family::axes::AxisSplit;
use crate::family::elementwise::infer_like_input;
use crate::family::gpu::{ELEMENTS, EXACT, REAL, check_lens, integer, ints, width};
use crate::family::movement::Indices;
use crate::family::partition::row_grain;
use crate::number::Number;

/// A cumulative operation. The family provides schema, inference, a kernel for every type with threads, and tests.
pub(crate) trait Cumulative: Send + Sync + 'static {
    const NAME: &'static str;
    /// The neutral element.
    const FIRST: f64;
    /// OpenCL expression of the next value from `so_far` and `x`.
    const OPENCL: &'static str;

    /// Returns the next value from the value before it and the element `x`.
    fn next<T: Number>(so_far: T, x: T) -> T;
}

/// Defines the operator of the operation `C`.
pub(crate) const fn cumulative<C: Cumulative>() -> Def {
    let def = Def::new::<Described<C>>(Described::<C>::KERNELS);
    #[cfg(test)]
    let def = def.tested(tests::run_all::<C>);
    def
}

const TYPES: TypeSet = types::FLOATS.or(types::INDEX).or(types::U32).or(types::U64);

/// The operator of the operation `C`.
struct Described<C>(PhantomData<fn() -> C>);

impl<C: Cumulative> Described<C> {
    const KERNELS: &'static [KernelDef] = &[
        KernelDef::new::<Accumulated<C>>(C::NAME, Core::CPU).ports(&[
            input(0, TYPES).bounded(),
            input(1, types::INDEX),
            output_like(0, 0).bounded(),
        ]),
        KernelDef::gpu::<AccumulatedGpu<C>>(C::NAME)
            .ports(&[input(0, REAL.or(types::INDEX)), output_like(0, 0)]),
    ];
}

impl<C: Cumulative> Op for Described<C> {
    const SCHEMA: OpSchema = OpSchema::new(
        C::NAME,
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
            return Err(Error::new(format!("input 1 is {axis}, expected one number")));
        }
        if let Some([axis]) = cx.constant_ints(1)?.as_deref()
            && resolve_axis(*axis, x.rank()).is_none()
        {
            let rank = x.rank();
            return Err(Error::new(format!("input 1 is {axis}, expected an axis of rank {rank}")));
        }
        infer_like_input(cx)
    }
}

/// An element that is accumulated in type `Wide`.
trait Widened: Element {
    type Wide: Number;
    fn widen(self) -> Self::Wide;
    fn narrow(wide: Self::Wide) -> Self;
}

macro_rules! widened {
    ($($t:ty, $wide:ty, $x:ident => $widen:expr, $narrow:expr;)*) => {$(
        impl Widened for $t {
            type Wide = $wide;
            #[inline]
            fn widen(self) -> $wide { let $x = self; $widen }
            #[inline]
            fn narrow($x: $wide) -> Self { $narrow }
        }
    )*};
}

widened! {
    f32, f32, x => x, x;
    f64, f64, x => x, x;
    F16, f32, x => x.to_f32(), Self::from_f32(x);
    Bf16, f32, x => x.to_f32(), Self::from_f32(x);
    i32, i32, x => x, x;
    i64, i64, x => x, x;
    u32, u32, x => x, x;
    u64, u64, x => x, x;
}

/// CPU kernel of the operation `C`.
struct Accumulated<C> {
    /// Whether an output omits the element at its own position.
    is_exclusive: bool,
    is_reverse: bool,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
    marker: PhantomData<fn() -> C>,
}

/// Columns that are accumulated together.
const COLUMNS: usize = 64;

impl<C: Cumulative> Kernel for Accumulated<C> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let run = of_type!(
            cx.input(0)?.dtype(),
            [
                F32 = f32, F64 = f64, F16 = F16, Bf16 = Bf16,
                I32 = i32, I64 = i64, U32 = u32, U64 = u64,
            ],
            T => Self::execute_typed::<T>
        )?;
        let (is_exclusive, is_reverse) = (cx.flag("exclusive")?, cx.flag("reverse")?);
        Ok(Self { is_exclusive, is_reverse, run, marker: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

impl<C: Cumulative> Accumulated<C> {
    fn execute_typed<T: Widened>(&self, mut io: Io<'_>) -> Result<(), ExecError> {
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

    /// Accumulates the first `columns` columns.
    fn columns<T: Widened>(&self, x: &[T], y: &mut [T], stride: usize, columns: usize) {
        let mut so_far = [T::Wide::from_f64(C::FIRST); COLUMNS];
        let so_far = &mut so_far[..columns];
        let rows = x.len().div_ceil(stride);
        for step in 0..rows {
            let row = if self.is_reverse { rows - 1 - step } else { step } * stride;
            let (x, y) = (&x[row..][..columns], &mut y[row..][..columns]);
            for ((so_far, x), y) in so_far.iter_mut().zip(x).zip(y) {
                let before = *so_far;
                *so_far = C::next(before, x.widen());
                *y = T::narrow(if self.is_exclusive { before } else { *so_far });
            }
        }
    }
}

/// GPU kernel: one lane per work item.
struct AccumulatedGpu<C> {
    split: AxisSplit,
    is_exclusive: bool,
    is_reverse: bool,
    options: String,
    item: fn(&Self, usize, &Buffers<'_>) -> Result<(), ExecError>,
    marker: PhantomData<fn() -> C>,
}

impl<C: Cumulative> GpuKernel for AccumulatedGpu<C> {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|kernel, item, buffers| (kernel.item)(kernel, item.global_id[0], buffers));

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        check_lens(cx)?;
        let x = cx.input(0)?;
        let axis = match cx.constant_ints(1)?.as_deref() {
            Some(&[axis]) => resolve_axis(axis, x.rank()),
            _ => None,
        };
        let axis = axis.ok_or_else(|| Error::new("input 1, the axis, is not constant"))?;
        let item = of_type!(x.dtype(), [F32 = f32, F16 = F16, I32 = i32, I64 = i64], T => {
            let item: fn(&Self, usize, &Buffers<'_>) -> Result<(), ExecError> = Self::item::<T>;
            item
        })?;
        let (is_exclusive, is_reverse) = (cx.flag("exclusive")?, cx.flag("reverse")?);
        // OpenCL defines wrapping only for unsigned integers.
        let options = integer(x.dtype()).map(|_| format!("-DINTEGER={}", width(x.dtype())));
        let (split, options) = (AxisSplit::at(x.shape(), axis), options.unwrap_or_default());
        Ok(Self { split, is_exclusive, is_reverse, options, item, marker: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let AxisSplit { outer, len, inner } = self.split;
        let text = format!(
            "{EXACT}{ELEMENTS}__kernel void udo_cumulative(__global const ELEMENT *xs, __global ELEMENT *ys,\n    \
             const int len, const int inner, const int is_exclusive, const int is_reverse) {{\n    \
             const int i = get_global_id(0), first = i / inner * inner * len + i % inner;\n    \
             NUMBER so_far = {};\n    for (int k = 0; k < len; ++k) {{\n        \
             const int at = first + (is_reverse ? len - 1 - k : k) * inner;\n        \
             const NUMBER x = LOAD(xs, at), before = so_far;\n        so_far = {};\n        \
             STORE(ys, at, is_exclusive ? before : so_far);\n    }}\n}}\n",
            C::FIRST,
            C::OPENCL
        );
        let flags = [self.is_exclusive, self.is_reverse].map(usize::from);
        let launch = Launch::new(text, "udo_cumulative")
            .options(self.options.clone())
            .args([GpuArg::input(0), GpuArg::output(0)])
            .args(ints([len, inner].into_iter().chain(flags))?);
        info.push_launch(launch.global_size([outer * inner, 1, 1]));
        Ok(())
    }
}

impl<C: Cumulative> AccumulatedGpu<C> {
    fn item<T: Widened>(&self, i: usize, buffers: &Buffers<'_>) -> Result<(), ExecError> {
        let AxisSplit { len, inner, .. } = self.split;
        let first = i / inner * inner * len + i % inner;
        let mut so_far = T::Wide::from_f64(C::FIRST);
        for k in 0..len {
            let at = first + if self.is_reverse { len - 1 - k } else { k } * inner;
            let before = so_far;
            so_far = C::next(before, buffers.get::<T>(0, at)?.widen());
            buffers.set(0, at, T::narrow(if self.is_exclusive { before } else { so_far }))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::numerics::settled_on_any_threads;
    use crate::testing::{Bench, bench, tensor};

    fn along(run: Bench, axis: i64) -> Bench {
        run.constant(tensor(&[], &[axis]))
    }

    /// The f64 reference; `flags` are the parameters `exclusive` and `reverse`.
    fn expected<C: Cumulative>(x: &[f64], flags: [i64; 2]) -> Vec<f64> {
        let [is_exclusive, is_reverse] = flags.map(|flag| flag != 0);
        let mut so_far = C::FIRST;
        let mut y = vec![0.0; x.len()];
        for step in 0..x.len() {
            let at = if is_reverse { x.len() - 1 - step } else { step };
            let before = so_far;
            so_far = C::next(so_far, x[at]);
            y[at] = if is_exclusive { before } else { so_far };
        }
        y
    }

    /// Runs all tests of a member.
    pub(super) fn run_all<C: Cumulative>(name: &str) {
        println!("{name}: a family member");
        exclusive_and_reverse_results_match_the_definition::<C>();
        every_type_matches_the_definition::<C>();
        axes_are_resolved::<C>();
        results_do_not_depend_on_threads::<C>();
    }

    fn exclusive_and_reverse_results_match_the_definition<C: Cumulative>() {
        let x = [3i32, -2, 5];
        for flags in [[0, 0], [1, 0], [0, 1], [1, 1]] {
            let run = bench(C::NAME).input(tensor(&[3], &x));
            let run = along(run.int("exclusive", flags[0]).int("reverse", flags[1]), -1);
            for core in [Core::CPU, Core::GPU] {
                let y = run.clone().on(core).one().values::<i32>();
                assert_eq!(
                    y.iter().map(|&y| f64::from(y)).collect::<Vec<_>>(),
                    expected::<C>(&x.map(f64::from), flags),
                    "{core}"
                );
            }
        }
        let x = [i32::MAX, i32::MAX];
        for core in [Core::CPU, Core::GPU] {
            let run = along(bench(C::NAME).on(core).input(tensor(&[2], &x)), 0);
            assert_eq!(
                run.one().values::<i32>()[1],
                C::next(x[0], x[1]),
                "integers wrap on {core}"
            );
        }
        let y = along(bench(C::NAME).input(tensor::<f32>(&[2, 0], &[])), 1).one();
        assert_eq!(y.dims(), [2, 0]);
    }

    fn every_type_matches_the_definition<C: Cumulative>() {
        fn check<C: Cumulative, T: Widened + PartialEq + std::fmt::Debug>(
            convert: impl Fn(u8) -> T,
        ) {
            let run = bench(C::NAME).input(tensor(&[3], &[1, 2, 4].map(&convert)));
            let y = run.constant(tensor(&[], &[0i32])).one().values::<T>();
            let expected = expected::<C>(&[1.0, 2.0, 4.0], [0, 0]);
            assert_eq!(
                y,
                expected.iter().map(|&y| convert(y as u8)).collect::<Vec<_>>(),
                "{}",
                T::DTYPE
            );
        }
        check::<C, _>(f32::from);
        check::<C, _>(f64::from);
        check::<C, _>(|x| F16::from_f32(x.into()));
        check::<C, _>(|x| Bf16::from_f32(x.into()));
        check::<C, _>(i32::from);
        check::<C, _>(i64::from);
        check::<C, _>(u32::from);
        check::<C, _>(u64::from);
    }

    fn axes_are_resolved<C: Cumulative>() {
        let x = tensor(&[2, 2], &[1f64, 2.0, 3.0, 4.0]);
        let run = |axis: i32| bench(C::NAME).input(x.clone()).input(tensor(&[], &[axis]));
        let down = [C::next(1.0, 3.0), C::next(2.0, 4.0)];
        assert_eq!(run(-2).one().values::<f64>()[2..], down, "an axis that is read in the run");
        assert_eq!(run(2).error(), ExecError::bad_value(2, 0).to_string());
        let error = along(bench(C::NAME).input(x.clone()), 2).error();
        assert_eq!(error, "input 1 is 2, expected an axis of rank 2");
        let error = bench(C::NAME).input(x).input(tensor(&[2], &[0i64, 1])).error();
        assert_eq!(error, "input 1 is i64[2], expected one number");
    }

    fn results_do_not_depend_on_threads<C: Cumulative>() {
        let dims = [30, 40, 70];
        let count: usize = dims.iter().product();
        // Near 1, so that products stay in range.
        let x: Vec<f32> = (0..count).map(|i| 1.0 + (i % 13) as f32 * 1e-3).collect();
        for axis in 0..3 {
            let y = settled_on_any_threads(&along(bench(C::NAME).input(tensor(&dims, &x)), axis));
            let AxisSplit { len, inner, .. } = AxisSplit::at(&dims, axis as usize);
            for (at, y) in y.values::<f32>().iter().enumerate() {
                let row = at / inner % len;
                let column: Vec<f64> =
                    (0..=row).rev().map(|back| f64::from(x[at - back * inner])).collect();
                let expected = expected::<C>(&column, [0, 0])[row];
                assert!(
                    (f64::from(*y) - expected).abs() < 1e-5 * expected,
                    "{y} at {at}, expected {expected}"
                );
            }
        }
    }
}
