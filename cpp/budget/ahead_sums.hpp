// Scores of a line of rows under every expansion, for rules that do not look at kernel values: see LineSum.
#pragma once

#include "budget/chains.hpp"
#include "budget/line_sum.hpp"
#include "budget/related_line.hpp"
#include "budget/state.hpp"

namespace bomkl {

template <class T>
class AheadSums {
public:
    AheadSums(const std::vector<PreparedKernel<T>>& kernels, const Primitives<T>& primitives, const State<T>& state)
        : m_(int(kernels.size())), kernels_(kernels), primitives_(primitives), state_(state), of_(state.expansions.size()),
          chains_(kernels, state), shares_(state.expansions.size() == kernels.size()) {}

    void begin(const RelatedLine<T>& line) {
        line_ = line;
        for (OfExpansion& of : of_) of.mapped = of.current = of.shares = false;
        if (shares_) map_chains();
        std::size_t total = 0;
        for (std::size_t e = 0; e < of_.size(); ++e) {
            of_[e].start = total;
            of_[e].most = state_.expansions[e].size() + kRoomForAdded<T>;
            if (!of_[e].shares) total += std::size_t(of_[e].most) * kLine<T>;
        }
        if (values_.size() < total) values_.at_least(total + total / 2);
    }
    // f of row r of the line
    double score(int e, int r) {
        const OfExpansion& of = of_[e];
        if (!of.current && !line_.vanishes(kernels_[e % m_])) update(e);
        return of.current ? state_.expansions[e].scale * double(of.scores[r]) : 0;
    }
    // The model is another one.
    void forget() noexcept { chains_.forget(); }
    // Before a row is added: what follows cannot fail.
    void make_room(int n_slots) { chains_.make_room(n_slots); }
    void added(int e, int slot) noexcept {
        if (shares_) chains_.changed(e, slot);
        of_[e].current = false;
    }
    void dropped(int e, int place, int slot) noexcept {
        if (shares_) chains_.changed(e, slot);
        if (of_[e].mapped) of_[e].sum.dropped(place);
        of_[e].current = false;
    }
    void coefs_changed(int e) noexcept {
        of_[e].sum.coefs_changed();
        of_[e].current = false;
    }

private:
    struct OfExpansion {
        LineSum<T> sum;
        std::size_t start = 0;
        int most = 0;  // columns there is room for
        bool mapped = false, current = false;
        bool shares = false;        // values lie by slot
        const T* scores = nullptr;  // of the rows, but for the scale, where they are current
    };

    void map_chains() {
        if (!chains_.known()) {
            if (--wait_ > 0) return;
            chains_.count();
        }
        chains_.settle();
        wait_ = kLinesToWait;
        const std::size_t n_slots = std::size_t(state_.pool.n_tiles() + 1) * kTile;  // the rows of a line need one tile at most
        if (n_slots > room_) {
            room_ = n_slots + n_slots / 2;
            by_slot_.at_least(room_ * m_ * kLine<T>);
        }
        bool worth = false;
        for (int c = 0; c < chains_.size(); ++c) worth |= chains_.worth(c) && map_chain(c);
        if (!worth) chains_.forget();
    }
    // False where all of it vanishes.
    bool map_chain(int c) {
        const PreparedKernel<T>* kernels[Chains<T>::kLongest];
        T* values[Chains<T>::kLongest];
        int length = 0;  // of what does not vanish
        for (const int kernel : chains_.kernels(c)) {
            if (kernel < 0 || line_.vanishes(kernels_[kernel])) break;
            kernels[length] = &kernels_[kernel];
            values[length++] = by_slot(kernel);
            of_[kernel].mapped = of_[kernel].shares = true;
            of_[kernel].sum.begin_by_slot(state_.expansions[kernel].size());
        }
        for (int depth = 0; depth < Chains<T>::kLongest && length > 0; ++depth) {
            const std::vector<int>& slots = chains_.slots(c, depth);
            primitives_.map_chain(kernels, std::min(depth, length - 1), line_[*kernels[0]], slots.data(), int(slots.size()),
                                  values);
        }
        return length > 0;
    }
    T* by_slot(int kernel) { return by_slot_.data() + kernel * room_ * kLine<T>; }
    void update(int e) {
        const PreparedKernel<T>& k = kernels_[e % m_];
        const Expansion<T>& expansion = state_.expansions[e];
        if (expansion.size() > of_[e].most) begin(line_);
        OfExpansion& of = of_[e];
        T* const values = of.shares ? by_slot(e) : values_.data() + of.start;
        if (!of.mapped || !of.sum.has_room_for(expansion.size())) {
            primitives_.map_listed(k, line_[k], expansion.slots.data(), expansion.size(), values);
            of.sum.begin(expansion.size(), of.most);
            of.mapped = true;
        }
        const auto map = [&](int slot, int at) {
            primitives_.map_listed(k, line_[k], &slot, 1, values + std::size_t(at) * kLine<T>);
        };
        of.scores = of.sum.scores(primitives_, expansion, values, map);
        of.current = true;
    }

    const int m_;
    const std::vector<PreparedKernel<T>>& kernels_;
    const Primitives<T>& primitives_;
    const State<T>& state_;
    RelatedLine<T> line_{};
    std::vector<OfExpansion> of_;
    Buffer<T> values_;  // in columns
    Chains<T> chains_;
    const bool shares_;
    Buffer<T> by_slot_;     // of every kernel and slot
    std::size_t room_ = 0;  // slots
    int wait_ = 1;          // lines until it is seen again whether chains are worth it
    static constexpr int kLinesToWait = 64;
};

}  // namespace bomkl
