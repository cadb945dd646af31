//! The devices that there are: emulated ones, as many of each kind as asked for.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;

use udo_api::{Core, CoreKind};

use super::heap::Heap;
use super::{Capabilities, Coherence, Device, DeviceId, Inner};
use udo_graph::error::{Error, ErrorCode, Result, invalid};
use udo_graph::memory::Limit;

/// Devices of one kind to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSpec {
    /// The core that kernels target.
    pub core: Core,
    /// The number of devices.
    pub count: u32,
    /// The display name; `None`: named after the core.
    pub name: Option<String>,
    /// Cores of each, at most [`MOST_CORES`].
    pub cores: u32,
    /// Bytes of each one's memory; what the machine has where nothing is said.
    pub memory_bytes: Option<u64>,
    /// The capabilities of each device.
    pub capabilities: Capabilities,
    /// Whether host and device see at once what the other writes.
    pub coherence: Coherence,
}

/// The maximum number of cores of a device.
pub const MOST_CORES: u32 = u64::BITS;

/// Returns the specifications of the default devices: one of each kind.
pub fn default_specs() -> [DeviceSpec; 4] {
    [Core::CPU, Core::GPU, Core::DSP_V68, Core::HTA].map(DeviceSpec::new)
}

impl DeviceSpec {
    /// One coherent device whose memory may be mapped and, on Linux, shared. The CPU has as many cores as this process may use, as
    /// far as a device may have them; others have one.
    pub fn new(core: Core) -> Self {
        let of_host = || thread::available_parallelism().map_or(1, NonZero::get);
        let cores = match core.kind() {
            Some(CoreKind::Cpu) => u32::try_from(of_host()).unwrap_or(u32::MAX),
            Some(CoreKind::Gpu | CoreKind::Dsp | CoreKind::Hta) | None => 1,
        };
        Self {
            core,
            count: 1,
            name: None,
            cores: cores.min(MOST_CORES),
            memory_bytes: None,
            capabilities: Capabilities { can_map: true, can_share: cfg!(target_os = "linux") },
            coherence: Coherence::Coherent,
        }
    }

    /// The most devices that there may be.
    pub(crate) const MOST_DEVICES: u32 = 1024;

    fn check(&self) -> Result<CoreKind> {
        let Some(kind) = self.core.kind() else {
            return Err(invalid(format!(
                "{} is not a known core; expected {}",
                self.core,
                Core::NAMES
            )));
        };
        if !(1..=MOST_CORES).contains(&self.cores) {
            return Err(invalid(format!(
                "a device {} has {} cores, expected 1 to {}",
                self.core, self.cores, MOST_CORES
            )));
        }
        if kind == CoreKind::Cpu && self.coherence != Coherence::Coherent {
            return Err(invalid(
                "a device cpu is asked not to be coherent, and its memory is the host's own; ask so of an accelerator",
            ));
        }
        Ok(kind)
    }
}

/// The devices that there are. Clones share them; by default there is one of each kind.
///
/// ```
/// use udo_api::{Core, CoreKind};
/// use udo_engine::device::{Coherence, DeviceSpec, Devices};
///
/// let dsp = DeviceSpec {
///     count: 2,
///     memory_bytes: Some(1 << 20),
///     coherence: Coherence::NonCoherent { seed: None },
///     ..DeviceSpec::new(Core::DSP_V68)
/// };
/// let devices = Devices::new(&[DeviceSpec::new(Core::CPU), dsp])?;
/// let names: Vec<_> = devices.iter().map(|device| device.to_string()).collect();
/// assert_eq!(names, ["cpu:0", "dsp:0", "dsp:1"]);
/// assert_eq!(devices.get(CoreKind::Dsp, 1)?.heap_stats().limit_bytes, 1 << 20);
/// # Ok::<(), udo_engine::device::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Devices(Arc<[Device]>);

impl Default for Devices {
    fn default() -> Self {
        let kinds = [CoreKind::Cpu, CoreKind::Gpu, CoreKind::Dsp, CoreKind::Hta];
        let specs = default_specs();
        let all = kinds.iter().zip(&specs);
        Self(all.map(|(&kind, spec)| device(DeviceId { kind, index: 0 }, spec)).collect())
    }
}

impl Devices {
    /// As many devices as the specs ask for. Those of one kind are numbered in order.
    ///
    /// # Errors
    /// A core that is not known, a device without cores, a CPU that is not coherent, or more than 1,024 devices.
    pub fn new(specs: &[DeviceSpec]) -> Result<Self> {
        let mut devices: Vec<Device> = Vec::new();
        for spec in specs {
            let kind = spec.check()?;
            let before = devices.iter().filter(|device| device.kind() == kind).count();
            let before = u32::try_from(before).unwrap_or(u32::MAX);
            let (count, most) = (spec.count, DeviceSpec::MOST_DEVICES);
            let all = u32::try_from(devices.len()).unwrap_or(u32::MAX).checked_add(count);
            if all.is_none_or(|all| all > most) {
                let core = spec.core;
                return Err(invalid(format!(
                    "{count} devices {core} are too many; expected at most {most} devices"
                )));
            }
            let end = before.saturating_add(count);
            devices.extend((before..end).map(|index| device(DeviceId { kind, index }, spec)));
        }
        Ok(Self(devices.into()))
    }

    /// All devices.
    pub fn iter(&self) -> impl Iterator<Item = &Device> {
        self.0.iter()
    }

    /// The device of a kind with this number.
    ///
    /// # Errors
    /// There are not as many of the kind.
    pub fn get(&self, kind: CoreKind, index: u32) -> Result<Device> {
        let id = DeviceId { kind, index };
        let device = self.iter().find(|device| device.id() == id);
        device.cloned().ok_or_else(|| {
            let (name, found) =
                (kind.name(), self.iter().filter(|device| device.kind() == kind).count());
            let next = match found {
                0 => "ask for another kind",
                _ => "ask for one below that",
            };
            Error::new(
                ErrorCode::DeviceUnavailable,
                format!("there is no device {id}: {found} of kind {name}; {next}"),
            )
        })
    }
}

/// The devices that runs use.
#[derive(Clone, Debug)]
pub struct Used(Box<[Device]>);

impl Used {
    /// Those of these numbers.
    ///
    /// # Errors
    /// One of them is not there.
    pub fn find(devices: &Devices, ids: impl Iterator<Item = DeviceId>) -> Result<Self> {
        ids.map(|id| devices.get(id.kind, id.index)).collect::<Result<_>>().map(Self)
    }

    /// Each of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Device> {
        self.0.iter()
    }

    /// How often all of them together were lost or came back.
    pub fn changes(&self) -> u64 {
        self.iter().fold(0, |all, device| all.wrapping_add(device.changes()))
    }

    /// Nothing, if all of them are there.
    ///
    /// # Errors
    /// One is lost.
    pub fn check_there(&self) -> Result<()> {
        self.iter().try_for_each(Device::check_there)
    }

    /// Nothing, if none of them was lost since [`Used::changes`] said `began`: a run that a loss met did not do all of its work, even
    /// where the device is back by now.
    ///
    /// # Errors
    /// One was lost.
    pub fn check_since(&self, began: u64) -> Result<()> {
        if self.changes() == began {
            return Ok(());
        }
        self.check_there()?;
        let names: Vec<_> = self.iter().map(Device::to_string).collect();
        let why = format!(
            "a device of the run was lost and is back: {}; submit again",
            names.join(" or ")
        );
        Err(Error::new(ErrorCode::DeviceLost, why))
    }
}

fn device(id: DeviceId, spec: &DeviceSpec) -> Device {
    let of_machine = || u64::try_from(Limit::of_machine().bytes()).unwrap_or(u64::MAX);
    let by_core = || match id.kind {
        CoreKind::Cpu => "host cpu".to_owned(),
        CoreKind::Gpu | CoreKind::Dsp | CoreKind::Hta => format!("emulated {}", spec.core),
    };
    Device(Arc::new(Inner {
        id,
        core: spec.core,
        name: spec.name.clone().unwrap_or_else(by_core),
        cores: spec.cores,
        capabilities: spec.capabilities,
        coherence: spec.coherence,
        heap: Heap::new(spec.memory_bytes.unwrap_or_else(of_machine)),
        memories: AtomicU64::new(0),
        changes: AtomicU64::new(0),
    }))
}
