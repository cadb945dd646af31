//! GPU kernels that move elements of any width, one per work item. Three kinds of movement: at strided positions, by a
//! walk along each axis, and between a tensor and its strips.

use std::fmt::Write as _;
use std::marker::PhantomData;

use udo_api::{
    Bits, Buffers, DType, Error, ExecError, FinalizeCx, GpuArg, GpuKernel, KernelDef, KernelInfo,
    Launch, PortRule, WorkItemFn, input, input_like, output_like, types,
};

use super::{Movement, Strips, Walks};
use crate::family::gpu::{StridedAccess, check_lens, int, ints, width};

const RULES: &[PortRule] = &[input(0, types::ANY), output_like(0, 0)];

/// Returns the build option that selects the element type of a source.
pub(crate) fn element(dtype: Option<DType>) -> String {
    format!("-DELEMENT={}", width(dtype))
}

/// The body of a work item, per element width.
type Item<K> = fn(&K, usize, &Buffers<'_>) -> Result<(), ExecError>;

/// A movement that reads each output element at a strided position.
pub(crate) trait Strided: Send + Sync + 'static {
    /// Returns how positions of the only input map to those of the output.
    fn access(cx: &FinalizeCx<'_>) -> Result<StridedAccess, Error>;
}

/// Returns the GPU kernel of the operator `name` for the movement `M`.
pub(crate) const fn strided<M: Strided>(name: &'static str) -> KernelDef {
    KernelDef::gpu::<StridedGpu<M>>(name).ports(RULES)
}

/// GPU kernel of the strided movement `M`.
struct StridedGpu<M> {
    access: StridedAccess,
    element: String,
    item: Item<Self>,
    marker: PhantomData<fn() -> M>,
}

impl<M: Strided> GpuKernel for StridedGpu<M> {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|kernel, item, buffers| (kernel.item)(kernel, item.global_id[0], buffers));

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        check_lens(cx)?;
        let dtype = cx.input(0)?.dtype();
        let item = of_width!(dtype, B => Self::item::<B> as Item<Self>)?;
        Ok(Self { access: M::access(cx)?, element: element(dtype), item, marker: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let text = format!(
            "__kernel void udo_move(__global const ELEMENT *x, __global ELEMENT *y{}) {{\n    \
             const int i = get_global_id(0);\n{}    y[i] = x[p0];\n}}\n",
            self.access.params(),
            self.access.places()
        );
        let launch = Launch::new(text, "udo_move").options(self.element.clone());
        let launch = launch.args([GpuArg::input(0), GpuArg::output(0)]).args(self.access.args()?);
        info.push_launch(launch.global_size([self.access.len(), 1, 1]));
        Ok(())
    }
}

impl<M> StridedGpu<M> {
    fn item<B: Bits>(&self, i: usize, buffers: &Buffers<'_>) -> Result<(), ExecError> {
        buffers.set_bits(0, i, buffers.get_bits::<B>(0, self.access.place(0, i))?)
    }
}

/// A movement that walks along each axis of the input (see [`Walks`]).
pub(crate) trait Walked: Movement {
    /// The input with the value of positions outside the input; `None` if that is 0.
    const FILL: Option<u32> = None;

    /// Returns the walks, which must be known before the run.
    fn walks(cx: &FinalizeCx<'_>) -> Result<Walks, Error>;
}

/// Returns the GPU kernel of the operator `M`.
pub(crate) const fn walked<M: Walked>() -> KernelDef {
    const FILLED: &[PortRule] = &[input(0, types::ANY), input_like(2, 0), output_like(0, 0)];
    let rules = if M::FILL.is_some() { FILLED } else { RULES };
    KernelDef::gpu::<WalkedGpu<M>>(M::SCHEMA.name()).ports(rules)
}

/// OpenCL function that maps a position to one of the input axis. Positions outside it are mapped by the mode `beyond`
/// (the discriminant of [`super::Beyond`]), or to -1 if the fill value applies.
const SOURCE_OF_AXIS: &str = "
int udo_source(const int at, const int extent, const int beyond) {
    if (extent == 0 || (at >= 0 && at < extent)) return extent == 0 ? -1 : at;
    if (beyond == 0) return -1;
    if (beyond == 1) return clamp(at, 0, extent - 1);
    if (beyond == 2 && extent == 1) return 0;
    const int period = beyond == 2 ? 2 * (extent - 1) : extent;
    const int rest = (at % period + period) % period;
    return rest < extent ? rest : period - rest;
}
";

/// GPU kernel of the walk `M`.
struct WalkedGpu<M> {
    walks: Walks,
    /// The input with the fill value.
    fill: Option<u32>,
    element: String,
    item: Item<Self>,
    marker: PhantomData<fn() -> M>,
}

impl<M: Walked> GpuKernel for WalkedGpu<M> {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|kernel, item, buffers| (kernel.item)(kernel, item.global_id[0], buffers));

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        check_lens(cx)?;
        let dtype = cx.input(0)?.dtype();
        let item = of_width!(dtype, B => Self::item::<B> as Item<Self>)?;
        let fill = M::FILL.filter(|&port| cx.has_input(port as usize));
        let walks = M::walks(cx)?;
        Ok(Self { walks, fill, element: element(dtype), item, marker: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let (mut params, mut places, mut numbers) = (String::new(), String::new(), Vec::new());
        for (axis, (walk, stride)) in self.walks.axes().into_iter().enumerate().rev() {
            for name in ["len", "start", "step", "extent", "beyond", "from", "stride"] {
                let _ = write!(params, ", const int {name}{axis}");
            }
            let _ = writeln!(
                places,
                "    at = udo_source(start{axis} + rest % len{axis} * step{axis}, extent{axis}, beyond{axis});\n    \
                 rest /= len{axis};\n    is_inside &= at >= 0;\n    place += (from{axis} + at) * stride{axis};"
            );
            let beyond = walk.beyond as isize;
            let signed = [walk.len.cast_signed(), walk.start, walk.step];
            let sizes = [walk.from, stride].map(usize::cast_signed);
            let args = signed.into_iter().chain([walk.extent.cast_signed(), beyond]).chain(sizes);
            numbers.extend(args.map(int).collect::<Result<Vec<_>, _>>()?);
        }
        let (param, value) = match self.fill {
            Some(_) => ("__global const ELEMENT *fill, ", "fill[0]"),
            None => ("", "0"),
        };
        let text = format!(
            "{SOURCE_OF_AXIS}__kernel void udo_walk(__global const ELEMENT *x, {param}\n    \
             __global ELEMENT *y{params}) {{\n    const int i = get_global_id(0);\n    \
             int rest = i, place = 0, at;\n    bool is_inside = true;\n{places}    \
             y[i] = is_inside ? x[place] : {value};\n}}\n"
        );
        let inputs = [0].into_iter().chain(self.fill).map(GpuArg::input);
        let launch = Launch::new(text, "udo_walk").options(self.element.clone()).args(inputs);
        let launch = launch.args([GpuArg::output(0)]).args(numbers);
        info.push_launch(launch.global_size([self.walks.len(), 1, 1]));
        Ok(())
    }
}

impl<M> WalkedGpu<M> {
    fn item<B: Bits>(&self, i: usize, buffers: &Buffers<'_>) -> Result<(), ExecError> {
        let bits = match (self.walks.place(i), self.fill) {
            (Some(place), _) => buffers.get_bits::<B>(0, place)?,
            (None, Some(port)) => buffers.get_bits::<B>(port as usize, 0)?,
            (None, None) => B::default(),
        };
        buffers.set_bits(0, i, bits)
    }
}

/// The side of a strip movement that has the joined rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Joins: the only output has the rows, its strips are the inputs.
    Join,
    /// Cuts: the only input has the rows, its strips are the outputs.
    Cut,
}

/// A movement between a tensor and its strips.
pub(crate) trait Stripped: Movement {
    const DIRECTION: Direction;

    /// Returns the strips of the joined rows.
    fn strips(cx: &FinalizeCx<'_>) -> Result<Strips, Error>;
}

/// Returns the GPU kernel of the operator `M`.
pub(crate) const fn stripped<M: Stripped>() -> KernelDef {
    KernelDef::gpu::<StripsGpu<M>>(M::SCHEMA.name()).ports(RULES)
}

/// GPU kernel: one element of the whole per work item.
struct StripsGpu<M> {
    strips: Strips,
    len: usize,
    element: String,
    item: Item<Self>,
    marker: PhantomData<fn() -> M>,
}

impl<M: Stripped> GpuKernel for StripsGpu<M> {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|kernel, item, buffers| (kernel.item)(kernel, item.global_id[0], buffers));

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        check_lens(cx)?;
        let whole = match M::DIRECTION {
            Direction::Join => cx.output(0)?,
            Direction::Cut => cx.input(0)?,
        };
        let item = of_width!(whole.dtype(), B => Self::item::<B> as Item<Self>)?;
        let (strips, element) = (M::strips(cx)?, element(whole.dtype()));
        Ok(Self { strips, len: whole.len(), element, item, marker: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        // Parameters for the joined tensor (`whole`) and its parts, and the statement that copies element `i` of the
        // whole.
        let (whole, part) = match M::DIRECTION {
            Direction::Join => ("ELEMENT *whole", "const ELEMENT *part"),
            Direction::Cut => ("const ELEMENT *whole", "ELEMENT *part"),
        };
        let copy = |index: usize| match M::DIRECTION {
            Direction::Join => format!("whole[i] = part{index}[place]"),
            Direction::Cut => format!("part{index}[place] = whole[i]"),
        };
        let mut text = "__kernel void udo_strips(".to_owned();
        for index in 0..self.strips.widths.len() {
            let _ = write!(text, "__global {part}{index}, const int width{index}, ");
        }
        let _ = write!(
            text,
            "__global {whole}, const int row) {{\n    const int i = get_global_id(0);\n    "
        );
        text += "int col = i % row, place;\n";
        for index in 0..self.strips.widths.len() {
            let _ = writeln!(
                text,
                "    if (col >= 0 && col < width{index}) {{ place = i / row * width{index} + col; {}; }}\n    \
                 col -= width{index};",
                copy(index)
            );
        }
        text += "}\n";
        let (part, whole): (fn(u32) -> GpuArg, _) = match M::DIRECTION {
            Direction::Join => (GpuArg::input, GpuArg::output(0)),
            Direction::Cut => (GpuArg::output, GpuArg::input(0)),
        };
        let widths = ints(self.strips.widths.iter().copied())?;
        let parts = (0..).zip(widths).flat_map(|(index, width)| [part(index), width]);
        let launch = Launch::new(text, "udo_strips").options(self.element.clone()).args(parts);
        let launch = launch.args([whole]).args(ints([self.strips.row])?);
        info.push_launch(launch.global_size([self.len, 1, 1]));
        Ok(())
    }
}

impl<M: Stripped> StripsGpu<M> {
    fn item<B: Bits>(&self, i: usize, buffers: &Buffers<'_>) -> Result<(), ExecError> {
        let Some((part, place)) = self.strips.place(i) else { return Ok(()) };
        match M::DIRECTION {
            Direction::Join => buffers.set_bits(0, i, buffers.get_bits::<B>(part, place)?),
            Direction::Cut => buffers.set_bits(part, place, buffers.get_bits::<B>(0, i)?),
        }
    }
}
