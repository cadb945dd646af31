/*
 * The binary contract of operator packages, for packages written in C or C++.
 *
 * A library of a package exports one function,
 *
 *     const udo_package_v1 *udo_package_query(uint32_t major);
 *
 * and everything else is reached from the table that it returns. All tables are immutable and
 * live as long as the process: libraries are never unloaded. Reserved fields are zero. Text is
 * UTF-8 and not terminated. No heap memory changes owner.
 *
 * The marks in brackets say when a function is called and what it may do:
 *   [describe-time]  while a model is read; sees no data
 *   [finalize-time]  while a model is compiled; may allocate
 *   [execute-time]   during a run
 *   [thread-safe]    on several threads at once
 *   [heap-free]      uses no heap, no locks and no system calls
 *
 * A package should carry a manifest too: the JSON that `udo inspect` prints, in a section named
 * `.udo.manifest`. A library with one is refused, when it is wrong, before its constructors run.
 */
#ifndef UDO_PACKAGE_H
#define UDO_PACKAGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UDO_ABI_MAJOR 2u
#define UDO_ABI_MINOR 0u
/* Initializes the version in the head of a package's table. */
#define UDO_ABI_VERSION {UDO_ABI_MAJOR, UDO_ABI_MINOR}
#define UDO_ABI_FINGERPRINT UINT64_C(0xa51d03c020b4897e)
#define UDO_SDK_VERSION "0.1.0"
#define UDO_MAX_RANK 8

#if defined(__GNUC__)
#define UDO_EXPORT __attribute__((visibility("default")))
#else
#define UDO_EXPORT
#endif

/* Status: the result of a call. Numbers are never reused. */
#define UDO_OK 0u
#define UDO_FAILED 1u
#define UDO_NOT_IMPLEMENTED 2u
#define UDO_HEAP_USE 3u
#define UDO_PANICKED 4u
#define UDO_SCRATCH_EXCEEDED 5u
#define UDO_NO_SUCH_PORT 6u
#define UDO_WRONG_TYPE 7u
#define UDO_OUTPUT_TAKEN 8u
#define UDO_IN_PLACE 9u
#define UDO_BOUND_EXCEEDED 10u
#define UDO_BAD_VALUE 11u
#define UDO_NOT_DENSE 12u
#define UDO_NO_WORK_ITEM 13u
#define UDO_BAD_CALL 14u
#define UDO_DEVICE 15u
#define UDO_OUTPUT_NOT_TAKEN 16u
#define UDO_EXTENT_NOT_SAID 17u
#define UDO_CANCELLED 18u
#define UDO_WORKER 19u
typedef uint32_t udo_status;

/* Element types. */
#define UDO_F32 1u
#define UDO_F64 2u
#define UDO_F16 3u
#define UDO_BF16 4u
#define UDO_I8 5u
#define UDO_I16 6u
#define UDO_I32 7u
#define UDO_I64 8u
#define UDO_U8 9u
#define UDO_U16 10u
#define UDO_U32 11u
#define UDO_U64 12u
#define UDO_BOOL 13u
#define UDO_STR 14u

/* A set of element types, one bit each. */
typedef uint32_t udo_type_set;
#define UDO_SET(type) ((udo_type_set)1u << (type))

/* A processor. `arch` is 68 for DSP v68, and 0 for every other kind. */
typedef struct udo_core {
    uint16_t kind;
    uint16_t arch;
} udo_core;
#define UDO_CPU 1u
#define UDO_GPU 2u
#define UDO_DSP 3u
#define UDO_HTA 4u

typedef struct udo_str {
    const char *ptr;
    size_t len;
} udo_str;

/* A literal as a udo_str, in an initializer. */
#define UDO_TEXT(literal) { (literal), sizeof(literal) - 1 }
/* An array as a slice, in an initializer. */
#define UDO_SLICE(array) { (array), sizeof(array) / sizeof((array)[0]) }
/* An array as one of the tables of a package, in an initializer. */
#define UDO_TABLE(array) { (array), sizeof(array) / sizeof((array)[0]), sizeof((array)[0]) }
#define UDO_EMPTY { NULL, 0 }

/* The layout of every slice; the ones below differ in the type of their elements. */
typedef struct udo_bytes {
    const uint8_t *ptr;
    size_t len;
} udo_bytes;

/* The layout of every table of a package. Its items have the size of the version that it was compiled for. */
typedef struct udo_table {
    const void *ptr;
    uint32_t len;
    uint32_t item_bytes;
} udo_table;

typedef struct udo_abi_version {
    uint16_t major;
    uint16_t minor;
} udo_abi_version;

/* A byte range with another owner; null for an absent one. */
typedef struct udo_span {
    const uint8_t *ptr;
    size_t bytes;
} udo_span;

typedef struct udo_int64s {
    const int64_t *ptr;
    size_t len;
} udo_int64s;

typedef struct udo_strs {
    const udo_str *ptr;
    size_t len;
} udo_strs;

typedef struct udo_doubles {
    const double *ptr;
    size_t len;
} udo_doubles;

/* A default. */
#define UDO_VALUE_NONE 0u
#define UDO_VALUE_INT 1u
#define UDO_VALUE_FLOAT 2u
#define UDO_VALUE_TEXT 3u
#define UDO_VALUE_INTS 4u
#define UDO_VALUE_FLOATS 5u
#define UDO_VALUE_TENSOR 6u /* parameters only */
#define UDO_VALUE_TEXTS 7u
typedef struct udo_value {
    uint32_t kind;
    uint32_t reserved;
    int64_t int_value;
    double float_value;
    udo_str text;
    udo_int64s ints;
    udo_doubles floats;
    udo_strs texts;
    uint64_t reserved_words[2];
} udo_value;

/* Dimensions, outermost first. Bit n of `bounded`: dims[n] is an upper bound. Bit n of `open`: dims[n] may differ in
 * another plan of the model. */
typedef struct udo_shape {
    uint8_t rank;
    uint8_t bounded;
    uint8_t open;
    uint8_t reserved[5];
    size_t dims[UDO_MAX_RANK];
} udo_shape;

/* real = scale * (q - zero_point) */
typedef struct udo_encoding {
    float scale;
    int32_t zero_point;
} udo_encoding;

typedef struct udo_floats {
    const float *ptr;
    size_t len;
} udo_floats;

typedef struct udo_int32s {
    const int32_t *ptr;
    size_t len;
} udo_int32s;

/* A scale and a zero point for each position of one axis. Those that the host passes live as long as the process; those
 * that shape inference writes are copied by the host after it returns. */
typedef struct udo_axis_encoding {
    uint32_t axis;
    uint32_t reserved;
    udo_floats scales;
    udo_int32s zero_points;
    uint64_t reserved_words[3];
} udo_axis_encoding;

/* The properties of a tensor that are known before a run. An absent one has dtype 0. A fixed-point one has one encoding
 * (`has_encoding` is 1) or one per axis (`axis_encoding` is not null), never both. */
typedef struct udo_tensor_desc {
    udo_shape shape;
    uint8_t dtype;
    uint8_t has_encoding;
    uint8_t reserved[6];
    udo_encoding encoding;
    const udo_axis_encoding *axis_encoding;
    uint64_t reserved_words[3];
} udo_tensor_desc;

typedef struct udo_core_types {
    udo_core core;
    udo_type_set types;
} udo_core_types;

typedef struct udo_core_types_slice {
    const udo_core_types *ptr;
    size_t len;
} udo_core_types_slice;

/* Flags of ports; the first one also applies to parameters. */
#define UDO_OPTIONAL 1u
#define UDO_STATIC 2u
#define UDO_REPEATED 4u
#define UDO_LAYOUT_NHWC (1u << 8)
#define UDO_LAYOUT_NCHW (2u << 8)
#define UDO_QUANTIZATION_TF (1u << 12)

typedef struct udo_port {
    udo_str name;
    udo_type_set types;
    uint32_t flags;
    udo_core_types_slice per_core;
    udo_value default_value;
    uint64_t reserved[2];
} udo_port;

typedef struct udo_ports {
    const udo_port *ptr;
    size_t len;
} udo_ports;

#define UDO_PARAM_SCALAR 1u
#define UDO_PARAM_TEXT 2u
#define UDO_PARAM_TENSOR 3u /* a list of numbers */
#define UDO_PARAM_TYPED_TENSOR 4u /* keeps the model's type and shape: sets `types` instead of `dtype` */
#define UDO_PARAM_TEXTS 5u
#define UDO_PARAM_GRAPH 6u /* the host's own operators only */
typedef struct udo_param {
    udo_str name;
    udo_str attribute; /* the name in models, if it differs */
    uint32_t kind;
    uint32_t flags;
    uint32_t dtype;
    udo_type_set types;
    udo_value default_value;
    uint64_t reserved[2];
} udo_param;

typedef struct udo_params {
    const udo_param *ptr;
    size_t len;
} udo_params;

/* Facts that passes may rely on. */
#define UDO_FACT_VIEW 1u
#define UDO_FACT_ELEMENTWISE (1u << 1)
#define UDO_FACT_SAME_ENCODING (1u << 2)
#define UDO_FACT_CONCAT (1u << 7)
#define UDO_FACT_PURE (1u << 8)
#define UDO_FACT_SHAPE_ONLY (1u << 9)

typedef struct udo_op_schema {
    udo_str name;
    udo_str domain;
    udo_ports inputs;
    udo_ports outputs;
    udo_params params;
    uint32_t facts;
    uint32_t reserved_word;
    uint64_t reserved[4];
} udo_op_schema;

/* The sink for the error message of a callee. */
typedef struct udo_error_sink {
    uint32_t size; /* sizeof, in the creator's version */
    uint32_t reserved;
    void *ctx;
    /* [finalize-time] Appends UTF-8 text. */
    void (*write)(void *ctx, const uint8_t *text, size_t bytes);
    uint64_t reserved_words[4];
} udo_error_sink;

/* One parameter of a node, checked against the schema, with its default applied; `kind` is UDO_VALUE_... */
typedef struct udo_param_value {
    udo_span name;
    uint32_t kind;
    uint32_t reserved;
    int64_t int_value;
    double float_value;
    udo_span data; /* UTF-8, int64_t, double, elements of a tensor, or udo_span of UTF-8 */
    const udo_tensor_desc *desc; /* of a tensor */
} udo_param_value;

typedef struct udo_node_args {
    const udo_tensor_desc *inputs;
    const udo_span *constants; /* null for inputs that are not constant */
    const udo_param_value *params;
    uint32_t input_count;
    uint32_t output_count;
    uint32_t param_count;
    uint32_t opset; /* 0 without one */
    const udo_error_sink *errors;
    uint64_t reserved_words[4];
} udo_node_args;

typedef struct udo_infer_args {
    uint32_t size; /* sizeof, in the creator's version */
    uint32_t reserved;
    udo_node_args node;
    udo_tensor_desc *outputs; /* node.output_count, to fill in */
    uint64_t reserved_words[4];
} udo_infer_args;

typedef struct udo_op_def {
    udo_op_schema schema;
    /* [describe-time, thread-safe] Sets type and shape of every output. */
    udo_status (*infer)(const udo_infer_args *args);
    uint64_t reserved[2];
} udo_op_def;

typedef struct udo_op_defs {
    const udo_op_def *ptr;
    uint32_t len;
    uint32_t item_bytes;
} udo_op_defs;

/* The rule of a kernel for one port. Ports without a rule accept the types of the schema, in the operator's layout, with
 * fixed dimensions, contiguous rows, and without an encoding per axis. */
#define UDO_SIDE_INPUT 0u
#define UDO_SIDE_OUTPUT 1u
#define UDO_NOT_SAME UINT32_MAX
#define UDO_PORT_AS_GIVEN 0u      /* dimensions in the order of the operator */
#define UDO_PORT_CHANNELS_LAST 1u /* batch, height, width, channels */
#define UDO_ACCEPTS_PITCHED 1u    /* rows may be strided */
#define UDO_ACCEPTS_BOUNDED (1u << 1)
#define UDO_ACCEPTS_PER_AXIS (1u << 2) /* the tensor may have an encoding per axis */
#define UDO_ACCEPTS_ALONE (1u << 3)    /* with PITCHED: gaps between rows do not belong to other tensors of the call */
typedef struct udo_port_rule {
    uint16_t side;
    uint16_t port;
    udo_type_set types; /* 0: those of the schema */
    uint32_t same_as;   /* the input with the same type, or UDO_NOT_SAME */
    uint32_t layout;
    uint32_t accepts;
    uint32_t reserved[3];
} udo_port_rule;

typedef struct udo_port_rules {
    const udo_port_rule *ptr;
    size_t len;
} udo_port_rules;

/* An output that may be written in place of an input. */
typedef struct udo_in_place {
    uint16_t input;
    uint16_t output;
} udo_in_place;

typedef struct udo_in_places {
    const udo_in_place *ptr;
    size_t len;
} udo_in_places;

#define UDO_ALL_VTCM UINT64_C(1)
typedef struct udo_workspace {
    size_t bytes;
    uint64_t flags;
} udo_workspace;

/* One thread's heap guard. Opaque: a C package has none and passes null. */
typedef struct udo_guard_cell udo_guard_cell;

/* The report of a failed call in the guard of a Rust package's thread. */
typedef struct udo_guard_report {
    uint64_t detail[2];
    size_t message_bytes;
    uint8_t message[216];
    uint64_t reserved_words[4];
} udo_guard_report;

/* A source of a packed constant. */
typedef struct udo_pack_source {
    udo_tensor_desc desc;
    udo_span data;
} udo_pack_source;

typedef struct udo_pack_args {
    uint32_t size; /* sizeof, in the creator's version */
    uint32_t reserved;
    const void *body;
    const uint64_t *recipe;
    size_t recipe_len;
    const udo_pack_source *sources; /* in the order of the request's inputs */
    size_t source_count;
    uint8_t *target; /* zeroed, 64-byte aligned */
    size_t target_bytes;
    const udo_error_sink *errors;
    const struct udo_parallel_table *parallel; /* the host's threads; null if they are in use */
    uint64_t reserved_words[3];
} udo_pack_args;

/* [finalize-time, thread-safe] Fills a packed constant from its sources and its recipe only. */
typedef udo_status (*udo_pack_fn)(const udo_pack_args *args);

/* A packed constant that a kernel requests in finalize. */
typedef struct udo_pack_request {
    uint32_t size; /* sizeof, in the creator's version */
    uint32_t reserved;
    const uint32_t *inputs; /* indices of constant inputs */
    size_t input_count;
    const uint64_t *recipe; /* numbers that, with the sources, determine every byte */
    size_t recipe_len;
    size_t bytes;
    udo_pack_fn fill; /* called after finalize has returned, on any thread */
    const void *body; /* static data to pass to `fill` */
    uint64_t reserved_words[4];
} udo_pack_request;

#define UDO_ISA_PORTABLE 0u
#define UDO_ISA_AVX2 1u
#define UDO_ISA_AVX512 2u
#define UDO_ISA_AMX 3u

#define UDO_TIE_SAME 1u            /* the output has the input's elements, under another shape or the same */
#define UDO_TIE_OUTPUT_IN_INPUT 2u /* the output is a part of the input */
#define UDO_TIE_INPUT_IN_OUTPUT 3u /* the input is a part of the output */

/* An input and an output with the same elements, so that the host may let them share memory. */
typedef struct udo_tie {
    uint32_t size; /* sizeof, in the creator's version */
    uint32_t kind;
    uint32_t input;
    uint32_t output;
    uint32_t axis; /* the axis that the part is cut along; it has the whole of all others */
    uint32_t reserved;
    uint64_t offset; /* the start of the part on that axis */
    uint64_t reserved_words[2];
} udo_tie;

/* The host's functions for a kernel in finalize. */
#define UDO_ARITHMETIC_F32 1u
#define UDO_ARITHMETIC_F64 2u
#define UDO_ARITHMETIC_INT8 3u /* products of 8-bit integers with 32-bit sums */
#define UDO_ARITHMETIC_BF16 4u /* products of bf16 numbers with 32-bit sums */

#define UDO_FAST_MATH_BF16 1u /* factors of products of f32 may be rounded to bf16 */

/* The work of one kernel call. */
typedef struct udo_work {
    uint32_t size;       /* sizeof, in the creator's version */
    uint32_t arithmetic; /* UDO_ARITHMETIC_* */
    uint64_t operations; /* multiplications and additions of the algorithm */
    uint64_t bytes;      /* read and written; 0: all of the tensors and packed constants */
    udo_str method;      /* the algorithm in a few words; may be empty */
    uint64_t reserved_words[2];
} udo_work;

typedef struct udo_host_table {
    uint32_t size; /* sizeof, in the creator's version */
    uint32_t threads; /* the maximum of a call */
    uint32_t isa;     /* of the host's own kernels: UDO_ISA_* */
    uint32_t fast_math; /* precision that may be traded for speed: UDO_FAST_MATH_* */
    void *ctx;
    /* [finalize-time] Requests a packed constant; writes its index among the kernel's to `index`. */
    udo_status (*pack)(void *ctx, const udo_pack_request *request, uint32_t *index);
    /* [finalize-time] Declares that execute reads constant input `input` although it is packed. */
    udo_status (*keep)(void *ctx, uint32_t input);
    size_t fast_memory_bytes;
    /* [finalize-time] Declares that an input and an output hold the same elements. A kernel that ties all of its outputs may
     * not be called at all. */
    udo_status (*tie)(void *ctx, const udo_tie *tie);
    /* [finalize-time] Declares the work of a call, at the bounds of bounded dimensions; null if the host does not ask. */
    udo_status (*work)(void *ctx, const udo_work *work);
    /* The cost of a byte of packed constants in multiply-adds of a run, for kernels with a choice of layouts; 0 if memory
     * is free. */
    uint32_t memory_price;
    uint32_t reserved; /* zero */
} udo_host_table;

#define UDO_EPILOGUE_BIAS 1u       /* adds input `input`, a vector along `axis` of the output */
#define UDO_EPILOGUE_RESIDUAL 2u   /* adds input `input`, which has the output's shape */
#define UDO_EPILOGUE_ACTIVATION 3u /* applies `function` */
/* Quantizes f32 values with the type and the encoding of `output`: `x / scale` rounded to nearest, ties to even, plus the
 * zero point, saturated; NaN becomes the lowest value. It is the last step. */
#define UDO_EPILOGUE_QUANTIZE 4u

#define UDO_ACTIVATION_RELU 1u
#define UDO_ACTIVATION_CLIP 2u /* at least numbers[0], then at most numbers[1] */
#define UDO_ACTIVATION_SILU 3u /* x / (1 + exp(-x)) */
#define UDO_ACTIVATION_GELU 4u /* x / 2 (1 + erf(x / sqrt 2)) */

/* One operation on each element of a node's first output before it is stored. */
typedef struct udo_epilogue_step {
    uint32_t kind;
    uint32_t input; /* after those of the operator */
    uint32_t axis;  /* of the output, in the kernel's layout */
    uint32_t function;
    double numbers[2];
    udo_tensor_desc output; /* the first output after the step */
    uint64_t reserved[5];
} udo_epilogue_step;

typedef struct udo_accept_args {
    uint32_t size; /* sizeof, in the creator's version */
    uint32_t reserved;
    udo_node_args node; /* the inputs of all steps follow those of the operator */
    const udo_tensor_desc *outputs;
    udo_core core;
    uint32_t epilogue_count;
    const udo_epilogue_step *epilogue;
    uint64_t reserved_words[4];
} udo_accept_args;

typedef struct udo_finalize_args {
    uint32_t size; /* sizeof, in the creator's version */
    uint32_t reserved;
    udo_node_args node; /* the inputs of the accepted steps follow those of the operator */
    const udo_tensor_desc *outputs; /* the first one after those steps */
    udo_core core;
    uint32_t epilogue_count; /* the accepted steps */
    const udo_host_table *host;
    const udo_epilogue_step *epilogue;
    uint64_t reserved_words[3];
} udo_finalize_args;

typedef struct udo_finalized {
    void *state; /* to pass to execute and, once, to free */
    udo_workspace workspace;
    uint64_t reserved[4];
} udo_finalized;

typedef struct udo_needs_args {
    uint32_t size; /* sizeof, in the creator's version */
    uint32_t input_count; /* including those of the epilogue */
    const void *state; /* the state from finalize */
    const struct udo_tensor_arg *inputs; /* without elements; bounded dimensions at their bounds */
    const udo_error_sink *errors;
    uint64_t reserved_words[4];
} udo_needs_args;

/* The memory of execute for inputs of some shapes, which must not exceed that for larger ones. */
typedef struct udo_needed_bytes {
    udo_workspace scratch; /* replaces the one from finalize */
    size_t geometry_bytes; /* the bytes that `prepare` fills */
    uint64_t reserved_words[3];
} udo_needed_bytes;

#define UDO_ARG_ABSENT 1u
#define UDO_ARG_TAKEN 2u
#define UDO_ARG_PITCHED 4u /* the rows are strided */
#define UDO_ARG_PAIRED 8u  /* one side of an in-place pair */
#define UDO_ARG_ALONE 16u  /* gaps between rows do not belong to other tensors of the call */

/* One tensor of a call. A bounded output sets `dims` and `len`, up to `capacity`. */
typedef struct udo_tensor_arg {
    uint8_t *data;
    size_t len;
    size_t capacity;
    size_t row_stride;
    uint8_t dtype;
    uint8_t rank;
    uint8_t flags;
    uint8_t bounded; /* one bit per dimension that the kernel may shrink */
    uint16_t in_place; /* 1 + the other port of the in-place pair; 0 without a pair */
    uint16_t has_encoding;
    udo_encoding encoding;
    size_t dims[UDO_MAX_RANK];
    const udo_axis_encoding *axis_encoding; /* null unless the tensor has an encoding per axis */
    uint64_t reserved_words[1];
} udo_tensor_arg;

/* The host's parallel-for. */
typedef struct udo_parallel_table {
    uint32_t size; /* sizeof, in the creator's version */
    uint32_t width;
    const void *ctx;
    /* [execute-time, heap-free] Calls `task(task_ctx, i)` once for each i below `count`, on any
     * thread, and returns when all calls are done. */
    void (*run)(const void *ctx, size_t count, void (*task)(const void *task_ctx, size_t index),
                const void *task_ctx);
    /* A word that another thread may set from zero to something else during execute, by an atomic write, to cancel the
     * run. Calls that have not begun may then be skipped, and execute returns `UDO_CANCELLED`. Null if the run cannot be
     * cancelled. */
    const uint32_t *stop;
    uint64_t reserved_words[3];
} udo_parallel_table;

/* The arguments of execute: less than two cache lines. */
typedef struct udo_exec_args {
    uint32_t size; /* sizeof, in the creator's version */
    uint16_t input_count;
    uint16_t output_count;
    const void *state;
    udo_tensor_arg *tensors; /* inputs, then outputs */
    const udo_span *packed;
    uint8_t *scratch; /* 64-byte aligned */
    size_t scratch_bytes;
    udo_guard_cell *guard;
    const udo_parallel_table *parallel; /* null for a single thread */
    uint64_t untaken; /* one bit per output that must be written */
    uint64_t unsaid;  /* one bit per bounded output, whose dimensions must be set */
    uint8_t *geometry; /* 64-byte aligned; filled by `prepare`, in a call of which it is zeroed */
    size_t geometry_bytes;
    uint16_t packed_count;
    uint16_t reserved[3];
} udo_exec_args;

#define UDO_GPU_ARG_INPUT 1u
#define UDO_GPU_ARG_OUTPUT 2u
#define UDO_GPU_ARG_I32 3u
#define UDO_GPU_ARG_U32 4u
#define UDO_GPU_ARG_F32 5u
#define UDO_GPU_ARG_SCRATCH 6u /* bits: the index, in the order of the calls of `scratch` */
#define UDO_GPU_ARG_LOCAL 7u   /* bits: bytes of local memory */
#define UDO_GPU_ARG_PACKED 8u  /* bits: the index that `pack` wrote */
typedef struct udo_gpu_arg {
    uint32_t kind;
    uint32_t reserved;
    uint64_t bits; /* a port, the bits of a number, or as above */
} udo_gpu_arg;

/* One launch of a GPU kernel; its pointers are valid for the call that passes it. */
typedef struct udo_gpu_launch {
    uint32_t size; /* sizeof, in the creator's version */
    uint32_t has_local; /* 1: `local` is set; 0: the device chooses */
    udo_span source; /* OpenCL C */
    udo_span name;   /* of the kernel in the source */
    udo_span options;
    const udo_gpu_arg *args;
    size_t arg_count;
    size_t global[3];
    size_t local[3];
    uint64_t reserved_words[4];
} udo_gpu_launch;

/* The receiver of a GPU kernel's description: its scratch buffers, then its launches in order. */
typedef struct udo_gpu_sink {
    uint32_t size; /* sizeof, in the creator's version */
    uint32_t reserved;
    void *ctx; /* to pass to every function */
    /* [finalize-time] Adds a scratch buffer of this size, which all launches of a call share. */
    udo_status (*scratch)(void *ctx, size_t bytes);
    /* [finalize-time] Adds a launch. */
    udo_status (*launch)(void *ctx, const udo_gpu_launch *launch);
    uint64_t reserved_words[4];
} udo_gpu_sink;

typedef struct udo_gpu_table {
    uint32_t size; /* sizeof, in the creator's version */
    uint32_t work_items; /* the launches that execute computes on the host: all of them, or 0 */
    /* [finalize-time] Describes how a device runs the kernel. */
    udo_status (*info)(const void *state, const udo_gpu_sink *sink);
    uint64_t reserved_words[4];
} udo_gpu_table;

typedef struct udo_kernel_vtable {
    uint32_t size; /* sizeof, in the creator's version */
    uint32_t reserved;
    /* [finalize-time] Creates the kernel; on success the caller must free `out->state`. */
    udo_status (*finalize)(const udo_finalize_args *args, udo_finalized *out);
    /* [execute-time, thread-safe, heap-free] Runs the kernel once. */
    udo_status (*execute)(const udo_exec_args *args);
    /* [finalize-time] Frees the state from finalize; called once, while no execute runs. */
    void (*free)(void *state);
    const udo_gpu_table *gpu; /* null except for GPU kernels */
    /* [finalize-time, thread-safe] Writes how many leading steps of an epilogue the kernel performs, or refuses the node;
     * null accepts no steps. */
    udo_status (*accept)(const udo_accept_args *args, uint32_t *steps);
    /* [finalize-time, thread-safe] Writes the memory of execute for inputs of these shapes; null if finalize stated it. */
    udo_status (*needs)(const udo_needs_args *args, udo_needed_bytes *needs);
    /* [execute-time, thread-safe, heap-free] Fills the geometry for the shapes of the inputs, whose elements it must not
     * access: before the first execute, and when a dimension changes. Null if `needs` requests none. */
    udo_status (*prepare)(const udo_exec_args *args);
    uint64_t reserved_words[1];
} udo_kernel_vtable;

#define UDO_COST_FREE 0u
#define UDO_COST_FAST 1u
#define UDO_COST_SNAIL 2u
#define UDO_COST_GLACIAL 3u

typedef struct udo_kernel_def {
    udo_str op;
    udo_str domain; /* of the operator; empty if its name is unique in the package */
    udo_core core;
    uint32_t cost;
    udo_port_rules ports;
    udo_in_places in_place;
    const udo_kernel_vtable *vtable;
    uint64_t reserved[4];
} udo_kernel_def;

typedef struct udo_kernel_defs {
    const udo_kernel_def *ptr;
    uint32_t len;
    uint32_t item_bytes;
} udo_kernel_defs;

/* The path of an implementation library, relative to the registration library. */
typedef struct udo_library_ref {
    udo_core core;
    uint32_t reserved;
    udo_str file;
} udo_library_ref;

typedef struct udo_library_refs {
    const udo_library_ref *ptr;
    uint32_t len;
    uint32_t item_bytes;
} udo_library_refs;

/* The table of a library of a package: registration libraries fill `ops` and `libraries`,
 * implementation libraries `kernels`; a library may do both. */
typedef struct udo_package_v1 {
    udo_abi_version abi_version; /* UDO_ABI_VERSION */
    uint32_t size;               /* sizeof(udo_package_v1) */
    uint64_t fingerprint;        /* UDO_ABI_FINGERPRINT */
    uint64_t needs;              /* host features that the package needs: 0 */
    udo_str name;
    udo_str version;
    udo_str sdk_version;
    udo_op_defs ops;
    udo_kernel_defs kernels;
    udo_library_refs libraries;
    udo_guard_cell *(*guard_cell)(void);             /* null */
    void (*guard_report)(udo_guard_report *report); /* null */
    uint64_t reserved[7];
} udo_package_v1;

/* Returns the table of that major version; null if the package has none. */
UDO_EXPORT const udo_package_v1 *udo_package_query(uint32_t major);

#ifdef __cplusplus
}
#endif

#endif
