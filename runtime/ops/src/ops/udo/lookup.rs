//! Maps each 8-bit value through a table: any function of one quantized value.
//!
//! Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Core, DType, Error, ExecError, Facts, FinalizeCx, InPlace, InferCx, Io, Kernel, KernelDef, Op,
    OpSchema, Param, Port, input, output_like,
};

use crate::Def;
use crate::family::elementwise::{Extents, infer_like_input, look_up};
use crate::family::quantized::{VALUES, fixed_point};

pub(crate) const DEF: Def = Def::new::<Lookup>(KERNELS);

const KERNELS: &[KernelDef] = &fixed_point(
    KernelDef::new::<Table>("Lookup", Core::CPU)
        .ports(&[input(0, VALUES).bounded().pitched(), output_like(0, 0).bounded().pitched()])
        .in_place(&[InPlace { input: 0, output: 0 }]),
);

struct Lookup;

impl Op for Lookup {
    const SCHEMA: OpSchema = OpSchema::new(
        "Lookup",
        &[Port::required("x", VALUES)],
        &[Port::required("y", VALUES)],
        // 256 entries, indexed by the value's bits; entries are bits as well, from 0 to 255.
        &[Param::tensor("table", DType::I64)],
    )
    .facts(Facts::ELEMENTWISE);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        table(cx.ints("table")?)?;
        infer_like_input(cx)
    }
}

/// Checks that the entries are 256 bytes.
fn table(entries: &[i64]) -> Result<[u8; 256], Error> {
    let bytes: Option<Vec<u8>> = entries.iter().map(|&entry| entry.try_into().ok()).collect();
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| {
        let count = entries.len();
        Error::new(format!("parameter \"table\" has {count} numbers, expected 256 of 0 to 255"))
    })
}

struct Table {
    /// The bits of each result, indexed by the bits of the element.
    bits: [u8; 256],
    extents: Extents,
    run: fn(&[u8; 256], Extents, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Table {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let run = of_type!(cx.input(0)?.dtype(), [U8 = u8, I8 = i8], T => look_up::<T>)?;
        Ok(Self { bits: table(cx.ints("table")?)?, extents: Extents::new(cx)?, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(&self.bits, self.extents, io)
    }
}

#[cfg(test)]
mod tests {
    use udo_api::Dim;

    use crate::testing::{bench, tensor};

    const LEN: usize = 100_003;

    #[test]
    fn each_value_is_replaced_by_its_table_entry() {
        let entries: Vec<i64> = (0..256).map(|bits| (bits * 167 + 13) % 256).collect();
        let x: Vec<u8> = (0..LEN).map(|i| (i * 7 % 256) as u8).collect();
        let expected: Vec<u8> = x.iter().map(|&x| entries[usize::from(x)] as u8).collect();
        let run = || bench("udo:Lookup").threads(3).ints("table", &entries);
        assert_eq!(run().input(tensor(&[1, LEN], &x)).one().values::<u8>(), expected);
        let signed: Vec<i8> = x.iter().map(|&x| x as i8).collect();
        let actual = run().input(tensor(&[LEN, 1], &signed)).one().values::<i8>();
        assert_eq!(actual, expected.iter().map(|&y| y as i8).collect::<Vec<_>>());
        let bounded = run().input(tensor(&[2], &x[..2]).bounded(&[Dim::UpTo(70)])).one();
        assert_eq!((bounded.dims(), bounded.values::<u8>()), (vec![2], expected[..2].to_vec()));
    }

    #[test]
    fn tables_have_256_bytes() {
        for entries in [vec![0; 255], vec![256; 256], vec![-1; 256]] {
            let run = bench("udo:Lookup").input(tensor(&[2], &[1u8, 2])).ints("table", &entries);
            let count = entries.len();
            let expected =
                format!("parameter \"table\" has {count} numbers, expected 256 of 0 to 255");
            assert_eq!(run.error(), expected);
        }
    }
}
