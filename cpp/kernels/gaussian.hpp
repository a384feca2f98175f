// exp(-a |x - z|^2). A chain of them is evaluated by fourth powers (see KernelSpec).
#pragma once

#include "budget/kernel.hpp"

namespace bomkl::gaussian {

struct Kernel {
    static constexpr const char* name = "Gaussian";
    static constexpr Source source = Source::squared_distance;

    template <class V, class T>
    [[gnu::always_inline]] static inline V map(const PreparedKernel<T>& k, V u) {
        V value = u.exp2_of_product(k.exponent, k.furthest);
        for (int fourths = k.fourths; fourths > 0; --fourths) {
            value *= value;
            value *= value;
        }
        return value;
    }
    static double self(const KernelSpec&, double) { return 1; }
    static double frequency_factor(const KernelSpec& k, double, double) { return std::sqrt(2 * k.a); }
};

}  // namespace bomkl::gaussian
