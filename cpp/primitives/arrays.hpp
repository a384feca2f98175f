// Sums and products of whole arrays.
#pragma once

#include "primitives/primitives.hpp"
#include "simd.hpp"

namespace bomkl::BOMKL_ISA {
namespace {

template <class T>
bool add_multiple(T factor, const T* x, int n, T* y) {
    int wrong = 0;
    for (int i = 0; i < n; ++i) {
        y[i] = y[i] + factor * x[i];
        wrong |= !(y[i] - y[i] == 0);
    }
    return !wrong;
}

template <class T>
void adam(const T* gradients, std::size_t n, T rate, T* numbers, T* means, T* squares) {
    using S = Simd<T>;
    constexpr int W = S::width;
    for (std::size_t i = 0; i + W <= n; i += W) {
        const Vec<T> g = load<T>(gradients + i), m = load<T>(means + i), v = load<T>(squares + i);
        const Vec<T> mean = m + T(0.1) * (g - m), square = v + T(0.001) * (g * g - v);
        store<T>(means + i, mean);
        store<T>(squares + i, square);
        store<T>(numbers + i, load<T>(numbers + i) - rate * mean / (S::sqrt(square) + T(1e-7)));
    }
}

// A double of 2^52 to 2^53 has no room for fractions: adding 1.5 times 2^52 rounds, and leaves the whole number in the bits.
template <class T>
void add_fixed(const T* values, std::size_t n, double units, std::int64_t* sums) {
    constexpr double magic = 0x1.8p52;
    for (std::size_t i = 0; i < n; ++i)
        sums[i] +=
            __builtin_bit_cast(std::int64_t, double(values[i]) * units + magic) - __builtin_bit_cast(std::int64_t, magic);
}

template <class T>
double dot(const T* x, const double* w, std::size_t n) {
    constexpr int W = Simd<double>::width;
    Vec<double> part[kLanes / W] = {};
    std::size_t j = 0;
    for (; j + kLanes <= n; j += kLanes)
#pragma GCC unroll 8
        for (int v = 0; v < kLanes / W; ++v) {
            double wide[W];
            for (int i = 0; i < W; ++i) wide[i] = double(x[j + v * W + i]);
            part[v] += load<double>(wide) * load<double>(w + j + v * W);
        }
    double lanes[kLanes], sum = 0;
    for (int v = 0; v < kLanes / W; ++v) store<double>(lanes + v * W, part[v]);
    for (; j < n; ++j) lanes[j % kLanes] += double(x[j]) * w[j];
    for (int i = 0; i < kLanes; ++i) sum += lanes[i];
    return sum;
}

// As many columns at a time as a vector has: while they depend on each other they stay in a register.
template <class T>
void eliminate(const double* factors, int n, double* column) {
    constexpr int W = Simd<double>::width;
    alignas(64) static constexpr std::int64_t kNumbers[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const Simd<double>::Int number = *reinterpret_cast<const Simd<double>::Int*>(kNumbers);
    for (int b = 0; b < n; b += W, factors += W * kTile) {
        Vec<double> own = load<double>(column + b);
#pragma GCC unroll 8
        for (int i = 0; i < W - 1; ++i)
            own = number > i ? own - load<double>(factors + i * kTile + b) * broadcast<double>(own[i]) : own;
        store<double>(column + b, own);
        for (int v = b + W; v < n; v += W) {
            Vec<double> later = load<double>(column + v);
#pragma GCC unroll 8
            for (int i = 0; i < W; ++i) later -= load<double>(factors + i * kTile + v) * broadcast<double>(column[b + i]);
            store<double>(column + v, later);
        }
    }
}

template <class T>
void invert(const double* factors, int n, T* out) {
    alignas(64) double inverse[kTile][kTile] = {};
    for (int t = 0; t < n; ++t) {
        inverse[t][t] = 1;
        for (int s = 0; s < t; ++s) {
            const double factor = factors[s * kTile + t];
            const int some = s / 8 * 8 + 8;  // zeros behind s, so that vectors are whole
            for (int u = 0; u < some; ++u) inverse[t][u] -= factor * inverse[s][u];
        }
    }
    for (int s = 0; s < n; ++s)
        for (int t = 0; t < kTile; ++t) out[s * kTile + t] = t >= s ? T(inverse[t][s]) : T(0);
}

}  // namespace

}  // namespace bomkl::BOMKL_ISA
