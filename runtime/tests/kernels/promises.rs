//! The obligations of kernels on every core: take each output, and set the extents of each bounded output.

use udo_api::types::F32;
use udo_api::{
    Core, Cost, DType, Dim, Error, ExecError, FinalizeCx, GpuKernel, InferCx, Io, Kernel,
    KernelDef, KernelInfo, Launch, Op, OpDef, OpSchema, PackageV1, Port, PortRule, Quant, QuantMut,
    Scratch, Shape, Status, WorkItemFn, any_input, any_output, dsp_kernel,
};
use udo_engine::cores::{OpenCl, Profile};
use udo_runtime::compile::{Fallback, PlaceOptions};
use udo_runtime::graph::{DimSpec, Graph, Node};
use udo_runtime::run::RunError;
use udo_runtime::{CompileOptions, Session};
use udo_test_support::compile::{built_in, compile_graph};

/// Enough outputs that some have no bit in the masks of a call.
const MANY: usize = 70;

const BOUNDED: &[PortRule] = &[any_input(0).bounded(), any_output(0).bounded()];

static PACKAGE: PackageV1 = PackageV1::new("Promises", "1.0.0")
    .ops(&[
        OpDef::of::<Lazy>(),
        OpDef::of::<Silent>(),
        OpDef::of::<Positive>(),
        OpDef::of::<Many>(),
        OpDef::of::<Missed>(),
        OpDef::of::<Empty>(),
        OpDef::of::<Costly>(),
        OpDef::of::<Grasping>(),
        OpDef::of::<Careful>(),
    ])
    .kernels(&[
        KernelDef::new::<Nothing>("Lazy", Core::CPU),
        KernelDef::new::<SilentCpu>("Silent", Core::CPU).ports(BOUNDED),
        KernelDef::gpu::<SilentGpu>("Silent").ports(BOUNDED),
        KernelDef::new::<SilentDsp>("Silent", Core::DSP_V68).ports(BOUNDED),
        KernelDef::new::<PositiveDsp>("Positive", Core::DSP_V68).ports(BOUNDED),
        KernelDef::new::<AllButOne<MANY>>("Many", Core::CPU),
        KernelDef::new::<AllButOne<66>>("Missed", Core::CPU),
        KernelDef::new::<Nothing>("Empty", Core::CPU),
        KernelDef::new::<Filled<1>>("Costly", Core::CPU),
        KernelDef::new::<Filled<2>>("Costly", Core::CPU).cost(Cost::Snail),
        KernelDef::new::<Filled<0>>("Costly", Core::CPU).cost(Cost::Free),
        KernelDef::new::<Filled<3>>("Costly", Core::CPU).cost(Cost::Fast),
        KernelDef::new::<Filled<4>>("Costly", Core::CPU).cost(Cost::Fast),
        KernelDef::new::<Spaced>("Grasping", Core::CPU)
            .ports(&[any_input(0), any_output(0).pitched()]),
        KernelDef::new::<Spaced>("Careful", Core::CPU)
            .ports(&[any_input(0), any_output(0).pitched_alone()]),
    ])
    .guarded();

const X: &[Port] = &[Port::required("x", F32)];
const Y: &[Port] = &[Port::required("y", F32)];

macro_rules! op {
    ($name:ident, $outputs:expr, $infer:expr) => {
        struct $name;

        impl Op for $name {
            const SCHEMA: OpSchema = OpSchema::new(stringify!($name), X, $outputs, &[]);

            fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
                let infer: fn(&mut InferCx<'_>) -> Result<(), Error> = $infer;
                infer(cx)
            }
        }
    };
}

fn like_input(cx: &mut InferCx<'_>) -> Result<(), Error> {
    let x = cx.input(0)?;
    (0..cx.output_count()).try_for_each(|output| cx.set_output(output, x))
}

fn at_most_input(cx: &mut InferCx<'_>) -> Result<(), Error> {
    let x = cx.input(0)?;
    cx.set_output(0, x.with_shape(Shape::from_dims(&[Dim::UpTo(x.len())])?))
}

fn empty(cx: &mut InferCx<'_>) -> Result<(), Error> {
    let x = cx.input(0)?;
    cx.set_output(0, x.with_shape(Shape::new(&[0])?))
}

op!(Lazy, Y, like_input);
op!(Silent, Y, at_most_input);
op!(Positive, Y, at_most_input);
op!(Many, &[Port::required("ys", F32).repeated()], like_input);
op!(Missed, &[Port::required("ys", F32).repeated()], like_input);
op!(Empty, Y, empty);
op!(Costly, Y, like_input);
op!(Grasping, Y, like_input);
op!(Careful, Y, like_input);

/// Fills its output with a number, and takes no node where that is 0.
struct Filled<const N: u8>;

impl<const N: u8> Kernel for Filled<N> {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        if N == 0 { Err(Error::new("not this one")) } else { Ok(Self) }
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { mut outputs, .. } = io;
        outputs.take::<f32>(0)?.fill(f32::from(N));
        Ok(())
    }
}

/// Copies its input to rows that it takes as one slice with what lies between them.
struct Spaced;

impl Kernel for Spaced {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let (x, cols) = inputs.strided::<f32>(0)?;
        let (y, stride) = outputs.take_strided::<f32>(0)?;
        for (x, y) in x.chunks(cols).zip(y.chunks_mut(stride)) {
            y[..cols].copy_from_slice(x);
        }
        Ok(())
    }
}

/// Succeeds without a look at its arguments.
struct Nothing;

impl Kernel for Nothing {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, _: Io<'_>) -> Result<(), ExecError> {
        Ok(())
    }
}

/// Writes its output, and says no extents.
struct SilentCpu;

impl Kernel for SilentCpu {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { mut outputs, .. } = io;
        outputs.take::<f32>(0)?.fill(1.0);
        Ok(())
    }
}

struct SilentGpu;

impl GpuKernel for SilentGpu {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(|_, _, _| Ok(()));

    fn operation(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        info.push_launch(Launch::new("", "silent"));
        Ok(())
    }
}

dsp_kernel!(SilentDsp = silent(out: [f32], in: [f32], params: {}));

#[expect(
    clippy::unnecessary_wraps,
    clippy::needless_pass_by_value,
    reason = "the signature is the contract's"
)]
fn silent(out: QuantMut<'_, f32>, x: Quant<'_, f32>, _: Scratch<'_>) -> Result<(), ExecError> {
    out.data.copy_from_slice(x.data);
    Ok(())
}

dsp_kernel!(PositiveDsp = positive(out: [f32], in: [f32], params: {}));

fn positive(
    mut out: QuantMut<'_, f32>,
    x: Quant<'_, f32>,
    _: Scratch<'_>,
) -> Result<(), ExecError> {
    let mut len = 0;
    for (y, x) in out.data.iter_mut().zip(x.data.iter().filter(|x| **x > 0.0)) {
        *y = *x;
        len += 1;
    }
    out.set_shape(&[len])
}

/// Takes all its outputs but the one numbered `MISSED`.
struct AllButOne<const MISSED: usize>;

impl<const MISSED: usize> Kernel for AllButOne<MISSED> {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let x = inputs.get::<f32>(0)?;
        for port in (0..outputs.len()).filter(|port| *port != MISSED) {
            outputs.take::<f32>(port)?.copy_from_slice(x);
        }
        if outputs.len() > 65 {
            let twice = outputs.take::<f32>(65).unwrap_err();
            assert_eq!(twice, ExecError::with(Status::OUTPUT_TAKEN, [65, 0]));
        }
        Ok(())
    }
}

/// One node of `op` over four numbers, on `core` without fallback for it.
fn session(op: &str, outputs: usize, core: Core) -> Result<Session, String> {
    let mut graph = Graph::new("one node");
    let x = graph.add_input("x", DType::F32, [DimSpec::Fixed(4)]);
    let ys: Vec<_> = (0..outputs).map(|port| graph.add_value(&format!("y{port}"))).collect();
    graph.add_node(Node::new(op, 0, &[x], &ys));
    graph.outputs = ys;
    let mut operators = built_in();
    operators.add_static(&PACKAGE).unwrap();
    let profile = Profile { opencl: OpenCl::Off, ..Profile::default() };
    let place = PlaceOptions {
        cores: vec![core],
        fallback: Fallback::Off,
        profile,
        ..PlaceOptions::default()
    };
    let options = CompileOptions { place, ..CompileOptions::default() };
    let model = compile_graph(graph, &operators, &options).map_err(|e| e.to_string())?;
    let mut session = model.session().unwrap();
    session.input_mut::<f32>("x").unwrap().copy_from_slice(&[1.0, -2.0, 3.0, -4.0]);
    Ok(session)
}

/// Runs one node, which fails; returns the status and message.
fn failure(op: &str, outputs: usize, core: Core) -> (Status, String) {
    let error = session(op, outputs, core).unwrap().run().unwrap_err();
    match error {
        RunError::Step(error) => (error.error.status, error.reason.to_string()),
        error => (Status::OK, error.to_string()),
    }
}

#[test]
fn the_cheapest_kernel_that_takes_a_node_gets_it_and_the_first_of_those() {
    let mut session = session("Costly", 1, Core::CPU).unwrap();
    session.run().unwrap();
    assert_eq!(session.output::<f32>("y0").unwrap(), [3.0; 4]);
}

#[test]
fn an_output_that_is_not_taken_fails_the_call() {
    let (status, reason) = failure("Lazy", 1, Core::CPU);
    assert_eq!(status, Status::OUTPUT_NOT_TAKEN);
    assert_eq!(reason, "returned without taking an output: port 0");
}

#[test]
fn outputs_without_a_bit_are_owed_as_well() {
    let (status, reason) = failure("Missed", MANY, Core::CPU);
    assert_eq!(status, Status::OUTPUT_NOT_TAKEN);
    assert_eq!(reason, "returned without taking an output: port 66");
    let mut all = session("Many", MANY, Core::CPU).unwrap();
    for _ in 0..2 {
        all.run().unwrap();
    }
    assert_eq!(all.output::<f32>("y69").unwrap(), [1.0, -2.0, 3.0, -4.0]);
}

#[test]
fn only_kernels_with_pitch_rules_see_strided_rows() {
    let session = |op: &str| {
        let text = format!(
            "graph join
              input x: f32[2,2]
              a = {op}@21(x)
              b = {op}@21(x)
              both = Concat@21(a, b) axis=1
              y = Relu@21(both)
              output y
            "
        );
        let mut operators = built_in();
        operators.add_static(&PACKAGE).unwrap();
        let graph = Graph::parse(&text).unwrap();
        let model = compile_graph(graph, &operators, &CompileOptions::default()).unwrap();
        let mut session = model.session().unwrap();
        session.input_mut::<f32>("x").unwrap().copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
        session
    };
    let error = session("Grasping").run().unwrap_err();
    let RunError::Step(error) = error else { panic!("{error}") };
    assert_eq!(error.error.status, Status::NOT_DENSE);
    assert_eq!(error.reason.to_string(), "read strided rows as a dense slice: port 0");
    let mut careful = session("Careful");
    careful.run().unwrap();
    assert_eq!(careful.output::<f32>("y").unwrap(), [1., 2., 1., 2., 3., 4., 3., 4.]);
}

#[test]
fn an_output_that_holds_nothing_is_not_owed() {
    let mut session = session("Empty", 1, Core::CPU).unwrap();
    session.run().unwrap();
    assert!(session.output::<f32>("y0").unwrap().is_empty());
}

#[test]
fn an_extent_that_is_not_said_fails_the_call() {
    for core in [Core::CPU, Core::DSP_V68] {
        let (status, reason) = failure("Silent", 1, core);
        assert_eq!(status, Status::EXTENT_NOT_SAID, "{core}");
        assert_eq!(reason, "returned without setting the dimensions of a bounded output: port 0");
    }
}

#[test]
fn a_gpu_kernel_with_a_bounded_output_is_refused() {
    let refusal = session("Silent", 1, Core::GPU).unwrap_err();
    assert!(
        refusal.ends_with("output \"y\" is f32[<=4], and a GPU kernel cannot return its extents"),
        "{refusal}"
    );
}

#[test]
fn dsp_functions_say_extents() {
    let mut session = session("Positive", 1, Core::DSP_V68).unwrap();
    session.run().unwrap();
    assert_eq!(session.output::<f32>("y0").unwrap(), [1.0, 3.0]);
    session.input_mut::<f32>("x").unwrap().copy_from_slice(&[-1.0, 5.0, 6.0, 7.0]);
    session.run().unwrap();
    assert_eq!(session.output::<f32>("y0").unwrap(), [5.0, 6.0, 7.0]);
}
