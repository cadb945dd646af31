/* Programs of BMRuntime on the shim: B01, B02, B08, B09, B13, B15, and the document's flows. It is C and C++. */
#include "check.h"

/* What the shim said last. */
static char said[512];
static int said_count;
#define BMRT_COMPAT_LOG(text) ((void)snprintf(said, sizeof said, "%s", text), (void)said_count++)

#include "bmrt_compat.h"

static const float X[6] = {1, 2, 3, 4, 5, 6}, Y[6] = {2, 2, 2, 3, 3, 3};
static const float SUM[6] = {3, 4, 5, 7, 8, 9}, PRODUCT[6] = {6, 8, 10, 21, 24, 27};

static bm_shape_t shape_of(int rows, int columns) {
    const int dims[2] = {rows, columns};
    bm_shape_t shape;
    memset(&shape, 0, sizeof shape);
    bmrt_shape(&shape, dims, 2);
    return shape;
}

static bool holds(bm_handle_t handle, const bm_tensor_t *tensor, const float *wanted) {
    float found[6];
    const unsigned int size = (unsigned int)bmrt_tensor_bytesize(tensor);
    CHECK(size <= sizeof found);
    CHECK(bm_memcpy_d2s_partial(handle, found, tensor->device_mem, size) == BM_SUCCESS);
    return memcmp(found, wanted, size) == 0;
}

static uint64_t in_use(bm_handle_t handle) {
    udo_memory_stats_t stats;
    memset(&stats, 0, sizeof stats);
    DONE(udo_device_memory_stats(handle->device, &stats));
    return stats.current_bytes;
}

static void copy(bm_handle_t handle) {
    unsigned char bytes[64], found[64];
    bm_device_mem_t a, b;
    for (int i = 0; i < 64; i++) bytes[i] = (unsigned char)i;
    CHECK(bm_malloc_device_byte(handle, &a, 64) == BM_SUCCESS && bm_malloc_device_byte(handle, &b, 64) == BM_SUCCESS);
    CHECK(bm_malloc_device_byte(handle, &a, 0) == BM_ERR_PARAM);
    CHECK(bm_mem_get_device_size(a) == 64);
    CHECK(bm_memcpy_s2d(handle, a, bytes) == BM_SUCCESS && bm_memcpy_d2s(handle, found, a) == BM_SUCCESS);
    CHECK(memcmp(bytes, found, 64) == 0);
    /* An offset is one in device memory, and nothing goes beyond its end: B15. */
    CHECK(bm_memcpy_s2d_partial_offset(handle, a, bytes, 4, 60) == BM_SUCCESS);
    CHECK(bm_memcpy_s2d_partial_offset(handle, a, bytes + 32, 5, 60) == BM_ERR_PARAM);
    CHECK(bm_memcpy_d2s_partial_offset(handle, found, a, 4, 60) == BM_SUCCESS && memcmp(found, bytes, 4) == 0);
    CHECK(bm_memcpy_d2s_partial_offset(handle, found, a, 5, 60) == BM_ERR_PARAM);
    /* Words there, bytes here. */
    CHECK(bm_memcpy_d2d(handle, b, 0, a, 56, 2) == BM_SUCCESS);
    CHECK(bm_memcpy_d2s_partial(handle, found, b, 8) == BM_SUCCESS);
    CHECK(memcmp(found, bytes + 56, 4) == 0 && memcmp(found + 4, bytes, 4) == 0);
    CHECK(bm_memcpy_d2d_byte(handle, b, 8, a, 1, 3) == BM_SUCCESS);
    CHECK(bm_memcpy_d2s_partial_offset(handle, found, b, 3, 8) == BM_SUCCESS && memcmp(found, bytes + 1, 3) == 0);
    CHECK(bm_memcpy_d2d(handle, b, 0, a, 56, 3) == BM_ERR_PARAM && bm_memcpy_d2d(handle, b, -4, a, 0, 1) == BM_ERR_PARAM);
    bm_free_device(handle, a);
    bm_free_device(handle, b);
}

static void count_shapes(void) {
    bm_shape_t shape = shape_of(2, 3), other = shape_of(3, 2), scalar = shape_of(1, 1), large;
    const int dims[8] = {INT32_MAX, INT32_MAX, INT32_MAX, 1, 1, 1, 1, 1};
    scalar.num_dims = 0;
    bmrt_shape(&large, dims, 8);
    CHECK(bmrt_shape_count(&shape) == 6 && bmrt_shape_count(&scalar) == 1 && bmrt_shape_count(&large) == 0);
    CHECK(bmrt_shape_is_same(&shape, &shape) && !bmrt_shape_is_same(&shape, &other) && !bmrt_shape_is_same(&shape, &scalar));
}

/* The document's flow: launches over tensors, with memory of the runtime and of the program. */
static void launch(bm_handle_t handle, void *runtime) {
    bm_tensor_t inputs[2], outputs[2];
    CHECK(bmrt_tensor(&inputs[0], runtime, BM_FLOAT32, shape_of(2, 3)) && bmrt_tensor(&inputs[1], runtime, BM_FLOAT32, shape_of(2, 3)));
    CHECK(bmrt_tensor_bytesize(&inputs[0]) == 24 && bmrt_tensor_device_size(&inputs[0]) == 24);
    CHECK(bm_memcpy_s2d_partial(handle, inputs[0].device_mem, (void *)X, 24) == BM_SUCCESS);
    CHECK(bm_memcpy_s2d_partial(handle, inputs[1].device_mem, (void *)Y, 24) == BM_SUCCESS);
    CHECK(bmrt_pre_alloc_neuron_multi_cores(runtime, "two", 0, NULL, 0));
    CHECK(!bmrt_pre_alloc_neuron_multi_cores(runtime, "two", 1, NULL, 0));
    /* B09: memory is as before after a thousand launches, of which some fail. */
    CHECK(bmrt_launch_tensor(runtime, "two", inputs, 2, outputs, 2) && bm_thread_sync(handle) == BM_SUCCESS);
    for (int i = 0; i < 2; i++) bm_free_device(handle, outputs[i].device_mem);
    const uint64_t before = in_use(handle);
    for (int round = 0; round < 1000; round++) {
        if (round % 10 == 9) {
            CHECK(!bmrt_launch_tensor(runtime, "two", inputs, 1, outputs, 2));
            bm_tensor_t wrong[2] = {inputs[0], inputs[1]};
            wrong[1].shape = shape_of(1, 3);
            CHECK(!bmrt_launch_tensor(runtime, "two", wrong, 2, outputs, 2));
            continue;
        }
        memset(outputs, 0xff, sizeof outputs);
        CHECK(bmrt_launch_tensor(runtime, "two", inputs, 2, outputs, 2));
        CHECK(bm_thread_sync(handle) == BM_SUCCESS);
        CHECK(outputs[0].dtype == BM_FLOAT32 && outputs[0].st_mode == BM_STORE_1N && outputs[0].shape.dims[1] == 3);
        CHECK(holds(handle, &outputs[0], SUM) && holds(handle, &outputs[1], PRODUCT));
        for (int i = 0; i < 2; i++) bm_free_device(handle, outputs[i].device_mem);
    }
    CHECK(in_use(handle) == before);
    /* Memory of the program, as large as the network says; one that is smaller is refused. */
    const bm_net_info_t *info = bmrt_get_network_info(runtime, "two");
    for (int i = 0; i < 2; i++) CHECK(bm_malloc_device_byte(handle, &outputs[i].device_mem, (unsigned int)info->max_output_bytes[i]) == BM_SUCCESS);
    /* Lists of cores are strict, and a core is waited for by its number. */
    const int core = 0, cores[2] = {0, 0}, far = 64, below = -1;
    CHECK(bmrt_launch_tensor_multi_cores(runtime, "two", inputs, 2, outputs, 2, true, false, &core, 1));
    CHECK(bm_thread_sync_from_core(handle, 0) == BM_SUCCESS && holds(handle, &outputs[1], PRODUCT));
    CHECK(!bmrt_launch_tensor_multi_cores(runtime, "two", inputs, 2, outputs, 2, true, false, cores, 2));
    CHECK(!bmrt_launch_tensor_multi_cores(runtime, "two", inputs, 2, outputs, 2, true, false, &far, 1));
    CHECK(!bmrt_launch_tensor_multi_cores(runtime, "two", inputs, 2, outputs, 2, true, false, &below, 1));
    CHECK(!bmrt_launch_tensor_multi_cores(runtime, "two", inputs, 2, outputs, 2, true, false, NULL, 1));
    CHECK(!bmrt_pre_alloc_neuron_multi_cores(runtime, "two", 0, &far, 1) && bmrt_pre_alloc_neuron_multi_cores(runtime, "two", 0, &core, 1));
    CHECK(bm_thread_sync_from_core(handle, 64) == BM_ERR_PARAM && bm_thread_sync_from_core(handle, -1) == BM_ERR_PARAM);
    CHECK(bm_thread_sync_from_core(NULL, 0) == BM_ERR_PARAM);
    bm_tensor_t small[2] = {outputs[0], outputs[1]};
    CHECK(bm_malloc_device_byte(handle, &small[1].device_mem, 23) == BM_SUCCESS);
    CHECK(!bmrt_launch_tensor_ex(runtime, "two", inputs, 2, small, 2, true, false));
    bm_free_device(handle, small[1].device_mem);
    outputs[0].st_mode = BM_STORE_4N;
    CHECK(!bmrt_launch_tensor_ex(runtime, "two", inputs, 2, outputs, 2, true, true));
    CHECK(!bmrt_launch_tensor(runtime, "nobody", inputs, 2, outputs, 2));
    for (int i = 0; i < 2; i++) {
        bm_free_device(handle, inputs[i].device_mem);
        bm_free_device(handle, outputs[i].device_mem);
    }
}

/* B08: an open dimension, in memory of the program beyond which nothing is written. */
static void launch_open(bm_handle_t handle, void *runtime) {
    const bm_net_info_t *info = bmrt_get_network_info(runtime, "open");
    CHECK(info->is_dynamic && info->input_num == 1 && info->stages[0].input_shapes[0].dims[0] == -1 && info->max_input_bytes[0] == 0);
    const float x[4] = {-1, 2, 3, -4}, wanted[6] = {0, 2, 3, 0, 9, 9};
    float found[6] = {9, 9, 9, 9, 9, 9};
    bm_tensor_t input, output;
    memset(&output, 0, sizeof output);
    CHECK(bmrt_tensor(&input, runtime, BM_FLOAT32, shape_of(2, 2)));
    CHECK(bm_memcpy_s2d(handle, input.device_mem, (void *)x) == BM_SUCCESS);
    CHECK(bm_malloc_device_byte(handle, &output.device_mem, sizeof found) == BM_SUCCESS);
    CHECK(bm_memcpy_s2d(handle, output.device_mem, found) == BM_SUCCESS);
    CHECK(bmrt_launch_tensor_ex(runtime, "open", &input, 1, &output, 1, true, false));
    CHECK(output.shape.num_dims == 2 && output.shape.dims[0] == 2 && output.dtype == BM_FLOAT32);
    CHECK(bm_memcpy_d2s(handle, found, output.device_mem) == BM_SUCCESS && memcmp(found, wanted, sizeof found) == 0);
    bm_free_device(handle, output.device_mem);
    CHECK(bmrt_launch_tensor(runtime, "open", &input, 1, &output, 1));
    CHECK(bmrt_tensor_device_size(&output) == 16 && holds(handle, &output, wanted));
    bm_free_device(handle, output.device_mem);
    bm_free_device(handle, input.device_mem);
}

/* B13: memory of the host, of the program and of the runtime. */
static void launch_data(bm_handle_t handle, void *runtime) {
    void *const inputs[2] = {(void *)X, (void *)Y};
    const bm_shape_t shapes[2] = {shape_of(2, 3), shape_of(2, 3)};
    float sum[6], product[6];
    void *ours[2] = {sum, product}, *theirs[2] = {NULL, NULL};
    bm_shape_t made[2];
    const uint64_t before = in_use(handle);
    CHECK(bmrt_launch_data(runtime, "two", inputs, shapes, 2, ours, made, 2, true));
    CHECK(memcmp(sum, SUM, sizeof sum) == 0 && memcmp(product, PRODUCT, sizeof product) == 0 && bmrt_shape_is_same(&made[1], &shapes[0]));
    CHECK(bmrt_launch_data(runtime, "two", inputs, shapes, 2, theirs, made, 2, false));
    CHECK(memcmp(theirs[0], SUM, sizeof sum) == 0 && memcmp(theirs[1], PRODUCT, sizeof product) == 0);
    free(theirs[0]);
    free(theirs[1]);
    const bm_shape_t wrong[2] = {shape_of(2, 3), shape_of(1, 3)};
    CHECK(!bmrt_launch_data(runtime, "two", inputs, wrong, 2, ours, made, 2, true));
    CHECK(in_use(handle) == before);
}

/* The document's example of mapped memory, which stays mapped over the launch. */
static void launch_mapped(bm_handle_t handle, void *runtime) {
    bm_tensor_t inputs[2], outputs[2];
    unsigned long long at[3];
    for (int i = 0; i < 2; i++) CHECK(bmrt_tensor(&inputs[i], runtime, BM_FLOAT32, shape_of(2, 3)));
    for (int i = 0; i < 2; i++) CHECK(bm_malloc_device_byte(handle, &outputs[i].device_mem, 24) == BM_SUCCESS);
    for (int i = 0; i < 2; i++) {
        CHECK(bm_mem_mmap_device_mem(handle, &inputs[i].device_mem, &at[i]) == BM_SUCCESS);
        memcpy((void *)(uintptr_t)at[i], i == 0 ? X : Y, 24);
        CHECK(bm_mem_flush_device_mem(handle, &inputs[i].device_mem) == BM_SUCCESS);
    }
    CHECK(bm_mem_mmap_device_mem(handle, &outputs[0].device_mem, &at[2]) == BM_SUCCESS);
    CHECK(bm_mem_flush_partial_device_mem(handle, &inputs[0].device_mem, 8, 16) == BM_SUCCESS);
    CHECK(bm_mem_flush_partial_device_mem(handle, &inputs[0].device_mem, 8, 17) == BM_ERR_PARAM);
    CHECK(bmrt_launch_tensor_ex(runtime, "two", inputs, 2, outputs, 2, true, false) && bm_thread_sync(handle) == BM_SUCCESS);
    CHECK(bm_mem_invalidate_device_mem(handle, &outputs[0].device_mem) == BM_SUCCESS);
    CHECK(bm_mem_invalidate_partial_device_mem(handle, &outputs[0].device_mem, 0, 24) == BM_SUCCESS);
    CHECK(memcmp((void *)(uintptr_t)at[2], SUM, sizeof SUM) == 0);
    for (int i = 0; i < 3; i++) CHECK(bm_mem_unmap_device_mem(handle, (void *)(uintptr_t)at[i], 24) == BM_SUCCESS);
    for (int i = 0; i < 2; i++) {
        bm_free_device(handle, inputs[i].device_mem);
        bm_free_device(handle, outputs[i].device_mem);
    }
}

/* B02, B05 and B22: networks of one file, of which one has two stages and one has a range. */
static void launch_stages(bm_handle_t handle, void *runtime, const char *path) {
    const float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    CHECK(bmrt_load_bmodel(runtime, path) && bmrt_get_network_number(runtime) == 4);
    const bm_net_info_t *info = bmrt_get_network_info(runtime, "stages"), *range = bmrt_get_network_info(runtime, "range");
    CHECK(!info->is_dynamic && info->stage_num == 2 && info->max_input_bytes[0] == 32 && info->max_output_bytes[0] == 32);
    CHECK(info->stages[0].input_shapes[0].dims[0] == 2 && info->stages[1].input_shapes[0].dims[0] == 4);
    CHECK(info->stages[1].output_shapes[0].num_dims == 2 && info->stages[1].output_shapes[0].dims[0] == 4);
    CHECK(range->is_dynamic && range->stage_num == 1 && range->stages[0].input_shapes[0].dims[0] == 4 && range->max_input_bytes[0] == 32);
    CHECK(range->stages[0].output_shapes[0].dims[0] == 4 && range->max_output_bytes[0] == 32 && range->output_dtypes[0] == BM_FLOAT32);
    bmrt_print_network_info(info);
    bmrt_print_network_info(NULL);
    /* A range is of one stage, and takes what is in it alone. */
    const char *const nets[2] = {"stages", "range"};
    for (int net = 0; net < 2; net++) {
        for (int rows = 1; rows < 6; rows++) {
            bm_tensor_t input, output;
            CHECK(bmrt_tensor(&input, runtime, BM_FLOAT32, shape_of(rows, 2)));
            CHECK(bm_memcpy_s2d_partial(handle, input.device_mem, (void *)x, rows < 5 ? (unsigned int)rows * 8 : 32) == BM_SUCCESS);
            const bool is_taken = net == 0 ? rows == 2 || rows == 4 : rows < 5;
            CHECK(bmrt_launch_tensor(runtime, nets[net], &input, 1, &output, 1) == is_taken);
            if (is_taken) {
                float found[8];
                CHECK(bm_thread_sync(handle) == BM_SUCCESS && output.shape.dims[0] == rows && bmrt_tensor_bytesize(&output) == (size_t)rows * 8);
                CHECK(bm_memcpy_d2s_partial(handle, found, output.device_mem, (unsigned int)rows * 8) == BM_SUCCESS);
                for (int i = 0; i < 2 * rows; i++) CHECK(found[i] == 2 * x[i]);
                bm_free_device(handle, output.device_mem);
            }
            bm_free_device(handle, input.device_mem);
        }
    }
    CHECK(bmrt_pre_alloc_neuron_multi_cores(runtime, "stages", 1, NULL, 0) && !bmrt_pre_alloc_neuron_multi_cores(runtime, "stages", 2, NULL, 0));
    CHECK(!bmrt_pre_alloc_neuron_multi_cores(runtime, "stages", -1, NULL, 0));
    /* Scales and zero points are those of the model's integers. */
    const bm_net_info_t *coded = bmrt_get_network_info(runtime, "coded");
    CHECK(coded->input_dtypes[0] == BM_INT8 && coded->input_scales[0] == 0.5f && coded->input_zero_point[0] == 3);
    CHECK(coded->output_dtypes[0] == BM_UINT8 && coded->output_scales[0] == 0.25f && coded->output_zero_point[0] == 7);
    /* Whole or not at all. */
    CHECK(!bmrt_load_bmodel(runtime, path) && bmrt_get_network_number(runtime) == 4);
}

/* Without a sync between them, launches and copies of a handle are in order. */
static void launch_in_order(bm_handle_t handle, void *runtime) {
    const float zeros[6] = {0, 0, 0, 0, 0, 0};
    float found[6];
    bm_tensor_t inputs[2], outputs[2], next[2];
    for (int i = 0; i < 2; i++) CHECK(bmrt_tensor(&inputs[i], runtime, BM_FLOAT32, shape_of(2, 3)) && bmrt_tensor(&outputs[i], runtime, BM_FLOAT32, shape_of(2, 3)));
    for (int round = 0; round < 50; round++) {
        CHECK(bm_memcpy_s2d(handle, inputs[0].device_mem, (void *)X) == BM_SUCCESS && bm_memcpy_s2d(handle, inputs[1].device_mem, (void *)Y) == BM_SUCCESS);
        CHECK(bmrt_launch_tensor_ex(runtime, "two", inputs, 2, outputs, 2, true, false));
        CHECK(bmrt_launch_tensor_ex(runtime, "two", inputs, 2, outputs, 2, true, false));
        /* What the first one makes, the second one reads: s, y and s + y. */
        const bm_tensor_t chained[2] = {outputs[0], inputs[1]};
        CHECK(bmrt_launch_tensor(runtime, "two", chained, 2, next, 2));
        CHECK(bm_memcpy_d2s(handle, found, next[0].device_mem) == BM_SUCCESS);
        for (int i = 0; i < 6; i++) CHECK(found[i] == SUM[i] + Y[i]);
        CHECK(bmrt_launch_tensor_ex(runtime, "two", inputs, 2, outputs, 2, true, false));
        CHECK(bm_memcpy_s2d(handle, inputs[0].device_mem, (void *)zeros) == BM_SUCCESS);
        CHECK(bm_memcpy_d2d(handle, next[1].device_mem, 0, outputs[1].device_mem, 0, 6) == BM_SUCCESS && holds(handle, &next[1], PRODUCT));
        CHECK(bm_thread_sync(handle) == BM_SUCCESS);
        for (int i = 0; i < 2; i++) bm_free_device(handle, next[i].device_mem);
    }
    /* Sent as bytes it is the same launch, as often as wanted. */
    const float other[6] = {5, 6, 7, 10, 11, 12};
    CHECK(bm_memcpy_s2d(handle, inputs[0].device_mem, (void *)X) == BM_SUCCESS);
    api_info_c *info = get_bmodel_api_info_c(runtime, "two", inputs, 2, next, 2, false, false);
    CHECK(info != NULL && info->api_id_num == 1 && info->api_data_num == 1 && next[1].shape.dims[1] == 3);
    for (int round = 0; round < 2; round++) {
        CHECK(bm_send_api(handle, (int)info->api_id[0], info->api_data[0], (uint32_t)info->api_data_subsize[0]) == BM_SUCCESS);
        CHECK(bm_thread_sync(handle) == BM_SUCCESS && holds(handle, &next[0], round == 0 ? SUM : other));
        /* What is in the inputs when it is sent. */
        CHECK(bm_memcpy_s2d(handle, inputs[0].device_mem, (void *)SUM) == BM_SUCCESS);
    }
    CHECK(bm_send_api(handle, 7, info->api_data[0], 16) == BM_ERR_PARAM && bm_send_api(handle, 1, NULL, 16) == BM_ERR_PARAM);
    CHECK(bm_send_api(NULL, 1, info->api_data[0], 16) == BM_ERR_PARAM && bm_send_api(handle, 1, (const uint8_t *)"no launch at all", 16) == BM_ERR_PARAM);
    CHECK(get_bmodel_api_info_c(runtime, "nobody", inputs, 2, next, 2, false, false) == NULL);
    CHECK(get_bmodel_api_info_c(runtime, "two", inputs, 1, next, 2, false, false) == NULL);
    CHECK(get_bmodel_api_info_c(runtime, "open", inputs, 1, next, 1, false, false) == NULL);
    bmrt_free_api_info(info);
    bmrt_free_api_info(NULL);
    for (int i = 0; i < 2; i++) bm_free_device(handle, next[i].device_mem);
    /* In place it would read what it writes. */
    bm_tensor_t same[2] = {inputs[0], outputs[1]};
    CHECK(!bmrt_launch_tensor_ex(runtime, "two", inputs, 2, same, 2, true, false));
    for (int i = 0; i < 2; i++) {
        bm_free_device(handle, inputs[i].device_mem);
        bm_free_device(handle, outputs[i].device_mem);
    }
}

static void *launch_often(void *runtime) {
    bm_handle_t handle = (bm_handle_t)bmrt_get_bm_handle(runtime);
    bm_tensor_t inputs[2], outputs[2];
    for (int i = 0; i < 2; i++) {
        CHECK(bmrt_tensor(&inputs[i], runtime, BM_FLOAT32, shape_of(2, 3)));
        CHECK(bm_memcpy_s2d_partial(handle, inputs[i].device_mem, (void *)(i == 0 ? X : Y), 24) == BM_SUCCESS);
    }
    for (int round = 0; round < 100; round++) {
        CHECK(bmrt_launch_tensor(runtime, "two", inputs, 2, outputs, 2));
        CHECK(bm_thread_sync(handle) == BM_SUCCESS && holds(handle, &outputs[1], PRODUCT));
        for (int i = 0; i < 2; i++) bm_free_device(handle, outputs[i].device_mem);
    }
    for (int i = 0; i < 2; i++) bm_free_device(handle, inputs[i].device_mem);
    return NULL;
}

/* One network on several threads. */
static void launch_together(bm_handle_t handle, void *runtime) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, launch_often, runtime) == 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    CHECK(bm_thread_sync(handle) == BM_SUCCESS);
}

/* What is NULL, or of another handle, is refused or nothing. */
static void misuse(bm_handle_t handle) {
    char bytes[8] = {0};
    bm_device_mem_t none = {NULL, 0}, here, *nowhere = NULL;
    bm_tensor_t tensor = {BM_FLOAT32, shape_of(1, 2), none, BM_STORE_1N};
    bm_shape_t shape = shape_of(1, 2);
    unsigned long long at = 0;
    bm_handle_t other = NULL;
    CHECK(bm_dev_request(NULL, 0) == BM_ERR_PARAM && bm_dev_request(&other, 0) == BM_SUCCESS);
    CHECK(bm_malloc_device_byte(NULL, &here, 8) == BM_ERR_PARAM && bm_malloc_device_byte(handle, NULL, 8) == BM_ERR_PARAM);
    CHECK(bm_malloc_device_byte(handle, &here, 8) == BM_SUCCESS);
    bm_free_device(handle, none);
    CHECK(bm_memcpy_s2d(handle, none, bytes) == BM_ERR_PARAM && bm_memcpy_d2s(handle, bytes, none) == BM_ERR_PARAM);
    CHECK(bm_memcpy_s2d(NULL, here, bytes) == BM_ERR_PARAM && bm_memcpy_s2d(handle, here, NULL) == BM_ERR_PARAM);
    CHECK(bm_memcpy_d2s(handle, NULL, here) == BM_ERR_PARAM && bm_memcpy_d2d(handle, none, 0, here, 0, 1) == BM_ERR_PARAM);
    CHECK(bm_mem_mmap_device_mem(handle, nowhere, &at) == BM_ERR_PARAM && bm_mem_flush_device_mem(handle, NULL) == BM_ERR_PARAM);
    CHECK(bm_mem_unmap_device_mem(handle, NULL, 8) == BM_ERR_PARAM && bm_mem_invalidate_device_mem(NULL, &here) == BM_ERR_PARAM);
    CHECK(bm_thread_sync(NULL) == BM_ERR_PARAM);
    /* A device has one memory, whichever handle it was opened by. */
    CHECK(bm_memcpy_s2d(other, here, bytes) == BM_SUCCESS);
    bmrt_shape(NULL, shape.dims, 2);
    bmrt_shape(&shape, NULL, 2);
    bmrt_shape(&shape, shape.dims, 9);
    CHECK(shape.num_dims == 2 && bmrt_shape_count(NULL) == 0 && !bmrt_shape_is_same(NULL, &shape) && bmrt_tensor_bytesize(NULL) == 0);
    CHECK(!bmrt_tensor(NULL, NULL, BM_FLOAT32, shape) && !bmrt_tensor(&tensor, NULL, BM_FLOAT32, shape));
    CHECK(!bmrt_tensor_with_device(NULL, here, BM_FLOAT32, shape) && bmrt_tensor_with_device(&tensor, here, BM_FLOAT32, shape));
    CHECK(!bmrt_tensor_with_device(&tensor, here, BM_FLOAT32, shape_of(1, 3)) && bmrt_tensor_device_size(&tensor) == 8);
    CHECK(bmrt_create(NULL) == NULL && bmrt_create_ex(NULL, 1) == NULL && bmrt_create_ex(&handle, 0) == NULL && bmrt_get_bm_handle(NULL) == NULL);
    void *runtime = bmrt_create(handle);
    CHECK(!bmrt_tensor(&tensor, runtime, (bm_data_type_t)77, shape) && tensor.device_mem.memory == NULL);
    CHECK(!bmrt_load_bmodel(NULL, "x") && !bmrt_load_bmodel(runtime, NULL) && !bmrt_load_bmodel_data(runtime, NULL, 8) && !bmrt_load_bmodel_data(runtime, "x", 0));
    CHECK(bmrt_get_network_number(NULL) == 0 && bmrt_get_network_info(NULL, "x") == NULL && bmrt_get_network_info(runtime, NULL) == NULL);
    bmrt_get_network_names(runtime, NULL);
    bmrt_show_neuron_network(NULL);
    bmrt_trace(NULL);
    CHECK(!bmrt_launch_tensor(NULL, "x", &tensor, 1, &tensor, 1) && !bmrt_launch_data(runtime, "x", NULL, NULL, 1, NULL, NULL, 1, false));
    bmrt_destroy(runtime);
    bm_free_device(handle, here);
    bm_dev_free(other);
}

/* A runtime on several handles: operations run on the first of their devices that takes them. Memory of each of them will do. */
static void launch_on_several(const char *path) {
    bm_handle_t handles[3] = {NULL, NULL, NULL}, handle = NULL;
    for (int id = 0; bm_dev_request(&handle, id) == BM_SUCCESS; id++) {
        udo_device_kind_t kind = 0;
        DONE(udo_device_kind(handle->device, &kind));
        const int place = kind == UDO_DEVICE_DSP ? 0 : kind == UDO_DEVICE_GPU ? 1 : kind == UDO_DEVICE_CPU ? 2 : 3;
        if (place < 3 && handles[place] == NULL) {
            handles[place] = handle;
        } else {
            bm_dev_free(handle);
        }
    }
    CHECK(handles[0] != NULL && handles[1] != NULL && handles[2] != NULL);
    for (int count = 1; count < 4; count++) {
        void *runtime = bmrt_create_ex(handles, count);
        udo_model_t *model = NULL;
        const char *json = NULL;
        CHECK(runtime != NULL && bmrt_get_bm_handle(runtime) == handles[0] && bmrt_load_bmodel(runtime, path));
        DONE(udo_network_model(((bmrt_compat_runtime *)runtime)->nets[0]->network, 0, &model));
        DONE(udo_model_json(model, &json));
        /* Floats are nothing for the DSP. */
        CHECK((strstr(json, "\"core\": \"gpu\"") != NULL) == (count > 1) && (strstr(json, "\"core\": \"cpu\"") != NULL) == (count == 1));
        udo_model_release(model);
        bm_tensor_t inputs[2], outputs[2];
        for (int i = 0; i < 2; i++) {
            const bm_handle_t of = handles[i % count];
            CHECK(bmrt_tensor(&inputs[i], runtime, BM_FLOAT32, shape_of(2, 3)));
            bm_free_device(handles[0], inputs[i].device_mem);
            CHECK(bm_malloc_device_byte(of, &inputs[i].device_mem, 24) == BM_SUCCESS);
            CHECK(bm_memcpy_s2d(of, inputs[i].device_mem, (void *)(i == 0 ? X : Y)) == BM_SUCCESS);
        }
        CHECK(bmrt_launch_tensor(runtime, "two", inputs, 2, outputs, 2) && bm_thread_sync(handles[0]) == BM_SUCCESS);
        CHECK(holds(handles[0], &outputs[0], SUM) && holds(handles[0], &outputs[1], PRODUCT));
        for (int i = 0; i < 2; i++) {
            bm_free_device(handles[i % count], inputs[i].device_mem);
            bm_free_device(handles[0], outputs[i].device_mem);
        }
        bmrt_destroy(runtime);
    }
    for (int i = 0; i < 3; i++) bm_dev_free(handles[i]);
}

/* Stages that are told apart by what their graphs fix, and stages whose integers stand for different numbers. */
static void launch_fixed(bm_handle_t handle, const char *fixed, const char *scales) {
    void *runtime = bmrt_create(handle);
    CHECK(bmrt_load_bmodel(runtime, fixed) && bmrt_load_bmodel(runtime, scales));
    const int shapes[3][2] = {{2, 2}, {4, 3}, {3, 4}};
    const float x[12] = {1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6};
    for (int i = 0; i < 3; i++) {
        bm_tensor_t input, output;
        float y[12];
        CHECK(bmrt_tensor(&input, runtime, BM_FLOAT32, shape_of(shapes[i][0], shapes[i][1])));
        CHECK(bm_memcpy_s2d(handle, input.device_mem, (void *)x) == BM_SUCCESS);
        CHECK(bmrt_launch_tensor(runtime, "fixed", &input, 1, &output, 1) == (i < 2));
        if (i < 2) {
            CHECK(bm_thread_sync(handle) == BM_SUCCESS && bmrt_shape_is_same(&output.shape, &input.shape));
            CHECK(bm_memcpy_d2s(handle, y, output.device_mem) == BM_SUCCESS && y[0] == 1 && y[1] == 0 && y[2] == 2 && y[3] == 0);
            bm_free_device(handle, output.device_mem);
        } else {
            CHECK(strstr(said, "no stage of network") != NULL);
        }
        bm_free_device(handle, input.device_mem);
    }
    const bm_net_info_t *info = bmrt_get_network_info(runtime, "scales");
    CHECK(info->stage_num == 3 && info->input_scales[0] == 1 && info->input_zero_point[0] == 0);
    CHECK(info->output_scales[0] == 0.25f && info->output_zero_point[0] == 7);
    bmrt_destroy(runtime);
}

/* What no device of a runtime takes is said, and what is refused is. */
static void say(const char *path, const char *open_path) {
    for (int device = 0;; device++) {
        bm_handle_t handle = NULL;
        if (bm_dev_request(&handle, device) != BM_SUCCESS) break;
        udo_device_kind_t kind = 0;
        DONE(udo_device_kind(handle->device, &kind));
        void *runtime = bmrt_create(handle);
        said_count = 0;
        CHECK(bmrt_load_bmodel(runtime, path));
        /* Two operations of floating-point numbers. */
        CHECK(said_count == (kind == UDO_DEVICE_CPU || kind == UDO_DEVICE_GPU ? 0 : 2));
        if (said_count > 0) CHECK(strstr(said, "network \"two\" stage 0: operation \"") != NULL && strstr(said, " runs on cpu, as ") != NULL);
        said_count = 0;
        CHECK(bmrt_get_network_info(runtime, "nobody") == NULL && said_count == 1 && strstr(said, "bmrt_get_network_info: ") == said);
        CHECK(bm_thread_sync(NULL) == BM_ERR_PARAM && said_count == 2 && !bmrt_load_bmodel(runtime, NULL) && said_count == 3);
        CHECK(bmrt_create(NULL) == NULL && said_count == 4);
        /* Where only shapes say what a device takes, the first launch does. */
        bm_tensor_t input, output;
        CHECK(bmrt_load_bmodel(runtime, open_path) && said_count == 4 && bmrt_tensor(&input, runtime, BM_FLOAT32, shape_of(3, 2)));
        CHECK(bm_memcpy_s2d(handle, input.device_mem, (void *)X) == BM_SUCCESS);
        for (int i = 0; i < 2; i++) {
            CHECK(bmrt_launch_tensor(runtime, "open", &input, 1, &output, 1) && bm_thread_sync(handle) == BM_SUCCESS && holds(handle, &output, X));
            bm_free_device(handle, output.device_mem);
        }
        CHECK(said_count == (kind == UDO_DEVICE_CPU || kind == UDO_DEVICE_GPU ? 4 : 5));
        if (said_count == 5) CHECK(strstr(said, "network \"open\": operations of its first launch ran on the CPU") == said);
        bm_free_device(handle, input.device_mem);
        bmrt_destroy(runtime);
        bm_dev_free(handle);
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 6);
    bm_handle_t handle = NULL, none = NULL;
    CHECK(bm_dev_request(&none, 99) == BM_ERR_DEVNOTREADY && bm_dev_request(&none, -1) == BM_ERR_PARAM && none == NULL);
    CHECK(bm_dev_request(&handle, 0) == BM_SUCCESS);
    copy(handle);
    count_shapes();
    misuse(handle);
    bm_handle_t handles[2] = {handle, NULL};
    void *runtime = bmrt_create(handle), *again = bmrt_create_ex(handles, 1);
    CHECK(runtime != NULL && bmrt_get_bm_handle(runtime) == handle && bmrt_create_ex(handles, 2) == NULL);
    CHECK(!bmrt_load_bmodel(runtime, "/nowhere.bmodel") && !bmrt_load_bmodel_data(runtime, "no model", 8));
    CHECK(bmrt_get_network_number(runtime) == 0);
    /* B02 and B01: two networks, one of them by bytes again. */
    CHECK(bmrt_load_bmodel(runtime, argv[1]) && bmrt_load_bmodel(runtime, argv[2]));
    CHECK(!bmrt_load_bmodel(runtime, argv[1]));
    char text[512];
    FILE *file = fopen(argv[1], "rb");
    CHECK(file != NULL);
    const size_t size = fread(text, 1, sizeof text, file);
    fclose(file);
    CHECK(bmrt_load_bmodel_data(again, text, size) && !bmrt_load_bmodel_data(again, text, size - 20));
    CHECK(!bmrt_load_bmodel_data(runtime, text, size));
    const char **names = NULL;
    CHECK(bmrt_get_network_number(runtime) == 2 && bmrt_get_network_number(again) == 1);
    bmrt_get_network_names(runtime, &names);
    CHECK(strcmp(names[0], "two") == 0 && strcmp(names[1], "open") == 0);
    free(names);
    CHECK(bmrt_get_network_info(runtime, "nobody") == NULL);
    const bm_net_info_t *info = bmrt_get_network_info(runtime, "two"), *same = bmrt_get_network_info(again, "two");
    CHECK(!info->is_dynamic && info->input_num == 2 && info->output_num == 2 && info->stage_num == 1 && info->core_num == 1);
    CHECK(strcmp(info->input_names[1], "y") == 0 && strcmp(info->output_names[1], "p") == 0 && info->input_dtypes[0] == BM_FLOAT32);
    CHECK(info->max_input_bytes[0] == 24 && info->max_output_bytes[1] == 24 && info->input_scales[0] == 1 && info->addr_mode == 0);
    CHECK(bmrt_shape_is_same(&info->stages[0].output_shapes[0], &same->stages[0].output_shapes[0]));
    launch(handle, runtime);
    launch_open(handle, runtime);
    launch_data(handle, runtime);
    launch_mapped(handle, runtime);
    launch_stages(handle, again, argv[3]);
    launch_in_order(handle, runtime);
    launch_together(handle, runtime);
    launch_on_several(argv[1]);
    launch_fixed(handle, argv[4], argv[5]);
    say(argv[1], argv[2]);
    bmrt_show_neuron_network(runtime);
    bmrt_trace(runtime);
    /* The order does not matter. */
    bm_dev_free(handle);
    bmrt_destroy(runtime);
    bmrt_destroy(again);
    bmrt_destroy(NULL);
    bm_dev_free(NULL);
    return 0;
}
