//! N05: every function of the header, called with each pointer NULL in turn and with each number of a list out of it, returns
//! an error that names the argument, and writes nothing.
//!
//! The calls are made of the header: a program in C has a call for each argument of each function. A new function has its
//! calls here once [`valid`] knows its kinds of arguments.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::compile::{C, run_program, shared};
use super::declared::{Function, Header, header};
use super::library::FOLDER;

/// The start of each program: it creates the arguments of the calls, and fills the places of results with known values.
const BEFORE: &str = r#"#include "check.h"

static const char MODEL[] = "graph \"g\"\n  input x: f32[2,2]\n  y = Relu@14(x)\n  output y\n";
static const char OPERATION[] = "ADD";
static const char NETWORK[] = "g";
static const int64_t DIMS[2] = {2, 2};
static const float SCALES[1] = {0.5f};
static const int32_t ZEROS[1] = {3};
static float elements[4] = {1, 2, 3, 4}, results[4];
static int64_t places[8];

/* Nothing is written where a refused call's result would go. */
static void untouched(const char *call, const void *place, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (((const unsigned char *)place)[i] != 0xa5) {
            fprintf(stderr, "%s writes a result and is refused\n", call);
            exit(1);
        }
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    udo_runtime_t *runtime = NULL;
    udo_device_t *device = NULL;
    udo_memory_t *memory = NULL;
    udo_map_t *map = NULL;
    udo_tensor_spec_t *spec = NULL;
    udo_tensor_t *tensor = NULL;
    udo_model_t *model = NULL;
    udo_session_t *session = NULL;
    udo_stream_t *stream = NULL;
    udo_launch_t *launch = NULL;
    udo_run_t *run = NULL;
    DONE(udo_runtime_create(NULL, &runtime));
    DONE(udo_device_open(runtime, UDO_DEVICE_CPU, 0, &device));
    udo_alloc_options_t shared = {sizeof shared, 0, 0, UDO_SHARING_EXPORTABLE, NULL};
    DONE(udo_memory_alloc(device, 4096, &shared, &memory));
    int32_t fd = -1;
    DONE(udo_memory_export_fd(memory, &fd));
    udo_memory_t *other = NULL;
    DONE(udo_memory_alloc(device, 64, NULL, &other));
    DONE(udo_memory_map(other, 0, 64, UDO_MAP_WRITE, UDO_CACHE_MAINTENANCE_BY_MAP, &map));
    DONE(udo_tensor_spec_create(UDO_DTYPE_I32, DIMS, 2, &spec));
    udo_tensor_spec_t *integers = NULL;
    DONE(udo_tensor_spec_create(UDO_DTYPE_I32, DIMS, 2, &integers));
    DONE(udo_tensor_spec_set_quantization(spec, SCALES, ZEROS, 1, -1));
    udo_tensor_spec_t *floats = NULL;
    DONE(udo_tensor_spec_create(UDO_DTYPE_F32, DIMS, 2, &floats));
    DONE(udo_tensor_create(device, floats, &tensor));
    /* Something falls back, so that there is a report of it. */
    const udo_load_options_t cached = {.size = sizeof cached, .fallback = UDO_FALLBACK_CPU, .cores = "dsp",
                                       .cache_dir = argv[2], .is_exportable = 1};
    DONE(udo_model_load_bytes(runtime, MODEL, sizeof MODEL - 1, &cached, &model));
    DONE(udo_session_create(model, NULL, &session));
    const udo_tensor_t *inputs[1] = {tensor};
    udo_tensor_t *outputs[1] = {NULL};
    udo_host_input_t host_inputs[1] = {{elements, 16, DIMS, 2}};
    udo_host_output_t host_outputs[1] = {{results, 16, 0}};
    DONE(udo_session_run(session, inputs, 1, outputs, 1));
    udo_networks_t *networks = NULL;
    udo_network_t *network = NULL;
    DONE(udo_networks_open_bytes(runtime, MODEL, sizeof MODEL - 1, NULL, &networks));
    DONE(udo_networks_at(networks, 0, &network));
    udo_session_pool_t *session_pool = NULL;
    DONE(udo_session_pool_create(model, NULL, 1, &session_pool));
    udo_network_pool_t *network_pool = NULL;
    DONE(udo_network_pool_create(network, NULL, 1, &network_pool));
    DONE(udo_stream_create(&stream));
    udo_tensor_t *made[1] = {NULL};
    DONE(udo_session_record(session, inputs, 1, made, 1, NULL, &launch));
    DONE(udo_session_submit(session, inputs, 1, made, 1, NULL, &run));
    DONE(udo_run_wait(run));
    udo_workspace_t *workspace = NULL;
    DONE(udo_workspace_create(&workspace));
    udo_graph_t *graph = NULL, *whole = NULL;
    udo_support_t *support = NULL;
    const uint32_t graph_inputs[2] = {0, 1}, graph_outputs[2] = {3, 4};
    const udo_attribute_t attributes[1] = {{"activation", UDO_ATTRIBUTE_INT, 0, 1, 0, NULL, NULL, NULL}};
    uint32_t number = 0;
    DONE(udo_graph_create("graph", &graph));
    DONE(udo_graph_create("whole", &whole));
    for (int i = 0; i < 5; i++) {
        DONE(udo_graph_add_tensor(graph, i == 2 ? integers : floats, NULL, &number));
        DONE(udo_graph_add_tensor(whole, floats, NULL, &number));
    }
    DONE(udo_graph_add_op(whole, NULL, OPERATION, graph_inputs, 2, graph_outputs, 1, NULL, 0, &number));
    DONE(udo_graph_set_io(whole, graph_inputs, 2, graph_outputs, 1));
    DONE(udo_graph_finish(whole));
    DONE(udo_graph_query_support(whole, runtime, device, &support));
"#;

/// The end of each program.
const AFTER: &str = "    return 0;\n}\n";

/// A number that no list has.
const OUT_OF_RANGE: &str = "77777u";

/// Arguments that may be NULL, and why.
const MAY_BE_NULL: &[(&str, &str)] = &[
    // All defaults.
    ("options", "const udo_alloc_options_t *"),
    ("options", "const udo_load_options_t *"),
    ("options", "const udo_run_options_t *"),
    ("options", "const udo_runtime_options_t *"),
    ("options", "const udo_session_options_t *"),
    // Nothing is written.
    ("bytes", "void *"),
    // No name.
    ("name", "const char *"),
    // An operation of NNRt.
    ("domain", "const char *"),
];

/// An argument that a call is done with: by its name where that says more than its type.
fn valid(function: &str, of: &str, name: &str) -> String {
    let argument = match (of, name) {
        (_, "options") if function == "udo_model_restore" => "&cached",
        (_, "options") | ("const char *", "name" | "domain") | ("void *", "bytes") => "NULL",
        ("const char *", "path") => "argv[1]",
        ("const char *", "op") => "OPERATION",
        ("const uint32_t *", "inputs") => "graph_inputs",
        ("const uint32_t *", "outputs") if function == "udo_graph_add_nnrt_op" => {
            "graph_outputs + 1"
        }
        ("const uint32_t *", "outputs") => "graph_outputs",
        ("uint32_t", "tensor") if function == "udo_graph_set_data" => "1",
        ("const udo_attribute_t *", _) => "attributes",
        ("const void *", "bytes") => "MODEL",
        ("size_t", "len") if function == "udo_model_export" => "(size_t)0",
        ("size_t", "len") if function.ends_with("_bytes") => "sizeof MODEL - 1",
        ("const char *", "network_name") => "NETWORK",
        ("size_t", "len") => "16",
        ("size_t", "rank") | ("uint32_t", "tensor") => "2",
        ("size_t", "input_count") if function.starts_with("udo_graph_add") => "2",
        ("size_t", "output_count") if function == "udo_graph_set_io" => "2",
        ("size_t", "capacity") | ("uint64_t", "len") => "8",
        ("uint64_t", "size") => "4096",
        ("uint64_t", "timeout_ns") => "60000000000u",
        ("const void *", "from") => "elements",
        ("void *", "into") => "results",
        (_, "fd" | "inputs" | "outputs") if !of.contains("host") => name,
        ("const udo_host_input_t *", _) => "host_inputs",
        ("udo_host_output_t *", _) => "host_outputs",
        ("int32_t", "axis") => "-1",
        ("const int64_t *", "dims") => "DIMS",
        ("int64_t *", "dims") => "places",
        ("const float *", "scales") => "SCALES",
        ("const int32_t *", "zero_points") => "ZEROS",
        (
            _,
            "input_count" | "output_count" | "attribute_count" | "count" | "kind" | "dtype"
            | "access" | "number" | "sharing",
        ) => "1",
        (
            _,
            "stage" | "index" | "core" | "offset" | "to_offset" | "from_offset" | "value"
            | "packing" | "layout" | "maintenance",
        ) => "0",
        _ => {
            let handle = of.strip_prefix("const ").unwrap_or(of);
            let handle = handle.strip_prefix("udo_").and_then(|of| of.strip_suffix("_t *"));
            let handle = handle.map(|handle| handle.trim_start_matches("tensor_"));
            assert!(handle.is_some(), "{function}: no argument is known for {of} {name}");
            handle.unwrap()
        }
    };
    argument.to_owned()
}

/// A call of a function with these arguments, of which `out`, if there is one, is a place of known bytes.
fn call(function: &Function, arguments: &[String]) -> (String, Option<String>) {
    let Function { name, parameters, .. } = function;
    let place = parameters.iter().find(|(_, name)| name == "out");
    let place = place.map(|(of, _)| of.strip_suffix('*').unwrap().trim().to_owned());
    (format!("{name}({})", arguments.join(", ")), place)
}

/// The code, or the code and a part of the message, of a refused call.
const WRONG: &str = "UDO_ERROR_INVALID_ARGUMENT";
const FORKED: (&str, &str) = ("UDO_ERROR_INVALID_STATE", "made before this process was forked");

/// Returns a block that makes a call. The call fails with the code and message of `refusal`, or succeeds if that is `None`.
fn block(function: &Function, arguments: &[String], refusal: Option<(&str, &str)>) -> String {
    let (call, place) = call(function, arguments);
    let mut text = String::from("    {\n");
    if let Some(place) = &place {
        writeln!(text, "        {place} out;\n        memset(&out, 0xa5, sizeof out);").unwrap();
        writeln!(text, "        (void)out;").unwrap();
    }
    match refusal {
        None => {
            writeln!(text, "        DONE({call});").unwrap();
            if place.as_deref() == Some("udo_run_t *") {
                // What it holds is needed again.
                writeln!(text, "        DONE(udo_run_wait(out));").unwrap();
            }
        }
        Some((code, words)) => {
            writeln!(text, "        REFUSED({call}, {code}, \"{words}\");").unwrap();
            if place.is_some() {
                writeln!(text, "        untouched(\"{call}\", &out, sizeof out);").unwrap();
            }
        }
    }
    text + "    }\n"
}

/// Arguments that a call is done with.
fn arguments(function: &Function) -> Vec<String> {
    let Function { name, parameters, .. } = function;
    let argument = |(of, parameter): &(String, String)| match parameter.as_str() {
        "out" => "&out".to_owned(),
        _ => valid(name, of, parameter),
    };
    parameters.iter().map(argument).collect()
}

/// The blocks of a function that returns an error.
fn blocks(function: &Function, header: &Header) -> Vec<String> {
    let parameters = &function.parameters;
    let arguments = arguments(function);
    let mut blocks = vec![block(function, &arguments, None)];
    for (at, (of, parameter)) in parameters.iter().enumerate() {
        let mut with = |argument: &str, words: String| {
            let mut arguments = arguments.clone();
            argument.clone_into(&mut arguments[at]);
            blocks.push(block(function, &arguments, Some((WRONG, &words))));
        };
        if of.ends_with('*') && !MAY_BE_NULL.contains(&(parameter.as_str(), of.as_str())) {
            with("NULL", format!("argument {parameter} is NULL"));
        } else if header.enums.contains(of) {
            with(OUT_OF_RANGE, format!("{parameter} is {}", OUT_OF_RANGE.trim_end_matches('u')));
        }
        let pointee = of.trim_start_matches("const ").trim_end_matches(" *");
        let fields = header.structs.iter().find(|(name, _)| name == pointee);
        let fields =
            fields.filter(|_| parameter == "options").into_iter().flat_map(|(_, fields)| fields);
        for (_, field) in fields.filter(|(of, _)| header.enums.contains(of)) {
            let options =
                format!("&({pointee}){{.size = sizeof({pointee}), .{field} = {OUT_OF_RANGE}}}");
            with(&options, format!("{field} is 77777"));
        }
    }
    blocks
}

/// The work of the threads of a process that forks: all calls that take locks.
const BUSY: &str = r"#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static int is_over;

static void compile_and_run(const udo_runtime_t *runtime, const udo_device_t *device) {
    udo_tensor_spec_t *spec = NULL;
    udo_tensor_t *x = NULL, *made[1] = {NULL}, *y = NULL;
    udo_model_t *model = NULL;
    udo_session_t *session = NULL;
    udo_run_t *run = NULL;
    const float wanted[4] = {1, 0, 3, 0};
    const float from[4] = {1, -2, 3, -4};
    float found[4] = {0};
    DONE(udo_tensor_spec_create(UDO_DTYPE_F32, DIMS, 2, &spec));
    DONE(udo_tensor_create(device, spec, &x));
    DONE(udo_tensor_write(x, from, sizeof from));
    DONE(udo_model_load_bytes(runtime, MODEL, sizeof MODEL - 1, NULL, &model));
    DONE(udo_session_create(model, NULL, &session));
    const udo_tensor_t *in[1] = {x};
    const udo_run_options_t in_time = {sizeof in_time, 60000000000u, 0, NULL, NULL, NULL, NULL, 0};
    DONE(udo_session_submit(session, in, 1, made, 1, &in_time, &run));
    DONE(udo_run_wait(run));
    DONE(udo_run_output(run, 0, &y));
    DONE(udo_tensor_read(y, found, sizeof found));
    CHECK(memcmp(found, wanted, sizeof found) == 0);
    udo_tensor_release(y);
    udo_run_release(run);
    udo_session_release(session);
    udo_model_release(model);
    udo_tensor_release(x);
    udo_tensor_spec_release(spec);
}

static void in_a_runtime_of_its_own(void) {
    udo_runtime_t *runtime = NULL;
    udo_device_t *device = NULL;
    DONE(udo_runtime_create(NULL, &runtime));
    DONE(udo_device_open(runtime, UDO_DEVICE_CPU, 0, &device));
    compile_and_run(runtime, device);
    udo_device_release(device);
    udo_runtime_release(runtime);
}

static void *be_busy(void *unused) {
    (void)unused;
    while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) in_a_runtime_of_its_own();
    return NULL;
}

";

/// Forks again and again, with threads at work.
const FORK: &str = r"    pthread_t threads[3];
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, be_busy, NULL) == 0);
    for (int round = 0; round < 20; round++) {
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(60);
            refuse_all
            in_a_runtime_of_its_own();
            _exit(0);
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    compile_and_run(runtime, device);
    in_a_runtime_of_its_own();
";

/// A handle among the parameters of a function, by its type there.
fn is_handle(of: &str, header: &Header) -> bool {
    let name = of.trim_start_matches("const ").strip_suffix(" *");
    let name = name.filter(|name| name.starts_with("udo_") && *name != "udo_error_t");
    name.is_some_and(|name| !header.structs.iter().any(|(known, _)| known == name))
}

#[test]
fn a_process_that_was_forked_is_refused_what_was_made_before_and_has_its_own() {
    let header = header();
    let (mut refusals, mut releases, mut refused) = (String::new(), String::new(), 0);
    for function in &header.functions {
        let Function { returns, name, parameters } = function;
        let is_given = |(of, name): &(String, String)| name != "out" && is_handle(of, &header);
        if !parameters.iter().any(is_given) {
            continue;
        }
        if returns == "udo_error_t *" {
            refusals += &block(function, &arguments(function), Some(FORKED));
            refused += 1;
        } else if name.ends_with("_release") {
            writeln!(releases, "    {};", call(function, &arguments(function)).0).unwrap();
        }
    }
    assert!(refused > 100, "{refused} functions are too few to be all");
    let (before, main) = BEFORE.split_at(BEFORE.find("int main(").unwrap());
    let fork = FORK.replace("refuse_all", &(refusals + &releases));
    let program = [before, BUSY, main, &fork, AFTER].concat();
    let folder = tempfile::tempdir().unwrap();
    let (source, model) = (folder.path().join("forks.c"), folder.path().join("model.graph"));
    fs::write(&source, program).unwrap();
    fs::write(&model, "graph \"g\"\n  input x: f32[2,2]\n  y = Relu@14(x)\n  output y\n").unwrap();
    run_program(C, Path::new(&source), &shared(), folder.path(), &[&model, folder.path()]);
}

#[test]
fn null_and_numbers_out_of_range_are_refused_by_every_function() {
    let header = header();
    let mut program = BEFORE.to_owned();
    let mut seen = BTreeSet::new();
    let mut refusals = 0;
    for function in &header.functions {
        let Function { returns, name, parameters } = function;
        if returns == "udo_error_t *" {
            let blocks = blocks(function, &header);
            refusals += blocks.len() - 1;
            program.extend(blocks);
        } else if name.ends_with("_release") {
            writeln!(program, "    {name}(NULL);").unwrap();
        } else if let [(of, _)] = parameters.as_slice() {
            assert_eq!(of, "const udo_error_t *", "{name}");
            writeln!(program, "    (void){name}(NULL);").unwrap();
        } else {
            assert_eq!((name.as_str(), parameters.len()), ("udo_version", 0));
        }
        assert!(seen.insert(name), "{name} is declared twice");
    }
    program.push_str(AFTER);
    let exported = fs::read_to_string(format!("{FOLDER}/symbols.txt")).unwrap();
    assert!(seen.iter().map(|name| name.as_str()).eq(exported.lines()), "declared and exported");
    assert!(refusals >= header.functions.len(), "{refusals} refusals are too few to be all");
    let folder = tempfile::tempdir().unwrap();
    let (source, model) = (folder.path().join("matrix.c"), folder.path().join("model.graph"));
    fs::write(&source, program).unwrap();
    fs::write(&model, "graph \"g\"\n  input x: f32[2,2]\n  y = Relu@14(x)\n  output y\n").unwrap();
    run_program(C, Path::new(&source), &shared(), folder.path(), &[&model, folder.path()]);
}
