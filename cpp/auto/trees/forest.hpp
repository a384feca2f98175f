// A forest whose leaves go on learning.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "auto/components/losses.hpp"
#include "auto/components/products.hpp"
#include "auto/trees/trees.hpp"

namespace bomkl::automatic {

// A forest: its leaves hold sums of weights, one for each class, or the sum of weights and of weighted targets.
struct Forest {
    const Node* nodes;
    const std::int32_t* roots;
    int trees;
    float* table;         // (leaves, width)
    int width;            // classes, at least 2; of numbers 2
    const double* prior;  // (width) what an empty leaf says: probabilities; of numbers 1 and the mean
    // The rows of the open block, held apart from the table so that it may be shared until the block is full
    std::int32_t* open_leaves;  // (trees, 64)
    double* open_y;             // (64, outputs)
    double* open_weight;        // (64)
};

inline constexpr double kPriorWeight = 0.2;

class ForestRows {
public:
    ForestRows(const Forest& forest, int outputs, Task task)
        : m_(forest), outputs_(outputs), task_(task), leaves_(std::size_t(forest.trees) * kBlock), mean_(forest.width),
          sums_(forest.width) {}

    // Finds the leaves of n rows, n at most 64.
    void find(const std::uint8_t* codes, std::size_t n, std::size_t d) {
        const std::size_t trees = std::size_t(m_.trees);
        if (n == 1) {
            walk(
                m_.nodes, trees, [&](std::size_t i) { return m_.roots[i]; }, [&](std::size_t) { return codes; },
                [&](std::size_t i, std::int32_t leaf) { leaves_[i] = leaf; });
            return;
        }
        for (std::size_t i = 0; i < trees; ++i)
            walk(
                m_.nodes, n, [&](std::size_t) { return m_.roots[i]; }, [&](std::size_t t) { return codes + t * d; },
                [&](std::size_t t, std::int32_t leaf) { leaves_[t * trees + i] = leaf; });
    }

    // Scores row t of those found last by the table and the first `open` rows of the open block.
    void score(std::size_t t, int open, double* f) {
        std::fill(mean_.begin(), mean_.end(), 0.0);
        const std::int32_t* own = leaves_.data() + t * m_.trees;
        for (int i = 0; i < m_.trees; ++i) {
            const float* known = m_.table + std::size_t(own[i]) * m_.width;
            for (int k = 0; k < m_.width; ++k) sums_[k] = double(known[k]);
            const std::int32_t* leaves = m_.open_leaves + std::size_t(i) * kBlock;
            int hits = 0;
            for (int s = 0; s < open; ++s) hits += leaves[s] == own[i];
            for (int s = 0; hits > 0; ++s)
                if (leaves[s] == own[i]) add(s, sums_.data()), --hits;
            if (is_regression(task_)) {
                mean_[0] += (sums_[1] + kPriorWeight * m_.prior[1]) / (sums_[0] + kPriorWeight);
                continue;
            }
            double total = kPriorWeight;
            for (int k = 0; k < m_.width; ++k) total += sums_[k];
            for (int k = 0; k < m_.width; ++k) mean_[k] += (sums_[k] + kPriorWeight * m_.prior[k]) / total;
        }
        for (double& value : mean_) value /= m_.trees;
        if (is_regression(task_))
            f[0] = mean_[0];
        else if (task_ == Task::binary)
            scores_of_means(mean_.data() + 1, 1, task_, f);
        else
            scores_of_means(mean_.data(), outputs_, task_, f);
    }

    // Makes row t of those found last number `at` of the open block.
    void learn(std::size_t t, const double* y, double weight, int at) {
        for (int i = 0; i < m_.trees; ++i) m_.open_leaves[std::size_t(i) * kBlock + at] = leaves_[t * m_.trees + i];
        std::copy_n(y, outputs_, m_.open_y + std::size_t(at) * outputs_);
        m_.open_weight[at] = weight;
    }

    // Makes the first `open` rows of the open block part of the table.
    void close(int open) {
        for (int i = 0; i < m_.trees; ++i)
            for (int s = 0; s < open; ++s)
                add(s, m_.table + std::size_t(m_.open_leaves[std::size_t(i) * kBlock + s]) * m_.width);
    }

private:
    template <class T>
    void add(int s, T* sums) const {
        const double *y = m_.open_y + std::size_t(s) * outputs_, weight = m_.open_weight[s];
        if (is_regression(task_)) {
            sums[0] += T(weight);
            sums[1] += T(weight * y[0]);
        } else if (task_ == Task::binary) {
            sums[y[0] > 0.5] += T(weight);
        } else {
            sums[std::max_element(y, y + outputs_) - y] += T(weight);
        }
    }

    const Forest m_;
    const int outputs_;
    const Task task_;
    std::vector<std::int32_t> leaves_;  // (64, trees)
    std::vector<double> mean_, sums_;
};

}  // namespace bomkl::automatic
