//! A small model whose constants are packed, two of them, one of which is made of another when the model is compiled.

use udo_api::Shape;
use udo_runtime::Tensor;
use udo_runtime::graph::{Graph, Source};

/// The graph as text; `{0}` is where the elements of a constant go.
pub const TEXT: &str = "graph small
  input x: f32[3,40]
  constant a: f32[40,24]{0}
  constant b: f32[24,20]{0}
  h = MatMul@13(x, a) # first
  r = Relu@14(h) # relu
  c = Neg@13(b) # folded
  y = MatMul@13(r, c) # second
  output y
";

/// The graph of a text like [`TEXT`], with weights that follow from `seed`.
pub fn graph(text: &str, seed: usize) -> Graph {
    let zeros = |n: usize| format!("{{{}}}", vec!["0"; n].join(", "));
    let text = text.replacen("{0}", &zeros(960), 1).replacen("{0}", &zeros(480), 1);
    let mut graph = Graph::parse(&text).unwrap();
    for value in &mut graph.values {
        if let Source::Constant(tensor) = &mut value.source {
            *tensor = numbers(tensor.dims(), seed);
        }
    }
    graph
}

/// Numbers that follow from `seed`.
pub fn numbers(dims: &[usize], seed: usize) -> Tensor {
    let shape = Shape::new(dims).unwrap();
    let number = |n: usize| u8::try_from((n * 37 + seed * 11) % 101).map(|n| f32::from(n) - 50.0);
    let all: Vec<f32> = (0..shape.len()).map(|n| number(n).unwrap() / 16.0).collect();
    Tensor::from_slice(shape, &all).unwrap()
}
