//! A matrix of the input's shape with ones on one diagonal and zeros elsewhere.

use udo_api::{
    Bits, Core, DType, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpSchema,
    Param, Port, TensorDesc, Value, types,
};

use crate::Def;
use crate::number::one_bits;

pub(crate) const DEF: Def = Def::new::<EyeLike>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Diagonal>("EyeLike", Core::CPU)];

struct EyeLike;

impl Op for EyeLike {
    const SCHEMA: OpSchema = OpSchema::new(
        "EyeLike",
        &[Port::required("input", types::ANY)],
        &[Port::required("output", types::ANY)],
        &[
            Param::scalar("dtype", DType::I64).optional(),
            Param::scalar("k", DType::I64).default(Value::int(0)),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        if x.rank() != 2 {
            return Err(Error::new(format!("input 0 is {x}, expected a matrix")));
        }
        let code = if cx.has_param("dtype") { Some(cx.int("dtype")?) } else { None };
        let dtype = code.map_or(x.dtype(), DType::from_onnx).ok_or_else(|| {
            let code = code.unwrap_or(0);
            Error::new(format!("parameter \"dtype\" is {code}, which is not a known type"))
        })?;
        cx.set_output(0, TensorDesc::new(dtype, x.full_shape()))
    }
}

struct Diagonal {
    cols: usize,
    /// Offset of the diagonal, the parameter `k`; positive to the right.
    offset: i64,
    /// The bit pattern of 1 in the output type.
    one: u64,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Diagonal {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let y = cx.output(0)?;
        let one = one_bits(y.dtype());
        let run: fn(&Self, Io<'_>) -> _ = of_width!(y.dtype(), B => |kernel: &Self, io: Io<'_>| {
            kernel.fill(kernel.one as B, io)
        })?;
        let cols = y.shape().last().copied().unwrap_or(0);
        Ok(Self { cols, offset: cx.int("k")?, one, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

impl Diagonal {
    fn fill<B: Bits>(&self, one: B, mut io: Io<'_>) -> Result<(), ExecError> {
        let y = io.outputs.take_bits::<B>(0)?;
        y.fill(B::default());
        for (row, y) in (0i64..).zip(y.chunks_exact_mut(self.cols.max(1))) {
            let col = usize::try_from(row.saturating_add(self.offset)).ok();
            if let Some(y) = col.and_then(|col| y.get_mut(col)) {
                *y = one;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Bf16, Bool, Element, F16};

    use crate::testing::{bench, tensor};

    #[test]
    fn ones_are_on_a_diagonal() {
        let x = || tensor(&[2, 3], &[9i32; 6]);
        let run = |k: i64| bench("EyeLike").input(x()).int("k", k).one().values::<i32>();
        assert_eq!(run(0), [1, 0, 0, 0, 1, 0]);
        assert_eq!(run(1), [0, 1, 0, 0, 0, 1]);
        assert_eq!(run(-1), [0, 0, 0, 1, 0, 0]);
        assert_eq!(run(i64::MAX), [0; 6]);
        assert_eq!(run(i64::MIN), [0; 6]);
        assert_eq!(bench("EyeLike").input(tensor(&[2, 0], &[0u8; 0])).one().dims(), [2, 0]);
    }

    #[test]
    fn ones_have_the_requested_type() {
        /// Codes of types are those of ONNX.
        fn check<T: Element>(code: i64, [zero, one]: [T; 2]) {
            let run = bench("EyeLike").input(tensor(&[2, 2], &[7u16; 4])).int("dtype", code);
            assert_eq!(run.one().values::<T>(), [one, zero, zero, one]);
        }
        check(1, [0f32, 1.0]);
        check(2, [0u8, 1]);
        check(7, [0i64, 1]);
        check(9, [false, true].map(Bool::from));
        check(10, [0.0, 1.0].map(F16::from_f32));
        check(11, [0f64, 1.0]);
        check(16, [0.0, 1.0].map(Bf16::from_f32));
    }

    #[test]
    fn only_matrices_and_numeric_types_are_accepted() {
        let error = bench("EyeLike").input(tensor(&[2], &[1u8; 2])).error();
        assert_eq!(error, "input 0 is u8[2], expected a matrix");
        let error = bench("EyeLike").input(tensor(&[1, 1], &[1u8])).int("dtype", 8).error();
        assert_eq!(error, "parameter \"dtype\" is 8, which is not a known type");
    }
}
