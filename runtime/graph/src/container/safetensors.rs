//! The outer file format, safetensors: eight bytes with the length of a header, the header, and the elements of all
//! tensors without gaps (<https://github.com/huggingface/safetensors>).
//!
//! Every number is checked against the size of the file before it is used.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use udo_api::DType;

use super::ContainerError;

/// The offset of the header.
pub const START: usize = 8;

/// The longest header that readers of the format accept.
pub const MAX_HEADER_BYTES: usize = 100_000_000;

/// The key of the header's strings that do not belong to a tensor.
pub const METADATA: &str = "__metadata__";

/// Returns the format's name of an element type.
pub(super) fn dtype_name(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::F32 => "F32",
        DType::F64 => "F64",
        DType::F16 => "F16",
        DType::Bf16 => "BF16",
        DType::I8 => "I8",
        DType::I16 => "I16",
        DType::I32 => "I32",
        DType::I64 => "I64",
        DType::U8 => "U8",
        DType::U16 => "U16",
        DType::U32 => "U32",
        DType::U64 => "U64",
        DType::Bool => "BOOL",
        DType::Str => return None,
    })
}

/// Element types of the format that graphs do not support, and their sizes in bits.
const OTHERS: [(&str, usize); 9] = [
    ("F4", 4),
    ("F6_E2M3", 6),
    ("F6_E3M2", 6),
    ("F8_E4M3", 8),
    ("F8_E4M3FNUZ", 8),
    ("F8_E5M2", 8),
    ("F8_E5M2FNUZ", 8),
    ("F8_E8M0", 8),
    ("C64", 64),
];

/// A parsed header.
#[derive(Debug)]
pub struct Header {
    /// Strings by key.
    pub metadata: BTreeMap<String, String>,
    /// Tensors by name.
    pub tensors: HashMap<String, Entry>,
}

/// A tensor of the file.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name of its element type in the file.
    pub type_name: String,
    /// The range of its elements in the file.
    pub bytes: Range<usize>,
}

impl Entry {
    /// Returns its element type, if graphs support it.
    pub(super) fn dtype(&self) -> Option<DType> {
        DType::ALL.into_iter().find(|&dtype| dtype_name(dtype) == Some(&self.type_name))
    }
}

/// The JSON of a header.
#[derive(Debug, Default)]
struct Raw {
    metadata: Option<BTreeMap<String, String>>,
    tensors: Vec<(String, RawEntry)>,
}

#[derive(Debug, Deserialize)]
struct RawEntry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Raw;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tensors by name")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Raw, M::Error> {
                let mut raw = Raw::default();
                while let Some(name) = map.next_key::<String>()? {
                    if name != METADATA {
                        raw.tensors.push((name, map.next_value()?));
                    } else if raw.metadata.replace(map.next_value()?).is_some() {
                        return Err(M::Error::custom("duplicate metadata"));
                    }
                }
                Ok(raw)
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// Whether bytes begin like a safetensors file that this runtime wrote.
pub(super) fn sniff(bytes: &[u8]) -> bool {
    let Some((len, header)) = bytes.split_first_chunk::<START>() else { return false };
    // The writer puts the metadata first, so these keys are near the start.
    let start = header.get(..header.len().min(256)).unwrap_or_default();
    let contains = |text: &[u8]| start.windows(text.len()).any(|window| window == text);
    u64::from_le_bytes(*len) < 1 << 32
        && start.starts_with(b"{")
        && contains(METADATA.as_bytes())
        && (contains(br#""udo.version""#) || contains(br#""format":"udo""#))
}

/// Parses the header of a file and checks the positions of its tensors.
pub(super) fn read(file: &[u8]) -> Result<Header, ContainerError> {
    let Some((len, rest)) = file.split_first_chunk::<START>() else {
        return Err(invalid(format!("it has {} bytes, expected at least {START}", file.len())));
    };
    let len = u64::from_le_bytes(*len);
    let header_len = usize::try_from(len).ok().filter(|&len| len <= MAX_HEADER_BYTES);
    let Some(header_len) = header_len else {
        let expected = format!("at most {MAX_HEADER_BYTES}");
        return Err(invalid(format!("its header has length {len}, expected {expected}")));
    };
    let Some((header, data)) = rest.split_at_checked(header_len) else {
        return Err(invalid(format!("its header has {} bytes, expected {header_len}", rest.len())));
    };
    parse(header, data.len())
}

/// Parses a header whose tensors fill the `data_len` bytes after it.
///
/// # Errors
/// Fails if the header is invalid, or its tensors leave gaps, overlap or exceed the data.
pub fn parse(header: &[u8], data_len: usize) -> Result<Header, ContainerError> {
    let raw: Raw = serde_json::from_slice(header)
        .map_err(|error| invalid(format!("its header is not a JSON object of tensors: {error}")))?;
    let tensors = check_positions(raw.tensors, START + header.len(), data_len)?;
    Ok(Header { metadata: raw.metadata.unwrap_or_default(), tensors })
}

fn invalid(reason: String) -> ContainerError {
    ContainerError::WrongBytes { reason }
}

/// Checks that the tensors fill the `data_len` bytes after `start`, and indexes them by name.
fn check_positions(
    mut raw: Vec<(String, RawEntry)>,
    start: usize,
    data_len: usize,
) -> Result<HashMap<String, Entry>, ContainerError> {
    raw.sort_by_key(|(_, entry)| entry.data_offsets);
    let mut tensors = HashMap::with_capacity(raw.len());
    let mut end = 0;
    for (name, entry) in raw {
        let [from, to] = entry.data_offsets;
        if from != end {
            return Err(invalid(format!(
                "tensor {name:?} begins at byte {from} of the data, expected {end}"
            )));
        }
        let expected = size_bytes(&name, &entry)?;
        if from.checked_add(expected) != Some(to) {
            let RawEntry { dtype, shape, .. } = &entry;
            return Err(invalid(format!(
                "tensor {name:?} ends at byte {to} of the data, expected {expected} bytes from byte {from} for {dtype} {shape:?}"
            )));
        }
        if to > data_len {
            return Err(invalid(format!(
                "tensor {name:?} ends at byte {to} of the data, which has {data_len} bytes"
            )));
        }
        end = to;
        // Both sums are at most the size of the file.
        let entry = Entry { type_name: entry.dtype, bytes: start + from..start + to };
        if tensors.insert(name.clone(), entry).is_some() {
            return Err(invalid(format!(
                "two tensors are called {name:?}, expected different names"
            )));
        }
    }
    if end != data_len {
        return Err(invalid(format!(
            "{data_len} bytes of data, expected {end} bytes, the size of all tensors"
        )));
    }
    Ok(tensors)
}

/// Returns the size of a tensor in bytes.
fn size_bytes(name: &str, entry: &RawEntry) -> Result<usize, ContainerError> {
    let supported = DType::ALL
        .into_iter()
        .filter_map(|dtype| Some((dtype_name(dtype)?, dtype.size_bytes().checked_mul(8)?)));
    let bits = supported.chain(OTHERS).find(|(known, _)| *known == entry.dtype);
    let Some((_, bits)) = bits else {
        return Err(invalid(format!(
            "tensor {name:?} has elements of unknown type {:?}",
            entry.dtype
        )));
    };
    let bits = entry.shape.iter().try_fold(bits, |bits, extent| bits.checked_mul(*extent));
    let Some(bits) = bits else {
        return Err(invalid(format!("tensor {name:?} has too many elements: {:?}", entry.shape)));
    };
    if !bits.is_multiple_of(8) {
        return Err(invalid(format!("tensor {name:?} ends within a byte: {bits} bits")));
    }
    Ok(bits / 8)
}
