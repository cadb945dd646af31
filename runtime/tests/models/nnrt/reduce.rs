//! Reductions and normalizations.

use udo_api::DType::{Bool, F32, I32};

use super::support::{Nd, nnrt, operations};

/// The numbers along some axes taken into one, which keeps axes of one position.
fn along(x: &Nd, axes: &[usize], of: &dyn Fn(&[f64]) -> f64) -> Nd {
    let extent = |axis: usize| if axes.contains(&axis) { 1 } else { x.dims[axis] };
    let kept: Vec<_> = (0..x.dims.len()).map(extent).collect();
    Nd::from(&kept, |place| {
        let inner: Vec<_> = axes.iter().map(|&axis| x.dims[axis]).collect();
        let numbers = super::support::places(&inner).into_iter().map(|inner| {
            let mut place = place.to_vec();
            axes.iter().zip(inner).for_each(|(&axis, at)| place[axis] = at);
            x.at(&place)
        });
        of(&numbers.collect::<Vec<_>>())
    })
}

fn reduces(name: &str, of: &dyn Fn(&[f64]) -> f64) {
    let x = Nd::noise(&[2, 3, 4], 1);
    let run = |axes: &[f64]| nnrt(name).x(&x).constant(I32, &Nd::list(axes));
    run(&[1.0]).y(&[2, 4]).is(&[&along(&x, &[1], of).reshaped(&[2, 4])]);
    run(&[-1.0, 0.0]).y(&[1, 3, 1]).int("keep_dims", 1).is(&[&along(&x, &[0, 2], of)]);
    let wanted = along(&x, &[1, 2], of).map(|y| y * 0.5).reshaped(&[2]);
    run(&[1.0]).y(&[2]).int("reduce_to_end", 1).float("coeff", 0.5).is(&[&wanted]);
    let error = run(&[1.0, 2.0]).y(&[2]).int("reduce_to_end", 1).error();
    assert_eq!(error, format!("{name}_0: input 1 has 2 elements, expected 1"));
    let error = run(&[3.0]).y(&[2]).int("reduce_to_end", 1).error();
    assert_eq!(error, format!("{name}_0: axis 3 of 3 dimensions, expected -3 to 2"));
}

fn all_are_true(name: &str) {
    let x = Nd::noise(&[3, 2, 2], 1).map(|x| f64::from(x > -1.2));
    let of = |x: &[f64]| x.iter().copied().fold(1.0, f64::min);
    let run = || nnrt(name).input(Bool, &x).of_ints(&[2]);
    run().makes(Bool, &[3, 2]).is(&[&along(&x, &[2], &of).reshaped(&[3, 2])]);
    run().makes(Bool, &[3, 2, 1]).int("keep_dims", 1).is(&[&along(&x, &[2], &of)]);
    let error = nnrt(name).x(&x).of_ints(&[2]).y(&[3, 2]).error();
    assert_eq!(error, format!("{name}_0: input 0 is f32[3,2,2], expected bool"));
}

/// Shares of each row along an axis.
fn shares(x: &Nd, axis: usize) -> Nd {
    let exps = x.map(f64::exp);
    exps.zip(&along(&exps, &[axis], &|x| x.iter().sum()), |x, sum| x / sum)
}

operations! {
    42 reduce_mean { reduces("REDUCE_MEAN", &|x| x.iter().sum::<f64>() / x.len() as f64) }

    50 reduce_prod { reduces("REDUCE_PROD", &|x| x.iter().product()) }

    99 reduce_max { reduces("REDUCE_MAX", &|x| x.iter().copied().fold(f64::MIN, f64::max)) }

    100 reduce_min { reduces("REDUCE_MIN", &|x| x.iter().copied().fold(f64::MAX, f64::min)) }

    101 reduce_sum { reduces("REDUCE_SUM", &|x| x.iter().sum()) }

    106 reduce_l2 { reduces("REDUCE_L2", &|x| x.iter().map(|x| x * x).sum::<f64>().sqrt()) }

    51 reduce_all {
        all_are_true("REDUCE_ALL");
        let x = Nd::noise(&[2, 2, 2], 3).map(|x| f64::from(x > -1.2));
        let wanted = along(&x, &[1, 2], &|x| x.iter().copied().fold(1.0, f64::min)).reshaped(&[2]);
        let run = || nnrt("REDUCE_ALL").input(Bool, &x).of_ints(&[1]).int("reduce_to_end", 1);
        run().makes(Bool, &[2]).is(&[&wanted]);
        let error = run().makes(Bool, &[2]).float("coeff", 2.0).error();
        assert!(error.ends_with("bools are not multiplied"), "{error}");
    }

    77 all { all_are_true("ALL") }

    30 softmax {
        let x = Nd::noise(&[2, 3, 4], 1);
        let run = || nnrt("SOFTMAX").x(&x).y(&x.dims);
        run().is(&[&shares(&x, 2)]);
        run().ints("axis", &[1]).is(&[&shares(&x, 1)]);
        let error = run().ints("axis", &[1, 2]).error();
        assert_eq!(error, "SOFTMAX_0: attribute \"axis\" has 2 numbers, expected 1");
    }

    95 log_softmax {
        let x = Nd::noise(&[2, 3, 4], 1);
        nnrt("LOG_SOFTMAX").x(&x).y(&x.dims).is(&[&shares(&x, 2).map(f64::ln)]);
        let run = nnrt("LOG_SOFTMAX").x(&x).y(&x.dims).int("axis", 0);
        run.is(&[&shares(&x, 0).map(f64::ln)]);
    }

    94 l2_normalize {
        let x = Nd::noise(&[2, 3, 4], 1);
        let normal = |axes: &[usize], least: f64| {
            let length = along(&x, axes, &|x| x.iter().map(|x| x * x).sum::<f64>().max(least).sqrt());
            x.zip(&length, |x, length| x / length)
        };
        let run = || nnrt("L2_NORMALIZE").x(&x).y(&x.dims);
        run().is(&[&normal(&[2], 1e-6)]);
        let wanted = normal(&[1, 2], 1000.0).map(|y| y.max(0.0));
        run().ints("axis", &[1, 2]).float("epsilon", 1000.0).int("activation", 1).is(&[&wanted]);
    }

    49 layer_norm {
        let x = Nd::noise(&[2, 3, 4], 1);
        let normal = |axes: &[usize], epsilon: f64| {
            let mean = along(&x, axes, &|x| x.iter().sum::<f64>() / x.len() as f64);
            let apart = x.zip(&mean, |x, mean| x - mean);
            let spread = along(&apart, axes, &|x| x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64);
            apart.zip(&spread, |x, spread| x / (spread + epsilon).sqrt())
        };
        let (gamma, beta) = (Nd::noise(&[3, 4], 2), Nd::noise(&[3, 4], 3));
        let wanted = normal(&[1, 2], 1e-7).zip(&gamma, |x, g| x * g).zip(&beta, |x, b| x + b);
        nnrt("LAYER_NORM").x(&x).constant(F32, &gamma).x(&beta).y(&x.dims).is(&[&wanted]);
        let (gamma, beta) = (Nd::noise(&[4], 2), Nd::noise(&[4], 3));
        let affine = |x: Nd| x.zip(&gamma, |x, g| x * g).zip(&beta, |x, b| x + b);
        let run = || nnrt("LAYER_NORM").x(&x).x(&gamma).x(&beta).y(&x.dims).float("epsilon", 0.5);
        let last = run().int("begin_axis", -1).int("begin_params_axis", 2);
        last.is(&[&affine(normal(&[2], 0.5))]);
        // Numbers of fewer axes than those of the mean.
        run().int("begin_params_axis", 2).is(&[&affine(normal(&[1, 2], 0.5))]);
        let error = run().int("begin_axis", 3).error();
        assert_eq!(error, "LAYER_NORM_0: axis 3 of 3 dimensions, expected -3 to 2");
    }
}
