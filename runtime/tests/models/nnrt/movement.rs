//! Elements put in other places, and shapes as numbers.

use udo_api::DType::{Bool, F32, I32, I64};

use super::support::{Nd, nnrt, operations};

fn x() -> Nd {
    Nd::noise(&[2, 3, 4], 1)
}

/// A result each of whose elements is one of another tensor.
fn from(x: &Nd, dims: &[usize], of: impl Fn(&[usize]) -> Vec<usize>) -> Nd {
    Nd::from(dims, |place| x.at(&of(place)))
}

/// A list of i32 that is a constant.
fn list(of: &[f64]) -> Nd {
    Nd::list(of)
}

operations! {
    7 concat {
        let (a, b) = (x(), Nd::noise(&[5, 3, 4], 2));
        let wanted = Nd::new(&[7, 3, 4], &[&*a.of, &*b.of].concat());
        nnrt("CONCAT").x(&a).x(&b).y(&[7, 3, 4]).is(&[&wanted]);
        let b = Nd::noise(&[2, 3, 1], 2);
        let wanted =
            Nd::from(&[2, 3, 5], |p| if p[2] < 4 { a.at(p) } else { b.at(&[p[0], p[1], 0]) });
        nnrt("CONCAT").x(&a).x(&b).y(&[2, 3, 5]).int("axis", -1).is(&[&wanted]);
    }

    36 stack {
        let (a, b) = (x(), Nd::noise(&[2, 3, 4], 2));
        let pick = |at: usize| if at == 0 { &a } else { &b };
        let wanted = Nd::from(&[2, 2, 3, 4], |p| pick(p[0]).at(&p[1..]));
        nnrt("STACK").x(&a).x(&b).y(&wanted.dims).is(&[&wanted]);
        let wanted = Nd::from(&[2, 3, 4, 2], |p| pick(p[3]).at(&p[..3]));
        nnrt("STACK").x(&a).x(&b).y(&wanted.dims).int("axis", -1).is(&[&wanted]);
    }

    57 unstack {
        let parts: Vec<_> = (0..2).map(|at| from(&x(), &[3, 4], |p| vec![at, p[0], p[1]])).collect();
        nnrt("UNSTACK").x(&x()).y(&[3, 4]).y(&[3, 4]).is(&[&parts[0], &parts[1]]);
        let parts: Vec<_> = (0..3).map(|at| from(&x(), &[2, 4], |p| vec![p[0], at, p[1]])).collect();
        let run = nnrt("UNSTACK").x(&x()).y(&[2, 4]).y(&[2, 4]).y(&[2, 4]).int("axis", 1);
        run.is(&[&parts[0], &parts[1], &parts[2]]);
    }

    32 split {
        let part = |first: usize, count: usize| from(&x(), &[2, 3, count], |p| vec![p[0], p[1], first + p[2]]);
        let halves = [from(&x(), &[1, 3, 4], <[usize]>::to_vec), from(&x(), &[1, 3, 4], |p| vec![1, p[1], p[2]])];
        nnrt("SPLIT").x(&x()).y(&[1, 3, 4]).y(&[1, 3, 4]).int("output_num", 2).is(&[&halves[0], &halves[1]]);
        let run = || nnrt("SPLIT").x(&x()).y(&[2, 3, 1]).y(&[2, 3, 3]).int("axis", 2);
        run().ints("size_splits", &[1, 3]).is(&[&part(0, 1), &part(1, 3)]);
        run().ints("size_splits", &[1, -1]).is(&[&part(0, 1), &part(1, 3)]);
        let error = run().int("output_num", 3).error();
        assert_eq!(error, "SPLIT_0: attribute \"output_num\" is 3, expected 2");
        let error = run().ints("size_splits", &[5, -1]).error();
        assert_eq!(error, "SPLIT_0: attribute \"size_splits\" is [5, -1], expected a sum of at most 4");
    }

    13 expand_dims {
        let run = |axis: f64| nnrt("EXPAND_DIMS").x(&x()).constant(I32, &Nd::scalar(axis));
        run(1.0).y(&[2, 1, 3, 4]).is(&[&x().reshaped(&[2, 1, 3, 4])]);
        run(-1.0).y(&[2, 3, 4, 1]).is(&[&x().reshaped(&[2, 3, 4, 1])]);
    }

    55 unsqueeze {
        let run = nnrt("UNSQUEEZE").x(&x()).y(&[1, 2, 1, 3, 4]).ints("axis", &[0, 2]);
        run.is(&[&x().reshaped(&[1, 2, 1, 3, 4])]);
        let error = nnrt("UNSQUEEZE").x(&x()).y(&[1, 2, 3, 4]).error();
        assert_eq!(error, "UNSQUEEZE_0: attribute \"axis\" is missing");
    }

    35 squeeze {
        let x = Nd::noise(&[1, 3, 1, 2], 1);
        nnrt("SQUEEZE").x(&x).y(&[3, 2]).is(&[&x.reshaped(&[3, 2])]);
        let run = nnrt("SQUEEZE").x(&x).y(&[1, 3, 2]).ints("axis", &[2]);
        run.is(&[&x.reshaped(&[1, 3, 2])]);
    }

    45 reshape {
        let run = nnrt("RESHAPE").x(&x()).constant(I32, &list(&[4.0, -1.0])).y(&[4, 6]);
        run.is(&[&x().reshaped(&[4, 6])]);
        nnrt("RESHAPE").x(&x()).of_ints(&[0, 12]).y(&[2, 12]).is(&[&x().reshaped(&[2, 12])]);
    }

    64 flatten {
        nnrt("FLATTEN").x(&x()).y(&[2, 12]).is(&[&x().reshaped(&[2, 12])]);
        nnrt("FLATTEN").x(&x()).y(&[6, 4]).int("axis", 2).is(&[&x().reshaped(&[6, 4])]);
    }

    41 transpose {
        let run = || nnrt("TRANSPOSE").x(&x());
        run().constant(I32, &list(&[2.0, 0.0, 1.0])).y(&[4, 2, 3]).is(&[&x().permuted(&[2, 0, 1])]);
        let error = run().input(I32, &list(&[2.0, 0.0, 1.0])).y(&[4, 2, 3]).error();
        assert_eq!(error, "TRANSPOSE_0: input 1 is not known before a run, expected a constant");
        let error = run().x(&list(&[1.0])).y(&[4, 2, 3]).error();
        assert!(error.contains("input 1 is not known"), "{error}");
        let error = run().constant(F32, &list(&[1.0])).y(&[4, 2, 3]).error();
        assert_eq!(error, "TRANSPOSE_0: input 1 is f32[1], expected i32 or i64");
    }

    14 fill {
        let wanted = Nd::from(&[2, 3], |_| 1.5);
        let run = || nnrt("FILL").x(&list(&[1.5]));
        run().constant(I32, &list(&[2.0, 3.0])).y(&[2, 3]).is(&[&wanted]);
    }

    69 broadcast_to {
        let x = Nd::noise(&[3, 1], 1);
        let wanted = from(&x, &[2, 3, 4], |p| vec![p[1], 0]);
        let run = || nnrt("BROADCAST_TO").x(&x).y(&[2, 3, 4]);
        run().ints("shape", &[2, 3, 4]).is(&[&wanted]);
        run().ints("shape", &[2, -1, 4]).is(&[&wanted]);
        assert_eq!(run().error(), "BROADCAST_TO_0: attribute \"shape\" is missing");
    }

    40 tile {
        let wanted = from(&x(), &[4, 3, 12], |p| vec![p[0] % 2, p[1], p[2] % 4]);
        let run = |times: &[f64]| nnrt("TILE").x(&x()).constant(I32, &list(times)).y(&[4, 3, 12]);
        run(&[2.0, 1.0, 3.0]).is(&[&wanted]);
        run(&[3.0, 2.0]).ints("dims", &[-1, 0]).is(&[&wanted]);
        let error = run(&[3.0, 2.0]).ints("dims", &[-1]).error();
        assert_eq!(error, "TILE_0: attribute \"dims\" is [-1] and input 1 is [3, 2], expected as many");
    }

    16 gather {
        let indices = Nd::new(&[2, 2], &[2.0, 0.0, 1.0, 2.0]);
        let wanted = Nd::from(&[2, 2, 2, 4], |p| x().at(&[p[0], indices.at(&p[1..3]) as usize, p[3]]));
        let run = |axis: &[f64]| nnrt("GATHER").x(&x()).input(I32, &indices).constant(I32, &list(axis));
        run(&[1.0]).y(&[2, 2, 2, 4]).is(&[&wanted]);
        let error = run(&[1.0, 0.0]).y(&[2, 2, 2, 4]).error();
        assert_eq!(error, "GATHER_0: input 2 has 2 elements, expected 1");
    }

    108 gather_nd {
        let indices = Nd::new(&[3, 2], &[1.0, 2.0, 0.0, 0.0, 1.0, 1.0]);
        let wanted = Nd::from(&[3, 4], |p| {
            let at = |i: usize| indices.at(&[p[0], i]) as usize;
            x().at(&[at(0), at(1), p[1]])
        });
        nnrt("GATHER_ND").x(&x()).input(I32, &indices).y(&[3, 4]).is(&[&wanted]);
    }

    103 scatter_nd {
        let indices = Nd::new(&[3, 1], &[4.0, 1.0, 4.0]);
        let updates = Nd::noise(&[3, 2], 1);
        let mut wanted = Nd::from(&[5, 2], |_| 0.0);
        for (row, &to) in indices.of.iter().enumerate() {
            (0..2).for_each(|column| wanted.of[to as usize * 2 + column] += updates.at(&[row, column]));
        }
        let run = nnrt("SCATTER_ND").input(I32, &indices).x(&updates);
        run.constant(I32, &list(&[5.0, 2.0])).y(&[5, 2]).is(&[&wanted]);
    }

    88 sparse_to_dense {
        let indices = Nd::new(&[2, 2], &[0.0, 1.0, 2.0, 0.0]);
        let run = |values: &Nd| {
            let run = nnrt("SPARSE_TO_DENSE").input(I32, &indices).x(values);
            run.constant(I32, &list(&[3.0, 2.0])).y(&[3, 2])
        };
        run(&list(&[5.0, 7.0])).is(&[&Nd::new(&[3, 2], &[0.0, 5.0, 0.0, 0.0, 7.0, 0.0])]);
        run(&Nd::scalar(9.0)).is(&[&Nd::new(&[3, 2], &[0.0, 9.0, 0.0, 0.0, 9.0, 0.0])]);
        let run = nnrt("SPARSE_TO_DENSE").input(I64, &list(&[2.0, 0.0])).x(&list(&[5.0, 7.0]));
        run.of_ints(&[4]).y(&[4]).is(&[&list(&[7.0, 0.0, 5.0, 0.0])]);
        let deep = Nd::new(&[1, 1, 1], &[0.0]);
        let run = nnrt("SPARSE_TO_DENSE").input(I64, &deep).x(&list(&[5.0])).of_ints(&[4]).y(&[4]);
        let words = "input 0 is i64[1,1,1], expected at most 2 dimensions";
        assert_eq!(run.error(), format!("SPARSE_TO_DENSE_0: {words}"));
    }

    23 one_hot {
        let indices = list(&[2.0, 0.0, 1.0]);
        let run = || {
            let run = nnrt("ONE_HOT").input(I32, &indices).constant(I32, &Nd::scalar(4.0));
            run.constant(F32, &Nd::scalar(5.0)).constant(F32, &list(&[-1.0]))
        };
        let of = |row: usize, column: usize| if indices.of[row] as usize == column { 5.0 } else { -1.0 };
        run().y(&[3, 4]).is(&[&Nd::from(&[3, 4], |p| of(p[0], p[1]))]);
        run().y(&[4, 3]).int("axis", 0).is(&[&Nd::from(&[4, 3], |p| of(p[1], p[0]))]);
    }

    24 pad {
        let x = Nd::noise(&[3, 4], 1);
        let pads = Nd::new(&[2, 2], &[1.0, 2.0, 0.0, 1.0]);
        let padded = |place: &dyn Fn(isize, isize) -> Option<isize>, value: f64| {
            Nd::from(&[6, 5], |p| {
                let row = place(p[0] as isize - 1, 3);
                let column = place(p[1] as isize, 4);
                row.zip(column).map_or(value, |(row, column)| x.at(&[row as usize, column as usize]))
            })
        };
        let within = |at: isize, len: isize| (0..len).contains(&at).then_some(at);
        let run = || nnrt("PAD").x(&x).constant(I32, &pads).y(&[6, 5]);
        run().is(&[&padded(&within, 0.0)]);
        run().float("constant_value", 2.5).is(&[&padded(&within, 2.5)]);
        let mirrored = |at: isize, len: isize| {
            Some(if at < 0 { -at } else if at >= len { 2 * len - 2 - at } else { at })
        };
        run().text("padding_mode", "reflect").is(&[&padded(&mirrored, 0.0)]);
        let edged = |at: isize, len: isize| {
            Some(if at < 0 { -at - 1 } else if at >= len { 2 * len - 1 - at } else { at })
        };
        run().text("padding_mode", "symmetric").is(&[&padded(&edged, 0.0)]);
        let wide = Nd::new(&[2, 2], &[4.0, 0.0, 0.0, 0.0]);
        let error = nnrt("PAD").x(&x).constant(I32, &wide).y(&[7, 4]).int("padding_mode", 2).error();
        assert_eq!(error, "PAD_0: input 1 pads dimension 0 by 4 and 0, expected 0 to 3");
    }

    29 slice {
        let wanted = from(&x(), &[1, 2, 3], |p| vec![p[0] + 1, p[1], p[2] + 1]);
        let run = |begin: &[f64], size: &[f64]| {
            nnrt("SLICE").x(&x()).constant(I32, &list(begin)).constant(I32, &list(size))
        };
        run(&[1.0, 0.0, 1.0], &[1.0, 2.0, 3.0]).y(&[1, 2, 3]).is(&[&wanted]);
        run(&[1.0, 0.0, 1.0], &[-1.0, 2.0, -1.0]).y(&[1, 2, 3]).is(&[&wanted]);
        let wanted = from(&x(), &[2, 3, 2], |p| vec![p[0], p[1], p[2] + 1]);
        run(&[1.0], &[2.0]).y(&[2, 3, 2]).ints("axes", &[2]).is(&[&wanted]);
    }

    91 crop {
        let x = Nd::noise(&[1, 2, 5, 6], 1);
        let wanted = from(&x, &[1, 2, 3, 2], <[usize]>::to_vec);
        let like = |dims: &[usize]| Nd::from(dims, |_| 0.0);
        nnrt("CROP").x(&x).x(&like(&[1, 2, 3, 2])).y(&[1, 2, 3, 2]).is(&[&wanted]);
        let wanted = from(&x, &[1, 1, 3, 2], |p| vec![0, 1, p[2] + 2, p[3] + 4]);
        let run = nnrt("CROP").x(&x).x(&like(&[1, 1, 3, 2])).y(&[1, 1, 3, 2]);
        run.int("axis", 1).ints("offset", &[1, 2, 4]).is(&[&wanted]);
    }

    37 strided_slice {
        let x = Nd::noise(&[3, 4, 5], 1);
        let run = |begin: &[f64], end: &[f64], step: &[f64], dims: &[usize]| {
            let run = nnrt("STRIDED_SLICE").x(&x).constant(I32, &list(begin));
            run.constant(I32, &list(end)).constant(I32, &list(step)).y(dims)
        };
        let wanted = from(&x, &[2, 2, 3], |p| vec![p[0] + 1, 3 - 2 * p[1], 2 * p[2]]);
        run(&[1.0, 3.0, 0.0], &[3.0, 0.0, 5.0], &[1.0, -2.0, 2.0], &[2, 2, 3]).is(&[&wanted]);
        // x[:, 2::-1, 1] with nothing said of the first begin and the second end.
        let wanted = from(&x, &[2, 3], |p| vec![p[0], 2 - p[1], 1]);
        let case = run(&[7.0, 2.0, 1.0], &[2.0, 7.0, 7.0], &[1.0, -1.0, 1.0], &[2, 3]);
        case.int("begin_mask", 1).int("end_mask", 2).int("shrink_axis_mask", 4).is(&[&wanted]);
        // x[..., newaxis, -2:]
        let wanted = from(&x, &[3, 4, 1, 2], |p| vec![p[0], p[1], p[3] + 3]);
        let case = run(&[0.0, 0.0, -2.0], &[0.0, 0.0, 5.0], &[1.0, 1.0, 1.0], &[3, 4, 1, 2]);
        case.int("ellipsis_mask", 1).int("new_axis_mask", 2).is(&[&wanted]);
        // x[-1]
        let wanted = from(&x, &[4, 5], |p| vec![2, p[0], p[1]]);
        let case = run(&[-1.0], &[0.0], &[1.0], &[4, 5]);
        case.int("shrink_axis_mask", 1).is(&[&wanted]);
        let error = run(&[0.0; 4], &[1.0; 4], &[1.0; 4], &[1, 1, 1]).int("begin_mask", 1).error();
        assert_eq!(error, "STRIDED_SLICE_0: 4 dimensions are sliced, expected at most 3");
        let error = run(&[0.0; 3], &[1.0; 2], &[1.0; 3], &[1, 1, 1]).int("end_mask", 1).error();
        assert_eq!(error, "STRIDED_SLICE_0: 3 begins, 2 ends and 3 strides, expected as many");
    }

    27 shape {
        nnrt("SHAPE").x(&x()).makes(I32, &[3]).is(&[&list(&[2.0, 3.0, 4.0])]);
        nnrt("SHAPE").input(Bool, &Nd::scalar(1.0)).makes(I64, &[0]).is(&[&list(&[])]);
    }

    98 rank {
        nnrt("RANK").x(&x()).makes(I32, &[]).is(&[&Nd::scalar(3.0)]);
        nnrt("RANK").x(&Nd::scalar(1.0)).makes(I64, &[]).is(&[&Nd::scalar(0.0)]);
    }

    66 range {
        let run = || nnrt("RANGE").x(&x());
        run().makes(I32, &[4]).int("limit", 4).is(&[&list(&[0.0, 1.0, 2.0, 3.0])]);
        let case = run().y(&[3]).int("start", 5).int("limit", 0).int("delta", -2);
        case.is(&[&list(&[5.0, 3.0, 1.0])]);
        let numbers = [1.0, 2.0, 0.5].map(Nd::scalar);
        let run = nnrt("RANGE").constant(F32, &numbers[0]).constant(F32, &numbers[1]);
        run.constant(F32, &numbers[2]).y(&[2]).is(&[&list(&[1.0, 1.5])]);
        let error = nnrt("RANGE").x(&x()).makes(I32, &[4]).error();
        assert_eq!(error, "RANGE_0: attribute \"limit\" is missing");
        let error = nnrt("RANGE").x(&x()).x(&x()).y(&[1]).error();
        assert_eq!(error, "RANGE_0: 2 inputs, expected start, limit and delta, or attributes for them");
    }

    68 constant_of_shape {
        let run = || nnrt("CONSTANT_OF_SHAPE").constant(I32, &list(&[2.0, 3.0]));
        run().y(&[2, 3]).is(&[&Nd::from(&[2, 3], |_| 0.0)]);
        let case = run().makes(I64, &[2, 3]).floats("value", &[7.0]).int("data_type", 5);
        case.is(&[&Nd::from(&[2, 3], |_| 7.0)]);
        let error = run().y(&[2, 3]).floats("value", &[7.0, 8.0]).error();
        assert_eq!(error, "CONSTANT_OF_SHAPE_0: attribute \"value\" is [7.0, 8.0], expected one number");
        let error = run().y(&[2, 3]).int("data_type", 5).error();
        let words = "attribute \"data_type\" is 5, expected 11, as its tensor is f32";
        assert_eq!(error, format!("CONSTANT_OF_SHAPE_0: {words}"));
    }
}
