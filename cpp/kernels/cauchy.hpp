// 1 / (1 + a |x - z|^2)
#pragma once

#include "budget/kernel.hpp"

namespace bomkl::cauchy {

struct Kernel {
    static constexpr const char* name = "Cauchy";
    static constexpr Source source = Source::squared_distance;

    template <class V, class T>
    [[gnu::always_inline]] static inline V map(const PreparedKernel<T>& k, V u) {
        return u.times_plus(k.a, T(1)).reciprocal();
    }
    static double self(const KernelSpec&, double) { return 1; }
    // a mixture of Gaussians exp(-s a |x - z|^2) where s has the exponential distribution
    static double frequency_factor(const KernelSpec& k, double u, double) { return std::sqrt(-2 * k.a * std::log1p(-u)); }
};

}  // namespace bomkl::cauchy
