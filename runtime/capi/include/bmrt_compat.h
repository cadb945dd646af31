/*
 * The functions of BMLIB and of BMRuntime's C interface on top of udo.h: programs written for them build against libudo.
 * C11 or C++17, on Linux.
 *
 * Everything is `static inline`, and state belongs to the returned handles. Device `n` is the device at index `n` of a
 * runtime: 0 is the CPU. Models are the files of `udo_networks_open_file`, with their networks and stages. The only network
 * of a file is also found by the file's name without folder and extension.
 *
 * docs/nnrt-bmruntime.md lists what is done where documents leave a choice. In short:
 * - Offsets of partial copies are in device memory; the length of bm_memcpy_d2d is in words of 4 bytes. Copies beyond the
 *   end of a memory are refused.
 * - Handles, runtimes and memories may be freed in any order.
 * - A launch waits if only the run determines the shape of an output, or if an earlier launch of the handle uses the same
 *   memory; a copy waits for such a launch too. bm_thread_sync waits for all launches of a handle.
 * - Memory and store modes that a program gives for outputs are checked. A second network of the same name is refused.
 * - BMRuntime has only a bool for errors. Define BMRT_COMPAT_LOG(text) to get the reasons elsewhere than on stderr. It also
 *   receives the operations of a network that run on the CPU because no device of the runtime supports them.
 * - Handles and runtimes from before a fork are refused in the forked process, which must request its own.
 */
#ifndef BMRT_COMPAT_H
#define BMRT_COMPAT_H

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "udo.h"

#ifndef BMRT_COMPAT_LOG
#define BMRT_COMPAT_LOG(text) ((void)fprintf(stderr, "bmrt: %s\n", text))
#endif

#define BM_MAX_DIMS_NUM 8

typedef enum {
    BM_SUCCESS = 0, BM_ERR_DEVNOTREADY = 1, BM_ERR_FAILURE = 2, BM_ERR_TIMEOUT = 3, BM_ERR_PARAM = 4, BM_ERR_NOMEM = 5,
    BM_ERR_DATA = 6, BM_ERR_BUSY = 7, BM_ERR_NOFEATURE = 8, BM_NOT_SUPPORTED = 9
} bm_status_t;

typedef enum bm_data_type_e {
    BM_FLOAT32 = 0, BM_FLOAT16 = 1, BM_INT8 = 2, BM_UINT8 = 3, BM_INT16 = 4, BM_UINT16 = 5, BM_INT32 = 6, BM_UINT32 = 7,
    BM_BFLOAT16 = 8
} bm_data_type_t;

typedef enum bm_stroe_mode_e { BM_STORE_1N = 0, BM_STORE_2N = 1, BM_STORE_4N = 2 } bm_store_mode_t;

/* A device, opened; and the queue of what is launched through the handle. */
typedef struct bm_context {
    pid_t process;
    udo_runtime_t *runtime;
    udo_device_t *device;
    udo_stream_t *stream;
    int devid;
    int holders;
    /* How a launch ended that this had to wait for, for the next bm_thread_sync. */
    int late;
} *bm_handle_t;

/* Memory of a device. Copies of the structure are the same memory, which is freed once. */
typedef struct bm_mem_desc {
    udo_memory_t *memory;
    unsigned int size;
} bm_device_mem_t;

typedef struct bm_shape_s {
    int num_dims;
    int dims[BM_MAX_DIMS_NUM];
} bm_shape_t;

typedef struct bm_tensor_s {
    bm_data_type_t dtype;
    bm_shape_t shape;
    bm_device_mem_t device_mem;
    bm_store_mode_t st_mode;
} bm_tensor_t;

/* A dimension of a dynamic network is the most that it may be; -1 where nothing bounds it. */
typedef struct bm_stage_info_s {
    bm_shape_t *input_shapes;
    bm_shape_t *output_shapes;
    bm_device_mem_t *input_mems;
    bm_device_mem_t *output_mems;
} bm_stage_info_t;

/* What a network is. The most bytes of what nothing bounds are 0. */
typedef struct bm_net_info_s {
    const char *name;
    bool is_dynamic;
    int input_num;
    char const **input_names;
    bm_data_type_t *input_dtypes;
    float *input_scales;
    int output_num;
    char const **output_names;
    bm_data_type_t *output_dtypes;
    float *output_scales;
    int stage_num;
    bm_stage_info_t *stages;
    size_t *max_input_bytes;
    size_t *max_output_bytes;
    int *input_zero_point;
    int *output_zero_point;
    int *input_loc_devices;
    int *output_loc_devices;
    int core_num;
    int32_t addr_mode;
} bm_net_info_t;

/* The inputs or outputs of a network; shapes and memories are those of the first stage, then those of the next. */
typedef struct {
    int count;
    const char **names;
    bm_data_type_t *dtypes;
    float *scales;
    bm_shape_t *shapes;
    bm_device_mem_t *mems;
    size_t *bytes;
    int *zero_points;
    int *devices;
} bmrt_compat_ports;

/* A network, whose file has the name `stem`. Launches of it are submitted one after the other. */
typedef struct {
    char *stem;
    udo_network_t *network;
    udo_session_t *session;
    pthread_mutex_t lock;
    bmrt_compat_ports inputs, outputs;
    /* Whether only a run says what shapes a stage's outputs have. */
    bool *is_open;
    /* Whether a launch was looked at for what no device takes, where only shapes say that. */
    bool is_looked_at;
    bm_stage_info_t *stages;
    bm_net_info_t info;
} bmrt_compat_net;

typedef struct {
    pid_t process;
    bm_handle_t handle;
    bm_handle_t *others;
    int other_count;
    pthread_mutex_t lock;
    bmrt_compat_net **nets;
    int count;
} bmrt_compat_runtime;

/* The status of an error, which goes. */
static inline bm_status_t bmrt_compat_status(udo_error_t *error) {
    static const bm_status_t statuses[16] = {
        BM_SUCCESS, BM_ERR_PARAM, BM_ERR_NOMEM, BM_ERR_FAILURE, BM_ERR_DATA, BM_ERR_DATA, BM_ERR_TIMEOUT, BM_ERR_NOFEATURE,
        BM_ERR_FAILURE, BM_ERR_PARAM, BM_ERR_DEVNOTREADY, BM_ERR_PARAM, BM_ERR_PARAM, BM_ERR_BUSY, BM_ERR_FAILURE, BM_ERR_FAILURE,
    };
    if (error == NULL) return BM_SUCCESS;
    const udo_error_code_t code = udo_error_code(error);
    BMRT_COMPAT_LOG(udo_error_message(error));
    udo_error_release(error);
    return code < 16 ? statuses[code] : BM_ERR_FAILURE;
}

static inline bool bmrt_compat_is_well(udo_error_t *error) {
    return bmrt_compat_status(error) == BM_SUCCESS;
}

static inline bm_status_t bmrt_compat_refuse(bm_status_t status, const char *why) {
    BMRT_COMPAT_LOG(why);
    return status;
}

/* Says something, as far as there is room. Names are such as no program has, whose macro it is. */
__attribute__((format(printf, 1, 2))) static inline void bmrt_compat_say(const char *bmrt_compat_format, ...) {
    char bmrt_compat_line[512];
    va_list bmrt_compat_arguments;
    va_start(bmrt_compat_arguments, bmrt_compat_format);
    (void)vsnprintf(bmrt_compat_line, sizeof bmrt_compat_line, bmrt_compat_format, bmrt_compat_arguments);
    va_end(bmrt_compat_arguments);
    BMRT_COMPAT_LOG(bmrt_compat_line);
}

/* Says which call was refused for what it was given. */
static inline bm_status_t bmrt_compat_wrong(const char *call) {
    bmrt_compat_say("%s: an argument is NULL, or not one of those that there are", call);
    return BM_ERR_PARAM;
}

static inline bm_status_t bmrt_compat_no_memory(const char *call) {
    bmrt_compat_say("%s: the host has no memory", call);
    return BM_ERR_NOMEM;
}

/* Whether what a process made is its own: in one that was forked, others may have left its locks locked. */
static inline bool bmrt_compat_is_here(pid_t process, const char *call) {
    if (process == getpid()) return true;
    bmrt_compat_say("%s: a handle or runtime from before the process was forked; make another one", call);
    return false;
}

/* ---- Devices ---- */

static inline void bm_dev_free(bm_handle_t handle) {
    if (handle == NULL || __atomic_sub_fetch(&handle->holders, 1, __ATOMIC_ACQ_REL) > 0) return;
    udo_stream_release(handle->stream);
    udo_device_release(handle->device);
    udo_runtime_release(handle->runtime);
    free(handle);
}

static inline bm_status_t bm_dev_request(bm_handle_t *handle, int devid) {
    if (handle == NULL || devid < 0) return bmrt_compat_refuse(BM_ERR_PARAM, "bm_dev_request: no place for a handle, or a device below 0");
    bm_handle_t made = (bm_handle_t)calloc(1, sizeof *made);
    if (made == NULL) return bmrt_compat_no_memory(__func__);
    made->process = getpid();
    made->devid = devid;
    made->holders = 1;
    size_t count = 0;
    bm_status_t status = bmrt_compat_status(udo_runtime_create(NULL, &made->runtime));
    if (status == BM_SUCCESS) status = bmrt_compat_status(udo_runtime_device_count(made->runtime, &count));
    if (status == BM_SUCCESS && (size_t)devid >= count) status = bmrt_compat_refuse(BM_ERR_DEVNOTREADY, "bm_dev_request: device not found");
    if (status == BM_SUCCESS) status = bmrt_compat_status(udo_runtime_device(made->runtime, (size_t)devid, &made->device));
    if (status == BM_SUCCESS) status = bmrt_compat_status(udo_stream_create(&made->stream));
    if (status == BM_SUCCESS) {
        *handle = made;
    } else {
        bm_dev_free(made);
    }
    return status;
}

/* Waits for all that was launched through a handle, by whichever thread. */
static inline bm_status_t bm_thread_sync(bm_handle_t handle) {
    if (handle == NULL) return bmrt_compat_wrong(__func__);
    if (!bmrt_compat_is_here(handle->process, __func__)) return BM_ERR_PARAM;
    const bm_status_t status = bmrt_compat_status(udo_stream_sync(handle->stream)), late = (bm_status_t)__atomic_exchange_n(&handle->late, 0, __ATOMIC_ACQ_REL);
    return late != BM_SUCCESS ? late : status;
}

/* Whether a call is to be made again: it found memory that an earlier launch of the handle was at, which has ended by now. There, what
 * is asked of a device is done in order. */
static inline bool bmrt_compat_again(bm_handle_t handle, udo_error_t **error, int *tries) {
    if (udo_error_code(*error) != UDO_ERROR_BUSY || (*tries)++ == 8) return false;
    udo_error_release(*error);
    *error = NULL;
    const bm_status_t status = bmrt_compat_status(udo_stream_sync(handle->stream));
    if (status != BM_SUCCESS) __atomic_store_n(&handle->late, (int)status, __ATOMIC_RELEASE);
    return true;
}

/* Waits for what was launched on a core. How it went, bm_thread_sync says. */
static inline bm_status_t bm_thread_sync_from_core(bm_handle_t handle, int core_id) {
    if (handle == NULL || core_id < 0) return bmrt_compat_refuse(BM_ERR_PARAM, "bm_thread_sync_from_core: no handle, or a core below 0");
    return bmrt_compat_status(udo_device_sync_core(handle->runtime, handle->device, (uint32_t)core_id));
}

/* ---- Memory ---- */

static inline bm_status_t bm_malloc_device_byte(bm_handle_t handle, bm_device_mem_t *pmem, unsigned int size) {
    if (handle == NULL || pmem == NULL || size == 0) return bmrt_compat_refuse(BM_ERR_PARAM, "bm_malloc_device_byte: NULL, or no bytes");
    udo_alloc_options_t options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    /* So that it may be mapped while a device uses it, as there. Who maps it leaves alone what a launch is at, as there, too. */
    options.sharing = UDO_SHARING_EXCLUSIVE;
    bm_device_mem_t made = {NULL, size};
    bm_status_t status = bmrt_compat_status(udo_memory_alloc(handle->device, size, &options, &made.memory));
    if (status == BM_SUCCESS) *pmem = made;
    return status;
}

static inline void bm_free_device(bm_handle_t handle, bm_device_mem_t mem) {
    (void)handle;
    udo_memory_release(mem.memory);
}

static inline unsigned int bm_mem_get_device_size(struct bm_mem_desc mem) {
    return mem.size;
}

static inline bm_status_t bm_memcpy_s2d_partial_offset(
    bm_handle_t handle, bm_device_mem_t dst, void *src, unsigned int size, unsigned int offset) {
    udo_error_t *error = NULL;
    int tries = 0;
    if (handle == NULL || src == NULL) return bmrt_compat_wrong(__func__);
    do error = udo_memory_write(dst.memory, offset, src, size);
    while (bmrt_compat_again(handle, &error, &tries));
    return bmrt_compat_status(error);
}

static inline bm_status_t bm_memcpy_s2d_partial(bm_handle_t handle, bm_device_mem_t dst, void *src, unsigned int size) {
    return bm_memcpy_s2d_partial_offset(handle, dst, src, size, 0);
}

static inline bm_status_t bm_memcpy_s2d(bm_handle_t handle, bm_device_mem_t dst, void *src) {
    return bm_memcpy_s2d_partial_offset(handle, dst, src, dst.size, 0);
}

static inline bm_status_t bm_memcpy_d2s_partial_offset(
    bm_handle_t handle, void *dst, bm_device_mem_t src, unsigned int size, unsigned int offset) {
    udo_error_t *error = NULL;
    int tries = 0;
    if (handle == NULL || dst == NULL) return bmrt_compat_wrong(__func__);
    do error = udo_memory_read(src.memory, offset, dst, size);
    while (bmrt_compat_again(handle, &error, &tries));
    return bmrt_compat_status(error);
}

static inline bm_status_t bm_memcpy_d2s_partial(bm_handle_t handle, void *dst, bm_device_mem_t src, unsigned int size) {
    return bm_memcpy_d2s_partial_offset(handle, dst, src, size, 0);
}

static inline bm_status_t bm_memcpy_d2s(bm_handle_t handle, void *dst, bm_device_mem_t src) {
    return bm_memcpy_d2s_partial_offset(handle, dst, src, src.size, 0);
}

/* All three numbers are bytes. */
static inline bm_status_t bm_memcpy_d2d_byte(
    bm_handle_t handle, bm_device_mem_t dst, size_t dst_offset, bm_device_mem_t src, size_t src_offset, size_t size) {
    udo_error_t *error = NULL;
    int tries = 0;
    if (handle == NULL) return bmrt_compat_wrong(__func__);
    do error = udo_memory_copy(dst.memory, dst_offset, src.memory, src_offset, size);
    while (bmrt_compat_again(handle, &error, &tries));
    return bmrt_compat_status(error);
}

/* Offsets are bytes, and `len` is words of 4. */
static inline bm_status_t bm_memcpy_d2d(
    bm_handle_t handle, bm_device_mem_t dst, int dst_offset, bm_device_mem_t src, int src_offset, int len) {
    if (dst_offset < 0 || src_offset < 0 || len < 0) return bmrt_compat_refuse(BM_ERR_PARAM, "bm_memcpy_d2d: a number below 0");
    return bm_memcpy_d2d_byte(handle, dst, (size_t)dst_offset, src, (size_t)src_offset, 4 * (size_t)len);
}

/* Maps memory of bm_malloc_device_byte; launches may use it meanwhile. */
static inline bm_status_t bm_mem_mmap_device_mem(bm_handle_t handle, bm_device_mem_t *dmem, unsigned long long *vmem) {
    int32_t fd = -1;
    if (handle == NULL || dmem == NULL || vmem == NULL) return bmrt_compat_wrong(__func__);
    bm_status_t status = bmrt_compat_status(udo_memory_export_fd(dmem->memory, &fd));
    if (status != BM_SUCCESS) return status;
    void *at = mmap(NULL, dmem->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED) return bmrt_compat_refuse(BM_ERR_FAILURE, "bm_mem_mmap_device_mem: the system does not map it");
    *vmem = (unsigned long long)(uintptr_t)at;
    return BM_SUCCESS;
}

static inline bm_status_t bm_mem_unmap_device_mem(bm_handle_t handle, void *vmem, int size) {
    if (handle == NULL || vmem == NULL || size <= 0) return bmrt_compat_wrong(__func__);
    return munmap(vmem, (size_t)size) == 0 ? BM_SUCCESS : BM_ERR_PARAM;
}

static inline bm_status_t bm_mem_flush_partial_device_mem(
    bm_handle_t handle, bm_device_mem_t *dmem, unsigned int offset, unsigned int len) {
    if (handle == NULL || dmem == NULL) return bmrt_compat_wrong(__func__);
    return bmrt_compat_status(udo_memory_flush(dmem->memory, offset, len));
}

static inline bm_status_t bm_mem_flush_device_mem(bm_handle_t handle, bm_device_mem_t *dmem) {
    return bm_mem_flush_partial_device_mem(handle, dmem, 0, dmem == NULL ? 0 : dmem->size);
}

static inline bm_status_t bm_mem_invalidate_partial_device_mem(
    bm_handle_t handle, bm_device_mem_t *dmem, unsigned int offset, unsigned int len) {
    if (handle == NULL || dmem == NULL) return bmrt_compat_wrong(__func__);
    return bmrt_compat_status(udo_memory_invalidate(dmem->memory, offset, len));
}

static inline bm_status_t bm_mem_invalidate_device_mem(bm_handle_t handle, bm_device_mem_t *dmem) {
    return bm_mem_invalidate_partial_device_mem(handle, dmem, 0, dmem == NULL ? 0 : dmem->size);
}

/* ---- Shapes and tensors ---- */

static inline void bmrt_shape(bm_shape_t *shape, const int *dims, int num_dims) {
    if (shape == NULL || num_dims < 0 || num_dims > BM_MAX_DIMS_NUM || (dims == NULL && num_dims > 0)) return;
    shape->num_dims = num_dims;
    for (int i = 0; i < num_dims; i++) shape->dims[i] = dims[i];
}

/* The product of the dimensions; 0 if the shape is not valid or the product overflows. */
static inline uint64_t bmrt_shape_count(const bm_shape_t *shape) {
    if (shape == NULL || shape->num_dims < 0 || shape->num_dims > BM_MAX_DIMS_NUM) return 0;
    uint64_t count = 1;
    for (int i = 0; i < shape->num_dims; i++)
        if (shape->dims[i] < 0 || __builtin_mul_overflow(count, (uint64_t)shape->dims[i], &count)) return 0;
    return count;
}

static inline bool bmrt_shape_is_same(const bm_shape_t *left, const bm_shape_t *right) {
    if (left == NULL || right == NULL || left->num_dims != right->num_dims) return false;
    for (int i = 0; i < left->num_dims && i < BM_MAX_DIMS_NUM; i++)
        if (left->dims[i] != right->dims[i]) return false;
    return true;
}

static inline udo_dtype_t bmrt_compat_dtype(bm_data_type_t of) {
    static const udo_dtype_t dtypes[9] = {
        UDO_DTYPE_F32, UDO_DTYPE_F16, UDO_DTYPE_I8, UDO_DTYPE_U8, UDO_DTYPE_I16, UDO_DTYPE_U16, UDO_DTYPE_I32, UDO_DTYPE_U32,
        UDO_DTYPE_BF16,
    };
    return (unsigned)of < 9 ? dtypes[(unsigned)of] : 0;
}

static inline size_t bmrt_data_type_size(bm_data_type_t dtype) {
    static const size_t sizes[9] = {4, 2, 1, 1, 2, 2, 4, 4, 2};
    return (unsigned)dtype < 9 ? sizes[(unsigned)dtype] : 0;
}

/* The bytes of the elements, without those that fill the last group of a store mode. */
static inline size_t bmrt_tensor_bytesize(const bm_tensor_t *tensor) {
    return tensor == NULL ? 0 : (size_t)bmrt_shape_count(&tensor->shape) * bmrt_data_type_size(tensor->dtype);
}

static inline size_t bmrt_tensor_device_size(const bm_tensor_t *tensor) {
    return tensor == NULL ? 0 : tensor->device_mem.size;
}

/* The most bytes are those that 32 bits count. */
static inline bool bmrt_tensor(bm_tensor_t *tensor, void *p_bmrt, bm_data_type_t dtype, bm_shape_t shape) {
    if (tensor == NULL || p_bmrt == NULL) return bmrt_compat_wrong(__func__) == BM_SUCCESS;
    bm_tensor_t made = {dtype, shape, {NULL, 0}, BM_STORE_1N};
    /* BMRuntime's function returns void, so programs may free the memory after a failure: it is empty then. */
    tensor->device_mem = made.device_mem;
    const size_t size = bmrt_tensor_bytesize(&made);
    if (size == 0 || size > UINT32_MAX) return bmrt_compat_refuse(BM_ERR_PARAM, "bmrt_tensor: no bytes, or more than 32 bits count") == BM_SUCCESS;
    bm_handle_t handle = ((bmrt_compat_runtime *)p_bmrt)->handle;
    if (bm_malloc_device_byte(handle, &made.device_mem, (unsigned int)size) != BM_SUCCESS) return false;
    *tensor = made;
    return true;
}

static inline bool bmrt_tensor_with_device(bm_tensor_t *tensor, bm_device_mem_t device_mem, bm_data_type_t dtype, bm_shape_t shape) {
    if (tensor == NULL) return bmrt_compat_wrong(__func__) == BM_SUCCESS;
    bm_tensor_t made = {dtype, shape, device_mem, BM_STORE_1N};
    if (bmrt_tensor_bytesize(&made) > device_mem.size) return bmrt_compat_refuse(BM_ERR_PARAM, "bmrt_tensor_with_device: it takes more memory") == BM_SUCCESS;
    *tensor = made;
    return true;
}

/* A tensor as udo.h has it, in the memory that it lies in; NULL if it does not fit there. */
static inline udo_tensor_t *bmrt_compat_tensor(const bm_tensor_t *tensor) {
    int64_t dims[BM_MAX_DIMS_NUM];
    udo_tensor_spec_t *spec = NULL;
    udo_tensor_t *made = NULL;
    if (tensor->shape.num_dims < 0 || tensor->shape.num_dims > BM_MAX_DIMS_NUM) {
        BMRT_COMPAT_LOG("a shape of less than 0 or more than 8 dimensions");
        return NULL;
    }
    for (int i = 0; i < tensor->shape.num_dims; i++) dims[i] = tensor->shape.dims[i];
    if (bmrt_compat_is_well(udo_tensor_spec_create(bmrt_compat_dtype(tensor->dtype), dims, (size_t)tensor->shape.num_dims, &spec))
        && bmrt_compat_is_well(udo_tensor_spec_set_packing(spec, (udo_packing_t)tensor->st_mode))
        && !bmrt_compat_is_well(udo_tensor_create_from_memory(spec, tensor->device_mem.memory, &made))) made = NULL;
    udo_tensor_spec_release(spec);
    return made;
}

/* What a specification says, if BMRuntime has words for it: of a dimension that is not fixed, the most that it may be. */
static inline bool bmrt_compat_tell(const udo_tensor_spec_t *spec, bm_data_type_t *dtype, bm_shape_t *shape) {
    size_t rank = 0;
    udo_dtype_t of = 0;
    if (!bmrt_compat_is_well(udo_tensor_spec_rank(spec, &rank)) || !bmrt_compat_is_well(udo_tensor_spec_dtype(spec, &of))) return false;
    if (rank > BM_MAX_DIMS_NUM) return bmrt_compat_refuse(BM_NOT_SUPPORTED, "more than 8 dimensions") == BM_SUCCESS;
    int found = 0;
    while (found < 9 && bmrt_compat_dtype((bm_data_type_t)found) != of) found++;
    if (found == 9) return bmrt_compat_refuse(BM_NOT_SUPPORTED, "elements of a type that bm_data_type_t has not") == BM_SUCCESS;
    *dtype = (bm_data_type_t)found;
    shape->num_dims = (int)rank;
    for (size_t i = 0; i < rank; i++) {
        udo_range_t range = {0, 0};
        if (!bmrt_compat_is_well(udo_tensor_spec_range(spec, i, &range))) return false;
        if (range.least == range.most && range.most > INT32_MAX) return bmrt_compat_refuse(BM_NOT_SUPPORTED, "an extent beyond 32 bits") == BM_SUCCESS;
        shape->dims[i] = range.most > INT32_MAX ? -1 : (int)range.most;
    }
    return true;
}

/* ---- Runtimes and networks ---- */

static inline void bmrt_compat_forget_ports(bmrt_compat_ports *ports) {
    free(ports->names);
    free(ports->dtypes);
    free(ports->scales);
    free(ports->shapes);
    free(ports->mems);
    free(ports->bytes);
    free(ports->zero_points);
    free(ports->devices);
}

static inline void bmrt_compat_forget(bmrt_compat_net *net) {
    if (net == NULL) return;
    bmrt_compat_forget_ports(&net->inputs);
    bmrt_compat_forget_ports(&net->outputs);
    udo_session_release(net->session);
    udo_network_release(net->network);
    pthread_mutex_destroy(&net->lock);
    free(net->is_open);
    free(net->stages);
    free(net->stem);
    free(net);
}

static inline void bmrt_destroy(void *p_bmrt) {
    bmrt_compat_runtime *runtime = (bmrt_compat_runtime *)p_bmrt;
    if (runtime == NULL) return;
    for (int i = 0; i < runtime->count; i++) bmrt_compat_forget(runtime->nets[i]);
    free(runtime->nets);
    pthread_mutex_destroy(&runtime->lock);
    bm_dev_free(runtime->handle);
    for (int i = 0; i < runtime->other_count; i++) bm_dev_free(runtime->others[i]);
    free(runtime->others);
    free(runtime);
}

/* Of several devices, of which the first runs all networks: none is cut across devices here. */
static inline void *bmrt_create_ex(bm_handle_t *bm_handles, int num_handles) {
    bool is_given = bm_handles != NULL && num_handles > 0;
    for (int i = 0; is_given && i < num_handles; i++) is_given = bm_handles[i] != NULL && bmrt_compat_is_here(bm_handles[i]->process, __func__);
    bmrt_compat_runtime *runtime = is_given ? (bmrt_compat_runtime *)calloc(1, sizeof *runtime) : NULL;
    if (runtime == NULL) {
        (void)bmrt_compat_wrong(__func__);
        return NULL;
    }
    runtime->process = getpid();
    runtime->others = (bm_handle_t *)calloc((size_t)num_handles, sizeof *runtime->others);
    if (runtime->others == NULL) {
        (void)bmrt_compat_no_memory(__func__);
        free(runtime);
        return NULL;
    }
    for (int i = 0; i < num_handles; i++) __atomic_add_fetch(&bm_handles[i]->holders, 1, __ATOMIC_ACQ_REL);
    for (int i = 1; i < num_handles; i++) runtime->others[runtime->other_count++] = bm_handles[i];
    runtime->handle = bm_handles[0];
    pthread_mutex_init(&runtime->lock, NULL);
    return runtime;
}

static inline void *bmrt_create(bm_handle_t bm_handle) {
    return bmrt_create_ex(&bm_handle, 1);
}

static inline void *bmrt_get_bm_handle(void *p_bmrt) {
    return p_bmrt == NULL ? NULL : ((bmrt_compat_runtime *)p_bmrt)->handle;
}

/* The one scale and zero point of a specification; several are those of an axis, of which BMRuntime tells nothing. */
static inline bool bmrt_compat_encoding(const udo_tensor_spec_t *spec, float *scale, int *zero_point) {
    size_t count = 0;
    udo_encoding_t encoding = {1, 0};
    if (!bmrt_compat_is_well(udo_tensor_spec_encoding_count(spec, &count))) return false;
    if (count == 1 && !bmrt_compat_is_well(udo_tensor_spec_encoding(spec, 0, &encoding))) return false;
    *scale = encoding.scale;
    *zero_point = encoding.zero_point;
    return true;
}

/* What all stages say of an input or output, of which `stage` says this: one scale and zero point, or none where stages differ. */
static inline bool bmrt_compat_agree(bmrt_compat_ports *ports, size_t i, size_t stage, bm_data_type_t dtype, float scale, int zero_point) {
    const bool is_first = stage == 0;
    if (!is_first && ports->dtypes[i] != dtype) return bmrt_compat_refuse(BM_NOT_SUPPORTED, "stages of one network whose elements are of different types") == BM_SUCCESS;
    const bool is_same = is_first || (ports->scales[i] == scale && ports->zero_points[i] == zero_point);
    ports->dtypes[i] = dtype;
    ports->scales[i] = is_same ? scale : 1;
    ports->zero_points[i] = is_same ? zero_point : 0;
    return true;
}

/* What an input or output is in a stage. `is_open` becomes true where only a run says its shape. */
static inline bool bmrt_compat_port(
    const udo_model_t *model, bmrt_compat_ports *ports, size_t i, bool is_input, size_t stage, bm_shape_t *shape, bool *is_open) {
    bm_data_type_t dtype = BM_FLOAT32;
    float scale = 1;
    int zero_point = 0;
    udo_tensor_spec_t *spec = NULL;
    udo_error_t *error = is_input ? udo_model_input_spec(model, i, &spec) : udo_model_output_spec(model, i, &spec);
    if (udo_error_code(error) == UDO_ERROR_DYNAMIC_SHAPE) {
        udo_error_release(error);
        *is_open = true;
        return bmrt_compat_agree(ports, i, stage, stage == 0 ? dtype : ports->dtypes[i], scale, zero_point);
    }
    bool is_told = bmrt_compat_is_well(error) && bmrt_compat_tell(spec, &dtype, shape) && bmrt_compat_encoding(spec, &scale, &zero_point)
        && bmrt_compat_agree(ports, i, stage, dtype, scale, zero_point);
    for (int j = 0; is_told && j < shape->num_dims; j++) {
        udo_range_t range = {0, 0};
        is_told = bmrt_compat_is_well(udo_tensor_spec_range(spec, (size_t)j, &range));
        *is_open = *is_open || range.least != range.most;
    }
    udo_tensor_spec_release(spec);
    const size_t bytes = (size_t)bmrt_shape_count(shape) * bmrt_data_type_size(ports->dtypes[i]);
    if (bytes > ports->bytes[i]) ports->bytes[i] = bytes;
    return is_told;
}

/* What a network has on a side. */
static inline bool bmrt_compat_ports_of(bmrt_compat_net *net, bmrt_compat_ports *ports, bool is_input, size_t stages, int devid) {
    size_t n = 0;
    const udo_network_t *network = net->network;
    if (!bmrt_compat_is_well(is_input ? udo_network_input_count(network, &n) : udo_network_output_count(network, &n))) return false;
    ports->count = (int)n;
    ports->names = (const char **)calloc(n + 1, sizeof *ports->names);
    ports->dtypes = (bm_data_type_t *)calloc(n + 1, sizeof *ports->dtypes);
    ports->scales = (float *)calloc(n + 1, sizeof *ports->scales);
    ports->shapes = (bm_shape_t *)calloc(stages * n + 1, sizeof *ports->shapes);
    ports->mems = (bm_device_mem_t *)calloc(stages * n + 1, sizeof *ports->mems);
    ports->bytes = (size_t *)calloc(n + 1, sizeof *ports->bytes);
    ports->zero_points = (int *)calloc(n + 1, sizeof *ports->zero_points);
    ports->devices = (int *)calloc(n + 1, sizeof *ports->devices);
    if (ports->names == NULL || ports->dtypes == NULL || ports->scales == NULL || ports->shapes == NULL || ports->mems == NULL
        || ports->bytes == NULL || ports->zero_points == NULL || ports->devices == NULL) return bmrt_compat_no_memory(__func__) == BM_SUCCESS;
    for (size_t i = 0; i < n; i++) {
        ports->scales[i] = 1;
        ports->devices[i] = devid;
        if (!bmrt_compat_is_well(is_input ? udo_network_input_name(network, i, &ports->names[i]) : udo_network_output_name(network, i, &ports->names[i]))) return false;
    }
    bool is_told = true;
    for (size_t stage = 0; is_told && stage < stages; stage++) {
        udo_model_t *model = NULL;
        is_told = bmrt_compat_is_well(udo_network_model(network, stage, &model));
        for (size_t i = 0; is_told && i < n; i++)
            is_told = bmrt_compat_port(model, ports, i, is_input, stage, &ports->shapes[stage * n + i], &net->is_open[stage]);
        udo_model_release(model);
    }
    return is_told;
}

static inline void bmrt_compat_describe(bmrt_compat_net *net, int stages) {
    bm_net_info_t *info = &net->info;
    for (int stage = 0; stage < stages; stage++) {
        info->is_dynamic = info->is_dynamic || net->is_open[stage];
        net->stages[stage].input_shapes = net->inputs.shapes + stage * net->inputs.count;
        net->stages[stage].output_shapes = net->outputs.shapes + stage * net->outputs.count;
        net->stages[stage].input_mems = net->inputs.mems + stage * net->inputs.count;
        net->stages[stage].output_mems = net->outputs.mems + stage * net->outputs.count;
    }
    info->input_num = net->inputs.count;
    info->input_names = net->inputs.names;
    info->input_dtypes = net->inputs.dtypes;
    info->input_scales = net->inputs.scales;
    info->input_zero_point = net->inputs.zero_points;
    info->input_loc_devices = net->inputs.devices;
    info->max_input_bytes = net->inputs.bytes;
    info->output_num = net->outputs.count;
    info->output_names = net->outputs.names;
    info->output_dtypes = net->outputs.dtypes;
    info->output_scales = net->outputs.scales;
    info->output_zero_point = net->outputs.zero_points;
    info->output_loc_devices = net->outputs.devices;
    info->max_output_bytes = net->outputs.bytes;
    info->stage_num = stages;
    info->stages = net->stages;
    info->core_num = 1;
}

/* The network of a name; of a file with one network, the name of the file will do. The lock is held. */
static inline bmrt_compat_net *bmrt_compat_named(const bmrt_compat_runtime *runtime, const char *name) {
    for (int i = 0; i < runtime->count; i++)
        if (strcmp(runtime->nets[i]->info.name, name) == 0) return runtime->nets[i];
    for (int i = 0; i < runtime->count; i++)
        if (runtime->nets[i]->stem != NULL && strcmp(runtime->nets[i]->stem, name) == 0) return runtime->nets[i];
    return NULL;
}

static inline bmrt_compat_net *bmrt_compat_find(bmrt_compat_runtime *runtime, const char *name, const char *call) {
    if (runtime == NULL || name == NULL) {
        (void)bmrt_compat_wrong(call);
        return NULL;
    }
    if (!bmrt_compat_is_here(runtime->process, call)) return NULL;
    pthread_mutex_lock(&runtime->lock);
    bmrt_compat_net *found = bmrt_compat_named(runtime, name);
    pthread_mutex_unlock(&runtime->lock);
    if (found == NULL) bmrt_compat_say("%s: network \"%s\" not found", call, name);
    return found;
}

/* Says which operations of a network no device of the runtime takes, so that the CPU runs them. */
static inline bool bmrt_compat_say_fallback(const udo_network_t *network, const char *name, size_t stages) {
    for (size_t stage = 0; stage < stages; stage++) {
        udo_model_t *model = NULL;
        size_t count = 0;
        bool is_told = bmrt_compat_is_well(udo_network_model(network, stage, &model)) && bmrt_compat_is_well(udo_model_fallback_count(model, &count));
        for (size_t i = 0; is_told && i < count; i++) {
            udo_fallback_report_t of;
            is_told = bmrt_compat_is_well(udo_model_fallback(model, i, &of));
            if (!is_told) break;
            bmrt_compat_say(
                "network \"%s\" stage %zu: operation \"%s\" (%s) runs on %s, as %s does not take it: %s", name, stage, of.name, of.op, of.target, of.failed,
                of.reason);
        }
        udo_model_release(model);
        if (!is_told) return false;
    }
    return true;
}

/* A network with all of its stages compiled; NULL if one of them is refused. */
static inline bmrt_compat_net *bmrt_compat_net_of(bm_handle_t handle, const udo_networks_t *networks, size_t index) {
    bmrt_compat_net *net = (bmrt_compat_net *)calloc(1, sizeof *net);
    size_t stages = 0;
    udo_session_options_t options;
    if (net == NULL) {
        (void)bmrt_compat_no_memory(__func__);
        return NULL;
    }
    pthread_mutex_init(&net->lock, NULL);
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.device = handle->device;
    options.depth = 1024;
    bool is_made = bmrt_compat_is_well(udo_networks_at(networks, index, &net->network))
        && bmrt_compat_is_well(udo_network_stage_count(net->network, &stages))
        && bmrt_compat_is_well(udo_network_name(net->network, &net->info.name));
    if (is_made) {
        net->is_open = (bool *)calloc(stages + 1, sizeof *net->is_open);
        net->stages = (bm_stage_info_t *)calloc(stages + 1, sizeof *net->stages);
        is_made = net->is_open != NULL && net->stages != NULL
            && bmrt_compat_ports_of(net, &net->inputs, true, stages, handle->devid)
            && bmrt_compat_ports_of(net, &net->outputs, false, stages, handle->devid)
            && bmrt_compat_say_fallback(net->network, net->info.name, stages)
            && bmrt_compat_is_well(udo_network_session(net->network, -1, &options, &net->session));
    }
    if (is_made) {
        bmrt_compat_describe(net, (int)stages);
        return net;
    }
    bmrt_compat_forget(net);
    return NULL;
}

/* Adds networks: all of them, or none if one has the name of another. */
static inline bm_status_t bmrt_compat_register(bmrt_compat_runtime *runtime, bmrt_compat_net **made, int count) {
    bm_status_t status = BM_SUCCESS;
    pthread_mutex_lock(&runtime->lock);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < runtime->count; j++)
            if (strcmp(runtime->nets[j]->info.name, made[i]->info.name) == 0) status = bmrt_compat_refuse(BM_ERR_PARAM, "there is a network of this name already");
    bmrt_compat_net **nets = status != BM_SUCCESS ? NULL
        : (bmrt_compat_net **)realloc(runtime->nets, (size_t)(runtime->count + count + 1) * sizeof *nets);
    if (status == BM_SUCCESS && nets == NULL) status = bmrt_compat_no_memory(__func__);
    if (status == BM_SUCCESS) {
        memcpy(nets + runtime->count, made, (size_t)count * sizeof *nets);
        runtime->nets = nets;
        runtime->count += count;
    }
    pthread_mutex_unlock(&runtime->lock);
    return status;
}

/* Adds the networks of a file, or none if one fails, and releases `networks`. `path` is NULL for networks from memory. */
static inline bm_status_t bmrt_compat_add(bmrt_compat_runtime *runtime, udo_networks_t *networks, const char *path) {
    size_t count = 0;
    bm_status_t status = bmrt_compat_status(udo_networks_count(networks, &count));
    bmrt_compat_net **made = (bmrt_compat_net **)calloc(count + 1, sizeof *made);
    if (status == BM_SUCCESS && made == NULL) status = bmrt_compat_no_memory(__func__);
    for (size_t i = 0; status == BM_SUCCESS && i < count; i++)
        if ((made[i] = bmrt_compat_net_of(runtime->handle, networks, i)) == NULL) status = BM_ERR_DATA;
    if (status == BM_SUCCESS && count == 1 && path != NULL) {
        const char *stem = strrchr(path, '/') == NULL ? path : strrchr(path, '/') + 1, *dot = strrchr(stem, '.');
        const size_t len = dot == NULL || dot == stem ? strlen(stem) : (size_t)(dot - stem);
        made[0]->stem = (char *)calloc(len + 1, 1);
        if (made[0]->stem != NULL) memcpy(made[0]->stem, stem, len);
    }
    if (status == BM_SUCCESS) status = bmrt_compat_register(runtime, made, (int)count);
    for (size_t i = 0; made != NULL && status != BM_SUCCESS && i < count; i++) bmrt_compat_forget(made[i]);
    free(made);
    udo_networks_release(networks);
    return status;
}

/* The kinds of a runtime's devices, in the order of its handles, and without repetition. */
#define BMRT_COMPAT_KINDS 20

/* How models are compiled for the devices of a runtime's handles: each operation for the first that takes it, and what none takes for
 * the CPU. `cores` is where the options find the devices. */
static inline bool bmrt_compat_options(const bmrt_compat_runtime *runtime, udo_load_options_t *options, char cores[BMRT_COMPAT_KINDS]) {
    static const char *const names[5] = {NULL, "cpu", "gpu", "dsp", "hta"};
    memset(options, 0, sizeof *options);
    options->size = sizeof *options;
    options->fallback = UDO_FALLBACK_CPU;
    options->cores = cores;
    cores[0] = '\0';
    for (int i = 0; i <= runtime->other_count; i++) {
        const bm_handle_t handle = i == 0 ? runtime->handle : runtime->others[i - 1];
        udo_device_kind_t kind = 0;
        if (!bmrt_compat_is_well(udo_device_kind(handle->device, &kind)) || kind < 1 || kind > 4)
            return bmrt_compat_refuse(BM_ERR_FAILURE, "a device of a kind that is not known here") == BM_SUCCESS;
        if (strstr(cores, names[kind]) != NULL) continue;
        if (cores[0] != '\0') strcat(cores, ",");
        strcat(cores, names[kind]);
    }
    return true;
}

/* Loads the networks of a file, or of bytes if `path` is NULL. */
static inline bm_status_t bmrt_compat_load(void *p_bmrt, const char *path, const void *bytes, size_t size) {
    bmrt_compat_runtime *runtime = (bmrt_compat_runtime *)p_bmrt;
    udo_load_options_t options;
    char cores[BMRT_COMPAT_KINDS];
    udo_networks_t *networks = NULL;
    if (runtime == NULL || (path == NULL && bytes == NULL)) return bmrt_compat_refuse(BM_ERR_PARAM, "a model of NULL");
    if (!bmrt_compat_is_here(runtime->process, __func__)) return BM_ERR_PARAM;
    if (!bmrt_compat_options(runtime, &options, cores)) return BM_ERR_FAILURE;
    const bm_status_t status = bmrt_compat_status(
        path != NULL ? udo_networks_open_file(runtime->handle->runtime, path, &options, &networks)
                     : udo_networks_open_bytes(runtime->handle->runtime, bytes, size, &options, &networks));
    return status == BM_SUCCESS ? bmrt_compat_add(runtime, networks, path) : status;
}

static inline bool bmrt_load_bmodel(void *p_bmrt, const char *bmodel_path) {
    return bmrt_compat_load(p_bmrt, bmodel_path, NULL, 0) == BM_SUCCESS;
}

static inline bool bmrt_load_bmodel_data(void *p_bmrt, const void *bmodel_data, size_t size) {
    return bmrt_compat_load(p_bmrt, NULL, bmodel_data, size) == BM_SUCCESS;
}

static inline int bmrt_get_network_number(void *p_bmrt) {
    bmrt_compat_runtime *runtime = (bmrt_compat_runtime *)p_bmrt;
    if (runtime == NULL || !bmrt_compat_is_here(runtime->process, __func__)) return 0;
    pthread_mutex_lock(&runtime->lock);
    const int count = runtime->count;
    pthread_mutex_unlock(&runtime->lock);
    return count;
}

/* The caller frees the array, and not the names. */
static inline void bmrt_get_network_names(void *p_bmrt, const char ***network_names) {
    bmrt_compat_runtime *runtime = (bmrt_compat_runtime *)p_bmrt;
    if (runtime == NULL || network_names == NULL || !bmrt_compat_is_here(runtime->process, __func__)) return;
    pthread_mutex_lock(&runtime->lock);
    const char **names = (const char **)calloc((size_t)runtime->count + 1, sizeof *names);
    for (int i = 0; names != NULL && i < runtime->count; i++) names[i] = runtime->nets[i]->info.name;
    pthread_mutex_unlock(&runtime->lock);
    *network_names = names;
}

static inline const bm_net_info_t *bmrt_get_network_info(void *p_bmrt, const char *net_name) {
    bmrt_compat_net *net = bmrt_compat_find((bmrt_compat_runtime *)p_bmrt, net_name, __func__);
    return net == NULL ? NULL : &net->info;
}

static inline void bmrt_compat_print(
    const char *side, int count, char const **names, const bm_shape_t *shapes, const bm_data_type_t *dtypes, const float *scales,
    const int *zero_points) {
    static const char *const types[9] = {"f32", "f16", "i8", "u8", "i16", "u16", "i32", "u32", "bf16"};
    for (int i = 0; i < count; i++) {
        printf("    %s %s: %s[", side, names[i], types[(unsigned)dtypes[i] < 9 ? (unsigned)dtypes[i] : 0]);
        for (int j = 0; j < shapes[i].num_dims; j++) printf("%s%d", j == 0 ? "" : ",", shapes[i].dims[j]);
        printf("], scale %g, zero point %d\n", (double)scales[i], zero_points[i]);
    }
}

static inline void bmrt_print_network_info(const bm_net_info_t *net_info) {
    if (net_info == NULL) return;
    printf("network %s, %s\n", net_info->name, net_info->is_dynamic ? "dynamic" : "static");
    for (int i = 0; i < net_info->stage_num; i++) {
        const bm_net_info_t *of = net_info;
        printf("  stage %d\n", i);
        bmrt_compat_print("input", of->input_num, of->input_names, of->stages[i].input_shapes, of->input_dtypes, of->input_scales, of->input_zero_point);
        bmrt_compat_print("output", of->output_num, of->output_names, of->stages[i].output_shapes, of->output_dtypes, of->output_scales, of->output_zero_point);
    }
}

static inline void bmrt_show_neuron_network(void *p_bmrt) {
    const char **names = NULL;
    bmrt_get_network_names(p_bmrt, &names);
    for (int i = 0; names != NULL && names[i] != NULL; i++) printf("%s\n", names[i]);
    free(names);
}

/* ---- Launches ---- */

static inline void bmrt_compat_release(udo_tensor_t **tensors, int count) {
    for (int i = 0; tensors != NULL && i < count; i++) udo_tensor_release(tensors[i]);
    free(tensors);
}

/* Puts what a run made where the program wants it, in the store mode that it wants. */
static inline bool bmrt_compat_take(
    bm_handle_t handle, const udo_run_t *run, int index, bm_tensor_t *output, bool user_mem, bm_store_mode_t mode) {
    udo_tensor_t *made = NULL, *wanted = NULL;
    udo_tensor_spec_t *spec = NULL;
    bm_tensor_t like = *output;
    uint64_t bytes = 0, storage = 0;
    void *elements = NULL;
    like.st_mode = mode;
    bool is_taken = bmrt_compat_is_well(udo_run_output(run, (size_t)index, &made)) && bmrt_compat_is_well(udo_tensor_spec(made, &spec))
        && bmrt_compat_tell(spec, &like.dtype, &like.shape) && bmrt_compat_is_well(udo_tensor_spec_byte_size(spec, &bytes))
        && bmrt_compat_is_well(udo_tensor_spec_set_packing(spec, (udo_packing_t)mode))
        && bmrt_compat_is_well(udo_tensor_spec_storage_size(spec, &storage));
    if (is_taken && storage > UINT32_MAX) is_taken = bmrt_compat_refuse(BM_ERR_NOMEM, "an output beyond 4 GiB") == BM_SUCCESS;
    if (is_taken && !user_mem) is_taken = bm_malloc_device_byte(handle, &like.device_mem, storage == 0 ? 1 : (unsigned int)storage) == BM_SUCCESS;
    const bool is_owned = is_taken && !user_mem;
    if (is_taken) is_taken = (elements = malloc((size_t)bytes + 1)) != NULL && (wanted = bmrt_compat_tensor(&like)) != NULL;
    is_taken = is_taken && bmrt_compat_is_well(udo_tensor_read(made, elements, (size_t)bytes))
        && bmrt_compat_is_well(udo_tensor_write(wanted, elements, (size_t)bytes));
    if (is_taken) *output = like;
    else if (is_owned) bm_free_device(handle, like.device_mem);
    free(elements);
    udo_tensor_release(wanted);
    udo_tensor_release(made);
    udo_tensor_spec_release(spec);
    return is_taken;
}

/* What a launch is of. */
typedef struct {
    bmrt_compat_runtime *runtime;
    bmrt_compat_net *net;
    const bm_tensor_t *inputs;
    bm_tensor_t *outputs;
    bool user_mem, user_stmode;
    /* The cores that it is on, as many as the network is for. */
    const uint32_t *cores;
} bmrt_compat_call;

/* Cores of a network that is launched without saying any: the first ones. */
static const uint32_t bmrt_compat_first_cores[1] = {0};

/* Whether a network may be launched on a list of cores; they go to `cores`. None is for the first ones. */
static inline bool bmrt_compat_cores(const bmrt_compat_runtime *runtime, const bmrt_compat_net *net, const int *core_list, int core_num, uint32_t *cores) {
    uint32_t count = 0;
    cores[0] = bmrt_compat_first_cores[0];
    if (core_num == 0) return true;
    if (core_num < 0 || core_list == NULL || core_num != net->info.core_num)
        return bmrt_compat_refuse(BM_ERR_PARAM, "a list of another number of cores than core_num of the network says") == BM_SUCCESS;
    if (!bmrt_compat_is_well(udo_device_core_count(runtime->handle->device, &count))) return false;
    if (core_list[0] < 0 || (uint32_t)core_list[0] >= count)
        return bmrt_compat_refuse(BM_ERR_PARAM, "a list of cores that the device does not have") == BM_SUCCESS;
    cores[0] = (uint32_t)core_list[0];
    return true;
}

/* Makes room for an output of a stage of fixed shapes, where the program gave none, and the tensor that lies there. */
static inline udo_tensor_t *bmrt_compat_place(const bmrt_compat_call *call, const bm_shape_t *shape, int index, bm_tensor_t *place) {
    place->dtype = call->net->outputs.dtypes[index];
    place->shape = *shape;
    bm_shape_t filled = *shape;
    const int group = place->st_mode == BM_STORE_4N ? 4 : place->st_mode == BM_STORE_2N ? 2 : 1;
    if (filled.num_dims > 0) filled.dims[0] = (filled.dims[0] + group - 1) / group * group;
    const uint64_t size = bmrt_shape_count(&filled) * bmrt_data_type_size(place->dtype);
    if (call->user_mem) return bmrt_compat_tensor(place);
    if (size > UINT32_MAX || bm_malloc_device_byte(call->runtime->handle, &place->device_mem, size == 0 ? 1 : (unsigned int)size) != BM_SUCCESS) return NULL;
    return bmrt_compat_tensor(place);
}

static inline bool bmrt_compat_submit(
    const bmrt_compat_call *call, udo_tensor_t **from, udo_tensor_t **to, const udo_run_options_t *options, udo_run_t **run) {
    udo_error_t *error = NULL;
    int tries = 0;
    do {
        pthread_mutex_lock(&call->net->lock);
        error = udo_session_submit(
            call->net->session, (const udo_tensor_t *const *)from, (size_t)call->net->inputs.count, to, (size_t)call->net->outputs.count, options, run);
        pthread_mutex_unlock(&call->net->lock);
    } while (bmrt_compat_again(call->runtime->handle, &error, &tries));
    return bmrt_compat_is_well(error);
}

/* The tensors of a launch: those of the program, and of its stage, where that is not `is_open`: with places for what it makes. */
typedef struct {
    udo_tensor_t **from, **to;
    bm_tensor_t *places;
    bool is_open;
} bmrt_compat_bound;

/* What a launch does not need any more; and memory that was made for what it did not make. */
static inline void bmrt_compat_unbind(const bmrt_compat_call *call, bmrt_compat_bound *bound, bool is_well) {
    const int output_num = call->net->outputs.count;
    for (int i = 0; i < output_num && bound->places != NULL; i++) {
        if (is_well) call->outputs[i] = bound->places[i];
        else if (!call->user_mem) bm_free_device(call->runtime->handle, bound->places[i].device_mem);
    }
    bmrt_compat_release(bound->from, call->net->inputs.count);
    bmrt_compat_release(bound->to, output_num);
    free(bound->places);
}

static inline bool bmrt_compat_bind(const bmrt_compat_call *call, bmrt_compat_bound *bound) {
    const size_t input_num = (size_t)call->net->inputs.count, output_num = (size_t)call->net->outputs.count;
    size_t stage = 0;
    memset(bound, 0, sizeof *bound);
    bound->from = (udo_tensor_t **)calloc(input_num + 1, sizeof *bound->from);
    bound->to = (udo_tensor_t **)calloc(output_num + 1, sizeof *bound->to);
    bound->places = (bm_tensor_t *)calloc(output_num + 1, sizeof *bound->places);
    if (bound->from == NULL || bound->to == NULL || bound->places == NULL) return bmrt_compat_no_memory(__func__) == BM_SUCCESS;
    for (size_t i = 0; i < input_num; i++)
        if ((bound->from[i] = bmrt_compat_tensor(&call->inputs[i])) == NULL) return false;
    if (!bmrt_compat_is_well(udo_network_stage_for(call->net->network, (const udo_tensor_t *const *)bound->from, input_num, &stage))) return false;
    bound->is_open = call->net->is_open[stage];
    for (size_t i = 0; i < output_num; i++) {
        bm_tensor_t *place = &bound->places[i];
        place->st_mode = call->user_stmode ? call->outputs[i].st_mode : BM_STORE_1N;
        if (call->user_mem) place->device_mem = call->outputs[i].device_mem;
        if (bound->is_open) continue;
        if ((bound->to[i] = bmrt_compat_place(call, &call->net->stages[stage].output_shapes[i], (int)i, place)) == NULL) return false;
    }
    return true;
}

/* Says once that operations of a network ran on the CPU as no device of the runtime takes them, where that is known since the first launch. */
static inline void bmrt_compat_say_open_fallback(bmrt_compat_net *net) {
    const char *json = NULL;
    if (__atomic_exchange_n(&net->is_looked_at, true, __ATOMIC_ACQ_REL) || !bmrt_compat_is_well(udo_session_json(net->session, &json))) return;
    if (strstr(json, "\"fallbacks\": [") != NULL && strstr(json, "\"fallbacks\": []") == NULL)
        bmrt_compat_say("network \"%s\": operations of its first launch ran on the CPU, as no device of the runtime takes them; bmrt_trace says which", net->info.name);
}

/* Launches with tensors that are there. Where only the run says what shapes outputs have, it makes them, is waited for, and they are
 * taken. The run goes to `out` if that is not NULL. */
static inline bool bmrt_compat_launch(const bmrt_compat_call *call, udo_run_t **out) {
    bmrt_compat_bound bound;
    udo_run_t *run = NULL;
    udo_run_options_t options;
    bool is_well = bmrt_compat_bind(call, &bound);
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.stream = bound.is_open ? NULL : call->runtime->handle->stream;
    options.cores = call->cores;
    options.core_count = (size_t)call->net->info.core_num;
    is_well = is_well && bmrt_compat_submit(call, bound.from, bound.to, &options, &run);
    if (bound.is_open) {
        is_well = is_well && bmrt_compat_is_well(udo_run_wait(run));
        if (is_well) bmrt_compat_say_open_fallback(call->net);
        for (int i = 0; is_well && i < call->net->outputs.count; i++)
            is_well = bmrt_compat_take(call->runtime->handle, run, i, &bound.places[i], call->user_mem, bound.places[i].st_mode);
    }
    bmrt_compat_unbind(call, &bound, is_well);
    if (is_well && out != NULL) *out = run;
    else udo_run_release(run);
    return is_well;
}

static inline bool bmrt_launch_tensor_multi_cores(
    void *p_bmrt, const char *net_name, const bm_tensor_t input_tensors[], int input_num, bm_tensor_t output_tensors[],
    int output_num, bool user_mem, bool user_stmode, const int *core_list, int core_num) {
    bmrt_compat_runtime *runtime = (bmrt_compat_runtime *)p_bmrt;
    bmrt_compat_net *net = bmrt_compat_find(runtime, net_name, __func__);
    uint32_t cores[1];
    if (net == NULL || input_tensors == NULL || output_tensors == NULL) return bmrt_compat_refuse(BM_ERR_PARAM, "a launch of no network, or without tensors") == BM_SUCCESS;
    if (input_num != net->inputs.count || output_num != net->outputs.count) return bmrt_compat_refuse(BM_ERR_PARAM, "a launch with another number of tensors than the network has") == BM_SUCCESS;
    if (!bmrt_compat_cores(runtime, net, core_list, core_num, cores)) return false;
    const bmrt_compat_call call = {runtime, net, input_tensors, output_tensors, user_mem, user_stmode, cores};
    return bmrt_compat_launch(&call, NULL);
}

static inline bool bmrt_launch_tensor_ex(
    void *p_bmrt, const char *net_name, const bm_tensor_t input_tensors[], int input_num, bm_tensor_t output_tensors[],
    int output_num, bool user_mem, bool user_stmode) {
    return bmrt_launch_tensor_multi_cores(p_bmrt, net_name, input_tensors, input_num, output_tensors, output_num, user_mem, user_stmode, NULL, 0);
}

static inline bool bmrt_launch_tensor(
    void *p_bmrt, const char *net_name, const bm_tensor_t input_tensors[], int input_num, bm_tensor_t output_tensors[], int output_num) {
    return bmrt_launch_tensor_ex(p_bmrt, net_name, input_tensors, input_num, output_tensors, output_num, false, false);
}

/* What is sent to a device to launch a network: one call, whose bytes bm_send_api takes any number of times. */
typedef struct {
    uint32_t *api_id;
    size_t api_id_num;
    uint8_t **api_data;
    size_t *api_data_subsize;
    size_t api_data_num;
} api_info_c;

/* The bytes of such a call: a launch that is recorded, and the number that says so. */
typedef struct {
    uint64_t magic;
    udo_launch_t *launch;
} bmrt_compat_api;

enum { BMRT_COMPAT_API = 1 };
#define BMRT_COMPAT_MAGIC 0x6c61756e63684f64u

typedef struct {
    api_info_c seen;
    uint32_t id;
    uint8_t *data;
    size_t size;
    bmrt_compat_api api;
} bmrt_compat_info;

/* What bmrt_launch_tensor_ex would launch, without doing so; NULL where only a run says what shapes outputs have. Memory that this
 * makes for outputs is the program's to free. */
static inline api_info_c *get_bmodel_api_info_c(
    void *p_bmrt, const char *net_name, const bm_tensor_t *input_tensors, int input_num, bm_tensor_t *output_tensors, int output_num,
    bool user_mem, bool user_stmode) {
    bmrt_compat_net *net = bmrt_compat_find((bmrt_compat_runtime *)p_bmrt, net_name, __func__);
    if (net == NULL || input_tensors == NULL || output_tensors == NULL || input_num != net->inputs.count || output_num != net->outputs.count) {
        BMRT_COMPAT_LOG("no such network, or another number of tensors than it has");
        return NULL;
    }
    const bmrt_compat_call call = {(bmrt_compat_runtime *)p_bmrt, net, input_tensors, output_tensors, user_mem, user_stmode, bmrt_compat_first_cores};
    bmrt_compat_info *info = (bmrt_compat_info *)calloc(1, sizeof *info);
    if (info == NULL) {
        (void)bmrt_compat_no_memory(__func__);
        return NULL;
    }
    bmrt_compat_bound bound;
    udo_run_options_t options;
    bool is_well = bmrt_compat_bind(&call, &bound);
    if (is_well && bound.is_open) is_well = bmrt_compat_refuse(BM_ERR_NOFEATURE, "only a run says what shapes the outputs have; launch it") == BM_SUCCESS;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.stream = call.runtime->handle->stream;
    if (is_well) {
        pthread_mutex_lock(&net->lock);
        udo_error_t *error = udo_session_record(
            net->session, (const udo_tensor_t *const *)bound.from, (size_t)input_num, bound.to, (size_t)output_num, &options, &info->api.launch);
        pthread_mutex_unlock(&net->lock);
        is_well = bmrt_compat_is_well(error);
    }
    bmrt_compat_unbind(&call, &bound, is_well);
    if (!is_well) {
        free(info);
        return NULL;
    }
    info->api.magic = BMRT_COMPAT_MAGIC;
    info->id = BMRT_COMPAT_API;
    info->data = (uint8_t *)&info->api;
    info->size = sizeof info->api;
    const api_info_c seen = {&info->id, 1, &info->data, &info->size, 1};
    info->seen = seen;
    return &info->seen;
}

/* The call goes; launches of it that are under way go on. */
static inline void bmrt_free_api_info(api_info_c *api_info) {
    if (api_info == NULL) return;
    bmrt_compat_info *info = (bmrt_compat_info *)(void *)api_info;
    udo_launch_release(info->api.launch);
    free(info);
}

/* Launches what get_bmodel_api_info_c made, and does not wait for it. */
static inline bm_status_t bm_send_api(bm_handle_t handle, int api_id, const uint8_t *api, uint32_t size) {
    bmrt_compat_api call;
    udo_run_t *run = NULL;
    udo_error_t *error = NULL;
    int tries = 0;
    if (handle == NULL || api == NULL || api_id != BMRT_COMPAT_API || size != sizeof call) return bmrt_compat_refuse(BM_ERR_PARAM, "bm_send_api: no call of get_bmodel_api_info_c");
    memcpy(&call, api, sizeof call);
    if (call.magic != BMRT_COMPAT_MAGIC) return bmrt_compat_refuse(BM_ERR_PARAM, "bm_send_api: no call of get_bmodel_api_info_c");
    do error = udo_launch_submit(call.launch, &run);
    while (bmrt_compat_again(handle, &error, &tries));
    udo_run_release(run);
    return bmrt_compat_status(error);
}

static inline bool bmrt_pre_alloc_neuron_multi_cores(
    void *p_bmrt, const char *net_name, int stage_idx, const int *core_list, int core_num) {
    bmrt_compat_runtime *runtime = (bmrt_compat_runtime *)p_bmrt;
    bmrt_compat_net *net = bmrt_compat_find(runtime, net_name, __func__);
    uint32_t cores[1];
    if (net == NULL || stage_idx < 0) return bmrt_compat_refuse(BM_ERR_PARAM, "no such network, or a stage below 0") == BM_SUCCESS;
    if (!bmrt_compat_cores(runtime, net, core_list, core_num, cores)) return false;
    pthread_mutex_lock(&net->lock);
    udo_error_t *error = udo_session_reserve_stage(net->session, (size_t)stage_idx);
    pthread_mutex_unlock(&net->lock);
    return bmrt_compat_is_well(error);
}

/* Runs over memory of the host, and returns when all is there. What a program gives for an output has room for it. */
static inline bool bmrt_launch_data(
    void *p_bmrt, const char *net_name, void *const input_datas[], const bm_shape_t input_shapes[], int input_num,
    void *output_datas[], bm_shape_t output_shapes[], int output_num, bool user_mem) {
    bmrt_compat_runtime *runtime = (bmrt_compat_runtime *)p_bmrt;
    bmrt_compat_net *net = bmrt_compat_find(runtime, net_name, __func__);
    if (net == NULL || input_datas == NULL || input_shapes == NULL || output_datas == NULL || output_shapes == NULL
        || input_num != net->inputs.count || output_num != net->outputs.count)
        return bmrt_compat_refuse(BM_ERR_PARAM, "no such network, or another number of data than it has") == BM_SUCCESS;
    bm_tensor_t *inputs = (bm_tensor_t *)calloc((size_t)input_num + 1, sizeof *inputs);
    bm_tensor_t *outputs = (bm_tensor_t *)calloc((size_t)output_num + 1, sizeof *outputs);
    void **datas = (void **)calloc((size_t)output_num + 1, sizeof *datas);
    bool is_well = inputs != NULL && outputs != NULL && datas != NULL;
    for (int i = 0; is_well && i < input_num; i++)
        is_well = bmrt_tensor(&inputs[i], p_bmrt, net->inputs.dtypes[i], input_shapes[i])
            && bm_memcpy_s2d_partial(runtime->handle, inputs[i].device_mem, input_datas[i], (unsigned int)bmrt_tensor_bytesize(&inputs[i])) == BM_SUCCESS;
    udo_run_t *run = NULL;
    const bmrt_compat_call call = {runtime, net, inputs, outputs, false, false, bmrt_compat_first_cores};
    const bool is_launched = is_well && bmrt_compat_launch(&call, &run);
    is_well = is_launched && bmrt_compat_is_well(udo_run_wait(run));
    udo_run_release(run);
    for (int i = 0; is_well && i < output_num; i++) {
        const size_t size = bmrt_tensor_bytesize(&outputs[i]);
        datas[i] = user_mem ? output_datas[i] : malloc(size + 1);
        is_well = datas[i] != NULL && bm_memcpy_d2s_partial(runtime->handle, datas[i], outputs[i].device_mem, (unsigned int)size) == BM_SUCCESS;
    }
    for (int i = 0; i < output_num && datas != NULL; i++) {
        if (is_well) {
            output_datas[i] = datas[i];
            output_shapes[i] = outputs[i].shape;
        } else if (!user_mem) {
            free(datas[i]);
        }
        if (is_launched) bm_free_device(runtime->handle, outputs[i].device_mem);
    }
    for (int i = 0; i < input_num && inputs != NULL; i++) bm_free_device(runtime->handle, inputs[i].device_mem);
    free(inputs);
    free(outputs);
    free(datas);
    return is_well;
}

/* Prints what a runtime has, and what of its device's memory is in use. */
static inline void bmrt_trace(void *p_bmrt) {
    bmrt_compat_runtime *runtime = (bmrt_compat_runtime *)p_bmrt;
    const char *name = NULL;
    udo_memory_stats_t stats;
    if (runtime == NULL || !bmrt_compat_is_well(udo_device_name(runtime->handle->device, &name))) return;
    memset(&stats, 0, sizeof stats);
    if (!bmrt_compat_is_well(udo_device_memory_stats(runtime->handle->device, &stats))) return;
    printf("device %d, %s: %llu bytes in %llu memories, at most %llu\n", runtime->handle->devid, name,
           (unsigned long long)stats.current_bytes, (unsigned long long)stats.memories, (unsigned long long)stats.peak_bytes);
    const char **names = NULL;
    bmrt_get_network_names(p_bmrt, &names);
    for (int i = 0; names != NULL && names[i] != NULL; i++) {
        bmrt_compat_net *net = bmrt_compat_find(runtime, names[i], __func__);
        bmrt_print_network_info(&net->info);
        for (int stage = 0; stage < net->info.stage_num; stage++) {
            udo_model_t *model = NULL;
            const char *report = NULL;
            if (bmrt_compat_is_well(udo_network_model(net->network, (size_t)stage, &model)) && bmrt_compat_is_well(udo_model_json(model, &report)))
                printf("%s\n", report);
            udo_model_release(model);
        }
    }
    free(names);
}

#endif
