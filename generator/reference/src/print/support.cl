#pragma OPENCL FP_CONTRACT OFF

// A few integers: dimensions, coordinates or axes.
typedef struct {
    long len;
    long items[16];
} List;

// Integers wrap; signed overflow is undefined in C.
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

long int_abs(long x) {
    return x < 0 ? int_neg(x) : x;
}

long int_sign(long x) {
    return x > 0 ? 1 : x < 0 ? -1 : 0;
}

long int_min(long a, long b) {
    return a < b ? a : b;
}

long int_max(long a, long b) {
    return a > b ? a : b;
}

// A division by 0 gives 0.
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

long int_ceil_div(long a, long b) {
    return int_neg(int_floor_div(int_neg(a), b));
}

long int_mod(long a, long b) {
    return b == 0 ? 0 : int_sub(a, int_mul(int_floor_div(a, b), b));
}

long int_pow(long a, long b) {
    ulong power = b < 0 || b > 4294967295L ? 0 : 1;
    ulong factor = (ulong)a;
    for (long rest = b; rest > 0 && power != 0; rest >>= 1) {
        if (rest & 1) {
            power *= factor;
        }
        factor *= factor;
    }
    return (long)power;
}

long int_shift_left(long a, long b) {
    return b >= 0 && b < 64 ? (long)((ulong)a << b) : 0;
}

long int_shift_right(long a, long b) {
    return b >= 0 && b < 64 ? a >> b : a < 0 ? -1 : 0;
}

// Truncates towards zero, saturates, and maps NaN to 0.
long whole(float x) {
    if (isnan(x)) {
        return 0;
    }
    return x >= 9223372036854775808.0f ? LONG_MAX : x < -9223372036854775808.0f ? LONG_MIN : (long)x;
}

float larger(float a, float b) {
    return isnan(a) || a > b ? a : b;
}

float smaller(float a, float b) {
    return isnan(a) || a < b ? a : b;
}

float finite(float x) {
    return isfinite(x) ? x : 0.0f;
}

// The rounding error of a + b.
float sum_rest(float a, float b) {
    const float sum = a + b;
    const float part = sum - a;
    return (a - (sum - part)) + (b - part);
}

// A sum with its rounding error, which is NaN if the sum is NaN or infinite.
float joined(float sum, float rest) {
    return sum + finite(rest);
}

float joined_rest(float sum, float rest) {
    return finite(sum_rest(sum, finite(rest)));
}

// The rounding error of a product of numbers with rounding errors.
float product_rest(float product, float a, float a_rest, float b, float b_rest) {
    return finite(fma(a, b, -product) + (a * b_rest + a_rest * b));
}

float quotient_rest(float quotient, float a, float a_rest, float b, float b_rest) {
    return finite((fma(-quotient, b, a) + (a_rest - quotient * b_rest)) / b);
}

float floor_mod(float a, float b) {
    const float rest = fmod(a, b);
    return rest != 0.0f && (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}

float float_sign(float x) {
    return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x;
}

float float_sigmoid(float x) {
    return 1.0f / (1.0f + exp(-x));
}

// Rounds a number to the nearest integer within limits.
long quantized(float x, float scale, long zero_point, long low, long high) {
    const float step = rint(x / scale) + (float)zero_point;
    return !(step > (float)low) ? low : step >= (float)high ? high : (long)step;
}

// The number of elements of a tensor with these dimensions.
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

long list_size(List list) {
    long all = 1;
    for (long i = 0; i < list.len; ++i) {
        all = int_mul(all, list.items[i]);
    }
    return all;
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

// A slice bound of a list; negative bounds count from the end.
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

List list_broadcast(List a, List b) {
    List dims = {a.len < b.len ? b.len : a.len, {0}};
    for (long i = 1; i <= dims.len; ++i) {
        const long of_a = i <= a.len ? a.items[a.len - i] : 1;
        dims.items[dims.len - i] = of_a == 1 && i <= b.len ? b.items[b.len - i] : of_a;
    }
    return dims;
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

long list_ravel(List coords, List dims) {
    long all = 0;
    for (long i = 0; i < coords.len && i < dims.len; ++i) {
        all = int_add(int_mul(all, dims.items[i]), coords.items[i]);
    }
    return all;
}

List list_axes(List dims) {
    List axes = {dims.len, {0}};
    for (long i = 0; i < dims.len; ++i) {
        axes.items[i] = i;
    }
    return axes;
}

bool list_marks(List dims, List axes, long axis) {
    bool marks = false;
    for (long i = 0; i < axes.len; ++i) {
        marks |= (axes.items[i] < 0 ? axes.items[i] + dims.len : axes.items[i]) == axis;
    }
    return marks;
}

List list_reduced(List dims, List axes) {
    List reduced = {0, {0}};
    for (long i = 0; i < dims.len; ++i) {
        if (list_marks(dims, axes, i)) {
            list_push(&reduced, dims.items[i]);
        }
    }
    return reduced;
}

List list_left(List dims, List axes, bool keep) {
    List left = {0, {0}};
    for (long i = 0; i < dims.len; ++i) {
        const bool marked = list_marks(dims, axes, i);
        if (keep || !marked) {
            list_push(&left, marked ? 1 : dims.items[i]);
        }
    }
    return left;
}

List list_merged(List dims, List axes, List left, List reduced, bool keep) {
    List merged = {dims.len, {0}};
    long of_left = 0;
    long of_reduced = 0;
    for (long i = 0; i < dims.len; ++i) {
        const bool marked = list_marks(dims, axes, i);
        merged.items[i] = marked ? reduced.items[of_reduced] : left.items[of_left < 15 ? of_left : 15];
        of_reduced += marked ? 1 : 0;
        of_left += keep || !marked ? 1 : 0;
    }
    return merged;
}

// The index of the element at these coordinates, or -1 if they are out of range.
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
