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
    for port in inputs {
        port.moves = port.operand.window().and_then(|id| {
            let buffer = windows.filled(id).filter(|buffer| !written.contains(buffer))?;
            note(windows, buffer, places, &mut all)
        });
    }
    for port in outputs {
        let window = port.operand.window();
        port.moves = window.and_then(|id| note(windows, windows.filled(id)?, places, &mut all));
    }
    all
}

/// Notes a buffer that no other port has, and that stays in its place otherwise.
fn note(
    windows: &Windows,
    buffer: usize,
    places: &mut [WindowPlace],
    all: &mut Vec<Movable>,
) -> Option<usize> {
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
    Some(number)
}
