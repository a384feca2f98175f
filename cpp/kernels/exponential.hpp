// exp(-a |x - z|)
#pragma once

#include "budget/kernel.hpp"

namespace bomkl::exponential {

struct Kernel {
    static constexpr const char* name = "Exponential";
    static constexpr Source source = Source::squared_distance;

    template <class V, class T>
    [[gnu::always_inline]] static inline V map(const PreparedKernel<T>& k, V u) {
        return u.sqrt().exp2_of_product(k.exponent, k.furthest);
    }
    static double self(const KernelSpec&, double) { return 1; }
    // Its frequencies have the multivariate Cauchy distribution: normal columns over the size of one more normal number.
    static double frequency_factor(const KernelSpec& k, double u, double v) {
        const double size = std::sqrt(-2 * std::log1p(-u)) * std::fabs(std::cos(2 * 3.14159265358979323846 * v));
        return k.a / std::max(size, 0x1p-60);
    }
};

}  // namespace bomkl::exponential
