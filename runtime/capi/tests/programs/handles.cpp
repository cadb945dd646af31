/* udo.hpp: handles that release themselves, errors that are thrown, elements as spans. */
#include "check.h"
#include "udo.hpp"

#include <fstream>
#include <iterator>

template <class F>
static void throws(F call, udo_error_code_t code, const char *words) {
    try {
        call();
    } catch (const udo::Error &error) {
        CHECK(error.code() == code && std::strstr(error.what(), words) != nullptr);
        return;
    }
    CHECK(!"it throws");
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    const std::vector<float> x = {1, 2, 3, 4, 5, 6}, y = {2, 2, 2, 3, 3, 3};
    const std::vector<float> sum = {3, 4, 5, 7, 8, 9}, product = {6, 8, 10, 21, 24, 27};
    udo::Device cpu;
    CHECK(!cpu);
    std::vector<udo::Tensor> outputs;
    udo::Run run;
    int calls = 0;
    std::uint64_t before = 0;
    {
        const udo::Runtime runtime;
        cpu = runtime.device(UDO_DEVICE_CPU);
        CHECK(runtime.packages().size() == 1 && !runtime.packages()[0].is_contained && udo::take_faults().empty());
        CHECK(cpu && cpu.kind() == UDO_DEVICE_CPU && !cpu.name().empty());
        before = cpu.memory().current_bytes;
        throws([&] { runtime.device(UDO_DEVICE_GPU, 9); }, UDO_ERROR_DEVICE_UNAVAILABLE, "9");
        throws([&] { runtime.load("/nowhere.onnx"); }, UDO_ERROR_INVALID_PATH, "/nowhere.onnx");
        const udo::Model model = runtime.load(argv[1]);
        CHECK(model.input_count() == 2 && model.output_count() == 2 && model.input_name(1) == "y" && model.output_name(1) == "p");
        CHECK((model.input_spec(0).dims() == udo::Dims{2, 3}) && model.output_spec(0).bytes() == 24);
        const udo::Session session(model, &cpu);
        const auto a = udo::Tensor::from_elements<float>(cpu, {2, 3}, x), b = udo::Tensor::from_elements<float>(cpu, {2, 3}, y);
        outputs = session.run({&a, &b});
        CHECK(outputs.size() == 2 && outputs[0].read<float>() == sum && outputs[1].read<float>() == product);
        throws([&] { session.run({&a}); }, UDO_ERROR_INVALID_ARGUMENT, "expected 2");
        throws([&] { session.submit({&a}, [&](const udo_error_t *) { calls += 100; }); }, UDO_ERROR_INVALID_ARGUMENT, "expected 2");
        throws([&] { outputs[0].read<int>(); }, UDO_ERROR_INVALID_ARGUMENT, "another type");
        throws([&] { udo::TensorSpec(UDO_DTYPE_F32, {-2}); }, UDO_ERROR_INVALID_ARGUMENT, "-2");
        /* What a function throws that is told of the end goes to who waits, each time. */
        for (int round = 0; round < 20; round++) {
            const udo::Run told = session.submit({&a, &b}, [round](const udo_error_t *) {
                if (round % 2 == 0) throw std::out_of_range("thrown");
                throw 7;
            });
            for (int wait = 0; wait < 2; wait++) {
                int thrown = 0;
                try {
                    told.wait();
                } catch (const std::out_of_range &error) {
                    thrown = std::strcmp(error.what(), "thrown") == 0 ? 2 : 0;
                } catch (int number) {
                    thrown = number == 7 ? 1 : 0;
                }
                CHECK(thrown == (round % 2 == 0 ? 2 : 1));
            }
            CHECK(told.output(0).read<float>() == sum);
        }
        run = session.submit({&a, &b}, [&](const udo_error_t *error) { calls += error == nullptr ? 1 : 100; });
    }
    /* What was made lives on. */
    run.wait();
    CHECK(run.is_done() && calls == 1 && run.output(1).read<float>() == product);
    outputs[0].reshape(udo::Dims{3, 2});
    CHECK((outputs[0].dims() == udo::Dims{3, 2}) && outputs[0].read<float>() == sum);
    outputs.clear();
    run = udo::Run();
    CHECK(cpu.memory().current_bytes == before);

    const udo::Runtime runtime;
    std::ifstream file(argv[2], std::ios::binary);
    const std::vector<unsigned char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const udo::Model open = runtime.load(bytes);
    CHECK((open.input_spec(0).dims() == udo::Dims{-1, 2}));
    throws([&] { open.input_spec(0).elements(); }, UDO_ERROR_DYNAMIC_SHAPE, "open");
    const float z[4] = {-1, 2, 3, -4};
    // By its former name.
    const auto given = udo::Tensor::of<float>(cpu, {2, 2}, z);
    const udo::Session planned(open);
    throws([&] { planned.json(); }, UDO_ERROR_INVALID_STATE, "leaves shapes open");
    const auto made = planned.run({&given});
    CHECK(planned.json().find("f32[2,2]") != std::string::npos && runtime.report().find("\ncpu:0 ") != std::string::npos);
    CHECK((made[0].dims() == udo::Dims{2, 2}) && (made[0].read<float>() == std::vector<float>{0, 2, 3, 0}));
    const auto scalar = udo::TensorSpec(UDO_DTYPE_I64, udo::Dims{});
    CHECK(scalar.dims().empty() && scalar.elements() == 1 && udo::dtype_of<long long>() == UDO_DTYPE_I64);

    /* A graph, and what falls back. */
    udo::Graph graph("sums");
    const udo::TensorSpec pair(UDO_DTYPE_F32, {2});
    const float tens[2] = {10, 20};
    const std::uint32_t from = graph.tensor(pair, "x"), ten = graph.constant<float>({2}, tens), to = graph.tensor(pair, "y");
    const std::uint32_t both[2] = {from, ten}, in[1] = {from}, out[1] = {to};
    throws([&] { graph.op("CONV4D", both, out); }, UDO_ERROR_INVALID_ARGUMENT, "CONV4D");
    graph.op("ADD", both, out);
    graph.finish(in, out);
    udo_load_options_t options{};
    options.size = sizeof options;
    options.cores = "dsp";
    throws([&] { runtime.compile(graph, &options); }, UDO_ERROR_UNSUPPORTED, "ADD_0");
    options.fallback = UDO_FALLBACK_CPU;
    const udo::Model sums = runtime.compile(graph, &options);
    CHECK(!sums.fallbacks().empty() && std::string(sums.fallbacks()[0].target) == "cpu" && sums.json().find("ADD_0") != std::string::npos);
    const float three[2] = {1, 2};
    const auto threes = udo::Tensor::from_elements<float>(cpu, {2}, three);
    CHECK((udo::Session(sums).run({&threes})[0].read<float>() == std::vector<float>{11, 22}));

    /* Networks with stages. */
    const udo::Networks networks = runtime.networks(argv[3]);
    const udo::Network stages = networks.find("stages");
    CHECK(networks.count() == 3 && networks.at(0).name() == "stages" && stages.stage_count() == 2);
    CHECK((stages.input_spec(1, 0).dims() == udo::Dims{4, 2}) && (stages.output_spec(0, 0).dims() == udo::Dims{2, 2}));
    CHECK(stages.text().find("stage 1") != std::string::npos && stages.model(1).input_count() == 1);
    throws([&] { networks.find("nobody"); }, UDO_ERROR_INVALID_ARGUMENT, "nobody");
    CHECK((udo::Session(stages).run({&given})[0].read<float>() == std::vector<float>{-2, 4, 6, -8}));
    throws([&] { udo::Session(stages, 1).run({&given}); }, UDO_ERROR_SHAPE_MISMATCH, "expected");

    /* Pools, which live on without what they are of. */
    throws([&] { udo::SessionPool(stages.model(), 0); }, UDO_ERROR_INVALID_ARGUMENT, "count is 0");
    throws([&] { udo::SessionPool(open, 65536); }, UDO_ERROR_INVALID_ARGUMENT, "expected at most 65536");
    udo::SessionPool by_shapes, by_model;
    CHECK(!by_shapes && !by_model);
    by_shapes = udo::SessionPool(runtime.networks(argv[3]).find("stages").model(), 2, &cpu);
    by_model = udo::SessionPool(runtime.load(argv[1]), 1);
    by_shapes.reserve();
    calls = 0;
    const auto count = [&](const udo_error_t *error) { calls += error == nullptr ? 1 : 100; };
    const auto doubled = by_shapes.submit({&given}, count);
    doubled.wait();
    CHECK((doubled.output(0).read<float>() == std::vector<float>{-2, 4, 6, -8}));
    const auto a = udo::Tensor::from_elements<float>(cpu, {2, 3}, x), b = udo::Tensor::from_elements<float>(cpu, {2, 3}, y);
    throws([&] { by_shapes.submit({&a}, count); }, UDO_ERROR_SHAPE_MISMATCH, "stage");
    throws([&] { by_model.submit({&a}, count); }, UDO_ERROR_INVALID_ARGUMENT, "1 inputs, expected 2");
    const auto summed = by_model.submit({&a, &b}, count);
    summed.wait();
    CHECK(summed.output(0).read<float>() == sum && calls == 2);
    return 0;
}
