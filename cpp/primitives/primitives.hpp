// The arithmetic that must run at the speed of the machine, behind a table of functions chosen at run time.
//
// Rows are stored in tiles of 64, feature-major inside a tile, so that one feature of a row broadcasts against 64 columns.
// A score is kept as two sets of 16 partial sums: one over the tiles that hold rows of a single kernel, one over the tiles
// shared by several. The term in column c of a tile goes to lane c mod 16, tile after tile. Appending a row therefore gives
// the same bits as evaluating the longer pool anew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "budget/kernel.hpp"

namespace bomkl {

inline constexpr int kTile = 64;
inline constexpr int kLanes = 16;
inline constexpr int kLaneSets = 2;
template <class T>
inline constexpr int kLine{64 / sizeof(T)};                     // rows that are looked at side by side
inline constexpr int kPadding = 4;                              // see Primitives::add_listed
inline constexpr int kMostOnes = 254;                           // a byte can count them
inline constexpr std::uint64_t kAnyColumn = ~std::uint64_t(0);  // no column is known to be zero

template <class T>
struct SparseRow {  // the entries other than zero, columns ascending
    const T* values = nullptr;
    const std::int32_t* columns = nullptr;
    int n = 0;
};

template <class T>
struct Rows {    // a block of rows
    const T* x;  // row-major; null where only `sparse` is there
    std::size_t stride;
    const T* norm;            // squared norms
    const T* inverse_length;  // 1/|x|, 0 for a zero row
    int features;
    const SparseRow<T>* sparse = nullptr;  // null where most entries are not zero
    const std::int32_t* ones = nullptr;    // n_ones columns a row; null unless all entries are 0 or 1
    int n_ones = 0;                        // even and at most kMostOnes; `features` stands for the columns a row lacks
};

template <class T>
struct Term {  // the coefficients one kernel expansion gives to the 64 rows of a tile
    int kernel;
    int expansion;
    const T* coef;
};

template <class T>
struct Tile {
    const T* x;  // null where rows are stored sparse
    const T* norm;
    const T* inverse_length;
    const Term<T>* terms;  // sorted so that Gaussians come last, widest first
    int n_terms;
    const T* largest_norm = nullptr;  // no norm of the tile is above it; a pointer, because rows come and go
    int lane_set = 0;
    const SparseRow<T>* sparse = nullptr;  // null where rows are stored dense
    // x once more, in bytes, then a column of zeros, then the squared norms; null unless all entries are 0 or 1
    const std::uint8_t* bytes = nullptr;
};

template <class T>
struct NewTerm {  // a coefficient for a row that has just become support
    int kernel;
    int expansion;
    T coef;
};

template <class T>
struct Primitives {
    // fill in the values at whole numbers
    void (*tabulate)(PreparedKernel<T>*, int n);
    // partial[row][expansion][set][lane] += coefficient * kernel value, over all tiles
    void (*evaluate)(const Rows<T>&, int begin, int end, const Tile<T>*, int n_tiles, const PreparedKernel<T>*, T* partial,
                     int n_expansions);
    // the same for one row whose inner products with all slots are known
    void (*evaluate_related)(const Rows<T>&, int r, const Tile<T>*, int n_tiles, const T* inner, const PreparedKernel<T>*,
                             T* partial, int n_expansions);
    // the same for one new support row (row r of the block) and the rows after it; inner: its products with the block's tiles
    void (*append)(const Rows<T>&, int r, int n, const Tile<T>* block_tiles, const T* inner, const NewTerm<T>*, int n_terms,
                   int lane_set, int lane, const PreparedKernel<T>*, T* partial, int n_expansions);
    // one score per expansion from its lanes
    void (*sum_lanes)(const T* lanes, int n_expansions, double* scores);
    // inner products of rows with tiles: out[row * stride + slot]
    void (*inner)(const Rows<T>&, int begin, int end, const Tile<T>*, int n_tiles, T* out, std::size_t stride);
    // out = from - inner products of n dense rows with a tile, all [row][column of the tile]; out may be `from`
    void (*subtract_inner)(const Rows<T>&, int n, const T* tile, const T* from, T* out);
    // inner products of n rows with lines of kLanes columns, packed one after another: out[row * stride + line * kLanes +
    // column]
    void (*inner_lines)(const T* x, std::size_t x_stride, int n, int features, const T* lines, int n_lines, T* out,
                        std::size_t stride);
    // inner products of one row with a tile in which a line of kLanes columns has only zeros beyond its depth: out[column]
    void (*inner_depths)(const T* x, const T* tile, const int* depths, T* out);
    // out[slots[i]] += x * values[i]
    void (*scatter)(T x, const std::int32_t* slots, const T* values, int n, T* out);
    // inner product of a sparse row with a dense one
    T (*gather_inner)(const SparseRow<T>&, const T* dense);
    // the other sources of kernels, of one row to n_tiles tiles: out[source], null where it is not needed
    void (*relate)(const Rows<T>&, int r, const Tile<T>*, int n_tiles, const T* inner, T* const* out);
    // Lines: what is about a slot and kLine rows, row beside row, slot after slot.
    // sources of n rows, of one line or two, to n_tiles tiles of dense rows: out[source], null where it is not needed, and the
    // second line `stride` after it; `columns` has the features of the rows, with a stride of kTile, and may hold anything
    // where there are fewer rows than a line has; used: of every slot, a bit for each of its columns that is not zero, or
    // kAnyColumn
    // returns the least squared distance, or something less
    T(*relate_line)
    (const Rows<T>&, int first, int n, const T* columns, const Tile<T>*, int n_tiles, const std::uint64_t* used, T* const* out,
     std::size_t stride);
    // the same for slot c of one tile, for rows first + begin to first + end; the line of out[source] is that of `first`
    T (*relate_slot)(const Rows<T>&, int first, int begin, int end, const T* columns, const Tile<T>&, int c, T* const* out);
    // the same for listed slots, all rows: out[source] has their lines in the order of the list; slot_rows: the rows of all
    // slots once more, row after row, because a list would read a cache line of a tile for every number
    void (*relate_listed)(const Rows<T>&, int n_rows, const T* columns, const Tile<T>*, const T* slot_rows, const int* listed,
                          int n, const std::uint64_t* used, T* const* out);
    // kernel values of listed slots from the kernel's source: values[row * stride + place]; up to a line more may be written;
    // false where all are zero
    bool (*map_line)(const PreparedKernel<T>&, const T* lines, const int* slots, int n, T* values, std::size_t stride);
    // the same for one slot
    void (*map_column)(const PreparedKernel<T>&, const T* line, T* values, std::size_t stride);
    // kernel values of n lines, which stay lines
    void (*map_lines)(const PreparedKernel<T>&, const T* lines, int n, T* values);
    // sums over a list of coef * value, the value of place j being line columns[j], as weighted_sum makes them: kLanes lines,
    // place j in lane j mod kLanes; one lane that goes on from what it is with the places first, first + kLanes ...; and all
    // lanes added up
    void (*sum_line)(const T* coefs, const int* columns, int n, const T* values, T* lanes);
    void (*sum_lane)(const T* coefs, const int* columns, int first, int n, const T* values, T* lane);
    void (*add_lanes)(const T* lanes, T* sums);
    // numbers and their sizes in single precision; returns the least and the largest size
    std::pair<T, T> (*narrow)(const T* numbers, int n, float* out, float* sizes);
    // the least of listed lines, row by row; and sums over listed lines, added to what is there, of coef * value and of size *
    // |value|, the value being the kernel's of what is in the line less `shift`, a line or null (see RoughScores). There must
    // be kPadding zeros behind coefs and sizes.
    void (*least_listed)(const T* lines, const int* listed, int n, T* least);
    void (*add_listed)(const PreparedKernel<T>&, const T* lines, const T* shift, const int* listed, const T* coefs,
                       const T* sizes, int n, T* sums, T* sums_of_sizes);
    // where coef^2 (diagonal - value^2 / self) is least; coef^2 diagonal, where self is zero; without a diagonal, it and self
    // are 1; without values, they are zero
    int (*cheapest)(const T* coefs, const double* diagonal, const T* values, int n, double self);
    // kernel values of listed slots from the kernel's source, and their weighted sum
    T (*expand)(const PreparedKernel<T>&, const T* source, const int* slots, const T* coef, int n, T* values);
    // weighted sum with kernel values that are already there
    T (*weighted_sum)(const T* coef, const T* values, int n);
    // exp(factor x) of n numbers, a multiple of kLanes, in place
    void (*exp_many)(T* values, std::size_t n, T factor);
    // tanh of n numbers, a multiple of kLanes, in place: off by at most 3e-7 of the value
    void (*tanh_many)(T* values, std::size_t n);
    // for n as above, exp(-scale |x - z|^2) from the products of a row x with n rows z, and the squared lengths of x and of
    // those
    void (*gaussians)(T* products, std::size_t n, T norm, const T* norms, T scale);
    // sums of absolute differences of one row to n_tiles tiles of `features` values, packed one after another: out[slot]
    void (*city_block)(const T* x, int features, const T* tiles, int n_tiles, T* out);
    // Fourier features from inner products with frequencies: amplitude times the n cosines, then the n sines, of inner *
    // factors
    void (*waves)(const T* inner, const double* factors, int n, double amplitude, T* out);
    // y += factor * x; whether every y is finite
    bool (*add_multiple)(T factor, const T* x, int n, T* y);
    // a step of Adam on n numbers, a multiple of kLanes, with the moments of their gradients, which move first
    void (*adam)(const T* gradients, std::size_t n, T rate, T* numbers, T* means, T* squares);
    // sums += values in whole units, `units` to one; no value may have more than 2^51 units
    void (*add_fixed)(const T* values, std::size_t n, double units, std::int64_t* sums);
    // the sum of x[j] w[j] in kLanes interleaved parts
    double (*dot)(const T* x, const double* w, std::size_t n);
    // column[v] -= factors[s * kTile + v] * column[s] for all s < v < n, one s after another; `column` has room for kTile
    // numbers, and what is behind the first n may change
    void (*eliminate)(const double* factors, int n, double* column);
    // the transposed inverse of the lower triangle with ones on its diagonal and factors[s * kTile + t] in row t, column s < t,
    // both less than n; `out` has n rows of kTile numbers
    void (*invert)(const double* factors, int n, T* out);
    // row u of a tile = `from` less the sum of factors[s] times row s, for s < u; part[i] += its squares at i mod kLanes
    void (*next_direction)(const T* factors, int u, const T* from, T* tile, double* part);
    // the same functions for numbers of single precision
    const Primitives<float>* single_precision;
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
