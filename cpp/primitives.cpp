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

template <class T>
void inner_rows(const Rows<T>& rows, int begin, int n, const T* tile, T* out, std::size_t out_stride) {
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

// |x|^2 + |z|^2 - 2 x.z loses its digits where the rows are close and long: those lanes are summed feature by feature.
template <class T>
void distances(const T* x, T norm, const Tile<T>& tile, int features, const T* inner, T* out) {
    constexpr int W = Simd<T>::width;
    bool cancelled = false;
    for (int c = 0; c < kTile; c += W) {
        const Vec<T> scale = load<T>(tile.norm + c) + norm;
        const Vec<T> value = Simd<T>::fma(broadcast<T>(T(-2)), load<T>(inner + c), scale);
        cancelled |= Simd<T>::any_less(value, scale * Simd<T>::cancellation);
        store<T>(out + c, value);
    }
    if (!cancelled) return;
    for (int c = 0; c < kTile; ++c) {
        if (!(out[c] < (tile.norm[c] + norm) * Simd<T>::cancellation)) continue;
        double sum = 0;
        for (int j = 0; j < features; ++j) {
            const double difference = double(x[j]) - double(tile.x[std::size_t(j) * kTile + c]);
            sum += difference * difference;
        }
        out[c] = T(sum);
    }
}

template <class T>
Vec<T> map_vector(const KernelSpec& k, Vec<T> inner, Vec<T> distance, Vec<T> cosine) {
    switch (k.kind) {
        case KernelKind::linear: return inner;
        case KernelKind::polynomial: {
            const Vec<T> base = Simd<T>::fma(inner, broadcast<T>(T(k.a)), broadcast<T>(T(k.b)));
            Vec<T> value = base;
            for (int i = 1; i < k.degree; ++i) value *= base;
            return value;
        }
        case KernelKind::gaussian: return exp_not_positive<T>(distance * T(-k.a));
        case KernelKind::exponential: return exp_not_positive<T>(Simd<T>::sqrt(distance) * T(-k.a));
        case KernelKind::cauchy: return T(1) / Simd<T>::fma(distance, broadcast<T>(T(k.a)), broadcast<T>(T(1)));
        case KernelKind::cosine: return cosine;
        case KernelKind::callable: break;
    }
    return Vec<T>{};
}

// One row against one tile: whatever the kernels of this tile need, computed at most once.
template <class T>
class RowOnTile {
public:
    RowOnTile(const Rows<T>& rows, int r, const Tile<T>& tile, const T* inner)
        : rows_(rows), r_(r), tile_(tile), inner_(inner) {}

    // The values of a kernel for the groups asked for; false where all of them are zero. `out` must still hold what the last
    // call put there.
    bool values(const KernelSpec& k, unsigned groups, T* out) {
        constexpr int W = Simd<T>::width;
        if (k.uses_distance()) need_distance();
        if (k.kind == KernelKind::gaussian)
            return groups == kAllGroups ? gaussian<true>(k, groups, out) : gaussian<false>(k, groups, out);
        last_ = nullptr;
        for (int c = 0; c < kTile; c += W) {
            if (!(groups >> (c / kLanes) & 1)) continue;
            const Vec<T> inner = load<T>(inner_ + c);
            const Vec<T> distance = k.uses_distance() ? load<T>(distance_ + c) : Vec<T>{};
            const Vec<T> cosine = k.kind == KernelKind::cosine
                                      ? inner * (load<T>(tile_.inverse_length + c) * rows_.inverse_length[r_])
                                      : Vec<T>{};
            store<T>(out + c, map_vector<T>(k, inner, distance, cosine));
        }
        return true;
    }

private:
    void need_distance() {
        if (have_distance_) return;
        distances<T>(rows_.x + r_ * rows_.stride, rows_.norm[r_], tile_, rows_.features, inner_, distance_);
        have_distance_ = true;
    }
    // Narrow Gaussians of far rows underflow: whole vectors of zeros are not worth an exp.
    template <bool All>
    bool gaussian(const KernelSpec& k, unsigned groups, T* out) {
        constexpr int W = Simd<T>::width;
        const bool follows =
            last_ && k.fourths == last_->fourths + 1 && k.root == last_->root && (groups & ~last_groups_) == 0;
        const int fourths = follows ? 1 : k.fourths;
        const Vec<T> limit = broadcast<T>(Simd<T>::exp_limit);
        bool any = false;
#pragma GCC unroll 4
        for (int c = 0; c < kTile; c += W) {
            if (!All && !(groups >> (c / kLanes) & 1)) continue;
            const Vec<T> distance = load<T>(distance_ + c);
            const Vec<T> x = distance * T(-k.a);
            Vec<T> value{};
            if (Simd<T>::any_less(limit, x)) {
                any = true;
                value = follows ? load<T>(out + c) : exp_not_positive<T>(distance * T(-k.root));
                value = x < limit ? Vec<T>{} : value;  // else a power could be subnormal, which is slow
                for (int i = 0; i < fourths; ++i) {
                    value *= value;
                    value *= value;
                }
            }
            store<T>(out + c, value);
        }
        last_ = &k;
        last_groups_ = groups;
        return any;
    }
    const Rows<T>& rows_;
    int r_;
    const Tile<T>& tile_;
    const T* inner_;
    alignas(64) T distance_[kTile];
    bool have_distance_ = false;
    const KernelSpec* last_ = nullptr;  // the Gaussian whose values `out` holds, for last_groups_
    unsigned last_groups_ = 0;
};

// A group without coefficients would only add zeros.
template <class T, bool All>
void accumulate(T* lanes, const T* coef, const T* values, unsigned groups) {
    constexpr int W = Simd<T>::width, G = kLanes / W;
    Vec<T> sum[G];
#pragma GCC unroll 8
    for (int g = 0; g < G; ++g) sum[g] = load<T>(lanes + g * W);
#pragma GCC unroll 4
    for (int c = 0; c < kTile; c += kLanes) {
        if (!All && !(groups >> (c / kLanes) & 1)) continue;
#pragma GCC unroll 8
        for (int g = 0; g < G; ++g)
            sum[g] = Simd<T>::fma(load<T>(coef + c + g * W), load<T>(values + c + g * W), sum[g]);
    }
#pragma GCC unroll 8
    for (int g = 0; g < G; ++g) store<T>(lanes + g * W, sum[g]);
}

// Adds one tile's share of a row's scores to its lanes.
template <class T>
void add_tile(const Rows<T>& rows, int r, const Tile<T>& tile, const T* inner, const KernelSpec* kernels, T* lanes) {
    alignas(64) T values[kTile];
    RowOnTile<T> row(rows, r, tile, inner);
    int have = -1;
    bool vanishes = false, narrower_vanish = false;
    for (int i = 0; i < tile.n_terms; ++i) {
        const Term<T>& term = tile.terms[i];
        if (term.kernel != have) {
            const KernelSpec& k = kernels[term.kernel];
            if (narrower_vanish && k.kind == KernelKind::gaussian) continue;
            unsigned groups = 0;
            for (int j = i; j < tile.n_terms && tile.terms[j].kernel == term.kernel; ++j) groups |= tile.terms[j].groups;
            have = term.kernel;
            vanishes = !row.values(k, groups, values);
            narrower_vanish = vanishes && groups == kAllGroups;
        }
        if (vanishes) continue;
        T* const own = lanes + std::size_t(term.expansion) * kLanes;
        if (term.groups == kAllGroups)
            accumulate<T, true>(own, term.coef, values, kAllGroups);
        else
            accumulate<T, false>(own, term.coef, values, term.groups);
    }
}

template <class T>
void evaluate(const Rows<T>& rows, int begin, int end, const Tile<T>* tiles, int n_tiles, const KernelSpec* kernels,
              T* partial, int n_expansions) {
    constexpr std::size_t kFirstLevelCache = 32 << 10;
    alignas(64) T inner[kRows * kTile];
    for (int chunk = 0; chunk < n_tiles;) {
        // as many tiles as stay in the nearest cache while all rows pass by
        int last = chunk;
        std::size_t bytes = 0;
        do {
            bytes += std::size_t(rows.features + tiles[last].n_terms) * kTile * sizeof(T);
            ++last;
        } while (last < n_tiles && bytes < kFirstLevelCache);
        for (int first = begin; first < end; first += kRows) {
            const int n = end - first < kRows ? end - first : kRows;
            for (int q = chunk; q < last; ++q) {
                inner_rows<T>(rows, first, n, tiles[q].x, inner, kTile);
                for (int r = 0; r < n; ++r)
                    add_tile<T>(rows, first + r, tiles[q], inner + r * kTile, kernels,
                                partial + std::size_t(first + r) * n_expansions * kLanes);
            }
        }
        chunk = last;
    }
}

template <class T>
void append(const Rows<T>& rows, int r, int n, const Tile<T>* block_tiles, const NewTerm<T>* terms, int n_terms, int lane,
            const KernelSpec* kernels, T* partial, int n_expansions) {
    alignas(64) T inner[kTile];
    alignas(64) T values[kTile];
    for (int q = (r + 1) / kTile; q * kTile < n; ++q) {
        inner_rows<T>(rows, r, 1, block_tiles[q].x, inner, kTile);
        RowOnTile<T> row(rows, r, block_tiles[q], inner);
        const int begin = r + 1 > q * kTile ? r + 1 : q * kTile;
        const int end = n < (q + 1) * kTile ? n : (q + 1) * kTile;
        int have = -1;
        bool zero = false;
        for (int i = 0; i < n_terms; ++i) {
            if (terms[i].kernel != have) {
                have = terms[i].kernel;
                zero = !row.values(kernels[have], kAllGroups, values);
            }
            if (zero) continue;
            T* lanes = partial + std::size_t(terms[i].expansion) * kLanes + lane;
            for (int t = begin; t < end; ++t) {
                T& sum = lanes[std::size_t(t) * n_expansions * kLanes];
                sum = scalar_fma<T>(terms[i].coef, values[t - q * kTile], sum);
            }
        }
    }
}

template <class T>
T sum_lanes(const T* lanes) {
    T sum[kLanes / 2];
    for (int i = 0; i < kLanes / 2; ++i) sum[i] = lanes[i] + lanes[i + kLanes / 2];
    for (int half = kLanes / 4; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) sum[i] += sum[i + half];
    return sum[0];
}

template <class T>
void inner(const Rows<T>& rows, int begin, int end, const Tile<T>* tiles, int n_tiles, T* out, std::size_t stride) {
    for (int q = 0; q < n_tiles; ++q)
        for (int first = begin; first < end; first += kRows) {
            const int n = end - first < kRows ? end - first : kRows;
            inner_rows<T>(rows, first, n, tiles[q].x, out + first * stride + q * kTile, stride);
        }
}

template <class T>
void relate(const Rows<T>& rows, int r, const Tile<T>* tiles, int n_tiles, const T* inner, T* distance, T* cosine) {
    constexpr int W = Simd<T>::width;
    for (int q = 0; q < n_tiles; ++q) {
        if (distance)
            distances<T>(rows.x + r * rows.stride, rows.norm[r], tiles[q], rows.features, inner + q * kTile,
                         distance + q * kTile);
        if (cosine)
            for (int c = 0; c < kTile; c += W)
                store<T>(cosine + q * kTile + c, load<T>(inner + q * kTile + c) *
                                                     (load<T>(tiles[q].inverse_length + c) * rows.inverse_length[r]));
    }
}

template <class T>
T weighted_sum(const T* coef, const T* values, int n) {
    T lanes[kLanes] = {};
    int i = 0;
    for (; i + kTile <= n; i += kTile) accumulate<T, true>(lanes, coef + i, values + i, kAllGroups);
    for (; i < n; ++i) lanes[i % kLanes] = scalar_fma<T>(coef[i], values[i], lanes[i % kLanes]);
    return sum_lanes<T>(lanes);
}

template <class T>
T expand(const KernelSpec& k, const T* inner, const T* distance, const T* cosine, const int* slots, const T* coef, int n,
         T* values) {
    constexpr int W = Simd<T>::width;
    const T* source = k.uses_distance() ? distance : k.kind == KernelKind::cosine ? cosine : inner;
    T gathered[W];
    for (int i = 0; i < n; i += W) {
        const int m = n - i < W ? n - i : W;
        for (int w = 0; w < W; ++w) gathered[w] = w < m ? source[slots[i + w]] : T(0);
        const Vec<T> v = load<T>(gathered);
        const Vec<T> mapped = map_vector<T>(k, v, v, v);
        if (m == W)
            store<T>(values + i, mapped);
        else
            for (int w = 0; w < m; ++w) values[i + w] = mapped[w];
    }
    return weighted_sum<T>(coef, values, n);
}

template <class T>
void exp_many(T* values, std::size_t n) {
    constexpr std::size_t W = Simd<T>::width;
    for (std::size_t i = 0; i + W <= n; i += W) store<T>(values + i, exp_not_positive<T>(load<T>(values + i)));
}

template <class T>
constexpr Primitives<T> table{evaluate<T>,     append<T>, sum_lanes<T>, inner<T>, relate<T>,
                              expand<T>, weighted_sum<T>, exp_many<T>};

}  // namespace

extern const Primitives<float>* const single_precision;
extern const Primitives<double>* const double_precision;
const Primitives<float>* const single_precision = &table<float>;
const Primitives<double>* const double_precision = &table<double>;

}  // namespace bomkl::BOMKL_ISA
