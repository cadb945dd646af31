//! The discrete Fourier transform along an axis: `X[k]` is the sum of `x[n] exp(-2 pi i k n / N)`. The inverse has the
//! opposite sign and divides by `N`. With `onesided`, only the bins up to `N / 2` of a real signal are stored.
//!
//! Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Core, DType, Dim, Element, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef,
    MAX_RANK, Node, Op, OpSchema, Param, Port, PortRule, Shape, TypeSet, Value, Workspace, input,
    output, resolve_axis, types,
};
use udo_simd::fft::Lane;

use crate::Def;
use crate::family::argument::IntsArgument;
use crate::family::axes::AxisSplit;
use crate::family::signal::{Line, Transform, TransformSpec};

pub(crate) const DEF: Def = Def::new::<Dft>(KERNELS);

const TYPES: TypeSet = types::F32.or(types::F64);

const KERNELS: &[KernelDef] = &[
    KernelDef::new::<Lines<f32>>("DFT", Core::CPU).ports(F32_RULES),
    KernelDef::new::<Lines<f64>>("DFT", Core::CPU).ports(F64_RULES),
];
const F32_RULES: &[PortRule] = &[input(0, types::F32).bounded(), output(0, types::F32).bounded()];
const F64_RULES: &[PortRule] = &[input(0, types::F64).bounded(), output(0, types::F64).bounded()];

const LENGTH: IntsArgument =
    IntsArgument { input: 1, name: "dft_length", what: "length of the transform" };
const AXIS: IntsArgument = IntsArgument { input: 2, name: "axis", what: "axis" };

struct Dft;

impl Op for Dft {
    const SCHEMA: OpSchema = OpSchema::new(
        "DFT",
        &[
            Port::required("input", TYPES),
            Port::optional(LENGTH.name, types::INDEX).constant(),
            AXIS.port(),
        ],
        &[Port::required("output", TYPES)],
        &[
            Param::scalar("inverse", DType::I64).default(Value::int(0)),
            Param::scalar("onesided", DType::I64).default(Value::int(0)),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let (axis, spec) = read(cx)?;
        let mut dims: Vec<Dim> = x.full_shape().iter().collect();
        let last = dims.len() - 1;
        dims[axis] = if cx.has_input(LENGTH.input) {
            Dim::Fixed(spec.len_out())
        } else {
            dims[axis].with(spec.len_out())
        };
        dims[last] = Dim::Fixed(spec.parts_out());
        cx.set_output(0, x.with_shape(Shape::from_dims(&dims)?))
    }
}

/// Returns the axis and the transform of each line along it.
fn read(node: &Node<'_>) -> Result<(usize, TransformSpec), Error> {
    let x = node.input(0)?;
    // The last axis has the real and, if complex, the imaginary part.
    let &[.., parts @ (1 | 2)] = x.shape() else {
        return Err(Error::new(format!("input 0 is {x}, expected a last axis of 1 or 2")));
    };
    let axis = single(AXIS, node)?.unwrap_or(-2);
    let axis =
        resolve_axis(axis, x.rank()).filter(|axis| axis + 1 < x.rank()).ok_or_else(|| {
            Error::new(format!("the axis is {axis}, expected one of {x} before the last"))
        })?;
    let (is_inverse, is_half) = (node.flag("inverse")?, node.flag("onesided")?);
    let len = match (single(LENGTH, node)?, x.full_shape().dim(axis).and_then(Dim::exact)) {
        (Some(len), _) => usize::try_from(len).ok(),
        // A one-sided spectrum of `N / 2 + 1` bins has the length `N`, taken as even.
        (None, Some(len)) if is_inverse && is_half => len.checked_sub(1).map(|len| 2 * len),
        (None, Some(len)) => Some(len),
        (None, None) => {
            return Err(Error::new(format!(
                "input 0 is {x}, expected a fixed axis {axis}, or a length of the transform"
            )));
        }
    };
    let len = len.filter(|&len| len > 0).ok_or_else(|| {
        Error::new(format!("the transform along axis {axis} of {x} has no length"))
    })?;
    Ok((axis, TransformSpec { len, parts, is_inverse, is_half }))
}

/// Returns the single value of an optional input.
fn single(argument: IntsArgument, node: &Node<'_>) -> Result<Option<i64>, Error> {
    match argument.read(node)?.as_deref() {
        None => Ok(None),
        Some(&[number]) => Ok(Some(number)),
        Some(values) => {
            let IntsArgument { input, what, .. } = argument;
            Err(Error::new(format!(
                "input {input}, the {what}, is {values:?}, expected one number"
            )))
        }
    }
}

/// The kernel: transforms lines, the elements along the axis.
struct Lines<T> {
    axis: usize,
    spec: TransformSpec,
    transform: Transform<T>,
}

impl<T: Lane + Element> Kernel for Lines<T> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let (axis, spec) = read(cx)?;
        let count = cx.output(0)?.len() / (spec.len_out() * spec.parts_out());
        Ok(Self { axis, spec, transform: Transform::new(cx, spec, count)? })
    }

    fn workspace(&self) -> Workspace {
        self.transform.workspace()
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, scratch, parallel, packed, .. } = io;
        let (x, dims) = (inputs.get::<T>(0)?, inputs.shape(0)?);
        let y = outputs.take::<T>(0)?;
        let TransformSpec { parts, .. } = self.spec;
        let AxisSplit { outer, len, inner } = AxisSplit::at(dims, self.axis);
        let inner = inner / parts;
        let y_len = outer * inner * self.spec.len_out() * self.spec.parts_out();
        let line = Line { x, len, step: inner * parts, inner, window: None };
        let start = |line: usize| (line / inner * len * inner + line % inner) * parts;
        self.transform.run(line, start, &mut y[..y_len], (parallel, scratch, packed))?;
        let mut extents = [0; MAX_RANK];
        extents[..dims.len()].copy_from_slice(dims);
        extents[self.axis] = self.spec.len_out();
        extents[dims.len() - 1] = self.spec.parts_out();
        outputs.set_shape(0, &extents[..dims.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::numerics::{settled_on_any_threads, with};
    use crate::testing::{Bench, Tensor, assert_near, bench, noise, tensor};

    fn dft(x: &Tensor, len: Option<i64>, axis: i64) -> Bench {
        let run = bench("DFT").input(x.clone());
        let run = match len {
            Some(len) => run.constant(tensor(&[], &[len])),
            None => run.absent(),
        };
        run.constant(tensor(&[], &[axis]))
    }

    /// Computes a bin of the transform of length `n` by the definition. Shorter inputs are padded with zeros.
    fn reference(x: &[[f64; 2]], n: usize, bin: usize) -> [f64; 2] {
        x.iter().take(n).enumerate().fold([0.0; 2], |[re, im], (i, [x_re, x_im])| {
            let (sin, cos) = (-std::f64::consts::TAU * (i * bin % n) as f64 / n as f64).sin_cos();
            [re + x_re * cos - x_im * sin, im + x_re * sin + x_im * cos]
        })
    }

    fn check(dims: &[usize], axis: usize, n: usize, onesided: i64) {
        let x = noise(dims.iter().product());
        let parts = dims[dims.len() - 1];
        let AxisSplit { outer, len, inner } = AxisSplit::at(dims, axis);
        let inner = inner / parts;
        let bins = if onesided == 1 { n / 2 + 1 } else { n };
        let mut expected = vec![0.0; outer * bins * inner * 2];
        for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
            let element = |position: usize| {
                let index = ((o * len + position) * inner + i) * parts;
                [f64::from(x[index]), if parts == 2 { x[index + 1].into() } else { 0.0 }]
            };
            let line: Vec<[f64; 2]> = (0..len).map(element).collect();
            for bin in 0..bins {
                let index = ((o * bins + bin) * inner + i) * 2;
                expected[index..index + 2].copy_from_slice(&reference(&line, n, bin));
            }
        }
        let dft_len = (n != len).then_some(n as i64);
        let run = dft(&tensor(dims, &x), dft_len, axis as i64).int("onesided", onesided);
        let y = settled_on_any_threads(&run);
        assert_near(&y.values::<f32>(), &expected, 4e-6);
        let doubles: Vec<f64> = x.iter().map(|&x| x.into()).collect();
        let run = dft(&tensor(dims, &doubles), dft_len, axis as i64).int("onesided", onesided);
        assert_near(&run.one().values::<f64>(), &expected, 1e-12);
    }

    #[test]
    fn transforms_match_the_definition() {
        for (n, onesided) in [(12, 0), (12, 1), (15, 0), (15, 1), (37, 1), (8, 0), (8, 1)] {
            check(&[3, 12, 1], 1, n, onesided);
            check(&[3, 12, 2], 1, n, onesided);
        }
        check(&[37, 6, 2], 0, 37, 0);
        check(&[2, 10, 21, 1], 1, 10, 1);
        check(&[40, 30, 1], 1, 30, 0);
    }

    #[test]
    fn inverse_transforms_restore_the_input() {
        for n in [1, 2, 9, 16, 37] {
            let x = tensor(&[5, n, 2], &noise(10 * n));
            let restored = dft(&dft(&x, None, 1).one(), None, 1).int("inverse", 1).one();
            let expected: Vec<f64> = x.values::<f32>().into_iter().map(f64::from).collect();
            assert_near(&restored.values::<f32>(), &expected, 1e-6);
            let x = tensor(&[5, n, 1], &noise(5 * n));
            let spectrum = dft(&x, None, -2).int("onesided", 1).one();
            let restored =
                dft(&spectrum, Some(n as i64), -2).int("onesided", 1).int("inverse", 1).one();
            let expected: Vec<f64> = x.values::<f32>().into_iter().map(f64::from).collect();
            assert_eq!(restored.dims(), [5, n, 1]);
            assert_near(&restored.values::<f32>(), &expected, 1e-6);
        }
        let spectrum = tensor(&[1, 5, 2], &noise(10));
        let restored = dft(&spectrum, None, 1).int("onesided", 1).int("inverse", 1).one();
        assert_eq!(restored.dims(), [1, 8, 1]);
    }

    #[test]
    fn nan_affects_only_its_own_line() {
        let x = with(&noise(20 * 8), 3 * 8 + 5, f32::NAN);
        let y = dft(&tensor(&[20, 8, 1], &x), None, 1).one().values::<f32>();
        assert!(
            y.chunks(16).enumerate().all(|(line, y)| y.iter().any(|y| y.is_nan()) == (line == 3))
        );
    }

    #[test]
    fn bounded_lines_are_read_in_the_run() {
        let dims = [Dim::UpTo(4), Dim::Fixed(3), Dim::Fixed(1)];
        let x = tensor(&[2, 3, 1], &[1f32, 0.0, 0.0, 0.0, 1.0, 0.0]).bounded(&dims);
        let y = dft(&x, None, 1).one();
        assert_eq!(y.desc().full_shape().to_string(), "[<=4,3,2]");
        assert_eq!((y.dims(), &y.values::<f32>()[..2]), (vec![2, 3, 2], &[1.0, 0.0][..]));
        let error = dft(&x, None, 0).error();
        assert!(
            error.ends_with("expected a fixed axis 0, or a length of the transform"),
            "{error}"
        );
        let y = dft(&x, Some(4), 0).one();
        assert_eq!((y.dims(), y.values::<f32>()[0]), (vec![4, 3, 2], 1.0));
    }

    #[test]
    fn invalid_transforms_are_refused() {
        let x = tensor(&[2, 3], &[0f32; 6]);
        assert_eq!(dft(&x, None, 0).error(), "input 0 is f32[2,3], expected a last axis of 1 or 2");
        let x = tensor(&[2, 1], &[0f32; 2]);
        assert_eq!(
            dft(&x, None, 1).error(),
            "the axis is 1, expected one of f32[2,1] before the last"
        );
        let error = dft(&x, Some(0), 0).error();
        assert_eq!(error, "the transform along axis 0 of f32[2,1] has no length");
        let run = bench("DFT").input(x).constant(tensor(&[2], &[1i64, 1]));
        let expected = "input 1, the length of the transform, is [1, 1], expected one number";
        assert_eq!(run.error(), expected);
    }
}
