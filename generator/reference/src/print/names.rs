//! Chooses the names in printed kernels: a name of the source in snake case if it is valid in the printed language,
//! else a numbered name such as `input_0`.

use std::{cell::RefCell, collections::HashSet};

use crate::{
    case::to_snake_case,
    ir::{Code, Local, Source, Text},
    signature::Signature,
};

/// Keywords of Rust and C, and names that printed kernels use for their own variables.
const RESERVED: &[&str] = &[
    "as",
    "auto",
    "bool",
    "break",
    "case",
    "char",
    "const",
    "continue",
    "crate",
    "default",
    "do",
    "double",
    "dyn",
    "else",
    "enum",
    "execute",
    "extern",
    "f32",
    "f64",
    "false",
    "fn",
    "float",
    "for",
    "found",
    "gen",
    "goto",
    "here",
    "i64",
    "if",
    "impl",
    "in",
    "int",
    "let",
    "long",
    "loop",
    "match",
    "mod",
    "move",
    "mut",
    "number",
    "place",
    "plan",
    "pub",
    "ref",
    "return",
    "self",
    "short",
    "signed",
    "size",
    "static",
    "struct",
    "super",
    "switch",
    "trait",
    "true",
    "type",
    "union",
    "unsafe",
    "unsigned",
    "use",
    "void",
    "volatile",
    "where",
    "while",
    "yield",
    "at",
    "before",
    "best",
    "best_score",
    "bound",
    "comes_before",
    "is_behind",
    "is_dropped",
    "last",
    "last_score",
    "fields",
    "least",
    "score",
    "text",
    "to",
    "Plan",
    "List",
    "Fault",
    "Some",
    "None",
    "Ok",
    "Err",
    "Vec",
    "Option",
    "Result",
    "Self",
    "async",
    "await",
    "box",
    "try",
    "abstract",
    "final",
    "macro",
    "override",
    "priv",
    "typeof",
    "unsized",
    "virtual",
    "become",
    "asm",
    // Names that clippy rejects as placeholders.
    "foo",
    "baz",
    "quux",
];

/// Prefixes of names that printed kernels use for their own variables.
const RESERVED_PREFIXES: &[&str] =
    &["dims_", "element_of_", "encoding_", "has_", "int_", "kept_", "list_", "stored_", "text_"];
/// The suffixes of such names.
const RESERVED_SUFFIXES: &[&str] = &["_f32", "_f64"];

/// Keywords, types and functions of OpenCL C without a common prefix, and names printed next to kernels.
const OPENCL_WORDS: &str = "
    abs abs_diff acos acosh acospi add_sat all any asin asinh asinpi atan atan2 atan2pi atanh atanpi barrier bitselect
    cbrt ceil clamp clz complex constant copysign cos cosh cospi cross ctz degrees distance dot
    enqueue_kernel erf erfc event_t exp exp10 exp2 expm1 fabs fast_distance fast_length fast_normalize fdim finite
    float_sigmoid float_sign floor floor_mod fma fmax fmin fmod fract frexp generic global hadd half hypot ilogb
    image imaginary inline isequal isfinite isgreater isgreaterequal isinf isless islessequal islessgreater isnan
    isnormal isnotequal isordered isunordered joined joined_rest kernel larger ldexp length lgamma lgamma_r local log log10 log1p log2
    logb mad mad24 mad_hi mad_sat max maxmag min minmag mix modf mul24 mul_hi mem_fence nan ndrange_t
    nextafter normalize pipe popcount pow pown powr prefetch printf private product_rest ptrdiff_t quad quantized queue_t
    quotient_rest
    radians read_mem_fence read_only read_write register remainder remquo restrict rhadd rint rootn rotate round
    rsqrt sampler_t select shuffle shuffle2 sign signbit sin sincos sinh sinpi size_t sizeof smaller smoothstep
    sqrt step sub_sat sum_rest tan tanh tanpi tgamma trunc uchar uint uintptr_t intptr_t ulong uniform upsample ushort value
    vec_step wait_group_events whole work_group_barrier write_mem_fence write_only";
const OPENCL_PREFIXES: &str = "
    __ CL CHAR_ DBL_ FLT_ HALF_ HAS_ HUGE_VAL INFINITY INT_ LIST_ LONG_ M_ MAXFLOAT NAN NULL PLAN SCALE_ SCHAR_ SHRT_
    UCHAR_ UDO_ UINT_ ULONG_ USHRT_ as_ async_ atom atomic_ char clk_ convert_ double enqueue_ float get_ half_
    image1d image2d image3d int long memory_ native_ read_image short sub_group_ to_ uchar uint ulong ushort vload
    vstore work_group_ write_image ZERO_";

/// The printed names of a program's parts, by their indices.
#[derive(Clone)]
pub(super) struct Names {
    inputs: Vec<String>,
    params: Vec<String>,
    defs: Vec<String>,
    scalars: Vec<String>,
    lists: Vec<String>,
    /// The string comparisons of the program, each once.
    texts: RefCell<Vec<(Text, Text)>>,
}

impl Names {
    /// Creates names for Rust.
    pub(super) fn new(code: &Code, signature: &Signature) -> Self {
        Self::avoiding(&|_| false, code, signature)
    }

    /// Creates names for OpenCL C, with the string comparisons of other printers.
    pub(super) fn of_opencl(code: &Code, signature: &Signature, texts: Vec<(Text, Text)>) -> Self {
        let names = Self::avoiding(&is_reserved_in_opencl, code, signature);
        Self { texts: RefCell::new(texts), ..names }
    }

    fn avoiding(is_reserved: &dyn Fn(&str) -> bool, code: &Code, signature: &Signature) -> Self {
        let mut used: HashSet<String> = RESERVED.iter().map(|word| (*word).to_owned()).collect();
        let mut unique_name = |preferred: &str, fallback: String| {
            let preferred = to_snake_case(preferred);
            let is_free = is_name(&preferred) && !is_reserved(&preferred);
            let name = if is_free { preferred } else { fallback };
            let mut unique = name.clone();
            let mut number = 1;
            while !used.insert(unique.clone()) {
                number += 1;
                unique = format!("{name}_{number}");
            }
            unique
        };
        let mut unique_names = |names: Vec<&str>, fallback: &str| -> Vec<String> {
            names
                .iter()
                .enumerate()
                .map(|(number, name)| unique_name(name, format!("{fallback}_{number}")))
                .collect()
        };
        let inputs =
            unique_names(signature.inputs.iter().map(|port| port.name.as_str()).collect(), "input");
        let params = unique_names(
            signature.params.iter().map(|param| param.name.as_str()).collect(),
            "param",
        );
        let defs = unique_names(
            code.defs.iter().map(|def| def.name.as_deref().unwrap_or_default()).collect(),
            "part",
        );
        let local_names = |locals: &[Local]| -> Vec<String> {
            locals.iter().map(|local| local.name.clone().unwrap_or_default()).collect()
        };
        let (scalars, lists) = (local_names(&code.scalars), local_names(&code.lists));
        let scalars = unique_names(scalars.iter().map(String::as_str).collect(), "value");
        let mut lists = unique_names(lists.iter().map(String::as_str).collect(), "list");
        if let Some(here) = lists.get_mut(crate::ir::HERE) {
            "here".clone_into(here);
        }
        Self { inputs, params, defs, scalars, lists, texts: RefCell::default() }
    }

    pub(super) fn source(&self, source: Source) -> &str {
        match source {
            Source::Input(input) => named(&self.inputs, input),
            Source::Param(param) => named(&self.params, param),
            Source::Def(def) => named(&self.defs, def),
        }
    }

    pub(super) fn dims(&self, source: Source) -> String {
        format!("dims_{}", self.source(source))
    }

    pub(super) fn present(&self, input: usize) -> String {
        format!("has_{}", named(&self.inputs, input))
    }

    pub(super) fn param(&self, param: usize) -> &str {
        named(&self.params, param)
    }

    pub(super) fn def(&self, def: usize) -> &str {
        named(&self.defs, def)
    }

    pub(super) fn scalar(&self, slot: usize) -> &str {
        named(&self.scalars, slot)
    }

    pub(super) fn list(&self, slot: usize) -> &str {
        named(&self.lists, slot)
    }

    /// Returns the plan's field with the result of a string comparison.
    pub(super) fn text(&self, left: &Text, right: &Text) -> String {
        let pair = (left.clone(), right.clone());
        let mut texts = self.texts.borrow_mut();
        let index = texts.iter().position(|other| *other == pair).unwrap_or_else(|| {
            texts.push(pair);
            texts.len() - 1
        });
        format!("text_{index}")
    }

    pub(super) fn strings(&self) -> Vec<(Text, Text)> {
        self.texts.borrow().clone()
    }
}

fn named(names: &[String], number: usize) -> &str {
    names.get(number).map_or("missing", String::as_str)
}

/// Whether OpenCL C, or the code printed with it, uses this name.
fn is_reserved_in_opencl(word: &str) -> bool {
    OPENCL_WORDS.split_whitespace().any(|reserved| reserved == word)
        || OPENCL_PREFIXES.split_whitespace().any(|prefix| word.starts_with(prefix))
}

/// Whether the word is an identifier that printed kernels do not use for their own variables.
fn is_name(word: &str) -> bool {
    let mut letters = word.chars();
    let is_reserved = RESERVED_PREFIXES.iter().any(|prefix| word.starts_with(prefix))
        || RESERVED_SUFFIXES.iter().any(|suffix| word.ends_with(suffix));
    let is_temporary =
        word.strip_prefix('t').is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit()));
    !is_reserved
        && !is_temporary
        && letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        && word.len() <= 64
}
