//! A causal depthwise convolution over a sequence. The state holds the last elements of the previous call and is
//! updated for the next one.

use udo_api::{
    Core, Dim, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Node, Op, OpSchema,
    Param, Port, Shape, Value, input, input_like, output_like, types,
};
use udo_simd::{Map1, Simd, map1_in_place, map2_in_place};

use crate::Def;
use crate::family::partition::row_grain;
use crate::family::special::{PlusWeighed, swish_lanes};

pub(crate) const DEF: Def = Def::new::<CausalConv>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Rows>("CausalConvWithState", Core::CPU).ports(&[
    input(0, types::F32),
    input_like(1, 0),
    input_like(2, 0),
    input_like(3, 0),
    output_like(0, 0),
    output_like(1, 0),
])];

const X: usize = 0;
const WEIGHT: usize = 1;
const BIAS: usize = 2;
const PAST: usize = 3;
const PRESENT: usize = 1;

struct CausalConv;

impl Op for CausalConv {
    const SCHEMA: OpSchema = OpSchema::new(
        "CausalConvWithState",
        &[
            Port::required("input", types::F32),
            Port::required("weight", types::F32),
            Port::optional("bias", types::F32),
            Port::optional("past_state", types::F32),
        ],
        &[Port::required("output", types::F32), Port::optional("present_state", types::F32)],
        &[Param::text("activation").default(Value::text("none"))],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(X)?;
        let Row { past, .. } = Row::read(cx)?;
        let dims: Vec<Dim> = x.full_shape().iter().take(2).chain([Dim::Fixed(past)]).collect();
        cx.set_output(0, x)?;
        if cx.output_count() > PRESENT {
            cx.set_output(PRESENT, x.with_shape(Shape::of_dims(&dims)?))?;
        }
        Ok(())
    }
}

/// One channel of an input.
#[derive(Clone, Copy, Debug)]
struct Row {
    channels: usize,
    length: usize,
    /// Elements before the first one: the kernel length less 1.
    past: usize,
    has_swish: bool,
}

impl Row {
    fn read(node: &Node<'_>) -> Result<Self, Error> {
        let (x, weight) = (node.input(X)?, node.input(WEIGHT)?);
        let &[batch, channels, length] = x.shape() else {
            return Err(Error::new(format!("input {X} is {x}, expected rank 3")));
        };
        let past = match *weight.shape() {
            [own, 1, len] if own == channels => len.checked_sub(1),
            _ => None,
        };
        let past = past.ok_or_else(|| {
            let expected = format!("expected [{channels},1,1 or more]");
            Error::new(format!("input {WEIGHT} is {weight}, {expected}"))
        })?;
        for (port, expected) in [(BIAS, &[channels][..]), (PAST, &[batch, channels, past])] {
            if node.has_input(port) && node.input(port)?.shape() != expected {
                let found = node.input(port)?;
                return Err(Error::new(format!("input {port} is {found}, expected {expected:?}")));
            }
        }
        let has_swish = match node.text("activation")? {
            "none" => false,
            "silu" | "swish" => true,
            other => {
                let expected = "expected \"none\", \"silu\" or \"swish\"";
                return Err(Error::new(format!(
                    "parameter \"activation\" is {other:?}, {expected}"
                )));
            }
        };
        Ok(Self { channels, length, past, has_swish })
    }

    /// Convolves one channel: tap by tap, each over the whole row, which vectorizes for any kernel length.
    fn convolve(&self, x: &[f32], past: &[f32], weight: &[f32], y: &mut [f32]) {
        for (tap, &weight) in weight.iter().enumerate() {
            let before = (self.past - tap).min(x.len());
            let (early, late) = y.split_at_mut(before);
            if !past.is_empty() {
                map2_in_place(PlusWeighed(weight), early, &past[tap..][..before]);
            }
            map2_in_place(PlusWeighed(weight), late, &x[..x.len() - before]);
        }
        if self.has_swish {
            map1_in_place(Swish, y);
        }
    }

    /// Copies the last elements of `past` followed by `x`.
    fn keep_last(&self, x: &[f32], past: &[f32], y: &mut [f32]) {
        let new = self.past.min(x.len());
        let (old, to) = y.split_at_mut(self.past - new);
        if past.is_empty() {
            old.fill(0.0);
        } else {
            old.copy_from_slice(&past[new..]);
        }
        to.copy_from_slice(&x[x.len() - new..]);
    }
}

#[derive(Clone, Copy)]
struct Swish;

#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
impl Map1 for Swish {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F) -> S::F {
        swish_lanes(s, x, 1.0)
    }
}

struct Rows(Row);

impl Kernel for Rows {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Row::read(cx).map(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let Self(row) = self;
        let &Row { channels, length, past: before, .. } = row;
        let (x, weight) = (inputs.get::<f32>(X)?, inputs.get::<f32>(WEIGHT)?);
        let optional = |port| if inputs.has(port) { inputs.get::<f32>(port) } else { Ok(&[][..]) };
        let (bias, past) = (optional(BIAS)?, optional(PAST)?);
        // An absent state stands for zeros.
        let past_of = |at: usize| past.get(at * before..(at + 1) * before).unwrap_or(&[]);
        let grain = row_grain(length);
        parallel.chunks_mut(outputs.take::<f32>(0)?, grain, |chunk, y| {
            for (at, y) in y.chunks_exact_mut(length).enumerate() {
                let at = chunk * (grain / length) + at;
                let channel = at % channels;
                y.fill(bias.get(channel).copied().unwrap_or(0.0));
                let weight = &weight[channel * (before + 1)..][..=before];
                row.convolve(&x[at * length..][..length], past_of(at), weight, y);
            }
            Ok(())
        })?;
        if before == 0 || !outputs.has(PRESENT) {
            return Ok(());
        }
        let present = outputs.take::<f32>(PRESENT)?;
        for (at, present) in present.chunks_exact_mut(before).enumerate() {
            row.keep_last(&x[at * length..][..length], past_of(at), present);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::family::numerics::settled_on_any_threads;
    use crate::testing::{Bench, assert_near, bench, noise, tensor};

    /// Batch, channels, length and kernel length; whether a bias and a past state are given.
    const CASES: &[([usize; 4], bool, bool)] = &[
        ([2, 3, 8, 4], false, false),
        ([2, 3, 8, 4], true, true),
        ([1, 2, 1, 4], true, true),
        ([1, 2, 2, 5], false, true),
        ([3, 1, 2, 5], true, false),
        ([2, 2, 6, 1], true, true),
        ([1, 1, 1, 1], false, false),
        ([1, 2, 0, 3], false, true),
        ([2, 70, 533, 4], true, true),
    ];

    fn numbers(&([b, c, l, k], ..): &([usize; 4], bool, bool)) -> [Vec<f32>; 4] {
        let mut skipped = 0;
        [b * c * l, c * k, c, b * c * (k - 1)].map(|len| {
            skipped += 1;
            noise(len + skipped).split_off(skipped)
        })
    }

    fn bench_with(case: &([usize; 4], bool, bool), activation: &str) -> Bench {
        let &([b, c, l, k], has_bias, has_past) = case;
        let [x, weight, bias, past] = numbers(case);
        let run = bench("CausalConvWithState").input(tensor(&[b, c, l], &x));
        let run = run.input(tensor(&[c, 1, k], &weight));
        let run = if has_bias { run.input(tensor(&[c], &bias)) } else { run.absent() };
        let run = if has_past { run.input(tensor(&[b, c, k - 1], &past)) } else { run };
        run.text("activation", activation)
    }

    /// The expected output and state.
    fn expected(case: &([usize; 4], bool, bool), has_swish: bool) -> [Vec<f64>; 2] {
        let &([b, c, l, k], has_bias, has_past) = case;
        let [x, weight, bias, past] = numbers(case);
        let (mut y, mut present) = (Vec::new(), Vec::new());
        for row in 0..b * c {
            let mut all = vec![0f32; k - 1];
            if has_past {
                all.copy_from_slice(&past[row * (k - 1)..][..k - 1]);
            }
            all.extend(&x[row * l..][..l]);
            let channel = row % c;
            for at in 0..l {
                let terms = all[at..].iter().zip(&weight[channel * k..][..k]);
                let sum: f64 = terms.map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
                let sum = sum + if has_bias { f64::from(bias[channel]) } else { 0.0 };
                y.push(if has_swish { sum / (1.0 + (-sum).exp()) } else { sum });
            }
            present.extend(all[all.len() + 1 - k..].iter().map(|x| f64::from(*x)));
        }
        [y, present]
    }

    #[test]
    fn channels_are_convolved_with_what_came_before() {
        for case in CASES {
            for activation in ["none", "silu", "swish"] {
                println!("{case:?} {activation}");
                let [y, present] = expected(case, activation != "none");
                let run = bench_with(case, activation);
                let alone = settled_on_any_threads(&run);
                assert_near(&alone.values::<f32>(), &y, 1e-6);
                let both = run.outputs(2).all();
                assert_eq!(both[0].bytes(), alone.bytes());
                assert_near(&both[1].values::<f32>(), &present, 0.0);
            }
        }
    }

    #[test]
    fn pieces_of_a_sequence_match_the_whole() {
        let (x, weight) = (noise(12), noise(4));
        let run = |x: &[f32], past: Option<&[f32]>| {
            let run = bench("CausalConvWithState").input(tensor(&[1, 1, x.len()], x));
            let run = run.input(tensor(&[1, 1, 4], &weight)).absent();
            let run = past.into_iter().fold(run, |run, past| run.input(tensor(&[1, 1, 3], past)));
            let all = run.outputs(2).all();
            (all[0].values::<f32>(), all[1].values::<f32>())
        };
        let whole = run(&x, None);
        for cut in [1, 2, 3, 7, 11] {
            let (mut y, state) = run(&x[..cut], None);
            let (rest, last) = run(&x[cut..], Some(&state));
            y.extend(rest);
            assert_eq!((y, last), whole, "cut at {cut}");
        }
    }

    #[test]
    fn mismatched_inputs_are_refused() {
        let zeros = |dims: &[usize]| tensor(dims, &vec![0f32; dims.iter().product()]);
        let run = |x: &[usize], weight: &[usize]| {
            bench("CausalConvWithState").input(zeros(x)).input(zeros(weight))
        };
        assert_eq!(run(&[2, 3], &[3, 1, 2]).error(), "input 0 is f32[2,3], expected rank 3");
        let error = run(&[1, 3, 4], &[3, 2, 2]).error();
        assert_eq!(error, "input 1 is f32[3,2,2], expected [3,1,1 or more]");
        let error = run(&[1, 3, 4], &[3, 1, 0]).error();
        assert_eq!(error, "input 1 is f32[3,1,0], expected [3,1,1 or more]");
        let fits = || run(&[1, 3, 4], &[3, 1, 2]);
        assert_eq!(fits().input(zeros(&[2])).error(), "input 2 is f32[2], expected [3]");
        let error = fits().absent().input(zeros(&[1, 3, 2])).error();
        assert_eq!(error, "input 3 is f32[1,3,2], expected [1, 3, 1]");
        assert_eq!(
            fits().text("activation", "relu").error(),
            "parameter \"activation\" is \"relu\", expected \"none\", \"silu\" or \"swish\""
        );
    }
}
