//! One of two subgraphs, as a truth says.

use udo_api::{Dim, Shape, TensorDesc};

use super::body::Ends;
use super::{Control, Parent, truth};
use crate::graph::{Node, ValueId};
use crate::registry::Registry;
use crate::resolve::{Binding, ResolveError};

impl Registry {
    /// Adds the branch that is taken, where that is known, or else both.
    pub(super) fn bind_branches(
        &mut self,
        binding: &mut Binding<'_>,
        mut parent: Parent,
    ) -> Result<(), ResolveError> {
        binding.graph.check_single(&parent, 0)?;
        let condition = parent.node.input(0);
        let (first, second) = (parent.next_graph()?, parent.next_graph()?);
        let attributes = [first.0.clone(), second.0.clone()];
        if let Some(taken) = binding.graph.known(condition).and_then(truth) {
            return self.bind_taken(binding, &parent, if taken { first } else { second });
        }
        let ends = Ends::default();
        binding.graph.nodes.push(parent.part(Control::If, vec![condition], Vec::new()));
        let first = self.bind_body(binding, &parent, first, &ends)?;
        let read = read_outputs(&parent, &attributes[0], &first)?;
        binding.graph.nodes.push(parent.part(Control::Else, read, Vec::new()));
        let second = self.bind_body(binding, &parent, second, &ends)?;
        let read = read_outputs(&parent, &attributes[1], &second)?;
        for ((output, first), second) in parent.node.outputs.iter().zip(first).zip(second) {
            let Some(output) = *output else { continue };
            let descs = [first, second].map(|value| binding.graph.desc(Some(value)));
            let name = binding.graph.name_of(output);
            let desc = either(&descs).ok_or_else(|| {
                let ([first, second], [of_first, of_second]) = (&descs, &attributes);
                parent.refuse(format!(
                    "output {name:?} is {first} by {of_first:?} and {second} by {of_second:?}, wanted one type and rank"
                ))
            })?;
            if let Some(value) = binding.graph.values.get_mut(output.index()) {
                value.desc = desc;
            }
        }
        let outputs = parent.node.outputs.iter().flatten().copied().map(Some).collect();
        binding.graph.nodes.push(parent.part(Control::EndIf, read, outputs));
        Ok(())
    }

    /// Adds a branch in the place of the node: the other one need not fit.
    fn bind_taken(
        &mut self,
        binding: &mut Binding<'_>,
        parent: &Parent,
        branch: (String, crate::graph::Graph),
    ) -> Result<(), ResolveError> {
        let attribute = branch.0.clone();
        let ends = Ends { given: &[], wanted: &parent.node.outputs };
        let given = self.bind_body(binding, parent, branch, &ends)?;
        read_outputs(parent, &attribute, &given)?;
        for (port, (&output, given)) in parent.node.outputs.iter().zip(given).enumerate() {
            let Some(output) = output.filter(|&output| output != given) else { continue };
            let mut node = Node::new("Identity", 0, &[given], &[output]);
            node.name = format!("{}/{attribute}/output_{port}", parent.node.name);
            self.bind_builtin(&mut binding.graph, node)?;
        }
        Ok(())
    }
}

/// What a branch gives for the outputs that somebody wants.
fn read_outputs(
    parent: &Parent,
    attribute: &str,
    given: &[ValueId],
) -> Result<Vec<Option<ValueId>>, ResolveError> {
    let outputs = &parent.node.outputs;
    if given.len() != outputs.len() {
        let (found, wanted) = (given.len(), outputs.len());
        return Err(parent.refuse(format!(
            "its {attribute:?} has {found} outputs, wanted {wanted} as the node has"
        )));
    }
    Ok(outputs
        .iter()
        .zip(given)
        .filter_map(|(output, &given)| output.map(|_| Some(given)))
        .collect())
}

/// What describes either tensor: extents that differ are bounded.
fn either([a, b]: &[TensorDesc; 2]) -> Option<TensorDesc> {
    if a == b {
        return Some(*a);
    }
    let [of_a, of_b] = [a, b].map(TensorDesc::full_shape);
    let dims = of_a.iter().zip(of_b.iter()).map(|(a, b)| match (a.exact(), b.exact()) {
        (Some(n), Some(m)) if n == m => a,
        _ => Dim::UpTo(a.bound().max(b.bound())),
    });
    let shape = Shape::of_dims(&dims.collect::<Vec<_>>()).ok()?;
    let is_alike = a.dtype() == b.dtype() && a.rank() == b.rank() && a.encodings() == b.encodings();
    is_alike.then_some(a.with_extents(shape))
}
