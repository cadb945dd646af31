//! The version of the binary contract, and which packages a host of this version reads.

use std::fmt;

abi_struct! {
    /// A version of the binary contract. Within a major version structures grow only at their ends, so that
    /// a host reads packages of its own minor version and of those before it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct AbiVersion {
        /// Raised when a layout changes otherwise than by growing, or a number its meaning.
        pub major: u16,
        /// Raised when a structure grows.
        pub minor: u16,
    }
}

/// The version of the binary contract that this crate was built for.
pub const ABI_VERSION: AbiVersion = AbiVersion { major: 2, minor: 0 };

/// The fingerprints of this major version's earlier minor versions, from 0 on.
const EARLIER: &[u64] = &[];

/// What a package may need of its host beyond the contract itself, by bit of [`PackageV1`](super::PackageV1)'s
/// `needs`. A host refuses a package that needs what it does not list.
pub const NEEDS: &[&str] = &[];

impl AbiVersion {
    /// Whether a host of this version reads packages of version `package`.
    pub const fn reads(self, package: Self) -> bool {
        self.major == package.major && package.minor <= self.minor
    }

    /// The fingerprint that libraries of this version carry; nothing if this crate cannot read it.
    pub const fn fingerprint(self) -> Option<u64> {
        if !ABI_VERSION.reads(self) {
            return None;
        }
        if self.minor == ABI_VERSION.minor {
            return Some(super::FINGERPRINT);
        }
        let minor = self.minor as usize;
        if minor < EARLIER.len() { Some(EARLIER[minor]) } else { None }
    }
}

impl fmt::Display for AbiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The name of need number `bit`, as in manifests.
pub(crate) const fn need(bit: usize) -> Option<&'static str> {
    if bit < NEEDS.len() { Some(NEEDS[bit]) } else { None }
}

const _: () =
    assert!(EARLIER.len() == ABI_VERSION.minor as usize, "one for each earlier minor version");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_reads_its_own_minor_version_and_those_before() {
        let host = AbiVersion { major: 2, minor: 1 };
        let reads = |major, minor| host.reads(AbiVersion { major, minor });
        assert_eq!([reads(2, 0), reads(2, 1), reads(2, 2)], [true, true, false]);
        assert_eq!([reads(1, 0), reads(3, 0)], [false, false]);
        assert_eq!(ABI_VERSION.fingerprint(), Some(crate::abi::FINGERPRINT));
        let newer = AbiVersion { minor: ABI_VERSION.minor + 1, ..ABI_VERSION };
        assert_eq!(newer.fingerprint(), None);
    }
}
