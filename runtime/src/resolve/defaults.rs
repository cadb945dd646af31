//! What a node leaves out, and the schema has a default for or the runtime makes.

use udo_api::abi::ValueKind;
use udo_api::{DType, Facts, OpDef, OpSchema, Port, Shape};

use super::TypedGraph;
use crate::cores::convert;
use crate::graph::{Attr, Node};
use crate::memory::Tensor;

/// Gives left-out inputs of `node` the defaults that its schema has for them.
pub(super) fn fill_defaults(
    graph: &mut TypedGraph,
    node: &mut Node,
    op: &OpDef,
) -> Result<(), String> {
    for (index, port) in op.schema().inputs().iter().enumerate() {
        if node.input(index).is_some() || port.default_value() == ValueKind::None {
            continue;
        }
        let tensor = default_tensor(port)?;
        let value = graph.add_constant(&format!("{}.{}", node.name, port.name()), tensor);
        if node.inputs.len() <= index {
            node.inputs.resize(index + 1, None);
        }
        if let Some(input) = node.inputs.get_mut(index) {
            *input = Some(value);
        }
    }
    Ok(())
}

/// The attribute of operators that draw random numbers.
const SEED: &str = "seed";

/// Gives a node that draws random numbers a seed where the model states none: one that follows from its name, so that each
/// node draws others, and the same ones in every session.
pub(super) fn fill_seed(node: &mut Node, schema: &OpSchema) {
    let takes_seed = schema.params().iter().any(|param| param.attribute_name() == SEED);
    if takes_seed && !schema.known_facts().has(Facts::PURE) && node.attr(SEED).is_none() {
        // The hash of Fowler, Noll and Vo.
        let hash = node
            .name
            .bytes()
            .fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        node.attrs.push((SEED.to_owned(), Attr::Float(f64::from(hash))));
    }
}

fn default_tensor(port: &Port) -> Result<Tensor, String> {
    let fail = |reason: &dyn std::fmt::Display| {
        format!("the default of input {:?}: {reason}", port.name())
    };
    let dtype = port.types().iter().next().unwrap_or(DType::F32);
    let (numbers, shape) = match port.default_value() {
        ValueKind::Float(value) => (vec![value], Ok(Shape::SCALAR)),
        ValueKind::Floats(values) => (values.to_vec(), Shape::new(&[values.len()])),
        ValueKind::Int(value) => (vec![real(value)], Ok(Shape::SCALAR)),
        ValueKind::Ints(values) => {
            (values.iter().map(|&v| real(v)).collect(), Shape::new(&[values.len()]))
        }
        ValueKind::None | ValueKind::Str(_) | ValueKind::Strs(_) => {
            return Err(fail(&"it is no number"));
        }
    };
    let shape = shape.map_err(|e| fail(&e))?;
    convert::from_numbers(dtype, shape, &numbers).map_err(|e| fail(&e))
}

#[expect(clippy::cast_precision_loss, reason = "defaults are small")]
fn real(value: i64) -> f64 {
    value as f64
}
