//! The OpenCL C of GPU kernels, as a compiler takes it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use udo_api::Core;
use udo_engine::cores::opencl::Storage;

use super::contract::unwritten;
use super::{Outcome, failed, known, not_applicable, skipped, unchecked};
use crate::context::{OpContext, PackageContext};
use crate::opencl_c::{self, Compiled, Compiler};

/// How long further sources are compiled: a kernel may have another one for each node.
const ENOUGH: Duration = Duration::from_secs(6);

/// Compiles the sources that the kernels hand to a device for the nodes that are known, with their own build options.
pub(super) fn compiles(cx: &OpContext) -> Outcome {
    if cx.subject.core != Core::GPU {
        return not_applicable("OpenCL C is for kernels of the GPU");
    }
    if cx.is_builtin {
        return not_applicable("sources of built-in kernels have tests of their own");
    }
    let (start, mut count, mut seen) = (Instant::now(), 0, BTreeSet::new());
    let mut compiler = None;
    for node in known(cx)? {
        let Ok(trial) = cx.trial(node, 1) else { continue };
        if unwritten(&trial).is_some() {
            return skipped("its OpenCL C is not written");
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
                    let source = said(cx, &launch.source, &launch.name);
                    return unchecked(format!("{source} was not compiled: {why}"));
                }
            };
            match compiler.check(&launch.name, &launch.source, storage, &launch.options) {
                Compiled::Yes | Compiled::Unwritten => count += 1,
                Compiled::No(messages) => {
                    let source = said(cx, &launch.source, &launch.name);
                    let node = node.said(cx.subject.core);
                    return failed(format!("{source} does not compile for {node}: {messages}"));
                }
                Compiled::Unchecked(why) => {
                    let source = said(cx, &launch.source, &launch.name);
                    return unchecked(format!("{source} was not compiled: {why}"));
                }
            }
        }
    }
    if count == 0 {
        return not_applicable("its kernels have no OpenCL C");
    }
    Ok(())
}

/// The source in words: by the file of the package that it comes from, if one is there.
fn said(cx: &OpContext, source: &str, kernel: &str) -> String {
    let folder = PackageContext { place: cx.place.clone() }.folder();
    let file = folder.and_then(|folder| opencl_c::file_of(&folder, source));
    match file {
        Some(file) => format!("the OpenCL C in {file}"),
        None => format!("the OpenCL C of kernel {kernel:?}"),
    }
}
