//! Compiles a network to bytecode in three steps: checks the SoC's rules, assigns an address to every tensor and
//! buffer, and emits instructions layer by layer. Equal networks give equal bytes.
//!
//! A *tile* is a range of output rows that a layer computes at once. A layer whose tensors all fit the on-chip memory
//! ("the chip") has one tile; otherwise each tile loads the input rows that it needs, and stores its output rows.

mod emit;
mod plan;
mod pool;
mod roll;
mod rows;

use std::ops::Range;

use emit::Constants;
use plan::{Place, Plan, Tiles, plan};
use pool::Pool;
use rows::Job;

use crate::bytecode::{Image, Instruction, Lines, Space, Transfer};
use crate::network::{Network, TensorId};
use crate::soc::{Refusal, Soc};

/// An error of [`compile()`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The SoC does not support a layer or tensor.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A single row of a layer's output does not fit the on-chip memory.
    #[error(
        "layer {layer:?} ({operator}) needs {bytes} bytes of on-chip memory for one output row, {soc} has {limit} (docs/hta-bytecode.md, rule \"rows\")"
    )]
    Rows {
        /// The layer.
        layer: String,
        /// Its operator.
        operator: &'static str,
        /// Bytes needed for one row.
        bytes: usize,
        /// The SoC.
        soc: &'static str,
        /// On-chip memory of the SoC in bytes.
        limit: u32,
    },
    /// Sizes exceed 32-bit addresses.
    #[error("the network's constants or activations exceed 32-bit addresses")]
    Addresses,
}

/// Compiles a network for a SoC. Returns the bytes of the bytecode section.
///
/// # Errors
/// Returns an error if the SoC does not support a layer, or its memory is too small.
pub fn compile(network: &Network<'_>, soc: &Soc) -> Result<Vec<u8>, CompileError> {
    for id in network.inputs.iter().filter(|id| !network.inner.contains(id)) {
        network.tensors.get(id.0).map_or(Ok(()), |input| soc.check_input(input))?;
    }
    network.layers.iter().try_for_each(|layer| soc.check_layer(layer, &network.tensors))?;
    let mut pool = Pool::default();
    let mut constants = Vec::new();
    // Constant tensors, which `Load` instructions read, come before weights and tables. A prepared program keeps only
    // this part of the constants.
    for tensor in &network.tensors {
        let values = tensor.values.map(|values| pool.put(values.iter().copied()));
        let offset = values.map(|offset| offset.ok_or(CompileError::Addresses)).transpose()?;
        constants.push(offset.map(|offset| usize::try_from(offset).unwrap_or(usize::MAX)));
    }
    let plan = plan(network, soc, &constants).map_err(|fault| {
        let layer = network.layers.get(fault.layer);
        CompileError::Rows {
            layer: layer.map_or_else(String::new, |layer| layer.name.clone()),
            operator: layer.map_or("", |layer| layer.op.kind().name()),
            bytes: fault.bytes,
            soc: soc.name,
            limit: soc.sram_bytes,
        }
    })?;
    let mut lowering = Lowering { network, soc, plan: &plan, pool, code: Vec::new() };
    lowering.layers().ok_or(CompileError::Addresses)?;
    let Lowering { pool, code, .. } = lowering;
    let image = image(network, soc, &plan, code, &pool.0);
    let bytes = image.and_then(|image| image.encode().ok());
    bytes.ok_or(CompileError::Addresses)
}

/// Returns the bytecode, or `None` if sizes exceed 32 bits.
fn image<'a>(
    network: &Network<'_>,
    soc: &Soc,
    plan: &Plan,
    code: Vec<Instruction>,
    constants: &'a [u8],
) -> Option<Image<'a>> {
    let sizes = |ids: &[TensorId]| -> Option<Vec<u32>> {
        ids.iter().map(|id| u32::try_from(network.tensors.get(id.0)?.len()).ok()).collect()
    };
    Some(Image {
        soc: soc.id,
        sram_bytes: u32::try_from(plan.sram_bytes).ok()?,
        ddr_bytes: u32::try_from(plan.ddr_bytes).ok()?,
        inputs: sizes(&network.inputs)?,
        outputs: sizes(&network.outputs)?,
        code,
        constants,
    })
}

/// A network during code generation. Functions return `None` if sizes exceed 32 bits.
struct Lowering<'n, 'a> {
    network: &'n Network<'a>,
    soc: &'n Soc,
    plan: &'n Plan,
    /// The constants so far.
    pool: Pool,
    code: Vec<Instruction>,
}

impl Lowering<'_, '_> {
    fn layers(&mut self) -> Option<()> {
        // By tensor: whether it has been loaded or computed.
        let mut is_available = vec![false; self.network.tensors.len()];
        for (layer, tiles) in self.network.layers.iter().zip(&self.plan.tiles) {
            let job = Job::new(self.network, layer)?;
            for &id in &layer.inputs {
                if !std::mem::replace(is_available.get_mut(id.0)?, true) {
                    self.load_whole(id)?;
                }
            }
            let constants = Constants::collect(&job, &mut self.pool)?;
            let count = job.lines(layer.output).count;
            let starts = (0..count).step_by(tiles.rows.max(1));
            let rows = starts.map(|start| start..start.saturating_add(tiles.rows).min(count));
            let code_of_tiles: Option<Vec<_>> =
                rows.map(|rows| self.tile(&job, tiles, &constants, &rows)).collect();
            roll::roll(&code_of_tiles?, &mut self.code);
            *is_available.get_mut(layer.output.0)? = true;
            self.store_whole(layer.output)?;
        }
        Some(())
    }

    fn place(&self, id: TensorId) -> Option<Place> {
        self.plan.places.get(id.0).copied()
    }

    /// Returns the address of a tensor off the chip, if it has one.
    fn home(&self, id: TensorId) -> Option<(Space, usize)> {
        self.plan.homes.get(id.0).copied().flatten()
    }

    /// Emits the load of an input or constant that stays on the chip.
    fn load_whole(&mut self, id: TensorId) -> Option<()> {
        if let Place::Chip(to) = self.place(id)? {
            let (space, from) = self.home(id)?;
            self.code.push(load(space, from, to, self.network.tensors.get(id.0)?.len())?);
        }
        Some(())
    }

    /// Emits the store of an output that stays on the chip.
    fn store_whole(&mut self, id: TensorId) -> Option<()> {
        if let (Place::Chip(from), Some((space, to))) = (self.place(id)?, self.home(id)) {
            self.code.push(store(space, from, to, self.network.tensors.get(id.0)?.len())?);
        }
        Some(())
    }

    /// Emits the code for some rows of a layer's output, including loads and stores.
    fn tile(
        &self,
        job: &Job<'_, '_>,
        tiles: &Tiles,
        constants: &Constants,
        rows: &Range<usize>,
    ) -> Option<Vec<Instruction>> {
        let mut code = Vec::new();
        let mut inputs = Vec::new();
        for (input, (&id, buffer)) in job.layer.inputs.iter().zip(&tiles.inputs).enumerate() {
            let (rows, bytes) = (job.rows(input, rows), job.lines(id).bytes);
            let from = match self.place(id)? {
                Place::Chip(address) => address + rows.start * bytes,
                Place::Elsewhere => {
                    let ((space, home), buffer) = (self.home(id)?, (*buffer)?);
                    code.push(load(space, home + rows.start * bytes, buffer, rows.len() * bytes)?);
                    buffer
                }
            };
            inputs.push(u32::try_from(from).ok()?);
        }
        let bytes = job.lines(job.layer.output).bytes;
        let to = match self.place(job.layer.output)? {
            Place::Chip(address) => address + rows.start * bytes,
            Place::Elsewhere => tiles.output?,
        };
        emit::tile(job, constants, self.soc, rows, &inputs, u32::try_from(to).ok()?, &mut code)?;
        if let Some(from) = tiles.output {
            let (space, home) = self.home(job.layer.output)?;
            code.push(store(space, from, home + rows.start * bytes, rows.len() * bytes)?);
        }
        Some(code)
    }
}

fn load(space: Space, from: usize, to: usize, bytes: usize) -> Option<Instruction> {
    Some(Instruction::Load(Transfer { space, lines: line(from, to, bytes)? }))
}

fn store(space: Space, from: usize, to: usize, bytes: usize) -> Option<Instruction> {
    Some(Instruction::Store(Transfer { space, lines: line(from, to, bytes)? }))
}

fn line(from: usize, to: usize, bytes: usize) -> Option<Lines> {
    let [from, to, width] = [from, to, bytes].map(u32::try_from);
    Some(Lines::one(from.ok()?, to.ok()?, width.ok()?))
}
