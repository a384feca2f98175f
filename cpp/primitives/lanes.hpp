// Weighted sums in lanes: entry i goes to lane i mod kLanes, and lanes are always added up in the same way.
#pragma once

#include "primitives/primitives.hpp"
#include "simd.hpp"

namespace bomkl::BOMKL_ISA {
namespace {

template <class T>
T sum_of(const T* lanes) {
    T sum[kLanes / 2];
    for (int i = 0; i < kLanes / 2; ++i) sum[i] = lanes[i] + lanes[i + kLanes / 2];
    for (int half = kLanes / 4; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) sum[i] += sum[i + half];
    return sum[0];
}

template <class T>
void sum_lanes(const T* lanes, int n_expansions, double* scores) {
    for (int e = 0; e < n_expansions; ++e, lanes += kLaneSets * kLanes) {
        T both[kLanes];
        for (int i = 0; i < kLanes; ++i) both[i] = lanes[i] + lanes[i + kLanes];
        scores[e] = double(sum_of<T>(both));
    }
}

template <class T>
T weighted_sum(const T* coef, const T* values, int n) {
    constexpr int W = Simd<T>::width, G = kLanes / W;
    Vec<T> sum[G] = {};
    int i = 0;
    for (; i + kLanes <= n; i += kLanes) {
#pragma GCC unroll 8
        for (int g = 0; g < G; ++g) sum[g] = Simd<T>::fma(load<T>(coef + i + g * W), load<T>(values + i + g * W), sum[g]);
    }
#pragma GCC unroll 8
    for (int g = 0; g < G; ++g) {
        const int rest = n - i - g * W;
        if (rest <= 0) break;
        sum[g] = rest >= W ? Simd<T>::fma(load<T>(coef + i + g * W), load<T>(values + i + g * W), sum[g])
                           : Simd<T>::fma_first(coef + i + g * W, values + i + g * W, sum[g], rest);
    }
    T lanes[kLanes];
#pragma GCC unroll 8
    for (int g = 0; g < G; ++g) store<T>(lanes + g * W, sum[g]);
    return sum_of<T>(lanes);
}

}  // namespace

}  // namespace bomkl::BOMKL_ISA
