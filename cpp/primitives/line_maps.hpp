// Kernel values of lines.
#pragma once

#include <utility>

#include "kernel_values.hpp"
#include "lines.hpp"

namespace bomkl::BOMKL_ISA {
namespace {

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

// Kernel values of a line with the slots of a list, from the kernel's source: values[row * stride + place in the list]. May
// write up to a line behind the last of each row. False where all are zero.
template <class T>
bool map_line(const PreparedKernel<T>& k, const T* lines, const int* slots, int n, T* values, std::size_t stride) {
    constexpr int W = Simd<T>::width, P = W < kStrip ? W : kStrip;
    return with_kernel(k.kind, [&](auto kernel) {
        bool any = !std::is_same_v<decltype(kernel), gaussian::Kernel>;
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
                any = true;
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
        return any;
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

// Kernel values of n lines, which lie as their source does.
template <class T>
void map_lines(const PreparedKernel<T>& k, const T* lines, int n, T* values) {
    constexpr int W = Simd<T>::width, V = kVectorsOfLine<T>, S = V < kStrip ? kStrip / V : 1, N = S * V;
    with_kernel(k.kind, [&](auto kernel) {
        for (int first = 0; first < n; first += S) {
            Vectors<T, N> part;
            BOMKL_SLOTS(i) {
                const T* const line = lines + std::size_t(first + i < n ? first + i : n - 1) * kLine<T>;
                BOMKL_OF_LINE(v) part.v[i * V + v] = load<T>(line + v * W);
            }
            if constexpr (std::is_same_v<decltype(kernel), gaussian::Kernel>) {
                Vec<T> least = part.v[0];
#pragma GCC unroll 8
                for (int i = 1; i < N; ++i) least = Simd<T>::min(least, part.v[i]);
                if (!Simd<T>::any_less(least, broadcast<T>(k.furthest)))
                    part = Vectors<T, N>{};
                else
                    part = kernel.map(k, part);
            } else {
                part = kernel.map(k, part);
            }
            BOMKL_SLOTS(i) {
                const int place = first + i < n ? first + i : n - 1;
                BOMKL_OF_LINE(v) store<T>(values + std::size_t(place) * kLine<T> + v * W, part.v[i * V + v]);
            }
        }
    });
}

}  // namespace

}  // namespace bomkl::BOMKL_ISA
