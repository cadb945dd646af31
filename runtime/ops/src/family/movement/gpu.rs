//! Elements of any width on the GPU, one per work item.

use std::fmt::Write as _;
use std::marker::PhantomData;

use udo_api::{
    Bits, Buffers, DType, Error, ExecError, FinalizeCx, GpuArg, GpuKernel, KernelDef, KernelInfo,
    Launch, PortRule, WorkItemFn, input, input_like, output_like, types,
};

use super::{Movement, Strips, Walks};
use crate::family::gpu::{Meeting, check_lens, int, ints};

const RULES: &[PortRule] = &[input(0, types::ANY), output_like(0, 0)];

/// The build option that says what a source reads elements of a type as.
pub(crate) fn element(dtype: Option<DType>) -> &'static str {
    match dtype.map(DType::size_bytes) {
        Some(1) => "-DELEMENT=uchar",
        Some(2) => "-DELEMENT=ushort",
        Some(4) => "-DELEMENT=uint",
        _ => "-DELEMENT=ulong",
    }
}

/// What a work item does, for the width of the elements.
type Item<K> = fn(&K, usize, &Buffers<'_>) -> Result<(), ExecError>;

/// A movement that takes each element of the output from a place at strides.
pub(crate) trait Strided: Send + Sync + 'static {
    /// How the places of the input, the only tensor of it, meet those of the output.
    fn meeting(cx: &FinalizeCx<'_>) -> Result<Meeting, Error>;
}

/// The GPU kernel of the operator `name`, whose elements move as `M` says.
pub(crate) const fn strided<M: Strided>(name: &'static str) -> KernelDef {
    KernelDef::gpu::<StridedGpu<M>>(name).ports(RULES)
}

struct StridedGpu<M> {
    meeting: Meeting,
    element: &'static str,
    item: Item<Self>,
    of: PhantomData<fn() -> M>,
}

impl<M: Strided> GpuKernel for StridedGpu<M> {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|kernel, item, buffers| (kernel.item)(kernel, item.global_id[0], buffers));

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        check_lens(cx)?;
        let dtype = cx.input(0)?.dtype();
        let item = of_width!(dtype, B => Self::item::<B> as Item<Self>)?;
        Ok(Self { meeting: M::meeting(cx)?, element: element(dtype), item, of: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let text = format!(
            "__kernel void udo_move(__global const ELEMENT *x, __global ELEMENT *y{}) {{\n    \
             const int i = get_global_id(0);\n{}    y[i] = x[p0];\n}}\n",
            self.meeting.params(),
            self.meeting.places()
        );
        let launch = Launch::new(text, "udo_move").options(self.element);
        let launch = launch.args([GpuArg::input(0), GpuArg::output(0)]).args(self.meeting.args()?);
        info.push_launch(launch.global_size([self.meeting.len(), 1, 1]));
        Ok(())
    }
}

impl<M> StridedGpu<M> {
    fn item<B: Bits>(&self, i: usize, buffers: &Buffers<'_>) -> Result<(), ExecError> {
        buffers.set_bits(0, i, buffers.get_bits::<B>(0, self.meeting.place(0, i))?)
    }
}

/// A movement that walks along each axis of the input.
pub(crate) trait Walked: Movement {
    /// The input that says what lies beyond, where there is one; else it is 0.
    const FILL: Option<u32> = None;

    /// The walks, which have to be known.
    fn walks(cx: &FinalizeCx<'_>) -> Result<Walks, Error>;
}

/// The GPU kernel of the operator `M`.
pub(crate) const fn walked<M: Walked>() -> KernelDef {
    const FILLED: &[PortRule] = &[input(0, types::ANY), input_like(2, 0), output_like(0, 0)];
    let rules = if M::FILL.is_some() { FILLED } else { RULES };
    KernelDef::gpu::<WalkedGpu<M>>(M::SCHEMA.name()).ports(rules)
}

/// Where a position lies in an axis, by the number of what lies beyond it; -1 where nothing of the axis does.
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

struct WalkedGpu<M> {
    walks: Walks,
    /// The input that says what lies beyond.
    fill: Option<u32>,
    element: &'static str,
    item: Item<Self>,
    of: PhantomData<fn() -> M>,
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
        Ok(Self { walks, fill, element: element(dtype), item, of: PhantomData })
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
            let all = signed.into_iter().chain([walk.extent.cast_signed(), beyond]).chain(sizes);
            numbers.extend(all.map(int).collect::<Result<Vec<_>, _>>()?);
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
        let launch = Launch::new(text, "udo_walk").options(self.element).args(inputs);
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

/// The GPU kernel of the operator `name`, whose inputs are strips of the rows of its output.
pub(crate) const fn joined<M: Stripped>(name: &'static str) -> KernelDef {
    KernelDef::gpu::<JoinGpu<M>>(name).ports(RULES)
}

/// The GPU kernel of the operator `name`, whose outputs are strips of the rows of its input.
pub(crate) const fn cut<M: Stripped>(name: &'static str) -> KernelDef {
    KernelDef::gpu::<CutGpu<M>>(name).ports(RULES)
}

/// A movement of strips.
pub(crate) trait Stripped: Send + Sync + 'static {
    fn strips(cx: &FinalizeCx<'_>) -> Result<Strips, Error>;
}

struct JoinGpu<M> {
    strips: StripsGpu,
    item: Item<Self>,
    of: PhantomData<fn() -> M>,
}

impl<M: Stripped> GpuKernel for JoinGpu<M> {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|kernel, item, buffers| (kernel.item)(kernel, item.global_id[0], buffers));

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let strips = StripsGpu::of(cx, M::strips(cx)?, cx.output(0)?.len())?;
        let item = of_width!(cx.input(0)?.dtype(), B => Self::item::<B> as Item<Self>)?;
        Ok(Self { strips, item, of: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let args = (0..).take(self.strips.of.widths.len()).map(GpuArg::input);
        let args = args.chain([GpuArg::output(0)]);
        info.push_launch(self.strips.launch("const ELEMENT *x", "ELEMENT *y", args, |part| {
            format!("y[i] = x{part}[place]")
        })?);
        Ok(())
    }
}

impl<M> JoinGpu<M> {
    fn item<B: Bits>(&self, i: usize, buffers: &Buffers<'_>) -> Result<(), ExecError> {
        let Some((part, place)) = self.strips.of.place(i) else { return Ok(()) };
        buffers.set_bits(0, i, buffers.get_bits::<B>(part, place)?)
    }
}

struct CutGpu<M> {
    strips: StripsGpu,
    item: Item<Self>,
    of: PhantomData<fn() -> M>,
}

impl<M: Stripped> GpuKernel for CutGpu<M> {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|kernel, item, buffers| (kernel.item)(kernel, item.global_id[0], buffers));

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let strips = StripsGpu::of(cx, M::strips(cx)?, cx.input(0)?.len())?;
        let item = of_width!(cx.input(0)?.dtype(), B => Self::item::<B> as Item<Self>)?;
        Ok(Self { strips, item, of: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let args = (0..).take(self.strips.of.widths.len()).map(GpuArg::output);
        let args = args.chain([GpuArg::input(0)]);
        info.push_launch(self.strips.launch("ELEMENT *y", "const ELEMENT *x", args, |part| {
            format!("y{part}[place] = x[i]")
        })?);
        Ok(())
    }
}

impl<M> CutGpu<M> {
    fn item<B: Bits>(&self, i: usize, buffers: &Buffers<'_>) -> Result<(), ExecError> {
        let Some((part, place)) = self.strips.of.place(i) else { return Ok(()) };
        buffers.set_bits(part, place, buffers.get_bits::<B>(0, i)?)
    }
}

/// Rows of a whole that are strips of parts, one element of the whole per work item.
struct StripsGpu {
    of: Strips,
    len: usize,
    element: &'static str,
}

impl StripsGpu {
    fn of(cx: &FinalizeCx<'_>, strips: Strips, len: usize) -> Result<Self, Error> {
        check_lens(cx)?;
        Ok(Self { of: strips, len, element: element(cx.input(0)?.dtype()) })
    }

    /// The parts and the whole as parameters, and the statement that copies element `i` of the whole.
    fn launch(
        &self,
        part: &str,
        whole: &str,
        args: impl Iterator<Item = GpuArg>,
        copy: impl Fn(usize) -> String,
    ) -> Result<Launch, Error> {
        let mut text = "__kernel void udo_strips(".to_owned();
        for index in 0..self.of.widths.len() {
            let _ = write!(text, "__global {part}{index}, const int width{index}, ");
        }
        let _ = write!(
            text,
            "__global {whole}, const int row) {{\n    const int i = get_global_id(0);\n    "
        );
        text += "int col = i % row, place;\n";
        for index in 0..self.of.widths.len() {
            let _ = writeln!(
                text,
                "    if (col >= 0 && col < width{index}) {{ place = i / row * width{index} + col; {}; }}\n    \
                 col -= width{index};",
                copy(index)
            );
        }
        text += "}\n";
        let widths = ints(self.of.widths.iter().copied().chain([self.of.row]))?;
        let args = args.zip(widths).flat_map(|(tensor, width)| [tensor, width]);
        let launch = Launch::new(text, "udo_strips").options(self.element).args(args);
        Ok(launch.global_size([self.len, 1, 1]))
    }
}
