//! GPU kernels of packages: on the OpenCL device where there is one, as work items otherwise.
//!
//! Without a device these tests check what is promised then; `UDO_REQUIRE_OPENCL=1` makes its absence a failure.
//!
//! It has a process of its own: devices are looked for once in each, some tests run this program again with another environment, and
//! heap calls of all threads are counted.

#![expect(clippy::unwrap_used, reason = "helpers that fail, fail the test")]

mod launches;
mod operators;

use std::error::Error as _;
use std::process::Command;
use std::sync::Arc;

use udo_api::guard::heap_calls;
use udo_api::types::{F16, F32};
use udo_api::{
    Buffers, Core, DType, Error, ExecError, FinalizeCx, GpuArg, GpuKernel, GuardAlloc, InferCx, Io,
    Kernel, KernelDef, KernelInfo, Launch, Op, OpDef, OpSchema, PackageV1, Param, Port, WorkItem,
    WorkItemFn, input, output_like,
};
use udo_compile::place::PlaceError;
use udo_engine::cores::opencl::{self, ClDevice, OpenClError};
use udo_engine::cores::{GpuStorage, OpenCl, Profile};
use udo_runtime::compile::{CompileError, PlaceOptions};
use udo_runtime::graph::Attr;
use udo_runtime::{CompileOptions, Model};
use udo_test_support::graphs;

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;

static PACKAGE: PackageV1 = PackageV1::new("Scaling", "1.0.0")
    .ops(&[OpDef::of::<Affine>(), OpDef::of::<DeviceAffine>(), OpDef::of::<Copy>()])
    .kernels(&[
        KernelDef::gpu::<AffineGpu>("Affine").ports(&[input(0, F32.or(F16)), output_like(0, 0)]),
        KernelDef::gpu::<DeviceOnly>("DeviceAffine")
            .ports(&[input(0, F32.or(F16)), output_like(0, 0)]),
        KernelDef::new::<CopyF32>("Copy", Core::GPU),
    ])
    .guarded();

const PORTS: (&[Port], &[Port]) =
    (&[Port::required("x", F32), Port::optional("bias", F32)], &[Port::required("y", F32)]);
const PARAMS: &[Param] = &[
    Param::text("variant"),
    Param::scalar("scale", DType::F32),
    Param::scalar("offset", DType::I32),
];

/// `x * scale + offset`.
struct Affine;

/// The same without work items.
struct DeviceAffine;

impl Op for Affine {
    const SCHEMA: OpSchema = OpSchema::new("Affine", PORTS.0, PORTS.1, PARAMS);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

impl Op for DeviceAffine {
    const SCHEMA: OpSchema = OpSchema::new("DeviceAffine", PORTS.0, PORTS.1, PARAMS);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        Affine::infer(cx)
    }
}

const SOURCE: &str = "
__kernel void affine(__global const UDO_STORAGE *x, __global UDO_STORAGE *y, float scale, int offset) {
    const size_t i = get_global_id(0);
    UDO_STORE(y, i, UDO_LOAD(x, i) * scale + OFFSET(offset));
}
";

const GROUPS: &str = "
__attribute__((reqd_work_group_size(8, 1, 1)))
__kernel void affine(__global const UDO_STORAGE *x, __global UDO_STORAGE *y, float scale, int offset) {
    const size_t i = get_global_id(0);
    UDO_STORE(y, i, UDO_LOAD(x, i) * scale + OFFSET(offset));
}
";

const BIASED: &str = "
__kernel void affine(__global const UDO_STORAGE *x, __global UDO_STORAGE *y, float scale, int offset,
                     __global const UDO_STORAGE *bias) {
    const size_t i = get_global_id(0);
    const float b = bias ? UDO_LOAD(bias, i) : 0.0f;
    UDO_STORE(y, i, UDO_LOAD(x, i) * scale + OFFSET(offset) + b);
}
";

const BROKEN: &str = "
__kernel void affine(__global const UDO_STORAGE *x, __global UDO_STORAGE *y, float scale, int offset) {
    UDO_STORE(y, 0, no_such_function(scale));
}
";

struct AffineGpu {
    variant: String,
    len: usize,
    scale: f32,
    offset: i32,
}

impl GpuKernel for AffineGpu {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|kernel, item: WorkItem, buffers: &Buffers<'_>| {
            let [i, ..] = item.global_id;
            #[expect(clippy::cast_precision_loss, reason = "the offsets of these tests are small")]
            let offset = kernel.offset as f32;
            buffers.store(0, i, buffers.load(0, i)? * kernel.scale + offset)
        });

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        #[expect(clippy::cast_possible_truncation, reason = "the scales of these tests are halves")]
        let scale = cx.float("scale")? as f32;
        let offset = i32::try_from(cx.int("offset")?).map_err(|e| Error::new(e.to_string()))?;
        Ok(Self {
            variant: cx.text("variant")?.to_owned(),
            len: cx.output(0)?.len(),
            scale,
            offset,
        })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let source = match self.variant.as_str() {
            "broken" => BROKEN,
            "biased" => BIASED,
            "groups" => GROUPS,
            _ => SOURCE,
        };
        let name = if self.variant == "misnamed" { "afine" } else { "affine" };
        let scale = match self.variant.as_str() {
            "swapped" => GpuArg::i32(self.offset),
            _ => GpuArg::f32(self.scale),
        };
        let options = format!("-DOFFSET={}", "convert_float");
        let mut launch = Launch::new(source, name)
            .options(options)
            .args([GpuArg::input(0), GpuArg::output(0), scale])
            .global_size([self.len, 1, 1]);
        if self.variant != "short" {
            launch.args.push(GpuArg::i32(self.offset));
        }
        if self.variant == "biased" {
            launch.args.push(GpuArg::input(1));
        }
        launch.local_size = match self.variant.as_str() {
            "local" => Some([4, 1, 1]),
            "odd-local" => Some([5, 1, 1]),
            "huge-local" => Some([self.len, 1, 1]),
            _ => None,
        };
        info.push_launch(launch);
        Ok(())
    }
}

struct DeviceOnly(AffineGpu);

impl GpuKernel for DeviceOnly {
    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        AffineGpu::operation(cx).map(Self)
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        self.0.set_kernel_info(info)
    }
}

/// An operator whose kernel for the GPU is an ordinary one.
struct Copy;

impl Op for Copy {
    const SCHEMA: OpSchema = OpSchema::new("Copy", PORTS.0, PORTS.1, PARAMS);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        Affine::infer(cx)
    }
}

struct CopyF32;

impl Kernel for CopyF32 {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        io.outputs.take::<f32>(0)?.copy_from_slice(io.inputs.get(0)?);
        Ok(())
    }
}

fn compile_on(
    op: &str,
    variant: &str,
    dims: &[usize],
    profile: Profile,
) -> Result<Model, CompileError> {
    let attrs = [
        ("variant", Attr::Text(variant.to_owned())),
        ("scale", Attr::Float(1.5)),
        ("offset", Attr::Int(-3)),
    ];
    let mut graph = graphs::one_node(op, 1, DType::F32, dims, &attrs);
    if variant == "biased" {
        graph.nodes[0].inputs.push(None);
    }
    let place =
        PlaceOptions { cores: vec![Core::GPU, Core::CPU], profile, ..PlaceOptions::default() };
    graphs::compile(graph, &PACKAGE, &CompileOptions { place, ..CompileOptions::default() })
}

fn storage(gpu_storage: GpuStorage) -> Profile {
    Profile { gpu_storage, ..Profile::default() }
}

fn off() -> Profile {
    Profile { opencl: OpenCl::Off, ..Profile::default() }
}

/// The device. A test that is given none checks what is promised without one.
fn device() -> Option<&'static ClDevice> {
    let found = opencl::find();
    let required = std::env::var_os("UDO_REQUIRE_OPENCL").is_some_and(|v| v == "1");
    assert!(!required || found.is_ok(), "UDO_REQUIRE_OPENCL=1, and there is no device: {found:?}");
    found.ok()
}

fn expected_backend() -> String {
    device().map_or("work items on host threads".to_owned(), |d| format!("opencl: {}", d.name()))
}

fn backend(model: &Model) -> Option<&str> {
    model.report().nodes[0].backend.as_deref()
}

/// Values whose results 16-bit storage holds exactly.
fn values(len: usize) -> Vec<f32> {
    (0..len).map(|i| f32::from(u16::try_from(i % 64).unwrap()) * 0.5 - 16.0).collect()
}

fn check(model: &Model, len: usize) {
    let mut session = model.session().unwrap();
    for run in 0..3u8 {
        let x: Vec<f32> = values(len).iter().map(|v| v + f32::from(run)).collect();
        session.input_mut::<f32>("a").unwrap().copy_from_slice(&x);
        session.run().unwrap();
        for (i, (x, y)) in x.iter().zip(session.output::<f32>("y").unwrap()).enumerate() {
            let wanted = x * 1.5 - 3.0;
            assert!((y - wanted).abs() <= 1e-6, "run {run}, element {i}: {y}, expected {wanted}");
        }
    }
}

/// The error and everything behind it.
fn chain(error: &CompileError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

#[test]
fn devices_match_emulated_work_items() {
    for gpu_storage in [GpuStorage::F32, GpuStorage::F16] {
        for variant in ["plain", "local", "odd-local", "huge-local", "groups", "biased"] {
            for opencl in [OpenCl::Auto, OpenCl::Off] {
                let profile = Profile { opencl, ..storage(gpu_storage) };
                let model = compile_on("Affine", variant, &[4, 8192], profile).unwrap();
                let wanted = match opencl {
                    OpenCl::Auto => expected_backend(),
                    OpenCl::Off => "work items on host threads".to_owned(),
                };
                assert_eq!(backend(&model), Some(wanted.as_str()), "{variant} {profile:?}");
                let stored = match gpu_storage {
                    GpuStorage::F32 => "f32[4,8192]",
                    GpuStorage::F16 => "f16[4,8192]",
                };
                assert_eq!(model.report().nodes[0].outputs, [stored]);
                check(&model, 4 * 8192);
            }
        }
    }
}

#[test]
fn ordinary_kernels_for_the_gpu_run_as_they_are() {
    let model = compile_on("Copy", "plain", &[8], Profile::default()).unwrap();
    assert_eq!((model.report().nodes[0].core, backend(&model)), (Core::GPU, None));
    let mut session = model.session().unwrap();
    session.input_mut::<f32>("a").unwrap().copy_from_slice(&values(8));
    session.run().unwrap();
    assert_eq!(session.output::<f32>("y").unwrap(), values(8));
}

#[test]
fn nothing_is_launched_over_no_work_items() {
    let model = compile_on("Affine", "plain", &[0, 8], Profile::default()).unwrap();
    let mut session = model.session().unwrap();
    session.run().unwrap();
    assert_eq!(session.output::<f32>("y").unwrap(), [0.0f32; 0]);
}

#[test]
fn a_kernel_without_work_items_runs_on_a_device_or_nowhere() {
    let refused = |error: CompileError, why: &str| {
        let text = error.to_string();
        assert!(matches!(error, CompileError::Place(PlaceError::NoCore { .. })), "{text}");
        let wanted =
            format!("gpu: found neither an OpenCL device nor a work_item ({why}); cpu: no kernel");
        assert!(text.ends_with(&wanted), "{text}");
    };
    let off = compile_on("DeviceAffine", "plain", &[16], off());
    refused(off.expect_err("neither device nor work items"), "OpenCL is disabled by the profile");
    let outcome = compile_on("DeviceAffine", "plain", &[16], Profile::default());
    if device().is_some() {
        check(&outcome.unwrap(), 16);
    } else {
        let why = opencl::find().expect_err("there is no device").to_string();
        refused(outcome.expect_err("neither device nor work items"), &why);
    }
}

#[test]
fn kernels_that_do_not_compile_are_errors_and_do_not_fall_back() {
    let start = "node \"the_affine\": package Scaling's Affine does not run on OpenCL device ";
    // (variant, what the message says, has a build log)
    let cases = [
        ("broken", "the source of kernel \"affine\" does not compile on "),
        ("misnamed", "the source does not define kernel \"afine\", found \"affine\""),
        ("short", "kernel \"affine\" has 3 arguments, expected 4"),
        ("swapped", "argument 2 of kernel \"affine\" is the i32 -3, expected \"float\""),
        (
            "groups",
            "kernel \"affine\" requires work groups of [8, 1, 1], which do not divide the global size [12, 1, 1]",
        ),
    ];
    for (variant, message) in cases {
        let outcome = compile_on("Affine", variant, &[12], Profile::default());
        if device().is_none() {
            check(&outcome.expect("work items need no source"), 12);
            continue;
        }
        let error = outcome.expect_err(variant);
        assert!(
            matches!(error, CompileError::Place(PlaceError::Device { .. })),
            "{variant}: {error:?}"
        );
        let text = chain(&error);
        assert!(text.starts_with(start) && text.contains(message), "{variant}: {text}");
        if variant == "broken" {
            assert!(text.contains("no_such_function"), "the compiler's log is missing: {text}");
            assert!(text.contains("affine:3:"), "the log does not name the source's line: {text}");
        }
    }
}

#[test]
fn runs_use_no_rust_heap() {
    let model = compile_on("Affine", "plain", &[1024], Profile::default()).unwrap();
    assert_eq!(backend(&model), Some(expected_backend().as_str()));
    let mut session = model.session().unwrap();
    session.run().unwrap();
    // Other tests of this binary allocate at their own times, so one quiet run is proof enough.
    let quiet = (0..10_000).any(|_| {
        let before = heap_calls();
        session.run().unwrap();
        heap_calls() == before
    });
    assert!(quiet, "every run met the heap");
}

#[test]
fn sessions_on_several_threads_share_a_kernel() {
    let model = Arc::new(compile_on("Affine", "plain", &[4096], Profile::default()).unwrap());
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let model = Arc::clone(&model);
            scope.spawn(move || {
                let mut session = model.session().unwrap();
                for run in 0..50u8 {
                    let value = f32::from(thread) * 100.0 + f32::from(run);
                    session.input_mut::<f32>("a").unwrap().fill(value);
                    session.run().unwrap();
                    let wanted = value * 1.5 - 3.0;
                    let y = session.output::<f32>("y").unwrap();
                    assert!(
                        y.iter().all(|y| (y - wanted).abs() <= 1e-4),
                        "thread {thread}, run {run}"
                    );
                }
            });
        }
    });
}

/// Runs `test` of this binary again, with one variable of the environment set.
fn again(test: &str, variable: &str, value: &str) -> std::process::Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env_remove("UDO_REQUIRE_OPENCL")
        .env(variable, value)
        .output()
        .unwrap()
}

#[test]
fn the_environment_can_switch_devices_off() {
    if std::env::var_os("UDO_OPENCL").is_some_and(|v| v == "off") {
        assert_eq!(opencl::find().unwrap_err(), &OpenClError::Disabled);
        let model = compile_on("Affine", "plain", &[16], Profile::default()).unwrap();
        assert_eq!(backend(&model), Some("work items on host threads"));
        check(&model, 16);
        return;
    }
    let output = again("the_environment_can_switch_devices_off", "UDO_OPENCL", "off");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_system_without_drivers_is_met_in_silence() {
    // The loader looks for drivers in a folder that does not exist.
    const NOWHERE: &str = "/nonexistent/vendors/";
    if std::env::var_os("OCL_ICD_VENDORS").is_some_and(|v| v == NOWHERE) {
        assert!(opencl::device().is_none(), "{:?}", opencl::find());
        let model = compile_on("Affine", "plain", &[16], Profile::default()).unwrap();
        assert_eq!(backend(&model), Some("work items on host threads"));
        check(&model, 16);
        return;
    }
    let output = again("a_system_without_drivers_is_met_in_silence", "OCL_ICD_VENDORS", NOWHERE);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
