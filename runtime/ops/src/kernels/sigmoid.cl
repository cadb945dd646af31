// 1 / (1 + exp(-x)).
__kernel void udo_sigmoid(__global const UDO_STORAGE *x, __global UDO_STORAGE *y) {
    const size_t i = get_global_id(0);
    UDO_STORE(y, i, 1.0f / (1.0f + exp(-UDO_LOAD(x, i))));
}
