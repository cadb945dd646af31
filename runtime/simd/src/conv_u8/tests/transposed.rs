//! Transposed convolutions by every instruction set, against sums that scatter each input pixel.

use std::ops::Range;

use super::*;

/// Sums of a transposed convolution by scattering each input pixel: output pixels with their channels last.
fn scattered(
    window: &Window,
    [groups, channels, outputs]: [usize; 3],
    (values, zero): (&[u8], u8),
    (weights, weight_zeros): (&[i8], &[i8]),
    bias: &[i32],
) -> Vec<i32> {
    let Window { input, output, kernel, strides, dilations, pads } = *window;
    let n = groups * outputs;
    let taps = window.taps().unwrap();
    let mut sums: Vec<i32> =
        (0..window.rows().unwrap() * n).map(|at| pick(bias, at % n).unwrap_or(0)).collect();
    let places = |ends: [usize; 3]| {
        (0..ends.iter().product())
            .map(move |at: usize| [at / ends[2] / ends[1], at / ends[2] % ends[1], at % ends[2]])
    };
    for (pixel, from) in places(input).enumerate() {
        for (tap, by) in places(kernel).enumerate() {
            let to = [0, 1, 2]
                .map(|i| (from[i] * strides[i] + by[i] * dilations[i]).checked_sub(pads[i]));
            let [Some(d), Some(r), Some(c)] = to else { continue };
            if d >= output[0] || r >= output[1] || c >= output[2] {
                continue;
            }
            let to = (d * output[1] + r) * output[2] + c;
            for (column, channel) in (0..n).flat_map(|n| (0..channels).map(move |c| (n, c))) {
                let channel = column / outputs * channels + channel;
                let weight = weights[(channel * outputs + column % outputs) * taps + tap];
                let weight = i32::from(weight) - i32::from(pick(weight_zeros, column).unwrap_or(0));
                let value = i32::from(values[pixel * groups * channels + channel]);
                sums[to * n + column] += (value - i32::from(zero)) * weight;
            }
        }
    }
    sums
}

/// By every instruction set, the rows in parts.
fn transposed_is_right(random: &mut Random, window: Window, shape: [usize; 3]) {
    let [groups, channels, outputs] = shape;
    let plan = Transposed::new(window, groups, channels, outputs).unwrap();
    let (n, columns, pixels) = (groups * outputs, plan.columns(), window.rows().unwrap());
    let mut bytes = |len: usize| (0..len).map(|_| random.next() as u8).collect::<Vec<_>>();
    let values = bytes(window.input_len().unwrap() * groups * channels);
    let signed = |bytes: Vec<u8>| bytes.into_iter().map(u8::cast_signed).collect::<Vec<_>>();
    let weights = signed(bytes(groups * channels * outputs * window.taps().unwrap()));
    let zeros = signed(bytes(n));
    let bias: Vec<i32> = bytes(n).into_iter().map(|b| i32::from(b) * 31 - 4000).collect();
    let zero = bytes(1)[0];
    let wanted = scattered(&window, shape, (&values, zero), (&weights, &zeros), &bias);
    let mut packed = Guarded::of(&vec![0x55i8; plan.packed_len()]);
    assert!(plan.pack(&Guarded::of(&weights), packed.slice()));
    let mut table = Guarded::of(&vec![7u32; plan.table_len()]);
    assert!(plan.fill(table.slice()));
    let (bias, zeros) = (bias.repeat(plan.repeats()), zeros.repeat(plan.repeats()));
    let (values, padding) = (Guarded::of(&values), Guarded::of(&vec![zero; plan.padding_len()]));
    let (data, stride) = (&values, groups * channels);
    let input = Input { data, stride, zero_point: zero, padding: &padding };
    for &isa in Isa::available() {
        let mut sums = Guarded::of(&vec![9i32; plan.rows() * columns]);
        let height = plan.rows().div_ceil(3).max(1);
        for first in (0..plan.rows()).step_by(height) {
            let rows = first..(first + height).min(plan.rows());
            let to = &mut sums.slice()[rows.start * columns..rows.end * columns];
            let filter = (&packed[..], &zeros[..]);
            let done =
                plan.run_on(isa, rows, &input, filter, &table, &bias, Output::I32(to), columns);
            assert_eq!(done, Ok(()));
        }
        let lines = window.output[0] * window.output[1];
        for pitch in [n, n + 3] {
            let mut y = vec![-1; pixels * pitch];
            let split = lines / 2;
            let (top, bottom) = y.split_at_mut(split * window.output[2] * pitch);
            plan.arrange(&sums, 0..split, top, pitch);
            plan.arrange(&sums, split..lines, bottom, pitch);
            for (at, wanted) in wanted.iter().enumerate() {
                let found = y[at / n * pitch + at % n];
                assert_eq!(found, *wanted, "{isa:?} {window:?} {shape:?} at {at}");
            }
            assert!(pitch == n || y.chunks(pitch).all(|pixel| pixel[n..] == [-1; 3]));
        }
        assert!(!plan.is_in_order() || sums[..] == wanted[..]);
    }
}

#[test]
fn transposed_convolutions_give_their_sums() {
    let mut random = Random(0x51);
    for round in 0..250 {
        let axes = 1 + round % 3;
        let mut each = |values: [usize; 4], none: usize| -> [usize; 3] {
            std::array::from_fn(|i| if i + axes < 3 { none } else { random.of(&values) })
        };
        let (input, kernel) = (each([1, 2, 3, 5], 1), each([1, 2, 3, 4], 1));
        let (strides, dilations) = (each([1, 2, 2, 3], 1), each([1, 1, 1, 2], 1));
        let (mut pads, more) = (each([0, 0, 1, 2], 0), each([0, 0, 1, 4], 0));
        let mut output = [1; 3];
        for axis in 3 - axes..3 {
            let full = (input[axis] - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis] + 1;
            pads[axis] = pads[axis].min(full - 1);
            output[axis] = full - pads[axis] + more[axis];
        }
        let window = Window { input, output, kernel, strides, dilations, pads };
        let shape = [
            random.of(&[1, 1, 2, 3]),
            random.of(&[1, 2, 3, 4, 5, 8, 17]),
            random.of(&[1, 2, 5, 16, 17, 33]),
        ];
        transposed_is_right(&mut random, window, shape);
    }
    for (kernel, channels, outputs) in [(2, 24, 24), (2, 24, 1), (3, 5, 64), (1, 8, 8)] {
        let window = Window {
            output: [1, 4 * kernel, 7 * kernel],
            strides: [1, kernel, kernel],
            ..Window::square([4, 7], kernel, 1, 0)
        };
        let plan = Transposed::new(window, 1, channels, outputs).unwrap();
        assert_eq!((plan.repeats(), plan.table_len()), (kernel * kernel, 0));
        transposed_is_right(&mut random, window, [1, channels, outputs]);
    }
}

#[test]
fn transposed_convolutions_that_contradict_themselves_are_refused() {
    let window =
        Window { output: [1, 5, 5], strides: [1, 2, 2], ..Window::square([2, 2], 3, 1, 0) };
    let plan = Transposed::new(window, 1, 3, 2).unwrap();
    assert_eq!(Transposed::new(Window { strides: [1, 0, 1], ..window }, 1, 3, 2), None);
    assert_eq!(Transposed::new(window, 1, usize::MAX, 2), None);
    assert_eq!(Transposed::new(window, usize::MAX, 3, 2), None);
    let (mut packed, mut table) = (vec![0; plan.packed_len()], vec![0; plan.table_len()]);
    assert!(!plan.pack(&[0; 53], &mut packed) && !plan.pack(&[0; 54], &mut packed[1..]));
    assert!(plan.pack(&[0; 54], &mut packed) && plan.fill(&mut table));
    assert!(!plan.fill(&mut table[1..]));
    let padding = [0; 4];
    let input = Input { data: &[0u8; 12], stride: 3, zero_point: 0, padding: &padding };
    let run = |input: &Input<'_, u8>, packed: &[i8], table: &[u32], rows: usize, room: usize| {
        let mut to = vec![0; room];
        plan.run(0..rows, input, (packed, &[]), table, &[], Output::I32(&mut to), 2)
    };
    assert_eq!(run(&input, &packed, &table, 25, 50), Ok(()));
    assert_eq!(run(&input, &packed, &table, 26, 52), Err(ConvError::Table));
    assert_eq!(run(&input, &packed, &table[1..], 25, 50), Err(ConvError::Table));
    assert_eq!(run(&input, &packed[1..], &table, 25, 50), Err(ConvError::Weights));
    assert_eq!(run(&input, &packed, &table, 25, 49), Err(ConvError::Output));
    assert_eq!(run(&input, &packed, &table, 25, 3), Err(ConvError::Output));
    let short = Input { data: &[0u8; 11], ..input };
    assert_eq!(run(&short, &packed, &table, 25, 50), Err(ConvError::Table));
    let window =
        Window { output: [1, 4, 4], strides: [1, 2, 2], ..Window::square([2, 2], 2, 1, 0) };
    let plan = Transposed::new(window, 1, 3, 2).unwrap();
    let packed = vec![0; plan.packed_len()];
    let run = |data: &[u8], rows: Range<usize>, room: usize, bias: &[i32]| {
        let (input, mut to) = (Input { data, ..input }, vec![0; room]);
        plan.run(rows, &input, (&packed, &[]), &[], bias, Output::I32(&mut to), 8)
    };
    assert_eq!(run(&[0; 12], 0..4, 32, &[]), Ok(()));
    assert_eq!(run(&[0; 11], 0..4, 32, &[]), Err(ConvError::Table));
    assert_eq!(run(&[0; 5], 3..4, 32, &[]), Err(ConvError::Table));
    assert_eq!(run(&[0; 12], 0..4, 31, &[]), Err(ConvError::Output));
    assert_eq!(run(&[0; 12], 0..4, 32, &[0; 2]), Err(ConvError::Columns));
}
