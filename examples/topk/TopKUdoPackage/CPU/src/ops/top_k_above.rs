//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config 1922337c2f9c8c1a
//!
//! TopKAbove on the CPU: the `k` largest elements above `threshold`, the largest first, and where
//! they were. Of equal elements the one with the lower index comes first. A NaN is not above
//! anything.

use udo_api::{
    Core, Error, ExecError, FinalizeCx, Io, Kernel, KernelDef, PortRule, input, output, types,
};

pub(crate) const KERNEL: KernelDef =
    KernelDef::new::<TopKAboveF32>("TopKAbove", Core::CPU).ports(PORTS);

/// The outputs are bounded, and execute says their extents.
const PORTS: &[PortRule] = &[
    input(0, types::F32),
    output(0, types::F32).bounded(),
    output(1, types::I32).bounded(),
];

/// The state that `finalize` computes for `execute`.
struct TopKAboveF32 {
    threshold: f32,
}

impl Kernel for TopKAboveF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let len = cx.input(0)?.len();
        if i32::try_from(len).is_err() {
            return Err(Error::new(format!(
                "{len} elements are more than i32 can count"
            )));
        }
        Ok(Self {
            threshold: cx.float32("threshold")?,
        })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io {
            inputs,
            mut outputs,
            ..
        } = io;
        let x = inputs.get::<f32>(0)?;
        // Bounded outputs come at their bound: shape inference made it `k`, or the input's length.
        let values = outputs.take::<f32>(0)?;
        let indices = outputs.take::<i32>(1)?;
        let found = top(x, self.threshold, values, indices);
        outputs.set_shape(0, &[found])?;
        outputs.set_shape(1, &[found])
    }
}

/// Fills `values` and `indices`, sorted at every moment, and says how many elements they hold.
fn top(x: &[f32], threshold: f32, values: &mut [f32], indices: &mut [i32]) -> usize {
    let room = values.len();
    let mut found = 0;
    for (index, &value) in (0..).zip(x).filter(|&(_, &value)| value > threshold) {
        let at = values[..found].partition_point(|&kept| kept >= value);
        if at == room {
            continue;
        }
        found = room.min(found + 1);
        values[at..found].rotate_right(1);
        indices[at..found].rotate_right(1);
        values[at] = value;
        indices[at] = index;
    }
    found
}

#[cfg(test)]
mod tests {
    use udo_api::{DType, Dim, Shape};
    use udo_testing::{Bench, tensor};

    use super::KERNEL;

    /// The values and indices found among `x`, at most three of them above 1.
    fn found(x: &[f32]) -> (Vec<f32>, Vec<i32>) {
        let at_most = Shape::of_dims(&[Dim::UpTo(3)]).unwrap();
        let outputs = Bench::kernel(KERNEL)
            .input(tensor(&[x.len()], x))
            .float("threshold", 1.0)
            .output(DType::F32, at_most)
            .output(DType::I32, at_most)
            .all();
        (outputs[0].values(), outputs[1].values())
    }

    #[test]
    fn the_largest_come_first_and_of_equal_ones_the_earlier() {
        let (values, indices) = found(&[2.0, 5.0, 1.0, 5.0, f32::NAN, 3.0]);
        assert_eq!((values, indices), (vec![5.0, 5.0, 3.0], vec![1, 3, 5]));
    }

    #[test]
    fn fewer_than_asked_for_is_what_there_is() {
        assert_eq!(found(&[0.5, 1.5]), (vec![1.5], vec![1]));
        assert_eq!(found(&[0.5, 1.0]), (vec![], vec![]));
    }
}
