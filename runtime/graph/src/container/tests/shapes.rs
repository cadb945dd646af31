//! Tests of stages: how they fix and bound shapes, and which stage is chosen for given input shapes.

use std::ops::RangeInclusive;

use super::*;

/// A graph with dimensions that a stage can fix.
const DYNAMIC: &str = "graph m
  input x: f32[batch,?,3]
  input m: f32[batch]
  y = Mul@14(x, m) # mul
  output y
";

fn shapes(inputs: &[(&str, &[Extent])]) -> BTreeMap<String, Vec<Extent>> {
    inputs.iter().map(|(name, extents)| ((*name).to_owned(), extents.to_vec())).collect()
}

fn range(min: usize, max: usize) -> Extent {
    Extent::Range { min, opt: None, max }
}

/// Writes and reads a network with these stages of [`DYNAMIC`].
fn network(stages: &[BTreeMap<String, Vec<Extent>>]) -> Result<Container, String> {
    let mut graph = Graph::parse(DYNAMIC).unwrap();
    ready(&mut graph, stages).map_err(|error| error.to_string())?;
    let mut contents = contents(graph);
    let stage = contents.networks[0].stages.remove(0);
    let stages = stages.iter().map(|shapes| Stage { shapes: shapes.clone(), ..stage.clone() });
    contents.networks[0].stages = stages.collect();
    Ok(read(&contents))
}

/// Returns the index of the stage for these input shapes.
fn pick(container: &Container, given: &[(&str, &[usize])]) -> Result<usize, String> {
    let given: Vec<_> =
        given.iter().map(|(name, dims)| ((*name).to_owned(), dims.to_vec())).collect();
    let network = container.network(None).unwrap();
    container.stage_for(network, &given).map_err(|error| error.to_string())
}

const ANY: Extent = Extent::Any;
const FOUR: Extent = Extent::Fixed(4);

#[test]
fn a_stage_fixes_extents_and_bounds_others() {
    let container = network(&[
        shapes(&[("x", &[FOUR, Extent::Fixed(2), ANY])]),
        shapes(&[("x", &[range(1, 8), range(2, 9), ANY])]),
    ])
    .unwrap();
    let [fixed, bounded] = &container.networks()[0].stages[..] else { panic!("two stages") };
    assert_eq!(fixed.graph, bounded.graph);
    let fixed = container.bound(fixed, "m").unwrap();
    let text = fixed.graph.to_string();
    assert!(text.contains("input x: f32[4,2,3]\n  input m: f32[4]\n"), "{text}");
    assert!(fixed.ranges.is_empty());
    let bounded = container.bound(bounded, "m").unwrap();
    let text = bounded.graph.to_string();
    assert!(text.contains("input x: f32[batch,x.1,3]\n  input m: f32[batch]\n"), "{text}");
    let ranges: Vec<(String, RangeInclusive<usize>)> = bounded.ranges.into_iter().collect();
    assert_eq!(ranges, [("batch".to_owned(), 1..=8), ("x.1".to_owned(), 2..=9)]);
}

#[test]
fn the_narrowest_stage_that_fits_is_chosen() {
    let container = network(&[
        shapes(&[("x", &[range(1, 9), FOUR, ANY])]),
        shapes(&[("x", &[range(1, 5), FOUR, ANY])]),
        shapes(&[("x", &[FOUR, FOUR, ANY])]),
    ])
    .unwrap();
    assert_eq!(pick(&container, &[("x", &[4, 4, 3])]), Ok(2), "the same shapes win");
    assert_eq!(pick(&container, &[("x", &[3, 4, 3])]), Ok(1), "then the narrowest range");
    assert_eq!(pick(&container, &[("x", &[9, 4, 3])]), Ok(0));
    assert_eq!(pick(&container, &[("x", &[9, 4, 3]), ("other", &[1])]), Ok(0));
    let known =
        "x f32[1..9,4,?], m f32[batch]; x f32[1..5,4,?], m f32[batch]; x f32[4,4,?], m f32[batch]";
    let expected = format!("no stage of network \"net\" fits x [10,4,3], expected one of {known}");
    assert_eq!(pick(&container, &[("x", &[10, 4, 3])]), Err(expected));
    let expected =
        format!("network \"net\" has several stages, expected the shapes of one of {known}");
    assert_eq!(pick(&container, &[]), Err(expected));
}

/// Writes and reads a network with one stage for each of these graphs.
fn network_with_graphs(graphs: &[&str]) -> Container {
    let stage = |text: &&str| {
        let graph = Graph::parse(text).unwrap();
        self::contents(graph).networks.remove(0).stages.remove(0)
    };
    let mut contents = contents(Graph::parse(graphs[0]).unwrap());
    contents.networks[0].stages = graphs.iter().map(stage).collect();
    read(&contents)
}

#[test]
fn fixed_dimensions_of_graphs_select_the_stage() {
    let graph = |x: &str, m: &str| {
        format!(
            "graph m\n  input x: f32[{x}]\n  input m: f32[{m}]\n  y = Mul@14(x, m)\n  output y\n"
        )
    };
    let texts = [graph("2,2", "1"), graph("4,3", "1"), graph("4,n", "1")];
    let container = network_with_graphs(&texts.each_ref().map(String::as_str));
    assert_eq!(pick(&container, &[("x", &[2, 2])]), Ok(0));
    assert_eq!(pick(&container, &[("m", &[1]), ("x", &[4, 3])]), Ok(1));
    assert_eq!(pick(&container, &[("x", &[4, 5])]), Ok(2), "dynamic dimensions come last");
    let error = pick(&container, &[("x", &[3, 4])]).unwrap_err();
    assert!(
        error.starts_with("no stage of network \"net\" fits x [3,4], expected one of "),
        "{error}"
    );
    let undecided: [&[(&str, &[usize])]; 2] = [&[], &[("m", &[1])]];
    for given in undecided {
        let error = pick(&container, given).unwrap_err();
        assert!(
            error.starts_with("network \"net\" has several stages, expected the shapes"),
            "{error}"
        );
    }
    let error = pick(&container, &[("m", &[7])]).unwrap_err();
    assert!(error.starts_with("no stage of network \"net\" fits m [7]"), "{error}");
}

#[test]
fn a_name_that_a_stage_fixes_is_fixed_in_all_inputs() {
    let [two, four] = [Extent::Fixed(2), FOUR].map(|n| shapes(&[("m", &[n])]));
    let container = network(&[two, four]).unwrap();
    assert_eq!(pick(&container, &[("x", &[4, 9, 3])]), Ok(1));
    assert_eq!(pick(&container, &[("x", &[2, 9, 3])]), Ok(0));
    assert!(pick(&container, &[("x", &[3, 9, 3])]).unwrap_err().starts_with("no stage"));
}

#[test]
fn a_single_stage_accepts_other_shapes_of_the_same_size() {
    let single = network(&[shapes(&[("x", &[FOUR, FOUR, ANY]), ("m", &[FOUR])])]).unwrap();
    assert_eq!(pick(&single, &[("x", &[48]), ("m", &[2, 2])]), Ok(0));
    assert!(pick(&single, &[("x", &[47])]).unwrap_err().starts_with("no stage of network"));
    assert_eq!(pick(&single, &[]), Ok(0));
}

#[test]
fn shapes_that_do_not_fit_the_inputs_are_refused() {
    let refusal = |stages: &[BTreeMap<String, Vec<Extent>>]| network(stages).unwrap_err();
    let names = "with one extent or range for each name";
    let cases = [
        (shapes(&[("z", &[])]), "input \"z\": unknown input, expected one of \"x\", \"m\""),
        (shapes(&[("m", &[])]), "input \"m\": [], expected f32[batch]"),
        (shapes(&[("x", &[FOUR, FOUR, FOUR])]), "input \"x\": [4,4,4], expected f32[batch,?,3], "),
        (shapes(&[("x", &[range(5, 1), ANY, ANY])]), "input \"x\": [5..1,?,?], expected f32"),
        (shapes(&[("x", &[ANY, ANY, range(3, 3)])]), "input \"x\": [?,?,3..3], expected f32"),
        (shapes(&[("m", &[range(1, 4)]), ("x", &[FOUR, ANY, ANY])]), names),
    ];
    for (shapes, expected) in cases {
        let error = refusal(&[shapes]);
        assert!(error.starts_with("stage 0 input ") && error.contains(expected), "{error}");
    }
    let four = shapes(&[("m", &[FOUR])]);
    let error = refusal(&[four.clone(), four]);
    assert_eq!(error, "stage 1: the shapes of stage 0, expected different shapes in each stage");
}
