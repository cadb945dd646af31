//! Right sides of f32 products, packed once if they are constant.

use udo_api::{Error, ExecError, FinalizeCx, Inputs, Packed, PackedConstants};

use super::Product;

/// One or several right sides of the same shape, consecutive in an input.
pub(crate) struct RightSide {
    port: usize,
    pub(crate) product: Product,
    /// Packed right sides; `None` if they are not constant.
    packed: Option<Packed<f32>>,
}

impl RightSide {
    /// Reads the `count` right sides of input `port`.
    pub(crate) fn read(
        cx: &FinalizeCx<'_>,
        port: usize,
        product: Product,
        count: usize,
    ) -> Result<Self, Error> {
        let packed = if cx.is_constant(port) {
            let len = count * product.packed_len();
            Some(cx.pack(&[port], &product.recipe(), len, Product::fill)?)
        } else {
            None
        };
        Ok(Self { port, product, packed })
    }

    /// Returns the same right sides for a product of other extents.
    pub(crate) fn with(&self, product: Product) -> Self {
        Self { product, ..*self }
    }

    pub(crate) fn is_packed(&self) -> bool {
        self.packed.is_some()
    }

    /// Whether products take them packed, before the run or in it.
    pub(crate) fn packs(&self) -> bool {
        self.is_packed() || self.product.is_worth_packing()
    }

    /// Returns the scratch elements for packing a right side in the run.
    pub(crate) fn scratch_len(&self) -> usize {
        if self.is_packed() { 0 } else { self.product.packed_len() }
    }

    /// Returns right side `at`, packed; in `own` if it is not constant.
    pub(crate) fn get<'a>(
        &self,
        inputs: &Inputs<'_>,
        packed: &PackedConstants<'a>,
        at: usize,
        own: &'a mut [f32],
    ) -> Result<&'a [f32], ExecError> {
        if let Some(constant) = self.packed {
            let len = self.product.packed_len();
            return Ok(&packed.get(constant)?[at * len..][..len]);
        }
        let own = &mut own[..self.product.packed_len()];
        self.product.pack(self.unpacked(inputs, at)?, own);
        Ok(own)
    }

    /// Returns right side `at` as stored in the input.
    pub(crate) fn unpacked<'a>(
        &self,
        inputs: &Inputs<'a>,
        at: usize,
    ) -> Result<&'a [f32], ExecError> {
        let len = self.product.depth * self.product.cols;
        Ok(&inputs.get::<f32>(self.port)?[at * len..][..len])
    }
}
