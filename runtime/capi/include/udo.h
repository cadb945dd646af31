/*
 * The runtime for programs in C and C++. Made from the source of libudo; edit that.
 *
 * - A function returns NULL, or an error that its caller releases. On an error nothing is written to where results go.
 * - What is made is released by its own udo_*_release; NULL is fine there. What was made of it lives on.
 * - Threads may share what is passed as const. What is not is the call's alone while it lasts.
 * - Text is UTF-8 and ends with a zero. Text and addresses that are handed out go with the handle that they came from, unless the
 *   function says otherwise.
 * - Structures of options start with their size. One that is shorter than this library's has defaults for the rest; of one that
 *   is longer, what this library does not know has to be zero. NULL is for all defaults.
 * - A number that is none of those listed for its type is refused, and so is a count beyond all that there can be.
 * - A process that was forked has none of the threads of the one before. Unless that had no other thread than the one that forked, its own or
 *   the library's, and was in no call, each call with something that was made before is refused there with UDO_ERROR_INVALID_STATE, and
 *   releasing it leaves it as it is. What the process makes itself works as ever.
 */

#ifndef UDO_H
#define UDO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The version of this header, which `udo_version` says of the library that a program runs with.
#define UDO_VERSION_MAJOR 0
#define UDO_VERSION_MINOR 1
#define UDO_VERSION_PATCH 0
#define UDO_VERSION "0.1.0"

// A version as a number, of which later ones have larger ones, as in `#if UDO_VERSION_NUMBER >= UDO_VERSION_OF(1, 2, 0)`.
#define UDO_VERSION_OF(major, minor, patch) ((major) *1000000 + (minor) *1000 + (patch))
#define UDO_VERSION_NUMBER UDO_VERSION_OF(UDO_VERSION_MAJOR, UDO_VERSION_MINOR, UDO_VERSION_PATCH)


// No error.
#define UDO_ERROR_NONE 0

// An argument is wrong in itself, or does not go with the others.
#define UDO_ERROR_INVALID_ARGUMENT 1

// A heap's limit, the system or a tensor's memory has not as many bytes.
#define UDO_ERROR_OUT_OF_MEMORY 2

// The call does not go with what was called before.
#define UDO_ERROR_INVALID_STATE 3

// A file's contents are not what they should be.
#define UDO_ERROR_INVALID_FILE 4

// A file or folder is not there, or may not be used.
#define UDO_ERROR_INVALID_PATH 5

// It did not happen in the time given.
#define UDO_ERROR_TIMEOUT 6

// The device, or this system, cannot do it.
#define UDO_ERROR_UNSUPPORTED 7

// The device went away.
#define UDO_ERROR_DEVICE_LOST 8

// A number was asked for that open dimensions leave open.
#define UDO_ERROR_DYNAMIC_SHAPE 9

// There is no such device, or it cannot be had.
#define UDO_ERROR_DEVICE_UNAVAILABLE 10

// The shape is not one of those allowed.
#define UDO_ERROR_SHAPE_MISMATCH 11

// Something else has the name already.
#define UDO_ERROR_ALREADY_EXISTS 12

// Somebody else is at it now.
#define UDO_ERROR_BUSY 13

// The caller asked for it to end.
#define UDO_ERROR_CANCELLED 14

// A fault of this library.
#define UDO_ERROR_INTERNAL 15

// The process of a contained package ended, or did not answer in time; the next call has another.
#define UDO_ERROR_WORKER_LOST 16

// The host's processor.
#define UDO_DEVICE_CPU 1

// A GPU.
#define UDO_DEVICE_GPU 2

// A digital signal processor.
#define UDO_DEVICE_DSP 3

// A tensor accelerator.
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

// One byte, 0 or 1.
#define UDO_DTYPE_BOOL 13

// The model has none.
#define UDO_CACHE_NONE 0

// It had nothing of the model.
#define UDO_CACHE_MISS 1

// It had a file of the model.
#define UDO_CACHE_HIT 2

// Its file was damaged, older, or of something else, and was made again.
#define UDO_CACHE_REBUILT 3

// What the model file was prepared with is for another machine or library, and was not used.
#define UDO_CACHE_UNFIT 4

// The model is there, but the file could not be written.
#define UDO_CACHE_SAVE_FAILED 5

// The model's own.
#define UDO_LAYOUT_AS_GIVEN 0

// Batches, channels, rows, columns.
#define UDO_LAYOUT_NCHW 1

// Batches, rows, columns, channels.
#define UDO_LAYOUT_NHWC 2

// One behind the other.
#define UDO_PACKING_1N 0

// Two and two, of elements of two bytes.
#define UDO_PACKING_2N 1

// Four and four, of elements of one byte.
#define UDO_PACKING_4N 2

// Anything.
#define UDO_CONTENTS_UNSET 0

// Zeros.
#define UDO_CONTENTS_ZEROS 1

// It may not.
#define UDO_SHARING_PRIVATE 0

// It may, as a file descriptor. What others write there may come at any time from the first export on, so runs copy it.
#define UDO_SHARING_EXPORTABLE 1

// It may, and the program promises that nobody else is at its bytes while this library is: neither by the descriptor, nor by a mapping or
// another import of it, while a run, a copy or a mapping of the memory is under way. So runs use it where it lies.
#define UDO_SHARING_EXCLUSIVE 2

// To be read.
#define UDO_MAP_READ 1

// To be read and written.
#define UDO_MAP_WRITE 2

// The mapping: it invalidates when it begins, and flushes when it is released.
#define UDO_UPKEEP_BY_MAP 0

// The program, by `udo_map_flush` and `udo_map_invalidate`.
#define UDO_UPKEEP_BY_PROGRAM 1

// The model is refused.
#define UDO_FALLBACK_OFF 0

// It runs on the CPU.
#define UDO_FALLBACK_CPU 1

// It runs on the GPU.
#define UDO_FALLBACK_GPU 2

// It runs on the DSP.
#define UDO_FALLBACK_DSP 3

// It runs on the HTA.
#define UDO_FALLBACK_HTA 4

// They do.
#define UDO_COHERENCE_COHERENT 0

// They do not: lines are flushed and invalidated by who writes and reads them.
#define UDO_COHERENCE_NON_COHERENT 1

// None.
#define UDO_CONTAIN_LISTED 0

// Those that nobody signed who is trusted, which are refused otherwise where anybody is.
#define UDO_CONTAIN_UNSIGNED 1

// All.
#define UDO_CONTAIN_ALL 2

// Of a run, the model's; of a model, medium.
#define UDO_PRIORITY_NONE 0

// When nothing else waits.
#define UDO_PRIORITY_LOW 1

// As usual.
#define UDO_PRIORITY_MEDIUM 2

// Before all others.
#define UDO_PRIORITY_HIGH 3

// As much as the other options say.
#define UDO_PERFORMANCE_NONE 0

// One thread, which sleeps when it has nothing to do.
#define UDO_PERFORMANCE_LOW 1

// Half of the processors.
#define UDO_PERFORMANCE_MEDIUM 2

// All processors.
#define UDO_PERFORMANCE_HIGH 3

// All processors, which keep looking for work between runs.
#define UDO_PERFORMANCE_EXTREME 4

// In as many as the model has.
#define UDO_PRECISION_FULL 0

// In 16, which halves their memory and rounds them.
#define UDO_PRECISION_HALF 1

// In the place of a tensor's number: an input that is left out.
#define UDO_LEFT_OUT 4294967295

// An integer, a truth or a number of a list.
#define UDO_ATTRIBUTE_INT 1

// A number.
#define UDO_ATTRIBUTE_FLOAT 2

// A text.
#define UDO_ATTRIBUTE_TEXT 3

// Integers.
#define UDO_ATTRIBUTE_INTS 4

// Numbers.
#define UDO_ATTRIBUTE_FLOATS 5

// A step of its own.
#define UDO_WORK_STEP 0

// The step of another operation, which it is fused into.
#define UDO_WORK_FUSED 1

// Nobody: its output is its input's bytes.
#define UDO_WORK_VIEW 2

// Nobody: it was computed when the model was compiled.
#define UDO_WORK_FOLDED 3

// The host, which runs other operations as it says.
#define UDO_WORK_CONTROL 4

// A device. Threads may share it, and its memories live on without it.
typedef struct udo_device_t udo_device_t;

// Why a call was refused: a code, and a message that says what, where, found, wanted, and what to do next.
typedef struct udo_error_t udo_error_t;

// A graph that is built. Any thread may build one; once it is finished, threads may share it.
typedef struct udo_graph_t udo_graph_t;

// A launch that was recorded. Threads may share it; it is in flight once at a time.
typedef struct udo_launch_t udo_launch_t;

// Memory mapped to the host. It is at the bytes, as one who reads or writes them, until it is released.
typedef struct udo_map_t udo_map_t;

// Bytes of a device's memory, or a part of them. Threads may share it. The bytes are given back with the last handle, view,
// mapping or tensor of them. Who is at bytes that somebody else writes, or writes those that somebody is at, is refused with
// `UDO_ERROR_BUSY`.
typedef struct udo_memory_t udo_memory_t;

// A model that is ready to run. Threads may share it, and sessions live on without it.
typedef struct udo_model_t udo_model_t;

// A network: what a program names. It has a stage for each of the shapes that it was made for, which is compiled when it is first
// asked for. Threads may share it, and it lives on without what it came from.
typedef struct udo_network_t udo_network_t;

// Sessions of a network, for servers: any thread submits, and each run goes to the first session that is free and takes the stage for
// the shapes of its inputs. Threads share it. An older form of `udo_session_pool_t`, which takes a model of all stages.
typedef struct udo_network_pool_t udo_network_pool_t;

// The networks of a model's file; one of another format than a model file is one network with one stage. Threads may share it.
typedef struct udo_networks_t udo_networks_t;

// A run that was submitted. Threads may share it, and any of them may wait for it. Releasing it changes nothing: the run goes
// on, and keeps what it needs.
typedef struct udo_run_t udo_run_t;

// Operators, built in and of packages, and devices. Threads may share it. What is made of it lives on by itself.
typedef struct udo_runtime_t udo_runtime_t;

// The memory of one run at a time. Threads may share it, and any of them may submit, callbacks included. While one runs the session
// itself (`udo_session_run`, `udo_session_run_host`) or reserves memory for it, others that come to it are refused with
// `UDO_ERROR_BUSY`; those that are to run at once have a session each.
typedef struct udo_session_t udo_session_t;

// Sessions of one model, for servers: any thread submits, and each run goes to the first session that is free. Threads share it.
typedef struct udo_session_pool_t udo_session_pool_t;

// Runs that begin one after the other. Threads may share it.
typedef struct udo_stream_t udo_stream_t;

// Which operations of a graph a device takes.
typedef struct udo_support_t udo_support_t;

// A tensor: what it is, and the memory where it lies, which it keeps.
typedef struct udo_tensor_t udo_tensor_t;

// What elements a tensor has, and how they lie in memory; dimensions may be open.
typedef struct udo_tensor_spec_t udo_tensor_spec_t;

// Memory that sessions share, in turns. Threads may share it.
typedef struct udo_workspace_t udo_workspace_t;

// The kind of an error: one of `UDO_ERROR_*`. Numbers are never reused.
typedef uint32_t udo_error_code_t;

// A package of a runtime. Texts are the runtime's and go with it.
typedef struct {
    // Its name.
    const char *name;
    // Its version.
    const char *version;
    // Its registration library; "" for what is linked into this library.
    const char *path;
    // Whether its code runs in a process of its own.
    bool is_contained;
} udo_package_report_t;

// The kind of a device's cores: one of `UDO_DEVICE_*`.
typedef uint32_t udo_device_kind_t;

// What of a device's memory is in use, in bytes.
typedef struct {
    // The most bytes that may be in use at once.
    uint64_t limit_bytes;
    // Bytes in use now.
    uint64_t current_bytes;
    // The most bytes that were in use at once.
    uint64_t peak_bytes;
    // How many memories there are now.
    uint64_t memories;
    // Bytes of imported memories, which the others do not count.
    uint64_t imported_bytes;
} udo_memory_stats_t;

// What a mapping is for: one of `UDO_MAP_*`.
typedef uint32_t udo_map_access_t;

// Who keeps host and device in step while memory is mapped: one of `UDO_UPKEEP_*`.
typedef uint32_t udo_map_upkeep_t;

// Whether memory may be given to other processes: one of `UDO_SHARING_*`.
typedef uint32_t udo_sharing_t;

// The type of elements: one of `UDO_DTYPE_*`.
typedef uint32_t udo_dtype_t;

// The order of dimensions: one of `UDO_LAYOUT_*`.
typedef uint32_t udo_layout_t;

// How batches lie next to each other: one of `UDO_PACKING_*`.
typedef uint32_t udo_packing_t;

// What integers stand for: `real = scale * (q - zero_point)`.
typedef struct {
    // What a step of one stands for.
    float scale;
    // The integer that stands for 0.
    int32_t zero_point;
} udo_encoding_t;

// The extents that a dimension of a description may have.
typedef struct {
    // The least.
    uint64_t least;
    // The most; the largest number there is, where the dimension is open without a bound.
    uint64_t most;
} udo_range_t;

// What the cache of a model was: one of `UDO_CACHE_*`.
typedef uint32_t udo_cache_outcome_t;

// Who does the work of an operation: one of `UDO_WORK_*`.
typedef uint32_t udo_work_t;

// Where an operation runs. Texts are the model's and go with it.
typedef struct {
    // Its name.
    const char *name;
    // Its operator.
    const char *op;
    // The package of its kernel; "" where nothing computes it.
    const char *package;
    // The core that runs it, as in "dsp:v68".
    const char *core;
    // Who does its work.
    udo_work_t work;
} udo_op_report_t;

// A core that was asked for and did not take an operation, and where that went. Texts are the model's and go with it.
typedef struct {
    // The operation's name.
    const char *name;
    // Its operator.
    const char *op;
    // The core that is preferred: the first of those asked for.
    const char *selected;
    // The core that did not take it.
    const char *failed;
    // Why not.
    const char *reason;
    // The core that runs it.
    const char *target;
} udo_fallback_report_t;

// What the plan of a model takes of one memory, in bytes: sessions have an arena and scratch each, and share the rest.
typedef struct {
    // The memory's name; the text is the model's and goes with it.
    const char *memory;
    // Of a session: what operations give each other.
    uint64_t arena_bytes;
    // Of a session: what operations take for themselves.
    uint64_t scratch_bytes;
    // Constants as the model has them.
    uint64_t constant_bytes;
    // Constants that operations have in a form of their own.
    uint64_t packed_bytes;
    // What operations derived of shapes.
    uint64_t geometry_bytes;
} udo_plan_memory_t;

// What a run copied between its tensors and memory of its session. It uses the others where they lie.
typedef struct {
    // How many inputs were copied.
    size_t inputs;
    // How many outputs were copied.
    size_t outputs;
    // Bytes of both.
    uint64_t bytes;
} udo_copies_t;

// What is in fresh memory: one of `UDO_CONTENTS_*`.
typedef uint32_t udo_contents_t;

// How memory is allocated. NULL in its place, or zeros, are the defaults.
typedef struct {
    // `sizeof(udo_alloc_options_t)`.
    size_t size;
    // The first byte is at a multiple of this power of two; 0 is for 64.
    uint64_t align_bytes;
    // What is in it.
    udo_contents_t contents;
    // Whether it may be given to other processes.
    udo_sharing_t sharing;
    // Whose it is in statistics; NULL is for "program".
    const char *owner;
} udo_alloc_options_t;

// What the value of an attribute is: one of `UDO_ATTRIBUTE_*`.
typedef uint32_t udo_attribute_kind_t;

// An attribute of an operation: its name, and a value of the kind that it says. What is of another kind is not looked at.
typedef struct {
    // Its name.
    const char *name;
    // Which of the fields below is its value.
    udo_attribute_kind_t kind;
    // How many integers or numbers there are, where it is several.
    size_t count;
    // An integer, a truth or a number of a list.
    int64_t int_value;
    // A number.
    double float_value;
    // A text.
    const char *text;
    // Integers.
    const int64_t *ints;
    // Numbers.
    const double *floats;
} udo_attribute_t;

// Whether host and device see at once what the other writes: one of `UDO_COHERENCE_*`.
typedef uint32_t udo_coherence_t;

// Devices of one kind to be made. Those of one kind are numbered in order.
typedef struct {
    // What kernels for them are written for, as in "dsp:v68".
    const char *core;
    // How many; at most 1024 devices in all.
    uint32_t count;
    // Cores of each, at most 64; 0 is for as many as this process may use of the CPU's, and for one of others.
    uint32_t cores;
    // Bytes of each one's memory; 0 is for what the machine has.
    uint64_t memory_bytes;
    // Whether host and device see at once what the other writes.
    udo_coherence_t coherence;
} udo_device_spec_t;

// The extent of a dimension that a model only names, or a range of extents, for all of which one plan is made.
typedef struct {
    // The dimension.
    const char *name;
    // The least extent.
    uint64_t least;
    // The most; as much as the least, where the extent is fixed.
    uint64_t most;
} udo_named_dim_t;

// A setting by name. `max_memory`, `threads`, `spin_us` (how long idle threads look for work), `shapes_kept`, `vtcm_bytes`,
// `gpu_storage` (`f32` or `f16`), `fast_math` (`none` or `bf16`), `device_limits` (`kernels` or `documented`, of what is known of the
// devices that cores stand for), `random_ranges` (where a model in numbers is quantized for the DSP while it is loaded, over how many
// random inputs; 0, as nothing, has it refused), `dim.NAME` (an extent, or a range as `1..512`), `in_place.INPUT` (the output that
// runs may have in the place of that input, as one tensor), `given.INPUT` (1 where runs give an input for which the model has a
// default, an initializer of its name; it is no input otherwise) and `bind.TYPE` (the package whose operator takes nodes of that type,
// whatever their domain; with a domain, as `bind.com.acme:Blur`, those of this domain) are there.
typedef struct {
    // Its name.
    const char *name;
    // Its value, as text.
    const char *value;
} udo_extension_t;

// An input on the host.
typedef struct {
    // Its elements, of the type that the model's input has.
    const void *data;
    // How many bytes they have.
    size_t size_bytes;
    // Its dimensions; NULL is for those of the model, if they are fixed.
    const int64_t *dims;
    // How many there are.
    size_t rank;
} udo_host_input_t;

// Where an output goes on the host.
typedef struct {
    // Where its elements go.
    void *data;
    // How many bytes there is room for.
    size_t capacity_bytes;
    // How many bytes its elements have. A run sets it.
    size_t size_bytes;
} udo_host_output_t;

// What happens to a node that none of the cores takes: one of `UDO_FALLBACK_*`.
typedef uint32_t udo_fallback_t;

// How much of the host runs may take: one of `UDO_PERFORMANCE_*`.
typedef uint32_t udo_performance_t;

// What matters most: one of `UDO_PRIORITY_*`.
typedef uint32_t udo_priority_t;

// In how many bits floating-point values are stored between operations: one of `UDO_PRECISION_*`.
typedef uint32_t udo_precision_t;

// How a model is loaded. NULL in its place, or zeros, are the defaults.
typedef struct {
    // `sizeof(udo_load_options_t)`.
    size_t size;
    // The most bytes that packed constants, scratch and all sessions take together; 0 is for what the machine has.
    uint64_t max_memory_bytes;
    // How many threads runs of all sessions share; 0 is for one.
    uint32_t threads;
    // What happens to a node that none of the cores takes.
    udo_fallback_t fallback;
    // The cores to use, the preferred one first, as in "dsp,cpu"; NULL is for "cpu".
    const char *cores;
    // The extents of dimensions that the model only names; NULL is for none.
    const udo_named_dim_t *dims;
    // How many there are.
    size_t dim_count;
    // How much of the host runs may take: sets threads, unless `threads` does. Cores other than the CPU have no modes but 0 as the
    // preferred one, and refuse others with `UDO_ERROR_UNSUPPORTED`.
    udo_performance_t performance;
    // What matters most among submitted runs that do not say.
    udo_priority_t priority;
    // In how many bits values are stored. Half precision is of the GPU; where another core is preferred, it is refused with
    // `UDO_ERROR_UNSUPPORTED`.
    udo_precision_t precision;
    // Zero.
    uint32_t reserved;
    // Settings by name, of which the last one of a name counts; NULL is for none.
    const udo_extension_t *extensions;
    // How many there are.
    size_t extension_count;
    // The folder where what is packed of the model is kept for the next process, which is there; NULL is for none.
    const char *cache_dir;
    // Your own count of what is in that folder: what an older one left is made again, and a newer one is refused.
    uint32_t cache_version;
    // Other than 0: the model holds its graph, so that it can be exported, and that cache holds it as well, so that
    // `udo_model_restore` needs nothing else.
    uint32_t is_exportable;
} udo_load_options_t;

// What is called once a run has ended, before who waits for it goes on, on some thread of the library: with what was given
// for it, and NULL or the error, which is there until the call returns. It may submit, to the run's own session as well, whether or not
// the submission of the run has returned, and release; it must not wait for runs, which is refused with `UDO_ERROR_INVALID_STATE`.
typedef void (*udo_done_fn_t)(void *user, const udo_error_t *error);

// How a run is submitted. NULL in its place, or zeros, are the defaults.
typedef struct {
    // `sizeof(udo_run_options_t)`.
    size_t size;
    // How many nanoseconds it may take from its submission to its end; 0 is for as many as it takes. One that takes longer is told
    // to end, and keeps its tensors until it does.
    uint64_t timeout_ns;
    // What matters most; 0 is for what the model says.
    udo_priority_t priority;
    // Behind which other runs it begins; NULL is for none.
    const udo_stream_t *stream;
    // What is called exactly once for each submission; NULL is for nothing.
    udo_done_fn_t on_done;
    // What it is called with.
    void *user;
    // The numbers of the cores that it is on, of the session's device; NULL is for what the session says.
    const uint32_t *cores;
    // How many there are.
    size_t core_count;
} udo_run_options_t;

// Which packages are contained beside those that are listed as such: one of `UDO_CONTAIN_*`.
typedef uint32_t udo_contain_t;

// What a runtime is made of. NULL in its place, or zeros, are the defaults.
typedef struct {
    // `sizeof(udo_runtime_options_t)`.
    size_t size;
    // Paths of packages of operators: their folders, `dist` folders or registration libraries.
    const char *const *packages;
    // How many there are.
    size_t package_count;
    // The devices to make; NULL is for one of each kind.
    const udo_device_spec_t *devices;
    // How many specifications there are.
    size_t device_count;
    // Paths of packages, beside those of `packages`, whose code runs in a process of its own, the worker: what it does wrong there is an
    // error of the call that did it. That needs Linux.
    const char *const *contained;
    // How many there are.
    size_t contained_count;
    // Which of `packages` are contained as well.
    udo_contain_t contain;
    // Zero.
    uint32_t reserved;
    // How many nanoseconds a call of a contained package's code may take before its worker is ended; 0 is for a minute.
    uint64_t contain_timeout_ns;
    // The program of workers; NULL is for the file `udo-worker` beside the program or this library, in the folder above, or in the folder
    // `bin` there.
    const char *worker;
    // Files of keys of those who are trusted, as `udo sign --new-key` makes them. Where there are any, or `trusted_keys`, packages that
    // are signed by none of these are refused.
    const char *const *trusted_key_files;
    // How many there are.
    size_t trusted_key_file_count;
    // The same as text: lines as in such files. An empty text trusts nobody; NULL is for none.
    const char *trusted_keys;
    // The lock file, as `udo lock` writes it, that packages have to be as in; NULL is for none. No file is looked for.
    const char *lock_file;
} udo_runtime_options_t;

// How a session is made. NULL in its place, or zeros, are the defaults.
typedef struct {
    // `sizeof(udo_session_options_t)`.
    size_t size;
    // The device in whose memory tensors lie that runs make, and which computes what the model has for devices of its kind; of another
    // kind it is the first device. NULL is for the CPU.
    const udo_device_t *device;
    // How many submitted runs may be at work at once, each in memory of its own, which is taken with the first of them; 0 is for
    // one.
    uint32_t frames;
    // How many submitted runs more may wait; a submission beyond them is refused with `UDO_ERROR_BUSY`. 0 is for 64.
    uint32_t depth;
    // Whose arenas and scratch runs use, in turns with other sessions; NULL is for memory of its own.
    const udo_workspace_t *workspace;
    // The numbers of the cores that submitted runs are on, as many as the model has threads: those of the device of the core that the
    // model prefers. NULL is for whichever are free.
    const uint32_t *cores;
    // How many there are.
    size_t core_count;
} udo_session_options_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The kind of an error; `UDO_ERROR_NONE` of NULL.
udo_error_code_t udo_error_code(const udo_error_t *error);

// The number that `OH_NN_ReturnCode` of `NNRt` has for an error; 0, its success, of NULL.
uint32_t udo_error_code_nnrt(const udo_error_t *error);

// What an error says, in UTF-8: what, where, found, wanted, next step. It is the error's and goes with it. Of NULL it is an
// empty text.
const char *udo_error_message(const udo_error_t *error);

// Releases an error; NULL is fine.
void udo_error_release(udo_error_t *error);

// The version of this library, as in "1.2.3".
const char *udo_version(void);

// Makes a runtime with the built-in operators, those of packages, and one emulated device of each kind.
udo_error_t *udo_runtime_create(const udo_runtime_options_t *options, udo_runtime_t **out);

// Counts the devices of a runtime.
udo_error_t *udo_runtime_device_count(const udo_runtime_t *runtime, size_t *out);

// Opens the device at a place among all that there are, from 0 on.
udo_error_t *udo_runtime_device(const udo_runtime_t *runtime, size_t index, udo_device_t **out);

// Has a device go away: runs on it and in its queue fail once each, and so does what is submitted to it, until it is reset. For
// tests of programs that have to live with that.
udo_error_t *udo_runtime_lose_device(const udo_runtime_t *runtime,
                                     const udo_device_t *device);

// Brings a device that was lost back. What lies in its memory is as before.
udo_error_t *udo_runtime_reset_device(const udo_runtime_t *runtime, const udo_device_t *device);

// Releases a runtime; NULL is fine. Devices, models and what else was made of it stay.
void udo_runtime_release(udo_runtime_t *runtime);

// Counts the packages of a runtime: what is built in, and those that were opened.
udo_error_t *udo_runtime_package_count(const udo_runtime_t *runtime, size_t *out);

// A package of a runtime, in the order in which they were opened; what is built in is at 0.
udo_error_t *udo_runtime_package(const udo_runtime_t *runtime, size_t index, udo_package_report_t *out);

// What packages of this process did wrong, since this was called last, where no call could tell: as their kernels were freed; a line
// each, and "" where there is nothing. A program that wants to be sure that all went well asks at its end. The text is the calling
// thread's, and goes with its next call of this function.
udo_error_t *udo_take_faults(const char **out);

// Opens the device of a kind with this number among those of the kind, from 0 on.
udo_error_t *udo_device_open(const udo_runtime_t *runtime,
                             udo_device_kind_t kind,
                             uint32_t index,
                             udo_device_t **out);

// What people call a device; the text is the handle's and goes with it.
udo_error_t *udo_device_name(const udo_device_t *device, const char **out);

// The kind of a device.
udo_error_t *udo_device_kind(const udo_device_t *device, udo_device_kind_t *out);

// The number of a device among those of its kind.
udo_error_t *udo_device_index(const udo_device_t *device, uint32_t *out);

// What of a device's memory is in use.
udo_error_t *udo_device_memory_stats(const udo_device_t *device, udo_memory_stats_t *out);

// Releases a handle of a device; NULL is fine.
void udo_device_release(udo_device_t *device);

// How many cores a device has, whose numbers are from 0 on.
udo_error_t *udo_device_core_count(const udo_device_t *device, uint32_t *out);

// Waits until the submitted runs that have named a core of a device, or are at work on it, have ended or left it; not for those that
// are submitted meanwhile.
udo_error_t *udo_device_sync_core(const udo_runtime_t *runtime,
                                  const udo_device_t *device,
                                  uint32_t core);

// Allocates bytes of a device's memory.
udo_error_t *udo_memory_alloc(const udo_device_t *device,
                              uint64_t size,
                              const udo_alloc_options_t *options,
                              udo_memory_t **out);

// Counts the bytes of a memory or view.
udo_error_t *udo_memory_size(const udo_memory_t *memory, uint64_t *out);

// The device of a memory, as a handle of its own.
udo_error_t *udo_memory_device(const udo_memory_t *memory, udo_device_t **out);

// Copies bytes of a memory, from `offset` on, to the host. All are there when it returns.
udo_error_t *udo_memory_read(const udo_memory_t *memory, uint64_t offset, void *into, size_t len);

// Copies bytes of the host to those of a memory from `offset` on. All are there when it returns.
udo_error_t *udo_memory_write(const udo_memory_t *memory, uint64_t offset, const void *from, size_t len);

// Sets all bytes of a memory.
udo_error_t *udo_memory_fill(const udo_memory_t *memory, uint8_t value);

// Copies bytes of a memory to another one, of whichever device. Where both are of one memory and overlap, what was there
// before is copied.
udo_error_t *udo_memory_copy(const udo_memory_t *to,
                             uint64_t to_offset,
                             const udo_memory_t *from,
                             uint64_t from_offset,
                             uint64_t len);

// A part of a memory, which it keeps alive; offsets count from the part's start.
udo_error_t *udo_memory_view(const udo_memory_t *memory, uint64_t offset, uint64_t len, udo_memory_t **out);

// Has the device see what the host wrote to bytes through mappings that have ended; in whole lines of 64 bytes.
udo_error_t *udo_memory_flush(const udo_memory_t *memory,
                              uint64_t offset,
                              uint64_t len);

// Has mappings of the host see bytes as they are on the device; in whole lines of 64 bytes. What the host wrote and did
// not flush is lost.
udo_error_t *udo_memory_invalidate(const udo_memory_t *memory,
                                   uint64_t offset,
                                   uint64_t len);

// Maps bytes of a memory to the host.
udo_error_t *udo_memory_map(const udo_memory_t *memory,
                            uint64_t offset,
                            uint64_t len,
                            udo_map_access_t access,
                            udo_map_upkeep_t upkeep,
                            udo_map_t **out);

// The address of a mapping's first byte, until it is released. What is mapped to be read is not to be written.
udo_error_t *udo_map_data(udo_map_t *map,
                          void **out);

// Has the device see bytes of a mapping, counted from its first one; in whole lines of 64 bytes.
udo_error_t *udo_map_flush(udo_map_t *map, uint64_t offset, uint64_t len);

// Has the host see bytes of a mapping, counted from its first one, as they are on the device; in whole lines of 64 bytes.
// What was written to them and not flushed is lost.
udo_error_t *udo_map_invalidate(udo_map_t *map,
                                uint64_t offset,
                                uint64_t len);

// Ends a mapping; NULL is fine. What was written through one that keeps up by itself is on the device then.
void udo_map_release(udo_map_t *map);

// Releases a memory or view; NULL is fine.
void udo_memory_release(udo_memory_t *memory);

// Makes memory of a device of the bytes of a file from `offset`, a multiple of the system's page, up to `size`. The
// descriptor stays the caller's. A file that is cut short while it is memory ends the process at the next look at what is
// gone. Others may write the file at any time, so runs copy it. On Linux alone.
udo_error_t *udo_memory_import_fd(const udo_device_t *device,
                                  int32_t fd,
                                  uint64_t size,
                                  uint64_t offset,
                                  udo_memory_t **out);

// The same with what the program says of the file's other users: by `UDO_SHARING_EXCLUSIVE` nobody else is at the bytes while this library
// is, so that runs use them where they lie; by the other codes it is as `udo_memory_import_fd`. On Linux alone.
udo_error_t *udo_memory_import_fd_as(const udo_device_t *device,
                                     int32_t fd,
                                     uint64_t size,
                                     uint64_t offset,
                                     udo_sharing_t sharing,
                                     udo_memory_t **out);

// A descriptor of the file that a memory lies in, for another process; the caller closes it. The memory was allocated with
// `UDO_SHARING_EXPORTABLE` or `UDO_SHARING_EXCLUSIVE`, or imported. The first descriptor of memory without that promise is refused with
// `UDO_ERROR_BUSY` while somebody is at the memory. On Linux alone.
udo_error_t *udo_memory_export_fd(const udo_memory_t *memory,
                                  int32_t *out);

// Describes tensors of a type and dimensions, of which -1 is an open one. A scalar has rank 0.
udo_error_t *udo_tensor_spec_create(udo_dtype_t dtype,
                                    const int64_t *dims,
                                    size_t rank,
                                    udo_tensor_spec_t **out);

// Says the order of four dimensions.
udo_error_t *udo_tensor_spec_set_layout(udo_tensor_spec_t *spec, udo_layout_t layout);

// Says how batches, the first dimension, lie next to each other.
udo_error_t *udo_tensor_spec_set_packing(udo_tensor_spec_t *spec, udo_packing_t packing);

// Says what integers stand for: `real = scale * (q - zero_point)`. One scale and zero point with `axis` -1 are for all
// elements; else there are as many as the axis has positions.
udo_error_t *udo_tensor_spec_set_quantization(udo_tensor_spec_t *spec,
                                              const float *scales,
                                              const int32_t *zero_points,
                                              size_t count,
                                              int32_t axis);

// Counts the scales and zero points of a description: 0 where its elements stand for themselves.
udo_error_t *udo_tensor_spec_encoding_count(const udo_tensor_spec_t *spec, size_t *out);

// The axis of which each scale and zero point is a position's; -1 where there is one of all elements, or none.
udo_error_t *udo_tensor_spec_encoding_axis(const udo_tensor_spec_t *spec,
                                           int32_t *out);

// A scale and zero point of a description.
udo_error_t *udo_tensor_spec_encoding(const udo_tensor_spec_t *spec, size_t index, udo_encoding_t *out);

// The type of the elements.
udo_error_t *udo_tensor_spec_dtype(const udo_tensor_spec_t *spec, udo_dtype_t *out);

// Counts the dimensions.
udo_error_t *udo_tensor_spec_rank(const udo_tensor_spec_t *spec, size_t *out);

// Writes the dimensions, of which -1 is one that is not fixed, to a place for `capacity` of them.
udo_error_t *udo_tensor_spec_dims(const udo_tensor_spec_t *spec, int64_t *dims, size_t capacity);

// Counts the elements; 1 of a scalar. An open dimension is refused with `UDO_ERROR_DYNAMIC_SHAPE`.
udo_error_t *udo_tensor_spec_elements(const udo_tensor_spec_t *spec, uint64_t *out);

// Counts the bytes of the elements. An open dimension is refused with `UDO_ERROR_DYNAMIC_SHAPE`.
udo_error_t *udo_tensor_spec_byte_size(const udo_tensor_spec_t *spec, uint64_t *out);

// Counts the bytes that a tensor takes in memory, those included that fill its last group of batches. An open dimension is
// refused with `UDO_ERROR_DYNAMIC_SHAPE`.
udo_error_t *udo_tensor_spec_storage_size(const udo_tensor_spec_t *spec,
                                          uint64_t *out);

// The extents that a dimension may have: the same ones at either end, where it is fixed.
udo_error_t *udo_tensor_spec_range(const udo_tensor_spec_t *spec, size_t index, udo_range_t *out);

// Releases a description; NULL is fine.
void udo_tensor_spec_release(udo_tensor_spec_t *spec);

// Makes a tensor in memory of its own, as large as it takes.
udo_error_t *udo_tensor_create(const udo_device_t *device, const udo_tensor_spec_t *spec, udo_tensor_t **out);

// Makes a tensor in memory of its own of `size` bytes, which may be more than it takes. One with open dimensions is given
// its shape by `udo_tensor_reshape`, or by the run whose output it is.
udo_error_t *udo_tensor_create_sized(const udo_device_t *device,
                                     const udo_tensor_spec_t *spec,
                                     uint64_t size,
                                     udo_tensor_t **out);

// Makes a tensor in memory that is there, of which there may be more than it takes. One with open dimensions is given its
// shape as one of `udo_tensor_create_sized` is.
udo_error_t *udo_tensor_create_from_memory(const udo_tensor_spec_t *spec,
                                           const udo_memory_t *memory,
                                           udo_tensor_t **out);

// The memory that a tensor lies in, as a handle of its own.
udo_error_t *udo_tensor_memory(const udo_tensor_t *tensor, udo_memory_t **out);

// What a tensor is, as a description of its own: after a run, with the shape that the run gave it.
udo_error_t *udo_tensor_spec(const udo_tensor_t *tensor, udo_tensor_spec_t **out);

// Gives a tensor another shape, for which its memory has room; its bytes stay as they are. One that was made with open
// dimensions takes those that these allow.
udo_error_t *udo_tensor_reshape(udo_tensor_t *tensor,
                                const int64_t *dims,
                                size_t rank);

// Copies all elements of a tensor to the device, of which `len` bytes are given, one batch behind the other.
udo_error_t *udo_tensor_write(const udo_tensor_t *tensor, const void *from, size_t len);

// Copies all elements of a tensor to the host, where `len` bytes are for them, one batch behind the other.
udo_error_t *udo_tensor_read(const udo_tensor_t *tensor, void *into, size_t len);

// Releases a tensor; NULL is fine.
void udo_tensor_release(udo_tensor_t *tensor);

// Checks options without loading anything: what is refused here is what loading a model with them would refuse, whatever the model.
udo_error_t *udo_load_options_check(const udo_load_options_t *options);

// Loads a model of a file: ONNX, or a model file of this toolkit. The file is read alone, and stays as it is for as long
// as the model is there.
udo_error_t *udo_model_load_file(const udo_runtime_t *runtime,
                                 const char *path,
                                 const udo_load_options_t *options,
                                 udo_model_t **out);

// Loads a model of the bytes of such a file, which are copied.
udo_error_t *udo_model_load_bytes(const udo_runtime_t *runtime,
                                  const void *bytes,
                                  size_t len,
                                  const udo_load_options_t *options,
                                  udo_model_t **out);

// Counts the inputs of a model.
udo_error_t *udo_model_input_count(const udo_model_t *model, size_t *out);

// Counts the outputs of a model.
udo_error_t *udo_model_output_count(const udo_model_t *model, size_t *out);

// The name of an input; the text is the model's and goes with it.
udo_error_t *udo_model_input_name(const udo_model_t *model, size_t index, const char **out);

// The name of an output; the text is the model's and goes with it.
udo_error_t *udo_model_output_name(const udo_model_t *model, size_t index, const char **out);

// What an input takes, as a description of its own.
udo_error_t *udo_model_input_spec(const udo_model_t *model, size_t index, udo_tensor_spec_t **out);

// What an output is, as a description of its own. Where that depends on the inputs' shapes, it is what the model declares, whose
// dimensions may be open, or refused with `UDO_ERROR_DYNAMIC_SHAPE` if it declares nothing; `udo_session_output_spec` says it after
// a run.
udo_error_t *udo_model_output_spec(const udo_model_t *model,
                                   size_t index,
                                   udo_tensor_spec_t **out);

// Releases a model; NULL is fine.
void udo_model_release(udo_model_t *model);

// Makes the model that an earlier process left in the folder `options->cache_dir`: one that was compiled of a graph, or loaded
// as one that can be exported. `name` is what the graph was called; NULL is for the only one there is.
udo_error_t *udo_model_restore(const udo_runtime_t *runtime,
                               const char *name,
                               const udo_load_options_t *options,
                               udo_model_t **out);

// Writes a model that was loaded or compiled as one that can be exported into `bytes`, with all that is packed for it:
// `udo_model_load_bytes` takes it, in this process or another. `out` gets how many bytes that are; where `bytes` is NULL and `len`
// 0, nothing else happens, and fewer than those are refused.
udo_error_t *udo_model_export(const udo_model_t *model,
                              void *bytes,
                              size_t len,
                              size_t *out);

// Counts what the model's cache gave so far; nothing where it has none.
udo_error_t *udo_model_cache_restored(const udo_model_t *model, size_t *out);

// Counts what had to be packed so far although the model has a cache, as that did not have it.
udo_error_t *udo_model_cache_packed(const udo_model_t *model, size_t *out);

// What the model's cache was, and whether its file could be written.
udo_error_t *udo_model_cache_outcome(const udo_model_t *model, udo_cache_outcome_t *out);

// Why the cache's file was made again or not saved when the model was made; NULL where all went well. The text is the model's and
// goes with it.
udo_error_t *udo_model_cache_warning(const udo_model_t *model,
                                     const char **out);

// Counts the operations of a model that its plan knows: none where the shapes that each run brings are planned for then.
udo_error_t *udo_model_op_count(const udo_model_t *model,
                                size_t *out);

// Where an operation of a model runs, in the order of the graph.
udo_error_t *udo_model_op(const udo_model_t *model, size_t index, udo_op_report_t *out);

// Counts refusals of operations that run elsewhere: 0 where all run on the core that is preferred.
udo_error_t *udo_model_fallback_count(const udo_model_t *model, size_t *out);

// Which core did not take which operation, why, and where it runs.
udo_error_t *udo_model_fallback(const udo_model_t *model, size_t index, udo_fallback_report_t *out);

// Counts the memories that the plan of a model uses: none where each run's shapes are planned for then.
udo_error_t *udo_model_memory_count(const udo_model_t *model, size_t *out);

// What the plan of a model takes of one memory.
udo_error_t *udo_model_memory(const udo_model_t *model, size_t index, udo_plan_memory_t *out);

// All that a model says of itself, as JSON: its inputs and outputs, the cores that were asked for in order, nodes with their cores,
// what fell back from which core to which and why, what devices exchange, memories and notices. The text is the model's and goes with it.
udo_error_t *udo_model_json(const udo_model_t *model,
                            const char **out);

// As `udo_model_json`, of the plan that the last run of a session took, a submitted one or another; before there was one, of that which it
// is prepared for. So it says what runs where of models that leave shapes open. Parts that were planned in the run are listed one
// behind the other. The text is the calling thread's, and goes with its next call of this function.
udo_error_t *udo_session_json(const udo_session_t *session,
                              const char **out);

// What the devices of a runtime are at now, for people: what of their memories is in use, by whom, and how many runs wait or are in
// flight. The text is the calling thread's, and goes with its next call of this function.
udo_error_t *udo_runtime_report(const udo_runtime_t *runtime,
                                const char **out);

// Opens the networks of a model's file, which is read alone, and stays as it is for as long as they are there.
udo_error_t *udo_networks_open_file(const udo_runtime_t *runtime,
                                    const char *path,
                                    const udo_load_options_t *options,
                                    udo_networks_t **out);

// Opens the networks of the bytes of such a file, which are copied.
udo_error_t *udo_networks_open_bytes(const udo_runtime_t *runtime,
                                     const void *bytes,
                                     size_t len,
                                     const udo_load_options_t *options,
                                     udo_networks_t **out);

// Counts networks.
udo_error_t *udo_networks_count(const udo_networks_t *networks, size_t *out);

// The network at a place among those of a file, from 0 on.
udo_error_t *udo_networks_at(const udo_networks_t *networks, size_t index, udo_network_t **out);

// The network of a name among those of a file.
udo_error_t *udo_networks_find(const udo_networks_t *networks,
                               const char *network_name,
                               udo_network_t **out);

// Releases networks; NULL is fine. Those that were handed out, and models of them, stay.
void udo_networks_release(udo_networks_t *networks);

// The name of a network; the text is the handle's and goes with it.
udo_error_t *udo_network_name(const udo_network_t *network, const char **out);

// Counts the stages of a network.
udo_error_t *udo_network_stage_count(const udo_network_t *network, size_t *out);

// What a network is, for people: its name, and the inputs and outputs of its stages. The text is the handle's and goes with it.
udo_error_t *udo_network_text(const udo_network_t *network,
                              const char **out);

// Counts the inputs of a network.
udo_error_t *udo_network_input_count(const udo_network_t *network, size_t *out);

// Counts the outputs of a network.
udo_error_t *udo_network_output_count(const udo_network_t *network, size_t *out);

// The name of an input of a network; the text is the handle's and goes with it.
udo_error_t *udo_network_input_name(const udo_network_t *network, size_t index, const char **out);

// The name of an output of a network; the text is the handle's and goes with it.
udo_error_t *udo_network_output_name(const udo_network_t *network, size_t index, const char **out);

// What an input takes in a stage, as a description of its own: with dimensions that are open or have ranges, where the stage has.
udo_error_t *udo_network_input_spec(const udo_network_t *network,
                                    size_t stage,
                                    size_t index,
                                    udo_tensor_spec_t **out);

// What an output is in a stage, which is compiled if it was not, as a description of its own. Where that depends on the inputs'
// shapes, it is said as `udo_model_output_spec` says it.
udo_error_t *udo_network_output_spec(const udo_network_t *network,
                                     size_t stage,
                                     size_t index,
                                     udo_tensor_spec_t **out);

// The stage that runs tensors of these shapes, in the order of the inputs: one for exactly them, else the tightest whose ranges have
// them; the only one there is also takes as many elements in another shape. None is refused with `UDO_ERROR_SHAPE_MISMATCH`,
// which lists the shapes of all stages.
udo_error_t *udo_network_stage_for(const udo_network_t *network,
                                   const udo_tensor_t *const *inputs,
                                   size_t input_count,
                                   size_t *out);

// The model of a stage, which is compiled when it is first asked for, and is the same each time.
udo_error_t *udo_network_model(const udo_network_t *network, size_t stage, udo_model_t **out);

// The model of all stages of a network: each run of its sessions and pools takes the stage for the shapes of its inputs, which is compiled
// when the first of them does. `udo_model_load_file` gives the same of a file that has one network.
udo_error_t *udo_network_model_of_stages(const udo_network_t *network,
                                         udo_model_t **out);

// Makes a session of a network: of one of its stages, from 0 on, or of all of them where `stage` is -1. Then each run takes the stage
// for the shapes of its inputs, as `udo_network_stage_for` finds it, and a stage has no memory before a run wants it.
udo_error_t *udo_network_session(const udo_network_t *network,
                                 int32_t stage,
                                 const udo_session_options_t *options,
                                 udo_session_t **out);

// Releases a network; NULL is fine. Models of it stay.
void udo_network_release(udo_network_t *network);

// Makes a graph with nothing in it. Messages call it by its name; NULL is for none.
udo_error_t *udo_graph_create(const char *name, udo_graph_t **out);

// Adds a tensor of this description, whose dimensions may be open; its number goes to `out`. NULL in the place of a name is for
// one that says the number.
udo_error_t *udo_graph_add_tensor(udo_graph_t *graph,
                                  const udo_tensor_spec_t *spec,
                                  const char *name,
                                  uint32_t *out);

// Makes a tensor a constant with these elements, which are copied: once, and as many bytes as it has.
udo_error_t *udo_graph_set_data(udo_graph_t *graph, uint32_t tensor, const void *bytes, size_t len);

// Says what a tensor's integers stand for, as `udo_tensor_spec_set_quantization` does: once.
udo_error_t *udo_graph_set_quantization(udo_graph_t *graph,
                                        uint32_t tensor,
                                        const float *scales,
                                        const int32_t *zero_points,
                                        size_t count,
                                        int32_t axis);

// Adds an operation by its name; its number goes to `out`. Where `domain` is NULL, it is one of `NNRt`, as "CONV2D", else an
// operator of this toolkit or of a package; "" is the domain of ONNX's own. An input that is `UDO_LEFT_OUT` is left out. A call
// that is refused leaves the graph as it was.
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

// Says which tensors a run is given and gives back, in order: once.
udo_error_t *udo_graph_set_io(udo_graph_t *graph,
                              const uint32_t *inputs,
                              size_t input_count,
                              const uint32_t *outputs,
                              size_t output_count);

// Checks the graph as a whole, which stays as it is from then on. If that is refused, what is missing may be added.
udo_error_t *udo_graph_finish(udo_graph_t *graph);

// Asks which operations of a finished graph a device takes. Nothing is compiled. Dimensions of inputs that are open are refused
// for each operation that depends on them.
udo_error_t *udo_graph_query_support(const udo_graph_t *graph,
                                     const udo_runtime_t *runtime,
                                     const udo_device_t *device,
                                     udo_support_t **out);

// Counts the operations that a device was asked for: those of the graph, in the order in which they were added.
udo_error_t *udo_support_count(const udo_support_t *support,
                               size_t *out);

// Why the device does not take an operation; NULL where it does. The text is the handle's and goes with it.
udo_error_t *udo_support_reason(const udo_support_t *support, size_t index, const char **out);

// Releases what a device takes; NULL is fine.
void udo_support_release(udo_support_t *support);

// Makes a model of a finished graph, any number of times; the graph may go then. Options are those of loading; a cache
// holds the graph as well, so that `udo_model_restore` needs nothing else.
udo_error_t *udo_model_compile(const udo_runtime_t *runtime,
                               const udo_graph_t *graph,
                               const udo_load_options_t *options,
                               udo_model_t **out);

// Releases a graph; NULL is fine. Models that were made of it stay.
void udo_graph_release(udo_graph_t *graph);

// Makes a session: memory for one run at a time.
udo_error_t *udo_session_create(const udo_model_t *model,
                                const udo_session_options_t *options,
                                udo_session_t **out);

// Takes the memory that submitted runs need, which the first of them does otherwise: for all stages, where the session is of a
// network. Where a model leaves shapes open, it is for those that runs of the session had last; another call takes it for those that
// came since, and is refused with `UDO_ERROR_BUSY` while submitted runs have some of it.
udo_error_t *udo_session_reserve(const udo_session_t *session);

// Takes the memory that submitted runs of one stage need. A session of a model, or of one stage, has stage 0 alone.
udo_error_t *udo_session_reserve_stage(const udo_session_t *session,
                                       size_t stage);

// A tensor of a session's own for an input of one of its stages, in memory of the session's device: the same at each call, for as long
// as the shapes are. Runs over such tensors copy nothing where that memory is coherent.
udo_error_t *udo_session_io_input(const udo_session_t *session,
                                  size_t stage,
                                  size_t index,
                                  udo_tensor_t **out);

// The same for an output.
udo_error_t *udo_session_io_output(const udo_session_t *session,
                                   size_t stage,
                                   size_t index,
                                   udo_tensor_t **out);

// Runs a model over tensors, in the order of its inputs and outputs, and returns when the outputs are there. An output that
// is NULL becomes a new tensor, which the caller owns; one that is not is written, and takes the result's shape. It must not
// lie where an input or another output does, unless the model may have that input and this output in one place (the extension
// `in_place.INPUT`). After an error no tensor is new or has another shape; what was in those given is lost if the run began.
udo_error_t *udo_session_run(const udo_session_t *session,
                             const udo_tensor_t *const *inputs,
                             size_t input_count,
                             udo_tensor_t **outputs,
                             size_t output_count);

// Submits a run over tensors, in the order of the model's inputs and outputs, and returns at once. An output that is NULL is made
// by the run; `udo_run_output` hands it out. Nobody else writes a tensor of the run, or reads an output, until it ends:
// that is refused with `UDO_ERROR_BUSY`, and so is a submission of tensors that somebody is at.
udo_error_t *udo_session_submit(const udo_session_t *session,
                                const udo_tensor_t *const *inputs,
                                size_t input_count,
                                udo_tensor_t **outputs,
                                size_t output_count,
                                const udo_run_options_t *options,
                                udo_run_t **out);

// Records a launch over tensors, as `udo_session_submit` takes them, that may be submitted many times: each submission takes what
// is in the inputs then, and uses no heap.
udo_error_t *udo_session_record(const udo_session_t *session,
                                const udo_tensor_t *const *inputs,
                                size_t input_count,
                                udo_tensor_t **outputs,
                                size_t output_count,
                                const udo_run_options_t *options,
                                udo_launch_t **out);

// Runs a model over elements on the host, in the order of its inputs and outputs, and returns when the outputs are there. If
// one has no room, the error says how many bytes it has, and none is written; `udo_session_output_spec` says their shapes.
udo_error_t *udo_session_run_host(const udo_session_t *session,
                                  const udo_host_input_t *inputs,
                                  size_t input_count,
                                  udo_host_output_t *outputs,
                                  size_t output_count);

// What an output was in the last run, as a description of its own.
udo_error_t *udo_session_output_spec(const udo_session_t *session, size_t index, udo_tensor_spec_t **out);

// Releases a session; NULL is fine.
void udo_session_release(udo_session_t *session);

// Submits a recorded launch, and returns at once. It must not be in flight.
udo_error_t *udo_launch_submit(const udo_launch_t *launch, udo_run_t **out);

// Releases a launch; NULL is fine. A run of it that is in flight goes on.
void udo_launch_release(udo_launch_t *launch);

// Waits for the end of a run, as often as wanted, and says how it failed, if it did: `UDO_ERROR_TIMEOUT` where its time was up,
// `UDO_ERROR_CANCELLED`, `UDO_ERROR_DEVICE_LOST`, or what its inputs and kernels led to.
udo_error_t *udo_run_wait(const udo_run_t *run);

// Waits for the end of a run for so many nanoseconds at most. `UDO_ERROR_TIMEOUT` says that it goes on, unless
// `udo_run_is_done` says that its own time was up.
udo_error_t *udo_run_wait_timeout(const udo_run_t *run,
                                  uint64_t timeout_ns);

// Whether a run has ended, its callback included.
udo_error_t *udo_run_is_done(const udo_run_t *run, bool *out);

// Asks a run to end: at once where it has not begun, else between two of its steps. Nothing, if it has ended.
udo_error_t *udo_run_cancel(const udo_run_t *run);

// An output of a run that has ended well, as a tensor in the shape that the run gave it. It lies where the output given to the
// run does, or in memory of the session's device, which the next run of the same launch writes again. One that has not ended is
// refused with `UDO_ERROR_BUSY`; one that failed, was cancelled, timed out or lost its device with `UDO_ERROR_INVALID_STATE`, and so is
// one whose launch was submitted again since.
udo_error_t *udo_run_output(const udo_run_t *run,
                            size_t index,
                            udo_tensor_t **out);

// What a run that has ended copied of its inputs and outputs.
udo_error_t *udo_run_copies(const udo_run_t *run, udo_copies_t *out);

// Releases a run; NULL is fine. It goes on.
void udo_run_release(udo_run_t *run);

// Makes a stream.
udo_error_t *udo_stream_create(udo_stream_t **out);

// Waits until all runs have ended that were submitted to a stream before. The error is that of the first of them that failed, of
// those behind the ones that somebody waited for before; everybody who waits for it gets it.
udo_error_t *udo_stream_sync(const udo_stream_t *stream);

// Whether runs of a stream are in flight.
udo_error_t *udo_stream_is_busy(const udo_stream_t *stream, bool *out);

// Releases a stream; NULL is fine. Its runs go on.
void udo_stream_release(udo_stream_t *stream);

// Makes a workspace for sessions to share: memory as large as the largest of them wants, which one run at a time uses.
udo_error_t *udo_workspace_create(udo_workspace_t **out);

// How many bytes of a device a workspace has.
udo_error_t *udo_workspace_bytes(const udo_workspace_t *workspace, const udo_device_t *device, uint64_t *out);

// Releases a handle of a workspace; NULL is fine. Sessions that share it go on.
void udo_workspace_release(udo_workspace_t *workspace);

// Makes `count` sessions of a model, each with as many frames and as much depth as the options say, and takes their memory. A
// submission beyond all of them is refused with `UDO_ERROR_BUSY`.
udo_error_t *udo_session_pool_create(const udo_model_t *model,
                                     const udo_session_options_t *options,
                                     uint32_t count,
                                     udo_session_pool_t **out);

// Takes the memory that runs of all known shapes need, those of all stages of the model, which the first such run takes otherwise. It
// is refused with `UDO_ERROR_BUSY` while submitted runs have some of it.
udo_error_t *udo_session_pool_reserve(const udo_session_pool_t *pool);

// Submits a run as `udo_session_submit` does, of whichever session is free, and returns at once.
udo_error_t *udo_session_pool_submit(const udo_session_pool_t *pool,
                                     const udo_tensor_t *const *inputs,
                                     size_t input_count,
                                     udo_tensor_t **outputs,
                                     size_t output_count,
                                     const udo_run_options_t *options,
                                     udo_run_t **out);

// Releases a pool; NULL is fine. Runs that are in flight go on.
void udo_session_pool_release(udo_session_pool_t *pool);

// Makes `count` sessions of a network, each with as many frames and as much depth as the options say. What a stage needs is taken when
// a run first wants it, or in `udo_network_pool_reserve`. A submission beyond all sessions is refused with `UDO_ERROR_BUSY`. An older
// form of `udo_network_model_of_stages` and `udo_session_pool_create`.
udo_error_t *udo_network_pool_create(const udo_network_t *network,
                                     const udo_session_options_t *options,
                                     uint32_t count,
                                     udo_network_pool_t **out);

// As `udo_session_pool_reserve`, of which it is an older form.
udo_error_t *udo_network_pool_reserve(const udo_network_pool_t *pool);

// As `udo_session_pool_submit`, of which it is an older form.
udo_error_t *udo_network_pool_submit(const udo_network_pool_t *pool,
                                     const udo_tensor_t *const *inputs,
                                     size_t input_count,
                                     udo_tensor_t **outputs,
                                     size_t output_count,
                                     const udo_run_options_t *options,
                                     udo_run_t **out);

// Releases a pool; NULL is fine. Runs that are in flight go on.
void udo_network_pool_release(udo_network_pool_t *pool);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* UDO_H */
