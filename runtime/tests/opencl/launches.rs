//! Kernels of several launches, with scratch, local memory and packed constants.

use std::sync::OnceLock;

use udo_api::types::{F16, F32};
use udo_api::{
    Buffers, Core, DType, Error, ExecError, FinalizeCx, GpuArg, GpuKernel, InferCx, KernelDef,
    KernelInfo, Launch, Op, OpDef, OpSchema, PackageV1, Packed, Param, Port, Shape, Sources,
    Status, WorkItem, WorkItemFn, input, output_like,
};
use udo_compile::place::PlaceError;
use udo_engine::cores::{GpuStorage, OpenCl, Profile};
use udo_runtime::compile::{CompileError, PlaceOptions};
use udo_runtime::graph::{Attr, DimSpec, Graph, Node};
use udo_runtime::{CompileOptions, Model, Tensor};
use udo_test_support::graphs;

use crate::{backend, device, expected_backend};

static PACKAGE: PackageV1 = PackageV1::new("Launching", "1.0.0")
    .ops(&[OpDef::of::<Weighted>(), OpDef::of::<Lone>()])
    .kernels(&[
        KernelDef::gpu::<WeightedGpu>("Weighted")
            .ports(&[input(0, F32.or(F16)), output_like(0, 0)]),
        KernelDef::gpu::<LoneGpu>("Lone").ports(&[input(0, F32.or(F16)), output_like(0, 0)]),
    ])
    .guarded();

const INPUTS: &[Port] = &[Port::required("x", F32), Port::required("w", F32)];
const OUTPUTS: &[Port] = &[Port::required("y", F32)];
const PARAMS: &[Param] = &[Param::text("variant")];

/// `2 * w * x / sum(x) + 15`, along the last axis.
struct Weighted;

impl Op for Weighted {
    const SCHEMA: OpSchema = OpSchema::new("Weighted", INPUTS, OUTPUTS, PARAMS);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

/// An operator whose kernel has one work item for two launches.
struct Lone;

impl Op for Lone {
    const SCHEMA: OpSchema = OpSchema::new("Lone", INPUTS, OUTPUTS, PARAMS);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        Weighted::infer(cx)
    }
}

/// One group sums a row up in local memory.
const SOURCE: &str = "
__attribute__((reqd_work_group_size(8, 1, 1)))
__kernel void sums(__global const UDO_STORAGE *x, __global float *sums, __local float *parts, uint cols) {
    const size_t lane = get_local_id(0), row = get_global_id(1);
    float sum = 0.0f;
    for (size_t i = lane; i < cols; i += 8) sum += UDO_LOAD(x, row * cols + i);
    parts[lane] = sum;
    for (size_t half_len = 4; half_len > 0; half_len /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < half_len) parts[lane] += parts[lane + half_len];
    }
    if (lane == 0) sums[row] = parts[0];
}

__kernel void scale(__global const UDO_STORAGE *x, __global const float *sums, __global const float *weights,
                    __global UDO_STORAGE *y) {
    const size_t col = get_global_id(0), row = get_global_id(1), i = row * get_global_size(0) + col;
    UDO_STORE(y, i, UDO_LOAD(x, i) * weights[col] / sums[row]);
}
";

const LANES: usize = 8;
const TERMS: u8 = 30;

/// OpenCL C that adds as many numbers as it has arguments for.
fn added() -> String {
    let names: Vec<String> = (0..TERMS).map(|term| format!("a{term}")).collect();
    let (params, sum) = (names.join(", float "), names.join(" + "));
    format!(
        "__kernel void add(__global UDO_STORAGE *y, float {params}) {{\n\
         const size_t i = get_global_id(0);\n\
         UDO_STORE(y, i, UDO_LOAD(y, i) + HALF_OF({sum}));\n}}\n"
    )
}

/// A packed constant that only a kernel with two of them has.
static FOREIGN: OnceLock<Packed<f32>> = OnceLock::new();

struct WeightedGpu {
    variant: String,
    rows: usize,
    cols: usize,
    weights: Packed<f32>,
}

fn double(_: &[u64], sources: &Sources<'_>, doubled: &mut [f32]) -> Result<(), Error> {
    for (to, from) in doubled.iter_mut().zip(sources.get::<f32>(0)?) {
        *to = 2.0 * from;
    }
    Ok(())
}

impl GpuKernel for WeightedGpu {
    const WORK_ITEMS: &'static [WorkItemFn<Self>] = &[sums_item, scale_item, add_item];

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let &[rows, cols] = x.shape() else { return Err(Error::new("expected rows and columns")) };
        let weights = cx.pack(&[1], &[], cols, double)?;
        if cx.text("variant")? == "two constants" {
            FOREIGN.get_or_init(|| cx.pack(&[1], &[1], cols, double).unwrap());
        }
        Ok(Self { variant: cx.text("variant")?.to_owned(), rows, cols, weights })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let cols = u32::try_from(self.cols).map_err(|e| Error::new(e.to_string()))?;
        // The second scratch starts where no float could, were they not aligned.
        info.push_scratch(5);
        info.push_scratch(self.rows * size_of::<f32>());
        let sums = Launch::new(SOURCE, "sums")
            .args([GpuArg::input(0), GpuArg::scratch(1)])
            .args([GpuArg::local(LANES * size_of::<f32>()), GpuArg::u32(cols)])
            .global_size([LANES, self.rows, 1])
            .local_size([LANES, 1, 1]);
        let scale = Launch::new(SOURCE, "scale")
            .args([GpuArg::input(0), GpuArg::scratch(1)])
            .args([GpuArg::packed(self.weights), GpuArg::output(0)])
            .global_size([self.cols, self.rows, 1]);
        let add = Launch::new(added(), "add")
            .options(format!("-DHALF_OF(x)=({}*(x))", 0.5))
            .args([GpuArg::output(0)])
            .args((0..TERMS).map(|_| GpuArg::f32(1.0)))
            .global_size([self.rows * self.cols, 1, 1]);
        info.launches = vec![sums, scale, add];
        self.spoil(info);
        Ok(())
    }
}

impl WeightedGpu {
    /// Says what cannot be, as the variant has it.
    fn spoil(&self, info: &mut KernelInfo) {
        let [sums, scale, _] = &mut info.launches[..] else { return };
        match self.variant.as_str() {
            "no launch" => info.launches.clear(),
            "two launches" => info.launches.truncate(2),
            "no work items" => scale.global_size[1] = 0,
            "no group" => sums.local_size = Some([8, 0, 1]),
            "no input" => scale.args[0] = GpuArg::input(2),
            "no output" => scale.args[3] = GpuArg::output(1),
            "no scratch" => scale.args[1] = GpuArg::scratch(2),
            "no constant" => scale.args[2] = GpuArg::packed(*FOREIGN.get().unwrap()),
            "no local memory" => sums.args[2] = GpuArg::local(0),
            "local for global" => scale.args[2] = GpuArg::local(64),
            "global for local" => sums.args[2] = GpuArg::scratch(0),
            _ => {}
        }
    }
}

fn add_item(_: &WeightedGpu, item: WorkItem, buffers: &Buffers<'_>) -> Result<(), ExecError> {
    let i = item.global_id[0];
    buffers.store(0, i, buffers.load_output(0, i)? + f32::from(TERMS) / 2.0)
}

fn sums_item(kernel: &WeightedGpu, item: WorkItem, buffers: &Buffers<'_>) -> Result<(), ExecError> {
    let [lane, row, _] = item.global_id;
    if lane != 0 {
        return Ok(());
    }
    let mut sum = 0.0;
    for i in 0..kernel.cols {
        sum += buffers.load(0, row * kernel.cols + i)?;
    }
    buffers.set_scratch(1, row, sum)
}

fn scale_item(
    kernel: &WeightedGpu,
    item: WorkItem,
    buffers: &Buffers<'_>,
) -> Result<(), ExecError> {
    let [col, row, _] = item.global_id;
    let i = row * kernel.cols + col;
    let weight = buffers.packed(kernel.weights)?[col];
    buffers.store(0, i, buffers.load(0, i)? * weight / buffers.get_scratch::<f32>(1, row)?)
}

struct LoneGpu;

impl GpuKernel for LoneGpu {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|_, _, buffers| buffers.set_scratch(0, 0, 0.0f32));

    fn operation(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        for _ in 0..2 {
            info.push_launch(Launch::new("__kernel void lone() {}", "lone"));
        }
        Ok(())
    }
}

const COLS: usize = 16;

fn compile(op: &str, variant: &str, rows: usize, profile: Profile) -> Result<Model, CompileError> {
    let mut graph = Graph::new("launches");
    let x = graph.add_input("x", DType::F32, [rows, COLS].map(DimSpec::Fixed));
    let weights = [1.0f32, 2.0, 3.0, 4.0].repeat(COLS / 4);
    let weights = Tensor::from_slice(Shape::new(&[COLS]).unwrap(), &weights).unwrap();
    let w = graph.add_constant("w", weights);
    let y = graph.add_value("y");
    let mut node = Node::new(op, 0, &[x, w], &[y]);
    node.attrs.push(("variant".to_owned(), Attr::Text(variant.to_owned())));
    graph.add_node(node);
    graph.outputs.push(y);
    let place = PlaceOptions { cores: vec![Core::GPU], profile, ..PlaceOptions::default() };
    graphs::compile(graph, &PACKAGE, &CompileOptions { place, ..CompileOptions::default() })
}

/// A row whose elements sum up to 64, so that all results are exact in 16-bit storage.
fn row(shift: usize) -> Vec<f32> {
    let mut row = [1.0, 7.0, 2.0, 6.0, 3.0, 5.0, 4.0, 4.0].repeat(2);
    row.rotate_left(shift % COLS);
    row
}

#[test]
fn launches_run_in_order_and_share_scratch() {
    for gpu_storage in [GpuStorage::F32, GpuStorage::F16] {
        for opencl in [OpenCl::Auto, OpenCl::Off] {
            let profile = Profile { opencl, gpu_storage, ..Profile::default() };
            let model = compile("Weighted", "", 33, profile).unwrap();
            if opencl == OpenCl::Auto {
                assert_eq!(backend(&model), Some(expected_backend().as_str()));
            }
            let mut session = model.session().unwrap();
            for run in 0..3 {
                let x: Vec<f32> = (0..33).flat_map(|index| row(run + index)).collect();
                session.input_mut::<f32>("x").unwrap().copy_from_slice(&x);
                session.run().unwrap();
                let weights = [1.0, 2.0, 3.0, 4.0].into_iter().cycle();
                let wanted = x.iter().zip(weights).map(|(x, w)| 2.0 * w * x / 64.0 + 15.0);
                let wanted: Vec<f32> = wanted.collect();
                assert_eq!(session.output::<f32>("y").unwrap(), wanted, "run {run}, {profile:?}");
            }
        }
    }
}

#[test]
fn empty_tensors_launch_nothing() {
    for opencl in [OpenCl::Auto, OpenCl::Off] {
        let model = compile("Weighted", "", 0, Profile { opencl, ..Profile::default() }).unwrap();
        let mut session = model.session().unwrap();
        session.run().unwrap();
        assert_eq!(session.output::<f32>("y").unwrap(), [0.0f32; 0]);
    }
}

#[test]
fn invalid_launches_are_refused_with_and_without_a_device() {
    let cases = [
        ("Weighted", "no launch", "the kernel has no launches, expected at least one"),
        ("Weighted", "two launches", "the kernel has 2 launches and work items for 3"),
        ("Lone", "", "the kernel has 2 launches and work items for 1"),
        (
            "Weighted",
            "no work items",
            "launch 1 has [16, 0, 1] work items, but an output has elements",
        ),
        ("Weighted", "no group", "launch 0 has groups of [8, 0, 1] work items"),
        ("Weighted", "no input", "launch 1 has argument 0: input 2, but there are only 2"),
        ("Weighted", "no output", "launch 1 has argument 3: output 1, but there are only 1"),
        ("Weighted", "no scratch", "launch 1 has argument 1: scratch 2, but there are only 2"),
        (
            "Weighted",
            "no constant",
            "launch 1 has argument 2: packed constant 1, but there are only 1",
        ),
        ("Weighted", "no local memory", "launch 0 has argument 2: local memory of 0 bytes"),
    ];
    compile("Weighted", "two constants", 4, Profile::default()).unwrap();
    for (op, variant, why) in cases {
        for opencl in [OpenCl::Auto, OpenCl::Off] {
            let profile = Profile { opencl, ..Profile::default() };
            let error = compile(op, variant, 4, profile).expect_err(variant);
            let CompileError::Place(PlaceError::Finalize { refusal, .. }) = &error else {
                panic!("{variant}: {error:?}");
            };
            assert_eq!((refusal.status, refusal.message.as_str()), (Status::BAD_CALL, why));
            let end = format!("{op} on gpu breaks the contract in finalize: {why}");
            assert!(error.to_string().ends_with(&end), "{error}");
        }
    }
}

#[test]
fn local_memory_goes_to_local_parameters_alone() {
    let cases = [
        (
            "local for global",
            "argument 2 of kernel \"scale\" is 64 bytes of local memory, expected \"float*\", which is not local",
        ),
        (
            "global for local",
            "argument 2 of kernel \"sums\" is scratch 0, expected \"float*\", which is local",
        ),
    ];
    for (variant, message) in cases {
        let outcome = compile("Weighted", variant, 4, Profile::default());
        if device().is_none() {
            outcome.expect("work items have no local memory");
            continue;
        }
        let text = crate::chain(&outcome.expect_err(variant));
        assert!(text.ends_with(message), "{variant}: {text}");
    }
}
