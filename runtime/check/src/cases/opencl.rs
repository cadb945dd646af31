//! Compiles the OpenCL C of GPU kernels.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use udo_api::Core;
use udo_engine::cores::opencl::Storage;

use super::contract::unwritten;
use super::{Outcome, failed, known, not_applicable, skipped, unchecked};
use crate::context::{OpContext, PackageContext};
use crate::opencl_c::{self, Compiled, Compiler};

/// The time after which no further source is compiled: a kernel may have one for each node.
const ENOUGH: Duration = Duration::from_secs(6);

/// Compiles the sources that kernels hand to a device for the known nodes, with their own build options.
pub(super) fn compiles(cx: &OpContext) -> Outcome {
    if cx.subject.core != Core::GPU {
        return not_applicable("only GPU kernels have OpenCL C");
    }
    if cx.is_builtin {
        return not_applicable("built-in kernels have their own tests");
    }
    let (start, mut count, mut seen) = (Instant::now(), 0, BTreeSet::new());
    let mut compiler = None;
    for node in known(cx)? {
        let Ok(trial) = cx.trial(node, 1) else { continue };
        if unwritten(&trial).is_some() {
            return skipped("the OpenCL C is not written");
        }
        let Some(info) = trial.kernel().gpu_info() else { continue };
        let storage = Storage::for_node(&node.input_descs(), &node.outputs);
        for launch in &info.launches {
            let key = (launch.source.clone(), launch.options.clone(), storage == Storage::Half);
            if !seen.insert(key) || count > 0 && start.elapsed() > ENOUGH {
                continue;
            }
            let compiler = match compiler.get_or_insert_with(Compiler::find) {
                Ok(compiler) => compiler,
                Err(why) => {
                    let source = describe(cx, &launch.source, &launch.name);
                    return unchecked(format!("{source} was not compiled: {why}"));
                }
            };
            match compiler.check(&launch.name, &launch.source, storage, &launch.options) {
                Compiled::Yes | Compiled::Unwritten => count += 1,
                Compiled::No(messages) => {
                    let source = describe(cx, &launch.source, &launch.name);
                    let node = node.describe(cx.subject.core);
                    return failed(format!("{source} does not compile for {node}: {messages}"));
                }
                Compiled::Unchecked(why) => {
                    let source = describe(cx, &launch.source, &launch.name);
                    return unchecked(format!("{source} was not compiled: {why}"));
                }
            }
        }
    }
    if count == 0 {
        return not_applicable("the kernels do not have OpenCL C");
    }
    Ok(())
}

/// Describes a source: by its file in the package, if it has one.
fn describe(cx: &OpContext, source: &str, kernel: &str) -> String {
    let folder = PackageContext { place: cx.place.clone() }.folder();
    let file = folder.and_then(|folder| opencl_c::file_of(&folder, source));
    match file {
        Some(file) => format!("the OpenCL C in {file}"),
        None => format!("the OpenCL C of kernel {kernel:?}"),
    }
}
