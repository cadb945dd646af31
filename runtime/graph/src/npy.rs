//! NumPy's `.npy` files, each with one tensor.
//!
//! Files are written in version 1 and C order. Versions 1 to 3 are read, in C or Fortran order,
//! little-endian only. See
//! <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.

use udo_api::{DType, Shape};
use udo_host::Buffer;

use crate::memory::{Tensor, TensorError, TensorStorage};

const MAGIC: &[u8] = b"\x93NUMPY";
/// The alignment of the data in a file, as NumPy writes it.
const DATA_ALIGN_BYTES: usize = 64;

/// The reason why a `.npy` file cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NpyError {
    /// The file does not begin like a `.npy` file.
    #[error("not a .npy file, expected one that starts with \"\\x93NUMPY\"")]
    Magic,
    /// The version is not supported.
    #[error(".npy version {found}, expected 1, 2 or 3")]
    Version {
        /// The version found.
        found: u8,
    },
    /// The file is truncated.
    #[error(".npy file ends within its header, expected {expected} more bytes")]
    Truncated {
        /// The least number of missing bytes.
        expected: usize,
    },
    /// The header has a syntax error.
    #[error(".npy header at byte {at}: {found}, expected {expected}")]
    Header {
        /// The offset in the header.
        at: usize,
        /// The text at that offset.
        found: String,
        /// The expected text.
        expected: &'static str,
    },
    /// The element type is not supported.
    #[error("element type {found:?}, expected little-endian f2, f4, f8, i1 to i8, u1 to u8 or b1")]
    DType {
        /// The type in the file.
        found: String,
    },
    /// The rank or size is too large for a tensor.
    #[error("{found}")]
    Shape {
        /// The problem with the shape.
        found: String,
    },
    /// The number of elements does not match the header, or memory is exhausted.
    #[error(transparent)]
    Elements(#[from] TensorError),
    /// NumPy has no such element type.
    #[error("a tensor of type {found}, expected a type that NumPy has")]
    Unwritable {
        /// The tensor's type.
        found: DType,
    },
}

/// Decodes a `.npy` file.
///
/// # Errors
/// Fails if the bytes are not a valid file, or its element type or shape is not supported.
pub fn read(bytes: &[u8]) -> Result<Tensor, NpyError> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(NpyError::Magic)?;
    let ([major, _minor], rest) = split(rest)?;
    let (header_len, rest) = match major {
        1 => {
            let (len, rest) = split(rest)?;
            (usize::from(u16::from_le_bytes(len)), rest)
        }
        2 | 3 => {
            let (len, rest) = split(rest)?;
            (usize::try_from(u32::from_le_bytes(len)).unwrap_or(usize::MAX), rest)
        }
        found => return Err(NpyError::Version { found }),
    };
    let Some((header, data)) = rest.split_at_checked(header_len) else {
        return Err(NpyError::Truncated { expected: header_len.saturating_sub(rest.len()) });
    };
    let header = Header::parse(header)?;
    let dtype = dtype_of(&header.descr)?;
    let shape =
        Shape::new(&header.shape).map_err(|e| NpyError::Shape { found: e.message().to_owned() })?;
    let tensor = Tensor::from_bytes(dtype, shape, data)?;
    Ok(if header.fortran_order { to_c_order(&tensor)? } else { tensor })
}

/// Reorders elements from Fortran order to C order.
fn to_c_order(tensor: &Tensor) -> Result<Tensor, TensorError> {
    let (source, dims) = (tensor.bytes(), tensor.dims());
    let element_bytes = tensor.dtype().size_bytes();
    let mut buffer = Buffer::zeroed(source.len())?;
    // The distance in bytes between neighbours on each axis: in Fortran order, the first axis varies fastest.
    let strides: Vec<usize> = dims
        .iter()
        .scan(element_bytes, |next, &extent| {
            Some(std::mem::replace(next, next.saturating_mul(extent)))
        })
        .collect();
    let mut index = vec![0usize; dims.len()];
    for element in buffer.bytes_mut().chunks_exact_mut(element_bytes.max(1)) {
        let offset: usize = index.iter().zip(&strides).map(|(i, stride)| i * stride).sum();
        element.copy_from_slice(source.get(offset..offset + element.len()).unwrap_or_default());
        // The next index in C order: the last axis varies fastest.
        for (coordinate, &extent) in index.iter_mut().zip(dims).rev() {
            *coordinate += 1;
            if *coordinate < extent {
                break;
            }
            *coordinate = 0;
        }
    }
    Ok(Tensor::from_buffer(tensor.dtype(), tensor.desc().full_shape(), buffer)?)
}

/// Encodes a tensor as a `.npy` file.
///
/// # Errors
/// Fails for bf16 and strings, which the format does not have.
pub fn write(tensor: &Tensor) -> Result<Vec<u8>, NpyError> {
    let descr = descr_of(tensor.dtype())?;
    let extents: Vec<_> = tensor.dims().iter().map(usize::to_string).collect();
    let shape = match extents.as_slice() {
        // A Python tuple of one element needs the comma.
        [extent] => format!("{extent},"),
        extents => extents.join(", "),
    };
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    // The magic number, two bytes of the version and two of the length.
    let header_start = MAGIC.len() + 4;
    let data_start = (header_start + header.len() + 1).next_multiple_of(DATA_ALIGN_BYTES);
    let header_len = data_start - header_start;
    header.push_str(&" ".repeat(header_len - header.len() - 1));
    header.push('\n');

    // Always fits: tensors have at most eight extents of at most twenty digits.
    let header_len = u16::try_from(header_len).unwrap_or(u16::MAX);
    let mut file = Vec::with_capacity(data_start + tensor.bytes().len());
    file.extend_from_slice(MAGIC);
    file.extend_from_slice(&[1, 0]);
    file.extend_from_slice(&header_len.to_le_bytes());
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(tensor.bytes());
    Ok(file)
}

/// Splits off the first `N` bytes.
fn split<const N: usize>(bytes: &[u8]) -> Result<([u8; N], &[u8]), NpyError> {
    let missing = || NpyError::Truncated { expected: N.saturating_sub(bytes.len()) };
    bytes.split_first_chunk::<N>().map(|(first, rest)| (*first, rest)).ok_or_else(missing)
}

/// Returns the element type of NumPy's name.
fn dtype_of(descr: &str) -> Result<DType, NpyError> {
    Ok(match descr {
        "<f2" => DType::F16,
        "<f4" => DType::F32,
        "<f8" => DType::F64,
        "|i1" | "<i1" => DType::I8,
        "<i2" => DType::I16,
        "<i4" => DType::I32,
        "<i8" => DType::I64,
        "|u1" | "<u1" => DType::U8,
        "<u2" => DType::U16,
        "<u4" => DType::U32,
        "<u8" => DType::U64,
        "|b1" | "<b1" => DType::Bool,
        _ => return Err(NpyError::DType { found: descr.to_owned() }),
    })
}

/// Returns NumPy's name of an element type.
fn descr_of(dtype: DType) -> Result<&'static str, NpyError> {
    Ok(match dtype {
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::I8 => "|i1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::U8 => "|u1",
        DType::U16 => "<u2",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        DType::Bool => "|b1",
        DType::Bf16 | DType::Str => return Err(NpyError::Unwritable { found: dtype }),
    })
}

/// A parsed header: a Python dictionary with exactly these keys.
#[derive(Debug, Default)]
struct Header {
    descr: String,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl Header {
    fn parse(bytes: &[u8]) -> Result<Self, NpyError> {
        let mut text = Literal { bytes, offset: 0 };
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        text.expect(b'{', "a dictionary")?;
        while !text.eat(b'}') {
            let key_offset = text.offset;
            let key = text.string()?;
            text.expect(b':', "':'")?;
            match key.as_str() {
                "descr" => descr = Some(text.string()?),
                "fortran_order" => fortran_order = Some(text.boolean()?),
                "shape" => shape = Some(text.extents()?),
                _ => {
                    let found = format!("key {key:?}");
                    return Err(NpyError::Header { at: key_offset, found, expected: KEYS });
                }
            }
            if !text.eat(b',') {
                text.expect(b'}', "',' or '}'")?;
                break;
            }
        }
        text.end()?;
        let at = text.offset;
        let missing =
            |key: &str| NpyError::Header { at, found: format!("no {key}"), expected: KEYS };
        Ok(Self {
            descr: descr.ok_or_else(|| missing("descr"))?,
            fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
        })
    }
}

const KEYS: &str = "descr, fortran_order and shape";

/// A parser of Python literals.
struct Literal<'a> {
    bytes: &'a [u8],
    /// The offset of the unread bytes.
    offset: usize,
}

impl Literal<'_> {
    fn rest(&self) -> &[u8] {
        self.bytes.get(self.offset..).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        let blank = self.rest().iter().take_while(|b| b.is_ascii_whitespace()).count();
        self.offset += blank;
    }

    /// Reads `byte` if it is the next one. Returns whether it is.
    fn eat(&mut self, byte: u8) -> bool {
        self.skip_space();
        let is_next = self.rest().first() == Some(&byte);
        self.offset += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), NpyError> {
        if self.eat(byte) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    fn unexpected(&self, expected: &'static str) -> NpyError {
        let shown = self.rest().get(..16).unwrap_or(self.rest());
        let found = match shown {
            [] => "the end".to_owned(),
            _ => format!("{:?}", String::from_utf8_lossy(shown)),
        };
        NpyError::Header { at: self.offset, found, expected }
    }

    fn string(&mut self) -> Result<String, NpyError> {
        self.skip_space();
        let Some(&quote @ (b'\'' | b'"')) = self.rest().first() else {
            return Err(self.unexpected("a quoted string"));
        };
        let inner = self.rest().get(1..).unwrap_or_default();
        let end = inner.iter().position(|&b| b == quote || b == b'\\');
        match end.and_then(|end| inner.split_at_checked(end)) {
            Some((text, [last, ..])) if *last == quote => {
                let text = String::from_utf8_lossy(text).into_owned();
                self.offset += end.unwrap_or_default() + 2;
                Ok(text)
            }
            Some(_) | None => Err(self.unexpected("a quoted string without escapes")),
        }
    }

    fn boolean(&mut self) -> Result<bool, NpyError> {
        self.skip_space();
        for (word, value) in [("True", true), ("False", false)] {
            if self.rest().starts_with(word.as_bytes()) {
                self.offset += word.len();
                return Ok(value);
            }
        }
        Err(self.unexpected("True or False"))
    }

    fn extents(&mut self) -> Result<Vec<usize>, NpyError> {
        let mut extents = Vec::new();
        self.expect(b'(', "a tuple of extents")?;
        while !self.eat(b')') {
            extents.push(self.extent()?);
            if !self.eat(b',') {
                self.expect(b')', "',' or ')'")?;
                break;
            }
        }
        Ok(extents)
    }

    fn extent(&mut self) -> Result<usize, NpyError> {
        self.skip_space();
        let digits = self.rest().iter().take_while(|b| b.is_ascii_digit()).count();
        let text = self.rest().get(..digits).and_then(|d| std::str::from_utf8(d).ok());
        let value = text.and_then(|text| text.parse().ok());
        let value = value.ok_or_else(|| self.unexpected("an extent"))?;
        self.offset += digits;
        Ok(value)
    }

    fn end(&mut self) -> Result<(), NpyError> {
        self.skip_space();
        if self.rest().is_empty() { Ok(()) } else { Err(self.unexpected("the end")) }
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Bf16, Bool, F16};

    use super::*;

    /// Encodes a file of version 1 with this header.
    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let len = u16::try_from(header.len()).unwrap();
        [MAGIC, &[1, 0], &len.to_le_bytes(), header.as_bytes(), data].concat()
    }

    #[test]
    fn files_equal_those_of_numpy() {
        let tensor =
            Tensor::from_slice(Shape::new(&[2, 3]).unwrap(), &[1i16, 2, 3, 4, 5, 6]).unwrap();
        let mut expected = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        expected.extend(b"{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }");
        expected.resize(127, b' ');
        expected.extend(b"\n\x01\0\x02\0\x03\0\x04\0\x05\0\x06\0");
        assert_eq!(write(&tensor).unwrap(), expected);
    }

    #[test]
    fn written_tensors_are_read_back() {
        let line = Shape::new(&[2]).unwrap();
        let tensors = [
            Tensor::from_slice(line, &[F16::from_f32(0.5), F16::from_f32(-2.0)]).unwrap(),
            Tensor::from_slice(line, &[0.5f32, f32::NAN]).unwrap(),
            Tensor::from_slice(line, &[0.5f64, -0.0]).unwrap(),
            Tensor::from_slice(line, &[-1i8, 1]).unwrap(),
            Tensor::from_slice(line, &[-1i32, 1]).unwrap(),
            Tensor::from_slice(line, &[-1i64, 1]).unwrap(),
            Tensor::from_slice(line, &[1u8, 2]).unwrap(),
            Tensor::from_slice(line, &[1u16, 2]).unwrap(),
            Tensor::from_slice(line, &[1u32, 2]).unwrap(),
            Tensor::from_slice(line, &[1u64, 2]).unwrap(),
            Tensor::from_slice(line, &[Bool::from(true), Bool::from(false)]).unwrap(),
            Tensor::from_slice(Shape::SCALAR, &[7i64]).unwrap(),
            Tensor::zeros(DType::F32, Shape::new(&[3, 0, 2]).unwrap()).unwrap(),
            Tensor::zeros(DType::U8, Shape::new(&[1; 8]).unwrap()).unwrap(),
        ];
        for tensor in tensors {
            let file = write(&tensor).unwrap();
            assert_eq!((file.len() - tensor.bytes().len()) % DATA_ALIGN_BYTES, 0);
            let actual = read(&file).unwrap();
            assert_eq!(actual.desc(), tensor.desc());
            assert_eq!(actual.bytes(), tensor.bytes());
        }
    }

    #[test]
    fn headers_are_parsed_like_python_literals() {
        let unusual = "{ \"shape\":(2 ,1,) ,'fortran_order' : False,'descr':'|u1'}\n";
        let tensor = read(&file(unusual, &[7, 8])).unwrap();
        assert_eq!((tensor.dtype(), tensor.dims()), (DType::U8, &[2, 1][..]));

        let mut version_2 = b"\x93NUMPY\x02\x00".to_vec();
        let header = "{'descr': '<i4', 'fortran_order': True, 'shape': (1,), }";
        version_2.extend(u32::try_from(header.len()).unwrap().to_le_bytes());
        version_2.extend(header.bytes());
        version_2.extend([9, 0, 0, 0]);
        assert_eq!(read(&version_2).unwrap().get::<i32>(), Some(&[9][..]));
    }

    #[test]
    fn elements_in_fortran_order_are_reordered() {
        let fortran_tensor = |shape: &str, len: u8| {
            let header = format!("{{'descr': '|u1', 'fortran_order': True, 'shape': {shape}}}");
            read(&file(&header, &(0..len).collect::<Vec<u8>>())).unwrap()
        };
        // np.asfortranarray keeps a[i, j] and stores it at i + 2 * j.
        let tensor = fortran_tensor("(2, 3)", 6);
        assert_eq!((tensor.dims(), tensor.bytes()), (&[2, 3][..], &[0, 2, 4, 1, 3, 5][..]));
        let tensor = fortran_tensor("(2, 2, 3)", 12);
        assert_eq!(tensor.bytes(), [0, 4, 8, 2, 6, 10, 1, 5, 9, 3, 7, 11]);
        assert_eq!(fortran_tensor("(1, 4)", 4).bytes(), [0, 1, 2, 3]);
        assert_eq!(fortran_tensor("(2, 0, 3)", 0).dims(), [2, 0, 3]);
        assert_eq!(fortran_tensor("()", 1).bytes(), [0]);
        let header = "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 2)}";
        let tensor = read(&file(header, &[1, 0, 2, 0, 3, 0, 4, 0])).unwrap();
        assert_eq!(tensor.get::<i16>(), Some(&[1, 3, 2, 4][..]));
    }

    #[test]
    fn errors_name_the_wrong_part() {
        let refusal = |descr: &str, order: &str, shape: &str| {
            let header =
                format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
            read(&file(&header, &[0; 8])).unwrap_err().to_string()
        };
        let cases = [
            (
                read(b"PK").unwrap_err().to_string(),
                "not a .npy file, expected one that starts with \"\\x93NUMPY\"",
            ),
            (
                read(b"\x93NUMPY\x04\0").unwrap_err().to_string(),
                ".npy version 4, expected 1, 2 or 3",
            ),
            (
                read(b"\x93NUMPY\x01\0\x09\0{").unwrap_err().to_string(),
                ".npy file ends within its header, expected 8 more bytes",
            ),
            (
                refusal(">f4", "False", "(2,)"),
                "element type \">f4\", expected little-endian f2, f4, f8, i1 to i8, u1 to u8 or b1",
            ),
            (refusal("<f4", "True", "(3, 1)"), "8 bytes, expected 12 for f32[3,1]"),
            (refusal("<f4", "False", "(3,)"), "8 bytes, expected 12 for f32[3]"),
            (refusal("<f4", "False", "(1,)"), "8 bytes, expected 4 for f32[1]"),
            (
                refusal("<f4", "False", "(4294967296, 4294967296)"),
                "shape [4294967296,4294967296] has too many elements",
            ),
            (
                refusal("<f4", "False", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"),
                "rank is 9, expected at most 8",
            ),
            (
                refusal("<f4", "False", "(-1,)"),
                ".npy header at byte 51: \"-1,), }\", expected an extent",
            ),
            (
                refusal("<f4", "false", "()"),
                ".npy header at byte 34: \"false, 'shape': \", expected True or False",
            ),
            (
                read(&file("{'descr': '<f4', 'shape': ()}", &[0; 4])).unwrap_err().to_string(),
                ".npy header at byte 29: no fortran_order, expected descr, fortran_order and shape",
            ),
            (
                read(&file("{'d\\'': 1}", &[])).unwrap_err().to_string(),
                ".npy header at byte 1: \"'d\\\\'': 1}\", expected a quoted string without escapes",
            ),
        ];
        for (found, expected) in cases {
            assert_eq!(found, expected);
        }
        let tensor = Tensor::from_slice(Shape::SCALAR, &[Bf16::from_f32(1.0)]).unwrap();
        let expected = "a tensor of type bf16, expected a type that NumPy has";
        assert_eq!(write(&tensor).unwrap_err().to_string(), expected);
    }

    #[test]
    fn broken_files_are_refused_and_never_panic() {
        let tensor =
            Tensor::from_slice(Shape::new(&[2, 3]).unwrap(), &[1i16, 2, 3, 4, 5, 6]).unwrap();
        let good = write(&tensor).unwrap();
        for end in 0..good.len() {
            assert!(read(&good[..end]).is_err(), "cut at {end}");
        }
        for offset in 0..good.len() {
            for byte in 0..=u8::MAX {
                let mut bad = good.clone();
                bad[offset] = byte;
                if let Ok(tensor) = read(&bad) {
                    assert!(tensor.bytes().len() <= good.len());
                }
            }
        }
    }
}
