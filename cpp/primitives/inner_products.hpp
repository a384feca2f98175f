// Inner products of rows with tiles.
#pragma once

#include "primitives/primitives.hpp"
#include "simd.hpp"

namespace bomkl::BOMKL_ISA {
namespace {

// Register blocking: rows x vectors of accumulators, chosen so that they and one vector of each operand fit the registers.
#if BOMKL_VECTOR_BYTES == 64
inline constexpr int kRows = 6, kVectors = 4;
#elif BOMKL_VECTOR_BYTES == 32
inline constexpr int kRows = 6, kVectors = 2;
#else
inline constexpr int kRows = 4, kVectors = 2;
#endif

// Inner products of R rows with the 64 columns of a tile. Every sum runs over the features in order, whatever R is.
template <class T, int R>
void inner_tile(const T* x, std::size_t stride, const T* tile, int features, T* out, std::size_t out_stride) {
    // one row alone leaves registers for more columns
    constexpr int W = Simd<T>::width, N = R == 1 && kVectors * 2 * W <= kTile ? kVectors * 2 : kVectors;
    for (int c = 0; c < kTile; c += N * W) {
        Vec<T> sum[R][N] = {};
        const T* column = tile + c;
        for (int j = 0; j < features; ++j, column += kTile) {
            Vec<T> z[N];
#pragma GCC unroll 8
            for (int v = 0; v < N; ++v) z[v] = load<T>(column + v * W);
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r) {
                const Vec<T> b = broadcast<T>(x[r * stride + j]);
#pragma GCC unroll 8
                for (int v = 0; v < N; ++v) sum[r][v] = Simd<T>::fma(b, z[v], sum[r][v]);
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
            for (int v = 0; v < N; ++v) store<T>(out + r * out_stride + c + v * W, sum[r][v]);
    }
}

// The same for one row without its zeros: leaving out a product with zero does not change a bit of the sum.
template <class T>
void inner_sparse(const SparseRow<T>& x, const T* tile, T* out) {
    constexpr int W = Simd<T>::width, N = kVectors * 2 * W <= kTile ? kVectors * 2 : kTile / W;
    for (int c = 0; c < kTile; c += N * W) {
        Vec<T> sum[N] = {};
        for (int i = 0; i < x.n; ++i) {
            const T* column = tile + std::size_t(x.columns[i]) * kTile + c;
            const Vec<T> b = broadcast<T>(x.values[i]);
#pragma GCC unroll 8
            for (int v = 0; v < N; ++v) sum[v] = Simd<T>::fma(b, load<T>(column + v * W), sum[v]);
        }
#pragma GCC unroll 8
        for (int v = 0; v < N; ++v) store<T>(out + c + v * W, sum[v]);
    }
}

// The same where all entries are 0 or 1, as in rows of indicators: the product is a count, exact in bytes.
typedef std::uint8_t Bytes __attribute__((vector_size(kTile)));
inline Bytes load_bytes(const std::uint8_t* p) {
    Bytes bytes;
    std::memcpy(&bytes, p, sizeof bytes);
    return bytes;
}
template <class T>
bool only_ones(const Rows<T>& rows, const Tile<T>& tile) {
    return rows.ones && tile.bytes;
}
template <class T>
[[gnu::always_inline]] inline Bytes count_ones(const Rows<T>& rows, int r, const Tile<T>& tile) {
    const std::int32_t* const columns = rows.ones + std::size_t(r) * rows.n_ones;
    Bytes even{}, odd{};
    for (int i = 0; i < rows.n_ones; i += 2) {
        even += load_bytes(tile.bytes + std::size_t(columns[i]) * kTile);
        odd += load_bytes(tile.bytes + std::size_t(columns[i + 1]) * kTile);
    }
    return even + odd;
}
template <class T>
void inner_ones(const Rows<T>& rows, int r, const Tile<T>& tile, T* out) {
    const Bytes count = count_ones<T>(rows, r, tile);
    for (int c = 0; c < kTile; ++c) out[c] = T(count[c]);
}

template <class T>
void inner_rows(const Rows<T>& rows, int begin, int n, const Tile<T>& of, T* out, std::size_t out_stride) {
    const T* const tile = of.x;
    if (only_ones<T>(rows, of)) {
        for (int r = 0; r < n; ++r) inner_ones<T>(rows, begin + r, of, out + r * out_stride);
        return;
    }
    if (rows.sparse) {
        for (int r = 0; r < n; ++r) inner_sparse<T>(rows.sparse[begin + r], tile, out + r * out_stride);
        return;
    }
    const T* x = rows.x + begin * rows.stride;
    switch (n) {
        case 1: return inner_tile<T, 1>(x, rows.stride, tile, rows.features, out, out_stride);
        case 2: return inner_tile<T, 2>(x, rows.stride, tile, rows.features, out, out_stride);
        case 3: return inner_tile<T, 3>(x, rows.stride, tile, rows.features, out, out_stride);
        case 4: return inner_tile<T, 4>(x, rows.stride, tile, rows.features, out, out_stride);
#if BOMKL_VECTOR_BYTES > 16
        case 5: return inner_tile<T, 5>(x, rows.stride, tile, rows.features, out, out_stride);
        default: return inner_tile<T, 6>(x, rows.stride, tile, rows.features, out, out_stride);
#else
        default: return;
#endif
    }
}

// The same sums as of inner_tile, of fewer columns.
template <class T, int N>
void inner_some_lines(const T* x, int features, const T* lines, T* out) {
    constexpr int W = Simd<T>::width, V = kLanes / W;
    const std::size_t size = std::size_t(features) * kLanes;
    Vec<T> sum[N][V] = {};
    for (int j = 0; j < features; ++j) {
        const Vec<T> b = broadcast<T>(x[j]);
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n)
#pragma GCC unroll 8
            for (int v = 0; v < V; ++v) sum[n][v] = Simd<T>::fma(b, load<T>(lines + n * size + j * kLanes + v * W), sum[n][v]);
    }
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n)
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) store<T>(out + n * kLanes + v * W, sum[n][v]);
}

template <class T>
void inner_lines(const T* x, int features, const T* lines, int n_lines, T* out) {
    const std::size_t size = std::size_t(features) * kLanes;
    int n = 0;
    for (; n + 4 <= n_lines; n += 4) inner_some_lines<T, 4>(x, features, lines + n * size, out + n * kLanes);
    for (; n + 2 <= n_lines; n += 2) inner_some_lines<T, 2>(x, features, lines + n * size, out + n * kLanes);
    for (; n < n_lines; ++n) inner_some_lines<T, 1>(x, features, lines + n * size, out + n * kLanes);
}

// The same sums again, without products with zeros, which do not change a bit.
template <class T>
void inner_depths(const T* x, const T* tile, const int* depths, T* out) {
    constexpr int W = Simd<T>::width, V = kLanes / W, L = kTile / kLanes;
    int common = depths[0];
    for (int l = 1; l < L; ++l) common = depths[l] < common ? depths[l] : common;
    Vec<T> sum[L][V] = {};
    for (int j = 0; j < common; ++j) {
        const Vec<T> b = broadcast<T>(x[j]);
#pragma GCC unroll 4
        for (int l = 0; l < L; ++l)
#pragma GCC unroll 8
            for (int v = 0; v < V; ++v) sum[l][v] = Simd<T>::fma(b, load<T>(tile + j * kTile + l * kLanes + v * W), sum[l][v]);
    }
#pragma GCC unroll 4
    for (int l = 0; l < L; ++l) {
        for (int j = common; j < depths[l]; ++j) {
            const Vec<T> b = broadcast<T>(x[j]);
#pragma GCC unroll 8
            for (int v = 0; v < V; ++v) sum[l][v] = Simd<T>::fma(b, load<T>(tile + j * kTile + l * kLanes + v * W), sum[l][v]);
        }
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) store<T>(out + l * kLanes + v * W, sum[l][v]);
    }
}

template <class T>
void inner(const Rows<T>& rows, int begin, int end, const Tile<T>* tiles, int n_tiles, T* out, std::size_t stride) {
    for (int q = 0; q < n_tiles; ++q)
        for (int first = begin; first < end; first += kRows) {
            const int n = end - first < kRows ? end - first : kRows;
            inner_rows<T>(rows, first, n, tiles[q], out + first * stride + q * kTile, stride);
        }
}

template <class T>
void scatter(T x, const std::int32_t* slots, const T* values, int n, T* out) {
    for (int i = 0; i < n; ++i) out[slots[i]] = scalar_fma<T>(x, values[i], out[slots[i]]);
}

template <class T>
T gather_inner(const SparseRow<T>& x, const T* dense) {
    T sum = 0;
    for (int i = 0; i < x.n; ++i) sum = scalar_fma<T>(x.values[i], dense[x.columns[i]], sum);
    return sum;
}

}  // namespace

}  // namespace bomkl::BOMKL_ISA
