//! What a graph says of its inputs and outputs beside inputs' types: what it declares outputs to be, and what integers stand
//! for that go in or come out.

use udo_api::{Element, Encoding};

use udo_graph::graph::{Graph, Node, Source, TensorType, ValueId};
use udo_graph::memory::Tensor;

/// What a graph says of one of its inputs or outputs.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    /// Its type, with extents as far as they are declared.
    pub(super) of: Option<TensorType>,
    /// What its integers stand for, all of them alike.
    pub(super) encoding: Option<Encoding>,
}

/// Of the inputs: an encoding is that of the node which makes numbers of the integers.
pub(super) fn inputs(graph: &Graph) -> Vec<Said> {
    let reader = |id: ValueId| {
        graph.nodes.iter().find(|node| node.op == "DequantizeLinear" && node.input(0) == Some(id))
    };
    let said =
        |&id: &ValueId| Said { of: None, encoding: reader(id).and_then(|of| coded(graph, of)) };
    graph.inputs.iter().map(said).collect()
}

/// Of the outputs: an encoding is that of the node which makes integers of numbers.
pub(super) fn outputs(graph: &Graph) -> Vec<Said> {
    let maker = |id: ValueId| {
        let makes = |node: &&Node| node.op == "QuantizeLinear" && node.output(0) == Some(id);
        graph.nodes.iter().find(makes)
    };
    let said = |&id: &ValueId| {
        let of = graph.value(id).ok().and_then(|value| value.declared.clone());
        Said { of, encoding: maker(id).and_then(|of| coded(graph, of)) }
    };
    graph.outputs.iter().map(said).collect()
}

/// The one scale and zero point of a node.
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

/// The elements of an input that the model has.
fn constant<'a>(graph: &'a Graph, node: &Node, port: usize) -> Option<&'a Tensor> {
    match &graph.value(node.input(port)?).ok()?.source {
        Source::Constant(tensor) => Some(tensor),
        Source::Input(_) | Source::Computed | Source::Outer => None,
    }
}

/// The only element, of this type.
fn one<T: Element>(tensor: &Tensor) -> Option<T> {
    match tensor.get::<T>()? {
        [only] => Some(*only),
        _ => None,
    }
}
