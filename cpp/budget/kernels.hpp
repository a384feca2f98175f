// All kernels as one list (see kernel.hpp for what each declares).
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "all_kernels.hpp"

namespace bomkl {

template <class... Kernels>
struct KernelList {
    static constexpr int size = sizeof...(Kernels);
    // The place of a kernel in the list.
    template <class K>
    static constexpr int place() {
        int place = 0;
        (void)((std::is_same_v<K, Kernels> ? true : (++place, false)) || ...);
        return place;
    }
};
using AllKernels = BOMKL_ALL_KERNELS(KernelList);

inline constexpr int kGaussian = AllKernels::place<gaussian::Kernel>();

// use(kernel) with the kernel of this kind.
template <class Use, class First, class... Rest>
[[gnu::always_inline]] inline auto with_kernel(KernelList<First, Rest...>, int kind, Use&& use) {
    if constexpr (sizeof...(Rest) == 0) {
        return use(First());
    } else {
        if (kind == 0) return use(First());
        return with_kernel(KernelList<Rest...>(), kind - 1, use);
    }
}
template <class Use>
[[gnu::always_inline]] inline auto with_kernel(int kind, Use&& use) {
    return with_kernel(AllKernels(), kind, use);
}

// Everything about a kernel but its numbers, by its name.
inline KernelSpec kernel_named(const std::string& name) {
    for (int kind = 0; kind < AllKernels::size; ++kind)
        if (with_kernel(kind, [&](auto kernel) { return name == kernel.name; }))
            return {kind, with_kernel(kind, [](auto kernel) { return kernel.source; })};
    throw std::invalid_argument("the compiled core has no kernel " + name);
}

// Link Gaussians of width sigma, sigma/2, sigma/4 ... A fourth power multiplies the relative error by four, so a chain may
// have three links in float64 (error 2e-14) and two in float32 (5e-6, about that of a distance's last digit in the exponent).
inline void link_gaussians(std::vector<KernelSpec>& kernels, int longest) {
    std::vector<KernelSpec*> gaussians;
    for (KernelSpec& k : kernels)
        if (k.kind == kGaussian) gaussians.push_back(&k);
    std::sort(gaussians.begin(), gaussians.end(), [](const KernelSpec* x, const KernelSpec* y) { return x->a < y->a; });
    for (std::size_t i = 0; i < gaussians.size(); ++i) {
        KernelSpec& k = *gaussians[i];
        const KernelSpec* wider = i > 0 ? gaussians[i - 1] : nullptr;
        const bool linked = wider && k.a == 4 * wider->a && wider->fourths < longest;
        k.root = linked ? wider->root : k.a;
        k.fourths = linked ? wider->fourths + 1 : 0;
    }
}

inline bool has_callable(const std::vector<KernelSpec>& kernels) {
    return std::any_of(kernels.begin(), kernels.end(), [](const KernelSpec& k) { return k.kind == kCallable; });
}

// k(x, x) of a native kernel from the squared norm.
inline double self_kernel(const KernelSpec& k, double squared_norm) {
    return with_kernel(k.kind, [&](auto kernel) { return kernel.self(k, squared_norm); });
}

// What makes the kernel's frequencies from standard ones; none where it has no Fourier transform.
inline std::optional<double> frequency_factor(const KernelSpec& k, double u, double v) {
    if (k.kind == kCallable) return std::nullopt;
    return with_kernel(k.kind, [&](auto kernel) -> std::optional<double> {
        if constexpr (requires { kernel.frequency_factor(k, u, v); })
            return kernel.frequency_factor(k, u, v);
        else
            return std::nullopt;
    });
}

// The largest magnitude the kernel can take between two rows whose squared norms are at most this.
inline double largest_kernel_value(const KernelSpec& k, double squared_norm) {
    return with_kernel(k.kind, [&](auto kernel) {
        if constexpr (requires { kernel.largest(k, squared_norm); })
            return kernel.largest(k, squared_norm);
        else
            return kernel.self(k, squared_norm);
    });
}

}  // namespace bomkl
