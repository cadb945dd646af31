//! Runs graphs and their parts as models.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::num::NonZero;

use udo_api::Core;
use udo_engine::cores::OpenCl;
use udo_graph::graph::Selector;
use udo_graph::npy;
use udo_runtime::compile::{Affinity, Fallback};
use udo_runtime::device::Devices;
use udo_runtime::graph::{DimSpec, Graph, ValueId};
use udo_runtime::{CompileOptions, LoadOptions, Runtime, Tensor};

use super::make::GraphCase;
use crate::context::OpContext;
use crate::record::Files;
use crate::values::{Random, numbers};

/// All known values, by their ids in the graph.
pub(super) type Known = HashMap<ValueId, Tensor>;

/// Why a graph does not run.
#[derive(Debug)]
pub(super) enum Fault {
    /// The graph does not compile, or not with the operator on its core.
    Refused(String),
    /// The run fails.
    Failed(String),
}

/// Some parts of a graph as a graph of their own; values from outside become inputs.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) graph: Graph,
    given: Vec<(String, Tensor)>,
    /// The outputs' ids in the whole graph.
    pub(super) outputs: Vec<ValueId>,
}

/// Compiles and runs graphs.
pub(super) struct Runner {
    runtime: Runtime,
    core: Core,
    op: &'static str,
    options: CompileOptions,
}

impl Runner {
    pub(super) fn new(cx: &OpContext) -> Self {
        let (op, core) = (cx.subject.op.schema().name(), cx.subject.core);
        let runtime = Runtime::from_parts(cx.registry.clone(), Devices::default());
        Self { runtime, core, op, options: options_for(core) }
    }

    /// Chooses the planner's options for later graphs.
    pub(super) fn choose(&mut self, random: &mut Random) {
        let mut options = options_for(self.core);
        let mut once_in = |count| random.below(count) == 0;
        options.plan.reuses_inputs = !once_in(4);
        options.plan.elides_concats = !once_in(4);
        options.plan.row_gap = if once_in(3) { 3 } else { 0 };
        options.plan.fill = if once_in(4) { 0 } else { 0xff };
        options.place.prefers_channels_last = once_in(3);
        options.threads = if once_in(2) { NonZero::<usize>::MIN } else { TWO };
        self.options = options;
    }

    /// Runs each part as a separate model and returns all values.
    pub(super) fn one_by_one(&mut self, made: &GraphCase) -> Result<Known, Fault> {
        let options = CompileOptions { threads: self.options.threads, ..options_for(self.core) };
        let mut known: Known = made.given.iter().cloned().collect();
        for at in 0..made.parts.len() {
            let part = Part::select(made, &[at], &known).ok_or_else(|| {
                Fault::Refused("a part reads a value that no earlier part produces".to_owned())
            })?;
            let outputs = self.run(&part, &options)?;
            known.extend(part.outputs.iter().copied().zip(outputs));
        }
        Ok(known)
    }

    /// Returns why the part fails as one model; `None` if both runs give the known values.
    pub(super) fn wrong(&mut self, part: &Part, known: &Known) -> Option<String> {
        let options = self.options.clone();
        let outputs = match self.run(part, &options) {
            Ok(outputs) => outputs,
            Err(Fault::Refused(why)) => return Some(format!("it does not compile: {why}")),
            Err(Fault::Failed(why)) => return Some(format!("the run fails: {why}")),
        };
        for (at, (found, id)) in outputs.iter().zip(&part.outputs).enumerate() {
            let wanted = known.get(id)?;
            let name = part.graph.outputs.get(at).and_then(|id| part.graph.values.get(id.index()));
            let name = name.map_or("", |value| value.name.as_str());
            if found.dims() != wanted.dims() {
                return Some(format!(
                    "{name} is {:?}, expected {:?} as node by node",
                    found.dims(),
                    wanted.dims()
                ));
            }
            let [found, wanted] = [found, wanted].map(|of| numbers(of.desc(), of.bytes()));
            if let Some(at) = first_apart(&found, &wanted) {
                return Some(format!("{name} has {} at {at}", pair(&found, &wanted, at)));
            }
        }
        None
    }

    /// Runs twice and returns the outputs of the second run, whose memory holds leftovers of the
    /// first.
    fn run(&mut self, part: &Part, options: &CompileOptions) -> Result<Vec<Tensor>, Fault> {
        let refused = |error: &dyn std::error::Error| Fault::Refused(crate::cases::chain(error));
        let failed = |error: &dyn std::error::Error| Fault::Failed(crate::cases::chain(error));
        let mut options = options.clone();
        if part.graph.nodes.iter().any(|node| node.op == self.op) {
            let of = Selector::Named(self.op.to_owned());
            options.place.affinity = vec![Affinity { of, core: self.core }];
        }
        let model = self
            .runtime
            .load(part.graph.clone(), &LoadOptions::from(options.clone()))
            .map_err(|error| refused(&error))?;
        let mut own = model.report().nodes.iter().filter(|node| node.op == self.op);
        if let Some(node) = own.find(|node| node.core != self.core) {
            return Err(Fault::Refused(format!("the operator is placed on {}", node.core)));
        }
        let mut session = model.session().map_err(|error| refused(&error))?;
        for _ in 0..2 {
            for (name, tensor) in &part.given {
                session.set_input(name, tensor).map_err(|error| failed(&error))?;
            }
            session.run().map_err(|error| failed(&error))?;
        }
        let names = part.graph.outputs.iter().filter_map(|id| part.graph.values.get(id.index()));
        let tensor = |name: &str| session.output_tensor(name).map_err(|error| failed(&error));
        names.map(|value| tensor(&value.name)).collect()
    }
}

const TWO: NonZero<usize> = NonZero::<usize>::MIN.saturating_add(1);

/// Returns options that place everything else on the CPU.
fn options_for(core: Core) -> CompileOptions {
    let mut options = CompileOptions { keep_types: true, ..CompileOptions::default() };
    options.place.cores = vec![Core::CPU, core];
    options.place.fallback = Fallback::To(Core::CPU);
    options.place.profile.opencl = OpenCl::Off;
    options
}

impl Part {
    /// Returns the graph as text and the elements of its inputs, by the ends of their file names.
    pub(super) fn files(&self) -> Files {
        let mut files = vec![("graph".to_owned(), self.graph.to_string().into_bytes())];
        // Types that numpy does not support are left out.
        let inputs = self.given.iter();
        files.extend(
            inputs.filter_map(|(name, tensor)| {
                Some((format!("{name}.npy"), npy::write(tensor).ok()?))
            }),
        );
        files
    }

    /// Returns the parts at these places; `None` if a value that they read is not known.
    pub(super) fn select(made: &GraphCase, places: &[usize], known: &Known) -> Option<Self> {
        let whole = &made.graph;
        let nodes = |places: &[usize]| {
            let ranges = places.iter().filter_map(|&at| made.parts.get(at).cloned());
            ranges.flatten().filter_map(|at| whole.nodes.get(at)).collect::<Vec<_>>()
        };
        let inside = nodes(places);
        let others: Vec<usize> = (0..made.parts.len()).filter(|at| !places.contains(at)).collect();
        let outside = nodes(&others);
        let is_read_outside = |id: ValueId| {
            whole.outputs.contains(&id)
                || outside.iter().any(|node| node.inputs.contains(&Some(id)))
        };
        let mut part =
            Self { graph: Graph::new(&whole.name), given: Vec::new(), outputs: Vec::new() };
        let mut ids: HashMap<ValueId, ValueId> = HashMap::new();
        for node in inside {
            let mut own = node.clone();
            for port in &mut own.inputs {
                let Some(id) = *port else { continue };
                let value = whole.values.get(id.index())?;
                if let Entry::Vacant(slot) = ids.entry(id) {
                    slot.insert(if let Some(tensor) = whole.constant(id) {
                        part.graph.add_constant(&value.name, tensor.clone())
                    } else {
                        let tensor = known.get(&id)?;
                        part.given.push((value.name.clone(), tensor.clone()));
                        let dims = tensor.dims().iter().map(|&extent| DimSpec::Fixed(extent));
                        part.graph.add_input(&value.name, tensor.dtype(), dims)
                    });
                }
                *port = ids.get(&id).copied();
            }
            for port in &mut own.outputs {
                let Some(id) = *port else { continue };
                let inner = part.graph.add_value(&whole.values.get(id.index())?.name);
                ids.insert(id, inner);
                *port = Some(inner);
                if is_read_outside(id) {
                    part.graph.outputs.push(inner);
                    part.outputs.push(id);
                }
            }
            part.graph.add_node(own);
        }
        Some(part)
    }
}

/// Returns the index of the first number that differs.
pub(super) fn first_apart(found: &[f64], wanted: &[f64]) -> Option<usize> {
    #[expect(clippy::float_cmp, reason = "the same kernels ran on the same values")]
    let is_same = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan();
    if found.len() != wanted.len() {
        return Some(found.len().min(wanted.len()));
    }
    found.iter().zip(wanted).position(|pair| !is_same(pair))
}

/// Formats both numbers at an index.
pub(super) fn pair(found: &[f64], wanted: &[f64], at: usize) -> String {
    let said = |of: &[f64]| of.get(at).map_or("nothing".to_owned(), f64::to_string);
    format!("{}, expected {}", said(found), said(wanted))
}
