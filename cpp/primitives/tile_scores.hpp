// Scores of rows: what the tiles of a pool add to them, and what a new support row adds.
#pragma once

#include "kernel_values.hpp"

namespace bomkl::BOMKL_ISA {
namespace {

// Adds coefficients times values of a strip to the lanes its columns belong to.
template <class T>
[[gnu::always_inline]] inline void accumulate(T* lanes, const T* coef, const Strip<T>& value, int c) {
    constexpr int W = Simd<T>::width, G = kLanes / W < kStrip ? kLanes / W : kStrip;
    T* const first = lanes + c % kLanes;
    Vec<T> sum[G];
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) sum[g] = load<T>(first + g * W);
#pragma GCC unroll 4
    for (int i = 0; i < kStrip; ++i) sum[i % G] = Simd<T>::fma(load<T>(coef + c + i * W), value.v[i], sum[i % G]);
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) store<T>(first + g * W, sum[g]);
}

// Adds one tile's share to the scores of R rows.
template <class T, int R>
void add_tile(const Rows<T>& rows, int first, const Tile<T>& tile, const T* inner, const PreparedKernel<T>* kernels, T* partial,
              std::size_t row_lanes) {
    T* const own = partial + first * row_lanes + tile.lane_set * kLanes;
    for (int c = 0; c < kTile; c += kStripColumns<T>) {
        RowsOnStrip<T, R> on(rows, first, tile, c, inner);
        Strip<T> value[R];
        int have = -1;
        for (int i = 0; i < tile.n_terms; ++i) {
            const Term<T>& term = tile.terms[i];
            if (term.kernel != have && !on.map(kernels[term.kernel], value)) break;
            have = term.kernel;
            T* const lanes = own + std::size_t(term.expansion) * (kLaneSets * kLanes);
            BOMKL_ROWS(r) accumulate<T>(lanes + r * row_lanes, term.coef, value[r], c);
        }
    }
}

// The same for n rows where all terms of the tile are of one Gaussian: what most rows of a long stream meet.
template <class T>
void add_gaussian_tile(const Rows<T>& rows, int first, int n, const Tile<T>& tile, const T* inner, const PreparedKernel<T>& k,
                       T* partial, std::size_t row_lanes) {
    for (int c = 0; c < kTile; c += kStripColumns<T>) {
        const Strip<T> norms = Strip<T>::loaded(tile.norm + c);
        for (int r = 0; r < n; ++r) {
            Vec<T> nearest;
            const Strip<T> products = Strip<T>::loaded(inner + r * kTile + c);
            const Strip<T> distance = distances<T>(rows, first + r, tile, c, products, norms, nearest);
            if (!Simd<T>::any_less(nearest, broadcast<T>(k.furthest))) continue;
            const Strip<T> value = gaussian::Kernel::map(k, distance);
            T* const lanes = partial + (first + r) * row_lanes + tile.lane_set * kLanes;
            for (int i = 0; i < tile.n_terms; ++i)
                accumulate<T>(lanes + std::size_t(tile.terms[i].expansion) * (kLaneSets * kLanes), tile.terms[i].coef, value,
                              c);
        }
    }
}

// The same where kernel values are looked up.
template <class T>
void add_whole_tile(const Rows<T>& rows, int first, int n, const Tile<T>& tile, const PreparedKernel<T>* kernels, T* partial,
                    std::size_t row_lanes) {
    constexpr int W = Simd<T>::width;
    for (int r = first; r < first + n; ++r) {
        const OnesOnTile<T> row(rows, r, tile);
        T* const lanes = partial + r * row_lanes + tile.lane_set * kLanes;
        for (int c = 0; c < kTile; c += kStripColumns<T>) {
            Strip<T> value;
            int have = -1;
            for (int t = 0; t < tile.n_terms; ++t) {
                const Term<T>& term = tile.terms[t];
                const PreparedKernel<T>& k = kernels[term.kernel];
                if (term.kernel != have) {
                    if (k.source == Source::cosine)
                        BOMKL_EACH(i) value.v[i] = cosine<T>(rows, r, tile, c + i * W, row.inner(c + i * W));
                    else
                        value = row.values(k, c);
                }
                have = term.kernel;
                accumulate<T>(lanes + std::size_t(term.expansion) * (kLaneSets * kLanes), term.coef, value, c);
            }
        }
    }
}

template <class T>
bool one_gaussian(const Tile<T>& tile, const PreparedKernel<T>* kernels) {
    return tile.lane_set == 0 && tile.n_terms > 0 && kernels[tile.terms[0].kernel].kind == kGaussian;
}

// Whether all squared distances are whole numbers below kWhole.
template <class T>
bool distances_are_whole(const Rows<T>& rows, int first, int n, const Tile<T>& tile) {
    if (!only_ones<T>(rows, tile)) return false;
    T largest = 0;
    for (int r = first; r < first + n; ++r) largest = rows.norm[r] > largest ? rows.norm[r] : largest;
    return largest + *tile.largest_norm < T(kWhole);
}

// Adds one tile's share to the scores of n rows.
template <class T>
void add_rows(const Rows<T>& rows, int first, int n, const Tile<T>& tile, const PreparedKernel<T>* kernels, T* partial,
              std::size_t row_lanes) {
    if (distances_are_whole<T>(rows, first, n, tile))
        return add_whole_tile<T>(rows, first, n, tile, kernels, partial, row_lanes);
    alignas(64) T inner[kRows * kTile];
    inner_rows<T>(rows, first, n, tile, inner, kTile);
    if (one_gaussian<T>(tile, kernels))
        return add_gaussian_tile<T>(rows, first, n, tile, inner, kernels[tile.terms[0].kernel], partial, row_lanes);
    int r = 0;
    for (; r + 2 <= n; r += 2) add_tile<T, 2>(rows, first + r, tile, inner + r * kTile, kernels, partial, row_lanes);
    if (r < n) add_tile<T, 1>(rows, first + r, tile, inner + r * kTile, kernels, partial, row_lanes);
}

template <class T>
void evaluate(const Rows<T>& rows, int begin, int end, const Tile<T>* tiles, int n_tiles, const PreparedKernel<T>* kernels,
              T* partial, int n_expansions) {
    constexpr std::size_t kFirstLevelCache = 32 << 10;
    const std::size_t row_lanes = std::size_t(n_expansions) * (kLaneSets * kLanes);
    for (int chunk = 0; chunk < n_tiles;) {
        // as many tiles as stay in the nearest cache while all rows pass by
        int last = chunk;
        std::size_t bytes = 0;
        do {
            const std::size_t feature = only_ones<T>(rows, tiles[last]) ? 1 : sizeof(T);
            bytes += (rows.features * feature + tiles[last].n_terms * sizeof(T)) * kTile;
            ++last;
        } while (last < n_tiles && bytes < kFirstLevelCache);
        for (int first = begin; first < end; first += kRows) {
            const int n = end - first < kRows ? end - first : kRows;
            for (int q = chunk; q < last; ++q) add_rows<T>(rows, first, n, tiles[q], kernels, partial, row_lanes);
        }
        chunk = last;
    }
}

template <class T>
void evaluate_related(const Rows<T>& rows, int r, const Tile<T>* tiles, int n_tiles, const T* inner,
                      const PreparedKernel<T>* kernels, T* partial, int n_expansions) {
    const std::size_t row_lanes = std::size_t(n_expansions) * (kLaneSets * kLanes);
    for (int q = 0; q < n_tiles; ++q)
        add_tile<T, 1>(rows, r, tiles[q], inner + std::size_t(q) * kTile, kernels, partial, row_lanes);
}

template <class T>
void append(const Rows<T>& rows, int r, int n, const Tile<T>* block_tiles, const T* inner, const NewTerm<T>* terms, int n_terms,
            int lane_set, int lane, const PreparedKernel<T>* kernels, T* partial, int n_expansions) {
    const std::size_t row_lanes = std::size_t(n_expansions) * (kLaneSets * kLanes);
    T values[kStripColumns<T>];
    for (int start = (r + 1) / kStripColumns<T> * kStripColumns<T>; start < n; start += kStripColumns<T>) {
        const int q = start / kTile, begin = r + 1 > start ? r + 1 : start;
        const int end = n < start + kStripColumns<T> ? n : start + kStripColumns<T>;
        RowsOnStrip<T, 1> row(rows, r, block_tiles[q], start % kTile, inner + std::size_t(q) * kTile);
        Strip<T> value[1];
        for (int i = 0; i < n_terms; ++i) {
            if (i == 0 || terms[i].kernel != terms[i - 1].kernel) {
                if (!row.map(kernels[terms[i].kernel], value)) break;
                value[0].store_to(values);
            }
            T* const lanes = partial + std::size_t(terms[i].expansion) * (kLaneSets * kLanes) + lane_set * kLanes + lane;
            for (int t = begin; t < end; ++t) {
                T& sum = lanes[t * row_lanes];
                sum = scalar_fma<T>(terms[i].coef, values[t - start], sum);
            }
        }
    }
}

}  // namespace

}  // namespace bomkl::BOMKL_ISA
