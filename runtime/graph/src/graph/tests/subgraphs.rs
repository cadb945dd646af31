//! Subgraphs: text, order, verifier, edits.

use super::*;

/// A loop in a branch, and a list of graphs; values go by other names inside, and by the same.
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

/// The graph of an attribute, to be changed.
fn inner<'a>(graph: &'a mut Graph, node: usize, attribute: &str) -> &'a mut Graph {
    let (_, attr) = graph.nodes[node].attrs.iter_mut().find(|(name, _)| name == attribute).unwrap();
    match attr {
        Attr::Graph(graph) => graph,
        Attr::Graphs(graphs) => &mut graphs[0],
        other => panic!("{attribute} is {other}"),
    }
}

/// A graph whose nodes hold `depth` more, one in the other.
fn deep(depth: usize) -> Graph {
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
fn the_text_has_a_block_for_each_subgraph_and_reads_back() {
    let graph = nested();
    assert_eq!(graph.to_string(), NESTED);
    let branch = &graph.nodes[1];
    let places: Vec<_> = branch.subgraphs().map(|inner| (inner.attribute, inner.index)).collect();
    assert_eq!(places, [("then_branch", None), ("else_branch", None)]);
    let ways: Vec<_> =
        graph.nodes[2].subgraphs().map(|inner| (inner.attribute, inner.index)).collect();
    assert_eq!(ways, [("ways", Some(0)), ("ways", Some(1))]);
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
    // What goes by `h` inside is not what goes by `h` around it.
    assert_eq!(body.captures[1].outer, then.value_named("w").unwrap());
}

#[test]
fn a_block_ends_where_a_line_is_indented_less() {
    let text =
        "input c: bool[]\ny = If@16(c)\n b: graph g\n      capture c\n\n   output c\n output y\n";
    let graph = Graph::parse(text).unwrap();
    let inner = graph.nodes[0].subgraphs().next().unwrap().graph;
    assert_eq!((inner.captures.len(), &inner.outputs), (1, &vec![ValueId(0)]));
    assert_eq!(graph.outputs, [ValueId(1)]);
}

#[test]
fn a_malformed_block_is_refused_by_line() {
    let cases = [
        ("b: graph g\n", "line 1: found \"b: graph g\", wanted a node above that is indented less"),
        (
            "y = If@1()\nb: graph g\n",
            "line 2: found \"b: graph g\", wanted a node above that is indented less",
        ),
        ("y = If@1()\n  b: graph\n", "line 2: found \"\", wanted a name"),
        ("y = If@1()\n  b: graph g h\n", "line 2: found \"h\", wanted the end of the line"),
        ("y = If@1()\n  b: graphs g\n", "line 2: found \"g\", wanted the end of the line"),
        (
            "y = If@1()\n  b: graphs\n    a = Neg@1(x)\n",
            "line 3: found \"a = Neg@1(x)\", wanted \"graph\" and a name",
        ),
        ("capture x\n", "line 1: found \"x\", wanted an outer graph to capture from"),
        ("y = If@1()\n  b: graph g\n    capture x =\n", "line 3: found \"\", wanted a name"),
        ("y = If@1()\n  b: graph g\n    graph again\n", "line 3: found \"again\", wanted \"=\""),
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
    for (text, wanted) in cases {
        assert_eq!(Graph::parse(text).unwrap_err().to_string(), wanted, "{text}");
    }
}

#[test]
fn captures_are_reads_of_the_node_of_the_subgraph() {
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
fn nodes_are_sorted_behind_what_their_subgraphs_capture() {
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
fn edits_keep_what_subgraphs_capture() {
    let mut graph = nested();
    let [x, h] = ["x", "h"].map(|name| graph.value_named(name).unwrap());
    let (neg, branch) = (NodeId(0), NodeId(1));
    assert!(matches!(graph.remove(neg), Err(GraphError::NoProducer { .. })));
    let other = graph.add_value("other");
    let lost = Node::new("Abs", 13, &[x], &[other]);
    assert!(matches!(graph.replace(neg, lost), Err(GraphError::NoProducer { .. })));
    let late = graph.nodes.remove(1);
    assert!(matches!(graph.insert(neg, late.clone()), Err(GraphError::OutOfOrder { .. })));
    graph.insert(branch, late).unwrap();
    assert_eq!(graph.to_string(), NESTED);

    graph.replace(neg, Node::new("Abs", 13, &[x], &[h])).unwrap();
    graph.insert(branch, Node::new("Relu", 13, &[h], &[other])).unwrap();
    assert_eq!(graph.consumers().get(h).map(Vec::len), Some(3));
    assert_eq!(graph.remove(branch).unwrap().op, "Relu");
}

#[test]
fn the_verifier_says_what_is_wrong_inside() {
    type Break = fn(&mut Graph);
    let listed = "wanted inputs and captures listed, and nothing else";
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
            format!("{inside}capture 0 is value 90, wanted one of the graph's 5"),
        ),
        (
            |g| inner(g, 1, "then_branch").captures[0].outer = ValueId(90),
            r#"a capture of node "branch" is value 90, wanted one of the graph's 6"#.to_owned(),
        ),
        (
            |g| {
                let capture = Capture { inner: ValueId(3), outer: ValueId(0) };
                inner(g, 1, "then_branch").captures.push(capture);
            },
            format!(r#"{inside}value "trips" is listed as a capture, but is none, {listed}"#),
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
            format!(r#"value "p" is of an outer graph, and there is none, {listed}"#),
        ),
        (
            |g| {
                g.add_capture("p", ValueId(0));
            },
            format!(r#"value "p" is of an outer graph, and there is none, {listed}"#),
        ),
    ];
    for (break_it, expected) in cases {
        let mut graph = nested();
        break_it(&mut graph);
        assert_eq!(graph.verify().unwrap_err().to_string(), expected);
    }
}

#[test]
fn subgraphs_are_nested_up_to_a_depth() {
    let graph = deep(MAX_DEPTH);
    assert_eq!(graph.verify(), Ok(()));
    let text = graph.to_string();
    assert_eq!(Graph::parse(&text).unwrap().to_string(), text);

    let graph = deep(MAX_DEPTH + 1);
    let error = graph.verify().unwrap_err().to_string();
    let expected = r#"node "If_0" attribute "body": subgraphs are nested more than 16 deep, wanted at most 16"#;
    assert_eq!(error, expected);
    let error = Graph::parse(&graph.to_string()).unwrap_err().to_string();
    let expected =
        "line 35: found \"body: graph \\\"leaf\\\"\", wanted subgraphs nested at most 16 deep";
    assert_eq!(error, expected);
}
