//! The sampling grid of 2-D or 3-D affine transforms, as `GridSample` reads it: for each output position, the
//! transformed coordinates from -1 to 1, innermost axis first.

use std::marker::PhantomData;

use udo_api::{
    Core, DType, Dim, Element, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Node,
    Op, OpSchema, Param, Port, PortRule, Shape, TypeSet, Value, input, output, types,
};

use crate::Def;
use crate::family::argument::IntsArgument;
use crate::family::partition::row_grain;
use crate::number::Number;

pub(crate) const DEF: Def = Def::new::<AffineGrid>(KERNELS);

const SIZE: IntsArgument = IntsArgument { input: 1, name: "size", what: "size" };
const TYPES: TypeSet = types::F32.or(types::F64);
const KERNELS: &[KernelDef] = &[
    KernelDef::new::<Grid<f32>>("AffineGrid", Core::CPU).ports(&rules(types::F32)),
    KernelDef::new::<Grid<f64>>("AffineGrid", Core::CPU).ports(&rules(types::F64)),
];

const fn rules(types: TypeSet) -> [PortRule; 3] {
    [input(0, types), input(1, types::I64), output(0, types)]
}

struct AffineGrid;

impl Op for AffineGrid {
    const SCHEMA: OpSchema = OpSchema::new(
        "AffineGrid",
        &[Port::required("theta", TYPES), SIZE.port()],
        &[Port::required("grid", TYPES)],
        &[Param::scalar("align_corners", DType::I64).default(Value::int(0))],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let theta = cx.input(0)?;
        let spatial = spatial_extents(cx)?;
        let batch = theta.full_shape().dim(0);
        let last = Dim::Fixed(spatial.len());
        let dims: Vec<Dim> =
            batch.into_iter().chain(spatial.into_iter().map(Dim::Fixed)).chain([last]).collect();
        cx.set_output(0, theta.with_shape(Shape::from_dims(&dims)?))
    }
}

/// Returns the spatial extents of the grid, outermost axis first.
fn spatial_extents(node: &Node<'_>) -> Result<Vec<usize>, Error> {
    let (theta, size) = (node.input(0)?, SIZE.required(node)?);
    let sizes: Vec<usize> =
        size.iter().filter_map(|&extent| usize::try_from(extent).ok()).collect();
    match (theta.shape(), sizes.as_slice()) {
        (&[count, rows, cols], [batch, _, spatial @ ..])
            if sizes.len() == size.len()
                && matches!(spatial.len(), 2 | 3)
                && (count, rows, cols) == (*batch, spatial.len(), spatial.len() + 1) =>
        {
            Ok(spatial.to_vec())
        }
        _ => Err(Error::new(format!(
            "input 0 is {theta} and input 1 is {size:?}, expected one matrix per image or volume of that size"
        ))),
    }
}

struct Grid<T> {
    spatial: Vec<usize>,
    aligns_corners: bool,
    marker: PhantomData<fn() -> T>,
}

impl<T> Grid<T> {
    /// Returns the coordinate of a position along an axis of `len` positions.
    fn coordinate(&self, position: usize, len: usize) -> f64 {
        if !self.aligns_corners {
            return (2 * position + 1) as f64 / len as f64 - 1.0;
        }
        // A single position is in the middle.
        if len == 1 { 0.0 } else { (2 * position) as f64 / (len - 1) as f64 - 1.0 }
    }
}

impl<T: Number + Element> Kernel for Grid<T> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self {
            spatial: spatial_extents(cx)?,
            aligns_corners: cx.flag("align_corners")?,
            marker: PhantomData,
        })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let (theta, y) = (inputs.get::<T>(0)?, outputs.take::<T>(0)?);
        let axes = self.spatial.len();
        let positions: usize = self.spatial.iter().product();
        let grain = row_grain(axes);
        parallel.chunks_mut(y, grain, |chunk, y| {
            for (index, y) in (chunk * grain / axes..).zip(y.chunks_exact_mut(axes)) {
                let theta = &theta[index / positions * axes * (axes + 1)..];
                // Coordinates go from the innermost axis outwards; the last one is 1, the factor of the translation.
                let (mut coordinates, mut remaining) = ([1.0; 4], index % positions);
                for (coordinate, &len) in coordinates.iter_mut().zip(self.spatial.iter().rev()) {
                    *coordinate = self.coordinate(remaining % len, len);
                    remaining /= len;
                }
                for (y, row) in y.iter_mut().zip(theta.chunks_exact(axes + 1)) {
                    let terms = row.iter().zip(&coordinates).map(|(factor, x)| factor.to_f64() * x);
                    *y = T::from_f64(terms.sum());
                }
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, assert_near, bench, tensor};

    fn grid(theta: &[f32], dims: &[usize], size: &[i64]) -> Bench {
        let run = bench("AffineGrid").input(tensor(dims, theta));
        run.constant(tensor(&[size.len()], size))
    }

    #[test]
    fn coordinates_are_transformed() {
        let identity = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0];
        let y = grid(&identity, &[1, 2, 3], &[1, 3, 2, 2]).one();
        assert_eq!(y.dims(), [1, 2, 2, 2]);
        let expected = [-0.5, -0.5, 0.5, -0.5, -0.5, 0.5, 0.5, 0.5];
        assert_near(&y.values::<f32>(), &expected, 1e-6);
        let y = grid(&identity, &[1, 2, 3], &[1, 3, 1, 3]).int("align_corners", 1).one();
        assert_near(&y.values::<f32>(), &[-1.0, 0.0, 0.0, 0.0, 1.0, 0.0], 1e-6);
        // The second image is scaled by 2 and translated, and its x and y are exchanged.
        let exchange = [0.0, 2.0, 1.0, 2.0, 0.0, -1.0];
        let y = grid(&[identity, exchange].concat(), &[2, 2, 3], &[2, 1, 1, 2]).one();
        assert_near(&y.values::<f32>(), &[-0.5, 0.0, 0.5, 0.0, 1.0, -2.0, 1.0, 0.0], 1e-6);
    }

    #[test]
    fn large_volumes_are_divided_among_threads() {
        let theta = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0];
        let run = grid(&theta, &[1, 3, 4], &[1, 1, 20, 30, 50]).int("align_corners", 1).threads(3);
        let coordinate =
            |position: usize, len: usize| 2.0 * position as f64 / (len - 1) as f64 - 1.0;
        let coordinates = |index: usize| {
            [
                coordinate(index % 50, 50),
                coordinate(index / 50 % 30, 30),
                coordinate(index / 1500, 20),
            ]
        };
        let expected: Vec<f64> = (0..20 * 30 * 50).flat_map(coordinates).collect();
        assert_near(&run.one().values::<f32>(), &expected, 1e-6);
    }

    #[test]
    fn invalid_transforms_are_refused() {
        let expected = "expected one matrix per image or volume of that size";
        assert_eq!(
            grid(&[0.0; 6], &[1, 2, 3], &[2, 1, 4, 4]).error(),
            format!("input 0 is f32[1,2,3] and input 1 is [2, 1, 4, 4], {expected}")
        );
        assert_eq!(
            grid(&[0.0; 6], &[1, 2, 3], &[1, 1, -1, 4]).error(),
            format!("input 0 is f32[1,2,3] and input 1 is [1, 1, -1, 4], {expected}")
        );
    }
}
