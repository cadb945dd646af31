//! Pooling of images with channels last.

use std::marker::PhantomData;
use std::ops::Range;

use udo_api::{
    Core, Element, Error, ExecError, FinalizeCx, Io, Kernel, KernelDef, Node, PortRule, input,
    output_like,
};
use udo_simd::indirect;
use udo_simd::pooling::Image;

use super::windows::{Pool, window};
use crate::family::layout::LayoutPorts;
use crate::family::partition;
use crate::family::window::Window;

/// A pool with a kernel that computes all channels of a window at once.
pub(crate) trait PoolImage<T>: Pool {
    /// Computes rows of windows over an image; output pixels are `y_stride` elements apart.
    fn pool(
        &self,
        images: &Images,
        x: Image<'_, T>,
        rows: Range<usize>,
        y: &mut [T],
        y_stride: usize,
    );
}

/// Kernel for images with channels last.
pub(crate) struct Images {
    pub(crate) window: indirect::Window,
    pub(crate) channels: usize,
}

/// Returns the kernel for images of `T` with channels last.
pub(crate) const fn pixels<P: PoolImage<T>, T: Element>() -> KernelDef {
    KernelDef::new::<Pixels<P, T>>(P::NAME, Core::CPU).ports(Pixels::<P, T>::RULES)
}

struct Pixels<P, T> {
    pool: P,
    images: Images,
    marker: PhantomData<fn() -> T>,
}

impl<P, T: Element> Pixels<P, T> {
    const RULES: &'static [PortRule] =
        &LayoutPorts::BOTH.pitched([input(0, T::DTYPE.set()), output_like(0, 0)]);
}

impl Images {
    fn read(node: &Node<'_>) -> Result<(Self, Window), Error> {
        let x = LayoutPorts::BOTH.described(&node.input(0)?)?;
        let window = window(node, &x)?;
        let channels = x.shape().get(1).copied().unwrap_or(0);
        let images = Self { window: window.on_pixels(), channels };
        let known = images.window.taps().and(images.window.input_len()).and(images.window.rows());
        known.ok_or_else(|| Error::new("the windows exceed the address space"))?;
        Ok((images, window))
    }
}

impl<P: PoolImage<T>, T: Element> Kernel for Pixels<P, T> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        if (0..P::MORE_OUTPUTS.len()).any(|output| cx.has_output(1 + output)) {
            return Err(Error::new(
                "indices are computed channel by channel, not for channels last",
            ));
        }
        let (images, window) = Images::read(cx)?;
        Ok(Self { pool: P::read(cx, &window)?, images, marker: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let ((x, stride), (y, y_stride)) = (inputs.strided::<T>(0)?, outputs.take_strided::<T>(0)?);
        let Images { window, channels } = &self.images;
        let input_pixels: usize = window.input.iter().product();
        let line_len = window.output[2] * y_stride;
        if line_len * channels == 0 {
            return Ok(());
        }
        let work = window.output.iter().chain(&window.kernel).product::<usize>() * channels;
        let lines = window.output[0] * window.output[1];
        let lines_per_chunk = lines.div_ceil(partition::threads(parallel, work));
        for (image, y) in y.chunks_mut((line_len * lines).max(1)).enumerate() {
            let data = x.get(image * input_pixels * stride..).unwrap_or_default();
            parallel.chunks_mut(y, lines_per_chunk * line_len, |chunk, y| {
                let rows =
                    chunk * lines_per_chunk..chunk * lines_per_chunk + y.len().div_ceil(line_len);
                self.pool.pool(&self.images, Image { data, stride }, rows, y, y_stride);
                Ok(())
            })?;
        }
        Ok(())
    }
}
