//! What the page draws of a report: boxes, each a kernel's call or what stands for none, and lines for values.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Value, json};
use udo_api::Core;
use udo_runtime::plan::{NodeReport, Report, Subnet};

use super::layout::{Item, Layout, Line, WIDTH, layout};

/// How high a box is, and each of the nodes that its kernel does besides, in pixels.
const HEIGHT: f64 = 46.0;
const ROW: f64 = 24.0;

/// How high an input or output is.
const PORT: f64 = 34.0;

/// An input or output of the model: its name and type.
pub(super) type Port = (String, String);

/// What is drawn as a box.
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

/// Boxes and lines, with places.
pub(super) fn graph(report: &Report, inputs: &[Port], outputs: &[Port]) -> Value {
    let boxes = boxes(&report.nodes, inputs.len(), outputs.len());
    let edges = edges(report, &boxes, inputs, outputs);
    let subnets = subnets(report, &boxes).into_iter();
    let paths = subnets.map(|of| of.map_or_else(Vec::new, |of| boxes_around(report, of)));
    let items = boxes.iter().zip(paths).map(|(shown, path)| item(shown, path));
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
        json
    });
    let drawn = edges.iter().zip(points).map(|(edge, points)| {
        let (from, to) = (core(edge.line.from), core(edge.line.to));
        let points: Vec<i64> = points.iter().flatten().map(|&number| round(number)).collect();
        let mut json = json!({
            "from": edge.line.from, "to": edge.line.to, "value": edge.value, "type": edge.of, "points": points,
        });
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

/// The subnet of each box, where there are several: that of its nodes. What no step computes is of the one that it lies within.
fn subnets(report: &Report, boxes: &[Shown]) -> Vec<Option<usize>> {
    let of = |node: &usize| report.nodes.get(*node)?.subnet;
    let own = boxes.iter().map(|shown| match shown {
        Shown::Nodes(nodes) => nodes.iter().find_map(of).filter(|_| report.subnets.len() > 1),
        Shown::Input(_) | Shown::Output(_) => None,
    });
    let mut own: Vec<Option<usize>> = own.collect();
    let mut before: Option<(usize, usize)> = None;
    for at in 0..own.len() {
        let Some(subnet) = own.get(at).copied().flatten() else { continue };
        if let Some((from, _)) = before.filter(|(_, before)| *before == subnet) {
            own.iter_mut().take(at).skip(from).for_each(|of| *of = Some(subnet));
        }
        before = Some((at, subnet));
    }
    own
}

fn item<'a>(shown: &Shown, path: Vec<&'a str>) -> Item<'a> {
    #[expect(clippy::cast_precision_loss, reason = "pixels")]
    let height = match shown {
        Shown::Input(_) | Shown::Output(_) => PORT,
        Shown::Nodes(nodes) => HEIGHT + ROW * nodes.len().saturating_sub(1) as f64,
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

/// Inputs, then nodes in the order of a run, each in the box of whose kernel does its work, then outputs. What was computed with the model has
/// none: to the nodes that a run comes to it is constants.
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
    // What the trip before made is read by nodes that come before its maker.
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
        let Some((name, _)) = outputs.get(*output) else { continue };
        if let Some(maker) = makers.get(name.as_str()) {
            edges.add(name, maker, at);
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
    use udo_runtime::graph::Origin;

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
        assert_eq!(subnets(&report, &boxes), [None; 8], "one subnet is all of the model");
        report.subnets.push(Subnet { name: "GPU Subnet 1".to_owned(), ..subnet });
        let wanted = [None, Some(0), Some(0), Some(0), Some(0), None, Some(1), None];
        assert_eq!(subnets(&report, &boxes), wanted);
        assert_eq!(boxes_around(&report, 1), ["GPU Subnet 1"]);
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
        let graph = graph(&report, &[], &[]);
        let nodes: Vec<&Value> =
            graph["boxes"].as_array().unwrap().iter().map(|of| &of["nodes"]).collect();
        assert_eq!(nodes, [&json!([1, 2]), &json!([3])]);
    }
}
