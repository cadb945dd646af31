//! The file of a model, and ids of the file and of constants in it.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::key::Key;
use super::stamp::Stamp;
use udo_graph::container::checksum::sum128;
use udo_graph::memory::ModelBytes;

/// The bytes of a model's file.
#[derive(Clone, Debug)]
pub struct ModelSource {
    bytes: ModelBytes,
    /// Without a path, constants are identified by their content.
    path: Option<PathBuf>,
    stamp: Option<Stamp>,
}

impl ModelSource {
    /// Reads the file at `path` with `read`.
    ///
    /// # Errors
    /// Fails as `read` does.
    pub fn read<E>(
        path: &Path,
        read: impl FnOnce(&Path) -> Result<ModelBytes, E>,
    ) -> Result<Self, E> {
        let before = Stamp::read(path);
        let bytes = read(path)?;
        let is_same =
            |before: &Stamp| Stamp::read(path).is_some_and(|after| after.words == before.words);
        let stamp = before.filter(is_same);
        Ok(Self { bytes, path: Some(path.to_owned()), stamp })
    }

    /// Wraps bytes that do not come from a file.
    pub fn from_bytes(bytes: ModelBytes) -> Self {
        Self { bytes, path: None, stamp: None }
    }

    /// Creates a source without a file: constants are identified by their content.
    pub(super) fn by_content() -> Self {
        Self::from_bytes(ModelBytes::copy_of(&[]))
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &ModelBytes {
        &self.bytes
    }

    /// Returns the file name of the model's file in the folder of a cache.
    pub(super) fn file_name(&self) -> String {
        let Some(path) = &self.path else {
            return format!("model-{:032x}.udc", sum128(self.bytes.as_ref()));
        };
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let stem = sanitized(&stem);
        let whole = path.canonicalize().unwrap_or_else(|_| path.clone());
        format!("{stem}-{:032x}.udc", sum128(whole.as_os_str().as_encoded_bytes()))
    }

    /// Returns the times of the file, if it is old enough to be identified by them.
    pub(super) fn stamp(&self) -> Option<String> {
        self.stamp.as_ref().filter(|stamp| stamp.is_settled()).map(Stamp::text)
    }

    /// Returns the checksum of the model's bytes; that of `known` if the times show that the file is unchanged.
    pub(super) fn content(&self, known: Option<&Key>) -> u128 {
        let stamp = self.stamp();
        let known = known.filter(|known| stamp.is_some() && known.stamp == stamp);
        known.map_or_else(|| sum128(self.bytes.as_ref()), |known| known.content)
    }

    /// Returns an id of the elements of a constant: their position in the file, or else their checksum.
    pub(super) fn place(&self, elements: &[u8]) -> Vec<u8> {
        let Range { start, end } = self.bytes.as_ref().as_ptr_range();
        let Range { start: from, end: to } = elements.as_ptr_range();
        // A copy in memory may or may not be aligned, so elements may be read in place or from another copy.
        if self.path.is_some() && start <= from && to <= end {
            let at = from.addr().saturating_sub(start.addr());
            return format!("bytes {at} {};", elements.len()).into_bytes();
        }
        format!("sum {:032x} {};", sum128(elements), elements.len()).into_bytes()
    }
}

impl ModelSource {
    /// Returns an id of the elements of a constant within this process: their position in a file that its times identify, or
    /// else their checksum.
    pub fn key(&self, elements: &[u8]) -> String {
        let place = self.place(elements);
        let is_sum = place.starts_with(b"sum");
        match self.stamp().filter(|_| !is_sum) {
            Some(stamp) => format!("{stamp} {}", String::from_utf8_lossy(&place)),
            None => format!("sum {:032x} {};", sum128(elements), elements.len()),
        }
    }
}

/// Removes the characters of a name that file systems may not allow.
pub(super) fn sanitized(name: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.chars().filter(is_plain).take(64).collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::cache::stamp::YOUNG;

    fn stamp(age: Duration) -> Stamp {
        let taken = SystemTime::now();
        Stamp { words: vec![1, 2], time: taken.checked_sub(age).unwrap(), taken }
    }

    #[test]
    fn times_stand_for_bytes_where_they_are_old_enough() {
        let source = |stamp: Option<Stamp>| ModelSource {
            bytes: ModelBytes::copy_of(b"model"),
            path: Some("m.onnx".into()),
            stamp,
        };
        let texts = ["sdk", "isa", "code"].map(str::to_owned);
        let [sdk, isa, code] = texts;
        let stored = Some(stamp(YOUNG).text());
        let known = Key { version: 0, sdk, isa, code, content: 17, stamp: stored };
        let content = |stamp: Option<Stamp>| source(stamp).content(Some(&known));
        assert_eq!(content(Some(stamp(YOUNG))), 17, "nothing is read");
        let whole = sum128(b"model");
        assert_eq!(content(Some(stamp(Duration::from_millis(1999)))), whole, "it is too young");
        assert_eq!(content(None), whole);
        let other = Stamp { words: vec![1, 3], ..stamp(YOUNG) };
        assert_eq!(content(Some(other)), whole, "it is another file");
        assert_eq!(source(Some(stamp(YOUNG))).content(None), whole);
        let unsaid = Key { stamp: None, ..known.clone() };
        assert_eq!(source(None).content(Some(&unsaid)), whole);
    }

    #[test]
    fn elements_are_known_by_their_place_or_by_their_sum() {
        let source = ModelSource::from_bytes(ModelBytes::copy_of(b"0123456789"));
        assert!(source.place(source.bytes().as_ref()).starts_with(b"sum "));
        let source = ModelSource { path: Some("m.onnx".into()), ..source };
        let bytes = source.bytes().as_ref();
        assert_eq!(source.place(&bytes[2..5]), b"bytes 2 3;");
        assert_eq!(source.place(bytes), b"bytes 0 10;");
        let elsewhere = source.place(b"234");
        assert!(elsewhere.starts_with(b"sum ") && elsewhere.ends_with(b" 3;"));
        assert_ne!(elsewhere, source.place(b"235"));
    }
}
