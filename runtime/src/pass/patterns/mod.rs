//! The passes that know operators by name.

pub mod activation;
pub mod batch_norm;
pub mod qdq;

use udo_api::TensorDesc;

use crate::graph::{Graph, Node, ValueId};
use crate::registry::Registry;
use crate::resolve::{Binding, Params, Resolved};

/// What a node is bound to whose work another one does.
fn identity(registry: &Registry) -> Option<Binding> {
    let entry = registry.ops_named("Identity").find(|op| registry.is_builtin(op.package))?;
    Some(Binding {
        package: entry.package,
        op: entry.def,
        params: Params::default(),
        stands_aside: true,
    })
}

/// Leaves a node nothing to do: its output is its first input, in the fixed-point form of the output.
fn stand_aside(
    resolved: &mut Resolved,
    fixed: &mut [Option<TensorDesc>],
    at: usize,
    identity: &Binding,
) {
    let places = resolved.graph.nodes.get_mut(at).zip(resolved.bindings.get_mut(at));
    let Some((node, binding)) = places else { return };
    node.inputs.truncate(1);
    node.outputs.truncate(1);
    *binding = identity.clone();
    let form = node.output(0).and_then(|y| fixed.get(y.index()).copied().flatten());
    if let Some(slot) = node.input(0).and_then(|x| fixed.get_mut(x.index())) {
        *slot = form;
    }
}

/// Whether the shape of a node's output is known before any run.
fn is_fixed(resolved: &Resolved, node: &Node) -> bool {
    resolved.desc(node.output(0)).full_shape().is_fixed()
}

/// Who makes and who reads each value.
struct Uses {
    makers: Vec<Option<usize>>,
    /// Nothing where there is another number of them than one.
    readers: Vec<Option<usize>>,
}

impl Uses {
    fn of(graph: &Graph) -> Self {
        let count = graph.values.len();
        let (mut makers, mut readers) = (vec![None; count], vec![Vec::new(); count]);
        for (at, node) in graph.nodes.iter().enumerate() {
            if let Some(maker) = node.output(0).and_then(|v| makers.get_mut(v.index())) {
                *maker = Some(at);
            }
            for value in node.inputs.iter().flatten() {
                if let Some(readers) = readers.get_mut(value.index()) {
                    readers.push(Some(at));
                }
            }
        }
        // The caller reads outputs.
        for value in &graph.outputs {
            if let Some(readers) = readers.get_mut(value.index()) {
                readers.push(None);
            }
        }
        let only = |readers: Vec<Option<usize>>| match readers[..] {
            [reader] => reader,
            _ => None,
        };
        Self { makers, readers: readers.into_iter().map(only).collect() }
    }

    /// The node whose first output the value is.
    fn maker(&self, value: ValueId) -> Option<usize> {
        self.makers.get(value.index()).copied().flatten()
    }

    fn only_reader(&self, value: ValueId) -> Option<usize> {
        self.readers.get(value.index()).copied().flatten()
    }
}
