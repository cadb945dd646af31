//! The capture file format, which is a valid safetensors file: eight bytes with the length of the header, the header in
//! JSON, and the elements of all tensors without gaps.
//!
//! The header begins with the format, its version, and a SHA-256 of everything else, so that damage is detected before
//! anything is parsed. The parsed fields are still validated.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use udo_api::TensorDesc;
use udo_host::{Buffer, ParamSetting, TensorSetting};

use super::json::{self as form, Wrong};
use super::{Capture, CapturedInput, CapturedOutput, CapturedWanted};

/// The version of the format.
const VERSION: u32 = 1;

/// Why a capture file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file cannot be read.
    #[error("cannot read capture {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write capture {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The file is not a capture.
    #[error(
        "{place} is not a capture: {found}, expected a file written by `udo check` or `udo run --capture`"
    )]
    NoCapture {
        /// The file.
        place: String,
        /// The content that was found instead.
        found: String,
    },
    /// The file has another version.
    #[error(
        "{place} is a capture of version {found}, expected {VERSION}; create it again, or use the udo that wrote it"
    )]
    Version {
        /// The file.
        place: String,
        /// Its version.
        found: String,
    },
    /// The file is damaged.
    #[error("{place} is damaged: {found}; create it again with the command that wrote it")]
    Damaged {
        /// The file.
        place: String,
        /// The problem.
        found: String,
    },
}

impl CaptureError {
    /// Adds the path of the file.
    pub(super) fn at_path(mut self, path: &Path) -> Self {
        match &mut self {
            Self::NoCapture { place, .. }
            | Self::Version { place, .. }
            | Self::Damaged { place, .. } => *place = path.display().to_string(),
            Self::Read { .. } | Self::Write { .. } => {}
        }
        self
    }

    fn damaged(found: impl Into<String>) -> Self {
        Self::Damaged { place: String::new(), found: found.into() }
    }
}

const START: usize = 8;
const HEAD: &str = "{\"__metadata__\":{\"format\":\"udo-call\",\"version\":\"";
const BEFORE_DIGEST: &str = "\",\"sha256\":\"";
const DIGEST_LEN: usize = 64;

/// A fuzzer cannot produce matching digests.
const UNSEALED: bool = cfg!(fuzzing);

/// The tensors of a file being written.
#[derive(Default)]
struct Tensors {
    table: Vec<(String, Value)>,
    data: Vec<u8>,
}

impl Tensors {
    fn push(&mut self, name: &str, type_name: &str, dims: &[usize], bytes: &[u8]) {
        let from = self.data.len();
        self.data.extend_from_slice(bytes);
        let offsets = [from, self.data.len()];
        let entry = json!({ "dtype": type_name, "shape": dims, "data_offsets": offsets });
        self.table.push((name.to_owned(), entry));
    }

    fn push_desc(&mut self, name: &str, desc: &TensorDesc, dims: &[usize], bytes: &[u8]) {
        let type_name = desc.dtype().map_or("U8".to_owned(), |of| of.name().to_uppercase());
        self.push(name, &type_name, dims, bytes);
    }

    fn push_numbers(&mut self, name: &str, numbers: &[f64]) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.push(name, "F64", &[numbers.len()], &bytes);
    }
}

impl Capture {
    /// Returns the bytes of the capture file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut tensors = Tensors::default();
        let inputs: Vec<Value> = (self.inputs.iter().enumerate())
            .map(|(port, input)| {
                tensors.push_desc(&format!("input.{port}"), &input.desc, &input.dims, &input.bytes);
                json!({ "desc": form::of_desc(&input.desc), "dims": input.dims, "is_constant": input.is_constant })
            })
            .collect();
        let params: Vec<Value> = (self.params.iter().enumerate())
            .map(|(at, (name, setting))| {
                let tensor = match setting {
                    ParamSetting::Tensor(tensor) => {
                        let (desc, bytes) = (tensor.desc(), tensor.bytes());
                        tensors.push_desc(&format!("param.{at}"), &desc, desc.shape(), bytes);
                        form::of_desc(&desc)
                    }
                    _ => Value::Null,
                };
                json!({ "name": name, "value": form::of_setting(setting), "tensor": tensor })
            })
            .collect();
        let outputs: Vec<Value> = (self.outputs.iter().enumerate())
            .map(|(port, output)| {
                let found = output.found.as_ref().map(|(dims, bytes)| {
                    tensors.push_desc(&format!("found.{port}"), &output.desc, dims, bytes);
                    dims
                });
                let wanted = output.wanted.as_ref().map(|wanted| {
                    tensors.push_numbers(&format!("wanted.{port}"), &wanted.numbers);
                    if let Some(allowed) = &wanted.allowed {
                        tensors.push_numbers(&format!("allowed.{port}"), allowed);
                    }
                    json!({ "by": wanted.by, "dims": wanted.dims, "has_allowed": wanted.allowed.is_some() })
                });
                json!({ "desc": form::of_desc(&output.desc), "found": found, "wanted": wanted })
            })
            .collect();
        let call = json!({
            "package": self.package, "digest": self.digest, "op": self.op, "core": self.core, "case": self.case,
            "why": self.why, "level": self.level, "seed": self.seed, "inputs": inputs, "params": params, "outputs": outputs,
        });
        let mut rest = format!("\",\"call\":{}}}", Value::from(call.to_string()));
        for (name, entry) in &tensors.table {
            rest.extend([",", &Value::from(name.as_str()).to_string(), ":", &entry.to_string()]);
        }
        rest.push('}');
        let head = format!("{HEAD}{VERSION}{BEFORE_DIGEST}");
        // Eight bytes hold the length of every header that fits into memory.
        let len = u64::try_from(head.len() + DIGEST_LEN + rest.len()).unwrap_or(u64::MAX);
        let mut file = Vec::from(len.to_le_bytes());
        file.extend_from_slice(head.as_bytes());
        let digest = digest_of(&[&file, rest.as_bytes(), &tensors.data]);
        file.extend_from_slice(digest.as_bytes());
        file.extend_from_slice(rest.as_bytes());
        file.extend_from_slice(&tensors.data);
        file
    }

    /// Parses the bytes of a capture file.
    ///
    /// # Errors
    /// The bytes are not a capture, have another version, or are damaged.
    pub fn from_bytes(file: &[u8]) -> Result<Self, CaptureError> {
        let none = |found: String| CaptureError::NoCapture { place: String::new(), found };
        let Some((len, rest)) = file.split_first_chunk::<START>() else {
            return Err(none(format!("it has {} bytes", file.len())));
        };
        let Some(version) = rest.strip_prefix(HEAD.as_bytes()) else {
            return Err(none("it does not begin as a capture".to_owned()));
        };
        let digits = version.iter().take(10).take_while(|byte| byte.is_ascii_digit()).count();
        let (version, rest) = version.split_at(digits);
        let version = String::from_utf8_lossy(version).into_owned();
        if version != VERSION.to_string() && !version.is_empty() {
            return Err(CaptureError::Version { place: String::new(), found: version });
        }
        let short = || CaptureError::damaged(format!("it ends after {} bytes", file.len()));
        let digest = rest.strip_prefix(BEFORE_DIGEST.as_bytes()).ok_or_else(|| {
            if rest.len() < BEFORE_DIGEST.len() {
                short()
            } else {
                CaptureError::damaged("its header has no digest")
            }
        })?;
        let (said, rest) = digest.split_at_checked(DIGEST_LEN).ok_or_else(short)?;
        let before = file.len() - rest.len() - DIGEST_LEN;
        if !UNSEALED
            && digest_of(&[file.get(..before).unwrap_or_default(), rest]).as_bytes() != said
        {
            return Err(CaptureError::damaged(
                "the SHA-256 of its bytes differs from the recorded one",
            ));
        }
        let header = usize::try_from(u64::from_le_bytes(*len)).ok();
        let header = header.and_then(|len| file.get(START..)?.split_at_checked(len));
        let (header, data) = header.ok_or_else(short)?;
        parsed(header, data).map_err(|found| CaptureError::damaged(format!("header: {found}")))
    }
}

/// Returns the SHA-256 of the concatenated parts, in hexadecimal digits.
fn digest_of(parts: &[&[u8]]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut sum = Sha256::new();
    for part in parts {
        sum.update(part);
    }
    let digit = |half: u8| DIGITS.get(usize::from(half)).copied().map_or('0', char::from);
    sum.finalize().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Parses a header whose tensors are in `data`.
fn parsed(header: &[u8], data: &[u8]) -> Result<Capture, Wrong> {
    let header: Value = serde_json::from_slice(header).map_err(|error| error.to_string())?;
    let call = form::text(&header["__metadata__"]["call"])?;
    let call: Value = serde_json::from_str(&call).map_err(|error| error.to_string())?;
    let tensors = Contents { header: &header, data, taken: RefCell::default() };
    let text = |key: &str| form::text(&call[key]).map_err(|why| format!("{key}: {why}"));
    let mut inputs = Vec::new();
    for (port, of) in form::list(&call["inputs"])?.iter().enumerate() {
        let (desc, dims) = (form::desc(&of["desc"])?, form::lengths(&of["dims"])?);
        let bytes = tensors.elements(&format!("input.{port}"), &desc, &dims)?;
        let is_constant = of["is_constant"] == true;
        inputs.push(CapturedInput { desc, dims, is_constant, bytes });
    }
    let mut params = Vec::new();
    for (at, of) in form::list(&call["params"])?.iter().enumerate() {
        let name = form::text(&of["name"])?;
        if of["tensor"].is_null() {
            params.push((name, form::setting(&of["value"])?));
            continue;
        }
        let desc = form::desc(&of["tensor"])?;
        let bytes = tensors.elements(&format!("param.{at}"), &desc, desc.shape())?;
        let bytes = Buffer::from_bytes(&bytes).map_err(|error| error.to_string())?;
        let setting = TensorSetting::new(desc, Arc::new(bytes));
        let setting = setting.ok_or_else(|| format!("parameter {name:?} is not a tensor"))?;
        params.push((name, ParamSetting::Tensor(setting)));
    }
    let mut outputs = Vec::new();
    for (port, of) in form::list(&call["outputs"])?.iter().enumerate() {
        let desc = form::desc(&of["desc"])?;
        let found = match &of["found"] {
            Value::Null => None,
            dims => {
                let dims = form::lengths(dims)?;
                let bytes = tensors.elements(&format!("found.{port}"), &desc, &dims)?;
                Some((dims, bytes))
            }
        };
        let wanted = match &of["wanted"] {
            Value::Null => None,
            wanted => Some(tensors.expected(port, wanted)?),
        };
        outputs.push(CapturedOutput { desc, found, wanted });
    }
    let level = call["level"].as_u64().and_then(|level| u8::try_from(level).ok());
    Ok(Capture {
        package: text("package")?,
        digest: text("digest")?,
        op: text("op")?,
        core: text("core")?,
        case: text("case")?,
        why: text("why")?,
        level: level.ok_or_else(|| format!("level: found {}, expected a level", call["level"]))?,
        seed: call["seed"]
            .as_u64()
            .ok_or_else(|| format!("seed: found {}, expected a seed", call["seed"]))?,
        inputs,
        params,
        outputs,
    })
}

/// The tensors of a parsed file.
struct Contents<'a> {
    header: &'a Value,
    data: &'a [u8],
    /// The byte ranges of the tensors read so far. Ranges must not overlap, so the parsed capture is no larger than its
    /// file.
    taken: RefCell<BTreeMap<usize, usize>>,
}

impl Contents<'_> {
    fn bytes(&self, name: &str) -> Result<&[u8], Wrong> {
        let offsets = form::lengths(&self.header[name]["data_offsets"]);
        let offsets = offsets.map_err(|why| format!("tensor {name}: {why}"))?;
        let [from, to] = offsets[..] else {
            return Err(format!("tensor {name} has {} offsets, expected 2", offsets.len()));
        };
        let bytes = self.data.get(from..to).ok_or_else(|| {
            format!("tensor {name} is at {from}..{to} of {} bytes", self.data.len())
        })?;
        let mut taken = self.taken.borrow_mut();
        let before = taken.range(..to).next_back();
        if before.is_some_and(|(_, end)| *end > from) {
            return Err(format!("tensor {name} at {from}..{to} overlaps another tensor"));
        }
        if from < to {
            taken.insert(from, to);
        }
        Ok(bytes)
    }

    /// Returns the elements of a tensor with these dimensions, which must be within the bounds of `desc`.
    fn elements(&self, name: &str, desc: &TensorDesc, dims: &[usize]) -> Result<Vec<u8>, Wrong> {
        let Some(dtype) = desc.dtype() else { return Ok(Vec::new()) };
        let bound = desc.shape();
        if dims.len() != bound.len() || dims.iter().zip(bound).any(|(dim, bound)| dim > bound) {
            return Err(format!("tensor {name} is {dims:?}, expected dimensions up to {bound:?}"));
        }
        let bytes = self.bytes(name)?;
        // Cannot exceed the size of `desc`, which was checked for overflow.
        let wanted = dims.iter().try_fold(dtype.size_bytes(), |n, dim| n.checked_mul(*dim));
        if wanted != Some(bytes.len()) {
            return Err(format!(
                "tensor {name} has {} bytes, expected those of {dims:?}",
                bytes.len()
            ));
        }
        Ok(bytes.to_vec())
    }

    fn numbers(&self, name: &str) -> Result<Vec<f64>, Wrong> {
        let (numbers, rest) = self.bytes(name)?.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(format!("tensor {name} ends in the middle of an element"));
        }
        Ok(numbers.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect())
    }

    fn expected(&self, port: usize, of: &Value) -> Result<CapturedWanted, Wrong> {
        let numbers = self.numbers(&format!("wanted.{port}"))?;
        let dims = if of["dims"].is_null() { None } else { Some(form::lengths(&of["dims"])?) };
        let allowed = if of["has_allowed"] == true {
            Some(self.numbers(&format!("allowed.{port}"))?)
        } else {
            None
        };
        if allowed.as_ref().is_some_and(|allowed| allowed.len() != numbers.len()) {
            return Err(format!(
                "output {port} has a tolerance for each of another number of elements"
            ));
        }
        Ok(CapturedWanted { by: form::text(&of["by"])?, dims, numbers, allowed })
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
