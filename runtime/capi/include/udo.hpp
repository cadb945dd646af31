/*
 * The C++17 interface of the UDO runtime: RAII handles and exceptions. Everything is inline and uses only udo.h.
 *
 * - A handle is movable and the only owner of its object. Pass `get()` to functions of udo.h that have no member here.
 * - A refused call throws `udo::Error` with the code and message of udo.h.
 * - A callback at the end of a run may throw. If the run succeeded, `Run::wait` rethrows the exception.
 * - Elements are passed as spans. Their type is checked against the type of the tensor.
 * - Threads may share handles as udo.h describes for each type.
 */
#ifndef UDO_HPP
#define UDO_HPP

#include <cstring>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "udo.h"

namespace udo {

/* The error of a refused call. */
class Error : public std::runtime_error {
public:
    Error(udo_error_code_t code, const std::string &message) : std::runtime_error(message), code_(code) {}
    udo_error_code_t code() const noexcept { return code_; }

private:
    udo_error_code_t code_;
};

/* Throws and releases an error; NULL is success. */
inline void check(udo_error_t *error) {
    if (error == nullptr) return;
    const Error thrown(udo_error_code(error), udo_error_message(error));
    udo_error_release(error);
    throw thrown;
}

/* A view of contiguous elements that it does not own. */
template <class T>
class Span {
public:
    constexpr Span() noexcept = default;
    constexpr Span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <std::size_t N>
    constexpr Span(T (&of)[N]) noexcept : Span(of, N) {}
    template <class C, class = std::enable_if_t<std::is_convertible_v<decltype(std::declval<C &>().data()), T *>>>
    constexpr Span(C &&of) noexcept : Span(of.data(), of.size()) {}
    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t i) const { return data_[i]; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

/* The dimensions of a tensor. */
using Dims = std::vector<std::int64_t>;

/* Returns the element type of `T`. */
template <class T>
constexpr udo_dtype_t dtype_of() {
    using U = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<U, float>) return UDO_DTYPE_F32;
    else if constexpr (std::is_same_v<U, double>) return UDO_DTYPE_F64;
    else if constexpr (std::is_same_v<U, bool>) return UDO_DTYPE_BOOL;
    else {
        static_assert(std::is_integral_v<U> && sizeof(U) <= 8, "a type that no tensor has");
        constexpr udo_dtype_t with_sign[4] = {UDO_DTYPE_I8, UDO_DTYPE_I16, UDO_DTYPE_I32, UDO_DTYPE_I64};
        constexpr udo_dtype_t without[4] = {UDO_DTYPE_U8, UDO_DTYPE_U16, UDO_DTYPE_U32, UDO_DTYPE_U64};
        constexpr int at = sizeof(U) == 1 ? 0 : sizeof(U) == 2 ? 1 : sizeof(U) == 4 ? 2 : 3;
        return std::is_signed_v<U> ? with_sign[at] : without[at];
    }
}

/* The unique owner of a handle of udo.h. */
template <class T, void (*RELEASE)(T *)>
class Handle {
public:
    explicit Handle(T *of = nullptr) noexcept : of_(of) {}
    T *get() const noexcept { return of_.get(); }
    explicit operator bool() const noexcept { return of_ != nullptr; }

private:
    struct Release {
        void operator()(T *of) const noexcept { RELEASE(of); }
    };
    std::unique_ptr<T, Release> of_;
};

/* Returns the handle that a call creates. */
template <class H, class F>
H made_by(F call) {
    decltype(std::declval<H>().get()) out = nullptr;
    check(call(&out));
    return H(out);
}

/* Returns the number or string that a call writes. */
template <class T, class F>
T told_by(F call) {
    T out{};
    check(call(&out));
    return out;
}

/* A device of a runtime. */
class Device : public Handle<udo_device_t, udo_device_release> {
public:
    using Handle::Handle;
    std::string name() const { return told_by<const char *>([&](auto out) { return udo_device_name(get(), out); }); }
    udo_device_kind_t kind() const { return told_by<udo_device_kind_t>([&](auto out) { return udo_device_kind(get(), out); }); }
    udo_memory_stats_t memory() const { return told_by<udo_memory_stats_t>([&](auto out) { return udo_device_memory_stats(get(), out); }); }
};

/* The type, dimensions and layout of tensors. */
class TensorSpec : public Handle<udo_tensor_spec_t, udo_tensor_spec_release> {
public:
    using Handle::Handle;
    TensorSpec(udo_dtype_t dtype, Span<const std::int64_t> dims)
        : TensorSpec(made_by<TensorSpec>([&](auto out) { return udo_tensor_spec_create(dtype, dims.data(), dims.size(), out); })) {}
    TensorSpec(udo_dtype_t dtype, std::initializer_list<std::int64_t> dims)
        : TensorSpec(dtype, Span<const std::int64_t>(dims.begin(), dims.size())) {}
    udo_dtype_t dtype() const { return told_by<udo_dtype_t>([&](auto out) { return udo_tensor_spec_dtype(get(), out); }); }
    /* Returns the dimensions; -1 is an open dimension. */
    Dims dims() const {
        Dims dims(told_by<std::size_t>([&](auto out) { return udo_tensor_spec_rank(get(), out); }) + 1);
        check(udo_tensor_spec_dims(get(), dims.data(), dims.size() - 1));
        dims.pop_back();
        return dims;
    }
    std::uint64_t elements() const { return told_by<std::uint64_t>([&](auto out) { return udo_tensor_spec_elements(get(), out); }); }
    std::uint64_t bytes() const { return told_by<std::uint64_t>([&](auto out) { return udo_tensor_spec_byte_size(get(), out); }); }
};

/* A tensor in the memory of a device. */
class Tensor : public Handle<udo_tensor_t, udo_tensor_release> {
public:
    using Handle::Handle;
    Tensor(const Device &device, const TensorSpec &spec)
        : Tensor(made_by<Tensor>([&](auto out) { return udo_tensor_create(device.get(), spec.get(), out); })) {}
    /* Creates a tensor with these elements. */
    template <class T>
    static Tensor from_elements(const Device &device, std::initializer_list<std::int64_t> dims,
                                Span<const T> elements) {
        Tensor tensor(device, TensorSpec(dtype_of<T>(), dims));
        tensor.write(elements);
        return tensor;
    }
    /* The former name of from_elements. */
    template <class T>
    static Tensor of(const Device &device, std::initializer_list<std::int64_t> dims, Span<const T> elements) {
        return from_elements<T>(device, dims, elements);
    }
    TensorSpec spec() const { return made_by<TensorSpec>([&](auto out) { return udo_tensor_spec(get(), out); }); }
    Dims dims() const { return spec().dims(); }
    void reshape(Span<const std::int64_t> dims) { check(udo_tensor_reshape(get(), dims.data(), dims.size())); }
    template <class T>
    void write(Span<const T> elements) {
        must_be<T>();
        check(udo_tensor_write(get(), elements.data(), elements.size() * sizeof(T)));
    }
    template <class T>
    void read(Span<T> elements) const {
        must_be<T>();
        check(udo_tensor_read(get(), elements.data(), elements.size() * sizeof(T)));
    }
    template <class T>
    std::vector<T> read() const {
        static_assert(!std::is_same_v<T, bool>, "a vector of bool has no elements to write to; read unsigned char of a span");
        std::vector<T> elements(spec().elements());
        read(Span<T>(elements));
        return elements;
    }

private:
    template <class T>
    void must_be() const {
        if (spec().dtype() != dtype_of<T>())
            throw Error(UDO_ERROR_INVALID_ARGUMENT, "elements of another type than the tensor's, number " + std::to_string(spec().dtype()));
    }
};

/* Arguments of runs. */
namespace given {

/* A callback at the end of a run: called once, with NULL or the error, on a thread of the library. */
using Done = std::function<void(const udo_error_t *)>;

/* A callback and the exception that it threw. */
struct Told {
    Done done;
    std::exception_ptr thrown;
};

}  // namespace given

/* A submitted run. Its session and inputs may be released before it ends. */
class Run : public Handle<udo_run_t, udo_run_release> {
public:
    using Handle::Handle;
    Run(Run &&run, std::shared_ptr<given::Told> told) noexcept : Run(std::move(run)) { told_ = std::move(told); }
    /* Waits for the end of the run. Throws its error, or the exception of its callback. */
    void wait() const {
        check(udo_run_wait(get()));
        if (told_ && told_->thrown) std::rethrow_exception(told_->thrown);
    }
    void cancel() const { check(udo_run_cancel(get())); }
    bool is_done() const { return told_by<bool>([&](auto out) { return udo_run_is_done(get(), out); }); }
    Tensor output(std::size_t index) const { return made_by<Tensor>([&](auto out) { return udo_run_output(get(), index, out); }); }

private:
    std::shared_ptr<given::Told> told_;
};

class Model;
class Network;

namespace given {

using Inputs = std::initializer_list<const Tensor *>;

inline std::vector<const udo_tensor_t *> handles(Inputs of) {
    std::vector<const udo_tensor_t *> handles;
    for (const Tensor *tensor : of) handles.push_back(tensor->get());
    return handles;
}

/* Calls the callback. An exception that reached the library would end the process, so it is stored for `Run::wait`. */
inline void tell(void *user, const udo_error_t *error) noexcept {
    const std::unique_ptr<std::shared_ptr<Told>> told(static_cast<std::shared_ptr<Told> *>(user));
    try {
        (*told)->done(error);
    } catch (...) {
        (*told)->thrown = std::current_exception();
    }
}

inline udo_session_options_t on(const Device *device) {
    udo_session_options_t options{};
    options.size = sizeof options;
    options.device = device == nullptr ? nullptr : device->get();
    return options;
}

/* Submits a run that creates its outputs, with one of the functions of udo.h. */
template <class F, class H>
Run submit(F function, const H &to, Inputs inputs, std::size_t output_count, Done done) {
    const auto from = handles(inputs);
    std::vector<udo_tensor_t *> outputs(output_count, nullptr);
    udo_run_options_t options{};
    options.size = sizeof options;
    const auto told = done ? std::make_shared<Told>(Told{std::move(done), nullptr}) : nullptr;
    auto kept = told ? std::make_unique<std::shared_ptr<Told>>(told) : nullptr;
    options.on_done = kept ? tell : nullptr;
    options.user = kept.get();
    Run run = made_by<Run>([&](auto out) {
        return function(to.get(), from.data(), from.size(), outputs.data(), outputs.size(), &options, out);
    });
    kept.release();
    return Run(std::move(run), told);
}

}  // namespace given

/* The memory for one run at a time. */
class Session : public Handle<udo_session_t, udo_session_release> {
public:
    using Handle::Handle;
    explicit Session(const Model &model, const Device *device = nullptr);
    /* A session of one stage of a network, or with -1 of all: each run then uses the stage for its shapes. */
    explicit Session(const Network &network, int stage = -1, const Device *device = nullptr);
    /* Returns a report of the plan of the last run, as JSON. */
    std::string json() const { return told_by<const char *>([&](auto out) { return udo_session_json(get(), out); }); }
    /* Runs the model and returns new tensors with its outputs. */
    std::vector<Tensor> run(given::Inputs inputs) const {
        const auto from = given::handles(inputs);
        std::vector<udo_tensor_t *> to(outputs_, nullptr);
        check(udo_session_run(get(), from.data(), from.size(), to.data(), to.size()));
        return std::vector<Tensor>(to.begin(), to.end());
    }
    /* Submits a run that creates its outputs. */
    Run submit(given::Inputs inputs, given::Done done = {}) const {
        return given::submit(udo_session_submit, *this, inputs, outputs_, std::move(done));
    }

private:
    std::size_t outputs_ = 0;
};

/* Sessions of a model that threads share: each run uses a free one. */
class SessionPool : public Handle<udo_session_pool_t, udo_session_pool_release> {
public:
    SessionPool() noexcept = default;
    SessionPool(const Model &model, std::uint32_t count, const Device *device = nullptr);
    /* Allocates the memory for runs of all known shapes and stages, which otherwise the first such runs do. */
    void reserve() const { check(udo_session_pool_reserve(get())); }
    /* Submits a run that creates its outputs, from any thread. */
    Run submit(given::Inputs inputs, given::Done done = {}) const {
        return given::submit(udo_session_pool_submit, *this, inputs, outputs_, std::move(done));
    }

private:
    std::size_t outputs_ = 0;
};

/* A model that is ready to run. */
class Model : public Handle<udo_model_t, udo_model_release> {
public:
    using Handle::Handle;
    std::size_t input_count() const { return told_by<std::size_t>([&](auto out) { return udo_model_input_count(get(), out); }); }
    std::size_t output_count() const { return told_by<std::size_t>([&](auto out) { return udo_model_output_count(get(), out); }); }
    std::string input_name(std::size_t index) const { return told_by<const char *>([&](auto out) { return udo_model_input_name(get(), index, out); }); }
    std::string output_name(std::size_t index) const { return told_by<const char *>([&](auto out) { return udo_model_output_name(get(), index, out); }); }
    TensorSpec input_spec(std::size_t index) const { return made_by<TensorSpec>([&](auto out) { return udo_model_input_spec(get(), index, out); }); }
    TensorSpec output_spec(std::size_t index) const { return made_by<TensorSpec>([&](auto out) { return udo_model_output_spec(get(), index, out); }); }
    /* Returns a report of the model, as JSON. */
    std::string json() const { return told_by<const char *>([&](auto out) { return udo_model_json(get(), out); }); }
    /* Returns the refusals of operations that run on another core. The strings live as long as the model. */
    std::vector<udo_fallback_report_t> fallbacks() const {
        std::vector<udo_fallback_report_t> all(told_by<std::size_t>([&](auto out) { return udo_model_fallback_count(get(), out); }));
        for (std::size_t i = 0; i < all.size(); i++) check(udo_model_fallback(get(), i, &all[i]));
        return all;
    }
};

/* A network of a model file. */
class Network : public Handle<udo_network_t, udo_network_release> {
public:
    using Handle::Handle;
    std::string name() const { return told_by<const char *>([&](auto out) { return udo_network_name(get(), out); }); }
    std::string text() const { return told_by<const char *>([&](auto out) { return udo_network_text(get(), out); }); }
    std::size_t stage_count() const { return told_by<std::size_t>([&](auto out) { return udo_network_stage_count(get(), out); }); }
    std::size_t output_count() const { return told_by<std::size_t>([&](auto out) { return udo_network_output_count(get(), out); }); }
    TensorSpec input_spec(std::size_t stage, std::size_t index) const { return made_by<TensorSpec>([&](auto out) { return udo_network_input_spec(get(), stage, index, out); }); }
    TensorSpec output_spec(std::size_t stage, std::size_t index) const { return made_by<TensorSpec>([&](auto out) { return udo_network_output_spec(get(), stage, index, out); }); }
    /* Returns the model of all stages; each run uses the stage for its shapes. */
    Model model() const { return made_by<Model>([&](auto out) { return udo_network_model_of_stages(get(), out); }); }
    Model model(std::size_t stage) const { return made_by<Model>([&](auto out) { return udo_network_model(get(), stage, out); }); }
};

/* The networks of a model file. */
class Networks : public Handle<udo_networks_t, udo_networks_release> {
public:
    using Handle::Handle;
    std::size_t count() const { return told_by<std::size_t>([&](auto out) { return udo_networks_count(get(), out); }); }
    Network at(std::size_t index) const { return made_by<Network>([&](auto out) { return udo_networks_at(get(), index, out); }); }
    Network find(const std::string &name) const { return made_by<Network>([&](auto out) { return udo_networks_find(get(), name.c_str(), out); }); }
};

/* A graph under construction. Tensors and operations are identified by number. */
class Graph : public Handle<udo_graph_t, udo_graph_release> {
public:
    explicit Graph(const std::string &name = "") : Handle(made_by<Handle>([&](auto out) { return udo_graph_create(name.c_str(), out); })) {}
    std::uint32_t tensor(const TensorSpec &spec, const char *name = nullptr) {
        return told_by<std::uint32_t>([&](auto out) { return udo_graph_add_tensor(get(), spec.get(), name, out); });
    }
    template <class T>
    std::uint32_t constant(std::initializer_list<std::int64_t> dims, Span<const T> elements) {
        const std::uint32_t made = tensor(TensorSpec(dtype_of<T>(), dims));
        check(udo_graph_set_data(get(), made, elements.data(), elements.size() * sizeof(T)));
        return made;
    }
    /* Adds an operation of NNRt, such as "CONV2D". */
    std::uint32_t op(
        const char *name, Span<const std::uint32_t> inputs, Span<const std::uint32_t> outputs, Span<const udo_attribute_t> attributes = {}) {
        return told_by<std::uint32_t>([&](auto out) {
            return udo_graph_add_op(
                get(), nullptr, name, inputs.data(), inputs.size(), outputs.data(), outputs.size(), attributes.data(), attributes.size(), out);
        });
    }
    void finish(Span<const std::uint32_t> inputs, Span<const std::uint32_t> outputs) {
        check(udo_graph_set_io(get(), inputs.data(), inputs.size(), outputs.data(), outputs.size()));
        check(udo_graph_finish(get()));
    }
};

inline Session::Session(const Network &network, int stage, const Device *device)
    : Session(made_by<Session>([&, options = given::on(device)](auto out) { return udo_network_session(network.get(), stage, &options, out); })) {
    outputs_ = network.output_count();
}

inline Session::Session(const Model &model, const Device *device)
    : Session(made_by<Session>([&, options = given::on(device)](auto out) { return udo_session_create(model.get(), &options, out); })) {
    outputs_ = model.output_count();
}

inline SessionPool::SessionPool(const Model &model, std::uint32_t count, const Device *device)
    : Handle(made_by<Handle>([&, options = given::on(device)](auto out) { return udo_session_pool_create(model.get(), &options, count, out); })),
      outputs_(model.output_count()) {}

/* Operators and devices, from which models are loaded. */
class Runtime : public Handle<udo_runtime_t, udo_runtime_release> {
public:
    explicit Runtime(const udo_runtime_options_t *options = nullptr)
        : Handle(made_by<Handle>([&](auto out) { return udo_runtime_create(options, out); })) {}
    Device device(udo_device_kind_t kind, std::uint32_t index = 0) const {
        return made_by<Device>([&](auto out) { return udo_device_open(get(), kind, index, out); });
    }
    /* Returns the packages, with the built-in operators first. The strings live as long as the runtime. */
    std::vector<udo_package_report_t> packages() const {
        std::vector<udo_package_report_t> all(told_by<std::size_t>([&](auto out) { return udo_runtime_package_count(get(), out); }));
        for (std::size_t i = 0; i < all.size(); i++) check(udo_runtime_package(get(), i, &all[i]));
        return all;
    }
    /* Returns the current state of the devices, as readable text. */
    std::string report() const { return told_by<const char *>([&](auto out) { return udo_runtime_report(get(), out); }); }
    Model load(const std::string &path, const udo_load_options_t *options = nullptr) const {
        return made_by<Model>([&](auto out) { return udo_model_load_file(get(), path.c_str(), options, out); });
    }
    Model compile(const Graph &graph, const udo_load_options_t *options = nullptr) const {
        return made_by<Model>([&](auto out) { return udo_model_compile(get(), graph.get(), options, out); });
    }
    Networks networks(const std::string &path, const udo_load_options_t *options = nullptr) const {
        return made_by<Networks>([&](auto out) { return udo_networks_open_file(get(), path.c_str(), options, out); });
    }
    Model load(Span<const unsigned char> bytes, const udo_load_options_t *options = nullptr) const {
        return made_by<Model>([&](auto out) { return udo_model_load_bytes(get(), bytes.data(), bytes.size(), options, out); });
    }
};

/* Returns faults of packages that no call could report since the last call: one line each. */
inline std::string take_faults() {
    return told_by<const char *>([](auto out) { return udo_take_faults(out); });
}

}  // namespace udo

#endif
