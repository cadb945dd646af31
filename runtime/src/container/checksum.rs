//! The sums that show damage: FNV-1a in eight lanes of 64-bit words, as fast as memory is read. They are no defence
//! against who means harm: the reader checks all that it is told, whatever its sum.

const LANES: usize = 8;
const PRIME: u64 = 0x0000_0100_0000_01b3;
const OTHER_PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// The sum of `bytes` behind others that have the sum `seed`.
///
/// Word `i` of each 64 bytes, little-endian, goes into lane `i`; the rest goes into the first lanes, padded with zeros. The lanes, and
/// how many bytes there are, go into the result in order. A change of one word changes the sum for certain.
pub(super) fn sum(seed: u64, bytes: &[u8]) -> u64 {
    let mut lanes = [OFFSET; LANES];
    let mut blocks = bytes.chunks_exact(LANES * 8);
    for block in &mut blocks {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<8>().0) {
            *lane = step(*lane, u64::from_le_bytes(*word));
        }
    }
    for (lane, rest) in lanes.iter_mut().zip(blocks.remainder().chunks(8)) {
        let mut word = [0; 8];
        word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        *lane = step(*lane, u64::from_le_bytes(word));
    }
    let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let words = lanes.into_iter().chain([len]);
    words.fold(step(OFFSET, seed), step)
}

/// A step is one to one in the state and in the word. The high bits, which products alone never bring down, are folded in.
fn step(state: u64, word: u64) -> u64 {
    let product = (state ^ word).wrapping_mul(PRIME);
    product ^ (product >> 32)
}

/// The sum of `bytes` in 128 bits: of two sets of lanes, whose steps differ.
///
/// Word `i` of each 64 bytes goes into lane `i` of both sets; the rest, padded with zeros, as in [`sum`].
pub(crate) fn sum128(bytes: &[u8]) -> u128 {
    let mut lanes = [OFFSET; LANES];
    let mut others = [PRIME; LANES];
    let mut blocks = bytes.chunks_exact(LANES * 8);
    for block in &mut blocks {
        let words = block.as_chunks::<8>().0;
        for ((lane, other), word) in lanes.iter_mut().zip(&mut others).zip(words) {
            let word = u64::from_le_bytes(*word);
            (*lane, *other) = (step(*lane, word), other_step(*other, word));
        }
    }
    for ((lane, other), rest) in lanes.iter_mut().zip(&mut others).zip(blocks.remainder().chunks(8))
    {
        let mut word = [0; 8];
        word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        let word = u64::from_le_bytes(word);
        (*lane, *other) = (step(*lane, word), other_step(*other, word));
    }
    let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let low = lanes.into_iter().chain([len]).fold(OFFSET, step);
    let high = others.into_iter().chain([len]).fold(PRIME, other_step);
    u128::from(high) << 64 | u128::from(low)
}

/// A step with another product, which takes the halves of the word the other way round.
fn other_step(state: u64, word: u64) -> u64 {
    let product = (state ^ word.rotate_left(32)).wrapping_mul(OTHER_PRIME);
    product ^ (product >> 29)
}

/// How sums are written.
pub(super) fn hex(sum: u64) -> String {
    format!("{sum:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_counts_and_so_does_the_order() {
        let bytes: Vec<u8> = (0u8..=255).cycle().take(200).collect();
        let wanted = sum(0, &bytes);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                assert_ne!(sum(0, &other), wanted, "bit {bit} of byte {at}");
            }
        }
        assert_ne!(sum(1, &bytes), wanted);
        assert_ne!(sum(0, &[&bytes[..], &[0]].concat()), wanted, "zeros at the end");
        assert_ne!(sum(sum(0, b"a"), b"b"), sum(sum(0, b"b"), b"a"));
        assert_eq!(hex(sum(0, b"")), hex(sum(0, &[])));
    }

    #[test]
    fn every_bit_counts_in_both_halves_of_a_sum() {
        let bytes: Vec<u8> = (0u8..=255).cycle().take(200).collect();
        let halves = |sum: u128| [sum >> 64, sum & u128::from(u64::MAX)];
        let wanted = halves(sum128(&bytes));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                let found = halves(sum128(&other));
                assert!(found[0] != wanted[0] && found[1] != wanted[1], "bit {bit} of byte {at}");
            }
        }
        assert_ne!(sum128(b""), sum128(&[0]), "zeros at the end");
    }

    #[test]
    fn sums_stay_what_they_are() {
        let bytes: Vec<u8> = (0u8..100).collect();
        let sums = [&b""[..], b"udo", &bytes].map(|bytes| hex(sum(0, bytes)));
        assert_eq!(sums, ["70cd9cdc930a6902", "5b48eb51cd355be1", "7b55d8f6d32b777d"]);
    }
}
