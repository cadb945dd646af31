/*
 * The C interface of the UDO runtime. Generated from the source of libudo; edit the source instead.
 *
 * - A function that can fail returns NULL, or an error that the caller releases. On an error, nothing
 *   is written to the places of results.
 * - Each object is released with its own udo_*_release, which accepts NULL. Objects created from it
 *   stay valid.
 * - Threads may share objects that are passed as const. No other thread may use any other object
 *   during the call.
 * - Strings are UTF-8 and end with a zero. Returned strings and addresses live as long as the handle
 *   that they came from, unless the function says otherwise.
 * - Structures of options start with their size. If a program's structure is shorter than that of
 *   the library, the rest has defaults. If it is longer, the part that the library does not know
 *   must be zero. NULL selects all defaults.
 * - A value that is not a listed constant of its type is refused, and so is an impossible count.
 * - A forked process does not have its parent's threads. In the child, calls with objects created
 *   before the fork are refused with UDO_ERROR_INVALID_STATE, and releasing them has no effect. This
 *   does not apply if the parent had no other thread, of its own or of the library, and was in no
 *   call when it forked. Objects that the child creates work as usual.
 */

#ifndef UDO_H
#define UDO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The version of this header. `udo_version` returns the version of the library at run time.
#define UDO_VERSION_MAJOR 0
#define UDO_VERSION_MINOR 1
#define UDO_VERSION_PATCH 0
#define UDO_VERSION "0.1.0"

// A version as a number that grows, as in `#if UDO_VERSION_NUMBER >= UDO_VERSION_OF(1, 2, 0)`.
#define UDO_VERSION_OF(major, minor, patch) ((major) *1000000 + (minor) *1000 + (patch))
#define UDO_VERSION_NUMBER UDO_VERSION_OF(UDO_VERSION_MAJOR, UDO_VERSION_MINOR, UDO_VERSION_PATCH)

// Former names.
#define UDO_UPKEEP_BY_MAP UDO_CACHE_MAINTENANCE_BY_MAP
#define UDO_UPKEEP_BY_PROGRAM UDO_CACHE_MAINTENANCE_BY_PROGRAM
#define udo_map_upkeep_t udo_map_maintenance_t


// No error.
#define UDO_ERROR_NONE 0

// An argument is invalid, or does not match the other arguments.
#define UDO_ERROR_INVALID_ARGUMENT 1

// The heap limit, the system or a tensor's memory has too few bytes.
#define UDO_ERROR_OUT_OF_MEMORY 2

// The call is not allowed in the current state of the object.
#define UDO_ERROR_INVALID_STATE 3

// A file has invalid contents.
#define UDO_ERROR_INVALID_FILE 4

// A file or folder is missing, or access is denied.
#define UDO_ERROR_INVALID_PATH 5

// The timeout expired.
#define UDO_ERROR_TIMEOUT 6

// The device, or this system, does not support it.
#define UDO_ERROR_UNSUPPORTED 7

// The device was lost.
#define UDO_ERROR_DEVICE_LOST 8

// The result depends on open dimensions.
#define UDO_ERROR_DYNAMIC_SHAPE 9

// The device does not exist, or is not available.
#define UDO_ERROR_DEVICE_UNAVAILABLE 10

// The shape is not one of the accepted shapes.
#define UDO_ERROR_SHAPE_MISMATCH 11

// The name is already in use.
#define UDO_ERROR_ALREADY_EXISTS 12

// The object is in use by another call or run.
#define UDO_ERROR_BUSY 13

// The caller cancelled it.
#define UDO_ERROR_CANCELLED 14

// A bug in this library.
#define UDO_ERROR_INTERNAL 15

// The worker process of a contained package ended or did not answer in time. The next call starts
// a new one.
#define UDO_ERROR_WORKER_LOST 16

// The host's processor.
#define UDO_DEVICE_CPU 1

// A GPU.
#define UDO_DEVICE_GPU 2

// A digital signal processor.
#define UDO_DEVICE_DSP 3

// An HTA (hardware tensor accelerator).
#define UDO_DEVICE_HTA 4

// IEEE 754 binary32.
#define UDO_DTYPE_F32 1

// IEEE 754 binary64.
#define UDO_DTYPE_F64 2

// IEEE 754 binary16.
#define UDO_DTYPE_F16 3

// The upper half of a binary32.
#define UDO_DTYPE_BF16 4

// Signed 8-bit integer.
#define UDO_DTYPE_I8 5

// Signed 16-bit integer.
#define UDO_DTYPE_I16 6

// Signed 32-bit integer.
#define UDO_DTYPE_I32 7

// Signed 64-bit integer.
#define UDO_DTYPE_I64 8

// Unsigned 8-bit integer.
#define UDO_DTYPE_U8 9

// Unsigned 16-bit integer.
#define UDO_DTYPE_U16 10

// Unsigned 32-bit integer.
#define UDO_DTYPE_U32 11

// Unsigned 64-bit integer.
#define UDO_DTYPE_U64 12

// A bool: one byte, 0 or 1.
#define UDO_DTYPE_BOOL 13

// The model has no cache, or another user may write its folder, so that it is not used.
#define UDO_CACHE_NONE 0

// The cache had no file for the model.
#define UDO_CACHE_MISS 1

// The cache had a file for the model.
#define UDO_CACHE_HIT 2

// The cache's file was damaged, outdated or for something else, and was rebuilt.
#define UDO_CACHE_REBUILT 3

// The prepacked weights in the model file are for another machine or library version, and were not
// used.
#define UDO_CACHE_UNFIT 4

// The model is loaded, but the cache's file could not be written.
#define UDO_CACHE_SAVE_FAILED 5

// The order of the model.
#define UDO_LAYOUT_AS_GIVEN 0

// Batch, channels, rows, columns.
#define UDO_LAYOUT_NCHW 1

// Batch, rows, columns, channels.
#define UDO_LAYOUT_NHWC 2

// Batches follow each other.
#define UDO_PACKING_1N 0

// Groups of two batches, for elements of two bytes.
#define UDO_PACKING_2N 1

// Groups of four batches, for elements of one byte.
#define UDO_PACKING_4N 2

// Undefined.
#define UDO_CONTENTS_UNSET 0

// Zeros.
#define UDO_CONTENTS_ZEROS 1

// Other processes cannot use the memory.
#define UDO_SHARING_PRIVATE 0

// Other processes can use the memory through a file descriptor. They may write to it at any time
// after the first export, so runs copy it.
#define UDO_SHARING_EXPORTABLE 1

// Other processes can use the memory, and the program promises that nobody accesses its bytes
// during a run, copy or mapping of this library, neither through the descriptor nor through a
// mapping or another import of it. Runs therefore use it in place.
#define UDO_SHARING_EXCLUSIVE 2

// Read access.
#define UDO_MAP_READ 1

// Read and write access.
#define UDO_MAP_WRITE 2

// The mapping: it invalidates the cache when it starts, and flushes it when it is released.
#define UDO_CACHE_MAINTENANCE_BY_MAP 0

// The program, with `udo_map_flush` and `udo_map_invalidate`.
#define UDO_CACHE_MAINTENANCE_BY_PROGRAM 1

// Refuse the model.
#define UDO_FALLBACK_OFF 0

// Run the node on the CPU.
#define UDO_FALLBACK_CPU 1

// Run the node on the GPU.
#define UDO_FALLBACK_GPU 2

// Run the node on the DSP.
#define UDO_FALLBACK_DSP 3

// Run the node on the HTA.
#define UDO_FALLBACK_HTA 4

// Host and device see each other's writes at once.
#define UDO_COHERENCE_COHERENT 0

// Writes become visible through flushes and invalidations of cache lines.
#define UDO_COHERENCE_NON_COHERENT 1

// No others.
#define UDO_CONTAIN_LISTED 0

// Packages that are not signed by a trusted key. Without containment they are refused if any keys
// are trusted.
#define UDO_CONTAIN_UNSIGNED 1

// All packages.
#define UDO_CONTAIN_ALL 2

// For a run, the priority of the model; for a model, medium.
#define UDO_PRIORITY_NONE 0

// Start when nothing else waits.
#define UDO_PRIORITY_LOW 1

// Normal priority.
#define UDO_PRIORITY_MEDIUM 2

// Start before all others.
#define UDO_PRIORITY_HIGH 3

// As the other options say.
#define UDO_PERFORMANCE_NONE 0

// One thread, which sleeps when it is idle.
#define UDO_PERFORMANCE_LOW 1

// Half of the processors.
#define UDO_PERFORMANCE_MEDIUM 2

// All processors.
#define UDO_PERFORMANCE_HIGH 3

// All processors. Idle threads keep looking for work between runs.
#define UDO_PERFORMANCE_EXTREME 4

// The precision of the model.
#define UDO_PRECISION_FULL 0

// Half precision (16 bits): takes half the memory and rounds values.
#define UDO_PRECISION_HALF 1

// Stands for an omitted input in place of a tensor's number.
#define UDO_LEFT_OUT 4294967295

// An integer, a bool, or the number of a choice.
#define UDO_ATTRIBUTE_INT 1

// A floating-point number.
#define UDO_ATTRIBUTE_FLOAT 2

// A string.
#define UDO_ATTRIBUTE_TEXT 3

// Integers.
#define UDO_ATTRIBUTE_INTS 4

// Floating-point numbers.
#define UDO_ATTRIBUTE_FLOATS 5

// The operation is a step of its own.
#define UDO_WORK_STEP 0

// The operation is fused into the step of another one.
#define UDO_WORK_FUSED 1

// No computation: the output uses the bytes of the input.
#define UDO_WORK_VIEW 2

// No computation in a run: the result was computed at compile time.
#define UDO_WORK_FOLDED 3

// The operation is control flow: the host runs its subgraphs.
#define UDO_WORK_CONTROL 4

// A device. Threads may share it. Its memories outlive it.
typedef struct udo_device_t udo_device_t;

// The reason of a refusal: a code, and a message that says where, what was found, what was
// expected, and what to do next.
typedef struct udo_error_t udo_error_t;

// A graph under construction. Any one thread may build it; after `udo_graph_finish`, threads may
// share it.
typedef struct udo_graph_t udo_graph_t;

// A recorded launch. Threads may share it. It can be in flight only once at a time.
typedef struct udo_launch_t udo_launch_t;

// A mapping of memory to the host. It counts as an access to the bytes until it is released.
typedef struct udo_map_t udo_map_t;

// Bytes of a device's memory, or a part of them. Threads may share it. The bytes are freed with
// their last handle, view, mapping or tensor. An access that conflicts with a write in progress,
// or a write that conflicts with an access, is refused with `UDO_ERROR_BUSY`.
typedef struct udo_memory_t udo_memory_t;

// A model that is ready to run. Threads may share it. Sessions outlive it.
typedef struct udo_model_t udo_model_t;

// A network of a model file. It has a stage for each set of shapes that it was made for; a stage
// is compiled at its first use. Threads may share it. It outlives the handle that it came from.
typedef struct udo_network_t udo_network_t;

// Sessions of a network, for servers. Any thread submits runs. Each run uses the first free
// session and the stage for the shapes of its inputs. Threads may share it. Prefer
// `udo_session_pool_t` with a model of all stages.
typedef struct udo_network_pool_t udo_network_pool_t;

// The networks of a model file. A file of another format is one network with one stage. Threads
// may share it.
typedef struct udo_networks_t udo_networks_t;

// A submitted run. Threads may share it, and any of them may wait for it. Releasing it does not
// affect the run.
typedef struct udo_run_t udo_run_t;

// Built-in operators, operators of packages, and devices. Threads may share it. Everything created
// from it outlives it.
typedef struct udo_runtime_t udo_runtime_t;

// The memory for one run at a time. Threads may share it, and any of them may submit runs, also
// from callbacks. While a thread runs the session directly (`udo_session_run`,
// `udo_session_run_host`) or reserves memory, other calls are refused with `UDO_ERROR_BUSY`.
// Concurrent direct runs need a session each.
typedef struct udo_session_t udo_session_t;

// Sessions of one model, for servers. Any thread submits runs, and each run uses the first free
// session. Threads may share it.
typedef struct udo_session_pool_t udo_session_pool_t;

// A queue of runs that start one after the other. Threads may share it.
typedef struct udo_stream_t udo_stream_t;

// The operations of a graph that a device supports.
typedef struct udo_support_t udo_support_t;

// A tensor: its description, and its memory, which it keeps alive.
typedef struct udo_tensor_t udo_tensor_t;

// The type, dimensions and memory layout of a tensor. Dimensions may be open.
typedef struct udo_tensor_spec_t udo_tensor_spec_t;

// Memory that sessions share in turns. Threads may share it.
typedef struct udo_workspace_t udo_workspace_t;

// The kind of an error: one of `UDO_ERROR_*`. Codes are never reused.
typedef uint32_t udo_error_code_t;

// A package of a runtime. The strings live as long as the runtime.
typedef struct {
    // The name.
    const char *name;
    // The version.
    const char *version;
    // The path of its registration library; "" for the operators built into this library.
    const char *path;
    // Whether its code runs in a separate process.
    bool is_contained;
} udo_package_report_t;

// The kind of a device's cores: one of `UDO_DEVICE_*`.
typedef uint32_t udo_device_kind_t;

// Statistics of a device's memory, in bytes.
typedef struct {
    // Limit of the bytes in use.
    uint64_t limit_bytes;
    // Bytes in use.
    uint64_t current_bytes;
    // Highest number of bytes in use so far.
    uint64_t peak_bytes;
    // Number of memories.
    uint64_t memories;
    // Bytes of imported memories, which the other fields do not include.
    uint64_t imported_bytes;
} udo_memory_stats_t;

// The access that a mapping allows: one of `UDO_MAP_*`.
typedef uint32_t udo_map_access_t;

// Who keeps the caches of host and device coherent while memory is mapped: one of `UDO_CACHE_MAINTENANCE_*`.
typedef uint32_t udo_map_maintenance_t;

// Whether other processes may use memory: one of `UDO_SHARING_*`.
typedef uint32_t udo_sharing_t;

// The type of elements: one of `UDO_DTYPE_*`.
typedef uint32_t udo_dtype_t;

// The order of dimensions: one of `UDO_LAYOUT_*`.
typedef uint32_t udo_layout_t;

// How batches are packed: one of `UDO_PACKING_*`.
typedef uint32_t udo_packing_t;

// An encoding of integers: `real = scale * (q - zero_point)`.
typedef struct {
    // The difference that a step of one represents.
    float scale;
    // The integer that represents 0.
    int32_t zero_point;
} udo_encoding_t;

// The range of sizes of a dimension.
typedef struct {
    // The minimum.
    uint64_t least;
    // The maximum; the largest value of the type if the dimension is unbounded.
    uint64_t most;
} udo_range_t;

// The state of a model's cache: one of `UDO_CACHE_*`.
typedef uint32_t udo_cache_outcome_t;

// The kind of work that computes an operation: one of `UDO_WORK_*`.
typedef uint32_t udo_work_t;

// Where an operation runs. The strings live as long as the model.
typedef struct {
    // The name.
    const char *name;
    // The operator.
    const char *op;
    // The package of its kernel; "" if no kernel computes it.
    const char *package;
    // The core that runs it, such as "dsp:v68".
    const char *core;
    // The kind of work that computes it.
    udo_work_t work;
} udo_op_report_t;

// A core that was asked for and does not support an operation, and the core that runs it instead.
// The strings live as long as the model.
typedef struct {
    // The name of the operation.
    const char *name;
    // The operator.
    const char *op;
    // The preferred core: the first of those asked for.
    const char *selected;
    // The core that does not support it.
    const char *failed;
    // The reason.
    const char *reason;
    // The core that runs it.
    const char *target;
} udo_fallback_report_t;

// Bytes that the plan of a model needs in one memory. Each session has its own arena and scratch
// memory; the rest is shared.
typedef struct {
    // The name of the memory. The string lives as long as the model.
    const char *memory;
    // Per session: values between operations.
    uint64_t arena_bytes;
    // Per session: scratch memory of operations.
    uint64_t scratch_bytes;
    // Constants of the model.
    uint64_t constant_bytes;
    // Prepacked constants.
    uint64_t packed_bytes;
    // Data that operations derived from shapes.
    uint64_t geometry_bytes;
} udo_plan_memory_t;

// Copies that a run made between its tensors and the memory of its session. It uses other tensors
// in place.
typedef struct {
    // Number of inputs copied.
    size_t inputs;
    // Number of outputs copied.
    size_t outputs;
    // Bytes copied.
    uint64_t bytes;
} udo_copies_t;

// The initial contents of memory: one of `UDO_CONTENTS_*`.
typedef uint32_t udo_contents_t;

// Options of an allocation. NULL or zeros select the defaults.
typedef struct {
    // `sizeof(udo_alloc_options_t)`.
    size_t size;
    // Alignment of the first byte, a power of two; 0 means 64.
    uint64_t align_bytes;
    // The initial contents.
    udo_contents_t contents;
    // Whether other processes may use it.
    udo_sharing_t sharing;
    // Its owner in statistics; NULL means "program".
    const char *owner;
} udo_alloc_options_t;

// The kind of an attribute's value: one of `UDO_ATTRIBUTE_*`.
typedef uint32_t udo_attribute_kind_t;

// An attribute of an operation: its name, and a value of the stated kind. Fields of other kinds
// are ignored.
typedef struct {
    // The name.
    const char *name;
    // The kind, which selects one of the fields below.
    udo_attribute_kind_t kind;
    // Length of `ints` or `floats`.
    size_t count;
    // An integer, a bool, or the number of a choice.
    int64_t int_value;
    // A floating-point number.
    double float_value;
    // A string.
    const char *text;
    // Integers.
    const int64_t *ints;
    // Floating-point numbers.
    const double *floats;
} udo_attribute_t;

// Whether host and device see each other's writes at once: one of `UDO_COHERENCE_*`.
typedef uint32_t udo_coherence_t;

// Devices of one kind to create. Devices of the same kind are numbered in order.
typedef struct {
    // The core whose kernels they run, such as "dsp:v68".
    const char *core;
    // How many; at most 1024 devices in total.
    uint32_t count;
    // Cores of each, at most 64; 0 means all processors of this process for the CPU, and one for
    // other kinds.
    uint32_t cores;
    // Bytes of memory of each; 0 means the memory of the machine.
    uint64_t memory_bytes;
    // Whether host and device see each other's writes at once.
    udo_coherence_t coherence;
} udo_device_spec_t;

// The size of a named dimension, or a range of sizes that share one plan.
typedef struct {
    // The name of the dimension.
    const char *name;
    // The minimum size.
    uint64_t least;
    // The maximum size; equal to the minimum for a fixed size.
    uint64_t most;
} udo_named_dim_t;

// A setting by name: `max_memory`; `threads`; `spin_us` (how long idle threads look for work);
// `shapes_kept`; `vtcm_bytes`; `gpu_storage` (`f32` or `f16`); `fast_math` (`none` or `bf16`);
// `device_limits` (`kernels`, or `documented` for the documented limits of the devices);
// `random_ranges` (number of random inputs that calibrate a float model for the DSP at load time;
// by default, or with 0, the DSP refuses it); `dim.NAME` (a size, or a range such as `1..512`);
// `in_place.INPUT` (the output that a run may write to the tensor of this input); `given.INPUT` (1
// if runs give this optional input, whose default is an initializer; otherwise it is not an
// input); `bind.TYPE` (the package that implements nodes of this type, whatever their domain; with
// a domain, as in `bind.com.acme:Blur`, nodes of this domain only).
typedef struct {
    // The name.
    const char *name;
    // Its value, as a string.
    const char *value;
} udo_extension_t;

// An input in host memory.
typedef struct {
    // Its elements, of the type of the model's input.
    const void *data;
    // Size of the elements in bytes.
    size_t size_bytes;
    // Its dimensions; NULL means those of the model, if they are fixed.
    const int64_t *dims;
    // Length of the array above.
    size_t rank;
} udo_host_input_t;

// The destination of an output in host memory.
typedef struct {
    // The buffer for its elements.
    void *data;
    // Size of the buffer in bytes.
    size_t capacity_bytes;
    // Size of the elements in bytes. A run sets it.
    size_t size_bytes;
} udo_host_output_t;

// The handling of a node that none of the cores supports: one of `UDO_FALLBACK_*`.
typedef uint32_t udo_fallback_t;

// How much of the host runs may use: one of `UDO_PERFORMANCE_*`.
typedef uint32_t udo_performance_t;

// The priority of a run: one of `UDO_PRIORITY_*`.
typedef uint32_t udo_priority_t;

// The precision of floating-point values between operations: one of `UDO_PRECISION_*`.
typedef uint32_t udo_precision_t;

// Options of loading a model. NULL or zeros select the defaults.
typedef struct {
    // `sizeof(udo_load_options_t)`.
    size_t size;
    // Limit of the bytes of prepacked constants, scratch memory and all sessions together; 0 means
    // the memory of the machine.
    uint64_t max_memory_bytes;
    // Number of threads that runs of all sessions share; 0 means one.
    uint32_t threads;
    // The handling of a node that none of the cores supports.
    udo_fallback_t fallback;
    // The cores to use, in order of preference, such as "dsp,cpu"; NULL means "cpu".
    const char *cores;
    // The sizes of named dimensions; NULL means none.
    const udo_named_dim_t *dims;
    // Length of the array above.
    size_t dim_count;
    // How much of the host runs may use. Sets the number of threads, unless `threads` does. If
    // another core than the CPU is preferred, values other than 0 are refused with
    // `UDO_ERROR_UNSUPPORTED`.
    udo_performance_t performance;
    // The priority of submitted runs that set none.
    udo_priority_t priority;
    // The precision of values between operations. Half precision requires the GPU; if another core
    // is preferred, it is refused with `UDO_ERROR_UNSUPPORTED`.
    udo_precision_t precision;
    // Must be 0.
    uint32_t reserved;
    // Settings by name. The last one with a name counts. NULL means none.
    const udo_extension_t *extensions;
    // Length of the array above.
    size_t extension_count;
    // An existing folder that caches prepacked weights for later processes; NULL means none.
    const char *cache_dir;
    // The user-defined version of the cache's entries: entries with a lower version are rebuilt,
    // entries with a higher version are refused.
    uint32_t cache_version;
    // If not 0, the model keeps its graph, so that it can be exported, and the cache stores the
    // graph too, so that `udo_model_restore` needs nothing else.
    uint32_t is_exportable;
} udo_load_options_t;

// Called when a run has ended and before waiting threads continue, on a thread of the library. The
// arguments are the `user` pointer of the run and NULL or the error, which lives until the call
// returns. The callback may submit runs, also to the run's own session and before the submission
// has returned, and release handles. It must not wait for runs; that is refused with
// `UDO_ERROR_INVALID_STATE`.
typedef void (*udo_done_fn_t)(void *user, const udo_error_t *error);

// Options of a submitted run. NULL or zeros select the defaults.
typedef struct {
    // `sizeof(udo_run_options_t)`.
    size_t size;
    // Timeout in nanoseconds from submission to end; 0 means none. A run that takes longer is told
    // to stop, and keeps its tensors until it does.
    uint64_t timeout_ns;
    // The priority; 0 means that of the model.
    udo_priority_t priority;
    // The stream, whose runs start one after the other; NULL means none.
    const udo_stream_t *stream;
    // Called exactly once for each submission; NULL means no callback.
    udo_done_fn_t on_done;
    // The argument of the callback.
    void *user;
    // The numbers of the cores of the session's device to run on; NULL means those of the session.
    const uint32_t *cores;
    // Length of the array above.
    size_t core_count;
} udo_run_options_t;

// Which packages are contained in addition to the listed ones: one of `UDO_CONTAIN_*`.
typedef uint32_t udo_contain_t;

// Options of a runtime. NULL or zeros select the defaults.
typedef struct {
    // `sizeof(udo_runtime_options_t)`.
    size_t size;
    // Paths of operator packages: their folders, `dist` folders or registration libraries.
    const char *const *packages;
    // Length of the array above.
    size_t package_count;
    // The devices to create; NULL means one of each kind.
    const udo_device_spec_t *devices;
    // Number of specifications.
    size_t device_count;
    // Paths of packages, in addition to `packages`, whose code runs in a separate worker process.
    // Faults of this code become errors of the call that caused them. Requires Linux.
    const char *const *contained;
    // Length of the array above.
    size_t contained_count;
    // Which of `packages` are contained too.
    udo_contain_t contain;
    // Must be 0.
    uint32_t reserved;
    // Time limit in nanoseconds for a call of a contained package's code, after which its worker
    // is ended; 0 means a minute.
    uint64_t contain_timeout_ns;
    // The worker program; NULL means the file `udo-worker` next to the program or this library, in
    // the folder above, or in its folder `bin`.
    const char *worker;
    // Files with trusted public keys, as `udo sign --new-key` writes them. If any keys are given
    // here or in `trusted_keys`, packages without a signature of one of them are refused.
    const char *const *trusted_key_files;
    // Length of the array above.
    size_t trusted_key_file_count;
    // Trusted keys as a string, with the lines of such files. An empty string trusts nobody; NULL
    // means none.
    const char *trusted_keys;
    // A lock file of `udo lock` that packages must match; NULL means none. The library does not
    // search for one.
    const char *lock_file;
} udo_runtime_options_t;

// Options of a session. NULL or zeros select the defaults.
typedef struct {
    // `sizeof(udo_session_options_t)`.
    size_t size;
    // The device whose memory holds tensors that runs create, and which computes operations for
    // devices of its kind; other kinds use their first device. NULL means the CPU.
    const udo_device_t *device;
    // Number of submitted runs that may execute concurrently. Each has its own memory, allocated
    // with the first of them. 0 means one.
    uint32_t frames;
    // Number of further submitted runs that may wait. A submission beyond them is refused with
    // `UDO_ERROR_BUSY`. 0 means 64.
    uint32_t depth;
    // A workspace whose arenas and scratch memory runs use in turns with other sessions; NULL
    // means the session's own memory.
    const udo_workspace_t *workspace;
    // The numbers of the cores for submitted runs, as many as the model has threads, on the device
    // of the model's preferred core. NULL means any free cores.
    const uint32_t *cores;
    // Length of the array above.
    size_t core_count;
} udo_session_options_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the kind of an error; `UDO_ERROR_NONE` for NULL.
udo_error_code_t udo_error_code(const udo_error_t *error);

// Returns the `OH_NN_ReturnCode` of `NNRt` for an error; 0, its success code, for NULL.
uint32_t udo_error_code_nnrt(const udo_error_t *error);

// Returns the message of an error in UTF-8: where, what was found, what was expected, and the next
// step. The string lives as long as the error. Empty for NULL.
const char *udo_error_message(const udo_error_t *error);

// Releases an error. NULL is allowed.
void udo_error_release(udo_error_t *error);

// Returns the version of this library, such as "1.2.3".
const char *udo_version(void);

// Creates a runtime with the built-in operators, the operators of packages, and devices.
udo_error_t *udo_runtime_create(const udo_runtime_options_t *options, udo_runtime_t **out);

// Returns the number of devices of a runtime.
udo_error_t *udo_runtime_device_count(const udo_runtime_t *runtime, size_t *out);

// Returns the device at an index among all devices, from 0.
udo_error_t *udo_runtime_device(const udo_runtime_t *runtime, size_t index, udo_device_t **out);

// Simulates the loss of a device, for tests of error handling: its runs in progress and in its
// queue fail once each, and new submissions fail until it is reset.
udo_error_t *udo_runtime_lose_device(const udo_runtime_t *runtime, const udo_device_t *device);

// Restores a lost device. The contents of its memory are unchanged.
udo_error_t *udo_runtime_reset_device(const udo_runtime_t *runtime, const udo_device_t *device);

// Releases a runtime. NULL is allowed. Devices, models and other objects created from it stay
// valid.
void udo_runtime_release(udo_runtime_t *runtime);

// Returns the number of packages of a runtime, including the built-in operators.
udo_error_t *udo_runtime_package_count(const udo_runtime_t *runtime, size_t *out);

// Returns a package of a runtime, in the order of opening; the built-in operators are at 0.
udo_error_t *udo_runtime_package(const udo_runtime_t *runtime, size_t index, udo_package_report_t *out);

// Returns faults of packages that no call could report, such as those while kernels are freed,
// since the last call of this function: one line each, or "". Call it at the end of a program to
// be sure that everything succeeded. The string lives until the thread's next call of this
// function.
udo_error_t *udo_take_faults(const char **out);

// Returns the device of a kind with this number, from 0.
udo_error_t *udo_device_open(const udo_runtime_t *runtime,
                             udo_device_kind_t kind,
                             uint32_t index,
                             udo_device_t **out);

// Returns the name of a device. The string lives as long as the handle.
udo_error_t *udo_device_name(const udo_device_t *device, const char **out);

// Returns the kind of a device.
udo_error_t *udo_device_kind(const udo_device_t *device, udo_device_kind_t *out);

// Returns the number of a device among those of its kind.
udo_error_t *udo_device_index(const udo_device_t *device, uint32_t *out);

// Returns the statistics of a device's memory.
udo_error_t *udo_device_memory_stats(const udo_device_t *device, udo_memory_stats_t *out);

// Releases a handle of a device. NULL is allowed.
void udo_device_release(udo_device_t *device);

// Returns the number of cores of a device. Cores are numbered from 0.
udo_error_t *udo_device_core_count(const udo_device_t *device, uint32_t *out);

// Waits until the submitted runs that requested a core of a device, or execute on it, have ended
// or left it. It does not wait for runs that are submitted meanwhile.
udo_error_t *udo_device_sync_core(const udo_runtime_t *runtime, const udo_device_t *device, uint32_t core);

// Allocates memory of a device.
udo_error_t *udo_memory_alloc(const udo_device_t *device,
                              uint64_t size,
                              const udo_alloc_options_t *options,
                              udo_memory_t **out);

// Returns the number of bytes of a memory or view.
udo_error_t *udo_memory_size(const udo_memory_t *memory, uint64_t *out);

// Returns the device of a memory, as a new handle.
udo_error_t *udo_memory_device(const udo_memory_t *memory, udo_device_t **out);

// Copies bytes of a memory, starting at `offset`, to the host. The copy is complete when the
// function returns.
udo_error_t *udo_memory_read(const udo_memory_t *memory, uint64_t offset, void *into, size_t len);

// Copies bytes of the host to a memory, starting at `offset`. The copy is complete when the
// function returns.
udo_error_t *udo_memory_write(const udo_memory_t *memory, uint64_t offset, const void *from, size_t len);

// Sets all bytes of a memory to a value.
udo_error_t *udo_memory_fill(const udo_memory_t *memory, uint8_t value);

// Copies bytes of one memory to another, on any devices. If both ranges overlap, the original
// bytes are copied.
udo_error_t *udo_memory_copy(const udo_memory_t *to,
                             uint64_t to_offset,
                             const udo_memory_t *from,
                             uint64_t from_offset,
                             uint64_t len);

// Returns a view of a part of a memory, which the view keeps alive. Offsets of the view count from
// its start.
udo_error_t *udo_memory_view(const udo_memory_t *memory, uint64_t offset, uint64_t len, udo_memory_t **out);

// Makes host writes through ended mappings visible to the device, in whole cache lines of 64
// bytes.
udo_error_t *udo_memory_flush(const udo_memory_t *memory, uint64_t offset, uint64_t len);

// Makes device writes visible to mappings of the host, in whole cache lines of 64 bytes. Host
// writes that were not flushed are lost.
udo_error_t *udo_memory_invalidate(const udo_memory_t *memory, uint64_t offset, uint64_t len);

// Maps bytes of a memory to the host.
udo_error_t *udo_memory_map(const udo_memory_t *memory,
                            uint64_t offset,
                            uint64_t len,
                            udo_map_access_t access,
                            udo_map_maintenance_t maintenance,
                            udo_map_t **out);

// Returns the address of a mapping's first byte. It is valid until the mapping is released. Do not
// write to a read mapping.
udo_error_t *udo_map_data(udo_map_t *map, void **out);

// Makes host writes to bytes of a mapping visible to the device, in whole cache lines of 64 bytes.
// The offset counts from the mapping's first byte.
udo_error_t *udo_map_flush(udo_map_t *map, uint64_t offset, uint64_t len);

// Makes device writes to bytes of a mapping visible to the host, in whole cache lines of 64 bytes.
// The offset counts from the mapping's first byte. Writes to them that were not flushed are lost.
udo_error_t *udo_map_invalidate(udo_map_t *map, uint64_t offset, uint64_t len);

// Ends a mapping. NULL is allowed. A mapping that keeps caches coherent flushes its writes to the
// device.
void udo_map_release(udo_map_t *map);

// Releases a memory or view. NULL is allowed.
void udo_memory_release(udo_memory_t *memory);

// Creates memory of a device from the bytes of a file, from `offset`, a multiple of the page size,
// to `size`. The caller keeps the descriptor. If the file is truncated while it is in use, the
// next access to the missing bytes ends the process. Others may write to the file at any time, so
// runs copy it. Linux only.
udo_error_t *udo_memory_import_fd(const udo_device_t *device,
                                  int32_t fd,
                                  uint64_t size,
                                  uint64_t offset,
                                  udo_memory_t **out);

// Like `udo_memory_import_fd`, with a statement about other users of the file.
// `UDO_SHARING_EXCLUSIVE` promises that nobody accesses the bytes while this library does, so runs
// use them in place. Other codes have no effect. Linux only.
udo_error_t *udo_memory_import_fd_as(const udo_device_t *device,
                                     int32_t fd,
                                     uint64_t size,
                                     uint64_t offset,
                                     udo_sharing_t sharing,
                                     udo_memory_t **out);

// Returns a descriptor of the file that backs a memory, for another process. The caller closes it.
// The memory must have been allocated with `UDO_SHARING_EXPORTABLE` or `UDO_SHARING_EXCLUSIVE`, or
// imported. Without the promise of exclusive use, the first export is refused with
// `UDO_ERROR_BUSY` while the memory is in use. Linux only.
udo_error_t *udo_memory_export_fd(const udo_memory_t *memory, int32_t *out);

// Creates a description of tensors with a type and dimensions; -1 is an open dimension. A scalar
// has rank 0.
udo_error_t *udo_tensor_spec_create(udo_dtype_t dtype,
                                    const int64_t *dims,
                                    size_t rank,
                                    udo_tensor_spec_t **out);

// Sets the order of four dimensions.
udo_error_t *udo_tensor_spec_set_layout(udo_tensor_spec_t *spec, udo_layout_t layout);

// Sets how batches, the first dimension, are packed.
udo_error_t *udo_tensor_spec_set_packing(udo_tensor_spec_t *spec, udo_packing_t packing);

// Sets the encoding of integers: `real = scale * (q - zero_point)`. With `axis` -1, one scale and
// zero point apply to all elements; otherwise there is one pair for each position of the axis.
udo_error_t *udo_tensor_spec_set_quantization(udo_tensor_spec_t *spec,
                                              const float *scales,
                                              const int32_t *zero_points,
                                              size_t count,
                                              int32_t axis);

// Returns the number of encodings of a description; 0 for elements without an encoding.
udo_error_t *udo_tensor_spec_encoding_count(const udo_tensor_spec_t *spec, size_t *out);

// Returns the axis of the encodings; -1 if there is one for all elements, or none.
udo_error_t *udo_tensor_spec_encoding_axis(const udo_tensor_spec_t *spec, int32_t *out);

// Returns an encoding of a description.
udo_error_t *udo_tensor_spec_encoding(const udo_tensor_spec_t *spec, size_t index, udo_encoding_t *out);

// Returns the type of the elements.
udo_error_t *udo_tensor_spec_dtype(const udo_tensor_spec_t *spec, udo_dtype_t *out);

// Returns the number of dimensions.
udo_error_t *udo_tensor_spec_rank(const udo_tensor_spec_t *spec, size_t *out);

// Writes the dimensions to an array of `capacity` elements; -1 is a dimension that is not fixed.
udo_error_t *udo_tensor_spec_dims(const udo_tensor_spec_t *spec, int64_t *dims, size_t capacity);

// Returns the number of elements; 1 for a scalar. An open dimension is refused with
// `UDO_ERROR_DYNAMIC_SHAPE`.
udo_error_t *udo_tensor_spec_elements(const udo_tensor_spec_t *spec, uint64_t *out);

// Returns the size of the elements in bytes. An open dimension is refused with
// `UDO_ERROR_DYNAMIC_SHAPE`.
udo_error_t *udo_tensor_spec_byte_size(const udo_tensor_spec_t *spec, uint64_t *out);

// Returns the bytes that a tensor takes in memory, including the padding of its last group of
// batches. An open dimension is refused with `UDO_ERROR_DYNAMIC_SHAPE`.
udo_error_t *udo_tensor_spec_storage_size(const udo_tensor_spec_t *spec, uint64_t *out);

// Returns the range of sizes of a dimension; both ends are equal if it is fixed.
udo_error_t *udo_tensor_spec_range(const udo_tensor_spec_t *spec, size_t index, udo_range_t *out);

// Releases a description. NULL is allowed.
void udo_tensor_spec_release(udo_tensor_spec_t *spec);

// Creates a tensor in new memory of the required size.
udo_error_t *udo_tensor_create(const udo_device_t *device, const udo_tensor_spec_t *spec, udo_tensor_t **out);

// Creates a tensor in new memory of `size` bytes, which may be larger than required. A tensor with
// open dimensions gets its shape from `udo_tensor_reshape`, or from the run that writes it.
udo_error_t *udo_tensor_create_sized(const udo_device_t *device,
                                     const udo_tensor_spec_t *spec,
                                     uint64_t size,
                                     udo_tensor_t **out);

// Creates a tensor in existing memory, which may be larger than required. A tensor with open
// dimensions gets its shape as with `udo_tensor_create_sized`.
udo_error_t *udo_tensor_create_from_memory(const udo_tensor_spec_t *spec,
                                           const udo_memory_t *memory,
                                           udo_tensor_t **out);

// Returns the memory of a tensor, as a new handle.
udo_error_t *udo_tensor_memory(const udo_tensor_t *tensor, udo_memory_t **out);

// Returns the description of a tensor, as a new object. After a run it has the shape that the run
// set.
udo_error_t *udo_tensor_spec(const udo_tensor_t *tensor, udo_tensor_spec_t **out);

// Changes the shape of a tensor. Its memory must be large enough, and its bytes do not change. A
// tensor that was created with open dimensions accepts the shapes that these allow.
udo_error_t *udo_tensor_reshape(udo_tensor_t *tensor, const int64_t *dims, size_t rank);

// Copies all elements of a tensor, `len` bytes with batches one after the other, to the device.
udo_error_t *udo_tensor_write(const udo_tensor_t *tensor, const void *from, size_t len);

// Copies all elements of a tensor, `len` bytes with batches one after the other, to the host.
udo_error_t *udo_tensor_read(const udo_tensor_t *tensor, void *into, size_t len);

// Releases a tensor. NULL is allowed.
void udo_tensor_release(udo_tensor_t *tensor);

// Checks options without loading a model. It refuses what loading any model with them would
// refuse.
udo_error_t *udo_load_options_check(const udo_load_options_t *options);

// Loads a model from a file: ONNX, or a model file (`.udm`). The file is opened read-only and must
// not change while the model exists.
udo_error_t *udo_model_load_file(const udo_runtime_t *runtime,
                                 const char *path,
                                 const udo_load_options_t *options,
                                 udo_model_t **out);

// Loads a model from the bytes of such a file, which are copied.
udo_error_t *udo_model_load_bytes(const udo_runtime_t *runtime,
                                  const void *bytes,
                                  size_t len,
                                  const udo_load_options_t *options,
                                  udo_model_t **out);

// Returns the number of inputs of a model.
udo_error_t *udo_model_input_count(const udo_model_t *model, size_t *out);

// Returns the number of outputs of a model.
udo_error_t *udo_model_output_count(const udo_model_t *model, size_t *out);

// Returns the name of an input. The string lives as long as the model.
udo_error_t *udo_model_input_name(const udo_model_t *model, size_t index, const char **out);

// Returns the name of an output. The string lives as long as the model.
udo_error_t *udo_model_output_name(const udo_model_t *model, size_t index, const char **out);

// Returns the description of an input, as a new object.
udo_error_t *udo_model_input_spec(const udo_model_t *model, size_t index, udo_tensor_spec_t **out);

// Returns the description of an output, as a new object. If its shape depends on those of the
// inputs, this is the declared one, whose dimensions may be open; without a declaration it is
// refused with `UDO_ERROR_DYNAMIC_SHAPE`. After a run, `udo_session_output_spec` returns the
// actual one.
udo_error_t *udo_model_output_spec(const udo_model_t *model, size_t index, udo_tensor_spec_t **out);

// Releases a model. NULL is allowed.
void udo_model_release(udo_model_t *model);

// Creates the model that an earlier process left in the folder `options->cache_dir`: a model
// compiled from a graph, or one loaded as exportable. `name` is the name of its graph; NULL means
// the only one in the folder.
udo_error_t *udo_model_restore(const udo_runtime_t *runtime,
                               const char *name,
                               const udo_load_options_t *options,
                               udo_model_t **out);

// Writes an exportable model and its prepacked weights to `bytes`. `udo_model_load_bytes` loads
// it, in any process. `out` receives the size in bytes. With `bytes` NULL and `len` 0 nothing is
// written; a buffer that is too small is refused.
udo_error_t *udo_model_export(const udo_model_t *model, void *bytes, size_t len, size_t *out);

// Returns the number of prepacked constants read from the model's cache so far; 0 without a cache.
udo_error_t *udo_model_cache_restored(const udo_model_t *model, size_t *out);

// Returns the number of constants packed so far that the model's cache did not have.
udo_error_t *udo_model_cache_packed(const udo_model_t *model, size_t *out);

// Returns the state of the model's cache, and whether its file could be written.
udo_error_t *udo_model_cache_outcome(const udo_model_t *model, udo_cache_outcome_t *out);

// Returns why the cache's file was rebuilt or not saved when the model was created; NULL if all
// went well. The string lives as long as the model.
udo_error_t *udo_model_cache_warning(const udo_model_t *model, const char **out);

// Returns the number of operations in the plan of a model; 0 if each run plans for its own shapes.
udo_error_t *udo_model_op_count(const udo_model_t *model, size_t *out);

// Returns where an operation of a model runs, in the order of the graph.
udo_error_t *udo_model_op(const udo_model_t *model, size_t index, udo_op_report_t *out);

// Returns the number of refusals of operations that run on another core; 0 if all run on the
// preferred core.
udo_error_t *udo_model_fallback_count(const udo_model_t *model, size_t *out);

// Returns a refusal: the core, the operation, the reason, and the core that runs it.
udo_error_t *udo_model_fallback(const udo_model_t *model, size_t index, udo_fallback_report_t *out);

// Returns the number of memories that the plan of a model uses; 0 if each run plans for its own
// shapes.
udo_error_t *udo_model_memory_count(const udo_model_t *model, size_t *out);

// Returns the bytes that the plan of a model needs in a memory.
udo_error_t *udo_model_memory(const udo_model_t *model, size_t index, udo_plan_memory_t *out);

// Returns a report of a model as JSON: inputs and outputs, the cores asked for, nodes with their
// cores, fallbacks and their reasons, transfers between devices, memories and notices. The string
// lives as long as the model.
udo_error_t *udo_model_json(const udo_model_t *model, const char **out);

// Like `udo_model_json`, for the plan of the last run of a session, or before the first run, the
// plan that it is prepared for. It therefore also covers models with open shapes. Segments that
// were planned during the run are listed one after the other. The string lives until the thread's
// next call of this function.
udo_error_t *udo_session_json(const udo_session_t *session, const char **out);

// Returns the current state of a runtime's devices as readable text: memory in use and its owners,
// and the number of runs that wait or are in flight. The string lives until the thread's next call
// of this function.
udo_error_t *udo_runtime_report(const udo_runtime_t *runtime, const char **out);

// Opens the networks of a model file. The file is opened read-only and must not change while they
// exist.
udo_error_t *udo_networks_open_file(const udo_runtime_t *runtime,
                                    const char *path,
                                    const udo_load_options_t *options,
                                    udo_networks_t **out);

// Opens the networks in the bytes of such a file, which are copied.
udo_error_t *udo_networks_open_bytes(const udo_runtime_t *runtime,
                                     const void *bytes,
                                     size_t len,
                                     const udo_load_options_t *options,
                                     udo_networks_t **out);

// Returns the number of networks.
udo_error_t *udo_networks_count(const udo_networks_t *networks, size_t *out);

// Returns the network of a file at an index, from 0.
udo_error_t *udo_networks_at(const udo_networks_t *networks, size_t index, udo_network_t **out);

// Returns the network of a file with this name.
udo_error_t *udo_networks_find(const udo_networks_t *networks,
                               const char *network_name,
                               udo_network_t **out);

// Releases networks. NULL is allowed. Networks that were returned, and their models, stay valid.
void udo_networks_release(udo_networks_t *networks);

// Returns the name of a network. The string lives as long as the handle.
udo_error_t *udo_network_name(const udo_network_t *network, const char **out);

// Returns the number of stages of a network.
udo_error_t *udo_network_stage_count(const udo_network_t *network, size_t *out);

// Returns a readable description of a network: its name, and the inputs and outputs of its stages.
// The string lives as long as the handle.
udo_error_t *udo_network_text(const udo_network_t *network, const char **out);

// Returns the number of inputs of a network.
udo_error_t *udo_network_input_count(const udo_network_t *network, size_t *out);

// Returns the number of outputs of a network.
udo_error_t *udo_network_output_count(const udo_network_t *network, size_t *out);

// Returns the name of an input of a network. The string lives as long as the handle.
udo_error_t *udo_network_input_name(const udo_network_t *network, size_t index, const char **out);

// Returns the name of an output of a network. The string lives as long as the handle.
udo_error_t *udo_network_output_name(const udo_network_t *network, size_t index, const char **out);

// Returns the description of an input in a stage, as a new object. Its dimensions may be open or
// have ranges.
udo_error_t *udo_network_input_spec(const udo_network_t *network,
                                    size_t stage,
                                    size_t index,
                                    udo_tensor_spec_t **out);

// Returns the description of an output in a stage, as a new object. Compiles the stage if
// necessary. If the shape depends on those of the inputs, see `udo_model_output_spec`.
udo_error_t *udo_network_output_spec(const udo_network_t *network,
                                     size_t stage,
                                     size_t index,
                                     udo_tensor_spec_t **out);

// Returns the stage for tensors of these shapes, in the order of the inputs: the stage for exactly
// these shapes, otherwise the one with the tightest ranges that include them. A network with one
// stage also accepts another shape with the same number of elements. Other shapes are refused with
// `UDO_ERROR_SHAPE_MISMATCH`, and the message lists the shapes of all stages.
udo_error_t *udo_network_stage_for(const udo_network_t *network,
                                   const udo_tensor_t *const *inputs,
                                   size_t input_count,
                                   size_t *out);

// Returns the model of a stage. It is compiled at the first call; later calls return the same
// model.
udo_error_t *udo_network_model(const udo_network_t *network, size_t stage, udo_model_t **out);

// Returns the model of all stages of a network. Each run of its sessions and pools uses the stage
// for the shapes of its inputs, which is compiled at its first use. For a file with one network,
// `udo_model_load_file` returns the same.
udo_error_t *udo_network_model_of_stages(const udo_network_t *network, udo_model_t **out);

// Creates a session of one stage of a network, from 0, or of all stages if `stage` is -1. Each run
// then uses the stage that `udo_network_stage_for` finds for the shapes of its inputs. A stage
// takes no memory before its first run.
udo_error_t *udo_network_session(const udo_network_t *network,
                                 int32_t stage,
                                 const udo_session_options_t *options,
                                 udo_session_t **out);

// Releases a network. NULL is allowed. Its models stay valid.
void udo_network_release(udo_network_t *network);

// Creates an empty graph. Messages use its name; NULL means none.
udo_error_t *udo_graph_create(const char *name, udo_graph_t **out);

// Adds a tensor with this description, whose dimensions may be open, and writes its number to
// `out`. If the name is NULL, it is made from the number.
udo_error_t *udo_graph_add_tensor(udo_graph_t *graph,
                                  const udo_tensor_spec_t *spec,
                                  const char *name,
                                  uint32_t *out);

// Makes a tensor a constant with these elements, which are copied. Allowed once per tensor, with
// the exact number of bytes.
udo_error_t *udo_graph_set_data(udo_graph_t *graph, uint32_t tensor, const void *bytes, size_t len);

// Sets the encoding of a tensor, like `udo_tensor_spec_set_quantization`. Allowed once per tensor.
udo_error_t *udo_graph_set_quantization(udo_graph_t *graph,
                                        uint32_t tensor,
                                        const float *scales,
                                        const int32_t *zero_points,
                                        size_t count,
                                        int32_t axis);

// Adds an operation by its name and writes its number to `out`. If `domain` is NULL, it is an
// operation of `NNRt`, such as "CONV2D"; otherwise an operator of this SDK or of a package. "" is
// the domain of ONNX. `UDO_LEFT_OUT` omits an input. A refused call does not change the graph.
udo_error_t *udo_graph_add_op(udo_graph_t *graph,
                              const char *domain,
                              const char *op,
                              const uint32_t *inputs,
                              size_t input_count,
                              const uint32_t *outputs,
                              size_t output_count,
                              const udo_attribute_t *attributes,
                              size_t attribute_count,
                              uint32_t *out);

// Adds an operation of `NNRt` by its number in `OH_NN_OperationType`.
udo_error_t *udo_graph_add_nnrt_op(udo_graph_t *graph,
                                   uint32_t number,
                                   const uint32_t *inputs,
                                   size_t input_count,
                                   const uint32_t *outputs,
                                   size_t output_count,
                                   const udo_attribute_t *attributes,
                                   size_t attribute_count,
                                   uint32_t *out);

// Sets the inputs and outputs of the graph, in order. Allowed once.
udo_error_t *udo_graph_set_io(udo_graph_t *graph,
                              const uint32_t *inputs,
                              size_t input_count,
                              const uint32_t *outputs,
                              size_t output_count);

// Checks the whole graph, which cannot be changed afterwards. If the graph is refused, missing
// parts can be added.
udo_error_t *udo_graph_finish(udo_graph_t *graph);

// Returns the operations of a finished graph that a device supports. Nothing is compiled.
// Operations that depend on open dimensions of inputs count as not supported.
udo_error_t *udo_graph_query_support(const udo_graph_t *graph,
                                     const udo_runtime_t *runtime,
                                     const udo_device_t *device,
                                     udo_support_t **out);

// Returns the number of operations in the answer: those of the graph, in the order in which they
// were added.
udo_error_t *udo_support_count(const udo_support_t *support, size_t *out);

// Returns why the device does not support an operation; NULL if it does. The string lives as long
// as the handle.
udo_error_t *udo_support_reason(const udo_support_t *support, size_t index, const char **out);

// Releases the answer of `udo_graph_query_support`. NULL is allowed.
void udo_support_release(udo_support_t *support);

// Compiles a model from a finished graph, which may be released afterwards and compiled any number
// of times. The options are those of loading; a cache also stores the graph, so that
// `udo_model_restore` needs nothing else.
udo_error_t *udo_model_compile(const udo_runtime_t *runtime,
                               const udo_graph_t *graph,
                               const udo_load_options_t *options,
                               udo_model_t **out);

// Releases a graph. NULL is allowed. Its models stay valid.
void udo_graph_release(udo_graph_t *graph);

// Creates a session: memory for one run at a time.
udo_error_t *udo_session_create(const udo_model_t *model,
                                const udo_session_options_t *options,
                                udo_session_t **out);

// Allocates the memory for submitted runs, which otherwise the first run does; for all stages if
// the session has several. For models with open shapes it covers the shapes of the session's last
// runs; call it again for new shapes. It is refused with `UDO_ERROR_BUSY` while submitted runs use
// some of the memory.
udo_error_t *udo_session_reserve(const udo_session_t *session);

// Allocates the memory for submitted runs of one stage. A session of a model, or of one stage,
// only has stage 0.
udo_error_t *udo_session_reserve_stage(const udo_session_t *session, size_t stage);

// Returns a tensor of the session for an input of a stage, in memory of the session's device.
// Calls return the same tensor as long as its shape is the same. Runs with such tensors copy
// nothing if that memory is coherent.
udo_error_t *udo_session_io_input(const udo_session_t *session,
                                  size_t stage,
                                  size_t index,
                                  udo_tensor_t **out);

// Like `udo_session_io_input`, for an output.
udo_error_t *udo_session_io_output(const udo_session_t *session,
                                   size_t stage,
                                   size_t index,
                                   udo_tensor_t **out);

// Runs a model with tensors in the order of its inputs and outputs, and returns when the outputs
// are complete. An output that is NULL becomes a new tensor, which the caller owns. Other outputs
// are overwritten and get the shape of the result. An output must not overlap an input or another
// output, unless the extension `in_place.INPUT` allows it for this input and output. After an
// error no tensor is created or reshaped; the contents of given outputs are lost if the run had
// started.
udo_error_t *udo_session_run(const udo_session_t *session,
                             const udo_tensor_t *const *inputs,
                             size_t input_count,
                             udo_tensor_t **outputs,
                             size_t output_count);

// Submits a run with tensors in the order of the model's inputs and outputs, and returns at once.
// The run creates outputs that are NULL; `udo_run_output` returns them. Until the run ends,
// writing any of its tensors or reading an output is refused with `UDO_ERROR_BUSY`, and so is a
// submission with tensors in use.
udo_error_t *udo_session_submit(const udo_session_t *session,
                                const udo_tensor_t *const *inputs,
                                size_t input_count,
                                udo_tensor_t **outputs,
                                size_t output_count,
                                const udo_run_options_t *options,
                                udo_run_t **out);

// Records a launch with the tensors of `udo_session_submit`, which can be submitted many times.
// Each submission uses the current contents of the inputs and does not allocate.
udo_error_t *udo_session_record(const udo_session_t *session,
                                const udo_tensor_t *const *inputs,
                                size_t input_count,
                                udo_tensor_t **outputs,
                                size_t output_count,
                                const udo_run_options_t *options,
                                udo_launch_t **out);

// Runs a model with elements in host memory, in the order of its inputs and outputs, and returns
// when the outputs are complete. If a buffer is too small, the error states the required size and
// no output is written; `udo_session_output_spec` returns the shapes.
udo_error_t *udo_session_run_host(const udo_session_t *session,
                                  const udo_host_input_t *inputs,
                                  size_t input_count,
                                  udo_host_output_t *outputs,
                                  size_t output_count);

// Returns the description of an output in the last run, as a new object.
udo_error_t *udo_session_output_spec(const udo_session_t *session, size_t index, udo_tensor_spec_t **out);

// Releases a session. NULL is allowed.
void udo_session_release(udo_session_t *session);

// Submits a recorded launch, and returns at once. It must not be in flight.
udo_error_t *udo_launch_submit(const udo_launch_t *launch, udo_run_t **out);

// Releases a launch. NULL is allowed. Its run in flight continues.
void udo_launch_release(udo_launch_t *launch);

// Waits for the end of a run, any number of times, and returns its error, if it failed:
// `UDO_ERROR_TIMEOUT` if its time limit expired, `UDO_ERROR_CANCELLED`, `UDO_ERROR_DEVICE_LOST`,
// or an error of its inputs or kernels.
udo_error_t *udo_run_wait(const udo_run_t *run);

// Waits at most this number of nanoseconds for the end of a run. `UDO_ERROR_TIMEOUT` means that
// the run continues, unless `udo_run_is_done` is true: then the run's own time limit expired.
udo_error_t *udo_run_wait_timeout(const udo_run_t *run, uint64_t timeout_ns);

// Returns whether a run, including its callback, has ended.
udo_error_t *udo_run_is_done(const udo_run_t *run, bool *out);

// Asks a run to stop: at once if it has not started, otherwise between two of its steps. No effect
// if it has ended.
udo_error_t *udo_run_cancel(const udo_run_t *run);

// Returns an output of a run that succeeded, as a tensor with the shape that the run set. Its
// memory is that of the output given to the run, or memory of the session's device, which the next
// run of the same launch overwrites. A run that has not ended is refused with `UDO_ERROR_BUSY`. A
// run that failed, was cancelled, timed out or lost its device, or whose launch was submitted
// again, is refused with `UDO_ERROR_INVALID_STATE`.
udo_error_t *udo_run_output(const udo_run_t *run, size_t index, udo_tensor_t **out);

// Returns the copies of inputs and outputs that an ended run made.
udo_error_t *udo_run_copies(const udo_run_t *run, udo_copies_t *out);

// Releases a run. NULL is allowed. The run continues.
void udo_run_release(udo_run_t *run);

// Creates a stream.
udo_error_t *udo_stream_create(udo_stream_t **out);

// Waits until all runs submitted to a stream before this call have ended. Returns the error of the
// first of them that failed and that no earlier wait has covered. All threads that wait for it get
// the error.
udo_error_t *udo_stream_sync(const udo_stream_t *stream);

// Returns whether runs of a stream are in flight.
udo_error_t *udo_stream_is_busy(const udo_stream_t *stream, bool *out);

// Releases a stream. NULL is allowed. Its runs continue.
void udo_stream_release(udo_stream_t *stream);

// Creates a workspace for sessions to share: memory for the largest of them, used by one run at a
// time.
udo_error_t *udo_workspace_create(udo_workspace_t **out);

// Returns the bytes of a workspace on a device.
udo_error_t *udo_workspace_bytes(const udo_workspace_t *workspace, const udo_device_t *device, uint64_t *out);

// Releases a handle of a workspace. NULL is allowed. Sessions that share it continue.
void udo_workspace_release(udo_workspace_t *workspace);

// Creates `count` sessions of a model, each with the frames and depth of the options, and
// allocates their memory. A submission that exceeds them all is refused with `UDO_ERROR_BUSY`.
udo_error_t *udo_session_pool_create(const udo_model_t *model,
                                     const udo_session_options_t *options,
                                     uint32_t count,
                                     udo_session_pool_t **out);

// Allocates the memory for runs of all known shapes, those of all stages of the model, which
// otherwise the first such run does. It is refused with `UDO_ERROR_BUSY` while submitted runs use
// some of the memory.
udo_error_t *udo_session_pool_reserve(const udo_session_pool_t *pool);

// Submits a run to any free session, like `udo_session_submit`, and returns at once.
udo_error_t *udo_session_pool_submit(const udo_session_pool_t *pool,
                                     const udo_tensor_t *const *inputs,
                                     size_t input_count,
                                     udo_tensor_t **outputs,
                                     size_t output_count,
                                     const udo_run_options_t *options,
                                     udo_run_t **out);

// Releases a pool. NULL is allowed. Runs in flight continue.
void udo_session_pool_release(udo_session_pool_t *pool);

// Creates `count` sessions of a network, each with the frames and depth of the options. The memory
// of a stage is allocated by its first run, or by `udo_network_pool_reserve`. A submission that
// exceeds all sessions is refused with `UDO_ERROR_BUSY`. Prefer `udo_network_model_of_stages` and
// `udo_session_pool_create`.
udo_error_t *udo_network_pool_create(const udo_network_t *network,
                                     const udo_session_options_t *options,
                                     uint32_t count,
                                     udo_network_pool_t **out);

// Like `udo_session_pool_reserve`, which new programs should use.
udo_error_t *udo_network_pool_reserve(const udo_network_pool_t *pool);

// Like `udo_session_pool_submit`, which new programs should use.
udo_error_t *udo_network_pool_submit(const udo_network_pool_t *pool,
                                     const udo_tensor_t *const *inputs,
                                     size_t input_count,
                                     udo_tensor_t **outputs,
                                     size_t output_count,
                                     const udo_run_options_t *options,
                                     udo_run_t **out);

// Releases a pool. NULL is allowed. Runs in flight continue.
void udo_network_pool_release(udo_network_pool_t *pool);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* UDO_H */
