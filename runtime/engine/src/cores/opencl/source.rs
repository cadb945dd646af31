//! Preparation of a kernel's source, and the check of its parameters.

use udo_api::abi::GpuArgKind;
use udo_api::{DType, TensorDesc};

/// The tensors of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports<'a> {
    pub(super) inputs: &'a [TensorDesc],
    pub(super) outputs: &'a [TensorDesc],
}

/// The storage type of a node's floating-point tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// `float`, four bytes.
    Float,
    /// `half`, two bytes, loaded as `float`.
    Half,
}

impl Storage {
    /// Returns the storage type of a node with these tensors: that of the first output, or else input, that is `float` or
    /// `half`.
    pub fn for_node(inputs: &[TensorDesc], outputs: &[TensorDesc]) -> Self {
        let storage = |desc: &TensorDesc| match desc.dtype() {
            Some(DType::F32) => Some(Self::Float),
            Some(DType::F16) => Some(Self::Half),
            Some(_) | None => None,
        };
        outputs.iter().chain(inputs).find_map(storage).unwrap_or(Self::Float)
    }

    /// `vload_half` and `vstore_half_rte` are core features: devices without `cl_khr_fp16` support them.
    fn prelude(self) -> &'static str {
        match self {
            Self::Float => {
                "#define UDO_STORAGE float\n\
                 #define UDO_LOAD(p, i) ((p)[i])\n\
                 #define UDO_STORE(p, i, v) ((p)[i] = (v))\n"
            }
            Self::Half => {
                "#define UDO_STORAGE half\n\
                 #define UDO_LOAD(p, i) vload_half((i), (p))\n\
                 #define UDO_STORE(p, i, v) vstore_half_rte((v), (i), (p))\n"
            }
        }
    }
}

/// Puts the prelude before the author's source. Line numbers refer to the author's source, called by the kernel's name.
pub(super) fn with_prelude(source: &str, name: &str, ports: Ports<'_>) -> String {
    for_compiler(source, name, Storage::for_node(ports.inputs, ports.outputs))
}

/// Returns the source that compilers get. They report lines of `file`.
pub fn for_compiler(source: &str, file: &str, storage: Storage) -> String {
    format!("{}#line 1 {file:?}\n{source}", storage.prelude())
}

/// Returns a build log in which lines have the names and numbers that the `#line` directives of `text` give them.
///
/// NVIDIA's compiler ignores these directives: it counts the lines of the whole text and calls each file `<kernel>`.
pub(super) fn with_line_names(log: &str, text: &str) -> String {
    log.lines()
        .map(|line| renamed(line, text).unwrap_or_else(|| line.to_owned()))
        .fold(String::new(), |log, line| if log.is_empty() { line } else { log + "\n" + &line })
}

fn renamed(line: &str, text: &str) -> Option<String> {
    let (number, rest) = line.strip_prefix("<kernel>:")?.split_once(':')?;
    let before = number.parse::<usize>().ok()?.checked_sub(1)?;
    let lines: Vec<_> = text.lines().take(before).collect();
    let (at, directive) =
        lines.iter().enumerate().rev().find(|(_, line)| line.starts_with("#line "))?;
    let (first, file) = directive.strip_prefix("#line ")?.split_once(' ')?;
    let own = first.parse::<usize>().ok()?.checked_add(before - at - 1)?;
    Some(format!("{}:{own}:{rest}", file.trim_matches('"')))
}

/// Describes an argument for messages.
pub(super) fn describe(arg: GpuArgKind, ports: Ports<'_>) -> String {
    let port = |side: &str, port: u32, descs: &[TensorDesc]| {
        let dtype = desc_of(descs, port).and_then(TensorDesc::dtype);
        format!("{side} {port} of {}", dtype.map_or("unknown type", DType::name))
    };
    match arg {
        GpuArgKind::Input(index) => port("input", index, ports.inputs),
        GpuArgKind::Output(index) => port("output", index, ports.outputs),
        GpuArgKind::I32(value) => format!("the i32 {value}"),
        GpuArgKind::U32(value) => format!("the u32 {value}"),
        GpuArgKind::F32(value) => format!("the f32 {value}"),
        GpuArgKind::Scratch(index) => format!("scratch {index}"),
        GpuArgKind::Local(bytes) => format!("{bytes} bytes of local memory"),
        GpuArgKind::Packed(index) => format!("packed constant {index}"),
    }
}

pub(super) fn desc_of(descs: &[TensorDesc], port: u32) -> Option<&TensorDesc> {
    descs.get(usize::try_from(port).ok()?)
}

/// Returns whether a parameter of the OpenCL C type `name` accepts the argument.
///
/// Elements may be read as another type of the same size, for example to manipulate bits. Types that the source defines are not
/// checked.
pub(super) fn fits(name: &str, arg: GpuArgKind, ports: Ports<'_>) -> bool {
    let pointee = name.trim().strip_suffix('*');
    let desc = match arg {
        GpuArgKind::Input(port) => desc_of(ports.inputs, port),
        GpuArgKind::Output(port) => desc_of(ports.outputs, port),
        // Plain bytes, which the source may read as any type.
        GpuArgKind::Scratch(_) | GpuArgKind::Local(_) | GpuArgKind::Packed(_) => {
            return pointee.is_some();
        }
        GpuArgKind::I32(_) | GpuArgKind::U32(_) => {
            return pointee.is_none() && matches!(scalar(name), None | Some((4, Number::Integer)));
        }
        GpuArgKind::F32(_) => {
            return pointee.is_none() && matches!(scalar(name), None | Some((4, Number::Real)));
        }
    };
    let Some(pointee) = pointee else { return false };
    let element_bytes = desc.and_then(TensorDesc::dtype).map(DType::size_bytes);
    match (scalar(vector_element(pointee)), element_bytes) {
        (Some((bytes, _)), Some(expected)) => bytes == expected,
        (None, _) | (_, None) => true,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Integer,
    Real,
}

/// Removes the length of a vector type: `float` for `float4`.
fn vector_element(name: &str) -> &str {
    name.trim().trim_end_matches(|c: char| c.is_ascii_digit())
}

/// Returns the size and kind of a scalar type of OpenCL C; `None` for a type that the source defines.
fn scalar(name: &str) -> Option<(usize, Number)> {
    Some(match name.trim() {
        "char" | "uchar" | "unsigned char" => (1, Number::Integer),
        "short" | "ushort" | "unsigned short" => (2, Number::Integer),
        "int" | "uint" | "unsigned int" => (4, Number::Integer),
        "long" | "ulong" | "unsigned long" | "size_t" => (8, Number::Integer),
        "half" => (2, Number::Real),
        "float" => (4, Number::Real),
        "double" => (8, Number::Real),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use udo_api::Shape;

    fn desc(dtype: DType) -> TensorDesc {
        TensorDesc::new(dtype, Shape::new(&[4]).unwrap())
    }

    #[test]
    fn storage_is_that_of_the_first_floating_output_then_input() {
        let [f32, f16, i64] = [DType::F32, DType::F16, DType::I64].map(desc);
        let cases = [
            (vec![f16], vec![f32], Storage::Float),
            (vec![f32], vec![f16], Storage::Half),
            (vec![f16], vec![i64], Storage::Half),
            (vec![i64], vec![i64], Storage::Float),
            (vec![TensorDesc::ABSENT, f16], vec![TensorDesc::ABSENT], Storage::Half),
        ];
        for (inputs, outputs, storage) in cases {
            let found = Storage::for_node(&inputs, &outputs);
            assert_eq!(found, storage, "{inputs:?} {outputs:?}");
        }
    }

    #[test]
    fn lines_of_a_log_are_those_of_the_author() {
        let text =
            for_compiler("one\ntwo\n#line 1 \"support.h\"\nthree\n", "affine", Storage::Float);
        let cases = [
            ("<kernel>:5:2: error: x", "affine:1:2: error: x"),
            ("<kernel>:6:21: warning: y\n  two\n", "affine:2:21: warning: y\n  two"),
            ("<kernel>:8:1: z", "support.h:1:1: z"),
            // Before every directive, and text that is not a placeholder.
            ("<kernel>:2:1: a", "<kernel>:2:1: a"),
            ("<kernel>:0:1: b", "<kernel>:0:1: b"),
            ("<kernel>:many:1: c", "<kernel>:many:1: c"),
            ("affine:3:1: d", "affine:3:1: d"),
        ];
        for (log, expected) in cases {
            assert_eq!(with_line_names(log, &text), expected);
        }
    }

    #[test]
    fn parameters_fit_by_kind_and_element_size() {
        let inputs = [desc(DType::F32), desc(DType::F16), desc(DType::I64), TensorDesc::ABSENT];
        let cases = [
            ("float*", GpuArgKind::Input(0), true),
            ("float4*", GpuArgKind::Input(0), true),
            ("uint*", GpuArgKind::Input(0), true),
            ("half*", GpuArgKind::Input(0), false),
            ("float*", GpuArgKind::Input(1), false),
            ("long *", GpuArgKind::Input(2), true),
            ("float*", GpuArgKind::Input(3), true),
            ("pixel*", GpuArgKind::Input(0), true),
            ("float", GpuArgKind::Input(0), false),
            ("int", GpuArgKind::I32(1), true),
            ("uint", GpuArgKind::I32(1), true),
            ("ulong", GpuArgKind::U32(1), false),
            ("float", GpuArgKind::I32(1), false),
            ("float", GpuArgKind::F32(1.0), true),
            ("int", GpuArgKind::F32(1.0), false),
            ("float*", GpuArgKind::F32(1.0), false),
            ("index_t", GpuArgKind::U32(1), true),
            ("float*", GpuArgKind::Scratch(0), true),
            ("float", GpuArgKind::Scratch(0), false),
            ("pixel*", GpuArgKind::Local(16), true),
            ("int", GpuArgKind::Local(16), false),
            ("char4*", GpuArgKind::Packed(0), true),
            ("uint", GpuArgKind::Packed(0), false),
        ];
        let ports = Ports { inputs: &inputs, outputs: &[] };
        for (name, arg, fit) in cases {
            assert_eq!(fits(name, arg, ports), fit, "{name} {arg:?}");
        }
    }
}
