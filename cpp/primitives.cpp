// Compiled once per instruction set with BOMKL_ISA and BOMKL_VECTOR_BYTES set. It must not instantiate templates of the
// standard library: the linker would be free to use this set's copy of them on a machine that lacks the set.
#include "primitives.hpp"

#include "lines.hpp"

namespace bomkl::BOMKL_ISA {
namespace {

// Adds coefficients times values of a strip to the lanes its columns belong to.
template <class T>
[[gnu::always_inline]] inline void accumulate(T* lanes, const T* coef, const Strip<T>& value, int c) {
    constexpr int W = Simd<T>::width, G = kLanes / W < kStrip ? kLanes / W : kStrip;
    T* const first = lanes + c % kLanes;
    Vec<T> sum[G];
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) sum[g] = load<T>(first + g * W);
#pragma GCC unroll 4
    for (int i = 0; i < kStrip; ++i) sum[i % G] = Simd<T>::fma(load<T>(coef + c + i * W), value.v[i], sum[i % G]);
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) store<T>(first + g * W, sum[g]);
}

// Adds one tile's share to the scores of R rows.
template <class T, int R>
void add_tile(const Rows<T>& rows, int first, const Tile<T>& tile, const T* inner, const PreparedKernel<T>* kernels, T* partial,
              std::size_t row_lanes) {
    T* const own = partial + first * row_lanes + tile.lane_set * kLanes;
    for (int c = 0; c < kTile; c += kStripColumns<T>) {
        RowsOnStrip<T, R> on(rows, first, tile, c, inner);
        Strip<T> value[R];
        int have = -1;
        for (int i = 0; i < tile.n_terms; ++i) {
            const Term<T>& term = tile.terms[i];
            if (term.kernel != have && !on.map(kernels[term.kernel], value)) break;
            have = term.kernel;
            T* const lanes = own + std::size_t(term.expansion) * (kLaneSets * kLanes);
            BOMKL_ROWS(r) accumulate<T>(lanes + r * row_lanes, term.coef, value[r], c);
        }
    }
}

// The same for n rows where all terms of the tile are of one Gaussian: what most rows of a long stream meet.
template <class T>
void add_gaussian_tile(const Rows<T>& rows, int first, int n, const Tile<T>& tile, const T* inner, const PreparedKernel<T>& k,
                       T* partial, std::size_t row_lanes) {
    for (int c = 0; c < kTile; c += kStripColumns<T>) {
        const Strip<T> norms = Strip<T>::loaded(tile.norm + c);
        for (int r = 0; r < n; ++r) {
            Vec<T> nearest;
            const Strip<T> products = Strip<T>::loaded(inner + r * kTile + c);
            const Strip<T> distance = distances<T>(rows, first + r, tile, c, products, norms, nearest);
            if (!Simd<T>::any_less(nearest, broadcast<T>(k.furthest))) continue;
            const Strip<T> value = gaussian::Kernel::map(k, distance);
            T* const lanes = partial + (first + r) * row_lanes + tile.lane_set * kLanes;
            for (int i = 0; i < tile.n_terms; ++i)
                accumulate<T>(lanes + std::size_t(tile.terms[i].expansion) * (kLaneSets * kLanes), tile.terms[i].coef, value,
                              c);
        }
    }
}

// The same where kernel values are looked up.
template <class T>
void add_whole_tile(const Rows<T>& rows, int first, int n, const Tile<T>& tile, const PreparedKernel<T>* kernels, T* partial,
                    std::size_t row_lanes) {
    constexpr int W = Simd<T>::width;
    for (int r = first; r < first + n; ++r) {
        const OnesOnTile<T> row(rows, r, tile);
        T* const lanes = partial + r * row_lanes + tile.lane_set * kLanes;
        for (int c = 0; c < kTile; c += kStripColumns<T>) {
            Strip<T> value;
            int have = -1;
            for (int t = 0; t < tile.n_terms; ++t) {
                const Term<T>& term = tile.terms[t];
                const PreparedKernel<T>& k = kernels[term.kernel];
                if (term.kernel != have) {
                    if (k.source == Source::cosine)
                        BOMKL_EACH(i) value.v[i] = cosine<T>(rows, r, tile, c + i * W, row.inner(c + i * W));
                    else
                        value = row.values(k, c);
                }
                have = term.kernel;
                accumulate<T>(lanes + std::size_t(term.expansion) * (kLaneSets * kLanes), term.coef, value, c);
            }
        }
    }
}

template <class T>
bool one_gaussian(const Tile<T>& tile, const PreparedKernel<T>* kernels) {
    return tile.lane_set == 0 && tile.n_terms > 0 && kernels[tile.terms[0].kernel].kind == kGaussian;
}

// Whether all squared distances are whole numbers below kWhole.
template <class T>
bool distances_are_whole(const Rows<T>& rows, int first, int n, const Tile<T>& tile) {
    if (!only_ones<T>(rows, tile)) return false;
    T largest = 0;
    for (int r = first; r < first + n; ++r) largest = rows.norm[r] > largest ? rows.norm[r] : largest;
    return largest + *tile.largest_norm < T(kWhole);
}

// Adds one tile's share to the scores of n rows.
template <class T>
void add_rows(const Rows<T>& rows, int first, int n, const Tile<T>& tile, const PreparedKernel<T>* kernels, T* partial,
              std::size_t row_lanes) {
    if (distances_are_whole<T>(rows, first, n, tile))
        return add_whole_tile<T>(rows, first, n, tile, kernels, partial, row_lanes);
    alignas(64) T inner[kRows * kTile];
    inner_rows<T>(rows, first, n, tile, inner, kTile);
    if (one_gaussian<T>(tile, kernels))
        return add_gaussian_tile<T>(rows, first, n, tile, inner, kernels[tile.terms[0].kernel], partial, row_lanes);
    int r = 0;
    for (; r + 2 <= n; r += 2) add_tile<T, 2>(rows, first + r, tile, inner + r * kTile, kernels, partial, row_lanes);
    if (r < n) add_tile<T, 1>(rows, first + r, tile, inner + r * kTile, kernels, partial, row_lanes);
}

template <class T>
void evaluate(const Rows<T>& rows, int begin, int end, const Tile<T>* tiles, int n_tiles, const PreparedKernel<T>* kernels,
              T* partial, int n_expansions) {
    constexpr std::size_t kFirstLevelCache = 32 << 10;
    const std::size_t row_lanes = std::size_t(n_expansions) * (kLaneSets * kLanes);
    for (int chunk = 0; chunk < n_tiles;) {
        // as many tiles as stay in the nearest cache while all rows pass by
        int last = chunk;
        std::size_t bytes = 0;
        do {
            const std::size_t feature = only_ones<T>(rows, tiles[last]) ? 1 : sizeof(T);
            bytes += (rows.features * feature + tiles[last].n_terms * sizeof(T)) * kTile;
            ++last;
        } while (last < n_tiles && bytes < kFirstLevelCache);
        for (int first = begin; first < end; first += kRows) {
            const int n = end - first < kRows ? end - first : kRows;
            for (int q = chunk; q < last; ++q) add_rows<T>(rows, first, n, tiles[q], kernels, partial, row_lanes);
        }
        chunk = last;
    }
}

template <class T>
void evaluate_related(const Rows<T>& rows, int r, const Tile<T>* tiles, int n_tiles, const T* inner,
                      const PreparedKernel<T>* kernels, T* partial, int n_expansions) {
    const std::size_t row_lanes = std::size_t(n_expansions) * (kLaneSets * kLanes);
    for (int q = 0; q < n_tiles; ++q)
        add_tile<T, 1>(rows, r, tiles[q], inner + std::size_t(q) * kTile, kernels, partial, row_lanes);
}

template <class T>
void append(const Rows<T>& rows, int r, int n, const Tile<T>* block_tiles, const T* inner, const NewTerm<T>* terms, int n_terms,
            int lane_set, int lane, const PreparedKernel<T>* kernels, T* partial, int n_expansions) {
    const std::size_t row_lanes = std::size_t(n_expansions) * (kLaneSets * kLanes);
    T values[kStripColumns<T>];
    for (int start = (r + 1) / kStripColumns<T> * kStripColumns<T>; start < n; start += kStripColumns<T>) {
        const int q = start / kTile, begin = r + 1 > start ? r + 1 : start;
        const int end = n < start + kStripColumns<T> ? n : start + kStripColumns<T>;
        RowsOnStrip<T, 1> row(rows, r, block_tiles[q], start % kTile, inner + std::size_t(q) * kTile);
        Strip<T> value[1];
        for (int i = 0; i < n_terms; ++i) {
            if (i == 0 || terms[i].kernel != terms[i - 1].kernel) {
                if (!row.map(kernels[terms[i].kernel], value)) break;
                value[0].store_to(values);
            }
            T* const lanes = partial + std::size_t(terms[i].expansion) * (kLaneSets * kLanes) + lane_set * kLanes + lane;
            for (int t = begin; t < end; ++t) {
                T& sum = lanes[t * row_lanes];
                sum = scalar_fma<T>(terms[i].coef, values[t - start], sum);
            }
        }
    }
}

template <class T>
T sum_of(const T* lanes) {
    T sum[kLanes / 2];
    for (int i = 0; i < kLanes / 2; ++i) sum[i] = lanes[i] + lanes[i + kLanes / 2];
    for (int half = kLanes / 4; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) sum[i] += sum[i + half];
    return sum[0];
}

template <class T>
void sum_lanes(const T* lanes, int n_expansions, double* scores) {
    for (int e = 0; e < n_expansions; ++e, lanes += kLaneSets * kLanes) {
        T both[kLanes];
        for (int i = 0; i < kLanes; ++i) both[i] = lanes[i] + lanes[i + kLanes];
        scores[e] = double(sum_of<T>(both));
    }
}

// The same sums as of inner_tile, of fewer columns.
template <class T, int N>
void inner_some_lines(const T* x, int features, const T* lines, T* out) {
    constexpr int W = Simd<T>::width, V = kLanes / W;
    const std::size_t size = std::size_t(features) * kLanes;
    Vec<T> sum[N][V] = {};
    for (int j = 0; j < features; ++j) {
        const Vec<T> b = broadcast<T>(x[j]);
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n)
#pragma GCC unroll 8
            for (int v = 0; v < V; ++v) sum[n][v] = Simd<T>::fma(b, load<T>(lines + n * size + j * kLanes + v * W), sum[n][v]);
    }
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n)
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) store<T>(out + n * kLanes + v * W, sum[n][v]);
}

template <class T>
void inner_lines(const T* x, int features, const T* lines, int n_lines, T* out) {
    const std::size_t size = std::size_t(features) * kLanes;
    int n = 0;
    for (; n + 4 <= n_lines; n += 4) inner_some_lines<T, 4>(x, features, lines + n * size, out + n * kLanes);
    for (; n + 2 <= n_lines; n += 2) inner_some_lines<T, 2>(x, features, lines + n * size, out + n * kLanes);
    for (; n < n_lines; ++n) inner_some_lines<T, 1>(x, features, lines + n * size, out + n * kLanes);
}

// The same sums again, without products with zeros, which do not change a bit.
template <class T>
void inner_depths(const T* x, const T* tile, const int* depths, T* out) {
    constexpr int W = Simd<T>::width, V = kLanes / W, L = kTile / kLanes;
    int common = depths[0];
    for (int l = 1; l < L; ++l) common = depths[l] < common ? depths[l] : common;
    Vec<T> sum[L][V] = {};
    for (int j = 0; j < common; ++j) {
        const Vec<T> b = broadcast<T>(x[j]);
#pragma GCC unroll 4
        for (int l = 0; l < L; ++l)
#pragma GCC unroll 8
            for (int v = 0; v < V; ++v) sum[l][v] = Simd<T>::fma(b, load<T>(tile + j * kTile + l * kLanes + v * W), sum[l][v]);
    }
#pragma GCC unroll 4
    for (int l = 0; l < L; ++l) {
        for (int j = common; j < depths[l]; ++j) {
            const Vec<T> b = broadcast<T>(x[j]);
#pragma GCC unroll 8
            for (int v = 0; v < V; ++v) sum[l][v] = Simd<T>::fma(b, load<T>(tile + j * kTile + l * kLanes + v * W), sum[l][v]);
        }
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) store<T>(out + l * kLanes + v * W, sum[l][v]);
    }
}

template <class T>
void inner(const Rows<T>& rows, int begin, int end, const Tile<T>* tiles, int n_tiles, T* out, std::size_t stride) {
    for (int q = 0; q < n_tiles; ++q)
        for (int first = begin; first < end; first += kRows) {
            const int n = end - first < kRows ? end - first : kRows;
            inner_rows<T>(rows, first, n, tiles[q], out + first * stride + q * kTile, stride);
        }
}

template <class T>
void scatter(T x, const std::int32_t* slots, const T* values, int n, T* out) {
    for (int i = 0; i < n; ++i) out[slots[i]] = scalar_fma<T>(x, values[i], out[slots[i]]);
}

template <class T>
T gather_inner(const SparseRow<T>& x, const T* dense) {
    T sum = 0;
    for (int i = 0; i < x.n; ++i) sum = scalar_fma<T>(x.values[i], dense[x.columns[i]], sum);
    return sum;
}

template <class T>
void relate(const Rows<T>& rows, int r, const Tile<T>* tiles, int n_tiles, const T* inner, T* const* out) {
    constexpr int W = Simd<T>::width;
    T* const squares = out[int(Source::squared_distance)];
    T* const cosines = out[int(Source::cosine)];
    T* const taxicab = out[int(Source::taxicab)];
    for (int q = 0; q < n_tiles; ++q) {
        if (squares)
            for (int c = 0; c < kTile; c += kStripColumns<T>) {
                Vec<T> least;
                distances<T>(rows, r, tiles[q], c, Strip<T>::loaded(inner + q * kTile + c), Strip<T>::loaded(tiles[q].norm + c),
                             least)
                    .store_to(squares + q * kTile + c);
            }
        if (cosines)
            for (int c = 0; c < kTile; c += W)
                store<T>(cosines + q * kTile + c, cosine<T>(rows, r, tiles[q], c, load<T>(inner + q * kTile + c)));
        if (taxicab)
            for (int c = 0; c < kTile; c += kStripColumns<T>)
                taxicab_distances<T>(rows, r, tiles[q], c, taxicab + q * kTile + c);
    }
}

// sum + a b in the first n lanes; the others stay as they are.
template <class T>
[[gnu::always_inline]] inline Vec<T> add_first(const T* a, const T* b, int n, Vec<T> sum) {
#if BOMKL_VECTOR_BYTES == 64
    return Simd<T>::fma_first(a, b, sum, n);
#else
    for (int i = 0; i < n; ++i) sum[i] = scalar_fma<T>(a[i], b[i], sum[i]);
    return sum;
#endif
}

template <class T>
T weighted_sum(const T* coef, const T* values, int n) {
    constexpr int W = Simd<T>::width, G = kLanes / W;
    Vec<T> sum[G] = {};
    int i = 0;
    for (; i + kLanes <= n; i += kLanes) {
#pragma GCC unroll 8
        for (int g = 0; g < G; ++g) sum[g] = Simd<T>::fma(load<T>(coef + i + g * W), load<T>(values + i + g * W), sum[g]);
    }
#pragma GCC unroll 8
    for (int g = 0; g < G; ++g) {
        const int rest = n - i - g * W;
        if (rest <= 0) break;
        sum[g] = rest >= W ? Simd<T>::fma(load<T>(coef + i + g * W), load<T>(values + i + g * W), sum[g])
                           : add_first<T>(coef + i + g * W, values + i + g * W, rest, sum[g]);
    }
    T lanes[kLanes];
#pragma GCC unroll 8
    for (int g = 0; g < G; ++g) store<T>(lanes + g * W, sum[g]);
    return sum_of<T>(lanes);
}

template <class T>
void tabulate(PreparedKernel<T>* kernels, int n) {
    constexpr int W = Simd<T>::width;
    T whole[kWhole];
    for (int i = 0; i < kWhole; ++i) whole[i] = T(i);
    for (int k = 0; k < n; ++k)
        for (int i = 0; kernels[k].kind != kCallable && i < kWhole; i += W)
            store<T>(kernels[k].at_whole + i, map_vector<T>(kernels[k], load<T>(whole + i)));
}

template <class T>
T expand(const PreparedKernel<T>& k, const T* source, const int* slots, const T* coef, int n, T* values) {
    constexpr int W = Simd<T>::width;
    int i = 0;
    with_kernel(k.kind, [&](auto kernel) {
        for (; i + kStripColumns<T> <= n; i += kStripColumns<T>) {
            Strip<T> strip;
            BOMKL_EACH(v) strip.v[v] = Simd<T>::gather(source, slots + i + v * W);
            if constexpr (std::is_same_v<decltype(kernel), gaussian::Kernel>)
                if (!Simd<T>::any_less(strip.least(), broadcast<T>(k.furthest))) {
                    BOMKL_EACH(v) store<T>(values + i + v * W, Vec<T>{});
                    continue;
                }
            kernel.map(k, static_cast<const Vectors<T, kStrip>&>(strip)).store_to(values + i);
        }
    });
    for (; i + W <= n; i += W) store<T>(values + i, map_vector<T>(k, Simd<T>::gather(source, slots + i)));
    if (i < n) {
        T gathered[W] = {};
        for (int w = 0; i + w < n; ++w) gathered[w] = source[slots[i + w]];
        const Vec<T> mapped = map_vector<T>(k, load<T>(gathered));
        for (int w = 0; i + w < n; ++w) values[i + w] = mapped[w];
    }
    return weighted_sum<T>(coef, values, n);
}

// exp(x) = 2^(n + r). The part r is what is left of x after n ln(2), taken off in two parts: the product of x and log2(e)
// alone would be off by |x| units in the last place.
template <class T>
[[gnu::always_inline]] inline Vec<T> exp_of(Vec<T> x) {
    using S = Simd<T>;
    const Vec<T> log2e = broadcast<T>(T(1.4426950408889634074));
    const Vec<T> multiple = next_multiple<T>(x, log2e), whole = value_of_multiple<T>(multiple);
    const Vec<T> rest = S::fma(whole, broadcast<T>(-S::ln2_low), S::fma(whole, broadcast<T>(-S::ln2_high), x));
    return exp2_of_sum<T>(multiple, rest * log2e, S::less(broadcast<T>(S::least_exp), x));
}

template <class T>
void exp_many(T* values, std::size_t n, T factor) {
    constexpr int W = Simd<T>::width;
    for (std::size_t i = 0; i + W <= n; i += W) store<T>(values + i, exp_of<T>(load<T>(values + i) * factor));
}

template <class T>
void gaussians(T* products, std::size_t n, T norm, const T* norms, T scale) {
    constexpr int W = Simd<T>::width;
    for (std::size_t i = 0; i + W <= n; i += W) {
        const Vec<T> distance = norm + load<T>(norms + i) - T(2) * load<T>(products + i);
        store<T>(products + i, exp_of<T>(-scale * (distance < T(0) ? Vec<T>{} : distance)));
    }
}

// Every column sums its features in order, so that a distance has the same bits whatever rows come with it.
template <class T>
void city_block(const T* x, int features, const T* tiles, int n_tiles, T* out) {
    constexpr int W = Simd<T>::width;
    for (int q = 0; q < n_tiles; ++q)
        for (int c = 0; c < kTile; c += kStripColumns<T>) {
            const T* column = tiles + std::size_t(q) * features * kTile + c;
            Strip<T> sum{};
            for (int j = 0; j < features; ++j, column += kTile) {
                const Vec<T> value = broadcast<T>(x[j]);
                BOMKL_EACH(i) {
                    const Vec<T> difference = load<T>(column + i * W) - value;
                    sum.v[i] -= Simd<T>::min(difference, -difference);
                }
            }
            sum.store_to(out + q * kTile + c);
        }
}

// Cosine and sine by the distance to the next multiple of a quarter turn, taken off in three parts so that no digit is lost.
// The series are those of Taylor, to the last digit of a double where |rest| <= pi/4. Signs and the exchange of the two are
// done on bits, which the compiler turns into vectors. False where an angle has too many turns for that.
template <class T>
bool near_waves(const T* __restrict inner, const double* __restrict factors, int n, double amplitude, T* __restrict cosines,
                T* __restrict sines, double furthest) {
    using Bits = std::int64_t;
    constexpr double magic = 0x1.8p52, two_over_pi = 0.63661977236758134308;  // adding the former rounds
    constexpr double high = 0x1.921fb54400000p+0, middle = 0x1.0b4611a600000p-34, low = 0x1.3198a2e037073p-69;
    Bits far = 0;
    for (int i = 0; i < n; ++i) {
        const double angle = double(inner[i]) * factors[i];
        const double shifted = angle * two_over_pi + magic, quarters = shifted - magic;
        const double r = ((angle - quarters * high) - quarters * middle) - quarters * low, s = r * r;
        double sine = 1.0 / 6227020800 - s * (1.0 / 1307674368000);
        sine = 1.0 / 362880 - s * (1.0 / 39916800 - s * sine);
        sine = r - r * s * (1.0 / 6 - s * (1.0 / 120 - s * (1.0 / 5040 - s * sine)));
        double cosine = 1.0 / 479001600 - s * (1.0 / 87178291200 - s * (1.0 / 20922789888000));
        cosine = 1.0 / 720 - s * (1.0 / 40320 - s * (1.0 / 3628800 - s * cosine));
        cosine = 1 - s * (0.5 - s * (1.0 / 24 - s * cosine));
        const Bits quadrant = __builtin_bit_cast(Bits, shifted), odd = -(quadrant & 1);
        const Bits sine_bits = __builtin_bit_cast(Bits, sine), cosine_bits = __builtin_bit_cast(Bits, cosine);
        const Bits c = ((cosine_bits & ~odd) | (sine_bits & odd)) ^ (((quadrant + 1) & 2) << 62);
        const Bits d = ((sine_bits & ~odd) | (cosine_bits & odd)) ^ ((quadrant & 2) << 62);
        cosines[i] = T(amplitude * __builtin_bit_cast(double, c));
        sines[i] = T(amplitude * __builtin_bit_cast(double, d));
        far |= __builtin_bit_cast(Bits, furthest - std::fabs(angle));
    }
    return far >= 0;
}

// Angles of many turns go to the library one by one, so that no feature depends on those beside it.
template <class T>
void waves(const T* inner, const double* factors, int n, double amplitude, T* out) {
    constexpr double furthest = 0x1p20;
    if (near_waves<T>(inner, factors, n, amplitude, out, out + n, furthest)) return;
    for (int i = 0; i < n; ++i) {
        const double angle = double(inner[i]) * factors[i];
        if (std::fabs(angle) <= furthest) continue;
        out[i] = T(amplitude * std::cos(angle));
        out[n + i] = T(amplitude * std::sin(angle));
    }
}

template <class T>
bool add_multiple(T factor, const T* x, int n, T* y) {
    int wrong = 0;
    for (int i = 0; i < n; ++i) {
        y[i] = y[i] + factor * x[i];
        wrong |= !(y[i] - y[i] == 0);
    }
    return !wrong;
}

// A double of 2^52 to 2^53 has no room for fractions: adding 1.5 times 2^52 rounds, and leaves the whole number in the bits.
template <class T>
void add_fixed(const T* values, std::size_t n, double units, std::int64_t* sums) {
    constexpr double magic = 0x1.8p52;
    for (std::size_t i = 0; i < n; ++i)
        sums[i] +=
            __builtin_bit_cast(std::int64_t, double(values[i]) * units + magic) - __builtin_bit_cast(std::int64_t, magic);
}

template <class T>
double dot(const T* x, const double* w, std::size_t n) {
    constexpr int W = Simd<double>::width;
    Vec<double> part[kLanes / W] = {};
    std::size_t j = 0;
    for (; j + kLanes <= n; j += kLanes)
#pragma GCC unroll 8
        for (int v = 0; v < kLanes / W; ++v) {
            double wide[W];
            for (int i = 0; i < W; ++i) wide[i] = double(x[j + v * W + i]);
            part[v] += load<double>(wide) * load<double>(w + j + v * W);
        }
    double lanes[kLanes], sum = 0;
    for (int v = 0; v < kLanes / W; ++v) store<double>(lanes + v * W, part[v]);
    for (; j < n; ++j) lanes[j % kLanes] += double(x[j]) * w[j];
    for (int i = 0; i < kLanes; ++i) sum += lanes[i];
    return sum;
}

// As many columns at a time as a vector has: while they depend on each other they stay in a register.
template <class T>
void eliminate(const double* factors, int n, double* column) {
    constexpr int W = Simd<double>::width;
    alignas(64) static constexpr std::int64_t kNumbers[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const Simd<double>::Int number = *reinterpret_cast<const Simd<double>::Int*>(kNumbers);
    for (int b = 0; b < n; b += W, factors += W * kTile) {
        Vec<double> own = load<double>(column + b);
#pragma GCC unroll 8
        for (int i = 0; i < W - 1; ++i)
            own = number > i ? own - load<double>(factors + i * kTile + b) * broadcast<double>(own[i]) : own;
        store<double>(column + b, own);
        for (int v = b + W; v < n; v += W) {
            Vec<double> later = load<double>(column + v);
#pragma GCC unroll 8
            for (int i = 0; i < W; ++i) later -= load<double>(factors + i * kTile + v) * broadcast<double>(column[b + i]);
            store<double>(column + v, later);
        }
    }
}

template <class T>
constexpr Primitives<T> table(const Primitives<float>* single) {
    return {tabulate<T>,    evaluate<T>,      evaluate_related<T>, append<T>,       sum_lanes<T>,  inner<T>,
            inner_lines<T>, inner_depths<T>,  scatter<T>,          gather_inner<T>, relate<T>,     relate_line<T>,
            relate_slot<T>, relate_listed<T>, turn_rows<T>,        map_line<T>,     map_column<T>, map_listed<T>,
            map_chain<T>,   sum_line<T>,      sum_lane<T>,         add_lanes<T>,    narrow<T>,     least_listed<T>,
            add_listed<T>,  cheapest<T>,      expand<T>,           weighted_sum<T>, exp_many<T>,   gaussians<T>,
            city_block<T>,  waves<T>,         add_multiple<T>,     add_fixed<T>,    dot<T>,        eliminate<T>,
            single};
}

constexpr Primitives<float> single_table = table<float>(&single_table);
constexpr Primitives<double> double_table = table<double>(&single_table);

}  // namespace

extern const Primitives<float>* const single_precision;
extern const Primitives<double>* const double_precision;
const Primitives<float>* const single_precision = &single_table;
const Primitives<double>* const double_precision = &double_table;

}  // namespace bomkl::BOMKL_ISA
