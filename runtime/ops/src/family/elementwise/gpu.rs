//! Elementwise functions on the GPU, one element per work item.

use std::fmt::Write as _;
use std::marker::PhantomData;

use udo_api::{
    Bits, Bool, Buffers, DType, Element, Error, ExecError, FinalizeCx, GpuArg, GpuKernel,
    KernelDef, KernelInfo, Launch, PortRule, TensorDesc, TypeSet, WorkItemFn, input, input_like,
    output, output_like, types,
};

use super::{Binary, End, Limited, Repeated, Unary};
use crate::family::elementwise::{Bitwise, Compare, Logic, PairPredicate, Predicate, Ternary};
use crate::family::gpu::{EXACT, REAL, StridedAccess, integer, ints, width};
use crate::family::source::Source;
use crate::number::Number;

/// The unary function `U`.
pub(super) struct UnaryGpu<U> {
    len: usize,
    params: [f32; 2],
    marker: PhantomData<fn() -> U>,
}

impl<U: Unary> UnaryGpu<U> {
    const SOURCE: Source = Source::concat(&[
        "__kernel void udo_unary(__global const UDO_STORAGE *xs, __global UDO_STORAGE *ys,\n",
        "                        const float p, const float q) {\n",
        "    const size_t i = get_global_id(0);\n",
        "    const float x = UDO_LOAD(xs, i);\n",
        "    UDO_STORE(ys, i, ",
        U::OPENCL,
        ");\n}\n",
    ]);
    const TEXT: &'static str = Self::SOURCE.text();

    pub(super) const DEF: KernelDef = {
        const RULES: &[PortRule] = &[input(0, REAL), output_like(0, 0)];
        KernelDef::gpu::<Self>(U::NAME).ports(RULES)
    };
}

impl<U: Unary> GpuKernel for UnaryGpu<U> {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(|kernel, item, buffers| {
        let [i, ..] = item.global_id;
        buffers.store(0, i, U::in_f64(buffers.load(0, i)?, kernel.params))
    });

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { len: cx.output(0)?.len(), params: U::params(cx)?, marker: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let launch =
            Launch::new(Self::TEXT, "udo_unary").args([GpuArg::input(0), GpuArg::output(0)]);
        let launch = launch.args(self.params.map(GpuArg::f32));
        info.push_launch(launch.global_size([self.len, 1, 1]));
        Ok(())
    }
}

/// The binary function `B`.
pub(super) struct BinaryGpu<B> {
    operands: Operands,
    /// The OpenCL type of integers.
    integer: Option<&'static str>,
    item: Item<Self>,
    marker: PhantomData<fn() -> B>,
}

impl<B: Binary> BinaryGpu<B> {
    pub(super) const DEF: KernelDef = {
        const REALS: &[PortRule] = &[input(0, REAL), input_like(1, 0), output_like(0, 0)];
        const ALL: &[PortRule] =
            &[input(0, REAL.or(types::INDEX)), input_like(1, 0), output_like(0, 0)];
        KernelDef::gpu::<Self>(B::NAME).ports(if B::OF_BITS { ALL } else { REALS })
    };

    fn real(&self, i: usize, buffers: &Buffers<'_>) -> Result<(), ExecError> {
        let [a, b] = self.operands.places(i);
        let [a, b] = [buffers.load(0, a)?, buffers.load(1, b)?];
        buffers.store(0, i, B::F64(a.into(), b.into()) as f32)
    }

    fn integers<T: Element + Number>(
        &self,
        i: usize,
        buffers: &Buffers<'_>,
    ) -> Result<(), ExecError> {
        let [a, b] = self.operands.places(i);
        buffers.set(0, i, B::apply(buffers.get::<T>(0, a)?, buffers.get::<T>(1, b)?))
    }
}

impl<B: Binary> GpuKernel for BinaryGpu<B> {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|kernel, item, buffers| (kernel.item)(kernel, item.global_id[0], buffers));

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let dtype = cx.input(0)?.dtype();
        let (integer, item): (_, Item<Self>) = match dtype {
            Some(DType::I32) => (Some(width(dtype)), Self::integers::<i32>),
            Some(DType::I64) => (Some(width(dtype)), Self::integers::<i64>),
            _ => (None, Self::real),
        };
        Ok(Self { operands: Operands::new(cx)?, integer, item, marker: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let expression = B::OPENCL.unwrap_or_default();
        let launch = if let Some(element) = self.integer {
            let operands = [plain(element, "a", 0), plain(element, "b", 1)];
            self.operands.launch(
                "udo_binary",
                &operands,
                element,
                &format!("ys[i] = {expression}"),
            )?
        } else {
            let y = format!("UDO_STORE(ys, i, {expression})");
            let operands = [real("a", 0), real("b", 1)];
            self.operands.launch("udo_binary", &operands, "UDO_STORAGE", &y)?
        };
        info.push_launch(launch);
        Ok(())
    }
}

/// The repeated function `R`.
pub(super) struct RepeatedGpu<R> {
    operands: Operands,
    marker: PhantomData<fn() -> R>,
}

impl<R: Repeated> RepeatedGpu<R> {
    pub(super) const DEF: KernelDef = {
        const RULES: &[PortRule] = &[input(0, REAL), output_like(0, 0)];
        KernelDef::gpu::<Self>(R::NAME).ports(RULES)
    };
}

impl<R: Repeated> GpuKernel for RepeatedGpu<R> {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(|kernel, item, buffers| {
        let ([i, ..], Operands { count, access }) = (item.global_id, &kernel.operands);
        let mut y = buffers.load(0, access.place(0, i))?;
        for port in 1..*count {
            y = R::apply(y, buffers.load(port, access.place(port, i))?);
        }
        let y = if R::END == End::Mean { y / *count as f32 } else { y };
        buffers.store(0, i, y)
    });

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { operands: Operands::new(cx)?, marker: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let count = self.operands.count;
        // Loads each operand into a separate variable, then combines them in order.
        let operand = |port: usize| {
            let Operand { element, read } = real(&format!("x_{port}"), port);
            let take = match port {
                0 => "float y = x_0".to_owned(),
                _ => format!("{{ const float x = x_{port}; y = {}; }}", R::OPENCL),
            };
            Operand { element, read: format!("{read}; {take}") }
        };
        let operands: Vec<_> = (0..count).map(operand).collect();
        let y = match R::END {
            End::None => "UDO_STORE(ys, i, y)".to_owned(),
            End::Mean => format!("UDO_STORE(ys, i, y / {count}.0f)"),
        };
        info.push_launch(self.operands.launch("udo_repeated", &operands, "UDO_STORAGE", &y)?);
        Ok(())
    }
}

/// The function `L` of an element and two limits.
pub(super) struct LimitedGpu<L> {
    len: usize,
    is_given: [bool; 2],
    marker: PhantomData<fn() -> L>,
}

impl<L: Limited> LimitedGpu<L> {
    const SOURCE: Source = Source::concat(&[
        "__kernel void udo_limited(__global const UDO_STORAGE *xs, __global const UDO_STORAGE *lows,\n",
        "    __global const UDO_STORAGE *highs, __global UDO_STORAGE *ys,\n",
        "    const int has_low, const int has_high) {\n",
        "    const size_t i = get_global_id(0);\n",
        "    const float x = UDO_LOAD(xs, i);\n",
        "    const float low = has_low ? UDO_LOAD(lows, 0) : -INFINITY;\n",
        "    const float high = has_high ? UDO_LOAD(highs, 0) : INFINITY;\n",
        "    UDO_STORE(ys, i, ",
        L::OPENCL,
        ");\n}\n",
    ]);
    const TEXT: &'static str = Self::SOURCE.text();

    pub(super) const DEF: KernelDef = {
        const RULES: &[PortRule] =
            &[input(0, REAL), input_like(1, 0), input_like(2, 0), output_like(0, 0)];
        KernelDef::gpu::<Self>(L::NAME).ports(RULES)
    };
}

impl<L: Limited> GpuKernel for LimitedGpu<L> {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(|kernel, item, buffers| {
        let ([i, ..], [has_low, has_high]) = (item.global_id, kernel.is_given);
        let low = if has_low { buffers.load(1, 0)? } else { f32::NEG_INFINITY };
        let high = if has_high { buffers.load(2, 0)? } else { f32::INFINITY };
        buffers.store(0, i, L::apply(buffers.load(0, i)?, low, high))
    });

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let is_given = [1, 2].map(|port| cx.has_input(port));
        Ok(Self { len: cx.output(0)?.len(), is_given, marker: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let [low, high] = self.is_given;
        // An absent limit reads port 0, and its value is not used.
        let ports = [Some(0), low.then_some(1), high.then_some(2)];
        let launch = Launch::new(Self::TEXT, "udo_limited")
            .args(ports.map(|port| GpuArg::input(port.unwrap_or(0))))
            .args([GpuArg::output(0)])
            .args(ints([low, high].map(usize::from))?);
        info.push_launch(launch.global_size([self.len, 1, 1]));
        Ok(())
    }
}

/// Strided access to the operands.
struct Operands {
    count: usize,
    access: StridedAccess,
}

/// The OpenCL type of an operand's elements, and the statement that loads one.
struct Operand {
    element: &'static str,
    read: String,
}

/// The body of a work item, per element type.
type Item<K> = fn(&K, usize, &Buffers<'_>) -> Result<(), ExecError>;

/// Loads the element `name` of input `port` without conversion.
fn plain(element: &'static str, name: &str, port: usize) -> Operand {
    Operand { element, read: format!("const {element} {name} = x{port}[p{port}]") }
}

/// Loads the floating-point value `name` from input `port`.
fn real(name: &str, port: usize) -> Operand {
    let read = format!("const float {name} = UDO_LOAD(x{port}, p{port})");
    Operand { element: "UDO_STORAGE", read }
}

impl Operands {
    /// Returns the access to all inputs of a node, which broadcast to its output.
    fn new(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let count = cx.input_count();
        let inputs = (0..count).map(|port| cx.input(port)).collect::<Result<Vec<_>, _>>()?;
        let shapes: Vec<_> = inputs.iter().map(TensorDesc::shape).collect();
        Ok(Self { count, access: StridedAccess::broadcast(cx.output(0)?.shape(), &shapes) })
    }

    fn places<const N: usize>(&self, i: usize) -> [usize; N] {
        std::array::from_fn(|port| self.access.place(port, i))
    }

    /// Launches a work item per output element, of type `y_type` and computed by the statement `y`.
    fn launch(
        &self,
        name: &'static str,
        operands: &[Operand],
        y_type: &str,
        y: &str,
    ) -> Result<Launch, Error> {
        let mut text = format!("{EXACT}__kernel void {name}(");
        for (port, Operand { element, .. }) in operands.iter().enumerate() {
            let _ = write!(text, "__global const {element} *x{port}, ");
        }
        let _ = writeln!(text, "__global {y_type} *ys{}) {{", self.access.params());
        text += "    const int i = get_global_id(0);\n";
        text += &self.access.places();
        for Operand { read, .. } in operands {
            let _ = writeln!(text, "    {read};");
        }
        let _ = writeln!(text, "    {y};\n}}");
        let inputs = (0..).take(self.count).map(GpuArg::input);
        let launch = Launch::new(text, name).args(inputs).args([GpuArg::output(0)]);
        Ok(launch.args(self.access.args()?).global_size([self.access.len(), 1, 1]))
    }
}

// Functions of further types: bools, integers, and elements of any width.

/// The comparison `C` of two operands.
pub(super) struct CompareGpu<C> {
    operands: Operands,
    /// The OpenCL type of integers.
    integer: Option<&'static str>,
    item: Item<Self>,
    marker: PhantomData<fn() -> C>,
}

impl<C: Compare> CompareGpu<C> {
    pub(super) const DEF: KernelDef = {
        const RULES: &[PortRule] =
            &[input(0, REAL.or(types::INDEX)), input_like(1, 0), output(0, types::BOOL)];
        KernelDef::gpu::<Self>(C::NAME).ports(RULES)
    };

    fn real(&self, i: usize, buffers: &Buffers<'_>) -> Result<(), ExecError> {
        let [a, b] = self.operands.places(i);
        buffers.set(0, i, Bool::from(C::holds(buffers.load(0, a)?, buffers.load(1, b)?)))
    }

    fn integers<T: Element + Number>(
        &self,
        i: usize,
        buffers: &Buffers<'_>,
    ) -> Result<(), ExecError> {
        let [a, b] = self.operands.places(i);
        let is_so = <C as PairPredicate>::holds(buffers.get::<T>(0, a)?, buffers.get::<T>(1, b)?);
        buffers.set(0, i, Bool::from(is_so))
    }
}

impl<C: Compare> GpuKernel for CompareGpu<C> {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|kernel, item, buffers| (kernel.item)(kernel, item.global_id[0], buffers));

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let dtype = cx.input(0)?.dtype();
        let item: Item<Self> = match dtype {
            Some(DType::I32) => Self::integers::<i32>,
            Some(DType::I64) => Self::integers::<i64>,
            _ => Self::real,
        };
        Ok(Self {
            operands: Operands::new(cx)?,
            integer: integer(dtype),
            item,
            marker: PhantomData,
        })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let y = format!("ys[i] = ({}) ? 1 : 0", C::OPENCL);
        let operand = |name: &str, port: usize| match self.integer {
            Some(element) => plain(element, name, port),
            None => real(name, port),
        };
        let operands = [operand("a", 0), operand("b", 1)];
        info.push_launch(self.operands.launch("udo_compare", &operands, "uchar", &y)?);
        Ok(())
    }
}

/// Selects one of two elements by a bool.
pub(super) struct TernaryGpu<F> {
    operands: Operands,
    element: &'static str,
    item: Item<Self>,
    marker: PhantomData<fn() -> F>,
}

impl<F: Ternary> TernaryGpu<F> {
    pub(super) const DEF: KernelDef = {
        const RULES: &[PortRule] =
            &[input(0, types::BOOL), input(1, types::ANY), input_like(2, 1), output_like(0, 1)];
        KernelDef::gpu::<Self>(F::NAME).ports(RULES)
    };

    fn item<B: Bits>(&self, i: usize, buffers: &Buffers<'_>) -> Result<(), ExecError> {
        let [c, a, b] = self.operands.places(i);
        let condition = buffers.get::<Bool>(0, c)?.get();
        let y = F::apply(condition, buffers.get_bits::<B>(1, a)?, buffers.get_bits::<B>(2, b)?);
        buffers.set_bits(0, i, y)
    }
}

impl<F: Ternary> GpuKernel for TernaryGpu<F> {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|kernel, item, buffers| (kernel.item)(kernel, item.global_id[0], buffers));

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let dtype = cx.input(1)?.dtype();
        let item = of_width!(dtype, B => Self::item::<B> as Item<Self>)?;
        Ok(Self { operands: Operands::new(cx)?, element: width(dtype), item, marker: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let y = format!("ys[i] = {}", F::OPENCL);
        let condition = Operand { element: "uchar", read: "const bool c = x0[p0] != 0".to_owned() };
        let operands = [condition, plain(self.element, "a", 1), plain(self.element, "b", 2)];
        info.push_launch(self.operands.launch("udo_ternary", &operands, self.element, &y)?);
        Ok(())
    }
}

/// The bitwise or logical function `L`.
pub(super) struct BitsGpu<L> {
    operands: Operands,
    is_bool: bool,
    element: &'static str,
    item: Item<Self>,
    marker: PhantomData<fn() -> L>,
}

impl<L: Logic + Bitwise> BitsGpu<L> {
    const RULES: &'static [PortRule] = &[input(0, L::TYPES), input_like(1, 0), output_like(0, 0)];
    pub(super) const DEF: KernelDef = KernelDef::gpu::<Self>(L::NAME).ports(Self::RULES);

    fn bool_item(&self, i: usize, buffers: &Buffers<'_>) -> Result<(), ExecError> {
        let [a, b] = self.operands.places(i);
        let [a, b] = [buffers.get::<Bool>(0, a)?, buffers.get::<Bool>(1, b)?];
        buffers.set(0, i, Bool::from(L::apply(a.get().into(), b.get().into()) != 0))
    }

    fn bits<B: Bits + Into<u64> + Cut>(
        &self,
        i: usize,
        buffers: &Buffers<'_>,
    ) -> Result<(), ExecError> {
        let [a, b] = self.operands.places(i);
        let [a, b] = [buffers.get_bits::<B>(0, a)?, buffers.get_bits::<B>(1, b)?];
        buffers.set_bits(0, i, B::cut(L::apply(a.into(), b.into())))
    }
}

/// Truncation of u64 to a narrower type.
trait Cut {
    fn cut(bits: u64) -> Self;
}

macro_rules! cut {
    ($($t:ty),*) => {$(
        impl Cut for $t {
            fn cut(bits: u64) -> Self {
                bits as Self
            }
        }
    )*};
}

cut!(u8, u16, u32, u64);

impl<L: Logic + Bitwise> GpuKernel for BitsGpu<L> {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|kernel, item, buffers| (kernel.item)(kernel, item.global_id[0], buffers));

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let dtype = cx.input(0)?.dtype();
        let is_bool = dtype == Some(DType::Bool);
        let item = if is_bool {
            Self::bool_item
        } else {
            of_width!(dtype, B => Self::bits::<B> as Item<Self>)?
        };
        let (operands, element) = (Operands::new(cx)?, width(dtype));
        Ok(Self { operands, is_bool, element, item, marker: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let y = format!("ys[i] = {}", <L as Bitwise>::OPENCL);
        let operand = |name: &str, port: usize| {
            if self.is_bool {
                let read = format!("const bool {name} = x{port}[p{port}] != 0");
                return Operand { element: self.element, read };
            }
            plain(self.element, name, port)
        };
        let operands = [operand("a", 0), operand("b", 1)];
        info.push_launch(self.operands.launch("udo_bits", &operands, self.element, &y)?);
        Ok(())
    }
}

/// The predicate `P` of each element.
pub(super) struct PredicateGpu<P> {
    len: usize,
    params: [bool; 2],
    is_bool: bool,
    marker: PhantomData<fn() -> P>,
}

impl<P: Predicate> PredicateGpu<P> {
    const TYPES: TypeSet = P::TYPES.and(REAL.or(types::BOOL));
    const RULES: &'static [PortRule] = &[input(0, Self::TYPES), output(0, types::BOOL)];
    pub(super) const DEF: KernelDef = KernelDef::gpu::<Self>(P::NAME).ports(Self::RULES);
}

impl<P: Predicate> GpuKernel for PredicateGpu<P> {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(|kernel, item, buffers| {
        let [i, ..] = item.global_id;
        let x = if kernel.is_bool {
            f64::from(u8::from(buffers.get::<Bool>(0, i)?.get()))
        } else {
            buffers.load(0, i)?.into()
        };
        buffers.set(0, i, Bool::from(P::holds(x, kernel.params)))
    });

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let is_bool = x.dtype() == Some(DType::Bool);
        let params = P::params(cx)?;
        Ok(Self { len: x.len(), params, is_bool, marker: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let (element, x) =
            if self.is_bool { ("uchar", "xs[i] != 0") } else { ("UDO_STORAGE", "UDO_LOAD(xs, i)") };
        let text = format!(
            "{EXACT}__kernel void udo_predicate(__global const {element} *xs, __global uchar *ys,\n    \
             const int p, const int q) {{\n    const size_t i = get_global_id(0);\n    \
             const float x = {x};\n    ys[i] = ({}) ? 1 : 0;\n}}\n",
            P::OPENCL
        );
        let launch = Launch::new(text, "udo_predicate").args([GpuArg::input(0), GpuArg::output(0)]);
        let launch = launch.args(self.params.map(|param| GpuArg::i32(param.into())));
        info.push_launch(launch.global_size([self.len, 1, 1]));
        Ok(())
    }
}
