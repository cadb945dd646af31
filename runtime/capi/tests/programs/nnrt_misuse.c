/* N05 and N06 on the shim of NNRt: each argument that is NULL, each number out of its list, and what does not go together. It is C
 * and C++. */
#include "check.h"
#include "nnrt_compat.h"

#define IS(call, code) is(#call, __LINE__, call, code)
#define WELL(call) IS(call, OH_NN_SUCCESS)
#define WRONG(call) IS(call, OH_NN_INVALID_PARAMETER)

static void is(const char *call, int line, OH_NN_ReturnCode found, OH_NN_ReturnCode wanted) {
    if (found != wanted) {
        fprintf(stderr, "line %d: %s: code %d, expected %d\n", line, call, (int)found, (int)wanted);
        exit(1);
    }
}

static const int32_t FOUR[2] = {1, 4};

static NN_TensorDesc *describe(OH_NN_DataType dtype, const int32_t *shape, size_t rank) {
    NN_TensorDesc *desc = OH_NNTensorDesc_Create();
    CHECK(desc != NULL);
    WELL(OH_NNTensorDesc_SetDataType(desc, dtype));
    WELL(OH_NNTensorDesc_SetShape(desc, shape, rank));
    return desc;
}

static void add(OH_NNModel *model, OH_NN_DataType dtype, const int32_t *shape, size_t rank) {
    NN_TensorDesc *desc = describe(dtype, shape, rank);
    WELL(OH_NNModel_AddTensorToModel(model, desc));
    WELL(OH_NNTensorDesc_Destroy(&desc));
}

static void devices(void) {
    const size_t *ids = NULL;
    const char *name = NULL, *full = "full";
    uint32_t count = 0;
    OH_NN_DeviceType type = OH_NN_OTHERS;
    WRONG(OH_NNDevice_GetAllDevicesID(NULL, &count));
    WRONG(OH_NNDevice_GetAllDevicesID(&ids, NULL));
    CHECK(ids == NULL && count == 0);
    WELL(OH_NNDevice_GetAllDevicesID(&ids, &count));
    WRONG(OH_NNDevice_GetName(0, NULL));
    WRONG(OH_NNDevice_GetName(0, &full));
    IS(OH_NNDevice_GetName(99, &name), OH_NN_FAILED);
    CHECK(name == NULL);
    WRONG(OH_NNDevice_GetType(0, NULL));
    WRONG(OH_NNDevice_GetType(99, &type));
    CHECK(type == OH_NN_OTHERS);
}

static void descriptions(void) {
    NN_TensorDesc *desc = OH_NNTensorDesc_Create(), *none = NULL;
    const char *name = NULL, *full = "full";
    OH_NN_DataType dtype = OH_NN_BOOL;
    OH_NN_Format format = OH_NN_FORMAT_ND;
    int32_t *shape = NULL, *taken = (int32_t *)1;
    size_t rank = 7, count = 7;
    const int32_t many[11] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    WRONG(OH_NNTensorDesc_Destroy(NULL));
    WRONG(OH_NNTensorDesc_Destroy(&none));
    WRONG(OH_NNTensorDesc_SetName(NULL, "x"));
    WRONG(OH_NNTensorDesc_SetName(desc, NULL));
    WRONG(OH_NNTensorDesc_GetName(NULL, &name));
    WRONG(OH_NNTensorDesc_GetName(desc, NULL));
    WRONG(OH_NNTensorDesc_GetName(desc, &full));
    WRONG(OH_NNTensorDesc_SetDataType(NULL, OH_NN_INT8));
    WRONG(OH_NNTensorDesc_SetDataType(desc, (OH_NN_DataType)13));
    WRONG(OH_NNTensorDesc_GetDataType(NULL, &dtype));
    WRONG(OH_NNTensorDesc_GetDataType(desc, NULL));
    WRONG(OH_NNTensorDesc_SetShape(NULL, FOUR, 2));
    WRONG(OH_NNTensorDesc_SetShape(desc, NULL, 2));
    WRONG(OH_NNTensorDesc_SetShape(desc, FOUR, 0));
    WRONG(OH_NNTensorDesc_SetShape(desc, many, 11));
    WRONG(OH_NNTensorDesc_GetShape(desc, &shape, &rank));
    WELL(OH_NNTensorDesc_SetShape(desc, FOUR, 2));
    WRONG(OH_NNTensorDesc_GetShape(NULL, &shape, &rank));
    WRONG(OH_NNTensorDesc_GetShape(desc, NULL, &rank));
    WRONG(OH_NNTensorDesc_GetShape(desc, &taken, &rank));
    WRONG(OH_NNTensorDesc_GetShape(desc, &shape, NULL));
    WRONG(OH_NNTensorDesc_SetFormat(NULL, OH_NN_FORMAT_ND));
    WRONG(OH_NNTensorDesc_SetFormat(desc, (OH_NN_Format)4));
    WRONG(OH_NNTensorDesc_GetFormat(NULL, &format));
    WRONG(OH_NNTensorDesc_GetFormat(desc, NULL));
    WRONG(OH_NNTensorDesc_GetElementCount(NULL, &count));
    WRONG(OH_NNTensorDesc_GetElementCount(desc, NULL));
    WRONG(OH_NNTensorDesc_GetByteSize(NULL, &count));
    WRONG(OH_NNTensorDesc_GetByteSize(desc, NULL));
    CHECK(name == NULL && shape == NULL && rank == 7 && count == 7 && dtype == OH_NN_BOOL && format == OH_NN_FORMAT_ND);
    /* N21: elements can be counted before a type is set, bytes can not. */
    WELL(OH_NNTensorDesc_GetElementCount(desc, &count));
    CHECK(count == 4);
    WRONG(OH_NNTensorDesc_GetByteSize(desc, &count));
    CHECK(count == 0);
    WELL(OH_NNTensorDesc_Destroy(&desc));
    /* The count of elements overflows. */
    const int32_t large[4] = {INT32_MAX, INT32_MAX, INT32_MAX, 2};
    desc = describe(OH_NN_FLOAT32, large, 4);
    CHECK(OH_NNTensorDesc_GetElementCount(desc, &count) != OH_NN_SUCCESS && count == 0);
    CHECK(OH_NNTensor_Create(0, desc) == NULL);
    WELL(OH_NNTensorDesc_Destroy(&desc));
}

static void quantizations(void) {
    const double scales[2] = {0.5, 1};
    const int32_t zeros[2] = {0, 0};
    const uint32_t eight[2] = {8, 8}, four[1] = {4};
    NN_QuantParam *of = OH_NNQuantParam_Create(), *none = NULL;
    WRONG(OH_NNQuantParam_Destroy(NULL));
    WRONG(OH_NNQuantParam_Destroy(&none));
    WRONG(OH_NNQuantParam_SetScales(NULL, scales, 1));
    WRONG(OH_NNQuantParam_SetScales(of, NULL, 1));
    WRONG(OH_NNQuantParam_SetScales(of, scales, 0));
    WRONG(OH_NNQuantParam_SetZeroPoints(NULL, zeros, 1));
    WRONG(OH_NNQuantParam_SetZeroPoints(of, NULL, 1));
    WRONG(OH_NNQuantParam_SetZeroPoints(of, zeros, 0));
    WRONG(OH_NNQuantParam_SetNumBits(NULL, eight, 1));
    WRONG(OH_NNQuantParam_SetNumBits(of, NULL, 1));
    WRONG(OH_NNQuantParam_SetNumBits(of, eight, 0));
    OH_NNModel *model = OH_NNModel_Construct();
    add(model, OH_NN_INT8, FOUR, 2);
    WRONG(OH_NNModel_SetTensorQuantParams(model, 0, NULL));
    WRONG(OH_NNModel_SetTensorQuantParams(model, 0, of));
    WELL(OH_NNQuantParam_SetScales(of, scales, 1));
    WELL(OH_NNQuantParam_SetZeroPoints(of, zeros, 2));
    WELL(OH_NNQuantParam_SetNumBits(of, eight, 1));
    WRONG(OH_NNModel_SetTensorQuantParams(model, 0, of));
    WELL(OH_NNQuantParam_SetZeroPoints(of, zeros, 1));
    WELL(OH_NNQuantParam_SetNumBits(of, four, 1));
    WRONG(OH_NNModel_SetTensorQuantParams(model, 0, of));
    WELL(OH_NNQuantParam_SetNumBits(of, eight, 1));
    WRONG(OH_NNModel_SetTensorQuantParams(NULL, 0, of));
    WRONG(OH_NNModel_SetTensorQuantParams(model, 1, of));
    WELL(OH_NNModel_SetTensorQuantParams(model, 0, of));
    WELL(OH_NNQuantParam_Destroy(&of));
    OH_NNModel_Destroy(&model);
}

static OH_NN_UInt32Array array(uint32_t *data, uint32_t size) {
    OH_NN_UInt32Array made = {data, size};
    return made;
}

/* N06: what an operation refuses leaves the graph as it was, which finishes without it. */
static OH_NNModel *graph(void) {
    static const int32_t one[1] = {1}, two[1] = {2};
    uint32_t both[2] = {0, 1}, self[2] = {0, 3}, far[1] = {99}, y = 3, z = 4, relu = 2, other = 5, plain = 6, text = 7;
    const int8_t activation = OH_NN_FUSED_RELU, bad = 7;
    const float number = 1;
    const int8_t twice[2] = {0, 0};
    OH_NN_UInt32Array of_both = array(both, 2), of_self = array(self, 2), of_far = array(far, 1), of_y = array(&y, 1), of_z = array(&z, 1);
    OH_NN_UInt32Array none = array(NULL, 0), broken = array(NULL, 1), of_relu = array(&relu, 1), of_other = array(&other, 1);
    OH_NN_UInt32Array of_plain = array(&plain, 1), of_text = array(&text, 1), of_x = array(both, 1);
    OH_NNModel *model = OH_NNModel_Construct();
    add(model, OH_NN_FLOAT32, FOUR, 2);
    add(model, OH_NN_FLOAT32, FOUR, 2);
    add(model, OH_NN_INT8, one, 1);
    add(model, OH_NN_FLOAT32, FOUR, 2);
    add(model, OH_NN_FLOAT32, FOUR, 2);
    add(model, OH_NN_INT8, one, 1);
    add(model, OH_NN_FLOAT32, one, 1);
    add(model, OH_NN_INT8, two, 1);
    WRONG(OH_NNModel_AddTensorToModel(NULL, NULL));
    WRONG(OH_NNModel_AddTensorToModel(model, NULL));
    NN_TensorDesc *unset = OH_NNTensorDesc_Create();
    WRONG(OH_NNModel_AddTensorToModel(model, unset));
    WELL(OH_NNTensorDesc_Destroy(&unset));
    WRONG(OH_NNModel_SetTensorData(NULL, 2, &activation, 1));
    WRONG(OH_NNModel_SetTensorData(model, 2, NULL, 1));
    WRONG(OH_NNModel_SetTensorData(model, 2, &activation, 0));
    WRONG(OH_NNModel_SetTensorType(NULL, 2, OH_NN_TENSOR));
    WRONG(OH_NNModel_SetTensorType(model, 99, OH_NN_TENSOR));
    WELL(OH_NNModel_SetTensorType(model, 2, OH_NN_ADD_ACTIVATIONTYPE));
    /* Without elements it says nothing. */
    WRONG(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, &of_relu, &of_both, &of_y));
    WELL(OH_NNModel_SetTensorData(model, 2, &activation, 1));
    WELL(OH_NNModel_SetTensorType(model, 5, OH_NN_ADD_ACTIVATIONTYPE));
    WELL(OH_NNModel_SetTensorData(model, 5, &bad, 1));
    WELL(OH_NNModel_SetTensorType(model, 6, OH_NN_ADD_ACTIVATIONTYPE));
    WELL(OH_NNModel_SetTensorData(model, 6, &number, 4));
    WELL(OH_NNModel_SetTensorType(model, 7, OH_NN_ADD_ACTIVATIONTYPE));
    WELL(OH_NNModel_SetTensorData(model, 7, twice, 2));
    WRONG(OH_NNModel_AddOperation(NULL, OH_NN_OPS_ADD, &none, &of_both, &of_y));
    WRONG(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, NULL, &of_both, &of_y));
    WRONG(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, &none, NULL, &of_y));
    WRONG(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, &none, &of_both, NULL));
    WRONG(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, &broken, &of_both, &of_y));
    WRONG(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, &none, &broken, &of_y));
    WRONG(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, &none, &none, &of_y));
    WRONG(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, &none, &of_both, &none));
    WRONG(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, &none, &of_both, &of_far));
    WRONG(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, &none, &of_far, &of_y));
    WRONG(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, &of_far, &of_both, &of_y));
    WRONG(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, &none, &of_self, &of_y));
    WRONG(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, &none, &of_both, &of_both));
    WRONG(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, &of_plain, &of_both, &of_y));
    WRONG(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, &of_text, &of_both, &of_y));
    WRONG(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, &of_other, &of_both, &of_y));
    WRONG(OH_NNModel_AddOperation(model, OH_NN_OPS_SUB, &of_relu, &of_both, &of_y));
    WRONG(OH_NNModel_AddOperation(model, (OH_NN_OperationType)0, &none, &of_both, &of_y));
    WRONG(OH_NNModel_AddOperation(model, (OH_NN_OperationType)-1, &none, &of_both, &of_y));
    WELL(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, &of_relu, &of_both, &of_y));
    /* Somebody else makes it. */
    WRONG(OH_NNModel_AddOperation(model, OH_NN_OPS_ADD, &none, &of_both, &of_y));
    WRONG(OH_NNModel_SpecifyInputsAndOutputs(NULL, &of_both, &of_y));
    WRONG(OH_NNModel_SpecifyInputsAndOutputs(model, NULL, &of_y));
    WRONG(OH_NNModel_SpecifyInputsAndOutputs(model, &of_both, NULL));
    WRONG(OH_NNModel_SpecifyInputsAndOutputs(model, &of_far, &of_y));
    WRONG(OH_NNModel_SpecifyInputsAndOutputs(model, &of_both, &none));
    WRONG(OH_NNModel_SpecifyInputsAndOutputs(model, &of_relu, &of_y));
    WRONG(OH_NNModel_Finish(NULL));
    WELL(OH_NNModel_SpecifyInputsAndOutputs(model, &of_both, &of_y));
    WELL(OH_NNModel_Finish(model));
    (void)of_z;
    (void)of_x;
    const bool *supported = NULL, *full = (const bool *)1;
    uint32_t count = 0;
    WRONG(OH_NNModel_GetAvailableOperations(NULL, 0, &supported, &count));
    WRONG(OH_NNModel_GetAvailableOperations(model, 0, NULL, &count));
    WRONG(OH_NNModel_GetAvailableOperations(model, 0, &full, &count));
    WRONG(OH_NNModel_GetAvailableOperations(model, 0, &supported, NULL));
    WELL(OH_NNModel_GetAvailableOperations(model, 0, &supported, &count));
    CHECK(count == 1 && supported[0]);
    return model;
}

static OH_NNExecutor *compile(const OH_NNModel *model) {
    OH_NNCompilation *none = NULL;
    CHECK(OH_NNCompilation_Construct(NULL) == NULL && OH_NNCompilation_ConstructWithOfflineModelFile(NULL) == NULL);
    CHECK(OH_NNCompilation_ConstructWithOfflineModelBuffer(NULL, 8) == NULL && OH_NNCompilation_ConstructWithOfflineModelBuffer("x", 0) == NULL);
    OH_NNCompilation_Destroy(NULL);
    OH_NNCompilation_Destroy(&none);
    OH_NNCompilation *of = OH_NNCompilation_Construct(model);
    WRONG(OH_NNCompilation_AddExtensionConfig(NULL, "threads", "1", 1));
    WRONG(OH_NNCompilation_AddExtensionConfig(of, NULL, "1", 1));
    WRONG(OH_NNCompilation_AddExtensionConfig(of, "", "1", 1));
    WRONG(OH_NNCompilation_AddExtensionConfig(of, "threads", NULL, 1));
    WRONG(OH_NNCompilation_AddExtensionConfig(of, "threads", "1", 0));
    WRONG(OH_NNCompilation_SetDevice(NULL, 0));
    WRONG(OH_NNCompilation_SetCache(NULL, "here", 1));
    WRONG(OH_NNCompilation_SetCache(of, NULL, 1));
    WRONG(OH_NNCompilation_SetPerformanceMode(NULL, OH_NN_PERFORMANCE_NONE));
    WRONG(OH_NNCompilation_SetPerformanceMode(of, (OH_NN_PerformanceMode)-1));
    WRONG(OH_NNCompilation_SetPriority(NULL, OH_NN_PRIORITY_NONE));
    WRONG(OH_NNCompilation_SetPriority(of, (OH_NN_Priority)-1));
    WRONG(OH_NNCompilation_EnableFloat16(NULL, false));
    WRONG(OH_NNCompilation_Build(NULL));
    WELL(OH_NNCompilation_Build(of));
    /* Built is built. */
    IS(OH_NNCompilation_AddExtensionConfig(of, "threads", "1", 1), OH_NN_OPERATION_FORBIDDEN);
    IS(OH_NNCompilation_SetPerformanceMode(of, OH_NN_PERFORMANCE_NONE), OH_NN_OPERATION_FORBIDDEN);
    IS(OH_NNCompilation_SetPriority(of, OH_NN_PRIORITY_LOW), OH_NN_OPERATION_FORBIDDEN);
    IS(OH_NNCompilation_EnableFloat16(of, false), OH_NN_OPERATION_FORBIDDEN);
    CHECK(OH_NNExecutor_Construct(NULL) == NULL);
    OH_NNExecutor *executor = OH_NNExecutor_Construct(of);
    CHECK(executor != NULL);
    OH_NNCompilation_Destroy(&of);
    return executor;
}

static void run(OH_NNExecutor *executor) {
    NN_TensorDesc *desc = describe(OH_NN_FLOAT32, FOUR, 2), *whole = describe(OH_NN_INT32, FOUR, 2), *unset = OH_NNTensorDesc_Create();
    NN_Tensor *none = NULL;
    int fd = 7;
    size_t size = 7, *least = NULL, *most = NULL;
    uint32_t rank = 7;
    int32_t *shape = NULL;
    CHECK(OH_NNTensor_Create(0, NULL) == NULL && OH_NNTensor_Create(99, desc) == NULL && OH_NNTensor_Create(0, unset) == NULL);
    CHECK(OH_NNTensor_CreateWithSize(0, NULL, 16) == NULL && OH_NNTensor_CreateWithSize(99, desc, 16) == NULL);
    CHECK(OH_NNTensor_CreateWithSize(0, desc, 0) == NULL && OH_NNTensor_CreateWithFd(0, NULL, 0, 16, 0) == NULL);
    CHECK(OH_NNTensor_CreateWithFd(99, desc, 0, 16, 0) == NULL && OH_NNTensor_CreateWithFd(0, desc, 999, 16, 0) == NULL);
    WRONG(OH_NNTensor_Destroy(NULL));
    WRONG(OH_NNTensor_Destroy(&none));
    CHECK(OH_NNTensor_GetTensorDesc(NULL) == NULL && OH_NNTensor_GetDataBuffer(NULL) == NULL);
    NN_Tensor *a = OH_NNTensor_Create(0, desc), *b = OH_NNTensor_Create(0, desc), *y = OH_NNTensor_Create(0, desc), *i = OH_NNTensor_Create(0, whole);
    WRONG(OH_NNTensor_GetFd(NULL, &fd));
    WRONG(OH_NNTensor_GetFd(a, NULL));
    WRONG(OH_NNTensor_GetSize(NULL, &size));
    WRONG(OH_NNTensor_GetSize(a, NULL));
    WRONG(OH_NNTensor_GetOffset(NULL, &size));
    WRONG(OH_NNTensor_GetOffset(a, NULL));
    WRONG(OH_NNExecutor_GetInputCount(NULL, &size));
    WRONG(OH_NNExecutor_GetInputCount(executor, NULL));
    WRONG(OH_NNExecutor_GetOutputCount(NULL, &size));
    WRONG(OH_NNExecutor_GetOutputCount(executor, NULL));
    WRONG(OH_NNExecutor_GetOutputShape(NULL, 0, &shape, &rank));
    WRONG(OH_NNExecutor_GetOutputShape(executor, 1, &shape, &rank));
    WRONG(OH_NNExecutor_GetOutputShape(executor, 0, NULL, &rank));
    WRONG(OH_NNExecutor_GetOutputShape(executor, 0, &shape, NULL));
    WRONG(OH_NNExecutor_GetInputDimRange(NULL, 0, &least, &most, &size));
    WRONG(OH_NNExecutor_GetInputDimRange(executor, 2, &least, &most, &size));
    WRONG(OH_NNExecutor_GetInputDimRange(executor, 0, NULL, &most, &size));
    WRONG(OH_NNExecutor_GetInputDimRange(executor, 0, &least, NULL, &size));
    WRONG(OH_NNExecutor_GetInputDimRange(executor, 0, &least, &most, NULL));
    CHECK(fd == 7 && size == 7 && rank == 7 && shape == NULL && least == NULL && most == NULL);
    CHECK(OH_NNExecutor_CreateInputTensorDesc(NULL, 0) == NULL && OH_NNExecutor_CreateInputTensorDesc(executor, 2) == NULL);
    CHECK(OH_NNExecutor_CreateOutputTensorDesc(NULL, 0) == NULL && OH_NNExecutor_CreateOutputTensorDesc(executor, 1) == NULL);
    WRONG(OH_NNExecutor_SetOnRunDone(NULL, NULL));
    WRONG(OH_NNExecutor_SetOnRunDone(executor, NULL));
    WRONG(OH_NNExecutor_SetOnServiceDied(executor, NULL));
    /* N23: what does not fit is refused, and the executor goes on. */
    const float ones[4] = {1, 1, 1, 1}, twos[4] = {2, 2, 2, 2};
    NN_Tensor *inputs[3] = {a, b, b}, *outputs[2] = {y, y}, *typed[2] = {a, i}, *missing[2] = {a, NULL}, *aliased[1] = {a}, *integers[1] = {i}, *nothing[1] = {NULL};
    memcpy(OH_NNTensor_GetDataBuffer(a), ones, sizeof ones);
    memcpy(OH_NNTensor_GetDataBuffer(b), ones, sizeof ones);
    WRONG(OH_NNExecutor_RunSync(NULL, inputs, 2, outputs, 1));
    WRONG(OH_NNExecutor_RunSync(executor, NULL, 2, outputs, 1));
    WRONG(OH_NNExecutor_RunSync(executor, inputs, 2, NULL, 1));
    WRONG(OH_NNExecutor_RunSync(executor, inputs, 0, outputs, 1));
    WRONG(OH_NNExecutor_RunSync(executor, inputs, 1, outputs, 1));
    WRONG(OH_NNExecutor_RunSync(executor, inputs, 3, outputs, 1));
    WRONG(OH_NNExecutor_RunSync(executor, inputs, 2, outputs, 0));
    WRONG(OH_NNExecutor_RunSync(executor, inputs, 2, outputs, 2));
    WRONG(OH_NNExecutor_RunSync(executor, missing, 2, outputs, 1));
    WRONG(OH_NNExecutor_RunSync(executor, inputs, 2, nothing, 1));
    WRONG(OH_NNExecutor_RunSync(executor, typed, 2, outputs, 1));
    WRONG(OH_NNExecutor_RunSync(executor, inputs, 2, integers, 1));
    WRONG(OH_NNExecutor_RunSync(executor, inputs, 2, aliased, 1));
    WRONG(OH_NNExecutor_RunAsync(executor, inputs, 2, outputs, 1, -1, NULL));
    WRONG(OH_NNExecutor_RunAsync(NULL, inputs, 2, outputs, 1, 0, NULL));
    WELL(OH_NNExecutor_RunSync(executor, inputs, 2, outputs, 1));
    CHECK(memcmp(OH_NNTensor_GetDataBuffer(y), twos, sizeof twos) == 0);
    /* The same tensor may be read twice. */
    NN_Tensor *same[2] = {a, a};
    WELL(OH_NNExecutor_RunSync(executor, same, 2, outputs, 1));
    /* A shape that is not the model's, in a tensor that has room. */
    const int32_t wrong[2] = {4, 1};
    WELL(OH_NNTensorDesc_SetShape(OH_NNTensor_GetTensorDesc(b), wrong, 2));
    WRONG(OH_NNExecutor_RunSync(executor, inputs, 2, outputs, 1));
    WELL(OH_NNTensorDesc_SetShape(OH_NNTensor_GetTensorDesc(b), FOUR, 2));
    WELL(OH_NNExecutor_RunSync(executor, inputs, 2, outputs, 1));
    OH_NN_Memory *lost = NULL;
    WRONG(OH_NNExecutor_SetInput(NULL, 0, NULL, NULL, 0));
    WRONG(OH_NNExecutor_SetOutput(executor, 0, NULL, 16));
    WRONG(OH_NNExecutor_SetOutput(executor, 1, &fd, 4));
    WRONG(OH_NNExecutor_SetOutput(executor, 0, &fd, 4));
    WRONG(OH_NNExecutor_Run(NULL));
    WRONG(OH_NNExecutor_SetOutputWithMemory(executor, 0, NULL));
    OH_NNExecutor_DestroyInputMemory(executor, 0, &lost);
    OH_NNExecutor_DestroyOutputMemory(NULL, 0, NULL);
    NN_Tensor *all[4] = {a, b, y, i};
    for (int at = 0; at < 4; at++) WELL(OH_NNTensor_Destroy(&all[at]));
    WELL(OH_NNTensorDesc_Destroy(&desc));
    WELL(OH_NNTensorDesc_Destroy(&whole));
    WELL(OH_NNTensorDesc_Destroy(&unset));
}

int main(void) {
    devices();
    descriptions();
    quantizations();
    OH_NNModel *model = graph();
    OH_NNExecutor *executor = compile(model);
    OH_NNModel_Destroy(&model);
    OH_NNModel_Destroy(NULL);
    run(executor);
    OH_NNExecutor_Destroy(&executor);
    OH_NNExecutor_Destroy(&executor);
    OH_NNExecutor_Destroy(NULL);
    return 0;
}
