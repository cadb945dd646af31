//! Cost-based placement: assigns a place (a core, by index) to each group of nodes so that the total cost of steps and
//! transfers is minimal.
//!
//! The search is dynamic programming over the groups in order. Assignments of the first groups that agree on the places
//! of the values that later groups still use are equivalent (a state), and only the cheapest of them is continued.

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
    pub(super) producer: Member,
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
const MAX_WORK: usize = 1 << 22;

/// The smallest and largest number of states that are retained for a group.
const STATE_LIMITS: [usize; 2] = [256, 1 << 16];

/// The state of the values that earlier and later groups share, sorted by value.
type State = Vec<Part>;

/// The producer and the consumers of a value, as far as they have places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    value: usize,
    /// The place of the producer, if it is known yet.
    producer: Option<usize>,
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
        let limit = (MAX_WORK / (self.groups.len() * places).max(1))
            .clamp(STATE_LIMITS[0], STATE_LIMITS[1]);
        let (used_by, last_groups) = (self.used_by(), self.last_groups());
        let start = Prefix { cost: 0.0, from: 0, place: 0 };
        let mut states = BTreeMap::from([(State::new(), start)]);
        // For each group and each retained state, the previous state and the group's place.
        let mut steps_back: Vec<Vec<(usize, usize)>> = Vec::with_capacity(self.groups.len());
        for (group, (costs, used_by)) in self.groups.iter().zip(&used_by).enumerate() {
            let mut next: BTreeMap<State, Prefix> = BTreeMap::new();
            for (from, (state, prefix)) in retained(&states, limit).into_iter().enumerate() {
                for (place, group_cost) in costs.iter().enumerate() {
                    let Some(group_cost) = group_cost else { continue };
                    let mut state = state.clone();
                    for &value in used_by {
                        self.record(&mut state, value, (group, place));
                    }
                    let mut cost = prefix.cost + group_cost;
                    // A value that no later group uses leaves the state, and its transfers are paid.
                    state.retain(|part| {
                        let is_open =
                            last_groups.get(part.value).is_some_and(|last| *last > Some(group));
                        cost += if is_open { 0.0 } else { self.crossings(part) };
                        is_open
                    });
                    if next.get(&state).is_none_or(|other| cost < other.cost) {
                        next.insert(state, Prefix { cost, from, place });
                    }
                }
            }
            states = next;
            // In the order in which `retained` passes the states to the next group, which refers to them by index.
            let retained = retained(&states, limit);
            steps_back
                .push(retained.iter().map(|(_, prefix)| (prefix.from, prefix.place)).collect());
        }
        let complete = retained(&states, limit);
        let (mut index, (_, best)) = complete
            .iter()
            .enumerate()
            .min_by(|(_, (_, a)), (_, (_, b))| a.cost.total_cmp(&b.cost))?;
        let mut assignment = Vec::with_capacity(steps_back.len());
        for step_back in steps_back.iter().rev() {
            let (from, place) = step_back.get(index)?;
            assignment.push(*place);
            index = *from;
        }
        assignment.reverse();
        Some((assignment, best.cost))
    }

    /// Returns the values that each group produces or consumes.
    fn used_by(&self) -> Vec<Vec<usize>> {
        let mut used_by = vec![Vec::new(); self.groups.len()];
        for (index, value) in self.values.iter().enumerate() {
            for member in value.members() {
                let Member::Group(group) = *member else { continue };
                if let Some(used_by) =
                    used_by.get_mut(group).filter(|values| values.last() != Some(&index))
                {
                    used_by.push(index);
                }
            }
        }
        used_by
    }

    /// Returns the last group that produces or consumes each value.
    fn last_groups(&self) -> Vec<Option<usize>> {
        let group = |member: &Member| match member {
            Member::Group(group) => Some(*group),
            Member::Place(_) => None,
        };
        self.values.iter().map(|value| value.members().filter_map(group).max()).collect()
    }

    /// Records the place of a group that produces or consumes a value.
    fn record(&self, state: &mut State, value: usize, (group, place): (usize, usize)) {
        let Some(shared) = self.values.get(value) else { return };
        let index = state.binary_search_by_key(&value, |part| part.value);
        let index = index.unwrap_or_else(|index| {
            state.insert(index, shared.initial(value));
            index
        });
        let Some(part) = state.get_mut(index) else { return };
        if shared.producer == Member::Group(group) {
            part.producer = Some(place);
        }
        if shared.readers.contains(&Member::Group(group)) {
            part.readers |= bit(place);
        }
    }

    /// Returns the cost of transferring a value to its consumers.
    fn crossings(&self, part: &Part) -> f64 {
        let costs = || self.values.get(part.value)?.crossing.get(part.producer?);
        let costs = costs().into_iter().flatten().enumerate();
        costs.filter(|(place, _)| part.readers & bit(*place) != 0).map(|(_, cost)| cost).sum()
    }
}

impl Shared {
    fn members(&self) -> impl Iterator<Item = &Member> {
        self.readers.iter().chain([&self.producer])
    }

    /// Returns the producer and consumers with fixed places.
    fn initial(&self, value: usize) -> Part {
        let place = |member: &Member| match member {
            Member::Place(place) => Some(*place),
            Member::Group(_) => None,
        };
        let readers =
            self.readers.iter().filter_map(place).fold(0, |bits, place| bits | bit(place));
        Part { value, producer: place(&self.producer), readers }
    }
}

fn bit(place: usize) -> u32 {
    u32::try_from(place).ok().and_then(|place| 1u32.checked_shl(place)).unwrap_or(0)
}

/// Returns the `count` states with the lowest cost, in key order.
fn retained(states: &BTreeMap<State, Prefix>, count: usize) -> Vec<(&State, &Prefix)> {
    let mut retained: Vec<_> = states.iter().collect();
    if retained.len() > count {
        let mut costs: Vec<f64> = retained.iter().map(|(_, prefix)| prefix.cost).collect();
        costs.sort_unstable_by(f64::total_cmp);
        let limit = costs.get(count - 1).copied().unwrap_or(f64::INFINITY);
        retained.retain(|(_, prefix)| prefix.cost <= limit);
        retained.truncate(count);
    }
    retained
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
        for producer in 0..=count {
            let readers = (producer..count).filter(|_| random.below(3) == 0).map(Member::Group);
            let mut readers: Vec<Member> =
                readers.filter(|r| *r != Member::Group(producer)).collect();
            if random.below(4) == 0 {
                readers.push(Member::Place(0));
            }
            let producer =
                if producer == count { Member::Place(0) } else { Member::Group(producer) };
            if producer == Member::Place(0) {
                readers = (0..count).filter(|_| random.below(3) == 0).map(Member::Group).collect();
            }
            let crossing = (0..places)
                .map(|from| {
                    let cost = |to| if from == to { 0.0 } else { random.cost(60) };
                    (0..places).map(cost).collect()
                })
                .collect();
            problem.values.push(Shared { producer, readers, crossing });
        }
        problem
    }

    /// Computes the cost of an assignment directly from the problem.
    fn cost(problem: &Problem, places: &[usize]) -> Option<f64> {
        let place_of = |member: &Member| match member {
            Member::Group(group) => places[*group],
            Member::Place(place) => *place,
        };
        let group_costs = problem.groups.iter().zip(places).map(|(costs, place)| costs[*place]);
        let mut sum: f64 = group_costs.sum::<Option<f64>>()?;
        for value in &problem.values {
            let mut places: Vec<usize> = value.readers.iter().map(place_of).collect();
            places.sort_unstable();
            places.dedup();
            let crossing = &value.crossing[place_of(&value.producer)];
            sum += places.iter().map(|to| crossing[*to]).sum::<f64>();
        }
        Some(sum)
    }

    /// Returns the lowest cost of all assignments.
    fn exhaustive(problem: &Problem) -> Option<f64> {
        let places = problem.groups[0].len();
        let count = places.pow(u32::try_from(problem.groups.len()).unwrap());
        let assignments = (0..count).map(|mut code| {
            let mut digit = || {
                let digit = code % places;
                code /= places;
                digit
            };
            problem.groups.iter().map(|_| digit()).collect::<Vec<_>>()
        });
        assignments.filter_map(|places| cost(problem, &places)).min_by(f64::total_cmp)
    }

    #[test]
    fn solutions_are_optimal() {
        for seed in 0..200 {
            let problem = random(seed);
            let (places, total) = problem.solve().unwrap();
            assert_eq!(cost(&problem, &places), Some(total), "{seed}");
            assert_eq!(Some(total), exhaustive(&problem), "{seed}");
            assert_eq!(problem.solve().unwrap().0, places, "{seed}");
        }
    }

    #[test]
    fn a_group_without_possible_places_has_no_solution() {
        let problem = Problem { groups: vec![vec![None, None]], values: Vec::new() };
        assert!(problem.solve().is_none());
    }

    #[test]
    fn chains_stay_on_one_core_if_transfers_cost_more_than_they_save() {
        let groups = (0..40).map(|index| if index % 2 == 0 { [5.0, 6.0] } else { [6.0, 5.0] });
        let groups: Vec<Vec<Option<f64>>> = groups.map(|costs| costs.map(Some).to_vec()).collect();
        let crossing = vec![vec![0.0, 3.0], vec![3.0, 0.0]];
        let value = |producer| Shared {
            producer: Member::Group(producer),
            readers: vec![Member::Group(producer + 1)],
            crossing: crossing.clone(),
        };
        let problem = Problem { groups, values: (0..39).map(value).collect() };
        let (places, _) = problem.solve().unwrap();
        assert!(places.windows(2).all(|pair| pair[0] == pair[1]), "{places:?}");
    }
}
