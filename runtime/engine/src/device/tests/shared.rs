//! Memory that processes share.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;

use udo_api::{Core, DType};

use super::{Random, cpu, device_of, non_coherent, refused};
use crate::device::{
    Access, AllocMemory, AllocOptions, Capabilities, Device, DeviceSpec, DeviceTensor, ErrorCode,
    ImportMemory, ImportOptions, Memory, Peers, Sharing, TensorSpec, Usage,
};

const PAGE: u64 = 64 << 10;

fn exportable(device: &Device, len: u64) -> Memory {
    let options = AllocOptions { sharing: Sharing::Exportable, ..AllocOptions::default() };
    device.alloc_with(len, &options).unwrap()
}

fn import_options(size_bytes: u64, offset_bytes: u64) -> ImportOptions {
    ImportOptions { size_bytes, offset_bytes, is_exclusive: false }
}

#[test]
fn n22_what_one_tensor_writes_the_other_reads() {
    let (ours, theirs) = (cpu(), non_coherent(None));
    let memory = exportable(&ours, 2 * PAGE);
    let fd = memory.export_fd().unwrap();
    let imported = theirs.import(fd.as_fd(), import_options(2 * PAGE, PAGE)).unwrap();
    assert_eq!((imported.len(), imported.peers()), (PAGE, Peers::Any));
    drop(fd);
    let spec = TensorSpec::fixed(DType::F32, &[3]).unwrap();
    let one = DeviceTensor::from_memory(spec, memory.view(PAGE..2 * PAGE).unwrap()).unwrap();
    let other = DeviceTensor::from_memory(spec, imported.all()).unwrap();
    one.write(&[1; 12]).unwrap();
    assert_eq!(other.read_all().unwrap(), [1; 12]);
    other.write(&[2; 12]).unwrap();
    assert_eq!(one.read_all().unwrap(), [2; 12]);
    drop((one, memory));
    assert_eq!(ours.heap_stats().total.current_bytes, 0);
    assert_eq!(other.read_all().unwrap(), [2; 12], "each of them keeps the bytes");
    let imports = Usage { current_bytes: PAGE, peak_bytes: PAGE, memories: 1 };
    assert_eq!(
        (theirs.heap_stats().imported, theirs.heap_stats().total),
        (imports, Usage::default())
    );
    drop((other, imported));
    assert_eq!(theirs.heap_stats().imported.current_bytes, 0);
}

#[test]
fn n22_a_tensor_in_imported_memory_has_room() {
    let memory = exportable(&cpu(), 100);
    let fd = memory.export_fd().unwrap();
    let tensor = |size| {
        let imported = cpu().import(fd.as_fd(), import_options(size, 0)).unwrap();
        DeviceTensor::from_memory(TensorSpec::fixed(DType::I32, &[5, 5]).unwrap(), imported.all())
    };
    assert_eq!(tensor(100).unwrap().memory().len(), 100);
    refused(tensor(99), ErrorCode::InvalidArgument, "i32[5,5] takes 100 bytes, given 99");
}

#[test]
fn n22_what_cannot_be_imported_is_refused() {
    let device = cpu();
    let memory = exportable(&device, 2 * PAGE);
    let fd = memory.export_fd().unwrap();
    let import = |options| device.import(fd.as_fd(), options);
    let cases = [
        (import_options(0, 0), "expected at least 1"),
        (import_options(PAGE, PAGE), "expected an offset below the size"),
        (import_options(PAGE, 2 * PAGE), "expected an offset below the size"),
        (import_options(2 * PAGE, 100), "the system's page"),
        (import_options(2 * PAGE + 1, 0), "an imported file has 131072 bytes"),
        (import_options(u64::MAX, 0), "an imported file has 131072 bytes"),
    ];
    for (options, why) in cases {
        refused(import(options), ErrorCode::InvalidArgument, why);
    }
    // SAFETY: the number is negative.
    let negative = unsafe { device.import_fd(-1, import_options(PAGE, 0)) };
    refused(negative, ErrorCode::InvalidArgument, "file descriptor -1; expected one that is open");
    // SAFETY: the descriptor is open.
    let again = unsafe { device.import_fd(fd.as_raw_fd(), import_options(PAGE, 0)) }.unwrap();
    assert_eq!(again.len(), PAGE);
    drop(again);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bytes");
    std::fs::write(&path, [1; 100]).unwrap();
    let file = File::open(&path).unwrap();
    let error = device.import(file.as_fd(), import_options(100, 0));
    refused(error, ErrorCode::InvalidArgument, "cannot be mapped to be read and written");
    let (reader, _writer) = std::io::pipe().unwrap();
    refused(
        device.import(reader.as_fd(), import_options(1, 0)),
        ErrorCode::InvalidArgument,
        "has 0 bytes",
    );
    let capabilities = Capabilities { can_map: true, can_share: false };
    let alone = device_of(DeviceSpec { capabilities, ..DeviceSpec::new(Core::HTA) });
    refused(
        alone.import(fd.as_fd(), import_options(1, 0)),
        ErrorCode::Unsupported,
        "copy through the host",
    );
    let options = AllocOptions { sharing: Sharing::Exportable, ..AllocOptions::default() };
    refused(alone.alloc_with(1, &options), ErrorCode::Unsupported, "copy through the host");
    refused(device.alloc_with(0, &options), ErrorCode::InvalidArgument, "expected at least 1");
    let options = AllocOptions { align_bytes: 1 << 20, ..options };
    refused(device.alloc_with(1, &options), ErrorCode::InvalidArgument, "expected at most");
    refused(
        device.alloc(8).unwrap().export_fd(),
        ErrorCode::Unsupported,
        "allocate it as exportable",
    );
    drop(memory);
    let stats = device.heap_stats();
    assert_eq!((stats.total.current_bytes, stats.imported.current_bytes), (0, 0));
}

#[test]
fn bytes_that_others_write_have_no_references() {
    let memory = exportable(&cpu(), 300);
    let _theirs = memory.export_fd().unwrap();
    assert!(!memory.is_exclusive());
    let mut lease = memory.lease(Access::Write).unwrap();
    assert_eq!(lease.bytes(), None);
    assert_eq!(lease.bytes_mut(), None);
    lease.write(299, &[7]).unwrap();
    drop(lease);
    let mut map = memory.map_mut(299..300).unwrap();
    refused(
        map.bytes().map(<[u8]>::len),
        ErrorCode::Unsupported,
        "there are no references to its bytes",
    );
    refused(
        map.bytes_mut().map(|bytes| bytes.len()),
        ErrorCode::Unsupported,
        "use the mapping's address",
    );
    // SAFETY: the mapping's byte is there, and no other process or thread of this test has it.
    assert_eq!(unsafe { map.as_ptr().read() }, 7);
    drop(map);
    refused(memory.map(0..1).unwrap().bytes().map(<[u8]>::len), ErrorCode::Unsupported, "");
    let copied = exportable(&non_coherent(None), 64);
    let _copy = copied.export_fd().unwrap();
    copied.fill(3).unwrap();
    assert_eq!(
        copied.map(0..64).unwrap().bytes().unwrap(),
        [3; 64],
        "a mapping that is a copy is nobody else's"
    );
}

#[test]
fn memory_is_its_process_s_own_before_it_is_exported() {
    let memory = exportable(&cpu(), 300);
    assert_eq!((memory.peers(), memory.is_exclusive()), (Peers::None, true));
    let mut lease = memory.lease(Access::Write).unwrap();
    lease.bytes_mut().unwrap().fill(4);
    refused(memory.export_fd(), ErrorCode::Busy, "memory");
    drop(lease);
    let reader = memory.view(10..20).unwrap().lease(Access::Read).unwrap();
    assert_eq!(reader.bytes(), Some(&[4; 10][..]));
    refused(memory.export_fd(), ErrorCode::Busy, "memory");
    drop(reader);
    let file = File::from(memory.export_fd().unwrap());
    assert_eq!((memory.peers(), memory.is_exclusive()), (Peers::Any, false));
    // From then on nobody is in the way of another one.
    let reader = memory.lease(Access::Read).unwrap();
    assert_eq!(reader.bytes(), None);
    memory.export_fd().unwrap();
    let mut found = [0; 300];
    file.read_exact_at(&mut found, 0).unwrap();
    assert_eq!(found, [4; 300]);
}

#[test]
fn memory_by_promise_is_referred_to_after_it_was_exported_as_well() {
    let options = AllocOptions { sharing: Sharing::Exclusive, ..AllocOptions::default() };
    let memory = cpu().alloc_with(100, &options).unwrap();
    refused(memory.export_fd(), ErrorCode::Unsupported, "by promise");
    let lease = memory.lease(Access::Read).unwrap();
    // SAFETY: nobody writes by the descriptor while a lease is held.
    let file = File::from(unsafe { memory.export_fd_exclusive() }.unwrap());
    drop(lease);
    assert_eq!((memory.peers(), memory.is_exclusive()), (Peers::Promised, true));
    file.write_all_at(&[7; 100], 0).unwrap();
    assert_eq!(memory.lease(Access::Read).unwrap().bytes(), Some(&[7; 100][..]));
    // Of memory that nobody promised anything of it is as any export.
    let plain = exportable(&cpu(), 8);
    // SAFETY: the descriptor is dropped at once, so nobody writes through it.
    drop(unsafe { plain.export_fd_exclusive() }.unwrap());
    assert_eq!(plain.peers(), Peers::Any);
    // SAFETY: as above.
    refused(
        unsafe { cpu().alloc(8).unwrap().export_fd_exclusive() },
        ErrorCode::Unsupported,
        "allocate it as exportable",
    );
}

#[test]
fn what_another_process_writes_is_read() {
    let memory = exportable(&cpu(), 5000);
    memory.fill(0).unwrap();
    let file = File::from(memory.export_fd().unwrap());
    file.write_all_at(&[1, 2, 3], 4090).unwrap();
    let mut read = [0; 5];
    memory.read(4089, &mut read).unwrap();
    assert_eq!(read, [0, 1, 2, 3, 0]);
    memory.write(0, b"here").unwrap();
    let mut found = [0; 4];
    file.read_exact_at(&mut found, 0).unwrap();
    assert_eq!(&found, b"here");
    assert!(file.set_len(10).is_err() && file.set_len(9000).is_err(), "its length stays");
}

#[test]
fn an_import_by_promise_is_as_private_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bytes");
    std::fs::write(&path, [5; 100]).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let device = cpu();
    let exclusive =
        |size_bytes| ImportOptions { is_exclusive: true, ..import_options(size_bytes, 0) };
    // SAFETY: the file is this test's, which reads and writes it by the import alone while that lives.
    let memory = unsafe { device.import_fd(file.as_raw_fd(), exclusive(100)) }.unwrap();
    assert_eq!((memory.peers(), memory.is_exclusive()), (Peers::Promised, true));
    assert_eq!(memory.lease(Access::Read).unwrap().bytes(), Some(&[5; 100][..]));
    memory.map_mut(0..2).unwrap().bytes_mut().unwrap().fill(6);
    refused(memory.export_fd(), ErrorCode::Unsupported, "by promise");
    drop(memory);
    assert_eq!(std::fs::read(&path).unwrap()[..3], [6, 6, 5]);
    // SAFETY: as above.
    let error = unsafe { device.import_fd(file.as_raw_fd(), exclusive(101)) };
    refused(error, ErrorCode::InvalidArgument, "an imported file has 100 bytes");
}

#[test]
fn shared_memory_is_read_written_and_copied_as_any() {
    let mut random = Random(5);
    let shared = exportable(&cpu(), 3000);
    let private = cpu().alloc(3000).unwrap();
    let mut models = [random.bytes(3000), random.bytes(3000)];
    shared.write(0, &models[0]).unwrap();
    private.write(0, &models[1]).unwrap();
    for round in 0..200 {
        let (to, from) = (random.index(3000), random.index(3000));
        let len = random.index(3001 - to.max(from));
        let (at, source_at, count) = (to as u64, from as u64, len as u64);
        match random.below(5) {
            0 => {
                shared.copy_from(at, &shared, source_at, count).unwrap();
                models[0].copy_within(from..from + len, to);
            }
            1 => {
                shared.copy_from(at, &private, source_at, count).unwrap();
                let part = models[1][from..from + len].to_vec();
                models[0][to..to + len].copy_from_slice(&part);
            }
            2 => {
                private.copy_from(at, &shared, source_at, count).unwrap();
                let part = models[0][from..from + len].to_vec();
                models[1][to..to + len].copy_from_slice(&part);
            }
            3 => {
                let bytes = random.bytes(len);
                shared.write(at, &bytes).unwrap();
                models[0][to..to + len].copy_from_slice(&bytes);
            }
            _ => {
                shared.view(at..at + count).unwrap().fill(9).unwrap();
                models[0][to..to + len].fill(9);
            }
        }
        assert_eq!(shared.read_all().unwrap(), models[0], "round {round}");
        assert_eq!(private.read_all().unwrap(), models[1], "round {round}");
    }
}
