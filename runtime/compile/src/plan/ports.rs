//! Finds inputs and outputs of the graph that need not be in the plan's arena: a run may bind them to the caller's
//! memory, or a session may give them memory of their own. Their buffers are movable.

use std::collections::BTreeSet;

use super::lowered::Lowered;
use super::windows::Windows;
use super::{Movable, Operand, WindowPlace};
use udo_engine::cores::Memory;
use udo_engine::package::BUILT_IN;

/// Marks the inputs, outputs and windows in movable buffers, and returns these buffers. A port that is only part of a
/// buffer stays in the arena, as does a buffer that is exchanged with another one after a step.
pub(super) fn movable(lowered: &mut Lowered, places: &mut [WindowPlace]) -> Vec<Movable> {
    let mut movable = Vec::new();
    let Lowered { steps, inputs, outputs, windows, .. } = lowered;
    let written = steps.iter().flat_map(|step| &step.outputs).filter_map(Operand::window);
    let written: BTreeSet<usize> =
        written.filter_map(|id| windows.get(id)).map(|window| window.buffer).collect();
    for port in inputs {
        let recorded = record(windows, &port.operand, places, &mut movable);
        // The caller's buffer for a bounded input has the size of the current extents: all consumers must know them.
        let consumers_know_extents = |buffer: usize| {
            let mut readers = steps.iter().flat_map(|step| &step.inputs);
            readers.all(|input| !is_in(windows, input, buffer) || input.shape == port.operand.shape)
        };
        let may_move = |buffer: usize| !written.contains(&buffer) && consumers_know_extents(buffer);
        port.moves = recorded.and_then(|(buffer, number)| may_move(buffer).then_some(number));
    }
    for port in outputs {
        let recorded = record(windows, &port.operand, places, &mut movable);
        // A bounded buffer of the caller is as large as the bound, and only the current extents may be written.
        // Built-in kernels guarantee that.
        let is_written_by_builtins = |buffer: usize| {
            let mut writers = steps
                .iter()
                .filter(|step| step.outputs.iter().any(|output| is_in(windows, output, buffer)));
            writers.all(|step| step.package.is_empty() || step.package == BUILT_IN)
        };
        let may_move =
            |buffer: usize| port.operand.shape.is_none() || is_written_by_builtins(buffer);
        port.moves = recorded.and_then(|(buffer, number)| may_move(buffer).then_some(number));
    }
    movable
}

fn is_in(windows: &Windows, operand: &Operand, buffer: usize) -> bool {
    operand.window().and_then(|id| windows.get(id)).is_some_and(|window| window.buffer == buffer)
}

/// Records the buffer of a port, unless another port uses it or it is exchanged. Returns the buffer and its index among
/// those recorded, if the port fills it.
fn record(
    windows: &Windows,
    port: &Operand,
    places: &mut [WindowPlace],
    movable: &mut Vec<Movable>,
) -> Option<(usize, usize)> {
    let id = port.window()?;
    let index = windows.get(id)?.buffer;
    let buffer = windows.buffers.get(index).filter(|buffer| buffer.memory == Memory::Host)?;
    let place_of = |&id: &usize| places.get(id).copied();
    let mut window_places = buffer.windows.iter().filter_map(place_of);
    let start = window_places.clone().map(|place| place.offset).min()?;
    if window_places.any(|place| place.moves.is_some() || place.exchanged.is_some()) {
        return None;
    }
    let number = movable.len();
    movable.push(Movable { start, bytes: buffer.bytes });
    for &window in &buffer.windows {
        if let Some(place) = places.get_mut(window) {
            place.moves = Some(number);
        }
    }
    (windows.filled(id) == Some(index)).then_some((index, number))
}
