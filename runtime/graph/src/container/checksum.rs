//! Checksums that detect damage: FNV-1a on 64-bit words in eight lanes (independent partial sums, which a CPU computes in
//! parallel), and a faster 128-bit sum. They do not protect against deliberate changes; the reader validates files
//! whatever their checksums.

const LANES: usize = 8;
/// The prime and the offset basis of 64-bit FNV-1a.
const PRIME: u64 = 0x0000_0100_0000_01b3;
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
/// The multiplier of [`other_step`]: 2^64 divided by the golden ratio.
const OTHER_PRIME: u64 = 0x9e37_79b9_7f4a_7c15;

/// Computes the checksum of `bytes`; `seed` is the checksum of the bytes before them.
///
/// Word `i` of each 64-byte block, little-endian, goes into lane `i`. The last, incomplete block is padded with zeros to
/// whole words. The lanes and the length are then combined in order. Any change of a single word changes the result.
pub(super) fn sum(seed: u64, bytes: &[u8]) -> u64 {
    let mut lanes = [OFFSET; LANES];
    let mut blocks = bytes.chunks_exact(LANES * 8);
    for block in &mut blocks {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<8>().0) {
            *lane = step(*lane, u64::from_le_bytes(*word));
        }
    }
    for (lane, bytes) in lanes.iter_mut().zip(blocks.remainder().chunks(8)) {
        let mut word = [0; 8];
        word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        *lane = step(*lane, u64::from_le_bytes(word));
    }
    let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let words = lanes.into_iter().chain([len]);
    words.fold(step(OFFSET, seed), step)
}

/// Adds a word to a sum. The step is bijective in the state and in the word. A multiplication never carries high bits
/// down, so the shift folds the high half into the low half.
fn step(state: u64, word: u64) -> u64 {
    let product = (state ^ word).wrapping_mul(PRIME);
    product ^ (product >> 32)
}

/// The initial values of the lanes of [`sum128`], and the keys that words are mixed with: the start of XXH3's default
/// secret.
const KEYS: [u64; LANES] = [
    0xbe4b_a423_396c_feb9,
    0x1cad_21f7_2c81_017d,
    0xdb97_9083_e96d_d4df,
    0x1f67_b3b7_a4a4_4073,
    0x78e5_c0cc_4ee6_79cb,
    0x2172_ffcc_7dd0_5a83,
    0x8e24_43f7_7446_08b9,
    0x4c26_3a81_e690_35e1,
];

/// The number of bytes after which [`sum128`] scrambles its lanes, as XXH3 does after a stripe block.
const SCRAMBLE_BYTES: usize = 1024;

/// Computes a 128-bit checksum at memory bandwidth. It multiplies the 32-bit parts of words, which needs no special instructions.
///
/// Word `i` of each 64-byte block, little-endian, is added to lane `i` as the product of its parts, and unchanged to the
/// neighbouring lane. The last block is padded with zeros. Any change of a single word changes a lane. The scheme is that
/// of XXH3's accumulators (<https://github.com/Cyan4973/xxHash>).
pub fn sum128(bytes: &[u8]) -> u128 {
    let mut lanes = KEYS;
    for part in bytes.chunks(SCRAMBLE_BYTES) {
        let (blocks, remainder) = part.as_chunks::<{ LANES * 8 }>();
        for block in blocks {
            mix(&mut lanes, block);
        }
        if !remainder.is_empty() {
            let mut block = [0; LANES * 8];
            block.iter_mut().zip(remainder).for_each(|(to, from)| *to = *from);
            mix(&mut lanes, &block);
        }
        for (lane, key) in lanes.iter_mut().zip(KEYS) {
            *lane = (*lane ^ (*lane >> 47) ^ key).wrapping_mul(SCRAMBLE);
        }
    }
    let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let low = lanes.into_iter().chain([len]).fold(OFFSET, step);
    let high = lanes.into_iter().chain([len]).fold(PRIME, other_step);
    u128::from(high) << 64 | u128::from(low)
}

/// The multiplier of XXH3's scramble. It is odd, so that the multiplication is bijective.
const SCRAMBLE: u64 = 0x9e37_79b1;

/// Accumulates the words of a block into the lanes.
#[inline]
fn mix(lanes: &mut [u64; LANES], block: &[u8; LANES * 8]) {
    let words = block.as_chunks::<8>().0;
    let mut neighbours = [0; LANES];
    for (index, (word, key)) in words.iter().zip(KEYS).enumerate() {
        let word = u64::from_le_bytes(*word);
        let mixed = word ^ key;
        lanes[index] = lanes[index].wrapping_add((mixed & 0xffff_ffff).wrapping_mul(mixed >> 32));
        neighbours[index ^ 1] = word;
    }
    for (lane, word) in lanes.iter_mut().zip(neighbours) {
        *lane = lane.wrapping_add(word);
    }
}

/// A second step with a different multiplier and the parts of the word swapped.
fn other_step(state: u64, word: u64) -> u64 {
    let product = (state ^ word.rotate_left(32)).wrapping_mul(OTHER_PRIME);
    product ^ (product >> 29)
}

/// The size of the parts that [`sum128_of_parts`] combines.
pub const PART_BYTES: usize = 1 << 20;

/// Combines the checksums of parts of [`PART_BYTES`] bytes, so that threads can compute them in parallel.
pub fn sum128_of_parts(sums: &[u128]) -> u128 {
    let bytes: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
    sum128(&bytes)
}

/// Computes [`sum128_of_parts`] from the bytes.
pub fn sum128_by_parts(bytes: &[u8]) -> u128 {
    let sums: Vec<u128> = bytes.chunks(PART_BYTES).map(sum128).collect();
    sum128_of_parts(&sums)
}

/// Formats a checksum as in files.
pub(super) fn hex(sum: u64) -> String {
    format!("{sum:016x}")
}

/// Computes the identity of a model's graphs and tensors, from the JSON of its graphs and the names and checksums of its tensors.
pub(super) fn content<'a>(graphs: &str, sums: impl Iterator<Item = (&'a str, &'a str)>) -> u128 {
    let mut words = sum128(graphs.as_bytes()).to_le_bytes().to_vec();
    for (name, sum) in sums {
        words.extend(name.as_bytes());
        words.extend(sum.as_bytes());
    }
    sum128(&words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_bit_and_any_other_order_change_the_sum() {
        let bytes: Vec<u8> = (0u8..=255).cycle().take(200).collect();
        let expected = sum(0, &bytes);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                assert_ne!(sum(0, &other), expected, "bit {bit} of byte {at}");
            }
        }
        assert_ne!(sum(1, &bytes), expected);
        assert_ne!(sum(0, &[&bytes[..], &[0]].concat()), expected, "zeros at the end");
        assert_ne!(sum(sum(0, b"a"), b"b"), sum(sum(0, b"b"), b"a"));
        assert_eq!(hex(sum(0, b"")), hex(sum(0, &[])));
    }

    #[test]
    fn any_changed_bit_changes_both_halves_of_a_sum128() {
        let bytes: Vec<u8> = (0u8..=255).cycle().take(200).collect();
        let halves = |sum: u128| [sum >> 64, sum & u128::from(u64::MAX)];
        let expected = halves(sum128(&bytes));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                let found = halves(sum128(&other));
                assert!(
                    found[0] != expected[0] && found[1] != expected[1],
                    "bit {bit} of byte {at}"
                );
            }
        }
        assert_ne!(sum128(b""), sum128(&[0]), "zeros at the end");
        let mut long: Vec<u8> = (0u8..=250).cycle().take(3 * PART_BYTES + 77).collect();
        let expected = (sum128(&long), sum128_by_parts(&long));
        long.swap(5, 5 + SCRAMBLE_BYTES);
        long.swap(PART_BYTES + 1, 2 * PART_BYTES + 9);
        assert!(sum128(&long) != expected.0 && sum128_by_parts(&long) != expected.1);
    }

    #[test]
    fn sums_equal_those_of_earlier_releases() {
        let bytes: Vec<u8> = (0u8..100).collect();
        let sums = [&b""[..], b"udo", &bytes].map(|bytes| hex(sum(0, bytes)));
        assert_eq!(sums, ["70cd9cdc930a6902", "5b48eb51cd355be1", "7b55d8f6d32b777d"]);
    }
}
