//! Operators that reduce some axes of a tensor, such as `ReduceSum`: the elements along these axes become one.

#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
mod accumulate;
mod cpu;
mod dsp;
mod gpu;
mod plan;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use udo_api::{
    DType, Dim, Error, InferCx, KernelDef, Node, Op, OpSchema, Param, Port, Shape, TensorDesc,
    TypeSet, Value, types,
};

pub(crate) use accumulate::{
    Accumulate, Greatest, Least, LogOfSumOfPowers, Product, Sum, SumOfSizes, SumOfSquares,
};

use crate::Def;
use crate::family::argument::IntsArgument;
use crate::family::axes::resolve_axes;
use crate::number::Number;
use cpu::{Bools, Numbers};
use dsp::QuantKernel;
use gpu::ReduceGpu;
pub(crate) use gpu::ReducedLanes;
use plan::{Plan, Reduced};

/// A reduction. The family provides schema, inference, kernels for every core, and tests.
pub(crate) trait Reduce: Send + Sync + 'static {
    const NAME: &'static str;
    /// The accumulator of elements.
    type By: Accumulate;
    /// OpenCL expression of [`Reduce::end`], in the floats `y` and `count`.
    const OPENCL_END: &'static str = "y";
    /// The f64 reference for tests.
    #[cfg_attr(not(test), expect(dead_code, reason = "only tests read the reference"))]
    const TEST: fn(&[f64]) -> f64;

    /// Computes the result from the accumulator `y` of `count` elements.
    fn end<T: Number>(y: T, _count: usize) -> T {
        y
    }
}

/// Defines the operator of the reduction `R`.
pub(crate) const fn reduce<R: Reduce>() -> Def {
    let def = Def::new::<Described<R>>(Kernels::<R>::KERNELS);
    #[cfg(test)]
    let def = def.tested(tests::run_all::<R>);
    def
}

/// The operator of the reduction `R`.
struct Described<R>(PhantomData<fn() -> R>);

impl<R: Reduce> Described<R> {
    /// Quantized types are for the DSP, except where the CPU computes them as integers; the GPU accepts f16 storage.
    const TYPES: TypeSet = {
        let types = R::By::TYPES.or(types::F16).or(types::U8).or(types::I8);
        if R::By::SUPPORTS_BOOL { types.or(types::BOOL) } else { types }
    };
    const IN: &'static [Port] = &[Port::required("data", Self::TYPES), AXES.port()];
    const OUT: &'static [Port] = &[Port::required("reduced", Self::TYPES)];
    const PARAMS: &'static [Param] = &[
        Param::scalar("keepdims", DType::I64).default(Value::int(1)),
        Param::scalar("noop_with_empty_axes", DType::I64).default(Value::int(0)),
    ];
}

impl<R: Reduce> Op for Described<R> {
    const SCHEMA: OpSchema = OpSchema::new(R::NAME, Self::IN, Self::OUT, Self::PARAMS);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (x, axes) = (cx.input(0)?, ReducedAxes::read(cx)?);
        let dtype = x.dtype().ok_or_else(|| Error::new(format!("input 0 is {x}")))?;
        let shape = x.full_shape();
        let dims = shape.iter().enumerate().filter_map(|(axis, dim)| {
            match (axes.has(axis), axes.reduced) {
                (false, _) => Some(dim),
                (true, Reduced::Stay) => Some(Dim::Fixed(1)),
                (true, Reduced::Go) => None,
            }
        });
        let shape = Shape::from_dims(&dims.collect::<Vec<_>>())?;
        cx.set_output(0, TensorDesc::new(dtype, shape))
    }
}

/// The kernels of the reduction `R`.
struct Kernels<R>(PhantomData<fn() -> R>);

impl<R: Reduce> Kernels<R> {
    const ALL: [KernelDef; 4] =
        [Numbers::<R>::DEF, ReduceGpu::<R>::DEF, QuantKernel::<R>::DEF, Bools::<R>::DEF];
    const KERNELS: &'static [KernelDef] =
        if R::By::SUPPORTS_BOOL { &Self::ALL } else { Self::ALL.split_at(3).0 };
}

const AXES: IntsArgument = IntsArgument { input: 1, name: "axes", what: "axes" };

/// The axes that a node reduces.
#[derive(Clone, Copy, Debug)]
struct ReducedAxes {
    /// A bit per reduced axis.
    mask: u32,
    reduced: Reduced,
}

impl ReducedAxes {
    fn read(node: &Node<'_>) -> Result<Self, Error> {
        let reduced = if node.flag("keepdims")? { Reduced::Stay } else { Reduced::Go };
        let shape = node.input(0)?.full_shape();
        let requested = AXES.read(node)?.unwrap_or_default();
        let axes = resolve_axes(&requested, shape.rank()).ok_or_else(|| {
            Error::new(format!("axes {requested:?} are not for a tensor of shape {shape}"))
        })?;
        if axes.is_empty() && !node.flag("noop_with_empty_axes")? {
            return Ok(Self { mask: (1 << shape.rank()) - 1, reduced });
        }
        Ok(Self { mask: axes.iter().fold(0, |mask, axis| mask | 1 << axis), reduced })
    }

    fn has(self, axis: usize) -> bool {
        self.mask >> axis & 1 == 1
    }

    fn plan(self, dims: &[usize]) -> Plan {
        Plan::new(dims, self.mask, self.reduced)
    }
}
