// Lines: a vector's worth of rows side by side, 64 bytes for each slot. A part of primitives.cpp, compiled once per
// instruction set.
#pragma once

#include <limits>
#include <utility>

#include "kernel_values.hpp"

namespace bomkl::BOMKL_ISA {
namespace {

template <class T>
inline constexpr int kVectorsOfLine{kLine<T> / Simd<T>::width};

// Slots that are related side by side: as many as fit the registers.
template <class T>
inline constexpr int kSlots{8 / kVectorsOfLine<T> > 2 ? 8 / kVectorsOfLine<T> : 2};

#define BOMKL_OF_LINE(v) _Pragma("GCC unroll 8") for (int v = 0; v < kVectorsOfLine<T>; ++v)
#define BOMKL_SLOTS(i) _Pragma("GCC unroll 8") for (int i = 0; i < S; ++i)

// As repair_distances does it, for one slot and the rows of a line from `begin` on.
template <class T>
[[gnu::noinline]] void repair_line(const Rows<T>& rows, int first, int begin, int end, const Tile<T>& tile, int c, T* line) {
    for (int r = begin; r < end; ++r)
        if (line[r] < (tile.norm[c] + rows.norm[first + r]) * Simd<T>::cancellation)
            line[r] = exact_distance<T>(rows, first + r, tile, c);
}

template <class T>
T least_entry(const Vec<T>& v) {
    T least = v[0];
    for (int i = 1; i < Simd<T>::width; ++i) least = v[i] < least ? v[i] : least;
    return least;
}

// Sources between a line of rows, `first` on, whose features lie in columns of stride kTile, and S slots, c on, of a tile of
// dense rows. Returns the least squared distance in each lane; distances to rows before `begin` and from `end` on mean nothing.
template <class T, int S>
[[gnu::always_inline]] inline Vec<T> relate_slots(const Rows<T>& rows, int first, int begin, int end, const T* columns,
                                                  T largest_norm, const Tile<T>& tile, int c, std::size_t at, T* const* out) {
    constexpr int W = Simd<T>::width, V = kVectorsOfLine<T>;
    T* const inner = out[int(Source::inner_product)];
    T* const squares = out[int(Source::squared_distance)];
    T* const cosines = out[int(Source::cosine)];
    T* const taxicab = out[int(Source::taxicab)];
    Vec<T> sum[S][V];
    BOMKL_SLOTS(i) BOMKL_OF_LINE(v) sum[i][v] = Vec<T>{};
    const T* slots = tile.x + c;
    const T* x = columns;
    for (int j = 0; j < rows.features; ++j, slots += kTile, x += kTile) {
        Vec<T> of_rows[V];
        BOMKL_OF_LINE(v) of_rows[v] = load<T>(x + v * W);
        BOMKL_SLOTS(i) {
            const Vec<T> b = broadcast<T>(slots[i]);
            BOMKL_OF_LINE(v) sum[i][v] = Simd<T>::fma(b, of_rows[v], sum[i][v]);
        }
    }
    if (inner) BOMKL_SLOTS(i) BOMKL_OF_LINE(v) store<T>(inner + at + i * kLine<T> + v * W, sum[i][v]);
    if (cosines) BOMKL_SLOTS(i)
    BOMKL_OF_LINE(v)
    store<T>(cosines + at + i * kLine<T> + v * W,
             sum[i][v] * (load<T>(rows.inverse_length + first + v * W) * tile.inverse_length[c + i]));
    if (taxicab) BOMKL_SLOTS(i) {
            Vec<T> total[V] = {};
            for (int j = 0; j < rows.features; ++j) {
                const Vec<T> b = broadcast<T>(tile.x[std::size_t(j) * kTile + c + i]);
                BOMKL_OF_LINE(v) {
                    const Vec<T> difference = b - load<T>(columns + std::size_t(j) * kTile + v * W);
                    total[v] -= Simd<T>::min(difference, -difference);
                }
            }
            BOMKL_OF_LINE(v) store<T>(taxicab + at + i * kLine<T> + v * W, total[v]);
        }
    if (!squares) return Vec<T>{};
    Vec<T> least = broadcast<T>(std::numeric_limits<T>::infinity());
    BOMKL_SLOTS(i) BOMKL_OF_LINE(v) {
        const Vec<T> norms = load<T>(rows.norm + first + v * W) + tile.norm[c + i];
        const Vec<T> distance = Simd<T>::fma(broadcast<T>(T(-2)), sum[i][v], norms);
        store<T>(squares + at + i * kLine<T> + v * W, distance);
        least = Simd<T>::min(distance, least);
    }
    const T bound = (*tile.largest_norm + largest_norm) * Simd<T>::cancellation;
    if (__builtin_expect(Simd<T>::any_less(least, broadcast<T>(bound)), 0))
        for (int i = 0; i < S; ++i) {
            T* const line = squares + at + i * kLine<T>;
            repair_line<T>(rows, first, begin, end, tile, c + i, line);
            BOMKL_OF_LINE(v) least = Simd<T>::min(load<T>(line + v * W), least);
        }
    return least;
}

template <class T>
T largest_norm_of(const Rows<T>& rows, int begin, int end) {
    T largest = 0;
    for (int r = begin; r < end; ++r) largest = rows.norm[r] > largest ? rows.norm[r] : largest;
    return largest;
}

template <class T>
T relate_line(const Rows<T>& rows, int first, int n, const T* columns, const Tile<T>* tiles, int n_tiles, T* const* out) {
    const T largest_norm = largest_norm_of<T>(rows, first, first + n);
    Vec<T> least = broadcast<T>(std::numeric_limits<T>::infinity());
    for (int q = 0; q < n_tiles; ++q)
        for (int c = 0; c < kTile; c += kSlots<T>)
            least = Simd<T>::min(relate_slots<T, kSlots<T>>(rows, first, 0, n, columns, largest_norm, tiles[q], c,
                                                            std::size_t(q * kTile + c) * kLine<T>, out),
                                 least);
    return least_entry<T>(least);
}

template <class T>
T relate_slot(const Rows<T>& rows, int first, int begin, int end, const T* columns, const Tile<T>& tile, int c, T* const* out) {
    const T largest_norm = largest_norm_of<T>(rows, first + begin, first + end);
    relate_slots<T, 1>(rows, first, begin, end, columns, largest_norm, tile, c, 0, out);
    T least = std::numeric_limits<T>::infinity();
    if (const T* const squares = out[int(Source::squared_distance)])
        for (int r = begin; r < end; ++r) least = squares[r] < least ? squares[r] : least;
    return least;
}

// Two vectors after pairs of their entries have changed places at a distance: the low half of it, or the high one.
template <class T, int distance, bool high, int... l>
[[gnu::always_inline]] inline Vec<T> exchanged(Vec<T> a, Vec<T> b, std::integer_sequence<int, l...>) {
    constexpr int W = Simd<T>::width;
    constexpr auto from = [](int at) {
        return high ? (at & distance ? W + at : at + distance) : (at & distance ? W + at - distance : at);
    };
#ifdef __clang__
    return __builtin_shufflevector(a, b, from(l)...);
#else
    return __builtin_shuffle(a, b, typename Simd<T>::Int{from(l)...});
#endif
}

// A square of vectors, rows becoming columns: pairs of entries change places at a distance of 1, then 2, 4 ...
template <class T, int distance = 1>
[[gnu::always_inline]] inline void transpose(Vec<T> (&m)[Simd<T>::width]) {
    constexpr int W = Simd<T>::width;
    if constexpr (distance < W) {
        constexpr std::make_integer_sequence<int, W> entries;
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) {
            if (i & distance) continue;
            const Vec<T> a = m[i], b = m[i + distance];
            m[i] = exchanged<T, distance, false>(a, b, entries);
            m[i + distance] = exchanged<T, distance, true>(a, b, entries);
        }
        transpose<T, distance * 2>(m);
    }
}

// Lines out of n rows of n_slots numbers each.
template <class T>
void turn_rows(const T* rows, int n, int n_slots, T* out) {
    constexpr int W = Simd<T>::width;
    for (int s = 0; s < n_slots; s += W)
        for (int v = 0; v < kVectorsOfLine<T>; ++v) {
            Vec<T> m[W];
#pragma GCC unroll 16
            for (int i = 0; i < W; ++i) m[i] = load<T>(rows + std::size_t(v * W + i < n ? v * W + i : 0) * n_slots + s);
            transpose<T>(m);
#pragma GCC unroll 16
            for (int i = 0; i < W; ++i) store<T>(out + std::size_t(s + i) * kLine<T> + v * W, m[i]);
        }
}

// Kernel values of a line with the slots of a list, from the kernel's source: values[row * stride + place in the list]. May
// write up to a line behind the last of each row.
template <class T>
void map_line(const PreparedKernel<T>& k, const T* lines, const int* slots, int n, T* values, std::size_t stride) {
    constexpr int W = Simd<T>::width, P = W < kStrip ? W : kStrip;
    with_kernel(k.kind, [&](auto kernel) {
        for (int first = 0; first < n; first += W)
            for (int v = 0; v < kVectorsOfLine<T>; ++v) {
                Vec<T> m[W];
#pragma GCC unroll 16
                for (int i = 0; i < W; ++i)
                    m[i] = load<T>(lines + std::size_t(slots[first + i < n ? first + i : n - 1]) * kLine<T> + v * W);
                T* const out = values + v * W * stride + first;
                if constexpr (std::is_same_v<decltype(kernel), gaussian::Kernel>) {
                    Vec<T> least = m[0];
#pragma GCC unroll 16
                    for (int i = 1; i < W; ++i) least = Simd<T>::min(least, m[i]);
                    if (!Simd<T>::any_less(least, broadcast<T>(k.furthest))) {
                        for (int i = 0; i < W; ++i) store<T>(out + i * stride, Vec<T>{});
                        continue;
                    }
                }
#pragma GCC unroll 4
                for (int i = 0; i < W; i += P) {
                    Vectors<T, P> part;
#pragma GCC unroll 4
                    for (int p = 0; p < P; ++p) part.v[p] = m[i + p];
                    part = kernel.map(k, part);
#pragma GCC unroll 4
                    for (int p = 0; p < P; ++p) m[i + p] = part.v[p];
                }
                transpose<T>(m);
#pragma GCC unroll 16
                for (int i = 0; i < W; ++i) store<T>(out + i * stride, m[i]);
            }
    });
}

// The same for one slot.
template <class T>
void map_column(const PreparedKernel<T>& k, const T* line, T* values, std::size_t stride) {
    constexpr int W = Simd<T>::width;
    for (int v = 0; v < kVectorsOfLine<T>; ++v) {
        const Vec<T> mapped = map_vector<T>(k, load<T>(line + v * W));
        for (int i = 0; i < W; ++i) values[(v * W + i) * stride] = mapped[i];
    }
}

// As the loop `if (cost < least) least = cost, place = j` finds it.
template <class T>
int cheapest(const T* coefs, const double* diagonal, const T* values, int n, double self) {
    using S = Simd<double>;
    constexpr int W = S::width;
    double least = std::numeric_limits<double>::infinity();
    int place = 0;
    for (int first = 0; first < n; first += kTile) {
        const int size = n - first < kTile ? n - first : kTile;
        alignas(64) double costs[kTile];
        for (int j = 0; j < size; ++j) {
            const double coef = double(coefs[first + j]), value = double(values[first + j]);
            costs[j] = self == 1  ? coef * coef * (diagonal[first + j] - value * value)
                       : self > 0 ? coef * coef * (diagonal[first + j] - value * value / self)
                                  : coef * coef * diagonal[first + j];
        }
        for (int j = size; j < kTile; ++j) costs[j] = std::numeric_limits<double>::infinity();
        Vec<double> smallest[2] = {broadcast<double>(least), broadcast<double>(least)};
        for (int j = 0; j < kTile; j += 2 * W) {
            smallest[0] = S::min(load<double>(costs + j), smallest[0]);
            smallest[1] = S::min(load<double>(costs + j + W), smallest[1]);
        }
        const double here = least_entry<double>(S::min(smallest[0], smallest[1]));
        if (!(here < least)) continue;
        least = here;
        int j = 0;
        while (costs[j] != least) ++j;
        place = first + j;
    }
    return place;
}

}  // namespace

}  // namespace bomkl::BOMKL_ISA
