//! rten: a graph, and a pool of threads for its runs.

use std::path::Path;
use std::sync::Arc;

use rten::{Model, ModelOptions, NodeId, RunOptions, ThreadPool, Value};
use rten_tensor::prelude::*;

use crate::{Elements, Engine, Input, Outcome};

struct Rten {
    model: Model,
    inputs: Vec<(NodeId, Value)>,
    options: RunOptions,
}

pub(crate) fn load(
    path: &Path,
    threads: usize,
    inputs: Vec<Input>,
) -> Outcome<impl Engine + use<>> {
    let mut options = ModelOptions::with_all_ops();
    options.prepack_weights(true);
    let model = options.load_file(path)?;
    let inputs = inputs.into_iter().map(|Input { name, dims, elements }| {
        let value = match elements {
            Elements::F32(elements) => Value::from_shape(dims, elements)?,
            Elements::I32(elements) => Value::from_shape(dims, elements)?,
            // It has no wider integers.
            Elements::I64(elements) => {
                let narrow =
                    elements.into_iter().map(i32::try_from).collect::<Result<Vec<_>, _>>()?;
                Value::from_shape(dims, narrow)?
            }
        };
        Ok((model.node_id(&name)?, value))
    });
    let inputs = inputs.collect::<Outcome<_>>()?;
    let pool = Some(Arc::new(ThreadPool::with_num_threads(threads)));
    Ok(Rten { model, inputs, options: RunOptions::default().with_thread_pool(pool) })
}

impl Engine for Rten {
    fn run(&mut self) -> Outcome<Vec<f32>> {
        let inputs = self.inputs.iter().map(|(id, value)| (*id, value.as_view().into())).collect();
        let outputs =
            self.model.run(inputs, self.model.output_ids(), Some(self.options.clone()))?;
        Ok(match outputs.first() {
            Some(Value::FloatTensor(first)) => first.to_vec(),
            Some(_) | None => Vec::new(),
        })
    }
}
