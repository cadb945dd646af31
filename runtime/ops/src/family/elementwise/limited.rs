//! Elementwise operators of one operand and two optional scalar limits, such as Clip.

use std::marker::PhantomData;

use udo_api::{
    Bf16, Core, DType, Element, Error, ExecError, F16, Facts, FinalizeCx, InPlace, InferCx, Inputs,
    Io, Kernel, KernelDef, Op, OpSchema, Port, Status, TypeSet, input, input_like, output_like,
    types,
};

use super::gpu::LimitedGpu;
use super::stored::{Stored, map_blocks, map_blocks_in_place};
use super::{Extents, each, infer_like_input};
use crate::Def;
use crate::number::Number;

/// A function of an element, a lower limit and an upper limit. The family provides schema, inference, CPU and GPU
/// kernels, and tests.
pub(crate) trait Limited: Send + Sync + 'static {
    const NAME: &'static str;
    /// Names of the limits.
    const LIMITS: [&'static str; 2];
    /// An OpenCL expression of the floats `x`, `low` and `high`.
    const OPENCL: &'static str;

    /// Evaluates the function. An absent limit is the lowest or highest value of the type.
    fn apply<T: Number>(x: T, low: T, high: T) -> T;
}

/// Defines the operator of the function `L`.
pub(crate) const fn limited<L: Limited>() -> Def {
    let def = Def::new::<Described<L>>(Described::<L>::KERNELS);
    #[cfg(test)]
    let def = def.tested(tests::run_all::<L>);
    def
}

const TYPES: TypeSet = types::NUMBERS;

/// The operator of the function `L`.
struct Described<L>(PhantomData<fn() -> L>);

impl<L: Limited> Described<L> {
    const KERNELS: &'static [KernelDef] = &[NumberKernel::<L>::DEF, LimitedGpu::<L>::DEF];
}

impl<L: Limited> Op for Described<L> {
    const SCHEMA: OpSchema = OpSchema::new(
        L::NAME,
        &[
            Port::required("input", TYPES),
            Port::optional(L::LIMITS[0], TYPES),
            Port::optional(L::LIMITS[1], TYPES),
        ],
        &[Port::required("output", TYPES)],
        &[],
    )
    .facts(Facts::ELEMENTWISE);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        for port in 1..cx.input_count() {
            if cx.has_input(port) && cx.input(port)?.len() != 1 {
                let found = cx.input(port)?;
                return Err(Error::new(format!("input {port} is {found}, expected one element")));
            }
        }
        infer_like_input(cx)
    }
}

/// The CPU kernel of `L`.
struct NumberKernel<L> {
    /// Which limits are inputs.
    is_given: [bool; 2],
    extents: Extents,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
    marker: PhantomData<fn() -> L>,
}

impl<L: Limited> NumberKernel<L> {
    const DEF: KernelDef = KernelDef::new::<Self>(L::NAME, Core::CPU)
        .ports(&[
            input(0, TYPES).bounded().pitched(),
            input_like(1, 0),
            input_like(2, 0),
            output_like(0, 0).bounded().pitched(),
        ])
        .in_place(&[InPlace { input: 0, output: 0 }]);
}

impl<L: Limited> Kernel for NumberKernel<L> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let dtype = cx.input(0)?.dtype();
        let run = match dtype {
            Some(DType::F16) => execute_half_precision::<L, F16>,
            Some(DType::Bf16) => execute_half_precision::<L, Bf16>,
            _ => of_number!(dtype, T => execute::<L, T>)?,
        };
        let is_given = [1, 2].map(|port| cx.has_input(port));
        Ok(Self { is_given, extents: Extents::new(cx)?, run, marker: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

impl<L> NumberKernel<L> {
    /// Returns limit `index` (0 for the lower, 1 for the upper one), if the node has it.
    fn limit<T: Element>(&self, inputs: &Inputs<'_>, index: usize) -> Result<Option<T>, ExecError> {
        if !self.is_given[index] {
            return Ok(None);
        }
        let limit = inputs.get::<T>(index + 1)?.first().copied();
        limit.map(Some).ok_or(ExecError::new(Status::BAD_CALL))
    }
}

fn execute<L: Limited, T: Number>(kernel: &NumberKernel<L>, io: Io<'_>) -> Result<(), ExecError> {
    let low = kernel.limit::<T>(&io.inputs, 0)?.unwrap_or(T::LOWEST);
    let high = kernel.limit::<T>(&io.inputs, 1)?.unwrap_or(T::HIGHEST);
    each::<T>(
        kernel.extents,
        io,
        |x, y| y.iter_mut().zip(x).for_each(|(y, &x)| *y = L::apply(x, low, high)),
        |y| {
            for y in y {
                *y = L::apply(*y, low, high);
            }
        },
    )
}

/// Computes in f32, with infinities for absent limits.
fn execute_half_precision<L: Limited, T: Stored<f32>>(
    kernel: &NumberKernel<L>,
    io: Io<'_>,
) -> Result<(), ExecError> {
    let low = kernel.limit::<T>(&io.inputs, 0)?.map_or(f32::NEG_INFINITY, T::load);
    let high = kernel.limit::<T>(&io.inputs, 1)?.map_or(f32::INFINITY, T::load);
    let clamp_block =
        |block: &mut [f32]| block.iter_mut().for_each(|x| *x = L::apply(*x, low, high));
    each::<T>(
        kernel.extents,
        io,
        |x, y| map_blocks(x, y, clamp_block),
        |y| map_blocks_in_place(y, clamp_block),
    )
}

#[cfg(test)]
mod tests {
    use udo_api::Dim;

    use super::*;
    use crate::family::numerics::{
        EDGES, LENGTHS, bits, edges, on_gpu_too, settled_on_any_threads,
    };
    use crate::family::partition::GRAIN;
    use crate::testing::{bench, tensor};

    /// Runs all tests of a member; `bench` adds calls in place and over strided rows.
    pub(super) fn run_all<L: Limited>(name: &str) {
        println!("{name}: a family member");
        edge_cases_match_the_function::<L>();
        absent_limits_do_not_apply::<L>();
        half_precision_matches_f32::<L>();
        large_and_bounded_tensors_match_the_function::<L>();
        let run = bench(L::NAME).input(tensor(&[2], &[1f32, 2.0]));
        let error = run.input(tensor(&[2], &[0f32, 1.0])).error();
        assert_eq!(error, "input 1 is f32[2], expected one element");
    }

    fn edge_cases_match_the_function<L: Limited>() {
        for (len, low) in LENGTHS.into_iter().flat_map(|len| EDGES.map(|low| (len, low))) {
            for high in EDGES {
                let x = edges(2, len);
                let run = bench(L::NAME).input(tensor(&[len], &x)).input(tensor(&[], &[low]));
                let y = on_gpu_too(&run.input(tensor(&[1], &[high])), 0.0).values::<f32>();
                let expected: Vec<f32> = x.iter().map(|&x| L::apply(x, low, high)).collect();
                assert_eq!(bits(&y), bits(&expected), "{len} between {low:e} and {high:e}");
                let keeps_nan = x.iter().zip(&y).all(|(x, y)| !x.is_nan() || y.is_nan());
                assert!(keeps_nan, "{} of a NaN between {low:e} and {high:e}", L::NAME);
            }
        }
    }

    fn absent_limits_do_not_apply<L: Limited>() {
        let x = [i8::MIN, -3, 0, 5, i8::MAX];
        for is_given in [[false, false], [true, false], [false, true], [true, true]] {
            let [low, high] = [-2i8, 4];
            let add = |run: crate::testing::Bench, is_given, limit| {
                if is_given { run.input(tensor(&[], &[limit])) } else { run.absent() }
            };
            let run = add(bench(L::NAME).input(tensor(&[5], &x)), is_given[0], low);
            let y = add(run, is_given[1], high).one().values::<i8>();
            let low = if is_given[0] { low } else { i8::MIN };
            let high = if is_given[1] { high } else { i8::MAX };
            assert_eq!(y, x.map(|x| L::apply(x, low, high)), "{is_given:?}");
        }
    }

    fn half_precision_matches_f32<L: Limited>() {
        let x = EDGES.map(F16::from_f32);
        let run = bench(L::NAME).input(tensor(&[x.len()], &x));
        let y = run.input(tensor(&[], &[F16::from_f32(-0.5)])).absent().one();
        let expected = x.map(|x| F16::from_f32(L::apply(x.to_f32(), -0.5, f32::INFINITY)).to_f32());
        let y: Vec<f32> = y.values::<F16>().into_iter().map(F16::to_f32).collect();
        assert_eq!(bits(&y), bits(&expected));
        let x = EDGES.map(Bf16::from_f32);
        let run = bench(L::NAME).input(tensor(&[x.len()], &x)).absent();
        let y = run.input(tensor(&[], &[Bf16::from_f32(0.5)])).one();
        let expected = x.map(|x| L::apply(x.to_f32(), f32::NEG_INFINITY, 0.5));
        let y: Vec<f32> = y.values::<Bf16>().into_iter().map(Bf16::to_f32).collect();
        assert_eq!(bits(&y), bits(&expected));
    }

    fn large_and_bounded_tensors_match_the_function<L: Limited>() {
        let x: Vec<i32> = (-GRAIN.cast_signed() as i32..2 * GRAIN as i32).collect();
        let limits = |run: crate::testing::Bench| {
            run.input(tensor(&[], &[-5i32])).input(tensor(&[], &[40_000i32]))
        };
        let y = settled_on_any_threads(&limits(bench(L::NAME).input(tensor(&[x.len()], &x))));
        let expected: Vec<i32> = x.iter().map(|&x| L::apply(x, -5, 40_000)).collect();
        assert!(y.values::<i32>() == expected);
        let y = limits(bench(L::NAME).input(tensor(&[2], &[-9i32, 9]).bounded(&[Dim::UpTo(7)])));
        let y = y.one();
        assert_eq!(
            (y.dims(), y.values::<i32>()),
            (vec![2], [-9, 9].map(|x| L::apply(x, -5, 40_000)).to_vec())
        );
    }
}
