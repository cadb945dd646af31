//! Matrix products on the GPU. A work item accumulates a tile of the output, [`ROWS`] by [`COLS`] elements, in
//! registers. Work items share no local memory, so there are no barriers.

use udo_api::{
    AcceptCx, Buffers, Error, ExecError, F16, FinalizeCx, GpuArg, GpuKernel, KernelDef, KernelInfo,
    Launch, PortRule, WorkItem, WorkItemFn, input, input_like, output_like,
};

use super::{GemmSizes, Products, Side, split};
use crate::family::gpu::{
    EXACT, FINISH, FINISH_PARAMS, Finish, LOAD_VECTORS, REAL, Steps, Storage, StridedAccess,
    check_lens, ints,
};

/// Columns of a tile: a vector.
const COLS: usize = 8;
/// Rows of a tile, if there are several.
const ROWS: usize = 8;

/// Kernel body, after the parameters and the offsets of the matrices.
const BODY: &str = "
    const int first = get_global_id(0) * COLS, row = get_global_id(1) * ROWS;
    // Where columns are neighbours, the last tile reads a whole vector of them as well, and leaves those of others
    // alone.
    const bool is_run = b_col == 1 && cols >= COLS;
    const int col = is_run ? min(first, cols - COLS) : first;
    int at_a[ROWS], at_b[COLS];
    float8 sums[ROWS];
    for (int r = 0; r < ROWS; ++r) {
        at_a[r] = p0 + min(row + r, rows - 1) * a_row;
        sums[r] = 0.0f;
    }
    for (int c = 0; c < COLS; ++c) at_b[c] = p1 + min(col + c, cols - 1) * b_col;
    for (int k = 0; k < depth; ++k) {
        float8 right;
        if (is_run) {
            right = UDO_LOAD8(b, at_b[0] + k * b_depth);
        } else {
            float each[COLS];
            for (int c = 0; c < COLS; ++c) each[c] = UDO_LOAD(b, at_b[c] + k * b_depth);
            right = vload8(0, each);
        }
        for (int r = 0; r < ROWS; ++r) sums[r] += UDO_LOAD(a, at_a[r] + k * a_depth) * right;
    }
    for (int r = 0; r < min(ROWS, rows - row); ++r) {
        float each[COLS];
        vstore8(alpha * sums[r], 0, each);
        for (int c = first - col; c < min(COLS, cols - col); ++c) {
            float sum = each[c];
            if (has_addend) sum += beta * UDO_LOAD(addend, (row + r) * c_row + (col + c) * c_col);
            const int at = (i * rows + row + r) * cols + col + c;
            UDO_STORE(y, at, udo_finish(sum, finish_bias, col + c, residual, at, low, high));
        }
    }
}
";

/// `alpha * a * b + beta * c` for every pair of matrices.
struct Tiled {
    rows: usize,
    depth: usize,
    cols: usize,
    /// Strides of A between rows and along the depth.
    a_steps: [usize; 2],
    /// Strides of B along the depth and between columns.
    b_steps: [usize; 2],
    /// `alpha` and `beta`.
    scales: [f32; 2],
    /// Strides of the addend between rows and columns, if any.
    addend: Option<[usize; 2]>,
    /// Offsets of each pair of matrices.
    batch: StridedAccess,
    finish: Finish,
    tile: fn(&Self, WorkItem, &Buffers<'_>) -> Result<(), ExecError>,
}

impl Tiled {
    /// Returns the rows of a tile.
    fn height(&self) -> usize {
        if self.rows > 1 { ROWS } else { 1 }
    }

    fn launch(&self) -> Result<Launch, Error> {
        let &Self { rows, depth, cols, a_steps, b_steps, scales, addend, .. } = self;
        let height = self.height();
        let text = format!(
            "{EXACT}{LOAD_VECTORS}{FINISH}__kernel void udo_product(__global const UDO_STORAGE *a,\n    \
             __global const UDO_STORAGE *b, __global const UDO_STORAGE *addend,\n    \
             __global UDO_STORAGE *y, const float alpha, const float beta, const int has_addend,\n    \
             const int rows, const int depth, const int cols, const int a_row, const int a_depth,\n    \
             const int b_depth, const int b_col, const int c_row, const int c_col{},\n    {FINISH_PARAMS}) {{\n    \
             const int i = get_global_id(2);\n{}{BODY}",
            self.batch.params(),
            self.batch.places()
        );
        let c = GpuArg::input(if addend.is_some() { 2 } else { 0 });
        let c_steps = addend.unwrap_or_default();
        let sizes = [usize::from(addend.is_some()), rows, depth, cols].into_iter();
        let launch = Launch::new(text, "udo_product")
            .options(format!("-DROWS={height} -DCOLS={COLS} {}", self.finish.options()))
            .args([GpuArg::input(0), GpuArg::input(1), c, GpuArg::output(0)])
            .args(scales.map(GpuArg::f32))
            .args(ints(sizes.chain(a_steps).chain(b_steps).chain(c_steps))?)
            .args(self.batch.args()?)
            .args(self.finish.args());
        Ok(launch.global_size([cols.div_ceil(COLS), rows.div_ceil(height), self.batch.len()]))
    }

    /// Computes a tile of `N` rows: the emulated GPU's version of [`BODY`].
    fn sum<T: Storage, const N: usize>(
        &self,
        item: WorkItem,
        buffers: &Buffers<'_>,
    ) -> Result<(), ExecError> {
        let &Self { rows, depth, cols, a_steps, b_steps, .. } = self;
        let [col, row, i] = item.global_id;
        let (col, row) = (col * COLS, row * N);
        let (a, b) = (buffers.input::<T>(0)?, buffers.input::<T>(1)?);
        let [a_first, b_first] = [0, 1].map(|side| self.batch.place(side, i));
        let at_a: [usize; N] =
            std::array::from_fn(|r| a_first + (row + r).min(rows - 1) * a_steps[0]);
        let at_b: [usize; COLS] =
            std::array::from_fn(|c| b_first + (col + c).min(cols - 1) * b_steps[1]);
        let mut sums = [[0.0; COLS]; N];
        for k in 0..depth {
            let right = at_b.map(|at| b[at + k * b_steps[0]].number());
            for (sums, at) in sums.iter_mut().zip(at_a) {
                let left = a[at + k * a_steps[1]].number();
                sums.iter_mut().zip(right).for_each(|(sum, right)| *sum += left * right);
            }
        }
        for (r, sums) in sums.iter().enumerate().take(rows - row) {
            for (c, &sum) in sums.iter().enumerate().take(cols - col) {
                let mut sum = self.scales[0] * sum;
                if let Some([c_row, c_col]) = self.addend {
                    let addend_index = (row + r) * c_row + (col + c) * c_col;
                    sum += self.scales[1] * buffers.load(2, addend_index)?;
                }
                let index = (i * rows + row + r) * cols + col + c;
                buffers.store(0, index, self.finish.apply(buffers, sum, col + c, index)?)?;
            }
        }
        Ok(())
    }

    /// Returns the body of a work item for the type of input 0.
    fn tile(cx: &FinalizeCx<'_>, rows: usize) -> Result<Tile, Error> {
        of_type!(cx.input(0)?.dtype(), [F32 = f32, F16 = F16], T => {
            let tile: Tile = if rows > 1 { Self::sum::<T, ROWS> } else { Self::sum::<T, 1> };
            tile
        })
    }
}

/// Returns the output axis of columns.
fn channels(cx: &AcceptCx<'_>) -> Result<usize, Error> {
    Ok(cx.output(0)?.rank().saturating_sub(1))
}

/// The function of a work item.
type Tile = fn(&Tiled, WorkItem, &Buffers<'_>) -> Result<(), ExecError>;

/// Products batched over the axes before the last two.
pub(crate) struct MatMulGpu(Tiled);

impl MatMulGpu {
    /// Returns the kernel of the operator `name`.
    pub(crate) const fn def(name: &'static str) -> KernelDef {
        const RULES: &[PortRule] = &[input(0, REAL), input_like(1, 0), output_like(0, 0)];
        KernelDef::gpu::<Self>(name).ports(RULES)
    }
}

impl GpuKernel for MatMulGpu {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|Self(product), item, buffers| (product.tile)(product, item, buffers));

    fn accept(cx: &AcceptCx<'_>) -> Result<usize, Error> {
        Finish::accept(cx, channels(cx)?)
    }

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        check_lens(cx)?;
        let Products { batch, rows, depth, cols, .. } = Products::read(cx, [0, 1])?;
        let lefts = split(&cx.input(0)?, Side::Left)?.2;
        let rights = split(&cx.input(1)?, Side::Right)?.2;
        let steps = [
            Steps::broadcast(batch.shape(), lefts.dims(), rows * depth),
            Steps::broadcast(batch.shape(), rights.dims(), depth * cols),
        ];
        Ok(Self(Tiled {
            rows,
            depth,
            cols,
            a_steps: [depth, 1],
            b_steps: [cols, 1],
            scales: [1.0, 0.0],
            addend: None,
            batch: StridedAccess::new(batch.shape(), &steps),
            finish: Finish::read(cx, channels(cx)?)?,
            tile: Tiled::tile(cx, rows)?,
        }))
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        info.push_launch(self.0.launch()?);
        Ok(())
    }
}

/// `alpha * A * B + beta * C`, with either matrix optionally transposed.
pub(crate) struct GemmGpu(Tiled);

impl GemmGpu {
    /// Returns the kernel of the operator `name`.
    pub(crate) const fn def(name: &'static str) -> KernelDef {
        const RULES: &[PortRule] =
            &[input(0, REAL), input_like(1, 0), input_like(2, 0), output_like(0, 0)];
        KernelDef::gpu::<Self>(name).ports(RULES)
    }
}

impl GpuKernel for GemmGpu {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|Self(product), item, buffers| (product.tile)(product, item, buffers));

    fn accept(cx: &AcceptCx<'_>) -> Result<usize, Error> {
        Finish::accept(cx, channels(cx)?)
    }

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        check_lens(cx)?;
        let GemmSizes { rows, depth, cols, trans_a, trans_b, c_steps } =
            GemmSizes::read(cx, [0, 1, 2])?;
        let no_batch = Steps { start: 0, along: Vec::new() };
        let scales = [cx.float32("alpha")?, cx.float32("beta")?];
        // With `beta` 0, C is not read.
        let is_added = cx.has_input(2) && scales[1] != 0.0;
        Ok(Self(Tiled {
            rows,
            depth,
            cols,
            a_steps: if trans_a { [1, rows] } else { [depth, 1] },
            b_steps: if trans_b { [1, depth] } else { [cols, 1] },
            scales,
            addend: is_added.then_some(c_steps),
            batch: StridedAccess::new(&[], &[no_batch.clone(), no_batch]),
            finish: Finish::read(cx, channels(cx)?)?,
            tile: Tiled::tile(cx, rows)?,
        }))
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        info.push_launch(self.0.launch()?);
        Ok(())
    }
}
