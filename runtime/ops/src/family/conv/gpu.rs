//! Convolutions on the GPU: a work item sums a few pixels of a few channels in registers, without barriers.

use std::marker::PhantomData;

use udo_api::{
    Buffers, Error, ExecError, F16, FinalizeCx, GpuArg, GpuKernel, KernelDef, KernelInfo, Launch,
    PortRule, WorkItem, WorkItemFn, input, input_like, output_like,
};

use super::float::has_bias;
use super::{Conv, Direction, FloatConv};
use crate::family::gpu::{REAL, Storage, check_lens, ints};

/// Neighbouring pixels of a tile.
const PIXELS: usize = 8;
/// Channels of a tile, where a group has several.
const CHANNELS: usize = 4;

/// Taps come first and channels last, so that a place is found once for all channels.
const SOURCE: &str = "#pragma OPENCL FP_CONTRACT OFF
#ifdef TRANSPOSED
int udo_reach(int at, int tap, int stride, int dilation, int pad, int extent) {
    const int far = at + pad - tap * dilation, near = far / stride;
    return far >= 0 && near * stride == far && near < extent ? near : -1;
}
#else
int udo_reach(int at, int tap, int stride, int dilation, int pad, int extent) {
    const int place = at * stride + tap * dilation - pad;
    return place < extent ? place : -1;
}
#endif

__kernel void udo_conv(__global const UDO_STORAGE *x, __global const UDO_STORAGE *w,
    __global const UDO_STORAGE *bias, __global UDO_STORAGE *y, const int has_bias,
    const int groups, const int inputs, const int outputs,
    const int x0, const int x1, const int x2, const int y0, const int y1, const int y2,
    const int k0, const int k1, const int k2, const int s0, const int s1, const int s2,
    const int d0, const int d1, const int d2, const int p0, const int p1, const int p2) {
    const int first = get_global_id(0) * PIXELS, image = get_global_id(2);
    const int tiles = (outputs + CHANNELS - 1) / CHANNELS;
    const int group = get_global_id(1) / tiles, channel = get_global_id(1) % tiles * CHANNELS;
    const int x_len = x0 * x1 * x2, y_len = y0 * y1 * y2, taps = k0 * k1 * k2;
#ifdef TRANSPOSED
    const int filter = taps, step = outputs * taps, w_first = group * inputs * outputs * taps;
#else
    const int filter = inputs * taps, step = taps, w_first = group * outputs * inputs * taps;
#endif
    float sums[CHANNELS][PIXELS];
    int filters[CHANNELS], from[PIXELS];
    for (int c = 0; c < CHANNELS; ++c) {
        const int own = min(channel + c, outputs - 1);
        filters[c] = w_first + own * filter;
        const float start = has_bias ? UDO_LOAD(bias, group * outputs + own) : 0.0f;
        for (int p = 0; p < PIXELS; ++p) sums[c][p] = start;
    }
    for (int tap = 0; tap < taps; ++tap) {
        for (int p = 0; p < PIXELS; ++p) {
            const int at = min(first + p, y_len - 1);
            const int z = udo_reach(at / (y1 * y2), tap / (k1 * k2), s0, d0, p0, x0);
            const int r = udo_reach(at / y2 % y1, tap / k2 % k1, s1, d1, p1, x1);
            const int c = udo_reach(at % y2, tap % k2, s2, d2, p2, x2);
            from[p] = z < 0 || r < 0 || c < 0 ? -1 : (z * x1 + r) * x2 + c;
        }
        for (int i = 0; i < inputs; ++i) {
            const int plane = ((image * groups + group) * inputs + i) * x_len;
            float xs[PIXELS];
            for (int p = 0; p < PIXELS; ++p)
                xs[p] = from[p] < 0 ? 0.0f : UDO_LOAD(x, plane + from[p]);
            for (int c = 0; c < CHANNELS; ++c) {
                const float weight = UDO_LOAD(w, filters[c] + i * step + tap);
                for (int p = 0; p < PIXELS; ++p) sums[c][p] += weight * xs[p];
            }
        }
    }
    for (int c = 0; c < min(CHANNELS, outputs - channel); ++c)
        for (int p = 0; p < min(PIXELS, y_len - first); ++p)
            UDO_STORE(y, ((image * groups + group) * outputs + channel + c) * y_len + first + p, sums[c][p]);
}
";

/// What a node of `C` means, in tiles.
pub(super) struct ConvGpu<C> {
    conv: Conv,
    has_bias: bool,
    channels: usize,
    tile: Tile<Self>,
    of: PhantomData<fn() -> C>,
}

/// Sums one tile, for the type of the elements and the channels of a tile.
type Tile<K> = fn(&K, WorkItem, &Buffers<'_>) -> Result<(), ExecError>;

impl<C: FloatConv> ConvGpu<C> {
    pub(super) const DEF: KernelDef = {
        const RULES: &[PortRule] =
            &[input(0, REAL), input_like(1, 0), input_like(2, 0), output_like(0, 0)];
        KernelDef::gpu::<Self>(C::NAME).ports(RULES)
    };
}

impl<C: FloatConv> GpuKernel for ConvGpu<C> {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|kernel, item, buffers| (kernel.tile)(kernel, item, buffers));

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let conv = C::read(cx, &cx.input(0)?, &cx.input(1)?)?;
        conv.images().ok_or_else(|| Error::new("the convolution is larger than memory"))?;
        check_lens(cx)?;
        let is_wide = conv.outputs > 1;
        let tile = of_type!(cx.input(0)?.dtype(), [F32 = f32, F16 = F16], T => {
            let tile: Tile<Self> =
                if is_wide { Self::tile::<T, CHANNELS> } else { Self::tile::<T, 1> };
            tile
        })?;
        let channels = if is_wide { CHANNELS } else { 1 };
        Ok(Self { has_bias: has_bias(cx, &conv)?, conv, channels, tile, of: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let &Conv { direction, window, batch, groups, inputs, outputs, .. } = &self.conv;
        let transposed = match direction {
            Direction::Forward => "",
            Direction::Transposed => " -DTRANSPOSED",
        };
        let channels = self.channels;
        // A place before it is found to lie outside is no larger than this.
        let padded = (0..3).map(|axis| {
            let inside = window.input[axis].max(window.output[axis]);
            inside.saturating_add(window.pads[axis]).saturating_add(window.end_pads[axis])
        });
        ints(padded)?;
        let sizes = [window.input, window.output, window.kernel, window.strides];
        let sizes = sizes.into_iter().chain([window.dilations, window.pads]).flatten();
        let bias = GpuArg::input(if self.has_bias { 2 } else { 0 });
        let launch = Launch::new(SOURCE, "udo_conv")
            .options(format!("-DPIXELS={PIXELS} -DCHANNELS={channels}{transposed}"))
            .args([GpuArg::input(0), GpuArg::input(1), bias, GpuArg::output(0)])
            .args(ints([usize::from(self.has_bias), groups, inputs, outputs])?)
            .args(ints(sizes)?);
        let tiles = window.output_len().div_ceil(PIXELS);
        info.push_launch(launch.global_size([tiles, groups * outputs.div_ceil(channels), batch]));
        Ok(())
    }
}

impl<C> ConvGpu<C> {
    fn tile<T: Storage, const N: usize>(
        &self,
        item: WorkItem,
        buffers: &Buffers<'_>,
    ) -> Result<(), ExecError> {
        let &Conv { direction, window, groups, inputs, outputs, .. } = &self.conv;
        let [tile, stack, image] = item.global_id;
        let (first, tiles) = (tile * PIXELS, outputs.div_ceil(N));
        let (group, channel) = (stack / tiles, stack % tiles * N);
        let (x_len, y_len) = (window.input_len(), window.output_len());
        let taps: usize = window.kernel.iter().product();
        let (filter, step) = match direction {
            Direction::Forward => (inputs * taps, taps),
            Direction::Transposed => (taps, outputs * taps),
        };
        let (x, w) = (buffers.input::<T>(0)?, buffers.input::<T>(1)?);
        let bias = if self.has_bias { buffers.input::<T>(2)? } else { &[] };
        let own: [usize; N] = std::array::from_fn(|c| (channel + c).min(outputs - 1));
        let filters = own.map(|own| group * inputs * outputs * taps + own * filter);
        let mut sums =
            own.map(|own| [bias.get(group * outputs + own).map_or(0.0, |b| b.number()); PIXELS]);
        for tap in 0..taps {
            let from: [Option<usize>; PIXELS] =
                std::array::from_fn(|p| self.conv.reach((first + p).min(y_len - 1), tap));
            for i in 0..inputs {
                let plane = &x[((image * groups + group) * inputs + i) * x_len..][..x_len];
                let xs = from.map(|from| from.map_or(0.0, |from| plane[from].number()));
                for (sums, filter) in sums.iter_mut().zip(filters) {
                    let weight = w[filter + i * step + tap].number();
                    sums.iter_mut().zip(xs).for_each(|(sum, x)| *sum += weight * x);
                }
            }
        }
        for (c, sums) in sums.iter().enumerate().take(outputs - channel) {
            let plane = ((image * groups + group) * outputs + channel + c) * y_len;
            for (p, &sum) in sums.iter().enumerate().take(y_len - first) {
                buffers.store(0, plane + first + p, sum)?;
            }
        }
        Ok(())
    }
}

impl Conv {
    /// The place of a plane of the input that a tap takes to place `at` of one of the output, if there is one.
    fn reach(&self, at: usize, tap: usize) -> Option<usize> {
        let Self { direction, window, .. } = self;
        let ([_, y_rows, y_cols], [_, rows, cols]) = (window.output, window.kernel);
        let at = [at / (y_rows * y_cols), at / y_cols % y_rows, at % y_cols];
        let tap = [tap / (rows * cols), tap / cols % rows, tap % cols];
        let mut place = 0;
        for axis in 0..3 {
            let (stride, pad) = (window.strides[axis], window.pads[axis]);
            let shift = tap[axis] * window.dilations[axis];
            let found = match direction {
                Direction::Forward => (at[axis] * stride + shift).checked_sub(pad)?,
                Direction::Transposed => {
                    let far = (at[axis] + pad).checked_sub(shift)?;
                    if far % stride != 0 {
                        return None;
                    }
                    far / stride
                }
            };
            if found >= window.input[axis] {
                return None;
            }
            place = place * window.input[axis] + found;
        }
        Some(place)
    }
}
