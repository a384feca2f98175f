// Kernel values of rows on tiles, from their inner products. A part of primitives.cpp, compiled once per instruction set.
#pragma once

#include "inner_products.hpp"
#include "kernels.hpp"

namespace bomkl::BOMKL_ISA {
namespace {

// add(x_j, z_j) over the columns in which either row has an entry, in order.
template <class T, class Add>
void over_entries(const SparseRow<T>& x, const SparseRow<T>& z, Add&& add) {
    for (int i = 0, j = 0; i < x.n || j < z.n;) {
        const std::int32_t left = i < x.n ? x.columns[i] : INT32_MAX, right = j < z.n ? z.columns[j] : INT32_MAX;
        add(left <= right ? x.values[i] : T(0), right <= left ? z.values[j] : T(0));
        i += left <= right;
        j += right <= left;
    }
}

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
    over_entries<T>(rows.sparse[r], tile.sparse[c], add);
    return T(sum);
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

template <class T>
Vec<T> cosine(const Rows<T>& rows, int r, const Tile<T>& tile, int c, Vec<T> inner) {
    return inner * (load<T>(tile.inverse_length + c) * rows.inverse_length[r]);
}

// Sums of absolute differences, feature by feature: pairs of zeros add nothing, so sparse rows give the same bits.
template <class T>
[[gnu::noinline]] void taxicab_distances(const Rows<T>& rows, int r, const Tile<T>& tile, int c, T* out) {
    constexpr int W = Simd<T>::width;
    if (tile.x) {
        const T* const x = rows.x + r * rows.stride;
        Strip<T> sum;
        BOMKL_EACH(i) sum.v[i] = Vec<T>{};
        for (int j = 0; j < rows.features; ++j) {
            const Vec<T> b = broadcast<T>(x[j]);
            BOMKL_EACH(i) {
                const Vec<T> difference = b - load<T>(tile.x + std::size_t(j) * kTile + c + i * W);
                sum.v[i] -= Simd<T>::min(difference, -difference);
            }
        }
        return sum.store_to(out);
    }
    for (int i = 0; i < kStripColumns<T>; ++i) {
        T sum = 0;
        over_entries<T>(rows.sparse[r], tile.sparse[c + i], [&](T x, T z) { sum += x > z ? x - z : z - x; });
        out[i] = sum;
    }
}

// |x|^2 + |z|^2 - 2 x.z loses its digits where the rows are close and long: those are summed feature by feature.
template <class T>
[[gnu::noinline]] void repair_distances(const Rows<T>& rows, int r, const Tile<T>& tile, int c, T* values) {
    for (int i = 0; i < kStripColumns<T>; ++i)
        if (values[i] < (tile.norm[c + i] + rows.norm[r]) * Simd<T>::cancellation)
            values[i] = exact_distance<T>(rows, r, tile, c + i);
}
// `norms` are those of the strip; least is the smallest distance of each lane.
template <class T>
[[gnu::always_inline]] inline Strip<T> distances(const Rows<T>& rows, int r, const Tile<T>& tile, int c, const Strip<T>& inner,
                                                 const Strip<T>& norms, Vec<T>& least) {
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

}  // namespace

}  // namespace bomkl::BOMKL_ISA
