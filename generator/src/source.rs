//! Config files in memory, and the strictness of reading.

use std::path::Path;

/// One config file, already in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source<'a> {
    /// The path, for messages and for [`crate::config::Package::sources`].
    pub path: &'a Path,
    /// Its text.
    pub text: &'a str,
}

/// The treatment of deviations that are common in vendors' configs but not allowed by the grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// They are errors.
    #[default]
    Strict,
    /// They are warnings, which say what the reader assumes.
    Compat,
}

/// The error of [`decode`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The text starts with the byte order mark, or declares the name, of another encoding.
    #[error("the text is in {encoding}, expected UTF-8")]
    Encoding {
        /// The name of the encoding.
        encoding: String,
    },
    /// The text is not valid UTF-8.
    #[error("byte {byte:#04x} in line {line}, character {column} is not valid UTF-8")]
    Byte {
        /// The first invalid byte.
        byte: u8,
        /// Its line, from 1.
        line: usize,
        /// Its position in the line, in characters from 1.
        column: usize,
    },
}

impl DecodeError {
    /// Returns advice for the user: the next step.
    pub fn help(&self) -> String {
        match self {
            Self::Encoding { encoding } => {
                format!("save the file as UTF-8, as by `iconv -f {encoding} -t UTF-8`")
            }
            Self::Byte { .. } => "save the file as UTF-8; editors call what it is Latin-1 or \
                                  Windows-1252"
                .to_owned(),
        }
    }
}

/// Decodes the text of a config file.
///
/// # Errors
/// It is not UTF-8; the error names its encoding if it is known.
pub fn decode(bytes: Vec<u8>) -> Result<String, DecodeError> {
    let other_encoding = match bytes.as_slice() {
        // The byte order mark of UTF-16LE is a prefix of that of UTF-32LE.
        [0xff, 0xfe, 0, 0, ..] => Some("UTF-32LE"),
        [0, 0, 0xfe, 0xff, ..] => Some("UTF-32BE"),
        [0xff, 0xfe, ..] | [b'{' | b'<', 0, ..] => Some("UTF-16LE"),
        [0xfe, 0xff, ..] | [0, b'{' | b'<', ..] => Some("UTF-16BE"),
        _ => None,
    };
    if let Some(encoding) = other_encoding {
        return Err(DecodeError::Encoding { encoding: encoding.to_owned() });
    }
    let error = match String::from_utf8(bytes) {
        Ok(text) => return Ok(text),
        Err(error) => error,
    };
    let bytes = error.as_bytes();
    if let Some(encoding) = declared(bytes) {
        return Err(DecodeError::Encoding { encoding });
    }
    let (valid, rest) = bytes.split_at(error.utf8_error().valid_up_to());
    let valid = String::from_utf8_lossy(valid);
    let line = valid.matches('\n').count() + 1;
    let column = valid.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Err(DecodeError::Byte { byte: rest.first().copied().unwrap_or_default(), line, column })
}

/// Returns the encoding of the XML declaration, if it is not UTF-8.
fn declared(bytes: &[u8]) -> Option<String> {
    // A declaration is far shorter than 200 bytes.
    let text = String::from_utf8_lossy(bytes.get(..bytes.len().min(200))?).into_owned();
    let declaration = text.strip_prefix("<?xml")?.split_once("?>")?.0.split_once("encoding")?.1;
    let quoted = declaration.trim_start().strip_prefix('=')?.trim_start();
    let name = quoted.split(['"', '\'']).nth(1)?;
    let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    (is_name && !name.is_empty() && !name.eq_ignore_ascii_case("UTF-8")).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_encodings_are_named() {
        let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
        let latin = |text: &str| text.chars().map(|c| u8::try_from(c).unwrap()).collect::<Vec<_>>();
        let xml = "<?xml version='1.0' encoding='ISO-8859-1'?><a>\u{e9}</a>";
        let cases = [
            (utf16("\u{feff}{}"), "the text is in UTF-16LE, expected UTF-8"),
            (utf16("{}"), "the text is in UTF-16LE, expected UTF-8"),
            (vec![0xfe, 0xff, 0, b'{'], "the text is in UTF-16BE, expected UTF-8"),
            (vec![0, b'<'], "the text is in UTF-16BE, expected UTF-8"),
            (vec![0xff, 0xfe, 0, 0], "the text is in UTF-32LE, expected UTF-8"),
            (latin(xml), "the text is in ISO-8859-1, expected UTF-8"),
            (latin("{\n \"\u{e9}\""), "byte 0xe9 in line 2, character 3 is not valid UTF-8"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(decode(bytes).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn valid_utf_8_is_decoded_despite_its_declaration() {
        for text in ["{\"\u{e9}\"}", "", "<?xml version='1.0' encoding='Latin1'?><a/>"] {
            assert_eq!(decode(text.as_bytes().to_vec()), Ok(text.to_owned()));
        }
    }
}
