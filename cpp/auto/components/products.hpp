// Products of rows with packed matrices.
//
// Every number of a row is computed by the same operations in the same order however many rows come with it: products are
// sums over k in order (Primitives::inner). That is why cutting a stream into calls differently changes no bit.
#pragma once

#include <algorithm>
#include <cstddef>

#include "primitives/primitives.hpp"

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

// out (columns, rows) = in (rows, columns), transposed by squares of four that stay in registers.
inline void transpose(const float* in, std::size_t rows, std::size_t columns, std::size_t stride, float* out,
                      std::size_t out_stride) {
    typedef float Four __attribute__((vector_size(16), aligned(4)));
    const std::size_t whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
    for (std::size_t b = 0; b < whole_columns; b += 4)
        for (std::size_t a = 0; a < whole_rows; a += 4) {
            const auto row = [&](std::size_t i) { return *reinterpret_cast<const Four*>(in + (a + i) * stride + b); };
            const Four r0 = row(0), r1 = row(1), r2 = row(2), r3 = row(3);
            const Four low01{r0[0], r1[0], r0[1], r1[1]}, high01{r0[2], r1[2], r0[3], r1[3]};
            const Four low23{r2[0], r3[0], r2[1], r3[1]}, high23{r2[2], r3[2], r2[3], r3[3]};
            const auto put = [&](std::size_t i, Four value) {
                *reinterpret_cast<Four*>(out + (b + i) * out_stride + a) = value;
            };
            put(0, Four{low01[0], low01[1], low23[0], low23[1]});
            put(1, Four{low01[2], low01[3], low23[2], low23[3]});
            put(2, Four{high01[0], high01[1], high23[0], high23[1]});
            put(3, Four{high01[2], high01[3], high23[2], high23[3]});
        }
    for (std::size_t b = 0; b < columns; ++b)
        for (std::size_t a = b < whole_columns ? whole_rows : 0; a < rows; ++a) out[b * out_stride + a] = in[a * stride + b];
}

}  // namespace bomkl::automatic
