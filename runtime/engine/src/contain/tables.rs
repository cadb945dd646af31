//! The tables of a contained package, as reported by its worker, with functions that forward to it.

use udo_api::abi::{GpuTable, KernelVTable, LibraryRef, StaticPtr};
use udo_api::{KernelDef, OpDef, OpSchema};

use super::callee::register;
use super::image::intern;
use super::wire::{InvalidMessage, Reader, Writer};
use super::worker::Worker;
use super::{proxy, report};
use crate::package::{Tables, Tier};

impl Writer {
    /// Writes the tables of a library. The numbers of its operators and kernels start at `first`.
    pub(super) fn tables(&mut self, tables: &Tables, first: [usize; 2]) {
        for text in [tables.name, tables.version, tables.sdk_version] {
            self.text(text);
        }
        self.flag(tables.guard.is_some());
        for number in first {
            self.number(number);
        }
        self.number(tables.ops.len());
        for op in tables.ops {
            self.items(std::slice::from_ref(op.schema()));
        }
        self.items(tables.kernels);
        for kernel in tables.kernels {
            let functions = kernel.vtable();
            self.flag(functions.is_some_and(|functions| functions.accept.is_some()));
            self.flag(functions.is_some_and(|functions| functions.needs.is_some()));
            self.flag(functions.is_some_and(|functions| functions.prepare.is_some()));
            let gpu = functions.and_then(|functions| functions.gpu.get());
            self.flag(gpu.is_some());
            self.word(gpu.map_or(0, |gpu| u64::from(gpu.work_items)));
        }
        self.items(tables.libraries);
    }
}

/// Reads the tables that a worker reported. They live as long as the process, like those of libraries.
pub(super) fn tables(
    worker: &'static Worker,
    answer: &mut Reader<'_>,
) -> Result<Tables, InvalidMessage> {
    let [name, version, sdk_version] =
        [intern(answer.text()?), intern(answer.text()?), intern(answer.text()?)];
    let tier = if answer.flag()? { Tier::Trapped } else { Tier::Unchecked };
    let [first_op, first_kernel] = [answer.number()?, answer.number()?];
    let ops: Result<Vec<OpDef>, InvalidMessage> = (0..answer.count()?)
        .map(|_| {
            let schema = answer.items::<OpSchema>()?.pop().ok_or(InvalidMessage)?;
            Ok(OpDef::answered_by(schema, proxy::infer))
        })
        .collect();
    let ops = ops?.leak();
    let kernels: Result<Vec<KernelDef>, InvalidMessage> = answer
        .items::<KernelDef>()?
        .into_iter()
        .map(|kernel| Ok(kernel.copied_to(functions(answer)?)))
        .collect();
    let kernels = kernels?.leak();
    let libraries = answer.items::<LibraryRef>()?.leak();
    answer.end()?;
    register(ops, first_op, (worker, name))?;
    register(kernels, first_kernel, (worker, name))?;
    let guard = Some(report::GUARD);
    Ok(Tables { name, version, sdk_version, ops, kernels, libraries, guard, tier })
}

/// Creates the function table of a kernel with the functions that it has.
fn functions(answer: &mut Reader<'_>) -> Result<&'static KernelVTable, InvalidMessage> {
    let [accepts, needs, prepares, is_gpu] =
        [answer.flag()?, answer.flag()?, answer.flag()?, answer.flag()?];
    let work_items = answer.u32()?;
    let gpu = is_gpu.then(|| -> &'static GpuTable {
        let (size, info) = (GpuTable::SIZE, proxy::info);
        Box::leak(Box::new(GpuTable { size, work_items, info, reserved_words: [0; 4] }))
    });
    Ok(Box::leak(Box::new(KernelVTable {
        size: KernelVTable::SIZE,
        reserved: 0,
        finalize: proxy::finalize,
        execute: proxy::execute,
        free: proxy::free,
        gpu: gpu.map_or(StaticPtr::NULL, StaticPtr::new),
        accept: if accepts { Some(proxy::accept) } else { None },
        needs: if needs { Some(proxy::needs) } else { None },
        prepare: if prepares { Some(proxy::prepare) } else { None },
        reserved_words: [0; 1],
    })))
}
