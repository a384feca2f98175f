// One row from its values to its score, and back into everything that learns from it, without a detour through arrays.
//
// The bits are those of the functions on blocks: each step is the same function, or the same operations in the same order.
// Learning adds a row to the open blocks, so it changes nothing that was there, except the small combination at its end.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

#include "auto/boosting.hpp"
#include "auto/combination.hpp"
#include "auto/curve.hpp"
#include "auto/features.hpp"
#include "auto/forest.hpp"
#include "auto/newton.hpp"
#include "auto/views.hpp"
#include "primitives/buffer.hpp"

namespace bomkl::automatic {

struct Codes {  // as class Coding has them; columns without trees have none
    const double* cuts = nullptr;
    const std::int64_t* starts = nullptr;
};

struct OneBoosted {
    std::size_t place;  // among all components
    const Node* nodes;
    const std::int32_t *roots, *outputs;
    std::size_t trees;
    const float* values;
    const double* base;
};

struct OneForest {
    std::size_t place;
    ForestRows rows;
    int open;
};

struct OneComponent {
    std::size_t place;
    int view;            // of its kernel; -1 for the columns themselves
    bool both, squares;  // columns: with their normal scores, and with the squares of these
    KernelMap map;
    Component m;
    int open;
    double loosen;  // what forgetting takes from the certainty, see auto_newton.hpp
    std::vector<Depths> depths;
    std::vector<float> values, features;
    Buffer<float> lines;  // U^T, packed [16 rows][rank][16], so that few rows take little time
    std::array<double, kBlock> column;
    std::optional<Curve> curve;  // of the targets it learns
    double bent_score = 0;       // what it said before its score was straightened

    float* line_of(int row) { return lines.data() + std::size_t(row / kLanes) * m.rank * kLanes; }
};

class OneRow {
public:
    OneRow(const Primitives<float>& with, const Columns& columns, std::vector<OneComponent> components, const Codes& coding,
           std::vector<OneBoosted> boosted, std::vector<OneForest> forests, Combination combination, int outputs, Task task)
        : with_(with), columns_(columns), components_(std::move(components)), coding_(coding), boosted_(std::move(boosted)),
          forests_(std::move(forests)), combiner_(combination, outputs, task), outputs_(outputs), task_(task),
          x_(columns.columns), codes_(coding.cuts ? columns.columns : 0),
          scores_((components_.size() + boosted_.size() + forests_.size()) * outputs), out_(outputs), g_(outputs), p_(outputs) {
        for (OneComponent& each : components_) {
            each.features.assign(each.m.width(), 0.0f);
            each.lines = Buffer<float>(std::size_t(each.m.rank) * kBlock);
            for (int s = 0; s < each.open; s += kLanes)
                transpose(each.m.U + s * each.m.width(), std::min(kLanes, each.open - s), each.m.rank, each.m.width(),
                          each.line_of(s), kLanes);
            if (each.view >= 0) {
                each.depths = depths(each.map);
                each.values.resize(std::size_t(each.map.landmark_tiles) * kTile);
                needed_[each.view] = true;
            } else {
                needed_[standard] = true;
                needed_[normal] |= each.both;
            }
        }
        needed_[standard] |= needed_[relevant_standard];
        needed_[normal] |= needed_[relevant_normal];
        needed_[common] |= needed_[leading];
        for (int view = 0; view < n_views; ++view)
            if (needed_[view]) views_[view].resize(std::size_t(view_width(columns, view)));
        for (int j = 0; j < columns.columns; ++j) {
            const double* column = columns.sorted + j * std::size_t(columns.length);
            square_means_.push_back(column[0] < column[columns.length - 1] ? 1.0f : 0.0f);
        }
    }

    // Scores the row, by outputs; what it computed is kept for `learn`, and for the same row again.
    const std::vector<double>& score(const double* x) {
        const bool same = std::equal(x_.begin(), x_.end(), x);
        if (same && scored_) return out_;
        scored_ = false;
        if (!known_ || !same) {
            known_ = false;
            std::copy_n(x, x_.size(), x_.begin());
            make_views();
            for (OneComponent& each : components_) make_features(each);
            if (coding_.cuts) code_rows(x_.data(), 1, x_.size(), coding_.cuts, coding_.starts, codes_.data());
            known_ = true;
        }
        for (OneComponent& each : components_) {
            products(each, each.open);
            double* score = scores_of(each.place);
            score_row(with_, each.m, each.open, each.features.data(), each.column.data(), score);
            if (each.curve) *score = straightened(*each.curve, each.bent_score = *score);
        }
        for (const OneBoosted& each : boosted_)
            boosted_scores(each.nodes, each.roots, each.outputs, each.trees, each.values, each.base, outputs_, codes_.data(), 1,
                           codes_.size(), scores_of(each.place));
        for (OneForest& each : forests_) {
            each.rows.find(codes_.data(), 1, codes_.size());
            each.rows.score(0, each.open, scores_of(each.place));
        }
        centred_ = scores_;
        if (task_ == Task::multiclass)
            for (std::size_t i = 0; i < size(); ++i) {
                double total = 0;
                for (int k = 0; k < outputs_; ++k) total += scores_[i * outputs_ + k];
                for (int k = 0; k < outputs_; ++k) centred_[i * outputs_ + k] -= total / outputs_;
            }
        combiner_.score(centred_.data(), out_.data());
        scored_ = true;
        return out_;
    }

    bool scored() const { return scored_; }  // and not learned from since

    bool has_room() const {
        const auto roomy = [](const auto& each) { return each.open < kBlock - 1; };
        return std::all_of(components_.begin(), components_.end(), roomy) &&
               std::all_of(forests_.begin(), forests_.end(), roomy);
    }

    // Learns the row that was scored last.
    void learn(const double* y, double weight, double* loss_sum, double* error_sum) {
        for (OneComponent& each : components_) {
            Component& m = each.m;
            const int u = each.open;
            float* row = m.rows + u * m.width();
            std::copy(each.features.begin(), each.features.end(), row);
            multiply(with_, row, m.width(), 1, m.rank, m.P, m.tiles, m.U + u * m.width(), m.width());
            float own[kLanes], *line = each.line_of(u);
            for (int k = 0; k < m.rank; ++k) line[k * kLanes + u % kLanes] = m.U[u * m.width() + k];
            with_.inner_lines(each.features.data(), m.rank, line, 1, own);
            const double target = each.curve ? bent(*each.curve, y[0]) : 0;
            learn_row(with_, m, u, each.column.data(), double(own[u % kLanes]),
                      each.curve ? &each.bent_score : scores_of(each.place), each.curve ? &target : y, weight, task_,
                      each.loosen, g_.data(), p_.data());
            each.open = u + 1;
        }
        for (OneForest& each : forests_) each.rows.learn(0, y, weight, each.open++);
        combiner_.learn(centred_.data(), y, weight, loss_sum, error_sum);
        scored_ = false;
    }

    const std::vector<OneComponent>& newton() const { return components_; }
    const std::vector<OneForest>& forests() const { return forests_; }
    const std::vector<std::uint8_t>& codes() const { return codes_; }  // of the row that was scored last
    std::size_t size() const { return scores_.size() / outputs_; }     // components
    int columns() const { return columns_.columns; }
    int outputs() const { return outputs_; }

private:
    double* scores_of(std::size_t place) { return scores_.data() + place * outputs_; }

    void make_views() {
        std::array<float*, n_views> views{};
        for (int view = 0; view < n_views; ++view)
            if (needed_[view]) views[view] = views_[view].data();
        block_views(with_, columns_, x_.data(), 1, views);
    }

    void make_features(OneComponent& each) {
        if (each.view >= 0) {
            block_features(with_, each.map, each.depths, views_[each.view].data(), 1, each.values.data(), each.features.data());
            return;
        }
        const int d = columns_.columns;
        std::copy_n(views_[standard].begin(), d, each.features.begin());
        if (each.both) std::copy_n(views_[normal].begin(), d, each.features.begin() + d);
        if (each.squares)
            std::transform(views_[normal].begin(), views_[normal].begin() + d, square_means_.begin(),
                           each.features.begin() + 2 * d, [](float z, float mean) { return (z * z - mean) * kRootHalf; });
        each.features[each.m.rank - 1] = 1.0f;
    }

    // column[s] = x_s P x for the rows s < n of the open block.
    void products(OneComponent& each, int n) {
        float product[kBlock];
        with_.inner_lines(each.features.data(), each.m.rank, each.lines.data(), (n + kLanes - 1) / kLanes, product);
        for (int s = 0; s < n; ++s) each.column[s] = double(product[s]);
    }

    const Primitives<float>& with_;
    Columns columns_;
    std::vector<OneComponent> components_;
    Codes coding_;
    std::vector<OneBoosted> boosted_;
    std::vector<OneForest> forests_;
    Combiner combiner_;
    int outputs_;
    Task task_;
    bool known_ = false, scored_ = false;  // the features of row x_; its scores
    std::array<bool, n_views> needed_{};
    std::array<std::vector<float>, n_views> views_;
    std::vector<float> square_means_;  // of normal scores: 1, and 0 for constant columns
    std::vector<double> x_;
    std::vector<std::uint8_t> codes_;
    std::vector<double> scores_, centred_, out_, g_, p_;
};

}  // namespace bomkl::automatic
