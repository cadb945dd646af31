//! The weights that a recurrent cell multiplies inputs (`W`) or hidden states (`R`) by: float or quantized.

use udo_api::{
    Error, ExecError, FinalizeCx, Inputs, PackedConstants, Parallel, Scratch, Workspace,
};
use udo_simd::gemm_f32::{Epilogue, Layout};

use super::{Cell, R, R_ENCODING, W_ENCODING};
use crate::family::matmul::{
    Buffers, DynamicPorts, DynamicRight, Factors, Product, Ready, RightSide,
};

/// The weights of all directions, for inputs or for hidden states.
pub(super) enum Side {
    Float(RightSide),
    Quantized(DynamicRight),
}

/// Scratch memory for the weights.
pub(super) enum WeightScratch<'a> {
    Float(&'a mut [f32]),
    Quantized(Buffers<'a>),
}

/// The weights of one direction.
pub(super) enum Weights<'a> {
    Float(&'a [f32]),
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
        RightSide::read(cx, port, product, dirs).map(Self::Float)
    }

    /// Adds the scratch memory to the workspace.
    pub(super) fn and(&self, workspace: Workspace) -> Workspace {
        match self {
            Self::Float(side) => workspace.and::<f32>(side.scratch_len()),
            Self::Quantized(side) => side.and(workspace),
        }
    }

    pub(super) fn take<'a>(
        &self,
        scratch: &mut Scratch<'a>,
    ) -> Result<WeightScratch<'a>, ExecError> {
        Ok(match self {
            Self::Float(side) => WeightScratch::Float(scratch.take(side.scratch_len())?),
            Self::Quantized(side) => WeightScratch::Quantized(side.take(scratch)?),
        })
    }

    /// Returns the weights of direction `dir`, packed into `scratch` if they are not constant.
    pub(super) fn get<'a>(
        &self,
        inputs: &Inputs<'a>,
        packed: &PackedConstants<'a>,
        dir: usize,
        scratch: &'a mut WeightScratch<'_>,
    ) -> Result<Weights<'a>, ExecError> {
        Ok(match (self, scratch) {
            (Self::Float(side), WeightScratch::Float(scratch)) => {
                Weights::Float(side.get(inputs, packed, dir, scratch)?)
            }
            (Self::Quantized(side), WeightScratch::Quantized(scratch)) => {
                Weights::Quantized(side.get(inputs, packed, dir, scratch)?)
            }
            _ => return Err(ExecError::new(udo_api::Status::BAD_CALL)),
        })
    }

    /// Computes `y = x weights + bias`.
    pub(super) fn run(
        &self,
        parallel: Parallel<'_>,
        x: &[f32],
        weights: &mut Weights<'_>,
        bias: Option<&[f32]>,
        y: &mut [f32],
    ) -> Result<(), ExecError> {
        match (self, weights) {
            (Self::Float(side), Weights::Float(weights)) => {
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
