//! The graph that the page draws of a report: boxes for kernel calls, inputs and outputs, and lines for values.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Value, json};
use udo_api::Core;
use udo_compile::plan::{Crossing, Subnet};
use udo_runtime::Report;
use udo_runtime::compile::NodeReport;

use super::layout::{Item, Layout, Line, WIDTH, layout};

/// How high a box is, and each of the nodes that its kernel does besides, in pixels.
const HEIGHT: f64 = 46.0;
const ROW: f64 = 24.0;

/// How high an input or output is.
const PORT: f64 = 34.0;

/// An input or output of the model: its name and type.
pub(super) type Port = (String, String);

/// The contents of a box.
enum Shown {
    Input(usize),
    /// Nodes: the first one has a kernel, and does the work of the others.
    Nodes(Vec<usize>),
    Output(usize),
}

/// A value on its way from one box to another.
struct Edge {
    line: Line,
    value: String,
    of: String,
}

/// The operators and names of the model's nodes that a program does the work of, by the place of the program's node in the report.
pub(super) type Layers = BTreeMap<usize, Vec<[String; 2]>>;

/// Boxes and lines, with places.
pub(super) fn graph(report: &Report, [inputs, outputs]: [&[Port]; 2], layers: &Layers) -> Value {
    let boxes = in_subnets(boxes(&report.nodes, inputs.len(), outputs.len()), report);
    let edges = edges(report, &boxes, inputs, outputs);
    let crossed = crossed(report, &boxes, &edges);
    let paths = paths(report, &boxes);
    let layers_of = |shown: &Shown| match shown {
        Shown::Nodes(nodes) => nodes.first().and_then(|node| layers.get(node)),
        Shown::Input(_) | Shown::Output(_) => None,
    };
    let items = boxes
        .iter()
        .zip(paths)
        .map(|(shown, path)| item(shown, layers_of(shown).map_or(0, Vec::len), path));
    let items: Vec<Item<'_>> = items.collect();
    let lines: Vec<Line> = edges.iter().map(|edge| edge.line).collect();
    let Layout { corners, points, frames, size } = layout(&items, &lines);
    let core = |at: usize| boxes.get(at).map_or(Core::CPU, |shown| core_of(shown, report));
    let framed = frames.iter().map(|frame| {
        let name = items.get(frame.items.start).and_then(|item| item.path.get(frame.depth));
        json!({
            "name": name, "depth": frame.depth, "core": core(frame.items.start).to_string(),
            "x": round(frame.left), "y": round(frame.top), "w": round(frame.right - frame.left),
            "h": round(frame.bottom - frame.top),
        })
    });
    let shown = boxes.iter().zip(&items).zip(corners).enumerate();
    let shown = shown.map(|(at, ((shown, item), [x, y]))| {
        let around = frames.iter().enumerate().filter(|(_, frame)| frame.items.contains(&at));
        let around: Vec<usize> = around.map(|(frame, _)| frame).collect();
        let mut json = json!({ "x": round(x), "y": round(y), "h": item.height, "frames": around });
        match shown {
            Shown::Input(at) => json["input"] = (*at).into(),
            Shown::Nodes(nodes) => json["nodes"] = nodes.clone().into(),
            Shown::Output(at) => json["output"] = (*at).into(),
        }
        if let Some(layers) = layers_of(shown) {
            json["layers"] = json!(layers);
        }
        json
    });
    let drawn = edges.iter().zip(points).zip(crossed).map(|((edge, points), crossed)| {
        let (from, to) = (core(edge.line.from), core(edge.line.to));
        let points: Vec<i64> = points.iter().flatten().map(|&number| round(number)).collect();
        let mut json = json!({
            "from": edge.line.from, "to": edge.line.to, "value": edge.value, "type": edge.of, "points": points,
        });
        if let Some(of) = crossed {
            json["crossing"] =
                json!({ "made": of.made, "read": of.read, "bytes": of.bytes, "passage": of.passage.name() });
        }
        if from != to {
            json["crosses"] = transfers(report, &edge.value, to).into();
        }
        json
    });
    json!({
        "boxes": shown.collect::<Vec<_>>(), "edges": drawn.collect::<Vec<_>>(), "frames": framed.collect::<Vec<_>>(),
        "width": round(size[0]), "height": round(size[1]), "box_width": WIDTH, "row_height": ROW, "steps": steps(report),
    })
}

/// The names of the boxes around the nodes of a subnet, the outermost first.
fn boxes_around(report: &Report, subnet: usize) -> Vec<&str> {
    report.subnets.get(subnet).into_iter().flat_map(Subnet::path).collect()
}

/// Returns the subnet of each box, which is that of its nodes; `None` for nodes that no step computes.
fn subnets(report: &Report, boxes: &[Shown]) -> Vec<Option<usize>> {
    let of = |node: &usize| report.nodes.get(*node)?.subnet;
    let own = boxes.iter().map(|shown| match shown {
        Shown::Nodes(nodes) => nodes.iter().find_map(of),
        Shown::Input(_) | Shown::Output(_) => None,
    });
    own.collect()
}

/// The boxes in an order in which those of a subnet follow each other: nodes may come in another one than their steps. What no step computes
/// comes with the last of what it reads.
fn in_subnets(boxes: Vec<Shown>, report: &Report) -> Vec<Shown> {
    let own = subnets(report, &boxes);
    if own.iter().flatten().is_sorted() {
        return boxes;
    }
    let mut made: BTreeMap<&str, usize> = BTreeMap::new();
    let mut keyed: Vec<(usize, Shown)> = Vec::new();
    for (shown, own) in boxes.into_iter().zip(own) {
        let key = match &shown {
            Shown::Input(_) => 0,
            Shown::Output(_) => usize::MAX,
            Shown::Nodes(nodes) => {
                let nodes = || nodes.iter().filter_map(|&node| report.nodes.get(node));
                let read = nodes().flat_map(|node| &node.reads);
                let read = read.filter_map(|name| made.get(name.as_str()).copied()).max();
                let key = own.map_or_else(|| read.unwrap_or(1), |subnet| subnet + 1);
                made.extend(nodes().flat_map(|node| &node.makes).map(|name| (name.as_str(), key)));
                key
            }
        };
        keyed.push((key, shown));
    }
    // Stable: within a subnet nodes stay in their order.
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, shown)| shown).collect()
}

/// The names of the frames around each box, the outermost first. What no step computes is in those that what comes before it and what comes
/// after it share. A model that is one subnet has no frame, unless HTA and DSP are one runtime there.
fn paths<'a>(report: &'a Report, boxes: &[Shown]) -> Vec<Vec<&'a str>> {
    let is_aip = report.subnets.iter().any(|subnet| subnet.within.is_some());
    if report.subnets.len() < 2 && !is_aip {
        return vec![Vec::new(); boxes.len()];
    }
    let own = subnets(report, boxes);
    let path = |subnet: &Option<usize>| subnet.map(|subnet| boxes_around(report, subnet));
    let mut paths: Vec<Option<Vec<&str>>> = own.iter().map(path).collect();
    let mut before: Option<(usize, Vec<&str>)> = None;
    for at in 0..paths.len() {
        let Some(path) = paths.get(at).cloned().flatten() else { continue };
        if let Some((from, before)) = &before {
            let is_same = own.get(*from) == own.get(at);
            let count = before.iter().zip(&path).take_while(|(a, b)| a == b).count();
            let count = if is_same { path.len() } else { count };
            let shared = path.get(..count).unwrap_or_default().to_vec();
            paths.iter_mut().take(at).skip(from + 1).for_each(|of| *of = Some(shared.clone()));
        }
        before = Some((at, path));
    }
    paths.into_iter().map(Option::unwrap_or_default).collect()
}

/// For each line what crosses along it between two subnets, or between one and the caller, as `udo explain` says: each crossing is on the line
/// that leaves who makes the value.
fn crossed<'r>(report: &'r Report, boxes: &[Shown], edges: &[Edge]) -> Vec<Option<&'r Crossing>> {
    let own = subnets(report, boxes);
    let is_end = |at: usize| match boxes.get(at) {
        Some(Shown::Nodes(_)) => own.get(at).copied().flatten().is_some(),
        Some(Shown::Input(_) | Shown::Output(_)) | None => true,
    };
    let subnet = |at: usize| own.get(at).copied().flatten();
    // Where a line leads: through boxes that no step computes.
    let leads = |edge: &Edge| -> BTreeSet<Option<usize>> {
        let (mut ends, mut seen, mut open) = (BTreeSet::new(), BTreeSet::new(), vec![edge.line.to]);
        while let Some(at) = open.pop() {
            if is_end(at) {
                ends.insert(subnet(at));
            } else if seen.insert(at) {
                open.extend(edges.iter().filter(|of| of.line.from == at).map(|of| of.line.to));
            }
        }
        ends
    };
    let of = |edge: &Edge| {
        let is_made = |of: &&Crossing| of.value == edge.value && of.from == subnet(edge.line.from);
        let mut all = report.crossings.iter().filter(is_made).peekable();
        all.peek()?;
        let ends = leads(edge);
        all.find(|of| ends.contains(&of.to)).filter(|_| is_end(edge.line.from))
    };
    edges.iter().map(of).collect()
}

fn item<'a>(shown: &Shown, layers: usize, path: Vec<&'a str>) -> Item<'a> {
    #[expect(clippy::cast_precision_loss, reason = "pixels")]
    let height = match shown {
        Shown::Input(_) | Shown::Output(_) => PORT,
        Shown::Nodes(nodes) => HEIGHT + ROW * (nodes.len().saturating_sub(1) + layers) as f64,
    };
    Item { height, sinks: matches!(shown, Shown::Input(_)), path }
}

fn core_of(shown: &Shown, report: &Report) -> Core {
    match shown {
        Shown::Nodes(nodes) => {
            let first = nodes.first().and_then(|&node| report.nodes.get(node));
            first.map_or(Core::CPU, |node| node.core)
        }
        Shown::Input(_) | Shown::Output(_) => Core::CPU,
    }
}

/// Returns the boxes: inputs, then nodes in the order of a run, then outputs. A fused node is in the box of the kernel that
/// computes it. Constant-folded nodes have no box: their outputs are constants of the nodes that run.
fn boxes(nodes: &[NodeReport], inputs: usize, outputs: usize) -> Vec<Shown> {
    let mut boxes: Vec<Shown> = (0..inputs).map(Shown::Input).collect();
    let mut kernels: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, node) in nodes.iter().enumerate().filter(|(_, node)| !node.is_folded) {
        let host = node.fused_into.as_deref().and_then(|name| kernels.get(name));
        if let Some(Shown::Nodes(rows)) = host.and_then(|&host| boxes.get_mut(host)) {
            rows.push(at);
            continue;
        }
        kernels.insert(&node.name, boxes.len());
        boxes.push(Shown::Nodes(vec![at]));
    }
    boxes.extend((0..outputs).map(Shown::Output));
    boxes
}

/// Where a value comes from: a box, and its type there.
type Maker = (usize, String);

fn edges(report: &Report, boxes: &[Shown], inputs: &[Port], outputs: &[Port]) -> Vec<Edge> {
    let mut edges = Edges { seen: BTreeSet::new(), ids: BTreeMap::new(), all: Vec::new() };
    // Inputs are the first boxes.
    let given = inputs.iter().enumerate().map(|(at, (name, of))| (name.as_str(), (at, of.clone())));
    let mut makers: BTreeMap<&str, Maker> = given.collect();
    let homes = homes(boxes);
    // Nodes that come before the maker of a value read it from the previous iteration of a loop.
    let mut early: Vec<(&str, usize)> = Vec::new();
    for (at, node) in report.nodes.iter().enumerate() {
        let Some(&home) = homes.get(&at) else { continue };
        for name in &node.reads {
            match makers.get(name.as_str()) {
                Some(maker) => edges.add(name, maker, home),
                None => early.push((name, home)),
            }
        }
        let types = node.outputs.iter().filter(|of| *of != "absent");
        for (name, of) in node.makes.iter().zip(types) {
            makers.insert(name, (home, of.clone()));
        }
    }
    for (name, home) in early {
        if let Some(maker) = makers.get(name) {
            edges.add(name, maker, home);
        }
    }
    for (at, shown) in boxes.iter().enumerate() {
        let Shown::Output(output) = shown else { continue };
        let Some((name, of)) = outputs.get(*output) else { continue };
        if let Some((maker, _)) = makers.get(name.as_str()) {
            edges.add(name, &(*maker, of.clone()), at);
        }
    }
    edges.all
}

/// The box of each node that has one.
fn homes(boxes: &[Shown]) -> BTreeMap<usize, usize> {
    let nodes = |shown: &Shown| match shown {
        Shown::Nodes(nodes) => nodes.clone(),
        Shown::Input(_) | Shown::Output(_) => Vec::new(),
    };
    let boxes = boxes.iter().enumerate();
    boxes.flat_map(|(at, shown)| nodes(shown).into_iter().map(move |node| (node, at))).collect()
}

/// Lines, each once.
struct Edges {
    seen: BTreeSet<(usize, usize, usize)>,
    ids: BTreeMap<String, usize>,
    all: Vec<Edge>,
}

impl Edges {
    fn add(&mut self, name: &str, (from, of): &Maker, to: usize) {
        let next = self.ids.len();
        let value = *self.ids.entry(name.to_owned()).or_insert(next);
        if *from == to || !self.seen.insert((*from, to, value)) {
            return;
        }
        let line = Line { from: *from, to, value };
        self.all.push(Edge { line, value: name.to_owned(), of: of.clone() });
    }
}

/// The steps that bring a value to a core, or to whichever where none says which.
fn transfers(report: &Report, value: &str, to: Core) -> Vec<usize> {
    let steps = report.steps.iter().enumerate();
    let of_value = steps.filter(|(_, step)| step.is_transfer() && step.name == value);
    let of_value: Vec<_> = of_value.collect();
    let there: Vec<usize> =
        of_value.iter().filter(|(_, step)| step.core == to).map(|(at, _)| *at).collect();
    if there.is_empty() { of_value.into_iter().map(|(at, _)| at).collect() } else { there }
}

/// The step of each node, if it has one of its own. Names are not unique; the order of nodes is that of steps.
fn steps<'a>(report: &'a Report) -> Vec<Option<usize>> {
    let mut of: BTreeMap<(&'a str, &'a str), VecDeque<usize>> = BTreeMap::new();
    for (at, step) in report.steps.iter().enumerate().filter(|(_, step)| !step.is_transfer()) {
        of.entry((&step.name, &step.op)).or_default().push_back(at);
    }
    let step = |node: &'a NodeReport| {
        let has_none = node.is_view || node.is_folded || node.fused_into.is_some();
        let steps = of.get_mut(&(node.name.as_str(), node.op.as_str()));
        steps.filter(|_| !has_none)?.pop_front()
    };
    report.nodes.iter().map(step).collect()
}

/// Pixels.
#[expect(clippy::cast_possible_truncation, reason = "it saturates")]
fn round(pixels: f64) -> i64 {
    pixels.round() as i64
}

#[cfg(test)]
mod tests {
    use udo_graph::graph::Origin;

    use super::*;

    fn node(name: &str, reads: &[&str], makes: &[&str]) -> NodeReport {
        let texts = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        NodeReport {
            ids: Origin::default(),
            subnet: None,
            name: name.to_owned(),
            op: "Add".to_owned(),
            package: String::new(),
            core: Core::CPU,
            backend: None,
            opencl_unused: None,
            inputs: vec!["f32[1]".to_owned(); reads.len()],
            outputs: vec!["f32[1]".to_owned(); makes.len()],
            reads: texts(reads),
            makes: texts(makes),
            encodings: Vec::new(),
            refusals: Vec::new(),
            fell_back: false,
            is_view: false,
            fused_into: None,
            is_folded: false,
            control: None,
            depth: 0,
        }
    }

    fn lines(report: &Report) -> Vec<(String, usize, usize)> {
        let input = [("x".to_owned(), "f32[1]".to_owned())];
        let boxes = boxes(&report.nodes, 1, 0);
        let edges = edges(report, &boxes, &input, &[]);
        edges.into_iter().map(|edge| (edge.value, edge.line.from, edge.line.to)).collect()
    }

    #[test]
    fn what_the_trip_before_made_leads_back() {
        let nodes = vec![node("a", &["x", "h"], &["y"]), node("b", &["y"], &["h"])];
        let found = lines(&Report { nodes, ..Report::default() });
        let wanted = [("x", 0, 1), ("y", 1, 2), ("h", 2, 1)];
        assert_eq!(found, wanted.map(|(value, from, to)| (value.to_owned(), from, to)));
    }

    #[test]
    fn what_no_step_computes_is_of_the_subnet_that_it_lies_within() {
        let of = |subnet| NodeReport { subnet, ..node("a", &[], &[]) };
        let known = [None, Some(0), None, None, Some(0), None, Some(1), None];
        let subnet = Subnet {
            name: "CPU Subnet 0".to_owned(),
            within: None,
            core: Core::CPU,
            nodes: Origin::default(),
            steps: 0..1,
        };
        let mut report = Report { nodes: known.map(of).to_vec(), ..Report::default() };
        let boxes: Vec<Shown> = (0..known.len()).map(|at| Shown::Nodes(vec![at])).collect();
        report.subnets = vec![subnet.clone()];
        assert!(paths(&report, &boxes).iter().all(Vec::is_empty), "one subnet is all of the model");
        report.subnets.push(Subnet { name: "GPU Subnet 1".to_owned(), ..subnet.clone() });
        let (none, first, second): (&[&str], &[&str], &[&str]) =
            (&[], &["CPU Subnet 0"], &["GPU Subnet 1"]);
        assert_eq!(paths(&report, &boxes), [none, first, first, first, first, none, second, none]);
        assert_eq!(boxes_around(&report, 1), ["GPU Subnet 1"]);
        // Two that are of one AIP subnet share its frame with what lies between them, and one alone has it.
        for of in &mut report.subnets {
            of.within = Some("AIP Subnet 0".to_owned());
        }
        let around = paths(&report, &boxes);
        assert_eq!((around[0].len(), &around[5], around[7].len()), (0, &vec!["AIP Subnet 0"], 0));
        assert_eq!(around[6], ["AIP Subnet 0", "GPU Subnet 1"]);
        report.subnets.truncate(1);
        report.nodes.truncate(3);
        assert_eq!(paths(&report, &boxes[..3])[1], ["AIP Subnet 0", "CPU Subnet 0"]);
    }

    #[test]
    fn boxes_of_a_subnet_follow_each_other_in_whatever_order_nodes_come() {
        let of = |subnet, name: &str, reads: &[&str], makes: &[&str]| NodeReport {
            subnet,
            ..node(name, reads, makes)
        };
        let nodes = vec![
            of(Some(0), "a", &["x"], &["y"]),
            of(Some(1), "b", &["y"], &["z"]),
            of(Some(0), "c", &["y"], &["w"]),
            of(None, "view of w", &["w"], &["v"]),
            of(Some(1), "d", &["v", "z"], &["u"]),
        ];
        let report = Report { nodes, ..Report::default() };
        let found = in_subnets(boxes(&report.nodes, 1, 1), &report);
        let found: Vec<usize> = found
            .iter()
            .filter_map(|shown| match shown {
                Shown::Nodes(nodes) => nodes.first().copied(),
                Shown::Input(_) | Shown::Output(_) => None,
            })
            .collect();
        assert_eq!(found, [0, 2, 3, 1, 4]);
    }

    #[test]
    fn what_is_computed_with_the_model_has_no_box() {
        let folded = NodeReport { is_folded: true, ..node("a", &["c"], &["k"]) };
        let fused = NodeReport { fused_into: Some("b".to_owned()), ..node("c", &["y"], &["z"]) };
        let nodes =
            vec![folded, node("b", &["x", "k", "x"], &["y"]), fused, node("d", &["z"], &["w"])];
        let report = Report { nodes, ..Report::default() };
        let wanted = [("x", 0, 1), ("z", 1, 2)];
        assert_eq!(lines(&report), wanted.map(|(value, from, to)| (value.to_owned(), from, to)));
        let graph = graph(&report, [&[], &[]], &Layers::new());
        let nodes: Vec<&Value> =
            graph["boxes"].as_array().unwrap().iter().map(|of| &of["nodes"]).collect();
        assert_eq!(nodes, [&json!([1, 2]), &json!([3])]);
    }
}
