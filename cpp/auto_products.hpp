// Products of rows with packed matrices.
//
// Every number of a row is computed by the same operations in the same order however many rows come with it: products are
// sums over k in order (Primitives::inner). That is why cutting a stream into calls differently changes no bit.
#pragma once

#include <algorithm>
#include <cstddef>

#include "primitives.hpp"

namespace bomkl::automatic {

inline constexpr int kBlock = 64;  // rows that share one update of the covariance
static_assert(kBlock == kTile, "a block is one tile");

inline Rows<float> rows_of(const float* x, std::size_t stride, int k) { return {x, stride, nullptr, nullptr, k}; }

// out (n, 64 * n_tiles) = a (n, k) times b, whose columns are packed in tiles of 64: b[tile][k][64].
inline void multiply(const Primitives<float>& with, const float* a, std::size_t stride, int n, int k, const float* b,
                     int n_tiles, float* out, std::size_t out_stride) {
    const Rows<float> rows = rows_of(a, stride, k);
    for (int q = 0; q < n_tiles; ++q) {
        const Tile<float> tile{b + std::size_t(q) * k * kTile, nullptr, nullptr, nullptr, 0};
        with.inner(rows, 0, n, &tile, 1, out + std::size_t(q) * kTile, out_stride);
    }
}

// out (columns, rows) = in (rows, columns), transposed by squares that stay in the nearest cache.
inline void transpose(const float* in, std::size_t rows, std::size_t columns, std::size_t stride, float* out,
                      std::size_t out_stride) {
    constexpr std::size_t side = 16;
    for (std::size_t i = 0; i < rows; i += side)
        for (std::size_t j = 0; j < columns; j += side)
            for (std::size_t b = j; b < std::min(j + side, columns); ++b)
                for (std::size_t a = i; a < std::min(i + side, rows); ++a) out[b * out_stride + a] = in[a * stride + b];
}

// A sum in 16 interleaved parts: the compiler may keep them in vectors without changing a bit.
inline double dot(const float* x, const double* w, std::size_t n) {
    double part[16] = {};
    std::size_t j = 0;
    for (; j + 16 <= n; j += 16)
        for (int i = 0; i < 16; ++i) part[i] += double(x[j + i]) * w[j + i];
    for (; j < n; ++j) part[j % 16] += double(x[j]) * w[j];
    double sum = 0;
    for (int i = 0; i < 16; ++i) sum += part[i];
    return sum;
}

}  // namespace bomkl::automatic
