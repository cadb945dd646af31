//! Counter-based random values: each value depends on the seed and the index of the element only, so a node yields the
//! same values in every run and on any number of threads.

use std::f64::consts::TAU;
use std::marker::PhantomData;

use udo_api::{
    Core, DType, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Node, Op, OpSchema,
    Param, Port, PortRule, Shape, TensorDesc, TypeSet, any_input, output, types,
};

use crate::Def;
use crate::family::elementwise::GRAIN;
use crate::number::OfReal;

/// A distribution and the source of the output shape. The family provides schema, inference, a kernel for every type
/// with threads, and tests.
pub(crate) trait Random: Send + Sync + 'static {
    const NAME: &'static str;
    /// Whether an input gives the shape, and the type if the node does not.
    const IS_LIKE: bool;
    /// The two parameters of the distribution.
    const PARAMS: [Param; 2];
    /// Returns mean and variance for these parameters.
    #[cfg_attr(not(test), expect(dead_code, reason = "only tests read it"))]
    const MOMENTS: fn([f64; 2]) -> [f64; 2];

    /// Returns the value of the distribution for 64 random bits.
    fn number(params: [f64; 2], draw: Draw) -> f64;
}

/// 64 random bits of one element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw(u64);

/// The random bits of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed(u64);

/// The seed; nodes with the same seed draw the same values. If the model has no seed, the runtime
/// derives one marker the name of the node.
pub(crate) const SEED: Param = Param::scalar("seed", DType::F32).optional();

/// The parameter that selects the output type.
pub(crate) const OUTPUT_TYPE: Param = Param::scalar("dtype", DType::I64).optional();

impl Seed {
    pub(crate) fn read(node: &Node<'_>) -> Result<Self, Error> {
        let seed = if node.has_param("seed") { node.float("seed")? } else { 0.0 };
        Ok(Self(mix(seed.to_bits())))
    }

    /// Returns the random bits of the element at an index: state `index` of `SplitMix64`, whose increment is 2^64
    /// divided by the golden ratio.
    #[inline]
    pub(crate) fn draw(self, at: usize) -> Draw {
        Draw(mix(self.0.wrapping_add((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))))
    }
}

/// The finalizer of `SplitMix64` (Steele, Lea and Flood, 2014): each input bit flips half of the output bits on
/// average.
#[inline]
fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

impl Draw {
    /// Returns a uniform value in `0..1`, exclusive of 1.
    #[inline]
    pub(crate) fn uniform(self) -> f64 {
        (self.0 >> 11) as f64 * f64::exp2(-53.0)
    }

    /// Returns a value of the standard normal distribution, by the Box-Muller transform.
    #[inline]
    pub(crate) fn normal(self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (TAU * Self(mix(!self.0)).uniform()).cos()
    }
}

/// Returns the type of the parameter `dtype`, or `default` if it is absent.
pub(crate) fn output_type(
    node: &Node<'_>,
    default: Option<DType>,
    allowed: TypeSet,
) -> Result<DType, Error> {
    if !node.has_param("dtype") {
        let refused = || {
            let found = default.map_or("absent", DType::name);
            Error::new(format!(
                "parameter \"dtype\" is absent and the type is {found}, expected {allowed}"
            ))
        };
        return default.filter(|dtype| allowed.has(*dtype)).ok_or_else(refused);
    }
    let code = node.int("dtype")?;
    DType::from_onnx(code).filter(|dtype| allowed.has(*dtype)).ok_or_else(|| {
        Error::new(format!("parameter \"dtype\" is {code}, expected one of {allowed}"))
    })
}

/// Defines the operator of the distribution `R`.
pub(crate) const fn random<R: Random>() -> Def {
    let def = Def::drawn::<Described<R>>(Described::<R>::KERNELS);
    #[cfg(test)]
    let def = def.tested(tests::run_all::<R>);
    def
}

/// The operator of the distribution `R`.
struct Described<R>(PhantomData<fn() -> R>);

impl<R: Random> Described<R> {
    const RULES: &'static [PortRule] = if R::IS_LIKE {
        &[any_input(0).bounded(), output(0, types::FLOATS).bounded()]
    } else {
        &[output(0, types::FLOATS)]
    };
    const KERNELS: &'static [KernelDef] =
        &[KernelDef::new::<Drawn<R>>(R::NAME, Core::CPU).ports(Self::RULES)];
    const IN: &'static [Port] =
        if R::IS_LIKE { &[Port::required("input", types::ANY)] } else { &[] };
    const PARAMS: &'static [Param] = if R::IS_LIKE {
        &[OUTPUT_TYPE, SEED, R::PARAMS[0], R::PARAMS[1]]
    } else {
        &[OUTPUT_TYPE, SEED, R::PARAMS[0], R::PARAMS[1], Param::tensor("shape", DType::I64)]
    };
}

impl<R: Random> Op for Described<R> {
    const SCHEMA: OpSchema =
        OpSchema::new(R::NAME, Self::IN, &[Port::required("output", types::FLOATS)], Self::PARAMS);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let desc = if R::IS_LIKE {
            let x = cx.input(0)?;
            TensorDesc::new(output_type(cx, x.dtype(), types::FLOATS)?, x.full_shape())
        } else {
            let extent = |&extent: &i64| {
                usize::try_from(extent).map_err(|_| {
                    Error::new(format!("parameter \"shape\" has {extent}, expected at least 0"))
                })
            };
            let dims = cx.ints("shape")?.iter().map(extent).collect::<Result<Vec<_>, _>>()?;
            let dtype = output_type(cx, Some(DType::F32), types::FLOATS)?;
            TensorDesc::new(dtype, Shape::new(&dims)?)
        };
        cx.set_output(0, desc)
    }
}

/// CPU kernel of the distribution `R`.
struct Drawn<R> {
    seed: Seed,
    params: [f64; 2],
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
    marker: PhantomData<fn() -> R>,
}

impl<R: Random> Kernel for Drawn<R> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let run = of_type!(
            cx.output(0)?.dtype(),
            [F32 = f32, F64 = f64, F16 = udo_api::F16, Bf16 = udo_api::Bf16],
            T => Self::fill::<T>
        )?;
        let [a, b] = R::PARAMS.map(|param| cx.float(param.name()));
        Ok(Self { seed: Seed::read(cx)?, params: [a?, b?], run, marker: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

impl<R: Random> Drawn<R> {
    fn fill<T: OfReal>(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let mut y = io.outputs.take::<T>(0)?;
        if R::IS_LIKE {
            // Elements past this run's extents stay as they are.
            let len = io.inputs.shape(0)?.iter().product();
            y = y.get_mut(..len).unwrap_or_default();
        }
        io.parallel.chunks_mut(y, GRAIN, |chunk, y| {
            for (at, y) in (chunk * GRAIN..).zip(y) {
                *y = T::of_real(R::number(self.params, self.seed.draw(at)));
            }
            Ok(())
        })?;
        if R::IS_LIKE { io.outputs.set_shape(0, io.inputs.shape(0)?) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Bf16, F16};

    use super::*;
    use crate::family::numerics::settled_on_any_threads;
    use crate::testing::{Bench, bench, tensor};

    fn bench_with<R: Random>(dims: &[usize]) -> Bench {
        let run = bench(R::NAME);
        if R::IS_LIKE {
            return run.input(tensor(dims, &vec![0f32; dims.iter().product()]));
        }
        let dims: Vec<i64> = dims.iter().map(|&n| n as i64).collect();
        run.ints("shape", &dims)
    }

    /// Runs all tests of a member.
    pub(super) fn run_all<R: Random>(name: &str) {
        println!("{name}: a family member");
        if R::IS_LIKE {
            // The bench detects writes past the run's extents.
            let x = tensor(&[5], &[0f32; 5]).bounded(&[udo_api::Dim::UpTo(7)]);
            assert_eq!(bench(R::NAME).input(x).one().dims(), [5]);
        }
        mean_and_variance_match_the_distribution::<R>();
        values_depend_on_the_seed::<R>();
        let y = bench_with::<R>(&[2, 3]).int("dtype", 11).float("seed", 5.0).one();
        assert_eq!((y.dims(), y.values::<f64>().len()), (vec![2, 3], 6));
        let f32_values = bench_with::<R>(&[2, 3]).float("seed", 5.0).one().values::<f32>();
        let narrowed: Vec<f32> = y.values::<f64>().into_iter().map(|y| y as f32).collect();
        assert_eq!(f32_values, narrowed, "equal values in every type");
        let f16_values =
            bench_with::<R>(&[2, 3]).int("dtype", 10).float("seed", 5.0).one().values::<F16>();
        assert_eq!(f16_values, f32_values.iter().map(|&y| F16::from_f32(y)).collect::<Vec<_>>());
        let f16_values =
            bench_with::<R>(&[2, 3]).int("dtype", 16).float("seed", 5.0).one().values::<Bf16>();
        assert_eq!(f16_values, f32_values.iter().map(|&y| Bf16::from_f32(y)).collect::<Vec<_>>());
        let error = bench_with::<R>(&[2]).int("dtype", 7).error();
        assert!(error.starts_with("parameter \"dtype\" is 7, expected one of "), "{error}");
        settled_on_any_threads(&bench_with::<R>(&[3, GRAIN]));
    }

    fn mean_and_variance_match_the_distribution<R: Random>() {
        let count = 100_000;
        let [a, b] = R::PARAMS.map(|param| param.name());
        let y = bench_with::<R>(&[count]).float(a, -1.0).float(b, 3.0).one().values::<f32>();
        let [mean, variance] = (R::MOMENTS)([-1.0, 3.0]);
        let actual = y.iter().map(|&y| f64::from(y)).sum::<f64>() / count as f64;
        // Four standard deviations of the sample mean.
        assert!(
            (actual - mean).abs() < 4.0 * (variance / count as f64).sqrt(),
            "{actual}, expected {mean}"
        );
        let spread = y.iter().map(|&y| (f64::from(y) - mean).powi(2)).sum::<f64>() / count as f64;
        assert!((spread / variance - 1.0).abs() < 0.03, "{spread}, expected {variance}");
        let pairs = y.as_chunks::<2>().0;
        let product = |[x, y]: &[f32; 2]| (f64::from(*x) - mean) * (f64::from(*y) - mean);
        let correlation = pairs.iter().map(product).sum::<f64>() / pairs.len() as f64 / variance;
        assert!(correlation.abs() < 0.02, "neighbouring values are correlated: {correlation}");
    }

    fn values_depend_on_the_seed<R: Random>() {
        let values_with_seed =
            |seed: f64| bench_with::<R>(&[64]).float("seed", seed).one().values::<f32>();
        assert_eq!(values_with_seed(1.0), values_with_seed(1.0));
        let [first, second] = [values_with_seed(1.0), values_with_seed(2.0)];
        assert!(first.iter().zip(&second).filter(|(a, b)| a.to_bits() == b.to_bits()).count() < 2);
    }

    #[test]
    fn invalid_shapes_and_types_are_refused() {
        let error = bench("RandomNormal").ints("shape", &[2, -1]).error();
        assert_eq!(error, "parameter \"shape\" has -1, expected at least 0");
        let error = bench("RandomUniformLike").input(tensor(&[2], &[1i64, 2])).error();
        assert!(
            error.starts_with("parameter \"dtype\" is absent and the type is i64, expected "),
            "{error}"
        );
    }
}
