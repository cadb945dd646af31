//! Tests of subgraphs: graphs in attributes of nodes, which may read (capture) values of outer graphs.

use super::*;
use crate::graph::NodeReads;

/// An input or output without a type.
fn untyped(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: name.to_owned(), r#type: None }
}

fn node(op: &str, input: &[&str], output: &[&str], graphs: &[(&str, &GraphProto)]) -> NodeProto {
    let mut node = NodeProto::new(op, input, output);
    let attributes = graphs.iter().map(|(name, graph)| AttributeProto::graph(name, graph));
    node.attribute.extend(attributes);
    node
}

/// The body of a loop: it adds the value `shift` of the graph two levels further out, and doubles.
fn body() -> GraphProto {
    GraphProto {
        node: vec![
            // Before the producer of its input.
            NodeProto::new("Mul", &["sum", "scale"], &["next"]),
            NodeProto::new("Sum", &["carried", "shift"], &["sum"]),
        ],
        name: "body".to_owned(),
        initializer: vec![floats("scale", &[], &[2.0])],
        input: vec![
            ValueInfoProto::tensor("i", 7, vec![]),
            untyped("go"),
            ValueInfoProto::tensor("carried", F32, vec![DimensionProto::named("n")]),
        ],
        output: vec![untyped("go"), value("next", &[2]), untyped("sum")],
        value_info: vec![value("sum", &[2])],
        ..GraphProto::default()
    }
}

fn then_branch() -> GraphProto {
    let mut trip_count = NodeProto::new("Constant", &[], &["trips"]);
    trip_count.attribute = vec![AttributeProto::int("value_int", 3)];
    GraphProto {
        node: vec![
            node("Loop", &["trips", "", "x"], &["last", "all"], &[("body", &body())]),
            trip_count,
        ],
        name: "then".to_owned(),
        output: vec![untyped("last")],
        ..GraphProto::default()
    }
}

fn else_branch() -> GraphProto {
    let output = vec![untyped("shift")];
    GraphProto { name: "else".to_owned(), output, ..GraphProto::default() }
}

/// A model that chooses between a loop and a value.
fn branching() -> ModelProto {
    let (then_branch, else_branch) = (then_branch(), else_branch());
    let branches = [("then_branch", &then_branch), ("else_branch", &else_branch)];
    let mut choice = node("If", &["c"], &["y"], &branches);
    choice.name = "choice".to_owned();
    model(GraphProto {
        // Before the producer of `shift`, which its graphs read.
        node: vec![choice, NodeProto::new("Neg", &["x"], &["shift"])],
        input: vec![
            ValueInfoProto::tensor("c", 9, vec![]),
            ValueInfoProto::tensor("x", F32, vec![DimensionProto::named("n")]),
        ],
        output: vec![value("y", &[2])],
        ..GraphProto::default()
    })
}

fn model(graph: GraphProto) -> ModelProto {
    ModelProto {
        ir_version: 8,
        graph: Some(graph),
        opset_import: vec![OperatorSetIdProto::new("", 17)],
        ..ModelProto::default()
    }
}

/// A model with one node that has these subgraphs.
fn with_subgraphs(graphs: &[(&str, &GraphProto)]) -> ModelProto {
    model(GraphProto {
        node: vec![node("If", &["x"], &["y"], graphs)],
        input: vec![value("x", &[2])],
        output: vec![value("y", &[2])],
        ..GraphProto::default()
    })
}

/// Encodes a model with subgraphs nested `depth` deep.
fn nested(depth: usize) -> Vec<u8> {
    let mut graph = GraphProto { output: vec![untyped("x")], ..GraphProto::default() };
    for _ in 1..depth {
        let node = vec![node("If", &[], &["y"], &[("b", &graph)])];
        graph = GraphProto { node, ..GraphProto::default() };
    }
    with_subgraphs(&[("b", &graph)]).to_bytes()
}

#[test]
fn subgraphs_capture_values_of_outer_graphs() {
    let expected = r#"graph "small"
  input c: bool[]
  input x: f32[n]
  shift = Neg@17(x) # Neg_1
  y: f32[2] = If@17(c) # choice
    then_branch: graph "then"
      constant trips: i64[]{3}
      capture x
      capture shift
      last, all = Loop@17(trips, _, x) # Loop_0
        body: graph "body"
          constant scale: f32[]{2.0}
          input i: i64[]
          input go
          input carried: f32[n]
          capture shift
          sum: f32[2] = Sum@17(carried, shift) # Sum_1
          next: f32[2] = Mul@17(sum, scale) # Mul_0
          output go, next, sum
      output last
    else_branch: graph "else"
      capture shift
      output shift
  output y
"#;
    let graph = read(&branching()).unwrap();
    assert_eq!(graph.to_string(), expected);
    assert_eq!(graph.verify(), Ok(()));
    assert_eq!(Graph::parse(expected).unwrap().to_string(), expected);
}

#[test]
fn lists_of_graphs_may_lack_an_attribute_type() {
    for is_old in [false, true] {
        let mut model = with_subgraphs(&[]);
        let graphs = [else_branch(), else_branch()].map(|mut graph| {
            graph.output[0].name = "x".to_owned();
            graph
        });
        let mut attributes = [
            AttributeProto::graphs("ways", &graphs),
            AttributeProto::graph("way", &graphs[0]),
            AttributeProto::graphs("none", &[]),
        ];
        if is_old {
            attributes[0].r#type = AttributeProto::UNDEFINED;
            attributes[1].r#type = AttributeProto::UNDEFINED;
        }
        model.graph.as_mut().unwrap().node[0].attribute = attributes.to_vec();
        let text = read(&model).unwrap().to_string();
        let block = "    ways: graphs\n      graph \"else\"\n        capture x\n        output x\n";
        assert!(text.contains(block), "{text}");
        assert!(text.contains("    way: graph \"else\"\n      capture x\n"), "{text}");
        assert!(text.contains("    none: graphs\n"), "{text}");
    }
}

#[test]
fn a_name_in_a_subgraph_shadows_the_outer_value() {
    let inner = GraphProto {
        node: vec![NodeProto::new("Abs", &["x"], &["z"]), NodeProto::new("Neg", &["w"], &["x"])],
        initializer: vec![floats("w", &[], &[2.0])],
        output: vec![untyped("z")],
        ..GraphProto::default()
    };
    let mut model = with_subgraphs(&[("b", &inner)]);
    model.graph.as_mut().unwrap().initializer.push(floats("w", &[], &[1.0]));
    let graph = read(&model).unwrap();
    let inner = graph.nodes[0].subgraphs().next().unwrap().graph;
    assert!(inner.captures.is_empty());
    assert_eq!(inner.nodes[0].op, "Neg");
    let w = inner.value_named("w").and_then(|w| inner.constant(w)).unwrap();
    assert_eq!(w.get::<f32>(), Some(&[2.0][..]));
}

#[test]
fn errors_name_the_path_of_the_subgraph() {
    type Break = fn(&mut GraphProto);
    fn subgraph_attribute() -> AttributeProto {
        AttributeProto::graph("a", &body())
    }
    let within = r#"node "If_0" attribute "b": node "Loop_0" attribute "body": "#;
    let cases: [(Break, &str); 9] = [
        (
            |g| g.node[1].input[1] = "lost".to_owned(),
            r#"node "Sum_1" input 1 is value "lost", which nothing makes"#,
        ),
        (|g| g.output[0].name.clear(), r#"output 0 is value "", which nothing makes"#),
        (
            |g| g.node[0].output[0] = "i".to_owned(),
            r#"node "Mul_0": a second value called "i", expected different names"#,
        ),
        (
            |g| g.node[1].input[0] = "next".to_owned(),
            r#"nodes wait for each other: "Sum_1" -> "Mul_0" -> "Sum_1""#,
        ),
        (
            |g| g.input.push(untyped("go")),
            r#"input "go": a duplicate input name, expected different names"#,
        ),
        (
            |g| {
                let r#type = TypeProto { map_type: Some(vec![]), ..TypeProto::default() };
                g.input[1].r#type = Some(r#type);
            },
            r#"input "go": a map is not supported, expected a tensor"#,
        ),
        (
            |g| g.node[0].domain = "org.other".to_owned(),
            r#"node "Mul_0": domain "org.other", which the model does not import, expected an opset import for it"#,
        ),
        (
            |g| {
                g.node[0].attribute =
                    vec![AttributeProto { g: Some(vec![9, 9].into()), ..subgraph_attribute() }];
            },
            r#"node "Mul_0" attribute "a": the graph is not an ONNX GraphProto, or is truncated: "#,
        ),
        (
            |g| g.node[0].attribute = vec![AttributeProto { g: None, ..subgraph_attribute() }],
            r#"node "Mul_0" attribute "a": no graph, expected a graph"#,
        ),
    ];
    for (break_it, expected) in cases {
        let mut inner = body();
        inner.node[1].input[1] = "x".to_owned();
        break_it(&mut inner);
        let then = GraphProto {
            node: vec![node("Loop", &[], &["z"], &[("body", &inner)])],
            ..GraphProto::default()
        };
        let error = read(&with_subgraphs(&[("b", &then)])).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{within}{expected}")), "{error}");
    }

    let mut model = with_subgraphs(&[]);
    let (good, mut bad) = (GraphProto::default(), else_branch());
    bad.output[0].name = "lost".to_owned();
    let attribute = AttributeProto::graphs("ways", &[good, bad]);
    model.graph.as_mut().unwrap().node[0].attribute = vec![attribute];
    let expected =
        r#"node "If_0" attribute "ways" graph 1: output 0 is value "lost", which nothing makes"#;
    assert_eq!(read(&model).unwrap_err().to_string(), expected);
}

#[test]
fn a_subgraph_cannot_read_outputs_of_its_node_or_be_in_a_constant() {
    let mut cyclic = else_branch();
    cyclic.output[0].name = "y".to_owned();
    let error = read(&with_subgraphs(&[("b", &cyclic)])).unwrap_err().to_string();
    assert_eq!(error, r#"nodes wait for each other: "If_0" -> "If_0""#);

    let mut model = with_subgraphs(&[("value", &GraphProto::default())]);
    let constant = &mut model.graph.as_mut().unwrap().node[0];
    constant.op_type = "Constant".to_owned();
    let expected = r#"node "Constant_0" attribute "value": a graph is not supported, expected numbers, strings, a tensor or graphs"#;
    assert_eq!(read(&model).unwrap_err().to_string(), expected);
}

#[test]
fn the_nesting_of_subgraphs_is_limited() {
    let graph = import(&ModelBytes::copy_of(&nested(16)), "m", &options()).unwrap();
    let text = graph.to_string();
    assert_eq!(text.matches("capture x\n").count(), 16, "{text}");
    assert_eq!(Graph::parse(&text).unwrap().to_string(), text);

    let expected =
        r#"node "If_0" attribute "b": subgraphs are nested more than 16 deep, expected at most 16"#;
    for depth in [17, 1000] {
        let error =
            import(&ModelBytes::copy_of(&nested(depth)), "m", &options()).unwrap_err().to_string();
        assert_eq!(error, expected);
    }
}

#[test]
fn constants_of_a_subgraph_may_be_in_an_external_file() {
    let outside = Outside::new("subgraph");
    let entry = |key: &str, value: &str| StringStringEntryProto {
        key: key.to_owned(),
        value: value.to_owned(),
    };
    let read = |elements: &str| {
        let mut inner = body();
        let scale = &mut inner.initializer[0];
        scale.float_data.clear();
        scale.data_location = 1;
        scale.external_data = vec![entry("location", elements)];
        inner.node[1].input[1] = "x".to_owned();
        let path = outside.folder.join("model/m.onnx");
        std::fs::write(&path, with_subgraphs(&[("b", &inner)]).to_bytes()).unwrap();
        file(&path, &options())
    };
    let graph = read("w.bin").unwrap();
    let inner = graph.nodes[0].subgraphs().next().unwrap().graph;
    let scale = inner.value_named("scale").and_then(|id| inner.constant(id)).unwrap();
    assert_eq!(scale.get::<f32>(), Some(&[9.0][..]));
    let expected = r#"node "If_0" attribute "b": initializer "scale": external location "../secret.bin", expected a file in the model's folder"#;
    assert_eq!(read("../secret.bin").unwrap_err().to_string(), expected);
    assert!(matches!(read("no.bin"), Err(ImportError::Read { .. })));
}

#[test]
fn broken_files_with_subgraphs_never_panic() {
    break_all(&branching().to_bytes());
    break_all(&nested(4));
}
