//! Rotation of pairs of elements.

/// Rotates pairs `(a, b)` of the first elements of a head to `(cos a - sin b, sin a + cos b)`; the others are copied. The
/// pairs are `(2i, 2i + 1)` if interleaved, else `(i, i + pairs)`.
pub(crate) fn rotate(is_interleaved: bool, x: &[f32], [cos, sin]: [&[f32]; 2], y: &mut [f32]) {
    let angles = cos.iter().zip(sin);
    let (turned, rest) = x.split_at(2 * cos.len());
    let (to, to_rest) = y.split_at_mut(2 * cos.len());
    to_rest.copy_from_slice(rest);
    if is_interleaved {
        let (pairs, to) = (turned.as_chunks::<2>().0, to.as_chunks_mut::<2>().0);
        for ((&[a, b], to), (cos, sin)) in pairs.iter().zip(to).zip(angles) {
            *to = [cos * a - sin * b, sin * a + cos * b];
        }
        return;
    }
    let (first, second) = turned.split_at(cos.len());
    let (to_first, to_second) = to.split_at_mut(cos.len());
    let pairs = first.iter().zip(second).zip(to_first.iter_mut().zip(to_second));
    for (((a, b), (to_first, to_second)), (cos, sin)) in pairs.zip(angles) {
        *to_first = cos * a - sin * b;
        *to_second = sin * a + cos * b;
    }
}
