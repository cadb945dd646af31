//! Serialization of nodes as describe and finalize see them: written by the host, read by the
//! worker.

use std::ffi::c_void;
use std::sync::Arc;

use udo_api::abi::{
    AcceptArgs, EpilogueStep, FinalizeArgs, HostTable, InferArgs, NodeArgs, ParamValue, Span,
    fast_math, param_kinds,
};
use udo_api::{Core, FastMath, Isa, OpSchema, TensorDesc};
use udo_host::{Buffer, Machine, NodeDesc, ParamSetting, PlacedNode, TensorSetting};

use super::wire::{InvalidMessage, Reader, Writer};

/// # Safety
/// `ptr` points to `len` items that outlive the result, or `len` is 0.
pub(super) unsafe fn slice<'a, T>(ptr: *const T, len: usize) -> &'a [T] {
    if len == 0 || ptr.is_null() {
        return &[];
    }
    // SAFETY: `ptr` is not null and points to `len` items.
    unsafe { std::slice::from_raw_parts(ptr, len) }
}

/// # Safety
/// `span` is valid and outlives the result.
pub(super) unsafe fn bytes_of<'a>(span: &Span) -> &'a [u8] {
    // SAFETY: as the caller promises.
    unsafe { slice(span.ptr, span.bytes) }
}

impl Writer {
    /// # Safety
    /// The pointers of `args` are valid for its counts.
    pub(super) unsafe fn infer(&mut self, args: &InferArgs) {
        // SAFETY: as the caller promises.
        unsafe { self.node(&args.node) };
    }

    /// # Safety
    /// As for [`Writer::infer`].
    pub(super) unsafe fn accept(&mut self, args: &AcceptArgs) {
        // SAFETY: as the caller promises.
        unsafe { self.node(&args.node) };
        // SAFETY: there are as many outputs, and as many steps.
        let placed = unsafe {
            Placed::new(args.outputs, args.epilogue, [args.node.output_count, args.epilogue_count])
        };
        self.placed(&placed, args.core);
    }

    /// # Safety
    /// As for [`Writer::infer`].
    pub(super) unsafe fn finalize(&mut self, args: &FinalizeArgs) {
        // SAFETY: as the caller promises.
        unsafe { self.node(&args.node) };
        // SAFETY: there are as many outputs, and as many steps.
        let placed = unsafe {
            Placed::new(args.outputs, args.epilogue, [args.node.output_count, args.epilogue_count])
        };
        self.placed(&placed, args.core);
        // SAFETY: the host gives a table.
        let HostTable { threads, isa, fast_math, fast_memory_bytes, memory_price, .. } =
            unsafe { &*args.host };
        for number in [*threads, *isa, *fast_math, *memory_price] {
            self.word(u64::from(number));
        }
        self.number(*fast_memory_bytes);
    }

    fn placed(&mut self, of: &Placed<'_>, core: Core) {
        self.items(of.outputs);
        self.items(&[core]);
        self.items(of.epilogue);
    }

    /// # Safety
    /// As for [`Writer::infer`].
    unsafe fn node(&mut self, node: &NodeArgs) {
        let inputs = node.input_count as usize;
        // SAFETY: there are as many descriptions.
        self.items(unsafe { slice(node.inputs, inputs) });
        // SAFETY: there are as many spans.
        for span in unsafe { slice(node.constants, inputs) } {
            self.flag(!span.ptr.is_null());
            // SAFETY: the elements of a constant are there.
            self.aligned(unsafe { bytes_of(span) });
        }
        // SAFETY: there are as many parameters.
        let params = unsafe { slice(node.params, node.param_count as usize) };
        self.number(params.len());
        for param in params {
            // SAFETY: the values of a parameter are there.
            unsafe { self.param(param) };
        }
        self.word(u64::from(node.output_count));
        self.word(u64::from(node.opset));
    }

    /// # Safety
    /// The pointers of `param` are valid.
    unsafe fn param(&mut self, param: &ParamValue) {
        self.word(u64::from(param.kind));
        self.word(param.int.cast_unsigned());
        self.word(param.float.to_bits());
        // SAFETY: null, or the description of a tensor.
        let desc = unsafe { param.desc.as_ref() };
        self.items(desc.map_or(&[][..], std::slice::from_ref));
        if param.kind != param_kinds::TEXTS {
            // SAFETY: the bytes of a value are there.
            self.aligned(unsafe { bytes_of(&param.data) });
            return;
        }
        let count = param.data.bytes / size_of::<Span>();
        // SAFETY: a list of strings has a span for each.
        let texts = unsafe { slice(param.data.ptr.cast::<c_void>().cast::<Span>(), count) };
        self.number(texts.len());
        for text in texts {
            // SAFETY: each text is there.
            self.bytes(unsafe { bytes_of(text) });
        }
    }
}

/// The description of a node that only kernels receive.
struct Placed<'a> {
    outputs: &'a [TensorDesc],
    epilogue: &'a [EpilogueStep],
}

impl Placed<'_> {
    /// # Safety
    /// `counts` are the numbers of outputs and epilogue steps.
    unsafe fn new(
        outputs: *const TensorDesc,
        epilogue: *const EpilogueStep,
        counts: [u32; 2],
    ) -> Self {
        let [outputs_len, steps] = counts.map(|count| count as usize);
        // SAFETY: as the caller promises.
        let outputs = unsafe { slice(outputs, outputs_len) };
        // SAFETY: as the caller promises.
        Self { outputs, epilogue: unsafe { slice(epilogue, steps) } }
    }
}

/// A node that was read.
pub(super) struct Node<'a> {
    inputs: Vec<TensorDesc>,
    constants: Vec<Option<&'a [u8]>>,
    pub(super) params: Vec<(&'static str, ParamSetting)>,
    output_count: usize,
    opset: u32,
}

impl Node<'_> {
    pub(super) fn desc(&self) -> NodeDesc<'_> {
        NodeDesc {
            inputs: self.inputs.clone(),
            constants: self.constants.clone(),
            params: &self.params,
            output_count: self.output_count,
            opset: self.opset,
        }
    }
}

impl<'a> Reader<'a> {
    /// Reads a node of an operator with this schema.
    pub(super) fn node(&mut self, schema: &OpSchema) -> Result<Node<'a>, InvalidMessage> {
        let inputs = self.items::<TensorDesc>()?;
        let constant = |reader: &mut Self| {
            let (is_constant, bytes) = (reader.flag()?, reader.aligned()?);
            Ok(is_constant.then_some(bytes))
        };
        let constants: Result<Vec<_>, _> = inputs.iter().map(|_| constant(self)).collect();
        let constants = constants?;
        let count = self.count()?;
        let names = schema.params().iter().map(udo_api::Param::name);
        let params: Result<Vec<_>, _> =
            names.take(count).map(|name| Ok((name, self.setting()?))).collect();
        let (output_count, opset) = (self.number()?, self.u32()?);
        Ok(Node { inputs, constants, params: params?, output_count, opset })
    }

    fn setting(&mut self) -> Result<ParamSetting, InvalidMessage> {
        let (kind, int, float) = (self.u32()?, self.word()?.cast_signed(), self.word()?);
        let desc = self.items::<TensorDesc>()?.pop();
        if kind == param_kinds::TEXTS {
            let texts: Result<Vec<_>, _> =
                (0..self.count()?).map(|_| self.text().map(str::to_owned)).collect();
            return Ok(ParamSetting::Texts(texts?));
        }
        let data = self.aligned()?;
        let words = || data.as_chunks::<8>().0.iter().copied();
        Ok(match kind {
            param_kinds::INT => ParamSetting::Int(int),
            param_kinds::FLOAT => ParamSetting::Float(f64::from_bits(float)),
            param_kinds::TEXT => {
                ParamSetting::Text(String::from_utf8(data.to_vec()).map_err(|_| InvalidMessage)?)
            }
            param_kinds::INTS => ParamSetting::Ints(words().map(i64::from_ne_bytes).collect()),
            param_kinds::FLOATS => ParamSetting::Floats(words().map(f64::from_ne_bytes).collect()),
            param_kinds::TENSOR => {
                let data = Buffer::from_bytes(data).map_err(|_| InvalidMessage)?;
                let tensor = desc.and_then(|desc| TensorSetting::new(desc, Arc::new(data)));
                ParamSetting::Tensor(tensor.ok_or(InvalidMessage)?)
            }
            param_kinds::ABSENT => ParamSetting::Absent,
            _ => return Err(InvalidMessage),
        })
    }

    /// Reads a node placed on a core.
    pub(super) fn placed<'b>(
        &mut self,
        node: &'b Node<'_>,
    ) -> Result<PlacedNode<'b>, InvalidMessage> {
        let outputs = self.items::<TensorDesc>()?;
        let core = self.items::<Core>()?.pop().ok_or(InvalidMessage)?;
        let epilogue = self.items::<EpilogueStep>()?;
        Ok(PlacedNode { epilogue, ..PlacedNode::new(node.desc(), core, &outputs) })
    }

    /// Reads the description of the machine that a kernel will run on.
    pub(super) fn machine(&mut self) -> Result<Machine, InvalidMessage> {
        let (threads, isa, fast_math, memory_price) =
            (self.u32()?, self.u32()?, self.u32()?, self.u32()?);
        let fast_math =
            if fast_math & fast_math::BF16 != 0 { FastMath::Bf16 } else { FastMath::None };
        let fast_memory_bytes = self.number()?;
        let isa = Isa::from_code(isa).ok_or(InvalidMessage)?;
        Ok(Machine { threads, isa, fast_memory_bytes, fast_math, memory_price })
    }
}
