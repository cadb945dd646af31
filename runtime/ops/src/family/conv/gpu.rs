//! Convolution on the GPU: a work item accumulates a tile of pixels and channels in registers, without barriers.

use std::marker::PhantomData;

use udo_api::{
    AcceptCx, Buffers, Error, ExecError, F16, FinalizeCx, GpuArg, GpuKernel, KernelDef, KernelInfo,
    Launch, Packed, PortRule, Sources, WorkItem, WorkItemFn, input, input_like, output_like,
};

use super::{Conv, Direction, FloatConv, has_bias};
use crate::family::gpu::{
    EXACT, FINISH, FINISH_PARAMS, Finish, LOAD_VECTORS, REAL, Storage, check_lens, ints,
};
use crate::number::wrong_recipe;

/// Consecutive pixels of a tile: a vector.
const PIXELS: usize = 8;
/// Channels of a tile, if a group has several.
const CHANNELS: usize = 8;

/// The loop over taps is outside and that over channels inside, so that positions are computed once for all channels.
/// If the pixels of a tap are consecutive, as is usual, they are loaded as a vector and padding is masked afterwards.
const SOURCE: &str = "
#ifdef PACKED
#define WEIGHT float
#else
#define WEIGHT UDO_STORAGE
#endif
#ifdef TRANSPOSED
// Places that a tap reaches; -1 between two of them.
int8 udo_reach(const int8 at, const int tap, const int stride, const int dilation, const int pad) {
    const int8 far = at + (pad - tap * dilation), near = far / stride;
    return select((int8)(-1), near, near * stride == far);
}
#else
int8 udo_reach(const int8 at, const int tap, const int stride, const int dilation, const int pad) {
    return at * stride + (tap * dilation - pad);
}
#endif

int8 udo_inside(const int8 place, const int extent) {
    return (place >= 0) & (place < extent);
}

__kernel void udo_conv(__global const UDO_STORAGE *x, __global const WEIGHT *w,
    __global const UDO_STORAGE *bias, __global UDO_STORAGE *y, const int has_bias,
    const int x_all, const int groups, const int inputs, const int outputs,
    const int x0, const int x1, const int x2, const int y0, const int y1, const int y2,
    const int k0, const int k1, const int k2, const int s0, const int s1, const int s2,
    const int d0, const int d1, const int d2, const int p0, const int p1, const int p2,
    FINISH_PARAMS) {
    const int first = get_global_id(0) * PIXELS, image = get_global_id(2);
    const int tiles = (outputs + CHANNELS - 1) / CHANNELS;
    const int group = get_global_id(1) / tiles, channel = get_global_id(1) % tiles * CHANNELS;
    const int x_len = x0 * x1 * x2, y_len = y0 * y1 * y2, taps = k0 * k1 * k2;
#ifdef TRANSPOSED
    const int filter = taps, step = outputs * taps, w_first = group * inputs * outputs * taps;
#else
    const int filter = inputs * taps, step = taps, w_first = group * outputs * inputs * taps;
#endif
    const int planes = (image * groups + group) * inputs;
#ifdef PACKED
    __global const float *packed = w + get_global_id(1) * taps * inputs * CHANNELS;
#else
    int filters[CHANNELS];
    for (int c = 0; c < CHANNELS; ++c) filters[c] = w_first + min(channel + c, outputs - 1) * filter;
#endif
    float8 sums[CHANNELS];
    for (int c = 0; c < CHANNELS; ++c)
        sums[c] = has_bias ? UDO_LOAD(bias, group * outputs + min(channel + c, outputs - 1)) : 0.0f;
    int each_z[PIXELS], each_r[PIXELS], each_c[PIXELS];
    int next_z = first / (y1 * y2), next_r = first / y2 % y1, next_c = first % y2;
    for (int p = 0; p < PIXELS; ++p) {
        each_z[p] = next_z;
        each_r[p] = next_r;
        each_c[p] = next_c;
        if (++next_c < y2) continue;
        next_c = 0;
        if (++next_r < y1) continue;
        next_r = 0;
        ++next_z;
    }
    const int8 at_z = vload8(0, each_z), at_r = vload8(0, each_r), at_c = vload8(0, each_c);
    const int8 steps = (int8)(0, 1, 2, 3, 4, 5, 6, 7);
    for (int tap = 0; tap < taps; ++tap) {
        const int8 z = udo_reach(at_z, tap / (k1 * k2), s0, d0, p0);
        const int8 r = udo_reach(at_r, tap / k2 % k1, s1, d1, p1);
        const int8 c = udo_reach(at_c, tap % k2, s2, d2, p2);
        const int8 inside = udo_inside(z, x0) & udo_inside(r, x1) & udo_inside(c, x2);
        const int8 from = (z * x1 + r) * x2 + c;
        const int base = from.s0;
        // The stride between neighbours in the input, if small enough to read them at once.
        const int run = all(~inside | (from - steps == base)) ? 1
            : all(~inside | (from - 2 * steps == base)) ? 2 : 0;
        const bool is_run = run > 0 && planes * x_len + base >= 0
            && (planes + inputs - 1) * x_len + base + run * PIXELS <= x_all;
        int each_from[PIXELS];
        vstore8(select((int8)(-1), from, inside), 0, each_from);
        for (int i = 0; i < inputs; ++i) {
            const int plane = (planes + i) * x_len;
            float8 xs;
            if (is_run) {
                if (run == 1) xs = UDO_LOAD8(x, plane + base);
                else xs = UDO_LOAD16(x, plane + base).even;
                xs = select((float8)(0.0f), xs, inside);
            } else {
                float each[PIXELS];
                for (int p = 0; p < PIXELS; ++p)
                    each[p] = each_from[p] < 0 ? 0.0f : UDO_LOAD(x, plane + each_from[p]);
                xs = vload8(0, each);
            }
            for (int c = 0; c < CHANNELS; ++c) {
#ifdef PACKED
                const float weight = packed[(tap * inputs + i) * CHANNELS + c];
#else
                const float weight = UDO_LOAD(w, filters[c] + i * step + tap);
#endif
                sums[c] += weight * xs;
            }
        }
    }
    for (int c = 0; c < min(CHANNELS, outputs - channel); ++c) {
        const int own = group * outputs + channel + c;
        const int place = (image * groups * outputs + own) * y_len + first;
        float each[PIXELS];
        vstore8(sums[c], 0, each);
        for (int p = 0; p < min(PIXELS, y_len - first); ++p)
            UDO_STORE(y, place + p, udo_finish(each[p], finish_bias, own, residual, place + p, low, high));
    }
}
";

/// The GPU kernel of `C`.
pub(super) struct ConvGpu<C> {
    conv: Conv,
    has_bias: bool,
    channels: usize,
    /// Packed weights, if constant: the channels of a tile are adjacent for each tap and input channel.
    weights: Option<Packed<f32>>,
    /// Elements of the input.
    x_all: usize,
    finish: Finish,
    tile: Tile<Self>,
    marker: PhantomData<fn() -> C>,
}

/// Computes one tile, per element type and tile height.
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

    fn accept(cx: &AcceptCx<'_>) -> Result<usize, Error> {
        Finish::accept(cx, 1)
    }

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let conv = C::read(cx, &cx.input(0)?, &cx.input(1)?)?;
        conv.images().ok_or_else(|| Error::new("the convolution exceeds the address space"))?;
        check_lens(cx)?;
        let is_wide = conv.outputs > 1;
        let tile = of_type!(cx.input(0)?.dtype(), [F32 = f32, F16 = F16], T => {
            let tile: Tile<Self> =
                if is_wide { Self::tile::<T, CHANNELS> } else { Self::tile::<T, 1> };
            tile
        })?;
        let channels = if is_wide { CHANNELS } else { 1 };
        let (has_bias, finish) = (has_bias(cx, &conv)?, Finish::read(cx, 1)?);
        let x = cx.input(0)?;
        let weights = of_type!(x.dtype(), [F32 = f32, F16 = F16], T => if cx.is_constant(1) {
            let Order { recipe, len } = Order::new(&conv, channels)?;
            Some(cx.pack(&[1], &recipe, len, Order::fill::<T>)?)
        } else {
            None
        })?;
        let x_all = x.len();
        Ok(Self { has_bias, conv, channels, weights, x_all, finish, tile, marker: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let &Conv { direction, window, batch, groups, inputs, outputs, .. } = &self.conv;
        let transposed = match direction {
            Direction::Forward => "",
            Direction::Transposed => " -DTRANSPOSED",
        };
        let channels = self.channels;
        // The largest coordinate before the bounds check, which must fit an `int`.
        let padded = (0..3).map(|axis| {
            let inside = window.input[axis].max(window.output[axis]);
            inside.saturating_add(window.pads[axis]).saturating_add(window.end_pads[axis])
        });
        ints(padded)?;
        let sizes = [window.input, window.output, window.kernel, window.strides];
        let sizes = sizes.into_iter().chain([window.dilations, window.pads]).flatten();
        let bias = GpuArg::input(if self.has_bias { 2 } else { 0 });
        let text = format!(
            "{EXACT}{LOAD_VECTORS}{FINISH}{}",
            SOURCE.replace("FINISH_PARAMS", FINISH_PARAMS)
        );
        let finish = self.finish.options();
        let (weights, packed) = match self.weights {
            Some(weights) => (GpuArg::packed(weights), " -DPACKED"),
            None => (GpuArg::input(1), ""),
        };
        let launch = Launch::new(text, "udo_conv")
            .options(format!(
                "-DPIXELS={PIXELS} -DCHANNELS={channels}{transposed}{packed} {finish}"
            ))
            .args([GpuArg::input(0), weights, bias, GpuArg::output(0)])
            .args(ints([usize::from(self.has_bias), self.x_all, groups, inputs, outputs])?)
            .args(ints(sizes)?)
            .args(self.finish.args());
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
        let x = buffers.input::<T>(0)?;
        let bias = if self.has_bias { buffers.input::<T>(2)? } else { &[] };
        let weights = match self.weights {
            Some(weights) => buffers.packed(weights)?,
            None => &[],
        };
        let w = if self.weights.is_some() { &[] } else { buffers.input::<T>(1)? };
        let own: [usize; N] = std::array::from_fn(|c| (channel + c).min(outputs - 1));
        let filters = own.map(|own| Order::place(&self.conv, group, own));
        let step = match direction {
            Direction::Forward => taps,
            Direction::Transposed => outputs * taps,
        };
        let mut sums =
            own.map(|own| [bias.get(group * outputs + own).map_or(0.0, |b| b.number()); PIXELS]);
        for tap in 0..taps {
            let from: [Option<usize>; PIXELS] =
                std::array::from_fn(|p| self.conv.reach((first + p).min(y_len - 1), tap));
            for i in 0..inputs {
                let plane = &x[((image * groups + group) * inputs + i) * x_len..][..x_len];
                let xs = from.map(|from| from.map_or(0.0, |from| plane[from].number()));
                let packed = ((stack * taps + tap) * inputs + i) * N;
                for (c, (sums, filter)) in sums.iter_mut().zip(filters).enumerate() {
                    let weight = match weights.get(packed + c) {
                        Some(&weight) => weight,
                        None => w[filter + i * step + tap].number(),
                    };
                    sums.iter_mut().zip(xs).for_each(|(sum, x)| *sum += weight * x);
                }
            }
        }
        for (c, sums) in sums.iter().enumerate().take(outputs - channel) {
            let own = group * outputs + channel + c;
            let place = (image * groups * outputs + own) * y_len + first;
            for (at, &sum) in (place..).zip(sums.iter().take(y_len - first)) {
                buffers.store(0, at, self.finish.apply(buffers, sum, own, at)?)?;
            }
        }
        Ok(())
    }
}

/// The order of packed weights: tile of channels, tap, input channel, channel within the tile. An incomplete tile
/// repeats its last channel.
struct Order {
    recipe: [u64; 6],
    len: usize,
}

impl Order {
    fn new(conv: &Conv, channels: usize) -> Result<Self, Error> {
        let taps: usize = conv.window.kernel.iter().product();
        let &Conv { groups, outputs, inputs, direction, .. } = conv;
        let sizes = [groups, outputs.div_ceil(channels), taps, inputs, channels];
        let len = sizes.iter().try_fold(1usize, |n, &size| n.checked_mul(size));
        let len = len.ok_or_else(|| Error::new("the weights exceed the address space"))?;
        ints([len])?;
        let is_forward = direction == Direction::Forward;
        let [groups, _, taps, inputs, channels] = sizes.map(|size| size as u64);
        let recipe = [groups, outputs as u64, taps, inputs, channels, u64::from(is_forward)];
        Ok(Self { recipe, len })
    }

    fn fill<T: Storage>(
        recipe: &[u64],
        sources: &Sources<'_>,
        packed: &mut [f32],
    ) -> Result<(), Error> {
        let &[groups, outputs, taps, inputs, channels, is_forward] = recipe else {
            return Err(wrong_recipe(recipe));
        };
        let [groups, outputs, taps, inputs, channels] =
            [groups, outputs, taps, inputs, channels].map(|size| size as usize);
        let w = sources.bytes::<T>(0)?;
        let (filter, step) =
            if is_forward == 1 { (inputs * taps, taps) } else { (taps, outputs * taps) };
        let mut packed = packed.iter_mut();
        for (group, tile) in
            (0..groups).flat_map(|g| (0..outputs.div_ceil(channels)).map(move |t| (g, t)))
        {
            for (tap, i) in (0..taps).flat_map(|tap| (0..inputs).map(move |i| (tap, i))) {
                for c in 0..channels {
                    let own = (tile * channels + c).min(outputs - 1);
                    let from = group * inputs * outputs * taps + own * filter + i * step + tap;
                    let weight = T::of_bytes(w, from).ok_or_else(|| wrong_recipe(recipe))?;
                    if let Some(to) = packed.next() {
                        *to = weight;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the offset of the weights of a group's channel in the model's order.
    fn place(conv: &Conv, group: usize, own: usize) -> usize {
        let taps: usize = conv.window.kernel.iter().product();
        let filter = match conv.direction {
            Direction::Forward => conv.inputs * taps,
            Direction::Transposed => taps,
        };
        group * conv.inputs * conv.outputs * taps + own * filter
    }
}

impl Conv {
    /// Returns the input position that output position `at` reads through a tap, or `None` in the padding.
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
