//! Verifies the invariants of graphs. Importers call it on every graph, and edits after every change.

use std::collections::HashSet;

use super::{
    Capture, Graph, GraphError, GraphNode, GraphValue, MAX_DEPTH, Node, PerValue, Read, Source,
    Subgraph, ValueId,
};
use crate::graph::NodeReads;

impl<N: GraphNode, V: GraphValue> Graph<N, V> {
    /// Checks the graph and its subgraphs:
    ///
    /// * All ids are in range.
    /// * Every value in use has one producer, and is produced before it is read.
    /// * The names of inputs are unique, and so are those of outputs, except for outputs of subgraphs.
    /// * Subgraphs are nested at most 16 deep.
    ///
    /// # Errors
    /// Returns the first violation.
    pub fn verify(&self) -> Result<(), GraphError> {
        self.verify_at(0)
    }

    /// Checks a graph at this nesting depth.
    fn verify_at(&self, depth: usize) -> Result<(), GraphError> {
        self.verify_lists(depth)?;
        self.verify_defaults()?;
        let mut produced = PerValue::filled(self, false);
        for node in self.nodes.iter().map(N::node) {
            self.verify_reads(node, &produced)?;
            for Subgraph { attribute, index, graph } in node.subgraphs() {
                let verified = if depth < MAX_DEPTH {
                    graph.verify_at(depth + 1)
                } else {
                    Err(GraphError::TooDeep { place: String::new() })
                };
                verified.map_err(|error| error.inside(&node.name, attribute, index))?;
            }
            self.verify_produces(node, &mut produced)?;
        }
        self.verify_outputs(depth, &produced)
    }

    /// Checks that the lists of inputs and captures agree with the sources of values.
    fn verify_lists(&self, depth: usize) -> Result<(), GraphError> {
        let mut listed = PerValue::filled(self, Listed::Nowhere);
        let mut names = HashSet::new();
        for (index, &id) in self.inputs.iter().enumerate() {
            let value = self.value_at(id, || format!("input {index}"))?.value();
            if !names.insert(&value.name) {
                let name = value.name.clone();
                return Err(GraphError::SameName { kind: "inputs", name });
            }
            listed.set(id, Listed::Input);
        }
        for (index, &Capture { inner, .. }) in self.captures.iter().enumerate() {
            let value = self.value_at(inner, || format!("capture {index}"))?.value();
            if listed.get(inner) != Some(&Listed::Nowhere) {
                let value = value.name.clone();
                return Err(GraphError::List { value, found: "is captured and listed before" });
            }
            listed.set(inner, Listed::Capture);
        }
        for ((_, listed), value) in listed.iter().zip(&self.values) {
            let value = value.value();
            if let Some(found) = listed.misfit(&value.source, depth) {
                return Err(GraphError::List { value: value.name.clone(), found });
            }
        }
        Ok(())
    }

    /// Checks that the values that a node reads are produced before. `produced` marks the outputs of earlier nodes.
    fn verify_reads(&self, node: &Node, produced: &PerValue<bool>) -> Result<(), GraphError> {
        for (read, id) in node.reads() {
            let place = || match read {
                Read::Input(port) => format!("node {:?} input {port}", node.name),
                Read::Capture => format!("a capture of node {:?}", node.name),
            };
            let value = self.value_at(id, place)?.value();
            if !matches!(value.source, Source::Computed) || produced.get(id) == Some(&true) {
                continue;
            }
            let name = value.name.clone();
            return Err(match self.first_producer(id) {
                Some(_) => GraphError::OutOfOrder { node: node.name.clone(), value: name },
                None => GraphError::NoProducer { place: place(), value: name },
            });
        }
        Ok(())
    }

    /// Checks that the outputs of a node have no other producer, and marks them as produced.
    fn verify_produces(
        &self,
        node: &Node,
        produced: &mut PerValue<bool>,
    ) -> Result<(), GraphError> {
        for (port, output) in node.outputs.iter().enumerate() {
            let &Some(output) = output else { continue };
            let place = || format!("node {:?} output {port}", node.name);
            let value = self.value_at(output, place)?.value();
            let first = match (&value.source, produced.get(output)) {
                (Source::Input(_), _) => "the caller".to_owned(),
                (Source::Constant(_), _) => "the model".to_owned(),
                (Source::Outer, _) => "the outer graph".to_owned(),
                (Source::Computed, Some(true)) => {
                    let first = self.first_producer(output);
                    first.map_or_else(String::new, |n| format!("node {:?}", n.name))
                }
                (Source::Computed, Some(false) | None) => {
                    produced.set(output, true);
                    continue;
                }
            };
            let (value, node) = (value.name.clone(), node.name.clone());
            return Err(GraphError::TwoProducers { value, node, first });
        }
        Ok(())
    }

    fn first_producer(&self, value: ValueId) -> Option<&Node> {
        self.nodes.iter().map(N::node).find(|n| n.outputs.contains(&Some(value)))
    }

    fn verify_outputs(&self, depth: usize, produced: &PerValue<bool>) -> Result<(), GraphError> {
        let mut names = HashSet::new();
        for (index, &id) in self.outputs.iter().enumerate() {
            let place = || format!("output {index}");
            let value = self.value_at(id, place)?.value();
            if depth == 0 && !names.insert(&value.name) {
                let name = value.name.clone();
                return Err(GraphError::SameName { kind: "outputs", name });
            }
            if matches!(value.source, Source::Computed) && produced.get(id) != Some(&true) {
                let value = value.name.clone();
                return Err(GraphError::NoProducer { place: place(), value });
            }
        }
        Ok(())
    }
}

/// Which of a graph's lists a value is in.
#[derive(Clone, Copy, PartialEq)]
enum Listed {
    Nowhere,
    Input,
    Capture,
}

impl Listed {
    /// Returns the fault of a value with this source in a graph at this nesting depth; `None` if it is valid.
    fn misfit(self, source: &Source, depth: usize) -> Option<&'static str> {
        match (self, source) {
            (Self::Input, Source::Input(_)) if depth == 0 => None,
            (Self::Input | Self::Capture, Source::Outer) if depth > 0 => None,
            (Self::Nowhere, Source::Constant(_) | Source::Computed) => None,
            (_, Source::Input(_)) if depth > 0 => Some("is a run's input in a subgraph"),
            (_, Source::Outer) if depth == 0 => {
                Some("is of an outer graph, but the graph is not a subgraph")
            }
            (Self::Nowhere, Source::Input(_)) => Some("is an input that is not listed"),
            (Self::Nowhere, Source::Outer) => Some("is of the outer graph, and is not listed"),
            (Self::Input, _) => Some("is listed as an input, but is not an input"),
            (Self::Capture, _) => Some("is listed as a capture, but is not a capture"),
        }
    }
}
