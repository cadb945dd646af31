//! Converts half-precision models to f32 before they are quantized. The caller's inputs and outputs keep their types.

use std::collections::HashMap;

use udo_api::{Bf16, DType, F16};

use super::QuantError;
use super::edit::{Names, redirect};
use udo_graph::graph::{Attr, Graph, Node, Source, ValueId};
use udo_graph::memory::{Tensor, TensorError};

/// The operator set of the casts.
const OPSET: u32 = 13;

/// ONNX's numbers of f32 and of the half-precision types.
const SINGLE: i64 = 1;
const HALVES: [(i64, DType); 2] = [(10, DType::F16), (16, DType::Bf16)];

/// Attributes with the type of a node's output.
const TYPES: [&str; 2] = ["dtype", "to"];

fn is_half(dtype: DType) -> bool {
    HALVES.iter().any(|(_, half)| *half == dtype)
}

fn wide(tensor: &Tensor) -> Result<Option<Tensor>, TensorError> {
    let numbers: Vec<f32> = match (tensor.get::<F16>(), tensor.get::<Bf16>()) {
        (Some(halves), _) => halves.iter().map(|half| half.to_f32()).collect(),
        (None, Some(halves)) => halves.iter().map(|half| half.to_f32()).collect(),
        (None, None) => return Ok(None),
    };
    Tensor::from_slice(tensor.desc().full_shape(), &numbers).map(Some)
}

/// Converts all half-precision values to f32, except inputs, outputs and the contents of subgraphs.
///
/// # Errors
/// There is not enough memory.
pub(super) fn widen(graph: &mut Graph) -> Result<(), QuantError> {
    let mut names = Names::new(graph);
    let outputs = graph.outputs.clone();
    let mut halves = HashMap::new();
    for id in graph.value_ids().collect::<Vec<_>>() {
        let Some(value) = graph.values.get_mut(id.index()) else { continue };
        let declared = value.declared.as_mut().filter(|of| is_half(of.dtype));
        match &mut value.source {
            Source::Constant(tensor) => {
                if let Some(wide) = wide(tensor)?.filter(|_| !outputs.contains(&id)) {
                    *tensor = wide;
                }
            }
            Source::Input(of) if is_half(of.dtype) => {
                halves.insert(id, of.dtype);
            }
            Source::Computed => {
                if let Some(of) = declared {
                    if outputs.contains(&id) {
                        halves.insert(id, of.dtype);
                    } else {
                        of.dtype = DType::F32;
                    }
                }
            }
            Source::Input(_) | Source::Outer => {}
        }
    }
    for node in &mut graph.nodes {
        widen_attrs(node)?;
    }
    let mut ids: Vec<(ValueId, DType)> = halves.into_iter().collect();
    ids.sort_unstable_by_key(|(id, _)| *id);
    for (id, dtype) in ids {
        apart(graph, &mut names, id, dtype);
    }
    Ok(graph.verify()?)
}

fn widen_attrs(node: &mut Node) -> Result<(), TensorError> {
    for (name, attr) in &mut node.attrs {
        match attr {
            Attr::Int(code)
                if TYPES.contains(&name.as_str())
                    && HALVES.iter().any(|(half, _)| half == code) =>
            {
                *code = SINGLE;
            }
            Attr::Tensor(tensor) => {
                if let Some(wide) = wide(tensor)? {
                    *tensor = wide;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Replaces an input or output by an f32 value, with a cast between them.
fn apart(graph: &mut Graph, names: &mut Names, id: ValueId, dtype: DType) {
    let name = graph.values.get(id.index()).map_or("", |value| value.name.as_str());
    let name = names.fresh(&format!("{name}_wide"));
    let wide = graph.add_value(&name);
    let own = |other: ValueId| if other == id { wide } else { other };
    for node in &mut graph.nodes {
        redirect(node, &own);
        node.outputs.iter_mut().flatten().for_each(|output| *output = own(*output));
    }
    let is_input = graph.inputs.contains(&id);
    let (from, to, code) = if is_input {
        (id, wide, SINGLE)
    } else {
        let code = HALVES.iter().find(|(_, half)| *half == dtype);
        (wide, id, code.map_or(SINGLE, |(code, _)| *code))
    };
    let mut cast = Node::new("Cast", OPSET, &[from], &[to]);
    cast.name = names.fresh(&format!("{name}_Cast"));
    cast.attrs.push(("to".to_owned(), Attr::Int(code)));
    let at = if is_input { 0 } else { graph.nodes.len() };
    graph.nodes.insert(at, cast);
}
