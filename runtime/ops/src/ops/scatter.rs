//! Scatters elements along an axis into a copy of the data: the deprecated predecessor of `ScatterElements`, which only
//! overwrites.

use udo_api::{DType, OpSchema, Param, Port, Value, types};

use crate::Def;
use crate::family::scatter::{Elements, ScatterAlong, scatter};

pub(crate) const DEF: Def = scatter::<Elements<Scatter>>();

struct Scatter;

impl ScatterAlong for Scatter {
    const SCHEMA: OpSchema = OpSchema::new(
        "Scatter",
        &[
            Port::required("data", types::ANY),
            Port::required("indices", types::INDEX),
            Port::required("updates", types::ANY),
        ],
        &[Port::required("output", types::ANY)],
        &[Param::scalar("axis", DType::I64).default(Value::int(0))],
    );
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn updates_replace_elements() {
        let run = bench("Scatter").input(tensor(&[1, 5], &[1f32, 2.0, 3.0, 4.0, 5.0]));
        let run = run.input(tensor(&[1, 2], &[1i64, -2])).input(tensor(&[1, 2], &[1.1f32, 2.1]));
        assert_eq!(run.int("axis", 1).one().values::<f32>(), [1.0, 1.1, 3.0, 2.1, 5.0]);
    }
}
