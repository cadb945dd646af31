//! Inputs that a run may leave out, because the model has a default for them.

use std::collections::BTreeSet;

use super::{Graph, GraphError, GraphNode, GraphValue, Source, TensorType, ValueId, admits};

/// An input that the model has a default for: a constant of the graph, until [`promote_defaults`] makes an input of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultInput {
    /// The constant.
    pub value: ValueId,
    /// The type of the input that may replace the constant.
    pub of: TensorType,
    /// How many of [`Graph::inputs`] stand before it in the model's order.
    pub before: usize,
}

/// Turns the defaults with these names into inputs; other names are ignored.
pub fn promote_defaults(graph: &mut Graph, names: &BTreeSet<String>) {
    let mut promoted = 0;
    for mut default in std::mem::take(&mut graph.defaults) {
        default.before += promoted;
        let value = graph.values.get_mut(default.value.index());
        let Some(value) = value.filter(|value| names.contains(&value.name)) else {
            graph.defaults.push(default);
            continue;
        };
        value.source = Source::Input(default.of);
        graph.inputs.insert(default.before.min(graph.inputs.len()), default.value);
        promoted += 1;
    }
}

impl<N: GraphNode, V: GraphValue> Graph<N, V> {
    /// Checks that each default is a constant of its input's type, and stands at a place of its own among the inputs.
    pub(super) fn verify_defaults(&self) -> Result<(), GraphError> {
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for &input in &self.inputs {
            names.insert(&self.value_at(input, || "an input".to_owned())?.value().name);
        }
        let mut least = 0;
        for (index, DefaultInput { value: id, of, before }) in self.defaults.iter().enumerate() {
            let value = self.value_at(*id, || format!("default {index}"))?.value();
            let wrong = |found: String| GraphError::Default { value: value.name.clone(), found };
            match &value.source {
                Source::Constant(tensor) if admits(of, tensor.desc()) => {}
                Source::Constant(tensor) => {
                    let own = tensor.desc();
                    return Err(wrong(format!("is {own} for an input of {of}")));
                }
                Source::Input(_) | Source::Computed | Source::Outer => {
                    return Err(wrong("is not a constant".to_owned()));
                }
            }
            if !names.insert(&value.name) {
                return Err(wrong("has the name of another input".to_owned()));
            }
            if !(least..=self.inputs.len()).contains(before) {
                let (count, before) = (self.inputs.len(), *before);
                return Err(wrong(format!("stands behind {before} of {count} inputs")));
            }
            least = *before;
        }
        Ok(())
    }
}
