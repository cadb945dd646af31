//! The view of the registration library of a generated package, from which templates print it: the operators' schemas,
//! and tables of operators and libraries.

use super::{
    LibraryView, OpView, reference, sample,
    types::{core_code, dtype, is_quantized, type_set, type_set_code},
};
use crate::{
    code::{Expr, constant, import},
    config::{DataType, DefaultValue, Family, Layout, Op, Package, Scalar, ScalarParam, Tensor},
    names,
};

/// The names that a registration file imports; operators of the same name get a suffix.
const RESERVED: &[&str] =
    &["DType", "Err", "Error", "InferCx", "Ok", "Op", "OpDef", "OpSchema", "Result", "TensorDesc"];

/// Returns the view of the registration library, which refers to the implementation libraries.
pub(crate) fn registration(package: &Package, libraries: &[LibraryView]) -> LibraryView {
    let ops: Vec<String> = package.ops.iter().map(|op| op.name.clone()).collect();
    let mut modules: Vec<String> = ops.iter().map(|op| names::module_name(op)).collect();
    let table = modules.iter().map(|module| Expr::atom(format!("ops::{module}::OP"))).collect();
    let library_refs = libraries.iter().map(|library| {
        let core = match library.core.strip_prefix("dsp:v") {
            Some(arch) => format!("Core::dsp({arch})"),
            None => format!("Core::{}", library.core.to_ascii_uppercase()),
        };
        Expr::call("LibraryRef::new", [Expr::atom(core), Expr::text(&library.file)])
    });
    let library_refs: Vec<Expr> = library_refs.collect();
    let mut used = vec!["LibraryRef", "OpDef", "PackageV1"];
    if !library_refs.is_empty() {
        used.push("Core");
    }
    // rustfmt sorts `mod` lines; the table keeps the order of the config.
    modules.sort_unstable();
    let tables = [
        constant("const NAME: &str", &Expr::text(&package.name)),
        constant("const OPS: &[OpDef]", &Expr::Array(table)),
        constant("const LIBRARIES: &[LibraryRef]", &Expr::Array(library_refs)),
    ];
    LibraryView {
        up: "../../",
        folder: "reg".to_owned(),
        crate_name: format!("{}_reg", names::to_snake_case(&package.name)),
        core: "reg".to_owned(),
        file: format!("libUdo{}Reg.so", package.name),
        title: "registration".to_owned(),
        params: Vec::new(),
        formulas: Vec::new(),
        modules,
        arch: None,
        shared: Vec::new(),
        ops,
        package: package.name.clone(),
        kernels: Vec::new(),
        tables: tables.join("\n\n"),
        imports: import("udo_api", &used),
    }
}

/// Returns the views of one operator's schema file and shape inference file.
///
/// Without a domain in the config the schema has no domain, and the package's name applies.
pub(crate) fn schema(op: &Op, domain: Option<&str>) -> (OpView, OpView) {
    let mut inference_file = OpView::new(op, None);
    if RESERVED.contains(&inference_file.type_name.as_str()) {
        inference_file.type_name.push_str("Op");
    }
    let mut used = vec!["Error", "InferCx", "Op", "OpDef", "OpSchema"];
    inference_file.reference = reference::inference(op);
    if inference_file.reference.is_some() {
        inference_file.sample = sample::shapes(op);
    }
    let inference = inference_file
        .reference
        .as_ref()
        .map_or(&inference_file.inference, |printed| &printed.inference);
    used.extend(["DType", "TensorDesc"].into_iter().filter(|name| inference.contains(name)));
    inference_file.imports = import("udo_api", &used);

    let entry = Expr::call(format!("OpDef::of::<{}>", inference_file.type_name), []);
    inference_file.tables = constant("pub(crate) const OP: OpDef", &entry);

    let mut schema = inference_file.clone();
    let mut code = Schema { used: vec!["OpSchema", "Param", "Port"], tables: Vec::new() };
    let parts = ["INPUTS", "OUTPUTS", "PARAMS"].map(Expr::atom);
    let op_schema = Expr::call("OpSchema::new", [Expr::text(&op.name)].into_iter().chain(parts));
    let op_schema = match domain {
        Some(domain) => op_schema.then("in_domain", [Expr::text(domain)]),
        None => op_schema,
    };
    code.tables.push(constant("pub(crate) const SCHEMA: OpSchema", &op_schema));
    code.list("INPUT", "Port", op.inputs.len());
    for (index, tensor) in op.inputs.iter().enumerate() {
        code.port(&format!("INPUT_{index}"), op, tensor);
    }
    code.list("OUTPUT", "Port", op.outputs.len());
    for (index, tensor) in op.outputs.iter().enumerate() {
        code.port(&format!("OUTPUT_{index}"), op, tensor);
    }
    let scalars = op.scalar_params.len();
    code.list("PARAM", "Param", scalars + op.tensor_params.len());
    for (index, param) in op.scalar_params.iter().enumerate() {
        code.scalar_param(&format!("PARAM_{index}"), param);
    }
    for (index, tensor) in op.tensor_params.iter().enumerate() {
        code.tensor_param(&format!("PARAM_{}", scalars + index), tensor);
    }
    schema.imports = import("udo_api", &code.used);
    schema.tables = code.tables.join("\n\n");
    (schema, inference_file)
}

/// Collects the names and constants of a schema's tables.
struct Schema {
    used: Vec<&'static str>,
    tables: Vec<String>,
}

impl Schema {
    /// Prints `const INPUTS: &[Port] = &[INPUT_0, ..];`.
    fn list(&mut self, item: &str, element_type: &str, len: usize) {
        let items = (0..len).map(|index| Expr::atom(format!("{item}_{index}"))).collect();
        self.tables
            .push(constant(&format!("const {item}S: &[{element_type}]"), &Expr::Array(items)));
    }

    /// Adds a constant, followed by the lists in `lists` that it refers to.
    fn add(&mut self, key: &str, type_name: &str, value: &Expr, lists: Vec<String>) {
        self.tables.push(constant(&format!("const {key}: {type_name}"), value));
        self.tables.extend(lists);
    }

    fn port(&mut self, key: &str, op: &Op, tensor: &Tensor) {
        let mut lists = Vec::new();
        self.used.push("types");
        let mut all_types: Vec<&str> = Vec::new();
        let mut per_core = Vec::new();
        for core in &op.cores {
            let Some(data_type) = tensor.type_on(*core) else { continue };
            let core_types = type_set(*core, data_type);
            for name in &core_types {
                if !all_types.contains(name) {
                    all_types.push(name);
                }
            }
            per_core.push((*core, core_types));
        }
        // A float model has floats at quantized ports until it is quantized, so the port must accept them.
        if is_quantized(tensor) && !all_types.iter().any(|name| matches!(*name, "F32" | "F16")) {
            all_types.insert(0, "F32");
        }
        let kind = if tensor.may_be_absent() { "Port::optional" } else { "Port::required" };
        let types = Expr::atom(type_set_code(&all_types));
        let mut port = Expr::call(kind, [Expr::text(&tensor.name), types]);
        if per_core.iter().any(|(_, core_types)| core_types.len() != all_types.len()) {
            self.used.extend(["Core", "CoreTypes"]);
            let items = per_core.iter().map(|(core, core_types)| {
                let parts = [core_code(*core), type_set_code(core_types)].map(Expr::atom);
                Expr::call("CoreTypes::new", parts)
            });
            let items = Expr::Array(items.collect());
            lists.push(constant(&format!("const {key}_TYPES: &[CoreTypes]"), &items));
            port = port.then("per_core", [Expr::atom(format!("{key}_TYPES"))]);
        }
        if let Some(layout) = tensor.layout {
            self.used.push("Layout");
            let layout = match layout {
                Layout::Nhwc => "Layout::Nhwc",
                Layout::Nchw => "Layout::Nchw",
            };
            port = port.then("layout", [Expr::atom(layout)]);
        }
        if is_quantized(tensor) {
            self.used.push("Quantization");
            port = port.then("quantization", [Expr::atom("Quantization::Tf")]);
        }
        if tensor.is_static {
            port = port.then("constant", []);
        }
        if tensor.repeated {
            port = port.then("repeated", []);
        }
        match &tensor.default {
            Some(DefaultValue::Scalar(value)) => {
                port = port.then("default", [self.scalar(value)]);
            }
            Some(DefaultValue::List(values)) if !values.is_empty() => {
                port = port.then("default", [self.list_value(key, tensor, values, &mut lists)]);
            }
            Some(DefaultValue::List(_)) | None => {}
        }
        self.add(key, "Port", &port, lists);
    }

    fn scalar_param(&mut self, key: &str, param: &ScalarParam) {
        let name = Expr::text(&param.name);
        let mut expr = match param.dtype.family() {
            Family::Text => Expr::call("Param::text", [name]),
            Family::Float(_) | Family::Integer(..) | Family::Truth | Family::Fixed => {
                self.used.push("DType");
                Expr::call("Param::scalar", [name, dtype_code(param.dtype)])
            }
        };
        expr = from_attribute(expr, param.attribute.as_deref());
        if let Some(value) = &param.default {
            expr = expr.then("default", [self.scalar(value)]);
        } else if param.is_optional {
            expr = expr.then("optional", []);
        }
        self.add(key, "Param", &expr, Vec::new());
    }

    fn tensor_param(&mut self, key: &str, tensor: &Tensor) {
        let mut lists = Vec::new();
        self.used.push("DType");
        let data_type = tensor.types.first().map_or(DataType::Float32, |entry| entry.dtype);
        let mut expr =
            Expr::call("Param::tensor", [Expr::text(&tensor.name), dtype_code(data_type)]);
        expr = from_attribute(expr, tensor.attribute.as_deref());
        if let Some(default) = &tensor.default {
            let values = default.values();
            expr = expr.then("default", [self.list_value(key, tensor, values, &mut lists)]);
        } else if tensor.is_optional {
            expr = expr.then("optional", []);
        }
        self.add(key, "Param", &expr, lists);
    }

    /// Adds a list of default values as a separate constant, so that no list is wrapped inside a chain of calls.
    fn list_value(
        &mut self,
        key: &str,
        tensor: &Tensor,
        items: &[Scalar],
        lists: &mut Vec<String>,
    ) -> Expr {
        self.used.push("Value");
        // The types may differ by core, so the values decide first, and the first core's type only for an empty list.
        let is_float = tensor.has_real_default() || (items.is_empty() && family(tensor).is_float());
        let (path, array_type) =
            if is_float { ("Value::floats", "&[f64]") } else { ("Value::ints", "&[i64]") };
        let codes = items.iter().map(|item| match item {
            Scalar::Int(value) if is_float => Expr::atom(format!("{value}.0")),
            Scalar::Int(_) | Scalar::Float(_) | Scalar::Text(_) => scalar_code(item),
        });
        let codes = codes.collect();
        let key = format!("{key}_DEFAULT");
        lists.push(constant(&format!("const {key}: {array_type}"), &Expr::Array(codes)));
        Expr::call(path, [Expr::atom(key)])
    }

    fn scalar(&mut self, value: &Scalar) -> Expr {
        self.used.push("Value");
        let path = match value {
            Scalar::Int(_) => "Value::int",
            Scalar::Float(_) => "Value::float",
            Scalar::Text(_) => "Value::text",
        };
        Expr::call(path, [scalar_code(value)])
    }
}

/// Adds the attribute's name, as in `Param::scalar(..).attribute("type")`.
fn from_attribute(param: Expr, attribute: Option<&str>) -> Expr {
    match attribute {
        Some(attribute) => param.then("attribute", [Expr::text(attribute)]),
        None => param,
    }
}

fn scalar_code(value: &Scalar) -> Expr {
    match value {
        Scalar::Int(value) => Expr::atom(value.to_string()),
        Scalar::Float(value) => Expr::atom(format!("{value:?}")),
        Scalar::Text(value) => Expr::text(value),
    }
}

fn dtype_code(data_type: DataType) -> Expr {
    Expr::atom(format!("DType::{}", dtype(data_type)))
}

fn family(tensor: &Tensor) -> Family {
    tensor.types.first().map_or(Family::Float(0.0), |entry| entry.dtype.family())
}

impl Family {
    /// Whether values are printed as floats.
    fn is_float(self) -> bool {
        match self {
            Self::Float(_) | Self::Fixed => true,
            Self::Integer(..) | Self::Truth | Self::Text => false,
        }
    }
}
