//! The instruction sets that the primitives support: detection, and selection of the set in use.

use std::sync::OnceLock;

use super::amx;

/// An instruction set; better ones compare greater.
///
/// The machine supports every set for which a value exists: values come from [`isa()`] or [`Isa::available`], and the
/// variants cannot be constructed by other crates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// Plain Rust.
    #[non_exhaustive]
    Portable,
    /// x86-64 with AVX2, FMA and F16C.
    #[non_exhaustive]
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ, VL and VNNI.
    #[non_exhaustive]
    Avx512,
    /// [`Isa::Avx512`] with AMX (Intel's matrix extensions) for products of 8-bit values.
    #[non_exhaustive]
    Amx,
}

impl Isa {
    /// Returns all instruction sets that this machine supports, worst first.
    pub fn available() -> &'static [Self] {
        let all = &[Self::Portable, Self::Avx2, Self::Avx512, Self::Amx];
        all.get(..=highest() as usize).unwrap_or(&all[..1])
    }

    /// Returns the set's number, for keys of caches of data that was packed for it.
    pub fn code(self) -> usize {
        self as usize
    }

    /// Returns whether vectors have 512 bits.
    pub fn is_avx512(self) -> bool {
        self >= Self::Avx512
    }

    /// Returns whether products of 8-bit values use AMX.
    pub fn is_amx(self) -> bool {
        self == Self::Amx
    }

    /// Returns this set, or [`Isa::Avx512`] for AMX.
    #[must_use]
    pub fn without_amx(self) -> Self {
        self.min(Self::Avx512)
    }

    fn from_name(name: &str) -> Option<Self> {
        match name {
            "portable" => Some(Self::Portable),
            "avx2" => Some(Self::Avx2),
            "avx512" => Some(Self::Avx512),
            "amx" => Some(Self::Amx),
            _ => None,
        }
    }
}

/// Returns the best set of the machine. After the first call this is a single load, because small operations query it
/// often.
#[inline]
pub(crate) fn highest() -> Isa {
    static HIGHEST: OnceLock<Isa> = OnceLock::new();
    *HIGHEST.get_or_init(|| best(Isa::Amx))
}

/// Returns the instruction set in use: the best that the machine supports, or a lower one from the environment variable
/// `UDO_ISA` (`portable`, `avx2`, `avx512`, `amx`).
#[inline]
pub fn isa() -> Isa {
    static CHOSEN: OnceLock<Isa> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let requested = std::env::var("UDO_ISA").ok().and_then(|name| Isa::from_name(&name));
        best(requested.unwrap_or(Isa::Amx))
    })
}

/// Returns the best set of the machine, but none better than `highest`.
fn best(highest: Isa) -> Isa {
    match vectors() {
        Isa::Avx512 if highest == Isa::Amx && amx::is_granted() => Isa::Amx,
        vectors => highest.min(vectors),
    }
}

/// Returns the best set of the machine, apart from AMX.
#[cfg(target_arch = "x86_64")]
fn vectors() -> Isa {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c");
    let avx512 = avx2
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vnni");
    match (avx512, avx2) {
        (true, _) => Isa::Avx512,
        (false, true) => Isa::Avx2,
        (false, false) => Isa::Portable,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn vectors() -> Isa {
    Isa::Portable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_used_instruction_set_is_supported() {
        assert!(Isa::available().contains(&isa()));
        assert_eq!(Isa::available().first(), Some(&Isa::Portable));
    }

    #[test]
    fn names_are_lower_case() {
        assert_eq!(Isa::from_name("avx2"), Some(Isa::Avx2));
        assert_eq!(Isa::from_name("AVX2"), None);
    }

    #[test]
    fn instruction_sets_above_the_requested_one_are_not_used() {
        for &isa in Isa::available() {
            assert_eq!(best(isa), isa);
        }
    }
}
