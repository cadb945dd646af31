//! Kernels that compute each element of one output from the same element of one input.

use std::marker::PhantomData;

use udo_api::{
    Core, Element, Error, ExecError, FinalizeCx, InPlace, InferCx, Io, Kernel, KernelDef,
    KernelFlags, Pair, Status, TypeRule, input, output_like,
};

/// Elements that a thread takes at a time.
pub(crate) const PIECE: usize = 1 << 15;

/// What an operator computes of each element.
pub(crate) trait MapFn<T: Copy>: Send + Sync + 'static {
    fn of(x: T) -> T;

    /// `of` for each element of `x`, in `y`.
    fn of_all(x: &[T], y: &mut [T]) {
        x.iter().zip(y).for_each(|(&x, y)| *y = Self::of(x));
    }

    /// `of` for each element, in its place.
    fn of_all_in_place(y: &mut [T]) {
        for y in y.iter_mut() {
            *y = Self::of(*y);
        }
    }
}

/// The CPU kernel that applies `F` to elements of type `T`.
pub(crate) const fn cpu<F: MapFn<T>, T: Element>(op: &'static str) -> KernelDef {
    KernelDef::new::<Map<F, T>>(op, Core::CPU)
        .types(Map::<F, T>::RULES)
        .in_place(&[InPlace { input: 0, output: 0 }])
        .flags(KernelFlags::BOUNDED.or(KernelFlags::ROWS_STRIDED))
}

/// Shape inference of an operator whose output is like its input.
pub(crate) fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
    let x = cx.input(0)?;
    // What the result's codes mean is for others to say.
    cx.set_output(0, x.dtype().map_or(x, |t| x.with_dtype(t)))
}

struct Map<F, T>(PhantomData<fn() -> (F, T)>);

impl<F, T: Element> Map<F, T> {
    const RULES: &'static [TypeRule] = &[input(0, T::DTYPE.set()), output_like(0, 0)];
}

impl<F: MapFn<T>, T: Element> Kernel for Map<F, T> {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self(PhantomData))
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let parallel = io.parallel;
        if !(io.inputs.is_dense(0)? && io.outputs.is_dense(0)?) {
            let (x, mut y) = (io.inputs.rows::<T>(0)?, io.outputs.take_rows::<T>(0)?);
            return parallel.rows_mut(&mut y, |row, y| {
                let x = x.get(row).filter(|x| x.len() == y.len());
                F::of_all(x.ok_or(ExecError::of(Status::BAD_CALL))?, y);
                Ok(())
            });
        }
        match io.pair::<T>(0, 0)? {
            Pair::Apart(x, y) => {
                // A bounded output has room for more than the run's elements.
                let len = x.len().min(y.len());
                let y = &mut y[..len];
                if len <= PIECE {
                    F::of_all(x, y);
                } else {
                    parallel.chunks_mut(y, PIECE, |piece, y| {
                        F::of_all(&x[piece * PIECE..][..y.len()], y);
                        Ok(())
                    })?;
                }
            }
            Pair::Same(y) if y.len() <= PIECE => F::of_all_in_place(y),
            Pair::Same(y) => parallel.chunks_mut(y, PIECE, |_, y| {
                F::of_all_in_place(y);
                Ok(())
            })?,
        }
        let shape = io.inputs.shape(0)?;
        io.outputs.set_shape(0, shape)
    }
}
