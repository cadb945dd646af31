//! Deformable convolution: an input offsets the sampling position of every tap, and an optional mask scales the sample.
//!
//! The output extents and the kernels are in `family::conv::deformed`.

use udo_api::{
    Core, DType, Dim, Error, InferCx, KernelDef, Op, OpSchema, Param, Port, PortRule, TypeSet,
    Value, input, output, types,
};

use crate::Def;
use crate::family::conv::deformed::{Deformed, Problem};

pub(crate) const DEF: Def = Def::new::<DeformConv>(KERNELS);

const TYPES: TypeSet = types::F32.or(types::F64);
const KERNELS: &[KernelDef] = &[
    KernelDef::new::<Deformed<f32>>("DeformConv", Core::CPU).ports(&rules(types::F32)),
    KernelDef::new::<Deformed<f64>>("DeformConv", Core::CPU).ports(&rules(types::F64)),
];

const fn rules(types: TypeSet) -> [PortRule; 6] {
    [
        input(0, types),
        input(1, types),
        input(2, types),
        input(3, types),
        input(4, types),
        output(0, types),
    ]
}

struct DeformConv;

impl Op for DeformConv {
    const SCHEMA: OpSchema = OpSchema::new(
        "DeformConv",
        &[
            Port::required("X", TYPES),
            Port::required("W", TYPES),
            Port::required("offset", TYPES),
            Port::optional("B", TYPES),
            Port::optional("mask", TYPES),
        ],
        &[Port::required("Y", TYPES)],
        &[
            Param::tensor("dilations", DType::I64).optional(),
            Param::scalar("group", DType::I64).default(Value::int(1)),
            Param::tensor("kernel_shape", DType::I64).optional(),
            Param::scalar("offset_group", DType::I64).default(Value::int(1)),
            Param::tensor("pads", DType::I64).optional(),
            Param::tensor("strides", DType::I64).optional(),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let problem = Problem::read(cx)?;
        let x = cx.input(0)?;
        let shape = problem.window.output_shape(&x, Dim::Fixed(problem.outputs))?;
        cx.set_output(0, x.with_shape(shape))
    }
}

#[cfg(test)]
mod tests {
    use crate::family::numerics::settled_on_any_threads;
    use crate::testing::{Bench, assert_near, bench, noise, tensor};

    #[derive(Clone, Copy, Debug)]
    struct Case {
        batch: usize,
        channels: usize,
        filters: usize,
        groups: usize,
        offset_groups: usize,
        /// Spatial extents of the input.
        input: &'static [usize],
        kernel: &'static [usize],
        stride: usize,
        dilation: usize,
        pad: usize,
        has_bias: bool,
        has_mask: bool,
    }

    const PLAIN: Case = Case {
        batch: 1,
        channels: 2,
        filters: 3,
        groups: 1,
        offset_groups: 1,
        input: &[5, 6],
        kernel: &[3, 2],
        stride: 1,
        dilation: 1,
        pad: 0,
        has_bias: false,
        has_mask: false,
    };

    const CASES: &[Case] = &[
        PLAIN,
        Case { batch: 2, has_bias: true, has_mask: true, pad: 1, ..PLAIN },
        Case { groups: 2, filters: 4, channels: 4, offset_groups: 2, has_bias: true, ..PLAIN },
        Case { channels: 6, offset_groups: 3, stride: 2, dilation: 2, pad: 2, ..PLAIN },
        Case { input: &[9], kernel: &[3], has_mask: true, ..PLAIN },
        Case { input: &[4, 3, 5], kernel: &[2, 2, 3], pad: 1, has_mask: true, ..PLAIN },
        Case { kernel: &[1, 1], input: &[2, 3], ..PLAIN },
        Case { channels: 200, filters: 5, kernel: &[3, 3], input: &[20, 22], pad: 1, ..PLAIN },
    ];

    impl Case {
        fn output_extents(&self) -> Vec<usize> {
            let &Self { stride, dilation, pad, .. } = self;
            let axes = self.input.iter().zip(self.kernel);
            axes.map(|(x, k)| (x + 2 * pad - (k - 1) * dilation - 1) / stride + 1).collect()
        }

        /// Returns the extents of image, weights, offsets, bias and mask.
        fn dims(&self) -> [Vec<usize>; 5] {
            let offset_taps = self.offset_groups * self.kernel.iter().product::<usize>();
            let output = self.output_extents();
            [
                [&[self.batch, self.channels], self.input].concat(),
                [&[self.filters, self.channels / self.groups], self.kernel].concat(),
                [&[self.batch, offset_taps * self.kernel.len()], &*output].concat(),
                vec![self.filters],
                [&[self.batch, offset_taps], &*output].concat(),
            ]
        }

        /// Returns unlike values for each input.
        fn values(&self) -> [Vec<f64>; 5] {
            let mut skip = 0;
            self.dims().map(|dims| {
                skip += 1;
                let x = noise(dims.iter().product::<usize>() + skip).split_off(skip);
                // Large offsets (the third input) sample far away and outside the image.
                let factor = if skip == 3 { 2.5 } else { 1.0 };
                x.into_iter().map(|x| f64::from(x * factor)).collect()
            })
        }

        fn bench_with<T: udo_api::Element>(&self, convert: fn(f64) -> T) -> Bench {
            let is_present = [true, true, true, self.has_bias, self.has_mask];
            let inputs = self.values().into_iter().zip(self.dims()).zip(is_present);
            let run = inputs.fold(bench("DeformConv"), |run, ((x, dims), is_present)| {
                let x: Vec<T> = x.into_iter().map(convert).collect();
                if is_present { run.input(tensor(&dims, &x)) } else { run.absent() }
            });
            let repeat = |value: usize, count: usize| vec![value as i64; count];
            let rank = self.kernel.len();
            let run = run.int("group", self.groups as i64);
            let run = run.int("offset_group", self.offset_groups as i64);
            let run = run.ints("strides", &repeat(self.stride, rank));
            let run = run.ints("dilations", &repeat(self.dilation, rank));
            run.ints("pads", &repeat(self.pad, 2 * rank))
        }

        /// Computes the output by the definition.
        fn expected(&self) -> Vec<f64> {
            let [x, weights, offsets, bias, mask] = self.values();
            let (output, rank) = (self.output_extents(), self.kernel.len());
            let [x_len, taps, y_len] =
                [self.input, self.kernel, &output].map(|dims| dims.iter().product::<usize>());
            let group_channels = self.channels / self.groups;
            let offset_group_channels = self.channels / self.offset_groups;
            // Returns the index along each axis.
            let split = |mut index: usize, dims: &[usize]| {
                let mut indices = vec![0; dims.len()];
                for (axis, extent) in dims.iter().enumerate().rev() {
                    (indices[axis], index) = (index % extent, index / extent);
                }
                indices
            };
            let mut y = Vec::new();
            for index in 0..self.batch * self.filters * y_len {
                let y_index = index % y_len;
                let (filter, image) = (index / y_len % self.filters, index / y_len / self.filters);
                let y_position = split(y_index, &output);
                let mut sum = if self.has_bias { bias[filter] } else { 0.0 };
                for term in 0..group_channels * taps {
                    let (tap, group_channel) = (term % taps, term / taps);
                    let group = filter / (self.filters / self.groups);
                    let channel = group * group_channels + group_channel;
                    let offset_group = image * self.offset_groups + channel / offset_group_channels;
                    let offset_tap = offset_group * taps + tap;
                    let x_position: Vec<f64> = (0..rank)
                        .map(|axis| {
                            let tap = split(tap, self.kernel)[axis] * self.dilation;
                            let start = (y_position[axis] * self.stride + tap) as f64;
                            let offset = offsets[(offset_tap * rank + axis) * y_len + y_index];
                            start - self.pad as f64 + offset
                        })
                        .collect();
                    // Bilinear weights as a hat function: every element contributes by its distance.
                    let plane = &x[(image * self.channels + channel) * x_len..][..x_len];
                    let sample: f64 = plane
                        .iter()
                        .enumerate()
                        .map(|(element, x)| {
                            let axes = split(element, self.input).into_iter().zip(&x_position);
                            x * axes
                                .map(|(index, at)| (1.0 - (index as f64 - at).abs()).max(0.0))
                                .product::<f64>()
                        })
                        .sum();
                    let factor =
                        if self.has_mask { mask[offset_tap * y_len + y_index] } else { 1.0 };
                    let weight = weights[(filter * group_channels + group_channel) * taps + tap];
                    sum += sample * factor * weight;
                }
                y.push(sum);
            }
            y
        }
    }

    #[test]
    fn taps_are_sampled_at_their_offsets() {
        for case in &CASES[..CASES.len() - 1] {
            println!("{case:?}");
            let (y, expected) = (case.bench_with(|x| x as f32).one(), case.expected());
            assert_near(&y.values::<f32>(), &expected, 1e-5);
            let f64_output = settled_on_any_threads(&case.bench_with(|x| x));
            assert_near(&f64_output.values::<f64>(), &expected, 1e-12);
        }
    }

    #[test]
    fn larger_inputs_give_equal_results_on_any_threads() {
        let case = CASES[CASES.len() - 1];
        let f64_output = settled_on_any_threads(&case.bench_with(|x| x)).values::<f64>();
        for threads in [1, 3] {
            let y = case.bench_with(|x| x as f32).threads(threads).one();
            assert_near(&y.values::<f32>(), &f64_output, 1e-4);
        }
    }

    #[test]
    fn elements_of_weight_zero_do_not_contribute() {
        let run = |offset: f32| {
            let x = [1.0, f32::INFINITY, f32::NAN, 4.0];
            let run = bench("DeformConv").input(tensor(&[1, 1, 2, 2], &x));
            let run = run.input(tensor(&[1, 1, 1, 1], &[2f32]));
            let offsets = [0.0, 0.0, 0.0, 0.0, offset, 0.0, 0.0, 0.0];
            run.input(tensor(&[1, 2, 2, 2], &offsets)).one().values::<f32>()
        };
        let y = run(0.0);
        assert_eq!((y[0], y[1], y[3]), (2.0, f32::INFINITY, 8.0));
        for beyond in [-1.0, 2.0, 1e30, -1e30, f32::NAN] {
            assert_eq!(run(beyond)[0].to_bits(), 0f32.to_bits(), "{beyond}");
        }
    }

    #[test]
    fn mismatched_inputs_are_refused() {
        let zeros = |dims: &[usize]| tensor(dims, &vec![0f32; dims.iter().product()]);
        let run = |x: &[usize], w: &[usize], offsets: &[usize]| {
            bench("DeformConv").input(zeros(x)).input(zeros(w)).input(zeros(offsets))
        };
        let fits = || run(&[1, 2, 3, 3], &[4, 2, 2, 2], &[1, 8, 2, 2]);
        let error = run(&[3], &[4, 2, 2, 2], &[1, 8, 2, 2]).error();
        assert_eq!(
            error,
            "inputs are f32[3] and f32[4,2,2,2], expected images and weights of rank 3 to 5"
        );
        let error = run(&[1, 2, 3, 3], &[4, 2, 2], &[1, 8, 2, 2]).error();
        assert_eq!(error, "the kernel has 1 axes, expected 2");
        let error = fits().int("group", 2).error();
        assert_eq!(
            error,
            "inputs are f32[1,2,3,3] and f32[4,2,2,2], expected 2 groups, and 1 of offsets"
        );
        let error = fits().int("offset_group", 0).error();
        assert_eq!(error, "parameter \"offset_group\" is 0, expected a positive integer");
        let error = fits().int("offset_group", 2).error();
        assert_eq!(error, "input 2 is f32[1,8,2,2], expected [1, 16, 2, 2]");
        let error = fits().ints("kernel_shape", &[2, 3]).error();
        assert_eq!(error, "parameter \"kernel_shape\" is [2, 3], and input 1 is f32[4,2,2,2]");
        let error = fits().input(zeros(&[3])).error();
        assert_eq!(error, "input 3 is f32[3], expected [4]");
        let error = fits().absent().input(zeros(&[1, 4, 2, 3])).error();
        assert_eq!(error, "input 4 is f32[1,4,2,3], expected [1, 4, 2, 2]");
    }
}
