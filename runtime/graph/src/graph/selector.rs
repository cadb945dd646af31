//! Selectors: the user's choice of nodes by id, name or operator, to pin them to a core.
//!
//! A pin is the number of the user's rule that assigns a node to a core; see [`Node::pin`].

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::{Graph, Node, NodeId, PerValue, subgraphs_mut};
use crate::graph::{Links, NodeReads};

/// The selector of all nodes.
const ALL: &str = "*";

/// A choice of nodes of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// All nodes.
    All,
    /// The nodes with ids in these ranges.
    Ids(Vec<RangeInclusive<u32>>),
    /// The nodes with this name or operator.
    Named(String),
}

/// The error for a selector that matches no node of the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{selector} is to choose nodes of the model, and no node has {}", .selector.expected())]
pub struct NoSuchNodes {
    /// The selector that matches no node.
    pub selector: Selector,
}

/// The error for a text that is not a selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} chooses no nodes; expected ids as 0-11,177, a name, an operator, or {ALL}")]
pub struct NoSelector {
    /// The text.
    pub found: String,
}

impl Selector {
    /// Whether the selector matches a node with these ids, this name and this operator.
    pub fn is_of(&self, ids: impl IntoIterator<Item = u32>, name: &str, op: &str) -> bool {
        match self {
            Self::All => true,
            Self::Ids(ranges) => {
                ids.into_iter().any(|id| ranges.iter().any(|range| range.contains(&id)))
            }
            Self::Named(named) => named == name || named == op,
        }
    }

    fn expected(&self) -> &'static str {
        match self {
            Self::Ids(_) => "such an id",
            Self::All | Self::Named(_) => "that name or operator",
        }
    }
}

impl FromStr for Selector {
    type Err = NoSelector;

    fn from_str(text: &str) -> Result<Self, NoSelector> {
        let invalid = || NoSelector { found: text.to_owned() };
        if text == ALL {
            return Ok(Self::All);
        }
        let are_ids = text.chars().all(|c| c.is_ascii_digit() || c == '-' || c == ',');
        if text.is_empty() || !are_ids {
            return if text.is_empty() { Err(invalid()) } else { Ok(Self::Named(text.to_owned())) };
        }
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = first.parse().ok()?..=last.parse().ok()?;
            (!range.is_empty()).then_some(range)
        };
        text.split(',').map(range).collect::<Option<_>>().map(Self::Ids).ok_or_else(invalid)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str(ALL),
            Self::Named(name) => f.write_str(name),
            Self::Ids(ranges) => {
                let range = |range: &RangeInclusive<u32>| match (range.start(), range.end()) {
                    (first, last) if first == last => first.to_string(),
                    (first, last) => format!("{first}-{last}"),
                };
                f.write_str(&ranges.iter().map(range).collect::<Vec<_>>().join(","))
            }
        }
    }
}

/// Sets the pin of every node that a selector matches. If several selectors match a node, the last one wins.
///
/// # Errors
/// Fails if a selector other than [`Selector::All`] matches no node.
pub fn pin_nodes(graph: &mut Graph, pins: &[(Selector, u16)]) -> Result<(), NoSuchNodes> {
    for (selector, pin) in pins {
        if !pin_all(&mut graph.nodes, selector, *pin) && *selector != Selector::All {
            return Err(NoSuchNodes { selector: selector.clone() });
        }
    }
    pin_constants(graph);
    Ok(())
}

/// Pins nodes that are computed from constants only to the pin of their consumers, if all consumers have the same. Weights
/// are then prepared for the core that uses them.
fn pin_constants(graph: &mut Graph) {
    let mut is_constant = PerValue::filled(graph, false);
    for id in graph.value_ids().filter(|&id| graph.constant(id).is_some()) {
        is_constant.set(id, true);
    }
    let mut constant_nodes = Vec::new();
    for id in graph.node_ids() {
        let Ok(node) = graph.node(id) else { continue };
        if node.reads().all(|(_, value)| is_constant.get(value) == Some(&true)) {
            node.outputs.iter().flatten().for_each(|&value| is_constant.set(value, true));
            constant_nodes.push(id);
        }
    }
    let consumers = graph.consumers();
    for id in constant_nodes.into_iter().rev() {
        let pin_of = |id: &NodeId| graph.node(*id).ok().and_then(|node| node.pin);
        let Ok(node) = graph.node(id) else { continue };
        let readers = node.outputs.iter().flatten().filter_map(|&value| consumers.get(value));
        let mut pins = readers.flatten().map(|(reader, _)| pin_of(reader));
        let pin = pins.next().flatten().filter(|pin| pins.all(|other| other == Some(*pin)));
        if let Some(node) = graph.nodes.get_mut(id.index()) {
            node.pin = node.pin.or(pin);
        }
    }
}

/// Pins the nodes that `selector` matches, with all nodes of their subgraphs. Returns whether it matches any.
fn pin_all(nodes: &mut [Node], selector: &Selector, pin: u16) -> bool {
    let mut matches_any = false;
    for node in nodes {
        let is_match = selector.is_of(node.origin.ids(), &node.name, &node.op);
        if is_match {
            node.pin = Some(pin);
        }
        matches_any |= is_match;
        let selector = if is_match { &Selector::All } else { selector };
        for graph in subgraphs_mut(node) {
            matches_any |= pin_all(&mut graph.nodes, selector, pin) && !is_match;
        }
    }
    matches_any
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_match_ids_names_and_operators() {
        let matched_ids = |text: &str| {
            let selector: Selector = text.parse().unwrap();
            assert_eq!(selector.to_string(), text);
            let nodes = [(0, "a", "Conv"), (1, "b", "Relu"), (5, "b-2", "Conv")];
            let is_match = |(id, name, op): &(u32, &str, &str)| selector.is_of([*id], name, op);
            nodes.into_iter().filter(is_match).map(|(id, ..)| id).collect::<Vec<_>>()
        };
        assert_eq!(matched_ids("*"), [0, 1, 5]);
        assert_eq!(matched_ids("0-1,5"), [0, 1, 5]);
        assert_eq!(matched_ids("1"), [1]);
        assert_eq!(matched_ids("Conv"), [0, 5]);
        assert_eq!(matched_ids("b-2"), [5]);
        for text in ["", "3-1", "1,", "-", "4294967296"] {
            assert!(text.parse::<Selector>().is_err(), "{text}");
        }
    }
}
