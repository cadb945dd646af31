//! Operators that normalize rows, such as `LayerNormalization`. A row spans the axes of a tensor from parameter `axis`
//! on; each position of a row has a scale and possibly a bias.

use std::marker::PhantomData;

use udo_api::{
    Core, DType, Dim, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpSchema,
    Param, PortRule, Shape, TensorDesc, Value, input, input_like, output_like,
};

use super::gpu::row_gpu;
use super::{ROWS, RowNorm};
use crate::Def;
use crate::family::elementwise::infer_like_input;
use crate::family::partition::row_grain;
use crate::number::Number;

/// An element type of rows.
trait Row: Number {
    /// Normalizes all rows of `x` by the function of `N` for this type.
    fn rows<N: RowNorm>(x: &[Self], scale: &[Self], bias: &[Self], epsilon: f64, y: &mut [Self]);
}

impl Row for f32 {
    fn rows<N: RowNorm>(x: &[f32], scale: &[f32], bias: &[f32], epsilon: f64, y: &mut [f32]) {
        N::rows(x, scale, bias, epsilon as f32, y);
    }
}

impl Row for f64 {
    fn rows<N: RowNorm>(x: &[f64], scale: &[f64], bias: &[f64], epsilon: f64, y: &mut [f64]) {
        for (x, y) in x.chunks_exact(scale.len()).zip(y.chunks_exact_mut(scale.len())) {
            N::row(x, scale, bias, epsilon, y);
        }
    }
}

/// Defines the operator of the normalization `N`.
pub(crate) const fn row_norm<N: RowNorm>() -> Def {
    let def = Def::new::<Described<N>>(Described::<N>::KERNELS);
    #[cfg(test)]
    let def = def.tested(tests::run_all::<N>);
    def
}

/// The operator of the normalization `N`.
struct Described<N>(PhantomData<fn() -> N>);

impl<N: RowNorm> Described<N> {
    const KERNELS: &'static [KernelDef] = &[
        KernelDef::new::<Rows<N>>(N::NAME, Core::CPU).ports(RULES.split_at(1 + N::INPUTS.len()).0),
        row_gpu::<N>(),
    ];
}

const RULES: &[PortRule] =
    &[input(0, ROWS).bounded(), output_like(0, 0).bounded(), input_like(1, 0), input_like(2, 0)];

impl<N: RowNorm> Op for Described<N> {
    const SCHEMA: OpSchema = OpSchema::new(
        N::NAME,
        N::INPUTS,
        N::OUTPUTS,
        &[
            Param::scalar("axis", DType::I64).default(Value::int(-1)),
            Param::scalar("epsilon", DType::F32).default(Value::float(1e-5)),
            // The type that intermediate results are rounded to. Kernels compute in f32 or wider, so only f32 is
            // accepted.
            Param::scalar("stash_type", DType::I64).default(Value::int(1)),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let axis = cx.axis("axis", x.rank())?;
        let stash = cx.int("stash_type")?;
        if stash != 1 {
            return Err(Error::new(format!(
                "parameter \"stash_type\" is {stash}, expected 1, f32"
            )));
        }
        let row: usize = x.shape()[axis..].iter().product();
        for port in (1..cx.input_count()).filter(|&port| cx.has_input(port)) {
            let found = cx.input(port)?;
            if found.len() != row {
                return Err(Error::new(format!(
                    "input {port} is {found}, expected {row} elements"
                )));
            }
        }
        infer_like_input(cx)?;
        let shape = x.full_shape();
        let dims = shape.iter().enumerate();
        let dims: Vec<Dim> =
            dims.map(|(at, dim)| if at < axis { dim } else { Dim::Fixed(1) }).collect();
        let statistics = TensorDesc::new(DType::F32, Shape::from_dims(&dims)?);
        (1..cx.output_count()).try_for_each(|port| cx.set_output(port, statistics))
    }
}

/// CPU kernel of the normalization `N`.
struct Rows<N> {
    /// Elements of a row.
    row: usize,
    epsilon: f64,
    has_bias: bool,
    /// The statistics that the node has as outputs.
    statistics: Vec<usize>,
    /// Whether the number of rows is known only in the run.
    is_bounded: bool,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
    norm: PhantomData<fn() -> N>,
}

impl<N: RowNorm> Kernel for Rows<N> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let axis = cx.axis("axis", x.rank())?;
        if x.full_shape().iter().skip(axis).any(|dim| dim.exact().is_none()) {
            return Err(Error::new(format!("input 0 is {x}, expected rows of fixed length")));
        }
        Ok(Self {
            is_bounded: !x.full_shape().is_fixed(),
            row: x.shape()[axis..].iter().product(),
            epsilon: f64::from(cx.float32("epsilon")?),
            has_bias: cx.has_input(2),
            statistics: (0..N::STATISTICS).filter(|&at| cx.has_output(1 + at)).collect(),
            run: of_type!(x.dtype(), [F32 = f32, F64 = f64], T => Self::run::<T>)?,
            norm: PhantomData,
        })
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        if self.is_bounded {
            let shape = io.inputs.shape(0)?;
            io.outputs.set_shape(0, shape)?;
        }
        (self.run)(self, io)
    }
}

impl<N: RowNorm> Rows<N> {
    fn run<T: Row>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let &Self { row, epsilon, .. } = self;
        let (x, scale) = (inputs.get::<T>(0)?, inputs.get::<T>(1)?);
        let bias = if self.has_bias { inputs.get::<T>(2)? } else { &[] };
        if row == 0 {
            return Ok(());
        }
        let grain = row_grain(row);
        parallel.chunks_mut(&mut outputs.take::<T>(0)?[..x.len()], grain, |chunk, y| {
            T::rows::<N>(&x[chunk * grain..][..y.len()], scale, bias, epsilon, y);
            Ok(())
        })?;
        for &statistic in &self.statistics {
            let rows = grain / row;
            parallel.chunks_mut(outputs.take::<f32>(1 + statistic)?, rows, |chunk, y| {
                let x = x[chunk * grain..].chunks_exact(row);
                x.zip(y).for_each(|(x, y)| *y = N::statistic(statistic, x, epsilon) as f32);
                Ok(())
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::numerics::{on_gpu_too, settled_on_any_threads, with};
    use crate::family::partition::GRAIN;
    use crate::testing::{assert_near, bench, noise, tensor};

    /// Runs all tests of a member.
    pub(super) fn run_all<N: RowNorm>(name: &str) {
        println!("{name}: a family member");
        for (axis, first_axis) in [(-1, 2), (1, 1), (0, 0), (-2, 1)] {
            for has_bias in [false, N::INPUTS.len() > 2] {
                check::<N>([2, 3, 4], axis, first_axis, has_bias);
            }
        }
        check::<N>([GRAIN / 64, 10, 17], -1, 2, false);
        let run = bench(N::NAME).input(tensor(&[1, 2], &[1f32, 3.0]));
        let error = run.clone().input(tensor(&[3], &[1f32; 3])).error();
        assert_eq!(error, "input 1 is f32[3], expected 2 elements");
        let run = run.input(tensor(&[2], &[1f32; 2])).int("stash_type", 11);
        assert_eq!(run.error(), "parameter \"stash_type\" is 11, expected 1, f32");
        large_means_with_small_deviations_keep_precision::<N>();
        nan_stays_in_its_row::<N>();
        bounded_rows_are_read_in_the_run::<N>();
    }

    fn large_means_with_small_deviations_keep_precision<N: RowNorm>() {
        for (mean, spread) in [(1e4f32, 1e-2f32), (-3e5, 0.5), (1e6, 1.0), (0.0, 1e-3)] {
            for (rows, cols) in [(3, 8), (2, 64), (2, 1000), (1, 9000)] {
                let x: Vec<f32> = noise(rows * cols).iter().map(|x| mean + spread * x).collect();
                let run = bench(N::NAME).input(tensor(&[rows, cols], &x));
                // Scales differ, because rows that are not centred give almost equal values.
                let scale: Vec<f32> = (0..cols).map(|at| 1.0 + 0.25 * (at % 5) as f32).collect();
                let run = run.input(tensor(&[cols], &scale)).float("epsilon", 1e-12);
                let doubles = |x: &[f32]| x.iter().copied().map(f64::from).collect::<Vec<_>>();
                let (rows, scale) = (x.chunks(cols).map(doubles), doubles(&scale));
                let normalized = |x: Vec<f64>| (N::TEST)(&x, [&scale, &[]], f64::from(1e-12f32));
                let expected: Vec<f64> = rows.flat_map(normalized).collect();
                for core in [Core::CPU, Core::GPU] {
                    println!("{} {core:?}: {mean} with {spread}, {cols} elements", N::NAME);
                    let y = run.clone().on(core).one().values::<f32>();
                    assert_near(&y, &expected, 1e-4);
                }
            }
        }
    }

    fn bounded_rows_are_read_in_the_run<N: RowNorm>() {
        let x = tensor(&[2, 3], &noise(6));
        let run = |x| bench(N::NAME).input(x).input(tensor(&[3], &[1.5f32; 3]));
        let bounded = |bounds: &[Dim]| run(x.clone().bounded(bounds));
        let (fixed, y) = (run(x.clone()).one(), bounded(&[Dim::UpTo(4), Dim::Fixed(3)]).one());
        assert_eq!(y.desc().full_shape().to_string(), "[<=4,3]");
        assert_eq!((y.dims(), y.values::<f32>()), (fixed.dims(), fixed.values()));
        let error = bounded(&[Dim::Fixed(2), Dim::UpTo(4)]).error();
        assert_eq!(error, "input 1 is f32[3], expected 4 elements");
    }

    fn nan_stays_in_its_row<N: RowNorm>() {
        for dims in [[6, 5], [3, 67], [5, 2000]] {
            let x = noise(dims[0] * dims[1]);
            let run = |x: &[f32]| {
                let run = bench(N::NAME).input(tensor(&dims, x));
                run.input(tensor(&dims[1..], &vec![1.5f32; dims[1]]))
            };
            let plain = settled_on_any_threads(&run(&x)).values::<f32>();
            for (at, number) in [(1, f32::NAN), (x.len() - 1, f32::NAN), (0, f32::INFINITY)] {
                let y = run(&with(&x, at, number)).one().values::<f32>();
                for (i, (y, plain)) in y.iter().zip(&plain).enumerate() {
                    let is_same_row = i / dims[1] == at / dims[1];
                    // In the row of an infinity, a finite value divided by an infinite deviation is 0.
                    let is_affected = y.is_nan() || number.is_infinite() && *y == 0.0;
                    let is_unchanged = y.to_bits() == plain.to_bits();
                    assert!(
                        if is_same_row { is_affected } else { is_unchanged },
                        "{} with {number} at {at} of {dims:?}: {y}",
                        N::NAME
                    );
                }
            }
        }
    }

    fn check<N: RowNorm>(dims: [usize; 3], axis: i64, first_axis: usize, has_bias: bool) {
        let row: usize = dims[first_axis..].iter().product();
        let x = noise(dims.iter().product());
        let scale: Vec<f32> = (0..row).map(|i| 0.5 + i as f32 * 0.1).collect();
        let bias: Vec<f32> = (0..row).map(|i| i as f32 - 2.0).collect();
        let bias = if has_bias { bias } else { vec![] };
        let run = bench(N::NAME).threads(3).input(tensor(&dims, &x)).int("axis", axis);
        let run = run.input(tensor(&dims[first_axis..], &scale)).float("epsilon", 1e-3);
        let run = if has_bias { run.input(tensor(&dims[first_axis..], &bias)) } else { run };
        on_gpu_too(&run, 1e-5);
        let actual = run.outputs(N::OUTPUTS.len()).all();
        let wide = |x: &[f32]| x.iter().copied().map(f64::from).collect::<Vec<_>>();
        let (scale, bias) = (wide(&scale), wide(&bias));
        let rows = x.chunks(row).map(wide);
        let expected: Vec<f64> =
            rows.flat_map(|x| (N::TEST)(&x, [&scale, &bias], f64::from(1e-3f32))).collect();
        assert_near(&actual[0].values::<f32>(), &expected, 1e-5);
        let run = bench(N::NAME).threads(3).input(tensor(&dims, &wide(&x))).int("axis", axis);
        let run = run.input(tensor(&dims[first_axis..], &scale)).float("epsilon", 1e-3);
        let run = if has_bias { run.input(tensor(&dims[first_axis..], &bias)) } else { run };
        assert_near(&run.one().values::<f64>(), &expected, 1e-9);
        let mut statistics = dims;
        statistics[first_axis..].fill(1);
        for (at, actual) in actual[1..].iter().enumerate() {
            assert_eq!(actual.dims(), statistics);
            let epsilon = f64::from(1e-3f32);
            let expected: Vec<f32> =
                x.chunks(row).map(|x| N::statistic(at, x, epsilon) as f32).collect();
            assert_eq!(actual.values::<f32>(), expected);
        }
    }
}
