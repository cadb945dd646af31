//! `udo convert`

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use udo_compile::place;
use udo_generator::{Mode, Source};
use udo_graph::container::{self, Contents, Extent, Network, Provenance, Stage, StoredGraph};
use udo_graph::graph;
use udo_graph::image_input::{self, ImageInput, ImageInputError};
use udo_graph::import::{PackagedOp, Reading};
use udo_runtime::compile::Affinity;
use udo_runtime::compile::{BindOptions, MissingOp, ResolveError};
use udo_runtime::graph::ImportOptions;
use udo_runtime::graph::{DimSpec, Graph, ValueId};

use super::Run;
use crate::failures::{container_failure, load_failure};
use crate::output::{Failure, Outcome, print_json, warn};
use crate::package_flags::PackageFlags;
use udo_compile::resolve::needs_package;
use udo_graph::graph::{CutGraph, InPlace, values_named};

/// Convert an ONNX model to a model file (.udm)
///
/// A model file loads faster than an ONNX file. It contains networks, and each network has a stage
/// for each set of input shapes. It is a safetensors file: other tools can read its weights
/// (docs/model-format.md).
///
/// Each operator of the model must be built in, be implemented by a --package, or be described by a
/// --config. Missing operators of your own domains cause only a warning, because each run can
/// supply their package.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo convert model.onnx                              writes model.udm
  udo convert model.onnx --input-shape x=1..8,80      accepts batches of 1 to 8
  udo convert model.onnx --input-encoding x=nv21      accepts camera images in YUV")]
pub(crate) struct Convert {
    /// ONNX file or printed graph
    model: PathBuf,
    /// Write this model file [default: the model's name with .udm]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Set the network's name [default: the model's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Set the shape of an input
    ///
    /// SHAPE is a comma-separated list. Each dimension is a size, a range such as 1..8, a range
    /// with the most frequent size in the middle such as 1..4..8, or ? for any size. If the same
    /// input gets a second shape, that shape and the following ones form the next stage.
    ///
    /// Example: `--input-shape x=1..8,3,224,224`
    #[arg(long, value_name = "NAME=SHAPE", value_parser = parse_shape)]
    input_shape: Vec<(String, Vec<Extent>)>,
    /// Convert images of this format to the model's input
    ///
    /// FORMAT is the format of the images that runs supply: rgb, bgr, rgba, argb32, nv21 or nv12.
    /// The converted model begins with nodes that convert them to the channels that the model
    /// expects. The channels are RGB by default; for BGR write `x=nv21:bgr`.
    ///
    /// rgb and bgr have three channels. rgba has a fourth one, which is ignored. argb32 is a 32-bit
    /// little-endian word per pixel: in memory, the order is blue, green, red, alpha. nv21 and nv12
    /// have a plane of luma above rows of interleaved chroma (nv21: V, U; nv12: U, V) in JFIF's
    /// full range: for an input `f32[1,3,224,224]`, the image is `f32[1,1,336,224]`.
    ///
    /// For such an input, --input-shape is the shape that the original model expects.
    #[arg(long, value_name = "NAME=FORMAT", value_parser = parse_image)]
    input_encoding: Vec<ImageInput>,
    /// Make this node or value an output of the network
    ///
    /// The outputs given by this flag replace those of the model, and nodes that they do not need
    /// are removed. May be given several times.
    #[arg(long, value_name = "NAME")]
    out_node: Vec<String>,
    /// Let an input and an output share one tensor
    ///
    /// Both must have the same type and shape. Use this flag for a cache that each run reads and
    /// updates. May be given several times.
    ///
    /// Example: `--in-place past=present`
    #[arg(long, value_name = "INPUT=OUTPUT", value_parser = parse_pair)]
    in_place: Vec<(String, String)>,
    /// Run these nodes on this core, whatever --cores prefers
    ///
    /// NODES is a list of node ids such as 0-11,177, a node's name, an operator type, or `*` for
    /// all nodes. The setting is stored in the model file (docs/placement.md). May be given several
    /// times.
    #[arg(long, value_name = "NODES=CORE")]
    affinity: Vec<Affinity>,
    #[command(flatten)]
    packages: PackageFlags,
    /// Read descriptions of custom operators from this UDO config
    ///
    /// The libraries of these operators need not exist yet. May be given several times.
    #[arg(long = "config", value_name = "FILE")]
    configs: Vec<PathBuf>,
    /// Store prepacked weights for this machine's CPU, as `udo prepare` does
    #[arg(long, hide = true)]
    prepare: bool,
    /// List the missing operators and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    let pair =
        text.split_once('=').filter(|(input, output)| !input.is_empty() && !output.is_empty());
    let (input, output) = pair.ok_or("expected INPUT=OUTPUT, as past=present")?;
    Ok((input.to_owned(), output.to_owned()))
}

fn parse_image(text: &str) -> Result<ImageInput, String> {
    text.parse()
}

fn parse_shape(text: &str) -> Result<(String, Vec<Extent>), String> {
    let wanted = || "expected NAME=1,3,224,224, with 1..8 for a range and ? for any".to_owned();
    let (name, extents) = text.rsplit_once('=').ok_or_else(wanted)?;
    let extent = |text: &str| match text.split("..").collect::<Vec<_>>()[..] {
        ["?"] => Some(Extent::Any),
        [extent] => Some(Extent::Fixed(extent.parse().ok()?)),
        [min, max] => {
            Some(Extent::Range { min: min.parse().ok()?, opt: None, max: max.parse().ok()? })
        }
        [min, opt, max] => {
            let opt = Some(opt.parse().ok()?);
            Some(Extent::Range { min: min.parse().ok()?, opt, max: max.parse().ok()? })
        }
        _ => None,
    };
    // A number has no extents.
    let extents =
        extents.split(',').filter(|_| !extents.is_empty()).map(|text| extent(text.trim()));
    let extents = extents.collect::<Option<Vec<Extent>>>().ok_or_else(wanted)?;
    if name.is_empty() { Err(wanted()) } else { Ok((name.to_owned(), extents)) }
}

/// The shapes of one stage.
type Shapes = BTreeMap<String, Vec<Extent>>;

impl Run for Convert {
    fn run(self) -> Outcome {
        let runtime = self.packages.open()?;
        let declared = declared(&self.configs)?;
        // An input whose shape is said is one that runs give, even if the model has a default for it.
        let given = self.input_shape.iter().map(|(name, _)| name.clone()).collect();
        let options =
            ImportOptions { packaged: declared.clone(), given, ..ImportOptions::default() };
        let mut graph = runtime.import(&self.model, &options)?;
        let outputs = self.outputs(&graph)?;
        if !outputs.is_empty() {
            graph.cut_to(outputs)?;
        }
        graph.add_in_place(&self.in_place);
        graph.check_in_place()?;
        let first = self.stages().into_iter().next().unwrap_or_default();
        let (mut whole, _) = self.with_images(&graph, &first)?;
        place::pin(&mut whole, &self.affinity)?;
        graph.affinity.extend(self.affinity.iter().map(Affinity::to_string));
        let mut missing =
            udo_compile::resolve::missing(runtime.operators(), &graph, &BindOptions::default());
        // A package that is known has it, or a run may bind it to one.
        missing.retain(|op| {
            op.packages.is_empty() && !declared.iter().any(|known| known.name == op.op)
        });
        if self.dry_run {
            return self.say_missing(missing);
        }
        // A domain of somebody's own says that a package has the operator. A run has to name it, converting need not.
        let ops = runtime.operators().ops();
        let has_domain = |domain: &str| ops.iter().any(|of| of.def.schema().domain() == domain);
        let is_of_another =
            |op: &MissingOp| needs_package(op) && !op.domain.is_empty() && !has_domain(&op.domain);
        if missing.iter().all(is_of_another) {
            left_to_packages(&missing);
        } else {
            refuse(missing)?;
        }
        let mut contents = self.contents(&graph)?;
        if self.prepare {
            let prepared = runtime.prepare(&contents);
            let failure = |error| load_failure(error, &self.model, &runtime);
            contents.sections.push(prepared.map_err(failure)?);
        }
        let output = self.output.clone().unwrap_or_else(|| self.model.with_extension("udm"));
        let written = contents.write(&output);
        written.map_err(|error| container_failure(&output, error))?;
        self.say(&output, &contents)
    }
}

impl Convert {
    /// The stages that `--input-shape` asks for: the second shape of an input begins the next one.
    fn stages(&self) -> Vec<Shapes> {
        let mut stages = vec![Shapes::new()];
        for (name, extents) in &self.input_shape {
            if stages.last().is_some_and(|stage| stage.contains_key(name)) {
                stages.push(Shapes::new());
            }
            if let Some(stage) = stages.last_mut() {
                stage.insert(name.clone(), extents.clone());
            }
        }
        stages
    }

    /// The graph of one stage, with the nodes that `--input-encoding` asks for, and the stage's shapes with the images' own.
    fn with_images(&self, graph: &Graph, shapes: &Shapes) -> Result<(Graph, Shapes), Failure> {
        let (mut graph, mut shapes) = (graph.clone(), shapes.clone());
        for image in &self.input_encoding {
            if let Some(extents) = shapes.get_mut(&image.name) {
                fix_image_extents(&mut graph, &image.name, extents);
                *extents = image_extents(extents, image).unwrap_or_else(|| extents.clone());
            }
            image_input::convert_input(&mut graph, image).map_err(image_failure)?;
        }
        Ok((graph, shapes))
    }

    fn contents(&self, graph: &Graph) -> Result<Contents, Failure> {
        let stages = self.stages();
        let with_images = stages.iter().map(|shapes| self.with_images(graph, shapes));
        let with_images = with_images.collect::<Result<Vec<_>, _>>()?;
        let stages: Vec<Shapes> = with_images.iter().map(|(_, shapes)| shapes.clone()).collect();
        let bytes = Reading::Mapped.bytes(&self.model)?;
        let file = self.model.file_name().unwrap_or_default().to_string_lossy();
        let tool = format!("udo {}", udo_api::SDK_VERSION);
        let source = Provenance::new(&file, &bytes, &tool, self.flags());
        let stage = |(mut graph, shapes): (Graph, Shapes)| {
            // Images of other extents have other constants in their graph.
            let own = std::slice::from_ref(&shapes);
            let all = if self.input_encoding.is_empty() { &stages } else { own };
            let ready = container::ready(&mut graph, all);
            ready.map_err(|error| container_failure(&self.model, error))?;
            Ok::<_, Failure>(Stage {
                shapes,
                source: source.clone(),
                graph: StoredGraph::new(graph),
            })
        };
        let stages = with_images.into_iter().map(stage).collect::<Result<_, _>>()?;
        let stem = || self.model.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = self.name.clone().unwrap_or_else(stem);
        Ok(Contents { networks: vec![Network { name, stages }], sections: Vec::new() })
    }

    /// Returns the flags that determine the contents of the file, for its provenance.
    fn flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        for (name, extents) in &self.input_shape {
            let extents: Vec<String> = extents.iter().map(Extent::to_string).collect();
            flags.push(format!("--input-shape {name}={}", extents.join(",")));
        }
        flags.extend(self.input_encoding.iter().map(|image| format!("--input-encoding {image}")));
        flags.extend(self.out_node.iter().map(|name| format!("--out-node {name}")));
        let pairs = self.in_place.iter();
        flags.extend(pairs.map(|(input, output)| format!("--in-place {input}={output}")));
        flags.extend(self.affinity.iter().map(|of| format!("--affinity {of}")));
        let paths = |flag: &'static str, paths: &[PathBuf]| {
            let name = |path: &PathBuf| path.file_name().map(|name| name.display().to_string());
            let names: Vec<String> = paths.iter().filter_map(name).collect();
            names.into_iter().map(move |name| format!("{flag} {name}"))
        };
        flags.extend(paths("--package", &self.packages.paths));
        flags.extend(paths("--contain", &self.packages.contained));
        flags.extend(self.packages.contain_unsigned.then(|| "--contain-unsigned".to_owned()));
        flags.extend(paths("--config", &self.configs));
        flags
    }

    /// The values that `--out-node` names.
    fn outputs(&self, graph: &Graph) -> Result<Vec<ValueId>, Failure> {
        let mut outputs = Vec::new();
        for name in &self.out_node {
            outputs.extend(values_named(graph, name).ok_or_else(|| {
                let text = format!("the model has no value and no node called {name:?}");
                Failure::new(text).help("`udo model info MODEL` lists the nodes and what they make")
            })?);
        }
        let mut seen = HashSet::new();
        outputs.retain(|output| seen.insert(*output));
        Ok(outputs)
    }

    fn say_missing(&self, missing: Vec<MissingOp>) -> Outcome {
        let passed = missing.is_empty();
        if self.json {
            let missing = missing.iter().map(|op| {
                json!({ "op": op.op, "domain": op.domain, "count": op.count, "node": op.node })
            });
            print_json(&json!({ "passed": passed, "missing": missing.collect::<Vec<Value>>() }));
            return if passed { Ok(()) } else { Err(Failure::told()) };
        }
        if passed {
            outln!("{}: no operators are missing", self.model.display());
        }
        refuse(missing)
    }

    fn say(&self, output: &Path, contents: &Contents) -> Outcome {
        let bytes = std::fs::metadata(output)?.len();
        let stages: Vec<&Stage> = contents.networks.iter().flat_map(|of| &of.stages).collect();
        let nodes = stages.first().map_or(0, |stage| stage.graph.ids.len());
        let names: Vec<&str> = contents.networks.iter().map(|of| of.name.as_str()).collect();
        if self.json {
            print_json(&json!({
                "output": output.to_string_lossy(), "bytes": bytes, "networks": names, "stages": stages.len(), "nodes": nodes,
            }));
            return Ok(());
        }
        let output = output.display();
        let (names, count) = (names.join(", "), stages.len());
        outln!("{output}: network {names}, {count} stages, {nodes} nodes, {bytes} bytes");
        Ok(())
    }
}

/// Names the operators for which a run needs packages.
fn left_to_packages(ops: &[MissingOp]) {
    if ops.is_empty() {
        return;
    }
    let name = |MissingOp { domain, op, count, .. }: &MissingOp| {
        format!("{domain}:{op} ({count} node{})", if *count == 1 { "" } else { "s" })
    };
    let names: Vec<String> = ops.iter().map(name).collect();
    let names = names.join(", ");
    warn(
        format_args!(
            "the file needs packages with these operators, which were not checked: {names}"
        ),
        "pass their packages with --package, here to check them, and in each run",
    );
}

/// Refuses a model some of whose operators nobody has.
fn refuse(all: Vec<MissingOp>) -> Outcome {
    if all.is_empty() {
        return Ok(());
    }
    let of_package = all.iter().find(|op| needs_package(op)).map(|op| op.op.clone());
    let failure = Failure::new(ResolveError::MissingOps { all });
    Err(match of_package {
        Some(op) => failure.help(format!(
            "pass the package that has it with --package, or the config that describes {op:?} with --config"
        )),
        None => failure,
    })
}

/// The operators that configs describe.
fn declared(configs: &[PathBuf]) -> Result<Vec<PackagedOp>, Failure> {
    if configs.is_empty() {
        return Ok(Vec::new());
    }
    let mut texts = Vec::new();
    for path in configs {
        let text = udo_files::read_to_string(path, udo_files::TEXT_BYTES);
        texts.push(text.map_err(|error| {
            Failure::new(format!("cannot read config {}: {error}", path.display()))
        })?);
    }
    let sources = configs.iter().zip(&texts).map(|(path, text)| Source { path, text });
    let sources: Vec<Source<'_>> = sources.collect();
    let read = udo_generator::read(&sources, Mode::Compat);
    let (config, _) = read.map_err(|error| Failure::report(error.to_string()))?;
    let ops = config.packages.iter().flat_map(|package| {
        let own = package.domain.as_ref().unwrap_or(&package.name);
        let domains = [own.as_str(), &package.name, ""];
        let all = package.ops.iter().flat_map(move |op| domains.map(|domain| (op, domain)));
        all.map(|(op, domain)| {
            let domain = if domain == "ai.onnx" { "" } else { domain };
            PackagedOp { name: op.name.clone(), domain: Some(domain.to_owned()) }
        })
    });
    Ok(ops.collect())
}

/// Why an input takes no images of a format, and what to do.
fn image_failure(error: ImageInputError) -> Failure {
    let help = match &error {
        ImageInputError::OddExtents { name, .. } => format!(
            "give the image's shape as the model takes it: --input-shape {name}=1,3,224,224"
        ),
        _ => "`udo model info MODEL` lists the inputs and their types".to_owned(),
    };
    Failure::new(error).help(help)
}

/// States the extents of an input that are fixed.
fn fix_image_extents(graph: &mut Graph, name: &str, extents: &[Extent]) {
    let Some(&input) =
        graph.inputs.iter().find(|&&id| graph.value(id).is_ok_and(|v| v.name == name))
    else {
        return;
    };
    let Some(graph::Source::Input(of)) =
        graph.values.get_mut(input.index()).map(|value| &mut value.source)
    else {
        return;
    };
    if of.dims.len() == extents.len() {
        for (dim, extent) in of.dims.iter_mut().zip(extents) {
            if let (DimSpec::Named(_) | DimSpec::Unknown, &Extent::Fixed(extent)) = (&*dim, extent)
            {
                *dim = DimSpec::Fixed(extent);
            }
        }
    }
}

/// The shape of an image in its format.
fn image_extents(extents: &[Extent], image: &ImageInput) -> Option<Vec<Extent>> {
    let dim = |extent: &Extent| match extent {
        Extent::Fixed(extent) => DimSpec::Fixed(*extent),
        Extent::Range { .. } | Extent::Any => DimSpec::Unknown,
    };
    let dims: Vec<DimSpec> = extents.iter().map(dim).collect();
    let encoded = image_input::encoded_shape(&dims, image.from)?;
    let extent = |(dim, extent): (&DimSpec, &Extent)| match dim {
        DimSpec::Fixed(fixed) => Extent::Fixed(*fixed),
        DimSpec::Named(_) | DimSpec::Unknown => *extent,
    };
    Some(encoded.iter().zip(extents).map(extent).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_extents_ranges_or_anything() {
        let (name, extents) = parse_shape("a=b=1,1..8,1..4..8,?").unwrap();
        let ranges = [None, Some(4)].map(|opt| Extent::Range { min: 1, opt, max: 8 });
        assert_eq!(name, "a=b");
        assert_eq!(extents, [Extent::Fixed(1), ranges[0], ranges[1], Extent::Any]);
        assert_eq!(parse_shape("x=").unwrap().1, []);
        assert_eq!(parse_pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        for wrong in ["", "a", "a=", "=b"] {
            assert!(parse_pair(wrong).unwrap_err().starts_with("expected INPUT=OUTPUT"), "{wrong}");
        }
        for wrong in ["x", "=1", "x=1,", "x=-1", "x=1..", "x=1..2..3..4", "x=a"] {
            assert!(parse_shape(wrong).unwrap_err().starts_with("expected NAME="), "{wrong}");
        }
    }
}
