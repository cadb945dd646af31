//! The process in which a handle was made. One that was forked since has neither the threads behind it nor its locks, and a call that
//! waited for either would wait for ever: it is refused there.

use std::ops::Deref;

use udo_engine::device;
use udo_engine::device::Result;
use udo_engine::exit_guard::process;
use udo_runtime::device::ErrorCode;

use crate::argument::need;

/// The process in which something was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Born(u64);

impl Born {
    /// This process.
    pub(crate) fn here() -> Self {
        Self(process())
    }

    /// Whether that is this process.
    pub(crate) fn is_here(self) -> bool {
        self == Self::here()
    }

    /// Refuses what an earlier process made.
    fn check(self, name: &str) -> Result<()> {
        if self.is_here() {
            return Ok(());
        }
        let why = format!(
            "argument {name} was made before this process was forked, and is of no use here; make a runtime, and what else is needed, in this process"
        );
        Err(device::Error::new(ErrorCode::InvalidState, why))
    }
}

/// An object that C holds a pointer to.
pub trait Handle {
    /// The process in which it was made.
    fn born(&self) -> Born;
}

/// Says where handles have the process in which they were made.
macro_rules! handles {
    ($($of:ident, $born:tt;)*) => {
        $(
            impl $crate::born::Handle for $of {
                fn born(&self) -> $crate::born::Born {
                    self.$born
                }
            }
        )*
    };
}
pub(crate) use handles;

/// A handle that has to be there, and of this process.
pub(crate) fn live<T: Deref>(argument: Option<T>, name: &str) -> Result<T>
where
    T::Target: Handle,
{
    let handle = need(argument, name)?;
    handle.born().check(name)?;
    Ok(handle)
}

/// A handle that may be NULL, and is of this process otherwise.
pub(crate) fn live_or_none<'a, T: Handle>(
    argument: Option<&'a T>,
    name: &str,
) -> Result<Option<&'a T>> {
    argument.map(|handle| live(Some(handle), name)).transpose()
}
