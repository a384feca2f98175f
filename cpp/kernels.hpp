// A kernel is an elementwise map of the inner product, the squared distance and the product of inverse lengths.
#pragma once

#include <cmath>
#include <limits>
#include <string>

namespace bomkl {

enum class KernelKind { linear, polynomial, gaussian, exponential, cauchy, cosine, callable };

struct KernelSpec {
    KernelKind kind;
    double a = 0;  // polynomial: gamma; gaussian: 1/(2 sigma^2); exponential: 1/sigma; cauchy: 1/sigma^2
    double b = 0;  // polynomial: coef0
    int degree = 1;
    bool uses_distance() const {
        return kind == KernelKind::gaussian || kind == KernelKind::exponential || kind == KernelKind::cauchy;
    }
};

// k(x, x) of a native kernel from the squared norm.
inline double self_kernel(const KernelSpec& k, double squared_norm) {
    switch (k.kind) {
        case KernelKind::linear: return squared_norm;
        case KernelKind::polynomial: {
            const double base = k.a * squared_norm + k.b;
            double value = base;
            for (int i = 1; i < k.degree; ++i) value *= base;
            return value;
        }
        case KernelKind::cosine: return squared_norm > 0 ? 1 : 0;
        default: return 1;
    }
}

// The largest magnitude the kernel can take between two rows whose squared norms are at most this (Cauchy-Schwarz).
inline double largest_kernel_value(const KernelSpec& k, double squared_norm) {
    if (k.kind != KernelKind::polynomial) return self_kernel(k, squared_norm);
    return std::pow(k.a * squared_norm + std::fabs(k.b), k.degree);
}

}  // namespace bomkl
