// Which columns of dense stored rows are not zero: the others add nothing to inner products.
#pragma once

#include "budget/pool.hpp"

namespace bomkl {

template <class T>
class UsedColumns {
public:
    explicit UsedColumns(const Pool<T>& pool) : pool_(pool) {}

    // Of every slot a bit for each column (see Primitives::relate_line).
    const std::uint64_t* data() const { return used_.data(); }
    void refresh() {
        for (int slot = int(used_.size()); slot < pool_.n_tiles() * kTile; ++slot) used_.push_back(of(slot));
    }
    void row_changed(int slot) {
        if (slot < int(used_.size())) used_[slot] = of(slot);
    }
    void forget() { used_.clear(); }

private:
    std::uint64_t of(int slot) const {
        const Tile<T> tile = pool_.tile(slot / kTile);
        if (!tile.x || pool_.features() >= 64) return kAnyColumn;
        std::uint64_t used = 0;
        for (int j = 0; j < pool_.features(); ++j)
            used |= std::uint64_t(tile.x[std::size_t(j) * kTile + slot % kTile] != 0) << j;
        return used + 1 == std::uint64_t(1) << pool_.features() ? kAnyColumn : used;
    }

    const Pool<T>& pool_;
    std::vector<std::uint64_t> used_;
};

}  // namespace bomkl
