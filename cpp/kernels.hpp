// A kernel is an elementwise map of the inner product, the squared distance and the product of inverse lengths.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace bomkl {

enum class KernelKind { linear, polynomial, gaussian, exponential, cauchy, cosine, callable };

struct KernelSpec {
    KernelKind kind;
    double a = 0;  // polynomial: gamma; gaussian: 1/(2 sigma^2); exponential: 1/sigma; cauchy: 1/sigma^2
    double b = 0;  // polynomial: coef0
    int degree = 1;
    // A Gaussian of half the width is the fourth power of the wider one. Its value is taken from the `root`, the widest of
    // a short chain of such Gaussians, by `fourths` fourth powers: always, so that it never depends on which kernels happen
    // to be evaluated together.
    double root = 0;  // a of the root
    int fourths = 0;
};

// Link Gaussians of width sigma, sigma/2, sigma/4 ... A fourth power multiplies the relative error by four, so a chain may
// have three links in float64 (error 2e-14) and two in float32 (5e-6, about that of a distance's last digit in the exponent).
inline void link_gaussians(std::vector<KernelSpec>& kernels, int longest) {
    std::vector<KernelSpec*> gaussians;
    for (KernelSpec& k : kernels)
        if (k.kind == KernelKind::gaussian) gaussians.push_back(&k);
    std::sort(gaussians.begin(), gaussians.end(), [](const KernelSpec* x, const KernelSpec* y) { return x->a < y->a; });
    for (std::size_t i = 0; i < gaussians.size(); ++i) {
        KernelSpec& k = *gaussians[i];
        const KernelSpec* wider = i > 0 ? gaussians[i - 1] : nullptr;
        const bool linked = wider && k.a == 4 * wider->a && wider->fourths < longest;
        k.root = linked ? wider->root : k.a;
        k.fourths = linked ? wider->fourths + 1 : 0;
    }
}

inline constexpr int kWhole = 32;  // kernel values of smaller whole numbers are kept in a table

// The same in the precision of an engine, with what every evaluation would otherwise compute anew.
template <class T>
struct PreparedKernel {
    KernelKind kind;
    int degree;
    int fourths;
    T a, b;
    T exponent;  // of two: exp(-a u) = 2^(exponent u); that of the root for a Gaussian
    T furthest;  // u from which on exp(-a u) is taken as zero, so that no result is subnormal
    T root;      // Gaussians of one chain have the same
    T at_whole[kWhole] = {};  // values where the inner product or squared distance is a whole number (Primitives::tabulate)

    PreparedKernel(const KernelSpec& k)
        : kind(k.kind), degree(k.degree), fourths(k.fourths), a(in_range(k.a)), b(T(k.b)),
          exponent(-in_range(kLog2E * (kind == KernelKind::gaussian ? k.root : k.a))),
          furthest(std::max(in_range((sizeof(T) == 4 ? 124 : 1020) / (kLog2E * k.a)), std::numeric_limits<T>::min())),
          root(in_range(k.root)) {}
    bool uses_distance() const {
        return kind == KernelKind::gaussian || kind == KernelKind::exponential || kind == KernelKind::cauchy;
    }

private:
    // finite, so that a kernel too narrow for the precision is 1 where the distance is zero and 0 elsewhere
    static T in_range(double a) { return T(std::min(a, double(std::numeric_limits<T>::max()))); }
    static constexpr double kLog2E = 1.4426950408889634074;
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
