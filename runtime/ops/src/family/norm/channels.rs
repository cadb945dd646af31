//! Operators that compute `x * factor + term` with a factor and a term per channel, such as `BatchNormalization`.

use std::marker::PhantomData;

use udo_api::{
    AcceptCx, Activation, Core, EpilogueOp, EpilogueStep, Error, ExecError, FinalizeCx, InferCx,
    Inputs, Io, Kernel, KernelDef, Op, OpSchema, Parallel, PortRule, Workspace, input, output_like,
    types,
};
use udo_simd::{Map3, Operand, Simd, map3};

use crate::Def;
use crate::family::axes::AxisSplit;
use crate::family::layout::{ChannelsLast, ChannelsSecond, Layout};
use crate::family::partition::row_grain;

/// With channels last, coefficients are repeated in scratch memory up to about this many, so that each call of the
/// vector function has enough work.
const TILE: usize = 1 << 9;

/// The coefficients of channels. The family provides f32 kernels with channels second or last, and threading.
pub(crate) trait ChannelNorm: Sized + Send + Sync + 'static {
    const SCHEMA: OpSchema;
    /// The operator's own kernels: for the GPU, and for f64 on the CPU.
    const OTHERS: [KernelDef; 2];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error>;

    /// Reads the parameters.
    fn read(cx: &FinalizeCx<'_>) -> Result<Self, Error>;

    /// Writes the factor and the term of each channel.
    fn coefficients(
        &self,
        inputs: &Inputs<'_>,
        factors: &mut [f32],
        terms: &mut [f32],
    ) -> Result<(), ExecError>;
}

/// Defines the operator of the coefficients `N`.
pub(crate) const fn channel_norm<N: ChannelNorm>() -> Def {
    Def::new::<Described<N>>(Described::<N>::KERNELS)
}

/// The operator of the coefficients `N`.
struct Described<N>(PhantomData<fn() -> N>);

impl<N: ChannelNorm> Described<N> {
    const KERNELS: &'static [KernelDef] =
        &[kernel::<N, ChannelsLast>(), kernel::<N, ChannelsSecond>(), N::OTHERS[0], N::OTHERS[1]];
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

/// CPU kernel of f32 images in the layout `L`.
struct Scaled<N, L> {
    norm: N,
    split: AxisSplit,
    scaling: Scaling,
    layout: PhantomData<L>,
}

impl<N, L: Layout> Scaled<N, L> {
    const RULES: &'static [PortRule] = &L::PORTS.pitched([input(0, types::F32), output_like(0, 0)]);

    /// Returns the number of channels that one call scales.
    fn tile_len(&self) -> usize {
        let AxisSplit { len, inner, .. } = self.split;
        if inner == 1 { len * TILE.div_ceil(len.max(1)) } else { len }
    }
}

impl<N: ChannelNorm, L: Layout> Kernel for Scaled<N, L> {
    fn accept(cx: &AcceptCx<'_>) -> Result<usize, Error> {
        Ok(usize::from(Scaling::within(cx.epilogue()).is_some()))
    }

    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let axis = if L::PORTS.input { x.rank() - 1 } else { 1 };
        let split = AxisSplit::at(x.shape(), axis);
        let scaling = Scaling::within(cx.epilogue()).unwrap_or(Scaling::UNBOUNDED);
        Ok(Self { norm: N::read(cx)?, split, scaling, layout: PhantomData })
    }

    fn workspace(&self) -> Workspace {
        Workspace::for_elements::<f32>(self.tile_len()).and::<f32>(self.tile_len())
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, mut scratch, parallel, .. } = io;
        let (len, tile) = (self.split.len, self.tile_len());
        let (factors, terms) = (scratch.take::<f32>(tile)?, scratch.take::<f32>(tile)?);
        self.norm.coefficients(&inputs, &mut factors[..len], &mut terms[..len])?;
        for start in (len..tile).step_by(len.max(1)) {
            factors.copy_within(..len, start);
            terms.copy_within(..len, start);
        }
        let is_dense = inputs.is_dense(0)? && outputs.is_dense(0)?;
        let (x, y) = (inputs.strided::<f32>(0)?, outputs.take_strided::<f32>(0)?);
        if is_dense {
            return self.scaling.scale(parallel, self.split, x.0, [factors, terms], y.0);
        }
        self.scaling.scale_rows(parallel, x, [&factors[..len], &terms[..len]], y)
    }
}

/// `x * factor + term`, clamped to bounds; NaN stays NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scaling {
    low: f32,
    high: f32,
}

impl Map3 for Scaling {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F, factor: S::F, term: S::F) -> S::F {
        let (y, low, high) = (s.fma(x, factor, term), s.splat(self.low), s.splat(self.high));
        let y = s.select(s.lt(y, low), low, y);
        s.select(s.lt(high, y), high, y)
    }
}

impl Scaling {
    const UNBOUNDED: Self = Self { low: f32::NEG_INFINITY, high: f32::INFINITY };

    /// Returns the bounds of the first epilogue step (an operation of a consumer node that the kernel can fuse), if it
    /// is a clamp.
    fn within(steps: &[EpilogueStep]) -> Option<Self> {
        match steps.first()?.op()? {
            EpilogueOp::Activation(Activation::Relu) => Some(Self { low: 0.0, ..Self::UNBOUNDED }),
            EpilogueOp::Activation(Activation::Clip(low, high)) => {
                Some(Self { low: low as f32, high: high as f32 })
            }
            _ => None,
        }
    }

    /// Scales channels by their factors and terms, which are repeated to fill a tile.
    fn scale(
        self,
        parallel: Parallel<'_>,
        AxisSplit { len, inner, .. }: AxisSplit,
        x: &[f32],
        [factors, terms]: [&[f32]; 2],
        y: &mut [f32],
    ) -> Result<(), ExecError> {
        let row = if inner == 1 { factors.len() } else { inner };
        let grain = row_grain(row);
        parallel.chunks_mut(y, grain, |chunk, y| {
            let first = chunk * grain / row.max(1);
            let x = &x[chunk * grain..][..y.len()];
            for ((x, y), index) in x.chunks(row).zip(y.chunks_mut(row)).zip(first..) {
                let channel = (inner > 1).then(|| index % len);
                let per_channel = |coefficients| operand(coefficients, channel, x.len());
                map3(self, x, per_channel(factors), per_channel(terms), y);
            }
            Ok(())
        })
    }
}

impl Scaling {
    /// Scales channels by their factors and terms, for channels last and strided pixels.
    fn scale_rows(
        self,
        parallel: Parallel<'_>,
        (x, x_stride): (&[f32], usize),
        [factors, terms]: [&[f32]; 2],
        (y, y_stride): (&mut [f32], usize),
    ) -> Result<(), ExecError> {
        let rows = row_grain(factors.len()) / factors.len().max(1);
        parallel.chunks_mut(y, rows * y_stride, |chunk, y| {
            let x = x[chunk * rows * x_stride..].chunks(x_stride);
            for (x, y) in x.zip(y.chunks_mut(y_stride)) {
                let len = factors.len();
                map3(self, &x[..len], factors, terms, &mut y[..len]);
            }
            Ok(())
        })
    }
}

/// Returns the coefficient of one channel as a scalar, or the first `len` of all.
fn operand(coefficients: &[f32], channel: Option<usize>, len: usize) -> Operand<'_> {
    match channel {
        Some(channel) => coefficients[channel].into(),
        None => coefficients[..len].into(),
    }
}
