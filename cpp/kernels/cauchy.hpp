// 1 / (1 + a |x - z|^2)
#pragma once

#include "../kernel.hpp"

namespace bomkl::cauchy {

struct Kernel {
    static constexpr const char* name = "Cauchy";
    static constexpr Source source = Source::squared_distance;

    template <class V, class T>
    [[gnu::always_inline]] static inline V map(const PreparedKernel<T>& k, V u) {
        return u.times_plus(k.a, T(1)).reciprocal();
    }
    static double self(const KernelSpec&, double) { return 1; }
};

}  // namespace bomkl::cauchy
