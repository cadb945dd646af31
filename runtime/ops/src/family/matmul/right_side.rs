//! Right sides of f32 products. Packing copies one into the order in which the primitives read it: once in finalize if
//! it is constant, else in each run if that pays.

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

    /// Returns these right sides for a product of other extents.
    pub(crate) fn with(&self, product: Product) -> Self {
        Self { product, ..*self }
    }

    pub(crate) fn is_packed(&self) -> bool {
        self.packed.is_some()
    }

    /// Whether products read packed right sides, from finalize or packed in the run.
    pub(crate) fn packs(&self) -> bool {
        self.is_packed() || self.product.is_worth_packing()
    }

    /// Returns the scratch elements for packing a right side in the run.
    pub(crate) fn scratch_len(&self) -> usize {
        if self.is_packed() { 0 } else { self.product.packed_len() }
    }

    /// Returns right side `index`, packed. Packs it into `scratch` if it is not constant.
    pub(crate) fn get<'a>(
        &self,
        inputs: &Inputs<'_>,
        packed: &PackedConstants<'a>,
        index: usize,
        scratch: &'a mut [f32],
    ) -> Result<&'a [f32], ExecError> {
        if let Some(constant) = self.packed {
            let len = self.product.packed_len();
            return Ok(&packed.get(constant)?[index * len..][..len]);
        }
        let scratch = &mut scratch[..self.product.packed_len()];
        self.product.pack(self.unpacked(inputs, index)?, scratch);
        Ok(scratch)
    }

    /// Returns right side `index` as stored in the input.
    pub(crate) fn unpacked<'a>(
        &self,
        inputs: &Inputs<'a>,
        index: usize,
    ) -> Result<&'a [f32], ExecError> {
        let len = self.product.depth * self.product.cols;
        Ok(&inputs.get::<f32>(self.port)?[index * len..][..len])
    }
}
