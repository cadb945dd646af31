//! Cost-based placement: assigns a place to each group of nodes so that the total cost is minimal.
//!
//! Dynamic programming over the groups in order. A state holds the producers and consumers so far of the values that
//! later groups still use.

use std::collections::BTreeMap;

/// Groups that each need a place.
#[derive(Clone, Debug, Default)]
pub(super) struct Problem {
    /// The cost of each group in each place; `None` if the group cannot be there.
    pub(super) groups: Vec<Vec<Option<f64>>>,
    /// The values that groups exchange.
    pub(super) values: Vec<Shared>,
}

/// A value that is produced in one place and transferred once to each other place that reads it.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) maker: Member,
    pub(super) readers: Vec<Member>,
    /// The cost of a transfer from one place to another.
    pub(super) crossing: Vec<Vec<f64>>,
}

/// A producer or consumer of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Member {
    /// A group.
    Group(usize),
    /// A participant with a fixed place.
    Place(usize),
}

/// The approximate number of steps that the search may take.
const MOST_WORK: usize = 1 << 22;

/// The smallest and largest number of states that are retained for a group.
const STATES_KEPT: [usize; 2] = [256, 1 << 16];

/// The state of the values that earlier and later groups share, sorted by value.
type State = Vec<Part>;

/// The producer and the consumers of a value, as far as they have places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    value: usize,
    /// The place of the producer, if it is known yet.
    maker: Option<usize>,
    /// The places of the consumers, as a bit set.
    readers: u32,
}

/// The best assignment of the first groups that leads to one state.
struct Prefix {
    cost: f64,
    /// The index of the previous group's state that it extends, and the place of its last group.
    from: usize,
    place: usize,
}

impl Problem {
    /// Returns the place of each group with the least total cost, and that cost; `None` if a group cannot be anywhere.
    /// The result is optimal unless the number of states exceeds the limit. Of several assignments with the same cost,
    /// the one with earlier places wins.
    pub(super) fn solve(&self) -> Option<(Vec<usize>, f64)> {
        let places = self.groups.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let most =
            (MOST_WORK / (self.groups.len() * places).max(1)).clamp(STATES_KEPT[0], STATES_KEPT[1]);
        let (used_by, last) = (self.used_by(), self.last());
        let start = Prefix { cost: 0.0, from: 0, place: 0 };
        let mut layer = BTreeMap::from([(State::new(), start)]);
        let mut layers: Vec<Vec<(usize, usize)>> = Vec::with_capacity(self.groups.len());
        for (group, (costs, used_by)) in self.groups.iter().zip(&used_by).enumerate() {
            let mut next: BTreeMap<State, Prefix> = BTreeMap::new();
            for (from, (known, beginning)) in retained(&layer, most).into_iter().enumerate() {
                for (place, own) in costs.iter().enumerate() {
                    let Some(own) = own else { continue };
                    let mut known = known.clone();
                    for &value in used_by {
                        self.put(&mut known, value, (group, place));
                    }
                    let mut cost = beginning.cost + own;
                    known.retain(|part| {
                        let is_open = last.get(part.value).is_some_and(|last| *last > Some(group));
                        cost += if is_open { 0.0 } else { self.crossings(part) };
                        is_open
                    });
                    if next.get(&known).is_none_or(|other| cost < other.cost) {
                        next.insert(known, Prefix { cost, from, place });
                    }
                }
            }
            layer = next;
            // In the order in which `retained` passes the states to the next group, which refers to them by index.
            layers.push(retained(&layer, most).iter().map(|(_, of)| (of.from, of.place)).collect());
        }
        let all = retained(&layer, most);
        let (mut at, (_, best)) =
            all.iter().enumerate().min_by(|(_, (_, a)), (_, (_, b))| a.cost.total_cmp(&b.cost))?;
        let mut found = Vec::with_capacity(layers.len());
        for layer in layers.iter().rev() {
            let (from, place) = layer.get(at)?;
            found.push(*place);
            at = *from;
        }
        found.reverse();
        Some((found, best.cost))
    }

    /// Returns the values that each group produces or consumes.
    fn used_by(&self) -> Vec<Vec<usize>> {
        let mut used_by = vec![Vec::new(); self.groups.len()];
        for (at, value) in self.values.iter().enumerate() {
            for member in value.members() {
                let Member::Group(group) = *member else { continue };
                if let Some(used_by) = used_by.get_mut(group).filter(|of| of.last() != Some(&at)) {
                    used_by.push(at);
                }
            }
        }
        used_by
    }

    /// Returns the last group that produces or consumes each value.
    fn last(&self) -> Vec<Option<usize>> {
        let group = |member: &Member| match member {
            Member::Group(group) => Some(*group),
            Member::Place(_) => None,
        };
        self.values.iter().map(|value| value.members().filter_map(group).max()).collect()
    }

    /// Records the place of a group that produces or consumes a value.
    fn put(&self, known: &mut State, value: usize, (group, place): (usize, usize)) {
        let Some(shared) = self.values.get(value) else { return };
        let at = known.binary_search_by_key(&value, |part| part.value);
        let at = at.unwrap_or_else(|at| {
            known.insert(at, shared.initial(value));
            at
        });
        let Some(part) = known.get_mut(at) else { return };
        if shared.maker == Member::Group(group) {
            part.maker = Some(place);
        }
        if shared.readers.contains(&Member::Group(group)) {
            part.readers |= bit(place);
        }
    }

    /// Returns the cost of transferring a value to its consumers.
    fn crossings(&self, part: &Part) -> f64 {
        let ways = || self.values.get(part.value)?.crossing.get(part.maker?);
        let ways = ways().into_iter().flatten().enumerate();
        ways.filter(|(place, _)| part.readers & bit(*place) != 0).map(|(_, cost)| cost).sum()
    }
}

impl Shared {
    fn members(&self) -> impl Iterator<Item = &Member> {
        self.readers.iter().chain([&self.maker])
    }

    /// Returns what is known of it before any group has a place.
    fn initial(&self, value: usize) -> Part {
        let place = |member: &Member| match member {
            Member::Place(place) => Some(*place),
            Member::Group(_) => None,
        };
        let readers = self.readers.iter().filter_map(place).fold(0, |bits, at| bits | bit(at));
        Part { value, maker: place(&self.maker), readers }
    }
}

fn bit(place: usize) -> u32 {
    u32::try_from(place).ok().and_then(|place| 1u32.checked_shl(place)).unwrap_or(0)
}

/// Returns the `most` states with the lowest cost, in key order.
fn retained(layer: &BTreeMap<State, Prefix>, most: usize) -> Vec<(&State, &Prefix)> {
    let mut all: Vec<_> = layer.iter().collect();
    if all.len() > most {
        let mut costs: Vec<f64> = all.iter().map(|(_, of)| of.cost).collect();
        costs.sort_unstable_by(f64::total_cmp);
        let limit = costs.get(most - 1).copied().unwrap_or(f64::INFINITY);
        all.retain(|(_, of)| of.cost <= limit);
        all.truncate(most);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A linear congruential generator with a fixed seed, so that the graphs are the same in each run.
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: usize) -> usize {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(self.0 >> 33).unwrap() % limit
        }

        fn cost(&mut self, limit: usize) -> f64 {
            f64::from(u16::try_from(self.below(limit)).unwrap())
        }
    }

    /// Returns a problem with up to 10 groups and up to 3 places, of which the first is the caller's.
    fn random(seed: u64) -> Problem {
        let mut random = Random(seed);
        let (count, places) = (1 + random.below(10), 2 + random.below(2));
        let mut problem = Problem::default();
        for _ in 0..count {
            let mut costs: Vec<Option<f64>> =
                (0..places).map(|_| (random.below(4) > 0).then(|| random.cost(100))).collect();
            if costs.iter().all(Option::is_none) {
                costs[0] = Some(50.0);
            }
            problem.groups.push(costs);
        }
        for maker in 0..=count {
            let readers = (maker..count).filter(|_| random.below(3) == 0).map(Member::Group);
            let mut readers: Vec<Member> = readers.filter(|r| *r != Member::Group(maker)).collect();
            if random.below(4) == 0 {
                readers.push(Member::Place(0));
            }
            let maker = if maker == count { Member::Place(0) } else { Member::Group(maker) };
            if maker == Member::Place(0) {
                readers = (0..count).filter(|_| random.below(3) == 0).map(Member::Group).collect();
            }
            let crossing = (0..places)
                .map(|from| {
                    let cost = |to| if from == to { 0.0 } else { random.cost(60) };
                    (0..places).map(cost).collect()
                })
                .collect();
            problem.values.push(Shared { maker, readers, crossing });
        }
        problem
    }

    /// Computes the cost of an assignment directly from the problem.
    fn cost(problem: &Problem, places: &[usize]) -> Option<f64> {
        let of = |member: &Member| match member {
            Member::Group(group) => places[*group],
            Member::Place(place) => *place,
        };
        let own = problem.groups.iter().zip(places).map(|(costs, place)| costs[*place]);
        let mut sum: f64 = own.sum::<Option<f64>>()?;
        for value in &problem.values {
            let mut to: Vec<usize> = value.readers.iter().map(of).collect();
            to.sort_unstable();
            to.dedup();
            sum += to.iter().map(|to| value.crossing[of(&value.maker)][*to]).sum::<f64>();
        }
        Some(sum)
    }

    fn exhaustive(problem: &Problem) -> Option<f64> {
        let places = problem.groups[0].len();
        let count = places.pow(u32::try_from(problem.groups.len()).unwrap());
        let all = (0..count).map(|mut code| {
            let mut digit = || {
                let digit = code % places;
                code /= places;
                digit
            };
            problem.groups.iter().map(|_| digit()).collect::<Vec<_>>()
        });
        all.filter_map(|places| cost(problem, &places)).min_by(f64::total_cmp)
    }

    #[test]
    fn what_is_found_costs_as_little_as_the_best_of_all_ways() {
        for seed in 0..200 {
            let problem = random(seed);
            let (places, found) = problem.solve().unwrap();
            assert_eq!(cost(&problem, &places), Some(found), "{seed}");
            assert_eq!(Some(found), exhaustive(&problem), "{seed}");
            assert_eq!(problem.solve().unwrap().0, places, "{seed}");
        }
    }

    #[test]
    fn a_group_that_can_be_nowhere_has_no_place() {
        let problem = Problem { groups: vec![vec![None, None]], values: Vec::new() };
        assert!(problem.solve().is_none());
    }

    #[test]
    fn a_chain_does_not_go_back_and_forth_for_small_gains() {
        let groups = (0..40).map(|at| if at % 2 == 0 { [5.0, 6.0] } else { [6.0, 5.0] });
        let groups: Vec<Vec<Option<f64>>> = groups.map(|of| of.map(Some).to_vec()).collect();
        let crossing = vec![vec![0.0, 3.0], vec![3.0, 0.0]];
        let value = |maker| Shared {
            maker: Member::Group(maker),
            readers: vec![Member::Group(maker + 1)],
            crossing: crossing.clone(),
        };
        let problem = Problem { groups, values: (0..39).map(value).collect() };
        let (places, _) = problem.solve().unwrap();
        assert!(places.windows(2).all(|pair| pair[0] == pair[1]), "{places:?}");
    }
}
