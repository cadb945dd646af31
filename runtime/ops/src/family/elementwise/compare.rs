//! Elementwise comparisons of two operands, such as Less, with NumPy broadcasting and bool output.

use std::marker::PhantomData;

use udo_api::{
    Bool, Core, DType, Element, Encoding, Error, ExecError, FinalizeCx, InferCx, Io, Kernel,
    KernelDef, Op, OpSchema, Port, PortRule, QuantizedType, TensorDesc, TypeSet, input, input_like,
    output, types,
};

use super::binary::broadcast_inputs;
use super::gpu::CompareGpu;
use super::operands::{Run, plan, run_with};
use super::rows::{Bools, Computed, PairPredicate, compare_blocks};
use super::{Broadcast, QUANTIZED};
use crate::Def;

/// A comparison. The family provides schema, inference, kernels for every core, and tests.
pub(crate) trait Compare: PairPredicate {
    const NAME: &'static str;
    /// The types that the CPU kernel supports.
    const TYPES: TypeSet = types::NUMBERS;
    /// An OpenCL expression of the floats `a` and `b`.
    const OPENCL: &'static str;
}

/// Defines the operator of the comparison `C`.
pub(crate) const fn compare<C: Compare>() -> Def {
    let def = Def::new::<Described<C>>(Kernels::<C>::ALL);
    #[cfg(test)]
    let def = def.tested(tests::run_all::<C>);
    def
}

/// The operator of the comparison `C`.
struct Described<C>(PhantomData<fn() -> C>);

impl<C: Compare> Described<C> {
    const IN: &'static [Port] = &[Port::required("A", C::TYPES), Port::required("B", C::TYPES)];
}

impl<C: Compare> Op for Described<C> {
    const SCHEMA: OpSchema = {
        const OUT: &[Port] = &[Port::required("C", types::BOOL)];
        OpSchema::new(C::NAME, Self::IN, OUT, &[])
    };

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (_, shape) = broadcast_inputs(cx)?;
        cx.set_output(0, TensorDesc::new(DType::Bool, shape))
    }
}

/// The kernels of the comparison `C`.
struct Kernels<C>(PhantomData<fn() -> C>);

impl<C: Compare> Kernels<C> {
    const ALL: &'static [KernelDef] =
        &[NumberKernel::<C>::DEF, CompareGpu::<C>::DEF, QuantKernel::<C>::DEF];
}

/// The CPU kernel of `C`.
struct NumberKernel<C> {
    /// The broadcasting, if all extents are known before the run.
    fixed: Option<Broadcast>,
    /// The kernel for the element type.
    run: Run,
    marker: PhantomData<fn() -> C>,
}

impl<C: Compare> NumberKernel<C> {
    const RULES: &'static [PortRule] = &[
        input(0, C::TYPES).bounded(),
        input_like(1, 0).bounded(),
        output(0, types::BOOL).bounded(),
    ];
    const DEF: KernelDef = KernelDef::new::<Self>(C::NAME, Core::CPU).ports(Self::RULES);
}

impl<C: Compare> Kernel for NumberKernel<C> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let run = of_any!(cx.input(0)?.dtype(), T => {
            let run: Run = |plan, io| execute::<T>(T::bools::<C>(), plan, io);
            run
        })?;
        Ok(Self { fixed: plan(cx)?, run, marker: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        run_with(self.fixed.as_ref(), io, self.run)
    }
}

fn execute<T: Element>(
    compare_rows: Bools<T>,
    plan: &Broadcast,
    io: &mut Io<'_>,
) -> Result<(), ExecError> {
    let operands = (io.inputs.get::<T>(0)?, io.inputs.get::<T>(1)?);
    let y = io.outputs.take::<Bool>(0)?;
    plan.rows(io.parallel, operands, y, &compare_rows)
}

/// The DSP kernel of `C` for 8-bit quantized values.
struct QuantKernel<C> {
    plan: Broadcast,
    encodings: [Encoding; 2],
    /// The kernel for the element type.
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
    compare_rows: PhantomData<fn() -> C>,
}

impl<C: Compare> QuantKernel<C> {
    const DEF: KernelDef = {
        const RULES: &[PortRule] = &[input(0, QUANTIZED), input_like(1, 0), output(0, types::BOOL)];
        KernelDef::new::<Self>(C::NAME, Core::DSP_V68).ports(RULES)
    };
}

impl<C: Compare> Kernel for QuantKernel<C> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let encoding = |port: usize| {
            let no_encoding = || Error::new(format!("input {port} has no encoding"));
            cx.input(port)?.encoding().ok_or_else(no_encoding)
        };
        let encodings = [encoding(0)?, encoding(1)?];
        let plan = plan(cx)?
            .ok_or_else(|| Error::new("an input has a bounded shape, expected fixed shapes"))?;
        let run =
            of_type!(cx.input(0)?.dtype(), [U8 = u8, I8 = i8], T => execute_quantized::<C, T>)?;
        Ok(Self { plan, encodings, run, compare_rows: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

fn execute_quantized<C: Compare, T: QuantizedType>(
    kernel: &QuantKernel<C>,
    io: Io<'_>,
) -> Result<(), ExecError> {
    quantized::<T>(&kernel.plan, kernel.encodings, f32::bools::<C>(), io)
}

fn quantized<T: QuantizedType>(
    plan: &Broadcast,
    encodings: [Encoding; 2],
    compare_rows: Bools<f32>,
    mut io: Io<'_>,
) -> Result<(), ExecError> {
    let operands = (io.inputs.get::<T>(0)?, io.inputs.get::<T>(1)?);
    let y = io.outputs.take::<Bool>(0)?;
    plan.rows(io.parallel, operands, y, &|a, b, y| compare_blocks(encodings, compare_rows, a, b, y))
}

#[cfg(test)]
mod tests {
    use udo_api::{Dim, F16};

    use super::*;
    use crate::family::elementwise::GRAIN;
    use crate::family::numerics::{EDGES, LENGTHS, edges};
    use crate::testing::{bench, tensor};

    const A: [f32; 6] = [0.0, -0.0, 1.5, -2.0, f32::NAN, f32::INFINITY];
    const B: [f32; 6] = [-0.0, 1.0, 1.5, -3.0, 1.0, f32::INFINITY];

    /// Runs all tests of a member.
    pub(super) fn run_all<C: Compare>(name: &str) {
        println!("{name}: a family member");
        pairs_match_the_definition::<C>();
        edge_cases_are_compared_as_in_f64::<C>();
        integers_and_bounded_shapes_are_compared::<C>();
        quantized_values_are_compared_dequantized::<C>();
        let error = bench(C::NAME).input(tensor(&[2], &[1i8; 2])).input(tensor(&[3], &[1i8; 3]));
        assert_eq!(error.error(), "shapes [2] and [3] do not broadcast");
    }

    fn bools(values: impl IntoIterator<Item = bool>) -> Vec<Bool> {
        values.into_iter().map(Bool::from).collect()
    }

    fn pairs_match_the_definition<C: Compare>() {
        for core in [Core::CPU, Core::GPU] {
            let run = bench(C::NAME).on(core).input(tensor(&[2, 3], &A));
            let y = run.clone().input(tensor(&[2, 3], &B)).one();
            assert_eq!(y.values::<Bool>(), bools((0..6).map(|i| C::holds(A[i], B[i]))), "{core}");
            let y = run.input(tensor(&[], &[0f32])).one();
            assert_eq!(y.values::<Bool>(), bools(A.map(|a| C::holds(a, 0.0))), "{core}");
        }
        let f16_tensor = |x: [f32; 6]| tensor(&[6], &x.map(F16::from_f32));
        let y = bench(C::NAME).on(Core::GPU).input(f16_tensor(A)).input(f16_tensor(B)).one();
        assert_eq!(y.values::<Bool>(), bools((0..6).map(|i| C::holds(A[i], B[i]))));
        let y = bench(C::NAME).input(tensor(&[2, 3], &A)).input(tensor(&[3], &B[..3])).one();
        assert_eq!(y.values::<Bool>(), bools((0..6).map(|i| C::holds(A[i], B[i % 3]))));
    }

    fn integers_and_bounded_shapes_are_compared<C: Compare>() {
        let len = 2 * GRAIN + 7;
        let a: Vec<i64> = (0..len as i64).collect();
        let b: Vec<i64> = a.iter().map(|x| x + (x % 3) - 1).collect();
        let (x, y) = (tensor(&[len], &a), tensor(&[len], &b));
        let expected = bools(a.iter().zip(&b).map(|(&a, &b)| C::holds(a, b)));
        let run = bench(C::NAME).threads(3).input(x).input(y);
        assert!(run.clone().one().values::<Bool>() == expected);
        assert!(run.on(Core::GPU).one().values::<Bool>() == expected);
        let [a, b] = [[i32::MIN, 7, i32::MAX], [i32::MAX, 7, -1]];
        let run = bench(C::NAME).on(Core::GPU).input(tensor(&[3], &a)).input(tensor(&[3], &b));
        assert_eq!(run.one().values::<Bool>(), bools((0..3).map(|i| C::holds(a[i], b[i]))));
        let a = tensor(&[2], &[1u8, 3]).bounded(&[Dim::UpTo(5)]);
        let y = bench(C::NAME).input(a).input(tensor(&[1], &[2u8])).one();
        assert_eq!(y.desc().full_shape().to_string(), "[<=5]");
        assert_eq!(y.values::<Bool>(), bools([C::holds(1, 2), C::holds(3, 2)]));
    }

    fn quantized_values_are_compared_dequantized<C: Compare>() {
        let a = tensor(&[3], &[10i8, 20, 30]).encoded(0.5, 0);
        let run = bench(C::NAME).on(Core::DSP_V68).input(a);
        let y = run.clone().input(tensor(&[], &[8i8]).encoded(1.0, -2)).one();
        let expected = bools([5.0f32, 10.0, 15.0].map(|a| C::holds(a, 10.0)));
        assert_eq!(y.values::<Bool>(), expected);
        assert_eq!(run.input(tensor(&[], &[8i8])).error(), "input 1 has no encoding");
    }

    /// Zeros of both signs are equal, denormals are not 0, and comparisons with NaN are false.
    fn edge_cases_are_compared_as_in_f64<C: Compare>() {
        let wide = |a: f32, b: f32| {
            let expected = C::holds(f64::from(a), f64::from(b));
            assert!(!expected || !(a.is_nan() || b.is_nan()), "{} of {a} and {b}", C::NAME);
            expected
        };
        for (len, second) in LENGTHS.into_iter().flat_map(|len| EDGES.map(|b| (len, b))) {
            let x = edges(3, len);
            let (a, b) = (tensor(&[len], &x), tensor(&[1], &[second]));
            let y = bench(C::NAME).input(a.clone()).input(b.clone()).one();
            let expected = bools(x.iter().map(|&x| wide(x, second)));
            assert_eq!(y.values::<Bool>(), expected, "{len} with {second:e}");
            let y = bench(C::NAME).input(b).input(a).one();
            let expected = bools(x.iter().map(|&x| wide(second, x)));
            assert_eq!(y.values::<Bool>(), expected, "{second:e} with {len}");
        }
    }
}
