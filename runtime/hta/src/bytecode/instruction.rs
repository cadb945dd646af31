//! The instructions: one declaration of each, from which its words and its reader follow.

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

        /// Each instruction's code, name, and the names of its fields.
        pub const INSTRUCTIONS: &[(u32, &str, &[&str])] =
            &[$(($code, stringify!($name), $block::FIELDS)),*];

        impl Instruction {
            /// As the table of instructions has it.
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
    /// What follows up to the next `End` is done several times.
    1 Loop(Loop),
    /// Where that ends.
    2 End(End),
    /// Rows of bytes from elsewhere to the chip.
    3 Load(Transfer),
    /// Rows of bytes from the chip to elsewhere.
    4 Store(Transfer),
    /// Rows of bytes from the chip to the chip.
    5 Copy(Lines),
    /// A convolution of all channels.
    6 Conv(Convolution),
    /// A convolution of each channel by itself.
    7 Depthwise(Convolution),
    /// The greatest value of each window.
    8 MaxPool(MaxPool),
    /// The average of each window.
    9 AveragePool(AveragePool),
    /// Sums of what values stand for.
    10 Add(Pair),
    /// Products of what values stand for.
    11 Mul(Pair),
    /// For each byte what a table has for it.
    12 Lookup(Lookup),
    /// Each pixel several times.
    13 Resize(Resize),
    /// The share of each value in its row's powers of e.
    14 Softmax(Softmax),
}

blocks! {
    /// See [`Instruction::Loop`].
    Loop {
        /// How often.
        trips: u32,
    }

    /// See [`Instruction::End`].
    End {}

    /// Rows of bytes here, and where they go. See [`Instruction::Copy`].
    Lines {
        /// The first row.
        from: At,
        /// From a row to the next.
        from_pitch: u32,
        /// Where the first row goes.
        to: At,
        /// From a row to the next.
        to_pitch: u32,
        /// How many rows.
        rows: u32,
        /// The bytes of a row.
        width: u32,
    }

    /// See [`Instruction::Load`] and [`Instruction::Store`].
    Transfer {
        /// The memory that is not the chip's.
        space: Space,
        /// What is copied.
        lines: Lines,
    }

    /// A window over height and width, down and across.
    Window {
        /// Pixels of the input.
        input: [u32; 2],
        /// Pixels of the output.
        output: [u32; 2],
        /// Taps.
        kernel: [u32; 2],
        /// From a window to the next.
        strides: [u32; 2],
        /// From a tap to the next.
        dilations: [u32; 2],
        /// Padding above and on the left.
        pads: [u32; 2],
    }

    /// See [`Instruction::Conv`] and [`Instruction::Depthwise`].
    Convolution {
        /// The first pixel of the input.
        from: At,
        /// From a pixel to the next.
        from_pitch: u32,
        /// The first pixel of the output.
        to: At,
        /// From a pixel to the next.
        to_pitch: u32,
        /// Where it goes.
        window: Window,
        /// Channels of a pixel of the input.
        channels: u32,
        /// Channels of a pixel of the output.
        outputs: u32,
        /// The input's value for 0.
        from_zero: u32,
        /// The output's value for 0.
        to_zero: u32,
        /// Where the constants have i8 for each output, channel and tap.
        weights: u32,
        /// Where they have an i8 for each output: the weight for 0.
        zero_points: u32,
        /// Where they have an i32 for each output, which its sums begin with.
        bias: u32,
        /// Where they have an f32 for each output, which its sums are multiplied with.
        ratios: u32,
    }

    /// See [`Instruction::MaxPool`].
    MaxPool {
        /// The first pixel of the input.
        from: At,
        /// The first pixel of the output.
        to: At,
        /// Where it goes.
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
        /// Where it goes.
        window: Window,
        /// Channels of a pixel.
        channels: u32,
        /// 1 to divide by all taps of the kernel, 0 by those in the image.
        counts_padding: u32,
        /// What a step of the input stands for.
        from_scale: f32,
        /// The input's value for 0.
        from_zero: u32,
        /// What a step of the output stands for.
        to_scale: f32,
        /// The output's value for 0.
        to_zero: u32,
    }

    /// See [`Instruction::Add`] and [`Instruction::Mul`].
    Pair {
        /// The first side.
        a: At,
        /// The second side.
        b: At,
        /// Where the results go.
        to: At,
        /// Values of the first side and results.
        len: u32,
        /// Values of the second side, which meet those of the first side time and again; divides `len`.
        b_len: u32,
        /// What a step of the first side stands for.
        a_scale: f32,
        /// Its value for 0.
        a_zero: u32,
        /// What a step of the second side stands for.
        b_scale: f32,
        /// Its value for 0.
        b_zero: u32,
        /// What a step of the results stands for.
        to_scale: f32,
        /// Their value for 0.
        to_zero: u32,
    }

    /// See [`Instruction::Lookup`].
    Lookup {
        /// What is looked up, and where the results go.
        lines: Lines,
        /// Where the constants have the 256 bytes.
        table: u32,
    }

    /// See [`Instruction::Resize`].
    Resize {
        /// The first pixel of the input.
        from: At,
        /// The first pixel of the output.
        to: At,
        /// Pixels of the input, down and across.
        input: [u32; 2],
        /// Pixels made of each, down and across.
        times: [u32; 2],
        /// Channels of a pixel.
        channels: u32,
    }

    /// See [`Instruction::Softmax`].
    Softmax {
        /// The first row.
        from: At,
        /// Where its shares go.
        to: At,
        /// How many rows.
        rows: u32,
        /// The values of a row.
        width: u32,
        /// What a step of the values stands for.
        from_scale: f32,
        /// What a step of the shares stands for.
        to_scale: f32,
        /// The share's value for 0.
        to_zero: u32,
    }
}

impl Lines {
    /// One row.
    pub(crate) fn one(from: u32, to: u32, width: u32) -> Self {
        let (from, to) = (At::fixed(from), At::fixed(to));
        Self { from, from_pitch: width, to, to_pitch: width, rows: 1, width }
    }
}
