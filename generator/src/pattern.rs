//! Random input shapes that share dimensions, to find valid inputs for operators about which nothing else is known.
//!
//! If an operator accepts a drawn pattern, other values of its variable dimensions give nodes of other sizes.

/// The number of dimensions of a pattern that vary between nodes; others are constant.
pub const VARIABLES: usize = 3;

/// A dimension of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Variable(usize),
    Fixed(usize),
}

/// The dimensions of each input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Vec<Vec<Extent>>);

impl Pattern {
    /// Draws a pattern for this number of inputs; later inputs often have the shape of an earlier one or are vectors.
    /// `below` returns a random number below its argument, and 0 for 0.
    pub fn drawn(inputs: usize, below: &mut dyn FnMut(usize) -> usize) -> Self {
        let mut all_dims: Vec<Vec<Extent>> = Vec::new();
        let mut known_extents: Vec<Extent> = Vec::new();
        for port in 0..inputs {
            let earlier = all_dims.get(below(all_dims.len())).cloned();
            let dims = match earlier {
                Some(mut like) if below(5) < 2 => {
                    let varied_axis = below(like.len());
                    if let (0, Some(extent)) = (below(2), like.get_mut(varied_axis)) {
                        *extent = random_extent(below);
                    }
                    like
                }
                _ => {
                    // Ranks that occur twice are drawn twice as often.
                    let ranks: &[usize] =
                        if port == 0 { &[1, 2, 2, 3, 3, 4, 4] } else { &[0, 1, 1, 1, 2, 2, 3, 4] };
                    let rank = ranks.get(below(ranks.len())).copied().unwrap_or(1);
                    (0..rank).map(|_| tied(&known_extents, below)).collect()
                }
            };
            known_extents.extend(&dims);
            all_dims.push(dims);
        }
        Self(all_dims)
    }

    /// Returns the dimensions of an input for these values of the variables; inputs beyond the last have the last
    /// one's.
    pub fn dims(&self, port: usize, values: [usize; VARIABLES]) -> Vec<usize> {
        let extents = self.0.get(port).or(self.0.last());
        let value = |extent: &Extent| match extent {
            Extent::Variable(at) => values.get(*at).copied().unwrap_or(1),
            Extent::Fixed(extent) => *extent,
        };
        extents.into_iter().flatten().map(value).collect()
    }
}

/// Returns a dimension of an earlier input, or a new one, at random.
fn tied(known_extents: &[Extent], below: &mut dyn FnMut(usize) -> usize) -> Extent {
    let earlier = known_extents.get(below(known_extents.len())).copied();
    earlier.filter(|_| below(3) < 2).unwrap_or_else(|| random_extent(below))
}

fn random_extent(below: &mut dyn FnMut(usize) -> usize) -> Extent {
    match below(6) {
        0 => Extent::Fixed(1),
        1 => Extent::Fixed(below(3) + 2),
        _ => Extent::Variable(below(VARIABLES)),
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    /// Returns a deterministic random generator.
    fn below() -> impl FnMut(usize) -> usize {
        let mut state = 1u64;
        move |end| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            usize::try_from(state >> 40).unwrap().checked_rem(end).unwrap_or(0)
        }
    }

    /// Counts the patterns drawn until one satisfies `does`.
    fn draws_until(inputs: usize, holds: impl Fn(&[Vec<usize>]) -> bool) -> usize {
        let mut below = below();
        let drawn = (1..=4000).find(|_| {
            let pattern = Pattern::drawn(inputs, &mut below);
            let dims: Vec<_> = (0..inputs).map(|port| pattern.dims(port, [4, 6, 2])).collect();
            holds(&dims)
        });
        drawn.unwrap()
    }

    #[test]
    fn common_combinations_of_shapes_are_drawn() {
        // Token positions; scale and bias of channels; queries, keys, values and a mask; boxes and their scores.
        draws_until(2, |dims| dims[0].len() == 3 && dims[0][2] % 2 == 0 && dims[1] == [dims[0][0]]);
        draws_until(3, |dims| {
            dims[0].len() > 1 && dims[1] == [dims[0][dims[0].len() - 1]] && dims[2] == dims[1]
        });
        draws_until(4, |dims| {
            let [q, k, v, mask] = dims else { return false };
            let is_of_rank = [q, k, v].iter().all(|dims| dims.len() == 3);
            is_of_rank && k == v && q[0] == k[0] && q[2] == k[2] && *mask == [q[1], k[1]]
        });
        draws_until(2, |dims| dims[0].len() == 2 && dims[0][1] == 4 && dims[1] == [dims[0][0]]);
    }

    #[test]
    fn variable_dimensions_scale_and_fixed_ones_do_not() {
        let mut below = below();
        for _ in 0..100 {
            let pattern = Pattern::drawn(3, &mut below);
            let [small, large] = [[4, 6, 2], [8, 12, 4]]
                .map(|values| (0..3).map(|port| pattern.dims(port, values)).collect::<Vec<_>>());
            for (small, large) in small.iter().flatten().zip(large.iter().flatten()) {
                assert!(*large == 2 * small || large == small, "{pattern:?}");
            }
        }
    }
}
