//! Lowers expressions with indices: the index names that definitions and folds bind, and reads such as `x[i, k]`.

use super::{
    Entry, Lowering,
    typed::{Typed, coerced},
};
use crate::{
    fault::{Fault, Position},
    ir::{Binder, DefKind, FOLDS, Fold, FoldLoop, List, Read, Scalar, Select},
    signature::Class,
    syntax::{self, Args, Expr, Item},
};

impl Lowering<'_> {
    /// Declares the names of the indices. Returns the indices and the number of names, which the caller must remove
    /// from `names` at the end of the scope.
    pub(super) fn bind(
        &mut self,
        binders: &[syntax::Binder],
    ) -> Result<(Vec<Binder>, usize), Fault> {
        let mut bound = Vec::new();
        for binder in binders {
            bound.push(if binder.is_pack {
                let extents = self.list(&binder.bound)?;
                Binder::Pack(self.new_list(true), extents)
            } else {
                let count = self.number(&binder.bound, Class::Int)?;
                Binder::Index(self.new_scalar(true), count)
            });
        }
        let names_before = self.names.len();
        for (binder, bound) in binders.iter().zip(&bound) {
            if let Err(fault) = self.is_free(&binder.name, binder.at) {
                self.names.truncate(names_before);
                return Err(fault);
            }
            let entry = match bound {
                Binder::Index(slot, _) => Entry::Scalar(*slot, Class::Int),
                Binder::Pack(slot, _) => Entry::List(*slot),
            };
            self.push_local(&binder.name, entry, binder.at);
        }
        Ok((bound, binders.len()))
    }

    /// Lowers `name[binders](body)`, such as `sum[k < n](x[k])`.
    pub(super) fn fold(
        &mut self,
        name: &str,
        binders: &[syntax::Binder],
        earlier_name: Option<&str>,
        args: &Args,
        at: Position,
    ) -> Result<Typed, Fault> {
        if name == crate::ir::SELECT {
            return self.select(binders, earlier_name, args, at);
        }
        let Some(fold) = FOLDS.iter().find(|(known, _)| *known == name).map(|(_, fold)| *fold)
        else {
            let help = crate::words::did_you_mean(name, FOLDS.iter().map(|(known, _)| *known));
            return Err(Fault { help, ..Fault::new(at, format!("no reduction `{name}`")) });
        };
        let ([body], [], None) = (args.plain.as_slice(), args.named.as_slice(), earlier_name)
        else {
            return Err(Fault::new(
                at,
                format!("`{name}` over indices takes one expression and nothing else"),
            ));
        };
        let (binders, count) = self.bind(binders)?;
        let folded = self.scalar(body);
        self.names.truncate(self.names.len() - count);
        let (body_class, folded) = folded?;
        let (class, result) = fold_classes(fold, name, body_class, body.at)?;
        let folded = coerced(folded, body_class, class, body.at)?;
        let scalar = Scalar::Fold(Box::new(FoldLoop { at, fold, class, binders, body: folded }));
        // A value that does not depend on the index of an enclosing expression is computed once, in its own definition.
        let is_early = self.lateness(|see| scalar.walk(see)).is_none();
        if is_early || self.uses_locals(|see| scalar.walk(see)) {
            return Ok(Typed::Scalar(result, scalar));
        }
        let kind = DefKind::Elements { binders: Vec::new(), body: scalar };
        let source = self.hoisted(kind, result, at)?;
        Ok(Typed::Scalar(result, Scalar::read(source, List::Items(Vec::new()), at)))
    }

    /// Lowers `select[index < count; earlier](condition, by = .., limit = .., unless = ..)`.
    fn select(
        &mut self,
        binders: &[syntax::Binder],
        earlier_name: Option<&str>,
        args: &Args,
        at: Position,
    ) -> Result<Typed, Fault> {
        let ([condition], [syntax::Binder { is_pack: false, .. }]) =
            (args.plain.as_slice(), binders)
        else {
            return Err(Fault::new(at, "`select` takes one index and one condition"));
        };
        for (name, at, _) in &args.named {
            if !["by", "limit", "unless"].contains(&name.as_str()) {
                return Err(Fault::unexpected(
                    *at,
                    format!("argument `{name}` of `select`"),
                    "`by`, `limit` or `unless`",
                ));
            }
        }
        let named =
            |name: &str| args.named.iter().find(|(key, ..)| key == name).map(|(.., expr)| expr);
        let limit = match named("limit") {
            Some(limit) => {
                Some(self.early_scalar(limit, Class::Int, "the limit of a selection")?)
            }
            None => None,
        };
        let (indices, bound_names) = self.bind(binders)?;
        let Some(Binder::Index(index, count)) = indices.into_iter().next() else {
            return Err(Fault::new(at, "`select` takes one index"));
        };
        let parts = self.select_parts(condition, named("by"), (earlier_name, named("unless")), at);
        self.names.truncate(self.names.len() - bound_names);
        let (condition, by, unless) = parts?;
        self.must_be_early(|see| count.walk(see), at, "the bound of a selection")?;
        let select = Select { index, count, condition, by, limit, unless };
        let source = self.hoisted(DefKind::Select(Box::new(select)), Class::Int, at)?;
        Ok(Typed::Tensor(super::expr::named(source, Class::Int, at)))
    }

    /// Lowers the condition, the score, and the `unless` condition with the slot of the earlier selected index.
    #[expect(clippy::type_complexity, reason = "the parts are destructured at once")]
    fn select_parts(
        &mut self,
        condition: &Expr,
        by: Option<&Expr>,
        unless: (Option<&str>, Option<&Expr>),
        at: Position,
    ) -> Result<(Scalar, Option<Scalar>, Option<(usize, Scalar)>), Fault> {
        let condition = self.number(condition, Class::Bool)?;
        let by = match by {
            Some(by) => Some(self.scalar(by)?.1),
            None => None,
        };
        let unless = match unless {
            (Some(name), Some(unless)) => {
                self.is_free(name, at)?;
                let slot = self.new_scalar(true);
                self.push_local(name, Entry::Scalar(slot, Class::Int), at);
                let unless = self.number(unless, Class::Bool);
                self.names.pop();
                Some((slot, unless?))
            }
            (None, None) => None,
            _ => {
                let message =
                    "`select` has `unless` without a name after `;`, or the name without `unless`";
                return Err(Fault::new(at, message)
                    .with_help("write `select[r < n; s](.., unless = near[r, s])`"));
            }
        };
        Ok((condition, by, unless))
    }

    /// Lowers `base[items else outside]`.
    pub(super) fn index(
        &mut self,
        base: &Expr,
        items: &[Item],
        outside: Option<&Expr>,
        at: Position,
    ) -> Result<Typed, Fault> {
        match self.expr(base)? {
            Typed::List(list) => self.list_index(list, items, outside, at),
            Typed::Tensor(whole) => {
                let class = whole.class;
                let source = self.source(whole, at)?;
                let coords = List::Items(self.items(items)?);
                let coord_count = coords.known_len(&|source| self.rank(source));
                if let (Some(coord_count), Some(rank)) = (coord_count, self.rank(source))
                    && coord_count != rank
                {
                    return Err(Fault::unexpected(
                        at,
                        format!("{coord_count} indices"),
                        format!("{rank}, the rank of the tensor"),
                    ));
                }
                let outside = match outside {
                    Some(outside) => Some(self.number(outside, class)?),
                    None => None,
                };
                Ok(Typed::Scalar(
                    class,
                    Scalar::Read(Box::new(Read { at, source, coords, outside })),
                ))
            }
            typed => Err(Fault::unexpected(at, typed.describe(), "a tensor or a list before `[`")),
        }
    }

    fn list_index(
        &mut self,
        list: List,
        items: &[Item],
        outside: Option<&Expr>,
        at: Position,
    ) -> Result<Typed, Fault> {
        if let Some(outside) = outside {
            return Err(Fault::unexpected(
                outside.at,
                "`else` in a list index",
                "`else` in a tensor read only",
            ));
        }
        match items {
            [Item::One(expr)] => {
                let position = self.number(expr, Class::Int)?;
                Ok(Typed::Scalar(Class::Int, list.item(position, at)))
            }
            [Item::Slice(from, to)] => {
                let mut ends = Vec::new();
                for end in [from, to] {
                    ends.push(match end {
                        Some(end) => Some(self.number(end, Class::Int)?),
                        None => None,
                    });
                }
                let to = ends.pop().flatten();
                Ok(Typed::List(list.slice(ends.pop().flatten(), to)))
            }
            _ => Err(Fault::new(at, "a list is indexed as `list[k]` or sliced as `list[from:to]`")),
        }
    }
}

/// Returns the classes of a fold's elements and of its result for operands of a class.
pub(super) fn fold_classes(
    fold: Fold,
    name: &str,
    operand_class: Class,
    at: Position,
) -> Result<(Class, Class), Fault> {
    match (fold, operand_class) {
        (Fold::Mean, Class::Int | Class::Float) => Ok((Class::Float, Class::Float)),
        (Fold::Sum | Fold::Prod | Fold::Max | Fold::Min, Class::Int | Class::Float) => {
            Ok((operand_class, operand_class))
        }
        (Fold::ArgMax | Fold::ArgMin, Class::Int | Class::Float) => Ok((operand_class, Class::Int)),
        (Fold::Any | Fold::All, Class::Bool) => Ok((Class::Bool, Class::Bool)),
        (Fold::Count, Class::Bool) => Ok((Class::Bool, Class::Int)),
        _ => {
            let expected = if operand_class == Class::Bool { "numbers" } else { "bools" };
            Err(Fault::unexpected(at, format!("`{name}` of {}", operand_class.word()), expected))
        }
    }
}
