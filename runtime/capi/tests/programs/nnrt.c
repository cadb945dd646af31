/* Programs of NNRt on the shim: N01, N02, N08, N12, N21, N22, N23, and asynchronous runs. It is C and C++. */
#include "check.h"
#include "nnrt_compat.h"

#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define IS(call, code) is(#call, __LINE__, call, code)
#define WELL(call) IS(call, OH_NN_SUCCESS)

static void is(const char *call, int line, OH_NN_ReturnCode found, OH_NN_ReturnCode wanted) {
    if (found != wanted) {
        fprintf(stderr, "line %d: %s: code %d, expected %d\n", line, call, (int)found, (int)wanted);
        exit(1);
    }
}

static NN_TensorDesc *describe(OH_NN_DataType dtype, const int32_t *shape, size_t rank) {
    NN_TensorDesc *desc = OH_NNTensorDesc_Create();
    CHECK(desc != NULL);
    WELL(OH_NNTensorDesc_SetDataType(desc, dtype));
    WELL(OH_NNTensorDesc_SetShape(desc, shape, rank));
    WELL(OH_NNTensorDesc_SetFormat(desc, OH_NN_FORMAT_NONE));
    return desc;
}

static void add(OH_NNModel *model, OH_NN_DataType dtype, const int32_t *shape, size_t rank) {
    NN_TensorDesc *desc = describe(dtype, shape, rank);
    WELL(OH_NNModel_AddTensorToModel(model, desc));
    WELL(OH_NNTensorDesc_Destroy(&desc));
    CHECK(desc == NULL);
}

static OH_NN_UInt32Array array(uint32_t *data, uint32_t size) {
    OH_NN_UInt32Array made = {data, size};
    return made;
}

/* ADD with a fused RELU of tensors 0 and 1, which makes tensor 3; 2 is the parameter. */
static OH_NNModel *add_relu(const int32_t *shape, size_t rank) {
    static const int32_t one[1] = {1};
    uint32_t inputs[2] = {0, 1}, parameters[1] = {2}, outputs[1] = {3};
    const int8_t relu = OH_NN_FUSED_RELU;
    OH_NNModel *model = OH_NNModel_Construct();
    CHECK(model != NULL);
    add(model, OH_NN_FLOAT32, shape, rank);
    add(model, OH_NN_FLOAT32, shape, rank);
    add(model, OH_NN_INT8, one, 1);
    WELL(OH_NNModel_SetTensorType(model, 2, OH_NN_ADD_ACTIVATIONTYPE));
    WELL(OH_NNModel_SetTensorData(model, 2, &relu, sizeof relu));
    add(model, OH_NN_FLOAT32, shape, rank);
    OH_NN_UInt32Array of_inputs = array(inputs, 2), of_parameters = array(parameters, 1), of_outputs = array(outputs, 1);
    WELL(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, &of_parameters, &of_inputs, &of_outputs));
    WELL(OH_NNModel_SpecifyInputsAndOutputs(model, &of_inputs, &of_outputs));
    WELL(OH_NNModel_Finish(model));
    return model;
}

static OH_NNExecutor *build(const OH_NNModel *model, size_t device) {
    OH_NNCompilation *compilation = OH_NNCompilation_Construct(model);
    CHECK(compilation != NULL && OH_NNExecutor_Construct(compilation) == NULL);
    WELL(OH_NNCompilation_SetDevice(compilation, 99));
    IS(OH_NNCompilation_Build(compilation), OH_NN_FAILED);
    /* A build that failed may be corrected. */
    WELL(OH_NNCompilation_SetDevice(compilation, device));
    WELL(OH_NNCompilation_SetPerformanceMode(compilation, OH_NN_PERFORMANCE_NONE));
    /* Modes are of the CPU, and half precision of the GPU. */
    OH_NN_DeviceType kind = OH_NN_OTHERS;
    WELL(OH_NNDevice_GetType(device, &kind));
    IS(OH_NNCompilation_SetPerformanceMode(compilation, OH_NN_PERFORMANCE_EXTREME), kind == OH_NN_CPU ? OH_NN_SUCCESS : OH_NN_UNSUPPORTED);
    WELL(OH_NNCompilation_SetPerformanceMode(compilation, OH_NN_PERFORMANCE_NONE));
    IS(OH_NNCompilation_SetPerformanceMode(compilation, (OH_NN_PerformanceMode)5), OH_NN_INVALID_PARAMETER);
    WELL(OH_NNCompilation_SetPriority(compilation, OH_NN_PRIORITY_HIGH));
    WELL(OH_NNCompilation_EnableFloat16(compilation, false));
    IS(OH_NNCompilation_SetPriority(compilation, (OH_NN_Priority)4), OH_NN_INVALID_PARAMETER);
    IS(OH_NNCompilation_EnableFloat16(compilation, true), kind == OH_NN_GPU ? OH_NN_SUCCESS : OH_NN_UNSUPPORTED);
    WELL(OH_NNCompilation_EnableFloat16(compilation, false));
    IS(OH_NNCompilation_AddExtensionConfig(compilation, "key", "value", 5), OH_NN_UNSUPPORTED);
    IS(OH_NNCompilation_AddExtensionConfig(compilation, "threads", "none", 4), OH_NN_INVALID_PARAMETER);
    IS(OH_NNCompilation_AddExtensionConfig(compilation, "threads", "2\0" "3", 3), OH_NN_INVALID_PARAMETER);
    WELL(OH_NNCompilation_AddExtensionConfig(compilation, "threads", "2", 2));
    WELL(OH_NNCompilation_AddExtensionConfig(compilation, "threads", "1", 1));
    IS(OH_NNCompilation_ImportCacheFromBuffer(compilation, "bytes", 5), OH_NN_INVALID_PARAMETER);
    char bytes[8];
    size_t size = 0;
    IS(OH_NNCompilation_ExportCacheToBuffer(compilation, bytes, sizeof bytes, &size), OH_NN_OPERATION_FORBIDDEN);
    WELL(OH_NNCompilation_Build(compilation));
    IS(OH_NNCompilation_Build(compilation), OH_NN_INVALID_PARAMETER);
    IS(OH_NNCompilation_SetDevice(compilation, device), OH_NN_OPERATION_FORBIDDEN);
    OH_NNExecutor *executor = OH_NNExecutor_Construct(compilation);
    CHECK(executor != NULL);
    OH_NNCompilation_Destroy(&compilation);
    CHECK(compilation == NULL);
    return executor;
}

static NN_Tensor *tensor(size_t device, const int32_t *shape, size_t rank, const float *elements, size_t count) {
    NN_TensorDesc *desc = describe(OH_NN_FLOAT32, shape, rank);
    NN_Tensor *made = OH_NNTensor_Create(device, desc);
    CHECK(made != NULL && OH_NNTensor_GetTensorDesc(made) != desc);
    WELL(OH_NNTensorDesc_Destroy(&desc));
    if (elements != NULL) memcpy(OH_NNTensor_GetDataBuffer(made), elements, count * sizeof *elements);
    return made;
}

static bool holds(const NN_Tensor *of, const float *wanted, size_t count) {
    return memcmp(OH_NNTensor_GetDataBuffer(of), wanted, count * sizeof *wanted) == 0;
}

/* N01: one graph on all devices, again and again. */
static void run_everywhere(int rounds) {
    const int32_t four[2] = {1, 4};
    const float a[4] = {1, -2, 3, 0.5f}, b[4] = {1, 1, -4, 0.5f}, wanted[4] = {2, 0, 0, 1};
    const size_t *ids = NULL;
    uint32_t count = 0;
    WELL(OH_NNDevice_GetAllDevicesID(&ids, &count));
    CHECK(count == 4 && ids[0] == 0);
    IS(OH_NNDevice_GetAllDevicesID(&ids, &count), OH_NN_INVALID_PARAMETER);
    OH_NNModel *model = add_relu(four, 2);
    for (uint32_t i = 0; i < count; i++) {
        const char *name = NULL;
        OH_NN_DeviceType type = OH_NN_OTHERS;
        const bool *supported = NULL;
        uint32_t operations = 0;
        WELL(OH_NNDevice_GetName(ids[i], &name));
        WELL(OH_NNDevice_GetType(ids[i], &type));
        WELL(OH_NNModel_GetAvailableOperations(model, ids[i], &supported, &operations));
        CHECK(operations == 1 && name != NULL && (i != 0 || (type == OH_NN_CPU && supported[0])));
        if (!supported[0]) {
            OH_NNCompilation *refused = OH_NNCompilation_Construct(model);
            WELL(OH_NNCompilation_SetDevice(refused, ids[i]));
            IS(OH_NNCompilation_Build(refused), OH_NN_UNSUPPORTED);
            OH_NNCompilation_Destroy(&refused);
            continue;
        }
        OH_NNExecutor *executor = build(model, ids[i]);
        NN_Tensor *inputs[2] = {tensor(ids[i], four, 2, a, 4), tensor(ids[i], four, 2, b, 4)};
        NN_Tensor *outputs[1] = {tensor(ids[i], four, 2, NULL, 0)};
        udo_memory_stats_t before, after;
        memset(&before, 0, sizeof before);
        memset(&after, 0, sizeof after);
        WELL(OH_NNExecutor_RunSync(executor, inputs, 2, outputs, 1));
        DONE(udo_device_memory_stats(nnrt_compat_device(ids[i]), &before));
        for (int round = 0; round < rounds; round++) {
            memset(OH_NNTensor_GetDataBuffer(outputs[0]), 0xff, sizeof wanted);
            WELL(OH_NNExecutor_RunSync(executor, inputs, 2, outputs, 1));
            CHECK(holds(outputs[0], wanted, 4));
        }
        DONE(udo_device_memory_stats(nnrt_compat_device(ids[i]), &after));
        CHECK(before.current_bytes == after.current_bytes && before.memories == after.memories);

        /* N23: what does not fit is refused, and the executor goes on. */
        NN_Tensor *twice[1] = {inputs[0]}, *nobody[2] = {inputs[0], NULL};
        IS(OH_NNExecutor_RunSync(executor, inputs, 1, outputs, 1), OH_NN_INVALID_PARAMETER);
        IS(OH_NNExecutor_RunSync(executor, nobody, 2, outputs, 1), OH_NN_INVALID_PARAMETER);
        IS(OH_NNExecutor_RunSync(executor, inputs, 2, twice, 1), OH_NN_INVALID_PARAMETER);
        WELL(OH_NNExecutor_RunSync(executor, inputs, 2, outputs, 1));
        for (int j = 0; j < 2; j++) WELL(OH_NNTensor_Destroy(&inputs[j]));
        WELL(OH_NNTensor_Destroy(&outputs[0]));
        IS(OH_NNTensor_Destroy(&outputs[0]), OH_NN_INVALID_PARAMETER);
        OH_NNExecutor_Destroy(&executor);
    }
    OH_NNModel_Destroy(&model);
    CHECK(model == NULL);
}

/* N02 and N21: open dimensions. */
static void run_open(void) {
    const int32_t open[4] = {1, -1, -1, 1};
    const int32_t shapes[3][4] = {{1, 1, 1, 1}, {1, 2, 2, 1}, {1, 1, 3, 1}};
    const float a[4] = {1, -2, 3, 4}, b[4] = {1, 1, 1, 1}, wanted[4] = {2, 0, 4, 5};
    OH_NNModel *model = add_relu(open, 4);
    OH_NNExecutor *executor = build(model, 0);
    OH_NNModel_Destroy(&model);
    size_t *least = NULL, *most = NULL, rank = 0, count = 77;
    WELL(OH_NNExecutor_GetInputDimRange(executor, 0, &least, &most, &rank));
    CHECK(rank == 4 && least[0] == 1 && most[0] == 1 && least[1] == 1 && most[1] >= 2);
    IS(OH_NNExecutor_GetInputDimRange(executor, 0, &least, &most, &rank), OH_NN_INVALID_PARAMETER);
    NN_TensorDesc *made = OH_NNExecutor_CreateOutputTensorDesc(executor, 0);
    OH_NN_DataType dtype = OH_NN_UNKNOWN;
    int32_t *shape = NULL;
    uint32_t dims = 0;
    WELL(OH_NNTensorDesc_GetDataType(made, &dtype));
    WELL(OH_NNTensorDesc_GetShape(made, &shape, &rank));
    CHECK(dtype == OH_NN_FLOAT32 && rank == 4 && shape[0] == 1 && shape[1] == -1);
    WELL(OH_NNTensorDesc_Destroy(&made));
    shape = NULL;
    WELL(OH_NNExecutor_GetOutputShape(executor, 0, &shape, &dims));
    CHECK(dims == 4 && shape[2] == -1);
    shape = NULL;
    NN_TensorDesc *desc = OH_NNExecutor_CreateInputTensorDesc(executor, 0);
    WELL(OH_NNTensorDesc_GetShape(desc, &shape, &rank));
    CHECK(rank == 4 && shape[1] == -1 && shape[3] == 1);
    IS(OH_NNTensorDesc_GetElementCount(desc, &count), OH_NN_DYNAMIC_SHAPE);
    CHECK(count == 0);
    IS(OH_NNTensorDesc_GetByteSize(desc, &count), OH_NN_DYNAMIC_SHAPE);
    CHECK(OH_NNTensor_Create(0, desc) == NULL && OH_NNExecutor_CreateInputTensorDesc(executor, 2) == NULL);
    /* The output has room for the largest, and no shape before the run. */
    NN_Tensor *outputs[1] = {OH_NNTensor_CreateWithSize(0, desc, sizeof a)};
    CHECK(outputs[0] != NULL);
    for (int i = 0; i < 3; i++) {
        const size_t elements = (size_t)(shapes[i][1] * shapes[i][2]);
        WELL(OH_NNTensorDesc_SetShape(desc, shapes[i], 4));
        WELL(OH_NNTensorDesc_GetByteSize(desc, &count));
        CHECK(count == elements * sizeof *a);
        NN_Tensor *inputs[2] = {OH_NNTensor_Create(0, desc), OH_NNTensor_Create(0, desc)};
        memcpy(OH_NNTensor_GetDataBuffer(inputs[0]), a, count);
        memcpy(OH_NNTensor_GetDataBuffer(inputs[1]), b, count);
        WELL(OH_NNExecutor_RunSync(executor, inputs, 2, outputs, 1));
        CHECK(holds(outputs[0], wanted, elements));
        uint32_t length = 0;
        shape = NULL;
        WELL(OH_NNExecutor_GetOutputShape(executor, 0, &shape, &length));
        CHECK(length == 4 && memcmp(shape, shapes[i], sizeof shapes[i]) == 0);
        shape = NULL;
        WELL(OH_NNTensorDesc_GetShape(OH_NNTensor_GetTensorDesc(outputs[0]), &shape, &rank));
        CHECK(rank == 4 && memcmp(shape, shapes[i], sizeof shapes[i]) == 0);
        for (int j = 0; j < 2; j++) WELL(OH_NNTensor_Destroy(&inputs[j]));
    }
    /* What an executor made of the model stays as it was. */
    NN_TensorDesc *declared = OH_NNExecutor_CreateInputTensorDesc(executor, 1);
    shape = NULL;
    WELL(OH_NNTensorDesc_GetShape(declared, &shape, &rank));
    CHECK(shape[1] == -1);
    WELL(OH_NNTensorDesc_Destroy(&declared));
    WELL(OH_NNTensorDesc_Destroy(&desc));
    IS(OH_NNTensorDesc_Destroy(&desc), OH_NN_INVALID_PARAMETER);
    desc = OH_NNTensorDesc_Create();
    IS(OH_NNTensorDesc_GetElementCount(desc, &count), OH_NN_INVALID_PARAMETER);
    WELL(OH_NNTensorDesc_Destroy(&desc));
    WELL(OH_NNTensor_Destroy(&outputs[0]));
    OH_NNExecutor_Destroy(&executor);
}

/* N08: what goes with an open model alone, and once. */
static void refuse_states(void) {
    const int32_t four[1] = {4}, none[1] = {0};
    const float data[4] = {1, 2, 3, 4};
    uint32_t x = 0, y = 2, both[2] = {0, 1}, parameter = 3;
    OH_NN_UInt32Array of_x = array(&x, 1), of_y = array(&y, 1), of_both = array(both, 2), nothing = array(NULL, 0);
    OH_NN_UInt32Array foreign = array(&parameter, 1);
    OH_NNModel *model = OH_NNModel_Construct();
    IS(OH_NNModel_Finish(model), OH_NN_OPERATION_FORBIDDEN);
    CHECK(OH_NNCompilation_Construct(model) == NULL);
    for (int i = 0; i < 4; i++) add(model, OH_NN_FLOAT32, four, 1);
    NN_TensorDesc *desc = describe(OH_NN_FLOAT32, none, 1);
    IS(OH_NNModel_AddTensorToModel(model, desc), OH_NN_INVALID_PARAMETER);
    IS(OH_NNModel_SetTensorData(model, 9, data, sizeof data), OH_NN_INVALID_PARAMETER);
    IS(OH_NNModel_SetTensorData(model, 1, data, 3), OH_NN_INVALID_PARAMETER);
    WELL(OH_NNModel_SetTensorData(model, 1, data, sizeof data));
    IS(OH_NNModel_SetTensorData(model, 1, data, sizeof data), OH_NN_INVALID_PARAMETER);
    WELL(OH_NNModel_SetTensorType(model, 3, OH_NN_MUL_ACTIVATION_TYPE));
    IS(OH_NNModel_SetTensorType(model, 3, (OH_NN_TensorType)163), OH_NN_INVALID_PARAMETER);
    IS(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, &foreign, &of_both, &of_y), OH_NN_INVALID_PARAMETER);
    IS(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, &nothing, &of_both, &foreign), OH_NN_INVALID_PARAMETER);
    IS(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, &nothing, &of_x, &of_y), OH_NN_INVALID_PARAMETER);
    IS(OH_NNModel_AddOperation(model, (OH_NN_OperationType)109, &nothing, &of_both, &of_y), OH_NN_INVALID_PARAMETER);
    IS(OH_NNModel_Finish(model), OH_NN_OPERATION_FORBIDDEN);
    WELL(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, &nothing, &of_both, &of_y));
    const bool *supported = NULL;
    uint32_t operations = 0;
    IS(OH_NNModel_GetAvailableOperations(model, 0, &supported, &operations), OH_NN_OPERATION_FORBIDDEN);
    IS(OH_NNModel_SpecifyInputsAndOutputs(model, &of_both, &of_y), OH_NN_INVALID_PARAMETER);
    WELL(OH_NNModel_SpecifyInputsAndOutputs(model, &of_x, &of_y));
    IS(OH_NNModel_SpecifyInputsAndOutputs(model, &of_x, &of_y), OH_NN_OPERATION_FORBIDDEN);
    WELL(OH_NNModel_Finish(model));
    IS(OH_NNModel_Finish(model), OH_NN_OPERATION_FORBIDDEN);
    IS(OH_NNModel_AddTensorToModel(model, desc), OH_NN_OPERATION_FORBIDDEN);
    IS(OH_NNModel_SetTensorData(model, 0, data, sizeof data), OH_NN_OPERATION_FORBIDDEN);
    IS(OH_NNModel_SetTensorType(model, 0, OH_NN_TENSOR), OH_NN_OPERATION_FORBIDDEN);
    IS(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, &nothing, &of_both, &of_y), OH_NN_OPERATION_FORBIDDEN);
    IS(OH_NNModel_GetAvailableOperations(model, 99, &supported, &operations), OH_NN_FAILED);
    WELL(OH_NNTensorDesc_Destroy(&desc));
    OH_NNModel_Destroy(&model);
    OH_NNModel_Destroy(&model);
}

/* Four numbers of a run of what was built of x + y and relu. */
static void run_four(OH_NNCompilation *compilation) {
    const int32_t four[2] = {1, 4};
    const float a[4] = {1, -2, 3, 0.5f}, b[4] = {1, 1, -4, 0.5f}, wanted[4] = {2, 0, 0, 1};
    OH_NNExecutor *executor = OH_NNExecutor_Construct(compilation);
    CHECK(executor != NULL);
    NN_Tensor *inputs[2] = {tensor(0, four, 2, a, 4), tensor(0, four, 2, b, 4)};
    NN_Tensor *outputs[1] = {tensor(0, four, 2, NULL, 0)};
    WELL(OH_NNExecutor_RunSync(executor, inputs, 2, outputs, 1));
    CHECK(holds(outputs[0], wanted, 4));
    OH_NNExecutor_Destroy(&executor);
    WELL(OH_NNTensor_Destroy(&inputs[0]));
    WELL(OH_NNTensor_Destroy(&inputs[1]));
    WELL(OH_NNTensor_Destroy(&outputs[0]));
}

/* N13, N17, N18, N19: caches in folders and in buffers. */
static void keep(void) {
    const int32_t four[2] = {1, 4};
    CHECK(mkdir("kept", 0700) == 0);
    OH_NNCompilation *compilation = OH_NNCompilation_ConstructForCache();
    IS(OH_NNCompilation_Build(compilation), OH_NN_INVALID_PARAMETER);
    WELL(OH_NNCompilation_SetCache(compilation, "kept", 2));
    IS(OH_NNCompilation_Build(compilation), OH_NN_INVALID_PARAMETER);
    OH_NNCompilation_Destroy(&compilation);
    OH_NNModel *model = add_relu(four, 2);
    for (int turn = 0; turn < 2; turn++) {
        compilation = OH_NNCompilation_Construct(model);
        WELL(OH_NNCompilation_SetCache(compilation, "nowhere", 2));
        IS(OH_NNCompilation_Build(compilation), OH_NN_INVALID_PATH);
        WELL(OH_NNCompilation_SetCache(compilation, "kept", 2));
        WELL(OH_NNCompilation_Build(compilation));
        udo_cache_outcome_t outcome = UDO_CACHE_NONE;
        size_t packed = 9;
        WELL(nnrt_compat_code(udo_model_cache_outcome(compilation->model, &outcome)));
        WELL(nnrt_compat_code(udo_model_cache_packed(compilation->model, &packed)));
        CHECK(packed == 0 && outcome == (turn == 0 ? UDO_CACHE_MISS : UDO_CACHE_HIT));
        run_four(compilation);
        OH_NNCompilation_Destroy(&compilation);
    }
    compilation = OH_NNCompilation_Construct(model);
    WELL(OH_NNCompilation_SetCache(compilation, "kept", 1));
    IS(OH_NNCompilation_Build(compilation), OH_NN_OPERATION_FORBIDDEN);
    OH_NNCompilation_Destroy(&compilation);
    OH_NNModel_Destroy(&model);

    compilation = OH_NNCompilation_ConstructForCache();
    WELL(OH_NNCompilation_SetCache(compilation, "kept", 3));
    IS(OH_NNCompilation_Build(compilation), OH_NN_OPERATION_FORBIDDEN);
    WELL(OH_NNCompilation_SetCache(compilation, "kept", 2));
    WELL(OH_NNCompilation_Build(compilation));
    run_four(compilation);
    char few[8];
    size_t size = 0, again = 0;
    IS(OH_NNCompilation_ExportCacheToBuffer(compilation, few, sizeof few, &size), OH_NN_INVALID_PARAMETER);
    CHECK(size > sizeof few);
    char *bytes = (char *)malloc(size);
    WELL(OH_NNCompilation_ExportCacheToBuffer(compilation, bytes, size, &again));
    CHECK(again == size);
    OH_NNCompilation_Destroy(&compilation);
    compilation = OH_NNCompilation_ConstructForCache();
    WELL(OH_NNCompilation_ImportCacheFromBuffer(compilation, bytes, size / 2));
    IS(OH_NNCompilation_ImportCacheFromBuffer(compilation, bytes, size), OH_NN_INVALID_PARAMETER);
    CHECK(OH_NNCompilation_Build(compilation) != OH_NN_SUCCESS);
    OH_NNCompilation_Destroy(&compilation);
    compilation = OH_NNCompilation_ConstructForCache();
    WELL(OH_NNCompilation_ImportCacheFromBuffer(compilation, bytes, size));
    WELL(OH_NNCompilation_Build(compilation));
    free(bytes);
    run_four(compilation);
    OH_NNCompilation_Destroy(&compilation);
}

/* A convolution, whose parameters are lists and numbers, of quantized weights: N03. */
static void run_quantized(void) {
    const int32_t of_x[4] = {1, 2, 2, 1}, of_w[4] = {2, 1, 1, 1}, of_b[1] = {2}, of_y[4] = {1, 2, 2, 2}, two[1] = {2}, one[1] = {1};
    const int8_t w[2] = {2, -4};
    const int64_t strides[2] = {1, 1}, group = 1;
    const float b[2] = {0, 10}, x[4] = {1, 2, 3, 4}, wanted[8] = {1, 9, 2, 8, 3, 7, 4, 6};
    const double scales[2] = {0.5, 0.25};
    const int32_t zeros[2] = {0, 0};
    const uint32_t bits[2] = {8, 8};
    uint32_t inputs[3] = {0, 1, 2}, outputs[1] = {3}, parameters[2] = {4, 5};
    OH_NNModel *model = OH_NNModel_Construct();
    add(model, OH_NN_FLOAT32, of_x, 4);
    add(model, OH_NN_INT8, of_w, 4);
    add(model, OH_NN_FLOAT32, of_b, 1);
    add(model, OH_NN_FLOAT32, of_y, 4);
    add(model, OH_NN_INT64, two, 1);
    add(model, OH_NN_INT64, one, 1);
    NN_QuantParam *quantization = OH_NNQuantParam_Create();
    WELL(OH_NNQuantParam_SetScales(quantization, scales, 2));
    WELL(OH_NNQuantParam_SetZeroPoints(quantization, zeros, 2));
    IS(OH_NNModel_SetTensorQuantParams(model, 1, quantization), OH_NN_INVALID_PARAMETER);
    WELL(OH_NNQuantParam_SetNumBits(quantization, bits, 2));
    WELL(OH_NNModel_SetTensorQuantParams(model, 1, quantization));
    WELL(OH_NNQuantParam_Destroy(&quantization));
    IS(OH_NNQuantParam_Destroy(&quantization), OH_NN_INVALID_PARAMETER);
    WELL(OH_NNModel_SetTensorData(model, 1, w, sizeof w));
    WELL(OH_NNModel_SetTensorData(model, 2, b, sizeof b));
    WELL(OH_NNModel_SetTensorData(model, 4, strides, sizeof strides));
    WELL(OH_NNModel_SetTensorType(model, 4, OH_NN_CONV2D_STRIDES));
    WELL(OH_NNModel_SetTensorData(model, 5, &group, sizeof group));
    WELL(OH_NNModel_SetTensorType(model, 5, OH_NN_CONV2D_GROUP));
    OH_NN_UInt32Array reads = array(inputs, 3), makes = array(outputs, 1), says = array(parameters, 2), given = array(inputs, 1);
    WELL(OH_NNModel_AddOperation(model, OH_NN_OPS_CONV2D, &says, &reads, &makes));
    WELL(OH_NNModel_SpecifyInputsAndOutputs(model, &given, &makes));
    WELL(OH_NNModel_Finish(model));
    OH_NNExecutor *executor = build(model, 0);
    OH_NNModel_Destroy(&model);
    NN_Tensor *from[1] = {tensor(0, of_x, 4, x, 4)}, *to[1] = {tensor(0, of_y, 4, NULL, 0)};
    WELL(OH_NNExecutor_RunSync(executor, from, 1, to, 1));
    CHECK(holds(to[0], wanted, 8));
    WELL(OH_NNTensor_Destroy(&from[0]));
    WELL(OH_NNTensor_Destroy(&to[0]));
    OH_NNExecutor_Destroy(&executor);
}

static void quantize(OH_NNModel *model, uint32_t index, double scale, int32_t zero_point) {
    const uint32_t bits = 8;
    NN_QuantParam *quantization = OH_NNQuantParam_Create();
    WELL(OH_NNQuantParam_SetScales(quantization, &scale, 1));
    WELL(OH_NNQuantParam_SetZeroPoints(quantization, &zero_point, 1));
    WELL(OH_NNQuantParam_SetNumBits(quantization, &bits, 1));
    WELL(OH_NNModel_SetTensorQuantParams(model, index, quantization));
    WELL(OH_NNQuantParam_Destroy(&quantization));
}

/* N03: a convolution whose input, weights, bias and output are all integers is within one of what numbers give. */
static void run_integers(void) {
    const int32_t of_x[4] = {1, 3, 3, 2}, of_w[4] = {2, 2, 2, 2}, of_b[1] = {2}, of_y[4] = {1, 2, 2, 2}, two[1] = {2}, four[1] = {4};
    const int64_t strides[2] = {1, 1}, pads[4] = {0, 0, 0, 0};
    const int32_t bias[2] = {40, -64};
    uint32_t inputs[3] = {0, 1, 2}, outputs[1] = {3}, parameters[2] = {4, 5};
    int8_t x[18], w[16];
    for (int i = 0; i < 18; i++) x[i] = (int8_t)(i * 13 % 101 - 50);
    for (int i = 0; i < 16; i++) w[i] = (int8_t)(i * 29 % 89 - 44);
    OH_NNModel *model = OH_NNModel_Construct();
    add(model, OH_NN_INT8, of_x, 4);
    add(model, OH_NN_INT8, of_w, 4);
    add(model, OH_NN_INT32, of_b, 1);
    add(model, OH_NN_INT8, of_y, 4);
    add(model, OH_NN_INT64, two, 1);
    add(model, OH_NN_INT64, four, 1);
    quantize(model, 0, 0.05, 3);
    quantize(model, 1, 0.01, 0);
    quantize(model, 3, 0.04, -5);
    WELL(OH_NNModel_SetTensorData(model, 1, w, sizeof w));
    WELL(OH_NNModel_SetTensorData(model, 2, bias, sizeof bias));
    WELL(OH_NNModel_SetTensorData(model, 4, strides, sizeof strides));
    WELL(OH_NNModel_SetTensorType(model, 4, OH_NN_CONV2D_STRIDES));
    WELL(OH_NNModel_SetTensorData(model, 5, pads, sizeof pads));
    WELL(OH_NNModel_SetTensorType(model, 5, OH_NN_CONV2D_PAD));
    OH_NN_UInt32Array reads = array(inputs, 3), makes = array(outputs, 1), says = array(parameters, 2), given = array(inputs, 1);
    WELL(OH_NNModel_AddOperation(model, OH_NN_OPS_CONV2D, &says, &reads, &makes));
    WELL(OH_NNModel_SpecifyInputsAndOutputs(model, &given, &makes));
    WELL(OH_NNModel_Finish(model));
    OH_NNExecutor *executor = build(model, 0);
    OH_NNModel_Destroy(&model);
    NN_TensorDesc *of_in = OH_NNExecutor_CreateInputTensorDesc(executor, 0), *of_out = OH_NNExecutor_CreateOutputTensorDesc(executor, 0);
    NN_Tensor *from[1] = {OH_NNTensor_Create(0, of_in)}, *to[1] = {OH_NNTensor_Create(0, of_out)};
    memcpy(OH_NNTensor_GetDataBuffer(from[0]), x, sizeof x);
    WELL(OH_NNExecutor_RunSync(executor, from, 1, to, 1));
    const int8_t *y = (const int8_t *)OH_NNTensor_GetDataBuffer(to[0]);
    for (int row = 0; row < 2; row++) {
        for (int column = 0; column < 2; column++) {
            for (int o = 0; o < 2; o++) {
                double sum = bias[o] * 0.05 * 0.01;
                for (int i = 0; i < 8; i++) {
                    const int at = ((row + i / 4) * 3 + column + i / 2 % 2) * 2 + i % 2;
                    sum += (x[at] - 3) * 0.05 * w[o * 8 + i] * 0.01;
                }
                double wanted = sum / 0.04 - 5;
                wanted = wanted > 127 ? 127 : wanted < -128 ? -128 : wanted;
                const double off = y[(row * 2 + column) * 2 + o] - wanted;
                CHECK(off <= 1 && off >= -1);
            }
        }
    }
    WELL(OH_NNTensor_Destroy(&from[0]));
    WELL(OH_NNTensor_Destroy(&to[0]));
    WELL(OH_NNTensorDesc_Destroy(&of_in));
    WELL(OH_NNTensorDesc_Destroy(&of_out));
    OH_NNExecutor_Destroy(&executor);
}

/* N22: one file as the memory of two tensors. */
static void share(void) {
    const int32_t four[1] = {4};
    const float data[4] = {1, 2, 3, 4};
    NN_TensorDesc *desc = describe(OH_NN_FLOAT32, four, 1);
    NN_Tensor *whole = OH_NNTensor_CreateWithSize(0, desc, 8192);
    int fd = -1;
    size_t size = 0, offset = 77;
    WELL(OH_NNTensor_GetFd(whole, &fd));
    WELL(OH_NNTensor_GetSize(whole, &size));
    WELL(OH_NNTensor_GetOffset(whole, &offset));
    CHECK(fd >= 0 && size == 8192 && offset == 0);
    CHECK(OH_NNTensor_CreateWithFd(0, desc, -1, 16, 0) == NULL);
    CHECK(OH_NNTensor_CreateWithFd(0, desc, fd, 0, 0) == NULL);
    CHECK(OH_NNTensor_CreateWithFd(0, desc, fd, 64 + 15, 64) == NULL);
    CHECK(OH_NNTensor_CreateWithSize(0, desc, 15) == NULL);
    NN_Tensor *part = OH_NNTensor_CreateWithFd(0, desc, fd, 64 + 16, 64);
    CHECK(part != NULL);
    WELL(OH_NNTensor_GetOffset(part, &offset));
    CHECK(offset == 64);
    memcpy((char *)OH_NNTensor_GetDataBuffer(whole) + 64, data, sizeof data);
    CHECK(holds(part, data, 4));
    /* It is the device's memory as well, not a copy for the host. */
    float elements[4] = {0, 0, 0, 0};
    DONE(udo_tensor_read(part->tensor, elements, sizeof elements));
    CHECK(memcmp(elements, data, sizeof data) == 0);
    WELL(OH_NNTensor_Destroy(&whole));
    CHECK(holds(part, data, 4));
    WELL(OH_NNTensor_Destroy(&part));
    WELL(OH_NNTensorDesc_Destroy(&desc));
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;
static int ends;

static void on_done(void *user, OH_NN_ReturnCode code, void *outputs[], int32_t count) {
    const float wanted[4] = {2, 0, 0, 1};
    pthread_mutex_lock(&lock);
    CHECK(user == &ends && code == OH_NN_SUCCESS && count == 1);
    CHECK(holds((const NN_Tensor *)outputs[0], wanted, 4));
    ends++;
    pthread_cond_signal(&told);
    pthread_mutex_unlock(&lock);
}

/* What open NNRt refuses. */
static void run_beside(void) {
    const int32_t four[2] = {1, 4};
    const float a[4] = {1, -2, 3, 0.5f}, b[4] = {1, 1, -4, 0.5f};
    OH_NNModel *model = add_relu(four, 2);
    OH_NNExecutor *executor = build(model, 0);
    OH_NNModel_Destroy(&model);
    NN_Tensor *inputs[2] = {tensor(0, four, 2, a, 4), tensor(0, four, 2, b, 4)}, *outputs[1] = {tensor(0, four, 2, NULL, 0)};
    IS(OH_NNExecutor_RunAsync(executor, inputs, 2, outputs, 1, 0, &ends), OH_NN_OPERATION_FORBIDDEN);
    WELL(OH_NNExecutor_SetOnRunDone(executor, on_done));
    for (int round = 0; round < 100; round++) {
        memset(OH_NNTensor_GetDataBuffer(outputs[0]), 0xff, sizeof a);
        WELL(OH_NNExecutor_RunAsync(executor, inputs, 2, outputs, 1, 60000, &ends));
        pthread_mutex_lock(&lock);
        while (ends == round) pthread_cond_wait(&told, &lock);
        CHECK(ends == round + 1);
        pthread_mutex_unlock(&lock);
    }
    for (int j = 0; j < 2; j++) WELL(OH_NNTensor_Destroy(&inputs[j]));
    WELL(OH_NNTensor_Destroy(&outputs[0]));
    OH_NNExecutor_Destroy(&executor);
}

/* The calls from before there were tensors, over a graph with an open dimension. */
static void run_as_before(void) {
    const int32_t open[2] = {-1, 4}, one[2] = {1, 4}, two[2] = {2, 4}, wrong[2] = {1, 3}, single[1] = {1};
    const float a[8] = {1, -2, 3, 0.5f, 1, 1, 1, 1}, b[8] = {1, 1, -4, 0.5f, 1, 2, 3, -4}, wanted[8] = {2, 0, 0, 1, 2, 3, 4, 0};
    const int8_t relu = OH_NN_FUSED_RELU;
    const OH_NN_Tensor plain = {OH_NN_FLOAT32, 2, open, NULL, OH_NN_TENSOR}, of_one = {OH_NN_FLOAT32, 2, one, NULL, OH_NN_TENSOR};
    const OH_NN_Tensor of_two = {OH_NN_FLOAT32, 2, two, NULL, OH_NN_TENSOR}, other = {OH_NN_FLOAT32, 2, wrong, NULL, OH_NN_TENSOR};
    const OH_NN_Tensor activation = {OH_NN_INT8, 1, single, NULL, OH_NN_ADD_ACTIVATIONTYPE};
    uint32_t inputs[2] = {0, 1}, parameters[1] = {2}, outputs[1] = {3};
    OH_NN_UInt32Array of_inputs = array(inputs, 2), of_parameters = array(parameters, 1), of_outputs = array(outputs, 1);
    OH_NNModel *model = OH_NNModel_Construct();
    WELL(OH_NNModel_AddTensor(model, &plain));
    WELL(OH_NNModel_AddTensor(model, &plain));
    WELL(OH_NNModel_AddTensor(model, &activation));
    /* What is refused for its quantization leaves no tensor: the next one is the fourth. */
    const uint32_t eight[3] = {8, 8, 8}, four[1] = {4};
    const double scales[3] = {0.5, 0.25, 0.125}, no_scale[1] = {0};
    const int32_t zeros[3] = {0, 0, 0}, fixed[2] = {2, 4};
    const OH_NN_QuantParam of_zero = {1, eight, no_scale, zeros}, of_four = {1, four, scales, zeros}, too_many = {3, eight, scales, zeros};
    const OH_NN_QuantParam without = {1, eight, NULL, zeros};
    const OH_NN_QuantParam *bad[4] = {&of_zero, &of_four, &too_many, &without};
    for (int i = 0; i < 4; i++) {
        const OH_NN_Tensor refused = {OH_NN_INT8, 2, fixed, bad[i], OH_NN_TENSOR};
        IS(OH_NNModel_AddTensor(model, &refused), OH_NN_INVALID_PARAMETER);
    }
    IS(OH_NNModel_SetTensorType(model, 3, OH_NN_TENSOR), OH_NN_INVALID_PARAMETER);
    WELL(OH_NNModel_AddTensor(model, &plain));
    IS(OH_NNModel_AddTensor(model, NULL), OH_NN_INVALID_PARAMETER);
    WELL(OH_NNModel_SetTensorData(model, 2, &relu, 1));
    WELL(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, &of_parameters, &of_inputs, &of_outputs));
    WELL(OH_NNModel_SpecifyInputsAndOutputs(model, &of_inputs, &of_outputs));
    WELL(OH_NNModel_Finish(model));
    IS(OH_NNModel_AddTensor(model, &plain), OH_NN_OPERATION_FORBIDDEN);
    OH_NNExecutor *executor = build(model, 0);
    OH_NNModel_Destroy(&model);
    float found[8];
    IS(OH_NNExecutor_Run(executor), OH_NN_OPERATION_FORBIDDEN);
    IS(OH_NNExecutor_SetInput(executor, 2, &of_two, a, sizeof a), OH_NN_INVALID_PARAMETER);
    IS(OH_NNExecutor_SetInput(executor, 0, &other, a, 12), OH_NN_INVALID_PARAMETER);
    IS(OH_NNExecutor_SetInput(executor, 0, &plain, a, sizeof a), OH_NN_INVALID_PARAMETER);
    IS(OH_NNExecutor_SetInput(executor, 0, &of_two, a, sizeof a - 1), OH_NN_INVALID_PARAMETER);
    WELL(OH_NNExecutor_SetInput(executor, 0, &of_two, a, sizeof a));
    WELL(OH_NNExecutor_SetInput(executor, 1, &of_two, b, sizeof b));
    IS(OH_NNExecutor_Run(executor), OH_NN_OPERATION_FORBIDDEN);
    WELL(OH_NNExecutor_SetOutput(executor, 0, found, sizeof found - 1));
    IS(OH_NNExecutor_Run(executor), OH_NN_INVALID_PARAMETER);
    WELL(OH_NNExecutor_SetOutput(executor, 0, found, sizeof found));
    WELL(OH_NNExecutor_Run(executor));
    CHECK(memcmp(found, wanted, sizeof wanted) == 0);
    /* Memory of the device, beside memory of the host. */
    OH_NN_Memory *in = OH_NNExecutor_AllocateInputMemory(executor, 0, 16), *out = OH_NNExecutor_AllocateOutputMemory(executor, 0, 32);
    CHECK(in != NULL && out != NULL && in->length == 16 && OH_NNExecutor_AllocateInputMemory(executor, 2, 16) == NULL);
    CHECK(OH_NNExecutor_AllocateInputMemory(executor, 0, 0) == NULL && OH_NNExecutor_AllocateOutputMemory(NULL, 0, 16) == NULL);
    memcpy(in->data, a + 4, 16);
    IS(OH_NNExecutor_SetInputWithMemory(executor, 0, &of_two, in), OH_NN_INVALID_PARAMETER);
    IS(OH_NNExecutor_SetInputWithMemory(executor, 1, &of_one, in), OH_NN_INVALID_PARAMETER);
    IS(OH_NNExecutor_SetInputWithMemory(executor, 0, &of_one, NULL), OH_NN_INVALID_PARAMETER);
    WELL(OH_NNExecutor_SetInputWithMemory(executor, 0, &of_one, in));
    WELL(OH_NNExecutor_SetInput(executor, 1, &of_one, b + 4, 16));
    WELL(OH_NNExecutor_SetOutputWithMemory(executor, 0, out));
    WELL(OH_NNExecutor_Run(executor));
    CHECK(memcmp(out->data, wanted + 4, 16) == 0);
    uint32_t rank = 0;
    int32_t *shape = NULL;
    WELL(OH_NNExecutor_GetOutputShape(executor, 0, &shape, &rank));
    CHECK(rank == 2 && shape[0] == 1);
    /* A device that is lost refuses runs until it is back. */
    DONE(udo_runtime_lose_device(nnrt_compat_devices()->runtime, nnrt_compat_device(0)));
    IS(OH_NNExecutor_Run(executor), OH_NN_CONNECTION_EXCEPTION);
    DONE(udo_runtime_reset_device(nnrt_compat_devices()->runtime, nnrt_compat_device(0)));
    WELL(OH_NNExecutor_Run(executor));
    CHECK(memcmp(out->data, wanted + 4, 16) == 0);
    OH_NNExecutor_DestroyInputMemory(executor, 0, &in);
    OH_NNExecutor_DestroyInputMemory(executor, 0, &in);
    CHECK(in == NULL && out != NULL);
    OH_NNExecutor_DestroyOutputMemory(executor, 1, &out);
    CHECK(out != NULL);
    OH_NNExecutor_Destroy(&executor);
}

typedef struct {
    OH_NNExecutor *executor;
    NN_Tensor *inputs[2], *outputs[1];
} Together;

static void *run_often(void *of) {
    Together *mine = (Together *)of;
    for (int i = 0; i < 200; i++) WELL(OH_NNExecutor_RunSync(mine->executor, mine->inputs, 2, mine->outputs, 1));
    return NULL;
}

/* Threads that share an executor wait for each other. */
static void run_together(void) {
    const int32_t four[2] = {1, 4};
    const float a[4] = {1, -2, 3, 0.5f}, b[4] = {1, 1, -4, 0.5f}, wanted[4] = {2, 0, 0, 1};
    OH_NNModel *model = add_relu(four, 2);
    OH_NNExecutor *executor = build(model, 0);
    OH_NNModel_Destroy(&model);
    pthread_t threads[4];
    Together all[4];
    for (int i = 0; i < 4; i++) {
        all[i].executor = executor;
        all[i].inputs[0] = tensor(0, four, 2, a, 4);
        all[i].inputs[1] = tensor(0, four, 2, b, 4);
        all[i].outputs[0] = tensor(0, four, 2, NULL, 0);
        CHECK(pthread_create(&threads[i], NULL, run_often, &all[i]) == 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        CHECK(holds(all[i].outputs[0], wanted, 4));
        for (int j = 0; j < 2; j++) WELL(OH_NNTensor_Destroy(&all[i].inputs[j]));
        WELL(OH_NNTensor_Destroy(&all[i].outputs[0]));
    }
    OH_NNExecutor_Destroy(&executor);
}

/* Models of files and of bytes. */
static void run_offline(const char *path) {
    OH_NNCompilation *compilation = OH_NNCompilation_ConstructWithOfflineModelFile("/nowhere.onnx");
    IS(OH_NNCompilation_Build(compilation), OH_NN_INVALID_PATH);
    OH_NNCompilation_Destroy(&compilation);
    compilation = OH_NNCompilation_ConstructWithOfflineModelBuffer("no model", 8);
    IS(OH_NNCompilation_Build(compilation), OH_NN_INVALID_FILE);
    OH_NNCompilation_Destroy(&compilation);
    compilation = OH_NNCompilation_ConstructWithOfflineModelFile(path);
    WELL(OH_NNCompilation_Build(compilation));
    OH_NNExecutor *executor = OH_NNExecutor_Construct(compilation);
    OH_NNCompilation_Destroy(&compilation);
    size_t inputs = 0, outputs = 0;
    WELL(OH_NNExecutor_GetInputCount(executor, &inputs));
    WELL(OH_NNExecutor_GetOutputCount(executor, &outputs));
    CHECK(inputs == 2 && outputs == 2);
    NN_TensorDesc *desc = OH_NNExecutor_CreateOutputTensorDesc(executor, 1);
    const char *name = NULL;
    OH_NN_DataType dtype = OH_NN_UNKNOWN;
    WELL(OH_NNTensorDesc_GetName(desc, &name));
    WELL(OH_NNTensorDesc_GetDataType(desc, &dtype));
    CHECK(strcmp(name, "p") == 0 && dtype == OH_NN_FLOAT32);
    WELL(OH_NNTensorDesc_Destroy(&desc));
    OH_NNExecutor_Destroy(&executor);
}

/* An executor may go while its run is at work, and so may tensors: they are there until the program was told. */
static void on_end(void *user, OH_NN_ReturnCode code, void *outputs[], int32_t count) {
    CHECK(code == OH_NN_SUCCESS && count == 1);
    const float *made = (const float *)OH_NNTensor_GetDataBuffer((const NN_Tensor *)outputs[0]);
    CHECK(made[0] == 0 && made[256 * 1024 - 1] == 0);
    pthread_mutex_lock(&lock);
    *(int *)user += 1;
    pthread_cond_broadcast(&told);
    pthread_mutex_unlock(&lock);
}

static void destroy_at_work(void) {
    const int32_t large[2] = {256, 1024};
    const size_t count = 256 * 1024;
    float *elements = (float *)calloc(count, sizeof *elements);
    CHECK(elements != NULL);
    OH_NNModel *model = add_relu(large, 2);
    OH_NNExecutor *executor = build(model, 0);
    for (int round = 0; round < 20; round++) {
        NN_Tensor *inputs[2] = {tensor(0, large, 2, elements, count), tensor(0, large, 2, elements, count)};
        NN_Tensor *outputs[1] = {tensor(0, large, 2, NULL, 0)};
        NN_Tensor *kept = outputs[0];
        WELL(OH_NNExecutor_SetOnRunDone(executor, on_end));
        pthread_mutex_lock(&lock);
        const int before = ends;
        pthread_mutex_unlock(&lock);
        WELL(OH_NNExecutor_RunAsync(executor, inputs, 2, outputs, 1, 60000, &ends));
        OH_NNExecutor_Destroy(&executor);
        CHECK(executor == NULL);
        for (int i = 0; i < 2; i++) WELL(OH_NNTensor_Destroy(&inputs[i]));
        if (round % 2 == 0) WELL(OH_NNTensor_Destroy(&outputs[0]));
        pthread_mutex_lock(&lock);
        while (ends == before) pthread_cond_wait(&told, &lock);
        CHECK(ends == before + 1);
        pthread_mutex_unlock(&lock);
        if (round % 2 == 1) WELL(OH_NNTensor_Destroy(&kept));
        executor = build(model, 0);
    }
    OH_NNExecutor_Destroy(&executor);
    OH_NNModel_Destroy(&model);
    free(elements);
}

/* A process that was forked has devices of its own; an executor from before is refused, though another thread may have had its lock. */
static void fork_off(void) {
    const int32_t four[2] = {1, 4};
    const float a[4] = {1, -2, 3, 0.5f}, b[4] = {1, 1, -4, 0.5f}, wanted[4] = {2, 0, 0, 1};
    OH_NNModel *model = add_relu(four, 2);
    OH_NNExecutor *before = build(model, 0);
    OH_NNModel_Destroy(&model);
    NN_Tensor *inputs[2] = {tensor(0, four, 2, a, 4), tensor(0, four, 2, b, 4)}, *outputs[1] = {tensor(0, four, 2, NULL, 0)};
    WELL(OH_NNExecutor_RunSync(before, inputs, 2, outputs, 1));
    pthread_mutex_lock(&before->lock);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(60);
        IS(OH_NNExecutor_RunSync(before, inputs, 2, outputs, 1), OH_NN_OPERATION_FORBIDDEN);
        IS(OH_NNExecutor_Run(before), OH_NN_OPERATION_FORBIDDEN);
        OH_NNModel *own = add_relu(four, 2);
        OH_NNExecutor *executor = build(own, 0);
        NN_Tensor *from[2] = {tensor(0, four, 2, a, 4), tensor(0, four, 2, b, 4)}, *to[1] = {tensor(0, four, 2, NULL, 0)};
        WELL(OH_NNExecutor_RunSync(executor, from, 2, to, 1));
        CHECK(holds(to[0], wanted, 4));
        OH_NNExecutor_Destroy(&before);
        OH_NNExecutor_Destroy(&executor);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pthread_mutex_unlock(&before->lock);
    WELL(OH_NNExecutor_RunSync(before, inputs, 2, outputs, 1));
    CHECK(holds(outputs[0], wanted, 4));
    for (int i = 0; i < 2; i++) WELL(OH_NNTensor_Destroy(&inputs[i]));
    WELL(OH_NNTensor_Destroy(&outputs[0]));
    OH_NNExecutor_Destroy(&before);
}

/* An offline model of several stages is one executor, each run of which takes the stage for its shapes. */
static void run_stages(const char *path) {
    static const float x[12] = {1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6};
    const int32_t shapes[3][2] = {{2, 2}, {4, 3}, {3, 4}};
    OH_NNCompilation *compilation = OH_NNCompilation_ConstructWithOfflineModelFile(path);
    WELL(OH_NNCompilation_Build(compilation));
    IS(OH_NNCompilation_Build(compilation), OH_NN_INVALID_PARAMETER);
    IS(OH_NNCompilation_SetDevice(compilation, 0), OH_NN_OPERATION_FORBIDDEN);
    char bytes[8];
    size_t size = 0, *least = NULL, *most = NULL, rank = 0;
    IS(OH_NNCompilation_ExportCacheToBuffer(compilation, bytes, sizeof bytes, &size), OH_NN_UNSUPPORTED);
    OH_NNExecutor *executor = OH_NNExecutor_Construct(compilation);
    CHECK(executor != NULL);
    OH_NNCompilation_Destroy(&compilation);
    NN_TensorDesc *desc = OH_NNExecutor_CreateInputTensorDesc(executor, 0);
    int32_t *dims = NULL;
    WELL(OH_NNTensorDesc_GetShape(desc, &dims, &rank));
    CHECK(rank == 2 && dims[0] == -1 && dims[1] == -1);
    WELL(OH_NNTensorDesc_Destroy(&desc));
    WELL(OH_NNExecutor_GetInputDimRange(executor, 0, &least, &most, &rank));
    CHECK(rank == 2 && least[0] == 2 && most[0] == 4 && least[1] == 2 && most[1] == 3);
    for (int i = 0; i < 3; i++) {
        const size_t count = (size_t)(shapes[i][0] * shapes[i][1]);
        NN_Tensor *in[1] = {tensor(0, shapes[i], 2, x, count)}, *out[1] = {tensor(0, shapes[i], 2, NULL, 0)};
        IS(OH_NNExecutor_RunSync(executor, in, 1, out, 1), i < 2 ? OH_NN_SUCCESS : OH_NN_INVALID_PARAMETER);
        const float *found = (const float *)OH_NNTensor_GetDataBuffer(out[0]);
        for (size_t j = 0; i < 2 && j < count; j++) CHECK(found[j] == (x[j] > 0 ? x[j] : 0));
        WELL(OH_NNTensor_Destroy(&in[0]));
        WELL(OH_NNTensor_Destroy(&out[0]));
    }
    OH_NNExecutor_Destroy(&executor);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    CHECK(OH_NN_OPS_LOGICAL_AND == 81 && OH_NN_OPS_LOGICAL_NOT == 82 && OH_NN_OPS_LOGICAL_OR == 89);
    const char *said = getenv("UDO_RANDOM_RUNS");
    const int rounds = said == NULL ? 1000 : atoi(said);
    run_everywhere(rounds);
    run_as_before();
    run_together();
    run_open();
    refuse_states();
    run_quantized();
    run_integers();
    share();
    run_beside();
    destroy_at_work();
    fork_off();
    run_offline(argv[1]);
    run_stages(argv[2]);
    keep();
    return 0;
}
