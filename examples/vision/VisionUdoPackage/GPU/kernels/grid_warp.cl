// auto-generated once by `udo new`: yours to edit, never overwritten.
// config 0ab7984a0153f910
//
// GridWarp on a device. The runtime defines UDO_STORAGE as float or half; read it with
// UDO_LOAD(p, i) and write it with UDO_STORE(p, i, v), which take and give float.

__kernel void grid_warp_kernel(
    __global const UDO_STORAGE *image_,
    __global const UDO_STORAGE *grid,
    __global UDO_STORAGE *warped,
    const uint per_image,
    const uint height,
    const uint width,
    const uint channels,
    const uint is_border,
    const float fill
) {
    const size_t pixel = get_global_id(0);
    const size_t first_row = pixel / per_image * height;
    float x = ((UDO_LOAD(grid, 2 * pixel) + 1.0f) * width - 1.0f) / 2.0f;
    float y = ((UDO_LOAD(grid, 2 * pixel + 1) + 1.0f) * height - 1.0f) / 2.0f;
    if (is_border) {
        x = x < 0.0f ? 0.0f : x > width - 1.0f ? width - 1.0f : x;
        y = y < 0.0f ? 0.0f : y > height - 1.0f ? height - 1.0f : y;
    }
    for (uint c = 0; c < channels; c++) {
        float sum = 0.0f;
        for (uint corner = 0; corner < 4; corner++) {
            const float u = floor(x) + corner % 2, v = floor(y) + corner / 2;
            const bool is_inside = u >= 0.0f && u < width && v >= 0.0f && v < height;
            const size_t at = is_inside ? (first_row + (size_t)v) * width + (size_t)u : 0;
            const float found = is_inside ? UDO_LOAD(image_, at * channels + c) : fill;
            sum += (1.0f - fabs(x - u)) * (1.0f - fabs(y - v)) * found;
        }
        UDO_STORE(warped, pixel * channels + c, sum);
    }
}
