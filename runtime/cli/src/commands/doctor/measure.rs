//! Measures the cost of work on this machine with small models, and writes the file that `--costs` reads.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use udo_api::{Core, CoreKind};
use udo_compile::place::{CoreCosts, Costs, Crossing};
use udo_engine::cores::Memory;
use udo_runtime::compile::{NodeReport, Plan, StepReport};
use udo_runtime::run::RunError;
use udo_runtime::{Runtime, Session};

use super::chain::{Chain, Family, Work};
use crate::output::Column::{Left, Right};
use crate::output::{Failure, Outcome, Progress, note, print_json, progress, table, write_file};
use crate::roofline::{self, median, real};
use crate::trace;

/// How many rounds count at least, and how long a figure is measured after that.
const LEAST_ROUNDS: usize = 5;
const MOST_ROUNDS: usize = 200;
const SAMPLE: Duration = Duration::from_millis(100);

/// The time of a step that is large enough to measure its speed.
const ENOUGH: Duration = Duration::from_millis(4);

/// The elements of a row whose size does not matter, and of one whose bytes determine the time.
const TINY: usize = 8;
const LARGE: usize = 1 << 20;
/// Steps of a chain of tiny ones.
const STEPS: usize = 65;
/// Nodes of a chain that crosses, and runs of it.
const CROSSING: usize = 9;
const CROSSINGS: usize = 9;

/// The rows and squares that are tried, the smallest first.
const ROWS: [usize; 4] = [1 << 16, 1 << 18, 1 << 20, 1 << 22];
const SIDES: [usize; 4] = [64, 128, 256, 512];

/// The least part of a time that is left when what belongs to others is taken off.
const LEAST_PART: f64 = 0.05;

/// Measures, prints and writes the figures.
pub(super) fn write(
    runtime: &Runtime,
    path: &Path,
    threads: NonZero<usize>,
    is_json: bool,
) -> Outcome {
    trace::check_path(path, "costs")?;
    // Nobody waits for figures that cannot be written.
    write_file(&path.with_added_extension("try"), b"")?;
    let _ = std::fs::remove_file(path.with_added_extension("try"));
    let costs = Measuring { runtime, threads }.costs()?;
    let json = serde_json::to_string_pretty(&costs)?;
    Costs::read(json.as_bytes())?;
    write_file(path, format!("{json}\n").as_bytes())?;
    if is_json {
        print_json(&json!(costs));
        return Ok(());
    }
    say(&costs);
    outln!("{}", path.display());
    Ok(())
}

/// The runtime to measure with, and its number of threads.
struct Measuring<'a> {
    runtime: &'a Runtime,
    threads: NonZero<usize>,
}

/// The measured costs of a core, and the families of values that it has kernels for.
struct Measured {
    families: Vec<Family>,
    costs: CoreCosts,
}

impl Measuring<'_> {
    fn costs(&self) -> Result<Costs, Failure> {
        let kinds = CoreKind::ALL;
        let pairs = kinds.len() * (kinds.len() - 1) / 2;
        let bar = progress("measuring", kinds.len() * 4 + pairs);
        let mut cores: BTreeMap<CoreKind, Measured> = BTreeMap::new();
        for &kind in kinds {
            if let Some(measured) = self.core(core(kind), &bar)? {
                cores.insert(kind, measured);
            }
        }
        let mut ways: BTreeMap<(CoreKind, CoreKind), TransferCost> = BTreeMap::new();
        for (at, &from) in kinds.iter().enumerate() {
            for &to in kinds.get(at + 1..).unwrap_or_default() {
                if let Some([there, back]) = self.crossing([from, to], &cores)? {
                    ways.insert((from, to), there);
                    ways.insert((to, from), back);
                }
                bar.advance(1);
            }
        }
        drop(bar);
        Ok(complete(&cores, &ways))
    }

    /// The figures of a core, if it has a kernel for any of the chains.
    fn core(&self, core: Core, bar: &Progress) -> Result<Option<Measured>, Failure> {
        let mut families = Vec::new();
        for family in [Family::Numbers, Family::Integers] {
            let on = &[core];
            let chain = Chain { family, work: Work::Elements, size: TINY, count: 1, on };
            // A chain that is refused has no kernel on the core.
            if let Ok(Some(_)) = chain.session(self.runtime, self.threads) {
                families.push(family);
            }
        }
        let Some(&family) = families.first() else {
            bar.advance(4);
            return Ok(None);
        };
        let chain = |count| Chain { family, work: Work::Elements, size: TINY, count, on: &[] };
        let Some(tiny) = self.per_step([chain(1), chain(STEPS)], core)? else { return Ok(None) };
        bar.advance(1);
        let step = tiny.micros;
        let moved = self.rate((family, Work::Elements), core, step, |of| of.bytes)?;
        bar.advance(1);
        let mut products = [None, None];
        for (rate, wanted) in products.iter_mut().zip([Family::Numbers, Family::Integers]) {
            if families.contains(&wanted) {
                *rate = self.rate((wanted, Work::Product), core, step, |of| of.operations)?;
            }
            bar.advance(1);
        }
        let [numbers, integers] = products;
        let (Some(bytes), Some(any)) = (moved, numbers.or(integers)) else { return Ok(None) };
        let (operations, integer_operations) = (numbers.unwrap_or(any), integers.unwrap_or(any));
        let costs = CoreCosts { step, operations, integer_operations, bytes };
        Ok(Some(Measured { families, costs }))
    }

    /// Measures how many of the operations or bytes that `of` selects a step handles in a microsecond. Uses the first size that
    /// takes long enough, or the largest.
    fn rate(
        &self,
        (family, work): (Family, Work),
        core: Core,
        step: f64,
        of: fn(&PerStep) -> f64,
    ) -> Result<Option<f64>, Failure> {
        let sizes = match work {
            Work::Elements => ROWS,
            Work::Product => SIDES,
        };
        let mut chosen = None;
        for size in sizes {
            let chain = Chain { family, work, size, count: 3, on: &[core] };
            let Some(mut session) = chain.session(self.runtime, self.threads)? else { break };
            session.run()?;
            let start = Instant::now();
            session.run()?;
            chosen = Some(size);
            if start.elapsed() > 3 * ENOUGH {
                break;
            }
        }
        let Some(size) = chosen else { return Ok(None) };
        let chain = |count| Chain { family, work, size, count, on: &[] };
        let found = self.per_step([chain(1), chain(3)], core)?;
        Ok(found.map(|found| {
            let rest = (found.micros - step).max(found.micros * LEAST_PART);
            of(&found) / rest.max(f64::MIN_POSITIVE)
        }))
    }

    /// Measures one step: the difference between the times of a long and a short chain, per additional step.
    fn per_step(
        &self,
        [short, long]: [Chain<'_>; 2],
        core: Core,
    ) -> Result<Option<PerStep>, Failure> {
        let more = real((long.count - short.count) as u64);
        let size = real(long.size as u64);
        let on = [core];
        let session = |chain| Chain { on: &on, ..chain }.session(self.runtime, self.threads);
        let (Some(mut short), Some(mut long)) = (session(short)?, session(long)?) else {
            return Ok(None);
        };
        let [mut shorts, mut longs] = [Vec::new(), Vec::new()];
        let start = Instant::now();
        for round in 0.. {
            let is_enough = start.elapsed() > SAMPLE && round > LEAST_ROUNDS;
            if is_enough || round > MOST_ROUNDS {
                break;
            }
            let times = [seconds(&mut short)?, seconds(&mut long)?];
            // The first runs touch memory that later ones find.
            if round > 0 {
                shorts.push(times[0]);
                longs.push(times[1]);
            }
        }
        let micros = (median(longs) - median(shorts)).max(1e-9) / more * 1e6;
        let steps = long.plans().next().map(|plan| plan.report().steps.clone()).unwrap_or_default();
        let own: Vec<&StepReport> = steps.iter().filter(|step| !step.is_transfer()).collect();
        let each = |of: fn(&StepReport) -> u64| {
            own.iter().map(|step| real(of(step))).sum::<f64>() / real(own.len().max(1) as u64)
        };
        let said = each(|step| step.operations);
        // Kernels of some cores do not say; the product of squares is the same everywhere.
        let operations = if said > 0.0 { said } else { 2.0 * size.powi(3) };
        let bytes = each(|step| step.bytes);
        Ok(Some(PerStep { micros, operations, bytes }))
    }

    /// Measures the costs of transfers between two kinds of core, in both directions. Returns `None` unless both have kernels
    /// for the same family of values and use different memories.
    fn crossing(
        &self,
        kinds: [CoreKind; 2],
        cores: &BTreeMap<CoreKind, Measured>,
    ) -> Result<Option<[TransferCost; 2]>, Failure> {
        let [Some(first), Some(second)] = kinds.map(|kind| cores.get(&kind)) else {
            return Ok(None);
        };
        let shared = first.families.iter().find(|family| second.families.contains(family));
        let Some(&family) = shared else { return Ok(None) };
        let on = kinds.map(core);
        let mut sizes = Vec::new();
        for size in [TINY, LARGE] {
            let chain = Chain { family, work: Work::Elements, size, count: CROSSING, on: &on };
            let Some(found) = self.transfers(&chain, [&first.costs, &second.costs])? else {
                return Ok(None);
            };
            sizes.push(found);
        }
        let [tiny, large] = sizes.as_slice() else { return Ok(None) };
        let element = match family {
            Family::Numbers => 4.0,
            Family::Integers => 1.0,
        };
        let bytes = real((LARGE - TINY) as u64) * element;
        let way = |at: usize| {
            let [least, most] = [tiny, large].map(|of| of.get(at).copied().unwrap_or(0.0));
            let moving = (most - least).max(most * LEAST_PART).max(f64::MIN_POSITIVE);
            TransferCost { value: least, bytes: bytes / moving }
        };
        Ok(Some([way(0), way(1)]))
    }

    /// Measures the microseconds of a transfer in each direction.
    fn transfers(
        &self,
        chain: &Chain<'_>,
        costs: [&CoreCosts; 2],
    ) -> Result<Option<[f64; 2]>, Failure> {
        let Some(mut session) = chain.session(self.runtime, self.threads)? else { return Ok(None) };
        let mut noted = trace::of_a_run(self.threads);
        session.run()?;
        let mut rounds = [Vec::new(), Vec::new()];
        for _ in 0..CROSSINGS {
            noted.clear();
            session.run_traced(&mut noted)?;
            let Some(found) = round_trip(&session, &noted, chain.on, costs) else {
                return Ok(None);
            };
            rounds.iter_mut().zip(found).for_each(|(round, micros)| round.push(micros));
        }
        Ok(Some(rounds.map(median)))
    }
}

/// The core that a kind means.
fn core(kind: CoreKind) -> Core {
    Core::from_name(kind.name()).unwrap_or(Core::CPU)
}

fn seconds(session: &mut Session) -> Result<f64, RunError> {
    let start = Instant::now();
    session.run()?;
    Ok(start.elapsed().as_secs_f64())
}

/// The mean time, operations and bytes of a step.
struct PerStep {
    micros: f64,
    operations: f64,
    bytes: f64,
}

/// The cost of a transfer of a value from one memory to another.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TransferCost {
    /// Microseconds of each.
    value: f64,
    /// Bytes in a microsecond.
    bytes: f64,
}

impl TransferCost {
    /// One way and then another.
    fn then(self, next: Self) -> Self {
        let bytes = 1.0 / (1.0 / self.bytes + 1.0 / next.bytes);
        Self { value: self.value + next.value, bytes }
    }
}

/// Returns the mean microseconds of a run's transfers in each direction; `None` if a direction has no transfers.
fn round_trip(
    session: &Session,
    noted: &udo_runtime::run::Trace,
    on: &[Core],
    costs: [&CoreCosts; 2],
) -> Option<[f64; 2]> {
    let &[from, to] = on else { return None };
    let steps = roofline::steps(session, noted);
    let mean = |is: &dyn Fn(&StepReport) -> bool| {
        let found: Vec<f64> =
            steps.iter().filter(|step| is(step.report)).map(|step| step.seconds * 1e6).collect();
        let sum = found.iter().sum::<f64>();
        (!found.is_empty()).then(|| sum / real(found.len() as u64))
    };
    let between = |memories: [Core; 2]| {
        let names = memories.map(|core| Memory::for_core(core).name());
        mean(&|step| step.between == Some(names))
    };
    let mut ways = [between([from, to])?, between([to, from])?];
    // What an OpenCL device was given to do it does while the host goes on, which waits where it wants the result.
    let nodes = session
        .plans()
        .next()
        .map(|plan: &Plan| plan.report().nodes.as_slice())
        .unwrap_or_default();
    for ((way, core), costs) in ways.iter_mut().zip([from, to]).zip(costs) {
        let is_behind = |node: &NodeReport| {
            node.core == core && node.backend.as_ref().is_some_and(|by| by.starts_with("opencl"))
        };
        if !nodes.iter().any(is_behind) {
            continue;
        }
        let is_own = |step: &StepReport| step.core == core && !step.is_transfer();
        let bytes =
            steps.iter().find(|step| is_own(step.report)).map(|step| real(step.report.bytes));
        let wanted = costs.step + bytes.unwrap_or(0.0) / costs.bytes;
        *way = (*way + mean(&is_own).unwrap_or(0.0) - wanted).max(*way * LEAST_PART);
    }
    Some(ways)
}

/// The core whose figures stand for those of one that has no kernel: the one whose memory it shares, or the host.
fn next_to(kind: CoreKind) -> CoreKind {
    match kind {
        CoreKind::Hta => CoreKind::Dsp,
        CoreKind::Cpu | CoreKind::Gpu | CoreKind::Dsp => CoreKind::Cpu,
    }
}

/// Figures of all cores and of all ways between them.
fn complete(
    cores: &BTreeMap<CoreKind, Measured>,
    ways: &BTreeMap<(CoreKind, CoreKind), TransferCost>,
) -> Costs {
    let mut costs = Costs { cores: BTreeMap::new(), crossings: Vec::new() };
    let stand_in = |mut kind: CoreKind| {
        while !cores.contains_key(&kind) && kind != next_to(kind) {
            kind = next_to(kind);
        }
        kind
    };
    for &kind in CoreKind::ALL {
        let by = stand_in(kind);
        if by != kind {
            note(format!(
                "{} has no kernel for the measured operators; its costs are those of {}",
                kind.name(),
                by.name()
            ));
        }
        if let Some(Measured { costs: of, .. }) = cores.get(&by) {
            let [step, operations, integer_operations, bytes] =
                [of.step, of.operations, of.integer_operations, of.bytes].map(rounded);
            let of = CoreCosts { step, operations, integer_operations, bytes };
            costs.cores.insert(kind.name().to_owned(), of);
        }
    }
    let bytes = |kind: CoreKind| cores.get(&kind).map_or(f64::MAX, |of| of.costs.bytes);
    let direct = |from: CoreKind, to: CoreKind| {
        let [from, to] = [from, to].map(stand_in);
        let is_one = Memory::for_core(core(from)) == Memory::for_core(core(to));
        let same = || is_one.then(|| TransferCost { value: 0.0, bytes: bytes(from) });
        ways.get(&(from, to)).copied().or_else(same)
    };
    for &from in CoreKind::ALL {
        for &to in CoreKind::ALL.iter().filter(|&&to| to != from) {
            let by_host = || Some(direct(from, CoreKind::Cpu)?.then(direct(CoreKind::Cpu, to)?));
            let Some(way) = direct(from, to).or_else(by_host) else { continue };
            let [from, to] = [from, to].map(|kind| kind.name().to_owned());
            let [value, bytes] = [way.value, way.bytes].map(rounded);
            costs.crossings.push(Crossing { from, to, value, bytes });
        }
    }
    costs
}

/// A number with as many digits as a measurement has at most.
fn rounded(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}

fn say(costs: &Costs) {
    let of = |number: f64| format!("{:.2}", number / 1e3);
    let row = |(core, costs): (&String, &CoreCosts)| {
        let CoreCosts { step, operations, integer_operations, bytes } = *costs;
        let rates = [operations, integer_operations, bytes].map(of);
        let [numbers, integers, bytes] = rates;
        [core.clone(), format!("{step:.2}"), numbers, integers, bytes]
    };
    let columns =
        [Left("core"), Right("us per step"), Right("GFLOP/s"), Right("8-bit GOP/s"), Right("GB/s")];
    outln!("{}", table(columns, costs.cores.iter().map(row).collect()));
    let row = |crossing: &Crossing| {
        let Crossing { from, to, value, bytes } = crossing;
        [from.clone(), to.clone(), format!("{value:.2}"), of(*bytes)]
    };
    let columns = [Left("from"), Left("to"), Right("us per value"), Right("GB/s")];
    outln!("{}", table(columns, costs.crossings.iter().map(row).collect()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(step: f64) -> Measured {
        let costs = CoreCosts { step, operations: 1.0, integer_operations: 2.0, bytes: 4.0 };
        Measured { families: vec![Family::Numbers], costs }
    }

    #[test]
    fn a_core_without_kernels_gets_the_figures_of_the_one_beside_it() {
        let cores = [CoreKind::Cpu, CoreKind::Gpu, CoreKind::Dsp].map(|kind| (kind, measured(1.0)));
        let mut cores = BTreeMap::from(cores);
        cores.insert(CoreKind::Dsp, measured(7.0));
        let way = |from, to, value| ((from, to), TransferCost { value, bytes: 8.0 });
        let ways = BTreeMap::from([
            way(CoreKind::Cpu, CoreKind::Gpu, 1.0),
            way(CoreKind::Gpu, CoreKind::Cpu, 2.0),
            way(CoreKind::Cpu, CoreKind::Dsp, 4.0),
            way(CoreKind::Dsp, CoreKind::Cpu, 8.0),
        ]);
        let costs = complete(&cores, &ways);
        assert_eq!(costs.cores["hta"], costs.cores["dsp"]);
        let crossing = |from: &str, to: &str| {
            let found = costs.crossings.iter().find(|of| of.from == from && of.to == to);
            found.map(|of| (of.value, of.bytes))
        };
        assert_eq!(crossing("cpu", "hta"), Some((4.0, 8.0)), "as to the dsp");
        assert_eq!(crossing("gpu", "dsp"), Some((6.0, 4.0)), "through the host");
        assert_eq!(crossing("hta", "gpu"), Some((9.0, 4.0)));
        assert_eq!(crossing("dsp", "hta"), Some((0.0, 4.0)), "they share a memory");
        assert_eq!(costs.crossings.len(), 12);
        assert_eq!(Costs::read(costs.to_json().as_bytes()).unwrap(), costs);
        let cpu_alone =
            complete(&BTreeMap::from([(CoreKind::Cpu, measured(1.0))]), &BTreeMap::new());
        assert!(cpu_alone.cores.values().all(|of| *of == cpu_alone.cores["cpu"]));
        assert_eq!(cpu_alone.crossings.len(), 12);
        Costs::read(cpu_alone.to_json().as_bytes()).unwrap();
    }

    #[test]
    fn figures_have_four_digits() {
        let texts = [1234.56, 0.000_123_456, 0.0].map(|number| rounded(number).to_string());
        assert_eq!(texts, ["1235", "0.0001235", "0"]);
    }
}
