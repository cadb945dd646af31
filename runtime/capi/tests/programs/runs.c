/* Runs that are submitted: waited for, told of, ordered, cancelled, timed, recorded; and a device that goes away. */
#include "check.h"

/* Who waits for a run goes on after its callback, so these need no other order. */
static int calls;
static unsigned last_code;

static void count(void *user, const udo_error_t *error) {
    last_code = udo_error_code(error);
    *(int *)user += 1;
}

static udo_tensor_t *tensor(udo_device_t *device, float first) {
    const int64_t dims[2] = {2, 3};
    udo_tensor_spec_t *spec = NULL;
    udo_tensor_t *made = NULL;
    float elements[6];
    for (int i = 0; i < 6; i++) elements[i] = first + (float)i;
    DONE(udo_tensor_spec_create(UDO_DTYPE_F32, dims, 2, &spec));
    DONE(udo_tensor_create(device, spec, &made));
    DONE(udo_tensor_write(made, elements, sizeof elements));
    udo_tensor_spec_release(spec);
    return made;
}

static void holds(const udo_tensor_t *of, float first, float step) {
    float elements[6];
    DONE(udo_tensor_read(of, elements, sizeof elements));
    for (int i = 0; i < 6; i++) CHECK(elements[i] == first + step * (float)i);
}

/* B11: who submits goes on; who does not wait long enough is told so, and the run goes on, too. */
static void run_long(const udo_runtime_t *runtime, udo_device_t *device) {
    enum { EXTENT = 512, PRODUCTS = 24 };
    const int64_t dims[2] = {EXTENT, EXTENT};
    char text[2048];
    int length = snprintf(text, sizeof text, "graph \"long\"\n  input x0: f32[%d,%d]\n", EXTENT, EXTENT);
    for (int i = 0; i < PRODUCTS; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, "  x%d = MatMul@13(x%d, x0)\n", i + 1, i);
    length += snprintf(text + length, sizeof text - (size_t)length, "  output x%d\n", PRODUCTS);
    float *elements = (float *)malloc(sizeof *elements * EXTENT * EXTENT);
    udo_model_t *model = NULL;
    udo_session_t *session = NULL;
    udo_tensor_spec_t *spec = NULL;
    udo_tensor_t *x = NULL, *made[1] = {NULL}, *result = NULL;
    udo_run_t *run = NULL;
    bool is_done = true;
    CHECK(elements != NULL);
    for (int i = 0; i < EXTENT * EXTENT; i++) elements[i] = 1.0f / EXTENT;
    DONE(udo_model_load_bytes(runtime, text, (size_t)length, NULL, &model));
    DONE(udo_session_create(model, NULL, &session));
    DONE(udo_session_reserve(session));
    DONE(udo_tensor_spec_create(UDO_DTYPE_F32, dims, 2, &spec));
    DONE(udo_tensor_create(device, spec, &x));
    DONE(udo_tensor_write(x, elements, sizeof *elements * EXTENT * EXTENT));
    const udo_tensor_t *inputs[1] = {x};
    DONE(udo_session_submit(session, inputs, 1, made, 1, NULL, &run));
    REFUSED(udo_run_wait_timeout(run, 1), UDO_ERROR_TIMEOUT, "");
    DONE(udo_run_is_done(run, &is_done));
    CHECK(!is_done);
    REFUSED(udo_run_output(run, 0, &result), UDO_ERROR_BUSY, "in flight");
    DONE(udo_run_wait(run));
    DONE(udo_run_output(run, 0, &result));
    DONE(udo_tensor_read(result, elements, sizeof *elements * EXTENT * EXTENT));
    CHECK(elements[0] == 1.0f / EXTENT && elements[EXTENT * EXTENT - 1] == 1.0f / EXTENT);
    udo_tensor_release(result);
    udo_run_release(run);
    udo_tensor_release(x);
    udo_tensor_spec_release(spec);
    udo_session_release(session);
    udo_model_release(model);
    free(elements);
}

/* A run whose time was up hands nothing out, also where the program gave its outputs. */
static void fail_without_output(const udo_model_t *model, udo_device_t *cpu) {
    udo_session_t *session = NULL;
    udo_tensor_t *x = tensor(cpu, 1), *y = tensor(cpu, 2);
    const udo_tensor_t *inputs[2] = {x, y};
    const udo_run_options_t no_time = {sizeof no_time, 1, 0, NULL, NULL, NULL, NULL, 0};
    DONE(udo_session_create(model, NULL, &session));
    for (int given = 0; given < 2; given++) {
        udo_tensor_t *outputs[2] = {given ? tensor(cpu, 0) : NULL, given ? tensor(cpu, 0) : NULL}, *result = NULL;
        udo_launch_t *launch = NULL;
        udo_run_t *well = NULL, *late = NULL;
        DONE(udo_session_record(session, inputs, 2, outputs, 2, NULL, &launch));
        DONE(udo_launch_submit(launch, &well));
        DONE(udo_run_wait(well));
        DONE(udo_run_output(well, 0, &result));
        holds(result, 3, 2);
        udo_tensor_release(result);
        result = NULL;
        udo_launch_release(launch);
        /* One nanosecond is over before a run begins, or soon after. */
        unsigned code = UDO_ERROR_NONE;
        for (int i = 0; i < 1000 && code == UDO_ERROR_NONE; i++) {
            udo_run_release(late);
            late = NULL;
            DONE(udo_session_submit(session, inputs, 2, outputs, 2, &no_time, &late));
            udo_error_t *error = udo_run_wait(late);
            code = udo_error_code(error);
            udo_error_release(error);
        }
        CHECK(code == UDO_ERROR_TIMEOUT);
        for (size_t i = 0; i < 2; i++) REFUSED(udo_run_output(late, i, &result), UDO_ERROR_INVALID_STATE, "its time limit");
        CHECK(result == NULL);
        udo_run_release(late);
        udo_run_release(well);
        for (int i = 0; i < 2; i++) udo_tensor_release(outputs[i]);
    }
    udo_tensor_release(x);
    udo_tensor_release(y);
    udo_session_release(session);
}

typedef struct chain {
    const udo_session_t *session;
    const udo_tensor_t *inputs[2];
    int links;
    int is_over;
} chain_t;

static void submit_next(chain_t *chain);

static void go_on(void *user, const udo_error_t *error) {
    chain_t *chain = (chain_t *)user;
    CHECK(error == NULL);
    if (--chain->links > 0)
        submit_next(chain);
    else
        __atomic_store_n(&chain->is_over, 1, __ATOMIC_RELEASE);
}

static void submit_next(chain_t *chain) {
    const udo_run_options_t options = {sizeof options, 0, 0, NULL, go_on, chain, NULL, 0};
    udo_tensor_t *made[2] = {NULL, NULL};
    udo_run_t *run = NULL;
    DONE(udo_session_submit(chain->session, chain->inputs, 2, made, 2, &options, &run));
    udo_run_release(run);
}

/* A callback submits to the session of its run, while the program may still be in the submission of that. */
static void submit_in_callbacks(const udo_model_t *model, udo_device_t *cpu) {
    enum { CHAINS = 500, LINKS = 4 };
    udo_session_t *session = NULL;
    udo_tensor_t *x = tensor(cpu, 1), *y = tensor(cpu, 2);
    DONE(udo_session_create(model, NULL, &session));
    for (int i = 0; i < CHAINS; i++) {
        chain_t chain = {session, {x, y}, LINKS, 0}, other = {session, {y, x}, LINKS, 0};
        submit_next(&chain);
        submit_next(&other);
        while (!__atomic_load_n(&chain.is_over, __ATOMIC_ACQUIRE) || !__atomic_load_n(&other.is_over, __ATOMIC_ACQUIRE)) {
        }
    }
    udo_tensor_release(x);
    udo_tensor_release(y);
    udo_session_release(session);
}

/* Each device computes what its sessions run: its loss fails those, and that of another one of the kind does not. */
static void lose_one_of_two(const udo_runtime_t *runtime) {
    static const char text[] = "graph \"q\"\n  input x: u8[4,32]\n  constant s: f32[]{0.5}\n  constant z: u8[]{128}\n"
                               "  a = DequantizeLinear@13(x, s, z)\n  b = Relu@14(a)\n  y = QuantizeLinear@13(b, s, z)\n  output y\n";
    const int64_t dims[2] = {4, 32};
    udo_device_t *cpu = NULL, *dsp[2] = {NULL, NULL};
    udo_load_options_t options;
    udo_model_t *model = NULL;
    udo_tensor_spec_t *spec = NULL;
    udo_tensor_t *x = NULL;
    unsigned char bytes[128], found[128];
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.cores = "dsp";
    for (int i = 0; i < 128; i++) bytes[i] = (unsigned char)(64 + i);
    DONE(udo_device_open(runtime, UDO_DEVICE_CPU, 0, &cpu));
    for (uint32_t i = 0; i < 2; i++) DONE(udo_device_open(runtime, UDO_DEVICE_DSP, i, &dsp[i]));
    DONE(udo_model_load_bytes(runtime, text, sizeof text - 1, &options, &model));
    DONE(udo_tensor_spec_create(UDO_DTYPE_U8, dims, 2, &spec));
    DONE(udo_tensor_create(cpu, spec, &x));
    DONE(udo_tensor_write(x, bytes, sizeof bytes));
    const udo_tensor_t *inputs[1] = {x};
    for (int on = 0; on < 2; on++) {
        udo_session_t *session = NULL;
        const udo_session_options_t there = {sizeof there, dsp[on], 0, 0, NULL, NULL, 0};
        DONE(udo_session_create(model, &there, &session));
        for (int lost = 0; lost < 2; lost++) {
            udo_tensor_t *made[1] = {NULL}, *y = NULL;
            udo_run_t *run = NULL;
            DONE(udo_runtime_lose_device(runtime, dsp[lost]));
            if (lost == on) {
                REFUSED(udo_session_submit(session, inputs, 1, made, 1, NULL, &run), UDO_ERROR_DEVICE_LOST, on == 0 ? "dsp:0" : "dsp:1");
                REFUSED(udo_session_run(session, inputs, 1, made, 1), UDO_ERROR_DEVICE_LOST, on == 0 ? "dsp:0" : "dsp:1");
            } else {
                DONE(udo_session_submit(session, inputs, 1, made, 1, NULL, &run));
                DONE(udo_run_wait(run));
                DONE(udo_run_output(run, 0, &y));
                DONE(udo_tensor_read(y, found, sizeof found));
                for (int i = 0; i < 128; i++) CHECK(found[i] == (bytes[i] < 128 ? 128 : bytes[i]));
            }
            udo_tensor_release(y);
            udo_run_release(run);
            DONE(udo_runtime_reset_device(runtime, dsp[lost]));
        }
        udo_session_release(session);
    }
    udo_tensor_release(x);
    udo_tensor_spec_release(spec);
    udo_model_release(model);
    for (int i = 0; i < 2; i++) udo_device_release(dsp[i]);
    udo_device_release(cpu);
}

/* Runs that name their cores, which are strict lists; a core is waited for by its number. */
static void name_cores(const udo_runtime_t *runtime, const udo_model_t *model, udo_device_t *cpu) {
    const uint32_t second[1] = {1}, twice[2] = {0, 0}, far[1] = {64}, missing[1] = {2}, both[2] = {0, 1};
    udo_session_options_t asked = {sizeof asked, NULL, 1, 1, NULL, second, 1};
    udo_session_t *session = NULL, *none = NULL;
    uint32_t cores = 0;
    DONE(udo_device_core_count(cpu, &cores));
    CHECK(cores == 2);
    DONE(udo_session_create(model, &asked, &session));
    udo_tensor_t *x = tensor(cpu, 1), *y = tensor(cpu, 2), *made[2] = {NULL, NULL}, *sum = NULL;
    const udo_tensor_t *inputs[2] = {x, y};
    udo_run_options_t on_first = {sizeof on_first, 0, 0, NULL, NULL, NULL, twice, 1};
    udo_run_t *run = NULL, *other = NULL;
    DONE(udo_session_submit(session, inputs, 2, made, 2, NULL, &run));
    DONE(udo_session_submit(session, inputs, 2, made, 2, &on_first, &other));
    for (uint32_t core = 0; core < cores; core++) DONE(udo_device_sync_core(runtime, cpu, core));
    bool is_done = false, is_other_done = false;
    DONE(udo_run_is_done(run, &is_done));
    DONE(udo_run_is_done(other, &is_other_done));
    CHECK(is_done && is_other_done);
    DONE(udo_run_output(other, 0, &sum));
    holds(sum, 3, 2);
    udo_tensor_release(sum);
    udo_run_release(other);
    udo_run_release(run);
    run = NULL;
    on_first.core_count = 2;
    REFUSED(udo_session_submit(session, inputs, 2, made, 2, &on_first, &run), UDO_ERROR_INVALID_ARGUMENT, "core 0 twice");
    asked.cores = far;
    REFUSED(udo_session_create(model, &asked, &none), UDO_ERROR_INVALID_ARGUMENT, "core 64; devices have 64");
    asked.cores = missing;
    REFUSED(udo_session_create(model, &asked, &none), UDO_ERROR_INVALID_ARGUMENT, "core 2, and device cpu:0 has 2");
    asked.cores = both;
    asked.core_count = 2;
    REFUSED(udo_session_create(model, &asked, &none), UDO_ERROR_INVALID_ARGUMENT, "2 cores, and the model is compiled for 1 threads");
    asked.cores = NULL;
    REFUSED(udo_session_create(model, &asked, &none), UDO_ERROR_INVALID_ARGUMENT, "options.cores is NULL");
    REFUSED(udo_device_sync_core(runtime, cpu, 2), UDO_ERROR_INVALID_ARGUMENT, "core 2 does not exist");
    CHECK(run == NULL && none == NULL);
    udo_tensor_release(x);
    udo_tensor_release(y);
    udo_session_release(session);
}

/* B23: over tensors of the session's own, runs copy nothing. */
static void run_over_own(const udo_model_t *model) {
    const float first[6] = {1, 2, 3, 4, 5, 6};
    udo_session_t *session = NULL;
    udo_tensor_t *x = NULL, *y = NULL, *outputs[2] = {NULL, NULL}, *again = NULL, *none = NULL;
    udo_run_t *run = NULL;
    udo_copies_t copies;
    DONE(udo_session_create(model, NULL, &session));
    DONE(udo_session_io_input(session, 0, 0, &x));
    DONE(udo_session_io_input(session, 0, 1, &y));
    udo_memory_t *memory = NULL;
    udo_device_t *device = NULL;
    udo_device_kind_t kind = 0;
    DONE(udo_tensor_memory(x, &memory));
    DONE(udo_memory_device(memory, &device));
    DONE(udo_device_kind(device, &kind));
    CHECK(kind == UDO_DEVICE_CPU);
    udo_device_release(device);
    udo_memory_release(memory);
    for (size_t i = 0; i < 2; i++) DONE(udo_session_io_output(session, 0, i, &outputs[i]));
    DONE(udo_tensor_write(x, first, sizeof first));
    DONE(udo_tensor_write(y, first, sizeof first));
    const udo_tensor_t *inputs[2] = {x, y};
    DONE(udo_session_submit(session, inputs, 2, outputs, 2, NULL, &run));
    DONE(udo_run_wait(run));
    DONE(udo_run_copies(run, &copies));
    CHECK(copies.inputs == 0 && copies.outputs == 0 && copies.bytes == 0);
    DONE(udo_session_io_output(session, 0, 0, &again));
    holds(again, 2, 2);
    REFUSED(udo_session_io_input(session, 1, 0, &none), UDO_ERROR_INVALID_ARGUMENT, "no stage 1");
    REFUSED(udo_session_io_input(session, 0, 2, &none), UDO_ERROR_INVALID_ARGUMENT, "no input 2");
    REFUSED(udo_session_io_output(session, 0, 2, &none), UDO_ERROR_INVALID_ARGUMENT, "no output 2");
    CHECK(none == NULL);
    udo_run_release(run);
    udo_tensor_release(again);
    udo_tensor_release(x);
    udo_tensor_release(y);
    for (int i = 0; i < 2; i++) udo_tensor_release(outputs[i]);
    udo_session_release(session);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    udo_device_spec_t specs[2] = {
        {"cpu", 1, 2, 0, UDO_COHERENCE_COHERENT},
        {"dsp:v68", 2, 0, 1 << 20, UDO_COHERENCE_NON_COHERENT},
    };
    udo_runtime_options_t with_devices = default_runtime_options();
    with_devices.devices = specs;
    with_devices.device_count = 2;
    udo_runtime_t *runtime = NULL;
    DONE(udo_runtime_create(&with_devices, &runtime));
    size_t devices = 0;
    DONE(udo_runtime_device_count(runtime, &devices));
    CHECK(devices == 3);
    specs[1].core = "tpu";
    udo_runtime_t *none = NULL;
    REFUSED(udo_runtime_create(&with_devices, &none), UDO_ERROR_INVALID_ARGUMENT, "options.devices[1].core is \"tpu\"");
    CHECK(none == NULL);

    udo_device_t *cpu = NULL;
    DONE(udo_device_open(runtime, UDO_DEVICE_CPU, 0, &cpu));
    udo_model_t *model = NULL;
    run_long(runtime, cpu);
    DONE(udo_model_load_file(runtime, argv[1], NULL, &model));
    name_cores(runtime, model, cpu);
    run_over_own(model);
    fail_without_output(model, cpu);
    submit_in_callbacks(model, cpu);
    lose_one_of_two(runtime);
    udo_session_t *session = NULL;
    udo_session_options_t options = {sizeof options, NULL, 2, 1, NULL, NULL, 0};
    DONE(udo_session_create(model, &options, &session));
    DONE(udo_session_reserve(session));
    const char *report = NULL;
    DONE(udo_runtime_report(runtime, &report));
    CHECK(strncmp(report, "runs in flight: 0\ncpu:0 (host cpu): 0 of 2 cores at work, 0 runs waiting\n  memory: ", 83) == 0);
    CHECK(strstr(report, "\n    workspace: ") != NULL && strstr(report, "\ndsp:1 (emulated dsp:v68): ") != NULL);

    udo_tensor_t *x = tensor(cpu, 1), *y = tensor(cpu, 2);
    const udo_tensor_t *inputs[2] = {x, y};
    udo_tensor_t *outputs[2] = {tensor(cpu, 0), NULL};

    /* A run that is waited for; what it made is handed out. */
    udo_run_t *run = NULL;
    udo_stream_t *stream = NULL;
    DONE(udo_stream_create(&stream));
    const uint64_t minute_ns = 60000000000u;
    udo_run_options_t told = {sizeof told, minute_ns, UDO_PRIORITY_MEDIUM, stream, count, &calls, NULL, 0};
    DONE(udo_session_submit(session, inputs, 2, outputs, 2, &told, &run));
    DONE(udo_run_wait(run));
    CHECK(calls == 1 && last_code == UDO_ERROR_NONE);
    bool is_done = false;
    DONE(udo_run_is_done(run, &is_done));
    CHECK(is_done);
    holds(outputs[0], 3, 2);
    udo_tensor_t *product = NULL;
    DONE(udo_run_output(run, 1, &product));
    REFUSED(udo_run_output(run, 2, &product), UDO_ERROR_INVALID_ARGUMENT, "output 2 does not exist");
    float elements[6];
    DONE(udo_tensor_read(product, elements, sizeof elements));
    for (int i = 0; i < 6; i++) CHECK(elements[i] == (3 + 2 * (float)i) * (2 + (float)i));
    udo_run_release(run);
    run = NULL;

    /* A launch that is recorded once and submitted many times, with what is in its inputs then. */
    udo_launch_t *launch = NULL;
    udo_run_options_t in_stream = {sizeof in_stream, 0, UDO_PRIORITY_HIGH, stream, NULL, NULL, NULL, 0};
    DONE(udo_session_record(session, inputs, 2, outputs, 2, &in_stream, &launch));
    for (int round = 0; round < 100; round++) {
        float changed[6] = {(float)round, (float)round, (float)round, (float)round, (float)round, (float)round};
        DONE(udo_tensor_write(x, changed, sizeof changed));
        DONE(udo_launch_submit(launch, &run));
        DONE(udo_run_wait_timeout(run, minute_ns));
        udo_run_release(run);
        holds(outputs[0], 2 + (float)round, 1);
    }
    /* Sessions that share a workspace take turns, and have as much memory as the largest. */
    udo_workspace_t *workspace = NULL;
    DONE(udo_workspace_create(&workspace));
    udo_session_options_t in_turns = {sizeof in_turns, NULL, 1, 4, workspace, NULL, 0};
    udo_session_t *sharing[2] = {NULL, NULL};
    uint64_t of_one = 0, of_both = 1;
    DONE(udo_session_create(model, &in_turns, &sharing[0]));
    DONE(udo_workspace_bytes(workspace, cpu, &of_one));
    DONE(udo_session_create(model, &in_turns, &sharing[1]));
    DONE(udo_workspace_bytes(workspace, cpu, &of_both));
    CHECK(of_one > 0 && of_one == of_both);
    for (int round = 0; round < 10; round++) {
        udo_run_t *runs[2] = {NULL, NULL};
        udo_tensor_t *made[2] = {NULL, NULL};
        for (int i = 0; i < 2; i++) DONE(udo_session_submit(sharing[i], inputs, 2, made, 2, NULL, &runs[i]));
        for (int i = 0; i < 2; i++) {
            udo_copies_t copies;
            udo_tensor_t *result = NULL;
            DONE(udo_run_wait_timeout(runs[i], minute_ns));
            DONE(udo_run_copies(runs[i], &copies));
            CHECK(copies.inputs == 0 && copies.outputs == 0 && copies.bytes == 0);
            DONE(udo_run_output(runs[i], 0, &result));
            float there[6], again[6];
            DONE(udo_tensor_read(result, there, sizeof there));
            DONE(udo_tensor_read(outputs[0], again, sizeof again));
            CHECK(memcmp(there, again, sizeof there) == 0);
            udo_tensor_release(result);
            udo_run_release(runs[i]);
        }
    }
    udo_session_release(sharing[0]);
    udo_session_release(sharing[1]);
    DONE(udo_workspace_bytes(workspace, cpu, &of_both));
    CHECK(of_both == 0);
    udo_workspace_release(workspace);

    DONE(udo_stream_sync(stream));
    bool is_busy = true;
    DONE(udo_stream_is_busy(stream, &is_busy));
    CHECK(!is_busy);
    udo_launch_release(launch);

    /* What goes wrong before it begins changes nothing. */
    run = NULL;
    udo_tensor_t *alias[2] = {x, NULL};
    REFUSED(udo_session_submit(session, inputs, 2, alias, 2, NULL, &run), UDO_ERROR_INVALID_ARGUMENT,
            "output 0 overlaps input 0");
    REFUSED(udo_session_submit(session, inputs, 1, outputs, 2, NULL, &run), UDO_ERROR_INVALID_ARGUMENT, "1 inputs, expected 2");
    udo_map_t *map = NULL;
    udo_memory_t *memory = NULL;
    DONE(udo_tensor_memory(x, &memory));
    DONE(udo_memory_map(memory, 0, 4, UDO_MAP_WRITE, UDO_CACHE_MAINTENANCE_BY_MAP, &map));
    REFUSED(udo_session_submit(session, inputs, 2, outputs, 2, NULL, &run), UDO_ERROR_BUSY, "input 0");
    udo_map_release(map);
    CHECK(run == NULL);

    /* A device that goes away fails what is submitted, until it is reset. */
    DONE(udo_runtime_lose_device(runtime, cpu));
    REFUSED(udo_session_submit(session, inputs, 2, outputs, 2, &told, &run), UDO_ERROR_DEVICE_LOST, "device cpu:0 was lost");
    DONE(udo_runtime_report(runtime, &report));
    CHECK(strstr(report, "\ncpu:0 (host cpu), lost: ") != NULL);
    DONE(udo_runtime_reset_device(runtime, cpu));
    DONE(udo_session_submit(session, inputs, 2, outputs, 2, &told, &run));
    DONE(udo_stream_sync(stream));
    DONE(udo_run_cancel(run));
    DONE(udo_run_wait(run));
    CHECK(calls == 2);
    udo_run_release(run);

    /* Handles may go while a run is in flight, in any order. */
    DONE(udo_session_submit(session, inputs, 2, outputs, 2, &told, &run));
    udo_tensor_release(x);
    udo_tensor_release(y);
    udo_session_release(session);
    udo_model_release(model);
    udo_runtime_release(runtime);
    DONE(udo_run_wait(run));
    udo_run_release(run);
    udo_stream_release(stream);
    udo_tensor_release(product);
    udo_tensor_release(outputs[0]);
    udo_memory_release(memory);
    udo_device_release(cpu);
    return 0;
}
