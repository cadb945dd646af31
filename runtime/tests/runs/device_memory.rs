//! Leases, copies and refusals of device memory leave the heap alone, so that a run can be submitted without it.

use udo_api::CoreKind;
use udo_api::guard::thread_heap_calls;
use udo_engine::device::{Access, Cause, LeaseSet};
use udo_runtime::device::Devices;

/// Heap calls of this thread in `body`.
fn calls_of(body: impl FnOnce()) -> u64 {
    let before = thread_heap_calls();
    body();
    thread_heap_calls() - before
}

#[test]
fn a_prepared_run_takes_its_leases_without_the_heap() {
    let cpu = Devices::default().get(CoreKind::Cpu, 0).unwrap();
    let memories: Vec<_> = (0..20).map(|_| cpu.alloc(256).unwrap()).collect();
    let access = |at: usize| if at.is_multiple_of(2) { Access::Read } else { Access::Write };
    let bindings = || memories.iter().enumerate().map(|(at, memory)| (memory.all(), access(at)));
    let (mut run, mut other) = (LeaseSet::new(bindings()), LeaseSet::new(bindings()));
    let calls = calls_of(|| {
        for _ in 0..10 {
            run.take().unwrap();
            let conflict = other.take().unwrap_err();
            assert!(matches!(conflict.cause, Cause::Held { .. }));
            run.bytes_mut(1).unwrap().fill(1);
            run.give_back();
            run.bind(0, memories[2].all()).unwrap();
            run.bind(0, memories[0].all()).unwrap();
        }
    });
    assert_eq!(calls, 0);
    assert!(calls_of(|| drop(std::hint::black_box(Box::new(1)))) >= 2, "the counter counts");
}

#[test]
fn copies_leave_the_heap_alone() {
    let cpu = Devices::default().get(CoreKind::Cpu, 0).unwrap();
    let (one, two) = (cpu.alloc(1 << 16).unwrap(), cpu.alloc(1 << 16).unwrap());
    let mut host = vec![1; 1000];
    let calls = calls_of(|| {
        one.write(24, &host).unwrap();
        two.copy_from(0, &one, 24, 1000).unwrap();
        two.copy_from(10, &two, 0, 1000).unwrap();
        two.read(10, &mut host).unwrap();
        one.view(5..9).unwrap().fill(3).unwrap();
        let mut map = one.map_mut(0..100).unwrap();
        map.bytes_mut().unwrap().fill(4);
        assert!(one.lease(Access::Read).is_err());
        drop(map);
        drop(one.lease(Access::Write).unwrap());
    });
    assert_eq!((calls, host), (0, vec![1; 1000]));
}
