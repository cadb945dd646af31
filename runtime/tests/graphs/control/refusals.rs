//! Invalid branches and loops, and their error messages.

use udo_runtime::CompileOptions;
use udo_runtime::graph::Graph;
use udo_test_support::compile::{built_in, compile_graph};

/// Returns the reason why a graph that reads bools and numbers cannot be compiled.
#[track_caller]
fn refusal(node: &str) -> String {
    let text = format!(
        "graph g\n  input c: bool[]\n  input n: i64[]\n  input x: f32[2]\n  input w: f32[3,2]\n{node}  output y\n"
    );
    let graph = Graph::parse(&text).unwrap();
    let model = compile_graph(graph, &built_in(), &CompileOptions::default());
    model.unwrap_err().to_string()
}

fn branches(first: &str, second: &str) -> String {
    let branch = |lines: &str| format!("      {}\n", lines.replace("; ", "\n      "));
    format!(
        "  y = If@16(c) # pick\n    then_branch: graph \"t\"\n{}    else_branch: graph \"e\"\n{}",
        branch(first),
        branch(second)
    )
}

fn loop_text(node: &str, body: &str) -> String {
    let body = format!("      {}\n", body.replace("; ", "\n      "));
    format!(
        "  {node} # go\n    body: graph \"b\"\n      input i: i64[]\n      input on: bool[]\n{body}"
    )
}

#[test]
fn branches_that_give_different_things_are_refused() {
    let text = branches("capture x; output x", "capture n; output n");
    let expected = "node \"pick\" (If): output \"y\" is f32[2] from \"then_branch\" and i64[] from \"else_branch\", expected one \
                  type and rank";
    assert_eq!(refusal(&text), expected);
    let text = branches("capture x; output x, x", "capture x; output x");
    let wanted =
        "node \"pick\" (If): its \"then_branch\" has 2 outputs, expected 1 as the node has";
    assert_eq!(refusal(&text), wanted);
    let text =
        branches("capture x; output x", "capture x; output x").replace("If@16(c)", "If@16(x)");
    let wanted = "node \"pick\" (If): input \"cond\" is f32[2], expected bool";
    assert_eq!(refusal(&text), wanted);
}

#[test]
fn a_node_inside_is_named_with_the_way_to_it() {
    // Of branches that both do not fit, the first says why.
    let text = branches(
        "capture x; a = Relu@14(x, x) # relu; output a",
        "capture x; a = Neg@13(x, x) # neg; output a",
    );
    let wanted = "node \"pick/then_branch/relu\" (Relu): it has 2 inputs, the operator takes X";
    assert_eq!(refusal(&text), wanted);
    let text = branches("capture x; a = Mystery@14(x) # m; output a", "capture x; output x");
    assert_eq!(
        refusal(&text),
        "node \"pick/then_branch/m\": no package has an operator \"Mystery\""
    );
}

#[test]
fn states_that_change_their_type_are_refused() {
    let text = loop_text(
        "y = Loop@16(n, _, x)",
        "input s: f32[2]; t = Cast@13(s) to=7 # other; output on, t",
    );
    let expected = "node \"go\" (Loop): a state changes from iteration to iteration: \"go/body/s\" is f32[2], and the next \
                  one, \"go/body/t\", is i64[2], expected one type";
    assert_eq!(refusal(&text), expected);
    let text = loop_text("y = Loop@16(n, _, x)", "input s: i64[2]; output on, s");
    let wanted =
        "node \"go\" (Loop): its \"body\" declares input \"s\" i64[2], and is given f32[2]";
    assert_eq!(refusal(&text), wanted);
}

#[test]
fn loops_without_an_end_are_refused() {
    let text = loop_text("y = Loop@16(_, _, x)", "input s: f32[2]; output on, s");
    let wanted = "node \"go\" (Loop): its iterations have no limit and its condition stays true, expected one that ends it";
    assert_eq!(refusal(&text), wanted);
    let text = loop_text("y = Loop@16(n, _, x)", "output on");
    assert_eq!(
        refusal(&text),
        "node \"go\" (Loop): its \"body\" has 2 inputs, expected 3 as the node has"
    );
    let text = loop_text("y = Loop@16(n, _, x)", "input s: f32[2]; output on");
    let wanted = "node \"go\" (Loop): its \"body\" has 1 outputs, expected 2 as the node has states and outputs";
    assert_eq!(refusal(&text), wanted);
}

#[test]
fn slices_of_different_lengths_are_refused() {
    let scan = |node: &str| {
        format!(
            "  {node} # go\n    body: graph \"b\"\n      input s: f32[2]\n      input t: f32[2]\n      output s, t\n"
        )
    };
    let text = scan("_, y = Scan@16(w, x) num_scan_inputs=2 scan_input_axes=[0, 0]");
    let wanted = "node \"go\" (Scan): input \"x\" is f32[2] and sliced along axis 0, expected a fixed extent of 3 there";
    assert_eq!(refusal(&text), wanted);
    let text = scan("_, y = Scan@16(x, w) num_scan_inputs=3");
    let wanted =
        "node \"go\" (Scan): attribute \"num_scan_inputs\" is 3, expected one of 1 to 2 inputs";
    assert_eq!(refusal(&text), wanted);
    let text = scan("_, y = Scan@16(x, w) num_scan_inputs=1 scan_input_axes=[2]");
    let wanted = "node \"go\" (Scan): it has axis 2 and direction 0 for rank 2, expected an existing axis, and 0 or 1";
    assert_eq!(refusal(&text), wanted);
    let text = scan("_, y = Scan@16(x, w) num_scan_inputs=1 scan_input_axes=[0, 1]");
    let wanted = "node \"go\" (Scan): attribute \"scan_input_axes\" has 2 numbers, expected 1";
    assert_eq!(refusal(&text), wanted);
    let text = scan("_, y = Scan@8(n, x, w) num_scan_inputs=1");
    let wanted = "node \"go\" (Scan): input 0 is i64[], lengths of sequences, expected none";
    assert_eq!(refusal(&text), wanted);
}
