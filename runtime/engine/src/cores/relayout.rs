//! Kernels that convert the layout of values, and conversion of constants to another format.

use udo_api::{
    Core, DType, Element, Error, ExecError, FinalizeCx, Io, Kernel, KernelDef, Layout, TensorDesc,
    bytes_of, bytes_of_mut,
};
use udo_simd::rows::{transpose_grain, transpose_part};

use super::convert::{self, ConstantError};
use super::format::{Format, images};
use udo_graph::memory::{Budget, Tensor, TensorStorage};

/// Returns the kernel that converts values to a layout. The planner inserts it.
pub fn relayout(to: Layout) -> &'static KernelDef {
    const TO_NHWC: KernelDef = KernelDef::new::<Relayout<true>>("Transpose", Core::CPU);
    const FROM_NHWC: KernelDef = KernelDef::new::<Relayout<false>>("Transpose", Core::CPU);
    match to {
        Layout::Nhwc => &TO_NHWC,
        Layout::AsGiven | Layout::Nchw => &FROM_NHWC,
    }
}

/// Transposes from NCHW to NHWC, or back.
struct Relayout<const TO_NHWC: bool> {
    images: [usize; 3],
    run: fn(&[usize; 3], Io<'_>) -> Result<(), ExecError>,
}

impl<const TO_NHWC: bool> Kernel for Relayout<TO_NHWC> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let layout = if TO_NHWC { Layout::AsGiven } else { Layout::Nhwc };
        let unknown = Err(Error::new(format!("cannot transpose {x}")));
        let run = with_any!(x.dtype(), T => Ok(execute::<T, { size_of::<T>() }> as fn(&[usize; 3], Io<'_>) -> _), else unknown)?;
        Ok(Self { images: images(x.shape(), layout), run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(&self.images, io)
    }
}

fn execute<T: Element, const BYTES: usize>(
    &[_, rows, cols]: &[usize; 3],
    io: Io<'_>,
) -> Result<(), ExecError> {
    let Io { inputs, mut outputs, parallel, .. } = io;
    let len = (rows * cols).max(1);
    let grain = transpose_grain([rows, cols], parallel.width());
    let images = inputs.get::<T>(0)?.chunks_exact(len);
    for (x, y) in images.zip(outputs.take::<T>(0)?.chunks_exact_mut(len)) {
        parallel.chunks_mut(y, grain.saturating_mul(rows), |chunk, y| {
            let (x, y) = (bytes_of(&x[chunk * grain..]), bytes_of_mut(y));
            let (x, y) = (x.as_chunks::<BYTES>().0, y.as_chunks_mut::<BYTES>().0);
            transpose_part(x, cols, [rows, y.len() / rows], y, rows);
            Ok(())
        })?;
    }
    Ok(())
}

/// Converts a constant of the model to another format. The memory is charged to `budget`.
///
/// # Errors
/// Fails if there is no conversion, or not enough memory.
pub(crate) fn constant(
    tensor: &Tensor,
    from: &TensorDesc,
    to: &Format,
    budget: &Budget,
) -> Result<Tensor, ConstantError> {
    let broken = || Error::new(format!("constant {} is not {from}", tensor.desc()));
    let plain = to.in_layout(Layout::AsGiven).ok_or_else(broken)?;
    let tensor = convert::constant(tensor, from, &plain.desc, budget)?;
    if to.layout() == Layout::AsGiven {
        return Ok(tensor);
    }
    let mut buffer = budget.zeroed(to.desc.size_bytes())?;
    let [_, rows, cols] = plain.images();
    let len = (rows * cols).max(1);
    with_any!(to.desc.dtype(), T => {
        let x = tensor.stored().as_chunks::<{ size_of::<T>() }>().0;
        let y = buffer.bytes_mut().as_chunks_mut::<{ size_of::<T>() }>().0;
        for (x, y) in x.chunks_exact(len).zip(y.chunks_exact_mut(len)) {
            transpose_part(x, cols, [rows, cols], y, rows);
        }
    }, else return Err(broken().into()));
    let dtype = to.desc.dtype().unwrap_or(DType::U8);
    let made = Tensor::from_buffer(dtype, to.desc.full_shape(), buffer);
    Ok(made.map_err(|e| Error::new(e.to_string()))?)
}
