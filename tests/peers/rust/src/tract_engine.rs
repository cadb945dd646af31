//! tract: a plan for the shapes of the inputs.

use std::path::Path;
use std::sync::Arc;

use tract_onnx::prelude::{
    DatumType, Framework, InferenceFact, InferenceModelExt, IntoRunnable, TValue, Tensor,
    TypedRunnableModel, multithread,
};

use crate::{Elements, Engine, Input, Outcome};

struct Tract {
    plan: Arc<TypedRunnableModel>,
    inputs: Vec<TValue>,
}

pub(crate) fn load(path: &Path, threads: usize, inputs: &[Input]) -> Outcome<impl Engine + use<>> {
    if threads > 1 {
        multithread::set_default_executor(multithread::Executor::multithread(threads));
    }
    let mut model = tract_onnx::onnx().model_for_path(path)?;
    let names: Vec<String> =
        model.input_outlets()?.iter().map(|outlet| model.node(outlet.node).name.clone()).collect();
    let mut tensors = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let input = inputs.iter().find(|input| input.name == *name);
        let input = input.ok_or_else(|| format!("no tensor for input {name}"))?;
        let (dtype, tensor) = tensor(input)?;
        let shape = input.dims.iter().copied();
        model = model.with_input_fact(at, InferenceFact::dt_shape(dtype, shape))?;
        tensors.push(tensor.into());
    }
    Ok(Tract { plan: model.into_optimized()?.into_runnable()?, inputs: tensors })
}

fn tensor(input: &Input) -> Outcome<(DatumType, Tensor)> {
    let dims = &input.dims;
    Ok(match &input.elements {
        Elements::F32(elements) => (DatumType::F32, Tensor::from_shape(dims, elements)?),
        Elements::I32(elements) => (DatumType::I32, Tensor::from_shape(dims, elements)?),
        Elements::I64(elements) => (DatumType::I64, Tensor::from_shape(dims, elements)?),
    })
}

impl Engine for Tract {
    fn run(&mut self) -> Outcome<Vec<f32>> {
        let outputs = self.plan.run(self.inputs.iter().cloned().collect())?;
        let first = outputs.first().filter(|first| first.datum_type() == DatumType::F32);
        Ok(match first {
            Some(first) => first.to_plain_array_view::<f32>()?.iter().copied().collect(),
            None => Vec::new(),
        })
    }
}
