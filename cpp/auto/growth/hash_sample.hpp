// Rows of a stream in one byte a cell: those with the least hashes of their numbers.
//
// Which rows are in it is a function of how many came, so neither the order of calls nor a save changes it. Rows are put
// behind those that are there, in chunks that copies share: a copy sees the rows it had. Only the latest copy may add.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "auto/limits.hpp"
#include "primitives/philox.hpp"

namespace bomkl::automatic {

class HashSample {
public:
    HashSample(std::size_t columns, std::uint64_t seed) : columns_(columns), seed_(seed), chunks_(std::make_shared<Chunks>()) {}

    std::size_t columns() const { return columns_; }
    std::size_t size() const { return size_; }
    std::uint32_t limit() const { return limit_; }
    const std::uint8_t* codes_of(std::size_t i) const { return chunk(i).codes.data() + i % kRows * columns_; }
    double y_of(std::size_t i) const { return chunk(i).y[i % kRows]; }
    double weight_of(std::size_t i) const { return chunk(i).weight[i % kRows]; }
    std::uint32_t hash_of(std::size_t i) const { return chunk(i).hash[i % kRows]; }
    std::size_t bytes() const { return chunks_->size() * kRows * (columns_ + 12); }

    // Takes a row up if its hash is small enough.
    void offer(std::uint64_t number, const std::uint8_t* codes, double y, double weight) {
        const auto hash = std::uint32_t(philox({number, 0, 0, 0}, {seed_, kPurpose})[0] >> 32);
        if (hash <= limit_) put(codes, float(y), float(weight), hash);
    }

    void put(const std::uint8_t* codes, float y, float weight, std::uint32_t hash) {
        if (size_ == chunks_->size() * kRows) {
            if (chunks_.use_count() > 1) chunks_ = std::make_shared<Chunks>(*chunks_);
            chunks_->push_back(std::make_shared<Chunk>(columns_));
        }
        Chunk& last = *(*chunks_)[size_ / kRows];
        const std::size_t at = size_++ % kRows;
        std::copy_n(codes, columns_, last.codes.begin() + std::ptrdiff_t(at * columns_));
        last.y[at] = y;
        last.weight[at] = weight;
        last.hash[at] = hash;
    }

    // Keeps 15/16 of `most` rows where there are more: a small part at a time, as a larger sample teaches more.
    void keep_at_most(std::size_t most) {
        if (size_ <= most) return;
        std::vector<std::uint32_t> hashes(size_);
        for (std::size_t i = 0; i < size_; ++i) hashes[i] = hash_of(i);
        const auto last = hashes.begin() + std::ptrdiff_t(most - most / 16 - (most > 0));
        std::nth_element(hashes.begin(), last, hashes.end());
        HashSample fewer(columns_, seed_);
        fewer.limit_ = most ? *last : 0;
        for (std::size_t i = 0; i < size_; ++i)
            if (hash_of(i) <= fewer.limit_) fewer.put(codes_of(i), float(y_of(i)), float(weight_of(i)), hash_of(i));
        *this = std::move(fewer);
    }

    // Takes the rows of another sample up, but not those that both began with.
    void take_rows_of(const HashSample& other) {
        const std::size_t mine = size_;
        bool common = true;
        for (std::size_t i = 0, j = 0; j < other.size(); ++j) {
            if (other.hash_of(j) > limit_) continue;
            while (common && i < mine && hash_of(i) > other.limit_) ++i;
            common = common && i < mine && same_row(i++, other, j);
            if (!common) put(other.codes_of(j), float(other.y_of(j)), float(other.weight_of(j)), other.hash_of(j));
        }
    }

    void restore(std::uint32_t limit) { limit_ = limit; }

    template <class Archive>
    void archive(Archive& a, Limits targets) {
        const std::size_t n = a.saving() ? size_ : 0;
        std::vector<std::uint8_t> codes(n * columns_);
        std::vector<float> y(n), weight(n);
        std::vector<std::uint32_t> hash(n);
        for (std::size_t i = 0; i < n; ++i) {
            std::copy_n(codes_of(i), columns_, codes.begin() + std::ptrdiff_t(i * columns_));
            y[i] = float(y_of(i)), weight[i] = float(weight_of(i)), hash[i] = hash_of(i);
        }
        a.array("codes", codes, {kAnyLength, columns_});
        const std::size_t rows = codes.size() / columns_;
        a.array("y", y, {rows}, targets);
        a.array("weight", weight, {rows}, kSums);
        a.array("hash", hash, {rows});
        if (!a.saving())
            for (std::size_t i = 0; i < rows; ++i) put(codes.data() + i * columns_, y[i], weight[i], hash[i]);
    }

    // A copy that may go on at the same time as this one.
    HashSample apart() const {
        HashSample made(*this);
        made.chunks_ = std::make_shared<Chunks>(*chunks_);
        if (size_ % kRows) (*made.chunks_)[size_ / kRows] = std::make_shared<Chunk>(chunk(size_));
        return made;
    }

private:
    static constexpr std::size_t kRows = 2048;  // of a chunk
    static constexpr std::uint64_t kPurpose = 0x67726f77;

    struct Chunk {
        explicit Chunk(std::size_t columns) : codes(kRows * columns), y(kRows), weight(kRows), hash(kRows) {}
        std::vector<std::uint8_t> codes;
        std::vector<float> y, weight;
        std::vector<std::uint32_t> hash;
    };
    using Chunks = std::vector<std::shared_ptr<Chunk>>;

    bool same_row(std::size_t i, const HashSample& other, std::size_t j) const {
        return hash_of(i) == other.hash_of(j) && y_of(i) == other.y_of(j) && weight_of(i) == other.weight_of(j) &&
               std::equal(codes_of(i), codes_of(i) + columns_, other.codes_of(j));
    }

    const Chunk& chunk(std::size_t i) const { return *(*chunks_)[i / kRows]; }

    std::size_t columns_, size_ = 0;
    std::uint64_t seed_;
    std::uint32_t limit_ = ~std::uint32_t(0);
    std::shared_ptr<Chunks> chunks_;
};

}  // namespace bomkl::automatic
