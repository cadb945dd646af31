//! Resamples axes: nearest neighbour, linear or cubic.
//!
//! `Plan` reads the parameters and the kernels run it; both are in `family::resize`. Bounded extents are known only in
//! the run, up to a bound.

use udo_api::{Error, Facts, InferCx, KernelDef, Op, OpSchema, Port, types};

use crate::Def;
use crate::family::layout::{ChannelsLast, ChannelsSecond};
use crate::family::resize::{self, PARAMS, Plan, ROI, SCALES, SIZES};

pub(crate) const DEF: Def = Def::new::<Resize>(KERNELS);

const NAME: &str = "Resize";
const KERNELS: &[KernelDef] = &[
    resize::kernel::<ChannelsLast>(NAME),
    resize::kernel::<ChannelsSecond>(NAME),
    resize::on_gpu(NAME),
    resize::on_dsp::<ChannelsSecond>(NAME),
];

struct Resize;

impl Op for Resize {
    const SCHEMA: OpSchema = OpSchema::new(
        NAME,
        &[Port::required("X", types::ANY), ROI, SCALES, SIZES],
        &[Port::required("Y", types::ANY)],
        PARAMS,
    )
    .facts(Facts::SAME_ENCODING);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let shape = Plan::read(cx, &x)?.shape(&x)?;
        cx.set_output(0, x.with_shape(shape))
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Bf16, Bool, Core, Dim, Element, Encoding, F16};

    use super::*;
    use crate::family::numerics::{of_kernels, on_gpu_too, settled_on_any_threads};
    use crate::testing::{Bench, assert_near, assert_near_constant, bench, noise, tensor};

    /// Adds scales to a node.
    fn scaled(scales: &[f32]) -> impl Fn(Bench) -> Bench {
        move |run| run.absent().constant(tensor(&[scales.len()], scales))
    }

    /// Adds sizes to a node.
    fn sized(sizes: &[i64]) -> impl Fn(Bench) -> Bench {
        move |run| run.absent().absent().constant(tensor(&[sizes.len()], sizes))
    }

    fn resize<T: Element>(dims: &[usize], x: &[T], configure: impl Fn(Bench) -> Bench) -> Bench {
        configure(bench(NAME).input(tensor(dims, x)))
    }

    /// Resizes one axis by the definition of the filters, with half-pixel coordinates. Positions outside take the edge
    /// element. The cubic filter is that of Keys with ONNX's default `cubic_coeff_a` of -0.75.
    fn resize_line(x: &[f64], y_len: usize, is_cubic: bool) -> Vec<f64> {
        let scale = y_len as f64 / x.len() as f64;
        let weight = |distance: f64| match distance.abs() {
            d if !is_cubic => (1.0 - d).max(0.0),
            d if d <= 1.0 => 1.25 * d.powi(3) - 2.25 * d.powi(2) + 1.0,
            d if d < 2.0 => -0.75 * d.powi(3) + 3.75 * d.powi(2) - 6.0 * d + 3.0,
            _ => 0.0,
        };
        let element = |i: i64| x[i.clamp(0, x.len() as i64 - 1) as usize];
        let sample = |y_index: usize| {
            let position = (y_index as f64 + 0.5) / scale - 0.5;
            let neighbours = position.floor() as i64 - 1..position.floor() as i64 + 3;
            neighbours.map(|i| weight(i as f64 - position) * element(i)).sum()
        };
        (0..y_len).map(sample).collect()
    }

    /// Applies [`resize_line`] along one axis of a tensor.
    fn resize_axis(
        axis: usize,
        dims: &mut [usize],
        x: &[f64],
        y_len: usize,
        is_cubic: bool,
    ) -> Vec<f64> {
        let inner: usize = dims[axis + 1..].iter().product();
        let len = std::mem::replace(&mut dims[axis], y_len);
        let mut y = vec![0.0; x.len() / len * y_len];
        for outer in 0..x.len() / len / inner {
            for i in 0..inner {
                let line: Vec<f64> = (0..len).map(|k| x[(outer * len + k) * inner + i]).collect();
                for (k, value) in resize_line(&line, y_len, is_cubic).into_iter().enumerate() {
                    y[(outer * y_len + k) * inner + i] = value;
                }
            }
        }
        y
    }

    #[test]
    fn sums_match_the_definition_along_any_axes() {
        let cases: [(&[usize], &[usize]); 8] = [
            (&[1, 3, 5, 4], &[1, 3, 10, 8]),
            (&[2, 35, 6, 7], &[2, 35, 4, 3]),
            (&[2, 3, 4, 5], &[2, 3, 4, 9]),
            (&[2, 3, 4, 5], &[2, 3, 7, 5]),
            (&[2, 3, 4, 5], &[3, 2, 5, 4]),
            (&[4], &[7]),
            (&[1, 2, 3, 4, 3], &[1, 2, 5, 3, 7]),
            (&[1, 2, 1, 1], &[1, 2, 3, 5]),
        ];
        for (x_dims, y_dims) in cases {
            let x = noise(x_dims.iter().product());
            let sizes: Vec<i64> = y_dims.iter().map(|&extent| extent as i64).collect();
            for (mode, is_cubic) in [("linear", false), ("cubic", true)] {
                let mut dims = x_dims.to_vec();
                let mut expected: Vec<f64> = x.iter().copied().map(f64::from).collect();
                for (axis, &y_len) in y_dims.iter().enumerate() {
                    if x_dims[axis] != y_len {
                        expected = resize_axis(axis, &mut dims, &expected, y_len, is_cubic);
                    }
                }
                for threads in [1, 3] {
                    let run = resize(x_dims, &x, sized(&sizes)).text("mode", mode).threads(threads);
                    let y = run.one();
                    assert_eq!(y.dims(), y_dims);
                    assert_near(&y.values::<f32>(), &expected, 1e-5);
                }
                let doubles: Vec<f64> = x.iter().copied().map(f64::from).collect();
                let y = resize(x_dims, &doubles, sized(&sizes)).text("mode", mode).one();
                assert_near(&y.values::<f64>(), &expected, 1e-5);
            }
        }
    }

    fn check_copies<T: Element>(convert: impl Fn(u8) -> T) {
        let x: Vec<T> = (0..12).map(&convert).collect();
        let check = |y: crate::testing::Tensor, expected: &[u8]| {
            let expected: Vec<T> = expected.iter().map(|&i| convert(i)).collect();
            assert!(y.bytes() == udo_api::bytes_of(&expected), "{}", T::DTYPE);
        };
        let twice = resize(&[1, 2, 2, 3], &x, scaled(&[1.0, 1.0, 2.0, 2.0])).one();
        assert_eq!(twice.dims(), [1, 2, 4, 6]);
        let rows = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]];
        let expected: Vec<u8> = rows
            .iter()
            .flat_map(|row| {
                let row: Vec<u8> = row.iter().flat_map(|&i| [i, i]).collect();
                [row.clone(), row].concat()
            })
            .collect();
        check(twice, &expected);
        let run = resize(&[3, 4], &x, sized(&[2, 3]))
            .text("coordinate_transformation_mode", "asymmetric");
        check(run.text("nearest_mode", "floor").one(), &[0, 1, 2, 4, 5, 6]);
        check(resize(&[12], &x, sized(&[12])).one(), &(0..12).collect::<Vec<_>>());
    }

    #[test]
    fn the_nearest_elements_of_any_type_are_copied() {
        check_copies(|i| i);
        check_copies(i16::from);
        check_copies(f32::from);
        check_copies(f64::from);
        check_copies(i64::from);
        check_copies(|i| Bool(i % 2));
        check_copies(|i| F16(0xfc01 + u16::from(i)));
    }

    #[test]
    fn ties_follow_exact_arithmetic_on_every_core() {
        // Input and output extent, coordinate mode, nearest mode, and the elements taken. Coordinates such as 14.5 are
        // ties, which f32 arithmetic misses.
        let cases: [(usize, usize, &str, &str, &[u8]); 5] = [
            (20, 6, "half_pixel", "round_prefer_ceil", &[1, 5, 8, 11, 15, 18]),
            (14, 1, "half_pixel", "round_prefer_ceil", &[7]),
            (7, 2, "asymmetric", "round_prefer_ceil", &[0, 4]),
            (
                3,
                21,
                "align_corners",
                "round_prefer_floor",
                &[0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2],
            ),
            (13, 7, "half_pixel_symmetric", "floor", &[0, 2, 4, 6, 7, 9, 11]),
        ];
        for (x_len, y_len, coordinates, nearest, expected) in cases {
            let x: Vec<u8> = (0..x_len as u8).collect();
            let configure = |run: Bench| {
                let run = sized(&[1, 1, 1, y_len as i64])(run);
                run.text("coordinate_transformation_mode", coordinates)
                    .text("nearest_mode", nearest)
            };
            let floats: Vec<f32> = x.iter().copied().map(f32::from).collect();
            let run = configure(bench(NAME).input(tensor(&[1, 1, 1, x_len], &floats)));
            let y = on_gpu_too(&run, 0.0);
            let expected_floats: Vec<f64> = expected.iter().copied().map(f64::from).collect();
            assert_near(&y.values::<f32>(), &expected_floats, 0.0);
            let quantized = tensor(&[1, 1, 1, x_len], &x).encoded(0.5, 0);
            let run = configure(bench(NAME).on(Core::DSP_V68).input(quantized));
            let y = run.output_encoding(0, 0.5, 0);
            assert_eq!(
                y.one().values::<u8>(),
                expected,
                "{x_len} to {y_len}, {coordinates}, {nearest}"
            );
        }
        // The second axis has 4 elements times the scale 3/8 of the first one, exactly 1.5, which rounds half up.
        let run = bench(NAME).input(tensor(&[8, 4], &noise(32))).absent().absent();
        let run = run.constant(tensor(&[2], &[3i64, 40]));
        assert_eq!(run.text("keep_aspect_ratio_policy", "not_larger").one().dims(), [3, 2]);
    }

    #[test]
    fn threads_and_layouts_do_not_change_results() {
        let (rows, cols) = (400, 301);
        let x: Vec<i32> = (0..rows as i32 * cols as i32).collect();
        let run = resize(&[rows, cols], &x, sized(&[777, 500]));
        let y = run.clone().threads(3).one().values::<i32>();
        assert_eq!(y, run.one().values::<i32>());
        // The nearest element, with ties rounded down: `(i + 0.5) x_len / y_len - 1`, rounded up.
        let nearest = |y_index: usize, x_len: usize, y_len: usize| {
            ((2 * y_index + 1) * x_len).div_ceil(2 * y_len).saturating_sub(1)
        };
        for (index, y) in y.into_iter().enumerate() {
            let x_index = nearest(index / 500, rows, 777) * cols + nearest(index % 500, cols, 500);
            assert_eq!(y, x[x_index], "at {index}");
        }
        let x = noise(2 * 19 * 60 * 50);
        let run = resize(&[2, 19, 60, 50], &x, sized(&[2, 19, 100, 90])).text("mode", "linear");
        settled_on_any_threads(&run);
        let layouts = of_kernels(&run);
        assert!(layouts.len() == 2 && layouts[0] == layouts[1], "results differ between layouts");
    }

    #[test]
    fn integers_round_and_half_precision_is_supported() {
        let linear = |run: Bench| scaled(&[2.0])(run).text("mode", "linear");
        let x = [0u8, 3, 255];
        let y = resize(&[3], &x, linear).one().values::<u8>();
        assert_eq!(y, [0, 1, 2, 66, 192, 255]);
        let cubic = |run: Bench| scaled(&[2.0])(run).text("mode", "cubic");
        let y = resize(&[4], &[-128i8, -128, 127, 127], cubic).one().values::<i8>();
        assert_eq!(y[0..2], [-128, -128]);
        assert_eq!(y[6..], [127, 127], "overshoot saturates");
        let y = resize(&[2], &[i64::from(i32::MAX) * 4, 0], linear).one().values::<i64>();
        assert_eq!(y[1], i64::from(i32::MAX) * 3);
        let y = resize(&[2], &[F16::from_f32(1.0), F16::from_f32(2.0)], linear).one();
        assert_eq!(
            y.values::<F16>().iter().map(|y| y.to_f32()).collect::<Vec<_>>(),
            [1.0, 1.25, 1.75, 2.0]
        );
        let y = resize(&[2], &[Bf16::from_f32(1.0), Bf16::from_f32(2.0)], linear).one();
        assert_eq!(y.values::<Bf16>()[1], Bf16::from_f32(1.25));
        let error = resize(&[2], &[Bool(1), Bool(0)], linear).error();
        assert_eq!(error, "the element type is bool, which the kernel does not take");
    }

    #[test]
    fn quantized_values_keep_their_encoding() {
        for (mode, expected) in [("nearest", [10u8, 10, 20, 20]), ("linear", [10, 12, 18, 20])] {
            let x = tensor(&[1, 1, 2], &[10u8, 20]).encoded(0.5, 10);
            let run = scaled(&[1.0, 1.0, 2.0])(bench(NAME).on(Core::DSP_V68).input(x));
            let y = run.text("mode", mode).output_encoding(0, 0.5, 10).one();
            assert_eq!(y.values::<u8>(), expected);
            assert_eq!(y.desc().encoding(), Some(Encoding { scale: 0.5, zero_point: 10 }));
        }
    }

    #[test]
    fn cubic_outputs_may_have_their_own_encoding() {
        let x_encoding = Encoding { scale: 0.5, zero_point: 10 };
        let y_encoding = Encoding { scale: 0.75, zero_point: 40 };
        let dims = [1, 2, 3, 6];
        let x: Vec<u8> = (0..36u16).map(|index| if index % 6 < 3 { 0 } else { 255 }).collect();
        let floats: Vec<f32> = x.iter().map(|&x| x_encoding.dequantize(x)).collect();
        let [low, high] = [0u8, 255].map(|end| x_encoding.dequantize(end));
        let check = |configure: &dyn Fn(Bench) -> Bench| {
            let expected =
                configure(bench(NAME).input(tensor(&dims, &floats))).one().values::<f32>();
            assert!(
                expected.iter().any(|y| *y < low - 2.0 || *y > high + 2.0),
                "no output exceeds the input's range"
            );
            let quantized = tensor(&dims, &x).encoded(x_encoding.scale, x_encoding.zero_point);
            let run = configure(bench(NAME).on(Core::DSP_V68).input(quantized));
            let run = run.output_encoding(0, y_encoding.scale, y_encoding.zero_point);
            let y = run.one().values::<u8>();
            for (y, expected) in y.into_iter().zip(expected) {
                let y = y_encoding.dequantize(y);
                assert!((y - expected).abs() <= y_encoding.scale * 0.501, "{y} for {expected}");
            }
        };
        check(&|run| sized(&[1, 2, 6, 15])(run).text("mode", "cubic"));
        check(&|run| sized(&[1, 3, 3, 15])(run).text("mode", "cubic").threads(3));
        let with_region = |run: Bench| {
            let roi = [0.0f32, 0.0, 0.0, 0.0, 1.0, 1.0, 1.5, 1.5];
            let run = run.constant(tensor(&[8], &roi)).absent();
            let run = run.constant(tensor(&[4], &[1i64, 2, 5, 8]));
            run.text("coordinate_transformation_mode", "tf_crop_and_resize")
        };
        check(&|run| with_region(run).text("mode", "linear").float("extrapolation_value", -25.0));
        let run =
            with_region(bench(NAME).on(Core::DSP_V68).input(tensor(&dims, &x).encoded(0.5, 10)));
        let error = run.output_encoding(0, 0.75, 40).error();
        assert!(
            error.ends_with("expected the encoding of input 0, because elements are copied"),
            "{error}"
        );
    }

    #[test]
    fn samples_outside_of_the_region_take_the_extrapolation_value() {
        let x: Vec<f32> = (0..16u8).map(f32::from).collect();
        let run = |mode: &str, sizes: &[i64]| {
            let roi = [0.0f32, 0.0, 0.5, 0.5, 1.0, 1.0, 1.5, 1.5];
            let run = bench(NAME).input(tensor(&[1, 1, 4, 4], &x)).constant(tensor(&[8], &roi));
            let run = run.absent().constant(tensor(&[sizes.len()], sizes)).text("mode", mode);
            let run = run.text("coordinate_transformation_mode", "tf_crop_and_resize");
            run.float("extrapolation_value", 99.0)
        };
        for mode in ["nearest", "linear", "cubic"] {
            // Rows and columns 1.5, 3 and 4.5.
            let y = run(mode, &[1, 1, 3, 3]).one().values::<f32>();
            let outside = [y[2], y[5], y[6], y[7], y[8]];
            assert_near_constant(
                &outside,
                &[99.0; 5],
                0.0,
                "samples outside have the extrapolation value",
            );
            let first = if mode == "nearest" { 5.0 } else { 7.5 };
            assert_near(&[y[0], y[4]], &[first, 15.0], 1e-5);
        }
        let error = run("linear", &[1, 1, 3]).error();
        assert_eq!(error, "input 3 has 3 numbers, expected one for each of 4 axes");
        let run = resize(&[4], &x[..4], sized(&[2]));
        let error = run.text("coordinate_transformation_mode", "tf_crop_and_resize").error();
        assert_eq!(
            error,
            "mode \"tf_crop_and_resize\" wants 2 numbers in input 1, the roi, known before the run"
        );
    }

    #[test]
    fn sizes_may_bound_a_common_scale() {
        let x = noise(24);
        for (policy, expected) in [("not_larger", [2, 4, 5]), ("not_smaller", [2, 6, 8])] {
            let with_sizes = |run: Bench| {
                run.absent().absent().constant(tensor(&[2], &[8i64, 4])).ints("axes", &[2, -2])
            };
            let run = resize(&[2, 3, 4], &x, with_sizes).text("keep_aspect_ratio_policy", policy);
            assert_eq!(run.one().dims(), expected, "{policy}");
        }
    }

    #[test]
    fn axes_that_are_not_resized_may_be_bounded() {
        let x = tensor(&[2, 2], &[1f32, 2.0, 3.0, 4.0]).bounded(&[Dim::UpTo(5), Dim::Fixed(2)]);
        for (mode, expected) in [
            ("nearest", [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0]),
            ("linear", [1.0, 1.25, 1.75, 2.0, 3.0, 3.25, 3.75, 4.0]),
        ] {
            let y = scaled(&[1.0, 2.0])(bench(NAME).input(x.clone())).text("mode", mode).one();
            assert_eq!(y.desc().full_shape().to_string(), "[<=5,4]");
            assert_eq!((y.dims(), y.values::<f32>()), (vec![2, 4], expected.to_vec()));
        }
        let error = scaled(&[2.0, 1.0])(bench(NAME).input(x)).error();
        assert_eq!(error, "input 0 is f32[<=5,2]: axis 0 is resized, expected a fixed extent");
    }

    #[test]
    fn invalid_sizes_are_refused() {
        let x = [1f32, 2.0];
        let error = |run: Bench| run.error();
        let without_either = bench(NAME).input(tensor(&[2], &x));
        assert_eq!(
            error(without_either),
            "inputs 2 and 3 are both missing, expected scales or sizes"
        );
        let with_both = scaled(&[1.0])(bench(NAME).input(tensor(&[2], &x)));
        let with_both = with_both.constant(tensor(&[1], &[2i64]));
        assert_eq!(
            error(with_both),
            "inputs 2 and 3 are both present, expected either scales or sizes"
        );
        for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            let expected = format!("input 2 has the scale {scale}, expected more than 0");
            assert_eq!(error(resize(&[2], &x, scaled(&[scale]))), expected);
        }
        assert_eq!(
            error(resize(&[2], &x, sized(&[-1]))),
            "input 3 is [-1], expected sizes of at least 0"
        );
        let error_of_empty = error(resize::<f32>(&[0], &[], sized(&[2])));
        assert_eq!(
            error_of_empty,
            "input 0 is f32[0]: axis 0 has no elements, expected at least one to sample"
        );
        let empty = resize::<f32>(&[0, 2], &[], scaled(&[1.0, 2.0])).one();
        assert_eq!(empty.dims(), [0, 4]);
        let run = resize(&[2], &x, sized(&[4])).text("mode", "area");
        assert_eq!(
            error(run),
            "parameter \"mode\" is \"area\", expected one of nearest, linear, cubic"
        );
        let run = resize(&[2], &x, sized(&[4])).int("antialias", 1);
        assert_eq!(
            error(run),
            "parameter \"antialias\" is 1, expected 0, because mode \"nearest\" has no filter"
        );
        let run = resize(&[2], &x, sized(&[4])).ints("axes", &[1]);
        assert_eq!(error(run), "parameter \"axes\" is [1], expected different axes of rank 1");
    }
}
