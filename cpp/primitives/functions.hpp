// Exponentials, hyperbolic tangents, cosines and sines of many numbers.
#pragma once

#include "primitives/primitives.hpp"
#include "simd.hpp"

namespace bomkl::BOMKL_ISA {
namespace {

// exp(x) = 2^(n + r). The part r is what is left of x after n ln(2), taken off in two parts: the product of x and log2(e)
// alone would be off by |x| units in the last place.
template <class T>
[[gnu::always_inline]] inline Vec<T> exp_of(Vec<T> x) {
    using S = Simd<T>;
    const Vec<T> log2e = broadcast<T>(T(1.4426950408889634074));
    const Vec<T> multiple = next_multiple<T>(x, log2e), whole = value_of_multiple<T>(multiple);
    const Vec<T> rest = S::fma(whole, broadcast<T>(-S::ln2_low), S::fma(whole, broadcast<T>(-S::ln2_high), x));
    return exp2_of_sum<T>(multiple, rest * log2e, S::less(broadcast<T>(S::least_exp), x));
}

template <class T>
void exp_many(T* values, std::size_t n, T factor) {
    constexpr int W = Simd<T>::width;
    for (std::size_t i = 0; i + W <= n; i += W) store<T>(values + i, exp_of<T>(load<T>(values + i) * factor));
}

// tanh(x) = (1 - e) / (1 + e) where e = exp(-2 |x|), with the sign of x. Below 1/2 that would lose digits: there it is a series
// in x^2, interpolated at Chebyshev points, whose relative error is 1.4e-9.
template <class T>
void tanh_many(T* values, std::size_t n) {
    using S = Simd<T>;
    constexpr int W = S::width;
    constexpr T series[] = {T(-0.33333332796632), T(0.13333225775496), T(-0.053933469147428), T(0.021470683031127),
                            T(-0.0069429417578083)};
    constexpr int last = sizeof(series) / sizeof(T) - 1;
    for (std::size_t i = 0; i + W <= n; i += W) {
        const Vec<T> x = load<T>(values + i), size = x < T(0) ? -x : x, square = x * x;
        const Vec<T> e = exp_of<T>(T(-2) * size), far = (T(1) - e) / (T(1) + e);
        Vec<T> p = broadcast<T>(series[last]);
#pragma GCC unroll 8
        for (int k = last - 1; k >= 0; --k) p = S::fma(p, square, broadcast<T>(series[k]));
        store<T>(values + i, size < T(0.5) ? S::fma(p * square, x, x) : (x < T(0) ? -far : far));
    }
}

template <class T>
void gaussians(T* products, std::size_t n, T norm, const T* norms, T scale) {
    constexpr int W = Simd<T>::width;
    for (std::size_t i = 0; i + W <= n; i += W) {
        const Vec<T> distance = norm + load<T>(norms + i) - T(2) * load<T>(products + i);
        store<T>(products + i, exp_of<T>(-scale * (distance < T(0) ? Vec<T>{} : distance)));
    }
}

// Cosine and sine by the distance to the next multiple of a quarter turn, taken off in three parts so that no digit is lost.
// The series are those of Taylor, to the last digit of a double where |rest| <= pi/4. Signs and the exchange of the two are
// done on bits, which the compiler turns into vectors. False where an angle has too many turns for that.
template <class T>
bool near_waves(const T* __restrict inner, const double* __restrict factors, int n, double amplitude, T* __restrict cosines,
                T* __restrict sines, double furthest) {
    using Bits = std::int64_t;
    constexpr double magic = 0x1.8p52, two_over_pi = 0.63661977236758134308;  // adding the former rounds
    constexpr double high = 0x1.921fb54400000p+0, middle = 0x1.0b4611a600000p-34, low = 0x1.3198a2e037073p-69;
    Bits far = 0;
    for (int i = 0; i < n; ++i) {
        const double angle = double(inner[i]) * factors[i];
        const double shifted = angle * two_over_pi + magic, quarters = shifted - magic;
        const double r = ((angle - quarters * high) - quarters * middle) - quarters * low, s = r * r;
        double sine = 1.0 / 6227020800 - s * (1.0 / 1307674368000);
        sine = 1.0 / 362880 - s * (1.0 / 39916800 - s * sine);
        sine = r - r * s * (1.0 / 6 - s * (1.0 / 120 - s * (1.0 / 5040 - s * sine)));
        double cosine = 1.0 / 479001600 - s * (1.0 / 87178291200 - s * (1.0 / 20922789888000));
        cosine = 1.0 / 720 - s * (1.0 / 40320 - s * (1.0 / 3628800 - s * cosine));
        cosine = 1 - s * (0.5 - s * (1.0 / 24 - s * cosine));
        const Bits quadrant = __builtin_bit_cast(Bits, shifted), odd = -(quadrant & 1);
        const Bits sine_bits = __builtin_bit_cast(Bits, sine), cosine_bits = __builtin_bit_cast(Bits, cosine);
        const Bits c = ((cosine_bits & ~odd) | (sine_bits & odd)) ^ (((quadrant + 1) & 2) << 62);
        const Bits d = ((sine_bits & ~odd) | (cosine_bits & odd)) ^ ((quadrant & 2) << 62);
        cosines[i] = T(amplitude * __builtin_bit_cast(double, c));
        sines[i] = T(amplitude * __builtin_bit_cast(double, d));
        far |= __builtin_bit_cast(Bits, furthest - std::fabs(angle));
    }
    return far >= 0;
}

// Angles of many turns go to the library one by one, so that no feature depends on those beside it.
template <class T>
void waves(const T* inner, const double* factors, int n, double amplitude, T* out) {
    constexpr double furthest = 0x1p20;
    if (near_waves<T>(inner, factors, n, amplitude, out, out + n, furthest)) return;
    for (int i = 0; i < n; ++i) {
        const double angle = double(inner[i]) * factors[i];
        if (std::fabs(angle) <= furthest) continue;
        out[i] = T(amplitude * std::cos(angle));
        out[n + i] = T(amplitude * std::sin(angle));
    }
}

}  // namespace

}  // namespace bomkl::BOMKL_ISA
