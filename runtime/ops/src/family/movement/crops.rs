//! Parts of a tensor with zeros outside it, at positions known before the run.

use std::marker::PhantomData;

use udo_api::{Bits, Core, Error, ExecError, FinalizeCx, InferCx, Io, KernelDef, OpSchema};

use super::{Example, Movement, Walk, Walked, Walks, kernel, movement, tie_part, walked};
use crate::Def;

/// A crop. The family provides the CPU and GPU kernels.
pub(crate) trait Crop: Sized + Send + Sync + 'static {
    const SCHEMA: OpSchema;
    const KERNELS: &'static [KernelDef] =
        &[kernel::<Cropped<Self>>(Core::CPU), walked::<Cropped<Self>>()];
    /// As in [`Movement`].
    const EXAMPLES: &'static [Example];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error>;

    /// Returns the walk along each axis of input 0.
    fn walks(cx: &FinalizeCx<'_>) -> Result<Vec<Walk>, Error>;
}

/// Defines the operator of the crop `C`.
pub(crate) const fn crop<C: Crop>() -> Def {
    movement::<Cropped<C>>()
}

/// The movement of a crop.
pub(crate) struct Cropped<C> {
    walks: Walks,
    convert: PhantomData<fn() -> C>,
}

impl<C: Crop> Movement for Cropped<C> {
    const SCHEMA: OpSchema = C::SCHEMA;
    const KERNELS: &'static [KernelDef] = C::KERNELS;
    const EXAMPLES: &'static [Example] = C::EXAMPLES;

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        C::infer(cx)
    }

    fn plan(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let walks = C::walks(cx)?;
        tie_part(cx, walks.iter().copied())?;
        Ok(Self { walks: Walks::new(walks.into_iter()), convert: PhantomData })
    }

    fn execute<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let (x, y) = (inputs.get_bits::<B>(0)?, outputs.take_bits::<B>(0)?);
        self.walks.copy(parallel, x, y, B::default())
    }
}

impl<C: Crop> Walked for Cropped<C> {
    fn walks(cx: &FinalizeCx<'_>) -> Result<Walks, Error> {
        Self::plan(cx).map(|plan| plan.walks)
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Core, Element, F16};

    use crate::testing::{Bench, bench, tensor};

    /// Crops of a tensor of extents `[3, 4, 5]`.
    fn crops(run: impl Fn(&str) -> Bench) -> Vec<Bench> {
        let center = [([5i64, 2], [0i64, 2]), ([1, 7], [1, -1]), ([4, 4], [2, 0])];
        let center = center.map(|(shape, axes)| {
            run("CenterCropPad").constant(tensor(&[2], &shape)).ints("axes", &axes)
        });
        let offset = [([1, 2, 2], 1, &[2i64, 3][..]), ([3, 4, 1], 2, &[4])];
        let offset = offset.map(|(like, axis, offset)| {
            let like = tensor(&like, &vec![0f32; like.iter().product()]);
            run("udo:Crop").input(like).int("axis", axis).ints("offset", offset)
        });
        center.into_iter().chain(offset).collect()
    }

    #[test]
    fn the_gpu_moves_elements_of_any_width() {
        fn check<T: Element + PartialEq + std::fmt::Debug>(convert: fn(u8) -> T) {
            let x: Vec<T> = (1..=60).map(convert).collect();
            for run in crops(|op| bench(op).input(tensor(&[3, 4, 5], &x))) {
                let (cpu, gpu) = (run.clone().one(), run.on(Core::GPU).one());
                assert_eq!((gpu.dims(), gpu.values::<T>()), (cpu.dims(), cpu.values()));
            }
        }
        check(|x| x);
        check(|x| F16(u16::from(x)));
        check(f32::from);
        check(i64::from);
    }
}
