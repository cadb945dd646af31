//! The order of dimensions in which kernels take images: as operators describe them, or channels last.

use udo_api::{Error, KernelFlags, Shape, TensorDesc};

/// Whether the first input and the first output of a kernel have their channels last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayoutPorts {
    pub(crate) input: bool,
    pub(crate) output: bool,
}

impl LayoutPorts {
    pub(crate) const NEITHER: Self = Self { input: false, output: false };
    pub(crate) const OUTPUT: Self = Self { input: false, output: true };
    pub(crate) const BOTH: Self = Self { input: true, output: true };

    /// What a kernel says of itself.
    pub(crate) const fn flags(self) -> KernelFlags {
        let input = if self.input { KernelFlags::CHANNELS_LAST_IN } else { KernelFlags::NONE };
        let output = if self.output { KernelFlags::CHANNELS_LAST_OUT } else { KernelFlags::NONE };
        input.or(output)
    }

    /// An input as the operator describes it, from what the kernel gets.
    pub(crate) fn described(self, x: &TensorDesc) -> Result<TensorDesc, Error> {
        match x.shape() {
            &[batch, height, width, channels] if self.input => {
                Ok(x.with_shape(Shape::new(&[batch, channels, height, width])?))
            }
            _ => Ok(*x),
        }
    }
}

/// What a kernel takes, where an operator has a kernel for each layout.
pub(crate) trait Layout: Send + Sync + 'static {
    const PORTS: LayoutPorts;

    /// Whether an input of so many channels is for this kernel.
    fn check(_channels: usize) -> Result<(), Error> {
        Ok(())
    }
}

/// Four dimensions, channels last.
pub(crate) struct ChannelsLast;

impl Layout for ChannelsLast {
    const PORTS: LayoutPorts = LayoutPorts::BOTH;
}

/// Any number of dimensions, in the order of the operator.
pub(crate) struct ChannelsSecond;

impl Layout for ChannelsSecond {
    const PORTS: LayoutPorts = LayoutPorts::NEITHER;
}

/// Images of so few channels that they are copied anyway, in the order in which a model gets them.
pub(crate) struct FewChannels;

impl FewChannels {
    const MOST: usize = 4;
}

impl Layout for FewChannels {
    const PORTS: LayoutPorts = LayoutPorts::OUTPUT;

    fn check(channels: usize) -> Result<(), Error> {
        if channels <= Self::MOST {
            return Ok(());
        }
        Err(Error::new(format!("input 0 has {channels} channels, wanted {} at most", Self::MOST)))
    }
}
