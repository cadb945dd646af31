//! Image layouts of kernels: channels second, as operators define them, or channels last.

use udo_api::{Error, PortRule, Shape, Side, TensorDesc};

/// Whether the first input and the first output of a kernel have channels last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayoutPorts {
    pub(crate) input: bool,
    pub(crate) output: bool,
}

impl LayoutPorts {
    pub(crate) const NEITHER: Self = Self { input: false, output: false };
    pub(crate) const OUTPUT: Self = Self { input: false, output: true };
    pub(crate) const BOTH: Self = Self { input: true, output: true };

    /// Applies the layouts to a kernel's port rules.
    pub(crate) const fn apply<const N: usize>(self, mut rules: [PortRule; N]) -> [PortRule; N] {
        let mut index = 0;
        while index < N {
            let is_last = match (rules[index].side(), rules[index].port()) {
                (Some(Side::Input), 0) => self.input,
                (Some(Side::Output), 0) => self.output,
                _ => false,
            };
            if is_last {
                rules[index] = rules[index].channels_last();
            }
            index += 1;
        }
        rules
    }

    /// Applies the layouts, and allows strided rows for each port with channels last.
    pub(crate) const fn pitched<const N: usize>(self, rules: [PortRule; N]) -> [PortRule; N] {
        let mut rules = self.pitched_output(rules);
        let mut index = 0;
        while index < N {
            if rules[index].is_channels_last() {
                rules[index] = rules[index].pitched_alone();
            }
            index += 1;
        }
        rules
    }

    /// Applies the layouts, and allows strided rows for an output with channels last.
    pub(crate) const fn pitched_output<const N: usize>(
        self,
        rules: [PortRule; N],
    ) -> [PortRule; N] {
        let mut rules = self.apply(rules);
        let mut index = 0;
        while index < N {
            if rules[index].is_channels_last() && matches!(rules[index].side(), Some(Side::Output))
            {
                rules[index] = rules[index].pitched_alone();
            }
            index += 1;
        }
        rules
    }

    /// Returns a kernel's input as the operator describes it: with channels second.
    pub(crate) fn described(self, x: &TensorDesc) -> Result<TensorDesc, Error> {
        match x.full_shape().iter().collect::<Vec<_>>()[..] {
            [batch, height, width, channels] if self.input => {
                Ok(x.with_shape(Shape::from_dims(&[batch, channels, height, width])?))
            }
            _ => Ok(*x),
        }
    }
}

/// The layout of one kernel of an operator that has several.
pub(crate) trait Layout: Send + Sync + 'static {
    const PORTS: LayoutPorts;

    /// Checks that an input of this many channels suits the kernel.
    fn check(_channels: usize) -> Result<(), Error> {
        Ok(())
    }
}

/// Rank 4, channels last.
pub(crate) struct ChannelsLast;

impl Layout for ChannelsLast {
    const PORTS: LayoutPorts = LayoutPorts::BOTH;
}

/// Any rank, in the operator's layout.
pub(crate) struct ChannelsSecond;

impl Layout for ChannelsSecond {
    const PORTS: LayoutPorts = LayoutPorts::NEITHER;
}

/// For images of few channels: the input is in the operator's layout, the output has channels last. The kernel copies
/// the input to another layout in any case, so the host need not convert it first.
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
        Err(Error::new(format!("input 0 has {channels} channels, expected {} at most", Self::MOST)))
    }
}
