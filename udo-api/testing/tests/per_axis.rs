//! Kernels and tensors with an encoding for each position of an axis.
#![expect(clippy::unwrap_used, reason = "an invalid shape fails the test")]

use udo_api::{
    Core, DType, Encoding, Error, ExecError, FinalizeCx, GuardAlloc, Io, Kernel, KernelDef, Packed,
    PortRule, Quant, QuantMut, Scratch, Shape, Sources, Status, dsp_kernel, input, output, types,
};
use udo_testing::{Bench, Fault, Tensor, tensor};

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;

/// Dequantizes the rows of `[2, 3]`: finalize packs the scales, execute reads the zero points.
struct Rows {
    scales: Packed<f32>,
}

const ROWS: &[PortRule] =
    &[input(0, types::I8).per_axis(), input(1, types::I8).per_axis(), output(0, types::F32)];

fn pack_scales(_: &[u64], sources: &Sources<'_>, packed: &mut [f32]) -> Result<(), Error> {
    let encoding = sources.desc(0)?.axis_encoding();
    let encoding = encoding.ok_or_else(|| Error::new("the source has no encoding per axis"))?;
    packed.copy_from_slice(encoding.scales());
    Ok(())
}

impl Kernel for Rows {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let encoding = cx.input(1)?.axis_encoding();
        match encoding.map(|encoding| (encoding.axis(), encoding.count())) {
            Some((0, 2)) if cx.input(1)?.encoding().is_none() => {}
            found => return Err(Error::new(format!("input 1 is encoded along {found:?}"))),
        }
        let scales = cx.pack(&[1], &[], 2, pack_scales)?;
        cx.keep(1)?;
        Ok(Self { scales })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, packed, .. } = io;
        let (x, w) = (inputs.get::<i8>(0)?, inputs.get::<i8>(1)?);
        let encoding = inputs.axis_encoding(1)?;
        let scales = packed.get(self.scales)?;
        for (index, y) in outputs.take::<f32>(0)?.iter_mut().enumerate() {
            let row = encoding.at(index / 3).ok_or(ExecError::new(Status::BAD_CALL))?;
            let row = Encoding { scale: scales[index / 3], ..row };
            *y = row.dequantize(w[index]) + f32::from(x[index]);
        }
        Ok(())
    }
}

fn rows(rules: &'static [PortRule]) -> Bench {
    let zeros = tensor(&[2, 3], &[0i8; 6]);
    let kernel = KernelDef::new::<Rows>("Rows", Core::CPU).ports(rules);
    let bench = Bench::kernel(kernel).input(zeros).output(DType::F32, Shape::new(&[2, 3]).unwrap());
    bench.constant(weights().encoded_per_axis(0, &[0.5, 4.0], &[1, -1]))
}

fn weights() -> Tensor {
    tensor(&[2, 3], &[1i8, 2, 3, -1, 0, 1])
}

#[test]
fn a_kernel_reads_the_scales_of_an_axis() {
    assert_eq!(rows(ROWS).one().values::<f32>(), [0.0, 0.5, 1.0, 0.0, 4.0, 8.0]);
}

#[test]
fn rules_without_per_axis_refuse_encodings_per_axis() {
    const UNAWARE: &[PortRule] = &[input(0, types::I8), input(1, types::I8), output(0, types::F32)];
    const X_ONLY: &[PortRule] = &[input(0, types::I8).per_axis(), output(0, types::I8)];
    for rules in [UNAWARE, &[]] {
        assert_eq!(
            rows(rules).error(),
            "input 1 is i8[2,3] with an encoding per axis, and the kernel's rule for it lacks per_axis",
            "{rules:?}"
        );
    }
    let kernel = KernelDef::new::<Thrice>("Thrice", Core::dsp(68)).ports(X_ONLY);
    let run =
        Bench::kernel(kernel).input(weights()).output(DType::I8, Shape::new(&[2, 3]).unwrap());
    let fault = run.output_axis_encoding(0, 1, &[1.0; 3], &[0; 3]).fault();
    assert!(matches!(&fault, Fault::PerAxis { port, .. } if port == "output 0"), "{fault}");
    assert_eq!(fault.status(), None);
}

#[test]
fn an_encoding_that_does_not_fit_the_output_is_refused() {
    let run = rows(ROWS).output_axis_encoding(0, 0, &[1.0; 2], &[0; 2]);
    let expected = "an encoding per axis is on f32[2,3], expected u8, i8, u16, i16 or i32";
    assert_eq!(run.error(), expected);
}

dsp_kernel!(Thrice = thrice(out: [i8], in: [i8], params: {}));

#[expect(clippy::needless_pass_by_value, reason = "outputs belong to the call")]
fn thrice(out: QuantMut<'_, i8>, x: Quant<'_, i8>, _: Scratch<'_>) -> Result<(), ExecError> {
    let missing = ExecError::new(Status::BAD_CALL);
    let encodings = [x.axis_encoding.ok_or(missing)?, out.axis_encoding.ok_or(missing)?];
    for (index, (y, &x)) in out.data.iter_mut().zip(x.data).enumerate() {
        let (input_encoding, output_encoding) = (
            encodings[0].at(index % 3).ok_or(missing)?,
            encodings[1].at(index / 3).ok_or(missing)?,
        );
        *y = output_encoding.quantize(3.0 * input_encoding.dequantize(x));
    }
    Ok(())
}

#[test]
fn a_dsp_function_reads_the_scales_of_an_axis() {
    const PORTS: &[PortRule] = &[input(0, types::I8).per_axis(), output(0, types::I8).per_axis()];
    let kernel = KernelDef::new::<Thrice>("Thrice", Core::dsp(68)).ports(PORTS);
    let bench =
        |x: Tensor| Bench::kernel(kernel).input(x).output(DType::I8, Shape::new(&[2, 3]).unwrap());
    let x = weights().encoded_per_axis(1, &[1.0, 0.5, 2.0], &[0, 1, 0]);
    let y = bench(x).output_axis_encoding(0, 0, &[3.0, 0.5], &[0, 10]).one();
    assert_eq!(y.values::<i8>(), [1, 0, 6, 4, 7, 22], "1.5 / 3 goes to even");
    let fault = bench(weights()).output_axis_encoding(0, 0, &[3.0, 0.5], &[0, 10]).fault();
    assert_eq!(fault.status(), Some(Status::BAD_CALL), "a tensor without an encoding has none");
}
