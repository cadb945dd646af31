//! What a kernel takes on a port: by its own rule, or as the operator's schema says.

use udo_api::{Core, DType, KernelDef, OpSchema, PortRule, Side, TensorDesc, TypeSet, Wanted};

/// What the kernel says of a port.
pub(crate) fn port_rule(
    schema: &OpSchema,
    kernel: &KernelDef,
    side: Side,
    index: usize,
) -> Option<&'static PortRule> {
    let declared = match side {
        Side::Input => schema.inputs().len(),
        Side::Output => schema.outputs().len(),
    };
    kernel.port_rule(side, index, declared)
}

/// The types that the kernel takes on a port of `core`, where its inputs have these types.
pub(crate) fn port_types(
    schema: &OpSchema,
    kernel: &KernelDef,
    core: Core,
    (side, index): (Side, usize),
    input: impl Fn(usize) -> Option<DType>,
) -> TypeSet {
    let port = match side {
        Side::Input => schema.input(index),
        Side::Output => schema.output(index),
    };
    let declared = port.map_or(TypeSet::EMPTY, |port| port.types_on(core));
    match port_rule(schema, kernel, side, index).map(PortRule::wanted) {
        Some(Wanted::Types(types)) => types,
        // An input that is left out says nothing.
        Some(Wanted::SameAsInput(other)) => input(other).map_or(declared, DType::set),
        Some(Wanted::AsDeclared) | None => declared,
    }
}

/// Whether a kernel with this rule for a port takes the encoding of a tensor there.
pub(crate) fn takes_encoding(rule: Option<&PortRule>, desc: &TensorDesc) -> bool {
    desc.axis_encoding().is_none() || rule.is_some_and(PortRule::takes_per_axis)
}

/// Whether a port of these types takes a tensor: one of halves goes where f32 does, as kernels get it so.
pub(super) fn port_takes(types: TypeSet, desc: &TensorDesc) -> bool {
    let is_half = matches!(desc.dtype(), Some(DType::F16 | DType::Bf16));
    desc.is_in(types) || (is_half && types.has(DType::F32))
}
