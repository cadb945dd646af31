//! Boxes around items: which items they have, which lines go past them, and how large they are.

use super::{Chains, Frame, GAP, Item, LANE, Place};
#[cfg(test)]
use super::{Layout, Line, WIDTH, layout};

/// How much lies between the edge of a frame and what is in it: at the sides, above its first layer, where names and what crosses are
/// written, and below its last one, where a type may be; and above and below what is in it is a frame itself that begins or ends there.
const SIDE: f64 = 14.0;
const HEAD: f64 = 40.0;
const FOOT: f64 = 24.0;
const OUTER_HEAD: f64 = 22.0;
const OUTER_FOOT: f64 = 12.0;

/// The frames of items that have paths: one for each run of items whose paths begin alike, outer ones before those in them.
pub(super) fn frames(items: &[Item<'_>]) -> Vec<Frame> {
    let mut frames: Vec<Frame> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut before: &[&str] = &[];
    for (at, item) in items.iter().enumerate() {
        let shared = item.path.iter().zip(before).take_while(|(a, b)| a == b).count();
        for frame in open.drain(shared..) {
            frames[frame].items.end = at;
        }
        for depth in shared..item.path.len() {
            let parent = open.last().copied();
            open.push(frames.len());
            frames.push(Frame { depth, parent, items: at..items.len(), ..Frame::default() });
        }
        before = &item.path;
    }
    frames
}

/// Says of each lane which frame it goes past, the outermost one, and brings those lanes to the sides of their frames: each to one side, in one
/// order in all of the frame's layers.
pub(super) fn part(
    rows: &mut [Vec<usize>],
    frames: &mut [Frame],
    places: &mut [Place],
    chains: &Chains,
) {
    let mut rank = vec![0.0; places.len()];
    for row in rows.iter() {
        row.iter().enumerate().for_each(|(at, &place)| rank[place] = super::real(at));
    }
    let levels = frames.iter().map(|frame| frame.depth + 1).max().unwrap_or(0);
    // How far out a place is, to the left or right, and where among those.
    let mut keys = vec![(0, 0.0); places.len()];
    for (at, frame) in frames.iter_mut().enumerate() {
        let layers = frame.items.clone().map(|item| places[item].layer);
        let [first, last] = layers.fold([usize::MAX, 0], |[a, b], at| [a.min(at), b.max(at)]);
        frame.rows = first..last + 1;
        let past = chains.past(frame, &rows[first], places);
        past.iter().flatten().for_each(|&lane| places[lane].past = Some(at));
        let within = rows[frame.rows.clone()].iter().flatten();
        let within = within.filter(|&&place| places[place].past.is_none());
        let middle = super::mean(within.map(|&place| rank[place])).unwrap_or(0.0);
        let mut sides: [Vec<(f64, Vec<usize>)>; 2] = [Vec::new(), Vec::new()];
        for lanes in past {
            let mean = super::mean(lanes.iter().map(|&lane| rank[lane])).unwrap_or(0.0);
            sides[usize::from(mean > middle)].push((mean, lanes));
        }
        let out = (levels - frame.depth).cast_signed();
        for (side, out) in sides.iter_mut().zip([-out, out]) {
            side.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            for (mean, lanes) in &*side {
                for &lane in lanes {
                    keys[lane] = (out, *mean);
                }
            }
        }
        sides[0].reverse();
        frame.past = sides.map(|side| side.into_iter().map(|(_, lanes)| lanes).collect());
    }
    for row in rows {
        row.sort_by(|&a, &b| keys[a].0.cmp(&keys[b].0).then(keys[a].1.total_cmp(&keys[b].1)));
    }
}

/// Says how wide frames are, and moves what goes past them as far out as that wants.
pub(super) fn widen(rows: &[Vec<usize>], frames: &mut [Frame], places: &mut [Place]) {
    for at in (0..frames.len()).rev() {
        let depth = frames[at].depth;
        let is_in = |place: &Place| place.past.is_none_or(|past| frames[past].depth > depth);
        let Frame { mut left, mut right, .. } = frames[at];
        for place in rows[frames[at].rows.clone()].iter().flatten().map(|&place| &places[place]) {
            if is_in(place) {
                left = left.min(place.x - place.width / 2.0);
                right = right.max(place.x + place.width / 2.0);
            }
        }
        (left, right) = (left - SIDE, right + SIDE);
        if let Some(parent) = frames[at].parent {
            let parent = &mut frames[parent];
            (parent.left, parent.right) = (parent.left.min(left), parent.right.max(right));
        }
        let frame = &mut frames[at];
        (frame.left, frame.right) = (left, right);
        for (lanes, (edge, sign)) in frame.past.iter().zip([(left, -1.0), (right, 1.0)]) {
            let mut least = edge * sign + GAP / 2.0;
            for lanes in lanes {
                let x = lanes.iter().map(|&lane| places[lane].x * sign).fold(least, f64::max);
                for &lane in lanes {
                    places[lane].x = x * sign;
                }
                least = x + LANE;
            }
        }
    }
}

/// How much room each layer wants above and below for the frames that begin and end there; frames know their own part.
pub(super) fn heads(frames: &mut [Frame], layers: usize) -> Vec<[f64; 2]> {
    let mut rooms = vec![[0.0_f64; 2]; layers];
    for frame in frames.iter_mut().rev() {
        let [first, last] = [frame.rows.start, frame.rows.end - 1];
        let room =
            |inner: f64, first: f64, more: f64| if inner > 0.0 { inner + more } else { first };
        frame.head = room(rooms[first][0], HEAD, OUTER_HEAD);
        frame.foot = room(rooms[last][1], FOOT, OUTER_FOOT);
        rooms[first][0] = frame.head;
        rooms[last][1] = frame.foot;
    }
    rooms
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEIGHT: f64 = 40.0;

    fn item<'a>(path: &[&'a str]) -> Item<'a> {
        Item { height: HEIGHT, sinks: false, path: path.to_vec() }
    }

    type Bounds = [f64; 4];

    fn bounds(frame: &Frame) -> Bounds {
        [frame.left, frame.top, frame.right, frame.bottom]
    }

    fn is_within(inner: Bounds, outer: Bounds) -> bool {
        inner[0] > outer[0] && inner[1] > outer[1] && inner[2] < outer[2] && inner[3] < outer[3]
    }

    fn is_apart(a: Bounds, b: Bounds) -> bool {
        a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1]
    }

    /// Places items, and holds what is true of all frames: they have what is in them and nothing else, and lines of others go past them.
    fn placed(items: &[Item<'_>], lines: &[(usize, usize)]) -> Layout {
        let of = |&(from, to): &(usize, usize)| Line { from, to, value: from };
        let layout = layout(items, &lines.iter().map(of).collect::<Vec<_>>());
        let boxes = layout.corners.iter();
        let boxes: Vec<Bounds> = boxes.map(|[x, y]| [*x, *y, x + WIDTH, y + HEIGHT]).collect();
        for (at, frame) in layout.frames.iter().enumerate() {
            for (item, own) in boxes.iter().enumerate() {
                let is_in = frame.items.contains(&item);
                assert!(if is_in {
                    is_within(*own, bounds(frame))
                } else {
                    is_apart(*own, bounds(frame))
                });
            }
            for other in layout.frames.iter().skip(at + 1) {
                let is_in = frame.items.contains(&other.items.start);
                let [own, other] = [bounds(frame), bounds(other)];
                assert!(if is_in { is_within(other, own) } else { is_apart(own, other) });
            }
            let [width, height] = layout.size;
            assert!(is_within(bounds(frame), [0.0, 0.0, width, height]));
            for (points, (from, to)) in layout.points.iter().zip(lines) {
                if frame.items.contains(from) || frame.items.contains(to) || from > to {
                    continue;
                }
                for pair in points.windows(2).filter(|pair| (pair[0][0] - pair[1][0]).abs() < 1e-6)
                {
                    let [x, top, bottom] = [pair[0][0], pair[0][1], pair[1][1]];
                    let line = [x - 1.0, top.min(bottom), x + 1.0, bottom.max(top)];
                    assert!(is_apart(line, bounds(frame)), "{points:?} through {frame:?}");
                }
            }
        }
        for (a, pair) in boxes.iter().enumerate() {
            assert!(boxes.iter().skip(a + 1).all(|other| is_apart(*pair, *other)));
        }
        layout
    }

    fn names<'a>(layout: &Layout, items: &[Item<'a>]) -> Vec<(&'a str, usize)> {
        let frames = layout.frames.iter();
        frames
            .map(|frame| (items[frame.items.start].path[frame.depth], frame.items.len()))
            .collect()
    }

    #[test]
    fn each_run_of_a_path_has_a_frame_and_frames_nest() {
        let paths: [&[&str]; 8] =
            [&[], &["a", "b"], &["a", "b"], &["a"], &["a", "c"], &["d"], &["d"], &[]];
        let items = paths.map(item);
        let chain: Vec<_> = (0..7).map(|at| (at, at + 1)).collect();
        let layout = placed(&items, &chain);
        assert_eq!(names(&layout, &items), [("a", 4), ("b", 2), ("c", 1), ("d", 2)]);
        let parents: Vec<_> = layout.frames.iter().map(|frame| frame.parent).collect();
        assert_eq!(parents, [None, Some(0), Some(0), None]);
        let x = layout.corners[0][0];
        assert!(
            layout.corners.iter().all(|corner| (corner[0] - x).abs() < 1e-6),
            "one straight line"
        );
    }

    #[test]
    fn lines_go_past_what_they_have_nothing_to_do_with() {
        // A value that the first one makes is read behind two frames, and one of the outer frame past the inner one.
        let paths: [&[&str]; 7] =
            [&["a"], &["b"], &["b", "c"], &["b", "c"], &["b"], &["d"], &["d"]];
        let items = paths.map(item);
        let lines = [(0, 1), (1, 2), (2, 3), (3, 4), (1, 4), (4, 5), (0, 5), (0, 6), (5, 6)];
        let layout = placed(&items, &lines);
        assert!(layout.points[6].len() > 2 && layout.points[4].len() > 2);
    }

    #[test]
    fn branches_on_several_cores_are_one_below_the_other() {
        let paths: [&[&str]; 6] = [&["a"], &["b"], &["b"], &["c"], &["c"], &["d"]];
        let items = paths.map(item);
        let layout = placed(&items, &[(0, 1), (0, 3), (1, 2), (3, 4), (2, 5), (4, 5)]);
        let tops: Vec<f64> = layout.corners.iter().map(|corner| corner[1]).collect();
        assert!(tops.is_sorted(), "{tops:?}");
    }

    #[test]
    fn inputs_and_outputs_are_near_what_reads_and_makes_them() {
        let mut items = vec![item(&[]), item(&[])];
        for item in &mut items {
            item.sinks = true;
        }
        items.extend([&["a"], &["a"], &["b"], &["b"]].map(|path| item(path)));
        items.extend([item(&[]), item(&[])]);
        // The second input is read in the second frame, and the first output is made in the first.
        let layout = placed(&items, &[(0, 2), (2, 3), (3, 4), (1, 5), (4, 5), (3, 6), (5, 7)]);
        let top = |at: usize| layout.corners[at][1];
        assert!((top(1) - top(6)).abs() < 1e-6 && top(1) > top(3) && top(1) < top(4));
        assert!(top(7) > top(5) && top(0) < top(2));
    }

    #[test]
    fn whatever_the_paths_and_lines_frames_are_apart() {
        let mut state = 7_u64;
        let mut next = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below
        };
        for round in 0..300 {
            let count = 1 + next(30);
            let mut path: Vec<&str> = Vec::new();
            let mut items = Vec::new();
            for _ in 0..count {
                if next(3) == 0 {
                    path.truncate(next(3));
                    (0..next(3)).for_each(|_| path.push(["a", "b", "c"][next(3)]));
                }
                items.push(Item { height: HEIGHT, sinks: next(8) == 0, path: path.clone() });
            }
            let lines = (0..next(40)).map(|_| (next(count), next(count)));
            let lines: Vec<_> = lines.filter(|(from, to)| from != to).collect();
            let layout = placed(&items, &lines);
            assert_eq!(layout.points.len(), lines.len(), "round {round}");
        }
    }

    #[test]
    fn many_frames_take_no_longer_than_their_size() {
        // Each box is in a frame of its own, in one of an outer frame's of ten, and all read the first one.
        let names: Vec<String> = (0..1_000).map(|at| format!("subnet {at}")).collect();
        let of = |at: usize| item(&[&names[at / 10], &names[at]]);
        let items: Vec<Item<'_>> = (0..1_000).map(of).collect();
        let lines = (1..1_000).flat_map(|to| [(to - 1, to), (0, to)]);
        let line = |(from, to)| Line { from, to, value: from };
        assert_eq!(layout(&items, &lines.map(line).collect::<Vec<_>>()).frames.len(), 1_100);
    }
}
