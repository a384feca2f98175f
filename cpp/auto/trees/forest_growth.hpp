// Growing a forest.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "auto/components/losses.hpp"
#include "auto/trees/tree_sample.hpp"
#include "auto/trees/trees.hpp"

namespace bomkl::automatic {

// Extremely randomised trees: of a few columns, each cut at random, the best one. Every leaf gets the sums of its rows.
class ForestGrower {
public:
    ForestGrower(Sample sample, int tries, int least_rows, std::uint64_t seed)
        : s_(std::move(sample)), tries_(tries), least_(least_rows), seed_(seed), draw_(seed, 0), rows_(s_.n), codes_(s_.n),
          label_(s_.n), weight_(s_.n), value_(s_.n), classes_(s_.task == Task::multiclass ? s_.outputs : 2), left_(classes_),
          whole_(classes_), scratch_(s_.n) {
        for (int j = 0; j < s_.d; ++j)  // draws must not depend on columns that are constant
            if (std::any_of(s_.column(j), s_.column(j) + s_.n, [&](std::uint8_t c) { return c != *s_.column(j); }))
                columns_.push_back(j);
        if (!is_regression(s_.task))
            for (int t = 0; t < s_.n; ++t) {
                const double* y = s_.y + std::size_t(t) * s_.outputs;
                label_[t] = s_.task == Task::binary ? int(y[0] > 0.5) : int(std::max_element(y, y + s_.outputs) - y);
            }
    }

    void grow_one() {
        draw_ = Sequence(seed_, roots.size() + 1);
        std::iota(rows_.begin(), rows_.end(), 0);
        const int root = int(nodes.size());
        roots.push_back(root);
        nodes.push_back({-1, 0});
        known_ = columns_;
        divide(root, 0, s_.n, 0, columns_.size(), 0);
    }

    int width() const { return classes_; }

    std::vector<Node> nodes;
    std::vector<std::int32_t> roots;
    std::vector<float> table;  // (leaves, width)

private:
    static constexpr int kDeepest = 64;

    bool pure(int begin, int end) const {
        const auto same = [&](auto&& of) {
            const auto first = of(rows_[begin]);
            return std::all_of(rows_.begin() + begin, rows_.begin() + end, [&](int r) { return of(r) == first; });
        };
        return is_regression(s_.task) ? same([&](int r) { return s_.y[std::size_t(r) * s_.outputs]; })
                                      : same([&](int r) { return label_[r]; });
    }

    // Weights of the rows of a node, and what they are to be told apart by, side by side.
    void gather(int begin, int end) {
        std::fill(whole_.begin(), whole_.end(), 0.0);
        for (int i = begin; i < end; ++i) {
            const int r = rows_[i];
            const double w = s_.weight[r];
            weight_[i - begin] = w;
            if (is_regression(s_.task)) {
                value_[i - begin] = w * s_.y[r];
            } else {
                whole_[label_[r]] += w;
                value_[i - begin] = label_[r] == 1 ? w : 0.0;
            }
        }
    }

    // How well a cut of `codes_` divides: the sum over both sides of squared sums, of targets or of each class, a unit of
    // weight.
    double worth(int cut, int begin, int end) {
        const int n = end - begin;
        if (s_.task == Task::multiclass) {
            std::fill(left_.begin(), left_.end(), 0.0);
            for (int i = 0; i < n; ++i) left_[label_[rows_[begin + i]]] += codes_[i] <= cut ? weight_[i] : 0.0;
        } else if (s_.task == Task::binary) {
            double weight = 0, value = 0;
            for (int i = 0; i < n; ++i) {
                const bool goes_left = codes_[i] <= cut;
                weight += goes_left ? weight_[i] : 0.0;
                value += goes_left ? value_[i] : 0.0;
            }
            left_[0] = weight - value;
            left_[1] = value;
        } else {  // both sides in the same way, so that rounding does not decide between a cut and its mirror image
            double weight[2] = {}, value[2] = {};
            for (int i = 0; i < n; ++i) {
                const bool goes_left = codes_[i] <= cut;
                weight[0] += goes_left ? weight_[i] : 0.0;
                weight[1] += goes_left ? 0.0 : weight_[i];
                value[0] += goes_left ? value_[i] : 0.0;
                value[1] += goes_left ? 0.0 : value_[i];
            }
            return value[0] * value[0] / weight[0] + value[1] * value[1] / weight[1];
        }
        double left = 0, right = 0, squares_left = 0, squares_right = 0;
        for (int k = 0; k < classes_; ++k) {
            const double other = whole_[k] - left_[k];
            left += left_[k];
            right += other;
            squares_left += left_[k] * left_[k];
            squares_right += other * other;
        }
        return squares_left / left + squares_right / right;
    }

    void make_leaf(int node, int begin, int end) {
        nodes[node].next = std::int32_t(table.size() / classes_);
        table.resize(table.size() + classes_, 0.0f);
        float* sums = table.data() + table.size() - classes_;
        for (int i = begin; i < end; ++i) {
            const int r = rows_[i];
            if (is_regression(s_.task)) {
                sums[0] += float(s_.weight[r]);
                sums[1] += float(s_.weight[r] * s_.y[r]);
            } else {
                sums[label_[r]] += float(s_.weight[r]);
            }
        }
    }

    struct Cut {
        int column = -1, code = 0;
    };

    // The best of a few cuts of columns known_[own, own + count), none where nothing can be told apart. Columns that turn out
    // to be constant from here on down are taken off `count`.
    Cut best_cut(int begin, int end, std::size_t own, std::size_t& count) {
        gather(begin, end);
        Cut found;
        double best = -1;
        int tried = 0;
        int* const columns = known_.data() + own;
        for (std::size_t i = 0; i < count && tried < tries_;) {
            std::swap(columns[i], columns[i + draw_.below(int(count - i))]);
            const std::uint8_t* codes = s_.column(columns[i]);
            std::uint8_t low = 255, high = 0;
            for (int r = begin; r < end; ++r) {
                const std::uint8_t code = codes_[r - begin] = codes[rows_[r]];
                low = std::min(low, code);
                high = std::max(high, code);
            }
            if (low == high) {
                columns[i] = columns[--count];
                continue;
            }
            const int cut = low + draw_.below(high - low);
            const double value = worth(cut, begin, end);
            if (value > best) best = value, found = {columns[i], cut};
            ++tried;
            ++i;
        }
        return found;
    }

    // Columns that were not constant on the way down are known_[from, from + count); what is done to them stays behind those.
    void divide(int node, int begin, int end, std::size_t from, std::size_t count, int depth) {
        Cut cut;
        const std::size_t own = from + count;
        if (end - begin >= 2 * least_ && end - begin > 1 && depth < kDeepest && !pure(begin, end)) {
            known_.resize(own);
            known_.insert(known_.end(), known_.begin() + from, known_.begin() + own);
            cut = best_cut(begin, end, own, count);
        }
        if (cut.column < 0) return make_leaf(node, begin, end);
        const std::uint8_t* codes = s_.column(cut.column);
        const int middle = divide_rows(rows_, begin, end, scratch_, [&](int r) { return codes[r] <= cut.code; });
        const int next = int(nodes.size());
        nodes[node] = {cut.column * 256 + cut.code, next};
        nodes.insert(nodes.end(), 2, {-1, 0});
        divide(next, begin, middle, own, count, depth + 1);
        divide(next + 1, middle, end, own, count, depth + 1);
    }

    const Sample s_;
    const int tries_, least_;
    const std::uint64_t seed_;
    Sequence draw_;
    std::vector<int> rows_;
    std::vector<std::uint8_t> codes_;  // of the rows of a node, of the column that is looked at
    std::vector<int> label_;
    std::vector<double> weight_, value_;  // of the rows of a node
    const int classes_;
    std::vector<double> left_, whole_;
    std::vector<int> scratch_, columns_, known_;
};

}  // namespace bomkl::automatic
