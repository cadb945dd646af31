//! Resizing on the GPU, one output element per work item. The tables of sample positions and weights (see `axis.rs`)
//! are packed constants, filled when the model is compiled.

use std::fmt::Write as _;

use udo_api::{
    Buffers, Error, ExecError, FinalizeCx, GpuArg, GpuKernel, KernelDef, KernelInfo, Launch,
    MAX_RANK, Packed, PortRule, Sources, WorkItem, WorkItemFn, input, output_like,
};

use super::axis::OUTSIDE;
use super::plan::Plan;
use crate::family::axes::strides;
use crate::family::gpu::{EXACT, REAL, check_lens, ints};
use crate::number::wrong_recipe;

/// Returns the GPU kernel of the operator `op`.
pub(crate) const fn on_gpu(op: &'static str) -> KernelDef {
    const RULES: &[PortRule] = &[input(0, REAL), output_like(0, 0)];
    KernelDef::gpu::<ResizedGpu>(op).ports(RULES)
}

/// GPU kernel of a resize.
struct ResizedGpu {
    axes: Vec<GpuAxis>,
    starts: Packed<i32>,
    weights: Packed<f32>,
    /// The value of samples outside the region.
    outside: f32,
    /// Elements of the output.
    len: usize,
}

/// One output axis.
#[derive(Clone, Copy)]
struct GpuAxis {
    to: usize,
    /// Input stride.
    stride: usize,
    /// `None` if the axis is not resized.
    samples: Option<Samples>,
}

/// The start of an axis in the tables, and the input elements per output element.
#[derive(Clone, Copy)]
struct Samples {
    starts: usize,
    weights: usize,
    taps: usize,
}

/// Fills the table of starts. The recipe (the integers that determine a packed constant) holds the table itself.
fn fill_starts(recipe: &[u64], _: &Sources<'_>, starts: &mut [i32]) -> Result<(), Error> {
    fill(recipe, starts, u32::cast_signed)
}

fn fill_weights(recipe: &[u64], _: &Sources<'_>, weights: &mut [f32]) -> Result<(), Error> {
    fill(recipe, weights, f32::from_bits)
}

fn fill<T>(recipe: &[u64], table: &mut [T], convert: impl Fn(u32) -> T) -> Result<(), Error> {
    if recipe.len() != table.len() {
        return Err(wrong_recipe(recipe));
    }
    table.iter_mut().zip(recipe).for_each(|(to, &bits)| *to = convert(bits as u32));
    Ok(())
}

impl GpuKernel for ResizedGpu {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(Self::item);

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        check_lens(cx)?;
        let x = cx.input(0)?;
        let Plan { sampling, axes: changes, extrapolation } = Plan::read(cx, &x)?;
        let (mut starts, mut weights) = (Vec::new(), Vec::new());
        let mut axes = Vec::new();
        for ((&from, stride), axis_change) in x.shape().iter().zip(strides(x.shape())).zip(&changes)
        {
            let Some(resized) = axis_change else {
                axes.push(GpuAxis { to: from, stride, samples: None });
                continue;
            };
            let too_large = || Error::new("the tables exceed the address space");
            let (first, first_weight) = (starts.len(), weights.len());
            starts.resize(first.checked_add(resized.to).ok_or_else(too_large)?, 0);
            let weights_len = sampling.weights_len(resized).ok_or_else(too_large)?;
            // Copied elements have one neighbour of weight 1.
            weights.resize(first_weight + weights_len.max(resized.to), 1.0);
            let (starts, weights) = (&mut starts[first..], &mut weights[first_weight..]);
            sampling.fill(resized, starts, if weights_len == 0 { &mut [] } else { weights });
            let taps = if weights_len == 0 { 1 } else { sampling.taps(resized) };
            let samples = Samples { starts: first, weights: first_weight, taps };
            axes.push(GpuAxis { to: resized.to, stride, samples: Some(samples) });
        }
        debug_assert_eq!(OUTSIDE.cast_signed(), -1);
        let recipe: Vec<u64> = starts.iter().map(|&start| u64::from(start)).collect();
        let starts = cx.pack(&[], &recipe, recipe.len(), fill_starts)?;
        let recipe: Vec<u64> = weights.iter().map(|w: &f32| u64::from(w.to_bits())).collect();
        let weights = cx.pack(&[], &recipe, recipe.len(), fill_weights)?;
        Ok(Self { axes, starts, weights, outside: extrapolation as f32, len: cx.output(0)?.len() })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let mut params = String::new();
        let mut places = String::new();
        let mut loops = String::new();
        let (mut element, mut weight) = ("place".to_owned(), "1.0f".to_owned());
        let mut numbers = Vec::new();
        for (d, axis) in self.axes.iter().enumerate().rev() {
            let _ = write!(params, ", const int to{d}, const int stride{d}");
            let _ = writeln!(places, "    const int at{d} = rest % to{d};\n    rest /= to{d};");
            numbers.extend([axis.to, axis.stride]);
            let Some(Samples { starts, weights, taps }) = axis.samples else {
                let _ = writeln!(places, "    place += at{d} * stride{d};");
                continue;
            };
            for name in ["starts", "weights", "taps"] {
                let _ = write!(params, ", const int {name}{d}");
            }
            numbers.extend([starts, weights, taps]);
            let _ = writeln!(
                places,
                "    const int start{d} = starts[starts{d} + at{d}];\n    \
                 is_inside &= start{d} >= 0;\n    place += start{d} * stride{d};"
            );
            let _ = writeln!(loops, "    for (int t{d} = 0; t{d} < taps{d}; ++t{d})");
            let _ = write!(element, " + t{d} * stride{d}");
            let _ = write!(weight, " * weights[weights{d} + at{d} * taps{d} + t{d}]");
        }
        let text = format!(
            "{EXACT}__kernel void udo_resize(__global const UDO_STORAGE *x, __global UDO_STORAGE *y,\n    \
             __global const int *starts, __global const float *weights, const float outside{params}) {{\n    \
             const int i = get_global_id(0);\n    int rest = i, place = 0;\n    bool is_inside = true;\n\
             {places}    float sum = is_inside ? 0.0f : outside;\n    if (is_inside)\n{loops}    {{\n        \
             const float weight = {weight};\n        \
             if (weight != 0.0f) sum += weight * UDO_LOAD(x, {element});\n    }}\n    \
             UDO_STORE(y, i, sum);\n}}\n"
        );
        let launch = Launch::new(text, "udo_resize")
            .args([GpuArg::input(0), GpuArg::output(0)])
            .args([GpuArg::packed(self.starts), GpuArg::packed(self.weights)])
            .args([GpuArg::f32(self.outside)])
            .args(ints(numbers)?);
        info.push_launch(launch.global_size([self.len, 1, 1]));
        Ok(())
    }
}

impl ResizedGpu {
    fn item(&self, item: WorkItem, buffers: &Buffers<'_>) -> Result<(), ExecError> {
        let [i, ..] = item.global_id;
        let (starts, weights) = (buffers.packed(self.starts)?, buffers.packed(self.weights)?);
        // The index of the output element among the axes not yet visited, and the offset of its first input element.
        let (mut remaining, mut offset) = (i, 0);
        // Axes that are not resized have one neighbour of weight 1.
        let mut samples: [(usize, &[f32]); MAX_RANK] = [(0, &[1.0]); MAX_RANK];
        for (axis, sample) in self.axes.iter().zip(&mut samples).rev() {
            let coordinate = remaining % axis.to;
            remaining /= axis.to;
            let Some(Samples { starts: first_start, weights: first_weight, taps }) = axis.samples
            else {
                offset += coordinate * axis.stride;
                continue;
            };
            let Ok(start) = usize::try_from(starts[first_start + coordinate]) else {
                return buffers.store(0, i, self.outside);
            };
            offset += start * axis.stride;
            *sample = (axis.stride, &weights[first_weight + coordinate * taps..][..taps]);
        }
        let mut sum = 0.0;
        for tap in 0..samples.iter().map(|(_, weights)| weights.len()).product() {
            let (mut remaining, mut element, mut weight) = (tap, offset, 1.0);
            for (stride, weights) in &samples {
                element += remaining % weights.len() * stride;
                weight *= weights[remaining % weights.len()];
                remaining /= weights.len();
            }
            if weight != 0.0 {
                sum += weight * buffers.load(0, element)?;
            }
        }
        buffers.store(0, i, sum)
    }
}

#[cfg(test)]
mod tests {
    use crate::family::numerics::on_gpu_too;
    use crate::testing::{bench, noise, tensor};

    #[test]
    fn gpu_samples_match_the_cpu() {
        let x = tensor(&[2, 3, 5, 7], &noise(210));
        let modes = [("nearest", 0), ("linear", 0), ("cubic", 0), ("linear", 1), ("cubic", 1)];
        let coordinates = ["half_pixel", "asymmetric", "align_corners", "tf_crop_and_resize"];
        for ((mode, antialias), coordinates) in
            modes.into_iter().flat_map(|mode| coordinates.map(|c| (mode, c)))
        {
            for sizes in [[2i64, 3, 10, 14], [2, 3, 3, 4], [2, 3, 5, 9], [4, 3, 5, 7]] {
                let region = [0f32, 0.0, 0.2, 0.1, 1.0, 1.0, 0.9, 1.2];
                let run = bench("Resize").input(x.clone()).constant(tensor(&[8], &region)).absent();
                let run = run.constant(tensor(&[4], &sizes)).text("mode", mode);
                let run = run.text("coordinate_transformation_mode", coordinates);
                let run = run.int("antialias", antialias).float("extrapolation_value", 0.5);
                on_gpu_too(&run, 1e-5);
            }
        }
    }
}
