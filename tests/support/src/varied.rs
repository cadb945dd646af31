//! Results that are to be compared: files whose elements are not all equal.

use std::fs;
use std::path::Path;

/// The elements of a `.npy` file of `f32`, which must not all be equal: a comparison of constants shows nothing.
#[track_caller]
pub fn varied(file: &Path) -> Vec<f32> {
    let bytes = fs::read(file).unwrap();
    assert_eq!(bytes.get(..6), Some(&b"\x93NUMPY"[..]), "{}", file.display());
    let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let text = String::from_utf8_lossy(&bytes[10..10 + header]);
    assert!(text.contains("'<f4'"), "{}: {text}", file.display());
    let elements = bytes[10 + header..].chunks_exact(4);
    let elements: Vec<f32> =
        elements.map(|of| f32::from_le_bytes([of[0], of[1], of[2], of[3]])).collect();
    let varies = elements.windows(2).any(|pair| pair[0].to_bits() != pair[1].to_bits());
    assert!(varies, "{}: all of its elements are {:?}", file.display(), elements.first());
    elements
}
