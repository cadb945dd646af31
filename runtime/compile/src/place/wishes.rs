//! Placement constraints of nodes: a preferred core, and excluded cores.

use udo_api::Core;

use super::CoreRefusal;
use udo_graph::graph::NodeId;

/// The constraint of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct Wish {
    /// The core that is tried first.
    pub(super) first: Option<Core>,
    /// The excluded cores, with reasons.
    pub(super) not: Vec<CoreRefusal>,
}

/// The constraints of all nodes of a graph.
#[derive(Clone, Debug)]
pub(super) struct Wishes(Vec<Wish>);

impl Wishes {
    /// Returns no constraints for a graph of `nodes` nodes.
    pub(super) fn nothing(nodes: usize) -> Self {
        Self(vec![Wish::default(); nodes])
    }

    pub(super) fn of(&self, node: NodeId) -> Option<&Wish> {
        self.0.get(node.index())
    }

    /// Prefers `core` for a node; `not` states why the others are not used.
    pub(super) fn prefer(&mut self, node: NodeId, core: Core, not: Vec<CoreRefusal>) {
        if let Some(wish) = self.0.get_mut(node.index()) {
            *wish = Wish { first: Some(core), not };
        }
    }

    /// Does the same as [`Wishes::prefer`], unless `core` is excluded; returns whether this changes anything.
    pub(super) fn seat(&mut self, node: NodeId, core: Core, not: Vec<CoreRefusal>) -> bool {
        let is_free = |wish: &&mut Wish| {
            wish.first != Some(core) && !wish.not.iter().any(|not| not.core == core)
        };
        self.0.get_mut(node.index()).filter(is_free).is_some_and(|wish| {
            let known: Vec<Core> = wish.not.iter().map(|not| not.core).collect();
            wish.first = Some(core);
            wish.not.extend(not.into_iter().filter(|not| !known.contains(&not.core)));
            true
        })
    }

    /// Excludes `core` for a node unless no other core accepts it; returns whether this is new.
    pub(super) fn refuse(&mut self, node: NodeId, core: Core, reason: &str) -> bool {
        let wish = self.0.get_mut(node.index());
        let wish = wish.filter(|wish| !wish.not.iter().any(|not| not.core == core));
        wish.is_some_and(|wish| {
            wish.not.push(CoreRefusal { core, reason: reason.to_owned() });
            true
        })
    }
}
