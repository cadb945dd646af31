//! Tests of model files: reading a written file returns the same content.

use std::path::Path;

use udo_api::{DType, Shape};

use super::*;
use crate::graph::{Attr, DimSpec, InPlace, Node, Source};
use crate::memory::{ALIGN_BYTES, TensorStorage};

mod hostile;
mod shapes;

fn section(name: &str, network: Option<&str>, bytes: &[u8]) -> Section {
    let shape = Shape::new(&[bytes.len()]).unwrap();
    let bytes = Tensor::from_bytes(DType::U8, shape, bytes).unwrap();
    Section { name: name.to_owned(), network: network.map(str::to_owned), bytes }
}

/// A graph with an attribute of every kind, a subgraph and an operator of a package.
const TEXT: &str = "graph \"m.udm\"
  input x: f32[batch,?,3]
  input c: bool[]
  constant shape: i64[2]{1, -1}
  constant none: f32[0,2]
  constant bias: f32[3]{0.1, -0.0, inf}
  a: f32[batch,?,3] = Add@14(x, bias) # first
  b, _, d = \"my domain\":Twist@3(a, _, shape, none) i=-3 f=0.10000000149011612 t=\"a\\nb\" is=[1, 2] fs=[0.5, -inf] ts=[\"x\", \"\"] # twist
  y = If@16(c) # choice
    then_branch: graph \"then\"
      capture a
      capture s = shape
      constant two: f32[1]{2.0}
      z = Mul@14(a, two) # Mul_0
      w = Reshape@14(z, s) # Reshape_1
      output w
    else_branch: graph \"else\"
      capture b
      output b
  output y, d
";

/// The contents of a file with one network of one stage.
fn contents(graph: Graph) -> Contents {
    let graph = StoredGraph::new(graph);
    let stage = Stage { shapes: BTreeMap::new(), source: Provenance::default(), graph };
    Contents {
        networks: vec![Network { name: "net".to_owned(), stages: vec![stage] }],
        sections: Vec::new(),
    }
}

fn bytes(contents: &Contents) -> ModelBytes {
    ModelBytes::copy_of(&contents.to_bytes().unwrap())
}

fn read(contents: &Contents) -> Container {
    Container::read(&bytes(contents)).unwrap()
}

/// Writes a graph to a file and reads it back.
fn round_trip(graph: &Graph) -> Graph {
    let container = read(&contents(graph.clone()));
    let network = container.network(None).unwrap();
    container.bound(network.stage(0).unwrap(), &graph.name).unwrap().graph
}

fn constants(graph: &Graph) -> impl Iterator<Item = &Tensor> {
    graph.values.iter().filter_map(|value| match &value.source {
        Source::Constant(tensor) => Some(tensor),
        Source::Input(_) | Source::Computed | Source::Outer => None,
    })
}

#[test]
fn a_graph_is_read_back_unchanged() {
    let mut graph = Graph::parse(TEXT).unwrap();
    let table = Tensor::from_slice(Shape::new(&[2, 1]).unwrap(), &[f32::NAN, 1e-40]).unwrap();
    let texts = [("nan", Attr::Float(f64::NAN)), ("table", Attr::Tensor(table.clone()))];
    let attrs = texts.map(|(name, attr)| (name.to_owned(), attr));
    graph.nodes[1].attrs.extend(attrs);
    graph.nodes[1].attrs.push(("both".to_owned(), Attr::Graphs(vec![Graph::new("")])));
    // The name of a dimension may be any text.
    for (value, name) in graph.values.iter_mut().zip(["12", "a b"]) {
        if let Source::Input(tensor_type) = &mut value.source
            && let Some(dim) = tensor_type.dims.first_mut()
        {
            *dim = DimSpec::Named(name.to_owned());
        }
    }
    let actual = round_trip(&graph);
    assert_eq!(actual.to_string(), graph.to_string());
    let Some(Attr::Tensor(found)) = actual.nodes[1].attr("table") else { panic!("{actual}") };
    assert_eq!((found.desc(), found.bytes()), (table.desc(), table.bytes()));
    let Some(Attr::Float(nan)) = actual.nodes[1].attr("nan") else { panic!("{actual}") };
    assert!(nan.is_nan());
    for (found, expected) in constants(&actual).zip(constants(&graph)) {
        assert_eq!((found.desc(), found.bytes()), (expected.desc(), expected.bytes()));
    }
    let first_dim = match &actual.values[0].source {
        Source::Input(tensor_type) => &tensor_type.dims[0],
        other => panic!("{other:?}"),
    };
    assert_eq!(*first_dim, DimSpec::Named("12".to_owned()));
}

#[test]
fn defaults_are_read_back_and_become_inputs_on_request() {
    let text = "graph \"g\"
  constant k: f32[1]{2.0}
  constant unread: f32[]{7.0}
  input x: f32[2]
  y = Mul@14(x, k) # Mul_0
  output y
  default unread: f32[] 0
  default k: f32[n] 1
";
    let graph = Graph::parse(text).unwrap();
    assert_eq!(round_trip(&graph).to_string(), text);
    let container = read(&contents(graph.clone()));
    let stage = container.networks()[0].stages[0].clone();
    let names = |given: &[&str]| -> Vec<String> {
        let inputs = container.inputs(&stage, |name| given.contains(&name)).unwrap();
        inputs.into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names(&[]), ["x"]);
    assert_eq!(names(&["k", "unread", "y"]), ["unread", "x", "k"]);
    let shapes = |k: &[usize]| [("x".to_owned(), vec![2]), ("k".to_owned(), k.to_vec())];
    let network = &container.networks()[0];
    assert_eq!(container.stage_for(network, &shapes(&[9])).unwrap(), 0);
    assert!(container.stage_for(network, &shapes(&[1, 1])).is_err());

    let mut wrong = graph;
    wrong.defaults[1].index = 2;
    let error = read(&contents(wrong)).graph(&stage).unwrap_err().to_string();
    assert!(error.starts_with("graph 0: value \"k\", the default of an input, stands"), "{error}");
}

#[test]
fn in_place_pairs_are_read_back() {
    let text = "graph \"g\"
  input x: f32[2]
  y = Abs@13(x) # Abs_0
  output y
";
    let plain = Graph::parse(text).unwrap();
    let mut pairs = plain.clone();
    pairs.add_in_place(&[("x".to_owned(), "y".to_owned())]);
    assert_eq!(round_trip(&pairs).to_string(), format!("{text}  in_place x=y\n"));
    assert!(round_trip(&plain).in_place.is_empty());
    let has_key = |graph: &Graph| {
        let bytes = contents(graph.clone()).to_bytes().unwrap();
        String::from_utf8_lossy(&bytes).contains("in_place")
    };
    assert_eq!([&plain, &pairs].map(has_key), [false, true], "files without pairs are as before");
    pairs.in_place[0].1 = "z".to_owned();
    let container = read(&contents(pairs));
    let error = container.graph(&container.networks()[0].stages[0]).unwrap_err().to_string();
    assert!(error.starts_with("graph 0: \"z\" is to be the output of a pair"), "{error}");
}

#[test]
fn affinity_rules_are_read_back() {
    let text = "graph \"g\"
  input x: f32[2]
  y = Abs@13(x) # Abs_0
  output y
  affinity \"0-11=dsp\"
  affinity \"Abs_0=gpu\"
";
    let graph = Graph::parse(text).unwrap();
    assert_eq!(graph.affinity, ["0-11=dsp", "Abs_0=gpu"]);
    assert_eq!(round_trip(&graph).to_string(), text);
}

#[test]
fn tensors_of_all_types_are_aligned_in_the_file() {
    let mut graph = Graph::new("");
    let types: Vec<DType> = DType::ALL.into_iter().filter(|dtype| dtype.size_bytes() > 0).collect();
    for &dtype in &types {
        // A tensor that is aligned in the file, one that is copied, one that is empty.
        for len in [33usize, 3, 0] {
            let elements: Vec<u8> = (0..len * dtype.size_bytes())
                .map(|i| u8::try_from(i % 2).unwrap() * if dtype == DType::Bool { 1 } else { 77 })
                .collect();
            let shape = Shape::new(&[len, 1]).unwrap();
            let tensor = Tensor::from_bytes(dtype, shape, &elements).unwrap();
            let id = graph.add_constant(&format!("{dtype}{len}"), tensor);
            graph.outputs.push(id);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.udm");
    contents(graph.clone()).write(&path).unwrap();
    let mapped = ModelBytes::map_file(&path).unwrap();
    let container = Container::read(&mapped).unwrap();
    let actual = container.graph(&container.networks()[0].stages[0]).unwrap().graph;
    assert_eq!(constants(&actual).count(), types.len() * 3);
    let file = mapped.as_ref().as_ptr_range();
    for (found, expected) in constants(&actual).zip(constants(&graph)) {
        assert_eq!((found.desc(), found.bytes()), (expected.desc(), expected.bytes()));
        if found.size_bytes() >= ALIGN_BYTES {
            assert!(file.contains(&found.bytes().as_ptr()), "{} stays in the file", found.desc());
            assert!(found.bytes().as_ptr().addr().is_multiple_of(ALIGN_BYTES));
        }
    }
    let text = |path: &Path| std::fs::read(path).unwrap();
    let copied = ModelBytes::read(&path).unwrap();
    std::fs::write(&path, b"short").unwrap();
    let container = Container::read(&copied).unwrap();
    let actual = container.graph(&container.networks()[0].stages[0]).unwrap().graph;
    assert_eq!(actual.to_string(), graph.to_string(), "a copy outlives {:?}", text(&path));
}

#[test]
fn equal_tensors_and_graphs_are_stored_once() {
    let mut graph = Graph::new("m");
    let tensor = |dims: &[usize], element: f32| {
        Tensor::from_slice(Shape::new(dims).unwrap(), &vec![element; 4096]).unwrap()
    };
    for (name, tensor) in [
        ("w", tensor(&[4096], 1.0)),
        ("w", tensor(&[4096], 2.0)),
        ("v", tensor(&[64, 64], 1.0)),
        ("udo.filler.0", tensor(&[4096], 3.0)),
        (safetensors::METADATA, tensor(&[4096], 4.0)),
    ] {
        let id = graph.add_constant(name, tensor);
        graph.outputs.push(id);
    }
    let unread = graph.add_constant("unread", tensor(&[4096], 5.0));
    graph.values[1].name = "w".to_owned();
    graph.outputs.truncate(5);
    assert_eq!(graph.outputs.len() + 1, graph.values.len());
    // Two values have the name "w", which outputs may not have: a node reads them all instead.
    let node = Node::new("Concat", 13, &graph.outputs, &[]);
    let sum = graph.add_value("sum");
    graph.add_node(Node { outputs: vec![Some(sum)], ..node });
    graph.outputs = vec![sum];
    let mut contents = contents(graph);
    let other = contents.networks[0].clone();
    contents.networks.push(Network { name: "other".to_owned(), ..other });
    let file = contents.to_bytes().unwrap();
    let header = safetensors::read(&file).unwrap();
    let mut names: Vec<_> = header.tensors.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["__metadata__#2", "udo.filler.0", "w", "w#2"]);
    let container = Container::read(&ModelBytes::copy_of(&file)).unwrap();
    let [first, second] = container.networks() else { panic!("two networks") };
    assert_eq!(first.stages[0].graph, second.stages[0].graph, "equal graphs");
    let stored = container.graph(&first.stages[0]).unwrap().graph;
    let [w, _, v] = &stored.values[..3] else { panic!("{stored}") };
    let [Source::Constant(w), Source::Constant(v)] = [&w.source, &v.source] else {
        panic!("{stored}")
    };
    assert_eq!((w.id(), w.dims(), v.dims()), (v.id(), &[4096][..], &[64, 64][..]));
    assert!(matches!(stored.values[unread.index()].source, Source::Computed));
}

#[test]
fn sections_are_read_back() {
    let mut contents = contents(Graph::parse(TEXT).unwrap());
    contents.sections.push(section("hta", Some("net"), b"prepared"));
    contents.sections.push(section("empty", None, b""));
    let sections = read(&contents).sections().unwrap();
    let actual: Vec<_> = sections
        .iter()
        .map(|section| (section.name.as_str(), section.network.as_deref(), section.bytes.bytes()))
        .collect();
    assert_eq!(actual, [("hta", Some("net"), &b"prepared"[..]), ("empty", None, b"")]);
}

#[test]
fn ids_of_nodes_and_origins_of_stages_are_read_back() {
    let mut written = contents(Graph::parse(TEXT).unwrap());
    let ids = vec![7, 3, 20, 21, 22];
    assert_eq!(written.networks[0].stages[0].graph.ids, [0, 1, 2, 3, 4]);
    written.networks[0].stages[0].graph.ids.clone_from(&ids);
    let source = ModelBytes::copy_of(b"abc");
    let source = Provenance::new("m.onnx", &source, "udo 1", vec!["--out-node y".to_owned()]);
    assert_eq!(source.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    written.networks[0].stages[0].source = source.clone();
    let container = read(&written);
    let actual = container.contents().unwrap();
    assert_eq!(actual.networks[0].stages[0].graph.ids, ids);
    assert_eq!(actual.networks[0].stages[0].source, source);
    assert_eq!(actual.to_bytes().unwrap(), written.to_bytes().unwrap(), "byte for byte");
    written.networks[0].stages[0].graph.ids = vec![1, 1, 2, 3, 4];
    let container = read(&written);
    let error = container.contents().unwrap_err().to_string();
    assert_eq!(error, "graph 0: two nodes with id 1, expected different ids");
    written.networks[0].stages[0].graph.ids = vec![1];
    let error = written.to_bytes().unwrap_err().to_string();
    assert_eq!(error, "node \"twist\": no id, expected an id for each node");
}

#[test]
fn a_failed_write_changes_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.udm");
    let mut contents = contents(Graph::parse(TEXT).unwrap());
    contents.write(&path).unwrap();
    let original = std::fs::read(&path).unwrap();
    assert_eq!(original, contents.to_bytes().unwrap());
    contents.networks[0].stages[0].graph.ids = Vec::new();
    contents.write(&path).unwrap_err();
    assert_eq!(std::fs::read(&path).unwrap(), original, "the old file stays");
    contents.networks.clear();
    let existing_folder = folder.path().join("folder");
    std::fs::create_dir_all(existing_folder.join("inner")).unwrap();
    let error = contents.write(&existing_folder).unwrap_err();
    assert!(matches!(error, ContainerError::Write { path, .. } if path == existing_folder));
    let error = contents.write(&folder.path().join("none/m.udm")).unwrap_err();
    assert!(matches!(error, ContainerError::Write { .. }));
    let mut names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["folder", "m.udm"], "no temporary files");
}

#[test]
fn at_most_sixteen_subgraphs_may_be_nested() {
    let nested = |depth: usize| {
        let mut graph = Graph::new("");
        for _ in 0..depth {
            let mut outer = Graph::new("");
            let mut node = Node::new("Run", 1, &[], &[]);
            node.attrs.push(("body".to_owned(), Attr::Graphs(vec![graph])));
            outer.add_node(node);
            graph = outer;
        }
        graph
    };
    assert_eq!(round_trip(&nested(16)).to_string(), nested(16).to_string());
    let container = read(&contents(nested(17)));
    let error = container.contents().unwrap_err().to_string();
    assert!(error.contains("subgraphs are nested more than 16 deep"), "{error}");
}
