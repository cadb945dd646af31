//! The declared types of a graph's outputs, and the encodings of quantized inputs and outputs.

use udo_api::{Element, Encoding};

use udo_graph::graph::{Graph, Node, Source, TensorType, ValueId};
use udo_graph::memory::Tensor;

/// The declaration of an input or output.
#[derive(Clone, Debug, Default)]
pub(super) struct Declared {
    /// Its declared type, with the extents that are declared.
    pub(super) of: Option<TensorType>,
    /// The encoding of its integers, per tensor.
    pub(super) encoding: Option<Encoding>,
}

/// Returns the declarations of inputs. An encoding is that of the node that dequantizes the input.
pub(super) fn inputs(graph: &Graph) -> Vec<Declared> {
    let reader = |id: ValueId| {
        graph.nodes.iter().find(|node| node.op == "DequantizeLinear" && node.input(0) == Some(id))
    };
    let said =
        |&id: &ValueId| Declared { of: None, encoding: reader(id).and_then(|of| coded(graph, of)) };
    graph.inputs.iter().map(said).collect()
}

/// Returns the declarations of outputs. An encoding is that of the node that quantizes the output.
pub(super) fn outputs(graph: &Graph) -> Vec<Declared> {
    let maker = |id: ValueId| {
        let makes = |node: &&Node| node.op == "QuantizeLinear" && node.output(0) == Some(id);
        graph.nodes.iter().find(makes)
    };
    let said = |&id: &ValueId| {
        let of = graph.value(id).ok().and_then(|value| value.declared.clone());
        Declared { of, encoding: maker(id).and_then(|of| coded(graph, of)) }
    };
    graph.outputs.iter().map(said).collect()
}

/// Returns the scale and zero point of a node, if it has one of each.
fn coded(graph: &Graph, node: &Node) -> Option<Encoding> {
    let scale = one::<f32>(constant(graph, node, 1)?)?;
    let zero_point = match constant(graph, node, 2) {
        None if node.input(2).is_none() => 0,
        None => return None,
        Some(of) => {
            let signed = one::<i8>(of).map(i32::from).or_else(|| one::<i16>(of).map(i32::from));
            let signed = signed.or_else(|| one::<i32>(of));
            signed
                .or_else(|| one::<u8>(of).map(i32::from))
                .or_else(|| one::<u16>(of).map(i32::from))?
        }
    };
    Some(Encoding { scale, zero_point })
}

/// Returns a constant input of a node.
fn constant<'a>(graph: &'a Graph, node: &Node, port: usize) -> Option<&'a Tensor> {
    match &graph.value(node.input(port)?).ok()?.source {
        Source::Constant(tensor) => Some(tensor),
        Source::Input(_) | Source::Computed | Source::Outer => None,
    }
}

/// Returns the only element of a tensor of this type.
fn one<T: Element>(tensor: &Tensor) -> Option<T> {
    match tensor.get::<T>()? {
        [only] => Some(*only),
        _ => None,
    }
}
