//! Fills in the inputs and attributes that a node omits, from the defaults of its operator's schema.

use udo_api::abi::ValueKind;
use udo_api::{DType, Encoding, Encodings, Error, Facts, OpDef, OpSchema, Port, Shape};

use super::{Quantized, TypedGraph};
use udo_engine::cores::convert;
use udo_graph::graph::{Attr, Node};
use udo_graph::memory::Tensor;

/// The reason why an omitted input has no default.
#[derive(Debug, thiserror::Error)]
#[error("the default of input {port:?}: {why}")]
pub(super) struct NoDefault {
    port: &'static str,
    why: Error,
}

/// Adds the schema's defaults for the inputs that `node` omits.
pub(super) fn fill_defaults(
    graph: &mut TypedGraph,
    node: &mut Node,
    op: &OpDef,
) -> Result<(), NoDefault> {
    for (index, port) in op.schema().inputs().iter().enumerate() {
        if node.input(index).is_some() || port.default_value() == ValueKind::None {
            continue;
        }
        let inputs = node.inputs.iter().map(|id| graph.desc(*id).dtype());
        let tensor = default_tensor(port, inputs.flatten())?;
        let quantized = quantized(port, &tensor);
        let value = graph.add_constant(&format!("{}.{}", node.name, port.name()), tensor);
        if let Some(default) = graph.values.get_mut(value.index()) {
            default.quantized = quantized;
        }
        if node.inputs.len() <= index {
            node.inputs.resize(index + 1, None);
        }
        if let Some(input) = node.inputs.get_mut(index) {
            *input = Some(value);
        }
    }
    Ok(())
}

/// The seed attribute of operators that draw random numbers.
const SEED: &str = "seed";

/// Gives a random operator's node a seed if the model states none. The seed is a hash of the node's name: each node
/// draws different numbers, and every session the same ones.
pub(super) fn fill_seed(node: &mut Node, schema: &OpSchema) {
    let takes_seed = schema.params().iter().any(|param| param.attribute_name() == SEED);
    if takes_seed && !schema.known_facts().has(Facts::PURE) && node.attr(SEED).is_none() {
        // FNV-1a, 32 bits.
        let hash = node
            .name
            .bytes()
            .fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        node.attrs.push((SEED.to_owned(), Attr::Float(f64::from(hash))));
    }
}

/// Returns how fixed-point cores store a floating-point default, for which no model has an encoding.
fn quantized(port: &Port, tensor: &Tensor) -> Option<Quantized> {
    const STORED: [(DType, f64, f64); 4] = [
        (DType::U8, 0.0, 255.0),
        (DType::U16, 0.0, 65535.0),
        (DType::I8, -128.0, 127.0),
        (DType::I16, -32768.0, 32767.0),
    ];
    let numbers = tensor.get::<f32>()?;
    let has_type = |(dtype, ..): &&(DType, f64, f64)| {
        port.core_types().iter().any(|core| core.types().has(*dtype))
    };
    let &(dtype, least, most) = STORED.iter().find(has_type)?;
    // The range includes 0, so that 0 has an exact quantized value.
    let range = numbers.iter().fold([0.0_f32; 2], |[min, max], &n| [min.min(n), max.max(n)]);
    let [min, max] = range.map(f64::from);
    let width = if max > min { max - min } else { 1.0 };
    let zero = least - (min * (most - least) / width).round();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the zero point lies between the bounds of a 16-bit type; a scale is f32"
    )]
    let encoding = Encoding { scale: (width / (most - least)) as f32, zero_point: zero as i32 };
    Some(Quantized { dtype, encodings: Encodings::PerTensor(encoding) })
}

/// Returns the default in the type of the node's first float input that the port accepts, such as f16 where all inputs
/// are f16.
fn default_tensor(port: &Port, inputs: impl Iterator<Item = DType>) -> Result<Tensor, NoDefault> {
    let fail = |why| NoDefault { port: port.name(), why };
    let types = port.types();
    let mut float_inputs = inputs.filter(|dtype| dtype.is_float() && types.has(*dtype));
    let first = || types.iter().next();
    let dtype =
        float_inputs.next().filter(|_| types.has(DType::F32)).or_else(first).unwrap_or(DType::F32);
    let (numbers, shape) = match port.default_value() {
        ValueKind::Float(value) => (vec![value], Ok(Shape::SCALAR)),
        ValueKind::Floats(values) => (values.to_vec(), Shape::new(&[values.len()])),
        ValueKind::Int(value) => (vec![real(value)], Ok(Shape::SCALAR)),
        ValueKind::Ints(values) => {
            (values.iter().map(|&v| real(v)).collect(), Shape::new(&[values.len()]))
        }
        ValueKind::None | ValueKind::Str(_) | ValueKind::Strs(_) => {
            return Err(fail(Error::new("it is not a number")));
        }
    };
    convert::from_numbers(dtype, shape.map_err(fail)?, &numbers).map_err(fail)
}

#[expect(clippy::cast_precision_loss, reason = "defaults are small")]
fn real(value: i64) -> f64 {
    value as f64
}
