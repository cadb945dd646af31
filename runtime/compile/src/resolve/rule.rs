//! Combines a kernel's port rules with the operator's schema.

use udo_api::{Core, DType, KernelDef, OpSchema, PortRule, PortTypes, Side, TensorDesc, TypeSet};

/// Returns the kernel's rule for a port.
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

/// Returns the types that the kernel accepts at a port on `core`, given the types of the inputs.
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
        Some(PortTypes::Types(types)) => types,
        // An omitted input has no type.
        Some(PortTypes::SameAsInput(other)) => input(other).map_or(declared, DType::set),
        Some(PortTypes::AsDeclared) | None => declared,
    }
}

/// Returns whether a kernel with this port rule accepts the tensor's encoding.
pub(crate) fn takes_encoding(rule: Option<&PortRule>, desc: &TensorDesc) -> bool {
    desc.axis_encoding().is_none() || rule.is_some_and(PortRule::takes_per_axis)
}

/// Returns whether a port of these types accepts a tensor. f16 and bf16 tensors fit an f32 port, because they are
/// widened for the kernel.
pub(super) fn port_takes(types: TypeSet, desc: &TensorDesc) -> bool {
    let is_half = matches!(desc.dtype(), Some(DType::F16 | DType::Bf16));
    desc.is_in(types) || (is_half && types.has(DType::F32))
}
