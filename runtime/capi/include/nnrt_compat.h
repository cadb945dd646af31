/*
 * NNRt's functions on top of udo.h: programs written for NNRt build against libudo. C11 or C++17, on Linux.
 *
 * Everything is `static inline`, and state belongs to the returned handles. Devices have no handle in NNRt: the first call
 * that needs them opens them, and they stay open.
 *
 * docs/nnrt-bmruntime.md lists what is done where NNRt's document and code differ, or leave a choice. In short:
 * - NULL is refused with OH_NN_INVALID_PARAMETER. A result that is returned through `T **` requires that pointer to be NULL.
 * - Asynchronous runs work. A failed build may be corrected and repeated.
 * - Options are checked when they are set, against the device chosen so far, and again by the build. An option that the
 *   device lacks is OH_NN_UNSUPPORTED. Values of extensions are strings.
 * - NNRt has only codes for errors. Define NNRT_COMPAT_LOG(text) before including this file to get the reasons of refusals.
 * - A forked process opens its own devices with its first call; handles from before the fork are refused.
 */
#ifndef NNRT_COMPAT_H
#define NNRT_COMPAT_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "udo.h"

#ifndef NNRT_COMPAT_LOG
#define NNRT_COMPAT_LOG(text) ((void)(text))
#endif

typedef enum {
    OH_NN_SUCCESS = 0, OH_NN_FAILED = 1, OH_NN_INVALID_PARAMETER = 2, OH_NN_MEMORY_ERROR = 3,
    OH_NN_OPERATION_FORBIDDEN = 4, OH_NN_NULL_PTR = 5, OH_NN_INVALID_FILE = 6, OH_NN_UNAVALIDABLE_DEVICE = 7,
    OH_NN_INVALID_PATH = 8, OH_NN_TIMEOUT = 9, OH_NN_UNSUPPORTED = 10, OH_NN_CONNECTION_EXCEPTION = 11,
    OH_NN_SAVE_CACHE_EXCEPTION = 12, OH_NN_DYNAMIC_SHAPE = 13, OH_NN_UNAVAILABLE_DEVICE = 14
} OH_NN_ReturnCode;

typedef enum {
    OH_NN_PERFORMANCE_NONE = 0, OH_NN_PERFORMANCE_LOW = 1, OH_NN_PERFORMANCE_MEDIUM = 2, OH_NN_PERFORMANCE_HIGH = 3,
    OH_NN_PERFORMANCE_EXTREME = 4
} OH_NN_PerformanceMode;

typedef enum {
    OH_NN_PRIORITY_NONE = 0, OH_NN_PRIORITY_LOW = 1, OH_NN_PRIORITY_MEDIUM = 2, OH_NN_PRIORITY_HIGH = 3
} OH_NN_Priority;

typedef enum { OH_NN_OTHERS = 0, OH_NN_CPU = 1, OH_NN_GPU = 2, OH_NN_ACCELERATOR = 3 } OH_NN_DeviceType;

typedef enum {
    OH_NN_FORMAT_NONE = 0, OH_NN_FORMAT_NCHW = 1, OH_NN_FORMAT_NHWC = 2, OH_NN_FORMAT_ND = 3
} OH_NN_Format;

typedef enum {
    OH_NN_UNKNOWN = 0, OH_NN_BOOL = 1, OH_NN_INT8 = 2, OH_NN_INT16 = 3, OH_NN_INT32 = 4, OH_NN_INT64 = 5,
    OH_NN_UINT8 = 6, OH_NN_UINT16 = 7, OH_NN_UINT32 = 8, OH_NN_UINT64 = 9, OH_NN_FLOAT16 = 10, OH_NN_FLOAT32 = 11,
    OH_NN_FLOAT64 = 12
} OH_NN_DataType;

typedef enum { OH_NN_FUSED_NONE = 0, OH_NN_FUSED_RELU = 1, OH_NN_FUSED_RELU6 = 2 } OH_NN_FuseType;

/* What a tensor is, if it is a parameter of an operation. */
typedef enum {
    OH_NN_TENSOR = 0, OH_NN_ADD_ACTIVATIONTYPE = 1, OH_NN_AVG_POOL_KERNEL_SIZE = 2, OH_NN_AVG_POOL_STRIDE = 3,
    OH_NN_AVG_POOL_PAD_MODE = 4, OH_NN_AVG_POOL_PAD = 5, OH_NN_AVG_POOL_ACTIVATION_TYPE = 6,
    OH_NN_BATCH_NORM_EPSILON = 7, OH_NN_BATCH_TO_SPACE_ND_BLOCKSIZE = 8, OH_NN_BATCH_TO_SPACE_ND_CROPS = 9,
    OH_NN_CONCAT_AXIS = 10, OH_NN_CONV2D_STRIDES = 11, OH_NN_CONV2D_PAD = 12, OH_NN_CONV2D_DILATION = 13,
    OH_NN_CONV2D_PAD_MODE = 14, OH_NN_CONV2D_ACTIVATION_TYPE = 15, OH_NN_CONV2D_GROUP = 16,
    OH_NN_CONV2D_TRANSPOSE_STRIDES = 17, OH_NN_CONV2D_TRANSPOSE_PAD = 18, OH_NN_CONV2D_TRANSPOSE_DILATION = 19,
    OH_NN_CONV2D_TRANSPOSE_OUTPUT_PADDINGS = 20, OH_NN_CONV2D_TRANSPOSE_PAD_MODE = 21,
    OH_NN_CONV2D_TRANSPOSE_ACTIVATION_TYPE = 22, OH_NN_CONV2D_TRANSPOSE_GROUP = 23,
    OH_NN_DEPTHWISE_CONV2D_NATIVE_STRIDES = 24, OH_NN_DEPTHWISE_CONV2D_NATIVE_PAD = 25,
    OH_NN_DEPTHWISE_CONV2D_NATIVE_DILATION = 26, OH_NN_DEPTHWISE_CONV2D_NATIVE_PAD_MODE = 27,
    OH_NN_DEPTHWISE_CONV2D_NATIVE_ACTIVATION_TYPE = 28, OH_NN_DIV_ACTIVATIONTYPE = 29, OH_NN_ELTWISE_MODE = 30,
    OH_NN_FULL_CONNECTION_AXIS = 31, OH_NN_FULL_CONNECTION_ACTIVATIONTYPE = 32, OH_NN_MATMUL_TRANSPOSE_A = 33,
    OH_NN_MATMUL_TRANSPOSE_B = 34, OH_NN_MATMUL_ACTIVATION_TYPE = 35, OH_NN_MAX_POOL_KERNEL_SIZE = 36,
    OH_NN_MAX_POOL_STRIDE = 37, OH_NN_MAX_POOL_PAD_MODE = 38, OH_NN_MAX_POOL_PAD = 39,
    OH_NN_MAX_POOL_ACTIVATION_TYPE = 40, OH_NN_MUL_ACTIVATION_TYPE = 41, OH_NN_ONE_HOT_AXIS = 42,
    OH_NN_PAD_CONSTANT_VALUE = 43, OH_NN_SCALE_ACTIVATIONTYPE = 44, OH_NN_SCALE_AXIS = 45, OH_NN_SOFTMAX_AXIS = 46,
    OH_NN_SPACE_TO_BATCH_ND_BLOCK_SHAPE = 47, OH_NN_SPACE_TO_BATCH_ND_PADDINGS = 48, OH_NN_SPLIT_AXIS = 49,
    OH_NN_SPLIT_OUTPUT_NUM = 50, OH_NN_SPLIT_SIZE_SPLITS = 51, OH_NN_SQUEEZE_AXIS = 52, OH_NN_STACK_AXIS = 53,
    OH_NN_STRIDED_SLICE_BEGIN_MASK = 54, OH_NN_STRIDED_SLICE_END_MASK = 55, OH_NN_STRIDED_SLICE_ELLIPSIS_MASK = 56,
    OH_NN_STRIDED_SLICE_NEW_AXIS_MASK = 57, OH_NN_STRIDED_SLICE_SHRINK_AXIS_MASK = 58, OH_NN_SUB_ACTIVATIONTYPE = 59,
    OH_NN_REDUCE_MEAN_KEEP_DIMS = 60, OH_NN_RESIZE_BILINEAR_NEW_HEIGHT = 61, OH_NN_RESIZE_BILINEAR_NEW_WIDTH = 62,
    OH_NN_RESIZE_BILINEAR_PRESERVE_ASPECT_RATIO = 63, OH_NN_RESIZE_BILINEAR_COORDINATE_TRANSFORM_MODE = 64,
    OH_NN_RESIZE_BILINEAR_EXCLUDE_OUTSIDE = 65, OH_NN_LAYER_NORM_BEGIN_NORM_AXIS = 66, OH_NN_LAYER_NORM_EPSILON = 67,
    OH_NN_LAYER_NORM_BEGIN_PARAM_AXIS = 68, OH_NN_LAYER_NORM_ELEMENTWISE_AFFINE = 69, OH_NN_REDUCE_PROD_KEEP_DIMS = 70,
    OH_NN_REDUCE_ALL_KEEP_DIMS = 71, OH_NN_QUANT_DTYPE_CAST_SRC_T = 72, OH_NN_QUANT_DTYPE_CAST_DST_T = 73,
    OH_NN_TOP_K_SORTED = 74, OH_NN_ARG_MAX_AXIS = 75, OH_NN_ARG_MAX_KEEPDIMS = 76, OH_NN_UNSQUEEZE_AXIS = 77,
    OH_NN_UNSTACK_AXIS = 78, OH_NN_FLATTEN_AXIS = 79, OH_NN_DEPTH_TO_SPACE_BLOCK_SIZE = 80,
    OH_NN_DEPTH_TO_SPACE_MODE = 81, OH_NN_RANGE_START = 82, OH_NN_RANGE_LIMIT = 83, OH_NN_RANGE_DELTA = 84,
    OH_NN_CONSTANT_OF_SHAPE_DATA_TYPE = 85, OH_NN_CONSTANT_OF_SHAPE_VALUE = 86, OH_NN_BROADCAST_TO_SHAPE = 87,
    OH_NN_INSTANCE_NORM_EPSILON = 88, OH_NN_EXP_BASE = 89, OH_NN_EXP_SCALE = 90, OH_NN_EXP_SHIFT = 91,
    OH_NN_LEAKY_RELU_NEGATIVE_SLOPE = 92, OH_NN_LSTM_BIDIRECTIONAL = 93, OH_NN_LSTM_HAS_BIAS = 94,
    OH_NN_LSTM_INPUT_SIZE = 95, OH_NN_LSTM_HIDDEN_SIZE = 96, OH_NN_LSTM_NUM_LAYERS = 97,
    OH_NN_LSTM_NUM_DIRECTIONS = 98, OH_NN_LSTM_DROPOUT = 99, OH_NN_LSTM_ZONEOUT_CELL = 100,
    OH_NN_LSTM_ZONEOUT_HIDDEN = 101, OH_NN_LSTM_PROJ_SIZE = 102, OH_NN_CLIP_MAX = 103, OH_NN_CLIP_MIN = 104,
    OH_NN_ALL_KEEP_DIMS = 105, OH_NN_ASSERT_SUMMARIZE = 106, OH_NN_POW_SCALE = 107, OH_NN_POW_SHIFT = 108,
    OH_NN_AVG_POOL_ROUND_MODE = 109, OH_NN_AVG_POOL_GLOBAL = 110, OH_NN_FULL_CONNECTION_HAS_BIAS = 111,
    OH_NN_FULL_CONNECTION_USE_AXIS = 112, OH_NN_GELU_APPROXIMATE = 113, OH_NN_MAX_POOL_ROUND_MODE = 114,
    OH_NN_MAX_POOL_GLOBAL = 115, OH_NN_PAD_PADDING_MODE = 116, OH_NN_REDUCE_MEAN_REDUCE_TO_END = 117,
    OH_NN_REDUCE_MEAN_COEFF = 118, OH_NN_REDUCE_PROD_REDUCE_TO_END = 119, OH_NN_REDUCE_PROD_COEFF = 120,
    OH_NN_REDUCE_ALL_REDUCE_TO_END = 121, OH_NN_REDUCE_ALL_COEFF = 122, OH_NN_TOP_K_AXIS = 123,
    OH_NN_ARG_MAX_TOP_K = 124, OH_NN_ARG_MAX_OUT_MAX_VALUE = 125, OH_NN_QUANT_DTYPE_CAST_AXIS = 126,
    OH_NN_SLICE_AXES = 127, OH_NN_TILE_DIMS = 128, OH_NN_CROP_AXIS = 129, OH_NN_CROP_OFFSET = 130,
    OH_NN_DETECTION_POST_PROCESS_INPUT_SIZE = 131, OH_NN_DETECTION_POST_PROCESS_SCALE = 132,
    OH_NN_DETECTION_POST_PROCESS_NMS_IOU_THRESHOLD = 133, OH_NN_DETECTION_POST_PROCESS_NMS_SCORE_THRESHOLD = 134,
    OH_NN_DETECTION_POST_PROCESS_MAX_DETECTIONS = 135, OH_NN_DETECTION_POST_PROCESS_DETECTIONS_PER_CLASS = 136,
    OH_NN_DETECTION_POST_PROCESS_MAX_CLASSES_PER_DETECTION = 137, OH_NN_DETECTION_POST_PROCESS_NUM_CLASSES = 138,
    OH_NN_DETECTION_POST_PROCESS_USE_REGULAR_NMS = 139, OH_NN_DETECTION_POST_PROCESS_OUT_QUANTIZED = 140,
    OH_NN_L2_NORMALIZE_AXIS = 141, OH_NN_L2_NORMALIZE_EPSILON = 142, OH_NN_L2_NORMALIZE_ACTIVATION_TYPE = 143,
    OH_NN_LOG_SOFTMAX_AXIS = 144, OH_NN_LRN_DEPTH_RADIUS = 145, OH_NN_LRN_BIAS = 146, OH_NN_LRN_ALPHA = 147,
    OH_NN_LRN_BETA = 148, OH_NN_LRN_NORM_REGION = 149, OH_NN_SPACE_TO_DEPTH_BLOCK_SIZE = 150,
    OH_NN_REDUCE_MAX_KEEP_DIMS = 151, OH_NN_REDUCE_MAX_REDUCE_TO_END = 152, OH_NN_REDUCE_MAX_COEFF = 153,
    OH_NN_REDUCE_MIN_KEEP_DIMS = 154, OH_NN_REDUCE_MIN_REDUCE_TO_END = 155, OH_NN_REDUCE_MIN_COEFF = 156,
    OH_NN_REDUCE_SUM_KEEP_DIMS = 157, OH_NN_REDUCE_SUM_REDUCE_TO_END = 158, OH_NN_REDUCE_SUM_COEFF = 159,
    OH_NN_REDUCE_L2_KEEP_DIMS = 160, OH_NN_REDUCE_L2_REDUCE_TO_END = 161, OH_NN_REDUCE_L2_COEFF = 162
} OH_NN_TensorType;

typedef enum {
    OH_NN_OPS_ADD = 1, OH_NN_OPS_AVG_POOL = 2, OH_NN_OPS_BATCH_NORM = 3, OH_NN_OPS_BATCH_TO_SPACE_ND = 4,
    OH_NN_OPS_BIAS_ADD = 5, OH_NN_OPS_CAST = 6, OH_NN_OPS_CONCAT = 7, OH_NN_OPS_CONV2D = 8,
    OH_NN_OPS_CONV2D_TRANSPOSE = 9, OH_NN_OPS_DEPTHWISE_CONV2D_NATIVE = 10, OH_NN_OPS_DIV = 11, OH_NN_OPS_ELTWISE = 12,
    OH_NN_OPS_EXPAND_DIMS = 13, OH_NN_OPS_FILL = 14, OH_NN_OPS_FULL_CONNECTION = 15, OH_NN_OPS_GATHER = 16,
    OH_NN_OPS_HSWISH = 17, OH_NN_OPS_LESS_EQUAL = 18, OH_NN_OPS_MATMUL = 19, OH_NN_OPS_MAXIMUM = 20,
    OH_NN_OPS_MAX_POOL = 21, OH_NN_OPS_MUL = 22, OH_NN_OPS_ONE_HOT = 23, OH_NN_OPS_PAD = 24, OH_NN_OPS_POW = 25,
    OH_NN_OPS_SCALE = 26, OH_NN_OPS_SHAPE = 27, OH_NN_OPS_SIGMOID = 28, OH_NN_OPS_SLICE = 29, OH_NN_OPS_SOFTMAX = 30,
    OH_NN_OPS_SPACE_TO_BATCH_ND = 31, OH_NN_OPS_SPLIT = 32, OH_NN_OPS_SQRT = 33, OH_NN_OPS_SQUARED_DIFFERENCE = 34,
    OH_NN_OPS_SQUEEZE = 35, OH_NN_OPS_STACK = 36, OH_NN_OPS_STRIDED_SLICE = 37, OH_NN_OPS_SUB = 38,
    OH_NN_OPS_TANH = 39, OH_NN_OPS_TILE = 40, OH_NN_OPS_TRANSPOSE = 41, OH_NN_OPS_REDUCE_MEAN = 42,
    OH_NN_OPS_RESIZE_BILINEAR = 43, OH_NN_OPS_RSQRT = 44, OH_NN_OPS_RESHAPE = 45, OH_NN_OPS_PRELU = 46,
    OH_NN_OPS_RELU = 47, OH_NN_OPS_RELU6 = 48, OH_NN_OPS_LAYER_NORM = 49, OH_NN_OPS_REDUCE_PROD = 50,
    OH_NN_OPS_REDUCE_ALL = 51, OH_NN_OPS_QUANT_DTYPE_CAST = 52, OH_NN_OPS_TOP_K = 53, OH_NN_OPS_ARG_MAX = 54,
    OH_NN_OPS_UNSQUEEZE = 55, OH_NN_OPS_GELU = 56, OH_NN_OPS_UNSTACK = 57, OH_NN_OPS_ABS = 58, OH_NN_OPS_ERF = 59,
    OH_NN_OPS_EXP = 60, OH_NN_OPS_LESS = 61, OH_NN_OPS_SELECT = 62, OH_NN_OPS_SQUARE = 63, OH_NN_OPS_FLATTEN = 64,
    OH_NN_OPS_DEPTH_TO_SPACE = 65, OH_NN_OPS_RANGE = 66, OH_NN_OPS_INSTANCE_NORM = 67,
    OH_NN_OPS_CONSTANT_OF_SHAPE = 68, OH_NN_OPS_BROADCAST_TO = 69, OH_NN_OPS_EQUAL = 70, OH_NN_OPS_GREATER = 71,
    OH_NN_OPS_NOT_EQUAL = 72, OH_NN_OPS_GREATER_EQUAL = 73, OH_NN_OPS_LEAKY_RELU = 74, OH_NN_OPS_LSTM = 75,
    OH_NN_OPS_CLIP = 76, OH_NN_OPS_ALL = 77, OH_NN_OPS_ASSERT = 78, OH_NN_OPS_COS = 79, OH_NN_OPS_LOG = 80,
    OH_NN_OPS_AND = 81, OH_NN_OPS_NOT = 82, OH_NN_OPS_MOD = 83, OH_NN_OPS_NEG = 84, OH_NN_OPS_RECIPROCAL = 85,
    OH_NN_OPS_SIN = 86, OH_NN_OPS_WHERE = 87, OH_NN_OPS_SPARSE_TO_DENSE = 88, OH_NN_OPS_OR = 89, OH_NN_OPS_CEIL = 90,
    OH_NN_OPS_CROP = 91, OH_NN_OPS_DETECTION_POST_PROCESS = 92, OH_NN_OPS_FLOOR = 93, OH_NN_OPS_L2_NORMALIZE = 94,
    OH_NN_OPS_LOG_SOFTMAX = 95, OH_NN_OPS_LRN = 96, OH_NN_OPS_MINIMUM = 97, OH_NN_OPS_RANK = 98,
    OH_NN_OPS_REDUCE_MAX = 99, OH_NN_OPS_REDUCE_MIN = 100, OH_NN_OPS_REDUCE_SUM = 101, OH_NN_OPS_ROUND = 102,
    OH_NN_OPS_SCATTER_ND = 103, OH_NN_OPS_SPACE_TO_DEPTH = 104, OH_NN_OPS_SWISH = 105, OH_NN_OPS_REDUCE_L2 = 106,
    OH_NN_OPS_HARD_SIGMOID = 107, OH_NN_OPS_GATHER_ND = 108,
    /* Newer headers have these names. */
    OH_NN_OPS_LOGICAL_AND = 81, OH_NN_OPS_LOGICAL_NOT = 82, OH_NN_OPS_LOGICAL_OR = 89
} OH_NN_OperationType;

typedef struct OH_NN_UInt32Array {
    uint32_t *data;
    uint32_t size;
} OH_NN_UInt32Array;

enum { NNRT_COMPAT_DIMS = 10, NNRT_COMPAT_PARAMETER_BYTES = 4096 };

/* A description. `has_shape` is false until a shape is set. */
typedef struct NN_TensorDesc {
    char *name;
    OH_NN_DataType dtype;
    OH_NN_Format format;
    bool has_shape;
    int32_t shape[NNRT_COMPAT_DIMS];
    size_t rank;
} NN_TensorDesc;

typedef struct NN_QuantParam {
    float *scales;
    int32_t *zero_points;
    uint32_t *bits;
    size_t scale_count, zero_point_count, bit_count;
} NN_QuantParam;

/* A tensor of a model: what parameters of operations take of it. */
typedef struct {
    OH_NN_DataType dtype;
    OH_NN_TensorType type;
    bool is_open, has_data;
    void *data;
    size_t len;
} nnrt_compat_slot;

typedef struct OH_NNModel {
    udo_graph_t *graph;
    nnrt_compat_slot *slots;
    uint32_t count, capacity, operations;
    bool is_finished, has_io, *supported;
} OH_NNModel;

typedef struct OH_NNCompilation {
    const OH_NNModel *source;
    char *path;
    const void *buffer;
    size_t buffer_size, device;
    OH_NN_PerformanceMode performance;
    OH_NN_Priority priority;
    bool is_half;
    udo_extension_t *extensions;
    size_t extension_count;
    udo_model_t *model;
    /* What an offline model of several stages is built to, instead of a model. */
    udo_network_t *network;
    char *cache;
    uint32_t cache_version;
} OH_NNCompilation;

/* It goes with the last of those that have it: the program, and runs that write it. */
typedef struct NN_Tensor {
    int holders;
    NN_TensorDesc *desc;
    udo_tensor_t *tensor;
    void *base;
    size_t base_size, skip, size, offset;
    int fd;
    bool owns_fd;
} NN_Tensor;

typedef void (*NN_OnRunDone)(void *userData, OH_NN_ReturnCode errCode, void *outputTensor[], int32_t outputCount);
typedef void (*NN_OnServiceDied)(void *userData);

/* What the calls from before tensors describe with. */
typedef struct OH_NN_QuantParam {
    uint32_t quantCount;
    const uint32_t *numBits;
    const double *scale;
    const int32_t *zeroPoint;
} OH_NN_QuantParam;

typedef struct OH_NN_Tensor {
    OH_NN_DataType dataType;
    uint32_t dimensionCount;
    const int32_t *dimensions;
    const OH_NN_QuantParam *quantParam;
    OH_NN_TensorType type;
} OH_NN_Tensor;

/* Memory of a device that host and device see. */
typedef struct OH_NN_Memory {
    void *data;
    size_t length;
} OH_NN_Memory;

/* Its first member is what the program sees. */
typedef struct nnrt_compat_memory {
    OH_NN_Memory seen;
    NN_Tensor *bytes;
    struct nnrt_compat_memory *next;
} nnrt_compat_memory;

/* What OH_NNExecutor_Run gives an input, or where it puts an output: memory of the device, or `length` bytes of the host. */
typedef struct {
    udo_tensor_t *tensor;
    void *buffer;
    size_t length;
    bool is_set;
} nnrt_compat_slot_of_run;

/* It goes with the last of those that have it: the program, and its runs. */
typedef struct OH_NNExecutor {
    int holders;
    pid_t process;
    udo_session_t *session;
    size_t device;
    pthread_mutex_t lock;
    nnrt_compat_slot_of_run *given, *wanted;
    nnrt_compat_memory **input_memories, **output_memories;
    NN_TensorDesc **inputs, **outputs;
    NN_TensorDesc **results;
    size_t input_count, output_count;
    size_t *range_min, *range_max;
    NN_OnRunDone on_done;
    NN_OnServiceDied on_died;
} OH_NNExecutor;

/* The devices of the program, opened with the first call that needs one. */
typedef struct {
    pid_t process;
    udo_runtime_t *runtime;
    udo_device_t **devices;
    size_t *ids;
    size_t count;
} nnrt_compat_host;

/* One for all files of a program that include this. */
__attribute__((weak)) nnrt_compat_host *nnrt_compat_opened;

/* The code of an error, which goes. */
static inline OH_NN_ReturnCode nnrt_compat_code(udo_error_t *error) {
    if (error == NULL) return OH_NN_SUCCESS;
    OH_NN_ReturnCode code = (OH_NN_ReturnCode)udo_error_code_nnrt(error);
    NNRT_COMPAT_LOG(udo_error_message(error));
    udo_error_release(error);
    return code;
}

static inline OH_NN_ReturnCode nnrt_compat_refuse(OH_NN_ReturnCode code, const char *why) {
    NNRT_COMPAT_LOG(why);
    return code;
}

/* Says which call was refused for what it was given. */
static inline void nnrt_compat_say(const char *call, const char *why) {
    /* Names are such as no program has, whose macro it is. */
    char nnrt_compat_line[256];
    if (snprintf(nnrt_compat_line, sizeof nnrt_compat_line, "%s: %s", call, why) < 0) nnrt_compat_line[0] = 0;
    NNRT_COMPAT_LOG(nnrt_compat_line);
    (void)nnrt_compat_line;
}

static inline OH_NN_ReturnCode nnrt_compat_wrong(const char *call) {
    nnrt_compat_say(call, "an argument is NULL, not NULL where a result goes, or not one of those that there are");
    return OH_NN_INVALID_PARAMETER;
}

static inline OH_NN_ReturnCode nnrt_compat_no_memory(const char *call) {
    nnrt_compat_say(call, "the host has no memory");
    return OH_NN_MEMORY_ERROR;
}

/* Has a call say why it hands nothing out. */
static inline void *nnrt_compat_nothing(const char *call) {
    (void)nnrt_compat_wrong(call);
    return NULL;
}

static inline void nnrt_compat_close(nnrt_compat_host *host) {
    for (size_t i = 0; host->devices != NULL && i < host->count; i++) udo_device_release(host->devices[i]);
    udo_runtime_release(host->runtime);
    free(host->devices);
    free(host->ids);
    free(host);
}

static inline nnrt_compat_host *nnrt_compat_devices(void) {
    nnrt_compat_host *host = __atomic_load_n(&nnrt_compat_opened, __ATOMIC_ACQUIRE), *other = host;
    const pid_t process = getpid();
    /* What a process had before it forked is not the other's, and stays as it is. */
    if (host != NULL && host->process == process) return host;
    host = (nnrt_compat_host *)calloc(1, sizeof *host);
    if (host == NULL) return NULL;
    host->process = process;
    bool is_open = nnrt_compat_code(udo_runtime_create(NULL, &host->runtime)) == OH_NN_SUCCESS
        && nnrt_compat_code(udo_runtime_device_count(host->runtime, &host->count)) == OH_NN_SUCCESS;
    if (is_open) {
        host->devices = (udo_device_t **)calloc(host->count + 1, sizeof *host->devices);
        host->ids = (size_t *)calloc(host->count + 1, sizeof *host->ids);
        is_open = host->devices != NULL && host->ids != NULL;
    }
    for (size_t i = 0; is_open && i < host->count; i++) {
        host->ids[i] = i;
        is_open = nnrt_compat_code(udo_runtime_device(host->runtime, i, &host->devices[i])) == OH_NN_SUCCESS;
    }
    if (!is_open) {
        nnrt_compat_close(host);
        return NULL;
    }
    if (__atomic_compare_exchange_n(&nnrt_compat_opened, &other, host, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return host;
    nnrt_compat_close(host);
    return other;
}

/* The device of a number; NULL if not found. */
static inline udo_device_t *nnrt_compat_device(size_t id) {
    nnrt_compat_host *host = nnrt_compat_devices();
    if (host != NULL && id < host->count) return host->devices[id];
    NNRT_COMPAT_LOG("device not found");
    return NULL;
}

static inline udo_dtype_t nnrt_compat_dtype(OH_NN_DataType of) {
    static const udo_dtype_t dtypes[13] = {
        0, UDO_DTYPE_BOOL, UDO_DTYPE_I8, UDO_DTYPE_I16, UDO_DTYPE_I32, UDO_DTYPE_I64, UDO_DTYPE_U8, UDO_DTYPE_U16,
        UDO_DTYPE_U32, UDO_DTYPE_U64, UDO_DTYPE_F16, UDO_DTYPE_F32, UDO_DTYPE_F64,
    };
    return (unsigned)of < 13 ? dtypes[(unsigned)of] : 0;
}

static inline OH_NN_DataType nnrt_compat_from_dtype(udo_dtype_t of) {
    for (int i = 1; i < 13; i++)
        if (nnrt_compat_dtype((OH_NN_DataType)i) == of) return (OH_NN_DataType)i;
    return OH_NN_UNKNOWN;
}

/* ---- Devices ---- */

static inline OH_NN_ReturnCode OH_NNDevice_GetAllDevicesID(const size_t **allDevicesID, uint32_t *deviceCount) {
    if (allDevicesID == NULL || *allDevicesID != NULL || deviceCount == NULL) return nnrt_compat_wrong(__func__);
    nnrt_compat_host *host = nnrt_compat_devices();
    if (host == NULL) return OH_NN_FAILED;
    *allDevicesID = host->ids;
    *deviceCount = (uint32_t)host->count;
    return OH_NN_SUCCESS;
}

static inline OH_NN_ReturnCode OH_NNDevice_GetName(size_t deviceID, const char **name) {
    if (name == NULL || *name != NULL) return nnrt_compat_wrong(__func__);
    udo_device_t *device = nnrt_compat_device(deviceID);
    return device == NULL ? OH_NN_FAILED : nnrt_compat_code(udo_device_name(device, name));
}

static inline OH_NN_ReturnCode OH_NNDevice_GetType(size_t deviceID, OH_NN_DeviceType *deviceType) {
    udo_device_t *device = nnrt_compat_device(deviceID);
    udo_device_kind_t kind = 0;
    if (deviceType == NULL || device == NULL) return nnrt_compat_wrong(__func__);
    OH_NN_ReturnCode code = nnrt_compat_code(udo_device_kind(device, &kind));
    if (code != OH_NN_SUCCESS) return code;
    *deviceType = kind == UDO_DEVICE_CPU ? OH_NN_CPU : kind == UDO_DEVICE_GPU ? OH_NN_GPU : OH_NN_ACCELERATOR;
    return OH_NN_SUCCESS;
}

/* ---- Descriptions ---- */

static inline NN_TensorDesc *OH_NNTensorDesc_Create(void) {
    return (NN_TensorDesc *)calloc(1, sizeof(NN_TensorDesc));
}

static inline OH_NN_ReturnCode OH_NNTensorDesc_Destroy(NN_TensorDesc **tensorDesc) {
    if (tensorDesc == NULL || *tensorDesc == NULL) return nnrt_compat_wrong(__func__);
    free((*tensorDesc)->name);
    free(*tensorDesc);
    *tensorDesc = NULL;
    return OH_NN_SUCCESS;
}

static inline OH_NN_ReturnCode OH_NNTensorDesc_SetName(NN_TensorDesc *tensorDesc, const char *name) {
    if (tensorDesc == NULL || name == NULL) return nnrt_compat_wrong(__func__);
    char *copy = (char *)malloc(strlen(name) + 1);
    if (copy == NULL) return nnrt_compat_no_memory(__func__);
    strcpy(copy, name);
    free(tensorDesc->name);
    tensorDesc->name = copy;
    return OH_NN_SUCCESS;
}

static inline OH_NN_ReturnCode OH_NNTensorDesc_GetName(const NN_TensorDesc *tensorDesc, const char **name) {
    if (tensorDesc == NULL || name == NULL || *name != NULL) return nnrt_compat_wrong(__func__);
    *name = tensorDesc->name == NULL ? "" : tensorDesc->name;
    return OH_NN_SUCCESS;
}

static inline OH_NN_ReturnCode OH_NNTensorDesc_SetDataType(NN_TensorDesc *tensorDesc, OH_NN_DataType dataType) {
    if (tensorDesc == NULL || (unsigned)dataType > OH_NN_FLOAT64) return nnrt_compat_wrong(__func__);
    tensorDesc->dtype = dataType;
    return OH_NN_SUCCESS;
}

static inline OH_NN_ReturnCode OH_NNTensorDesc_GetDataType(const NN_TensorDesc *tensorDesc, OH_NN_DataType *dataType) {
    if (tensorDesc == NULL || dataType == NULL) return nnrt_compat_wrong(__func__);
    *dataType = tensorDesc->dtype;
    return OH_NN_SUCCESS;
}

static inline OH_NN_ReturnCode OH_NNTensorDesc_SetShape(NN_TensorDesc *tensorDesc, const int32_t *shape, size_t shapeLength) {
    if (tensorDesc == NULL || shape == NULL || shapeLength == 0 || shapeLength > NNRT_COMPAT_DIMS) return nnrt_compat_wrong(__func__);
    memcpy(tensorDesc->shape, shape, shapeLength * sizeof *shape);
    tensorDesc->rank = shapeLength;
    tensorDesc->has_shape = true;
    return OH_NN_SUCCESS;
}

static inline OH_NN_ReturnCode OH_NNTensorDesc_GetShape(const NN_TensorDesc *tensorDesc, int32_t **shape, size_t *shapeLength) {
    if (tensorDesc == NULL || shape == NULL || *shape != NULL || shapeLength == NULL) return nnrt_compat_wrong(__func__);
    if (!tensorDesc->has_shape) return nnrt_compat_wrong(__func__);
    *shape = (int32_t *)tensorDesc->shape;
    *shapeLength = tensorDesc->rank;
    return OH_NN_SUCCESS;
}

static inline OH_NN_ReturnCode OH_NNTensorDesc_SetFormat(NN_TensorDesc *tensorDesc, OH_NN_Format format) {
    if (tensorDesc == NULL || (unsigned)format > OH_NN_FORMAT_ND) return nnrt_compat_wrong(__func__);
    tensorDesc->format = format;
    return OH_NN_SUCCESS;
}

static inline OH_NN_ReturnCode OH_NNTensorDesc_GetFormat(const NN_TensorDesc *tensorDesc, OH_NN_Format *format) {
    if (tensorDesc == NULL || format == NULL) return nnrt_compat_wrong(__func__);
    *format = tensorDesc->format;
    return OH_NN_SUCCESS;
}

/* The description as udo.h has it. */
static inline OH_NN_ReturnCode nnrt_compat_spec(const NN_TensorDesc *desc, udo_tensor_spec_t **out) {
    int64_t dims[NNRT_COMPAT_DIMS];
    for (size_t i = 0; i < desc->rank; i++) dims[i] = desc->shape[i];
    if (nnrt_compat_dtype(desc->dtype) == 0) return nnrt_compat_refuse(OH_NN_INVALID_PARAMETER, "a description without a type");
    OH_NN_ReturnCode code = nnrt_compat_code(udo_tensor_spec_create(nnrt_compat_dtype(desc->dtype), dims, desc->rank, out));
    if (code != OH_NN_SUCCESS || desc->rank != 4) return code;
    if (desc->format != OH_NN_FORMAT_NCHW && desc->format != OH_NN_FORMAT_NHWC) return code;
    udo_layout_t layout = desc->format == OH_NN_FORMAT_NCHW ? UDO_LAYOUT_NCHW : UDO_LAYOUT_NHWC;
    code = nnrt_compat_code(udo_tensor_spec_set_layout(*out, layout));
    if (code != OH_NN_SUCCESS) {
        udo_tensor_spec_release(*out);
        *out = NULL;
    }
    return code;
}

/* Has a description say what a specification does: type and shape. */
static inline OH_NN_ReturnCode nnrt_compat_tell(NN_TensorDesc *desc, const udo_tensor_spec_t *spec) {
    int64_t dims[64];
    int32_t shape[NNRT_COMPAT_DIMS];
    size_t rank = 0;
    udo_dtype_t dtype = 0;
    OH_NN_ReturnCode code = nnrt_compat_code(udo_tensor_spec_rank(spec, &rank));
    if (code == OH_NN_SUCCESS) code = nnrt_compat_code(udo_tensor_spec_dtype(spec, &dtype));
    if (code == OH_NN_SUCCESS && rank > NNRT_COMPAT_DIMS) code = nnrt_compat_refuse(OH_NN_UNSUPPORTED, "more than 10 dimensions");
    if (code == OH_NN_SUCCESS) code = nnrt_compat_code(udo_tensor_spec_dims(spec, dims, rank));
    for (size_t i = 0; code == OH_NN_SUCCESS && i < rank; i++) {
        if (dims[i] > INT32_MAX) code = nnrt_compat_refuse(OH_NN_UNSUPPORTED, "an extent beyond 32 bits");
        shape[i] = (int32_t)dims[i];
    }
    if (code != OH_NN_SUCCESS) return code;
    memcpy(desc->shape, shape, rank * sizeof *shape);
    desc->rank = rank;
    desc->has_shape = true;
    desc->dtype = nnrt_compat_from_dtype(dtype);
    return OH_NN_SUCCESS;
}

static inline NN_TensorDesc *nnrt_compat_copy(const NN_TensorDesc *desc) {
    NN_TensorDesc *copy = desc == NULL ? NULL : OH_NNTensorDesc_Create();
    if (copy == NULL) return NULL;
    *copy = *desc;
    copy->name = NULL;
    if (desc->name != NULL && OH_NNTensorDesc_SetName(copy, desc->name) != OH_NN_SUCCESS) OH_NNTensorDesc_Destroy(&copy);
    return copy;
}

/* A number of a description that has a type: 0 where it fails. */
static inline OH_NN_ReturnCode nnrt_compat_count(
    const NN_TensorDesc *desc, OH_NN_DataType dtype, size_t *out, udo_error_t *(*count)(const udo_tensor_spec_t *, uint64_t *)) {
    udo_tensor_spec_t *spec = NULL;
    uint64_t counted = 0;
    *out = 0;
    if (!desc->has_shape) return nnrt_compat_wrong(__func__);
    NN_TensorDesc of = *desc;
    of.dtype = dtype;
    OH_NN_ReturnCode code = nnrt_compat_spec(&of, &spec);
    if (code == OH_NN_SUCCESS) code = nnrt_compat_code(count(spec, &counted));
    udo_tensor_spec_release(spec);
    if (code == OH_NN_SUCCESS) *out = (size_t)counted;
    return code;
}

static inline OH_NN_ReturnCode OH_NNTensorDesc_GetElementCount(const NN_TensorDesc *tensorDesc, size_t *elementCount) {
    if (tensorDesc == NULL || elementCount == NULL) return nnrt_compat_wrong(__func__);
    /* There are as many of whichever type. */
    return nnrt_compat_count(tensorDesc, OH_NN_INT8, elementCount, udo_tensor_spec_elements);
}

static inline OH_NN_ReturnCode OH_NNTensorDesc_GetByteSize(const NN_TensorDesc *tensorDesc, size_t *byteSize) {
    if (tensorDesc == NULL || byteSize == NULL) return nnrt_compat_wrong(__func__);
    return nnrt_compat_count(tensorDesc, tensorDesc->dtype, byteSize, udo_tensor_spec_byte_size);
}

/* ---- Quantization ---- */

static inline NN_QuantParam *OH_NNQuantParam_Create(void) {
    return (NN_QuantParam *)calloc(1, sizeof(NN_QuantParam));
}

static inline OH_NN_ReturnCode OH_NNQuantParam_Destroy(NN_QuantParam **quantParams) {
    if (quantParams == NULL || *quantParams == NULL) return nnrt_compat_wrong(__func__);
    free((*quantParams)->scales);
    free((*quantParams)->zero_points);
    free((*quantParams)->bits);
    free(*quantParams);
    *quantParams = NULL;
    return OH_NN_SUCCESS;
}

static inline OH_NN_ReturnCode OH_NNQuantParam_SetScales(NN_QuantParam *quantParams, const double *scales, size_t quantCount) {
    if (quantParams == NULL || scales == NULL || quantCount == 0) return nnrt_compat_wrong(__func__);
    float *copy = (float *)calloc(quantCount, sizeof *copy);
    if (copy == NULL) return nnrt_compat_no_memory(__func__);
    for (size_t i = 0; i < quantCount; i++) copy[i] = (float)scales[i];
    free(quantParams->scales);
    quantParams->scales = copy;
    quantParams->scale_count = quantCount;
    return OH_NN_SUCCESS;
}

static inline OH_NN_ReturnCode OH_NNQuantParam_SetZeroPoints(NN_QuantParam *quantParams, const int32_t *zeroPoints, size_t quantCount) {
    if (quantParams == NULL || zeroPoints == NULL || quantCount == 0) return nnrt_compat_wrong(__func__);
    int32_t *copy = (int32_t *)calloc(quantCount, sizeof *copy);
    if (copy == NULL) return nnrt_compat_no_memory(__func__);
    memcpy(copy, zeroPoints, quantCount * sizeof *copy);
    free(quantParams->zero_points);
    quantParams->zero_points = copy;
    quantParams->zero_point_count = quantCount;
    return OH_NN_SUCCESS;
}

static inline OH_NN_ReturnCode OH_NNQuantParam_SetNumBits(NN_QuantParam *quantParams, const uint32_t *numBits, size_t quantCount) {
    if (quantParams == NULL || numBits == NULL || quantCount == 0) return nnrt_compat_wrong(__func__);
    uint32_t *copy = (uint32_t *)calloc(quantCount, sizeof *copy);
    if (copy == NULL) return nnrt_compat_no_memory(__func__);
    memcpy(copy, numBits, quantCount * sizeof *copy);
    free(quantParams->bits);
    quantParams->bits = copy;
    quantParams->bit_count = quantCount;
    return OH_NN_SUCCESS;
}

/* ---- Models ---- */

static inline OH_NNModel *OH_NNModel_Construct(void) {
    OH_NNModel *model = (OH_NNModel *)calloc(1, sizeof *model);
    if (model == NULL) return NULL;
    if (nnrt_compat_code(udo_graph_create(NULL, &model->graph)) == OH_NN_SUCCESS) return model;
    free(model);
    return NULL;
}

static inline void OH_NNModel_Destroy(OH_NNModel **model) {
    if (model == NULL || *model == NULL) return;
    for (uint32_t i = 0; i < (*model)->count; i++) free((*model)->slots[i].data);
    udo_graph_release((*model)->graph);
    free((*model)->slots);
    free((*model)->supported);
    free(*model);
    *model = NULL;
}

/* The tensor of a number, while the model can be changed. */
static inline OH_NN_ReturnCode nnrt_compat_slot_of(OH_NNModel *model, uint32_t index, nnrt_compat_slot **out) {
    if (model == NULL) return nnrt_compat_wrong(__func__);
    if (model->is_finished) return nnrt_compat_refuse(OH_NN_OPERATION_FORBIDDEN, "the model is finished");
    if (index >= model->count) return nnrt_compat_refuse(OH_NN_INVALID_PARAMETER, "the model has no such tensor");
    *out = &model->slots[index];
    return OH_NN_SUCCESS;
}

static inline OH_NN_ReturnCode OH_NNModel_AddTensorToModel(OH_NNModel *model, const NN_TensorDesc *tensorDesc) {
    if (model == NULL || tensorDesc == NULL) return nnrt_compat_wrong(__func__);
    if (model->is_finished) return nnrt_compat_refuse(OH_NN_OPERATION_FORBIDDEN, "the model is finished");
    bool is_open = false;
    for (size_t i = 0; i < tensorDesc->rank; i++) {
        if (tensorDesc->shape[i] == 0 || tensorDesc->shape[i] < -1) return nnrt_compat_wrong(__func__);
        is_open = is_open || tensorDesc->shape[i] == -1;
    }
    if (model->count == model->capacity) {
        uint32_t capacity = 2 * model->capacity + 8;
        nnrt_compat_slot *slots = (nnrt_compat_slot *)realloc(model->slots, capacity * sizeof *slots);
        if (slots == NULL) return nnrt_compat_no_memory(__func__);
        model->slots = slots;
        model->capacity = capacity;
    }
    udo_tensor_spec_t *spec = NULL;
    OH_NN_ReturnCode code = nnrt_compat_spec(tensorDesc, &spec);
    if (code != OH_NN_SUCCESS) return code;
    uint32_t number = 0;
    udo_error_t *error = udo_graph_add_tensor(model->graph, spec, tensorDesc->name, &number);
    if (udo_error_code(error) == UDO_ERROR_ALREADY_EXISTS) {
        /* There, names are for people, and several may be equal. */
        udo_error_release(error);
        error = udo_graph_add_tensor(model->graph, spec, NULL, &number);
    }
    udo_tensor_spec_release(spec);
    code = nnrt_compat_code(error);
    if (code != OH_NN_SUCCESS) return code;
    nnrt_compat_slot *slot = &model->slots[model->count++];
    memset(slot, 0, sizeof *slot);
    slot->dtype = tensorDesc->dtype;
    slot->is_open = is_open;
    return OH_NN_SUCCESS;
}

/* The description of a tensor from before there were descriptions; NULL if it is none. */
static inline NN_TensorDesc *nnrt_compat_described(const OH_NN_Tensor *tensor) {
    NN_TensorDesc *desc = tensor->dimensionCount > 0 && tensor->dimensions == NULL ? NULL : OH_NNTensorDesc_Create();
    if (desc == NULL) return NULL;
    OH_NN_ReturnCode code = OH_NNTensorDesc_SetDataType(desc, tensor->dataType);
    if (code == OH_NN_SUCCESS && tensor->dimensionCount > 0) code = OH_NNTensorDesc_SetShape(desc, tensor->dimensions, tensor->dimensionCount);
    if (code == OH_NN_SUCCESS && tensor->dimensionCount == 0) desc->has_shape = true;
    if (code != OH_NN_SUCCESS) OH_NNTensorDesc_Destroy(&desc);
    return desc;
}

static inline OH_NN_ReturnCode OH_NNModel_SetTensorData(OH_NNModel *model, uint32_t index, const void *dataBuffer, size_t length) {
    nnrt_compat_slot *slot = NULL;
    OH_NN_ReturnCode code = nnrt_compat_slot_of(model, index, &slot);
    if (code != OH_NN_SUCCESS) return code;
    if (dataBuffer == NULL || length == 0 || slot->has_data) return nnrt_compat_wrong(__func__);
    if (slot->is_open) return nnrt_compat_refuse(OH_NN_OPERATION_FORBIDDEN, "elements of a tensor with open dimensions");
    /* Parameters are short; what is longer can only be a constant. */
    void *copy = length > NNRT_COMPAT_PARAMETER_BYTES ? NULL : malloc(length);
    if (copy == NULL && length <= NNRT_COMPAT_PARAMETER_BYTES) return nnrt_compat_no_memory(__func__);
    code = nnrt_compat_code(udo_graph_set_data(model->graph, index, dataBuffer, length));
    if (code != OH_NN_SUCCESS) {
        free(copy);
        return code;
    }
    if (copy != NULL) memcpy(copy, dataBuffer, length);
    slot->data = copy;
    slot->len = length;
    slot->has_data = true;
    return OH_NN_SUCCESS;
}

/* Whether a quantization says as much of everything, in 8 bits. */
static inline OH_NN_ReturnCode nnrt_compat_is_whole(const NN_QuantParam *of) {
    if (of == NULL || of->scale_count == 0 || of->zero_point_count != of->scale_count || of->bit_count != of->scale_count)
        return nnrt_compat_wrong(__func__);
    for (size_t i = 0; i < of->scale_count; i++)
        if (of->bits[i] != 8) return nnrt_compat_refuse(OH_NN_INVALID_PARAMETER, "a number of bits that is not 8");
    return OH_NN_SUCCESS;
}

/* Several scales are for the channels that weights make, their first dimension. */
static inline int32_t nnrt_compat_axis(const NN_QuantParam *of) {
    return of->scale_count == 1 ? -1 : 0;
}

/* Whether a tensor of a description may have a quantization. */
static inline OH_NN_ReturnCode nnrt_compat_may_have(const NN_TensorDesc *desc, const NN_QuantParam *of) {
    udo_tensor_spec_t *spec = NULL;
    OH_NN_ReturnCode code = nnrt_compat_is_whole(of);
    if (code == OH_NN_SUCCESS) code = nnrt_compat_spec(desc, &spec);
    if (code == OH_NN_SUCCESS)
        code = nnrt_compat_code(udo_tensor_spec_set_quantization(spec, of->scales, of->zero_points, of->scale_count, nnrt_compat_axis(of)));
    udo_tensor_spec_release(spec);
    return code;
}

static inline OH_NN_ReturnCode OH_NNModel_SetTensorQuantParams(OH_NNModel *model, uint32_t index, NN_QuantParam *quantParam) {
    nnrt_compat_slot *slot = NULL;
    OH_NN_ReturnCode code = nnrt_compat_slot_of(model, index, &slot);
    if (code != OH_NN_SUCCESS) return code;
    code = nnrt_compat_is_whole(quantParam);
    if (code != OH_NN_SUCCESS) return code;
    return nnrt_compat_code(udo_graph_set_quantization(
        model->graph, index, quantParam->scales, quantParam->zero_points, quantParam->scale_count, nnrt_compat_axis(quantParam)));
}

static inline OH_NN_ReturnCode OH_NNModel_SetTensorType(OH_NNModel *model, uint32_t index, OH_NN_TensorType tensorType) {
    nnrt_compat_slot *slot = NULL;
    OH_NN_ReturnCode code = nnrt_compat_slot_of(model, index, &slot);
    if (code != OH_NN_SUCCESS) return code;
    if ((unsigned)tensorType > OH_NN_REDUCE_L2_COEFF) return nnrt_compat_wrong(__func__);
    slot->type = tensorType;
    return OH_NN_SUCCESS;
}

/* As OH_NNModel_AddTensorToModel, OH_NNModel_SetTensorType and OH_NNModel_SetTensorQuantParams. */
static inline OH_NN_ReturnCode OH_NNModel_AddTensor(OH_NNModel *model, const OH_NN_Tensor *tensor) {
    if (model == NULL || tensor == NULL || (unsigned)tensor->type > OH_NN_REDUCE_L2_COEFF) return nnrt_compat_wrong(__func__);
    if (model->is_finished) return nnrt_compat_refuse(OH_NN_OPERATION_FORBIDDEN, "the model is finished");
    const OH_NN_QuantParam *of = tensor->quantParam;
    const bool is_quantized = of != NULL && of->quantCount > 0;
    if (is_quantized && (of->scale == NULL || of->zeroPoint == NULL || of->numBits == NULL)) return nnrt_compat_wrong(__func__);
    NN_TensorDesc *desc = nnrt_compat_described(tensor);
    NN_QuantParam *quantization = is_quantized ? OH_NNQuantParam_Create() : NULL;
    OH_NN_ReturnCode code = desc == NULL ? nnrt_compat_wrong(__func__) : OH_NN_SUCCESS;
    if (code == OH_NN_SUCCESS && is_quantized) {
        code = OH_NNQuantParam_SetScales(quantization, of->scale, of->quantCount);
        if (code == OH_NN_SUCCESS) code = OH_NNQuantParam_SetZeroPoints(quantization, of->zeroPoint, of->quantCount);
        if (code == OH_NN_SUCCESS) code = OH_NNQuantParam_SetNumBits(quantization, of->numBits, of->quantCount);
        /* What is refused leaves no tensor behind. */
        if (code == OH_NN_SUCCESS) code = nnrt_compat_may_have(desc, quantization);
    }
    if (code == OH_NN_SUCCESS) code = OH_NNModel_AddTensorToModel(model, desc);
    if (code == OH_NN_SUCCESS) code = OH_NNModel_SetTensorType(model, model->count - 1, tensor->type);
    if (code == OH_NN_SUCCESS && is_quantized) code = OH_NNModel_SetTensorQuantParams(model, model->count - 1, quantization);
    if (desc != NULL) OH_NNTensorDesc_Destroy(&desc);
    if (quantization != NULL) OH_NNQuantParam_Destroy(&quantization);
    return code;
}

/* A parameter: the operation that has it, its name there, and of which kind it is. */
typedef struct {
    uint32_t op;
    const char *name;
    udo_attribute_kind_t kind;
} nnrt_compat_parameter;

static inline const nnrt_compat_parameter *nnrt_compat_parameter_of(OH_NN_TensorType type) {
    static const nnrt_compat_parameter parameters[OH_NN_REDUCE_L2_COEFF + 1] = {
        {0, NULL, 0}, {1, "activation", UDO_ATTRIBUTE_INT}, {2, "kernel_size", UDO_ATTRIBUTE_INTS},
        {2, "stride", UDO_ATTRIBUTE_INTS}, {2, "pad_mode", UDO_ATTRIBUTE_INT}, {2, "pad", UDO_ATTRIBUTE_INTS},
        {2, "activation", UDO_ATTRIBUTE_INT}, {3, "epsilon", UDO_ATTRIBUTE_FLOAT}, {4, "block_shape", UDO_ATTRIBUTE_INTS},
        {4, "crops", UDO_ATTRIBUTE_INTS}, {7, "axis", UDO_ATTRIBUTE_INT}, {8, "stride", UDO_ATTRIBUTE_INTS},
        {8, "pad", UDO_ATTRIBUTE_INTS}, {8, "dilation", UDO_ATTRIBUTE_INTS}, {8, "pad_mode", UDO_ATTRIBUTE_INT},
        {8, "activation", UDO_ATTRIBUTE_INT}, {8, "group", UDO_ATTRIBUTE_INT}, {9, "stride", UDO_ATTRIBUTE_INTS},
        {9, "pad", UDO_ATTRIBUTE_INTS}, {9, "dilation", UDO_ATTRIBUTE_INTS}, {9, "output_padding", UDO_ATTRIBUTE_INTS},
        {9, "pad_mode", UDO_ATTRIBUTE_INT}, {9, "activation", UDO_ATTRIBUTE_INT}, {9, "group", UDO_ATTRIBUTE_INT},
        {10, "stride", UDO_ATTRIBUTE_INTS}, {10, "pad", UDO_ATTRIBUTE_INTS}, {10, "dilation", UDO_ATTRIBUTE_INTS},
        {10, "pad_mode", UDO_ATTRIBUTE_INT}, {10, "activation", UDO_ATTRIBUTE_INT}, {11, "activation", UDO_ATTRIBUTE_INT},
        {12, "mode", UDO_ATTRIBUTE_INT}, {15, "axis", UDO_ATTRIBUTE_INT}, {15, "activation", UDO_ATTRIBUTE_INT},
        {19, "transpose_a", UDO_ATTRIBUTE_INT}, {19, "transpose_b", UDO_ATTRIBUTE_INT},
        {19, "activation", UDO_ATTRIBUTE_INT}, {21, "kernel_size", UDO_ATTRIBUTE_INTS}, {21, "stride", UDO_ATTRIBUTE_INTS},
        {21, "pad_mode", UDO_ATTRIBUTE_INT}, {21, "pad", UDO_ATTRIBUTE_INTS}, {21, "activation", UDO_ATTRIBUTE_INT},
        {22, "activation", UDO_ATTRIBUTE_INT}, {23, "axis", UDO_ATTRIBUTE_INT},
        {24, "constant_value", UDO_ATTRIBUTE_FLOAT}, {26, "activation", UDO_ATTRIBUTE_INT},
        {26, "axis", UDO_ATTRIBUTE_INT}, {30, "axis", UDO_ATTRIBUTE_INTS}, {31, "block_shape", UDO_ATTRIBUTE_INTS},
        {31, "paddings", UDO_ATTRIBUTE_INTS}, {32, "axis", UDO_ATTRIBUTE_INT}, {32, "output_num", UDO_ATTRIBUTE_INT},
        {32, "size_splits", UDO_ATTRIBUTE_INTS}, {35, "axis", UDO_ATTRIBUTE_INTS}, {36, "axis", UDO_ATTRIBUTE_INT},
        {37, "begin_mask", UDO_ATTRIBUTE_INT}, {37, "end_mask", UDO_ATTRIBUTE_INT},
        {37, "ellipsis_mask", UDO_ATTRIBUTE_INT}, {37, "new_axis_mask", UDO_ATTRIBUTE_INT},
        {37, "shrink_axis_mask", UDO_ATTRIBUTE_INT}, {38, "activation", UDO_ATTRIBUTE_INT},
        {42, "keep_dims", UDO_ATTRIBUTE_INT}, {43, "new_height", UDO_ATTRIBUTE_INT}, {43, "new_width", UDO_ATTRIBUTE_INT},
        {43, "preserve_aspect_ratio", UDO_ATTRIBUTE_INT}, {43, "coordinate_mode", UDO_ATTRIBUTE_INT},
        {43, "exclude_outside", UDO_ATTRIBUTE_INT}, {49, "begin_axis", UDO_ATTRIBUTE_INT},
        {49, "epsilon", UDO_ATTRIBUTE_FLOAT}, {49, "begin_params_axis", UDO_ATTRIBUTE_INT}, {0, NULL, 0},
        {50, "keep_dims", UDO_ATTRIBUTE_INT}, {51, "keep_dims", UDO_ATTRIBUTE_INT}, {52, "src_t", UDO_ATTRIBUTE_INT},
        {52, "dst_t", UDO_ATTRIBUTE_INT}, {53, "sorted", UDO_ATTRIBUTE_INT}, {54, "axis", UDO_ATTRIBUTE_INT},
        {54, "keep_dims", UDO_ATTRIBUTE_INT}, {55, "axis", UDO_ATTRIBUTE_INTS}, {57, "axis", UDO_ATTRIBUTE_INT},
        {64, "axis", UDO_ATTRIBUTE_INT}, {65, "block_size", UDO_ATTRIBUTE_INT}, {65, "mode", UDO_ATTRIBUTE_INT},
        {66, "start", UDO_ATTRIBUTE_INT}, {66, "limit", UDO_ATTRIBUTE_INT}, {66, "delta", UDO_ATTRIBUTE_INT},
        {68, "data_type", UDO_ATTRIBUTE_INT}, {68, "value", UDO_ATTRIBUTE_FLOATS}, {69, "shape", UDO_ATTRIBUTE_INTS},
        {67, "epsilon", UDO_ATTRIBUTE_FLOAT}, {60, "base", UDO_ATTRIBUTE_FLOAT}, {60, "scale", UDO_ATTRIBUTE_FLOAT},
        {60, "shift", UDO_ATTRIBUTE_FLOAT}, {74, "negative_slope", UDO_ATTRIBUTE_FLOAT},
        {75, "bidirectional", UDO_ATTRIBUTE_INT}, {75, "has_bias", UDO_ATTRIBUTE_INT},
        {75, "input_size", UDO_ATTRIBUTE_INT}, {75, "hidden_size", UDO_ATTRIBUTE_INT},
        {75, "num_layers", UDO_ATTRIBUTE_INT}, {75, "num_directions", UDO_ATTRIBUTE_INT},
        {75, "dropout", UDO_ATTRIBUTE_FLOAT}, {75, "zoneout_cell", UDO_ATTRIBUTE_FLOAT},
        {75, "zoneout_hidden", UDO_ATTRIBUTE_FLOAT}, {75, "proj_size", UDO_ATTRIBUTE_INT},
        {76, "max", UDO_ATTRIBUTE_FLOAT}, {76, "min", UDO_ATTRIBUTE_FLOAT}, {77, "keep_dims", UDO_ATTRIBUTE_INT},
        {78, "summarize", UDO_ATTRIBUTE_INT}, {25, "scale", UDO_ATTRIBUTE_FLOAT}, {25, "shift", UDO_ATTRIBUTE_FLOAT},
        {2, "round_mode", UDO_ATTRIBUTE_INT}, {2, "global", UDO_ATTRIBUTE_INT}, {15, "has_bias", UDO_ATTRIBUTE_INT},
        {15, "use_axis", UDO_ATTRIBUTE_INT}, {56, "approximate", UDO_ATTRIBUTE_INT}, {21, "round_mode", UDO_ATTRIBUTE_INT},
        {21, "global", UDO_ATTRIBUTE_INT}, {24, "padding_mode", UDO_ATTRIBUTE_INT},
        {42, "reduce_to_end", UDO_ATTRIBUTE_INT}, {42, "coeff", UDO_ATTRIBUTE_FLOAT},
        {50, "reduce_to_end", UDO_ATTRIBUTE_INT}, {50, "coeff", UDO_ATTRIBUTE_FLOAT},
        {51, "reduce_to_end", UDO_ATTRIBUTE_INT}, {51, "coeff", UDO_ATTRIBUTE_FLOAT}, {53, "axis", UDO_ATTRIBUTE_INT},
        {54, "top_k", UDO_ATTRIBUTE_INT}, {54, "out_max_value", UDO_ATTRIBUTE_INT}, {52, "axis", UDO_ATTRIBUTE_INT},
        {29, "axes", UDO_ATTRIBUTE_INTS}, {40, "dims", UDO_ATTRIBUTE_INTS}, {91, "axis", UDO_ATTRIBUTE_INT},
        {91, "offset", UDO_ATTRIBUTE_INTS}, {92, "input_size", UDO_ATTRIBUTE_INT}, {92, "scale", UDO_ATTRIBUTE_FLOATS},
        {92, "nms_iou_threshold", UDO_ATTRIBUTE_FLOAT}, {92, "nms_score_threshold", UDO_ATTRIBUTE_FLOAT},
        {92, "max_detections", UDO_ATTRIBUTE_INT}, {92, "detections_per_class", UDO_ATTRIBUTE_INT},
        {92, "max_classes_per_detection", UDO_ATTRIBUTE_INT}, {92, "num_classes", UDO_ATTRIBUTE_INT},
        {92, "use_regular_nms", UDO_ATTRIBUTE_INT}, {92, "out_quantized", UDO_ATTRIBUTE_INT},
        {94, "axis", UDO_ATTRIBUTE_INTS}, {94, "epsilon", UDO_ATTRIBUTE_FLOAT}, {94, "activation", UDO_ATTRIBUTE_INT},
        {95, "axis", UDO_ATTRIBUTE_INT}, {96, "depth_radius", UDO_ATTRIBUTE_INT}, {96, "bias", UDO_ATTRIBUTE_FLOAT},
        {96, "alpha", UDO_ATTRIBUTE_FLOAT}, {96, "beta", UDO_ATTRIBUTE_FLOAT}, {96, "norm_region", UDO_ATTRIBUTE_INT},
        {104, "block_size", UDO_ATTRIBUTE_INT}, {99, "keep_dims", UDO_ATTRIBUTE_INT},
        {99, "reduce_to_end", UDO_ATTRIBUTE_INT}, {99, "coeff", UDO_ATTRIBUTE_FLOAT},
        {100, "keep_dims", UDO_ATTRIBUTE_INT}, {100, "reduce_to_end", UDO_ATTRIBUTE_INT},
        {100, "coeff", UDO_ATTRIBUTE_FLOAT}, {101, "keep_dims", UDO_ATTRIBUTE_INT},
        {101, "reduce_to_end", UDO_ATTRIBUTE_INT}, {101, "coeff", UDO_ATTRIBUTE_FLOAT},
        {106, "keep_dims", UDO_ATTRIBUTE_INT}, {106, "reduce_to_end", UDO_ATTRIBUTE_INT},
        {106, "coeff", UDO_ATTRIBUTE_FLOAT}
    };
    return &parameters[(unsigned)type];
}

/* Element `i` of a parameter. */
static inline bool nnrt_compat_element(const nnrt_compat_slot *slot, size_t i, int64_t *integer, double *number) {
    size_t width;
    int64_t whole = 0;
    float single = 0;
    const char *at = (const char *)slot->data;
    switch (slot->dtype) {
    case OH_NN_BOOL: case OH_NN_INT8: case OH_NN_UINT8: width = 1; break;
    case OH_NN_INT16: width = 2; break;
    case OH_NN_INT32: case OH_NN_FLOAT32: width = 4; break;
    case OH_NN_INT64: case OH_NN_FLOAT64: width = 8; break;
    default: return false;
    }
    if (slot->len % width != 0 || i >= slot->len / width) return false;
    at += i * width;
    if (slot->dtype == OH_NN_FLOAT64) {
        memcpy(number, at, sizeof *number);
        return true;
    }
    if (slot->dtype == OH_NN_FLOAT32) {
        memcpy(&single, at, sizeof single);
        *number = single;
        return true;
    }
    if (width == 1) whole = slot->dtype == OH_NN_INT8 ? *(const signed char *)at : *(const unsigned char *)at;
    if (width == 2) { int16_t value; memcpy(&value, at, sizeof value); whole = value; }
    if (width == 4) { int32_t value; memcpy(&value, at, sizeof value); whole = value; }
    if (width == 8) memcpy(&whole, at, sizeof whole);
    *integer = whole;
    *number = (double)whole;
    return true;
}

/* The attribute that a parameter is. Its lists lie in `ints` and `floats`, which have room for all of a parameter's bytes. */
static inline OH_NN_ReturnCode nnrt_compat_attribute(
    const nnrt_compat_slot *slot, uint32_t op, udo_attribute_t *out, int64_t *ints, double *floats) {
    const nnrt_compat_parameter *parameter = nnrt_compat_parameter_of(slot->type);
    const bool is_integral = slot->dtype != OH_NN_FLOAT32 && slot->dtype != OH_NN_FLOAT64;
    memset(out, 0, sizeof *out);
    if (parameter->name == NULL || parameter->op != op) return nnrt_compat_refuse(OH_NN_INVALID_PARAMETER, "a parameter of another operation");
    if (slot->data == NULL) return nnrt_compat_refuse(OH_NN_INVALID_PARAMETER, "a parameter without elements, or with too many");
    out->name = parameter->name;
    out->kind = parameter->kind;
    out->ints = ints;
    out->floats = floats;
    while (out->count < NNRT_COMPAT_PARAMETER_BYTES && nnrt_compat_element(slot, out->count, &ints[out->count], &floats[out->count])) out->count++;
    if (out->count == 0) return nnrt_compat_refuse(OH_NN_INVALID_PARAMETER, "a parameter of a type that none has");
    out->int_value = ints[0];
    out->float_value = floats[0];
    const bool wants_integers = parameter->kind == UDO_ATTRIBUTE_INT || parameter->kind == UDO_ATTRIBUTE_INTS;
    const bool wants_one = parameter->kind == UDO_ATTRIBUTE_INT || parameter->kind == UDO_ATTRIBUTE_FLOAT;
    if (wants_integers && !is_integral) return nnrt_compat_refuse(OH_NN_INVALID_PARAMETER, "a parameter that is not an integer");
    if (wants_one && out->count != 1) return nnrt_compat_refuse(OH_NN_INVALID_PARAMETER, "a parameter of more than one element");
    return OH_NN_SUCCESS;
}

/* Whether all of an array are tensors that are no parameters. */
static inline bool nnrt_compat_are_plain(const OH_NNModel *model, const OH_NN_UInt32Array *of) {
    if (of == NULL || (of->data == NULL && of->size > 0)) return false;
    for (uint32_t i = 0; i < of->size; i++)
        if (of->data[i] >= model->count || model->slots[of->data[i]].type != OH_NN_TENSOR) return false;
    return true;
}

static inline OH_NN_ReturnCode OH_NNModel_AddOperation(
    OH_NNModel *model, OH_NN_OperationType op, const OH_NN_UInt32Array *paramIndices,
    const OH_NN_UInt32Array *inputIndices, const OH_NN_UInt32Array *outputIndices) {
    if (model == NULL || paramIndices == NULL) return nnrt_compat_wrong(__func__);
    if (model->is_finished) return nnrt_compat_refuse(OH_NN_OPERATION_FORBIDDEN, "the model is finished");
    if (!nnrt_compat_are_plain(model, inputIndices) || !nnrt_compat_are_plain(model, outputIndices)) return nnrt_compat_wrong(__func__);
    const uint32_t count = paramIndices->size;
    if (count > model->count || (count > 0 && paramIndices->data == NULL)) return nnrt_compat_wrong(__func__);
    udo_attribute_t *attributes = (udo_attribute_t *)calloc(count + 1, sizeof *attributes);
    int64_t *ints = (int64_t *)calloc((size_t)count + 1, NNRT_COMPAT_PARAMETER_BYTES * sizeof *ints);
    double *floats = (double *)calloc((size_t)count + 1, NNRT_COMPAT_PARAMETER_BYTES * sizeof *floats);
    OH_NN_ReturnCode code = attributes == NULL || ints == NULL || floats == NULL ? nnrt_compat_no_memory(__func__) : OH_NN_SUCCESS;
    for (uint32_t i = 0; code == OH_NN_SUCCESS && i < count; i++) {
        const uint32_t index = paramIndices->data[i];
        const size_t at = (size_t)i * NNRT_COMPAT_PARAMETER_BYTES;
        code = index >= model->count ? nnrt_compat_wrong(__func__)
            : nnrt_compat_attribute(&model->slots[index], (uint32_t)op, &attributes[i], &ints[at], &floats[at]);
    }
    uint32_t number = 0;
    if (code == OH_NN_SUCCESS)
        code = nnrt_compat_code(udo_graph_add_nnrt_op(
            model->graph, (uint32_t)op, inputIndices->data, inputIndices->size, outputIndices->data, outputIndices->size,
            attributes, count, &number));
    if (code == OH_NN_SUCCESS) model->operations++;
    free(attributes);
    free(ints);
    free(floats);
    return code;
}

static inline OH_NN_ReturnCode OH_NNModel_SpecifyInputsAndOutputs(
    OH_NNModel *model, const OH_NN_UInt32Array *inputIndices, const OH_NN_UInt32Array *outputIndices) {
    if (model == NULL) return nnrt_compat_wrong(__func__);
    if (model->is_finished || model->has_io) return nnrt_compat_refuse(OH_NN_OPERATION_FORBIDDEN, "inputs and outputs are said once");
    if (!nnrt_compat_are_plain(model, inputIndices) || !nnrt_compat_are_plain(model, outputIndices)) return nnrt_compat_wrong(__func__);
    OH_NN_ReturnCode code = nnrt_compat_code(udo_graph_set_io(
        model->graph, inputIndices->data, inputIndices->size, outputIndices->data, outputIndices->size));
    model->has_io = code == OH_NN_SUCCESS;
    return code;
}

static inline OH_NN_ReturnCode OH_NNModel_Finish(OH_NNModel *model) {
    if (model == NULL) return nnrt_compat_wrong(__func__);
    OH_NN_ReturnCode code = nnrt_compat_code(udo_graph_finish(model->graph));
    model->is_finished = model->is_finished || code == OH_NN_SUCCESS;
    return code;
}

static inline OH_NN_ReturnCode OH_NNModel_GetAvailableOperations(
    OH_NNModel *model, size_t deviceID, const bool **isSupported, uint32_t *opCount) {
    if (model == NULL || isSupported == NULL || *isSupported != NULL || opCount == NULL) return nnrt_compat_wrong(__func__);
    if (!model->is_finished) return nnrt_compat_refuse(OH_NN_OPERATION_FORBIDDEN, "the model is not finished");
    udo_device_t *device = nnrt_compat_device(deviceID);
    if (device == NULL) return nnrt_compat_refuse(OH_NN_FAILED, "device not found");
    udo_support_t *support = NULL;
    bool *supported = (bool *)calloc((size_t)model->operations + 1, sizeof *supported);
    if (supported == NULL) return nnrt_compat_no_memory(__func__);
    OH_NN_ReturnCode code = nnrt_compat_code(
        udo_graph_query_support(model->graph, nnrt_compat_devices()->runtime, device, &support));
    for (uint32_t i = 0; code == OH_NN_SUCCESS && i < model->operations; i++) {
        const char *reason = NULL;
        code = nnrt_compat_code(udo_support_reason(support, i, &reason));
        supported[i] = reason == NULL;
    }
    udo_support_release(support);
    if (code != OH_NN_SUCCESS) {
        free(supported);
        return code;
    }
    free(model->supported);
    model->supported = supported;
    *isSupported = supported;
    *opCount = model->operations;
    return OH_NN_SUCCESS;
}

/* ---- Compilations ---- */

static inline OH_NNCompilation *OH_NNCompilation_ConstructForCache(void) {
    return (OH_NNCompilation *)calloc(1, sizeof(OH_NNCompilation));
}

static inline OH_NNCompilation *OH_NNCompilation_Construct(const OH_NNModel *model) {
    if (model == NULL || !model->is_finished) return (OH_NNCompilation *)nnrt_compat_nothing(__func__);
    OH_NNCompilation *compilation = OH_NNCompilation_ConstructForCache();
    if (compilation != NULL) compilation->source = model;
    return compilation;
}

static inline OH_NNCompilation *OH_NNCompilation_ConstructWithOfflineModelFile(const char *modelPath) {
    OH_NNCompilation *compilation = modelPath == NULL ? NULL : OH_NNCompilation_ConstructForCache();
    if (compilation == NULL) return (OH_NNCompilation *)nnrt_compat_nothing(__func__);
    compilation->path = (char *)malloc(strlen(modelPath) + 1);
    if (compilation->path == NULL) {
        free(compilation);
        return NULL;
    }
    strcpy(compilation->path, modelPath);
    return compilation;
}

/* The bytes have to stay until the build. */
static inline OH_NNCompilation *OH_NNCompilation_ConstructWithOfflineModelBuffer(const void *modelBuffer, size_t modelSize) {
    OH_NNCompilation *compilation = modelBuffer == NULL || modelSize == 0 ? NULL : OH_NNCompilation_ConstructForCache();
    if (compilation == NULL) return (OH_NNCompilation *)nnrt_compat_nothing(__func__);
    compilation->buffer = modelBuffer;
    compilation->buffer_size = modelSize;
    return compilation;
}

static inline void OH_NNCompilation_Destroy(OH_NNCompilation **compilation) {
    if (compilation == NULL || *compilation == NULL) return;
    for (size_t i = 0; i < (*compilation)->extension_count; i++) {
        free((char *)(*compilation)->extensions[i].name);
        free((char *)(*compilation)->extensions[i].value);
    }
    udo_model_release((*compilation)->model);
    udo_network_release((*compilation)->network);
    free((*compilation)->extensions);
    free((*compilation)->path);
    free((*compilation)->cache);
    free(*compilation);
    *compilation = NULL;
}

static inline bool nnrt_compat_is_built(const OH_NNCompilation *compilation) {
    return compilation->model != NULL || compilation->network != NULL;
}

/* What a setter is refused with; success if it may go on. */
static inline OH_NN_ReturnCode nnrt_compat_unbuilt(const OH_NNCompilation *compilation) {
    if (compilation == NULL) return nnrt_compat_wrong(__func__);
    return nnrt_compat_is_built(compilation) ? nnrt_compat_refuse(OH_NN_OPERATION_FORBIDDEN, "the compilation is built") : OH_NN_SUCCESS;
}

static inline OH_NN_ReturnCode OH_NNCompilation_ExportCacheToBuffer(
    OH_NNCompilation *compilation, const void *buffer, size_t length, size_t *modelSize) {
    if (compilation == NULL || buffer == NULL || length == 0 || modelSize == NULL) return nnrt_compat_wrong(__func__);
    if (compilation->network != NULL) return nnrt_compat_refuse(OH_NN_UNSUPPORTED, "a network of several stages, whose file is what there is to export");
    if (compilation->model == NULL) return nnrt_compat_refuse(OH_NN_OPERATION_FORBIDDEN, "the compilation is not built");
    OH_NN_ReturnCode code = nnrt_compat_code(udo_model_export(compilation->model, NULL, 0, modelSize));
    if (code != OH_NN_SUCCESS) return code;
    /* Theirs takes what it writes to as const. */
    return nnrt_compat_code(udo_model_export(compilation->model, (void *)(uintptr_t)buffer, length, modelSize));
}

static inline OH_NN_ReturnCode OH_NNCompilation_ImportCacheFromBuffer(
    OH_NNCompilation *compilation, const void *buffer, size_t modelSize) {
    if (compilation == NULL || buffer == NULL || modelSize == 0) return nnrt_compat_wrong(__func__);
    OH_NN_ReturnCode code = nnrt_compat_unbuilt(compilation);
    if (code != OH_NN_SUCCESS) return code;
    if (compilation->source != NULL || compilation->path != NULL || compilation->buffer != NULL)
        return nnrt_compat_refuse(OH_NN_INVALID_PARAMETER, "the compilation is of something else already");
    compilation->buffer = buffer;
    compilation->buffer_size = modelSize;
    return OH_NN_SUCCESS;
}

/* How a compilation is built, for the device that was said so far. */
static inline OH_NN_ReturnCode nnrt_compat_options(const OH_NNCompilation *compilation, udo_load_options_t *options) {
    static const char *const cores[5] = {NULL, "cpu", "gpu", "dsp", "hta"};
    udo_device_kind_t kind = 0;
    udo_device_t *device = nnrt_compat_device(compilation->device);
    if (device == NULL) return nnrt_compat_refuse(OH_NN_FAILED, "device not found");
    OH_NN_ReturnCode code = nnrt_compat_code(udo_device_kind(device, &kind));
    if (code != OH_NN_SUCCESS || kind > 4) return nnrt_compat_refuse(OH_NN_FAILED, "a device of a kind that is not known here");
    memset(options, 0, sizeof *options);
    options->size = sizeof *options;
    options->cores = cores[kind];
    options->performance = (udo_performance_t)compilation->performance;
    options->priority = (udo_priority_t)compilation->priority;
    options->precision = compilation->is_half ? UDO_PRECISION_HALF : UDO_PRECISION_FULL;
    options->extensions = compilation->extensions;
    options->extension_count = compilation->extension_count;
    return OH_NN_SUCCESS;
}

/* Whether options that a setter would leave are fine. A device that there is not is seen by the build. */
static inline OH_NN_ReturnCode nnrt_compat_try(const OH_NNCompilation *with) {
    udo_load_options_t options;
    if (nnrt_compat_device(with->device) == NULL) return OH_NN_SUCCESS;
    OH_NN_ReturnCode code = nnrt_compat_options(with, &options);
    return code == OH_NN_SUCCESS ? nnrt_compat_code(udo_load_options_check(&options)) : code;
}

/* Text of `size` bytes, of which the last may be its end; NULL if one of the others is. */
static inline char *nnrt_compat_text(const void *from, size_t size) {
    if (((const char *)from)[size - 1] == 0) size--;
    char *copy = memchr(from, 0, size) == NULL ? (char *)malloc(size + 1) : NULL;
    if (copy == NULL) return NULL;
    memcpy(copy, from, size);
    copy[size] = 0;
    return copy;
}

/* Settings that udo_extension_t lists, as text. What is set twice is what it was set to last. */
static inline OH_NN_ReturnCode OH_NNCompilation_AddExtensionConfig(
    OH_NNCompilation *compilation, const char *configName, const void *configValue, const size_t configValueSize) {
    if (configName == NULL || *configName == 0 || configValue == NULL || configValueSize == 0) return nnrt_compat_wrong(__func__);
    OH_NN_ReturnCode code = nnrt_compat_unbuilt(compilation);
    if (code != OH_NN_SUCCESS) return code;
    const size_t count = compilation->extension_count;
    udo_extension_t *more = (udo_extension_t *)realloc(compilation->extensions, (count + 1) * sizeof *more);
    if (more == NULL) return nnrt_compat_no_memory(__func__);
    compilation->extensions = more;
    char *name = nnrt_compat_text(configName, strlen(configName)), *value = nnrt_compat_text(configValue, configValueSize);
    more[count].name = name;
    more[count].value = value;
    if (name == NULL || value == NULL) code = nnrt_compat_refuse(OH_NN_INVALID_PARAMETER, "a value that is not a string");
    compilation->extension_count++;
    if (code == OH_NN_SUCCESS) code = nnrt_compat_try(compilation);
    if (code != OH_NN_SUCCESS) {
        compilation->extension_count--;
        free(name);
        free(value);
    }
    return code;
}

static inline OH_NN_ReturnCode OH_NNCompilation_SetDevice(OH_NNCompilation *compilation, size_t deviceID) {
    OH_NN_ReturnCode code = nnrt_compat_unbuilt(compilation);
    if (code == OH_NN_SUCCESS) compilation->device = deviceID;
    return code;
}

static inline OH_NN_ReturnCode OH_NNCompilation_SetCache(OH_NNCompilation *compilation, const char *cachePath, uint32_t version) {
    if (cachePath == NULL) return nnrt_compat_wrong(__func__);
    OH_NN_ReturnCode code = nnrt_compat_unbuilt(compilation);
    if (code != OH_NN_SUCCESS) return code;
    char *copy = (char *)malloc(strlen(cachePath) + 1);
    if (copy == NULL) return nnrt_compat_no_memory(__func__);
    strcpy(copy, cachePath);
    free(compilation->cache);
    compilation->cache = copy;
    compilation->cache_version = version;
    return OH_NN_SUCCESS;
}

static inline OH_NN_ReturnCode OH_NNCompilation_SetPerformanceMode(OH_NNCompilation *compilation, OH_NN_PerformanceMode performanceMode) {
    OH_NN_ReturnCode code = nnrt_compat_unbuilt(compilation);
    if (code != OH_NN_SUCCESS) return code;
    if ((unsigned)performanceMode > OH_NN_PERFORMANCE_EXTREME) return nnrt_compat_wrong(__func__);
    const OH_NN_PerformanceMode before = compilation->performance;
    compilation->performance = performanceMode;
    code = nnrt_compat_try(compilation);
    if (code != OH_NN_SUCCESS) compilation->performance = before;
    return code;
}

static inline OH_NN_ReturnCode OH_NNCompilation_SetPriority(OH_NNCompilation *compilation, OH_NN_Priority priority) {
    OH_NN_ReturnCode code = nnrt_compat_unbuilt(compilation);
    if (code != OH_NN_SUCCESS) return code;
    if ((unsigned)priority > OH_NN_PRIORITY_HIGH) return nnrt_compat_wrong(__func__);
    compilation->priority = priority;
    return OH_NN_SUCCESS;
}

static inline OH_NN_ReturnCode OH_NNCompilation_EnableFloat16(OH_NNCompilation *compilation, bool enableFloat16) {
    OH_NN_ReturnCode code = nnrt_compat_unbuilt(compilation);
    if (code != OH_NN_SUCCESS) return code;
    const bool before = compilation->is_half;
    compilation->is_half = enableFloat16;
    code = nnrt_compat_try(compilation);
    if (code != OH_NN_SUCCESS) compilation->is_half = before;
    return code;
}

/* The only network of an offline model, if it has several stages, all of which are compiled; NULL is for what is one model. */
static inline OH_NN_ReturnCode nnrt_compat_stages(const OH_NNCompilation *of, const udo_load_options_t *options, udo_network_t **out) {
    udo_runtime_t *runtime = nnrt_compat_devices()->runtime;
    udo_networks_t *all = NULL;
    udo_network_t *network = NULL;
    size_t networks = 0, stages = 0;
    OH_NN_ReturnCode code = nnrt_compat_code(
        of->path != NULL ? udo_networks_open_file(runtime, of->path, options, &all)
                         : udo_networks_open_bytes(runtime, of->buffer, of->buffer_size, options, &all));
    if (code == OH_NN_SUCCESS) code = nnrt_compat_code(udo_networks_count(all, &networks));
    if (code == OH_NN_SUCCESS && networks == 1) code = nnrt_compat_code(udo_networks_at(all, 0, &network));
    if (code == OH_NN_SUCCESS && network != NULL) code = nnrt_compat_code(udo_network_stage_count(network, &stages));
    for (size_t i = 0; stages > 1 && code == OH_NN_SUCCESS && i < stages; i++) {
        udo_model_t *model = NULL;
        code = nnrt_compat_code(udo_network_model(network, i, &model));
        udo_model_release(model);
    }
    udo_networks_release(all);
    if (code == OH_NN_SUCCESS && stages > 1) *out = network;
    else udo_network_release(network);
    return code;
}

static inline OH_NN_ReturnCode OH_NNCompilation_Build(OH_NNCompilation *compilation) {
    udo_load_options_t options;
    if (compilation == NULL || nnrt_compat_is_built(compilation)) return nnrt_compat_wrong(__func__);
    OH_NN_ReturnCode code = nnrt_compat_options(compilation, &options);
    if (code != OH_NN_SUCCESS) return code;
    options.cache_dir = compilation->cache;
    options.cache_version = compilation->cache_version;
    options.is_exportable = 1;
    udo_runtime_t *runtime = nnrt_compat_devices()->runtime;
    if (compilation->source != NULL)
        return nnrt_compat_code(udo_model_compile(runtime, compilation->source->graph, &options, &compilation->model));
    if (compilation->path != NULL || compilation->buffer != NULL) {
        code = nnrt_compat_stages(compilation, &options, &compilation->network);
        if (code != OH_NN_SUCCESS || compilation->network != NULL) return code;
    }
    if (compilation->path != NULL)
        return nnrt_compat_code(udo_model_load_file(runtime, compilation->path, &options, &compilation->model));
    if (compilation->buffer != NULL)
        return nnrt_compat_code(udo_model_load_bytes(
            runtime, compilation->buffer, compilation->buffer_size, &options, &compilation->model));
    if (compilation->cache != NULL) return nnrt_compat_code(udo_model_restore(runtime, NULL, &options, &compilation->model));
    return nnrt_compat_refuse(OH_NN_INVALID_PARAMETER, "there is neither a model nor a cache to build of");
}

/* ---- Tensors ---- */

static inline void nnrt_compat_drop(NN_Tensor *tensor) {
    if (__atomic_sub_fetch(&tensor->holders, 1, __ATOMIC_ACQ_REL) > 0) return;
    udo_tensor_release(tensor->tensor);
    if (tensor->base != NULL) munmap(tensor->base, tensor->base_size);
    if (tensor->owns_fd) close(tensor->fd);
    if (tensor->desc != NULL) OH_NNTensorDesc_Destroy(&tensor->desc);
    free(tensor);
}

/* A run that is at work keeps what it needs. */
static inline OH_NN_ReturnCode OH_NNTensor_Destroy(NN_Tensor **tensor) {
    if (tensor == NULL || *tensor == NULL) return nnrt_compat_wrong(__func__);
    nnrt_compat_drop(*tensor);
    *tensor = NULL;
    return OH_NN_SUCCESS;
}

/* A tensor in memory that a descriptor leads to, seen by the host as well; it takes the memory over. */
static inline NN_Tensor *nnrt_compat_tensor(
    const NN_TensorDesc *desc, const udo_tensor_spec_t *spec, udo_memory_t *memory, NN_Tensor like) {
    NN_Tensor *tensor = (NN_Tensor *)malloc(sizeof *tensor);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), start = like.offset / page * page;
    if (tensor == NULL) {
        udo_memory_release(memory);
        if (like.owns_fd) close(like.fd);
        return NULL;
    }
    *tensor = like;
    tensor->holders = 1;
    tensor->skip = like.offset - start;
    tensor->base_size = like.size - start;
    tensor->desc = nnrt_compat_copy(desc);
    void *base = mmap(NULL, tensor->base_size, PROT_READ | PROT_WRITE, MAP_SHARED, like.fd, (off_t)start);
    tensor->base = base == MAP_FAILED ? NULL : base;
    bool is_made = tensor->desc != NULL && tensor->base != NULL
        && nnrt_compat_code(udo_tensor_create_from_memory(spec, memory, &tensor->tensor)) == OH_NN_SUCCESS;
    udo_memory_release(memory);
    if (!is_made) OH_NNTensor_Destroy(&tensor);
    return tensor;
}

static inline NN_Tensor *OH_NNTensor_CreateWithSize(size_t deviceID, NN_TensorDesc *tensorDesc, size_t size) {
    udo_device_t *device = nnrt_compat_device(deviceID);
    udo_tensor_spec_t *spec = NULL;
    udo_memory_t *memory = NULL;
    NN_Tensor like, *made = NULL;
    udo_alloc_options_t options;
    if (device == NULL || tensorDesc == NULL || !tensorDesc->has_shape || size == 0) return (NN_Tensor *)nnrt_compat_nothing(__func__);
    memset(&like, 0, sizeof like);
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    /* Programs leave a tensor alone while a run is at it, as NNRt asks of them. */
    options.sharing = UDO_SHARING_EXCLUSIVE;
    options.owner = "tensors";
    int32_t fd = -1;
    if (nnrt_compat_spec(tensorDesc, &spec) != OH_NN_SUCCESS) return NULL;
    if (nnrt_compat_code(udo_memory_alloc(device, size, &options, &memory)) == OH_NN_SUCCESS
        && nnrt_compat_code(udo_memory_export_fd(memory, &fd)) == OH_NN_SUCCESS) {
        like.fd = fd;
        like.owns_fd = true;
        like.size = size;
        made = nnrt_compat_tensor(tensorDesc, spec, memory, like);
        memory = NULL;
    }
    udo_memory_release(memory);
    udo_tensor_spec_release(spec);
    return made;
}

static inline NN_Tensor *OH_NNTensor_Create(size_t deviceID, NN_TensorDesc *tensorDesc) {
    size_t size = 0;
    if (OH_NNTensorDesc_GetByteSize(tensorDesc, &size) != OH_NN_SUCCESS) return NULL;
    return OH_NNTensor_CreateWithSize(deviceID, tensorDesc, size);
}

/* The descriptor stays the caller's, and has to stay open; `size` counts from the start of the file. */
static inline NN_Tensor *OH_NNTensor_CreateWithFd(size_t deviceID, NN_TensorDesc *tensorDesc, int fd, size_t size, size_t offset) {
    udo_device_t *device = nnrt_compat_device(deviceID);
    udo_tensor_spec_t *spec = NULL;
    udo_memory_t *whole = NULL, *memory = NULL;
    NN_Tensor like, *made = NULL;
    if (device == NULL || tensorDesc == NULL || !tensorDesc->has_shape) return (NN_Tensor *)nnrt_compat_nothing(__func__);
    if (fd < 0 || size == 0 || size <= offset) return (NN_Tensor *)nnrt_compat_nothing(__func__);
    memset(&like, 0, sizeof like);
    like.fd = fd;
    like.size = size;
    like.offset = offset;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), start = offset / page * page;
    if (nnrt_compat_spec(tensorDesc, &spec) != OH_NN_SUCCESS) return NULL;
    if (nnrt_compat_code(udo_memory_import_fd_as(device, fd, size, start, UDO_SHARING_EXCLUSIVE, &whole)) == OH_NN_SUCCESS
        && nnrt_compat_code(udo_memory_view(whole, offset - start, size - offset, &memory)) == OH_NN_SUCCESS)
        made = nnrt_compat_tensor(tensorDesc, spec, memory, like);
    udo_memory_release(whole);
    udo_tensor_spec_release(spec);
    return made;
}

static inline NN_TensorDesc *OH_NNTensor_GetTensorDesc(const NN_Tensor *tensor) {
    return tensor == NULL ? (NN_TensorDesc *)nnrt_compat_nothing(__func__) : tensor->desc;
}

static inline void *OH_NNTensor_GetDataBuffer(const NN_Tensor *tensor) {
    return tensor == NULL ? nnrt_compat_nothing(__func__) : (char *)tensor->base + tensor->skip;
}

static inline OH_NN_ReturnCode OH_NNTensor_GetFd(const NN_Tensor *tensor, int *fd) {
    if (tensor == NULL || fd == NULL) return nnrt_compat_wrong(__func__);
    *fd = tensor->fd;
    return OH_NN_SUCCESS;
}

static inline OH_NN_ReturnCode OH_NNTensor_GetSize(const NN_Tensor *tensor, size_t *size) {
    if (tensor == NULL || size == NULL) return nnrt_compat_wrong(__func__);
    *size = tensor->size;
    return OH_NN_SUCCESS;
}

static inline OH_NN_ReturnCode OH_NNTensor_GetOffset(const NN_Tensor *tensor, size_t *offset) {
    if (tensor == NULL || offset == NULL) return nnrt_compat_wrong(__func__);
    *offset = tensor->offset;
    return OH_NN_SUCCESS;
}

/* ---- Executors ---- */

static inline void nnrt_compat_forget(NN_TensorDesc **descs, size_t count) {
    for (size_t i = 0; descs != NULL && i < count; i++)
        if (descs[i] != NULL) OH_NNTensorDesc_Destroy(&descs[i]);
    free(descs);
}

static inline void nnrt_compat_free_memories(nnrt_compat_memory *memory) {
    while (memory != NULL) {
        nnrt_compat_memory *next = memory->next;
        OH_NNTensor_Destroy(&memory->bytes);
        free(memory);
        memory = next;
    }
}

static inline void nnrt_compat_leave(OH_NNExecutor *of) {
    if (__atomic_sub_fetch(&of->holders, 1, __ATOMIC_ACQ_REL) > 0) return;
    udo_session_release(of->session);
    nnrt_compat_forget(of->inputs, of->input_count);
    nnrt_compat_forget(of->outputs, of->output_count);
    nnrt_compat_forget(of->results, of->output_count);
    for (size_t i = 0; i < of->input_count; i++) {
        if (of->given != NULL) udo_tensor_release(of->given[i].tensor);
        if (of->input_memories != NULL) nnrt_compat_free_memories(of->input_memories[i]);
    }
    for (size_t i = 0; i < of->output_count; i++) {
        if (of->wanted != NULL) udo_tensor_release(of->wanted[i].tensor);
        if (of->output_memories != NULL) nnrt_compat_free_memories(of->output_memories[i]);
    }
    pthread_mutex_destroy(&of->lock);
    free(of->given);
    free(of->wanted);
    free(of->input_memories);
    free(of->output_memories);
    free(of->range_min);
    free(of->range_max);
    free(of);
}

/* Runs that are at work end as they would; who asked is told. */
static inline void OH_NNExecutor_Destroy(OH_NNExecutor **executor) {
    if (executor == NULL || *executor == NULL) return;
    nnrt_compat_leave(*executor);
    *executor = NULL;
}

/* Whether an executor is this process's: in one that was forked, others may have left its lock locked. */
static inline OH_NN_ReturnCode nnrt_compat_is_here(const OH_NNExecutor *executor) {
    if (executor->process == getpid()) return OH_NN_SUCCESS;
    return nnrt_compat_refuse(OH_NN_OPERATION_FORBIDDEN, "an executor from before the process was forked; make another one");
}

/* What all stages of a network take or make at a place: dimensions in which they differ are open, from the least to the most of any. */
static inline NN_TensorDesc *nnrt_compat_port_of_stages(const udo_network_t *network, size_t index, bool is_input, size_t *least, size_t *most);

/* What a model takes or makes at a place. A shape that only a run says is left unset. Where `least` and `most` are not NULL, the
 * extents that dimensions may have go there. */
static inline NN_TensorDesc *nnrt_compat_port(const udo_model_t *model, size_t index, bool is_input, size_t *least, size_t *most) {
    const char *name = NULL;
    udo_tensor_spec_t *spec = NULL;
    NN_TensorDesc *desc = OH_NNTensorDesc_Create();
    if (desc == NULL) return NULL;
    udo_error_t *error = is_input ? udo_model_input_name(model, index, &name) : udo_model_output_name(model, index, &name);
    OH_NN_ReturnCode code = nnrt_compat_code(error);
    if (code == OH_NN_SUCCESS) code = OH_NNTensorDesc_SetName(desc, name);
    if (code == OH_NN_SUCCESS) {
        error = is_input ? udo_model_input_spec(model, index, &spec) : udo_model_output_spec(model, index, &spec);
        if (udo_error_code(error) == UDO_ERROR_DYNAMIC_SHAPE) udo_error_release(error);
        else code = nnrt_compat_code(error);
    }
    if (code == OH_NN_SUCCESS && spec != NULL) code = nnrt_compat_tell(desc, spec);
    for (size_t i = 0; code == OH_NN_SUCCESS && least != NULL && i < desc->rank; i++) {
        udo_range_t range = {0, 0};
        code = nnrt_compat_code(udo_tensor_spec_range(spec, i, &range));
        least[i] = range.least == 0 && range.most != 0 ? 1 : (size_t)range.least;
        most[i] = range.most > INT32_MAX ? (size_t)INT32_MAX : (size_t)range.most;
    }
    udo_tensor_spec_release(spec);
    if (code != OH_NN_SUCCESS) OH_NNTensorDesc_Destroy(&desc);
    return desc;
}

static inline NN_TensorDesc *nnrt_compat_port_of_stages(const udo_network_t *network, size_t index, bool is_input, size_t *least, size_t *most) {
    size_t stages = 0, lower[NNRT_COMPAT_DIMS], upper[NNRT_COMPAT_DIMS];
    NN_TensorDesc *all = NULL;
    OH_NN_ReturnCode code = nnrt_compat_code(udo_network_stage_count(network, &stages));
    for (size_t stage = 0; code == OH_NN_SUCCESS && stage < stages; stage++) {
        udo_model_t *model = NULL;
        code = nnrt_compat_code(udo_network_model(network, stage, &model));
        NN_TensorDesc *one = code == OH_NN_SUCCESS ? nnrt_compat_port(model, index, is_input, is_input ? lower : NULL, is_input ? upper : NULL) : NULL;
        udo_model_release(model);
        if (one == NULL) code = OH_NN_FAILED;
        else if (all != NULL && all->has_shape && one->has_shape && (all->dtype != one->dtype || all->rank != one->rank))
            code = nnrt_compat_refuse(OH_NN_UNSUPPORTED, "stages of one network whose elements or ranks differ");
        for (size_t i = 0; code == OH_NN_SUCCESS && least != NULL && i < one->rank; i++) {
            least[i] = all == NULL || lower[i] < least[i] ? lower[i] : least[i];
            most[i] = all == NULL || upper[i] > most[i] ? upper[i] : most[i];
        }
        for (size_t i = 0; code == OH_NN_SUCCESS && all != NULL && i < all->rank && one->has_shape; i++)
            if (all->shape[i] != one->shape[i]) all->shape[i] = -1;
        /* A shape that one stage leaves to its runs is open in all. */
        if (code == OH_NN_SUCCESS && all != NULL) all->has_shape = all->has_shape && one->has_shape;
        if (all != NULL && one != NULL) OH_NNTensorDesc_Destroy(&one);
        else if (all == NULL) all = one;
    }
    if (code != OH_NN_SUCCESS && all != NULL) OH_NNTensorDesc_Destroy(&all);
    return all;
}

/* The same of what a compilation was built to. */
static inline NN_TensorDesc *nnrt_compat_port_of(const OH_NNCompilation *of, size_t index, bool is_input, size_t *least, size_t *most) {
    return of->network != NULL ? nnrt_compat_port_of_stages(of->network, index, is_input, least, most) : nnrt_compat_port(of->model, index, is_input, least, most);
}

/* Places for what there is of each input and output. */
static inline bool nnrt_compat_room(OH_NNExecutor *made) {
    const size_t inputs = made->input_count + 1, outputs = made->output_count + 1;
    made->inputs = (NN_TensorDesc **)calloc(inputs, sizeof *made->inputs);
    made->outputs = (NN_TensorDesc **)calloc(outputs, sizeof *made->outputs);
    made->results = (NN_TensorDesc **)calloc(outputs, sizeof *made->results);
    made->range_min = (size_t *)calloc(inputs * NNRT_COMPAT_DIMS, sizeof *made->range_min);
    made->range_max = (size_t *)calloc(inputs * NNRT_COMPAT_DIMS, sizeof *made->range_max);
    made->given = (nnrt_compat_slot_of_run *)calloc(inputs, sizeof *made->given);
    made->wanted = (nnrt_compat_slot_of_run *)calloc(outputs, sizeof *made->wanted);
    made->input_memories = (nnrt_compat_memory **)calloc(inputs, sizeof *made->input_memories);
    made->output_memories = (nnrt_compat_memory **)calloc(outputs, sizeof *made->output_memories);
    return made->inputs != NULL && made->outputs != NULL && made->results != NULL && made->range_min != NULL && made->range_max != NULL
        && made->given != NULL && made->wanted != NULL && made->input_memories != NULL && made->output_memories != NULL;
}

static inline OH_NNExecutor *OH_NNExecutor_Construct(OH_NNCompilation *compilation) {
    if (compilation == NULL || !nnrt_compat_is_built(compilation)) return (OH_NNExecutor *)nnrt_compat_nothing(__func__);
    OH_NNExecutor *made = (OH_NNExecutor *)calloc(1, sizeof *made);
    if (made == NULL) return (OH_NNExecutor *)nnrt_compat_nothing(__func__);
    made->holders = 1;
    made->process = getpid();
    pthread_mutex_init(&made->lock, NULL);
    udo_session_options_t options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.device = nnrt_compat_device(compilation->device);
    made->device = compilation->device;
    const udo_model_t *model = compilation->model;
    const udo_network_t *network = compilation->network;
    udo_error_t *error = network != NULL ? udo_network_session(network, -1, &options, &made->session) : udo_session_create(model, &options, &made->session);
    bool is_made = nnrt_compat_code(error) == OH_NN_SUCCESS
        && nnrt_compat_code(network != NULL ? udo_network_input_count(network, &made->input_count) : udo_model_input_count(model, &made->input_count)) == OH_NN_SUCCESS
        && nnrt_compat_code(network != NULL ? udo_network_output_count(network, &made->output_count) : udo_model_output_count(model, &made->output_count)) == OH_NN_SUCCESS
        && nnrt_compat_room(made);
    for (size_t i = 0; is_made && i < made->input_count; i++) {
        const size_t at = i * NNRT_COMPAT_DIMS;
        is_made = (made->inputs[i] = nnrt_compat_port_of(compilation, i, true, made->range_min + at, made->range_max + at)) != NULL;
    }
    for (size_t i = 0; is_made && i < made->output_count; i++) {
        made->outputs[i] = nnrt_compat_port_of(compilation, i, false, NULL, NULL);
        made->results[i] = nnrt_compat_copy(made->outputs[i]);
        is_made = made->results[i] != NULL;
    }
    if (!is_made) OH_NNExecutor_Destroy(&made);
    return made;
}

/* The shape of an output in the last run; before any, the declared one. */
static inline OH_NN_ReturnCode OH_NNExecutor_GetOutputShape(
    OH_NNExecutor *executor, uint32_t outputIndex, int32_t **shape, uint32_t *shapeLength) {
    size_t rank = 0;
    if (executor == NULL || outputIndex >= executor->output_count || shapeLength == NULL) return nnrt_compat_wrong(__func__);
    OH_NN_ReturnCode code = OH_NNTensorDesc_GetShape(executor->results[outputIndex], shape, &rank);
    if (code == OH_NN_SUCCESS) *shapeLength = (uint32_t)rank;
    return code;
}

static inline OH_NN_ReturnCode OH_NNExecutor_GetInputCount(const OH_NNExecutor *executor, size_t *inputCount) {
    if (executor == NULL || inputCount == NULL) return nnrt_compat_wrong(__func__);
    *inputCount = executor->input_count;
    return OH_NN_SUCCESS;
}

static inline OH_NN_ReturnCode OH_NNExecutor_GetOutputCount(const OH_NNExecutor *executor, size_t *outputCount) {
    if (executor == NULL || outputCount == NULL) return nnrt_compat_wrong(__func__);
    *outputCount = executor->output_count;
    return OH_NN_SUCCESS;
}

static inline NN_TensorDesc *OH_NNExecutor_CreateInputTensorDesc(const OH_NNExecutor *executor, size_t index) {
    return executor == NULL || index >= executor->input_count ? (NN_TensorDesc *)nnrt_compat_nothing(__func__) : nnrt_compat_copy(executor->inputs[index]);
}

static inline NN_TensorDesc *OH_NNExecutor_CreateOutputTensorDesc(const OH_NNExecutor *executor, size_t index) {
    return executor == NULL || index >= executor->output_count ? (NN_TensorDesc *)nnrt_compat_nothing(__func__) : nnrt_compat_copy(executor->outputs[index]);
}

/* An open dimension takes any extent from 1 on. */
static inline OH_NN_ReturnCode OH_NNExecutor_GetInputDimRange(
    const OH_NNExecutor *executor, size_t index, size_t **minInputDims, size_t **maxInputDims, size_t *shapeLength) {
    if (executor == NULL || index >= executor->input_count || shapeLength == NULL) return nnrt_compat_wrong(__func__);
    if (minInputDims == NULL || *minInputDims != NULL || maxInputDims == NULL || *maxInputDims != NULL) return nnrt_compat_wrong(__func__);
    *minInputDims = executor->range_min + index * NNRT_COMPAT_DIMS;
    *maxInputDims = executor->range_max + index * NNRT_COMPAT_DIMS;
    *shapeLength = executor->inputs[index]->rank;
    return OH_NN_SUCCESS;
}

static inline OH_NN_ReturnCode OH_NNExecutor_SetOnRunDone(OH_NNExecutor *executor, NN_OnRunDone onRunDone) {
    if (executor == NULL || onRunDone == NULL) return nnrt_compat_wrong(__func__);
    executor->on_done = onRunDone;
    return OH_NN_SUCCESS;
}

static inline OH_NN_ReturnCode OH_NNExecutor_SetOnServiceDied(OH_NNExecutor *executor, NN_OnServiceDied onServiceDied) {
    if (executor == NULL || onServiceDied == NULL) return nnrt_compat_wrong(__func__);
    executor->on_died = onServiceDied;
    return OH_NN_SUCCESS;
}

/* A run: what it was given, and who is told of its end. */
typedef struct {
    OH_NNExecutor *executor;
    NN_Tensor **outputs;
    size_t output_count;
    void *user;
    udo_run_t *run;
    OH_NN_ReturnCode code;
    int arrived;
} nnrt_compat_run;

static inline void nnrt_compat_run_free(nnrt_compat_run *run) {
    udo_run_release(run->run);
    for (size_t i = 0; i < run->output_count; i++) nnrt_compat_drop(run->outputs[i]);
    nnrt_compat_leave(run->executor);
    free(run->outputs);
    free(run);
}

/* Gives a tensor the shape that its description has by now. */
static inline OH_NN_ReturnCode nnrt_compat_reshape(NN_Tensor *tensor) {
    int64_t dims[NNRT_COMPAT_DIMS];
    for (size_t i = 0; i < tensor->desc->rank; i++) {
        if (tensor->desc->shape[i] < 0) return nnrt_compat_refuse(OH_NN_DYNAMIC_SHAPE, "an input whose shape is open");
        dims[i] = tensor->desc->shape[i];
    }
    return nnrt_compat_code(udo_tensor_reshape(tensor->tensor, dims, tensor->desc->rank));
}

/* Has the descriptions of outputs say what shapes a run that ended well gave them. */
static inline OH_NN_ReturnCode nnrt_compat_results(nnrt_compat_run *run) {
    OH_NN_ReturnCode code = OH_NN_SUCCESS;
    for (size_t i = 0; code == OH_NN_SUCCESS && i < run->output_count; i++) {
        udo_tensor_t *made = NULL;
        udo_tensor_spec_t *spec = NULL;
        code = nnrt_compat_code(udo_run_output(run->run, i, &made));
        if (code == OH_NN_SUCCESS) code = nnrt_compat_code(udo_tensor_spec(made, &spec));
        if (code == OH_NN_SUCCESS) code = nnrt_compat_tell(run->outputs[i]->desc, spec);
        if (code == OH_NN_SUCCESS) code = nnrt_compat_tell(run->executor->results[i], spec);
        udo_tensor_spec_release(spec);
        udo_tensor_release(made);
    }
    return code;
}

/* Called twice for each asynchronous run: by who submits it, who knows its handle, and at its end. The second tells the program. */
static inline void nnrt_compat_arrive(nnrt_compat_run *run) {
    if (__atomic_exchange_n(&run->arrived, 1, __ATOMIC_ACQ_REL) == 0) return;
    if (run->code == OH_NN_SUCCESS) run->code = nnrt_compat_results(run);
    const bool is_well = run->code == OH_NN_SUCCESS;
#ifdef __cplusplus
    /* An exception would go through the library, and end the process there. */
    try {
#endif
        if (run->code == OH_NN_CONNECTION_EXCEPTION && run->executor->on_died != NULL) run->executor->on_died(run->user);
        run->executor->on_done(run->user, run->code, is_well ? (void **)run->outputs : NULL, is_well ? (int32_t)run->output_count : 0);
#ifdef __cplusplus
    } catch (...) {
        NNRT_COMPAT_LOG("a function that was to be told of the end of a run threw an exception, which is dropped");
    }
#endif
    nnrt_compat_run_free(run);
}

static inline void nnrt_compat_done(void *user, const udo_error_t *error) {
    nnrt_compat_run *run = (nnrt_compat_run *)user;
    run->code = (OH_NN_ReturnCode)udo_error_code_nnrt(error);
    if (error != NULL) NNRT_COMPAT_LOG(udo_error_message(error));
    nnrt_compat_arrive(run);
}

/* Submits a run. On an error nothing is left of it. */
static inline OH_NN_ReturnCode nnrt_compat_submit(
    OH_NNExecutor *executor, NN_Tensor *inputs[], size_t input_count, NN_Tensor *outputs[], size_t output_count,
    udo_run_options_t *options, nnrt_compat_run **out) {
    if (executor == NULL || inputs == NULL || outputs == NULL) return nnrt_compat_wrong(__func__);
    if (nnrt_compat_is_here(executor) != OH_NN_SUCCESS) return OH_NN_OPERATION_FORBIDDEN;
    if (input_count != executor->input_count || output_count != executor->output_count)
        return nnrt_compat_refuse(OH_NN_INVALID_PARAMETER, "another number of inputs or outputs than the model has");
    for (size_t i = 0; i < input_count; i++)
        if (inputs[i] == NULL) return nnrt_compat_wrong(__func__);
    for (size_t i = 0; i < output_count; i++)
        if (outputs[i] == NULL) return nnrt_compat_wrong(__func__);
    const udo_tensor_t **from = (const udo_tensor_t **)calloc(input_count + 1, sizeof *from);
    udo_tensor_t **to = (udo_tensor_t **)calloc(output_count + 1, sizeof *to);
    nnrt_compat_run *run = (nnrt_compat_run *)calloc(1, sizeof *run);
    NN_Tensor **kept = (NN_Tensor **)calloc(output_count + 1, sizeof *kept);
    OH_NN_ReturnCode code = from == NULL || to == NULL || run == NULL || kept == NULL ? nnrt_compat_no_memory(__func__) : OH_NN_SUCCESS;
    for (size_t i = 0; code == OH_NN_SUCCESS && i < input_count; i++) {
        code = nnrt_compat_reshape(inputs[i]);
        from[i] = inputs[i]->tensor;
    }
    for (size_t i = 0; code == OH_NN_SUCCESS && i < output_count; i++) {
        to[i] = outputs[i]->tensor;
        kept[i] = outputs[i];
    }
    if (code == OH_NN_SUCCESS) {
        __atomic_add_fetch(&executor->holders, 1, __ATOMIC_ACQ_REL);
        for (size_t i = 0; i < output_count; i++) __atomic_add_fetch(&kept[i]->holders, 1, __ATOMIC_ACQ_REL);
        run->executor = executor;
        run->outputs = kept;
        run->output_count = output_count;
        run->user = options->user;
        options->size = sizeof *options;
        options->user = options->on_done == NULL ? NULL : run;
        kept = NULL;
        /* Threads that share an executor go one after the other. */
        pthread_mutex_lock(&executor->lock);
        udo_error_t *error = udo_session_submit(executor->session, from, input_count, to, output_count, options, &run->run);
        pthread_mutex_unlock(&executor->lock);
        code = nnrt_compat_code(error);
        if (code == OH_NN_SUCCESS) {
            *out = run;
        } else {
            nnrt_compat_run_free(run);
        }
        run = NULL;
    }
    free(run);
    free(kept);
    free(from);
    free(to);
    return code;
}

static inline OH_NN_ReturnCode OH_NNExecutor_RunSync(
    OH_NNExecutor *executor, NN_Tensor *inputTensor[], size_t inputCount, NN_Tensor *outputTensor[], size_t outputCount) {
    nnrt_compat_run *run = NULL;
    udo_run_options_t options;
    memset(&options, 0, sizeof options);
    OH_NN_ReturnCode code = nnrt_compat_submit(executor, inputTensor, inputCount, outputTensor, outputCount, &options, &run);
    if (code != OH_NN_SUCCESS) return code;
    code = nnrt_compat_code(udo_run_wait(run->run));
    if (code == OH_NN_SUCCESS) code = nnrt_compat_results(run);
    nnrt_compat_run_free(run);
    return code;
}

/* The program is told of the end, once, by what OH_NNExecutor_SetOnRunDone was given. Executor and tensors may be destroyed before: they
 * are there until that has returned. `timeout` is in milliseconds; 0 is for as long as it takes. */
static inline OH_NN_ReturnCode OH_NNExecutor_RunAsync(
    OH_NNExecutor *executor, NN_Tensor *inputTensor[], size_t inputCount, NN_Tensor *outputTensor[], size_t outputCount,
    int32_t timeout, void *userData) {
    nnrt_compat_run *run = NULL;
    udo_run_options_t options;
    if (executor == NULL || timeout < 0) return nnrt_compat_wrong(__func__);
    if (executor->on_done == NULL) return nnrt_compat_refuse(OH_NN_OPERATION_FORBIDDEN, "nobody is told of the end: OH_NNExecutor_SetOnRunDone");
    memset(&options, 0, sizeof options);
    options.timeout_ns = (uint64_t)timeout * 1000000u;
    options.on_done = nnrt_compat_done;
    options.user = userData;
    OH_NN_ReturnCode code = nnrt_compat_submit(executor, inputTensor, inputCount, outputTensor, outputCount, &options, &run);
    if (code == OH_NN_SUCCESS) nnrt_compat_arrive(run);
    return code;
}

/* ---- Executors before there were tensors ---- */

/* Whether what a program describes goes with an input, and the specification of it. Open dimensions are to be above 0. */
static inline OH_NN_ReturnCode nnrt_compat_input(const OH_NNExecutor *executor, uint32_t index, const OH_NN_Tensor *tensor, udo_tensor_spec_t **out) {
    if (executor == NULL || tensor == NULL || index >= executor->input_count) return nnrt_compat_wrong(__func__);
    const NN_TensorDesc *wanted = executor->inputs[index];
    NN_TensorDesc *given = nnrt_compat_described(tensor);
    if (given == NULL) return nnrt_compat_wrong(__func__);
    bool is_its = given->dtype == wanted->dtype && given->rank == wanted->rank;
    for (size_t i = 0; is_its && i < given->rank; i++)
        is_its = given->shape[i] > 0 && (wanted->shape[i] == -1 || wanted->shape[i] == given->shape[i]);
    OH_NN_ReturnCode code = is_its ? nnrt_compat_spec(given, out) : nnrt_compat_refuse(OH_NN_INVALID_PARAMETER, "not the type or shape of this input");
    OH_NNTensorDesc_Destroy(&given);
    return code;
}

/* What was set of an input or output before goes. */
static inline void nnrt_compat_set(nnrt_compat_slot_of_run *slot, udo_tensor_t *tensor, void *buffer, size_t length) {
    udo_tensor_release(slot->tensor);
    slot->tensor = tensor;
    slot->buffer = buffer;
    slot->length = length;
    slot->is_set = true;
}

/* Copies the elements of an input; the program's may go then. */
static inline OH_NN_ReturnCode OH_NNExecutor_SetInput(
    OH_NNExecutor *executor, uint32_t inputIndex, const OH_NN_Tensor *tensor, const void *dataBuffer, size_t length) {
    udo_tensor_spec_t *spec = NULL;
    udo_tensor_t *made = NULL;
    if (dataBuffer == NULL || length == 0) return nnrt_compat_wrong(__func__);
    OH_NN_ReturnCode code = nnrt_compat_input(executor, inputIndex, tensor, &spec);
    if (code != OH_NN_SUCCESS) return code;
    code = nnrt_compat_code(udo_tensor_create(nnrt_compat_device(executor->device), spec, &made));
    if (code == OH_NN_SUCCESS) code = nnrt_compat_code(udo_tensor_write(made, dataBuffer, length));
    udo_tensor_spec_release(spec);
    if (code == OH_NN_SUCCESS) nnrt_compat_set(&executor->given[inputIndex], made, NULL, 0);
    else udo_tensor_release(made);
    return code;
}

/* Says where OH_NNExecutor_Run puts an output. */
static inline OH_NN_ReturnCode OH_NNExecutor_SetOutput(OH_NNExecutor *executor, uint32_t outputIndex, void *dataBuffer, size_t length) {
    size_t wanted = 0;
    if (executor == NULL || outputIndex >= executor->output_count || dataBuffer == NULL || length == 0) return nnrt_compat_wrong(__func__);
    /* What only a run says is looked at then. */
    const NN_TensorDesc *of = executor->outputs[outputIndex];
    bool is_known = of->has_shape;
    for (size_t i = 0; i < of->rank; i++) is_known = is_known && of->shape[i] >= 0;
    if (is_known && OH_NNTensorDesc_GetByteSize(of, &wanted) == OH_NN_SUCCESS && length < wanted)
        return nnrt_compat_refuse(OH_NN_INVALID_PARAMETER, "no room for the output");
    nnrt_compat_set(&executor->wanted[outputIndex], NULL, dataBuffer, length);
    return OH_NN_SUCCESS;
}

/* Memory of the executor's device, of which the program sees address and length; it goes with the executor, if not before. */
static inline OH_NN_Memory *nnrt_compat_allocate(OH_NNExecutor *executor, nnrt_compat_memory **list, size_t length) {
    int32_t extent = (int32_t)length;
    if (length == 0 || length > INT32_MAX) return (OH_NN_Memory *)nnrt_compat_nothing(__func__);
    NN_TensorDesc *desc = OH_NNTensorDesc_Create();
    nnrt_compat_memory *made = (nnrt_compat_memory *)calloc(1, sizeof *made);
    if (desc != NULL && made != NULL && OH_NNTensorDesc_SetDataType(desc, OH_NN_UINT8) == OH_NN_SUCCESS
        && OH_NNTensorDesc_SetShape(desc, &extent, 1) == OH_NN_SUCCESS) made->bytes = OH_NNTensor_Create(executor->device, desc);
    if (desc != NULL) OH_NNTensorDesc_Destroy(&desc);
    if (made == NULL || made->bytes == NULL) {
        free(made);
        return NULL;
    }
    made->seen.data = OH_NNTensor_GetDataBuffer(made->bytes);
    made->seen.length = length;
    made->next = *list;
    *list = made;
    return &made->seen;
}

static inline OH_NN_Memory *OH_NNExecutor_AllocateInputMemory(OH_NNExecutor *executor, uint32_t inputIndex, size_t length) {
    if (executor == NULL || inputIndex >= executor->input_count) return (OH_NN_Memory *)nnrt_compat_nothing(__func__);
    return nnrt_compat_allocate(executor, &executor->input_memories[inputIndex], length);
}

static inline OH_NN_Memory *OH_NNExecutor_AllocateOutputMemory(OH_NNExecutor *executor, uint32_t outputIndex, size_t length) {
    if (executor == NULL || outputIndex >= executor->output_count) return (OH_NN_Memory *)nnrt_compat_nothing(__func__);
    return nnrt_compat_allocate(executor, &executor->output_memories[outputIndex], length);
}

/* The link of a list that leads to a memory; NULL if none does. */
static inline nnrt_compat_memory **nnrt_compat_linked(nnrt_compat_memory **list, const OH_NN_Memory *memory) {
    while (*list != NULL && &(*list)->seen != memory) list = &(*list)->next;
    return *list == NULL ? NULL : list;
}

static inline void nnrt_compat_deallocate(nnrt_compat_memory **list, OH_NN_Memory **memory) {
    nnrt_compat_memory **link = memory == NULL || *memory == NULL ? NULL : nnrt_compat_linked(list, *memory);
    if (link == NULL) return;
    nnrt_compat_memory *gone = *link;
    *link = gone->next;
    gone->next = NULL;
    nnrt_compat_free_memories(gone);
    *memory = NULL;
}

static inline void OH_NNExecutor_DestroyInputMemory(OH_NNExecutor *executor, uint32_t inputIndex, OH_NN_Memory **memory) {
    if (executor != NULL && inputIndex < executor->input_count) nnrt_compat_deallocate(&executor->input_memories[inputIndex], memory);
}

static inline void OH_NNExecutor_DestroyOutputMemory(OH_NNExecutor *executor, uint32_t outputIndex, OH_NN_Memory **memory) {
    if (executor != NULL && outputIndex < executor->output_count) nnrt_compat_deallocate(&executor->output_memories[outputIndex], memory);
}

/* A tensor in memory that the executor allocated. */
static inline OH_NN_ReturnCode nnrt_compat_in_memory(
    nnrt_compat_memory **list, const OH_NN_Memory *memory, const udo_tensor_spec_t *spec, udo_tensor_t **out) {
    udo_memory_t *bytes = NULL;
    nnrt_compat_memory **link = memory == NULL ? NULL : nnrt_compat_linked(list, memory);
    if (link == NULL) return nnrt_compat_refuse(OH_NN_INVALID_PARAMETER, "memory that the executor did not allocate for this");
    OH_NN_ReturnCode code = nnrt_compat_code(udo_tensor_memory((*link)->bytes->tensor, &bytes));
    if (code == OH_NN_SUCCESS) code = nnrt_compat_code(udo_tensor_create_from_memory(spec, bytes, out));
    udo_memory_release(bytes);
    return code == OH_NN_MEMORY_ERROR ? OH_NN_INVALID_PARAMETER : code;
}

static inline OH_NN_ReturnCode OH_NNExecutor_SetInputWithMemory(
    OH_NNExecutor *executor, uint32_t inputIndex, const OH_NN_Tensor *tensor, const OH_NN_Memory *memory) {
    udo_tensor_spec_t *spec = NULL;
    udo_tensor_t *made = NULL;
    OH_NN_ReturnCode code = nnrt_compat_input(executor, inputIndex, tensor, &spec);
    if (code == OH_NN_SUCCESS) code = nnrt_compat_in_memory(&executor->input_memories[inputIndex], memory, spec, &made);
    udo_tensor_spec_release(spec);
    if (code == OH_NN_SUCCESS) nnrt_compat_set(&executor->given[inputIndex], made, NULL, 0);
    return code;
}

static inline OH_NN_ReturnCode OH_NNExecutor_SetOutputWithMemory(OH_NNExecutor *executor, uint32_t outputIndex, const OH_NN_Memory *memory) {
    udo_tensor_spec_t *spec = NULL;
    udo_tensor_t *made = NULL;
    if (executor == NULL || outputIndex >= executor->output_count || memory == NULL) return nnrt_compat_wrong(__func__);
    if (!executor->outputs[outputIndex]->has_shape) return nnrt_compat_refuse(OH_NN_DYNAMIC_SHAPE, "only a run says what the output is; OH_NNExecutor_SetOutput");
    OH_NN_ReturnCode code = nnrt_compat_spec(executor->outputs[outputIndex], &spec);
    if (code == OH_NN_SUCCESS) code = nnrt_compat_in_memory(&executor->output_memories[outputIndex], memory, spec, &made);
    udo_tensor_spec_release(spec);
    if (code == OH_NN_SUCCESS) nnrt_compat_set(&executor->wanted[outputIndex], made, NULL, 0);
    return code;
}

/* Puts an output of a run where the program wants it, and says its shape. */
static inline OH_NN_ReturnCode nnrt_compat_fetch(OH_NNExecutor *executor, size_t index, const udo_tensor_t *made) {
    const nnrt_compat_slot_of_run *wanted = &executor->wanted[index];
    udo_tensor_spec_t *spec = NULL;
    uint64_t size = 0;
    OH_NN_ReturnCode code = nnrt_compat_code(udo_tensor_spec(made, &spec));
    if (code == OH_NN_SUCCESS) code = nnrt_compat_tell(executor->results[index], spec);
    if (code == OH_NN_SUCCESS) code = nnrt_compat_code(udo_tensor_spec_byte_size(spec, &size));
    udo_tensor_spec_release(spec);
    if (code != OH_NN_SUCCESS || wanted->buffer == NULL) return code;
    if (size > wanted->length) return nnrt_compat_refuse(OH_NN_INVALID_PARAMETER, "no room for the output");
    return nnrt_compat_code(udo_tensor_read(made, wanted->buffer, (size_t)size));
}

/* Runs over what was set of all inputs and outputs, which stays set. */
static inline OH_NN_ReturnCode OH_NNExecutor_Run(OH_NNExecutor *executor) {
    if (executor == NULL) return nnrt_compat_wrong(__func__);
    if (nnrt_compat_is_here(executor) != OH_NN_SUCCESS) return OH_NN_OPERATION_FORBIDDEN;
    for (size_t i = 0; i < executor->input_count; i++)
        if (!executor->given[i].is_set) return nnrt_compat_refuse(OH_NN_OPERATION_FORBIDDEN, "an input was not set");
    for (size_t i = 0; i < executor->output_count; i++)
        if (!executor->wanted[i].is_set) return nnrt_compat_refuse(OH_NN_OPERATION_FORBIDDEN, "an output was not set");
    const udo_tensor_t **from = (const udo_tensor_t **)calloc(executor->input_count + 1, sizeof *from);
    udo_tensor_t **to = (udo_tensor_t **)calloc(executor->output_count + 1, sizeof *to);
    OH_NN_ReturnCode code = from == NULL || to == NULL ? nnrt_compat_no_memory(__func__) : OH_NN_SUCCESS;
    for (size_t i = 0; code == OH_NN_SUCCESS && i < executor->input_count; i++) from[i] = executor->given[i].tensor;
    for (size_t i = 0; code == OH_NN_SUCCESS && i < executor->output_count; i++) to[i] = executor->wanted[i].tensor;
    if (code == OH_NN_SUCCESS) {
        pthread_mutex_lock(&executor->lock);
        code = nnrt_compat_code(udo_session_run(executor->session, from, executor->input_count, to, executor->output_count));
        for (size_t i = 0; code == OH_NN_SUCCESS && i < executor->output_count; i++) code = nnrt_compat_fetch(executor, i, to[i]);
        pthread_mutex_unlock(&executor->lock);
    }
    for (size_t i = 0; to != NULL && i < executor->output_count; i++)
        if (executor->wanted[i].tensor == NULL) udo_tensor_release(to[i]);
    free(from);
    free(to);
    return code;
}

#endif
