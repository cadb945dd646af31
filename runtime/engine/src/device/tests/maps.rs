//! Mappings, and what shows of a flush or an invalidation that somebody forgot.

use udo_api::Core;

use super::{Random, cpu, device_of, non_coherent, refused, zeros};
use crate::device::{Access, Capabilities, DeviceSpec, ErrorCode};

#[test]
fn mappings_of_a_coherent_device_are_its_memory() {
    let memory = zeros(&cpu(), 200);
    let mut map = memory.map_mut(10..20).unwrap();
    map.bytes_mut().unwrap().fill(1);
    refused(memory.map(19..21), ErrorCode::Busy, "bytes 10..20 are being written");
    let beside = memory.map(20..200).unwrap();
    assert_eq!(beside.bytes().unwrap(), [0; 180]);
    map.flush(0..10).unwrap();
    map.invalidate(0..10).unwrap();
    assert_eq!(map.bytes().unwrap(), [1; 10], "there is nothing to lose");
    refused(map.flush(5..11), ErrorCode::InvalidArgument, "bytes 5..11 of a mapping of 10 bytes");
    drop(map);
    let map = memory.map(8..22).unwrap();
    assert_eq!(map.bytes().unwrap(), [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0]);
    let lease = memory.view(8..22).unwrap().lease(Access::Read).unwrap();
    assert_eq!(map.as_ptr(), lease.as_ptr().cast_const(), "no copy");
    refused(memory.map(0..201), ErrorCode::InvalidArgument, "within 0..200");
    refused(memory.flush(0..201), ErrorCode::InvalidArgument, "within 0..200");
    refused(memory.invalidate(200..201), ErrorCode::InvalidArgument, "within 0..200");
}

#[test]
fn b17_the_device_reads_old_bytes_until_they_are_flushed() {
    let memory = zeros(&non_coherent(None), 64);
    let mut map = memory.map_mut_unsynced(0..64).unwrap();
    map.bytes_mut().unwrap().fill(1);
    drop(map);
    let device = |at: usize| memory.lease(Access::Read).unwrap().bytes().unwrap()[at];
    assert_eq!(device(5), 0, "nobody flushed");
    assert_eq!(memory.read_all().unwrap(), [0; 64], "copies are of what the device has");
    assert_eq!(memory.map_unsynced(0..64).unwrap().bytes().unwrap(), [1; 64], "the host sees it");
    memory.flush(0..64).unwrap();
    assert_eq!(device(5), 1);
    let mut map = memory.map_mut_unsynced(0..64).unwrap();
    map.bytes_mut().unwrap().fill(2);
    map.flush(0..64).unwrap();
    drop(map);
    assert_eq!(device(5), 2);
}

#[test]
fn b17_the_host_reads_old_bytes_until_they_are_invalidated() {
    let memory = zeros(&non_coherent(None), 64);
    memory.lease(Access::Write).unwrap().fill(7).unwrap();
    let mut map = memory.map_unsynced(0..64).unwrap();
    assert_eq!(map.bytes().unwrap(), [0; 64], "nobody invalidated");
    map.invalidate(0..64).unwrap();
    assert_eq!(map.bytes().unwrap(), [7; 64]);
    refused(map.invalidate(0..65), ErrorCode::InvalidArgument, "bytes 0..65 of a mapping");
    drop(map);
    memory.lease(Access::Write).unwrap().fill(8).unwrap();
    assert_eq!(memory.map_unsynced(0..64).unwrap().bytes().unwrap(), [7; 64]);
    memory.invalidate(3..4).unwrap();
    assert_eq!(memory.map_unsynced(0..64).unwrap().bytes().unwrap(), [8; 64]);
}

#[test]
fn b17_mappings_that_keep_in_step_show_what_is_there() {
    let memory = zeros(&non_coherent(None), 100);
    memory.lease(Access::Write).unwrap().fill(3).unwrap();
    assert_eq!(
        memory.map(0..100).unwrap().bytes().unwrap(),
        [3; 100],
        "it begins with what the device has"
    );
    memory.map_mut(70..80).unwrap().bytes_mut().unwrap().fill(4);
    let device = memory.read_all().unwrap();
    assert_eq!(
        (device[69], device[70], device[79], device[80]),
        (3, 4, 4, 3),
        "and ends on the device"
    );
}

#[test]
fn b17_a_device_that_cannot_be_mapped_says_so() {
    let capabilities = Capabilities { can_map: false, can_share: true };
    let device = device_of(DeviceSpec { capabilities, ..DeviceSpec::new(Core::HTA) });
    let memory = zeros(&device, 64);
    refused(memory.map(0..64), ErrorCode::Unsupported, "cannot be mapped");
    refused(memory.map_mut(0..64), ErrorCode::Unsupported, "read and write it");
    refused(memory.map_unsynced(0..1), ErrorCode::Unsupported, "on hta:0");
    refused(memory.map_mut_unsynced(0..1), ErrorCode::Unsupported, "on hta:0");
    memory.write(0, &[1]).unwrap();
    assert_eq!(memory.read_all().unwrap()[..2], [1, 0], "copies get there");
}

#[test]
fn b18_a_flush_is_of_the_lines_that_it_touches() {
    let memory = zeros(&non_coherent(None), 256);
    let mut map = memory.map_mut_unsynced(0..256).unwrap();
    for at in [0, 60, 67, 127, 128, 255] {
        map.bytes_mut().unwrap()[at] = 1;
    }
    map.flush(60..68).unwrap();
    drop(map);
    let device = memory.read_all().unwrap();
    let seen = [0, 60, 67, 127, 128, 255].map(|at| device[at]);
    assert_eq!(seen, [1, 1, 1, 1, 0, 0]);
    memory.view(100..200).unwrap().flush(28..29).unwrap();
    let device = memory.read_all().unwrap();
    assert_eq!((device[128], device[255]), (1, 0), "offsets are the view's, lines the memory's");
}

#[test]
fn b18_an_invalidation_is_of_the_lines_that_it_touches_and_loses_what_was_written() {
    let memory = zeros(&non_coherent(None), 256);
    let mut map = memory.map_mut_unsynced(10..256).unwrap();
    map.bytes_mut().unwrap().fill(1);
    map.invalidate(50..58).unwrap();
    let host = map.bytes().unwrap();
    assert_eq!([0, 53, 54, 117, 118].map(|at| host[at]), [0, 0, 0, 0, 1], "mapped from byte 10 on");
    map.flush(0..246).unwrap();
    drop(map);
    let device = memory.read_all().unwrap();
    assert_eq!([10, 127, 128, 255].map(|at| device[at]), [0, 0, 1, 1]);
}

#[test]
fn a_flush_writes_dirty_lines_alone() {
    let memory = zeros(&non_coherent(None), 192);
    let mut map = memory.map_mut_unsynced(0..192).unwrap();
    map.bytes_mut().unwrap()[64] = 1;
    drop(map);
    memory.lease(Access::Write).unwrap().fill(9).unwrap();
    memory.flush(0..192).unwrap();
    let device = memory.read_all().unwrap();
    assert_eq!(
        [63, 64, 65, 127, 128].map(|at| device[at]),
        [9, 1, 0, 0, 9],
        "a line goes as a whole"
    );
}

#[test]
fn copies_are_seen_by_the_host_to_the_byte() {
    let memory = zeros(&non_coherent(None), 128);
    let mut map = memory.map_mut_unsynced(0..64).unwrap();
    map.bytes_mut().unwrap()[0] = 1;
    drop(map);
    memory.write(10, &[5; 10]).unwrap();
    let host = memory.map_unsynced(0..64).unwrap().bytes().unwrap().to_vec();
    assert_eq!(
        (host[0], host[9], host[10], host[19], host[20]),
        (1, 0, 5, 5, 0),
        "byte 0 is still dirty"
    );
    memory.flush(0..1).unwrap();
    let device = memory.read_all().unwrap();
    assert_eq!((device[0], device[10], device[20]), (1, 5, 0));
}

#[test]
fn mappings_that_are_not_coherent_lease_whole_lines() {
    let memory = zeros(&non_coherent(None), 200);
    let map = memory.map_mut(60..70).unwrap();
    refused(memory.read(0, &mut [0]), ErrorCode::Busy, "bytes 0..128 are being written");
    refused(memory.map(127..128), ErrorCode::Busy, "bytes 0..128 are being written");
    refused(memory.flush(0..1), ErrorCode::Busy, "cannot be written now");
    refused(memory.invalidate(0..1), ErrorCode::Busy, "cannot be read now");
    memory.read(128, &mut [0]).unwrap();
    let last = memory.map_mut(199..200).unwrap();
    refused(memory.read(192, &mut [0]), ErrorCode::Busy, "bytes 192..200 are being written");
    drop((map, last));
    let readers = [memory.map(0..10).unwrap(), memory.map(5..70).unwrap()];
    assert_eq!(readers[0].bytes().unwrap()[5..], readers[1].bytes().unwrap()[..5]);
}

#[test]
fn a_cache_with_a_seed_lets_go_of_some_lines_by_itself() {
    let lines = 64;
    let written_back = |seed| {
        let memory = zeros(&non_coherent(Some(seed)), lines * 64);
        let mut map = memory.map_mut_unsynced(0..lines * 64).unwrap();
        map.bytes_mut().unwrap().fill(1);
        drop(map);
        let device = memory.read_all().unwrap();
        device
            .chunks(64)
            .map(|line| {
                assert!(line.iter().all(|&byte| byte == line[0]), "lines go as a whole");
                line[0] == 1
            })
            .collect::<Vec<_>>()
    };
    let first = written_back(1);
    let evicted = first.iter().filter(|&&line| line).count();
    assert!(
        (4..32).contains(&evicted),
        "{evicted} of {lines} lines, of which one in four is expected"
    );
    assert_eq!(written_back(1), first, "the same with the same seed");
    assert_ne!(written_back(2), first);
}

#[test]
fn who_keeps_the_rules_sees_no_cache() {
    for seed in 0..24 {
        let mut random = Random(seed + 1);
        let device = if seed % 2 == 0 { non_coherent(Some(seed)) } else { non_coherent(None) };
        let memory = zeros(&device, 500);
        let mut model = vec![0; 500];
        for round in 0..200 {
            let (a, b) = (random.index(501), random.index(501));
            let (start, end) = (a.min(b), a.max(b));
            let range = start as u64..end as u64;
            let bytes = random.bytes(end - start);
            match random.below(6) {
                0 => {
                    memory.map_mut(range).unwrap().bytes_mut().unwrap().copy_from_slice(&bytes);
                    model[start..end].copy_from_slice(&bytes);
                }
                1 => {
                    let mut map = memory.map_mut_unsynced(range).unwrap();
                    map.invalidate(0..(end - start) as u64).unwrap();
                    map.bytes_mut().unwrap().copy_from_slice(&bytes);
                    map.flush(0..(end - start) as u64).unwrap();
                    model[start..end].copy_from_slice(&bytes);
                }
                2 => {
                    memory.write(start as u64, &bytes).unwrap();
                    model[start..end].copy_from_slice(&bytes);
                }
                3 => {
                    let mut lease =
                        memory.view(range.clone()).unwrap().lease(Access::Write).unwrap();
                    lease.write(0, &bytes).unwrap();
                    drop(lease);
                    memory.invalidate(range).unwrap();
                    model[start..end].copy_from_slice(&bytes);
                }
                4 => assert_eq!(memory.map(range).unwrap().bytes().unwrap(), &model[start..end]),
                _ => {
                    let mut map = memory.map_unsynced(range).unwrap();
                    map.invalidate(0..(end - start) as u64).unwrap();
                    assert_eq!(
                        map.bytes().unwrap(),
                        &model[start..end],
                        "seed {seed}, round {round}"
                    );
                }
            }
            assert_eq!(memory.read_all().unwrap(), model, "seed {seed}, round {round}");
        }
    }
}
