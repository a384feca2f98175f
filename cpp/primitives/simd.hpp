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

#include "numbers.hpp"

namespace bomkl::BOMKL_ISA {

template <class T>
inline T scalar_fma(T a, T b, T c) {
    if constexpr (kBytes == 16)
        return a * b + c;
    else if constexpr (sizeof(T) == sizeof(float))
        return __builtin_fmaf(a, b, c);
    else
        return __builtin_fma(a, b, c);
}

// What vectors of the compiler do on any machine. An instruction set replaces what it does in fewer steps.
template <class T>
struct AnyMachine : Numbers<T> {
    typedef T Vec __attribute__((vector_size(kBytes)));
    typedef typename Numbers<T>::Whole Int __attribute__((vector_size(kBytes)));
    typedef typename Numbers<T>::Unsigned Bits __attribute__((vector_size(kBytes)));
    using Mask = Int;
    using Numbers<T>::mantissa_bits, Numbers<T>::powers;
    static constexpr int width = kBytes / sizeof(T);

    static Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }
    // sum + a b in the first n lanes; the others stay as they are
    static Vec fma_first(const T* a, const T* b, Vec sum, int n) {
        for (int i = 0; i < n; ++i) sum[i] = scalar_fma<T>(a[i], b[i], sum[i]);
        return sum;
    }
    static Vec min(Vec a, Vec b) { return a < b ? a : b; }
    static Vec sqrt(Vec a) {
        for (int i = 0; i < width; ++i) a[i] = std::sqrt(a[i]);
        return a;
    }
    static Mask less(Vec a, Vec b) { return a < b; }
    static bool any_less(Vec a, Vec b) {
        const Int less = a < b;
        auto any = less[0];
        for (int i = 1; i < width; ++i) any |= less[i];
        return any != 0;
    }
    static Vec keep(Mask mask, Vec a) { return (Vec)(mask & (Int)a); }
    // a where the mask is set, b elsewhere
    static Vec choose(Mask mask, Vec a, Vec b) { return mask ? a : b; }
    // a b where the mask is set, zero elsewhere; masked first: what is left out may be infinite, or subnormal, which is slow
    static Vec product(Mask mask, Vec a, Vec b) { return keep(mask, a) * keep(mask, b); }
    // 2^(k / powers.size) from a number whose last bits are those of k
    static Vec power(Vec k) { return (Vec)(((Bits)k << mantissa_bits) + powers.entry[0]); }
    static Vec gather(const T* from, const int* at) {
        Vec out;
        for (int i = 0; i < width; ++i) out[i] = from[at[i]];
        return out;
    }
    // bytes as lanes of whole numbers, and the entries of a table of 32 at such numbers
    static Int widen(const std::uint8_t* bytes) {
        Int out;
        for (int i = 0; i < width; ++i) out[i] = bytes[i];
        return out;
    }
    static Vec lookup(const T* table, Int at) {
        Vec out;
        for (int i = 0; i < width; ++i) out[i] = table[at[i]];
        return out;
    }
};

#if BOMKL_VECTOR_BYTES == 64

template <class T>
struct Simd;

template <>
struct Simd<float> : AnyMachine<float> {
    using Mask = __mmask16;
    static Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
    static Vec fma_first(const float* a, const float* b, Vec sum, int n) {
        const Mask first = Mask((1u << n) - 1);
        return _mm512_mask3_fmadd_ps(_mm512_maskz_loadu_ps(first, a), _mm512_maskz_loadu_ps(first, b), sum, first);
    }
    static Vec min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
    static Vec sqrt(Vec a) { return _mm512_sqrt_ps(a); }
    static Mask less(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
    static bool any_less(Vec a, Vec b) { return less(a, b) != 0; }
    static Vec product(Mask mask, Vec a, Vec b) { return _mm512_maskz_mul_ps(mask, a, b); }
    static Vec power(Vec k) {
        const __m512i bits = (__m512i)k, low = _mm512_load_si512(powers.entry), high = _mm512_load_si512(powers.entry + width);
        return (Vec)_mm512_add_epi32(_mm512_permutex2var_epi32(low, bits, high),
                                     _mm512_slli_epi32(bits, mantissa_bits - powers.bits));
    }
    static Vec gather(const float* from, const int* at) { return _mm512_i32gather_ps(_mm512_loadu_si512(at), from, 4); }
    static Int widen(const std::uint8_t* bytes) {
        return (Int)_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
    }
    static Vec lookup(const float* table, Int at) {
        return _mm512_permutex2var_ps(_mm512_loadu_ps(table), (__m512i)at, _mm512_loadu_ps(table + width));
    }
};

template <>
struct Simd<double> : AnyMachine<double> {
    using Mask = __mmask8;
    static Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_pd(a, b, c); }
    static Vec fma_first(const double* a, const double* b, Vec sum, int n) {
        const Mask first = Mask((1u << n) - 1);
        return _mm512_mask3_fmadd_pd(_mm512_maskz_loadu_pd(first, a), _mm512_maskz_loadu_pd(first, b), sum, first);
    }
    static Vec min(Vec a, Vec b) { return _mm512_min_pd(a, b); }
    static Vec sqrt(Vec a) { return _mm512_sqrt_pd(a); }
    static Mask less(Vec a, Vec b) { return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ); }
    static bool any_less(Vec a, Vec b) { return less(a, b) != 0; }
    static Vec choose(Mask mask, Vec a, Vec b) { return _mm512_mask_mov_pd(b, mask, a); }
    static Vec product(Mask mask, Vec a, Vec b) { return _mm512_maskz_mul_pd(mask, a, b); }
    static Vec power(Vec k) {
        const __m512i bits = (__m512i)k, low = _mm512_load_si512(powers.entry), high = _mm512_load_si512(powers.entry + width);
        return (Vec)_mm512_add_epi64(_mm512_permutex2var_epi64(low, bits, high),
                                     _mm512_slli_epi64(bits, mantissa_bits - powers.bits));
    }
    static Vec gather(const double* from, const int* at) {
        return _mm512_i32gather_pd(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)), from, 8);
    }
    static Int widen(const std::uint8_t* bytes) { return (Int)_mm512_cvtepu8_epi64(_mm_loadu_si64(bytes)); }
    static Vec lookup(const double* table, Int at) {
        const __m512i index = (__m512i)at;
        const Vec low = _mm512_permutex2var_pd(_mm512_loadu_pd(table), index, _mm512_loadu_pd(table + width));
        const Vec high = _mm512_permutex2var_pd(_mm512_loadu_pd(table + 2 * width), index, _mm512_loadu_pd(table + 3 * width));
        return _mm512_mask_mov_pd(low, _mm512_test_epi64_mask(index, _mm512_set1_epi64(2 * width)), high);
    }
};

#elif BOMKL_VECTOR_BYTES == 32

template <class T>
struct Simd;

template <>
struct Simd<float> : AnyMachine<float> {
    static Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
    static Vec min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
    static Vec sqrt(Vec a) { return _mm256_sqrt_ps(a); }
    static bool any_less(Vec a, Vec b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_LT_OQ)) != 0; }
    static Vec gather(const float* from, const int* at) {
        return _mm256_i32gather_ps(from, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)), 4);
    }
    static Int widen(const std::uint8_t* bytes) { return (Int)_mm256_cvtepu8_epi32(_mm_loadu_si64(bytes)); }
    static Vec lookup(const float* table, Int at) { return _mm256_i32gather_ps(table, (__m256i)at, 4); }
};

template <>
struct Simd<double> : AnyMachine<double> {
    static Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_pd(a, b, c); }
    static Vec min(Vec a, Vec b) { return _mm256_min_pd(a, b); }
    static Vec sqrt(Vec a) { return _mm256_sqrt_pd(a); }
    static bool any_less(Vec a, Vec b) { return _mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_LT_OQ)) != 0; }
    static Vec gather(const double* from, const int* at) {
        return _mm256_i32gather_pd(from, _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)), 8);
    }
    static Int widen(const std::uint8_t* bytes) { return (Int)_mm256_cvtepu8_epi64(_mm_loadu_si32(bytes)); }
    static Vec lookup(const double* table, Int at) { return _mm256_i64gather_pd(table, (__m256i)at, 8); }
};

#else

template <class T>
using Simd = AnyMachine<T>;

#endif

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
    return value - Vec<T>{};  // not plus: of zeros, it would lose the sign
}

// A number whose last bits are those of k, where k / powers.size is the multiple of 1 / powers.size next to a b.
template <class T>
inline Vec<T> next_multiple(Vec<T> a, Vec<T> b) {
    return Simd<T>::fma(a, b, broadcast<T>(Simd<T>::round_magic / Simd<T>::powers.size));
}
template <class T>
inline Vec<T> value_of_multiple(Vec<T> multiple) {
    return multiple - Simd<T>::round_magic / Simd<T>::powers.size;
}

// 2^(multiple + rest), the rest being as small as exp2_series asks for, where the mask is set; zero elsewhere. Where it is set,
// the result must be a normal number of at most 1.
template <class T>
inline Vec<T> exp2_of_sum(Vec<T> multiple, Vec<T> rest, typename Simd<T>::Mask mask) {
    using S = Simd<T>;
    constexpr int last = sizeof(S::exp2_series) / sizeof(T) - 1;
    Vec<T> p = broadcast<T>(S::exp2_series[last]);
#pragma GCC unroll 16
    for (int i = last - 1; i >= 0; --i) p = S::fma(p, rest, broadcast<T>(S::exp2_series[i]));
    return S::product(mask, p, S::power(multiple));
}

// 2^(u factor), likewise.
template <class T>
[[gnu::always_inline]] inline Vec<T> exp2_of_product(Vec<T> u, Vec<T> factor, typename Simd<T>::Mask mask) {
    const Vec<T> multiple = next_multiple<T>(u, factor);
    return exp2_of_sum<T>(multiple, Simd<T>::fma(u, factor, -value_of_multiple<T>(multiple)), mask);
}

}  // namespace bomkl::BOMKL_ISA
