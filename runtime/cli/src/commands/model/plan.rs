//! `udo model plan`

use clap::Args;
use serde_json::{Value, json};
use udo_runtime::compile::CoreMemory;

use crate::model_flags::ModelFlags;
use crate::output::Column::{Left, Right};
use crate::output::{Outcome, print_json, table};
use crate::stages::load_with_shapes;

/// Show how much memory a model needs, without running it
///
/// Compiles the model, but creates no session. The sizes are those of `udo explain`.
///
/// Weights are the constants of the model and of the core, and their prepacked copies; all sessions
/// share them. Arenas, scratch and geometry (data that kernels derive from shapes) belong to each
/// session.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo model plan model.udm --cores dsp,cpu
  udo model plan model.onnx --dim batch=8 --json")]
pub(super) struct Plan {
    #[command(flatten)]
    model: ModelFlags,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl Plan {
    pub(super) fn run(self) -> Outcome {
        let loaded = load_with_shapes(&self.model)?;
        let memories = &loaded.model.report().memories;
        if self.json {
            let all: Vec<Value> = memories.iter().map(to_json).collect();
            print_json(&json!({ "model": self.model.model, "memories": all }));
            return Ok(());
        }
        let rows = memories.iter().map(|of| {
            let weights = of.constant_bytes + of.packed_bytes;
            let session = of.arena_bytes + of.scratch_bytes + of.geometry_bytes;
            let [weights, arena, scratch, geometry, session] =
                [weights, of.arena_bytes, of.scratch_bytes, of.geometry_bytes, session]
                    .map(|bytes| bytes.to_string());
            [of.memory.to_owned(), weights, arena, scratch, geometry, session]
        });
        let columns = [
            Left("bytes"),
            Right("weights"),
            Right("arena"),
            Right("scratch"),
            Right("geometry"),
            Right("per session"),
        ];
        outln!("{}", table(columns, rows.collect()));
        Ok(())
    }
}

fn to_json(of: &CoreMemory) -> Value {
    json!({
        "memory": of.memory, "weights_bytes": of.constant_bytes + of.packed_bytes,
        "arena_bytes": of.arena_bytes, "scratch_bytes": of.scratch_bytes, "geometry_bytes": of.geometry_bytes,
    })
}
