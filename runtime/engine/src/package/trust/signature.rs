//! Signatures of a package's index, in a file next to it. Each line is one signature.

use std::io;
use std::path::{Path, PathBuf};

use ed25519_compact::Signature;

use super::key::{self, PublicKey, SecretKey};
use crate::package::OpenError;
use crate::package::index::{INDEX_FILE, Index};

/// The name of the signature file next to the index.
pub const SIGNATURE_FILE: &str = "index.json.sig";

/// The keyword of a line.
const KIND: &str = "ed25519";

/// The prefix of the signed message, so that a signature of other content cannot be reused.
const CONTEXT: &[u8] = b"udo package index 1\n";

/// Signs the package whose index is in `folder`. Returns the path of the signature file. Signatures of others are kept if they
/// are valid for the same index.
///
/// # Errors
/// Fails if there is no index, a library does not match it, or the file cannot be written.
pub fn sign(folder: &Path, key: &SecretKey) -> Result<PathBuf, OpenError> {
    let path = folder.join(INDEX_FILE);
    let bytes = udo_files::read(&path, udo_files::TEXT_BYTES)
        .map_err(|error| OpenError::unreadable(&path, error))?;
    let index = Index::from_bytes(&path, &bytes)?;
    for library in &index.libraries {
        index.check_file(folder, &folder.join(&library.file))?;
    }
    let mut signatures = Signatures::read(folder)?;
    let (message, public) = (message(&bytes), key.public());
    signatures
        .0
        .retain(|(other, signature)| *other != public && other.verifies(&message, signature));
    signatures.0.push((public, key.sign(&message)));
    let path = folder.join(SIGNATURE_FILE);
    udo_files::write(&path, signatures.to_text().as_bytes())
        .map_err(|source| OpenError::Unwritable { path: path.clone(), source })?;
    // What was written must verify, or others find out.
    let written = Signatures::read(folder)?.check(&bytes, &[public]);
    written.map_err(|reason| OpenError::Index { path: path.clone(), reason })?;
    Ok(path)
}

fn message(index: &[u8]) -> Vec<u8> {
    [CONTEXT, index].concat()
}

/// The signatures of an index.
#[derive(Debug, Default)]
pub(super) struct Signatures(Vec<(PublicKey, Signature)>);

impl Signatures {
    /// Reads the signatures next to the index in `folder`.
    pub(super) fn read(folder: &Path) -> Result<Self, OpenError> {
        let path = folder.join(SIGNATURE_FILE);
        let text = match udo_files::read_to_string(&path, udo_files::TEXT_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(OpenError::unreadable(&path, error)),
        };
        let line = |(number, line): (usize, &str)| {
            Self::parse_line(line).map_err(|reason| OpenError::Index {
                path: path.clone(),
                reason: format!("line {}: {reason}", number + 1),
            })
        };
        text.lines().enumerate().map(line).collect::<Result<_, _>>().map(Self)
    }

    fn parse_line(line: &str) -> Result<(PublicKey, Signature), String> {
        let mut words = line.split_whitespace();
        let (Some(KIND), Some(key), Some(signature), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(format!("expected {KIND}, a public key and a signature"));
        };
        let bytes: [u8; Signature::BYTES] = key::bytes(signature)?;
        Ok((PublicKey::from_digits(key)?, Signature::new(bytes)))
    }

    fn to_text(&self) -> String {
        let line = |(key, signature): &(PublicKey, Signature)| {
            format!("{KIND} {} {}\n", key.digits(), key::digits(signature.as_ref()))
        };
        self.0.iter().map(line).collect()
    }

    /// Checks that an index is signed with one of the keys. Fails with a description.
    pub(super) fn check(&self, index: &[u8], keys: &[PublicKey]) -> Result<(), String> {
        if self.0.is_empty() {
            return Err("it is not signed".to_owned());
        }
        let message = message(index);
        let mut known = self.0.iter().filter(|(key, _)| keys.contains(key)).peekable();
        if known.peek().is_none() {
            let signers: Vec<String> = self.0.iter().map(|(key, _)| key.digits()).collect();
            return Err(format!(
                "it is signed with {}, which is not trusted",
                signers.join(" and ")
            ));
        }
        match known.find(|(key, signature)| key.verifies(&message, signature)) {
            Some(_) => Ok(()),
            None => Err("its signature belongs to another index.json".to_owned()),
        }
    }
}
