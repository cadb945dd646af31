//! Finalized kernels in the worker.

use udo_api::guard::LibraryGuard;
use udo_api::{AxisEncoding, KernelDef, Status, TensorDesc};
use udo_host::{ConstantId, FinalizedKernel, Source};

use super::window::Window;
use super::{Opened, Refused, WorkerState};
use crate::contain::wire::{InvalidMessage, Reader, Writer};

/// A finalized kernel.
pub(super) struct State {
    pub(super) kernel: FinalizedKernel,
    pub(super) def: &'static KernelDef,
    pub(super) guard: Option<LibraryGuard>,
    /// The per-axis encodings of its inputs, then of its outputs.
    pub(super) axes: Vec<Option<&'static AxisEncoding>>,
    /// The memory of its outputs, created by the first call.
    pub(super) window: Option<Window>,
}

impl WorkerState {
    pub(super) fn finalize(&mut self, reader: &mut Reader<'_>) -> Result<Writer, Refused> {
        let id = reader.word()?;
        let Opened { def, op, guard } = self.kernel(reader)?;
        let node = reader.node(op.schema())?;
        let placed = reader.placed(&node)?;
        let machine = reader.machine()?;
        let kernel = udo_host::finalize(def, &placed, machine)?;
        let mut answer = Writer::default();
        answer.items(&[kernel.workspace()]);
        answer.number(kernel.geometry_bytes());
        answer.number(kernel.jobs().len());
        for job in kernel.jobs() {
            answer.numbers(job.inputs().iter().copied());
            answer.number(job.recipe().len());
            job.recipe().iter().for_each(|&number| answer.word(number));
            answer.number(job.bytes());
        }
        answer.numbers(kernel.retained_inputs().iter().copied());
        answer.items(kernel.ties());
        answer.items(kernel.work().as_slice());
        answer.launches(kernel.gpu_info());
        let packers: Vec<usize> = kernel.jobs().iter().map(|job| self.packer(job)).collect();
        let mut writer = Writer::default();
        writer.numbers(packers.into_iter());
        writer.bytes(&answer.done());
        let descs = placed.node.inputs.iter().chain(&placed.outputs);
        let axes = descs.map(TensorDesc::axis_encoding).collect();
        self.states.insert(id, State { kernel, def, guard, axes, window: None });
        Ok(writer)
    }

    /// Returns the number of a packer.
    fn packer(&mut self, job: &udo_host::Job) -> usize {
        if let Some(known) = self.packers.iter().position(|known| known.code() == job.code()) {
            return known;
        }
        self.packers.push(job.clone());
        self.packers.len() - 1
    }

    pub(super) fn pack(&mut self, reader: &mut Reader<'_>) -> Result<Writer, Refused> {
        let number = reader.number()?;
        let recipe: Result<Vec<u64>, _> = (0..reader.count()?).map(|_| reader.word()).collect();
        let (recipe, bytes) = (recipe?, reader.number()?);
        let width = reader.number()?;
        let packer = self.packers.get(number).ok_or(InvalidMessage)?.with(recipe, bytes);
        let mut sources = Vec::new();
        for _ in 0..reader.count()? {
            let desc = reader.items::<TensorDesc>()?.pop().ok_or(InvalidMessage)?;
            let id = ConstantId { tensor: 0, format: 0 };
            sources.push(Source { id, desc, bytes: reader.aligned()?, stable: None });
        }
        let pool = self.pool(width)?;
        let parallel = pool.map(crate::thread_pool::Pool::table_of_its_own);
        let packed = packer.make(&sources, parallel.as_ref())?;
        let mut writer = Writer::default();
        writer.bytes(packed.bytes());
        Ok(writer)
    }

    /// Frees a kernel. A panic of its destructor becomes an error.
    pub(super) fn free(&mut self, reader: &mut Reader<'_>) -> Result<Writer, Refused> {
        let state = self.states.remove(&reader.word()?).ok_or(InvalidMessage)?;
        let guard = state.guard;
        drop(state);
        let message = guard.map(|guard| guard.take_report().message()).unwrap_or_default();
        if message.is_empty() {
            return Ok(Writer::default());
        }
        Err(Refused(Status::PANICKED.code(), format!("its destructor panicked: {message}")))
    }
}
