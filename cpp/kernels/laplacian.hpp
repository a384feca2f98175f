// exp(-a |x - z|_1)
#pragma once

#include "budget/kernel.hpp"

namespace bomkl::laplacian {

struct Kernel {
    static constexpr const char* name = "Laplacian";
    static constexpr Source source = Source::taxicab;

    template <class V, class T>
    [[gnu::always_inline]] static inline V map(const PreparedKernel<T>& k, V u) {
        return u.exp2_of_product(k.exponent, k.furthest);
    }
    static double self(const KernelSpec&, double) { return 1; }
    static double frequency_factor(const KernelSpec& k, double, double) { return k.a; }
};

}  // namespace bomkl::laplacian
