//! Signatures of a package's index, in a file beside it: a line for each who signed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ed25519_compact::Signature;

use super::key::{self, PublicKey, SecretKey};
use crate::package::OpenError;
use crate::package::index::{INDEX_FILE, Index};

/// The name of the file with signatures, beside the index.
pub const SIGNATURE_FILE: &str = "index.json.sig";

/// What a line begins with.
const KIND: &str = "ed25519";

/// What stands before an index in what is signed, so that no signature of another thing is one of it.
const CONTEXT: &[u8] = b"udo package index 1\n";

/// Signs the package at `folder`, which is the one with its index; gives the file that has the signature. Signatures of others stay that are of the
/// same index.
///
/// # Errors
/// There is no index, a library is not as it says, or the file cannot be written.
pub fn sign(folder: &Path, key: &SecretKey) -> Result<PathBuf, OpenError> {
    let path = folder.join(INDEX_FILE);
    let bytes = fs::read(&path).map_err(|error| OpenError::unreadable(&path, error))?;
    let index = Index::of_bytes(&path, &bytes)?;
    for library in &index.libraries {
        index.check_file(folder, &folder.join(&library.file))?;
    }
    let mut signatures = Signatures::read(folder)?;
    let (message, public) = (message(&bytes), key.public());
    signatures.0.retain(|(other, signature)| *other != public && other.signed(&message, signature));
    signatures.0.push((public, key.sign(&message)));
    let path = folder.join(SIGNATURE_FILE);
    fs::write(&path, signatures.to_text())
        .map_err(|source| OpenError::Unwritable { path: path.clone(), source })?;
    Ok(path)
}

fn message(index: &[u8]) -> Vec<u8> {
    [CONTEXT, index].concat()
}

/// Who signed, and what.
#[derive(Debug, Default)]
pub(super) struct Signatures(Vec<(PublicKey, Signature)>);

impl Signatures {
    /// Those beside the index in `folder`.
    pub(super) fn read(folder: &Path) -> Result<Self, OpenError> {
        let path = folder.join(SIGNATURE_FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(OpenError::unreadable(&path, error)),
        };
        let line = |(number, line): (usize, &str)| {
            Self::line(line).map_err(|reason| OpenError::Index {
                path: path.clone(),
                reason: format!("line {}: {reason}", number + 1),
            })
        };
        text.lines().enumerate().map(line).collect::<Result<_, _>>().map(Self)
    }

    fn line(line: &str) -> Result<(PublicKey, Signature), String> {
        let mut words = line.split_whitespace();
        let (Some(KIND), Some(key), Some(signature), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(format!("wanted {KIND}, a public key and a signature"));
        };
        let bytes: [u8; Signature::BYTES] = key::bytes(signature)?;
        Ok((PublicKey::of_digits(key)?, Signature::new(bytes)))
    }

    fn to_text(&self) -> String {
        let line = |(key, signature): &(PublicKey, Signature)| {
            format!("{KIND} {} {}\n", key.digits(), key::digits(signature.as_ref()))
        };
        self.0.iter().map(line).collect()
    }

    /// Says in words why an index is signed by none of the keys.
    pub(super) fn check(&self, index: &[u8], keys: &[PublicKey]) -> Result<(), String> {
        if self.0.is_empty() {
            return Err("nobody signed it".to_owned());
        }
        let message = message(index);
        let mut known = self.0.iter().filter(|(key, _)| keys.contains(key)).peekable();
        if known.peek().is_none() {
            let signers: Vec<String> = self.0.iter().map(|(key, _)| key.digits()).collect();
            return Err(format!("it is signed by {}, which is not trusted", signers.join(" and ")));
        }
        match known.find(|(key, signature)| key.signed(&message, signature)) {
            Some(_) => Ok(()),
            None => Err("its signature is of another index.json".to_owned()),
        }
    }
}
