//! The built-in package: all operators of `udo_ops`, and the one that runs what was compiled for the HTA.

use std::sync::OnceLock;

use udo_api::{KernelDef, OpDef, PackageV1};
use udo_compile::hta::subnet;
use udo_engine::exit_guard::PerProcess;
use udo_engine::operators::Operators;
use udo_engine::package::{BUILT_IN, OpenError};

const OPS: [OpDef; udo_ops::OPS.len() + 1] = {
    let mut all = [subnet::OP; udo_ops::OPS.len() + 1];
    let (known, _) = all.split_at_mut(udo_ops::OPS.len());
    known.copy_from_slice(udo_ops::OPS);
    all
};

const KERNELS: [KernelDef; udo_ops::KERNELS.len() + 1] = {
    let mut all = [subnet::KERNEL; udo_ops::KERNELS.len() + 1];
    let (known, _) = all.split_at_mut(udo_ops::KERNELS.len());
    known.copy_from_slice(udo_ops::KERNELS);
    all
};

static TABLE: PackageV1 =
    PackageV1::new(BUILT_IN, env!("CARGO_PKG_VERSION")).ops(&OPS).kernels(&KERNELS).guarded();

/// The built-in operators. Their tables stay for the life of the process, so that all runtimes have one copy.
///
/// # Errors
/// The table breaks the contract, which is a fault of this library.
pub fn operators() -> Result<Operators, OpenError> {
    static MADE: PerProcess<OnceLock<Operators>> = PerProcess::new(OnceLock::new());
    let known = MADE.get();
    if let Some(operators) = known.get() {
        return Ok(operators.clone());
    }
    let made = Operators::with_built_in(&TABLE)?;
    Ok(known.get_or_init(|| made).clone())
}

#[cfg(test)]
mod tests {
    use udo_api::Core;

    use super::*;

    #[test]
    fn the_table_keeps_the_contract() {
        let mut checked = Operators::new();
        checked.add_static(&TABLE).unwrap();
        let own = operators().unwrap();
        assert!(own.ops().len() > 200 && checked.ops().len() == own.ops().len());
        for core in [Core::CPU, Core::GPU, Core::DSP_V68, Core::HTA] {
            let names = |operators: &Operators| -> Vec<String> {
                let package = operators.packages().next().unwrap().id;
                let kernels = operators.kernels_for(package, core).unwrap();
                kernels
                    .iter()
                    .map(|kernel| format!("{} {}", kernel.op.schema().name(), kernel.def.core()))
                    .collect()
            };
            assert_eq!(names(&checked), names(&own));
            assert!(!names(&own).is_empty());
        }
    }
}
