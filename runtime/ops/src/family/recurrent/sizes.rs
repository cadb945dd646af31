//! The extents of a recurrent node, and where steps, rows and directions lie.

use udo_api::{Error, Node};

use super::{BIAS, Cell, FIRST_HIDDEN, FIRST_MEMORY, LENGTHS, PEEPHOLES, R, W, X};

/// What a cell has for each element of its state.
#[derive(Clone, Copy)]
pub(super) struct Counts {
    pub(super) gates: usize,
    peepholes: usize,
    is_quantized: bool,
}

impl Counts {
    pub(super) const fn of<C: Cell>() -> Self {
        Self { gates: C::GATES, peepholes: C::PEEPHOLES.0, is_quantized: C::IS_QUANTIZED }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Reverse,
    Both,
}

#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) steps: usize,
    pub(super) batch: usize,
    pub(super) width: usize,
    pub(super) hidden: usize,
    pub(super) dirs: usize,
    direction: Direction,
    batch_first: bool,
}

impl Sizes {
    pub(super) fn read(node: &Node<'_>, counts: Counts) -> Result<Self, Error> {
        let direction = match node.text("direction")? {
            "forward" => Direction::Forward,
            "reverse" => Direction::Reverse,
            "bidirectional" => Direction::Both,
            other => return Err(Error::new(format!("parameter \"direction\" is {other:?}"))),
        };
        let dirs = if direction == Direction::Both { 2 } else { 1 };
        let batch_first = node.flag("layout")?;
        let (x, r) = (node.input(X)?, node.input(R)?);
        let (&[a, b, width], &[_, first, last]) = (x.shape(), r.shape()) else {
            return Err(Error::new(format!("inputs are {x} and {r}, wanted rank 3")));
        };
        let hidden = if counts.is_quantized { first } else { last };
        if !x.full_shape().is_fixed() {
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
            let all = gates * hidden;
            if is_quantized { [dirs, depth, all] } else { [dirs, all, depth] }
        };
        let wanted: [(usize, &[usize]); 7] = [
            (W, &weights(width)),
            (R, &weights(hidden)),
            (BIAS, &[dirs, 2 * gates * hidden]),
            (LENGTHS, &[batch]),
            (FIRST_HIDDEN, &state),
            (FIRST_MEMORY, &state),
            (PEEPHOLES, &[dirs, peepholes * hidden]),
        ];
        for (port, shape) in wanted {
            if node.has_input(port) && node.input(port)?.shape() != shape {
                let found = node.input(port)?;
                return Err(Error::new(format!("input {port} is {found}, wanted {shape:?}")));
            }
        }
        Ok(())
    }

    fn state_shape(&self) -> [usize; 3] {
        let &Self { batch, dirs, hidden, batch_first, .. } = self;
        if batch_first { [batch, dirs, hidden] } else { [dirs, batch, hidden] }
    }

    /// The shapes of the states of every step, and of the last ones.
    pub(super) fn output_shapes(&self) -> [Vec<usize>; 2] {
        let &Self { steps, batch, dirs, hidden, batch_first, .. } = self;
        let all = if batch_first {
            vec![batch, steps, dirs, hidden]
        } else {
            vec![steps, dirs, batch, hidden]
        };
        [all, self.state_shape().to_vec()]
    }

    /// Whether a direction starts at the end of a sequence.
    pub(super) fn is_backward(&self, dir: usize) -> bool {
        dir == 1 || self.direction == Direction::Reverse
    }

    /// Where the state of a direction and a row of the batch starts.
    pub(super) fn state_at(&self, dir: usize, row: usize) -> usize {
        let place = if self.batch_first { row * self.dirs + dir } else { dir * self.batch + row };
        place * self.hidden
    }

    /// Which row of the input a step and a row of the batch have.
    pub(super) fn x_row(&self, step: usize, row: usize) -> usize {
        if self.batch_first { row * self.steps + step } else { step * self.batch + row }
    }

    /// Where the output of a step starts.
    pub(super) fn y_at(&self, step: usize, dir: usize, row: usize) -> usize {
        let place = if self.batch_first {
            (row * self.steps + step) * self.dirs + dir
        } else {
            (step * self.dirs + dir) * self.batch + row
        };
        place * self.hidden
    }
}
