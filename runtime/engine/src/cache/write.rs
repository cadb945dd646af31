//! Writes cache files atomically.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use udo_files::Access;
use udo_host::PackedBytes;

use super::file::{FORMAT, METADATA_KEY, Metadata, SUM, Stored, name};
use super::key::Key;
use udo_graph::container::checksum::{sum128, sum128_by_parts};
use udo_graph::container::safetensors::{METADATA, START};
use udo_graph::memory::ALIGN_BYTES;

/// Prepacked weights by id.
pub(super) type PackedWeights = BTreeMap<u128, Arc<PackedBytes>>;

/// Writes a cache file atomically. Entries of an earlier file are kept unless they are larger than the new ones: then
/// they belong to plans that are no longer compiled.
pub(super) fn write(
    path: &Path,
    key: &Key,
    weights: &PackedWeights,
    earlier: Option<&Stored>,
) -> io::Result<()> {
    let all = with_earlier(weights, earlier);
    udo_files::remove_abandoned(path);
    udo_files::write_with(path, Access::Owner, |out| write_to(out, key, &all))
}

/// Returns `weights` with the entries of an earlier file that are kept.
pub(super) fn with_earlier(weights: &PackedWeights, earlier: Option<&Stored>) -> PackedWeights {
    let mut all = weights.clone();
    all.extend(earlier_entries(weights, earlier));
    all
}

/// Returns the entries of `earlier` that are not in `weights`, unless they are larger in total.
fn earlier_entries(weights: &PackedWeights, earlier: Option<&Stored>) -> PackedWeights {
    let mut budget_bytes = weights.values().map(|packed| packed.len()).sum::<usize>();
    let mut kept = PackedWeights::new();
    let Some(earlier) = earlier else { return kept };
    for (id, len) in earlier.all().filter(|(id, _)| !weights.contains_key(id)) {
        let Some(left) = budget_bytes.checked_sub(len) else { return PackedWeights::new() };
        budget_bytes = left;
        if let Ok(Some(packed)) = earlier.get(id, len) {
            kept.insert(id, Arc::new(packed));
        }
    }
    kept
}

/// Encodes a cache file. Each tensor is aligned to 64 bytes.
pub(super) fn write_to(out: &mut impl Write, key: &Key, all: &PackedWeights) -> io::Result<()> {
    let sums = all.iter().map(|(id, packed)| (name(*id), name(sum128_by_parts(packed.bytes()))));
    let form = Metadata { format: FORMAT, key: key.clone(), sums: sums.collect() };
    let form = serde_json::to_string(&form)?;
    let sum = name(sum128(form.as_bytes()));
    let metadata = json!({ METADATA: { METADATA_KEY: form, SUM: sum } }).to_string();
    // The tensors follow before the closing brace.
    let mut header = metadata.strip_suffix('}').unwrap_or_default().to_owned();
    let mut end = 0usize;
    let mut tensor = |name: &str, len: usize| {
        let start = end;
        end = start.checked_add(len).ok_or_else(|| io::Error::other("too many bytes"))?;
        let entry = json!({ "dtype": "U8", "shape": [len], "data_offsets": [start, end] });
        let _ = write!(header, ",\"{name}\":{entry}");
        Ok::<_, io::Error>(())
    };
    for (at, (id, packed)) in all.iter().enumerate() {
        tensor(&name(*id), packed.len())?;
        if filler(packed.len()) > 0 {
            tensor(&format!("udo.filler.{at}"), filler(packed.len()))?;
        }
    }
    header.push('}');
    let blanks = filler(START + header.len());
    header.push_str(&" ".repeat(blanks));
    let len = u64::try_from(header.len()).map_err(io::Error::other)?;
    out.write_all(&len.to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    for packed in all.values() {
        out.write_all(packed.bytes())?;
        out.write_all([0; ALIGN_BYTES].get(..filler(packed.len())).unwrap_or_default())?;
    }
    out.flush()
}

/// Returns the padding after `len` bytes.
fn filler(len: usize) -> usize {
    len.next_multiple_of(ALIGN_BYTES) - len
}

#[cfg(test)]
mod tests {
    use std::fs;

    use udo_host::Buffer;

    use super::*;
    use crate::cache::file::Verification;

    /// A disk that is full after so many bytes, and counts the writes.
    struct Full {
        bytes: Vec<u8>,
        budget_bytes: usize,
        writes: usize,
    }

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.writes += 1;
            let taken = bytes.len().min(self.budget_bytes - self.bytes.len());
            if taken == 0 && !bytes.is_empty() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.bytes.extend(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn key() -> Key {
        let (sdk, isa, code) = ("1".to_owned(), "I".to_owned(), "C".to_owned());
        Key { version: 3, sdk, isa, code, content: u128::MAX, stamp: Some("1-2".to_owned()) }
    }

    fn packed(len: u8) -> Arc<PackedBytes> {
        Arc::new(Buffer::from_bytes(&(0..len).collect::<Vec<_>>()).unwrap().into())
    }

    fn weights() -> PackedWeights {
        PackedWeights::from([(7, packed(100)), (u128::MAX, packed(0)), (8, packed(33))])
    }

    fn reads(stored: &Stored) {
        assert_eq!(stored.key, key());
        stored.verify(&Verification::default());
        for (id, packed) in weights() {
            let found = stored.get(id, packed.len()).unwrap().unwrap();
            assert_eq!(found.bytes(), packed.bytes());
            assert!(found.is_empty() || found.as_ptr().addr().is_multiple_of(ALIGN_BYTES));
            assert!(stored.get(id, packed.len() + 1).unwrap().is_none());
            assert!(stored.get(id ^ 1 << 100, packed.len()).unwrap().is_none());
        }
    }

    #[test]
    fn a_file_is_there_whole_or_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.udc");
        assert!(Stored::open(&path).unwrap().is_none());
        write(&path, &key(), &weights(), None).unwrap();
        reads(&Stored::open(&path).unwrap().unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        let all = fs::read(&path).unwrap();
        for budget_bytes in 0..all.len() {
            let mut disk = Full { bytes: Vec::new(), budget_bytes, writes: 0 };
            let error = write_to(&mut disk, &key(), &weights()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{budget_bytes} bytes");
            assert_eq!(disk.bytes, all[..budget_bytes], "writers that end leave a beginning");
            let cut = folder.path().join("cut.udc");
            fs::write(&cut, &disk.bytes).unwrap();
            assert!(Stored::open(&cut).is_err(), "{budget_bytes} bytes");
        }
    }

    #[test]
    fn what_nobody_holds_is_kept_within_bounds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.udc");
        write(&path, &key(), &weights(), None).unwrap();
        let earlier = Stored::open(&path).unwrap().unwrap();
        for (len, is_kept) in [(133, true), (132, false)] {
            let new = PackedWeights::from([(1, packed(len))]);
            write(&path, &key(), &new, Some(&earlier)).unwrap();
            let stored = Stored::open(&path).unwrap().unwrap();
            assert!(stored.has(1, usize::from(len)));
            assert_eq!(stored.has(7, 100), is_kept);
            assert_eq!(stored.has(8, 33), is_kept);
        }
    }

    #[test]
    fn what_is_damaged_is_not_given_out() {
        let mut bytes = Vec::new();
        write_to(&mut bytes, &key(), &weights()).unwrap();
        let at = bytes.len() - 64;
        bytes[at] ^= 1;
        for is_verification_started in [false, true] {
            let stored = Stored::read(Arc::new(bytes.clone())).unwrap();
            if is_verification_started {
                stored.verify(&Verification::default());
            }
            let good = stored.get(7, 100).unwrap().unwrap();
            assert_eq!(good.bytes(), packed(100).bytes(), "copied where it is not aligned");
            assert!(stored.get(8, 33).unwrap_err().to_string().ends_with(" is damaged"));
        }
    }
    #[test]
    fn threads_look_ahead_at_large_files() {
        let large: Vec<u8> = (0u8..=250).cycle().take(3 << 20).collect();
        let large = Arc::new(PackedBytes::from(Buffer::from_bytes(&large).unwrap()));
        let weights = PackedWeights::from([(1, Arc::clone(&large)), (2, packed(33))]);
        let mut good = Vec::new();
        write_to(&mut good, &key(), &weights).unwrap();
        let mut bad = good.clone();
        let middle = bad.len() / 2;
        bad[middle] ^= 1;
        for (bytes, is_sound) in [(good, true), (bad, false)] {
            for is_ended in [false, true] {
                let stored = Stored::read(Arc::new(bytes.clone())).unwrap();
                assert!(stored.start_verification() && !stored.start_verification(), "once");
                let ahead = Verification::default();
                if is_ended {
                    ahead.end();
                }
                std::thread::scope(|scope| {
                    for _ in 0..3 {
                        scope.spawn(|| stored.verify(&ahead));
                    }
                    assert_eq!(stored.get(1, large.len()).is_ok(), is_sound);
                });
                assert_eq!(stored.get(1, large.len()).is_ok(), is_sound);
                assert!(stored.get(2, 33).unwrap().is_some());
            }
        }
        let mut small = Vec::new();
        write_to(&mut small, &key(), &PackedWeights::from([(2, packed(33))])).unwrap();
        assert!(!Stored::read(Arc::new(small)).unwrap().start_verification());
    }
}
