//! Ed25519 keys (RFC 8032) and their text format.

use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use ed25519_compact::{KeyPair, Seed, Signature};
use udo_files::Access;

use crate::device::{Error, ErrorCode};
use udo_graph::error::ErrorContext;

/// The keyword of a secret key.
const SECRET: &str = "udo-secret-ed25519";

/// The keyword of a public key.
const PUBLIC: &str = "udo-public-ed25519";

/// The largest key file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// The reason why a key cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error("key file {path:?} cannot be {what}")]
    File {
        /// The file.
        path: PathBuf,
        /// "read" or "written".
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// Other users can read a secret key.
    #[error("other users can read the secret key {path:?}, expected permissions such as 0600")]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// A line of a file is not a key.
    #[error("key file {path:?} line {line}: {reason}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The text found and the text expected.
        reason: String,
    },
    /// A line of keys given as text is not a key.
    #[error("trusted keys, line {line}: {reason}")]
    Text {
        /// The line, from 1.
        line: usize,
        /// The text found and the text expected.
        reason: String,
    },
    /// The system does not provide random numbers.
    #[error("the system does not provide random numbers for a key")]
    Random(#[source] io::Error),
}

impl KeyError {
    /// Returns the code of the error.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::File { .. } | Self::Exposed { .. } => ErrorCode::InvalidPath,
            Self::Line { .. } => ErrorCode::InvalidFile,
            Self::Text { .. } => ErrorCode::InvalidArgument,
            Self::Random(_) => ErrorCode::Unsupported,
        }
    }

    /// Returns the suggested next step.
    pub fn help(&self) -> &'static str {
        if let Self::Exposed { .. } = self {
            return "`chmod 600 KEYFILE`; if others may have read it, create a new key and have them trust that";
        }
        "`udo sign --new-key KEYFILE` creates a key and KEYFILE.pub, the public key that others trust"
    }
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        Self::from_error(error.code(), &error).then(error.help())
    }
}

/// A secret key. Its holder can sign in the owner's name.
#[derive(Clone)]
pub struct SecretKey(KeyPair);

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey of {}", self.public())
    }
}

impl SecretKey {
    /// Generates a key from the system's random numbers.
    ///
    /// # Errors
    /// Fails if the system does not provide them.
    pub fn generate() -> Result<Self, KeyError> {
        let mut seed = [0; Seed::BYTES];
        fs::File::open("/dev/urandom")
            .and_then(|mut numbers| numbers.read_exact(&mut seed))
            .map_err(KeyError::Random)?;
        Ok(Self(KeyPair::from_seed(Seed::new(seed))))
    }

    /// Reads the key in the file at `path`.
    ///
    /// # Errors
    /// Fails if the file cannot be read or does not contain a secret key.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let failed = |source| KeyError::File { path: path.to_owned(), what: "read", source };
        let file = udo_files::open(path).map_err(failed)?;
        let is_exposed = udo_files::is_readable_by_others(&file.metadata().map_err(failed)?);
        let text = udo_files::read_from(&file, MAX_BYTES).map_err(failed)?;
        let text = String::from_utf8_lossy(&text);
        let wrong = |reason| KeyError::Line { path: path.to_owned(), line: 1, reason };
        let digits = match text.trim().split_once(char::is_whitespace) {
            Some((SECRET, _)) if is_exposed => {
                return Err(KeyError::Exposed { path: path.to_owned() });
            }
            Some((SECRET, digits)) => digits.trim(),
            Some((PUBLIC, _)) => {
                return Err(wrong("it is a public key, expected a secret key".to_owned()));
            }
            _ => return Err(wrong(format!("expected {SECRET} and {} digits", 2 * Seed::BYTES))),
        };
        let seed = bytes(digits).map_err(wrong)?;
        Ok(Self(KeyPair::from_seed(Seed::new(seed))))
    }

    /// Writes the key to a new file that only its owner can read, and the public key next to it with `.pub` added to the name.
    /// Returns the path of the public key.
    ///
    /// # Errors
    /// Fails if either file exists or cannot be written.
    pub fn write(&self, path: &Path) -> Result<PathBuf, KeyError> {
        let mut name = path.as_os_str().to_owned();
        name.push(".pub");
        let public = PathBuf::from(name);
        if public.exists() {
            let source = io::Error::from(io::ErrorKind::AlreadyExists);
            return Err(KeyError::File { path: public, what: "written", source });
        }
        let digits = digits(self.0.sk.seed().as_ref());
        write_new(path, &format!("{SECRET} {digits}\n"), Access::Owner)?;
        write_new(&public, &format!("{}\n", self.public()), Access::Default)?;
        Ok(public)
    }

    /// Returns the public key.
    pub(crate) fn public(&self) -> PublicKey {
        PublicKey(self.0.pk)
    }

    pub(super) fn sign(&self, message: &[u8]) -> Signature {
        self.0.sk.sign(message, None)
    }
}

/// A public key, which verifies signatures.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(ed25519_compact::PublicKey);

/// Formats the key as in files: `udo-public-ed25519` and 64 digits.
impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC} {}", self.digits())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PublicKey {
    /// Parses a line of a key file. A name may follow the digits.
    ///
    /// # Errors
    /// Fails with a description if the line is not a public key.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some(PUBLIC), Some(digits)) => Self::from_digits(digits),
            (Some(SECRET), _) => Err("it is a secret key, expected a public key".to_owned()),
            _ => Err(format!("found {line:?}, expected {PUBLIC} or index-sha256 and digits")),
        }
    }

    pub(super) fn from_digits(text: &str) -> Result<Self, String> {
        bytes(text).map(|bytes| Self(ed25519_compact::PublicKey::new(bytes)))
    }

    pub(super) fn digits(&self) -> String {
        digits(self.0.as_ref())
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &Signature) -> bool {
        self.0.verify(message, signature).is_ok()
    }
}

/// Reads a key file.
pub(super) fn read(path: &Path) -> Result<String, KeyError> {
    let failed = |source| KeyError::File { path: path.to_owned(), what: "read", source };
    udo_files::read_to_string(path, MAX_BYTES).map_err(failed)
}

fn write_new(path: &Path, text: &str, access: Access) -> Result<(), KeyError> {
    udo_files::create_new(path, access, text.as_bytes()).map_err(|source| KeyError::File {
        path: path.to_owned(),
        what: "written",
        source,
    })
}

/// Encodes bytes in hexadecimal digits.
pub(super) fn digits(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Decodes hexadecimal digits.
pub(super) fn bytes<const N: usize>(digits: &str) -> Result<[u8; N], String> {
    let wrong = || format!("found {digits:?}, expected {} hexadecimal digits", 2 * N);
    let pairs = digits.as_bytes().chunks_exact(2);
    if digits.len() != 2 * N || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        let text = std::str::from_utf8(pair).map_err(|_| wrong())?;
        *byte = u8::from_str_radix(text, 16).map_err(|_| wrong())?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The third vector of RFC 8032, section 7.1.
    #[test]
    fn signatures_match_rfc_8032() {
        let seed = "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7";
        let public = "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025";
        let signature = "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac\
                         18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a";
        let key = SecretKey(KeyPair::from_seed(Seed::new(bytes(seed).unwrap())));
        assert_eq!(key.public().digits(), public);
        let signed = key.sign(&[0xaf, 0x82]);
        assert_eq!(digits(signed.as_ref()), signature);
        assert!(key.public().verifies(&[0xaf, 0x82], &signed));
        assert!(!key.public().verifies(&[0xaf, 0x83], &signed));
        assert!(!format!("{key:?}").contains(seed));
    }

    #[test]
    fn hexadecimal_digits_are_decoded_or_refused() {
        assert_eq!(bytes::<2>("0aFF"), Ok([10, 255]));
        for text in ["", "0a", "0aFG", "0aFF0", "+aFF", "äa"] {
            let error = bytes::<2>(text).unwrap_err();
            assert_eq!(error, format!("found {text:?}, expected 4 hexadecimal digits"));
        }
    }
}
