//! Elements that a model keeps in files of its folder. Each file is mapped once; tensors whose elements are aligned
//! in it share them, and others copy.

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

/// The files of a model's folder, if it has one.
pub(super) struct Files<'a> {
    folder: Option<&'a Path>,
    /// Where else links of that folder may lead.
    linked: Option<&'a Path>,
    reading: Reading,
    /// Those that have been looked into, by what the model calls them.
    mapped: RefCell<HashMap<String, Bytes>>,
}

/// Where in another file a tensor's elements lie.
struct Location<'a> {
    file: &'a str,
    offset_bytes: usize,
    length_bytes: Option<usize>,
}

fn location<'a>(
    place: Arguments<'_>,
    entries: &'a [StringStringEntryProto],
) -> Result<Location<'a>, ImportError> {
    let number = |key: &str, text: &str| {
        text.parse::<usize>().map_err(|_| {
            ImportError::malformed(place, format!("external {key} {text:?}"), "a number of bytes")
        })
    };
    let mut at = Location { file: "", offset_bytes: 0, length_bytes: None };
    for StringStringEntryProto { key, value } in entries {
        match key.as_str() {
            "location" => at.file = value,
            "offset" => at.offset_bytes = number("offset", value)?,
            "length" => at.length_bytes = Some(number("length", value)?),
            // Checksums and whatever later versions add say nothing of where the bytes are.
            _ => {}
        }
    }
    let is_inside = |c| matches!(c, Component::Normal(_) | Component::CurDir);
    if at.file.is_empty() || !Path::new(at.file).components().all(is_inside) {
        return Err(outside(place, at.file));
    }
    Ok(at)
}

fn outside(place: Arguments<'_>, file: &str) -> ImportError {
    let found = format!("external location {file:?}");
    ImportError::malformed(place, found, "a file in the model's folder")
}

impl<'a> Files<'a> {
    /// No files.
    pub(super) fn none() -> Self {
        Self { folder: None, linked: None, reading: Reading::default(), mapped: RefCell::default() }
    }

    pub(super) fn of(options: &'a ImportOptions) -> Self {
        let (folder, linked) = (options.folder.as_deref(), options.linked_folder.as_deref());
        Self { folder, linked, reading: options.reading, mapped: RefCell::default() }
    }

    /// The tensor whose elements are where `entries` say.
    pub(super) fn tensor(
        &self,
        place: Arguments<'_>,
        entries: &[StringStringEntryProto],
        dtype: DType,
        shape: Shape,
    ) -> Result<Tensor, ImportError> {
        let wanted = shape.len().saturating_mul(dtype.size_bytes());
        let bytes = self.bytes(place, entries, (wanted, &format!("{dtype}{shape}")))?;
        match dtype {
            // Not as the file says them: every true is 1.
            DType::Bool => from_raw(place, dtype, shape, &bytes),
            _ => Tensor::of_file(dtype, shape, bytes).map_err(|error| size_error(place, &error)),
        }
    }

    /// So many bytes in another file, for what they are called.
    pub(super) fn bytes(
        &self,
        place: Arguments<'_>,
        entries: &[StringStringEntryProto],
        (wanted, what): (usize, &str),
    ) -> Result<Bytes, ImportError> {
        let at = location(place, entries)?;
        let file = self.file(place, at.file)?;
        if let Some(found) = at.length_bytes.filter(|&found| found != wanted) {
            let wanted = format!("{wanted} for {what}");
            return Err(ImportError::malformed(place, format!("{found} external bytes"), wanted));
        }
        let end = at.offset_bytes.checked_add(wanted).filter(|&end| end <= file.len());
        let Some(end) = end else {
            let found = format!("{} bytes in {:?}", file.len(), at.file);
            let wanted = format!("{wanted} from byte {}", at.offset_bytes);
            return Err(ImportError::malformed(place, found, wanted));
        };
        Ok(file.slice(at.offset_bytes..end))
    }

    /// The bytes of the file that the model calls so.
    fn file(&self, place: Arguments<'_>, name: &str) -> Result<Bytes, ImportError> {
        if let Some(bytes) = self.mapped.borrow().get(name) {
            return Ok(bytes.clone());
        }
        let Some(folder) = self.folder else {
            let found = format!("external data in {name:?}");
            let wanted = "a model that was read from a folder";
            return Err(ImportError::unsupported(place, found, wanted));
        };
        let path = folder.join(name);
        let unreadable = |source| ImportError::Read { path: path.clone(), source };
        // Links may lead out of the folder even where the name does not.
        let real = path.canonicalize().map_err(unreadable)?;
        let own = folder.canonicalize().map_err(unreadable)?;
        let mut folders = [Some(own.as_path()), self.linked].into_iter().flatten();
        if !folders.any(|folder| real.starts_with(folder)) || !real.is_file() {
            return Err(outside(place, name));
        }
        let bytes = self.reading.bytes(&real)?.0;
        self.mapped.borrow_mut().insert(name.to_owned(), bytes.clone());
        Ok(bytes)
    }
}
