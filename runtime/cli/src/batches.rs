//! Lines of an input list whose files have a part of a model's batch: as many as make up the batch are one run.

use udo_api::{Shape, TensorDesc};
use udo_runtime::Tensor;
use udo_runtime::compile::{Input, Plan};

use crate::output::{Failure, Outcome};
use crate::tensors::Set;
use udo_compile::resolve::InputShapes;

/// How many lines make up a run, by the tensors of one of them: nothing where they are inputs as they are, or none that fit.
pub(crate) fn lines_per_run(inputs: &[Input], line: &[Tensor]) -> Result<Option<usize>, Failure> {
    let is_whole = |(input, tensor): (&Input, &Tensor)| {
        input.shape().is_some_and(|shape| shape.dims() == tensor.dims())
    };
    if inputs.iter().zip(line).all(is_whole) {
        return Ok(None);
    }
    let mut first: Option<(&str, usize)> = None;
    for (input, tensor) in inputs.iter().zip(line) {
        let shape = input.shape().filter(|_| tensor.dtype() == input.of.dtype);
        let parts = shape.and_then(|shape| parts_of(shape.dims(), tensor.dims()));
        let Some(parts) = parts else { return Ok(None) };
        match first {
            Some((name, other)) if other != parts => {
                let text = format!(
                    "the file for {name:?} is one of {other} that fill the input, and the one for {:?} of {parts}",
                    input.name
                );
                return Err(Failure::new(text)
                    .help("give files with as large a part of the batch for all inputs, or with all of it"));
            }
            Some(_) => {}
            None => first = Some((&input.name, parts)),
        }
    }
    Ok(first.map(|(_, parts)| parts))
}

/// How many tensors of extents `part` fill one of extents `whole`: its first extent may be divided, and is left out of one element.
fn parts_of(whole: &[usize], part: &[usize]) -> Option<usize> {
    if whole == part {
        return Some(1);
    }
    let (&batch, element) = whole.split_first()?;
    let of_part = match part.split_first() {
        _ if part == element => 1,
        Some((&of_part, rest)) if rest == element => of_part,
        Some(_) | None => return None,
    };
    batch.checked_div(of_part).filter(|parts| of_part.checked_mul(*parts) == Some(batch))
}

/// Refuses lines of a run whose tensors are not alike.
pub(crate) fn check_alike(inputs: &[Input], first: &[Tensor], line: &[Tensor]) -> Outcome {
    let all = inputs.iter().zip(first).zip(line);
    match all.into_iter().find(|((_, first), tensor)| first.desc() != tensor.desc()) {
        Some(((input, first), tensor)) => Err(Failure::new(format!(
            "the file for {:?} has {}, and {} in the first line of this run",
            input.name,
            tensor.desc(),
            first.desc()
        ))),
        None => Ok(()),
    }
}

/// The inputs of a run, of the tensors of its lines, one behind the other; zeros stand for those of lines that are missing.
pub(crate) fn join(inputs: &[Input], lines: &[Set]) -> Result<Set, Failure> {
    let of = inputs.iter().enumerate().map(|(port, input)| {
        let mut bytes = Vec::new();
        for tensor in lines.iter().filter_map(|line| line.get(port)) {
            bytes.extend_from_slice(tensor.bytes());
        }
        let whole = TensorDesc::new(input.of.dtype, input.required()?);
        bytes.resize(whole.size_bytes().max(bytes.len()), 0);
        Ok(Tensor::from_bytes(input.of.dtype, whole.full_shape(), &bytes)?)
    });
    of.collect()
}

/// Refuses a model of which one of the outputs has no part for each of the lines of a run, as far as its plan knows.
pub(crate) fn check_outputs(plan: Option<&Plan>, wanted: &[String], parts: usize) -> Outcome {
    let outputs = plan.into_iter().flat_map(Plan::outputs);
    let mut outputs = outputs.filter(|(name, _)| wanted.iter().any(|wanted| wanted == name));
    let is_whole = |desc: &TensorDesc| {
        let batch = desc.shape().first().copied().unwrap_or(1);
        parts > 1 && (!desc.full_shape().is_fixed() || !batch.is_multiple_of(parts))
    };
    outputs
        .find(|(_, desc)| is_whole(desc))
        .map_or(Ok(()), |(name, desc)| Err(no_parts(name, desc, parts)))
}

fn no_parts(name: &str, desc: &TensorDesc, parts: usize) -> Failure {
    let text = format!(
        "output {name:?} is {desc}, which has no part for each of the {parts} lines of a run"
    );
    Failure::new(text).help(
        "name other outputs in the first line of the list, as #y, or give files with all of the batch",
    )
}

/// Returns the part of an output that belongs to one line of the list.
pub(crate) fn cut(
    name: &str,
    tensor: &Tensor,
    line: usize,
    parts: usize,
) -> Result<Tensor, Failure> {
    let none = || no_parts(name, tensor.desc(), parts);
    let (&batch, rest) = tensor.dims().split_first().ok_or_else(none)?;
    let of_part = Some(batch).filter(|batch| batch.is_multiple_of(parts)).ok_or_else(none)? / parts;
    let size = tensor.bytes().len() / parts;
    let bytes = tensor.bytes().get(size * line..size * (line + 1)).ok_or_else(none)?;
    let shape = Shape::new(&[&[of_part], rest].concat())?;
    Ok(Tensor::from_bytes(tensor.dtype(), shape, bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_the_extents_of_elements_of_the_batch() {
        let cases: &[(&[usize], &[usize], Option<usize>)] = &[
            (&[4, 3], &[4, 3], Some(1)),
            (&[4, 3], &[1, 3], Some(4)),
            (&[4, 3], &[2, 3], Some(2)),
            (&[4, 3], &[3], Some(4)),
            (&[4, 3], &[3, 3], None),
            (&[4, 3], &[1, 2], None),
            (&[4, 3], &[0, 3], None),
            (&[4], &[], Some(4)),
            (&[], &[], Some(1)),
            (&[], &[1], None),
        ];
        for &(whole, part, wanted) in cases {
            assert_eq!(parts_of(whole, part), wanted, "{part:?} of {whole:?}");
        }
    }

    #[test]
    fn a_line_gets_its_part_of_an_output() {
        let tensor =
            Tensor::from_slice(Shape::new(&[4, 2]).unwrap(), &[1i32, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        let part = cut("y", &tensor, 1, 2).unwrap();
        assert_eq!((part.dims(), part.get::<i32>()), (&[2, 2][..], Some(&[5, 6, 7, 8][..])));
        let failure = cut("y", &tensor, 0, 3).unwrap_err().to_string();
        assert!(
            failure.contains("output \"y\" is i32[4,2], which has no part for each of the 3 lines"),
            "{failure}"
        );
    }
}
