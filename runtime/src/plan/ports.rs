//! Inputs and outputs that may lie elsewhere than in an arena: where a run is bound to, or where a session keeps them.

use std::collections::BTreeSet;

use super::lower::Lowered;
use super::windows::Windows;
use super::{Movable, Operand, WindowPlace};
use crate::cores::Memory;

/// Says at inputs and outputs, and at all windows in their buffers, which of the buffers they fill may lie elsewhere; those
/// buffers. One of which the port is a part stays, and so does one that is exchanged.
pub(super) fn movable(lowered: &mut Lowered, places: &mut [WindowPlace]) -> Vec<Movable> {
    let mut all = Vec::new();
    let Lowered { steps, inputs, outputs, windows, .. } = lowered;
    let written = steps.iter().flat_map(|step| &step.outputs).filter_map(Operand::window);
    let written: BTreeSet<usize> =
        written.filter_map(|id| windows.get(id)).map(|window| window.buffer).collect();
    let is_written = |buffer: &usize| written.contains(buffer);
    for port in inputs {
        port.moves = note(windows, &port.operand, places, &mut all)
            .and_then(|(buffer, number)| (!is_written(&buffer)).then_some(number));
    }
    for port in outputs {
        port.moves = note(windows, &port.operand, places, &mut all).map(|(_, number)| number);
    }
    all
}

/// Notes the buffer of a port, unless another port has it, or it is exchanged; the buffer and its number among those noted, if
/// the port fills it.
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
