/* Programs of BMRuntime's C++ interface on the shim. */
#include "check.h"
#include "bmrt_compat.hpp"

using bmruntime::Context;
using bmruntime::Network;

int main(int argc, char **argv) {
    CHECK(argc == 4);
    const float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {2, 2, 2, 3, 3, 3}, product[6] = {6, 8, 10, 21, 24, 27};
    const float z[4] = {-1, 2, 3, -4}, relu[4] = {0, 2, 3, 0};
    const bm_shape_t shape = {2, {2, 3}}, square = {2, {2, 2}}, none = {0, {0}};
    float found[6];
    Context context;
    CHECK(context.load_bmodel(argv[1]) == BM_SUCCESS && context.load_bmodel(argv[2]) == BM_SUCCESS);
    CHECK(context.load_bmodel(argv[1]) == BM_ERR_PARAM && context.load_bmodel("no model", 8) != BM_SUCCESS);
    std::vector<const char *> names = {"before"};
    context.get_network_names(&names);
    CHECK(context.get_network_number() == 2 && names.size() == 2 && std::string(names[1]) == "open");
    CHECK(context.get_network_info("nobody") == nullptr);
    int thrown = 0;
    try { Network(context, "nobody"); } catch (const std::runtime_error &) { thrown++; }
    try { Network(context, "two", 1); } catch (const std::runtime_error &) { thrown++; }
    try { Context(99); } catch (const std::runtime_error &) { thrown++; }
    CHECK(thrown == 3);

    /* A stage: shapes are fixed. */
    Network fixed(context, "two", 0);
    CHECK(fixed.Inputs().size() == 2 && fixed.Input("y") == fixed.Inputs()[1] && fixed.Input("nobody") == nullptr);
    CHECK(fixed.Inputs()[0]->Reshape(shape) == BM_ERR_NOFEATURE && fixed.Inputs()[0]->ByteSize() == 24);
    CHECK(fixed.Input("x")->CopyFrom(x) == BM_SUCCESS && fixed.Input("y")->CopyFrom(y) == BM_SUCCESS);
    CHECK(fixed.Input("x")->CopyFrom(x, 8, 20) == BM_ERR_PARAM);
    CHECK(fixed.Forward() == BM_SUCCESS && fixed.Output("p")->CopyTo(found) == BM_SUCCESS && memcmp(found, product, sizeof found) == 0);
    CHECK(fixed.Output("p")->CopyTo(found, 4, 20) == BM_SUCCESS && found[0] == 27 && Count(*fixed.Output("p")) == 6);

    /* Shapes and memory of the program. */
    Network free_shapes(context, "two");
    CHECK(free_shapes.Forward() == BM_ERR_FAILURE && free_shapes.Input("x")->Reshape(none) == BM_ERR_PARAM);
    CHECK(free_shapes.Input("x")->Reshape(shape) == BM_SUCCESS && free_shapes.Input("y")->Reshape(shape) == BM_SUCCESS);
    bm_device_mem_t ours, small;
    CHECK(bm_malloc_device_byte(context.handle(), &ours, 24) == BM_SUCCESS && bm_malloc_device_byte(context.handle(), &small, 23) == BM_SUCCESS);
    CHECK(free_shapes.Output("p")->set_device_mem(small) == BM_ERR_PARAM && free_shapes.Output("p")->set_device_mem(ours) == BM_SUCCESS);
    CHECK(free_shapes.Input("x")->CopyFrom(x) == BM_SUCCESS && free_shapes.Input("y")->CopyFrom(y) == BM_SUCCESS);
    CHECK(free_shapes.Forward(false) == BM_SUCCESS && bm_thread_sync(context.handle()) == BM_SUCCESS);
    CHECK(bm_memcpy_d2s(context.handle(), found, ours) == BM_SUCCESS && memcmp(found, product, sizeof found) == 0);

    /* Open shapes, twice. */
    Network open(context, "open");
    for (int round = 0; round < 2; round++) {
        CHECK(open.Inputs()[0]->Reshape(square) == BM_SUCCESS && open.Inputs()[0]->CopyFrom(z) == BM_SUCCESS);
        CHECK(open.Forward() == BM_SUCCESS && bmruntime::IsSameShape(open.Outputs()[0]->tensor()->shape, square));
        CHECK(open.Outputs()[0]->CopyTo(found) == BM_SUCCESS && memcmp(found, relu, sizeof relu) == 0);
    }
    /* Stages: by the shape, or one for good; a range; integers, in other store modes. */
    CHECK(context.load_bmodel(argv[3]) == BM_SUCCESS && context.load_bmodel(argv[3]) == BM_ERR_PARAM && context.get_network_number() == 5);
    CHECK(context.load_bmodel("/nowhere") == BM_ERR_DATA && context.load_bmodel(static_cast<const char *>(nullptr)) == BM_ERR_PARAM);
    const float eight[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    float doubled[8];
    for (const char *name : {"stages", "range"}) {
        Network net(context, name);
        for (int rows : {4, 2, 3, 2}) {
            const bm_shape_t of_rows = {2, {rows, 2}};
            const bool is_taken = rows != 3 || std::string(name) == "range";
            CHECK(net.Inputs()[0]->Reshape(of_rows) == BM_SUCCESS && net.Inputs()[0]->CopyFrom(eight) == BM_SUCCESS);
            CHECK((net.Forward() == BM_SUCCESS) == is_taken);
            if (!is_taken) continue;
            CHECK(net.Output("y")->tensor()->shape.dims[0] == rows && net.Output("y")->ByteSize() == (size_t)rows * 8);
            CHECK(net.Output("y")->CopyTo(doubled) == BM_SUCCESS && doubled[2 * rows - 1] == 4 * (float)rows);
        }
    }
    Network second(context, "stages", 1);
    CHECK(second.Inputs()[0]->tensor()->shape.dims[0] == 4 && second.Inputs()[0]->Reshape(square) == BM_ERR_NOFEATURE);
    CHECK(second.Inputs()[0]->CopyFrom(eight) == BM_SUCCESS && second.Forward() == BM_SUCCESS && second.Outputs()[0]->CopyTo(doubled) == BM_SUCCESS && doubled[7] == 16);
    Network coded(context, "coded", 0);
    const signed char integers[4] = {3, 5, 7, 9};
    unsigned char packed[8];
    coded.Output("y")->set_store_mode(BM_STORE_4N);
    CHECK(coded.Input("x")->CopyFrom(integers) == BM_SUCCESS && coded.Forward() == BM_SUCCESS);
    CHECK(bm_memcpy_d2s_partial(context.handle(), packed, coded.Output("y")->tensor()->device_mem, 8) == BM_SUCCESS);
    CHECK(packed[0] == 7 && packed[1] == 15 && packed[4] == 11 && packed[5] == 19);
    coded.Output("y")->set_store_mode(BM_STORE_2N);
    CHECK(coded.Forward() != BM_SUCCESS);

    bm_free_device(context.handle(), small);
    bm_free_device(context.handle(), ours);
    return 0;
}
