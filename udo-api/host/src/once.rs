//! One call of a kernel outside any plan, on inputs that are all known.

use std::ptr;

use udo_api::abi::{ExecArgs, TensorArg};
use udo_api::guard::LibraryGuard;
use udo_api::{KernelDef, Shape, Status, TensorDesc};

use crate::memory::OutOfMemory;
use crate::{
    Buffer, ConstantId, Machine, PackStore, PlacedNode, Refusal, Source, failure, finalize,
};

/// A node that is computed once.
#[derive(Clone, Debug)]
pub struct Once<'a> {
    /// The node; its inputs are constants, as far as it reads elements.
    pub placed: PlacedNode<'a>,
    /// Whether it reads extents alone, so that inputs need no elements.
    pub is_shape_only: bool,
    /// Which constants they are, one per input.
    pub ids: Vec<ConstantId>,
    /// Where the kernel runs: on the calling thread alone.
    pub machine: Machine,
    /// The heap guard of the library that holds the kernel.
    pub guard: LibraryGuard,
}

/// What the kernel that `def` stands for makes of a node, as many elements as it says; nothing for outputs that the
/// node leaves out. Memory counts in the budget of `store`.
///
/// # Errors
/// The kernel refuses the node or fails, an input is not known, or there is no memory.
pub fn once(
    def: &KernelDef,
    node: &Once<'_>,
    store: &PackStore,
) -> Result<Vec<Option<(TensorDesc, Buffer)>>, Refusal> {
    let Once { placed, is_shape_only, ids, machine, guard } = node;
    let inputs = inputs(placed, *is_shape_only)?;
    let mut kernel = finalize(def, placed, *machine)?;
    let source = |port: usize| {
        let (desc, bytes) = (*inputs.get(port)?)?;
        Some(Source { id: *ids.get(port)?, desc, bytes: bytes?, stable: None })
    };
    kernel.pack(source, store, None)?;
    kernel.prepare(store.budget(), *guard)?;
    let take = |bytes: usize| store.budget().zeroed(bytes).map_err(out_of_memory);
    let buffers = placed.outputs.iter().map(|desc| take(desc.size_bytes()));
    let buffers = buffers.collect::<Result<Vec<_>, _>>()?;
    let scratch = take(kernel.workspace().bytes())?;
    let read = |(port, input): (usize, &Input<'_>)| match input {
        Some((desc, bytes)) if kernel.reads(port) => {
            let data = bytes.map_or(ptr::null(), <[u8]>::as_ptr);
            TensorArg::new(desc, data.cast_mut())
        }
        Some(_) | None => TensorArg::ABSENT,
    };
    let made = placed.outputs.iter().zip(&buffers);
    let made = made.map(|(desc, buffer)| TensorArg::new(desc, buffer.as_ptr()));
    let mut args: Vec<TensorArg> = inputs.iter().enumerate().map(read).chain(made).collect();
    let ports = (inputs.len(), buffers.len());
    let owed = ExecArgs::owed(args.iter().skip(ports.0));
    let mut call = kernel.exec_args(args.as_mut_ptr(), ports, owed, &scratch, ptr::null());
    call.guard = guard.cell();
    // SAFETY: `call` points to `args`, whose tensors lie in constants of their size, which are only read, or nowhere where the
    // operator reads none of their elements, and in `buffers` of theirs, and to `scratch` and the kernel's constants; all of
    // them outlive the call.
    let status = unsafe { (kernel.execute_fn())(&raw const call) };
    if status != Status::OK.code() {
        let failure = failure(status, *guard);
        return Err(Refusal { status: Status::FAILED, message: failure.to_string() });
    }
    let made = placed.outputs.iter().zip(buffers).zip(args.iter().skip(ports.0));
    made.map(|((desc, buffer), arg)| said(desc, buffer, arg, store)).collect()
}

/// Description, and elements where they are known; nothing where the node leaves the input out.
type Input<'a> = Option<(TensorDesc, Option<&'a [u8]>)>;

/// The inputs of a node, whose elements must be known unless it reads extents alone.
fn inputs<'a>(placed: &PlacedNode<'a>, is_shape_only: bool) -> Result<Vec<Input<'a>>, Refusal> {
    let bad = |message: String| Refusal { status: Status::BAD_CALL, message };
    let node = &placed.node;
    if node.inputs.len() != node.constants.len() {
        return Err(bad("the inputs are not all known".to_owned()));
    }
    let pairs = node.inputs.iter().zip(&node.constants).enumerate();
    let known = pairs.map(|(port, (desc, bytes))| match bytes {
        _ if desc.is_absent() => Ok(None),
        Some(bytes) if bytes.len() == desc.size_bytes() => Ok(Some((*desc, Some(*bytes)))),
        None if is_shape_only && desc.full_shape().is_fixed() => Ok(Some((*desc, None))),
        Some(_) | None => Err(bad(format!("input {port}, {desc}, is not known"))),
    });
    known.collect()
}

/// An output with the extents that the call said.
fn said(
    desc: &TensorDesc,
    buffer: Buffer,
    arg: &TensorArg,
    store: &PackStore,
) -> Result<Option<(TensorDesc, Buffer)>, Refusal> {
    if desc.is_absent() {
        return Ok(None);
    }
    if desc.full_shape().is_fixed() {
        return Ok(Some((*desc, buffer)));
    }
    let broken = || Refusal {
        status: Status::BAD_CALL,
        message: format!("the extents said of {desc} are not within it"),
    };
    let dims = arg.dims.get(..usize::from(arg.rank)).ok_or_else(broken)?;
    let desc = desc.with_extents(Shape::new(dims).map_err(|_| broken())?);
    let bytes = buffer.bytes().get(..desc.size_bytes()).ok_or_else(broken)?;
    let mut exact = store.budget().zeroed(bytes.len()).map_err(out_of_memory)?;
    exact.bytes_mut().copy_from_slice(bytes);
    Ok(Some((desc, exact)))
}

fn out_of_memory(error: OutOfMemory) -> Refusal {
    Refusal { status: Status::FAILED, message: error.to_string() }
}
