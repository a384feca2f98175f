// Scores under rules that only add rows: coefficients lie in the pool's tiles, a block is scored in one pass, and a row that
// becomes support adds its kernel values to the scores of the rows after it.
#pragma once

#include "budget/scores.hpp"

namespace bomkl {

template <class T>
class GrowingScores : public BlockScores<T> {
public:
    using Base = BlockScores<T>;
    // Whether this is the way of a rule.
    static bool serves(const Config& config) {
        return only_adds(config.learner) && config.budget == 0 && !has_callable(config.kernels);
    }

    GrowingScores(const Config& config, const Primitives<T>& primitives, State<T>& state)
        : Base(config, primitives, state), rank_(m_) {
        // Gaussians come last, widest first: where one vanishes, so do all after it.
        std::vector<int> order(m_);
        for (int i = 0; i < m_; ++i) order[i] = i;
        std::stable_sort(order.begin(), order.end(), [&](int i, int j) { return rank_key(i) < rank_key(j); });
        for (int i = 0; i < m_; ++i) rank_[order[i]] = i;
    }

    int block_rows(int n_threads) const override {
        return Base::rows_within(4 << 20, row_lanes() * sizeof(T), 12, 252, n_threads);
    }

    // A row that becomes support is related to the rest of the block.
    std::int64_t work_per_row() const override { return std::int64_t(n_expansions_) * block_.n(); }

    void score_block(int n_threads, const std::function<void()>& pause) override {
        const int n = block_.n();
        partial_.at_least(n * row_lanes());
        this->refresh_views();
        const int n_tiles = int(views_.size());
        in_parallel(
            n, n_threads, double(n) * n_tiles * kTile * (state_.pool.features() + 16),
            [&](int begin, int end) {
                std::fill(partial_.data() + begin * row_lanes(), partial_.data() + end * row_lanes(), T(0));
                if (!state_.pool.sparse())
                    return primitives_.evaluate(block_.rows(), begin, end, views_.data(), n_tiles, prepared_.data(),
                                                partial_.data(), n_expansions_);
                std::vector<T> inner(std::size_t(n_tiles) * kTile);
                for (int t = begin; t < end; ++t) {
                    this->inner_with_pool(block_.rows(), t, inner.data());
                    primitives_.evaluate_related(block_.rows(), t, views_.data(), n_tiles, inner.data(), prepared_.data(),
                                                 partial_.data(), n_expansions_);
                }
            },
            pause);
    }

    void score_row(int t, double* f) override { primitives_.sum_lanes(partial_.data() + t * row_lanes(), n_expansions_, f); }

    TileTerm<T>& tile_term(State<T>& state, std::size_t q, int expansion) const {
        auto& tile = state.own_terms(q);
        const auto key = [&](int e) { return std::pair(rank_[e % m_], e); };
        auto place = std::lower_bound(tile.begin(), tile.end(), key(expansion),
                                      [&](const TileTerm<T>& term, const auto& k) { return key(term.expansion) < k; });
        if (place == tile.end() || place->expansion != expansion)
            place = tile.insert(place, TileTerm<T>{expansion % m_, expansion, {}});
        return *place;
    }

    // The sequence of the pool that rows used by these kernels belong to (see State).
    static int sequence(int first_kernel, bool only_one) { return only_one ? 1 + first_kernel : 0; }

    // Row t becomes support with these coefficients.
    void add_terms(int t, std::vector<NewTerm<T>>& terms) {
        std::sort(terms.begin(), terms.end(), [&](const auto& a, const auto& b) {
            return std::pair(rank_[a.kernel], a.expansion) < std::pair(rank_[b.kernel], b.expansion);
        });
        const bool only_one = terms.front().kernel == terms.back().kernel;
        changed_tiles_.reserve(changed_tiles_.size() + 1);
        const int slot = state_.pool.add(block_.row(t), sequence(terms.front().kernel, only_one));
        try {  // make room first: the rest cannot fail
            for (const NewTerm<T>& term : terms) tile_term(state_, slot / kTile, term.expansion);
        } catch (...) {
            state_.pool.take_back(slot);
            this->tile_changed(slot / kTile);
            throw;
        }
        for (const NewTerm<T>& term : terms) {
            tile_term(state_, slot / kTile, term.expansion).coef[slot % kTile] = term.coef;
            state_.pool.retain(slot);
            ++state_.n_support[term.expansion];
        }
        this->tile_changed(slot / kTile);
        if (t + 1 == block_.n()) return;
        this->relate_to_later(t);
        primitives_.append(block_.rows(), t, block_.n(), block_.tiles().data(), this->column_.data(), terms.data(),
                           int(terms.size()), !only_one, slot % kLanes, prepared_.data(), partial_.data(), n_expansions_);
    }

private:
    using Base::block_, Base::changed_tiles_, Base::config_, Base::m_, Base::n_expansions_, Base::prepared_, Base::primitives_,
        Base::state_, Base::views_;

    std::size_t row_lanes() const { return std::size_t(n_expansions_) * (kLaneSets * kLanes); }
    std::pair<bool, double> rank_key(int i) const {
        const KernelSpec& k = config_.kernels[i];
        return {k.kind == kGaussian, k.kind == kGaussian ? k.a : 0.0};
    }
    void refresh_view(int q) override {
        Base::refresh_view(q);
        view_terms_.resize(std::max(view_terms_.size(), views_.size()));
        view_terms_[q].clear();
        if (std::size_t(q) >= state_.tile_terms.size()) return;
        for (const TileTerm<T>& term : *state_.tile_terms[q])
            view_terms_[q].push_back({term.kernel, term.expansion, term.coef});
        views_[q].terms = view_terms_[q].data();
        views_[q].n_terms = int(view_terms_[q].size());
    }

    std::vector<int> rank_;
    std::vector<std::vector<Term<T>>> view_terms_;
    Buffer<T> partial_;  // lanes of every row and expansion
};

}  // namespace bomkl
