//! Long short-term memory over a sequence, forward, backward or both.

use udo_api::{
    Core, DType, Dim, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Node, Op,
    OpSchema, Param, Port, Shape, TensorDesc, Value, Workspace, input, types,
};

use crate::Def;
use crate::family::elementwise::Unary;
use crate::ops::sigmoid::Sigmoid;

pub(crate) const DEF: Def = Def::of::<Lstm>(KERNELS);

const KERNELS: &[KernelDef] =
    &[KernelDef::new::<LstmF32>("LSTM", Core::CPU).types(&[input(0, types::F32)])];

// The operator's inputs.
const X: usize = 0;
const W: usize = 1;
const R: usize = 2;
const BIAS: usize = 3;
const LENGTHS: usize = 4;
const FIRST_H: usize = 5;
const FIRST_C: usize = 6;
const PEEPHOLES: usize = 7;

// Its outputs.
const Y: usize = 0;
const LAST_H: usize = 1;
const LAST_C: usize = 2;

struct Lstm;

impl Op for Lstm {
    const SCHEMA: OpSchema = OpSchema::new(
        "LSTM",
        &[
            Port::required("X", types::F32),
            Port::required("W", types::F32),
            Port::required("R", types::F32),
            Port::optional("B", types::F32),
            Port::optional("sequence_lens", types::I32),
            Port::optional("initial_h", types::F32),
            Port::optional("initial_c", types::F32),
            Port::optional("P", types::F32),
        ],
        &[
            Port::optional("Y", types::F32),
            Port::optional("Y_h", types::F32),
            Port::optional("Y_c", types::F32),
        ],
        &[
            Param::tensor("activation_alpha", DType::F32).optional(),
            Param::tensor("activation_beta", DType::F32).optional(),
            Param::text("activations").optional(),
            Param::scalar("clip", DType::F32).optional(),
            Param::text("direction").default(Value::text("forward")),
            Param::scalar("hidden_size", DType::I64).optional(),
            Param::scalar("input_forget", DType::I64).default(Value::int(0)),
            Param::scalar("layout", DType::I64).default(Value::int(0)),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let sizes = Sizes::read(cx)?;
        let Sizes { steps, batch, dirs, hidden, .. } = sizes;
        let (y, last) = if sizes.batch_first {
            (vec![batch, steps, dirs, hidden], vec![batch, dirs, hidden])
        } else {
            (vec![steps, dirs, batch, hidden], vec![dirs, batch, hidden])
        };
        for (port, dims) in [(Y, &y), (LAST_H, &last), (LAST_C, &last)] {
            if port < cx.output_count() {
                cx.set_output(port, TensorDesc::new(DType::F32, Shape::new(dims)?))?;
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Reverse,
    Both,
}

#[derive(Clone, Copy)]
struct Sizes {
    steps: usize,
    batch: usize,
    width: usize,
    hidden: usize,
    dirs: usize,
    direction: Direction,
    batch_first: bool,
}

impl Sizes {
    fn read(node: &Node<'_>) -> Result<Self, Error> {
        for name in ["activation_alpha", "activation_beta", "activations", "clip"] {
            if node.has_param(name) {
                return Err(Error::new(format!("parameter {name:?} is given, wanted the default")));
            }
        }
        if node.flag("input_forget")? {
            return Err(Error::new("parameter \"input_forget\" is not 0"));
        }
        let direction = match node.text("direction")? {
            "forward" => Direction::Forward,
            "reverse" => Direction::Reverse,
            "bidirectional" => Direction::Both,
            other => return Err(Error::new(format!("parameter \"direction\" is {other:?}"))),
        };
        let dirs = if direction == Direction::Both { 2 } else { 1 };
        let batch_first = node.flag("layout")?;
        let (x, r) = (node.input(X)?, node.input(R)?);
        let (&[a, b, width], &[_, _, hidden]) = (x.shape(), r.shape()) else {
            return Err(Error::new(format!("inputs are {x} and {r}, wanted rank 3")));
        };
        if !x.full_shape().iter().all(|dim| matches!(dim, Dim::Fixed(_))) {
            return Err(Error::new(format!("input {X} is {x}, wanted a fixed shape")));
        }
        let (steps, batch) = if batch_first { (b, a) } else { (a, b) };
        if node.has_param("hidden_size") && usize::try_from(node.int("hidden_size")?) != Ok(hidden)
        {
            let found = node.int("hidden_size")?;
            return Err(Error::new(format!(
                "parameter \"hidden_size\" is {found}, input {R} is {r}"
            )));
        }
        let state = if batch_first { [batch, dirs, hidden] } else { [dirs, batch, hidden] };
        let wanted: [(usize, &[usize]); 7] = [
            (W, &[dirs, 4 * hidden, width]),
            (R, &[dirs, 4 * hidden, hidden]),
            (BIAS, &[dirs, 8 * hidden]),
            (LENGTHS, &[batch]),
            (FIRST_H, &state),
            (FIRST_C, &state),
            (PEEPHOLES, &[dirs, 3 * hidden]),
        ];
        for (port, shape) in wanted {
            if node.has_input(port) && node.input(port)?.shape() != shape {
                let found = node.input(port)?;
                return Err(Error::new(format!("input {port} is {found}, wanted {shape:?}")));
            }
        }
        Ok(Self { steps, batch, width, hidden, dirs, direction, batch_first })
    }

    /// Where the state of a direction and a row of the batch starts.
    fn state_at(self, dir: usize, row: usize) -> usize {
        let place = if self.batch_first { row * self.dirs + dir } else { dir * self.batch + row };
        place * self.hidden
    }

    /// Where the input of a step and a row of the batch starts.
    fn x_at(self, step: usize, row: usize) -> usize {
        let place =
            if self.batch_first { row * self.steps + step } else { step * self.batch + row };
        place * self.width
    }

    /// Where the output of a step starts.
    fn y_at(self, step: usize, dir: usize, row: usize) -> usize {
        let place = if self.batch_first {
            (row * self.steps + step) * self.dirs + dir
        } else {
            (step * self.dirs + dir) * self.batch + row
        };
        place * self.hidden
    }
}

struct LstmF32 {
    sizes: Sizes,
    /// Inputs and outputs that the node has.
    inputs: [bool; 8],
    outputs: [bool; 3],
}

/// The weights of one direction; empty where the node leaves them out.
struct Weights<'a> {
    w: &'a [f32],
    r: &'a [f32],
    bias: &'a [f32],
    peepholes: &'a [f32],
}

impl Kernel for LstmF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let sizes = Sizes::read(cx)?;
        let inputs = std::array::from_fn(|port| cx.has_input(port));
        let outputs = std::array::from_fn(|port| cx.has_output(port));
        Ok(Self { sizes, inputs, outputs })
    }

    fn workspace(&self) -> Workspace {
        let hidden = self.sizes.hidden;
        Workspace::of::<f32>(hidden).and::<f32>(hidden).and::<f32>(4 * hidden)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, mut scratch, .. } = io;
        let sizes = self.sizes;
        let Sizes { steps, batch, width, hidden, .. } = sizes;
        let optional = |port: usize| {
            if self.inputs[port] { inputs.get::<f32>(port) } else { Ok(&[][..]) }
        };
        let (x, w, r) = (optional(X)?, optional(W)?, optional(R)?);
        let (bias, peepholes) = (optional(BIAS)?, optional(PEEPHOLES)?);
        let (first_h, first_c) = (optional(FIRST_H)?, optional(FIRST_C)?);
        let lengths = if self.inputs[LENGTHS] { inputs.get::<i32>(LENGTHS)? } else { &[] };
        let mut take = |port: usize| {
            if self.outputs[port] { outputs.take::<f32>(port) } else { Ok(&mut [][..]) }
        };
        let (y, last_h, last_c) = (take(Y)?, take(LAST_H)?, take(LAST_C)?);
        let h = scratch.take::<f32>(hidden)?;
        let c = scratch.take::<f32>(hidden)?;
        let gates = scratch.take::<f32>(4 * hidden)?;
        // Steps behind the end of a sequence are 0.
        y.fill(0.0);
        for (dir, row) in (0..sizes.dirs).flat_map(|dir| (0..batch).map(move |row| (dir, row))) {
            let weights = Weights {
                w: &w[dir * 4 * hidden * width..][..4 * hidden * width],
                r: &r[dir * 4 * hidden * hidden..][..4 * hidden * hidden],
                bias: bias.get(dir * 8 * hidden..(dir + 1) * 8 * hidden).unwrap_or(&[]),
                peepholes: peepholes.get(dir * 3 * hidden..(dir + 1) * 3 * hidden).unwrap_or(&[]),
            };
            let state = sizes.state_at(dir, row);
            load(h, first_h.get(state..state + hidden));
            load(c, first_c.get(state..state + hidden));
            let len = match lengths.get(row) {
                Some(&len) => usize::try_from(len)
                    .ok()
                    .filter(|&len| len <= steps)
                    .ok_or(ExecError::bad_value(i64::from(len), row))?,
                None => steps,
            };
            let backward = dir == 1 || sizes.direction == Direction::Reverse;
            for i in 0..len {
                let step = if backward { len - 1 - i } else { i };
                let x = &x[sizes.x_at(step, row)..][..width];
                sum_gates(gates, x, h, &weights);
                advance(gates, h, c, weights.peepholes);
                if self.outputs[Y] {
                    y[sizes.y_at(step, dir, row)..][..hidden].copy_from_slice(h);
                }
            }
            if self.outputs[LAST_H] {
                last_h[state..][..hidden].copy_from_slice(h);
            }
            if self.outputs[LAST_C] {
                last_c[state..][..hidden].copy_from_slice(c);
            }
        }
        Ok(())
    }
}

fn load(to: &mut [f32], from: Option<&[f32]>) {
    match from {
        Some(from) => to.copy_from_slice(from),
        None => to.fill(0.0),
    }
}

/// `W x + R h` and the biases, for the gates input, output, forget and cell.
fn sum_gates(gates: &mut [f32], x: &[f32], h: &[f32], weights: &Weights<'_>) {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let (width, hidden, count) = (x.len(), h.len(), gates.len());
    for (gate, sum) in gates.iter_mut().enumerate() {
        let bias = |at: usize| weights.bias.get(at).copied().unwrap_or(0.0);
        *sum = dot(&weights.w[gate * width..][..width], x)
            + dot(&weights.r[gate * hidden..][..hidden], h)
            + (bias(gate) + bias(count + gate));
    }
}

/// One step of the state from the gates' sums.
fn advance(gates: &[f32], h: &mut [f32], c: &mut [f32], peepholes: &[f32]) {
    let hidden = h.len();
    let sigmoid = <Sigmoid as Unary>::of;
    let peephole = |at: usize| peepholes.get(at).copied().unwrap_or(0.0);
    for (k, (h, c)) in h.iter_mut().zip(c).enumerate() {
        let input = sigmoid(gates[k] + peephole(k) * *c);
        let forget = sigmoid(gates[2 * hidden + k] + peephole(2 * hidden + k) * *c);
        *c = forget * *c + input * gates[3 * hidden + k].tanh();
        // The output gate sees the new state.
        let output = sigmoid(gates[hidden + k] + peephole(hidden + k) * *c);
        *h = output * c.tanh();
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_near, bench, noise, tensor};

    const STEPS: usize = 4;
    const BATCH: usize = 2;
    const WIDTH: usize = 3;
    const HIDDEN: usize = 2;

    struct Node {
        x: Vec<f32>,
        w: Vec<f32>,
        r: Vec<f32>,
        bias: Vec<f32>,
        peepholes: Vec<f32>,
    }

    fn node() -> Node {
        let all = noise(400);
        Node {
            x: all[..24].to_vec(),
            w: all[30..78].to_vec(),
            r: all[100..132].to_vec(),
            bias: all[200..232].to_vec(),
            peepholes: all[300..312].to_vec(),
        }
    }

    /// Outputs of one direction and row of the batch, in the order of its steps, and its last state.
    fn naive(node: &Node, dir: usize, row: usize, order: &[usize]) -> (Vec<[f64; 2]>, [f64; 2]) {
        let (mut h, mut c, mut all) = ([0.0; 2], [0.0; 2], Vec::new());
        let at = |v: &[f32], i: usize| f64::from(v[i]);
        let sigmoid = |v: f64| 1.0 / (1.0 + (-v).exp());
        for &step in order {
            let sum = |gate: usize| {
                let mut sum = at(&node.bias, dir * 16 + gate) + at(&node.bias, dir * 16 + 8 + gate);
                for i in 0..WIDTH {
                    let x = at(&node.x, (step * BATCH + row) * WIDTH + i);
                    sum += at(&node.w, (dir * 8 + gate) * WIDTH + i) * x;
                }
                (0..2).for_each(|i| sum += at(&node.r, (dir * 8 + gate) * 2 + i) * h[i]);
                sum
            };
            let sums: Vec<f64> = (0..8).map(sum).collect();
            for k in 0..HIDDEN {
                let p = |gate: usize| at(&node.peepholes, dir * 6 + gate * 2 + k);
                let (i, f) = (sigmoid(sums[k] + p(0) * c[k]), sigmoid(sums[4 + k] + p(2) * c[k]));
                c[k] = f * c[k] + i * sums[6 + k].tanh();
                h[k] = sigmoid(sums[2 + k] + p(1) * c[k]) * c[k].tanh();
            }
            all.push(h);
        }
        (all, c)
    }

    #[test]
    fn every_direction_matches_the_definition() {
        let node = node();
        for (direction, dirs) in [("forward", 1), ("reverse", 1), ("bidirectional", 2)] {
            let y = bench("LSTM")
                .input(tensor(&[STEPS, BATCH, WIDTH], &node.x))
                .input(tensor(&[dirs, 8, WIDTH], &node.w[..dirs * 24]))
                .input(tensor(&[dirs, 8, HIDDEN], &node.r[..dirs * 16]))
                .input(tensor(&[dirs, 16], &node.bias[..dirs * 16]))
                .input(tensor(&[BATCH], &[4i32, 3]))
                .absent()
                .absent()
                .input(tensor(&[dirs, 6], &node.peepholes[..dirs * 6]))
                .text("direction", direction)
                .int("hidden_size", 2)
                .outputs(3)
                .all();
            let mut wanted = vec![0.0; STEPS * dirs * BATCH * HIDDEN];
            let (mut last_h, mut last_c) = (Vec::new(), Vec::new());
            for (dir, row) in (0..dirs).flat_map(|d| (0..BATCH).map(move |b| (d, b))) {
                let mut order: Vec<usize> = (0..[4, 3][row]).collect();
                if direction == "reverse" || dir == 1 {
                    order.reverse();
                }
                let (all, c) = naive(&node, dir, row, &order);
                for (&step, h) in order.iter().zip(&all) {
                    let at = ((step * dirs + dir) * BATCH + row) * HIDDEN;
                    wanted[at..at + 2].copy_from_slice(h);
                }
                last_h.extend(all[all.len() - 1]);
                last_c.extend(c);
            }
            assert_near(&y[0].values::<f32>(), &wanted, 1e-5);
            assert_near(&y[1].values::<f32>(), &last_h, 1e-5);
            assert_near(&y[2].values::<f32>(), &last_c, 1e-5);
        }
    }

    #[test]
    fn other_activations_are_refused() {
        let node = node();
        let run = bench("LSTM")
            .input(tensor(&[STEPS, BATCH, WIDTH], &node.x))
            .input(tensor(&[1, 8, WIDTH], &node.w[..24]))
            .input(tensor(&[1, 8, HIDDEN], &node.r[..16]));
        let error = run.float("clip", 1.0).error();
        assert_eq!(error, "parameter \"clip\" is given, wanted the default");
    }
}
