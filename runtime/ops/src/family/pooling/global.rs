//! Pooling over all spatial positions of a channel, such as `GlobalAveragePool`.

use std::marker::PhantomData;

use udo_api::{
    Core, Dim, Element, Encoding, Error, ExecError, Facts, FinalizeCx, GpuKernel, InferCx, Io,
    Kernel, KernelDef, KernelInfo, Op, OpSchema, Port, PortRule, QuantizedType, Shape, TensorDesc,
    TypeSet, WorkItemFn, input, output_like, types,
};
use udo_simd::pooling::Image;

use crate::Def;
use crate::family::axes::AxisSplit;
use crate::family::gpu::REAL;
use crate::family::layout::LayoutPorts;
use crate::family::partition::row_grain;
use crate::family::reduce::{Reduce, ReducedLanes};

/// A function of a whole channel. The family provides schema, inference, kernels for every core, threading and tests.
pub(crate) trait GlobalPool: Send + Sync + 'static {
    const NAME: &'static str;
    /// Reduces the elements of a channel; at least one.
    const F32: fn(&[f32]) -> f32;
    /// The f64 version.
    const F64: fn(&[f64]) -> f64;
    /// The reduction that the GPU kernel uses.
    type Reduced: Reduce;

    /// Reduces all channels of an image with channels last.
    fn pixels(x: Image<'_, f32>, pixels: usize, y: &mut [f32]);

    /// Reduces quantized elements to a real number.
    fn quantized<T: QuantizedType>(x: &[T], encoding: Encoding) -> f32;
}

/// Defines the operator of the pool `P`.
pub(crate) const fn global_pool<P: GlobalPool>() -> Def {
    let def = Def::new::<Described<P>>(Described::<P>::KERNELS);
    #[cfg(test)]
    let def = def.tested(tests::run_all::<P>);
    def
}

const TYPES: TypeSet = types::F32.or(types::F64).or(types::F16).or(types::U8).or(types::I8);

/// The operator of the pool `P`.
struct Described<P>(PhantomData<fn() -> P>);

impl<P: GlobalPool> Described<P> {
    const KERNELS: &'static [KernelDef] = &[
        KernelDef::new::<Pixels<P>>(P::NAME, Core::CPU)
            .ports(&LayoutPorts::BOTH.apply([input(0, types::F32), output_like(0, 0)])),
        KernelDef::new::<Planes<F32<P>, f32>>(P::NAME, Core::CPU).ports(rules::<f32>()),
        KernelDef::new::<Planes<F64<P>, f64>>(P::NAME, Core::CPU).ports(rules::<f64>()),
        KernelDef::gpu::<OnGpu<P>>(P::NAME).ports(&[input(0, REAL), output_like(0, 0)]),
        KernelDef::new::<Quantized<P, u8>>(P::NAME, Core::DSP_V68).ports(rules::<u8>()),
        KernelDef::new::<Quantized<P, i8>>(P::NAME, Core::DSP_V68).ports(rules::<i8>()),
    ];
}

/// Returns the port rules for channels of `T` on the second axis.
const fn rules<T: Element>() -> &'static [PortRule] {
    struct Rules<T>(PhantomData<fn() -> T>);
    impl<T: Element> Rules<T> {
        const RULES: &'static [PortRule] = &[input(0, T::DTYPE.set()), output_like(0, 0)];
    }
    Rules::<T>::RULES
}

impl<P: GlobalPool> Op for Described<P> {
    const SCHEMA: OpSchema =
        OpSchema::new(P::NAME, &[Port::required("X", TYPES)], &[Port::required("Y", TYPES)], &[])
            .facts(Facts::SAME_ENCODING);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        if x.rank() < 3 {
            return Err(Error::new(format!("input 0 is {x}, expected rank 3 or more")));
        }
        let shape = x.full_shape();
        let dims = shape.iter().enumerate();
        let dims: Vec<Dim> =
            dims.map(|(axis, dim)| if axis < 2 { dim } else { Dim::Fixed(1) }).collect();
        cx.set_output(0, x.with_shape(Shape::from_dims(&dims)?))
    }
}

/// Returns the number of positions per channel, or an error if it is 0.
fn positions(x: &TensorDesc, split: AxisSplit) -> Result<usize, Error> {
    match split.inner {
        0 => Err(Error::new(format!("input 0 is {x}, expected at least one position"))),
        positions => Ok(positions),
    }
}

/// Kernel for images with channels last.
struct Pixels<P> {
    positions: usize,
    channels: usize,
    pool: PhantomData<fn() -> P>,
}

impl<P: GlobalPool> Kernel for Pixels<P> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let split = AxisSplit::at(LayoutPorts::BOTH.described(&x)?.shape(), 1);
        Ok(Self { positions: positions(&x, split)?, channels: split.len, pool: PhantomData })
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let &Self { positions, channels, .. } = self;
        let (x, y) = (io.inputs.get::<f32>(0)?, io.outputs.take::<f32>(0)?);
        let image = positions * channels;
        let images = row_grain(image).checked_div(image).unwrap_or(1);
        io.parallel.chunks_mut(y, images * channels, |chunk, y| {
            let x = x[chunk * images * image..].chunks_exact(image);
            for (data, y) in x.zip(y.chunks_exact_mut(channels)) {
                P::pixels(Image { data, stride: channels }, positions, y);
            }
            Ok(())
        })
    }
}

/// A function of a channel's elements.
trait Plane<T>: Send + Sync + 'static {
    fn pool(x: &[T]) -> T;
}

/// The f32 function of the pool `P`.
struct F32<P>(PhantomData<fn() -> P>);

impl<P: GlobalPool> Plane<f32> for F32<P> {
    fn pool(x: &[f32]) -> f32 {
        (P::F32)(x)
    }
}

/// The f64 function of the pool `P`.
struct F64<P>(PhantomData<fn() -> P>);

impl<P: GlobalPool> Plane<f64> for F64<P> {
    fn pool(x: &[f64]) -> f64 {
        (P::F64)(x)
    }
}

/// Kernel for channels on the second axis.
struct Planes<P, T> {
    /// Elements of a channel.
    plane: usize,
    marker: PhantomData<fn() -> (P, T)>,
}

impl<P: Plane<T>, T: Element> Kernel for Planes<P, T> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        Ok(Self { plane: positions(&x, AxisSplit::at(x.shape(), 1))?, marker: PhantomData })
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let (x, y) = (io.inputs.get::<T>(0)?, io.outputs.take::<T>(0)?);
        let planes = row_grain(self.plane) / self.plane;
        io.parallel.chunks_mut(y, planes, |chunk, y| {
            let x = x[chunk * planes * self.plane..].chunks_exact(self.plane);
            y.iter_mut().zip(x).for_each(|(y, x)| *y = P::pool(x));
            Ok(())
        })
    }
}

/// GPU kernel: one channel per work item.
struct OnGpu<P: GlobalPool>(ReducedLanes<P::Reduced>);

impl<P: GlobalPool> GpuKernel for OnGpu<P> {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|kernel, item, buffers| kernel.0.item(item, buffers));

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let split = AxisSplit::at(x.shape(), 1);
        let (outer, len) = (split.outer * split.len, positions(&x, split)?);
        ReducedLanes::new(cx, AxisSplit { outer, len, inner: 1 }).map(Self)
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        info.push_launch(self.0.launch()?);
        Ok(())
    }
}

/// DSP kernel for channels on the second axis.
struct Quantized<P, T> {
    /// Elements of a channel.
    plane: usize,
    /// Encodings of input and output.
    encodings: [Encoding; 2],
    marker: PhantomData<fn() -> (P, T)>,
}

impl<P: GlobalPool, T: QuantizedType> Kernel for Quantized<P, T> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        // A value without an encoding is an integer: scale 1, zero point 0.
        let encoding =
            |desc: TensorDesc| desc.encoding().unwrap_or(Encoding { scale: 1.0, zero_point: 0 });
        let x = cx.input(0)?;
        let encodings = [encoding(x), encoding(cx.output(0)?)];
        let plane = positions(&x, AxisSplit::at(x.shape(), 1))?;
        Ok(Self { plane, encodings, marker: PhantomData })
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let (x, y) = (io.inputs.get::<T>(0)?, io.outputs.take::<T>(0)?);
        let [x_encoding, y_encoding] = self.encodings;
        for (x, y) in x.chunks_exact(self.plane).zip(y) {
            *y = y_encoding.quantize(P::quantized(x, x_encoding));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::numerics::{
        SUBNORMAL, of_kernels, on_gpu_too, settled_on_any_threads, with,
    };
    use crate::testing::{assert_near, bench, noise, tensor};

    /// Runs all tests of a member.
    pub(super) fn run_all<P: GlobalPool>(name: &str) {
        println!("{name}: a family member");
        for dims in
            [&[2, 3, 5][..], &[2, 3, 4, 5], &[1, 2, 2, 1, 3], &[3, 70, 30, 31], &[0, 2, 1, 1]]
        {
            channels_become_one_element::<P>(dims);
        }
        quantized_channels_become_one_element::<P>();
        nan_stays_in_its_channel::<P>();
        let error = bench(P::NAME).input(tensor(&[2, 2], &[1f32; 4])).error();
        assert_eq!(error, "input 0 is f32[2,2], expected rank 3 or more");
        let error = bench(P::NAME).input(tensor::<f32>(&[1, 2, 0, 2], &[])).error();
        assert!(error.ends_with("expected at least one position"), "{error}");
    }

    fn channels_become_one_element<P: GlobalPool>(dims: &[usize]) {
        let floats = noise(dims.iter().product());
        let doubles: Vec<f64> = floats.iter().copied().map(f64::from).collect();
        let plane = dims[2..].iter().product();
        let expected: Vec<f64> = doubles.chunks(plane).map(P::F64).collect();
        for threads in [1, 3] {
            let run = bench(P::NAME).threads(threads);
            let y = on_gpu_too(&run.clone().input(tensor(dims, &floats)), 1e-5);
            let mut ones = dims.to_vec();
            ones[2..].fill(1);
            assert_eq!(y.dims(), ones);
            assert_near(&y.values::<f32>(), &expected, 1e-5);
            let y = run.input(tensor(dims, &doubles)).one();
            assert_near(&y.values::<f64>(), &expected, 1e-12);
        }
    }

    fn quantized_channels_become_one_element<P: GlobalPool>() {
        let x = [10u8, 11, 11, 11, 0, 0, 255, 255];
        let run = bench(P::NAME).on(Core::DSP_V68);
        let y = run.input(tensor(&[1, 2, 1, 4], &x).encoded(0.5, 10)).output_encoding(0, 0.75, 9);
        let x_encoding = Encoding { scale: 0.5, zero_point: 10 };
        for (x, y) in x.chunks(4).zip(y.one().values::<u8>()) {
            let numbers: Vec<f64> =
                x.iter().map(|&x| f64::from(x_encoding.dequantize(x))).collect();
            let expected =
                Encoding { scale: 0.75, zero_point: 9 }.quantize::<u8>((P::F64)(&numbers) as f32);
            assert_eq!(y, expected);
        }
    }
    fn nan_stays_in_its_channel<P: GlobalPool>() {
        for dims in [[2, 3, 2, 2], [1, 19, 5, 7], [3, 40, 30, 31]] {
            let (x, plane) = (noise(dims.iter().product()), dims[2] * dims[3]);
            let run = |x: &[f32]| bench(P::NAME).input(tensor(&dims, x));
            settled_on_any_threads(&run(&x));
            let plain = of_kernels(&run(&x));
            for at in [0, plane + 1, x.len() - 1] {
                for (y, plain) in of_kernels(&run(&with(&x, at, f32::NAN))).iter().zip(&plain) {
                    for (i, (y, plain)) in y.iter().zip(plain).enumerate() {
                        let is_same_channel = i == at / plane;
                        let actual = if is_same_channel {
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
        let y = bench(P::NAME).input(tensor(&[1, 4, 1], &x)).one();
        assert_eq!(y.values::<f32>(), x, "{}", P::NAME);
    }
}
