// Scores in single precision with a bound of their error, for rules that look at no more than a sign or a margin, where votes
// are combined: most are decided by them, and the others are computed in double precision. So what is learned is the same, bit
// for bit.
//
// Rows are looked at ahead of their turn, a line of them at once, as ListedScores does. Here the order in which terms are added
// is free, so a support row that comes or goes is added to the sums or taken off.
//
// The score of a Gaussian can be tiny, and then its sign still decides. So values are taken relative to that of the nearest
// support row, exp(-a (u - least u)), which changes no sign.
//
// The bound. Let e = 2^-24, rows x and z of d columns. An inner product is off by at most (1.01 d + 3) e |x| |z|: rows are
// rounded, and d products are added up. A squared distance u is |x|^2 + |z|^2 - 2 x.z, with three more roundings, so it is off
// by at most du = (1.01 d + 7) e (|x|^2 + |z|^2). A Gaussian is then off by a factor of at most exp(a du), and by 2e-5 for the
// rest: the exponent, at most 124 in powers of two, has three roundings, and exp2 is good to 1e-6. Terms of less than 2^-124 of
// the largest are left out. A sum of n terms is off by n e times the sum of their sizes. In double precision all of this is
// 2^29 times smaller, which the constants leave room for.
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "budget/config.hpp"
#include "budget/state.hpp"
#include "primitives/buffer.hpp"
#include "primitives/parallel.hpp"
#include "primitives/primitives.hpp"

namespace bomkl {

class RoughScores {
public:
    static bool serves(const Config& config, const Primitives<double>& primitives) {
        if (config.task == Task::regression || !config.vote || looks(config.learner) == Looks::at_score) return false;
        if (config.combiner.hedge && config.combiner.loss != Loss::zero_one) return false;
        return primitives.single_precision &&
               std::all_of(config.kernels.begin(), config.kernels.end(), [](const KernelSpec& k) {
                   if (k.kind == kGaussian) return k.a >= 0x1p-60 && k.a <= 0x1p60;
                   return k.kind == AllKernels::place<polynomial::Kernel>() && k.degree <= 16;
               });
    }
    RoughScores(const Config& config, const Primitives<double>& primitives, const State<double>& state)
        : m_(int(config.kernels.size())), margin_(looks(config.learner) == Looks::at_margin), kernels_(config.kernels),
          doubles_(primitives), primitives_(*primitives.single_precision), state_(state), of_(state.expansions.size()) {
        for (KernelSpec k : config.kernels) {
            k.root = k.a;
            k.fourths = 0;
            single_.emplace_back(k);
            furthest_.push_back(PreparedKernel<double>(k).furthest);
            needed_[int(k.source)] = true;
        }
        const int d = state.pool.features();
        inner_error_ = (1.01 * d + 3) * kRounding;
        distance_error_ = (1.01 * d + 7) * kRounding;
    }

    std::size_t bytes_per_slot() const { return sizeof(float) * (int(needed_[0]) + int(needed_[1])); }
    static constexpr int kRows = kLine<float>;

    // Rows of a block against all slots; false where numbers are so large that it cannot be done. `used` is about all slots.
    bool begin_block(const Rows<double>& rows, int n, const std::uint64_t* used, int n_threads,
                     const std::function<void()>& pause) {
        read_pool();
        load(rows, n);
        line_ = -1;
        if (!(largest_norm_ < kLargestNorm)) return false;
        const int n_lines = (n + kRows - 1) / kRows, n_tiles = int(tiles_.size());
        n_slots_ = std::size_t(n_tiles + (n + kTile - 1) / kTile) * kTile;
        for (int s = 0; s < kSources; ++s)
            if (const std::size_t size = n_lines * n_slots_ * kRows; needed_[s] && lines_[s].size() < size)
                lines_[s].at_least(size + size / 2);
        nearest_.resize(n_lines);
        in_parallel((n_lines + 1) / 2, n_threads, double(n) * n_tiles * kTile * rows.features,
                    [&](int begin, int end) {
                        for (int line = 2 * begin; line < std::min(2 * end, n_lines); line += 2) {
                            const int first = line * kRows;
                            float* out[kSources];
                            for (int s = 0; s < kSources; ++s) out[s] = needed_[s] ? line_of(s, line) : nullptr;
                            nearest_[line] =
                                primitives_.relate_line(single_rows(), first, std::min(2 * kRows, n - first), columns_of(first),
                                                        tiles_.data(), n_tiles, used, out, n_slots_ * kRows);
                            if (line + 1 < n_lines) nearest_[line + 1] = nearest_[line];
                        }
                    },
                    pause);
        return true;
    }

    // A score that has the sign, and lies on the side of one, of that of row t of the block; false where that is not certain.
    bool score(int e, int t, double& f) {
        if (t / kRows != line_) begin_line(t / kRows);
        const Expansion<double>& expansion = state_.expansions[e];
        OfExpansion& of = of_[e];
        f = 0;
        if (expansion.size() == 0 || all_vanish(e, t)) return true;
        if (!of.begun) begin(of, e);
        if (of.known && decides(of, e, t, f)) return true;
        if (of.changes == 0) return false;
        begin(of, e);
        return of.known && decides(of, e, t, f);
    }

    // An expansion has got the row at hand, has dropped a row, or has other coefficients.
    void added(int e, int slot, double coef) noexcept {
        if (!of_[e].begun) return;
        if (added_.size() == added_.capacity())
            of_[e].begun = false;
        else
            added_.push_back({e, slot, coef});
    }
    void dropped(int e, int slot, double coef) noexcept {
        OfExpansion& of = of_[e];
        if (!of.begun) return;
        for (const Added& added : added_)
            if (added.expansion == e && added.slot == slot) return void(of.begun = false);
        add_term(of, e, slot, -coef);
    }
    void coefs_changed(int e) noexcept { of_[e].begun = false; }

    // A slot has another row, which will be that of the row at hand.
    void row_changed(int slot) {
        added_.clear();
        added_.reserve(of_.size());
        if (slot < n_read_) read(slot);
    }
    // Row t of the block is now in this slot: the rows after it are related to it.
    void relate_new_row(int t, int slot) {
        read_pool();
        for (int line = (t + 1) / kRows; line * kRows < n_; ++line) {
            const int first = line * kRows;
            float* out[kSources];
            for (int s = 0; s < kSources; ++s) out[s] = needed_[s] ? line_of(s, line) + std::size_t(slot) * kRows : nullptr;
            const float square =
                primitives_.relate_slot(single_rows(), first, std::max(0, t + 1 - first), std::min(kRows, n_ - first),
                                        columns_of(first), tiles_[slot / kTile], slot % kTile, out);
            nearest_[line] = std::min(nearest_[line], square);
        }
        if ((t + 1) / kRows == line_)
            for (const Added& added : added_) add_related(added, (t + 1) % kRows);
        added_.clear();
    }
    void forget() noexcept {
        n_read_ = 0;
        largest_norm_ = 0;
        line_ = -1;
        n_ = 0;
    }

private:
    static constexpr float kNoRow = 1e30f;  // the squared norm of rows that a line lacks: far from all others
    static constexpr double kRounding = 0x1p-24, kLargestNorm = 0x1p60, kLeastCoef = 0x1p-20, kLargestCoef = 0x1p40;
    static constexpr double kLog2E = 1.4426950408889634074, kTiny = 1e-36;  // the latter: what underflow can take off
    static constexpr double kReach = 124, kZero = 1020;  // powers of two from which on values are zero, single and double

    struct OfExpansion {
        alignas(64) float sums[kRows], sizes[kRows], least[kRows];
        bool begun = false, known = false;  // sums are about the line; numbers are in the range in which their bound holds
        int changes = 0;                    // since the sums were made
        int terms = 0;
        double coef_sum = 0;  // of sizes, or more
    };
    struct Added {
        int expansion, slot;
        double coef;
    };

    const KernelSpec& kernel(int e) const { return kernels_[e % m_]; }
    const PreparedKernel<float>& single(int e) const { return single_[e % m_]; }
    bool is_gaussian(int e) const { return kernel(e).kind == kGaussian; }
    double furthest(int e) const { return furthest_[e % m_]; }
    float* line_of(int source, int line) { return lines_[source].data() + line * n_slots_ * kRows; }
    const float* line_of(int e) { return line_of(int(kernel(e).source), line_); }

    // Rows and slots in single precision.
    Rows<float> single_rows() const { return {x_.data(), std::size_t(features()), norm_.data(), nullptr, features()}; }
    const float* columns_of(int first) const {
        return columns_.data() + std::size_t(first / kTile) * kTile * features() + first % kTile;
    }
    int features() const { return state_.pool.features(); }
    void load(const Rows<double>& rows, int n) {
        const int d = features();
        const std::size_t padded = std::size_t((n + kTile - 1) / kTile) * kTile;
        n_ = n;
        x_.resize(std::size_t(n) * d);
        norm_.assign(padded, kNoRow);
        square_.resize(n);
        length_.resize(n);
        columns_.at_least(padded * d);
        for (int t = 0; t < n; ++t) {
            const double* const row = rows.x + std::size_t(t) * rows.stride;
            float* const column = columns_.data() + std::size_t(t / kTile) * kTile * d + t % kTile;
            for (int j = 0; j < d; ++j) column[std::size_t(j) * kTile] = x_[std::size_t(t) * d + j] = float(row[j]);
            norm_[t] = float(rows.norm[t]);
            square_[t] = rows.norm[t];
            length_[t] = std::sqrt(rows.norm[t]);
            largest_norm_ = std::max(largest_norm_, rows.norm[t]);
        }
    }
    void read(int slot) {
        const int d = features(), c = slot % kTile;
        row_.resize(d);
        state_.pool.read(slot, row_.data());
        float* const tile = memory_[slot / kTile].data();
        for (int j = 0; j < d; ++j) tile[std::size_t(j) * kTile + c] = float(row_[j]);
        const double square = state_.pool.squared_norm_of(slot);
        tile[std::size_t(d) * kTile + c] = float(square);
        largest_norm_ = std::max(largest_norm_, square);
    }
    void read_pool() {
        const int d = features(), n_tiles = state_.pool.n_tiles(), n_slots = state_.pool.n_slots();
        while (int(memory_.size()) < n_tiles) memory_.emplace_back(std::size_t(d + 1) * kTile);
        tiles_.resize(n_tiles);
        for (int q = 0; q < n_tiles; ++q) {
            const float* const x = memory_[q].data();
            tiles_[q] = {x, x + std::size_t(d) * kTile, nullptr, nullptr, 0};
        }
        for (; n_read_ < n_slots; ++n_read_) read(n_read_);
    }

    void begin_line(int line) {
        line_ = line;
        added_.clear();
        for (OfExpansion& of : of_) of.begun = false;
    }
    // Sums of the line, from nothing.
    void begin(OfExpansion& of, int e) {
        const Expansion<double>& expansion = state_.expansions[e];
        const int n = expansion.size();
        of.begun = true;
        of.changes = 0;
        of.terms = n;
        if (int(coefs_.size()) < n + kPadding) {
            coefs_.resize(n + n / 2 + kPadding);
            coef_sizes_.resize(n + n / 2 + kPadding);
        }
        const auto [smallest, largest] = doubles_.narrow(expansion.coefs.data(), n, coefs_.data(), coef_sizes_.data());
        std::fill_n(coefs_.begin() + n, kPadding, 0.0f);
        std::fill_n(coef_sizes_.begin() + n, kPadding, 0.0f);
        of.known = n < 1 << 18 && in_range(smallest) && in_range(largest);
        of.coef_sum = n * largest;
        std::fill_n(of.sums, kRows, 0.0f);
        std::fill_n(of.sizes, kRows, 0.0f);
        if (!of.known) return;
        if (is_gaussian(e)) {
            primitives_.least_listed(line_of(e), expansion.slots.data(), n, of.least);
            if (list_vanishes(of, e)) return;
        }
        primitives_.add_listed(single(e), line_of(e), is_gaussian(e) ? of.least : nullptr, expansion.slots.data(),
                               coefs_.data(), coef_sizes_.data(), n, of.sums, of.sizes);
    }
    static bool in_range(double size) { return size >= kLeastCoef && size <= kLargestCoef; }
    void add_term(OfExpansion& of, int e, int slot, double coef) noexcept {
        const double size = std::fabs(coef);
        if (!in_range(size)) return void(of.begun = false);
        const float coefs[1 + kPadding] = {float(coef)}, sizes[1 + kPadding] = {float(size)};
        primitives_.add_listed(single(e), line_of(e), is_gaussian(e) ? of.least : nullptr, &slot, coefs, sizes, 1, of.sums,
                               of.sizes);
        ++of.changes;
        ++of.terms;
        of.coef_sum += size;
    }
    // The rows of the line from `first` on are related to the slot. One nearer than all before needs new sums.
    void add_related(const Added& added, int first) {
        OfExpansion& of = of_[added.expansion];
        if (!of.begun) return;
        if (is_gaussian(added.expansion)) {
            const float* const squares = line_of(added.expansion) + std::size_t(added.slot) * kRows;
            const int end = std::min(kRows, n_ - line_ * kRows);
            for (int r = first; r < end; ++r)
                if (!(squares[r] >= of.least[r])) return void(of.begun = false);
        }
        add_term(of, added.expansion, added.slot, added.coef);
    }

    // How much a squared distance between row t and a row of squared norm `norm` at most can be off.
    double distance_error(int t, double norm) const { return distance_error_ * (square_[t] + norm) + kTiny; }
    // Whether a Gaussian is zero between row t and all slots.
    bool all_vanish(int e, int t) const {
        return is_gaussian(e) && nearest_[line_] - distance_error(t, largest_norm_) >= furthest(e);
    }
    // The same for the rows of the line and the list.
    bool list_vanishes(const OfExpansion& of, int e) const {
        for (int t = line_ * kRows; t < std::min(n_, (line_ + 1) * kRows); ++t)
            if (!vanishes(of, e, t)) return false;
        return true;
    }
    bool vanishes(const OfExpansion& of, int e, int t) const {
        return of.least[t % kRows] - distance_error(t, largest_norm_) >= furthest(e);
    }
    bool decides(const OfExpansion& of, int e, int t, double& f) const {
        const double sum = of.sums[t % kRows], size = of.sizes[t % kRows], added = (of.terms + 16) * kRounding;
        const double scale = state_.expansions[e].scale;
        if (!is_gaussian(e)) {
            const double error = 1.01 * added * size + of.coef_sum * polynomial_error(kernel(e), t);
            if (!(std::fabs(sum) > error)) return false;
            f = scale * sum;
            return !margin_ || is_beside_one(f, scale * error);
        }
        const double a = kernel(e).a, rate = kLog2E * a, least = of.least[t % kRows];
        const double most = distance_error(t, largest_norm_);
        if (vanishes(of, e, t)) return true;  // f is zero
        // terms beyond `furthest`, which are zero in double precision, are at most this beside the largest
        const double powers = rate * (least + 2 * most) - kZero;
        if (!(powers < -1)) return false;
        const double zeros = powers > -kReach ? std::exp2(powers) : 0x1p-110;
        double error = gaussian_error(a * most, of.coef_sum * zeros, size, added);
        if (!(std::fabs(sum) > error)) {
            // rows that count at all are near: they cannot be much longer than this one
            if (!(a * most < 20)) return false;
            const double length = length_[t] + std::sqrt(std::max(0.0, least) + kReach / rate + most);
            const double near = distance_error(t, std::min(largest_norm_, 1.01 * length * length));
            error = gaussian_error(a * near, of.coef_sum * std::max(zeros, 0x1p-60), size, added);
            if (!(std::fabs(sum) > error)) return false;
        }
        if (!margin_ || scale * 1.5 * (size + error) < 1) {
            f = std::copysign(0.5, sum);
            return true;
        }
        const double nearest = scale * std::exp2(-rate * least);
        f = nearest * sum;
        return is_beside_one(f, nearest * error);
    }
    static double gaussian_error(double exponent, double left_out, double size, double added) {
        if (!(exponent < 0.7)) return std::numeric_limits<double>::infinity();  // more than the sum can be
        const double factor = exponent < 0.1 ? 1.06 * exponent : std::expm1(exponent);
        return 1.01 * (factor + 2e-5 + added) * size + left_out;
    }
    // Of one value; base and power are off by little more than what they are made of.
    double polynomial_error(const KernelSpec& k, int t) const {
        const double largest = 1.001 * std::fabs(k.a) * length_[t] * std::sqrt(largest_norm_) + std::fabs(k.b);
        double power = 1;
        for (int i = 0; i < k.degree; ++i) power *= largest;
        if (!(power < 0x1p60)) return std::numeric_limits<double>::infinity();
        return 1.1 * k.degree * power * (inner_error_ + 8 * kRounding) + kTiny;
    }
    static bool is_beside_one(double f, double error) {
        return std::fabs(std::fabs(f) - 1) > 1.01 * error + 1e-9 * std::fabs(f);
    }

    const int m_;
    const bool margin_;  // which side of one matters, too
    const std::vector<KernelSpec>& kernels_;
    const Primitives<double>& doubles_;
    const Primitives<float>& primitives_;
    const State<double>& state_;
    std::vector<PreparedKernel<float>> single_;  // each with its own exponent, never a power of another
    std::vector<double> furthest_;               // u from which on exp(-a u) is zero in double precision
    bool needed_[kSources] = {};
    double inner_error_, distance_error_;

    // all slots
    std::vector<Buffer<float>> memory_;  // of every tile: its columns, then the squared norms
    std::vector<Tile<float>> tiles_;
    int n_read_ = 0;           // slots
    double largest_norm_ = 0;  // of all rows seen
    std::vector<double> row_;

    // the block
    int n_ = 0;
    std::size_t n_slots_ = 0;
    std::vector<float> x_, norm_;
    std::vector<double> square_, length_;
    Buffer<float> columns_;
    Buffer<float> lines_[kSources];
    std::vector<float> nearest_;  // of every line: no squared distance to a slot is less

    // the line
    int line_ = -1;
    std::vector<OfExpansion> of_;
    std::vector<float> coefs_, coef_sizes_;
    std::vector<Added> added_;  // by the row at hand
};

}  // namespace bomkl
