// What a row model consists of: the geometry of the columns, features, components, and the views of a block of rows.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "auto/components/curve.hpp"
#include "auto/components/regression.hpp"
#include "auto/features/features.hpp"
#include "auto/features/views.hpp"
#include "auto/trees/boosting.hpp"
#include "auto/trees/online_forest.hpp"

namespace bomkl::automatic {

struct Geometry {  // never changes; `keep` owns the arrays
    Columns columns;
    const double* cuts = nullptr;  // of the columns, where there are trees
    const std::int64_t* starts = nullptr;
    std::vector<float> square_means;  // of normal scores: 1, and 0 for constant columns
    std::shared_ptr<const void> keep;
};

struct FeatureMap {      // likewise
    int view;            // of its kernel; -1 for the columns themselves
    bool both, squares;  // columns: with their normal scores, and with the squares of these
    KernelMap map;
    std::vector<Depths> depths;
    int rank;  // features, the constant included
    std::shared_ptr<const void> keep;

    std::size_t width() const { return (std::size_t(rank) + kTile - 1) / kTile * kTile; }
};

struct Boosted {  // likewise
    TreeNodes trees;
    const std::int32_t* outputs;
    const float* values;
    const double* base;
    std::size_t n_outputs;
};

struct NewtonPart {
    std::shared_ptr<const FeatureMap> features;
    std::shared_ptr<Regression> regression;
    std::optional<Curve> curve;  // of the targets it learns
    double forget;

    // Weights (outputs, landmarks) that make scores of kernel values.
    const std::vector<double>& weights_of_values() const {
        const KernelMap& map = features->map;
        return regression->folded_means(map.n_landmarks, [&](const double* w, double* out) {
            automatic::weights_of_values(map, features->depths, w, out);
        });
    }

    // Makes what scoring reads.
    void prepare() const {
        regression->means();
        if (features->view >= 0) weights_of_values();
    }
};

using Part = std::variant<NewtonPart, std::shared_ptr<const Boosted>, std::shared_ptr<OnlineForest>>;

// Views of up to 256 rows, and their codes.
class BlockViews {
public:
    BlockViews(const Geometry& geometry, const std::vector<Part>& parts, bool needs_standard = false) : g_(geometry) {
        needed_[standard] = needs_standard;
        for (const Part& part : parts)
            if (const auto* newton = std::get_if<NewtonPart>(&part)) {
                const FeatureMap& features = *newton->features;
                needed_[features.view < 0 ? standard : features.view] = true;
                needed_[normal] |= features.view < 0 && features.both;
            } else {
                coded_ = true;
            }
        needed_[standard] |= needed_[relevant_standard];
        needed_[normal] |= needed_[relevant_normal];
        needed_[common] |= needed_[leading];
    }

    void make(const Primitives<float>& with, const double* x, std::size_t n) {
        const std::size_t size = n * g_.columns.columns;
        x_.resize(size);
        for (std::size_t i = 0; i < size; ++i) x_[i] = std::clamp(x[i], -kLargestInput, kLargestInput);
        std::array<float*, n_views> views{};
        for (int view = 0; view < n_views; ++view)
            if (needed_[view]) {
                views_[view].resize(n * view_width(g_.columns, view));
                views[view] = views_[view].data();
            }
        block_views(with, g_.columns, x_.data(), n, views);
        if (coded_) {
            codes_.resize(size);
            code_rows(x_.data(), n, g_.columns.columns, g_.cuts, g_.starts, codes_.data());
        }
    }

    // Features of n rows from `begin` on, n at most 64: out (n, width).
    void features(const Primitives<float>& with, const FeatureMap& f, std::size_t begin, int n, std::vector<float>& values,
                  float* out) const {
        const std::size_t d = std::size_t(g_.columns.columns), width = f.width();
        if (f.view >= 0)
            return whitened(with, f.map, f.depths, kernel_values(with, f, begin, n, values), n, f.map.rank_tiles, out);
        for (int t = 0; t < n; ++t) {
            float* row = out + t * width;
            const float *plain = views_[standard].data() + (begin + t) * d, *scores = views_[normal].data() + (begin + t) * d;
            std::copy_n(plain, d, row);
            if (f.both) std::copy_n(scores, d, row + d);
            if (f.squares)
                for (std::size_t j = 0; j < d; ++j) row[2 * d + j] = (scores[j] * scores[j] - g_.square_means[j]) * kRootHalf;
            row[f.rank - 1] = 1.0f;
            std::fill(row + f.rank, row + width, 0.0f);
        }
    }

    // Kernel values of n rows from `begin` on, n at most 64: (n, values_width).
    const float* kernel_values(const Primitives<float>& with, const FeatureMap& f, std::size_t begin, int n,
                               std::vector<float>& values) const {
        values.resize(n * f.map.values_width());
        f.map.values(with, f.map, views_[f.view].data() + begin * f.map.features, n, values.data());
        return values.data();
    }

    const std::uint8_t* codes() const { return codes_.data(); }
    const float* standard_rows() const { return views_[standard].data(); }

private:
    const Geometry& g_;
    std::array<bool, n_views> needed_{};
    bool coded_ = false;
    std::array<std::vector<float>, n_views> views_;
    std::vector<double> x_;
    std::vector<std::uint8_t> codes_;
};

// What one thread works with.
struct Scratch {
    std::vector<float> values;
    Buffer<float> features;
    std::vector<double> scores, bent;
};

inline const float* features_of(const Primitives<float>& with, const NewtonPart& part, const BlockViews& views,
                                std::size_t begin, int n, Scratch& scratch) {
    scratch.features.at_least(n * part.features->width());
    views.features(with, *part.features, begin, n, scratch.values, scratch.features.data());
    return scratch.features.data();
}

// Scores of coded rows by trees.
inline void score_trees(const Part& part, const std::uint8_t* codes, std::size_t columns, std::size_t n, int outputs,
                        double* scores) {
    if (const auto* forest = std::get_if<std::shared_ptr<OnlineForest>>(&part))
        return (*forest)->score(codes, columns, n, scores);
    const Boosted& b = *std::get<std::shared_ptr<const Boosted>>(part);
    boosted_scores(b.trees.nodes, b.trees.roots, b.outputs, b.trees.trees, b.values, b.base, outputs, codes, n, columns,
                   scores);
}

}  // namespace bomkl::automatic
