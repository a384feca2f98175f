// Which support row costs least to drop.
#pragma once

#include <limits>

#include "strips.hpp"

namespace bomkl::BOMKL_ISA {
namespace {

// A vector's worth of doubles.
inline Vec<double> load_doubles(const double* p) { return load<double>(p); }
inline Vec<double> load_doubles(const float* p) {
    typedef float Half __attribute__((vector_size(kBytes / 2)));
    Half half;
    std::memcpy(&half, p, sizeof half);
    return __builtin_convertvector(half, Vec<double>);
}

// The place of the least cost, the first of them, as the loop `if (cost < least) least = cost, place = j` finds it. cost(at)
// has the numbers of a place, or of a vector's worth of places, from at(list).
template <class Cost>
[[gnu::always_inline]] inline int first_least(int n, Cost&& cost) {
    using S = Simd<double>;
    constexpr int W = S::width;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const auto costs_from = [&](int j) __attribute__((always_inline)) {
        return cost([j](const auto* p) __attribute__((always_inline)) { return load_doubles(p + j); });
    };
    const auto cost_at = [&](int j) __attribute__((always_inline)) {
        return cost([j](const auto* p) __attribute__((always_inline)) { return double(p[j]); });
    };
    // of every lane: its least, and the strip of places where that was
    Vec<double> leasts = broadcast<double>(infinity), strips{}, strip{};
    const auto look = [&](int begin, int vectors) __attribute__((always_inline)) {
        Vec<double> least = broadcast<double>(infinity);
        _Pragma("GCC unroll 4") for (int i = 0; i < vectors; ++i) least = S::min(costs_from(begin + i * W), least);
        strips = S::choose(S::less(least, leasts), strip, strips);
        leasts = S::min(least, leasts);
        strip += 1.0;
    };
    int j = 0;
    for (; j + kStrip * W <= n; j += kStrip * W) look(j, kStrip);
    for (const int rest = (n - j) / W; j + W <= n; j = n / W * W) look(j, rest);
    double least = least_entry<double>(leasts);
    const double first =
        least_entry<double>(S::choose(S::less(broadcast<double>(least), leasts), broadcast<double>(infinity), strips));
    int found = n;
    for (; j < n; ++j)
        if (const double here = cost_at(j); here < least) least = here, found = j;
    if (found < n) return found;
    if (least == infinity) return 0;
    // Compared with the least itself, not with the next number: beside zero, processors may be set to take that for zero.
    const Vec<double> zeros{}, ones = broadcast<double>(1), limit = broadcast<double>(least);
    for (j = int(first) * kStrip * W; !S::any_less(S::choose(S::less(limit, costs_from(j)), ones, zeros), ones);) j += W;
    while (!(cost_at(j) <= least)) ++j;
    return j;
}
template <class T>
int cheapest(const T* coefs, const double* diagonal, const T* values, int n, double self) {
    if (!diagonal && !values) return first_least(n, [=](auto&& at) { return at(coefs) * at(coefs); });
    if (!diagonal) return first_least(n, [=](auto&& at) { return at(coefs) * at(coefs) * (1.0 - at(values) * at(values)); });
    if (!values || !(self > 0)) return first_least(n, [=](auto&& at) { return at(coefs) * at(coefs) * at(diagonal); });
    if (self == 1)
        return first_least(n, [=](auto&& at) { return at(coefs) * at(coefs) * (at(diagonal) - at(values) * at(values)); });
    return first_least(n, [=](auto&& at) { return at(coefs) * at(coefs) * (at(diagonal) - at(values) * at(values) / self); });
}

}  // namespace

}  // namespace bomkl::BOMKL_ISA
