//! The determinant of each square matrix.

use std::marker::PhantomData;

use udo_api::{
    Core, Dim, Element, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpSchema,
    Port, PortRule, Shape, TypeSet, Workspace, input, output_like, types,
};

use crate::Def;
use crate::number::Number;

pub(crate) const DEF: Def = Def::new::<Det>(KERNELS);

const TYPES: TypeSet = types::F32.or(types::F64);
const KERNELS: &[KernelDef] = &[
    KernelDef::new::<Elimination<f32>>("Det", Core::CPU).ports(&rules(types::F32)),
    KernelDef::new::<Elimination<f64>>("Det", Core::CPU).ports(&rules(types::F64)),
];

const fn rules(types: TypeSet) -> [PortRule; 2] {
    [input(0, types), output_like(0, 0)]
}

struct Det;

impl Op for Det {
    const SCHEMA: OpSchema =
        OpSchema::new("Det", &[Port::required("X", TYPES)], &[Port::required("Y", TYPES)], &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let dims: Vec<Dim> = x.full_shape().iter().collect();
        match dims.as_slice() {
            [batch @ .., rows, cols] if rows.bound() == cols.bound() => {
                cx.set_output(0, x.with_shape(Shape::from_dims(batch)?))
            }
            _ => Err(Error::new(format!("input 0 is {x}, expected square matrices"))),
        }
    }
}

/// The kernel, Gaussian elimination in f64.
struct Elimination<T> {
    /// Number of rows of a matrix.
    size: usize,
    /// Matrices processed concurrently.
    parts: usize,
    marker: PhantomData<fn() -> T>,
}

/// Below this many multiply-adds, threads cost more than they save.
const MIN_PARALLEL_WORK: usize = 1 << 15;

impl<T: Number + Element> Kernel for Elimination<T> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let size = cx.input(0)?.shape().last().copied().unwrap_or(0);
        let count = cx.output(0)?.len();
        let work = count.saturating_mul(size.saturating_pow(3));
        let parts = if work < MIN_PARALLEL_WORK { 1 } else { cx.threads().min(count).max(1) };
        Ok(Self { size, parts, marker: PhantomData })
    }

    fn workspace(&self) -> Workspace {
        Workspace::for_elements::<f64>(self.parts.saturating_mul(self.size * self.size))
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, mut scratch, parallel, .. } = io;
        let (x, y) = (inputs.get::<T>(0)?, outputs.take::<T>(0)?);
        let len = self.size * self.size;
        let copies = scratch.take::<f64>(self.parts * len)?;
        let matrices_per_part = y.len().div_ceil(self.parts).max(1);
        parallel.chunks_mut_with(y, matrices_per_part, copies, len, |part, y, copy| {
            for (index, y) in (part * matrices_per_part..).zip(y) {
                let matrix = &x[index * len..][..len];
                copy.iter_mut().zip(matrix).for_each(|(copy, x)| *copy = x.to_f64());
                *y = T::from_f64(eliminate(copy, self.size));
            }
            Ok(())
        })
    }
}

/// Returns the determinant of a matrix of `size` rows by Gaussian elimination; overwrites the matrix with its upper
/// triangle.
fn eliminate(matrix: &mut [f64], size: usize) -> f64 {
    let mut determinant = 1.0;
    for col in 0..size {
        let rows = &mut matrix[col * size..];
        // Partial pivoting keeps the factors at most 1.
        let by_magnitude = |a: &usize, b: &usize| {
            rows[a * size + col].abs().total_cmp(&rows[b * size + col].abs())
        };
        let largest = (0..size - col).max_by(by_magnitude).unwrap_or(0);
        let (first, others) = rows.split_at_mut(size);
        if largest > 0 {
            first.swap_with_slice(&mut others[(largest - 1) * size..][..size]);
            determinant = -determinant;
        }
        let pivot = first[col];
        determinant *= pivot;
        if pivot == 0.0 {
            // The rest of the column is zero, so the matrix is singular.
            return determinant;
        }
        for row in others.chunks_exact_mut(size) {
            let factor = row[col] / pivot;
            for (x, &above) in row[col..].iter_mut().zip(&first[col..]) {
                *x -= factor * above;
            }
        }
    }
    determinant
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_near, bench, noise, tensor};

    #[test]
    fn small_and_empty_matrices_have_the_expected_determinants() {
        let x = [2.0f32, 1.0, 3.0, 4.0, 0.0, 1.0, 1.0, 0.0, 1.0, 2.0, 2.0, 4.0, 0.0, 0.0, 0.0, 0.0];
        let y = bench("Det").input(tensor(&[2, 2, 2, 2], &x)).one();
        assert_eq!(y.dims(), [2, 2]);
        assert_near(&y.values::<f32>(), &[5.0, -1.0, 0.0, 0.0], 1e-6);
        let y = bench("Det").input(tensor(&[1, 1], &[-3f64])).one();
        assert_eq!((y.dims(), y.values::<f64>()), (vec![], vec![-3.0]));
        let y = bench("Det").input(tensor::<f32>(&[2, 0, 0], &[])).one();
        assert_eq!(y.values::<f32>(), [1.0, 1.0], "the determinant of an empty matrix is 1");
    }

    #[test]
    fn triangular_determinants_are_products_of_diagonals() {
        // Each matrix is a lower triangle with ones on its diagonal times an upper triangle.
        let (count, size) = (9, 24);
        let numbers = noise(count * size * size);
        let (mut x, mut expected) = (vec![0f64; count * size * size], Vec::new());
        for (matrix, x) in x.chunks_exact_mut(size * size).enumerate() {
            let number =
                |row: usize, col: usize| f64::from(numbers[(matrix * size + row) * size + col]);
            let lower = |row: usize, col: usize| if row == col { 1.0 } else { number(row, col) };
            let on_diagonal = 1.5 + matrix as f64 / 64.0;
            let upper =
                |row: usize, col: usize| if row == col { on_diagonal } else { number(row, col) };
            for (i, x) in x.iter_mut().enumerate() {
                let (row, col) = (i / size, i % size);
                *x = (0..=row.min(col)).map(|k| lower(row, k) * upper(k, col)).sum();
            }
            expected.push(on_diagonal.powi(size as i32));
        }
        for threads in [1, 3] {
            let y = bench("Det").threads(threads).input(tensor(&[count, size, size], &x)).one();
            assert_near(&y.values::<f64>(), &expected, 1e-3);
        }
    }

    #[test]
    fn only_square_matrices_are_accepted() {
        let y = bench("Det").input(tensor(&[2, 3], &[0f32; 6]));
        assert_eq!(y.error(), "input 0 is f32[2,3], expected square matrices");
    }
}
