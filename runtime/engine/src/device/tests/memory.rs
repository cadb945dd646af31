//! Reading, writing and copying.

use super::{Random, cpu, non_coherent, refused, zeros};
use crate::device::{AllocMemory, AllocOptions, Contents, ErrorCode};

#[test]
fn b15_partial_writes_end_at_the_last_byte() {
    for device in [cpu(), non_coherent(None), non_coherent(Some(3))] {
        let memory = zeros(&device, 100);
        memory.write(96, &[1, 2, 3, 4]).unwrap();
        let error = memory.write(97, &[9, 9, 9, 9]);
        refused(error, ErrorCode::InvalidArgument, "bytes 97..101 of memory");
        let mut read = [0; 4];
        memory.read(96, &mut read).unwrap();
        assert_eq!(read, [1, 2, 3, 4], "nothing of it was written");
        refused(memory.read(97, &mut read), ErrorCode::InvalidArgument, "within 0..100");
        assert_eq!(read, [1, 2, 3, 4], "nothing of it was read");
        refused(memory.write(u64::MAX, &[1]), ErrorCode::InvalidArgument, "expected a range");
        memory.write(100, &[]).unwrap();
        refused(memory.write(101, &[]), ErrorCode::InvalidArgument, "expected a range");
    }
}

#[test]
fn b15_offsets_are_on_the_devices_side() {
    let memory = zeros(&cpu(), 8);
    memory.write(5, &[7, 8]).unwrap();
    assert_eq!(memory.read_all().unwrap(), [0, 0, 0, 0, 0, 7, 8, 0]);
    let part = memory.view(4..8).unwrap();
    part.write(0, &[6]).unwrap();
    assert_eq!(part.read_all().unwrap(), [6, 7, 8, 0]);
}

#[test]
fn views_are_parts_that_keep_the_whole() {
    let device = cpu();
    let memory = zeros(&device, 100);
    let id = memory.memory_id();
    let part = memory.view(10..20).unwrap().view(5..10).unwrap();
    assert_eq!((part.range().start(), part.range().end(), part.len()), (15, 20, 5));
    assert_eq!(part, memory.view(15..20).unwrap());
    assert_eq!(part.to_string(), format!("memory {id} on cpu:0 (its bytes 15..20 of 100)"));
    assert_eq!(memory.to_string(), format!("memory {id} on cpu:0 of 100 bytes"));
    drop(memory);
    part.fill(9).unwrap();
    let whole = part.memory();
    assert_eq!((whole.len(), whole.memory_id()), (100, id));
    assert_eq!(whole.view(14..21).unwrap().read_all().unwrap(), [0, 9, 9, 9, 9, 9, 0]);
    #[expect(clippy::reversed_empty_ranges, reason = "it is refused")]
    let reversed = part.view(4..3);
    refused(reversed, ErrorCode::InvalidArgument, "bytes 4..3");
    refused(part.view(0..6), ErrorCode::InvalidArgument, "within 0..5");
    assert!(part.view(5..5).unwrap().is_empty());
}

#[test]
fn memory_of_no_bytes_is_fine() {
    for device in [cpu(), non_coherent(None)] {
        let memory = device.alloc(0).unwrap();
        memory.write(0, &[]).unwrap();
        memory.fill(1).unwrap();
        assert_eq!(memory.read_all().unwrap(), [0; 0]);
        assert_eq!(memory.map_mut(0..0).unwrap().bytes_mut().unwrap(), [0; 0]);
        memory.copy_from(0, &memory, 0, 0).unwrap();
        refused(memory.write(0, &[1]), ErrorCode::InvalidArgument, "bytes 0..1");
    }
}

#[test]
fn fresh_memory_is_no_number_in_debug_builds() {
    for device in [cpu(), non_coherent(None)] {
        let options = AllocOptions { contents: Contents::Zeros, ..AllocOptions::default() };
        assert_eq!(device.alloc_with(70, &options).unwrap().read_all().unwrap(), [0; 70]);
        if cfg!(debug_assertions) {
            let fresh = device.alloc(70).unwrap();
            assert_eq!(fresh.read_all().unwrap(), [0xff; 70]);
            assert_eq!(fresh.map_unsynced(0..70).unwrap().bytes().unwrap(), [0xff; 70]);
            assert!(f32::from_ne_bytes([0xff; 4]).is_nan());
        }
    }
}

#[test]
fn copies_overlap_as_memmove_has_it() {
    let mut random = Random(11);
    for device in [cpu(), non_coherent(Some(1))] {
        let memory = device.alloc(300).unwrap();
        let mut model = random.bytes(300);
        memory.write(0, &model).unwrap();
        for round in 0..300 {
            let (to, from) = (random.index(300), random.index(300));
            let len = random.index(301 - to.max(from));
            memory.copy_from(to as u64, &memory, from as u64, len as u64).unwrap();
            model.copy_within(from..from + len, to);
            assert_eq!(
                memory.read_all().unwrap(),
                model,
                "round {round}: {len} from {from} to {to}"
            );
            assert_eq!(memory.map_unsynced(0..300).unwrap().bytes().unwrap(), model);
        }
    }
}

#[test]
fn copies_between_devices_are_in_bytes_and_within_both() {
    let (cpu, dsp) = (cpu(), non_coherent(None));
    let (from, to) = (zeros(&cpu, 10), zeros(&dsp, 8));
    from.write(0, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).unwrap();
    to.copy_from(3, &from, 7, 3).unwrap();
    assert_eq!(to.read_all().unwrap(), [0, 0, 0, 8, 9, 10, 0, 0]);
    refused(to.copy_from(6, &from, 0, 3), ErrorCode::InvalidArgument, "bytes 6..9");
    refused(to.copy_from(0, &from, 8, 3), ErrorCode::InvalidArgument, "bytes 8..11");
    refused(to.copy_from(0, &from, 0, u64::MAX), ErrorCode::InvalidArgument, "within 0..8");
    assert_eq!(to.read_all().unwrap(), [0, 0, 0, 8, 9, 10, 0, 0], "nothing of it was copied");
}
