//! A small model on a core: whether it runs there, and is right.

use std::num::NonZero;
use std::time::Instant;

use udo_api::{Core, CoreKind, Element};
use udo_runtime::{Runtime, Session};

use super::chain::load;
use crate::output::chain;

/// The result of running the small model.
#[derive(Debug)]
pub(super) struct Checked {
    /// How long a run takes.
    pub(super) micros: f64,
    /// Why it failed, if it did.
    pub(super) why: Option<String>,
}

/// A matrix product in floating point, and its positive part.
const NUMBERS: &str = "graph check
  input x: f32[2,3]
  constant w: f32[3,2]{1.0,2.0,3.0,4.0,5.0,6.0}
  h = MatMul@13(x, w) # product
  y = Relu@14(h) # cut
  output y
";

/// The same product of 8-bit integers.
const INTEGERS: &str = "graph check
  input x: u8[2,3]
  constant one: f32[]{1.0}
  constant none: u8[]{0}
  constant w: u8[3,2]{1,2,3,4,5,6}
  y = QLinearMatMul@10(x, one, none, w, one, none, one, none) # product
  output y
";

const INPUT: [u8; 6] = [1, 2, 3, 4, 5, 6];
const WANTED: [u8; 4] = [22, 28, 49, 64];

/// Runs the model of a core's types twice: the first run allocates the memory that later ones
/// reuse.
pub(super) fn check(runtime: &Runtime, core: Core, threads: NonZero<usize>) -> Checked {
    let result = match core.kind() {
        Some(CoreKind::Dsp | CoreKind::Hta) => {
            tried::<u8>(runtime, INTEGERS, (core, threads), |number| number)
        }
        Some(CoreKind::Cpu | CoreKind::Gpu) | None => {
            tried::<f32>(runtime, NUMBERS, (core, threads), f32::from)
        }
    };
    match result {
        Ok(micros) => Checked { micros, why: None },
        Err(why) => Checked { micros: 0.0, why: Some(why) },
    }
}

/// Runs a model and checks its results. Returns the microseconds of the second run, or why the
/// model failed.
fn tried<T: Element + PartialEq + std::fmt::Debug>(
    runtime: &Runtime,
    model: &str,
    (core, threads): (Core, NonZero<usize>),
    of: fn(u8) -> T,
) -> Result<f64, String> {
    let loaded = load(runtime, model, (&[core], Vec::new()), threads);
    let mut session = loaded.map_err(|error| chain(&error))?;
    let report = session.plans().next().map(|plan| plan.report().nodes.clone()).unwrap_or_default();
    let elsewhere = report.iter().find(|node| node.core.kind() != core.kind());
    if let Some(node) = elsewhere {
        return Err(format!("node {:?} runs on {}", node.name, node.core));
    }
    let mut run = || run(&mut session, of);
    run()?;
    let start = Instant::now();
    let found = run()?;
    let micros = start.elapsed().as_secs_f64() * 1e6;
    let wanted = WANTED.map(of);
    if found == wanted { Ok(micros) } else { Err(format!("found {found:?}, expected {wanted:?}")) }
}

fn run<T: Element>(session: &mut Session, of: fn(u8) -> T) -> Result<Vec<T>, String> {
    let input = session.input_mut::<T>("x").map_err(|error| chain(&error))?;
    input.iter_mut().zip(INPUT).for_each(|(element, number)| *element = of(number));
    session.run().map_err(|error| chain(&error))?;
    Ok(session.output::<T>("y").map_err(|error| chain(&error))?.to_vec())
}
