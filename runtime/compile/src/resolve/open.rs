//! Tracks extents that depend on the elements of computed shapes, in models with open dimensions.

use udo_api::{Dim, OpDef, Shape, TensorDesc};
use udo_host::infer;

use super::{Params, TypedGraph};
use udo_graph::graph::{Node, ValueId};

impl TypedGraph {
    /// Marks constants that may have other elements in the next plan.
    pub(super) fn set_open(&mut self, constants: &[ValueId]) {
        for constant in constants {
            if let Some(value) = self.values.get_mut(constant.index()) {
                value.is_open = true;
            }
        }
    }

    /// Returns whether the inferred output shapes depend on elements that may differ in the next plan.
    pub(super) fn shapes_are_open(
        &self,
        node: &Node,
        op: &OpDef,
        params: &Params,
        inferred: &[TensorDesc],
    ) -> bool {
        let is_open = |&value: &_| self.is_open(value);
        if !node.inputs.iter().any(is_open) {
            return false;
        }
        // The shapes without those elements, if they can be inferred.
        let mut view = self.view(node, params);
        for (constant, value) in view.constants.iter_mut().zip(&node.inputs) {
            if is_open(value) {
                *constant = None;
            }
        }
        infer(op, &view).map_or(true, |outputs| outputs != inferred)
    }
}

/// Makes every fixed dimension open: which of them stay the same cannot be told.
pub(super) fn all(desc: &mut TensorDesc) {
    let open = |dim: Dim| match dim {
        Dim::Fixed(extent) => Dim::Open(extent),
        Dim::Open(_) | Dim::UpTo(_) => dim,
    };
    let dims: Vec<Dim> = desc.full_shape().iter().map(open).collect();
    if let Ok(shape) = Shape::of_dims(&dims) {
        *desc = desc.with_extents(shape);
    }
}
