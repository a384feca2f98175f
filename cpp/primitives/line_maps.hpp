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

// Kernel values of a line, which lie as their source does: values[place] from lines[slot], or lines[place] where slots is null.
template <class T>
void map_listed(const PreparedKernel<T>& k, const T* lines, const int* slots, int n, T* values) {
    constexpr int W = Simd<T>::width, V = kVectorsOfLine<T>, S = V < kStrip ? kStrip / V : 1, N = S * V;
    with_kernel(k.kind, [&](auto kernel) {
        for (int first = 0; first < n; first += S) {
            Vectors<T, N> part;
            BOMKL_SLOTS(i) {
                const int place = first + i < n ? first + i : n - 1;
                const T* const line = lines + std::size_t(slots ? slots[place] : place) * kLine<T>;
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

// Values of the first `depth` + 1 Gaussians of a chain, of listed slots: values[level][slot].
template <class T, int depth>
void map_chain_to(const PreparedKernel<T>* const* kernels, const T* lines, const int* slots, int n, T* const* values) {
    constexpr int W = Simd<T>::width, V = kVectorsOfLine<T>, S = V < kStrip ? kStrip / V : 1, N = S * V;
    static_assert(N == kStrip);
    for (int first = 0; first < n; first += S) {
        Strip<T> distance, value{};
        std::size_t at[S];
        BOMKL_SLOTS(i) {
            at[i] = std::size_t(slots[first + i < n ? first + i : n - 1]) * kLine<T>;
            BOMKL_OF_LINE(v) distance.v[i * V + v] = load<T>(lines + at[i] + v * W);
        }
        const auto keep = [&](T * to) __attribute__((always_inline)) {
            BOMKL_SLOTS(i) BOMKL_OF_LINE(v) store<T>(to + at[i] + v * W, value.v[i * V + v]);
        };
        if (Simd<T>::any_less(distance.least(), broadcast<T>(kernels[0]->furthest)))
            value = gaussian::Kernel::map(*kernels[0], distance);
        keep(values[0]);
#pragma GCC unroll 4
        for (int level = 1; level <= depth; ++level) {
            next_gaussian<T>(*kernels[level], distance, value);
            keep(values[level]);
        }
    }
}
template <class T>
void map_chain(const PreparedKernel<T>* const* kernels, int depth, const T* lines, const int* slots, int n, T* const* values) {
    switch (depth) {
        case 0: return map_chain_to<T, 0>(kernels, lines, slots, n, values);
        case 1: return map_chain_to<T, 1>(kernels, lines, slots, n, values);
        case 2: return map_chain_to<T, 2>(kernels, lines, slots, n, values);
        default: return map_chain_to<T, 3>(kernels, lines, slots, n, values);
    }
}

}  // namespace

}  // namespace bomkl::BOMKL_ISA
