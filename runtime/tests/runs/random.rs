//! Many runs of many threads, ended at random, each looked at.

use std::slice;
use std::time::Duration;

use udo_api::Core;
use udo_engine::cores::{OpenCl, Profile};
use udo_runtime::compile::{Fallback, PlaceOptions};
use udo_runtime::device::{DeviceTensor, ErrorCode};
use udo_runtime::run::{Priority, RunOptions, SharedWorkspace, Stream};
use udo_runtime::{CompileOptions, Runtime, Session};
use udo_test_support::random::Random;

use super::{LONG, compile, cpu, elements, on, sharing, with_frames};

const TEXT: &str = "graph g
  input x: f32[4,16]
  constant w: f32[16,16]{0.0625}
  a = MatMul@13(x, w)
  b = Softmax@13(a) axis=-1
  c = MatMul@13(b, w)
  d = Sigmoid@13(c)
  y = Add@14(d, x)
  output y
";

/// How many runs: `UDO_RANDOM_RUNS`, else as many as a test has time for.
fn requested_runs() -> u64 {
    std::env::var("UDO_RANDOM_RUNS").ok().and_then(|wanted| wanted.parse().ok()).unwrap_or(200)
}

#[test]
fn every_run_gives_the_right_result_or_says_how_it_ended() {
    let runtime = Runtime::new().unwrap();
    let profile = Profile { opencl: OpenCl::Off, ..Profile::default() };
    let cores = [vec![Core::CPU], vec![Core::GPU, Core::CPU]];
    let models = cores.map(|cores| {
        let place = PlaceOptions {
            cores,
            fallback: Fallback::To(Core::CPU),
            profile,
            ..PlaceOptions::default()
        };
        compile(&runtime, TEXT, &CompileOptions { place, ..CompileOptions::default() })
    });
    let streams = [Stream::default(), Stream::default()];
    let workspace = SharedWorkspace::default();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (runtime, models, streams) = (&runtime, &models, &streams);
            // Two threads share a workspace, the others have their own.
            let sessions = models.each_ref().map(|model| match seed % 2 {
                0 => with_frames(model, 2),
                _ => sharing(model, &workspace, 2),
            });
            scope.spawn(move || several(Random::new(seed), runtime, sessions, streams));
        }
    });
    assert_eq!(workspace.bytes(&cpu(&runtime)), 0, "it goes with the last session");
    assert!(streams.iter().all(|stream| !stream.is_busy()));
}

/// The runs of one thread.
fn several(mut random: Random, runtime: &Runtime, mut sessions: [Session; 2], streams: &[Stream]) {
    let cpu = cpu(runtime);
    let inputs: Vec<DeviceTensor> =
        (0..4u8).map(|n| on(&cpu, &[4, 16], &[f32::from(n); 64])).collect();
    let right: Vec<Vec<Vec<f32>>> = sessions
        .iter_mut()
        .map(|session| {
            let mut run = |x: &DeviceTensor| session.run_on(slice::from_ref(x), &[None]).unwrap();
            inputs.iter().map(|x| elements(&run(x)[0])).collect()
        })
        .collect();
    let mut in_flight = Vec::new();
    for _ in 0..requested_runs() / 4 {
        let (of, given) = (random.below(2), random.below(4));
        let timeout = (random.below(3) == 0)
            .then(|| Duration::from_micros(u64::try_from(random.below(200)).unwrap()));
        let priority = [Priority::Low, Priority::Medium, Priority::High][random.below(3)];
        let stream = streams.get(random.below(4)).cloned();
        let options =
            RunOptions { timeout, priority: Some(priority), cores: None, stream, on_done: None };
        if random.below(8) == 0 {
            let made = sessions[of].run_on(slice::from_ref(&inputs[given]), &[None]).unwrap();
            assert_eq!(elements::<f32>(&made[0]), right[of][given]);
        }
        let run = sessions[of].submit(slice::from_ref(&inputs[given]), &[None], options).unwrap();
        let is_cancelled = random.below(4) == 0;
        if is_cancelled {
            run.cancel();
        }
        in_flight.push((run, &right[of][given], timeout, is_cancelled));
        if random.below(2) == 0 || in_flight.len() > 8 {
            let at = random.below(in_flight.len());
            check(in_flight.swap_remove(at));
        }
    }
    in_flight.into_iter().for_each(check);
}

type Submitted<'a> = (udo_runtime::Run, &'a Vec<f32>, Option<Duration>, bool);

fn check((run, right, timeout, is_cancelled): Submitted<'_>) {
    match run.wait_timeout(LONG) {
        Ok(()) => assert_eq!(&elements::<f32>(&run.output(0).unwrap()), right),
        Err(error) => {
            let is_right = match error.code() {
                ErrorCode::Cancelled => is_cancelled,
                ErrorCode::Timeout => timeout.is_some(),
                _ => false,
            };
            assert!(is_right, "{error}");
        }
    }
}
