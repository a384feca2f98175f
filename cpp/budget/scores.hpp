// Scores of the block at hand under every expansion, kept right while its rows become support.
//
// There are three ways to hold an expansion. Rules that only add rows, without a budget, have coefficients in the tiles of the
// pool (GrowingScores). Rules of Fourier features have weights and no support rows (FeatureScores). All others have lists
// (ListedScores).
#pragma once

#include <functional>

#include "budget/block.hpp"
#include "budget/config.hpp"
#include "budget/state.hpp"
#include "primitives/parallel.hpp"

namespace bomkl {

template <class T>
class BlockScores {
public:
    BlockScores(const Config& config, const Primitives<T>& primitives, State<T>& state)
        : config_(config), m_(int(config.kernels.size())), n_expansions_(config.n_outputs * m_), primitives_(primitives),
          state_(state), prepared_(config.kernels.begin(), config.kernels.end()),
          block_(state.pool.features(), state.pool.sparse()) {
        primitives_.tabulate(prepared_.data(), m_);
    }
    virtual ~BlockScores() = default;
    BlockScores(const BlockScores&) = delete;
    BlockScores& operator=(const BlockScores&) = delete;

    const Block<T>& block() const { return block_; }
    void load_block(const Batch<T>& batch, std::int64_t start, int n) { block_.load(batch, start, n); }

    // How many rows a block may have so that what every thread keeps of it stays small.
    virtual int block_rows(int n_threads) const = 0;
    // Everything about the loaded block that does not depend on its own rows.
    virtual void score_block(int n_threads, const std::function<void()>& pause) = 0;
    // f of every expansion on row t, all rows before it learned.
    virtual void score_row(int t, double* f) = 0;
    // k(x, x) of row t of the block.
    virtual double self_value(int kernel, int t) const {
        return self_kernel(config_.kernels[kernel], block_.squared_norm_of(t));
    }
    // About how many kernel values it takes to score and learn a row: so often does a long call look for signals.
    virtual std::int64_t work_per_row() const = 0;
    // What is cached about the state no longer holds.
    virtual void forget_views() {
        views_.clear();
        changed_tiles_.clear();
    }

protected:
    static int rows_within(std::size_t bytes, std::size_t bytes_per_row, int fewest, int most, int n_threads) {
        const int rows = int(std::clamp<std::size_t>(bytes / bytes_per_row, fewest, most));
        return n_threads > 1 ? 2 * rows * std::min(n_threads, 16) : rows;  // starting threads takes time, too
    }

    // Tiles of the pool as the primitives take them.
    virtual void refresh_view(int q) { views_[q] = state_.pool.tile(q); }
    void refresh_views() {
        const int known = int(views_.size()), n_tiles = state_.pool.n_tiles();
        views_.resize(n_tiles);
        for (int q = known; q < n_tiles; ++q) refresh_view(q);
        for (const int q : changed_tiles_) refresh_view(q);
        changed_tiles_.clear();
    }
    void tile_changed(int q) { changed_tiles_.push_back(q); }

    // Inner products of row t with the rows after it, into column_.
    void relate_to_later(int t) {
        column_.resize(std::size_t(block_.n() + kTile - 1) / kTile * kTile);
        block_.inner_with_later(primitives_, t, (t + 1) / kTile * kTile, column_.data());
    }
    // Inner products of one row with all slots.
    void inner_with_pool(const Rows<T>& rows, int t, T* out) const {
        const int n_tiles = int(views_.size());
        if (!state_.pool.sparse()) return primitives_.inner(rows, t, t + 1, views_.data(), n_tiles, out, 0);
        std::fill_n(out, views_.size() * kTile, T(0));
        state_.pool.postings().inner(primitives_, rows.sparse[t], out);
    }

    const Config& config_;
    const int m_, n_expansions_;
    const Primitives<T>& primitives_;
    State<T>& state_;
    std::vector<PreparedKernel<T>> prepared_;
    Block<T> block_;
    std::vector<Tile<T>> views_;
    std::vector<int> changed_tiles_;  // whose views are out of date
    std::vector<T> column_;
};

}  // namespace bomkl
