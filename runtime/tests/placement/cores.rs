//! Values that cross cores: how they are stored there, and who moves them.

use udo_api::guard::thread_heap_calls;
use udo_api::types::{F16, F32, U8};
use udo_api::{
    Buffers, Core, DType, Error, ExecError, FinalizeCx, GpuArg, GpuKernel, InferCx, Kernel,
    KernelDef, KernelInfo, Launch, Op, OpDef, OpSchema, PackageV1, Port, Quant, QuantMut, Scratch,
    Shape, WorkItem, WorkItemFn, Workspace, dsp_kernel, input, output, output_like,
};
use udo_engine::cores::{GpuStorage, OpenCl};
use udo_runtime::compile::Fallback;
use udo_runtime::graph::{Attr, DimSpec, Graph, Node, ValueId};
use udo_runtime::{CompileOptions, Model, Tensor};
use udo_test_support::compile::{built_in, compile_graph};

static PACKAGE: PackageV1 = PackageV1::new("Cores", "1.0.0")
    .ops(&[OpDef::of::<Double>(), OpDef::of::<TakeAll>()])
    .kernels(&[
        KernelDef::new::<TakeAllCpu>("TakeAll", Core::CPU),
        KernelDef::new::<DoubleDsp>("Double", Core::dsp(66)).ports(&[input(0, U8), output(0, U8)]),
        KernelDef::new::<GreedyDsp>("Double", Core::dsp(73)).ports(&[input(0, U8), output(0, U8)]),
        KernelDef::gpu::<DoubleGpu>("Double").ports(&[input(0, F32.or(F16)), output_like(0, 0)]),
    ]);

/// Twice its input, on the DSP and the GPU only.
struct Double;

impl Op for Double {
    const SCHEMA: OpSchema = OpSchema::new(
        "Double",
        &[Port::required("x", F32.or(F16).or(U8))],
        &[Port::required("y", F32.or(F16).or(U8))],
        &[],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

dsp_kernel!(DoubleDsp = double_impl(out: [u8], in: [u8], params: {}));

#[expect(clippy::needless_pass_by_value, reason = "outputs belong to the call")]
fn double_impl(
    out: QuantMut<'_, u8>,
    x: Quant<'_, u8>,
    mut vtcm: Scratch<'_>,
) -> Result<(), ExecError> {
    let doubled = vtcm.take::<f32>(x.data.len())?;
    for (d, &x_value) in doubled.iter_mut().zip(x.data) {
        *d = 2.0 * x.encoding.dequantize(x_value);
    }
    for (y, d) in out.data.iter_mut().zip(doubled) {
        *y = out.encoding.quantize(*d);
    }
    Ok(())
}

/// As it is, by a kernel of the CPU that wants what a DSP has.
struct TakeAll;

impl Op for TakeAll {
    const SCHEMA: OpSchema =
        OpSchema::new("TakeAll", &[Port::required("x", F32)], &[Port::required("y", F32)], &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

struct TakeAllCpu;

impl Kernel for TakeAllCpu {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn workspace(&self) -> Workspace {
        Workspace::ALL_VTCM
    }

    fn execute(&self, _: udo_api::Io<'_>) -> Result<(), ExecError> {
        Ok(())
    }
}

/// Wants more fast memory than there is.
struct GreedyDsp;

impl Kernel for GreedyDsp {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn workspace(&self) -> Workspace {
        Workspace::for_elements::<u8>(5 << 20)
    }

    fn execute(&self, _: udo_api::Io<'_>) -> Result<(), ExecError> {
        Ok(())
    }
}

struct DoubleGpu {
    len: usize,
}

impl GpuKernel for DoubleGpu {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(double_item);

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { len: cx.input(0)?.len() })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let launch = Launch::new("", "double").args([GpuArg::input(0), GpuArg::output(0)]);
        info.push_launch(launch.global_size([self.len, 1, 1]));
        Ok(())
    }
}

fn double_item(_: &DoubleGpu, item: WorkItem, buffers: &Buffers<'_>) -> Result<(), ExecError> {
    let i = item.global_id[0];
    buffers.store(0, i, 2.0 * buffers.load(0, i)?)
}

fn quantized(graph: &mut Graph, value: ValueId, name: &str, scale: f32, zero_point: u8) -> ValueId {
    let scalar = Shape::new(&[]).unwrap();
    let scale =
        graph.add_constant(&format!("{name}_scale"), Tensor::from_slice(scalar, &[scale]).unwrap());
    let zero = graph
        .add_constant(&format!("{name}_zero"), Tensor::from_slice(scalar, &[zero_point]).unwrap());
    let quantized = graph.add_value(&format!("{name}_codes"));
    graph.add_node(Node::new("QuantizeLinear", 17, &[value, scale, zero], &[quantized]));
    let real = graph.add_value(name);
    graph.add_node(Node::new("DequantizeLinear", 17, &[quantized, scale, zero], &[real]));
    real
}

fn double(graph: &mut Graph, x: ValueId, name: &str) -> ValueId {
    let y = graph.add_value(name);
    let mut node = Node::new("Double", 17, &[x], &[y]);
    node.name = format!("make_{name}");
    graph.add_node(node);
    y
}

/// x, quantized, doubled, quantized: a value in steps of 1/16, then in steps of 1/8.
fn encoded() -> Graph {
    let mut graph = Graph::new("encoded");
    let x = graph.add_input("x", DType::F32, [DimSpec::Fixed(4)]);
    let x = quantized(&mut graph, x, "xq", 1.0 / 16.0, 128);
    let y = double(&mut graph, x, "y");
    let y = quantized(&mut graph, y, "yq", 1.0 / 8.0, 128);
    graph.outputs.push(y);
    graph
}

fn plain() -> Graph {
    let mut graph = Graph::new("plain");
    let x = graph.add_input("x", DType::F32, [DimSpec::Fixed(4)]);
    let y = double(&mut graph, x, "yq");
    graph.outputs.push(y);
    graph
}

fn options(cores: &[Core]) -> CompileOptions {
    let mut options = CompileOptions::default();
    options.place.cores = cores.to_vec();
    options.place.profile.opencl = OpenCl::Off;
    options
}

fn compile(graph: Graph, options: &CompileOptions) -> Result<Model, String> {
    let mut operators = built_in();
    operators.add_static(&PACKAGE).unwrap();
    compile_graph(graph, &operators, options).map_err(|e| e.to_string())
}

const X: [f32; 4] = [-1.0, 0.0625, 0.5, 3.0];

fn run(model: &Model) -> Vec<f32> {
    let mut session = model.session().unwrap();
    session.input_mut::<f32>("x").unwrap().copy_from_slice(&X);
    session.run().unwrap();
    let before = thread_heap_calls();
    session.run().unwrap();
    assert_eq!(thread_heap_calls(), before, "a run meets the heap");
    session.output::<f32>("yq").unwrap().to_vec()
}

fn steps(model: &Model) -> Vec<String> {
    let line = |s: &udo_runtime::compile::StepReport| {
        format!("{} {} {}->{}", s.op, s.core, s.inputs[0], s.outputs[0])
    };
    model.report().steps.iter().map(line).collect()
}

#[test]
fn the_dsp_holds_values_with_the_encodings_that_the_model_states() {
    let model = compile(encoded(), &options(&[Core::DSP_V68, Core::CPU])).unwrap();
    assert_eq!(
        steps(&model),
        ["Transfer cpu f32[4]->u8[4]", "Double dsp:v68 u8[4]->u8[4]", "Transfer cpu u8[4]->f32[4]",]
    );
    assert_eq!(run(&model), [-2.0, 0.125, 1.0, 6.0]);
    let dsp = model.report().memories.iter().find(|m| m.memory == "dsp").unwrap();
    assert_eq!(dsp.scratch_bytes, 4 << 20, "a plain function gets all of the fast memory");
}

/// Runs [-1, 2] on this core; quantizes the input or its maximum, and the sum of the input with itself.
fn itself_and_sum(pool: Option<&str>, zero_points: [u8; 2], core: Core) -> [Vec<f32>; 2] {
    let mut graph = Graph::new("shared");
    let dims = [1, 1, 1, 2].map(DimSpec::Fixed);
    let x = graph.add_input("x", DType::F32, dims);
    let pooled = pool.map(|op| {
        let most = graph.add_value("most");
        let mut node = Node::new(op, 17, &[x], &[most]);
        node.attrs.push(("kernel_shape".to_owned(), Attr::Ints(vec![1, 2])));
        graph.add_node(node);
        most
    });
    let sum = graph.add_value("sum");
    graph.add_node(Node::new("Add", 17, &[x, x], &[sum]));
    let [first, second] = zero_points;
    let itself = quantized(&mut graph, pooled.unwrap_or(x), "xq", 0.1, first);
    let sum = quantized(&mut graph, sum, "sq", 0.1, second);
    graph.outputs = vec![itself, sum];
    let mut options = options(&[core]);
    options.place.fallback = Fallback::To(Core::CPU);
    let mut session = compile(graph, &options).unwrap().session().unwrap();
    session.input_mut::<f32>("x").unwrap().copy_from_slice(&[-1.0, 2.0]);
    session.run().unwrap();
    ["xq", "sq"].map(|y| session.output::<f32>(y).unwrap().to_vec())
}

#[test]
fn an_encoding_does_not_reach_others_who_read_the_value() {
    for pool in [Some("MaxPool"), None] {
        let wanted = itself_and_sum(pool, [0, 128], Core::CPU);
        let found = itself_and_sum(pool, [0, 128], Core::DSP_V68);
        assert_eq!(found, wanted, "{pool:?}");
        assert_eq!(found[1], [-2.0, 4.0]);
    }
}

#[test]
fn operators_that_keep_an_encoding_copy_values_for_all_consumers() {
    let on = |core| {
        let mut graph = Graph::new("kept");
        let x = graph.add_input("x", DType::F32, [DimSpec::Fixed(4)]);
        let x = quantized(&mut graph, x, "xq", 1.0 / 16.0, 128);
        let kept = graph.add_value("kept");
        graph.add_node(Node::new("Identity", 17, &[x], &[kept]));
        let y = quantized(&mut graph, kept, "yq", 1.0 / 8.0, 100);
        graph.outputs.push(y);
        run(&compile(graph, &options(&[core, Core::CPU])).unwrap())
    };
    assert_eq!(on(Core::DSP_V68), [-1.0, 0.0, 0.5, 3.0]);
    assert_eq!(on(Core::CPU), [-1.0, 0.0, 0.5, 3.0]);
}

#[test]
fn a_real_value_without_an_encoding_is_refused_on_the_dsp() {
    let reason =
        "dsp:v68: input \"x\" is f32[4], expected u8, and the model has no encoding for it";
    let error = compile(plain(), &options(&[Core::DSP_V68])).unwrap_err();
    assert_eq!(
        error,
        format!("node \"make_yq\" (Double) runs on none of the cores asked for: {reason}")
    );
    let error = compile(plain(), &options(&[Core::DSP_V68, Core::CPU])).unwrap_err();
    assert!(error.ends_with(&format!("{reason}; cpu: no kernel")), "no core is left out: {error}");
}

#[test]
fn more_scratch_than_the_fast_memory_is_refused() {
    let all_refuse = "node \"make_y\" (Double) runs on none of the cores asked for";
    let error = compile(encoded(), &options(&[Core::dsp(75)])).unwrap_err();
    let bytes = "needs 5242880 bytes of scratch, the core has 4194304";
    assert_eq!(error, format!("{all_refuse}: dsp:v75: {bytes}"));
    let model = compile(encoded(), &options(&[Core::dsp(75), Core::DSP_V68])).unwrap();
    assert_eq!(
        model.report().nodes.iter().find(|of| of.name == "make_y").unwrap().core,
        Core::DSP_V68
    );
    let mut graph = Graph::new("all");
    let x = graph.add_input("x", DType::F32, [DimSpec::Fixed(4)]);
    let y = graph.add_value("y");
    graph.add_node(Node::new("TakeAll", 17, &[x], &[y]));
    graph.outputs.push(y);
    let error = compile(graph, &options(&[Core::CPU])).unwrap_err();
    let why = "cpu: needs all fast memory, but the core has no fast memory";
    assert!(error.ends_with(why), "{error}");
    let mut small = options(&[Core::DSP_V68, Core::CPU]);
    small.place.profile.vtcm_bytes = 8;
    let mut session = compile(encoded(), &small).unwrap().session().unwrap();
    let error = session.run().unwrap_err().to_string();
    assert!(
        error.ends_with(
            "requested more scratch or geometry than it declared: requested 16 bytes, 8 are left"
        ),
        "{error}"
    );
}

#[test]
fn the_gpu_may_store_halves() {
    let gpu = options(&[Core::GPU]);
    let model = compile(plain(), &gpu).unwrap();
    assert_eq!(run(&model), [-2.0, 0.125, 1.0, 6.0]);
    assert_eq!(
        steps(&model),
        ["Transfer cpu f32[4]->f32[4]", "Double gpu f32[4]->f32[4]", "Transfer cpu f32[4]->f32[4]"],
        "its memory is its own"
    );
    let mut halves = gpu;
    halves.place.profile.gpu_storage = GpuStorage::F16;
    let model = compile(plain(), &halves).unwrap();
    assert_eq!(run(&model), [-2.0, 0.125, 1.0, 6.0]);
    assert_eq!(steps(&model)[1], "Double gpu f16[4]->f16[4]");
    assert_eq!(model.report().nodes[0].backend.as_deref(), Some("work items on host threads"));
}

#[test]
fn falling_back_is_asked_for_and_reported() {
    let hardmax = || {
        let mut graph = Graph::new("hardmax");
        let x = graph.add_input("x", DType::F32, [DimSpec::Fixed(2), DimSpec::Fixed(2)]);
        let y = graph.add_value("yq");
        graph.add_node(Node::new("Hardmax", 17, &[x], &[y]));
        graph.outputs.push(y);
        graph
    };
    let mut gpu = options(&[Core::GPU]);
    let error = compile(hardmax(), &gpu).unwrap_err();
    assert_eq!(
        error,
        "node \"Hardmax_0\" (Hardmax) runs on none of the cores asked for: gpu: no kernel"
    );
    gpu.place.fallback = Fallback::To(Core::CPU);
    let model = compile(hardmax(), &gpu).unwrap();
    let node = &model.report().nodes[0];
    assert!(node.fell_back);
    assert_eq!((node.core, node.refusals[0].reason.as_str()), (Core::CPU, "no kernel"));
}

#[test]
fn inputs_and_outputs_are_checked_by_name_type_and_shape() {
    let mut session = compile(plain(), &options(&[Core::GPU])).unwrap().session().unwrap();
    let wrong = Tensor::zeros(DType::F32, Shape::new(&[5]).unwrap()).unwrap();
    let cases = [
        (
            session.set_input("z", &wrong).unwrap_err().to_string(),
            "the model has no input \"z\", it has \"x\"",
        ),
        (
            session.set_input("x", &wrong).unwrap_err().to_string(),
            "input \"x\" is f32[5], expected f32[4]",
        ),
        (
            session.input_mut::<i64>("x").unwrap_err().to_string(),
            "input \"x\" is i64, expected f32[4]",
        ),
        (
            session.output::<u8>("yq").unwrap_err().to_string(),
            "output \"yq\" is u8, expected f32[4]",
        ),
        (
            session.output_tensor("y").unwrap_err().to_string(),
            "the model has no output \"y\", it has \"yq\"",
        ),
    ];
    for (found, wanted) in cases {
        assert_eq!(found, wanted);
    }
}
