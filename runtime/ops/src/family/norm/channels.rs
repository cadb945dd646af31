//! Operators that scale each channel and add to it.

use std::marker::PhantomData;

use udo_api::{
    Core, Error, ExecError, FinalizeCx, InferCx, Inputs, Io, Kernel, KernelDef, Op, OpSchema,
    Parallel, PortRule, Workspace, any_input, any_output,
};

use crate::Def;
use crate::family::axes::AxisSplit;
use crate::family::layout::{ChannelsLast, ChannelsSecond, Layout};
use crate::family::partition::row_grain;

/// What channels are scaled by. Its family has kernels for `f32` with the channels second or last, and threading.
pub(crate) trait ChannelNorm: Sized + Send + Sync + 'static {
    const SCHEMA: OpSchema;
    /// The kernel of the GPU.
    const GPU: KernelDef;

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error>;

    /// Reads the parameters.
    fn read(cx: &FinalizeCx<'_>) -> Result<Self, Error>;

    /// Writes what each channel is multiplied by, and what is added to it then.
    fn coefficients(
        &self,
        inputs: &Inputs<'_>,
        factors: &mut [f32],
        terms: &mut [f32],
    ) -> Result<(), ExecError>;
}

/// The operator that `N` says the coefficients of.
pub(crate) const fn channel_norm<N: ChannelNorm>() -> Def {
    Def::of::<Described<N>>(Described::<N>::KERNELS)
}

struct Described<N>(PhantomData<fn() -> N>);

impl<N: ChannelNorm> Described<N> {
    const KERNELS: &'static [KernelDef] =
        &[kernel::<N, ChannelsLast>(), kernel::<N, ChannelsSecond>(), N::GPU];
}

const fn kernel<N: ChannelNorm, L: Layout>() -> KernelDef {
    KernelDef::new::<Scaled<N, L>>(N::SCHEMA.name(), Core::CPU).ports(Scaled::<N, L>::RULES)
}

impl<N: ChannelNorm> Op for Described<N> {
    const SCHEMA: OpSchema = N::SCHEMA;

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        N::infer(cx)
    }
}

struct Scaled<N, L> {
    norm: N,
    split: AxisSplit,
    layout: PhantomData<L>,
}

impl<N, L: Layout> Scaled<N, L> {
    const RULES: &'static [PortRule] = &L::PORTS.of([any_input(0), any_output(0)]);
}

impl<N: ChannelNorm, L: Layout> Kernel for Scaled<N, L> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let axis = if L::PORTS.input { x.rank() - 1 } else { 1 };
        let split = AxisSplit::at(x.shape(), axis);
        Ok(Self { norm: N::read(cx)?, split, layout: PhantomData })
    }

    fn workspace(&self) -> Workspace {
        Workspace::of::<f32>(self.split.len).and::<f32>(self.split.len)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, mut scratch, parallel, .. } = io;
        let len = self.split.len;
        let (factors, terms) = (scratch.take::<f32>(len)?, scratch.take::<f32>(len)?);
        self.norm.coefficients(&inputs, factors, terms)?;
        let (x, y) = (inputs.get::<f32>(0)?, outputs.take::<f32>(0)?);
        scale(parallel, self.split, x, [factors, terms], y)
    }
}

/// `y = x * factor + term`, with the factor and the term of the channel.
fn scale(
    parallel: Parallel<'_>,
    AxisSplit { len, inner, .. }: AxisSplit,
    x: &[f32],
    [factors, terms]: [&[f32]; 2],
    y: &mut [f32],
) -> Result<(), ExecError> {
    if inner == 1 {
        let grain = row_grain(len);
        return parallel.chunks_mut(y, grain, |chunk, y| {
            let x = &x[chunk * grain..][..y.len()];
            for (x, y) in x.chunks_exact(len).zip(y.chunks_exact_mut(len)) {
                let by = factors.iter().zip(terms);
                y.iter_mut().zip(x).zip(by).for_each(|((y, x), (f, t))| *y = x * f + t);
            }
            Ok(())
        });
    }
    let grain = row_grain(inner);
    parallel.chunks_mut(y, grain, |chunk, y| {
        let planes = x[chunk * grain..].chunks_exact(inner).zip(y.chunks_exact_mut(inner));
        for ((x, y), plane) in planes.zip(chunk * grain / inner..) {
            let (factor, term) = (factors[plane % len], terms[plane % len]);
            y.iter_mut().zip(x).for_each(|(y, x)| *y = x * factor + term);
        }
        Ok(())
    })
}
