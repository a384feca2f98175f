// What numbers of each precision are in vectors: constants, and tables of powers of two.
//
// This header is compiled once for each instruction set (see simd.hpp).
#pragma once

#include <cstdint>

namespace bomkl::BOMKL_ISA {

inline constexpr int kBytes = BOMKL_VECTOR_BYTES;

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

template <class T>
struct Numbers;

template <>
struct Numbers<float> {
    using Whole = std::int32_t;
    using Unsigned = std::uint32_t;
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
};

template <>
struct Numbers<double> {
    using Whole = std::int64_t;
    using Unsigned = std::uint64_t;
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
};

}  // namespace bomkl::BOMKL_ISA
