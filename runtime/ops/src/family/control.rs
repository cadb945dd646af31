//! Control-flow operators: If, Loop and Scan. Their parameters hold graphs, which the host runs; facts in the schema
//! tell the host how. A member is a schema only, without kernels.
use std::marker::PhantomData;

use udo_api::{Error, InferCx, Op, OpDef, OpSchema};

use crate::Def;

/// A control-flow operator.
pub(crate) trait Control: 'static {
    /// The schema, with one of the facts `BRANCHES`, `LOOP` and `SCAN`.
    const SCHEMA: OpSchema;
}

/// Returns the definition of the operator `C`, which has no kernels.
pub(crate) const fn control<C: Control>() -> Def {
    Def {
        op: OpDef::of::<Hosted<C>>(),
        kernels: &[],
        #[cfg(test)]
        test: Some(tests::test),
    }
}

/// The operator with the schema of `C`.
struct Hosted<C>(PhantomData<C>);

impl<C: Control> Op for Hosted<C> {
    const SCHEMA: OpSchema = C::SCHEMA;

    fn infer(_: &mut InferCx<'_>) -> Result<(), Error> {
        Err(Error::new("the outputs of a control-flow operator depend on its graphs"))
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Facts, ParamKind};

    use crate::OPS;

    /// Checks that a member states one fact, and has the number of graphs that the fact requires.
    pub(super) fn test(name: &str) {
        let op = OPS.iter().find(|op| op.schema().name() == name).unwrap();
        let schema = op.schema();
        let facts = [Facts::BRANCHES, Facts::LOOP, Facts::SCAN];
        let stated: Vec<_> = facts.iter().filter(|fact| schema.known_facts().has(**fact)).collect();
        let graphs = schema.params().iter().filter(|p| p.kind() == Some(ParamKind::Graph)).count();
        let expected = if stated == [&Facts::BRANCHES] { 2 } else { 1 };
        assert_eq!((stated.len(), graphs), (1, expected), "{name}");
    }
}
