//! Ties between a step's inputs and outputs: an input and an output, or parts of them, that hold the same elements, as
//! in a view, a concat or a split. Kernels declare ties, or they follow from facts of the operator. If tied tensors
//! share memory, the step needs no copy.

use udo_api::abi::{Tie, ties};
use udo_api::{Facts, TensorDesc};

use super::windows::Within;
use super::{Operand, Step};

/// The first input and the first output hold the same elements.
pub(super) const SAME: Tie = Tie {
    size: Tie::SIZE,
    kind: ties::SAME,
    input: 0,
    output: 0,
    axis: 0,
    reserved: 0,
    offset: 0,
    reserved_words: [0; 2],
};

/// Returns the ties that a kernel declares, and those that follow from its operator's facts.
pub(super) fn declared_and_implied(
    facts: Facts,
    declared: &[Tie],
    inputs: &[Operand],
    outputs: &[Operand],
) -> Vec<Tie> {
    if !declared.is_empty() {
        return declared.to_vec();
    }
    match (inputs.first(), outputs) {
        (Some(input), [output]) if facts.has(Facts::VIEW) => {
            let is_same = input.desc.size_bytes() == output.desc.size_bytes();
            if is_same { vec![SAME] } else { Vec::new() }
        }
        (_, [output]) if facts.has(Facts::CONCAT) => {
            concat_ties(inputs, &output.desc).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

/// Returns the ties of a concat: each input is a part of the output.
fn concat_ties(inputs: &[Operand], output: &TensorDesc) -> Option<Vec<Tie>> {
    let whole = output.shape();
    let present = || inputs.iter().enumerate().filter(|(_, input)| !input.desc.is_absent());
    let is_along = |axis: usize| {
        let others_are_equal = present().all(|(_, input)| {
            let part = input.desc.shape();
            let mut others = part.iter().zip(whole).enumerate();
            part.len() == whole.len() && others.all(|(index, (p, w))| index == axis || p == w)
        });
        let sum: usize = present().filter_map(|(_, input)| input.desc.shape().get(axis)).sum();
        others_are_equal && whole.get(axis) == Some(&sum)
    };
    let axis = (0..whole.len()).find(|&axis| is_along(axis))?;
    let mut offset = 0;
    let tie = |(port, input): (usize, &Operand)| {
        let (input_port, axis_number) = (u32::try_from(port).ok()?, u32::try_from(axis).ok()?);
        let part_offset = offset;
        offset += *input.desc.shape().get(axis)? as u64;
        Some(Tie {
            size: Tie::SIZE,
            kind: ties::INPUT_IN_OUTPUT,
            input: input_port,
            output: 0,
            axis: axis_number,
            reserved: 0,
            offset: part_offset,
            reserved_words: [0; 2],
        })
    };
    present().map(tie).collect()
}

/// Returns whether a step is unnecessary if all its ties are realized by shared memory, and each tie can be replaced by
/// a copy.
pub(super) fn ties_all_outputs(index: usize, step: &Step) -> bool {
    let is_tied = |port: usize| step.ties.iter().any(|tie| tie.output as usize == port);
    let mut outputs = step.outputs.iter().enumerate();
    let can_copy = |tie: &Tie| {
        let sides = sides(step, tie);
        sides.and_then(|(part, whole)| within(index, tie, &part.desc, &whole.desc)).is_some()
    };
    !step.ties.is_empty()
        && outputs.all(|(port, o)| o.desc.is_absent() || is_tied(port))
        && step.ties.iter().all(can_copy)
}

/// Returns whether a step only copies parts of rows.
pub(super) fn is_copied_by_rows(index: usize, step: &Step) -> bool {
    let is_part_of_rows = |tie: &Tie| {
        let sides = sides(step, tie);
        let within = sides.and_then(|(part, whole)| within(index, tie, &part.desc, &whole.desc));
        within.is_some_and(|within| within.pitch.is_some())
    };
    !step.is_on_device && ties_all_outputs(index, step) && step.ties.iter().all(is_part_of_rows)
}

/// Returns the smaller side of a tie, the part.
pub(super) fn part_of<'a>(step: &'a Step, tie: &Tie) -> Option<&'a Operand> {
    sides(step, tie).map(|(part, _)| part)
}

/// Returns the smaller side of a tie (the part) and the larger one (the whole).
pub(super) fn sides<'a>(step: &'a Step, tie: &Tie) -> Option<(&'a Operand, &'a Operand)> {
    let input = step.inputs.get(tie.input as usize)?;
    let output = step.outputs.get(tie.output as usize)?;
    Some(if tie.kind == ties::INPUT_IN_OUTPUT { (input, output) } else { (output, input) })
}

/// Returns where the part is in the whole, if both are fixed and the part is contiguous, or contiguous in each row.
pub(super) fn within(
    step: usize,
    tie: &Tie,
    part: &TensorDesc,
    whole: &TensorDesc,
) -> Option<Within> {
    let are_fixed = part.full_shape().is_fixed() && whole.full_shape().is_fixed();
    let are_alike = part.dtype() == whole.dtype() && part.encodings() == whole.encodings();
    if !are_fixed || !are_alike {
        return None;
    }
    if tie.kind == ties::SAME {
        return Some(Within { step, offset: 0, pitch: None });
    }
    let element = part.dtype()?.size_bytes();
    let (axis, dims) = (tie.axis as usize, whole.shape());
    let (outer, inner) = (dims.get(..axis)?, dims.get(axis + 1..)?);
    let inner_bytes = inner.iter().try_fold(element, |n, &dim| n.checked_mul(dim))?;
    let offset = usize::try_from(tie.offset).ok()?.checked_mul(inner_bytes)?;
    if outer.iter().all(|&dim| dim == 1) {
        return Some(Within { step, offset, pitch: None });
    }
    let pitch = dims.get(axis)?.checked_mul(element)?;
    inner.is_empty().then_some(Within { step, offset, pitch: Some(pitch) })
}
