// Kernel values of a line of rows with every expansion, and the scores they sum up to.
//
// They are laid out row by row, in the order of the list. What is learned meanwhile moves nothing: a support row that is
// dropped leaves a gap, which each later row closes when its turn comes, and one that is added has its kernel values with the
// later rows behind the others. Sums are made when a row is scored, over the list in its order, with its coefficients of that
// moment: nothing depends on how far was looked ahead.
#pragma once

#include <algorithm>
#include <cstring>

#include "budget/related_line.hpp"
#include "budget/state.hpp"

namespace bomkl {

template <class T>
class AheadValues {
public:
    AheadValues(const std::vector<PreparedKernel<T>>& kernels, const Primitives<T>& primitives, const State<T>& state)
        : m_(int(kernels.size())), kernels_(kernels), primitives_(primitives), state_(state), of_(state.expansions.size()) {}

    // False where values must be computed anew, by `begin`.
    bool hold() const { return hold_; }
    void begin(const RelatedLine<T>& line) {
        line_ = line;
        hold_ = false;
        std::size_t total = 0;
        int longest = 0;
        for (std::size_t e = 0; e < of_.size(); ++e) {
            OfExpansion& of = of_[e];
            of.start = total;
            of.columns = state_.expansions[e].size();
            of.room = of.columns + kRoomForAdded<T>;
            of.stride = std::size_t(of.room + 2 * kLine<T> - 1) / kLine<T> * kLine<T>;
            of.vanishes = line_.vanishes(kernel(e));
            of.gaps.clear();
            of.gaps.reserve(kRoomForAdded<T>);
            total += of.stride * kLine<T>;
            longest = std::max(longest, of.room);
        }
        zeros_.at_least(longest);
        if (values_.size() < total) values_.at_least(total + total / 2);
        added_.clear();
        added_.reserve(2 * of_.size());
        for (std::size_t e = 0; e < of_.size(); ++e) {
            if (kernel(e).kind == kCallable || of_[e].vanishes) continue;
            const Expansion<T>& expansion = state_.expansions[e];
            of_[e].vanishes = !primitives_.map_line(kernel(e), line_[kernel(e)], expansion.slots.data(), expansion.size(),
                                                    values_.data() + of_[e].start, of_[e].stride);
        }
        hold_ = true;
    }
    // Kernel values of row r of the line, in the order of the list. Rows must be asked for in their order.
    T* of_row(int e, int r) {
        const OfExpansion& of = of_[e];
        return of.vanishes ? zeros_.data() : without_gaps(of, values_.data() + of.start + r * of.stride);
    }
    // Whether they are zero for all rows.
    bool vanish(int e) const { return of_[e].vanishes; }
    // f of that row
    double score(int e, const T* values) const {
        const Expansion<T>& expansion = state_.expansions[e];
        if (of_[e].vanishes) return 0;
        return expansion.scale * double(primitives_.weighted_sum(expansion.coefs.data(), values, expansion.size()));
    }

    // The row at hand has become the last support row of an expansion, or one was dropped. Cannot fail.
    void added(int e) noexcept {
        if (!hold_) return;
        OfExpansion& of = of_[e];
        if (of.columns == of.room || added_.size() == added_.capacity()) return void(hold_ = false);
        added_.push_back({e, of.columns++});
    }
    void dropped(int e, int place) noexcept {
        if (!hold_) return;
        std::vector<int>& gaps = of_[e].gaps;
        if (gaps.size() == gaps.capacity()) return void(hold_ = false);
        auto gap = gaps.begin();
        for (; gap != gaps.end() && *gap <= place; ++gap) ++place;
        gaps.insert(gap, place);
    }
    // The row at hand, which lies in this slot, is related to the rows of the line from `first` on.
    void row_related(int slot, int first) {
        if (hold_ && first < kLine<T>)
            for (const Added& added : added_) map_added(added, slot, first);
        added_.clear();
    }

private:
    // Kernel values of one expansion: row r has them from start + r * stride on.
    struct OfExpansion {
        std::size_t start = 0, stride = 0;
        int columns = 0, room = 0;
        bool vanishes = false;  // all of them are zero, and none is written
        std::vector<int> gaps;  // columns of support rows that were dropped since, ascending
    };
    struct Added {
        int expansion, column;
    };

    const PreparedKernel<T>& kernel(std::size_t e) const { return kernels_[e % m_]; }
    void map_added(const Added& added, int slot, int first) {
        const PreparedKernel<T>& k = kernel(added.expansion);
        OfExpansion& of = of_[added.expansion];
        const T* const related = line_[k] + std::size_t(slot) * kLine<T>;
        T* const values = values_.data() + of.start;
        const auto is_far = [&](T square) { return square >= k.furthest; };
        if (k.kind == kCallable || (of.vanishes && std::all_of(related + first, related + kLine<T>, is_far))) return;
        if (of.vanishes) std::fill_n(values, of.stride * kLine<T>, T(0));
        of.vanishes = false;
        primitives_.map_column(k, related, values + added.column, of.stride);
    }
    static T* without_gaps(const OfExpansion& of, T* values) {
        const std::size_t n_gaps = of.gaps.size();
        std::size_t leading = 0;
        while (leading < n_gaps && of.gaps[leading] == int(leading)) ++leading;
        if (leading < n_gaps) {
            T* to = values + of.gaps[leading];
            for (std::size_t i = leading; i < n_gaps; ++i) {
                const int from = of.gaps[i] + 1, until = i + 1 < n_gaps ? of.gaps[i + 1] : of.columns;
                std::memmove(to, values + from, (until - from) * sizeof(T));
                to += until - from;
            }
        }
        return values + leading;
    }

    const int m_;
    const std::vector<PreparedKernel<T>>& kernels_;
    const Primitives<T>& primitives_;
    const State<T>& state_;
    RelatedLine<T> line_{};
    bool hold_ = false;
    std::vector<OfExpansion> of_;
    std::vector<Added> added_;  // by the row at hand
    Buffer<T> values_, zeros_;
};

}  // namespace bomkl
