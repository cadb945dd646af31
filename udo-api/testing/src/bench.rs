//! A test bench for one node.

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

/// One node of an operator or kernel to run.
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

/// The description of an output without an operator's shape inference.
#[derive(Clone, Debug)]
pub(crate) enum Described {
    LikeInput,
    As(TensorDesc),
}

/// The result of one kernel for a node.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The kernel.
    pub kernel: KernelDef,
    /// The node's outputs.
    pub outputs: Vec<Tensor>,
    /// The scratch that the kernel requested.
    pub workspace: Workspace,
    /// The scratch up to the last written byte.
    pub scratch_used_bytes: usize,
    /// The size of its packed constants in bytes.
    pub packed_bytes: usize,
    /// The number of accepted epilogue steps; the outputs are those after them.
    pub epilogue_steps: usize,
    /// Allocator calls during the run on the kernel's threads; needs [`udo_api::GuardAlloc`], with which the call
    /// itself also fails with [`Status::HEAP_USE`].
    pub heap_calls: u64,
}

/// Why a node did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The bench is not set up correctly.
    Setup(String),
    /// Shape inference refuses the node.
    Infer(Refusal),
    /// No kernel accepts these tensors on the core.
    NoKernel {
        /// The core.
        core: Core,
        /// The inputs.
        inputs: Vec<String>,
    },
    /// A kernel accepts these tensors, but not an encoding per axis on this port.
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
    /// A kernel writes outside its memory, or its results depend on how it is called.
    Broken(String),
}

impl Fault {
    /// Returns the package's status, if it was called.
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
                "{port} is {found} with an encoding per axis, and the kernel's rule for it lacks per_axis"
            ),
            Self::Execute(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for Fault {}

impl Bench {
    /// The former name of [`Bench::for_op`].
    #[doc(hidden)]
    #[track_caller]
    pub fn of(package: &PackageV1, op: &str) -> Self {
        Self::for_op(package, op)
    }

    /// Creates a bench for operator `op` of a linked package with all its kernels; `domain:op` names an operator of a
    /// domain.
    ///
    /// # Panics
    /// The package has no such operator.
    #[track_caller]
    pub fn for_op(package: &PackageV1, op: &str) -> Self {
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

    /// Creates a bench for an operator with these kernels, on the CPU.
    pub fn op(op: OpDef, kernels: &[KernelDef]) -> Self {
        Self::new(Some(op), kernels.to_vec(), Core::CPU)
    }

    /// Creates a bench for a kernel without an operator, on its core. [`Bench::output`] describes its outputs.
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

    /// Sets the core.
    #[must_use]
    pub fn on(mut self, core: Core) -> Self {
        self.core = core;
        self
    }

    /// Sets the operator set version of the node; 21 by default.
    #[must_use]
    pub fn opset(mut self, opset: u32) -> Self {
        self.opset = opset;
        self
    }

    /// Passes a parallel-for with this many threads, which makes its calls in reverse order.
    #[must_use]
    pub fn threads(mut self, threads: u32) -> Self {
        self.threads = threads;
        self
    }

    /// Allows reduced precision.
    #[must_use]
    pub fn fast_math(mut self, fast_math: FastMath) -> Self {
        self.fast_math = fast_math;
        self
    }

    /// Adds a run-time input.
    #[must_use]
    pub fn input(mut self, tensor: Tensor) -> Self {
        self.inputs.push(Some(Input { tensor, is_constant: false }));
        self
    }

    /// Adds a constant input.
    #[must_use]
    pub fn constant(mut self, tensor: Tensor) -> Self {
        self.inputs.push(Some(Input { tensor, is_constant: true }));
        self
    }

    /// Omits the next input.
    #[must_use]
    pub fn absent(mut self) -> Self {
        self.inputs.push(None);
        self
    }

    /// Sets an integer parameter.
    #[must_use]
    pub fn int(self, name: &'static str, value: i64) -> Self {
        self.param(name, ParamSetting::Int(value))
    }

    /// Sets a floating-point parameter.
    #[must_use]
    pub fn float(self, name: &'static str, value: f64) -> Self {
        self.param(name, ParamSetting::Float(value))
    }

    /// Sets a string parameter.
    #[must_use]
    pub fn text(self, name: &'static str, value: &str) -> Self {
        self.param(name, ParamSetting::Text(value.to_owned()))
    }

    /// The former name of [`Bench::strings`].
    #[doc(hidden)]
    #[must_use]
    pub fn texts(self, name: &'static str, values: &[&str]) -> Self {
        self.strings(name, values)
    }

    /// Sets a parameter that is a list of strings.
    #[must_use]
    pub fn strings(self, name: &'static str, values: &[&str]) -> Self {
        self.param(name, ParamSetting::Texts(values.iter().map(|&v| v.to_owned()).collect()))
    }

    /// Sets a parameter that is a list of integers.
    #[must_use]
    pub fn ints(self, name: &'static str, values: &[i64]) -> Self {
        self.param(name, ParamSetting::Ints(values.to_vec()))
    }

    /// Sets a parameter that is a list of floating-point numbers.
    #[must_use]
    pub fn floats(self, name: &'static str, values: &[f64]) -> Self {
        self.param(name, ParamSetting::Floats(values.to_vec()))
    }

    /// Sets a parameter that is a tensor with its own type and shape.
    ///
    /// # Panics
    /// Memory for its elements is exhausted.
    #[must_use]
    pub fn tensor(self, name: &'static str, value: &Tensor) -> Self {
        self.param(name, ParamSetting::Tensor(value.setting()))
    }

    fn param(mut self, name: &'static str, setting: ParamSetting) -> Self {
        self.params.push((name, setting));
        self
    }

    /// Sets the number of outputs; 1 by default.
    #[must_use]
    pub fn outputs(mut self, count: usize) -> Self {
        self.output_count = count;
        self
    }

    /// Describes the next output of a kernel without an operator.
    #[must_use]
    pub fn output(mut self, dtype: DType, shape: Shape) -> Self {
        self.described.push(Described::As(TensorDesc::new(dtype, shape)));
        self
    }

    /// Describes the next output of a kernel without an operator: elements of `T` with these dimensions.
    ///
    /// # Panics
    /// Too many dimensions.
    #[must_use]
    #[track_caller]
    pub fn output_of<T: Element>(self, dims: &[usize]) -> Self {
        self.output(T::DTYPE, fixed(dims))
    }

    /// Gives the next output of a kernel without an operator the type and shape of the first input.
    #[must_use]
    pub fn like_input(mut self) -> Self {
        self.described.push(Described::LikeInput);
        self
    }

    /// Sets the encoding of a fixed-point output.
    #[must_use]
    pub fn output_encoding(mut self, port: usize, scale: f32, zero_point: i32) -> Self {
        self.encodings.push((port, Encodings::PerTensor(Encoding { scale, zero_point })));
        self
    }

    /// Sets an encoding of a fixed-point output for each position of an axis.
    ///
    /// # Panics
    /// The encoding is invalid.
    #[must_use]
    #[track_caller]
    pub fn output_axis_encoding(
        mut self,
        port: usize,
        axis: usize,
        scales: &[f32],
        zero_points: &[i32],
    ) -> Self {
        match AxisEncoding::intern(axis, scales, zero_points) {
            Ok(encoding) => self.encodings.push((port, Encodings::PerAxis(encoding))),
            Err(error) => panic!("{error}"),
        }
        self
    }

    /// Adds an epilogue step that adds a constant vector along `axis` of the first output.
    #[must_use]
    pub fn then_bias(self, axis: usize, tensor: Tensor) -> Self {
        self.then(Step::Bias { axis, tensor })
    }

    /// Adds an epilogue step that adds a tensor to the first output.
    #[must_use]
    pub fn then_residual(self, tensor: Tensor) -> Self {
        self.then(Step::Residual(tensor))
    }

    /// Adds an epilogue step that applies a function to the first output.
    #[must_use]
    pub fn then_activation(self, activation: Activation) -> Self {
        self.then(Step::Activation(activation))
    }

    /// Adds the last epilogue step, which stores the first output quantized.
    #[must_use]
    pub fn then_quantize(self, dtype: DType, scale: f32, zero_point: i32) -> Self {
        self.then(Step::Quantize(dtype, Encoding { scale, zero_point }))
    }

    fn then(mut self, step: Step) -> Self {
        self.epilogue.push(step);
        self
    }

    /// Runs the node and returns the only output.
    ///
    /// # Panics
    /// As [`Bench::all`].
    #[track_caller]
    pub fn one(self) -> Tensor {
        self.all().swap_remove(0)
    }

    /// Runs the node and returns all outputs. They must have the same bits in every mode of calling a kernel, and match
    /// between kernels.
    ///
    /// # Panics
    /// No kernel accepts the node with all of its epilogue, one fails, or results differ.
    #[track_caller]
    pub fn all(self) -> Vec<Tensor> {
        let mut outcomes = match self.run() {
            Ok(outcomes) => outcomes,
            Err(fault) => panic!("{fault}"),
        };
        for outcome in &outcomes {
            let (accepted, expected) = (outcome.epilogue_steps, self.epilogue.len());
            assert_eq!(accepted, expected, "steps of the epilogue that the kernel accepted");
        }
        let outputs = outcomes.swap_remove(0).outputs;
        let others = outcomes.iter().flat_map(|other| outputs.iter().zip(&other.outputs));
        for (output, other) in others {
            assert_eq!(output.dims(), other.dims(), "of two kernels");
            if output.desc().dtype() == Some(DType::F32) {
                let expected: Vec<f64> =
                    output.values::<f32>().into_iter().map(f64::from).collect();
                assert_near(&other.values::<f32>(), &expected, 1e-4);
            } else {
                assert!(output.bytes() == other.bytes(), "kernels compute different results");
            }
        }
        outputs
    }

    /// Returns why the node does not run.
    ///
    /// # Panics
    /// The node runs.
    #[track_caller]
    pub fn fault(self) -> Fault {
        match self.run() {
            Ok(_) => panic!("the run succeeds"),
            Err(fault) => fault,
        }
    }

    /// Returns why the node does not run, as a message.
    ///
    /// # Panics
    /// As [`Bench::fault`].
    #[track_caller]
    pub fn error(self) -> String {
        self.fault().to_string()
    }

    /// Infers the outputs.
    ///
    /// # Errors
    /// The operator refuses the node, or the bench has no operator.
    pub fn infer(&self) -> Result<Vec<TensorDesc>, Fault> {
        self.outputs_of(&self.settings()?)
    }

    pub(crate) fn descs(&self) -> Vec<TensorDesc> {
        descs(&self.inputs)
    }

    /// Returns the parameters, in the schema's order.
    pub(crate) fn settings(&self) -> Result<Vec<(&'static str, ParamSetting)>, Fault> {
        let Some(op) = &self.op else { return Ok(self.params.clone()) };
        let schema = op.schema();
        let unknown =
            |(name, _): &&(&str, _)| schema.params().iter().all(|param| param.name() != *name);
        if let Some((name, _)) = self.params.iter().find(unknown) {
            return Err(Fault::Setup(format!("{} has no parameter {name:?}", schema.name())));
        }
        let settings = schema.params().iter().map(|param| {
            let parameter = self.params.iter().find(|(name, _)| *name == param.name());
            let setting = match parameter {
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
                return Err(Fault::Setup(format!("no output {port} for an encoding")));
            };
            *output = output.with_encodings(*encodings);
            output.check_encoding().map_err(|error| Fault::Setup(error.to_string()))?;
        }
        Ok(outputs)
    }
}

pub(crate) fn descs(inputs: &[Option<Input>]) -> Vec<TensorDesc> {
    inputs
        .iter()
        .map(|input| input.as_ref().map_or(TensorDesc::ABSENT, |input| input.tensor.desc()))
        .collect()
}

pub(crate) fn constants(inputs: &[Option<Input>]) -> Vec<Option<&[u8]>> {
    inputs
        .iter()
        .map(|input| {
            input.as_ref().filter(|input| input.is_constant).map(|input| input.tensor.bytes())
        })
        .collect()
}
