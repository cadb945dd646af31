//! Cores: the kinds of processor that kernels are written for.

use std::fmt;

/// A kind of processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CoreKind {
    /// The host's processor.
    Cpu,
    /// An OpenCL device.
    Gpu,
    /// A fixed-point vector processor with a small fast memory.
    Dsp,
    /// A fixed-function tensor accelerator that does not run user operators.
    Hta,
}

/// The properties of a kind of processor.
struct KindProperties {
    /// The number in the ABI.
    code: u16,
    /// The name on command lines and in manifests.
    name: &'static str,
    /// The architecture that the bare name stands for; 0 for a kind without architectures.
    default_arch: u16,
    /// Whether it has a small fast memory.
    has_fast_memory: bool,
}

impl CoreKind {
    /// All kinds.
    pub const ALL: &[Self] = &[Self::Cpu, Self::Gpu, Self::Dsp, Self::Hta];

    const fn properties(self) -> KindProperties {
        let (code, name, default_arch, has_fast_memory) = match self {
            Self::Cpu => (1, "cpu", 0, false),
            Self::Gpu => (2, "gpu", 0, false),
            Self::Dsp => (3, "dsp", 68, true),
            Self::Hta => (4, "hta", 0, false),
        };
        KindProperties { code, name, default_arch, has_fast_memory }
    }

    /// Returns the lower-case name, without an architecture.
    pub const fn name(self) -> &'static str {
        self.properties().name
    }

    /// Whether processors of this kind differ by architecture.
    pub const fn has_archs(self) -> bool {
        self.properties().default_arch != 0
    }

    /// Whether processors of this kind have a small fast memory, which kernels use as scratch.
    pub const fn has_fast_memory(self) -> bool {
        self.properties().has_fast_memory
    }
}

/// An instruction set of the host's processor; each one includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Isa {
    /// The baseline that every processor has.
    Portable,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 with VNNI.
    Avx512,
    /// AMX.
    Amx,
}

impl Isa {
    /// Returns the number in the ABI.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// Returns the instruction set with this number; `None` if this version does not know it.
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

/// Precision that kernels may trade for speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FastMath {
    /// Nothing.
    #[default]
    None,
    /// Factors of `f32` products may be rounded to bf16; sums stay in `f32`.
    Bf16,
}

abi_struct! {
    /// A processor that a kernel is written for: a kind and, for a DSP, the minimum architecture.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub struct Core {
        kind: u16,
        arch: u16,
    }
}

impl Core {
    /// The host's processor.
    pub const CPU: Self = Self::bare(CoreKind::Cpu);
    /// An OpenCL device.
    pub const GPU: Self = Self::bare(CoreKind::Gpu);
    /// The DSP that `dsp` without an architecture stands for.
    pub const DSP_V68: Self = Self::bare(CoreKind::Dsp);
    /// The tensor accelerator.
    pub const HTA: Self = Self::bare(CoreKind::Hta);
    /// The names of the cores that run user operators, for messages.
    pub const NAMES: &str = "cpu, gpu, dsp or dsp:vNN";

    /// Returns the core that the bare name of a kind stands for.
    const fn bare(kind: CoreKind) -> Self {
        let KindProperties { code, default_arch, .. } = kind.properties();
        Self { kind: code, arch: default_arch }
    }

    /// Returns a DSP of architecture `arch`, such as 68 for v68.
    pub const fn dsp(arch: u16) -> Self {
        Self { arch, ..Self::DSP_V68 }
    }

    /// Returns the kind; `None` if a package's table has a kind that this version does not know.
    pub const fn kind(self) -> Option<CoreKind> {
        let mut remaining = CoreKind::ALL;
        while let [kind, tail @ ..] = remaining {
            if kind.properties().code == self.kind {
                return Some(*kind);
            }
            remaining = tail;
        }
        None
    }

    /// Returns the architecture of a DSP; 0 for other kinds.
    pub const fn arch(self) -> u16 {
        self.arch
    }

    /// Whether a kernel written for `self` runs on `target`: same kind, architecture not newer.
    pub const fn runs_on(self, target: Self) -> bool {
        self.kind == target.kind && self.arch <= target.arch
    }

    /// Returns the core with this name: `cpu`, `gpu`, `hta`, `dsp` (v68) or `dsp:vNN`, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        CoreKind::ALL.iter().find_map(|&kind| match name.strip_prefix(kind.name())? {
            "" => Some(Self::bare(kind)),
            arch if kind.has_archs() => {
                let arch = arch.strip_prefix(":v")?.parse().ok()?;
                Some(Self { arch, ..Self::bare(kind) })
            }
            _ => None,
        })
    }
}

impl fmt::Display for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            Some(kind) if kind.has_archs() => f.pad(&format!("{}:v{}", kind.name(), self.arch)),
            Some(kind) => f.pad(kind.name()),
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
    fn names_are_parsed_to_their_core() {
        for &kind in CoreKind::ALL {
            let core = Core::bare(kind);
            assert_eq!(core.kind(), Some(kind));
            assert_eq!(Core::from_name(&core.to_string()), Some(core));
            assert_eq!(Core::from_name(kind.name()), Some(core));
        }
        assert_eq!(Core::dsp(75).to_string(), "dsp:v75");
        assert_eq!(Core::from_name("dsp:v75"), Some(Core::dsp(75)));
        assert_eq!(Core::from_name("DSP"), Some(Core::DSP_V68));
        for wrong in ["", "npu", "cpu:v1", "gpux", "dsp:", "dsp:68", "dsp:v", "dsp:v70000"] {
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
