//! Kernel of recurrent operators: one matrix product for the inputs of all steps, then one per step for the state.

use udo_api::{
    Arithmetic, Error, ExecError, FinalizeCx, Inputs, Io, Kernel, PackedConstants, Parallel, Work,
    Workspace,
};
use udo_simd::gemm_f32::{Epilogue, Layout};

use super::{
    Activation, BIAS, Cell, Counts, FIRST_HIDDEN, FIRST_MEMORY, LAST_HIDDEN, LAST_MEMORY, LENGTHS,
    PEEPHOLES, R, Side, Sizes, Step, W, WeightScratch, Weights, X, Y,
};
use crate::family::matmul::{Factors, Product, RightSide};

/// CPU kernel of the cell `C`.
pub(super) struct Recurrent<C> {
    cell: C,
    sizes: Sizes,
    /// The input weights of every direction.
    input: Side,
    /// The state weights of every direction.
    state: Side,
    /// The late gate (see [`Cell::late`]): its index, and the state weights of all gates and directions.
    late: Option<(usize, RightSide)>,
    /// The activations of every direction.
    activations: Vec<Activation>,
    /// Whether the node has each input and output.
    inputs: [bool; 8],
    outputs: [bool; 3],
}

impl<C: Cell> Kernel for Recurrent<C> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let cell = C::read(cx)?;
        let sizes = Sizes::read(cx, Counts::for_cell::<C>())?;
        let Sizes { steps, batch, width, hidden, dirs, .. } = sizes;
        let gates = C::GATES * hidden;
        let work = Work::products(&[dirs, steps, batch, gates, width.saturating_add(hidden)]);
        cx.work(if C::IS_QUANTIZED { work.with(Arithmetic::Int8) } else { work })?;
        let input = Side::read::<C>(cx, W, [steps * batch, width, gates], dirs)?;
        let state = Side::read::<C>(cx, R, [batch, hidden, gates], dirs)?;
        let late = match cell.late() {
            Some(gate) => {
                let (rows, depth, cols, right) = (batch, hidden, hidden, Layout::Transposed);
                let product = Product { rows, depth, cols, right, factors: Factors::F32 };
                Some((gate, RightSide::read(cx, R, product, dirs * C::GATES)?))
            }
            None => None,
        };
        let activations = Activation::read(cx, dirs, C::ACTIVATIONS)?;
        let inputs = std::array::from_fn(|port| cx.has_input(port));
        let outputs = std::array::from_fn(|port| cx.has_output(port));
        Ok(Self { cell, sizes, input, state, late, activations, inputs, outputs })
    }

    fn workspace(&self) -> Workspace {
        let [hidden, memory, gates, sums, late] = self.scratch_lens();
        let states = Workspace::for_elements::<f32>(hidden).and::<f32>(memory).and::<f32>(gates);
        let weights = self.state.and(self.input.and(states.and::<f32>(sums)));
        weights.and::<f32>(late).and::<f32>(late).and::<f32>(self.late_scratch_len())
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, mut scratch, parallel, packed, .. } = io;
        let sizes = &self.sizes;
        let Sizes { steps, batch, hidden, dirs, .. } = *sizes;
        let mut take = |port: usize| {
            if self.outputs[port] { outputs.take::<f32>(port) } else { Ok(&mut [][..]) }
        };
        let [y, last_hidden, last_memory] = [take(Y)?, take(LAST_HIDDEN)?, take(LAST_MEMORY)?];
        let lens = self.scratch_lens();
        let mut take = |len: usize| scratch.take::<f32>(len);
        let [hidden_rows, memory, gates, input] =
            [take(lens[0])?, take(lens[1])?, take(lens[2])?, take(lens[3])?];
        let (mut input_scratch, mut state_scratch) =
            (self.input.take(&mut scratch)?, self.state.take(&mut scratch)?);
        let (reset_hidden, late) = (scratch.take(lens[4])?, scratch.take(lens[4])?);
        let mut rows = Rows { hidden: hidden_rows, memory, gates, input, reset_hidden, late };
        let late_scratch = scratch.take(self.late_scratch_len())?;
        let lengths = if self.inputs[LENGTHS] { inputs.get::<i32>(LENGTHS)? } else { &[] };
        check(lengths, steps)?;
        // Outputs after the end of a sequence are 0.
        y.fill(0.0);
        if batch * hidden == 0 {
            return Ok(());
        }
        for dir in 0..dirs {
            let buffers = [&mut input_scratch, &mut state_scratch];
            let mut weights = self.direction(&inputs, &packed, dir, buffers, &mut *late_scratch)?;
            self.start(&inputs, dir, &mut rows)?;
            let (x, bias) = (inputs.get::<f32>(X)?, weights.input_bias);
            self.input.run(parallel, x, &mut weights.input, bias, rows.input)?;
            self.run(parallel, dir, &mut weights, lengths, &mut rows, y)?;
            for row in 0..batch {
                let (output_start, state_start) = (sizes.state_at(dir, row), row * hidden);
                for (output, state) in
                    [(&mut *last_hidden, &*rows.hidden), (&mut *last_memory, &*rows.memory)]
                {
                    if let Some(output) = output.get_mut(output_start..output_start + hidden) {
                        output.copy_from_slice(&state[state_start..][..hidden]);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns an epilogue that adds a bias per column.
fn biased(bias: Option<&[f32]>) -> Epilogue<'_> {
    Epilogue { bias, ..Epilogue::default() }
}

/// Checks that each sequence length is in `0..=steps`.
fn check(lengths: &[i32], steps: usize) -> Result<(), ExecError> {
    for (row, &len) in lengths.iter().enumerate() {
        let fits = usize::try_from(len).is_ok_and(|len| len <= steps);
        fits.then_some(()).ok_or(ExecError::bad_value(i64::from(len), row))?;
    }
    Ok(())
}

/// The states of all batch rows, and the sums of their gates.
struct Rows<'a> {
    hidden: &'a mut [f32],
    memory: &'a mut [f32],
    gates: &'a mut [f32],
    /// Gate sums from the inputs of all steps.
    input: &'a mut [f32],
    /// The hidden state as the late gate sees it (after a reset), and the late gate's sums.
    reset_hidden: &'a mut [f32],
    late: &'a mut [f32],
}

/// The weights of a direction; empty where the node omits them.
struct Direction<'a> {
    input: Weights<'a>,
    state: Weights<'a>,
    input_bias: Option<&'a [f32]>,
    state_bias: Option<&'a [f32]>,
    peepholes: &'a [f32],
    late: &'a [f32],
    late_bias: Option<&'a [f32]>,
}

impl<C: Cell> Recurrent<C> {
    /// Returns the lengths of the slices of [`Rows`].
    fn scratch_lens(&self) -> [usize; 5] {
        let Sizes { steps, batch, hidden, .. } = self.sizes;
        let gates = batch * C::GATES * hidden;
        let memory = if C::MEMORY.is_some() { batch * hidden } else { 0 };
        let late = if self.late.is_some() { batch * hidden } else { 0 };
        [batch * hidden, memory, gates, steps * gates, late]
    }

    /// Returns the scratch elements for a late gate's weights that are not constant.
    fn late_scratch_len(&self) -> usize {
        self.late.as_ref().map_or(0, |(_, weights)| weights.scratch_len())
    }

    /// Returns an optional input, or an empty slice.
    fn optional<'a>(&self, inputs: &Inputs<'a>, port: usize) -> Result<&'a [f32], ExecError> {
        if self.inputs[port] { inputs.get(port) } else { Ok(&[]) }
    }

    /// Returns the weights of a direction.
    fn direction<'a>(
        &self,
        inputs: &Inputs<'a>,
        packed: &PackedConstants<'a>,
        dir: usize,
        [input, state]: [&'a mut WeightScratch<'_>; 2],
        late: &'a mut [f32],
    ) -> Result<Direction<'a>, ExecError> {
        let gates = C::GATES * self.sizes.hidden;
        let biases = self.optional(inputs, BIAS)?.get(dir * 2 * gates..(dir + 1) * 2 * gates);
        let (input_bias, state_bias) = biases.map(|biases| biases.split_at(gates)).unzip();
        let len = C::PEEPHOLES.0 * self.sizes.hidden;
        let peepholes = self.optional(inputs, PEEPHOLES)?;
        let (mut late_weights, mut late_bias) = (&[][..], None);
        if let Some((gate, weights)) = &self.late {
            late_weights = weights.get(inputs, packed, dir * C::GATES + gate, late)?;
            let hidden = self.sizes.hidden;
            late_bias = state_bias.map(|bias| &bias[gate * hidden..][..hidden]);
        }
        Ok(Direction {
            input: self.input.get(inputs, packed, dir, input)?,
            state: self.state.get(inputs, packed, dir, state)?,
            input_bias,
            state_bias,
            peepholes: peepholes.get(dir * len..(dir + 1) * len).unwrap_or(&[]),
            late: late_weights,
            late_bias,
        })
    }

    /// Loads the initial states of a direction, or zeros.
    fn start(&self, inputs: &Inputs<'_>, dir: usize, rows: &mut Rows<'_>) -> Result<(), ExecError> {
        let hidden = self.sizes.hidden;
        for (port, states) in [(FIRST_HIDDEN, &mut *rows.hidden), (FIRST_MEMORY, &mut *rows.memory)]
        {
            let initial = self.optional(inputs, port)?;
            for (row, state) in states.chunks_exact_mut(hidden).enumerate() {
                let start = self.sizes.state_at(dir, row);
                match initial.get(start..start + hidden) {
                    Some(initial) => state.copy_from_slice(initial),
                    None => state.fill(0.0),
                }
            }
        }
        Ok(())
    }

    /// Runs all steps of a direction, each for all rows.
    fn run(
        &self,
        parallel: Parallel<'_>,
        dir: usize,
        weights: &mut Direction<'_>,
        lengths: &[i32],
        rows: &mut Rows<'_>,
        y: &mut [f32],
    ) -> Result<(), ExecError> {
        let sizes = &self.sizes;
        let Sizes { steps, batch, hidden, .. } = *sizes;
        let len = |row: usize| lengths.get(row).map_or(steps, |&len| len.max(0) as usize);
        for iteration in 0..(0..batch).map(len).max().unwrap_or(0) {
            // The rows whose sequences have not ended, and the step of each.
            let active_rows = || {
                (0..batch).filter_map(|row| {
                    let remaining = len(row).checked_sub(iteration + 1)?;
                    Some((row, if sizes.is_backward(dir) { remaining } else { iteration }))
                })
            };
            let bias = weights.state_bias;
            self.state.run(parallel, rows.hidden, &mut weights.state, bias, rows.gates)?;
            if let Some((_, late)) = &self.late {
                for (row, step) in active_rows() {
                    let (step, reset_hidden) = self.step_of_row(weights, rows, dir, [row, step]);
                    self.cell.reset(step, reset_hidden);
                }
                let bias = biased(weights.late_bias);
                late.product.run(parallel, rows.reset_hidden, weights.late, rows.late, &bias)?;
            }
            for (row, step) in active_rows() {
                self.cell.step(self.step_of_row(weights, rows, dir, [row, step]).0);
                let start = sizes.y_at(step, dir, row);
                if let Some(y) = y.get_mut(start..start + hidden) {
                    y.copy_from_slice(&rows.hidden[row * hidden..][..hidden]);
                }
            }
        }
        Ok(())
    }

    /// Returns the data of one row for a step, and the row's buffer for the hidden state that the late gate sees.
    fn step_of_row<'a>(
        &'a self,
        weights: &Direction<'a>,
        rows: &'a mut Rows<'_>,
        dir: usize,
        [row, step]: [usize; 2],
    ) -> (Step<'a>, &'a mut [f32]) {
        let hidden = self.sizes.hidden;
        let (range, gates) = (row * hidden..(row + 1) * hidden, C::GATES * hidden);
        let count = C::ACTIVATIONS.len();
        let step = Step {
            input: &rows.input[self.sizes.x_row(step, row) * gates..][..gates],
            gates: &mut rows.gates[row * gates..][..gates],
            hidden: &mut rows.hidden[range.clone()],
            memory: rows.memory.get_mut(range.clone()).unwrap_or_default(),
            peepholes: weights.peepholes,
            late: rows.late.get(range.clone()).unwrap_or_default(),
            activations: &self.activations[dir * count..][..count],
        };
        (step, rows.reset_hidden.get_mut(range).unwrap_or_default())
    }
}
