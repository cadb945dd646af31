//! Makes windows share memory where steps tie their tensors: inputs and outputs that hold the same elements, and
//! outputs that may overwrite inputs. This saves copies and memory.
//!
//! Ties are processed by benefit. A step whose outputs are all in place is removed. If only some are, the others are
//! copied.

use udo_api::abi::{Tie, ties};
use udo_api::{InPlace, TensorDesc};

use super::lowered::Lowered;
use super::region::{Life, Region};
use super::tie::{part_of, sides, ties_all_outputs, within};
use super::windows::{Share, WindowId, Windows, Within};
use super::{FinalizedKernel, Operand, Place, PlanError, PlanOptions, Purpose, Step, states};
use crate::place::Pitch;

/// A tie between an input and an output with the same elements.
#[derive(Clone, Copy, Debug)]
struct TieCandidate {
    step: usize,
    tie: Tie,
    bytes: usize,
}

/// Makes windows share memory where possible, and removes steps without work. `copy` returns the kernel that copies a
/// tensor, on the device (`true`) or on the host.
pub(super) fn unify(
    lowered: &mut Lowered,
    options: &PlanOptions,
    mut copy: impl FnMut(&TensorDesc, bool) -> Result<FinalizedKernel, PlanError>,
) -> Result<(), PlanError> {
    if options.keeps_states {
        lowered.record_idle();
    }
    let mut realized = unify_ties(lowered, options);
    if options.reuses_inputs {
        overwrite(lowered, &realized);
    }
    if options.keeps_states {
        states::elide_copies(lowered, &mut realized);
    }
    rewrite(lowered, &realized, &mut copy)
}

/// Returns the ties of each step whose two sides share memory now.
fn unify_ties(lowered: &mut Lowered, options: &PlanOptions) -> Vec<Vec<Tie>> {
    let mut candidates: Vec<TieCandidate> = Vec::new();
    for (index, step) in lowered.steps.iter().enumerate() {
        if ties_all_outputs(index, step) {
            candidates.extend(step.ties.iter().map(|&tie| {
                let bytes = part_of(step, &tie).map_or(0, |part| part.desc.size_bytes());
                TieCandidate { step: index, tie, bytes }
            }));
        }
    }
    // Views come first: anything that prevents them would also prevent larger ones. Results of branches come last,
    // because a value that equals one only while the branch runs must not be placed there afterwards.
    let merges = |step: usize| lowered.steps.get(step).is_some_and(Step::is_merge);
    candidates.sort_by_key(|candidate| {
        let is_part = candidate.tie.kind != ties::SAME;
        (merges(candidate.step), is_part, std::cmp::Reverse(candidate.bytes))
    });
    let mut realized = vec![Vec::new(); lowered.steps.len()];
    for TieCandidate { step, tie, .. } in candidates {
        if (tie.kind == ties::SAME || options.elides_concats) && unify_one(lowered, step, &tie) {
            realized[step].push(tie);
            if realized[step].len() == lowered.steps[step].ties.len() {
                let touched: Vec<_> =
                    lowered.steps[step].operands().filter_map(Operand::window).collect();
                lowered.windows.drop_step(step, &touched);
            }
        }
    }
    realized
}

/// Makes the two sides of a tie share memory, if possible; returns whether they do.
fn unify_one(lowered: &mut Lowered, step: usize, tie: &Tie) -> bool {
    let Some((part, whole)) = lowered.steps.get(step).and_then(|s| sides(s, tie)) else {
        return false;
    };
    let (Some(p), Some(w)) = (part.window(), whole.window()) else { return false };
    let Some(within) = within(step, tie, &part.desc, &whole.desc) else { return false };
    // A reshaped part may have other rows in the whole.
    let rows = lowered.windows.get(p).map(|window| window.region.row);
    if within.pitch.is_some() && rows != Some(Region::from_desc(&part.desc).row) {
        return false;
    }
    let has_port = [p, w].map(|id| lowered.windows.buffer_of(id).is_none_or(|b| b.has_port));
    // The memory of an input or output differs in each run.
    if tie.kind != ties::SAME && has_port.contains(&true) {
        return false;
    }
    if let Some(&Purpose::Merge { since }) = lowered.steps.get(step).map(|s| &s.purpose)
        && !is_live_within_branch(lowered, w, Life { first: since, last: step })
    {
        return false;
    }
    lowered.windows.unify(p, w, within, Share::Content)
}

/// Returns whether everything that shares memory with a window is live only within a branch.
fn is_live_within_branch(lowered: &Lowered, id: WindowId, branch: Life) -> bool {
    let windows = &lowered.windows;
    let Some(buffer) = windows.buffer_of(id) else { return false };
    let life = buffer.life(&windows.all);
    !buffer.has_port && life.is_some_and(|l| branch.first <= l.first && l.last <= branch.last)
}

/// Overwrites inputs that die at a step with its outputs, largest first.
fn overwrite(lowered: &mut Lowered, realized: &[Vec<Tie>]) {
    let mut candidates: Vec<(usize, InPlace, usize)> = Vec::new();
    for (index, step) in lowered.steps.iter().enumerate() {
        if matches!(step.purpose, Purpose::Node { .. }) && realized[index].is_empty() {
            let sized = step.kernel.in_place_pairs().iter().filter_map(|&pair| {
                Some((index, pair, step.outputs.get(usize::from(pair.output))?.desc.size_bytes()))
            });
            candidates.extend(sized);
        }
    }
    candidates.sort_by_key(|(.., bytes)| std::cmp::Reverse(*bytes));
    for (index, pair, _) in candidates {
        let Some((from, to)) = overwritable(lowered, index, pair) else { continue };
        let within = Within { step: index, offset: 0, pitch: None };
        if !lowered.windows.unify(from, to, within, Share::Overwrite { at: index }) {
            continue;
        }
        let step = &mut lowered.steps[index];
        if let Some(input) = step.inputs.get_mut(usize::from(pair.input)) {
            input.in_place = Some(pair.output);
        }
        if let Some(output) = step.outputs.get_mut(usize::from(pair.output)) {
            output.in_place = Some(pair.input);
        }
    }
}

/// Returns the windows of a pair if the output fits the input's place exactly and no other tensor of the call has to be
/// strided.
fn overwritable(lowered: &Lowered, index: usize, pair: InPlace) -> Option<(WindowId, WindowId)> {
    let step = lowered.steps.get(index)?;
    let input = step.inputs.get(usize::from(pair.input))?;
    let output = step.outputs.get(usize::from(pair.output))?;
    let (from, to) = (input.window()?, output.window()?);
    let is_used_once = step.operands().filter(|o| o.window() == Some(from)).count() == 1;
    let is_unpaired = input.in_place.is_none() && output.in_place.is_none();
    let is_alike = input.desc.dtype() == output.desc.dtype()
        && input.desc.full_shape() == output.desc.full_shape()
        && input.desc.full_shape().is_fixed();
    let is_dense = |operand: &Operand| {
        let window = operand.window().and_then(|id| lowered.windows.get(id));
        window.is_none_or(|window| window.region.is_dense())
    };
    let fits = is_used_once && is_unpaired && is_alike && from != to;
    (fits && step.operands().all(is_dense)).then_some((from, to))
}

/// Returns whether a step accepts the strides of its tensors.
fn accepts_strides(windows: &Windows, step: &Step) -> bool {
    step.operands().all(|operand| {
        let window = operand.window().and_then(|id| windows.get(id));
        operand.pitch != Pitch::Refused || window.is_none_or(|window| window.region.is_dense())
    })
}

/// Removes steps whose outputs are all in place, and adds copies where only some are.
fn rewrite(
    lowered: &mut Lowered,
    realized: &[Vec<Tie>],
    copy: &mut impl FnMut(&TensorDesc, bool) -> Result<FinalizedKernel, PlanError>,
) -> Result<(), PlanError> {
    let steps = std::mem::take(&mut lowered.steps);
    // The new index of each step; steps are removed or replaced by copies.
    let mut starts = Vec::with_capacity(steps.len() + 1);
    for (index, (step, realized)) in steps.into_iter().zip(realized).enumerate() {
        starts.push(lowered.steps.len());
        if realized.is_empty() && accepts_strides(&lowered.windows, &step) {
            for window in
                step.operands().filter_map(|o| o.window().filter(|_| o.pitch == Pitch::Refused))
            {
                lowered.windows.touch(window, index, Pitch::Refused);
            }
            lowered.steps.push(step);
            continue;
        }
        let missing: Vec<Tie> =
            step.ties.iter().filter(|tie| !realized.contains(tie)).copied().collect();
        for tie in missing {
            if part_of(&step, &tie).is_some_and(|part| part.desc.size_bytes() == 0) {
                continue;
            }
            let (input, output) = copied(lowered, index, &step, &tie)
                .ok_or_else(|| PlanError::Broken(format!("a part of node {:?}", step.name)))?;
            let kernel = copy(&input.desc, step.is_on_device)?;
            lowered.steps.push(Step {
                kernel,
                ties: Vec::new(),
                purpose: step.purpose.clone(),
                depth: step.depth,
                name: step.name.clone(),
                op: "Copy".to_owned(),
                package: String::new(),
                core: step.core,
                is_on_device: step.is_on_device,
                guard: None,
                inputs: vec![input],
                outputs: vec![output],
            });
        }
    }
    starts.push(lowered.steps.len());
    for jump in &mut lowered.jumps {
        *jump = jump.moved(&starts);
    }
    lowered.jumps.sort_by_key(|jump| jump.after);
    for exchange in &mut lowered.exchanges {
        exchange.after = starts.get(exchange.after).copied().unwrap_or(usize::MAX);
    }
    lowered.exchanges.sort_by_key(|exchange| exchange.after);
    Ok(())
}

/// Returns the source and destination of a copy for a tie whose sides are in different places.
fn copied(
    lowered: &mut Lowered,
    index: usize,
    step: &Step,
    tie: &Tie,
) -> Option<(Operand, Operand)> {
    let (part, whole) = sides(step, tie)?;
    let within = within(index, tie, &part.desc, &whole.desc)?;
    let region = Region::from_desc(&part.desc);
    let id = lowered.windows.add_part(whole.window()?, region, within, index)?;
    let part_of_whole = Operand { place: Some(Place::Window(id)), in_place: None, ..part.clone() };
    Some(if tie.kind == ties::INPUT_IN_OUTPUT {
        (part.clone(), part_of_whole)
    } else {
        (part_of_whole, part.clone())
    })
}
