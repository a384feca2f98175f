// One vector type per instruction set. This header is compiled once for each of them (see primitives.cpp), every time in
// a namespace of its own, so that no inline function of one set can be linked into another.
//
// Fused multiply-add is always written out and contraction is switched off: the same pair of rows gives the same bits
// wherever it is evaluated, which is what makes learning in blocks equal to learning row by row.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#if BOMKL_VECTOR_BYTES > 16
#include <immintrin.h>
#endif

namespace bomkl::BOMKL_ISA {

inline constexpr int kBytes = BOMKL_VECTOR_BYTES;

template <class T>
struct Simd;

template <>
struct Simd<float> {
    typedef float Vec __attribute__((vector_size(kBytes)));
    typedef std::int32_t Int __attribute__((vector_size(kBytes)));
    typedef std::uint32_t Bits __attribute__((vector_size(kBytes)));
    static constexpr int width = kBytes / 4;
    static constexpr int mantissa_bits = 23;
    static constexpr float round_magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
    static constexpr float exp_limit = -86.0f;         // below it exp is taken as zero; above, 2^n stays normal
    static constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
    static constexpr float cancellation = 0x1p-12f;
    // Chebyshev interpolation of exp on [-ln(2)/2, ln(2)/2]: relative error 3e-9
    static constexpr float exp_series[] = {1.0f,           1.0000000377f, 0.5000000047f, 0.1666641551f,
                                           0.0416663529f, 0.0083751264f, 0.0013941108f};

    static Vec fma(Vec a, Vec b, Vec c) {
#if BOMKL_VECTOR_BYTES == 64
        return _mm512_fmadd_ps(a, b, c);
#elif BOMKL_VECTOR_BYTES == 32
        return _mm256_fmadd_ps(a, b, c);
#else
        return a * b + c;
#endif
    }
    static Vec set(float a) {
#if BOMKL_VECTOR_BYTES == 64
        return _mm512_set1_ps(a);
#elif BOMKL_VECTOR_BYTES == 32
        return _mm256_set1_ps(a);
#else
        return Vec{a, a, a, a};
#endif
    }
    static Vec sqrt(Vec a) {
#if BOMKL_VECTOR_BYTES == 64
        return _mm512_sqrt_ps(a);
#elif BOMKL_VECTOR_BYTES == 32
        return _mm256_sqrt_ps(a);
#else
        for (int i = 0; i < width; ++i) a[i] = std::sqrt(a[i]);
        return a;
#endif
    }
    static bool any_less(Vec a, Vec b) {
#if BOMKL_VECTOR_BYTES == 64
        return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ) != 0;
#elif BOMKL_VECTOR_BYTES == 32
        return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_LT_OQ)) != 0;
#else
        const Int less = a < b;
        return (less[0] | less[1] | less[2] | less[3]) != 0;
#endif
    }
};

template <>
struct Simd<double> {
    typedef double Vec __attribute__((vector_size(kBytes)));
    typedef std::int64_t Int __attribute__((vector_size(kBytes)));
    typedef std::uint64_t Bits __attribute__((vector_size(kBytes)));
    static constexpr int width = kBytes / 8;
    static constexpr int mantissa_bits = 52;
    static constexpr double round_magic = 6755399441055744.0;  // 1.5 * 2^52
    static constexpr double exp_limit = -707.0;
    static constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
    static constexpr double cancellation = 0x1p-20;
    // Chebyshev interpolation of exp on [-ln(2)/2, ln(2)/2]: relative error 4e-18
    static constexpr double exp_series[] = {
        1.0,
        1.0,
        0.50000000000000183855,
        0.16666666666666680806,
        0.041666666666488095495,
        0.0083333333333196006109,
        0.0013888888952314774652,
        0.00019841269890047113707,
        0.000024801485482328492419,
        2.7557240918578969823e-6,
        2.7632639639041029749e-7,
        2.5110037605963777712e-8};

    static Vec fma(Vec a, Vec b, Vec c) {
#if BOMKL_VECTOR_BYTES == 64
        return _mm512_fmadd_pd(a, b, c);
#elif BOMKL_VECTOR_BYTES == 32
        return _mm256_fmadd_pd(a, b, c);
#else
        return a * b + c;
#endif
    }
    static Vec set(double a) {
#if BOMKL_VECTOR_BYTES == 64
        return _mm512_set1_pd(a);
#elif BOMKL_VECTOR_BYTES == 32
        return _mm256_set1_pd(a);
#else
        return Vec{a, a};
#endif
    }
    static Vec sqrt(Vec a) {
#if BOMKL_VECTOR_BYTES == 64
        return _mm512_sqrt_pd(a);
#elif BOMKL_VECTOR_BYTES == 32
        return _mm256_sqrt_pd(a);
#else
        for (int i = 0; i < width; ++i) a[i] = std::sqrt(a[i]);
        return a;
#endif
    }
    static bool any_less(Vec a, Vec b) {
#if BOMKL_VECTOR_BYTES == 64
        return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ) != 0;
#elif BOMKL_VECTOR_BYTES == 32
        return _mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_LT_OQ)) != 0;
#else
        const Int less = a < b;
        return (less[0] | less[1]) != 0;
#endif
    }
};

template <class T>
using Vec = typename Simd<T>::Vec;

template <class T>
inline Vec<T> load(const T* p) {
    Vec<T> v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

template <class T>
inline void store(T* p, Vec<T> v) {
    std::memcpy(p, &v, sizeof v);
}

template <class T>
inline Vec<T> broadcast(T value) {
    return Simd<T>::set(value);
}

template <class T>
inline T scalar_fma(T a, T b, T c) {
#if BOMKL_VECTOR_BYTES > 16
    return __builtin_fma(a, b, c);
#else
    return a * b + c;
#endif
}
template <>
inline float scalar_fma(float a, float b, float c) {
#if BOMKL_VECTOR_BYTES > 16
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

// exp of a vector of numbers <= 0. Adding round_magic leaves the whole number n in the low bits of t, so that shifting it
// into the exponent multiplies by 2^n.
template <class T>
inline Vec<T> exp_not_positive(Vec<T> x) {
    using S = Simd<T>;
    using Bits = typename S::Bits;
    constexpr int last = sizeof(S::exp_series) / sizeof(T) - 1;
    const Vec<T> t = S::fma(x, broadcast<T>(T(1.4426950408889634)), broadcast<T>(S::round_magic));
    const Vec<T> n = t - S::round_magic;
    Vec<T> r = S::fma(n, broadcast<T>(-S::ln2_high), x);
    r = S::fma(n, broadcast<T>(-S::ln2_low), r);
    Vec<T> p = broadcast<T>(S::exp_series[last]);
#pragma GCC unroll 16
    for (int i = last - 1; i >= 0; --i) p = S::fma(p, r, broadcast<T>(S::exp_series[i]));
    const Vec<T> scaled = (Vec<T>)((Bits)p + ((Bits)t << S::mantissa_bits));
    return x < S::exp_limit ? Vec<T>{} : scaled;
}

}  // namespace bomkl::BOMKL_ISA
