// Kernel values of rows on tiles, from their inner products. A part of primitives.cpp, compiled once per instruction set.
#pragma once

#include "inner_products.hpp"

namespace bomkl::BOMKL_ISA {
namespace {

// Squared distance summed feature by feature.
template <class T>
T exact_distance(const Rows<T>& rows, int r, const Tile<T>& tile, int c) {
    double sum = 0;
    const auto add = [&](T x, T z) {
        const double difference = double(x) - double(z);
        sum += difference * difference;
    };
    if (tile.x) {
        const T* x = rows.x + r * rows.stride;
        for (int j = 0; j < rows.features; ++j) add(x[j], tile.x[std::size_t(j) * kTile + c]);
        return T(sum);
    }
    const SparseRow<T>&x = rows.sparse[r], &z = tile.sparse[c];
    for (int i = 0, j = 0; i < x.n || j < z.n;) {
        const std::int32_t left = i < x.n ? x.columns[i] : INT32_MAX, right = j < z.n ? z.columns[j] : INT32_MAX;
        add(left <= right ? x.values[i] : T(0), right <= left ? z.values[j] : T(0));
        i += left <= right;
        j += right <= left;
    }
    return T(sum);
}

template <class T>
Vec<T> affine(const PreparedKernel<T>& k, Vec<T> inner) {
    return Simd<T>::fma(inner, broadcast<T>(k.a), broadcast<T>(k.b));
}
template <class T>
Vec<T> exponential(const PreparedKernel<T>& k, Vec<T> distance) {
    const Vec<T> length = Simd<T>::sqrt(distance);
    return exp2_of_product<T>(length, broadcast<T>(k.exponent), Simd<T>::less(length, broadcast<T>(k.furthest)));
}
template <class T>
Vec<T> cosine(const Rows<T>& rows, int r, const Tile<T>& tile, int c, Vec<T> inner) {
    return inner * (load<T>(tile.inverse_length + c) * rows.inverse_length[r]);
}
template <class T>
Vec<T> cauchy(const PreparedKernel<T>& k, Vec<T> distance) {
    return T(1) / Simd<T>::fma(distance, broadcast<T>(k.a), broadcast<T>(T(1)));
}

// Vectors that are computed side by side: enough of them to hide how long each step takes.
inline constexpr int kStrip = 4;
template <class T>
inline constexpr int kStripColumns = kStrip * Simd<T>::width;

#define BOMKL_EACH(i) _Pragma("GCC unroll 4") for (int i = 0; i < kStrip; ++i)

template <class T>
struct Strip {
    Vec<T> v[kStrip];

    static Strip loaded(const T* p) {
        Strip strip;
        BOMKL_EACH(i) strip.v[i] = load<T>(p + i * Simd<T>::width);
        return strip;
    }
    void store_to(T* p) const { BOMKL_EACH(i) store<T>(p + i * Simd<T>::width, v[i]); }
    Vec<T> least() const { return Simd<T>::min(Simd<T>::min(v[0], v[1]), Simd<T>::min(v[2], v[3])); }
};

// |x|^2 + |z|^2 - 2 x.z loses its digits where the rows are close and long: those are summed feature by feature.
template <class T>
[[gnu::noinline]] void repair_distances(const Rows<T>& rows, int r, const Tile<T>& tile, int c, T* values) {
    for (int i = 0; i < kStripColumns<T>; ++i)
        if (values[i] < (tile.norm[c + i] + rows.norm[r]) * Simd<T>::cancellation)
            values[i] = exact_distance<T>(rows, r, tile, c + i);
}
// `norms` are those of the strip; least is the smallest distance of each lane.
template <class T>
[[gnu::always_inline]] inline Strip<T> distances(const Rows<T>& rows, int r, const Tile<T>& tile, int c,
                                                 const Strip<T>& inner, const Strip<T>& norms, Vec<T>& least) {
    const T norm = rows.norm[r];
    Strip<T> out;
    BOMKL_EACH(i) out.v[i] = Simd<T>::fma(broadcast<T>(T(-2)), inner.v[i], norms.v[i] + norm);
    least = out.least();
    // distances of rows of ones are whole numbers, with no digits to lose
    const T bound = only_ones<T>(rows, tile) ? T(-1) : (*tile.largest_norm + norm) * Simd<T>::cancellation;
    if (__builtin_expect(!Simd<T>::any_less(least, broadcast<T>(bound)), 1)) return out;
    alignas(64) T values[kStripColumns<T>];
    out.store_to(values);
    repair_distances<T>(rows, r, tile, c, values);
    out = Strip<T>::loaded(values);
    least = out.least();
    return out;
}

// Gaussian values of distances.
template <class T>
[[gnu::always_inline]] inline void gaussian(const PreparedKernel<T>& k, const Strip<T>& distance, Strip<T>& value) {
    const Vec<T> furthest = broadcast<T>(k.furthest), exponent = broadcast<T>(k.exponent);
    BOMKL_EACH(i)
        value.v[i] = exp2_of_product<T>(distance.v[i], exponent, Simd<T>::less(distance.v[i], furthest));
    for (int fourths = k.fourths; fourths > 0; --fourths) {
        BOMKL_EACH(i) value.v[i] *= value.v[i];
        BOMKL_EACH(i) value.v[i] *= value.v[i];
    }
}
// The same where `value` holds those of the Gaussian one link before in the chain.
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
        if (k.uses_distance() && !have_distance_) measure();
        const PreparedKernel<T>* const last = last_;
        last_ = &k;
        switch (k.kind) {
            case KernelKind::linear:
                BOMKL_ROWS(r) BOMKL_EACH(i) value[r].v[i] = inner(r, i);
                break;
            case KernelKind::polynomial: {
                Strip<T> base[R];
                BOMKL_ROWS(r) BOMKL_EACH(i) value[r].v[i] = base[r].v[i] = affine<T>(k, inner(r, i));
                for (int power = 1; power < k.degree; ++power)
                    BOMKL_ROWS(r) BOMKL_EACH(i) value[r].v[i] *= base[r].v[i];
                break;
            }
            case KernelKind::gaussian:
                if (!Simd<T>::any_less(nearest_, broadcast<T>(k.furthest))) return false;
                if (last && last->kind == KernelKind::gaussian && last->root == k.root && last->fourths + 1 == k.fourths) {
                    BOMKL_ROWS(r) next_gaussian<T>(k, distance_[r], value[r]);
                } else {
                    BOMKL_ROWS(r) gaussian<T>(k, distance_[r], value[r]);
                }
                break;
            case KernelKind::exponential:
                BOMKL_ROWS(r) BOMKL_EACH(i) value[r].v[i] = exponential<T>(k, distance_[r].v[i]);
                break;
            case KernelKind::cauchy:
                BOMKL_ROWS(r) BOMKL_EACH(i) value[r].v[i] = cauchy<T>(k, distance_[r].v[i]);
                break;
            case KernelKind::cosine:
                BOMKL_ROWS(r) BOMKL_EACH(i)
                    value[r].v[i] = cosine<T>(rows_, first_ + r, tile_, c_ + i * Simd<T>::width, inner(r, i));
                break;
            case KernelKind::callable: break;
        }
        return true;
    }

private:
    Vec<T> inner(int r, int i) const { return load<T>(inner_ + r * kTile + i * Simd<T>::width); }
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
        const std::uint8_t* at = (k.uses_distance() ? distance_ : inner_) + c;
        Strip<T> value;
        BOMKL_EACH(i) value.v[i] = Simd<T>::lookup(k.at_whole, Simd<T>::widen(at + i * Simd<T>::width));
        return value;
    }
    [[gnu::always_inline]] Vec<T> inner(int c) const {
        return __builtin_convertvector(Simd<T>::widen(inner_ + c), Vec<T>);
    }

private:
    alignas(64) std::uint8_t inner_[kTile], distance_[kTile];
};

}  // namespace

}  // namespace bomkl::BOMKL_ISA
