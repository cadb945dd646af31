//! Prepacking of weights in a worker.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use udo_api::Status;
use udo_api::abi::PackArgs;

use super::Request;
use super::node::{bytes_of, slice};
use super::report::refuse;
use super::wire::{InvalidMessage, Writer, answered};
use super::worker::{Fault, Worker};
use crate::exit_guard::PerProcess;

/// A packer in a worker process. A request to the host refers to it by `body`.
#[derive(Clone, Copy, Debug)]
struct Packer {
    worker: &'static Worker,
    generation: u64,
    number: usize,
}

/// Packers by worker, worker process, and number.
type Bodies = BTreeMap<(usize, u64, usize), &'static Packer>;

/// Returns the address that identifies a packer. The same packer always has the same address.
pub(super) fn body(worker: &'static Worker, generation: u64, number: usize) -> *const c_void {
    static BODIES: PerProcess<Mutex<Bodies>> = PerProcess::new(Mutex::new(BTreeMap::new()));
    let mut bodies = BODIES.get().lock().unwrap_or_else(PoisonError::into_inner);
    let key = (ptr::from_ref(worker).addr(), generation, number);
    let body = bodies
        .entry(key)
        .or_insert_with(|| Box::leak(Box::new(Packer { worker, generation, number })));
    ptr::from_ref(*body).cast()
}

/// The answer to a request to pack is the packed bytes, or a message of at most this size.
const MAX_TEXT_BYTES: usize = 1 << 20;

// SAFETY: called by way of the requests of `Kernel::finalize` alone, with arguments as the ABI says.
pub(super) unsafe extern "C" fn pack(args: *const PackArgs) -> u32 {
    // SAFETY: the host passes arguments that are valid for the call.
    let args = unsafe { &*args };
    // SAFETY: `body` is that of the request.
    match unsafe { packed(args) } {
        Ok(()) => Status::OK.code(),
        // SAFETY: the sink is the host's.
        Err((status, text)) => unsafe { refuse(args.errors, status, &text) },
    }
}

/// Packs weights in the worker. Fails with a status and a message.
///
/// # Safety
/// `args` is valid by the ABI, and its `body` is a result of [`body`].
unsafe fn packed(args: &PackArgs) -> Result<(), (u32, String)> {
    // SAFETY: as the caller promises; it stays for the life of the process.
    let &Packer { worker, generation, number } = unsafe { &*args.body.cast::<Packer>() };
    let mut writer = Writer::default();
    writer.number(number);
    // SAFETY: there are as many numbers.
    let recipe = unsafe { slice(args.recipe, args.recipe_len) };
    writer.number(recipe.len());
    for &number in recipe {
        writer.word(number);
    }
    writer.number(args.target_bytes);
    // SAFETY: the table is there where there is one.
    let width = unsafe { args.parallel.as_ref() }.map_or(0, |parallel| parallel.width);
    writer.word(u64::from(width));
    // SAFETY: there are as many sources.
    let sources = unsafe { slice(args.sources, args.source_count) };
    writer.number(sources.len());
    for source in sources {
        writer.items(std::slice::from_ref(&source.desc));
        // SAFETY: the elements of a source are there.
        writer.aligned(unsafe { bytes_of(&source.data) });
    }
    let failed = |fault: Fault| (Status::WORKER.code(), fault.to_string());
    let mut lane = worker.lane();
    if lane.generation() != generation {
        let why = "its worker was restarted before it packed the weights of its kernels; load the model again";
        return Err(failed(Fault(why.to_owned())));
    }
    let max_bytes = args.target_bytes.saturating_add(MAX_TEXT_BYTES);
    let answer = lane.ask_for(worker, Request::Pack, &writer.done(), max_bytes).map_err(failed)?;
    drop(lane);
    let read = answered(&answer, |reader| {
        let packed = reader.bytes()?;
        if packed.len() == args.target_bytes { Ok(packed) } else { Err(InvalidMessage) }
    });
    let read = read.map_err(|garbled| failed(garbled.into()))?;
    let packed = read.map_err(|(status, text)| (status, text.to_owned()))?;
    // SAFETY: there is room for as many bytes, which are this call's to fill.
    unsafe { args.target.copy_from_nonoverlapping(packed.as_ptr(), packed.len()) };
    Ok(())
}
