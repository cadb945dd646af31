//! Devices, and the books of their memory.

use std::num::NonZero;
use std::thread;

use udo_api::{Core, CoreKind};

use super::{device_of, refused};
use crate::device::{
    AllocMemory, AllocOptions, Capabilities, Coherence, Device, DeviceSpec, Devices, ErrorCode,
    Usage, versions,
};

#[test]
fn there_is_one_device_of_each_kind_by_default() {
    let devices = Devices::default();
    let kinds: Vec<_> = devices.iter().map(Device::kind).collect();
    assert_eq!(kinds, CoreKind::ALL);
    let names: Vec<_> = devices.iter().map(|device| (device.to_string(), device.name())).collect();
    let wanted = [
        ("cpu:0", "host cpu"),
        ("gpu:0", "emulated gpu"),
        ("dsp:0", "emulated dsp:v68"),
        ("hta:0", "emulated hta"),
    ];
    assert_eq!(names, wanted.map(|(id, name)| (id.to_owned(), name)));
    for device in devices.iter() {
        let can_share = cfg!(target_os = "linux");
        assert_eq!(device.capabilities(), Capabilities { can_map: true, can_share });
        assert_eq!(device.coherence(), Coherence::Coherent);
        assert_eq!(versions().abi, udo_api::abi::ABI_VERSION);
        let of_host = thread::available_parallelism().map_or(1, NonZero::get).min(64);
        let cores = if device.kind() == CoreKind::Cpu { of_host } else { 1 };
        assert_eq!(usize::try_from(device.core_count()), Ok(cores));
    }
}

#[test]
fn devices_of_one_kind_are_numbered_over_all_specs() {
    let named =
        DeviceSpec { name: Some("left".to_owned()), cores: 4, ..DeviceSpec::new(Core::dsp(66)) };
    let specs = [
        named,
        DeviceSpec { count: 2, ..DeviceSpec::new(Core::DSP_V68) },
        DeviceSpec::new(Core::CPU),
    ];
    let devices = Devices::new(&specs).unwrap();
    let found: Vec<_> = devices.iter().map(|device| (device.to_string(), device.core())).collect();
    let wanted = [
        ("dsp:0", Core::dsp(66)),
        ("dsp:1", Core::DSP_V68),
        ("dsp:2", Core::DSP_V68),
        ("cpu:0", Core::CPU),
    ];
    assert_eq!(found, wanted.map(|(id, core)| (id.to_owned(), core)));
    let first = devices.get(CoreKind::Dsp, 0).unwrap();
    assert_eq!((first.name(), first.core_count()), ("left", 4));
    assert_eq!(first, devices.clone().get(CoreKind::Dsp, 0).unwrap(), "the same device");
    assert_ne!(first, devices.get(CoreKind::Dsp, 1).unwrap());
    refused(devices.get(CoreKind::Dsp, 3), ErrorCode::DeviceUnavailable, "3 of kind dsp");
    refused(devices.get(CoreKind::Gpu, 0), ErrorCode::DeviceUnavailable, "ask for another kind");
}

#[test]
fn devices_that_cannot_be_are_refused() {
    for cores in [0, 65] {
        let spec = DeviceSpec { cores, ..DeviceSpec::new(Core::GPU) };
        let wanted = format!("has {cores} cores, expected 1 to 64");
        refused(Devices::new(&[spec]), ErrorCode::InvalidArgument, &wanted);
    }
    let coherence = Coherence::NonCoherent { seed: None };
    let cpu = DeviceSpec { coherence, ..DeviceSpec::new(Core::CPU) };
    refused(Devices::new(&[cpu]), ErrorCode::InvalidArgument, "the host's own");
    let many = DeviceSpec { count: u32::MAX, ..DeviceSpec::new(Core::HTA) };
    let one = DeviceSpec::new(Core::HTA);
    refused(Devices::new(&[one.clone(), many.clone()]), ErrorCode::InvalidArgument, "too many");
    refused(Devices::new(&[many]), ErrorCode::InvalidArgument, "expected at most 1024 devices");
    let most = DeviceSpec { count: DeviceSpec::MOST_DEVICES, ..one.clone() };
    assert_eq!(Devices::new(std::slice::from_ref(&most)).unwrap().iter().count(), 1024);
    refused(Devices::new(&[one, most]), ErrorCode::InvalidArgument, "too many");
}

#[test]
fn a_heap_counts_by_owner_what_is_in_use() {
    let device =
        device_of(DeviceSpec { memory_bytes: Some(1000), ..DeviceSpec::new(Core::DSP_V68) });
    let alloc =
        |len, owner| device.alloc_with(len, &AllocOptions { owner, ..AllocOptions::default() });
    let weights = alloc(600, "weights").unwrap();
    let first = alloc(300, "scratch").unwrap();
    let (code, message) = super::refusal(alloc(101, "scratch"));
    assert_eq!(code, ErrorCode::OutOfMemory);
    assert_eq!(
        message,
        "\"scratch\" wants 101 bytes of dsp:0, of whose 1000 bytes 900 are in use; release memory or give the device more"
    );
    let second = alloc(100, "scratch").unwrap();
    drop((first, second));
    let usage = |current_bytes, peak_bytes, memories| Usage { current_bytes, peak_bytes, memories };
    let stats = device.heap_stats();
    assert_eq!((stats.limit_bytes, device.memory_bytes()), (1000, 1000));
    assert_eq!(stats.total, usage(600, 1000, 1));
    let owners = [("scratch", usage(0, 400, 0)), ("weights", usage(600, 600, 1))];
    assert_eq!(stats.owners, owners.map(|(owner, usage)| (owner.to_owned(), usage)));
    device.reset_heap_peaks();
    assert_eq!(device.heap_stats().total, usage(600, 600, 1));
    assert_eq!(device.heap_stats().owners.len(), 1, "who has nothing is forgotten");
    let part = weights.view(0..1).unwrap();
    drop(weights);
    assert_eq!(device.heap_stats().total.current_bytes, 600, "a part keeps the whole");
    drop(part);
    assert_eq!(device.heap_stats().total, usage(0, 600, 0));
}

#[test]
fn b09_a_thousand_rounds_of_which_some_fail_leave_nothing_in_use() {
    let device = device_of(DeviceSpec { memory_bytes: Some(4096), ..DeviceSpec::new(Core::GPU) });
    for round in 0..1000 {
        let output = device.alloc(if round % 10 == 0 { 4097 } else { 4096 });
        assert_eq!(output.is_err(), round % 10 == 0);
    }
    let total = device.heap_stats().total;
    assert_eq!((total.current_bytes, total.peak_bytes, total.memories), (0, 4096, 0));
}

#[test]
fn sizes_that_nothing_holds_are_refused() {
    let device =
        device_of(DeviceSpec { memory_bytes: Some(u64::MAX), ..DeviceSpec::new(Core::DSP_V68) });
    for len in [u64::MAX, u64::MAX / 2, 1 << 60] {
        refused(device.alloc(len), ErrorCode::OutOfMemory, "");
        assert_eq!(device.heap_stats().total.current_bytes, 0, "nothing is taken");
    }
}

#[test]
fn memory_begins_where_it_is_asked_to() {
    let device = device_of(DeviceSpec::new(Core::DSP_V68));
    for align_bytes in [1, 2, 64, 128, 4096, 1 << 21] {
        let options = AllocOptions { align_bytes, ..AllocOptions::default() };
        let memory = device.alloc_with(100, &options).unwrap();
        assert!(
            memory.align_bytes() >= align_bytes.max(64),
            "{align_bytes}: {}",
            memory.align_bytes()
        );
        assert_eq!(memory.len(), 100);
        memory.write(99, &[1]).unwrap();
        assert_eq!(memory.view(2..3).unwrap().align_bytes(), 2);
    }
    for align_bytes in [0, 3, 96, u64::MAX] {
        let options = AllocOptions { align_bytes, ..AllocOptions::default() };
        refused(
            device.alloc_with(1, &options),
            ErrorCode::InvalidArgument,
            "expected a power of two",
        );
    }
    let options = AllocOptions { align_bytes: 1 << 63, ..AllocOptions::default() };
    assert!(device.alloc_with(1, &options).is_err());
    assert_eq!(device.heap_stats().total.current_bytes, 0);
}

#[test]
fn devices_and_memory_are_for_any_thread() {
    fn any_thread<T: Send + Sync>() {}
    any_thread::<Devices>();
    any_thread::<Device>();
    any_thread::<crate::device::Memory>();
    any_thread::<crate::device::MemoryView>();
    any_thread::<crate::device::DeviceTensor>();
    any_thread::<crate::device::Lease>();
    any_thread::<crate::device::LeaseSet>();
    any_thread::<crate::device::ReadMap>();
    any_thread::<crate::device::WriteMap>();
}
