// Scores under rules of Fourier features: the features of a block depend on nothing that is learned.
#pragma once

#include "budget/scores.hpp"

namespace bomkl {

template <class T>
class FeatureScores : public BlockScores<T> {
public:
    using Base = BlockScores<T>;
    static bool serves(const Config& config) { return n_frequencies(config.learner) > 0; }
    using Base::Base;

    int block_rows(int n_threads) const override {
        const std::size_t per_row = std::size_t(m_) * 2 * n_frequencies(config_.learner) * sizeof(T);
        return Base::rows_within(4 << 20, per_row, 12, 252, n_threads);
    }

    std::int64_t work_per_row() const override { return std::int64_t(n_expansions_) * state_.frequencies->n_features(); }

    void score_block(int n_threads, const std::function<void()>& pause) override {
        const Frequencies<T>& frequencies = *state_.frequencies;
        const int n = block_.n(), size = frequencies.size(), n_tiles = frequencies.n_tiles();
        const std::size_t stride = std::size_t(n_tiles) * kTile;
        inner_.at_least(n * stride);
        waves_.at_least(std::size_t(n) * m_ * frequencies.n_features());
        in_parallel(
            n, n_threads, double(n) * size * (state_.pool.features() + 32.0 * m_),
            [&](int begin, int end) {
                for (int base = 0; base < frequencies.kBases; ++base) {
                    if (!frequencies.has_base(base)) continue;
                    primitives_.inner(block_.rows(), begin, end, frequencies.tiles(base).data(), n_tiles, inner_.data(),
                                      stride);
                    for (int t = begin; t < end; ++t)
                        for (int i = 0; i < m_; ++i)
                            if (frequencies.base_of(i) == base)
                                primitives_.waves(inner_.data() + t * stride, frequencies.factors(i), size,
                                                  frequencies.amplitude(), waves_.data() + start(i, t));
                }
            },
            pause);
    }

    void score_row(int t, double* f) override {
        for (int e = 0; e < n_expansions_; ++e)
            f[e] = double(primitives_.weighted_sum(state_.expansions[e].coefs.data(), features_of(e % m_, t),
                                                   state_.frequencies->n_features()));
    }

    // Features of row t of the block.
    const T* features_of(int kernel, int t) const { return waves_.data() + start(kernel, t); }

private:
    using Base::block_, Base::config_, Base::m_, Base::n_expansions_, Base::primitives_, Base::state_;

    std::size_t start(int kernel, int t) const { return (std::size_t(t) * m_ + kernel) * state_.frequencies->n_features(); }

    Buffer<T> waves_;  // features of every row and kernel
    Buffer<T> inner_;
};

}  // namespace bomkl
