//! The version of the binary contract, and the packages that a host of this version reads.

use std::fmt;

abi_struct! {
    /// A version of the binary contract. Within a major version structures grow only at their ends, so that
    /// a host reads packages of its own minor version and of those before it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct AbiVersion {
        /// Incremented when a layout changes other than by growing, or a number changes its meaning.
        pub major: u16,
        /// Incremented when a structure grows.
        pub minor: u16,
    }
}

/// The version of the binary contract that this crate was built for.
pub const ABI_VERSION: AbiVersion = AbiVersion { major: 2, minor: 0 };

/// The version of this crate, which libraries carry in their manifests.
pub const SDK_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Host features that a package may need, by bit of [`PackageV1`](super::PackageV1)'s `needs`. A host refuses
/// a package that needs a feature missing in its list.
pub const NEEDS: &[&str] = &[];

impl AbiVersion {
    /// Whether a host of this version reads packages of version `package`.
    pub const fn reads(self, package: Self) -> bool {
        self.major == package.major && package.minor <= self.minor
    }
}

impl fmt::Display for AbiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_reads_its_own_minor_version_and_those_before() {
        let host = AbiVersion { major: 2, minor: 1 };
        let reads = |major, minor| host.reads(AbiVersion { major, minor });
        assert_eq!([reads(2, 0), reads(2, 1), reads(2, 2)], [true, true, false]);
        assert_eq!([reads(1, 0), reads(3, 0)], [false, false]);
    }
}
