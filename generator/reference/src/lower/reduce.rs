//! Lowers folds along axes of a whole tensor.

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
        // In pairs, so that the tree stays low.
        loop {
            let mut next = Vec::new();
            let mut each = level.into_iter();
            while let Some(first) = each.next() {
                next.push(match each.next() {
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
        let of = |what| {
            List::Axes(Box::new(Axes { at, what, dims: dims.clone(), reduced: axes.clone() }))
        };
        let inner = self.new_list(true);
        let merged = of(AxesOf::Merged(List::Var(HERE), List::Var(inner), keep.clone()));
        let body = Scalar::Fold(Box::new(FoldLoop {
            at,
            fold,
            class,
            binders: vec![Binder::Pack(inner, of(AxesOf::Reduced))],
            body: Scalar::There(Box::new(merged), Box::new(element)),
        }));
        if axes.is_none() && matches!(keep, Scalar::Bool(false)) {
            let kind = DefKind::Elements {
                binders: vec![Binder::Pack(HERE, List::Items(Vec::new()))],
                body,
            };
            let source = self.hoisted(kind, result, at)?;
            return Ok(Typed::Scalar(result, Scalar::read(source, List::Items(Vec::new()), at)));
        }
        let left = of(AxesOf::Left(keep));
        let kind = DefKind::Elements { binders: vec![Binder::Pack(HERE, left)], body };
        let source = self.hoisted(kind, result, at)?;
        Ok(Typed::Tensor(named(source, result, at)))
    }
}
