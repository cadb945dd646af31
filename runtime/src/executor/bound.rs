//! Inputs and outputs in memory that a run binds, so that they are not copied.
//!
//! Each movable buffer has a list of its tensors, whose addresses change with it.

use std::ops::Range;

use udo_api::Shape;

use super::Executor;
use super::carried::Carried;
use super::extents::SharedArg;
use super::memory::aligned;
use udo_compile::plan::{Movable, Operand, Port, SharedPlace, WindowPlace};
use udo_engine::device::{self, SpecDetails, TensorSpec};
use udo_engine::run::Bindings;

/// A movable buffer and its current address.
pub(super) struct Moved {
    /// Its planned offset in the host's arena.
    planned: usize,
    bytes: usize,
    /// Its address in the session's own memory.
    home: *mut u8,
    at: *mut u8,
    /// The number of valid bytes there: fewer than all if an input is bounded and a run has a smaller one.
    there: usize,
    /// The tensors in it, with their offsets.
    tensors: Vec<(usize, usize)>,
}

impl Moved {
    /// Returns the movable buffers of a plan: in the arena that begins at `arena`, or one after another in separate
    /// memory. `places` has the place of each tensor.
    pub(super) fn all(
        movable: &[Movable],
        places: Vec<Option<&WindowPlace>>,
        (arena, own): (*mut u8, Option<*mut u8>),
    ) -> Vec<Self> {
        let mut next = own;
        let of = |&Movable { start, bytes }: &Movable| {
            let at = arena.wrapping_add(start);
            let home = next.unwrap_or(at);
            next = next.map(|home| home.wrapping_add(aligned(bytes)));
            Self { planned: start, bytes, home, at, there: bytes, tensors: Vec::new() }
        };
        let mut all: Vec<Self> = movable.iter().map(of).collect();
        for (tensor, place) in places.into_iter().enumerate() {
            let Some((place, number)) = place.and_then(|p| Some((p, p.moves?))) else { continue };
            if let Some(moved) = all.get_mut(number) {
                moved.tensors.push((tensor, place.offset - moved.planned));
            }
        }
        all
    }

    fn is_at_home(&self) -> bool {
        self.at == self.home
    }

    fn move_home(&mut self, tensors: &[SharedArg]) {
        self.move_to((self.home, self.bytes), tensors);
    }

    /// Moves it to `at` from the next call on, with `there` valid bytes. Uses no heap.
    fn move_to(&mut self, (at, there): (*mut u8, usize), tensors: &[SharedArg]) {
        self.there = there;
        if self.at == at {
            return;
        }
        self.at = at;
        for &(tensor, offset) in &self.tensors {
            if let Some(arg) = tensors.get(tensor) {
                arg.move_to(at.wrapping_add(offset));
            }
        }
    }

    /// Returns its bytes for the planned `offset` and `len` of the arena.
    fn part(&self, offset: usize, len: usize) -> Option<Range<usize>> {
        let start = offset.checked_sub(self.planned)?;
        start.checked_add(len).filter(|&end| end <= self.bytes).map(|end| start..end)
    }

    /// Returns the `len` bytes of a window that was planned at `offset`, as far as they are valid.
    pub(super) fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        let Some(part) = self.part(offset, len) else { return &[] };
        let Some(len) = part.end.min(self.there).checked_sub(part.start) else { return &[] };
        let from = self.at.wrapping_add(part.start);
        // SAFETY: `at` has `there` bytes, of which these are a part: in the session's own memory, or in that of a run
        // whose leases are held as long as it is bound. Kernels write them only while they execute, and none does now.
        unsafe { std::slice::from_raw_parts(from, len) }
    }

    /// Returns the first `len` bytes for writing; `None` if they are in a run's memory.
    pub(super) fn bytes_mut(&mut self, len: usize) -> Option<&mut [u8]> {
        if !self.is_at_home() || len > self.bytes {
            return None;
        }
        // SAFETY: in the session's own memory it has `bytes` bytes, which nothing else accesses between calls.
        Some(unsafe { std::slice::from_raw_parts_mut(self.at, len) })
    }
}

impl Executor {
    /// Moves all inputs and outputs to the session's own memory. The memory they were bound to may be freed afterwards.
    pub(crate) fn unbind(&mut self) {
        for moved in &mut self.moved {
            moved.move_home(&self.tensors);
        }
        self.take_back_dims();
        self.set_apart();
    }

    /// Binds the input at `index` to the run's memory if possible; returns whether it is bound. The leases must be held
    /// while calls run. If the output `over` shares the input's memory, no other output may be read from there. Uses no
    /// heap.
    pub(crate) fn bind_input(
        &mut self,
        index: usize,
        over: Option<&str>,
        bound: &Bindings,
    ) -> bool {
        let Some(bytes) = self.input_bytes(index).map(<[u8]>::len) else { return false };
        let number = self.plan.inputs.get(index).and_then(|port| port.moves);
        if over.is_some_and(|over| number.is_some_and(|number| self.is_given(number, over))) {
            return false;
        }
        let Some(moved) = number.and_then(|number| self.moved.get_mut(number)) else {
            return false;
        };
        let Some(from) = bound.input_in_place(index, bytes) else { return false };
        moved.move_to((from, bytes), &self.tensors);
        true
    }

    /// Binds an output to the memory of the run's output `index` if possible; a bounded output needs memory for its
    /// bounds. The leases must be held while calls run. Uses no heap unless that memory is allocated.
    ///
    /// # Errors
    /// There is no memory for the run's output, or the previous run's output is in use.
    pub(crate) fn bind_output(
        &mut self,
        output: Carried,
        index: usize,
        bound: &mut Bindings,
    ) -> device::Result<()> {
        let Carried::Output(at) = output else { return Ok(()) };
        let input = bound.input_there(index).filter(|&input| !self.is_input_at_home(input));
        let is_it = |of: &&SharedPlace| Some(of.input) == input && of.output == at;
        let shared = self.plan.shared.iter().find(is_it).copied();
        if input.is_some() && shared.is_none() {
            return Ok(());
        }
        let Some(port) = self.plan.outputs.get(at) else { return Ok(()) };
        let moved = port.moves.and_then(|number| self.moved.get_mut(number));
        let Some(moved) = moved.filter(|moved| moved.is_at_home()) else { return Ok(()) };
        let Operand { desc, shape, .. } = port.operand;
        let most = Shape::new(desc.shape()).map_or(desc, |most| desc.with_extents(most));
        let to = match shape {
            None => bound.output_in_place(index, &TensorSpec::from_desc(desc)?)?,
            Some(_) => bound.given_in_place(index, &TensorSpec::from_desc(most)?),
        };
        if let Some(to) = to {
            moved.move_to((to, moved.bytes), &self.tensors);
            if let Some(shared) = shared {
                self.join(shared);
            }
        }
        Ok(())
    }

    /// Returns whether an output other than `but` is in a movable buffer.
    fn is_given(&self, number: usize, but: &str) -> bool {
        let place = |port: &Port| self.plan.windows.get(port.operand.window()?.0)?.moves;
        self.plan.outputs.iter().any(|port| port.name != but && place(port) == Some(number))
    }

    fn is_input_at_home(&self, index: usize) -> bool {
        let number = self.plan.inputs.get(index).and_then(|port| port.moves);
        number.and_then(|number| self.moved.get(number)).is_none_or(Moved::is_at_home)
    }
}
