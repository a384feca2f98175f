// Features of rows: normal scores of columns and whitened kernel values at landmarks.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "auto/features/pool_kernels.hpp"
#include "auto/features/sorted_place.hpp"

namespace bomkl::automatic {

constexpr float kRootHalf = 0.70710678118654752f;  // scales squares of normal scores to deviation 1

// How many rows of a matrix packed in tiles are not zero in each line of a tile: of a triangular one, half on average.
using Depths = std::array<int, kTile / kLanes>;

inline int depth(const float* line, int rows) {
    const auto zero = [&](int row) {
        float largest = 0;  // without a way out in the middle, so that the compiler may use vectors
        for (int i = 0; i < kLanes; ++i) largest = std::max(largest, std::abs(line[std::size_t(row) * kTile + i]));
        return largest == 0;
    };
    while (rows > 0 && zero(rows - 1)) --rows;
    return rows;
}

inline std::vector<Depths> depths(const KernelMap& map) {
    std::vector<Depths> found(map.rank_tiles);
    for (int q = 0; q < map.rank_tiles; ++q)
        for (int l = 0; l < kTile / kLanes; ++l)
            found[q][l] = depth(map.whiten + std::size_t(q) * map.n_landmarks * kTile + l * kLanes, map.n_landmarks);
    return found;
}

// Features of n rows, n at most kBlock, from their kernel values; of the later tiles only those that are wanted.
inline void whitened(const Primitives<float>& with, const KernelMap& map, const std::vector<Depths>& depths,
                     const float* values, int n, int tiles, float* out) {
    const std::size_t width = std::size_t(map.rank_tiles) * kTile, values_width = map.values_width();
    for (int q = 0; q < tiles; ++q) {
        const float* tile = map.whiten + std::size_t(q) * map.n_landmarks * kTile;
        if (n == 1)
            with.inner_depths(values, tile, depths[q].data(), out + q * kTile);
        else
            multiply(with, values, values_width, n, *std::max_element(depths[q].begin(), depths[q].end()), tile, 1,
                     out + q * kTile, width);
    }
    for (int t = 0; t < n; ++t) out[t * width + map.rank] = 1.0f;
}

// What kernel values are multiplied with to give a score: the features are linear in them, and the score in the features.
inline void weights_of_values(const KernelMap& map, const std::vector<Depths>& depths, const double* w, double* out) {
    std::fill_n(out, map.n_landmarks, 0.0);
    for (int q = 0; q < map.rank_tiles; ++q) {
        const float* tile = map.whiten + std::size_t(q) * map.n_landmarks * kTile;
        const int rows = *std::max_element(depths[q].begin(), depths[q].end());
        for (int j = 0; j < rows; ++j) {
            double lane[8] = {};  // sums that stay in registers
            for (int i = 0; i < kTile; ++i) lane[i % 8] += double(tile[std::size_t(j) * kTile + i]) * w[q * kTile + i];
            out[j] += ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
        }
    }
}

// Likewise from the rows themselves; values has room for (n, 64 * landmark_tiles).
inline void block_features(const Primitives<float>& with, const KernelMap& map, const std::vector<Depths>& depths,
                           const float* x, int n, float* values, float* out) {
    map.values(with, map, x, n, values);
    whitened(with, map, depths, values, n, map.rank_tiles, out);
}

inline void kernel_features(const Primitives<float>& with, const KernelMap& map, const std::vector<Depths>& found,
                            const float* x, std::size_t n, float* out) {
    std::vector<float> values(std::size_t(kBlock) * map.landmark_tiles * kTile);
    for (std::size_t begin = 0; begin < n; begin += kBlock)
        block_features(with, map, found, x + begin * map.features, int(std::min<std::size_t>(kBlock, n - begin)), values.data(),
                       out + begin * map.rank_tiles * kTile);
}

// Sorted columns (d, length), and where the least value of each ends and the largest begins: rows of few values, such as ones
// and zeros, need no search, which would read a line of memory at every step.
struct SortedColumns {
    SortedColumns() = default;
    SortedColumns(const double* sorted, std::size_t d, std::size_t length) : sorted(sorted), length(length), runs(d) {
        for (std::size_t j = 0; j < d; ++j) {
            const double *begin = sorted + j * length, *end = begin + length;
            runs[j] = {*begin, end[-1], std::size_t(std::upper_bound(begin, end, *begin) - begin),
                       std::size_t(std::lower_bound(begin, end, end[-1]) - begin)};
        }
    }

    // Values of column j below a value, and those with the ones that are equal to it.
    std::pair<std::size_t, std::size_t> place(std::size_t j, double value) const {
        const Runs& run = runs[j];
        if (value == run.least) return {0, run.least_end};
        if (value == run.largest) return {run.largest_begin, length};
        const double *begin = sorted + j * length, *end = begin + length, *low = begin + count_below(begin, length, value);
        const double* high = low != end && *low == value ? std::upper_bound(low, end, value) : low;
        return {low - begin, high - begin};
    }

    struct Runs {
        double least, largest;
        std::size_t least_end, largest_begin;
    };
    const double* sorted = nullptr;
    std::size_t length = 0;
    std::vector<Runs> runs;
};

// Normal scores: the place of each value among the sorted values of its column, looked up in a table of 2 length + 1 entries.
inline void normal_scores(const double* x, std::size_t n, const SortedColumns& sorted, const double* table, const double* mean,
                          const double* deviation, float* out) {
    const std::size_t d = sorted.runs.size();
    for (std::size_t j = 0; j < d; ++j)
        for (std::size_t t = 0; t < n; ++t) {
            const auto [below, up_to] = sorted.place(j, x[t * d + j]);
            out[t * d + j] = float((table[below + up_to] - mean[j]) / deviation[j]);
        }
}

}  // namespace bomkl::automatic
