/* Classifies one vector by a model with one input and one output of f32: app MODEL NUMBER .. */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <vector>

#include <udo.hpp>

int main(int argc, char **argv) try {
    if (argc < 3) {
        std::fprintf(stderr, "usage: %s MODEL NUMBER ..\n", argv[0]);
        return 2;
    }
    const udo::Runtime runtime;
    const udo::Model model = runtime.load(argv[1]);
    const udo::Session session(model);
    const udo::Device cpu = runtime.device(UDO_DEVICE_CPU);

    std::vector<float> numbers;
    std::transform(argv + 2, argv + argc, std::back_inserter(numbers), [](const char *text) { return std::strtof(text, nullptr); });
    udo::Dims dims = model.input_spec(0).dims();
    std::replace(dims.begin(), dims.end(), std::int64_t{-1}, std::int64_t{1});
    udo::Tensor input(cpu, udo::TensorSpec(UDO_DTYPE_F32, dims));
    input.write<float>(numbers);

    const udo::Run run = session.submit({&input});
    run.wait();
    const udo::Tensor output = run.output(0);
    const std::vector<float> scores = output.read<float>();
    const auto best = std::max_element(scores.begin(), scores.end());
    if (best == scores.end()) return 1;
    std::printf("%s: place %td of %zu, with %g\n", model.output_name(0).c_str(), best - scores.begin(), scores.size(), double{*best});
    return 0;
} catch (const udo::Error &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
}
