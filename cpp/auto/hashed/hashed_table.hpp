// Weights of hashed features by place: only places in use take memory, and copies share what neither has changed.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace bomkl::automatic {

inline constexpr int kMostPlaceBits = 20;
inline constexpr std::size_t kMostInUse = std::size_t(1) << 18;  // places, before the half that says least is forgotten

// A tree of three levels: 64 nodes of 64 buckets of 256 places. A bucket has one bit for each place in use, and the entries of
// those in the order of their places. What is shared with a copy is copied before it changes, so that forks cost little.
class PlaceTable {
public:
    explicit PlaceTable(int width) : width_(width) {}

    int width() const { return width_; }
    std::size_t size() const { return size_; }

    // Puts zeros at a place that is not in use; what `at` returned before is no longer valid.
    void insert(std::uint32_t place) {
        if (find(place)) return;
        Bucket& bucket = own_bucket(place);
        if (const std::size_t n = bucket.entries.size();
            n == bucket.entries.capacity())  // always doubled, half would be unused
            bucket.entries.reserve(n + std::clamp(n, std::size_t(width_), kMoreRoom * std::size_t(width_)));
        bucket.entries.insert(bucket.entries.begin() + std::ptrdiff_t(rank(bucket, place)) * width_, std::size_t(width_), 0.0f);
        bucket.in_use[(place & 255) >> 6] |= bit(place);
        ++size_;
    }

    // The entry of a place in use, to be changed.
    float* at(std::uint32_t place) {
        Bucket& bucket = own_bucket(place);
        return bucket.entries.data() + rank(bucket, place) * width_;
    }

    // The entry of a place, or null.
    const float* find(std::uint32_t place) const {
        const auto& node = nodes_[place >> 14];
        if (!node) return nullptr;
        const auto& bucket = node->buckets[(place >> 8) & 63];
        if (!bucket || !(bucket->in_use[(place & 255) >> 6] & bit(place))) return nullptr;
        return bucket->entries.data() + rank(*bucket, place) * width_;
    }

    // Takes the half of the places out of use whose entries have the least at `key`; of equal ones the first stay.
    void forget_half(int key) {
        std::vector<float> keys;
        keys.reserve(size_);
        each([&](std::uint32_t, const float* entry) { keys.push_back(entry[key]); });
        const std::size_t half = size_ / 2;
        std::nth_element(keys.begin(), keys.begin() + std::ptrdiff_t(half), keys.end(), std::greater<>());
        const float least = keys[half];
        std::size_t ties =
            half - std::size_t(std::count_if(keys.begin(), keys.end(), [&](float each) { return each > least; }));
        for (std::uint32_t n = 0; n < nodes_.size(); ++n)
            for (std::uint32_t b = 0; nodes_[n] && b < 64; ++b)
                if (nodes_[n]->buckets[b]) {
                    Bucket& bucket = own_bucket((n << 14) | (b << 8));
                    float *from = bucket.entries.data(), *to = from;
                    for (std::uint32_t at = 0; at < 256; ++at) {
                        std::uint64_t& word = bucket.in_use[at >> 6];
                        if (!(word & bit(at))) continue;
                        if (from[key] > least || (from[key] == least && ties > 0)) {
                            ties -= from[key] == least;
                            to = std::copy_n(from, width_, to);
                        } else {
                            word &= ~bit(at);
                        }
                        from += width_;
                    }
                    bucket.entries.resize(std::size_t(to - bucket.entries.data()));
                }
        size_ = half;
    }

    // Calls visit(place, entry) in the order of the places.
    template <class Visit>
    void each(Visit&& visit) const {
        for (std::uint32_t n = 0; n < nodes_.size(); ++n)
            for (std::uint32_t b = 0; nodes_[n] && b < 64; ++b) {
                const Bucket* bucket = nodes_[n]->buckets[b].get();
                std::size_t entry = 0;
                for (std::uint32_t key = 0; bucket && key < 256; ++key)
                    if (bucket->in_use[key >> 6] & bit(key))
                        visit((n << 14) | (b << 8) | key, bucket->entries.data() + entry++ * width_);
            }
    }

    std::size_t bytes() const {
        std::size_t total = sizeof(*this);
        for (const auto& node : nodes_)
            if (node) {
                total += sizeof(Node);
                for (const auto& bucket : node->buckets)
                    if (bucket) total += sizeof(Bucket) + bucket->entries.capacity() * sizeof(float);
            }
        return total;
    }

private:
    static constexpr std::size_t kMoreRoom = 16;  // entries at most
    struct Bucket {
        std::array<std::uint64_t, 4> in_use{};
        std::vector<float> entries;
    };
    struct Node {
        std::array<std::shared_ptr<Bucket>, 64> buckets;
    };

    static std::uint64_t bit(std::uint32_t place) { return std::uint64_t(1) << (place & 63); }

    static std::size_t rank(const Bucket& bucket, std::uint32_t place) {
        const std::uint32_t word = (place & 255) >> 6;
        std::size_t below = std::size_t(std::popcount(bucket.in_use[word] & (bit(place) - 1)));
        for (std::uint32_t i = 0; i < word; ++i) below += std::size_t(std::popcount(bucket.in_use[i]));
        return below;
    }

    Bucket& own_bucket(std::uint32_t place) {
        auto& node = nodes_[place >> 14];
        if (!node)
            node = std::make_shared<Node>();
        else if (node.use_count() > 1)
            node = std::make_shared<Node>(*node);
        auto& bucket = node->buckets[(place >> 8) & 63];
        if (!bucket)
            bucket = std::make_shared<Bucket>();
        else if (bucket.use_count() > 1)
            bucket = std::make_shared<Bucket>(*bucket);
        return *bucket;
    }

    int width_;
    std::size_t size_ = 0;
    std::array<std::shared_ptr<Node>, std::size_t(1) << (kMostPlaceBits - 14)> nodes_;
};

}  // namespace bomkl::automatic
