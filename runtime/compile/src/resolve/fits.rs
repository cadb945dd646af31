//! Checks whether a kernel accepts a node, before placement. A node with bounded extents (known only up to a maximum)
//! that no kernel accepts is deferred: it is planned during the run, when the extents are known.

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
    let deferral = |reason: String| graph.want_extents(&bound.node, reason);
    if deferral(String::new()).is_none() {
        return Ok(());
    }
    let kernels = kernels_of(compiler.operators, bound, Core::CPU);
    let fits =
        |bounded| move |entry: &&KernelEntry| graph.fits_as(bound, entry.def, Core::CPU, bounded);
    let mut reason = None;
    for entry in kernels.iter().filter(fits(Bounded::Checked)) {
        let call = call(compiler.operators, bound, "finalize");
        let finalized =
            exit_guard::with_record(&call, || finalize(entry.def, &graph.placed(bound), host()));
        match finalized {
            Ok(_) => return Ok(()),
            Err(refusal) => reason = Some(refusal.to_string()),
        }
    }
    // If no kernel accepts fixed extents either, placement reports the reason.
    let fits_fixed = kernels.iter().any(|entry| fits(Bounded::AsFixed)(&entry));
    let reason = reason.unwrap_or_else(|| "no kernel supports bounded extents".to_owned());
    deferral(reason).filter(|_| fits_fixed).map_or(Ok(()), Err)
}

/// How bounded tensors are compared with a kernel's ports.
#[derive(Clone, Copy)]
enum Bounded {
    /// The port must support bounded extents.
    Checked,
    /// The extents count as fixed.
    AsFixed,
}

impl TypedGraph {
    /// Returns whether a kernel of `core` accepts a node's tensors.
    pub(super) fn fits(&self, bound: &BoundNode, kernel: &KernelDef, core: Core) -> bool {
        self.fits_as(bound, kernel, core, Bounded::Checked)
    }

    fn fits_as(&self, bound: &BoundNode, kernel: &KernelDef, core: Core, bounded: Bounded) -> bool {
        let descs = |values: &[Option<ValueId>]| -> Vec<TensorDesc> {
            values.iter().map(|&value| self.desc(value)).collect()
        };
        let (inputs, outputs) = (descs(&bound.node.inputs), descs(&bound.node.outputs));
        let schema = bound.op.schema();
        let accepts = |side: Side, descs: &[TensorDesc]| {
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
        accepts(Side::Input, &inputs) && accepts(Side::Output, &outputs)
    }
}
