//! Draws 1 with the probability given by each element, and 0 otherwise.
//!
//! Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Bf16, Bits, Core, Error, ExecError, F16, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op,
    OpSchema, Port, any_output, input, types,
};

use crate::Def;
use crate::family::elementwise::GRAIN;
use crate::family::random::{OUTPUT_TYPE, SEED, Seed, output_type};
use crate::number::{Floating, one_bits};

pub(crate) const DEF: Def = Def::drawn::<Bernoulli>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Trials>("Bernoulli", Core::CPU)
    .ports(&[input(0, types::FLOATS).bounded(), any_output(0).bounded()])];

struct Bernoulli;

impl Op for Bernoulli {
    const SCHEMA: OpSchema = OpSchema::new(
        "Bernoulli",
        &[Port::required("input", types::FLOATS)],
        &[Port::required("output", types::ANY)],
        &[OUTPUT_TYPE, SEED],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let dtype = output_type(cx, x.dtype(), types::ANY)?;
        cx.set_output(0, x.with_dtype(dtype))
    }
}

/// The kernel: one draw per element.
struct Trials {
    seed: Seed,
    /// The bit pattern of 1 in the output type.
    one: u64,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Trials {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let (x, y) = (cx.input(0)?.dtype(), cx.output(0)?.dtype());
        let run: fn(&Self, Io<'_>) -> _ = of_type!(
            x,
            [F32 = f32, F64 = f64, F16 = F16, Bf16 = Bf16],
            T => of_width!(y, B => |kernel: &Self, io: Io<'_>| {
                kernel.draw::<T, B>(kernel.one as B, io)
            })
        )??;
        Ok(Self { seed: Seed::read(cx)?, one: one_bits(y), run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

impl Trials {
    fn draw<T: Floating, B: Bits>(&self, one: B, mut io: Io<'_>) -> Result<(), ExecError> {
        let x = io.inputs.get::<T>(0)?;
        let y = &mut io.outputs.take_bits::<B>(0)?[..x.len()];
        io.parallel.chunks_mut(y, GRAIN, |chunk, y| {
            let first = chunk * GRAIN;
            for ((index, x), y) in (first..).zip(&x[first..]).zip(y) {
                let is_one = self.seed.draw(index).uniform() < x.real();
                *y = if is_one { one } else { B::default() };
            }
            Ok(())
        })?;
        io.outputs.set_shape(0, io.inputs.shape(0)?)
    }
}

#[cfg(test)]
mod tests {
    use udo_api::Bool;

    use super::*;
    use crate::family::numerics::settled_on_any_threads;
    use crate::testing::{bench, tensor};

    #[test]
    fn ones_are_drawn_in_proportion_to_the_probabilities() {
        let probabilities = [0.0f32, 0.25, 0.9, 1.0];
        let x: Vec<f32> = probabilities.into_iter().cycle().take(1 << 17).collect();
        let y = settled_on_any_threads(&bench("Bernoulli").input(tensor(&[1 << 17], &x)));
        for (index, p) in probabilities.into_iter().enumerate() {
            let ones: f32 = y.values::<f32>().iter().skip(index).step_by(4).sum();
            let share = ones / (1 << 15) as f32;
            // Four standard deviations of the share of ones among 2^15 draws.
            assert!(
                (share - p).abs() < 4.0 * (p * (1.0 - p) / 32768.0).sqrt() + 1e-9,
                "{share} of {p}"
            );
        }
    }

    #[test]
    fn one_is_correct_in_every_type() {
        let run = || bench("Bernoulli").input(tensor(&[3], &[1f64, 0.0, 1.0]));
        assert_eq!(run().one().values::<f64>(), [1.0, 0.0, 1.0]);
        // The codes of types are those of ONNX: 7 is int64, 8 is string, 9 is bool and 10 is float16.
        assert_eq!(
            run().int("dtype", 9).one().values::<Bool>(),
            [true, false, true].map(Bool::from)
        );
        assert_eq!(run().int("dtype", 7).one().values::<i64>(), [1, 0, 1]);
        let half_values = run().int("dtype", 10).one().values::<F16>();
        assert_eq!(half_values, [1.0, 0.0, 1.0].map(F16::from_f32));
        let half_values = [1.0, 0.0].map(Bf16::from_f32);
        assert_eq!(
            bench("Bernoulli").input(tensor(&[2], &half_values)).one().values::<Bf16>(),
            half_values
        );
        let error = run().int("dtype", 8).error();
        assert!(error.starts_with("parameter \"dtype\" is 8, expected one of "), "{error}");
    }
}
