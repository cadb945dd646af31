//! A node that looks for its core, and all that decides about it.

use udo_api::Core;
use udo_graph::graph::Node;

use super::layers::Layers;
use super::wishes::Wish;
use super::{PlaceOptions, PlacedKernel, Produced};
use crate::resolve::{BoundNode, TypedGraph};

/// One node that looks for its core.
pub(super) struct Unplaced<'a> {
    pub(super) graph: &'a TypedGraph,
    pub(super) produced: &'a Produced,
    pub(super) node: &'a Node,
    pub(super) bound: &'a BoundNode,
    pub(super) options: &'a PlaceOptions,
    pub(super) threads: usize,
    /// The cores that nodes are pinned to, by the numbers of pins.
    pub(super) pinned: &'a [Core],
    /// What else is asked of it.
    pub(super) wish: Option<&'a Wish>,
    /// The model's own layers, where devices' limits are asked for.
    pub(super) layers: &'a Layers,
    /// What a byte of packed constants costs.
    pub(super) price: u32,
}

/// A kernel that took a node, and how many steps of its epilogue it does.
pub(super) type Taken = (PlacedKernel, usize);
