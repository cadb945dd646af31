//! `udo model info`

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use udo_api::Core;
use udo_graph::container::{Container, Contents, Extent, Network, Provenance, Stage, StoredGraph};
use udo_runtime::Runtime;
use udo_runtime::compile::{BindOptions, Surveyed, survey};
use udo_runtime::graph::{Graph, ImportOptions, Source};

use super::layers::{Layer, layers, share};
use crate::failures::container_failure;
use crate::model_flags::{open_container, parse_dim, parse_shape};
use crate::output::Column::{Left, Right};
use crate::output::{Failure, Outcome, chain, print_json, table};
use crate::package_flags::PackageFlags;

/// Show a model's networks, stages and nodes
///
/// The table of nodes shows the types, parameters, multiply-adds (MACs) and cores of each node.
/// Parameters are the elements of constants; a constant that several nodes read counts for the
/// first one. MACs follow from the definition of the operator. The cores are those that support the
/// node as it is in the model. With --json the report includes why the other cores do not.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo model info model.udm
  udo model info model.onnx --shape x=1,3,224,224 --json
  udo model info model.udm --csv > nodes.csv")]
pub(super) struct Info {
    /// ONNX file, model file (.udm) or printed graph
    model: PathBuf,
    /// Show only this network
    #[arg(long, value_name = "NAME")]
    network: Option<String>,
    /// Set the shape of an input that the model leaves open
    ///
    /// SHAPE is a comma-separated list of sizes. May be given once for each input.
    ///
    /// Example: `--shape image=1,3,224,224`
    #[arg(long, value_name = "NAME=SHAPE", value_parser = parse_shape)]
    shape: Vec<(String, Vec<usize>)>,
    /// Set the size of a named dimension that the model leaves open
    ///
    /// N may also be a range, FIRST..LAST. May be given once for each dimension.
    ///
    /// Example: `--dim batch=4` or `--dim batch=1..8`
    #[arg(long, value_name = "NAME=N", value_parser = parse_dim)]
    dim: Vec<(String, RangeInclusive<usize>)>,
    #[command(flatten)]
    packages: PackageFlags,
    /// Print one JSON object instead of text
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print comma-separated values, one line per node
    #[arg(long)]
    csv: bool,
}

/// The cores that are asked about each node.
const CORES: [Core; 3] = [Core::CPU, Core::GPU, Core::dsp(68)];

/// A stage and what is known of its nodes.
struct Known {
    network: String,
    index: usize,
    stage: Stage,
    layers: Vec<Layer>,
    inputs: Vec<(String, String)>,
    outputs: Vec<(String, String)>,
    /// Why types and cores are not known, if they are not.
    unknown: Option<String>,
}

impl Info {
    pub(super) fn run(self) -> Outcome {
        let runtime = self.packages.open()?;
        let (contents, container) = self.read(&runtime)?;
        let mut all = Vec::new();
        for network in contents.networks {
            let is_wanted = self.network.as_ref().is_none_or(|name| *name == network.name);
            for (index, stage) in network.stages.into_iter().enumerate().filter(|_| is_wanted) {
                let bound = container.as_ref().map(|of| bound(of, &network.name, index));
                let bound = bound.transpose().map_err(|e| container_failure(&self.model, e))?;
                let (graph, ranges) =
                    bound.unwrap_or_else(|| (stage.graph.graph.clone(), BTreeMap::new()));
                all.push(self.known(&network.name, index, stage, (graph, ranges), &runtime));
            }
        }
        let sections = contents.sections.iter().map(|section| {
            json!({ "name": section.name, "network": section.network, "bytes": section.bytes.bytes().len() })
        });
        let sections: Vec<Value> = sections.collect();
        if self.json {
            let stages: Vec<Value> = all.iter().map(Known::to_json).collect();
            print_json(&json!({ "model": self.model, "stages": stages, "sections": sections }));
        } else if self.csv {
            csv(&all);
        } else {
            all.iter().for_each(Known::say);
            for section in &sections {
                outln!("section {}: {} bytes", section["name"], section["bytes"]);
            }
        }
        Ok(())
    }

    /// All that the file holds; a file of another format holds one network of one stage.
    fn read(&self, runtime: &Runtime) -> Result<(Contents, Option<Container>), Failure> {
        let fail = |error| container_failure(&self.model, error);
        if let Some(container) = open_container(&self.model)? {
            if self.network.is_some() {
                container.network(self.network.as_deref()).map_err(fail)?;
            }
            return Ok((container.contents().map_err(fail)?, Some(container)));
        }
        let graph = StoredGraph::new(runtime.import(&self.model, &ImportOptions::default())?);
        let name = self.model.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(asked) = self.network.as_ref().filter(|asked| **asked != name) {
            let text = format!("network {asked:?} not found, expected {name:?}");
            return Err(Failure::new(text).help("leave --network out"));
        }
        let source = Provenance::default();
        let stage = Stage { shapes: BTreeMap::new(), source, graph };
        let networks = vec![Network { name, stages: vec![stage] }];
        Ok((Contents { networks, sections: Vec::new() }, None))
    }

    fn known(
        &self,
        network: &str,
        index: usize,
        stage: Stage,
        (graph, mut ranges): (Graph, BTreeMap<String, RangeInclusive<usize>>),
        runtime: &Runtime,
    ) -> Known {
        ranges.extend(self.dim.iter().cloned());
        let (dims, ranges): (BTreeMap<_, _>, BTreeMap<_, _>) =
            ranges.into_iter().partition(|(_, range)| range.start() == range.end());
        let bind = BindOptions {
            shapes: self.shape.iter().cloned().collect(),
            dims: dims.into_iter().map(|(name, range)| (name, *range.start())).collect(),
            ranges,
            ..BindOptions::default()
        };
        let inputs = inputs(&graph);
        let surveyed = survey(graph, runtime, &bind, &CORES);
        let unknown = surveyed.as_ref().err().map(|error| chain(error));
        let surveyed = surveyed.unwrap_or_default();
        let layers = layers(&stage.graph, &surveyed);
        let outputs = outputs(&stage.graph.graph, &surveyed);
        let network = network.to_owned();
        Known { network, index, stage, layers, inputs, outputs, unknown }
    }
}

type Bound = (Graph, BTreeMap<String, RangeInclusive<usize>>);

fn bound(
    container: &Container,
    network: &str,
    stage: usize,
) -> Result<Bound, udo_graph::container::ContainerError> {
    let stage = container.network(Some(network))?.stage(stage)?;
    let bound = container.bound(stage, network)?;
    Ok((bound.graph, bound.ranges))
}

/// Inputs and their types.
fn inputs(graph: &Graph) -> Vec<(String, String)> {
    let values = graph.inputs.iter().filter_map(|&id| graph.value(id).ok());
    let of = values.filter_map(|value| match &value.source {
        Source::Input(of) => Some((value.name.clone(), of.to_string())),
        Source::Constant(_) | Source::Computed | Source::Outer => None,
    });
    of.collect()
}

fn outputs(graph: &Graph, surveyed: &[Surveyed]) -> Vec<(String, String)> {
    let values = graph.outputs.iter().filter_map(|&id| graph.value(id).ok());
    let of = values.map(|value| {
        let mut made = surveyed.iter().flat_map(|node| &node.outputs);
        let known = made.find(|(name, _)| *name == value.name).map(|(_, desc)| desc.to_string());
        let declared = || value.declared.as_ref().map(ToString::to_string);
        (value.name.clone(), known.or_else(declared).unwrap_or_else(|| "?".to_owned()))
    });
    of.collect()
}

impl Known {
    fn totals(&self) -> (u64, u64) {
        let parameters = self.layers.iter().map(|layer| layer.parameters as u64).sum();
        (parameters, self.layers.iter().filter_map(|layer| layer.macs).sum())
    }

    fn to_json(&self) -> Value {
        let ports = |ports: &[(String, String)]| -> Vec<Value> {
            ports.iter().map(|(name, of)| json!({ "name": name, "type": of })).collect()
        };
        let source = &self.stage.source;
        let in_place = &self.stage.graph.graph.in_place;
        let in_place =
            in_place.iter().map(|(input, output)| json!({ "input": input, "output": output }));
        let (parameters, macs) = self.totals();
        json!({
            "network": self.network, "stage": self.index, "shapes": shapes(&self.stage),
            "source": {
                "file": source.file, "sha256": source.sha256, "tool": source.tool, "flags": source.flags,
            },
            "inputs": ports(&self.inputs), "outputs": ports(&self.outputs), "unknown": self.unknown,
            "in_place": in_place.collect::<Vec<_>>(), "parameters": parameters, "macs": macs,
            "nodes": self.layers.iter().map(Layer::to_json).collect::<Vec<_>>(),
        })
    }

    fn say(&self) {
        let Provenance { file, sha256, tool, flags } = &self.stage.source;
        outln!("network {}, stage {}: {}", self.network, self.index, words(&self.stage));
        if !file.is_empty() {
            let flags =
                if flags.is_empty() { String::new() } else { format!(" {}", flags.join(" ")) };
            outln!("  source: {file} (sha256 {sha256}), converted by {tool}{flags}");
        }
        for (kind, ports) in [("input ", &self.inputs), ("output", &self.outputs)] {
            for (name, of) in ports {
                outln!("  {kind} {name}: {of}");
            }
        }
        for (input, output) in &self.stage.graph.graph.in_place {
            outln!("  input  {input} and output {output} may share one tensor");
        }
        if let Some(unknown) = &self.unknown {
            outln!("  types and cores are incomplete: {unknown}");
        }
        let (parameters, macs) = self.totals();
        let rows = self.layers.iter().map(|layer| {
            let outputs = layer.outputs.iter().map(|(name, of)| format!("{name} {of}"));
            [
                layer.id.to_string(),
                layer.name.clone(),
                layer.op.clone(),
                outputs.collect::<Vec<_>>().join(", "),
                layer.takers(),
                share(layer.parameters as u64, parameters),
                share(layer.macs.unwrap_or(0), macs),
            ]
        });
        let columns = [
            Right("id"),
            Left("name"),
            Left("type"),
            Left("outputs"),
            Left("cores"),
            Right("parameters"),
            Right("MACs"),
        ];
        outln!("{}", table(columns, rows.collect()));
        outln!("  {} nodes, {parameters} parameters, {macs} MACs", self.layers.len());
    }
}

/// The shapes of a stage, in words.
fn words(stage: &Stage) -> String {
    if stage.shapes.is_empty() {
        return "shapes of the graph".to_owned();
    }
    let input = |(name, extents): (&String, &Vec<Extent>)| {
        let extents: Vec<String> = extents.iter().map(Extent::to_string).collect();
        format!("{name} [{}]", extents.join(","))
    };
    stage.shapes.iter().map(input).collect::<Vec<_>>().join(", ")
}

fn shapes(stage: &Stage) -> Value {
    let extent = |extent: &Extent| match extent {
        Extent::Fixed(extent) => json!(extent),
        Extent::Range { min, opt, max } => json!({ "min": min, "opt": opt, "max": max }),
        Extent::Any => Value::Null,
    };
    let input = |(name, extents): (&String, &Vec<Extent>)| {
        (name.clone(), extents.iter().map(extent).collect::<Value>())
    };
    stage.shapes.iter().map(input).collect::<serde_json::Map<_, _>>().into()
}

/// A line for each node, of fields as RFC 4180 has them.
fn csv(all: &[Known]) {
    outln!("network,stage,id,name,type,outputs,cores,parameters,macs");
    let field = |text: &str| {
        if text.contains(['"', ',', '\n', '\r']) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text.to_owned()
        }
    };
    for known in all {
        for layer in &known.layers {
            let outputs = layer.outputs.iter().map(|(name, of)| format!("{name} {of}"));
            let outputs = outputs.collect::<Vec<_>>().join("; ");
            let macs = layer.macs.map(|macs| macs.to_string()).unwrap_or_default();
            let words = [&*known.network, &layer.name, &layer.op, &outputs, &layer.takers()];
            let [network, name, op, outputs, takers] = words.map(field);
            let (index, id, parameters) = (known.index, layer.id, layer.parameters);
            outln!("{network},{index},{id},{name},{op},{outputs},{takers},{parameters},{macs}");
        }
    }
}
