//! Window functions for spectral analysis.

use std::f64::consts::TAU;
use std::marker::PhantomData;

use udo_api::{
    Core, DType, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Node, Op, OpSchema,
    Param, Port, Shape, TensorDesc, Value, any_output, input, types,
};

use crate::Def;
use crate::family::argument::IntsArgument;
use crate::number::OfReal;

/// A window function. The family provides schema, inference, a kernel for every type, and tests.
pub(crate) trait Window: Send + Sync + 'static {
    const NAME: &'static str;

    /// Returns the weight at `angle`, which runs from 0 to 2 pi over the window.
    fn weight(angle: f64) -> f64;
}

/// Defines the operator of the window `W`.
pub(crate) const fn window<W: Window>() -> Def {
    let def = Def::new::<Described<W>>(Described::<W>::KERNELS);
    #[cfg(test)]
    let def = def.tested(tests::run_all::<W>);
    def
}

/// The parameter that selects the output type.
pub(crate) const OUTPUT_TYPE: Param =
    Param::scalar("output_datatype", DType::I64).default(Value::int(1));

/// Returns the type of a node's output.
pub(crate) fn output_type(node: &Node<'_>) -> Result<DType, Error> {
    let code = node.int("output_datatype")?;
    DType::from_onnx(code).filter(|dtype| types::NUMBERS.has(*dtype)).ok_or_else(|| {
        Error::new(format!("parameter \"output_datatype\" is {code}, which is not a numeric type"))
    })
}

const SIZE: IntsArgument = IntsArgument { input: 0, name: "size", what: "length" };

struct Described<W>(PhantomData<fn() -> W>);

impl<W: Window> Described<W> {
    const KERNELS: &'static [KernelDef] = &[KernelDef::new::<Weights<W>>(W::NAME, Core::CPU)
        .ports(&[input(0, types::INDEX), any_output(0)])];
}

impl<W: Window> Op for Described<W> {
    const SCHEMA: OpSchema = OpSchema::new(
        W::NAME,
        &[Port::required(SIZE.name, types::INDEX).constant()],
        &[Port::required("output", types::NUMBERS)],
        &[OUTPUT_TYPE, Param::scalar("periodic", DType::I64).default(Value::int(1))],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let sizes = SIZE.required(cx)?;
        let [size] = sizes[..] else {
            return Err(Error::new(format!(
                "input 0, the length, is {sizes:?}, expected a number"
            )));
        };
        let len = usize::try_from(size).map_err(|_| {
            Error::new(format!("input 0, the length, is {size}, expected at least 0"))
        })?;
        cx.set_output(0, TensorDesc::new(output_type(cx)?, Shape::new(&[len])?))
    }
}

struct Weights<W> {
    is_periodic: bool,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
    marker: PhantomData<fn() -> W>,
}

impl<W: Window> Kernel for Weights<W> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let run = of_any!(cx.output(0)?.dtype(), T => Self::fill::<T>)?;
        Ok(Self { is_periodic: cx.flag("periodic")?, run, marker: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

impl<W: Window> Weights<W> {
    fn fill<T: OfReal>(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let y = io.outputs.take::<T>(0)?;
        // A window of one element is at its centre.
        let period = if self.is_periodic { y.len() } else { (y.len() - y.len().min(1)).max(2) };
        let first_index = usize::from(y.len() == 1 && !self.is_periodic);
        for (index, y) in (first_index..).zip(y) {
            *y = T::of_real(W::weight(TAU * index as f64 / period as f64));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use udo_api::F16;

    use super::*;
    use crate::testing::{Bench, assert_near, bench, tensor};

    fn bench_with<W: Window>(size: i64) -> Bench {
        bench(W::NAME).constant(tensor(&[], &[size]))
    }

    /// Runs all tests of a member.
    pub(super) fn run_all<W: Window>(name: &str) {
        println!("{name}: a family member");
        for size in [1, 2, 5, 400] {
            let weights = |period: i64| -> Vec<f64> {
                (0..size).map(|at| W::weight(TAU * at as f64 / period as f64)).collect()
            };
            assert_near(&bench_with::<W>(size).one().values::<f32>(), &weights(size), 1e-7);
            let y = bench_with::<W>(size).int("periodic", 0).int("output_datatype", 11).one();
            if size > 2 {
                assert_near(&y.values::<f64>(), &weights(size - 1), 1e-15);
                let f16_values =
                    bench_with::<W>(size).int("output_datatype", 10).one().values::<F16>();
                let f16_values: Vec<f32> = f16_values.into_iter().map(F16::to_f32).collect();
                assert_near(&f16_values, &weights(size), 1e-3);
            }
        }
        let y = bench_with::<W>(1).int("periodic", 0).one().values::<f32>();
        assert_near(&y, &[1.0], 1e-6);
        assert_eq!(bench_with::<W>(0).int("output_datatype", 7).one().dims(), [0]);
        assert_eq!(bench_with::<W>(-1).error(), "input 0, the length, is -1, expected at least 0");
        let error = bench_with::<W>(1).int("output_datatype", 8).error();
        assert_eq!(error, "parameter \"output_datatype\" is 8, which is not a numeric type");
        let error = bench(W::NAME).input(tensor(&[], &[4i32])).error();
        assert_eq!(error, "input 0, the length, is not known before the run");
    }
}
