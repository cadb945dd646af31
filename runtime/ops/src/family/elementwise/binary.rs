//! Operators of two operands, which broadcast as numpy's do: a function of each pair of elements.

use std::marker::PhantomData;

use udo_api::{
    Code, Core, DType, Encoding, Error, ExecError, Facts, FinalizeCx, InPlace, InferCx, Io, Kernel,
    KernelDef, Node, Op, OpSchema, Pair, Port, PortRule, Shape, TensorDesc, TypeSet, input,
    input_like, output_like, types,
};

use super::gpu::BinaryGpu;
use super::operands::{Run, plan, run_with};
use super::{Broadcast, broadcast_shapes};
use crate::Def;
use crate::number::Number;

/// A function of two numbers. Its family has schema, inference, kernels for every core, and tests.
pub(crate) trait Binary: Send + Sync + 'static {
    const NAME: &'static str;
    /// An OpenCL expression of the floats `a` and `b`.
    const OPENCL: &'static str;
    /// The same in `f64`, which tests hold the other forms against.
    const F64: fn(f64, f64) -> f64;
    /// What the CPU computes where the second operand has a type of its own, if it may have one.
    const MIXED: Option<Mixed> = None;

    /// The function itself.
    fn of<T: Number>(a: T, b: T) -> T;
}

/// How operands of two types become results of the first one's.
#[derive(Clone, Copy)]
pub(crate) struct Mixed(fn([Option<DType>; 2]) -> Result<Run, Error>);

impl Mixed {
    /// By the function of `B` in `f64`.
    pub(crate) const fn of<B: Binary>() -> Self {
        Self(|[a, b]| {
            of_type!(a, [F32 = f32, F64 = f64, I32 = i32, I64 = i64], T => {
                of_number!(b, U => {
                    let run: Run = |plan, io| {
                        execute(plan, io, |a: T, b: U| T::of(B::F64(a.to_f64(), b.to_f64())))
                    };
                    run
                })
            })?
        })
    }
}

/// The operator that `B` is the function of.
pub(crate) const fn binary<B: Binary>() -> Def {
    let def = Def::of::<Described<B>>(Kernels::<B>::ALL);
    #[cfg(test)]
    let def = def.tested(tests::all::<B>);
    def
}

/// The types that the CPU computes.
pub(super) const ARITHMETIC: TypeSet = types::F32.or(types::F64).or(types::INTS);

struct Described<B>(PhantomData<fn() -> B>);

impl<B: Binary> Op for Described<B> {
    const SCHEMA: OpSchema = {
        const OUT: &[Port] = &[Port::required("C", OPERANDS)];
        OpSchema::new(B::NAME, IN, OUT, &[]).facts(Facts::ELEMENTWISE)
    };

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (a, b) = (cx.input(0)?, cx.input(1)?);
        let (dtype, shape) = match (B::MIXED, a.dtype()) {
            (Some(_), Some(dtype)) => (dtype, broadcast_shapes(a.full_shape(), b.full_shape())?),
            _ => broadcast_inputs(cx)?,
        };
        cx.set_output(0, TensorDesc::new(dtype, shape))
    }
}

const OPERANDS: TypeSet = ARITHMETIC.or(types::F16);

/// The operands.
pub(super) const IN: &[Port] = &[Port::required("A", OPERANDS), Port::required("B", OPERANDS)];

/// The one type of both operands, and their common shape.
pub(super) fn broadcast_inputs(node: &Node<'_>) -> Result<(DType, Shape), Error> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    let Some(dtype) = a.dtype().filter(|_| a.dtype() == b.dtype()) else {
        return Err(Error::new(format!("inputs are {a} and {b}, wanted one element type")));
    };
    Ok((dtype, broadcast_shapes(a.full_shape(), b.full_shape())?))
}

struct Kernels<B>(PhantomData<fn() -> B>);

impl<B: Binary> Kernels<B> {
    const ALL: &'static [KernelDef] =
        &[PairKernel::<B>::DEF, BinaryGpu::<B>::DEF, QuantKernel::<B>::DEF];
}

/// The function `B` of numbers, on the CPU.
struct PairKernel<B> {
    fixed: Option<Broadcast>,
    run: Run,
    of: PhantomData<fn() -> B>,
}

impl<B: Binary> PairKernel<B> {
    const DEF: KernelDef = {
        const ALIKE: &[PortRule] = &[
            input(0, ARITHMETIC).bounded(),
            input_like(1, 0).bounded(),
            output_like(0, 0).bounded(),
        ];
        const MIXED: &[PortRule] = &[
            input(0, ARITHMETIC).bounded(),
            input(1, ARITHMETIC).bounded(),
            output_like(0, 0).bounded(),
        ];
        KernelDef::new::<Self>(B::NAME, Core::CPU)
            .ports(if B::MIXED.is_some() { MIXED } else { ALIKE })
            .in_place(&[InPlace { input: 0, output: 0 }])
    };
}

impl<B: Binary> Kernel for PairKernel<B> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let [a, b] = [cx.input(0)?.dtype(), cx.input(1)?.dtype()];
        let run = match B::MIXED {
            Some(Mixed(of)) if a != b => of([a, b])?,
            _ => of_number!(a, T => {
                let run: Run = |plan, io| execute(plan, io, B::of::<T>);
                run
            })?,
        };
        Ok(Self { fixed: plan(cx)?, run, of: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        run_with(self.fixed.as_ref(), io, self.run)
    }
}

fn execute<T: Number, U: Number>(
    plan: &Broadcast,
    io: &mut Io<'_>,
    of: impl Fn(T, U) -> T + Sync,
) -> Result<(), ExecError> {
    let b = io.inputs.get::<U>(1)?;
    match io.pair::<T>(0, 0)? {
        Pair::Apart(a, y) => plan.apply_shared(io.parallel, a, b, y, of),
        Pair::Same(y) => plan.apply_in_place_shared(io.parallel, y, b, of),
    }
}

/// The function `B` of what 8-bit quantized values stand for, on the DSP.
struct QuantKernel<B> {
    plan: Broadcast,
    encodings: [Encoding; 3],
    /// For the type of the values.
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
    of: PhantomData<fn() -> B>,
}

impl<B: Binary> QuantKernel<B> {
    const DEF: KernelDef = {
        const QUANTIZED: TypeSet = types::U8.or(types::I8);
        const RULES: &[PortRule] = &[input(0, QUANTIZED), input_like(1, 0), output_like(0, 0)];
        KernelDef::new::<Self>(B::NAME, Core::DSP_V68).ports(RULES)
    };
}

impl<B: Binary> Kernel for QuantKernel<B> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let wanted = |what: &str| Error::new(format!("{what} has no encoding"));
        let encodings = [
            cx.input(0)?.encoding().ok_or_else(|| wanted("input 0"))?,
            cx.input(1)?.encoding().ok_or_else(|| wanted("input 1"))?,
            cx.output(0)?.encoding().ok_or_else(|| wanted("output 0"))?,
        ];
        let plan =
            plan(cx)?.ok_or_else(|| Error::new("an input is bounded, wanted fixed shapes"))?;
        let run =
            of_type!(cx.input(0)?.dtype(), [U8 = u8, I8 = i8], T => execute_quantized::<B, T>)?;
        Ok(Self { plan, encodings, run, of: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

fn execute_quantized<B: Binary, T: Code>(
    kernel: &QuantKernel<B>,
    mut io: Io<'_>,
) -> Result<(), ExecError> {
    let [a_is, b_is, y_is] = kernel.encodings;
    let (a, b) = (io.inputs.get::<T>(0)?, io.inputs.get::<T>(1)?);
    let y = io.outputs.take::<T>(0)?;
    let of = |a, b| y_is.quantize(B::of(a_is.dequantize(a), b_is.dequantize(b)));
    kernel.plan.apply(a, b, y, of);
    Ok(())
}

#[cfg(test)]
mod tests {
    use udo_api::{Dim, F16};

    use super::*;
    use crate::family::elementwise::GRAIN;
    use crate::family::numerics::{
        EDGES, LENGTHS, assert_rounded, bits, edges, pairs_of_i8, settled_on_any_threads, wrapped,
    };
    use crate::testing::{Tensor, assert_near, bench, noise, tensor};

    /// What every member is tested for; `bench` adds calls in place.
    pub(super) fn all<B: Binary>(name: &str) {
        println!("{name}: a family member");
        shapes_broadcast_from_either_side::<B>();
        large_tensors_are_shared_out::<B>();
        bounded_shapes_are_those_of_the_run::<B>();
        quantized_values_are_computed::<B>();
        the_gpu_takes_scalars_and_halves::<B>();
        misfits_are_named::<B>();
        operands_of_two_types_are_computed_with_in_f64::<B>();
        edges_are_those_of_the_function::<B>();
        an_element_has_its_bits_however_operands_meet::<B>();
        integers_wrap_and_are_0_over_0::<B>();
    }

    /// Operands that no function is undefined for.
    fn operands(a_len: usize, b_len: usize) -> (Vec<f32>, Vec<f32>) {
        let mut a = noise(a_len + b_len);
        let b = a.split_off(a_len);
        (a, b.into_iter().map(|b| b + if b < 0.0 { -1.0 } else { 1.0 }).collect())
    }

    fn pair<B: Binary>(a: Tensor, b: Tensor) -> crate::testing::Bench {
        bench(B::NAME).input(a).input(b)
    }

    fn wanted<B: Binary>(pairs: impl Iterator<Item = (f32, f32)>) -> Vec<f64> {
        pairs.map(|(a, b)| B::F64(f64::from(a), f64::from(b))).collect()
    }

    fn shapes_broadcast_from_either_side<B: Binary>() {
        let cases: [(&[usize], &[usize], &[usize]); 6] = [
            (&[2, 3], &[2, 3], &[2, 3]),
            (&[2, 3], &[3], &[2, 3]),
            (&[2, 1, 4], &[3, 1], &[2, 3, 4]),
            (&[], &[2, 2], &[2, 2]),
            (&[1, 3, 1], &[2, 1, 4], &[2, 3, 4]),
            (&[0, 3], &[3], &[0, 3]),
        ];
        for (a_dims, b_dims, dims) in cases {
            let (a, b) = operands(a_dims.iter().product(), b_dims.iter().product());
            let y = pair::<B>(tensor(a_dims, &a), tensor(b_dims, &b)).one();
            assert_eq!(y.dims(), dims);
            let place = |own: &[usize], i: usize| {
                let (mut rest, mut at, mut step) = (i, 0, 1);
                for axis in (0..dims.len()).rev() {
                    let place = rest % dims[axis];
                    rest /= dims[axis];
                    let own = (axis + own.len()).checked_sub(dims.len()).map_or(1, |k| own[k]);
                    at += if own == 1 { 0 } else { place * step };
                    step *= own;
                }
                at
            };
            let len = dims.iter().product();
            let pairs = (0..len).map(|i| (a[place(a_dims, i)], b[place(b_dims, i)]));
            assert_near(&y.values::<f32>(), &wanted::<B>(pairs), 1e-6);
        }
    }

    fn large_tensors_are_shared_out<B: Binary>() {
        let (rows, cols) = (2 * GRAIN / 5 + 7, 5);
        let len = rows * cols;
        for (a_dims, b_dims) in [
            ([rows, cols], vec![rows, cols]),
            ([rows, cols], vec![]),
            ([rows, cols], vec![cols]),
            ([rows, cols], vec![rows, 1]),
            ([1, cols], vec![rows, 1]),
        ] {
            let (a_len, b_len) = (a_dims.iter().product(), b_dims.iter().product());
            let (a, b) = operands(a_len, b_len);
            let y = pair::<B>(tensor(&a_dims, &a), tensor(&b_dims, &b)).threads(3).one();
            let place = |len: usize, dims: &[usize], i: usize| match dims {
                [_, 1] => i / cols,
                _ => i % len,
            };
            let pairs =
                (0..len).map(|i| (a[place(a_len, &a_dims, i)], b[place(b_len, &b_dims, i)]));
            assert_near(&y.values::<f32>(), &wanted::<B>(pairs), 1e-6);
        }
    }

    fn bounded_shapes_are_those_of_the_run<B: Binary>() {
        let (values, row) = ([1i32, 2, 3, 4], [10i32, 20]);
        let a = tensor(&[2, 2], &values).bounded(&[Dim::UpTo(5), Dim::Fixed(2)]);
        let y = pair::<B>(a, tensor(&[1, 2], &row)).one();
        assert_eq!(y.desc().full_shape().to_string(), "[<=5,2]");
        let wanted: Vec<i32> = (0..4).map(|i| B::of(values[i], row[i % 2])).collect();
        assert_eq!((y.dims(), y.values::<i32>()), (vec![2, 2], wanted));
        let a = tensor(&[1], &[1i32]).bounded(&[Dim::UpTo(3)]);
        let b = tensor(&[3], &[1i32, 2, 3]).bounded(&[Dim::UpTo(3)]);
        let wanted: Vec<i32> = (1..4).map(|b| B::of(1, b)).collect();
        assert_eq!(pair::<B>(a, b).one().values::<i32>(), wanted);
    }

    fn quantized_values_are_computed<B: Binary>() {
        let (a, b) = ([12u8, 200], [7u8, 255]);
        let [a_is, b_is, y_is] = [(0.5, 10), (1.0, 5), (2.0, 3)]
            .map(|(scale, zero_point)| Encoding { scale, zero_point });
        let run = pair::<B>(
            tensor(&[1, 2], &a).encoded(a_is.scale, a_is.zero_point),
            tensor(&[2, 1], &b).encoded(b_is.scale, b_is.zero_point),
        );
        let run = run.on(Core::DSP_V68);
        let y = run.clone().output_encoding(0, y_is.scale, y_is.zero_point).one();
        let of = |i: usize, j: usize| {
            y_is.quantize::<u8>(B::of(a_is.dequantize(a[j]), b_is.dequantize(b[i])))
        };
        assert_eq!(y.values::<u8>(), [of(0, 0), of(0, 1), of(1, 0), of(1, 1)]);
        assert_eq!(run.error(), "output 0 has no encoding");
    }

    fn the_gpu_takes_scalars_and_halves<B: Binary>() {
        let (a, b) = operands(3, 3);
        let y = pair::<B>(tensor(&[3], &a), tensor(&[], &b[..1])).on(Core::GPU).one();
        let pairs = a.iter().map(|&a| (a, b[0]));
        assert_near(&y.values::<f32>(), &wanted::<B>(pairs), 1e-6);
        let halves = |values: &[f32]| values.iter().map(|&v| F16::from_f32(v)).collect::<Vec<_>>();
        let (a, b) = (halves(&a), halves(&b));
        let y = pair::<B>(tensor(&[3], &a), tensor(&[3], &b)).on(Core::GPU).one();
        let y: Vec<f32> = y.values::<F16>().into_iter().map(F16::to_f32).collect();
        let pairs = a.into_iter().zip(b).map(|(a, b)| (a.to_f32(), b.to_f32()));
        assert_near(&y, &wanted::<B>(pairs), 1e-3);
    }

    fn misfits_are_named<B: Binary>() {
        let floats = |dims: &[usize]| tensor(dims, &vec![1f32; dims.iter().product()]);
        let error = pair::<B>(floats(&[2]), floats(&[3])).error();
        assert_eq!(error, "shapes [2] and [3] do not broadcast");
        if B::MIXED.is_none() {
            let error = pair::<B>(floats(&[2]), tensor(&[2], &[1f64; 2])).error();
            assert_eq!(error, "inputs are f32[2] and f64[2], wanted one element type");
        }
        let error = pair::<B>(floats(&[2, 2]), floats(&[2])).on(Core::GPU).error();
        assert_eq!(error, "an input is f32[2], wanted f32[2,2] or one element");
    }

    fn operands_of_two_types_are_computed_with_in_f64<B: Binary>() {
        if B::MIXED.is_none() {
            return;
        }
        let (floats, ints) = ([0.3f32, -1.5, 2.0, 0.1], [3i64, -2, 0, -1]);
        let wanted: Vec<f64> = (0..4).map(|i| B::F64(floats[i].into(), ints[i] as f64)).collect();
        let y = pair::<B>(tensor(&[4], &floats), tensor(&[4], &ints)).one();
        assert_near(&y.values::<f32>(), &wanted, 1e-6);
        let y = pair::<B>(tensor(&[4], &ints), tensor(&[1], &[2.5f64])).one();
        let wanted: Vec<i64> = ints.iter().map(|&x| B::F64(x as f64, 2.5) as i64).collect();
        assert_eq!(y.values::<i64>(), wanted);
        let error = pair::<B>(tensor(&[1], &[1u8]), tensor(&[1], &[1f32])).error();
        assert_eq!(error, "the element type is u8, which the kernel does not take");
    }
    fn edges_are_those_of_the_function<B: Binary>() {
        let count = EDGES.len();
        let (rows, cols) = (tensor(&[count, 1], &EDGES), tensor(&[count], &EDGES));
        let y = pair::<B>(rows, cols).one().values::<f32>();
        for (i, y) in y.into_iter().enumerate() {
            let (a, b) = (EDGES[i / count], EDGES[i % count]);
            // A NaN stays, but where the function has one value whatever that operand is.
            let of = format!("{} of {a:e} and {b:e}", B::NAME);
            assert_rounded(y, B::F64(a.into(), b.into()), 1e-6, &of);
        }
    }

    fn an_element_has_its_bits_however_operands_meet<B: Binary>() {
        for (len, second) in LENGTHS.into_iter().flat_map(|len| EDGES.map(|b| (len, b))) {
            let (a, b) = (tensor(&[len], &edges(0, len)), tensor(&[len], &vec![second; len]));
            let one = tensor(&[], &[second]);
            let column = |x: &Tensor| tensor(&[len, 1], &x.values::<f32>());
            let wanted = bits(&pair::<B>(a.clone(), b.clone()).one().values());
            let y = pair::<B>(a.clone(), one.clone()).one();
            assert_eq!(bits(&y.values()), wanted, "{len} with {second:e}");
            let y = pair::<B>(column(&a), tensor(&[1, 2], &[second; 2])).one().values::<f32>();
            let y: Vec<f32> = y.into_iter().step_by(2).collect();
            assert_eq!(bits(&y), wanted, "a column of {len} with {second:e}");
            let wanted = bits(&pair::<B>(b, a.clone()).one().values());
            assert_eq!(bits(&pair::<B>(one, a).one().values()), wanted, "{second:e} with {len}");
        }
        let len = 2 * GRAIN + 7;
        let a = tensor(&[len], &edges(0, len));
        settled_on_any_threads(&pair::<B>(a, tensor(&[1], &[2.5f32])));
    }

    fn integers_wrap_and_are_0_over_0<B: Binary>() {
        let (a, b) = pairs_of_i8();
        let y = pair::<B>(tensor(&[a.len()], &a), tensor(&[b.len()], &b)).one().values::<i8>();
        for ((&a, &b), y) in a.iter().zip(&b).zip(y) {
            let wanted = wrapped(B::F64(a.into(), b.into())).unwrap_or(y);
            assert_eq!(y, wanted, "{} of {a} and {b}", B::NAME);
        }
    }
}
