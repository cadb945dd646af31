//! Tests of shared memory and strided rows.

use super::*;

fn region(offset: usize, rows: usize, row: usize, pitch: usize) -> Region {
    Region { offset, rows, row, pitch }
}

/// Returns windows of these sizes, live from one step to another.
fn windows<const N: usize>(all: [(usize, usize, usize); N]) -> (Windows, [WindowId; N]) {
    let mut windows = Windows::default();
    let ids = all.map(|(bytes, first, last)| {
        let id = windows.add(Memory::Host, Region::dense(bytes, 4));
        windows.touch(id, first, Pitch::Taken);
        windows.touch(id, last, Pitch::Taken);
        id
    });
    (windows, ids)
}

fn at(offset: usize) -> Within {
    Within { step: 9, offset, pitch: None }
}

#[test]
fn a_part_has_one_place() {
    let (mut all, [part, whole]) = windows([(8, 0, 2), (16, 2, 3)]);
    assert!(all.unify(part, whole, at(8), Share::Content));
    assert_eq!(all.get(part).unwrap().region.offset, 8);
    // A copy of the value, unless it is in place already.
    assert!(!all.unify(part, whole, at(0), Share::Content));
    assert!(all.unify(part, whole, at(8), Share::Content));
    let buffer = all.buffer_of(whole).unwrap();
    assert_eq!(buffer.life(&all.all), Some(Life { first: 0, last: 3 }));
}

#[test]
fn the_smaller_buffer_goes_into_the_larger_one() {
    // A value is part of one whole, and then at the start of a smaller one.
    let (mut all, [x, large, small]) = windows([(8, 0, 4), (32, 1, 2), (12, 4, 5)]);
    assert!(all.unify(x, large, at(16), Share::Content));
    assert!(!all.unify(x, small, at(0), Share::Content), "what is beside x is not the same");
    let (mut all, [x, large, view]) = windows([(8, 0, 4), (32, 1, 2), (8, 2, 6)]);
    assert!(all.unify(x, large, at(16), Share::Content));
    assert!(all.unify(view, x, at(0), Share::Content));
    assert_eq!(all.get(view).unwrap().region.offset, 16);
}

/// Two wholes with a common part never differ around it, even if they are never live at once.
#[test]
fn wholes_agree_or_stay_apart() {
    let (mut all, [a, b, first, c, second]) =
        windows([(8, 0, 3), (8, 1, 7), (16, 3, 3), (8, 7, 8), (16, 8, 9)]);
    assert!(all.unify(a, first, at(0), Share::Content));
    assert!(all.unify(b, first, at(8), Share::Content));
    assert!(!all.unify(b, second, at(8), Share::Content));
    assert!(all.unify(c, second, at(0), Share::Content));
    assert_ne!(all.get(first).unwrap().buffer, all.get(second).unwrap().buffer);
}

#[test]
fn rows_lie_apart_where_all_calls_take_it() {
    let within = Within { step: 9, offset: 4, pitch: Some(12) };
    let (mut all, [part, whole]) = windows([(16, 0, 2), (48, 2, 3)]);
    all.touch(part, 1, Pitch::Refused);
    assert!(!all.unify(part, whole, within, Share::Content));
    all.drop_step(1, &[part]);
    // The step that concatenates them is unnecessary.
    all.touch(part, 9, Pitch::Refused);
    assert!(all.unify(part, whole, within, Share::Content));
    assert_eq!(all.get(part).unwrap().region, region(4, 4, 4, 12));
}

#[test]
fn rows_of_a_part_lie_as_far_apart_as_those_of_its_whole_in_another_one() {
    let (mut all, [part, whole, all_of_it]) = windows([(16, 0, 2), (32, 2, 3), (64, 3, 4)]);
    for (id, row) in [(whole, 8), (all_of_it, 16)] {
        let region = &mut all.all[id.0].region;
        *region = Region::dense(region.rows * region.row, row);
    }
    let within = |offset, row| Within { step: 9, offset, pitch: Some(row) };
    assert!(all.unify(whole, all_of_it, within(8, 16), Share::Content));
    assert!(!all.unify(part, whole, within(4, 6), Share::Content));
    assert!(all.unify(part, whole, within(4, 8), Share::Content));
    assert_eq!(all.get(part).unwrap().region, region(12, 4, 4, 16));
}

#[test]
fn nothing_of_a_call_lies_between_rows_that_it_wants_alone() {
    for (pitch, other, is_there) in [
        (Pitch::Taken, Pitch::Taken, true),
        (Pitch::Alone, Pitch::Taken, false),
        (Pitch::Taken, Pitch::Alone, false),
    ] {
        let (mut all, [x, y, whole]) = windows([(16, 0, 2), (16, 2, 3), (32, 3, 4)]);
        all.all[whole.0].region = Region::dense(32, 8);
        all.touch(x, 2, pitch);
        all.touch(y, 2, other);
        let within = |offset| Within { step: 9, offset, pitch: Some(8) };
        assert!(all.unify(x, whole, within(0), Share::Content));
        assert_eq!(all.unify(y, whole, within(4), Share::Content), is_there);
    }
}

#[test]
fn an_output_overwrites_what_dies_with_its_step() {
    let over = Share::Overwrite { at: 2 };
    let (mut all, [x, y]) = windows([(8, 0, 2), (8, 2, 3)]);
    assert!(all.unify(x, y, at(0), over));
    // A later step reads it, or it exists under another name.
    let (mut all, [x, y]) = windows([(8, 0, 3), (8, 2, 3)]);
    assert!(!all.unify(x, y, at(0), over));
    let (mut all, [x, view, y]) = windows([(8, 0, 2), (8, 1, 2), (8, 2, 3)]);
    assert!(all.unify(view, x, at(0), Share::Content));
    assert!(!all.unify(x, y, at(0), over));
    let (mut all, [x, view, y]) = windows([(8, 0, 2), (8, 1, 1), (8, 2, 3)]);
    assert!(all.unify(view, x, at(0), Share::Content));
    assert!(all.unify(x, y, at(0), over));
    // Its place is in a whole whose other part is live already.
    let (mut all, [x, y, z, whole]) = windows([(8, 0, 2), (8, 2, 5), (8, 1, 5), (16, 5, 6)]);
    assert!(all.unify(y, whole, at(8), Share::Content));
    assert!(all.unify(z, whole, at(0), Share::Content));
    assert!(all.unify(x, y, at(0), over));
    assert_eq!(all.get(x).unwrap().region.offset, 8);
}

#[test]
fn memories_stay_apart_and_devices_are_aligned_for() {
    let (mut all, [x, _]) = windows([(8, 0, 1), (8, 1, 2)]);
    all.gpu_align_bytes = 128;
    let gpu = all.add(Memory::Gpu, Region::dense(256, 4));
    all.touch(gpu, 1, Pitch::Taken);
    assert!(!all.unify(x, gpu, at(0), Share::Content));
    let part = all.add(Memory::Gpu, Region::dense(128, 4));
    all.touch(part, 0, Pitch::Taken);
    assert!(!all.unify(part, gpu, at(64), Share::Content));
    assert!(all.unify(part, gpu, at(128), Share::Content));
}
