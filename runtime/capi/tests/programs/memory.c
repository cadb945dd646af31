/* Devices, memory, mappings, descriptions and shared memory: B15, N21, N22; models that are refused: B04. It is C and C++.
 *
 * Arguments: a model as ONNX. */
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static void devices(const udo_runtime_t *runtime) {
    size_t count = 0;
    uint32_t index = 9;
    udo_device_kind_t kind = 0;
    udo_device_t *device = NULL;
    const char *name = NULL;
    DONE(udo_runtime_device_count(runtime, &count));
    CHECK(count == 4);
    DONE(udo_runtime_device(runtime, 2, &device));
    DONE(udo_device_kind(device, &kind));
    DONE(udo_device_index(device, &index));
    DONE(udo_device_name(device, &name));
    CHECK(kind == UDO_DEVICE_DSP && index == 0 && strstr(name, "dsp") != NULL);
    udo_device_release(device);
    device = NULL;
    REFUSED(udo_runtime_device(runtime, 4, &device), UDO_ERROR_INVALID_ARGUMENT, "no device 4");
    REFUSED(udo_device_open(runtime, UDO_DEVICE_DSP, 7, &device), UDO_ERROR_DEVICE_UNAVAILABLE, "dsp:7");
    CHECK(device == NULL);
}

/* B15: ranges end where the memory does, and offsets are the device's. */
static void ranges(const udo_device_t *device) {
    udo_memory_t *memory = NULL, *view = NULL;
    unsigned char bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8}, read[8] = {0};
    uint64_t size = 0;
    DONE(udo_memory_alloc(device, 100, NULL, &memory));
    DONE(udo_memory_fill(memory, 0));
    DONE(udo_memory_write(memory, 92, bytes, 8));
    REFUSED(udo_memory_write(memory, 93, bytes, 8), UDO_ERROR_INVALID_ARGUMENT, "93..101");
    REFUSED(udo_memory_write(memory, UINT64_MAX, bytes, 8), UDO_ERROR_INVALID_ARGUMENT, "expected a range");
    DONE(udo_memory_read(memory, 92, read, 8));
    CHECK(memcmp(bytes, read, 8) == 0);
    REFUSED(udo_memory_read(memory, 93, read, 8), UDO_ERROR_INVALID_ARGUMENT, "93..101");
    CHECK(memcmp(bytes, read, 8) == 0);

    DONE(udo_memory_view(memory, 90, 10, &view));
    DONE(udo_memory_size(view, &size));
    CHECK(size == 10);
    DONE(udo_memory_copy(view, 0, view, 2, 8));
    udo_memory_release(memory);
    DONE(udo_memory_read(view, 0, read, 8));
    CHECK(memcmp(bytes, read, 8) == 0);
    udo_memory_release(view);

    /* Options that are shorter, longer or odd. */
    struct {
        udo_alloc_options_t known;
        uint64_t more;
    } options;
    memset(&options, 0, sizeof options);
    options.known.size = sizeof options;
    options.known.contents = UDO_CONTENTS_ZEROS;
    DONE(udo_memory_alloc(device, 8, &options.known, &memory));
    DONE(udo_memory_read(memory, 0, read, 8));
    for (int i = 0; i < 8; i++) CHECK(read[i] == 0);
    udo_memory_release(memory);
    memory = NULL;
    options.more = 1;
    REFUSED(udo_memory_alloc(device, 8, &options.known, &memory), UDO_ERROR_UNSUPPORTED, "options.size");
    /* The rest is not looked at. */
    options.known.size = sizeof(size_t);
    options.known.contents = 99;
    DONE(udo_memory_alloc(device, 8, &options.known, &memory));
    udo_memory_release(memory);
    memory = NULL;
    options.known.size = 3;
    REFUSED(udo_memory_alloc(device, 8, &options.known, &memory), UDO_ERROR_INVALID_ARGUMENT, "options.size is 3");
    REFUSED(udo_memory_alloc(device, UINT64_MAX, NULL, &memory), UDO_ERROR_OUT_OF_MEMORY, "program");
    CHECK(memory == NULL);
}

static void maps(const udo_device_t *device) {
    udo_memory_t *memory = NULL;
    udo_map_t *map = NULL;
    void *data = NULL;
    unsigned char read[4] = {0};
    DONE(udo_memory_alloc(device, 64, NULL, &memory));
    DONE(udo_memory_fill(memory, 5));
    DONE(udo_memory_map(memory, 8, 4, UDO_MAP_WRITE, UDO_CACHE_MAINTENANCE_BY_MAP, &map));
    DONE(udo_map_data(map, &data));
    CHECK(((unsigned char *)data)[3] == 5);
    memset(data, 6, 4);
    DONE(udo_map_flush(map, 0, 4));
    REFUSED(udo_map_flush(map, 0, 5), UDO_ERROR_INVALID_ARGUMENT, "0..5");
    REFUSED(udo_memory_read(memory, 8, read, 4), UDO_ERROR_BUSY, "memory");
    udo_map_release(map);
    DONE(udo_memory_read(memory, 8, read, 4));
    CHECK(read[0] == 6 && read[3] == 6);
    // In former names.
    const udo_map_upkeep_t by_program = UDO_UPKEEP_BY_PROGRAM;
    DONE(udo_memory_map(memory, 8, 4, UDO_MAP_READ, by_program, &map));
    DONE(udo_map_invalidate(map, 0, 4));
    REFUSED(udo_map_flush(map, 0, 4), UDO_ERROR_INVALID_STATE, "UDO_MAP_WRITE");
    udo_map_release(map);
    DONE(udo_memory_flush(memory, 0, 64));
    DONE(udo_memory_invalidate(memory, 0, 64));
    REFUSED(udo_memory_flush(memory, 0, 65), UDO_ERROR_INVALID_ARGUMENT, "0..65");
    udo_memory_release(memory);
}

/* N21: what open dimensions, scalars and shapes that are too large come to. */
static void specs(void) {
    const int64_t open[2] = {-1, 2}, large[3] = {INT64_MAX, 3, 3}, below[1] = {-2};
    const int64_t five[2] = {5, 2};
    uint64_t n = 77;
    udo_tensor_spec_t *spec = NULL;
    DONE(udo_tensor_spec_create(UDO_DTYPE_F32, open, 2, &spec));
    REFUSED(udo_tensor_spec_elements(spec, &n), UDO_ERROR_DYNAMIC_SHAPE, "dimension 0");
    REFUSED(udo_tensor_spec_byte_size(spec, &n), UDO_ERROR_DYNAMIC_SHAPE, "dimension 0");
    REFUSED(udo_tensor_spec_storage_size(spec, &n), UDO_ERROR_DYNAMIC_SHAPE, "dimension 0");
    CHECK(n == 77);
    udo_tensor_spec_release(spec);
    DONE(udo_tensor_spec_create(UDO_DTYPE_F64, NULL, 0, &spec));
    DONE(udo_tensor_spec_elements(spec, &n));
    CHECK(n == 1);
    udo_tensor_spec_release(spec);
    spec = NULL;
    REFUSED(udo_tensor_spec_create(UDO_DTYPE_F32, large, 3, &spec), UDO_ERROR_INVALID_ARGUMENT, "tensor");
    REFUSED(udo_tensor_spec_create(UDO_DTYPE_F32, below, 1, &spec), UDO_ERROR_INVALID_ARGUMENT, "-2");
    REFUSED(udo_tensor_spec_create(UDO_DTYPE_F32, NULL, 2, &spec), UDO_ERROR_INVALID_ARGUMENT, "dims is NULL");
    CHECK(spec == NULL);

    const float scales[2] = {0.5f, 0.25f};
    const int32_t zeros[2] = {3, 4};
    DONE(udo_tensor_spec_create(UDO_DTYPE_U8, five, 2, &spec));
    DONE(udo_tensor_spec_set_packing(spec, UDO_PACKING_4N));
    DONE(udo_tensor_spec_set_quantization(spec, scales, zeros, 2, 1));
    DONE(udo_tensor_spec_set_quantization(spec, scales, zeros, 1, -1));
    REFUSED(udo_tensor_spec_set_quantization(spec, scales, zeros, 2, -1), UDO_ERROR_INVALID_ARGUMENT, "axis is -1");
    REFUSED(udo_tensor_spec_set_quantization(spec, scales, zeros, 2, 0), UDO_ERROR_INVALID_ARGUMENT, "axis 0");
    REFUSED(udo_tensor_spec_set_packing(spec, UDO_PACKING_2N), UDO_ERROR_INVALID_ARGUMENT, "2n");
    REFUSED(udo_tensor_spec_set_layout(spec, UDO_LAYOUT_NHWC), UDO_ERROR_INVALID_ARGUMENT, "expected 4");
    DONE(udo_tensor_spec_byte_size(spec, &n));
    CHECK(n == 10);
    DONE(udo_tensor_spec_storage_size(spec, &n));
    CHECK(n == 16);
    udo_tensor_spec_release(spec);
}

/* N22: one file as the memory of two tensors. */
static void shared(const udo_device_t *device) {
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const int64_t dims[1] = {(int64_t)page}, more[1] = {(int64_t)page + 1};
    udo_alloc_options_t options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.sharing = UDO_SHARING_EXPORTABLE;
    options.owner = "shared";
    udo_memory_t *ours = NULL, *theirs = NULL, *view = NULL;
    udo_tensor_t *a = NULL, *b = NULL;
    udo_tensor_spec_t *spec = NULL, *larger = NULL;
    int32_t fd = -1;
    DONE(udo_memory_alloc(device, 2 * page, &options, &ours));
    DONE(udo_memory_export_fd(ours, &fd));
    CHECK(fd >= 0);
    DONE(udo_memory_import_fd(device, fd, 2 * page, page, &theirs));
    REFUSED(udo_memory_import_fd(device, -1, page, 0, &view), UDO_ERROR_INVALID_ARGUMENT, "-1");
    REFUSED(udo_memory_import_fd(device, fd, 0, 0, &view), UDO_ERROR_INVALID_ARGUMENT, "0 bytes");
    REFUSED(udo_memory_import_fd(device, fd, page, page, &view), UDO_ERROR_INVALID_ARGUMENT, "below the size");
    CHECK(view == NULL && close(fd) == 0);
    DONE(udo_memory_view(ours, page, page, &view));
    fd = -7;
    REFUSED(udo_memory_export_fd(view, &fd), UDO_ERROR_INVALID_ARGUMENT, "a part");
    CHECK(fd == -7);

    DONE(udo_tensor_spec_create(UDO_DTYPE_U8, dims, 1, &spec));
    DONE(udo_tensor_spec_create(UDO_DTYPE_U8, more, 1, &larger));
    REFUSED(udo_tensor_create_from_memory(larger, theirs, &a), UDO_ERROR_INVALID_ARGUMENT, "more memory");
    CHECK(a == NULL);
    DONE(udo_tensor_create_from_memory(spec, theirs, &a));
    DONE(udo_tensor_create_from_memory(spec, view, &b));
    unsigned char *written = (unsigned char *)malloc(page), *read = (unsigned char *)malloc(page);
    CHECK(written != NULL && read != NULL);
    for (uint64_t i = 0; i < page; i++) written[i] = (unsigned char)(i * 7);
    DONE(udo_tensor_write(a, written, page));
    udo_tensor_release(a);
    udo_memory_release(theirs);
    udo_memory_release(ours);
    udo_memory_release(view);
    DONE(udo_tensor_read(b, read, page));
    CHECK(memcmp(written, read, page) == 0);
    DONE(udo_tensor_memory(b, &view));
    udo_tensor_release(b);
    DONE(udo_memory_read(view, 0, read, 1));
    udo_memory_release(view);
    udo_tensor_spec_release(spec);
    udo_tensor_spec_release(larger);
    free(written);
    free(read);
}

/* B04: models that are refused, each with an error of its own. */
static void bad_models(const udo_runtime_t *runtime, const char *path) {
    udo_model_t *model = NULL;
    static const char nothing[] = "no model at all", line[] = "graph \"g\"\n  input x: f32[2]\n  ??\n";
    REFUSED(udo_model_load_file(runtime, "no/such/file.onnx", NULL, &model), UDO_ERROR_INVALID_PATH, "file.onnx");
    REFUSED(udo_model_load_bytes(runtime, nothing, sizeof nothing, NULL, &model), UDO_ERROR_INVALID_FILE, "format");
    REFUSED(udo_model_load_bytes(runtime, line, sizeof line - 1, NULL, &model), UDO_ERROR_INVALID_FILE, "line 3");
    static const char unknown[] = "graph \"g\"\n  input x: f32[2]\n  y = NoSuch@1(x)\n  output y\n";
    REFUSED(udo_model_load_bytes(runtime, unknown, sizeof unknown - 1, NULL, &model), UDO_ERROR_UNSUPPORTED, "NoSuch");
    static unsigned char bytes[1 << 16];
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    size_t len = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    REFUSED(udo_model_load_bytes(runtime, bytes, len - 1, NULL, &model), UDO_ERROR_INVALID_FILE, "truncated");
    udo_load_options_t options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.cores = "cpu,npu";
    REFUSED(udo_model_load_file(runtime, path, &options, &model), UDO_ERROR_INVALID_ARGUMENT, "\"npu\"");
    options.cores = "\xff";
    REFUSED(udo_model_load_file(runtime, path, &options, &model), UDO_ERROR_INVALID_ARGUMENT, "UTF-8");
    CHECK(model == NULL);
}

/* A run over memory that may be exported copies nothing before it was, or where the program promises to be alone with it. */
static void share_in_place(const udo_device_t *device, const udo_runtime_t *runtime) {
    static const char text[] = "graph \"g\"\n  input x: f32[4,4]\n  y = Neg@13(x)\n  output y\n";
    const int64_t dims[2] = {4, 4};
    const udo_sharing_t ways[3] = {UDO_SHARING_PRIVATE, UDO_SHARING_EXPORTABLE, UDO_SHARING_EXCLUSIVE};
    float elements[16], found[16];
    udo_model_t *model = NULL;
    udo_session_t *session = NULL;
    udo_tensor_spec_t *spec = NULL;
    for (int i = 0; i < 16; i++) elements[i] = (float)i;
    DONE(udo_model_load_bytes(runtime, text, sizeof text - 1, NULL, &model));
    DONE(udo_session_create(model, NULL, &session));
    DONE(udo_tensor_spec_create(UDO_DTYPE_F32, dims, 2, &spec));
    /* Neither exported nor imported; exported; and imported of what was exported. */
    for (int way = 0; way < 3; way++)
        for (int step = 0; step < (way == 0 ? 1 : 3); step++) {
            udo_memory_t *memories[2] = {NULL, NULL}, *imported[2] = {NULL, NULL};
            udo_tensor_t *x[2] = {NULL, NULL};
            for (int i = 0; i < 2; i++) {
                udo_alloc_options_t options;
                memset(&options, 0, sizeof options);
                options.size = sizeof options;
                options.sharing = ways[way];
                DONE(udo_memory_alloc(device, sizeof elements, &options, &memories[i]));
                int32_t fd = -1;
                if (step > 0) DONE(udo_memory_export_fd(memories[i], &fd));
                if (step > 1) DONE(udo_memory_import_fd_as(device, (int32_t)fd, sizeof elements, 0, ways[way], &imported[i]));
                if (fd >= 0) close(fd);
                DONE(udo_tensor_create_from_memory(spec, step > 1 ? imported[i] : memories[i], &x[i]));
            }
            DONE(udo_memory_write(memories[0], 0, elements, sizeof elements));
            const udo_tensor_t *inputs[1] = {x[0]};
            udo_tensor_t *outputs[1] = {x[1]};
            udo_run_t *run = NULL;
            udo_copies_t copies;
            DONE(udo_session_submit(session, inputs, 1, outputs, 1, NULL, &run));
            DONE(udo_run_wait(run));
            DONE(udo_run_copies(run, &copies));
            const size_t wanted = ways[way] == UDO_SHARING_EXPORTABLE && step > 0 ? 1 : 0;
            CHECK(copies.inputs == wanted && copies.outputs == wanted && copies.bytes == 2 * wanted * sizeof elements);
            DONE(udo_memory_read(memories[1], 0, found, sizeof found));
            for (int i = 0; i < 16; i++) CHECK(found[i] == -elements[i]);
            udo_run_release(run);
            for (int i = 0; i < 2; i++) {
                udo_tensor_release(x[i]);
                udo_memory_release(imported[i]);
                udo_memory_release(memories[i]);
            }
        }
    udo_tensor_spec_release(spec);
    udo_session_release(session);
    udo_model_release(model);
}

/* Counts that nothing has are refused before anything is read or made. */
static void refuse_counts(const udo_model_t *model, const udo_session_t *session, const udo_tensor_t *tensor) {
    const size_t much = 0xffffffffu;
    const udo_device_spec_t device = {"cpu", 0xffffffffu, 1, 0, 0};
    const char *text[1] = {"x"};
    const uint32_t core[1] = {0};
    const int64_t dims[2] = {2, 2};
    const udo_tensor_t *inputs[1] = {tensor};
    udo_tensor_t *outputs[1] = {NULL};
    udo_runtime_t *none = NULL;
    udo_session_t *no_session = NULL;
    udo_tensor_spec_t *no_spec = NULL;
    udo_run_t *no_run = NULL;
    udo_model_t *no_model = NULL;
    udo_runtime_options_t options = default_runtime_options();
    options.devices = &device;
    options.device_count = 1;
    REFUSED(udo_runtime_create(&options, &none), UDO_ERROR_INVALID_ARGUMENT, "too many");
    options.device_count = much;
    REFUSED(udo_runtime_create(&options, &none), UDO_ERROR_INVALID_ARGUMENT, "options.devices");
    options = default_runtime_options();
    options.packages = text;
    options.package_count = much;
    REFUSED(udo_runtime_create(&options, &none), UDO_ERROR_INVALID_ARGUMENT, "options.packages");
    options = default_runtime_options();
    options.size = much / 8 * 8;
    REFUSED(udo_runtime_create(&options, &none), UDO_ERROR_INVALID_ARGUMENT, "options.size");
    udo_session_options_t of_session;
    memset(&of_session, 0, sizeof of_session);
    of_session.size = sizeof of_session;
    of_session.frames = 0xffffffffu;
    REFUSED(udo_session_create(model, &of_session, &no_session), UDO_ERROR_INVALID_ARGUMENT, "in flight");
    of_session.frames = 0;
    of_session.cores = core;
    of_session.core_count = much;
    REFUSED(udo_session_create(model, &of_session, &no_session), UDO_ERROR_INVALID_ARGUMENT, "options.cores");
    REFUSED(udo_tensor_spec_create(UDO_DTYPE_F32, dims, much, &no_spec), UDO_ERROR_INVALID_ARGUMENT, "dims");
    REFUSED(udo_session_submit(session, inputs, much, outputs, 1, NULL, &no_run), UDO_ERROR_INVALID_ARGUMENT, "expected 1");
    REFUSED(udo_session_run(session, inputs, 1, outputs, much), UDO_ERROR_INVALID_ARGUMENT, "expected 1");
    udo_runtime_t *runtime = NULL;
    DONE(udo_runtime_create(NULL, &runtime));
    udo_load_options_t of_model;
    memset(&of_model, 0, sizeof of_model);
    of_model.size = sizeof of_model;
    const udo_named_dim_t dim = {"n", 1, 2};
    of_model.dims = &dim;
    of_model.dim_count = much;
    REFUSED(udo_model_load_bytes(runtime, "x", 1, &of_model, &no_model), UDO_ERROR_INVALID_ARGUMENT, "options.dims");
    CHECK(none == NULL && no_session == NULL && no_spec == NULL && no_run == NULL && no_model == NULL);
    udo_runtime_release(runtime);
}

/* A process with one thread, that is in no call, is copied whole by a fork: the other one goes on with all that there was. */
static void fork_alone(const udo_runtime_t *runtime) {
    static const char text[] = "graph \"g\"\n  input x: f32[2,2]\n  y = Neg@13(x)\n  output y\n";
    const float x[4] = {1, 2, 3, 4};
    float y[4] = {0};
    udo_model_t *model = NULL;
    udo_session_t *session = NULL;
    DONE(udo_model_load_bytes(runtime, text, sizeof text - 1, NULL, &model));
    DONE(udo_session_create(model, NULL, &session));
    const pid_t child = fork();
    CHECK(child >= 0);
    const udo_host_input_t input = {x, sizeof x, NULL, 0};
    udo_host_output_t output = {y, sizeof y, 0};
    DONE(udo_session_run_host(session, &input, 1, &output, 1));
    for (int i = 0; i < 4; i++) CHECK(y[i] == -x[i]);
    if (child == 0) _exit(0);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    udo_session_release(session);
    udo_model_release(model);
}

static void with_counts(const udo_runtime_t *runtime) {
    static const char text[] = "graph \"g\"\n  input x: f32[2,2]\n  y = Neg@13(x)\n  output y\n";
    const int64_t dims[2] = {2, 2};
    udo_device_t *cpu = NULL;
    udo_model_t *model = NULL;
    udo_session_t *session = NULL;
    udo_tensor_spec_t *spec = NULL;
    udo_tensor_t *tensor = NULL;
    DONE(udo_device_open(runtime, UDO_DEVICE_CPU, 0, &cpu));
    DONE(udo_model_load_bytes(runtime, text, sizeof text - 1, NULL, &model));
    DONE(udo_session_create(model, NULL, &session));
    DONE(udo_tensor_spec_create(UDO_DTYPE_F32, dims, 2, &spec));
    DONE(udo_tensor_create(cpu, spec, &tensor));
    refuse_counts(model, session, tensor);
    share_in_place(cpu, runtime);
    udo_tensor_release(tensor);
    udo_tensor_spec_release(spec);
    udo_session_release(session);
    udo_model_release(model);
    udo_device_release(cpu);
}

int main(int argc, char **argv) {
    CHECK(argc == 2 && strcmp(udo_version(), UDO_VERSION) == 0);
    CHECK(UDO_VERSION_NUMBER == UDO_VERSION_OF(UDO_VERSION_MAJOR, UDO_VERSION_MINOR, UDO_VERSION_PATCH));
    CHECK(UDO_VERSION_OF(1, 2, 3) > UDO_VERSION_OF(1, 1, 999) && UDO_VERSION_OF(2, 0, 0) > UDO_VERSION_OF(1, 999, 999));
    CHECK(udo_error_code(NULL) == UDO_ERROR_NONE && udo_error_code_nnrt(NULL) == 0);
    CHECK(strcmp(udo_error_message(NULL), "") == 0);
    udo_runtime_t *runtime = NULL, *none = NULL;
    udo_device_t *device = NULL;
    DONE(udo_runtime_create(NULL, &runtime));
    fork_alone(runtime);
    const char *packages[1] = {"no/such/package"};
    udo_runtime_options_t options = default_runtime_options();
    options.packages = packages;
    options.package_count = 1;
    REFUSED(udo_runtime_create(&options, &none), UDO_ERROR_INVALID_PATH, "no/such/package");
    packages[0] = NULL;
    REFUSED(udo_runtime_create(&options, &none), UDO_ERROR_INVALID_ARGUMENT, "options.packages[0] is NULL");
    options.packages = NULL;
    REFUSED(udo_runtime_create(&options, &none), UDO_ERROR_INVALID_ARGUMENT, "options.packages is NULL");
    CHECK(none == NULL);
    devices(runtime);
    DONE(udo_device_open(runtime, UDO_DEVICE_DSP, 0, &device));
    udo_error_t *error = udo_memory_fill(NULL, 0);
    CHECK(udo_error_code_nnrt(error) == 2);
    udo_error_release(error);
    ranges(device);
    maps(device);
    specs();
    shared(device);
    bad_models(runtime, argv[1]);
    with_counts(runtime);
    udo_memory_stats_t stats;
    DONE(udo_device_memory_stats(device, &stats));
    CHECK(stats.current_bytes == 0 && stats.imported_bytes == 0 && stats.memories == 0);
    udo_device_release(device);
    udo_runtime_release(runtime);
    return 0;
}
