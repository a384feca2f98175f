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

// Walks many at a time, so that none waits for the memory of another: pair i is root(i) and the codes of row(i), leaf(i,
// number) takes its leaf.
template <class Root, class Row, class Leaf>
void walk(const Node* nodes, std::size_t n, Root&& root, Row&& row, Leaf&& leaf) {
    constexpr std::size_t kLanes = 8;
    std::int32_t at[kLanes];
    const std::uint8_t* codes[kLanes];
    std::size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        for (std::size_t l = 0; l < kLanes; ++l) at[l] = root(i + l), codes[l] = row(i + l);
        for (bool going = true; going;) {
            going = false;
            for (std::size_t l = 0; l < kLanes; ++l) {
                const Node node = nodes[at[l]];
                const std::int32_t inner = ~(node.split >> 31);  // all ones where it is no leaf
                const std::int32_t next = node.next + (codes[l][(node.split & inner) >> 8] > (node.split & 255));
                at[l] = (next & inner) | (at[l] & ~inner);
                going |= inner != 0;
            }
        }
        for (std::size_t l = 0; l < kLanes; ++l) leaf(i + l, nodes[at[l]].next);
    }
    for (; i < n; ++i) leaf(i, leaf_of(nodes, root(i), row(i)));
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
    const double* y;                    // (n, outputs) as the components learn them; whoever grows keeps it
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
    Booster(Sample sample, const Boosting& settings, std::uint64_t seed)
        : s_(std::move(sample)), with_(settings), draw_(seed, 0), rows_(s_.n), scratch_(s_.n), gradient_(s_.n),
          curvature_(s_.n), f_(std::size_t(s_.n) * s_.outputs), p_(f_.size()) {
        for (int j = 0; j < s_.d; ++j) {  // 64 bins tell enough; a column of fewer codes keeps them
            const auto [low, high] = std::minmax_element(s_.column(j), s_.column(j) + s_.n);
            if (s_.n == 0 || *low == *high) continue;
            columns_.push_back(j);
            shift_.push_back(*high < kBins ? 0 : *high < 2 * kBins ? 1 : 2);
            sizes_.push_back((*high >> shift_.back()) + 1);
        }
        const std::size_t kept = columns_.size();
        binned_.resize(std::size_t(s_.n) * kept);
        for (std::size_t c = 0; c < kept; ++c)
            for (int t = 0; t < s_.n; ++t) binned_[t * kept + c] = std::uint8_t(s_.column(columns_[c])[t] >> shift_[c]);
        start();
    }

    int trees() const { return with_.rounds * s_.outputs; }
    int grown() const { return int(out_.roots.size()); }

    void grow_one() {
        const int k = grown() % s_.outputs;
        if (k == 0)
            for (int t = 0; t < s_.n; ++t)
                means(f_.data() + std::size_t(t) * s_.outputs, s_.outputs, s_.task, p_.data() + std::size_t(t) * s_.outputs);
        tree(k);
    }

    const BoostedTrees& result() const { return out_; }

private:
    static constexpr int kBins = 64;
    typedef float Bin __attribute__((vector_size(16)));  // sums of gradients, curvatures and ones, added in one instruction
    enum { sum_g, sum_h, sum_n };
    struct Leaf {
        int node, begin, end, slot = 0;
        double G = 0, H = 0;
        double gain = 0;
        int used = 0, bin = 0;  // best split: which of the columns in use, and its last bin to the left
        int rows() const { return end - begin; }
    };

    void start() {
        std::vector<double>& base = out_.base;
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

    // Columns that this tree may use, in order, and where the bins of each begin in a histogram.
    void choose_columns() {
        used_.resize(columns_.size());
        std::iota(used_.begin(), used_.end(), 0);
        const int all = int(used_.size()), wanted = std::min(all, std::max(8, int(std::lround(with_.columns * all))));
        for (int i = 0; i < wanted && wanted < all; ++i) std::swap(used_[i], used_[i + draw_.below(all - i)]);
        used_.resize(wanted);
        std::sort(used_.begin(), used_.end());
        first_bin_.assign(1, 0);
        for (int c : used_) first_bin_.push_back(first_bin_.back() + sizes_[c]);
        histograms_.resize(std::size_t(with_.leaves) * first_bin_.back());
    }

    Bin* bins(int slot) { return histograms_.data() + std::size_t(slot) * first_bin_.back(); }

    // Row by row, so that one after another goes to different bins and need not wait for the sum before.
    void count(const Leaf& leaf) {
        Bin* all = bins(leaf.slot);
        std::fill(all, all + first_bin_.back(), Bin{});
        const std::size_t kept = columns_.size(), used = used_.size();
        for (int i = leaf.begin; i < leaf.end; ++i) {
            const int r = rows_[i];
            const std::uint8_t* codes = binned_.data() + r * kept;
            const Bin row{gradient_[r], curvature_[r], 1.0f, 0.0f};
            if (used == kept)
                for (std::size_t c = 0; c < used; ++c) all[first_bin_[c] + codes[c]] += row;
            else
                for (std::size_t c = 0; c < used; ++c) all[first_bin_[c] + codes[used_[c]]] += row;
        }
    }

    bool may_be_split(const Leaf& leaf) const { return leaf.rows() >= 2 * with_.least_rows && !used_.empty(); }

    void find_split(Leaf& leaf) {
        if (!may_be_split(leaf)) return;
        const double whole = leaf.G * leaf.G / (leaf.H + with_.ridge), ridge = with_.ridge;
        double to_beat = whole + kLeastGain;
        const Bin* all = bins(leaf.slot);
        const float least = float(with_.least_rows), most = float(leaf.rows() - with_.least_rows);
        for (std::size_t c = 0; c < used_.size(); ++c) {
            double g = 0, h = 0;
            float left = 0;
            for (int b = first_bin_[c]; b + 1 < first_bin_[c + 1]; ++b) {
                const Bin bin = all[b];
                if (bin[sum_n] == 0) continue;
                g += double(bin[sum_g]);
                h += double(bin[sum_h]);
                left += bin[sum_n];
                if (left < least) continue;
                if (left > most) break;
                const double rest = leaf.H - h;
                if (h < kLeastCurvature || rest < kLeastCurvature) continue;
                const double below = h + ridge, above = rest + ridge, other = leaf.G - g;
                const double top = g * g * above + other * other * below, bottom = below * above;
                if (top > to_beat * bottom) {
                    leaf.gain = top / bottom - whole, leaf.used = int(c), leaf.bin = b - first_bin_[c];
                    to_beat = top / bottom + kLeastGain;
                }
            }
        }
    }

    // Puts the rows of a leaf that go left before the others, each in their order; returns where the others begin.
    int divide(const Leaf& leaf) {
        const int c = used_[leaf.used];
        const std::uint8_t* codes = s_.column(columns_[c]);
        int left = leaf.begin, right = 0;
        for (int i = leaf.begin; i < leaf.end; ++i) {  // without a branch: it could not be foretold
            const int r = rows_[i];
            const bool goes_left = codes[r] >> shift_[c] <= leaf.bin;
            rows_[left] = r;
            scratch_[right] = r;
            left += goes_left;
            right += !goes_left;
        }
        std::copy_n(scratch_.begin(), right, rows_.begin() + left);
        return left;
    }

    void add_up(Leaf& leaf) const {
        for (int i = leaf.begin; i < leaf.end; ++i) leaf.G += gradient_[rows_[i]], leaf.H += curvature_[rows_[i]];
    }

    void tree(int k) {
        pull(k);
        choose_columns();
        std::iota(rows_.begin(), rows_.end(), 0);
        std::vector<Node>& nodes = out_.nodes;
        const int root = int(nodes.size());
        nodes.push_back({-1, 0});
        leaves_.assign(1, Leaf{root, 0, s_.n});
        add_up(leaves_[0]);
        count(leaves_[0]);
        find_split(leaves_[0]);
        while (int(leaves_.size()) < with_.leaves) {
            const auto best =
                std::max_element(leaves_.begin(), leaves_.end(), [](const Leaf& a, const Leaf& b) { return a.gain < b.gain; });
            if (best->gain <= 0) break;
            const Leaf old = *best;
            const int middle = divide(old), next = int(nodes.size()), c = used_[old.used];
            nodes[old.node] = {columns_[c] * 256 + ((old.bin + 1) << shift_[c]) - 1, next};
            nodes.insert(nodes.end(), 2, {-1, 0});
            Leaf left{next, old.begin, middle}, right{next + 1, middle, old.end};
            const bool left_is_smaller = left.rows() <= right.rows();
            Leaf& small = left_is_smaller ? left : right;
            Leaf& large = left_is_smaller ? right : left;
            add_up(small);
            large.G = old.G - small.G;
            large.H = old.H - small.H;
            small.slot = int(leaves_.size());
            large.slot = old.slot;
            if (may_be_split(large) && small.slot + 1 < with_.leaves) {
                count(small);
                for (Bin *a = bins(large.slot), *end = a + first_bin_.back(), *b = bins(small.slot); a < end; ++a, ++b)
                    *a -= *b;
                find_split(small);
                find_split(large);
            }
            *best = left;
            leaves_.push_back(right);
        }
        for (const Leaf& leaf : leaves_) {
            const double value = std::clamp(-with_.rate * leaf.G / (leaf.H + with_.ridge), -kLargestStep, kLargestStep);
            nodes[leaf.node].next = std::int32_t(out_.values.size());
            out_.values.push_back(float(value));
            for (int i = leaf.begin; i < leaf.end; ++i) f_[std::size_t(rows_[i]) * s_.outputs + k] += double(float(value));
        }
        out_.roots.push_back(root);
        out_.outputs.push_back(k);
    }

    static constexpr double kLeastCurvature = 1e-3, kLeastGain = 1e-9, kLargestStep = 1e6;
    const Sample s_;
    const Boosting with_;
    Sequence draw_;
    std::vector<int> rows_, scratch_;
    std::vector<float> gradient_, curvature_;
    std::vector<double> f_, p_;
    std::vector<int> columns_, shift_, sizes_;  // columns that are not constant, what turns their codes into bins, and how many
    std::vector<std::uint8_t> binned_;          // (n, those columns)
    std::vector<int> used_, first_bin_;
    std::vector<Bin> histograms_;
    std::vector<Leaf> leaves_;
    BoostedTrees out_;
};

// scores (n, outputs): the base, then every tree in turn.
inline void boosted_scores(const Node* nodes, const std::int32_t* roots, const std::int32_t* outputs, std::size_t trees,
                           const float* values, const double* base, std::size_t n_outputs, const std::uint8_t* codes,
                           std::size_t n, std::size_t d, double* scores) {
    for (std::size_t t = 0; t < n; ++t) std::copy_n(base, n_outputs, scores + t * n_outputs);
    if (n == 1) {
        walk(
            nodes, trees, [&](std::size_t i) { return roots[i]; }, [&](std::size_t) { return codes; },
            [&](std::size_t i, std::int32_t leaf) { scores[outputs[i]] += double(values[leaf]); });
        return;
    }
    for (std::size_t i = 0; i < trees; ++i)
        walk(
            nodes, n, [&](std::size_t) { return roots[i]; }, [&](std::size_t t) { return codes + t * d; },
            [&](std::size_t t, std::int32_t leaf) { scores[t * n_outputs + outputs[i]] += double(values[leaf]); });
}

// ---------------------------------------------------------------- forests whose leaves go on learning

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

    // Columns that were not constant on the way down are known_[from, from + count); what is done to them stays behind those.
    void divide(int node, int begin, int end, std::size_t from, std::size_t count, int depth) {
        int best_column = -1, best_cut = 0;
        const std::size_t own = from + count;
        if (end - begin >= 2 * least_ && end - begin > 1 && depth < kDeepest && !pure(begin, end)) {
            known_.resize(own);
            known_.insert(known_.end(), known_.begin() + from, known_.begin() + own);
            gather(begin, end);
            double best = -1;
            int tried = 0;
            for (std::size_t i = 0; i < count && tried < tries_;) {
                int* columns = known_.data() + own;
                std::swap(columns[i], columns[i + draw_.below(int(count - i))]);
                const std::uint8_t* codes = s_.column(columns[i]);
                std::uint8_t low = 255, high = 0;
                for (int r = begin; r < end; ++r) {
                    const std::uint8_t code = codes_[r - begin] = codes[rows_[r]];
                    low = std::min(low, code);
                    high = std::max(high, code);
                }
                if (low == high) {  // constant from here on down
                    columns[i] = columns[--count];
                    continue;
                }
                const int cut = low + draw_.below(high - low);
                const double value = worth(cut, begin, end);
                if (value > best) best = value, best_column = columns[i], best_cut = cut;
                ++tried;
                ++i;
            }
        }
        if (best_column < 0) return make_leaf(node, begin, end);
        const std::uint8_t* codes = s_.column(best_column);
        int middle = begin, right = 0;
        for (int i = begin; i < end; ++i) {
            const int r = rows_[i];
            const bool goes_left = codes[r] <= best_cut;
            rows_[middle] = r;
            scratch_[right] = r;
            middle += goes_left;
            right += !goes_left;
        }
        std::copy_n(scratch_.begin(), right, rows_.begin() + middle);
        const int next = int(nodes.size());
        nodes[node] = {best_column * 256 + best_cut, next};
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
