// What the cells of a table say to hashed models: a code for each cell, pairs of codes, words and character n-grams.
//
// What a column is (a category, an identifier, free text, whole numbers that act like categories, a quantity) follows from
// counts of the rows before, and may change with every row.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "auto/hashed/hashing.hpp"
#include "auto/hashed/known_names.hpp"

namespace bomkl::automatic {

inline constexpr std::size_t kSlots = 3;          // of a column: its value, and of dates the hour and the weekday
inline constexpr double kMostWholeNumbers = 400;  // distinct whole numbers of a column that counts as a category
inline constexpr double kMostOfIdentifier = 0.8;  // distinct whole numbers, as a share of the rows, of an identifier
inline constexpr int kBins = 16;                  // of equal counts, of a quantity
inline constexpr std::size_t kMostKept = 2048;    // numbers from which bins are made
inline constexpr double kUndecidedRows = 100;     // before which a text may be anything
inline constexpr double kMostInPairs = 0.2;       // distinct values, as a share of the rows, of a text that goes into pairs
inline constexpr double kFewTexts = 30;           // distinct texts of a column whose words say nothing more
inline constexpr double kLeastLetters = 3.5;      // mean length of texts with n-grams
inline constexpr double kLeastTexts = 0.01;       // distinct texts, as a share of the rows, of a column with n-grams
inline constexpr std::size_t kMostPairs = 128;    // of columns
inline constexpr std::size_t kMostGramLetters = 1000;  // of a text, for n-grams
inline constexpr double kFarNumber = 8;                // deviations

// The number of different codes: exact up to a thousand. Beyond, every second code is left out, then every second of those ...
class Distinct {
public:
    double count() const { return kept_ ? double(kept_->size()) * std::ldexp(1.0, level_) : 0.0; }

    void add(std::uint64_t code) {
        if (code & ((std::uint64_t(1) << level_) - 1)) return;
        if (!kept_) kept_ = std::make_shared<std::vector<std::uint64_t>>();
        auto at = std::lower_bound(kept_->begin(), kept_->end(), code);
        if (at != kept_->end() && *at == code) return;
        const auto place = at - kept_->begin();
        if (kept_.use_count() > 1) kept_ = std::make_shared<std::vector<std::uint64_t>>(*kept_);
        kept_->insert(kept_->begin() + place, code);
        while (kept_->size() > kMost) {
            ++level_;
            std::erase_if(*kept_, [&](std::uint64_t each) { return each & ((std::uint64_t(1) << level_) - 1); });
        }
    }

    void clear() { kept_.reset(); }

    int level() const { return level_; }
    std::vector<std::uint64_t> codes() const { return kept_ ? *kept_ : std::vector<std::uint64_t>(); }
    void restore(int level, std::vector<std::uint64_t> codes) {
        level_ = level;
        kept_ = std::make_shared<std::vector<std::uint64_t>>(std::move(codes));
    }
    std::size_t bytes() const { return kept_ ? kept_->capacity() * sizeof(std::uint64_t) : 0; }

    static constexpr std::size_t kMost = 1024;

private:
    int level_ = 0;
    std::shared_ptr<std::vector<std::uint64_t>> kept_;
};

enum class CellKind : std::uint8_t { none, text, number, date, code };  // code: whole numbers, each a value

// The cells of one column of a block of rows.
struct CellColumn {
    CellKind kind = CellKind::none;
    const double* numbers = nullptr;     // NaN for a gap; of a date days since 1970
    std::vector<std::uint64_t> hashes;   // of texts; 0 for a gap
    std::vector<std::size_t> starts;     // of the letters of each text
    std::vector<std::uint32_t> letters;  // in lower case, white space as ' '
    bool is_gap(std::size_t row) const {
        return kind == CellKind::none || (kind == CellKind::text ? hashes[row] == 0 : std::isnan(numbers[row]));
    }
};

// What one slot of a column has shown.
struct Slot {
    double rows = 0;                          // with a value or a gap
    double texts = 0;                         // rows with a text
    double letters = 0;                       // of them
    double count = 0, mean = 0, squares = 0;  // of numbers, squares around the mean
    bool whole = true;                        // whether all numbers were whole
    int n_cuts = 0;
    std::array<double, kBins - 1> cuts{};
    std::size_t n_kept = 0;
    std::shared_ptr<std::vector<double>> kept;  // first numbers; a fork writes behind what others have
    Distinct distinct;
    KnownNames names;

    bool is_text() const { return texts > 0; }
    bool goes_into_pairs() const { return !is_text() || rows < kUndecidedRows || distinct.count() < kMostInPairs * rows; }
    bool has_words() const {
        if (!is_text()) return false;
        if (rows < kUndecidedRows) return true;
        const double different = distinct.count();
        return different > kFewTexts && letters > kLeastLetters * texts && different > kLeastTexts * rows;
    }
    bool is_category() const { return whole && distinct.count() <= kMostWholeNumbers; }
    bool is_identifier() const { return whole && !is_category() && distinct.count() < kMostOfIdentifier * rows; }
    bool says_something() const { return is_category() ? distinct.count() >= 2 : n_cuts > 0; }

    // A number in deviations from the mean of those before it.
    double standard(double x) const {
        const double deviation = count > 1 ? std::sqrt(squares / count) : 0.0;
        if (!(deviation > 1e-9 * std::abs(mean)) || std::isnan(x)) return 0.0;
        return std::clamp((x - mean) / deviation, -kFarNumber, kFarNumber);
    }

    void learn_number(double x, std::uint64_t code) {
        count += 1;
        const double before = x - mean;
        mean += before / count;
        squares = std::min(squares + before * (x - mean), 1e300);
        if (whole) {
            distinct.add(code);
            whole = is_whole(x);
            if (!whole) distinct.clear();
        }
        if (n_kept < kMostKept) keep(x);
    }

    static bool is_whole(double x) { return std::abs(x) < 0x1p53 && x == std::floor(x); }

private:
    void keep(double x) {
        if (!kept || kept->size() == n_kept) {
            auto more = std::make_shared<std::vector<double>>(std::max<std::size_t>(32, 2 * n_kept));
            if (kept) std::copy_n(kept->begin(), n_kept, more->begin());
            kept = std::move(more);
        }
        (*kept)[n_kept++] = x;
        if (n_kept == 32 || n_kept == 128 || n_kept == 512 || n_kept == kMostKept) {
            std::vector<double> sorted(kept->begin(), kept->begin() + std::ptrdiff_t(n_kept));
            std::sort(sorted.begin(), sorted.end());
            n_cuts = 0;
            for (int i = 1; i < kBins; ++i) {
                const double cut = sorted[n_kept * std::size_t(i) / kBins];
                if (cut > sorted[0] && (n_cuts == 0 || cut > cuts[std::size_t(n_cuts) - 1])) cuts[std::size_t(n_cuts++)] = cut;
            }
            if (n_kept == kMostKept) kept.reset();
        }
    }
};

// A hashed feature of a row. Where it comes from, for explanations: slots, or letters of a text.
struct HashedFeature {
    std::uint64_t hash;
    double value;
    std::int32_t slot, other;  // other: of a pair, -1 for none
    std::int32_t begin, end;   // letters, of words and n-grams, in the text with a space on either side
};

// The features of one row, and what is needed to find them.
class HashedRow {
public:
    std::vector<HashedFeature> values, pairs, words;        // pairs do not repeat the values
    std::vector<std::pair<std::uint32_t, double>> numbers;  // slot, standardised

    // Finds the features of a row, by what the rows before it have shown.
    void read(const std::vector<Slot>& slots, const std::vector<CellColumn>& cells, std::size_t row) {
        values.clear(), pairs.clear(), words.clear(), numbers.clear();
        find_codes(slots, cells, row);
        for (std::size_t s = 0; s < slots.size(); ++s) {
            if (!there_[s]) continue;
            if (!std::isnan(numbers_[s]))
                if (const double z = slots[s].standard(numbers_[s]); z != 0) numbers.push_back({std::uint32_t(s), z});
            if (shown_[s]) values.push_back({codes_[s], 1.0, std::int32_t(s), -1, 0, 0});
            if (!std::isnan(numbers_[s]) && (slots[s].is_identifier() || (is_code(cells, s) && !slots[s].is_category())))
                values.push_back({raw_[s], 1.0, std::int32_t(s), -1, 0, 0});
        }
        able_.clear();
        for (bool text : {true, false})  // texts first
            for (std::size_t s = 0; s < slots.size(); ++s)
                if (shown_[s] && slots[s].is_text() == text && slots[s].goes_into_pairs()) able_.push_back(s);
        for (std::size_t j = 0; j < able_.size(); ++j)
            for (std::size_t i = 0; i < j && pairs.size() < kMostPairs; ++i) {
                const std::size_t a = std::min(able_[i], able_[j]), b = std::max(able_[i], able_[j]);
                pairs.push_back({mixed(codes_[a] * 3 ^ codes_[b]), 1.0, std::int32_t(a), std::int32_t(b), 0, 0});
            }
        for (std::size_t c = 0; c < cells.size(); ++c)
            if (cells[c].kind == CellKind::text && !cells[c].is_gap(row) && slots[c * kSlots].has_words())
                find_words(slots[c * kSlots].names, cells[c], row, c * kSlots);
    }

    // Lets the slots learn from the row that `read` was called with last.
    void learn(std::vector<Slot>& slots, const std::vector<CellColumn>& cells, std::size_t row) const {
        for (std::size_t s = 0; s < slots.size(); ++s) {
            if (!there_[s]) continue;
            Slot& slot = slots[s];
            slot.rows += 1;
            if (!std::isnan(numbers_[s])) {
                slot.learn_number(numbers_[s], raw_[s]);
                continue;
            }
            if (slot.whole) slot.distinct.add(raw_[s]);
            const CellColumn& column = cells[s / kSlots];
            if (column.kind == CellKind::text && !column.is_gap(row)) {
                slot.texts += 1;
                const std::span text(column.letters.data() + column.starts[row], column.starts[row + 1] - column.starts[row]);
                slot.letters += double(text.size());
                if (Name::is(text) && slot.has_words()) slot.names.learn(raw_[s], Name::of(text));
            }
        }
    }

private:
    // What each slot shows in a row: whether it is there at all, its number, and its code.
    void find_codes(const std::vector<Slot>& slots, const std::vector<CellColumn>& cells, std::size_t row) {
        const std::size_t n = slots.size();
        there_.assign(n, 0), shown_.assign(n, 0), codes_.assign(n, 0), raw_.assign(n, 0), numbers_.assign(n, std::nan(""));
        for (std::size_t c = 0; c < cells.size(); ++c) {
            const CellColumn& column = cells[c];
            const std::size_t s = c * kSlots;
            there_[s] = 1;
            if (column.is_gap(row)) {
                raw_[s] = mixed(salt(s) ^ 1);
                codes_[s] = raw_[s];
                shown_[s] = slots[s].says_something();
            } else if (column.kind == CellKind::text) {
                raw_[s] = codes_[s] = mixed(salt(s) ^ column.hashes[row]);
                shown_[s] = slots[s].distinct.count() >= 2;
            } else if (column.kind == CellKind::number || column.kind == CellKind::code) {
                number(slots, s, column.numbers[row]);
            } else {
                const double days = column.numbers[row], whole = std::floor(days);
                number(slots, s, day_of_year(whole));
                there_[s + 1] = there_[s + 2] = 1;
                number(slots, s + 1, std::floor((days - whole) * 24));
                number(slots, s + 2, whole - 7 * std::floor(whole / 7));
            }
        }
    }

    void number(const std::vector<Slot>& slots, std::size_t s, double x) {
        const Slot& slot = slots[s];
        numbers_[s] = x;
        raw_[s] = mixed(salt(s) ^ mixed(std::bit_cast<std::uint64_t>(x == 0 ? 0.0 : x)));
        if (slot.is_category() && Slot::is_whole(x)) {
            codes_[s] = raw_[s];
            shown_[s] = slot.says_something();
        } else if (slot.n_cuts > 0) {
            const auto bin = std::upper_bound(slot.cuts.begin(), slot.cuts.begin() + slot.n_cuts, x) - slot.cuts.begin();
            codes_[s] = mixed(salt(s) ^ (0x42494E00u + std::uint64_t(bin)));
            shown_[s] = !slot.is_category();
        }
    }

    static bool is_code(const std::vector<CellColumn>& cells, std::size_t slot) {
        return cells[slot / kSlots].kind == CellKind::code;
    }

    static std::uint64_t salt(std::size_t slot) { return mixed(std::uint64_t(slot) + 1); }

    static double day_of_year(double days) {
        // days since 1970 to the civil calendar, by eras of 400 years that begin in March
        const std::int64_t z = std::int64_t(days) + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
        const std::int64_t of_era = z - era * 146097;
        const std::int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
        const std::int64_t since_march = of_era - (365 * year + year / 4 - year / 100);
        const std::int64_t civil = year + (since_march >= 306);  // of the era: those from January on belong to the next
        const bool leap = civil % 4 == 0 && (civil % 100 != 0 || civil % 400 == 0);
        return double(since_march >= 306 ? since_march - 306 : since_march + 59 + leap);
    }

    // Words and n-grams of a text, either kind of length 1, and the name that it stands for. A single word is the value itself.
    void find_words(const KnownNames& names, const CellColumn& column, std::size_t row, std::size_t slot) {
        text_.assign(1, ' ');
        text_.insert(text_.end(), column.letters.begin() + std::ptrdiff_t(column.starts[row]),
                     column.letters.begin() + std::ptrdiff_t(column.starts[row + 1]));
        text_.push_back(' ');
        const std::size_t first = words.size();
        unique_.clear();
        for (std::size_t begin = 1; begin < text_.size();) {
            std::size_t end = begin;
            std::uint64_t hash = salt(slot) ^ 0x574F5244u;
            for (; text_[end] != ' '; ++end) hash = with_letter(hash, text_[end]);
            if (end > begin && unique_.add(mixed(hash)))
                words.push_back({mixed(hash), 0.0, std::int32_t(slot), -1, std::int32_t(begin), std::int32_t(end)});
            begin = end + 1;
        }
        if (words.size() == first + 1) words.pop_back();
        scale(first);
        if (const std::span text(text_.data() + 1, text_.size() - 2); Name::is(text))
            if (const std::uint64_t meant = names.meant(raw_[slot], Name::of(text)))
                words.push_back({mixed(meant ^ 0x4E414D45u), 1.0, std::int32_t(slot), -1, 0, 0});
        const std::size_t grams = words.size();
        const std::size_t least = text_.size() - 2 < kName ? 2 : 3, most = least + 2;
        const std::size_t length = std::min(text_.size(), kMostGramLetters);
        unique_.clear();
        for (std::size_t begin = 0; begin + least <= length; ++begin) {
            std::uint64_t hash = salt(slot) ^ 0x4752414Du;
            for (std::size_t size = 1; size <= most && begin + size <= length; ++size) {
                hash = with_letter(hash, text_[begin + size - 1]);
                if (size >= least && unique_.add(mixed(hash)))
                    words.push_back(
                        {mixed(hash), 0.0, std::int32_t(slot), -1, std::int32_t(begin), std::int32_t(begin + size)});
            }
        }
        scale(grams);
    }

    void scale(std::size_t first) {
        for (std::size_t i = first; i < words.size(); ++i) words[i].value = 1 / std::sqrt(double(words.size() - first));
    }

    std::vector<std::uint8_t> there_, shown_;
    std::vector<std::uint64_t> codes_, raw_;
    std::vector<double> numbers_;
    std::vector<std::size_t> able_;
    std::vector<std::uint32_t> text_;
    UniqueHashes unique_;
};

}  // namespace bomkl::automatic
