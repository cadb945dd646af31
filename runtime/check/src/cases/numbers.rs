//! The numbers that calls compute, next to those of who vouches for the operator.

use udo_api::{DType, TensorDesc};

use super::{Finding, Outcome, failed, skipped};
use crate::context::{Live, OpContext};
use crate::oracle::Wanted;
use crate::trial::{Fault, How, Trial};
use crate::values::{Fill, encoding_of, numbers};

pub(super) fn random(cx: &OpContext) -> Outcome {
    let turns = match cx.level {
        1 => 1,
        2..=5 => 3,
        _ => 8,
    };
    compare(cx, &[Fill::Random, Fill::Positive], turns, Special::Skip)
}

pub(super) fn large(cx: &OpContext) -> Outcome {
    compare(cx, &[Fill::Large, Fill::Equal, Fill::Small, Fill::Negative], 2, Special::Lossy)
}

pub(super) fn special(cx: &OpContext) -> Outcome {
    compare(cx, &[Fill::Nan, Fill::Infinite], 1, Special::Compare)
}

/// Whether numbers that are none are compared.
#[derive(Clone, Copy, PartialEq)]
enum Special {
    Skip,
    Compare,
    /// They are not, and digits are lost where large numbers are subtracted.
    Lossy,
}

pub(super) fn steps(cx: &OpContext) -> Outcome {
    let is_quantized =
        |live: &Live<'_>| live.node.inputs.iter().any(|i| i.desc.encoding().is_some());
    if !cx.live().any(|live| is_quantized(&live)) {
        return skipped("no input is quantized");
    }
    compare(cx, &[Fill::Ramp], 1, Special::Skip)
}

/// The same under encodings whose zero point lies at an end, or whose scale is small.
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
            let values = node.values(Fill::Random, live.seed);
            for oracle in cx.vouchers() {
                let Some(wanted) = oracle.wanted(&node, &values) else { continue };
                let Ok(said) = crate::node::inferred(
                    cx.subject.op,
                    &node.inputs,
                    &node.params,
                    node.outputs.len(),
                ) else {
                    continue;
                };
                let mut turned = node.clone();
                for ((output, said), wanted) in turned.outputs.iter_mut().zip(&said).zip(&wanted) {
                    let own = output.dtype().and_then(|dtype| encoding_of(dtype, &wanted.numbers));
                    if let Some(encoding) = said.encoding().or(own) {
                        *output = output.with_encoding(encoding);
                    }
                }
                let Ok(trial) = Trial::new(&turned, live.entry, cx.subject.core, 1) else {
                    continue;
                };
                let Ok(run) = trial.run(&values, How::default()) else { continue };
                compared += 1;
                for (port, (made, wanted)) in run.outputs.iter().zip(&wanted).enumerate() {
                    let Some(desc) = turned.outputs.get(port) else { continue };
                    if let Some(why) =
                        apart(desc, &numbers(desc, &made.bytes), wanted, Special::Skip)
                    {
                        return failed(format!(
                            "output {port} {why}, by {}: {}",
                            oracle.who.said(),
                            turned.said(cx.subject.core)
                        ));
                    }
                }
            }
        }
    }
    if compared == 0 { skipped("nothing is quantized, or nobody vouches for it") } else { Ok(()) }
}

fn compare(cx: &OpContext, fills: &[Fill], turns: u64, special: Special) -> Outcome {
    let mut compared = 0;
    for live in cx.live() {
        for &fill in fills {
            for turn in 0..turns {
                let values = live.node.values(fill, live.seed ^ turn << 16);
                compared += one(cx, &live, (fill, &values), special)?;
            }
        }
    }
    if compared == 0 {
        skipped("nobody vouches for it: there is no other kernel that computes the same")
    } else {
        Ok(())
    }
}

/// Compares one run with all who vouch for it, and says how many those are.
fn one(
    cx: &OpContext,
    live: &Live<'_>,
    (fill, values): (Fill, &[Vec<u8>]),
    special: Special,
) -> Result<usize, Finding> {
    let mut compared = 0;
    let mut run = None;
    for oracle in cx.vouchers() {
        let Some(wanted) = oracle.wanted(live.node, values) else { continue };
        if run.is_none() {
            run = match live.trial.run(values, How::default()) {
                Ok(run) => Some(run),
                // Elements that no call takes are another case's.
                Err(Fault::Failed(_)) => return Ok(compared),
                Err(fault) => return failed(format!("{}: {}", live.said(cx), fault.said())),
            };
        }
        let Some(run) = &run else { continue };
        compared += 1;
        for (port, (made, wanted)) in run.outputs.iter().zip(&wanted).enumerate() {
            let Some(desc) = live.node.outputs.get(port) else { continue };
            if made.dims != wanted.dims {
                return failed(format!(
                    "output {port} is {:?}, wanted {:?}: {}",
                    made.dims,
                    wanted.dims,
                    live.said(cx)
                ));
            }
            if let Some(why) = apart(desc, &numbers(desc, &made.bytes), wanted, special) {
                return failed(format!(
                    "{} of {}: output {port} {why}, by {}",
                    fill.name(),
                    live.said(cx),
                    oracle.who.said()
                ));
            }
        }
    }
    Ok(compared)
}

/// How far numbers of a type may be from those wanted: relative to each, and to the largest.
fn tolerance(desc: &TensorDesc) -> (f64, f64) {
    match desc.dtype() {
        Some(DType::F16) => (4e-3, 1e-3),
        Some(DType::Bf16) => (2e-2, 1e-2),
        Some(DType::F64 | DType::F32) => (2e-4, 2e-6),
        _ => (0.0, 0.0),
    }
}

/// Which element is not what is wanted; nothing where all are.
fn apart(desc: &TensorDesc, found: &[f64], wanted: &Wanted, special: Special) -> Option<String> {
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
    // The smallest numbers have few digits.
    let least = if desc.dtype() == Some(DType::F16) { 1.2e-7 } else { 1e-30 };
    let most = if desc.dtype() == Some(DType::F16) { 65504.0 } else { f64::INFINITY };
    for (at, (&found, &wanted)) in found.iter().zip(&wanted.numbers).enumerate() {
        if special != Special::Compare && !wanted.is_finite()
            || wanted.abs() > most && wanted.is_finite()
        {
            continue;
        }
        if wanted.is_nan() || !wanted.is_finite() {
            let is_same = limits.is_some()
                || found.is_nan() && wanted.is_nan()
                || found.total_cmp(&wanted).is_eq();
            if is_same {
                continue;
            }
            return Some(format!("has {found} at {at}, wanted {wanted}"));
        }
        let (wanted, allowed) = match limits {
            Some((low, high, step)) => (wanted.clamp(low, high), 1.01 * step),
            None => (wanted, relative * wanted.abs() + of_largest * largest + least),
        };
        if (found - wanted).abs() > allowed || found.is_nan() {
            return Some(format!("has {found} at {at}, wanted {wanted} within {allowed:.3e}"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use udo_api::{Encoding, Shape};

    fn said(desc: TensorDesc, found: &[f64], wanted: &[f64]) -> Option<String> {
        let wanted = Wanted { dims: vec![wanted.len()], numbers: wanted.to_vec() };
        apart(&desc, found, &wanted, Special::Compare)
    }

    #[test]
    fn numbers_are_compared_by_their_type() {
        let float = TensorDesc::new(DType::F32, Shape::new(&[2]).unwrap());
        assert_eq!(said(float, &[1.0, f64::NAN], &[1.0001, f64::NAN]), None);
        assert!(
            said(float, &[1.0, 0.0], &[1.01, 0.0]).unwrap().starts_with("has 1 at 0, wanted 1.01")
        );
        assert_eq!(
            said(float, &[1.0, f64::NAN], &[1.0, 2.0]).unwrap(),
            "has NaN at 1, wanted 2 within 4.040e-4"
        );
        assert_eq!(
            said(float, &[f64::INFINITY, 0.0], &[f64::NAN, 0.0]).unwrap(),
            "has inf at 0, wanted NaN"
        );
        let int = TensorDesc::new(DType::I32, Shape::new(&[2]).unwrap());
        assert!(said(int, &[3.0, 4.0], &[3.0, 5.0]).is_some());
    }

    #[test]
    fn quantized_numbers_may_be_a_step_apart_and_saturate() {
        let desc = TensorDesc::new(DType::U8, Shape::new(&[1]).unwrap());
        let desc = desc.with_encoding(Encoding { scale: 0.5, zero_point: 10 });
        assert_eq!(said(desc, &[1.0], &[1.5]), None);
        assert_eq!(said(desc, &[122.5], &[1000.0]), None);
        assert!(said(desc, &[1.0], &[2.1]).is_some());
    }
}
