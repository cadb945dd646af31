//! Tests of functions of models: a node that calls a function is replaced by the function's nodes.

use super::*;
use crate::import::PackagedOp;

/// Creates an attribute that refers to the attribute `target` of the enclosing function.
fn reference(name: &str, r#type: i32, target: &str) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        r#type,
        ref_attr_name: target.to_owned(),
        ..AttributeProto::default()
    }
}

fn function(name: &str, input: &[&str], output: &[&str], node: Vec<NodeProto>) -> FunctionProto {
    let owned = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect();
    FunctionProto {
        name: name.to_owned(),
        domain: "own".to_owned(),
        input: owned(input),
        output: owned(output),
        node,
        opset_import: vec![OperatorSetIdProto::new("", 17), OperatorSetIdProto::new("own", 1)],
        ..FunctionProto::default()
    }
}

fn call(op: &str, input: &[&str], output: &[&str]) -> NodeProto {
    NodeProto { domain: "own".to_owned(), ..NodeProto::new(op, input, output) }
}

fn model(nodes: Vec<NodeProto>, functions: Vec<FunctionProto>) -> ModelProto {
    let graph = GraphProto {
        name: "calls".to_owned(),
        node: nodes,
        input: vec![value("x", &[2])],
        output: vec![value("y", &[2])],
        ..GraphProto::default()
    };
    ModelProto {
        ir_version: 10,
        graph: Some(graph),
        opset_import: vec![OperatorSetIdProto::new("", 21), OperatorSetIdProto::new("own", 1)],
        functions,
        ..ModelProto::default()
    }
}

fn text(model: &ModelProto) -> String {
    read(model).unwrap().to_string()
}

fn error(model: &ModelProto) -> String {
    read(model).unwrap_err().to_string()
}

/// A function: `y = leaky_relu(x + c, low) * alpha`, where `c` is optional, `alpha` has a default and `low` does not.
fn scaled() -> FunctionProto {
    let mut alpha = NodeProto::new("Constant", &[], &["factor"]);
    alpha.attribute = vec![reference("value_float", AttributeProto::FLOAT, "alpha")];
    let mut leaky = NodeProto::new("LeakyRelu", &["sum"], &["t"]);
    leaky.attribute = vec![reference("alpha", AttributeProto::FLOAT, "low")];
    let nodes = vec![
        NodeProto::new("Mul", &["t", "factor"], &["y"]),
        NodeProto::new("Sum", &["x", "c"], &["sum"]),
        leaky,
        alpha,
    ];
    FunctionProto {
        attribute: vec!["low".to_owned()],
        attribute_proto: vec![AttributeProto::float("alpha", 0.5)],
        ..function("Scaled", &["x", "c"], &["y"], nodes)
    }
}

#[test]
fn the_nodes_of_a_function_replace_a_call() {
    let mut first = call("Scaled", &["x", "x"], &["h"]);
    first.name = "first".to_owned();
    first.attribute = vec![AttributeProto::float("alpha", 2.0), AttributeProto::float("low", 0.25)];
    // Both the model and the function have a value `t`: names in a function are separate from the model's.
    let nodes = vec![first, call("Scaled", &["h"], &["t"]), NodeProto::new("Relu", &["t"], &["y"])];
    let expected = r#"graph "small"
  input x: f32[2]
  constant first/factor: f32[]{2.0}
  constant Scaled_1/factor: f32[]{0.5}
  first/sum = Sum@17(x, x) # first/Sum_1
  first/t = LeakyRelu@17(first/sum) alpha=0.25 # first/LeakyRelu_2
  h = Mul@17(first/t, first/factor) # first/Mul_0
  Scaled_1/sum = Sum@17(h) # Scaled_1/Sum_1
  Scaled_1/t = LeakyRelu@17(Scaled_1/sum) # Scaled_1/LeakyRelu_2
  t = Mul@17(Scaled_1/t, Scaled_1/factor) # Scaled_1/Mul_0
  y: f32[2] = Relu@21(t) # Relu_2
  output y
"#;
    assert_eq!(text(&model(nodes, vec![scaled()])), expected);
}

#[test]
fn branches_in_functions_may_call_functions() {
    let branch = |op: &str| GraphProto {
        name: op.to_owned(),
        node: vec![NodeProto {
            attribute: vec![reference("alpha", AttributeProto::FLOAT, "slope")],
            ..call(op, &["held"], &["t"])
        }],
        output: vec![value("t", &[2])],
        ..GraphProto::default()
    };
    let mut choice = NodeProto::new("If", &["which"], &["y"]);
    choice.attribute = vec![
        AttributeProto::graph("then_branch", &branch("Scaled")),
        AttributeProto::graph("else_branch", &branch("Other")),
    ];
    let held = NodeProto::new("Identity", &["x"], &["held"]);
    let chooses = FunctionProto {
        attribute: vec!["slope".to_owned()],
        ..function("Chooses", &["which", "x"], &["y", "z"], vec![choice, held])
    };
    let mut node = call("Chooses", &["which", "x"], &["y"]);
    node.attribute = vec![AttributeProto::float("slope", 4.0)];
    let other = function("Other", &["x"], &["x"], vec![]);
    let mut model = model(vec![node], vec![chooses, scaled(), other]);
    let which = ValueInfoProto::tensor("which", 9, Vec::new());
    model.graph.as_mut().unwrap().input.insert(0, which);
    let expected = r#"graph "small"
  input which: bool[]
  input x: f32[2]
  Chooses_0/held = Identity@17(x) # Chooses_0/Identity_1
  y: f32[2] = If@17(which) # Chooses_0/If_0
    then_branch: graph "Scaled"
      capture held = Chooses_0/held
      constant Chooses_0/Scaled_0/factor: f32[]{4.0}
      Chooses_0/Scaled_0/sum = Sum@17(held) # Chooses_0/Scaled_0/Sum_1
      Chooses_0/Scaled_0/t = LeakyRelu@17(Chooses_0/Scaled_0/sum) # Chooses_0/Scaled_0/LeakyRelu_2
      Chooses_0/t: f32[2] = Mul@17(Chooses_0/Scaled_0/t, Chooses_0/Scaled_0/factor) # Chooses_0/Scaled_0/Mul_0
      output Chooses_0/t
    else_branch: graph "Other"
      capture held = Chooses_0/held
      Chooses_0/t: f32[2] = Identity@17(held) # Chooses_0/Other_0/x
      output Chooses_0/t
  output y
"#;
    assert_eq!(text(&model), expected);
}

#[test]
fn an_output_of_a_function_may_be_its_input() {
    let same = function("Same", &["a", "b"], &["b", "a"], Vec::new());
    let model = model(vec![call("Same", &["x", "x"], &["", "y"])], vec![same]);
    let expected = "graph \"small\"\n  input x: f32[2]\n  \
                    y: f32[2] = Identity@17(x) # Same_0/a\n  output y\n";
    assert_eq!(text(&model), expected);
}

#[test]
fn operators_of_packages_take_precedence_over_functions() {
    let model = model(vec![call("Scaled", &["x"], &["y"])], vec![scaled()]);
    let imported_ops = |domain: Option<&str>| {
        let packaged = PackagedOp { name: "Scaled".to_owned(), domain: domain.map(str::to_owned) };
        let options = ImportOptions { packaged: vec![packaged], ..options() };
        let graph = import(&ModelBytes::copy_of(&model.to_bytes()), "m", &options).unwrap();
        graph.nodes.iter().map(|node| node.op.clone()).collect::<Vec<_>>()
    };
    assert_eq!(imported_ops(None), ["Scaled"]);
    assert_eq!(imported_ops(Some("own")), ["Scaled"]);
    assert_eq!(imported_ops(Some("other")), ["Sum", "LeakyRelu", "Mul"]);
}

#[test]
fn the_overload_selects_the_function() {
    let overload = |op: &str, overload: &str| FunctionProto {
        overload: overload.to_owned(),
        ..function("F", &["x"], &["y"], vec![NodeProto::new(op, &["x"], &["y"])])
    };
    let node = NodeProto { overload: "b".to_owned(), ..call("F", &["x"], &["y"]) };
    let model = model(vec![node], vec![overload("Relu", "a"), overload("Abs", "b")]);
    assert_eq!(read(&model).unwrap().nodes[0].op, "Abs");
}

#[test]
fn invalid_functions_are_refused() {
    let relu = || NodeProto::new("Relu", &["x"], &["y"]);
    let f = |node: NodeProto| function("F", &["x"], &["y"], vec![node]);
    let refusal =
        |functions: Vec<FunctionProto>| error(&model(vec![call("F", &["x"], &["y"])], functions));
    let duplicate = refusal(vec![f(relu()), f(relu())]);
    assert_eq!(duplicate, r#"function "F": a duplicate function, expected different names"#);
    let other = function("G", &["x"], &["y"], vec![call("F", &["x"], &["y"])]);
    assert_eq!(
        refusal(vec![f(call("G", &["x"], &["y"])), other]),
        r#"node "F_0/G_0/F_0": function "F", which calls itself, expected functions without recursion"#
    );
    let unknown = NodeProto { attribute: vec![reference("alpha", 1, "beta")], ..relu() };
    assert_eq!(
        refusal(vec![f(unknown)]),
        r#"node "F_0/Relu_0" attribute "alpha": a reference to attribute "beta", expected one that function "F" has"#
    );
    let wrong_type = NodeProto { attribute: vec![reference("alpha", 2, "beta")], ..relu() };
    let defaults = vec![AttributeProto::float("beta", 1.0)];
    assert_eq!(
        refusal(vec![FunctionProto { attribute_proto: defaults, ..f(wrong_type) }]),
        r#"node "F_0/Relu_0" attribute "alpha": attribute "beta" of type 1, expected type 2"#
    );
    let graph = NodeProto { attribute: vec![reference("body", 5, "body")], ..relu() };
    let defaults = vec![AttributeProto::graph("body", &GraphProto::default())];
    assert_eq!(
        refusal(vec![FunctionProto { attribute_proto: defaults, ..f(graph) }]),
        r#"node "F_0/Relu_0" attribute "body": a reference to attribute "body", which is a graph is not supported, expected a value"#
    );
    let node = call("F", &["x", "x"], &["y"]);
    assert_eq!(
        error(&model(vec![node], vec![f(relu())])),
        r#"node "F_0": 2 inputs, expected at most 1, as function "F" has"#
    );
    let node = call("F", &["x"], &["y", "z"]);
    assert_eq!(
        error(&model(vec![node], vec![f(relu())])),
        r#"node "F_0": 2 outputs, expected at most 1, as function "F" has"#
    );
    let outer = f(NodeProto::new("Relu", &["h"], &["y"]));
    let nodes = vec![NodeProto::new("Relu", &["x"], &["h"]), call("F", &["x"], &["y"])];
    assert_eq!(
        error(&model(nodes, vec![outer])),
        r#"node "F_1/Relu_0" input 0 is value "h", which nothing makes"#
    );
    let empty = refusal(vec![function("F", &["x"], &["y"], Vec::new())]);
    assert_eq!(empty, r#"node "F_0" function "F" output "y" is value "y", which nothing makes"#);
}

#[test]
fn nesting_and_inlined_nodes_are_limited() {
    let name = |depth: usize| format!("F{depth}");
    let level = |depth: usize| {
        let next = name(depth + 1);
        let nodes = vec![call(&next, &["x"], &["h"]), call(&next, &["h"], &["y"])];
        function(&name(depth), &["x"], &["y"], nodes)
    };
    let functions = |depth: usize| {
        let last =
            function(&name(depth), &["x"], &["y"], vec![NodeProto::new("Relu", &["x"], &["y"])]);
        (0..depth).map(level).chain([last]).collect::<Vec<_>>()
    };
    // Each function calls the next one twice.
    let tree = |depth: usize| model(vec![call("F0", &["x"], &["y"])], functions(depth));
    assert_eq!(read(&tree(10)).unwrap().nodes.len(), 1 << 10);
    let found = error(&tree(40));
    assert!(
        found.ends_with(
            "more than 131072 nodes after inlining functions is not supported, expected fewer nodes"
        ),
        "{found}"
    );
    // Each function calls the next one once.
    let chain = |depth: usize| {
        let level = |depth: usize| {
            function(&name(depth), &["x"], &["y"], vec![call(&name(depth + 1), &["x"], &["y"])])
        };
        let last =
            function(&name(depth), &["x"], &["y"], vec![NodeProto::new("Relu", &["x"], &["y"])]);
        let functions = (0..depth).map(level).chain([last]).collect();
        model(vec![call("F0", &["x"], &["y"])], functions)
    };
    assert_eq!(read(&chain(63)).unwrap().nodes.len(), 1);
    let found = error(&chain(5000));
    assert!(
        found.ends_with(
            "function \"F64\" nested in 64 calls is not supported, expected fewer nested calls"
        ),
        "{found}"
    );
}
