// Scores of rows under one state of the model: checked, combined, never a number that is none.
#pragma once

#include <cstdio>
#include <limits>

#include "budget/feature_scores.hpp"
#include "budget/growing_scores.hpp"
#include "budget/listed_scores.hpp"

namespace bomkl {

template <class T>
class Scorer {
public:
    Scorer(const Config& config, const Primitives<T>& primitives, KernelCallback<T> callback, State<T>& state)
        : config_(config), m_(int(config.kernels.size())), n_expansions_(config.n_outputs * m_), state_(state),
          scores_(scores_of_rule(primitives, std::move(callback))), f_(n_expansions_), relative_(n_expansions_),
          total_(config.n_outputs) {}

    // Looks for signals after so much work, some milliseconds; a call of one row never does.
    class Pauses {
    public:
        Pauses(const BlockScores<T>& scores, const std::function<void()>& pause, bool one_row)
            : work_per_row_(one_row ? 0 : scores.work_per_row()), pause_(pause) {}
        void row_done() {
            work_ += work_per_row_;
            if (work_ < kWorkPerPause) return;
            work_ = 0;
            pause_();
        }

    private:
        static constexpr std::int64_t kWorkPerPause = 1 << 20;
        const std::int64_t work_per_row_;
        const std::function<void()>& pause_;
        std::int64_t work_ = 0;
    };

    BlockScores<T>& block_scores() { return *scores_; }
    const BlockScores<T>& block_scores() const { return *scores_; }
    const std::vector<double>& f() const { return f_; }
    const double* relative_weights_of(int c) const { return relative_.data() + c * m_; }

    // Scores of rows, nothing learned. Per kernel: out[row][expansion]; combined: out[row][output].
    void score(const Batch<T>& batch, bool per_kernel, double* out, int n_threads, const std::function<void()>& pause) {
        for (int c = 0; c < config_.n_outputs; ++c) weigh(c);
        for (std::int64_t start = 0; start < batch.n;) {
            const int n = load_block(batch, start, n_threads, pause);
            Pauses pauses(*scores_, pause, batch.n == 1);
            for (int t = 0; t < n; ++t) {
                score_row(t, start + t);
                double* row_out = out + (start + t) * (per_kernel ? n_expansions_ : config_.n_outputs);
                for (int c = 0; c < config_.n_outputs; ++c)
                    if (per_kernel)
                        std::copy_n(f_.data() + c * m_, m_, row_out + c * m_);
                    else
                        row_out[c] = combine(c, nullptr);
                pauses.row_done();
            }
            if (batch.n > 1) pause();
            start += n;
        }
    }

    // The next rows from `start` on, scored against what is stored; returns how many.
    int load_block(const Batch<T>& batch, std::int64_t start, int n_threads, const std::function<void()>& pause) {
        const int n = int(std::min<std::int64_t>(scores_->block_rows(n_threads), batch.n - start));
        scores_->load_block(batch, start, n);
        for (int t = 0; t < n; ++t)
            if (const double square = scores_->block().squared_norm_of(t); !(square < safe_norm_))
                check_range(square, start + t);
        scores_->score_block(n_threads, pause);
        return n;
    }

    // f of every kernel on row t of the block, which is row `number` of X.
    void score_row(int t, std::int64_t number) {
        scores_->score_row(t, f_.data());
        const double limit = double(std::numeric_limits<T>::max()) * 1e-6;  // a step from here is still finite
        for (int e = 0; e < n_expansions_; ++e)
            if (!(std::fabs(f_[e]) < limit))
                throw NotFiniteError(
                    "The score of kernel " + config_.kernel_names[e % m_] + " on row " + std::to_string(number) +
                    " of X overflows " + dtype_name() + " (" + short_text(f_[e]) +
                    "): the steps diverge. Scale the columns, take a smaller step, or set normalize_step=True.");
    }

    // The weights of one output as they are now, for combine and select.
    void weigh(int c) { total_[c] = relative_weights(state_.log_weights.data() + c * m_, m_, relative_.data() + c * m_); }

    // Weighted score or vote of one output; with `selected`, of the selected kernels alone.
    double combine(int c, const std::vector<char>* selected) const {
        double score = 0;
        for (int i = 0; i < m_; ++i) {
            if (selected && !(*selected)[i]) continue;
            const double f = f_[c * m_ + i];
            score += relative_[c * m_ + i] / total_[c] * (config_.vote ? (f >= 0 ? 1.0 : -1.0) : f);
        }
        return score;
    }

    // No kernel value between rows that pass this can overflow.
    void check_range(double square, std::int64_t row) const {
        const double limit = range_limit();
        if (!(square < limit))
            throw NotFiniteError("X must be smaller: the squared norm of row " + std::to_string(row) + " is " +
                                 short_text(square) + ", too large for " + dtype_name() + ". Scale the columns.");
        for (int i = 0; i < m_; ++i) {
            if (config_.kernels[i].kind == kCallable) continue;
            const double value = largest_kernel_value(config_.kernels[i], square);
            if (!(value < limit))
                throw NotFiniteError("The kernel " + config_.kernel_names[i] + " overflows " + dtype_name() + " on row " +
                                     std::to_string(row) + " of X: k(x, x) is " + short_text(value) +
                                     ". Scale the columns, or use a smaller degree, gamma or coef0.");
        }
    }
    static std::string short_text(double number) {
        char text[32];
        std::snprintf(text, sizeof text, "%.3g", number);
        return text;
    }

private:
    // The way in which the rule holds its expansions.
    std::unique_ptr<BlockScores<T>> scores_of_rule(const Primitives<T>& primitives, KernelCallback<T> callback) {
        if (FeatureScores<T>::serves(config_)) return std::make_unique<FeatureScores<T>>(config_, primitives, state_);
        if (GrowingScores<T>::serves(config_)) return std::make_unique<GrowingScores<T>>(config_, primitives, state_);
        return std::make_unique<ListedScores<T>>(config_, primitives, std::move(callback), state_);
    }

    // A squared norm up to which no kernel value can overflow.
    double safe_norm() const {
        double square = range_limit();
        for (const KernelSpec& k : config_.kernels)
            while (k.kind != kCallable && square > 0 && !(largest_kernel_value(k, square) < range_limit())) square /= 2;
        return square;
    }
    static double range_limit() { return double(std::numeric_limits<T>::max()) / 1024; }

    static const char* dtype_name() { return sizeof(T) == 4 ? "float32" : "float64"; }

    const Config& config_;
    const int m_, n_expansions_;
    const double safe_norm_ = safe_norm();
    State<T>& state_;
    std::unique_ptr<BlockScores<T>> scores_;
    std::vector<double> f_, relative_, total_;
};

}  // namespace bomkl
