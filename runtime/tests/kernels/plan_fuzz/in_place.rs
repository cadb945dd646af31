//! Inputs and outputs of one shape in one place.

use std::collections::HashMap;

use udo_api::CoreKind;
use udo_engine::operators::Operators;
use udo_runtime::device::{DeviceTensor, Devices};
use udo_runtime::graph::ValueId;
use udo_runtime::run::RunOptions;
use udo_runtime::{CompileOptions, Model, Tensor};

use super::Coverage;
use super::graphs::Case;
use udo_test_support::compile::compile_graph;

/// Places of inputs and outputs of one shape, each in one pair at most.
fn pairs(case: &Case, model: &Model) -> Vec<(usize, usize)> {
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    let Some(plan) = model.plan() else { return pairs };
    for (output, name) in case.outputs.iter().enumerate() {
        let Some((_, made)) = plan.outputs().find(|(of, _)| of == name) else { continue };
        let mut inputs = plan.inputs().enumerate();
        let is_free = |input| pairs.iter().all(|(taken, _)| *taken != input);
        let input = inputs.find(|&(at, (_, of))| {
            let is_alike = of.dtype() == made.dtype() && of.full_shape() == made.full_shape();
            is_alike && made.full_shape().is_fixed() && is_free(at)
        });
        pairs.extend(input.map(|(at, _)| (at, output)));
    }
    pairs
}

/// That runs give what they should where each input of a pair is where its output goes.
pub(super) fn check(
    case: &Case,
    apart: &Model,
    operators: &Operators,
    options: &CompileOptions,
    (inputs, wanted): (&HashMap<ValueId, Tensor>, &HashMap<ValueId, Tensor>),
    met: &mut Coverage,
) -> Result<(), String> {
    let pairs = pairs(case, apart);
    if pairs.is_empty() {
        return Ok(());
    }
    let mut options = options.clone();
    let names = pairs
        .iter()
        .map(|&(input, output)| (case.inputs[input].0.clone(), case.outputs[output].clone()));
    options.in_place = names.collect();
    let fail = |found: String| format!("in place {:?}: {found}\n{}", options.in_place, case.graph);
    let model = compile_graph(case.graph.clone(), operators, &options);
    let model = model.map_err(|e| fail(e.to_string()))?;
    let mut session = model.session().unwrap();
    let cpu = Devices::default().get(CoreKind::Cpu, 0).unwrap();
    let given: Vec<_> = case.graph.inputs.iter().map(|id| &inputs[id]).collect();
    let to = |at| pairs.iter().find(|(_, output)| *output == at).map(|(input, _)| *input);
    for is_submitted in [false, true] {
        let given: Vec<_> =
            given.iter().map(|tensor| DeviceTensor::from_tensor(&cpu, tensor).unwrap()).collect();
        let places = (0..case.outputs.len()).map(|at| to(at).map(|input| given[input].clone()));
        let places: Vec<_> = places.collect();
        let (made, copies) = if is_submitted {
            let run = session.submit(&given, &places, RunOptions::default());
            let run = run.map_err(|e| fail(e.to_string()))?;
            run.wait().map_err(|e| fail(e.to_string()))?;
            let made = (0..places.len()).map(|at| run.output(at).unwrap());
            (made.collect(), run.copies().unwrap())
        } else {
            let made = session.run_on(&given, &places).map_err(|e| fail(e.to_string()))?;
            (made, session.copies())
        };
        for ((name, id), made) in case.outputs.iter().zip(&case.graph.outputs).zip(&made) {
            let (found, wanted) = (made.to_host().unwrap(), &wanted[id]);
            let [found, wanted] = [&found, wanted].map(|t| t.get::<f32>().unwrap_or_default());
            let same =
                |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            if found.len() != wanted.len() || !found.iter().zip(wanted).all(same) {
                return Err(fail(format!("output {name} is {found:?}, expected {wanted:?}")));
            }
        }
        let count = copies.inputs + copies.outputs;
        *met.entry("pairs in one place without copies").or_default() += usize::from(count == 0);
        *met.entry("pairs in one place by copies").or_default() += usize::from(count > 0);
    }
    Ok(())
}
