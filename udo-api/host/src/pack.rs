//! Packed constants: made once, shared by all who pack the same constant the same way.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sha2::{Digest, Sha256};
use udo_api::abi::{FillFn, HostTable};
use udo_api::{KernelDef, Status, TensorDesc};

use crate::{Budget, Buffer, NodeDesc, OutOfMemory};

type Key = [u8; 32];

/// Packed constants by content, shared by every model that packs the same constant the same way.
#[derive(Debug, Default)]
pub struct PackStore {
    budget: Budget,
    buffers: Mutex<HashMap<Key, Weak<Buffer>>>,
}

impl PackStore {
    /// What is packed from now on counts in `budget`, and so does what else is made of constants.
    pub fn charge(&mut self, budget: Budget) {
        self.budget = budget;
    }

    /// The budget that constants count in.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    fn get(&self, key: &Key) -> Option<Arc<Buffer>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).get(key)?.upgrade()
    }

    fn put(&self, key: Key, buffer: &Arc<Buffer>) {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        buffers.retain(|_, weak| weak.strong_count() > 0);
        buffers.insert(key, Arc::downgrade(buffer));
    }
}

/// What one kernel packs while it is finalized.
pub(crate) struct Packing<'a> {
    store: &'a PackStore,
    node: &'a NodeDesc<'a>,
    kernel: Vec<u8>,
    packed: RefCell<Vec<Arc<Buffer>>>,
    refused: RefCell<Option<OutOfMemory>>,
}

impl<'a> Packing<'a> {
    pub(crate) fn new(store: &'a PackStore, node: &'a NodeDesc<'a>, def: &KernelDef) -> Self {
        Self {
            store,
            node,
            kernel: kernel_key(def),
            packed: RefCell::default(),
            refused: RefCell::default(),
        }
    }

    /// The functions that the kernel packs with; valid while `self` stays where it is.
    pub(crate) fn table(&self) -> HostTable {
        HostTable { ctx: (&raw const *self).cast_mut().cast(), pack, reserved_words: [0; 4] }
    }

    /// The memory that a constant wanted and did not get, if that was so.
    pub(crate) fn refused(&self) -> Option<OutOfMemory> {
        self.refused.borrow_mut().take()
    }

    pub(crate) fn into_packed(self) -> Vec<Arc<Buffer>> {
        self.packed.into_inner()
    }

    fn key(&self, input: usize, source: &[u8], version: u64, bytes: usize, fill: FillFn) -> Key {
        let mut hash = Sha256::new();
        hash.update((self.kernel.len() as u64).to_le_bytes());
        hash.update(&self.kernel);
        // Other closures pack other elements; each has a function of its own.
        hash.update((fill as usize).to_le_bytes());
        hash.update(version.to_le_bytes());
        hash.update((bytes as u64).to_le_bytes());
        let desc = self.node.inputs.get(input).unwrap_or(&TensorDesc::ABSENT);
        hash.update(desc.to_string());
        if let Some(encoding) = desc.encoding() {
            hash.update(encoding.scale.to_le_bytes());
            hash.update(encoding.zero_point.to_le_bytes());
        }
        hash.update(source);
        hash.finalize().into()
    }
}

/// Packing code is the library's own: its function's address tells libraries apart within a process.
fn kernel_key(def: &KernelDef) -> Vec<u8> {
    let finalize = def.vtable().finalize as usize;
    let mut key = def.op().as_bytes().to_vec();
    key.extend(finalize.to_le_bytes());
    key
}

// SAFETY: called by way of `Packing::table` alone, whose `ctx` is a `Packing`.
unsafe extern "C" fn pack(
    ctx: *mut c_void,
    input: u32,
    version: u64,
    bytes: usize,
    fill: FillFn,
    fill_ctx: *mut c_void,
    index: *mut u32,
) -> u32 {
    // SAFETY: `ctx` is the `Packing` that `finalize` holds for the call.
    let packing = unsafe { &*ctx.cast::<Packing<'_>>() };
    let Some(source) = packing.node.constants.get(input as usize).copied().flatten() else {
        return Status::BAD_CALL.code();
    };
    let key = packing.key(input as usize, source, version, bytes, fill);
    let buffer = if let Some(shared) = packing.store.get(&key) {
        shared
    } else {
        let buffer = match packing.store.budget.zeroed(bytes) {
            Ok(buffer) => Arc::new(buffer),
            Err(error) => {
                packing.refused.replace(Some(error));
                return Status::FAILED.code();
            }
        };
        // SAFETY: `source` has its length in readable bytes, `buffer` has `bytes` writable ones that are nobody
        // else's yet, and `fill_ctx` belongs to `fill`.
        let status =
            unsafe { fill(fill_ctx, source.as_ptr(), source.len(), buffer.as_ptr(), bytes) };
        if status != Status::OK.code() {
            return status;
        }
        packing.store.put(key, &buffer);
        buffer
    };
    let mut packed = packing.packed.borrow_mut();
    let Ok(number) = u32::try_from(packed.len()) else { return Status::BAD_CALL.code() };
    packed.push(buffer);
    // SAFETY: the package passes room for one number at `index`.
    unsafe { index.write(number) };
    Status::OK.code()
}
