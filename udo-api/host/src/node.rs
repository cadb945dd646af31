//! Descriptions of nodes that the host passes to packages before a run, and the call of shape inference.

use std::borrow::Cow;
use std::ffi::c_void;
use std::fmt;

use udo_api::abi::{ErrorSink, InferArgs, NodeArgs, ParamValue, Span};
use udo_api::{AxisEncoding, Core, EpilogueStep, FastMath, Isa, OpDef, Status, TensorDesc};

use crate::ParamSetting;
use crate::callee::calling;

/// A package's refusal of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The returned status.
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
pub struct NodeDesc<'a> {
    /// One per input, including absent ones.
    pub inputs: Vec<TensorDesc>,
    /// One per input: the elements of constants, aligned to 64 bytes.
    pub constants: Vec<Option<&'a [u8]>>,
    /// Name and value of each parameter, in the schema's order.
    pub params: &'a [(&'static str, ParamSetting)],
    /// The number of outputs, including absent ones.
    pub output_count: usize,
    /// The operator set version of the node; 0 without one.
    pub opset: u32,
}

/// A node on a core, as a kernel sees it before a run.
#[derive(Clone, Debug)]
pub struct PlacedNode<'a> {
    /// The node; the inputs of the epilogue's steps follow those of the operator.
    pub node: NodeDesc<'a>,
    /// One per output, including absent ones.
    pub outputs: Vec<TensorDesc>,
    /// The core.
    pub core: Core,
    /// Operations on the first output before it is stored. In [`accept`](crate::accept): all steps that the kernel
    /// may accept, and `outputs` describes the tensors before them. In [`finalize`](crate::finalize): the accepted
    /// steps, and `outputs` describes the tensors after them.
    pub epilogue: Vec<EpilogueStep>,
}

impl<'a> PlacedNode<'a> {
    /// Creates a placed node without an epilogue.
    pub fn new(node: NodeDesc<'a>, core: Core, outputs: &[TensorDesc]) -> Self {
        let node = NodeDesc { output_count: outputs.len(), ..node };
        Self { node, outputs: outputs.to_vec(), core, epilogue: Vec::new() }
    }

    pub(crate) fn epilogue_count(&self) -> u32 {
        u32::try_from(self.epilogue.len()).unwrap_or(u32::MAX)
    }
}

/// Properties of the machine that kernels see.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// The maximum number of threads of a call.
    pub threads: u32,
    /// The instruction set that the host's own kernels use.
    pub isa: Isa,
    /// The size of the core's fast memory in bytes; 0 without one.
    pub fast_memory_bytes: usize,
    /// The precision that kernels may trade for speed.
    pub fast_math: FastMath,
    /// The cost of a byte of packed constants, in multiply-adds of a run.
    pub memory_price: u32,
}

/// The targets of the pointers in `NodeArgs`.
pub(crate) struct RawNode {
    constants: Vec<Span>,
    params: Vec<ParamValue>,
    /// The targets of string-list parameters.
    _texts: Vec<Vec<Span>>,
    sink: ErrorSink,
}

#[repr(align(64))]
struct Aligned([u8; 1]);

/// The target of the pointer to an empty constant.
static EMPTY_CONSTANT: Aligned = Aligned([0]);

/// The buffer for a callee's error message.
#[derive(Default)]
pub(crate) struct ErrorText(String);

impl From<ErrorText> for String {
    fn from(text: ErrorText) -> Self {
        text.0
    }
}

impl ErrorText {
    /// Returns a sink that writes to this buffer; valid while `self` stays in place and is not accessed.
    pub(crate) fn sink(&mut self) -> ErrorSink {
        let ctx = std::ptr::from_mut(&mut self.0).cast();
        ErrorSink { size: ErrorSink::SIZE, reserved: 0, ctx, write: append, reserved_words: [0; 4] }
    }
}

// SAFETY: called only through `ErrorText::sink`, whose `ctx` is a message.
unsafe extern "C" fn append(ctx: *mut c_void, text: *const u8, bytes: usize) {
    // SAFETY: `ctx` is the `String` of an `ErrorText`, which outlives the sink.
    let message = unsafe { &mut *ctx.cast::<String>() };
    if !text.is_null() {
        // SAFETY: the package passes `bytes` readable bytes at `text` for the call.
        let text = unsafe { std::slice::from_raw_parts(text, bytes) };
        message.push_str(&printable(&String::from_utf8_lossy(text)));
    }
}

/// Escapes the control characters of a package's message, which ends up on terminals and in logs; line breaks stay.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !c.is_control() || c == '\n' || c == '\t';
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let escaped = text
        .chars()
        .map(|c| if is_plain(c) { c.to_string() } else { c.escape_default().to_string() });
    Cow::Owned(escaped.collect())
}

impl RawNode {
    /// Collects the targets. `errors` and everything that `node` borrows must outlive the result.
    pub(crate) fn new(node: &NodeDesc<'_>, errors: &mut ErrorText) -> Self {
        let span = |constant: Option<&[u8]>| match constant {
            None => Span::NONE,
            // An empty constant is not null, so that it still counts as constant.
            Some([]) => Span { ptr: EMPTY_CONSTANT.0.as_ptr(), bytes: 0 },
            Some(bytes) => Span { ptr: bytes.as_ptr(), bytes: bytes.len() },
        };
        let mut texts = Vec::new();
        let params = node.params.iter().map(|(name, setting)| setting.to_abi(name, &mut texts));
        Self {
            constants: node.constants.iter().copied().map(span).collect(),
            params: params.collect(),
            _texts: texts,
            sink: errors.sink(),
        }
    }

    pub(crate) fn args(&self, node: &NodeDesc<'_>) -> NodeArgs {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        NodeArgs {
            inputs: node.inputs.as_ptr(),
            constants: self.constants.as_ptr(),
            params: self.params.as_ptr(),
            input_count: count(node.inputs.len().min(self.constants.len())),
            output_count: count(node.output_count),
            param_count: count(self.params.len()),
            opset: node.opset,
            errors: &raw const self.sink,
            reserved_words: [0; 4],
        }
    }
}

/// Converts a status and the message of a callee to a result.
pub(crate) fn refuse(status: u32, message: String) -> Result<(), Refusal> {
    match Status::from_code(status) {
        Status::OK => Ok(()),
        status => Err(Refusal { status, message }),
    }
}

/// Infers the types and shapes of a node's outputs; omitted ones are absent.
///
/// # Errors
/// The operator refuses the node.
pub fn infer(op: &OpDef, node: &NodeDesc<'_>) -> Result<Vec<TensorDesc>, Refusal> {
    let mut errors = ErrorText::default();
    let mut outputs = vec![TensorDesc::ABSENT; node.output_count];
    let raw = RawNode::new(node, &mut errors);
    let args = InferArgs {
        size: InferArgs::SIZE,
        reserved: 0,
        node: raw.args(node),
        outputs: outputs.as_mut_ptr(),
        reserved_words: [0; 4],
    };
    // SAFETY: `args` points to the descriptions, spans and parameters of `node` and `raw`, with matching counts, and to
    // `output_count` outputs; all of them outlive the call.
    let status = calling(op, || unsafe { (op.infer_fn())(&raw const args) });
    refuse(status, errors.into())?;
    for (index, output) in outputs.iter_mut().enumerate() {
        *output = copy_desc(output).map_err(|reason| {
            let message =
                format!("shape inference returns an invalid description of output {index}{reason}");
            Refusal { status: Status::BAD_CALL, message }
        })?;
    }
    Ok(outputs)
}

/// Copies a package's description, with an encoding per axis in the host's memory; or returns why it is invalid.
fn copy_desc(desc: &TensorDesc) -> Result<TensorDesc, String> {
    desc.check_encoding().map_err(|reason| format!(": {reason}"))?;
    if !desc.is_sound() {
        return Err(String::new());
    }
    let Some(encoding) = desc.axis_encoding() else { return Ok(*desc) };
    AxisEncoding::intern(encoding.axis(), encoding.scales(), encoding.zero_points())
        .map(|interned| desc.with_axis_encoding(interned))
        .map_err(|reason| format!(": {reason}"))
}
