//! Elementwise operators of two operands, such as Add, with NumPy broadcasting.

use std::marker::PhantomData;

use udo_api::{
    Bf16, Core, DType, Encoding, Error, ExecError, F16, Facts, FinalizeCx, InPlace, InferCx, Io,
    Kernel, KernelDef, Node, Op, OpSchema, Pair, Param, Port, PortRule, QuantizedType, Shape,
    TensorDesc, TypeSet, Workspace, input, input_like, output_like, types,
};

use super::gpu::BinaryGpu;
use super::operands::{Run, plan, run_with};
use super::rows::{Computed, Pairs, Side, combine_blocks};
use super::stored::Stored;
use super::{Broadcast, QUANTIZED, broadcast_shapes};
use crate::Def;

/// A binary operator. The family provides schema, inference, kernels for every core, and tests.
pub(crate) trait Binary: Pairs {
    const NAME: &'static str;
    /// Names of inputs and output.
    const PORTS: [&'static str; 3] = ["A", "B", "C"];
    const PARAMS: &'static [Param] = &[];
    /// The types that the CPU kernel supports.
    const TYPES: TypeSet = types::NUMBERS;
    /// The shapes that operands may have.
    const SHAPES: Shapes = Shapes::Any;
    /// An OpenCL expression of the floats `a` and `b`, if the GPU and the DSP support the operator.
    const OPENCL: Option<&'static str>;
    /// Whether the OpenCL expression is also correct for integers, computed as unsigned ones so that they wrap.
    const OF_BITS: bool = false;
    /// Returns the computation for a second operand of another type, if the operator allows one.
    const MIXED: Option<MixedOf> = None;

    /// Returns the function for elements of a type, which may depend on parameters.
    fn of_type(_cx: &FinalizeCx<'_>, dtype: Option<DType>) -> Result<Run, Error>
    where
        Self: Sized,
    {
        run_of::<Self>(dtype)
    }
}

/// The shapes that operands may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shapes {
    /// Any shapes that broadcast.
    Any,
    /// A second shape that broadcasts to the first.
    OfFirst,
}

/// Returns the computation for the types of the operands.
pub(crate) type MixedOf = fn([Option<DType>; 2]) -> Result<Mixed, Error>;

/// A computation in f64 for operands of two types; the output has the type of the first.
#[derive(Clone, Copy)]
pub(crate) struct Mixed {
    /// Returns the second operand, converted into scratch memory.
    widened: for<'a> fn(&mut Io<'a>) -> Result<&'a [f64], ExecError>,
    run: fn(&Broadcast, &mut Io<'_>, &[f64]) -> Result<(), ExecError>,
}

impl Mixed {
    /// Returns the computation of the function `P`.
    pub(crate) fn new<P: Pairs>([a, b]: [Option<DType>; 2]) -> Result<Self, Error> {
        let run = of_type!(
            a,
            [F32 = f32, F64 = f64, F16 = F16, Bf16 = Bf16, I32 = i32, I64 = i64],
            T => mixed::<P, T> as fn(&Broadcast, &mut Io<'_>, &[f64]) -> Result<(), ExecError>
        )?;
        let widened = of_computed!(b, U => {
            let widened: for<'a> fn(&mut Io<'a>) -> Result<&'a [f64], ExecError> = widened::<U>;
            widened
        })?;
        Ok(Self { widened, run })
    }
}

fn widened<'a, U: Stored<f64>>(io: &mut Io<'a>) -> Result<&'a [f64], ExecError> {
    let b = io.inputs.get::<U>(1)?;
    let wide = io.scratch.take::<f64>(b.len())?;
    wide.iter_mut().zip(b).for_each(|(wide, &b)| *wide = b.load());
    Ok(wide)
}

fn mixed<P: Pairs, T: Stored<f64>>(
    plan: &Broadcast,
    io: &mut Io<'_>,
    b: &[f64],
) -> Result<(), ExecError> {
    let in_place = |y: &mut [T], b: Side<'_, f64>| {
        let update = |y: &mut T, b| *y = T::store(P::F64(y.load(), b));
        match b {
            Side::One(b) => y.iter_mut().for_each(|y| update(y, b)),
            Side::Each(b) => y.iter_mut().zip(b).for_each(|(y, &b)| update(y, b)),
        }
    };
    match io.pair::<T>(0, 0)? {
        Pair::Same(y) => plan.rows_in_place(io.parallel, y, b, &in_place),
        Pair::Apart(a, y) => {
            let row = |a: Side<'_, T>, b: Side<'_, f64>, y: &mut [T]| {
                match a {
                    Side::One(a) => y.fill(a),
                    Side::Each(a) => y.copy_from_slice(a),
                }
                in_place(y, b);
            };
            plan.rows(io.parallel, (a, b), y, &row)
        }
    }
}

/// Returns the function of `P` for elements of a type.
pub(crate) fn run_of<P: Pairs>(dtype: Option<DType>) -> Result<Run, Error> {
    of_computed!(dtype, T => {
        let run: Run = |plan, io| T::rows::<P>().run(plan, io);
        run
    })
}

/// Defines the operator of the function `B`.
pub(crate) const fn binary<B: Binary>() -> Def {
    let def = Def::new::<Described<B>>(Kernels::<B>::ALL);
    #[cfg(test)]
    let def = def.tested(tests::run_all::<B>);
    def
}

/// The operator of the function `B`.
struct Described<B>(PhantomData<fn() -> B>);

impl<B: Binary> Described<B> {
    /// Quantized types are for the DSP only; the GPU accepts f16 storage.
    const TYPES: TypeSet = match B::OPENCL {
        Some(_) => B::TYPES.or(QUANTIZED).or(types::F16),
        None => B::TYPES,
    };
    const IN: &'static [Port] =
        &[Port::required(B::PORTS[0], Self::TYPES), Port::required(B::PORTS[1], Self::TYPES)];
    const OUT: &'static [Port] = &[Port::required(B::PORTS[2], Self::TYPES)];
}

impl<B: Binary> Op for Described<B> {
    const SCHEMA: OpSchema =
        OpSchema::new(B::NAME, Self::IN, Self::OUT, B::PARAMS).facts(Facts::ELEMENTWISE);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (a, b) = (cx.input(0)?, cx.input(1)?);
        let (dtype, shape) = match (B::MIXED, a.dtype()) {
            (Some(_), Some(dtype)) => (dtype, broadcast_shapes(a.full_shape(), b.full_shape())?),
            _ => broadcast_inputs(cx)?,
        };
        if B::SHAPES == Shapes::OfFirst && shape != a.full_shape() {
            let [first, second, _] = B::PORTS;
            return Err(Error::new(format!(
                "{second} is {b}, expected a shape that broadcasts to that of {first}, {a}"
            )));
        }
        cx.set_output(0, TensorDesc::new(dtype, shape))
    }
}

/// Returns the common type and the broadcast shape of both operands.
pub(super) fn broadcast_inputs(node: &Node<'_>) -> Result<(DType, Shape), Error> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    let Some(dtype) = a.dtype().filter(|_| a.dtype() == b.dtype()) else {
        return Err(Error::new(format!("inputs are {a} and {b}, expected equal element types")));
    };
    Ok((dtype, broadcast_shapes(a.full_shape(), b.full_shape())?))
}

/// The kernels of the function `B`.
struct Kernels<B>(PhantomData<fn() -> B>);

impl<B: Binary> Kernels<B> {
    const ALL: &'static [KernelDef] = match B::OPENCL {
        Some(_) => &[PairKernel::<B>::DEF, BinaryGpu::<B>::DEF, QuantKernel::<B>::DEF],
        None => &[PairKernel::<B>::DEF],
    };
}

/// The CPU kernel of `B`.
struct PairKernel<B> {
    /// The broadcasting, if all extents are known before the run.
    fixed: Option<Broadcast>,
    run: Computation,
    /// Scratch elements for the converted second operand.
    widened_len: usize,
    marker: PhantomData<fn() -> B>,
}

/// The computation for operands of the same type, or of two types.
enum Computation {
    SameTypes(Run),
    Mixed(Mixed),
}

impl<B: Binary> PairKernel<B> {
    const DEF: KernelDef = {
        const fn rules<B: Binary>() -> [PortRule; 3] {
            let b = if B::MIXED.is_some() { input(1, B::TYPES) } else { input_like(1, 0) };
            [input(0, B::TYPES).bounded(), b.bounded(), output_like(0, 0).bounded()]
        }
        KernelDef::new::<Self>(B::NAME, Core::CPU)
            .ports(const { &rules::<B>() })
            .in_place(&[InPlace { input: 0, output: 0 }])
    };
}

impl<B: Binary> Kernel for PairKernel<B> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let [a, b] = [cx.input(0)?.dtype(), cx.input(1)?.dtype()];
        let (run, widened_len) = match B::MIXED {
            Some(new_mixed) if a != b => {
                (Computation::Mixed(new_mixed([a, b])?), cx.input(1)?.len())
            }
            _ => (Computation::SameTypes(B::of_type(cx, a)?), 0),
        };
        Ok(Self { fixed: plan(cx)?, run, widened_len, marker: PhantomData })
    }

    fn workspace(&self) -> Workspace {
        Workspace::for_elements::<f64>(self.widened_len)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        match &self.run {
            Computation::SameTypes(run) => run_with(self.fixed.as_ref(), io, run),
            Computation::Mixed(mixed) => run_with(self.fixed.as_ref(), io, |plan, io| {
                let b = (mixed.widened)(io)?;
                (mixed.run)(plan, io, b)
            }),
        }
    }
}

/// The DSP kernel of `B` for 8-bit quantized values.
struct QuantKernel<B> {
    plan: Broadcast,
    /// Encodings of both operands and of the output.
    encodings: [Encoding; 3],
    /// The kernel for the element type.
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
    marker: PhantomData<fn() -> B>,
}

impl<B: Binary> QuantKernel<B> {
    const DEF: KernelDef = {
        const RULES: &[PortRule] = &[input(0, QUANTIZED), input_like(1, 0), output_like(0, 0)];
        KernelDef::new::<Self>(B::NAME, Core::DSP_V68).ports(RULES)
    };
}

impl<B: Binary> Kernel for QuantKernel<B> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let no_encoding = |what: &str| Error::new(format!("{what} has no encoding"));
        let encodings = [
            cx.input(0)?.encoding().ok_or_else(|| no_encoding("input 0"))?,
            cx.input(1)?.encoding().ok_or_else(|| no_encoding("input 1"))?,
            cx.output(0)?.encoding().ok_or_else(|| no_encoding("output 0"))?,
        ];
        let plan = plan(cx)?
            .ok_or_else(|| Error::new("an input has a bounded shape, expected fixed shapes"))?;
        let run =
            of_type!(cx.input(0)?.dtype(), [U8 = u8, I8 = i8], T => execute_quantized::<B, T>)?;
        Ok(Self { plan, encodings, run, marker: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

fn execute_quantized<B: Binary, T: QuantizedType>(
    kernel: &QuantKernel<B>,
    io: Io<'_>,
) -> Result<(), ExecError> {
    quantized::<T>(&kernel.plan, kernel.encodings, f32::rows::<B>().in_place, io)
}

fn quantized<T: QuantizedType>(
    plan: &Broadcast,
    encodings: [Encoding; 3],
    in_place: fn(&mut [f32], Side<'_, f32>),
    mut io: Io<'_>,
) -> Result<(), ExecError> {
    let operands = (io.inputs.get::<T>(0)?, io.inputs.get::<T>(1)?);
    let y = io.outputs.take::<T>(0)?;
    plan.rows(io.parallel, operands, y, &|a, b, y| combine_blocks(encodings, in_place, a, b, y))
}

#[cfg(test)]
mod tests {
    use udo_api::Dim;

    use super::*;
    use crate::family::elementwise::GRAIN;
    use crate::family::numerics::{
        EDGES, LENGTHS, assert_rounded, bits, edges, on_gpu_too, pairs_of_i8,
        settled_on_any_threads, wrapped,
    };
    use crate::testing::{Tensor, assert_near, bench, noise, tensor};

    /// Runs all tests of a member; `bench` adds calls in place.
    pub(super) fn run_all<B: Binary>(name: &str) {
        println!("{name}: a family member");
        shapes_broadcast_from_either_side::<B>(name);
        large_tensors_are_divided_among_threads::<B>(name);
        bounded_shapes_are_read_in_the_run::<B>(name);
        if B::OPENCL.is_some() {
            quantized_values_match_the_definition::<B>(name);
            the_gpu_matches_the_definition_for_scalars_and_f16::<B>(name);
        }
        half_precision_is_computed_in_f32::<B>(name);
        mismatched_inputs_are_reported::<B>(name);
        operands_of_two_types_are_computed_in_f64::<B>(name);
        edge_cases_match_the_function::<B>(name);
        results_do_not_depend_on_broadcasting_or_thread_count::<B>(name);
        integers_wrap_and_division_by_0_gives_0::<B>(name);
    }

    /// Returns operands for which every function is defined.
    fn operands(a_len: usize, b_len: usize) -> (Vec<f32>, Vec<f32>) {
        let mut a = noise(a_len + b_len);
        let b = a.split_off(a_len);
        (a, b.into_iter().map(|b| b + if b < 0.0 { -1.0 } else { 1.0 }).collect())
    }

    fn pair(name: &str, a: Tensor, b: Tensor) -> crate::testing::Bench {
        bench(name).input(a).input(b)
    }

    fn expected<B: Binary>(pairs: impl Iterator<Item = (f32, f32)>) -> Vec<f64> {
        pairs.map(|(a, b)| B::F64(f64::from(a), f64::from(b))).collect()
    }

    fn shapes_broadcast_from_either_side<B: Binary>(name: &str) {
        let cases: [(&[usize], &[usize], &[usize]); 6] = [
            (&[2, 3], &[2, 3], &[2, 3]),
            (&[2, 3], &[3], &[2, 3]),
            (&[2, 1, 4], &[3, 1], &[2, 3, 4]),
            (&[], &[2, 2], &[2, 2]),
            (&[1, 3, 1], &[2, 1, 4], &[2, 3, 4]),
            (&[0, 3], &[3], &[0, 3]),
        ];
        // The outputs of all cases are compared at once, because those of one case may be constant, for example all
        // NaN.
        let (mut actual_all, mut expected_all) = (Vec::new(), Vec::new());
        for (a_dims, b_dims, dims) in cases {
            if B::SHAPES == Shapes::OfFirst && a_dims != dims {
                continue;
            }
            let (a, b) = operands(a_dims.iter().product(), b_dims.iter().product());
            let run = pair(name, tensor(a_dims, &a), tensor(b_dims, &b));
            let y = if B::OPENCL.is_some() { on_gpu_too(&run, 1e-6) } else { run.one() };
            assert_eq!(y.dims(), dims);
            // The element of an operand of extents `own_dims` for output element `i`.
            let offset = |own_dims: &[usize], i: usize| {
                let (mut remaining, mut offset, mut stride) = (i, 0, 1);
                for axis in (0..dims.len()).rev() {
                    let coordinate = remaining % dims[axis];
                    remaining /= dims[axis];
                    let own_axis = (axis + own_dims.len()).checked_sub(dims.len());
                    let extent = own_axis.map_or(1, |own_axis| own_dims[own_axis]);
                    offset += if extent == 1 { 0 } else { coordinate * stride };
                    stride *= extent;
                }
                offset
            };
            let len = dims.iter().product();
            let pairs = (0..len).map(|i| (a[offset(a_dims, i)], b[offset(b_dims, i)]));
            actual_all.extend(y.values::<f32>());
            expected_all.extend(expected::<B>(pairs));
        }
        assert_near(&actual_all, &expected_all, 1e-6);
    }

    fn large_tensors_are_divided_among_threads<B: Binary>(name: &str) {
        let (rows, cols) = (2 * GRAIN / 5 + 7, 5);
        let len = rows * cols;
        for (a_dims, b_dims) in [
            ([rows, cols], vec![rows, cols]),
            ([rows, cols], vec![]),
            ([rows, cols], vec![cols]),
            ([rows, cols], vec![rows, 1]),
            ([1, cols], vec![rows, 1]),
        ] {
            if B::SHAPES == Shapes::OfFirst && a_dims != [rows, cols] {
                continue;
            }
            let (a_len, b_len) = (a_dims.iter().product(), b_dims.iter().product());
            let (a, b) = operands(a_len, b_len);
            let y = pair(name, tensor(&a_dims, &a), tensor(&b_dims, &b)).threads(3).one();
            let index = |len: usize, dims: &[usize], i: usize| match dims {
                [_, 1] => i / cols,
                _ => i % len,
            };
            let pairs =
                (0..len).map(|i| (a[index(a_len, &a_dims, i)], b[index(b_len, &b_dims, i)]));
            assert_near(&y.values::<f32>(), &expected::<B>(pairs), 1e-6);
        }
    }

    fn bounded_shapes_are_read_in_the_run<B: Binary>(name: &str) {
        let (values, row) = ([1i32, 2, 3, 4], [10i32, 20]);
        let a = tensor(&[2, 2], &values).bounded(&[Dim::UpTo(5), Dim::Fixed(2)]);
        let y = pair(name, a, tensor(&[1, 2], &row)).one();
        assert_eq!(y.desc().full_shape().to_string(), "[<=5,2]");
        let expected: Vec<i32> =
            (0..4).map(|i| <B as Pairs>::apply(values[i], row[i % 2])).collect();
        assert_eq!((y.dims(), y.values::<i32>()), (vec![2, 2], expected));
        let a = tensor(&[1], &[1i32]).bounded(&[Dim::UpTo(3)]);
        let b = tensor(&[3], &[1i32, 2, 3]).bounded(&[Dim::UpTo(3)]);
        let expected: Vec<i32> = (1..4).map(|b| B::apply(1, b)).collect();
        assert_eq!(pair(name, a, b).one().values::<i32>(), expected);
    }

    fn quantized_values_match_the_definition<B: Binary>(name: &str) {
        let (a, b) = ([12u8, 200, 3, 90], [7u8, 255]);
        let [a_encoding, b_encoding, y_encoding] = [(0.5, 10), (1.0, 5), (2.0, 3)]
            .map(|(scale, zero_point)| Encoding { scale, zero_point });
        let run = pair(
            name,
            tensor(&[2, 2], &a).encoded(a_encoding.scale, a_encoding.zero_point),
            tensor(&[2, 1], &b).encoded(b_encoding.scale, b_encoding.zero_point),
        );
        let run = run.on(Core::DSP_V68);
        let y = run.clone().output_encoding(0, y_encoding.scale, y_encoding.zero_point).one();
        let expected_at = |i: usize| {
            let (a, b) = (a_encoding.dequantize(a[i]), b_encoding.dequantize(b[i / 2]));
            y_encoding.quantize::<u8>(B::F64(a.into(), b.into()) as f32)
        };
        assert_eq!(y.values::<u8>(), [0, 1, 2, 3].map(expected_at));
        assert_eq!(run.error(), "output 0 has no encoding");
    }

    fn the_gpu_matches_the_definition_for_scalars_and_f16<B: Binary>(name: &str) {
        let (a, b) = operands(3, 3);
        let y = pair(name, tensor(&[3], &a), tensor(&[], &b[..1])).on(Core::GPU).one();
        let pairs = a.iter().map(|&a| (a, b[0]));
        assert_near(&y.values::<f32>(), &expected::<B>(pairs), 1e-6);
        let to_f16 = |values: &[f32]| values.iter().map(|&v| F16::from_f32(v)).collect::<Vec<_>>();
        let (a, b) = (to_f16(&a), to_f16(&b));
        let y = pair(name, tensor(&[3], &a), tensor(&[3], &b)).on(Core::GPU).one();
        let y: Vec<f32> = y.values::<F16>().into_iter().map(F16::to_f32).collect();
        let pairs = a.into_iter().zip(b).map(|(a, b)| (a.to_f32(), b.to_f32()));
        assert_near(&y, &expected::<B>(pairs), 1e-3);
    }

    fn half_precision_is_computed_in_f32<B: Binary>(name: &str) {
        let (a, b) = operands(600, 3);
        let (a, b): (Vec<_>, Vec<_>) = (
            a.into_iter().map(F16::from_f32).collect(),
            b.into_iter().map(F16::from_f32).collect(),
        );
        let y = pair(name, tensor(&[200, 3], &a), tensor(&[3], &b)).one();
        let y: Vec<f32> = y.values::<F16>().into_iter().map(F16::to_f32).collect();
        let pairs = (0..600).map(|i| (a[i].to_f32(), b[i % 3].to_f32()));
        let rounded = |y: f64| f64::from(F16::from_f32(y as f32).to_f32());
        let expected_f16: Vec<f64> = expected::<B>(pairs).into_iter().map(rounded).collect();
        assert_near(&y, &expected_f16, 1e-3);
        let narrow = |x: &[F16]| x.iter().map(|x| Bf16::from_f32(x.to_f32())).collect::<Vec<_>>();
        let (a, b) = (narrow(&a), narrow(&b));
        let y = pair(name, tensor(&[3, 200], &a), tensor(&[3, 1], &b)).one();
        let y: Vec<f32> = y.values::<Bf16>().into_iter().map(Bf16::to_f32).collect();
        let pairs = (0..600).map(|i| (a[i].to_f32(), b[i / 200].to_f32()));
        assert_near(&y, &expected::<B>(pairs), 8e-3);
    }

    fn mismatched_inputs_are_reported<B: Binary>(name: &str) {
        let floats = |dims: &[usize]| tensor(dims, &vec![1f32; dims.iter().product()]);
        let error = pair(name, floats(&[2]), floats(&[3])).error();
        assert_eq!(error, "shapes [2] and [3] do not broadcast");
        if B::MIXED.is_none() {
            let error = pair(name, floats(&[2]), tensor(&[2], &[1f64; 2])).error();
            assert_eq!(error, "inputs are f32[2] and f64[2], expected equal element types");
        }
    }

    fn operands_of_two_types_are_computed_in_f64<B: Binary>(name: &str) {
        if B::MIXED.is_none() {
            return;
        }
        let (floats, ints) = ([0.3f32, -1.5, 2.0, 0.1], [3i64, -2, 0, -1]);
        let expected: Vec<f64> = (0..4).map(|i| B::F64(floats[i].into(), ints[i] as f64)).collect();
        let y = pair(name, tensor(&[4], &floats), tensor(&[4], &ints)).one();
        assert_near(&y.values::<f32>(), &expected, 1e-6);
        let y = pair(name, tensor(&[4], &ints), tensor(&[1], &[2.5f64])).one();
        let expected: Vec<i64> = ints.iter().map(|&x| B::F64(x as f64, 2.5) as i64).collect();
        assert_eq!(y.values::<i64>(), expected);
        let error = pair(name, tensor(&[1], &[1u8]), tensor(&[1], &[1f32])).error();
        assert_eq!(error, "the element type is u8, which the kernel does not take");
    }

    fn edge_cases_match_the_function<B: Binary>(name: &str) {
        let count = EDGES.len();
        let rows: Vec<f32> = (0..count * count).map(|i| EDGES[i / count]).collect();
        let (rows, cols) = (tensor(&[count, count], &rows), tensor(&[count], &EDGES));
        let y = pair(name, rows, cols).one().values::<f32>();
        for (i, y) in y.into_iter().enumerate() {
            let (a, b) = (EDGES[i / count], EDGES[i % count]);
            // NaN propagates, unless the function has the same value for every operand.
            let name = format!("{} of {a:e} and {b:e}", B::NAME);
            assert_rounded(y, B::F64(a.into(), b.into()), 1e-6, &name);
        }
    }

    fn results_do_not_depend_on_broadcasting_or_thread_count<B: Binary>(name: &str) {
        for (len, second) in LENGTHS.into_iter().flat_map(|len| EDGES.map(|b| (len, b))) {
            let (a, b) = (tensor(&[len], &edges(0, len)), tensor(&[len], &vec![second; len]));
            let one = tensor(&[], &[second]);
            let column = |x: &Tensor| tensor(&[len, 1], &x.values::<f32>());
            let expected = bits(&pair(name, a.clone(), b.clone()).one().values());
            let y = pair(name, a.clone(), one.clone()).one();
            assert_eq!(bits(&y.values()), expected, "{len} with {second:e}");
            if B::SHAPES == Shapes::OfFirst {
                continue;
            }
            let y = pair(name, column(&a), tensor(&[1, 2], &[second; 2])).one().values::<f32>();
            let y: Vec<f32> = y.into_iter().step_by(2).collect();
            assert_eq!(bits(&y), expected, "a column of {len} with {second:e}");
            let expected = bits(&pair(name, b, a.clone()).one().values());
            assert_eq!(bits(&pair(name, one, a).one().values()), expected, "{second:e} with {len}");
        }
        let len = 2 * GRAIN + 7;
        let a = tensor(&[len], &edges(0, len));
        settled_on_any_threads(&pair(name, a, tensor(&[1], &[2.5f32])));
    }

    fn integers_wrap_and_division_by_0_gives_0<B: Binary>(name: &str) {
        let (a, b) = pairs_of_i8();
        let y = pair(name, tensor(&[a.len()], &a), tensor(&[b.len()], &b)).one().values::<i8>();
        for ((&a, &b), y) in a.iter().zip(&b).zip(y) {
            let expected = wrapped(B::F64(a.into(), b.into())).unwrap_or(y);
            assert_eq!(y, expected, "{} of {a} and {b}", B::NAME);
        }
    }
}
