//! What every user of a graph relies on.

use std::collections::HashSet;

use super::{Graph, GraphError, GraphNode, GraphValue, Node, PerValue, Source, ValueId};

impl<N: GraphNode, V: GraphValue> Graph<N, V> {
    /// Checks that ids name something, that every value in use is made once and before it is
    /// read, and that inputs and outputs can be told apart by name.
    ///
    /// # Errors
    /// The first thing that is not so.
    pub fn verify(&self) -> Result<(), GraphError> {
        self.verify_inputs()?;
        let mut made = PerValue::filled(self, false);
        for node in &self.nodes {
            self.verify_reads(node.node(), &made)?;
            self.verify_makes(node.node(), &mut made)?;
        }
        self.verify_outputs(&made)
    }

    fn verify_inputs(&self) -> Result<(), GraphError> {
        let mut listed = PerValue::filled(self, false);
        let mut names = HashSet::new();
        for (index, &id) in self.inputs.iter().enumerate() {
            let value = self.value_at(id, || format!("input {index}"))?.value();
            if !names.insert(&value.name) {
                let name = value.name.clone();
                return Err(GraphError::SameName { kind: "inputs", name });
            }
            listed.set(id, true);
        }
        for (id, value) in self.value_ids().zip(&self.values) {
            let value = value.value();
            let is_input = matches!(value.source, Source::Input(_));
            let found = match (is_input, listed.get(id) == Some(&true)) {
                (true, false) => "is an input that is not listed",
                (false, true) => "is listed as an input, but is none",
                (true, true) | (false, false) => continue,
            };
            return Err(GraphError::InputList { value: value.name.clone(), found });
        }
        Ok(())
    }

    fn verify_reads(&self, node: &Node, made: &PerValue<bool>) -> Result<(), GraphError> {
        for (port, input) in node.inputs.iter().enumerate() {
            let &Some(input) = input else { continue };
            let place = || format!("node {:?} input {port}", node.name);
            let value = self.value_at(input, place)?.value();
            if !matches!(value.source, Source::Computed) || made.get(input) == Some(&true) {
                continue;
            }
            let name = value.name.clone();
            return Err(match self.first_producer(input) {
                Some(_) => GraphError::OutOfOrder { node: node.name.clone(), value: name },
                None => GraphError::NoProducer { place: place(), value: name },
            });
        }
        Ok(())
    }

    fn verify_makes(&self, node: &Node, made: &mut PerValue<bool>) -> Result<(), GraphError> {
        for (port, output) in node.outputs.iter().enumerate() {
            let &Some(output) = output else { continue };
            let place = || format!("node {:?} output {port}", node.name);
            let value = self.value_at(output, place)?.value();
            let first = match (&value.source, made.get(output)) {
                (Source::Input(_), _) => "the caller".to_owned(),
                (Source::Constant(_), _) => "the model".to_owned(),
                (Source::Computed, Some(true)) => {
                    let first = self.first_producer(output);
                    first.map_or_else(String::new, |n| format!("node {:?}", n.name))
                }
                (Source::Computed, Some(false) | None) => {
                    made.set(output, true);
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

    fn verify_outputs(&self, made: &PerValue<bool>) -> Result<(), GraphError> {
        let mut names = HashSet::new();
        for (index, &id) in self.outputs.iter().enumerate() {
            let place = || format!("output {index}");
            let value = self.value_at(id, place)?.value();
            if !names.insert(&value.name) {
                let name = value.name.clone();
                return Err(GraphError::SameName { kind: "outputs", name });
            }
            if matches!(value.source, Source::Computed) && made.get(id) != Some(&true) {
                let value = value.name.clone();
                return Err(GraphError::NoProducer { place: place(), value });
            }
        }
        Ok(())
    }
}
