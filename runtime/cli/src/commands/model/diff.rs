//! `udo model diff`

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use udo_graph::container::{Contents, Network, Provenance, Stage, StoredGraph};
use udo_graph::import;
use udo_runtime::Tensor;
use udo_runtime::graph::{Attr, Graph, ImportOptions, Node, Source, ValueId};

use crate::failures::container_failure;
use crate::model_flags::open_container;
use crate::output::{Failure, Outcome, print_json};
use crate::values::numbers;
use udo_graph::graph::NodeReads;

/// Compare two models
///
/// Compares networks, inputs, outputs, nodes and weights. Nodes and weights are matched by name.
/// Exits with 1 if the models differ.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo model diff old.onnx new.udm
  udo model diff old.udm new.udm --json")]
pub(super) struct Diff {
    /// ONNX file, model file (.udm) or printed graph
    #[arg(value_name = "OLD")]
    a: PathBuf,
    /// Model to compare it with
    #[arg(value_name = "NEW")]
    b: PathBuf,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// A difference: what it is of, its name, and how it is in each model.
struct Difference {
    kind: &'static str,
    name: String,
    a: Option<String>,
    b: Option<String>,
}

impl Diff {
    pub(super) fn run(self) -> Outcome {
        let [a, b] = [read(&self.a)?, read(&self.b)?];
        let mut found = Vec::new();
        // Files of other formats call a network after themselves.
        if let ([one], [other]) = (a.networks.as_slice(), b.networks.as_slice()) {
            stages(one, other, &mut found);
        } else {
            let by_name = |of: &Contents| {
                of.networks.iter().map(|of| (of.name.clone(), of.clone())).collect()
            };
            let networks: [BTreeMap<String, Network>; 2] = [by_name(&a), by_name(&b)];
            pairs("network", &networks, &mut found, |one, other, found| {
                stages(one, other, found);
            });
        }
        if self.json {
            let all = found
                .iter()
                .map(|of| json!({ "kind": of.kind, "name": of.name, "a": of.a, "b": of.b }));
            print_json(
                &json!({ "same": found.is_empty(), "differences": all.collect::<Vec<Value>>() }),
            );
        } else {
            found.iter().for_each(say);
            if found.is_empty() {
                outln!("no differences");
            }
        }
        match (found.len(), self.json) {
            (0, _) => Ok(()),
            (_, true) => Err(Failure::told()),
            (count, false) => Err(Failure::new(format!("{count} differences"))),
        }
    }
}

fn say(of: &Difference) {
    let Difference { kind, name, a, b } = of;
    match (a, b) {
        (Some(a), Some(b)) => outln!("{kind} {name}: {a} -> {b}"),
        (Some(a), None) => outln!("{kind} {name}: only in the old model, {a}"),
        (None, Some(b)) => outln!("{kind} {name}: only in the new model, {b}"),
        (None, None) => {}
    }
}

/// All that a file holds; a file of another format holds one network of one stage.
fn read(path: &Path) -> Result<Contents, Failure> {
    if let Some(container) = open_container(path)? {
        return container.contents().map_err(|error| container_failure(path, error));
    }
    let graph = StoredGraph::new(import::file(path, &ImportOptions::default())?);
    let (shapes, source) = (BTreeMap::new(), Provenance::default());
    let stages = vec![Stage { shapes, source, graph }];
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Contents { networks: vec![Network { name, stages }], sections: Vec::new() })
}

/// A value that differences describe in words.
trait Words {
    fn words(&self) -> String;
}

impl Words for Network {
    fn words(&self) -> String {
        format!("{} stages", self.stages.len())
    }
}

impl Words for String {
    fn words(&self) -> String {
        self.clone()
    }
}

impl Words for Tensor {
    fn words(&self) -> String {
        self.desc().to_string()
    }
}

/// Compares what has the same name in both.
fn pairs<T: Words>(
    kind: &'static str,
    [a, b]: &[BTreeMap<String, T>; 2],
    found: &mut Vec<Difference>,
    compare: impl Fn(&T, &T, &mut Vec<Difference>),
) {
    for (name, of) in a {
        match b.get(name) {
            Some(other) => compare(of, other, found),
            None => {
                found.push(Difference { kind, name: name.clone(), a: Some(of.words()), b: None });
            }
        }
    }
    for (name, of) in b.iter().filter(|(name, _)| !a.contains_key(*name)) {
        found.push(Difference { kind, name: name.clone(), a: None, b: Some(of.words()) });
    }
}

fn stages(a: &Network, b: &Network, found: &mut Vec<Difference>) {
    if a.stages.len() != b.stages.len() {
        let [one, other] = [a, b].map(|of| Some(of.words()));
        found.push(Difference { kind: "network", name: a.name.clone(), a: one, b: other });
    }
    for (index, (a, b)) in a.stages.iter().zip(&b.stages).enumerate() {
        let shapes = |of: &Stage| {
            let input = of.shapes.iter().map(|(name, extents)| {
                let extents: Vec<String> = extents.iter().map(ToString::to_string).collect();
                format!("{name} [{}]", extents.join(","))
            });
            input.collect::<Vec<_>>().join(", ")
        };
        let of = [a, b].map(|stage| BTreeMap::from([(index.to_string(), shapes(stage))]));
        compare_strings("shapes of stage", &of, found);
        graphs(&a.graph.graph, &b.graph.graph, found);
    }
}

/// Compares strings by name.
fn compare_strings(
    kind: &'static str,
    of: &[BTreeMap<String, String>; 2],
    found: &mut Vec<Difference>,
) {
    for (name, a) in &of[0] {
        if let Some(b) = of[1].get(name).filter(|b| *b != a) {
            let (a, b) = (Some(a.clone()), Some(b.clone()));
            found.push(Difference { kind, name: name.clone(), a, b });
        }
    }
    pairs(kind, of, found, |_, _, _| {});
}

fn graphs(a: &Graph, b: &Graph, found: &mut Vec<Difference>) {
    compare_strings("input", &[a, b].map(inputs), found);
    let outputs = |graph: &Graph| {
        let names = graph.outputs.iter().map(|&id| name_of(graph, Some(id)));
        BTreeMap::from([("names".to_owned(), names.collect::<Vec<_>>().join(", "))])
    };
    compare_strings("output", &[a, b].map(outputs), found);
    let in_place = |graph: &Graph| graph.in_place.iter().cloned().collect();
    compare_strings("in place", &[a, b].map(in_place), found);
    compare_strings("node", &[a, b].map(|graph| nodes(graph, "")), found);
    let weights = [a, b].map(|graph| weights(graph, ""));
    for (name, a) in &weights[0] {
        let Some(b) = weights[1].get(name) else { continue };
        if let Some((a, b)) = apart(a, b) {
            found.push(Difference { kind: "weights", name: name.clone(), a: Some(a), b: Some(b) });
        }
    }
    pairs("weights", &weights, found, |_, _, _| {});
}

/// How two tensors differ, if they do.
fn apart(a: &Tensor, b: &Tensor) -> Option<(String, String)> {
    if a.desc() != b.desc() {
        return Some((a.words(), b.words()));
    }
    if a.bytes() == b.bytes() {
        return None;
    }
    let elements = numbers(a).into_iter().zip(numbers(b));
    let apart: Vec<f64> = elements.map(|(a, b)| (a - b).abs()).filter(|d| *d != 0.0).collect();
    let most = apart.iter().copied().fold(0.0, f64::max);
    Some((a.words(), format!("{}, {} elements differ by up to {most:e}", b.words(), apart.len())))
}

fn inputs(graph: &Graph) -> BTreeMap<String, String> {
    let values = graph.inputs.iter().filter_map(|&id| graph.value(id).ok());
    let input = |value: &udo_runtime::graph::Value| match &value.source {
        Source::Input(of) => Some((value.name.clone(), of.to_string())),
        Source::Constant(_) | Source::Computed | Source::Outer => None,
    };
    values.filter_map(input).collect()
}

fn name_of(graph: &Graph, id: Option<ValueId>) -> String {
    let value = id.and_then(|id| graph.value(id).ok());
    value.map_or_else(|| "_".to_owned(), |value| value.name.clone())
}

/// Keeps `of` under a name; later ones of a name are numbered.
fn insert<T>(all: &mut BTreeMap<String, T>, name: &str, of: T) {
    let again = (2..).map(|n: u64| format!("{name}#{n}"));
    let mut names = [name.to_owned()].into_iter().chain(again);
    if let Some(free) = names.find(|name| !all.contains_key(name)) {
        all.insert(free, of);
    }
}

fn nodes(graph: &Graph, way: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for node in &graph.nodes {
        insert(&mut all, &format!("{way}{}", node.name), words(graph, node));
        for subgraph in node.subgraphs() {
            let way = format!("{way}{}/{}/", node.name, subgraph.attribute);
            let inner = nodes(subgraph.graph, &way);
            for (name, of) in inner {
                insert(&mut all, &name, of);
            }
        }
    }
    all
}

/// A node in one line.
fn words(graph: &Graph, node: &Node) -> String {
    let names = |ids: &[Option<ValueId>]| {
        ids.iter().map(|&id| name_of(graph, id)).collect::<Vec<_>>().join(", ")
    };
    let domain = if node.domain.is_empty() { "" } else { ":" };
    let (made, read) = (names(&node.outputs), names(&node.inputs));
    let op = format!("{}{domain}{}@{}", node.domain, node.op, node.opset);
    let held = |attr: &&(String, Attr)| {
        // Tensors are compared as weights are, and graphs node by node.
        !matches!(attr.1, Attr::Tensor(_) | Attr::Graph(_) | Attr::Graphs(_))
    };
    let attrs = node.attrs.iter().filter(held).map(|(name, attr)| format!(" {name}={attr}"));
    format!("{made} = {op}({read}){}", attrs.collect::<String>())
}

fn weights(graph: &Graph, way: &str) -> BTreeMap<String, Tensor> {
    let mut all = BTreeMap::new();
    let read = graph.nodes.iter().flat_map(Node::reads).map(|(_, value)| value);
    let read: HashSet<ValueId> = read.chain(graph.outputs.iter().copied()).collect();
    for id in graph.value_ids().filter(|id| read.contains(id)) {
        if let Some(tensor) = graph.constant(id) {
            insert(&mut all, &format!("{way}{}", name_of(graph, Some(id))), tensor.clone());
        }
    }
    for node in &graph.nodes {
        for (name, attr) in &node.attrs {
            if let Attr::Tensor(tensor) = attr {
                insert(&mut all, &format!("{way}{}/{name}", node.name), tensor.clone());
            }
        }
        for subgraph in node.subgraphs() {
            let way = format!("{way}{}/{}/", node.name, subgraph.attribute);
            let inner = weights(subgraph.graph, &way);
            for (name, of) in inner {
                insert(&mut all, &name, of);
            }
        }
    }
    all
}
