//! Elementwise operators of a bool and two elements, such as Where, with NumPy broadcasting.

use std::marker::PhantomData;

use udo_api::{
    Bits, Bool, Core, Element, Encoding, Error, ExecError, Facts, FinalizeCx, InferCx, Io, Kernel,
    KernelDef, Op, OpSchema, Port, PortRule, QuantizedType, TensorDesc, input, input_like,
    output_like, types,
};

use super::gpu::TernaryGpu;
use super::operands::{Run, plan, run_with};
use super::{Broadcast, QUANTIZED, broadcast_shapes};
use crate::Def;

/// A function of a bool and two elements. The family provides schema, inference, kernels for every core, and tests.
pub(crate) trait Ternary: Send + Sync + 'static {
    const NAME: &'static str;
    /// Names of inputs and output.
    const PORTS: [&'static str; 4];
    /// An OpenCL expression of the bool `c` and the elements `a` and `b`, which are loaded as unsigned integers.
    const OPENCL: &'static str;

    /// Evaluates the function.
    fn apply<T: Element>(c: bool, a: T, b: T) -> T;
}

/// Defines the operator of the function `F`.
pub(crate) const fn ternary<F: Ternary>() -> Def {
    let def = Def::new::<Described<F>>(Kernels::<F>::ALL);
    #[cfg(test)]
    let def = def.tested(tests::run_all::<F>);
    def
}

/// The operator of the function `F`.
struct Described<F>(PhantomData<fn() -> F>);

impl<F: Ternary> Op for Described<F> {
    const SCHEMA: OpSchema = OpSchema::new(
        F::NAME,
        &[
            Port::required(F::PORTS[0], types::BOOL),
            Port::required(F::PORTS[1], types::ANY),
            Port::required(F::PORTS[2], types::ANY),
        ],
        &[Port::required(F::PORTS[3], types::ANY)],
        &[],
    )
    .facts(Facts::ELEMENTWISE);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let [c, a, b] = [cx.input(0)?, cx.input(1)?, cx.input(2)?];
        let Some(dtype) = a.dtype().filter(|_| a.dtype() == b.dtype()) else {
            return Err(Error::new(format!(
                "inputs are {a} and {b}, expected equal element types"
            )));
        };
        let shape = broadcast_shapes(a.full_shape(), b.full_shape())?;
        let shape = broadcast_shapes(c.full_shape(), shape)?;
        cx.set_output(0, TensorDesc::new(dtype, shape))
    }
}

/// The kernels of the function `F`.
struct Kernels<F>(PhantomData<fn() -> F>);

impl<F: Ternary> Kernels<F> {
    const ALL: &'static [KernelDef] =
        &[AnyKernel::<F>::DEF, TernaryGpu::<F>::DEF, QuantKernel::<F>::DEF];
}

/// The CPU kernel of `F` for any element type.
struct AnyKernel<F> {
    /// The broadcasting, if all extents are known before the run.
    fixed: Option<Broadcast<3>>,
    run: Run<3>,
    marker: PhantomData<fn() -> F>,
}

impl<F: Ternary> AnyKernel<F> {
    const DEF: KernelDef = {
        const RULES: &[PortRule] = &[
            input(0, types::BOOL).bounded(),
            input(1, types::ANY).bounded(),
            input_like(2, 1).bounded(),
            output_like(0, 1).bounded(),
        ];
        KernelDef::new::<Self>(F::NAME, Core::CPU).ports(RULES)
    };
}

impl<F: Ternary> Kernel for AnyKernel<F> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let run = of_width!(cx.input(1)?.dtype(), B => {
            let run: Run<3> = |plan, io| execute(plan, io, F::apply::<B>);
            run
        })?;
        Ok(Self { fixed: plan(cx)?, run, marker: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        run_with(self.fixed.as_ref(), io, self.run)
    }
}

fn execute<B: Bits>(
    plan: &Broadcast<3>,
    io: &mut Io<'_>,
    function: impl Fn(bool, B, B) -> B + Sync,
) -> Result<(), ExecError> {
    let (a, b) = (io.inputs.get_bits::<B>(1)?, io.inputs.get_bits::<B>(2)?);
    let operands = (io.inputs.get::<Bool>(0)?, a, b);
    let y = io.outputs.take_bits::<B>(0)?;
    plan.apply_shared(io.parallel, operands, y, |c, a, b| function(c.get(), a, b))
}

/// The DSP kernel of `F` for 8-bit quantized values.
struct QuantKernel<F> {
    plan: Broadcast<3>,
    /// Encodings of both elements and of the output.
    encodings: [Encoding; 3],
    /// The kernel for the element type.
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
    marker: PhantomData<fn() -> F>,
}

impl<F: Ternary> QuantKernel<F> {
    const DEF: KernelDef = {
        const RULES: &[PortRule] =
            &[input(0, types::BOOL), input(1, QUANTIZED), input_like(2, 1), output_like(0, 1)];
        KernelDef::new::<Self>(F::NAME, Core::DSP_V68).ports(RULES)
    };
}

impl<F: Ternary> Kernel for QuantKernel<F> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let no_encoding = |what: &str| Error::new(format!("{what} has no encoding"));
        let encodings = [
            cx.input(1)?.encoding().ok_or_else(|| no_encoding("input 1"))?,
            cx.input(2)?.encoding().ok_or_else(|| no_encoding("input 2"))?,
            cx.output(0)?.encoding().ok_or_else(|| no_encoding("output 0"))?,
        ];
        let plan = plan(cx)?
            .ok_or_else(|| Error::new("an input has a bounded shape, expected fixed shapes"))?;
        let run =
            of_type!(cx.input(1)?.dtype(), [U8 = u8, I8 = i8], T => execute_quantized::<F, T>)?;
        Ok(Self { plan, encodings, run, marker: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

fn execute_quantized<F: Ternary, T: QuantizedType>(
    kernel: &QuantKernel<F>,
    mut io: Io<'_>,
) -> Result<(), ExecError> {
    let [a_encoding, b_encoding, y_encoding] = kernel.encodings;
    let Io { inputs, outputs, parallel, .. } = &mut io;
    let operands = (inputs.get::<Bool>(0)?, inputs.get::<T>(1)?, inputs.get::<T>(2)?);
    kernel.plan.apply_shared(*parallel, operands, outputs.take::<T>(0)?, |c, a, b| {
        y_encoding.quantize(F::apply(c.get(), a_encoding.dequantize(a), b_encoding.dequantize(b)))
    })
}

#[cfg(test)]
mod tests {
    use udo_api::{Dim, F16};

    use super::*;
    use crate::family::numerics::edges;
    use crate::family::partition::GRAIN;
    use crate::testing::{Bench, Tensor, bench, noise, tensor};

    /// Runs all tests of a member.
    pub(super) fn run_all<F: Ternary>(name: &str) {
        println!("{name}: a family member");
        three_shapes_broadcast::<F>();
        every_type_matches_the_definition::<F>();
        large_tensors_are_divided_among_threads::<F>();
        bounded_shapes_are_read_in_the_run::<F>();
        quantized_values_are_dequantized_and_quantized::<F>();
        mismatched_inputs_are_reported::<F>();
        elements_are_copied_bit_by_bit::<F>();
    }

    fn bools(values: &[u8]) -> Vec<Bool> {
        values.iter().map(|&c| Bool::from(c != 0)).collect()
    }

    fn node<F: Ternary>(c: Tensor, a: Tensor, b: Tensor) -> Bench {
        bench(F::NAME).input(c).input(a).input(b)
    }

    fn three_shapes_broadcast<F: Ternary>() {
        let c = bools(&[1, 0]);
        let (a, b) = ([1f32, 2.0, 3.0], [-1f32, -2.0, -3.0, -4.0, -5.0, -6.0]);
        let y = node::<F>(tensor(&[2, 1], &c), tensor(&[3], &a), tensor(&[2, 3], &b)).one();
        let expected: Vec<f32> = (0..6).map(|i| F::apply(c[i / 3].get(), a[i % 3], b[i])).collect();
        assert_eq!((y.dims(), y.values::<f32>()), (vec![2, 3], expected));
        let c = bools(&[1, 0, 0]);
        for core in [Core::CPU, Core::GPU] {
            let (c_tensor, a_tensor) = (tensor(&[3], &c), tensor(&[3], &a));
            let y = node::<F>(c_tensor, a_tensor, tensor(&[], &[7f32])).on(core).one();
            let expected: Vec<f32> = (0..3).map(|i| F::apply(c[i].get(), a[i], 7.0)).collect();
            assert_eq!(y.values::<f32>(), expected, "{core}");
        }
        let f16_tensor = |x: [f32; 3]| tensor(&[3], &x.map(F16::from_f32));
        let y =
            node::<F>(tensor(&[3], &c), f16_tensor(a), f16_tensor([0.5; 3])).on(Core::GPU).one();
        let expected: Vec<F16> =
            (0..3).map(|i| F16::from_f32(F::apply(c[i].get(), a[i], 0.5))).collect();
        assert_eq!(y.values::<F16>(), expected);
        let empty = node::<F>(tensor(&[1], &c[..1]), tensor::<i8>(&[0], &[]), tensor(&[], &[1i8]));
        assert_eq!(empty.one().dims(), [0]);
    }

    fn every_type_matches_the_definition<F: Ternary>() {
        fn check<F: Ternary, T: Element + PartialEq>(a: T, b: T) {
            let c = bools(&[1, 0]);
            let run = node::<F>(tensor(&[2], &c), tensor(&[], &[a]), tensor(&[2], &[b; 2]));
            for core in [Core::CPU, Core::GPU] {
                let y = run.clone().on(core).one();
                assert_eq!(
                    y.values::<T>(),
                    [F::apply(true, a, b), F::apply(false, a, b)],
                    "{core}"
                );
            }
        }
        check::<F, _>(1f64, -2.0);
        check::<F, _>(F16(3), F16(4));
        check::<F, _>(Bool::from(true), Bool::from(false));
        check::<F, _>(7u8, 9);
        check::<F, _>(-7i16, 9);
        check::<F, _>(i64::MIN, i64::MAX);
    }

    fn large_tensors_are_divided_among_threads<F: Ternary>() {
        let (rows, cols) = (GRAIN / 3, 7);
        let (a, b) = (noise(rows * cols), noise(cols));
        let c: Vec<Bool> = (0..rows).map(|i| Bool::from(i % 3 == 0)).collect();
        let c_tensor = tensor(&[rows, 1], &c);
        let y =
            node::<F>(c_tensor, tensor(&[rows, cols], &a), tensor(&[cols], &b)).threads(3).one();
        let expected_at = |i: usize| F::apply(c[i / cols].get(), a[i], b[i % cols]);
        assert!(y.values::<f32>() == (0..a.len()).map(expected_at).collect::<Vec<_>>());
    }

    fn bounded_shapes_are_read_in_the_run<F: Ternary>() {
        let c = bools(&[1, 0]);
        let a = tensor(&[2], &[1i32, 2]).bounded(&[Dim::UpTo(5)]);
        let y =
            node::<F>(tensor(&[2], &c).bounded(&[Dim::UpTo(5)]), a, tensor(&[1], &[9i32])).one();
        assert_eq!(y.desc().full_shape().to_string(), "[<=5]");
        assert_eq!(y.values::<i32>(), [F::apply(true, 1, 9), F::apply(false, 2, 9)]);
    }

    fn quantized_values_are_dequantized_and_quantized<F: Ternary>() {
        let c = tensor(&[2], &bools(&[1, 0]));
        let a = tensor(&[2], &[10u8, 20]).encoded(0.5, 0);
        let run = node::<F>(c, a, tensor(&[], &[12u8]).encoded(1.0, 2)).on(Core::DSP_V68);
        let y_encoding = Encoding { scale: 0.25, zero_point: 1 };
        let y = run.clone().output_encoding(0, y_encoding.scale, y_encoding.zero_point).one();
        let expected = [F::apply(true, 5.0f32, 10.0), F::apply(false, 10.0, 10.0)];
        assert_eq!(y.values::<u8>(), expected.map(|y| y_encoding.quantize::<u8>(y)));
        assert_eq!(run.error(), "output 0 has no encoding");
    }

    fn mismatched_inputs_are_reported<F: Ternary>() {
        let c = || tensor(&[2], &bools(&[1, 0]));
        let run = node::<F>(c(), tensor(&[2], &[1f32; 2]), tensor(&[2], &[1f64; 2]));
        assert_eq!(run.error(), "inputs are f32[2] and f64[2], expected equal element types");
        let run = node::<F>(c(), tensor(&[3], &[1f32; 3]), tensor(&[], &[1f32]));
        assert_eq!(run.error(), "shapes [2] and [3] do not broadcast");
    }

    fn elements_are_copied_bit_by_bit<F: Ternary>() {
        // Includes signalling NaNs with payloads.
        let a: Vec<f32> = (0..67).map(|i| f32::from_bits(0xff80_0001 + i)).collect();
        let (b, c) = (edges(0, 67), [true, false].map(Bool::from));
        let c: Vec<Bool> = c.iter().copied().cycle().take(67).collect();
        let y = node::<F>(tensor(&[67], &c), tensor(&[67], &a), tensor(&[67], &b)).one();
        let expected = (0..67).map(|i| F::apply(c[i].get(), a[i].to_bits(), b[i].to_bits()));
        let y: Vec<u32> = y.values::<f32>().into_iter().map(f32::to_bits).collect();
        assert_eq!(y, expected.collect::<Vec<_>>());
    }
}
