//! The identity of what a cache file belongs to.

use serde::{Deserialize, Serialize};

use super::CacheError;
use super::code::{self, Code};

/// 128-bit values as strings: JSON numbers are too small.
mod hex {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(sum: &u128, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&format!("{sum:032x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u128, D::Error> {
        let text = String::deserialize(from)?;
        u128::from_str_radix(&text, 16).map_err(D::Error::custom)
    }
}

/// The identity of what a file belongs to. A file is useless if anything but the stamp differs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Key {
    /// The user-defined cache version.
    pub(super) version: u32,
    pub(super) sdk: String,
    pub(super) isa: String,
    /// The id of the file with the runtime's own code.
    pub(super) code: String,
    /// The checksum of the model's bytes.
    #[serde(with = "hex")]
    pub(super) content: u128,
    /// The times of the model's file, if it was old enough to be identified by them.
    pub(super) stamp: Option<String>,
}

impl Key {
    /// Returns the key of this process for a model with this content.
    pub(super) fn now(
        version: u32,
        content: u128,
        stamp: Option<String>,
    ) -> Result<(Code, Self), CacheError> {
        let code = Code::loaded();
        let own = code.file_of(code::anchor()).ok_or(CacheError::Unsupported)?;
        let (sdk, isa) = (env!("CARGO_PKG_VERSION").to_owned(), format!("{:?}", udo_simd::isa()));
        Ok((code, Self { version, sdk, isa, code: own, content, stamp }))
    }

    /// Describes the first difference from the expected key.
    pub(super) fn differs(&self, expected: &Self) -> Option<String> {
        if self.version != expected.version {
            return Some(format!("version {}, expected {}", self.version, expected.version));
        }
        let same = [
            (self.sdk == expected.sdk, "another version of the SDK"),
            (self.isa == expected.isa, "another instruction set"),
            (self.code == expected.code, "another build of the runtime"),
            (self.content == expected.content, "another model"),
        ];
        same.into_iter().find(|(is_same, _)| !is_same).map(|(_, what)| what.to_owned())
    }
}
