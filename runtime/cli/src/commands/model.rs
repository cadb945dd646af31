//! `udo model`: what model files hold, and files made of others.

mod combine;
mod diff;
mod info;
mod layers;
mod macs;
mod plan;

use clap::{Args, Subcommand};

use super::Run;
use crate::output::Outcome;

/// Inspect, compare, combine and split model files
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo model info model.udm                    networks, stages, and a table of nodes
  udo model plan model.udm                    memory that the model needs
  udo model combine a.udm b.udm -o both.udm   networks of different names, or stages of one network")]
pub(crate) struct ModelFile {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Info(info::Info),
    Plan(Box<plan::Plan>),
    Combine(combine::Combine),
    Extract(combine::Extract),
    Diff(diff::Diff),
}

impl Run for ModelFile {
    fn run(self) -> Outcome {
        match self.what {
            What::Info(info) => info.run(),
            What::Plan(plan) => plan.run(),
            What::Combine(combine) => combine.run(),
            What::Extract(extract) => extract.run(),
            What::Diff(diff) => diff.run(),
        }
    }
}
