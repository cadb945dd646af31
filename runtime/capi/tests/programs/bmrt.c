/* Programs of BMRuntime on the shim: B01, B02, B08, B09, B13, B15, and the document's flows. It is C and C++. */
#include "check.h"
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
            wrong[1].shape = shape_of(3, 2);
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
    const int core = 0, cores[2] = {0, 0};
    CHECK(bmrt_launch_tensor_multi_cores(runtime, "two", inputs, 2, outputs, 2, true, false, &core, 1));
    CHECK(bm_thread_sync_from_core(handle, 0) == BM_SUCCESS && holds(handle, &outputs[1], PRODUCT));
    CHECK(!bmrt_launch_tensor_multi_cores(runtime, "two", inputs, 2, outputs, 2, true, false, cores, 2));
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

int main(int argc, char **argv) {
    CHECK(argc == 3);
    bm_handle_t handle = NULL, none = NULL;
    CHECK(bm_dev_request(&none, 99) == BM_ERR_DEVNOTREADY && bm_dev_request(&none, -1) == BM_ERR_PARAM && none == NULL);
    CHECK(bm_dev_request(&handle, 0) == BM_SUCCESS);
    copy(handle);
    count_shapes();
    void *runtime = bmrt_create(handle);
    CHECK(runtime != NULL && bmrt_get_bm_handle(runtime) == handle && bmrt_create_ex(&handle, 2) == NULL);
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
    CHECK(bmrt_load_bmodel_data(runtime, text, size));
    const char **names = NULL;
    CHECK(bmrt_get_network_number(runtime) == 3);
    bmrt_get_network_names(runtime, &names);
    CHECK(strcmp(names[0], "two") == 0 && strcmp(names[1], "open") == 0 && strcmp(names[2], "network2") == 0);
    free(names);
    CHECK(bmrt_get_network_info(runtime, "nobody") == NULL);
    const bm_net_info_t *info = bmrt_get_network_info(runtime, "two"), *same = bmrt_get_network_info(runtime, "network2");
    CHECK(!info->is_dynamic && info->input_num == 2 && info->output_num == 2 && info->stage_num == 1 && info->core_num == 1);
    CHECK(strcmp(info->input_names[1], "y") == 0 && strcmp(info->output_names[1], "p") == 0 && info->input_dtypes[0] == BM_FLOAT32);
    CHECK(info->max_input_bytes[0] == 24 && info->max_output_bytes[1] == 24 && info->input_scales[0] == 1 && info->addr_mode == 0);
    CHECK(bmrt_shape_is_same(&info->stages[0].output_shapes[0], &same->stages[0].output_shapes[0]));
    launch(handle, runtime);
    launch_open(handle, runtime);
    launch_data(handle, runtime);
    launch_mapped(handle, runtime);
    bmrt_show_neuron_network(runtime);
    bmrt_trace(runtime);
    /* The order does not matter. */
    bm_dev_free(handle);
    bmrt_destroy(runtime);
    return 0;
}
