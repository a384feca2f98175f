// A small network that learns a stream in its order and rehearses rows of a sample: two hidden layers of tanh units, Adam.
//
// Rows come as codes of one byte. A step takes 32 rows of the stream, by their absolute numbers, and 96 rows of the sample,
// drawn by the number of the step; a row is scored with the weights before its step. Every product is a sum in a fixed order.
// So the bits are those of the rows and the samples, however rows come in calls. A copy shares the weights until a step.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "auto/components/losses.hpp"
#include "auto/components/products.hpp"
#include "auto/limits.hpp"
#include "auto/trees/stream_sample.hpp"
#include "primitives/buffer.hpp"

namespace bomkl::automatic {

// Rows that belong to somebody else; y are class numbers or scaled targets.
struct CodedView {
    const std::uint8_t* codes;  // (rows, columns)
    const double* y;
    const double* weight;
    std::size_t rows;
    std::size_t columns = 0;

    std::size_t size() const { return rows; }
    const std::uint8_t* codes_of(std::size_t i) const { return codes + i * columns; }
    double y_of(std::size_t i) const { return y[i]; }
    double weight_of(std::size_t i) const { return weight[i]; }
};

// Weights from `from` units and a constant to `to` units, with the moments of their gradients: [tile][from + 1][64].
struct NetworkLayer {
    NetworkLayer(int from, int to)
        : from(from), to(to), tiles((to + kTile - 1) / kTile), weights(std::size_t(tiles) * (from + 1) * kTile),
          means(weights.size()), squares(weights.size()) {}

    // Where the weight from unit i (`from` is the constant) to unit k is.
    std::size_t place(int i, int k) const { return (std::size_t(k / kTile) * (from + 1) + i) * kTile + k % kTile; }

    int from, to, tiles;
    Buffer<float> weights, means, squares;
};

class Network {
public:
    static constexpr int kNewRows = 32, kReplayed = 96, kFirst = 128, kSecond = 64;

    // The first layer sees values[j][code] of column j: `values` are (columns, 256).
    Network(std::vector<float> values, int outputs, Task task, std::uint64_t seed)
        : values_(std::make_shared<const std::vector<float>>(std::move(values))), open_{values_->size() / 256, {}, {}, {}},
          task_(task), seed_(seed) {
        auto made = std::make_shared<Layers>(
            Layers{NetworkLayer(int(columns()), kFirst), NetworkLayer(kFirst, kSecond), NetworkLayer(kSecond, outputs)});
        for (int l = 0; l < 2; ++l) {  // the last layer begins at zero
            NetworkLayer& layer = (*made)[l];
            Sequence draws(seed, ~std::uint64_t(l));
            const double unit = std::sqrt(3.0 / layer.from) * 0x1p-23;  // variance 1 / from
            for (int i = 0; i < layer.from; ++i)
                for (int k = 0; k < layer.to; ++k)
                    layer.weights.data()[layer.place(i, k)] = float(unit * (draws.below(1 << 24) - (1 << 23)));
        }
        layers_ = std::move(made);
    }

    const std::vector<float>& values() const { return *values_; }
    const CodedRows& open() const { return open_; }  // rows of the step that is not full yet
    std::size_t columns() const { return open_.columns; }
    int outputs() const { return layers_->back().to; }
    Task task() const { return task_; }
    std::uint64_t steps() const { return steps_; }
    std::size_t bytes() const {
        std::size_t size = values_->size() * sizeof(float) + open_.codes.size();
        for (const NetworkLayer& layer : *layers_) size += 3 * sizeof(float) * layer.weights.size();
        return size;
    }

    // All that it has learned: weights and moments of all layers, one layer after another, row after row, and the open step.
    template <class Archive>
    void archive(Archive& a) {
        auto made = std::make_shared<Layers>(*layers_);
        const auto flat = [&](const char* name, Buffer<float> NetworkLayer::*of, Limits limits) {
            std::vector<float> numbers;
            each_number(*made, of, [&](float& number) { numbers.push_back(number); });
            a.array(name, numbers, {numbers.size()}, limits);
            const float* next = numbers.data();
            if (!a.saving()) each_number(*made, of, [&](float& number) { number = *next++; });
        };
        a.count("steps", steps_);
        flat("weights", &NetworkLayer::weights, kNetworkWeights);
        flat("means", &NetworkLayer::means, kNetworkWeights);
        flat("squares", &NetworkLayer::squares, kNetworkSquares);
        a.array("codes", open_.codes, {kAnyLength, columns()});
        const std::size_t n = open_.codes.size() / columns();
        a.require("codes", n < kNewRows, "an array of at most 31 rows");
        a.array("y", open_.y, {n}, is_regression(task_) ? Limits() : Limits{0.0, std::max(outputs(), 2) - 1.0});
        a.array("weight", open_.weight, {n}, kSums);
        if (!a.saving()) layers_ = std::move(made);
    }

    // Scores (n, outputs) of rows.
    void score(const Primitives<float>& with, const std::uint8_t* codes, std::size_t n, double* scores) const {
        const std::size_t most = std::min<std::size_t>(n, kNewRows + kReplayed);
        Batch batch(*layers_, most);
        for (std::size_t begin = 0; begin < n; begin += most) {
            const std::size_t end = std::min(begin + most, n);
            for (std::size_t t = begin; t < end; ++t) put_inputs(batch, t - begin, codes + t * columns());
            forward(with, batch, end - begin);
            take_scores(batch, end - begin, scores + begin * outputs());
        }
    }

    // Scores rows with the weights before their steps, and takes the steps that they make full. `seen` rows came before
    // them; the sample must be the same for all rows of a step.
    template <class Sample>
    void learn(const Primitives<float>& with, const CodedView& rows, std::uint64_t seen, const Sample& sample, double* scores) {
        for (std::size_t done = 0; done < rows.rows;) {
            const std::size_t room = kNewRows - seen % kNewRows, fresh = std::min(room, rows.rows - done);
            double* const out = scores + done * outputs();
            const std::uint8_t* const codes = rows.codes + done * columns();
            const bool whole = fresh == kNewRows && open_.y.empty();
            if (!whole) score(with, codes, fresh, out);
            for (std::size_t t = 0; t < fresh; ++t)
                open_.put(open_.y.size(), codes + t * columns(), rows.y[done + t], rows.weight[done + t]);
            if (fresh == room) {
                const CodedView fresh_rows{open_.codes.data(), open_.y.data(), open_.weight.data(), open_.y.size()};
                step(with, fresh_rows, sample, whole ? out : nullptr);
                open_ = {columns(), {}, {}, {}};
            }
            done += fresh;
            seen += fresh;
        }
    }

    // Steps over rows in their order, 32 at a time, which are not scored; nothing is replayed.
    void rehearse(const Primitives<float>& with, const CodedView& rows) {
        for (std::size_t begin = 0; begin < rows.rows; begin += kNewRows) {
            const std::size_t n = std::min<std::size_t>(kNewRows, rows.rows - begin);
            step(with, {rows.codes + begin * columns(), rows.y + begin, rows.weight + begin, n}, CodedView{}, nullptr);
        }
    }

    // Makes room for one more class, which starts at a constant score; of two classes, the score told the second from the
    // first.
    void add_class(double log_odds) {
        const NetworkLayer& last = layers_->back();
        const bool first = last.to == 1;
        NetworkLayer wider(last.from, first ? 3 : last.to + 1);
        const auto copy = [&](const Buffer<float>& of, Buffer<float>& to, float second, float of_first) {
            for (int i = 0; i <= last.from; ++i)
                for (int k = 0; k < wider.to - 1; ++k)
                    to.data()[wider.place(i, k)] =
                        first ? (k == 0 ? of_first : second) * of.data()[last.place(i, 0)] : of.data()[last.place(i, k)];
        };
        copy(last.weights, wider.weights, 0.5f, -0.5f);
        copy(last.means, wider.means, 1.0f, -1.0f);
        copy(last.squares, wider.squares, 1.0f, 1.0f);
        wider.weights.data()[wider.place(last.from, wider.to - 1)] = float(log_odds);
        layers_ = std::make_shared<Layers>(Layers{(*layers_)[0], (*layers_)[1], std::move(wider)});
        task_ = Task::multiclass;
    }

private:
    using Layers = std::array<NetworkLayer, 3>;
    using Memory = Buffer<float>;
    static constexpr double kRate = 0.002, kHalf = 2000.0;  // the step size, which has fallen to 1 / sqrt(2) after kHalf steps
    static constexpr double kLargestResidual = 16.0;        // of scaled targets: one outlier must not spoil the moments

    // Activations of some rows: what goes into a layer has a one behind it.
    struct Batch {
        Batch(const Layers& layers, std::size_t rows)
            : wide{stride(layers[0].from), stride(layers[1].from), stride(layers[2].from),
                   layers[2].tiles * std::size_t(kTile)},
              units{Memory(rows * wide[0], Memory::Raw()), Memory(rows * wide[1], Memory::Raw()),
                    Memory(rows * wide[2], Memory::Raw()), Memory(rows * wide[3], Memory::Raw())} {
            for (int l = 0; l < 3; ++l)
                for (std::size_t t = 0; t < rows; ++t) row(l, t)[layers[l].from] = 1;
        }
        static std::size_t stride(int from) { return std::size_t(from / kLanes + 1) * kLanes; }
        float* row(int layer, std::size_t t) { return units[layer].data() + t * wide[layer]; }

        std::array<std::size_t, 4> wide;
        std::array<Memory, 4> units;
    };

    void put_inputs(Batch& batch, std::size_t t, const std::uint8_t* codes) const {
        float* const x = batch.row(0, t);
        for (std::size_t j = 0; j < columns(); ++j) x[j] = (*values_)[j * 256 + codes[j]];
    }

    void forward(const Primitives<float>& with, Batch& batch, std::size_t n) const {
        for (int l = 0; l < 3; ++l) {
            const NetworkLayer& layer = (*layers_)[l];
            multiply(with, batch.row(l, 0), batch.wide[l], int(n), layer.from + 1, layer.weights.data(), layer.tiles,
                     batch.row(l + 1, 0), batch.wide[l + 1]);
            for (std::size_t t = 0; l < 2 && t < n; ++t) with.tanh_many(batch.row(l + 1, t), layer.to);
        }
    }

    void take_scores(Batch& batch, std::size_t n, double* scores) const {
        for (std::size_t t = 0; t < n; ++t) std::copy_n(batch.row(3, t), outputs(), scores + t * outputs());
    }

    // One step of Adam on the weighted mean loss of new rows and of rows drawn from the sample.
    template <class Sample>
    void step(const Primitives<float>& with, const CodedView& fresh, const Sample& sample, double* scores) {
        const std::size_t n = fresh.rows + (sample.size() ? kReplayed : 0);
        std::vector<double> y(fresh.y, fresh.y + fresh.rows), weight(fresh.weight, fresh.weight + fresh.rows);
        Batch batch(*layers_, n);
        for (std::size_t t = 0; t < fresh.rows; ++t) put_inputs(batch, t, fresh.codes + t * columns());
        Sequence draws(seed_, steps_);
        for (std::size_t t = fresh.rows; t < n; ++t) {
            const auto drawn = std::size_t(draws.below(int(sample.size())));
            put_inputs(batch, t, sample.codes_of(drawn));
            y.push_back(sample.y_of(drawn));
            weight.push_back(sample.weight_of(drawn));
        }
        forward(with, batch, n);
        if (scores) take_scores(batch, fresh.rows, scores);
        double total = 0;
        for (const double each : weight) total += each;
        if (total > 0) descend(with, batch, y, weight, total);
    }

    void descend(const Primitives<float>& with, Batch& batch, const std::vector<double>& y, const std::vector<double>& weight,
                 double total) {
        const int n = int(y.size());
        std::array<Memory, 3> slopes = gradients(with, batch, errors(batch, y, weight, total), n);
        if (layers_.use_count() > 1) layers_ = std::make_shared<Layers>(*layers_);
        ++steps_;
        const double corrected = std::sqrt(1 - power(0.999, steps_)) / (1 - power(0.9, steps_));
        const auto rate = float(kRate / std::sqrt(1 + double(steps_) / kHalf) * corrected);
        for (int l = 0; l < 3; ++l) {
            NetworkLayer& layer = (*layers_)[l];
            with.adam(slopes[l].data(), slopes[l].size(), rate, layer.weights.data(), layer.means.data(), layer.squares.data());
        }
    }

    template <class Take>
    static void each_number(Layers& layers, Buffer<float> NetworkLayer::*of, Take&& take) {
        for (NetworkLayer& layer : layers)
            for (int i = 0; i <= layer.from; ++i)
                for (int k = 0; k < layer.to; ++k) take((layer.*of).data()[layer.place(i, k)]);
    }

    static double power(double base, std::uint64_t exponent) {  // the same everywhere, unlike the library's
        double result = 1;
        for (; exponent; exponent /= 2, base *= base)
            if (exponent % 2) result *= base;
        return result;
    }

    // Slopes of the mean loss by the scores, (n, tiles of the last layer * 64), zero behind the outputs.
    Memory errors(Batch& batch, const std::vector<double>& y, const std::vector<double>& weight, double total) const {
        const std::size_t stride = batch.wide[3];
        const int k = outputs();
        Memory out(y.size() * stride);
        std::vector<double> f(k), p(k);
        for (std::size_t t = 0; t < y.size(); ++t) {
            std::copy_n(batch.row(3, t), k, f.data());
            means(f.data(), k, task_, p.data());
            if (task_ != Task::multiclass)
                p[0] -= y[t];
            else if (y[t] >= 0 && y[t] < k)
                p[std::size_t(y[t])] -= 1;
            else
                throw std::invalid_argument("a class of the sample is not among the outputs");
            const double most = task_ == Task::huber ? kHuber : kLargestResidual;
            for (int o = 0; o < k; ++o) out.data()[t * stride + o] = float(std::clamp(p[o], -most, most) * (weight[t] / total));
        }
        return out;
    }

    // Slopes by the weights of each layer, in the layout of the weights.
    std::array<Memory, 3> gradients(const Primitives<float>& with, Batch& batch, const Memory& errors, int n) const {
        const auto& [first, second, last] = *layers_;
        std::array<Memory, 3> slopes;
        const auto by_weights = [&](int l, const Memory& tiled) {  // transposed inputs of the layer times slopes of its units
            const int inputs = (*layers_)[l].from + 1;
            Memory transposed(std::size_t(inputs) * n, Memory::Raw());
            transpose(batch.row(l, 0), std::size_t(n), std::size_t(inputs), batch.wide[l], transposed.data(), std::size_t(n));
            slopes[l] = tiles(with, transposed.data(), std::size_t(n), inputs, n, tiled.data(), (*layers_)[l].tiles);
        };
        Memory tiled(errors.size(), Memory::Raw()), back(std::size_t(last.tiles) * kTile * kTile, Memory::Raw());
        for (int q = 0; q < last.tiles; ++q) {
            for (int t = 0; t < n; ++t)
                std::copy_n(errors.data() + t * batch.wide[3] + q * kTile, kTile,
                            tiled.data() + (std::size_t(q) * n + t) * kTile);
            transpose(last.weights.data() + last.place(0, q * kTile), kSecond, kTile, kTile,
                      back.data() + std::size_t(q) * kTile * kTile, kTile);
        }
        by_weights(2, tiled);
        Memory units = tiles(with, errors.data(), batch.wide[3], n, last.to, back.data(), 1);
        through_tanh(batch, 2, n, units);
        by_weights(1, units);
        Memory back_to_first(std::size_t(kFirst) * kSecond, Memory::Raw());
        for (int q = 0; q < kFirst / kTile; ++q)
            transpose(second.weights.data() + second.place(q * kTile, 0), kTile, kSecond, kTile,
                      back_to_first.data() + std::size_t(q) * kSecond * kTile, kTile);
        units = tiles(with, units.data(), kTile, n, kSecond, back_to_first.data(), kFirst / kTile);
        through_tanh(batch, 1, n, units);
        by_weights(0, units);
        return slopes;
    }

    // a (rows, k) times packed columns, packed like these: [tile][rows][64].
    static Memory tiles(const Primitives<float>& with, const float* a, std::size_t stride, int rows, int k, const float* b,
                        int n_tiles) {
        Memory out(std::size_t(n_tiles) * rows * kTile, Memory::Raw());
        for (int q = 0; q < n_tiles; ++q)
            multiply(with, a, stride, rows, k, b + std::size_t(q) * k * kTile, 1, out.data() + std::size_t(q) * rows * kTile,
                     kTile);
        return out;
    }

    // Slopes by what goes into the tanh units of a layer from slopes by what comes out, [tile][n][64].
    static void through_tanh(Batch& batch, int layer, int n, Memory& slopes) {
        float* g = slopes.data();
        for (std::size_t q = 0; q < slopes.size() / (std::size_t(n) * kTile); ++q)
            for (int t = 0; t < n; ++t, g += kTile) {
                const float* const h = batch.row(layer, std::size_t(t)) + q * kTile;
                for (int k = 0; k < kTile; ++k) g[k] *= 1 - h[k] * h[k];
            }
    }

    std::shared_ptr<const std::vector<float>> values_;
    std::shared_ptr<Layers> layers_;
    CodedRows open_;
    Task task_;
    std::uint64_t seed_, steps_ = 0;
};

static_assert(Network::kFirst % kTile == 0 && Network::kSecond == kTile, "slopes of hidden units are whole tiles");

}  // namespace bomkl::automatic
