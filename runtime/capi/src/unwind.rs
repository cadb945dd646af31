//! The one place where a panic stops.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use udo_engine::exit_guard::in_call;

/// Runs what a function does; the error is what a panic threw, for [`forget`].
pub(crate) fn caught<R>(call: impl FnOnce() -> R) -> Result<R, Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(|| in_call(call)))
}

/// Lets go of what was thrown: dropping it may throw again.
pub(crate) fn forget(panic: Box<dyn Any + Send>) {
    std::mem::forget(panic);
}

/// Drops what has nothing behind it. A panic ends here; what it left behind is lost.
pub(crate) fn drop_all<T>(handle: Option<Box<T>>) {
    if let Err(panic) = caught(|| drop(handle)) {
        forget(panic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_a_release_ends_there() {
        struct Faulty;
        impl Drop for Faulty {
            fn drop(&mut self) {
                panic!("a fault");
            }
        }
        drop_all(Some(Box::new(Faulty)));
    }
}
