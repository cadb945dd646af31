//! Runs operators through the raw ABI, as a host does.

mod tensor;

use std::ffi::c_void;

use udo_api::abi::{
    ErrorSink, ExecArgs, FillFn, FinalizeArgs, Finalized, HostTable, InferArgs, NodeArgs,
    ParallelTable, ParamValue, Span, TensorArg,
};
use udo_api::{
    Core, DType, Encoding, ExecError, KernelDef, KernelFlags, OpDef, Side, Status, TensorDesc,
    TypeRule, ValueKind, Wanted, Workspace,
};

use tensor::{Line, Memory, permuted};
pub(crate) use tensor::{Tensor, tensor};

#[global_allocator]
static GUARD: udo_api::GuardAlloc = udo_api::GuardAlloc;

#[derive(Clone)]
enum Given {
    Int(i64),
    Float(f64),
    Text(String),
    Ints(Vec<i64>),
}

/// One node, to be run.
#[derive(Clone)]
pub(crate) struct Run {
    op: &'static OpDef,
    core: Core,
    opset: u32,
    inputs: Vec<Option<(Tensor, bool)>>,
    params: Vec<(&'static str, Given)>,
    output_count: usize,
    encodings: Vec<(usize, Encoding)>,
    threads: u32,
}

impl Run {
    pub(crate) fn new(op: &str) -> Self {
        let op = crate::OPS.iter().find(|o| o.schema().name() == op).unwrap();
        Self {
            op,
            core: Core::CPU,
            opset: 21,
            inputs: Vec::new(),
            params: Vec::new(),
            output_count: 1,
            encodings: Vec::new(),
            threads: 1,
        }
    }

    /// With a parallel-for that claims so many threads; it makes the calls in reverse order.
    pub(crate) fn threads(mut self, threads: u32) -> Self {
        self.threads = threads;
        self
    }

    pub(crate) fn on(mut self, core: Core) -> Self {
        self.core = core;
        self
    }

    pub(crate) fn opset(mut self, opset: u32) -> Self {
        self.opset = opset;
        self
    }

    /// The next input, known only at the run.
    pub(crate) fn input(mut self, tensor: Tensor) -> Self {
        self.inputs.push(Some((tensor, false)));
        self
    }

    /// The next input, known from the start.
    pub(crate) fn constant(mut self, tensor: Tensor) -> Self {
        self.inputs.push(Some((tensor, true)));
        self
    }

    /// The next input is left out.
    pub(crate) fn absent(mut self) -> Self {
        self.inputs.push(None);
        self
    }

    fn param(mut self, name: &'static str, value: Given) -> Self {
        assert!(self.op.schema().params().iter().any(|p| p.name() == name), "no parameter {name}");
        self.params.push((name, value));
        self
    }

    pub(crate) fn int(self, name: &'static str, value: i64) -> Self {
        self.param(name, Given::Int(value))
    }

    pub(crate) fn float(self, name: &'static str, value: f64) -> Self {
        self.param(name, Given::Float(value))
    }

    pub(crate) fn text(self, name: &'static str, value: &str) -> Self {
        self.param(name, Given::Text(value.to_owned()))
    }

    pub(crate) fn ints(self, name: &'static str, values: &[i64]) -> Self {
        self.param(name, Given::Ints(values.to_vec()))
    }

    pub(crate) fn outputs(mut self, count: usize) -> Self {
        self.output_count = count;
        self
    }

    pub(crate) fn output_encoding(mut self, port: usize, scale: f32, zero_point: i32) -> Self {
        self.encodings.push((port, Encoding { scale, zero_point }));
        self
    }

    /// The only output.
    pub(crate) fn one(self) -> Tensor {
        self.all().remove(0)
    }

    /// All outputs, which are the same in place where a kernel offers that, and of every kernel that takes
    /// the node.
    pub(crate) fn all(self) -> Vec<Tensor> {
        let mut runs = self.runs(InPlace::No).unwrap_or_else(|e| panic!("{e}"));
        let again = self.runs(InPlace::WherePossible).unwrap_or_else(|e| panic!("in place: {e}"));
        for (apart, same) in runs.iter().flatten().zip(again.iter().flatten()) {
            assert!(apart.bytes() == same.bytes(), "the kernel computes something else in place");
        }
        let outputs = runs.swap_remove(0);
        for (output, other) in runs.iter().flat_map(|other| outputs.iter().zip(other)) {
            assert_eq!(output.dims, other.dims, "of two kernels");
            if output.desc.dtype() == Some(DType::F32) {
                let wanted: Vec<f64> = output.values::<f32>().into_iter().map(f64::from).collect();
                assert_near(&other.values::<f32>(), &wanted, 1e-4);
            } else {
                assert!(output.bytes() == other.bytes(), "kernels compute different things");
            }
        }
        outputs
    }

    /// Why the run fails.
    pub(crate) fn error(self) -> String {
        match self.runs(InPlace::No) {
            Ok(_) => panic!("the run succeeds"),
            Err(message) => message,
        }
    }

    /// The kernels that take such tensors.
    fn kernels(
        &self,
        inputs: &[TensorDesc],
        outputs: &[TensorDesc],
    ) -> impl Iterator<Item = &'static KernelDef> {
        let fits = |rule: &TypeRule| {
            let found = match rule.side() {
                Some(Side::Input) => inputs.get(rule.port()),
                Some(Side::Output) => outputs.get(rule.port()),
                None => None,
            };
            let Some(found) = found.filter(|d| !d.is_absent()) else { return true };
            match rule.wanted() {
                Wanted::Types(types) => found.is_in(types),
                Wanted::SameAsInput(other) => found.dtype() == inputs[other].dtype(),
            }
        };
        crate::KERNELS.iter().filter(move |k| {
            k.op() == self.op.schema().name()
                && k.core().runs_on(self.core)
                && k.type_rules().iter().all(fits)
        })
    }

    fn param_values(&self) -> Vec<ParamValue> {
        let span = |ptr: *const u8, bytes: usize| Span { ptr, bytes };
        let values = self.op.schema().params().iter().map(|param| {
            let name = param.name();
            let mut value = ParamValue {
                name: span(name.as_ptr(), name.len()),
                kind: 0,
                reserved: 0,
                int: 0,
                float: 0.0,
                data: Span::NONE,
            };
            match self.params.iter().find(|(n, _)| *n == name) {
                Some((_, Given::Int(int))) => (value.kind, value.int) = (1, *int),
                Some((_, Given::Float(float))) => (value.kind, value.float) = (2, *float),
                Some((_, Given::Text(text))) => {
                    (value.kind, value.data) = (3, span(text.as_ptr(), text.len()));
                }
                Some((_, Given::Ints(ints))) => {
                    (value.kind, value.data) =
                        (4, span(ints.as_ptr().cast(), size_of_val(&**ints)));
                }
                None => match param.default_value() {
                    ValueKind::Int(int) => (value.kind, value.int) = (1, int),
                    ValueKind::Float(float) => (value.kind, value.float) = (2, float),
                    ValueKind::Str(text) => {
                        (value.kind, value.data) = (3, span(text.as_ptr(), text.len()));
                    }
                    ValueKind::Ints(ints) => {
                        (value.kind, value.data) =
                            (4, span(ints.as_ptr().cast(), size_of_val(ints)));
                    }
                    _ => assert!(param.is_optional(), "parameter {name} is missing"),
                },
            }
            value
        });
        values.collect()
    }

    /// The outputs of each kernel that takes the node, or why the last of them does not.
    fn runs(&self, in_place: InPlace) -> Result<Vec<Vec<Tensor>>, String> {
        let mut inputs = self.inputs.clone();
        let described = |inputs: &[Option<(Tensor, bool)>]| -> Vec<TensorDesc> {
            inputs.iter().map(|i| i.as_ref().map_or(TensorDesc::ABSENT, |(t, _)| t.desc)).collect()
        };
        let mut outputs = vec![TensorDesc::ABSENT; self.output_count];
        let input_descs = described(&inputs);
        self.call(&mut inputs, &input_descs, |node, _| {
            let args = InferArgs { node, outputs: outputs.as_mut_ptr(), reserved_words: [0; 4] };
            // SAFETY: everything that the arguments point to outlives the call.
            unsafe { (self.op.infer_fn())(&raw const args) }
        })?;
        for (port, encoding) in &self.encodings {
            outputs[*port] = outputs[*port].with_encoding(*encoding);
        }
        let mut outcome = Err(format!("no kernel takes {input_descs:?}"));
        for kernel in self.kernels(&input_descs, &outputs) {
            let bounded = input_descs.iter().chain(&outputs).any(|d| !d.full_shape().is_fixed());
            assert!(!bounded || kernel.known_flags().has(KernelFlags::BOUNDED));
            let (mut inputs, mut outputs) = (self.inputs.clone(), outputs.clone());
            let [last_in, last_out] =
                [KernelFlags::CHANNELS_LAST_IN, KernelFlags::CHANNELS_LAST_OUT]
                    .map(|flag| kernel.known_flags().has(flag));
            if (last_in || last_out) && (input_descs[0].rank() != 4 || bounded) {
                continue;
            }
            if let Some(Some((x, _))) = inputs.first_mut().filter(|_| last_in) {
                *x = x.permuted([0, 2, 3, 1]);
            }
            if last_out {
                outputs[0] = permuted(&outputs[0], [0, 2, 3, 1]);
            }
            match self.run(kernel, &mut inputs, &outputs, in_place) {
                Ok(mut tensors) => {
                    if last_out {
                        tensors[0] = tensors[0].permuted([0, 3, 1, 2]);
                    }
                    outcome = outcome.or(Ok(Vec::new())).map(|mut runs: Vec<_>| {
                        runs.push(tensors);
                        runs
                    });
                }
                Err(message) if outcome.is_err() => outcome = Err(message),
                Err(_) => {}
            }
        }
        outcome
    }

    /// Calls a function of the operator or a kernel on the node; its message if it refuses.
    fn call(
        &self,
        inputs: &mut [Option<(Tensor, bool)>],
        descs: &[TensorDesc],
        body: impl FnOnce(NodeArgs, &[Span]) -> u32,
    ) -> Result<(), String> {
        let constants: Vec<Span> = inputs
            .iter_mut()
            .map(|input| match input {
                Some((t, true)) => Span { ptr: t.memory.ptr(), bytes: t.memory.bytes },
                _ => Span::NONE,
            })
            .collect();
        let params = self.param_values();
        let mut message = String::new();
        let sink = ErrorSink {
            ctx: (&raw mut message).cast(),
            write: write_message,
            reserved_words: [0; 4],
        };
        let node = NodeArgs {
            inputs: descs.as_ptr(),
            constants: constants.as_ptr(),
            params: params.as_ptr(),
            input_count: u32::try_from(descs.len()).unwrap(),
            output_count: u32::try_from(self.output_count).unwrap(),
            param_count: u32::try_from(params.len()).unwrap(),
            opset: self.opset,
            errors: &raw const sink,
            reserved_words: [0; 4],
        };
        if body(node, &constants) == Status::OK.code() { Ok(()) } else { Err(message) }
    }

    fn run(
        &self,
        kernel: &KernelDef,
        inputs: &mut [Option<(Tensor, bool)>],
        outputs: &[TensorDesc],
        in_place: InPlace,
    ) -> Result<Vec<Tensor>, String> {
        let descs: Vec<TensorDesc> =
            inputs.iter().map(|i| i.as_ref().map_or(TensorDesc::ABSENT, |(t, _)| t.desc)).collect();
        let mut buffers = Vec::new();
        let mut made =
            Finalized { state: std::ptr::null_mut(), workspace: Workspace::NONE, reserved: [0; 4] };
        let vtable = kernel.vtable();
        self.call(inputs, &descs, |node, constants| {
            let mut packer = Packer { constants, packed: Vec::new() };
            let host = HostTable { ctx: (&raw mut packer).cast(), pack, reserved_words: [0; 4] };
            let args = FinalizeArgs {
                node,
                outputs: outputs.as_ptr(),
                core: self.core,
                reserved: 0,
                host: &raw const host,
                reserved_words: [0; 4],
            };
            // SAFETY: everything that the arguments point to outlives the call.
            let status = unsafe { (vtable.finalize)(&raw const args, &raw mut made) };
            buffers = packer.packed;
            status
        })?;
        let outcome =
            execute(kernel, &made, inputs, outputs, &mut buffers, (in_place, self.threads));
        // SAFETY: finalize made the state, and no call is running.
        unsafe { (vtable.free)(made.state) };
        outcome
    }
}

fn execute(
    kernel: &KernelDef,
    made: &Finalized,
    inputs: &mut [Option<(Tensor, bool)>],
    outputs: &[TensorDesc],
    packed: &mut [Memory],
    (in_place, threads): (InPlace, u32),
) -> Result<Vec<Tensor>, String> {
    let mut tensors: Vec<Tensor> = outputs
        .iter()
        .map(|desc| Tensor {
            desc: *desc,
            dims: desc.shape().to_vec(),
            memory: Memory::new(desc.size_bytes()),
        })
        .collect();
    let mut args: Vec<TensorArg> = inputs
        .iter_mut()
        .map(|i| i.as_mut().map_or(TensorArg::ABSENT, |(tensor, _)| tensor.arg()))
        .collect();
    args.extend(tensors.iter_mut().map(Tensor::arg));
    for pair in kernel.in_place_pairs() {
        let (from, to) = (usize::from(pair.input), usize::from(pair.output));
        let Some(Some((input, false))) = inputs.get_mut(from) else { continue };
        let fits = input.desc.dtype() == outputs[to].dtype()
            && input.desc.size_bytes() == outputs[to].size_bytes();
        if in_place == InPlace::WherePossible && fits {
            tensors[to].memory = input.memory.clone();
            let data = tensors[to].memory.ptr();
            let output = inputs.len() + to;
            (args[from].data, args[output].data) = (data, data);
            args[from].in_place = pair.output + 1;
            args[output].in_place = pair.input + 1;
        }
    }
    let constants: Vec<Span> =
        packed.iter_mut().map(|m| Span { ptr: m.ptr(), bytes: m.bytes }).collect();
    let wanted = if made.workspace.wants_all_vtcm() { 4 << 20 } else { made.workspace.bytes() };
    let mut scratch = Memory::new(wanted);
    // What scratch holds at first is unspecified, so let it be something unlikely.
    let whole = scratch.lines.len() - 1;
    scratch.lines[..whole].fill(Line([0x7fc0_1234_7fc0_1234; 8]));
    let parallel = ParallelTable {
        ctx: std::ptr::null(),
        width: threads,
        reserved: 0,
        run: backwards,
        reserved_words: [0; 4],
    };
    let call = ExecArgs {
        state: made.state,
        tensors: args.as_mut_ptr(),
        packed: constants.as_ptr(),
        scratch: scratch.ptr(),
        scratch_bytes: wanted,
        guard: udo_api::guard::this_thread(),
        parallel: if threads == 1 { std::ptr::null() } else { &raw const parallel },
        input_count: u16::try_from(inputs.len()).unwrap(),
        output_count: u16::try_from(outputs.len()).unwrap(),
        packed_count: u16::try_from(constants.len()).unwrap(),
        reserved: 0,
    };
    // SAFETY: everything that the arguments point to outlives the call, and only pairs in
    // place share memory.
    let status = Status::from_code(unsafe { (kernel.vtable().execute)(&raw const call) });
    if status != Status::OK {
        // SAFETY: the cell is this thread's own.
        let report = unsafe { &*udo_api::guard::this_thread() }.take_report();
        let error = ExecError { status, detail: report.detail };
        return Err(format!("{error}{}", report.message));
    }
    assert!(scratch.is_whole(), "the kernel writes beyond its scratch");
    for (tensor, arg) in tensors.iter_mut().zip(&args[inputs.len()..]) {
        assert!(tensor.memory.is_whole(), "the kernel writes beyond an output");
        tensor.dims = arg.dims[..usize::from(arg.rank)].to_vec();
    }
    Ok(tensors)
}

#[derive(Clone, Copy, PartialEq)]
enum InPlace {
    No,
    WherePossible,
}

/// Makes the calls from the last to the first.
///
/// # Safety
/// SAFETY is that of [`ParallelTable::run`]: the task may be called with its context for every index.
unsafe extern "C" fn backwards(
    _: *const c_void,
    count: usize,
    // SAFETY: what it may be called with is the caller's promise.
    task: unsafe extern "C" fn(*const c_void, usize),
    ctx: *const c_void,
) {
    for index in (0..count).rev() {
        // SAFETY: the caller vouches for the task and its context.
        unsafe { task(ctx, index) };
    }
}

// SAFETY: called by way of the sink alone, whose context is a message.
unsafe extern "C" fn write_message(ctx: *mut c_void, text: *const u8, bytes: usize) {
    // SAFETY: the context is the message that `Run::run` holds, and lent to nobody else meanwhile.
    let message = unsafe { &mut *ctx.cast::<String>() };
    // SAFETY: the caller passes this many bytes.
    let text = unsafe { std::slice::from_raw_parts(text, bytes) };
    message.push_str(std::str::from_utf8(text).unwrap());
}

struct Packer<'a> {
    constants: &'a [Span],
    packed: Vec<Memory>,
}

// SAFETY: called by way of the host's table alone, whose context is a `Packer`.
unsafe extern "C" fn pack(
    ctx: *mut c_void,
    input: u32,
    _version: u64,
    bytes: usize,
    fill: FillFn,
    fill_ctx: *mut c_void,
    index: *mut u32,
) -> u32 {
    // SAFETY: the context is the packer that `Run::run` holds, and lent to nobody else meanwhile.
    let packer = unsafe { &mut *ctx.cast::<Packer<'_>>() };
    let source = packer.constants[input as usize];
    let mut memory = Memory::new(bytes);
    // SAFETY: source and target have as many bytes as said.
    let status = unsafe { fill(fill_ctx, source.ptr, source.bytes, memory.ptr(), bytes) };
    assert!(memory.is_whole(), "packing writes beyond its buffer");
    // SAFETY: the caller passes room for the index.
    unsafe { index.write(u32::try_from(packer.packed.len()).unwrap()) };
    packer.packed.push(memory);
    status
}

/// Numbers between -1 and 1 without a pattern, the same in every run.
pub(crate) fn noise(len: usize) -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// Every number lies within `tolerance` of the one wanted, relative to it where it is above 1.
pub(crate) fn assert_near<T: Copy + Into<f64>>(found: &[T], wanted: &[f64], tolerance: f64) {
    assert_eq!(found.len(), wanted.len(), "elements");
    for (i, (&found, &wanted)) in found.iter().zip(wanted).enumerate() {
        let found: f64 = found.into();
        let same = found.total_cmp(&wanted).is_eq() || found.is_nan() && wanted.is_nan();
        let apart = (found - wanted).abs() / wanted.abs().max(1.0);
        assert!(
            same || apart <= tolerance,
            "element {i} is {found}, wanted {wanted} within {tolerance}"
        );
    }
}
