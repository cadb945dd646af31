//! Exponentials along an axis, divided by their sum.

use udo_api::{
    Core, DType, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpSchema,
    Param, Port, input, output_like, types,
};
use udo_simd::rows;

use crate::Def;
use crate::family::elementwise::infer_like_input;
use crate::number::Real;
use crate::family::axes::AxisSplit;

pub(crate) const DEF: Def = Def::of::<Softmax>(KERNELS);

const KERNELS: &[KernelDef] =
    &[KernelDef::new::<AlongAxis>("Softmax", Core::CPU)
        .types(&[input(0, TYPES), output_like(0, 0)])];

const TYPES: udo_api::TypeSet = types::F32.or(types::F64);

struct Softmax;

impl Op for Softmax {
    const SCHEMA: OpSchema = OpSchema::new(
        "Softmax",
        &[Port::required("input", TYPES.or(types::F16))],
        &[Port::required("output", TYPES.or(types::F16))],
        &[Param::scalar("axis", DType::I64).optional()],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        infer_like_input(cx)
    }
}

struct AlongAxis {
    around: AxisSplit,
    run: fn(AxisSplit, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for AlongAxis {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        // ONNX before opset 13 flattens to 2-D here; a node without an opset is a new one.
        let flattens = (1..13).contains(&cx.opset());
        let axis = match (cx.has_param("axis"), flattens) {
            (true, true) if usize::try_from(cx.int("axis")?).is_ok_and(|a| a == x.rank()) => {
                x.rank()
            }
            (true, _) => cx.axis("axis", x.rank())?,
            (false, true) => 1,
            (false, false) => x.rank().saturating_sub(1),
        };
        let mut around = AxisSplit::at(x.shape(), axis);
        if flattens {
            around.len *= around.inner;
            around.inner = 1;
        }
        let run = match x.dtype() {
            Some(DType::F32) if around.inner == 1 => rows_of_f32,
            other => of_type!(other, [F32 = f32, F64 = f64], T => execute::<T>)?,
        };
        Ok(Self { around, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self.around, io)
    }
}

fn rows_of_f32(around: AxisSplit, mut io: Io<'_>) -> Result<(), ExecError> {
    let (x, y) = (io.inputs.get::<f32>(0)?, io.outputs.take::<f32>(0)?);
    rows::softmax(x, around.len, y);
    Ok(())
}

fn execute<T: Real>(around: AxisSplit, mut io: Io<'_>) -> Result<(), ExecError> {
    let x = io.inputs.get::<T>(0)?;
    let y = io.outputs.take::<T>(0)?;
    let AxisSplit { len, inner, .. } = around;
    if x.is_empty() {
        return Ok(());
    }
    for (x, y) in x.chunks_exact(len * inner).zip(y.chunks_exact_mut(len * inner)) {
        for lane in 0..inner {
            let lane_of = |x: &T| *x;
            let max = x[lane..]
                .iter()
                .step_by(inner)
                .map(lane_of)
                .fold(T::LOWEST, |m, v| if v > m { v } else { m });
            let mut sum = T::ZERO;
            for (y, &x) in y[lane..].iter_mut().zip(&x[lane..]).step_by(inner) {
                *y = x.sub(max).exp();
                sum = sum.add(*y);
            }
            for y in y[lane..].iter_mut().step_by(inner) {
                *y = y.div(sum);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_near, bench, tensor};

    fn naive(x: &[f32], AxisSplit { outer, len, inner }: AxisSplit) -> Vec<f64> {
        let mut y = vec![0.0; x.len()];
        for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
            let at = |k: usize| (o * len + k) * inner + i;
            let sum: f64 = (0..len).map(|k| f64::from(x[at(k)]).exp()).sum();
            (0..len).for_each(|k| y[at(k)] = f64::from(x[at(k)]).exp() / sum);
        }
        y
    }

    #[test]
    fn axes_mean_what_the_opset_says() {
        let dims = [2, 3, 4];
        let x: Vec<f32> = (0..24u8).map(|i| (f32::from(i) * 1.7).sin() * 4.0).collect();
        let cases = [
            (13, Some(1), AxisSplit { outer: 2, len: 3, inner: 4 }),
            (13, None, AxisSplit { outer: 6, len: 4, inner: 1 }),
            (13, Some(-3), AxisSplit { outer: 1, len: 2, inner: 12 }),
            (11, None, AxisSplit { outer: 2, len: 12, inner: 1 }),
            (11, Some(-1), AxisSplit { outer: 6, len: 4, inner: 1 }),
            (0, None, AxisSplit { outer: 6, len: 4, inner: 1 }),
        ];
        for (opset, axis, around) in cases {
            let mut run = bench("Softmax").opset(opset).input(tensor(&dims, &x));
            if let Some(axis) = axis {
                run = run.int("axis", axis);
            }
            assert_near(&run.one().values::<f32>(), &naive(&x, around), 1e-6);
        }
    }

    #[test]
    fn large_numbers_do_not_overflow() {
        let y = bench("Softmax").input(tensor(&[1, 2], &[1e4f32, 1e4])).one();
        assert_near(&y.values::<f32>(), &[0.5, 0.5], 1e-6);
    }
}
