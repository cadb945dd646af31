//! Operators of packages in float models on the DSP: each of their ports is stored as its type there says, constants and
//! what has its channels last too.

use std::num::NonZero;

use udo_api::types::{F32, U8, U16};
use udo_api::{
    Core, CoreKind, CoreTypes, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef,
    Layout, Op, OpDef, OpSchema, PackageV1, Port, Quant, QuantMut, Scratch, Shape, Value,
    dsp_kernel, input, output,
};
use udo_compile::compiler::Resources;
use udo_engine::operators::Operators;
use udo_runtime::compile::{BindOptions, PlaceOptions, RangeSource};
use udo_runtime::device::Devices;
use udo_runtime::graph::Graph;
use udo_runtime::quant::{FloatOps, Quantizer, Settings};
use udo_runtime::{CompileOptions, LoadOptions, Model, Runtime, Tensor};
use udo_test_support::compile::{built_in, resolve_graph};

const BYTES: &[CoreTypes] = &[CoreTypes::new(Core::CPU, F32), CoreTypes::new(Core::DSP_V68, U8)];
const WIDE: &[CoreTypes] = &[CoreTypes::new(Core::CPU, F32), CoreTypes::new(Core::DSP_V68, U16)];

const V73: Core = Core::dsp(73);
const LATER: &[CoreTypes] = &[CoreTypes::new(Core::CPU, F32), CoreTypes::new(V73, U8)];

/// `y = x * gain + bias` with a gain for each channel, which lies last, and `z = x + bias`.
struct Shade;

impl Op for Shade {
    const SCHEMA: OpSchema = OpSchema::new(
        "Shade",
        &[
            Port::required("x", F32.or(U8)).per_core(BYTES).layout(Layout::Nhwc),
            Port::required("gain", F32.or(U8)).per_core(BYTES).layout(Layout::Nhwc),
            Port::required("bias", F32).layout(Layout::Nhwc),
        ],
        &[
            Port::required("y", F32.or(U16)).per_core(WIDE).layout(Layout::Nhwc),
            Port::required("z", F32).layout(Layout::Nhwc),
        ],
        &[],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (x, gain) = (cx.input(0)?, cx.input(1)?);
        if x.shape().last() != gain.shape().last() {
            return Err(Error::new("expected a gain for each channel, which lies last"));
        }
        cx.set_output(0, x)?;
        cx.set_output(1, x)
    }
}

struct ShadeCpu;

impl Kernel for ShadeCpu {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let (x, gain) = (inputs.get::<f32>(0)?, inputs.get::<f32>(1)?);
        let bias = inputs.get::<f32>(2)?;
        let (y, z) = (outputs.take::<f32>(0)?, outputs.take::<f32>(1)?);
        for at in 0..x.len() {
            y[at] = x[at] * gain[at % gain.len()] + bias[at];
            z[at] = x[at] + bias[at];
        }
        Ok(())
    }
}

dsp_kernel!(ShadeDsp = shade(out: [u16, f32], in: [u8, u8, f32], params: {}));

#[expect(
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    reason = "what functions of the DSP are"
)]
fn shade(
    y: QuantMut<'_, u16>,
    z: QuantMut<'_, f32>,
    x: Quant<'_, u8>,
    gain: Quant<'_, u8>,
    bias: Quant<'_, f32>,
    _: Scratch<'_>,
) -> Result<(), ExecError> {
    for at in 0..x.data.len() {
        let number = x.encoding.dequantize(x.data[at]);
        let gain = gain.encoding.dequantize(gain.data[at % gain.data.len()]);
        y.data[at] = y.encoding.quantize(number * gain + bias.data[at]);
        z.data[at] = number + bias.data[at];
    }
    Ok(())
}

/// The larger of two operands, with the encoding of the first; later cores have it.
struct Larger;

impl Op for Larger {
    const SCHEMA: OpSchema = OpSchema::new(
        "Larger",
        &[
            Port::required("x", F32.or(U8)).per_core(LATER),
            Port::optional("least", F32.or(U8)).per_core(LATER).default(Value::floats(&[0.25])),
        ],
        &[Port::required("y", F32.or(U8)).per_core(LATER)],
        &[],
    )
    .facts(udo_api::Facts::SAME_ENCODING);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

struct LargerCpu;

impl Kernel for LargerCpu {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let (x, least) = (inputs.get::<f32>(0)?, inputs.get::<f32>(1)?);
        let y = outputs.take::<f32>(0)?;
        for at in 0..x.len() {
            y[at] = x[at].max(least[at % least.len()]);
        }
        Ok(())
    }
}

dsp_kernel!(LargerDsp = larger(out: [u8], in: [u8, u8], params: {}));

#[expect(
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    reason = "what functions of the DSP are"
)]
fn larger(
    y: QuantMut<'_, u8>,
    x: Quant<'_, u8>,
    least: Quant<'_, u8>,
    _: Scratch<'_>,
) -> Result<(), ExecError> {
    for at in 0..x.data.len() {
        let least = least.encoding.dequantize(least.data[at % least.data.len()]);
        y.data[at] = y.encoding.quantize(x.encoding.dequantize(x.data[at]).max(least));
    }
    Ok(())
}

/// Twice as much, of 16 bits.
struct Wide;

impl Op for Wide {
    const SCHEMA: OpSchema = OpSchema::new(
        "Wide",
        &[Port::required("x", F32.or(U16)).per_core(WIDE)],
        &[Port::required("y", F32.or(U16)).per_core(WIDE)],
        &[],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

struct WideCpu;

impl Kernel for WideCpu {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let (x, y) = (inputs.get::<f32>(0)?, outputs.take::<f32>(0)?);
        y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
        Ok(())
    }
}

dsp_kernel!(WideDsp = wide(out: [u16], in: [u16], params: {}));

#[expect(
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    reason = "what functions of the DSP are"
)]
fn wide(y: QuantMut<'_, u16>, x: Quant<'_, u16>, _: Scratch<'_>) -> Result<(), ExecError> {
    for (to, of) in y.data.iter_mut().zip(x.data) {
        *to = y.encoding.quantize(2.0 * x.encoding.dequantize(*of));
    }
    Ok(())
}

static PACKAGE: PackageV1 = PackageV1::new("Shades", "1.0.0")
    .ops(&[OpDef::of::<Shade>(), OpDef::of::<Larger>(), OpDef::of::<Wide>()])
    .kernels(&[
        KernelDef::new::<WideCpu>("Wide", Core::CPU).ports(&[input(0, F32), output(0, F32)]),
        KernelDef::new::<WideDsp>("Wide", Core::DSP_V68).ports(&[input(0, U16), output(0, U16)]),
        KernelDef::new::<ShadeCpu>("Shade", Core::CPU).ports(&[
            input(0, F32),
            input(1, F32),
            input(2, F32),
            output(0, F32),
            output(1, F32),
        ]),
        KernelDef::new::<ShadeDsp>("Shade", Core::DSP_V68).ports(&[
            input(0, U8),
            input(1, U8),
            input(2, F32),
            output(0, U16),
            output(1, F32),
        ]),
        KernelDef::new::<LargerCpu>("Larger", Core::CPU).ports(&[
            input(0, F32),
            input(1, F32),
            output(0, F32),
        ]),
        KernelDef::new::<LargerDsp>("Larger", V73).ports(&[
            input(0, U8),
            input(1, U8),
            output(0, U8),
        ]),
    ]);

/// The gain is a constant, which lies in the model's order as any other value does.
const SHADED: &str = "graph shaded
  input x: f32[1,2,3,4]
  constant gain: f32[1,2,1,1]{1.5,-0.5}
  a = Relu@17(x)
  b = Sigmoid@17(x)
  y, z = Shade@1(a, gain, b) # shade
  output y
  output z
";

const LARGER: &str = "graph larger
  input x: f32[1,2,3,4]
  constant least: f32[4]{0.25,-0.5,0.125,0.75}
  a = AveragePool@17(x) kernel_shape=[1,1]
  y = Larger@1(a, least) # larger
  output y
";

fn operators() -> Operators {
    let mut operators = built_in();
    operators.add_static(&PACKAGE).unwrap();
    operators
}

fn compile(graph: Graph, cores: &[Core]) -> Model {
    let place = PlaceOptions { cores: cores.to_vec(), ..PlaceOptions::default() };
    let range_source = RangeSource::Random(NonZero::new(4).unwrap());
    let options = CompileOptions { place, range_source, ..CompileOptions::default() };
    Runtime::from_parts(operators(), Devices::default())
        .load(graph, &LoadOptions::from(options.clone()))
        .unwrap()
}

/// Numbers from -1 to 1.
fn x() -> Tensor {
    let numbers: Vec<f32> = (0..24u8).map(|at| f32::from(at * 5 % 24) / 12.0 - 1.0).collect();
    Tensor::from_slice(Shape::new(&[1, 2, 3, 4]).unwrap(), &numbers).unwrap()
}

fn results(model: &Model) -> Vec<f32> {
    let mut session = model.session().unwrap();
    session.set_input("x", &x()).unwrap();
    session.run().unwrap();
    let outputs = model.outputs().iter();
    outputs.flat_map(|name| session.output::<f32>(name).unwrap().to_vec()).collect()
}

/// How a node's operands and results are where it runs.
fn tensors(model: &Model, node: &str) -> Vec<String> {
    let step = model.report().steps.iter().find(|step| step.name == node).unwrap();
    assert_eq!(step.core.kind(), Some(CoreKind::Dsp), "{node}");
    step.inputs.iter().chain(&step.outputs).cloned().collect()
}

fn assert_close(found: &[f32], wanted: &[f32], within: f32) {
    assert_eq!(found.len(), wanted.len());
    let off = found.iter().zip(wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(off <= within, "off by {off}: {found:?}, expected {wanted:?}");
    assert!(off > 0.0, "it was quantized");
}

#[test]
fn each_port_of_a_package_is_stored_as_its_type_on_the_dsp() {
    let graph = Graph::parse(SHADED).unwrap();
    let wanted = results(&compile(graph.clone(), &[Core::CPU]));
    let model = compile(graph, &[Core::DSP_V68]);
    assert_eq!(
        tensors(&model, "shade"),
        ["u8[1,3,4,2]", "u8[1,1,1,2]", "f32[1,3,4,2]", "u16[1,3,4,2]", "f32[1,3,4,2]"]
    );
    assert_close(&results(&model), &wanted, 0.02);
}

#[test]
fn parts_of_a_value_for_ports_of_other_types_are_stored_alike() {
    let text = "graph parts
  input x: f32[1,2,3,4]
  constant gain: f32[1,1,1,1]{1.5}
  p, q = Split@18(x) axis=1 num_outputs=2
  y = Wide@1(q) # wide
  a, z = Shade@1(p, gain, p) # shade
  output y
  output a
";
    let graph = Graph::parse(text).unwrap();
    let wanted = results(&compile(graph.clone(), &[Core::CPU]));
    let model = compile(graph, &[Core::DSP_V68, Core::CPU]);
    assert_eq!(tensors(&model, "shade")[0], "u8[1,3,4,1]");
    assert_close(&results(&model), &wanted, 0.03);
}

#[test]
fn constants_next_to_encoding_preserving_nodes_are_quantized() {
    let graph = Graph::parse(LARGER).unwrap();
    let wanted = results(&compile(graph.clone(), &[Core::CPU]));
    let model = compile(graph, &[V73]);
    assert_eq!(tensors(&model, "larger"), ["u8[1,2,3,4]", "u8[4]", "u8[1,2,3,4]"]);
    assert_close(&results(&model), &wanted, 0.02);
}

#[test]
fn an_output_that_a_node_has_to_have_is_named() {
    let graph = Graph::parse(&SHADED.replace("y, z = ", "y = ").replace("  output z\n", ""));
    let error = resolve_graph(graph.unwrap(), &operators(), &BindOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "node \"shade\" (Shade): output \"z\" is missing");
}

#[test]
fn a_default_is_stored_as_the_core_takes_it() {
    let graph = Graph::parse(&LARGER.replace("(a, least)", "(a)")).unwrap();
    let wanted = results(&compile(graph.clone(), &[Core::CPU]));
    let model = compile(graph, &[V73]);
    assert_eq!(tensors(&model, "larger"), ["u8[1,2,3,4]", "u8[1]", "u8[1,2,3,4]"]);
    assert_close(&results(&model), &wanted, 0.02);
}

#[test]
fn kernels_for_later_cores_alone_count_there() {
    let quantizer = |core| {
        let graph = Graph::parse(LARGER).unwrap();
        let settings = Settings { core, ..Settings::default() };
        let made =
            Quantizer::new(graph, &Resources::new(operators()), &BindOptions::default(), settings);
        made.map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(
        quantizer(Core::DSP_V68).unwrap_err(),
        "no quantized form of Larger (node \"larger\")"
    );
    for core in [V73, Core::dsp(81), Settings::default().core] {
        assert_eq!(quantizer(core), Ok(()), "{core}");
    }
}

#[test]
fn a_quantized_model_says_the_same_on_the_cpu_and_on_the_dsp() {
    let graph = Graph::parse(SHADED).unwrap();
    let wanted = results(&compile(graph.clone(), &[Core::CPU]));
    let settings = Settings { float_ops: FloatOps::Refused, ..Settings::default() };
    let resources = Resources::new(operators());
    let quantizer = Quantizer::new(graph, &resources, &BindOptions::default(), settings).unwrap();
    let mut calibration = quantizer.calibration(&resources, &CompileOptions::default()).unwrap();
    calibration.add(&[("x".to_owned(), x())]).unwrap();
    let graph = quantizer.finish(&calibration).unwrap().graph;
    let [cpu, dsp] =
        [Core::CPU, Core::DSP_V68].map(|core| results(&compile(graph.clone(), &[core])));
    assert_close(&cpu, &wanted, 0.02);
    let off = cpu.iter().zip(&dsp).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(off < 0.001, "{cpu:?} {dsp:?}");
}
