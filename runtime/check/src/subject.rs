//! The subject of a check: an operator of a package on a core.

use std::fmt;
use std::path::{Path, PathBuf};

use udo_api::{
    Core, CoreKind, DType, Facts, OpDef, PortRule, PortTypes, Side, TensorDesc, TypeSet,
};
use udo_engine::operators::{KernelEntry, Operators};
use udo_engine::package::PackageId;
use udo_runtime::builtin_operators;
use udo_runtime::package::OpenError;
use udo_testing::Candidate;

use crate::values::range_of;

/// The name of the built-in operators on the command line.
pub const BUILTIN: &str = "builtin";

/// The location of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The built-in operators.
    Builtin,
    /// A folder or a library.
    At(PathBuf),
}

impl Place {
    /// Interprets a command-line argument.
    pub fn from_arg(word: &Path) -> Self {
        if word.as_os_str() == BUILTIN { Self::Builtin } else { Self::At(word.to_owned()) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Builtin => f.write_str(BUILTIN),
            Self::At(path) => path.display().fmt(f),
        }
    }
}

/// An opened package, with the built-in operators.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) registry: Operators,
    /// `None` only for a registry without packages.
    pub(crate) package: Option<PackageId>,
}

impl Opened {
    /// Opens the package, which runs its code.
    pub(crate) fn open(place: &Place) -> Result<Self, OpenError> {
        Self::beside(place, &[])
    }

    /// Opens the other packages and then the package.
    pub(crate) fn beside(place: &Place, others: &[PathBuf]) -> Result<Self, OpenError> {
        let mut registry = builtin_operators()?;
        let builtin = registry.packages().next().map(|package| package.id);
        for other in others {
            registry.open(other)?;
        }
        let package = match place {
            Place::Builtin => builtin,
            Place::At(path) => Some(registry.open(path)?),
        };
        Ok(Self { registry, package })
    }

    /// Iterates over the operators of the package.
    pub(crate) fn ops(&self) -> impl Iterator<Item = &'static OpDef> {
        self.registry
            .ops()
            .iter()
            .filter(|entry| Some(entry.package) == self.package)
            .map(|entry| entry.def)
    }

    /// Returns the cores that the package has kernels for or names in its ports.
    pub(crate) fn cores(&self) -> Vec<Core> {
        let package = self.package.and_then(|id| self.registry.package(id));
        let mut cores: Vec<Core> =
            package.into_iter().flat_map(|p| &p.libraries).map(|library| library.core).collect();
        let has_own = package.is_some_and(|package| package.libraries.is_empty());
        if has_own {
            cores.extend([Core::CPU, Core::GPU, Core::dsp(68)]);
        }
        for core in [Core::CPU, Core::GPU, Core::DSP_V68] {
            let is_there = cores.iter().any(|other| other.kind() == core.kind());
            if !is_there && self.ops().any(|op| declares(op, core)) {
                cores.push(core);
            }
        }
        cores.sort_unstable();
        cores.dedup();
        cores
    }

    /// Returns the operator on the core with its kernels, of which there may be none.
    pub(crate) fn subject(&mut self, op: &str, core: Core) -> Result<Option<Subject>, OpenError> {
        let Some(def) = self.ops().find(|def| full_name(def) == op) else { return Ok(None) };
        let kernels = self.kernels(def, core)?;
        let cpu = match self.kernels(def, Core::CPU) {
            _ if core == Core::CPU => Vec::new(),
            // A package built for one core is compared with its reference only.
            Err(OpenError::MissingLibrary { .. }) => Vec::new(),
            cpu => cpu?,
        };
        Ok(Some(Subject { op: def, core, kernels, cpu }))
    }

    fn kernels(&mut self, def: &OpDef, core: Core) -> Result<Vec<KernelEntry>, OpenError> {
        let Some(package) = self.package else { return Ok(Vec::new()) };
        let kernels = self.registry.kernels_for(package, core)?;
        Ok(kernels.iter().filter(|kernel| std::ptr::eq(kernel.op, def)).copied().collect())
    }

    /// Returns the built-in operator of this name with its CPU kernels, unless it is the subject itself.
    pub(crate) fn builtin(&mut self, op: &str) -> Option<(&'static OpDef, Vec<KernelEntry>)> {
        let builtin = self.registry.packages().next()?.id;
        if Some(builtin) == self.package {
            return None;
        }
        let is_meant = |def: &&OpDef| def.schema().name() == op && def.schema().domain().is_empty();
        let mut ops = self.registry.ops().iter().filter(|entry| entry.package == builtin);
        let def = ops.find(|entry| is_meant(&entry.def))?.def;
        let kernels = self.registry.kernels_for(builtin, Core::CPU).ok()?;
        Some((def, kernels.iter().filter(|k| std::ptr::eq(k.op, def)).copied().collect()))
    }
}

/// Returns the name of an operator, with its domain if it has one.
pub(crate) fn full_name(def: &OpDef) -> String {
    let schema = def.schema();
    match schema.domain() {
        "" => schema.name().to_owned(),
        domain => format!("{domain}:{}", schema.name()),
    }
}

/// An operator of a package on a core.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) op: &'static OpDef,
    pub(crate) core: Core,
    /// Its kernels on the core.
    pub(crate) kernels: Vec<KernelEntry>,
    /// Its CPU kernels, if the core is another one.
    pub(crate) cpu: Vec<KernelEntry>,
}

impl Subject {
    /// Whether the host runs subgraphs for the operator.
    pub(crate) fn has_graphs(&self) -> bool {
        self.op.schema().known_facts().has_any(Facts::CONTROL)
    }

    /// Whether the operator's schema declares types for the core.
    pub(crate) fn is_declared(&self) -> bool {
        declares(self.op, self.core)
    }
}

/// Whether the operator's schema declares types for the core.
fn declares(op: &OpDef, core: Core) -> bool {
    let schema = op.schema();
    let ports = schema.inputs().iter().chain(schema.outputs());
    ports.clone().any(|port| !port.core_types().is_empty())
        && ports.clone().all(|port| !port.types_on(core).is_empty())
}

/// Returns the kernel as a placement candidate.
pub(crate) fn candidate(kernel: &KernelEntry) -> Candidate<'static> {
    Candidate { def: kernel.def, op: Some(kernel.op), guard: kernel.guard }
}

/// Returns the types that the kernel accepts for input `port` of a node on `core`, after the inputs `before`.
pub(crate) fn input_types(
    kernel: &KernelEntry,
    core: Core,
    port: usize,
    before: &[TensorDesc],
) -> TypeSet {
    port_types(kernel, core, Side::Input, port, before)
}

/// Returns the types that the kernel accepts for a port of a node on `core` with these inputs.
fn port_types(
    kernel: &KernelEntry,
    core: Core,
    side: Side,
    port: usize,
    inputs: &[TensorDesc],
) -> TypeSet {
    let schema = kernel.op.schema();
    let declared = match side {
        Side::Input => schema.input(port),
        Side::Output => schema.output(port),
    };
    let declared = declared.map_or(TypeSet::EMPTY, |port| port.types_on(core));
    match candidate(kernel).rule(side, port).map(PortRule::wanted) {
        Some(PortTypes::Types(types)) => types.and(declared),
        Some(PortTypes::SameAsInput(other)) => {
            let same = inputs.get(other).and_then(TensorDesc::dtype);
            same.map_or(declared, |dtype| dtype.set().and(declared))
        }
        Some(PortTypes::AsDeclared) | None => declared,
    }
}

/// Makes float inputs quantized where the kernel accepts them only quantized, as in DSP models. Their encodings are set
/// later.
pub(crate) fn store_quantized(
    kernel: &KernelEntry,
    core: Core,
    inputs: &[TensorDesc],
    outputs: &mut [TensorDesc],
) {
    if core.kind() != Some(CoreKind::Dsp) {
        return;
    }
    for (port, output) in outputs.iter_mut().enumerate() {
        let types = port_types(kernel, core, Side::Output, port, inputs);
        let is_real = output.dtype().is_some_and(DType::is_float);
        let stored = types.iter().find(|dtype| range_of(*dtype).is_some());
        if let (true, false, Some(dtype)) = (is_real, output.is_in(types), stored) {
            *output = TensorDesc::new(dtype, output.full_shape());
        }
    }
}

/// Whether the kernel accepts these tensors.
pub(crate) fn fits(kernel: &KernelEntry, inputs: &[TensorDesc], outputs: &[TensorDesc]) -> bool {
    let kernel = candidate(kernel);
    kernel.takes(inputs, outputs) && kernel.refused_axis_encoding(inputs, outputs).is_none()
}
