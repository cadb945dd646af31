//! What a file of the cache is of.

use serde::{Deserialize, Serialize};

use super::CacheError;
use super::code::{self, Code};

/// Sums as texts: no number of JSON has 128 bits.
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

/// What a file is of. It is of no use where anything but the stamp differs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Key {
    /// The caller's count.
    pub(super) version: u32,
    pub(super) sdk: String,
    pub(super) isa: String,
    /// The file of the runtime's own code.
    pub(super) code: String,
    /// The sum of the model's bytes.
    #[serde(with = "hex")]
    pub(super) content: u128,
    /// The times of the model's file, if it was old enough to go by them.
    pub(super) stamp: Option<String>,
}

impl Key {
    /// That of this process, for a model of this content.
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

    /// What of the file is not as `wanted`, in words.
    pub(super) fn differs(&self, wanted: &Self) -> Option<String> {
        if self.version != wanted.version {
            return Some(format!("version {}, wanted {}", self.version, wanted.version));
        }
        let same = [
            (self.sdk == wanted.sdk, "another version of the SDK"),
            (self.isa == wanted.isa, "another instruction set"),
            (self.code == wanted.code, "another build of the runtime"),
            (self.content == wanted.content, "another model"),
        ];
        same.into_iter().find(|(is_same, _)| !is_same).map(|(_, what)| what.to_owned())
    }
}
