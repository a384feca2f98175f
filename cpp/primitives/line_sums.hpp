// Sums over lines, and their least entries.
#pragma once

#include <cmath>
#include <utility>

#include "kernel_values.hpp"
#include "lines.hpp"

namespace bomkl::BOMKL_ISA {
namespace {

// lane += coef * value over the places first, first + kLanes ...
template <class T>
void sum_lane(const T* coefs, const int* columns, int first, int n, const T* values, T* lane) {
    constexpr int W = Simd<T>::width;
    Vec<T> sum[kVectorsOfLine<T>];
    BOMKL_OF_LINE(v) sum[v] = load<T>(lane + v * W);
    for (int j = first; j < n; j += kLanes) {
        const T* const line = values + std::size_t(columns[j]) * kLine<T>;
        BOMKL_OF_LINE(v) sum[v] = Simd<T>::fma(broadcast<T>(coefs[j]), load<T>(line + v * W), sum[v]);
    }
    BOMKL_OF_LINE(v) store<T>(lane + v * W, sum[v]);
}

// All lanes, from zero.
template <class T>
void sum_line(const T* coefs, const int* columns, int n, const T* values, T* lanes) {
    constexpr int W = Simd<T>::width, V = kVectorsOfLine<T>, S = V == 1 ? kLanes : 8 / V;
    for (int lane = 0; lane < kLanes; lane += S) {
        Vec<T> sum[S][V];
#pragma GCC unroll 16
        for (int i = 0; i < S; ++i) BOMKL_OF_LINE(v) sum[i][v] = Vec<T>{};
        int first = lane;
        for (; first + S <= n; first += kLanes)
#pragma GCC unroll 16
            for (int i = 0; i < S; ++i) {
                const T* const line = values + std::size_t(columns[first + i]) * kLine<T>;
                BOMKL_OF_LINE(v) sum[i][v] = Simd<T>::fma(broadcast<T>(coefs[first + i]), load<T>(line + v * W), sum[i][v]);
            }
#pragma GCC unroll 16
        for (int i = 0; i < S; ++i) BOMKL_OF_LINE(v) store<T>(lanes + (lane + i) * kLine<T> + v * W, sum[i][v]);
        for (int j = first; j < n && j < first + S; ++j) {
            const T* const line = values + std::size_t(columns[j]) * kLine<T>;
            T* const last = lanes + j % kLanes * kLine<T>;
            BOMKL_OF_LINE(v)
            store<T>(last + v * W, Simd<T>::fma(broadcast<T>(coefs[j]), load<T>(line + v * W), load<T>(last + v * W)));
        }
    }
}

// Lanes added up as sum_of adds them.
template <class T>
void add_lanes(const T* lanes, T* sums) {
    constexpr int W = Simd<T>::width;
    BOMKL_OF_LINE(v) {
        Vec<T> sum[kLanes / 2];
#pragma GCC unroll 8
        for (int i = 0; i < kLanes / 2; ++i)
            sum[i] = load<T>(lanes + i * kLine<T> + v * W) + load<T>(lanes + (i + kLanes / 2) * kLine<T> + v * W);
#pragma GCC unroll 8
        for (int half = kLanes / 4; half > 0; half /= 2)
            for (int i = 0; i < half; ++i) sum[i] += sum[i + half];
        store<T>(sums + v * W, sum[0]);
    }
}

// Numbers and their sizes in single precision.
template <class T>
std::pair<T, T> narrow(const T* numbers, int n, float* out, float* sizes) {
    using S = Simd<T>;
    constexpr int W = S::width;
    typedef float Narrow __attribute__((vector_size(W * sizeof(float))));
    const auto keep = [](Vec<T> v, float* to) __attribute__((always_inline)) {
        const Narrow narrow = __builtin_convertvector(v, Narrow);
        std::memcpy(to, &narrow, sizeof narrow);
    };
    Vec<T> least = broadcast<T>(std::numeric_limits<T>::infinity()), negative{};
    int j = 0;
    for (; j + W <= n; j += W) {
        const Vec<T> number = load<T>(numbers + j), size = S::min(number, -number);
        keep(number, out + j);
        keep(-size, sizes + j);
        negative = S::min(size, negative);
        least = S::min(-size, least);
    }
    T smallest = least_entry<T>(least), largest = -least_entry<T>(negative);
    for (; j < n; ++j) {
        const T size = std::fabs(numbers[j]);
        out[j] = float(numbers[j]);
        sizes[j] = float(size);
        smallest = size < smallest ? size : smallest;
        largest = size > largest ? size : largest;
    }
    return {smallest, largest};
}

// The least of listed lines.
template <class T>
void least_listed(const T* lines, const int* slots, int n, T* least) {
    constexpr int W = Simd<T>::width, V = kVectorsOfLine<T>;
    Vec<T> of_rows[V];
    BOMKL_OF_LINE(v) of_rows[v] = broadcast<T>(std::numeric_limits<T>::infinity());
    for (int i = 0; i < n; ++i)
        BOMKL_OF_LINE(v) of_rows[v] = Simd<T>::min(load<T>(lines + std::size_t(slots[i]) * kLine<T> + v * W), of_rows[v]);
    BOMKL_OF_LINE(v) store<T>(least + v * W, of_rows[v]);
}

// Sums of coef * value and of size * |value| over listed lines, `shift` taken off each before it is mapped.
template <class T>
void add_listed(const PreparedKernel<T>& k, const T* lines, const T* shift, const int* slots, const T* coefs, const T* sizes,
                int n, T* sums, T* sums_of_sizes) {
    constexpr int W = Simd<T>::width, V = kVectorsOfLine<T>, S = V < kStrip ? kStrip / V : 1, N = S * V;
    static_assert(S <= kPadding);
    with_kernel(k.kind, [&](auto kernel) {
        constexpr bool is_gaussian = std::is_same_v<decltype(kernel), gaussian::Kernel>;
        Vec<T> sum[V], size[V], off[V] = {};
        BOMKL_OF_LINE(v) sum[v] = load<T>(sums + v * W);
        BOMKL_OF_LINE(v) size[v] = load<T>(sums_of_sizes + v * W);
        if (shift) BOMKL_OF_LINE(v) off[v] = load<T>(shift + v * W);
        for (int first = 0; first < n; first += S) {
            Vectors<T, N> part;
            BOMKL_SLOTS(i) {
                const T* const line = lines + std::size_t(slots[first + i < n ? first + i : n - 1]) * kLine<T>;
                BOMKL_OF_LINE(v) part.v[i * V + v] = load<T>(line + v * W) - off[v];
            }
            if constexpr (is_gaussian) {
                Vec<T> least = part.v[0];
#pragma GCC unroll 8
                for (int i = 1; i < N; ++i) least = Simd<T>::min(least, part.v[i]);
                if (!Simd<T>::any_less(least, broadcast<T>(k.furthest))) continue;
            }
            part = kernel.map(k, part);
            Vec<T> of_part[V] = {}, size_of_part[V] = {};
            BOMKL_SLOTS(i) BOMKL_OF_LINE(v) {
                const Vec<T> value = part.v[i * V + v];
                of_part[v] = Simd<T>::fma(broadcast<T>(coefs[first + i]), value, of_part[v]);
                size_of_part[v] = Simd<T>::fma(broadcast<T>(sizes[first + i]),
                                               is_gaussian ? value : -Simd<T>::min(value, -value), size_of_part[v]);
            }
            BOMKL_OF_LINE(v) sum[v] += of_part[v];
            BOMKL_OF_LINE(v) size[v] += size_of_part[v];
        }
        BOMKL_OF_LINE(v) store<T>(sums + v * W, sum[v]);
        BOMKL_OF_LINE(v) store<T>(sums_of_sizes + v * W, size[v]);
    });
}

}  // namespace

}  // namespace bomkl::BOMKL_ISA
