//! The file of a cache: a safetensors file whose tensors are packed constants, called by what stands for them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use udo_host::Buffer;

use crate::container::checksum::sum128;
use crate::container::safetensors::{self, Entry, MAX_HEADER_BYTES, METADATA, START};

/// The version of the format.
const FORMAT: u32 = 1;

/// What the metadata call the text of [`Form`], and its sum.
const FORM: &str = "udo.cache";
const SUM: &str = "udo.checksum";

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

/// What the metadata say.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Form {
    format: u32,
    key: Key,
    /// The sums of the packed constants, by what stands for them.
    sums: BTreeMap<String, String>,
}

/// A file that is there, and whose header is sound.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) key: Key,
    file: File,
    packed: BTreeMap<u128, (Entry, u128)>,
}

impl Stored {
    /// The file at `path`, if there is one.
    ///
    /// # Errors
    /// Why it is of no use.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, String> {
        let mut file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| error.to_string())?,
        };
        let of = file.metadata().map_err(|error| error.to_string())?;
        let len = usize::try_from(of.len()).map_err(|error| error.to_string())?;
        let (header, data_len) = header(&mut file, len)?;
        let header = safetensors::parse(&header, data_len).map_err(|error| error.to_string())?;
        let text = header.metadata.get(FORM).ok_or("it is no file of a cache")?;
        let sum = format!("{:032x}", sum128(text.as_bytes()));
        if header.metadata.get(SUM) != Some(&sum) {
            return Err("its metadata are damaged".to_owned());
        }
        let form: Form = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if form.format != FORMAT {
            return Err(format!("it is of format {}, wanted {FORMAT}", form.format));
        }
        let number = |text: &str| u128::from_str_radix(text, 16).map_err(|error| error.to_string());
        let mut packed = BTreeMap::new();
        for (name, sum) in &form.sums {
            let entry =
                header.tensors.get(name).ok_or_else(|| format!("it has no tensor {name}"))?;
            packed.insert(number(name)?, (entry.clone(), number(sum)?));
        }
        Ok(Some(Self { key: form.key, file, packed }))
    }

    /// Whether it has so many bytes of the packed constant.
    pub(super) fn has(&self, id: u128, len: usize) -> bool {
        self.packed.get(&id).is_some_and(|(entry, _)| entry.bytes.len() == len)
    }

    /// Reads a packed constant, if it is there and as long as `target`.
    ///
    /// # Errors
    /// It is damaged; whatever is in `target` then.
    pub(super) fn read(&self, id: u128, target: &mut [u8]) -> Result<bool, String> {
        let Some((entry, sum)) = self.packed.get(&id) else { return Ok(false) };
        if entry.bytes.len() != target.len() {
            return Ok(false);
        }
        read_at(&self.file, target, entry.bytes.start).map_err(|error| error.to_string())?;
        if sum128(target) != *sum {
            return Err(format!("its tensor {} is damaged", name(id)));
        }
        Ok(true)
    }
}

/// The header's text, and how many bytes are behind it.
fn header(file: &mut File, len: usize) -> Result<(Vec<u8>, usize), String> {
    let mut start = [0; START];
    file.read_exact(&mut start).map_err(|error| error.to_string())?;
    let said = usize::try_from(u64::from_le_bytes(start)).ok();
    let behind = len.checked_sub(START).zip(said).and_then(|(rest, said)| rest.checked_sub(said));
    let (Some(said), Some(behind)) = (said.filter(|said| *said <= MAX_HEADER_BYTES), behind) else {
        return Err("it is shorter than its header says".to_owned());
    };
    let mut header = vec![0; said];
    file.read_exact(&mut header).map_err(|error| error.to_string())?;
    Ok((header, behind))
}

/// Fills `target` from byte `at` of the file on; several may do that at once.
#[cfg(unix)]
fn read_at(file: &File, target: &mut [u8], at: usize) -> io::Result<()> {
    let at = u64::try_from(at).map_err(io::Error::other)?;
    std::os::unix::fs::FileExt::read_exact_at(file, target, at)
}

/// As above, where nothing opens a cache.
#[cfg(not(unix))]
fn read_at(_: &File, _: &mut [u8], _: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

fn name(id: u128) -> String {
    format!("{id:032x}")
}

/// Writes a file over any that was there, whole or not at all. What an earlier one has besides is kept, as long as that
/// is not more than what is new: else it is of plans that nobody makes any more.
pub(super) fn write(
    path: &Path,
    key: &Key,
    held: &BTreeMap<u128, Arc<Buffer>>,
    earlier: Option<&Stored>,
) -> io::Result<()> {
    let kept = kept(held, earlier);
    let all: BTreeMap<u128, &[u8]> = held
        .iter()
        .map(|(id, packed)| (*id, packed.bytes()))
        .chain(kept.iter().map(|(id, packed)| (*id, packed.bytes())))
        .collect();
    remove_abandoned(path);
    let part = part(path);
    let written = File::create_new(&part).and_then(|mut out| {
        write_to(&mut out, key, &all)?;
        out.sync_all()?;
        fs::rename(&part, path)
    });
    written.inspect_err(|_| {
        // What there is of it is of no use; where there is nothing, that is no second fault.
        let _ = fs::remove_file(&part);
    })
}

/// What `earlier` has and nobody holds, unless that is more than what is held.
fn kept(held: &BTreeMap<u128, Arc<Buffer>>, earlier: Option<&Stored>) -> BTreeMap<u128, Buffer> {
    let mut room = held.values().map(|packed| packed.len()).sum::<usize>();
    let mut kept = BTreeMap::new();
    let Some(earlier) = earlier else { return kept };
    for (&id, (entry, _)) in earlier.packed.iter().filter(|(id, _)| !held.contains_key(id)) {
        let len = entry.bytes.len();
        let Some(left) = room.checked_sub(len) else { return BTreeMap::new() };
        room = left;
        let Ok(mut packed) = Buffer::zeroed(len) else { continue };
        if earlier.read(id, packed.bytes_mut()) == Ok(true) {
            kept.insert(id, packed);
        }
    }
    kept
}

/// Writes the bytes of a file.
fn write_to(out: &mut impl Write, key: &Key, all: &BTreeMap<u128, &[u8]>) -> io::Result<()> {
    let sums = all.iter().map(|(id, packed)| (name(*id), name(sum128(packed)))).collect();
    let form = Form { format: FORMAT, key: key.clone(), sums };
    let form = serde_json::to_string(&form)?;
    let sum = name(sum128(form.as_bytes()));
    let mut header = Map::new();
    header.insert(METADATA.to_owned(), json!({ FORM: form, SUM: sum }));
    let mut end = 0usize;
    for (id, packed) in all {
        let start = end;
        end = end.checked_add(packed.len()).ok_or_else(|| io::Error::other("too many bytes"))?;
        let entry = json!({ "dtype": "U8", "shape": [packed.len()], "data_offsets": [start, end] });
        header.insert(name(*id), entry);
    }
    let header = Value::Object(header).to_string();
    let len = u64::try_from(header.len()).map_err(io::Error::other)?;
    out.write_all(&len.to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    all.values().try_for_each(|packed| out.write_all(packed))?;
    out.flush()
}

/// What the file is called while it is written: no other writer has this name.
fn part(path: &Path) -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}-{number}.part", std::process::id()));
    part.into()
}

/// No writer takes longer.
const ABANDONED: Duration = Duration::from_hours(1);

/// Removes what writers of the file left that ended in the midst of it.
fn remove_abandoned(path: &Path) {
    let (Some(dir), Some(own)) = (path.parent(), path.file_name()) else { return };
    let own = own.as_encoded_bytes();
    let Ok(all) = fs::read_dir(dir) else { return };
    for entry in all.flatten() {
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        let age = || entry.metadata().ok()?.modified().ok()?.elapsed().ok();
        if name.starts_with(own)
            && name.ends_with(b".part")
            && age().is_some_and(|age| age > ABANDONED)
        {
            // Somebody else may have been faster.
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that is full after so many bytes, and counts the writes.
    struct Full {
        bytes: Vec<u8>,
        room: usize,
        writes: usize,
    }

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.writes += 1;
            let taken = bytes.len().min(self.room - self.bytes.len());
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

    fn held() -> BTreeMap<u128, Arc<Buffer>> {
        let packed = |len: u8| Arc::new(Buffer::of(&(0..len).collect::<Vec<_>>()).unwrap());
        BTreeMap::from([(7, packed(100)), (u128::MAX, packed(0)), (8, packed(33))])
    }

    fn reads(stored: &Stored) {
        assert_eq!(stored.key, key());
        for (id, packed) in held() {
            let mut found = vec![0; packed.len()];
            assert_eq!(stored.read(id, &mut found), Ok(true));
            assert_eq!(found, packed.bytes());
            assert_eq!(stored.read(id, &mut vec![0; packed.len() + 1]), Ok(false));
            assert_eq!(stored.read(id ^ 1 << 100, &mut found), Ok(false));
        }
    }

    #[test]
    fn a_file_is_there_whole_or_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.udc");
        assert!(Stored::open(&path).unwrap().is_none());
        write(&path, &key(), &held(), None).unwrap();
        reads(&Stored::open(&path).unwrap().unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        let all = fs::read(&path).unwrap();
        for room in 0..all.len() {
            let held = held();
            let held = held.iter().map(|(id, packed)| (*id, packed.bytes())).collect();
            let mut disk = Full { bytes: Vec::new(), room, writes: 0 };
            let error = write_to(&mut disk, &key(), &held).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{room} bytes");
            assert_eq!(disk.bytes, all[..room], "writers that end leave a beginning");
            fs::write(part(&path), &disk.bytes).unwrap();
            reads(&Stored::open(&path).unwrap().unwrap());
            let cut = folder.path().join("cut.udc");
            fs::write(&cut, &disk.bytes).unwrap();
            assert!(Stored::open(&cut).is_err(), "{room} bytes");
        }
    }

    #[test]
    fn what_nobody_holds_is_kept_within_bounds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.udc");
        write(&path, &key(), &held(), None).unwrap();
        let earlier = Stored::open(&path).unwrap().unwrap();
        for (len, is_kept) in [(133, true), (132, false)] {
            let new = BTreeMap::from([(1, Arc::new(Buffer::zeroed(len).unwrap()))]);
            write(&path, &key(), &new, Some(&earlier)).unwrap();
            let stored = Stored::open(&path).unwrap().unwrap();
            assert!(stored.has(1, len));
            assert_eq!(stored.has(7, 100), is_kept);
            assert_eq!(stored.has(8, 33), is_kept);
        }
    }

    #[test]
    fn what_differs_is_said() {
        let other = |change: fn(&mut Key)| {
            let mut other = key();
            change(&mut other);
            other.differs(&key()).unwrap_or_default()
        };
        assert_eq!(other(|key| key.version = 2), "version 2, wanted 3");
        assert_eq!(other(|key| key.sdk.clear()), "another version of the SDK");
        assert_eq!(other(|key| key.isa.clear()), "another instruction set");
        assert_eq!(other(|key| key.code.clear()), "another build of the runtime");
        assert_eq!(other(|key| key.content = 0), "another model");
        assert_eq!(other(|key| key.stamp = None), "", "the bytes were looked at");
    }
}
