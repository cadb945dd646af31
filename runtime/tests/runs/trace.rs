//! Traces of runs: who was at which step when, without the heap.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};

use udo_api::guard::thread_heap_calls;
use udo_api::types::F32;
use udo_api::{
    Core, DType, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpDef, OpSchema,
    PackageV1, Port, Shape,
};
use udo_runtime::graph::Graph;
use udo_runtime::run::{Span, SpanKind, Trace};
use udo_runtime::{CompileOptions, Model, Tensor};
use udo_test_support::compile::{built_in, compile_graph};
use udo_test_support::graphs;

static PACKAGE: PackageV1 = PackageV1::new("Meeting", "1.0.0")
    .ops(&[OpDef::of::<Meet>()])
    .kernels(&[KernelDef::new::<MeetF32>("Meet", Core::CPU)])
    .guarded();

/// Its kernel ends once as many threads are at it as there are.
struct Meet;

impl Op for Meet {
    const SCHEMA: OpSchema =
        OpSchema::new("Meet", &[Port::required("x", F32)], &[Port::required("y", F32)], &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

struct MeetF32;

impl Kernel for MeetF32 {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        outputs.take::<f32>(0)?.copy_from_slice(inputs.get(0)?);
        let threads = parallel.width();
        // Two jobs of one step.
        for _ in 0..2 {
            let present = AtomicUsize::new(0);
            parallel.run(threads, |_| {
                present.fetch_add(1, Ordering::AcqRel);
                while present.load(Ordering::Acquire) < threads {
                    std::hint::spin_loop();
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

fn three() -> NonZero<usize> {
    NonZero::new(3).unwrap()
}

fn meeting() -> Model {
    let graph = graphs::one_node("Meet", 1, DType::F32, &[4], &[]);
    graphs::compile(
        graph,
        &PACKAGE,
        &CompileOptions { threads: three(), ..CompileOptions::default() },
    )
    .unwrap()
}

const STEP: SpanKind = SpanKind::Step { plan: 0, step: 0 };

#[test]
fn every_thread_has_a_span_for_its_part_of_a_step() {
    let mut session = meeting().session().unwrap();
    let mut trace = Trace::new(three(), 4);
    session.run().unwrap();
    let heap = thread_heap_calls();
    for _ in 0..2 {
        session.run_traced(&mut trace).unwrap();
    }
    assert_eq!(thread_heap_calls() - heap, 0);
    let spans: Vec<Span> = trace.spans().collect();
    let threads: Vec<_> = spans.iter().map(|span| (span.thread, span.kind)).collect();
    assert_eq!(threads, [0, 0, 1, 1, 2, 2].map(|thread| (thread, STEP)));
    for (own, worker) in [(0, 2), (1, 3), (0, 4), (1, 5)] {
        let (own, worker) = (spans[own], spans[worker]);
        assert!(own.start <= worker.start && worker.busy <= worker.time, "{worker:?}");
        assert!(worker.start + worker.time <= own.start + own.time, "{worker:?} in {own:?}");
    }
    assert!(spans[0].start + spans[0].time <= spans[1].start);
    assert_eq!(trace.lost(), 0);
}

#[test]
fn spans_without_room_are_counted() {
    let mut session = meeting().session().unwrap();
    let mut trace = Trace::new(three(), 1);
    for _ in 0..3 {
        session.run_traced(&mut trace).unwrap();
    }
    assert_eq!(trace.spans().count(), 3, "the first run's");
    // A span of each thread and later run; of workers those of two jobs.
    assert_eq!(trace.lost(), 2 + 2 * 2 * 2);
    trace.clear();
    assert_eq!((trace.spans().count(), trace.lost()), (0, 0));
    session.run_traced(&mut trace).unwrap();
    assert_eq!((trace.spans().count(), trace.lost()), (3, 0));
}

/// Its second step wants what the first one computes, and its input's extent is open.
const COUNT: &str = "graph count
  input x: i64[n]
  constant zero: i64[]{0}
  constant one: i64[]{1}
  most = ReduceMax@18(x) keepdims=0 # most
  numbers = Range@11(zero, most, one) # numbers
  y = Add@14(numbers, x) # sums
  output y
";

#[test]
fn plans_that_are_made_meanwhile_are_spans() {
    let graph = Graph::parse(COUNT).unwrap();
    let operators = built_in();
    let model = compile_graph(graph, &operators, &CompileOptions::default()).unwrap();
    let mut session = model.session().unwrap();
    let x = Tensor::from_slice(Shape::new(&[2]).unwrap(), &[2i64, 1]).unwrap();
    let mut trace = Trace::new(NonZero::<usize>::MIN, 100);
    let steps = [STEP, SpanKind::Step { plan: 1, step: 0 }];
    for wanted in [&[SpanKind::Prepare, steps[0], SpanKind::Replan, steps[1]][..], &steps] {
        session.set_input("x", &x).unwrap();
        session.run_traced(&mut trace).unwrap();
        let kinds: Vec<_> = trace.spans().map(|span| span.kind).collect();
        assert_eq!(kinds, wanted);
        trace.clear();
    }
}
