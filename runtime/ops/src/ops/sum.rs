//! Sum of any number of tensors, with broadcasting.

use udo_api::{
    Core, Error, ExecError, Facts, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpSchema, Port,
    TypeSet, input, output_like, types,
};

use crate::Def;
use crate::family::elementwise::{Broadcast, broadcast_shapes};
use crate::number::Real;

pub(crate) const DEF: Def = Def::of::<Sum>(KERNELS);

const KERNELS: &[KernelDef] =
    &[KernelDef::new::<Sums>("Sum", Core::CPU).types(&[input(0, TYPES), output_like(0, 0)])];

const TYPES: TypeSet = types::F32.or(types::F64);

struct Sum;

impl Op for Sum {
    const SCHEMA: OpSchema = OpSchema::new(
        "Sum",
        &[Port::required("data_0", TYPES).repeated()],
        &[Port::required("sum", TYPES)],
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
                    "input {port} is {next}, wanted the type of {first}"
                )));
            }
            shape = broadcast_shapes(shape, next.full_shape())?;
        }
        cx.set_output(0, first.with_shape(shape))
    }
}

struct Sums {
    /// How each input meets the sum.
    terms: Vec<Broadcast>,
    /// How the first two meet each other.
    pair: Option<Broadcast>,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Sums {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let y = cx.output(0)?;
        let misfit = || Error::new(format!("an input does not broadcast to {y}"));
        let inputs =
            (0..cx.input_count()).map(|port| cx.input(port)).collect::<Result<Vec<_>, _>>()?;
        let terms = inputs.iter().map(|x| Broadcast::of(y.shape(), x.shape()));
        let terms = terms.collect::<Option<Vec<_>>>().ok_or_else(misfit)?;
        let pair = match &inputs[..] {
            [a, b, ..] => Broadcast::of(a.shape(), b.shape()).filter(|p| p.shape() == y.shape()),
            _ => None,
        };
        let run = of_type!(y.dtype(), [F32 = f32, F64 = f64], T => execute::<T>)?;
        Ok(Self { terms, pair, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

fn execute<T: Real>(kernel: &Sums, io: Io<'_>) -> Result<(), ExecError> {
    let Io { inputs, mut outputs, parallel, .. } = io;
    let y = outputs.take::<T>(0)?;
    let done = if let Some(pair) = &kernel.pair {
        pair.apply_shared(parallel, inputs.get::<T>(0)?, inputs.get::<T>(1)?, y, T::add)?;
        2
    } else {
        kernel.terms[0].apply_in_place(y, inputs.get::<T>(0)?, |_, x| x);
        1
    };
    for (port, term) in kernel.terms.iter().enumerate().skip(done) {
        term.apply_in_place(y, inputs.get::<T>(port)?, T::add);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn one_to_many_tensors_are_summed() {
        let x = tensor(&[2, 2], &[1f32, 2.0, 3.0, 4.0]);
        let row = tensor(&[2], &[10f32, 20.0]);
        let column = tensor(&[2, 1], &[100f32, 200.0]);
        let run = bench("Sum").input(x.clone());
        assert_eq!(run.clone().one().values::<f32>(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(run.clone().input(x).one().values::<f32>(), [2.0, 4.0, 6.0, 8.0]);
        let y = run.input(row.clone()).input(column.clone()).one();
        assert_eq!(y.values::<f32>(), [111.0, 122.0, 213.0, 224.0]);
        let y = bench("Sum").input(row.clone()).input(row).input(column).one();
        assert_eq!((y.dims(), y.values::<f32>()), (vec![2, 2], vec![120.0, 140.0, 220.0, 240.0]));
    }

    #[test]
    fn large_sums_are_shared_out() {
        let x: Vec<f64> = (0..100_000).map(f64::from).collect();
        let x = tensor(&[100_000], &x);
        let y = bench("Sum").threads(3).input(x.clone()).input(x).one().values::<f64>();
        assert!(y.iter().zip(0..).all(|(&y, i)| (y - f64::from(2 * i)).abs() < 1e-9));
    }

    #[test]
    fn misfits_are_named() {
        let run = bench("Sum").input(tensor(&[2], &[1f32, 2.0]));
        assert_eq!(
            run.clone().input(tensor(&[1], &[1f64])).error(),
            "input 1 is f64[1], wanted the type of f32[2]"
        );
        let error = run.input(tensor(&[3], &[1f32, 2.0, 3.0])).error();
        assert_eq!(error, "shapes [2] and [3] do not broadcast");
    }
}
