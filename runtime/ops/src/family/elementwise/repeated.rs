//! Elementwise operators of any number of operands (Sum, Mean, Max, Min) with NumPy broadcasting: a binary function is
//! applied to the first two operands, then to the result and each further operand.

use std::marker::PhantomData;

use udo_api::{
    Core, Error, ExecError, Facts, FinalizeCx, InferCx, Inputs, Io, Kernel, KernelDef, MAX_RANK,
    Op, OpSchema, Port, PortRule, Status, TensorDesc, TypeSet, input, output_like,
};

use udo_simd::Simd;

use super::gpu::RepeatedGpu;
use super::rows::{Computed, Pairs, Rows, Side, each_in_place};
use super::stored::Stored;
use super::{Broadcast, GRAIN, broadcast_shapes};
use crate::Def;
use crate::family::axes::Axes;
use crate::number::Number;

/// A binary function, applied again for each further operand. The family provides schema, inference, CPU and GPU
/// kernels, and tests.
pub(crate) trait Repeated: Pairs {
    const NAME: &'static str;
    /// Name of the output.
    const OUTPUT: &'static str;
    /// The types that the CPU kernel supports.
    const TYPES: TypeSet;
    /// An OpenCL expression of the result so far, `y`, and the next operand, `x`.
    const OPENCL: &'static str;
    /// The final step.
    const END: End = End::None;
}

/// The final step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    None,
    /// Divides by the number of operands.
    Mean,
}

/// Defines the operator of the function `R`.
pub(crate) const fn repeated<R: Repeated>() -> Def {
    let def = Def::new::<Described<R>>(Kernels::<R>::ALL);
    #[cfg(test)]
    let def = def.tested(tests::run_all::<R>);
    def
}

/// The operator of the function `R`.
struct Described<R>(PhantomData<fn() -> R>);

impl<R: Repeated> Op for Described<R> {
    const SCHEMA: OpSchema = OpSchema::new(
        R::NAME,
        &[Port::required("data_0", R::TYPES).repeated()],
        &[Port::required(R::OUTPUT, R::TYPES)],
        &[],
    )
    .facts(Facts::ELEMENTWISE);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let first = cx.input(0)?;
        let mut shape = first.full_shape();
        for port in 1..cx.input_count() {
            let next = cx.input(port)?;
            if next.dtype() != first.dtype() {
                return Err(Error::new(format!(
                    "input {port} is {next}, expected the type of {first}"
                )));
            }
            shape = broadcast_shapes(shape, next.full_shape())?;
        }
        cx.set_output(0, first.with_shape(shape))
    }
}

/// The kernels of the function `R`.
struct Kernels<R>(PhantomData<fn() -> R>);

impl<R: Repeated> Kernels<R> {
    const ALL: &'static [KernelDef] = &[NumberKernel::<R>::DEF, RepeatedGpu::<R>::DEF];
}

/// The CPU kernel of `R`.
struct NumberKernel<R> {
    operands: Operands,
    run: fn(&Operands, Io<'_>) -> Result<(), ExecError>,
    marker: PhantomData<fn() -> R>,
}

/// How operands are combined.
struct Operands {
    /// The initial result; `None` if extents are known only in the run.
    start: Option<Start>,
    /// Broadcasting of each further operand with the result so far, where known.
    further: Vec<Broadcast>,
    end: End,
}

/// The initial result.
enum Start {
    /// The first operand, broadcast.
    First(Broadcast),
    /// The function of the first two operands, if they broadcast to the output's shape.
    FirstTwo(Broadcast),
}

impl Start {
    /// Chooses the initial result from the extents of the first operands and the output.
    fn choose(first: &[usize], second: Option<&[usize]>, y: &[usize]) -> Option<Self> {
        if let Some(second) = second {
            let pair = Broadcast::new(first, second)?;
            if pair.shape() == y {
                return Some(Self::FirstTwo(pair));
            }
        }
        Broadcast::new(y, first).map(Self::First)
    }

    /// Returns the number of operands that it includes.
    fn operands(&self) -> usize {
        match self {
            Self::First(_) => 1,
            Self::FirstTwo(_) => 2,
        }
    }
}

impl<R: Repeated> NumberKernel<R> {
    const RULES: &'static [PortRule] = &[input(0, R::TYPES).bounded(), output_like(0, 0).bounded()];
    const DEF: KernelDef = KernelDef::new::<Self>(R::NAME, Core::CPU).ports(Self::RULES);
}

impl<R: Repeated> Kernel for NumberKernel<R> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let y = cx.output(0)?;
        let misfit = || Error::new(format!("an input does not broadcast to {y}"));
        let inputs =
            (0..cx.input_count()).map(|port| cx.input(port)).collect::<Result<Vec<_>, _>>()?;
        let (mut start, mut further) = (None, Vec::new());
        if inputs.iter().all(|x| x.full_shape().is_fixed()) {
            let second = inputs.get(1).map(TensorDesc::shape);
            let first = inputs.first().map_or(&[][..], TensorDesc::shape);
            let chosen = Start::choose(first, second, y.shape()).ok_or_else(misfit)?;
            let others = inputs.iter().skip(chosen.operands());
            let others = others.map(|x| Broadcast::new(y.shape(), x.shape()));
            further = others.collect::<Option<Vec<_>>>().ok_or_else(misfit)?;
            start = Some(chosen);
        }
        let run = of_computed!(y.dtype(), T => {
            let run: fn(&Operands, Io<'_>) -> Result<(), ExecError> =
                |operands, io| execute(operands, &T::rows::<R>(), &T::rows::<Quotient>(), io);
            run
        })?;
        let operands = Operands { start, further, end: R::END };
        Ok(Self { operands, run, marker: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(&self.operands, io)
    }
}

fn execute<T: Stored<f64>>(
    operands: &Operands,
    rows: &Rows<T>,
    quotient: &Rows<T>,
    io: Io<'_>,
) -> Result<(), ExecError> {
    let Io { inputs, mut outputs, parallel, .. } = io;
    let bad = ExecError::new(Status::BAD_VALUE);
    let (mut shape, mut rank, run_start) = ([0; MAX_RANK], 0, &mut None);
    let start = if let Some(start) = &operands.start {
        start
    } else {
        (shape, rank) = result(&inputs)?;
        let shape = &shape[..rank];
        outputs.set_shape(0, shape)?;
        let second = (inputs.len() > 1).then(|| inputs.shape(1)).transpose()?;
        run_start.insert(Start::choose(inputs.shape(0)?, second, shape).ok_or(bad)?)
    };
    let mut y = outputs.take::<T>(0)?;
    if operands.start.is_none() {
        y = &mut y[..shape[..rank].iter().product()];
    }
    let first = inputs.get::<T>(0)?;
    match start {
        Start::First(plan) => {
            plan.rows_in_place(parallel, y, first, &|y, x| each_in_place(y, x, |_, x| x))?;
        }
        Start::FirstTwo(plan) => {
            plan.rows(parallel, (first, inputs.get::<T>(1)?), y, &rows.out_of_place)?;
        }
    }
    for (at, port) in (start.operands()..inputs.len()).enumerate() {
        let run_start = &mut None;
        let plan = if let Some(plan) = operands.further.get(at) {
            plan
        } else {
            let own = Broadcast::new(&shape[..rank], inputs.shape(port)?);
            run_start.insert(own.ok_or(bad)?)
        };
        plan.rows_in_place(parallel, y, inputs.get::<T>(port)?, &rows.in_place)?;
    }
    if operands.end == End::Mean {
        let count = T::store(inputs.len() as f64);
        parallel.chunks_mut(y, GRAIN, |_, y| {
            (quotient.in_place)(y, Side::One(count));
            Ok(())
        })?;
    }
    Ok(())
}

/// Returns the extents of this run's output, and their count.
fn result(inputs: &Inputs<'_>) -> Result<(Axes, usize), ExecError> {
    let (mut shape, mut rank) = ([0; MAX_RANK], 0);
    for port in 0..inputs.len() {
        let plan = Broadcast::new(&shape[..rank], inputs.shape(port)?);
        let plan = plan.ok_or(ExecError::bad_value(port as i64, port))?;
        rank = plan.shape().len();
        shape[..rank].copy_from_slice(plan.shape());
    }
    Ok((shape, rank))
}

/// Division by the number of operands.
struct Quotient;

impl Pairs for Quotient {
    const F64: fn(f64, f64) -> f64 = |a, b| a / b;

    fn apply<T: Number>(a: T, b: T) -> T {
        a.div(b)
    }

    #[inline(always)]
    fn lanes<S: Simd>(s: S, a: S::F, b: S::F) -> S::F {
        s.div(a, b)
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Bf16, F16};

    use super::*;
    use crate::family::numerics::{
        EDGES, bits, on_gpu_too, pairs_of_i8, settled_on_any_threads, wrapped,
    };
    use crate::family::partition::GRAIN;
    use crate::testing::{assert_near, bench, noise, tensor};

    /// Runs all tests of a member.
    pub(super) fn run_all<R: Repeated>(name: &str) {
        println!("{name}: a family member");
        one_two_and_three_operands_broadcast::<R>();
        large_tensors_are_divided_among_threads::<R>();
        every_type_matches_the_definition::<R>();
        mismatched_inputs_are_reported::<R>();
        edge_cases_match_the_function::<R>();
        integers_wrap::<R>();
        bounded_shapes_are_read_in_the_run::<R>();
    }

    fn bounded_shapes_are_read_in_the_run<R: Repeated>() {
        use udo_api::Dim::{Fixed, UpTo};

        let x = [1f32, 5.0, 3.0, 2.0];
        for bounds in [[UpTo(7), Fixed(2)], [UpTo(2), UpTo(2)]] {
            let run = bench(R::NAME).input(tensor(&[2, 2], &x).bounded(&bounds));
            let run = run.input(tensor(&[1], &[4f32]));
            let run = run.input(tensor(&[2, 1], &[2f32, 6.0]).bounded(&[bounds[0], Fixed(1)]));
            let y = run.one();
            let fixed = bench(R::NAME).input(tensor(&[2, 2], &x)).input(tensor(&[1], &[4f32]));
            let fixed = fixed.input(tensor(&[2, 1], &[2f32, 6.0])).one();
            assert_eq!((y.dims(), y.values::<f32>()), (fixed.dims(), fixed.values::<f32>()));
            assert_eq!(y.desc().full_shape().dim(0), Some(bounds[0]));
        }
    }

    /// Applies the final step for this many operands.
    fn expected_result<R: Repeated>(y: impl Into<f64>, operands: u8) -> f64 {
        match R::END {
            End::None => y.into(),
            End::Mean => y.into() / f64::from(operands),
        }
    }

    fn one_two_and_three_operands_broadcast<R: Repeated>() {
        let (x, row, column) = ([1f32, 2.0, 30.0, 40.0], [10f32, 20.0], [15f32, 25.0]);
        let reduce_pair = |a: f32, b: f32| R::F64(a.into(), b.into()) as f32;
        let [x_tensor, row_tensor, column_tensor] =
            [tensor(&[2, 2], &x), tensor(&[2], &row), tensor(&[2, 1], &column)];
        let run = bench(R::NAME).input(x_tensor.clone());
        assert_eq!(run.clone().one().values::<f32>(), x);
        let y = on_gpu_too(&run.clone().input(x_tensor), 0.0);
        assert_eq!(y.values::<f32>(), x.map(|x| expected_result::<R>(reduce_pair(x, x), 2) as f32));
        let y = on_gpu_too(&run.input(row_tensor.clone()).input(column_tensor.clone()), 1e-6);
        let expected: Vec<f32> = (0..4)
            .map(|i| {
                expected_result::<R>(reduce_pair(reduce_pair(x[i], row[i % 2]), column[i / 2]), 3)
                    as f32
            })
            .collect();
        assert_eq!(y.values::<f32>(), expected);
        let y =
            bench(R::NAME).input(row_tensor.clone()).input(row_tensor).input(column_tensor).one();
        let expected: Vec<f32> = (0..4)
            .map(|i| {
                expected_result::<R>(
                    reduce_pair(reduce_pair(row[i % 2], row[i % 2]), column[i / 2]),
                    3,
                ) as f32
            })
            .collect();
        assert_eq!((y.dims(), y.values::<f32>()), (vec![2, 2], expected));
    }

    fn large_tensors_are_divided_among_threads<R: Repeated>() {
        let len = 2 * GRAIN + 7;
        let (a, b, c) = (noise(3 * len), noise(len), noise(2));
        let run = bench(R::NAME).threads(3).input(tensor(&[1, len], &b));
        let run = run.input(tensor(&[2, len], &a[..2 * len])).input(tensor(&[2, 1], &c));
        let y = settled_on_any_threads(&run);
        let expected_at = |i: usize| {
            expected_result::<R>(
                R::F64(R::F64(b[i % len].into(), a[i].into()), c[i / len].into()),
                3,
            )
        };
        assert_near(&y.values::<f32>(), &(0..2 * len).map(expected_at).collect::<Vec<_>>(), 1e-6);
    }

    fn every_type_matches_the_definition<R: Repeated>() {
        let y = bench(R::NAME).input(tensor(&[1], &[0.5f64])).input(tensor(&[1], &[-3f64])).one();
        assert_near(&y.values::<f64>(), &[expected_result::<R>(R::F64(0.5, -3.0), 2)], 0.0);
        for (a, b) in [(0.5f32, -3.0), (-2.0, 4.0)] {
            let run = bench(R::NAME).input(tensor(&[1], &[F16::from_f32(a)]));
            let y = run.input(tensor(&[1], &[F16::from_f32(b)])).one();
            let expected =
                F16::from_f32(expected_result::<R>(R::F64(a.into(), b.into()), 2) as f32);
            assert_eq!(y.values::<F16>(), [expected]);
            let run = bench(R::NAME).input(tensor(&[1], &[Bf16::from_f32(a)]));
            let y = run.input(tensor(&[1], &[Bf16::from_f32(b)])).one();
            assert_near(&[y.values::<Bf16>()[0].to_f32()], &[expected.to_f32().into()], 0.0);
        }
        let ints = bench(R::NAME).input(tensor(&[2], &[5u8, 6])).input(tensor(&[1], &[7u8]));
        if R::TYPES.has(udo_api::DType::U8) {
            let expected = [R::F64(5.0, 7.0) as u8, R::F64(6.0, 7.0) as u8];
            assert_eq!(ints.one().values::<u8>(), expected);
        } else {
            assert_eq!(ints.error(), "no kernel on cpu takes u8[2], u8[1]");
        }
    }

    fn mismatched_inputs_are_reported<R: Repeated>() {
        let run = bench(R::NAME).input(tensor(&[2], &[1f32, 2.0]));
        assert_eq!(
            run.clone().input(tensor(&[1], &[1f64])).error(),
            "input 1 is f64[1], expected the type of f32[2]"
        );
        let error = run.input(tensor(&[3], &[1f32, 2.0, 3.0])).error();
        assert_eq!(error, "shapes [2] and [3] do not broadcast");
    }

    fn edge_cases_match_the_function<R: Repeated>() {
        let count = EDGES.len();
        let rows: Vec<f32> = (0..count * count).map(|i| EDGES[i / count]).collect();
        let cols: Vec<f32> = (0..count * count).map(|i| EDGES[i % count]).collect();
        let (a, b) = (tensor(&[rows.len()], &rows), tensor(&[rows.len()], &cols));
        for third in EDGES {
            let run = bench(R::NAME).input(a.clone()).input(b.clone());
            let y = on_gpu_too(&run.input(tensor(&[1], &[third])), 1e-6).values::<f32>();
            let reduce_pair = |a: f32, b: f32| R::F64(f64::from(a), f64::from(b)) as f32;
            let expected: Vec<f32> = rows
                .iter()
                .zip(&cols)
                .map(|(&a, &b)| {
                    expected_result::<R>(reduce_pair(reduce_pair(a, b), third), 3) as f32
                })
                .collect();
            assert_eq!(bits(&y), bits(&expected), "{} with {third:e}", R::NAME);
            for ((a, b), y) in rows.iter().zip(&cols).zip(y) {
                let is_nan = a.is_nan() || b.is_nan() || third.is_nan();
                assert!(!is_nan || y.is_nan(), "{} of {a}, {b} and {third}", R::NAME);
            }
        }
    }

    fn integers_wrap<R: Repeated>() {
        if !R::TYPES.has(udo_api::DType::I8) {
            return;
        }
        let (a, b) = pairs_of_i8();
        let run = bench(R::NAME).input(tensor(&[a.len()], &a)).input(tensor(&[b.len()], &b));
        let expected = a.iter().zip(&b).map(|(&a, &b)| wrapped(R::F64(a.into(), b.into())));
        let expected: Option<Vec<i8>> = expected.collect();
        assert_eq!(Some(run.one().values::<i8>()), expected);
    }
}
