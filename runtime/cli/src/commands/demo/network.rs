//! The network of the demonstration: a small one of the kinds of layers that networks for pictures have, with weights from a seed.

use udo_api::{DType, Shape, TensorDesc};
use udo_runtime::graph::{Attr, DimSpec, Graph, Node, ValueId};
use udo_runtime::{Tensor, quant};

use crate::output::Failure;

/// The operator set of its nodes.
const OPSET: u32 = 17;

/// The seed of the picture.
const PICTURE: u64 = 1;

/// The seed of the first weights.
const WEIGHTS: u64 = 100;

/// What its input is called.
pub(super) const INPUT: &str = "image";

/// The dimensions of a picture.
const DIMS: [usize; 4] = [1, 3, 32, 32];

/// What ONNX Runtime makes of the picture, the probabilities of ten classes.
pub(super) const RECORDED: [f32; 10] = [
    0.297_517,
    0.012_932_191,
    0.000_208_679_48,
    0.330_357_85,
    0.230_163_71,
    0.001_851_044_7,
    0.000_044_150_725,
    0.032_005_794,
    0.000_485_297_8,
    0.094_434_276,
];

/// A picture of pseudo-random numbers from -1 to 1.
pub(super) fn picture() -> Result<Tensor, Failure> {
    random(&DIMS, PICTURE)
}

fn random(dims: &[usize], seed: u64) -> Result<Tensor, Failure> {
    let desc = TensorDesc::new(DType::F32, Shape::new(dims)?);
    quant::random(&desc, seed)?.ok_or_else(|| Failure::new("numbers cannot be made up"))
}

/// A network that grows node by node.
struct Net {
    graph: Graph,
    seed: u64,
}

/// Convolutions, a fire module as `SqueezeNet` has it, a depthwise and a pointwise convolution around a residual as `MobileNet` v2
/// has them, and shares of the classes, which the package's operator computes.
pub(super) fn network() -> Result<Graph, Failure> {
    let mut net = Net { graph: Graph::new("demo"), seed: WEIGHTS };
    let image = net.graph.add_input(INPUT, DType::F32, DIMS.map(DimSpec::Fixed));
    let first = net.convolution("first", image, [16, 3, 3], 1)?;
    let first = net.node("first_relu", "Relu", &[first], &[]);
    let half = net.pool("first_pool", first);
    let squeezed = net.convolution("squeeze", half, [8, 16, 1], 1)?;
    let squeezed = net.node("squeeze_relu", "Relu", &[squeezed], &[]);
    let near = net.convolution("expand_1x1", squeezed, [16, 8, 1], 1)?;
    let near = net.node("expand_1x1_relu", "Relu", &[near], &[]);
    let wide = net.convolution("expand_3x3", squeezed, [16, 8, 3], 1)?;
    let wide = net.node("expand_3x3_relu", "Relu", &[wide], &[]);
    let fire = net.node("expand", "Concat", &[near, wide], &[("axis", Attr::Int(1))]);
    let quarter = net.pool("second_pool", fire);
    let depth = net.convolution("depthwise", quarter, [32, 1, 3], 32)?;
    let depth = net.node("depthwise_relu", "Relu", &[depth], &[]);
    let point = net.convolution("pointwise", depth, [32, 32, 1], 1)?;
    let sum = net.node("residual", "Add", &[point, quarter], &[]);
    let mean = net.node("mean", "GlobalAveragePool", &[sum], &[]);
    let row = net.node("row", "Flatten", &[mean], &[]);
    let (weights, bias) = (net.weights("classes", &[10, 32], 32)?, net.bias("classes", 10)?);
    let scores = net.node("classes", "Gemm", &[row, weights, bias], &[("transB", Attr::Int(1))]);
    // No attributes: the config has none. Softmax then works along the last axis.
    let shares = net.node("probabilities", "Softmax", &[scores], &[]);
    net.graph.outputs.push(shares);
    Ok(net.graph)
}

impl Net {
    fn node(
        &mut self,
        name: &str,
        op: &str,
        inputs: &[ValueId],
        attrs: &[(&str, Attr)],
    ) -> ValueId {
        let output = self.graph.add_value(name);
        let attrs = attrs.iter().map(|(name, attr)| ((*name).to_owned(), attr.clone())).collect();
        let name = name.to_owned();
        self.graph.nodes.push(Node { name, attrs, ..Node::new(op, OPSET, inputs, &[output]) });
        output
    }

    /// Numbers whose products with as many operands are about as large as those are.
    fn weights(&mut self, of: &str, dims: &[usize], operands: u16) -> Result<ValueId, Failure> {
        self.scaled(&format!("{of}_w"), dims, (6.0 / f32::from(operands)).sqrt())
    }

    fn bias(&mut self, of: &str, len: usize) -> Result<ValueId, Failure> {
        self.scaled(&format!("{of}_b"), &[len], 0.2)
    }

    fn scaled(&mut self, name: &str, dims: &[usize], scale: f32) -> Result<ValueId, Failure> {
        self.seed += 1;
        let random = random(dims, self.seed)?;
        let numbers = random.get::<f32>().unwrap_or_default();
        let numbers: Vec<f32> = numbers.iter().map(|number| number * scale).collect();
        Ok(self.graph.add_constant(name, Tensor::of(Shape::new(dims)?, &numbers)?))
    }

    /// A convolution to `results` channels, of `channels` in each group, with a square kernel.
    fn convolution(
        &mut self,
        name: &str,
        input: ValueId,
        [results, channels, side]: [u16; 3],
        groups: i64,
    ) -> Result<ValueId, Failure> {
        let dims = [results, channels, side, side].map(usize::from);
        let weights = self.weights(name, &dims, channels * side * side)?;
        let bias = self.bias(name, usize::from(results))?;
        let edge = i64::from(side / 2);
        let attrs = [("group", Attr::Int(groups)), ("pads", Attr::Ints(vec![edge; 4]))];
        Ok(self.node(name, "Conv", &[input, weights, bias], &attrs))
    }

    /// The largest of each two by two numbers.
    fn pool(&mut self, name: &str, input: ValueId) -> ValueId {
        let attrs = [("kernel_shape", Attr::Ints(vec![2; 2])), ("strides", Attr::Ints(vec![2; 2]))];
        self.node(name, "MaxPool", &[input], &attrs)
    }
}
