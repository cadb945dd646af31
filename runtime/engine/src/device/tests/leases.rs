//! Who may be at which bytes.

use std::sync::Arc;
use std::thread;

use super::{Random, cpu, refusal, refused, zeros};
use crate::device::{Access, Cause, ErrorCode, Lease, LeaseSet, Memory, MemoryView};

#[test]
fn readers_share_and_a_writer_is_alone() {
    let memory = zeros(&cpu(), 128);
    let first = memory.lease(Access::Read).unwrap();
    let second = memory.view(0..64).unwrap().lease(Access::Read).unwrap();
    let mut read = [1; 4];
    memory.read(0, &mut read).unwrap();
    assert_eq!(read, [0; 4]);
    let id = memory.memory_id();
    let (code, message) = refusal(memory.write(60, &[1; 8]));
    assert_eq!(code, ErrorCode::Busy);
    assert_eq!(
        message,
        format!(
            "bytes 60..68 of memory {id} on cpu:0 cannot be written now: bytes 0..128 are being read; end the run or \
             mapping that reads them first"
        )
    );
    drop(first);
    refused(memory.write(60, &[1; 8]), ErrorCode::Busy, "bytes 0..64 are being read");
    memory.write(64, &[1; 8]).unwrap();
    drop(second);
    memory.write(60, &[1; 8]).unwrap();
    let writer = memory.view(0..64).unwrap().lease(Access::Write).unwrap();
    refused(memory.read(63, &mut read), ErrorCode::Busy, "bytes 0..64 are being written");
    refused(memory.map(0..1), ErrorCode::Busy, "bytes 0..64 are being written");
    refused(memory.fill(1), ErrorCode::Busy, "cannot be written now");
    refused(memory.copy_from(64, &memory, 0, 8), ErrorCode::Busy, "cannot be read now");
    memory.read(64, &mut read).unwrap();
    drop(writer);
    memory.fill(1).unwrap();
}

#[test]
fn a_lease_does_what_it_is_for() {
    let memory = zeros(&cpu(), 64);
    let mut reader = memory.lease(Access::Read).unwrap();
    assert_eq!(reader.bytes(), Some(&[0; 64][..]));
    assert_eq!(reader.bytes_mut(), None);
    refused(reader.write(0, &[1]), ErrorCode::InvalidArgument, "a lease to read memory");
    refused(reader.fill(1), ErrorCode::InvalidArgument, "take one to write");
    drop(reader);
    let mut writer = memory.view(8..16).unwrap().lease(Access::Write).unwrap();
    writer.bytes_mut().unwrap().copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
    writer.write(6, &[9, 9]).unwrap();
    refused(writer.write(7, &[9, 9]), ErrorCode::InvalidArgument, "bytes 7..9");
    let mut read = [0; 3];
    writer.read(5, &mut read).unwrap();
    assert_eq!(read, [6, 9, 9]);
    refused(writer.read(6, &mut read), ErrorCode::InvalidArgument, "bytes 6..9");
    drop(memory);
    assert_eq!(writer.bytes().unwrap(), [1, 2, 3, 4, 5, 6, 9, 9], "a lease keeps its memory");
}

#[test]
fn a_memory_has_64_leases_at_once() {
    let memory = zeros(&cpu(), 64);
    let mut leases: Vec<_> = (0..64).map(|_| memory.lease(Access::Read).unwrap()).collect();
    let conflict = memory.lease(Access::Read).unwrap_err();
    assert_eq!((conflict.cause, conflict.code()), (Cause::Full, ErrorCode::Busy));
    assert!(conflict.to_string().contains("there are 64 leases"), "{conflict}");
    assert!(
        memory.view(3..3).unwrap().lease(Access::Write).is_ok(),
        "no bytes are in nobody's way"
    );
    leases.remove(17);
    leases.push(memory.lease(Access::Read).unwrap());
    drop(leases);
    memory.fill(1).unwrap();
}

#[test]
fn a_run_has_all_of_its_leases_or_none() {
    let device = cpu();
    let [x, y, z] = [(); 3].map(|()| zeros(&device, 16));
    let bindings = || [(x.all(), Access::Read), (y.all(), Access::Write), (z.all(), Access::Write)];
    let mut run = LeaseSet::new(bindings());
    let mut other = LeaseSet::new(bindings());
    assert!(run.get(0).is_none() && run.bytes_mut(1).is_none(), "no bytes without a lease");
    refused(run.write(1, 0, &[1]), ErrorCode::InvalidState, "binding 1 has no lease");
    let reader = z.view(15..16).unwrap().lease(Access::Read).unwrap();
    let conflict = run.take().unwrap_err();
    assert_eq!(
        (conflict.binding, conflict.memory, conflict.access),
        (2, z.memory_id(), Access::Write)
    );
    y.write(0, &[1]).unwrap();
    drop(reader);
    run.take().unwrap();
    assert_eq!(other.take().unwrap_err().code(), ErrorCode::Busy);
    assert_eq!(run.take().unwrap_err().cause, Cause::Taken);
    refused(y.write(0, &[1]), ErrorCode::Busy, "are being written");
    refused(x.write(0, &[1]), ErrorCode::Busy, "are being read");
    assert_eq!(run.get(0).unwrap().bytes(), Some(&[0; 16][..]));
    assert_eq!(run.bytes_mut(0), None, "an input is not written");
    run.bytes_mut(1).unwrap().fill(5);
    run.write(2, 4, &[6]).unwrap();
    refused(run.write(0, 0, &[6]), ErrorCode::InvalidArgument, "a lease to read");
    refused(run.bind(0, z.all()), ErrorCode::InvalidState, "binding 0 cannot change");
    run.give_back();
    run.give_back();
    other.take().unwrap();
    assert_eq!(
        (other.get(1).unwrap().bytes().unwrap()[0], other.get(2).unwrap().bytes().unwrap()[4]),
        (5, 6)
    );
    drop(other);
    x.write(0, &[1]).unwrap();
    refused(run.bind(3, z.all()), ErrorCode::InvalidArgument, "the run has 3");
    run.bind(2, x.all()).unwrap();
    assert_eq!(run.take().unwrap_err().code(), ErrorCode::InvalidArgument);
}

#[test]
fn one_memory_is_not_input_and_output_of_a_run_unless_in_place() {
    let memory = zeros(&cpu(), 64);
    let view = |start, end| memory.view(start..end).unwrap();
    let mut run = LeaseSet::new([(view(0, 32), Access::Read), (view(16, 48), Access::Write)]);
    let (code, message) = refusal(run.take());
    assert_eq!(code, ErrorCode::InvalidArgument);
    assert!(
        message.ends_with(
            "binding 1 shares bytes with binding 0 of the same run; give one of them others"
        ),
        "{message}"
    );
    memory.fill(1).unwrap();
    let busy = view(0, 1).lease(Access::Write).unwrap();
    assert_eq!(run.take().unwrap_err().cause, Cause::Alias { binding: 1 }, "whoever else is there");
    drop(busy);
    let mut apart = LeaseSet::new([(view(0, 16), Access::Read), (view(16, 48), Access::Write)]);
    apart.take().unwrap();
    let mut twice = LeaseSet::new([(view(0, 8), Access::Read), (view(4, 16), Access::Read)]);
    twice.take().unwrap();
    let mut in_place = LeaseSet::new([(view(48, 64), Access::Write)]);
    in_place.take().unwrap();
    assert_eq!(in_place.bytes_mut(0).unwrap(), [1; 16]);
    let mut none = LeaseSet::default();
    none.take().unwrap();
    none.give_back();
}

/// Leases as a list: any two that share a byte are to read.
struct Model(Vec<(usize, u64, u64, Access, usize)>);

impl Model {
    fn has_room(&self, memory: usize, start: u64, end: u64, access: Access) -> bool {
        let mut held = self.0.iter().filter(|lease| lease.0 == memory);
        held.all(|&(_, from, to, other, _)| {
            (access, other) == (Access::Read, Access::Read)
                || !(start..end).any(|byte| (from..to).contains(&byte))
        })
    }
}

enum Holder {
    One(Lease),
    Set(LeaseSet),
}

#[test]
fn leases_are_as_a_list_has_them() {
    for seed in 1..=20 {
        let mut random = Random(seed);
        let memories: Vec<Memory> = (0..3).map(|_| zeros(&cpu(), 16)).collect();
        let mut model = Model(Vec::new());
        let mut holders: Vec<(usize, Holder)> = Vec::new();
        for round in 0..500 {
            if random.below(3) == 0 && !holders.is_empty() {
                let (owner, holder) = holders.swap_remove(random.index(holders.len()));
                model.0.retain(|lease| lease.4 != owner);
                match holder {
                    Holder::One(lease) => drop(lease),
                    Holder::Set(mut set) => set.give_back(),
                }
                continue;
            }
            let wanted: Vec<_> = (0..=random.below(3))
                .map(|_| {
                    let (start, end) = (random.below(17), random.below(17));
                    let access = if random.below(3) == 0 { Access::Write } else { Access::Read };
                    (random.index(3), start.min(end), start.max(end), access)
                })
                .collect();
            let before = model.0.len();
            let is_free = wanted.iter().all(|&(memory, start, end, access)| {
                let has_room = model.has_room(memory, start, end, access);
                model.0.push((memory, start, end, access, round));
                has_room
            });
            if !is_free {
                model.0.truncate(before);
            }
            let views: Vec<(MemoryView, Access)> = wanted
                .iter()
                .map(|&(memory, start, end, access)| {
                    (memories[memory].view(start..end).unwrap(), access)
                })
                .collect();
            let holder = if let [(view, access)] = &views[..] {
                view.lease(*access).ok().map(Holder::One)
            } else {
                let mut set = LeaseSet::new(views);
                set.take().is_ok().then_some(Holder::Set(set))
            };
            assert_eq!(holder.is_some(), is_free, "seed {seed}, round {round}: {wanted:?}");
            holders.extend(holder.map(|holder| (round, holder)));
        }
        drop(holders);
        for memory in &memories {
            memory.fill(1).unwrap();
        }
    }
}

#[test]
fn what_threads_write_under_leases_is_not_lost() {
    let (one, two) = (zeros(&cpu(), 8), zeros(&cpu(), 8));
    let total = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count =
        |memory: &Memory| u64::from_ne_bytes(memory.read_all().unwrap().try_into().unwrap());
    thread::scope(|scope| {
        for thread in 0..4 {
            let bindings = [(one.all(), Access::Write), (two.all(), Access::Write)];
            let mut set = LeaseSet::new(if thread % 2 == 0 {
                bindings
            } else {
                let [a, b] = bindings;
                [b, a]
            });
            let total = Arc::clone(&total);
            scope.spawn(move || {
                for _ in 0..2000 {
                    if set.take().is_err() {
                        continue;
                    }
                    for binding in 0..2 {
                        let bytes = set.bytes_mut(binding).unwrap();
                        let next = u64::from_ne_bytes(bytes.try_into().unwrap()) + 1;
                        bytes.copy_from_slice(&next.to_ne_bytes());
                    }
                    set.give_back();
                    total.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
    });
    let total = total.load(std::sync::atomic::Ordering::Relaxed);
    assert!(total > 0);
    assert_eq!((count(&one), count(&two)), (total, total));
}
