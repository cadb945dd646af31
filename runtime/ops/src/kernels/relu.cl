// Negative elements become 0; NaN stays.
__kernel void udo_relu(__global const UDO_STORAGE *x, __global UDO_STORAGE *y) {
    const size_t i = get_global_id(0);
    const float v = UDO_LOAD(x, i);
    UDO_STORE(y, i, v < 0.0f ? 0.0f : v);
}
