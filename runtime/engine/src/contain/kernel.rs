//! The host's side of a kernel that was finalized in a worker.

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use udo_api::abi::{FinalizeArgs, GpuArg, PackRequest, Tie, Work};
use udo_api::{KernelInfo, Launch, Workspace};

use super::callee::Callee;
use super::page_allocator::Part;
use super::wire::{InvalidMessage, Reader, Writer, answered};
use super::worker::{Fault, Lane, Worker};
use super::{Request, packs};

/// A kernel that was finalized in a worker.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) worker: &'static Worker,
    /// The kernel's id in the worker.
    pub(super) id: u64,
    /// The finalize request, to repeat it in a restarted worker.
    request: Vec<u8>,
    /// The answer, which a restarted worker must repeat.
    answer: Vec<u8>,
    pub(super) needs: (Workspace, usize),
    pub(super) gpu: KernelInfo,
    constants: Mutex<WorkerConstants>,
}

/// The constants of a kernel in the worker's memory.
#[derive(Debug)]
pub(super) struct WorkerConstants {
    /// The worker process in which the kernel is finalized.
    generation: u64,
    /// The constant inputs; `None` for other inputs.
    pub(super) inputs: Vec<Option<Constant>>,
    pub(super) packed: Vec<Constant>,
}

/// A constant and its last position.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Constant {
    /// Its address and size on the host.
    pub(super) host_span: (usize, usize),
    pub(super) part: Option<Part>,
}

impl WorkerConstants {
    /// Creates the state of a kernel that is finalized in this worker process.
    pub(super) fn new(generation: u64, inputs: Vec<Option<Constant>>, jobs: usize) -> Self {
        Self { generation, inputs, packed: vec![Constant::default(); jobs] }
    }
}

/// A completely parsed answer to finalize. Only then is the host informed.
#[derive(Debug)]
struct Finalized<'a> {
    /// Everything but the packers, which every worker process must answer in the same way.
    answer: &'a [u8],
    needs: (Workspace, usize),
    jobs: Vec<Job>,
    /// The packed inputs that execute reads too, so the host must retain them.
    retained: Vec<u32>,
    ties: Vec<Tie>,
    work: Option<Work>,
    gpu: KernelInfo,
}

/// A request to prepack constants: a packer reads the constant inputs and writes `bytes` bytes.
#[derive(Debug)]
struct Job {
    /// The number of its packer, which differs between worker processes.
    packer: usize,
    inputs: Vec<u32>,
    /// Numbers that, with the sources, determine every byte of the result.
    recipe: Vec<u64>,
    bytes: usize,
}

/// The reason why finalize failed.
pub(super) enum Refused {
    Fault(Fault),
    By(u32, String),
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<InvalidMessage> for Refused {
    fn from(garbled: InvalidMessage) -> Self {
        Self::Fault(garbled.into())
    }
}

impl Kernel {
    /// Finalizes a kernel in the worker, and passes its requests to the host.
    ///
    /// # Safety
    /// `args` is valid by the ABI.
    pub(super) unsafe fn finalize(callee: Callee, args: &FinalizeArgs) -> Result<Self, Refused> {
        let (worker, id) = (callee.worker, super::next_id());
        let mut writer = Writer::default();
        writer.word(id);
        writer.number(callee.number);
        // SAFETY: as the caller promises.
        unsafe { writer.finalize(args) };
        let request = writer.done();
        let mut lane = worker.lane();
        lane.start(worker)?;
        let answer = lane.ask(worker, Request::Finalize, &request)?;
        let generation = lane.generation();
        let read = answered(&answer, finalized).map_err(|garbled| lane.garbled(garbled))?;
        drop(lane);
        let finalized = read.map_err(|(status, text)| Refused::By(status, text.to_owned()))?;
        // SAFETY: as the caller promises.
        unsafe { finalized.pass_to_host(args, |packer| packs::body(worker, generation, packer)) }?;
        // SAFETY: there are as many spans as inputs.
        let constants =
            unsafe { super::node::slice(args.node.constants, args.node.input_count as usize) };
        let constant = |is_constant: bool| is_constant.then(Constant::default);
        let inputs = constants.iter().map(|span| constant(!span.ptr.is_null())).collect();
        Ok(Self {
            worker,
            id,
            request,
            answer: finalized.answer.to_owned(),
            needs: finalized.needs,
            constants: Mutex::new(WorkerConstants::new(generation, inputs, finalized.jobs.len())),
            gpu: finalized.gpu,
        })
    }

    pub(super) fn constants(&self) -> MutexGuard<'_, WorkerConstants> {
        self.constants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the worker process and finalizes the kernel in it, if necessary.
    pub(super) fn start(
        &self,
        lane: &mut Lane,
        constants: &mut WorkerConstants,
    ) -> Result<(), Fault> {
        lane.start(self.worker)?;
        if constants.generation == lane.generation() {
            return Ok(());
        }
        let answer = lane.ask(self.worker, Request::Finalize, &self.request)?;
        let read = answered(&answer, finalized).map_err(|garbled| lane.garbled(garbled))?;
        let refused =
            |(_, text)| Fault(format!("after a restart of its worker, finalize failed: {text}"));
        if read.map_err(refused)?.answer != self.answer {
            return Err(Fault(
                "after a restart of its worker, finalize returned a different result".to_owned(),
            ));
        }
        constants.generation = lane.generation();
        // They were in the memory of the process that has ended.
        constants.inputs.iter_mut().flatten().for_each(|constant| *constant = Constant::default());
        constants.packed.fill(Constant::default());
        Ok(())
    }

    /// Frees the kernel in the worker, if it exists there. Returns the worker's error.
    pub(super) fn free(&self) -> Result<(), Fault> {
        let mut lane = self.worker.lane();
        let constants = self.constants();
        if constants.generation != lane.generation() {
            return Ok(());
        }
        let all = constants.inputs.iter().flatten().chain(&constants.packed);
        all.filter_map(|constant| constant.part).for_each(|part| lane.constant_pages.give(part));
        let answer = lane.ask(self.worker, Request::Free, &self.id.to_le_bytes())?;
        answered(&answer, |_| Ok(()))?.map_err(|(_, text)| Fault(text.to_owned()))
    }
}

impl Finalized<'_> {
    /// Passes the worker's requests to the host. `body` identifies a packer.
    ///
    /// # Safety
    /// As for [`Kernel::finalize`].
    unsafe fn pass_to_host(
        &self,
        args: &FinalizeArgs,
        body: impl Fn(usize) -> *const c_void,
    ) -> Result<(), Refused> {
        // SAFETY: the host gives a table.
        let host = unsafe { &*args.host };
        let refused = |status: u32| match status {
            0 => Ok(()),
            status => Err(Refused::By(status, String::new())),
        };
        for job in &self.jobs {
            let request = job.request(body(job.packer));
            let mut index = 0;
            // SAFETY: the table's function gets its own `ctx`, and a request and room that outlive the call.
            refused(unsafe { (host.pack)(host.ctx, &raw const request, &raw mut index) })?;
        }
        for &input in &self.retained {
            // SAFETY: the table's function gets its own `ctx`.
            refused(unsafe { (host.keep)(host.ctx, input) })?;
        }
        for tie in &self.ties {
            // SAFETY: as above, and the tie outlives the call.
            refused(unsafe { (host.tie)(host.ctx, tie) })?;
        }
        if let (Some(work), Some(note)) = (&self.work, host.work) {
            // SAFETY: as above, and the work outlives the call.
            refused(unsafe { note(host.ctx, work) })?;
        }
        Ok(())
    }
}

impl Job {
    /// Returns the request to the host. It borrows from this.
    fn request(&self, body: *const c_void) -> PackRequest {
        PackRequest {
            size: PackRequest::SIZE,
            reserved: 0,
            inputs: self.inputs.as_ptr(),
            input_count: self.inputs.len(),
            recipe: self.recipe.as_ptr(),
            recipe_len: self.recipe.len(),
            bytes: self.bytes,
            fill: Some(packs::pack),
            body,
            reserved_words: [0; 4],
        }
    }
}

fn finalized<'a>(answer: &mut Reader<'a>) -> Result<Finalized<'a>, InvalidMessage> {
    let (packers, body) = (answer.numbers()?, answer.bytes()?);
    answer.end()?;
    let mut reader = Reader::new(body);
    let workspace = reader.items::<Workspace>()?.pop().ok_or(InvalidMessage)?;
    let needs = (workspace, reader.number()?);
    if reader.count()? != packers.len() {
        return Err(InvalidMessage);
    }
    let jobs: Result<_, _> = packers.into_iter().map(|packer| job(packer, &mut reader)).collect();
    let (jobs, retained) = (jobs?, ports(&mut reader)?);
    let (ties, work) = (reader.items()?, reader.items()?.pop());
    let gpu = launches(&mut reader)?;
    reader.end()?;
    Ok(Finalized { answer: body, needs, jobs, retained, ties, work, gpu })
}

fn job(packer: usize, reader: &mut Reader<'_>) -> Result<Job, InvalidMessage> {
    let inputs = ports(reader)?;
    let recipe = reader.numbers()?.into_iter().map(|number| number as u64).collect();
    Ok(Job { packer, inputs, recipe, bytes: reader.number()? })
}

fn ports(reader: &mut Reader<'_>) -> Result<Vec<u32>, InvalidMessage> {
    let ports: Result<_, _> = reader.numbers()?.into_iter().map(u32::try_from).collect();
    ports.map_err(|_| InvalidMessage)
}

/// Reads the launches of a GPU kernel.
fn launches(reader: &mut Reader<'_>) -> Result<KernelInfo, InvalidMessage> {
    let mut info = KernelInfo::default();
    for bytes in reader.numbers()? {
        info.push_scratch(bytes);
    }
    for _ in 0..reader.count()? {
        let [source, name, options] = [reader.text()?, reader.text()?, reader.text()?];
        let args = reader.items::<GpuArg>()?;
        let mut sizes = || -> Result<[usize; 3], InvalidMessage> {
            Ok([reader.number()?, reader.number()?, reader.number()?])
        };
        let (global, local) = (sizes()?, sizes()?);
        let launch = Launch::new(source.to_owned(), name.to_owned())
            .options(options.to_owned())
            .args(args)
            .global_size(global);
        let has_local = reader.flag()?;
        info.push_launch(if has_local { launch.local_size(local) } else { launch });
    }
    Ok(info)
}

impl Writer {
    /// Writes the launches of a GPU kernel.
    pub(super) fn launches(&mut self, info: Option<&KernelInfo>) {
        let none = KernelInfo::default();
        let info = info.unwrap_or(&none);
        self.numbers(info.scratch.iter().copied());
        self.number(info.launches.len());
        for launch in &info.launches {
            self.text(&launch.source);
            self.text(&launch.name);
            self.text(&launch.options);
            self.items(&launch.args);
            let local = launch.local_size.unwrap_or_default();
            launch.global_size.into_iter().chain(local).for_each(|size| self.number(size));
            self.flag(launch.local_size.is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates an answer that states these numbers of packers and jobs, without the jobs.
    fn answer(packers: usize, jobs: usize) -> Vec<u8> {
        let mut body = Writer::default();
        body.items(&[Workspace::NONE]);
        body.number(0);
        body.number(jobs);
        body.numbers([].into_iter());
        body.items::<Tie>(&[]);
        body.items::<Work>(&[]);
        body.launches(None);
        let mut writer = Writer::default();
        writer.word(0);
        writer.numbers(vec![0; packers].into_iter());
        writer.bytes(&body.done());
        writer.done()
    }

    #[test]
    fn every_pack_job_has_a_packer() {
        let jobs = |answer: &[u8]| Ok(answered(answer, finalized)?.unwrap().jobs.len());
        assert_eq!(jobs(&answer(0, 0)), Ok(0));
        assert_eq!(jobs(&answer(0, 4)), Err(InvalidMessage));
        assert_eq!(jobs(&answer(4, 0)), Err(InvalidMessage));
    }
}
