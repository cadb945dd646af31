//! The index of a built package: `dist/index.json`, written by `udo build`.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Component, Path};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use udo_api::Core;

use super::OpenError;
use super::json::{JsonError, Node};

/// The file name of the index.
pub const INDEX_FILE: &str = "index.json";

/// The version of the file format.
const FORMAT: u64 = 1;

/// The role of a library in its package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LibraryKind {
    /// Describes the package's operators and names its other libraries.
    Registration,
    /// Holds kernels.
    Implementation,
}

impl LibraryKind {
    /// Returns the name, as in indexes.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Registration => "registration",
            Self::Implementation => "implementation",
        }
    }
}

/// The index of a built package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// The package's name.
    pub package: String,
    /// The package's version.
    pub version: String,
    /// The version of the SDK that it was built with.
    pub sdk_version: String,
    /// The target that it was built for, such as `x86_64-linux`.
    pub target: String,
    /// The libraries.
    pub libraries: Vec<IndexEntry>,
    /// The tool that wrote the index, if it was not `udo build`.
    pub made_by: Option<String>,
}

/// A library in an [`Index`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// Its path relative to the index.
    pub file: String,
    /// Its role.
    pub kind: LibraryKind,
    /// The core that its kernels run on; `None` for a registration library.
    pub core: Option<Core>,
    /// Its SHA-256 digest in lower-case hexadecimal digits.
    pub sha256: String,
    /// The files that it was built from; empty if unknown.
    pub sources: Vec<SourceEntry>,
}

/// A source file of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceEntry {
    /// Its path relative to the package's folder, the parent of the index's folder.
    pub file: String,
    /// Its SHA-256 digest in lower-case hexadecimal digits.
    pub sha256: String,
    /// Whether other libraries of the package are built from it too.
    pub is_shared: bool,
}

impl Index {
    /// Reads the index in `folder`. Returns `None` if there is no index.
    ///
    /// # Errors
    /// Fails if the index cannot be read or is invalid.
    pub fn read(folder: &Path) -> Result<Option<Self>, OpenError> {
        let path = folder.join(INDEX_FILE);
        let text = match udo_files::read(&path, udo_files::TEXT_BYTES) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(OpenError::unreadable(&path, e)),
        };
        Self::from_bytes(&path, &text).map(Some)
    }

    /// Parses the bytes of the index at `path`.
    pub(super) fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self, OpenError> {
        Self::parse(bytes).map_err(|misfit| {
            let reason = misfit.to_string();
            OpenError::Index { path: path.to_owned(), reason }
        })
    }

    /// Checks the SHA-256 digest of a library against the index of `folder`.
    pub(super) fn check(&self, folder: &Path, path: &Path, sha256: &str) -> Result<(), OpenError> {
        let listed = path
            .strip_prefix(folder)
            .ok()
            .and_then(|file| file.to_str())
            .and_then(|file| self.entry(file));
        match listed {
            None => {
                Err(OpenError::Unlisted { path: path.to_owned(), index: folder.join(INDEX_FILE) })
            }
            Some(entry) if entry.sha256 != sha256 => Err(OpenError::Digest {
                path: path.to_owned(),
                found: sha256.to_owned(),
                expected: entry.sha256.clone(),
            }),
            Some(_) => Ok(()),
        }
    }

    /// Checks all libraries in `folder` that exist against this index.
    pub(super) fn check_all(&self, folder: &Path, registration: &Path) -> Result<(), OpenError> {
        self.check_file(folder, registration)?;
        let others = self.libraries.iter().map(|library| folder.join(&library.file));
        let mut present = others.filter(|path| path != registration && path.exists());
        present.try_for_each(|path| self.check_file(folder, &path))
    }

    /// Computes the digest of a library and checks it against the index of `folder`.
    pub(super) fn check_file(&self, folder: &Path, path: &Path) -> Result<(), OpenError> {
        self.check(folder, path, &sha256(path)?)
    }

    /// Returns the entry of the library at `file`, a path relative to the index.
    pub(super) fn entry(&self, file: &str) -> Option<&IndexEntry> {
        self.libraries.iter().find(|library| Path::new(&library.file) == Path::new(file))
    }

    /// Writes the index into `folder`.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), OpenError> {
        let path = folder.join(INDEX_FILE);
        udo_files::write(&path, self.to_json().as_bytes())
            .map_err(|source| OpenError::Unwritable { path, source })
    }

    /// Encodes the index.
    pub fn to_json(&self) -> String {
        let libraries: Vec<Value> = self.libraries.iter().map(IndexEntry::to_value).collect();
        let mut document = json!({
            "format": FORMAT,
            "package": self.package,
            "version": self.version,
            "sdk_version": self.sdk_version,
            "target": self.target,
            "libraries": libraries,
        });
        if let (Some(made_by), Some(members)) = (&self.made_by, document.as_object_mut()) {
            members.insert("made_by".to_owned(), made_by.as_str().into());
        }
        format!("{document:#}\n")
    }

    fn parse(text: &[u8]) -> Result<Self, JsonError> {
        let document: Value = serde_json::from_slice(text)?;
        let root = Node::root(&document);
        let format = root.number("format")?;
        if format != FORMAT {
            return Err(JsonError::Format { found: format, expected: FORMAT });
        }
        Ok(Self {
            package: root.text("package")?.to_owned(),
            version: root.text("version")?.to_owned(),
            sdk_version: root.text("sdk_version")?.to_owned(),
            target: root.text("target")?.to_owned(),
            libraries: root.list("libraries", IndexEntry::parse)?,
            made_by: document.get("made_by").and_then(Value::as_str).map(str::to_owned),
        })
    }
}

impl SourceEntry {
    fn to_value(&self) -> Value {
        let mut value = json!({ "file": self.file, "sha256": self.sha256 });
        if self.is_shared {
            value["shared"] = Value::Bool(true);
        }
        value
    }

    fn parse(node: &Node<'_>) -> Result<Self, JsonError> {
        let is_shared = node.optional("shared")?.is_some() && node.boolean("shared")?;
        Ok(Self { file: inside(node)?.to_owned(), sha256: digest(node)?, is_shared })
    }
}

/// Returns the path of an entry, which must be inside its folder.
fn inside<'a>(node: &Node<'a>) -> Result<&'a str, JsonError> {
    let file = node.text("file")?;
    if !is_inside(file) {
        return Err(node.member("file")?.unexpected("a path inside the folder"));
    }
    Ok(file)
}

/// Returns the digest of an entry, in lower case.
fn digest(node: &Node<'_>) -> Result<String, JsonError> {
    let sha256 = node.text("sha256")?;
    if sha256.len() != 64 || !sha256.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(node.member("sha256")?.unexpected("64 hexadecimal digits"));
    }
    Ok(sha256.to_ascii_lowercase())
}

impl IndexEntry {
    /// Returns the sources that no other library is built from.
    pub(super) fn own_sources(&self) -> impl Iterator<Item = &SourceEntry> {
        self.sources.iter().filter(|source| !source.is_shared)
    }

    fn to_value(&self) -> Value {
        let mut value = json!({
            "file": self.file,
            "kind": self.kind.name(),
            "core": self.core.map(|core| core.to_string()),
            "sha256": self.sha256,
        });
        if !self.sources.is_empty() {
            value["sources"] = self.sources.iter().map(SourceEntry::to_value).collect();
        }
        value
    }

    fn parse(node: &Node<'_>) -> Result<Self, JsonError> {
        let file = inside(node)?;
        let kind = match node.text("kind")? {
            "registration" => LibraryKind::Registration,
            "implementation" => LibraryKind::Implementation,
            _ => {
                return Err(node
                    .member("kind")?
                    .unexpected("\"registration\" or \"implementation\""));
            }
        };
        let core = if node.member("core")?.is_null() { None } else { Some(node.core("core")?) };
        let sources = match node.optional("sources")? {
            Some(_) => node.list("sources", SourceEntry::parse)?,
            None => Vec::new(),
        };
        Ok(Self { file: file.to_owned(), kind, core, sha256: digest(node)?, sources })
    }
}

/// Returns whether `file` is a relative path inside its folder.
pub(super) fn is_inside(file: &str) -> bool {
    let mut parts = Path::new(file).components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Computes the SHA-256 digest of the file at `path`, in lower-case hexadecimal digits.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn sha256(path: &Path) -> Result<String, OpenError> {
    let unreadable = |e| OpenError::unreadable(path, e);
    let mut file = udo_files::open(path).map_err(unreadable)?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let bytes = file.read(&mut buffer).map_err(unreadable)?;
        if bytes == 0 {
            break;
        }
        digest.update(buffer.get(..bytes).unwrap_or_default());
    }
    Ok(digits(digest))
}

/// Computes the SHA-256 digest of bytes, in lower-case hexadecimal digits.
pub(super) fn sha256_of(bytes: &[u8]) -> String {
    digits(Sha256::new().chain_update(bytes))
}

fn digits(digest: Sha256) -> String {
    digest.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> Index {
        let entry = |file: &str, kind, core| IndexEntry {
            file: file.to_owned(),
            kind,
            core,
            sha256: "ab".repeat(32),
            sources: vec![
                SourceEntry {
                    file: "CPU/src/lib.rs".to_owned(),
                    sha256: "cd".repeat(32),
                    is_shared: false,
                },
                SourceEntry {
                    file: "Cargo.toml".to_owned(),
                    sha256: "ef".repeat(32),
                    is_shared: true,
                },
            ],
        };
        Index {
            package: "P".to_owned(),
            version: "1.0".to_owned(),
            sdk_version: "0.1.0".to_owned(),
            target: "x86_64-linux".to_owned(),
            libraries: vec![
                entry("libUdoPReg.so", LibraryKind::Registration, None),
                entry(
                    "dsp_v68/libUdoPImplDsp.so",
                    LibraryKind::Implementation,
                    Some(Core::DSP_V68),
                ),
            ],
            made_by: None,
        }
    }

    #[test]
    fn what_is_written_can_be_read() {
        let text = index().to_json();
        assert_eq!(Index::parse(text.as_bytes()).unwrap(), index());
        let other = Index { made_by: Some("udo sign".to_owned()), ..index() };
        assert_eq!(Index::parse(other.to_json().as_bytes()).unwrap(), other);
        let mut older = index();
        older.libraries.iter_mut().for_each(|library| library.sources.clear());
        let text = older.to_json();
        assert!(!text.contains("sources"), "{text}");
        assert_eq!(Index::parse(text.as_bytes()).unwrap(), older);
    }

    #[test]
    fn wrong_indexes_are_refused_by_member() {
        let good = index().to_json();
        let cases = [
            ("\"format\": 1", "\"format\": 2", "it has format version 2, expected 1"),
            (
                "\"kind\": \"reg",
                "\"kind\": \"beg",
                "`libraries[0].kind` is \"begistration\", expected \"registration\" or \"implementation\"",
            ),
            (
                "\"dsp_v68/lib",
                "\"../lib",
                "`libraries[1].file` is \"../libUdoPImplDsp.so\", expected a path inside the folder",
            ),
            (
                "\"libUdoPReg",
                "\"/libUdoPReg",
                "`libraries[0].file` is \"/libUdoPReg.so\", expected a path inside the folder",
            ),
            (
                "\"core\": null",
                "\"core\": 7",
                "`libraries[0].core` is 7, expected a core, such as \"cpu\" or \"dsp:v68\"",
            ),
            (
                "\"sha256\": \"ab",
                "\"sha256\": \"",
                "`libraries[0].sha256` is \"abababababababababababababababababababab\", expected 64 hexadecimal digits",
            ),
        ];
        let more = [
            (
                "\"CPU/src",
                "\"../CPU/src",
                "`libraries[0].sources[0].file` is \"../CPU/src/lib.rs\", expected a path inside the folder",
            ),
            (
                "\"shared\": true",
                "\"shared\": 1",
                "`libraries[0].sources[1].shared` is 1, expected true or false",
            ),
        ];
        for (from, to, expected) in cases.into_iter().chain(more) {
            let text = good.replacen(from, to, 1);
            assert_ne!(text, good, "{from}");
            assert_eq!(Index::parse(text.as_bytes()).unwrap_err().to_string(), expected);
        }
    }
}
