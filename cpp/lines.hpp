// Lines: a vector's worth of rows side by side, 64 bytes for each slot. A part of primitives.cpp, compiled once per
// instruction set.
#pragma once

#include <limits>
#include <utility>

#include "kernel_values.hpp"

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

template <class T>
T least_entry(const Vec<T>& v) {
    T least = v[0];
    for (int i = 1; i < Simd<T>::width; ++i) least = v[i] < least ? v[i] : least;
    return least;
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
// missing in `used`. Returns the least squared distance in each lane; distances to rows before `begin` and from `end` on mean
// nothing.
template <class T, int L, int step, int S>
[[gnu::always_inline]] inline Vec<T> relate_slots(const Rows<T>& rows, int first, int begin, int end, const T* columns,
                                                  T largest_norm, const SlotAt<T> (&slots)[S], std::uint64_t used,
                                                  T* const* out, std::size_t stride) {
    constexpr int W = Simd<T>::width, V = L * kVectorsOfLine<T>;
    const auto at = [&](int i, int v) __attribute__((always_inline)) {
        return slots[i].out + v / kVectorsOfLine<T> * stride + v % kVectorsOfLine<T> * W;
    };
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
    Vec<T> least = broadcast<T>(std::numeric_limits<T>::infinity());
    T largest = 0;
    BOMKL_SLOTS(i) {
        const T norm = slots[i].tile->norm[slots[i].c];
        BOMKL_OF_LINES(v) {
            const Vec<T> distance = Simd<T>::fma(broadcast<T>(T(-2)), sum[i][v], load<T>(rows.norm + first + v * W) + norm);
            store<T>(squares + at(i, v), distance);
            least = Simd<T>::min(distance, least);
        }
        largest = norm > largest ? norm : largest;
    }
    const T bound = (largest + largest_norm) * Simd<T>::cancellation;
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

template <class T>
T largest_norm_of(const Rows<T>& rows, int begin, int end) {
    T largest = 0;
    for (int r = begin; r < end; ++r) largest = rows.norm[r] > largest ? rows.norm[r] : largest;
    return largest;
}

template <class T, int L>
T relate_lines(const Rows<T>& rows, int first, int n, const T* columns, const Tile<T>* tiles, int n_tiles,
               const std::uint64_t* used, T* const* out, std::size_t stride) {
    constexpr int S = kSlots<T, L>;
    const T largest_norm = largest_norm_of<T>(rows, first, first + n);
    Vec<T> least = broadcast<T>(std::numeric_limits<T>::infinity());
    for (int q = 0; q < n_tiles; ++q)
        for (int c = 0; c < kTile; c += S) {
            SlotAt<T> slots[S];
            std::uint64_t used_by_any = 0;
            BOMKL_SLOTS(i) {
                slots[i] = {tiles + q, c + i, tiles[q].x + c + i, std::size_t(q * kTile + c + i) * kLine<T>};
                used_by_any |= used[q * kTile + c + i];
            }
            least = Simd<T>::min(
                relate_slots<T, L, kTile, S>(rows, first, 0, n, columns, largest_norm, slots, used_by_any, out, stride), least);
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
    const T largest_norm = largest_norm_of<T>(rows, first + begin, first + end);
    const SlotAt<T> slot[1] = {{&tile, c, tile.x + c, 0}};
    relate_slots<T, 1, kTile, 1>(rows, first, begin, end, columns, largest_norm, slot, kAnyColumn, out, 0);
    T least = std::numeric_limits<T>::infinity();
    if (const T* const squares = out[int(Source::squared_distance)])
        for (int r = begin; r < end; ++r) least = squares[r] < least ? squares[r] : least;
    return least;
}

template <class T>
void relate_listed(const Rows<T>& rows, int n_rows, const T* columns, const Tile<T>* tiles, const T* slot_rows,
                   const int* listed, int n, const std::uint64_t* used, T* const* out) {
    constexpr int S = kSlots<T, 1>;
    const T largest_norm = largest_norm_of<T>(rows, 0, n_rows);
    for (int first = 0; first < n; first += S) {
        SlotAt<T> slots[S];
        std::uint64_t used_by_any = 0;
        BOMKL_SLOTS(i) {
            const int place = first + i < n ? first + i : n - 1;
            const unsigned slot = unsigned(listed[place]);
            slots[i] = {tiles + slot / kTile, int(slot % kTile), slot_rows + std::size_t(slot) * rows.features,
                        std::size_t(place) * kLine<T>};
            used_by_any |= used[slot];
        }
        relate_slots<T, 1, 1, S>(rows, 0, 0, n_rows, columns, largest_norm, slots, used_by_any, out, 0);
    }
}

// Two vectors after pairs of their entries have changed places at a distance: the low half of it, or the high one.
template <class T, int distance, bool high, int... l>
[[gnu::always_inline]] inline Vec<T> exchanged(Vec<T> a, Vec<T> b, std::integer_sequence<int, l...>) {
    constexpr int W = Simd<T>::width;
    constexpr auto from = [](int at) {
        return high ? (at & distance ? W + at : at + distance) : (at & distance ? W + at - distance : at);
    };
#ifdef __clang__
    return __builtin_shufflevector(a, b, from(l)...);
#else
    return __builtin_shuffle(a, b, typename Simd<T>::Int{from(l)...});
#endif
}

// A square of vectors, rows becoming columns: pairs of entries change places at a distance of 1, then 2, 4 ...
template <class T, int distance = 1>
[[gnu::always_inline]] inline void transpose(Vec<T> (&m)[Simd<T>::width]) {
    constexpr int W = Simd<T>::width;
    if constexpr (distance < W) {
        constexpr std::make_integer_sequence<int, W> entries;
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) {
            if (i & distance) continue;
            const Vec<T> a = m[i], b = m[i + distance];
            m[i] = exchanged<T, distance, false>(a, b, entries);
            m[i + distance] = exchanged<T, distance, true>(a, b, entries);
        }
        transpose<T, distance * 2>(m);
    }
}

// Lines out of n rows of n_slots numbers each.
template <class T>
void turn_rows(const T* rows, int n, int n_slots, T* out) {
    constexpr int W = Simd<T>::width;
    for (int s = 0; s < n_slots; s += W)
        for (int v = 0; v < kVectorsOfLine<T>; ++v) {
            Vec<T> m[W];
#pragma GCC unroll 16
            for (int i = 0; i < W; ++i) m[i] = load<T>(rows + std::size_t(v * W + i < n ? v * W + i : 0) * n_slots + s);
            transpose<T>(m);
#pragma GCC unroll 16
            for (int i = 0; i < W; ++i) store<T>(out + std::size_t(s + i) * kLine<T> + v * W, m[i]);
        }
}

// Kernel values of a line with the slots of a list, from the kernel's source: values[row * stride + place in the list]. May
// write up to a line behind the last of each row.
template <class T>
void map_line(const PreparedKernel<T>& k, const T* lines, const int* slots, int n, T* values, std::size_t stride) {
    constexpr int W = Simd<T>::width, P = W < kStrip ? W : kStrip;
    with_kernel(k.kind, [&](auto kernel) {
        for (int first = 0; first < n; first += W)
            for (int v = 0; v < kVectorsOfLine<T>; ++v) {
                Vec<T> m[W];
#pragma GCC unroll 16
                for (int i = 0; i < W; ++i)
                    m[i] = load<T>(lines + std::size_t(slots[first + i < n ? first + i : n - 1]) * kLine<T> + v * W);
                T* const out = values + v * W * stride + first;
                if constexpr (std::is_same_v<decltype(kernel), gaussian::Kernel>) {
                    Vec<T> least = m[0];
#pragma GCC unroll 16
                    for (int i = 1; i < W; ++i) least = Simd<T>::min(least, m[i]);
                    if (!Simd<T>::any_less(least, broadcast<T>(k.furthest))) {
                        for (int i = 0; i < W; ++i) store<T>(out + i * stride, Vec<T>{});
                        continue;
                    }
                }
#pragma GCC unroll 4
                for (int i = 0; i < W; i += P) {
                    Vectors<T, P> part;
#pragma GCC unroll 4
                    for (int p = 0; p < P; ++p) part.v[p] = m[i + p];
                    part = kernel.map(k, part);
#pragma GCC unroll 4
                    for (int p = 0; p < P; ++p) m[i + p] = part.v[p];
                }
                transpose<T>(m);
#pragma GCC unroll 16
                for (int i = 0; i < W; ++i) store<T>(out + i * stride, m[i]);
            }
    });
}

// The same for one slot.
template <class T>
void map_column(const PreparedKernel<T>& k, const T* line, T* values, std::size_t stride) {
    constexpr int W = Simd<T>::width;
    for (int v = 0; v < kVectorsOfLine<T>; ++v) {
        const Vec<T> mapped = map_vector<T>(k, load<T>(line + v * W));
        for (int i = 0; i < W; ++i) values[(v * W + i) * stride] = mapped[i];
    }
}

// Kernel values of a line, which lie as their source does: values[place] from lines[slot], or lines[place] where slots is null.
template <class T>
void map_listed(const PreparedKernel<T>& k, const T* lines, const int* slots, int n, T* values) {
    constexpr int W = Simd<T>::width, V = kVectorsOfLine<T>, S = V < kStrip ? kStrip / V : 1, N = S * V;
    with_kernel(k.kind, [&](auto kernel) {
        for (int first = 0; first < n; first += S) {
            Vectors<T, N> part;
            BOMKL_SLOTS(i) {
                const int place = first + i < n ? first + i : n - 1;
                const T* const line = lines + std::size_t(slots ? slots[place] : place) * kLine<T>;
                BOMKL_OF_LINE(v) part.v[i * V + v] = load<T>(line + v * W);
            }
            if constexpr (std::is_same_v<decltype(kernel), gaussian::Kernel>) {
                Vec<T> least = part.v[0];
#pragma GCC unroll 8
                for (int i = 1; i < N; ++i) least = Simd<T>::min(least, part.v[i]);
                if (!Simd<T>::any_less(least, broadcast<T>(k.furthest)))
                    part = Vectors<T, N>{};
                else
                    part = kernel.map(k, part);
            } else {
                part = kernel.map(k, part);
            }
            BOMKL_SLOTS(i) {
                const int place = first + i < n ? first + i : n - 1;
                BOMKL_OF_LINE(v) store<T>(values + std::size_t(place) * kLine<T> + v * W, part.v[i * V + v]);
            }
        }
    });
}

// Values of the first `depth` + 1 Gaussians of a chain, of listed slots: values[level][slot].
template <class T, int depth>
void map_chain_to(const PreparedKernel<T>* const* kernels, const T* lines, const int* slots, int n, T* const* values) {
    constexpr int W = Simd<T>::width, V = kVectorsOfLine<T>, S = V < kStrip ? kStrip / V : 1, N = S * V;
    static_assert(N == kStrip);
    for (int first = 0; first < n; first += S) {
        Strip<T> distance, value{};
        std::size_t at[S];
        BOMKL_SLOTS(i) {
            at[i] = std::size_t(slots[first + i < n ? first + i : n - 1]) * kLine<T>;
            BOMKL_OF_LINE(v) distance.v[i * V + v] = load<T>(lines + at[i] + v * W);
        }
        const auto keep = [&](T * to) __attribute__((always_inline)) {
            BOMKL_SLOTS(i) BOMKL_OF_LINE(v) store<T>(to + at[i] + v * W, value.v[i * V + v]);
        };
        if (Simd<T>::any_less(distance.least(), broadcast<T>(kernels[0]->furthest)))
            value = gaussian::Kernel::map(*kernels[0], distance);
        keep(values[0]);
#pragma GCC unroll 4
        for (int level = 1; level <= depth; ++level) {
            next_gaussian<T>(*kernels[level], distance, value);
            keep(values[level]);
        }
    }
}
template <class T>
void map_chain(const PreparedKernel<T>* const* kernels, int depth, const T* lines, const int* slots, int n, T* const* values) {
    switch (depth) {
        case 0: return map_chain_to<T, 0>(kernels, lines, slots, n, values);
        case 1: return map_chain_to<T, 1>(kernels, lines, slots, n, values);
        case 2: return map_chain_to<T, 2>(kernels, lines, slots, n, values);
        default: return map_chain_to<T, 3>(kernels, lines, slots, n, values);
    }
}

// lane += coef * value over the places first, first + kLanes ...
template <class T>
void sum_lane(const T* coefs, const int* columns, int first, int n, const T* values, T* lane) {
    constexpr int W = Simd<T>::width;
    Vec<T> sum[kVectorsOfLine<T>];
    BOMKL_OF_LINE(v) sum[v] = load<T>(lane + v * W);
    for (int j = first; j < n; j += kLanes) {
        const T* const line = values + std::size_t(columns[j]) * kLine<T>;
        BOMKL_OF_LINE(v) sum[v] = Simd<T>::fma(broadcast<T>(coefs[j]), load<T>(line + v * W), sum[v]);
    }
    BOMKL_OF_LINE(v) store<T>(lane + v * W, sum[v]);
}

// All lanes, from zero.
template <class T>
void sum_line(const T* coefs, const int* columns, int n, const T* values, T* lanes) {
    constexpr int W = Simd<T>::width, V = kVectorsOfLine<T>, S = V == 1 ? kLanes : 8 / V;
    for (int lane = 0; lane < kLanes; lane += S) {
        Vec<T> sum[S][V];
#pragma GCC unroll 16
        for (int i = 0; i < S; ++i) BOMKL_OF_LINE(v) sum[i][v] = Vec<T>{};
        int first = lane;
        for (; first + S <= n; first += kLanes)
#pragma GCC unroll 16
            for (int i = 0; i < S; ++i) {
                const T* const line = values + std::size_t(columns[first + i]) * kLine<T>;
                BOMKL_OF_LINE(v) sum[i][v] = Simd<T>::fma(broadcast<T>(coefs[first + i]), load<T>(line + v * W), sum[i][v]);
            }
#pragma GCC unroll 16
        for (int i = 0; i < S; ++i) BOMKL_OF_LINE(v) store<T>(lanes + (lane + i) * kLine<T> + v * W, sum[i][v]);
        for (int j = first; j < n && j < first + S; ++j) {
            const T* const line = values + std::size_t(columns[j]) * kLine<T>;
            T* const last = lanes + j % kLanes * kLine<T>;
            BOMKL_OF_LINE(v)
            store<T>(last + v * W, Simd<T>::fma(broadcast<T>(coefs[j]), load<T>(line + v * W), load<T>(last + v * W)));
        }
    }
}

// Lanes added up as sum_of adds them.
template <class T>
void add_lanes(const T* lanes, T* sums) {
    constexpr int W = Simd<T>::width;
    BOMKL_OF_LINE(v) {
        Vec<T> sum[kLanes / 2];
#pragma GCC unroll 8
        for (int i = 0; i < kLanes / 2; ++i)
            sum[i] = load<T>(lanes + i * kLine<T> + v * W) + load<T>(lanes + (i + kLanes / 2) * kLine<T> + v * W);
#pragma GCC unroll 8
        for (int half = kLanes / 4; half > 0; half /= 2)
            for (int i = 0; i < half; ++i) sum[i] += sum[i + half];
        store<T>(sums + v * W, sum[0]);
    }
}

// Numbers and their sizes in single precision.
template <class T>
std::pair<T, T> narrow(const T* numbers, int n, float* out, float* sizes) {
    using S = Simd<T>;
    constexpr int W = S::width;
    typedef float Narrow __attribute__((vector_size(W * sizeof(float))));
    const auto keep = [](Vec<T> v, float* to) __attribute__((always_inline)) {
        const Narrow narrow = __builtin_convertvector(v, Narrow);
        std::memcpy(to, &narrow, sizeof narrow);
    };
    Vec<T> least = broadcast<T>(std::numeric_limits<T>::infinity()), negative{};
    int j = 0;
    for (; j + W <= n; j += W) {
        const Vec<T> number = load<T>(numbers + j), size = S::min(number, -number);
        keep(number, out + j);
        keep(-size, sizes + j);
        negative = S::min(size, negative);
        least = S::min(-size, least);
    }
    T smallest = least_entry<T>(least), largest = -least_entry<T>(negative);
    for (; j < n; ++j) {
        const T size = std::fabs(numbers[j]);
        out[j] = float(numbers[j]);
        sizes[j] = float(size);
        smallest = size < smallest ? size : smallest;
        largest = size > largest ? size : largest;
    }
    return {smallest, largest};
}

// The least of listed lines.
template <class T>
void least_listed(const T* lines, const int* slots, int n, T* least) {
    constexpr int W = Simd<T>::width, V = kVectorsOfLine<T>;
    Vec<T> of_rows[V];
    BOMKL_OF_LINE(v) of_rows[v] = broadcast<T>(std::numeric_limits<T>::infinity());
    for (int i = 0; i < n; ++i)
        BOMKL_OF_LINE(v) of_rows[v] = Simd<T>::min(load<T>(lines + std::size_t(slots[i]) * kLine<T> + v * W), of_rows[v]);
    BOMKL_OF_LINE(v) store<T>(least + v * W, of_rows[v]);
}

// Sums of coef * value and of size * |value| over listed lines, `shift` taken off each before it is mapped.
template <class T>
void add_listed(const PreparedKernel<T>& k, const T* lines, const T* shift, const int* slots, const T* coefs, const T* sizes,
                int n, T* sums, T* sums_of_sizes) {
    constexpr int W = Simd<T>::width, V = kVectorsOfLine<T>, S = V < kStrip ? kStrip / V : 1, N = S * V;
    static_assert(S <= kPadding);
    with_kernel(k.kind, [&](auto kernel) {
        constexpr bool is_gaussian = std::is_same_v<decltype(kernel), gaussian::Kernel>;
        Vec<T> sum[V], size[V], off[V] = {};
        BOMKL_OF_LINE(v) sum[v] = load<T>(sums + v * W);
        BOMKL_OF_LINE(v) size[v] = load<T>(sums_of_sizes + v * W);
        if (shift) BOMKL_OF_LINE(v) off[v] = load<T>(shift + v * W);
        for (int first = 0; first < n; first += S) {
            Vectors<T, N> part;
            BOMKL_SLOTS(i) {
                const T* const line = lines + std::size_t(slots[first + i < n ? first + i : n - 1]) * kLine<T>;
                BOMKL_OF_LINE(v) part.v[i * V + v] = load<T>(line + v * W) - off[v];
            }
            if constexpr (is_gaussian) {
                Vec<T> least = part.v[0];
#pragma GCC unroll 8
                for (int i = 1; i < N; ++i) least = Simd<T>::min(least, part.v[i]);
                if (!Simd<T>::any_less(least, broadcast<T>(k.furthest))) continue;
            }
            part = kernel.map(k, part);
            Vec<T> of_part[V] = {}, size_of_part[V] = {};
            BOMKL_SLOTS(i) BOMKL_OF_LINE(v) {
                const Vec<T> value = part.v[i * V + v];
                of_part[v] = Simd<T>::fma(broadcast<T>(coefs[first + i]), value, of_part[v]);
                size_of_part[v] = Simd<T>::fma(broadcast<T>(sizes[first + i]),
                                               is_gaussian ? value : -Simd<T>::min(value, -value), size_of_part[v]);
            }
            BOMKL_OF_LINE(v) sum[v] += of_part[v];
            BOMKL_OF_LINE(v) size[v] += size_of_part[v];
        }
        BOMKL_OF_LINE(v) store<T>(sums + v * W, sum[v]);
        BOMKL_OF_LINE(v) store<T>(sums_of_sizes + v * W, size[v]);
    });
}

// A vector's worth of doubles.
inline Vec<double> load_doubles(const double* p) { return load<double>(p); }
inline Vec<double> load_doubles(const float* p) {
    typedef float Half __attribute__((vector_size(kBytes / 2)));
    Half half;
    std::memcpy(&half, p, sizeof half);
    return __builtin_convertvector(half, Vec<double>);
}

// The place of the least cost, the first of them, as the loop `if (cost < least) least = cost, place = j` finds it. Every lane
// keeps its least and where that was. cost(at) has the numbers of a
// place, or of a vector's worth of places, from at(list).
template <class Cost>
[[gnu::always_inline]] inline int first_least(int n, Cost&& cost) {
    using S = Simd<double>;
    constexpr int W = S::width;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    Vec<double> leasts = broadcast<double>(infinity), places{}, place;
    for (int i = 0; i < W; ++i) place[i] = i;
    int j = 0;
    for (; j + W <= n; j += W) {
        const Vec<double> costs = cost([j](const auto* p) { return load_doubles(p + j); });
        places = S::choose(S::less(costs, leasts), place, places);
        leasts = S::min(costs, leasts);
        place += double(W);
    }
    double least = infinity;
    int found = 0;
    for (int i = 0; i < W; ++i)
        if (leasts[i] < least || (leasts[i] == least && least < infinity && places[i] < found))
            least = leasts[i], found = int(places[i]);
    for (; j < n; ++j) {
        const double here = cost([j](const auto* p) { return double(p[j]); });
        if (here < least) least = here, found = j;
    }
    return found;
}
template <class T>
int cheapest(const T* coefs, const double* diagonal, const T* values, int n, double self) {
    if (!diagonal) return first_least(n, [=](auto&& at) { return at(coefs) * at(coefs) * (1.0 - at(values) * at(values)); });
    if (self == 1)
        return first_least(n, [=](auto&& at) { return at(coefs) * at(coefs) * (at(diagonal) - at(values) * at(values)); });
    if (self > 0)
        return first_least(n,
                           [=](auto&& at) { return at(coefs) * at(coefs) * (at(diagonal) - at(values) * at(values) / self); });
    return first_least(n, [=](auto&& at) { return at(coefs) * at(coefs) * at(diagonal); });
}

}  // namespace

}  // namespace bomkl::BOMKL_ISA
