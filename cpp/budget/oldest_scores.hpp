// Scores of an expansion on its own oldest support row, for rules that forget it. The next ones to be the oldest are known
// beforehand: a line of them is related to the list at once.
#pragma once

#include <algorithm>

#include "budget/line_sum.hpp"
#include "budget/state.hpp"

namespace bomkl {

template <class T>
class OldestScores {
public:
    OldestScores(const std::vector<PreparedKernel<T>>& kernels, const Primitives<T>& primitives, const State<T>& state)
        : m_(int(kernels.size())), kernels_(kernels), primitives_(primitives), state_(state) {}

    // Rows of the pool must be dense; `tiles` and `used` are about all slots as they are now.
    double score(int e, const Tile<T>* tiles, const std::uint64_t* used) {
        if (of_.empty()) of_.resize(state_.expansions.size());
        read_rows();
        OfExpansion& of = of_[e];
        const PreparedKernel<T>& k = kernels_[e % m_];
        const Expansion<T>& expansion = state_.expansions[e];
        if (of.next >= of.n || !of.sum.has_room_for(expansion.size())) begin(of, k, expansion, tiles, used);
        const auto map = [&](int slot, int column) {
            alignas(64) T line[kLine<T>];
            T* out[kSources] = {};
            out[int(k.source)] = line;
            primitives_.relate_slot(of.rows(state_.pool.features()), 0, 0, of.n, of.columns.data(), tiles[slot / kTile],
                                    slot % kTile, out);
            primitives_.map_lines(k, line, 1, of.values.data() + std::size_t(column) * kLine<T>);
        };
        return expansion.scale * double(of.sum.scores(primitives_, expansion, of.values.data(), map)[of.next]);
    }
    void dropped(int e, int place) noexcept {
        if (of_.empty()) return;
        OfExpansion& of = of_[e];
        of.sum.dropped(place);
        if (place == 0)
            ++of.next;
        else
            of.n = 0;
    }
    void coefs_changed(int e) noexcept {
        if (!of_.empty()) of_[e].sum.coefs_changed();
    }
    void forget() noexcept {
        of_.clear();
        related_.clear();
        n_read_ = 0;
    }
    // A slot has another row.
    void row_changed(int slot) {
        related_.clear();
        if (slot < n_read_) read_row(slot);
    }

private:
    struct OfExpansion {
        int n = 0, next = 0;  // rows, and which of them is the oldest now
        std::vector<T> x;     // row after row
        Buffer<T> columns;    // the same with a stride of kTile
        Buffer<T> norm, inverse_length;
        LineSum<T> sum;
        Buffer<T> values;

        Rows<T> rows(int features) const {
            return {x.data(), std::size_t(features), norm.data(), inverse_length.data(), features};
        }
    };

    void begin(OfExpansion& of, const PreparedKernel<T>& k, const Expansion<T>& expansion, const Tile<T>* tiles,
               const std::uint64_t* used) {
        const int features = state_.pool.features(), size = expansion.size(), most = size + kRoom;
        of.n = 0;
        of.next = 0;
        const int n = std::min(kLine<T>, size);
        of.x.resize(std::size_t(kLine<T>) * features);
        of.columns.at_least(std::size_t(features) * kTile);
        of.norm.at_least(kLine<T>);
        of.inverse_length.at_least(kLine<T>);
        for (int r = 0; r < n; ++r) {
            T* const row = of.x.data() + std::size_t(r) * features;
            std::copy_n(rows_.data() + std::size_t(expansion.slots[r]) * features, features, row);
            for (int j = 0; j < features; ++j) of.columns.data()[std::size_t(j) * kTile + r] = row[j];
            of.norm.data()[r] = T(state_.pool.squared_norm_of(expansion.slots[r]));
            of.inverse_length.data()[r] = inverse_length<T>(of.norm.data()[r]);
        }
        of.values.at_least(std::size_t(most) * kLine<T>);
        if (related_source_ != k.source || !std::ranges::equal(related_, expansion.slots)) {
            related_.clear();
            lines_.at_least(std::size_t(most) * kLine<T>);
            T* out[kSources] = {};
            out[int(k.source)] = lines_.data();
            primitives_.relate_listed(of.rows(features), n, of.columns.data(), tiles, rows_.data(), expansion.slots.data(),
                                      size, used, out);
            related_.assign(expansion.slots.begin(), expansion.slots.end());
            related_source_ = k.source;
        }
        primitives_.map_lines(k, lines_.data(), size, of.values.data());
        of.sum.begin(size, most);
        of.n = n;
    }

    void read_row(int slot) { state_.pool.read(slot, rows_.data() + std::size_t(slot) * state_.pool.features()); }
    void read_rows() {
        const int n_slots = state_.pool.n_slots();
        rows_.resize(std::size_t(n_slots) * state_.pool.features());
        for (; n_read_ < n_slots; ++n_read_) read_row(n_read_);
    }

    static constexpr int kRoom = 2 * kLine<T>;  // as many rows are added as are dropped, and one
    const int m_;
    const std::vector<PreparedKernel<T>>& kernels_;
    const Primitives<T>& primitives_;
    const State<T>& state_;
    std::vector<OfExpansion> of_;
    std::vector<T> rows_;  // of the slots up to n_read_
    int n_read_ = 0;
    // Lists that change at every row are the same for several kernels: sources of the list related last, and the list.
    Buffer<T> lines_;
    std::vector<int> related_;
    Source related_source_ = Source::inner_product;
};

}  // namespace bomkl
