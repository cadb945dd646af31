//! Checks a package's table before anything of it is registered.

use std::collections::{BTreeSet, HashMap};

use udo_api::abi::{LAYOUTS, Layout, LibraryRef, ValueKind};
use udo_api::{
    Core, Facts, KernelDef, OpDef, OpSchema, Param, ParamKind, Port, PortRule, Side, TypeSet,
    Wanted, types,
};

use super::copy::{Tables, raw_fault};
use super::index::is_inside;

/// Refuses a table that breaks the contract; the message says which entry and why.
///
/// `ops` are the operators that its kernels may compute.
pub(super) fn check(table: &Tables, ops: &[OpDef]) -> Result<(), String> {
    if !is_identifier(table.name) {
        return Err(format!("its package name is {:?}, wanted an identifier", table.name));
    }

    let mut names = BTreeSet::new();
    for op in table.ops {
        let name = op.schema().name();
        if !is_identifier(name) {
            return Err(format!("an operator is called {name:?}, wanted an identifier"));
        }
        let domain = op.schema().domain();
        if !names.insert((domain, name)) {
            let of =
                if domain.is_empty() { String::new() } else { format!(" of domain {domain:?}") };
            return Err(format!("operator {name:?}{of} is in it twice"));
        }
        let checked = check_op(op).and_then(|()| check_graphs(table.name, op));
        checked.map_err(|reason| format!("operator {name:?}: {reason}"))?;
    }
    let ops = OwnOperators::of(ops);
    for (at, kernel) in table.kernels.iter().enumerate() {
        let name = kernel.op();
        check_kernel(kernel, &ops).map_err(|reason| format!("kernel {at} ({name:?}): {reason}"))?;
    }
    let mut files = BTreeSet::new();
    for library in table.libraries {
        let file = library.file();
        check_library(library).map_err(|reason| format!("library {file:?}: {reason}"))?;
        if !files.insert(file) {
            return Err(format!("library {file:?} is in it twice"));
        }
    }
    Ok(())
}

/// A letter or underscore, then letters, digits and underscores, all ASCII.
pub(super) fn is_identifier(name: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    name.bytes().all(is_word) && name.bytes().next().is_some_and(|b| !b.is_ascii_digit())
}

fn raw<T>(item: &T, name: &str) -> Result<(), String> {
    let layout: Option<&Layout> = LAYOUTS.iter().find(|l| l.name == name);
    match layout.map(|layout| raw_fault(item, layout)) {
        Some(None) => Ok(()),
        Some(Some(fault)) => Err(fault),
        None => Err(format!("the layout of {name} is not known")),
    }
}

fn check_op(op: &OpDef) -> Result<(), String> {
    let schema = op.schema();
    if schema.known_facts().bits() & !Facts::KNOWN.bits() != 0 {
        return Err("it states facts that this version does not know".to_owned());
    }
    check_ports("input", schema.inputs())?;
    check_ports("output", schema.outputs())?;
    if schema.outputs().is_empty() {
        return Err("it has no outputs, wanted at least one".to_owned());
    }
    let (mut names, mut attributes) = (BTreeSet::new(), BTreeSet::new());
    for param in schema.params() {
        let name = param.name();
        if name.is_empty() || !names.insert(name) {
            return Err(format!("a parameter is called {name:?}, wanted a name of its own"));
        }
        check_param(param).map_err(|reason| format!("parameter {name:?}: {reason}"))?;
        let attribute = param.attribute_name();
        if !attributes.insert(attribute) {
            return Err(format!("parameter {name:?}: attribute {attribute:?} is another one's"));
        }
    }
    Ok(())
}

fn check_ports(side: &str, ports: &[Port]) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        let name = port.name();
        if name.is_empty() || !names.insert(name) {
            return Err(format!("{side} {at} is called {name:?}, wanted a name of its own"));
        }
        let is_last = at + 1 == ports.len();
        check_port(port, is_last).map_err(|reason| format!("{side} {name:?}: {reason}"))?;
    }
    Ok(())
}

fn check_port(port: &Port, is_last: bool) -> Result<(), String> {
    raw(port, "Port")?;
    check_types(port.types())?;
    if port.has_unknown_flags() {
        return Err("it sets flags that this version does not know".to_owned());
    }
    if port.is_repeated() && !is_last {
        return Err("it is repeated, wanted that of the last port only".to_owned());
    }
    for on_core in port.core_types() {
        check_core(on_core.core())?;
        check_types(on_core.types())
            .map_err(|reason| format!("on {}: {reason}", on_core.core()))?;
    }
    Ok(())
}

fn check_types(set: TypeSet) -> Result<(), String> {
    if set.is_empty() {
        return Err("it takes no type, wanted at least one".to_owned());
    }
    let known = TypeSet::from_bits(set.bits());
    if known != set || known.and(types::STR) != TypeSet::EMPTY {
        return Err(format!("its types are {:#x}, wanted types of tensors", set.bits()));
    }
    Ok(())
}

fn check_param(param: &Param) -> Result<(), String> {
    raw(param, "Param")?;
    let Some(kind) = param.kind() else {
        let known = ParamKind::ALL.map(ParamKind::name).join(", ");
        return Err(format!("its kind is not known, wanted one of {known}"));
    };
    if param.has_unknown_flags() {
        return Err("it sets flags that this version does not know".to_owned());
    }
    if param.has_stray_types() {
        return Err(format!("it does not say types as a {} does", kind.name()));
    }
    match kind {
        ParamKind::TypedTensor => check_types(param.types())?,
        ParamKind::Graph => {}
        ParamKind::Scalar | ParamKind::Text | ParamKind::Tensor | ParamKind::Texts => {
            param.dtype().ok_or("its type is not known")?;
        }
    }
    let fits = match param.default_value() {
        ValueKind::None => true,
        ValueKind::Int(_) | ValueKind::Float(_) => kind == ParamKind::Scalar,
        ValueKind::Str(_) => kind == ParamKind::Text,
        ValueKind::Strs(_) => kind == ParamKind::Texts,
        ValueKind::Ints(_) | ValueKind::Floats(_) => kind == ParamKind::Tensor,
    };
    if fits { Ok(()) } else { Err(format!("its default does not fit its kind, {}", kind.name())) }
}

/// Only the runtime itself runs subgraphs, so that operators of packages cannot have any.
fn check_graphs(package: &str, op: &OpDef) -> Result<(), String> {
    if package == super::BUILT_IN {
        return Ok(());
    }
    let mut params = op.schema().params().iter();
    if let Some(param) = params.find(|param| param.kind() == Some(ParamKind::Graph)) {
        let name = param.name();
        return Err(format!(
            "parameter {name:?}: it is a graph, which built-in operators alone take"
        ));
    }
    if op.schema().known_facts().has_any(Facts::CONTROL) {
        return Err(
            "it states that its host runs graphs, which built-in operators alone have".to_owned()
        );
    }
    Ok(())
}

fn check_core(core: Core) -> Result<(), String> {
    let Some(kind) = core.kind() else {
        return Err(format!("its core is {core}, which is not known"));
    };
    match (kind.has_archs(), core.arch()) {
        (true, 0) => {
            let name = kind.name().to_ascii_uppercase();
            Err(format!("its core is a {name} without an architecture"))
        }
        (false, 1..) => {
            Err(format!("its core is {core} with architecture {}, wanted 0", core.arch()))
        }
        _ => Ok(()),
    }
}

fn check_kernel(kernel: &KernelDef, ops: &OwnOperators<'_>) -> Result<(), String> {
    check_core(kernel.core())?;
    if kernel.has_unknown_cost() {
        return Err("it has a cost that this version does not know".to_owned());
    }
    let is_gpu = kernel.is_gpu();
    let is_pitched = kernel.port_rules().iter().any(PortRule::takes_pitched);
    if is_gpu && (is_pitched || !kernel.in_place_pairs().is_empty()) {
        return Err("it is a GPU kernel, which works neither in place nor on rows that lie apart"
            .to_owned());
    }
    let schema = ops.computed_by(kernel)?.schema();
    for rule in kernel.port_rules() {
        check_rule(rule, schema)?;
    }
    for pair in kernel.in_place_pairs() {
        let (input, output) = (usize::from(pair.input), usize::from(pair.output));
        if schema.input(input).is_none() || schema.output(output).is_none() {
            return Err(format!(
                "it works in place from input {input} to output {output}, which the operator lacks"
            ));
        }
    }
    Ok(())
}

/// Operators by their names, which are texts to be checked each time that they are read.
pub(crate) struct OwnOperators<'a>(HashMap<&'static str, Vec<&'a OpDef>>);

impl<'a> OwnOperators<'a> {
    /// These operators.
    pub(crate) fn of(ops: &'a [OpDef]) -> Self {
        let mut named: HashMap<_, Vec<_>> = HashMap::with_capacity(ops.len());
        for op in ops {
            named.entry(op.schema().name()).or_default().push(op);
        }
        Self(named)
    }

    /// The one that `kernel` computes: by its domain, or by its name alone where that is enough.
    pub(crate) fn computed_by(&self, kernel: &KernelDef) -> Result<&'a OpDef, String> {
        let domain = kernel.domain();
        let named = self.0.get(kernel.op()).map_or(&[][..], Vec::as_slice);
        if let Some(op) = named.iter().find(|op| op.schema().domain() == domain) {
            return Ok(op);
        }
        match named {
            [op] if domain.is_empty() => Ok(op),
            [] => Err("its package describes no such operator".to_owned()),
            [_, _, ..] if domain.is_empty() => {
                let domains: Vec<&str> = named.iter().map(|op| op.schema().domain()).collect();
                Err(format!("it says no domain, wanted one of {}", domains.join(", ")))
            }
            _ => Err(format!("its package describes no such operator of domain {domain:?}")),
        }
    }
}

fn check_rule(rule: &PortRule, schema: &OpSchema) -> Result<(), String> {
    let port = rule.port();
    let (side, declared) = match rule.side() {
        Some(Side::Input) => ("input", schema.input(port)),
        Some(Side::Output) => ("output", schema.output(port)),
        None => return Err("a rule is for neither an input nor an output".to_owned()),
    };
    let Some(declared) = declared else {
        return Err(format!("a rule is for {side} {port}, which the operator lacks"));
    };
    if rule.has_unknown_parts() {
        return Err(format!("the rule for {side} {port} says what this version does not know"));
    }
    if rule.is_channels_last() && declared.rank4_layout() != udo_api::Layout::AsGiven {
        return Err(format!(
            "the rule for {side} {port} wants channels last, and its operator says a layout of its own"
        ));
    }
    match rule.wanted() {
        Wanted::Types(set) => {
            check_types(set).map_err(|reason| format!("the rule for {side} {port}: {reason}"))
        }
        Wanted::SameAsInput(other) if schema.input(other).is_none() => Err(format!(
            "the rule for {side} {port} wants the type of input {other}, which the operator lacks"
        )),
        Wanted::SameAsInput(other) if side == "input" && other >= port => Err(format!(
            "the rule for input {port} wants the type of input {other}, wanted an input before it"
        )),
        Wanted::AsDeclared | Wanted::SameAsInput(_) => Ok(()),
    }
}

fn check_library(library: &LibraryRef) -> Result<(), String> {
    check_core(library.core())?;
    if !is_inside(library.file()) {
        return Err("wanted a path inside the package's folder".to_owned());
    }
    Ok(())
}
