//! Weights with a scale for each of their channels, on kernels that take such and on those that do not.

use udo_api::types::{F32, I8, U8};
use udo_api::{
    AcceptCx, AxisEncoding, Core, DType, Error, ExecError, FinalizeCx, InferCx, Io, Kernel,
    KernelDef, Op, OpDef, OpSchema, PackageV1, Param, Port, PortRule, Quant, QuantMut, Scratch,
    Shape, Status, any_input, any_output, dsp_kernel, input, output,
};
use udo_runtime::graph::{Attr, DimSpec, Graph, Node, ValueId};
use udo_runtime::{CompileOptions, Model, Tensor};
use udo_test_support::compile::{built_in, compile_graph};

const PER_AXIS: &[PortRule] = &[input(0, U8), input(1, I8).per_axis(), output(0, U8)];
const CHANNELS_LAST: &[PortRule] = &[
    input(0, U8).channels_last(),
    input(1, I8).channels_last().per_axis(),
    output(0, U8).channels_last(),
];
const PER_TENSOR: &[PortRule] = &[input(0, U8), input(1, I8), output(0, U8)];

static PACKAGE: PackageV1 = PackageV1::new("PerAxis", "1.0.0")
    .ops(&[
        OpDef::of::<Weigh>(),
        OpDef::of::<Coarse>(),
        OpDef::of::<Stored>(),
        OpDef::of::<Read>(),
        OpDef::of::<Biased>(),
    ])
    .kernels(&[
        KernelDef::new::<WeighDsp>("Weigh", Core::dsp(66)).ports(PER_AXIS),
        KernelDef::new::<WeighDsp>("Weigh", Core::dsp(73)).ports(CHANNELS_LAST),
        KernelDef::new::<WeighDsp>("Coarse", Core::dsp(66)).ports(PER_TENSOR),
        KernelDef::new::<WeighF32>("Coarse", Core::CPU).ports(&[
            input(0, F32),
            input(1, F32),
            output(0, F32),
        ]),
        KernelDef::new::<BiasedDsp>("Biased", Core::dsp(66)),
        KernelDef::new::<Copied>("Stored", Core::CPU).ports(&[any_output(0).per_axis()]),
        KernelDef::new::<Copied>("Read", Core::CPU).ports(&[any_input(0)]),
    ])
    .guarded();

/// Each element of `x` times that of `w`.
struct Weigh;
/// The same, without a kernel that knows scales along an axis.
struct Coarse;

const INPUTS: &[Port] = &[Port::required("x", F32.or(U8)), Port::required("w", F32.or(I8))];
const OUTPUTS: &[Port] = &[Port::required("y", F32.or(U8))];

impl Op for Weigh {
    const SCHEMA: OpSchema = OpSchema::new("Weigh", INPUTS, OUTPUTS, &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

impl Op for Coarse {
    const SCHEMA: OpSchema = OpSchema::new("Coarse", INPUTS, OUTPUTS, &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        Weigh::infer(cx)
    }
}

dsp_kernel!(WeighDsp = weigh(out: [u8], in: [u8, i8], params: {}));

#[expect(clippy::needless_pass_by_value, reason = "outputs belong to the call")]
fn weigh(
    out: QuantMut<'_, u8>,
    x: Quant<'_, u8>,
    w: Quant<'_, i8>,
    _: Scratch<'_>,
) -> Result<(), ExecError> {
    let missing = ExecError::new(Status::BAD_CALL);
    let by = w.axis_encoding.ok_or(missing)?;
    let inner: usize = w.shape[by.axis() + 1..].iter().product();
    for (at, (y, &x_value)) in out.data.iter_mut().zip(x.data).enumerate() {
        let weight = by.at(at / inner % by.count()).ok_or(missing)?.dequantize(w.data[at]);
        *y = out.encoding.quantize(x.encoding.dequantize(x_value) * weight);
    }
    Ok(())
}

struct WeighF32;

impl Kernel for WeighF32 {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let (x, w) = (inputs.get::<f32>(0)?, inputs.get::<f32>(1)?);
        for ((y, x), w) in outputs.take::<f32>(0)?.iter_mut().zip(x).zip(w) {
            *y = x * w;
        }
        Ok(())
    }
}

/// Its input's elements, with an encoding along an axis.
struct Stored;
/// Its input's elements.
struct Read;

impl Op for Stored {
    const SCHEMA: OpSchema = OpSchema::new(
        "Stored",
        &[Port::required("x", U8)],
        &[Port::required("y", U8)],
        &[Param::scalar("axis", DType::I64), Param::scalar("zero", DType::I64)],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let zero = i32::try_from(cx.int("zero")?).unwrap_or(0);
        let axis = usize::try_from(cx.int("axis")?).unwrap_or(0);
        let x = cx.input(0)?;
        cx.set_output(0, x.with_axis_encoding(AxisEncoding::intern(axis, &[0.5; 3], &[zero; 3])?))
    }
}

impl Op for Read {
    const SCHEMA: OpSchema =
        OpSchema::new("Read", &[Port::required("x", U8)], &[Port::required("y", U8)], &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x.with_shape(x.full_shape()))
    }
}

struct Copied;

impl Kernel for Copied {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        outputs.take::<u8>(0)?.copy_from_slice(inputs.get::<u8>(0)?);
        Ok(())
    }
}

/// Its input; on the DSP with the bias that is added to it.
struct Biased;

impl Op for Biased {
    const SCHEMA: OpSchema = OpSchema::new(
        "Biased",
        &[Port::required("x", F32.or(U8))],
        &[Port::required("y", F32.or(U8))],
        &[],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

/// Takes any bias but one with an encoding per axis, and wants one.
struct BiasedDsp;

impl Kernel for BiasedDsp {
    fn accept(cx: &AcceptCx<'_>) -> Result<usize, Error> {
        Ok(cx.epilogue().len().min(1))
    }

    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let bias = cx.input(1)?;
        match cx.epilogue() {
            [_] if bias.axis_encoding().is_none() && bias.dtype() == Some(DType::F32) => Ok(Self),
            steps => Err(Error::new(format!("{} steps, with {bias}", steps.len()))),
        }
    }

    fn execute(&self, _: Io<'_>) -> Result<(), ExecError> {
        Err(ExecError::new(Status::BAD_CALL))
    }
}

const DIMS: [usize; 4] = [1, 3, 2, 2];
const X: [f32; 12] = [1.0, -2.0, 0.5, 3.0, -0.5, 1.5, 2.0, -1.0, 4.0, 0.0, -3.0, 2.5];
const WEIGHTS: [i8; 12] = [1, 2, 3, 4, -5, 6, -7, 8, 9, -10, 11, 127];
const SCALES: [f32; 3] = [0.25, 0.125, 0.0625];
const ZEROS: [i8; 3] = [1, 0, -2];

/// Dequantizes a weight.
fn weight(at: usize) -> f32 {
    f32::from(i16::from(WEIGHTS[at]) - i16::from(ZEROS[at / 4])) * SCALES[at / 4]
}

fn constant<T: udo_api::Element>(
    graph: &mut Graph,
    name: &str,
    dims: &[usize],
    of: &[T],
) -> ValueId {
    graph.add_constant(name, Tensor::from_slice(Shape::new(dims).unwrap(), of).unwrap())
}

/// `x * w`, with `x` and the product in steps of 1/16 and 1/8, and the weights stored with a scale per channel.
fn weighed(op: &str) -> Graph {
    let mut graph = Graph::new("weighed");
    let graph_of = &mut graph;
    let x = graph_of.add_input("x", DType::F32, DIMS.map(DimSpec::Fixed));
    let x = through_quantized(graph_of, x, "xq", 1.0 / 16.0);
    let stored = constant(graph_of, "stored", &DIMS, &WEIGHTS);
    let scales = constant(graph_of, "scales", &[3], &SCALES);
    let zeros = constant(graph_of, "zeros", &[3], &ZEROS);
    let weights = graph_of.add_value("weights");
    let mut node = Node::new("DequantizeLinear", 21, &[stored, scales, zeros], &[weights]);
    node.attrs.push(("axis".to_owned(), Attr::Int(1)));
    graph_of.add_node(node);
    let product = graph_of.add_value("product");
    let mut node = Node::new(op, 21, &[x, weights], &[product]);
    "weigh".clone_into(&mut node.name);
    graph_of.add_node(node);
    let y = through_quantized(graph_of, product, "y", 1.0 / 8.0);
    graph.outputs.push(y);
    graph
}

fn through_quantized(graph: &mut Graph, value: ValueId, name: &str, scale: f32) -> ValueId {
    let scale = constant(graph, &format!("{name}_scale"), &[], &[scale]);
    let zero = constant(graph, &format!("{name}_zero"), &[], &[128u8]);
    let quantized = graph.add_value(&format!("{name}_codes"));
    graph.add_node(Node::new("QuantizeLinear", 21, &[value, scale, zero], &[quantized]));
    let real = graph.add_value(name);
    graph.add_node(Node::new("DequantizeLinear", 21, &[quantized, scale, zero], &[real]));
    real
}

fn compile(graph: Graph, cores: &[Core]) -> Result<Model, String> {
    let mut operators = built_in();
    operators.add_static(&PACKAGE).unwrap();
    let mut options = CompileOptions::default();
    options.place.cores = cores.to_vec();
    compile_graph(graph, &operators, &options).map_err(|error| error.to_string())
}

fn run(model: &Model) -> Vec<f32> {
    let mut session = model.session().unwrap();
    session.input_mut::<f32>("x").unwrap().copy_from_slice(&X);
    session.run().unwrap();
    session.output::<f32>("y").unwrap().to_vec()
}

/// Returns the model's output if the product is rounded to steps of 1/8 (ties to even) and saturates.
fn expected() -> Vec<f32> {
    let step = |x: f32| (x * 8.0).round_ties_even().clamp(-128.0, 127.0) / 8.0;
    X.iter().enumerate().map(|(at, x)| step(x * weight(at))).collect()
}

#[test]
fn weights_come_to_the_dsp_with_a_scale_per_channel() {
    for (core, w) in [(Core::dsp(66), "i8[1,3,2,2]"), (Core::dsp(73), "i8[1,2,2,3]")] {
        let model = compile(weighed("Weigh"), &[core, Core::CPU]).unwrap();
        let report = model.report();
        let step = report.steps.iter().find(|step| step.op == "Weigh").unwrap();
        assert!(step.inputs[1].starts_with(w), "{:?}", step.inputs);
        assert_eq!(run(&model), expected(), "{core}");
    }
}

#[test]
fn a_kernel_for_one_scale_gets_no_weights_with_several() {
    let reason = "input \"w\" is i8[1,3,2,2] with an encoding for each position of axis 1, and the kernel takes one per \
                  tensor";
    let model = compile(weighed("Coarse"), &[Core::dsp(66), Core::CPU]).unwrap();
    let node = model.report().nodes.iter().find(|node| node.name == "weigh").unwrap();
    assert_eq!((node.core, node.refusals[0].reason.as_str()), (Core::CPU, reason));
    assert_eq!(run(&model), expected(), "the weights are what the dequantize node makes of them");
}

#[test]
fn a_bias_comes_without_an_encoding_per_axis() {
    let mut graph = Graph::new("biased");
    let x = graph.add_input("x", DType::F32, DIMS.map(DimSpec::Fixed));
    let x = through_quantized(&mut graph, x, "xq", 1.0 / 16.0);
    let y = graph.add_value("plain");
    let mut node = Node::new("Biased", 21, &[x], &[y]);
    "bias".clone_into(&mut node.name);
    graph.add_node(node);
    let stored = constant(&mut graph, "stored", &[3, 1, 1], &[1i8, 2, 3]);
    let scales = constant(&mut graph, "scales", &[3], &SCALES);
    let bias = graph.add_value("shift");
    let mut node = Node::new("DequantizeLinear", 21, &[stored, scales], &[bias]);
    node.attrs.push(("axis".to_owned(), Attr::Int(0)));
    graph.add_node(node);
    let sum = graph.add_value("sum");
    graph.add_node(Node::new("Add", 21, &[y, bias], &[sum]));
    let y = through_quantized(&mut graph, sum, "y", 1.0 / 8.0);
    graph.outputs.push(y);
    let model = compile(graph, &[Core::dsp(66), Core::CPU]).unwrap();
    let node = model.report().nodes.iter().find(|node| node.name == "bias").unwrap();
    assert_eq!((node.core, node.refusals.len()), (Core::dsp(66), 0));
}

/// Builds a graph that applies `Stored` to three bytes and `reader` to the result.
fn stored(axis: i64, zero: i64, reader: &str) -> Graph {
    let mut graph = Graph::new("stored");
    let x = graph.add_input("x", DType::U8, [DimSpec::Fixed(3)]);
    let kept = graph.add_value("kept");
    let mut node = Node::new("Stored", 21, &[x], &[kept]);
    node.attrs = vec![("axis".to_owned(), Attr::Int(axis)), ("zero".to_owned(), Attr::Int(zero))];
    "store".clone_into(&mut node.name);
    graph.add_node(node);
    let y = graph.add_value("y");
    let scales = constant(&mut graph, "scales", &[3], &[2.0f32, 4.0, 8.0]);
    let inputs = if reader == "DequantizeLinear" { vec![kept, scales] } else { vec![kept] };
    let mut node = Node::new(reader, 21, &inputs, &[y]);
    "read".clone_into(&mut node.name);
    if reader == "DequantizeLinear" {
        node.attrs.push(("axis".to_owned(), Attr::Int(0)));
    }
    graph.add_node(node);
    graph.outputs.push(y);
    graph
}

#[test]
fn an_encoding_that_inference_states_is_checked() {
    for (axis, zero, wanted) in [
        (1, 0, "is along axis 1 of u8[3]"),
        (0, 256, "of u8[3] has zero point 256 at 0, which u8 cannot hold"),
    ] {
        let error = compile(stored(axis, zero, "Read"), &[Core::CPU]).unwrap_err();
        let wanted = format!(
            "shape inference returns an invalid description of output 0: an encoding per axis {wanted}"
        );
        assert!(error.ends_with(&wanted), "{error}");
    }
}

#[test]
fn a_tensor_of_the_model_with_an_encoding_per_axis_is_for_who_takes_it() {
    let error = compile(stored(0, 3, "Read"), &[Core::CPU]).unwrap_err();
    let reason = "input \"x\" is u8[3] with an encoding for each position of axis 0, and the kernel takes one per tensor";
    assert_eq!(
        error,
        format!("node \"read\" (Read) runs on none of the cores asked for: cpu: {reason}")
    );
    // A dequantize node has scales of its own.
    let model = compile(stored(0, 3, "DequantizeLinear"), &[Core::CPU]).unwrap();
    let mut session = model.session().unwrap();
    session.input_mut::<u8>("x").unwrap().copy_from_slice(&[1, 2, 3]);
    session.run().unwrap();
    assert_eq!(session.output::<f32>("y").unwrap(), [2.0, 8.0, 24.0]);
}
