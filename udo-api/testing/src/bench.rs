//! One node, to be run.

use std::fmt;

use udo_api::guard::GuardCell;
use udo_api::{
    Core, DType, Encoding, KernelDef, KernelFlags, OpDef, PackageV1, Shape, Side, Status,
    TensorDesc, TypeRule, Wanted, Workspace,
};
use udo_host::{
    ConstantId, Failure, FinalizedKernel, NodeDesc, PackStore, ParamSetting, Refusal, Source,
    finalize, infer, program_guard,
};

use crate::assert_near;
use crate::call::{Broken, Caller, execute};
use crate::tensor::{Tensor, permuted};

/// One node of an operator or kernel, to be run.
#[derive(Clone, Debug)]
pub struct Bench {
    op: Option<OpDef>,
    kernels: Vec<KernelDef>,
    thread_guard: extern "C" fn() -> *mut GuardCell,
    core: Core,
    opset: u32,
    inputs: Vec<Option<Input>>,
    params: Vec<(&'static str, ParamSetting)>,
    output_count: usize,
    described: Vec<Described>,
    encodings: Vec<(usize, Encoding)>,
    threads: u32,
}

#[derive(Clone, Debug)]
struct Input {
    tensor: Tensor,
    is_constant: bool,
}

/// What an output is, where no operator says it.
#[derive(Clone, Debug)]
enum Described {
    LikeInput,
    As(TensorDesc),
}

/// What one kernel made of a node.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The kernel.
    pub kernel: KernelDef,
    /// The node's outputs.
    pub outputs: Vec<Tensor>,
    /// The scratch that it asked for.
    pub workspace: Workspace,
    /// The scratch up to the last byte that it wrote to.
    pub scratch_used_bytes: usize,
    /// What it packed of constants.
    pub packed_bytes: usize,
    /// Calls of the program's allocator meanwhile, by any thread; needs [`udo_api::GuardAlloc`], which also has
    /// the call itself fail with [`Status::HEAP_USE`].
    pub heap_calls: u64,
}

/// Why a node was not run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The bench asks for something that there is not.
    Setup(String),
    /// Shape inference refuses the node.
    Infer(Refusal),
    /// No kernel takes such tensors on the core.
    NoKernel {
        /// The core.
        core: Core,
        /// The inputs.
        inputs: Vec<String>,
    },
    /// A kernel refuses the node.
    Finalize(Refusal),
    /// A kernel failed.
    Execute(Failure),
    /// A kernel wrote where it must not, or computes something else under other conditions.
    Broken(String),
}

impl Fault {
    /// What the package answered, if it was asked.
    pub fn status(&self) -> Option<Status> {
        match self {
            Self::Infer(refusal) | Self::Finalize(refusal) => Some(refusal.status),
            Self::Execute(failure) => Some(failure.error.status),
            Self::Setup(_) | Self::NoKernel { .. } | Self::Broken(_) => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setup(what) | Self::Broken(what) => f.write_str(what),
            Self::Infer(refusal) | Self::Finalize(refusal) => refusal.fmt(f),
            Self::NoKernel { core, inputs } => {
                write!(f, "no kernel on {core} takes {}", inputs.join(", "))
            }
            Self::Execute(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for Fault {}

/// The ways in which a kernel may be called.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Apart,
    InPlace,
    Pitched,
}

impl Bench {
    /// Operator `op` of a package that is linked in, with all its kernels.
    ///
    /// # Panics
    /// The package has no such operator.
    #[track_caller]
    pub fn of(package: &PackageV1, op: &str) -> Self {
        let Some(def) = package.op_table().iter().find(|def| def.schema().name() == op) else {
            panic!("package {} has no operator {op:?}", package.name());
        };
        let kernels = package.kernel_table().iter().filter(|kernel| kernel.op() == op);
        let thread_guard = package.thread_guard().unwrap_or(program_guard);
        Self { thread_guard, ..Self::new(Some(*def), kernels.copied().collect(), Core::CPU) }
    }

    /// An operator with these kernels, for one on the CPU.
    pub fn op(op: OpDef, kernels: &[KernelDef]) -> Self {
        Self::new(Some(op), kernels.to_vec(), Core::CPU)
    }

    /// A kernel alone, on its core. What its outputs are is for [`Bench::output`] to say.
    pub fn kernel(kernel: KernelDef) -> Self {
        Self::new(None, vec![kernel], kernel.core())
    }

    fn new(op: Option<OpDef>, kernels: Vec<KernelDef>, core: Core) -> Self {
        Self {
            op,
            kernels,
            thread_guard: program_guard,
            core,
            opset: 21,
            inputs: Vec::new(),
            params: Vec::new(),
            output_count: 1,
            described: Vec::new(),
            encodings: Vec::new(),
            threads: 1,
        }
    }

    /// On this core.
    #[must_use]
    pub fn on(mut self, core: Core) -> Self {
        self.core = core;
        self
    }

    /// As a node of this operator-set version; 21 if nothing is said.
    #[must_use]
    pub fn opset(mut self, opset: u32) -> Self {
        self.opset = opset;
        self
    }

    /// With a parallel-for that claims so many threads; it makes the calls in reverse order.
    #[must_use]
    pub fn threads(mut self, threads: u32) -> Self {
        self.threads = threads;
        self
    }

    /// The next input, known only at the run.
    #[must_use]
    pub fn input(mut self, tensor: Tensor) -> Self {
        self.inputs.push(Some(Input { tensor, is_constant: false }));
        self
    }

    /// The next input, known from the start.
    #[must_use]
    pub fn constant(mut self, tensor: Tensor) -> Self {
        self.inputs.push(Some(Input { tensor, is_constant: true }));
        self
    }

    /// The next input is left out.
    #[must_use]
    pub fn absent(mut self) -> Self {
        self.inputs.push(None);
        self
    }

    /// An integer parameter.
    #[must_use]
    pub fn int(self, name: &'static str, value: i64) -> Self {
        self.param(name, ParamSetting::Int(value))
    }

    /// A real parameter.
    #[must_use]
    pub fn float(self, name: &'static str, value: f64) -> Self {
        self.param(name, ParamSetting::Float(value))
    }

    /// A text parameter.
    #[must_use]
    pub fn text(self, name: &'static str, value: &str) -> Self {
        self.param(name, ParamSetting::Text(value.to_owned()))
    }

    /// A parameter of several integers.
    #[must_use]
    pub fn ints(self, name: &'static str, values: &[i64]) -> Self {
        self.param(name, ParamSetting::Ints(values.to_vec()))
    }

    /// A parameter of several real numbers.
    #[must_use]
    pub fn floats(self, name: &'static str, values: &[f64]) -> Self {
        self.param(name, ParamSetting::Floats(values.to_vec()))
    }

    fn param(mut self, name: &'static str, setting: ParamSetting) -> Self {
        self.params.push((name, setting));
        self
    }

    /// So many outputs; one if nothing is said.
    #[must_use]
    pub fn outputs(mut self, count: usize) -> Self {
        self.output_count = count;
        self
    }

    /// The next output of a kernel alone.
    #[must_use]
    pub fn output(mut self, dtype: DType, shape: Shape) -> Self {
        self.described.push(Described::As(TensorDesc::new(dtype, shape)));
        self
    }

    /// The next output of a kernel alone has type and shape of the first input.
    #[must_use]
    pub fn like_input(mut self) -> Self {
        self.described.push(Described::LikeInput);
        self
    }

    /// Scale and zero point of a fixed-point output.
    #[must_use]
    pub fn output_encoding(mut self, port: usize, scale: f32, zero_point: i32) -> Self {
        self.encodings.push((port, Encoding { scale, zero_point }));
        self
    }

    /// The only output.
    ///
    /// # Panics
    /// As [`Bench::all`].
    #[track_caller]
    pub fn one(self) -> Tensor {
        self.all().swap_remove(0)
    }

    /// All outputs: the same bits in every way that a kernel may be called, and the same numbers of every kernel.
    ///
    /// # Panics
    /// No kernel takes the node, one fails, or they do not agree.
    #[track_caller]
    pub fn all(self) -> Vec<Tensor> {
        let mut outcomes = match self.run() {
            Ok(outcomes) => outcomes,
            Err(fault) => panic!("{fault}"),
        };
        let outputs = outcomes.swap_remove(0).outputs;
        let others = outcomes.iter().flat_map(|other| outputs.iter().zip(&other.outputs));
        for (output, other) in others {
            assert_eq!(output.dims(), other.dims(), "of two kernels");
            if output.desc().dtype() == Some(DType::F32) {
                let wanted: Vec<f64> = output.values::<f32>().into_iter().map(f64::from).collect();
                assert_near(&other.values::<f32>(), &wanted, 1e-4);
            } else {
                assert!(output.bytes() == other.bytes(), "kernels compute different things");
            }
        }
        outputs
    }

    /// Why the node is not run.
    ///
    /// # Panics
    /// It is.
    #[track_caller]
    pub fn fault(self) -> Fault {
        match self.run() {
            Ok(_) => panic!("the run succeeds"),
            Err(fault) => fault,
        }
    }

    /// The same in words.
    ///
    /// # Panics
    /// As [`Bench::fault`].
    #[track_caller]
    pub fn error(self) -> String {
        self.fault().to_string()
    }

    /// What shape inference makes of the outputs.
    ///
    /// # Errors
    /// The operator refuses the node, or the bench has no operator.
    pub fn infer(&self) -> Result<Vec<TensorDesc>, Fault> {
        self.outputs_of(&self.settings()?)
    }

    /// What each kernel that takes the node makes of it, the first of a package first.
    ///
    /// # Errors
    /// None takes it, or one does and then fails or does not agree with itself.
    pub fn run(&self) -> Result<Vec<Outcome>, Fault> {
        let params = self.settings()?;
        let outputs = self.outputs_of(&params)?;
        let inputs = self.descs();
        let bounded = inputs.iter().chain(&outputs).any(|d| !d.full_shape().is_fixed());
        let mut refused = None;
        let mut outcomes = Vec::new();
        for kernel in self.kernels.iter().filter(|k| self.fits(k, &inputs, &outputs)) {
            let flags = kernel.known_flags();
            let last = [KernelFlags::CHANNELS_LAST_IN, KernelFlags::CHANNELS_LAST_OUT]
                .map(|flag| flags.has(flag));
            let is_odd = bounded && !flags.has(KernelFlags::BOUNDED);
            if is_odd || (last.contains(&true) && (inputs[0].rank() != 4 || bounded)) {
                continue;
            }
            match self.run_kernel(kernel, &params, &outputs, last) {
                Ok(outcome) => outcomes.push(outcome),
                // Another kernel may be for such nodes.
                Err(fault @ Fault::Finalize(_)) => refused = Some(fault),
                Err(fault) => return Err(fault),
            }
        }
        if outcomes.is_empty() {
            let inputs = inputs.iter().map(ToString::to_string).collect();
            return Err(refused.unwrap_or(Fault::NoKernel { core: self.core, inputs }));
        }
        Ok(outcomes)
    }

    /// One kernel in every way that it may be called.
    fn run_kernel(
        &self,
        def: &KernelDef,
        params: &[(&'static str, ParamSetting)],
        outputs: &[TensorDesc],
        [last_in, last_out]: [bool; 2],
    ) -> Result<Outcome, Fault> {
        let mut inputs = self.inputs.clone();
        let mut outputs = outputs.to_vec();
        if let Some(Some(x)) = inputs.first_mut().filter(|_| last_in) {
            x.tensor = x.tensor.permuted([0, 2, 3, 1]);
        }
        if last_out {
            outputs[0] = permuted(&outputs[0], [0, 2, 3, 1]);
        }
        let node = NodeDesc {
            inputs: descs(&inputs),
            constants: constants(&inputs),
            params,
            output_count: outputs.len(),
            opset: self.opset,
        };
        let mut kernel = finalize(def, self.core, &node, &outputs).map_err(Fault::Finalize)?;
        let source = |port: usize| {
            let (desc, bytes) = (*node.inputs.get(port)?, (*node.constants.get(port)?)?);
            // Inputs of one node are told apart by their ports.
            let id = ConstantId { tensor: port as u64, format: 0 };
            Some(Source { id, desc, bytes })
        };
        kernel.pack(source, &PackStore::default()).map_err(Fault::Finalize)?;
        let mut outcome = self.call(def, &kernel, &inputs, &outputs, Way::Apart)?;
        for (way, name) in [(Way::InPlace, "in place"), (Way::Pitched, "over rows that lie apart")]
        {
            let bounded = node.inputs.iter().chain(&outputs).any(|d| !d.full_shape().is_fixed());
            let takes_pitched = def.known_flags().has(KernelFlags::ROWS_STRIDED) && !bounded;
            if way == Way::Pitched && !takes_pitched {
                continue;
            }
            let other = self.call(def, &kernel, &inputs, &outputs, way)?;
            let pairs = outcome.outputs.iter().zip(&other.outputs);
            if pairs.into_iter().any(|(a, b)| a.dims() != b.dims() || a.bytes() != b.bytes()) {
                let what = format!("the kernel for {} computes something else {name}", def.core());
                return Err(Fault::Broken(what));
            }
        }
        if last_out {
            outcome.outputs[0] = outcome.outputs[0].permuted([0, 3, 1, 2]);
        }
        Ok(outcome)
    }

    fn call(
        &self,
        def: &KernelDef,
        kernel: &FinalizedKernel,
        inputs: &[Option<Input>],
        outputs: &[TensorDesc],
        way: Way,
    ) -> Result<Outcome, Fault> {
        let pitched = |input: &Input| match way {
            Way::Pitched if !input.is_constant => input.tensor.pitched(3),
            _ => input.tensor.clone(),
        };
        let read = |(port, input): (usize, &Option<Input>)| {
            input.as_ref().filter(|_| kernel.reads(port)).map(pitched)
        };
        let tensors: Vec<_> = inputs.iter().enumerate().map(read).collect();
        let mut outputs: Vec<_> = outputs.iter().map(|desc| Tensor::zeros(*desc)).collect();
        let mut in_place = Vec::new();
        if way == Way::Pitched {
            for output in &mut outputs {
                *output = output.pitched(5);
            }
        }
        for pair in def.in_place_pairs().iter().filter(|_| way == Way::InPlace) {
            let input = inputs.get(usize::from(pair.input)).and_then(Option::as_ref);
            let Some(input) = input.filter(|input| !input.is_constant) else { continue };
            let Some(output) = outputs.get_mut(usize::from(pair.output)) else { continue };
            let (from, to) = (input.tensor.desc(), output.desc());
            if from.dtype() == to.dtype() && from.size_bytes() == to.size_bytes() {
                output.set_memory(input.tensor.memory().clone());
                in_place.push((pair.input, pair.output));
            }
        }
        let caller = Caller { threads: self.threads, thread_guard: self.thread_guard };
        let traces = execute(kernel, &tensors, &mut outputs, &in_place, caller);
        let traces = traces.map_err(|broken| match broken {
            Broken::Failed(failure) => Fault::Execute(failure),
            Broken::Wrote(what) => Fault::Broken(what),
        })?;
        let gathered = outputs.iter().map(Tensor::gathered).collect::<Option<Vec<_>>>();
        let Some(outputs) = gathered else {
            return Err(Fault::Broken(
                "the kernel writes between the rows of an output".to_owned(),
            ));
        };
        Ok(Outcome {
            kernel: *def,
            outputs,
            workspace: kernel.workspace(),
            scratch_used_bytes: traces.scratch_used_bytes,
            packed_bytes: kernel.packed().iter().map(|packed| packed.len()).sum(),
            heap_calls: traces.heap_calls,
        })
    }

    /// Whether the kernel is for the core and takes such types.
    fn fits(&self, kernel: &KernelDef, inputs: &[TensorDesc], outputs: &[TensorDesc]) -> bool {
        let fits = |rule: &TypeRule| {
            let found = match rule.side() {
                Some(Side::Input) => inputs.get(rule.port()),
                Some(Side::Output) => outputs.get(rule.port()),
                None => None,
            };
            let Some(found) = found.filter(|d| !d.is_absent()) else { return true };
            match rule.wanted() {
                Wanted::Types(types) => found.is_in(types),
                Wanted::SameAsInput(other) => {
                    inputs.get(other).is_none_or(|other| other.dtype() == found.dtype())
                }
            }
        };
        kernel.core().runs_on(self.core) && kernel.type_rules().iter().all(fits)
    }

    fn descs(&self) -> Vec<TensorDesc> {
        descs(&self.inputs)
    }

    /// The parameters of the schema, in its order.
    fn settings(&self) -> Result<Vec<(&'static str, ParamSetting)>, Fault> {
        let Some(op) = &self.op else { return Ok(self.params.clone()) };
        let schema = op.schema();
        let unknown = |(name, _): &&(&str, _)| schema.params().iter().all(|p| p.name() != *name);
        if let Some((name, _)) = self.params.iter().find(unknown) {
            return Err(Fault::Setup(format!("{} has no parameter {name:?}", schema.name())));
        }
        let settings = schema.params().iter().map(|param| {
            let given = self.params.iter().find(|(name, _)| *name == param.name());
            let setting = match given {
                Some((_, setting)) => setting.clone(),
                None if param.is_optional() => ParamSetting::default_of(param),
                None => {
                    return Err(Fault::Setup(format!("parameter {:?} is missing", param.name())));
                }
            };
            Ok((param.name(), setting))
        });
        settings.collect()
    }

    fn outputs_of(
        &self,
        params: &[(&'static str, ParamSetting)],
    ) -> Result<Vec<TensorDesc>, Fault> {
        let inputs = self.descs();
        let described = self.described.iter().map(|described| match described {
            Described::As(desc) => *desc,
            Described::LikeInput => inputs.first().copied().unwrap_or(TensorDesc::ABSENT),
        });
        let mut outputs: Vec<TensorDesc> = described.collect();
        if outputs.is_empty() {
            let Some(op) = &self.op else {
                return Err(Fault::Setup("the kernel's outputs are not described".to_owned()));
            };
            let constants = constants(&self.inputs);
            let (output_count, opset) = (self.output_count, self.opset);
            let node = NodeDesc { inputs, constants, params, output_count, opset };
            outputs = infer(op, &node).map_err(Fault::Infer)?;
        }
        for (port, encoding) in &self.encodings {
            let Some(output) = outputs.get_mut(*port) else {
                return Err(Fault::Setup(format!("there is no output {port} to have an encoding")));
            };
            *output = output.with_encoding(*encoding);
        }
        Ok(outputs)
    }
}

fn descs(inputs: &[Option<Input>]) -> Vec<TensorDesc> {
    inputs.iter().map(|i| i.as_ref().map_or(TensorDesc::ABSENT, |i| i.tensor.desc())).collect()
}

fn constants(inputs: &[Option<Input>]) -> Vec<Option<&[u8]>> {
    inputs
        .iter()
        .map(|i| i.as_ref().filter(|i| i.is_constant).map(|i| i.tensor.memory().bytes()))
        .collect()
}
