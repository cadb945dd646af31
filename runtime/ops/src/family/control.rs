//! Operators whose graphs the host runs: a member is a schema, and the facts that say how.
use std::marker::PhantomData;

use udo_api::{Error, InferCx, Op, OpDef, OpSchema};

use crate::Def;

/// A member of the family.
pub(crate) trait Control: 'static {
    /// With one of the facts by which the host knows what to do.
    const SCHEMA: OpSchema;
}

/// The definition of a member, which has no kernels.
pub(crate) const fn control<C: Control>() -> Def {
    Def {
        op: OpDef::of::<Hosted<C>>(),
        kernels: &[],
        #[cfg(test)]
        test: Some(tests::test),
    }
}

struct Hosted<C>(PhantomData<C>);

impl<C: Control> Op for Hosted<C> {
    const SCHEMA: OpSchema = C::SCHEMA;

    fn infer(_: &mut InferCx<'_>) -> Result<(), Error> {
        Err(Error::new("what its graphs give, only a host that runs them knows"))
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Facts, ParamKind};

    use crate::OPS;

    /// A member states one fact, and has as many graphs as that says.
    pub(super) fn test(name: &str) {
        let op = OPS.iter().find(|op| op.schema().name() == name).unwrap();
        let schema = op.schema();
        let facts = [Facts::BRANCHES, Facts::LOOP, Facts::SCAN];
        let stated: Vec<_> = facts.iter().filter(|fact| schema.known_facts().has(**fact)).collect();
        let graphs = schema.params().iter().filter(|p| p.kind() == Some(ParamKind::Graph)).count();
        let wanted = if stated == [&Facts::BRANCHES] { 2 } else { 1 };
        assert_eq!((stated.len(), graphs), (1, wanted), "{name}");
    }
}
