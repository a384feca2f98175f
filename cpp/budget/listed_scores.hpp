// Scores under rules that drop, scale or project: every expansion is a list of slots with coefficients.
//
// Rows are looked at ahead of their turn, a line of them at once. What the kernels are maps of is computed between the rows
// of a line and every slot of the pool, slot by slot, with the rows of the line side by side: so a slot of a list is one
// vector, wherever it lies. Of that, kernel values are made for every list (AheadValues).
//
// Where a rule does not look at more than a sign or a margin, most scores need no double precision (RoughScores).
//
// A row or two are not worth that, nor are rows of few entries. They, and Python callables, gather from all slots what their
// lists need.
#pragma once

#include "budget/ahead_values.hpp"
#include "budget/called_values.hpp"
#include "budget/oldest_scores.hpp"
#include "budget/rough_scores.hpp"
#include "budget/scores.hpp"
#include "budget/stored_row.hpp"
#include "budget/used_columns.hpp"

namespace bomkl {

template <class T>
class ListedScores : public BlockScores<T> {
public:
    using Base = BlockScores<T>;

    ListedScores(const Config& config, const Primitives<T>& primitives, KernelCallback<T> callback, State<T>& state)
        : Base(config, primitives, state), called_(config, std::move(callback), state), used_(state.pool),
          values_(prepared_, primitives, state), oldest_(prepared_, primitives, state), values_of_(n_expansions_) {
        for (const PreparedKernel<T>& k : prepared_)
            if (k.kind != kCallable) needed_[int(k.source)] = true;
        if constexpr (sizeof(T) == 8)
            if (!state.pool.sparse() && RoughScores::serves(config, primitives)) rough_.emplace(config, primitives, state);
    }

    // Whether scores may be off as long as the rule and the vote cannot tell: for rows that are learned from.
    void may_be_rough(bool may) { may_be_rough_ = may && rough_; }

    int block_rows(int n_threads) const override {
        const std::size_t slots = std::size_t(state_.pool.n_tiles() + 1) * kTile;
        if (called_.any()) return Base::rows_within(4 << 20, slots * (1 + m_) * sizeof(T), 12, 252, n_threads);
        if (may_be_rough_) {
            constexpr int lines = 2 * RoughScores::kRows;
            return Base::rows_within(kCached, slots * rough_->bytes_per_slot(), lines, kTile, n_threads) / lines * lines;
        }
        const std::size_t sources = std::count(needed_, needed_ + kSources, true);
        const int rows = Base::rows_within(kCached, slots * sources * sizeof(T), kLine<T>, kTile, n_threads);
        return rows < 2 * kLine<T> ? kLine<T> : rows / (2 * kLine<T>)*(2 * kLine<T>);
    }

    std::int64_t work_per_row() const override {
        std::size_t work = 0;
        for (const Expansion<T>& e : state_.expansions) work += e.size() + e.inverse_gram.size();
        return std::int64_t(work);
    }

    void score_block(int n_threads, const std::function<void()>& pause) override {
        this->refresh_views();
        used_.refresh();
        line_ = kNone;
        const int n = block_.n();
        n_slots_ = std::size_t(state_.pool.n_tiles()) * kTile + (n + kTile - 1) / kTile * kTile;
        is_rough_ = false;
        if constexpr (sizeof(T) == 8)
            if (may_be_rough_ && n >= kWorthALine)
                is_rough_ = rough_->begin_block(block_.rows(), n, used_.data(), n_threads, pause);
        looks_ahead_ = !is_rough_ && n >= kWorthALine && !block_.rows().sparse;
        if (looks_ahead_) relate_lines(n_threads, pause);
        if (called_.any()) called_.begin_block(block_.rows().x, n, n_slots_);
    }

    void score_row(int t, double* f) override {
        stored_slot_ = kNone;
        if (is_rough_) return score_roughly(t, f);
        if (!looks_ahead_) return gather_row(t, f);
        const int line = t / kLine<T>, r = t % kLine<T>;
        if (line != line_ || !values_.hold()) values_.begin(related_line(line));
        line_ = line;
        for (int e = 0; e < n_expansions_; ++e) {
            values_of_[e] = values_.of_row(e, r);
            if (is_callable(e)) called_.of_row(e % m_, t, state_.expansions[e].slots, values_of_[e]);
            f[e] = values_.score(e, values_of_[e]);
        }
    }

    // Kernel values between the row last scored and the support of an expansion, in the order of its list; only for rules that
    // look at them.
    const T* values_of(int expansion) const { return values_of_[expansion]; }
    // Whether they are known to be zero.
    bool values_vanish(int expansion) const { return looks_ahead_ && values_.vanish(expansion); }

    double self_value(int kernel, int t) const override {
        return called_.is_callable(kernel) ? called_.self_value(kernel, t) : Base::self_value(kernel, t);
    }
    double self_value_of(int kernel, const Row<T>& row) {
        if (called_.is_callable(kernel)) return called_.self_value_of(kernel, row.dense);
        return self_kernel(config_.kernels[kernel], squared_norm(row, state_.pool.features()));
    }

    // f of an expansion on one of its own support rows.
    double score_of(int expansion, int slot) {
        const Expansion<T>& e = state_.expansions[expansion];
        const int kernel = expansion % m_, n = e.size();
        stored_values_.resize(n);
        if (is_callable(expansion)) {
            called_.of_slot(kernel, slot, e, stored_values_.data());
            return e.scale * double(primitives_.weighted_sum(e.coefs.data(), stored_values_.data(), n));
        }
        if (slot != stored_slot_) relate_slot(slot);
        return e.scale * double(primitives_.expand(prepared_[kernel], stored_from_[prepared_[kernel]], e.slots.data(),
                                                   e.coefs.data(), n, stored_values_.data()));
    }
    double score_of_oldest(int expansion) {
        const int slot = state_.expansions[expansion].slots[0];
        if (is_callable(expansion) || state_.pool.sparse()) return score_of(expansion, slot);
        this->refresh_views();
        used_.refresh();
        return oldest_.score(expansion, views_.data(), used_.data());
    }
    // Kernel values between one support row of an expansion and all of them.
    const T* values_at(int expansion, int slot) {
        score_of(expansion, slot);
        return stored_values_.data();
    }

    // An expansion has got the row last scored as its last support row, has dropped one, or has other coefficients. Cannot
    // fail.
    void support_added(int expansion, int slot, T coef) noexcept {
        if (is_rough_)
            rough_->added(expansion, slot, double(coef));
        else
            values_.added(expansion);
    }
    void support_dropped(int expansion, int place, int slot, T coef) noexcept {
        if (is_rough_)
            rough_->dropped(expansion, slot, double(coef));
        else
            values_.dropped(expansion, place);
        oldest_.dropped(expansion, place);
    }
    void coefs_changed(int expansion) noexcept {
        if (is_rough_) rough_->coefs_changed(expansion);
        oldest_.coefs_changed(expansion);
    }

    void row_changed(int slot) {
        this->tile_changed(slot / kTile);
        used_.row_changed(slot);
        oldest_.row_changed(slot);
        if (rough_) rough_->row_changed(slot);
    }
    void forget_views() override {
        Base::forget_views();
        if (rough_) rough_->forget();
        is_rough_ = false;
        used_.forget();
        oldest_.forget();
        line_ = kNone;
    }

    // Row t has become support in this slot: the rows after it need to be related to it.
    void relate_new_row(int t, int slot) {
        if (is_rough_) return rough_->relate_new_row(t, slot);
        if (t + 1 < block_.n() && looks_ahead_) relate_new_slot(t, slot);
        values_.row_related(slot, looks_ahead_ && (t + 1) / kLine<T> == line_ ? (t + 1) % kLine<T> : kLine<T>);
        called_.added(t, slot);
    }

private:
    using Base::block_, Base::config_, Base::m_, Base::n_expansions_, Base::prepared_, Base::primitives_, Base::state_,
        Base::views_;
    static constexpr int kNone = -1;
    static constexpr int kWorthALine = 3;              // rows
    static constexpr std::size_t kCached = 256 << 10;  // a part of the second cache

    // What the kernels are maps of, between one row and every slot.
    struct SourcesOfRow {
        const T* of[kSources];
        const T* operator[](const PreparedKernel<T>& k) const { return of[int(k.source)]; }
    };
    static void make_room(Buffer<T>& buffer, std::size_t n) {
        if (buffer.size() < n) buffer.at_least(n + n / 2);
    }
    bool is_callable(int expansion) const { return called_.is_callable(expansion % m_); }
    RelatedLine<T> related_line(int line) {
        RelatedLine<T> out{};
        for (int s = 0; s < kSources; ++s)
            if (needed_[s]) out.of[s] = line_of(s, line);
        out.nearest = &nearest_[line];
        return out;
    }
    T* line_of(int source, int line) { return lines_[source].data() + line * n_slots_ * kLine<T>; }

    SourcesOfRow relate_row(const Rows<T>& rows, int r, const T* inner, std::vector<T>* memory) const {
        SourcesOfRow from{};
        T* out[kSources] = {};
        from.of[int(Source::inner_product)] = inner;
        for (int s = 0; s < kSources; ++s) {
            if (Source(s) == Source::inner_product || !needed_[s]) continue;
            memory[s].resize(views_.size() * kTile);
            from.of[s] = out[s] = memory[s].data();
        }
        primitives_.relate(rows, r, views_.data(), int(views_.size()), inner, out);
        return from;
    }

    void relate_lines(int n_threads, const std::function<void()>& pause) {
        const int n = block_.n(), n_lines = (n + kLine<T> - 1) / kLine<T>, n_tiles = int(views_.size());
        for (int s = 0; s < kSources; ++s)
            if (needed_[s]) make_room(lines_[s], n_lines * n_slots_ * kLine<T>);
        nearest_.resize(n_lines);
        const std::vector<Tile<T>>& tiles = block_.tiles();
        const Rows<T>& rows = block_.rows();
        in_parallel((n_lines + 1) / 2, n_threads, double(n) * n_tiles * kTile * state_.pool.features(),
                    [&](int begin, int end) {
                        for (int line = 2 * begin; line < std::min(2 * end, n_lines); line += 2) {
                            const int first = line * kLine<T>;
                            T* out[kSources];
                            for (int s = 0; s < kSources; ++s) out[s] = needed_[s] ? line_of(s, line) : nullptr;
                            const int of_lines = std::min(2 * kLine<T>, n - first);
                            nearest_[line] =
                                primitives_.relate_line(rows, first, of_lines, tiles[first / kTile].x + first % kTile,
                                                        views_.data(), n_tiles, used_.data(), out, n_slots_ * kLine<T>);
                            if (of_lines > kLine<T>) nearest_[line + 1] = nearest_[line];
                        }
                    },
                    pause);
    }
    // The new row in this slot with the lines of the rows after it.
    void relate_new_slot(int t, int slot) {
        this->refresh_views();
        const int n = block_.n();
        for (int line = (t + 1) / kLine<T>; line * kLine<T> < n; ++line) {
            const int first = line * kLine<T>;
            T* out[kSources];
            for (int s = 0; s < kSources; ++s) out[s] = needed_[s] ? line_of(s, line) + std::size_t(slot) * kLine<T> : nullptr;
            nearest_[line] = std::min(nearest_[line], primitives_.relate_slot(block_.rows(), first, std::max(0, t + 1 - first),
                                                                              std::min(kLine<T>, n - first),
                                                                              block_.tiles()[first / kTile].x + first % kTile,
                                                                              views_[slot / kTile], slot % kTile, out));
        }
    }

    SourcesOfRow relate_to_pool(int t) {
        this->refresh_views();
        row_inner_.resize(views_.size() * kTile);
        this->inner_with_pool(block_.rows(), t, row_inner_.data());
        return relate_row(block_.rows(), t, row_inner_.data(), row_sources_);
    }
    void score_roughly(int t, double* f) {
        std::optional<SourcesOfRow> from;
        for (int e = 0; e < n_expansions_; ++e) {
            if (rough_->score(e, t, f[e])) continue;
            if (!from) from = relate_to_pool(t);
            const Expansion<T>& expansion = state_.expansions[e];
            const PreparedKernel<T>& k = prepared_[e % m_];
            make_room(row_values_, expansion.size());
            f[e] = expansion.scale * double(primitives_.expand(k, (*from)[k], expansion.slots.data(), expansion.coefs.data(),
                                                               expansion.size(), row_values_.data()));
        }
    }
    void gather_row(int t, double* f) {
        const SourcesOfRow from = relate_to_pool(t);
        std::size_t total = 0;
        for (int e = 0; e < n_expansions_; ++e) total += state_.expansions[e].size();
        make_room(row_values_, total);
        total = 0;
        for (int e = 0; e < n_expansions_; ++e) {
            const Expansion<T>& expansion = state_.expansions[e];
            const PreparedKernel<T>& k = prepared_[e % m_];
            values_of_[e] = row_values_.data() + total;
            total += expansion.size();
            if (is_callable(e)) called_.of_row(e % m_, t, expansion.slots, values_of_[e]);
            f[e] = expansion.scale *
                   double(is_callable(e) ? primitives_.weighted_sum(expansion.coefs.data(), values_of_[e], expansion.size())
                                         : primitives_.expand(k, from[k], expansion.slots.data(), expansion.coefs.data(),
                                                              expansion.size(), values_of_[e]));
        }
    }

    void relate_slot(int slot) {
        this->refresh_views();
        const Rows<T> one = stored_row_.of(state_.pool, slot);
        stored_inner_.resize(views_.size() * kTile);
        this->inner_with_pool(one, 0, stored_inner_.data());
        stored_from_ = relate_row(one, 0, stored_inner_.data(), stored_sources_);
        stored_slot_ = slot;
    }

    CalledValues<T> called_;
    bool needed_[kSources] = {};  // which sources the kernels are maps of
    std::size_t n_slots_ = 0;     // room for all slots that there can be until the block is learned

    std::optional<RoughScores> rough_;
    bool may_be_rough_ = false, is_rough_ = false;  // for rows to come; for the block at hand
    bool looks_ahead_ = false;
    Buffer<T> lines_[kSources];  // of every line of the block and slot: the source, row beside row
    int line_ = kNone;           // the line that values_ are about
    std::vector<T> nearest_;     // of every line: no squared distance to a slot is less
    UsedColumns<T> used_;
    AheadValues<T> values_;
    OldestScores<T> oldest_;
    std::vector<T*> values_of_;

    Buffer<T> row_values_;
    std::vector<T> row_inner_, row_sources_[kSources];

    int stored_slot_ = kNone;  // the slot that stored_from_ is about
    SourcesOfRow stored_from_{};
    StoredRow<T> stored_row_;
    std::vector<T> stored_inner_, stored_values_, stored_sources_[kSources];
};

}  // namespace bomkl
