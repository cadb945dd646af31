//! The rotation of rotary position embedding (`RoFormer`, arXiv 2104.09864).

/// Rotates the pairs `(a, b)` at the start of a head to `(cos a - sin b, sin a + cos b)`, one pair per element of `cos`
/// and `sin`, and copies the other elements. The elements of a pair are `2i` and `2i + 1` if interleaved, else `i` and
/// `i + pairs`.
pub(crate) fn rotate(is_interleaved: bool, x: &[f32], [cos, sin]: [&[f32]; 2], y: &mut [f32]) {
    let angles = cos.iter().zip(sin);
    let (rotated, copied) = x.split_at(2 * cos.len());
    let (y_rotated, y_copied) = y.split_at_mut(2 * cos.len());
    y_copied.copy_from_slice(copied);
    if is_interleaved {
        let (pairs, y_pairs) = (rotated.as_chunks::<2>().0, y_rotated.as_chunks_mut::<2>().0);
        for ((&[a, b], y), (cos, sin)) in pairs.iter().zip(y_pairs).zip(angles) {
            *y = [cos * a - sin * b, sin * a + cos * b];
        }
        return;
    }
    let (first, second) = rotated.split_at(cos.len());
    let (y_first, y_second) = y_rotated.split_at_mut(cos.len());
    let pairs = first.iter().zip(second).zip(y_first.iter_mut().zip(y_second));
    for (((a, b), (y_first, y_second)), (cos, sin)) in pairs.zip(angles) {
        *y_first = cos * a - sin * b;
        *y_second = sin * a + cos * b;
    }
}
