//! The names in a printed kernel: those of the source in lower case, if they are valid there.

use std::{cell::RefCell, collections::HashSet};

use crate::{
    case::to_snake_case,
    ir::{Code, Local, Source, Text},
    signature::Signature,
};

/// Keywords of Rust and C, and names that printed kernels use themselves.
const TAKEN: &[&str] = &[
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

/// Prefixes and suffixes of names that printed kernels use themselves.
const OWN: &[&str] =
    &["dims_", "element_of_", "encoding_", "has_", "int_", "kept_", "list_", "stored_", "text_"];
const OWN_ENDS: &[&str] = &["_f32", "_f64"];

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
const OPENCL_STARTS: &str = "
    __ CL CHAR_ DBL_ FLT_ HALF_ HAS_ HUGE_VAL INFINITY INT_ LIST_ LONG_ M_ MAXFLOAT NAN NULL PLAN SCALE_ SCHAR_ SHRT_
    UCHAR_ UDO_ UINT_ ULONG_ USHRT_ as_ async_ atom atomic_ char clk_ convert_ double enqueue_ float get_ half_
    image1d image2d image3d int long memory_ native_ read_image short sub_group_ to_ uchar uint ulong ushort vload
    vstore work_group_ write_image ZERO_";

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
        Self::apart_from(&|_| false, code, signature)
    }

    /// Creates names for OpenCL C, with the string comparisons of other printers.
    pub(super) fn of_opencl(code: &Code, signature: &Signature, texts: Vec<(Text, Text)>) -> Self {
        let names = Self::apart_from(&opencl_has, code, signature);
        Self { texts: RefCell::new(texts), ..names }
    }

    fn apart_from(is_taken: &dyn Fn(&str) -> bool, code: &Code, signature: &Signature) -> Self {
        let mut taken: HashSet<String> = TAKEN.iter().map(|word| (*word).to_owned()).collect();
        let mut fresh = |wanted: &str, other: String| {
            let wanted = to_snake_case(wanted);
            let is_free = is_name(&wanted) && !is_taken(&wanted);
            let name = if is_free { wanted } else { other };
            let mut unique = name.clone();
            let mut number = 1;
            while !taken.insert(unique.clone()) {
                number += 1;
                unique = format!("{name}_{number}");
            }
            unique
        };
        let mut each = |names: Vec<&str>, other: &str| -> Vec<String> {
            names
                .iter()
                .enumerate()
                .map(|(number, name)| fresh(name, format!("{other}_{number}")))
                .collect()
        };
        let inputs =
            each(signature.inputs.iter().map(|port| port.name.as_str()).collect(), "input");
        let params =
            each(signature.params.iter().map(|param| param.name.as_str()).collect(), "param");
        let defs = each(
            code.defs.iter().map(|def| def.name.as_deref().unwrap_or_default()).collect(),
            "part",
        );
        let of = |locals: &[Local]| -> Vec<String> {
            locals.iter().map(|local| local.name.clone().unwrap_or_default()).collect()
        };
        let (scalars, lists) = (of(&code.scalars), of(&code.lists));
        let scalars = each(scalars.iter().map(String::as_str).collect(), "value");
        let mut lists = each(lists.iter().map(String::as_str).collect(), "list");
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
        let place = texts.iter().position(|other| *other == pair).unwrap_or_else(|| {
            texts.push(pair);
            texts.len() - 1
        });
        format!("text_{place}")
    }

    pub(super) fn strings(&self) -> Vec<(Text, Text)> {
        self.texts.borrow().clone()
    }
}

fn named(names: &[String], number: usize) -> &str {
    names.get(number).map_or("missing", String::as_str)
}

/// Whether OpenCL C, or the code printed with it, uses this name.
fn opencl_has(word: &str) -> bool {
    OPENCL_WORDS.split_whitespace().any(|taken| taken == word)
        || OPENCL_STARTS.split_whitespace().any(|start| word.starts_with(start))
}

fn is_name(word: &str) -> bool {
    let mut letters = word.chars();
    let is_own = OWN.iter().any(|start| word.starts_with(start))
        || OWN_ENDS.iter().any(|end| word.ends_with(end));
    let is_temporary =
        word.strip_prefix('t').is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit()));
    !is_own
        && !is_temporary
        && letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        && word.len() <= 64
}
