//! Placement constraints of nodes: a preferred core, and excluded cores. Cost-based placement and the minimum size of
//! subnets set them; the next attempt at placing the graph observes them.

use udo_api::Core;

use super::CoreRefusal;
use udo_graph::graph::NodeId;

/// The constraint of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct Constraint {
    /// The core that is tried first.
    pub(super) preferred: Option<Core>,
    /// The excluded cores, with reasons.
    pub(super) excluded: Vec<CoreRefusal>,
}

/// The constraints of all nodes of a graph.
#[derive(Clone, Debug)]
pub(super) struct Constraints(Vec<Constraint>);

impl Constraints {
    /// Returns no constraints for a graph of `nodes` nodes.
    pub(super) fn none(nodes: usize) -> Self {
        Self(vec![Constraint::default(); nodes])
    }

    pub(super) fn get(&self, node: NodeId) -> Option<&Constraint> {
        self.0.get(node.index())
    }

    /// Prefers `core` for a node; `excluded` states why the others are not used.
    pub(super) fn prefer(&mut self, node: NodeId, core: Core, excluded: Vec<CoreRefusal>) {
        if let Some(constraint) = self.0.get_mut(node.index()) {
            *constraint = Constraint { preferred: Some(core), excluded };
        }
    }

    /// Does the same as [`Constraints::prefer`], unless `core` is excluded; returns whether this changes anything.
    pub(super) fn prefer_if_allowed(
        &mut self,
        node: NodeId,
        core: Core,
        excluded: Vec<CoreRefusal>,
    ) -> bool {
        let is_free = |constraint: &&mut Constraint| {
            constraint.preferred != Some(core)
                && !constraint.excluded.iter().any(|refusal| refusal.core == core)
        };
        self.0.get_mut(node.index()).filter(is_free).is_some_and(|constraint| {
            let known: Vec<Core> = constraint.excluded.iter().map(|refusal| refusal.core).collect();
            constraint.preferred = Some(core);
            constraint
                .excluded
                .extend(excluded.into_iter().filter(|refusal| !known.contains(&refusal.core)));
            true
        })
    }

    /// Excludes `core` for a node unless no other core accepts it; returns whether this is new.
    pub(super) fn refuse(&mut self, node: NodeId, core: Core, reason: &str) -> bool {
        let constraint = self.0.get_mut(node.index());
        let constraint = constraint
            .filter(|constraint| !constraint.excluded.iter().any(|refusal| refusal.core == core));
        constraint.is_some_and(|constraint| {
            constraint.excluded.push(CoreRefusal { core, reason: reason.to_owned() });
            true
        })
    }
}
