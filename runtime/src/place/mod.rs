//! Which core runs each node, with which kernel, and why the others do not.

mod order;

use udo_api::{Core, Facts, KernelDef, KernelFlags, Port, Side, Status, TensorDesc, Wanted};
use udo_host::{ConstantId, FinalizedKernel, NodeDesc, ParamSetting, Refusal, Source, finalize};

use crate::cores::convert::ConstantError;
use crate::cores::opencl::{self, OpenClError};
use crate::cores::order::constant;
use crate::cores::{Form, OpenCl, Profile, forms};
use crate::exit_guard::{self, PackageCall};
use crate::graph::{Node, ValueId};
use crate::memory::Tensor;
use crate::package::{OpenError, PackageId};
use crate::registry::{KernelEntry, Registry};
use crate::resolve::{ACTIVATION, BoundNode, Params, Resolved, TypedGraph};

/// What happens to a node that none of the cores asked for takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// The model is refused.
    #[default]
    Off,
    /// It runs on the CPU, and the report says so.
    Cpu,
}

/// What the user decides about placement.
#[derive(Clone, Debug)]
pub struct PlaceOptions {
    /// The cores to use, the preferred one first.
    pub cores: Vec<Core>,
    /// What happens to a node that none of them takes.
    pub fallback: Fallback,
    /// The properties of the cores.
    pub profile: Profile,
    /// Whether nodes that work in any layout take channels last on the host though none of their inputs comes so.
    /// No result depends on it; tests that compare plans set it.
    pub prefers_channels_last: bool,
}

impl Default for PlaceOptions {
    fn default() -> Self {
        Self {
            cores: vec![Core::CPU],
            fallback: Fallback::Off,
            profile: Profile::default(),
            prefers_channels_last: false,
        }
    }
}

/// A core that does not take a node, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreRefusal {
    /// The core.
    pub core: Core,
    /// Why not.
    pub reason: String,
}

/// A constant input as a kernel sees it.
#[derive(Clone, Debug)]
pub(crate) struct Constant {
    id: ConstantId,
    tensor: Tensor,
    form: TensorDesc,
}

impl Constant {
    /// What is packed of it.
    pub(crate) fn source(&self) -> Source<'_> {
        Source { id: self.id, desc: self.form, bytes: self.tensor.bytes() }
    }
}

/// Where one node runs.
#[derive(Debug)]
pub struct Choice {
    /// The core that runs it.
    pub core: Core,
    /// The kernel's table entry.
    pub entry: KernelEntry,
    /// The kernel, finalized for the node.
    pub kernel: FinalizedKernel,
    /// What a GPU kernel runs on: `opencl: <device>` or `work items on host threads`.
    pub backend: Option<String>,
    /// Each input that is known before the run, in its form.
    pub(crate) constants: Vec<Option<Constant>>,
    /// The form of each input; absent ones included.
    pub inputs: Vec<Form>,
    /// The form of each output; absent ones included.
    pub outputs: Vec<Form>,
    /// Cores asked for before this one.
    pub refusals: Vec<CoreRefusal>,
    /// Whether the core was not asked for.
    pub fell_back: bool,
}

/// A graph in which every node has a core.
#[derive(Debug)]
pub struct Placement {
    /// The graph.
    pub resolved: Resolved,
    /// One per node.
    pub choices: Vec<Choice>,
    /// The properties of the cores.
    pub profile: Profile,
}

/// Why a graph cannot be placed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// No core was asked for.
    #[error("no cores to place the model on")]
    NoCores,
    /// None of the cores takes the node.
    #[error("node {node:?} ({op}) runs on none of the cores asked for: {}", list(.refusals))]
    NoCore {
        /// The node.
        node: String,
        /// Its operator type.
        op: String,
        /// Each core's reason.
        refusals: Vec<CoreRefusal>,
    },
    /// A kernel failed while it was finalized, in a way that no other core should hide.
    #[error("node {node:?}: package {package}'s {op} on {core} {}", failure(.refusal))]
    Finalize {
        /// The node.
        node: String,
        /// Its operator type.
        op: String,
        /// The kernel's package.
        package: String,
        /// The core.
        core: Core,
        /// What the kernel said.
        refusal: Refusal,
    },
    /// A GPU kernel does not compile for the device; no work item takes its place silently.
    #[error("node {node:?}: package {package}'s {op} does not run on OpenCL device {device:?}")]
    Device {
        /// The node.
        node: String,
        /// Its operator type.
        op: String,
        /// The kernel's package.
        package: String,
        /// The device.
        device: String,
        /// Why not, with the compiler's log.
        #[source]
        source: Box<OpenClError>,
    },
    /// An implementation library cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
}

fn list(refusals: &[CoreRefusal]) -> String {
    refusals.iter().map(|r| format!("{}: {}", r.core, r.reason)).collect::<Vec<_>>().join("; ")
}

fn failure(refusal: &Refusal) -> String {
    let when = "in finalize";
    match refusal.status {
        Status::NOT_IMPLEMENTED => format!("{} {when}", refusal.status),
        _ => format!("{refusal} {when}"),
    }
}

/// Gives every node the first core that takes it, and finalizes its kernel.
///
/// # Errors
/// A node that no core takes, an implementation library that cannot be opened, or a kernel that
/// failed rather than refused.
pub(crate) fn assign(
    resolved: Resolved,
    registry: &mut Registry,
    options: &PlaceOptions,
) -> Result<Placement, PlaceError> {
    if options.cores.is_empty() {
        return Err(PlaceError::NoCores);
    }
    let mut choices = Vec::with_capacity(resolved.graph.nodes.len());
    let mut made = vec![None; resolved.graph.values.len()];
    for bound in &resolved.graph.nodes {
        let node = &bound.node;
        let site = Site { graph: &resolved.graph, made: &made, node, bound, options };
        let choice = match site.maker().filter(|_| bound.is_fused) {
            Some((core, form)) => site.alias(core, form, registry)?,
            None => site.choose(registry)?,
        };
        for (value, form) in node.outputs.iter().zip(&choice.outputs) {
            if let Some(made) = value.and_then(|v| made.get_mut(v.index())) {
                *made = Some((choice.core, *form));
            }
        }
        choices.push(choice);
    }
    Ok(Placement { resolved, choices, profile: options.profile })
}

/// One node that looks for its core.
struct Site<'a> {
    graph: &'a TypedGraph,
    /// Where and how each value is made, if a node makes it.
    made: &'a [Option<(Core, Form)>],
    node: &'a Node,
    bound: &'a BoundNode,
    options: &'a PlaceOptions,
}

/// The forms of a node's ports on one core.
struct Fit {
    inputs: Vec<Form>,
    outputs: Vec<Form>,
    /// The parameters, where they are not those of the node.
    params: Option<Params>,
}

fn descs(forms: &[Form]) -> Vec<TensorDesc> {
    forms.iter().map(|form| form.desc).collect()
}

/// A kernel, and what it runs on.
struct Seat {
    entry: KernelEntry,
    kernel: FinalizedKernel,
    backend: Option<String>,
}

impl Site<'_> {
    /// Where and how the first input is made.
    fn maker(&self) -> Option<(Core, Form)> {
        let value = self.node.input(0)?;
        self.made.get(value.index()).copied().flatten()
    }

    /// A node whose work another one does: its output is that one's, so its kernel has nothing to do.
    fn alias(&self, core: Core, form: Form, registry: &mut Registry) -> Result<Choice, PlaceError> {
        let kernels = registry.kernels_for(self.bound.package, Core::CPU)?;
        let is_its = |entry: &&KernelEntry| std::ptr::eq(entry.op, self.bound.op);
        let entry = kernels.iter().find(is_its).copied();
        let fit = Fit { inputs: vec![form], outputs: vec![form], params: None };
        let no_core = || PlaceError::NoCore {
            node: self.node.name.clone(),
            op: self.node.op.clone(),
            refusals: Vec::new(),
        };
        let entry = entry.ok_or_else(no_core)?;
        let (kernel, constants) =
            self.finalize(&entry, Core::CPU, &fit, registry).map_err(|refusal| {
                PlaceError::Finalize {
                    node: self.node.name.clone(),
                    op: self.node.op.clone(),
                    package: registry.package_name(entry.package).to_owned(),
                    core,
                    refusal,
                }
            })?;
        let Fit { inputs, outputs, .. } = fit;
        let (refusals, fell_back) = (Vec::new(), false);
        let backend = None;
        Ok(Choice { core, entry, kernel, backend, constants, inputs, outputs, refusals, fell_back })
    }

    fn choose(&self, registry: &mut Registry) -> Result<Choice, PlaceError> {
        let options = self.options;
        let mut refusals = Vec::new();
        for &core in &options.cores {
            match self.try_core(core, registry)? {
                Ok(choice) => return Ok(Choice { refusals, ..choice }),
                Err(reason) => refusals.push(CoreRefusal { core, reason }),
            }
        }
        if options.fallback == Fallback::Cpu && !options.cores.contains(&Core::CPU) {
            match self.try_core(Core::CPU, registry)? {
                Ok(choice) => return Ok(Choice { refusals, fell_back: true, ..choice }),
                Err(reason) => refusals.push(CoreRefusal { core: Core::CPU, reason }),
            }
        }
        Err(PlaceError::NoCore { node: self.node.name.clone(), op: self.node.op.clone(), refusals })
    }

    /// The node on `core`, or why not.
    fn try_core(
        &self,
        core: Core,
        registry: &mut Registry,
    ) -> Result<Result<Choice, String>, PlaceError> {
        let entries = registry.kernels_for(self.bound.package, core)?;
        let is_mine = |entry: &&KernelEntry| std::ptr::eq(entry.op, self.bound.op);
        let mine: Vec<KernelEntry> = entries.iter().filter(is_mine).copied().collect();
        if mine.is_empty() {
            return Ok(Err("no kernel".to_owned()));
        }
        let mut reasons = Vec::new();
        for entry in mine {
            let fit = match self.fit(entry.def, core) {
                Ok(fit) => fit,
                Err(reason) => {
                    reasons.push(reason);
                    continue;
                }
            };
            match self.finalize(&entry, core, &fit, registry) {
                Ok((kernel, constants)) => {
                    match self.seat(Seat { entry, kernel, backend: None }, &fit, registry)? {
                        Ok(Seat { entry, kernel, backend }) => {
                            let Fit { inputs, outputs, .. } = fit;
                            let (refusals, fell_back) = (Vec::new(), false);
                            return Ok(Ok(Choice {
                                core,
                                entry,
                                kernel,
                                backend,
                                constants,
                                inputs,
                                outputs,
                                refusals,
                                fell_back,
                            }));
                        }
                        Err(reason) => reasons.push(reason),
                    }
                }
                Err(refusal) if refusal.status == Status::FAILED => reasons.push(refusal.message),
                Err(refusal) => {
                    return Err(PlaceError::Finalize {
                        node: self.node.name.clone(),
                        op: self.node.op.clone(),
                        package: registry.package_name(entry.package).to_owned(),
                        core,
                        refusal,
                    });
                }
            }
        }
        reasons.dedup();
        Ok(Err(reasons.join(", and ")))
    }

    /// Seats a GPU kernel on the device if there is one, else on the host's threads; others stay as they are.
    fn seat(
        &self,
        seat: Seat,
        fit: &Fit,
        registry: &Registry,
    ) -> Result<Result<Seat, String>, PlaceError> {
        let Some(has_work_item) = seat.kernel.has_work_item() else { return Ok(Ok(seat)) };
        let device = match self.options.profile.opencl {
            OpenCl::Auto => opencl::find().map_err(ToString::to_string),
            OpenCl::Off => Err("OpenCL is switched off by the profile".to_owned()),
        };
        let device = match device {
            Ok(device) => device,
            Err(_) if has_work_item => {
                return Ok(Ok(Seat {
                    backend: Some("work items on host threads".to_owned()),
                    ..seat
                }));
            }
            Err(why) => {
                return Ok(Err(format!("neither an OpenCL device nor a work_item ({why})")));
            }
        };
        let info = seat.kernel.gpu_info().ok_or(OpenClError::NoDescription);
        let kernel =
            info.and_then(|info| device.compile(&info, &descs(&fit.inputs), &descs(&fit.outputs)));
        let kernel = kernel.map_err(|source| PlaceError::Device {
            node: self.node.name.clone(),
            op: self.node.op.clone(),
            package: registry.package_name(seat.entry.package).to_owned(),
            device: device.name().to_owned(),
            source: Box::new(source),
        })?;
        Ok(Ok(Seat {
            // The host's own code runs, so the host's heap is what is guarded.
            entry: KernelEntry { thread_guard: None, ..seat.entry },
            kernel: FinalizedKernel::hosted(kernel),
            backend: Some(format!("opencl: {}", device.name())),
        }))
    }

    /// The form of each port that `kernel` takes on `core`, or why there is none.
    fn fit(&self, kernel: &KernelDef, core: Core) -> Result<Fit, String> {
        let schema = self.bound.op.schema();
        let mut fit = Fit { inputs: Vec::new(), outputs: Vec::new(), params: None };
        for (index, &value) in self.node.inputs.iter().enumerate() {
            let form = match (value, schema.input(index)) {
                (Some(_), Some(port)) => {
                    self.port_form(kernel, core, Side::Input, index, port, &fit)?
                }
                _ => TensorDesc::ABSENT,
            };
            fit.inputs.push(Form::of(form));
        }
        for (index, &value) in self.node.outputs.iter().enumerate() {
            let form = match (value, schema.output(index)) {
                (Some(_), Some(port)) => {
                    self.port_form(kernel, core, Side::Output, index, port, &fit)?
                }
                _ => TensorDesc::ABSENT,
            };
            fit.outputs.push(Form::of(form));
        }
        let takes_bounds = kernel.known_flags().has(KernelFlags::BOUNDED);
        let bounded = fit.inputs.iter().position(|f| !f.desc.full_shape().is_fixed());
        if let Some(index) = bounded.filter(|_| !takes_bounds) {
            let name = schema.input(index).map_or("?", Port::name);
            return Err(format!(
                "input {name:?} is {}, and the kernel wants fixed dimensions",
                fit.inputs[index].desc
            ));
        }
        let bounded = fit.outputs.iter().position(|f| !f.desc.full_shape().is_fixed());
        if let Some(index) = bounded {
            let refuse = |why: &str| {
                let name = schema.output(index).map_or("?", Port::name);
                Err(format!("output {name:?} is {}, and {why}", fit.outputs[index].desc))
            };
            if !takes_bounds {
                return refuse("the kernel does not declare BOUNDED");
            }
            if kernel.vtable().gpu.is_some() {
                return refuse("a GPU kernel cannot say its extents");
            }
        }
        self.order(kernel, core, &mut fit)?;
        Ok(fit)
    }

    fn port_form(
        &self,
        kernel: &KernelDef,
        core: Core,
        side: Side,
        index: usize,
        port: &Port,
        fit: &Fit,
    ) -> Result<TensorDesc, String> {
        let values = match side {
            Side::Input => &self.node.inputs,
            Side::Output => &self.node.outputs,
        };
        let value = values.get(index).copied().flatten();
        let desc = self.graph.desc(value);
        let fixed = value.and_then(|v| self.graph.values.get(v.index())?.quantized_desc());
        // The rule of a repeated port is that of its first tensor.
        let schema_ports = match side {
            Side::Input => self.bound.op.schema().inputs().len(),
            Side::Output => self.bound.op.schema().outputs().len(),
        };
        let rule_port = index.min(schema_ports.saturating_sub(1));
        let rule =
            kernel.type_rules().iter().find(|r| r.side() == Some(side) && r.port() == rule_port);
        let types = match rule.map(udo_api::TypeRule::wanted) {
            Some(Wanted::Types(types)) => types,
            // An input that is left out says nothing.
            Some(Wanted::SameAsInput(other)) => fit
                .inputs
                .get(other)
                .and_then(|form| form.desc.dtype())
                .map_or(port.types_on(core), udo_api::DType::set),
            None => port.types_on(core),
        };
        let forms = forms(core, &desc, fixed.as_ref(), &self.options.profile);
        if let Some(form) = forms.iter().find(|f| f.is_in(types)) {
            return Ok(*form);
        }
        let what = match side {
            Side::Input => "input",
            Side::Output => "output",
        };
        let unencoded = desc.dtype().is_some_and(udo_api::DType::is_float)
            && fixed.is_none()
            && forms.len() == 1;
        let hint =
            if unencoded && !types.has(udo_api::DType::F32) && !types.is_empty() && core.arch() > 0
            {
                ", and the model has no encoding for it"
            } else {
                ""
            };
        Err(format!("{what} {:?} is {desc}, wanted {types}{hint}", port.name()))
    }

    /// Each input that is known before the run, in the form of its port.
    fn constants(&self, fit: &Fit, registry: &Registry) -> Result<Vec<Option<Constant>>, Refusal> {
        let made = |(&value, form): (&Option<ValueId>, &Form)| {
            let Some(tensor) = self.graph.known(value) else { return Ok(None) };
            let id = ConstantId { tensor: tensor.id(), format: form.order as u64 };
            match constant(tensor, &self.graph.desc(value), form, registry.packs().budget()) {
                Ok(tensor) => Ok(Some(Constant { id, tensor, form: form.desc })),
                Err(ConstantError::NoWay(_)) => Ok(None),
                Err(error @ ConstantError::Memory(_)) => {
                    Err(Refusal { status: Status::FAILED, message: error.to_string() })
                }
            }
        };
        self.node.inputs.iter().zip(&fit.inputs).map(made).collect()
    }

    fn finalize(
        &self,
        entry: &KernelEntry,
        core: Core,
        fit: &Fit,
        registry: &Registry,
    ) -> Result<(FinalizedKernel, Vec<Option<Constant>>), Refusal> {
        let constants = self.constants(fit, registry)?;
        let view = NodeDesc {
            inputs: descs(&fit.inputs),
            constants: constants.iter().map(|c| c.as_ref().map(|c| c.tensor.bytes())).collect(),
            params: fit.params.as_ref().unwrap_or(&self.bound.params).settings(),
            output_count: fit.outputs.len(),
            opset: self.node.opset,
        };
        let package = registry.package_name(entry.package);
        let call =
            PackageCall { package, op: entry.def.op(), core: Some(core), function: "finalize" };
        let outputs = descs(&fit.outputs);
        let kernel = exit_guard::during(&call, || finalize(entry.def, core, &view, &outputs))?;
        self.check_activation(&kernel, view.params)?;
        Ok((kernel, constants))
    }

    /// Refuses a kernel that would lose the activation that a pass gave it to apply.
    fn check_activation(
        &self,
        kernel: &FinalizedKernel,
        params: &[(&'static str, ParamSetting)],
    ) -> Result<(), Refusal> {
        if !self.bound.op.schema().known_facts().has(Facts::TAKES_ACTIVATION) {
            return Ok(());
        }
        let asked = params.iter().position(|(name, _)| *name == ACTIVATION);
        let Some((index, (_, ParamSetting::Text(activation)))) =
            asked.and_then(|index| Some((index, params.get(index)?)))
        else {
            return Ok(());
        };
        if activation == "None" || kernel.has_read_param(index) != Some(false) {
            return Ok(());
        }
        let message = format!(
            "the operator says that it takes activations, and the kernel does not read parameter \
             {ACTIVATION:?}, which asks for {activation}"
        );
        Err(Refusal { status: Status::FAILED, message })
    }
}

impl PlaceError {
    /// The package and core whose author has to act, where that is the next step.
    pub fn unfinished(&self) -> Option<(&str, &str, Core)> {
        match self {
            Self::Finalize { package, op, core, refusal, .. }
                if refusal.status == Status::NOT_IMPLEMENTED =>
            {
                Some((package, op, *core))
            }
            _ => None,
        }
    }
}

/// The package of a choice's kernel.
impl Choice {
    /// The package that the kernel comes from.
    pub fn package(&self) -> PackageId {
        self.entry.package
    }
}
