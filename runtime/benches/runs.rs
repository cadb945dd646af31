//! The cost of submitting a run and waiting for it, compared with a run on the caller's thread: an empty network.
//!
//! `cargo bench -p udo-runtime --bench runs` prints microseconds of a run, of a recorded launch that is submitted as soon as the
//! one before has ended, so that the queue's thread still looks for it, and of one that has to wake that thread.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, or stops")]

use std::time::{Duration, Instant};

use udo_api::guard::heap_calls;
use udo_api::{CoreKind, DType, GuardAlloc};
use udo_runtime::device::{DeviceTensor, TensorSpec};
use udo_runtime::graph::Graph;
use udo_runtime::run::RunOptions;
use udo_runtime::{LoadOptions, Runtime};

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;

const RUNS: usize = 20_000;

/// Long enough for a thread to go to sleep.
const PAUSE: Duration = Duration::from_millis(1);

/// The median of times in microseconds.
fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn timed(runs: usize, pause: Option<Duration>, mut run: impl FnMut()) -> (f64, u64) {
    (0..100).for_each(|_| run());
    let mut times = Vec::with_capacity(runs);
    let mut heap = 0;
    for _ in 0..runs {
        let since = Instant::now();
        while pause.is_some_and(|pause| since.elapsed() < pause) {
            std::thread::yield_now();
        }
        let (before, start) = (heap_calls(), Instant::now());
        run();
        times.push(start.elapsed().as_secs_f64() * 1e6);
        heap += heap_calls() - before;
    }
    (median(times), heap)
}

fn main() {
    let runtime = Runtime::new().unwrap();
    let text = "graph \"empty\"\n  input x: f32[1]\n  y = Identity@16(x)\n  output y\n";
    let model = runtime.load(Graph::parse(text).unwrap(), &LoadOptions::default()).unwrap();
    let cpu = runtime.devices().get(CoreKind::Cpu, 0).unwrap();
    let spec = TensorSpec::fixed(DType::F32, &[1]).unwrap();
    let [x, y] = [(); 2].map(|()| DeviceTensor::new(&cpu, spec).unwrap());
    let mut session = model.session().unwrap();
    let launch = session.record(&[x], &[Some(y)], RunOptions::default()).unwrap();
    let mut submit = || launch.submit().unwrap().wait().unwrap();
    let (spinning, heap) = timed(RUNS, None, &mut submit);
    let (sleeping, _) = timed(RUNS / 20, Some(PAUSE), &mut submit);
    let (run, _) = timed(RUNS, None, || session.run().unwrap());
    println!("run                          {run:6.2} us");
    println!("submit and wait, spinning    {spinning:6.2} us, {heap} heap calls in {RUNS} runs");
    println!("submit and wait, sleeping    {sleeping:6.2} us");
}
