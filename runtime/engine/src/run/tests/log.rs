//! The log of runs.

use super::*;
use crate::run::RunSpanKind::{self, Begins, Ends, Gives, Part as AtPart, Waits};

fn dsp() -> DeviceId {
    DeviceId { kind: CoreKind::Dsp, index: 1 }
}

/// Returns the spans of a run in the log.
fn spans_of_run(log: &RunLog, run: u64) -> Vec<(RunSpanKind, Option<DeviceId>)> {
    let spans = log.spans();
    spans.iter().filter(|s| s.run == run).map(|s| (s.kind, s.device)).collect()
}

fn on_two_devices() -> Parts {
    Parts(vec![(cpu(), Arc::new(|_| Ok(()))), (dsp(), Arc::new(|_| Ok(())))])
}

#[test]
fn a_run_is_noted_where_it_waits_and_where_it_is_at_work() {
    let log = RunLog::with_room(100);
    let session = Session::recorder(&on_two_devices(), 1, 8, Some(Arc::clone(&log)));
    let (launch, ..) = session.record(RunOptions::default());
    for run in 0..2 {
        launch.submit().unwrap().wait().unwrap();
        let expected = [
            (Waits, Some(cpu())),
            (Begins, Some(cpu())),
            (AtPart(0), Some(cpu())),
            (Waits, Some(dsp())),
            (AtPart(1), Some(dsp())),
            (Gives, Some(dsp())),
            (Ends(None), None),
        ];
        assert_eq!(spans_of_run(&log, run), expected, "run {run}");
    }
    assert_eq!((log.spans().len(), log.lost()), (14, 0));
    let spans = log.spans();
    for (before, after) in spans.iter().zip(&spans[1..]).filter(|(a, b)| a.run == b.run) {
        assert_eq!(before.start + before.time, after.start, "nothing lies between");
    }
}

#[test]
fn one_that_never_begins_has_waited_until_it_ended() {
    let log = RunLog::with_room(100);
    let gate = Gate::default();
    let pass = gate.clone();
    let parts = Parts(vec![(cpu(), Arc::new(move |_| pass.pass()))]);
    let session = Session::recorder(&parts, 1, 8, Some(Arc::clone(&log)));
    let (first, ..) = session.record(RunOptions::default());
    let (second, ..) = session.record(RunOptions::default());
    let first = first.submit().unwrap();
    let second = second.submit().unwrap();
    second.cancel();
    gate.open();
    first.wait().unwrap();
    assert_eq!(second.wait().unwrap_err().code(), ErrorCode::Cancelled);
    assert_eq!(spans_of_run(&log, 1), [(Waits, None), (Ends(Some(ErrorCode::Cancelled)), None)]);
}

#[test]
fn what_there_is_no_room_for_is_counted() {
    let log = RunLog::with_room(3);
    let session = Session::recorder(&on_two_devices(), 1, 8, Some(Arc::clone(&log)));
    let (launch, ..) = session.record(RunOptions::default());
    launch.submit().unwrap().wait().unwrap();
    assert_eq!((log.spans().len(), log.lost()), (3, 4));
}
