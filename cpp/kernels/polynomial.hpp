// (a x.z + b)^degree
#pragma once

#include "budget/kernel.hpp"

namespace bomkl::polynomial {

struct Kernel {
    static constexpr const char* name = "Polynomial";
    static constexpr Source source = Source::inner_product;

    template <class V, class T>
    [[gnu::always_inline]] static inline V map(const PreparedKernel<T>& k, V u) {
        const V base = u.times_plus(k.a, k.b);
        V value = base;
        for (int i = 1; i < k.degree; ++i) value *= base;
        return value;
    }
    static double self(const KernelSpec& k, double squared_norm) {
        const double base = k.a * squared_norm + k.b;
        double value = base;
        for (int i = 1; i < k.degree; ++i) value *= base;
        return value;
    }
    // The largest magnitude between rows of at most this squared norm (Cauchy-Schwarz).
    static double largest(const KernelSpec& k, double squared_norm) {
        return std::pow(k.a * squared_norm + std::fabs(k.b), k.degree);
    }
};

}  // namespace bomkl::polynomial
