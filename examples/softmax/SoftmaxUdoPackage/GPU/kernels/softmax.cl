// auto-generated once by `udo new`: yours to edit, never overwritten.
// config 838c9ccdbf23d184
//
// Softmax on a device. The runtime defines UDO_STORAGE as float or half; read it with
// UDO_LOAD(p, i) and write it with UDO_STORE(p, i, v), which convert to and from float.

__kernel void softmax_kernel(
    __global const UDO_STORAGE *placeholder,
    __global UDO_STORAGE *output,
    const uint cols
) {
    const size_t row = get_global_id(0) * cols;
    float max_value = -INFINITY;
    for (uint i = 0; i < cols; i++) {
        max_value = fmax(max_value, UDO_LOAD(placeholder, row + i));
    }
    float sum = 0.0f;
    for (uint i = 0; i < cols; i++) {
        sum += exp(UDO_LOAD(placeholder, row + i) - max_value);
    }
    for (uint i = 0; i < cols; i++) {
        UDO_STORE(output, row + i, exp(UDO_LOAD(placeholder, row + i) - max_value) / sum);
    }
}
