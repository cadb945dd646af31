//! `f32` convolution with inputs and weights rounded to bf16 and sums in `f32`, on machines that have such products.

use std::ops::Range;

use super::plan::{Algorithm, Plan};
use crate::gemm_bf16::{self, Rows};
use crate::gemm_f32::{Epilogue, Stored};

impl Plan {
    /// Returns the 32-bit words of packed bf16 weights for these groups, outputs and channels per group, and taps.
    ///
    /// # Panics
    ///
    /// Panics if the machine has no such products ([`gemm_bf16::is_available`]).
    pub fn packed_len_bf16([groups, outputs, channels, taps]: [usize; 4]) -> usize {
        groups * gemm_bf16::packed_len(taps * channels, outputs)
    }

    /// Packs weights in ONNX's order as bf16, for every plan with these groups, outputs and channels per group, and
    /// taps.
    ///
    /// # Panics
    ///
    /// Panics like [`Self::packed_len_bf16`], and if `weights` or `out` is too short.
    pub fn pack_onnx_bf16<T: Stored>(shape: [usize; 4], weights: &[T], out: &mut [f32]) {
        let [groups, outputs, channels, taps] = shape;
        let (k, len) = (taps * channels, Self::packed_len_bf16(shape) / groups.max(1));
        for group in 0..groups {
            let weights = &weights[group * outputs * k..][..outputs * k];
            let weight_at = |row: usize, col: usize| {
                weights[(col * channels + row % channels) * taps + row / channels].number()
            };
            gemm_bf16::pack(k, outputs, weight_at, &mut out[group * len..][..len]);
        }
    }

    /// Like [`Self::run`], with weights packed by [`Self::pack_onnx_bf16`].
    ///
    /// # Panics
    ///
    /// Panics like [`Self::run`] and [`Self::packed_len_bf16`].
    #[expect(clippy::too_many_arguments, reason = "those of `run`")]
    pub fn run_bf16(
        &self,
        a: &[f32],
        lda: usize,
        table: &[u32],
        packed: &[f32],
        rows: Range<usize>,
        c: &mut [f32],
        ldc: usize,
        epilogue: &Epilogue<'_>,
    ) {
        let super::Shape { window, channels, outputs, groups } = self.shape;
        assert!(rows.start <= rows.end && rows.end <= self.rows(), "rows are not of the output");
        if rows.is_empty() || outputs == 0 {
            return;
        }
        let k = window.taps().unwrap_or(0) * channels;
        let len = gemm_bf16::packed_len(k, outputs);
        let taps = self.taps;
        let gathered = |lda: usize, channels: (usize, usize)| {
            let table = &table[rows.start * taps..rows.end * taps];
            Rows::Gathered { a, lda, table, taps, channels }
        };
        for group in 0..groups {
            let matrix = match self.algorithm {
                Algorithm::Gemm => {
                    let a = a.get(rows.start * lda + group * channels..).unwrap_or(&[]);
                    Rows::Strided { a, lda }
                }
                Algorithm::Indirect => gathered(lda, (group * channels, channels)),
                Algorithm::IndirectRows => gathered(channels, (0, channels * window.kernel[2])),
            };
            let bias = epilogue.bias.map(|bias| &bias[group * outputs..]);
            let residual = epilogue.residual.map(|(data, ld)| (&data[group * outputs..], ld));
            let epilogue = Epilogue { bias, residual, ..*epilogue };
            let (packed, c) = (&packed[group * len..][..len], &mut c[group * outputs..]);
            gemm_bf16::gemm(matrix, rows.len(), k, packed, outputs, c, ldc, &epilogue);
        }
    }
}
