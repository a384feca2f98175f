// Which stored rows have an entry in a column: the way from a sparse row to its inner products with all stored rows that
// touches only entries both have.
#pragma once

#include <unordered_map>
#include <vector>

#include "primitives/primitives.hpp"

namespace bomkl {

template <class T>
class Postings {
public:
    // Where memory runs out, nothing has changed.
    void add(int slot, const SparseRow<T>& row) {
        int done = 0;
        try {
            for (; done < row.n; ++done) {
                List& list = columns_[row.columns[done]];
                list.values.push_back(row.values[done]);
                try {
                    list.slots.push_back(slot);
                } catch (...) {
                    list.values.pop_back();
                    throw;
                }
            }
        } catch (...) {
            if (done < row.n)
                if (const auto found = columns_.find(row.columns[done]); found != columns_.end() && found->second.slots.empty())
                    columns_.erase(found);
            take_out(slot, {row.values, row.columns, done});
            throw;
        }
        entries_ += row.n;
    }
    void remove(int slot, const SparseRow<T>& row) {
        take_out(slot, row);
        entries_ -= row.n;
    }
    // out must be zero. Each sum runs over the columns in order, as in a dense product.
    void inner(const Primitives<T>& primitives, const SparseRow<T>& row, T* out) const {
        for (int i = 0; i < row.n; ++i) {
            const auto found = columns_.find(row.columns[i]);
            if (found == columns_.end()) continue;
            const List& list = found->second;
            primitives.scatter(row.values[i], list.slots.data(), list.values.data(), int(list.slots.size()), out);
        }
    }
    std::size_t bytes() const {
        return entries_ * (sizeof(T) + sizeof(std::int32_t)) + columns_.size() * (sizeof(List) + 4 * sizeof(void*));
    }

private:
    void take_out(int slot, const SparseRow<T>& row) {
        for (int i = 0; i < row.n; ++i) {
            const auto found = columns_.find(row.columns[i]);
            List& list = found->second;
            std::size_t place = 0;
            while (list.slots[place] != slot) ++place;
            list.slots[place] = list.slots.back(), list.slots.pop_back();
            list.values[place] = list.values.back(), list.values.pop_back();
            if (list.slots.empty()) columns_.erase(found);
        }
    }
    struct List {
        std::vector<std::int32_t> slots;
        std::vector<T> values;
    };
    std::unordered_map<std::int32_t, List> columns_;
    std::size_t entries_ = 0;
};

}  // namespace bomkl
