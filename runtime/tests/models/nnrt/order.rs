//! Operations that sort or compare, checks of arguments, and memory.

use udo_api::DType::{Bool, F32, I32, I64};

use super::support::{Nd, near, nnrt, operations};

/// Numbers of which no two are the same.
fn distinct(dims: &[usize]) -> Nd {
    let count = dims.iter().product::<usize>();
    let mut at = 0;
    Nd::from(dims, |_| {
        at += 1;
        ((at * 7) % (count + 1)) as f64 - 5.0
    })
}

/// The greatest numbers of each row and where they are.
fn top(x: &Nd, k: usize) -> [Nd; 2] {
    let [rows, columns] = x.dims[..] else { unreachable!() };
    let order = |row: usize| {
        let mut order: Vec<usize> = (0..columns).collect();
        order.sort_by(|&a, &b| x.at(&[row, b]).total_cmp(&x.at(&[row, a])));
        order
    };
    [
        Nd::from(&[rows, k], |p| x.at(&[p[0], order(p[0])[p[1]]])),
        Nd::from(&[rows, k], |p| order(p[0])[p[1]] as f64),
    ]
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// A run of one direction: the states of all steps, and the last ones.
fn lstm(
    [x, w, r, bias, h, c]: [&Nd; 6],
    direction: usize,
    is_backward: bool,
) -> (Vec<(usize, Nd)>, Nd, Nd) {
    let [steps, batch, inputs] = x.dims[..] else { unreachable!() };
    let hidden = r.dims[2];
    let pick = |of: &Nd| Nd::from(&[batch, hidden], |p| of.at(&[direction, p[0], p[1]]));
    let (mut h, mut c, mut all) = (pick(h), pick(c), Vec::new());
    let mut order: Vec<usize> = (0..steps).collect();
    if is_backward {
        order.reverse();
    }
    for step in order {
        let gate = |gate: usize, b: usize, k: usize| {
            let row = gate * hidden + k;
            let of_x: f64 =
                (0..inputs).map(|i| w.at(&[direction, row, i]) * x.at(&[step, b, i])).sum();
            let of_h: f64 = (0..hidden).map(|i| r.at(&[direction, row, i]) * h.at(&[b, i])).sum();
            let bias = |at: usize| if bias.of.is_empty() { 0.0 } else { bias.at(&[direction, at]) };
            of_x + of_h + bias(row) + bias(4 * hidden + row)
        };
        let next_c = Nd::from(&[batch, hidden], |p| {
            let [i, f, g] = [0, 2, 3].map(|of| gate(of, p[0], p[1]));
            sigmoid(f) * c.at(p) + sigmoid(i) * g.tanh()
        });
        let next_h =
            Nd::from(&[batch, hidden], |p| sigmoid(gate(1, p[0], p[1])) * next_c.at(p).tanh());
        (h, c) = (next_h, next_c);
        all.push((step, h.clone()));
    }
    (all, h, c)
}

operations! {
    53 top_k {
        let x = distinct(&[3, 6]);
        let [values, indices] = top(&x, 2);
        let run = nnrt("TOP_K").x(&x).constant(I32, &Nd::scalar(2.0)).y(&[3, 2]);
        run.makes(I32, &[3, 2]).is(&[&values, &indices]);
        let [values, indices] = top(&x.permuted(&[1, 0]), 2).map(|y| y.permuted(&[1, 0]));
        let run = nnrt("TOP_K").x(&x).of_ints(&[2]).y(&[2, 6]).makes(I64, &[2, 6]);
        let error = || nnrt("TOP_K").x(&x).of_ints(&[9]).y(&[3, 9]).makes(I64, &[3, 9]).error();
        assert!(error().contains("TOP_K_0"), "{}", error());
        drop((values, indices, run));
        let [values, indices] = top(&x.permuted(&[1, 0]), 1).map(|y| y.permuted(&[1, 0]));
        let run = nnrt("TOP_K").x(&x).of_ints(&[1]).y(&[1, 6]).makes(I64, &[1, 6]);
        run.int("axis", 0).int("sorted", 0).is(&[&values, &indices]);
    }

    54 arg_max {
        let x = distinct(&[3, 6]);
        let [values, indices] = top(&x, 2);
        let first = |y: &Nd| Nd::from(&[3], |p| y.at(&[p[0], 0]));
        let run = || nnrt("ARG_MAX").x(&x);
        run().makes(I32, &[3]).is(&[&first(&indices)]);
        let column = first(&indices).reshaped(&[3, 1]);
        run().makes(I64, &[3, 1]).int("keep_dims", 1).is(&[&column]);
        run().y(&[3]).int("out_max_value", 1).is(&[&first(&values)]);
        run().makes(I32, &[3, 2]).int("top_k", 2).is(&[&indices]);
        run().y(&[3, 2]).int("top_k", 2).int("out_max_value", 1).is(&[&values]);
        let [_, indices] = top(&x.permuted(&[1, 0]), 1);
        run().makes(I64, &[6]).int("axis", 0).is(&[&indices.reshaped(&[6])]);
        let error = run().makes(I64, &[3]).int("top_k", 0).error();
        assert_eq!(error, "ARG_MAX_0: attribute \"top_k\" is 0, expected a number above 0");
    }

    78 assert {
        let x = Nd::noise(&[2, 3], 1);
        let holds = Nd::list(&[1.0, 1.0]);
        let run = |of: &Nd| nnrt("ASSERT").input(Bool, of).x(&x).y(&[2, 3]).int("summarize", 1);
        run(&holds).is(&[&x]);
        let error = run(&Nd::list(&[1.0, 0.0])).error();
        assert!(error.contains("ASSERT_0") && error.contains("0 at element 1"), "{error}");
    }

    92 detection_post_process {
        let anchors = Nd::new(&[2, 4], &[0.5, 0.5, 1.0, 1.0, 9.0, 9.0, 2.0, 2.0]);
        let boxes = Nd::from(&[1, 2, 4], |p| if p[2] < 2 { 1.0 } else { 0.0 });
        let scores = Nd::new(&[1, 2, 3], &[0.5, 0.75, 0.25, 0.0, 0.125, 0.875]);
        let run = || {
            let run = nnrt("DETECTION_POST_PROCESS").x(&boxes).x(&scores).constant(F32, &anchors);
            let run = run.floats("scale", &[10.0, 10.0, 5.0, 5.0]).int("num_classes", 2);
            run.float("nms_iou_threshold", 0.5).float("nms_score_threshold", 0.5)
        };
        // The middle of each is moved by a tenth of its anchor's size.
        let wanted_boxes = [[8.2, 8.2, 10.2, 10.2], [0.1, 0.1, 1.1, 1.1]].concat();
        let wanted = [
            Nd::new(&[1, 2, 4], &wanted_boxes),
            Nd::new(&[1, 2], &[1.0, 0.0]),
            Nd::new(&[1, 2], &[0.875, 0.75]),
            Nd::new(&[1], &[2.0]),
        ];
        let wanted = wanted.each_ref();
        let all = || run().y(&[1, 2, 4]).y(&[1, 2]).y(&[1, 2]).y(&[1]).int("max_detections", 2);
        all().is(&wanted);
        all().int("use_regular_nms", 1).int("detections_per_class", 1).is(&wanted);
        let error = all().int("out_quantized", 1).error();
        assert!(error.ends_with("quantize the outputs' tensors instead"), "{error}");
        let made = run().y(&[1, 2, 4]).y(&[1, 2]).y(&[1, 2]).y(&[1]).int("max_detections", 1);
        let made = made.int("max_classes_per_detection", 2).run();
        near(&made[2..], &[&Nd::new(&[1, 2], &[0.875, 0.125]), &Nd::new(&[1], &[2.0])], 1e-6);
    }

    75 lstm_of_a_layer {
        let (steps, batch, inputs, hidden) = (3, 2, 4, 3);
        let x = Nd::noise(&[steps, batch, inputs], 1);
        let parts = |directions: usize| {
            [
                Nd::noise(&[directions, 4 * hidden, inputs], 2),
                Nd::noise(&[directions, 4 * hidden, hidden], 3),
                Nd::noise(&[directions, 8 * hidden], 4),
                Nd::noise(&[directions, batch, hidden], 5),
                Nd::noise(&[directions, batch, hidden], 6),
            ]
        };
        for directions in [1, 2] {
            let [w, r, bias, h, c] = parts(directions);
            let ways: Vec<_> = (0..directions)
                .map(|at| lstm([&x, &w, &r, &bias, &h, &c], at, at == 1))
                .collect();
            let all = Nd::from(&[steps, directions, batch, hidden], |p| {
                let (_, state) = ways[p[1]].0.iter().find(|(step, _)| *step == p[0]).unwrap();
                state.at(&p[2..])
            });
            let last = |of: &dyn Fn(usize) -> Nd| {
                Nd::from(&[directions, batch, hidden], |p| of(p[0]).at(&p[1..]))
            };
            let (hn, cn) = (last(&|at| ways[at].1.clone()), last(&|at| ways[at].2.clone()));
            let run = || {
                let run = nnrt("LSTM").x(&x).constant(F32, &w).constant(F32, &r);
                let run = run.constant(F32, &bias).x(&h).x(&c);
                run.int("bidirectional", directions as i64 - 1).int("hidden_size", hidden as i64)
            };
            let beside = all.permuted(&[0, 2, 1, 3]).reshaped(&[steps, batch, directions * hidden]);
            let states = [directions, batch, hidden];
            let one = run().y(&beside.dims).y(&states).y(&states);
            near(&one.run(), &[&beside, &hn, &cn], 1e-4);
            let four = run().y(&all.dims).y(&states).y(&states).int("num_directions", directions as i64);
            near(&four.run(), &[&all, &hn, &cn], 1e-4);
        }
        let [w, r, bias, h, c] = parts(1);
        let run = || {
            let run = nnrt("LSTM").x(&x).x(&w).x(&r).x(&bias).x(&h).x(&c);
            run.y(&[steps, batch, hidden]).y(&[1, batch, hidden]).y(&[1, batch, hidden])
        };
        let nothing = Nd::new(&[0], &[]);
        let (all, hn, cn) = lstm([&x, &w, &r, &nothing, &h, &c], 0, false);
        let all = Nd::from(&[steps, batch, hidden], |p| all[p[0]].1.at(&p[1..]));
        let (hn, cn) = (hn.reshaped(&[1, batch, hidden]), cn.reshaped(&[1, batch, hidden]));
        near(&run().int("has_bias", 0).run(), &[&all, &hn, &cn], 1e-4);
        for (name, value) in [("num_layers", 2), ("proj_size", 1), ("dropout", 1), ("zoneout_cell", 1)] {
            assert!(run().int(name, value).error().starts_with("LSTM_0: "), "{name}");
        }
        let error = run().int("hidden_size", 7).error();
        assert_eq!(error, "LSTM_0: attribute \"hidden_size\" is 7, expected 3");
        let error = run().int("num_directions", 2).error();
        assert_eq!(error, "LSTM_0: attribute \"num_directions\" is 2, expected 1");
    }
}
