//! Elements as the bytes that they are made of, for what moves them without a look at their type.

use crate::dtype::Element;

/// The bytes of `elements`, in the machine's order.
pub fn bytes_of<T: Element>(elements: &[T]) -> &[u8] {
    // SAFETY: `Element` is sealed, and its types are numbers without padding, so all `size_of_val(elements)`
    // bytes from `elements.as_ptr()` on have values; they are borrowed as long as `elements`.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

/// The bytes of `elements`, in the machine's order; any bytes may be written.
pub fn bytes_of_mut<T: Element>(elements: &mut [T]) -> &mut [u8] {
    let len = size_of_val(elements);
    // SAFETY: as in `bytes_of` for the `len` bytes from `elements.as_mut_ptr()` on, which are borrowed
    // mutably as long as `elements`; every element type takes any bits.
    unsafe { std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), len) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bool, F16};

    #[test]
    fn bytes_are_those_of_the_elements() {
        assert_eq!(
            bytes_of(&[1.0f32, -2.0]),
            [1.0f32.to_ne_bytes(), (-2.0f32).to_ne_bytes()].concat()
        );
        assert_eq!(bytes_of(&[Bool::from(true), Bool::from(false)]), [1, 0]);
        assert_eq!(bytes_of::<u64>(&[]), [0; 0]);
        let mut halves = [F16::from_f32(1.0); 2];
        bytes_of_mut(&mut halves)[2..].copy_from_slice(&F16::from_f32(-0.5).0.to_ne_bytes());
        assert_eq!(halves.map(|half| half.to_f32().to_bits()), [1.0f32, -0.5].map(f32::to_bits));
    }
}
