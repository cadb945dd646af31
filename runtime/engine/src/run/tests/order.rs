//! The order of runs: priorities, frames, streams.

use std::sync::Barrier;

use super::*;
use crate::device::ErrorCode;
use crate::run::{Priority, Stream};

/// A part that says that it began, then waits for the gate.
fn completion(said: &Sender<u32>, number: u32, gate: &Gate) -> Part {
    let (said, gate) = (Mutex::new(said.clone()), gate.clone());
    Arc::new(move |_| {
        lock(&said).send(number).unwrap();
        gate.pass()
    })
}

#[test]
fn what_matters_more_goes_first() {
    let gate = Gate::default();
    let (said, heard) = log();
    let first = Session::new(&Parts(vec![(cpu(), completion(&said, 0, &gate))]), 1, 8);
    let held = first.submit(RunOptions::default());
    assert_eq!(heard.recv_timeout(LONG), Ok(0));
    // Sessions of their own: their runs wait for the device and not for a frame.
    let of = |number| {
        let parts = Parts(vec![(cpu(), completion(&said, number, &gate))]);
        let work: Vec<Box<dyn Work>> = vec![Box::new(parts)];
        let options = FrameOptions { depth: 8, ..FrameOptions::default() };
        Frames::new(work, &first.queues, &[cpu()], options).unwrap()
    };
    let submit = |number, priority| {
        let bound = Bindings::new((&[first.tensor()], &[None]), &[], &first.home).unwrap();
        let options = RunOptions { priority: Some(priority), ..RunOptions::default() };
        of(number).record(bound, options).unwrap().submit().unwrap()
    };
    let runs = [
        submit(1, Priority::Low),
        submit(2, Priority::Medium),
        submit(3, Priority::High),
        submit(4, Priority::Medium),
    ];
    for _ in 0..5 {
        gate.open();
    }
    held.wait().unwrap();
    for run in &runs {
        run.wait().unwrap();
    }
    let order: Vec<u32> = heard.try_iter().collect();
    assert_eq!(order, [3, 2, 4, 1]);
}

#[test]
fn what_waits_for_a_frame_goes_by_priority_too() {
    let gate = Gate::default();
    let (said, heard) = log::<()>();
    let parts = Parts(vec![(cpu(), {
        let (said, gate) = (Mutex::new(said), gate.clone());
        Arc::new(move |_: &Stop<'_>| {
            lock(&said).send(()).unwrap();
            gate.pass()
        })
    })]);
    let session = Session::new(&parts, 1, 8);
    let (done, ended) = log();
    let submit = |number: u32, priority| {
        let done = done.clone();
        let on_done: Callback = Box::new(move |_| done.send(number).unwrap());
        session.submit(RunOptions {
            priority: Some(priority),
            on_done: Some(on_done),
            ..RunOptions::default()
        })
    };
    let mut runs = vec![submit(0, Priority::Low)];
    heard.recv_timeout(LONG).unwrap();
    runs.push(submit(1, Priority::Low));
    runs.push(submit(2, Priority::High));
    for _ in 0..3 {
        gate.open();
    }
    for run in &runs {
        run.wait().unwrap();
    }
    assert_eq!(ended.try_iter().collect::<Vec<_>>(), [0, 2, 1]);
}

#[test]
fn frames_are_on_three_devices_at_once() {
    let devices = [
        cpu(),
        DeviceId { kind: CoreKind::Dsp, index: 0 },
        DeviceId { kind: CoreKind::Dsp, index: 1 },
    ];
    // Nobody passes who is alone.
    let meet = Arc::new(Barrier::new(3));
    let rounds = Arc::new(Mutex::new([0; 3]));
    let part = |at: usize| -> Part {
        let (meet, rounds) = (Arc::clone(&meet), Arc::clone(&rounds));
        Arc::new(move |_| {
            // The first and the last two runs fill and drain the pipeline.
            let round = std::mem::replace(&mut lock(&rounds)[at], 0) + 1;
            lock(&rounds)[at] = round;
            if (3 - at..=10 - at).contains(&round) {
                meet.wait();
            }
            Ok(())
        })
    };
    let parts = devices.into_iter().enumerate().map(|(at, device)| (device, part(at)));
    let session = Session::new(&Parts(parts.collect()), 4, 16);
    let runs: Vec<_> = (0..10).map(|_| session.submit(RunOptions::default())).collect();
    for run in &runs {
        run.wait_timeout(LONG).unwrap();
    }
}

#[test]
fn runs_of_a_stream_go_one_after_the_other() {
    let gate = Gate::default();
    let (said, heard) = log();
    let parts = Parts(vec![
        (cpu(), completion(&said, 0, &gate)),
        (DeviceId { kind: CoreKind::Dsp, index: 0 }, completion(&said, 1, &gate)),
    ]);
    let session = Session::new(&parts, 4, 8);
    let stream = Stream::default();
    let options = || RunOptions { stream: Some(stream.clone()), ..RunOptions::default() };
    let runs: Vec<_> = (0..3).map(|_| session.submit(options())).collect();
    assert!(stream.is_busy());
    for _ in 0..3 {
        assert_eq!(heard.recv_timeout(LONG), Ok(0));
        gate.open();
        assert_eq!(heard.recv_timeout(LONG), Ok(1), "nothing else begins before the run ended");
        gate.open();
    }
    stream.sync().unwrap();
    assert!(!stream.is_busy());
    assert!(runs.iter().all(Run::is_done));
}

#[test]
fn an_error_reaches_everybody_who_waits_for_the_stream_and_nobody_later() {
    let gate = Gate::default();
    let pass = gate.clone();
    let count = Mutex::new(0);
    let session = Session::with_work(move |_| {
        pass.pass()?;
        let mut count = lock(&count);
        *count += 1;
        let why = crate::device::Error::new(ErrorCode::Internal, "the second one fails");
        if *count == 2 { Err(why) } else { Ok(()) }
    });
    let stream = Stream::default();
    let options = || RunOptions { stream: Some(stream.clone()), ..RunOptions::default() };
    let runs: Vec<_> = (0..3).map(|_| session.submit(options())).collect();
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..3).map(|_| scope.spawn(|| stream.sync())).collect();
        while stream.waiters() < 3 {
            std::thread::yield_now();
        }
        for _ in 0..3 {
            gate.open();
        }
        for waiter in waiters {
            let error = waiter.join().unwrap().unwrap_err();
            assert_eq!(error.to_string(), "the second one fails");
        }
    });
    assert_eq!(runs[0].wait(), Ok(()));
    assert_eq!(runs[1].wait().unwrap_err().to_string(), "the second one fails");
    assert_eq!(runs[2].wait(), Ok(()), "one that fails keeps no other from running");
    stream.sync().expect("somebody waited for the error before");
}
