//! Activations that the operator before them applies when it stores its output.
//!
//! An operator with the fact `TAKES_ACTIVATION` has a text parameter `activation`, which is `None` unless this pass
//! names the operator to apply. The node of the activation stays, with the bytes of its input as its output.

use udo_api::Facts;

use crate::graph::{Graph, ValueId};
use crate::registry::{Binding, ParamSetting, Params, Registry, Resolved};

/// The built-in operators that may be applied.
const ACTIVATIONS: &[&str] = &["Relu"];
/// The parameter that says which one is.
const PARAMETER: &str = "activation";

/// Hands every activation to the node before it, where that node can apply it and nobody else reads what it
/// made without.
pub fn hand_over(resolved: &mut Resolved, registry: &Registry) {
    let builtin = |package| registry.is_builtin(package);
    let Some(identity) = registry.ops_named("Identity").find(|op| builtin(op.package)) else {
        return;
    };
    let uses = Uses::of(&resolved.graph);
    for at in 0..resolved.bindings.len() {
        let Some((maker, name)) = taker(resolved, &uses, at)
            .filter(|_| resolved.bindings.get(at).is_some_and(|binding| builtin(binding.package)))
        else {
            continue;
        };
        let set = resolved.bindings.get_mut(maker).is_some_and(|binding| {
            let none = ParamSetting::Text("None".to_owned());
            binding.params.replace(PARAMETER, &none, ParamSetting::Text(name.to_owned()))
        });
        if let Some(binding) = resolved.bindings.get_mut(at).filter(|_| set) {
            let (package, op) = (identity.package, identity.def);
            *binding = Binding { package, op, params: Params::default() };
        }
    }
}

/// The node that can take over what the node at `at` does, and the name of that.
fn taker(resolved: &Resolved, uses: &Uses, at: usize) -> Option<(usize, &'static str)> {
    let node = resolved.graph.nodes.get(at)?;
    let name = ACTIVATIONS.iter().find(|&&name| name == node.op)?;
    let (x, y) = (node.input(0)?, node.output(0)?);
    let maker = uses.maker(x)?;
    let facts = |at: usize| resolved.bindings.get(at).map(|b| b.op.schema().known_facts());
    // A join is spared where the activation writes its part, which costs no more than a pass.
    let joined = uses.only_reader(y).and_then(facts).is_some_and(|f| f.has(Facts::JOINS));
    let takes = facts(maker)?.has(Facts::TAKES_ACTIVATION);
    (takes && !joined && uses.only_reader(x) == Some(at)).then_some((maker, *name))
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
