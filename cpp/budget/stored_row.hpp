// A stored row as a block of one row.
#pragma once

#include "budget/pool.hpp"

namespace bomkl {

template <class T>
class StoredRow {
public:
    // Holds until the next call.
    Rows<T> of(const Pool<T>& pool, int slot) {
        const int features = pool.features();
        norm_ = T(pool.squared_norm_of(slot));
        inverse_length_ = inverse_length<T>(norm_);
        if (pool.sparse()) {
            entries_ = pool.sparse_row(slot);
        } else {
            row_.resize(features);
            pool.read(slot, row_.data());
            take_entries();
        }
        const bool few = pool.sparse() || 2 * entries_.n < features;
        return {pool.sparse() ? nullptr : row_.data(),
                std::size_t(features),
                &norm_,
                &inverse_length_,
                features,
                few ? &entries_ : nullptr};
    }

private:
    void take_entries() {
        values_.clear();
        columns_.clear();
        for (std::size_t j = 0; j < row_.size(); ++j)
            if (row_[j] != 0) values_.push_back(row_[j]), columns_.push_back(std::int32_t(j));
        entries_ = {values_.data(), columns_.data(), int(values_.size())};
    }

    T norm_ = 0, inverse_length_ = 0;
    SparseRow<T> entries_;
    std::vector<T> row_, values_;
    std::vector<std::int32_t> columns_;
};

}  // namespace bomkl
