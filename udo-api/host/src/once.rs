//! A single call of a kernel outside a plan, on known inputs, as constant folding needs it.

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
    /// The node; the inputs whose elements it reads are constants.
    pub placed: PlacedNode<'a>,
    /// Whether it reads only shapes, so that inputs need no elements.
    pub is_shape_only: bool,
    /// The ids of the constants, one per input.
    pub ids: Vec<ConstantId>,
    /// The properties of the machine; the kernel runs on the calling thread only.
    pub machine: Machine,
    /// The heap guard of the library that holds the kernel.
    pub guard: LibraryGuard,
}

/// Computes a node with the kernel of `def` and returns its outputs, with the dimensions that the call sets; `None` for
/// omitted outputs. Memory counts in the budget of `store`.
///
/// # Errors
/// The kernel refuses the node or fails, an input is not known, or memory is exhausted.
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
    let allocate = |bytes: usize| store.budget().zeroed(bytes).map_err(out_of_memory);
    let buffers = placed.outputs.iter().map(|desc| allocate(desc.size_bytes()));
    let buffers = buffers.collect::<Result<Vec<_>, _>>()?;
    let scratch = allocate(kernel.workspace().bytes())?;
    let input_arg = |(port, input): (usize, &Input<'_>)| match input {
        Some((desc, bytes)) if kernel.reads(port) => {
            let data = bytes.map_or(ptr::null(), <[u8]>::as_ptr);
            TensorArg::new(desc, data.cast_mut())
        }
        Some(_) | None => TensorArg::ABSENT,
    };
    let output_args = placed.outputs.iter().zip(&buffers);
    let output_args = output_args.map(|(desc, buffer)| TensorArg::new(desc, buffer.as_ptr()));
    let mut args: Vec<TensorArg> =
        inputs.iter().enumerate().map(input_arg).chain(output_args).collect();
    let port_counts = (inputs.len(), buffers.len());
    let owed = ExecArgs::owed(args.iter().skip(port_counts.0));
    let mut call = kernel.exec_args(args.as_mut_ptr(), port_counts, owed, &scratch, ptr::null());
    call.guard = guard.cell();
    // SAFETY: `call` points to `args`, to `scratch` and to the kernel's constants, all of which outlive the call. The
    // tensors of `args` are constants, which are only read, null pointers where the operator does not read elements, or
    // `buffers` of the outputs.
    let status = unsafe { (kernel.execute_fn())(&raw const call) };
    if status != Status::OK.code() {
        let failure = failure(status, *guard);
        return Err(Refusal { status: Status::FAILED, message: failure.to_string() });
    }
    let outputs = placed.outputs.iter().zip(buffers).zip(args.iter().skip(port_counts.0));
    outputs.map(|((desc, buffer), arg)| output_tensor(desc, buffer, arg, store)).collect()
}

/// A description, with elements if they are known; `None` for an omitted input.
type Input<'a> = Option<(TensorDesc, Option<&'a [u8]>)>;

/// Returns the inputs of a node; their elements must be known unless it reads only shapes.
fn inputs<'a>(placed: &PlacedNode<'a>, is_shape_only: bool) -> Result<Vec<Input<'a>>, Refusal> {
    let refusal = |message: String| Refusal { status: Status::BAD_CALL, message };
    let node = &placed.node;
    if node.inputs.len() != node.constants.len() {
        return Err(refusal("not all inputs are known".to_owned()));
    }
    let pairs = node.inputs.iter().zip(&node.constants).enumerate();
    let known = pairs.map(|(port, (desc, bytes))| match bytes {
        _ if desc.is_absent() => Ok(None),
        Some(bytes) if bytes.len() == desc.size_bytes() => Ok(Some((*desc, Some(*bytes)))),
        None if is_shape_only && desc.full_shape().is_fixed() => Ok(Some((*desc, None))),
        Some(_) | None => Err(refusal(format!("input {port}, {desc}, is not known"))),
    });
    known.collect()
}

/// Returns an output with the dimensions that the call set.
fn output_tensor(
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
    let invalid_dims = || Refusal {
        status: Status::BAD_CALL,
        message: format!("the call sets dimensions outside {desc}"),
    };
    let dims = arg.dims.get(..usize::from(arg.rank)).ok_or_else(invalid_dims)?;
    let desc = desc.with_extents(Shape::new(dims).map_err(|_| invalid_dims())?);
    let bytes = buffer.bytes().get(..desc.size_bytes()).ok_or_else(invalid_dims)?;
    let mut exact = store.budget().zeroed(bytes.len()).map_err(out_of_memory)?;
    exact.bytes_mut().copy_from_slice(bytes);
    Ok(Some((desc, exact)))
}

fn out_of_memory(error: OutOfMemory) -> Refusal {
    Refusal { status: Status::FAILED, message: error.to_string() }
}
