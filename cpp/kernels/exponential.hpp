// exp(-a |x - z|)
#pragma once

#include "../kernel.hpp"

namespace bomkl::exponential {

struct Kernel {
    static constexpr const char* name = "Exponential";
    static constexpr Source source = Source::squared_distance;

    template <class V, class T>
    [[gnu::always_inline]] static inline V map(const PreparedKernel<T>& k, V u) {
        return u.sqrt().exp2_of_product(k.exponent, k.furthest);
    }
    static double self(const KernelSpec&, double) { return 1; }
};

}  // namespace bomkl::exponential
