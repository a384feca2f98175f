// What it takes to undo the update of one row that fails, without a copy of the expansions.
#pragma once

#include <tuple>
#include <utility>
#include <vector>

#include "budget/state.hpp"

namespace bomkl {

template <class T>
class RowUndo {
public:
    RowUndo(State<T>& state, bool keeps_diagonal) : state_(state), keeps_diagonal_(keeps_diagonal) {}

    // From here on changes are remembered.
    void begin() {
        forget();
        log_weights_ = state_.log_weights;
        kernel_mistakes_ = state_.kernel_mistakes;
        mistakes_ = state_.mistakes;
        n_seen_ = state_.n_seen;
        scales_.clear();
        for (const Expansion<T>& e : state_.expansions) scales_.emplace_back(e.scale, e.forgetron);
        active_ = true;
    }
    void end() { active_ = false; }

    // Called before the change. Each makes room first: where memory runs out, nothing has changed.
    void make_room() {
        if (active_) changes_.reserve(changes_.size() + 1);
    }
    void adds(int expansion, int slot) {
        if (active_) changes_.push_back({expansion, -1, slot, T(0), 0});
    }
    void drops(int expansion, int place) {
        if (!active_) return;
        const Expansion<T>& e = state_.expansions[expansion];
        const double diagonal = keeps_diagonal_ ? e.diagonal[place] : 0;
        changes_.push_back({expansion, place, e.slots[place], e.coefs[place], diagonal});
    }
    void changes_coefs(int expansion) {
        if (active_) coefs_.push_back({expansion, changes_.size(), state_.expansions[expansion].coefs});
    }
    void replaces_gram(int expansion, std::vector<double>& old) {
        if (!active_) return;
        grams_.emplace_back(expansion, std::vector<double>());
        grams_.back().second.swap(old);
    }

    // Put everything back; `added` is the slot of the row at hand, -1 where it has none.
    void restore(int added) {
        if (!active_) return;
        while (!changes_.empty() || !coefs_.empty()) {
            if (!coefs_.empty() && coefs_.back().at == changes_.size()) {
                std::swap(state_.expansions[coefs_.back().expansion].coefs, coefs_.back().coefs);
                coefs_.pop_back();
                continue;
            }
            const Change change = changes_.back();
            changes_.pop_back();
            Expansion<T>& e = state_.expansions[change.expansion];
            if (change.place < 0) {
                e.slots.pop_back(), e.coefs.pop_back();
                if (keeps_diagonal_) e.diagonal.pop_back();
                state_.pool.undo_retain(change.slot);
            } else {  // room is left from before
                e.slots.insert(change.place, change.slot);
                e.coefs.insert(change.place, change.coef);
                if (keeps_diagonal_) e.diagonal.insert(change.place, change.diagonal);
                state_.pool.retain(change.slot);
            }
        }
        for (; !grams_.empty(); grams_.pop_back())
            state_.expansions[grams_.back().first].inverse_gram.swap(grams_.back().second);
        for (std::size_t e = 0; e < scales_.size(); ++e)
            std::tie(state_.expansions[e].scale, state_.expansions[e].forgetron) = scales_[e];
        state_.pool.undo_releases(added);
        state_.log_weights.swap(log_weights_);
        state_.kernel_mistakes.swap(kernel_mistakes_);
        state_.mistakes = mistakes_;
        state_.n_seen = n_seen_;
        active_ = false;
    }

private:
    struct Change {
        int expansion, place;  // where a row was dropped; -1: one was added
        int slot;
        T coef;
        double diagonal;
    };
    struct Coefs {
        int expansion;
        std::size_t at;  // how many changes came before
        List<T> coefs;
    };
    void forget() {
        changes_.clear();
        coefs_.clear();
        grams_.clear();
    }

    State<T>& state_;
    const bool keeps_diagonal_;  // the expansions' (see Expansion)
    bool active_ = false;
    std::vector<Change> changes_;
    std::vector<Coefs> coefs_;
    std::vector<std::pair<int, std::vector<double>>> grams_;
    std::vector<double> log_weights_;
    std::vector<std::int64_t> kernel_mistakes_;
    std::vector<std::pair<double, ForgetronProgress>> scales_;
    std::int64_t mistakes_ = 0, n_seen_ = 0;
};

}  // namespace bomkl
