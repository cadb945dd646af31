//! Einstein summation: an equation such as `ij,jk->ik` labels the axes of inputs and output. The output is the sum of
//! products over the labels that it lacks.

use udo_api::{
    Core, DType, Dim, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Node, Op,
    OpSchema, Param, Port, Shape, TypeSet, Work, Workspace, input, output_like, types,
};

use crate::Def;
use crate::family::elementwise::broadcast_shapes;
use crate::family::matmul::{
    Arrangement, Call, Contraction, Label, labeled, multiply, multiply_floats,
};
use crate::number::Number;

pub(crate) const DEF: Def = Def::new::<Einsum>(KERNELS);

const TYPES: TypeSet = types::F32.or(types::F64).or(types::INTS);
const KERNELS: &[KernelDef] = &[KernelDef::new::<Contractions>("Einsum", Core::CPU)
    .ports(&[input(0, TYPES), output_like(0, 0)])];

struct Einsum;

impl Op for Einsum {
    const SCHEMA: OpSchema = OpSchema::new(
        "Einsum",
        &[Port::required("Inputs", TYPES).repeated()],
        &[Port::required("Output", TYPES)],
        &[Param::text("equation")],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let equation = Equation::read(cx)?;
        let first = cx.input(0)?;
        for port in 1..cx.input_count() {
            let next = cx.input(port)?;
            if next.dtype() != first.dtype() {
                return Err(Error::new(format!(
                    "input {port} is {next}, expected the type of {first}"
                )));
            }
        }
        let dims = equation.dims(cx)?;
        cx.set_output(0, first.with_shape(Shape::from_dims(&dims)?))
    }
}

/// The label of the last axis of an ellipsis; those before it count upwards. All are above the labels of letters.
const ELLIPSIS: Label = 0x100;

/// The labels of every axis of every operand.
struct Equation {
    inputs: Vec<Vec<Label>>,
    output: Vec<Label>,
}

impl Equation {
    /// Parses the parameter `equation`, and checks it against the ranks of the inputs.
    fn read(node: &Node<'_>) -> Result<Self, Error> {
        let text = node.text("equation")?;
        let invalid =
            |reason: String| Error::new(format!("parameter \"equation\" is {text:?}, {reason}"));
        let equation: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (left, right) = match equation.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (equation.as_str(), None),
        };
        let terms: Vec<&str> = left.split(',').collect();
        if terms.len() != node.input_count() {
            let count = node.input_count();
            return Err(invalid(format!("expected a term for each of {count} inputs")));
        }
        let (mut inputs, mut max_ellipsis_axes) = (Vec::new(), 0);
        for (port, term) in terms.into_iter().enumerate() {
            let x = node.input(port)?;
            let term = Term::read(term).map_err(invalid)?;
            let ellipsis_axes = x.rank().checked_sub(term.letter_count());
            let ellipsis_axes = ellipsis_axes.filter(|&count| term.after.is_some() || count == 0);
            let ellipsis_axes = ellipsis_axes.ok_or_else(|| {
                invalid(format!("expected a label for each axis of input {port}, which is {x}"))
            })?;
            max_ellipsis_axes = max_ellipsis_axes.max(ellipsis_axes);
            inputs.push(term.labels(ellipsis_axes));
        }
        let output = match right {
            Some(right) => Term::read(right).map_err(invalid)?,
            None => Term::implied(&inputs),
        };
        if output.after.is_none() && max_ellipsis_axes > 0 {
            return Err(invalid("expected an ellipsis in the output as well".to_owned()));
        }
        let output = output.labels(max_ellipsis_axes);
        for (index, label) in output.iter().enumerate() {
            let is_known = inputs.iter().any(|labels| labels.contains(label));
            if !is_known || output[..index].contains(label) {
                let letter = char::from(*label as u8);
                return Err(invalid(format!(
                    "expected label {letter:?} of the output once, and in an input"
                )));
            }
        }
        Ok(Self { inputs, output })
    }

    /// Returns the extents of the output.
    fn dims(&self, node: &Node<'_>) -> Result<Vec<Dim>, Error> {
        let mut extents: Vec<(Label, Shape)> = Vec::new();
        for (port, labels) in self.inputs.iter().enumerate() {
            let x = node.input(port)?;
            for (axis, (&label, dim)) in labels.iter().zip(x.full_shape().iter()).enumerate() {
                let extent = Shape::from_dims(&[dim])?;
                match extents.iter_mut().find(|(other, _)| *other == label) {
                    None => extents.push((label, extent)),
                    Some((_, shape)) => {
                        *shape = broadcast_shapes(*shape, extent).map_err(|_| {
                            Error::new(format!(
                                "input {port} is {x}, and the label of its axis {axis} has {shape} elsewhere"
                            ))
                        })?;
                    }
                }
            }
        }
        let label_dim = |label: &Label| {
            let entry = extents.iter().find(|(other, _)| other == label);
            entry.and_then(|(_, shape)| shape.dim(0)).unwrap_or(Dim::Fixed(1))
        };
        Ok(self.output.iter().map(label_dim).collect())
    }
}

/// One operand: the letters before and after an ellipsis, or all letters and `None`.
struct Term {
    before: Vec<Label>,
    after: Option<Vec<Label>>,
}

impl Term {
    fn read(text: &str) -> Result<Self, String> {
        let letters = |text: &str| -> Result<Vec<Label>, String> {
            match text.chars().find(|c| !c.is_ascii_alphabetic()) {
                Some(other) => Err(format!("where {other:?} is neither a letter nor an ellipsis")),
                None => Ok(text.bytes().map(Label::from).collect()),
            }
        };
        Ok(match text.split_once("...") {
            Some((before, after)) => {
                Self { before: letters(before)?, after: Some(letters(after)?) }
            }
            None => Self { before: letters(text)?, after: None },
        })
    }

    /// Returns the output of an equation without `->`: the ellipsis, then the letters that occur once, in alphabetical
    /// order.
    fn implied(inputs: &[Vec<Label>]) -> Self {
        let mut letters: Vec<Label> =
            inputs.iter().flatten().copied().filter(|&label| label < ELLIPSIS).collect();
        letters.sort_unstable();
        let once = letters.chunk_by(|a, b| a == b).filter(|equal| equal.len() == 1);
        Self { before: Vec::new(), after: Some(once.flatten().copied().collect()) }
    }

    fn letter_count(&self) -> usize {
        self.before.len() + self.after.as_ref().map_or(0, Vec::len)
    }

    /// Returns the labels, with `ellipsis_axes` axes for the ellipsis.
    fn labels(self, ellipsis_axes: usize) -> Vec<Label> {
        let Self { mut before, after } = self;
        if let Some(after) = after {
            before.extend((0..ellipsis_axes as Label).rev().map(|axis| ELLIPSIS + axis));
            before.extend(after);
        }
        before
    }
}

/// The kernel: multiplies the first input by each of the others in turn.
struct Contractions {
    steps: Vec<Contraction>,
    /// Sums over remaining labels, and puts the axes in the order of the output.
    end: Arrangement,
    element_bytes: usize,
    run: Run,
}

type Run = fn(&Contractions, Io<'_>) -> Result<(), ExecError>;

impl Kernel for Contractions {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let Equation { inputs, output } = Equation::read(cx)?;
        let mut axes = Vec::new();
        for (port, labels) in inputs.iter().enumerate() {
            axes.push(labeled(labels, cx.input(port)?.shape()));
        }
        let mut remaining = axes.as_slice();
        let (mut steps, mut left): (Vec<Contraction>, _) = (Vec::new(), Vec::new());
        for port in 0.. {
            let Some((next, others)) = remaining.split_first() else { break };
            remaining = others;
            if port == 0 {
                left.clone_from(next);
                continue;
            }
            // A label is summed as soon as neither the output nor a later input has it.
            let step = Contraction::new(cx, &left, (port, next), |label| {
                output.contains(&label)
                    || remaining.iter().flatten().any(|axis| axis.label == label)
            })?;
            left.clone_from(&step.result);
            steps.push(step);
        }
        let dtype = cx.output(0)?.dtype();
        if dtype == Some(DType::F32) {
            let products = steps.iter().map(Contraction::products);
            cx.work(Work::products(&[products.fold(0, usize::saturating_add)]))?;
        }
        let run = match dtype {
            Some(DType::F32) => execute_floats,
            other => of_number!(other, T => execute_plain::<T> as Run)?,
        };
        let element_bytes = dtype.map_or(1, DType::size_bytes);
        Ok(Self { steps, end: Arrangement::new(&left, &output), element_bytes, run })
    }

    fn workspace(&self) -> Workspace {
        self.steps.iter().enumerate().fold(Workspace::NONE, |workspace, (index, step)| {
            let result = if self.writes_output(index) { 0 } else { step.len() };
            let pieces = step.scratch(result).into_iter().filter(|&len| len > 0);
            pieces.fold(workspace, |workspace, len| {
                workspace.and::<u8>(len.saturating_mul(self.element_bytes))
            })
        })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

impl Contractions {
    /// Whether a step writes the output, without a final arrangement.
    fn writes_output(&self, step: usize) -> bool {
        step + 1 == self.steps.len() && self.end.is_same()
    }
}

/// Multiplies two operands whose axes are already arranged for the product.
type Multiply<T> = fn(&Contraction, &mut Call<'_>, (&[T], &[T]), &mut [T]) -> Result<(), ExecError>;

fn execute_floats(plan: &Contractions, io: Io<'_>) -> Result<(), ExecError> {
    execute(plan, io, multiply_floats)
}

fn execute_plain<T: Number>(plan: &Contractions, io: Io<'_>) -> Result<(), ExecError> {
    execute::<T>(plan, io, multiply)
}

fn execute<T: Number>(
    plan: &Contractions,
    io: Io<'_>,
    multiply: Multiply<T>,
) -> Result<(), ExecError> {
    let Io { inputs, mut outputs, scratch, parallel, packed, .. } = io;
    let mut call = Call { parallel, scratch, packed };
    let mut y = Some(outputs.take::<T>(0)?);
    if y.as_ref().is_some_and(|y| y.is_empty()) {
        return Ok(());
    }
    let mut left = if plan.steps.is_empty() || inputs.has(0) { inputs.get::<T>(0)? } else { &[] };
    for (index, step) in plan.steps.iter().enumerate() {
        let left_operand = step.left.arranged(&mut call, left)?;
        let right_operand = if step.is_packed() {
            &[]
        } else {
            step.right.arranged(&mut call, inputs.get::<T>(index + 1)?)?
        };
        let result = match y.take_if(|_| plan.writes_output(index)) {
            Some(y) => y,
            None => call.scratch.take::<T>(step.len())?,
        };
        multiply(step, &mut call, (left_operand, right_operand), result)?;
        left = result;
    }
    y.map_or(Ok(()), |y| plan.end.write(parallel, left, y))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, Tensor, assert_near, bench, noise, tensor};

    fn einsum(equation: &str, inputs: &[Tensor]) -> Bench {
        inputs.iter().cloned().fold(bench("Einsum").text("equation", equation), Bench::input)
    }

    fn counting(dims: &[usize], first: i64) -> Tensor {
        let len = dims.iter().product::<usize>() as i64;
        tensor(dims, &(first..first + len).collect::<Vec<_>>())
    }

    #[test]
    fn equations_define_products_and_sums() {
        let (a, b) = (counting(&[2, 2], 1), counting(&[2, 2], 5));
        let cases: [(&str, &[usize], &[i64]); 16] = [
            ("ij->ji", &[2, 2], &[1, 3, 2, 4]),
            (" i j -> ", &[], &[10]),
            ("ij->i", &[2], &[3, 7]),
            ("ij->j", &[2], &[4, 6]),
            ("ii->i", &[2], &[1, 4]),
            ("ii", &[], &[5]),
            ("ba", &[2, 2], &[1, 3, 2, 4]),
            ("...->...", &[2, 2], &[1, 2, 3, 4]),
            ("...j", &[2, 2], &[1, 2, 3, 4]),
            ("ij,jk", &[2, 2], &[19, 22, 43, 50]),
            ("ij,kj->ik", &[2, 2], &[17, 23, 39, 53]),
            ("ij,jk->ki", &[2, 2], &[19, 43, 22, 50]),
            ("ij,ij->ij", &[2, 2], &[5, 12, 21, 32]),
            ("ij,ij->", &[], &[70]),
            ("ii,jj->ij", &[2, 2], &[5, 8, 20, 32]),
            ("ij,kl->", &[], &[260]),
        ];
        for (equation, dims, expected) in cases {
            let count = equation.split(',').count();
            let y = einsum(equation, &[a.clone(), b.clone()][..count]).one();
            assert_eq!(
                (y.dims(), y.values::<i64>()),
                (dims.to_vec(), expected.to_vec()),
                "{equation}"
            );
        }
        let run = [counting(&[2, 3], 0), counting(&[3], 1), counting(&[2], 1)];
        let y = einsum("ij,j,i->i", &run).one();
        assert_eq!(y.values::<i64>(), [8, 52]);
    }

    #[test]
    fn axes_of_extent_one_and_ellipses_broadcast() {
        let y = einsum("i,i->i", &[counting(&[1], 2), counting(&[3], 1)]).one();
        assert_eq!(y.values::<i64>(), [2, 4, 6]);
        let y = einsum("i,i->", &[counting(&[1], 2), counting(&[3], 1)]).one();
        assert_eq!(y.values::<i64>(), [12]);
        let y = einsum("...i,...->...", &[counting(&[2, 1, 2], 1), counting(&[3], 1)]).one();
        assert_eq!((y.dims(), y.values::<i64>()), (vec![2, 3], vec![3, 6, 9, 7, 14, 21]));
        let y = einsum("a...,b->...ba", &[counting(&[2, 1], 1), counting(&[2], 1)]).one();
        assert_eq!((y.dims(), y.values::<i64>()), (vec![1, 2, 2], vec![1, 2, 2, 4]));
        let y = einsum("ij,jk->ik", &[counting(&[2, 0], 1), counting(&[0, 3], 1)]).one();
        assert_eq!((y.dims(), y.values::<i64>()), (vec![2, 3], vec![0; 6]));
    }

    #[test]
    fn equations_in_any_axis_order_match_f64_on_any_threads() {
        let cases: [(&str, &[usize], &[usize]); 7] = [
            ("bhqd,bhkd->bhqk", &[2, 3, 17, 8], &[2, 3, 19, 8]),
            ("bqhd,bkhd->bhqk", &[2, 17, 3, 8], &[2, 19, 3, 8]),
            ("bhqk,bkhd->bqhd", &[2, 3, 9, 18], &[2, 18, 3, 16]),
            ("bij,jk->bik", &[2, 33, 20], &[20, 40]),
            ("bij,bjk->ik", &[3, 5, 20], &[3, 20, 40]),
            ("ij,jk->ki", &[65, 30], &[30, 33]),
            ("ij,kj->ik", &[1, 64], &[50, 64]),
        ];
        for (equation, a_dims, b_dims) in cases {
            let (a, b) = (noise(a_dims.iter().product()), noise(b_dims.iter().product()));
            let to_f64 = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
            let f64_output =
                einsum(equation, &[tensor(a_dims, &to_f64(&a)), tensor(b_dims, &to_f64(&b))]).one();
            let (a, b) = (tensor(a_dims, &a), tensor(b_dims, &b));
            for threads in [1, 3] {
                let y = einsum(equation, &[a.clone(), b.clone()]).threads(threads).one();
                let constant_run =
                    einsum(equation, std::slice::from_ref(&a)).constant(b.clone()).threads(threads);
                for y in [y, constant_run.one()] {
                    assert_eq!(y.dims(), f64_output.dims(), "{equation}");
                    assert_near(&y.values::<f32>(), &f64_output.values::<f64>(), 1e-5);
                }
            }
        }
    }

    #[test]
    fn large_sums_are_divided_among_threads() {
        let x: Vec<i32> = (0..70 * 90 * 40).map(|index| index % 7).collect();
        let y = einsum("abc->ca", &[tensor(&[70, 90, 40], &x)]).threads(3).one();
        let y = y.values::<i32>();
        for (index, actual) in y.iter().enumerate() {
            let (c, a) = (index / 70, index % 70);
            let expected: i32 = (0..90).map(|b| x[(a * 90 + b) * 40 + c]).sum();
            assert_eq!(*actual, expected, "at {c}, {a}");
        }
    }

    #[test]
    fn invalid_equations_are_refused() {
        let x = counting(&[2, 3], 0);
        let error =
            |equation: &str, count: usize| einsum(equation, &vec![x.clone(); count]).error();
        let cases = [
            ("ij,jk->ik", 1, "expected a term for each of 1 inputs"),
            ("i->i", 1, "expected a label for each axis of input 0, which is i64[2,3]"),
            ("i...jk", 1, "expected a label for each axis of input 0, which is i64[2,3]"),
            ("i.j->ij", 1, "where '.' is neither a letter nor an ellipsis"),
            ("......->", 1, "where '.' is neither a letter nor an ellipsis"),
            ("ij->ii", 1, "expected label 'i' of the output once, and in an input"),
            ("ij->ik", 1, "expected label 'k' of the output once, and in an input"),
            ("i...->i", 1, "expected an ellipsis in the output as well"),
        ];
        for (equation, count, reason) in cases {
            let expected = format!("parameter \"equation\" is {equation:?}, {reason}");
            assert_eq!(error(equation, count), expected);
        }
        assert_eq!(
            error("ij,jk->ik", 2),
            "input 1 is i64[2,3], and the label of its axis 0 has [3] elsewhere"
        );
        let run = einsum("i,i->i", &[counting(&[2], 0)]).input(tensor(&[2], &[1f32; 2]));
        assert_eq!(run.error(), "input 1 is f32[2], expected the type of i64[2]");
    }
}
