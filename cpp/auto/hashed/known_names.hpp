// Names that a column of a table has shown, and which of them a misspelt one stands for.
//
// A rare name stands for a name that came far more often and is a few edits away: for each edit it must have come kEditCost
// times as often, as in spelling correction by a noisy channel. Letters are told apart by their lowest six bits.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace bomkl::automatic {

inline constexpr std::size_t kName = 24;           // letters from which on a text is a sentence
inline constexpr std::size_t kMostNames = 2048;    // of a column
inline constexpr std::size_t kMostEdits = 2;       // between a name and the one it stands for
inline constexpr std::size_t kLettersPerEdit = 3;  // shorter names have fewer edits
inline constexpr double kEditCost = 8;

// A text of less than kName letters.
struct Name {
    std::uint8_t length = 0;
    std::array<std::uint8_t, kName - 1> letters{};

    // Whether a text is a name: a longer one is a sentence, and with other digits it is another identifier.
    static bool is(std::span<const std::uint32_t> text) {
        return text.size() < kName &&
               std::none_of(text.begin(), text.end(), [](std::uint32_t c) { return c >= '0' && c <= '9'; });
    }

    static Name of(std::span<const std::uint32_t> text) {
        Name name;
        for (std::uint32_t letter : text) name.letters[name.length++] = letter & 63;
        return name;
    }

    std::uint64_t used() const {  // a bit for each letter
        std::uint64_t bits = 0;
        for (std::size_t i = 0; i < length; ++i) bits |= std::uint64_t(1) << letters[i];
        return bits;
    }
};

// How many letters have to be changed, put in, left out or swapped with the next one to turn a name into others. A column of
// the table of distances between beginnings is held as bits, one for each letter (Hyyrö, "A bit-vector algorithm for computing
// Levenshtein and Damerau edit distances", 2003).
class Edits {
public:
    explicit Edits(const Name& name) : length_(name.length) {
        for (std::size_t i = 0; i < name.length; ++i) places_[name.letters[i]] |= std::uint32_t(1) << i;
    }

    std::size_t to(const Name& other) const {
        if (length_ == 0) return other.length;
        std::uint32_t up = ~std::uint32_t(0), down = 0, same = 0, before = 0;
        const std::uint32_t last = std::uint32_t(1) << (length_ - 1);
        std::size_t distance = length_;
        for (std::size_t i = 0; i < other.length; ++i) {
            const std::uint32_t match = places_[other.letters[i]], swapped = ((~same & match) << 1) & before;
            same = (((match & up) + up) ^ up) | match | down | swapped;
            std::uint32_t more = down | ~(same | up), less = same & up;
            distance += (more & last) != 0;
            distance -= (less & last) != 0;
            more = (more << 1) | 1, less <<= 1;
            up = less | ~(same | more), down = more & same;
            before = match;
        }
        return distance;
    }

private:
    std::size_t length_;
    std::array<std::uint32_t, 64> places_{};
};

// Names with their codes and counts. When there is no more room, the half that came less often is forgotten.
class KnownNames {
public:
    struct Held {
        std::vector<std::uint64_t> codes, used;
        std::vector<double> counts;
        std::vector<Name> names;
    };

    // The code of the name that one stands for, maybe its own; 0 for none.
    std::uint64_t meant(std::uint64_t code, const Name& name) const {
        if (!held_) return 0;
        const Held& held = *held_;
        const std::size_t own = place(code), most = std::min<std::size_t>(kMostEdits, name.length / kLettersPerEdit);
        const std::uint64_t used = name.used();
        const Edits edits(name);
        double best = own < held.codes.size() ? held.counts[own] : 0.0;
        std::uint64_t found = best > 0 ? code : 0;
        for (std::size_t i = 0; i < held.codes.size(); ++i) {
            // an edit adds at most one letter to those in use, and takes at most one away
            if (held.counts[i] <= best || std::size_t(std::popcount(held.used[i] ^ used)) > 2 * most) continue;
            const std::size_t distance = edits.to(held.names[i]);
            if (distance > most) continue;
            double likely = held.counts[i];
            for (std::size_t left = distance; left > 0; --left) likely /= kEditCost;
            if (likely > best) best = likely, found = held.codes[i];
        }
        return found;
    }

    void learn(std::uint64_t code, const Name& name) {
        if (held_ && held_.use_count() > 1) held_ = std::make_shared<Held>(*held_);
        if (held_)
            if (const std::size_t own = place(code); own < held_->codes.size()) {
                held_->counts[own] += 1;
                return;
            }
        if (held_ && held_->codes.size() == kMostNames) forget();
        add(code, 1.0, name);
    }

    // Puts in a name that is not there.
    void add(std::uint64_t code, double count, const Name& name) {
        if (!held_) held_ = std::make_shared<Held>();
        held_->codes.push_back(code);
        held_->used.push_back(name.used());
        held_->counts.push_back(count);
        held_->names.push_back(name);
    }

    const Held* held() const { return held_.get(); }
    std::size_t bytes() const { return held_ ? held_->names.capacity() * (sizeof(Name) + 3 * sizeof(double)) : 0; }

private:
    std::size_t place(std::uint64_t code) const {
        return std::size_t(std::find(held_->codes.begin(), held_->codes.end(), code) - held_->codes.begin());
    }

    // Of names that came as often, those that came first stay.
    void forget() {
        const auto all = std::exchange(held_, nullptr);
        std::vector<std::size_t> order(all->codes.size());
        std::iota(order.begin(), order.end(), std::size_t(0));
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t b) { return all->counts[a] > all->counts[b]; });
        for (std::size_t i : std::span(order).first(kMostNames / 2)) add(all->codes[i], all->counts[i], all->names[i]);
    }

    std::shared_ptr<Held> held_;
};

}  // namespace bomkl::automatic
