//! External data: tensors whose elements are in other files of the model's folder. Each file is mapped once.
//! Tensors that are aligned in the file share the mapping; others are copied.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Arguments;
use std::path::{Component, Path};

use prost::bytes::Bytes;
use udo_api::{DType, Shape};

use super::ImportError;
use super::proto::StringStringEntryProto;
use super::raw::{from_raw, size_error};
use crate::import::{ImportOptions, Reading};
use crate::memory::Tensor;

/// The external data files of a model.
pub(super) struct Files<'a> {
    folder: Option<&'a Path>,
    /// A second folder that symbolic links in `folder` may lead to.
    linked: Option<&'a Path>,
    reading: Reading,
    /// The files opened before, by their names in the model.
    mapped: RefCell<HashMap<String, Bytes>>,
}

/// The position of a tensor's elements in an external file.
struct Location<'a> {
    file: &'a str,
    offset_bytes: usize,
    length_bytes: Option<usize>,
}

/// Parses the entries of a tensor's `external_data`.
fn location<'a>(
    place: Arguments<'_>,
    entries: &'a [StringStringEntryProto],
) -> Result<Location<'a>, ImportError> {
    let number = |key: &str, text: &str| {
        text.parse::<usize>().map_err(|_| {
            ImportError::malformed(place, format!("external {key} {text:?}"), "a number of bytes")
        })
    };
    let mut location = Location { file: "", offset_bytes: 0, length_bytes: None };
    for StringStringEntryProto { key, value } in entries {
        match key.as_str() {
            "location" => location.file = value,
            "offset" => location.offset_bytes = number("offset", value)?,
            "length" => location.length_bytes = Some(number("length", value)?),
            // Checksums and unknown keys do not change the position.
            _ => {}
        }
    }
    let is_inside = |c| matches!(c, Component::Normal(_) | Component::CurDir);
    if location.file.is_empty() || !Path::new(location.file).components().all(is_inside) {
        return Err(outside(place, location.file));
    }
    Ok(location)
}

fn outside(place: Arguments<'_>, file: &str) -> ImportError {
    let found = format!("external location {file:?}");
    ImportError::malformed(place, found, "a file in the model's folder")
}

impl<'a> Files<'a> {
    /// Creates an empty set: external data is refused.
    pub(super) fn empty() -> Self {
        Self { folder: None, linked: None, reading: Reading::default(), mapped: RefCell::default() }
    }

    pub(super) fn new(options: &'a ImportOptions) -> Self {
        let (folder, linked) = (options.folder.as_deref(), options.linked_folder.as_deref());
        Self { folder, linked, reading: options.reading, mapped: RefCell::default() }
    }

    /// Returns the tensor whose elements are at the position that `entries` give.
    pub(super) fn tensor(
        &self,
        place: Arguments<'_>,
        entries: &[StringStringEntryProto],
        dtype: DType,
        shape: Shape,
    ) -> Result<Tensor, ImportError> {
        let expected = shape.len().saturating_mul(dtype.size_bytes());
        let bytes = self.bytes(place, entries, (expected, &format!("{dtype}{shape}")))?;
        match dtype {
            // Normalized: every non-zero byte becomes 1.
            DType::Bool => from_raw(place, dtype, shape, &bytes),
            _ => Tensor::of_file(dtype, shape, bytes).map_err(|error| size_error(place, &error)),
        }
    }

    /// Returns the bytes of an external file that `entries` locate. Fails unless there are `expected` bytes; `what` describes
    /// them in the message.
    pub(super) fn bytes(
        &self,
        place: Arguments<'_>,
        entries: &[StringStringEntryProto],
        (expected, what): (usize, &str),
    ) -> Result<Bytes, ImportError> {
        let location = location(place, entries)?;
        let file = self.file(place, location.file)?;
        if let Some(found) = location.length_bytes.filter(|&found| found != expected) {
            let expected = format!("{expected} for {what}");
            return Err(ImportError::malformed(place, format!("{found} external bytes"), expected));
        }
        let end = location.offset_bytes.checked_add(expected).filter(|&end| end <= file.len());
        let Some(end) = end else {
            let found = format!("{} bytes in {:?}", file.len(), location.file);
            let expected = format!("{expected} from byte {}", location.offset_bytes);
            return Err(ImportError::malformed(place, found, expected));
        };
        Ok(file.slice(location.offset_bytes..end))
    }

    /// Returns the bytes of the file with this name in the model.
    fn file(&self, place: Arguments<'_>, name: &str) -> Result<Bytes, ImportError> {
        if let Some(bytes) = self.mapped.borrow().get(name) {
            return Ok(bytes.clone());
        }
        let Some(folder) = self.folder else {
            let found = format!("external data in {name:?}");
            let expected = "a model imported from a file";
            return Err(ImportError::unsupported(place, found, expected));
        };
        let path = folder.join(name);
        let unreadable = |source| ImportError::Read { path: path.clone(), source };
        // A link may lead out of the folder even if its name does not.
        let real_path = path.canonicalize().map_err(unreadable)?;
        let real_folder = folder.canonicalize().map_err(unreadable)?;
        let mut folders = [Some(real_folder.as_path()), self.linked].into_iter().flatten();
        if !folders.any(|folder| real_path.starts_with(folder)) || !real_path.is_file() {
            return Err(outside(place, name));
        }
        let bytes = self.reading.bytes(&real_path)?.0;
        self.mapped.borrow_mut().insert(name.to_owned(), bytes.clone());
        Ok(bytes)
    }
}
