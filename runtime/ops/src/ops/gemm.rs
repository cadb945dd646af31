//! `alpha * A * B + beta * C`, either matrix transposed.

use udo_api::{
    Core, DType, Element, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Node, Op,
    OpDef, OpSchema, Packed, Param, Port, Shape, TensorDesc, Value, Workspace, input, input_like,
    output_like, types,
};

use crate::number::{Real, pack_version};

pub(crate) const OP: OpDef = OpDef::of::<Gemm>();
pub(crate) const KERNELS: &[KernelDef] = &[kernel::<f32>(), kernel::<f64>()];

const fn kernel<T: Real>() -> KernelDef {
    KernelDef::new::<Product<T>>("Gemm", Core::CPU).types(Product::<T>::RULES)
}

const TYPES: udo_api::TypeSet = types::F32.or(types::F64).or(types::F16);

struct Gemm;

impl Op for Gemm {
    const SCHEMA: OpSchema = OpSchema::new(
        "Gemm",
        &[Port::required("A", TYPES), Port::required("B", TYPES), Port::optional("C", TYPES)],
        &[Port::required("Y", TYPES)],
        &[
            Param::scalar("alpha", DType::F32).default(Value::float(1.0)),
            Param::scalar("beta", DType::F32).default(Value::float(1.0)),
            // Before opset 7 this allows what later versions always do.
            Param::scalar("broadcast", DType::I64).optional(),
            Param::scalar("transA", DType::I64).default(Value::int(0)),
            Param::scalar("transB", DType::I64).default(Value::int(0)),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let sizes = Sizes::read(cx)?;
        let shape = Shape::new(&[sizes.rows, sizes.cols])?;
        let dtype = cx.input(0)?.dtype();
        cx.set_output(0, dtype.map_or(TensorDesc::ABSENT, |t| TensorDesc::new(t, shape)))
    }
}

#[derive(Clone, Copy)]
struct Sizes {
    rows: usize,
    depth: usize,
    cols: usize,
    trans_a: bool,
    trans_b: bool,
    /// Elements of C from one row to the next, and from one column to the next.
    c_steps: [usize; 2],
}

impl Sizes {
    fn read(node: &Node<'_>) -> Result<Self, Error> {
        let (a, b) = (node.input(0)?, node.input(1)?);
        let (trans_a, trans_b) = (node.flag("transA")?, node.flag("transB")?);
        let misfit = || {
            Error::new(format!(
                "inputs are {a} and {b} with transA {trans_a} and transB {trans_b}, which do not multiply"
            ))
        };
        let (&[a0, a1], &[b0, b1]) = (a.shape(), b.shape()) else { return Err(misfit()) };
        let (rows, depth) = if trans_a { (a1, a0) } else { (a0, a1) };
        let (b_depth, cols) = if trans_b { (b1, b0) } else { (b0, b1) };
        if depth != b_depth {
            return Err(misfit());
        }
        let c_steps =
            if node.has_input(2) { c_steps(&node.input(2)?, rows, cols)? } else { [0; 2] };
        Ok(Self { rows, depth, cols, trans_a, trans_b, c_steps })
    }
}

fn c_steps(c: &TensorDesc, rows: usize, cols: usize) -> Result<[usize; 2], Error> {
    let (c_rows, c_cols) = match *c.shape() {
        [] => (1, 1),
        [n] => (1, n),
        [m, n] => (m, n),
        _ => (0, 0),
    };
    if (c_rows != rows && c_rows != 1) || (c_cols != cols && c_cols != 1) {
        return Err(Error::new(format!(
            "input 2 is {c}, wanted what broadcasts to [{rows},{cols}]"
        )));
    }
    Ok([if c_rows == 1 { 0 } else { c_cols }, usize::from(c_cols != 1)])
}

enum Right<T> {
    Packed(Packed<T>),
    AsGiven,
    TurnedInScratch,
}

struct Product<T> {
    sizes: Sizes,
    alpha: T,
    beta: T,
    has_c: bool,
    right: Right<T>,
}

impl<T: Element> Product<T> {
    const RULES: &'static [udo_api::TypeRule] =
        &[input(0, T::DTYPE.set()), input_like(1, 0), input_like(2, 0), output_like(0, 0)];
}

impl<T: Real> Kernel for Product<T> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let sizes = Sizes::read(cx)?;
        let right = if cx.constant::<T>(1)?.is_some() {
            let version = pack_version([
                1,
                usize::from(T::DTYPE.code()),
                usize::from(sizes.trans_b),
                sizes.depth,
                sizes.cols,
            ]);
            let packed = cx.pack(1, version, sizes.depth * sizes.cols, |from: &[T], to| {
                if sizes.trans_b { turn(from, to, sizes) } else { to.copy_from_slice(from) }
            })?;
            Right::Packed(packed)
        } else if sizes.trans_b {
            Right::TurnedInScratch
        } else {
            Right::AsGiven
        };
        let (alpha, beta) = (T::of(cx.float("alpha")?), T::of(cx.float("beta")?));
        Ok(Self { sizes, alpha, beta, has_c: cx.has_input(2), right })
    }

    fn workspace(&self) -> Workspace {
        match self.right {
            Right::TurnedInScratch => Workspace::of::<T>(self.sizes.depth * self.sizes.cols),
            Right::Packed(_) | Right::AsGiven => Workspace::NONE,
        }
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, mut scratch, packed, .. } = io;
        let Sizes { rows, depth, cols, trans_a, c_steps, .. } = self.sizes;
        let a = inputs.get::<T>(0)?;
        let b = match self.right {
            Right::Packed(b) => packed.get(b)?,
            Right::AsGiven => inputs.get(1)?,
            Right::TurnedInScratch => {
                let b = scratch.take(depth * cols)?;
                turn(inputs.get(1)?, b, self.sizes);
                &*b
            }
        };
        let c = if self.has_c { inputs.get::<T>(2)? } else { &[] };
        let y = outputs.take::<T>(0)?;
        if cols == 0 {
            return Ok(());
        }
        let (row_step, depth_step) = if trans_a { (1, rows) } else { (depth, 1) };
        for (row, y) in y.chunks_exact_mut(cols).enumerate() {
            y.fill(T::ZERO);
            for (k, b) in b.chunks_exact(cols).enumerate() {
                let a = a[row * row_step + k * depth_step];
                y.iter_mut().zip(b).for_each(|(y, &b)| *y = y.plus(a.times(b)));
            }
            for y in y.iter_mut() {
                *y = self.alpha.times(*y);
            }
            if self.has_c {
                let c = &c[row * c_steps[0]..];
                for (col, y) in y.iter_mut().enumerate() {
                    *y = y.plus(self.beta.times(c[col * c_steps[1]]));
                }
            }
        }
        Ok(())
    }
}

/// Lays the columns of a transposed B out as rows.
fn turn<T: Copy>(from: &[T], to: &mut [T], sizes: Sizes) {
    for (k, to) in to.chunks_exact_mut(sizes.cols.max(1)).enumerate() {
        let column = from[k..].iter().step_by(sizes.depth);
        to.iter_mut().zip(column).for_each(|(to, &from)| *to = from);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Run, assert_near, noise, tensor};

    #[test]
    fn every_transposition_and_bias() {
        let (rows, depth, cols) = (3, 4, 5);
        let (a, b, c) = (noise(12), noise(20), noise(15));
        let biases: [&[usize]; 6] = [&[3, 5], &[5], &[1, 5], &[3, 1], &[], &[1]];
        for case in 0..4 * biases.len() * 2 {
            let (trans_a, trans_b, constant) = (case & 1, case >> 1 & 1, case >> 2 & 1);
            let dims = biases[case / 8];
            let c = &c[..dims.iter().product()];
            let a_dims = if trans_a == 1 { [depth, rows] } else { [rows, depth] };
            let b_dims = if trans_b == 1 { [cols, depth] } else { [depth, cols] };
            let b_input = tensor(&b_dims, &b);
            let run = Run::new("Gemm").input(tensor(&a_dims, &a));
            let run = if constant == 1 { run.constant(b_input) } else { run.input(b_input) };
            let y = run
                .input(tensor(dims, c))
                .int("transA", trans_a as i64)
                .int("transB", trans_b as i64)
                .float("alpha", 0.5)
                .float("beta", 2.0)
                .one();
            let mut wanted = Vec::new();
            for (m, n) in (0..rows).flat_map(|m| (0..cols).map(move |n| (m, n))) {
                let sum: f64 = (0..depth)
                    .map(|k| {
                        let a = a[if trans_a == 1 { k * rows + m } else { m * depth + k }];
                        let b = b[if trans_b == 1 { n * depth + k } else { k * cols + n }];
                        f64::from(a) * f64::from(b)
                    })
                    .sum();
                let at = match dims {
                    [3, 5] => m * 5 + n,
                    [3, 1] => m,
                    [5] | [1, 5] => n,
                    _ => 0,
                };
                wanted.push(0.5 * sum + 2.0 * f64::from(c[at]));
            }
            assert_near(&y.values::<f32>(), &wanted, 1e-5);
        }
    }

    #[test]
    fn the_bias_may_be_left_out() {
        let run = Run::new("Gemm").input(tensor(&[1, 2], &[1f64, 2.0]));
        let y = run.input(tensor(&[2, 1], &[3f64, 4.0])).one();
        assert_near(&y.values::<f64>(), &[11.0], 1e-12);
    }
}
