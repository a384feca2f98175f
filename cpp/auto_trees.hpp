// Trees of the zero-tuning learner, on columns coded to bytes: boosted trees, and forests whose leaves go on learning.
//
// Growing reads rows in their order with one thread and draws by counter, so that the same rows give the same trees. A row is
// scored by walking it down every tree in turn: its score does not depend on the rows that come with it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "auto_losses.hpp"
#include "auto_products.hpp"
#include "philox.hpp"

namespace bomkl::automatic {

// Codes up to the cut go to node `next`, larger ones to `next + 1`. A leaf has split -1 and its number as `next`.
struct Node {
    std::int32_t split;  // 256 times the column, plus the cut
    std::int32_t next;
};

inline int leaf_of(const Node* nodes, std::int32_t root, const std::uint8_t* codes) {
    const Node* node = nodes + root;
    while (node->split >= 0) node = nodes + node->next + (codes[node->split >> 8] > (node->split & 255));
    return node->next;
}

// What can be walked without leaving the arrays, and without end: nodes lead to later ones only, columns and leaves exist.
inline bool sound(const Node* nodes, std::size_t n, const std::int32_t* roots, std::size_t n_roots, std::size_t leaves,
                  std::size_t columns) {
    for (std::size_t i = 0; i < n; ++i) {
        if (nodes[i].split < -1) return false;
        if (nodes[i].split == -1) {
            if (nodes[i].next < 0 || std::size_t(nodes[i].next) >= leaves) return false;
        } else if (std::size_t(nodes[i].split >> 8) >= columns || nodes[i].next <= std::int64_t(i) ||
                   std::size_t(nodes[i].next) + 1 >= n) {
            return false;
        }
    }
    return std::all_of(roots, roots + n_roots, [&](std::int32_t r) { return r >= 0 && std::size_t(r) < n; });
}

// How many of the sorted cuts of its column lie below each value.
inline void code_rows(const double* x, std::size_t n, std::size_t d, const double* cuts, const std::int64_t* starts,
                      std::uint8_t* out) {
    for (std::size_t j = 0; j < d; ++j) {
        const double *begin = cuts + starts[j], *end = cuts + starts[j + 1];
        for (std::size_t t = 0; t < n; ++t) out[t * d + j] = std::uint8_t(std::lower_bound(begin, end, x[t * d + j]) - begin);
    }
}

// Where rows go in a uniform sample of `size` rows of a stream (Vitter's algorithm R), -1 for nowhere: a function of the seed
// and the number of the row.
inline void sample_places(std::uint64_t seed, std::uint64_t first, std::size_t n, std::uint64_t size, std::int64_t* places) {
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint64_t row = first + i;
        const auto word = philox({row, 0, 0, 0}, {seed, 0})[0];
        const auto place = row < size ? row : std::uint64_t((static_cast<unsigned __int128>(word) * (row + 1)) >> 64);
        places[i] = place < size ? std::int64_t(place) : -1;
    }
}

struct Sample {  // rows to grow from
    int n, d;
    std::vector<std::uint8_t> columns;  // (d, n) codes
    const double* y;                    // (n, outputs) as the components learn them
    const double* weight;
    int outputs;
    Task task;

    Sample(const std::uint8_t* codes, const double* y, const double* weight, int n, int d, int outputs, Task task)
        : n(n), d(d), columns(std::size_t(n) * d), y(y), weight(weight), outputs(outputs), task(task) {
        for (int t = 0; t < n; ++t)
            for (int j = 0; j < d; ++j) columns[std::size_t(j) * n + t] = codes[std::size_t(t) * d + j];
    }
    const std::uint8_t* column(int j) const { return columns.data() + std::size_t(j) * n; }
};

// Draws in order: the i-th is a function of the key and i.
class Sequence {
public:
    explicit Sequence(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}
    int below(int n) {  // 0, ..., n - 1
        if (at_ % 4 == 0) words_ = philox({at_ / 4, 0, 0, 0}, {seed_, stream_});
        return int((words_[at_++ % 4] >> 32) * std::uint64_t(n) >> 32);
    }

private:
    std::uint64_t seed_, stream_, at_ = 0;
    std::array<std::uint64_t, 4> words_{};
};

// ---------------------------------------------------------------- boosted trees

struct Boosting {
    int rounds, leaves, least_rows;
    double rate, ridge;
    double columns;  // share of the columns that a tree may use
};

struct BoostedTrees {
    std::vector<Node> nodes;
    std::vector<std::int32_t> roots, outputs;  // of each tree, the output that it is part of
    std::vector<float> values;                 // of the leaves
    std::vector<double> base;                  // of the outputs
};

class Booster {
public:
    Booster(const Sample& sample, const Boosting& settings, std::uint64_t seed)
        : s_(sample), with_(settings), draw_(seed, 0), rows_(sample.n), scratch_(sample.n), gradient_(sample.n),
          curvature_(sample.n), f_(std::size_t(sample.n) * sample.outputs), p_(f_.size()), shift_(sample.d),
          offset_(sample.d + 1) {
        for (int j = 0; j < s_.d; ++j) {  // 64 bins tell enough; a column of fewer codes keeps them
            const int top = s_.n ? *std::max_element(s_.column(j), s_.column(j) + s_.n) : 0;
            shift_[j] = top < kBins ? 0 : top < 2 * kBins ? 1 : 2;
            offset_[j + 1] = offset_[j] + (top >> shift_[j]) + 1;
        }
        used_.reserve(s_.d);
    }

    BoostedTrees grow() {
        BoostedTrees out;
        start(out.base);
        for (int round = 0; round < with_.rounds; ++round) {
            for (int t = 0; t < s_.n; ++t)
                means(f_.data() + std::size_t(t) * s_.outputs, s_.outputs, s_.task, p_.data() + std::size_t(t) * s_.outputs);
            for (int k = 0; k < s_.outputs; ++k) tree(out, k);
        }
        return out;
    }

private:
    static constexpr int kBins = 64;
    struct Bin {
        float g, h;
        std::int32_t n;
    };
    struct Leaf {
        int node, begin, end, slot;
        double gain;
        int column, bin;
    };

    void start(std::vector<double>& base) {
        base.assign(s_.outputs, 0.0);
        double total = 0;
        for (int t = 0; t < s_.n; ++t) {
            total += s_.weight[t];
            for (int k = 0; k < s_.outputs; ++k) base[k] += s_.weight[t] * s_.y[std::size_t(t) * s_.outputs + k];
        }
        for (double& b : base) {
            if (is_regression(s_.task))
                b /= std::max(total, 1e-300);
            else if (s_.task == Task::binary)
                b = std::log((b + 0.5) / (total - b + 0.5));
            else
                b = std::log((b + 0.5) / (total + 0.5 * s_.outputs));
        }
        for (int t = 0; t < s_.n; ++t) std::copy(base.begin(), base.end(), f_.begin() + std::size_t(t) * s_.outputs);
    }

    void pull(int k) {
        for (int t = 0; t < s_.n; ++t) {
            const std::size_t at = std::size_t(t) * s_.outputs + k;
            double g = p_[at] - s_.y[at], h = 1;
            if (s_.task == Task::huber) g = std::clamp(g, -kHuber, kHuber);
            if (!is_regression(s_.task)) h = std::max(p_[at] * (1 - p_[at]), 1e-6);
            gradient_[t] = float(s_.weight[t] * g);
            curvature_[t] = float(s_.weight[t] * h);
        }
    }

    // Columns that this tree may use, in order.
    void choose_columns() {
        used_.clear();
        for (int j = 0; j < s_.d; ++j)
            if (offset_[j + 1] - offset_[j] > 1) used_.push_back(j);
        const int all = int(used_.size()), wanted = std::min(all, std::max(8, int(std::lround(with_.columns * all))));
        for (int i = 0; i < wanted && wanted < all; ++i) std::swap(used_[i], used_[i + draw_.below(all - i)]);
        used_.resize(wanted);
        std::sort(used_.begin(), used_.end());
    }

    Bin* bins(int slot) { return histograms_.data() + std::size_t(slot) * offset_[s_.d]; }

    void count(const Leaf& leaf) {
        Bin* all = bins(leaf.slot);
        for (int j : used_) {
            const std::uint8_t* codes = s_.column(j);
            const int shift = shift_[j];
            Bin* own = all + offset_[j];
            std::fill(own, all + offset_[j + 1], Bin{0, 0, 0});
            for (int i = leaf.begin; i < leaf.end; ++i) {
                Bin& bin = own[codes[rows_[i]] >> shift];
                bin.g += gradient_[rows_[i]];
                bin.h += curvature_[rows_[i]];
                ++bin.n;
            }
        }
    }
    void subtract(int from, int part) {
        Bin *a = bins(from), *b = bins(part);
        for (int j : used_)
            for (int i = offset_[j]; i < offset_[j + 1]; ++i) {
                a[i].g -= b[i].g;
                a[i].h -= b[i].h;
                a[i].n -= b[i].n;
            }
    }

    void find_split(Leaf& leaf) {
        leaf.gain = 0;
        const int n = leaf.end - leaf.begin;
        if (n < 2 * with_.least_rows || used_.empty()) return;
        double G = 0, H = 0;
        for (int i = leaf.begin; i < leaf.end; ++i) G += gradient_[rows_[i]], H += curvature_[rows_[i]];
        const double whole = G * G / (H + with_.ridge);
        const Bin* all = bins(leaf.slot);
        for (int j : used_) {
            double g = 0, h = 0;
            int left = 0;
            for (int b = offset_[j]; b + 1 < offset_[j + 1]; ++b) {
                if (all[b].n == 0) continue;
                g += all[b].g;
                h += all[b].h;
                left += all[b].n;
                if (left < with_.least_rows) continue;
                if (n - left < with_.least_rows) break;
                const double rest = std::max(H - h, 0.0);
                if (h < kLeastCurvature || rest < kLeastCurvature) continue;
                const double gain = g * g / (h + with_.ridge) + (G - g) * (G - g) / (rest + with_.ridge) - whole;
                if (gain > leaf.gain + 1e-9) leaf.gain = gain, leaf.column = j, leaf.bin = b - offset_[j];
            }
        }
    }

    // Puts the rows of a leaf that go left before the others, each in their order; returns where the others begin.
    int divide(const Leaf& leaf) {
        const std::uint8_t* codes = s_.column(leaf.column);
        int left = leaf.begin, right = 0;
        for (int i = leaf.begin; i < leaf.end; ++i) {
            if (codes[rows_[i]] >> shift_[leaf.column] <= leaf.bin)
                rows_[left++] = rows_[i];
            else
                scratch_[right++] = rows_[i];
        }
        std::copy_n(scratch_.begin(), right, rows_.begin() + left);
        return left;
    }

    void tree(BoostedTrees& out, int k) {
        pull(k);
        choose_columns();
        histograms_.resize(std::size_t(with_.leaves) * offset_[s_.d]);
        std::iota(rows_.begin(), rows_.end(), 0);
        const int root = int(out.nodes.size());
        out.nodes.push_back({-1, 0});
        std::vector<Leaf> leaves{{root, 0, s_.n, 0, 0, 0, 0}};
        count(leaves[0]);
        find_split(leaves[0]);
        while (int(leaves.size()) < with_.leaves) {
            const auto best =
                std::max_element(leaves.begin(), leaves.end(), [](const Leaf& a, const Leaf& b) { return a.gain < b.gain; });
            if (best->gain <= 0) break;
            const Leaf old = *best;
            const int middle = divide(old), next = int(out.nodes.size());
            const int cut = ((old.bin + 1) << shift_[old.column]) - 1;
            out.nodes[old.node] = {old.column * 256 + cut, next};
            out.nodes.insert(out.nodes.end(), 2, {-1, 0});
            Leaf left{next, old.begin, middle, 0, 0, 0, 0}, right{next + 1, middle, old.end, 0, 0, 0, 0};
            const bool left_is_smaller = middle - old.begin <= old.end - middle;
            Leaf& small = left_is_smaller ? left : right;
            Leaf& large = left_is_smaller ? right : left;
            small.slot = int(leaves.size());
            large.slot = old.slot;
            count(small);
            subtract(large.slot, small.slot);
            find_split(small);
            find_split(large);
            *best = left;
            leaves.push_back(right);
        }
        for (const Leaf& leaf : leaves) {
            double G = 0, H = 0;
            for (int i = leaf.begin; i < leaf.end; ++i) G += gradient_[rows_[i]], H += curvature_[rows_[i]];
            const double value = std::clamp(-with_.rate * G / (H + with_.ridge), -kLargestStep, kLargestStep);
            out.nodes[leaf.node].next = std::int32_t(out.values.size());
            out.values.push_back(float(value));
            for (int i = leaf.begin; i < leaf.end; ++i) f_[std::size_t(rows_[i]) * s_.outputs + k] += double(float(value));
        }
        out.roots.push_back(root);
        out.outputs.push_back(k);
    }

    static constexpr double kLeastCurvature = 1e-3, kLargestStep = 1e6;
    const Sample& s_;
    const Boosting with_;
    Sequence draw_;
    std::vector<int> rows_, scratch_;
    std::vector<float> gradient_, curvature_;
    std::vector<double> f_, p_;
    std::vector<int> shift_, offset_, used_;
    std::vector<Bin> histograms_;
};

// scores (n, outputs): the base, then every tree in turn.
inline void boosted_scores(const Node* nodes, const std::int32_t* roots, const std::int32_t* outputs, std::size_t trees,
                           const float* values, const double* base, std::size_t n_outputs, const std::uint8_t* codes,
                           std::size_t n, std::size_t d, double* scores) {
    for (std::size_t t = 0; t < n; ++t) {
        double* f = scores + t * n_outputs;
        std::copy_n(base, n_outputs, f);
        for (std::size_t i = 0; i < trees; ++i) f[outputs[i]] += double(values[leaf_of(nodes, roots[i], codes + t * d)]);
    }
}

// ---------------------------------------------------------------- forests whose leaves go on learning

// Extremely randomised trees: of a few columns, each cut at random, the best one.
class ForestGrower {
public:
    ForestGrower(const Sample& sample, int tries, int least_rows, std::uint64_t seed, std::uint64_t tree)
        : s_(sample), tries_(tries), least_(least_rows), draw_(seed, tree + 1), rows_(sample.n),
          classes_(sample.task == Task::multiclass ? sample.outputs : 2), left_(classes_), whole_(classes_) {
        std::iota(rows_.begin(), rows_.end(), 0);
        if (!is_regression(s_.task)) {
            label_.resize(s_.n);
            for (int t = 0; t < s_.n; ++t) {
                const double* y = s_.y + std::size_t(t) * s_.outputs;
                label_[t] = s_.task == Task::binary ? int(y[0] > 0.5) : int(std::max_element(y, y + s_.outputs) - y);
            }
        }
    }

    // Appends a tree; leaves are numbered from `leaves` on. Returns how many there are then.
    int grow(std::vector<Node>& nodes, int leaves) {
        nodes_ = &nodes;
        leaves_ = leaves;
        std::vector<int> columns;
        for (int j = 0; j < s_.d; ++j)  // draws must not depend on columns that are constant
            if (std::any_of(s_.column(j), s_.column(j) + s_.n, [&](std::uint8_t c) { return c != *s_.column(j); }))
                columns.push_back(j);
        const int root = int(nodes.size());
        nodes.push_back({-1, 0});
        divide(root, 0, s_.n, columns, 0);
        return leaves_;
    }

private:
    static constexpr int kDeepest = 64;

    bool pure(int begin, int end) const {
        if (is_regression(s_.task)) {
            const double first = s_.y[std::size_t(rows_[begin]) * s_.outputs];
            return std::all_of(rows_.begin() + begin, rows_.begin() + end,
                               [&](int r) { return s_.y[std::size_t(r) * s_.outputs] == first; });
        }
        const int first = label_[rows_[begin]];
        return std::all_of(rows_.begin() + begin, rows_.begin() + end, [&](int r) { return label_[r] == first; });
    }

    // How well a cut divides: the sum over both sides of squared sums, of targets or of each class, a unit of weight.
    double worth(int column, int cut, int begin, int end) {
        const std::uint8_t* codes = s_.column(column);
        double left = 0, right = 0;
        if (is_regression(s_.task)) {
            double sum_left = 0, sum_right = 0;
            for (int i = begin; i < end; ++i) {
                const int r = rows_[i];
                const double w = s_.weight[r], value = w * s_.y[r];
                const bool goes_left = codes[r] <= cut;
                left += goes_left ? w : 0.0;
                right += goes_left ? 0.0 : w;
                sum_left += goes_left ? value : 0.0;
                sum_right += goes_left ? 0.0 : value;
            }
            return sum_left * sum_left / left + sum_right * sum_right / right;
        }
        std::fill(left_.begin(), left_.end(), 0.0);
        for (int i = begin; i < end; ++i) {
            const int r = rows_[i];
            left_[label_[r]] += codes[r] <= cut ? s_.weight[r] : 0.0;
        }
        double squares_left = 0, squares_right = 0;
        for (int k = 0; k < classes_; ++k) {
            const double other = whole_[k] - left_[k];
            left += left_[k];
            right += other;
            squares_left += left_[k] * left_[k];
            squares_right += other * other;
        }
        return squares_left / left + squares_right / right;
    }

    void divide(int node, int begin, int end, const std::vector<int>& known, int depth) {
        int best_column = -1, best_cut = 0;
        std::vector<int> columns;
        if (end - begin >= 2 * least_ && end - begin > 1 && depth < kDeepest && !pure(begin, end)) {
            columns = known;
            if (!is_regression(s_.task)) {
                std::fill(whole_.begin(), whole_.end(), 0.0);
                for (int i = begin; i < end; ++i) whole_[label_[rows_[i]]] += s_.weight[rows_[i]];
            }
            double best = -1;
            int tried = 0;
            for (std::size_t i = 0; i < columns.size() && tried < tries_;) {
                std::swap(columns[i], columns[i + draw_.below(int(columns.size() - i))]);
                const std::uint8_t* codes = s_.column(columns[i]);
                int low = 255, high = 0;
                for (int r = begin; r < end; ++r) {
                    low = std::min<int>(low, codes[rows_[r]]);
                    high = std::max<int>(high, codes[rows_[r]]);
                }
                if (low == high) {  // constant from here on down
                    columns[i] = columns.back();
                    columns.pop_back();
                    continue;
                }
                const int cut = low + draw_.below(high - low);
                const double value = worth(columns[i], cut, begin, end);
                if (value > best) best = value, best_column = columns[i], best_cut = cut;
                ++tried;
                ++i;
            }
        }
        if (best_column < 0) {
            (*nodes_)[node].next = leaves_++;
            return;
        }
        const std::uint8_t* codes = s_.column(best_column);
        const auto middle =
            std::stable_partition(rows_.begin() + begin, rows_.begin() + end, [&](int r) { return codes[r] <= best_cut; }) -
            rows_.begin();
        const int next = int(nodes_->size());
        (*nodes_)[node] = {best_column * 256 + best_cut, next};
        nodes_->insert(nodes_->end(), 2, {-1, 0});
        divide(next, begin, int(middle), columns, depth + 1);
        divide(next + 1, int(middle), end, columns, depth + 1);
    }

    const Sample& s_;
    const int tries_, least_;
    Sequence draw_;
    std::vector<int> rows_, label_;
    const int classes_;
    std::vector<double> left_, whole_;
    std::vector<Node>* nodes_ = nullptr;
    int leaves_ = 0;
};

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
        : m_(forest), outputs_(outputs), task_(task), leaf_(forest.trees), mean_(forest.width), sums_(forest.width) {}

    // Scores a row by the table and the first `open` rows of the open block.
    void score(const std::uint8_t* codes, int open, double* f) {
        std::fill(mean_.begin(), mean_.end(), 0.0);
        for (int i = 0; i < m_.trees; ++i) {
            leaf_[i] = leaf_of(m_.nodes, m_.roots[i], codes);
            const float* known = m_.table + std::size_t(leaf_[i]) * m_.width;
            for (int k = 0; k < m_.width; ++k) sums_[k] = double(known[k]);
            const std::int32_t* leaves = m_.open_leaves + std::size_t(i) * kBlock;
            for (int s = 0; s < open; ++s)
                if (leaves[s] == leaf_[i]) add(s, sums_.data());
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

    // Makes the row that `score` was called with last number `at` of the open block.
    void learn(const double* y, double weight, int at) {
        for (int i = 0; i < m_.trees; ++i) m_.open_leaves[std::size_t(i) * kBlock + at] = leaf_[i];
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
    std::vector<int> leaf_;
    std::vector<double> mean_, sums_;
};

}  // namespace bomkl::automatic
