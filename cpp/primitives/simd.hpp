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

// 2^(i / 32), rounded to the nearest double; written out because std::exp2 is no constant expression everywhere
// clang-format off
inline constexpr double kPowersOfTwo[32] = {
    0x1p0, 0x1.059b0d3158574p0, 0x1.0b5586cf9890fp0, 0x1.11301d0125b51p0,
    0x1.172b83c7d517bp0, 0x1.1d4873168b9aap0, 0x1.2387a6e756238p0, 0x1.29e9df51fdee1p0,
    0x1.306fe0a31b715p0, 0x1.371a7373aa9cbp0, 0x1.3dea64c123422p0, 0x1.44e086061892dp0,
    0x1.4bfdad5362a27p0, 0x1.5342b569d4f82p0, 0x1.5ab07dd485429p0, 0x1.6247eb03a5585p0,
    0x1.6a09e667f3bcdp0, 0x1.71f75e8ec5f74p0, 0x1.7a11473eb0187p0, 0x1.82589994cce13p0,
    0x1.8ace5422aa0dbp0, 0x1.93737b0cdc5e5p0, 0x1.9c49182a3f09p0, 0x1.a5503b23e255dp0,
    0x1.ae89f995ad3adp0, 0x1.b7f76f2fb5e47p0, 0x1.c199bdd85529cp0, 0x1.cb720dcef9069p0,
    0x1.d5818dcfba487p0, 0x1.dfc97337b9b5fp0, 0x1.ea4afa2a490dap0, 0x1.f50765b6e454p0
};
// clang-format on

// The bits of 2^(i / size), less what Simd::power adds to them for i.
template <class T, class Bits, int size_bits, int mantissa_bits>
struct PowerTable {
    static constexpr int bits = size_bits, size = 1 << bits;
    alignas(64) Bits entry[size];
    constexpr PowerTable() : entry{} {
        for (int i = 0; i < size; ++i)
            entry[i] = __builtin_bit_cast(Bits, T(kPowersOfTwo[i * (32 / size)])) - (Bits(i) << (mantissa_bits - bits));
    }
};

template <>
struct Simd<float> {
    typedef float Vec __attribute__((vector_size(kBytes)));
    typedef std::int32_t Int __attribute__((vector_size(kBytes)));
    typedef std::uint32_t Bits __attribute__((vector_size(kBytes)));
    static constexpr int width = kBytes / 4;
    static constexpr int mantissa_bits = 23;
    static constexpr float round_magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
    static constexpr float least_exp = -86.5f;         // exp of anything above it is a normal number
    static constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
    static constexpr float cancellation = 0x1p-12f;
    // Chebyshev interpolation of (2^x - 1)/x where |x| <= 1/2 / powers.size; the relative error of 2^x is behind each
#if BOMKL_VECTOR_BYTES == 64
    static constexpr PowerTable<float, std::uint32_t, 5, mantissa_bits> powers{};
    static constexpr float exp2_series[] = {1.0f, 0.69315395598f, 0.24022768105f};  // 1.1e-7
#else
    static constexpr PowerTable<float, std::uint32_t, 0, mantissa_bits> powers{};
    static constexpr float exp2_series[] = {
        1.0f, 0.69314718803f, 0.24022650761f, 0.055503571142f, 0.0096180825573f, 0.0013390863365f, 0.00015453162945f};  // 5e-9
#endif

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
#if BOMKL_VECTOR_BYTES == 64
    using Mask = __mmask16;
    static Mask less(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
    // sum + a b in the first n lanes; the others stay as they are
    static Vec fma_first(const float* a, const float* b, Vec sum, int n) {
        const Mask first = Mask((1u << n) - 1);
        return _mm512_mask3_fmadd_ps(_mm512_maskz_loadu_ps(first, a), _mm512_maskz_loadu_ps(first, b), sum, first);
    }
    // a b where the mask is set, zero elsewhere
    static Vec product(Mask mask, Vec a, Vec b) { return _mm512_maskz_mul_ps(mask, a, b); }
    // 2^(k / powers.size) from a number whose last bits are those of k
    static Vec power(Vec k) {
        const __m512i bits = (__m512i)k, low = _mm512_load_si512(powers.entry), high = _mm512_load_si512(powers.entry + width);
        return (Vec)_mm512_add_epi32(_mm512_permutex2var_epi32(low, bits, high),
                                     _mm512_slli_epi32(bits, mantissa_bits - powers.bits));
    }
#else
    using Mask = Int;
    static Mask less(Vec a, Vec b) { return a < b; }
    static Vec keep(Mask mask, Vec a) { return (Vec)(mask & (Int)a); }
    // masked first: what is left out may be infinite, or subnormal, which is slow
    static Vec product(Mask mask, Vec a, Vec b) { return keep(mask, a) * keep(mask, b); }
    static Vec power(Vec k) { return (Vec)(((Bits)k << mantissa_bits) + powers.entry[0]); }
#endif
    static Vec min(Vec a, Vec b) {
#if BOMKL_VECTOR_BYTES == 64
        return _mm512_min_ps(a, b);
#elif BOMKL_VECTOR_BYTES == 32
        return _mm256_min_ps(a, b);
#else
        return a < b ? a : b;
#endif
    }
    static Vec gather(const float* from, const int* at) {
#if BOMKL_VECTOR_BYTES == 64
        return _mm512_i32gather_ps(_mm512_loadu_si512(at), from, 4);
#elif BOMKL_VECTOR_BYTES == 32
        return _mm256_i32gather_ps(from, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)), 4);
#else
        Vec out;
        for (int i = 0; i < width; ++i) out[i] = from[at[i]];
        return out;
#endif
    }
    // bytes as lanes of whole numbers, and the entries of a table of 32 at such numbers
    static Int widen(const std::uint8_t* bytes) {
#if BOMKL_VECTOR_BYTES == 64
        return (Int)_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
#elif BOMKL_VECTOR_BYTES == 32
        return (Int)_mm256_cvtepu8_epi32(_mm_loadu_si64(bytes));
#else
        return Int{bytes[0], bytes[1], bytes[2], bytes[3]};
#endif
    }
    static Vec lookup(const float* table, Int at) {
#if BOMKL_VECTOR_BYTES == 64
        return _mm512_permutex2var_ps(_mm512_loadu_ps(table), (__m512i)at, _mm512_loadu_ps(table + width));
#elif BOMKL_VECTOR_BYTES == 32
        return _mm256_i32gather_ps(table, (__m256i)at, 4);
#else
        return Vec{table[at[0]], table[at[1]], table[at[2]], table[at[3]]};
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
        return less(a, b) != 0;
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
    static constexpr double least_exp = -707.5;
    static constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
    static constexpr double cancellation = 0x1p-20;
    // Chebyshev interpolation of (2^x - 1)/x where |x| <= 1/2 / powers.size; the relative error of 2^x is behind each
#if BOMKL_VECTOR_BYTES == 64
    static constexpr PowerTable<double, std::uint64_t, 4, mantissa_bits> powers{};
    static constexpr double exp2_series[] = {1.0,
                                             0.693147180559945730316,
                                             0.2402265069591007495831,
                                             0.05550410865663930187752,
                                             0.009618129106919537027465,
                                             0.001333378157678426819549,
                                             0.0001540372398074925646295};  // 2e-17
#else
    static constexpr PowerTable<double, std::uint64_t, 0, mantissa_bits> powers{};
    static constexpr double exp2_series[] = {1.0,
                                             0.693147180559945309417,
                                             0.2402265069591009822,
                                             0.0555041086648215943387,
                                             0.00961812910760688852728,
                                             0.00133335581464169353104,
                                             0.000154035304417360501549,
                                             0.0000152527338298361183944,
                                             0.0000013215442587921689653,
                                             1.01780624458457735207e-7,
                                             7.07258594926922369986e-9,
                                             4.45496059818651839378e-10};  // 8e-18
#endif

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
#if BOMKL_VECTOR_BYTES == 64
    using Mask = __mmask8;
    static Mask less(Vec a, Vec b) { return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ); }
    static Vec fma_first(const double* a, const double* b, Vec sum, int n) {
        const Mask first = Mask((1u << n) - 1);
        return _mm512_mask3_fmadd_pd(_mm512_maskz_loadu_pd(first, a), _mm512_maskz_loadu_pd(first, b), sum, first);
    }
    // a b where the mask is set, zero elsewhere
    static Vec product(Mask mask, Vec a, Vec b) { return _mm512_maskz_mul_pd(mask, a, b); }
    // a where the mask is set, b elsewhere
    static Vec choose(Mask mask, Vec a, Vec b) { return _mm512_mask_mov_pd(b, mask, a); }
    // 2^(k / powers.size) from a number whose last bits are those of k
    static Vec power(Vec k) {
        const __m512i bits = (__m512i)k, low = _mm512_load_si512(powers.entry), high = _mm512_load_si512(powers.entry + width);
        return (Vec)_mm512_add_epi64(_mm512_permutex2var_epi64(low, bits, high),
                                     _mm512_slli_epi64(bits, mantissa_bits - powers.bits));
    }
#else
    using Mask = Int;
    static Mask less(Vec a, Vec b) { return a < b; }
    static Vec keep(Mask mask, Vec a) { return (Vec)(mask & (Int)a); }
    static Vec choose(Mask mask, Vec a, Vec b) { return mask ? a : b; }
    // masked first: what is left out may be infinite, or subnormal, which is slow
    static Vec product(Mask mask, Vec a, Vec b) { return keep(mask, a) * keep(mask, b); }
    static Vec power(Vec k) { return (Vec)(((Bits)k << mantissa_bits) + powers.entry[0]); }
#endif
    static Vec min(Vec a, Vec b) {
#if BOMKL_VECTOR_BYTES == 64
        return _mm512_min_pd(a, b);
#elif BOMKL_VECTOR_BYTES == 32
        return _mm256_min_pd(a, b);
#else
        return a < b ? a : b;
#endif
    }
    static Vec gather(const double* from, const int* at) {
#if BOMKL_VECTOR_BYTES == 64
        return _mm512_i32gather_pd(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)), from, 8);
#elif BOMKL_VECTOR_BYTES == 32
        return _mm256_i32gather_pd(from, _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)), 8);
#else
        Vec out;
        for (int i = 0; i < width; ++i) out[i] = from[at[i]];
        return out;
#endif
    }
    // bytes as lanes of whole numbers, and the entries of a table of 32 at such numbers
    static Int widen(const std::uint8_t* bytes) {
#if BOMKL_VECTOR_BYTES == 64
        return (Int)_mm512_cvtepu8_epi64(_mm_loadu_si64(bytes));
#elif BOMKL_VECTOR_BYTES == 32
        return (Int)_mm256_cvtepu8_epi64(_mm_loadu_si32(bytes));
#else
        return Int{bytes[0], bytes[1]};
#endif
    }
    static Vec lookup(const double* table, Int at) {
#if BOMKL_VECTOR_BYTES == 64
        const __m512i index = (__m512i)at;
        const Vec low = _mm512_permutex2var_pd(_mm512_loadu_pd(table), index, _mm512_loadu_pd(table + width));
        const Vec high = _mm512_permutex2var_pd(_mm512_loadu_pd(table + 2 * width), index, _mm512_loadu_pd(table + 3 * width));
        return _mm512_mask_mov_pd(low, _mm512_test_epi64_mask(index, _mm512_set1_epi64(2 * width)), high);
#elif BOMKL_VECTOR_BYTES == 32
        return _mm256_i64gather_pd(table, (__m256i)at, 8);
#else
        return Vec{table[at[0]], table[at[1]]};
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
        return less(a, b) != 0;
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
