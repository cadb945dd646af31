//! Instructions. The declaration of an instruction's fields generates its struct, its encoding and its decoder.
//!
//! `blocks!` declares the groups of fields, and `instructions!` gives each instruction a code and a block.

use super::words::{At, Fault, Reader, Space, Words};

macro_rules! blocks {
    ($($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name {
            $($(#[$about])* pub $field: $type,)*
        }

        impl $name {
            /// The names of its fields, in order.
            pub const FIELDS: &'static [&'static str] = &[$(stringify!($field)),*];
        }

        impl Words for $name {
            fn put(&self, _to: &mut Vec<u32>) {
                $(self.$field.put(_to);)*
            }

            fn take(_from: &mut Reader<'_>) -> Result<Self, Fault> {
                Ok(Self { $($field: Words::take(_from)?,)* })
            }

            fn places(&mut self, _each: &mut dyn FnMut(&mut At)) {
                $(self.$field.places(_each);)*
            }
        }
    )*};
}

macro_rules! instructions {
    ($($(#[$doc:meta])* $code:literal $name:ident($block:ident),)*) => {
        /// An instruction.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Instruction {
            $($(#[$doc])* $name($block),)*
        }

        /// Each instruction's code, name, and field names.
        pub const INSTRUCTIONS: &[(u32, &str, &[&str])] =
            &[$(($code, stringify!($name), $block::FIELDS)),*];

        impl Instruction {
            /// Returns the name in [`INSTRUCTIONS`].
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => stringify!($name),)*
                }
            }
        }

        impl Words for Instruction {
            fn put(&self, to: &mut Vec<u32>) {
                match self {
                    $(Self::$name(block) => {
                        to.push($code);
                        block.put(to);
                    })*
                }
            }

            fn take(from: &mut Reader<'_>) -> Result<Self, Fault> {
                match from.next()? {
                    $($code => Ok(Self::$name(Words::take(from)?)),)*
                    other => Err(Fault::Code(other)),
                }
            }

            fn places(&mut self, each: &mut dyn FnMut(&mut At)) {
                match self {
                    $(Self::$name(block) => block.places(each),)*
                }
            }
        }
    };
}

instructions! {
    /// Repeats the instructions up to the next `End`.
    1 Loop(Loop),
    /// Ends a loop.
    2 End(End),
    /// Copies rows of bytes to the chip.
    3 Load(Transfer),
    /// Copies rows of bytes from the chip.
    4 Store(Transfer),
    /// Copies rows of bytes within the chip.
    5 Copy(Lines),
    /// A convolution over all channels.
    6 Conv(Convolution),
    /// A depthwise convolution.
    7 Depthwise(Convolution),
    /// The maximum of each window.
    8 MaxPool(MaxPool),
    /// The mean of each window.
    9 AveragePool(AveragePool),
    /// The sum of two tensors, requantized.
    10 Add(Pair),
    /// The product of two tensors, requantized.
    11 Mul(Pair),
    /// Maps each byte through a table.
    12 Lookup(Lookup),
    /// Repeats each pixel.
    13 Resize(Resize),
    /// The softmax of each row.
    14 Softmax(Softmax),
}

blocks! {
    /// See [`Instruction::Loop`].
    Loop {
        /// Number of iterations.
        iterations: u32,
    }

    /// See [`Instruction::End`].
    End {}

    /// Rows of bytes and their destination. See [`Instruction::Copy`].
    Lines {
        /// Address of the first row.
        from: At,
        /// Stride between rows.
        from_pitch: u32,
        /// Destination of the first row.
        to: At,
        /// Stride between destination rows.
        to_pitch: u32,
        /// Number of rows.
        rows: u32,
        /// Bytes per row.
        width: u32,
    }

    /// See [`Instruction::Load`] and [`Instruction::Store`].
    Transfer {
        /// The memory other than the chip's.
        space: Space,
        /// The rows to copy.
        lines: Lines,
    }

    /// A sliding window; each pair is height, then width.
    Window {
        /// Pixels of the input.
        input: [u32; 2],
        /// Pixels of the output.
        output: [u32; 2],
        /// Kernel size.
        kernel: [u32; 2],
        /// Strides.
        strides: [u32; 2],
        /// Dilations.
        dilations: [u32; 2],
        /// Padding at the top and left.
        pads: [u32; 2],
    }

    /// See [`Instruction::Conv`] and [`Instruction::Depthwise`].
    Convolution {
        /// The first pixel of the input.
        from: At,
        /// Stride between input pixels.
        from_pitch: u32,
        /// The first pixel of the output.
        to: At,
        /// Stride between output pixels.
        to_pitch: u32,
        /// The window.
        window: Window,
        /// Input channels that the instruction reads.
        channels: u32,
        /// Output channels that the instruction computes.
        outputs: u32,
        /// Zero point of the input.
        from_zero: u32,
        /// Zero point of the output.
        to_zero: u32,
        /// Offset in the constants of the i8 weights, by output, channel and tap.
        weights: u32,
        /// Offset of the i8 zero points, one per output.
        zero_points: u32,
        /// Offset of the i32 biases, one per output; the initial values of the sums.
        bias: u32,
        /// Offset of the f32 requantization factors, one per output.
        ratios: u32,
    }

    /// See [`Instruction::MaxPool`].
    MaxPool {
        /// The first pixel of the input.
        from: At,
        /// The first pixel of the output.
        to: At,
        /// The window.
        window: Window,
        /// Channels of a pixel.
        channels: u32,
    }

    /// See [`Instruction::AveragePool`].
    AveragePool {
        /// The first pixel of the input.
        from: At,
        /// The first pixel of the output.
        to: At,
        /// The window.
        window: Window,
        /// Channels of a pixel.
        channels: u32,
        /// 1 divides by all taps of the kernel, 0 by those inside the image.
        counts_padding: u32,
        /// Scale of the input.
        from_scale: f32,
        /// Zero point of the input.
        from_zero: u32,
        /// Scale of the output.
        to_scale: f32,
        /// Zero point of the output.
        to_zero: u32,
    }

    /// See [`Instruction::Add`] and [`Instruction::Mul`].
    Pair {
        /// The first operand.
        a: At,
        /// The second operand.
        b: At,
        /// Destination of the results.
        to: At,
        /// Bytes of the first operand and of the results.
        len: u32,
        /// Bytes of the second operand, which is repeated; divides `len`.
        b_len: u32,
        /// Scale of the first operand.
        a_scale: f32,
        /// Zero point of the first operand.
        a_zero: u32,
        /// Scale of the second operand.
        b_scale: f32,
        /// Zero point of the second operand.
        b_zero: u32,
        /// Scale of the results.
        to_scale: f32,
        /// Zero point of the results.
        to_zero: u32,
    }

    /// See [`Instruction::Lookup`].
    Lookup {
        /// The rows to map, and their destination.
        lines: Lines,
        /// Offset in the constants of the 256 bytes.
        table: u32,
    }

    /// See [`Instruction::Resize`].
    Resize {
        /// The first pixel of the input.
        from: At,
        /// The first pixel of the output.
        to: At,
        /// Pixels of the input: height, width.
        input: [u32; 2],
        /// Repetitions of each pixel: down, across.
        times: [u32; 2],
        /// Channels of a pixel.
        channels: u32,
    }

    /// See [`Instruction::Softmax`].
    Softmax {
        /// The first row.
        from: At,
        /// Destination of the first row.
        to: At,
        /// Number of rows.
        rows: u32,
        /// Values per row.
        width: u32,
        /// Scale of the input.
        from_scale: f32,
        /// Scale of the output.
        to_scale: f32,
        /// Zero point of the output.
        to_zero: u32,
    }
}

impl Lines {
    /// Returns a copy of a single row of `width` bytes.
    pub(crate) fn one(from: u32, to: u32, width: u32) -> Self {
        let (from, to) = (At::fixed(from), At::fixed(to));
        Self { from, from_pitch: width, to, to_pitch: width, rows: 1, width }
    }
}
