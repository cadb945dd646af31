//! A package whose operator does what no operator may, as its parameter says: for tests of containment.

use std::ffi::{CString, c_char};
use std::hint::black_box;
use std::sync::Mutex;

use udo_api::{
    Buffers, Core, Error, ExecError, FinalizeCx, GpuArg, GpuKernel, InferCx, Io, Kernel, KernelDef,
    KernelInfo, Launch, Op, OpDef, OpSchema, PackageV1, Param, Port, WorkItem, WorkItemFn, types,
};

udo_api::export_package!(
    PackageV1::new("FaultsPackage", env!("CARGO_PKG_VERSION"))
        .ops(&[OpDef::of::<Fault>()])
        .kernels(&[
            KernelDef::new::<FaultF32>("Fault", Core::CPU),
            KernelDef::gpu::<FaultGpu>("Fault"),
        ])
);

// SAFETY: they are the C library's, with the types that POSIX gives them.
unsafe extern "C" {
    safe fn raise(signal: i32) -> i32;
    safe fn close(file: i32) -> i32;
    fn mkdir(path: *const c_char, mode: u32) -> i32;
}

struct Fault;

impl Op for Fault {
    const SCHEMA: OpSchema = OpSchema::new(
        "Fault",
        &[Port::required("x", types::F32)],
        &[Port::required("y", types::F32)],
        &[Param::text("how")],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let how = cx.text("how")?;
        if let Some(what) = how.strip_prefix("infer-") {
            out_of_order(what);
        }
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

struct FaultF32 {
    how: String,
    /// What it makes once it has begun, where `how` is `until-cancelled:FOLDER`.
    sign: Option<CString>,
}

/// What the first element asks for where `how` is `data`; nothing for 0.
const BY_DATA: &[&str] = &[
    "none",
    "abort",
    "segv",
    "fpe",
    "kill",
    "stack",
    "alloc",
    "write",
    "write-far",
    "loop",
    "worker",
    "lock",
    "exit",
    "stdout",
    "chdir",
    "hook",
    "panic",
    "raise-segv",
    "raise-bus",
    "raise-pipe",
    "raise-term",
    "raise-usr1",
];

impl Kernel for FaultF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let how = cx.text("how")?.to_owned();
        if let Some(what) = how.strip_prefix("finalize-") {
            out_of_order(what);
        }
        let sign = how.strip_prefix("until-cancelled:").and_then(|path| CString::new(path).ok());
        Ok(Self { how, sign })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let x = inputs.get::<f32>(0)?;
        let y = outputs.take::<f32>(0)?;
        if let (Some(sign), Some(1.0)) = (&self.sign, x.first()) {
            // SAFETY: the text ends with a zero.
            unsafe { mkdir(sign.as_ptr(), 0o700) };
            loop {
                parallel.run(4, |_| Ok(()))?;
            }
        }
        let what = match (self.how.as_str(), x.first()) {
            ("data", Some(&first)) => BY_DATA.get(first as usize).copied().unwrap_or("none"),
            (how, _) => how,
        };
        let end = y.as_mut_ptr_range().end;
        match what {
            "worker" => parallel.run(64, |index| {
                if index == 7 {
                    out_of_order("loop");
                }
                Ok(())
            })?,
            // SAFETY: none; that is what it is for.
            "write" => unsafe { end.write(1.0) },
            // SAFETY: none; that is what it is for.
            "write-far" => unsafe { end.byte_add(8192).write(1.0) },
            what => out_of_order(what),
        }
        for (y, x) in y.iter_mut().zip(x) {
            *y = x.sin() * 1.5 + 0.1;
        }
        Ok(())
    }
}

impl Drop for FaultF32 {
    fn drop(&mut self) {
        if let Some(what) = self.how.strip_prefix("drop-") {
            out_of_order(what);
        }
    }
}

struct FaultGpu {
    how: String,
    len: usize,
}

const SOURCE: &str = "kernel void fault(global const UDO_STORAGE *x, global UDO_STORAGE *y) {
    size_t i = get_global_id(0);
    UDO_STORE(y, i, UDO_LOAD(x, i) * 1.5f + 0.25f);
}";

impl GpuKernel for FaultGpu {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(Self::work_item);

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let how = cx.text("how")?.to_owned();
        if let Some(what) = how.strip_prefix("gpu-") {
            out_of_order(what);
        }
        Ok(Self { how, len: cx.input(0)?.len() })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let launch = Launch::new(SOURCE, "fault").args([GpuArg::input(0), GpuArg::output(0)]);
        info.push_launch(launch.global_size([self.len, 1, 1]));
        Ok(())
    }
}

impl FaultGpu {
    fn work_item(&self, item: WorkItem, io: &Buffers<'_>) -> Result<(), ExecError> {
        let [at, ..] = item.global_id;
        if at == 3 {
            out_of_order(&self.how);
        }
        io.store(0, at, io.load(0, at)? * 1.5 + 0.25)
    }
}

/// Does what no operator may; nothing where it is not asked to.
fn out_of_order(what: &str) {
    match what {
        "abort" => std::process::abort(),
        // SAFETY: none; that is what it is for.
        "segv" => unsafe {
            black_box(std::ptr::dangling_mut::<u8>().wrapping_add(16)).write_volatile(1)
        },
        "fpe" => drop(raise(8)),
        "kill" => drop(raise(9)),
        "raise-segv" => drop(raise(11)),
        "raise-bus" => drop(raise(7)),
        "raise-pipe" => drop(raise(13)),
        "raise-term" => drop(raise(15)),
        "raise-usr1" => drop(raise(10)),
        "stack" => drop(black_box(deeper(1))),
        "alloc" => std::alloc::handle_alloc_error(std::alloc::Layout::new::<[u8; 1 << 30]>()),
        "loop" => loop {
            std::hint::spin_loop();
        },
        "lock" => {
            static LOCK: Mutex<()> = Mutex::new(());
            let first = LOCK.lock();
            let second = LOCK.lock();
            drop((first, second));
        }
        "exit" => std::process::exit(0),
        "stdout" => drop(close(1)),
        "print" => println!("a package prints"),
        "chdir" => std::env::set_current_dir("/").unwrap_or_default(),
        "hook" => {
            std::panic::set_hook(Box::new(|_| ()));
            panic!("nobody hears of it");
        }
        "panic" => panic!("this is said"),
        _ => {}
    }
}

fn deeper(level: u64) -> u64 {
    let room = black_box([level; 512]);
    if black_box(level) == 0 { 0 } else { deeper(level + 1) + room[7] }
}
