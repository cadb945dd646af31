//! Nodes of a model, chosen by the user: by id, by name or by operator.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::{Graph, Node, NodeId, PerValue, subgraphs_mut};
use crate::graph::{Links, NodeReads};

/// The selector of all nodes.
const ALL: &str = "*";

/// Nodes of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// All of them.
    All,
    /// Those with these ids.
    Ids(Vec<RangeInclusive<u32>>),
    /// Those with this name or operator.
    Named(String),
}

/// Nodes that a model does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{selector} is to choose nodes of the model, and no node has {}", .selector.expected())]
pub struct NoSuchNodes {
    /// The selector that matches no node.
    pub selector: Selector,
}

/// Why a text chooses no nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} chooses no nodes; expected ids as 0-11,177, a name, an operator, or {ALL}")]
pub struct NoSelector {
    /// The text.
    pub found: String,
}

impl Selector {
    /// Whether it chooses a node with these ids, this name and this operator.
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
        let none = || NoSelector { found: text.to_owned() };
        if text == ALL {
            return Ok(Self::All);
        }
        let are_ids = text.chars().all(|c| c.is_ascii_digit() || c == '-' || c == ',');
        if text.is_empty() || !are_ids {
            return if text.is_empty() { Err(none()) } else { Ok(Self::Named(text.to_owned())) };
        }
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = first.parse().ok()?..=last.parse().ok()?;
            (!range.is_empty()).then_some(range)
        };
        text.split(',').map(range).collect::<Option<_>>().map(Self::Ids).ok_or_else(none)
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
/// A selector other than [`Selector::All`] matches no node.
pub fn pin_nodes(graph: &mut Graph, pins: &[(Selector, u16)]) -> Result<(), NoSuchNodes> {
    for (selector, pin) in pins {
        if !pin_all(&mut graph.nodes, selector, *pin) && *selector != Selector::All {
            return Err(NoSuchNodes { selector: selector.clone() });
        }
    }
    pin_constants(graph);
    Ok(())
}

/// Pins nodes that read the model alone to what all who read theirs are pinned to, as weights are made with who uses them.
fn pin_constants(graph: &mut Graph) {
    let mut is_known = PerValue::filled(graph, false);
    for id in graph.value_ids().filter(|&id| graph.constant(id).is_some()) {
        is_known.set(id, true);
    }
    let mut computed = Vec::new();
    for id in graph.node_ids() {
        let Ok(node) = graph.node(id) else { continue };
        if node.reads().all(|(_, value)| is_known.get(value) == Some(&true)) {
            node.outputs.iter().flatten().for_each(|&value| is_known.set(value, true));
            computed.push(id);
        }
    }
    let readers = graph.consumers();
    for id in computed.into_iter().rev() {
        let pin_of = |id: &NodeId| graph.node(*id).ok().and_then(|node| node.pin);
        let Ok(node) = graph.node(id) else { continue };
        let readers = node.outputs.iter().flatten().filter_map(|&value| readers.get(value));
        let mut pins = readers.flatten().map(|(reader, _)| pin_of(reader));
        let pin = pins.next().flatten().filter(|pin| pins.all(|other| other == Some(*pin)));
        if let Some(node) = graph.nodes.get_mut(id.index()) {
            node.pin = node.pin.or(pin);
        }
    }
}

/// Pins those that are chosen, with their subgraphs; whether any was.
fn pin_all(nodes: &mut [Node], selector: &Selector, pin: u16) -> bool {
    let mut found = false;
    for node in nodes {
        let is_chosen = selector.is_of(node.origin.ids(), &node.name, &node.op);
        if is_chosen {
            node.pin = Some(pin);
        }
        found |= is_chosen;
        let inner = if is_chosen { &Selector::All } else { selector };
        for graph in subgraphs_mut(node) {
            found |= pin_all(&mut graph.nodes, inner, pin) && !is_chosen;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_choose_nodes_by_id_name_and_operator() {
        let chosen = |text: &str| {
            let selector: Selector = text.parse().unwrap();
            assert_eq!(selector.to_string(), text);
            let nodes = [(0, "a", "Conv"), (1, "b", "Relu"), (5, "b-2", "Conv")];
            let is_chosen = |(id, name, op): &(u32, &str, &str)| selector.is_of([*id], name, op);
            nodes.into_iter().filter(is_chosen).map(|(id, ..)| id).collect::<Vec<_>>()
        };
        assert_eq!(chosen("*"), [0, 1, 5]);
        assert_eq!(chosen("0-1,5"), [0, 1, 5]);
        assert_eq!(chosen("1"), [1]);
        assert_eq!(chosen("Conv"), [0, 5]);
        assert_eq!(chosen("b-2"), [5]);
        for text in ["", "3-1", "1,", "-", "4294967296"] {
            assert!(text.parse::<Selector>().is_err(), "{text}");
        }
    }
}
