//! Weights of inputs or states: float or quantized.

use udo_api::{
    Error, ExecError, FinalizeCx, Inputs, PackedConstants, Parallel, Scratch, Workspace,
};
use udo_simd::gemm_f32::{Epilogue, Layout};

use super::{Cell, R, R_ENCODING, W_ENCODING};
use crate::family::matmul::{
    Buffers, DynamicPorts, DynamicRight, Factors, Product, Ready, RightSide,
};

/// The weights of every direction.
pub(super) enum Side {
    Numbers(RightSide),
    Quantized(DynamicRight),
}

/// Scratch memory for the weights.
pub(super) enum WeightScratch<'a> {
    Numbers(&'a mut [f32]),
    Quantized(Buffers<'a>),
}

/// The weights of one direction.
pub(super) enum Weights<'a> {
    Numbers(&'a [f32]),
    Quantized(Ready<'a>),
}

impl Side {
    /// Reads the weights at `port`, for products of `rows` rows of `depth` elements.
    pub(super) fn read<C: Cell>(
        cx: &FinalizeCx<'_>,
        port: usize,
        [rows, depth, cols]: [usize; 3],
        dirs: usize,
    ) -> Result<Self, Error> {
        if C::IS_QUANTIZED {
            let [scale, zero] = if port == R { R_ENCODING } else { W_ENCODING };
            let ports = DynamicPorts { values: port, scale, zero };
            return DynamicRight::read(cx, ports, [rows, depth, cols], dirs).map(Self::Quantized);
        }
        let right = Layout::Transposed;
        let product = Product { rows, depth, cols, right, factors: Factors::F32 };
        RightSide::read(cx, port, product, dirs).map(Self::Numbers)
    }

    /// Adds the scratch memory to the workspace.
    pub(super) fn and(&self, workspace: Workspace) -> Workspace {
        match self {
            Self::Numbers(side) => workspace.and::<f32>(side.scratch_len()),
            Self::Quantized(side) => side.and(workspace),
        }
    }

    pub(super) fn take<'a>(
        &self,
        scratch: &mut Scratch<'a>,
    ) -> Result<WeightScratch<'a>, ExecError> {
        Ok(match self {
            Self::Numbers(side) => WeightScratch::Numbers(scratch.take(side.scratch_len())?),
            Self::Quantized(side) => WeightScratch::Quantized(side.take(scratch)?),
        })
    }

    /// Returns the weights of a direction; those that are not constant are packed into `own`.
    pub(super) fn get<'a>(
        &self,
        inputs: &Inputs<'a>,
        packed: &PackedConstants<'a>,
        dir: usize,
        own: &'a mut WeightScratch<'_>,
    ) -> Result<Weights<'a>, ExecError> {
        Ok(match (self, own) {
            (Self::Numbers(side), WeightScratch::Numbers(own)) => {
                Weights::Numbers(side.get(inputs, packed, dir, own)?)
            }
            (Self::Quantized(side), WeightScratch::Quantized(own)) => {
                Weights::Quantized(side.get(inputs, packed, dir, own)?)
            }
            _ => return Err(ExecError::new(udo_api::Status::BAD_CALL)),
        })
    }

    /// `y = x weights + bias`.
    pub(super) fn run(
        &self,
        parallel: Parallel<'_>,
        x: &[f32],
        weights: &mut Weights<'_>,
        bias: Option<&[f32]>,
        y: &mut [f32],
    ) -> Result<(), ExecError> {
        match (self, weights) {
            (Self::Numbers(side), Weights::Numbers(weights)) => {
                let epilogue = Epilogue { bias, ..Epilogue::default() };
                side.product.run(parallel, x, weights, y, &epilogue)
            }
            (Self::Quantized(side), Weights::Quantized(weights)) => {
                side.run(parallel, x, weights, bias, y)
            }
            _ => Err(ExecError::new(udo_api::Status::BAD_CALL)),
        }
    }
}
