//! Finds inputs and outputs that may be outside an arena: in memory that a run binds, or that a session owns.

use std::collections::BTreeSet;

use super::lowered::Lowered;
use super::windows::Windows;
use super::{Movable, Operand, WindowPlace};
use udo_engine::cores::Memory;
use udo_engine::package::BUILT_IN;

/// Marks the inputs, outputs and windows in buffers that may move, and returns these buffers. A port that is only part
/// of a buffer stays, as does a buffer that is exchanged.
pub(super) fn movable(lowered: &mut Lowered, places: &mut [WindowPlace]) -> Vec<Movable> {
    let mut all = Vec::new();
    let Lowered { steps, inputs, outputs, windows, .. } = lowered;
    let written = steps.iter().flat_map(|step| &step.outputs).filter_map(Operand::window);
    let written: BTreeSet<usize> =
        written.filter_map(|id| windows.get(id)).map(|window| window.buffer).collect();
    for port in inputs {
        let noted = note(windows, &port.operand, places, &mut all);
        // A bounded buffer has the size of the current extents: all its consumers must know them.
        let is_told = |buffer: usize| {
            let mut readers = steps.iter().flat_map(|step| &step.inputs);
            readers.all(|of| !is_in(windows, of, buffer) || of.shape == port.operand.shape)
        };
        let stays = |buffer: usize| !written.contains(&buffer) && is_told(buffer);
        port.moves = noted.and_then(|(buffer, number)| stays(buffer).then_some(number));
    }
    for port in outputs {
        let noted = note(windows, &port.operand, places, &mut all);
        // A bounded buffer of the caller is as large as the bound, and only the current extents may be written.
        // Built-in kernels guarantee that.
        let is_own = |buffer: usize| {
            let mut writers = steps
                .iter()
                .filter(|step| step.outputs.iter().any(|of| is_in(windows, of, buffer)));
            writers.all(|step| step.package.is_empty() || step.package == BUILT_IN)
        };
        let may_move = |buffer: usize| port.operand.shape.is_none() || is_own(buffer);
        port.moves = noted.and_then(|(buffer, number)| may_move(buffer).then_some(number));
    }
    all
}

fn is_in(windows: &Windows, operand: &Operand, buffer: usize) -> bool {
    operand.window().and_then(|id| windows.get(id)).is_some_and(|window| window.buffer == buffer)
}

/// Records the buffer of a port, unless another port uses it or it is exchanged. Returns the buffer and its index among
/// those recorded, if the port fills it.
fn note(
    windows: &Windows,
    port: &Operand,
    places: &mut [WindowPlace],
    all: &mut Vec<Movable>,
) -> Option<(usize, usize)> {
    let id = port.window()?;
    let buffer = windows.get(id)?.buffer;
    let of = windows.buffers.get(buffer).filter(|of| of.memory == Memory::Host)?;
    let of_window = |&id: &usize| places.get(id).copied();
    let mut taken = of.windows.iter().filter_map(of_window);
    let start = taken.clone().map(|place| place.offset).min()?;
    if taken.any(|place| place.moves.is_some() || place.exchanged.is_some()) {
        return None;
    }
    let number = all.len();
    all.push(Movable { start, bytes: of.bytes });
    for &window in &of.windows {
        if let Some(place) = places.get_mut(window) {
            place.moves = Some(number);
        }
    }
    (windows.filled(id) == Some(buffer)).then_some((buffer, number))
}
