//! Activations that the operator before them applies when it stores its output.

use udo_api::Facts;

use crate::pass::{Candidate, Change, Fusion};

/// The operator before, if it can apply the activation and nobody else reads what it makes without.
pub(in crate::pass) fn fuse(node: &Candidate<'_>) -> Option<Fusion> {
    let name = match node.op()? {
        "Relu" => "Relu",
        "Clip" => clip(node)?,
        _ => return None,
    };
    // A join is elided where the activation writes its part, which costs no more than a pass over memory.
    let joined = node.behind().is_some_and(|reader| reader.facts().has(Facts::JOINS));
    if joined || !node.makes_one_fixed() {
        return None;
    }
    let mut before = node.before(0)?;
    // A fused node is not in the way.
    while before.node().is_fused {
        before = before.before(0)?;
    }
    let takes = before.facts().has(Facts::TAKES_ACTIVATION);
    takes.then(|| before.takes(Change::Activation(name)))
}

/// What a clip by constants is called, if it has a name.
fn clip(node: &Candidate<'_>) -> Option<&'static str> {
    let bound = |port: usize, open: f32| match node.node().node.input(port) {
        Some(_) => match node.constant::<f32>(port)? {
            [bound] => Some(*bound),
            _ => None,
        },
        None => Some(open),
    };
    // Nodes of older operator sets have attributes instead, and stay as they are.
    let bare = node.node().node.attrs.is_empty();
    let bounds = [bound(1, f32::NEG_INFINITY)?, bound(2, f32::INFINITY)?];
    match bounds.map(f32::to_bits) {
        [low, high] if bare && low == 0 && high == 6f32.to_bits() => Some("Relu6"),
        [low, high] if bare && low == 0 && high == f32::INFINITY.to_bits() => Some("Relu"),
        _ => None,
    }
}
