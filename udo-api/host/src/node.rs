//! A node as packages see it before the run, and shape inference.

use std::borrow::Cow;
use std::ffi::c_void;
use std::fmt;

use udo_api::abi::{ErrorSink, InferArgs, NodeArgs, ParamValue, Span};
use udo_api::{AxisEncoding, Core, EpilogueStep, FastMath, Isa, OpDef, Status, TensorDesc};

use crate::ParamSetting;
use crate::callee::calling;

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
pub struct NodeDesc<'a> {
    /// One per input; absent ones included.
    pub inputs: Vec<TensorDesc>,
    /// One per input; the elements of those that are constant, aligned to 64 bytes.
    pub constants: Vec<Option<&'a [u8]>>,
    /// Name and value of each parameter of the schema, in its order.
    pub params: &'a [(&'static str, ParamSetting)],
    /// How many outputs there are, absent ones included.
    pub output_count: usize,
    /// The operator-set version that the node comes from; 0 where there is none.
    pub opset: u32,
}

/// A node on a core, as a kernel sees it before any run.
#[derive(Clone, Debug)]
pub struct PlacedNode<'a> {
    /// The node, with the inputs of the epilogue's steps behind all that the operator has.
    pub node: NodeDesc<'a>,
    /// One per output; absent ones included.
    pub outputs: Vec<TensorDesc>,
    /// The core.
    pub core: Core,
    /// What is done to the first output before it is stored: in [`accept`](crate::accept), all that the kernel might take, with
    /// `outputs` as they are without; in [`finalize`](crate::finalize), what it took, with `outputs` as they are after it.
    pub epilogue: Vec<EpilogueStep>,
}

impl<'a> PlacedNode<'a> {
    /// Without an epilogue.
    pub fn new(node: NodeDesc<'a>, core: Core, outputs: &[TensorDesc]) -> Self {
        let node = NodeDesc { output_count: outputs.len(), ..node };
        Self { node, outputs: outputs.to_vec(), core, epilogue: Vec::new() }
    }

    pub(crate) fn epilogue_count(&self) -> u32 {
        u32::try_from(self.epilogue.len()).unwrap_or(u32::MAX)
    }
}

/// What kernels are told of where they will run.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// How many threads work on a call at most.
    pub threads: u32,
    /// The instruction set that the host's own kernels use.
    pub isa: Isa,
    /// Bytes of the core's own fast memory; 0 where it has none.
    pub fast_memory_bytes: usize,
    /// What kernels may do less exactly.
    pub fast_math: FastMath,
    /// What a byte of packed constants costs, in multiply-adds of a run.
    pub memory_price: u32,
}

/// What `NodeArgs` points to.
pub(crate) struct RawNode {
    constants: Vec<Span>,
    params: Vec<ParamValue>,
    /// What parameters that are lists of texts point to.
    _texts: Vec<Vec<Span>>,
    sink: ErrorSink,
}

#[repr(align(64))]
struct Aligned([u8; 1]);

static EMPTY_CONSTANT: Aligned = Aligned([0]);

/// The message of an error, as a callee writes it.
#[derive(Default)]
pub(crate) struct ErrorText(String);

impl From<ErrorText> for String {
    fn from(text: ErrorText) -> Self {
        text.0
    }
}

impl ErrorText {
    /// Where a callee writes; valid while `self` stays where it is and is not touched.
    pub(crate) fn sink(&mut self) -> ErrorSink {
        let ctx = std::ptr::from_mut(&mut self.0).cast();
        ErrorSink { size: ErrorSink::SIZE, reserved: 0, ctx, write: append, reserved_words: [0; 4] }
    }
}

// SAFETY: called by way of `ErrorText::sink` alone, whose `ctx` is a message.
unsafe extern "C" fn append(ctx: *mut c_void, text: *const u8, bytes: usize) {
    // SAFETY: `ctx` is the `String` of an `ErrorText`, which outlives the sink.
    let message = unsafe { &mut *ctx.cast::<String>() };
    if !text.is_null() {
        // SAFETY: the package passes `bytes` readable bytes at `text` for the call.
        let text = unsafe { std::slice::from_raw_parts(text, bytes) };
        message.push_str(&printable(&String::from_utf8_lossy(text)));
    }
}

/// A text of a package with its control characters escaped, as it ends up on terminals and in logs; lines stay lines.
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
    /// `errors` and everything that `node` borrows must outlive what is made of it.
    pub(crate) fn new(node: &NodeDesc<'_>, errors: &mut ErrorText) -> Self {
        let span = |constant: Option<&[u8]>| match constant {
            None => Span::NONE,
            // Constant and empty: not null, so that it still counts as constant.
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

pub(crate) fn refuse(status: u32, message: String) -> Result<(), Refusal> {
    match Status::from_code(status) {
        Status::OK => Ok(()),
        status => Err(Refusal { status, message }),
    }
}

/// Asks `op` for the types and shapes of a node's outputs; those it leaves out are absent.
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
    // SAFETY: `args` points to the descriptions, spans and parameters of `node` and `raw`, as many as its
    // counts say, and to `output_count` outputs; all of them outlive the call.
    let status = calling(op, || unsafe { (op.infer_fn())(&raw const args) });
    refuse(status, errors.into())?;
    for (index, output) in outputs.iter_mut().enumerate() {
        *output = kept(output).map_err(|why| {
            let message =
                format!("shape inference leaves the description of output {index} broken{why}");
            Refusal { status: Status::BAD_CALL, message }
        })?;
    }
    Ok(outputs)
}

/// What a package says of a tensor, with an encoding per axis in memory of the host's, or what is wrong with it.
fn kept(desc: &TensorDesc) -> Result<TensorDesc, String> {
    desc.check_encoding().map_err(|why| format!(": {why}"))?;
    if !desc.is_sound() {
        return Err(String::new());
    }
    let Some(encoding) = desc.axis_encoding() else { return Ok(*desc) };
    AxisEncoding::of(encoding.axis(), encoding.scales(), encoding.zero_points())
        .map(|kept| desc.with_axis_encoding(kept))
        .map_err(|why| format!(": {why}"))
}
