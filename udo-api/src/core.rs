//! Cores: the kinds of processor that a kernel may be written for.

use std::fmt;

/// A kind of processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CoreKind {
    /// The host's processor; the reference for all others.
    Cpu,
    /// An OpenCL device.
    Gpu,
    /// A fixed-point vector processor with a small fast memory.
    Dsp,
    /// A fixed-function tensor accelerator; takes no user operators.
    Hta,
}

/// An instruction set of the host's processor; each contains those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Isa {
    /// What every processor has.
    Portable,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 with VNNI.
    Avx512,
    /// AMX.
    Amx,
}

impl Isa {
    /// The number that crosses the ABI.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The instruction set of a number; nothing for one that this version does not know.
    pub const fn from_code(code: u32) -> Option<Self> {
        match code {
            0 => Some(Self::Portable),
            1 => Some(Self::Avx2),
            2 => Some(Self::Avx512),
            3 => Some(Self::Amx),
            _ => None,
        }
    }
}

abi_struct! {
    /// A processor that a kernel is written for: a kind and, for a DSP, the architecture it needs.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub struct Core {
        kind: u16,
        arch: u16,
    }
}

impl Core {
    /// The host's processor.
    pub const CPU: Self = Self { kind: 1, arch: 0 };
    /// An OpenCL device.
    pub const GPU: Self = Self { kind: 2, arch: 0 };
    /// The DSP that `dsp` means where no architecture is given.
    pub const DSP_V68: Self = Self::dsp(68);
    /// The tensor accelerator.
    pub const HTA: Self = Self { kind: 4, arch: 0 };

    /// A DSP of architecture `arch`, such as 68 for v68.
    pub const fn dsp(arch: u16) -> Self {
        Self { kind: 3, arch }
    }

    /// The kind, or nothing if a foreign table holds a kind that this version does not know.
    pub const fn kind(self) -> Option<CoreKind> {
        match self.kind {
            1 => Some(CoreKind::Cpu),
            2 => Some(CoreKind::Gpu),
            3 => Some(CoreKind::Dsp),
            4 => Some(CoreKind::Hta),
            _ => None,
        }
    }

    /// The architecture of a DSP; 0 for every other kind.
    pub const fn arch(self) -> u16 {
        self.arch
    }

    /// Whether a kernel written for `self` runs on `target`: same kind, architecture not newer.
    pub const fn runs_on(self, target: Self) -> bool {
        self.kind == target.kind && self.arch <= target.arch
    }

    /// The core called `name`: `cpu`, `gpu`, `hta`, `dsp` (v68) or `dsp:vNN`, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "cpu" => Some(Self::CPU),
            "gpu" => Some(Self::GPU),
            "hta" => Some(Self::HTA),
            "dsp" => Some(Self::DSP_V68),
            _ => name.strip_prefix("dsp:v")?.parse().ok().map(Self::dsp),
        }
    }
}

impl fmt::Display for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            Some(CoreKind::Cpu) => f.pad("cpu"),
            Some(CoreKind::Gpu) => f.pad("gpu"),
            Some(CoreKind::Hta) => f.pad("hta"),
            Some(CoreKind::Dsp) => f.pad(&format!("dsp:v{}", self.arch)),
            None => f.pad(&format!("core{}:{}", self.kind, self.arch)),
        }
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_core() {
        for core in [Core::CPU, Core::GPU, Core::HTA, Core::DSP_V68, Core::dsp(75)] {
            assert_eq!(Core::from_name(&core.to_string()), Some(core));
        }
        assert_eq!(Core::from_name("DSP"), Some(Core::DSP_V68));
        for wrong in ["", "npu", "dsp:", "dsp:68", "dsp:v", "dsp:v70000"] {
            assert_eq!(Core::from_name(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn older_dsp_kernels_run_on_newer_architectures_only() {
        assert!(Core::dsp(66).runs_on(Core::dsp(68)));
        assert!(!Core::dsp(69).runs_on(Core::dsp(68)));
        assert!(!Core::CPU.runs_on(Core::GPU));
    }
}
