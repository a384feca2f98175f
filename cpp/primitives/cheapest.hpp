// Which support row costs least to drop.
#pragma once

#include <limits>

#include "simd.hpp"

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

// The place of the least cost, the first of them, as the loop `if (cost < least) least = cost, place = j` finds it. Every lane
// keeps its least and where that was. cost(at) has the numbers of a place, or of a vector's worth of places, from at(list).
template <class Cost>
[[gnu::always_inline]] inline int first_least(int n, Cost&& cost) {
    using S = Simd<double>;
    constexpr int W = S::width;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    Vec<double> leasts = broadcast<double>(infinity), places{}, place;
    for (int i = 0; i < W; ++i) place[i] = i;
    int j = 0;
    for (; j + W <= n; j += W) {
        const Vec<double> costs = cost([j](const auto* p) { return load_doubles(p + j); });
        places = S::choose(S::less(costs, leasts), place, places);
        leasts = S::min(costs, leasts);
        place += double(W);
    }
    double least = infinity;
    int found = 0;
    for (int i = 0; i < W; ++i)
        if (leasts[i] < least || (leasts[i] == least && least < infinity && places[i] < found))
            least = leasts[i], found = int(places[i]);
    for (; j < n; ++j) {
        const double here = cost([j](const auto* p) { return double(p[j]); });
        if (here < least) least = here, found = j;
    }
    return found;
}
template <class T>
int cheapest(const T* coefs, const double* diagonal, const T* values, int n, double self) {
    if (!diagonal) return first_least(n, [=](auto&& at) { return at(coefs) * at(coefs) * (1.0 - at(values) * at(values)); });
    if (self == 1)
        return first_least(n, [=](auto&& at) { return at(coefs) * at(coefs) * (at(diagonal) - at(values) * at(values)); });
    if (self > 0)
        return first_least(n,
                           [=](auto&& at) { return at(coefs) * at(coefs) * (at(diagonal) - at(values) * at(values) / self); });
    return first_least(n, [=](auto&& at) { return at(coefs) * at(coefs) * at(diagonal); });
}

}  // namespace

}  // namespace bomkl::BOMKL_ISA
