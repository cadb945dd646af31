//! What the GPU makes of elements of more types than numbers of a storage: truths and integers, and elements of any width.

use std::marker::PhantomData;

use udo_api::{
    Bits, Bool, Buffers, DType, Element, Error, ExecError, FinalizeCx, GpuArg, GpuKernel,
    KernelDef, KernelInfo, Launch, PortRule, TypeSet, WorkItemFn, input, input_like, output,
    output_like, types,
};

use super::{Item, Operand, Operands, plain, real};
use crate::family::elementwise::{Bitwise, Compare, Logic, Predicate, Question, Ternary};
use crate::family::gpu::{EXACT, REAL, integer, width};
use crate::number::Number;

/// The comparison `C` of two operands.
pub(in crate::family::elementwise) struct CompareGpu<C> {
    operands: Operands,
    /// What integers are read as.
    integer: Option<&'static str>,
    item: Item<Self>,
    of: PhantomData<fn() -> C>,
}

impl<C: Compare> CompareGpu<C> {
    pub(in crate::family::elementwise) const DEF: KernelDef = {
        const RULES: &[PortRule] =
            &[input(0, REAL.or(types::INDEX)), input_like(1, 0), output(0, types::BOOL)];
        KernelDef::gpu::<Self>(C::NAME).ports(RULES)
    };

    fn real(&self, i: usize, buffers: &Buffers<'_>) -> Result<(), ExecError> {
        let [a, b] = self.operands.places(i);
        buffers.set(0, i, Bool::from(C::of(buffers.load(0, a)?, buffers.load(1, b)?)))
    }

    fn integers<T: Element + Number>(
        &self,
        i: usize,
        buffers: &Buffers<'_>,
    ) -> Result<(), ExecError> {
        let [a, b] = self.operands.places(i);
        let is_so = <C as Question>::of(buffers.get::<T>(0, a)?, buffers.get::<T>(1, b)?);
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
        Ok(Self { operands: Operands::of(cx)?, integer: integer(dtype), item, of: PhantomData })
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

/// One of two elements, by the truth in the first operand.
pub(in crate::family::elementwise) struct TernaryGpu<F> {
    operands: Operands,
    element: &'static str,
    item: Item<Self>,
    of: PhantomData<fn() -> F>,
}

impl<F: Ternary> TernaryGpu<F> {
    pub(in crate::family::elementwise) const DEF: KernelDef = {
        const RULES: &[PortRule] =
            &[input(0, types::BOOL), input(1, types::ANY), input_like(2, 1), output_like(0, 1)];
        KernelDef::gpu::<Self>(F::NAME).ports(RULES)
    };

    fn item<B: Bits>(&self, i: usize, buffers: &Buffers<'_>) -> Result<(), ExecError> {
        let [c, a, b] = self.operands.places(i);
        let truth = buffers.get::<Bool>(0, c)?.get();
        let y = F::of(truth, buffers.get_bits::<B>(1, a)?, buffers.get_bits::<B>(2, b)?);
        buffers.set_bits(0, i, y)
    }
}

impl<F: Ternary> GpuKernel for TernaryGpu<F> {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|kernel, item, buffers| (kernel.item)(kernel, item.global_id[0], buffers));

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let dtype = cx.input(1)?.dtype();
        let item = of_width!(dtype, B => Self::item::<B> as Item<Self>)?;
        Ok(Self { operands: Operands::of(cx)?, element: width(dtype), item, of: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let y = format!("ys[i] = {}", F::OPENCL);
        let truth = Operand { element: "uchar", read: "const bool c = x0[p0] != 0".to_owned() };
        let operands = [truth, plain(self.element, "a", 1), plain(self.element, "b", 2)];
        info.push_launch(self.operands.launch("udo_ternary", &operands, self.element, &y)?);
        Ok(())
    }
}

/// The function `L` of bits, or of truths.
pub(in crate::family::elementwise) struct BitsGpu<L> {
    operands: Operands,
    is_of_truths: bool,
    element: &'static str,
    item: Item<Self>,
    of: PhantomData<fn() -> L>,
}

impl<L: Logic + Bitwise> BitsGpu<L> {
    const RULES: &'static [PortRule] = &[input(0, L::TYPES), input_like(1, 0), output_like(0, 0)];
    pub(in crate::family::elementwise) const DEF: KernelDef =
        KernelDef::gpu::<Self>(L::NAME).ports(Self::RULES);

    fn truth(&self, i: usize, buffers: &Buffers<'_>) -> Result<(), ExecError> {
        let [a, b] = self.operands.places(i);
        let [a, b] = [buffers.get::<Bool>(0, a)?, buffers.get::<Bool>(1, b)?];
        buffers.set(0, i, Bool::from(L::of(a.get().into(), b.get().into()) != 0))
    }

    fn bits<B: Bits + Into<u64> + Cut>(
        &self,
        i: usize,
        buffers: &Buffers<'_>,
    ) -> Result<(), ExecError> {
        let [a, b] = self.operands.places(i);
        let [a, b] = [buffers.get_bits::<B>(0, a)?, buffers.get_bits::<B>(1, b)?];
        buffers.set_bits(0, i, B::cut(L::of(a.into(), b.into())))
    }
}

/// The last bits of 64.
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
        let is_of_truths = dtype == Some(DType::Bool);
        let item = if is_of_truths {
            Self::truth
        } else {
            of_width!(dtype, B => Self::bits::<B> as Item<Self>)?
        };
        let (operands, element) = (Operands::of(cx)?, width(dtype));
        Ok(Self { operands, is_of_truths, element, item, of: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let y = format!("ys[i] = {}", <L as Bitwise>::OPENCL);
        let operand = |name: &str, port: usize| {
            if self.is_of_truths {
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

/// The question `P` about each element.
pub(in crate::family::elementwise) struct PredicateGpu<P> {
    len: usize,
    params: [bool; 2],
    is_of_truths: bool,
    of: PhantomData<fn() -> P>,
}

impl<P: Predicate> PredicateGpu<P> {
    const TYPES: TypeSet = P::TYPES.and(REAL.or(types::BOOL));
    const RULES: &'static [PortRule] = &[input(0, Self::TYPES), output(0, types::BOOL)];
    pub(in crate::family::elementwise) const DEF: KernelDef =
        KernelDef::gpu::<Self>(P::NAME).ports(Self::RULES);
}

impl<P: Predicate> GpuKernel for PredicateGpu<P> {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(|kernel, item, buffers| {
        let [i, ..] = item.global_id;
        let x = if kernel.is_of_truths {
            f64::from(u8::from(buffers.get::<Bool>(0, i)?.get()))
        } else {
            buffers.load(0, i)?.into()
        };
        buffers.set(0, i, Bool::from(P::of(x, kernel.params)))
    });

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let is_of_truths = x.dtype() == Some(DType::Bool);
        let params = P::params(cx)?;
        Ok(Self { len: x.len(), params, is_of_truths, of: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let (element, x) = if self.is_of_truths {
            ("uchar", "xs[i] != 0")
        } else {
            ("UDO_STORAGE", "UDO_LOAD(xs, i)")
        };
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
