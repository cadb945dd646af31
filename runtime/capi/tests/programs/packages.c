/* Packages: contained, signed, locked, and what is said of those that are not as they should be. */
#include "check.h"

enum { LEN = 16 };

static const char *folder;

/* The path of a file of the folder. */
static const char *in_folder(const char *name) {
    static char paths[16][512];
    static int next;
    char *path = paths[next++ % 16];
    CHECK(snprintf(path, sizeof paths[0], "%s/%s", folder, name) < (int)sizeof paths[0]);
    return path;
}

static void read_text(const char *name, char *text, size_t room) {
    FILE *file = fopen(in_folder(name), "rb");
    CHECK(file != NULL);
    const size_t len = fread(text, 1, room - 1, file);
    CHECK(len > 0 && len < room - 1);
    text[len] = 0;
    fclose(file);
}

static const char *list[1];

static udo_runtime_options_t with_package(const char *path) {
    udo_runtime_options_t options = default_runtime_options();
    list[0] = path;
    options.packages = list;
    options.package_count = 1;
    return options;
}

static udo_runtime_options_t with_contained(const char *path) {
    udo_runtime_options_t options = default_runtime_options();
    list[0] = path;
    options.contained = list;
    options.contained_count = 1;
    options.contain_timeout_ns = 2000000000u;
    return options;
}

/* A runtime with the package, which is contained or not. */
static udo_runtime_t *opened(const udo_runtime_options_t *options, bool is_contained) {
    udo_runtime_t *runtime = NULL;
    DONE(udo_runtime_create(options, &runtime));
    size_t count = 0;
    DONE(udo_runtime_package_count(runtime, &count));
    CHECK(count == 2);
    udo_package_report_t package;
    DONE(udo_runtime_package(runtime, 0, &package));
    CHECK(package.path[0] == 0 && !package.is_contained);
    DONE(udo_runtime_package(runtime, 1, &package));
    CHECK(strcmp(package.name, "FaultsPackage") == 0 && strcmp(package.version, "0.1.0") == 0);
    CHECK(strstr(package.path, "libUdoFaultsPackageReg.so") != NULL && package.is_contained == is_contained);
    REFUSED(udo_runtime_package(runtime, 2, &package), UDO_ERROR_INVALID_ARGUMENT, "no package 2; expected an index below 2");
    return runtime;
}

static void opens(const udo_runtime_options_t *options, bool is_contained) {
    udo_runtime_release(opened(options, is_contained));
}

static void refuses(const udo_runtime_options_t *options, udo_error_code_t code, const char *words) {
    udo_runtime_t *runtime = NULL;
    REFUSED(udo_runtime_create(options, &runtime), code, words);
    CHECK(runtime == NULL);
}

static udo_error_t *load(const udo_runtime_t *runtime, const char *how, const udo_load_options_t *options, udo_model_t **out) {
    char text[256];
    snprintf(text, sizeof text, "graph g\n  input x: f32[16]\n  y = Fault@1(x) how=\"%s\" # the_fault\n  output y\n", how);
    return udo_model_load_bytes(runtime, text, strlen(text), options, out);
}

static udo_error_t *run(const udo_session_t *session, float first, float *y) {
    float x[LEN];
    for (int i = 0; i < LEN; i++) x[i] = i == 0 ? first : 0.37f * (float)i;
    const int64_t dims[1] = {LEN};
    const udo_host_input_t inputs[1] = {{x, sizeof x, dims, 1}};
    udo_host_output_t outputs[1] = {{y, LEN * sizeof *y, 0}};
    return udo_session_run_host(session, inputs, 1, outputs, 1);
}

/* What comes of a run as the package does it in this process. */
static void plain(float *y) {
    const udo_runtime_options_t options = with_package(in_folder("plain"));
    udo_runtime_t *runtime = opened(&options, false);
    udo_model_t *model = NULL;
    udo_session_t *session = NULL;
    DONE(load(runtime, "data", NULL, &model));
    DONE(udo_session_create(model, NULL, &session));
    DONE(run(session, 0, y));
    udo_session_release(session);
    udo_model_release(model);
    udo_runtime_release(runtime);
}

/* Faults of calls are errors, and the next run is right. */
static void faults_of_runs(const float *wanted) {
    const udo_runtime_options_t options = with_contained(in_folder("plain"));
    udo_runtime_t *runtime = opened(&options, true);
    udo_model_t *model = NULL;
    udo_session_t *session = NULL;
    DONE(load(runtime, "data", NULL, &model));
    DONE(udo_session_create(model, NULL, &session));
    const struct {
        float first;
        const char *words;
    } faults[] = {
        {1, "node \"the_fault\": package FaultsPackage's Fault on cpu failed in its worker process: its worker was terminated by abort (signal 6)"},
        {2, "its worker was terminated by a memory fault (signal 11)"},
        {9, "it did not answer within 2s and was killed"},
        {12, "its worker exited with status 0"},
    };
    float y[LEN];
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        REFUSED(run(session, faults[i].first, y), UDO_ERROR_WORKER_LOST, faults[i].words);
        memset(y, 0, sizeof y);
        DONE(run(session, 0, y));
        CHECK(memcmp(y, wanted, sizeof y) == 0);
    }
    /* The same of a run beside this thread. */
    udo_device_t *cpu = NULL;
    udo_tensor_spec_t *spec = NULL;
    udo_tensor_t *x = NULL;
    DONE(udo_device_open(runtime, UDO_DEVICE_CPU, 0, &cpu));
    const int64_t dims[1] = {LEN};
    DONE(udo_tensor_spec_create(UDO_DTYPE_F32, dims, 1, &spec));
    DONE(udo_tensor_create(cpu, spec, &x));
    float first[LEN] = {1};
    DONE(udo_tensor_write(x, first, sizeof first));
    const udo_tensor_t *inputs[1] = {x};
    udo_tensor_t *outputs[1] = {NULL};
    udo_run_t *submitted = NULL;
    DONE(udo_session_submit(session, inputs, 1, outputs, 1, NULL, &submitted));
    REFUSED(udo_run_wait(submitted), UDO_ERROR_WORKER_LOST, "its worker was terminated by abort");
    CHECK(udo_error_code_nnrt(NULL) == 0);
    udo_run_release(submitted);
    udo_tensor_release(x);
    udo_tensor_spec_release(spec);
    udo_device_release(cpu);
    udo_session_release(session);
    udo_model_release(model);
    udo_runtime_release(runtime);
}

/* Faults before a run and behind it. */
static void faults_elsewhere(const float *wanted) {
    /* By its library: one worker for all of them, which is found by itself. */
    udo_runtime_options_t options = with_package(in_folder("plain/libUdoFaultsPackageReg.so"));
    options.contain = UDO_CONTAIN_ALL;
    udo_runtime_t *runtime = opened(&options, true);
    udo_model_t *model = NULL;
    REFUSED(load(runtime, "infer-abort", NULL, &model), UDO_ERROR_WORKER_LOST, "package FaultsPackage: its worker was terminated by abort");
    udo_load_options_t on_gpu;
    memset(&on_gpu, 0, sizeof on_gpu);
    on_gpu.size = sizeof on_gpu;
    on_gpu.cores = "gpu";
    REFUSED(load(runtime, "gpu-abort", &on_gpu, &model), UDO_ERROR_WORKER_LOST, "Fault on gpu failed in its worker process");
    on_gpu.fallback = UDO_FALLBACK_CPU;
    DONE(load(runtime, "gpu-abort", &on_gpu, &model));
    udo_fallback_report_t fallback;
    DONE(udo_model_fallback(model, 0, &fallback));
    CHECK(strcmp(fallback.target, "cpu") == 0 && strstr(fallback.reason, "its worker was terminated by abort") != NULL);
    udo_session_t *session = NULL;
    DONE(udo_session_create(model, NULL, &session));
    float y[LEN];
    DONE(run(session, 0, y));
    CHECK(memcmp(y, wanted, sizeof y) == 0);
    udo_session_release(session);
    udo_model_release(model);

    const char *faults = NULL;
    DONE(udo_take_faults(&faults));
    CHECK(strcmp(faults, "") == 0);
    model = NULL;
    DONE(load(runtime, "drop-exit", NULL, &model));
    udo_model_release(model);
    DONE(udo_take_faults(&faults));
    CHECK(strstr(faults, "Fault on cpu failed in free: its worker exited with status 0") != NULL);
    DONE(udo_take_faults(&faults));
    CHECK(strcmp(faults, "") == 0);
    udo_runtime_release(runtime);
}

/* Workers that are none. */
static void workers(void) {
    udo_runtime_options_t options = with_contained(in_folder("plain"));
    options.worker = "/nowhere/udo-worker";
    refuses(&options, UDO_ERROR_INVALID_PATH, "cannot be opened in a worker: /nowhere/udo-worker is not a file; put udo-worker");
    options.worker = in_folder("own.key.pub");
    refuses(&options, UDO_ERROR_INVALID_FILE, "own.key.pub cannot be started");
    options.worker = folder;
    refuses(&options, UDO_ERROR_INVALID_PATH, "is not a file");
}

/* Options that are wrong in themselves, and those of a program that is older than the library. */
static void options_of_all_sizes(void) {
    udo_runtime_options_t options = with_package(in_folder("plain"));
    options.reserved = 1;
    refuses(&options, UDO_ERROR_INVALID_ARGUMENT, "options.reserved is 1; expected 0");
    options = with_package(in_folder("plain"));
    options.contain = 3;
    refuses(&options, UDO_ERROR_INVALID_ARGUMENT, "contain is 3; expected one of 0, 1, 2");
    options = with_contained(NULL);
    refuses(&options, UDO_ERROR_INVALID_ARGUMENT, "argument options.contained[0] is NULL");
    options.contained = NULL;
    refuses(&options, UDO_ERROR_INVALID_ARGUMENT, "argument options.contained is NULL");
    options = with_package(in_folder("plain"));
    options.trusted_key_file_count = 1;
    refuses(&options, UDO_ERROR_INVALID_ARGUMENT, "argument options.trusted_key_files is NULL");
    options = with_package(in_folder("plain"));
    options.size = offsetof(udo_runtime_options_t, contained);
    options.contain = 3;
    options.lock_file = "/nowhere/udo.lock";
    opens(&options, false);
}

/* Whom packages have to be signed by. */
static void signatures(void) {
    const char *own[1] = {in_folder("own.key.pub")};
    udo_runtime_options_t options = with_package(in_folder("signed"));
    options.trusted_key_files = own;
    options.trusted_key_file_count = 1;
    opens(&options, false);
    const char *both[2] = {in_folder("other.key.pub"), own[0]};
    options.trusted_key_files = both;
    options.trusted_key_file_count = 2;
    opens(&options, false);
    options.trusted_key_file_count = 1;
    refuses(&options, UDO_ERROR_INVALID_FILE, "is not trusted: it is signed with ");
    char keys[256];
    read_text("own.key.pub", keys, sizeof keys);
    options.trusted_keys = keys;
    opens(&options, false);
    options.trusted_key_file_count = 0;
    opens(&options, false);
    options.trusted_keys = "";
    refuses(&options, UDO_ERROR_INVALID_FILE, "is not trusted");
    options.trusted_keys = "# nobody\nhello";
    refuses(&options, UDO_ERROR_INVALID_ARGUMENT, "trusted keys, line 2: found \"hello\", expected udo-public-ed25519 or index-sha256");
    const char *wrong[1] = {in_folder("old.lock")};
    options = with_package(in_folder("signed"));
    options.trusted_key_files = wrong;
    options.trusted_key_file_count = 1;
    refuses(&options, UDO_ERROR_INVALID_FILE, "old.lock\" line 1: found");
    wrong[0] = "/nowhere/key";
    refuses(&options, UDO_ERROR_INVALID_PATH, "key file \"/nowhere/key\" cannot be read");

    /* Contained instead of refused. */
    options = with_package(in_folder("plain"));
    options.trusted_keys = keys;
    refuses(&options, UDO_ERROR_INVALID_FILE, "has no index.json, which signatures");
    options.contain = UDO_CONTAIN_UNSIGNED;
    opens(&options, true);
    options = with_package(in_folder("signed"));
    options.contain = UDO_CONTAIN_UNSIGNED;
    opens(&options, true);
    options.trusted_keys = keys;
    opens(&options, false);
    options = with_contained(in_folder("signed"));
    options.trusted_keys = "";
    refuses(&options, UDO_ERROR_INVALID_FILE, "is not trusted");
    options.trusted_keys = keys;
    opens(&options, true);
}

/* Packages that have to be as they were. */
static void locks(const char *index_sha256, const char *library_sha256, const char *changed_sha256) {
    udo_runtime_options_t options = with_package(in_folder("signed"));
    options.lock_file = in_folder("udo.lock");
    opens(&options, false);
    options.lock_file = in_folder("old.lock");
    refuses(&options, UDO_ERROR_INVALID_FILE, index_sha256);
    refuses(&options, UDO_ERROR_INVALID_FILE, "expected 0000000000000000000000000000000000000000000000000000000000000000 from");
    options.lock_file = "/nowhere/udo.lock";
    refuses(&options, UDO_ERROR_INVALID_PATH, "lock file \"/nowhere/udo.lock\" cannot be used");
    options.lock_file = in_folder("own.key.pub");
    refuses(&options, UDO_ERROR_INVALID_FILE, "own.key.pub\" cannot be read");
    options.lock_file = in_folder("empty.lock");
    refuses(&options, UDO_ERROR_INVALID_FILE, "package \"FaultsPackage\" is not in");
    options = with_package(in_folder("changed"));
    refuses(&options, UDO_ERROR_INVALID_FILE, library_sha256);
    refuses(&options, UDO_ERROR_INVALID_FILE, changed_sha256);
    options = with_contained(in_folder("changed"));
    refuses(&options, UDO_ERROR_INVALID_FILE, "has SHA-256");
}

/* A library that changes between two workers, which is the program's own. */
static void changes(void) {
    const udo_runtime_options_t options = with_contained(in_folder("own"));
    udo_runtime_t *runtime = opened(&options, true);
    udo_model_t *model = NULL;
    udo_session_t *session = NULL;
    DONE(load(runtime, "data", NULL, &model));
    DONE(udo_session_create(model, NULL, &session));
    float y[LEN];
    DONE(run(session, 0, y));
    FILE *library = fopen(in_folder("own/libUdoFaultsPackageReg.so"), "ab");
    CHECK(library != NULL && fputc(0, library) == 0 && fclose(library) == 0);
    REFUSED(run(session, 1, y), UDO_ERROR_WORKER_LOST, "abort");
    REFUSED(run(session, 0, y), UDO_ERROR_WORKER_LOST, "has changed since it was opened: its SHA-256 is ");
    REFUSED(run(session, 0, y), UDO_ERROR_WORKER_LOST, ", expected ");
    udo_session_release(session);
    udo_model_release(model);
    udo_runtime_release(runtime);
}

int main(int argc, char **argv) {
    CHECK(argc == 5);
    folder = argv[1];
    float wanted[LEN];
    plain(wanted);
    faults_of_runs(wanted);
    faults_elsewhere(wanted);
    workers();
    options_of_all_sizes();
    signatures();
    locks(argv[2], argv[3], argv[4]);
    changes();
    return 0;
}
