//! Which cores of a device runs are on.

use std::thread;

use super::*;
use crate::device::CoreSet;
use crate::run::DeviceLoad;

/// A run of its own session, which says when it begins and waits for its gate.
struct Gated {
    session: Session,
    gate: Gate,
}

fn dsp() -> DeviceId {
    DeviceId { kind: CoreKind::Dsp, index: 0 }
}

/// Queues of one DSP of so many cores.
fn queues(cores: u32) -> Arc<Queues> {
    let dsp = DeviceSpec { cores, ..DeviceSpec::new(Core::DSP_V68) };
    Queues::new(Devices::new(&[DeviceSpec::new(Core::CPU), dsp]).unwrap())
}

impl Gated {
    fn new(queues: &Arc<Queues>, threads: usize, said: &Sender<u32>, number: u32) -> Self {
        let gate = Gate::default();
        let (said, pass) = (Mutex::new(said.clone()), gate.clone());
        let part: Part = Arc::new(move |_| {
            lock(&said).send(number).unwrap();
            pass.pass()
        });
        let named = Some(dsp());
        let options = FrameOptions { depth: 8, threads, named, ..FrameOptions::default() };
        let session = Session::on(queues, &Parts(vec![(dsp(), part)]), 1, options);
        Self { session, gate }
    }

    fn submit(&self, cores: &[u32]) -> Run {
        let cores = (!cores.is_empty()).then(|| CoreSet::try_from(cores).unwrap());
        self.session.submit(RunOptions { cores, ..RunOptions::default() })
    }
}

#[test]
fn runs_on_free_cores_are_at_work_at_once() {
    let ((said, heard), queues) = (log(), queues(3));
    let gated = [0, 1, 2].map(|number| Gated::new(&queues, 1, &said, number));
    let runs = [gated[0].submit(&[2]), gated[1].submit(&[]), gated[2].submit(&[])];
    let mut begun = [0, 1, 2].map(|_| heard.recv_timeout(LONG).unwrap());
    begun.sort_unstable();
    assert_eq!(begun, [0, 1, 2]);
    for gated in &gated {
        gated.gate.open();
    }
    for run in &runs {
        run.wait().unwrap();
    }
}

#[test]
fn what_waits_and_what_is_at_work_is_counted() {
    let ((said, heard), queues) = (log(), queues(3));
    let device = queues.devices().get(CoreKind::Dsp, 0).unwrap();
    let found = || (queues.in_flight(), queues.waiting(&device));
    assert_eq!(found(), (0, DeviceLoad::default()));
    let [wide, waits] = [(2, 0), (2, 1)].map(|(n, number)| Gated::new(&queues, n, &said, number));
    let runs = [wide.submit(&[]), waits.submit(&[])];
    assert_eq!(heard.recv_timeout(LONG), Ok(0));
    assert_eq!(found(), (2, DeviceLoad { runs: 1, cores_at_work: 2 }));
    wide.gate.open();
    runs[0].wait().unwrap();
    assert_eq!(heard.recv_timeout(LONG), Ok(1));
    assert_eq!(found(), (1, DeviceLoad { runs: 0, cores_at_work: 2 }));
    waits.gate.open();
    runs[1].wait().unwrap();
    assert_eq!(queues.in_flight(), 0);
    drop((wide, waits));
    assert_eq!(queues.in_flight(), 0, "dropped sessions have no runs in flight");
}

#[test]
fn a_run_of_many_threads_has_as_many_cores() {
    let ((said, heard), queues) = (log(), queues(2));
    let wide = Gated::new(&queues, 2, &said, 0);
    let narrow = Gated::new(&queues, 1, &said, 1);
    let wide_run = wide.submit(&[]);
    assert_eq!(heard.recv_timeout(LONG), Ok(0));
    let narrow_run = narrow.submit(&[]);
    // The wide run ends first: the other one waits for a core.
    wide.gate.open();
    wide_run.wait().unwrap();
    assert_eq!(heard.recv_timeout(LONG), Ok(1));
    narrow.gate.open();
    narrow_run.wait().unwrap();
}

#[test]
fn who_waits_for_cores_is_not_overtaken_by_who_wants_fewer() {
    let ((said, heard), queues) = (log(), queues(2));
    let [first, both, last] = [(1, 0), (2, 1), (1, 2)]
        .map(|(threads, number)| Gated::new(&queues, threads, &said, number));
    let runs = [first.submit(&[0]), both.submit(&[0, 1]), last.submit(&[])];
    assert_eq!(heard.recv_timeout(LONG), Ok(0));
    for gated in [&first, &both, &last] {
        gated.gate.open();
    }
    for run in &runs {
        run.wait().unwrap();
    }
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_run_that_is_cancelled_leaves_the_cores_it_waited_for() {
    let ((said, heard), queues) = (log(), queues(2));
    let [first, both, last] = [(1, 0), (2, 1), (1, 2)]
        .map(|(threads, number)| Gated::new(&queues, threads, &said, number));
    let held = first.submit(&[0]);
    assert_eq!(heard.recv_timeout(LONG), Ok(0));
    let (waits, behind) = (both.submit(&[0, 1]), last.submit(&[]));
    waits.cancel();
    assert_eq!(waits.wait().unwrap_err().code(), ErrorCode::Cancelled);
    assert_eq!(heard.recv_timeout(LONG), Ok(2));
    first.gate.open();
    last.gate.open();
    held.wait().unwrap();
    behind.wait().unwrap();
}

#[test]
fn a_core_is_waited_for_without_the_others() {
    let ((said, heard), queues) = (log(), queues(3));
    let gated = [0, 1, 2].map(|number| Gated::new(&queues, 1, &said, number));
    let device = queues.devices().get(CoreKind::Dsp, 0).unwrap();
    let first = gated[0].submit(&[0]);
    let behind = gated[1].submit(&[0]);
    assert_eq!(heard.recv_timeout(LONG), Ok(0));
    let other = gated[2].submit(&[]);
    assert_eq!(heard.recv_timeout(LONG), Ok(2));
    // Core 0 is named by two and core 1 is at work; nobody is at core 2.
    queues.sync_core(&device, 2).unwrap();
    let waits = thread::scope(|scope| {
        let waits = scope.spawn(|| {
            queues.sync_core(&device, 0).unwrap();
            [first.is_done(), behind.is_done(), other.is_done()]
        });
        gated[0].gate.open();
        gated[1].gate.open();
        waits.join().unwrap()
    });
    assert_eq!(waits, [true, true, false]);
    gated[2].gate.open();
    queues.sync_core(&device, 1).unwrap();
    other.wait().unwrap();
}

#[test]
fn cores_that_are_not_there_and_callbacks_are_not_waited_for() {
    let ((said, heard), queues) = (log(), queues(2));
    let device = queues.devices().get(CoreKind::Dsp, 0).unwrap();
    let error = queues.sync_core(&device, 2).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert!(error.to_string().contains("core 2 does not exist"), "{error}");

    let gated = Gated::new(&queues, 1, &said, 0);
    let (completion, outcome) = log();
    let of_callback = Arc::clone(&queues);
    let on_done: Callback =
        Box::new(move |_| completion.send(of_callback.sync_core(&device, 0)).unwrap());
    let run = gated.session.submit(RunOptions { on_done: Some(on_done), ..RunOptions::default() });
    assert_eq!(heard.recv_timeout(LONG), Ok(0));
    gated.gate.open();
    run.wait().unwrap();
    let refused = outcome.recv_timeout(LONG).unwrap().unwrap_err();
    assert_eq!(refused.code(), ErrorCode::InvalidState);
}
