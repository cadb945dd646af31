//! Tries cores for a node: finalizes the kernels of each requested core until one accepts the node.

use udo_api::{Core, CoreKind, EpilogueStep, KernelDef, Status};
use udo_host::{ConstantId, FinalizedKernel, Machine, NodeDesc, PlacedNode, Refusal, finalize};

use super::candidate::{Accepted, PlaceCandidate};
use super::ports::Ports;
use super::{Constant, CoreRefusal, Fallback, Operand, PlaceError, PlacedKernel};
use crate::compiler::Compiler;
use crate::resolve::{BoundNode, Params};
use udo_engine::cores::convert::ConstantError;
use udo_engine::cores::opencl::{self, OpenClError};
use udo_engine::cores::{fast_memory, machine};
use udo_engine::exit_guard::{self, PackageCall};
use udo_engine::operators::KernelEntry;
use udo_graph::memory::{MAX_BYTES, Tensor, TensorStorage};

/// A kernel with the backend that runs it.
struct BackendKernel {
    entry: KernelEntry,
    kernel: FinalizedKernel,
    backend: Option<String>,
    opencl_unused: Option<String>,
}

impl PlaceCandidate<'_> {
    /// Returns the first kernel that accepts the node. Tries the pinned core only, or else the preferred core of the
    /// node's constraint, the requested cores in order, the fallback core, and the excluded cores.
    pub(super) fn choose(&self, compiler: &Compiler<'_>) -> Result<Accepted, PlaceError> {
        let options = self.options;
        let mut refusals = Vec::new();
        let pinned = self.node.pin.and_then(|pin| self.pinned.get(usize::from(pin)).copied());
        let constraint = self.constraint.filter(|_| pinned.is_none());
        let preferred = pinned.or(constraint.and_then(|constraint| constraint.preferred));
        let others = options.cores.iter().copied().filter(|core| Some(*core) != preferred);
        let others = others.filter(|_| pinned.is_none());
        let requested: Vec<Core> = preferred.into_iter().chain(others).collect();
        let exclusion = |core: Core| {
            constraint.and_then(|constraint| {
                constraint.excluded.iter().find(|refusal| refusal.core == core)
            })
        };
        for &core in &requested {
            if let Some(refusal) = exclusion(core) {
                refusals.push(refusal.clone());
                continue;
            }
            match self.try_core(core, compiler)? {
                Ok((placed, steps)) => {
                    // If the constraint prefers this core, it also states why the others are not used.
                    let is_preferred =
                        constraint.is_some_and(|constraint| constraint.preferred == Some(core));
                    let others = constraint
                        .filter(|_| is_preferred)
                        .map(|constraint| constraint.excluded.clone());
                    let refusals = others.unwrap_or(refusals);
                    let fell_back = pinned.is_none() && !options.cores.contains(&core);
                    return Ok((PlacedKernel { refusals, fell_back, ..placed }, steps));
                }
                Err(reason) => refusals.push(CoreRefusal { core, reason }),
            }
        }
        let fallback = match options.fallback {
            Fallback::Off => None,
            Fallback::To(core) => Some(core).filter(|core| !requested.contains(core)),
        };
        if let Some(core) = fallback {
            match self.try_core(core, compiler)? {
                Ok((placed, steps)) => {
                    return Ok((PlacedKernel { refusals, fell_back: true, ..placed }, steps));
                }
                Err(reason) => refusals.push(CoreRefusal { core, reason }),
            }
        }
        // A core that the constraints exclude still runs a node that no other core accepts.
        for &core in requested.iter().filter(|core| exclusion(**core).is_some()) {
            if let Ok((placed, steps)) = self.try_core(core, compiler)? {
                let others = refusals.into_iter().filter(|refusal| refusal.core != core);
                return Ok((PlacedKernel { refusals: others.collect(), ..placed }, steps));
            }
        }
        Err(PlaceError::NoCore { node: self.node.name.clone(), op: self.node.op.clone(), refusals })
    }

    /// Places the node on `core`, or returns why it cannot.
    fn try_core(
        &self,
        core: Core,
        compiler: &Compiler<'_>,
    ) -> Result<Result<Accepted, String>, PlaceError> {
        let is_builtin = compiler.operators.is_builtin(self.bound.package);
        if let Some(reason) = self.beyond_limits(core, is_builtin) {
            return Ok(Err(reason));
        }
        let entries = compiler.operators.kernels_for(self.bound.package, core)?;
        let is_for_op = |entry: &&KernelEntry| std::ptr::eq(entry.op, self.bound.op);
        let mut candidates: Vec<KernelEntry> = entries.iter().filter(is_for_op).copied().collect();
        if candidates.is_empty() {
            return self.on_quantized_core(self.no_kernel(core), core, compiler);
        }
        // The order in the package decides between kernels of the same cost class.
        candidates.sort_by_key(|entry| entry.def.cost_class());
        let mut reasons = Vec::new();
        for entry in candidates {
            match self.try_kernel(entry, core, compiler)? {
                Ok(accepted) => return Ok(Ok(accepted)),
                Err(reason) => reasons.push(reason),
            }
        }
        reasons.dedup();
        self.on_quantized_core(reasons.join(", and "), core, compiler)
    }

    /// Returns why the core has no kernel for the node.
    fn no_kernel(&self, core: Core) -> String {
        let left_out = &self.options.hta_left_out;
        let is_left_out = |id| left_out.ids().any(|known| known == id);
        if core.kind() == Some(CoreKind::Hta) && self.node.origin.ids().any(is_left_out) {
            return "left out by the partition of `udo prepare --hta-partitions`".to_owned();
        }
        "no kernel".to_owned()
    }

    /// Returns whether the user allows another core than this one.
    fn may_run_elsewhere(&self, core: Core) -> bool {
        let others = self.options.cores.iter().any(|other| *other != core);
        others || matches!(self.options.fallback, Fallback::To(other) if other != core)
    }

    /// Places the node with this kernel, or returns why it cannot.
    fn try_kernel(
        &self,
        entry: KernelEntry,
        core: Core,
        compiler: &Compiler<'_>,
    ) -> Result<Result<Accepted, String>, PlaceError> {
        let mut ports = match self.ports(entry.def, core) {
            Ok(ports) => ports,
            Err(reason) => return Ok(Err(reason)),
        };
        let (kernel, constants) = match self.finalize(&entry, core, &mut ports, compiler) {
            Ok(finalized) => finalized,
            Err(refusal) if refusal.status == Status::FAILED => return Ok(Err(refusal.message)),
            // If a worker process ends and another core is allowed, that core takes the node, and the report states
            // why.
            Err(refusal) if refusal.status == Status::WORKER && self.may_run_elsewhere(core) => {
                return Ok(Err(refusal.to_string()));
            }
            Err(refusal) => {
                let (node, op) = (self.node.name.clone(), self.node.op.clone());
                let package = compiler.operators.package_name(entry.package).to_owned();
                return Err(PlaceError::Finalize { node, op, package, core, refusal });
            }
        };
        if let Some(reason) = self.beyond_memory(&kernel, core) {
            return Ok(Err(reason));
        }
        let kernel = BackendKernel { entry, kernel, backend: None, opencl_unused: None };
        let kernel = self.on_backend(kernel, &ports, compiler)?;
        Ok(kernel.map(|BackendKernel { entry, kernel, backend, opencl_unused }| {
            let Ports { inputs, outputs, params, epilogue } = ports;
            let (refusals, fell_back, steps) = (Vec::new(), false, epilogue.len());
            let placed = PlacedKernel {
                core,
                entry,
                kernel,
                backend,
                opencl_unused,
                constants,
                inputs,
                outputs,
                params,
                epilogue,
                refusals,
                fell_back,
            };
            (placed, steps)
        }))
    }

    /// Returns an error if a kernel needs more scratch memory than `core` has.
    fn beyond_memory(&self, kernel: &FinalizedKernel, core: Core) -> Option<String> {
        let workspace = kernel.workspace();
        let fast = fast_memory(core, &self.options.profile);
        match (workspace.wants_all_vtcm(), fast.unwrap_or(MAX_BYTES)) {
            (true, _) if fast.is_none() => {
                Some("needs all fast memory, but the core has no fast memory".to_owned())
            }
            (false, available) if workspace.bytes() > available => Some(format!(
                "needs {} bytes of scratch, the core has {available}",
                workspace.bytes()
            )),
            (true | false, _) => None,
        }
    }

    /// Gives a GPU kernel the OpenCL device if there is one, else host threads. Leaves other kernels unchanged.
    fn on_backend(
        &self,
        cpu_kernel: BackendKernel,
        ports: &Ports,
        compiler: &Compiler<'_>,
    ) -> Result<Result<BackendKernel, String>, PlaceError> {
        let Some(has_work_item) = cpu_kernel.kernel.has_work_item() else {
            return Ok(Ok(cpu_kernel));
        };
        let device = match opencl::device_for(self.options.profile.opencl) {
            Ok(device) => device,
            Err(why) if has_work_item => {
                let backend = Some("work items on host threads".to_owned());
                let has_source =
                    cpu_kernel.kernel.gpu_info().is_some_and(|info| !info.launches.is_empty());
                let opencl_unused = has_source.then_some(why);
                return Ok(Ok(BackendKernel { backend, opencl_unused, ..cpu_kernel }));
            }
            Err(why) => {
                return Ok(Err(format!("found neither an OpenCL device nor a work_item ({why})")));
            }
        };
        let info = cpu_kernel.kernel.gpu_info().ok_or(OpenClError::NoDescription);
        let [inputs, outputs] = ports.descs();
        let packed = cpu_kernel.kernel.packed_bytes();
        let kernel = info.and_then(|info| device.compile(info, &inputs, &outputs, &packed));
        let kernel = kernel.map_err(|source| PlaceError::Device {
            node: self.node.name.clone(),
            op: self.node.op.clone(),
            package: compiler.operators.package_name(cpu_kernel.entry.package).to_owned(),
            device: device.name().to_owned(),
            source: Box::new(source),
        })?;
        Ok(Ok(BackendKernel {
            // The host's code runs the kernel, so the host's heap guard applies.
            entry: KernelEntry { guard: None, ..cpu_kernel.entry },
            kernel: cpu_kernel.kernel.hosted_by(kernel),
            backend: Some(format!("opencl: {}", device.name())),
            opencl_unused: None,
        }))
    }

    /// Returns the inputs that are known before the run, in the format of their port.
    pub(super) fn constants(
        &self,
        ports: &Ports,
        compiler: &Compiler<'_>,
    ) -> Result<Vec<Option<Constant>>, Refusal> {
        let constant_of = |&Operand { value, format, .. }: &Operand| {
            let Some(tensor) = self.graph.known(value) else { return Ok(None) };
            let id = ConstantId { tensor: tensor.id(), format: format.layout() as u64 };
            let constant = compiler.constants.constant(tensor, &self.graph.desc(value), &format);
            // Packages may rely on aligned elements. Constants that built-in kernels only pack can stay in the file.
            let is_builtin = compiler.operators.is_builtin(self.bound.package);
            let aligned = |tensor: Tensor| if is_builtin { Ok(tensor) } else { tensor.apart() };
            match constant.and_then(|tensor| Ok(aligned(tensor)?)) {
                Ok(tensor) => Ok(Some(Constant { id, tensor, desc: format.desc })),
                Err(ConstantError::NoWay(_)) => Ok(None),
                Err(error @ ConstantError::Memory(_)) => {
                    Err(Refusal { status: Status::FAILED, message: error.to_string() })
                }
            }
        };
        ports.inputs.iter().map(constant_of).collect()
    }

    /// Returns the node as a kernel sees it.
    pub(super) fn placed<'a>(
        &'a self,
        core: Core,
        ports: &'a Ports,
        constants: &'a [Option<Constant>],
    ) -> PlacedNode<'a> {
        let Ports { inputs, outputs, params, epilogue } = ports;
        described(self.bound, core, [inputs, outputs], (params.as_ref(), epilogue), constants)
    }

    /// Asks the kernel how many epilogue steps it does, and finalizes it for those.
    fn finalize(
        &self,
        entry: &KernelEntry,
        core: Core,
        ports: &mut Ports,
        compiler: &Compiler<'_>,
    ) -> Result<(FinalizedKernel, Vec<Option<Constant>>), Refusal> {
        let def: &KernelDef = entry.def;
        let package = compiler.operators.package_name(entry.package);
        let (node, op, function) = (&*self.node.name, def.op(), "accept");
        let call = PackageCall { node, package, op, core: Some(core), function };
        let offer = self.offer(def, core, ports);
        let mut constants = self.constants(ports, compiler)?;
        self.accept(def, &call, ports, &mut constants, &offer)?;
        let placed = self.placed(core, ports, &constants);
        let call = PackageCall { function: "finalize", ..call };
        let machine = machine(core, &self.options.profile, self.threads);
        let machine = Machine { memory_price: self.price, ..machine };
        let kernel = exit_guard::with_record(&call, || finalize(def, &placed, machine))?;
        Ok((kernel, constants))
    }
}

/// Describes a node to a kernel with these tensors, parameters and epilogue steps.
pub(super) fn described<'a>(
    bound: &'a BoundNode,
    core: Core,
    [inputs, outputs]: [&[Operand]; 2],
    (params, epilogue): (Option<&'a Params>, &[EpilogueStep]),
    constants: &'a [Option<Constant>],
) -> PlacedNode<'a> {
    let descs = |operands: &[Operand]| operands.iter().map(|o| o.format.desc).collect::<Vec<_>>();
    let node = NodeDesc {
        inputs: descs(inputs),
        constants: constants.iter().map(|c| c.as_ref().map(|c| c.tensor.stored())).collect(),
        params: params.unwrap_or(&bound.params).settings(),
        output_count: outputs.len(),
        opset: bound.node.opset,
    };
    PlacedNode { epilogue: epilogue.to_vec(), ..PlacedNode::new(node, core, &descs(outputs)) }
}
