//! Reductions on the CPU, of numeric types and bools.

use std::marker::PhantomData;

use udo_api::{
    Bool, Core, Error, ExecError, FinalizeCx, Io, Kernel, KernelDef, PortRule, bytes_of,
    bytes_of_mut, input, output_like, types,
};
use udo_simd::{fold, fold_columns, fold_rows};

use super::accumulate::Accumulate;
use super::plan::{Lane, Plan};
use super::{Reduce, ReducedAxes};
use crate::number::Number;

/// f32 elements of a row that are accumulated in f32; the results of such runs are merged in f64, for precision.
const RUN: usize = 4096;
/// Independent accumulators of a row, so that steps do not wait for each other.
const LANES: usize = 8;

impl Lane for f32 {
    fn rows<A: Accumulate>(x: &[Self], cols: usize, y: &mut [Self]) {
        if cols <= RUN {
            return fold_rows(A::default(), x, cols, y);
        }
        for (row, y) in x.chunks_exact(cols).zip(y) {
            let runs = row.chunks(RUN).map(|run| f64::from(fold(A::default(), run)));
            *y = runs.fold(A::none(), A::merge::<f64>) as f32;
        }
    }

    fn columns<A: Accumulate>(x: &[Self], y: &mut [Self]) {
        fold_columns(A::default(), x, y);
    }
}

macro_rules! lanes {
    ($($t:ty),*) => {$(
        impl Lane for $t {
            fn rows<A: Accumulate>(x: &[Self], cols: usize, y: &mut [Self]) {
                for (index, y) in y.iter_mut().enumerate() {
                    *y = row::<A, Self>(&x[index * cols..][..cols]);
                }
            }

            fn columns<A: Accumulate>(x: &[Self], y: &mut [Self]) {
                for row in x.chunks_exact(y.len().max(1)) {
                    y.iter_mut().zip(row).for_each(|(y, &x)| *y = A::take(*y, x));
                }
            }
        }
    )*};
}

lanes!(f64, i8, i32, i64, u8, u32, u64);

fn row<A: Accumulate, T: Number>(x: &[T]) -> T {
    let mut lanes = [A::none::<T>(); LANES];
    let (chunks, remainder) = x.as_chunks::<LANES>();
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(y, &x)| *y = A::take(*y, x));
    }
    let remainder = remainder.iter().fold(A::none(), |y, &x| A::take(y, x));
    lanes.into_iter().fold(remainder, A::merge)
}

/// The plan if all extents are known; bounded ones are planned in each run.
pub(super) struct Extents {
    axes: ReducedAxes,
    fixed: Option<Plan>,
}

impl Extents {
    pub(super) fn new(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let (axes, shape) = (ReducedAxes::read(cx)?, cx.input(0)?.full_shape());
        Ok(Self { axes, fixed: shape.is_fixed().then(|| axes.plan(shape.dims())) })
    }

    /// Returns the plan for this run.
    fn plan(&self, io: &Io<'_>) -> Result<Plan, ExecError> {
        match self.fixed {
            Some(plan) => Ok(plan),
            None => Ok(self.axes.plan(io.inputs.shape(0)?)),
        }
    }
}

/// The reduction `R` of numeric types.
pub(super) struct Numbers<R> {
    extents: Extents,
    /// The kernel for the element type.
    run: fn(&Extents, Io<'_>) -> Result<(), ExecError>,
    marker: PhantomData<fn() -> R>,
}

impl<R: Reduce> Numbers<R> {
    const RULES: &'static [PortRule] =
        &[input(0, R::By::TYPES).bounded(), output_like(0, 0).bounded()];
    pub(super) const DEF: KernelDef = KernelDef::new::<Self>(R::NAME, Core::CPU).ports(Self::RULES);
}

impl<R: Reduce> Kernel for Numbers<R> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let run = of_type!(
            cx.input(0)?.dtype(),
            [
                F32 = f32, F64 = f64, I8 = i8, I32 = i32, I64 = i64, U8 = u8, U32 = u32,
                U64 = u64,
            ],
            T => execute::<R, T>
        )?;
        Ok(Self { extents: Extents::new(cx)?, run, marker: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(&self.extents, io)
    }
}

fn execute<R: Reduce, T: Lane>(extents: &Extents, mut io: Io<'_>) -> Result<(), ExecError> {
    let plan = extents.plan(&io)?;
    let (x, y) = (io.inputs.get::<T>(0)?, io.outputs.take::<T>(0)?);
    reduce_parallel::<R, T>(&plan, x, &mut y[..plan.len()], &io)?;
    io.outputs.set_shape(0, plan.shape())
}

fn reduce_parallel<R: Reduce, T: Lane>(
    plan: &Plan,
    x: &[T],
    y: &mut [T],
    io: &Io<'_>,
) -> Result<(), ExecError> {
    let (grain, count) = (plan.grain(), plan.count());
    if R::By::IN_F64 && !T::DTYPE.is_float() {
        return io.parallel.chunks_mut(y, grain, |chunk, y| {
            for (position, y) in (chunk * grain..).zip(y) {
                let elements = plan.elements(position).map(|at| x[at].to_f64());
                *y = T::from_f64(R::end(elements.fold(R::By::none(), R::By::take), count));
            }
            Ok(())
        });
    }
    io.parallel.chunks_mut(y, grain, |chunk, y| {
        plan.fold::<R::By, T>(x, chunk * grain, y);
        for y in y {
            *y = R::end(*y, count);
        }
        Ok(())
    })
}

/// The reduction `R` of bools, as the integers 0 and 1.
pub(super) struct Bools<R> {
    extents: Extents,
    marker: PhantomData<fn() -> R>,
}

impl<R: Reduce> Bools<R> {
    pub(super) const DEF: KernelDef = {
        const RULES: &[PortRule] = &[input(0, types::BOOL).bounded(), output_like(0, 0).bounded()];
        KernelDef::new::<Self>(R::NAME, Core::CPU).ports(RULES)
    };
}

impl<R: Reduce> Kernel for Bools<R> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { extents: Extents::new(cx)?, marker: PhantomData })
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let plan = self.extents.plan(&io)?;
        let (x, y) = (io.inputs.get::<Bool>(0)?, io.outputs.take::<Bool>(0)?);
        let y = &mut y[..plan.len()];
        reduce_parallel::<R, u8>(&plan, bytes_of(x), bytes_of_mut(y), &io)?;
        // The extremes of no elements are 0 or 255.
        for y in y {
            *y = Bool::from(y.get());
        }
        io.outputs.set_shape(0, plan.shape())
    }
}
