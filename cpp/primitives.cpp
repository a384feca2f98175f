// Compiled once per instruction set with BOMKL_ISA and BOMKL_VECTOR_BYTES set. It must not instantiate templates of the
// standard library: the linker would be free to use this set's copy of them on a machine that lacks the set.
#include "primitives.hpp"

#include "simd.hpp"

namespace bomkl::BOMKL_ISA {
namespace {

// Register blocking: rows x vectors of accumulators, chosen so that they and one vector of each operand fit the registers.
#if BOMKL_VECTOR_BYTES == 64
inline constexpr int kRows = 6, kVectors = 4;
#elif BOMKL_VECTOR_BYTES == 32
inline constexpr int kRows = 6, kVectors = 2;
#else
inline constexpr int kRows = 4, kVectors = 2;
#endif

// Inner products of R rows with the 64 columns of a tile. Every sum runs over the features in order, whatever R is.
template <class T, int R>
void inner_tile(const T* x, std::size_t stride, const T* tile, int features, T* out, std::size_t out_stride) {
    constexpr int W = Simd<T>::width;
    for (int c = 0; c < kTile; c += kVectors * W) {
        Vec<T> sum[R][kVectors] = {};
        const T* column = tile + c;
        for (int j = 0; j < features; ++j, column += kTile) {
            Vec<T> z[kVectors];
#pragma GCC unroll 8
            for (int v = 0; v < kVectors; ++v) z[v] = load<T>(column + v * W);
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r) {
                const Vec<T> b = broadcast<T>(x[r * stride + j]);
#pragma GCC unroll 8
                for (int v = 0; v < kVectors; ++v) sum[r][v] = Simd<T>::fma(b, z[v], sum[r][v]);
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
            for (int v = 0; v < kVectors; ++v) store<T>(out + r * out_stride + c + v * W, sum[r][v]);
    }
}

// The same for one row without its zeros: leaving out a product with zero does not change a bit of the sum.
template <class T>
void inner_sparse(const SparseRow<T>& x, const T* tile, T* out) {
    constexpr int W = Simd<T>::width, N = kVectors * 2 * W <= kTile ? kVectors * 2 : kTile / W;
    for (int c = 0; c < kTile; c += N * W) {
        Vec<T> sum[N] = {};
        for (int i = 0; i < x.n; ++i) {
            const T* column = tile + std::size_t(x.columns[i]) * kTile + c;
            const Vec<T> b = broadcast<T>(x.values[i]);
#pragma GCC unroll 8
            for (int v = 0; v < N; ++v) sum[v] = Simd<T>::fma(b, load<T>(column + v * W), sum[v]);
        }
#pragma GCC unroll 8
        for (int v = 0; v < N; ++v) store<T>(out + c + v * W, sum[v]);
    }
}

// The same where all entries are 0 or 1, as in rows of indicators: the product is a count, exact in bytes.
typedef std::uint8_t Bytes __attribute__((vector_size(kTile)));
inline Bytes load_bytes(const std::uint8_t* p) {
    Bytes bytes;
    std::memcpy(&bytes, p, sizeof bytes);
    return bytes;
}
template <class T>
[[gnu::always_inline]] inline Bytes count_ones(const Rows<T>& rows, int r, const Tile<T>& tile) {
    const std::int32_t* const columns = rows.ones + std::size_t(r) * rows.n_ones;
    Bytes even{}, odd{};
    for (int i = 0; i < rows.n_ones; i += 2) {
        even += load_bytes(tile.bytes + std::size_t(columns[i]) * kTile);
        odd += load_bytes(tile.bytes + std::size_t(columns[i + 1]) * kTile);
    }
    return even + odd;
}
template <class T>
void inner_ones(const Rows<T>& rows, int r, const Tile<T>& tile, T* out) {
    const Bytes count = count_ones<T>(rows, r, tile);
    for (int c = 0; c < kTile; ++c) out[c] = T(count[c]);
}

template <class T>
void inner_rows(const Rows<T>& rows, int begin, int n, const Tile<T>& of, T* out, std::size_t out_stride) {
    const T* const tile = of.x;
    if (rows.ones && of.bytes) {
        for (int r = 0; r < n; ++r) inner_ones<T>(rows, begin + r, of, out + r * out_stride);
        return;
    }
    if (rows.sparse) {
        for (int r = 0; r < n; ++r) inner_sparse<T>(rows.sparse[begin + r], tile, out + r * out_stride);
        return;
    }
    const T* x = rows.x + begin * rows.stride;
    switch (n) {
        case 1: return inner_tile<T, 1>(x, rows.stride, tile, rows.features, out, out_stride);
        case 2: return inner_tile<T, 2>(x, rows.stride, tile, rows.features, out, out_stride);
        case 3: return inner_tile<T, 3>(x, rows.stride, tile, rows.features, out, out_stride);
        case 4: return inner_tile<T, 4>(x, rows.stride, tile, rows.features, out, out_stride);
#if BOMKL_VECTOR_BYTES > 16
        case 5: return inner_tile<T, 5>(x, rows.stride, tile, rows.features, out, out_stride);
        default: return inner_tile<T, 6>(x, rows.stride, tile, rows.features, out, out_stride);
#else
        default: return;
#endif
    }
}

// Squared distance summed feature by feature.
template <class T>
T exact_distance(const Rows<T>& rows, int r, const Tile<T>& tile, int c) {
    double sum = 0;
    const auto add = [&](T x, T z) {
        const double difference = double(x) - double(z);
        sum += difference * difference;
    };
    if (tile.x) {
        const T* x = rows.x + r * rows.stride;
        for (int j = 0; j < rows.features; ++j) add(x[j], tile.x[std::size_t(j) * kTile + c]);
        return T(sum);
    }
    const SparseRow<T>&x = rows.sparse[r], &z = tile.sparse[c];
    for (int i = 0, j = 0; i < x.n || j < z.n;) {
        const std::int32_t left = i < x.n ? x.columns[i] : INT32_MAX, right = j < z.n ? z.columns[j] : INT32_MAX;
        add(left <= right ? x.values[i] : T(0), right <= left ? z.values[j] : T(0));
        i += left <= right;
        j += right <= left;
    }
    return T(sum);
}

template <class T>
Vec<T> affine(const PreparedKernel<T>& k, Vec<T> inner) {
    return Simd<T>::fma(inner, broadcast<T>(k.a), broadcast<T>(k.b));
}
template <class T>
Vec<T> exponential(const PreparedKernel<T>& k, Vec<T> distance) {
    const Vec<T> length = Simd<T>::sqrt(distance);
    return exp2_of_product<T>(length, broadcast<T>(k.exponent), Simd<T>::less(length, broadcast<T>(k.furthest)));
}
template <class T>
Vec<T> cosine(const Rows<T>& rows, int r, const Tile<T>& tile, int c, Vec<T> inner) {
    return inner * (load<T>(tile.inverse_length + c) * rows.inverse_length[r]);
}
template <class T>
Vec<T> cauchy(const PreparedKernel<T>& k, Vec<T> distance) {
    return T(1) / Simd<T>::fma(distance, broadcast<T>(k.a), broadcast<T>(T(1)));
}

// Vectors that are computed side by side: enough of them to hide how long each step takes.
inline constexpr int kStrip = 4;
template <class T>
inline constexpr int kStripColumns = kStrip * Simd<T>::width;

#define BOMKL_EACH(i) _Pragma("GCC unroll 4") for (int i = 0; i < kStrip; ++i)

template <class T>
struct Strip {
    Vec<T> v[kStrip];

    static Strip loaded(const T* p) {
        Strip strip;
        BOMKL_EACH(i) strip.v[i] = load<T>(p + i * Simd<T>::width);
        return strip;
    }
    void store_to(T* p) const { BOMKL_EACH(i) store<T>(p + i * Simd<T>::width, v[i]); }
    Vec<T> least() const { return Simd<T>::min(Simd<T>::min(v[0], v[1]), Simd<T>::min(v[2], v[3])); }
};

// |x|^2 + |z|^2 - 2 x.z loses its digits where the rows are close and long: those are summed feature by feature.
template <class T>
[[gnu::noinline]] void repair_distances(const Rows<T>& rows, int r, const Tile<T>& tile, int c, T* values) {
    for (int i = 0; i < kStripColumns<T>; ++i)
        if (values[i] < (tile.norm[c + i] + rows.norm[r]) * Simd<T>::cancellation)
            values[i] = exact_distance<T>(rows, r, tile, c + i);
}
// `norms` are those of the strip; least is the smallest distance of each lane.
template <class T>
[[gnu::always_inline]] inline Strip<T> distances(const Rows<T>& rows, int r, const Tile<T>& tile, int c,
                                                 const Strip<T>& inner, const Strip<T>& norms, Vec<T>& least) {
    const T norm = rows.norm[r];
    Strip<T> out;
    BOMKL_EACH(i) out.v[i] = Simd<T>::fma(broadcast<T>(T(-2)), inner.v[i], norms.v[i] + norm);
    least = out.least();
    const bool counts = rows.ones && tile.bytes;  // whole numbers, with no digits to lose
    const T bound = counts ? T(-1) : (*tile.largest_norm + norm) * Simd<T>::cancellation;
    if (__builtin_expect(!Simd<T>::any_less(least, broadcast<T>(bound)), 1)) return out;
    alignas(64) T values[kStripColumns<T>];
    out.store_to(values);
    repair_distances<T>(rows, r, tile, c, values);
    out = Strip<T>::loaded(values);
    least = out.least();
    return out;
}

// Gaussian values of distances.
template <class T>
[[gnu::always_inline]] inline void gaussian(const PreparedKernel<T>& k, const Strip<T>& distance, Strip<T>& value) {
    const Vec<T> furthest = broadcast<T>(k.furthest), exponent = broadcast<T>(k.exponent);
    BOMKL_EACH(i)
        value.v[i] = exp2_of_product<T>(distance.v[i], exponent, Simd<T>::less(distance.v[i], furthest));
    for (int fourths = k.fourths; fourths > 0; --fourths) {
        BOMKL_EACH(i) value.v[i] *= value.v[i];
        BOMKL_EACH(i) value.v[i] *= value.v[i];
    }
}
// The same where `value` holds those of the Gaussian one link before in the chain.
template <class T>
[[gnu::always_inline]] inline void next_gaussian(const PreparedKernel<T>& k, const Strip<T>& distance, Strip<T>& value) {
    const Vec<T> furthest = broadcast<T>(k.furthest);
    BOMKL_EACH(i) value.v[i] = Simd<T>::product(Simd<T>::less(distance.v[i], furthest), value.v[i], value.v[i]);
    BOMKL_EACH(i) value.v[i] *= value.v[i];
}

#define BOMKL_ROWS(r) _Pragma("GCC unroll 4") for (int r = 0; r < R; ++r)

// R rows against a strip of a tile: kernel values, and what several kernels need of them computed at most once.
template <class T, int R>
class RowsOnStrip {
public:
    RowsOnStrip(const Rows<T>& rows, int first, const Tile<T>& tile, int c, const T* inner)
        : rows_(rows), first_(first), tile_(tile), c_(c), inner_(inner + c) {}

    // False where a Gaussian vanishes everywhere: a narrower one does so too. `value` must still hold what the last call put
    // there.
    [[gnu::always_inline]] inline bool map(const PreparedKernel<T>& k, Strip<T> (&value)[R]) {
        if (k.uses_distance() && !have_distance_) measure();
        const PreparedKernel<T>* const last = last_;
        last_ = &k;
        switch (k.kind) {
            case KernelKind::linear:
                BOMKL_ROWS(r) BOMKL_EACH(i) value[r].v[i] = inner(r, i);
                break;
            case KernelKind::polynomial: {
                Strip<T> base[R];
                BOMKL_ROWS(r) BOMKL_EACH(i) value[r].v[i] = base[r].v[i] = affine<T>(k, inner(r, i));
                for (int power = 1; power < k.degree; ++power)
                    BOMKL_ROWS(r) BOMKL_EACH(i) value[r].v[i] *= base[r].v[i];
                break;
            }
            case KernelKind::gaussian:
                if (!Simd<T>::any_less(nearest_, broadcast<T>(k.furthest))) return false;
                if (last && last->kind == KernelKind::gaussian && last->root == k.root && last->fourths + 1 == k.fourths) {
                    BOMKL_ROWS(r) next_gaussian<T>(k, distance_[r], value[r]);
                } else {
                    BOMKL_ROWS(r) gaussian<T>(k, distance_[r], value[r]);
                }
                break;
            case KernelKind::exponential:
                BOMKL_ROWS(r) BOMKL_EACH(i) value[r].v[i] = exponential<T>(k, distance_[r].v[i]);
                break;
            case KernelKind::cauchy:
                BOMKL_ROWS(r) BOMKL_EACH(i) value[r].v[i] = cauchy<T>(k, distance_[r].v[i]);
                break;
            case KernelKind::cosine:
                BOMKL_ROWS(r) BOMKL_EACH(i)
                    value[r].v[i] = cosine<T>(rows_, first_ + r, tile_, c_ + i * Simd<T>::width, inner(r, i));
                break;
            case KernelKind::callable: break;
        }
        return true;
    }

private:
    Vec<T> inner(int r, int i) const { return load<T>(inner_ + r * kTile + i * Simd<T>::width); }
    [[gnu::always_inline]] inline void measure() {
        const Strip<T> norms = Strip<T>::loaded(tile_.norm + c_);
        BOMKL_ROWS(r) {
            Vec<T> nearest;
            distance_[r] = distances<T>(rows_, first_ + r, tile_, c_, Strip<T>::loaded(inner_ + r * kTile), norms, nearest);
            nearest_ = r == 0 ? nearest : Simd<T>::min(nearest_, nearest);
        }
        have_distance_ = true;
    }

    const Rows<T>& rows_;
    int first_;
    const Tile<T>& tile_;
    int c_;
    const T* inner_;
    Strip<T> distance_[R];
    Vec<T> nearest_;
    bool have_distance_ = false;
    const PreparedKernel<T>* last_ = nullptr;  // the kernel whose values `value` holds
};

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
void add_gaussian_tile(const Rows<T>& rows, int first, int n, const Tile<T>& tile, const T* inner,
                       const PreparedKernel<T>& k, T* partial, std::size_t row_lanes) {
    for (int c = 0; c < kTile; c += kStripColumns<T>) {
        const Strip<T> norms = Strip<T>::loaded(tile.norm + c);
        for (int r = 0; r < n; ++r) {
            Vec<T> nearest;
            const Strip<T> products = Strip<T>::loaded(inner + r * kTile + c);
            const Strip<T> distance = distances<T>(rows, first + r, tile, c, products, norms, nearest);
            if (!Simd<T>::any_less(nearest, broadcast<T>(k.furthest))) continue;
            Strip<T> value;
            gaussian<T>(k, distance, value);
            T* const lanes = partial + (first + r) * row_lanes + tile.lane_set * kLanes;
            for (int i = 0; i < tile.n_terms; ++i)
                accumulate<T>(lanes + std::size_t(tile.terms[i].expansion) * (kLaneSets * kLanes), tile.terms[i].coef,
                              value, c);
        }
    }
}

// The same for a row of ones and a tile of ones whose squared distances are below kWhole: kernel values are looked up.
template <class T>
class OnesOnTile {
public:
    [[gnu::always_inline]] OnesOnTile(const Rows<T>& rows, int r, const Tile<T>& tile) {
        const Bytes counts = count_ones<T>(rows, r, tile);
        const Bytes norms = load_bytes(tile.bytes + std::size_t(rows.features + 1) * kTile);
        const Bytes distances = norms + std::uint8_t(rows.norm[r]) - counts - counts;
        std::memcpy(inner_, &counts, sizeof counts);
        std::memcpy(distance_, &distances, sizeof distances);
    }
    [[gnu::always_inline]] Strip<T> values(const PreparedKernel<T>& k, int c) const {
        const std::uint8_t* at = (k.uses_distance() ? distance_ : inner_) + c;
        Strip<T> value;
        BOMKL_EACH(i) value.v[i] = Simd<T>::lookup(k.at_whole, Simd<T>::widen(at + i * Simd<T>::width));
        return value;
    }
    [[gnu::always_inline]] Vec<T> inner(int c) const {
        return __builtin_convertvector(Simd<T>::widen(inner_ + c), Vec<T>);
    }

private:
    alignas(64) std::uint8_t inner_[kTile], distance_[kTile];
};
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
                    if (k.kind == KernelKind::cosine)
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
    return tile.lane_set == 0 && tile.n_terms > 0 && kernels[tile.terms[0].kernel].kind == KernelKind::gaussian;
}

// Adds one tile's share to the scores of n rows.
template <class T>
void add_rows(const Rows<T>& rows, int first, int n, const Tile<T>& tile, const PreparedKernel<T>* kernels, T* partial,
              std::size_t row_lanes) {
    alignas(64) T inner[kRows * kTile];
    inner_rows<T>(rows, first, n, tile, inner, kTile);
    if (one_gaussian<T>(tile, kernels))
        return add_gaussian_tile<T>(rows, first, n, tile, inner, kernels[tile.terms[0].kernel], partial, row_lanes);
    int r = 0;
    for (; r + 2 <= n; r += 2)
        add_tile<T, 2>(rows, first + r, tile, inner + r * kTile, kernels, partial, row_lanes);
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
            const std::size_t feature = rows.ones && tiles[last].bytes ? 1 : sizeof(T);
            bytes += (rows.features * feature + tiles[last].n_terms * sizeof(T)) * kTile;
            ++last;
        } while (last < n_tiles && bytes < kFirstLevelCache);
        for (int first = begin; first < end; first += kRows) {
            const int n = end - first < kRows ? end - first : kRows;
            for (int q = chunk; q < last; ++q) {
                if (!(rows.ones && tiles[q].bytes)) {
                    add_rows<T>(rows, first, n, tiles[q], kernels, partial, row_lanes);
                    continue;
                }
                T largest = 0;
                for (int r = first; r < first + n; ++r) largest = rows.norm[r] > largest ? rows.norm[r] : largest;
                if (largest + *tiles[q].largest_norm < T(kWhole))
                    add_whole_tile<T>(rows, first, n, tiles[q], kernels, partial, row_lanes);
                else
                    add_rows<T>(rows, first, n, tiles[q], kernels, partial, row_lanes);
            }
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
void append(const Rows<T>& rows, int r, int n, const Tile<T>* block_tiles, const T* inner, const NewTerm<T>* terms,
            int n_terms, int lane_set, int lane, const PreparedKernel<T>* kernels, T* partial, int n_expansions) {
    const std::size_t row_lanes = std::size_t(n_expansions) * (kLaneSets * kLanes);
    T values[kStripColumns<T>];
    for (int start = (r + 1) / kStripColumns<T> * kStripColumns<T>; start < n; start += kStripColumns<T>) {
        const int q = start / kTile, begin = r + 1 > start ? r + 1 : start;
        const int end = n < start + kStripColumns<T> ? n : start + kStripColumns<T>;
        RowsOnStrip<T, 1> row(rows, r, block_tiles[q], start % kTile, inner + std::size_t(q) * kTile);
        Strip<T> value[1];
        int have = -1;
        for (int i = 0; i < n_terms; ++i) {
            if (terms[i].kernel != have) {
                if (!row.map(kernels[terms[i].kernel], value)) break;
                have = terms[i].kernel;
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
void relate(const Rows<T>& rows, int r, const Tile<T>* tiles, int n_tiles, const T* inner, T* distance, T* cosines) {
    constexpr int W = Simd<T>::width;
    for (int q = 0; q < n_tiles; ++q) {
        if (distance)
            for (int c = 0; c < kTile; c += kStripColumns<T>) {
                Vec<T> least;
                distances<T>(rows, r, tiles[q], c, Strip<T>::loaded(inner + q * kTile + c),
                             Strip<T>::loaded(tiles[q].norm + c), least)
                    .store_to(distance + q * kTile + c);
            }
        if (cosines)
            for (int c = 0; c < kTile; c += W)
                store<T>(cosines + q * kTile + c, cosine<T>(rows, r, tiles[q], c, load<T>(inner + q * kTile + c)));
    }
}

template <class T>
T weighted_sum(const T* coef, const T* values, int n) {
    T lanes[kLanes] = {};
    int i = 0;
    for (; i + kStripColumns<T> <= n; i += kStripColumns<T>)
        accumulate<T>(lanes, coef, Strip<T>::loaded(values + i), i);
    for (; i < n; ++i) lanes[i % kLanes] = scalar_fma<T>(coef[i], values[i], lanes[i % kLanes]);
    return sum_of<T>(lanes);
}

// A kernel of one vector. `source` is the inner product, the squared distance or the cosine, whichever the kernel is a map of.
template <class T>
Vec<T> map_vector(const PreparedKernel<T>& k, Vec<T> source) {
    switch (k.kind) {
        case KernelKind::polynomial: {
            const Vec<T> base = affine<T>(k, source);
            Vec<T> value = base;
            for (int i = 1; i < k.degree; ++i) value *= base;
            return value;
        }
        case KernelKind::gaussian: {
            const Vec<T> furthest = broadcast<T>(k.furthest);
            if (!Simd<T>::any_less(source, furthest)) return Vec<T>{};
            Vec<T> value = exp2_of_product<T>(source, broadcast<T>(k.exponent), Simd<T>::less(source, furthest));
            for (int i = 0; i < k.fourths; ++i) {
                value *= value;
                value *= value;
            }
            return value;
        }
        case KernelKind::exponential: return exponential<T>(k, source);
        case KernelKind::cauchy: return cauchy<T>(k, source);
        default: return source;
    }
}

template <class T>
void tabulate(PreparedKernel<T>* kernels, int n) {
    constexpr int W = Simd<T>::width;
    T whole[kWhole];
    for (int i = 0; i < kWhole; ++i) whole[i] = T(i);
    for (int k = 0; k < n; ++k)
        for (int i = 0; i < kWhole; i += W) store<T>(kernels[k].at_whole + i, map_vector<T>(kernels[k], load<T>(whole + i)));
}

template <class T>
T expand(const PreparedKernel<T>& k, const T* inner, const T* distance, const T* cosine, const int* slots, const T* coef,
         int n, T* values) {
    constexpr int W = Simd<T>::width;
    const T* source = k.uses_distance() ? distance : k.kind == KernelKind::cosine ? cosine : inner;
    int i = 0;
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
void exp_many(T* values, std::size_t n) {
    using S = Simd<T>;
    const Vec<T> log2e = broadcast<T>(T(1.4426950408889634074));
    for (std::size_t i = 0; i + S::width <= n; i += S::width) {
        const Vec<T> x = load<T>(values + i), multiple = next_multiple<T>(x, log2e), whole = value_of_multiple<T>(multiple);
        const Vec<T> rest = S::fma(whole, broadcast<T>(-S::ln2_low), S::fma(whole, broadcast<T>(-S::ln2_high), x));
        store<T>(values + i, exp2_of_sum<T>(multiple, rest * log2e, S::less(broadcast<T>(S::least_exp), x)));
    }
}

template <class T>
constexpr Primitives<T> table{tabulate<T>, evaluate<T>, evaluate_related<T>, append<T>, sum_lanes<T>, inner<T>,       scatter<T>,
                              gather_inner<T>, relate<T>,      expand<T>, weighted_sum<T>, exp_many<T>};

}  // namespace

extern const Primitives<float>* const single_precision;
extern const Primitives<double>* const double_precision;
const Primitives<float>* const single_precision = &table<float>;
const Primitives<double>* const double_precision = &table<double>;

}  // namespace bomkl::BOMKL_ISA
