//! The data that cases work on.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use udo_api::{Layout, Side, TensorDesc};
use udo_engine::operators::{KernelEntry, Operators};
use udo_generator::config::Op;
use udo_host::Refusal;
use udo_runtime::package::OpenError;
use udo_testing::{CallError, How, Run};

use crate::Setup;
use crate::config;
use crate::expected::{OracleKind, OracleResults};
use crate::hints::Hints;
use crate::node::Node;
use crate::oracle::{self, Oracle};
use crate::raw::surroundings::Surroundings;
use crate::record::Recorder;
use crate::search::{Breadth, Effort, SearchResult, search};
use crate::shapes::Class;
use crate::subject::{Opened, Place, Subject};
use crate::trial::{Site, Trial};
use crate::values::{Fill, encoding_of};

/// A package as a whole.
#[derive(Debug)]
pub(crate) struct PackageContext {
    pub(crate) place: Place,
}

impl PackageContext {
    /// The path of the package's files; `None` for the built-in operators.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.place {
            Place::Builtin => None,
            Place::At(path) => Some(path),
        }
    }

    /// The folder of its sources, if it has one.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        let path = self.path()?;
        let folder = if path.is_dir() { path } else { path.parent()? };
        if folder.ends_with("dist") {
            folder.parent().map(Path::to_owned)
        } else {
            Some(folder.to_owned())
        }
    }
}

/// An operator on a core, with the nodes that it accepts.
#[derive(Debug)]
pub(crate) struct OpContext {
    pub(crate) place: Place,
    pub(crate) subject: Subject,
    pub(crate) oracles: Vec<Oracle>,
    /// The operator in the package's config, if there is one, or why the config cannot be read.
    pub(crate) config: Result<Option<Op>, String>,
    pub(crate) level: u8,
    pub(crate) seed: u64,
    pub(crate) is_builtin: bool,
    /// All opened operators, and the package's name.
    pub(crate) registry: Operators,
    pub(crate) package: String,
    /// The state of the process before the package was opened.
    pub(crate) before: Surroundings,
    pub(crate) search_result: OnceLock<SearchResult>,
    /// Records calls for captures.
    pub(crate) recorder: Arc<Recorder>,
}

/// A node, its kernel, and elements that the kernel accepts.
pub(crate) struct Live<'a> {
    pub(crate) node: &'a Node,
    pub(crate) entry: &'a KernelEntry,
    pub(crate) trial: Trial<'a>,
    pub(crate) values: Vec<Vec<u8>>,
    pub(crate) seed: u64,
}

/// Contents of inputs to try in turn; a kernel may refuse some.
const FILLS: [Fill; 5] = [Fill::Random, Fill::Small, Fill::Equal, Fill::Positive, Fill::Zero];

/// Time limits of a node that has faster ones of its class, and of one without: first for large nodes, then for
/// others.
const LONG_TIMES: [(Duration, Duration); 2] = [
    (Duration::from_millis(30), Duration::from_millis(500)),
    (Duration::from_millis(20), Duration::from_secs(10)),
];

impl OpContext {
    pub(crate) fn new(
        place: &Place,
        op: &str,
        core: udo_api::Core,
        setup: &Setup,
        recorder: Arc<Recorder>,
    ) -> Result<Option<Self>, OpenError> {
        let before = Surroundings::now();
        let mut opened = Opened::beside(place, &setup.beside)?;
        let Some(subject) = opened.subject(op, core)? else { return Ok(None) };
        let is_builtin = *place == Place::Builtin;
        let package = opened.package.map(|id| opened.registry.package_name(id).to_owned());
        let package = package.unwrap_or_default();
        let folder = PackageContext { place: place.clone() }.folder();
        let config = match folder {
            Some(folder) => config::read(&folder, &package),
            None => Ok(None),
        };
        let name = subject.op.schema().name();
        let is_own = |op: &Op| op.name == name;
        let config = config.map(|own| own.and_then(|own| own.ops.into_iter().find(is_own)));
        let reference = config.as_ref().ok().and_then(Option::as_ref).map(udo_generator::reference);
        // The generator has read the config, so its references are valid.
        let reference = reference.and_then(Result::ok).flatten();
        let oracles = oracle::oracles(&mut opened, &subject, reference);
        let registry = opened.registry;
        let search_result = OnceLock::new();
        Ok(Some(Self {
            place: place.clone(),
            subject,
            oracles,
            config,
            level: setup.level,
            seed: setup.seed,
            is_builtin,
            registry,
            package,
            before,
            search_result,
            recorder,
        }))
    }

    /// Built-in operators are many: only a few nodes of each class run.
    fn breadth(&self) -> Breadth {
        if self.is_builtin { Breadth::First } else { Breadth::All }
    }

    /// Returns the constraints on nodes that the reference states.
    fn hints(&self) -> Hints {
        let config = self.config.as_ref().ok().and_then(Option::as_ref);
        let Some(source) = config.and_then(|op| op.reference.as_deref()) else {
            return Hints::default();
        };
        let inputs: Vec<&str> =
            self.subject.op.schema().inputs().iter().map(udo_api::Port::name).collect();
        Hints::from_source(source, &inputs)
    }

    /// Returns the nodes found by asking the operator.
    pub(crate) fn search_result(&self) -> &SearchResult {
        self.search_result.get_or_init(|| {
            let effort = Effort { level: self.level, seed: self.seed, breadth: self.breadth() };
            let mut result = search(&self.subject, &self.hints(), effort, &self.recorder);
            for node in &mut result.nodes {
                self.set_encodings(node);
            }
            if !self.is_builtin {
                self.leave_out_slow(&mut result.nodes);
            }
            result
        })
    }

    /// Removes slow nodes, since each one runs some hundred times. The fastest node of each class stays.
    fn leave_out_slow(&self, nodes: &mut Vec<Node>) {
        let time = |node: &Node| {
            let trial = self.trial(node, 1).ok()?;
            let start = Instant::now();
            // The result does not matter here.
            let _ = trial.run(&node.values(Fill::Small, self.seed), How::default());
            Some(start.elapsed())
        };
        let times: Vec<Option<Duration>> = nodes.iter().map(time).collect();
        let least = |class: Class| {
            let own = nodes.iter().zip(&times).filter(|(node, _)| node.class == class);
            own.filter_map(|(_, time)| *time).min()
        };
        let stays = |(node, time): (&Node, &Option<Duration>)| {
            let Some(time) = *time else { return true };
            let (long, too_long) = LONG_TIMES[usize::from(node.class != Class::Large)];
            time <= long || Some(time) == least(node.class) && time <= too_long
        };
        let mut stay = nodes.iter().zip(&times).map(stays).collect::<Vec<_>>().into_iter();
        nodes.retain(|_| stay.next().unwrap_or(true));
    }

    pub(crate) fn kernel(&self, node: &Node) -> Option<&KernelEntry> {
        self.subject.kernels.get(node.kernel)
    }

    /// Gives quantized outputs without an encoding one that covers the expected values.
    fn set_encodings(&self, node: &mut Node) {
        if node.outputs.iter().all(|output| output.encoding().is_none()) {
            return;
        }
        let said = self.kernel(node).map(|entry| node.inferred(entry, self.subject.core));
        let values = node.values(Fill::Random, self.seed);
        let wanted = self.oracles.iter().find_map(|oracle| oracle.real(node, &values));
        let (Some(Ok(said)), Some(wanted)) = (said, wanted) else { return };
        let mut outputs = node.outputs.clone();
        for ((output, said), wanted) in outputs.iter_mut().zip(&said).zip(&wanted) {
            let encoding = output.dtype().and_then(|dtype| encoding_of(dtype, &wanted.numbers));
            if let (true, Some(encoding)) = (said.encoding().is_none(), encoding) {
                *output = output.with_encoding(encoding);
            }
        }
        let other = Node { outputs, ..node.clone() };
        let takes =
            self.kernel(&other).is_some_and(|entry| self.trial_by(&other, entry, 1).is_ok());
        if takes {
            *node = other;
        }
    }

    /// Whether the operator has this tensor with channels last, unlike models.
    pub(crate) fn is_channels_last(&self, side: Side, port: usize, desc: &TensorDesc) -> bool {
        let schema = self.subject.op.schema();
        let declared = match side {
            Side::Input => schema.input(port),
            Side::Output => schema.output(port),
        };
        desc.rank() == 4 && declared.is_some_and(|port| port.rank4_layout() == Layout::Nhwc)
    }

    /// Finalizes the node's kernel.
    pub(crate) fn trial<'a>(&'a self, node: &'a Node, threads: u32) -> Result<Trial<'a>, Refusal> {
        let Some(entry) = self.kernel(node) else {
            let message = "the node does not have a kernel".to_owned();
            return Err(Refusal { status: udo_api::Status::FAILED, message });
        };
        self.trial_by(node, entry, threads)
    }

    /// Finalizes this kernel for the node.
    pub(crate) fn trial_by<'a>(
        &'a self,
        node: &'a Node,
        entry: &'a KernelEntry,
        threads: u32,
    ) -> Result<Trial<'a>, Refusal> {
        Trial::new(node, entry, Site { core: self.subject.core, threads }, Some(&self.recorder))
    }

    /// Returns the first elements that the kernel accepts and their results, or the first refusal.
    pub(crate) fn first_run(
        node: &Node,
        trial: &Trial<'_>,
        seed: u64,
    ) -> Result<(Vec<Vec<u8>>, Run), CallError> {
        let mut first = None;
        for fill in FILLS {
            let values = node.values(fill, seed);
            match trial.run(&values, How::default()) {
                Ok(run) => return Ok((values, run)),
                // Integers may be out-of-range indices or zero divisors.
                Err(fault) => {
                    let fault = first.get_or_insert(fault);
                    if !node.has_integers() || matches!(fault, CallError::Broken(_)) {
                        break;
                    }
                }
            }
        }
        Err(first.unwrap_or_else(|| CallError::Broken("no elements were tried".to_owned())))
    }

    /// Iterates over the nodes that run, each with its kernel and accepted elements.
    pub(crate) fn live(&self) -> impl Iterator<Item = Live<'_>> {
        self.each(|run| run.ok().map(|(values, _)| values))
    }

    /// Iterates over the nodes that run and those whose calls break a rule.
    pub(crate) fn tried(&self) -> impl Iterator<Item = Live<'_>> {
        self.each(|run| match run {
            Ok((values, _)) => Some(values),
            Err(CallError::Broken(_)) => Some(Vec::new()),
            Err(CallError::Failed(_)) => None,
        })
    }

    /// Iterates over nodes with the elements that `chosen` picks from their first runs; `None` stands for random
    /// elements.
    fn each(
        &self,
        chosen: impl Fn(Result<(Vec<Vec<u8>>, Run), CallError>) -> Option<Vec<Vec<u8>>>,
    ) -> impl Iterator<Item = Live<'_>> {
        let nodes = self.search_result().nodes.iter().enumerate();
        nodes.filter_map(move |(at, node)| self.live_as(at, node, &chosen))
    }

    /// Returns the node with its kernel and elements, if it runs. `at` seeds its random elements.
    pub(crate) fn live_of<'a>(&'a self, at: usize, node: &'a Node) -> Option<Live<'a>> {
        self.live_as(at, node, &|run| run.ok().map(|(values, _)| values))
    }

    fn live_as<'a>(
        &'a self,
        at: usize,
        node: &'a Node,
        chosen: &impl Fn(Result<(Vec<Vec<u8>>, Run), CallError>) -> Option<Vec<Vec<u8>>>,
    ) -> Option<Live<'a>> {
        let entry = self.kernel(node)?;
        let trial = self.trial(node, 1).ok()?;
        let seed = self.seed.wrapping_mul(1000).wrapping_add(at as u64);
        let mut values = chosen(Self::first_run(node, &trial, seed))?;
        if values.is_empty() {
            values = node.values(Fill::Random, seed);
        }
        Some(Live { node, entry, trial, values, seed })
    }

    /// The operator's reference, if the config has one.
    pub(crate) fn reference(&self) -> Option<&udo_reference::Program> {
        self.oracles.iter().find_map(Oracle::program)
    }

    /// Returns the expected results of the node: those of the reference if it covers the node, else those of all
    /// other oracles. A capture's recorded results replace oracles that are gone.
    pub(crate) fn expected(&self, node: &Node, values: &[Vec<u8>]) -> Vec<OracleResults> {
        let mut all = Vec::new();
        for oracle in &self.oracles {
            if oracle.kind == OracleKind::Recorded && !all.is_empty() {
                break;
            }
            let Some(wanted) = oracle.expected(node, values) else { continue };
            all.push(OracleResults { kind: oracle.kind, wanted });
            if oracle.kind == OracleKind::Reference {
                break;
            }
        }
        all
    }
}

impl Live<'_> {
    /// Describes the node in a message.
    pub(crate) fn describe(&self, cx: &OpContext) -> String {
        format!("{} {}", self.node.class.name(), self.node.describe(cx.subject.core))
    }
}
