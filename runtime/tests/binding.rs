//! Which operator a node gets, and what is said when it gets none.
#![expect(clippy::unwrap_used, reason = "a graph that cannot be made fails the test")]

use udo_api::types::F32;
use udo_api::{
    Core, DType, Error, ExecError, FinalizeCx, GuardAlloc, InferCx, Io, Kernel, KernelDef, Op,
    OpDef, OpSchema, PackageV1, Param, Port, Shape, Value,
};
use udo_runtime::graph::{Attr, DimSpec, Graph, Node};
use udo_runtime::memory::Tensor;
use udo_runtime::model::{CompileError, Model, Options};
use udo_runtime::registry::Registry;

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;

/// Relu with another slope, which stands in for the built-in operator.
struct Relu;

impl Op for Relu {
    const SCHEMA: OpSchema = OpSchema::new(
        "Relu",
        &[
            Port::required("x", F32),
            Port::optional("shift", F32).is_static().default(Value::floats(&[0.5])),
        ],
        &[Port::required("y", F32)],
        &[
            Param::scalar("slope", DType::F32).default(Value::float(2.0)),
            Param::scalar("steps", DType::I32).optional(),
            Param::text("mode").default(Value::text("plain")),
            Param::tensor("axes", DType::I64).optional(),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        if cx.text("mode")? != "plain" {
            return Err(Error::new(format!("mode is {:?}, wanted \"plain\"", cx.text("mode")?)));
        }
        cx.set_output(0, x)
    }
}

struct ReluF32 {
    slope: f32,
    shift: f32,
}

impl Kernel for ReluF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let shift = cx.constant::<f32>(1)?.and_then(|s| s.first().copied()).unwrap_or(f32::NAN);
        Ok(Self { slope: cx.float32("slope")?, shift })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        for (y, x) in outputs.take::<f32>(0)?.iter_mut().zip(inputs.get::<f32>(0)?) {
            *y = self.slope * x.max(0.0) + self.shift;
        }
        Ok(())
    }
}

const OPS: &[OpDef] = &[OpDef::of::<Relu>()];
const KERNELS: &[KernelDef] = &[KernelDef::new::<ReluF32>("Relu", Core::CPU)];

static MINE: PackageV1 = PackageV1::new("Mine", "1.0.0").ops(OPS).kernels(KERNELS);
static YOURS: PackageV1 = PackageV1::new("Yours", "1.0.0").ops(OPS).kernels(KERNELS);

fn graph(edit: impl FnOnce(&mut Graph, &mut Node)) -> Graph {
    let mut graph = Graph::new("test");
    let x = graph.add_input("x", DType::F32, [DimSpec::Fixed(2)]);
    let y = graph.add_value("y");
    let mut node = Node::new("Relu", 17, &[x], &[y]);
    "act".clone_into(&mut node.name);
    edit(&mut graph, &mut node);
    graph.add_node(node);
    graph.outputs.push(y);
    graph
}

fn registry(packages: &[&'static PackageV1]) -> Registry {
    let mut registry = Registry::builtin().unwrap();
    for package in packages {
        registry.add_static(package).unwrap();
    }
    registry
}

fn run(
    graph: Graph,
    packages: &[&'static PackageV1],
    options: &Options,
) -> Result<(Vec<f32>, Vec<String>), CompileError> {
    let model = Model::compile(graph, &mut registry(packages), options)?;
    let mut session = model.session().unwrap();
    session.input_mut::<f32>("x").unwrap().copy_from_slice(&[-1.0, 3.0]);
    session.run().unwrap();
    Ok((session.output::<f32>("y").unwrap().to_vec(), model.report().notices.clone()))
}

fn refusal(graph: Graph, packages: &[&'static PackageV1]) -> String {
    run(graph, packages, &Options::default()).unwrap_err().to_string()
}

fn attr(name: &str, value: Attr) -> impl FnOnce(&mut Graph, &mut Node) {
    let name = name.to_owned();
    move |_, node| node.attrs.push((name, value))
}

#[test]
fn a_package_takes_the_nodes_of_a_built_in_type_and_the_run_says_so() {
    let (built_in, notices) = run(graph(|_, _| {}), &[], &Options::default()).unwrap();
    assert_eq!((built_in, notices), (vec![0.0, 3.0], vec![]));
    let (packaged, notices) = run(graph(|_, _| {}), &[&MINE], &Options::default()).unwrap();
    assert_eq!(packaged, [0.5, 6.5]);
    assert_eq!(notices, ["Relu nodes run package Mine's operator, not the built-in one"]);
}

#[test]
fn several_packages_of_one_type_need_a_choice() {
    let both: &[&'static PackageV1] = &[&MINE, &YOURS];
    assert_eq!(
        refusal(graph(|_, _| {}), both),
        "node \"act\": operator \"Relu\" is in packages Mine, Yours"
    );
    let mut options = Options::default();
    for (choice, wanted) in [("Yours", 6.5), ("Mine", 6.5), ("builtin", 3.0)] {
        options.bind.bind.insert("Relu".to_owned(), choice.to_owned());
        assert!(
            (run(graph(|_, _| {}), both, &options).unwrap().0[1] - wanted).abs() < 1e-6,
            "{choice}"
        );
    }
    options.bind.bind.insert("Relu".to_owned(), "Nobody".to_owned());
    let error = run(graph(|_, _| {}), both, &options).unwrap_err().to_string();
    assert_eq!(error, "operator \"Relu\" is bound to package \"Nobody\", which does not have it");
    let by_domain = graph(|_, node| "Yours".clone_into(&mut node.domain));
    assert!(
        run(by_domain, both, &Options::default()).is_ok(),
        "the node's domain names its package"
    );
}

#[test]
fn left_out_parameters_and_static_inputs_take_their_defaults() {
    let given = graph(|graph, node| {
        let shift = graph
            .add_constant("shift", Tensor::of::<f32>(Shape::new(&[1]).unwrap(), &[10.0]).unwrap());
        node.inputs.push(Some(shift));
        node.attrs.push(("slope".to_owned(), Attr::Int(1)));
    });
    assert_eq!(run(given, &[&MINE], &Options::default()).unwrap().0, [10.0, 13.0]);
}

#[test]
fn a_node_that_does_not_fit_its_schema_is_refused_by_name() {
    let computed = |graph: &mut Graph, node: &mut Node| {
        let z = graph.add_input("z", DType::F32, [DimSpec::Fixed(1)]);
        node.inputs.push(Some(z));
    };
    let cases: Vec<(Graph, &str)> = vec![
        (
            graph(attr("alpha", Attr::Float(1.0))),
            "attribute \"alpha\" is not a parameter of operator Relu, which has slope, steps, mode, axes",
        ),
        (
            graph(attr("slope", Attr::Text("x".to_owned()))),
            "attribute \"slope\" is text, wanted a number",
        ),
        (
            graph(attr("steps", Attr::Float(1.5))),
            "attribute \"steps\" is a real number, wanted an integer",
        ),
        (
            graph(attr("axes", Attr::Int(1))),
            "attribute \"axes\" is an integer, wanted a list of integers",
        ),
        (graph(attr("mode", Attr::Text("wild".to_owned()))), "mode is \"wild\", wanted \"plain\""),
        (graph(computed), "input \"shift\" is computed, and the operator wants it in the model"),
        (graph(|_, node| node.inputs.clear()), "input \"x\" is missing"),
        (
            graph(|_, node| node.inputs.extend([None, None])),
            "it has 3 inputs, the operator takes x, shift",
        ),
        (graph(|_, node| node.outputs.push(None)), "it has 2 outputs, the operator at most 1"),
    ];
    for (graph, reason) in cases {
        assert_eq!(refusal(graph, &[&MINE]), format!("node \"act\" (Relu): {reason}"));
    }
}

#[test]
fn unknown_operators_and_open_shapes_say_what_to_do() {
    let unknown = graph(|_, node| "Swish".clone_into(&mut node.op));
    let error = run(unknown, &[], &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "node \"act\": no package has an operator \"Swish\"");
    let CompileError::Resolve(error) = error else { unreachable!("it is about binding") };
    assert!(error.help().unwrap().contains("--package"));

    let mut open = Graph::new("open");
    let x =
        open.add_input("x", DType::F32, [DimSpec::Named("batch".to_owned()), DimSpec::Fixed(2)]);
    let y = open.add_value("y");
    open.add_node(Node::new("Relu", 17, &[x], &[y]));
    open.outputs.push(y);
    let error = Model::compile(open.clone(), &mut registry(&[]), &Options::default())
        .unwrap_err()
        .to_string();
    assert_eq!(error, "graph input \"x\" has the open shape batch,2, wanted a shape for it");
    let mut options = Options::default();
    options.bind.shapes.insert("x".to_owned(), vec![3, 2]);
    let model = Model::compile(open, &mut registry(&[]), &options).unwrap();
    assert_eq!(model.plan().outputs().next().unwrap().1.to_string(), "f32[3,2]");
}
