//! Lists the available operators and the element types that each core supports, for `udo ops` and the documentation.

use udo_api::{Core, Side, TypeSet};

use super::port_types;
use udo_engine::operators::{OpEntry, Operators};
use udo_engine::package::OpenError;

/// An operator and the types that its kernels support.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// The operator.
    pub op: String,
    /// Its domain; empty for ONNX's own operators, and for operators that accept nodes of any domain.
    pub domain: String,
    /// The package that has it.
    pub package: String,
    /// For each requested core, the types of the operator's first input, or of its first output if it has no input;
    /// empty if the core has no kernel.
    pub types: Vec<(Core, TypeSet)>,
}

/// Lists the operators of the open packages and the built-in ones with their types on these cores, sorted by name.
///
/// # Errors
/// An implementation library cannot be opened.
pub fn coverage(operators: &Operators, cores: &[Core]) -> Result<Vec<Coverage>, OpenError> {
    let mut all = Vec::with_capacity(operators.ops().len());
    for entry in operators.ops().to_vec() {
        let types: Result<_, OpenError> =
            cores.iter().map(|&core| Ok((core, types_on(operators, &entry, core)?))).collect();
        let schema = entry.def.schema();
        all.push(Coverage {
            op: schema.name().to_owned(),
            domain: schema.domain().to_owned(),
            package: operators.package_name(entry.package).to_owned(),
            types: types?,
        });
    }
    all.sort_by(|a, b| (&a.domain, &a.op, &a.package).cmp(&(&b.domain, &b.op, &b.package)));
    Ok(all)
}

fn types_on(operators: &Operators, entry: &OpEntry, core: Core) -> Result<TypeSet, OpenError> {
    let schema = entry.def.schema();
    let side = if schema.inputs().is_empty() { Side::Output } else { Side::Input };
    let kernels = operators.kernels_for(entry.package, core)?;
    let op_kernels = kernels.iter().filter(|kernel| std::ptr::eq(kernel.op, entry.def));
    let types = op_kernels.map(|kernel| port_types(schema, kernel.def, core, (side, 0), |_| None));
    Ok(types.fold(TypeSet::EMPTY, TypeSet::or))
}
