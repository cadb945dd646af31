//! The matrix that maps a spectrum to mel bands: triangular filters, evenly spaced on the mel scale,
//! `mel = 2595 log10(1 + hertz / 700)`.

use udo_api::{
    Bf16, Core, DType, Error, ExecError, F16, FinalizeCx, InferCx, Inputs, Io, Kernel, KernelDef,
    Op, OpSchema, Port, Shape, Status, TensorDesc, any_output, input, types,
};

use crate::Def;
use crate::family::argument::IntsArgument;
use crate::family::signal::window::{OUTPUT_TYPE, output_type};
use crate::number::OfReal;

pub(crate) const DEF: Def = Def::new::<MelWeightMatrix>(KERNELS);

const KERNELS: &[KernelDef] =
    &[KernelDef::new::<Triangles>("MelWeightMatrix", Core::CPU).ports(&[
        input(0, types::INDEX),
        input(1, types::INDEX),
        input(2, types::INDEX),
        input(3, types::FLOATS),
        input(4, types::FLOATS),
        any_output(0),
    ])];

const BANDS: IntsArgument =
    IntsArgument { input: 0, name: "num_mel_bins", what: "number of bands" };
const LENGTH: IntsArgument =
    IntsArgument { input: 1, name: "dft_length", what: "length of the transform" };

struct MelWeightMatrix;

impl Op for MelWeightMatrix {
    const SCHEMA: OpSchema = OpSchema::new(
        "MelWeightMatrix",
        &[
            Port::required(BANDS.name, types::INDEX).constant(),
            Port::required(LENGTH.name, types::INDEX).constant(),
            Port::required("sample_rate", types::INDEX),
            Port::required("lower_edge_hertz", types::FLOATS),
            Port::required("upper_edge_hertz", types::FLOATS),
        ],
        &[Port::required("output", types::NUMBERS)],
        &[OUTPUT_TYPE],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let number = |argument: IntsArgument| {
            let values = argument.required(cx)?;
            let invalid = || {
                let IntsArgument { input, what, .. } = argument;
                Error::new(format!("input {input}, the {what}, is {values:?}, expected one number"))
            };
            match values[..] {
                [number] => usize::try_from(number).map_err(|_| invalid()),
                _ => Err(invalid()),
            }
        };
        let shape = Shape::new(&[number(LENGTH)? / 2 + 1, number(BANDS)?])?;
        cx.set_output(0, TensorDesc::new(output_type(cx)?, shape))
    }
}

/// The kernel, with its function for the output type.
struct Triangles(fn(Io<'_>) -> Result<(), ExecError>);

impl Kernel for Triangles {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self(of_any!(cx.output(0)?.dtype(), T => execute::<T>)?))
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.0)(io)
    }
}

/// Returns the scalar value of input `port`.
fn read_scalar(inputs: &Inputs<'_>, port: usize) -> Result<f64, ExecError> {
    let value = match inputs.dtype(port)? {
        DType::I32 => inputs.get::<i32>(port)?.first().map(|&x| f64::from(x)),
        DType::I64 => inputs.get::<i64>(port)?.first().map(|&x| x as f64),
        DType::F32 => inputs.get::<f32>(port)?.first().map(|&x| f64::from(x)),
        DType::F64 => inputs.get::<f64>(port)?.first().copied(),
        DType::F16 => inputs.get::<F16>(port)?.first().map(|x| f64::from(x.to_f32())),
        DType::Bf16 => inputs.get::<Bf16>(port)?.first().map(|x| f64::from(x.to_f32())),
        _ => None,
    };
    value.ok_or(ExecError::new(Status::BAD_VALUE))
}

fn execute<T: OfReal>(mut io: Io<'_>) -> Result<(), ExecError> {
    let length = read_scalar(&io.inputs, 1)?;
    let rate = read_scalar(&io.inputs, 2)?;
    let [low_mel, high_mel] = [read_scalar(&io.inputs, 3)?, read_scalar(&io.inputs, 4)?].map(mel);
    let &[_, bands] = io.outputs.shape(0)? else { return Err(ExecError::new(Status::BAD_CALL)) };
    let y = io.outputs.take::<T>(0)?;
    let mel_step = (high_mel - low_mel) / (bands + 2) as f64;
    // The frequency bin of edge `edge`. The peak of a band is the left edge of the next one.
    let bin =
        |edge: usize| ((length + 1.0) * hertz(low_mel + edge as f64 * mel_step) / rate).floor();
    for band in 0..bands {
        let [left, peak, right] = [bin(band), bin(band + 1), bin(band + 2)];
        for (bin, y) in y.iter_mut().skip(band).step_by(bands).enumerate() {
            let bin = bin as f64;
            // A triangle may be so narrow that its edges and peak share a bin.
            *y = T::of_real(if bin < peak {
                ((bin - left) / (peak - left)).max(0.0)
            } else if bin > peak {
                ((right - bin) / (right - peak)).max(0.0)
            } else {
                1.0
            });
        }
    }
    Ok(())
}

fn mel(hertz: f64) -> f64 {
    2595.0 * (1.0 + hertz / 700.0).log10()
}

fn hertz(mel: f64) -> f64 {
    700.0 * (10f64.powf(mel / 2595.0) - 1.0)
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, assert_near, bench, tensor};

    fn run(bands: i32, length: i32) -> Bench {
        let run = bench("MelWeightMatrix").constant(tensor(&[], &[bands]));
        let run = run.constant(tensor(&[], &[length])).input(tensor(&[], &[8192i32]));
        run.input(tensor(&[], &[0f32])).input(tensor(&[], &[4096f32]))
    }

    #[test]
    fn filters_are_triangles_with_peak_one() {
        let y = run(8, 16).one();
        assert_eq!(y.dims(), [9, 8]);
        let y = y.values::<f32>();
        let band = |band: usize| -> Vec<f32> { (0..9).map(|bin| y[bin * 8 + band]).collect() };
        assert_eq!(band(0), [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(band(2), [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(band(7), [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
        let y = run(2, 32).one().values::<f32>();
        let second: Vec<f32> = y.into_iter().skip(1).step_by(2).take(10).collect();
        let expected = [0.0, 0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0, 0.8, 0.6, 0.4, 0.2, 0.0];
        assert_near(&second, &expected, 1e-6);
    }

    #[test]
    fn integer_outputs_truncate_and_negative_sizes_are_refused() {
        let y = run(2, 8).int("output_datatype", 6).one();
        assert_eq!((y.dims(), y.values::<i32>().iter().max()), (vec![5, 2], Some(&1)));
        assert_eq!(
            run(-1, 8).error(),
            "input 0, the number of bands, is [-1], expected one number"
        );
    }
}
