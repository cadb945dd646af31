//! Whether kernels take a node before anything is placed.

use std::ptr;

use udo_api::{Core, KernelDef, PortRule, Side, TensorDesc};

use super::{BoundNode, TypedGraph, port_rule, port_types, takes_encoding};
use crate::graph::ValueId;
use crate::registry::{KernelEntry, Registry};

impl Registry {
    /// The kernels of `core` for a node's operator; none where their library is not there.
    pub(super) fn kernels_of(&mut self, bound: &BoundNode, core: Core) -> Vec<KernelEntry> {
        let kernels = self.kernels_for(bound.package, core).unwrap_or_default();
        kernels.iter().filter(|entry| ptr::eq(entry.op, bound.op)).copied().collect()
    }
}

impl TypedGraph {
    /// Whether a kernel of `core` takes a node's tensors as they are.
    pub(super) fn fits(&self, bound: &BoundNode, kernel: &KernelDef, core: Core) -> bool {
        let descs = |values: &[Option<ValueId>]| -> Vec<TensorDesc> {
            values.iter().map(|&value| self.desc(value)).collect()
        };
        let (inputs, outputs) = (descs(&bound.node.inputs), descs(&bound.node.outputs));
        let schema = bound.op.schema();
        let takes = |side: Side, descs: &[TensorDesc]| {
            let mut descs = descs.iter().enumerate().filter(|(_, desc)| !desc.is_absent());
            descs.all(|(index, desc)| {
                let rule = port_rule(schema, kernel, side, index);
                let is_fixed = desc.full_shape().is_fixed();
                let dtype = |port: usize| inputs.get(port).and_then(TensorDesc::dtype);
                desc.is_in(port_types(schema, kernel, core, (side, index), dtype))
                    && !rule.is_some_and(PortRule::is_channels_last)
                    && (is_fixed || rule.is_some_and(PortRule::takes_bounded))
                    && takes_encoding(rule, desc)
            })
        };
        takes(Side::Input, &inputs) && takes(Side::Output, &outputs)
    }
}
