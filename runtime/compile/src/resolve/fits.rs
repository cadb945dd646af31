//! Checks whether a kernel accepts a node, before placement.

use udo_api::{Core, KernelDef, PortRule, Side, TensorDesc};
use udo_host::finalize;

use super::kernels::{call, host, kernels_of};
use super::{BoundNode, ResolveError, TypedGraph, port_rule, port_types, takes_encoding};
use crate::compiler::Compiler;
use udo_engine::exit_guard;
use udo_engine::operators::KernelEntry;
use udo_graph::graph::ValueId;

/// Defers the last node until the extents of its inputs are known, if these are bounded and no CPU kernel accepts
/// bounded extents.
pub(super) fn check_bounded(
    compiler: &Compiler<'_>,
    graph: &TypedGraph,
) -> Result<(), ResolveError> {
    let Some(bound) = graph.nodes.last() else { return Ok(()) };
    let refuse = |reason: String| graph.want_extents(&bound.node, reason);
    if refuse(String::new()).is_none() {
        return Ok(());
    }
    let kernels = kernels_of(compiler.operators, bound, Core::CPU);
    let fits =
        |bounded| move |entry: &&KernelEntry| graph.fits_as(bound, entry.def, Core::CPU, bounded);
    let mut reason = None;
    for entry in kernels.iter().filter(fits(Bounded::AsItIs)) {
        let call = call(compiler.operators, bound, "finalize");
        let made =
            exit_guard::with_record(&call, || finalize(entry.def, &graph.placed(bound), host()));
        match made {
            Ok(_) => return Ok(()),
            Err(refusal) => reason = Some(refusal.to_string()),
        }
    }
    // If no kernel accepts fixed extents either, placement reports the reason.
    let would = kernels.iter().any(|entry| fits(Bounded::AsFixed)(&entry));
    let reason = reason.unwrap_or_else(|| "no kernel supports bounded extents".to_owned());
    refuse(reason).filter(|_| would).map_or(Ok(()), Err)
}

/// How bounded tensors are compared with a kernel's ports.
#[derive(Clone, Copy)]
enum Bounded {
    AsItIs,
    AsFixed,
}

impl TypedGraph {
    /// Returns whether a kernel of `core` accepts a node's tensors.
    pub(super) fn fits(&self, bound: &BoundNode, kernel: &KernelDef, core: Core) -> bool {
        self.fits_as(bound, kernel, core, Bounded::AsItIs)
    }

    fn fits_as(&self, bound: &BoundNode, kernel: &KernelDef, core: Core, bounded: Bounded) -> bool {
        let descs = |values: &[Option<ValueId>]| -> Vec<TensorDesc> {
            values.iter().map(|&value| self.desc(value)).collect()
        };
        let (inputs, outputs) = (descs(&bound.node.inputs), descs(&bound.node.outputs));
        let schema = bound.op.schema();
        let takes = |side: Side, descs: &[TensorDesc]| {
            let mut descs = descs.iter().enumerate().filter(|(_, desc)| !desc.is_absent());
            descs.all(|(index, desc)| {
                let rule = port_rule(schema, kernel, side, index);
                let is_fixed = matches!(bounded, Bounded::AsFixed) || desc.full_shape().is_fixed();
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
