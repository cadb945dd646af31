//! Branches and loops: what they compute, under all plans alike, and what is refused.

mod branches;
mod loops;
mod random_loops;
mod refusals;
mod sequences;
mod states;
mod unrolled;

use udo_api::guard::thread_heap_calls;
use udo_runtime::compile::PlanOptions;
use udo_runtime::graph::Graph;
use udo_runtime::{CompileOptions, Model, Session};
use udo_test_support::compile::{built_in, compile_graph};

/// The value of a named input.
enum Feed<'a> {
    Floats(&'a [f32]),
    Ints(&'a [i64]),
    Flag(bool),
}

fn compiled(text: &str, plan: PlanOptions) -> Model {
    let options = CompileOptions { plan, ..CompileOptions::default() };
    let graph = Graph::parse(text).unwrap();
    compile_graph(graph, &built_in(), &options).unwrap()
}

/// Whether planners may do what they can, with memory that begins as zeros and as NaNs.
fn plans() -> impl Iterator<Item = PlanOptions> {
    let all = [
        (true, true, true, 0),
        (true, true, true, 3),
        (true, true, false, 0),
        (false, true, true, 0),
        (false, true, true, 3),
        (true, false, true, 0),
        (false, false, false, 0),
    ];
    all.into_iter().flat_map(|(reuses_inputs, elides_concats, keeps_states, row_gap)| {
        let of = move |fill| {
            let others = PlanOptions::default();
            PlanOptions { reuses_inputs, elides_concats, keeps_states, row_gap, fill, ..others }
        };
        [of(0), of(255)]
    })
}

fn give(session: &mut Session, given: &[(&str, Feed<'_>)]) {
    for (name, given) in given {
        match given {
            Feed::Floats(values) => {
                session.input_mut::<f32>(name).unwrap().copy_from_slice(values);
            }
            Feed::Ints(values) => session.input_mut::<i64>(name).unwrap().copy_from_slice(values),
            Feed::Flag(truth) => {
                session.input_mut::<udo_api::Bool>(name).unwrap().fill((*truth).into());
            }
        }
    }
}

/// Runs a graph under all plans, for each of the inputs in turn, without heap calls; its output `y` and the extents of it
/// for each.
#[track_caller]
fn run(text: &str, runs: &[&[(&str, Feed<'_>)]]) -> Vec<(Vec<f32>, Vec<usize>)> {
    let mut first = None;
    for plan in plans() {
        let mut session = compiled(text, plan).session().unwrap();
        let results: Vec<_> = runs
            .iter()
            .map(|given| {
                give(&mut session, given);
                let before = thread_heap_calls();
                session.run().unwrap();
                assert_eq!(thread_heap_calls(), before);
                let dims = session.output_desc("y").unwrap().shape().to_vec();
                (session.output::<f32>("y").unwrap().to_vec(), dims)
            })
            .collect();
        match &first {
            None => first = Some(results),
            Some(first) => assert_eq!(first, &results, "{plan:?}"),
        }
    }
    first.unwrap()
}

/// The elements of `y` for each of the inputs.
#[track_caller]
fn elements(text: &str, runs: &[&[(&str, Feed<'_>)]]) -> Vec<Vec<f32>> {
    run(text, runs).into_iter().map(|(elements, _)| elements).collect()
}

/// The steps of a plan: operator and depth.
fn steps(model: &Model) -> Vec<(&str, usize)> {
    model.report().steps.iter().map(|step| (step.op.as_str(), step.depth)).collect()
}
