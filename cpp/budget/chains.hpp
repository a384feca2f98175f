// Which slots each chain of Gaussians needs, and how far down the chain.
//
// Gaussians whose widths are halved from one to the next are fourth powers of each other (see KernelSpec). Where several of a
// chain hold the same support row, its values are computed together: one exp, then the powers, down to the narrowest that
// holds it. The slots of a chain are kept in groups of equal depth, brought up to date before they are asked for.
#pragma once

#include <array>

#include "budget/related_line.hpp"
#include "budget/state.hpp"

namespace bomkl {

template <class T>
class Chains {
public:
    static constexpr int kLongest = 4;

    // Every kernel must have one list.
    Chains(const std::vector<PreparedKernel<T>>& kernels, const State<T>& state)
        : state_(state), place_(kernels.size(), Place{-1, 0}) {
        for (int level = 0; level < kLongest; ++level)
            for (std::size_t i = 0; i < kernels.size(); ++i)
                if (kernels[i].kind == kGaussian && kernels[i].fourths == level) place_[i] = join(kernels, int(i));
    }
    int size() const { return int(chains_.size()); }
    // The kernels of a chain, widest first, -1 where it has fewer.
    const std::array<int, kLongest>& kernels(int chain) const { return chains_[chain].kernels; }
    const std::vector<int>& slots(int chain, int depth) const { return chains_[chain].slots[depth]; }

    // Whether that is less work than to compute the values of every kernel from its own list. Numbers are cycles, about.
    bool worth(int chain) const {
        constexpr int kExp = 10, kPower = 2, kStored = 2, kScattered = 4;
        std::size_t alone = 0, together = 0;
        for (int level = 0; level < kLongest; ++level) {
            if (const int kernel = kernels(chain)[level]; kernel >= 0)
                alone += state_.expansions[kernel].size() * (kExp + kPower * level + kStored);
            together += slots(chain, level).size() * (kExp + kPower * level + kScattered * (level + 1));
        }
        return together + together / 8 < alone;  // the groups have to be kept, too
    }

    bool known() const { return known_; }
    void forget() noexcept { known_ = false; }
    void count() {
        known_ = false;
        for (Chain& chain : chains_) {
            chain.levels.clear();
            chain.changed.clear();
            for (std::vector<int>& slots : chain.slots) slots.clear();
        }
        make_room(state_.pool.n_tiles() * kTile);
        for (std::size_t i = 0; i < place_.size(); ++i)
            for (const int slot : state_.expansions[i].slots) change(int(i), slot);
        known_ = true;
        settle();
    }
    // Groups as they are now.
    void settle() noexcept {
        for (Chain& chain : chains_) {
            for (const int slot : chain.changed) regroup(chain, slot);
            chain.changed.clear();
        }
    }
    // So that nothing below can fail.
    void make_room(int n_slots) {
        for (Chain& chain : chains_) {
            if (int(chain.levels.size()) >= n_slots) continue;
            chain.at.resize(n_slots);
            chain.changed.reserve(n_slots);
            for (std::vector<int>& slots : chain.slots) slots.reserve(n_slots);
            chain.levels.resize(n_slots, OfSlot{0, 0, false});
        }
    }
    // A kernel that had the row of this slot has it no longer, or the other way round.
    void changed(int kernel, int slot) noexcept {
        if (known_) change(kernel, slot);
    }

private:
    struct OfSlot {
        std::uint8_t now, grouped;  // a bit for each kernel that has it: as it is, and as it was when the groups were made
        bool changed;
    };
    struct Chain {
        std::array<int, kLongest> kernels;
        std::vector<OfSlot> levels;
        std::vector<int> at;                           // of every slot: where it is in its group
        std::array<std::vector<int>, kLongest> slots;  // by depth
        std::vector<int> changed;                      // since the groups were made
    };
    struct Place {
        int chain, level;
    };

    // A second kernel of the same width has no place.
    Place join(const std::vector<PreparedKernel<T>>& kernels, int i) {
        const int level = kernels[i].fourths;
        for (std::size_t c = 0; c < chains_.size(); ++c) {
            if (kernels[chains_[c].kernels[0]].root != kernels[i].root) continue;
            if (chains_[c].kernels[level] >= 0) return {-1, 0};
            chains_[c].kernels[level] = i;
            return {int(c), level};
        }
        chains_.push_back({{i, -1, -1, -1}, {}, {}, {}, {}});
        return {int(chains_.size()) - 1, 0};
    }
    static int depth(std::uint8_t levels) { return 31 - __builtin_clz(levels); }
    void change(int kernel, int slot) noexcept {
        const Place place = place_[kernel];
        if (place.chain < 0) return;
        Chain& chain = chains_[place.chain];
        OfSlot& levels = chain.levels[slot];
        levels.now ^= std::uint8_t(1u << place.level);
        if (levels.changed) return;
        levels.changed = true;
        chain.changed.push_back(slot);
    }
    void regroup(Chain& chain, int slot) noexcept {
        OfSlot& levels = chain.levels[slot];
        const std::uint8_t before = levels.grouped, after = levels.now;
        levels = {after, after, false};
        if (before && after && depth(before) == depth(after)) return;
        if (before) {
            std::vector<int>& group = chain.slots[depth(before)];
            group[chain.at[slot]] = group.back();
            chain.at[group.back()] = chain.at[slot];
            group.pop_back();
        }
        if (after) {
            std::vector<int>& group = chain.slots[depth(after)];
            chain.at[slot] = int(group.size());
            group.push_back(slot);
        }
    }

    const State<T>& state_;
    std::vector<Place> place_;
    std::vector<Chain> chains_;
    bool known_ = false;
};

}  // namespace bomkl
