/* Runs a model with one stage by file and by bytes, over host memory and tensors: B01, B13, N23. It is C and C++.
 *
 * Arguments: a model of s = x + y and p = s * y, all f32[2,3], and one of s = Relu(x) of f32[n,2]. */
#include "check.h"

static const float X[6] = {1, -2, 3, -4, 5, -6};
static const float Y[6] = {10, 20, 30, 40, 50, 60};

static void check_results(const float *s, const float *p) {
    for (int i = 0; i < 6; i++) {
        CHECK(s[i] == X[i] + Y[i]);
        CHECK(p[i] == (X[i] + Y[i]) * Y[i]);
    }
}

static void *read_file(const char *path, size_t *len) {
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
    *len = (size_t)ftell(file);
    rewind(file);
    void *bytes = malloc(*len);
    CHECK(bytes != NULL && fread(bytes, 1, *len, file) == *len);
    fclose(file);
    return bytes;
}

static void check_ports(const udo_model_t *model) {
    size_t count = 0;
    const char *name = NULL;
    DONE(udo_model_input_count(model, &count));
    CHECK(count == 2);
    DONE(udo_model_output_count(model, &count));
    CHECK(count == 2);
    DONE(udo_model_input_name(model, 1, &name));
    CHECK(strcmp(name, "y") == 0);
    DONE(udo_model_output_name(model, 0, &name));
    CHECK(strcmp(name, "s") == 0);
    REFUSED(udo_model_input_name(model, 2, &name), UDO_ERROR_INVALID_ARGUMENT, "no input 2");
    CHECK(strcmp(name, "s") == 0);

    udo_tensor_spec_t *spec = NULL;
    udo_dtype_t dtype = 0;
    size_t rank = 0;
    int64_t dims[2] = {0, 0};
    uint64_t bytes = 0;
    DONE(udo_model_output_spec(model, 1, &spec));
    DONE(udo_tensor_spec_dtype(spec, &dtype));
    DONE(udo_tensor_spec_rank(spec, &rank));
    DONE(udo_tensor_spec_dims(spec, dims, 2));
    DONE(udo_tensor_spec_byte_size(spec, &bytes));
    CHECK(dtype == UDO_DTYPE_F32 && rank == 2 && dims[0] == 2 && dims[1] == 3 && bytes == 24);
    REFUSED(udo_tensor_spec_dims(spec, dims, 1), UDO_ERROR_INVALID_ARGUMENT, "room for 1");
    udo_tensor_spec_release(spec);
}

static udo_tensor_t *tensor(const udo_device_t *device, const int64_t *dims, const float *elements) {
    udo_tensor_spec_t *spec = NULL;
    udo_tensor_t *made = NULL;
    DONE(udo_tensor_spec_create(UDO_DTYPE_F32, dims, 2, &spec));
    DONE(udo_tensor_create(device, spec, &made));
    udo_tensor_spec_release(spec);
    DONE(udo_tensor_write(made, elements, (size_t)(dims[0] * dims[1]) * sizeof(float)));
    return made;
}

static void run_host(const udo_session_t *session) {
    float s[6], p[6];
    udo_host_input_t inputs[2] = {{X, sizeof X, NULL, 0}, {Y, sizeof Y, NULL, 0}};
    udo_host_output_t outputs[2] = {{s, sizeof s, 0}, {p, sizeof p, 0}};
    DONE(udo_session_run_host(session, inputs, 2, outputs, 2));
    CHECK(outputs[0].size_bytes == sizeof s && outputs[1].size_bytes == sizeof p);
    check_results(s, p);

    outputs[1].capacity_bytes = 23;
    s[0] = 7;
    REFUSED(udo_session_run_host(session, inputs, 2, outputs, 2), UDO_ERROR_OUT_OF_MEMORY, "outputs[1]");
    CHECK(s[0] == 7);
    inputs[1].size_bytes = 20;
    REFUSED(udo_session_run_host(session, inputs, 2, outputs, 2), UDO_ERROR_INVALID_ARGUMENT, "inputs[1]");
    REFUSED(udo_session_run_host(session, inputs, 1, outputs, 2), UDO_ERROR_INVALID_ARGUMENT, "1 inputs");
    inputs[1].size_bytes = sizeof Y;
    inputs[1].data = NULL;
    REFUSED(udo_session_run_host(session, inputs, 2, outputs, 2), UDO_ERROR_INVALID_ARGUMENT, "inputs[1], \"y\": data is NULL");
    inputs[1].data = Y;
    outputs[1].capacity_bytes = sizeof p;
    outputs[1].data = NULL;
    REFUSED(udo_session_run_host(session, inputs, 2, outputs, 2), UDO_ERROR_INVALID_ARGUMENT, "outputs[1].data is NULL");
    CHECK(s[0] == 7);
}

static void run_tensors(const udo_device_t *device, const udo_session_t *session) {
    const int64_t dims[2] = {2, 3};
    udo_tensor_t *x = tensor(device, dims, X), *y = tensor(device, dims, Y);
    const udo_tensor_t *inputs[2] = {x, y};
    /* The run makes one output; the other one is there. */
    udo_tensor_t *outputs[2] = {NULL, tensor(device, dims, X)}, *given = outputs[1];
    DONE(udo_session_run(session, inputs, 2, outputs, 2));
    CHECK(outputs[0] != NULL && outputs[1] == given);
    float s[6], p[6];
    DONE(udo_tensor_read(outputs[0], s, sizeof s));
    DONE(udo_tensor_read(outputs[1], p, sizeof p));
    check_results(s, p);
    REFUSED(udo_tensor_read(outputs[0], s, sizeof s - 1), UDO_ERROR_INVALID_ARGUMENT, "23 bytes");

    /* What is wrong is said by its place, and the session stays usable. */
    udo_tensor_t *aliased[2] = {NULL, y};
    REFUSED(udo_session_run(session, inputs, 2, aliased, 2), UDO_ERROR_INVALID_ARGUMENT, "output 1");
    CHECK(aliased[0] == NULL);
    const udo_tensor_t *missing[2] = {x, NULL};
    REFUSED(udo_session_run(session, missing, 2, outputs, 2), UDO_ERROR_INVALID_ARGUMENT, "inputs[1] is NULL");
    REFUSED(udo_session_run(session, inputs, 1, outputs, 2), UDO_ERROR_INVALID_ARGUMENT, "1 inputs, expected 2");
    REFUSED(udo_session_run(session, NULL, 0, outputs, 2), UDO_ERROR_INVALID_ARGUMENT, "0 inputs");
    udo_tensor_spec_t *spec = NULL;
    udo_tensor_t *wrong = NULL;
    DONE(udo_tensor_spec_create(UDO_DTYPE_I32, dims, 2, &spec));
    DONE(udo_tensor_create(device, spec, &wrong));
    udo_tensor_spec_release(spec);
    const udo_tensor_t *mistyped[2] = {x, wrong};
    REFUSED(udo_session_run(session, mistyped, 2, outputs, 2), UDO_ERROR_SHAPE_MISMATCH, "input 1");
    udo_tensor_t *mistyped_output[2] = {wrong, NULL};
    REFUSED(udo_session_run(session, inputs, 2, mistyped_output, 2), UDO_ERROR_INVALID_ARGUMENT, "output 0");
    CHECK(mistyped_output[1] == NULL);
    DONE(udo_session_run(session, inputs, 2, outputs, 2));

    udo_tensor_release(wrong);
    udo_tensor_release(outputs[0]);
    udo_tensor_release(outputs[1]);
    udo_tensor_release(x);
    udo_tensor_release(y);
}

/* What falls back is told of models that each run is planned for as well: by their sessions. */
static void fall_back_open(const udo_runtime_t *runtime, const udo_device_t *device, const char *path) {
    udo_load_options_t options;
    udo_model_t *model = NULL;
    udo_session_t *session = NULL;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.cores = "dsp,gpu";
    options.fallback = UDO_FALLBACK_CPU;
    DONE(udo_model_load_file(runtime, path, &options, &model));
    DONE(udo_session_create(model, NULL, &session));
    const int64_t dims[2] = {3, 2};
    udo_tensor_t *x = tensor(device, dims, X), *out = NULL;
    const udo_tensor_t *inputs[1] = {x};
    const char *json = NULL;
    size_t count = 7;
    DONE(udo_session_run(session, inputs, 1, &out, 1));
    DONE(udo_model_fallback_count(model, &count));
    CHECK(count == 0);
    DONE(udo_session_json(session, &json));
    const char *first = strstr(json, "\"dsp"), *second = strstr(json, "\"gpu\"");
    CHECK(first != NULL && second != NULL && first < second);
    CHECK(strstr(json, "\"selected\": \"dsp") != NULL && strstr(json, "\"failed\": \"dsp") != NULL && strstr(json, "\"target\": \"gpu\"") != NULL);
    CHECK(strstr(json, "\"reason\": \"") != NULL && strstr(json, "\"to\": \"gpu\"") != NULL);
    udo_tensor_release(out);
    udo_tensor_release(x);
    udo_session_release(session);
    udo_model_release(model);
}

/* A model of open dimensions: shapes come with the inputs. */
static void run_open(const udo_runtime_t *runtime, const udo_device_t *device, const char *path) {
    udo_model_t *model = NULL;
    udo_session_t *session = NULL;
    udo_tensor_spec_t *spec = NULL;
    DONE(udo_model_load_file(runtime, path, NULL, &model));
    DONE(udo_session_create(model, NULL, &session));
    REFUSED(udo_model_output_spec(model, 0, &spec), UDO_ERROR_DYNAMIC_SHAPE, "output 0");
    REFUSED(udo_session_output_spec(session, 0, &spec), UDO_ERROR_INVALID_STATE, "no shape yet");
    const char *json = NULL;
    DONE(udo_model_json(model, &json));
    CHECK(strstr(json, "\"nodes\": []") != NULL);
    REFUSED(udo_session_json(session, &json), UDO_ERROR_INVALID_STATE, "leaves shapes open");
    udo_model_release(model);

    int64_t dims[2] = {3, 2};
    udo_tensor_t *x = tensor(device, dims, X), *out = NULL;
    const udo_tensor_t *inputs[1] = {x};
    DONE(udo_session_run(session, inputs, 1, &out, 1));
    DONE(udo_session_json(session, &json));
    CHECK(strstr(json, "\"type\": \"f32[3,2]\"") != NULL && strstr(json, "\"op\": \"Relu\"") != NULL);
    CHECK(strstr(json, "\"memory\": \"host\"") != NULL && strstr(json, "\"threads\": 1") != NULL);
    udo_host_input_t input = {X, 16, dims, 2};
    float s[6];
    udo_host_output_t output = {s, sizeof s, 0};
    REFUSED(udo_session_run_host(session, &input, 1, &output, 1), UDO_ERROR_INVALID_ARGUMENT, "16 bytes");
    dims[0] = 2;
    DONE(udo_session_run_host(session, &input, 1, &output, 1));
    CHECK(output.size_bytes == 16 && s[0] == 1 && s[1] == 0 && s[2] == 3 && s[3] == 0);
    DONE(udo_session_json(session, &json));
    CHECK(strstr(json, "f32[2,2]") != NULL && strstr(json, "f32[3,2]") == NULL);
    /* A submitted run has a frame of its own, and is the last one all the same. */
    udo_run_t *run = NULL;
    DONE(udo_session_submit(session, inputs, 1, &out, 1, NULL, &run));
    DONE(udo_run_wait(run));
    udo_run_release(run);
    DONE(udo_session_json(session, &json));
    CHECK(strstr(json, "f32[3,2]") != NULL && strstr(json, "f32[2,2]") == NULL);
    DONE(udo_session_output_spec(session, 0, &spec));
    DONE(udo_tensor_spec_dims(spec, dims, 2));
    CHECK(dims[0] == 2 && dims[1] == 2);
    udo_tensor_spec_release(spec);
    dims[0] = -1;
    REFUSED(udo_session_run_host(session, &input, 1, &output, 1), UDO_ERROR_INVALID_ARGUMENT, "dimension 0");
    input.dims = NULL;
    REFUSED(udo_session_run_host(session, &input, 1, &output, 1), UDO_ERROR_DYNAMIC_SHAPE, "inputs[0]");

    /* An output that was there takes the shape of the next result, if its memory has room. */
    DONE(udo_tensor_spec(out, &spec));
    DONE(udo_tensor_spec_dims(spec, dims, 2));
    CHECK(dims[0] == 3);
    udo_tensor_spec_release(spec);
    const int64_t fewer[2] = {1, 2};
    udo_tensor_t *small = tensor(device, fewer, X);
    inputs[0] = small;
    DONE(udo_session_run(session, inputs, 1, &out, 1));
    DONE(udo_tensor_read(out, s, 8));
    CHECK(s[0] == 1 && s[1] == 0);
    inputs[0] = x;
    REFUSED(udo_session_run(session, inputs, 1, &small, 1), UDO_ERROR_OUT_OF_MEMORY, "output 0");
    udo_tensor_release(small);
    udo_tensor_release(out);

    /* A tensor of open dimensions is given its shape before it is an input. */
    const int64_t open[2] = {-1, 2}, two[2] = {2, 2}, four[2] = {4, 2}, wider[2] = {1, 3};
    udo_tensor_t *sized = NULL;
    out = NULL;
    DONE(udo_tensor_spec_create(UDO_DTYPE_F32, open, 2, &spec));
    REFUSED(udo_tensor_create(device, spec, &sized), UDO_ERROR_DYNAMIC_SHAPE, "dimension 0");
    DONE(udo_tensor_create_sized(device, spec, 24, &sized));
    udo_tensor_spec_release(spec);
    inputs[0] = sized;
    REFUSED(udo_session_run(session, inputs, 1, &out, 1), UDO_ERROR_DYNAMIC_SHAPE, "dimension 0");
    REFUSED(udo_tensor_reshape(sized, four, 2), UDO_ERROR_OUT_OF_MEMORY, "32 bytes");
    REFUSED(udo_tensor_reshape(sized, wider, 2), UDO_ERROR_SHAPE_MISMATCH, "dimension 1");
    REFUSED(udo_tensor_reshape(sized, open, 2), UDO_ERROR_INVALID_ARGUMENT, "dimension 0");
    DONE(udo_tensor_reshape(sized, two, 2));
    DONE(udo_tensor_write(sized, X, 16));
    DONE(udo_session_run(session, inputs, 1, &out, 1));
    DONE(udo_tensor_read(out, s, 16));
    CHECK(s[0] == 1 && s[1] == 0 && s[2] == 3 && s[3] == 0);
    udo_tensor_release(sized);
    udo_tensor_release(out);
    udo_tensor_release(x);
    udo_session_release(session);
}

/* One plan for all extents of a range. */
static void run_range(const udo_runtime_t *runtime, const udo_device_t *cpu, const char *path) {
    udo_named_dim_t dims[1] = {{"n", 1, 4}};
    udo_load_options_t options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.dims = dims;
    options.dim_count = 1;
    udo_model_t *model = NULL;
    DONE(udo_model_load_file(runtime, path, &options, &model));
    udo_tensor_spec_t *spec = NULL;
    udo_range_t range = {0, 0};
    DONE(udo_model_input_spec(model, 0, &spec));
    DONE(udo_tensor_spec_range(spec, 0, &range));
    CHECK(range.least == 1 && range.most == 4);
    DONE(udo_tensor_spec_range(spec, 1, &range));
    CHECK(range.least == 2 && range.most == 2);
    REFUSED(udo_tensor_spec_range(spec, 2, &range), UDO_ERROR_INVALID_ARGUMENT, "no dimension 2");
    udo_tensor_spec_release(spec);
    udo_session_t *session = NULL;
    DONE(udo_session_create(model, NULL, &session));
    for (int64_t n = 1; n <= 4; n++) {
        const float elements[8] = {1, -2, 3, -4, 5, -6, 7, -8};
        const int64_t shape[2] = {n, 2};
        udo_tensor_t *x = tensor(cpu, shape, elements), *out = NULL;
        const udo_tensor_t *inputs[1] = {x};
        DONE(udo_session_run(session, inputs, 1, &out, 1));
        float s[8];
        DONE(udo_tensor_read(out, s, (size_t)n * 8));
        for (int64_t i = 0; i < 2 * n; i++) CHECK(s[i] == (i % 2 ? 0 : elements[i]));
        udo_tensor_release(out);
        udo_tensor_release(x);
    }
    const int64_t five[2] = {5, 2};
    const float elements[10] = {0};
    udo_tensor_t *x = tensor(cpu, five, elements), *out = NULL;
    const udo_tensor_t *inputs[1] = {x};
    REFUSED(udo_session_run(session, inputs, 1, &out, 1), UDO_ERROR_SHAPE_MISMATCH, "n");
    CHECK(out == NULL);
    udo_tensor_release(x);
    udo_session_release(session);
    udo_model_release(model);
    dims[0].least = 9;
    REFUSED(udo_model_load_file(runtime, path, &options, &model), UDO_ERROR_INVALID_ARGUMENT, "from 9 to 4");
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    udo_runtime_t *runtime = NULL;
    udo_device_t *cpu = NULL;
    udo_model_t *models[2] = {NULL, NULL};
    DONE(udo_runtime_create(NULL, &runtime));
    DONE(udo_device_open(runtime, UDO_DEVICE_CPU, 0, &cpu));
    DONE(udo_model_load_file(runtime, argv[1], NULL, &models[0]));
    udo_load_options_t options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.threads = 2;
    options.cores = "cpu";
    size_t len = 0;
    void *bytes = read_file(argv[1], &len);
    DONE(udo_model_load_bytes(runtime, bytes, len, &options, &models[1]));
    free(bytes);
    for (int i = 0; i < 2; i++) {
        udo_session_t *session = NULL;
        check_ports(models[i]);
        DONE(udo_session_create(models[i], NULL, &session));
        /* What it was made of is no longer needed. */
        udo_model_release(models[i]);
        /* The session has memory; runs leave no more behind. */
        udo_memory_stats_t before, stats;
        DONE(udo_device_memory_stats(cpu, &before));
        CHECK(before.current_bytes > 0);
        run_host(session);
        DONE(udo_device_memory_stats(cpu, &stats));
        CHECK(stats.current_bytes == before.current_bytes);
        run_tensors(cpu, session);
        DONE(udo_device_memory_stats(cpu, &stats));
        CHECK(stats.current_bytes == before.current_bytes && stats.peak_bytes > before.current_bytes);
        udo_session_release(session);
        DONE(udo_device_memory_stats(cpu, &stats));
        CHECK(stats.current_bytes == 0);
    }
    run_open(runtime, cpu, argv[2]);
    fall_back_open(runtime, cpu, argv[2]);
    run_range(runtime, cpu, argv[2]);
    udo_device_release(cpu);
    udo_runtime_release(runtime);
    return 0;
}
