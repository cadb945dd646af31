//! An operator written with the deprecated names of `udo-api` and `udo-testing`, which published packages still use.

use std::any::TypeId;

use udo_api::{
    AxisEncoding, Core, Error, ExecError, FinalizeCx, GuardAlloc, InferCx, Io, Kernel, KernelDef,
    Op, OpDef, OpSchema, PackageV1, Param, Port, PortRule, Quant, Status, Strings, Texts, Wanted,
    Workspace, input, output, types,
};
use udo_testing::{Bench, tensor};

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;

/// Copies its input, and refuses negative numbers.
struct Copied;

impl Op for Copied {
    const SCHEMA: OpSchema = OpSchema::new(
        "Copied",
        &[Port::required("x", types::F32)],
        &[Port::required("y", types::F32)],
        &[Param::texts("names")],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

struct CopiedF32;

const PORTS: &[PortRule] = &[input(0, types::F32), output(0, types::F32)];

impl Kernel for CopiedF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        match cx.texts("names")?.len() {
            2 => Ok(Self),
            count => Err(Error::new(format!("{count} names, expected 2"))),
        }
    }

    fn workspace(&self) -> Workspace {
        Workspace::of::<f32>(4)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, mut scratch, .. } = io;
        let buffer = scratch.take::<f32>(4)?;
        buffer.copy_from_slice(Quant::<f32>::of(inputs, 0)?.data);
        if buffer.iter().any(|number| *number < 0.0) {
            return Err(ExecError::of(Status::BAD_VALUE));
        }
        outputs.take::<f32>(0)?.copy_from_slice(buffer);
        Ok(())
    }
}

static PACKAGE: PackageV1 = PackageV1::new("Former", "1.0.0")
    .ops(&[OpDef::of::<Copied>()])
    .kernels(&[KernelDef::new::<CopiedF32>("Copied", Core::CPU).ports(PORTS)]);

#[test]
fn an_operator_written_with_former_names_runs() {
    let copied = |x: [f32; 4]| {
        let bench = Bench::of(&PACKAGE, "Copied").texts("names", &["a", "b"]);
        bench.input(tensor(&[4], &x)).like_input()
    };
    assert_eq!(copied([1.0, 2.0, 3.0, 4.0]).one().values::<f32>(), [1.0, 2.0, 3.0, 4.0]);
    let fault = copied([-1.0; 4]).fault();
    assert_eq!(fault.to_string(), ExecError::new(Status::BAD_VALUE).to_string());
}

#[test]
fn former_names_are_the_same_items() {
    let with_former_name = AxisEncoding::of(0, &[0.5, 0.25], &[0, 0]).unwrap();
    assert!(std::ptr::eq(
        with_former_name,
        AxisEncoding::intern(0, &[0.5, 0.25], &[0, 0]).unwrap()
    ));
    assert_eq!(PORTS[0].wanted(), Wanted::Types(types::F32));
    assert_eq!(TypeId::of::<Texts<'static>>(), TypeId::of::<Strings<'static>>());
}
