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
// put(row, column, vector) takes the results.
template <class T, int R, class Put>
[[gnu::always_inline]] inline void inner_tile(const T* x, std::size_t stride, const T* tile, int features, Put put) {
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
            for (int v = 0; v < N; ++v) put(r, c + v * W, sum[r][v]);
    }
}

// The same for up to kRows rows.
template <class T, class Put>
[[gnu::always_inline]] inline void inner_few(const T* x, std::size_t stride, int n, const T* tile, int features, Put put) {
    switch (n) {
        case 1: return inner_tile<T, 1>(x, stride, tile, features, put);
        case 2: return inner_tile<T, 2>(x, stride, tile, features, put);
        case 3: return inner_tile<T, 3>(x, stride, tile, features, put);
        case 4: return inner_tile<T, 4>(x, stride, tile, features, put);
#if BOMKL_VECTOR_BYTES > 16
        case 5: return inner_tile<T, 5>(x, stride, tile, features, put);
        default: return inner_tile<T, 6>(x, stride, tile, features, put);
#else
        default: return;
#endif
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
    inner_few<T>(x, rows.stride, n, tile, rows.features,
                 [&](int r, int c, Vec<T> sum) { store<T>(out + r * out_stride + c, sum); });
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

// The same for R rows at a time, and for what is left by halves of R.
template <class T, int R>
void inner_line(const T* x, std::size_t stride, int n, int features, const T* line, T* out, std::size_t out_stride) {
    constexpr int W = Simd<T>::width, V = kLanes / W;
    for (; n >= R; n -= R, x += R * stride, out += R * out_stride) {
        Vec<T> sum[R][V] = {};
        for (int j = 0; j < features; ++j) {
            Vec<T> z[V];
#pragma GCC unroll 8
            for (int v = 0; v < V; ++v) z[v] = load<T>(line + j * kLanes + v * W);
#pragma GCC unroll 16
            for (int r = 0; r < R; ++r) {
                const Vec<T> b = broadcast<T>(x[r * stride + j]);
#pragma GCC unroll 8
                for (int v = 0; v < V; ++v) sum[r][v] = Simd<T>::fma(b, z[v], sum[r][v]);
            }
        }
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
            for (int v = 0; v < V; ++v) store<T>(out + r * out_stride + v * W, sum[r][v]);
    }
    if constexpr (R > 1)
        if (n > 0) inner_line<T, R / 2>(x, stride, n, features, line, out, out_stride);
}

template <class T>
void inner_lines(const T* x, std::size_t stride, int n, int features, const T* lines, int n_lines, T* out,
                 std::size_t out_stride) {
    constexpr int V = kLanes / Simd<T>::width, R = V == 1 ? 16 : V == 2 ? 4 : 2;
    const std::size_t size = std::size_t(features) * kLanes;
    if (n > 1) {
        for (int l = 0; l < n_lines; ++l)
            inner_line<T, R>(x, stride, n, features, lines + l * size, out + l * kLanes, out_stride);
        return;
    }
    int l = 0;
    for (; l + 4 <= n_lines; l += 4) inner_some_lines<T, 4>(x, features, lines + l * size, out + l * kLanes);
    for (; l + 2 <= n_lines; l += 2) inner_some_lines<T, 2>(x, features, lines + l * size, out + l * kLanes);
    for (; l < n_lines; ++l) inner_some_lines<T, 1>(x, features, lines + l * size, out + l * kLanes);
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

// Results that are taken off stay in registers until then.
template <class T>
void subtract_inner(const Rows<T>& rows, int n, const T* tile, const T* from, T* out) {
    for (int first = 0; first < n; first += kRows) {
        const T* const some = from + std::size_t(first) * kTile;
        T* const place = out + std::size_t(first) * kTile;
        inner_few<T>(rows.x + first * rows.stride, rows.stride, n - first < kRows ? n - first : kRows, tile, rows.features,
                     [&](int r, int c, Vec<T> sum) { store<T>(place + r * kTile + c, load<T>(some + r * kTile + c) - sum); });
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
