//! Extents of a recurrent node, and offsets of steps, rows and directions.

use udo_api::{Error, Node};

use super::{BIAS, Cell, FIRST_HIDDEN, FIRST_MEMORY, LENGTHS, PEEPHOLES, R, W, X};

/// Properties of a cell that determine the extents of its inputs: gates and peephole weights per state element.
#[derive(Clone, Copy)]
pub(super) struct Counts {
    pub(super) gates: usize,
    peepholes: usize,
    is_quantized: bool,
}

impl Counts {
    /// Returns the counts of the cell `C`.
    pub(super) const fn for_cell<C: Cell>() -> Self {
        Self { gates: C::GATES, peepholes: C::PEEPHOLES.0, is_quantized: C::IS_QUANTIZED }
    }
}

/// The directions in which a node reads a sequence.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Reverse,
    Both,
}

/// The extents of a node.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) steps: usize,
    pub(super) batch: usize,
    /// Elements of an input.
    pub(super) width: usize,
    /// Elements of a hidden state.
    pub(super) hidden: usize,
    /// Number of directions: 1 or 2.
    pub(super) dirs: usize,
    direction: Direction,
    /// Whether the batch is the first axis (`layout` 1) instead of the steps.
    batch_first: bool,
}

impl Sizes {
    pub(super) fn read(node: &Node<'_>, counts: Counts) -> Result<Self, Error> {
        let direction = match node.text("direction")? {
            "forward" => Direction::Forward,
            "reverse" => Direction::Reverse,
            "bidirectional" => Direction::Both,
            found => return Err(Error::new(format!("parameter \"direction\" is {found:?}"))),
        };
        let dirs = if direction == Direction::Both { 2 } else { 1 };
        let batch_first = node.flag("layout")?;
        let (x, r) = (node.input(X)?, node.input(R)?);
        let (&[a, b, width], &[_, first, last]) = (x.shape(), r.shape()) else {
            return Err(Error::new(format!("inputs are {x} and {r}, expected rank 3")));
        };
        let hidden = if counts.is_quantized { first } else { last };
        if !x.full_shape().is_fixed() {
            return Err(Error::new(format!("input {X} is {x}, expected a fixed shape")));
        }
        let (steps, batch) = if batch_first { (b, a) } else { (a, b) };
        if node.has_param("hidden_size") && usize::try_from(node.int("hidden_size")?) != Ok(hidden)
        {
            let found = node.int("hidden_size")?;
            return Err(Error::new(format!(
                "parameter \"hidden_size\" is {found}, input {R} is {r}"
            )));
        }
        let sizes = Self { steps, batch, width, hidden, dirs, direction, batch_first };
        sizes.check(node, counts)?;
        Ok(sizes)
    }

    /// Checks the extents of all inputs but the sequences.
    fn check(&self, node: &Node<'_>, counts: Counts) -> Result<(), Error> {
        let Counts { gates, peepholes, is_quantized } = counts;
        let &Self { batch, width, hidden, dirs, .. } = self;
        let state = self.state_shape();
        let weights = |depth: usize| {
            let sums = gates * hidden;
            if is_quantized { [dirs, depth, sums] } else { [dirs, sums, depth] }
        };
        let expected: [(usize, &[usize]); 7] = [
            (W, &weights(width)),
            (R, &weights(hidden)),
            (BIAS, &[dirs, 2 * gates * hidden]),
            (LENGTHS, &[batch]),
            (FIRST_HIDDEN, &state),
            (FIRST_MEMORY, &state),
            (PEEPHOLES, &[dirs, peepholes * hidden]),
        ];
        for (port, shape) in expected {
            if node.has_input(port) && node.input(port)?.shape() != shape {
                let found = node.input(port)?;
                return Err(Error::new(format!("input {port} is {found}, expected {shape:?}")));
            }
        }
        Ok(())
    }

    fn state_shape(&self) -> [usize; 3] {
        let &Self { batch, dirs, hidden, batch_first, .. } = self;
        if batch_first { [batch, dirs, hidden] } else { [dirs, batch, hidden] }
    }

    /// Returns the shapes of the states of all steps, and of the last states.
    pub(super) fn output_shapes(&self) -> [Vec<usize>; 2] {
        let &Self { steps, batch, dirs, hidden, batch_first, .. } = self;
        let all_steps = if batch_first {
            vec![batch, steps, dirs, hidden]
        } else {
            vec![steps, dirs, batch, hidden]
        };
        [all_steps, self.state_shape().to_vec()]
    }

    /// Whether a direction runs from the end of a sequence.
    pub(super) fn is_backward(&self, dir: usize) -> bool {
        dir == 1 || self.direction == Direction::Reverse
    }

    /// Returns the offset of the state of a direction and batch row.
    pub(super) fn state_at(&self, dir: usize, row: usize) -> usize {
        let index = if self.batch_first { row * self.dirs + dir } else { dir * self.batch + row };
        index * self.hidden
    }

    /// Returns the input row of a step and batch row.
    pub(super) fn x_row(&self, step: usize, row: usize) -> usize {
        if self.batch_first { row * self.steps + step } else { step * self.batch + row }
    }

    /// Returns the offset of a step's output.
    pub(super) fn y_at(&self, step: usize, dir: usize, row: usize) -> usize {
        let index = if self.batch_first {
            (row * self.steps + step) * self.dirs + dir
        } else {
            (step * self.dirs + dir) * self.batch + row
        };
        index * self.hidden
    }
}
