//! `udo model combine` and `udo model extract`

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use udo_graph::container::{Contents, Network};

use crate::failures::container_failure;
use crate::model_flags::open_container;
use crate::output::{Failure, Outcome, print_json};

/// Combine several model files into one
///
/// Networks with different names are stored next to each other. Networks with the same name become
/// one network with the stages of both. Their inputs and outputs must be the same except for
/// shapes, and each stage must have its own shapes. Equal weights are stored once.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo model combine encoder.udm decoder.udm -o both.udm
  udo model combine small.udm large.udm -o both.udm   two stages, if the network has the same name")]
pub(super) struct Combine {
    /// Model files to combine
    #[arg(value_name = "MODEL", required = true, num_args = 2..)]
    models: Vec<PathBuf>,
    /// Write this model file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Extract a network or a stage from a model file
///
/// If the file has several networks, --network is required.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo model extract both.udm --network encoder -o encoder.udm
  udo model extract both.udm --network encoder --stage 0 -o stage.udm")]
pub(super) struct Extract {
    /// Model file (.udm)
    model: PathBuf,
    /// Extract this network
    #[arg(long, value_name = "NAME")]
    network: Option<String>,
    /// Extract only this stage, counted from 0
    #[arg(long, value_name = "N")]
    stage: Option<usize>,
    /// Write this model file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl Combine {
    pub(super) fn run(self) -> Outcome {
        let mut all = Contents::default();
        for model in &self.models {
            let combined = all.combine(contents(model)?);
            combined.map_err(|error| container_failure(model, error))?;
        }
        write(&all, &self.output, self.json)
    }
}

impl Extract {
    pub(super) fn run(self) -> Outcome {
        let fail = |error| container_failure(&self.model, error);
        let container = open(&self.model)?;
        let network = container.network(self.network.as_deref()).map_err(fail)?.name.clone();
        let contents = container.contents().map_err(fail)?;
        let part = contents.extract(&network, self.stage).map_err(fail)?;
        write(&part, &self.output, self.json)
    }
}

fn open(model: &Path) -> Result<udo_graph::container::Container, Failure> {
    match open_container(model)? {
        Some(container) => Ok(container),
        None => Err(Failure::new(format!("{} is not a model file (.udm)", model.display()))
            .help("`udo convert` makes one of it")),
    }
}

fn contents(model: &Path) -> Result<Contents, Failure> {
    open(model)?.contents().map_err(|error| container_failure(model, error))
}

fn write(contents: &Contents, output: &Path, is_json: bool) -> Outcome {
    contents.write(output).map_err(|error| container_failure(output, error))?;
    let bytes = std::fs::metadata(output)?.len();
    if is_json {
        let network = |of: &Network| json!({ "name": of.name, "stages": of.stages.len() });
        let networks: Vec<Value> = contents.networks.iter().map(network).collect();
        print_json(
            &json!({ "output": output.to_string_lossy(), "bytes": bytes, "networks": networks }),
        );
        return Ok(());
    }
    let network = |of: &Network| format!("{} ({} stages)", of.name, of.stages.len());
    let networks: Vec<String> = contents.networks.iter().map(network).collect();
    outln!("{}: {}, {bytes} bytes", output.display(), networks.join(", "));
    Ok(())
}
