//! Finds encodings that the user gives and the model does not use.

use std::collections::{BTreeMap, HashSet};

use super::encodings::StatedEncodings;
use super::sites::{Constant, Group};
use super::{QuantError, Quantizer};
use udo_graph::graph::{Graph, GraphValue, Links, Node, NodeId, NodeReads, Source, ValueId};

/// Collects the names of all values of a graph and its subgraphs.
fn names<'a>(graph: &'a Graph, all: &mut HashSet<&'a str>) {
    all.extend(graph.values.iter().map(|value| value.name.as_str()));
    for subgraph in graph.nodes.iter().flat_map(Node::subgraphs) {
        names(subgraph.graph, all);
    }
}

/// Refuses encodings for names that the model does not have.
pub(super) fn check<'a>(
    graph: &Graph,
    given: impl Iterator<Item = &'a str>,
) -> Result<(), QuantError> {
    let mut known = HashSet::new();
    names(graph, &mut known);
    let unknown: Vec<String> =
        given.filter(|name| !known.contains(name)).map(str::to_owned).collect();
    if unknown.is_empty() { Ok(()) } else { Err(QuantError::UnknownNames { names: unknown }) }
}

impl Quantizer {
    /// Returns the names of a value: its own, and that of the input or output of another type that it replaces.
    fn names_of(&self, id: ValueId) -> Vec<&str> {
        let name = |id: ValueId| Some(self.graph.value(id).ok()?.value().name.as_str());
        let casts = self.graph.nodes.iter().filter(|node| node.op == "Cast");
        let twins = casts.filter_map(|node| {
            let (from, to) = (node.input(0)?, node.output(0)?);
            let is_input = to == id && self.graph.inputs.contains(&from);
            let is_output = from == id && self.graph.outputs.contains(&to);
            if is_input { Some(from) } else { is_output.then_some(to) }
        });
        [id].into_iter().chain(twins).filter_map(name).collect()
    }

    /// Returns the first encoding given for a value of a group, and its name.
    pub(super) fn stated(&self, group: &Group) -> Option<(&str, &StatedEncodings)> {
        let all = [group.root].into_iter().chain(group.members.iter().copied());
        let mut names = all.flat_map(|id| self.names_of(id));
        names.find_map(|name| Some((name, self.settings.encodings.activations.get(name)?)))
    }

    /// The encodings that are given and not used.
    pub(super) fn unused(&self) -> BTreeMap<String, String> {
        let encodings = &self.settings.encodings;
        let names = encodings.names();
        if names.is_empty() {
            return BTreeMap::new();
        }
        let mut used = HashSet::new();
        for group in &self.sites.groups {
            let Some((_, chosen)) = self.stated(group) else { continue };
            let members = group.members.iter().flat_map(|&id| self.names_of(id));
            used.extend(members.filter(|name| encodings.activations.get(*name) == Some(chosen)));
        }
        for &(node, port) in self.sites.constants.keys() {
            used.extend(self.input(node, port).into_iter().flat_map(|id| self.names_of(id)));
        }
        let unused = names.into_iter().filter(|name| !used.contains(name));
        unused.map(|name| (name.to_owned(), self.why_unused(name))).collect()
    }

    fn input(&self, node: NodeId, port: usize) -> Option<ValueId> {
        self.graph.nodes.get(node.index())?.input(port)
    }

    fn why_unused(&self, name: &str) -> String {
        let consumers = self.graph.consumers();
        let is_there = |id: &ValueId| {
            self.graph.value(*id).is_ok_and(|value| value.name == name)
                && (self.graph.outputs.contains(id)
                    || consumers.get(*id).is_some_and(|readers| !readers.is_empty()))
        };
        let Some(id) = self.graph.value_ids().find(is_there) else {
            return "it is folded into another one".to_owned();
        };
        let is_bias = self.sites.constants.iter().any(|(&(node, _), constant)| match constant {
            Constant::Weights { bias: Some(port), .. } => self.input(node, *port) == Some(id),
            Constant::Weights { bias: None, .. } | Constant::Operand(_) => false,
        });
        if is_bias {
            return "biases are stored in the scale of their products".to_owned();
        }
        let group = self.sites.of.get(id).copied().flatten();
        match group.and_then(|group| self.stated(self.sites.groups.get(group)?)) {
            Some((other, _)) => format!("it shares the encoding of {other:?}, which has another one"),
            None if matches!(
                self.graph.value(id).map(|value| &value.source),
                Ok(Source::Constant(_))
            ) =>
            {
                "its consumer computes in floating point".to_owned()
            }
            None => "nothing is stored there: it lies within what is computed as one, or is read by no operator with a quantized \
                     form"
                .to_owned(),
        }
    }
}
