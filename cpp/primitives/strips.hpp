// Vectors side by side, with the operations that kernels are written in.
#pragma once

#include "simd.hpp"

namespace bomkl::BOMKL_ISA {
namespace {

template <class T>
T least_entry(const Vec<T>& v) {
    T least = v[0];
    for (int i = 1; i < Simd<T>::width; ++i) least = v[i] < least ? v[i] : least;
    return least;
}

// Vectors that are computed side by side: enough of them to hide how long each step takes.
inline constexpr int kStrip = 4;
template <class T>
inline constexpr int kStripColumns{kStrip * Simd<T>::width};

#define BOMKL_EACH(i) _Pragma("GCC unroll 4") for (int i = 0; i < kStrip; ++i)

// N vectors, with the operations that kernels are written in (see kernel.hpp).
template <class T, int N>
struct Vectors {
    Vec<T> v[N];

    static Vectors loaded(const T* p) {
        Vectors out;
        _Pragma("GCC unroll 4") for (int i = 0; i < N; ++i) out.v[i] = load<T>(p + i * Simd<T>::width);
        return out;
    }
    void store_to(T* p) const { _Pragma("GCC unroll 4") for (int i = 0; i < N; ++i) store<T>(p + i * Simd<T>::width, v[i]); }
    template <class Map>
    [[gnu::always_inline]] inline Vectors each(Map&& map) const {
        Vectors out;
        _Pragma("GCC unroll 4") for (int i = 0; i < N; ++i) out.v[i] = map(v[i]);
        return out;
    }

    [[gnu::always_inline]] inline Vectors& operator*=(const Vectors& other) {
        _Pragma("GCC unroll 4") for (int i = 0; i < N; ++i) v[i] *= other.v[i];
        return *this;
    }
    // u * factor + addend, rounded once
    [[gnu::always_inline]] inline Vectors times_plus(T factor, T addend) const {
        return each([&](Vec<T> u) { return Simd<T>::fma(u, broadcast<T>(factor), broadcast<T>(addend)); });
    }
    [[gnu::always_inline]] inline Vectors reciprocal() const {
        return each([](Vec<T> u) { return T(1) / u; });
    }
    [[gnu::always_inline]] inline Vectors sqrt() const {
        return each([](Vec<T> u) { return Simd<T>::sqrt(u); });
    }
    // 2^(u * exponent), zero from `furthest` on
    [[gnu::always_inline]] inline Vectors exp2_of_product(T exponent, T furthest) const {
        return each([&](Vec<T> u) {
            return bomkl::BOMKL_ISA::exp2_of_product<T>(u, broadcast<T>(exponent), Simd<T>::less(u, broadcast<T>(furthest)));
        });
    }
};

template <class T>
struct Strip : Vectors<T, kStrip> {
    Strip() = default;
    Strip(const Vectors<T, kStrip>& vectors) : Vectors<T, kStrip>(vectors) {}
    static Strip loaded(const T* p) { return Vectors<T, kStrip>::loaded(p); }
    Vec<T> least() const {
        const auto& v = this->v;
        return Simd<T>::min(Simd<T>::min(v[0], v[1]), Simd<T>::min(v[2], v[3]));
    }
};

}  // namespace

}  // namespace bomkl::BOMKL_ISA
