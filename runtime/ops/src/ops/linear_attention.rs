//! Linear attention (Katharopoulos et al., 2020, <https://arxiv.org/abs/2006.16236>): each step updates a state per
//! head, `S = exp(decay) S + k v^T`, and outputs `scale q S`.
//!
//! With the delta rule (Yang et al., 2024, <https://arxiv.org/abs/2406.06484>), `v` is replaced by `beta (v - k S)`
//! first, where `S` has decayed, so that a step overwrites the value stored under its key.

use udo_api::{
    Core, DType, Dim, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Node, Op,
    OpSchema, Param, Port, Shape, Value, Workspace, input, input_like, output_like, types,
};
use udo_simd::math::exp;
use udo_simd::{Map1, Simd, map1_in_place, map2_in_place};

use crate::Def;
use crate::family::argument::count;
use crate::family::partition;
use crate::family::special::PlusWeighed;

pub(crate) const DEF: Def = Def::new::<LinearAttention>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<RecurrentStates>("LinearAttention", Core::CPU)
    .ports(&[
        input(0, types::F32),
        input_like(1, 0),
        input_like(2, 0),
        input_like(3, 0),
        input_like(4, 0),
        input_like(5, 0),
        output_like(0, 0),
        output_like(1, 0),
    ])];

const Q: usize = 0;
const K: usize = 1;
const V: usize = 2;
const PAST: usize = 3;
const DECAY: usize = 4;
const BETA: usize = 5;
const PRESENT: usize = 1;

struct LinearAttention;

impl Op for LinearAttention {
    const SCHEMA: OpSchema = OpSchema::new(
        "LinearAttention",
        &[
            Port::required("query", types::F32),
            Port::required("key", types::F32),
            Port::required("value", types::F32),
            Port::optional("past_state", types::F32),
            Port::optional("decay", types::F32),
            Port::optional("beta", types::F32),
        ],
        &[Port::required("output", types::F32), Port::optional("present_state", types::F32)],
        &[
            // A hint for chunked implementations; this one is recurrent.
            Param::scalar("chunk_size", DType::I64).default(Value::int(64)),
            Param::scalar("kv_num_heads", DType::I64),
            Param::scalar("q_num_heads", DType::I64),
            Param::scalar("scale", DType::F32).default(Value::float(0.0)),
            Param::text("update_rule").default(Value::text("gated_delta")),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (q, v) = (cx.input(Q)?, cx.input(V)?);
        let Problem { q_heads, kv_heads, depth, width, .. } = Problem::read(cx)?;
        let dim = |shape: Shape, axis: usize| shape.dim(axis).unwrap_or(Dim::Fixed(0));
        let (queries, values) = (q.full_shape(), v.full_shape());
        let (batch, length) = (dim(queries, 0), dim(queries, 1));
        let hidden = q_heads.saturating_mul(width);
        let y = Shape::from_dims(&[batch, length, dim(values, 2).with(hidden)])?;
        cx.set_output(0, q.with_shape(y))?;
        if cx.output_count() > PRESENT {
            let (depth, width) = (dim(queries, 2).with(depth), dim(values, 2).with(width));
            let state = Shape::from_dims(&[batch, Dim::Fixed(kv_heads), depth, width])?;
            // The state may have a wider type than the other inputs.
            let state_source = if cx.has_input(PAST) { cx.input(PAST)? } else { q };
            cx.set_output(PRESENT, state_source.with_shape(state))?;
        }
        Ok(())
    }
}

/// The sizes and parameters of a call.
#[derive(Clone, Copy, Debug)]
struct Problem {
    batch: usize,
    length: usize,
    q_heads: usize,
    /// Heads of keys, values and states. Neighbouring query heads share one.
    kv_heads: usize,
    /// Elements of a query or key.
    depth: usize,
    /// Elements of a value.
    width: usize,
    /// Log decays per step and head: 1, or one per element of a key; 0 for rules without decay.
    decays: usize,
    /// `beta` values per step, for all heads together: 1, or one per head; 0 for rules without the delta update.
    betas: usize,
    scale: f32,
}

impl Problem {
    fn read(node: &Node<'_>) -> Result<Self, Error> {
        let (q_heads, kv_heads) = (count(node, "q_num_heads")?, count(node, "kv_num_heads")?);
        if !q_heads.is_multiple_of(kv_heads) {
            return Err(Error::new(format!(
                "{q_heads} query heads are not a multiple of {kv_heads} heads of keys"
            )));
        }
        let (q, k, v) = (node.input(Q)?, node.input(K)?, node.input(V)?);
        let sizes = match (q.shape(), v.shape()) {
            (&[batch, length, queries], &[_, _, values])
                if queries.is_multiple_of(q_heads) && values.is_multiple_of(kv_heads) =>
            {
                let (depth, width) = (queries / q_heads, values / kv_heads);
                let fits = k.shape() == [batch, length, kv_heads * depth]
                    && v.shape() == [batch, length, values];
                fits.then_some((batch, length, depth, width))
            }
            _ => None,
        };
        let (batch, length, depth, width) = sizes.ok_or_else(|| {
            let expected = format!("expected rows of {q_heads}, {kv_heads} and {kv_heads} heads");
            Error::new(format!("inputs are {q}, {k} and {v}, {expected}"))
        })?;
        if depth == 0 || width == 0 {
            return Err(Error::new("heads have 0 elements, expected 1 or more"));
        }
        let [decays, betas] = decay_and_beta_counts(node, [batch, length], [kv_heads, depth])?;
        let state = [batch, kv_heads, depth, width];
        if node.has_input(PAST) && node.input(PAST)?.shape() != state {
            let past = node.input(PAST)?;
            return Err(Error::new(format!("input {PAST} is {past}, expected {state:?}")));
        }
        let scale = match node.float("scale")? {
            0.0 => 1.0 / (depth as f64).sqrt(),
            scale => scale,
        };
        let scale = scale as f32;
        Ok(Self { batch, length, q_heads, kv_heads, depth, width, decays, betas, scale })
    }

    /// Returns the number of query heads that share a key head.
    fn group(&self) -> usize {
        self.q_heads / self.kv_heads
    }
}

/// Returns the number of decays per step and head, and of `beta` values per step.
fn decay_and_beta_counts(
    node: &Node<'_>,
    [batch, length]: [usize; 2],
    [heads, depth]: [usize; 2],
) -> Result<[usize; 2], Error> {
    let rule = node.text("update_rule")?;
    let (has_decays, has_betas) = match rule {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        _ => {
            let expected = "expected \"linear\", \"gated\", \"delta\" or \"gated_delta\"";
            return Err(Error::new(format!("parameter \"update_rule\" is {rule:?}, {expected}")));
        }
    };
    // Returns the last extent of an input, which must be one of `sizes`; 0 if the rule does not use the input.
    let last_extent = |port: usize, is_used: bool, sizes: [usize; 2]| {
        if node.has_input(port) != is_used {
            let presence = if is_used { "missing" } else { "there" };
            return Err(Error::new(format!(
                "input {port} is {presence}, and parameter \"update_rule\" is {rule:?}"
            )));
        }
        if !is_used {
            return Ok(0);
        }
        let input = node.input(port)?;
        let size = sizes.into_iter().find(|&size| input.shape() == [batch, length, size]);
        size.ok_or_else(|| {
            let [a, b] = sizes;
            let expected = format!("expected [{batch},{length},{a} or {b}]");
            Error::new(format!("input {port} is {input}, {expected}"))
        })
    };
    let decays = last_extent(DECAY, has_decays, [heads, heads.saturating_mul(depth)])?;
    Ok([decays / heads, last_extent(BETA, has_betas, [heads, 1])?])
}

/// The kernel: computes states step by step. The columns of a state are independent, so they are divided into parts,
/// which threads share.
struct RecurrentStates {
    problem: Problem,
    /// Columns of a state in one part.
    part_columns: usize,
}

impl Kernel for RecurrentStates {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let problem = Problem::read(cx)?;
        let states = (problem.batch * problem.kv_heads).max(1);
        let parts = match cx.threads() {
            1 => 1,
            threads => partition::most_grains(threads).div_ceil(states),
        };
        let part_columns = problem.width.div_ceil(parts).next_multiple_of(MIN_PART_COLUMNS);
        Ok(Self { problem, part_columns: part_columns.min(problem.width) })
    }

    fn workspace(&self) -> Workspace {
        let states = self.parts().saturating_mul(self.state_len());
        let results = self.parts().saturating_mul(self.results_len());
        Workspace::for_elements::<f32>(states).and::<f32>(results)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, mut scratch, parallel, .. } = io;
        let &Problem { length, depth, width, decays, betas, .. } = &self.problem;
        let input = |port| if inputs.has(port) { inputs.get::<f32>(port) } else { Ok(&[][..]) };
        let arguments = Arguments {
            q: input(Q)?,
            k: input(K)?,
            v: input(V)?,
            past: input(PAST)?,
            decay: if decays > 0 { input(DECAY)? } else { &[] },
            beta: if betas > 0 { input(BETA)? } else { &[] },
        };
        let (state_len, results_len) = (self.state_len(), self.results_len());
        let states = scratch.take::<f32>(self.parts() * state_len)?;
        let results = scratch.take::<f32>(self.parts() * results_len)?;
        let work = self.parts() * length * depth * self.part_columns * (2 + self.problem.group());
        let grains = partition::grains(parallel, work, partition::F32_PRODUCTS);
        let parts_per_chunk = self.parts().div_ceil(grains).max(1);
        parallel.chunks_mut_with(
            states,
            parts_per_chunk * state_len,
            results,
            parts_per_chunk * results_len,
            |chunk, states, results| {
                for (index, scratch) in states.chunks_exact_mut(state_len).enumerate() {
                    let results = &mut results[index * results_len..][..results_len];
                    self.compute_part(
                        &arguments,
                        chunk * parts_per_chunk + index,
                        scratch,
                        results,
                    );
                }
                Ok(())
            },
        )?;
        self.copy_results(results, outputs.take::<f32>(0)?);
        if outputs.has(PRESENT) {
            let present = outputs.take::<f32>(PRESENT)?;
            for (row, present) in present.chunks_exact_mut(width).enumerate() {
                for (part, present) in present.chunks_mut(self.part_columns).enumerate() {
                    let part = row / depth * self.parts_per_state() + part;
                    let start = part * state_len + row % depth * present.len();
                    present.copy_from_slice(&states[start..][..present.len()]);
                }
            }
        }
        Ok(())
    }
}

/// The smallest number of columns that is worth a part.
const MIN_PART_COLUMNS: usize = 32;

/// The inputs of a call. An absent one is empty; an empty `past` stands for zeros.
struct Arguments<'a> {
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    past: &'a [f32],
    decay: &'a [f32],
    beta: &'a [f32],
}

impl RecurrentStates {
    fn parts_per_state(&self) -> usize {
        self.problem.width.div_ceil(self.part_columns)
    }

    fn parts(&self) -> usize {
        self.problem.batch * self.problem.kv_heads * self.parts_per_state()
    }

    /// Returns the scratch elements of a part: its columns of the state, one value, and the decays of a step.
    fn state_len(&self) -> usize {
        let depth = self.problem.depth;
        depth.saturating_add(1).saturating_mul(self.part_columns).saturating_add(depth)
    }

    /// Returns the output elements of a part: for each step and each query head that shares the state.
    fn results_len(&self) -> usize {
        self.problem.length * self.problem.group() * self.part_columns
    }

    /// Computes one part: some columns of one state, and their outputs.
    fn compute_part(
        &self,
        arguments: &Arguments<'_>,
        index: usize,
        scratch: &mut [f32],
        results: &mut [f32],
    ) {
        let problem = &self.problem;
        let &Problem { length, kv_heads, depth, width, decays, betas, scale, .. } = problem;
        let (state_index, first) =
            (index / self.parts_per_state(), index % self.parts_per_state() * self.part_columns);
        let (batch, head) = (state_index / kv_heads, state_index % kv_heads);
        let (columns, group) = (self.part_columns.min(width - first), problem.group());
        let (state, value_and_factors) = scratch.split_at_mut(depth * self.part_columns);
        let (value, factors) = value_and_factors.split_at_mut(self.part_columns);
        let (state, value) = (&mut state[..depth * columns], &mut value[..columns]);
        for (row, state) in state.chunks_exact_mut(columns).enumerate() {
            match arguments.past.get((state_index * depth + row) * width + first..) {
                Some(past) if !past.is_empty() => state.copy_from_slice(&past[..columns]),
                _ => state.fill(0.0),
            }
        }
        for step in 0..length {
            // The row of keys, values and decays for this step and head.
            let row = (batch * length + step) * kv_heads + head;
            let key = &arguments.k[row * depth..][..depth];
            let factors = &mut factors[..decays];
            if decays > 0 {
                exp(&arguments.decay[row * decays..][..decays], factors);
            }
            for (key_index, state) in state.chunks_exact_mut(columns).enumerate() {
                match *factors {
                    [] => {}
                    [factor] => map1_in_place(Times(factor), state),
                    _ => map1_in_place(Times(factors[key_index]), state),
                }
            }
            value.copy_from_slice(&arguments.v[row * width + first..][..columns]);
            if betas > 0 {
                for (&key, state) in key.iter().zip(state.chunks_exact(columns)) {
                    map2_in_place(PlusWeighed(-key), value, state);
                }
                let beta_index = if betas == 1 { row / kv_heads } else { row };
                map1_in_place(Times(arguments.beta[beta_index]), value);
            }
            for (&key, state) in key.iter().zip(state.chunks_exact_mut(columns)) {
                map2_in_place(PlusWeighed(key), state, &*value);
            }
            let queries = arguments.q[row * group * depth..].chunks_exact(depth);
            let results = results[step * group * columns..].chunks_exact_mut(columns);
            for (query, result) in queries.zip(results).take(group) {
                result.fill(0.0);
                for (query, state) in query.iter().zip(state.chunks_exact(columns)) {
                    map2_in_place(PlusWeighed(query * scale), result, state);
                }
            }
        }
    }

    /// Copies the outputs of all parts to `y`, where the heads of a step are adjacent.
    fn copy_results(&self, results: &[f32], y: &mut [f32]) {
        let &Problem { length, q_heads, kv_heads, width, .. } = &self.problem;
        let group = self.problem.group();
        for (row, y) in y.chunks_exact_mut(width).enumerate() {
            let (head, step) = (row % q_heads, row / q_heads % length);
            let state = row / q_heads / length * kv_heads + head / group;
            for (part, y) in y.chunks_mut(self.part_columns).enumerate() {
                let part = state * self.parts_per_state() + part;
                let row_in_part = step * group + head % group;
                let start = part * self.results_len() + row_in_part * y.len();
                y.copy_from_slice(&results[start..][..y.len()]);
            }
        }
    }
}

/// A multiplication by a factor.
#[derive(Clone, Copy)]
struct Times(f32);

#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
impl Map1 for Times {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F) -> S::F {
        s.mul(x, s.splat(self.0))
    }
}

#[cfg(test)]
mod tests {
    use crate::family::numerics::settled_on_any_threads;
    use crate::testing::{Bench, Tensor, assert_near, bench, noise, tensor};

    #[derive(Clone, Copy, Debug)]
    struct Case {
        batch: usize,
        length: usize,
        q_heads: usize,
        kv_heads: usize,
        depth: usize,
        width: usize,
        rule: &'static str,
        /// Whether a step of a head has one decay instead of one per element of a key.
        has_one_decay: bool,
        /// Whether all heads share one `beta`.
        has_one_beta: bool,
        has_past: bool,
        /// 0 selects the default, `1 / sqrt(depth)`.
        scale: f64,
    }

    const PLAIN: Case = Case {
        batch: 2,
        length: 5,
        q_heads: 2,
        kv_heads: 2,
        depth: 4,
        width: 3,
        rule: "gated_delta",
        has_one_decay: false,
        has_one_beta: false,
        has_past: false,
        scale: 0.0,
    };

    const CASES: &[Case] = &[
        PLAIN,
        Case { rule: "linear", ..PLAIN },
        Case { rule: "linear", q_heads: 6, has_past: true, ..PLAIN },
        Case { rule: "gated", ..PLAIN },
        Case { rule: "gated", has_one_decay: true, has_past: true, scale: 0.3, ..PLAIN },
        Case { rule: "delta", has_past: true, ..PLAIN },
        Case { rule: "delta", has_one_beta: true, ..PLAIN },
        Case { has_one_decay: true, has_past: true, ..PLAIN },
        Case { q_heads: 4, kv_heads: 1, has_one_beta: true, ..PLAIN },
        Case { length: 1, depth: 1, width: 1, has_past: true, ..PLAIN },
        Case { length: 0, has_past: true, rule: "linear", ..PLAIN },
        Case { length: 40, depth: 33, width: 70, kv_heads: 1, has_past: true, ..PLAIN },
        Case { batch: 1, length: 30, depth: 64, width: 128, q_heads: 3, kv_heads: 3, ..PLAIN },
    ];

    /// Queries, keys, values, past state, decays and `beta`; empty for inputs that the rule does not use.
    struct Values([Vec<f32>; 6]);

    impl Values {
        fn new(case: &Case) -> Self {
            let Case { batch, length, q_heads, kv_heads, depth, width, rule, .. } = *case;
            let steps = batch * length;
            let decays = if case.has_one_decay { 1 } else { depth };
            let betas = if case.has_one_beta { 1 } else { kv_heads };
            // Unlike values for each input.
            let mut skip = 0;
            let mut values = |is_used: bool, len: usize, convert: &dyn Fn(f32) -> f32| {
                skip += 1;
                let x = if is_used { noise(len + skip).split_off(skip) } else { Vec::new() };
                x.into_iter().map(convert).collect::<Vec<f32>>()
            };
            let root = (depth as f32).sqrt();
            Self([
                values(true, steps * q_heads * depth, &|x| x),
                // Keys of length about 1; longer ones make the state grow with each step.
                values(true, steps * kv_heads * depth, &|x| x / root),
                values(true, steps * kv_heads * width, &|x| x),
                values(case.has_past, batch * kv_heads * depth * width, &|x| x),
                values(rule.starts_with("gated"), steps * kv_heads * decays, &|x| -x.abs()),
                values(rule.ends_with("delta"), steps * betas, &|x| x.abs() / 2.0),
            ])
        }

        fn tensors(&self, case: &Case) -> [Option<Tensor>; 6] {
            let Case { batch, length, kv_heads, depth, width, .. } = *case;
            // Inputs count from 1 here; the fourth one is the past state.
            let mut port = 0;
            self.0.each_ref().map(|x| {
                port += 1;
                let is_present = port < 4 || case.has_past && port == 4 || !x.is_empty();
                let state = [batch, kv_heads, depth, width];
                let steps = (batch * length).max(1);
                let row_len = if length > 0 { x.len() / steps } else { case.row_len(port) };
                let row = [batch, length, row_len];
                is_present.then(|| tensor(if port == 4 { &state[..] } else { &row }, x))
            })
        }
    }

    impl Case {
        /// Elements of one step of the first three inputs; needed where the sequence is empty.
        fn row_len(&self, port: usize) -> usize {
            let Self { q_heads, kv_heads, depth, width, .. } = *self;
            match port {
                1 => q_heads * depth,
                2 => kv_heads * depth,
                _ => kv_heads * width,
            }
        }

        fn bench_with(&self) -> Bench {
            let tensors = Values::new(self).tensors(self);
            let run = tensors.into_iter().fold(bench("LinearAttention"), |run, x| match x {
                Some(x) => run.input(x),
                None => run.absent(),
            });
            let run = run.int("q_num_heads", self.q_heads as i64);
            let run = run.int("kv_num_heads", self.kv_heads as i64);
            run.text("update_rule", self.rule).float("scale", self.scale)
        }

        /// Computes outputs and states by the definition.
        fn expected(&self) -> [Vec<f64>; 2] {
            let Self { batch, length, q_heads, kv_heads, depth, width, .. } = *self;
            let Values(x) = Values::new(self);
            let [q, k, v, past, decay, beta] =
                x.map(|x| x.into_iter().map(f64::from).collect::<Vec<f64>>());
            let scale = if self.scale == 0.0 { 1.0 / (depth as f64).sqrt() } else { self.scale };
            let mut y = vec![0.0; batch * length * q_heads * width];
            let mut states =
                if past.is_empty() { vec![0.0; batch * kv_heads * depth * width] } else { past };
            for (index, state) in states.chunks_exact_mut(depth * width).enumerate() {
                let (sequence, head) = (index / kv_heads, index % kv_heads);
                for step in 0..length {
                    let row = (sequence * length + step) * kv_heads + head;
                    let (k, v) = (&k[row * depth..], &v[row * width..]);
                    for (element, state) in state.iter_mut().enumerate() {
                        let decay_index =
                            if self.has_one_decay { row } else { row * depth + element / width };
                        *state *= decay.get(decay_index).map_or(1.0, |decay| decay.exp());
                    }
                    let decayed = state.to_vec();
                    for (element, state) in state.iter_mut().enumerate() {
                        let (i, j) = (element / width, element % width);
                        let stored: f64 = (0..depth).map(|i| k[i] * decayed[i * width + j]).sum();
                        let beta_index = if self.has_one_beta { row / kv_heads } else { row };
                        let value =
                            beta.get(beta_index).map_or(v[j], |beta| beta * (v[j] - stored));
                        *state += k[i] * value;
                    }
                    let group = q_heads / kv_heads;
                    for q_head in head * group..(head + 1) * group {
                        let row = (sequence * length + step) * q_heads + q_head;
                        for j in 0..width {
                            let terms =
                                (0..depth).map(|i| q[row * depth + i] * state[i * width + j]);
                            y[row * width + j] = scale * terms.sum::<f64>();
                        }
                    }
                }
            }
            [y, states]
        }
    }

    #[test]
    fn outputs_and_states_match_the_definition() {
        for case in CASES {
            println!("{case:?}");
            let [y, states] = case.expected();
            let run = case.bench_with();
            let single_output = settled_on_any_threads(&run);
            assert_near(&single_output.values::<f32>(), &y, 2e-5);
            for threads in [1, 4] {
                let outputs = run.clone().threads(threads).outputs(2).all();
                assert_eq!(outputs[0].bytes(), single_output.bytes());
                assert_near(&outputs[1].values::<f32>(), &states, 2e-5);
            }
        }
    }

    #[test]
    fn mismatched_inputs_are_refused() {
        let zeros = |dims: &[usize]| tensor(dims, &vec![0f32; dims.iter().product()]);
        let run = |q: &[usize], k: &[usize], v: &[usize]| {
            let run = bench("LinearAttention").input(zeros(q)).input(zeros(k)).input(zeros(v));
            move |rule: &str, q_heads: i64, kv_heads: i64| {
                let run = run.clone().int("q_num_heads", q_heads).int("kv_num_heads", kv_heads);
                run.text("update_rule", rule)
            }
        };
        let fits = run(&[1, 2, 12], &[1, 2, 6], &[1, 2, 10]);
        let expected = "expected rows of 4, 2 and 2 heads";
        let error = run(&[1, 2, 12], &[1, 2, 8], &[1, 2, 10])("linear", 4, 2).error();
        assert_eq!(
            error,
            format!("inputs are f32[1,2,12], f32[1,2,8] and f32[1,2,10], {expected}")
        );
        let error = run(&[1, 2, 14], &[1, 2, 6], &[1, 2, 10])("linear", 4, 2).error();
        assert!(error.ends_with(expected), "{error}");
        let error = run(&[2, 12], &[2, 6], &[2, 10])("linear", 4, 2).error();
        assert!(error.ends_with(expected), "{error}");
        let error = run(&[1, 2, 0], &[1, 2, 0], &[1, 2, 10])("linear", 4, 2).error();
        assert_eq!(error, "heads have 0 elements, expected 1 or more");
        let error = fits("linear", 4, 3).error();
        assert_eq!(error, "4 query heads are not a multiple of 3 heads of keys");
        let error = fits("linear", 0, 2).error();
        assert_eq!(error, "parameter \"q_num_heads\" is 0, expected a positive integer");
        let error = fits("square", 4, 2).error();
        assert_eq!(
            error,
            "parameter \"update_rule\" is \"square\", expected \"linear\", \"gated\", \"delta\" or \"gated_delta\""
        );
        let error = fits("linear", 4, 2).input(zeros(&[1, 2, 3, 4])).error();
        assert_eq!(error, "input 3 is f32[1,2,3,4], expected [1, 2, 3, 5]");
        let gated = || fits("gated", 4, 2);
        let error = gated().error();
        assert_eq!(error, "input 4 is missing, and parameter \"update_rule\" is \"gated\"");
        let error = gated().absent().input(zeros(&[1, 2, 3])).error();
        assert_eq!(error, "input 4 is f32[1,2,3], expected [1,2,2 or 6]");
        let error = gated().absent().input(zeros(&[1, 2, 2])).input(zeros(&[1, 2, 1])).error();
        assert_eq!(error, "input 5 is there, and parameter \"update_rule\" is \"gated\"");
    }
}
