//! Lowers calls by name: one row of [`CALLS`] each, except folds and functions of numbers.

use super::{
    Lowering,
    expr::unary,
    typed::{Typed, Whole, class_of, each, of_class},
};
use crate::{
    fault::{Fault, Position},
    function::{BINARY_CALLS, Binary, UNARY, Unary},
    ir::{FOLDS, HERE, Item, List, Scalar, Source},
    signature::Class,
    syntax::{Args, Expr, Kind},
    words::did_you_mean,
};

type Call = for<'a, 'b> fn(&'a mut Lowering<'b>, &'a Args, Position) -> Result<Typed, Fault>;

/// The functions by name, with their minimum and maximum number of arguments, and their named arguments.
const CALLS: &[(&str, [usize; 2], &[&str], Call)] = &[
    ("float", [1, 1], &[], |at, args, place| at.cast(Class::Float, args, place)),
    ("int", [1, 1], &[], |at, args, place| at.cast(Class::Int, args, place)),
    ("bool", [1, 1], &[], |at, args, place| at.cast(Class::Bool, args, place)),
    ("present", [1, 1], &[], |at, args, place| at.present(args, place)),
    ("dims", [1, 1], &[], |at, args, place| at.dims(args, place)),
    ("dim", [2, 2], &[], |at, args, place| at.dim(args, place)),
    ("rank", [1, 1], &[], |at, args, place| at.len(args, place)),
    ("len", [1, 1], &[], |at, args, place| at.len(args, place)),
    ("size", [1, 1], &[], |at, args, place| at.size(args, place)),
    ("axis_of", [2, 2], &[], |at, args, place| at.axis_of(args, place)),
    ("broadcast", [1, 16], &[], |at, args, place| at.broadcast(args, place)),
    ("unravel", [2, 2], &[], |at, args, place| at.unravel(args, place)),
    ("ravel", [2, 2], &[], |at, args, place| at.ravel(args, place)),
    ("clamp", [3, 3], &[], |at, args, place| at.clamp(args, place)),
    ("square", [1, 1], &[], |at, args, place| at.square(args, place)),
    ("is_nan", [1, 1], &[], |at, args, place| at.is_nan(args, place)),
    ("is_inf", [1, 1], &[], |at, args, place| at.is_inf(args, place)),
    ("bit_not", [1, 1], &[], |at, args, place| at.bit_not(args, place)),
    ("transpose", [1, 2], &[], |at, args, place| at.transpose(args, place)),
    ("reshape", [2, 2], &[], |at, args, place| at.reshape(args, place)),
    ("expand", [2, 2], &[], |at, args, place| at.expand(args, place)),
    ("concat", [1, 16], &["axis"], |at, args, place| at.concat(args, place)),
    ("matmul", [2, 2], &[], |at, args, place| at.matmul(args, place)),
];

/// Returns the names of all functions.
pub fn function_names() -> Vec<&'static str> {
    let names = UNARY.iter().map(|row| row.name).chain(FOLDS.iter().map(|row| row.0));
    let names = names.chain(BINARY_CALLS.iter().map(|row| row.0));
    names.chain(CALLS.iter().map(|row| row.0)).chain([crate::ir::SELECT]).collect()
}

impl Lowering<'_> {
    pub(super) fn call(&mut self, name: &str, args: &Args, at: Position) -> Result<Typed, Fault> {
        if let Some((_, fold)) = FOLDS.iter().find(|(of, _)| *of == name) {
            return self.reduce(name, *fold, args, at);
        }
        if let Some((_, counts, named, call)) = CALLS.iter().find(|(of, ..)| *of == name) {
            counted(name, args, *counts, named, at)?;
            return call(self, args, at);
        }
        if let Some(function) = Unary::named(name) {
            counted(name, args, [1, 1], &[], at)?;
            let operand = self.argument(args, 0, at)?;
            return unary(function, operand, at);
        }
        if let Some((_, op)) = BINARY_CALLS.iter().find(|(of, _)| *of == name) {
            counted(name, args, [2, 2], &[], at)?;
            let (left, right) = (self.argument(args, 0, at)?, self.argument(args, 1, at)?);
            return self.binary(*op, name, left, right, at);
        }
        let known = function_names();
        let help = did_you_mean(name, known);
        Err(Fault { help, ..Fault::new(at, format!("no function `{name}`")) })
    }

    fn argument(&mut self, args: &Args, number: usize, at: Position) -> Result<Typed, Fault> {
        self.expr(plain(args, number, at)?)
    }

    fn cast(&mut self, class: Class, args: &Args, at: Position) -> Result<Typed, Fault> {
        let operand = self.argument(args, 0, at)?;
        each(operand, class, at, |scalar| Scalar::Cast(class, Box::new(scalar)))
    }

    fn present(&mut self, args: &Args, at: Position) -> Result<Typed, Fault> {
        let argument = plain(args, 0, at)?;
        let Kind::Name(name) = &argument.kind else {
            return Err(Fault::new(argument.at, "`present` takes the name of an input"));
        };
        let inputs = &self.signature.inputs;
        let Some(input) = inputs.iter().position(|port| port.name == *name) else {
            let help = did_you_mean(name, inputs.iter().map(|port| port.name.as_str()));
            return Err(Fault { help, ..Fault::new(argument.at, format!("no input `{name}`")) });
        };
        Ok(Typed::Scalar(Class::Bool, Scalar::Present(input)))
    }

    /// Returns the dimensions of a tensor, or the list itself.
    fn extents(&mut self, expr: &Expr) -> Result<List, Fault> {
        match self.expr(expr)? {
            Typed::Tensor(whole) => self.store_list(whole.shape, expr.at),
            Typed::List(list) => Ok(list),
            typed => Err(Fault::unexpected(expr.at, typed.describe(), "a tensor or a list")),
        }
    }

    fn dims(&mut self, args: &Args, at: Position) -> Result<Typed, Fault> {
        self.extents(plain(args, 0, at)?).map(Typed::List)
    }

    fn dim(&mut self, args: &Args, at: Position) -> Result<Typed, Fault> {
        let list = self.extents(plain(args, 0, at)?)?;
        let axis = self.number(plain(args, 1, at)?, Class::Int)?;
        Ok(Typed::Scalar(Class::Int, list.item(axis, at)))
    }

    fn len(&mut self, args: &Args, at: Position) -> Result<Typed, Fault> {
        let list = self.extents(plain(args, 0, at)?)?;
        Ok(Typed::Scalar(Class::Int, Scalar::Len(Box::new(list))))
    }

    fn size(&mut self, args: &Args, at: Position) -> Result<Typed, Fault> {
        let list = self.extents(plain(args, 0, at)?)?;
        Ok(Typed::Scalar(Class::Int, Scalar::Product(Box::new(list))))
    }

    /// Converts an axis to a non-negative one: the item of `[0, 1, ..]` at its index.
    fn axis_of(&mut self, args: &Args, at: Position) -> Result<Typed, Fault> {
        let list = self.extents(plain(args, 0, at)?)?;
        let axis = self.number(plain(args, 1, at)?, Class::Int)?;
        let slot = self.new_scalar(true);
        let each =
            List::For(slot, Box::new(Scalar::Len(Box::new(list))), Box::new(Scalar::Var(slot)));
        Ok(Typed::Scalar(Class::Int, each.item(axis, at)))
    }

    fn broadcast(&mut self, args: &Args, at: Position) -> Result<Typed, Fault> {
        let mut lists = Vec::new();
        for expr in &args.plain {
            lists.push(self.extents(expr)?);
        }
        Ok(Typed::List(List::Broadcast(lists, at)))
    }

    fn unravel(&mut self, args: &Args, at: Position) -> Result<Typed, Fault> {
        let number = self.number(plain(args, 0, at)?, Class::Int)?;
        let dims = self.extents(plain(args, 1, at)?)?;
        Ok(Typed::List(List::Unravel(Box::new(number), Box::new(dims))))
    }

    fn ravel(&mut self, args: &Args, at: Position) -> Result<Typed, Fault> {
        let coords = self.list(plain(args, 0, at)?)?;
        let dims = self.extents(plain(args, 1, at)?)?;
        Ok(Typed::Scalar(Class::Int, Scalar::Ravel(Box::new(coords), Box::new(dims))))
    }

    fn clamp(&mut self, args: &Args, at: Position) -> Result<Typed, Fault> {
        let (value, low) = (self.argument(args, 0, at)?, self.argument(args, 1, at)?);
        let high = self.argument(args, 2, at)?;
        let above = self.binary(Binary::Max, "clamp", value, low, at)?;
        self.binary(Binary::Min, "clamp", above, high, at)
    }

    /// Lowers a function that uses its operand twice.
    fn twice(
        &mut self,
        operand: Typed,
        class: Class,
        at: Position,
        function: impl FnOnce(Scalar, Scalar) -> Scalar,
    ) -> Result<Typed, Fault> {
        let own = class_of(&operand, at)?;
        let slot = self.new_number(true, own);
        each(operand, class, at, |scalar| {
            let body = function(Scalar::Var(slot), Scalar::Var(slot));
            Scalar::Let(slot, Box::new(scalar), Box::new(body))
        })
    }

    fn square(&mut self, args: &Args, at: Position) -> Result<Typed, Fault> {
        let operand = self.argument(args, 0, at)?;
        let class = class_of(&operand, at)?;
        if class == Class::Bool {
            return Err(Fault::unexpected(at, "`square` of bool", "a number"));
        }
        self.twice(operand, class, at, |a, b| Scalar::binary(Binary::Mul, a, b, at))
    }

    fn is_nan(&mut self, args: &Args, at: Position) -> Result<Typed, Fault> {
        let operand = self.argument(args, 0, at)?;
        let operand = of_class(operand, Class::Float, at)?;
        self.twice(operand, Class::Bool, at, |a, b| Scalar::binary(Binary::Ne, a, b, at))
    }

    fn is_inf(&mut self, args: &Args, at: Position) -> Result<Typed, Fault> {
        let operand = self.argument(args, 0, at)?;
        let operand = of_class(operand, Class::Float, at)?;
        each(operand, Class::Bool, at, |scalar| {
            let size = Scalar::Unary(Unary::ABS, Box::new(scalar));
            Scalar::binary(Binary::Eq, size, Scalar::Float(f64::INFINITY), at)
        })
    }

    fn bit_not(&mut self, args: &Args, at: Position) -> Result<Typed, Fault> {
        let operand = self.argument(args, 0, at)?;
        let ones = Typed::Scalar(Class::Int, Scalar::Int(-1));
        self.binary(Binary::BitXor, "bit_not", operand, ones, at)
    }

    /// Returns the argument as a tensor for reads at computed positions.
    fn operand(
        &mut self,
        args: &Args,
        number: usize,
        at: Position,
    ) -> Result<(Source, Class), Fault> {
        let typed = self.argument(args, number, at)?;
        let whole = self.whole(typed, at)?;
        let class = whole.class;
        Ok((self.source(whole, at)?, class))
    }

    fn transpose(&mut self, args: &Args, at: Position) -> Result<Typed, Fault> {
        let (source, class) = self.operand(args, 0, at)?;
        let (dims, rank) = (List::Dims(source), || Scalar::Len(Box::new(List::Dims(source))));
        let axis = self.new_scalar(true);
        let each = |body| List::For(axis, Box::new(rank()), Box::new(body));
        let var = Scalar::Var(axis);
        let Some(perm) = args.plain.get(1) else {
            let last = Scalar::binary(Binary::Sub, rank(), Scalar::Int(1), at);
            let mirrored = Scalar::binary(Binary::Sub, last, var, at);
            let shape = each(dims.item(mirrored.clone(), at));
            let coords = each(List::Var(HERE).item(mirrored, at));
            return self.computed(class, shape, Scalar::read(source, coords, at), at);
        };
        let list = self.list(perm)?;
        let perm = self.store_list(list, perm.at)?;
        let shape = each(dims.item(perm.clone().item(var.clone(), at), at));
        // The position of the axis in the permutation.
        let place = self.new_scalar(true);
        let is_it = Scalar::binary(Binary::Eq, perm.clone().item(Scalar::Var(place), at), var, at);
        let found = Scalar::Fold(Box::new(crate::ir::FoldLoop {
            at,
            fold: crate::ir::Fold::Max,
            class: Class::Int,
            binders: vec![crate::ir::Binder::Index(place, Scalar::Len(Box::new(perm)))],
            body: Scalar::choice(is_it, Scalar::Var(place), Scalar::Int(-1)),
        }));
        let coords = each(List::Var(HERE).item(found, at));
        self.computed(class, shape, Scalar::read(source, coords, at), at)
    }

    fn reshape(&mut self, args: &Args, at: Position) -> Result<Typed, Fault> {
        let (source, class) = self.operand(args, 0, at)?;
        let list = self.list(plain(args, 1, at)?)?;
        let shape = self.store_list(list, at)?;
        let size = |list| Scalar::Product(Box::new(list));
        let is_alike =
            Scalar::binary(Binary::Eq, size(shape.clone()), size(List::Dims(source)), at);
        let wanted = "a shape of as many elements in `reshape`".to_owned();
        self.step(crate::ir::StepKind::Require(is_alike, wanted), at);
        let number = Scalar::Ravel(Box::new(List::Var(HERE)), Box::new(shape.clone()));
        let coords = List::Unravel(Box::new(number), Box::new(List::Dims(source)));
        self.computed(class, shape, Scalar::read(source, coords, at), at)
    }

    /// Creates a tensor from element coordinates of this shape, independent of broadcasting.
    fn computed(
        &mut self,
        class: Class,
        shape: List,
        body: Scalar,
        at: Position,
    ) -> Result<Typed, Fault> {
        self.materialized(Whole { class, shape, body, source: None }, at).map(Typed::Tensor)
    }

    fn expand(&mut self, args: &Args, at: Position) -> Result<Typed, Fault> {
        let typed = self.argument(args, 0, at)?;
        let whole = self.whole(typed, at)?;
        let list = self.list(plain(args, 1, at)?)?;
        let shape = List::Broadcast(vec![whole.shape, list], at);
        Ok(Typed::Tensor(Whole { class: whole.class, shape, body: whole.body, source: None }))
    }

    fn concat(&mut self, args: &Args, at: Position) -> Result<Typed, Fault> {
        let [(_, _, axis)] = args.named.as_slice() else {
            return Err(Fault::new(at, "`concat` takes tensors and then `axis = ..`"));
        };
        let mut sources = Vec::new();
        let mut class = None;
        for number in 0..args.plain.len() {
            let (source, of) = self.operand(args, number, at)?;
            if *class.get_or_insert(of) != of {
                return Err(Fault::unexpected(at, "`concat` of several types", "one type"));
            }
            sources.push(source);
        }
        let (Some(class), Some(&first)) = (class, sources.first()) else {
            return Err(Fault::new(at, "`concat` takes at least one tensor"));
        };
        let number = self.early_scalar(axis, Class::Int, "the axis of `concat`")?;
        let axis = self.early_axis(first, number, at);
        let extent = |source| List::Dims(source).item(axis.clone(), at);
        let along = self.new_scalar(true);
        let replaced = |list: List, with: Scalar| {
            let is_axis = Scalar::binary(Binary::Eq, Scalar::Var(along), axis.clone(), at);
            let item = list.item(Scalar::Var(along), at);
            let rank = Scalar::Len(Box::new(List::Dims(first)));
            List::For(along, Box::new(rank), Box::new(Scalar::choice(is_axis, with, item)))
        };
        for &other in sources.iter().skip(1) {
            let (a, b) = (
                replaced(List::Dims(first), Scalar::Int(0)),
                replaced(List::Dims(other), Scalar::Int(0)),
            );
            self.require_alike(&a, &b, at);
        }
        let add = |a, b| Scalar::binary(Binary::Add, a, b, at);
        let total =
            sources.iter().map(|source| extent(*source)).reduce(add).unwrap_or(Scalar::Int(0));
        let shape = replaced(List::Dims(first), total);
        let here = || List::Var(HERE).item(axis.clone(), at);
        let mut body = None;
        // From the last to the first, so that each one precedes its successors.
        for number in (0..sources.len()).rev() {
            let Some(&source) = sources.get(number) else { continue };
            let before = sources
                .iter()
                .take(number)
                .map(|source| extent(*source))
                .reduce(add)
                .unwrap_or(Scalar::Int(0));
            let end = add(before.clone(), extent(source));
            let place = Scalar::binary(Binary::Sub, here(), before, at);
            let read = Scalar::read(source, replaced(List::Var(HERE), place), at);
            body = Some(match body {
                None => read,
                Some(rest) => {
                    Scalar::choice(Scalar::binary(Binary::Lt, here(), end, at), read, rest)
                }
            });
        }
        let body = body.unwrap_or(Scalar::Int(0));
        self.computed(class, shape, body, at)
    }

    /// Converts an axis to a non-negative one, evaluated once.
    fn early_axis(&mut self, source: Source, axis: Scalar, at: Position) -> Scalar {
        let slot = self.new_scalar(true);
        let rank = Scalar::Len(Box::new(List::Dims(source)));
        let each = List::For(slot, Box::new(rank), Box::new(Scalar::Var(slot)));
        let kept = self.new_scalar(false);
        self.step(crate::ir::StepKind::Scalar(kept, each.item(axis, at)), at);
        Scalar::Var(kept)
    }

    /// Requires two lists of the same length with the same items.
    fn require_alike(&mut self, a: &List, b: &List, at: Position) {
        let slot = self.new_scalar(true);
        let alike = Scalar::binary(
            Binary::Eq,
            a.clone().item(Scalar::Var(slot), at),
            b.clone().item(Scalar::Var(slot), at),
            at,
        );
        let len = |list: &List| Scalar::Len(Box::new(list.clone()));
        let all = Scalar::Fold(Box::new(crate::ir::FoldLoop {
            at,
            fold: crate::ir::Fold::All,
            class: Class::Bool,
            binders: vec![crate::ir::Binder::Index(slot, len(a))],
            body: alike,
        }));
        let lens = Scalar::binary(Binary::Eq, len(a), len(b), at);
        let both = Scalar::And(Box::new(lens), Box::new(all));
        self.step(
            crate::ir::StepKind::Require(
                both,
                "tensors that differ along the axis alone".to_owned(),
            ),
            at,
        );
    }

    fn matmul(&mut self, args: &Args, at: Position) -> Result<Typed, Fault> {
        let ((a, class_a), (b, class_b)) = (self.operand(args, 0, at)?, self.operand(args, 1, at)?);
        if class_a != class_b || class_a == Class::Bool {
            return Err(Fault::new(at, "`matmul` takes two tensors of the same numeric type"));
        }
        let dim = |source, axis| List::Dims(source).item(Scalar::Int(axis), at);
        let lead = |source| List::Dims(source).slice(None, Some(Scalar::Int(-2)));
        let alike = Scalar::binary(Binary::Eq, dim(a, -1), dim(b, -2), at);
        let wanted = "as many columns on the left of `matmul` as rows on its right".to_owned();
        self.step(crate::ir::StepKind::Require(alike, wanted), at);
        let shape = List::Items(vec![
            Item::Spread(List::Broadcast(vec![lead(a), lead(b)], at)),
            Item::One(dim(a, -2)),
            Item::One(dim(b, -1)),
        ]);
        let inner = self.new_scalar(true);
        let here = || List::Var(HERE);
        let read = |source, row: Scalar, col: Scalar| {
            let outer = here().slice(None, Some(Scalar::Int(-2)));
            let outer = List::Align(Box::new(outer), Box::new(lead(source)));
            let coords = List::Items(vec![Item::Spread(outer), Item::One(row), Item::One(col)]);
            Scalar::read(source, coords, at)
        };
        let row = read(a, here().item(Scalar::Int(-2), at), Scalar::Var(inner));
        let col = read(b, Scalar::Var(inner), here().item(Scalar::Int(-1), at));
        let body = Scalar::Fold(Box::new(crate::ir::FoldLoop {
            at,
            fold: crate::ir::Fold::Sum,
            class: class_a,
            binders: vec![crate::ir::Binder::Index(inner, dim(a, -1))],
            body: Scalar::binary(Binary::Mul, row, col, at),
        }));
        self.computed(class_a, shape, body, at)
    }
}

fn plain(args: &Args, number: usize, at: Position) -> Result<&Expr, Fault> {
    args.plain.get(number).ok_or_else(|| Fault::new(at, "an argument is missing"))
}

fn counted(
    name: &str,
    args: &Args,
    [least, most]: [usize; 2],
    named: &[&str],
    at: Position,
) -> Result<(), Fault> {
    if let Some((argument, at, _)) =
        args.named.iter().find(|(of, ..)| !named.contains(&of.as_str()))
    {
        return Err(Fault::new(*at, format!("`{name}` has no argument `{argument}`")));
    }
    let found = args.plain.len();
    if (least..=most).contains(&found) {
        return Ok(());
    }
    let expected = if least == most { format!("{least}") } else { format!("{least} to {most}") };
    Err(Fault::unexpected(at, format!("{found} arguments of `{name}`"), expected))
}
