//! Validates a package's table before any part of it is registered.

use std::collections::{BTreeSet, HashMap};

use udo_api::abi::{LAYOUTS, Layout, LibraryRef, ValueKind};
use udo_api::{
    Core, CoreKind, Facts, KernelDef, OpDef, OpSchema, Param, ParamKind, Port, PortRule, Side,
    TypeSet, Wanted, types,
};

use super::copy::{TableError, Tables, raw_fault};
use super::index::is_inside;

/// A violation of the contract, and where it is.
#[derive(Debug, thiserror::Error)]
pub(super) enum Breach {
    #[error("{entry}: {breach}")]
    In { entry: String, breach: Box<Self> },
    #[error("its package name is {0:?}, expected an identifier")]
    PackageName(&'static str),
    #[error("an operator is called {0:?}, expected an identifier")]
    OperatorName(&'static str),
    #[error("{0} is listed twice")]
    Twice(String),
    #[error(transparent)]
    Raw(#[from] TableError),
    #[error("it has facts that this version does not know")]
    Facts,
    #[error("it has no outputs, expected at least one")]
    NoOutputs,
    #[error("{place} is called {name:?}, expected a unique name")]
    Name { place: String, name: &'static str },
    #[error("attribute {0:?} belongs to another parameter")]
    Attribute(&'static str),
    #[error("it has flags that this version does not know")]
    Flags,
    #[error("it is repeated, expected only the last port to be repeated")]
    Repeated,
    #[error("it has no element types, expected at least one")]
    NoTypes,
    #[error("its types are {0:#x}, expected element types of tensors")]
    Types(u32),
    #[error("its kind is unknown, expected one of {}", ParamKind::ALL.map(ParamKind::name).join(", "))]
    Kind,
    #[error("its types are not valid for a {}", .0.name())]
    TypesOfKind(ParamKind),
    #[error("its type is unknown")]
    Type,
    #[error("its default does not fit its kind, {}", .0.name())]
    Default(ParamKind),
    #[error("it is a graph, which only built-in operators support")]
    Graph,
    #[error("it states that its host runs graphs, which only built-in operators may do")]
    Control,
    #[error("its core is {0}, which is unknown")]
    Core(Core),
    #[error("its core is a {} without an architecture", .0.name().to_ascii_uppercase())]
    NoArch(CoreKind),
    #[error("its core is {core} with architecture {}, expected 0", .core.arch())]
    Arch { core: Core },
    #[error("it has a cost that this version does not know")]
    Cost,
    #[error("it is a GPU kernel, which supports neither in-place computation nor strided rows")]
    Gpu,
    #[error(
        "it works in place from input {input} to output {output}, which the operator does not have"
    )]
    InPlace { input: usize, output: usize },
    #[error("a rule is for neither an input nor an output")]
    RuleSide,
    #[error("a rule is for {side} {port}, which the operator does not have")]
    RulePort { side: &'static str, port: usize },
    #[error("the rule for {side} {port} has parts that this version does not know")]
    RuleParts { side: &'static str, port: usize },
    #[error(
        "the rule for {side} {port} requires channels last, but its operator declares a layout"
    )]
    RuleLayout { side: &'static str, port: usize },
    #[error(
        "the rule for {side} {port} requires the type of input {other}, which the operator does not have"
    )]
    RuleInput { side: &'static str, port: usize, other: usize },
    #[error(
        "the rule for input {port} requires the type of input {other}, expected an earlier input"
    )]
    RuleOrder { port: usize, other: usize },
    #[error(transparent)]
    Operator(#[from] NotDescribed),
    #[error("its path leads out of the package's folder")]
    Outside,
}

impl Breach {
    /// Locates the violation in an entry of the table.
    fn in_entry(entry: String) -> impl FnOnce(Self) -> Self {
        |breach| Self::In { entry, breach: Box::new(breach) }
    }
}

/// The reason why a kernel cannot be matched to an operator of its package.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotDescribed {
    #[error("its package does not describe this operator")]
    Name,
    #[error("its package does not describe this operator in domain {0:?}")]
    Domain(&'static str),
    #[error("it has no domain, expected one of {}", .0.join(", "))]
    NoDomain(Vec<&'static str>),
}

/// Validates a table. `ops` are the operators that its kernels may implement.
pub(super) fn check(table: &Tables, ops: &[OpDef]) -> Result<(), Breach> {
    if !is_identifier(table.name) {
        return Err(Breach::PackageName(table.name));
    }

    let mut names = BTreeSet::new();
    for op in table.ops {
        let name = op.schema().name();
        if !is_identifier(name) {
            return Err(Breach::OperatorName(name));
        }
        let domain = op.schema().domain();
        if !names.insert((domain, name)) {
            let suffix =
                if domain.is_empty() { String::new() } else { format!(" of domain {domain:?}") };
            return Err(Breach::Twice(format!("operator {name:?}{suffix}")));
        }
        let checked = check_op(op).and_then(|()| check_graphs(table.name, op));
        checked.map_err(Breach::in_entry(format!("operator {name:?}")))?;
    }
    let ops = OperatorIndex::new(ops);
    for (at, kernel) in table.kernels.iter().enumerate() {
        let name = kernel.op();
        check_kernel(kernel, &ops).map_err(Breach::in_entry(format!("kernel {at} ({name:?})")))?;
    }
    let mut files = BTreeSet::new();
    for library in table.libraries {
        let file = library.file();
        check_library(library).map_err(Breach::in_entry(format!("library {file:?}")))?;
        if !files.insert(file) {
            return Err(Breach::Twice(format!("library {file:?}")));
        }
    }
    Ok(())
}

/// Returns whether `name` is a C identifier in ASCII.
pub(super) fn is_identifier(name: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    name.bytes().all(is_word) && name.bytes().next().is_some_and(|b| !b.is_ascii_digit())
}

fn raw<T>(item: &T, name: &str) -> Result<(), Breach> {
    let layout: Option<&Layout> = LAYOUTS.iter().find(|l| l.name == name);
    match layout.map(|layout| raw_fault(item, layout)) {
        Some(None) => Ok(()),
        Some(Some(fault)) => Err(fault.into()),
        None => Err(TableError::UnknownLayout(name.to_owned()).into()),
    }
}

fn check_op(op: &OpDef) -> Result<(), Breach> {
    let schema = op.schema();
    if schema.known_facts().bits() & !Facts::KNOWN.bits() != 0 {
        return Err(Breach::Facts);
    }
    check_ports("input", schema.inputs())?;
    check_ports("output", schema.outputs())?;
    if schema.outputs().is_empty() {
        return Err(Breach::NoOutputs);
    }
    let (mut names, mut attributes) = (BTreeSet::new(), BTreeSet::new());
    for param in schema.params() {
        let name = param.name();
        if name.is_empty() || !names.insert(name) {
            return Err(Breach::Name { place: "a parameter".to_owned(), name });
        }
        check_param(param).map_err(Breach::in_entry(format!("parameter {name:?}")))?;
        let attribute = param.attribute_name();
        if !attributes.insert(attribute) {
            return Err(Breach::in_entry(format!("parameter {name:?}"))(Breach::Attribute(
                attribute,
            )));
        }
    }
    Ok(())
}

fn check_ports(side: &str, ports: &[Port]) -> Result<(), Breach> {
    let mut names = BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        let name = port.name();
        if name.is_empty() || !names.insert(name) {
            return Err(Breach::Name { place: format!("{side} {at}"), name });
        }
        let is_last = at + 1 == ports.len();
        check_port(port, is_last).map_err(Breach::in_entry(format!("{side} {name:?}")))?;
    }
    Ok(())
}

fn check_port(port: &Port, is_last: bool) -> Result<(), Breach> {
    raw(port, "Port")?;
    check_types(port.types())?;
    if port.has_unknown_flags() {
        return Err(Breach::Flags);
    }
    if port.is_repeated() && !is_last {
        return Err(Breach::Repeated);
    }
    for on_core in port.core_types() {
        check_core(on_core.core())?;
        check_types(on_core.types()).map_err(Breach::in_entry(format!("on {}", on_core.core())))?;
    }
    Ok(())
}

fn check_types(set: TypeSet) -> Result<(), Breach> {
    if set.is_empty() {
        return Err(Breach::NoTypes);
    }
    let known = TypeSet::from_bits(set.bits());
    if known != set || known.and(types::STR) != TypeSet::EMPTY {
        return Err(Breach::Types(set.bits()));
    }
    Ok(())
}

fn check_param(param: &Param) -> Result<(), Breach> {
    raw(param, "Param")?;
    let kind = param.kind().ok_or(Breach::Kind)?;
    if param.has_unknown_flags() {
        return Err(Breach::Flags);
    }
    if param.has_stray_types() {
        return Err(Breach::TypesOfKind(kind));
    }
    match kind {
        ParamKind::TypedTensor => check_types(param.types())?,
        ParamKind::Graph => {}
        ParamKind::Scalar | ParamKind::Text | ParamKind::Tensor | ParamKind::Texts => {
            param.dtype().ok_or(Breach::Type)?;
        }
    }
    let fits = match param.default_value() {
        ValueKind::None => true,
        ValueKind::Int(_) | ValueKind::Float(_) => kind == ParamKind::Scalar,
        ValueKind::Str(_) => kind == ParamKind::Text,
        ValueKind::Strs(_) => kind == ParamKind::Texts,
        ValueKind::Ints(_) | ValueKind::Floats(_) => kind == ParamKind::Tensor,
    };
    if fits { Ok(()) } else { Err(Breach::Default(kind)) }
}

/// Only the runtime can run subgraphs, so operators of packages cannot have any.
fn check_graphs(package: &str, op: &OpDef) -> Result<(), Breach> {
    if package == super::BUILT_IN {
        return Ok(());
    }
    let mut params = op.schema().params().iter();
    if let Some(param) = params.find(|param| param.kind() == Some(ParamKind::Graph)) {
        let name = param.name();
        return Err(Breach::in_entry(format!("parameter {name:?}"))(Breach::Graph));
    }
    if op.schema().known_facts().has_any(Facts::CONTROL) {
        return Err(Breach::Control);
    }
    Ok(())
}

fn check_core(core: Core) -> Result<(), Breach> {
    let kind = core.kind().ok_or(Breach::Core(core))?;
    match (kind.has_archs(), core.arch()) {
        (true, 0) => Err(Breach::NoArch(kind)),
        (false, 1..) => Err(Breach::Arch { core }),
        _ => Ok(()),
    }
}

fn check_kernel(kernel: &KernelDef, ops: &OperatorIndex<'_>) -> Result<(), Breach> {
    check_core(kernel.core())?;
    if kernel.has_unknown_cost() {
        return Err(Breach::Cost);
    }
    let is_gpu = kernel.is_gpu();
    let is_pitched = kernel.port_rules().iter().any(PortRule::takes_pitched);
    if is_gpu && (is_pitched || !kernel.in_place_pairs().is_empty()) {
        return Err(Breach::Gpu);
    }
    let schema = ops.find_for(kernel)?.schema();
    for rule in kernel.port_rules() {
        check_rule(rule, schema)?;
    }
    for pair in kernel.in_place_pairs() {
        let (input, output) = (usize::from(pair.input), usize::from(pair.output));
        if schema.input(input).is_none() || schema.output(output).is_none() {
            return Err(Breach::InPlace { input, output });
        }
    }
    Ok(())
}

/// Operators by name. Reading a name from a table validates it, so they are read once.
pub(crate) struct OperatorIndex<'a>(HashMap<&'static str, Vec<&'a OpDef>>);

impl<'a> OperatorIndex<'a> {
    /// Indexes operators.
    pub(crate) fn new(ops: &'a [OpDef]) -> Self {
        let mut named: HashMap<_, Vec<_>> = HashMap::with_capacity(ops.len());
        for op in ops {
            named.entry(op.schema().name()).or_default().push(op);
        }
        Self(named)
    }

    /// Returns the operator that `kernel` implements, by its domain, or by its name if that is
    /// unique.
    pub(crate) fn find_for(&self, kernel: &KernelDef) -> Result<&'a OpDef, NotDescribed> {
        let domain = kernel.domain();
        let named = self.0.get(kernel.op()).map_or(&[][..], Vec::as_slice);
        if let Some(op) = named.iter().find(|op| op.schema().domain() == domain) {
            return Ok(op);
        }
        match named {
            [op] if domain.is_empty() => Ok(op),
            [] => Err(NotDescribed::Name),
            [_, _, ..] if domain.is_empty() => {
                let domains = named.iter().map(|op| op.schema().domain());
                Err(NotDescribed::NoDomain(domains.collect()))
            }
            _ => Err(NotDescribed::Domain(domain)),
        }
    }
}

fn check_rule(rule: &PortRule, schema: &OpSchema) -> Result<(), Breach> {
    let port = rule.port();
    let (side, declared) = match rule.side() {
        Some(Side::Input) => ("input", schema.input(port)),
        Some(Side::Output) => ("output", schema.output(port)),
        None => return Err(Breach::RuleSide),
    };
    let Some(declared) = declared else {
        return Err(Breach::RulePort { side, port });
    };
    if rule.has_unknown_parts() {
        return Err(Breach::RuleParts { side, port });
    }
    if rule.is_channels_last() && declared.rank4_layout() != udo_api::Layout::AsGiven {
        return Err(Breach::RuleLayout { side, port });
    }
    match rule.wanted() {
        Wanted::Types(set) => {
            check_types(set).map_err(Breach::in_entry(format!("the rule for {side} {port}")))
        }
        Wanted::SameAsInput(other) if schema.input(other).is_none() => {
            Err(Breach::RuleInput { side, port, other })
        }
        Wanted::SameAsInput(other) if side == "input" && other >= port => {
            Err(Breach::RuleOrder { port, other })
        }
        Wanted::AsDeclared | Wanted::SameAsInput(_) => Ok(()),
    }
}

fn check_library(library: &LibraryRef) -> Result<(), Breach> {
    check_core(library.core())?;
    if !is_inside(library.file()) {
        return Err(Breach::Outside);
    }
    Ok(())
}
