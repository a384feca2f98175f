// Kernel values of rows on tiles, and of listed slots.
#pragma once

#include "budget/kernels.hpp"
#include "distances.hpp"
#include "lanes.hpp"

namespace bomkl::BOMKL_ISA {
namespace {

// Values of a Gaussian where `value` holds those of the Gaussian one link before in the chain.
template <class T>
[[gnu::always_inline]] inline void next_gaussian(const PreparedKernel<T>& k, const Strip<T>& distance, Strip<T>& value) {
    const Vec<T> furthest = broadcast<T>(k.furthest);
    BOMKL_EACH(i) value.v[i] = Simd<T>::product(Simd<T>::less(distance.v[i], furthest), value.v[i], value.v[i]);
    BOMKL_EACH(i) value.v[i] *= value.v[i];
}

#define BOMKL_ROWS(r) _Pragma("GCC unroll 4") for (int r = 0; r < R; ++r)

// R rows against a strip of a tile: kernel values, and what several kernels need of them computed at most once.
template <class T, int R>
class RowsOnStrip {
public:
    RowsOnStrip(const Rows<T>& rows, int first, const Tile<T>& tile, int c, const T* inner)
        : rows_(rows), first_(first), tile_(tile), c_(c), inner_(inner + c) {}

    // False where a Gaussian vanishes everywhere: a narrower one does so too. `value` must still hold what the last call put
    // there.
    [[gnu::always_inline]] inline bool map(const PreparedKernel<T>& k, Strip<T> (&value)[R]) {
        const PreparedKernel<T>* const last = last_;
        last_ = &k;
        if (k.kind == kGaussian) {
            if (!have_distance_) measure();
            if (!Simd<T>::any_less(nearest_, broadcast<T>(k.furthest))) return false;
            if (last && last->kind == kGaussian && last->root == k.root && last->fourths + 1 == k.fourths) {
                BOMKL_ROWS(r) next_gaussian<T>(k, distance_[r], value[r]);
            } else {
                BOMKL_ROWS(r) value[r] = gaussian::Kernel::map(k, distance_[r]);
            }
            return true;
        }
        with_kernel(
            k.kind, [&](auto kernel) __attribute__((always_inline)) {
                if constexpr (kernel.source == Source::squared_distance)
                    if (!have_distance_) measure();
                BOMKL_ROWS(r) value[r] = kernel.map(k, source<kernel.source>(r));
            });
        return true;
    }

private:
    template <Source S>
    [[gnu::always_inline]] inline Strip<T> source(int r) const {
        if constexpr (S == Source::squared_distance) return distance_[r];
        Strip<T> out = Strip<T>::loaded(inner_ + r * kTile);
        if constexpr (S == Source::cosine)
            BOMKL_EACH(i) out.v[i] = cosine<T>(rows_, first_ + r, tile_, c_ + i * Simd<T>::width, out.v[i]);
        if constexpr (S == Source::taxicab) {
            alignas(64) T sums[kStripColumns<T>];
            taxicab_distances<T>(rows_, first_ + r, tile_, c_, sums);
            out = Strip<T>::loaded(sums);
        }
        return out;
    }
    [[gnu::always_inline]] inline void measure() {
        const Strip<T> norms = Strip<T>::loaded(tile_.norm + c_);
        BOMKL_ROWS(r) {
            Vec<T> nearest;
            distance_[r] = distances<T>(rows_, first_ + r, tile_, c_, Strip<T>::loaded(inner_ + r * kTile), norms, nearest);
            nearest_ = r == 0 ? nearest : Simd<T>::min(nearest_, nearest);
        }
        have_distance_ = true;
    }

    const Rows<T>& rows_;
    int first_;
    const Tile<T>& tile_;
    int c_;
    const T* inner_;
    Strip<T> distance_[R];
    Vec<T> nearest_;
    bool have_distance_ = false;
    const PreparedKernel<T>* last_ = nullptr;  // the kernel whose values `value` holds
};

// A row of ones against a tile of ones where all squared distances are below kWhole: kernel values are looked up.
template <class T>
class OnesOnTile {
public:
    [[gnu::always_inline]] OnesOnTile(const Rows<T>& rows, int r, const Tile<T>& tile) {
        const Bytes counts = count_ones<T>(rows, r, tile);
        const Bytes norms = load_bytes(tile.bytes + std::size_t(rows.features + 1) * kTile);
        const Bytes distances = norms + std::uint8_t(rows.norm[r]) - counts - counts;
        std::memcpy(inner_, &counts, sizeof counts);
        std::memcpy(distance_, &distances, sizeof distances);
    }
    [[gnu::always_inline]] Strip<T> values(const PreparedKernel<T>& k, int c) const {
        // between rows of ones the sum of absolute differences is the squared distance
        const std::uint8_t* at = (k.source == Source::inner_product ? inner_ : distance_) + c;
        Strip<T> value;
        BOMKL_EACH(i) value.v[i] = Simd<T>::lookup(k.at_whole, Simd<T>::widen(at + i * Simd<T>::width));
        return value;
    }
    [[gnu::always_inline]] Vec<T> inner(int c) const { return __builtin_convertvector(Simd<T>::widen(inner_ + c), Vec<T>); }

private:
    alignas(64) std::uint8_t inner_[kTile], distance_[kTile];
};

// A kernel of one vector of what it is a map of.
template <class T>
Vec<T> map_vector(const PreparedKernel<T>& k, Vec<T> source) {
    if (k.kind == kGaussian && !Simd<T>::any_less(source, broadcast<T>(k.furthest))) return Vec<T>{};
    return with_kernel(k.kind, [&](auto kernel) { return kernel.map(k, Vectors<T, 1>{{source}}).v[0]; });
}

template <class T>
void tabulate(PreparedKernel<T>* kernels, int n) {
    constexpr int W = Simd<T>::width;
    T whole[kWhole];
    for (int i = 0; i < kWhole; ++i) whole[i] = T(i);
    for (int k = 0; k < n; ++k)
        for (int i = 0; kernels[k].kind != kCallable && i < kWhole; i += W)
            store<T>(kernels[k].at_whole + i, map_vector<T>(kernels[k], load<T>(whole + i)));
}

template <class T>
T expand(const PreparedKernel<T>& k, const T* source, const int* slots, const T* coef, int n, T* values) {
    constexpr int W = Simd<T>::width;
    int i = 0;
    with_kernel(k.kind, [&](auto kernel) {
        for (; i + kStripColumns<T> <= n; i += kStripColumns<T>) {
            Strip<T> strip;
            BOMKL_EACH(v) strip.v[v] = Simd<T>::gather(source, slots + i + v * W);
            if constexpr (std::is_same_v<decltype(kernel), gaussian::Kernel>)
                if (!Simd<T>::any_less(strip.least(), broadcast<T>(k.furthest))) {
                    BOMKL_EACH(v) store<T>(values + i + v * W, Vec<T>{});
                    continue;
                }
            kernel.map(k, static_cast<const Vectors<T, kStrip>&>(strip)).store_to(values + i);
        }
    });
    for (; i + W <= n; i += W) store<T>(values + i, map_vector<T>(k, Simd<T>::gather(source, slots + i)));
    if (i < n) {
        T gathered[W] = {};
        for (int w = 0; i + w < n; ++w) gathered[w] = source[slots[i + w]];
        const Vec<T> mapped = map_vector<T>(k, load<T>(gathered));
        for (int w = 0; i + w < n; ++w) values[i + w] = mapped[w];
    }
    return weighted_sum<T>(coef, values, n);
}

}  // namespace

}  // namespace bomkl::BOMKL_ISA
