/* Networks of a file, sessions of them, and what models say of themselves: B01, B02, B05, B08, B22, N10, N11, N12. It is C and C++. */
#include "check.h"

static udo_runtime_t *runtime;
static udo_device_t *device;

static udo_tensor_t *tensor(int64_t rows, const float *elements) {
    const int64_t dims[2] = {rows, 2};
    udo_tensor_spec_t *spec = NULL;
    udo_tensor_t *made = NULL;
    DONE(udo_tensor_spec_create(UDO_DTYPE_F32, dims, 2, &spec));
    DONE(udo_tensor_create(device, spec, &made));
    DONE(udo_tensor_write(made, elements, (size_t)rows * 8));
    udo_tensor_spec_release(spec);
    return made;
}

static udo_load_options_t on(const char *cores) {
    udo_load_options_t options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.cores = cores;
    return options;
}

/* B05: the stage for the shapes, or all of them in an error. */
static void take_stages(const udo_networks_t *networks) {
    const float x[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    udo_network_t *network = NULL;
    udo_session_t *all = NULL, *second = NULL;
    const char *text = NULL;
    size_t n = 0;
    DONE(udo_networks_find(networks, "stages", &network));
    DONE(udo_network_text(network, &text));
    CHECK(strstr(text, "network \"stages\"") != NULL && strstr(text, "stage 1") != NULL && strstr(text, "input x: f32[4,2]") != NULL);
    DONE(udo_network_stage_count(network, &n));
    CHECK(n == 2);
    udo_tensor_spec_t *spec = NULL;
    int64_t dims[2];
    DONE(udo_network_output_spec(network, 1, 0, &spec));
    DONE(udo_tensor_spec_dims(spec, dims, 2));
    CHECK(dims[0] == 4 && dims[1] == 2);
    udo_tensor_spec_release(spec);
    REFUSED(udo_network_output_spec(network, 2, 0, &spec), UDO_ERROR_INVALID_ARGUMENT, "stage 2");
    /* What it is called, and what goes in and comes out; dimensions in which stages differ are open. */
    const char *name = NULL, *none = NULL;
    DONE(udo_network_name(network, &name));
    CHECK(strcmp(name, "stages") == 0);
    DONE(udo_network_input_count(network, &n));
    DONE(udo_network_input_name(network, 0, &name));
    CHECK(n == 1 && strcmp(name, "x") == 0);
    REFUSED(udo_network_input_name(network, 1, &none), UDO_ERROR_INVALID_ARGUMENT, "1");
    DONE(udo_network_output_count(network, &n));
    DONE(udo_network_output_name(network, 0, &name));
    CHECK(n == 1 && name[0] != 0 && none == NULL);
    DONE(udo_network_input_spec(network, 1, 0, &spec));
    DONE(udo_tensor_spec_dims(spec, dims, 2));
    CHECK(dims[0] == 4 && dims[1] == 2);
    udo_tensor_spec_release(spec);
    spec = NULL;
    REFUSED(udo_network_input_spec(network, 2, 0, &spec), UDO_ERROR_INVALID_ARGUMENT, "stage 2");
    REFUSED(udo_network_input_spec(network, 0, 1, &spec), UDO_ERROR_INVALID_ARGUMENT, "no input 1");
    CHECK(spec == NULL);
    /* The stage for shapes, as a program asks for it. */
    size_t stage = 77;
    udo_tensor_t *four_rows = tensor(4, x), *three_rows = tensor(3, x);
    const udo_tensor_t *asked[2] = {three_rows, three_rows};
    REFUSED(udo_network_stage_for(network, asked, 1, &stage), UDO_ERROR_SHAPE_MISMATCH, "no stage of network");
    REFUSED(udo_network_stage_for(network, asked, 2, &stage), UDO_ERROR_INVALID_ARGUMENT, "2 inputs, expected 1");
    CHECK(stage == 77);
    asked[0] = four_rows;
    DONE(udo_network_stage_for(network, asked, 1, &stage));
    CHECK(stage == 1);
    udo_tensor_release(four_rows);
    udo_tensor_release(three_rows);
    REFUSED(udo_network_session(network, 2, NULL, &all), UDO_ERROR_INVALID_ARGUMENT, "stage 2");
    REFUSED(udo_network_session(network, -2, NULL, &all), UDO_ERROR_INVALID_ARGUMENT, "stage is -2");
    DONE(udo_network_session(network, -1, NULL, &all));
    DONE(udo_network_session(network, 1, NULL, &second));
    REFUSED(udo_session_output_spec(all, 0, &spec), UDO_ERROR_INVALID_STATE, "no stage of network \"stages\" ran yet");
    /* B22 */
    DONE(udo_session_reserve_stage(all, 1));
    REFUSED(udo_session_reserve_stage(all, 2), UDO_ERROR_INVALID_ARGUMENT, "stage 2");
    REFUSED(udo_session_reserve_stage(second, 1), UDO_ERROR_INVALID_ARGUMENT, "stage 1");
    DONE(udo_session_reserve(all));
    for (int64_t rows = 1; rows < 6; rows++) {
        udo_tensor_t *in = tensor(rows, x), *out = NULL, *late[1] = {NULL};
        const udo_tensor_t *inputs[1] = {in};
        udo_run_t *run = NULL;
        float found[10];
        if (rows == 2 || rows == 4) {
            DONE(udo_session_run(all, inputs, 1, &out, 1));
            DONE(udo_tensor_read(out, found, (size_t)rows * 8));
            for (int i = 0; i < 2 * rows; i++) CHECK(found[i] == 2 * x[i]);
            udo_tensor_release(out);
            out = NULL;
            DONE(udo_session_submit(all, inputs, 1, late, 1, NULL, &run));
            DONE(udo_run_wait(run));
            DONE(udo_run_output(run, 0, &out));
            DONE(udo_tensor_read(out, found, (size_t)rows * 8));
            CHECK(found[1] == 4);
            udo_run_release(run);
        } else {
            REFUSED(udo_session_run(all, inputs, 1, &out, 1), UDO_ERROR_SHAPE_MISMATCH, "x f32[2,2]; x f32[4,2]");
        }
        udo_tensor_release(out);
        udo_tensor_release(in);
    }
    udo_tensor_t *two_rows = tensor(2, x), *to_make = NULL;
    const udo_tensor_t *too_many[2] = {two_rows, two_rows}, *no_tensor[1] = {NULL};
    REFUSED(udo_session_run(all, too_many, 2, &to_make, 1), UDO_ERROR_INVALID_ARGUMENT, "2 inputs, expected 1: \"x\"");
    REFUSED(udo_session_run(all, too_many, 0, &to_make, 1), UDO_ERROR_INVALID_ARGUMENT, "0 inputs, expected 1");
    REFUSED(udo_session_run(all, too_many, 1, &to_make, 0), UDO_ERROR_INVALID_ARGUMENT, "0 outputs, expected 1");
    REFUSED(udo_session_run(all, no_tensor, 1, &to_make, 1), UDO_ERROR_INVALID_ARGUMENT, "inputs[0]");
    udo_tensor_release(two_rows);
    /* On the host as well. */
    float y[8];
    const int64_t two[2] = {2, 2}, three[2] = {3, 2}, four[2] = {4, 2};
    udo_host_output_t to = {y, sizeof y, 0};
    const udo_host_input_t of_two = {x, 16, two, 2}, of_three = {x, 24, three, 2}, of_four = {x, 32, four, 2}, of_none = {x, 16, NULL, 0};
    DONE(udo_session_run_host(all, &of_two, 1, &to, 1));
    CHECK(to.size_bytes == 16 && y[3] == 8);
    DONE(udo_session_output_spec(all, 0, &spec));
    DONE(udo_tensor_spec_dims(spec, dims, 2));
    CHECK(dims[0] == 2);
    udo_tensor_spec_release(spec);
    DONE(udo_session_run_host(all, &of_four, 1, &to, 1));
    CHECK(to.size_bytes == 32 && y[7] == 16);
    REFUSED(udo_session_run_host(all, &of_three, 1, &to, 1), UDO_ERROR_SHAPE_MISMATCH, "no stage of network");
    REFUSED(udo_session_run_host(all, &of_none, 1, &to, 1), UDO_ERROR_DYNAMIC_SHAPE, "has no dims");
    /* A stage alone knows its shape, and takes no other. */
    REFUSED(udo_session_run_host(second, &of_two, 1, &to, 1), UDO_ERROR_SHAPE_MISMATCH, "input 0");
    const udo_host_input_t whole = {x, 32, NULL, 0};
    DONE(udo_session_run_host(second, &whole, 1, &to, 1));
    CHECK(to.size_bytes == 32 && y[0] == 2);
    udo_session_release(all);
    udo_session_release(second);
    udo_network_release(network);
}

static void tell_encodings(const udo_networks_t *networks) {
    udo_network_t *network = NULL;
    udo_model_t *model = NULL;
    udo_tensor_spec_t *spec = NULL;
    udo_encoding_t encoding = {0, 0};
    size_t count = 0;
    int32_t axis = 0;
    DONE(udo_networks_find(networks, "coded", &network));
    DONE(udo_network_model(network, 0, &model));
    DONE(udo_model_output_spec(model, 0, &spec));
    DONE(udo_tensor_spec_encoding_count(spec, &count));
    DONE(udo_tensor_spec_encoding_axis(spec, &axis));
    DONE(udo_tensor_spec_encoding(spec, 0, &encoding));
    CHECK(count == 1 && axis == -1 && encoding.scale == 0.25f && encoding.zero_point == 7);
    REFUSED(udo_tensor_spec_encoding(spec, 1, &encoding), UDO_ERROR_INVALID_ARGUMENT, "no encoding 1");
    udo_tensor_spec_release(spec);
    udo_model_release(model);
    udo_network_release(network);
    /* Of an axis. */
    const int64_t dims[2] = {2, 3};
    const float scales[3] = {1, 2, 4};
    const int32_t zeros[3] = {0, 1, 2};
    DONE(udo_tensor_spec_create(UDO_DTYPE_I8, dims, 2, &spec));
    DONE(udo_tensor_spec_encoding_count(spec, &count));
    CHECK(count == 0);
    DONE(udo_tensor_spec_set_quantization(spec, scales, zeros, 3, 1));
    DONE(udo_tensor_spec_encoding_count(spec, &count));
    DONE(udo_tensor_spec_encoding_axis(spec, &axis));
    DONE(udo_tensor_spec_encoding(spec, 2, &encoding));
    CHECK(count == 3 && axis == 1 && encoding.scale == 4 && encoding.zero_point == 2);
    udo_tensor_spec_release(spec);
}

/* Five operations, of which a GPU does not take the fourth, and a DSP none without encodings. */
static udo_graph_t *five(void) {
    const int64_t dims[2] = {2, 2};
    const char *const ops[5] = {"RELU", "ABS", "EXP", "ASSERT", "RELU"};
    const bool is_so = true;
    udo_graph_t *graph = NULL;
    udo_tensor_spec_t *spec = NULL, *truth = NULL;
    uint32_t x = 0, from = 0, to = 0, claim = 0, number = 0;
    DONE(udo_graph_create("five", &graph));
    DONE(udo_tensor_spec_create(UDO_DTYPE_F32, dims, 2, &spec));
    DONE(udo_tensor_spec_create(UDO_DTYPE_BOOL, NULL, 0, &truth));
    DONE(udo_graph_add_tensor(graph, spec, "x", &x));
    DONE(udo_graph_add_tensor(graph, truth, "truth", &claim));
    DONE(udo_graph_set_data(graph, claim, &is_so, 1));
    from = x;
    for (int i = 0; i < 5; i++, from = to) {
        const uint32_t claims[2] = {claim, from};
        DONE(udo_graph_add_tensor(graph, spec, NULL, &to));
        DONE(udo_graph_add_op(graph, NULL, ops[i], i == 3 ? claims : &from, i == 3 ? 2 : 1, &to, 1, NULL, 0, &number));
    }
    DONE(udo_graph_set_io(graph, &x, 1, &from, 1));
    DONE(udo_graph_finish(graph));
    udo_tensor_spec_release(truth);
    udo_tensor_spec_release(spec);
    return graph;
}

static float run_five(const udo_model_t *model) {
    const float x[4] = {1, -2, 3, 0};
    float y[4];
    const udo_host_input_t from = {x, sizeof x, NULL, 0};
    udo_host_output_t to = {y, sizeof y, 0};
    udo_session_t *session = NULL;
    DONE(udo_session_create(model, NULL, &session));
    DONE(udo_session_run_host(session, &from, 1, &to, 1));
    udo_session_release(session);
    CHECK(y[1] == 1);
    return y[0];
}

/* N10: what a device lacks is refused by name; with fallback it runs elsewhere, and that is told. */
static void fall_back(const char *lacking, udo_device_kind_t kind) {
    udo_graph_t *graph = five();
    udo_device_t *of = NULL;
    udo_support_t *support = NULL;
    udo_model_t *model = NULL;
    udo_load_options_t options = on(lacking);
    size_t operations = 0, lacks = 0, ops = 0, fallbacks = 0;
    DONE(udo_device_open(runtime, kind, 0, &of));
    DONE(udo_graph_query_support(graph, runtime, of, &support));
    DONE(udo_support_count(support, &operations));
    CHECK(operations == 5);
    for (size_t i = 0; i < operations; i++) {
        const char *reason = NULL;
        DONE(udo_support_reason(support, i, &reason));
        if (reason == NULL) continue;
        lacks++;
        CHECK(kind == UDO_DEVICE_DSP || (i == 3 && strstr(reason, "Assert: ") == reason));
    }
    CHECK(kind == UDO_DEVICE_DSP ? lacks > 1 : lacks == 1);
    REFUSED(udo_model_compile(runtime, graph, &options, &model), UDO_ERROR_UNSUPPORTED, lacking);
    if (kind == UDO_DEVICE_GPU) REFUSED(udo_model_compile(runtime, graph, &options, &model), UDO_ERROR_UNSUPPORTED, "ASSERT_3");
    options.fallback = UDO_FALLBACK_CPU;
    /* N12: the same graph, and models that have nothing to do with each other. */
    DONE(udo_model_compile(runtime, graph, &options, &model));
    udo_load_options_t alone = on("cpu");
    udo_model_t *other = NULL;
    DONE(udo_model_compile(runtime, graph, &alone, &other));
    CHECK(run_five(model) == run_five(other));
    DONE(udo_model_op_count(model, &ops));
    DONE(udo_model_fallback_count(model, &fallbacks));
    CHECK(ops >= 5 && fallbacks >= lacks);
    for (size_t i = 0; i < fallbacks; i++) {
        udo_fallback_report_t report;
        memset(&report, 0, sizeof report);
        DONE(udo_model_fallback(model, i, &report));
        CHECK(strncmp(report.selected, lacking, 3) == 0 && strncmp(report.failed, lacking, 3) == 0 && strcmp(report.target, "cpu") == 0);
        CHECK(report.name[0] != 0 && report.op[0] != 0 && report.reason[0] != 0);
    }
    DONE(udo_model_fallback_count(other, &fallbacks));
    CHECK(fallbacks == 0);
    udo_fallback_report_t none;
    REFUSED(udo_model_fallback(other, 0, &none), UDO_ERROR_INVALID_ARGUMENT, "no fallback 0");
    const char *said = NULL;
    DONE(udo_model_json(model, &said));
    CHECK(strstr(said, "\"fallback\": \"cpu\"") != NULL && strstr(said, "\"target\": \"cpu\"") != NULL);
    CHECK(strstr(said, kind == UDO_DEVICE_DSP ? "\"selected\": \"dsp" : "\"selected\": \"gpu\"") != NULL);
    /* What runs on the GPU comes from the host, and goes back there. */
    CHECK((strstr(said, "\"to\": \"gpu\"") != NULL) == (kind == UDO_DEVICE_GPU) && (strstr(said, "\"from\": \"gpu\"") != NULL) == (kind == UDO_DEVICE_GPU));
    udo_model_release(model);
    DONE(udo_model_op_count(other, &ops));
    udo_op_report_t op;
    memset(&op, 0, sizeof op);
    DONE(udo_model_op(other, 0, &op));
    CHECK(strcmp(op.core, "cpu") == 0 && op.name[0] != 0 && op.work <= UDO_WORK_CONTROL);
    REFUSED(udo_model_op(other, ops, &op), UDO_ERROR_INVALID_ARGUMENT, "no operation");
    size_t memories = 0;
    udo_plan_memory_t memory;
    memset(&memory, 0, sizeof memory);
    DONE(udo_model_memory_count(other, &memories));
    DONE(udo_model_memory(other, 0, &memory));
    CHECK(memories >= 1 && strcmp(memory.memory, "host") == 0 && memory.arena_bytes >= 16);
    const char *json = NULL;
    DONE(udo_model_json(other, &json));
    CHECK(json[0] == '{' && strstr(json, "\"arena_bytes\"") != NULL && strstr(json, "\"threads\": 1") != NULL);
    CHECK(strstr(json, "\"fallback\": null") != NULL && strstr(json, "\"fallbacks\": []") != NULL && strstr(json, "\"exchanges\": []") != NULL);
    udo_model_release(other);
    udo_support_release(support);
    udo_device_release(of);
    udo_graph_release(graph);
}

/* N11: what a device has not is refused, and named; no mode and full precision are fine everywhere. */
static void ask_for_modes(void) {
    const char *const cores[4] = {"cpu", "gpu", "dsp", "hta"};
    for (int i = 0; i < 4; i++) {
        udo_load_options_t options = on(cores[i]);
        DONE(udo_load_options_check(&options));
        for (udo_performance_t mode = UDO_PERFORMANCE_LOW; mode <= UDO_PERFORMANCE_EXTREME; mode++) {
            options.performance = mode;
            if (i == 0) DONE(udo_load_options_check(&options));
            else REFUSED(udo_load_options_check(&options), UDO_ERROR_UNSUPPORTED, "has no performance modes");
        }
        options = on(cores[i]);
        options.precision = UDO_PRECISION_HALF;
        if (i == 1) DONE(udo_load_options_check(&options));
        else REFUSED(udo_load_options_check(&options), UDO_ERROR_UNSUPPORTED, "has no half precision");
        options = on(cores[i]);
        for (udo_priority_t priority = UDO_PRIORITY_NONE; priority <= UDO_PRIORITY_HIGH; priority++) {
            options.priority = priority;
            DONE(udo_load_options_check(&options));
        }
    }
    udo_load_options_t options = on(NULL);
    options.performance = 5;
    REFUSED(udo_load_options_check(&options), UDO_ERROR_INVALID_ARGUMENT, "performance is 5");
    options = on("dsp,toaster");
    REFUSED(udo_load_options_check(&options), UDO_ERROR_INVALID_ARGUMENT, "\"toaster\"");
    options = on(NULL);
    options.reserved = 1;
    REFUSED(udo_load_options_check(&options), UDO_ERROR_UNSUPPORTED, "options.reserved");
    DONE(udo_load_options_check(NULL));
}

/* Modes and extensions have an effect, which the model tells. */
static void see_effects(void) {
    udo_graph_t *graph = five();
    const char *json = NULL;
    udo_model_t *model = NULL, *half = NULL;
    udo_extension_t extensions[3] = {{"threads", "3"}, {"spin_us", "7"}, {"max_memory", "100000000"}};
    udo_load_options_t options = on("cpu");
    options.priority = UDO_PRIORITY_HIGH;
    options.extensions = extensions;
    options.extension_count = 3;
    DONE(udo_model_compile(runtime, graph, &options, &model));
    DONE(udo_model_json(model, &json));
    CHECK(strstr(json, "\"threads\": 3") != NULL && strstr(json, "\"priority\": \"high\"") != NULL);
    udo_model_release(model);
    extensions[2].name = "speed";
    REFUSED(udo_model_compile(runtime, graph, &options, &model), UDO_ERROR_UNSUPPORTED, "expected one of device_limits, fast_math, gpu_storage, max_memory");
    extensions[2].name = "max_memory";
    extensions[2].value = "1";
    REFUSED(udo_model_compile(runtime, graph, &options, &model), UDO_ERROR_OUT_OF_MEMORY, "");
    extensions[2].value = NULL;
    REFUSED(udo_model_compile(runtime, graph, &options, &model), UDO_ERROR_INVALID_ARGUMENT, "options.extensions[2].value");
    options = on("cpu");
    options.performance = UDO_PERFORMANCE_LOW;
    DONE(udo_model_compile(runtime, graph, &options, &model));
    DONE(udo_model_json(model, &json));
    CHECK(strstr(json, "\"threads\": 1") != NULL);
    udo_model_release(model);
    /* Half the memory on the GPU. */
    udo_load_options_t full = on("gpu");
    full.fallback = UDO_FALLBACK_CPU;
    options = full;
    options.precision = UDO_PRECISION_HALF;
    DONE(udo_model_compile(runtime, graph, &full, &model));
    DONE(udo_model_compile(runtime, graph, &options, &half));
    run_five(half);
    const char *other = NULL;
    DONE(udo_model_json(model, &json));
    DONE(udo_model_json(half, &other));
    CHECK(strstr(json, "f16[") == NULL && strstr(other, "f16[") != NULL);
    udo_model_release(model);
    udo_model_release(half);
    udo_graph_release(graph);
}

/* Where text is in a file. */
static unsigned char *find(unsigned char *bytes, size_t size, const char *text) {
    const size_t len = strlen(text);
    for (size_t i = 0; i + len <= size; i++)
        if (memcmp(bytes + i, text, len) == 0) return bytes + i;
    CHECK(!"the text is there");
    return NULL;
}

/* B04: whatever is wrong with a file has an error of its own, and nothing is there of it. */
static void refuse_damaged(unsigned char *bytes, size_t size) {
    udo_networks_t *none = NULL;
    unsigned char *copy = (unsigned char *)malloc(size);
    CHECK(copy != NULL);
    REFUSED(udo_networks_open_bytes(runtime, bytes, size - 1, NULL, &none), UDO_ERROR_INVALID_FILE, "is truncated");
    REFUSED(udo_networks_open_bytes(runtime, bytes, 7, NULL, &none), UDO_ERROR_INVALID_FILE, "an unknown format");
    REFUSED(udo_networks_open_bytes(runtime, bytes, 0, NULL, &none), UDO_ERROR_INVALID_FILE, "an unknown format");
    memcpy(copy, bytes, size);
    find(copy, size, "\"data_offsets\":[9,10]")[18] = '9';
    REFUSED(udo_networks_open_bytes(runtime, copy, size, NULL, &none), UDO_ERROR_INVALID_FILE, "ends at byte 90");
    memcpy(copy, bytes, size);
    find(copy, size, "\"udo.version\":\"1\"")[15] = '9';
    REFUSED(udo_networks_open_bytes(runtime, copy, size, NULL, &none), UDO_ERROR_INVALID_FILE, "a newer udo wrote it");
    CHECK(none == NULL);
    free(copy);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    udo_networks_t *networks = NULL, *same = NULL;
    size_t count = 0;
    DONE(udo_runtime_create(NULL, &runtime));
    DONE(udo_device_open(runtime, UDO_DEVICE_CPU, 0, &device));
    DONE(udo_networks_open_file(runtime, argv[1], NULL, &networks));
    /* B01: by bytes they are the same. */
    FILE *file = fopen(argv[1], "rb");
    CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
    const size_t size = (size_t)ftell(file);
    unsigned char *bytes = (unsigned char *)malloc(size);
    rewind(file);
    CHECK(bytes != NULL && fread(bytes, 1, size, file) == size);
    fclose(file);
    DONE(udo_networks_open_bytes(runtime, bytes, size, NULL, &same));
    DONE(udo_networks_count(networks, &count));
    CHECK(count == 3);
    for (size_t i = 0; i < count; i++) {
        udo_network_t *a = NULL, *b = NULL;
        const char *of_a = NULL, *of_b = NULL;
        DONE(udo_networks_at(networks, i, &a));
        DONE(udo_networks_at(same, i, &b));
        DONE(udo_network_text(a, &of_a));
        DONE(udo_network_text(b, &of_b));
        CHECK(strcmp(of_a, of_b) == 0);
        udo_network_release(a);
        udo_network_release(b);
    }
    refuse_damaged(bytes, size);
    udo_networks_release(same);
    free(bytes);
    udo_network_t *nobody = NULL;
    REFUSED(udo_networks_find(networks, "nobody", &nobody), UDO_ERROR_INVALID_ARGUMENT, "expected one of \"stages\", \"range\", \"coded\"");
    take_stages(networks);
    tell_encodings(networks);
    fall_back("gpu", UDO_DEVICE_GPU);
    fall_back("dsp", UDO_DEVICE_DSP);
    ask_for_modes();
    see_effects();
    udo_networks_release(networks);
    udo_device_release(device);
    udo_runtime_release(runtime);
    return 0;
}
