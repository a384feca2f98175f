// x.z
#pragma once

#include "budget/kernel.hpp"

namespace bomkl::linear {

struct Kernel {
    static constexpr const char* name = "Linear";
    static constexpr Source source = Source::inner_product;

    template <class V, class T>
    [[gnu::always_inline]] static inline V map(const PreparedKernel<T>&, V u) {
        return u;
    }
    static double self(const KernelSpec&, double squared_norm) { return squared_norm; }
};

}  // namespace bomkl::linear
