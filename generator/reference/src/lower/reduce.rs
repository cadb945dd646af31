//! Lowers folds along axes of a whole tensor, such as `sum(x, axis = 1, keep = true)`: the result becomes a definition
//! of its own, a tensor whose elements fold over the reduced axes.

use super::{
    Lowering,
    expr::named,
    index::fold_classes,
    typed::{Typed, Whole, coerced},
};
use crate::{
    fault::{Fault, Position},
    function::Binary,
    ir::{Axes, AxesOf, Binder, DefKind, Fold, FoldLoop, HERE, Item, List, Scalar},
    signature::Class,
    syntax::{Args, Expr},
};

impl Lowering<'_> {
    /// Lowers `sum(x, axis = a, keep = true)`, or the largest or smallest of several values.
    pub(super) fn reduce(
        &mut self,
        name: &str,
        fold: Fold,
        args: &Args,
        at: Position,
    ) -> Result<Typed, Fault> {
        let operand = match args.plain.as_slice() {
            [operand] => operand,
            several @ [_, _, ..]
                if args.named.is_empty() && matches!(fold, Fold::Max | Fold::Min) =>
            {
                let op = if fold == Fold::Max { Binary::Max } else { Binary::Min };
                return self.several(name, op, several, at);
            }
            _ => {
                return Err(Fault::new(
                    at,
                    format!("`{name}` takes one tensor, `axis` and `keep`"),
                ));
            }
        };
        let whole = match self.expr(operand)? {
            Typed::Tensor(whole) => whole,
            typed => {
                let found = typed.describe();
                return Err(Fault::unexpected(
                    operand.at,
                    format!("`{name}` of {found}"),
                    format!("a tensor, or indices as in `{name}[k < n](..)`"),
                ));
            }
        };
        let (mut axes, mut keep) = (None, Scalar::Bool(false));
        for (argument, at, expr) in &args.named {
            match argument.as_str() {
                "axis" => axes = Some(self.axes(expr)?),
                "keep" => keep = self.flag(expr)?,
                _ => {
                    return Err(Fault::unexpected(
                        *at,
                        format!("argument `{argument}` of `{name}`"),
                        "`axis` or `keep`",
                    ));
                }
            }
        }
        self.reduced(name, fold, whole, (axes, keep), at)
    }

    /// Lowers `max(a, b, ..)` or `min(a, b, ..)`.
    fn several(
        &mut self,
        name: &str,
        op: Binary,
        operands: &[Expr],
        at: Position,
    ) -> Result<Typed, Fault> {
        let mut level = Vec::new();
        for operand in operands {
            level.push(self.expr(operand)?);
        }
        // Combines neighbours, so that the height of the tree is logarithmic in the number of operands.
        loop {
            let mut next = Vec::new();
            let mut operands_left = level.into_iter();
            while let Some(first) = operands_left.next() {
                next.push(match operands_left.next() {
                    Some(second) => self.binary(op, name, first, second, at)?,
                    None => first,
                });
            }
            if next.len() <= 1 {
                return next
                    .pop()
                    .ok_or_else(|| Fault::new(at, format!("`{name}` without an argument")));
            }
            level = next;
        }
    }

    /// Lowers one axis or a list of axes.
    fn axes(&mut self, expr: &Expr) -> Result<List, Fault> {
        let list = match self.expr(expr)? {
            Typed::Scalar(class, scalar) => {
                List::Items(vec![Item::One(coerced(scalar, class, Class::Int, expr.at)?)])
            }
            Typed::List(list) => list,
            Typed::Tensor(_) => self.list(expr)?,
            Typed::Text(_) => {
                return Err(Fault::unexpected(expr.at, "a string", "an axis or a list of axes"));
            }
        };
        self.store_list(list, expr.at)
    }

    /// Lowers a bool that depends on shapes and parameters only; integer parameters are converted.
    fn flag(&mut self, expr: &Expr) -> Result<Scalar, Fault> {
        let (class, scalar) = self.scalar(expr)?;
        let scalar = match class {
            Class::Bool => scalar,
            Class::Int => Scalar::Cast(Class::Bool, Box::new(scalar)),
            Class::Float => return Err(Fault::unexpected(expr.at, "float", "bool")),
        };
        self.must_be_early(|see| scalar.walk(see), expr.at, "`keep`")?;
        Ok(scalar)
    }

    /// Lowers the fold itself.
    fn reduced(
        &mut self,
        name: &str,
        fold: Fold,
        whole: Whole,
        (axes, keep): (Option<List>, Scalar),
        at: Position,
    ) -> Result<Typed, Fault> {
        let (class, result) = fold_classes(fold, name, whole.class, at)?;
        let element = coerced(whole.body, whole.class, class, at)?;
        let dims = self.store_list(whole.shape, at)?;
        let list_of_axes = |what| {
            List::Axes(Box::new(Axes { at, what, dims: dims.clone(), reduced: axes.clone() }))
        };
        let reduced_coords = self.new_list(true);
        let coords =
            list_of_axes(AxesOf::Merged(List::Var(HERE), List::Var(reduced_coords), keep.clone()));
        let body = Scalar::Fold(Box::new(FoldLoop {
            at,
            fold,
            class,
            binders: vec![Binder::Pack(reduced_coords, list_of_axes(AxesOf::Reduced))],
            body: Scalar::There(Box::new(coords), Box::new(element)),
        }));
        if axes.is_none() && matches!(keep, Scalar::Bool(false)) {
            let kind = DefKind::Elements {
                binders: vec![Binder::Pack(HERE, List::Items(Vec::new()))],
                body,
            };
            let source = self.hoisted(kind, result, at)?;
            return Ok(Typed::Scalar(result, Scalar::read(source, List::Items(Vec::new()), at)));
        }
        let shape = list_of_axes(AxesOf::Left(keep));
        let kind = DefKind::Elements { binders: vec![Binder::Pack(HERE, shape)], body };
        let source = self.hoisted(kind, result, at)?;
        Ok(Typed::Tensor(named(source, result, at)))
    }
}
