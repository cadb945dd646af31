// a + b; a step of 0 repeats an operand's only element.
__kernel void udo_add(__global const UDO_STORAGE *a, __global const UDO_STORAGE *b,
                     __global UDO_STORAGE *y, const uint a_step, const uint b_step) {
    const size_t i = get_global_id(0);
    UDO_STORE(y, i, UDO_LOAD(a, i * a_step) + UDO_LOAD(b, i * b_step));
}
