//! Draws class indices from the distributions given by unnormalized log probabilities.

use udo_api::{
    Bf16, Core, DType, Dim, Error, ExecError, F16, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op,
    OpSchema, Param, Port, Shape, TensorDesc, Value, Workspace, input, output, types,
};

use crate::Def;
use crate::family::random::{OUTPUT_TYPE, SEED, Seed, output_type};
use crate::number::{Floating, OfReal};

pub(crate) const DEF: Def = Def::drawn::<Multinomial>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Draws>("Multinomial", Core::CPU)
    .ports(&[input(0, types::FLOATS), output(0, types::INDEX)])];

struct Multinomial;

impl Op for Multinomial {
    const SCHEMA: OpSchema = OpSchema::new(
        "Multinomial",
        &[Port::required("input", types::FLOATS)],
        &[Port::required("output", types::INDEX)],
        &[OUTPUT_TYPE, SEED, Param::scalar("sample_size", DType::I64).default(Value::int(1))],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let (Some(batch), Some(1..)) = (x.full_shape().dim(0), x.shape().get(1)) else {
            return Err(Error::new(format!("input 0 is {x}, expected at least one class per row")));
        };
        if x.rank() != 2 {
            return Err(Error::new(format!("input 0 is {x}, expected a matrix")));
        }
        let sample_size = cx.int("sample_size")?;
        let samples = usize::try_from(sample_size).map_err(|_| {
            Error::new(format!("parameter \"sample_size\" is {sample_size}, expected at least 0"))
        })?;
        let shape = Shape::from_dims(&[batch, Dim::Fixed(samples)])?;
        let dtype = output_type(cx, Some(DType::I32), types::INDEX)?;
        cx.set_output(0, TensorDesc::new(dtype, shape))
    }
}

/// The kernel, which inverts the cumulative distribution of each row.
struct Draws {
    seed: Seed,
    classes: usize,
    samples: usize,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Draws {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let (x, y) = (cx.input(0)?, cx.output(0)?);
        let run = of_type!(
            x.dtype(),
            [F32 = f32, F64 = f64, F16 = F16, Bf16 = Bf16],
            T => of_type!(y.dtype(), [I32 = i32, I64 = i64], D => Self::draw::<T, D>)
        )??;
        let [classes, samples] = [x, y].map(|desc| desc.shape().get(1).copied().unwrap_or(0));
        Ok(Self { seed: Seed::read(cx)?, classes, samples, run })
    }

    fn workspace(&self) -> Workspace {
        Workspace::for_elements::<f64>(self.classes)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

impl Draws {
    fn draw<T: Floating, D: OfReal>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, mut scratch, .. } = io;
        let rows = inputs.get::<T>(0)?.chunks_exact(self.classes.max(1));
        let y = outputs.take::<D>(0)?.chunks_exact_mut(self.samples.max(1));
        // Cumulative weights of the classes of a row.
        let sums = scratch.take::<f64>(self.classes)?;
        for (row, (x, y)) in rows.zip(y).enumerate() {
            let max = x.iter().fold(f64::NEG_INFINITY, |max, x| max.max(x.real()));
            let mut total = 0.0;
            for (sum, x) in sums.iter_mut().zip(x) {
                total += (x.real() - max).exp();
                *sum = total;
            }
            for (sample, y) in y.iter_mut().enumerate() {
                let target = self.seed.draw(row * self.samples + sample).uniform() * total;
                let class = sums.partition_point(|&sum| sum <= target);
                *y = D::of_real(class.min(self.classes - 1) as f64);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn classes_are_drawn_in_proportion_to_their_weights() {
        let weights = [1.0f32, 0.0, 3.0, 4.0];
        let x: Vec<f32> = weights.iter().chain(weights.iter().rev()).map(|w| w.ln()).collect();
        let count = 1 << 15;
        let run = bench("Multinomial").input(tensor(&[2, 4], &x)).int("sample_size", count);
        let y = run.one();
        assert_eq!(y.dims(), [2, count as usize]);
        let y = y.values::<i32>();
        for (row, y) in y.chunks_exact(count as usize).enumerate() {
            for class in 0..4 {
                let share = y.iter().filter(|&&y| y == class).count() as f32 / count as f32;
                let index = if row == 0 { class } else { 3 - class } as usize;
                let expected = weights[index] / 8.0;
                // More than four standard deviations of the share among 2^15 draws.
                assert!(
                    (share - expected).abs() < 0.012,
                    "{share} of class {class}, expected {expected}"
                );
                assert!(expected > 0.0 || share == 0.0);
            }
        }
    }

    #[test]
    fn invalid_types_and_extents_are_refused() {
        let bench_with = |dims: &[usize]| {
            bench("Multinomial").input(tensor(dims, &vec![0f64; dims.iter().product()]))
        };
        assert_eq!(
            bench_with(&[1, 1]).int("dtype", 7).int("sample_size", 3).one().values::<i64>(),
            [0; 3]
        );
        assert_eq!(bench_with(&[3, 2]).int("sample_size", 0).one().dims(), [3, 0]);
        assert_eq!(
            bench_with(&[2, 0]).error(),
            "input 0 is f64[2,0], expected at least one class per row"
        );
        assert_eq!(bench_with(&[2, 2, 2]).error(), "input 0 is f64[2,2,2], expected a matrix");
        let error = bench_with(&[1, 1]).int("dtype", 1).error();
        assert!(error.starts_with("parameter \"dtype\" is 1, expected one of "), "{error}");
        let error = bench_with(&[1, 1]).int("sample_size", -1).error();
        assert_eq!(error, "parameter \"sample_size\" is -1, expected at least 0");
    }
}
