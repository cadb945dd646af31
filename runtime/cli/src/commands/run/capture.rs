//! Captures the call of a kernel that fails, uses the heap, ends its process, or computes NaN from inputs without
//! NaN.

use std::path::Path;

use udo_api::{DType, Status, TensorDesc};
use udo_check::{BUILTIN, Capture, CapturedInput, CapturedOutput};
use udo_compile::resolve::Params;
use udo_runtime::compile::NodeReport;
use udo_runtime::graph::{Graph, Node, Source, ValueId};
use udo_runtime::run::StepError;
use udo_runtime::{Session, Tensor};

use crate::loaded::Loaded;
use crate::output::note;

/// A run that is over, and what there is to know of its model.
pub(super) struct Over<'a> {
    pub(super) graph: &'a Graph,
    pub(super) loaded: &'a Loaded,
    pub(super) session: &'a Session,
    /// The tensors of the model's inputs, in order.
    pub(super) inputs: &'a [Tensor],
    /// Why it failed, where a kernel did.
    pub(super) failed: Option<&'a StepError>,
}

impl Over<'_> {
    /// Writes what went wrong into the folder, and says so.
    pub(super) fn capture_into(&self, folder: &Path) {
        let said = match self.failed {
            Some(step) => Some((&*step.node, self.failure(step))),
            None => self.first_nan(),
        };
        let Some((node, capture)) = said else { return };
        let written = capture.and_then(|capture| {
            capture.write_into(folder).map_err(|error| crate::output::chain(&error))
        });
        match written {
            Ok(path) => {
                let command = udo_check::replay_command(&path, &[]);
                note(format!("captured the call of node {node:?}: {command}"));
            }
            Err(why) => note(format!("could not capture the call of node {node:?}: {why}")),
        }
    }

    fn failure(&self, step: &StepError) -> Result<Capture, String> {
        let case = match step.error.status {
            Status::HEAP_USE => "run/heap",
            Status::WORKER => "run/crash",
            _ => "run/status",
        };
        let node = self.graph.nodes.iter().find(|node| node.name == *step.node);
        let node = node.ok_or("the node is not in the original model")?;
        let why = format!("{} on {} {}", step.op, step.core, step.reason);
        let of = (case, why, step.core.to_string(), &*step.package);
        self.of_node(node, of)
    }

    /// Returns the first node that computes NaN from inputs without NaN.
    fn first_nan(&self) -> Option<(&str, Result<Capture, String>)> {
        let has_nan = |id: &ValueId| self.tensor(*id).is_ok_and(|(tensor, ..)| holds_nan(&tensor));
        let made = |node: &&Node| node.outputs.iter().flatten().any(has_nan);
        let node = self.graph.nodes.iter().find(made)?;
        if node.inputs.iter().flatten().any(has_nan) {
            return None;
        }
        let report = self
            .session
            .plans()
            .next()
            .and_then(|plan| plan.report().nodes.iter().find(|own| own.name == node.name));
        let why = format!("{} returns NaN for inputs without NaN", node.op);
        let capture = match report {
            Some(NodeReport { core, package, .. }) => {
                self.of_node(node, ("run/nan", why, core.to_string(), package))
            }
            None => Err("the node is not in the plan".to_owned()),
        };
        Some((&node.name, capture))
    }

    fn of_node(
        &self,
        node: &Node,
        (case, why, core, package): (&str, String, String, &str),
    ) -> Result<Capture, String> {
        let operators = self.loaded.runtime.operators();
        let package = operators.packages().find(|own| own.name == package);
        let package = package.ok_or("its package is not open")?;
        let is_own = |entry: &&udo_engine::operators::OpEntry| entry.package == package.id;
        let entry = operators.ops_named(&node.op).find(is_own);
        let schema = entry.ok_or("its package no longer provides the operator")?.def.schema();
        let params = Params::from_node(node, schema)?;
        let mut inputs = Vec::new();
        for id in &node.inputs {
            let Some(id) = id else {
                let desc = TensorDesc::ABSENT;
                let (dims, bytes) = (Vec::new(), Vec::new());
                inputs.push(CapturedInput { desc, dims, is_constant: false, bytes });
                continue;
            };
            let (tensor, desc, is_constant) = self.tensor(*id)?;
            let (dims, bytes) = (tensor.dims().to_vec(), tensor.bytes().to_vec());
            inputs.push(CapturedInput { desc, dims, is_constant, bytes });
        }
        let outputs = node.outputs.iter().map(|id| {
            let made = id.and_then(|id| self.tensor(id).ok());
            let found = made.as_ref().filter(|_| self.failed.is_none());
            let found = found.map(|(tensor, ..)| (tensor.dims().to_vec(), tensor.bytes().to_vec()));
            let desc = made.map_or(TensorDesc::ABSENT, |(_, desc, _)| desc);
            CapturedOutput { desc, found, wanted: None }
        });
        let params = params.settings().iter();
        Ok(Capture {
            package: package.path.as_ref().map_or(BUILTIN.to_owned(), |p| p.display().to_string()),
            digest: package.index_sha256.clone().or(package.sha256.clone()).unwrap_or_default(),
            op: match schema.domain() {
                "" => schema.name().to_owned(),
                domain => format!("{domain}:{}", schema.name()),
            },
            core,
            case: case.to_owned(),
            why,
            level: udo_check::DEFAULT_LEVEL,
            seed: 1,
            params: params.map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
            inputs,
            outputs: outputs.collect(),
        })
    }

    /// The elements of a value, what they are, and whether the model holds them.
    fn tensor(&self, id: ValueId) -> Result<(Tensor, TensorDesc, bool), String> {
        let value = self.graph.value(id).map_err(|error| error.to_string())?;
        let model = &self.loaded.model;
        let (tensor, encoding) = match &value.source {
            Source::Constant(tensor) => return Ok((tensor.clone(), *tensor.desc(), true)),
            Source::Input(_) => {
                let at = model.inputs().iter().position(|input| input.name == value.name);
                let tensor = at.and_then(|at| self.inputs.get(at)).cloned();
                (tensor, at.and_then(|at| model.input_encoding(at)))
            }
            Source::Computed | Source::Outer => {
                let tensor = self.session.output_tensor(&value.name).ok();
                (tensor, self.loaded.output_encoding(&value.name))
            }
        };
        let unknown = || format!("value {:?} is internal to a fused kernel", value.name);
        let tensor = tensor.ok_or_else(unknown)?;
        if tensor.dtype() == DType::Str {
            return Err(format!("value {:?} contains strings", value.name));
        }
        let mut desc = *tensor.desc();
        if let (None, Some(encoding)) = (desc.encoding(), encoding) {
            desc = desc.with_encoding(encoding);
        }
        Ok((tensor, desc, false))
    }
}

fn holds_nan(tensor: &Tensor) -> bool {
    let [single, double] = [DType::F32, DType::F64].map(|dtype| tensor.dtype() == dtype);
    let singles = || tensor.get::<f32>().is_some_and(|all| all.iter().any(|n| n.is_nan()));
    let doubles = || tensor.get::<f64>().is_some_and(|all| all.iter().any(|n| n.is_nan()));
    single && singles() || double && doubles()
}
