/* Sessions that threads have together, and caches that runs go on with in one place. */
#include <pthread.h>

#include "check.h"

enum { THREADS = 4, ROUNDS = 25, STEPS = 40, WIDTH = 4 };

static udo_tensor_t *tensor(udo_device_t *device, const int64_t *dims, size_t rank, udo_dtype_t of, const void *elements, size_t size) {
    udo_tensor_spec_t *spec = NULL;
    udo_tensor_t *made = NULL;
    DONE(udo_tensor_spec_create(of, dims, rank, &spec));
    DONE(udo_tensor_create(device, spec, &made));
    DONE(udo_tensor_write(made, elements, size));
    udo_tensor_spec_release(spec);
    return made;
}

typedef struct server {
    const udo_session_pool_t *pool;
    udo_device_t *device;
    float first;
} server_t;

static void *serve(void *user) {
    const server_t *of = (const server_t *)user;
    const int64_t dims[1] = {WIDTH};
    for (int round = 0; round < ROUNDS; round++) {
        float x[WIDTH], y[WIDTH];
        for (int i = 0; i < WIDTH; i++) x[i] = of->first + (float)(round * WIDTH + i);
        udo_tensor_t *in = tensor(of->device, dims, 1, UDO_DTYPE_F32, x, sizeof x), *made[1] = {NULL}, *out = NULL;
        const udo_tensor_t *inputs[1] = {in};
        udo_run_t *run = NULL;
        DONE(udo_session_pool_submit(of->pool, inputs, 1, made, 1, NULL, &run));
        DONE(udo_run_wait(run));
        DONE(udo_run_output(run, 0, &out));
        DONE(udo_tensor_read(out, y, sizeof y));
        for (int i = 0; i < WIDTH; i++) CHECK(y[i] == -x[i]);
        udo_tensor_release(out);
        udo_run_release(run);
        udo_tensor_release(in);
    }
    return NULL;
}

static void share_sessions(const udo_runtime_t *runtime, udo_device_t *cpu) {
    static const char TEXT[] = "graph \"g\"\n  input x: f32[4]\n  y = Neg@13(x)\n  output y\n";
    udo_model_t *model = NULL;
    udo_session_pool_t *pool = NULL;
    udo_run_t *run = NULL;
    DONE(udo_model_load_bytes(runtime, TEXT, sizeof TEXT - 1, NULL, &model));
    REFUSED(udo_session_pool_create(model, NULL, 0, &pool), UDO_ERROR_INVALID_ARGUMENT, "count is 0");
    REFUSED(udo_session_pool_create(model, NULL, 65536, &pool), UDO_ERROR_INVALID_ARGUMENT, "expected at most 65536");
    DONE(udo_session_pool_create(model, NULL, 2, &pool));
    udo_model_release(model);
    pthread_t threads[THREADS];
    server_t servers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        servers[i].pool = pool;
        servers[i].device = cpu;
        servers[i].first = 1000.0f * (float)i;
        CHECK(pthread_create(&threads[i], NULL, serve, &servers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    udo_tensor_t *made[1] = {NULL};
    REFUSED(udo_session_pool_submit(pool, NULL, 0, made, 1, NULL, &run), UDO_ERROR_INVALID_ARGUMENT, "0 inputs, expected 1");
    udo_session_pool_release(pool);
}

/* Threads submit to the stages of a network, each of which its shapes choose. */
typedef struct client {
    const udo_network_pool_t *pool;
    udo_device_t *device;
} client_t;

static void *ask(void *user) {
    const client_t *of = (const client_t *)user;
    for (int round = 0; round < ROUNDS; round++) {
        const int64_t dims[2] = {round % 2 == 0 ? 2 : 4, 2};
        const size_t size = (size_t)dims[0] * 2 * sizeof(float);
        float x[8], y[8];
        for (int i = 0; i < 8; i++) x[i] = (float)(round + i);
        udo_tensor_t *in = tensor(of->device, dims, 2, UDO_DTYPE_F32, x, size), *made[1] = {NULL}, *out = NULL;
        const udo_tensor_t *inputs[1] = {in};
        udo_run_t *run = NULL;
        DONE(udo_network_pool_submit(of->pool, inputs, 1, made, 1, NULL, &run));
        CHECK(made[0] == NULL);
        DONE(udo_run_wait(run));
        DONE(udo_run_output(run, 0, &out));
        DONE(udo_tensor_read(out, y, size));
        for (size_t i = 0; i < size / sizeof(float); i++) CHECK(y[i] == 2 * x[i]);
        udo_tensor_release(out);
        udo_run_release(run);
        udo_tensor_release(in);
    }
    return NULL;
}

static void share_stages(const udo_runtime_t *runtime, udo_device_t *cpu, const char *path) {
    udo_networks_t *networks = NULL;
    udo_network_t *network = NULL;
    udo_network_pool_t *pool = NULL;
    udo_run_t *run = NULL;
    DONE(udo_networks_open_file(runtime, path, NULL, &networks));
    DONE(udo_networks_find(networks, "stages", &network));
    REFUSED(udo_network_pool_create(network, NULL, 0, &pool), UDO_ERROR_INVALID_ARGUMENT, "count is 0");
    REFUSED(udo_network_pool_create(network, NULL, 65536, &pool), UDO_ERROR_INVALID_ARGUMENT, "expected at most 65536");
    CHECK(pool == NULL);
    DONE(udo_network_pool_create(network, NULL, 2, &pool));
    /* It keeps what it came from. */
    udo_network_release(network);
    udo_networks_release(networks);
    pthread_t threads[THREADS];
    client_t client = {pool, cpu};
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, ask, &client) == 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    const int64_t three[2] = {3, 2}, two[2] = {2, 2};
    const float x[6] = {1, 2, 3, 4, 5, 6};
    udo_tensor_t *odd = tensor(cpu, three, 2, UDO_DTYPE_F32, x, sizeof x), *even = tensor(cpu, two, 2, UDO_DTYPE_F32, x, 16), *made[2] = {NULL, NULL};
    const udo_tensor_t *inputs[2] = {odd, odd};
    REFUSED(udo_network_pool_submit(pool, inputs, 1, made, 1, NULL, &run), UDO_ERROR_SHAPE_MISMATCH, "no stage of network");
    REFUSED(udo_network_pool_submit(pool, inputs, 2, made, 1, NULL, &run), UDO_ERROR_INVALID_ARGUMENT, "2 inputs, expected 1");
    inputs[0] = even;
    REFUSED(udo_network_pool_submit(pool, inputs, 1, made, 2, NULL, &run), UDO_ERROR_INVALID_ARGUMENT, "2 outputs, expected 1");
    CHECK(run == NULL);
    /* A stage whose memory is there takes none. */
    udo_memory_stats_t before, behind;
    udo_tensor_t *place[1] = {tensor(cpu, two, 2, UDO_DTYPE_F32, x, 16)};
    DONE(udo_network_pool_reserve(pool));
    DONE(udo_device_memory_stats(cpu, &before));
    DONE(udo_network_pool_submit(pool, inputs, 1, place, 1, NULL, &run));
    /* Runs that are in flight go on without the pool. */
    udo_network_pool_release(pool);
    DONE(udo_run_wait(run));
    udo_run_release(run);
    float y[4];
    DONE(udo_tensor_read(place[0], y, sizeof y));
    CHECK(y[0] == 2 && y[3] == 8);
    DONE(udo_device_memory_stats(cpu, &behind));
    CHECK(behind.current_bytes <= before.current_bytes && behind.peak_bytes == before.peak_bytes);
    udo_tensor_release(place[0]);
    udo_tensor_release(odd);
    udo_tensor_release(even);
}

/* More runs than the sessions take, none of which ends by itself. */
static void be_busy(const udo_runtime_t *runtime, udo_device_t *cpu) {
    static const char TEXT[] = "graph \"g\"\n  input x: f32[4]\n  input trips: i64[]\n  y = Loop@16(trips, _, x) # endless\n"
                               "    body: graph \"body\"\n      input i: i64[]\n      input go: bool[]\n      input s: f32[4]\n"
                               "      next = Neg@13(s) # next\n      output go, next\n  output y\n";
    enum { RUNS = 4 };
    const int64_t dims[1] = {WIDTH}, trips = INT64_MAX;
    const float elements[WIDTH] = {1, 2, 3, 4};
    udo_model_t *model = NULL;
    udo_session_pool_t *pool = NULL;
    udo_run_t *runs[RUNS] = {NULL, NULL, NULL, NULL}, *none = NULL;
    const udo_session_options_t options = {sizeof options, NULL, 1, 1, NULL, NULL, 0};
    DONE(udo_model_load_bytes(runtime, TEXT, sizeof TEXT - 1, NULL, &model));
    DONE(udo_session_pool_create(model, &options, 2, &pool));
    udo_tensor_t *x = tensor(cpu, dims, 1, UDO_DTYPE_F32, elements, sizeof elements), *made[1] = {NULL};
    udo_tensor_t *n = tensor(cpu, NULL, 0, UDO_DTYPE_I64, &trips, sizeof trips);
    const udo_tensor_t *inputs[2] = {x, n};
    for (int i = 0; i < RUNS; i++) DONE(udo_session_pool_submit(pool, inputs, 2, made, 1, NULL, &runs[i]));
    REFUSED(udo_session_pool_submit(pool, inputs, 2, made, 1, NULL, &none), UDO_ERROR_BUSY, "4 runs in flight");
    for (int i = 0; i < RUNS; i++) DONE(udo_run_cancel(runs[i]));
    for (int i = 0; i < RUNS; i++) {
        REFUSED(udo_run_wait(runs[i]), UDO_ERROR_CANCELLED, "");
        udo_run_release(runs[i]);
    }
    udo_tensor_release(x);
    udo_tensor_release(n);
    udo_session_pool_release(pool);
    udo_model_release(model);
}

/* One tensor is the cache before a run and behind it. */
static void go_on_with(udo_model_t *model, udo_device_t *cpu) {
    const int64_t cache_dims[3] = {1, STEPS, WIDTH}, step_dims[3] = {1, 1, WIDTH}, one[1] = {1};
    float cache[STEPS * WIDTH] = {0}, found[STEPS * WIDTH], step[WIDTH];
    udo_session_t *session = NULL;
    DONE(udo_session_create(model, NULL, &session));
    udo_tensor_t *past = tensor(cpu, cache_dims, 3, UDO_DTYPE_F32, cache, sizeof cache);
    for (int64_t at = 0; at < STEPS; at++) {
        for (int i = 0; i < WIDTH; i++) cache[at * WIDTH + i] = step[i] = (float)(at * WIDTH + i + 1);
        udo_tensor_t *now = tensor(cpu, step_dims, 3, UDO_DTYPE_F32, step, sizeof step);
        udo_tensor_t *place = tensor(cpu, one, 1, UDO_DTYPE_I64, &at, sizeof at);
        const udo_tensor_t *inputs[3] = {past, now, place};
        udo_tensor_t *outputs[1] = {past};
        if (at % 2 == 0) {
            DONE(udo_session_run(session, inputs, 3, outputs, 1));
        } else {
            udo_run_t *run = NULL;
            udo_copies_t copies = {9, 9, 9};
            DONE(udo_session_submit(session, inputs, 3, outputs, 1, NULL, &run));
            DONE(udo_run_wait(run));
            DONE(udo_run_copies(run, &copies));
            CHECK(copies.inputs == 0 && copies.outputs == 0 && copies.bytes == 0);
            udo_run_release(run);
        }
        CHECK(outputs[0] == past);
        DONE(udo_tensor_read(past, found, sizeof found));
        CHECK(memcmp(found, cache, sizeof cache) == 0);
        udo_tensor_release(now);
        udo_tensor_release(place);
    }
    /* A session's own tensors of both are one. */
    udo_tensor_t *from = NULL, *to = NULL;
    DONE(udo_session_io_input(session, 0, 0, &from));
    DONE(udo_session_io_output(session, 0, 0, &to));
    DONE(udo_tensor_write(from, cache, sizeof cache));
    DONE(udo_tensor_read(to, found, sizeof found));
    CHECK(memcmp(found, cache, sizeof cache) == 0);
    udo_tensor_release(from);
    udo_tensor_release(to);
    udo_tensor_release(past);
    udo_session_release(session);
}

static void keep_caches(const udo_runtime_t *runtime, udo_device_t *cpu, const char *path) {
    static const char TEXT[] = "graph \"g\"\n  input past: f32[1,40,4]\n  input step: f32[1,1,4]\n  input at: i64[1]\n"
                               "  present = TensorScatter@24(past, step, at) axis=1\n  output present\n";
    udo_model_t *model = NULL;
    /* As a model file says it. */
    DONE(udo_model_load_file(runtime, path, NULL, &model));
    go_on_with(model, cpu);
    udo_model_release(model);
    /* As who loads it says it. */
    udo_extension_t pair = {"in_place.past", "present"};
    udo_load_options_t options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.extensions = &pair;
    options.extension_count = 1;
    DONE(udo_model_load_bytes(runtime, TEXT, sizeof TEXT - 1, &options, &model));
    go_on_with(model, cpu);
    udo_model_release(model);
    pair.value = "step";
    REFUSED(udo_model_load_bytes(runtime, TEXT, sizeof TEXT - 1, &options, &model), UDO_ERROR_INVALID_ARGUMENT, "\"step\" is to be the output of a pair");
    /* Nobody said it. */
    const int64_t cache_dims[3] = {1, STEPS, WIDTH}, step_dims[3] = {1, 1, WIDTH}, one[1] = {1}, at = 0;
    float zeros[STEPS * WIDTH] = {0};
    udo_session_t *session = NULL;
    DONE(udo_model_load_bytes(runtime, TEXT, sizeof TEXT - 1, NULL, &model));
    DONE(udo_session_create(model, NULL, &session));
    udo_tensor_t *past = tensor(cpu, cache_dims, 3, UDO_DTYPE_F32, zeros, sizeof zeros);
    udo_tensor_t *step = tensor(cpu, step_dims, 3, UDO_DTYPE_F32, zeros, 4 * WIDTH), *place = tensor(cpu, one, 1, UDO_DTYPE_I64, &at, sizeof at);
    const udo_tensor_t *inputs[3] = {past, step, place};
    udo_tensor_t *outputs[1] = {past};
    REFUSED(udo_session_run(session, inputs, 3, outputs, 1), UDO_ERROR_INVALID_ARGUMENT, "output 0 overlaps input 0");
    udo_tensor_release(past);
    udo_tensor_release(step);
    udo_tensor_release(place);
    udo_session_release(session);
    udo_model_release(model);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    udo_runtime_t *runtime = NULL;
    udo_device_t *cpu = NULL;
    DONE(udo_runtime_create(NULL, &runtime));
    DONE(udo_device_open(runtime, UDO_DEVICE_CPU, 0, &cpu));
    share_sessions(runtime, cpu);
    share_stages(runtime, cpu, argv[2]);
    be_busy(runtime, cpu);
    keep_caches(runtime, cpu, argv[1]);
    udo_device_release(cpu);
    udo_runtime_release(runtime);
    return 0;
}
