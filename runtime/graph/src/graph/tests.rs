//! Tests of graphs: printing and parsing, sorting, the verifier, and edits.

use udo_api::Shape;

use super::*;
use crate::graph::{CutGraph, InPlace, Links, NodeReads, admits};

fn matrix() -> Tensor {
    Tensor::zeros(DType::F32, Shape::new(&[4, 2]).unwrap()).unwrap()
}

/// Creates a graph of two nodes, with all kinds of dimensions and attributes.
fn small() -> Graph {
    let mut graph = Graph::new("small");
    let dims = [DimSpec::Named("batch".to_owned()), DimSpec::Unknown, DimSpec::Fixed(4)];
    let x = graph.add_input("x", DType::F32, dims);
    let w = graph.add_constant("w 1", matrix());
    let (h, y) = (graph.add_value("h"), graph.add_value("y"));
    graph.add_node(Node::new("MatMul", 13, &[x, w], &[h]));
    let mut twist = Node::new("Twist", 1, &[h], &[y]);
    twist.domain = "com.acme".to_owned();
    twist.inputs.push(None);
    twist.inputs.push(Some(w));
    twist.attrs.push(("axes".to_owned(), Attr::Ints(vec![0, -1])));
    twist.attrs.push(("alpha".to_owned(), Attr::Float(0.5)));
    twist.attrs.push(("mode".to_owned(), Attr::Text("fast\n".to_owned())));
    twist.attrs.push(("table".to_owned(), Attr::Tensor(matrix())));
    graph.add_node(twist);
    graph.outputs.push(y);
    graph
}

#[test]
fn the_text_has_a_line_for_each_node() {
    let expected = r#"graph "small"
  input x: f32[batch,?,4]
  constant "w 1": f32[4,2]{0.0}
  h = MatMul@13(x, "w 1") # MatMul_0
  y = com.acme:Twist@1(h, _, "w 1") axes=[0, -1] alpha=0.5 mode="fast\n" table=f32[4,2]{0.0} # Twist_1
  output y
"#;
    assert_eq!(small().to_string(), expected);
    assert_eq!(small().verify(), Ok(()));
}

#[test]
fn producers_and_consumers_of_values_are_found() {
    let graph = small();
    let [x, w, h, y] = [0, 1, 2, 3].map(ValueId);
    let producers = graph.producers();
    assert_eq!(
        [x, w, h, y].map(|v| producers.get(v).copied().flatten()),
        [None, None, Some(NodeId(0)), Some(NodeId(1))]
    );
    let consumers = graph.consumers();
    assert_eq!(
        consumers.get(w),
        Some(&vec![(NodeId(0), Read::Input(1)), (NodeId(1), Read::Input(2))])
    );
    assert_eq!(consumers.get(y), Some(&vec![]));
    assert_eq!(graph.value_named("h"), Some(h));
    assert_eq!(graph.constant(w).map(Tensor::dims), Some(&[4, 2][..]));
    assert!(graph.constant(x).is_none());
}

#[test]
fn sorting_puts_producers_first_and_otherwise_keeps_the_order() {
    let mut graph = Graph::new("sorted");
    let x = graph.add_input("x", DType::F32, []);
    let values: Vec<_> = (0..4).map(|i| graph.add_value(&format!("v{i}"))).collect();
    graph.add_node(Node::new("C", 1, &[values[1], values[0]], &[values[2]]));
    graph.add_node(Node::new("D", 1, &[x], &[values[3]]));
    graph.add_node(Node::new("B", 1, &[values[0], values[0]], &[values[1]]));
    graph.add_node(Node::new("A", 1, &[x], &[values[0]]));
    let (node, value) = ("C_0".to_owned(), "v1".to_owned());
    assert_eq!(graph.verify(), Err(GraphError::OutOfOrder { node, value }));
    graph.sort().unwrap();
    let ops: Vec<_> = graph.nodes.iter().map(|n| n.op.as_str()).collect();
    assert_eq!(ops, ["D", "A", "B", "C"]);
    assert_eq!(graph.verify(), Ok(()));
    let sorted = graph.to_string();
    graph.sort().unwrap();
    assert_eq!(graph.to_string(), sorted);
}

#[test]
fn cycles_are_named_in_the_direction_of_the_data() {
    let mut graph = Graph::new("cyclic");
    let input = graph.add_input("x", DType::F32, []);
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| graph.add_value(name));
    graph.add_node(Node::new("Tail", 1, &[c], &[d]));
    graph.add_node(Node::new("A", 1, &[input, c], &[a]));
    graph.add_node(Node::new("B", 1, &[a], &[b]));
    graph.add_node(Node::new("C", 1, &[b], &[c]));
    let error = graph.sort().unwrap_err().to_string();
    let expected = r#"nodes wait for each other: "A_1" -> "B_2" -> "C_3" -> "A_1""#;
    assert_eq!(error, expected);
    assert_eq!(graph.nodes.len(), 4, "a failed sort changes nothing");

    let nodes = (0..10).map(|n| n.to_string()).collect();
    let long = GraphError::Cycle { nodes }.to_string();
    assert!(long.ends_with(r#""7" -> (2 more) -> "0""#), "{long}");
}

#[test]
fn the_verifier_reports_each_violation() {
    type Break = fn(&mut Graph);
    let cases: [(Break, &str); 10] = [
        (|g| g.outputs.push(ValueId(9)), "output 1 is value 9, expected one of the graph's 4"),
        (|g| g.outputs.push(ValueId(3)), r#"two outputs are called "y", expected different names"#),
        (|g| g.inputs.push(ValueId(0)), r#"two inputs are called "x", expected different names"#),
        (
            |g| g.inputs.clear(),
            r#"value "x" is an input that is not listed, expected inputs and captures listed, and nothing else"#,
        ),
        (
            |g| g.inputs.push(ValueId(1)),
            r#"value "w 1" is listed as an input, but is not an input, expected inputs and captures listed, and nothing else"#,
        ),
        (
            |g| g.nodes[0].inputs.push(Some(ValueId(7))),
            r#"node "MatMul_0" input 2 is value 7, expected one of the graph's 4"#,
        ),
        (
            |g| g.nodes[1].outputs.push(Some(ValueId(2))),
            r#"node "Twist_1" makes value "h", which already comes from node "MatMul_0""#,
        ),
        (
            |g| g.nodes[1].outputs.push(Some(ValueId(1))),
            r#"node "Twist_1" makes value "w 1", which already comes from the model"#,
        ),
        (
            |g| drop(g.nodes.remove(0)),
            r#"node "Twist_1" input 0 is value "h", which nothing makes"#,
        ),
        (|g| g.nodes.clear(), r#"output 0 is value "y", which nothing makes"#),
    ];
    for (break_it, expected) in cases {
        let mut graph = small();
        break_it(&mut graph);
        assert_eq!(graph.verify().unwrap_err().to_string(), expected);
    }
}

#[test]
fn ids_out_of_range_are_errors() {
    let graph = small();
    assert_eq!(graph.value(ValueId(1)).map(|v| v.name.as_str()), Ok("w 1"));
    let error = graph.value(ValueId(4)).unwrap_err().to_string();
    assert_eq!(error, "an id is value 4, expected one of the graph's 4");
    let error = graph.node(NodeId(2)).unwrap_err().to_string();
    assert_eq!(error, "there is no node 2, expected one of the graph's 2");
}

#[test]
fn unknown_dimensions_admit_any_extent() {
    let f32_type = |dims: &[DimSpec]| TensorType { dtype: DType::F32, dims: dims.to_vec() };
    let desc = *matrix().desc();
    assert!(admits(&f32_type(&[DimSpec::Fixed(4), DimSpec::Unknown]), &desc));
    assert!(admits(&f32_type(&[DimSpec::Named("n".to_owned()), DimSpec::Fixed(2)]), &desc));
    assert!(!admits(&f32_type(&[DimSpec::Fixed(4), DimSpec::Fixed(3)]), &desc));
    assert!(!admits(&f32_type(&[DimSpec::Fixed(4)]), &desc));
    assert!(!admits(
        &f32_type(&[DimSpec::Unknown, DimSpec::Unknown]),
        &desc.with_dtype(DType::F64)
    ));
}

#[test]
fn a_printed_graph_is_parsed_unchanged() {
    let mut graph = small();
    let floats =
        Tensor::from_slice(Shape::new(&[2, 2]).unwrap(), &[1.5f32, -0.0, f32::INFINITY, 1e-9]);
    let floats = graph.add_constant("_", floats.unwrap());
    let quantized = Tensor::from_slice(Shape::new(&[]).unwrap(), &[200u8]).unwrap();
    let quantized = graph.add_constant("a:b", quantized);
    let empty = Tensor::zeros(DType::I64, Shape::new(&[0]).unwrap()).unwrap();
    let empty = graph.add_constant("none", empty);
    let (p, q) = (graph.add_value("p:"), graph.add_value("quoted \"q\""));
    let mut node = Node::new("Odd:op", 3, &[floats, quantized, empty], &[p, q]);
    node.domain = "a.b:c".to_owned();
    node.attrs = vec![
        ("whole".to_owned(), Attr::Int(-3)),
        ("reals".to_owned(), Attr::Floats(vec![0.25, 1e30])),
        ("texts".to_owned(), Attr::Texts(vec!["a".to_owned(), "\u{1}b".to_owned()])),
    ];
    graph.add_node(node);
    let declared = TensorType { dtype: DType::I8, dims: vec![DimSpec::Fixed(2)] };
    graph.values[p.index()].declared = Some(declared);
    graph.outputs.push(q);
    let text = graph.to_string();
    assert_eq!(Graph::parse(&text).unwrap().to_string(), text);
}

#[test]
fn errors_name_the_line_that_cannot_be_parsed() {
    let cases = [
        ("graph g\n  input x f32[2]\n", "line 2: found \"f32[2]\", expected \":\" and a type"),
        ("  input x: g32[2]\n", "line 1: found \"g32[2]\", expected an element type"),
        ("  constant c: f32[2]\n", "line 1: found \"\", expected \"{\" and the elements"),
        (
            "  constant c: u8[2]{1, 256}",
            "line 1: found \"\", expected \"256\" is not an element of u8",
        ),
        ("  y = Relu(x)", "line 1: found \"(x)\", expected \"@\""),
        ("  y = Relu@1(x) mode=\"a", "line 1: found \"a\", expected a closing quote"),
        ("  y = Relu@1(x) # a b", "line 1: found \"b\", expected the end of the line"),
        ("  y = Relu@1(x)", "node \"Relu_0\" input 0 is value \"x\", which nothing makes"),
    ];
    for (text, expected) in cases {
        assert_eq!(Graph::parse(text).unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn failed_edits_leave_the_graph_unchanged() {
    let text = "graph g\n  input x: f32[2]\n  a = Relu@1(x)\n  b = Neg@1(a)\n  output b\n";
    let mut graph = Graph::parse(text).unwrap();
    let [x, a, b] = ["x", "a", "b"].map(|name| graph.value_named(name).unwrap());
    let original = graph.to_string();
    let (first, second, missing) = (NodeId(0), NodeId(1), NodeId(9));

    assert!(matches!(graph.remove(first), Err(GraphError::NoProducer { .. })));
    assert!(matches!(graph.remove(missing), Err(GraphError::NoSuchNode { .. })));
    let reads_later = Node::new("Neg", 1, &[b], &[a]);
    assert!(matches!(graph.replace(first, reads_later), Err(GraphError::OutOfOrder { .. })));
    let duplicate = Node::new("Neg", 1, &[x], &[a]);
    assert!(matches!(graph.insert(second, duplicate), Err(GraphError::TwoProducers { .. })));
    assert!(matches!(
        graph.insert(missing, Node::new("Neg", 1, &[x], &[])),
        Err(GraphError::NoSuchNode { .. })
    ));
    assert_eq!(graph.to_string(), original);

    let old = graph.replace(first, Node::new("Abs", 1, &[x], &[a])).unwrap();
    assert_eq!(old.op, "Relu");
    let c = graph.add_value("c");
    graph.insert(NodeId(2), Node::new("Abs", 1, &[b], &[c])).unwrap();
    assert_eq!(graph.nodes.len(), 3);
    assert_eq!(graph.remove(NodeId(2)).unwrap().op, "Abs");
    assert_eq!(graph.producer(b), Some(second));
    assert_eq!(graph.producer(x), None);
}

#[test]
fn defaults_are_printed_and_can_become_inputs() {
    let text = "graph \"g\"
  constant k: f32[1]{2.0}
  constant c: f32[1]{3.0}
  input x: f32[2]
  input z: f32[2]
  y = Mul@14(x, k) # Mul_0
  v = Add@14(z, c) # Add_1
  output y, v
  default k: f32[n] 0
  default c: f32[1] 1
";
    let graph = Graph::parse(text).unwrap();
    assert_eq!(graph.to_string(), text);
    graph.verify().unwrap();
    let promoted = |names: &[&str]| {
        let mut graph = graph.clone();
        promote_defaults(&mut graph, &names.iter().map(|&name| name.to_owned()).collect());
        graph.verify().unwrap();
        let inputs = graph.inputs.iter().map(|&id| graph.value(id).unwrap().name.clone());
        let indices = graph.defaults.iter().map(|default| default.index).collect::<Vec<_>>();
        let parsed = Graph::parse(&graph.to_string()).unwrap();
        assert_eq!(parsed.to_string(), graph.to_string());
        (inputs.collect::<Vec<_>>().join(" "), indices)
    };
    assert_eq!(promoted(&["x", "none"]), ("x z".to_owned(), vec![0, 1]));
    assert_eq!(promoted(&["k"]), ("k x z".to_owned(), vec![2]));
    assert_eq!(promoted(&["c"]), ("x c z".to_owned(), vec![0]));
    assert_eq!(promoted(&["c", "k"]), ("k x c z".to_owned(), vec![]));

    let mut cut = graph.clone();
    let output = cut.outputs[1];
    cut.cut_to(vec![output]).unwrap();
    let indices: Vec<_> = cut.defaults.iter().map(|default| default.index).collect();
    assert_eq!(indices, [0], "the inputs before c are removed");

    let mut wrong = graph.clone();
    wrong.defaults[1].index = 3;
    let error = wrong.verify().unwrap_err().to_string();
    assert!(
        error.starts_with("value \"c\", the default of an input, stands behind 3 of 2 inputs;"),
        "{error}"
    );
    wrong.defaults.swap(0, 1);
    wrong.defaults[0].index = 1;
    let error = wrong.verify().unwrap_err().to_string();
    assert!(error.contains("\"k\", the default of an input, stands behind 0 of"), "{error}");
    let error_after = |change: fn(&mut Graph)| {
        let mut graph = graph.clone();
        change(&mut graph);
        graph.verify().unwrap_err().to_string()
    };
    let error = error_after(|graph| graph.defaults[0].tensor_type.dims.clear());
    assert!(error.contains("is f32[1] for an input of f32[];"), "{error}");
    let error = error_after(|graph| graph.defaults[0].value = graph.inputs[0]);
    assert!(error.contains("\"x\", the default of an input, is not a constant;"), "{error}");
    let error = error_after(|graph| graph.values[1].name = "k".to_owned());
    assert!(error.contains("has the name of another input;"), "{error}");
    let error = error_after(|graph| graph.defaults[0].value = ValueId::new(99));
    assert!(error.starts_with("default 0 is value 99"), "{error}");
    let error = Graph::parse("graph g\n  default k: f32[1]\n").unwrap_err().to_string();
    assert_eq!(error, "line 2: found \"\", expected how many inputs stand before it");
}

#[test]
fn in_place_pairs_are_printed_and_removed_with_their_ports() {
    let text = "graph \"g\"
  input x: f32[2]
  input in_place: f32[2]
  y = Add@14(x, in_place) # Add_0
  \"a b\" = Neg@13(in_place) # Neg_1
  output y, \"a b\"
  in_place x=y
  in_place in_place=\"a b\"
";
    let mut graph = Graph::parse(text).unwrap();
    assert_eq!(graph.to_string(), text);
    assert_eq!(graph.pairs(), Ok(vec![(0, 0), (1, 1)]));
    let known_pair = ("x".to_owned(), "y".to_owned());
    graph.add_in_place(&[known_pair.clone(), ("x".to_owned(), "a b".to_owned())]);
    assert_eq!(graph.in_place.len(), 3, "a known pair is not added again");
    let twice = InPlaceError::Twice { side: "input", name: "x".to_owned() };
    assert_eq!(graph.check_in_place(), Err(twice));
    graph.in_place.pop();
    let output = graph.outputs[0];
    graph.cut_to(vec![output]).unwrap();
    assert_eq!(graph.in_place, [known_pair]);
    let wrong = "graph g\n  input x: f32[2]\n  in_place x\n";
    let error = Graph::parse(wrong).unwrap_err().to_string();
    assert_eq!(error, "line 3: found \"\", expected \"=\"");
}

// Subgraphs: text, order, verifier, edits.

/// A loop in a branch, and a list of graphs. Captures have the outer value's name, or another one.
const NESTED: &str = r#"graph "nested"
  input c: bool[]
  input x: f32[2]
  constant "w 1": f32[2]{0.5}
  h = Neg@13(x) # Neg_0
  y: f32[2], _ = If@16(c) depth=2 # branch
    then_branch: graph "then"
      capture "inner x" = x
      capture h
      capture w = "w 1"
      constant trips: i64[]{3}
      y = Loop@16(trips, _, h) # Loop_0
        body: graph "body loop"
          input i: i64[]
          input "go:"
          input carried: f32[?]
          capture "inner x"
          capture h = w
          sum: f32[2] = Sum@13(carried, "inner x", h) # Sum_0
          output "go:", sum, sum
      output y
    else_branch: graph "else"
      capture h
      output h
  z = com.acme:Pick@1(c) # Pick_2
    ways: graphs
      graph "a way"
        capture y
        output y
      graph "no way"
    none: graphs
  output y, z
"#;

fn nested() -> Graph {
    Graph::parse(NESTED).unwrap()
}

/// Returns the subgraph of an attribute, to be changed.
fn inner<'a>(graph: &'a mut Graph, node: usize, attribute: &str) -> &'a mut Graph {
    let (_, attr) = graph.nodes[node].attrs.iter_mut().find(|(name, _)| name == attribute).unwrap();
    match attr {
        Attr::Graph(graph) => graph,
        Attr::Graphs(graphs) => &mut graphs[0],
        other => panic!("{attribute} is {other}"),
    }
}

/// Creates a graph with subgraphs nested `depth` deep.
fn nested_deep(depth: usize) -> Graph {
    let mut graph = Graph::new("leaf");
    for _ in 0..depth {
        let inner = graph;
        graph = Graph::new("around");
        let y = graph.add_value("y");
        let mut node = Node::new("If", 16, &[], &[y]);
        node.attrs.push(("body".to_owned(), Attr::Graph(Box::new(inner))));
        graph.add_node(node);
    }
    graph
}

#[test]
fn subgraphs_are_printed_as_blocks_and_parsed_unchanged() {
    let graph = nested();
    assert_eq!(graph.to_string(), NESTED);
    let branch = &graph.nodes[1];
    let places: Vec<_> = branch.subgraphs().map(|inner| (inner.attribute, inner.index)).collect();
    assert_eq!(places, [("then_branch", None), ("else_branch", None)]);
    let list: Vec<_> =
        graph.nodes[2].subgraphs().map(|inner| (inner.attribute, inner.index)).collect();
    assert_eq!(list, [("ways", Some(0)), ("ways", Some(1))]);
    assert_eq!(graph.nodes[2].attr("none").unwrap().to_string(), "0 graphs");
    assert_eq!(branch.attr("else_branch").unwrap().to_string(), r#"graph "else""#);

    let [x, h] = ["x", "h"].map(|name| graph.value_named(name).unwrap());
    let then = branch.attr("then_branch").unwrap().graphs().first().unwrap();
    assert_eq!(then.captures[0], Capture { inner: ValueId(0), outer: x });
    assert_eq!(then.captures[1], Capture { inner: ValueId(1), outer: h });
    let body = then.nodes[0].attr("body").unwrap().graphs().first().unwrap();
    assert_eq!(body.inputs.len(), 3);
    let types: Vec<_> = body.inputs.iter().map(|id| body.value(*id).unwrap().type_text()).collect();
    assert_eq!(types, [Some("i64[]".to_owned()), None, Some("f32[?]".to_owned())]);
    // `h` in the body captures `w`, not the outer `h`.
    assert_eq!(body.captures[1].outer, then.value_named("w").unwrap());
}

#[test]
fn a_less_indented_line_ends_a_block() {
    let text =
        "input c: bool[]\ny = If@16(c)\n b: graph g\n      capture c\n\n   output c\n output y\n";
    let graph = Graph::parse(text).unwrap();
    let inner = graph.nodes[0].subgraphs().next().unwrap().graph;
    assert_eq!((inner.captures.len(), &inner.outputs), (1, &vec![ValueId(0)]));
    assert_eq!(graph.outputs, [ValueId(1)]);
}

#[test]
fn errors_name_the_line_of_a_malformed_block() {
    let cases = [
        (
            "b: graph g\n",
            "line 1: found \"b: graph g\", expected a node above that is indented less",
        ),
        (
            "y = If@1()\nb: graph g\n",
            "line 2: found \"b: graph g\", expected a node above that is indented less",
        ),
        ("y = If@1()\n  b: graph\n", "line 2: found \"\", expected a name"),
        ("y = If@1()\n  b: graph g h\n", "line 2: found \"h\", expected the end of the line"),
        ("y = If@1()\n  b: graphs g\n", "line 2: found \"g\", expected the end of the line"),
        (
            "y = If@1()\n  b: graphs\n    a = Neg@1(x)\n",
            "line 3: found \"a = Neg@1(x)\", expected \"graph\" and a name",
        ),
        ("capture x\n", "line 1: found \"x\", expected an outer graph to capture from"),
        ("y = If@1()\n  b: graph g\n    capture x =\n", "line 3: found \"\", expected a name"),
        ("y = If@1()\n  b: graph g\n    graph again\n", "line 3: found \"again\", expected \"=\""),
        (
            "y = If@1()\n  b: graph g\n    capture x\n",
            "a capture of node \"If_0\" is value \"x\", which nothing makes",
        ),
        (
            "y = If@1()\n  b: graph g\n    output x\n",
            "node \"If_0\" attribute \"b\": output 0 is value \"x\", which nothing makes",
        ),
        (
            "y = If@1()\n  b: graphs\n    graph g\n    graph h\n      z = Neg@1(x)\n",
            "node \"If_0\" attribute \"b\" graph 1: node \"Neg_0\" input 0 is value \"x\", which nothing makes",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(Graph::parse(text).unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn the_node_of_a_subgraph_reads_its_captures() {
    let graph = nested();
    let [c, x, h, y] = ["c", "x", "h", "y"].map(|name| graph.value_named(name).unwrap());
    let readers = graph.consumers();
    let (neg, branch, pick) = (NodeId(0), NodeId(1), NodeId(2));
    assert_eq!(readers.get(x), Some(&vec![(neg, Read::Input(0)), (branch, Read::Capture)]));
    assert_eq!(readers.get(h), Some(&vec![(branch, Read::Capture), (branch, Read::Capture)]));
    assert_eq!(readers.get(c), Some(&vec![(branch, Read::Input(0)), (pick, Read::Input(0))]));
    assert_eq!(readers.get(y), Some(&vec![(pick, Read::Capture)]));
}

#[test]
fn sorting_puts_producers_of_captures_first() {
    let mut graph = nested();
    graph.nodes.reverse();
    let (node, value) = ("Pick_2".to_owned(), "y".to_owned());
    assert_eq!(graph.verify(), Err(GraphError::OutOfOrder { node, value }));
    graph.sort().unwrap();
    assert_eq!(graph.to_string(), NESTED);

    let y = graph.value_named("y").unwrap();
    inner(&mut graph, 1, "else_branch").add_capture("y", y);
    let error = graph.sort().unwrap_err().to_string();
    assert_eq!(error, r#"nodes wait for each other: "branch" -> "branch""#);
}

#[test]
fn edits_cannot_remove_captured_values() {
    let mut graph = nested();
    let [x, h] = ["x", "h"].map(|name| graph.value_named(name).unwrap());
    let (neg, branch) = (NodeId(0), NodeId(1));
    assert!(matches!(graph.remove(neg), Err(GraphError::NoProducer { .. })));
    let other = graph.add_value("other");
    let lost = Node::new("Abs", 13, &[x], &[other]);
    assert!(matches!(graph.replace(neg, lost), Err(GraphError::NoProducer { .. })));
    let removed = graph.nodes.remove(1);
    assert!(matches!(graph.insert(neg, removed.clone()), Err(GraphError::OutOfOrder { .. })));
    graph.insert(branch, removed).unwrap();
    assert_eq!(graph.to_string(), NESTED);

    graph.replace(neg, Node::new("Abs", 13, &[x], &[h])).unwrap();
    graph.insert(branch, Node::new("Relu", 13, &[h], &[other])).unwrap();
    assert_eq!(graph.consumers().get(h).map(Vec::len), Some(3));
    assert_eq!(graph.remove(branch).unwrap().op, "Relu");
}

#[test]
fn the_verifier_reports_violations_in_subgraphs() {
    type Break = fn(&mut Graph);
    let listed = "expected inputs and captures listed, and nothing else";
    let inside = r#"node "branch" attribute "then_branch": "#;
    let body = format!(r#"{inside}node "Loop_0" attribute "body": "#);
    let cases: [(Break, String); 11] = [
        (
            |g| inner(inner(g, 1, "then_branch"), 0, "body").nodes.clear(),
            format!(r#"{body}output 1 is value "sum", which nothing makes"#),
        ),
        (
            |g| inner(inner(g, 1, "then_branch"), 0, "body").inputs.truncate(2),
            format!(r#"{body}value "carried" is of the outer graph, and is not listed, {listed}"#),
        ),
        (
            |g| inner(g, 1, "then_branch").captures[1].inner = ValueId(0),
            format!(r#"{inside}value "inner x" is captured and listed before, {listed}"#),
        ),
        (
            |g| inner(g, 1, "then_branch").captures[0].inner = ValueId(3),
            format!(
                r#"{inside}value "inner x" is of the outer graph, and is not listed, {listed}"#
            ),
        ),
        (
            |g| inner(g, 1, "then_branch").captures[0].inner = ValueId(90),
            format!("{inside}capture 0 is value 90, expected one of the graph's 5"),
        ),
        (
            |g| inner(g, 1, "then_branch").captures[0].outer = ValueId(90),
            r#"a capture of node "branch" is value 90, expected one of the graph's 6"#.to_owned(),
        ),
        (
            |g| {
                let capture = Capture { inner: ValueId(3), outer: ValueId(0) };
                inner(g, 1, "then_branch").captures.push(capture);
            },
            format!(
                r#"{inside}value "trips" is listed as a capture, but is not a capture, {listed}"#
            ),
        ),
        (
            |g| {
                inner(g, 1, "then_branch").add_input("in", DType::F32, []);
            },
            format!(r#"{inside}value "in" is a run's input in a subgraph, {listed}"#),
        ),
        (
            |g| inner(g, 1, "then_branch").nodes[0].outputs.push(Some(ValueId(1))),
            format!(
                r#"{inside}node "Loop_0" makes value "h", which already comes from the outer graph"#
            ),
        ),
        (
            |g| {
                g.add_parameter("p", None);
            },
            format!(r#"value "p" is of an outer graph, but the graph is not a subgraph, {listed}"#),
        ),
        (
            |g| {
                g.add_capture("p", ValueId(0));
            },
            format!(r#"value "p" is of an outer graph, but the graph is not a subgraph, {listed}"#),
        ),
    ];
    for (break_it, expected) in cases {
        let mut graph = nested();
        break_it(&mut graph);
        assert_eq!(graph.verify().unwrap_err().to_string(), expected);
    }
}

#[test]
fn the_nesting_of_subgraphs_is_limited() {
    let graph = nested_deep(MAX_DEPTH);
    assert_eq!(graph.verify(), Ok(()));
    let text = graph.to_string();
    assert_eq!(Graph::parse(&text).unwrap().to_string(), text);

    let graph = nested_deep(MAX_DEPTH + 1);
    let error = graph.verify().unwrap_err().to_string();
    let expected = r#"node "If_0" attribute "body": subgraphs are nested more than 16 deep, expected at most 16"#;
    assert_eq!(error, expected);
    let error = Graph::parse(&graph.to_string()).unwrap_err().to_string();
    let expected =
        "line 35: found \"body: graph \\\"leaf\\\"\", expected subgraphs nested at most 16 deep";
    assert_eq!(error, expected);
}
