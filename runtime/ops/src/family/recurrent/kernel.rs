//! The kernel of recurrent operators: one product for the inputs of all steps, then one for the states of each.

use udo_api::{
    Error, ExecError, FinalizeCx, Inputs, Io, Kernel, PackedConstants, Parallel, Workspace,
};
use udo_simd::gemm_f32::{Epilogue, Layout};

use super::{
    BIAS, Cell, Counts, FIRST_HIDDEN, FIRST_MEMORY, LAST_HIDDEN, LAST_MEMORY, LENGTHS, PEEPHOLES,
    R, Sizes, Step, W, X, Y,
};
use crate::family::matmul::{Product, RightSide};

pub(super) struct Recurrent<C> {
    cell: C,
    sizes: Sizes,
    /// The weights of every direction.
    input: RightSide,
    state: RightSide,
    /// Inputs and outputs that the node has.
    inputs: [bool; 8],
    outputs: [bool; 3],
}

impl<C: Cell> Kernel for Recurrent<C> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let cell = C::read(cx)?;
        let sizes = Sizes::read(cx, Counts::of::<C>())?;
        let Sizes { steps, batch, width, hidden, dirs, .. } = sizes;
        let gates = C::GATES * hidden;
        let weights = |port: usize, rows: usize, depth: usize| {
            let product = Product { rows, depth, cols: gates, right: Layout::Transposed };
            RightSide::read(cx, port, product, dirs)
        };
        let (input, state) = (weights(W, steps * batch, width)?, weights(R, batch, hidden)?);
        let inputs = std::array::from_fn(|port| cx.has_input(port));
        let outputs = std::array::from_fn(|port| cx.has_output(port));
        Ok(Self { cell, sizes, input, state, inputs, outputs })
    }

    fn workspace(&self) -> Workspace {
        let [hidden, memory, gates, sums] = self.scratch_lens();
        let states = Workspace::of::<f32>(hidden).and::<f32>(memory).and::<f32>(gates);
        let weights = states.and::<f32>(sums).and::<f32>(self.input.scratch_len());
        weights.and::<f32>(self.state.scratch_len())
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
        let mut rows = Rows {
            hidden: take(lens[0])?,
            memory: take(lens[1])?,
            gates: take(lens[2])?,
            input: take(lens[3])?,
        };
        let own_input = take(self.input.scratch_len())?;
        let own_state = take(self.state.scratch_len())?;
        let lengths = if self.inputs[LENGTHS] { inputs.get::<i32>(LENGTHS)? } else { &[] };
        check(lengths, steps)?;
        // Steps behind the end of a sequence are 0.
        y.fill(0.0);
        if batch * hidden == 0 {
            return Ok(());
        }
        for dir in 0..dirs {
            let weights =
                self.direction(&inputs, &packed, dir, [&mut *own_input, &mut *own_state])?;
            self.start(&inputs, dir, &mut rows)?;
            let (x, bias) = (inputs.get::<f32>(X)?, biased(weights.input_bias));
            self.input.product.run(parallel, x, weights.input, rows.input, &bias)?;
            self.run(parallel, dir, &weights, lengths, &mut rows, y)?;
            for row in 0..batch {
                let (at, from) = (sizes.state_at(dir, row), row * hidden);
                for (to, state) in
                    [(&mut *last_hidden, &*rows.hidden), (&mut *last_memory, &*rows.memory)]
                {
                    if let Some(to) = to.get_mut(at..at + hidden) {
                        to.copy_from_slice(&state[from..][..hidden]);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Adds the bias of each column.
fn biased(bias: Option<&[f32]>) -> Epilogue<'_> {
    Epilogue { bias, ..Epilogue::default() }
}

/// Refuses lengths that are not those of sequences of so many steps.
fn check(lengths: &[i32], steps: usize) -> Result<(), ExecError> {
    for (row, &len) in lengths.iter().enumerate() {
        let fits = usize::try_from(len).is_ok_and(|len| len <= steps);
        fits.then_some(()).ok_or(ExecError::bad_value(i64::from(len), row))?;
    }
    Ok(())
}

/// The states of all rows of the batch, and what their gates are made of.
struct Rows<'a> {
    hidden: &'a mut [f32],
    memory: &'a mut [f32],
    gates: &'a mut [f32],
    /// Of all steps.
    input: &'a mut [f32],
}

/// The weights of a direction; empty where the node leaves them out.
struct Direction<'a> {
    input: &'a [f32],
    state: &'a [f32],
    input_bias: Option<&'a [f32]>,
    state_bias: Option<&'a [f32]>,
    peepholes: &'a [f32],
}

impl<C: Cell> Recurrent<C> {
    /// The lengths of the slices of [`Rows`].
    fn scratch_lens(&self) -> [usize; 4] {
        let Sizes { steps, batch, hidden, .. } = self.sizes;
        let gates = batch * C::GATES * hidden;
        let memory = if C::MEMORY.is_some() { batch * hidden } else { 0 };
        [batch * hidden, memory, gates, steps * gates]
    }

    fn optional<'a>(&self, inputs: &Inputs<'a>, port: usize) -> Result<&'a [f32], ExecError> {
        if self.inputs[port] { inputs.get(port) } else { Ok(&[]) }
    }

    fn direction<'a>(
        &self,
        inputs: &Inputs<'a>,
        packed: &PackedConstants<'a>,
        dir: usize,
        [input, state]: [&'a mut [f32]; 2],
    ) -> Result<Direction<'a>, ExecError> {
        let gates = C::GATES * self.sizes.hidden;
        let biases = self.optional(inputs, BIAS)?.get(dir * 2 * gates..(dir + 1) * 2 * gates);
        let (input_bias, state_bias) = biases.map(|biases| biases.split_at(gates)).unzip();
        let len = C::PEEPHOLES.0 * self.sizes.hidden;
        let peepholes = self.optional(inputs, PEEPHOLES)?;
        Ok(Direction {
            input: self.input.get(inputs, packed, dir, input)?,
            state: self.state.get(inputs, packed, dir, state)?,
            input_bias,
            state_bias,
            peepholes: peepholes.get(dir * len..(dir + 1) * len).unwrap_or(&[]),
        })
    }

    /// Loads the first states of a direction: 0 where the node leaves them out.
    fn start(&self, inputs: &Inputs<'_>, dir: usize, rows: &mut Rows<'_>) -> Result<(), ExecError> {
        let hidden = self.sizes.hidden;
        for (port, to) in [(FIRST_HIDDEN, &mut *rows.hidden), (FIRST_MEMORY, &mut *rows.memory)] {
            let first = self.optional(inputs, port)?;
            for (row, to) in to.chunks_exact_mut(hidden).enumerate() {
                let at = self.sizes.state_at(dir, row);
                match first.get(at..at + hidden) {
                    Some(first) => to.copy_from_slice(first),
                    None => to.fill(0.0),
                }
            }
        }
        Ok(())
    }

    /// Takes all steps of a direction, each for all rows.
    fn run(
        &self,
        parallel: Parallel<'_>,
        dir: usize,
        weights: &Direction<'_>,
        lengths: &[i32],
        rows: &mut Rows<'_>,
        y: &mut [f32],
    ) -> Result<(), ExecError> {
        let sizes = &self.sizes;
        let Sizes { steps, batch, hidden, .. } = *sizes;
        let gates = C::GATES * hidden;
        let bias = biased(weights.state_bias);
        let len = |row: usize| lengths.get(row).map_or(steps, |&len| len.max(0) as usize);
        for i in 0..(0..batch).map(len).max().unwrap_or(0) {
            self.state.product.run(parallel, rows.hidden, weights.state, rows.gates, &bias)?;
            let states = rows.hidden.chunks_exact_mut(hidden);
            for ((row, hidden_row), own) in
                states.enumerate().zip(rows.gates.chunks_exact_mut(gates))
            {
                let Some(left) = len(row).checked_sub(i + 1) else { continue };
                let step = if sizes.is_backward(dir) { left } else { i };
                self.cell.step(Step {
                    input: &rows.input[sizes.x_row(step, row) * gates..][..gates],
                    gates: own,
                    hidden: hidden_row,
                    memory: rows.memory.chunks_exact_mut(hidden).nth(row).unwrap_or_default(),
                    peepholes: weights.peepholes,
                });
                let at = sizes.y_at(step, dir, row);
                if let Some(y) = y.get_mut(at..at + hidden) {
                    y.copy_from_slice(hidden_row);
                }
            }
        }
        Ok(())
    }
}
