//! Constants and values that change their type.

use udo_api::{AxisEncoding, Dim};
use udo_testing::{Bench, tensor};

use super::*;
use udo_graph::memory::Limit;

fn shape_of(dims: &[usize]) -> Shape {
    Shape::new(dims).unwrap()
}

fn desc(dtype: DType) -> TensorDesc {
    TensorDesc::new(dtype, Shape::new(&[4]).unwrap())
}

const HALVES: Encoding = Encoding { scale: 0.5, zero_point: 2 };

#[test]
fn constants_change_their_type() {
    let budget = &Budget::default();
    let floats =
        Tensor::from_slice::<f32>(Shape::new(&[4]).unwrap(), &[-1.0, 0.0, 0.25, 1000.0]).unwrap();
    let encoded = desc(DType::U8).with_encoding(HALVES);
    let quantized = constant(&floats, &desc(DType::F32), &encoded, budget).unwrap();
    assert_eq!(quantized.get::<u8>(), Some(&[0, 2, 2, 255][..]));
    let back = constant(&quantized, &encoded, &desc(DType::F32), budget).unwrap();
    assert_eq!(back.get::<f32>(), Some(&[-1.0, 0.0, 0.0, 126.5][..]));
    let halves = constant(&floats, &desc(DType::F32), &desc(DType::F16), budget).unwrap();
    assert_eq!(halves.dtype(), DType::F16);
    assert_eq!(budget.used_bytes(), 4 + 16 + 8);
}

/// Scales and zero points along each axis of `[2, 3, 2]`, and along none.
fn encodings() -> [Encodings; 4] {
    let along = |axis, scales: &[f32], zeros: &[i32]| {
        Encodings::PerAxis(AxisEncoding::intern(axis, scales, zeros).unwrap())
    };
    [
        along(0, &[0.5, 2.0], &[0, 3]),
        along(1, &[0.25, 1.0, 3.0], &[-1, 0, 7]),
        along(2, &[1.5, 0.125], &[2, -5]),
        Encodings::PerTensor(HALVES),
    ]
}

/// The encoding of element `at` of `[2, 3, 2]`.
fn encoding_at(encodings: Encodings, at: usize) -> Encoding {
    let place = [at / 6, at / 2 % 3, at % 2];
    match encodings {
        Encodings::PerTensor(encoding) => encoding,
        Encodings::PerAxis(encoding) => encoding.at(place[encoding.axis()]).unwrap(),
    }
}

/// `QuantizeLinear` and `DequantizeLinear` as ONNX defines them, in f64: round half to even, saturate.
#[expect(clippy::cast_possible_truncation, reason = "saturated before")]
fn quantized(x: f32, Encoding { scale, zero_point }: Encoding) -> i8 {
    let steps = (f64::from(x) / f64::from(scale)).round_ties_even() + f64::from(zero_point);
    steps.clamp(-128.0, 127.0) as i8
}

#[expect(clippy::cast_possible_truncation, reason = "the scales are short")]
fn dequantized(q: i8, Encoding { scale, zero_point }: Encoding) -> f32 {
    (f64::from(i32::from(q) - zero_point) * f64::from(scale)) as f32
}

#[test]
fn constants_are_converted_by_the_encodings_of_their_axis() {
    let budget = &Budget::default();
    let shape = Shape::new(&[2, 3, 2]).unwrap();
    let plain = TensorDesc::new(DType::F32, shape);
    let numbers = [0.25f32, -0.75, 0.125, 0.375, 4.5, -1.5, 1.0, 3.0, 0.5, -0.5, 1000.0, -1000.0];
    let floats = Tensor::from_slice(shape, &numbers).unwrap();
    for from in encodings() {
        let encoded = plain.with_dtype(DType::I8).with_encodings(from);
        let made = constant(&floats, &plain, &encoded, budget).unwrap();
        let made = made.get::<i8>().unwrap();
        let expected = numbers.iter().enumerate();
        let expected: Vec<_> =
            expected.map(|(at, &x)| quantized(x, encoding_at(from, at))).collect();
        assert_eq!(made, expected, "{from:?}");

        let stored = Tensor::from_slice(shape, made).unwrap();
        let back = constant(&stored, &encoded, &plain, budget).unwrap();
        let read = made.iter().enumerate();
        let read: Vec<_> = read.map(|(at, &q)| dequantized(q, encoding_at(from, at))).collect();
        assert_eq!(back.get::<f32>(), Some(&read[..]), "{from:?}");

        for to in encodings() {
            let other = plain.with_dtype(DType::I8).with_encodings(to);
            let made = constant(&stored, &encoded, &other, budget).unwrap();
            let expected = read.iter().enumerate();
            let expected: Vec<_> =
                expected.map(|(at, &x)| quantized(x, encoding_at(to, at))).collect();
            assert_eq!(made.get::<i8>(), Some(&expected[..]), "{from:?} to {to:?}");
        }
    }
}

#[test]
fn values_are_moved_by_the_encodings_of_their_axis() {
    let x = [1f32, 3.0, -5.0, 0.25, -0.25, 300.0];
    let encoded = [0i8, 1, -2, 2, -3, 127];
    let bench = || Bench::kernel(TRANSFER).threads(2);
    let (scales, zeros) = (&[2.0f32, 0.5], &[0, -1]);
    let run = bench().input(tensor(&[2, 3], &x)).output(DType::I8, shape_of(&[2, 3]));
    let y = run.output_axis_encoding(0, 0, scales, zeros).one();
    assert_eq!(y.values::<i8>(), [0, 2, -2, -1, -1, 127], "ties round to even");
    let run = bench().input(tensor(&[3, 2], &encoded).encoded_per_axis(1, &[0.5, 4.0], &[0, 1]));
    let y = run.output(DType::F32, shape_of(&[3, 2])).one();
    assert_eq!(y.values::<f32>(), [0.0, 0.0, -1.0, 4.0, -1.5, 504.0]);
    // The extents of a run decide which elements lie at which position.
    let bounded = [Dim::Fixed(2), Dim::UpTo(5)];
    let x = tensor(&[2, 3], &encoded).bounded(&bounded).encoded_per_axis(0, &[1.0, 3.0], &[0, 0]);
    let y = bench().input(x).output(DType::F32, Shape::from_dims(&bounded).unwrap()).one();
    assert_eq!((y.dims(), y.values::<f32>()), (vec![2, 3], vec![0.0, 1.0, -2.0, 6.0, -9.0, 381.0]));
}

#[test]
fn encodings_that_do_not_fit_are_refused() {
    let floats = Tensor::zeros(DType::F32, Shape::new(&[4]).unwrap()).unwrap();
    let encoding = AxisEncoding::intern(0, &[1.0; 3], &[0; 3]).unwrap();
    let encoded = desc(DType::U8).with_axis_encoding(encoding);
    let error = constant(&floats, &desc(DType::F32), &encoded, &Budget::default()).unwrap_err();
    let expected = "an encoding per axis has 3 scales for axis 0 of u8[4], expected 4";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_constant_of_another_type_wants_memory() {
    let floats = Tensor::zeros(DType::F32, Shape::new(&[4]).unwrap()).unwrap();
    let budget = &Budget::new(Limit::Asked(7));
    let error = constant(&floats, &desc(DType::F32), &desc(DType::F16), budget).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the converted constant needs 8 bytes of memory, and 0 of the 7 that \
         max_memory allows are in use"
    );
}

#[test]
fn quantized_values_without_an_encoding_are_refused() {
    let floats = Tensor::zeros(DType::F32, Shape::new(&[4]).unwrap()).unwrap();
    let budget = &Budget::default();
    let error = constant(&floats, &desc(DType::F32), &desc(DType::U8), budget).unwrap_err();
    assert_eq!(error.to_string(), "cannot convert f32[4] to u8[4]");
}

#[test]
fn numbers_fill_any_type() {
    for dtype in DType::ALL.into_iter().filter(|&t| t != DType::Str) {
        let tensor = from_numbers(dtype, Shape::new(&[2]).unwrap(), &[0.0, 1.0]).unwrap();
        assert_eq!(tensor.dtype(), dtype);
    }
}
