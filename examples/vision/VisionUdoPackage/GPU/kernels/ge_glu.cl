// auto-generated once by `udo new`: yours to edit, never overwritten.
// config 6d32dc943cef2c7f
//
// GeGlu on a device. The runtime defines UDO_STORAGE as float or half; read it with
// UDO_LOAD(p, i) and write it with UDO_STORE(p, i, v), which take and give float.
//
// What is known with the shapes stands before this text as constants, which are PLAN and what else is written in capitals
// and not defined here.

#pragma OPENCL FP_CONTRACT OFF

// A few integers: extents, coordinates or axes.
typedef struct {
    long len;
    long items[16];
} List;

// Integers wrap, which those with a sign must not in C.
long int_add(long a, long b) {
    return (long)((ulong)a + (ulong)b);
}

long int_sub(long a, long b) {
    return (long)((ulong)a - (ulong)b);
}

long int_mul(long a, long b) {
    return (long)((ulong)a * (ulong)b);
}

long int_neg(long x) {
    return int_sub(0, x);
}

// Where a divisor is 0, so is the result.
long int_trunc_div(long a, long b) {
    return b == 0 ? 0 : b == -1 ? int_neg(a) : a / b;
}

long int_rem(long a, long b) {
    return b == 0 || b == -1 ? 0 : a % b;
}

long int_floor_div(long a, long b) {
    const long rest = int_rem(a, b);
    return int_trunc_div(a, b) - (rest != 0 && (rest < 0) != (b < 0) ? 1 : 0);
}

long int_mod(long a, long b) {
    return b == 0 ? 0 : int_sub(a, int_mul(int_floor_div(a, b), b));
}

// How many elements a tensor of these extents has.
long list_count(List list) {
    long all = 1;
    for (long i = 0; i < list.len; ++i) {
        all *= list.items[i] < 0 ? 0 : list.items[i];
    }
    return all;
}

long list_len(List list) {
    return list.len;
}

void list_push(List *list, long item) {
    if (list->len < 16) {
        list->items[list->len++] = item;
    }
}

void list_join(List *list, List other) {
    for (long i = 0; i < other.len; ++i) {
        list_push(list, other.items[i]);
    }
}

long list_item(List list, long at) {
    const long place = at < 0 ? at + list.len : at;
    return place < 0 || place >= list.len ? 0 : list.items[place];
}

// Where a list is cut, counted from its end where that is negative.
long list_place(List list, long at) {
    const long place = at < 0 ? at + list.len : at;
    return place < 0 ? 0 : place > list.len ? list.len : place;
}

List list_slice(List list, long from, long to) {
    List part = {0, {0}};
    const long end = list_place(list, to);
    for (long i = list_place(list, from); i < end; ++i) {
        list_push(&part, list.items[i]);
    }
    return part;
}

List list_align(List coords, List dims) {
    const long skip = coords.len > dims.len ? coords.len - dims.len : 0;
    List aligned = {dims.len, {0}};
    for (long i = 0; i < dims.len; ++i) {
        aligned.items[i] = dims.items[i] == 1 ? 0 : coords.items[skip + i < 15 ? skip + i : 15];
    }
    return aligned;
}

List list_unravel(long number, List dims) {
    List coords = {dims.len, {0}};
    long rest = number;
    for (long i = dims.len - 1; i >= 0; --i) {
        const long dim = dims.items[i] < 1 ? 1 : dims.items[i];
        coords.items[i] = int_mod(rest, dim);
        rest = int_floor_div(rest, dim);
    }
    if (dims.len > 0) {
        coords.items[0] += rest * (dims.items[0] < 1 ? 1 : dims.items[0]);
    }
    return coords;
}

// The number of the element at these coordinates, or -1 where they are outside.
long place(List dims, List coords) {
    if (dims.len != coords.len) {
        return -1;
    }
    long number = 0;
    for (long i = 0; i < dims.len; ++i) {
        if (coords.items[i] < 0 || coords.items[i] >= dims.items[i]) {
            return -1;
        }
        number = number * dims.items[i] + coords.items[i];
    }
    return number;
}

// What is known with the shapes. Work items copy it: a compiler was seen to read other lists than are in constants.
typedef struct {
    List dims_x;
    long has_x;
    List dims_bias;
    long has_bias;
    long value_0;
    long value_1;
    long value_2;
    List dims_z;
    List dims_y;
} Plan;

__constant Plan KNOWN = PLAN;

__kernel void ge_glu_z(
    __global const UDO_STORAGE *x,
#ifdef HAS_bias
    __global const UDO_STORAGE *bias,
#endif
    __global float *z
) {
#ifndef HAS_bias
    __global const UDO_STORAGE *bias = 0;
#endif
    const Plan plan = KNOWN;
    const long number = (long)get_global_id(0);
    if (number >= list_count(plan.dims_z)) {
        return;
    }
    const List here = list_unravel(number, plan.dims_z);
    float t1;
    if (plan.value_2) {
        const long t2 = place(plan.dims_x, list_align(here, plan.dims_x));
        float t3;
        if (t2 < 0) {
            t3 = NAN;
        } else {
            t3 = UDO_LOAD(x, t2);
        }
        const long t4 = place(plan.dims_bias, list_align(here, plan.dims_bias));
        float t5;
        if (t4 < 0) {
            t5 = NAN;
        } else {
            t5 = UDO_LOAD(bias, t4);
        }
        t1 = t3 + t5;
    } else {
        const long t2 = place(plan.dims_x, list_align(here, plan.dims_x));
        float t3;
        if (t2 < 0) {
            t3 = NAN;
        } else {
            t3 = UDO_LOAD(x, t2);
        }
        t1 = t3;
    }
    const float value = t1;
    z[number] = value;
}

__kernel void ge_glu_y(
    __global const float *z,
    __global UDO_STORAGE *y
) {
    const Plan plan = KNOWN;
    const long number = (long)get_global_id(0);
    if (number >= list_count(plan.dims_y)) {
        return;
    }
    const List at = list_unravel(number, plan.dims_y);
    const long t7 = list_len(list_slice(plan.dims_x, 0, -1L));
    const List b = list_slice(at, 0, t7);
    const long j = list_item(at, t7);
    List t1 = (List){0, {0}};
    list_join(&t1, b);
    list_push(&t1, int_add(j, plan.value_0));
    const long t2 = place(plan.dims_z, t1);
    float t3;
    if (t2 < 0) {
        t3 = NAN;
    } else {
        t3 = z[t2];
    }
    const float gate = t3;
    List t4 = (List){0, {0}};
    list_join(&t4, b);
    list_push(&t4, j);
    const long t5 = place(plan.dims_z, t4);
    float t6;
    if (t5 < 0) {
        t6 = NAN;
    } else {
        t6 = z[t5];
    }
    const float value = ((t6 * 0.5f) * gate) * (1.0f + erf(gate / sqrt(2.0f)));
    UDO_STORE(y, number, value);
}
