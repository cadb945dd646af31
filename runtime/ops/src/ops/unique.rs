//! The distinct elements, or the distinct slices along an axis.
//!
//! Bounded extents are known only in the run, up to a bound.

use std::cmp::Ordering;

use udo_api::{
    Core, DType, Dim, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, MAX_RANK, Op,
    OpSchema, Outputs, Param, Port, Shape, TensorDesc, Value, Workspace, input, output,
    output_like, types,
};

use crate::Def;
use crate::family::axes::AxisSplit;
use crate::family::select::{Ranked, positions_fit};

pub(crate) const DEF: Def = Def::new::<Unique>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Groups>("Unique", Core::CPU).ports(&[
    input(0, types::ANY).bounded(),
    output_like(0, 0).bounded(),
    output(1, types::I64).bounded(),
    output(2, types::I64).bounded(),
    output(3, types::I64).bounded(),
])];

// Positions of the optional outputs.
const INDICES: usize = 1;
const INVERSE: usize = 2;
const COUNTS: usize = 3;

struct Unique;

impl Op for Unique {
    const SCHEMA: OpSchema = OpSchema::new(
        "Unique",
        &[Port::required("X", types::ANY)],
        &[
            Port::required("Y", types::ANY),
            Port::optional("indices", types::I64),
            Port::optional("inverse_indices", types::I64),
            Port::optional("counts", types::I64),
        ],
        &[
            Param::scalar("axis", DType::I64).optional(),
            Param::scalar("sorted", DType::I64).default(Value::int(1)),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let mut dims: Vec<Dim> = x.full_shape().iter().collect();
        let extent = if cx.has_param("axis") {
            let axis = cx.axis("axis", x.rank())?;
            let extent = dims[axis];
            dims[axis] = Dim::UpTo(extent.bound());
            extent
        } else {
            let flat = dims.iter().fold(Dim::Fixed(0), |flat, &dim| flat.with_both(dim, x.len()));
            dims = vec![Dim::UpTo(x.len())];
            flat.with(x.len())
        };
        cx.set_output(0, x.with_shape(Shape::from_dims(&dims)?))?;
        for index in 1..cx.output_count() {
            let dim = if index == INVERSE { extent } else { Dim::UpTo(extent.bound()) };
            cx.set_output(index, TensorDesc::new(DType::I64, Shape::from_dims(&[dim])?))?;
        }
        Ok(())
    }
}

/// The kernel: sorts the slices and groups equal ones.
struct Groups {
    /// `None` compares the elements of the flattened input.
    axis: Option<usize>,
    is_sorted: bool,
    /// The largest number of slices.
    capacity: usize,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Groups {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let axis = if cx.has_param("axis") { Some(cx.axis("axis", x.rank())?) } else { None };
        let capacity = split(x.shape(), axis).len;
        positions_fit(capacity)?;
        let run = of_any!(x.dtype(), T => Self::execute_as::<T>)?;
        Ok(Self { axis, is_sorted: cx.flag("sorted")?, capacity, run })
    }

    fn workspace(&self) -> Workspace {
        Workspace::for_elements::<u32>(self.capacity)
            .and::<u32>(self.capacity)
            .and::<u32>(self.capacity)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

/// Returns the slices along the axis; without an axis, the elements.
fn split(dims: &[usize], axis: Option<usize>) -> AxisSplit {
    match axis {
        Some(axis) => AxisSplit::at(dims, axis),
        None => AxisSplit { outer: 1, len: dims.iter().product(), inner: 1 },
    }
}

impl Groups {
    fn execute_as<T: Ranked>(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let (x, dims) = (io.inputs.get::<T>(0)?, io.inputs.shape(0)?);
        let split @ AxisSplit { outer, len, inner } = split(dims, self.axis);
        let [order, groups, positions] = [
            io.scratch.take::<u32>(self.capacity)?,
            io.scratch.take::<u32>(self.capacity)?,
            io.scratch.take::<u32>(self.capacity)?,
        ];
        let (order, groups, positions) =
            (&mut order[..len], &mut groups[..len], &mut positions[..len]);
        (0..).zip(&mut *order).for_each(|(index, entry)| *entry = index);
        order.sort_unstable_by(|&a, &b| compare(x, split, a, b).then(a.cmp(&b)));
        let firsts = group(order, groups, |a, b| compare(x, split, a, b).is_eq());
        self.assign_positions(firsts, groups, positions);
        let y = io.outputs.take::<T>(0)?;
        for (&first, &position) in firsts.iter().zip(&*positions) {
            let (first, position) = (first as usize, position as usize);
            for block in 0..outer {
                let y = &mut y[(block * firsts.len() + position) * inner..][..inner];
                y.copy_from_slice(&x[(block * len + first) * inner..][..inner]);
            }
        }
        let mut extents = [firsts.len(); MAX_RANK];
        let rank = self.axis.map_or(1, |axis| {
            extents[..dims.len()].copy_from_slice(dims);
            extents[axis] = firsts.len();
            dims.len()
        });
        io.outputs.set_shape(0, &extents[..rank])?;
        write_optional_outputs(&mut io.outputs, firsts, groups, positions)
    }

    /// Assigns each group its output position: in sorted order, or in order of first occurrence.
    fn assign_positions(&self, firsts: &[u32], groups: &[u32], positions: &mut [u32]) {
        let mut next = 0;
        for (slice, &group) in (0..).zip(groups) {
            let group = group as usize;
            if firsts[group] == slice {
                positions[group] = if self.is_sorted { group as u32 } else { next };
                next += 1;
            }
        }
    }
}

/// Compares two slices lexicographically.
fn compare<T: Ranked>(x: &[T], split: AxisSplit, a: u32, b: u32) -> Ordering {
    let AxisSplit { outer, len, inner } = split;
    let block_of = |slice: u32, block: usize| &x[(block * len + slice as usize) * inner..][..inner];
    let first_difference = |block: usize| {
        let pairs = block_of(a, block).iter().zip(block_of(b, block));
        pairs.map(|(a, b)| a.rank().cmp(&b.rank())).find(|order| order.is_ne())
    };
    (0..outer).find_map(first_difference).unwrap_or(Ordering::Equal)
}

/// Assigns each slice its group of equal slices, and returns the first slice of each group. `order` lists the slices in
/// sorted order, equal ones by position.
fn group<'a>(
    order: &'a mut [u32],
    groups: &mut [u32],
    is_equal: impl Fn(u32, u32) -> bool,
) -> &'a [u32] {
    let (mut count, mut last) = (0, None);
    for index in 0..order.len() {
        let slice = order[index];
        if !last.is_some_and(|last| is_equal(last, slice)) {
            // `order` is overwritten from the front, only where it has been read.
            order[count] = slice;
            count += 1;
        }
        last = Some(slice);
        groups[slice as usize] = count as u32 - 1;
    }
    &order[..count]
}

/// Writes the optional outputs.
fn write_optional_outputs(
    outputs: &mut Outputs<'_>,
    firsts: &[u32],
    groups: &[u32],
    positions: &[u32],
) -> Result<(), ExecError> {
    let position = |&group: &u32| positions[group as usize] as usize;
    if outputs.has(INDICES) {
        let indices = outputs.take::<i64>(INDICES)?;
        firsts
            .iter()
            .zip(positions)
            .for_each(|(&first, &position)| indices[position as usize] = first.into());
        outputs.set_shape(INDICES, &[firsts.len()])?;
    }
    if outputs.has(INVERSE) {
        let inverse = outputs.take::<i64>(INVERSE)?;
        inverse
            .iter_mut()
            .zip(groups)
            .for_each(|(inverse, group)| *inverse = position(group) as i64);
        outputs.set_shape(INVERSE, &[groups.len()])?;
    }
    if outputs.has(COUNTS) {
        let counts = &mut outputs.take::<i64>(COUNTS)?[..firsts.len()];
        counts.fill(0);
        for group in groups {
            counts[position(group)] += 1;
        }
        outputs.set_shape(COUNTS, &[firsts.len()])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use udo_api::Bool;

    use super::*;
    use crate::testing::{Tensor, bench, tensor};

    fn ints(y: &[Tensor]) -> Vec<Vec<i64>> {
        y.iter().skip(1).map(Tensor::values::<i64>).collect()
    }

    #[test]
    fn elements_are_sorted_or_in_order_of_occurrence() {
        let run =
            || bench("Unique").input(tensor(&[2, 3], &[2f32, 1.0, 1.0, 3.0, 4.0, 3.0])).outputs(4);
        let y = run().all();
        assert_eq!(y[0].values::<f32>(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(ints(&y), [vec![1, 0, 3, 4], vec![1, 0, 0, 2, 3, 2], vec![2, 1, 2, 1]]);
        assert_eq!(y[0].desc().full_shape().to_string(), "[<=6]");
        assert_eq!(y[2].desc().full_shape().to_string(), "[6]");
        let y = run().int("sorted", 0).all();
        assert_eq!(y[0].values::<f32>(), [2.0, 1.0, 3.0, 4.0]);
        assert_eq!(ints(&y), [vec![0, 1, 3, 4], vec![0, 1, 1, 2, 3, 2], vec![1, 2, 2, 1]]);
    }

    #[test]
    fn slices_are_compared_along_an_axis() {
        let x = tensor(&[2, 3, 2], &[1i64, 0, 0, 9, 1, 0, 5, 5, 5, 5, 5, 5]);
        let y = bench("Unique").input(x).int("axis", 1).outputs(4).all();
        assert_eq!(
            (y[0].dims(), y[0].values::<i64>()),
            (vec![2, 2, 2], vec![0, 9, 1, 0, 5, 5, 5, 5])
        );
        assert_eq!(ints(&y), [vec![1, 0], vec![1, 0, 1], vec![1, 2]]);
        let y = bench("Unique").input(tensor::<i8>(&[3, 0], &[])).int("axis", 0).outputs(4).all();
        assert_eq!((y[0].dims(), ints(&y)), (vec![1, 0], vec![vec![0], vec![0, 0, 0], vec![3]]));
    }

    #[test]
    fn signed_zeros_are_equal_and_so_are_nans() {
        let x = [0.0f64, f64::NAN, -0.0, -f64::NAN];
        let y = bench("Unique").input(tensor(&[4], &x)).outputs(4).all();
        assert_eq!(ints(&y), [vec![0, 1], vec![0, 1, 0, 1], vec![2, 2]]);
        let y = bench("Unique").input(tensor(&[3], &[1, 0, 1].map(Bool))).one();
        assert_eq!(y.values::<Bool>(), [Bool(0), Bool(1)]);
        let y = bench("Unique").input(tensor::<u8>(&[0], &[])).one();
        assert_eq!(y.dims(), [0]);
    }

    #[test]
    fn bounded_inputs_bound_every_output() {
        let x = tensor(&[3], &[7u16, 7, 5]).bounded(&[Dim::UpTo(8)]);
        let y = bench("Unique").input(x).outputs(4).all();
        assert_eq!(y[2].desc().full_shape().to_string(), "[<=8]");
        assert_eq!(ints(&y), [vec![2, 0], vec![1, 1, 0], vec![1, 2]]);
    }
}
