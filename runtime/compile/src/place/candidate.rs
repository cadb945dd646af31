//! A node that is being placed, with everything that its placement depends on.

use udo_api::Core;
use udo_graph::graph::Node;

use super::constraints::Constraint;
use super::layers::Layers;
use super::{PlaceOptions, PlacedKernel, Produced};
use crate::resolve::{BoundNode, TypedGraph};

/// A node that is being placed.
pub(super) struct PlaceCandidate<'a> {
    pub(super) graph: &'a TypedGraph,
    /// The cores and formats of the values that are computed before this node.
    pub(super) produced: &'a Produced,
    pub(super) node: &'a Node,
    pub(super) bound: &'a BoundNode,
    pub(super) options: &'a PlaceOptions,
    pub(super) threads: usize,
    /// The cores that nodes are pinned to, indexed by pin.
    pub(super) pinned: &'a [Core],
    /// Its placement constraint.
    pub(super) constraint: Option<&'a Constraint>,
    /// The layers of the original model, if device limits are enabled.
    pub(super) layers: &'a Layers,
    /// The price of a byte of packed constants; see the module `price`.
    pub(super) price: u32,
}

/// An accepting kernel, and the number of epilogue steps that it does.
pub(super) type Accepted = (PlacedKernel, usize);
