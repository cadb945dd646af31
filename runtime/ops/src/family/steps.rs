//! Arithmetic progressions from a start to a limit, as Range computes.

use udo_api::{Bf16, DType, Element, Error, ExecError, F16, Io, Node, TypeSet, types};

use crate::family::partition::GRAIN;
use crate::number::refuse_type;

/// The element types.
pub(crate) const NUMBERS: TypeSet = types::FLOATS.or(types::I16).or(types::I32).or(types::I64);

/// The start of a progression and the difference between its elements.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Steps {
    Ints([i64; 2]),
    Floats([f64; 2]),
}

/// The largest count that f64 holds exactly.
const MOST: f64 = (1u64 << 53) as f64;

impl Steps {
    /// Returns the common type of start, limit and delta, inputs 0 to 2.
    pub(crate) fn dtype(node: &Node<'_>) -> Result<DType, Error> {
        let x = node.input(0)?;
        for port in [1, 2] {
            let other = node.input(port)?;
            if other.dtype() != x.dtype() {
                return Err(Error::new(format!("input {port} is {other}, input 0 is {x}")));
            }
        }
        x.dtype().ok_or_else(|| Error::new("input 0 is missing"))
    }

    /// Returns the progression up to a limit, exclusive, and its length; `None` if it does not end.
    pub(crate) fn floats([start, limit, delta]: [f64; 3]) -> Option<(Self, usize)> {
        let count = ((limit - start) / delta).ceil();
        let ends = delta != 0.0 && count.is_finite() && count <= MOST;
        // A negative count saturates to 0.
        ends.then_some((Self::Floats([start, delta]), count as usize))
    }

    /// Returns the progression of integers up to a limit, exclusive, and its length; `None` if it does not end.
    pub(crate) fn ints([start, limit, delta]: [i64; 3]) -> Option<(Self, usize)> {
        let distance = i128::from(limit) - i128::from(start);
        let delta_wide = i128::from(delta);
        let whole_steps = distance.checked_div(delta_wide)?;
        let count =
            whole_steps + i128::from(distance % delta_wide != 0 && (distance > 0) == (delta > 0));
        Some((Self::Ints([start, delta]), usize::try_from(count.max(0)).ok()?))
    }

    /// Returns element `index` of an integer progression.
    fn int(self, index: usize) -> i64 {
        match self {
            Self::Ints([start, delta]) => start.wrapping_add(delta.wrapping_mul(index as i64)),
            Self::Floats(_) => 0,
        }
    }

    /// Returns element `index` of a real progression, to be rounded by the caller.
    fn float(self, index: usize) -> f64 {
        match self {
            Self::Ints(_) => 0.0,
            Self::Floats([start, delta]) => start + index as f64 * delta,
        }
    }
}

/// Fills output 0 with the first elements of a progression; the second argument is their count.
pub(crate) type Fill = fn(Steps, usize, Io<'_>) -> Result<(), ExecError>;

/// Returns the function that fills outputs of a type.
pub(crate) fn filler(dtype: Option<DType>) -> Result<Fill, Error> {
    Ok(match dtype {
        Some(DType::F32) => |steps, count, io| fill(count, io, |index| steps.float(index) as f32),
        Some(DType::F64) => |steps, count, io| fill(count, io, |index| steps.float(index)),
        Some(DType::F16) => {
            |steps, count, io| fill(count, io, |index| F16::from_f32(steps.float(index) as f32))
        }
        Some(DType::Bf16) => {
            |steps, count, io| fill(count, io, |index| Bf16::from_f32(steps.float(index) as f32))
        }
        Some(DType::I16) => |steps, count, io| fill(count, io, |index| steps.int(index) as i16),
        Some(DType::I32) => |steps, count, io| fill(count, io, |index| steps.int(index) as i32),
        Some(DType::I64) => |steps, count, io| fill(count, io, |index| steps.int(index)),
        dtype => return Err(refuse_type(dtype)),
    })
}

fn fill<T: Element>(
    count: usize,
    mut io: Io<'_>,
    value_at: impl Fn(usize) -> T + Sync,
) -> Result<(), ExecError> {
    let y = &mut io.outputs.take::<T>(0)?[..count];
    io.parallel.chunks_mut(y, GRAIN, |chunk, y| {
        (chunk * GRAIN..).zip(y).for_each(|(index, y)| *y = value_at(index));
        Ok(())
    })
}
