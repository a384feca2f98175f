// What a kernel declares, and its numbers.
//
// A kernel is one header in kernels/, named after it, with a struct `Kernel` in a namespace of the file's name. It has
//     static constexpr const char* name                         as the Python class of bomkl.kernels is called
//     static constexpr Source source                            what it is an elementwise map of
//     template <class V, class T> static V map(const PreparedKernel<T>&, V u)    that map, for vectors u of any length
//     static double self(const KernelSpec&, double squared_norm)                 k(x, x)
// and, where |k(x, z)| can be larger than k(x, x) of the longer row, `largest`, a bound from the squared norm of both.
// A kernel of x - z that has a Fourier transform also has
//     static double frequency_factor(const KernelSpec&, double u, double v)
// which makes its frequencies from normal columns, or Cauchy columns where it is a map of the sum of absolute differences; u
// and v are uniform draws in [0, 1) (see fourier.hpp).
// The build collects all headers of the folder (see CMakeLists.txt); every path maps with these definitions.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace bomkl {

enum class Source { inner_product, squared_distance, cosine, taxicab };
inline constexpr int kSources = 4;

inline constexpr int kCallable = -1;  // the kind of a kernel that is a Python function

struct KernelSpec {
    int kind;  // its place among all kernels
    Source source = Source::inner_product;
    double a = 0, b = 0;
    int degree = 1;
    // A Gaussian of half the width is the fourth power of the wider one. Its value is taken from the `root`, the widest of
    // a short chain of such Gaussians, by `fourths` fourth powers: always, so that it never depends on which kernels happen
    // to be evaluated together.
    double root = a;  // a of the root
    int fourths = 0;
};

inline constexpr int kWhole = 32;  // kernel values of smaller whole numbers are kept in a table

// The same in the precision of an engine, with what every evaluation would otherwise compute anew.
template <class T>
struct PreparedKernel {
    int kind;
    Source source;
    int degree;
    int fourths;
    T a, b;
    T exponent;               // of two: exp(-a u) = 2^(exponent u); that of the root for a Gaussian
    T furthest;               // u from which on exp(-a u) is taken as zero, so that no result is subnormal
    T root;                   // Gaussians of one chain have the same
    T at_whole[kWhole] = {};  // values where the inner product or squared distance is a whole number (Primitives::tabulate)

    PreparedKernel(const KernelSpec& k)
        : kind(k.kind), source(k.source), degree(k.degree), fourths(k.fourths), a(in_range(k.a)), b(T(k.b)),
          exponent(-in_range(kLog2E * k.root)),
          furthest(std::max(in_range((sizeof(T) == 4 ? 124 : 1020) / (kLog2E * k.a)), std::numeric_limits<T>::min())),
          root(in_range(k.root)) {}

private:
    // finite, so that a kernel too narrow for the precision is 1 where the distance is zero and 0 elsewhere
    static T in_range(double a) { return T(std::min(a, double(std::numeric_limits<T>::max()))); }
    static constexpr double kLog2E = 1.4426950408889634074;
};

}  // namespace bomkl
