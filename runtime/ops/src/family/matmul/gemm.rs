//! The operands of a Gemm node.

use udo_api::{Error, Node};

/// The extents of a Gemm product, and the strides of its addend C.
#[derive(Clone, Copy)]
pub(crate) struct GemmSizes {
    pub(crate) rows: usize,
    pub(crate) depth: usize,
    pub(crate) cols: usize,
    pub(crate) trans_a: bool,
    pub(crate) trans_b: bool,
    /// Strides of C between rows and columns; 0 where C broadcasts.
    pub(crate) c_steps: [usize; 2],
}

impl GemmSizes {
    /// Reads the sizes from the inputs at the ports `a`, `b` and `c`; input `c` is optional.
    pub(crate) fn read(node: &Node<'_>, [a, b, c]: [usize; 3]) -> Result<Self, Error> {
        let (a, b) = (node.input(a)?, node.input(b)?);
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
        let c_steps = if node.has_input(c) { c_steps(node, c, [rows, cols])? } else { [0; 2] };
        Ok(Self { rows, depth, cols, trans_a, trans_b, c_steps })
    }
}

fn c_steps(node: &Node<'_>, port: usize, [rows, cols]: [usize; 2]) -> Result<[usize; 2], Error> {
    let c = node.input(port)?;
    let (c_rows, c_cols) = match *c.shape() {
        [] => (1, 1),
        [n] => (1, n),
        [m, n] => (m, n),
        // Rejected below.
        _ => (0, 0),
    };
    if (c_rows != rows && c_rows != 1) || (c_cols != cols && c_cols != 1) {
        return Err(Error::new(format!(
            "input {port} is {c}, expected what broadcasts to [{rows},{cols}]"
        )));
    }
    Ok([if c_rows == 1 { 0 } else { c_cols }, usize::from(c_cols != 1)])
}
