// Reading svmlight text: "label [qid:n] index:value index:value ... [# comment]", one row a line.
//
// A free function over bytes already in memory. It is strict: whatever it cannot read exactly is an error at a byte
// offset, never a guess. It stops between rows, so the caller can go on from `consumed`. Bad lines are skipped and
// listed, or the first one ends the reading; either way every byte is looked at once.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace bomkl::svmlight {

// Sparse matrices are read with 32-bit column numbers by most who use them.
inline constexpr std::int64_t max_features = std::numeric_limits<std::int32_t>::max();

enum class Error : int {
    none = 0,
    label_missing,        // the line starts with index:value and labels were asked for
    label_not_number,     // also a label list "1,2" and a label that is not finite
    index_not_number,     // what stands before ':' is not a whole number, or there is no ':'
    index_below_base,     // index 0 in a file whose indices start at 1
    index_not_ascending,  // repeated or out of order
    index_too_large,      // beyond what a sparse matrix can index
    value_not_number,     // what stands after ':' is not a finite number
};

struct Rows {
    std::vector<double> labels;               // NaN where a row has none
    std::vector<std::int32_t> row_starts{0};  // CSR row pointers
    std::vector<std::int32_t> indices;        // counted from 0
    std::vector<double> values;
    std::vector<std::int64_t> lines;          // line of each row, counted from 0
    std::vector<std::int32_t> errors;         // of lines that could not be read
    std::vector<std::int64_t> error_offsets;  // first byte of the token that could not be read
    std::vector<std::int64_t> error_lines;
    std::size_t consumed = 0;  // bytes read, whole lines only
    std::int64_t lines_read = 0;
};

namespace detail {

inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
inline bool ends_token(char c) { return is_blank(c) || c == '\n' || c == '#'; }

// Reads one finite number from [p, end) that must stop where a token stops; returns its end, or nullptr.
inline const char* read_number(const char* p, const char* end, double& value) {
    // One digit is by far the most frequent value of one-hot data, and needs no general parser.
    if (end - p >= 1 && *p >= '0' && *p <= '9' && (end - p == 1 || ends_token(p[1]))) {
        value = *p - '0';
        return p + 1;
    }
    if (p < end && *p == '+') {
        ++p;
        if (p < end && *p == '-') return nullptr;
    }
    const auto [stop, code] = std::from_chars(p, end, value);
    if (code != std::errc{}) return nullptr;  // a number too large or too small for a double is refused, not rounded
    if (stop < end && !ends_token(*stop)) return nullptr;
    return std::isfinite(value) ? stop : nullptr;
}

inline bool is_qid(const char* p, const char* end) {
    return end - p >= 4 && p[0] == 'q' && p[1] == 'i' && p[2] == 'd' && p[3] == ':';
}

// Reads the pairs of one line from p on; gives where they end, and in `error` what could not be read there.
inline const char* read_pairs(const char* p, const char* end, std::int64_t base, Rows& rows, Error& error) {
    const auto fail = [&](Error kind, const char* at) {
        error = kind;
        return at;
    };
    std::int64_t previous = base - 1;
    for (bool first = true;; first = false) {
        while (p < end && is_blank(*p)) ++p;
        if (p == end || *p == '\n' || *p == '#') return p;
        if (first && is_qid(p, end)) {  // a query number groups rows for ranking; it is no feature
            std::int64_t query = 0;
            const auto [stop, code] = std::from_chars(p + 4, end, query);
            if (code != std::errc{} || (stop < end && !ends_token(*stop))) return fail(Error::index_not_number, p);
            p = stop;
            continue;
        }
        std::int64_t index = 0;
        const auto [stop, code] = std::from_chars(p, end, index);
        if (code != std::errc{} || stop == end || *stop != ':') return fail(Error::index_not_number, p);
        if (index < base) return fail(Error::index_below_base, p);
        if (index <= previous) return fail(Error::index_not_ascending, p);
        if (index - base >= max_features) return fail(Error::index_too_large, p);
        double value = 0.0;
        const char* const after = read_number(stop + 1, end, value);
        if (after == nullptr) return fail(Error::value_not_number, stop + 1);
        rows.indices.push_back(static_cast<std::int32_t>(index - base));
        rows.values.push_back(value);
        previous = index;
        p = after;
    }
}

}  // namespace detail

// Parses at most `max_rows` rows of the `size` bytes at `data`; the last line may lack its newline.
// `base` is the smallest index the file uses: 1, or 0 for zero-based files.
inline Rows parse(const char* data, std::size_t size, std::size_t max_rows, std::int64_t base, bool labels_required,
                  bool skip_bad_lines) {
    using namespace detail;
    Rows rows;
    const char* const end = data + size;
    const char* p = data;
    // A guess at the usual row (eight pairs); the vectors grow if it is wrong.
    rows.indices.reserve(8 * std::min(max_rows, size / 16));
    rows.values.reserve(8 * std::min(max_rows, size / 16));

    while (p < end && rows.labels.size() < max_rows && (skip_bad_lines || rows.errors.empty())) {
        const std::size_t kept = rows.indices.size();
        while (p < end && is_blank(*p)) ++p;
        if (p < end && *p != '\n' && *p != '#') {  // otherwise blank or only a comment: no row
            double label = std::numeric_limits<double>::quiet_NaN();
            Error error = Error::none;
            const char* colon = p;
            while (colon < end && !ends_token(*colon) && *colon != ':') ++colon;
            if (colon < end && *colon == ':') {
                if (labels_required) error = Error::label_missing;
            } else if (const char* const stop = read_number(p, end, label); stop != nullptr) {
                p = stop;
            } else {
                error = Error::label_not_number;
            }
            if (error == Error::none) p = read_pairs(p, end, base, rows, error);
            if (error == Error::none) {
                rows.labels.push_back(label);
                rows.row_starts.push_back(static_cast<std::int32_t>(rows.indices.size()));
                rows.lines.push_back(rows.lines_read);
            } else {
                rows.indices.resize(kept);
                rows.values.resize(kept);
                rows.errors.push_back(static_cast<std::int32_t>(error));
                rows.error_offsets.push_back(p - data);
                rows.error_lines.push_back(rows.lines_read);
            }
        }
        while (p < end && *p != '\n') ++p;  // the comment, or the rest of a line that cannot be read
        if (p < end) ++p;
        ++rows.lines_read;
        rows.consumed = static_cast<std::size_t>(p - data);
    }
    return rows;
}

}  // namespace bomkl::svmlight
