//! The built-in package: the operators of `udo_ops`, and the operator that runs HTA programs.

use std::sync::OnceLock;

use udo_api::PackageV1;
use udo_compile::hta::subnet;
use udo_engine::exit_guard::PerProcess;
use udo_engine::operators::Operators;
use udo_engine::package::{BUILT_IN, OpenError};

/// The operators of `udo_ops`.
static COMPUTED: PackageV1 = udo_ops::PACKAGE.guarded();

/// The operator that runs HTA programs.
static PROGRAMS: PackageV1 = PackageV1::new(BUILT_IN, env!("CARGO_PKG_VERSION"))
    .ops(&[subnet::OP])
    .kernels(&[subnet::KERNEL])
    .guarded();

/// Returns the built-in operators. Their tables stay for the lifetime of the process, and all runtimes share them.
///
/// # Errors
/// The tables break the contract, which is a bug in this library.
pub fn operators() -> Result<Operators, OpenError> {
    static MADE: PerProcess<OnceLock<Operators>> = PerProcess::new(OnceLock::new());
    let known = MADE.get();
    if let Some(operators) = known.get() {
        return Ok(operators.clone());
    }
    let made = Operators::with_built_in(&[&COMPUTED, &PROGRAMS])?;
    Ok(known.get_or_init(|| made).clone())
}

#[cfg(test)]
mod tests {
    use udo_api::Core;
    use udo_engine::operators::KernelEntry;

    use super::*;

    #[test]
    fn the_tables_keep_the_contract() {
        assert_eq!(udo_ops::PACKAGE.name(), BUILT_IN);
        let own = operators().unwrap();
        for (table, least) in [(&COMPUTED, 200), (&PROGRAMS, 1)] {
            let mut checked = Operators::new();
            checked.add_static(table).unwrap();
            assert!(checked.ops().len() >= least);
            for core in [Core::CPU, Core::GPU, Core::DSP_V68, Core::HTA] {
                let names = |operators: &Operators| -> Vec<String> {
                    let package = operators.packages().next().unwrap().id;
                    let kernels = operators.kernels_for(package, core).unwrap();
                    let name = |kernel: &KernelEntry| {
                        format!("{} {}", kernel.op.schema().name(), kernel.def.core())
                    };
                    kernels.iter().map(name).collect()
                };
                let (checked, own) = (names(&checked), names(&own));
                assert!(checked.iter().all(|kernel| own.contains(kernel)), "{checked:?}");
            }
        }
        let count = udo_ops::OPS.len() + 1;
        assert_eq!(own.ops().len(), count, "all operators of both tables, once");
        let own = own.ops().iter().map(|entry| entry.def.schema().name());
        assert!(
            own.clone().any(|name| name == "Conv") && own.clone().any(|name| name == "HtaSubnet")
        );
    }
}
