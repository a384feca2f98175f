// Lines: a vector's worth of rows side by side, 64 bytes for each slot. Here: inner products and distances as lines.
#pragma once

#include <limits>

#include "distances.hpp"

namespace bomkl::BOMKL_ISA {
namespace {

template <class T>
inline constexpr int kVectorsOfLine{kLine<T> / Simd<T>::width};

// Slots that are related side by side to L lines: as many as the registers hold, and few, so that many columns are zero in all
// of them.
template <class T, int L>
inline constexpr int kSlots{L * kVectorsOfLine<T> <= 2 ? 4 : 2};

#define BOMKL_OF_LINE(v) _Pragma("GCC unroll 8") for (int v = 0; v < kVectorsOfLine<T>; ++v)
#define BOMKL_OF_LINES(v) _Pragma("GCC unroll 8") for (int v = 0; v < V; ++v)
#define BOMKL_SLOTS(i) _Pragma("GCC unroll 8") for (int i = 0; i < S; ++i)

// As repair_distances does it, for one slot and the rows of a line from `begin` on.
template <class T>
[[gnu::noinline]] void repair_line(const Rows<T>& rows, int first, int begin, int end, const Tile<T>& tile, int c, T* line) {
    for (int r = begin; r < end; ++r)
        if (line[r] < (tile.norm[c] + rows.norm[first + r]) * Simd<T>::cancellation)
            line[r] = exact_distance<T>(rows, first + r, tile, c);
}

// Where a slot lies, and its row, and where its line goes.
template <class T>
struct SlotAt {
    const Tile<T>* tile;
    int c;
    const T* x;
    std::size_t out;
};

// Sources between L lines of rows, `first` on, whose features lie in columns of stride kTile, and S slots of dense rows, whose
// features have the stride `step`. The lines of `out` are `stride` apart. Columns that are zero in all of the slots may be
// missing in `used`. Squared distances from `bound` on keep their digits. Returns the least squared distance in each lane;
// distances to rows before `begin` and from `end` on mean nothing.
template <class T, int L, int step, int S>
[[gnu::always_inline]] inline Vec<T> relate_slots(const Rows<T>& rows, int first, int begin, int end, const T* columns, T bound,
                                                  const SlotAt<T> (&slots)[S], std::uint64_t used, T* const* out,
                                                  std::size_t stride) {
    constexpr int W = Simd<T>::width, V = L * kVectorsOfLine<T>;
    const auto in_lines = [&](int v) __attribute__((always_inline)) {
        return v / kVectorsOfLine<T> * stride + v % kVectorsOfLine<T> * W;
    };
    const auto at = [&](int i, int v) __attribute__((always_inline)) { return slots[i].out + in_lines(v); };
    T* const inner = out[int(Source::inner_product)];
    T* const squares = out[int(Source::squared_distance)];
    T* const cosines = out[int(Source::cosine)];
    T* const taxicab = out[int(Source::taxicab)];
    Vec<T> sum[S][V];
    BOMKL_SLOTS(i) BOMKL_OF_LINES(v) sum[i][v] = Vec<T>{};
    const auto add_column = [&](std::size_t j) __attribute__((always_inline)) {
        Vec<T> of_rows[V];
        BOMKL_OF_LINES(v) of_rows[v] = load<T>(columns + j * kTile + v * W);
        BOMKL_SLOTS(i) {
            const Vec<T> b = broadcast<T>(slots[i].x[j * step]);
            BOMKL_OF_LINES(v) sum[i][v] = Simd<T>::fma(b, of_rows[v], sum[i][v]);
        }
    };
    if (used == kAnyColumn)
        for (int j = 0; j < rows.features; ++j) add_column(j);
    else
        for (; used; used &= used - 1) add_column(std::size_t(__builtin_ctzll(used)));
    if (inner) BOMKL_SLOTS(i) BOMKL_OF_LINES(v) store<T>(inner + at(i, v), sum[i][v]);
    if (cosines) BOMKL_SLOTS(i)
    BOMKL_OF_LINES(v)
    store<T>(cosines + at(i, v),
             sum[i][v] * (load<T>(rows.inverse_length + first + v * W) * slots[i].tile->inverse_length[slots[i].c]));
    if (taxicab) BOMKL_SLOTS(i) {
            Vec<T> total[V] = {};
            for (int j = 0; j < rows.features; ++j) {
                const Vec<T> b = broadcast<T>(slots[i].x[std::size_t(j) * step]);
                BOMKL_OF_LINES(v) {
                    const Vec<T> difference = b - load<T>(columns + std::size_t(j) * kTile + v * W);
                    total[v] -= Simd<T>::min(difference, -difference);
                }
            }
            BOMKL_OF_LINES(v) store<T>(taxicab + at(i, v), total[v]);
        }
    if (!squares) return Vec<T>{};
    Vec<T> least = broadcast<T>(std::numeric_limits<T>::infinity()), norms[V];
    BOMKL_OF_LINES(v) norms[v] = load<T>(rows.norm + first + v * W);
    BOMKL_SLOTS(i) {
        const Vec<T> norm = broadcast<T>(slots[i].tile->norm[slots[i].c]);
        BOMKL_OF_LINES(v) sum[i][v] = Simd<T>::fma(broadcast<T>(T(-2)), sum[i][v], norms[v] + norm);
    }
    BOMKL_SLOTS(i) BOMKL_OF_LINES(v) store<T>(squares + at(i, v), sum[i][v]);
    BOMKL_SLOTS(i) BOMKL_OF_LINES(v) least = Simd<T>::min(sum[i][v], least);
    if (__builtin_expect(Simd<T>::any_less(least, broadcast<T>(bound)), 0))
        for (int i = 0; i < S; ++i)
            for (int l = 0; l < L; ++l) {
                T* const line = squares + slots[i].out + l * stride;
                const int before = l * kLine<T>;
                repair_line<T>(rows, first + before, begin > before ? begin - before : 0,
                               end - before < kLine<T> ? end - before : kLine<T>, *slots[i].tile, slots[i].c, line);
                BOMKL_OF_LINE(v) least = Simd<T>::min(load<T>(line + v * W), least);
            }
    return least;
}

// Of numbers that are not negative.
template <class T>
T largest_in(const T* numbers, int n) {
    constexpr int W = Simd<T>::width;
    Vec<T> negative{};
    int i = 0;
    for (; i + W <= n; i += W) negative = Simd<T>::min(-load<T>(numbers + i), negative);
    T largest = -least_entry<T>(negative);
    for (; i < n; ++i) largest = numbers[i] > largest ? numbers[i] : largest;
    return largest;
}

template <class T, int L>
T relate_lines(const Rows<T>& rows, int first, int n, const T* columns, const Tile<T>* tiles, int n_tiles,
               const std::uint64_t* used, T* const* out, std::size_t stride) {
    constexpr int S = kSlots<T, L>;
    const T largest_norm = largest_in<T>(rows.norm + first, n);
    Vec<T> least = broadcast<T>(std::numeric_limits<T>::infinity());
    for (int q = 0; q < n_tiles; ++q) {
        const T bound = (largest_in<T>(tiles[q].norm, kTile) + largest_norm) * Simd<T>::cancellation;
        for (int c = 0; c < kTile; c += S) {
            SlotAt<T> slots[S];
            std::uint64_t used_by_any = 0;
            BOMKL_SLOTS(i) {
                slots[i] = {tiles + q, c + i, tiles[q].x + c + i, std::size_t(q * kTile + c + i) * kLine<T>};
                used_by_any |= used[q * kTile + c + i];
            }
            least = Simd<T>::min(
                relate_slots<T, L, kTile, S>(rows, first, 0, n, columns, bound, slots, used_by_any, out, stride), least);
        }
    }
    return least_entry<T>(least);
}
template <class T>
T relate_line(const Rows<T>& rows, int first, int n, const T* columns, const Tile<T>* tiles, int n_tiles,
              const std::uint64_t* used, T* const* out, std::size_t stride) {
    return n > kLine<T> ? relate_lines<T, 2>(rows, first, n, columns, tiles, n_tiles, used, out, stride)
                        : relate_lines<T, 1>(rows, first, n, columns, tiles, n_tiles, used, out, stride);
}

template <class T>
T relate_slot(const Rows<T>& rows, int first, int begin, int end, const T* columns, const Tile<T>& tile, int c, T* const* out) {
    const T bound = (largest_in<T>(rows.norm + first + begin, end - begin) + tile.norm[c]) * Simd<T>::cancellation;
    const SlotAt<T> slot[1] = {{&tile, c, tile.x + c, 0}};
    relate_slots<T, 1, kTile, 1>(rows, first, begin, end, columns, bound, slot, kAnyColumn, out, 0);
    T least = std::numeric_limits<T>::infinity();
    if (const T* const squares = out[int(Source::squared_distance)])
        for (int r = begin; r < end; ++r) least = squares[r] < least ? squares[r] : least;
    return least;
}

template <class T>
void relate_listed(const Rows<T>& rows, int n_rows, const T* columns, const Tile<T>* tiles, const T* slot_rows,
                   const int* listed, int n, const std::uint64_t* used, T* const* out) {
    constexpr int S = kSlots<T, 1>;
    const T largest_norm = largest_in<T>(rows.norm, n_rows);
    for (int first = 0; first < n; first += S) {
        SlotAt<T> slots[S];
        std::uint64_t used_by_any = 0;
        T largest = 0;
        BOMKL_SLOTS(i) {
            const int place = first + i < n ? first + i : n - 1;
            const unsigned slot = unsigned(listed[place]);
            slots[i] = {tiles + slot / kTile, int(slot % kTile), slot_rows + std::size_t(slot) * rows.features,
                        std::size_t(place) * kLine<T>};
            used_by_any |= used[slot];
            const T norm = slots[i].tile->norm[slots[i].c];
            largest = norm > largest ? norm : largest;
        }
        const T bound = (largest + largest_norm) * Simd<T>::cancellation;
        relate_slots<T, 1, 1, S>(rows, 0, 0, n_rows, columns, bound, slots, used_by_any, out, 0);
    }
}

}  // namespace

}  // namespace bomkl::BOMKL_ISA
