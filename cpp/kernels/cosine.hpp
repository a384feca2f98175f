// x.z / (|x| |z|)
#pragma once

#include "budget/kernel.hpp"

namespace bomkl::cosine {

struct Kernel {
    static constexpr const char* name = "Cosine";
    static constexpr Source source = Source::cosine;

    template <class V, class T>
    [[gnu::always_inline]] static inline V map(const PreparedKernel<T>&, V u) {
        return u;
    }
    static double self(const KernelSpec&, double squared_norm) { return squared_norm > 0 ? 1 : 0; }
};

}  // namespace bomkl::cosine
