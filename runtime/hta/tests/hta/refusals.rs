//! The messages for layers that a SoC does not support, and for invalid networks.

use udo_hta::{
    Divisor, Encoding, Layer, Network, Op, SOCS, Soc, Tensor, TensorId, Values, Weights, Window,
    compile,
};

use crate::random::with_memory;

const ENCODING: Encoding = Encoding { scale: 0.5, zero_point: 3 };
const WEIGHTS: Weights<'_> = Weights {
    values: Values::I8 { weights: &[1; 64], zero_points: &[0] },
    scales: &[0.5],
    bias: &[],
};
const X: TensorId = TensorId(0);
const Y: TensorId = TensorId(1);

fn tensor(name: &str, shape: [usize; 4]) -> Tensor<'static> {
    Tensor { name: name.to_owned(), shape, encoding: ENCODING, values: None }
}

/// Returns a layer from `X` to `Y`.
fn layer(op: Op<'static>) -> Layer<'static> {
    Layer { name: "one".to_owned(), op, inputs: vec![X], output: Y }
}

/// Returns a network of one layer, from an input of shape `x` to an output of shape `y`.
fn network(op: Op<'static>, x: [usize; 4], y: [usize; 4]) -> Result<Network<'static>, String> {
    let tensors = vec![tensor("x", x), tensor("y", y)];
    Network::new(tensors, vec![layer(op)], vec![X], vec![Y]).map_err(|error| error.to_string())
}

/// Asserts that a network of one layer is valid, and that compiling it gives this error.
#[track_caller]
fn assert_refused(soc: &Soc, op: Op<'static>, x: [usize; 4], y: [usize; 4], expected: &str) {
    let network = network(op, x, y).unwrap();
    assert_eq!(compile(&network, soc).unwrap_err().to_string(), expected);
}

#[test]
fn refusals_name_the_violated_rule() {
    let pool = |window| Op::MaxPool { window };
    let [small, _, large] = SOCS else { panic!("{} SoCs", SOCS.len()) };
    assert_refused(
        small,
        Op::Softmax,
        [1, 1, 1, 4],
        [1, 1, 1, 4],
        "layer \"one\" (Softmax) has an unsupported operator, hta100 supports Conv, Depthwise, FullyConnected, Add, Concat, MaxPool, AveragePool, Lookup, Reshape (docs/hta-bytecode.md, rule \"operators\")",
    );
    assert_refused(
        small,
        Op::Reshape,
        [2, 1, 1, 4],
        [1, 2, 1, 4],
        "input \"x\" has a batch of 2, hta100 supports a batch of 1 (docs/hta-bytecode.md, rule \"batch\")",
    );
    assert_refused(
        small,
        Op::Reshape,
        [1, 1, 1, 17],
        [1, 1, 17, 1],
        "input \"x\" has 17 channels, hta100 supports at most 16 (docs/hta-bytecode.md, rule \"input channels\")",
    );
    assert_refused(
        small,
        Op::Reshape,
        [1, 2049, 1, 1],
        [1, 1, 2049, 1],
        "input \"x\" has an extent of 2049, hta100 supports at most 2048 (docs/hta-bytecode.md, rule \"extents\")",
    );
    assert_refused(
        small,
        pool(Window { kernel: [4, 3], ..Window::ONE }),
        [1, 8, 8, 4],
        [1, 5, 6, 4],
        "layer \"one\" (MaxPool) has a kernel of 4 x 3, hta100 supports at most 3 (docs/hta-bytecode.md, rule \"kernel\")",
    );
    assert_refused(
        small,
        pool(Window { strides: [1, 3], ..Window::ONE }),
        [1, 8, 8, 4],
        [1, 8, 3, 4],
        "layer \"one\" (MaxPool) has strides of 1 x 3, hta100 supports at most 2 (docs/hta-bytecode.md, rule \"stride\")",
    );
    assert_refused(
        small,
        pool(Window { kernel: [2, 2], dilations: [2, 1], ..Window::ONE }),
        [1, 8, 8, 4],
        [1, 6, 7, 4],
        "layer \"one\" (MaxPool) has dilations of 2 x 1, hta100 supports at most 1 (docs/hta-bytecode.md, rule \"dilation\")",
    );
    assert_refused(
        &with_memory(large, 1 << 20, 15),
        Op::FullyConnected { weights: WEIGHTS },
        [1, 1, 1, 16],
        [1, 1, 1, 4],
        "layer \"one\" (FullyConnected) has 16 weights per channel, hta300 supports at most 15 (docs/hta-bytecode.md, rule \"weights\")",
    );
    assert_refused(
        &with_memory(large, 127, 1024),
        Op::AveragePool { window: Window::ONE, divisor: Divisor::Inside },
        [1, 9, 8, 8],
        [1, 9, 8, 8],
        "layer \"one\" (AveragePool) needs 128 bytes of on-chip memory for one output row, hta300 has 127 (docs/hta-bytecode.md, rule \"rows\")",
    );
}

#[test]
fn inconsistent_networks_are_refused() {
    let error = |op, x, y| network(op, x, y).map(|_| ()).unwrap_err();
    let conv = |window| Op::Conv { window, weights: WEIGHTS };
    let square = [1, 4, 4, 4];
    assert_eq!(
        error(conv(Window::ONE), square, [1, 4, 4, 5]),
        "layer \"one\" (Conv) has 64 weights, expected 20"
    );
    assert_eq!(
        error(conv(Window { kernel: [5, 1], ..Window::ONE }), square, square),
        "layer \"one\" (Conv) has a window larger than its input u8[1,4,4,4]"
    );
    assert_eq!(
        error(conv(Window { strides: [0, 1], ..Window::ONE }), square, square),
        "layer \"one\" (Conv) has a strides of 0 x 1, expected at least 1"
    );
    assert_eq!(
        error(conv(Window { pads: [0, 1, 0, 0], ..Window::ONE }), square, square),
        "layer \"one\" (Conv) has a padding of 1 for windows of 1, expected less"
    );
    assert_eq!(
        error(Op::Reshape, square, [1, 4, 4, 5]),
        "layer \"one\" (Reshape) computes u8[1,4,4,5] from u8[1,4,4,4]"
    );
    assert_eq!(
        error(Op::Resize, square, [1, 8, 9, 4]),
        "layer \"one\" (Resize) computes u8[1,8,8,4], but its output is u8[1,8,9,4]"
    );
    assert_eq!(error(Op::Add, square, square), "layer \"one\" (Add) has 1 inputs, expected 2");
    assert_eq!(
        error(Op::Depthwise { window: Window::ONE, weights: WEIGHTS }, square, [1, 4, 4, 6]),
        "layer \"one\" (Depthwise) computes 6 channels from 4"
    );
    assert_eq!(
        error(Op::Softmax, square, [1, 0, 4, 4]),
        "tensor \"y\" is u8[1,0,4,4], expected 1 to 2147483648 bytes"
    );
}

#[test]
fn weights_and_encodings_are_checked() {
    let with_weights = |weights: Weights<'static>| {
        let op = Op::FullyConnected { weights };
        network(op, [1, 1, 1, 16], [1, 1, 1, 4]).map(|_| ()).unwrap_err()
    };
    assert_eq!(
        with_weights(Weights { scales: &[0.5; 3], ..WEIGHTS }),
        "layer \"one\" (FullyConnected) has 3 weight scales, expected 1 or 4"
    );
    assert_eq!(
        with_weights(Weights { bias: &[0; 3], ..WEIGHTS }),
        "layer \"one\" (FullyConnected) has a bias of 3, expected none or 4"
    );
    assert_eq!(
        with_weights(Weights { scales: &[-1.0], ..WEIGHTS }),
        "layer \"one\" (FullyConnected) has a weight scale of -1, expected a finite value above 0"
    );
    let mut tensors = vec![tensor("x", [1, 1, 1, 4]), tensor("y", [1, 1, 1, 4])];
    tensors[1].encoding.zero_point = 4;
    let with_tensors = |tensors: &[Tensor<'static>], layers: Vec<Layer<'static>>, outputs| {
        let network = Network::new(tensors.to_vec(), layers, vec![X], outputs);
        network.map(|_| ()).unwrap_err().to_string()
    };
    assert_eq!(
        with_tensors(&tensors, vec![layer(Op::Reshape)], vec![Y]),
        "layer \"one\" (Reshape) has different encodings of input and output, expected the same"
    );
    tensors[1] = tensor("y", [1, 1, 1, 4]);
    tensors[1].values = Some(&[0; 3]);
    assert_eq!(
        with_tensors(&tensors, vec![layer(Op::Reshape)], vec![Y]),
        "tensor \"y\" is u8[1,1,1,4], but has 3 values"
    );
    tensors[1].values = Some(&[0; 4]);
    assert_eq!(
        with_tensors(&tensors, vec![layer(Op::Reshape)], vec![Y]),
        "layer \"one\" (Reshape) computes \"y\", which is defined twice or constant"
    );
}

#[test]
fn layers_read_only_earlier_outputs() {
    let tensors =
        vec![tensor("x", [1, 1, 1, 4]), tensor("y", [1, 1, 1, 4]), tensor("z", [1, 1, 1, 4])];
    let with_layers = |layers: Vec<Layer<'static>>, inputs, outputs| {
        let network = Network::new(tensors.clone(), layers, inputs, outputs);
        network.map(|_| ()).unwrap_err().to_string()
    };
    let Layer { op, .. } = layer(Op::Softmax);
    let z = TensorId(2);
    // Two layers that read each other's output.
    let cycle = [(z, Y), (Y, z)].map(|(from, output)| Layer {
        name: "round".to_owned(),
        op,
        inputs: vec![from],
        output,
    });
    assert_eq!(
        with_layers(cycle.to_vec(), vec![X], vec![Y]),
        "layer \"round\" (Softmax) reads tensor \"z\", which no earlier layer computes"
    );
    assert_eq!(
        with_layers(vec![layer(op)], vec![X, X], vec![Y]),
        "input \"x\" is defined twice or constant"
    );
    assert_eq!(
        with_layers(vec![layer(op)], vec![TensorId(9)], vec![Y]),
        "input \"?\" is tensor 9, but there are 3"
    );
    assert_eq!(
        with_layers(vec![layer(op)], vec![X], vec![X]),
        "output \"x\" is not computed by any layer, or is listed twice"
    );
    assert_eq!(with_layers(vec![layer(op)], vec![X], vec![]), "the network has no outputs");
}
