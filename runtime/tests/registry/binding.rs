//! Which operator a node gets, and what is said when it gets none.

use udo_api::types::F32;
use udo_api::{
    Core, DType, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpDef, OpSchema,
    PackageV1, Param, Port, Shape, Value,
};
use udo_engine::operators::Operators;
use udo_runtime::compile::{BindOptions, CompileError};
use udo_runtime::graph::{Attr, DimSpec, Graph, Node};
use udo_runtime::{CompileOptions, Tensor};
use udo_test_support::compile::{built_in, compile_graph, resolve_graph};

/// Relu with another slope, which stands in for the built-in operator.
struct Relu;

impl Op for Relu {
    const SCHEMA: OpSchema = OpSchema::new(
        "Relu",
        &[
            Port::required("x", F32),
            Port::optional("shift", F32).constant().default(Value::floats(&[0.5])),
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
            return Err(Error::new(format!("mode is {:?}, expected \"plain\"", cx.text("mode")?)));
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

fn operators(packages: &[&'static PackageV1]) -> Operators {
    let mut operators = built_in();
    for package in packages {
        operators.add_static(package).unwrap();
    }
    operators
}

fn run(
    graph: Graph,
    packages: &[&'static PackageV1],
    options: &CompileOptions,
) -> Result<(Vec<f32>, Vec<String>), CompileError> {
    let model = compile_graph(graph, &operators(packages), options)?;
    let mut session = model.session().unwrap();
    session.input_mut::<f32>("x").unwrap().copy_from_slice(&[-1.0, 3.0]);
    session.run().unwrap();
    Ok((session.output::<f32>("y").unwrap().to_vec(), model.report().notices.clone()))
}

fn refusal(graph: Graph, packages: &[&'static PackageV1]) -> String {
    run(graph, packages, &CompileOptions::default()).unwrap_err().to_string()
}

fn attr(name: &str, value: Attr) -> impl FnOnce(&mut Graph, &mut Node) {
    let name = name.to_owned();
    move |_, node| node.attrs.push((name, value))
}

/// A graph of its own.
fn subgraph_attribute() -> Attr {
    Attr::Graph(Box::new(Graph::new("held")))
}

#[test]
fn a_package_takes_the_nodes_of_a_built_in_type_and_the_run_says_so() {
    let (built_in, notices) = run(graph(|_, _| {}), &[], &CompileOptions::default()).unwrap();
    assert_eq!((built_in, notices), (vec![0.0, 3.0], vec![]));
    let (packaged, notices) = run(graph(|_, _| {}), &[&MINE], &CompileOptions::default()).unwrap();
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
    let mut options = CompileOptions::default();
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
        run(by_domain, both, &CompileOptions::default()).is_ok(),
        "the node's domain names its package"
    );
}

#[test]
fn left_out_parameters_and_constant_inputs_take_their_defaults() {
    let given = graph(|graph, node| {
        let shift = graph.add_constant(
            "shift",
            Tensor::from_slice::<f32>(Shape::new(&[1]).unwrap(), &[10.0]).unwrap(),
        );
        node.inputs.push(Some(shift));
        node.attrs.push(("slope".to_owned(), Attr::Int(1)));
    });
    assert_eq!(run(given, &[&MINE], &CompileOptions::default()).unwrap().0, [10.0, 13.0]);
}

#[test]
fn computed_constant_inputs_are_constants_of_segments_planned_during_the_run() {
    let computed = graph(|graph, node| {
        let z = graph.add_input("z", DType::F32, [DimSpec::Fixed(1)]);
        node.inputs.push(Some(z));
        node.attrs.push(("slope".to_owned(), Attr::Int(1)));
    });
    let model = compile_graph(computed, &operators(&[&MINE]), &CompileOptions::default()).unwrap();
    let mut session = model.session().unwrap();
    session.input_mut::<f32>("x").unwrap().copy_from_slice(&[-1.0, 3.0]);
    for (shift, wanted, replans) in [(10.0, [10.0, 13.0], 1), (20.0, [20.0, 23.0], 2)] {
        session.input_mut::<f32>("z").unwrap()[0] = shift;
        session.run().unwrap();
        assert_eq!(session.output::<f32>("y").unwrap(), wanted);
        assert_eq!(session.replans(), replans);
    }
}

#[test]
fn a_node_that_does_not_fit_its_schema_is_refused_by_name() {
    let cases: Vec<(Graph, &str)> = vec![
        (
            graph(attr("alpha", Attr::Float(1.0))),
            "attribute \"alpha\" is not a parameter of operator Relu, which has slope, steps, mode, axes",
        ),
        (
            graph(attr("slope", Attr::Text("x".to_owned()))),
            "attribute \"slope\" is text, expected a number",
        ),
        (
            graph(attr("steps", Attr::Float(1.5))),
            "attribute \"steps\" is a real number, expected an integer",
        ),
        (
            graph(attr("axes", Attr::Int(1))),
            "attribute \"axes\" is an integer, expected a list of integers",
        ),
        (
            graph(attr("body", subgraph_attribute())),
            "attribute \"body\" is not a parameter of operator Relu, which has slope, steps, mode, axes",
        ),
        (graph(attr("mode", subgraph_attribute())), "attribute \"mode\" is a graph, expected text"),
        (
            graph(attr("axes", Attr::Graphs(Vec::new()))),
            "attribute \"axes\" is a list of graphs, expected a list of integers",
        ),
        (
            graph(attr("mode", Attr::Text("wild".to_owned()))),
            "mode is \"wild\", expected \"plain\"",
        ),
        (graph(|_, node| node.inputs.clear()), "input \"x\" is missing"),
        (
            graph(|_, node| node.inputs.extend([None, None])),
            "it has 3 inputs, the operator takes x, shift",
        ),
        (graph(|_, node| node.outputs.push(None)), "it has 2 outputs, expected at most 1"),
    ];
    for (graph, reason) in cases {
        assert_eq!(refusal(graph, &[&MINE]), format!("node \"act\" (Relu): {reason}"));
    }
}

#[test]
fn undeclared_names_are_reported_with_the_declaring_line() {
    let help = |graph: Graph, packages: &[&'static PackageV1]| {
        let error = run(graph, packages, &CompileOptions::default()).unwrap_err();
        let CompileError::Resolve(error) = error else { unreachable!("it is about binding") };
        error.help()
    };
    let line = |list: &str, line: &str| {
        Some(format!(
            "declare it in {list} of Relu in the package's config: {line}; then `udo new` and `udo build`"
        ))
    };
    let tensor = Tensor::from_slice::<i64>(Shape::new(&[1]).unwrap(), &[1]).unwrap();
    let cases = [
        ("axis", Attr::Int(1), "scalar_params", r#"{"name": "axis", "data_type": "INT_32"}"#),
        ("far", Attr::Int(1 << 40), "scalar_params", r#"{"name": "far", "data_type": "INT_64"}"#),
        ("eps", Attr::Float(0.5), "scalar_params", r#"{"name": "eps", "data_type": "FLOAT_32"}"#),
        (
            "kind",
            Attr::Text("a".to_owned()),
            "scalar_params",
            r#"{"name": "kind", "data_type": "STRING"}"#,
        ),
        (
            "pads",
            Attr::Ints(vec![1]),
            "tensor_params",
            r#"{"name": "pads", "data_type": "INT_32"}"#,
        ),
        (
            "scales",
            Attr::Floats(vec![1.0]),
            "tensor_params",
            r#"{"name": "scales", "data_type": "FLOAT_32"}"#,
        ),
        (
            "table",
            Attr::Tensor(tensor),
            "tensor_params",
            r#"{"name": "table", "data_type": "INT_64"}"#,
        ),
        (
            "a.b",
            Attr::Int(1),
            "scalar_params",
            r#"{"name": "a_b", "attribute": "a.b", "data_type": "INT_32"}"#,
        ),
    ];
    for (name, value, list, wanted) in cases {
        assert_eq!(help(graph(attr(name, value)), &[&MINE]), line(list, wanted), "{name}");
    }
    assert_eq!(help(graph(attr("body", subgraph_attribute())), &[&MINE]), None);
    // A built-in operator has no config.
    assert_eq!(help(graph(attr("axis", Attr::Int(1))), &[]), None);
    let of_type = |dtype: DType| {
        graph(|graph, node| {
            let x = graph.add_input("other", dtype, [DimSpec::Fixed(2)]);
            node.inputs = vec![Some(x)];
        })
    };
    let cast =
        |declare: &str| Some(format!("put a Cast to FLOAT before the node in the model{declare}"));
    assert_eq!(
        help(of_type(DType::I64), &[&MINE]),
        cast(", or declare INT_64 for \"x\" in the package's config")
    );
    assert_eq!(help(of_type(DType::F64), &[&MINE]), cast(""));
}

#[test]
fn unknown_operators_and_dynamic_shapes_suggest_the_next_step() {
    let named = |op: &'static str| graph(move |_, node| op.clone_into(&mut node.op));
    let error = run(named("Blend"), &[], &CompileOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "node \"act\": no package has an operator \"Blend\"");
    let CompileError::Resolve(error) = error else { unreachable!("it is about binding") };
    assert!(error.help().unwrap().contains("--package"));
    let of = |op: &'static str| refusal(named(op), &[]);
    assert_eq!(
        of("Sigmod"),
        "node \"act\": no package has an operator \"Sigmod\", did you mean \"Sigmoid\"?"
    );
    assert_eq!(
        of("relu"),
        "node \"act\": no package has an operator \"relu\", did you mean \"Relu\"?"
    );
    assert_eq!(
        of("StringSplit"),
        "node \"act\": no package has an operator \"StringSplit\": it is an ONNX operator for strings, which are not supported"
    );
}

#[test]
fn every_missing_operator_is_named_at_once() {
    let text = "graph lacking
  input x: f32[batch,2]
  a = Blend@17(x) # a
  b = Relu@17(a) # b
  c = Stir@17(b) # c
    body: graph \"body\"
      capture b
      d = Blend@17(b) # d
      output d
  e = com.acme:Relux@1(c) # e
  f = StringConcat@20(e, e) # f
  g = FlexAttention@17(f) # g
  output g
";
    let graph = Graph::parse(text).unwrap();
    let error = compile_graph(graph, &operators(&[]), &CompileOptions::default()).unwrap_err();
    let wanted = [
        "no package has an operator \"Blend\" (2 nodes, the first \"a\")",
        "\"Stir\" (1 node, \"c\")",
        "\"Relux\" (1 node, \"e\") of domain \"com.acme\", did you mean \"Relu\"?",
        "\"StringConcat\" (1 node, \"f\"): it is an ONNX operator for strings, which are not supported",
        "\"FlexAttention\" (1 node, \"g\")",
    ];
    assert_eq!(error.to_string(), wanted.join("; "));
}

type Shapes<'a> = &'a [(&'a str, &'a [usize])];
type Dims<'a> = &'a [(&'a str, usize)];

/// Loads a model with the inputs `f32[batch,2]` and `f32[?]` for these shapes and named dimensions.
fn opened(shapes: Shapes<'_>, dims: Dims<'_>) -> String {
    let graph = Graph::parse(
        "graph open\n input x: f32[batch,2]\n input s: f32[?]\n y = Mul@17(x, s)\n output y\n",
    );
    let mut options = CompileOptions::default();
    options.bind.shapes = shapes.iter().map(|(n, s)| ((*n).to_owned(), s.to_vec())).collect();
    options.bind.dims = dims.iter().map(|(n, d)| ((*n).to_owned(), *d)).collect();
    let prepared = compile_graph(graph.unwrap(), &operators(&[]), &options).and_then(|model| {
        let mut session = model.session()?;
        session.prepare(&[]).map(|()| session)
    });
    match prepared {
        Ok(session) => session.plans().next().unwrap().outputs().next().unwrap().1.to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn open_shapes_and_dimensions_are_given_by_name() {
    let s: (&str, &[usize]) = ("s", &[2]);
    assert_eq!(opened(&[("x", &[3, 2]), s], &[]), "f32[3,2]");
    assert_eq!(opened(&[s], &[("batch", 4)]), "f32[4,2]");
    assert_eq!(opened(&[("x", &[4, 2]), s], &[("batch", 4)]), "f32[4,2]");
    let refused: [(Shapes<'_>, Dims<'_>, &str); 8] = [
        (&[], &[], "graph input \"x\" has the open shape batch,2, expected a shape for it"),
        (&[], &[("batch", 4)], "graph input \"s\" has the open shape ?, expected a shape for it"),
        (&[s], &[("bach", 4)], "no input has a dimension \"bach\", expected one of \"batch\""),
        (&[("t", &[1])], &[], "the model has no input \"t\", expected one of \"x\", \"s\""),
        (&[("x", &[3, 4]), s], &[], "graph input \"x\" has the shape 3,4, expected one of batch,2"),
        (&[("x", &[3]), s], &[], "graph input \"x\" has the shape 3, expected one of batch,2"),
        (
            &[("x", &[3, 2]), s],
            &[("batch", 4)],
            "graph input \"x\" has the shape 3,2, expected one of batch,2",
        ),
        (
            &[("x", &[usize::MAX, 2]), s],
            &[],
            "graph input \"x\" has the shape 18446744073709551615,2, expected one of batch,2",
        ),
    ];
    for (shapes, dims, wanted) in refused {
        assert_eq!(opened(shapes, dims), wanted);
    }
}

/// `y = x + by`, in a domain of its own each.
struct Shift<const BY: u8>;

impl<const BY: u8> Shift<BY> {
    const DOMAIN: &'static str = match BY {
        1 => "com.one",
        2 => "ai.onnx",
        _ => "",
    };
}

impl<const BY: u8> Op for Shift<BY> {
    const SCHEMA: OpSchema =
        OpSchema::new("Shift", &[Port::required("x", F32)], &[Port::required("y", F32)], &[])
            .in_domain(Self::DOMAIN);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

impl<const BY: u8> Kernel for Shift<BY> {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        for (y, x) in outputs.take::<f32>(0)?.iter_mut().zip(inputs.get::<f32>(0)?) {
            *y = x + f32::from(BY);
        }
        Ok(())
    }
}

#[test]
fn a_package_may_have_one_name_in_several_domains() {
    static SEVERAL: PackageV1 = PackageV1::new("Several", "1.0.0")
        .ops(&[OpDef::of::<Shift<1>>(), OpDef::of::<Shift<2>>(), OpDef::of::<Shift<3>>()])
        .kernels(&[
            KernelDef::new::<Shift<1>>("Shift", Core::CPU).in_domain("com.one"),
            KernelDef::new::<Shift<2>>("Shift", Core::CPU).in_domain("ai.onnx"),
            KernelDef::new::<Shift<3>>("Shift", Core::CPU),
        ])
        .guarded();
    let shifted = |domain: &str, bind: &[(&str, &str)]| shifted(domain, &[&SEVERAL], bind);
    for (domain, wanted) in [("com.one", 1), ("", 2), ("ai.onnx", 2), ("Several", 3)] {
        assert_eq!(shifted(domain, &[]), Ok(wanted), "{domain}");
    }
    let foreign = shifted("com.other", &[]).unwrap_err();
    assert!(foreign.contains("of domain \"com.other\", and package Several has one"), "{foreign}");
    for bind in ["Shift", "com.other:Shift"] {
        assert_eq!(shifted("com.other", &[(bind, "Several")]), Ok(1), "the first");
    }
}

/// How much a node of type Shift and this domain adds.
fn shifted(
    domain: &str,
    packages: &[&'static PackageV1],
    bind: &[(&str, &str)],
) -> Result<u8, String> {
    let mut graph = Graph::new("domains");
    let x = graph.add_input("x", DType::F32, [DimSpec::Fixed(1)]);
    let y = graph.add_value("y");
    let mut node = Node::new("Shift", 17, &[x], &[y]);
    (node.name, node.domain) = ("n".to_owned(), domain.to_owned());
    graph.add_node(node);
    graph.outputs.push(y);
    let mut options = CompileOptions::default();
    let bind = bind.iter().map(|&(of, package)| (of.to_owned(), package.to_owned()));
    options.bind.bind = bind.collect();
    let model = compile_graph(graph, &operators(packages), &options);
    let model = model.map_err(|error| match &error {
        CompileError::Resolve(why) => {
            format!("{error}; help: {}", why.help().unwrap_or_default())
        }
        _ => error.to_string(),
    })?;
    let mut session = model.session().unwrap();
    session.input_mut::<f32>("x").unwrap()[0] = 10.0;
    session.run().unwrap();
    let y = session.output::<f32>("y").unwrap()[0];
    Ok((1..=3).find(|&by| (y - 10.0 - f32::from(by)).abs() < 1e-6).unwrap())
}

/// One that says its domain, one of ONNX's, and one that is called by its package's name.
static ONE: PackageV1 = PackageV1::new("One", "1.0.0")
    .ops(&[OpDef::of::<Shift<1>>()])
    .kernels(&[KernelDef::new::<Shift<1>>("Shift", Core::CPU)])
    .guarded();
static PLAIN: PackageV1 = PackageV1::new("Plain", "1.0.0")
    .ops(&[OpDef::of::<Shift<3>>()])
    .kernels(&[KernelDef::new::<Shift<3>>("Shift", Core::CPU)])
    .guarded();

#[test]
fn a_node_runs_on_an_operator_of_its_domain_or_where_it_is_bound() {
    // ONNX defines no Shift: a node without a domain goes to the one package that has it.
    assert_eq!(shifted("", &[&ONE], &[]), Ok(1));
    assert_eq!(shifted("ai.onnx", &[&PLAIN], &[]), Ok(3));
    assert_eq!(
        shifted("", &[&ONE, &PLAIN], &[]).unwrap_err(),
        "node \"n\": operator \"Shift\" is in packages One, Plain; help: choose one with --bind Shift=One"
    );
    assert_eq!(shifted("", &[&ONE, &PLAIN], &[("Shift", "Plain")]), Ok(3));
    for (domain, by) in [("com.one", 1), ("One", 1), ("Plain", 3)] {
        assert_eq!(shifted(domain, &[&ONE, &PLAIN], &[]), Ok(by), "{domain}");
    }
    // Another one's.
    assert_eq!(
        shifted("com.rival", &[&PLAIN], &[]).unwrap_err(),
        "node \"n\": no package has an operator \"Shift\" of domain \"com.rival\", and package Plain has one of its \
         name in another domain; help: --bind Shift=Plain runs such nodes on the package's operator"
    );
    let both = shifted("com.rival", &[&ONE, &PLAIN], &[]).unwrap_err();
    assert!(
        both.contains("and packages One, Plain have one of its name in other domains"),
        "{both}"
    );
    assert_eq!(shifted("com.rival", &[&ONE, &PLAIN], &[("Shift", "Plain")]), Ok(3));
    assert_eq!(shifted("com.rival", &[&PLAIN], &[("com.rival:Shift", "Plain")]), Ok(3));
    let other = shifted("com.rival", &[&PLAIN], &[("com.other:Shift", "Plain")]).unwrap_err();
    assert!(other.contains("--bind Shift=Plain"), "{other}");
    let none = shifted("com.rival", &[&PLAIN], &[("Shift", "One")]).unwrap_err();
    assert!(none.starts_with("operator \"Shift\" is bound to package \"One\""), "{none}");
    // Neither does ONNX's own take nodes of others, nor a package of another domain those of ONNX.
    let foreign = graph(|_, node| "com.rival".clone_into(&mut node.domain));
    assert!(refusal(foreign, &[]).contains("\"Relu\" of domain \"com.rival\""));
}

#[test]
fn built_in_operators_take_nodes_of_their_own_domain() {
    let resolved = |node: &str| {
        let text = format!(
            "graph \"g\"\n  input x: u8[2]\n  constant s: f32[]{{0.5}}\n  y = {node}@1(x, s, _, s)\n  output y\n"
        );
        let graph = Graph::parse(&text).unwrap();
        let resolved = resolve_graph(graph, &built_in(), &BindOptions::default());
        let resolved = resolved.map_err(|e| e.to_string())?.graph;
        Ok::<_, String>(resolved.nodes[0].op.schema().domain().to_owned())
    };
    assert_eq!(resolved("com.microsoft:QLinearSigmoid"), Ok("com.microsoft".to_owned()));
    for (node, of) in
        [("QLinearSigmoid", ""), ("com.acme:QLinearSigmoid", " of domain \"com.acme\"")]
    {
        let error = resolved(node).unwrap_err();
        assert_eq!(
            error,
            format!("node \"QLinearSigmoid_0\": no package has an operator \"QLinearSigmoid\"{of}")
        );
    }
}

#[test]
fn kernels_say_which_domain_where_their_name_is_not_enough() {
    static TWICE: PackageV1 =
        PackageV1::new("P", "1").ops(&[OpDef::of::<Shift<1>>(), OpDef::of::<Shift<1>>()]);
    static NONE: PackageV1 = PackageV1::new("P", "1")
        .ops(&[OpDef::of::<Shift<1>>(), OpDef::of::<Shift<2>>()])
        .kernels(&[KernelDef::new::<Shift<1>>("Shift", Core::CPU)]);
    static OTHER: PackageV1 = PackageV1::new("P", "1")
        .ops(&[OpDef::of::<Shift<1>>()])
        .kernels(&[KernelDef::new::<Shift<1>>("Shift", Core::CPU).in_domain("com.two")]);
    let cases = [
        (&TWICE, "operator \"Shift\" of domain \"com.one\" is listed twice"),
        (&NONE, "kernel 0 (\"Shift\"): it has no domain, expected one of com.one, ai.onnx"),
        (
            &OTHER,
            "kernel 0 (\"Shift\"): its package does not describe this operator in domain \"com.two\"",
        ),
    ];
    for (package, wanted) in cases {
        let error = Operators::new().add_static(package).unwrap_err();
        assert_eq!(error.to_string(), format!("linked-in package \"P\": {wanted}"));
    }
}

struct Typed;

impl Op for Typed {
    const SCHEMA: OpSchema = OpSchema::new(
        "Typed",
        &[Port::required("x", F32)],
        &[Port::required("y", F32)],
        &[Param::scalar("kind", DType::I64).attribute("type")],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

struct TypedF32(i64);

impl Kernel for TypedF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self(cx.int("kind")?))
    }

    #[expect(clippy::cast_precision_loss, reason = "the number is small")]
    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { mut outputs, .. } = io;
        outputs.take::<f32>(0)?.fill(self.0 as f32);
        Ok(())
    }
}

#[test]
fn a_parameter_may_have_another_name_than_its_attribute() {
    static CLASH: PackageV1 = PackageV1::new("P", "1").ops(&[OpDef::of::<Clash>()]);
    static TYPED: PackageV1 = PackageV1::new("TypedPackage", "1.0.0")
        .ops(&[OpDef::of::<Typed>()])
        .kernels(&[KernelDef::new::<TypedF32>("Typed", Core::CPU)])
        .guarded();
    let typed = |name: &str, value| {
        let give = attr(name, value);
        graph(|graph, node| {
            "Typed".clone_into(&mut node.op);
            give(graph, node);
        })
    };
    let (result, _) =
        run(typed("type", Attr::Int(5)), &[&TYPED], &CompileOptions::default()).unwrap();
    assert_eq!(result, [5.0, 5.0]);
    let cases = [
        (
            typed("kind", Attr::Int(5)),
            "attribute \"kind\" is not a parameter of operator Typed, which has type",
        ),
        (
            typed("type", Attr::Float(0.5)),
            "attribute \"type\" is a real number, expected an integer",
        ),
        (
            graph(|_, node| "Typed".clone_into(&mut node.op)),
            "attribute \"type\" is missing, and it has no default",
        ),
    ];
    for (graph, wanted) in cases {
        assert_eq!(refusal(graph, &[&TYPED]), format!("node \"act\" (Typed): {wanted}"));
    }
    let error = Operators::new().add_static(&CLASH).unwrap_err();
    assert_eq!(
        error.to_string(),
        "linked-in package \"P\": operator \"Clash\": parameter \"b\": attribute \"a\" belongs to another parameter"
    );
}

struct Clash;

impl Op for Clash {
    const SCHEMA: OpSchema = OpSchema::new(
        "Clash",
        &[Port::required("x", F32)],
        &[Port::required("y", F32)],
        &[Param::text("a"), Param::text("b").attribute("a")],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}
