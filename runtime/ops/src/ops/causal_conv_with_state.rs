//! A causal depthwise convolution over a sequence: each output depends on the element at its position and those before
//! it. The state holds the last elements of the previous call and is updated for the next one.

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
        let Row { past_len, .. } = Row::read(cx)?;
        let dims: Vec<Dim> = x.full_shape().iter().take(2).chain([Dim::Fixed(past_len)]).collect();
        cx.set_output(0, x)?;
        if cx.output_count() > PRESENT {
            cx.set_output(PRESENT, x.with_shape(Shape::from_dims(&dims)?))?;
        }
        Ok(())
    }
}

/// The extents and parameters that the convolution of a row, one channel of a sequence, needs.
#[derive(Clone, Copy, Debug)]
struct Row {
    channels: usize,
    length: usize,
    /// Elements of the state: the kernel length minus 1.
    past_len: usize,
    has_swish: bool,
}

impl Row {
    fn read(node: &Node<'_>) -> Result<Self, Error> {
        let (x, weight) = (node.input(X)?, node.input(WEIGHT)?);
        let &[batch, channels, length] = x.shape() else {
            return Err(Error::new(format!("input {X} is {x}, expected rank 3")));
        };
        let past_len = match *weight.shape() {
            [weight_channels, 1, len] if weight_channels == channels => len.checked_sub(1),
            _ => None,
        };
        let past_len = past_len.ok_or_else(|| {
            let expected = format!("expected [{channels},1,1 or more]");
            Error::new(format!("input {WEIGHT} is {weight}, {expected}"))
        })?;
        for (port, expected) in [(BIAS, &[channels][..]), (PAST, &[batch, channels, past_len])] {
            if node.has_input(port) && node.input(port)?.shape() != expected {
                let input = node.input(port)?;
                return Err(Error::new(format!("input {port} is {input}, expected {expected:?}")));
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
        Ok(Self { channels, length, past_len, has_swish })
    }

    /// Adds the convolution of one row to `y`. Each tap is added for the whole row, which vectorizes for any kernel
    /// length.
    fn convolve(&self, x: &[f32], past: &[f32], weight: &[f32], y: &mut [f32]) {
        for (tap, &weight) in weight.iter().enumerate() {
            // The first outputs read the state at this tap, the others the row.
            let from_past = (self.past_len - tap).min(x.len());
            let (early, late) = y.split_at_mut(from_past);
            if !past.is_empty() {
                map2_in_place(PlusWeighed(weight), early, &past[tap..][..from_past]);
            }
            map2_in_place(PlusWeighed(weight), late, &x[..x.len() - from_past]);
        }
        if self.has_swish {
            map1_in_place(Swish, y);
        }
    }

    /// Copies the last elements of `past` followed by `x`.
    fn copy_last(&self, x: &[f32], past: &[f32], y: &mut [f32]) {
        let new_len = self.past_len.min(x.len());
        let (old, new) = y.split_at_mut(self.past_len - new_len);
        if past.is_empty() {
            old.fill(0.0);
        } else {
            old.copy_from_slice(&past[new_len..]);
        }
        new.copy_from_slice(&x[x.len() - new_len..]);
    }
}

/// `x / (1 + exp(-x))`.
#[derive(Clone, Copy)]
struct Swish;

#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
impl Map1 for Swish {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F) -> S::F {
        swish_lanes(s, x, 1.0)
    }
}

/// The kernel.
struct Rows(Row);

impl Kernel for Rows {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Row::read(cx).map(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let Self(row) = self;
        let &Row { channels, length, past_len, .. } = row;
        let (x, weight) = (inputs.get::<f32>(X)?, inputs.get::<f32>(WEIGHT)?);
        let optional = |port| if inputs.has(port) { inputs.get::<f32>(port) } else { Ok(&[][..]) };
        let (bias, past) = (optional(BIAS)?, optional(PAST)?);
        // An absent state stands for zeros.
        let row_past =
            |index: usize| past.get(index * past_len..(index + 1) * past_len).unwrap_or(&[]);
        let grain = row_grain(length);
        parallel.chunks_mut(outputs.take::<f32>(0)?, grain, |chunk, y| {
            for (index, y) in y.chunks_exact_mut(length).enumerate() {
                let index = chunk * (grain / length) + index;
                let channel = index % channels;
                y.fill(bias.get(channel).copied().unwrap_or(0.0));
                let weight = &weight[channel * (past_len + 1)..][..=past_len];
                row.convolve(&x[index * length..][..length], row_past(index), weight, y);
            }
            Ok(())
        })?;
        if past_len == 0 || !outputs.has(PRESENT) {
            return Ok(());
        }
        let present = outputs.take::<f32>(PRESENT)?;
        for (index, present) in present.chunks_exact_mut(past_len).enumerate() {
            row.copy_last(&x[index * length..][..length], row_past(index), present);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::family::numerics::settled_on_any_threads;
    use crate::testing::{Bench, assert_near, bench, noise, tensor};

    /// Batch, channels, length and kernel length; whether the node has a bias; whether it has a past state.
    type Case = ([usize; 4], bool, bool);

    const CASES: &[Case] = &[
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

    /// Returns unlike values for sequence, weights, bias and past state.
    fn values(&([batch, channels, length, kernel], ..): &Case) -> [Vec<f32>; 4] {
        let rows = batch * channels;
        let mut skip = 0;
        [rows * length, channels * kernel, channels, rows * (kernel - 1)].map(|len| {
            skip += 1;
            noise(len + skip).split_off(skip)
        })
    }

    fn bench_with(case: &Case, activation: &str) -> Bench {
        let &([batch, channels, length, kernel], has_bias, has_past) = case;
        let [x, weight, bias, past] = values(case);
        let run = bench("CausalConvWithState").input(tensor(&[batch, channels, length], &x));
        let run = run.input(tensor(&[channels, 1, kernel], &weight));
        let run = if has_bias { run.input(tensor(&[channels], &bias)) } else { run.absent() };
        let past = tensor(&[batch, channels, kernel - 1], &past);
        let run = if has_past { run.input(past) } else { run };
        run.text("activation", activation)
    }

    /// Computes the output and the state by the definition.
    fn expected(case: &Case, has_swish: bool) -> [Vec<f64>; 2] {
        let &([batch, channels, length, kernel], has_bias, has_past) = case;
        let [x, weight, bias, past] = values(case);
        let (mut y, mut present) = (Vec::new(), Vec::new());
        for row in 0..batch * channels {
            let mut sequence = vec![0f32; kernel - 1];
            if has_past {
                sequence.copy_from_slice(&past[row * (kernel - 1)..][..kernel - 1]);
            }
            sequence.extend(&x[row * length..][..length]);
            let channel = row % channels;
            for position in 0..length {
                let weights = &weight[channel * kernel..][..kernel];
                let terms = sequence[position..].iter().zip(weights);
                let sum: f64 = terms.map(|(x, weight)| f64::from(*x) * f64::from(*weight)).sum();
                let sum = sum + if has_bias { f64::from(bias[channel]) } else { 0.0 };
                y.push(if has_swish { sum / (1.0 + (-sum).exp()) } else { sum });
            }
            present.extend(sequence[sequence.len() + 1 - kernel..].iter().map(|x| f64::from(*x)));
        }
        [y, present]
    }

    #[test]
    fn outputs_and_states_match_the_definition() {
        for case in CASES {
            for activation in ["none", "silu", "swish"] {
                println!("{case:?} {activation}");
                let [y, present] = expected(case, activation != "none");
                let run = bench_with(case, activation);
                let single_output = settled_on_any_threads(&run);
                assert_near(&single_output.values::<f32>(), &y, 1e-6);
                let outputs = run.outputs(2).all();
                assert_eq!(outputs[0].bytes(), single_output.bytes());
                assert_near(&outputs[1].values::<f32>(), &present, 0.0);
            }
        }
    }

    #[test]
    fn a_sequence_in_two_calls_matches_one_call() {
        let (x, weight) = (noise(12), noise(4));
        let run = |x: &[f32], past: Option<&[f32]>| {
            let run = bench("CausalConvWithState").input(tensor(&[1, 1, x.len()], x));
            let run = run.input(tensor(&[1, 1, 4], &weight)).absent();
            let run = past.into_iter().fold(run, |run, past| run.input(tensor(&[1, 1, 3], past)));
            let outputs = run.outputs(2).all();
            (outputs[0].values::<f32>(), outputs[1].values::<f32>())
        };
        let expected = run(&x, None);
        for cut in [1, 2, 3, 7, 11] {
            let (mut y, state) = run(&x[..cut], None);
            let (second_y, last_state) = run(&x[cut..], Some(&state));
            y.extend(second_y);
            assert_eq!((y, last_state), expected, "cut at {cut}");
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
