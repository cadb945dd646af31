//! The operators again, in plain Rust.

use udo_reference::{Argument, Arguments, Signature, Value};

use crate::{
    support::reals,
    windows::{conv_transpose2d, conv2d, pad, pool},
};

/// A tensor of real numbers; integers and bools are real numbers here too.
#[derive(Clone, Debug)]
pub(crate) struct T {
    pub(crate) dims: Vec<usize>,
    pub(crate) v: Vec<f64>,
}

pub(crate) struct Call<'a> {
    pub(crate) signature: &'a Signature,
    pub(crate) arguments: &'a Arguments,
}

impl Call<'_> {
    pub(crate) fn has(&self, name: &str) -> bool {
        let at = self.signature.inputs.iter().position(|port| port.name == name).unwrap();
        self.arguments.inputs[at] != Argument::Absent
    }

    fn value(&self, name: &str) -> &Value {
        let at = self.signature.params.iter().position(|param| param.name == name).unwrap();
        let given = self.arguments.params[at].as_ref();
        given.or(self.signature.params[at].default.as_ref()).unwrap()
    }

    /// An input, or a tensor parameter.
    pub(crate) fn t(&self, name: &str) -> T {
        let input = self.signature.inputs.iter().position(|port| port.name == name);
        let tensor = match input.map(|at| &self.arguments.inputs[at]) {
            Some(Argument::Tensor(tensor)) => tensor,
            Some(other) => panic!("{name} is {other:?}"),
            None => match self.value(name) {
                Value::Tensor(tensor) => tensor,
                other => panic!("{name} is {other:?}"),
            },
        };
        T { dims: tensor.dims.clone(), v: reals(tensor) }
    }

    pub(crate) fn i(&self, name: &str) -> i64 {
        let Value::Int(value) = self.value(name) else { panic!("{name}") };
        *value
    }

    pub(crate) fn f(&self, name: &str) -> f64 {
        let Value::Float(value) = self.value(name) else { panic!("{name}") };
        *value
    }

    pub(crate) fn s(&self, name: &str) -> &str {
        let Value::Text(value) = self.value(name) else { panic!("{name}") };
        value
    }

    /// A tensor of integers as a list.
    pub(crate) fn l(&self, name: &str) -> Vec<i64> {
        self.t(name).v.iter().map(|value| *value as i64).collect()
    }
}

impl T {
    pub(crate) fn from_fn(dims: &[usize], f: impl Fn(&[usize]) -> f64) -> Self {
        let len = dims.iter().product();
        let v = (0..len).map(|number| f(&coords(number, dims))).collect();
        Self { dims: dims.to_vec(), v }
    }

    fn map(&self, f: impl Fn(f64) -> f64) -> Vec<Self> {
        vec![Self { dims: self.dims.clone(), v: self.v.iter().map(|x| f(*x)).collect() }]
    }

    pub(crate) fn at(&self, at: &[usize]) -> f64 {
        assert_eq!(at.len(), self.dims.len());
        let mut number = 0;
        for (at, dim) in at.iter().zip(&self.dims) {
            assert!(at < dim);
            number = number * dim + at;
        }
        self.v[number]
    }

    /// The element, or another number outside.
    pub(crate) fn or(&self, at: &[i64], other: f64) -> f64 {
        let inside = at.iter().zip(&self.dims).all(|(at, dim)| *at >= 0 && *at < *dim as i64);
        if inside { self.at(&at.iter().map(|at| *at as usize).collect::<Vec<_>>()) } else { other }
    }

    /// The element of an operand that is broadcast to a larger shape.
    fn broadcast(&self, at: &[usize]) -> f64 {
        let skip = at.len() - self.dims.len();
        let own: Vec<usize> = at[skip..]
            .iter()
            .zip(&self.dims)
            .map(|(at, dim)| if *dim == 1 { 0 } else { *at })
            .collect();
        self.at(&own)
    }
}

pub(crate) fn coords(mut number: usize, dims: &[usize]) -> Vec<usize> {
    let mut at = vec![0; dims.len()];
    for axis in (0..dims.len()).rev() {
        at[axis] = number % dims[axis];
        number /= dims[axis];
    }
    at
}

fn common(shapes: &[&[usize]]) -> Vec<usize> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap();
    let dim = |axis: usize| {
        let each = shapes
            .iter()
            .filter_map(|shape| (axis + shape.len()).checked_sub(rank).map(|axis| shape[axis]));
        each.fold(1, |all, dim| if dim == 1 { all } else { dim })
    };
    (0..rank).map(dim).collect()
}

fn two(call: &Call<'_>, f: impl Fn(f64, f64) -> f64) -> Vec<T> {
    let (a, b) = (call.t("a"), call.t("b"));
    vec![T::from_fn(&common(&[&a.dims, &b.dims]), |at| f(a.broadcast(at), b.broadcast(at)))]
}

fn axis(axis: i64, rank: usize) -> usize {
    if axis < 0 { (axis + rank as i64) as usize } else { axis as usize }
}

/// Folds over axes, all elements of one result at once.
fn fold(x: &T, axes: &[usize], keep: bool, f: impl Fn(&[f64]) -> f64) -> T {
    let kept: Vec<usize> =
        (0..x.dims.len()).map(|a| if axes.contains(&a) { 1 } else { x.dims[a] }).collect();
    let mut y = T::from_fn(&kept, |at| {
        let all = (0..x.v.len()).filter(|number| {
            let of = coords(*number, &x.dims);
            (0..of.len()).all(|a| axes.contains(&a) || of[a] == at[a])
        });
        f(&all.map(|number| x.v[number]).collect::<Vec<_>>())
    });
    if !keep {
        y.dims = (0..x.dims.len()).filter(|a| !axes.contains(a)).map(|a| x.dims[a]).collect();
    }
    y
}

fn reduce(call: &Call<'_>, f: impl Fn(&[f64]) -> f64) -> Vec<T> {
    let x = call.t("x");
    let axes: Vec<usize> = call.l("axes").iter().map(|a| axis(*a, x.dims.len())).collect();
    vec![fold(&x, &axes, call.i("keepdims") != 0, f)]
}

pub(crate) fn sum(x: &[f64]) -> f64 {
    x.iter().sum()
}

fn mean(x: &[f64]) -> f64 {
    sum(x) / x.len() as f64
}

pub(crate) fn largest(x: &[f64]) -> f64 {
    x.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// Each element less the mean of its group, by the group's deviation.
fn normalized(x: &T, axes: &[usize], epsilon: f64) -> T {
    let m = fold(x, axes, true, mean);
    let v =
        fold(x, axes, true, |x| mean(&x.iter().map(|a| (a - mean(x)).powi(2)).collect::<Vec<_>>()));
    T::from_fn(&x.dims, |at| (x.at(at) - m.broadcast(at)) / (v.broadcast(at) + epsilon).sqrt())
}

/// Gauss's formula over fifty pieces.
fn erf(x: f64) -> f64 {
    let nodes = [
        (0.0, 0.568_888_888_888_888_9),
        (0.538_469_310_105_683_1, 0.478_628_670_499_366_5),
        (0.906_179_845_938_664, 0.236_926_885_056_189_1),
    ];
    let half = x / 100.0;
    let piece = |k: i32| {
        let middle = f64::from(2 * k + 1) * half;
        let value = |t: f64| (-t * t).exp();
        let pair = |(node, weight): (f64, f64)| {
            let both = value(middle - node * half) + value(middle + node * half);
            weight * if node == 0.0 { both / 2.0 } else { both }
        };
        half * nodes.map(pair).iter().sum::<f64>()
    };
    (0..50).map(piece).sum::<f64>() * std::f64::consts::FRAC_2_SQRT_PI
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x / 2.0_f64.sqrt()))
}

fn shares(x: &T, along: usize) -> T {
    let top = fold(x, &[along], true, largest);
    let e = T::from_fn(&x.dims, |at| (x.at(at) - top.broadcast(at)).exp());
    let total = fold(&e, &[along], true, sum);
    T::from_fn(&x.dims, |at| e.at(at) / total.broadcast(at))
}

type Naive = fn(&Call<'_>) -> Vec<T>;

pub(crate) const NAIVE: &[(&str, Naive)] = &[
    ("relu", |c| c.t("x").map(|x| if x > 0.0 { x } else { 0.0 })),
    ("leaky_relu", |c| c.t("x").map(|x| if x < 0.0 { x * c.f("alpha") } else { x })),
    ("selu", |c| {
        c.t("x").map(|x| c.f("gamma") * if x > 0.0 { x } else { c.f("alpha") * (x.exp() - 1.0) })
    }),
    ("elu", |c| c.t("x").map(|x| if x > 0.0 { x } else { c.f("alpha") * (x.exp() - 1.0) })),
    ("gelu_erf", |c| c.t("x").map(gelu)),
    ("gelu_tanh", |c| {
        c.t("x").map(|x| {
            0.5 * x
                * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
        })
    }),
    ("hard_sigmoid", |c| c.t("x").map(|x| (x * c.f("alpha") + c.f("beta")).clamp(0.0, 1.0))),
    ("hard_swish", |c| c.t("x").map(|x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0))),
    ("mish", |c| c.t("x").map(|x| x * (1.0 + x.exp()).ln().tanh())),
    ("softplus", |c| c.t("x").map(|x| (1.0 + x.exp()).ln())),
    ("softsign", |c| c.t("x").map(|x| x / (1.0 + x.abs()))),
    ("sigmoid", |c| c.t("x").map(|x| x.exp() / (1.0 + x.exp()))),
    ("swish", |c| c.t("x").map(|x| x * x.exp() / (1.0 + x.exp()))),
    ("tanh", |c| c.t("x").map(f64::tanh)),
    ("thresholded_relu", |c| c.t("x").map(|x| if x > c.f("alpha") { x } else { 0.0 })),
    ("round", |c| c.t("x").map(f64::round_ties_even)),
    ("clip", |c| {
        let limit = |name: &str, other: f64| if c.has(name) { c.t(name).v[0] } else { other };
        c.t("x").map(|x| x.max(limit("low", f64::NEG_INFINITY)).min(limit("high", f64::INFINITY)))
    }),
    ("add", |c| two(c, |a, b| a + b)),
    ("sub", |c| two(c, |a, b| a - b)),
    ("mul", |c| two(c, |a, b| a * b)),
    ("div", |c| two(c, |a, b| a / b)),
    ("pow", |c| two(c, f64::powf)),
    ("min", |c| two(c, f64::min)),
    ("max", |c| two(c, f64::max)),
    ("equal", |c| two(c, |a, b| f64::from(u8::from(a == b)))),
    ("and", |c| two(c, |a, b| a * b)),
    ("not", |c| c.t("x").map(|x| 1.0 - x)),
    ("where", |c| {
        let (k, a, b) = (c.t("c"), c.t("a"), c.t("b"));
        let dims = common(&[&k.dims, &a.dims, &b.dims]);
        vec![T::from_fn(&dims, |at| {
            if k.broadcast(at) == 0.0 { b.broadcast(at) } else { a.broadcast(at) }
        })]
    }),
    ("cast", |c| c.t("x").map(f64::trunc)),
    ("softmax", |c| vec![shares(&c.t("x"), axis(c.i("axis"), 3))]),
    ("log_softmax", |c| shares(&c.t("x"), axis(c.i("axis"), 3)).map(f64::ln)),
    ("reduce_sum", |c| reduce(c, sum)),
    ("reduce_mean", |c| reduce(c, mean)),
    ("reduce_max", |c| reduce(c, largest)),
    ("reduce_l2", |c| reduce(c, |x| x.iter().map(|x| x * x).sum::<f64>().sqrt())),
    ("reduce_prod", |c| reduce(c, |x| x.iter().product())),
    ("reduce_log_sum_exp", |c| reduce(c, |x| x.iter().map(|x| x.exp()).sum::<f64>().ln())),
    ("argmax", |c| {
        let x = c.t("x");
        let along = axis(c.i("axis"), x.dims.len());
        let place = |x: &[f64]| x.iter().position(|v| *v == largest(x)).unwrap() as f64;
        vec![fold(&x, &[along], c.i("keepdims") != 0, place)]
    }),
    ("layer_norm", |c| {
        let (x, scale, bias) = (c.t("x"), c.t("scale"), c.t("bias"));
        let axes: Vec<usize> = (axis(c.i("axis"), 3)..3).collect();
        let n = normalized(&x, &axes, c.f("epsilon"));
        vec![T::from_fn(&x.dims, |at| n.at(at) * scale.broadcast(at) + bias.broadcast(at))]
    }),
    ("rms_norm", |c| {
        let (x, scale) = (c.t("x"), c.t("scale"));
        let m = fold(&x, &[2], true, |x| x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64);
        vec![T::from_fn(&x.dims, |at| {
            x.at(at) / (m.broadcast(at) + c.f("epsilon")).sqrt() * scale.broadcast(at)
        })]
    }),
    ("batch_norm", |c| {
        let (x, s, b, m, v) = (c.t("x"), c.t("scale"), c.t("bias"), c.t("mean"), c.t("variance"));
        let of = |at: &[usize]| {
            (x.at(at) - m.v[at[1]]) / (v.v[at[1]] + c.f("epsilon")).sqrt() * s.v[at[1]] + b.v[at[1]]
        };
        vec![T::from_fn(&x.dims, of)]
    }),
    ("instance_norm", |c| {
        let (x, s, b) = (c.t("x"), c.t("scale"), c.t("bias"));
        let n = normalized(&x, &[2, 3], c.f("epsilon"));
        vec![T::from_fn(&x.dims, |at| n.at(at) * s.v[at[1]] + b.v[at[1]])]
    }),
    ("matmul", |c| {
        let (a, b) = (c.t("a"), c.t("b"));
        let cut = |t: &T| t.dims[..t.dims.len() - 2].to_vec();
        let (m, k, n) =
            (a.dims[a.dims.len() - 2], b.dims[b.dims.len() - 2], b.dims[b.dims.len() - 1]);
        let mut dims = common(&[&cut(&a), &cut(&b)]);
        let lead = dims.len();
        dims.extend([m, n]);
        let read = |t: &T, outer: &[usize], row: usize, col: usize| {
            let own = cut(t);
            let skip = outer.len() - own.len();
            let mut at: Vec<usize> = outer[skip..]
                .iter()
                .zip(&own)
                .map(|(at, dim)| if *dim == 1 { 0 } else { *at })
                .collect();
            at.extend([row, col]);
            t.at(&at)
        };
        vec![T::from_fn(&dims, |at| {
            let (outer, row, col) = (&at[..lead], at[lead], at[lead + 1]);
            (0..k).map(|k| read(&a, outer, row, k) * read(&b, outer, k, col)).sum()
        })]
    }),
    ("gemm", |c| {
        let flip = |t: T| T::from_fn(&[t.dims[1], t.dims[0]], |at| t.at(&[at[1], at[0]]));
        let a = if c.i("trans_a") != 0 { flip(c.t("a")) } else { c.t("a") };
        let b = if c.i("trans_b") != 0 { flip(c.t("b")) } else { c.t("b") };
        vec![T::from_fn(&[a.dims[0], b.dims[1]], |at| {
            let dot: f64 = (0..a.dims[1]).map(|k| a.at(&[at[0], k]) * b.at(&[k, at[1]])).sum();
            c.f("alpha") * dot + if c.has("c") { c.f("beta") * c.t("c").broadcast(at) } else { 0.0 }
        })]
    }),
    ("conv2d", conv2d),
    ("depthwise_conv2d", |c| {
        let (x, w, pad) = (c.t("x"), c.t("w"), c.i("pad"));
        vec![T::from_fn(&x.dims, |at| {
            let mut sum = 0.0;
            for u in 0..3 {
                for v in 0..3 {
                    let place =
                        [0, at[1] as i64, (at[2] + u) as i64 - pad, (at[3] + v) as i64 - pad];
                    sum += x.or(&place, 0.0) * w.at(&[at[1], 0, u, v]);
                }
            }
            sum
        })]
    }),
    ("conv_transpose2d", conv_transpose2d),
    ("max_pool2d", |c| pool(c, f64::NEG_INFINITY, |window, _| largest(window))),
    ("average_pool2d", |c| {
        let all = c.i("include_pad") != 0;
        pool(c, 0.0, move |window, inside| {
            sum(window) / if all { window.len() } else { inside } as f64
        })
    }),
    ("global_average_pool", |c| {
        let x = c.t("x");
        vec![fold(&x, &(2..x.dims.len()).collect::<Vec<_>>(), true, mean)]
    }),
    ("resize_nearest", |c| {
        let (x, sizes) = (c.t("x"), c.l("sizes"));
        let dims = [x.dims[0], x.dims[1], sizes[0] as usize, sizes[1] as usize];
        let scale = |at: usize, axis: usize| {
            (at as f64 * x.dims[axis] as f64 / dims[axis] as f64 + 1e-9) as usize
        };
        vec![T::from_fn(&dims, |at| x.at(&[at[0], at[1], scale(at[2], 2), scale(at[3], 3)]))]
    }),
    ("resize_linear", |c| {
        let (x, sizes) = (c.t("x"), c.l("sizes"));
        let dims = [x.dims[0], x.dims[1], sizes[0] as usize, sizes[1] as usize];
        // A tent over each pixel of the source.
        let weight = |to: usize, from: usize, axis: usize| {
            let place = ((to as f64 + 0.5) * x.dims[axis] as f64 / dims[axis] as f64 - 0.5)
                .clamp(0.0, (x.dims[axis] - 1) as f64);
            (1.0 - (place - from as f64).abs()).max(0.0)
        };
        vec![T::from_fn(&dims, |at| {
            let mut sum = 0.0;
            for p in 0..x.dims[2] {
                for q in 0..x.dims[3] {
                    sum += weight(at[2], p, 2) * weight(at[3], q, 3) * x.at(&[at[0], at[1], p, q]);
                }
            }
            sum
        })]
    }),
    ("pad", pad),
    ("slice", |c| {
        let (x, starts, ends, steps) = (c.t("x"), c.l("starts"), c.l("ends"), c.l("steps"));
        let places: Vec<Vec<usize>> = (0..x.dims.len())
            .map(|a| {
                let dim = x.dims[a] as i64;
                let place = |at: i64| if at < 0 { at + dim } else { at }.clamp(0, dim) as usize;
                (place(starts[a])..place(ends[a])).step_by(steps[a] as usize).collect()
            })
            .collect();
        let dims: Vec<usize> = places.iter().map(Vec::len).collect();
        vec![T::from_fn(&dims, |at| {
            x.at(&at.iter().zip(&places).map(|(at, of)| of[*at]).collect::<Vec<_>>())
        })]
    }),
    ("gather", |c| {
        let (x, indices) = (c.t("x"), c.t("indices"));
        let along = axis(c.i("axis"), x.dims.len());
        let dims = [&x.dims[..along], &indices.dims[..], &x.dims[along + 1..]].concat();
        vec![T::from_fn(&dims, |at| {
            let end = along + indices.dims.len();
            let index = axis(indices.at(&at[along..end]) as i64, x.dims[along]);
            x.at(&[&at[..along], &[index], &at[end..]].concat())
        })]
    }),
    ("gather_elements", |c| {
        let (x, indices) = (c.t("x"), c.t("indices"));
        let along = axis(c.i("axis"), x.dims.len());
        vec![T::from_fn(&indices.dims, |at| {
            let mut place = at.to_vec();
            place[along] = indices.at(at) as usize;
            x.at(&place)
        })]
    }),
    ("scatter_elements", |c| {
        let (mut x, indices, updates) = (c.t("x"), c.t("indices"), c.t("updates"));
        let along = axis(c.i("axis"), x.dims.len());
        for number in 0..indices.v.len() {
            let mut place = coords(number, &indices.dims);
            place[along] = indices.v[number] as usize;
            let to = place.iter().zip(&x.dims).fold(0, |all, (at, dim)| all * dim + at);
            x.v[to] = updates.v[number];
        }
        vec![x]
    }),
    ("transpose", |c| {
        let (x, perm) = (c.t("x"), c.l("perm"));
        let dims: Vec<usize> = perm.iter().map(|a| x.dims[*a as usize]).collect();
        vec![T::from_fn(&dims, |at| {
            let mut place = vec![0; at.len()];
            for (k, a) in perm.iter().enumerate() {
                place[*a as usize] = at[k];
            }
            x.at(&place)
        })]
    }),
    ("concat", |c| {
        let all = [c.t("a"), c.t("b"), c.t("c")];
        let along = axis(c.i("axis"), 2);
        let mut dims = all[0].dims.clone();
        dims[along] = all.iter().map(|t| t.dims[along]).sum();
        vec![T::from_fn(&dims, |at| {
            let mut place = at.to_vec();
            let mut of = 0;
            while place[along] >= all[of].dims[along] {
                place[along] -= all[of].dims[along];
                of += 1;
            }
            all[of].at(&place)
        })]
    }),
    ("tile", |c| {
        let (x, repeats) = (c.t("x"), c.l("repeats"));
        let dims: Vec<usize> =
            x.dims.iter().zip(&repeats).map(|(dim, times)| dim * *times as usize).collect();
        vec![T::from_fn(&dims, |at| {
            x.at(&at.iter().zip(&x.dims).map(|(at, dim)| at % dim).collect::<Vec<_>>())
        })]
    }),
    ("expand", |c| {
        let (x, shape) = (c.t("x"), c.l("shape"));
        let shape: Vec<usize> = shape.iter().map(|dim| *dim as usize).collect();
        vec![T::from_fn(&common(&[&x.dims, &shape]), |at| x.broadcast(at))]
    }),
    ("depth_to_space", |c| {
        let (x, s) = (c.t("x"), c.i("block") as usize);
        let channels = x.dims[1] / s / s;
        let dims = [x.dims[0], channels, x.dims[2] * s, x.dims[3] * s];
        let mut y = T::from_fn(&dims, |_| 0.0);
        for number in 0..x.v.len() {
            let at = coords(number, &x.dims);
            let (block, channel) = (at[1] / channels, at[1] % channels);
            let to = [at[0], channel, at[2] * s + block / s, at[3] * s + block % s];
            let to = to.iter().zip(&dims).fold(0, |all, (at, dim)| all * dim + at);
            y.v[to] = x.v[number];
        }
        vec![y]
    }),
    ("cum_sum", |c| {
        let x = c.t("x");
        let along = c.i("axis") as usize;
        vec![T::from_fn(&x.dims, |at| {
            let mut sum = 0.0;
            for p in 0..x.dims[along] {
                let (before, itself) = if c.i("reverse") != 0 {
                    (p > at[along], p == at[along])
                } else {
                    (p < at[along], p == at[along])
                };
                if before || itself && c.i("exclusive") == 0 {
                    let mut place = at.to_vec();
                    place[along] = p;
                    sum += x.at(&place);
                }
            }
            sum
        })]
    }),
    ("compress", |c| {
        let (x, condition) = (c.t("x"), c.t("condition"));
        let along = axis(c.i("axis"), x.dims.len());
        let kept: Vec<usize> =
            (0..condition.v.len()).filter(|at| condition.v[*at] != 0.0).collect();
        let mut dims = x.dims.clone();
        dims[along] = kept.len();
        vec![T::from_fn(&dims, |at| {
            let mut place = at.to_vec();
            place[along] = kept[at[along]];
            x.at(&place)
        })]
    }),
    ("one_hot", |c| {
        let indices = c.t("indices");
        let dims = [&indices.dims[..], &[c.i("depth") as usize]].concat();
        vec![T::from_fn(&dims, |at| {
            let (depth, place) = at.split_last().unwrap();
            if indices.at(place) == *depth as f64 { c.f("on") } else { c.f("off") }
        })]
    }),
    ("grid_sample", |c| {
        let (x, grid) = (c.t("x"), c.t("grid"));
        let dims = [x.dims[0], x.dims[1], grid.dims[1], grid.dims[2]];
        vec![T::from_fn(&dims, |at| {
            let place = |k: usize, dim: usize| {
                ((grid.at(&[at[0], at[2], at[3], k]) + 1.0) * dim as f64 - 1.0) / 2.0
            };
            let (u, v) = (place(0, x.dims[3]), place(1, x.dims[2]));
            let mut sum = 0.0;
            for p in 0..x.dims[2] {
                for q in 0..x.dims[3] {
                    let weight = (1.0 - (v - p as f64).abs()).max(0.0)
                        * (1.0 - (u - q as f64).abs()).max(0.0);
                    sum += weight * x.at(&[at[0], at[1], p, q]);
                }
            }
            sum
        })]
    }),
    ("geglu", |c| {
        let x = c.t("x");
        let half = x.dims[2] / 2;
        vec![T::from_fn(&[x.dims[0], x.dims[1], half], |at| {
            x.at(at) * gelu(x.at(&[at[0], at[1], at[2] + half]))
        })]
    }),
    ("box_iou", |c| {
        let (a, b) = (c.t("a"), c.t("b"));
        let side = |p: [f64; 2], q: [f64; 2]| (p[1].min(q[1]) - p[0].max(q[0])).max(0.0);
        vec![T::from_fn(&[a.dims[0], b.dims[0]], |at| {
            let (p, q) = (|k| a.at(&[at[0], k]), |k| b.at(&[at[1], k]));
            let both = side([p(0), p(2)], [q(0), q(2)]) * side([p(1), p(3)], [q(1), q(3)]);
            both / ((p(2) - p(0)) * (p(3) - p(1)) + (q(2) - q(0)) * (q(3) - q(1)) - both)
        })]
    }),
    ("quantize_linear", |c| {
        c.t("x").map(|x| {
            ((x / c.f("scale")).round_ties_even() + c.i("zero_point") as f64).clamp(0.0, 255.0)
        })
    }),
    ("dequantize_linear", |c| {
        let (x, scale, zero) = (c.t("x"), c.t("scale"), c.t("zero_point"));
        vec![T::from_fn(&x.dims, |at| (x.at(at) - zero.v[at[1]]) * scale.v[at[1]])]
    }),
    ("attention", |c| {
        let (q, k, v) = (c.t("q"), c.t("k"), c.t("v"));
        let r = q.dims.len();
        let (lead, m, d, n) =
            (q.dims[..r - 2].to_vec(), q.dims[r - 2], q.dims[r - 1], k.dims[r - 2]);
        let row = |at: &[usize], i: usize, d: usize| [at, &[i, d]].concat();
        let logits = T::from_fn(&[&lead[..], &[m, n]].concat(), |at| {
            let (b, i, j) = (&at[..r - 2], at[r - 2], at[r - 1]);
            let dot: f64 = (0..d).map(|d| q.at(&row(b, i, d)) * k.at(&row(b, j, d))).sum();
            dot / (d as f64).sqrt() + if c.has("mask") { c.t("mask").at(&[i, j]) } else { 0.0 }
        });
        let p = shares(&logits, r - 1);
        vec![T::from_fn(&[&lead[..], &[m, v.dims[r - 1]]].concat(), |at| {
            let (b, i, e) = (&at[..r - 2], at[r - 2], at[r - 1]);
            (0..n).map(|j| p.at(&row(b, i, j)) * v.at(&row(b, j, e))).sum()
        })]
    }),
];
