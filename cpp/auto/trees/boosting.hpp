// Boosted trees.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "auto/components/losses.hpp"
#include "auto/trees/tree_sample.hpp"
#include "auto/trees/trees.hpp"

namespace bomkl::automatic {

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

// Grows trees in steps, of which each takes about as long as a look at a few million codes; whoever makes one may fill in the
// rows of the sample before the first step.
class Booster {
public:
    Booster(Sample sample, const Boosting& settings, std::uint64_t seed)
        : s_(std::move(sample)), with_(settings), draw_(seed, 0), rows_(s_.n), scratch_(s_.n),
          f_(std::size_t(s_.n) * s_.outputs), p_(f_.size()) {}

    int trees() const { return with_.rounds * s_.outputs; }
    int grown() const { return int(out_.roots.size()); }
    Sample& sample() { return s_; }

    void grow_one() {
        for (const int before = grown(); grown() == before;) step();
    }

    void step() {
        switch (phase_) {
            case Phase::look: look_at_column(); break;
            case Phase::bin: bin_column(); break;
            case Phase::pull: pull_some(); break;
            case Phase::count: count_some(); break;
            case Phase::split: split_best();
        }
    }

    // About how much of all the work is done, from 0 to 1.
    double share() const {
        const double leaves = phase_ == Phase::split ? double(leaves_.size()) / with_.leaves : 0;
        return trees() ? std::min(1.0, (grown() + 0.9 * leaves) / trees()) : 1.0;
    }

    std::size_t bytes() const {
        return s_.columns.size() + records_.size() + 8 * rows_.size() + 16 * f_.size() + sizeof(Bin) * histograms_.size() +
               sizeof(Node) * out_.nodes.size() + sizeof(float) * out_.values.size();
    }

    const BoostedTrees& result() const { return out_; }

private:
    static constexpr int kBins = 64;
    typedef float Bin __attribute__((vector_size(16)));  // sums of gradients, curvatures and ones, added in one instruction
    enum { sum_g, sum_h, sum_n };
    struct Derivatives {
        float gradient, curvature;
    };
    struct Leaf {
        int node, begin, end, slot = 0;
        double G = 0, H = 0;
        double gain = 0;
        int used = 0, bin = 0;  // best split: which of the columns in use, and its last bin to the left
        int rows() const { return end - begin; }
    };

    enum class Phase { look, bin, pull, count, split };

    // 64 bins tell which column to split and about where; a column of fewer codes keeps them.
    void look_at_column() {
        if (at_ < s_.d) {
            const int j = at_++;
            const auto [low, high] = std::minmax_element(s_.column(j), s_.column(j) + s_.n);
            if (s_.n == 0 || *low == *high) return;
            columns_.push_back(j);
            shift_.push_back(*high < kBins ? 0 : *high < 2 * kBins ? 1 : 2);
            sizes_.push_back((*high >> shift_.back()) + 1);
        } else {
            stride_ = sizeof(Derivatives) + columns_.size();
            records_.resize(std::size_t(s_.n) * stride_);
            go_to(Phase::bin);
        }
    }

    void bin_column() {
        const std::size_t kept = columns_.size(), c = std::size_t(at_++);
        if (c < kept) {
            for (int t = 0; t < s_.n; ++t) codes(t)[c] = std::uint8_t(s_.column(columns_[c])[t] >> shift_[c]);
        } else {
            start();
            go_to(Phase::pull);
        }
    }

    void go_to(Phase phase) {
        phase_ = phase;
        at_ = 0;
    }

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

    // Gradients of some rows; a round of trees, one an output, has the means from before it.
    void pull_some() {
        const int k = grown() % s_.outputs, end = std::min(s_.n, at_ + kPiece / s_.outputs + 1);
        for (int t = at_; t < end; ++t) {
            const std::size_t first = std::size_t(t) * s_.outputs, at = first + k;
            if (k == 0) means(f_.data() + first, s_.outputs, s_.task, p_.data() + first);
            double g = p_[at] - s_.y[at], h = 1;
            if (s_.task == Task::huber) g = std::clamp(g, -kHuber, kHuber);
            if (!is_regression(s_.task)) h = std::max(p_[at] * (1 - p_[at]), 1e-6);
            const Derivatives of{float(s_.weight[t] * g), float(s_.weight[t] * h)};
            std::memcpy(record(t), &of, sizeof(Derivatives));
        }
        at_ = end;
        if (end == s_.n) plant();
    }

    std::uint8_t* record(int t) { return records_.data() + std::size_t(t) * stride_; }
    std::uint8_t* codes(int t) { return record(t) + sizeof(Derivatives); }
    Derivatives derivatives(int t) {
        Derivatives found;
        std::memcpy(&found, record(t), sizeof(Derivatives));
        return found;
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

    // Row by row, so that one after another goes to different bins and need not wait for the sum before. Rows of a small leaf
    // lie far apart: each is fetched a while before it is needed.
    void count(Leaf& leaf, int begin, int end) {
        Bin* all = bins(leaf.slot);
        const std::size_t used = used_.size();
        const bool every = used == columns_.size();
        double G = leaf.G, H = leaf.H;
        for (int i = begin; i < end; ++i) {
            if (i + kAhead < end) __builtin_prefetch(record(rows_[i + kAhead]));
            const Derivatives of = derivatives(rows_[i]);
            const std::uint8_t* from = codes(rows_[i]);
            G += double(of.gradient), H += double(of.curvature);
            const Bin row{of.gradient, of.curvature, 1.0f, 0.0f};
            if (every)
                for (std::size_t c = 0; c < used; ++c) all[first_bin_[c] + from[c]] += row;
            else
                for (std::size_t c = 0; c < used; ++c) all[first_bin_[c] + from[used_[c]]] += row;
        }
        leaf.G = G, leaf.H = H;
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

    // The last code that goes left: the best of those in the bins on both sides of the best split, or halfway to the next code.
    int best_cut(const Leaf& leaf) {
        const int c = used_[leaf.used], shift = shift_[c];
        const Bin* column = bins(leaf.slot) + first_bin_[leaf.used];
        const std::uint8_t* codes = s_.column(columns_[c]);
        int after = leaf.bin + 1;  // the next bin with rows, of which there is one
        while (column[after][sum_n] == 0) ++after;
        if (shift == 0) return (leaf.bin + after - 1) / 2;
        const int low = leaf.bin << shift, end = (after + 1) << shift;
        int near = 0;
        for (int i = leaf.begin; i < leaf.end; ++i) {  // branch-free: a processor would often mispredict
            const int r = rows_[i], code = codes[r];
            scratch_[near] = r;
            near += (code >= low) & (code < end);
        }
        std::array<Bin, 256> fine{};
        for (int i = 0; i < near; ++i) {
            const Derivatives of = derivatives(scratch_[i]);
            fine[codes[scratch_[i]]] += Bin{of.gradient, of.curvature, 1.0f, 0.0f};
        }
        double g = 0, h = 0, to_beat = 0;
        float left = 0;
        for (int b = 0; b < leaf.bin; ++b) {
            g += double(column[b][sum_g]);
            h += double(column[b][sum_h]);
            left += column[b][sum_n];
        }
        const float least = float(with_.least_rows), most = float(leaf.rows() - with_.least_rows);
        int best = ((leaf.bin + 1) << shift) - 1;
        for (int code = low; code + 1 < end; ++code) {
            if (fine[code][sum_n] == 0) continue;
            g += double(fine[code][sum_g]);
            h += double(fine[code][sum_h]);
            left += fine[code][sum_n];
            const double rest = leaf.H - h, other = leaf.G - g;
            if (left < least || left > most || h < kLeastCurvature || rest < kLeastCurvature) continue;
            const double gain = g * g / (h + with_.ridge) + other * other / (rest + with_.ridge);
            if (gain > to_beat + kLeastGain) to_beat = gain, best = code;
        }
        int next = best + 1;
        while (next + 1 < end && fine[next][sum_n] == 0) ++next;
        return (best + next - 1) / 2;
    }

    void add_up(Leaf& leaf) {
        for (int i = leaf.begin; i < leaf.end; ++i) {
            const Derivatives of = derivatives(rows_[i]);
            leaf.G += double(of.gradient), leaf.H += double(of.curvature);
        }
    }

    // Makes two leaves of one. Only the smaller of them is counted: what the larger has is the rest.
    void split(Leaf& leaf) {
        std::vector<Node>& nodes = out_.nodes;
        const Leaf old = leaf;
        const int cut = best_cut(old), next = int(nodes.size());
        const std::uint8_t* codes = s_.column(columns_[used_[old.used]]);
        const int middle = divide_rows(rows_, old.begin, old.end, scratch_, [&](int r) { return codes[r] <= cut; });
        nodes[old.node] = {columns_[used_[old.used]] * 256 + cut, next};
        nodes.insert(nodes.end(), 2, {-1, 0});
        Leaf left{next, old.begin, middle}, right{next + 1, middle, old.end};
        const bool left_is_smaller = left.rows() <= right.rows();
        Leaf& small = left_is_smaller ? left : right;
        Leaf& large = left_is_smaller ? right : left;
        small.slot = int(leaves_.size());
        large.slot = old.slot;
        const bool goes_on = may_be_split(large) && small.slot + 1 < with_.leaves;
        if (goes_on) {
            std::fill(bins(small.slot), bins(small.slot) + first_bin_.back(), Bin{});
            count(small, small.begin, small.end);
        } else {
            add_up(small);
        }
        large.G = old.G - small.G;
        large.H = old.H - small.H;
        if (goes_on) {
            for (Bin *a = bins(large.slot), *end = a + first_bin_.back(), *b = bins(small.slot); a < end; ++a, ++b) *a -= *b;
            find_split(small);
            find_split(large);
        }
        leaf = left;
        leaves_.push_back(right);
    }

    // Begins a tree that is one leaf.
    void plant() {
        const auto leaves = std::size_t(with_.leaves);  // where memory runs out, a tree is whole or not there at all
        leaves_.reserve(leaves);
        out_.nodes.reserve(out_.nodes.size() + 2 * leaves);
        out_.values.reserve(out_.values.size() + leaves);
        out_.roots.reserve(out_.roots.size() + 1);
        out_.outputs.reserve(out_.outputs.size() + 1);
        choose_columns();
        std::iota(rows_.begin(), rows_.end(), 0);
        root_ = int(out_.nodes.size());
        leaves_.assign(1, Leaf{root_, 0, s_.n});
        out_.nodes.push_back({-1, 0});
        std::fill(bins(0), bins(0) + first_bin_.back(), Bin{});
        go_to(Phase::count);
    }

    void count_some() {
        Leaf& root = leaves_[0];
        const int end = std::min(s_.n, at_ + kPiece * 8 / (int(used_.size()) + 1) + 1);
        count(root, at_, end);
        at_ = end;
        if (end < s_.n) return;
        find_split(root);
        go_to(Phase::split);
    }

    void split_best() {
        const auto best =
            std::max_element(leaves_.begin(), leaves_.end(), [](const Leaf& a, const Leaf& b) { return a.gain < b.gain; });
        if (int(leaves_.size()) < with_.leaves && best->gain > 0)
            split(*best);
        else
            finish();
    }

    void finish() {
        const int k = grown() % s_.outputs;
        for (const Leaf& leaf : leaves_) {
            const double value = std::clamp(-with_.rate * leaf.G / (leaf.H + with_.ridge), -kLargestStep, kLargestStep);
            out_.nodes[leaf.node].next = std::int32_t(out_.values.size());
            out_.values.push_back(float(value));
            for (int i = leaf.begin; i < leaf.end; ++i) f_[std::size_t(rows_[i]) * s_.outputs + k] += double(float(value));
        }
        out_.roots.push_back(root_);
        out_.outputs.push_back(k);
        go_to(Phase::pull);
    }

    static constexpr double kLeastCurvature = 1e-3, kLeastGain = 1e-9, kLargestStep = 1e6;
    static constexpr int kAhead = 16;       // rows between fetching a record and using it
    static constexpr int kPiece = 1 << 18;  // rows that a step looks at, of one output
    Sample s_;
    const Boosting with_;
    Sequence draw_;
    Phase phase_ = Phase::look;
    int at_ = 0, root_ = 0;  // how far the phase is, and the first node of the tree
    std::vector<int> rows_, scratch_;
    std::vector<double> f_, p_;
    std::vector<int> columns_, shift_, sizes_;  // columns that are not constant, what turns their codes into bins, and how many
    std::vector<std::uint8_t> records_;         // of each row its derivatives, then its bins of those columns
    std::size_t stride_ = 0;                    // bytes of a record
    std::vector<int> used_, first_bin_;
    std::vector<Bin> histograms_;
    std::vector<Leaf> leaves_;
    BoostedTrees out_;
};

}  // namespace bomkl::automatic
