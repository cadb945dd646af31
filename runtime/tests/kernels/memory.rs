//! Models and sessions that want more memory than they may have.

use udo_api::types::F32;
use udo_api::{
    Core, DType, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpDef, OpSchema,
    PackageV1, Port, Shape, TensorDesc, Workspace,
};
use udo_compile::plan::PlanLayout;
use udo_graph::memory::Limit;
use udo_runtime::compile::CompileError;
use udo_runtime::graph::{DimSpec, Graph, Node};
use udo_runtime::{CompileOptions, Model, Tensor};
use udo_test_support::compile::{built_in, compile_graph};
use udo_test_support::graphs;

static PACKAGE: PackageV1 = PackageV1::new("Greedy", "1.0.0")
    .ops(&[OpDef::of::<Claim>(), OpDef::of::<Scratch>()])
    .kernels(&[
        KernelDef::new::<Idle<0>>("Claim", Core::CPU),
        KernelDef::new::<Idle<5000>>("Scratch", Core::CPU),
    ]);

/// Claims an output of 2^50 elements.
struct Claim;

impl Op for Claim {
    const SCHEMA: OpSchema =
        OpSchema::new("Claim", &[Port::required("x", F32)], &[Port::required("y", F32)], &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        cx.set_output(0, TensorDesc::new(DType::F32, Shape::new(&[1 << 25, 1 << 25])?))
    }
}

/// Wants more scratch than its tensors have bytes.
struct Scratch;

impl Op for Scratch {
    const SCHEMA: OpSchema =
        OpSchema::new("Scratch", &[Port::required("x", F32)], &[Port::required("y", F32)], &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

struct Idle<const SCRATCH: usize>;

impl<const SCRATCH: usize> Kernel for Idle<SCRATCH> {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn workspace(&self) -> Workspace {
        Workspace::for_elements::<u8>(SCRATCH)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { mut outputs, .. } = io;
        outputs.take::<f32>(0)?.fill(1.0);
        Ok(())
    }
}

fn compile(op: &str, max_memory: Option<usize>) -> Result<Model, CompileError> {
    let graph = graphs::one_node(op, 1, DType::F32, &[16], &[]);
    graphs::compile(graph, &PACKAGE, &CompileOptions { max_memory, ..CompileOptions::default() })
}

#[test]
fn an_output_that_no_machine_holds_is_refused_by_name() {
    let error = compile("Claim", None).unwrap_err().to_string();
    let (wants, largest) = error.split_once("; ").unwrap();
    assert_eq!(
        largest,
        "output 0 of node \"the_claim\" (Claim), f32[33554432,33554432], takes 4503599627370496 of them"
    );
    let limit = match Limit::of_machine() {
        Limit::Machine(bytes) => format!("and 0 of the {bytes} that the machine has are in use"),
        // The system has to refuse, where it does not say how much there is.
        Limit::None | Limit::Asked(_) => "and the system gives no more".to_owned(),
    };
    assert_eq!(wants, format!("a session needs 4503599627370560 bytes of memory, {limit}"));
}

#[test]
fn sessions_share_the_memory_limit_of_their_model() {
    // Input, output and scratch, each at a multiple of 64.
    let bytes = compile("Scratch", None).unwrap().plan().unwrap().session_bytes();
    assert_eq!(bytes, 64 + 64 + 5000);
    let error = compile("Scratch", Some(bytes - 1)).unwrap_err().to_string();
    let largest = "the scratch of node \"the_scratch\" (Scratch) takes 5000 of them";
    assert_eq!(
        error,
        format!(
            "a session needs 5128 bytes of memory, and 0 of the 5127 that max_memory allows are in use; {largest}"
        )
    );
    let model = compile("Scratch", Some(2 * bytes)).unwrap();
    let (mut first, second) = (model.session().unwrap(), model.session().unwrap());
    let error = model.session().unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "a session needs 5128 bytes of memory, and 10256 of the 10256 that max_memory allows are in use; {largest}"
        )
    );
    drop(second);
    first.run().unwrap();
    model.session().unwrap().run().unwrap();
}

/// `y = x · w`, with weights that the kernel packs.
fn product() -> Graph {
    let mut graph = Graph::new("product");
    let x = graph.add_input("x", DType::F32, [DimSpec::Fixed(4), DimSpec::Fixed(64)]);
    let weights = Tensor::from_slice(Shape::new(&[64, 64]).unwrap(), &[0.5f32; 64 * 64]).unwrap();
    let w = graph.add_constant("w", weights);
    let y = graph.add_value("y");
    let mut node = Node::new("MatMul", 21, &[x, w], &[y]);
    "the_product".clone_into(&mut node.name);
    graph.add_node(node);
    graph.outputs.push(y);
    graph
}

/// Convolutions one behind the other whose images shrink by two pixels each, and whose weights have as many bytes.
fn convolutions(count: usize) -> Graph {
    const CHANNELS: usize = 32;
    let mut graph = Graph::new("convolutions");
    let dims = [1, CHANNELS, 64, 64].map(DimSpec::Fixed);
    let mut x = graph.add_input("x", DType::F32, dims);
    for (at, nth) in (1u8..).take(count).enumerate() {
        let shape = Shape::new(&[CHANNELS, CHANNELS, 3, 3]).unwrap();
        let weights = vec![1.0 / f32::from(nth); shape.len()];
        let w = graph.add_constant(&format!("w{at}"), Tensor::from_slice(shape, &weights).unwrap());
        let y = graph.add_value(&format!("y{at}"));
        graph.add_node(Node::new("Conv", 11, &[x, w], &[y]));
        x = y;
    }
    graph.outputs.push(x);
    graph
}

#[test]
fn prepacked_weights_count_towards_the_memory_limit() {
    for count in [1, 2, 10] {
        let operators = built_in();
        let graph = convolutions(count);
        let model = compile_graph(graph, &operators, &CompileOptions::default()).unwrap();
        let memory = &model.report().memories[0];
        let own = count * 32 * 32 * 9 * 4;
        let held = memory.constant_bytes + memory.packed_bytes;
        assert!(held <= own / 5 * 8, "{count}: {held} bytes of {own}");
        // Where there is room for one, some are transformed for Winograd's algorithm.
        assert_eq!(held > own / 5 * 6, count > 1, "{count}: {held} bytes of {own}");
    }
}

#[test]
fn packed_constants_count() {
    let operators = built_in();
    let compile = |max_memory| {
        compile_graph(
            product(),
            &operators,
            &CompileOptions { max_memory, ..CompileOptions::default() },
        )
    };
    let free = compile(None).unwrap();
    let packed: usize = free.report().memories.iter().map(|m| m.packed_bytes).sum();
    let session = free.plan().unwrap().session_bytes();
    assert!(packed >= 64 * 64 * 4, "{packed} bytes");
    // Constants that somebody has are shared, and count for the model that made them.
    drop(free);
    let error = compile(Some(packed - 1)).unwrap_err().to_string();
    assert!(error.contains("\"the_product\"") && error.contains("MatMul"), "{error}");
    let wants = format!(
        "needs {packed} bytes of memory, and 0 of the {} that max_memory allows are in use",
        packed - 1
    );
    assert!(error.contains(&wants), "{error}");
    let error = compile(Some(packed + session - 1)).unwrap_err().to_string();
    let wants = format!("a session needs {session} bytes of memory, and {packed} of the ");
    assert!(error.starts_with(&wants), "{error}");
    let model = compile(Some(packed + session)).unwrap();
    let mut session = model.session().unwrap();
    session.input_mut::<f32>("x").unwrap().fill(2.0);
    session.run().unwrap();
    assert!(session.output::<f32>("y").unwrap().iter().all(|y| y.to_bits() == 64f32.to_bits()));
}
