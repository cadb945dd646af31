//! `udo prepare`

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use udo_compile::hta::{HtaPart, HtaReport, PrepareHta};
use udo_graph::container::{Container, Contents, Extent};
use udo_graph::graph::Origin;
use udo_graph::memory::ModelBytes;
use udo_hta::Soc;

use super::Run;
use crate::cores::soc_named;
use crate::failures::{container_failure, load_failure};
use crate::model_flags::{given_once, parse_shape};
use crate::output::{Failure, Outcome, print_json};
use crate::package_flags::PackageFlags;

/// How many nodes that stay are said.
const SAID: usize = 5;

/// Precompile a model and store the result in its file
///
/// With --hta, compiles parts of a quantized model for the HTA (hardware tensor accelerator) of a
/// SoC. By default all supported nodes are compiled, in parts as large as possible;
/// --hta-partitions selects the nodes. Existing programs for the same SoC are replaced, and
/// programs for other SoCs are kept. Run the result with `--cores aip` (docs/aip.md).
///
/// Without --hta, stores prepacked weights for this machine's CPU.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo prepare quantized.udm --hta                                 everything that the HTA supports
  udo prepare quantized.udm --hta --hta-partitions 0-11,177-215   two parts
  udo prepare quantized.udm --hta --soc hta100 --soc hta300 -o both.udm")]
pub(crate) struct Prepare {
    /// Model file (.udm)
    model: PathBuf,
    /// Compile parts of the model for the HTA
    #[arg(long)]
    hta: bool,
    /// Compile for this SoC
    ///
    /// May be given several times.
    #[arg(long, value_name = "NAME", requires = "hta", default_value = Soc::DEFAULT.name, value_parser = soc_named)]
    soc: Vec<&'static Soc>,
    /// Compile these nodes, each range as one program
    ///
    /// NODES is a comma-separated list of ranges of node ids, as in 0-11,177-215; `udo explain`
    /// shows the ids. Join several ranges of one program with +, as in 0-11+14-20. With a SoC in
    /// front, as in hta100:0-11, the ranges apply to this SoC only.
    #[arg(long, value_name = "NODES", requires = "hta", value_parser = parse_partitions)]
    hta_partitions: Vec<Partitions>,
    /// Set the shape of an input that the model leaves open
    ///
    /// SHAPE is a comma-separated list of sizes. The written file has this shape.
    ///
    /// Example: `--shape image=1,3,224,224`
    #[arg(long, value_name = "NAME=SHAPE", value_parser = parse_shape)]
    shape: Vec<(String, Vec<usize>)>,
    /// Write this model file [default: the model file itself]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    packages: PackageFlags,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Nodes by their ids, a list for each program, for a SoC or for all.
#[derive(Clone, Debug)]
struct Partitions {
    soc: Option<&'static Soc>,
    parts: Vec<Origin>,
}

/// The most nodes of a part.
const MOST: usize = 1 << 20;

fn parse_partitions(text: &str) -> Result<Partitions, String> {
    let (soc, ranges) = match text.split_once(':') {
        Some((soc, ranges)) => (Some(soc_named(soc)?), ranges),
        None => (None, text),
    };
    let wanted = || {
        "expected ranges of ids as 0-11,177-215, for one program each; + joins ranges".to_owned()
    };
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let ids = first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?;
        (!ids.is_empty() && ids.clone().take(MOST + 1).count() <= MOST).then_some(ids)
    };
    let part = |text: &str| {
        let ranges: Option<Vec<_>> = text.split('+').map(range).collect();
        ranges.map(|ranges| ranges.into_iter().flatten().collect::<Origin>())
    };
    let parts = ranges.split(',').map(part).collect::<Option<_>>().ok_or_else(wanted)?;
    Ok(Partitions { soc, parts })
}

impl Run for Prepare {
    fn run(self) -> Outcome {
        let runtime = self.packages.open()?;
        let mut contents = read(&self.model)?;
        self.set_shapes(&mut contents)?;
        let failed = |error| load_failure(error, &self.model, &runtime);
        let mut reports = Vec::new();
        if self.hta {
            self.check()?;
            for soc in &self.soc {
                let of = PrepareHta { soc, parts: self.parts(soc) };
                reports.push((*soc, runtime.prepare_hta(&mut contents, &of).map_err(failed)?));
            }
        } else {
            let section = runtime.prepare(&contents).map_err(failed)?;
            contents.sections.retain(|known| known.name != section.name);
            contents.sections.push(section);
        }
        let output = self.output.as_ref().unwrap_or(&self.model);
        contents.write(output).map_err(|error| container_failure(output, error))?;
        if self.json {
            print_json(&to_json(output, &reports));
        } else {
            for (soc, report) in &reports {
                say(soc, report);
            }
            outln!("{}", output.display());
        }
        Ok(())
    }
}

impl Prepare {
    /// Has every stage take inputs of the shapes that `--shape` gives.
    fn set_shapes(&self, contents: &mut Contents) -> Outcome {
        let names: Vec<&String> = self.shape.iter().map(|(name, _)| name).collect();
        given_once("--shape", &names)?;
        for stage in contents.networks.iter_mut().flat_map(|network| &mut network.stages) {
            for (name, dims) in &self.shape {
                let extents = dims.iter().map(|&extent| Extent::Fixed(extent)).collect();
                stage.shapes.insert(name.clone(), extents);
            }
            let mut graph = stage.graph.graph.clone();
            udo_graph::container::ready(&mut graph, std::slice::from_ref(&stage.shapes))
                .map_err(|error| container_failure(&self.model, error))?;
        }
        Ok(())
    }

    /// Refuses partitions for a SoC that nothing is compiled for.
    fn check(&self) -> Outcome {
        let mut socs = self.hta_partitions.iter().filter_map(|of| of.soc);
        let is_asked = |soc: &Soc| self.soc.iter().any(|asked| asked.name == soc.name);
        match socs.find(|soc| !is_asked(soc)) {
            None => Ok(()),
            Some(soc) => {
                let text =
                    format!("--hta-partitions {}:..: nothing is compiled for that SoC", soc.name);
                Err(Failure::new(text).help(format!("ask for it: --soc {}", soc.name)))
            }
        }
    }

    fn parts(&self, soc: &Soc) -> Vec<Origin> {
        let is_of = |of: &&Partitions| of.soc.is_none_or(|own| own.name == soc.name);
        let of = self.hta_partitions.iter().filter(is_of);
        of.flat_map(|of| of.parts.iter().cloned()).collect()
    }
}

/// Reads the contents of a model file. The bytes are copied because the file may be overwritten.
fn read(path: &Path) -> Result<Contents, Failure> {
    let bytes = ModelBytes::read(path)
        .map_err(|error| Failure::new(format!("cannot read it: {error}")).at(path.display()))?;
    if !udo_graph::container::sniff(bytes.as_ref()) {
        let failure = Failure::new("this is not a model file").at(path.display());
        return Err(failure.help("`udo convert MODEL.onnx` makes one"));
    }
    let contents = Container::read(&bytes).and_then(|container| container.contents());
    contents.map_err(|error| container_failure(path, error))
}

fn say(soc: &Soc, report: &HtaReport) {
    for part in &report.parts {
        let HtaPart { network, stage, nodes, layers, bytes, inputs, outputs } = part;
        outln!("{}: {network} stage {stage}, nodes {nodes}: {layers} layers, {bytes} B", soc.name);
        outln!("  {} -> {}", inputs.join(", "), outputs.join(", "));
    }
    for why in report.stays.iter().take(SAID) {
        outln!("{}: not compiled for the HTA: {why}", soc.name);
    }
    if let Some(more) = report.stays.len().checked_sub(SAID).filter(|more| *more > 0) {
        outln!("{}: {more} more nodes not compiled", soc.name);
    }
}

fn to_json(output: &Path, reports: &[(&Soc, HtaReport)]) -> Value {
    let part = |part: &HtaPart| {
        json!({
            "network": part.network, "stage": part.stage, "nodes": part.nodes.ids().collect::<Vec<_>>(),
            "layers": part.layers, "bytes": part.bytes, "inputs": part.inputs, "outputs": part.outputs,
        })
    };
    let socs = reports.iter().map(|(soc, report)| {
        let parts: Vec<Value> = report.parts.iter().map(part).collect();
        json!({ "soc": soc.name, "parts": parts, "stays": report.stays })
    });
    json!({ "file": output.display().to_string(), "hta": socs.collect::<Vec<_>>() })
}
