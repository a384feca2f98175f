// Views of the columns: the same rows on several scales.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "auto/components/products.hpp"
#include "auto/features/features.hpp"

namespace bomkl::automatic {

enum View { standard, normal, common, leading, relevant_standard, relevant_normal, n_views };

struct Columns {  // as class Geometry has them
    int columns;
    const double *mean, *deviation, *middle;
    double common;
    SortedColumns sorted;
    const double *score_table, *normal_mean, *normal_deviation;
    const float* axes;  // packed [1][columns][64]
    const float *relevance_standard, *relevance_normal;
    double clip, far;
    int leading;
};

inline int view_width(const Columns& c, int view) { return view == leading ? c.leading : c.columns; }

// Rows x (n, columns) in the views that have a place (n, width of the view); those they derive from must have one, too.
inline void block_views(const Primitives<float>& with, const Columns& c, const double* x, std::size_t n,
                        const std::array<float*, n_views>& views) {
    const std::size_t d = std::size_t(c.columns);
    const auto scaled = [&](const double* middle, auto scale, double limit, float* out) {
        for (std::size_t t = 0; t < n; ++t)
            for (std::size_t j = 0; j < d; ++j)
                out[t * d + j] = float(std::clamp((x[t * d + j] - middle[j]) / scale(j), -limit, limit));
    };
    if (views[standard])
        scaled(
            c.mean, [&](std::size_t j) { return c.deviation[j]; }, c.clip, views[standard]);
    if (views[normal]) normal_scores(x, n, c.sorted, c.score_table, c.normal_mean, c.normal_deviation, views[normal]);
    if (views[common])
        scaled(
            c.middle, [&](std::size_t) { return c.common; }, c.far, views[common]);
    if (views[leading])
        for (std::size_t begin = 0; begin < n; begin += kBlock) {
            float product[kBlock * kTile];
            const int rows = int(std::min<std::size_t>(kBlock, n - begin));
            multiply(with, views[common] + begin * d, d, rows, c.columns, c.axes, 1, product, kTile);
            for (int t = 0; t < rows; ++t)
                std::copy_n(product + t * kTile, c.leading, views[leading] + (begin + t) * c.leading);
        }
    const auto relevant = [&](View from, View to, const float* scale) {
        if (!views[to]) return;
        for (std::size_t t = 0; t < n; ++t)
            for (std::size_t j = 0; j < d; ++j) views[to][t * d + j] = views[from][t * d + j] * scale[j];
    };
    relevant(standard, relevant_standard, c.relevance_standard);
    relevant(normal, relevant_normal, c.relevance_normal);
}

}  // namespace bomkl::automatic
