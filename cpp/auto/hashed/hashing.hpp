// Hashes of 64 bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bomkl::automatic {

// A mix of 64 bits in which every input bit changes every output bit (the finaliser of SplitMix64).
inline std::uint64_t mixed(std::uint64_t z) {
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

// The hash of a text with one more letter; `mixed` ends it.
inline std::uint64_t with_letter(std::uint64_t hash, std::uint32_t letter) {
    hash = (hash ^ letter) * 0x9FB21C651E98DF25u;
    return hash ^ (hash >> 32);
}

// A set of hashes that is made anew for every row.
class UniqueHashes {
public:
    void clear() {
        count_ = 0;
        if (++turn_ == 0) {
            std::fill(turns_.begin(), turns_.end(), 0);
            turn_ = 1;
        }
    }

    // Whether the hash was not there before.
    bool add(std::uint64_t hash) {
        if (2 * count_ >= hashes_.size()) grow();
        std::size_t at = std::size_t(hash) & (hashes_.size() - 1);
        for (; turns_[at] == turn_; at = (at + 1) & (hashes_.size() - 1))
            if (hashes_[at] == hash) return false;
        hashes_[at] = hash;
        turns_[at] = turn_;
        ++count_;
        return true;
    }

private:
    void grow() {
        std::vector<std::uint64_t> held;
        for (std::size_t i = 0; i < hashes_.size(); ++i)
            if (turns_[i] == turn_) held.push_back(hashes_[i]);
        hashes_.assign(std::max<std::size_t>(256, 2 * hashes_.size()), 0);
        turns_.assign(hashes_.size(), 0);
        turn_ = 1;
        count_ = 0;
        for (std::uint64_t hash : held) add(hash);
    }

    std::vector<std::uint64_t> hashes_;
    std::vector<std::uint32_t> turns_;
    std::uint32_t turn_ = 0;
    std::size_t count_ = 0;
};

}  // namespace bomkl::automatic
