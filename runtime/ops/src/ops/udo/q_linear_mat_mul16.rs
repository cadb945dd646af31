//! Products of matrices of values of up to 16 bits and 8-bit ones, with an addend for each column; the exact sums are scaled back to
//! such.

use udo_api::{Error, InferCx, Op, OpSchema, Port, TensorDesc, types};

use crate::Def;
use crate::family::matmul::{IntegerProducts, OPERANDS, Ports, output_shape, wide_products};
use crate::family::quantized::byte_planes::UP_TO_16_BITS;

pub(crate) const DEF: Def = wide_products::<QLinearMatMul16>();

struct QLinearMatMul16;

impl Op for QLinearMatMul16 {
    const SCHEMA: OpSchema = OpSchema::new(
        "QLinearMatMul16",
        &[
            Port::required("a", UP_TO_16_BITS),
            Port::required("a_scale", types::F32),
            Port::required("a_zero_point", UP_TO_16_BITS),
            Port::required("b", OPERANDS),
            // One for all, or one for each column.
            Port::required("b_scale", types::F32),
            Port::required("b_zero_point", OPERANDS),
            Port::required("y_scale", types::F32),
            Port::required("y_zero_point", UP_TO_16_BITS),
            // One for each column, in steps of the sums.
            Port::optional("c", types::I32),
        ],
        &[Port::required("y", UP_TO_16_BITS)],
        &[],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let shape = output_shape(&cx.input(0)?, &cx.input(3)?)?;
        let zero = cx.input(7)?;
        cx.set_output(0, zero.dtype().map_or(zero, |t| TensorDesc::new(t, shape)))
    }
}

impl IntegerProducts for QLinearMatMul16 {
    const NAME: &'static str = "QLinearMatMul16";
    const PORTS: Ports = Ports {
        a_scale: 1,
        a_zero: 2,
        b: 3,
        b_scale: 4,
        b_zero: 5,
        y_scale: 6,
        y_zero: 7,
        addend: 8,
        ..Ports::PLAIN
    };
}

#[cfg(test)]
mod tests {
    use udo_api::QuantizedType;

    use crate::testing::{Bench, bench, spread, tensor};

    /// Batches of left sides of 5 by `depth`, times one right side or two of `depth` by `cols`.
    struct Case {
        depth: usize,
        cols: usize,
        rights: usize,
        constant: bool,
        has_addend: bool,
    }

    fn check<A: QuantizedType, B: QuantizedType, C: QuantizedType>(case: &Case) {
        let &Case { depth, cols, rights, constant, has_addend } = case;
        let (a, b) = (spread::<A>(2 * 5 * depth, 40_503), spread::<B>(rights * depth * cols, 89));
        let (a_zero, y_zero) = (spread::<A>(2, 31_007)[1], spread::<C>(2, 1_703)[1]);
        let own = if rights == 1 { cols } else { 1 };
        let b_zeros = spread::<B>(own, 7);
        let b_scales: Vec<f32> = (0..own).map(|at| 0.01 + at as f32 * 0.003).collect();
        let addend: Vec<i32> = (0..cols as i32).map(|at| at * 130_001 - 500_000).collect();
        let one = |value: f32| tensor(&[], &[value]);
        let right = tensor(&[rights, depth, cols][usize::from(rights == 1)..], &b);
        let node = bench("udo:QLinearMatMul16")
            .threads(2)
            .input(tensor(&[2, 5, depth], &a))
            .input(one(0.001))
            .input(tensor(&[], &[a_zero]));
        let node = if constant { node.constant(right) } else { node.input(right) };
        let node = node
            .input(tensor(&[own], &b_scales))
            .input(tensor(&[own], &b_zeros))
            .input(one(0.4))
            .input(tensor(&[], &[y_zero]));
        let node = if has_addend { node.input(tensor(&[cols], &addend)) } else { node };
        let y = node.one();
        assert_eq!(y.dims(), [2, 5, cols]);
        let wanted = (0..10 * cols).map(|at| {
            let (row, col) = (at / cols, at % cols);
            let right = if rights == 1 { 0 } else { row / 5 * depth * cols };
            let terms = (0..depth).map(|k| {
                let a = i64::from(a[row * depth + k].to_i32()) - i64::from(a_zero.to_i32());
                let b = b[right + k * cols + col].to_i32() - b_zeros[col % own].to_i32();
                a * i64::from(b)
            });
            let sum = terms.sum::<i64>() + if has_addend { i64::from(addend[col]) } else { 0 };
            let number = (sum as f32 * (0.001 * b_scales[col % own] / 0.4)).round_ties_even();
            C::from_f32(number + y_zero.to_i32() as f32)
        });
        assert_eq!(y.values::<C>(), wanted.collect::<Vec<_>>());
    }

    #[test]
    fn sums_are_exact() {
        for constant in [false, true] {
            for (depth, cols, rights) in [(1, 1, 1), (7, 3, 1), (300, 33, 1), (64, 16, 2)] {
                let case = Case { depth, cols, rights, constant, has_addend: rights == 1 };
                check::<u16, i8, u16>(&case);
                check::<i16, u8, i16>(&case);
                check::<i16, i8, u8>(&case);
                check::<u8, i8, i16>(&case);
                check::<i8, u8, u16>(&case);
            }
        }
    }

    fn product(zeros: &[i8]) -> Bench {
        let one = |value: f32| tensor(&[], &[value]);
        bench("udo:QLinearMatMul16")
            .input(tensor(&[1, 2], &[1u16, 2]))
            .input(one(1.0))
            .input(tensor(&[], &[0u16]))
            .constant(tensor(&[2, 2], &[1i8, 2, 3, 4]))
            .input(one(1.0))
            .input(tensor(&[zeros.len()], zeros))
            .input(one(1.0))
            .input(tensor(&[], &[0u16]))
    }

    #[test]
    fn columns_have_zero_points_of_their_own_or_one_for_all() {
        assert_eq!(product(&[0]).one().values::<u16>(), [7, 10]);
        assert_eq!(product(&[0, 1]).one().values::<u16>(), [7, 7]);
        assert_eq!(product(&[0; 3]).error(), "input 5 is i8[3], wanted 1 or 2 elements");
    }

    #[test]
    fn no_rows_are_no_results() {
        let one = |value: f32| tensor(&[], &[value]);
        let y = bench("udo:QLinearMatMul16")
            .input(tensor::<u16>(&[0, 2], &[]))
            .input(one(1.0))
            .input(tensor(&[], &[0u16]))
            .constant(tensor(&[2, 3], &[1i8; 6]))
            .input(one(1.0))
            .input(tensor(&[], &[0i8]))
            .input(one(1.0))
            .input(tensor(&[], &[0u16]))
            .one();
        assert_eq!(y.dims(), [0, 3]);
    }
}
