// Trees of Auto models, on columns coded to bytes.
//
// A row is scored by walking it down every tree in turn: its score does not depend on the rows that come with it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "auto/features/sorted_place.hpp"

namespace bomkl::automatic {

// Codes up to the cut go to node `next`, larger ones to `next + 1`. A leaf has split -1 and its number as `next`.
struct Node {
    std::int32_t split;  // 256 times the column, plus the cut
    std::int32_t next;
};

inline int leaf_of(const Node* nodes, std::int32_t root, const std::uint8_t* codes) {
    const Node* node = nodes + root;
    while (node->split >= 0) node = nodes + node->next + (codes[node->split >> 8] > (node->split & 255));
    return node->next;
}

// Walks many at a time, so that none waits for the memory of another: pair i is root(i) and the codes of row(i), leaf(i,
// number) takes its leaf.
template <class Root, class Row, class Leaf>
void walk(const Node* nodes, std::size_t n, Root&& root, Row&& row, Leaf&& leaf) {
    constexpr std::size_t kLanes = 8;
    std::int32_t at[kLanes];
    const std::uint8_t* codes[kLanes];
    std::size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        for (std::size_t l = 0; l < kLanes; ++l) at[l] = root(i + l), codes[l] = row(i + l);
        for (bool going = true; going;) {
            going = false;
            for (std::size_t l = 0; l < kLanes; ++l) {
                const Node node = nodes[at[l]];
                const std::int32_t inner = ~(node.split >> 31);  // all ones where it is no leaf
                const std::int32_t next = node.next + (codes[l][(node.split & inner) >> 8] > (node.split & 255));
                at[l] = (next & inner) | (at[l] & ~inner);
                going |= inner != 0;
            }
        }
        for (std::size_t l = 0; l < kLanes; ++l) leaf(i + l, nodes[at[l]].next);
    }
    for (; i < n; ++i) leaf(i, leaf_of(nodes, root(i), row(i)));
}

// What can be walked without leaving the arrays, and without end: nodes lead to later ones only, columns and leaves exist.
inline bool sound(const Node* nodes, std::size_t n, const std::int32_t* roots, std::size_t n_roots, std::size_t leaves,
                  std::size_t columns) {
    for (std::size_t i = 0; i < n; ++i) {
        if (nodes[i].split < -1) return false;
        if (nodes[i].split == -1) {
            if (nodes[i].next < 0 || std::size_t(nodes[i].next) >= leaves) return false;
        } else if (std::size_t(nodes[i].split >> 8) >= columns || nodes[i].next <= std::int64_t(i) ||
                   std::size_t(nodes[i].next) + 1 >= n) {
            return false;
        }
    }
    return std::all_of(roots, roots + n_roots, [&](std::int32_t r) { return r >= 0 && std::size_t(r) < n; });
}

// How many of the sorted cuts of its column lie below each value.
inline void code_rows(const double* x, std::size_t n, std::size_t d, const double* cuts, const std::int64_t* starts,
                      std::uint8_t* out) {
    for (std::size_t j = 0; j < d; ++j) {
        const double* of_column = cuts + starts[j];
        const auto length = std::size_t(starts[j + 1] - starts[j]);
        for (std::size_t t = 0; t < n; ++t) out[t * d + j] = std::uint8_t(count_below(of_column, length, x[t * d + j]));
    }
}

// scores (n, outputs): the base, then every tree in turn.
inline void boosted_scores(const Node* nodes, const std::int32_t* roots, const std::int32_t* outputs, std::size_t trees,
                           const float* values, const double* base, std::size_t n_outputs, const std::uint8_t* codes,
                           std::size_t n, std::size_t d, double* scores) {
    for (std::size_t t = 0; t < n; ++t) std::copy_n(base, n_outputs, scores + t * n_outputs);
    if (n == 1) {
        walk(
            nodes, trees, [&](std::size_t i) { return roots[i]; }, [&](std::size_t) { return codes; },
            [&](std::size_t i, std::int32_t leaf) { scores[outputs[i]] += double(values[leaf]); });
        return;
    }
    for (std::size_t i = 0; i < trees; ++i)
        walk(
            nodes, n, [&](std::size_t) { return roots[i]; }, [&](std::size_t t) { return codes + t * d; },
            [&](std::size_t t, std::int32_t leaf) { scores[t * n_outputs + outputs[i]] += double(values[leaf]); });
}

}  // namespace bomkl::automatic
