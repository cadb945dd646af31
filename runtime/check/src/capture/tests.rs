//! Captures survive writing and reading, and damaged ones are refused.

use udo_api::{AxisEncoding, DType, Dim, Encoding, Shape};

use super::*;

fn capture() -> Capture {
    let shape = Shape::new(&[2, 3]).unwrap();
    let float = TensorDesc::new(DType::F32, Shape::from_dims(&[Dim::UpTo(9)]).unwrap());
    let byte = TensorDesc::new(DType::U8, shape);
    let axis = AxisEncoding::intern(0, &[0.5, 0.25], &[0, 0]).unwrap();
    let per_axis = TensorDesc::new(DType::I8, shape).with_axis_encoding(axis);
    let tensor = Buffer::from_bytes(&[7; 6]).unwrap();
    let tensor = TensorSetting::new(byte, Arc::new(tensor)).unwrap();
    let input = |desc, dims: &[usize], is_constant, bytes: &[u8]| CapturedInput {
        desc,
        dims: dims.to_vec(),
        is_constant,
        bytes: bytes.to_vec(),
    };
    let encoded = byte.with_encoding(Encoding { scale: 0.1, zero_point: 3 });
    Capture {
        package: "a package".to_owned(),
        digest: "00ff".to_owned(),
        op: "udo:Blend".to_owned(),
        core: "dsp:v68".to_owned(),
        case: "numbers/random".to_owned(),
        why: "it has \"1\"".to_owned(),
        level: 3,
        seed: u64::MAX,
        inputs: vec![
            input(float, &[2], false, &[1, 2, 3, 4, 5, 6, 7, 8]),
            input(TensorDesc::ABSENT, &[], false, &[]),
            input(per_axis, &[2, 3], true, &[1, 2, 3, 4, 5, 6]),
        ],
        params: vec![
            ("a".to_owned(), ParamSetting::Float(0.1)),
            ("b".to_owned(), ParamSetting::Floats(vec![f64::INFINITY, -0.0, 1e-300])),
            ("c".to_owned(), ParamSetting::Int(i64::MIN)),
            ("d".to_owned(), ParamSetting::Ints(vec![1, -2])),
            ("e".to_owned(), ParamSetting::Text("a \"word\"".to_owned())),
            ("f".to_owned(), ParamSetting::Texts(vec![String::new()])),
            ("g".to_owned(), ParamSetting::Absent),
            ("h".to_owned(), ParamSetting::Tensor(tensor)),
        ],
        outputs: vec![
            CapturedOutput {
                desc: encoded,
                found: Some((vec![2, 3], vec![9; 6])),
                wanted: Some(CapturedWanted {
                    by: "the reference".to_owned(),
                    dims: Some(vec![2, 3]),
                    numbers: vec![0.5; 6],
                    allowed: Some(vec![f64::INFINITY; 6]),
                }),
            },
            CapturedOutput { desc: float, found: None, wanted: None },
        ],
    }
}

#[test]
fn files_survive_a_round_trip() {
    let capture = capture();
    assert_eq!(Capture::from_bytes(&capture.to_bytes()).unwrap(), capture);
    assert_eq!(capture.file_name(), "udo-Blend-dsp-v68-numbers-random.capture");
}

#[test]
fn truncated_files_are_refused_at_every_length() {
    let file = capture().to_bytes();
    for len in 0..file.len() {
        let error = Capture::from_bytes(&file[..len]).unwrap_err();
        let is_fit = match error {
            CaptureError::NoCapture { .. } => len < START + HEAD.len(),
            CaptureError::Damaged { .. } => len >= START + HEAD.len(),
            _ => false,
        };
        assert!(is_fit, "{len}");
    }
}

#[test]
fn changed_bytes_are_detected_at_every_offset() {
    let file = capture().to_bytes();
    for at in 0..file.len() {
        for bit in [0, 7] {
            let mut other = file.clone();
            other[at] ^= 1 << bit;
            assert!(Capture::from_bytes(&other).is_err(), "bit {bit} of byte {at}");
        }
    }
}

/// Splits a file into its header and elements.
fn parts(file: &[u8]) -> (&[u8], &[u8]) {
    let header = usize::try_from(u64::from_le_bytes(*file.first_chunk().unwrap())).unwrap();
    file[START..].split_at(header)
}

/// Builds a file with a valid digest from a header and elements.
fn sealed(header: &[u8], data: &[u8]) -> Vec<u8> {
    let len = u64::try_from(header.len()).unwrap().to_le_bytes();
    let at = SEALED_FROM - DIGEST_LEN;
    let (before, rest) = (&header[..at], &header[SEALED_FROM..]);
    let digest = digest_of(&[&len, before, rest, data]);
    [&len[..], before, digest.as_bytes(), rest, data].concat()
}

/// Where the digested part of a header begins.
const SEALED_FROM: usize = HEAD.len() + 1 + BEFORE_DIGEST.len() + DIGEST_LEN;

/// Returns the error of a file whose header has one string replaced, with a valid digest.
fn edited(from: &str, to: &str) -> CaptureError {
    let file = capture().to_bytes();
    let (header, data) = parts(&file);
    let text = String::from_utf8(header.to_vec()).unwrap();
    assert!(text.contains(from), "{from}: {text}");
    Capture::from_bytes(&sealed(text.replacen(from, to, 1).as_bytes(), data)).unwrap_err()
}

#[test]
fn invalid_header_fields_are_refused_by_name() {
    let cases = [
        ("\"version\":\"1\"", "\"version\":\"27\"", "version 27, expected 1"),
        ("\\\"type\\\":\\\"f32\\\"", "\\\"type\\\":\\\"f33\\\"", "unknown type \"f33\""),
        ("\\\"type\\\":\\\"f32\\\"", "\\\"type\\\":\\\"str\\\"", "found a tensor of strings"),
        (
            "{\\\"up_to\\\":9}",
            "{\\\"up_to\\\":1}",
            "tensor input.0 is [2], expected dimensions up to [1]",
        ),
        (
            "\\\"dims\\\":[2]",
            "\\\"dims\\\":[1]",
            "tensor input.0 has 8 bytes, expected those of [1]",
        ),
        (
            "{\\\"up_to\\\":9}",
            "18446744073709551615",
            "shape [18446744073709551615] has too many elements",
        ),
        ("\"data_offsets\":[0,8]", "\"data_offsets\":[8,0]", "tensor input.0 is at 8..0 of"),
        (
            "\"data_offsets\":[0,8]",
            "\"data_offsets\":[0]",
            "tensor input.0 has 1 offsets, expected 2",
        ),
        (
            "\"data_offsets\":[26,74]",
            "\"data_offsets\":[18,74]",
            "tensor wanted.0 at 18..74 overlaps another tensor",
        ),
        (
            "\"data_offsets\":[74,122]",
            "\"data_offsets\":[26,74]",
            "tensor allowed.0 at 26..74 overlaps another tensor",
        ),
        ("\"input.0\"", "\"input.9\"", "tensor input.0: found null, expected a list"),
        ("\\\"level\\\":3", "\\\"level\\\":300", "level: found 300, expected a level"),
        ("\\\"scale\\\":\\\"0.1\\\"", "\\\"scale\\\":0.1", "found 0.1, expected a number"),
        ("\\\"int\\\":", "\\\"inch\\\":", "unknown parameter kind \"inch\""),
        ("\\\"op\\\":\\\"udo:Blend\\\"", "\\\"op\\\":7", "op: found 7, expected a string"),
    ];
    for (from, to, wanted) in cases {
        let said = edited(from, to).at_path(Path::new("x.capture")).to_string();
        assert!(said.starts_with("x.capture is ") && said.contains(wanted), "{from}: {said}");
    }
}

#[test]
fn other_files_are_no_captures() {
    for bytes in
        [&b""[..], b"\x7fELF", b"\x20\0\0\0\0\0\0\0{\"__metadata__\":{\"format\":\"udo\"}}"]
    {
        let error = Capture::from_bytes(bytes).unwrap_err();
        assert!(matches!(error, CaptureError::NoCapture { .. }), "{error}");
    }
}

/// Replacements for a byte or a number of a header.
const PUT: &[&str] = &[
    "",
    "0",
    "1",
    "-1",
    "18446744073709551615",
    "9223372036854775807",
    "1e99",
    "null",
    "[]",
    "{}",
    "\\\"",
    ",",
    ":",
    "[",
    "}",
    "\\u0000",
    "\\\"nan\\\"",
    "\\\"inf\\\"",
    "\u{e9}",
];

#[test]
fn headers_that_are_sealed_and_wrong_are_refused_or_read_again() {
    let file = capture().to_bytes();
    let (header, data) = parts(&file);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |most: usize| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        usize::try_from(random >> 33).unwrap() % most
    };
    let mut read = 0;
    for number in 0..3000 {
        let mut header = header.to_vec();
        for _ in 0..=below(3) {
            let at = SEALED_FROM + below(header.len() - SEALED_FROM);
            // Replaces a whole number if there is one.
            let digits = header[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            header.splice(at..at + digits.max(1), PUT[below(PUT.len())].bytes());
        }
        let data = &data[..if below(8) == 0 { below(data.len()) } else { data.len() }];
        let Ok(capture) = Capture::from_bytes(&sealed(&header, data)) else { continue };
        let written = capture.to_bytes();
        let again = Capture::from_bytes(&written).unwrap_or_else(|error| {
            panic!("{number}: {error}: {}", String::from_utf8_lossy(&header))
        });
        assert_eq!(again.to_bytes(), written, "{number}");
        read += 1;
    }
    assert!((100..2900).contains(&read), "{read} of 3000 are read");
}

#[test]
fn the_seed_of_the_fuzzer_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/capture");
    let file = capture().to_bytes();
    let path = folder.join("all.capture");
    if std::env::var_os("UDO_BLESS").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(&path, &file).unwrap();
    }
    assert!(std::fs::read(&path).unwrap() == file, "{path:?} is older; UDO_BLESS=1 writes it");
}
