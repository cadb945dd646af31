//! Tracks open extents: those that may differ in the next plan, because they depend on the elements of a shape that was
//! computed from open dimensions.
//!
//! A plan is made for fixed extents, and its graph has constants computed from them. Such constants are open: if
//! another plan is made, they have other elements.

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
        // Infer again without the open elements: equal shapes do not depend on them.
        let mut view = self.view(node, params);
        for (constant, value) in view.constants.iter_mut().zip(&node.inputs) {
            if is_open(value) {
                *constant = None;
            }
        }
        infer(op, &view).map_or(true, |outputs| outputs != inferred)
    }
}

/// Makes every fixed dimension open, because it is unknown which of them stay the same.
pub(super) fn all(desc: &mut TensorDesc) {
    let open = |dim: Dim| match dim {
        Dim::Fixed(extent) => Dim::Open(extent),
        Dim::Open(_) | Dim::UpTo(_) => dim,
    };
    let dims: Vec<Dim> = desc.full_shape().iter().map(open).collect();
    if let Ok(shape) = Shape::from_dims(&dims) {
        *desc = desc.with_extents(shape);
    }
}
