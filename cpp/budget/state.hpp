// All that an engine has learned, as values, written out and read back as plain arrays. Copies share rows and the
// coefficients that lie beside them (see Pool), so that a copy takes little more time and memory than the lists of numbers.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "budget/expansion.hpp"
#include "budget/fourier.hpp"
#include "budget/pool.hpp"

namespace bomkl {

template <class T>
struct TileTerm {  // coefficients that one expansion gives to the rows of a tile
    int kernel, expansion;
    alignas(64) T coef[kTile];
};

template <class T>
struct State {
    State(int features, bool sparse, int n_expansions, int n_kernels)
        : pool(features, sparse, n_kernels + 1), expansions(n_expansions),
          log_weights(n_expansions, -std::log(double(n_kernels))), n_support(n_expansions, 0),
          kernel_mistakes(n_expansions, 0) {}

    // Sequence 0 of the pool holds rows that several kernels use, and all rows of lists; 1 + i, those of kernel i.
    Pool<T> pool;
    std::vector<Expansion<T>> expansions;                               // lists
    std::vector<std::shared_ptr<std::vector<TileTerm<T>>>> tile_terms;  // of GrowingScores
    std::vector<double> log_weights;
    std::vector<std::int64_t> n_support;  // of GrowingScores
    std::vector<std::int64_t> kernel_mistakes;
    std::int64_t mistakes = 0, n_seen = 0;
    std::shared_ptr<const Frequencies<T>> frequencies;  // where the rule learns from Fourier features; copies share them

    std::vector<TileTerm<T>>& own_terms(std::size_t q) {
        while (tile_terms.size() <= q) tile_terms.push_back(std::make_shared<std::vector<TileTerm<T>>>());
        if (!is_only_holder(tile_terms[q])) tile_terms[q] = std::make_shared<std::vector<TileTerm<T>>>(*tile_terms[q]);
        return *tile_terms[q];
    }
    std::size_t bytes() const {
        std::size_t total = pool.bytes() + (frequencies ? frequencies->bytes() : 0);
        for (const auto& tile : tile_terms) total += tile->capacity() * sizeof(TileTerm<T>);
        for (const auto& e : expansions)
            total += e.slots.capacity() * sizeof(int) + e.coefs.capacity() * sizeof(T) +
                     (e.diagonal.capacity() + e.inverse_gram.capacity()) * sizeof(double);
        return total;
    }
};

// The plain arrays. Rows are numbered without gaps; expansion e owns terms starts[e] to starts[e + 1], in order of insertion.
template <class T>
struct StateArrays {
    int n_rows = 0;
    std::vector<T> rows;  // dense; or, without their zeros, entries row_starts[s] to row_starts[s + 1] of these:
    std::vector<T> row_values;
    std::vector<std::int32_t> row_columns;
    std::vector<std::int64_t> row_starts{0};
    std::vector<std::int64_t> term_starts{0};
    std::vector<std::int32_t> term_rows;
    std::vector<double> term_coefs;  // as stored; scales times these are the true ones
    std::vector<double> scales;
    std::vector<double> forgetron;  // mistakes and damage of each expansion
    std::vector<std::int64_t> gram_starts{0};
    std::vector<double> inverse_gram;
    std::vector<double> feature_weights;  // of Fourier features, as many for each expansion
};

// Rows that lie in tiles keep their order, which is that of their terms. Listed rows are numbered by first use, so that equal
// models are written as equal arrays whichever slots their rows happen to lie in.
template <class T>
std::vector<int> slots_in_order(const State<T>& state) {
    std::vector<int> order;
    std::vector<char> seen(state.pool.n_slots(), 0);
    const auto visit = [&](int slot) {
        if (!seen[slot]) order.push_back(slot);
        seen[slot] = 1;
    };
    for (const Expansion<T>& expansion : state.expansions)
        for (const int slot : expansion.slots) visit(slot);
    for (int slot = 0; slot < state.pool.n_slots(); ++slot)
        if (state.pool.used(slot)) visit(slot);
    return order;
}

template <class T>
StateArrays<T> to_arrays(const State<T>& state) {
    StateArrays<T> out;
    const int features = state.pool.features();
    std::vector<std::int32_t> number(state.pool.n_slots());
    for (const int slot : slots_in_order(state)) {
        number[slot] = std::int32_t(out.n_rows++);
        if (state.pool.sparse()) {
            const SparseRow<T>& row = state.pool.sparse_row(slot);
            out.row_values.insert(out.row_values.end(), row.values, row.values + row.n);
            out.row_columns.insert(out.row_columns.end(), row.columns, row.columns + row.n);
            out.row_starts.push_back(std::int64_t(out.row_values.size()));
        } else {
            out.rows.resize(out.rows.size() + features);
            state.pool.read(slot, out.rows.data() + out.rows.size() - features);
        }
    }
    std::vector<std::vector<std::pair<std::int32_t, double>>> in_tiles(state.expansions.size());
    for (std::size_t q = 0; q < state.tile_terms.size(); ++q)
        for (const TileTerm<T>& term : *state.tile_terms[q])
            for (int c = 0; c < kTile; ++c)
                if (term.coef[c] != 0) in_tiles[term.expansion].push_back({number[q * kTile + c], term.coef[c]});
    for (std::size_t e = 0; e < state.expansions.size(); ++e) {
        const Expansion<T>& expansion = state.expansions[e];
        for (const auto& [row, coef] : in_tiles[e]) {
            out.term_rows.push_back(row);
            out.term_coefs.push_back(coef);
        }
        if (state.frequencies)
            out.feature_weights.insert(out.feature_weights.end(), expansion.coefs.begin(), expansion.coefs.end());
        for (int j = 0; j < expansion.size(); ++j) {
            out.term_rows.push_back(number[expansion.slots[j]]);
            out.term_coefs.push_back(expansion.coefs[j]);
        }
        out.term_starts.push_back(std::int64_t(out.term_rows.size()));
        out.scales.push_back(expansion.scale);
        out.forgetron.insert(out.forgetron.end(), {expansion.forgetron.mistakes, expansion.forgetron.damage});
        out.inverse_gram.insert(out.inverse_gram.end(), expansion.inverse_gram.begin(), expansion.inverse_gram.end());
        out.gram_starts.push_back(std::int64_t(out.inverse_gram.size()));
    }
    return out;
}

}  // namespace bomkl
