//! Parameters as a package's operators and kernels see them.

use udo_api::abi::RawStr;
use udo_api::{
    Bool, Core, DType, Error, ExecError, F16, FinalizeCx, InferCx, Io, Kernel, KernelDef, Node, Op,
    OpDef, OpSchema, PackageV1, Param, Port, Shape, TensorDesc, Value, bytes_of, types,
};
use udo_runtime::graph::Attr;
use udo_runtime::{CompileOptions, Tensor};
use udo_test_support::graphs::{compile, one_node};

/// A tensor that is in the model.
struct InModel;

impl Op for InModel {
    const SCHEMA: OpSchema = OpSchema::new(
        "InModel",
        &[Port::required("x", types::F32)],
        &[Port::required("y", types::ANY)],
        &[Param::typed_tensor("value", types::F16.or(types::I32).or(types::BOOL)).optional()],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let desc = if cx.has_param("value") {
            *cx.tensor("value")?.desc()
        } else {
            TensorDesc::new(DType::I32, Shape::SCALAR)
        };
        cx.set_output(0, desc)
    }
}

/// The elements of `value`, as the types that the parameter may have.
enum HeldAny {
    F16(Vec<F16>),
    I32(Vec<i32>),
    Bool(Vec<Bool>),
}

impl HeldAny {
    fn read(node: &Node<'_>) -> Result<Self, Error> {
        if !node.has_param("value") {
            return Ok(Self::I32(vec![-1]));
        }
        let value = node.tensor("value")?;
        match value.desc().dtype() {
            Some(DType::F16) => Ok(Self::F16(value.get::<F16>()?.to_vec())),
            Some(DType::Bool) => Ok(Self::Bool(value.get::<Bool>()?.to_vec())),
            _ => Ok(Self::I32(value.get::<i32>()?.to_vec())),
        }
    }
}

impl Kernel for HeldAny {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Self::read(cx)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let mut outputs = io.outputs;
        match self {
            Self::F16(values) => outputs.take::<F16>(0)?.copy_from_slice(values),
            Self::I32(values) => outputs.take::<i32>(0)?.copy_from_slice(values),
            Self::Bool(values) => outputs.take::<Bool>(0)?.copy_from_slice(values),
        }
        Ok(())
    }
}

/// How many letters each text has.
struct Letters;

impl Op for Letters {
    const SCHEMA: OpSchema = OpSchema::new(
        "Letters",
        &[Port::required("x", types::F32)],
        &[Port::required("y", types::I32)],
        &[Param::strings("of").default(Value::texts(&[RawStr::new("some"), RawStr::new("")]))],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let count = cx.strings("of")?.len();
        cx.set_output(0, TensorDesc::new(DType::I32, Shape::new(&[count])?))
    }
}

struct LettersAny(Vec<i32>);

impl Kernel for LettersAny {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let len = |text: &str| i32::try_from(text.chars().count());
        let lens = cx.strings("of")?.into_iter().map(len).collect::<Result<_, _>>();
        lens.map(Self).map_err(|_| Error::new("a text is too long"))
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let mut outputs = io.outputs;
        outputs.take::<i32>(0)?.copy_from_slice(&self.0);
        Ok(())
    }
}

static PACKAGE: PackageV1 = PackageV1::new("Params", "1.0.0")
    .ops(&[OpDef::of::<InModel>(), OpDef::of::<Letters>()])
    .kernels(&[
        KernelDef::new::<HeldAny>("InModel", Core::CPU),
        KernelDef::new::<LettersAny>("Letters", Core::CPU),
    ]);

fn run_in_model(attrs: &[(&str, Attr)]) -> Result<Tensor, String> {
    run("InModel", attrs)
}

fn run(op: &str, attrs: &[(&str, Attr)]) -> Result<Tensor, String> {
    let graph = one_node(op, 1, DType::F32, &[1], attrs);
    let model = compile(graph, &PACKAGE, &CompileOptions::default()).map_err(|e| e.to_string())?;
    let mut session = model.session().unwrap();
    session.run().unwrap();
    Ok(session.output_tensor("y").unwrap())
}

fn tensor<T: udo_api::Element>(dims: &[usize], values: &[T]) -> Tensor {
    Tensor::from_slice(Shape::new(dims).unwrap(), values).unwrap()
}

#[test]
fn a_tensor_keeps_its_type_and_shape() {
    let cases = [
        tensor(&[2, 1], &[F16(0x3c00), F16(0xc000)]),
        tensor(&[1, 3, 1], &[7i32, -8, i32::MIN]),
        tensor(&[2], &[Bool::from(true), Bool::from(false)]),
        tensor(&[], &[5i32]),
        tensor::<i32>(&[0, 2], &[]),
    ];
    for wanted in cases {
        let found = run_in_model(&[("value", Attr::Tensor(wanted.clone()))]).unwrap();
        assert_eq!((found.desc(), found.bytes()), (wanted.desc(), wanted.bytes()));
    }
    assert_eq!(run_in_model(&[]).unwrap().bytes(), bytes_of(&[-1i32]), "a node may leave it out");
}

#[test]
fn tensors_of_other_types_are_refused() {
    let cases = [
        (Attr::Tensor(tensor(&[1], &[1.0f32])), "a tensor of f32"),
        (Attr::Ints(vec![1]), "a list of integers"),
        (Attr::Int(1), "an integer"),
    ];
    for (attr, found) in cases {
        let wanted = format!(
            "node \"the_inmodel\" (InModel): attribute \"value\" is {found}, expected a tensor of f16|i32|bool"
        );
        assert_eq!(run_in_model(&[("value", attr)]).unwrap_err(), wanted);
    }
}

#[test]
fn texts_arrive_in_their_order() {
    let texts = |texts: &[&str]| Attr::Texts(texts.iter().map(|&t| t.to_owned()).collect());
    let cases: [(Attr, &[i32]); 3] = [
        (texts(&["a", "", "größer"]), &[1, 0, 6]),
        (texts(&[]), &[]),
        (Attr::Ints(Vec::new()), &[]),
    ];
    for (attr, wanted) in cases {
        assert_eq!(run("Letters", &[("of", attr)]).unwrap().get::<i32>(), Some(wanted));
    }
    assert_eq!(run("Letters", &[]).unwrap().get::<i32>(), Some(&[4, 0][..]), "the default");
    let error = run("Letters", &[("of", Attr::Text("a".to_owned()))]).unwrap_err();
    let wanted = "attribute \"of\" is text, expected a list of strings";
    assert_eq!(error, format!("node \"the_letters\" (Letters): {wanted}"));
}
