//! A graph that is lowered: steps and windows, and what is known of when they run, before windows have places.

use super::jump::Jump;
use super::region::{Life, Region};
use super::windows::Windows;
use super::{Port, Purpose, Step, WindowId, tie};
use crate::place::Pitch;
use udo_engine::cores::opencl::ClDevice;

/// Steps and windows, before windows have places.
#[derive(Default)]
pub(super) struct Lowered {
    pub(super) steps: Vec<Step>,
    pub(super) inputs: Vec<Port>,
    pub(super) outputs: Vec<Port>,
    pub(super) windows: Windows,
    /// Where a run may go on elsewhere than with the next step, in order.
    pub(super) jumps: Vec<Jump>,
    /// Steps that run again and again, inner ones first.
    pub(super) repeated: Vec<Life>,
    /// How states of trips get the elements for the next one, trip by trip, inner ones first.
    pub(super) renewals: Vec<Renewal>,
    /// What is exchanged behind steps instead, in order.
    pub(super) exchanges: Vec<Exchange>,
    /// The device that the memory of the GPU is on, if there is one and it is used.
    pub(super) device: Option<&'static ClDevice>,
    /// How many bounded values there are.
    pub(super) shapes: usize,
}

/// A copy behind a trip, by which a state gets the elements for the next one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Renewal {
    /// The step that copies.
    pub(super) step: usize,
    pub(super) state: WindowId,
    /// Where the trip leaves the elements.
    pub(super) next: WindowId,
    /// Where that is a copy of another state: that one, and the step that makes it.
    pub(super) aside: Option<(WindowId, usize)>,
    /// The first of the steps that renew states of these trips.
    pub(super) until: usize,
    pub(super) trip: Life,
}

/// Two buffers that are exchanged behind a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    pub after: usize,
    pub buffers: [usize; 2],
}

impl Lowered {
    /// Says of each window when it is touched, and by whom.
    pub(super) fn note_lives(&mut self) {
        let Self { steps, inputs, outputs, windows, repeated, .. } = self;
        let end = steps.len();
        for (at, step) in steps.iter().enumerate() {
            let is_copied = tie::is_copied_by_rows(at, step);
            for operand in step.operands() {
                let Some(window) = operand.window() else { continue };
                let rows = windows.get(window).map(|window| window.region);
                let pitch = match operand.pitch {
                    _ if rows != Some(Region::of(&operand.desc)) => Pitch::Refused,
                    Pitch::Refused if is_copied => Pitch::Taken,
                    pitch => pitch,
                };
                windows.touch(window, at, pitch);
                if matches!(step.purpose, Purpose::Upkeep) {
                    // Its lines are no other value's.
                    windows.set_port(window);
                }
            }
        }
        for window in inputs.iter().filter_map(|port| port.operand.window()) {
            // Inputs stay from run to run.
            windows.touch(window, 0, Pitch::Refused);
            windows.touch(window, end, Pitch::Refused);
            windows.set_port(window);
        }
        for window in outputs.iter().filter_map(|port| port.operand.window()) {
            windows.touch(window, end, Pitch::Refused);
            windows.set_port(window);
        }
        // What comes into a trip from before it, or leaves it, has to outlive all trips.
        for &trip in repeated.iter() {
            windows.outlive(trip);
        }
    }
}
