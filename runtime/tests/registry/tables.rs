//! Tables that break the contract, one entry at a time.

use tempfile::tempdir;
use udo_test_support::packages::*;

/// Changes that break the tables of the C fixture, and the loader's errors.
const CASES: &[(&str, &str)] = &[
    ("package.abi_version.major = 7", "it has ABI version 7.0, expected 2.0"),
    ("package.abi_version.minor++", "it has ABI version 2.1, expected 2.0"),
    ("package.size = 8", "its table has 8 bytes, expected 192"),
    ("package.needs = 4", "it requires feature bit 2, which this version does not have"),
    ("package.ops.item_bytes = 0", "each operator has 0 bytes, expected 144"),
    ("package.ops.item_bytes += 8", "each operator has 152 bytes, expected 144"),
    ("package.kernels.ptr = NULL", "its table of kind kernel is null or not aligned"),
    ("package.reserved[6] = 1", "a reserved field of its table is not zero"),
    ("package.name.len = 0", "its package name is \"\", expected an identifier"),
    ("package.name.ptr = \"9lives\"", "its package name is \"9lives\", expected an identifier"),
    (
        "package.ops.len = 1 << 20",
        "it has 1048576 entries of kind operator, expected at most 65536",
    ),
    ("package.ops.len = 0", "it has no operators, expected at least one"),
    (
        "ops[0].schema.name.ptr = \"a-b-c\"",
        "an operator is called \"a-b-c\", expected an identifier",
    ),
    ("package.ops.len = 2", "operator \"Scale\" is listed twice"),
    ("ops[0].infer = NULL", "operator 0: field \"infer\" of OpDef is null"),
    ("ops[0].reserved[1] = 1", "operator 0: reserved field \"reserved\" of OpDef is not zero"),
    (
        "ops[0].schema.reserved_word = 1",
        "operator 0: reserved field \"reserved_word\" of OpSchema is not zero",
    ),
    (
        "ops[0].schema.outputs.len = 0",
        "operator \"Scale\": it has no outputs, expected at least one",
    ),
    (
        "inputs[0].name.len = 0",
        "operator \"Scale\": input 0 is called \"\", expected a unique name",
    ),
    (
        "inputs[0].default_value.reserved = 1",
        "operator \"Scale\": input \"x\": reserved field \"reserved\" of Value is not zero",
    ),
    (
        "inputs[0].types = 0",
        "operator \"Scale\": input \"x\": it has no element types, expected at least one",
    ),
    (
        "outputs[0].types = UDO_SET(UDO_STR)",
        "operator \"Scale\": output \"y\": its types are 0x4000, expected element types of tensors",
    ),
    (
        "outputs[0].types = 1u << 30",
        "operator \"Scale\": output \"y\": its types are 0x40000000, expected element types of tensors",
    ),
    (
        "params[0].kind = 9",
        "operator \"Scale\": parameter \"factor\": its kind is unknown, expected one of scalar, text, list, tensor, texts, graph",
    ),
    ("params[0].dtype = 99", "operator \"Scale\": parameter \"factor\": its type is unknown"),
    (
        "params[0].types = UDO_SET(UDO_F32)",
        "operator \"Scale\": parameter \"factor\": its types are not valid for a scalar",
    ),
    (
        "params[0].kind = UDO_PARAM_TYPED_TENSOR; params[0].dtype = 0",
        "operator \"Scale\": parameter \"factor\": its types are not valid for a tensor",
    ),
    (
        "params[0].kind = UDO_PARAM_TYPED_TENSOR; params[0].dtype = 0; params[0].types = UDO_SET(UDO_STR)",
        "operator \"Scale\": parameter \"factor\": its types are 0x4000, expected element types of tensors",
    ),
    (
        "params[0].kind = UDO_PARAM_GRAPH; params[0].dtype = 0; params[0].default_value.kind = 0",
        "operator \"Scale\": parameter \"factor\": it is a graph, which only built-in operators support",
    ),
    (
        "ops[0].schema.facts = 1u << 10",
        "operator \"Scale\": it states that its host runs graphs, which only built-in operators may do",
    ),
    (
        "params[0].kind = UDO_PARAM_GRAPH",
        "operator \"Scale\": parameter \"factor\": its types are not valid for a graph",
    ),
    (
        "params[0].default_value.kind = UDO_VALUE_INTS",
        "operator \"Scale\": parameter \"factor\": its default does not fit its kind, scalar",
    ),
    ("kernels[0].vtable = NULL", "kernel 0: its KernelVTable is null or not aligned"),
    (
        "static udo_kernel_vtable broken; kernels[0].vtable = &broken",
        "kernel 0: its KernelVTable has 0 bytes, expected 72 to 72",
    ),
    (
        "static udo_kernel_vtable broken = {.size = sizeof(broken)}; kernels[0].vtable = &broken",
        "kernel 0: field \"finalize\" of KernelVTable is null",
    ),
    (
        "static udo_kernel_vtable broken; broken = vtable; broken.reserved = 1; kernels[0].vtable = &broken",
        "kernel 0: reserved field \"reserved\" of KernelVTable is not zero",
    ),
    (
        "static udo_gpu_table gpu = {.size = 7}; static udo_kernel_vtable broken; broken = vtable; broken.gpu = &gpu; kernels[0].vtable = &broken",
        "kernel 0: its GpuTable has 7 bytes, expected 48 to 48",
    ),
    (
        "package.guard_report = (void (*)(udo_guard_report *))free",
        "the table has one of the two functions of a guard, expected both or none",
    ),
    ("kernels[0].core.kind = 9", "kernel 0 (\"Scale\"): its core is core9:0, which is unknown"),
    (
        "kernels[0].core.kind = UDO_DSP",
        "kernel 0 (\"Scale\"): its core is a DSP without an architecture",
    ),
    (
        "kernels[0].core.arch = 68",
        "kernel 0 (\"Scale\"): its core is cpu with architecture 68, expected 0",
    ),
    (
        "kernels[0].op.ptr = \"Scalf\"",
        "kernel 0 (\"Scalf\"): its package does not describe this operator",
    ),
    ("rules[0].side = 5", "kernel 0 (\"Scale\"): a rule is for neither an input nor an output"),
    (
        "rules[0].port = 3",
        "kernel 0 (\"Scale\"): a rule is for input 3, which the operator does not have",
    ),
    (
        "rules[0].types = 1u << 30",
        "kernel 0 (\"Scale\"): the rule for input 0: its types are 0x40000000, expected element types of tensors",
    ),
    (
        "rules[0].accepts = 1u << 9",
        "kernel 0 (\"Scale\"): the rule for input 0 has parts that this version does not know",
    ),
    (
        "rules[1].same_as = 2",
        "kernel 0 (\"Scale\"): the rule for output 0 requires the type of input 2, which the operator does not have",
    ),
    (
        "pairs[0].output = 1",
        "kernel 0 (\"Scale\"): it works in place from input 0 to output 1, which the operator does not have",
    ),
    (
        "outputs[0].flags |= UDO_LAYOUT_NHWC; rules[1].layout = UDO_PORT_CHANNELS_LAST",
        "kernel 0 (\"Scale\"): the rule for output 0 requires channels last, but its operator declares a layout",
    ),
    ("kernels[0].cost = 9", "kernel 0 (\"Scale\"): it has a cost that this version does not know"),
    (
        "libraries[0].file = (udo_str)UDO_TEXT(\"../x.so\")",
        "library \"../x.so\": its path leads out of the package's folder",
    ),
    (
        "libraries[0].file = (udo_str)UDO_TEXT(\"/x.so\")",
        "library \"/x.so\": its path leads out of the package's folder",
    ),
    ("libraries[0].core.kind = 0", "library \"a.so\": its core is core0:0, which is unknown"),
    ("libraries[1].file = libraries[0].file", "library \"a.so\" is listed twice"),
];

#[test]
fn broken_tables_are_refused_by_entry() {
    let folder = tempdir().unwrap();
    let libraries = "{.core = {UDO_GPU, 0}, .file = UDO_TEXT(\"a.so\")}, \
                     {.core = {UDO_HTA, 0}, .file = UDO_TEXT(\"b.so\")}";
    for (at, (code, wanted)) in CASES.iter().enumerate() {
        // One path each: a library that was loaded once stays what it was.
        let path = folder.path().join(format!("{at}/libUdoCScaleReg.so"));
        c_package(&path, &[("KERNELS", "{UDO_CPU, 0}"), ("LIBRARIES", libraries), ("QUERY", code)]);
        let text = message(&refusal(&path), &folder.path().join(at.to_string()));
        assert_eq!(text, format!("library \"*/libUdoCScaleReg.so\": {wanted}"), "{code}");
    }
}
