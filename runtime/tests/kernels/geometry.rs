//! Geometry: what a kernel derives from the extents of its inputs, once where they are fixed, and anew where they change.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use udo_api::types::F32;
use udo_api::{
    Core, Dim, Error, ExecError, FinalizeCx, InferCx, InputShapes, Io, Kernel, KernelDef, Needs,
    Op, OpDef, OpSchema, PackageV1, Port, Scratch, Status, Workspace, any_input, any_output,
};
use udo_runtime::graph::Graph;
use udo_runtime::run::RunError;
use udo_runtime::{CompileOptions, Model, Session};
use udo_test_support::compile::{built_in, compile_graph};
use udo_test_support::positive::{Positive, PositiveF32};

static PACKAGE: PackageV1 = PackageV1::new("Geometry", "1.0.0")
    .ops(&[
        OpDef::of::<Positive>(),
        OpDef::of::<Backwards>(),
        OpDef::of::<Greedy>(),
        OpDef::of::<Shown>(),
        OpDef::of::<Weighed>(),
        OpDef::of::<Boundless>(),
    ])
    .kernels(&[
        PositiveF32::DEF,
        KernelDef::new::<BackwardsF32>("Backwards", Core::CPU)
            .ports(&[any_input(0).bounded(), any_output(0).bounded()]),
        KernelDef::new::<GreedyF32>("Greedy", Core::CPU),
        KernelDef::new::<ShownF32>("Shown", Core::CPU),
        KernelDef::new::<WeighedF32>("Weighed", Core::CPU)
            .ports(&[any_input(0).bounded(), any_output(0).bounded()]),
        KernelDef::new::<BoundlessF32>("Boundless", Core::CPU)
            .ports(&[any_input(0).bounded(), any_output(0).bounded()]),
    ])
    .guarded();

/// A vector backwards, by a table of where each element comes from.
struct Backwards;

impl Op for Backwards {
    const SCHEMA: OpSchema =
        OpSchema::new("Backwards", &[Port::required("x", F32)], &[Port::required("y", F32)], &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

/// The longest vector that `Backwards` accepts.
const LONGEST: usize = 1000;

/// An extent for which `prepare` refuses.
const UNLUCKY: usize = 13;

thread_local! {
    /// How often this thread, which is a test's only one, prepared `Backwards`.
    static PREPARED: Cell<usize> = const { Cell::new(0) };
}

struct BackwardsF32;

impl Kernel for BackwardsF32 {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn needs(&self, inputs: InputShapes<'_>) -> Result<Needs, Error> {
        let len: usize = inputs.get(0)?.iter().product();
        if len > LONGEST {
            return Err(Error::new(format!(
                "input 0 has {len} elements, expected up to {LONGEST}"
            )));
        }
        let geometry = Workspace::for_elements::<u64>(1).and::<u32>(len);
        Ok(Needs { scratch: Workspace::for_elements::<f32>(len), geometry })
    }

    fn prepare(&self, inputs: InputShapes<'_>, mut geometry: Scratch<'_>) -> Result<(), ExecError> {
        PREPARED.set(PREPARED.get() + 1);
        let len: usize = inputs.get(0)?.iter().product();
        if len == UNLUCKY {
            return Err(ExecError::new(Status::BAD_VALUE));
        }
        geometry.take::<u64>(1)?[0] = len as u64;
        for (i, from) in geometry.take::<u32>(len)?.iter_mut().enumerate() {
            *from = u32::try_from(len - 1 - i).unwrap_or(u32::MAX);
        }
        Ok(())
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, mut geometry, mut scratch, .. } = io;
        let x = inputs.get::<f32>(0)?;
        let copy = scratch.take::<f32>(x.len())?;
        copy.copy_from_slice(x);
        let len = geometry.take::<u64>(1)?[0];
        assert_eq!(len, x.len() as u64, "geometry is for another run");
        let table = geometry.take::<u32>(x.len())?;
        let y = outputs.take::<f32>(0)?;
        for (y, &from) in y.iter_mut().zip(table) {
            *y = copy[from as usize];
        }
        outputs.set_shape(0, &[x.len()])
    }
}

/// Takes more geometry in prepare than it asked for.
struct Greedy;

impl Op for Greedy {
    const SCHEMA: OpSchema =
        OpSchema::new("Greedy", &[Port::required("x", F32)], &[Port::required("y", F32)], &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        Backwards::infer(cx)
    }
}

struct GreedyF32;

impl Kernel for GreedyF32 {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn needs(&self, _: InputShapes<'_>) -> Result<Needs, Error> {
        Ok(Needs { scratch: Workspace::NONE, geometry: Workspace::for_elements::<u32>(4) })
    }

    fn prepare(&self, _: InputShapes<'_>, mut geometry: Scratch<'_>) -> Result<(), ExecError> {
        geometry.take::<u32>(5).map(|_| ())
    }

    fn execute(&self, _: Io<'_>) -> Result<(), ExecError> {
        Ok(())
    }
}

/// Says what it is told of its input.
struct Shown;

impl Op for Shown {
    const SCHEMA: OpSchema =
        OpSchema::new("Shown", &[Port::required("x", F32)], &[Port::required("y", F32)], &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        Backwards::infer(cx)
    }
}

struct ShownF32;

impl Kernel for ShownF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let dims: Vec<Dim> = cx.input(0)?.full_shape().iter().collect();
        Err(Error::new(format!("{dims:?}")))
    }

    fn execute(&self, _: Io<'_>) -> Result<(), ExecError> {
        Ok(())
    }
}

/// Its first input; its second is packed.
struct Weighed;

impl Op for Weighed {
    const SCHEMA: OpSchema = OpSchema::new(
        "Weighed",
        &[Port::required("x", F32), Port::required("w", F32)],
        &[Port::required("y", F32)],
        &[],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        Backwards::infer(cx)
    }
}

/// Says in its geometry whether `needs` and `prepare` were told of its weights.
struct WeighedF32 {
    knew: AtomicBool,
}

impl Kernel for WeighedF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        cx.pack::<f32>(&[1], &[], 1, |_, _, _| Ok(()))?;
        Ok(Self { knew: AtomicBool::new(true) })
    }

    fn needs(&self, inputs: InputShapes<'_>) -> Result<Needs, Error> {
        self.knew.store(inputs.get(1).is_ok(), Ordering::Relaxed);
        Ok(Needs { scratch: Workspace::NONE, geometry: Workspace::for_elements::<f32>(2) })
    }

    fn prepare(&self, inputs: InputShapes<'_>, mut geometry: Scratch<'_>) -> Result<(), ExecError> {
        let known = [self.knew.load(Ordering::Relaxed), inputs.get(1).is_ok()];
        geometry.take::<f32>(2)?.copy_from_slice(&known.map(|known| f32::from(u8::from(known))));
        Ok(())
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, mut geometry, .. } = io;
        let dims = inputs.shape(0)?;
        let y = outputs.take::<f32>(0)?;
        for (y, known) in y.iter_mut().zip(geometry.take::<f32>(2)?) {
            *y = *known;
        }
        outputs.set_shape(0, dims)
    }
}

/// Its input, with more geometry than there is memory.
struct Boundless;

impl Op for Boundless {
    const SCHEMA: OpSchema =
        OpSchema::new("Boundless", &[Port::required("x", F32)], &[Port::required("y", F32)], &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        Backwards::infer(cx)
    }
}

struct BoundlessF32;

impl Kernel for BoundlessF32 {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn needs(&self, _: InputShapes<'_>) -> Result<Needs, Error> {
        Ok(Needs { scratch: Workspace::NONE, geometry: Workspace::for_elements::<u64>(usize::MAX) })
    }

    fn execute(&self, _: Io<'_>) -> Result<(), ExecError> {
        Err(ExecError::new(Status::BAD_CALL))
    }
}

fn compile(text: &str) -> Result<Model, String> {
    let mut operators = built_in();
    operators.add_static(&PACKAGE).unwrap();
    let graph = Graph::parse(text).unwrap();
    compile_graph(graph, &operators, &CompileOptions::default()).map_err(|e| e.to_string())
}

fn run(session: &mut Session, x: &[f32]) -> Vec<f32> {
    session.input_mut::<f32>("x").unwrap().copy_from_slice(x);
    session.run().unwrap();
    session.output::<f32>("y").unwrap().to_vec()
}

#[test]
fn geometry_is_filled_once_for_fixed_extents_and_anew_for_others() {
    let before = PREPARED.get();
    let since = || PREPARED.get() - before;
    let model =
        compile("graph fixed\n input x: f32[3]\n y = Backwards@21(x)\n output y\n").unwrap();
    assert_eq!(since(), 1, "with the model");
    let host = &model.report().memories[0];
    assert_eq!((host.geometry_bytes, host.scratch_bytes), (64 + 12, 12));
    for _ in 0..2 {
        let mut session = model.session().unwrap();
        assert_eq!(run(&mut session, &[1.0, 2.0, 3.0]), [3.0, 2.0, 1.0]);
    }
    assert_eq!(since(), 1, "sessions share it");

    let model = compile(
        "graph bounded\n input x: f32[4]\n p = Positive@21(x)\n y = Backwards@21(p)\n output y\n",
    )
    .unwrap();
    assert_eq!(model.report().memories[0].geometry_bytes, 64 + 16);
    assert_eq!(since(), 1, "not before a run says the extents");
    let mut session = model.session().unwrap();
    let cases: [(&[f32], &[f32], usize); 6] = [
        (&[1.0, -1.0, 2.0, -1.0], &[2.0, 1.0], 2),
        (&[3.0, -1.0, -2.0, 4.0], &[4.0, 3.0], 2),
        (&[1.0, 2.0, 3.0, 4.0], &[4.0, 3.0, 2.0, 1.0], 3),
        (&[-1.0; 4], &[], 4),
        (&[-1.0; 4], &[], 4),
        (&[5.0, -1.0, 6.0, -1.0], &[6.0, 5.0], 5),
    ];
    for (x, wanted, prepared) in cases {
        assert_eq!(run(&mut session, x), wanted);
        assert_eq!(since(), prepared, "{x:?}");
    }
    let mut other = model.session().unwrap();
    assert_eq!(run(&mut other, &[7.0, 8.0, -1.0, -1.0]), [8.0, 7.0]);
    assert_eq!(since(), 6, "each session has its own");
    let mut profile = vec![udo_runtime::run::StepProfile::default(); 2];
    other.run_profiled(&mut profile).unwrap();
    assert_eq!(since(), 6, "a profiled run keeps it as well");
}

#[test]
fn kernels_that_do_not_take_the_extents_are_refused_by_name() {
    let error =
        compile("graph long\n input x: f32[1001]\n y = Backwards@21(x)\n output y\n").unwrap_err();
    let wanted = "cpu: input 0 has 1001 elements, expected up to 1000";
    assert!(error.ends_with(wanted), "{error}");
    let error =
        compile("graph unlucky\n input x: f32[13]\n y = Backwards@21(x)\n output y\n").unwrap_err();
    assert_eq!(
        error,
        "node \"Backwards_0\": package Geometry's Backwards found a value that it cannot process while it prepares for \
         its shapes"
    );
    let error =
        compile("graph greedy\n input x: f32[2]\n y = Greedy@21(x)\n output y\n").unwrap_err();
    assert_eq!(
        error,
        "node \"Greedy_0\": package Geometry's Greedy requested more scratch or geometry than it declared: \
         requested 20 bytes, 16 are left while it prepares for its shapes"
    );
}

#[test]
fn a_run_whose_extents_are_refused_fails_and_the_next_one_prepares_again() {
    let model = compile(
        "graph bounded\n input x: f32[14]\n p = Positive@21(x)\n y = Backwards@21(p)\n output y\n",
    )
    .unwrap();
    let mut session = model.session().unwrap();
    let first = |count: usize| -> Vec<f32> {
        (0u8..14).map(|i| if usize::from(i) < count { f32::from(i) + 1.0 } else { -1.0 }).collect()
    };
    assert_eq!(run(&mut session, &first(2)), [2.0, 1.0]);
    for _ in 0..2 {
        session.input_mut::<f32>("x").unwrap().copy_from_slice(&first(UNLUCKY));
        let error = session.run().unwrap_err();
        let RunError::Step(error) = error else { panic!("{error}") };
        assert_eq!((&*error.node, error.error.status), ("Backwards_1", Status::BAD_VALUE));
    }
    assert_eq!(run(&mut session, &first(3)), [3.0, 2.0, 1.0]);
}

#[test]
fn packed_inputs_are_absent_in_all_queries() {
    for text in [
        "graph fixed
          input x: f32[2]
          constant w: f32[3]{1, 2, 3}
          y = Weighed@21(x, w)
          output y
        ",
        "graph bounded
          input x: f32[2]
          constant w: f32[3]{1, 2, 3}
          p = Positive@21(x)
          y = Weighed@21(p, w)
          output y
        ",
    ] {
        let mut session = compile(text).unwrap().session().unwrap();
        assert_eq!(run(&mut session, &[1.0, 2.0]), [0.0, 0.0], "{text}");
    }
}

#[test]
fn geometry_beyond_memory_is_refused_with_the_model() {
    let text = |before: &str| {
        format!(
            "graph boundless
              input x: f32[2]
              {before}
              a = Boundless@21(p)
              y = Boundless@21(a)
              output y
            "
        )
    };
    let error = compile(&text("p = Relu@21(x)")).unwrap_err();
    assert!(error.contains("package Geometry's Boundless needs"), "{error}");
    let error = compile(&text("p = Positive@21(x)")).unwrap_err();
    let wanted = format!("a session needs {} bytes of memory", usize::MAX);
    assert!(error.starts_with(&wanted), "{error}");
}

#[test]
fn extents_that_the_model_leaves_open_are_told_through_operators() {
    let graph = Graph::parse(
        "graph open
          input x: f32[n,3,?,8]
          constant w: f32[1]{1.0}
          a = Add@21(x, w)
          b = Concat@21(a, a) axis=2
          c = MaxPool@21(b) kernel_shape=[2, 2] strides=[2, 2]
          d = Flatten@21(c)
          y = Shown@21(d)
          output y
        ",
    )
    .unwrap();
    let mut operators = built_in();
    operators.add_static(&PACKAGE).unwrap();
    let mut options = CompileOptions::default();
    options.bind.shapes.insert("x".to_owned(), vec![2, 3, 4, 8]);
    options.bind.dims.insert("n".to_owned(), 2);
    let error = compile_graph(graph, &operators, &options).unwrap_err().to_string();
    assert!(error.contains("[Open(2), Open(48)]"), "{error}");
}
