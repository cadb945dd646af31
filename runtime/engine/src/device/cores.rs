//! The selection of a device's cores for a run.

use std::fmt;
use std::num::NonZero;

use super::Device;
use super::set::MOST_CORES;
use udo_graph::error::{Error, Result, invalid};

/// The cores of a device that a run uses. A list is used exactly: no core is added, removed or replaced.
///
/// ```
/// use udo_engine::device::CoreSet;
///
/// let pair = CoreSet::try_from(&[2, 0][..])?;
/// assert_eq!(pair.to_string(), "cores 0, 2");
/// assert!(CoreSet::try_from(&[1, 1][..]).is_err());
/// assert_eq!(CoreSet::default(), CoreSet::Auto);
/// # Ok::<(), udo_engine::device::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CoreSet {
    /// Any free cores, one for each thread of the model, as far as the device has them.
    #[default]
    Auto,
    /// Exactly these.
    Listed(CoreList),
}

/// At least one core, as a bit mask of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreList(NonZero<u64>);

impl TryFrom<&[u32]> for CoreSet {
    type Error = Error;

    /// Selects the cores with these numbers: at least one, each once, and all below [`MOST_CORES`].
    fn try_from(numbers: &[u32]) -> Result<Self> {
        let mut bits = 0_u64;
        for &number in numbers {
            let Some(bit) = 1_u64.checked_shl(number) else {
                let most = MOST_CORES;
                return Err(invalid(format!(
                    "the list of cores has core {number}; devices have {most} at most, from 0 on"
                )));
            };
            if bits & bit != 0 {
                let why = format!("the list of cores has core {number} twice; name each once");
                return Err(invalid(why));
            }
            bits |= bit;
        }
        let list = NonZero::new(bits).ok_or_else(|| {
            invalid("the list of cores is empty; name some, or give no list for whichever are free")
        })?;
        Ok(Self::Listed(CoreList(list)))
    }
}

/// Checks that runs of a model with this many threads may use these cores of `device`.
///
/// # Errors
/// The device lacks a listed core, or the number of listed cores differs from the number of threads.
pub fn check_cores(cores: CoreSet, device: &Device, threads: usize) -> Result<()> {
    let CoreSet::Listed(list) = cores else { return Ok(()) };
    let core_count = device.core_count();
    if let Some(missing) = list.numbers().find(|&number| number >= core_count) {
        return Err(invalid(format!(
            "the list of cores has core {missing}, and device {device} has {core_count}, from 0 on"
        )));
    }
    let count = list.numbers().count();
    if count != threads {
        return Err(invalid(format!(
            "the list has {count} cores, and the model is compiled for {threads} threads; list as many cores, or compile it \
             for as many threads"
        )));
    }
    Ok(())
}

impl CoreList {
    /// Returns the numbers in ascending order.
    pub(crate) fn numbers(self) -> impl Iterator<Item = u32> {
        (0..u64::BITS).filter(move |number| self.0.get() >> number & 1 == 1)
    }

    /// Returns the bit mask.
    pub(crate) fn bits(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for CoreSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("any cores"),
            Self::Listed(list) => {
                let numbers: Vec<_> = list.numbers().map(|number| number.to_string()).collect();
                write!(f, "cores {}", numbers.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Core, CoreKind};

    use super::*;
    use crate::device::{DeviceSpec, Devices};

    #[test]
    fn lists_are_strict() {
        let dsp = DeviceSpec { cores: 4, ..DeviceSpec::new(Core::DSP_V68) };
        let dsp = Devices::new(&[dsp]).unwrap().get(CoreKind::Dsp, 0).unwrap();
        let refused = |numbers: &[u32], threads| {
            let checked =
                CoreSet::try_from(numbers).and_then(|cores| check_cores(cores, &dsp, threads));
            checked.unwrap_err().to_string()
        };
        assert!(refused(&[], 1).contains("is empty"));
        assert!(refused(&[1, 3, 1], 3).contains("core 1 twice"));
        assert!(refused(&[64], 1).contains("core 64; devices have 64 at most"));
        assert!(refused(&[0, 4], 2).contains("has core 4, and device dsp:0 has 4"));
        assert!(refused(&[0, 1], 1).contains("2 cores, and the model is compiled for 1 threads"));
        assert!(refused(&[0], 2).contains("1 cores, and the model is compiled for 2 threads"));
        check_cores(CoreSet::try_from(&[3, 0][..]).unwrap(), &dsp, 2).unwrap();
        check_cores(CoreSet::Auto, &dsp, 64).unwrap();
    }
}
