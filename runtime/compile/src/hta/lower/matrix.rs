//! Lowers matrix products, and collects the weights of matrix products and convolutions.

use udo_api::{DType, Element, Shape};
use udo_hta::{Op, Values, Weights, Window};

use super::{LayerNode, LayerParts, Lowering};
use crate::resolve::TypedGraph;
use udo_graph::memory::Tensor;

/// Returns the weights of a node, whose values, scales, zero points and biases are at these ports. If `is_transposed`
/// is set, [`outputs_first`] may have transposed the values.
pub(super) fn weights<'a>(
    lowering: &Lowering<'a>,
    layer: &LayerNode<'a>,
    [values, scales, zeros, bias]: [usize; 4],
    is_transposed: bool,
) -> Result<Weights<'a>, String> {
    let transposed = lowering.derived.matrices.get(&layer.at).filter(|_| is_transposed);
    let tensor = transposed.or_else(|| lowering.graph.known(layer.input(values)));
    let tensor = tensor.ok_or("multiplies with a computed value")?;
    let values = match tensor.dtype() {
        DType::I8 => Values::I8 {
            weights: tensor.get().unwrap_or_default(),
            zero_points: zero_points(lowering, layer, zeros, &[0])?,
        },
        DType::U8 => Values::U8 {
            weights: tensor.get().unwrap_or_default(),
            zero_points: zero_points(lowering, layer, zeros, &[0])?,
        },
        other => return Err(format!("has weights of {other}, expected u8 or i8")),
    };
    let bias = match layer.input(bias) {
        None => &[],
        Some(_) => lowering.known::<i32>(layer, bias)?,
    };
    Ok(Weights { values, scales: lowering.known::<f32>(layer, scales)?, bias })
}

fn zero_points<'a, T: Element>(
    lowering: &Lowering<'a>,
    layer: &LayerNode<'a>,
    port: usize,
    default: &'static [T],
) -> Result<&'a [T], String> {
    if layer.input(port).is_none() { Ok(default) } else { lowering.known(layer, port) }
}

/// Returns the weights of a matrix product with outputs first, if the node has them last.
pub(super) fn outputs_first(graph: &TypedGraph, layer: &LayerNode<'_>) -> Option<Tensor> {
    let schema = layer.bound.op.schema();
    let has_outputs_last = match schema.name() {
        "QLinearMatMul" | "QLinearMatMulAdd" => true,
        "QGemm" => layer.int("transB") == Some(0),
        _ => false,
    };
    let tensor = graph.known(layer.input(3)).filter(|_| has_outputs_last)?;
    let [depth, outputs] = *tensor.dims() else { return None };
    let bytes = tensor.bytes();
    let transposed: Option<Vec<u8>> = (0..outputs)
        .flat_map(|output| (0..depth).map(move |k| bytes.get(k * outputs + output).copied()))
        .collect();
    Tensor::from_bytes(tensor.dtype(), Shape::new(&[outputs, depth]).ok()?, &transposed?).ok()
}

/// Returns the product of each pixel's channels with a matrix.
fn product<'a>(
    lowering: &Lowering<'a>,
    layer: &LayerNode<'a>,
    bias: usize,
) -> Result<LayerParts<'a>, String> {
    let x = lowering.shaped(layer, 0)?;
    let matrix = lowering.graph.desc(layer.input(3));
    if x.is_image || matrix.rank() != 2 {
        return Err(format!("multiplies with {matrix}, expected rows of channels and a matrix"));
    }
    let weights = weights(lowering, layer, [3, 4, 5, bias], true)?;
    let op = match x.nhwc {
        [_, 1, 1, _] => Op::FullyConnected { weights },
        _ => Op::Conv { window: Window::ONE, weights },
    };
    Ok(LayerParts { op, reads: vec![0] })
}

/// A port without an input, for operators that have no bias.
const NONE: usize = usize::MAX;

pub(super) fn matmul<'a>(
    lowering: &Lowering<'a>,
    layer: &LayerNode<'a>,
) -> Result<LayerParts<'a>, String> {
    product(lowering, layer, NONE)
}

pub(super) fn matmul_add<'a>(
    lowering: &Lowering<'a>,
    layer: &LayerNode<'a>,
) -> Result<LayerParts<'a>, String> {
    product(lowering, layer, 8)
}

pub(super) fn gemm<'a>(
    lowering: &Lowering<'a>,
    layer: &LayerNode<'a>,
) -> Result<LayerParts<'a>, String> {
    let alpha = match layer.setting("alpha") {
        Some(crate::resolve::ParamSetting::Float(alpha)) => *alpha,
        _ => 1.0,
    };
    if layer.int("transA") == Some(1) || alpha.to_bits() != 1.0f64.to_bits() {
        return Err("multiplies a transposed input, or scales its result".to_owned());
    }
    let x = lowering.shaped(layer, 0)?;
    let [batch, _, _, _] = x.nhwc;
    if batch != 1 {
        return Err(format!("has a batch of {batch}, expected 1"));
    }
    let is_transposed = layer.int("transB") == Some(0);
    let weights = weights(lowering, layer, [3, 4, 5, 6], is_transposed)?;
    Ok(LayerParts { op: Op::FullyConnected { weights }, reads: vec![0] })
}
