// A forest that owns the sums of its leaves. A copy shares them until a block of rows is full; only the latest copy may learn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "auto/trees/forest.hpp"

namespace bomkl::automatic {

struct TreeNodes {  // never change; `keep` owns them
    const Node* nodes;
    std::size_t size;
    const std::int32_t* roots;
    int trees;
    std::shared_ptr<const void> keep;
};

class OnlineForest {
public:
    OnlineForest(TreeNodes trees, std::vector<float> table, std::vector<double> prior, int outputs, Task task)
        : trees_(std::move(trees)), table_(std::make_shared<std::vector<float>>(std::move(table))), prior_(std::move(prior)),
          block_(std::make_shared<Block>(trees_.trees, outputs)), outputs_(outputs), task_(task) {}

    OnlineForest apart() const {
        OnlineForest made = *this;
        made.table_ = std::make_shared<std::vector<float>>(*table_);
        made.block_ = std::make_shared<Block>(*block_);
        return made;
    }

    // Scores n coded rows, each just before it is learned; `seen` rows came before them.
    void learn(const std::uint8_t* codes, std::size_t columns, const double* y, const double* weight, std::size_t n,
               std::int64_t seen, double* scores) {
        int to_boundary = kBlock - int(seen % kBlock);
        for (std::size_t begin = 0; begin < n;) {
            ForestRows rows = on_rows();
            const std::size_t fresh = std::min<std::size_t>(to_boundary, n - begin);
            rows.find(codes + begin * columns, fresh, columns);
            for (std::size_t t = 0; t < fresh; ++t) {
                rows.score(t, open_, scores + (begin + t) * outputs_);
                rows.learn(t, y + (begin + t) * outputs_, weight[begin + t], open_++);
            }
            begin += fresh;
            to_boundary -= int(fresh);
            if (to_boundary == 0) {
                close();
                to_boundary = kBlock;
            }
        }
    }

    void score(const std::uint8_t* codes, std::size_t columns, std::size_t n, double* scores) const {
        ForestRows rows = on_rows();
        for (std::size_t begin = 0; begin < n; begin += kBlock) {
            const std::size_t count = std::min<std::size_t>(kBlock, n - begin);
            rows.find(codes + begin * columns, count, columns);
            for (std::size_t t = 0; t < count; ++t) rows.score(t, open_, scores + (begin + t) * outputs_);
        }
    }

    void close() {
        if (open_ > 0) {
            if (table_.use_count() > 1) table_ = std::make_shared<std::vector<float>>(*table_);
            on_rows().close(open_);
        }
        if (block_.use_count() > 1) block_ = std::make_shared<Block>(trees_.trees, outputs_);
        open_ = 0;
    }

    struct Block {
        Block(int trees, int outputs) : leaves(std::size_t(trees) * kBlock), y(std::size_t(kBlock) * outputs), weight(kBlock) {}
        std::vector<std::int32_t> leaves;
        std::vector<double> y, weight;
    };

    const TreeNodes& trees() const { return trees_; }
    const std::vector<float>& table() const { return *table_; }
    const std::vector<double>& prior() const { return prior_; }
    Block& block() { return *block_; }
    int open() const { return open_; }
    void restore(int open) { open_ = open; }
    int outputs() const { return outputs_; }
    std::size_t bytes() const {
        return sizeof(Node) * trees_.size + sizeof(float) * table_->size() + sizeof(std::int32_t) * block_->leaves.size();
    }
    Task task() const { return task_; }

private:
    ForestRows on_rows() const {
        return ForestRows({trees_.nodes, trees_.roots, trees_.trees, table_->data(), int(prior_.size()), prior_.data(),
                           block_->leaves.data(), block_->y.data(), block_->weight.data()},
                          outputs_, task_);
    }

    TreeNodes trees_;
    std::shared_ptr<std::vector<float>> table_;
    std::vector<double> prior_;
    std::shared_ptr<Block> block_;
    int outputs_, open_ = 0;
    Task task_;
};

}  // namespace bomkl::automatic
