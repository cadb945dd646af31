//! Tests of devices and their memory in the scenarios of the vendor systems that the API emulates.
#![cfg(not(loom))]

mod devices;
mod leases;
mod maps;
mod memory;
#[cfg(target_os = "linux")]
mod shared;
mod specs;
mod tensors;

use udo_api::{Core, CoreKind};

use super::{Coherence, Device, DeviceSpec, Devices, Error, ErrorCode, Memory, Result};
use udo_graph::error::ErrorContext;

/// Numbers of xorshift64*; the same seed gives the same ones.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }

    fn index(&mut self, limit: usize) -> usize {
        usize::try_from(self.below(limit as u64)).unwrap()
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| u8::try_from(self.below(256)).unwrap()).collect()
    }
}

/// A device of its own for the test.
fn device_of(spec: DeviceSpec) -> Device {
    let kind = spec.core.kind().unwrap();
    Devices::new(&[spec]).unwrap().get(kind, 0).unwrap()
}

fn cpu() -> Device {
    Devices::default().get(CoreKind::Cpu, 0).unwrap()
}

fn non_coherent(seed: Option<u64>) -> Device {
    let coherence = Coherence::NonCoherent { seed };
    device_of(DeviceSpec { coherence, ..DeviceSpec::new(Core::DSP_V68) })
}

/// Zeroed memory.
fn zeros(device: &Device, len: u64) -> Memory {
    let memory = device.alloc(len).unwrap();
    memory.fill(0).unwrap();
    memory
}

/// The code and message of a refusal.
#[track_caller]
fn refusal<T: std::fmt::Debug, E: Into<Error>>(
    result: std::result::Result<T, E>,
) -> (ErrorCode, String) {
    let error: Error = result.unwrap_err().into();
    (error.code(), error.message().to_owned())
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T>, code: ErrorCode, part: &str) {
    let (found, message) = refusal(result);
    assert_eq!(found, code, "{message}");
    assert!(message.contains(part), "{message:?} does not say {part:?}");
}
