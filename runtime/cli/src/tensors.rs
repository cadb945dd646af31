//! Tensors in files: `.npy`, `.pb` (ONNX `TensorProto`), `.raw` (elements alone).

use std::path::{Path, PathBuf};

use udo_api::{DType, Encoding, Shape, Side, TensorDesc};
use udo_graph::{import, memory, npy};
use udo_runtime::compile::{BindOptions, Input};
use udo_runtime::{Model, Tensor};

use crate::output::{Failure, chain, write_file};
use crate::raw::{self, Packing};
use udo_compile::resolve::InputShapes;

fn named(path: &Path, error: impl std::error::Error) -> Failure {
    Failure::new(format!("cannot read tensor {}: {}", path.display(), chain(&error)))
}

/// Whether a file has elements alone, without a type and a shape.
fn is_raw(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "raw" || ending == "bin")
}

/// Whether a file says its type and shape.
pub(crate) fn says_shape(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "npy" || ending == "pb")
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, Failure> {
    udo_files::read(path, udo_files::BINARY_BYTES).map_err(|e| named(path, e))
}

/// Reads a tensor of a file that says its type and shape.
pub(crate) fn read(path: &Path) -> Result<Tensor, Failure> {
    let bytes = bytes_of(path)?;
    match path.extension().and_then(|e| e.to_str()) {
        Some("npy") => npy::read(&bytes).map_err(|e| named(path, e)),
        Some("pb") => import::onnx::tensor_pb(&bytes).map_err(|e| named(path, e)),
        _ => Err(Failure::usage(format!("tensor file {} has no known ending", path.display()))
            .help("name it .npy, .pb or .raw")),
    }
}

/// How elements alone are read for an input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawInput {
    pub(crate) packing: Packing,
    /// The encoding of the input's integers, if known.
    pub(crate) encoding: Option<Encoding>,
}

/// Reads what a model's input is to hold, or a part of its batch. A list of one number does for a number, as recorded data often has it.
pub(crate) fn read_input(path: &Path, input: &Input, raw: RawInput) -> Result<Tensor, Failure> {
    if is_raw(path) {
        return read_raw(path, input, raw);
    }
    let tensor = read(path)?;
    let is_number = input.of.dims.is_empty() && tensor.dims() == [1];
    if is_number { tensor.reshaped(Shape::SCALAR).map_err(|e| named(path, e)) } else { Ok(tensor) }
}

fn read_raw(path: &Path, input: &Input, raw: RawInput) -> Result<Tensor, Failure> {
    let Some(shape) = input.shape() else {
        let text = format!("tensor {} has elements alone, and an open shape", path.display());
        return Err(
            Failure::usage(text).help("give its shape with --shape, or name it .npy or .pb")
        );
    };
    let (dtype, bytes) = (input.of.dtype, bytes_of(path)?);
    let stored = raw.packing.stored(dtype);
    let wanted = TensorDesc::new(stored, shape);
    let Some(shape) = part_of(&shape, bytes.len(), stored) else {
        let of_batch = match shape.dims() {
            [batch, ..] if *batch > 1 => {
                format!(", or for a part of its batch that goes into {batch}")
            }
            _ => String::new(),
        };
        let (found, bytes) = (bytes.len(), wanted.size_bytes());
        let text = format!(
            "cannot read tensor {}: {found} bytes, expected {bytes} for {wanted}{of_batch}",
            path.display()
        );
        let failure = Failure::new(text);
        let is_native = stored != dtype && found == TensorDesc::new(dtype, shape).size_bytes();
        let help = || format!("the input is {dtype}: --native-input reads elements of that");
        return Err(if is_native { failure.help(help()) } else { failure });
    };
    if stored == dtype {
        return Tensor::from_bytes(dtype, shape, &bytes).map_err(|e| named(path, e));
    }
    let elements = raw::unpack(&bytes, dtype, raw.encoding).map_err(|raw::Unfit { at, number }| {
        let text = format!(
            "tensor {} has {number} at place {at}, which is no {dtype} for input {:?}",
            path.display(),
            input.name
        );
        Failure::new(text).help("files are read as packed f32; --native-input reads elements of the input's own type")
    })?;
    Tensor::from_bytes(dtype, shape, &elements).map_err(|e| named(path, e))
}

/// The shape of so many bytes of a tensor of `shape`: all of it, or a part of its first extent that goes into it.
fn part_of(shape: &Shape, bytes: usize, dtype: DType) -> Option<Shape> {
    let whole = TensorDesc::new(dtype, *shape).size_bytes();
    if bytes == whole {
        return Some(*shape);
    }
    let (&batch, rest) = shape.dims().split_first()?;
    let parts =
        whole.checked_div(bytes).filter(|parts| bytes.checked_mul(*parts) == Some(whole))?;
    batch.is_multiple_of(parts).then(|| Shape::new(&[&[batch / parts], rest].concat()).ok())?
}

/// The prefix of the names of recorded sets.
const SET: &str = "test_data_set_";

/// The folder itself, or the numbered sets in it.
pub(crate) fn sets(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let fail = |e| Failure::new(format!("cannot read folder {}: {e}", folder.display()));
    let mut sets = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if name.starts_with(SET) && path.is_dir() {
            sets.push(path);
        }
    }
    sets.sort();
    if sets.is_empty() {
        sets.push(folder.to_owned());
    }
    Ok(sets)
}

/// A recorded tensor of a set: `input_0`, `output_0` and so on, which are called `.pb` or `.npy`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorded {
    pub(crate) side: Side,
    pub(crate) index: usize,
}

impl Recorded {
    /// A model's input.
    pub(crate) fn input(index: usize) -> Self {
        Self { side: Side::Input, index }
    }

    /// A model's output.
    pub(crate) fn output(index: usize) -> Self {
        Self { side: Side::Output, index }
    }

    fn named(self, ending: &str) -> String {
        let side = match self.side {
            Side::Input => "input",
            Side::Output => "output",
        };
        format!("{side}_{}.{ending}", self.index)
    }

    /// Its file in the folder of the set; ONNX's own where there are both.
    pub(crate) fn file(self, folder: &Path) -> Result<PathBuf, Failure> {
        let mut files = RECORDED.iter().map(|ending| folder.join(self.named(ending)));
        files.find(|file| file.exists()).ok_or_else(|| {
            let names = RECORDED.map(|ending| self.named(ending)).join(" nor ");
            let text = format!("folder {} has neither {names}", folder.display());
            Failure::new(text)
                .help("save what the model was run on as one of these, an input or output each")
        })
    }
}

/// The file extensions of recorded tensors.
const RECORDED: [&str; 2] = ["pb", "npy"];

/// Whether a folder is a recorded set, rather than one of files of which each is a run's only input.
pub(crate) fn is_set(folder: &Path) -> bool {
    let has = |of: Recorded, ending: &str| folder.join(of.named(ending)).exists();
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_of_onnx = has(Recorded::input(0), "pb");
    let has_outputs = RECORDED.iter().any(|ending| has(Recorded::output(0), ending));
    is_of_onnx || has(Recorded::input(0), "npy") && (has_outputs || name.starts_with(SET))
}

/// The recorded inputs of a model, in its order.
pub(crate) fn read_set(folder: &Path, model: &Model) -> Result<Set, Failure> {
    let inputs = model.inputs().iter().enumerate();
    let raw = RawInput { packing: Packing::Native, encoding: None };
    let of = |(at, input)| read_input(&Recorded::input(at).file(folder)?, input, raw);
    inputs.map(of).collect()
}

/// The tensors of one run, in the order of the model's inputs.
pub(crate) type Set = Vec<Tensor>;

/// Returns the input sets that runs take in turn: the recorded sets of a folder, or a random set from a seed.
pub(crate) fn input_sets(
    model: &Model,
    data: Option<&Path>,
    seed: u64,
) -> Result<Vec<Set>, Failure> {
    match data {
        Some(folder) => sets(folder)?.iter().map(|set| read_set(set, model)).collect(),
        None => Ok(vec![random_set(model, seed)?]),
    }
}

/// Returns the shape that an input is planned for, ranges at their largest; nothing if only a run determines it.
pub(crate) fn planned_shape(model: &Model, input: &Input) -> Option<Shape> {
    let options = BindOptions { ranges: model.ranges().clone(), ..BindOptions::default() };
    input.planned(input, &options).ok()
}

/// A set of pseudo-random inputs.
pub(crate) fn random_set(model: &Model, seed: u64) -> Result<Set, Failure> {
    let made = model.inputs().iter().enumerate().map(|(index, input)| {
        let planned = planned_shape(model, input).and_then(|shape| Shape::new(shape.dims()).ok());
        let shape = planned.map_or_else(|| input.required(), Ok)?;
        let desc = TensorDesc::new(input.of.dtype, shape);
        random(&desc, seed.wrapping_add(index as u64))
    });
    made.collect()
}

/// How the files of outputs are written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TensorFormat {
    Npy,
    Raw(Packing),
}

impl TensorFormat {
    /// The name of a tensor's file: everything but letters, digits, `.`, `-` and `_` becomes `_`, and of elements alone `:` stays.
    pub(crate) fn file_name(self, tensor: &str) -> String {
        let (more, ending) = match self {
            Self::Npy => (".-_", "npy"),
            Self::Raw(_) => (".-_:", "raw"),
        };
        let safe = |c: char| if c.is_ascii_alphanumeric() || more.contains(c) { c } else { '_' };
        let name: String = tensor.chars().map(safe).collect();
        let name = name.trim_start_matches('.');
        format!("{}.{ending}", if name.is_empty() { "tensor" } else { name })
    }

    /// Writes a tensor over any file that was there.
    pub(crate) fn write(
        self,
        path: &Path,
        tensor: &Tensor,
        encoding: Option<Encoding>,
    ) -> Result<(), Failure> {
        match self {
            Self::Npy => write_file(path, &npy::write(tensor)?),
            Self::Raw(packing) => {
                let bytes = raw::pack(tensor, encoding, packing).ok_or_else(|| {
                    let text = format!(
                        "cannot write {}: it is text, which has no packed form",
                        path.display()
                    );
                    Failure::new(text)
                        .help("write it with --output-format npy, or name other outputs")
                })?;
                write_file(path, &bytes)
            }
        }
    }
}

/// A tensor of pseudo-random elements: real ones in [-1, 1), whole ones small, the same for the same seed.
pub(crate) fn random(desc: &TensorDesc, seed: u64) -> Result<Tensor, Failure> {
    memory::random(desc, seed)?.ok_or_else(|| Failure::new("a text input cannot be made up"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values;

    #[test]
    fn names_become_safe_file_names() {
        let cases = [("y", "y"), ("a/b:0", "a_b_0"), ("../x", "_x"), ("", "tensor")];
        for (tensor, file) in cases {
            assert_eq!(TensorFormat::Npy.file_name(tensor), format!("{file}.npy"));
        }
        assert_eq!(TensorFormat::Raw(Packing::Native).file_name("../b:0"), "_b:0.raw");
    }

    #[test]
    fn elements_alone_are_all_of_an_input_or_a_part_of_its_batch() {
        let part = |dims: &[usize], bytes| {
            let part = part_of(&Shape::new(dims).unwrap(), bytes, DType::F32);
            part.map(|shape| shape.dims().to_vec())
        };
        assert_eq!(part(&[4, 3], 48), Some(vec![4, 3]));
        assert_eq!(part(&[4, 3], 24), Some(vec![2, 3]));
        assert_eq!(part(&[4, 3], 12), Some(vec![1, 3]));
        for bytes in [0, 4, 16, 36, 96] {
            assert_eq!(part(&[4, 3], bytes), None, "{bytes} bytes");
        }
        assert_eq!(
            (part(&[], 4), part(&[], 2), part(&[0, 3], 0)),
            (Some(vec![]), None, Some(vec![0, 3]))
        );
    }

    #[test]
    fn a_seed_gives_the_same_numbers_again() {
        let desc = TensorDesc::new(DType::F32, udo_api::Shape::new(&[100]).unwrap());
        let (a, b) = (random(&desc, 7).unwrap(), random(&desc, 7).unwrap());
        assert_eq!(a.bytes(), b.bytes());
        assert!(values::numbers(&a).iter().all(|v| (-1.0..1.0).contains(v)));
        assert_ne!(random(&desc, 8).unwrap().bytes(), a.bytes());
    }
}
