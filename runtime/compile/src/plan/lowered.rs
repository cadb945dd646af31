//! A lowered graph: steps (calls of kernels, in order) and windows (the places of values in memory) with their
//! lifetimes, before windows have offsets.

use super::jump::Jump;
use super::region::{Life, Region};
use super::windows::Windows;
use super::{Port, Purpose, Step, WindowId, tie};
use crate::place::Pitch;
use udo_engine::cores::opencl::ClDevice;

/// Steps and windows, before windows have offsets.
#[derive(Default)]
pub(super) struct Lowered {
    pub(super) steps: Vec<Step>,
    pub(super) inputs: Vec<Port>,
    pub(super) outputs: Vec<Port>,
    pub(super) windows: Windows,
    /// The jumps, in order.
    pub(super) jumps: Vec<Jump>,
    /// The ranges of repeated steps, innermost first.
    pub(super) repeated: Vec<Life>,
    /// The copies that update the states of loops, innermost loops first.
    pub(super) renewals: Vec<Renewal>,
    /// The buffers that are exchanged after steps instead, in order.
    pub(super) exchanges: Vec<Exchange>,
    /// The device that holds the GPU's memory, if one is used.
    pub(super) device: Option<&'static ClDevice>,
    /// The number of values with bounded extents.
    pub(super) shapes: usize,
}

/// A copy after an iteration that updates a state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Renewal {
    /// The copying step.
    pub(super) step: usize,
    pub(super) state: WindowId,
    /// The window where the iteration leaves the next state.
    pub(super) next: WindowId,
    /// If the next state is a copy of another state: that state, and the copying step.
    pub(super) copy_of: Option<(WindowId, usize)>,
    /// The first step that updates states of this loop.
    pub(super) until: usize,
    /// The steps of the loop.
    pub(super) iteration: Life,
}

/// Two buffers that are exchanged after a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    /// The step.
    pub after: usize,
    /// The indices of the buffers.
    pub buffers: [usize; 2],
}

impl Lowered {
    /// Records for each window when it is used and by which steps.
    pub(super) fn record_lives(&mut self) {
        let Self { steps, inputs, outputs, windows, repeated, .. } = self;
        let end = steps.len();
        for (index, step) in steps.iter().enumerate() {
            let is_copied = tie::is_copied_by_rows(index, step);
            for operand in step.operands() {
                let Some(window) = operand.window() else { continue };
                let rows = windows.get(window).map(|window| window.region);
                let pitch = match operand.pitch {
                    _ if rows != Some(Region::from_desc(&operand.desc)) => Pitch::Refused,
                    Pitch::Refused if is_copied => Pitch::Taken,
                    pitch => pitch,
                };
                windows.touch(window, index, pitch);
                if matches!(step.purpose, Purpose::CacheMaintenance) {
                    // Its cache lines must not contain other values.
                    windows.set_port(window);
                }
            }
        }
        for window in inputs.iter().filter_map(|port| port.operand.window()) {
            // Inputs keep their values between runs.
            windows.touch(window, 0, Pitch::Refused);
            windows.touch(window, end, Pitch::Refused);
            windows.set_port(window);
        }
        for window in outputs.iter().filter_map(|port| port.operand.window()) {
            windows.touch(window, end, Pitch::Refused);
            windows.set_port(window);
        }
        // Values that enter or leave a loop must outlive all its iterations.
        for &steps in repeated.iter() {
            windows.outlive(steps);
        }
    }
}
