//! Where the boxes of a graph lie: in layers from the top down, so that lines cross seldom and run straight (Sugiyama et al., 1981).
//!
//! All boxes are equally wide. A value that passes layers by has a place in each, which is the same for all who read it. Boxes that follow each
//! other may have a frame around them, and frames may lie in frames: each has its layers to itself, and lines that go past it go beside it.

mod frames;
mod layers;

use std::collections::BTreeMap;
use std::ops::Range;

/// How wide a box is, in pixels, and how much lies between two.
pub(super) const WIDTH: f64 = 190.0;
const GAP: f64 = 28.0;

/// How wide a line is that passes a layer by.
const LANE: f64 = 10.0;

/// How much a line counts where it lies that leaves others behind which begin where it does; what else there is counts as 1.
const BESIDE: f64 = 0.05;

/// The distance between two layers, with space for a label and for lines that bend.
const BETWEEN: f64 = 46.0;

/// The margin around the graph.
const MARGIN: f64 = 40.0;

/// How many places lines may have in layers that they pass by; the longest lines beyond that run straight across the others.
const MOST_LANES: usize = 200_000;

/// A box to place.
#[derive(Clone, Debug)]
pub(super) struct Item<'a> {
    /// In pixels.
    pub(super) height: f64,
    /// Whether it lies right above what reads it first, as far up or down as that is.
    pub(super) sinks: bool,
    /// The names of the frames that it is in, the outermost first.
    pub(super) path: Vec<&'a str>,
}

/// A line from one box down to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) from: usize,
    pub(super) to: usize,
    /// The value that it stands for. Lines of one value from one box share their lanes.
    pub(super) value: usize,
}

/// Where boxes and lines lie.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// The left upper corner of each box.
    pub(super) corners: Vec<[f64; 2]>,
    /// The points of each line: its ends, and between them where it enters and leaves the layers that it passes by.
    pub(super) points: Vec<Vec<[f64; 2]>>,
    /// Outer ones come before those in them.
    pub(super) frames: Vec<Frame>,
    pub(super) size: [f64; 2],
}

/// A box around boxes that follow each other.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// How many frames it is in, which is also where its name is in the paths of its items.
    pub(super) depth: usize,
    pub(super) items: Range<usize>,
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
    /// The one that it is in, which has a lower place.
    parent: Option<usize>,
    /// Its layers.
    rows: Range<usize>,
    /// The lanes of each line that goes past it at its left and at its right, the nearest one first.
    past: [Vec<Vec<usize>>; 2],
    /// How much lies above its first layer and below its last one.
    head: f64,
    foot: f64,
}

impl Default for Frame {
    fn default() -> Self {
        let [left, right] = [f64::INFINITY, f64::NEG_INFINITY];
        let (items, rows, past) = (0..0, 0..0, Default::default());
        Self {
            depth: 0,
            items,
            left,
            top: 0.0,
            right,
            bottom: 0.0,
            parent: None,
            rows,
            past,
            head: 0.0,
            foot: 0.0,
        }
    }
}

/// A box, or a line's place in a layer.
#[derive(Clone, Debug)]
struct Place {
    layer: usize,
    width: f64,
    /// How much it counts where it lies: lines that leave boxes behind make room for these, so that what follows each other is straight.
    weight: f64,
    /// The places in the layers above and below that it is connected to.
    ties: [Vec<usize>; 2],
    x: f64,
    /// The frame that it goes past, the outermost of these.
    past: Option<usize>,
}

impl Place {
    fn new(layer: usize, width: f64, weight: f64) -> Self {
        Self { layer, width, weight, ties: [Vec::new(), Vec::new()], x: 0.0, past: None }
    }
}

/// The places of values in the layers that they pass by.
#[derive(Default)]
struct Chains {
    /// By the box that makes it and the value: that box, and its lanes from the top down.
    all: BTreeMap<(usize, usize), Vec<usize>>,
    /// The box and value of each lane. The indices of lanes follow those of the boxes.
    keys: Vec<(usize, usize)>,
}

impl Chains {
    /// The lanes in a frame's layers of each value that comes from above it and is read below it; `first` is its first layer.
    fn past(&self, frame: &Frame, first: &[usize], places: &[Place]) -> Vec<Vec<usize>> {
        let boxes = places.len() - self.keys.len();
        let lane = |&lane: &usize| {
            let key = self.keys.get(lane.checked_sub(boxes)?)?;
            let chain = self.all.get(key).filter(|_| places[lane].past.is_none())?;
            let from = places[key.0].layer;
            chain.get(frame.rows.start - from..frame.rows.end - from).map(<[usize]>::to_vec)
        };
        first.iter().filter_map(lane).collect()
    }
}

/// Which way ties lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up = 0,
    Down = 1,
}

/// Where boxes lie, which are in an order in which lines lead forward; lines that lead back are drawn, and move nothing.
pub(super) fn layout(items: &[Item<'_>], lines: &[Line]) -> Layout {
    if items.is_empty() {
        return Layout::default();
    }
    let layer = layers::layers(items, lines);
    let mut places: Vec<Place> = layer.iter().map(|&layer| Place::new(layer, WIDTH, 1.0)).collect();
    let (chains, detours) = add_detours(&mut places, lines);
    let count = layer.iter().max().map_or(0, |last| last + 1);
    let mut rows = vec![Vec::new(); count];
    for (at, place) in places.iter().enumerate() {
        rows[place.layer].push(at);
    }
    order(&mut rows, &places);
    let mut frames = frames::frames(items);
    frames::part(&mut rows, &mut frames, &mut places, &chains);
    set_x(&rows, &mut places);
    close_gaps(&rows, &mut places);
    frames::widen(&rows, &mut frames, &mut places);
    finish(items, (lines, &detours), &places, frames, count)
}

/// Gives values places in the layers that they pass by, and ties all places. For each line these places, from the top down.
fn add_detours(places: &mut Vec<Place>, lines: &[Line]) -> (Chains, Vec<Vec<usize>>) {
    let boxes = places.len();
    let mut reads = vec![0; boxes];
    let mut last: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    let mut chains = Chains::default();
    for line in lines.iter().filter(|line| line.from < line.to) {
        reads[line.from] += 1;
        let key = (line.from, line.value);
        let reached = last.entry(key).or_insert(0);
        *reached = places[line.to].layer.max(*reached);
    }
    let mut spans: Vec<_> = last.into_iter().collect();
    spans.sort_by_key(|((from, value), last)| (last - places[*from].layer, *from, *value));
    for (key, last) in spans {
        let layers = places[key.0].layer + 1..last;
        if places.len() - boxes + layers.len() > MOST_LANES {
            continue;
        }
        let mut chain = vec![key.0];
        let weight = if reads[key.0] == 1 { 1.0 } else { BESIDE };
        for layer in layers {
            let before = chain[chain.len() - 1];
            let at = places.len();
            let mut place = Place::new(layer, LANE, weight);
            place.ties[Direction::Up as usize].push(before);
            places.push(place);
            places[before].ties[Direction::Down as usize].push(at);
            chain.push(at);
            chains.keys.push(key);
        }
        chains.all.insert(key, chain);
    }
    let mut detours = vec![Vec::new(); lines.len()];
    for (line, detours) in lines.iter().zip(&mut detours) {
        let Some(chain) = chains.all.get(&(line.from, line.value)) else { continue };
        if line.from >= line.to {
            continue;
        }
        let steps = places[line.to].layer - places[line.from].layer;
        let before = chain[steps - 1];
        places[before].ties[Direction::Down as usize].push(line.to);
        places[line.to].ties[Direction::Up as usize].push(before);
        *detours = chain[1..steps].to_vec();
    }
    (chains, detours)
}

/// How often layers are ordered, and places moved.
fn rounds(places: &[Place]) -> usize {
    match places.len() {
        0..5_000 => 24,
        5_000..50_000 => 10,
        _ => 4,
    }
}

/// Orders each layer by where its ties are, from the top down and from the bottom up in turn, and keeps the order with the fewest
/// crossings.
fn order(rows: &mut Vec<Vec<usize>>, places: &[Place]) {
    let mut rank = vec![0; places.len()];
    let set = |rank: &mut Vec<usize>, row: &[usize]| {
        row.iter().enumerate().for_each(|(at, &place)| rank[place] = at);
    };
    for row in rows.iter() {
        set(&mut rank, row);
    }
    let mut best = (usize::MAX, rows.clone());
    for round in 0..rounds(places) {
        let way = if round % 2 == 0 { Direction::Up } else { Direction::Down };
        let count = rows.len();
        for at in 0..count {
            let row = &mut rows[if way == Direction::Up { at } else { count - 1 - at }];
            let mut keyed: Vec<(f64, usize)> = row
                .iter()
                .map(|&place| {
                    let ties = &places[place].ties[way as usize];
                    (
                        mean(ties.iter().map(|&tie| real(rank[tie]))).unwrap_or(real(rank[place])),
                        place,
                    )
                })
                .collect();
            keyed.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            *row = keyed.into_iter().map(|(_, place)| place).collect();
            set(&mut rank, row);
        }
        let found = crossings(rows, places, &rank);
        if found < best.0 {
            best = (found, rows.clone());
        }
        if found == 0 {
            break;
        }
    }
    *rows = best.1;
}

/// How many pairs of ties cross.
fn crossings(rows: &[Vec<usize>], places: &[Place], rank: &[usize]) -> usize {
    let mut crossings = 0;
    for pair in rows.windows(2) {
        let mut ends = Vec::new();
        for &place in &pair[0] {
            let mut down: Vec<usize> =
                places[place].ties[Direction::Down as usize].iter().map(|&tie| rank[tie]).collect();
            down.sort_unstable();
            ends.extend(down);
        }
        // For each tie, those before it that end further right: sums over a binary tree.
        let mut tree = vec![0; pair[1].len() + 1];
        for (seen, &end) in ends.iter().enumerate() {
            let (mut at, mut before) = (end + 1, 0);
            while at > 0 {
                before += tree[at];
                at &= at - 1;
            }
            crossings += seen - before;
            at = end + 1;
            while at < tree.len() {
                tree[at] += 1;
                at += at & at.wrapping_neg();
            }
        }
    }
    crossings
}

/// Puts each place as near as can be to what it is tied to, in the order of its layer.
fn set_x(rows: &[Vec<usize>], places: &mut [Place]) {
    for row in rows {
        settle(row, places, |_, _| 0.0);
    }
    let last = rounds(places);
    for round in 0..=last {
        let towards = |places: &[Place], at: usize, way: Direction| {
            let ties = places[at].ties[way as usize].iter().map(|&tie| &places[tie]);
            let (mut sum, mut weight) = (0.0, 0.0);
            for tie in ties {
                sum += tie.x * tie.weight;
                weight += tie.weight;
            }
            if weight > 0.0 { sum / weight } else { places[at].x }
        };
        for row in rows {
            settle(row, places, |all, at| towards(all, at, Direction::Up));
        }
        // What is below decides last where nothing is above, as inputs have it.
        if round < last {
            rows.iter()
                .rev()
                .for_each(|row| settle(row, places, |all, at| towards(all, at, Direction::Down)));
        }
    }
    for row in rows.iter().rev() {
        let is_start = |all: &[Place], at: usize| all[at].ties[Direction::Up as usize].is_empty();
        settle(row, places, |all, at| {
            let ties = &all[at].ties[Direction::Down as usize];
            let below = mean(ties.iter().map(|&tie| all[tie].x)).filter(|_| is_start(all, at));
            below.unwrap_or(all[at].x)
        });
    }
}

/// Moves what is tied to nothing else to the left, as far as there is room.
fn close_gaps(rows: &[Vec<usize>], places: &mut [Place]) {
    let parts = parts(places);
    let count = parts.iter().max().map_or(0, |last| last + 1);
    let mut room = vec![f64::INFINITY; count];
    for row in rows {
        for pair in row.windows(2).filter(|pair| parts[pair[0]] != parts[pair[1]]) {
            let [left, right] = [&places[pair[0]], &places[pair[1]]];
            let least = f64::midpoint(left.width, right.width) + GAP;
            let room = &mut room[parts[pair[1]]];
            *room = room.min(right.x - left.x - least);
        }
    }
    for (place, &part) in places.iter_mut().zip(&parts) {
        let room = room[part];
        place.x -= if room.is_finite() { room.max(0.0) } else { 0.0 };
    }
}

/// Which places are tied together, by numbers.
fn parts(places: &[Place]) -> Vec<usize> {
    let mut parts = vec![usize::MAX; places.len()];
    let mut count = 0;
    for start in 0..places.len() {
        let mut open = vec![start];
        let is_new = parts[start] == usize::MAX;
        while let Some(at) = open.pop() {
            if parts[at] == usize::MAX {
                parts[at] = count;
                open.extend(places[at].ties.iter().flatten());
            }
        }
        count += usize::from(is_new);
    }
    parts
}

/// Moves the places of a layer to where they want to be, as near as their order and widths allow: the least sum of squared distances.
fn settle(row: &[usize], places: &mut [Place], wanted: impl Fn(&[Place], usize) -> f64) {
    // Blocks of places that touch: where the first one lies, less what is left of it in the layer, and how many and how heavy they are.
    let mut blocks: Vec<(f64, f64, usize)> = Vec::new();
    let mut offsets = Vec::with_capacity(row.len());
    let mut offset = 0.0;
    for (at, &place) in row.iter().enumerate() {
        if let Some(&before) = at.checked_sub(1).and_then(|before| row.get(before)) {
            offset += f64::midpoint(places[before].width, places[place].width) + GAP;
        }
        offsets.push(offset);
        let mut block = (wanted(places, place) - offset, places[place].weight, 1);
        while let Some(&(x, weight, count)) = blocks.last().filter(|(x, ..)| *x >= block.0) {
            let all = weight + block.1;
            block = ((x * weight + block.0 * block.1) / all, all, count + block.2);
            blocks.pop();
        }
        blocks.push(block);
    }
    let mut at = 0;
    for (x, _, count) in blocks {
        for (&place, offset) in row.iter().zip(&offsets).skip(at).take(count) {
            places[place].x = x + offset;
        }
        at += count;
    }
}

fn finish(
    items: &[Item<'_>],
    (lines, detours): (&[Line], &[Vec<usize>]),
    places: &[Place],
    mut frames: Vec<Frame>,
    count: usize,
) -> Layout {
    let mut heights = vec![0.0_f64; count];
    for (item, place) in items.iter().zip(places) {
        heights[place.layer] = heights[place.layer].max(item.height);
    }
    let mut tops = Vec::with_capacity(count);
    let mut y = MARGIN - BETWEEN;
    for (height, [head, foot]) in heights.iter().zip(frames::heads(&mut frames, count)) {
        y += BETWEEN + head;
        tops.push(y);
        y += height + foot;
    }
    let half = |place: &Place| place.width / 2.0;
    let lefts = places.iter().map(|place| place.x - half(place));
    let left = lefts.chain(frames.iter().map(|of| of.left)).fold(f64::INFINITY, f64::min) - MARGIN;
    let rights = places.iter().map(|place| place.x + half(place));
    let rights = rights.chain(frames.iter().map(|frame| frame.right));
    let right = rights.fold(f64::NEG_INFINITY, f64::max) + MARGIN;
    for frame in &mut frames {
        (frame.left, frame.right) = (frame.left - left, frame.right - left);
        let last = frame.rows.end - 1;
        frame.top = tops[frame.rows.start] - frame.head;
        frame.bottom = tops[last] + heights[last] + frame.foot;
    }
    let x = |at: usize| places[at].x - left;
    let top = |at: usize| tops[places[at].layer];
    let corners = (0..items.len()).map(|at| [x(at) - WIDTH / 2.0, top(at)]).collect();
    let points = lines.iter().zip(detours).map(|(line, detours)| {
        let mut points = vec![[x(line.from), top(line.from) + items[line.from].height]];
        for &lane in detours {
            let layer = places[lane].layer;
            let [mut from, mut to] = [tops[layer], tops[layer] + heights[layer]];
            if let Some(frame) = places[lane].past.and_then(|frame| frames.get(frame)) {
                from = if layer == frame.rows.start { frame.top } else { from };
                to = if layer + 1 == frame.rows.end { frame.bottom } else { to };
            }
            points.extend([[x(lane), from], [x(lane), to]]);
        }
        points.push([x(line.to), top(line.to)]);
        points
    });
    let points = points.collect();
    Layout { corners, points, frames, size: [right - left, y + MARGIN] }
}

fn mean(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for number in numbers {
        sum += number;
        count += 1.0;
    }
    (count > 0.0).then(|| sum / count)
}

#[expect(clippy::cast_precision_loss, reason = "a place in a layer")]
fn real(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_same(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    fn checked_layout(count: usize, lines: &[(usize, usize)]) -> Layout {
        let items = vec![Item { height: 40.0, sinks: false, path: Vec::new() }; count];
        let line = |&(from, to): &(usize, usize)| Line { from, to, value: from };
        let layout = layout(&items, &lines.iter().map(line).collect::<Vec<_>>());
        for (at, [x, y]) in layout.corners.iter().enumerate() {
            assert!(*x >= MARGIN - 1e-6 && x + WIDTH <= layout.size[0] + 1e-6 && *y >= MARGIN);
            for [other, top] in &layout.corners[at + 1..] {
                let is_apart = !is_same(*y, *top) || (x - other).abs() >= WIDTH + GAP - 1e-6;
                assert!(is_apart, "{:?}", layout.corners);
            }
        }
        for (points, &(from, to)) in layout.points.iter().zip(lines) {
            let [start, end] = [points[0], points[points.len() - 1]];
            assert!((start[0] - layout.corners[from][0] - WIDTH / 2.0).abs() < 1e-6);
            assert!((end[1] - layout.corners[to][1]).abs() < 1e-6);
            assert!(from >= to || points.windows(2).all(|pair| pair[0][1] <= pair[1][1]));
        }
        layout
    }

    #[test]
    fn a_chain_is_one_straight_line() {
        let chain: Vec<_> = (0..50).map(|at| (at, at + 1)).collect();
        let layout = checked_layout(51, &chain);
        assert!(layout.corners.windows(2).all(|pair| (pair[0][0] - pair[1][0]).abs() < 1e-6));
        assert!(
            layout.corners.windows(2).all(|pair| is_same(pair[0][1] + 40.0 + BETWEEN, pair[1][1]))
        );
    }

    #[test]
    fn what_passes_layers_by_passes_their_boxes_by() {
        let layout = checked_layout(5, &[(0, 1), (1, 2), (2, 3), (0, 3), (3, 4), (0, 4)]);
        for points in &layout.points {
            for pair in points.windows(2).filter(|pair| is_same(pair[0][0], pair[1][0])) {
                let is_in = |[x, y]: &[f64; 2]| {
                    pair[0][0] > *x
                        && pair[0][0] < x + WIDTH
                        && pair[0][1] <= *y
                        && pair[1][1] >= y + 40.0
                };
                assert!(!layout.corners.iter().any(is_in), "{points:?} {:?}", layout.corners);
            }
        }
    }

    #[test]
    fn layers_are_ordered_so_that_lines_cross_seldom() {
        // Two chains whose second boxes come in the other order.
        let layout = checked_layout(7, &[(0, 1), (0, 2), (1, 4), (2, 3), (3, 5), (4, 6)]);
        let x = |at: usize| layout.corners[at][0];
        assert_eq!(x(1) < x(2), x(4) < x(3));
        assert_eq!(x(4) < x(3), x(6) < x(5));
    }

    #[test]
    fn lines_that_lead_back_and_boxes_alone_are_placed() {
        let layout = checked_layout(4, &[(0, 1), (1, 2), (2, 1)]);
        assert_eq!((layout.corners.len(), layout.points.len()), (4, 3));
        assert!(checked_layout(0, &[]).corners.is_empty());
    }

    #[test]
    fn what_is_apart_lies_beside_the_rest() {
        // A chain with branches, and two boxes of their own: no gap is as wide as a box.
        let layout = checked_layout(8, &[(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (4, 5), (6, 7)]);
        let mut lefts: Vec<f64> = layout.corners.iter().map(|corner| corner[0]).collect();
        lefts.sort_by(f64::total_cmp);
        assert!(lefts.windows(2).all(|pair| pair[1] - pair[0] < 2.0 * WIDTH), "{lefts:?}");
    }

    #[test]
    fn inputs_lie_above_their_first_readers() {
        let mut items = vec![Item { height: 40.0, sinks: false, path: Vec::new() }; 4];
        items[3].sinks = true;
        items.rotate_right(1);
        // Box 0 is an input of box 3, at the end of a chain.
        let lines = [(1, 2), (2, 3), (0, 3)].map(|(from, to)| Line { from, to, value: from });
        let layout = layout(&items, &lines);
        assert!(is_same(layout.corners[0][1], layout.corners[2][1]));
    }

    #[test]
    fn wide_and_deep_graphs_take_no_longer_than_their_size() {
        // Each box reads the one before it, and the first: one lane beside a chain of 4,000.
        let count = 4_000;
        let items = vec![Item { height: 40.0, sinks: false, path: Vec::new() }; count];
        let lines = (1..count).flat_map(|to| [(to - 1, to, 1), (0, to, 0)]);
        let lines: Vec<_> =
            lines.map(|(from, to, value)| Line { from, to, value: value + from }).collect();
        assert_eq!(layout(&items, &lines).points.len(), lines.len());
    }
}
