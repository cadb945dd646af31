//! Compares results with those of the operator's oracles.

use udo_api::{DType, TensorDesc};
use udo_testing::{CallError, How, Output, is_near};

use super::{Finding, Outcome, failed, not_applicable, skipped};
use crate::context::{Live, OpContext};
use crate::expected::{Expected, OracleKind, OracleResults};
use crate::node::Node;
use crate::values::{Fill, Seen, encoding_of, integers, numbers};

pub(super) fn random(cx: &OpContext) -> Outcome {
    let turns = match cx.level {
        1 => 1,
        2..=5 => 3,
        _ => 8,
    };
    compare(cx, &[Fill::Random, Fill::Positive], turns, Special::Skip)
}

pub(super) fn large(cx: &OpContext) -> Outcome {
    let fills = [Fill::Large, Fill::Equal, Fill::Small, Fill::Negative, Fill::Halves];
    compare(cx, &fills, 2, Special::Lossy)
}

pub(super) fn special(cx: &OpContext) -> Outcome {
    compare(cx, &[Fill::Nan, Fill::Infinite], 1, Special::Compare)
}

/// How to compare NaN and infinities.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Special {
    Skip,
    Compare,
    /// They are not compared, and tolerances allow for cancellation of large numbers.
    Lossy,
}

pub(super) fn steps(cx: &OpContext) -> Outcome {
    let is_quantized =
        |live: &Live<'_>| live.node.inputs.iter().any(|i| i.desc.encoding().is_some());
    if !cx.live().any(|live| is_quantized(&live)) {
        return not_applicable("no input is quantized");
    }
    compare(cx, &[Fill::Ramp], 1, Special::Skip)
}

/// Repeats the comparison under encodings with a zero point at a limit or a small scale.
pub(super) fn encodings(cx: &OpContext) -> Outcome {
    let mut compared = 0;
    for live in cx.live() {
        for (low, high) in [(0.0, 3.0), (-6.0, 0.0), (-0.02, 0.05), (-90.0, 40.0)] {
            let mut node = live.node.clone();
            let mut is_any = false;
            for input in node.inputs.iter_mut().filter(|input| input.constant.is_none()) {
                let encoding =
                    input.desc.dtype().and_then(|dtype| encoding_of(dtype, &[low, high]));
                if let (Some(_), Some(encoding)) = (input.desc.encoding(), encoding) {
                    input.desc = input.desc.with_encoding(encoding);
                    is_any = true;
                }
            }
            if !is_any {
                continue;
            }
            // Output zero points at the lower limit and above the middle.
            for below in [0.0, 3.0] {
                compared += compare_with_encodings(cx, &live, &node, below)?;
            }
        }
    }
    if compared == 0 {
        skipped("no tensor is quantized, or no reference to compare with")
    } else {
        Ok(())
    }
}

/// Compares a node with other input encodings. The outputs' encodings cover the results, and extend below 0 by `below`
/// times the largest result.
fn compare_with_encodings(
    cx: &OpContext,
    live: &Live<'_>,
    node: &Node,
    below: f64,
) -> Result<usize, Finding> {
    let values = node.values(Fill::Random, live.seed);
    let Some(real) = cx.oracles.iter().find_map(|oracle| oracle.real(node, &values)) else {
        return Ok(0);
    };
    let Ok(said) = node.inferred(live.entry, cx.subject.core) else { return Ok(0) };
    let mut turned = node.clone();
    for ((output, said), real) in turned.outputs.iter_mut().zip(&said).zip(&real) {
        let finite = real.numbers.iter().copied().filter(|number| number.is_finite());
        let low = finite.fold(0.0f64, |largest, number| largest.max(number.abs())) * -below;
        let held: Vec<f64> = real.numbers.iter().copied().chain([low]).collect();
        let own = output.dtype().and_then(|dtype| encoding_of(dtype, &held));
        if let Some(encoding) = said.encoding().or(own) {
            *output = output.with_encoding(encoding);
        }
    }
    let Ok(trial) = cx.trial_by(&turned, live.entry, 1) else { return Ok(0) };
    let run = match trial.run(&values, How::default()) {
        Ok(run) => run,
        Err(CallError::Failed(_)) => return Ok(0),
        Err(fault) => return failed(format!("{}: {}", turned.describe(cx.subject.core), fault)),
    };
    let mut calls = 0;
    for expected in cx.expected(&turned, &values) {
        calls += 1;
        cx.recorder.wants(&expected);
        for (port, (made, wanted)) in run.outputs.iter().zip(&expected.wanted).enumerate() {
            let Some(desc) = turned.outputs.get(port) else { continue };
            if let Some(why) =
                first_mismatch(desc, &numbers(desc, &made.bytes), wanted, Special::Skip)
            {
                return failed(format!(
                    "output {port} {why}, by {}: {}",
                    expected.kind.describe(),
                    turned.describe(cx.subject.core)
                ));
            }
        }
    }
    Ok(calls)
}

/// Whether the config has a reference, and the reference constrains each output.
pub(super) fn reference(cx: &OpContext) -> Outcome {
    if let Err(fault) = &cx.config {
        return failed(format!("the config cannot be read: {fault}"));
    }
    if cx.reference().is_none() {
        return skipped(match cx.oracles.first().map(|oracle| oracle.kind) {
            _ if cx.is_builtin => "built-in operators do not have a config".to_owned(),
            Some(kind) => format!(
                "formula not verified: the config has no \"reference\", so results are compared with {}",
                kind.describe()
            ),
            None => "formula not verified: the config has no \"reference\", and no other kernel to compare with"
                .to_owned(),
        });
    }
    compare(cx, &[Fill::Random, Fill::Equal], 1, Special::Compare)
}

fn compare(cx: &OpContext, fills: &[Fill], turns: u64, special: Special) -> Outcome {
    let mut all = Compared::default();
    for live in cx.live() {
        for &fill in fills {
            for turn in 0..turns {
                let values = live.node.values(fill, live.seed ^ turn << 16);
                one(cx, &live, &Sample { fill, values }, special, &mut all)?;
            }
        }
    }
    match all {
        Compared { calls: 0, .. } if cx.live().next().is_none() => skipped("no node runs"),
        Compared { calls: 0, .. } => skipped("results not verified: no reference to compare with"),
        Compared { claims: 0, calls } => skipped(format!(
            "the reference accepts any value for every element of all {calls} calls"
        )),
        Compared { .. } => Ok(()),
    }
}

/// The number of comparisons, and how many of them constrained a value.
#[derive(Clone, Copy, Debug, Default)]
struct Compared {
    calls: usize,
    claims: usize,
}

/// Elements of inputs, and how they were filled.
struct Sample {
    fill: Fill,
    values: Vec<Vec<u8>>,
}

/// Compares one run with all oracles.
fn one(
    cx: &OpContext,
    live: &Live<'_>,
    Sample { fill, values }: &Sample,
    special: Special,
    all: &mut Compared,
) -> Outcome {
    let expected = cx.expected(live.node, values);
    if expected.is_empty() {
        return Ok(());
    }
    let run = match live.trial.run(values, How::default()) {
        Ok(run) => run,
        Err(fault @ CallError::Failed(_))
            if expected.iter().any(|own| own.kind == OracleKind::Reference) =>
        {
            return failed(format!(
                "{} of {}: {}, and the reference has results",
                fill.name(),
                live.describe(cx),
                fault
            ));
        }
        // Another case covers refused elements.
        Err(CallError::Failed(_)) => return Ok(()),
        Err(fault) => return failed(format!("{}: {}", live.describe(cx), fault)),
    };
    for expected in &expected {
        all.calls += 1;
        all.claims += usize::from(expected.wanted.iter().any(Expected::claims));
        cx.recorder.wants(expected);
        let said = || format!("{} of {}", fill.name(), live.describe(cx));
        compare_outputs(live.node, &run.outputs, expected, special, said)?;
    }
    Ok(())
}

/// Compares a node's outputs with expected results.
pub(super) fn compare_outputs(
    node: &Node,
    outputs: &[Output],
    expected: &OracleResults,
    special: Special,
    said: impl Fn() -> String,
) -> Outcome {
    for (port, (made, wanted)) in outputs.iter().zip(&expected.wanted).enumerate() {
        let Some(desc) = node.outputs.get(port) else { continue };
        let why = match &wanted.dims {
            Some(dims) if *dims != made.dims => {
                Some(format!("is {:?}, expected {dims:?}", made.dims))
            }
            _ => first_mismatch(desc, &numbers(desc, &made.bytes), wanted, special)
                .or_else(|| other_integer(desc, made, wanted)),
        };
        if let Some(why) = why {
            return failed(format!(
                "{}: output {port} {why}, by {}",
                said(),
                expected.kind.describe()
            ));
        }
    }
    Ok(())
}

/// Finds an integer that differs though its nearest `f64` is equal.
fn other_integer(desc: &TensorDesc, made: &Output, wanted: &Expected) -> Option<String> {
    let (integers_wanted, allowed) = (wanted.integers.as_ref()?, wanted.allowed.as_ref()?);
    if desc.dtype() != Some(DType::I64) {
        return None;
    }
    let found = integers(desc, &made.bytes);
    let mut all = found.iter().zip(integers_wanted).zip(allowed).enumerate();
    let is_off =
        |((found, wanted), allowed): ((&i64, &i64), &f64)| found != wanted && *allowed == 0.0;
    let (at, ((found, wanted), _)) = all.find(|(_, element)| is_off(*element))?;
    Some(format!("has {found} at {at}, expected {wanted}"))
}

/// Returns the tolerance of a type: relative to each element, and relative to the largest.
fn tolerance(desc: &TensorDesc) -> (f64, f64) {
    match desc.dtype() {
        Some(DType::F16) => (4e-3, 1e-3),
        Some(DType::Bf16) => (2e-2, 1e-2),
        Some(DType::F64 | DType::F32) => (2e-4, 2e-6),
        _ => (0.0, 0.0),
    }
}

/// An element, its expected value, and its tolerance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged {
    pub(crate) at: usize,
    pub(crate) found: f64,
    pub(crate) wanted: f64,
    pub(crate) allowed: f64,
    pub(crate) is_off: bool,
}

/// Returns the first element out of tolerance, if any.
fn first_mismatch(
    desc: &TensorDesc,
    found: &[f64],
    wanted: &Expected,
    special: Special,
) -> Option<String> {
    let Judged { at, found, wanted, allowed, .. } =
        judged(desc, found, wanted, special).into_iter().find(|element| element.is_off)?;
    let within = if wanted.is_finite() { format!(" within {allowed:.3e}") } else { String::new() };
    Some(format!("has {found} at {at}, expected {wanted}{within}"))
}

/// Describes the first difference from another call that computes the same values, maybe in another order.
pub(crate) fn differs(found: Seen<'_>, wanted: Seen<'_>) -> Option<String> {
    if found.dims != wanted.dims {
        return Some(format!("is {:?}, expected {:?}", found.dims, wanted.dims));
    }
    if found.is_exact() && found.desc.dtype() == wanted.desc.dtype() {
        let [own, others] = [found, wanted].map(|seen| integers(seen.desc, seen.bytes));
        let mut pairs = own.iter().zip(&others).enumerate();
        let (at, (own, other)) = pairs.find(|(_, (own, other))| own != other)?;
        return Some(format!("has {own} at {at}, expected {other}"));
    }
    let numbers = |seen: Seen<'_>| numbers(seen.desc, seen.bytes);
    let other = Expected { dims: None, numbers: numbers(wanted), allowed: None, integers: None };
    first_mismatch(wanted.desc, &numbers(found), &other, Special::Compare)
}

/// Returns every compared element with its expected value.
pub(crate) fn compared(desc: &TensorDesc, found: &[f64], wanted: &Expected) -> Vec<Judged> {
    judged(desc, found, wanted, Special::Compare)
}

fn judged(desc: &TensorDesc, found: &[f64], wanted: &Expected, special: Special) -> Vec<Judged> {
    let pairs = || found.iter().zip(&wanted.numbers).enumerate();
    if let Some(allowed) = &wanted.allowed {
        let all = pairs().zip(allowed);
        return all
            .map(|((at, (&found, &wanted)), &allowed)| {
                let is_off = is_beyond(found, wanted, allowed);
                Judged { at, found, wanted, allowed, is_off }
            })
            .collect();
    }
    let (relative, of_largest) = tolerance(desc);
    let (relative, of_largest) = match special {
        Special::Lossy => (8.0 * relative, 1000.0 * of_largest),
        Special::Skip | Special::Compare => (relative, of_largest),
    };
    let finite = wanted.numbers.iter().filter(|number| number.is_finite());
    let largest = finite.fold(0.0f64, |largest, number| largest.max(number.abs()));
    let encoding = desc.encoding().zip(desc.dtype());
    let limits = encoding.and_then(|(encoding, dtype)| {
        let (low, high) = match dtype {
            DType::U8 => (0.0, 255.0),
            DType::I8 => (-128.0, 127.0),
            DType::U16 => (0.0, 65535.0),
            DType::I16 => (-32768.0, 32767.0),
            _ => return None,
        };
        let of =
            |stored: f64| (stored - f64::from(encoding.zero_point)) * f64::from(encoding.scale);
        Some((of(low), of(high), f64::from(encoding.scale)))
    });
    // Denormal numbers are less precise.
    let least = if desc.dtype() == Some(DType::F16) { 1.2e-7 } else { 1e-30 };
    let most = if desc.dtype() == Some(DType::F16) { 65504.0 } else { f64::INFINITY };
    let mut all = Vec::new();
    for (at, (&found, &wanted)) in pairs() {
        if special != Special::Compare && !wanted.is_finite()
            || wanted.abs() > most && wanted.is_finite()
        {
            continue;
        }
        if wanted.is_nan() || !wanted.is_finite() {
            let is_off = limits.is_none() && !is_near(found, wanted, 0.0);
            all.push(Judged { at, found, wanted, allowed: 0.0, is_off });
            continue;
        }
        let (wanted, allowed) = match limits {
            Some((low, high, step)) => (wanted.clamp(low, high), 1.01 * step),
            None => (wanted, relative * wanted.abs() + of_largest * largest + least),
        };
        let is_off = !is_near(found, wanted, allowed);
        all.push(Judged { at, found, wanted, allowed, is_off });
    }
    all
}

/// Whether an element is out of tolerance.
fn is_beyond(found: f64, wanted: f64, allowed: f64) -> bool {
    // The computation of the oracle rounds too.
    !(allowed.is_infinite() || is_near(found, wanted, allowed * (1.0 + 1e-9)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use udo_api::{Encoding, Shape};

    #[test]
    fn numbers_are_held_to_bounds_where_there_are_some() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        let good = [(1.0, 1.1, 0.11), (nan, nan, 0.0), (inf, inf, 0.0), (3.0, nan, inf)];
        for (found, wanted, allowed) in good {
            assert!(!is_beyond(found, wanted, allowed), "{found} {wanted} {allowed}");
        }
        let bad = [(1.0, 1.1, 0.09), (nan, 1.0, 5.0), (1.0, nan, 0.0), (-inf, inf, 1.0)];
        for (found, wanted, allowed) in bad {
            assert!(is_beyond(found, wanted, allowed), "{found} {wanted} {allowed}");
        }
    }

    fn mismatch(desc: TensorDesc, found: &[f64], wanted: &[f64]) -> Option<String> {
        let dims = Some(vec![wanted.len()]);
        let wanted = Expected { dims, numbers: wanted.to_vec(), allowed: None, integers: None };
        first_mismatch(&desc, found, &wanted, Special::Compare)
    }

    #[test]
    fn numbers_are_compared_by_their_type() {
        let float = TensorDesc::new(DType::F32, Shape::new(&[2]).unwrap());
        assert_eq!(mismatch(float, &[1.0, f64::NAN], &[1.0001, f64::NAN]), None);
        assert!(
            mismatch(float, &[1.0, 0.0], &[1.01, 0.0])
                .unwrap()
                .starts_with("has 1 at 0, expected 1.01")
        );
        assert_eq!(
            mismatch(float, &[1.0, f64::NAN], &[1.0, 2.0]).unwrap(),
            "has NaN at 1, expected 2 within 4.040e-4"
        );
        assert_eq!(
            mismatch(float, &[f64::INFINITY, 0.0], &[f64::NAN, 0.0]).unwrap(),
            "has inf at 0, expected NaN"
        );
        let int = TensorDesc::new(DType::I32, Shape::new(&[2]).unwrap());
        assert!(mismatch(int, &[3.0, 4.0], &[3.0, 5.0]).is_some());
    }

    #[test]
    fn outputs_of_two_calls_have_the_same_extents_and_the_same_integers() {
        let desc = TensorDesc::new(DType::I64, Shape::new(&[2]).unwrap());
        let bytes = |last: i64| [1i64.to_le_bytes(), last.to_le_bytes()].concat();
        let (large, larger) = (bytes(1 << 53), bytes((1 << 53) + 1));
        let seen = |dims, bytes| Seen { desc: &desc, dims, bytes };
        assert_eq!(differs(seen(&[2], &large), seen(&[2], &large)), None);
        assert_eq!(
            differs(seen(&[2], &larger), seen(&[2], &large)).unwrap(),
            "has 9007199254740993 at 1, expected 9007199254740992"
        );
        assert_eq!(
            differs(seen(&[2, 1], &large), seen(&[1, 2], &large)).unwrap(),
            "is [2, 1], expected [1, 2]"
        );
    }

    #[test]
    fn quantized_numbers_may_be_a_step_apart_and_saturate() {
        let desc = TensorDesc::new(DType::U8, Shape::new(&[1]).unwrap());
        let desc = desc.with_encoding(Encoding { scale: 0.5, zero_point: 10 });
        assert_eq!(mismatch(desc, &[1.0], &[1.5]), None);
        assert_eq!(mismatch(desc, &[122.5], &[1000.0]), None);
        assert!(mismatch(desc, &[1.0], &[2.1]).is_some());
    }
}
