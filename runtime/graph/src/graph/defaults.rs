//! Inputs that a run may leave out because the model has a default for them.

use std::collections::BTreeSet;

use super::{Graph, GraphError, GraphNode, GraphValue, Source, TensorType, ValueId, admits};

/// An input with a default. In the graph it is a constant, until [`promote_defaults`] turns it into an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultInput {
    /// The constant.
    pub value: ValueId,
    /// The type of the input that may replace the constant.
    pub tensor_type: TensorType,
    /// The index at which promotion inserts it into [`Graph::inputs`]: the number of inputs before it in the model.
    pub index: usize,
}

/// Turns the defaults with these names into inputs; other names are ignored.
pub fn promote_defaults(graph: &mut Graph, names: &BTreeSet<String>) {
    let mut promoted = 0;
    for mut default in std::mem::take(&mut graph.defaults) {
        default.index += promoted;
        let value = graph.values.get_mut(default.value.index());
        let Some(value) = value.filter(|value| names.contains(&value.name)) else {
            graph.defaults.push(default);
            continue;
        };
        value.source = Source::Input(default.tensor_type);
        graph.inputs.insert(default.index.min(graph.inputs.len()), default.value);
        promoted += 1;
    }
}

impl<N: GraphNode, V: GraphValue> Graph<N, V> {
    /// Checks that each default is a constant of its input's type with a name of its own, and that the indices are in
    /// ascending order and within the inputs.
    pub(super) fn verify_defaults(&self) -> Result<(), GraphError> {
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for &input in &self.inputs {
            names.insert(&self.value_at(input, || "an input".to_owned())?.value().name);
        }
        let mut previous = 0;
        for (number, default) in self.defaults.iter().enumerate() {
            let DefaultInput { value: id, tensor_type, index } = default;
            let value = self.value_at(*id, || format!("default {number}"))?.value();
            let wrong = |found: String| GraphError::Default { value: value.name.clone(), found };
            match &value.source {
                Source::Constant(tensor) if admits(tensor_type, tensor.desc()) => {}
                Source::Constant(tensor) => {
                    let found = tensor.desc();
                    return Err(wrong(format!("is {found} for an input of {tensor_type}")));
                }
                Source::Input(_) | Source::Computed | Source::Outer => {
                    return Err(wrong("is not a constant".to_owned()));
                }
            }
            if !names.insert(&value.name) {
                return Err(wrong("has the name of another input".to_owned()));
            }
            if !(previous..=self.inputs.len()).contains(index) {
                let (count, index) = (self.inputs.len(), *index);
                return Err(wrong(format!("stands behind {index} of {count} inputs")));
            }
            previous = *index;
        }
        Ok(())
    }
}
