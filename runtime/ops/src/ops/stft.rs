//! The short-time Fourier transform: the spectra of windowed frames of a signal. Bin `k` of frame `f` is the sum of
//! `window[n] x[f step + n] exp(-2 pi i k n / N)`.
//!
//! Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Core, DType, Dim, Element, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Node,
    Op, OpSchema, Param, Port, PortRule, Shape, TypeSet, Value, Workspace, input, output, types,
};
use udo_simd::fft::Lane;

use crate::Def;
use crate::family::argument::IntsArgument;
use crate::family::signal::{Line, Transform, TransformSpec};

pub(crate) const DEF: Def = Def::new::<Stft>(KERNELS);

const TYPES: TypeSet = types::F32.or(types::F64);

const KERNELS: &[KernelDef] = &[
    KernelDef::new::<Frames<f32>>("STFT", Core::CPU).ports(F32_RULES),
    KernelDef::new::<Frames<f64>>("STFT", Core::CPU).ports(F64_RULES),
];
const F32_RULES: &[PortRule] =
    &[input(0, types::F32).bounded(), input(2, types::F32), output(0, types::F32).bounded()];
const F64_RULES: &[PortRule] =
    &[input(0, types::F64).bounded(), input(2, types::F64), output(0, types::F64).bounded()];

const STEP: IntsArgument = IntsArgument { input: 1, name: "frame_step", what: "step" };
const LENGTH: IntsArgument =
    IntsArgument { input: 3, name: "frame_length", what: "length of a frame" };

struct Stft;

impl Op for Stft {
    const SCHEMA: OpSchema = OpSchema::new(
        "STFT",
        &[
            Port::required("signal", TYPES),
            Port::required(STEP.name, types::INDEX).constant(),
            Port::optional("window", TYPES),
            Port::optional(LENGTH.name, types::INDEX).constant(),
        ],
        &[Port::required("output", TYPES)],
        &[Param::scalar("onesided", DType::I64).default(Value::int(1))],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let Framing { spec, step } = Framing::read(cx)?;
        let dims: Vec<Dim> = x.full_shape().iter().collect();
        let len = dims[1].bound();
        if dims[1].exact().is_some() && len < spec.len {
            return Err(Error::new(format!(
                "input 0 is {x}, which is shorter than a frame of {}",
                spec.len
            )));
        }
        let frames = dims[1].with(frame_count(len, spec.len, step));
        let shape = [dims[0], frames, Dim::Fixed(spec.len_out()), Dim::Fixed(2)];
        cx.set_output(0, x.with_shape(Shape::from_dims(&shape)?))
    }
}

/// Returns the number of frames of a signal.
fn frame_count(signal_len: usize, frame_len: usize, step: usize) -> usize {
    signal_len.checked_sub(frame_len).map_or(0, |last_start| last_start / step + 1)
}

/// How a signal is cut into frames and each is transformed.
#[derive(Clone, Copy)]
struct Framing {
    /// The transform of a frame.
    spec: TransformSpec,
    /// Distance between the starts of frames.
    step: usize,
}

impl Framing {
    fn read(node: &Node<'_>) -> Result<Self, Error> {
        let x = node.input(0)?;
        // A complex number has two parts.
        let parts = match *x.shape() {
            [_, _] | [_, _, 1] => 1,
            [_, _, 2] => 2,
            _ => {
                return Err(Error::new(format!(
                    "input 0 is {x}, expected [batches,length,1], or 2 for complex numbers"
                )));
            }
        };
        let step = positive(STEP, &STEP.required(node)?)?;
        let window = if node.has_input(2) { Some(node.input(2)?) } else { None };
        let len = match (LENGTH.read(node)?, window) {
            (Some(len), _) => positive(LENGTH, &len)?,
            (None, Some(window)) => window.len(),
            (None, None) => x.full_shape().dim(1).and_then(Dim::exact).unwrap_or(0),
        };
        if let Some(window) = window
            && (window.rank() != 1 || window.len() > len)
        {
            return Err(Error::new(format!(
                "input 2, the window, is {window}, expected at most {len} elements, a frame's length"
            )));
        }
        if len == 0 {
            return Err(Error::new("the frame length is missing or not known before the run"));
        }
        let is_half = node.flag("onesided")?;
        Ok(Self { spec: TransformSpec { len, parts, is_inverse: false, is_half }, step })
    }
}

/// Returns the single positive integer of an argument.
fn positive(argument: IntsArgument, values: &[i64]) -> Result<usize, Error> {
    let IntsArgument { input, what, .. } = argument;
    match *values {
        [number] if number > 0 => usize::try_from(number).ok(),
        _ => None,
    }
    .ok_or_else(|| {
        Error::new(format!(
            "input {input}, the {what}, is {values:?}, expected one positive number"
        ))
    })
}

/// The kernel.
struct Frames<T> {
    framing: Framing,
    transform: Transform<T>,
}

impl<T: Lane + Element> Kernel for Frames<T> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let framing = Framing::read(cx)?;
        let count = cx.output(0)?.shape().iter().take(2).product();
        Ok(Self { framing, transform: Transform::new(cx, framing.spec, count)? })
    }

    fn workspace(&self) -> Workspace {
        self.transform.workspace()
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, scratch, parallel, packed, .. } = io;
        let (x, dims) = (inputs.get::<T>(0)?, inputs.shape(0)?);
        let (&[batches, signal_len], Framing { spec, step }) = (&dims[..2], self.framing) else {
            return Err(ExecError::bad_value(dims.len() as i64, 0));
        };
        let window = if inputs.has(2) { Some(inputs.get::<T>(2)?) } else { None };
        let y = outputs.take::<T>(0)?;
        let frames = frame_count(signal_len, spec.len, step);
        let line = Line { x, len: spec.len, step: spec.parts, inner: 1, window };
        let start =
            |frame: usize| (frame / frames * signal_len + frame % frames * step) * spec.parts;
        let y = &mut y[..batches * frames * spec.len_out() * 2];
        self.transform.run(line, start, y, (parallel, scratch, packed))?;
        outputs.set_shape(0, &[batches, frames, spec.len_out(), 2])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::numerics::settled_on_any_threads;
    use crate::testing::{Bench, Tensor, assert_near, bench, noise, tensor};

    fn stft(x: Tensor, step: i64, window: Option<&[f32]>) -> Bench {
        let run = bench("STFT").input(x).constant(tensor(&[], &[step]));
        match window {
            Some(window) => run.input(tensor(&[window.len()], window)),
            None => run.absent(),
        }
    }

    /// Computes a bin of a frame of real values by the definition.
    fn reference(x: &[f32], window: &[f32], frame_len: usize, bin: usize) -> [f64; 2] {
        x.iter().zip(window).enumerate().fold([0.0; 2], |[re, im], (i, (&x, &weight))| {
            let turns = (i * bin % frame_len) as f64 / frame_len as f64;
            let angle = -std::f64::consts::TAU * turns;
            let x = f64::from(x) * f64::from(weight);
            [re + x * angle.cos(), im + x * angle.sin()]
        })
    }

    fn check(signal_len: usize, frame_len: usize, step: usize, window_len: usize, onesided: i64) {
        let x = noise(2 * signal_len);
        let weights: Vec<f32> = noise(window_len).iter().map(|w| w + 1.0).collect();
        let frames = (signal_len - frame_len) / step + 1;
        let bins = if onesided == 1 { frame_len / 2 + 1 } else { frame_len };
        let starts = (0..2)
            .flat_map(|batch| (0..frames).map(move |frame| batch * signal_len + frame * step));
        let expected: Vec<f64> = starts
            .flat_map(|start| (0..bins).map(move |bin| (start, bin)))
            .flat_map(|(start, bin)| {
                reference(&x[start..start + frame_len], &weights, frame_len, bin)
            })
            .collect();
        let run = stft(tensor(&[2, signal_len, 1], &x), step as i64, Some(&weights));
        let run = run.constant(tensor(&[], &[frame_len as i64])).int("onesided", onesided);
        let y = settled_on_any_threads(&run);
        assert_eq!(y.dims(), [2, frames, bins, 2]);
        assert_near(&y.values::<f32>(), &expected, 1e-5);
    }

    #[test]
    fn frames_are_windowed_and_transformed() {
        check(1000, 40, 16, 40, 1);
        check(300, 40, 50, 33, 0);
        check(200, 25, 7, 25, 1);
        check(150, 37, 37, 37, 1);
        check(16, 16, 1, 16, 0);
    }

    #[test]
    fn a_frame_is_as_long_as_the_window_or_the_signal() {
        let x = tensor(&[1, 8], &noise(8));
        assert_eq!(stft(x.clone(), 2, Some(&[1.0; 4])).one().dims(), [1, 3, 3, 2]);
        assert_eq!(stft(x, 1, None).one().dims(), [1, 1, 5, 2]);
        let x = tensor(&[1, 4, 2], &[1f64, 0.0, 0.0, 1.0, -1.0, 0.0, 0.0, -1.0]);
        let y = bench("STFT").input(x).constant(tensor(&[1], &[4i32])).int("onesided", 0).one();
        assert_near(&y.values::<f64>(), &[0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0], 1e-15);
    }

    #[test]
    fn bounded_signals_are_framed_in_the_run() {
        let dims = [Dim::Fixed(1), Dim::UpTo(20), Dim::Fixed(1)];
        let x = |len| tensor(&[1, len, 1], &noise(len)).bounded(&dims);
        let run = |len| stft(x(len), 3, Some(&[0.5; 8])).one();
        assert_eq!(run(14).desc().full_shape().to_string(), "[1,<=5,5,2]");
        assert_eq!((run(14).dims(), run(7).dims()), (vec![1, 3, 5, 2], vec![1, 0, 5, 2]));
    }

    #[test]
    fn invalid_frames_are_refused() {
        let x = || tensor(&[1, 4], &[0f32; 4]);
        let error = stft(x(), 1, Some(&[1.0; 5])).error();
        assert_eq!(error, "input 0 is f32[1,4], which is shorter than a frame of 5");
        let error = stft(x(), 0, None).error();
        assert_eq!(error, "input 1, the step, is [0], expected one positive number");
        let error = stft(x(), 1, Some(&[1.0; 3])).constant(tensor(&[], &[2i64])).error();
        assert_eq!(
            error,
            "input 2, the window, is f32[3], expected at most 2 elements, a frame's length"
        );
        let error = stft(tensor(&[4], &[0f32; 4]), 1, None).error();
        assert_eq!(
            error,
            "input 0 is f32[4], expected [batches,length,1], or 2 for complex numbers"
        );
        let x = x().bounded(&[Dim::Fixed(1), Dim::UpTo(9)]);
        let error = stft(x, 1, None).error();
        assert_eq!(error, "the frame length is missing or not known before the run");
    }
}
