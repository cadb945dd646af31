//! Offers elementwise nodes to the kernel that computes their operand (the host), as epilogue steps: y = f(host(x)),
//! where the host's kernel applies f before it stores its result. Placement asks the kernel how many steps it accepts.

use udo_api::{Activation, DType, Dim};

use crate::pass::{Candidate, Fusion, Host};
use crate::resolve::Step;
use udo_graph::graph::ValueId;

/// Returns the earlier node that may do this node's work, if nothing else reads the value between them.
pub(in crate::pass) fn attach(node: &Candidate<'_>) -> Option<Fusion> {
    if !node.makes_one() {
        return None;
    }
    let op = node.op()?;
    if op == "QuantizeLinear" {
        return quantize(node).filter(|_| node.makes_one_fixed());
    }
    match op {
        "Relu" => activation(node, Activation::Relu),
        "Clip" => activation(node, clip(node)?),
        "Gelu" if node.text("approximate") == Some("none") => activation(node, Activation::Gelu),
        "Swish" if node.float("alpha") == Some(1.0) => activation(node, Activation::Silu),
        "Add" => bias(node).or_else(|| residual(node)),
        "Sum" if node.node().node.inputs.len() == 2 => bias(node).or_else(|| residual(node)),
        _ => None,
    }
}

/// Matches a `QuantizeLinear` with one constant scale.
fn quantize(node: &Candidate<'_>) -> Option<Fusion> {
    let scale = node.output().encoding()?.scale;
    let is_real = node.input(0).dtype() == Some(DType::F32);
    let fits = is_real && scale.is_finite() && scale > 0.0;
    node.epilogue(node.host(0).filter(|_| fits)?, Step::Quantize)
}

fn activation(node: &Candidate<'_>, activation: Activation) -> Option<Fusion> {
    node.epilogue(node.host(0)?, Step::Activation(activation))
}

/// Converts a `Clip` with constant bounds to an activation; `Clip(0, inf)` is `Relu`.
fn clip(node: &Candidate<'_>) -> Option<Activation> {
    let bound = |port: usize, open: f64| match node.node().node.input(port) {
        Some(_) => match node.constant::<f32>(port)? {
            [bound] => Some(f64::from(*bound)),
            _ => None,
        },
        None => Some(open),
    };
    let (low, high) = (bound(1, f64::NEG_INFINITY)?, bound(2, f64::INFINITY)?);
    let is_relu = low.to_bits() == 0 && high == f64::INFINITY;
    Some(if is_relu { Activation::Relu } else { Activation::Clip(low, high) })
}

/// Matches y = x + b with a constant vector b, as a bias.
fn bias(node: &Candidate<'_>) -> Option<Fusion> {
    [[0, 1], [1, 0]].into_iter().find_map(|[x, addend]| {
        let (vector, axis) = vector(node, addend)?;
        node.epilogue(host(node, x)?, Step::Bias { vector, axis })
    })
}

/// Returns a constant input that is a vector, and the axis of the output along which it lies.
pub(super) fn vector(node: &Candidate<'_>, port: usize) -> Option<(ValueId, usize)> {
    let (desc, output) = (node.input(port), node.output());
    let dims = desc.shape();
    let vector_axis = dims.iter().position(|&dim| dim > 1)?;
    let axis = output.rank().checked_sub(dims.len() - vector_axis)?;
    let extent = output.full_shape().dim(axis).and_then(Dim::exact);
    let fills = desc.len() == dims[vector_axis] && extent == Some(dims[vector_axis]);
    node.tensor(port).filter(|_| fills)?;
    Some((node.node().node.input(port)?, axis))
}

/// Matches y = x + r as a residual; tensor r must be computed before the producer of x runs.
fn residual(node: &Candidate<'_>) -> Option<Fusion> {
    [[0, 1], [1, 0]].into_iter().find_map(|[x, addend]| {
        let mut host = host(node, x)?;
        let value = node.node().node.input(addend)?;
        host.nodes.retain(|&host| node.is_before(value, host));
        node.epilogue(host, Step::Residual(value)).filter(|_| node.is_shaped_alike(addend))
    })
}

/// Returns the nodes that compute operand `port` of a sum, unless the other operand broadcasts it.
fn host(node: &Candidate<'_>, port: usize) -> Option<Host> {
    node.host(port).filter(|_| node.is_shaped_alike(port))
}
