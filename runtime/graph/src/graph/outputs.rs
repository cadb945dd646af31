//! Additional outputs of a graph, by the names of values or nodes: for looking at intermediate results.

use super::{Graph, GraphNode, GraphValue, PerValue, ValueId};

/// The error for a name of a requested output that no node has and no node produces.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} is to be an output, and the model has no node called so and none that makes a value called so"
)]
pub struct NoSuchValue {
    /// The name.
    pub name: String,
}

/// Returns the value called `name`, or else all outputs of the node called `name`.
pub fn values_named<N: GraphNode, V: GraphValue>(
    graph: &Graph<N, V>,
    name: &str,
) -> Option<Vec<ValueId>> {
    if let Some(value) = graph.value_named(name) {
        return Some(vec![value]);
    }
    let node = graph.nodes.iter().find(|node| node.node().name == name)?;
    Some(node.node().outputs.iter().flatten().copied().collect())
}

impl<N: GraphNode, V: GraphValue> Graph<N, V> {
    /// Adds outputs by the names of values or nodes. A node's name adds all its outputs. Values that are outputs already
    /// are not added again.
    ///
    /// # Errors
    /// Fails if a name is not that of a node or of a value that a node produces. The graph does not change then.
    pub fn add_outputs(&mut self, names: &[String]) -> Result<(), NoSuchValue> {
        let mut outputs = self.outputs.clone();
        let mut has_producer = PerValue::filled(self, false);
        for value in self.nodes.iter().flat_map(|node| node.node().outputs.iter().flatten()) {
            has_producer.set(*value, true);
        }
        for name in names {
            let is_produced = |value: &ValueId| has_producer.get(*value) == Some(&true);
            let values = values_named(self, name).filter(|values| values.iter().all(is_produced));
            for value in values.ok_or_else(|| NoSuchValue { name: name.clone() })? {
                if !outputs.contains(&value) {
                    outputs.push(value);
                }
            }
        }
        self.outputs = outputs;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_values_and_nodes_add_outputs() {
        let text =
            "graph g\n  input x: f32[2]\n  h = Relu@14(x) # first\n  y = Neg@13(h)\n  output y\n";
        let names = |graph: &Graph| {
            let name = |id: &ValueId| graph.value(*id).unwrap().name.clone();
            graph.outputs.iter().map(name).collect::<Vec<_>>()
        };
        for name in ["h", "first"] {
            let mut graph = Graph::parse(text).unwrap();
            graph.add_outputs(&["y".to_owned(), name.to_owned(), name.to_owned()]).unwrap();
            assert_eq!(names(&graph), ["y", "h"]);
            graph.verify().unwrap();
        }
        for name in ["x", "z"] {
            let mut graph = Graph::parse(text).unwrap();
            let error = graph.add_outputs(&["h".to_owned(), name.to_owned()]).unwrap_err();
            assert_eq!((error.name.as_str(), names(&graph)), (name, vec!["y".to_owned()]));
        }
    }
}
