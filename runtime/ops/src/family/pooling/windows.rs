//! Pooling of images with channels on the second axis, channel by channel.

use std::marker::PhantomData;

use udo_api::{
    Core, DType, Dim, Element, Encoding, Error, ExecError, Facts, FinalizeCx, InferCx, Inputs, Io,
    Kernel, KernelDef, Node, Op, OpSchema, Outputs, Param, Port, PortRule, QuantizedType,
    TensorDesc, TypeSet, Value, Workspace, input, output_like,
};

use crate::Def;
use crate::family::partition;
use crate::family::window::{Rounding, Taps, Window, sizes};

/// A pooling function. The family provides parameters, schema, inference, kernels, threading and tests.
pub(crate) trait Pool: Sized + Send + Sync + 'static {
    const NAME: &'static str;
    const TYPES: TypeSet;
    /// Further outputs, of type i64 and the shape of the first.
    const MORE_OUTPUTS: &'static [Port] = &[];
    /// Parameters in addition to those of every window, at most two.
    const PARAMS: &'static [Param] = &[];
    /// States that outputs are in the range of the input; true for maxima and means, but not for sums.
    const FACTS: Facts = Facts::SAME_ENCODING;
    /// Built by [`super::pixels`], [`windows`] and [`stored_windows`].
    const KERNELS: &'static [KernelDef];
    /// The output for a window of a single element.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests hold the windows against it"))]
    const OF_ONE: fn(f32) -> f32 = |x| x;
    /// The f64 reference: pools the taps inside the input, with default parameters.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests hold the windows against it"))]
    const TEST: fn(&[f64]) -> f64;

    /// Reads the parameters.
    fn read(cx: &FinalizeCx<'_>, window: &Window) -> Result<Self, Error>;
}

/// A pool of `T` that accumulates a window's elements one after the other.
pub(crate) trait FoldWindow<T>: Pool {
    /// The initial value.
    const START: T;

    /// Maps an element before accumulation.
    fn take(&self, x: T) -> T {
        x
    }

    /// Combines a result with a mapped element, or two partial results.
    fn fold(&self, result: T, x: T) -> T;

    /// Finishes the result of the window at a position.
    fn finish(&self, _window: &Window, result: T, _taps: [Taps; 3], _at: [usize; 3]) -> T {
        result
    }

    /// Writes the further outputs.
    fn write_more(
        &self,
        _window: &Window,
        _inputs: &Inputs<'_>,
        _outputs: &mut Outputs<'_>,
    ) -> Result<(), ExecError> {
        Ok(())
    }
}

/// Defines the operator of the pool `P`.
pub(crate) const fn pool<P: Pool>() -> Def {
    let def = Def::new::<Described<P>>(P::KERNELS);
    #[cfg(test)]
    let def = def.tested(tests::run_all::<P>);
    def
}

struct Described<P>(PhantomData<fn() -> P>);

/// The parameters of every window.
const PARAMS: [Param; 6] = [
    Param::tensor("kernel_shape", DType::I64),
    Param::text("auto_pad").default(Value::text("NOTSET")),
    Param::scalar("ceil_mode", DType::I64).default(Value::int(0)),
    Param::tensor("dilations", DType::I64).optional(),
    Param::tensor("pads", DType::I64).optional(),
    Param::tensor("strides", DType::I64).optional(),
];

impl<P: Pool> Described<P> {
    const PARAMS: [Param; 8] = {
        let [a, b, c, d, e, f] = PARAMS;
        let mut all = [a, b, c, d, e, f, f, f];
        let mut i = 0;
        while i < P::PARAMS.len() {
            all[PARAMS.len() + i] = P::PARAMS[i];
            i += 1;
        }
        all
    };
    const OUTPUTS: [Port; 2] = {
        let first = Port::required("Y", P::TYPES);
        if P::MORE_OUTPUTS.is_empty() { [first; 2] } else { [first, P::MORE_OUTPUTS[0]] }
    };
}

impl<P: Pool> Op for Described<P> {
    const SCHEMA: OpSchema = OpSchema::new(
        P::NAME,
        &[Port::required("X", P::TYPES)],
        Self::OUTPUTS.split_at(1 + P::MORE_OUTPUTS.len()).0,
        Self::PARAMS.split_at(PARAMS.len() + P::PARAMS.len()).0,
    )
    .facts(P::FACTS);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let channels = x.full_shape().dim(1).unwrap_or(Dim::Fixed(1));
        let shape = window(cx, &x)?.output_shape(&x, channels)?;
        let dtype = x.dtype().filter(|_| !P::FACTS.has(Facts::SAME_ENCODING));
        let without_encoding = dtype.map(|dtype| TensorDesc::new(dtype, shape));
        cx.set_output(0, without_encoding.unwrap_or_else(|| x.with_shape(shape)))?;
        let indices = TensorDesc::new(DType::I64, shape);
        (1..cx.output_count()).try_for_each(|port| cx.set_output(port, indices))
    }
}

/// Returns the windows of a pooling node over `x`.
pub(super) fn window(node: &Node<'_>, x: &TensorDesc) -> Result<Window, Error> {
    let kernel = sizes(node, "kernel_shape", x.rank().saturating_sub(2), 1)?;
    let rounding = if node.flag("ceil_mode")? { Rounding::Ceil } else { Rounding::Floor };
    Window::read(node, x, &kernel, rounding)
}

/// Returns the kernel on `core` for elements of type `T`.
pub(crate) const fn windows<P: FoldWindow<T>, T: Element>(core: Core) -> KernelDef {
    KernelDef::new::<Windows<P, T>>(P::NAME, core).ports(Windows::<P, T>::RULES)
}

/// The most threads that share the channels; each needs a line buffer.
const MOST_THREADS: usize = 8;

/// Kernel of the pool `P` for elements of type `T`, channels second.
struct Windows<P, T> {
    pool: P,
    window: Window,
    marker: PhantomData<fn() -> T>,
}

impl<P, T: Element> Windows<P, T> {
    const RULES: &'static [PortRule] = &[input(0, T::DTYPE.set()), output_like(0, 0)];
}

impl<P: FoldWindow<T>, T: Element> Kernel for Windows<P, T> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let window = window(cx, &cx.input(0)?)?;
        Ok(Self { pool: P::read(cx, &window)?, window, marker: PhantomData })
    }

    fn workspace(&self) -> Workspace {
        Workspace::for_elements::<T>(MOST_THREADS.saturating_mul(self.window.input[2]))
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, mut scratch, parallel, .. } = io;
        let (x, y) = (inputs.get::<T>(0)?, outputs.take::<T>(0)?);
        let (in_len, out_len) = (self.window.input_len(), self.window.output_len());
        if !y.is_empty() {
            let cols = self.window.input[2];
            let lines = scratch.take::<T>(MOST_THREADS * cols)?;
            let work = y.len().saturating_mul(self.window.kernel.iter().product());
            let planes = y.len() / out_len;
            let threads = partition::threads(parallel, work).min(MOST_THREADS);
            let chunk_planes = planes.div_ceil(threads);
            let chunk_len = chunk_planes * out_len;
            parallel.chunks_mut_with(y, chunk_len, lines, cols, |chunk, y, line| {
                self.fold(&x[chunk * chunk_planes * in_len..], y, line);
                Ok(())
            })?;
        }
        self.pool.write_more(&self.window, &inputs, &mut outputs)
    }
}

impl<P: FoldWindow<T>, T: Element> Windows<P, T> {
    /// Writes each element of `y` from its window in its plane of `x`.
    ///
    /// Folds the lines of a window into `line` first, element by element over all columns: vertically overlapping work
    /// is done once per window row, and the loop vectorizes. Needs one element of `line` per input column.
    fn fold(&self, x: &[T], y: &mut [T], line: &mut [T]) {
        let Self { pool, window, .. } = self;
        let (in_len, out_len) = (window.input_len(), window.output_len());
        let [_, rows, cols] = window.input;
        let [_, height, breadth] = window.output;
        let [outer_step, middle_step, step] = window.dilations;
        for (index, y) in y.chunks_exact_mut(breadth).enumerate() {
            // An empty plane still has windows, in the padding.
            let (plane, row) = (index / (out_len / breadth), index % (out_len / breadth));
            let plane = &x[plane * in_len..][..in_len];
            let (z, row) = (row / height, row % height);
            let (outer, middle) = (window.taps(0, z), window.taps(1, row));
            line.fill(P::START);
            for d in 0..outer.len {
                for r in 0..middle.len {
                    let input_row =
                        (outer.first + d * outer_step) * rows + middle.first + r * middle_step;
                    let values = &plane[input_row * cols..][..cols];
                    line.iter_mut()
                        .zip(values)
                        .for_each(|(sum, &x)| *sum = pool.fold(*sum, pool.take(x)));
                }
            }
            for (col, y) in y.iter_mut().enumerate() {
                let taps = window.taps(2, col);
                let values = line.get(taps.first..).unwrap_or(&[]);
                let values = values.iter().step_by(step).take(taps.len);
                let sum = values.fold(P::START, |sum, &x| pool.fold(sum, x));
                *y = pool.finish(window, sum, [outer, middle, taps], [z, row, col]);
            }
        }
    }
}

/// Returns the DSP kernel that dequantizes elements of `T` while pooling, for outputs with an encoding of their own.
pub(crate) const fn stored_windows<P: FoldWindow<f32>, T: QuantizedType>() -> KernelDef {
    KernelDef::new::<Stored<P, T>>(P::NAME, Core::DSP_V68).ports(Windows::<P, T>::RULES)
}

/// DSP kernel of the pool `P` for quantized elements of type `T`.
struct Stored<P, T> {
    pool: P,
    window: Window,
    /// Encodings of input and output.
    encodings: [Encoding; 2],
    marker: PhantomData<fn() -> T>,
}

impl<P: FoldWindow<f32>, T: QuantizedType> Kernel for Stored<P, T> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let (x, y) = (cx.input(0)?, cx.output(0)?);
        let no_encoding = |what: &str| Error::new(format!("{what} has no encoding"));
        let encodings = [
            x.encoding().ok_or_else(|| no_encoding("input 0"))?,
            y.encoding().ok_or_else(|| no_encoding("output 0"))?,
        ];
        let window = window(cx, &x)?;
        Ok(Self { pool: P::read(cx, &window)?, window, encodings, marker: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Self { pool, window, encodings: [x_encoding, y_encoding], .. } = self;
        let Io { inputs, mut outputs, parallel, .. } = io;
        let (x, y) = (inputs.get::<T>(0)?, outputs.take::<T>(0)?);
        let (in_len, out_len) = (window.input_len(), window.output_len());
        if y.is_empty() {
            return Ok(());
        }
        let work = y.len().saturating_mul(window.kernel.iter().product());
        let chunk_planes = (y.len() / out_len).div_ceil(partition::threads(parallel, work));
        parallel.chunks_mut(y, chunk_planes * out_len, |chunk, y| {
            each_window(window, &x[chunk * chunk_planes * in_len..], y, |plane, taps, at| {
                let sum = fold_places(window, taps, P::START, |sum, place| {
                    pool.fold(sum, pool.take(x_encoding.dequantize(plane[place])))
                });
                y_encoding.quantize(pool.finish(window, sum, taps, at))
            });
            Ok(())
        })
    }
}

/// Writes each element of `y` as `compute(plane, taps, position)`: its plane of `x`, the taps of its window, and its
/// position in the output plane.
pub(crate) fn each_window<X, Y>(
    window: &Window,
    x: &[X],
    y: &mut [Y],
    compute: impl Fn(&[X], [Taps; 3], [usize; 3]) -> Y,
) {
    let (in_len, out_len) = (window.input_len(), window.output_len());
    if out_len == 0 {
        return;
    }
    let [_, height, breadth] = window.output;
    for (plane, y) in y.chunks_exact_mut(out_len).enumerate() {
        // An empty plane still has windows, in the padding.
        let x = &x[plane * in_len..][..in_len];
        for (i, y) in y.iter_mut().enumerate() {
            let at = [i / (height * breadth), i / breadth % height, i % breadth];
            let taps = [window.taps(0, at[0]), window.taps(1, at[1]), window.taps(2, at[2])];
            *y = compute(x, taps, at);
        }
    }
}

/// Folds over the positions in a plane of the window's taps inside the input.
#[inline]
pub(crate) fn fold_places<S>(
    window: &Window,
    [outer, middle, inner]: [Taps; 3],
    start: S,
    mut fold: impl FnMut(S, usize) -> S,
) -> S {
    let [_, rows, cols] = window.input;
    let [outer_step, middle_step, inner_step] = window.dilations;
    let mut sum = start;
    for d in 0..outer.len {
        for r in 0..middle.len {
            let row = (outer.first + d * outer_step) * rows + middle.first + r * middle_step;
            for c in 0..inner.len {
                sum = fold(sum, row * cols + inner.first + c * inner_step);
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::numerics::{
        SUBNORMAL, of_kernels, on_gpu_too, settled_on_any_threads, with,
    };
    use crate::testing::{Bench, assert_near, bench, noise, tensor};

    /// Windows over two axes of the same extent.
    #[derive(Clone, Copy, Debug)]
    struct Case {
        extent: usize,
        channels: usize,
        kernel: usize,
        stride: usize,
        pads: [usize; 2],
        dilation: usize,
        ceil: i64,
    }

    const PLAIN: Case =
        Case { extent: 5, channels: 2, kernel: 2, stride: 1, pads: [0; 2], dilation: 1, ceil: 0 };

    /// Runs all tests of a member.
    pub(super) fn run_all<P: Pool>(name: &str) {
        println!("{name}: a family member");
        let cases = [
            (PLAIN, 4),
            (Case { kernel: 3, stride: 2, pads: [1, 1], ..PLAIN }, 3),
            (Case { stride: 2, ceil: 1, ..PLAIN }, 3),
            (Case { dilation: 2, ..PLAIN }, 3),
            (Case { stride: 2, pads: [1, 0], ceil: 1, ..PLAIN }, 3),
            (Case { extent: 47, channels: 35, kernel: 3, ..PLAIN }, 45),
            (Case { extent: 2, kernel: 3, stride: 2, ceil: 1, ..PLAIN }, 1),
        ];
        for (case, out) in cases {
            windows_match_the_definition::<P>(case, out);
        }
        windows_larger_than_the_input_are_refused::<P>();
        one_and_three_axes_match_the_definition::<P>();
        nan_stays_in_its_windows::<P>();
    }

    fn bench_with(
        run: Bench,
        Case { kernel, stride, pads: [pad, end], dilation, ceil, .. }: Case,
    ) -> Bench {
        run.ints("kernel_shape", &[kernel as i64; 2])
            .ints("strides", &[stride as i64; 2])
            .ints("pads", &[pad, pad, end, end].map(|pad| pad as i64))
            .ints("dilations", &[dilation as i64; 2])
            .int("ceil_mode", ceil)
    }

    fn windows_larger_than_the_input_are_refused<P: Pool>() {
        for (ceil, stride) in [(0, 2), (1, 1)] {
            let case = Case { extent: 2, channels: 1, kernel: 3, stride, ceil, ..PLAIN };
            let x = tensor(&[1, 1, 2, 2], &noise(4));
            let error = bench_with(bench(P::NAME).input(x), case).error();
            assert!(error.contains("is larger than the padded input [1, 2, 2]"), "{error}");
        }
    }

    fn windows_match_the_definition<P: Pool>(case: Case, out: usize) {
        let Case { extent, channels, kernel, stride, pads: [pad, _], dilation, .. } = case;
        let dims = [2, channels, extent, extent];
        let floats = noise(dims.iter().product());
        let mut expected = Vec::new();
        for at in 0..2 * channels * out * out {
            let (plane, row, col) = (at / (out * out), at / out % out, at % out);
            let taps = (0..kernel * kernel).filter_map(|tap| {
                let row = (row * stride + tap / kernel * dilation).checked_sub(pad)?;
                let col = (col * stride + tap % kernel * dilation).checked_sub(pad)?;
                let inside = row < extent && col < extent;
                inside.then(|| f64::from(floats[(plane * extent + row) * extent + col]))
            });
            expected.push((P::TEST)(&taps.collect::<Vec<_>>()));
        }
        let doubles: Vec<f64> = floats.iter().copied().map(f64::from).collect();
        for threads in [1, 3] {
            let run = bench(P::NAME).threads(threads);
            let f32_run = bench_with(run.clone().input(tensor(&dims, &floats)), case);
            let has_gpu = P::KERNELS.iter().any(|kernel| kernel.core() == Core::GPU);
            let y = if has_gpu { on_gpu_too(&f32_run, 1e-6) } else { f32_run.one() };
            assert_eq!(y.dims(), [2, channels, out, out], "{case:?}");
            assert_near(&y.values::<f32>(), &expected, 1e-6);
            let y = bench_with(run.input(tensor(&dims, &doubles)), case).one();
            assert_near(&y.values::<f64>(), &expected, 1e-12);
        }
    }

    fn one_and_three_axes_match_the_definition<P: Pool>() {
        let x = noise(16);
        let expected_for = |taps: &[usize]| {
            (P::TEST)(&taps.iter().map(|&at| f64::from(x[at])).collect::<Vec<_>>())
        };
        let run = bench(P::NAME).input(tensor(&[1, 4, 4], &x)).ints("kernel_shape", &[4]);
        let expected = [0, 4, 8, 12].map(|at| expected_for(&[at, at + 1, at + 2, at + 3]));
        assert_near(&run.one().values::<f32>(), &expected, 1e-6);
        let run =
            bench(P::NAME).input(tensor(&[1, 1, 2, 2, 4], &x)).ints("kernel_shape", &[2, 1, 3]);
        let y = run.ints("strides", &[1, 1, 3]).int("ceil_mode", 1).one();
        assert_eq!(y.dims(), [1, 1, 1, 2, 2]);
        let expected = [
            expected_for(&[0, 1, 2, 8, 9, 10]),
            expected_for(&[3, 11]),
            expected_for(&[4, 5, 6, 12, 13, 14]),
            expected_for(&[7, 15]),
        ];
        assert_near(&y.values::<f32>(), &expected, 1e-6);
        let error = bench(P::NAME).input(tensor(&[2], &x[..2])).ints("kernel_shape", &[]).error();
        assert_eq!(error, "input 0 is f32[2], expected rank 3 to 5");
    }

    /// Checks every layout and thread count, and that infinities and denormals are ordinary values.
    fn nan_stays_in_its_windows<P: Pool>() {
        for (channels, extent) in [(2, 5), (19, 9), (35, 11)] {
            let dims = [2, channels, extent, extent];
            let out = extent - 2;
            let x = noise(dims.iter().product());
            let run =
                |x: &[f32]| bench(P::NAME).input(tensor(&dims, x)).ints("kernel_shape", &[3, 3]);
            settled_on_any_threads(&run(&x));
            let plain = of_kernels(&run(&x));
            for at in [0, extent + 1, x.len() / 2 + 2, x.len() - 1] {
                let (plane, row, col) = (at / (extent * extent), at / extent % extent, at % extent);
                let contains_nan = |i: usize| {
                    let (r, c) = (i / out % out, i % out);
                    i / (out * out) == plane
                        && (r..r + 3).contains(&row)
                        && (c..c + 3).contains(&col)
                };
                for (y, plain) in of_kernels(&run(&with(&x, at, f32::NAN))).iter().zip(&plain) {
                    for (i, (y, plain)) in y.iter().zip(plain).enumerate() {
                        let actual = if contains_nan(i) {
                            y.is_nan()
                        } else {
                            y.to_bits() == plain.to_bits()
                        };
                        assert!(actual, "{} with a NaN at {at} of {dims:?}: {y} at {i}", P::NAME);
                    }
                }
            }
        }
        let x = [SUBNORMAL, -SUBNORMAL, f32::INFINITY, f32::NEG_INFINITY];
        let y = bench(P::NAME).input(tensor(&[1, 1, 4], &x)).ints("kernel_shape", &[1]).one();
        assert_eq!(y.values::<f32>(), x.map(P::OF_ONE), "{}", P::NAME);
    }
}
