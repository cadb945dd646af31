//! `udo demo`

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use udo_api::{Core, DType, Shape, TensorDesc};
use udo_graph::{export, memory};
use udo_runtime::compile::PlaceOptions;
use udo_runtime::compile::RangeSource;
use udo_runtime::graph::{Attr, DimSpec, Graph, Node, Source, ValueId};
use udo_runtime::run::StepProfile;
use udo_runtime::{CompileOptions, LoadOptions, Model, Runtime, Session, Tensor};

use super::Run;
use crate::failures::{compile_failure, load_failure, run_failure};
use crate::output::Column::{Left, Right};
use crate::output::{Failure, Outcome, print_json, table};
use crate::package_flags::PackageFlags;
use crate::root::{self, By, Found};
use crate::tensors::TensorFormat;
use crate::values::{self, Tolerance};

/// Build a sample package and run its operator on three cores
///
/// Generates the Softmax package from a bundled config, adds a reference implementation, and builds
/// and loads the package. Then a small image network that ends in the package's operator runs on
/// the CPU, on the GPU, and on the DSP, for which it is quantized at load time. The last column is
/// the largest difference of each operator's output from the CPU's, relative to the output's
/// largest value.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo demo
  udo demo /tmp/demo --json")]
pub(crate) struct Demo {
    /// Folder for the package
    ///
    /// [default: target/demo in the SDK that contains udo, or else udo-demo]
    dir: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// A file of the demonstration: where it goes, and what is in it.
type Bundled = (&'static str, &'static [u8]);

macro_rules! bundled {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../../../../examples/softmax/", $name)))),*]
    };
}

const CONFIG: &str = "Softmax_Htp.json";
const PACKAGE: &str = "SoftmaxUdoPackage";

const INPUTS: &[Bundled] = bundled!("Softmax_Htp.json");

/// Where the network and its picture go.
const MODEL: &str = "model/model.onnx";
const IMAGE: &str = "model/image.npy";

/// The code that an author would write into the generated package.
const BODIES: &[Bundled] = bundled!(
    "SoftmaxUdoPackage/CPU/src/ops/softmax.rs",
    "SoftmaxUdoPackage/GPU/src/ops/softmax.rs",
    "SoftmaxUdoPackage/GPU/kernels/softmax.cl",
    "SoftmaxUdoPackage/DSP_V68/src/ops/softmax.rs",
);

/// The cores to show, and how far their results may be from the CPU's, relative to the largest: the DSP stores 8 bits of each.
const STAGES: &[(Core, f64)] = &[(Core::CPU, 1e-5), (Core::GPU, 1e-5), (Core::DSP_V68, 0.08)];

/// One line of the table.
struct Row {
    core: Core,
    op: String,
    name: String,
    source: String,
    time: Duration,
    heap_calls: u64,
    difference: f64,
}

/// One run of the model.
struct Stage {
    core: Core,
    backend: Option<String>,
    rows: Vec<Row>,
    /// How far the model's output is from ONNX Runtime's.
    from_recorded: f64,
    allowed: f64,
    /// The notices of the report, such as changes made to the model for the core.
    notices: Vec<String>,
}

impl Run for Demo {
    fn run(self) -> Outcome {
        let dir = match &self.dir {
            Some(dir) => dir.clone(),
            None => own_folder()?,
        };
        let say = |text: &str| {
            if !self.json {
                outln!("{text}");
            }
        };
        say(&format!("[1/5] writing a config, a model and an image to {}", dir.display()));
        write_all(&dir, INPUTS)?;
        let (graph, image) = (network()?, picture()?);
        write_all(&dir, &[(MODEL, &export::to_onnx(&graph)?)])?;
        TensorFormat::Npy.write(&dir.join(IMAGE), &image, None)?;
        say(&format!("[2/5] udo new -p {CONFIG} -o .   generates the package"));
        self.udo(&["new", "-p", path(&dir.join(CONFIG))?, "-o", path(&dir)?])?;
        say("[3/5] adding the reference implementation to its operator files");
        write_all(&dir, BODIES)?;
        let package = dir.join(PACKAGE);
        say(&format!("[4/5] udo build {PACKAGE}   compiles a library for each core"));
        let built = self.udo(&["build", path(&package)?])?;
        say("[5/5] running the model, with the package's Softmax, on each core");
        let stages = run_stages(&dir.join(MODEL), &package, &graph, &image)?;
        if self.json {
            print_json(&json!({
                "folder": dir.to_string_lossy(), "opencl": built["opencl"], "opencl_sources": built["opencl_sources"],
                "stages": stages.iter().map(stage_json).collect::<Vec<_>>(),
            }));
        } else {
            stages.iter().for_each(show);
            let (package, dir) = (package.display(), dir.display());
            outln!("\nThe package is in {package}. To run the model yourself:");
            outln!(
                "  udo run {dir}/{MODEL} --package {package} --cores dsp --input image={dir}/{IMAGE}"
            );
        }
        verdict(&stages)
    }
}

/// Where it all goes if nobody says: into the SDK that this program lies in, else into the folder at hand.
fn own_folder() -> Result<PathBuf, Failure> {
    let Found { dir, by } = root::look()?;
    Ok(if by == By::Built { "udo-demo".into() } else { dir.join("target/demo") })
}

fn path(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| Failure::new(format!("path {} is not valid UTF-8", path.display())))
}

impl Demo {
    /// Runs another command of this program. Where this one prints JSON, so does that one, which is returned.
    fn udo(&self, args: &[&str]) -> Result<Value, Failure> {
        let program = std::env::current_exe()?;
        let mut command = std::process::Command::new(program);
        command.args(args);
        if !self.json {
            let done = command.status()?.success();
            return if done { Ok(Value::Null) } else { Err(Failure::told()) };
        }
        let output = command.arg("--json").stderr(std::process::Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(Failure::told());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

fn write_all(dir: &Path, files: &[(&str, &[u8])]) -> Result<(), Failure> {
    for (name, contents) in files {
        let file = dir.join(name);
        let failed = |e| Failure::new(format!("cannot write {}: {e}", file.display()));
        fs::create_dir_all(file.parent().unwrap_or(dir)).map_err(failed)?;
        fs::write(&file, contents).map_err(failed)?;
    }
    Ok(())
}

fn run_stages(
    file: &Path,
    package: &Path,
    graph: &Graph,
    image: &Tensor,
) -> Result<Vec<Stage>, Failure> {
    let runtime = PackageFlags::one(package).open()?;
    let mut reference: Vec<(String, Vec<f64>)> = Vec::new();
    let mut stages = Vec::new();
    for &(core, allowed) in STAGES {
        let runner = Runner { runtime: &runtime, file, image, core };
        let (model, profile, outputs) = runner.run(graph.clone())?;
        let (_, _, values) = runner.run(with_all_outputs(graph.clone()))?;
        if reference.is_empty() {
            reference.clone_from(&values);
        }
        let found = outputs.first().map(|(_, numbers)| numbers.as_slice()).unwrap_or_default();
        stages.push(Stage {
            core,
            backend: model
                .report()
                .nodes
                .iter()
                .filter(|n| n.core == core)
                .find_map(|n| n.backend.clone()),
            rows: rows(&model, &profile, graph, &values, &reference),
            from_recorded: distance(found, &RECORDED.map(f64::from)),
            allowed,
            notices: model.report().notices.clone(),
        });
    }
    Ok(stages)
}

/// Runs one graph on one core, and nothing of it elsewhere.
struct Runner<'a> {
    runtime: &'a Runtime,
    file: &'a Path,
    image: &'a Tensor,
    core: Core,
}

type Outputs = Vec<(String, Vec<f64>)>;

impl Runner<'_> {
    fn run(&self, graph: Graph) -> Result<(Model, Vec<StepProfile>, Outputs), Failure> {
        let place = PlaceOptions { cores: vec![self.core], ..PlaceOptions::default() };
        let set = vec![(INPUT.to_owned(), self.image.clone())];
        let range_source = RangeSource::Inputs(Arc::new(vec![set]));
        let options = CompileOptions { place, range_source, ..CompileOptions::default() };
        let compiled = self.runtime.load(graph, &LoadOptions::from(options.clone()));
        let model = compiled.map_err(|error| load_failure(error, self.file, self.runtime))?;
        let session = model.session();
        let mut session = session
            .map_err(|error| compile_failure(error, model.budget().refused_by(), self.runtime))?;
        session.set_input(INPUT, self.image)?;
        let mut profile = vec![StepProfile::default(); model.report().steps.len()];
        // Twice: the first run warms caches, and the second is shown.
        for _ in 0..2 {
            session
                .run_profiled(&mut profile)
                .map_err(|error| run_failure(error, &model, self.runtime))?;
        }
        let outputs = outputs(&model, &session)?;
        Ok((model, profile, outputs))
    }
}

fn outputs(model: &Model, session: &Session) -> Result<Outputs, Failure> {
    let numbers =
        |name: &String| Ok((name.clone(), values::numbers(&session.output_tensor(name)?)));
    model.outputs().iter().map(numbers).collect()
}

/// The same graph with every value that a node makes as an output.
fn with_all_outputs(mut graph: Graph) -> Graph {
    let computed =
        |id: &ValueId| graph.value(*id).is_ok_and(|v| matches!(v.source, Source::Computed));
    graph.outputs = graph.value_ids().filter(computed).collect();
    graph
}

/// Returns a row for each step that computes a node. An activation that is fused into its producer has no row.
fn rows(
    model: &Model,
    profile: &[StepProfile],
    graph: &Graph,
    values: &Outputs,
    reference: &Outputs,
) -> Vec<Row> {
    let value_of = |node: &str| {
        let id = graph.nodes.iter().find(|n| n.name == node)?.output(0)?;
        Some(graph.value(id).ok()?.name.clone())
    };
    let numbers =
        |from: &Outputs, name: &str| from.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
    let steps =
        model.report().steps.iter().zip(profile).filter(|(step, _)| !step.package.is_empty());
    steps
        .map(|(step, took)| {
            let value = value_of(&step.name).unwrap_or_default();
            let found = numbers(values, &value).unwrap_or_default();
            let wanted = numbers(reference, &value).unwrap_or_default();
            Row {
                core: step.core,
                op: step.op.clone(),
                name: step.name.clone(),
                source: if step.package == "builtin" {
                    "built in".to_owned()
                } else {
                    step.package.clone()
                },
                time: took.time,
                heap_calls: took.heap_calls,
                difference: distance(&found, &wanted),
            }
        })
        .collect()
}

/// The largest difference, relative to the largest number that is wanted; infinite where one side is missing.
fn distance(found: &[f64], wanted: &[f64]) -> f64 {
    if found.len() != wanted.len() || found.is_empty() {
        return f64::INFINITY;
    }
    let difference = values::compare(found, wanted, Tolerance { rtol: 0.0, atol: 0.0 });
    difference.max_abs / difference.largest.max(f64::MIN_POSITIVE)
}

fn show(stage: &Stage) {
    let backend = stage.backend.as_ref().map_or(String::new(), |b| format!(" ({b})"));
    outln!("\non {}{backend}:", stage.core);
    stage.notices.iter().for_each(|notice| outln!("  {notice}"));
    let rows = stage.rows.iter().map(|row| {
        [
            row.core.to_string(),
            row.op.clone(),
            row.name.clone(),
            row.source.clone(),
            format!("{:.2}", row.time.as_secs_f64() * 1e6),
            row.heap_calls.to_string(),
            format!("{:.3e}", row.difference),
        ]
    });
    let columns = [
        Left("core"),
        Left("op"),
        Left("node"),
        Left("source"),
        Right("time us"),
        Right("heap calls"),
        Right("error vs CPU"),
    ];
    outln!("{}", table(columns, rows.collect()));
    outln!(
        "  output: error {:.3e} vs ONNX Runtime, allowed {:.3e}",
        stage.from_recorded,
        stage.allowed
    );
}

fn stage_json(stage: &Stage) -> Value {
    let rows: Vec<Value> = stage
        .rows
        .iter()
        .map(|row| {
            json!({
                "core": row.core.to_string(), "op": row.op, "node": row.name, "source": row.source,
                "us": row.time.as_secs_f64() * 1e6, "heap_calls": row.heap_calls, "max_diff": row.difference,
            })
        })
        .collect();
    json!({
        "core": stage.core.to_string(), "backend": stage.backend, "rows": rows,
        "from_recorded": stage.from_recorded, "allowed": stage.allowed, "notices": stage.notices,
    })
}

fn verdict(stages: &[Stage]) -> Outcome {
    for stage in stages {
        if let Some(row) = stage.rows.iter().find(|r| r.heap_calls > 0) {
            return Err(Failure::new(format!(
                "{} used the heap {} times on {}",
                row.op, row.heap_calls, row.core
            )));
        }
        if let Some(row) = stage.rows.iter().find(|r| r.core != stage.core) {
            let (name, op, core) = (&row.name, &row.op, stage.core);
            let text = format!("node {name:?} ({op}) ran on {}, expected {core}", row.core);
            return Err(Failure::new(text));
        }
        if !stage.rows.iter().any(|row| row.source == PACKAGE) {
            let text = format!("the package's operator did not run on {}", stage.core);
            return Err(Failure::new(text));
        }
        let worst = stage.rows.iter().map(|r| r.difference).fold(stage.from_recorded, f64::max);
        if worst > stage.allowed {
            return Err(Failure::new(format!(
                "results on {} are {worst:.3e} away, allowed {:.3e}",
                stage.core, stage.allowed
            )));
        }
    }
    Ok(())
}

// The network of the demonstration: small, with layers of each kind that networks for images have, and weights from a seed.

/// The operator set of its nodes.
const OPSET: u32 = 17;

/// The seed of the picture.
const PICTURE: u64 = 1;

/// The seed of the first weights.
const WEIGHTS: u64 = 100;

/// The name of the network's input.
const INPUT: &str = "image";

/// The dimensions of a picture.
const DIMS: [usize; 4] = [1, 3, 32, 32];

/// ONNX Runtime's output for the picture: the probabilities of ten classes.
const RECORDED: [f32; 10] = [
    0.297_517,
    0.012_932_191,
    0.000_208_679_48,
    0.330_357_85,
    0.230_163_71,
    0.001_851_044_7,
    0.000_044_150_725,
    0.032_005_794,
    0.000_485_297_8,
    0.094_434_276,
];

/// A picture of pseudo-random numbers from -1 to 1.
fn picture() -> Result<Tensor, Failure> {
    random(&DIMS, PICTURE)
}

fn random(dims: &[usize], seed: u64) -> Result<Tensor, Failure> {
    let desc = TensorDesc::new(DType::F32, Shape::new(dims)?);
    memory::random(&desc, seed)?.ok_or_else(|| Failure::new("numbers cannot be made up"))
}

/// A network that grows node by node.
struct Net {
    graph: Graph,
    seed: u64,
}

/// Convolutions, a fire module as `SqueezeNet` has it, a depthwise and a pointwise convolution around a residual as `MobileNet` v2
/// has them, and shares of the classes, which the package's operator computes.
fn network() -> Result<Graph, Failure> {
    let mut net = Net { graph: Graph::new("demo"), seed: WEIGHTS };
    let image = net.graph.add_input(INPUT, DType::F32, DIMS.map(DimSpec::Fixed));
    let first = net.convolution("first", image, [16, 3, 3], 1)?;
    let first = net.node("first_relu", "Relu", &[first], &[]);
    let half = net.pool("first_pool", first);
    let squeezed = net.convolution("squeeze", half, [8, 16, 1], 1)?;
    let squeezed = net.node("squeeze_relu", "Relu", &[squeezed], &[]);
    let near = net.convolution("expand_1x1", squeezed, [16, 8, 1], 1)?;
    let near = net.node("expand_1x1_relu", "Relu", &[near], &[]);
    let wide = net.convolution("expand_3x3", squeezed, [16, 8, 3], 1)?;
    let wide = net.node("expand_3x3_relu", "Relu", &[wide], &[]);
    let fire = net.node("expand", "Concat", &[near, wide], &[("axis", Attr::Int(1))]);
    let quarter = net.pool("second_pool", fire);
    let depth = net.convolution("depthwise", quarter, [32, 1, 3], 32)?;
    let depth = net.node("depthwise_relu", "Relu", &[depth], &[]);
    let point = net.convolution("pointwise", depth, [32, 32, 1], 1)?;
    let sum = net.node("residual", "Add", &[point, quarter], &[]);
    let mean = net.node("mean", "GlobalAveragePool", &[sum], &[]);
    let row = net.node("row", "Flatten", &[mean], &[]);
    let (weights, bias) = (net.weights("classes", &[10, 32], 32)?, net.bias("classes", 10)?);
    let scores = net.node("classes", "Gemm", &[row, weights, bias], &[("transB", Attr::Int(1))]);
    // The config declares no attributes, so Softmax works along the last axis.
    let shares = net.node("probabilities", "Softmax", &[scores], &[]);
    net.graph.outputs.push(shares);
    Ok(net.graph)
}

impl Net {
    fn node(
        &mut self,
        name: &str,
        op: &str,
        inputs: &[ValueId],
        attrs: &[(&str, Attr)],
    ) -> ValueId {
        let output = self.graph.add_value(name);
        let attrs = attrs.iter().map(|(name, attr)| ((*name).to_owned(), attr.clone())).collect();
        let name = name.to_owned();
        self.graph.nodes.push(Node { name, attrs, ..Node::new(op, OPSET, inputs, &[output]) });
        output
    }

    /// Numbers whose products with as many operands are about as large as those are.
    fn weights(&mut self, of: &str, dims: &[usize], operands: u16) -> Result<ValueId, Failure> {
        self.scaled(&format!("{of}_w"), dims, (6.0 / f32::from(operands)).sqrt())
    }

    fn bias(&mut self, of: &str, len: usize) -> Result<ValueId, Failure> {
        self.scaled(&format!("{of}_b"), &[len], 0.2)
    }

    fn scaled(&mut self, name: &str, dims: &[usize], scale: f32) -> Result<ValueId, Failure> {
        self.seed += 1;
        let random = random(dims, self.seed)?;
        let numbers = random.get::<f32>().unwrap_or_default();
        let numbers: Vec<f32> = numbers.iter().map(|number| number * scale).collect();
        Ok(self.graph.add_constant(name, Tensor::from_slice(Shape::new(dims)?, &numbers)?))
    }

    /// A convolution to `results` channels, of `channels` in each group, with a square kernel.
    fn convolution(
        &mut self,
        name: &str,
        input: ValueId,
        [results, channels, side]: [u16; 3],
        groups: i64,
    ) -> Result<ValueId, Failure> {
        let dims = [results, channels, side, side].map(usize::from);
        let weights = self.weights(name, &dims, channels * side * side)?;
        let bias = self.bias(name, usize::from(results))?;
        let edge = i64::from(side / 2);
        let attrs = [("group", Attr::Int(groups)), ("pads", Attr::Ints(vec![edge; 4]))];
        Ok(self.node(name, "Conv", &[input, weights, bias], &attrs))
    }

    /// The largest of each two by two numbers.
    fn pool(&mut self, name: &str, input: ValueId) -> ValueId {
        let attrs = [("kernel_shape", Attr::Ints(vec![2; 2])), ("strides", Attr::Ints(vec![2; 2]))];
        self.node(name, "MaxPool", &[input], &attrs)
    }
}
