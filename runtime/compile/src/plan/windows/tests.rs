//! Tests of shared memory and strided rows. Step 9 is the step that sharing would replace.

use super::*;

fn region(offset: usize, rows: usize, row: usize, pitch: usize) -> Region {
    Region { offset, rows, row, pitch }
}

/// Returns windows with these sizes in bytes, first steps and last steps.
fn new_windows<const N: usize>(specs: [(usize, usize, usize); N]) -> (Windows, [WindowId; N]) {
    let mut windows = Windows::default();
    let ids = specs.map(|(bytes, first, last)| {
        let id = windows.add(Memory::Host, Region::dense(bytes, 4));
        windows.touch(id, first, Pitch::Taken);
        windows.touch(id, last, Pitch::Taken);
        id
    });
    (windows, ids)
}

/// Returns the place at an offset, without strides.
fn at(offset: usize) -> Within {
    Within { step: 9, offset, pitch: None }
}

#[test]
fn parts_have_one_place() {
    let (mut windows, [part, whole]) = new_windows([(8, 0, 2), (16, 2, 3)]);
    assert!(windows.unify(part, whole, at(8), Share::Content));
    assert_eq!(windows.get(part).unwrap().region.offset, 8);
    // A second place needs a copy; the same place does not.
    assert!(!windows.unify(part, whole, at(0), Share::Content));
    assert!(windows.unify(part, whole, at(8), Share::Content));
    let buffer = windows.buffer_of(whole).unwrap();
    assert_eq!(buffer.life(&windows.all), Some(Life { first: 0, last: 3 }));
}

#[test]
fn the_smaller_buffer_moves_into_the_larger_one() {
    // A value is part of one whole, and then at the start of a smaller one.
    let (mut windows, [x, large, small]) = new_windows([(8, 0, 4), (32, 1, 2), (12, 4, 5)]);
    assert!(windows.unify(x, large, at(16), Share::Content));
    assert!(!windows.unify(x, small, at(0), Share::Content), "the elements around x differ");
    let (mut windows, [x, large, view]) = new_windows([(8, 0, 4), (32, 1, 2), (8, 2, 6)]);
    assert!(windows.unify(x, large, at(16), Share::Content));
    assert!(windows.unify(view, x, at(0), Share::Content));
    assert_eq!(windows.get(view).unwrap().region.offset, 16);
}

/// Two wholes with a common part never differ around it, even if they are never live at once.
#[test]
fn wholes_with_a_common_part_share_memory_only_if_they_agree() {
    let (mut windows, [a, b, first, c, second]) =
        new_windows([(8, 0, 3), (8, 1, 7), (16, 3, 3), (8, 7, 8), (16, 8, 9)]);
    assert!(windows.unify(a, first, at(0), Share::Content));
    assert!(windows.unify(b, first, at(8), Share::Content));
    assert!(!windows.unify(b, second, at(8), Share::Content));
    assert!(windows.unify(c, second, at(0), Share::Content));
    assert_ne!(windows.get(first).unwrap().buffer, windows.get(second).unwrap().buffer);
}

#[test]
fn rows_are_strided_if_all_steps_support_it() {
    let within = Within { step: 9, offset: 4, pitch: Some(12) };
    let (mut windows, [part, whole]) = new_windows([(16, 0, 2), (48, 2, 3)]);
    windows.touch(part, 1, Pitch::Refused);
    assert!(!windows.unify(part, whole, within, Share::Content));
    windows.drop_step(1, &[part]);
    // The step that concatenates them is unnecessary.
    windows.touch(part, 9, Pitch::Refused);
    assert!(windows.unify(part, whole, within, Share::Content));
    assert_eq!(windows.get(part).unwrap().region, region(4, 4, 4, 12));
}

#[test]
fn parts_of_a_strided_whole_have_its_stride() {
    let (mut windows, [part, whole, outer]) = new_windows([(16, 0, 2), (32, 2, 3), (64, 3, 4)]);
    for (id, row) in [(whole, 8), (outer, 16)] {
        let region = &mut windows.all[id.0].region;
        *region = Region::dense(region.rows * region.row, row);
    }
    let within = |offset, row| Within { step: 9, offset, pitch: Some(row) };
    assert!(windows.unify(whole, outer, within(8, 16), Share::Content));
    assert!(!windows.unify(part, whole, within(4, 6), Share::Content));
    assert!(windows.unify(part, whole, within(4, 8), Share::Content));
    assert_eq!(windows.get(part).unwrap().region, region(12, 4, 4, 16));
}

#[test]
fn other_tensors_of_a_step_stay_out_of_exclusive_rows() {
    for (pitch, other_pitch, is_unified) in [
        (Pitch::Taken, Pitch::Taken, true),
        (Pitch::Alone, Pitch::Taken, false),
        (Pitch::Taken, Pitch::Alone, false),
    ] {
        let (mut windows, [x, y, whole]) = new_windows([(16, 0, 2), (16, 2, 3), (32, 3, 4)]);
        windows.all[whole.0].region = Region::dense(32, 8);
        windows.touch(x, 2, pitch);
        windows.touch(y, 2, other_pitch);
        let within = |offset| Within { step: 9, offset, pitch: Some(8) };
        assert!(windows.unify(x, whole, within(0), Share::Content));
        assert_eq!(windows.unify(y, whole, within(4), Share::Content), is_unified);
    }
}

#[test]
fn outputs_overwrite_inputs_that_die_at_the_step() {
    let over = Share::Overwrite { at: 2 };
    let (mut windows, [x, y]) = new_windows([(8, 0, 2), (8, 2, 3)]);
    assert!(windows.unify(x, y, at(0), over));
    // Not if a later step reads the input, or a view of it.
    let (mut windows, [x, y]) = new_windows([(8, 0, 3), (8, 2, 3)]);
    assert!(!windows.unify(x, y, at(0), over));
    let (mut windows, [x, view, y]) = new_windows([(8, 0, 2), (8, 1, 2), (8, 2, 3)]);
    assert!(windows.unify(view, x, at(0), Share::Content));
    assert!(!windows.unify(x, y, at(0), over));
    let (mut windows, [x, view, y]) = new_windows([(8, 0, 2), (8, 1, 1), (8, 2, 3)]);
    assert!(windows.unify(view, x, at(0), Share::Content));
    assert!(windows.unify(x, y, at(0), over));
    // The output is part of a whole whose other part is already live.
    let (mut windows, [x, y, z, whole]) =
        new_windows([(8, 0, 2), (8, 2, 5), (8, 1, 5), (16, 5, 6)]);
    assert!(windows.unify(y, whole, at(8), Share::Content));
    assert!(windows.unify(z, whole, at(0), Share::Content));
    assert!(windows.unify(x, y, at(0), over));
    assert_eq!(windows.get(x).unwrap().region.offset, 8);
}

#[test]
fn memories_are_separate_and_gpu_parts_are_aligned() {
    let (mut windows, [x, _]) = new_windows([(8, 0, 1), (8, 1, 2)]);
    windows.gpu_align_bytes = 128;
    let gpu = windows.add(Memory::Gpu, Region::dense(256, 4));
    windows.touch(gpu, 1, Pitch::Taken);
    assert!(!windows.unify(x, gpu, at(0), Share::Content));
    let part = windows.add(Memory::Gpu, Region::dense(128, 4));
    windows.touch(part, 0, Pitch::Taken);
    assert!(!windows.unify(part, gpu, at(64), Share::Content));
    assert!(windows.unify(part, gpu, at(128), Share::Content));
}
