/*
 * The classes of BMRuntime's C++ interface on top of bmrt_compat.h. C++17.
 *
 * A refusal is a status, as in BMRuntime; a constructor throws std::runtime_error. A Network with stage -1 needs the shape of
 * each input before its first Forward. Objects may be destroyed in any order, except that a Network must be destroyed before
 * its Context.
 */
#ifndef BMRT_COMPAT_HPP
#define BMRT_COMPAT_HPP

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bmrt_compat.h"

namespace bmruntime {

inline size_t ByteSize(bm_data_type_t type) { return bmrt_data_type_size(type); }
inline size_t ByteSize(const bm_device_mem_t &device_mem) { return bm_mem_get_device_size(device_mem); }
inline size_t ByteSize(const bm_tensor_t &tensor) { return bmrt_tensor_bytesize(&tensor); }
inline uint64_t Count(const bm_shape_t &shape) { return bmrt_shape_count(&shape); }
inline uint64_t Count(const bm_tensor_t &tensor) { return bmrt_shape_count(&tensor.shape); }
inline bool IsSameShape(const bm_shape_t &left, const bm_shape_t &right) { return bmrt_shape_is_same(&left, &right); }

/* Networks, loaded for one device. */
class Context {
public:
    explicit Context(int devid = 0) {
        if (bm_dev_request(&handle_, devid) != BM_SUCCESS) throw std::runtime_error("no device " + std::to_string(devid));
        make();
        /* The runtime keeps it. */
        bm_dev_free(handle_);
    }
    explicit Context(bm_handle_t bm_handle) : handle_(bm_handle) { make(); }
    virtual ~Context() { bmrt_destroy(runtime_); }
    Context(const Context &) = delete;
    Context &operator=(const Context &) = delete;

    bm_status_t load_bmodel(const void *bmodel_data, size_t size) { return bmrt_compat_load(runtime_, nullptr, bmodel_data, size); }
    bm_status_t load_bmodel(const char *bmodel_file) { return bmrt_compat_load(runtime_, bmodel_file, nullptr, 0); }
    int get_network_number() const { return bmrt_get_network_number(runtime_); }
    void get_network_names(std::vector<const char *> *names) const {
        const char **all = nullptr;
        if (names == nullptr) return;
        bmrt_get_network_names(runtime_, &all);
        names->clear();
        for (const char **name = all; name != nullptr && *name != nullptr; name++) names->push_back(*name);
        free(all);
    }
    const bm_net_info_t *get_network_info(const char *net_name) const { return bmrt_get_network_info(runtime_, net_name); }
    bm_handle_t handle() const { return handle_; }
    void trace() const { bmrt_trace(runtime_); }

private:
    friend class Network;
    void make() {
        runtime_ = bmrt_create(handle_);
        if (runtime_ == nullptr) throw std::runtime_error("no runtime of this handle");
    }
    bm_handle_t handle_ = nullptr;
    void *runtime_ = nullptr;
};

/* An input or output of a network, in memory of its own until the program gives it some. */
class Tensor {
public:
    bm_status_t CopyTo(void *data) const { return CopyTo(data, ByteSize()); }
    bm_status_t CopyTo(void *data, size_t size, uint64_t offset = 0) const {
        if (size > UINT32_MAX || offset > UINT32_MAX) return BM_ERR_PARAM;
        return bm_memcpy_d2s_partial_offset(handle_, data, tensor_.device_mem, (unsigned int)size, (unsigned int)offset);
    }
    bm_status_t CopyFrom(const void *data) { return CopyFrom(data, ByteSize()); }
    bm_status_t CopyFrom(const void *data, size_t size, uint64_t offset = 0) {
        if (size > UINT32_MAX || offset > UINT32_MAX) return BM_ERR_PARAM;
        return bm_memcpy_s2d_partial_offset(handle_, tensor_.device_mem, const_cast<void *>(data), (unsigned int)size, (unsigned int)offset);
    }
    /* Memory of its own grows with the shape; that of the program does not. */
    bm_status_t Reshape(const bm_shape_t &shape) {
        if (is_fixed_) return BM_ERR_NOFEATURE;
        bm_tensor_t like = tensor_;
        like.shape = shape;
        if (shape.num_dims <= 0 || bmrt_tensor_bytesize(&like) == 0) return BM_ERR_PARAM;
        /* In whichever store mode. */
        const int element = (int)bmrt_data_type_size(tensor_.dtype), group = element < 4 ? 4 / element : 1;
        const int filled = like.shape.dims[0] > INT32_MAX - group ? like.shape.dims[0] : (like.shape.dims[0] + group - 1) / group * group;
        if (owns_ || tensor_.device_mem.memory == nullptr) like.shape.dims[0] = filled;
        const size_t size = bmrt_tensor_bytesize(&like);
        if (size > UINT32_MAX) return BM_ERR_PARAM;
        if (size > tensor_.device_mem.size) {
            if (tensor_.device_mem.memory != nullptr && !owns_) return BM_ERR_NOMEM;
            const bm_status_t status = bm_malloc_device_byte(handle_, &like.device_mem, (unsigned int)size);
            if (status != BM_SUCCESS) return status;
            adopt(like.device_mem, true);
        }
        tensor_.shape = shape;
        has_shape_ = true;
        return BM_SUCCESS;
    }
    size_t ByteSize() const { return bmrt_tensor_bytesize(&tensor_); }
    uint64_t num_elements() const { return bmrt_shape_count(&tensor_.shape); }
    const bm_tensor_t *tensor() const { return &tensor_; }
    void set_store_mode(bm_store_mode_t mode) const { tensor_.st_mode = mode; }
    bm_status_t set_device_mem(const bm_device_mem_t &device_mem) {
        if (device_mem.size < ByteSize()) return BM_ERR_PARAM;
        adopt(device_mem, false);
        return BM_SUCCESS;
    }
    ~Tensor() { adopt(bm_device_mem_t{nullptr, 0}, false); }
    Tensor(const Tensor &) = delete;
    Tensor &operator=(const Tensor &) = delete;

private:
    friend class Network;
    Tensor(bm_handle_t handle, bm_data_type_t dtype) : handle_(handle) { tensor_.dtype = dtype; }
    void adopt(bm_device_mem_t memory, bool owns) {
        if (owns_) bm_free_device(handle_, tensor_.device_mem);
        tensor_.device_mem = memory;
        owns_ = owns;
    }
    bm_handle_t handle_;
    mutable bm_tensor_t tensor_{};
    bool owns_ = false, is_fixed_ = false, has_shape_ = false;
};

inline size_t ByteSize(const Tensor &tensor) { return tensor.ByteSize(); }
inline uint64_t Count(const Tensor &tensor) { return tensor.num_elements(); }

/* A network, with tensors for its inputs and outputs. */
class Network {
public:
    Network(const Context &ctx, const char *net_name, int stage_id = -1) : runtime_(ctx.runtime_), handle_(ctx.handle()), info_(ctx.get_network_info(net_name)) {
        if (info_ == nullptr) throw std::runtime_error("no such network");
        if (stage_id < -1 || stage_id >= info_->stage_num) throw std::runtime_error("no such stage");
        for (int i = 0; i < info_->input_num; i++) {
            add(owned_inputs_, inputs_, info_->input_dtypes[i]);
            if (stage_id < 0) continue;
            if (inputs_.back()->Reshape(info_->stages[stage_id].input_shapes[i]) != BM_SUCCESS) throw std::runtime_error("no memory for an input");
            inputs_.back()->is_fixed_ = true;
        }
        for (int i = 0; i < info_->output_num; i++) {
            add(owned_outputs_, outputs_, info_->output_dtypes[i]);
            /* As much as any of the stages takes, where that is known. */
            for (int stage = 0; stage < info_->stage_num; stage++) {
                if (stage_id >= 0 && stage != stage_id) continue;
                const bm_shape_t &shape = info_->stages[stage].output_shapes[i];
                is_bounded_ = is_bounded_ && bmrt_shape_count(&shape) > 0 && info_->max_output_bytes[i] > 0;
                if (is_bounded_ && outputs_.back()->Reshape(shape) != BM_SUCCESS) throw std::runtime_error("no memory for an output");
            }
        }
    }
    virtual ~Network() { bm_thread_sync(handle_); }
    Network(const Network &) = delete;
    Network &operator=(const Network &) = delete;

    const std::vector<Tensor *> &Inputs() { return inputs_; }
    const std::vector<Tensor *> &Outputs() { return outputs_; }
    Tensor *Input(const char *tensor_name) { return find(inputs_, info_->input_names, tensor_name); }
    Tensor *Output(const char *tensor_name) { return find(outputs_, info_->output_names, tensor_name); }
    bm_status_t Forward(bool sync = true) const {
        std::vector<bm_tensor_t> inputs, outputs;
        bool is_given = true;
        for (const Tensor *input : inputs_) {
            if (!input->has_shape_) return bmrt_compat_refuse(BM_ERR_FAILURE, "an input has no shape; reshape each of them first");
            inputs.push_back(input->tensor_);
        }
        for (const Tensor *output : outputs_) {
            outputs.push_back(output->tensor_);
            is_given = is_given && output->tensor_.device_mem.memory != nullptr && (is_bounded_ || !output->owns_);
        }
        /* Where only the run says how large outputs are, it makes their memory, unless the program gave some. */
        if (!bmrt_launch_tensor_ex(runtime_, info_->name, inputs.data(), (int)inputs.size(), outputs.data(), (int)outputs.size(), is_given, true)) return BM_ERR_FAILURE;
        for (size_t i = 0; i < outputs.size(); i++) {
            if (!is_given) outputs_[i]->adopt(outputs[i].device_mem, true);
            outputs_[i]->tensor_ = outputs[i];
        }
        return sync ? bm_thread_sync(handle_) : BM_SUCCESS;
    }
    const bm_net_info_t *info() const { return info_; }

private:
    void add(std::vector<std::unique_ptr<Tensor>> &owned, std::vector<Tensor *> &all, bm_data_type_t dtype) {
        owned.emplace_back(new Tensor(handle_, dtype));
        all.push_back(owned.back().get());
    }
    static Tensor *find(const std::vector<Tensor *> &all, char const **names, const char *name) {
        for (size_t i = 0; name != nullptr && i < all.size(); i++)
            if (std::string(names[i]) == name) return all[i];
        return nullptr;
    }
    void *runtime_;
    bm_handle_t handle_;
    const bm_net_info_t *info_;
    /* Whether the most that outputs take is known. */
    bool is_bounded_ = true;
    std::vector<std::unique_ptr<Tensor>> owned_inputs_, owned_outputs_;
    std::vector<Tensor *> inputs_, outputs_;
};

}  // namespace bmruntime

#endif
