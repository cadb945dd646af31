//! `udo view`

mod graph;
mod layout;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::{Value, json};
use udo_runtime::Report;
use udo_runtime::compile::NodeReport;
use udo_runtime::graph::{Attr, Graph, ImportOptions, Node};

use super::Run;
use super::explain::{ExplainFlags, Explained};
use crate::output::{Failure, Outcome, write_file};
use crate::page::{self, Page};
use graph::{Layers, Port, graph};

/// The style and the script of the page.
const STYLE: &str = include_str!("view/page/page.css");
const SCRIPT: &str = concat!(
    include_str!("view/page/model.js"),
    include_str!("view/page/draw.js"),
    include_str!("view/page/panel.js"),
    include_str!("view/page/control.js")
);

/// The program that opens a file in the browser that the user prefers.
const OPENER: &str = "xdg-open";

/// The most characters that are shown of an attribute.
const MOST_CHARS: usize = 200;

/// Write an HTML page that shows the compiled model
///
/// The page is a single file; a browser opens it without a network connection (docs/view.md). It
/// shows a graph with a box for each kernel call, colored by core, and a list of all nodes with the
/// details that `udo explain` reports. With --measured the model runs, and boxes can be colored by
/// time.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo view model.onnx                                      writes model.html
  udo view model.onnx --cores dsp,cpu --fallback cpu --open
  udo view model.onnx --measured --threads 2 -o page.html")]
pub(crate) struct View {
    #[command(flatten)]
    of: ExplainFlags,
    /// Write the page to this file [default: the model's name with .html]
    ///
    /// An existing file is overwritten. The default is a file in the current folder.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Open the page in the browser
    #[arg(long)]
    open: bool,
}

impl Run for View {
    fn run(self) -> Outcome {
        let model = self.of.model.model.clone();
        let output = self.output.unwrap_or_else(|| default_output(&model));
        let cores = self.of.model.core_names();
        let source = self.of.model.graph()?;
        let explained = self.of.explain()?;
        let layers = source.map_or_else(Layers::new, |graph| layers(&graph, explained.report()));
        write_file(&output, page(&model, &cores, &explained, &layers).as_bytes())?;
        outln!("{}", output.display());
        if self.open { open(&output) } else { Ok(()) }
    }
}

fn default_output(model: &Path) -> PathBuf {
    let mut name = model.file_stem().unwrap_or(model.as_os_str()).to_owned();
    name.push(".html");
    PathBuf::from(name)
}

/// Opens a page, and does not wait until the user closes it.
fn open(output: &Path) -> Outcome {
    let mut opener = Command::new(OPENER);
    let opener =
        opener.arg(output).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let failed = |what: String| {
        Err(Failure::new(format!("cannot open {}: {OPENER} {what}", output.display()))
            .help("open it in a browser yourself"))
    };
    match opener.status() {
        Err(error) => failed(format!("does not start: {error}")),
        Ok(status) if !status.success() => failed(format!("ended with {status}")),
        Ok(_) => Ok(()),
    }
}

/// Returns the model's nodes that each program of the HTA computes, without `QuantizeLinear` and `DequantizeLinear` nodes.
fn layers(graph: &Graph, report: &Report) -> Layers {
    let is_storing = |node: &Node| matches!(&*node.op, "QuantizeLinear" | "DequantizeLinear");
    let own: Vec<&Node> = graph.nodes.iter().filter(|node| !is_storing(node)).collect();
    let of = |(at, node): (usize, &NodeReport)| {
        let ids: BTreeSet<u32> = node.ids.ids().collect();
        let is_in = |own: &&&Node| own.origin.ids().any(|id| ids.contains(&id));
        let names = own.iter().filter(is_in).map(|own| [own.op.clone(), own.name.clone()]);
        (at, names.collect())
    };
    let programs = report.nodes.iter().enumerate().filter(|(_, node)| node.op == "HtaSubnet");
    programs.map(of).collect()
}

fn page(model: &Path, cores: &[String], explained: &Explained, layers: &Layers) -> String {
    let name = model.file_name().unwrap_or_default().to_string_lossy();
    let report = explained.report();
    let (inputs, outputs) = ports(explained);
    let ports = |ports: &[Port]| -> Vec<Value> {
        ports.iter().map(|(name, of)| json!({ "name": name, "type": of })).collect()
    };
    let data = json!({
        "name": name, "cores": cores, "inputs": ports(&inputs), "outputs": ports(&outputs),
        "attributes": attributes(model, explained, &report.nodes), "explain": explained.to_json(),
        "graph": graph(report, [&inputs, &outputs], layers),
    });
    let body = format!("{}{}", include_str!("view/page/page.html"), page::data("data", &data));
    Page { title: &name, style: STYLE, body: &body, script: SCRIPT }.text()
}

/// Returns the names of the model's inputs and outputs, with their types as the caller sees them.
fn ports(explained: &Explained) -> (Vec<Port>, Vec<Port>) {
    let (model, report) = (&explained.loaded.model, explained.report());
    let plan = model.plan();
    let inputs = model.inputs().iter().map(|input| {
        let planned = plan.and_then(|plan| {
            let mut all = plan.inputs();
            all.find(|(name, _)| *name == input.name).map(|(_, desc)| desc.to_string())
        });
        (input.name.clone(), planned.unwrap_or_else(|| input.of.to_string()))
    });
    let outputs = model.outputs().iter().map(|output| {
        let planned = plan.and_then(|plan| {
            let mut all = plan.outputs();
            all.find(|(name, _)| name == output).map(|(_, desc)| desc.to_string())
        });
        let made = report.nodes.iter().rev().find_map(|node| {
            let at = node.makes.iter().position(|name| name == output)?;
            node.outputs.iter().filter(|of| *of != "absent").nth(at).cloned()
        });
        (output.clone(), planned.or(made).unwrap_or_default())
    });
    (inputs.collect(), outputs.collect())
}

/// The attributes of nodes that the model names itself, by their places in the report; a name that several nodes have says nothing.
fn attributes(model: &Path, explained: &Explained, nodes: &[NodeReport]) -> BTreeMap<usize, Value> {
    let Ok(graph) = explained.loaded.runtime.import(model, &ImportOptions::default()) else {
        return BTreeMap::new();
    };
    let mut known: BTreeMap<_, Vec<&Node>> = BTreeMap::new();
    for node in &graph.nodes {
        known.entry((&*node.name, &*node.op)).or_default().push(node);
    }
    let of = |(at, node): (usize, &NodeReport)| {
        let [only] = known.get(&(&*node.name, &*node.op))?.as_slice() else { return None };
        let texts = only.attrs.iter().map(|(name, attr)| [name.clone(), in_short(attr)]);
        let texts: Vec<[String; 2]> = texts.collect();
        (!texts.is_empty()).then(|| (at, json!(texts)))
    };
    nodes.iter().enumerate().filter_map(of).collect()
}

fn in_short(attr: &Attr) -> String {
    let text = match attr {
        Attr::Tensor(tensor) => tensor.desc().to_string(),
        Attr::Graph(_) | Attr::Graphs(_) => "a graph".to_owned(),
        Attr::Int(_)
        | Attr::Float(_)
        | Attr::Text(_)
        | Attr::Ints(_)
        | Attr::Floats(_)
        | Attr::Texts(_) => attr.to_string(),
    };
    match text.char_indices().nth(MOST_CHARS) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_named_after_models_and_lie_where_the_user_is() {
        let names =
            ["zoo/net.onnx", "net", "a.b.udm"].map(|model| default_output(Path::new(model)));
        assert_eq!(names, ["net.html", "net.html", "a.b.html"].map(PathBuf::from));
    }

    #[test]
    fn long_attributes_are_cut_between_characters() {
        let text = in_short(&Attr::Text("é".repeat(300)));
        assert_eq!(text.chars().count(), MOST_CHARS + 2);
        assert_eq!(in_short(&Attr::Ints(vec![1, 2])), "[1, 2]");
    }
}
