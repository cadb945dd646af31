//! Elementwise operators of one operand, such as Relu or Tanh.

use std::marker::PhantomData;

use udo_api::{
    AcceptCx, Bf16, Core, DType, Element, Error, ExecError, F16, Facts, FinalizeCx, InPlace,
    InferCx, Io, Kernel, KernelDef, Op, OpSchema, Pair, Param, Port, PortRule, TypeSet, Value,
    input, output_like, types,
};
use udo_simd::{Map1, Simd, map1, map1_in_place};

use super::gpu::UnaryGpu;
use super::stored::{Stored, map_blocks, map_blocks_in_place};
use super::table::Table;
use super::{Extents, GRAIN, each, each_quantized, infer_like_input};
use crate::Def;
use crate::family::results::QuantizedAs;

/// A function of one value and up to two parameters. The family provides schema, inference, kernels for every core, and
/// tests.
pub(crate) trait Unary: Send + Sync + 'static {
    const NAME: &'static str;
    /// Names of input and output.
    const PORTS: [&'static str; 2] = ["X", "Y"];
    /// The parameters, each declared by [`real`] unless [`Unary::params`] is overridden.
    const PARAMS: &'static [Param] = &[];
    /// The function in f64, with the parameters; also the reference for tests.
    const F64: fn(f64, [f64; 2]) -> f64;
    /// The integer types that the CPU kernel supports.
    const INTS: TypeSet = TypeSet::EMPTY;
    /// The integer function; results wrap to the type.
    const INT: fn(i128, [f64; 2]) -> i128 = |x, params| (Self::F64)(x as f64, params) as i128;
    /// An OpenCL expression of the float `x` and the parameters `p` and `q`.
    const OPENCL: &'static str;
    /// The largest relative error of [`Unary::lanes`].
    #[cfg_attr(not(test), expect(dead_code, reason = "only tests read it"))]
    const WITHIN: f64 = 1e-6;

    /// Reads the parameters.
    fn params(cx: &FinalizeCx<'_>) -> Result<[f32; 2], Error> {
        let mut params = [0.0; 2];
        for (value, param) in params.iter_mut().zip(Self::PARAMS) {
            *value = cx.float32(param.name())?;
        }
        Ok(params)
    }

    /// Evaluates [`Unary::F64`] and rounds to f32.
    fn in_f64(x: f32, params: [f32; 2]) -> f32 {
        (Self::F64)(x.into(), params.map(f64::from)) as f32
    }

    /// The function of vector lanes.
    fn lanes<S: Simd>(s: S, x: S::F, params: [f32; 2]) -> S::F;
}

/// Declares a float parameter with a default.
pub(crate) const fn real(name: &'static str, default: f32) -> Param {
    Param::scalar(name, DType::F32).default(Value::float(default as f64))
}

/// Defines the operator of the function `U`.
pub(crate) const fn unary<U: Unary>() -> Def {
    let def = Def::new::<Described<U>>(Kernels::<U>::ALL);
    #[cfg(test)]
    let def = def.tested(tests::run_all::<U>);
    def
}

/// The operator of the function `U`.
struct Described<U>(PhantomData<fn() -> U>);

impl<U: Unary> Described<U> {
    /// Quantized types are for the DSP only.
    const TYPES: TypeSet = types::FLOATS.or(types::U8).or(types::I8).or(U::INTS);
    const IN: &'static [Port] = &[Port::required(U::PORTS[0], Self::TYPES)];
    const OUT: &'static [Port] = &[Port::required(U::PORTS[1], Self::TYPES)];
}

impl<U: Unary> Op for Described<U> {
    const SCHEMA: OpSchema =
        OpSchema::new(U::NAME, Self::IN, Self::OUT, U::PARAMS).facts(Facts::ELEMENTWISE);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        infer_like_input(cx)
    }
}

/// The kernels of the function `U`.
struct Kernels<U>(PhantomData<fn() -> U>);

impl<U: Unary> Kernels<U> {
    const ALL: &'static [KernelDef] =
        &[NumberKernel::<U>::DEF, UnaryGpu::<U>::DEF, Table::<U>::DEF];
}

/// The CPU kernel of `U`.
struct NumberKernel<U> {
    function: Function,
    extents: Extents,
    /// Whether there are few f32 elements, so that call overhead dominates.
    is_few: bool,
    /// The kernel for the element type.
    run: Run,
    /// Encoding of a quantized output.
    quantized: Option<QuantizedAs>,
    marker: PhantomData<fn() -> U>,
}

impl<U: Unary> NumberKernel<U> {
    const RULES: &'static [PortRule] = &[
        input(0, types::FLOATS.or(U::INTS)).bounded().pitched(),
        output_like(0, 0).bounded().pitched(),
    ];
    const DEF: KernelDef = KernelDef::new::<Self>(U::NAME, Core::CPU)
        .ports(Self::RULES)
        .in_place(&[InPlace { input: 0, output: 0 }]);
}

impl<U: Unary> Kernel for NumberKernel<U> {
    fn accept(cx: &AcceptCx<'_>) -> Result<usize, Error> {
        let is_f32 = cx.input(0)?.dtype() == Some(DType::F32);
        Ok(usize::from(is_f32 && QuantizedAs::first_quantization(cx.epilogue()).is_some()))
    }

    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let function = Function::new::<U>(U::params(cx)?);
        let run = run_of(cx.input(0)?.dtype())?;
        let (x, extents) = (cx.input(0)?, Extents::new(cx)?);
        let quantized = QuantizedAs::first_quantization(cx.epilogue());
        let is_few = quantized.is_none()
            && extents == Extents::Fixed
            && x.dtype() == Some(DType::F32)
            && x.len() <= GRAIN;
        Ok(Self { function, extents, is_few, run, quantized, marker: PhantomData })
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        // `pair` fails for strided tensors; they take the general path below.
        if self.is_few
            && let Ok(pair) = io.pair::<f32>(0, 0)
        {
            let lanes = Lanes::<U>(self.function.params, PhantomData);
            match pair {
                Pair::Apart(x, y) => map1(lanes, x, y),
                Pair::Same(y) => map1_in_place(lanes, y),
            }
            return Ok(());
        }
        let Some(quantized) = self.quantized else {
            return (self.run)(&self.function, self.extents, io);
        };
        let Function { out_of_place, params, .. } = self.function;
        each_quantized(io, quantized, &|x, y| out_of_place(x, y, params))
    }
}

/// The versions of a function and its parameters, type-erased so that shared code is compiled once.
struct Function {
    params: [f32; 2],
    out_of_place: fn(&[f32], &mut [f32], [f32; 2]),
    in_place: fn(&mut [f32], [f32; 2]),
    f64: fn(f64, [f64; 2]) -> f64,
    int: fn(i128, [f64; 2]) -> i128,
}

impl Function {
    fn new<U: Unary>(params: [f32; 2]) -> Self {
        Self {
            params,
            out_of_place: |x, y, params| map1(Lanes::<U>(params, PhantomData), x, y),
            in_place: |y, params| map1_in_place(Lanes::<U>(params, PhantomData), y),
            f64: U::F64,
            int: U::INT,
        }
    }
}

/// The function of vector lanes, with its parameters.
struct Lanes<U>([f32; 2], PhantomData<fn() -> U>);

impl<U> Clone for Lanes<U> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<U> Copy for Lanes<U> {}

impl<U: Unary> Map1 for Lanes<U> {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F) -> S::F {
        U::lanes(s, x, self.0)
    }
}

/// A kernel's execute function for the type of its elements.
type Run = fn(&Function, Extents, Io<'_>) -> Result<(), ExecError>;

fn run_of(dtype: Option<DType>) -> Result<Run, Error> {
    match dtype {
        Some(DType::F32) => Ok(execute_f32),
        Some(DType::F64) => Ok(execute_f64),
        Some(DType::F16) => Ok(execute_half_precision::<F16>),
        Some(DType::Bf16) => Ok(execute_half_precision::<Bf16>),
        _ => of_type!(
            dtype,
            [I8 = i8, I16 = i16, I32 = i32, I64 = i64, U8 = u8, U16 = u16, U32 = u32, U64 = u64],
            T => execute_ints::<T> as Run
        ),
    }
}

fn execute_f32(function: &Function, extents: Extents, io: Io<'_>) -> Result<(), ExecError> {
    let params = function.params;
    each::<f32>(
        extents,
        io,
        |x, y| (function.out_of_place)(x, y, params),
        |y| (function.in_place)(y, params),
    )
}

fn execute_half_precision<T: Stored<f32>>(
    function: &Function,
    extents: Extents,
    io: Io<'_>,
) -> Result<(), ExecError> {
    let block_function = |block: &mut [f32]| (function.in_place)(block, function.params);
    each::<T>(
        extents,
        io,
        |x, y| map_blocks(x, y, block_function),
        |y| map_blocks_in_place(y, block_function),
    )
}

fn execute_f64(function: &Function, extents: Extents, io: Io<'_>) -> Result<(), ExecError> {
    let params = function.params.map(f64::from);
    each_element::<f64>(extents, io, |x| (function.f64)(x, params))
}

fn execute_ints<T: Stored<i128>>(
    function: &Function,
    extents: Extents,
    io: Io<'_>,
) -> Result<(), ExecError> {
    let params = function.params.map(f64::from);
    each_element::<T>(extents, io, |x| T::store((function.int)(x.load(), params)))
}

fn each_element<T: Element>(
    extents: Extents,
    io: Io<'_>,
    function: impl Fn(T) -> T + Sync,
) -> Result<(), ExecError> {
    each::<T>(
        extents,
        io,
        |x, y| y.iter_mut().zip(x).for_each(|(y, &x)| *y = function(x)),
        |y| y.iter_mut().for_each(|y| *y = function(*y)),
    )
}

#[cfg(test)]
mod tests {
    use udo_api::{Dim, Encoding, QuantizedType, bytes_of_mut};

    use super::*;
    use crate::family::numerics::{
        EDGES, LENGTHS, assert_quantized, assert_rounded, bits, edges, settled_on_any_threads,
    };
    use crate::family::partition::GRAIN;
    use crate::testing::{Bench, assert_near, bench, noise, tensor};

    /// Runs all tests of a member; `bench` adds calls in place and over strided rows.
    pub(super) fn run_all<U: Unary>(name: &str) {
        println!("{name}: a family member");
        f32_and_f64_match_the_function::<U>(name);
        half_precision_is_computed_in_f32::<U>(name);
        many_threads_and_bounded_shapes_match_the_function::<U>(name);
        quantized_values_match_the_function::<u8, U>(name, 128);
        quantized_values_match_the_function::<i8, U>(name, -3);
        integers_match_the_function::<U>(name);
        edge_cases_match_the_function::<U>(name);
        results_do_not_depend_on_position_or_thread_count::<U>(name);
        quantized_outputs_match_quantized_f32_outputs::<U>(name);
    }

    fn quantized_outputs_match_quantized_f32_outputs<U: Unary>(name: &str) {
        let x: Vec<f32> = noise(GRAIN + 7).iter().map(|x| x * 3.0).collect();
        assert_quantized(&bench(name).threads(3).input(tensor(&[x.len()], &x)), 1);
        for (node, _) in nodes::<U>(name) {
            assert_quantized(&node.clone().input(tensor(&[EDGES.len()], &EDGES)), 1);
            assert_quantized(&node.input(tensor(&[3, 5], &noise(15))), 1);
        }
        let y = bench(name).input(tensor(&[1], &[0.5f64]));
        let y = y.then_quantize(DType::U8, 1.0, 0).run().unwrap();
        assert_eq!(y[0].epilogue_steps, 0, "only f32 is quantized");
    }

    /// Whether the parameters are at most two real values without constraints.
    fn has_unconstrained_params<U: Unary>() -> bool {
        let is_real = |param: &Param| param.kind() == Some(udo_api::ParamKind::Scalar);
        !U::PARAMS.is_empty() && U::PARAMS.iter().all(is_real)
    }

    /// Returns a node and its parameters: defaults, and others.
    fn nodes<U: Unary>(name: &str) -> Vec<(Bench, [f64; 2])> {
        let mut defaults = [0.0; 2];
        for (value, param) in defaults.iter_mut().zip(U::PARAMS) {
            if let udo_api::ValueKind::Float(default) = param.default_value() {
                *value = default;
            }
        }
        let mut nodes = vec![(bench(name), defaults)];
        if has_unconstrained_params::<U>() {
            let others = [0.75, 0.375];
            let params = U::PARAMS.iter().zip(others);
            let node = params.fold(bench(name), |node, (p, value)| node.float(p.name(), value));
            nodes.push((node, others));
        }
        nodes
    }

    /// Returns values around 0, and a few large and tiny ones.
    fn points() -> Vec<f64> {
        let mut x = vec![0.0, -0.0, f64::from(1e-30f32), f64::from(-1e-5f32), 100.0, -100.0];
        x.extend((-400..=400).map(|i| f64::from(i) / 64.0));
        x
    }

    /// Evaluates the f64 version; values beyond the f32 range become infinite.
    fn exact<U: Unary>(x: f64, params: [f64; 2]) -> f64 {
        let y = (U::F64)(x, params);
        if (y as f32).is_infinite() { (y as f32).into() } else { y }
    }

    fn f32_and_f64_match_the_function<U: Unary>(name: &str) {
        let x = points();
        let dims = [1, x.len()];
        let floats: Vec<f32> = x.iter().map(|&x| x as f32).collect();
        for (node, params) in nodes::<U>(name) {
            let expected: Vec<f64> = x.iter().map(|&x| exact::<U>(x, params)).collect();
            for core in [Core::CPU, Core::GPU] {
                let y = node.clone().on(core).input(tensor(&dims, &floats)).one();
                assert_near(&y.values::<f32>(), &expected, U::WITHIN);
            }
            let expected: Vec<f64> = x.iter().map(|&x| (U::F64)(x, params)).collect();
            let y = node.input(tensor(&dims, &x)).one().values::<f64>();
            assert_near(&y, &expected, 0.0);
        }
    }

    fn half_precision_is_computed_in_f32<U: Unary>(name: &str) {
        let x: Vec<F16> = points().into_iter().map(|x| F16::from_f32(x as f32)).collect();
        let dims = [x.len()];
        for (node, params) in nodes::<U>(name) {
            let expected = x.iter().map(|x| exact::<U>(x.to_f32().into(), params));
            let expected: Vec<f64> = expected.collect();
            for core in [Core::CPU, Core::GPU] {
                let y = node.clone().on(core).input(tensor(&dims, &x)).one();
                let y: Vec<f32> = y.values::<F16>().into_iter().map(F16::to_f32).collect();
                let rounded = |&x: &f64| f64::from(F16::from_f32(x as f32).to_f32());
                assert_near(&y, &expected.iter().map(rounded).collect::<Vec<_>>(), 1e-3);
            }
            let x: Vec<Bf16> = x.iter().map(|x| Bf16::from_f32(x.to_f32())).collect();
            let expected = x.iter().map(|x| exact::<U>(x.to_f32().into(), params));
            let expected: Vec<f64> = expected.collect();
            let y = node.input(tensor(&dims, &x)).one();
            let y: Vec<f32> = y.values::<Bf16>().into_iter().map(Bf16::to_f32).collect();
            assert_near(&y, &expected, 8e-3);
        }
    }

    fn many_threads_and_bounded_shapes_match_the_function<U: Unary>(name: &str) {
        let (node, params) = nodes::<U>(name).swap_remove(0);
        let x = points();
        let expected: Vec<f64> = x.iter().map(|&x| exact::<U>(x, params)).collect();
        let count = x.len();
        let len = 2 * GRAIN + 7;
        let repeated =
            |values: &[f64]| values.iter().copied().cycle().take(len).collect::<Vec<_>>();
        let x: Vec<f32> = repeated(&x).into_iter().map(|x| x as f32).collect();
        for threads in [1, 3] {
            let y = node.clone().threads(threads).input(tensor(&[len], &x)).one();
            assert_near(&y.values::<f32>(), &repeated(&expected), U::WITHIN);
        }
        let x = tensor(&[count], &x[..count]).bounded(&[Dim::UpTo(40_000)]);
        let y = node.input(x).one();
        assert_eq!(y.dims(), [count]);
        assert_near(&y.values::<f32>(), &expected, U::WITHIN);
    }

    fn quantized_values_match_the_function<T: QuantizedType, U: Unary>(
        name: &str,
        zero_point: i32,
    ) {
        let mut all = [T::default(); 256];
        for (bits, x) in (0..=u8::MAX).zip(bytes_of_mut(&mut all)) {
            *x = bits;
        }
        let (x_encoding, y_encoding) = (
            Encoding { scale: 0.03, zero_point },
            Encoding { scale: 0.02, zero_point: zero_point - 1 },
        );
        let x = tensor(&[256], &all).encoded(x_encoding.scale, x_encoding.zero_point);
        for (node, params) in nodes::<U>(name) {
            let run = node.on(Core::DSP_V68).input(x.clone());
            let y = run.output_encoding(0, y_encoding.scale, y_encoding.zero_point).one();
            let function = |x: f32| (U::F64)(x.into(), params) as f32;
            let expected: Vec<T> = all
                .iter()
                .map(|&x| y_encoding.quantize(function(x_encoding.dequantize(x))))
                .collect();
            assert!(y.values::<T>() == expected, "quantized values of {}", U::NAME);
        }
    }

    fn integers_match_the_function<U: Unary>(name: &str) {
        for dtype in types::INTS.iter() {
            let result = of_type!(
                Some(dtype),
                [I8 = i8, I16 = i16, I32 = i32, I64 = i64, U8 = u8, U16 = u16, U32 = u32, U64 = u64],
                T => integers_of_a_type_match_the_function::<T, U>(name)
            );
            result.unwrap();
        }
    }

    fn integers_of_a_type_match_the_function<T: Stored<i128> + crate::number::Number, U: Unary>(
        name: &str,
    ) {
        let x = [T::LOWEST, T::from_f64(-5.0), T::ZERO, T::from_f64(5.0), T::HIGHEST];
        for (node, params) in nodes::<U>(name) {
            let run = node.input(tensor(&[5], &x));
            if U::INTS.has(T::DTYPE) {
                let expected = x.map(|x| T::store((U::INT)(x.load(), params)));
                assert_eq!(run.one().values::<T>(), expected, "{} of {}", U::NAME, T::DTYPE);
            } else {
                let error = run.error();
                assert!(error.starts_with("no kernel on cpu takes"), "{error}");
            }
        }
    }

    fn edge_cases_match_the_function<U: Unary>(name: &str) {
        for (node, params) in nodes::<U>(name) {
            let y = node.input(tensor(&[EDGES.len()], &EDGES)).one().values::<f32>();
            for (x, y) in EDGES.into_iter().zip(y) {
                let name = format!("{} of {x:e}", U::NAME);
                assert!(!x.is_nan() || y.is_nan(), "{name} is {y}");
                assert_rounded(y, (U::F64)(x.into(), params), U::WITHIN, &name);
            }
        }
    }

    fn results_do_not_depend_on_position_or_thread_count<U: Unary>(name: &str) {
        let result_of = |x: f32| bench(name).input(tensor(&[], &[x])).one().values::<f32>()[0];
        let expected = bits(&EDGES.map(result_of));
        for (len, first) in LENGTHS.into_iter().flat_map(|len| [0, 5].map(|first| (len, first))) {
            let y = bench(name).input(tensor(&[len], &edges(first, len))).one();
            let expected = expected.iter().copied().cycle().skip(first).take(len);
            assert_eq!(bits(&y.values()), expected.collect::<Vec<_>>(), "{len} from {first} on");
        }
        let len = 2 * GRAIN + 7;
        settled_on_any_threads(&bench(name).input(tensor(&[len], &edges(0, len))));
    }
}
