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
        let mut at = 0;
        while at < N {
            let is_last = match (rules[at].side(), rules[at].port()) {
                (Some(Side::Input), 0) => self.input,
                (Some(Side::Output), 0) => self.output,
                _ => false,
            };
            if is_last {
                rules[at] = rules[at].channels_last();
            }
            at += 1;
        }
        rules
    }

    /// Does the same, and allows strided rows where channels are last.
    pub(crate) const fn pitched<const N: usize>(self, rules: [PortRule; N]) -> [PortRule; N] {
        let mut rules = self.pitched_output(rules);
        let mut at = 0;
        while at < N {
            if rules[at].is_channels_last() {
                rules[at] = rules[at].pitched_alone();
            }
            at += 1;
        }
        rules
    }

    /// Does the same, and allows strided rows for the output only.
    pub(crate) const fn pitched_output<const N: usize>(
        self,
        rules: [PortRule; N],
    ) -> [PortRule; N] {
        let mut rules = self.apply(rules);
        let mut at = 0;
        while at < N {
            if rules[at].is_channels_last() && matches!(rules[at].side(), Some(Side::Output)) {
                rules[at] = rules[at].pitched_alone();
            }
            at += 1;
        }
        rules
    }

    /// Returns a kernel's input as the operator describes it, channels second.
    pub(crate) fn described(self, x: &TensorDesc) -> Result<TensorDesc, Error> {
        match x.full_shape().iter().collect::<Vec<_>>()[..] {
            [batch, height, width, channels] if self.input => {
                Ok(x.with_shape(Shape::of_dims(&[batch, channels, height, width])?))
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

/// Images of so few channels that they are copied anyway; input in the operator's layout.
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
