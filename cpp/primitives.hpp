// The arithmetic that must run at the speed of the machine, behind a table of functions chosen at run time.
//
// Rows are stored in tiles of 64, feature-major inside a tile, so that one feature of a row broadcasts against 64 columns.
// A score is kept as 16 partial sums: the term of slot s goes to lane s mod 16, in order of s. Appending a row therefore
// gives the same bits as evaluating the longer pool anew.
#pragma once

#include <cstddef>

#include "kernels.hpp"

namespace bomkl {

inline constexpr int kTile = 64;
inline constexpr int kLanes = 16;
inline constexpr unsigned kAllGroups = (1u << (kTile / kLanes)) - 1;

template <class T>
struct Rows {  // a block of rows, row-major
    const T* x;
    std::size_t stride;
    const T* norm;            // squared norms
    const T* inverse_length;  // 1/|x|, 0 for a zero row
    int features;
};

template <class T>
struct Term {  // the coefficients one kernel expansion gives to the 64 rows of a tile
    int kernel;
    int expansion;
    const T* coef;
    unsigned groups;  // which of the four groups of 16 rows have a coefficient other than zero
};

template <class T>
struct Tile {
    const T* x;
    const T* norm;
    const T* inverse_length;
    const Term<T>* terms;  // sorted so that Gaussians come widest first
    int n_terms;
};

template <class T>
struct NewTerm {  // a coefficient for a row that has just become support
    int kernel;
    int expansion;
    T coef;
};

template <class T>
struct Primitives {
    // partial[row][expansion][lane] += coefficient * kernel value, over all tiles
    void (*evaluate)(const Rows<T>&, int begin, int end, const Tile<T>*, int n_tiles, const KernelSpec*, T* partial,
                     int n_expansions);
    // the same for one new support row (row r of the block) and the rows after it
    void (*append)(const Rows<T>&, int r, int n, const Tile<T>* block_tiles, const NewTerm<T>*, int n_terms, int lane,
                   const KernelSpec*, T* partial, int n_expansions);
    T (*sum_lanes)(const T* lanes);
    // inner products of rows with tiles: out[row * stride + slot]
    void (*inner)(const Rows<T>&, int begin, int end, const Tile<T>*, int n_tiles, T* out, std::size_t stride);
    // squared distances and cosines of one row to n_tiles tiles, from its inner products (pointers may be null)
    void (*relate)(const Rows<T>&, int r, const Tile<T>*, int n_tiles, const T* inner, T* distance, T* cosine);
    // kernel values of listed slots, and their weighted sum
    T (*expand)(const KernelSpec&, const T* inner, const T* distance, const T* cosine, const int* slots, const T* coef,
                int n, T* values);
    // weighted sum with kernel values that are already there
    T (*weighted_sum)(const T* coef, const T* values, int n);
    // measured limits of this core, for benchmarks: exps of n values in place
    void (*exp_many)(T* values, std::size_t n);
};

struct InstructionSet {
    const char* name;
    bool (*supported)();
    const Primitives<float>* single_precision;
    const Primitives<double>* double_precision;
};

// Best first. `instruction_sets()` lists all that were compiled in; the last one runs everywhere.
const InstructionSet* instruction_sets(int& count);

}  // namespace bomkl
