//! Tests that every operator of the family runs. [`run_all`] is called with each reduction.

use udo_api::{Bool, Core, F16};

use super::*;
use crate::family::numerics::{SUBNORMAL, assert_rounded, settled_on_any_threads, with};
use crate::family::partition::GRAIN;
use crate::testing::{Bench, assert_near, assert_near_constant, bench, noise, tensor};

pub(super) fn run_all<R: Reduce>(name: &str) {
    println!("{name}: a family member");
    every_set_of_axes_is_reduced::<R>();
    large_tensors_are_divided_among_threads::<R>();
    no_elements_reduce_to_the_neutral_element::<R>();
    bounded_shapes_are_read_in_the_run::<R>();
    integers_are_reduced::<R>();
    quantized_values_are_reduced_dequantized::<R>();
    bools_are_reduced::<R>();
    axes_may_be_absent_negative_or_empty::<R>();
    nan_at_any_position_gives_nan::<R>();
    infinities_and_tiny_values_match_the_definition::<R>();
    integers_wrap::<R>();
}

/// Returns values at least 0.5 from 0; positive ones if the reduction is undefined for negative values.
fn numbers<R: Reduce>(len: usize) -> Vec<f32> {
    let needs_positive = R::TEST(&[-1.0]).is_nan();
    let signed = noise(len).into_iter().map(|x| x + if x < 0.0 { -0.5 } else { 0.5 });
    signed.map(|x| if needs_positive { x.abs() } else { x }).collect()
}

/// Reduces `x` along axes by the definition.
fn expected<R: Reduce>(dims: &[usize], axes: &[usize], x: &[f64]) -> Vec<f64> {
    let retained: Vec<usize> = (0..dims.len()).filter(|axis| !axes.contains(axis)).collect();
    let len = retained.iter().map(|&axis| dims[axis]).product();
    let mut groups = vec![Vec::new(); len];
    for (i, &x) in x.iter().enumerate() {
        let coordinate = |axis: usize| i / dims[axis + 1..].iter().product::<usize>() % dims[axis];
        groups[retained.iter().fold(0, |group, &axis| group * dims[axis] + coordinate(axis))]
            .push(x);
    }
    groups.iter().map(|group| R::TEST(group)).collect()
}

fn doubles(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| x.into()).collect()
}

fn along(run: Bench, axes: &[usize]) -> Bench {
    let axes: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
    run.constant(tensor(&[axes.len()], &axes))
}

fn every_set_of_axes_is_reduced<R: Reduce>() {
    let dims = [3, 4, 1, 5];
    let x = numbers::<R>(60);
    for mask in 1..16 {
        let axes: Vec<usize> = (0..4).filter(|axis| mask >> axis & 1 == 1).collect();
        let expected = expected::<R>(&dims, &axes, &doubles(&x));
        let run = along(bench(R::NAME).input(tensor(&dims, &x)), &axes).int("keepdims", 0);
        let y = run.clone().one();
        assert_near(&y.values::<f32>(), &expected, 1e-5);
        let y = along(bench(R::NAME).input(tensor(&dims, &doubles(&x))), &axes).one();
        assert_eq!(y.dims().len(), 4);
        assert_near(&y.values::<f64>(), &expected, 1e-12);
        assert_near(&run.on(Core::GPU).one().values::<f32>(), &expected, 1e-5);
    }
    let f16_values: Vec<F16> = x.iter().map(|&x| F16::from_f32(x)).collect();
    let y = along(bench(R::NAME).on(Core::GPU).input(tensor(&dims, &f16_values)), &[1]).one();
    let y: Vec<f32> = y.values::<F16>().into_iter().map(F16::to_f32).collect();
    let x: Vec<f64> = f16_values.iter().map(|x| x.to_f32().into()).collect();
    assert_near(&y, &expected::<R>(&dims, &[1], &x), 2e-3);
}

fn large_tensors_are_divided_among_threads<R: Reduce>() {
    // Short and long rows, few and many columns, and both.
    for (dims, axes) in [
        (vec![2 * GRAIN / 3 + 1, 3], vec![1]),
        (vec![3, 9001], vec![1]),
        (vec![21, 4000], vec![0]),
        (vec![1500, 20, 3], vec![1]),
        (vec![3, 700, 41], vec![0, 2]),
    ] {
        // Near 1, so that long products stay in range, and increasing, so that rows differ in their maximum.
        let len: usize = dims.iter().product();
        let growth = |at: usize| 1.0 + 1e-3 * at as f32 / len as f32;
        let x = noise(len).into_iter().enumerate();
        let x: Vec<f32> = x.map(|(at, x)| (0.05 * x).exp() * growth(at)).collect();
        let expected = expected::<R>(&dims, &axes, &doubles(&x));
        // One thread computes each output, so the thread count does not change bits.
        let run = along(bench(R::NAME).input(tensor(&dims, &x)), &axes);
        assert_near(&settled_on_any_threads(&run).values::<f32>(), &expected, 2e-5);
    }
}

fn no_elements_reduce_to_the_neutral_element<R: Reduce>() {
    let x = tensor::<f32>(&[2, 0, 4], &[]);
    let y = along(bench(R::NAME).input(x.clone()), &[1]).one();
    assert_eq!(y.dims(), [2, 1, 4]);
    let reason = "all outputs are the reduction of no elements";
    assert_near_constant(&y.values::<f32>(), &[R::TEST(&[]); 8], 0.0, reason);
    let y = along(bench(R::NAME).input(x), &[2]).int("keepdims", 0).one();
    assert_eq!((y.dims(), y.values::<f32>().len()), (vec![2, 0], 0));
    let y = bench(R::NAME).input(tensor(&[], &[2.5f32])).one();
    assert_eq!(y.dims(), []);
    assert_near(&y.values::<f32>(), &[R::TEST(&[2.5])], 1e-6);
}

fn bounded_shapes_are_read_in_the_run<R: Reduce>() {
    let x = numbers::<R>(6);
    let run = bench(R::NAME).input(tensor(&[2, 3], &x).bounded(&[Dim::UpTo(5), Dim::Fixed(3)]));
    let y = along(run.clone(), &[1]).int("keepdims", 0).one();
    assert_eq!((y.desc().full_shape().to_string(), y.dims()), ("[<=5]".to_owned(), vec![2]));
    assert_near(&y.values::<f32>(), &expected::<R>(&[2, 3], &[1], &doubles(&x)), 1e-5);
    let y = along(run, &[0]).one();
    assert_near(&y.values::<f32>(), &expected::<R>(&[2, 3], &[0], &doubles(&x)), 1e-5);
}

fn integers_are_reduced<R: Reduce>() {
    let x = [3i64, 1, 2, -7, 0, 5];
    let expected = expected::<R>(&[2, 3], &[1], &x.map(|x| x as f64));
    let expected: Vec<i64> = expected.into_iter().map(|y| y as i64).collect();
    if R::By::TYPES.has(DType::I64) {
        let y = along(bench(R::NAME).input(tensor(&[2, 3], &x)), &[1]).one();
        assert_eq!(y.values::<i64>(), expected);
    }
    if R::By::TYPES.has(DType::I8) {
        let y = along(bench(R::NAME).input(tensor(&[2, 3], &x.map(|x| x as i8))), &[1]).one();
        assert_eq!(y.values::<i8>(), expected.iter().map(|&y| y as i8).collect::<Vec<_>>());
    }
}

fn quantized_values_are_reduced_dequantized<R: Reduce>() {
    let (scale, zero_point) = (0.25, 10);
    let x = [12u8, 20, 14, 11, 13, 18];
    let run = bench(R::NAME).on(Core::DSP_V68);
    let run = along(run.input(tensor(&[2, 3], &x).encoded(scale, zero_point)), &[0]);
    let y = run.clone().output_encoding(0, 0.05, 3).one();
    let numbers = x.map(|x| f64::from(x) * 0.25 - 2.5);
    let expected = expected::<R>(&[2, 3], &[0], &numbers);
    let y_encoding = udo_api::Encoding { scale: 0.05, zero_point: 3 };
    let expected: Vec<u8> = expected.into_iter().map(|y| y_encoding.quantize(y as f32)).collect();
    assert_eq!(y.values::<u8>(), expected);
    assert_eq!(run.error(), "output 0 has no encoding");
}

fn bools_are_reduced<R: Reduce>() {
    if !R::By::SUPPORTS_BOOL {
        return;
    }
    let bools = [true, false, true, true, false, false].map(Bool::from);
    let y = along(bench(R::NAME).input(tensor(&[3, 2], &bools)), &[1]).int("keepdims", 0).one();
    let numbers = bools.map(|x| f64::from(u8::from(x.get())));
    let expected = expected::<R>(&[3, 2], &[1], &numbers);
    let expected: Vec<Bool> = expected.into_iter().map(|y| Bool::from(y != 0.0)).collect();
    assert_eq!(y.values::<Bool>(), expected);
    let y = along(bench(R::NAME).input(tensor::<Bool>(&[0, 1], &[])), &[0]).one();
    assert_eq!(y.values::<Bool>(), [Bool::from(R::TEST(&[]) > 0.0)]);
}

fn axes_may_be_absent_negative_or_empty<R: Reduce>() {
    let x = numbers::<R>(6);
    let run = || bench(R::NAME).input(tensor(&[2, 3], &x));
    let expected_for = |axes: &[usize]| expected::<R>(&[2, 3], axes, &doubles(&x));
    let check = |run: Bench, axes: &[usize]| {
        assert_near(&run.one().values::<f32>(), &expected_for(axes), 1e-5);
    };
    check(run(), &[0, 1]);
    check(along(run(), &[]), &[0, 1]);
    check(along(run(), &[]).int("noop_with_empty_axes", 1), &[]);
    check(run().constant(tensor(&[1], &[-2i64])), &[0]);
    check(run().constant(tensor(&[2], &[-1i64, 0])), &[0, 1]);
    for axes in [[0, -2], [2, 0], [-3, 0]] {
        let error = run().constant(tensor(&[2], &axes)).error();
        assert_eq!(error, format!("axes {axes:?} are not for a tensor of shape [2,3]"));
    }
    let error = run().input(tensor(&[1], &[0i64])).error();
    assert_eq!(error, "input 1, the axes, is not known before the run");
}

/// A NaN makes its output NaN and no other, in f32 and f64, along short and long rows and along columns.
fn nan_at_any_position_gives_nan<R: Reduce>() {
    for (dims, axis) in [([2, 3], 1), ([2, 70], 1), ([2, 5001], 1), ([70, 2], 0), ([33, 19], 0)] {
        let x: Vec<f32> = numbers::<R>(dims[0] * dims[1]).iter().map(|x| x.abs()).collect();
        let retained = |at: usize| if axis == 1 { at / dims[1] } else { at % dims[1] };
        let run = |x: &[f32]| along(bench(R::NAME).input(tensor(&dims, x)), &[axis]);
        let plain = run(&x).one().values::<f32>();
        for at in [0, 1, dims[1], x.len() / 2, x.len() - 1] {
            let x = with(&x, at, f32::NAN);
            let y = run(&x).one().values::<f32>();
            for (i, (y, plain)) in y.iter().zip(&plain).enumerate() {
                let actual =
                    if i == retained(at) { y.is_nan() } else { y.to_bits() == plain.to_bits() };
                assert!(actual, "{} with a NaN at {at} of {dims:?}: {y} at {i}", R::NAME);
            }
            let y = along(bench(R::NAME).input(tensor(&dims, &doubles(&x))), &[axis]).one();
            let is_nan = |(i, y): (usize, f64)| y.is_nan() == (i == retained(at));
            assert!(y.values::<f64>().into_iter().enumerate().all(is_nan), "{}", R::NAME);
        }
    }
}

fn infinities_and_tiny_values_match_the_definition<R: Reduce>() {
    let infinity = f32::INFINITY;
    for x in [[infinity, 1.0, 2.0], [1.0, -infinity, 2.0], [infinity, -infinity, 1.0]] {
        for copies in [1, 6, 41] {
            let x = x.repeat(copies);
            let y = along(bench(R::NAME).input(tensor(&[x.len()], &x)), &[0]).one();
            let name = format!("{} of {x:?}", R::NAME);
            assert_rounded(y.values::<f32>()[0], R::TEST(&doubles(&x)), 1e-5, &name);
        }
    }
    // Squares of such values underflow.
    let least = f64::MIN_POSITIVE / 2.0;
    if R::TEST(&[least]).to_bits() == least.to_bits() {
        let y = bench(R::NAME).input(tensor(&[1], &[SUBNORMAL])).one();
        assert_eq!(y.values::<f32>(), [SUBNORMAL], "{}", R::NAME);
        let y = bench(R::NAME).input(tensor(&[1], &[least])).one();
        assert_eq!(y.values::<f64>(), [least], "{}", R::NAME);
    }
}

/// Integers accumulate in a wider type and are truncated to their own width afterwards.
fn integers_wrap<R: Reduce>() {
    if !R::By::TYPES.has(DType::I32) {
        return;
    }
    for x in [[i32::MAX, 1, 2], [i32::MIN, -1, 0], [i32::MIN, 0, 0], [1 << 20, 1 << 20, 3]] {
        if R::By::IN_F64 {
            let real = x.iter().fold(R::By::none::<f64>(), |y, &x| R::By::take(y, f64::from(x)));
            let y = bench(R::NAME).input(tensor(&[3], &x)).one();
            assert_eq!(y.values::<i32>(), [R::end(real, 3) as i32], "{} of {x:?}", R::NAME);
            continue;
        }
        let wide = x.iter().fold(R::By::none::<i64>(), |y, &x| R::By::take(y, i64::from(x)));
        let y = bench(R::NAME).input(tensor(&[3], &x)).one();
        assert_eq!(y.values::<i32>(), [R::end(wide as i32, 3)], "{} of {x:?}", R::NAME);
    }
}
