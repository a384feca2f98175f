// A Newton regression that owns its arrays.
//
// A copy shares them: while a block is open, rows are only added behind those that are there, and what a full block changes is
// copied first if another one has it, too. So a copy is cheap, may learn while the original stays as it is, and can be dropped.
// Only the latest copy may learn.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "auto/components/newton.hpp"
#include "auto/limits.hpp"

namespace bomkl::automatic {

inline constexpr int kFewRows = 8;  // fewer rows than this are scored one by one against the open block

class Regression {
public:
    Regression(int rank, int tiles, int outputs, const double* w, const float* P, const double* trace)
        : posterior_(
              std::make_shared<Posterior>(w, outputs * std::size_t(tiles) * kTile, P, tiles * std::size_t(rank) * kTile)),
          block_(std::make_shared<Block>(tiles, outputs)), rank_(rank), tiles_(tiles),
          outputs_(outputs), trace_{trace[0], trace[1]} {}

    int rank() const { return rank_; }
    int tiles() const { return tiles_; }
    int outputs() const { return outputs_; }
    int open() const { return open_; }
    std::size_t width() const { return std::size_t(tiles_) * kTile; }
    double unchecked() const { return unchecked_; }  // weight of the rows since the covariance was known to be sound
    std::size_t bytes() const {
        return sizeof(double) * (posterior_->w.size() + kBlock * (kBlock + 1 + outputs_)) +
               sizeof(float) * (posterior_->P.size() + 3 * kBlock * width());
    }

    // A copy that shares nothing: both may learn.
    Regression apart() const {
        Regression made = *this;
        made.posterior_ = std::make_shared<Posterior>(*posterior_);
        made.block_ = std::make_shared<Block>(*block_);
        made.lines_.reset();
        return made;
    }

    // Arrays as the functions on blocks take them. Only what is not shared may be changed.
    Component arrays() {
        return {rank_,
                tiles_,
                outputs_,
                posterior_->w.data(),
                posterior_->P.data(),
                block_->rows.data(),
                block_->U.data(),
                block_->M.data(),
                block_->c.data(),
                block_->a.data(),
                block_->V.data(),
                trace_.data()};
    }
    Component arrays() const { return const_cast<Regression*>(this)->arrays(); }

    // All that it has learned; of the open block, the rows that are there.
    template <class Archive>
    void archive(Archive& a) {
        const std::size_t o = outputs_, d = width(), r = rank_, q = tiles_;
        std::vector<double> w(posterior_->w), trace(trace_.begin(), trace_.end()), M, c, steps;
        std::vector<float> P(posterior_->P.data(), posterior_->P.data() + posterior_->P.size()), rows, U, V;
        const Component m = arrays();
        const auto n_open = a.saving() ? std::size_t(open_) : 0;
        rows.assign(m.rows, m.rows + n_open * d), U.assign(m.U, m.U + n_open * d);
        c.assign(m.c, m.c + n_open), steps.assign(m.a, m.a + n_open * o);
        for (std::size_t s = 0; s < n_open; ++s)
            for (std::size_t t = 0; t < n_open; ++t) M.push_back(t > s ? m.M[s * kBlock + t] : 0.0);
        for (std::size_t i = 0; i < q; ++i) V.insert(V.end(), m.V + i * kBlock * kTile, m.V + (i * kBlock + n_open) * kTile);
        a.array("w", w, {o, d});
        a.array("P", P, {q, r, std::size_t(kTile)});
        a.array("trace", trace, {2});
        a.number("unchecked", unchecked_, kSums);
        a.array("rows", rows, {kAnyLength, d});
        const std::size_t n = rows.size() / d;
        a.require("rows", n < std::size_t(kBlock), "those of less than a block");
        a.array("U", U, {n, d});
        a.array("M", M, {n, n});
        a.array("c", c, {n});
        a.array("a", steps, {n, o});
        a.array("V", V, {q, n, std::size_t(kTile)});
        if (a.saving()) return;
        Regression made(rank_, tiles_, outputs_, w.data(), P.data(), trace.data());
        Component to = made.arrays();
        std::copy(rows.begin(), rows.end(), to.rows), std::copy(U.begin(), U.end(), to.U);
        std::copy(c.begin(), c.end(), to.c), std::copy(steps.begin(), steps.end(), to.a);
        for (std::size_t s = 0; s < n; ++s) std::copy_n(M.data() + s * n, n, to.M + s * kBlock);
        for (std::size_t i = 0; i < q; ++i) std::copy_n(V.data() + i * n * kTile, n * kTile, to.V + i * kBlock * kTile);
        made.open_ = int(n);
        made.unchecked_ = unchecked_;
        *this = std::move(made);
    }

    void set_covariance(const float* P, double trace) {
        own_posterior();
        std::copy_n(P, posterior_->P.size(), posterior_->P.data());
        trace_[1] = trace;
    }
    void set_checked() { unchecked_ = 0; }

    // Scores n rows of features, each just before it is learned; `seen` rows came before them.
    void learn(const Primitives<float>& with, const float* F, const double* y, const double* weight, std::size_t n, Task task,
               double loosen, std::int64_t seen, double* scores) {
        int to_boundary = kBlock - int(seen % kBlock);
        for (std::size_t done = 0; done < n;) {
            const int fresh = int(std::min<std::size_t>(to_boundary, n - done));
            const auto part = [&](const auto* of) { return of + done * outputs_; };
            if (fresh < kFewRows)
                for (int i = 0; i < fresh; ++i) {
                    double* f = scores + (done + i) * outputs_;
                    const float* x = F + (done + i) * width();
                    score(with, x, f);
                    learn_scored(with, x, f, part(y) + i * outputs_, weight[done + i], task, loosen);
                }
            else
                learn_many(with, F + done * width(), part(y), weight + done, fresh, task, loosen, scores + done * outputs_);
            for (int i = 0; i < fresh; ++i) unchecked_ += std::max(weight[done + i], 1.0);
            done += fresh;
            to_boundary -= fresh;
            if (to_boundary == 0) {
                close(with);
                to_boundary = kBlock;
            }
        }
    }

    // Scores features as the next row of the open block. Whoever else adds rows to it must wait meanwhile.
    void score(const Primitives<float>& with, const float* x, double* f) const {
        double column[kBlock];
        score_next(with, x, column, f);
    }

    // Means with every row learned, (outputs, width).
    const std::vector<double>& means() const {
        if (!means_) {
            auto made = std::make_shared<Means>();
            made->of_features.resize(outputs_ * width());
            current_means(arrays(), open_, made->of_features.data());
            means_ = std::move(made);
        }
        return means_->of_features;
    }

    // The same made into weights of what the features are made from: `fold` turns the means of an output into n weights.
    template <class Fold>
    const std::vector<double>& folded_means(std::size_t n, const Fold& fold) const {
        means();
        std::vector<double>& folded = means_->folded;
        if (folded.empty()) {
            folded.resize(outputs_ * n);
            for (int k = 0; k < outputs_; ++k) fold(means_->of_features.data() + k * width(), folded.data() + k * n);
        }
        return folded;
    }

    // Makes the rows of the open block part of the posterior.
    void close(const Primitives<float>& with) {
        if (open_ > 0) {
            const std::shared_ptr<Posterior> before = posterior_;
            if (before.use_count() > 2) posterior_ = std::make_shared<Posterior>(before->w, before->P.size());
            Component m = arrays();
            close_block(with, m, open_, before->P.data());
        }
        begin_block();
    }

    // Makes room for one more class, which starts at a constant score; of two classes, the score told the second from the
    // first.
    void add_class(const Primitives<float>& with, double log_odds) {
        close(with);
        std::vector<double> w(posterior_->w);
        if (outputs_ == 1) {
            w.resize(2 * width());
            for (std::size_t j = 0; j < width(); ++j) w[width() + j] = 0.5 * w[j];
            for (std::size_t j = 0; j < width(); ++j) w[j] *= -0.5;
        }
        w.resize(w.size() + width());
        w[w.size() - width() + rank_ - 1] = log_odds;
        outputs_ = int(w.size() / width());
        posterior_ = std::make_shared<Posterior>(w.data(), w.size(), posterior_->P.data(), posterior_->P.size());
        block_ = std::make_shared<Block>(tiles_, outputs_);
    }

private:
    struct Posterior {  // as of the start of the open block
        Posterior(const double* w, std::size_t n, const float* P, std::size_t size) : w(w, w + n), P(size) {
            std::copy_n(P, size, this->P.data());
        }
        Posterior(const std::vector<double>& w, std::size_t size) : w(w), P(size, Buffer<float>::Raw()) {}
        std::vector<double> w;
        Buffer<float> P;
    };
    struct Block {
        Block(int tiles, int outputs)
            : rows(std::size_t(kBlock) * tiles * kTile, Buffer<float>::Raw()), U(rows.size(), Buffer<float>::Raw()),
              V(rows.size()), M(kBlock * kBlock), c(kBlock), a(std::size_t(kBlock) * outputs) {}
        Buffer<float> rows, U, V;
        std::vector<double> M, c, a;
    };

    struct Means {
        std::vector<double> of_features, folded;
    };

    void own_posterior() {
        if (posterior_.use_count() > 1) posterior_ = std::make_shared<Posterior>(*posterior_);
        means_.reset();
    }

    void begin_block() {
        if (block_.use_count() > 1) block_ = std::make_shared<Block>(tiles_, outputs_);
        if (lines_.use_count() > 1) lines_.reset();
        open_ = 0;
        means_.reset();
    }

    // U^T of the open block, packed [16 rows][rank][16], so that few rows take little time.
    static int lines_of(int rows) { return (rows + kLanes - 1) / kLanes; }
    float* line_of(int row) const { return lines_->data() + std::size_t(row / kLanes) * rank_ * kLanes; }

    void need_lines() const {
        if (lines_) return;
        lines_ = std::make_shared<Buffer<float>>(std::size_t(rank_) * kBlock);
        for (int s = 0; s < open_; s += kLanes)
            transpose(block_->U.data() + s * width(), std::min(kLanes, open_ - s), rank_, width(), line_of(s), kLanes);
    }

    void score_next(const Primitives<float>& with, const float* x, double* column, double* f) const {
        need_lines();
        float product[kBlock];
        with.inner_lines(x, width(), 1, rank_, lines_->data(), lines_of(open_), product, kBlock);
        for (int s = 0; s < open_; ++s) column[s] = double(product[s]);
        score_row(with, arrays(), open_, x, column, f);
        std::copy_n(column, open_, column_.data());
    }

    // Learns the row that `score` was called with last.
    void learn_scored(const Primitives<float>& with, const float* x, const double* f, const double* y, double weight, Task task,
                      double loosen) {
        Component m = arrays();
        const int u = open_;
        float *row = m.rows + u * width(), *U = m.U + u * width(), *line = line_of(u), own[kLanes];
        std::copy_n(x, width(), row);
        multiply(with, row, width(), 1, rank_, m.P, tiles_, U, width());
        for (int k = 0; k < rank_; ++k) line[k * kLanes + u % kLanes] = U[k];
        with.inner_lines(x, width(), 1, rank_, line, 1, own, kBlock);
        std::vector<double> g(outputs_), p(outputs_);
        learn_row(with, m, u, column_.data(), double(own[u % kLanes]), f, y, weight, task, loosen, g.data(), p.data());
        open_ = u + 1;
        means_.reset();
    }

    void learn_many(const Primitives<float>& with, const float* F, const double* y, const double* weight, int fresh, Task task,
                    double loosen, double* scores) {
        lines_.reset();
        means_.reset();
        Component m = arrays();
        const int last = open_ + fresh;
        alignas(64) float G[kBlock * kTile];  // x_s P x_u in row s and the column of u
        std::vector<double> g(outputs_), p(outputs_);
        std::copy_n(F, fresh * width(), m.rows + open_ * width());
        multiply(with, m.rows + open_ * width(), width(), fresh, rank_, m.P, tiles_, m.U + open_ * width(), width());
        Buffer<float> line(std::size_t(rank_) * kLanes);
        for (int begin = 0; begin < fresh; begin += kLanes) {
            const int some = std::min(kLanes, fresh - begin);
            transpose(m.rows + (open_ + begin) * width(), some, rank_, width(), line.data(), kLanes);
            with.inner_lines(m.U, width(), open_ + begin + some, rank_, line.data(), 1, G + begin, kTile);
        }
        for (int u = open_; u < last; ++u) {
            const int row = u - open_;
            double column[kBlock] = {};  // x_s P_s x_u for s < u
            for (int s = 0; s < u; ++s) column[s] = double(G[s * kTile + row]);
            double* f = scores + row * outputs_;
            score_row(with, m, u, m.rows + u * width(), column, f);
            learn_row(with, m, u, column, double(G[u * kTile + row]), f, y + row * outputs_, weight[row], task, loosen,
                      g.data(), p.data());
        }
        open_ = last;
    }

    std::shared_ptr<Posterior> posterior_;
    std::shared_ptr<Block> block_;
    mutable std::shared_ptr<Buffer<float>> lines_;
    mutable std::shared_ptr<Means> means_;         // never changes once made, but that the folded ones come later
    mutable std::array<double, kBlock> column_{};  // x_s P_s x of the row scored last
    int rank_, tiles_, outputs_, open_ = 0;
    std::array<double, 2> trace_;  // the largest that forgetting may bring the covariance to, and that as of the last row
    double unchecked_ = 0;
};

}  // namespace bomkl::automatic
