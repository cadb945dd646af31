// auto-generated once by `udo new`: yours to edit, never overwritten.
// config 6d32dc943cef2c7f
//
// GeGlu on a device. The runtime defines UDO_STORAGE as float or half; read it with
// UDO_LOAD(p, i) and write it with UDO_STORE(p, i, v), which take and give float.

__kernel void ge_glu_kernel(
    __global const UDO_STORAGE *x
#ifdef HAS_INPUT_1
    , __global const UDO_STORAGE *bias
#endif
    , __global UDO_STORAGE *y,
    const uint half_width
) {
    const size_t i = get_global_id(0);
    const size_t column = i % half_width;
    const size_t at = i / half_width * 2 * half_width + column;
    float value = UDO_LOAD(x, at);
    float gate = UDO_LOAD(x, at + half_width);
#ifdef HAS_INPUT_1
    value += UDO_LOAD(bias, column);
    gate += UDO_LOAD(bias, column + half_width);
#endif
    UDO_STORE(y, i, value * 0.5f * gate * (1.0f + erf(gate * M_SQRT1_2_F)));
}
