//! A kernel that was finalized in a worker, as the host has it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use udo_api::abi::{FinalizeArgs, GpuArg, PackRequest, Tie, Work};
use udo_api::{KernelInfo, Launch, Status, Workspace};

use super::proxy;
use super::room::Part;
use super::tables::Callee;
use super::wire::{Garbled, Reader, Writer};
use super::worker::{Fault, Lane, Worker};
use super::{Ask, packs};

/// A kernel that was finalized in a worker.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) worker: &'static Worker,
    /// What the worker knows it by.
    pub(super) id: u64,
    /// What finalize was asked, for workers to come.
    request: Vec<u8>,
    /// What it answered.
    said: Vec<u8>,
    pub(super) needs: (Workspace, usize),
    pub(super) gpu: KernelInfo,
    held: Mutex<Held>,
}

/// What the worker's memory holds for a kernel.
#[derive(Debug)]
pub(super) struct Held {
    /// The process in which the kernel is finalized.
    generation: u64,
    /// The inputs that are constant: nothing for the others.
    pub(super) inputs: Vec<Option<Constant>>,
    pub(super) packed: Vec<Constant>,
}

/// A constant, and where it was last put.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Constant {
    /// Where the host has it, and how many bytes.
    pub(super) of: (usize, usize),
    pub(super) part: Option<Part>,
}

/// What finalize answered.
struct Finalized<'a> {
    said: &'a [u8],
    /// The numbers of packers in the process, which differ from process to process.
    packers: Vec<usize>,
}

/// Reads an answer: its text if it is a refusal.
pub(super) fn answered(answer: &[u8]) -> Result<Result<Reader<'_>, (u32, &str)>, Garbled> {
    let mut reader = Reader::of(answer);
    let status = reader.u32()?;
    if status == Status::OK.code() {
        return Ok(Ok(reader));
    }
    Ok(Err((status, reader.text()?)))
}

/// Why a kernel is not made.
pub(super) enum Refused {
    Fault(Fault),
    By(u32, String),
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Garbled> for Refused {
    fn from(garbled: Garbled) -> Self {
        Self::Fault(garbled.into())
    }
}

impl Kernel {
    /// Has the worker finalize a kernel, and tells the host what it asks for.
    ///
    /// # Safety
    /// `args` is valid as the ABI says.
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
        let answer = lane.ask(worker, Ask::Finalize, &request)?;
        let generation = lane.generation();
        let Finalized { said, packers } = match answered(&answer)? {
            Ok(mut reader) => finalized(&mut reader)?,
            Err((status, text)) => return Err(Refused::By(status, text.to_owned())),
        };
        drop(lane);
        // SAFETY: there are as many spans as inputs.
        let constants =
            unsafe { super::node::slice(args.node.constants, args.node.input_count as usize) };
        let constant = |is: bool| is.then(Constant::default);
        let inputs = constants.iter().map(|span| constant(!span.ptr.is_null())).collect();
        let mut kernel = Self {
            worker,
            id,
            request,
            said: said.to_owned(),
            needs: (Workspace::NONE, 0),
            gpu: KernelInfo::default(),
            held: Mutex::new(Held { generation, inputs, packed: Vec::new() }),
        };
        // SAFETY: as the caller promises.
        unsafe { kernel.tell(args, &packers) }?;
        Ok(kernel)
    }

    /// Tells the host what the worker said.
    ///
    /// # Safety
    /// As for [`Kernel::finalize`].
    unsafe fn tell(&mut self, args: &FinalizeArgs, packers: &[usize]) -> Result<(), Refused> {
        // SAFETY: the host gives a table.
        let host = unsafe { &*args.host };
        let refused = |status: u32| match status {
            0 => Ok(()),
            status => Err(Refused::By(status, String::new())),
        };
        let generation = self.held().generation;
        let said = std::mem::take(&mut self.said);
        let mut reader = Reader::of(&said);
        let workspace = reader.items::<Workspace>()?.pop().ok_or(Garbled)?;
        self.needs = (workspace, reader.number()?);
        let jobs = reader.count()?;
        for &packer in packers.iter().take(jobs) {
            let inputs: Result<Vec<u32>, _> =
                reader.numbers()?.into_iter().map(u32::try_from).collect();
            let inputs = inputs.map_err(|_| Garbled)?;
            let recipe: Vec<u64> = reader.numbers()?.into_iter().map(|n| n as u64).collect();
            let bytes = reader.number()?;
            let request = PackRequest {
                size: PackRequest::SIZE,
                reserved: 0,
                inputs: inputs.as_ptr(),
                input_count: inputs.len(),
                recipe: recipe.as_ptr(),
                recipe_len: recipe.len(),
                bytes,
                fill: Some(proxy::pack),
                body: packs::body(self.worker, generation, packer),
                reserved_words: [0; 4],
            };
            let mut index = 0;
            // SAFETY: the table's function gets its own `ctx`, and a request and room that outlive the call.
            refused(unsafe { (host.pack)(host.ctx, &raw const request, &raw mut index) })?;
        }
        self.held().packed = vec![Constant::default(); jobs];
        for input in reader.numbers()? {
            let input = u32::try_from(input).map_err(|_| Garbled)?;
            // SAFETY: the table's function gets its own `ctx`.
            refused(unsafe { (host.keep)(host.ctx, input) })?;
        }
        for tie in reader.items::<Tie>()? {
            // SAFETY: as above, and the tie outlives the call.
            refused(unsafe { (host.tie)(host.ctx, &raw const tie) })?;
        }
        if let (Some(work), Some(note)) = (reader.items::<Work>()?.pop(), host.work) {
            // SAFETY: as above, and the work outlives the call.
            refused(unsafe { note(host.ctx, &raw const work) })?;
        }
        self.gpu = launches(&mut reader)?;
        reader.end()?;
        self.said = said;
        Ok(())
    }

    pub(super) fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the kernel be finalized in the process that is there, and one be there.
    pub(super) fn start(&self, lane: &mut Lane, held: &mut Held) -> Result<(), Fault> {
        lane.start(self.worker)?;
        if held.generation == lane.generation() {
            return Ok(());
        }
        let answer = lane.ask(self.worker, Ask::Finalize, &self.request)?;
        let said = match answered(&answer)? {
            Ok(mut reader) => finalized(&mut reader)?.said,
            Err((_, text)) => {
                return Err(Fault(format!("started again, finalize refuses: {text}")));
            }
        };
        if said != self.said {
            return Err(Fault("started again, finalize answers otherwise".to_owned()));
        }
        held.generation = lane.generation();
        Ok(())
    }

    /// Has the worker free the kernel, if it is there; what the worker says of that.
    pub(super) fn free(&self) -> Result<(), Fault> {
        let mut lane = self.worker.lane();
        let held = self.held();
        let constants = held.inputs.iter().flatten().chain(&held.packed);
        constants.filter_map(|constant| constant.part).for_each(|part| lane.room.give(part));
        if held.generation != lane.generation() {
            return Ok(());
        }
        let answer = lane.ask(self.worker, Ask::Free, &self.id.to_le_bytes())?;
        match answered(&answer)? {
            Ok(_) => Ok(()),
            Err((_, text)) => Err(Fault(text.to_owned())),
        }
    }
}

fn finalized<'a>(answer: &mut Reader<'a>) -> Result<Finalized<'a>, Garbled> {
    let (packers, said) = (answer.numbers()?, answer.bytes()?);
    answer.end()?;
    Ok(Finalized { said, packers })
}

/// What a GPU's device runs.
fn launches(reader: &mut Reader<'_>) -> Result<KernelInfo, Garbled> {
    let mut info = KernelInfo::default();
    for bytes in reader.numbers()? {
        info.push_scratch(bytes);
    }
    for _ in 0..reader.count()? {
        let [source, name, options] = [reader.text()?, reader.text()?, reader.text()?];
        let args = reader.items::<GpuArg>()?;
        let mut sizes = || -> Result<[usize; 3], Garbled> {
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
    /// What a GPU's device runs.
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
