//! One node, to be run.

use std::fmt;

use udo_api::guard::{LibraryGuard, OWN_GUARD};
use udo_api::{
    Activation, AxisEncoding, Core, DType, Element, Encoding, Encodings, FastMath, KernelDef,
    OpDef, PackageV1, Shape, Status, TensorDesc, Workspace,
};
use udo_host::{Failure, NodeDesc, ParamSetting, Refusal, infer};

use crate::assert_near;
use crate::epilogue::Step;
use crate::tensor::{Tensor, fixed};

/// One node of an operator or kernel, to be run.
#[derive(Clone, Debug)]
pub struct Bench {
    pub(crate) op: Option<OpDef>,
    pub(crate) kernels: Vec<KernelDef>,
    pub(crate) guard: LibraryGuard,
    pub(crate) core: Core,
    pub(crate) opset: u32,
    pub(crate) inputs: Vec<Option<Input>>,
    pub(crate) params: Vec<(&'static str, ParamSetting)>,
    pub(crate) output_count: usize,
    pub(crate) described: Vec<Described>,
    pub(crate) encodings: Vec<(usize, Encodings)>,
    pub(crate) threads: u32,
    pub(crate) fast_math: FastMath,
    pub(crate) epilogue: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) tensor: Tensor,
    pub(crate) is_constant: bool,
}

/// What an output is, where no operator says it.
#[derive(Clone, Debug)]
pub(crate) enum Described {
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
    /// How many steps of the epilogue it took; the outputs are as they are after those.
    pub epilogue_steps: usize,
    /// Calls of the allocator meanwhile, by the threads that the kernel ran on; needs [`udo_api::GuardAlloc`], which also has
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
    /// A kernel is for such tensors, but not with an encoding per axis there.
    PerAxis {
        /// The port.
        port: String,
        /// The tensor.
        found: String,
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
            Self::Setup(_) | Self::NoKernel { .. } | Self::PerAxis { .. } | Self::Broken(_) => None,
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
            Self::PerAxis { port, found } => write!(
                f,
                "{port} is {found} with an encoding per axis, and the kernel's rule for it does not say per_axis"
            ),
            Self::Execute(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for Fault {}

impl Bench {
    /// Operator `op` of a package that is linked in, with all its kernels; `domain:op` where it is one of a domain.
    ///
    /// # Panics
    /// The package has no such operator.
    #[track_caller]
    pub fn of(package: &PackageV1, op: &str) -> Self {
        let (domain, name) = op.split_once(':').unwrap_or(("", op));
        let is_meant =
            |def: &&OpDef| def.schema().name() == name && def.schema().domain() == domain;
        let Some(def) = package.op_table().iter().find(is_meant) else {
            panic!("package {} has no operator {op:?}", package.name());
        };
        let kernels = package.kernel_table().iter();
        let kernels = kernels.filter(|kernel| kernel.op() == name && kernel.domain() == domain);
        let guard = package.guard().ok().flatten().unwrap_or(OWN_GUARD);
        Self { guard, ..Self::new(Some(*def), kernels.copied().collect(), Core::CPU) }
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
            guard: OWN_GUARD,
            core,
            opset: 21,
            inputs: Vec::new(),
            params: Vec::new(),
            output_count: 1,
            described: Vec::new(),
            encodings: Vec::new(),
            threads: 1,
            fast_math: FastMath::None,
            epilogue: Vec::new(),
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

    /// With leave to compute less exactly.
    #[must_use]
    pub fn fast_math(mut self, fast_math: FastMath) -> Self {
        self.fast_math = fast_math;
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

    /// A parameter of several texts.
    #[must_use]
    pub fn texts(self, name: &'static str, values: &[&str]) -> Self {
        self.param(name, ParamSetting::Texts(values.iter().map(|&v| v.to_owned()).collect()))
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

    /// A parameter that is a tensor with a type and shape of its own.
    ///
    /// # Panics
    /// There is no memory for its elements.
    #[must_use]
    pub fn tensor(self, name: &'static str, value: &Tensor) -> Self {
        self.param(name, ParamSetting::Tensor(value.setting()))
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

    /// The next output of a kernel alone has elements of `T` and these extents.
    ///
    /// # Panics
    /// Too many dimensions.
    #[must_use]
    #[track_caller]
    pub fn output_of<T: Element>(self, dims: &[usize]) -> Self {
        self.output(T::DTYPE, fixed(dims))
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
        self.encodings.push((port, Encodings::PerTensor(Encoding { scale, zero_point })));
        self
    }

    /// A scale and a zero point for each position of an axis of a fixed-point output.
    ///
    /// # Panics
    /// They are no encoding.
    #[must_use]
    #[track_caller]
    pub fn output_axis_encoding(
        mut self,
        port: usize,
        axis: usize,
        scales: &[f32],
        zero_points: &[i32],
    ) -> Self {
        match AxisEncoding::of(axis, scales, zero_points) {
            Ok(encoding) => self.encodings.push((port, Encodings::PerAxis(encoding))),
            Err(error) => panic!("{error}"),
        }
        self
    }

    /// With a constant vector that kernels add along `axis` of the first output, as the next step of the epilogue.
    #[must_use]
    pub fn then_bias(self, axis: usize, tensor: Tensor) -> Self {
        self.then(Step::Bias { axis, tensor })
    }

    /// With a tensor that kernels add to the first output, as the next step of the epilogue.
    #[must_use]
    pub fn then_residual(self, tensor: Tensor) -> Self {
        self.then(Step::Residual(tensor))
    }

    /// With a function that kernels apply to the first output, as the next step of the epilogue.
    #[must_use]
    pub fn then_activation(self, activation: Activation) -> Self {
        self.then(Step::Activation(activation))
    }

    /// With quantized values that kernels store in the place of the numbers of the first output, as the last step of the epilogue.
    #[must_use]
    pub fn then_quantize(self, dtype: DType, scale: f32, zero_point: i32) -> Self {
        self.then(Step::Quantize(dtype, Encoding { scale, zero_point }))
    }

    fn then(mut self, step: Step) -> Self {
        self.epilogue.push(step);
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
    /// No kernel takes the node with all of its epilogue, one fails, or they do not agree.
    #[track_caller]
    pub fn all(self) -> Vec<Tensor> {
        let mut outcomes = match self.run() {
            Ok(outcomes) => outcomes,
            Err(fault) => panic!("{fault}"),
        };
        for outcome in &outcomes {
            let (found, wanted) = (outcome.epilogue_steps, self.epilogue.len());
            assert_eq!(found, wanted, "steps of the epilogue that the kernel took");
        }
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

    pub(crate) fn descs(&self) -> Vec<TensorDesc> {
        descs(&self.inputs)
    }

    /// The parameters of the schema, in its order.
    pub(crate) fn settings(&self) -> Result<Vec<(&'static str, ParamSetting)>, Fault> {
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

    pub(crate) fn outputs_of(
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
        for (port, encodings) in &self.encodings {
            let Some(output) = outputs.get_mut(*port) else {
                return Err(Fault::Setup(format!("there is no output {port} to have an encoding")));
            };
            *output = output.with_encodings(*encodings);
            output.check_encoding().map_err(|error| Fault::Setup(error.to_string()))?;
        }
        Ok(outputs)
    }
}

pub(crate) fn descs(inputs: &[Option<Input>]) -> Vec<TensorDesc> {
    inputs.iter().map(|i| i.as_ref().map_or(TensorDesc::ABSENT, |i| i.tensor.desc())).collect()
}

pub(crate) fn constants(inputs: &[Option<Input>]) -> Vec<Option<&[u8]>> {
    inputs.iter().map(|i| i.as_ref().filter(|i| i.is_constant).map(|i| i.tensor.bytes())).collect()
}
