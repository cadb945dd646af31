//! What is asked of nodes besides the cores that the model is for: which of them runs a node first of all, and which does not.

use udo_api::Core;

use super::CoreRefusal;
use udo_graph::graph::NodeId;

/// What is asked of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct Wish {
    /// The core that is asked first.
    pub(super) first: Option<Core>,
    /// Cores that are not asked, and why.
    pub(super) not: Vec<CoreRefusal>,
}

/// What is asked of each node of a graph.
#[derive(Clone, Debug)]
pub(super) struct Wishes(Vec<Wish>);

impl Wishes {
    /// Nothing.
    pub(super) fn nothing(nodes: usize) -> Self {
        Self(vec![Wish::default(); nodes])
    }

    pub(super) fn of(&self, node: NodeId) -> Option<&Wish> {
        self.0.get(node.index())
    }

    /// Has a node run on `core`, if that takes it, and says why on none of the others.
    pub(super) fn prefer(&mut self, node: NodeId, core: Core, not: Vec<CoreRefusal>) {
        if let Some(wish) = self.0.get_mut(node.index()) {
            *wish = Wish { first: Some(core), not };
        }
    }

    /// As [`Wishes::prefer`], unless something is said against `core`; whether that is new.
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

    /// Has a node not run on `core`, if another one takes it; whether that is new.
    pub(super) fn refuse(&mut self, node: NodeId, core: Core, reason: &str) -> bool {
        let wish = self.0.get_mut(node.index());
        let wish = wish.filter(|wish| !wish.not.iter().any(|not| not.core == core));
        wish.is_some_and(|wish| {
            wish.not.push(CoreRefusal { core, reason: reason.to_owned() });
            true
        })
    }
}
