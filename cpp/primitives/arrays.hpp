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

// Row t stays in registers while the rows before it are taken off.
template <class T>
void invert(const double* factors, int n, T* out) {
    constexpr int W = Simd<double>::width, V = 64 / sizeof(double) / W;  // a cache line of numbers at a time
    alignas(64) double inverse[kTile][kTile] = {};
    for (int t = 0; t < n; ++t) {
        inverse[t][t] = 1;
        for (int u = 0; u < t; u += V * W) {
            Vec<double> own[V];
            for (int v = 0; v < V; ++v) own[v] = load<double>(inverse[t] + u + v * W);
            for (int s = u; s < t; ++s) {  // the rows before have zeros here
                const Vec<double> factor = broadcast<double>(factors[s * kTile + t]);
                for (int v = 0; v < V; ++v) own[v] -= factor * load<double>(inverse[s] + u + v * W);
            }
            for (int v = 0; v < V; ++v) store<double>(inverse[t] + u + v * W, own[v]);
        }
    }
    for (int s = 0; s < n; ++s)
        for (int t = 0; t < kTile; ++t) out[s * kTile + t] = t >= s ? T(inverse[t][s]) : T(0);
}

// The sums are those of a row with a tile in inner_tile.
template <class T>
void next_direction(const T* factors, int u, const T* from, T* tile, double* part) {
    constexpr int W = Simd<T>::width, N = kTile / W;
    Vec<T> sum[N] = {};
    for (int s = 0; s < u; ++s) {
        const Vec<T> factor = broadcast<T>(factors[s]);
#pragma GCC unroll 16
        for (int v = 0; v < N; ++v) sum[v] = Simd<T>::fma(factor, load<T>(tile + s * kTile + v * W), sum[v]);
    }
    T* const own = tile + u * kTile;
    for (int v = 0; v < N; ++v) store<T>(own + v * W, load<T>(from + v * W) - sum[v]);
    double squares[kLanes];
    for (int i = 0; i < kLanes; ++i) squares[i] = part[i];
    for (int j = 0; j < kTile; j += kLanes)
        for (int i = 0; i < kLanes; ++i) squares[i] += double(own[j + i]) * double(own[j + i]);
    for (int i = 0; i < kLanes; ++i) part[i] = squares[i];
}

}  // namespace

}  // namespace bomkl::BOMKL_ISA
