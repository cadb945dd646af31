//! Finds pairs of a graph input and a graph output that can share memory, such as a cache that a run updates: no step
//! reads the input after the output is written, or the step that writes the output works in place.

use udo_api::InPlace;

use super::jump::Jump;
use super::lowered::Lowered;
use super::{Operand, Step};
use udo_graph::graph::InPlaceError;

/// An input and an output that a run may bind to the same memory. Each fills a movable buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedPlace {
    /// The input's index among the plan's inputs.
    pub input: usize,
    /// The output's index among the plan's outputs.
    pub output: usize,
    /// The step that reads the input while it writes the output, and its ports, if there is one.
    pub step: Option<(usize, InPlace)>,
}

/// Returns those of the pairs that can share memory.
pub(super) fn shared(
    lowered: &Lowered,
    pairs: &[(String, String)],
) -> Result<Vec<SharedPlace>, InPlaceError> {
    let mut shared = Vec::new();
    for (input, output) in pairs {
        let Lowered { inputs, outputs, .. } = lowered;
        let indices = (
            inputs.iter().position(|port| port.name == *input),
            outputs.iter().position(|port| port.name == *output),
        );
        let (Some(from), Some(to)) = indices else { continue };
        let (Some(source), Some(target)) = (inputs.get(from), outputs.get(to)) else { continue };
        let (source_desc, target_desc) = (&source.operand.desc, &target.operand.desc);
        let is_alike = source_desc.dtype() == target_desc.dtype()
            && source_desc.full_shape() == target_desc.full_shape();
        if !is_alike {
            return Err(InPlaceError::Unlike {
                input: input.clone(),
                found: source_desc.to_string(),
                output: output.clone(),
                other: target_desc.to_string(),
            });
        }
        if source.moves.is_some() && target.moves.is_some() {
            shared.extend(lowered.shared(from, to));
        }
    }
    Ok(shared)
}

impl Lowered {
    /// Returns the pair if it can share memory.
    fn shared(&self, input: usize, output: usize) -> Option<SharedPlace> {
        let from = self.buffer(&self.inputs.get(input)?.operand)?;
        let to = self.buffer(&self.outputs.get(output)?.operand)?;
        let is_in = |operand: &Operand, buffer: usize| self.buffer(operand) == Some(buffer);
        if from == to || self.outputs.iter().any(|port| is_in(&port.operand, from)) {
            return None;
        }
        let reads = |step: &Step| step.operands().any(|operand| is_in(operand, from));
        let writes = |step: &Step| step.outputs.iter().any(|operand| is_in(operand, to));
        let first_write = self.steps.iter().position(writes)?;
        let Some(last_read) = self.steps.iter().rposition(reads) else {
            return Some(SharedPlace { input, output, step: None });
        };
        // Steps that run again read the input again, and so may a jump's condition.
        let reads_again = |jump: &Jump| {
            jump.to <= last_read && first_write <= jump.after || jump.after == first_write
        };
        if first_write < last_read || self.jumps.iter().any(reads_again) {
            return None;
        }
        let pair = if first_write == last_read {
            Some((first_write, self.in_place_pair(first_write, from, to)?))
        } else {
            None
        };
        Some(SharedPlace { input, output, step: pair })
    }

    /// Returns the ports through which a step overwrites buffer `from` with buffer `to`, if it can.
    fn in_place_pair(&self, step: usize, from: usize, to: usize) -> Option<InPlace> {
        let step = self.steps.get(step)?;
        let operands_in = |buffer| step.operands().filter(move |o| self.buffer(o) == Some(buffer));
        let has_one_of_each = operands_in(from).count() == 1 && operands_in(to).count() == 1;
        let fits = |pair: &InPlace| {
            let input = step.inputs.get(usize::from(pair.input));
            let output = step.outputs.get(usize::from(pair.output));
            input.zip(output).is_some_and(|(input, output)| {
                self.fills(input, from)
                    && self.fills(output, to)
                    && input.in_place.is_none()
                    && output.in_place.is_none()
                    && input.desc.dtype() == output.desc.dtype()
                    && input.desc.full_shape() == output.desc.full_shape()
                    && input.desc.full_shape().is_fixed()
            })
        };
        step.kernel.in_place_pairs().iter().copied().find(|pair| has_one_of_each && fits(pair))
    }

    fn buffer(&self, operand: &Operand) -> Option<usize> {
        Some(self.windows.get(operand.window()?)?.buffer)
    }

    fn fills(&self, operand: &Operand, buffer: usize) -> bool {
        operand.window().and_then(|id| self.windows.filled(id)) == Some(buffer)
    }
}
