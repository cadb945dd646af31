//! Cache maintenance for values that cross between the host and accelerators with non-coherent memory.
//!
//! The host accesses such memory through its cache. A host step that writes there is followed by a flush. A host step
//! that reads there is preceded by an invalidation, unless the host has already read the current contents. Coherent
//! memory needs no such steps.

use udo_api::{Core, DType, Shape, TensorDesc};
use udo_host::FinalizedKernel;

use super::lowering::Lowering;
use super::{Operand, PlanError, Purpose, Step, View};
use udo_engine::cores::Memory;
use udo_engine::cores::cache_maintenance::{FLUSH, INVALIDATE, Lines};
use udo_engine::device::{Coherence, LINE_BYTES};

impl Lowering<'_> {
    /// Returns whether the host accesses a memory through a cache.
    fn is_cached(&self, memory: Memory) -> bool {
        match memory {
            Memory::Host => false,
            Memory::Gpu if self.lowered.device.is_some() => false,
            Memory::Gpu | Memory::Dsp => self.options.coherence != Coherence::Coherent,
        }
    }

    /// Returns an operand that the host reads through its cache; adds an invalidation if the cache lines may be stale.
    pub(super) fn read_by_host(
        &mut self,
        value: &str,
        memory: Memory,
        operand: &Operand,
    ) -> Result<Operand, PlanError> {
        let Some(window) = operand.window().filter(|_| self.is_cached(memory)) else {
            return Ok(operand.clone());
        };
        if !self.read_windows.contains(&window) {
            self.read_windows.push(window);
            self.copy_lines(value, operand, (View::Device, View::Host), INVALIDATE)?;
        }
        Ok(Operand { view: View::Host, ..operand.clone() })
    }

    /// Returns an operand that the host writes through its cache.
    pub(super) fn written_by_host(&self, memory: Memory, operand: &Operand) -> Operand {
        let view = if self.is_cached(memory) { View::Host } else { View::Device };
        Operand { view, ..operand.clone() }
    }

    /// Makes the host's writes visible to the accelerator.
    pub(super) fn flush(
        &mut self,
        value: &str,
        memory: Memory,
        operand: &Operand,
    ) -> Result<(), PlanError> {
        if !self.is_cached(memory) {
            return Ok(());
        }
        self.copy_lines(value, operand, (View::Host, View::Device), FLUSH)
    }

    /// Adds a step that copies the cache lines of a window from one view to the other, unless the options omit it. The
    /// emulated cache is a second copy of the memory.
    fn copy_lines(
        &mut self,
        value: &str,
        operand: &Operand,
        (from, to): (View, View),
        op: &str,
    ) -> Result<(), PlanError> {
        let number = self.cache_steps;
        self.cache_steps += 1;
        if self.options.left_out == Some(number) {
            return Ok(());
        }
        let line = usize::try_from(LINE_BYTES).unwrap_or(1);
        let bytes = operand.desc.size_bytes().checked_next_multiple_of(line);
        let lines = bytes.and_then(|bytes| Shape::new(&[bytes]).ok());
        let lines = lines.ok_or_else(|| PlanError::Transfer {
            value: value.to_owned(),
            reason: format!("{} has too many cache lines to count", operand.desc),
        })?;
        let desc = TensorDesc::new(DType::U8, lines);
        let operand_in =
            |view| Operand { desc, view, place: operand.place.clone(), ..Operand::ABSENT };
        self.lowered.steps.push(Step {
            kernel: FinalizedKernel::from_kernel(Lines),
            name: value.to_owned(),
            purpose: Purpose::CacheMaintenance,
            depth: self.frames.len(),
            ties: Vec::new(),
            op: op.to_owned(),
            package: String::new(),
            core: Core::CPU,
            is_on_device: false,
            guard: None,
            inputs: vec![operand_in(from)],
            outputs: vec![operand_in(to), operand_in(View::Clean)],
        });
        Ok(())
    }
}
