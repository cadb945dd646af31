//! Calls into packages before the run: shape inference, finalize, free.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sha2::{Digest, Sha256};
use udo_api::abi::{
    ErrorSink, FillFn, FinalizeArgs, Finalized, HostTable, InferArgs, KernelInfo, KernelVTable,
    NodeArgs, ParamValue, Span, kernel_vtable,
};
use udo_api::{
    Core, InPlace, Kernel, KernelDef, KernelFlags, OpDef, Status, TensorDesc, Workspace,
};

use super::Params;
use crate::memory::{Buffer, Tensor};

/// A package's refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status that it answered with.
    pub status: Status,
    /// Its message.
    pub message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Status::FAILED => f.write_str(&self.message),
            status if self.message.is_empty() => write!(f, "{status}"),
            status => write!(f, "{status}: {}", self.message),
        }
    }
}

impl std::error::Error for Refusal {}

/// A node as packages see it before the run.
#[derive(Clone, Debug)]
pub(crate) struct NodeView<'a> {
    /// One per input; absent ones included.
    pub inputs: Vec<TensorDesc>,
    /// One per input; the elements of those that are constant.
    pub constants: Vec<Option<&'a Tensor>>,
    /// The parameters.
    pub params: &'a Params,
    /// How many outputs there are, absent ones included.
    pub output_count: usize,
    /// The operator-set version that the node comes from.
    pub opset: u32,
}

/// What `NodeArgs` points to.
struct RawNode {
    constants: Vec<Span>,
    params: Vec<ParamValue>,
    sink: ErrorSink,
}

unsafe extern "C" fn append(ctx: *mut c_void, text: *const u8, bytes: usize) {
    // SAFETY: `RawNode::new` passes a `String` that outlives the sink.
    let message = unsafe { &mut *ctx.cast::<String>() };
    if !text.is_null() {
        // SAFETY: the package passes this many bytes for the call.
        let text = unsafe { std::slice::from_raw_parts(text, bytes) };
        message.push_str(&String::from_utf8_lossy(text));
    }
}

impl RawNode {
    fn new(view: &NodeView<'_>, message: &mut String) -> Self {
        let span = |tensor: Option<&Tensor>| match tensor {
            Some(t) if !t.bytes().is_empty() => {
                Span { ptr: t.bytes().as_ptr(), bytes: t.bytes().len() }
            }
            // Constant and empty: not null, so that it still counts as constant.
            Some(_) => Span { ptr: EMPTY_CONSTANT.0.as_ptr(), bytes: 0 },
            None => Span::NONE,
        };
        Self {
            constants: view.constants.iter().copied().map(span).collect(),
            params: view.params.to_abi(),
            sink: ErrorSink {
                ctx: std::ptr::from_mut(message).cast(),
                write: append,
                reserved_words: [0; 4],
            },
        }
    }

    fn args(&self, view: &NodeView<'_>) -> NodeArgs {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        NodeArgs {
            inputs: view.inputs.as_ptr(),
            constants: self.constants.as_ptr(),
            params: self.params.as_ptr(),
            input_count: count(view.inputs.len().min(self.constants.len())),
            output_count: count(view.output_count),
            param_count: count(self.params.len()),
            opset: view.opset,
            errors: &raw const self.sink,
            reserved_words: [0; 4],
        }
    }
}

#[repr(align(64))]
struct Aligned([u8; 1]);

static EMPTY_CONSTANT: Aligned = Aligned([0]);

fn refuse(status: u32, message: String) -> Result<(), Refusal> {
    match Status::from_code(status) {
        Status::OK => Ok(()),
        status => Err(Refusal { status, message }),
    }
}

/// Asks `op` for the types and shapes of a node's outputs; those it leaves out are absent.
///
/// # Errors
/// The operator refuses the node.
pub(crate) fn infer(op: &OpDef, view: &NodeView<'_>) -> Result<Vec<TensorDesc>, Refusal> {
    let mut message = String::new();
    let mut outputs = vec![TensorDesc::ABSENT; view.output_count];
    let raw = RawNode::new(view, &mut message);
    let args =
        InferArgs { node: raw.args(view), outputs: outputs.as_mut_ptr(), reserved_words: [0; 4] };
    // SAFETY: the arguments point to what they say, for the call.
    let status = unsafe { (op.infer_fn())(&raw const args) };
    refuse(status, message)?;
    match outputs.iter().position(|desc| !desc.is_sound()) {
        None => Ok(outputs),
        Some(index) => {
            let message =
                format!("shape inference leaves the description of output {index} broken");
            Err(Refusal { status: Status::BAD_CALL, message })
        }
    }
}

/// A finalized kernel and the constants that it packed; freed when dropped.
pub struct LiveKernel {
    vtable: &'static KernelVTable,
    in_place: &'static [InPlace],
    flags: KernelFlags,
    state: *mut c_void,
    workspace: Workspace,
    packed: Vec<Arc<Buffer>>,
    spans: Vec<Span>,
}

// SAFETY: the contract wants kernels to be `Send` and `Sync`, and packed buffers are immutable.
unsafe impl Send for LiveKernel {}
// SAFETY: as above.
unsafe impl Sync for LiveKernel {}

impl fmt::Debug for LiveKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveKernel")
            .field("workspace", &self.workspace)
            .field("packed", &self.packed)
            .finish_non_exhaustive()
    }
}

impl Drop for LiveKernel {
    fn drop(&mut self) {
        // SAFETY: finalize or `hosted` made the state, nothing executes it any more, and this happens once.
        unsafe { (self.vtable.free)(self.state) };
    }
}

impl LiveKernel {
    /// A kernel that the host made itself, behind the same functions as those of packages.
    pub fn hosted<K: Kernel>(kernel: K) -> Self {
        let workspace = kernel.workspace();
        Self {
            vtable: kernel_vtable::<K>(),
            in_place: &[],
            flags: KernelFlags::NONE,
            state: Box::into_raw(Box::new(kernel)).cast(),
            workspace,
            packed: Vec::new(),
            spans: Vec::new(),
        }
    }

    /// The scratch that it wants.
    pub fn workspace(&self) -> Workspace {
        self.workspace
    }

    /// What it can do.
    pub fn flags(&self) -> KernelFlags {
        self.flags
    }

    /// The outputs that may take the place of an input.
    pub fn in_place_pairs(&self) -> &'static [InPlace] {
        self.in_place
    }

    /// The constants that it packed.
    pub fn packed(&self) -> &[Arc<Buffer>] {
        &self.packed
    }

    pub(crate) fn execute_fn(
        &self,
    ) -> unsafe extern "C" fn(args: *const udo_api::abi::ExecArgs) -> u32 {
        self.vtable.execute
    }

    pub(crate) fn state(&self) -> *const c_void {
        self.state
    }

    pub(crate) fn packed_spans(&self) -> &[Span] {
        &self.spans
    }

    /// Whether it is a GPU kernel that can run on the host.
    pub fn has_work_item(&self) -> Option<bool> {
        self.vtable.gpu.map(|gpu| gpu.has_work_item != 0)
    }

    /// How a device runs it, if it is a GPU kernel.
    pub fn gpu_info(&self) -> Option<KernelInfo> {
        let gpu = self.vtable.gpu?;
        let mut info = std::mem::MaybeUninit::<KernelInfo>::zeroed();
        // SAFETY: the state is this kernel's, and there is room for one description.
        let status = unsafe { (gpu.info)(self.state, info.as_mut_ptr()) };
        // SAFETY: zero is a value of every field, whatever the callee filled in.
        (status == Status::OK.code()).then(|| unsafe { info.assume_init() })
    }
}

/// Makes the kernel that `def` stands for, for one node on `core`.
///
/// # Errors
/// The kernel refuses the node.
pub(crate) fn finalize(
    def: &KernelDef,
    core: Core,
    view: &NodeView<'_>,
    outputs: &[TensorDesc],
    store: &PackStore,
) -> Result<LiveKernel, Refusal> {
    let mut message = String::new();
    let view = &NodeView { output_count: outputs.len(), ..view.clone() };
    let raw = RawNode::new(view, &mut message);
    let vtable = def.vtable();
    let packing = Packing { store, view, kernel: kernel_key(def), packed: RefCell::default() };
    let host =
        HostTable { ctx: (&raw const packing).cast_mut().cast(), pack, reserved_words: [0; 4] };
    let args = FinalizeArgs {
        node: raw.args(view),
        outputs: outputs.as_ptr(),
        core,
        reserved: 0,
        host: &raw const host,
        reserved_words: [0; 4],
    };
    let mut made =
        Finalized { state: std::ptr::null_mut(), workspace: Workspace::NONE, reserved: [0; 4] };
    // SAFETY: the arguments point to what they say, for the call.
    let status = unsafe { (vtable.finalize)(&raw const args, &raw mut made) };
    refuse(status, message)?;
    if made.workspace.has_unknown_flags() || made.reserved != [0; 4] {
        // SAFETY: finalize made the state, and nobody has it but us.
        unsafe { (vtable.free)(made.state) };
        let message = "finalize sets reserved fields".to_owned();
        return Err(Refusal { status: Status::BAD_CALL, message });
    }
    let packed = packing.packed.into_inner();
    let spans = packed.iter().map(|b| Span { ptr: b.as_ptr(), bytes: b.len() }).collect();
    Ok(LiveKernel {
        vtable,
        in_place: def.in_place_pairs(),
        flags: def.known_flags(),
        state: made.state,
        workspace: made.workspace,
        packed,
        spans,
    })
}

type Key = [u8; 32];

/// Packed constants by content, shared by every model that packs the same constant the same way.
#[derive(Debug, Default)]
pub struct PackStore {
    buffers: Mutex<HashMap<Key, Weak<Buffer>>>,
}

struct Packing<'a> {
    store: &'a PackStore,
    view: &'a NodeView<'a>,
    kernel: Vec<u8>,
    packed: RefCell<Vec<Arc<Buffer>>>,
}

/// Packing code is the library's own: its function's address tells libraries apart within a process.
fn kernel_key(def: &KernelDef) -> Vec<u8> {
    let finalize = def.vtable().finalize as usize;
    let mut key = def.op().as_bytes().to_vec();
    key.extend(finalize.to_le_bytes());
    key
}

impl PackStore {
    fn get(&self, key: &Key) -> Option<Arc<Buffer>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).get(key)?.upgrade()
    }

    fn put(&self, key: Key, buffer: &Arc<Buffer>) {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        buffers.retain(|_, weak| weak.strong_count() > 0);
        buffers.insert(key, Arc::downgrade(buffer));
    }
}

impl Packing<'_> {
    fn key(&self, input: usize, tensor: &Tensor, version: u64, bytes: usize, fill: FillFn) -> Key {
        let mut hash = Sha256::new();
        hash.update((self.kernel.len() as u64).to_le_bytes());
        hash.update(&self.kernel);
        // Other closures pack other elements; each has a function of its own.
        hash.update((fill as usize).to_le_bytes());
        hash.update(version.to_le_bytes());
        hash.update((bytes as u64).to_le_bytes());
        hash.update(tensor.desc().to_string());
        if let Some(encoding) = self.view.inputs.get(input).and_then(TensorDesc::encoding) {
            hash.update(encoding.scale.to_le_bytes());
            hash.update(encoding.zero_point.to_le_bytes());
        }
        hash.update(tensor.bytes());
        hash.finalize().into()
    }
}

unsafe extern "C" fn pack(
    ctx: *mut c_void,
    input: u32,
    version: u64,
    bytes: usize,
    fill: FillFn,
    fill_ctx: *mut c_void,
    index: *mut u32,
) -> u32 {
    // SAFETY: `finalize` passes a `Packing` that outlives the call.
    let packing = unsafe { &*ctx.cast::<Packing<'_>>() };
    let Some(tensor) = packing.view.constants.get(input as usize).copied().flatten() else {
        return Status::BAD_CALL.code();
    };
    let key = packing.key(input as usize, tensor, version, bytes, fill);
    let buffer = if let Some(shared) = packing.store.get(&key) {
        shared
    } else {
        let buffer = Arc::new(Buffer::zeroed(bytes));
        let src = tensor.bytes();
        // SAFETY: source and target are valid for the call, and the target is nobody else's yet.
        let status = unsafe { fill(fill_ctx, src.as_ptr(), src.len(), buffer.as_ptr(), bytes) };
        if status != Status::OK.code() {
            return status;
        }
        packing.store.put(key, &buffer);
        buffer
    };
    let mut packed = packing.packed.borrow_mut();
    let Ok(number) = u32::try_from(packed.len()) else { return Status::BAD_CALL.code() };
    packed.push(buffer);
    // SAFETY: the package passes room for one number.
    unsafe { index.write(number) };
    Status::OK.code()
}
