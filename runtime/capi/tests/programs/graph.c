/* Builds graphs by calls, compiles and runs them: N01, N06, N08, N10, N12. It is C and C++. */
#include "check.h"

static udo_tensor_spec_t *floats(const int64_t *dims, size_t rank) {
    udo_tensor_spec_t *spec = NULL;
    DONE(udo_tensor_spec_create(UDO_DTYPE_F32, dims, rank, &spec));
    return spec;
}

static uint32_t tensor(udo_graph_t *graph, const udo_tensor_spec_t *spec, const char *name) {
    uint32_t id = 77;
    DONE(udo_graph_add_tensor(graph, spec, name, &id));
    return id;
}

static void op(udo_graph_t *graph, const char *name, uint32_t a, uint32_t b, uint32_t to) {
    const uint32_t inputs[2] = {a, b};
    uint32_t number = 77;
    DONE(udo_graph_add_op(graph, NULL, name, inputs, b == UDO_LEFT_OUT ? 1 : 2, &to, 1, NULL, 0, &number));
    CHECK(number < 77);
}

static void run(const udo_model_t *model, const float *wanted) {
    const float a[4] = {1, -2, 3, 0.5f}, b[4] = {1, 1, -4, 0.5f};
    udo_session_t *session = NULL;
    DONE(udo_session_create(model, NULL, &session));
    float y[4] = {9, 9, 9, 9};
    udo_host_input_t inputs[2] = {{a, sizeof a, NULL, 0}, {b, sizeof b, NULL, 0}};
    udo_host_output_t output = {y, sizeof y, 0};
    DONE(udo_session_run_host(session, inputs, 2, &output, 1));
    for (int i = 0; i < 4; i++) CHECK(y[i] == wanted[i]);
    udo_session_release(session);
}

/* N01 and N12: the sum of two inputs without what is below 0, on the CPU and the DSP, of one graph. */
static void run_add_relu(const udo_runtime_t *runtime) {
    const int64_t four[1] = {4};
    const float wanted[4] = {2, 0, 0, 1};
    udo_tensor_spec_t *spec = floats(four, 1);
    udo_graph_t *graph = NULL;
    DONE(udo_graph_create("add_relu", &graph));
    uint32_t a = tensor(graph, spec, "a"), b = tensor(graph, spec, "b");
    uint32_t sum = tensor(graph, spec, NULL), y = tensor(graph, spec, "y");
    udo_tensor_spec_release(spec);
    op(graph, "ADD", a, b, sum);
    op(graph, "RELU", sum, UDO_LEFT_OUT, y);
    const uint32_t inputs[2] = {a, b};
    DONE(udo_graph_set_io(graph, inputs, 2, &y, 1));
    udo_model_t *models[2] = {NULL, NULL};
    REFUSED(udo_model_compile(runtime, graph, NULL, &models[0]), UDO_ERROR_INVALID_STATE, "not finished");
    DONE(udo_graph_finish(graph));
    udo_load_options_t options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.cores = "teapot";
    REFUSED(udo_model_compile(runtime, graph, &options, &models[0]), UDO_ERROR_INVALID_ARGUMENT, "teapot");
    CHECK(models[0] == NULL);
    options.cores = "dsp";
    options.fallback = UDO_FALLBACK_CPU;
    DONE(udo_model_compile(runtime, graph, NULL, &models[0]));
    DONE(udo_model_compile(runtime, graph, &options, &models[1]));
    udo_graph_release(graph);
    for (int i = 0; i < 2; i++) {
        run(models[i], wanted);
        udo_model_release(models[i]);
    }
}

/* N06: what is refused leaves the graph as it was. */
static void refuse_operations(udo_graph_t *graph, uint32_t a, uint32_t y) {
    const uint32_t nowhere = 99, both[2] = {a, a};
    uint32_t number = 77;
    udo_attribute_t attribute;
    memset(&attribute, 0, sizeof attribute);
    attribute.name = "activation";
    attribute.kind = UDO_ATTRIBUTE_INT;
    attribute.int_value = 3;
    const uint32_t bad = UDO_ERROR_INVALID_ARGUMENT;
    REFUSED(udo_graph_add_op(graph, NULL, "RELU", &nowhere, 1, &y, 1, NULL, 0, &number), bad, "no tensor 99");
    REFUSED(udo_graph_add_op(graph, NULL, "RELU", &y, 1, &y, 1, NULL, 0, &number), bad, "an input of the same");
    REFUSED(udo_graph_add_op(graph, NULL, "RELU", both, 2, &y, 1, NULL, 0, &number), bad, "2 inputs, expected 1");
    REFUSED(udo_graph_add_op(graph, NULL, "RELUU", &a, 1, &y, 1, NULL, 0, &number), bad, "\"RELUU\"");
    REFUSED(udo_graph_add_nnrt_op(graph, 109, &a, 1, &y, 1, NULL, 0, &number), bad, "no operation 109");
    REFUSED(udo_graph_add_op(graph, NULL, "RELU", &a, 1, &y, 1, &attribute, 1, &number), bad, "no attribute");
    REFUSED(udo_graph_add_op(graph, NULL, "ADD", both, 2, &y, 1, &attribute, 1, &number), bad, "is 3, expected 0 none");
    attribute.kind = 9;
    REFUSED(udo_graph_add_op(graph, NULL, "ADD", both, 2, &y, 1, &attribute, 1, &number), bad, "attribute is 9");
    attribute.kind = UDO_ATTRIBUTE_TEXT;
    REFUSED(udo_graph_add_op(graph, NULL, "ADD", both, 2, &y, 1, &attribute, 1, &number), bad, "attributes[0].text");
    attribute.kind = UDO_ATTRIBUTE_INTS;
    attribute.count = 1;
    REFUSED(udo_graph_add_op(graph, NULL, "ADD", both, 2, &y, 1, &attribute, 1, &number), bad, "attributes[0].ints");
    CHECK(number == 77);
}

/* N08: what goes with an open graph alone, and once. */
static void refuse_states(void) {
    const int64_t four[1] = {4};
    const float data[4] = {1, 2, 3, 4};
    const uint32_t state = UDO_ERROR_INVALID_STATE;
    udo_tensor_spec_t *spec = floats(four, 1);
    udo_graph_t *graph = NULL;
    uint32_t number = 77;
    DONE(udo_graph_create(NULL, &graph));
    REFUSED(udo_graph_finish(graph), state, "no tensors");
    uint32_t a = tensor(graph, spec, "a"), c = tensor(graph, spec, "c"), y = tensor(graph, spec, "y");
    REFUSED(udo_graph_add_tensor(graph, spec, "a", &number), UDO_ERROR_ALREADY_EXISTS, "\"a\"");
    DONE(udo_graph_set_data(graph, c, data, sizeof data));
    REFUSED(udo_graph_set_data(graph, c, data, sizeof data), state, "already");
    REFUSED(udo_graph_finish(graph), state, "no operations");
    refuse_operations(graph, a, y);
    op(graph, "ADD", a, c, y);
    REFUSED(udo_graph_finish(graph), state, "no inputs and outputs");
    DONE(udo_graph_set_io(graph, &a, 1, &y, 1));
    REFUSED(udo_graph_set_io(graph, &a, 1, &y, 1), state, "once");
    DONE(udo_graph_finish(graph));
    REFUSED(udo_graph_finish(graph), state, "is finished");
    REFUSED(udo_graph_add_tensor(graph, spec, NULL, &number), state, "is finished");
    REFUSED(udo_graph_set_data(graph, a, data, sizeof data), state, "is finished");
    REFUSED(udo_graph_add_nnrt_op(graph, 1, &a, 1, &y, 1, NULL, 0, &number), state, "is finished");
    REFUSED(udo_graph_set_io(graph, &a, 1, &y, 1), state, "is finished");
    CHECK(number == 77);
    udo_tensor_spec_release(spec);
    udo_graph_release(graph);
}

/* N10: which operation a device lacks, and why. Assert runs on the CPU alone. */
static void query_support(const udo_runtime_t *runtime) {
    const int64_t four[1] = {4};
    udo_tensor_spec_t *spec = floats(four, 1), *truth = NULL;
    DONE(udo_tensor_spec_create(UDO_DTYPE_BOOL, NULL, 0, &truth));
    udo_graph_t *graph = NULL;
    DONE(udo_graph_create("support", &graph));
    uint32_t x = tensor(graph, spec, "x"), z = tensor(graph, spec, "z"), y = tensor(graph, spec, "y");
    uint32_t t = tensor(graph, truth, "t");
    op(graph, "RELU", x, UDO_LEFT_OUT, z);
    op(graph, "ASSERT", t, z, y);
    const uint32_t inputs[2] = {x, t};
    DONE(udo_graph_set_io(graph, inputs, 2, &y, 1));
    udo_device_t *devices[2] = {NULL, NULL};
    udo_support_t *support = NULL;
    DONE(udo_device_open(runtime, UDO_DEVICE_CPU, 0, &devices[0]));
    DONE(udo_device_open(runtime, UDO_DEVICE_GPU, 0, &devices[1]));
    REFUSED(udo_graph_query_support(graph, runtime, devices[0], &support), UDO_ERROR_INVALID_STATE, "not finished");
    DONE(udo_graph_finish(graph));
    for (int i = 0; i < 2; i++) {
        const char *relu = "", *assertion = "", *none = "none";
        size_t count = 0;
        DONE(udo_graph_query_support(graph, runtime, devices[i], &support));
        DONE(udo_support_count(support, &count));
        DONE(udo_support_reason(support, 0, &relu));
        DONE(udo_support_reason(support, 1, &assertion));
        REFUSED(udo_support_reason(support, 2, &none), UDO_ERROR_INVALID_ARGUMENT, "no operation 2");
        CHECK(count == 2 && relu == NULL && strcmp(none, "none") == 0);
        CHECK(i == 0 ? assertion == NULL : strstr(assertion, "Assert") != NULL);
        udo_support_release(support);
        udo_device_release(devices[i]);
    }
    udo_load_options_t options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.cores = "gpu";
    udo_model_t *model = NULL;
    REFUSED(udo_model_compile(runtime, graph, &options, &model), UDO_ERROR_UNSUPPORTED, "ASSERT_1");
    options.fallback = UDO_FALLBACK_CPU;
    DONE(udo_model_compile(runtime, graph, &options, &model));
    udo_model_release(model);
    udo_tensor_spec_release(truth);
    udo_tensor_spec_release(spec);
    udo_graph_release(graph);
}

/* Attributes of each kind, an operator of our own, and numbers that stand for others. */
static void run_attributes(const udo_runtime_t *runtime) {
    const int64_t flat[2] = {1, 4}, wide[2] = {2, 4};
    const int64_t shape[2] = {2, -1};
    const float scale = 0.5f;
    const int32_t zero = 0;
    udo_tensor_spec_t *spec = floats(flat, 2), *of_y = floats(wide, 2), *bytes = NULL;
    DONE(udo_tensor_spec_create(UDO_DTYPE_I8, flat, 2, &bytes));
    udo_graph_t *graph = NULL;
    DONE(udo_graph_create("attributes", &graph));
    uint32_t x = tensor(graph, spec, "x"), q = tensor(graph, bytes, "q"), c = tensor(graph, spec, "c");
    uint32_t y = tensor(graph, of_y, "y"), number = 0;
    DONE(udo_graph_set_quantization(graph, q, &scale, &zero, 1, -1));
    const udo_attribute_t elu = {"alpha", UDO_ATTRIBUTE_FLOAT, 0, 0, 1, NULL, NULL, NULL};
    const udo_attribute_t clip = {"max", UDO_ATTRIBUTE_INT, 0, 2, 0, NULL, NULL, NULL};
    const udo_attribute_t to = {"shape", UDO_ATTRIBUTE_INTS, 2, 0, 0, NULL, shape, NULL};
    DONE(udo_graph_add_op(graph, "", "Elu", &x, 1, &q, 1, &elu, 1, &number));
    DONE(udo_graph_add_op(graph, NULL, "CLIP", &q, 1, &c, 1, &clip, 1, &number));
    DONE(udo_graph_add_nnrt_op(graph, 69, &c, 1, &y, 1, &to, 1, &number));
    CHECK(number == 2);
    DONE(udo_graph_set_io(graph, &x, 1, &y, 1));
    DONE(udo_graph_finish(graph));
    udo_model_t *model = NULL;
    udo_session_t *session = NULL;
    DONE(udo_model_compile(runtime, graph, NULL, &model));
    DONE(udo_session_create(model, NULL, &session));
    const float data[4] = {1.3f, 9, 0, 1};
    const float wanted[8] = {1.5f, 2, 0, 1, 1.5f, 2, 0, 1};
    float made[8];
    udo_host_input_t input = {data, sizeof data, NULL, 0};
    udo_host_output_t output = {made, sizeof made, 0};
    DONE(udo_session_run_host(session, &input, 1, &output, 1));
    for (int i = 0; i < 8; i++) CHECK(made[i] == wanted[i]);
    udo_session_release(session);
    udo_model_release(model);
    udo_graph_release(graph);
    udo_tensor_spec_release(spec);
    udo_tensor_spec_release(of_y);
    udo_tensor_spec_release(bytes);
}

int main(void) {
    udo_runtime_t *runtime = NULL;
    DONE(udo_runtime_create(NULL, &runtime));
    run_add_relu(runtime);
    refuse_states();
    query_support(runtime);
    run_attributes(runtime);
    udo_runtime_release(runtime);
    return 0;
}
