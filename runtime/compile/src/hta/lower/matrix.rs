//! Matrix products, and the weights of all products.

use udo_api::{DType, Element, Shape};
use udo_hta::{Op, Values, Weights, Window};

use super::{LayerParts, Lowering, Use};
use crate::resolve::TypedGraph;
use udo_graph::memory::Tensor;

/// Returns the weights of a node; values, scales, zero points and addends are at these ports.
pub(super) fn weights<'a>(
    lowering: &Lowering<'a>,
    of: &Use<'a>,
    [values, scales, zeros, bias]: [usize; 4],
    is_turned: bool,
) -> Result<Weights<'a>, String> {
    let turned = lowering.derived.matrices.get(&of.at).filter(|_| is_turned);
    let tensor = turned.or_else(|| lowering.graph.known(of.input(values)));
    let tensor = tensor.ok_or("multiplies with a computed value")?;
    let values = match tensor.dtype() {
        DType::I8 => Values::I8 {
            weights: tensor.get().unwrap_or_default(),
            zero_points: zero_points(lowering, of, zeros, &[0])?,
        },
        DType::U8 => Values::U8 {
            weights: tensor.get().unwrap_or_default(),
            zero_points: zero_points(lowering, of, zeros, &[0])?,
        },
        other => return Err(format!("has weights of {other}, expected u8 or i8")),
    };
    let bias = match of.input(bias) {
        None => &[],
        Some(_) => lowering.known::<i32>(of, bias)?,
    };
    Ok(Weights { values, scales: lowering.known::<f32>(of, scales)?, bias })
}

fn zero_points<'a, T: Element>(
    lowering: &Lowering<'a>,
    of: &Use<'a>,
    port: usize,
    none: &'static [T],
) -> Result<&'a [T], String> {
    if of.input(port).is_none() { Ok(none) } else { lowering.known(of, port) }
}

/// Returns the weights of a matrix product with outputs first, if the node has them last.
pub(super) fn outputs_first(graph: &TypedGraph, of: &Use<'_>) -> Option<Tensor> {
    let schema = of.bound.op.schema();
    let comes_last = match schema.name() {
        "QLinearMatMul" | "QLinearMatMulAdd" => true,
        "QGemm" => of.int("transB") == Some(0),
        _ => false,
    };
    let tensor = graph.known(of.input(3)).filter(|_| comes_last)?;
    let [depth, outputs] = *tensor.dims() else { return None };
    let bytes = tensor.bytes();
    let turned: Option<Vec<u8>> = (0..outputs)
        .flat_map(|output| (0..depth).map(move |k| bytes.get(k * outputs + output).copied()))
        .collect();
    Tensor::from_bytes(tensor.dtype(), Shape::new(&[outputs, depth]).ok()?, &turned?).ok()
}

/// Returns the product of each pixel's channels with a matrix.
fn product<'a>(
    lowering: &Lowering<'a>,
    of: &Use<'a>,
    bias: usize,
) -> Result<LayerParts<'a>, String> {
    let x = lowering.shaped(of, 0)?;
    let matrix = lowering.graph.desc(of.input(3));
    if x.is_image || matrix.rank() != 2 {
        return Err(format!("multiplies with {matrix}, expected rows of channels and a matrix"));
    }
    let weights = weights(lowering, of, [3, 4, 5, bias], true)?;
    let op = match x.nhwc {
        [_, 1, 1, _] => Op::FullyConnected { weights },
        _ => Op::Conv { window: Window::ONE, weights },
    };
    Ok(LayerParts { op, reads: vec![0] })
}

/// The port of an input that the operator does not have.
const NONE: usize = usize::MAX;

pub(super) fn matmul<'a>(lowering: &Lowering<'a>, of: &Use<'a>) -> Result<LayerParts<'a>, String> {
    product(lowering, of, NONE)
}

pub(super) fn matmul_add<'a>(
    lowering: &Lowering<'a>,
    of: &Use<'a>,
) -> Result<LayerParts<'a>, String> {
    product(lowering, of, 8)
}

pub(super) fn gemm<'a>(lowering: &Lowering<'a>, of: &Use<'a>) -> Result<LayerParts<'a>, String> {
    let alpha = match of.setting("alpha") {
        Some(crate::resolve::ParamSetting::Float(alpha)) => *alpha,
        _ => 1.0,
    };
    if of.int("transA") == Some(1) || alpha.to_bits() != 1.0f64.to_bits() {
        return Err("multiplies a transposed input, or scales its result".to_owned());
    }
    let x = lowering.shaped(of, 0)?;
    let [batch, _, _, _] = x.nhwc;
    if batch != 1 {
        return Err(format!("has a batch of {batch}, expected 1"));
    }
    let is_turned = of.int("transB") == Some(0);
    let weights = weights(lowering, of, [3, 4, 5, 6], is_turned)?;
    Ok(LayerParts { op: Op::FullyConnected { weights }, reads: vec![0] })
}
