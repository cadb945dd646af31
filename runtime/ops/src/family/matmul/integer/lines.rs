//! Scales and zero points of a product's operands. An input holds one for the whole operand or one per line (row of a
//! left side or column of a right side), and then possibly others for each matrix of a batch.

use udo_api::{Bf16, DType, Element, Error, ExecError, F16, Inputs, Node};

/// The scales or zero points of an input.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lines {
    /// The input, if the node has it.
    port: Option<usize>,
    /// Elements per matrix: 1, or one per line.
    pub(super) count: usize,
    /// Whether each matrix of a batch has its own elements.
    pub(super) is_batched: bool,
}

/// The lines of an operand that have their own scale and zero point.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Along {
    Rows,
    Columns,
}

impl Lines {
    /// Reads the layout of input `port` for an operand of the extents `shape`.
    pub(super) fn read(
        node: &Node<'_>,
        port: usize,
        shape: &[usize],
        along: Along,
    ) -> Result<Self, Error> {
        if !node.has_input(port) {
            return Ok(Self::default());
        }
        let found = node.input(port)?;
        let with_count =
            |count: usize, is_batched: bool| Self { port: Some(port), count, is_batched };
        if found.len() == 1 {
            return Ok(with_count(1, false));
        }
        let [batch @ .., rows, cols] = shape else { return Err(misfit(node, port, shape)) };
        let (extent, line) = match along {
            Along::Rows => (*rows, [*rows, 1]),
            Along::Columns => (*cols, [1, *cols]),
        };
        let is_batched = batch.iter().product::<usize>() != 1;
        match found.shape() {
            [len] if *len == extent => Ok(with_count(extent, false)),
            [outer @ .., r, c] if outer == batch && [*r, *c] == line => {
                Ok(with_count(extent, is_batched))
            }
            _ => Err(misfit(node, port, shape)),
        }
    }

    pub(super) fn is_present(&self) -> bool {
        self.port.is_some()
    }

    /// Returns the elements of matrix `matrix`; empty if the node lacks the input.
    pub(super) fn get<'a, T: Element>(
        &self,
        inputs: &Inputs<'a>,
        matrix: usize,
    ) -> Result<&'a [T], ExecError> {
        let Some(port) = self.port else { return Ok(&[]) };
        self.matrix(inputs.get::<T>(port)?, matrix)
    }

    /// Returns the elements of matrix `matrix`; `elements` holds those of all matrices.
    pub(super) fn matrix<'a, T>(
        &self,
        elements: &'a [T],
        matrix: usize,
    ) -> Result<&'a [T], ExecError> {
        let first = if self.is_batched { matrix * self.count } else { 0 };
        let too_short = || ExecError::new(udo_api::Status::BAD_CALL);
        elements.get(first..first + self.count).ok_or_else(too_short)
    }

    /// Returns the port, which exists if [`Self::is_present`].
    pub(super) fn port(&self) -> usize {
        self.port.unwrap_or(usize::MAX)
    }
}

/// Float values in their storage type.
#[derive(Clone, Copy)]
pub(super) enum Reals<'a> {
    F32(&'a [f32]),
    F16(&'a [F16]),
    Bf16(&'a [Bf16]),
}

impl<'a> Reals<'a> {
    /// Returns the values of matrix `matrix`; empty if the node lacks the input.
    pub(super) fn read(
        lines: &Lines,
        inputs: &Inputs<'a>,
        matrix: usize,
    ) -> Result<Self, ExecError> {
        let Some(port) = lines.port else { return Ok(Self::F32(&[])) };
        Ok(match inputs.dtype(port)? {
            DType::F16 => Self::F16(lines.get(inputs, matrix)?),
            DType::Bf16 => Self::Bf16(lines.get(inputs, matrix)?),
            _ => Self::F32(lines.get(inputs, matrix)?),
        })
    }

    /// Returns the value of a line, or the first value if all lines share one; `None` if empty.
    pub(super) fn get(self, line: usize) -> Option<f32> {
        fn pick<T: Copy>(values: &[T], line: usize) -> Option<T> {
            values.get(line).or(values.first()).copied()
        }
        match self {
            Self::F32(values) => pick(values, line),
            Self::F16(values) => pick(values, line).map(F16::to_f32),
            Self::Bf16(values) => pick(values, line).map(Bf16::to_f32),
        }
    }
}

fn misfit(node: &Node<'_>, port: usize, shape: &[usize]) -> Error {
    let found = node.input(port).map_or_else(|_| String::new(), |found| found.to_string());
    Error::new(format!(
        "input {port} is {found}, expected one element, or one for each row of a left or column of a right side {shape:?}"
    ))
}
