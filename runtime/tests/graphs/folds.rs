//! Nodes that are computed with the model: which, as text in `folds/`, and that results stay what they were.

use udo_api::types::F32;
use udo_api::{
    Core, DType, Error, ExecError, Facts, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpDef,
    OpSchema, PackageV1, Param, Port, Status,
};
use udo_runtime::compile::{BindOptions, Fallback};
use udo_runtime::graph::Graph;
use udo_runtime::{CompileOptions, Model, Report};
use udo_test_support::compile::{built_in, compile_graph, resolve_graph};
use udo_test_support::graph_files;

#[test]
fn imported_nodes_match_their_files() {
    graph_files::check("graphs/folds", |graph| {
        let operators = built_in();
        let resolved = resolve_graph(graph, &operators, &BindOptions::default()).unwrap();
        resolved.graph.verify().unwrap();
        resolved.graph.to_string()
    });
}

#[test]
fn every_file_has_folded_nodes() {
    assert!(!graph_files::files_in("graphs/folds").is_empty());
    for text in graph_files::files_in("graphs/folds") {
        let operators = built_in();
        let graph =
            resolve_graph(text.before(), &operators, &BindOptions::default()).unwrap().graph;
        assert!(graph.nodes.iter().any(|node| node.is_folded), "{}", text.name);
    }
}

fn compiled(text: &str, cores: &[Core]) -> Model {
    let mut operators = built_in();
    operators.add_static(&PACKAGE).unwrap();
    let mut options = CompileOptions::default();
    options.place.cores = cores.to_vec();
    options.place.fallback = Fallback::To(Core::CPU);
    compile_graph(Graph::parse(text).unwrap(), &operators, &options).unwrap()
}

/// The names of folded nodes, and of steps.
fn names(report: &Report) -> (Vec<&str>, Vec<&str>) {
    let folded = report.nodes.iter().filter(|node| node.is_folded).map(|node| node.name.as_str());
    (folded.collect(), report.steps.iter().map(|step| step.name.as_str()).collect())
}

#[test]
fn dequantized_weights_are_packed_once() {
    // 1.5 MiB of real weights.
    let text = "graph g\n input x: f32[1,1024,1,1]\n constant quantized: i8[384,1024,1,1]{3}\n \
        constant scale: f32[]{0.5}\n w = DequantizeLinear@21(quantized, scale) # weights\n \
        y = Conv@22(x, w) # conv\n output y\n";
    let model = compiled(text, &[Core::CPU]);
    assert_eq!(names(model.report()), (vec!["weights"], vec!["conv"]));
    let host = &model.report().memories[0];
    assert!(host.packed_bytes >= 384 * 1024 * 4, "{host:?}");
    assert_eq!(host.constant_bytes, 0, "{host:?}");
    let mut session = model.session().unwrap();
    session.input_mut::<f32>("x").unwrap().fill(2.0);
    session.run().unwrap();
    assert!(session.output::<f32>("y").unwrap().iter().all(|y| y.to_bits() == 3072f32.to_bits()));
}

#[test]
fn large_constants_fold_through_views() {
    let text = "graph g\n input x: f32[1,1024]\n constant quantized: i8[384,1024]{3}\n \
        constant scale: f32[]{0.5}\n w = DequantizeLinear@21(quantized, scale) # weights\n \
        t = Transpose@21(w) # turned\n y = MatMul@13(x, t) # product\n output y\n";
    let model = compiled(text, &[Core::CPU]);
    assert_eq!(names(model.report()), (vec!["weights", "turned"], vec!["product"]));
    assert!(model.report().memories[0].packed_bytes > 0);
}

#[test]
fn a_constant_may_be_all_that_a_model_gives() {
    let text = "graph g\n input x: f32[1]\n constant a: f32[2]{1.0, -2.0}\n y = Relu@14(a) # y\n \
        z = Relu@14(x) # z\n output y, z\n";
    let model = compiled(text, &[Core::CPU]);
    assert_eq!(names(model.report()), (vec!["y"], vec!["z"]));
    let mut session = model.session().unwrap();
    session.run().unwrap();
    assert_eq!(session.output::<f32>("y").unwrap(), [1.0, 0.0]);
}

/// Quantized operands `a`, which a run gives, and `b`, which it gives unless the model holds them.
fn quantized(b: &str) -> String {
    format!(
        "graph g\n input a: u8[4]\n {b}\n constant s: f32[]{{0.25}}\n constant t: f32[]{{0.5}}\n \
         constant z: u8[]{{10}}\n x = DequantizeLinear@21(a, s, z) # x\n \
         w = DequantizeLinear@21(b, t, z) # w\n u = Unsqueeze@21(w, axes) # u\n \
         sum = Add@14(x, u) # sum\n q = QuantizeLinear@21(sum, t, z) # q\n output q\n"
    )
    .replace(" constant s:", " constant axes: i64[1]{0}\n constant s:")
}

#[test]
fn cores_compute_the_same_with_operands_of_the_model_as_with_those_of_a_run() {
    let held = quantized("constant b: u8[4]{0, 10, 20, 255}");
    let given = quantized("input b: u8[4]");
    let run = |text: &str, cores: &[Core]| {
        let model = compiled(text, cores);
        let mut session = model.session().unwrap();
        session.input_mut::<u8>("a").unwrap().copy_from_slice(&[0, 13, 100, 255]);
        if let Ok(b) = session.input_mut::<u8>("b") {
            b.copy_from_slice(&[0, 10, 20, 255]);
        }
        session.run().unwrap();
        (model, session.output::<u8>("q").unwrap().to_vec())
    };
    for cores in [[Core::CPU, Core::CPU], [Core::DSP_V68, Core::CPU], [Core::GPU, Core::CPU]] {
        let ((model, held), (_, given)) = (run(&held, &cores), run(&given, &cores));
        assert_eq!(held, given, "{cores:?}");
        assert_eq!(names(model.report()).0, ["w", "u"], "{cores:?}");
        let sum = model.report().nodes.iter().find(|node| node.name == "sum").unwrap();
        assert_eq!(sum.core, cores[0]);
        // The DSP has the quantized values of what was folded.
        let stored = if cores[0] == Core::DSP_V68 { "u8[1,4]" } else { "f32[1,4]" };
        assert_eq!(sum.inputs[1], stored, "{cores:?}");
    }
}

/// `x + 1`; what it says of itself, and whether it fails, is `OF`'s to say.
struct Next<const OF: u8>;

const PLAIN: u8 = 0;
const PURE: u8 = 1;
const FAILS: u8 = 2;
const NOT_ON_THE_CPU: u8 = 3;

impl<const OF: u8> Next<OF> {
    const NAME: &'static str = match OF {
        PLAIN => "PlainNext",
        PURE => "PureNext",
        FAILS => "FailingNext",
        _ => "FarNext",
    };
}

impl<const OF: u8> Op for Next<OF> {
    const SCHEMA: OpSchema = OpSchema::new(
        Self::NAME,
        &[Port::required("x", F32)],
        &[Port::required("y", F32)],
        &[Param::scalar("by", DType::F32).default(udo_api::Value::float(1.0))],
    )
    .facts(if OF == PLAIN { Facts::NONE } else { Facts::PURE });

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

impl<const OF: u8> Kernel for Next<OF> {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        for (y, x) in outputs.take::<f32>(0)?.iter_mut().zip(inputs.get::<f32>(0)?) {
            *y = x + 1.0;
        }
        if OF == FAILS { Err(ExecError::new(Status::BAD_VALUE)) } else { Ok(()) }
    }
}

static PACKAGE: PackageV1 = PackageV1::new("Nexts", "1.0.0")
    .ops(&[
        OpDef::of::<Next<PLAIN>>(),
        OpDef::of::<Next<PURE>>(),
        OpDef::of::<Next<FAILS>>(),
        OpDef::of::<Next<NOT_ON_THE_CPU>>(),
    ])
    .kernels(&[
        KernelDef::new::<Next<PLAIN>>("PlainNext", Core::CPU),
        KernelDef::new::<Next<PURE>>("PureNext", Core::CPU),
        KernelDef::new::<Next<FAILS>>("FailingNext", Core::CPU),
        KernelDef::new::<Next<NOT_ON_THE_CPU>>("FarNext", Core::DSP_V68),
    ])
    .guarded();

#[test]
fn operators_of_packages_fold_if_they_say_that_they_are_pure() {
    let run = |op: &str| {
        let text =
            format!("graph g\n constant a: f32[2]{{1.0, 2.0}}\n y = {op}@1(a) # n\n output y\n");
        let model = compiled(&text, &[Core::CPU, Core::DSP_V68]);
        let folds = model.report().nodes[0].is_folded;
        let mut session = model.session().unwrap();
        let ran = session.run().map_err(|e| e.to_string());
        (folds, ran.map(|()| session.output::<f32>("y").unwrap().to_vec()))
    };
    assert_eq!(run("PlainNext"), (false, Ok(vec![2.0, 3.0])));
    assert_eq!(run("PureNext"), (true, Ok(vec![2.0, 3.0])));
    assert_eq!(run("FarNext"), (false, Ok(vec![2.0, 3.0])));
    let (folds, ran) = run("FailingNext");
    assert!(!folds);
    assert!(ran.unwrap_err().starts_with("node \"n\": package Nexts's FailingNext on cpu "));
}
