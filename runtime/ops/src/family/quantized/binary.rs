//! Functions of two quantized operands with broadcasting: `QLinearAdd` and `QLinearMul`.

use std::marker::PhantomData;

use udo_api::{
    Core, Encoding, Error, ExecError, Facts, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op,
    OpSchema, Port, QuantizedType, TensorDesc, input, input_like, output_like, types,
};
use udo_simd::rows::{self, Arithmetic, Operand, Quantized};

use super::{EncodingPorts, VALUES, fixed_point};
use crate::Def;
use crate::family::elementwise::{Broadcast, broadcast_shapes};

/// A function of two real values, applied to quantized ones.
pub(crate) trait QuantizedBinary: Send + Sync + 'static {
    const NAME: &'static str;
    const ARITHMETIC: Arithmetic;
}

/// Defines the operator of the function `B`.
pub(crate) const fn quantized_binary<B: QuantizedBinary>() -> Def {
    let def = Def::new::<Described<B>>(Pairs::<B>::KERNELS);
    #[cfg(test)]
    let def = def.tested(tests::run_all::<B>);
    def
}

const A: usize = 0;
const B: usize = 3;
const A_ENCODING: EncodingPorts = EncodingPorts { scale: 1, zero: 2 };
const B_ENCODING: EncodingPorts = EncodingPorts { scale: 4, zero: 5 };
const C_ENCODING: EncodingPorts = EncodingPorts { scale: 6, zero: 7 };

/// The operator of the function `F`.
struct Described<F>(PhantomData<fn() -> F>);

impl<F: QuantizedBinary> Op for Described<F> {
    const SCHEMA: OpSchema = OpSchema::new(
        F::NAME,
        &[
            Port::required("A", VALUES),
            Port::required("A_scale", types::F32),
            Port::optional("A_zero_point", VALUES),
            Port::required("B", VALUES),
            Port::required("B_scale", types::F32),
            Port::optional("B_zero_point", VALUES),
            Port::required("C_scale", types::F32),
            Port::optional("C_zero_point", VALUES),
        ],
        &[Port::required("C", VALUES)],
        &[],
    )
    // Scales and zero points are scalars, so the operator stays elementwise.
    .facts(Facts::ELEMENTWISE);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (a, b) = (cx.input(A)?, cx.input(B)?);
        let shape = broadcast_shapes(a.full_shape(), b.full_shape())?;
        cx.set_output(0, a.dtype().map_or(a, |t| TensorDesc::new(t, shape)))
    }
}

/// CPU and DSP kernel of the function `F`.
struct Pairs<F> {
    plan: Broadcast,
    run: fn(&Broadcast, Io<'_>) -> Result<(), ExecError>,
    marker: PhantomData<fn() -> F>,
}

impl<F: QuantizedBinary> Pairs<F> {
    const KERNELS: &'static [KernelDef] =
        &fixed_point(KernelDef::new::<Self>(F::NAME, Core::CPU).ports(&[
            input(A as u16, VALUES),
            input_like(B as u16, A as u16),
            output_like(0, A as u16),
        ]));
}

impl<F: QuantizedBinary> Kernel for Pairs<F> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let (a, b) = (cx.input(A)?, cx.input(B)?);
        for ports in [A_ENCODING, B_ENCODING, C_ENCODING] {
            ports.check(cx, a.dtype())?;
        }
        let misfit = || Error::new(format!("inputs are {a} and {b}, which do not broadcast"));
        let plan = Broadcast::new(a.shape(), b.shape()).ok_or_else(misfit)?;
        let run = of_type!(a.dtype(), [U8 = u8, I8 = i8], T => execute::<F, T>)?;
        Ok(Self { plan, run, marker: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(&self.plan, io)
    }
}

fn execute<F: QuantizedBinary, T: QuantizedType + Quantized>(
    plan: &Broadcast,
    io: Io<'_>,
) -> Result<(), ExecError> {
    let Io { inputs, mut outputs, parallel, .. } = io;
    let encoding = |ports: EncodingPorts| {
        let Encoding { scale, zero_point } = ports.read::<T>(&inputs)?;
        Ok::<_, ExecError>((scale, T::from_f32(zero_point as f32)))
    };
    let [a_encoding, b_encoding, (scale, zero_point)] =
        [encoding(A_ENCODING)?, encoding(B_ENCODING)?, encoding(C_ENCODING)?];
    let sides = (inputs.get::<T>(A)?, inputs.get::<T>(B)?);
    plan.rows(parallel, sides, outputs.take::<T>(0)?, &|a, b, y: &mut [T]| {
        let operand = |values, (scale, zero_point)| Operand { values, scale, zero_point };
        let (a, b) = (operand(a.values(), a_encoding), operand(b.values(), b_encoding));
        rows::combine(F::ARITHMETIC, a, b, scale, zero_point, y);
    })
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::family::partition::GRAIN;
    use crate::testing::{Tensor, bench, tensor};

    /// Runs all tests of a member.
    pub(super) fn run_all<F: QuantizedBinary>(name: &str) {
        println!("{name}: a family member");
        let large = 2 * GRAIN / 6 + 5;
        for (a_dims, b_dims) in [
            (vec![2, 3, 4], vec![2, 3, 4]),
            (vec![2, 3, 4], vec![4]),
            (vec![2, 3, 1], vec![1, 1, 4]),
            (vec![], vec![5]),
            (vec![6, large], vec![6, 1]),
            (vec![3, 1], vec![1, large]),
            (vec![large, 6], vec![6]),
            (vec![2, large, 3], vec![2, 1, 3]),
            (vec![0, 3], vec![3]),
        ] {
            check_broadcasting::<F, u8>(name, &a_dims, &b_dims);
            check_broadcasting::<F, i8>(name, &a_dims, &b_dims);
        }
        let run = bench(name).input(tensor(&[2], &[1u8, 2])).input(tensor(&[2], &[1f32; 2]));
        let run = run.absent().input(tensor(&[1], &[1u8])).input(tensor(&[], &[1f32])).absent();
        let error = run.input(tensor(&[], &[1f32])).error();
        assert_eq!(error, "input 1 is f32[2], expected one element for the whole tensor");
    }

    fn check_broadcasting<F: QuantizedBinary, T: QuantizedType + PartialEq + std::fmt::Debug>(
        name: &str,
        a_dims: &[usize],
        b_dims: &[usize],
    ) {
        let values = |dims: &[usize], step: usize| -> Vec<T> {
            let least = if T::DTYPE == udo_api::DType::U8 { 0.0 } else { -128.0 };
            (0..dims.iter().product::<usize>())
                .map(|i| T::from_f32((i * step % 256) as f32 + least))
                .collect()
        };
        let (a, b) = (values(a_dims, 37), values(b_dims, 91));
        let [a_encoding, b_encoding, c_encoding] = [(0.05, 100), (0.02, 3), (0.06, 90)]
            .map(|(scale, zero_point)| Encoding { scale, zero_point });
        let parameters = |encoding: Encoding| -> [Tensor; 2] {
            let zero_point = T::from_f32(encoding.zero_point as f32);
            [tensor(&[], &[encoding.scale]), tensor(&[1], &[zero_point])]
        };
        let mut run = bench(name).threads(3).input(tensor(a_dims, &a));
        run = parameters(a_encoding).into_iter().fold(run, crate::testing::Bench::input);
        run = run.input(tensor(b_dims, &b));
        run = parameters(b_encoding).into_iter().fold(run, crate::testing::Bench::constant);
        let y = parameters(c_encoding).into_iter().fold(run, crate::testing::Bench::input).one();
        let positions = Broadcast::new(a_dims, b_dims).unwrap();
        let expected_at = |[i, j]: [usize; 2]| {
            let (a, b) = (a_encoding.dequantize(a[i]), b_encoding.dequantize(b[j]));
            c_encoding.quantize::<T>(if F::ARITHMETIC == Arithmetic::Sum { a + b } else { a * b })
        };
        let expected: Vec<T> = positions.positions().map(expected_at).collect();
        assert!(y.values::<T>() == expected, "{name} of {a_dims:?} and {b_dims:?}");
    }
}
