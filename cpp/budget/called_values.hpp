// Kernel values of Python callables, which are asked for those of a whole block at once.
#pragma once

#include "budget/scores.hpp"

namespace bomkl {

template <class T>
class CalledValues {
public:
    CalledValues(const Config& config, KernelCallback<T> callback, const State<T>& state)
        : config_(config), callback_(std::move(callback)), state_(state), any_(has_callable(config.kernels)) {}

    bool any() const { return any_; }
    bool is_callable(int kernel) const { return config_.kernels[kernel].kind == kCallable; }

    // Asks for the values of n rows with each other and with all stored rows; there may be so many slots until all are learned.
    void begin_block(const T* rows, int n, std::size_t n_slots) {
        const int slots = state_.pool.n_slots(), d = state_.pool.features(), m = int(config_.kernels.size());
        std::vector<T> stored(std::size_t(slots) * d), values(std::size_t(n) * std::max(slots, n));
        for (int s = 0; s < slots; ++s) state_.pool.read(s, stored.data() + std::size_t(s) * d);
        n_ = n, n_slots_ = n_slots;
        with_slots_.resize(m);
        within_.resize(m);
        for (int i = 0; i < m; ++i) {
            if (!is_callable(i)) continue;
            with_slots_[i].assign(n * n_slots, T(0));
            if (slots > 0) callback_(i, rows, n, stored.data(), slots, values.data());
            for (int t = 0; t < n; ++t)
                for (int s = 0; s < slots; ++s) with_slots_[i][t * n_slots + s] = values[std::size_t(t) * slots + s];
            within_[i].resize(std::size_t(n) * n);
            callback_(i, rows, n, rows, n, within_[i].data());
        }
    }
    // Row t of the block has become support in this slot.
    void added(int t, int slot) {
        for (int i = 0; any_ && i < int(config_.kernels.size()); ++i)
            if (is_callable(i))
                for (int r = t + 1; r < n_; ++r) with_slots_[i][r * n_slots_ + slot] = within_[i][std::size_t(r) * n_ + t];
    }

    // Values of row t of the block with listed slots.
    void of_row(int kernel, int t, const List<int>& slots, T* values) const {
        const T* const called = with_slots_[kernel].data() + t * n_slots_;
        for (int j = 0; j < slots.size(); ++j) values[j] = called[slots[j]];
    }
    // Values of a stored row with the support of an expansion.
    void of_slot(int kernel, int slot, const Expansion<T>& e, T* values) const {
        const int d = state_.pool.features();
        std::vector<T> row(d), others(std::size_t(e.size()) * d);
        state_.pool.read(slot, row.data());
        for (int j = 0; j < e.size(); ++j) state_.pool.read(e.slots[j], others.data() + std::size_t(j) * d);
        callback_(kernel, row.data(), 1, others.data(), e.size(), values);
    }
    // The value of a row with itself: of row t of the block, and of any row.
    double self_value(int kernel, int t) const { return within_[kernel][std::size_t(t) * n_ + t]; }
    double self_value_of(int kernel, const T* row) const {
        T value;
        callback_(kernel, row, 1, row, 1, &value);
        return value;
    }

private:
    const Config& config_;
    const KernelCallback<T> callback_;
    const State<T>& state_;
    const bool any_;
    int n_ = 0;
    std::size_t n_slots_ = 0;
    std::vector<std::vector<T>> with_slots_, within_;  // of each kernel: rows of the block with every slot, and with each other
};

}  // namespace bomkl
