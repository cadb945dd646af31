//! The table of SoCs (systems on a chip) with their memories and limits, and the checks of a network against them.
//!
//! Each check has the name of a rule in `docs/hta-bytecode.md`, which its error cites.

use udo_simd::conv_u8::MAX_K;

use crate::network::{Kind, Layer, Op, Tensor, Window};

/// A system on a chip with an HTA. The figures are those of this emulation, not of a device.
#[derive(Clone, Copy, Debug)]
pub struct Soc {
    /// The name that users pass, such as `hta100`.
    pub name: &'static str,
    /// The id in bytecode.
    pub id: u32,
    /// Bytes of on-chip memory for activations.
    pub sram_bytes: u32,
    /// Bytes of on-chip memory for the weights of one instruction.
    pub weight_bytes: u32,
    /// The most channels of a network input that the caller supplies.
    pub input_channels: usize,
    /// The largest height, width and channel count of a tensor.
    pub extent: usize,
    /// The supported operators.
    pub operators: &'static [Limit],
}

/// An operator that a SoC supports, and its limits. An operator without a window has kernel, stride and dilation 1.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The operator.
    pub kind: Kind,
    /// The largest kernel along an axis.
    pub kernel: usize,
    /// The largest stride.
    pub stride: usize,
    /// The largest dilation.
    pub dilation: usize,
    /// The most inputs.
    pub inputs: usize,
}

/// A layer or tensor that a SoC does not support. The message names the violated rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {found}, {soc} supports {expected} (docs/hta-bytecode.md, rule {rule:?})")]
pub struct Refusal {
    /// The layer or tensor.
    pub what: String,
    /// The property that violates the rule.
    pub found: String,
    /// The SoC's name.
    pub soc: &'static str,
    /// The supported range.
    pub expected: String,
    /// The rule's name in `docs/hta-bytecode.md`.
    pub rule: &'static str,
}

/// Returns the limits of an operator with a window.
const fn windows(kind: Kind, kernel: usize, stride: usize, dilation: usize) -> Limit {
    Limit { kind, kernel, stride, dilation, inputs: 1 }
}

/// Returns the limits of an operator without a window.
const fn plain(kind: Kind, inputs: usize) -> Limit {
    Limit { kind, kernel: 1, stride: 1, dilation: 1, inputs }
}

const KIB: u32 = 1 << 10;

/// All SoCs, least capable first.
pub const SOCS: &[Soc] = &[
    Soc {
        name: "hta100",
        id: 1,
        sram_bytes: 256 * KIB,
        weight_bytes: 64 * KIB,
        input_channels: 16,
        extent: 2048,
        operators: &[
            windows(Kind::Conv, 7, 2, 1),
            windows(Kind::Depthwise, 5, 2, 1),
            plain(Kind::FullyConnected, 1),
            plain(Kind::Add, 2),
            plain(Kind::Concat, 4),
            windows(Kind::MaxPool, 3, 2, 1),
            windows(Kind::AveragePool, 32, 2, 1),
            plain(Kind::Lookup, 1),
            plain(Kind::Reshape, 1),
        ],
    },
    Soc {
        name: "hta200",
        id: 2,
        sram_bytes: 1024 * KIB,
        weight_bytes: 256 * KIB,
        input_channels: 16,
        extent: 4096,
        operators: &[
            windows(Kind::Conv, 11, 4, 4),
            windows(Kind::Depthwise, 7, 2, 2),
            plain(Kind::FullyConnected, 1),
            plain(Kind::Add, 2),
            plain(Kind::Mul, 2),
            plain(Kind::Concat, 8),
            windows(Kind::MaxPool, 7, 4, 1),
            windows(Kind::AveragePool, 64, 4, 1),
            plain(Kind::Lookup, 1),
            plain(Kind::Reshape, 1),
            plain(Kind::Resize, 1),
        ],
    },
    Soc {
        name: "hta300",
        id: 3,
        sram_bytes: 4096 * KIB,
        weight_bytes: 1024 * KIB,
        input_channels: 16,
        extent: 8192,
        operators: &[
            windows(Kind::Conv, 15, 8, 8),
            windows(Kind::Depthwise, 15, 4, 8),
            plain(Kind::FullyConnected, 1),
            plain(Kind::Add, 2),
            plain(Kind::Mul, 2),
            plain(Kind::Concat, 16),
            windows(Kind::MaxPool, 15, 8, 4),
            windows(Kind::AveragePool, 128, 8, 4),
            plain(Kind::Lookup, 1),
            plain(Kind::Reshape, 1),
            plain(Kind::Resize, 1),
            plain(Kind::Softmax, 1),
        ],
    },
];

impl Soc {
    /// The default SoC: the most capable one.
    pub const DEFAULT: &'static Self = match SOCS.last() {
        Some(soc) => soc,
        None => panic!("there are SoCs"),
    };

    /// Returns the SoC with this name.
    pub fn from_name(name: &str) -> Option<&'static Self> {
        SOCS.iter().find(|soc| soc.name == name)
    }

    /// Returns the SoC with this id.
    pub fn from_id(id: u32) -> Option<&'static Self> {
        SOCS.iter().find(|soc| soc.id == id)
    }

    /// Checks whether a network may have this input.
    ///
    /// # Errors
    /// Returns the first violated rule.
    pub fn check_input(&self, input: &Tensor<'_>) -> Result<(), Refusal> {
        let what = format!("input {:?}", input.name);
        self.check_tensor(&what, input)?;
        let channels = input.shape[3];
        let is_wide = channels > self.input_channels;
        self.unless(is_wide, "input channels", &what, || {
            (format!("has {channels} channels"), format!("at most {}", self.input_channels))
        })
    }

    /// Checks whether the SoC supports a layer over these tensors of its network. A supported layer may still be too
    /// large for on-chip memory, which [`compile()`](crate::compile()) reports.
    ///
    /// # Errors
    /// Returns the first violated rule.
    pub fn check_layer(&self, layer: &Layer<'_>, tensors: &[Tensor<'_>]) -> Result<(), Refusal> {
        let kind = layer.op.kind();
        let what = format!("layer {:?} ({})", layer.name, kind.name());
        let Some(limit) = self.operators.iter().find(|limit| limit.kind == kind) else {
            let supported: Vec<_> = self.operators.iter().map(|limit| limit.kind.name()).collect();
            let found = "has an unsupported operator".to_owned();
            return Err(self.refusal("operators", what, found, supported.join(", ")));
        };
        let count = layer.inputs.len();
        self.unless(count > limit.inputs, "inputs", &what, || {
            (format!("has {count} inputs"), format!("at most {}", limit.inputs))
        })?;
        for &id in layer.inputs.iter().chain([&layer.output]) {
            if let Some(tensor) = tensors.get(id.0) {
                self.check_tensor(&format!("tensor {:?} of {what}", tensor.name), tensor)?;
            }
        }
        let input = layer.inputs.first().and_then(|id| tensors.get(id.0));
        let output = tensors.get(layer.output.0);
        let [products, weights] = match (&layer.op, input, output) {
            (Op::Conv { window, .. }, Some(input), _) => {
                [window.taps().saturating_mul(input.shape[3]); 2]
            }
            (Op::Depthwise { window, .. }, Some(input), Some(output)) => {
                let multiplier = output.shape[3].checked_div(input.shape[3]).unwrap_or(0);
                [window.taps(), window.taps().saturating_mul(multiplier)]
            }
            (Op::FullyConnected { .. }, Some(input), _) => [input.len(); 2],
            _ => [0; 2],
        };
        self.check_sums(&what, products, weights)?;
        layer.op.window().map_or(Ok(()), |window| self.check_window(&what, window, limit))
    }

    fn check_tensor(&self, what: &str, tensor: &Tensor<'_>) -> Result<(), Refusal> {
        let [batch, extents @ ..] = tensor.shape;
        self.unless(batch != 1, "batch", what, || {
            (format!("has a batch of {batch}"), "a batch of 1".to_owned())
        })?;
        let largest = extents.into_iter().max().unwrap_or(0);
        self.unless(largest > self.extent, "extents", what, || {
            (format!("has an extent of {largest}"), format!("at most {}", self.extent))
        })
    }

    /// Checks the number of terms of one sum, and of the weights that must be loaded together: those of one channel.
    fn check_sums(&self, what: &str, products: usize, weights: usize) -> Result<(), Refusal> {
        self.unless(products > MAX_K, "sums", what, || {
            (format!("sums {products} products"), format!("at most {MAX_K}"))
        })?;
        let limit = usize::try_from(self.weight_bytes).unwrap_or(usize::MAX);
        self.unless(weights > limit, "weights", what, || {
            (format!("has {weights} weights per channel"), format!("at most {limit}"))
        })
    }

    fn check_window(&self, what: &str, window: &Window, limit: &Limit) -> Result<(), Refusal> {
        let rules = [
            ("kernel", "a kernel", window.kernel, limit.kernel),
            ("stride", "strides", window.strides, limit.stride),
            ("dilation", "dilations", window.dilations, limit.dilation),
        ];
        for (rule, name, [vertical, horizontal], maximum) in rules {
            self.unless(vertical.max(horizontal) > maximum, rule, what, || {
                (format!("has {name} of {vertical} x {horizontal}"), format!("at most {maximum}"))
            })?;
        }
        Ok(())
    }

    /// Returns an error if a rule is violated; `describe` returns the property that violates it and the supported
    /// range.
    fn unless(
        &self,
        is_violated: bool,
        rule: &'static str,
        what: &str,
        describe: impl FnOnce() -> (String, String),
    ) -> Result<(), Refusal> {
        if !is_violated {
            return Ok(());
        }
        let (found, expected) = describe();
        Err(self.refusal(rule, what.to_owned(), found, expected))
    }

    fn refusal(
        &self,
        rule: &'static str,
        what: String,
        found: String,
        expected: String,
    ) -> Refusal {
        Refusal { what, found, soc: self.name, expected, rule }
    }
}
