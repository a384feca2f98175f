// Distances and cosines of rows to tiles, from their inner products: what kernels are maps of.
#pragma once

#include "inner_products.hpp"
#include "strips.hpp"

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

template <class T>
void relate(const Rows<T>& rows, int r, const Tile<T>* tiles, int n_tiles, const T* inner, T* const* out) {
    constexpr int W = Simd<T>::width;
    T* const squares = out[int(Source::squared_distance)];
    T* const cosines = out[int(Source::cosine)];
    T* const taxicab = out[int(Source::taxicab)];
    for (int q = 0; q < n_tiles; ++q) {
        if (squares)
            for (int c = 0; c < kTile; c += kStripColumns<T>) {
                Vec<T> least;
                distances<T>(rows, r, tiles[q], c, Strip<T>::loaded(inner + q * kTile + c), Strip<T>::loaded(tiles[q].norm + c),
                             least)
                    .store_to(squares + q * kTile + c);
            }
        if (cosines)
            for (int c = 0; c < kTile; c += W)
                store<T>(cosines + q * kTile + c, cosine<T>(rows, r, tiles[q], c, load<T>(inner + q * kTile + c)));
        if (taxicab)
            for (int c = 0; c < kTile; c += kStripColumns<T>)
                taxicab_distances<T>(rows, r, tiles[q], c, taxicab + q * kTile + c);
    }
}

// Every column sums its features in order, so that a distance has the same bits whatever rows come with it.
template <class T>
void city_block(const T* x, int features, const T* tiles, int n_tiles, T* out) {
    constexpr int W = Simd<T>::width;
    for (int q = 0; q < n_tiles; ++q)
        for (int c = 0; c < kTile; c += kStripColumns<T>) {
            const T* column = tiles + std::size_t(q) * features * kTile + c;
            Strip<T> sum{};
            for (int j = 0; j < features; ++j, column += kTile) {
                const Vec<T> value = broadcast<T>(x[j]);
                BOMKL_EACH(i) {
                    const Vec<T> difference = load<T>(column + i * W) - value;
                    sum.v[i] -= Simd<T>::min(difference, -difference);
                }
            }
            sum.store_to(out + q * kTile + c);
        }
}

}  // namespace

}  // namespace bomkl::BOMKL_ISA
