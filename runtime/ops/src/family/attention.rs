//! Attention: `softmax(scale Q K^T + mask) V` for every head. f32, f16 and bf16 are computed in tiles of queries and
//! keys, so the score matrix is never stored as a whole (as in `FlashAttention`, arXiv 2205.14135); f64 by the
//! definition.

mod arguments;
mod exact;
mod grouped;
mod rotate;
mod sizes;
#[cfg(test)]
mod tests;
mod tiles;

use udo_api::{
    Bf16, Core, DType, Error, ExecError, F16, InferCx, Io, KernelDef, Node, TensorDesc, TypeSet,
    Work, input, input_like, output_like, types,
};

use arguments::Reach;
use exact::Exact;
pub(crate) use grouped::{GROUPED, GroupedShapes};
pub(crate) use rotate::rotate;
use sizes::{Counts, Mask, Sizes};
use tiles::Tiled;

// Inputs.
const Q: usize = 0;
const K: usize = 1;
const V: usize = 2;
const MASK: usize = 3;
const PAST_KEY: usize = 4;
const PAST_VALUE: usize = 5;
const VALID_LENGTHS: usize = 6;

// Outputs after the first.
const PRESENT_KEY: usize = 1;
const PRESENT_VALUE: usize = 2;
const SCORES: usize = 3;

/// Types of queries, keys and values.
pub(crate) const TYPES: TypeSet = types::F32.or(types::F64).or(types::F16).or(types::BF16);
/// Types of masks: bool, or the type of the other inputs.
pub(crate) const MASKS: TypeSet = TYPES.or(types::BOOL);

/// Kernels of an operator with queries, keys, values and a mask, and optional further ports.
macro_rules! kernels {
    ($($other:expr),*) => {{
        macro_rules! rules {
            ($types:expr) => {
                &[
                    input(0, $types).bounded(),
                    input_like(1, 0).bounded(),
                    input_like(2, 0).bounded(),
                    input(3, $types.or(types::BOOL)).bounded(),
                    output_like(0, 0).bounded(),
                    $($other.bounded()),*
                ]
            };
        }
        &[
            KernelDef::new::<Tiled<F16>>("Attention", Core::CPU).ports(rules!(types::F16)),
            KernelDef::new::<Tiled<Bf16>>("Attention", Core::CPU).ports(rules!(types::BF16)),
            // After the kernels of f16 and bf16, so that inputs of these types are not converted to f32.
            KernelDef::new::<Tiled<f32>>("Attention", Core::CPU).ports(rules!(types::F32)),
            KernelDef::new::<Exact>("Attention", Core::CPU).ports(rules!(types::F64)),
        ]
    }};
}

/// The kernels of ONNX's operator.
pub(crate) const KERNELS: &[KernelDef] = kernels!(
    input_like(4, 0),
    input_like(5, 0),
    input(6, types::I64),
    output_like(1, 0),
    output_like(2, 0),
    output_like(3, 0)
);

/// The kernels of the operator that fusion passes insert.
pub(crate) const KERNELS_OF_STEPS: &[KernelDef] = kernels!();

/// Sets the output descriptions, and rejects what no kernel supports.
pub(crate) fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
    let q = cx.input(Q)?;
    for port in (1..VALID_LENGTHS).filter(|&port| cx.has_input(port)) {
        let found = cx.input(port)?;
        let is_supported = |x: TensorDesc| {
            x.dtype() == q.dtype() || port == MASK && x.dtype() == Some(DType::Bool)
        };
        if !is_supported(found) {
            let expected = q.dtype().map_or("a type", DType::name);
            return Err(Error::new(format!("input {port} is {found}, expected {expected}")));
        }
    }
    let sizes = Sizes::read(cx)?;
    Problem::read(cx, &sizes)?;
    let shapes = [
        (0, sizes.output()?),
        (PRESENT_KEY, sizes.cache(sizes.depth)?),
        (PRESENT_VALUE, sizes.cache(sizes.width)?),
        (SCORES, sizes.scores()?),
    ];
    for (port, shape) in shapes.into_iter().take(cx.output_count()) {
        cx.set_output(port, q.with_shape(shape))?;
    }
    Ok(())
}

/// The stage of the computation after which scores are written to an output (`qk_matmul_output_mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// After `scale Q K^T`.
    Scaled,
    /// After the soft cap.
    Capped,
    /// After the mask.
    Masked,
    /// After softmax.
    Normalized,
}

/// The output of a query whose exponentials sum to 0, because all its scores are minus infinity or masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keyless {
    /// NaN, as the unfused nodes give.
    Nan,
    /// Zeros, as ONNX specifies since 1.23 (onnx#8068). A NaN score still gives NaN.
    Zeros,
    /// Zeros, for NaN scores as well.
    ZerosForNan,
}

impl Keyless {
    /// Whether a sum of exponentials yields zeros.
    fn is_zeroed(self, sum: f64) -> bool {
        match self {
            Self::Nan => false,
            Self::Zeros => sum <= 0.0,
            Self::ZerosForNan => sum <= 0.0 || sum.is_nan(),
        }
    }
}

/// The sizes and parameters of an attention.
#[derive(Clone, Copy, Debug)]
struct Problem {
    counts: Counts,
    mask: Option<Mask>,
    scale: f64,
    /// Scores are limited to this absolute value, by `softcap tanh(score / softcap)`; 0 for no limit.
    softcap: f64,
    is_causal: bool,
    /// Whether the last query is at the position of a sequence's last key, whatever its length.
    is_at_end: bool,
    /// The stage of the score output.
    stage: Stage,
    /// The output of queries without keys.
    keyless: Keyless,
    /// The most keys that a query sees, the last of which is at the query's own position.
    window: Option<usize>,
    /// Whether the counts are bounds, and each run has extents of its own.
    is_bounded: bool,
}

impl Problem {
    fn read(node: &Node<'_>, sizes: &Sizes) -> Result<Self, Error> {
        let (counts, mask) = (sizes.counts(), Mask::read(node, sizes)?);
        let scale = if node.has_param("scale") {
            node.float("scale")?
        } else {
            1.0 / (counts.depth as f64).sqrt()
        };
        // Operators that share this code lack some of the parameters.
        let int = |name: &str| if node.has_param(name) { node.int(name) } else { Ok(0) };
        let stage = match int("qk_matmul_output_mode")? {
            0 => Stage::Scaled,
            1 => Stage::Capped,
            2 => Stage::Masked,
            3 => Stage::Normalized,
            mode => {
                let expected = "expected 0, 1, 2 or 3";
                let name = "qk_matmul_output_mode";
                return Err(Error::new(format!("parameter {name:?} is {mode}, {expected}")));
            }
        };
        let softcap = if node.has_param("softcap") { node.float("softcap")? } else { 0.0 };
        let keyless = match (node.has_param("zero_nan"), int("zero_nan")?) {
            (false, _) => Keyless::Zeros,
            (true, 0) => Keyless::Nan,
            (true, _) => Keyless::ZerosForNan,
        };
        Ok(Self {
            counts,
            mask,
            scale,
            softcap,
            is_causal: int("is_causal")? != 0,
            is_at_end: sizes.is_at_end,
            stage,
            keyless,
            window: None,
            is_bounded: sizes.are_bounded(node)?,
        })
    }

    /// Returns the problem with the extents of a run, and sets the extents of all outputs.
    fn in_run(&self, io: &mut Io<'_>) -> Result<Self, ExecError> {
        if !self.is_bounded {
            return Ok(*self);
        }
        let counts = self.counts.in_run(&io.inputs)?;
        let Counts { batch, q_heads, kv_heads, queries, total, depth, width, .. } = counts;
        let scores = [batch, q_heads, queries, total];
        let mask = self.mask.map(|mask| mask.in_run(&io.inputs, MASK, &scores)).transpose()?;
        if counts.is_packed {
            io.outputs.set_shape(0, &[batch, queries, q_heads * width])?;
        } else {
            io.outputs.set_shape(0, &[batch, q_heads, queries, width])?;
        }
        for (port, shape) in [
            (PRESENT_KEY, [batch, kv_heads, total, depth]),
            (PRESENT_VALUE, [batch, kv_heads, total, width]),
            (SCORES, [batch, q_heads, queries, total]),
        ] {
            if io.outputs.has(port) {
                io.outputs.set_shape(port, &shape)?;
            }
        }
        Ok(Self { counts, mask, ..*self })
    }

    /// Returns the work of the products of queries with visible keys, and of normalized scores with values.
    fn work(&self) -> Work {
        let Counts { batch, q_heads, queries, past, total, depth, width, .. } = self.counts;
        let reach = Reach::new(total, past).at_end(self.is_at_end, queries);
        let key_count = |query| self.visible(reach, query).saturating_sub(self.first(reach, query));
        let pairs = (0..queries).map(key_count);
        let pairs = pairs.fold(0, usize::saturating_add);
        Work::products(&[batch, q_heads, pairs, depth.saturating_add(width)])
    }

    /// Returns the end of the keys that a query sees.
    fn visible(&self, reach: Reach, query: usize) -> usize {
        let end = self.mask.map_or(reach.valid, |mask| reach.valid.min(mask.len));
        if self.is_causal { end.min(reach.end(query)) } else { end }
    }

    /// Returns the start of the keys that a query sees.
    fn first(&self, reach: Reach, query: usize) -> usize {
        self.window.map_or(0, |window| reach.end(query).saturating_sub(window))
    }
}
