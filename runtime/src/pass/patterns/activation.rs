//! Activations that the operator before them applies when it stores its output.
//!
//! An operator with the fact `TAKES_ACTIVATION` has a text parameter `activation`, which is `None` unless this pass
//! names what to apply. The node of the activation stays, with the bytes of its input as its output.

use udo_api::{Facts, TensorDesc};

use super::{Uses, identity, is_fixed, stand_aside};
use crate::graph::Node;
use crate::registry::Registry;
use crate::resolve::{ACTIVATION, ParamSetting, Resolved};

/// Hands every activation to the node before it, where that node can apply it and nobody else reads what it
/// made without.
pub fn hand_over(resolved: &mut Resolved, fixed: &mut [Option<TensorDesc>], registry: &Registry) {
    let Some(identity) = identity(registry) else { return };
    let uses = Uses::of(&resolved.graph);
    for at in 0..resolved.bindings.len() {
        let Some((maker, name)) = taker(resolved, registry, &uses, at) else { continue };
        let set = resolved.bindings.get_mut(maker).is_some_and(|binding| {
            let none = ParamSetting::Text("None".to_owned());
            binding.params.replace(ACTIVATION, &none, ParamSetting::Text(name.to_owned()))
        });
        if set {
            stand_aside(resolved, fixed, at, &identity);
        }
    }
}

/// The node that can take over what the node at `at` does, and the name of that.
fn taker(
    resolved: &Resolved,
    registry: &Registry,
    uses: &Uses,
    at: usize,
) -> Option<(usize, &'static str)> {
    let node = resolved.graph.nodes.get(at).filter(|node| is_fixed(resolved, node))?;
    let op = |at: usize| {
        let binding = resolved.bindings.get(at)?;
        registry.is_builtin(binding.package).then(|| binding.op.schema().name())
    };
    let name = match op(at)? {
        "Relu" => "Relu",
        "Clip" => clip(resolved, node)?,
        _ => return None,
    };
    let facts = |at: usize| resolved.bindings.get(at).map(|b| b.op.schema().known_facts());
    // A join is spared where the activation writes its part, which costs no more than a pass.
    let reader = uses.only_reader(node.output(0)?);
    if reader.and_then(facts).is_some_and(|f| f.has(Facts::JOINS)) {
        return None;
    }
    let (mut reader, mut read) = (at, node.input(0)?);
    loop {
        let maker = uses.maker(read).filter(|_| uses.only_reader(read) == Some(reader))?;
        if facts(maker)?.has(Facts::TAKES_ACTIVATION) {
            return Some((maker, name));
        }
        // A node whose work another one does is not in the way.
        resolved.bindings.get(maker).filter(|binding| binding.stands_aside)?;
        (reader, read) = (maker, resolved.graph.nodes.get(maker)?.input(0)?);
    }
}

/// What a clip by constants is called, if it has a name.
fn clip(resolved: &Resolved, node: &Node) -> Option<&'static str> {
    let bound = |port: usize, open: f32| match node.input(port) {
        Some(value) => match resolved.constant(Some(value))?.get::<f32>()? {
            [bound] => Some(*bound),
            _ => None,
        },
        None => Some(open),
    };
    // Nodes of older operator sets have attributes instead, and stay as they are.
    let bare = node.attrs.is_empty();
    let bounds = [bound(1, f32::NEG_INFINITY)?, bound(2, f32::INFINITY)?];
    match bounds.map(f32::to_bits) {
        [low, high] if bare && low == 0 && high == 6f32.to_bits() => Some("Relu6"),
        [low, high] if bare && low == 0 && high == f32::INFINITY.to_bits() => Some("Relu"),
        _ => None,
    }
}
