//! The origin of nodes: passes of the compiler merge and replace nodes, and each new node records which nodes of the
//! imported model it computes.

use std::collections::VecDeque;
use std::fmt;

use super::{Graph, Node, subgraphs_mut};

/// The ids, in ascending order, of the nodes of the imported model that a node computes.
///
/// The ids do not change when nodes move. A model file records them; other models get them from [`number_nodes`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// `None` if unknown. Most nodes have one id, which needs no list.
    first: Option<u32>,
    others: VecDeque<u32>,
}

impl Origin {
    /// Creates the origin of a node of the model.
    pub(crate) fn single(id: u32) -> Self {
        Self { first: Some(id), others: VecDeque::new() }
    }

    /// Whether it is known.
    pub fn is_known(&self) -> bool {
        self.first.is_some()
    }

    /// The ids, in order.
    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.first.into_iter().chain(self.others.iter().copied())
    }

    /// Adds the nodes of another one.
    ///
    /// Fusions add one node after the other to a chain, which may have 100,000: what follows or precedes all ids is added in place.
    pub fn add(&mut self, other: &Self) {
        let (Some((first, last)), Some((other_first, other_last))) = (self.ends(), other.ends())
        else {
            if !self.is_known() {
                self.clone_from(other);
            }
            return;
        };
        if other_first > last {
            self.others.extend(other.ids());
        } else if other_last < first {
            self.others.push_front(first);
            other.others.iter().rev().for_each(|id| self.others.push_front(*id));
            self.first = Some(other_first);
        } else {
            *self = self.ids().chain(other.ids()).collect();
        }
    }

    /// Returns the smallest and the largest id.
    fn ends(&self) -> Option<(u32, u32)> {
        let first = self.first?;
        Some((first, self.others.back().copied().unwrap_or(first)))
    }
}

impl FromIterator<u32> for Origin {
    fn from_iter<T: IntoIterator<Item = u32>>(ids: T) -> Self {
        let mut ids: Vec<u32> = ids.into_iter().collect();
        ids.sort_unstable();
        ids.dedup();
        let mut ids = ids.into_iter();
        Self { first: ids.next(), others: ids.collect() }
    }
}

impl fmt::Display for Origin {
    /// Ranges: `3`, or `3-5,9`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ids = self.ids().peekable();
        let mut comma = "";
        while let Some(first) = ids.next() {
            let mut last = first;
            while let Some(next) = ids.next_if(|id| last.checked_add(1) == Some(*id)) {
                last = next;
            }
            if last == first {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

/// Numbers the nodes of a graph in order, unless the model numbers them itself. The nodes of a subgraph follow their node.
pub fn number_nodes(graph: &mut Graph) {
    if graph.nodes.iter().any(|node| node.origin.is_known()) {
        return;
    }
    number(&mut graph.nodes, &mut 0);
}

/// Gives nodes and those of their subgraphs the ids from `next` on.
fn number(nodes: &mut [Node], next: &mut u32) {
    for node in nodes {
        node.origin = Origin::single(*next);
        *next = next.saturating_add(1);
        for graph in subgraphs_mut(node) {
            number(&mut graph.nodes, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_sorted_and_printed_as_ranges() {
        let mut origin = Origin::default();
        assert_eq!((origin.is_known(), origin.to_string().as_str()), (false, ""));
        for id in [5, 3, 9, 4, 3, u32::MAX] {
            origin.add(&Origin::single(id));
        }
        assert_eq!(origin.ids().collect::<Vec<_>>(), [3, 4, 5, 9, u32::MAX]);
        let lists: [&[u32]; 6] = [&[], &[4], &[5, 7], &[1, 3], &[8, 9], &[2, 7, 8]];
        for a in lists {
            for b in lists {
                let mut origin: Origin = a.iter().copied().collect();
                origin.add(&b.iter().copied().collect());
                let all: Origin = a.iter().chain(b).copied().collect();
                assert_eq!(origin, all, "{a:?} and {b:?}");
            }
        }
        assert_eq!(origin.to_string(), "3-5,9,4294967295");
    }

    #[test]
    fn nodes_of_a_model_without_ids_are_numbered_in_order() {
        let mut graph: Graph = Graph::new("net");
        for name in ["a", "b"] {
            graph.add_node(Node { name: name.to_owned(), ..Node::new("Relu", 17, &[], &[]) });
        }
        let numbered = |graph: &mut Graph| {
            number_nodes(graph);
            graph.nodes.iter().map(|node| node.origin.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(numbered(&mut graph), ["0", "1"]);
        graph.nodes[0].origin = Origin::single(7);
        graph.nodes[1].origin = Origin::default();
        assert_eq!(numbered(&mut graph), ["7", ""], "an inserted node has no origin");
    }
}
