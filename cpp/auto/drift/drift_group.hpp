// Newton regressions that forget, on the first features of a model's components.
//
// The whitening of a kernel's landmarks is triangular, so its first k features are the Nystrom features of its first k
// landmarks. A group has no landmarks, kernel values or views of its own: only means, covariances and a combination.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "auto/components/combination.hpp"
#include "auto/components/regression.hpp"
#include "auto/drift/drift_evidence.hpp"

namespace bomkl::automatic {

inline constexpr int kMostFirst = 127;  // features of a kernel that groups may use

inline CombinationState even_combination(int parts) {
    constexpr double ridges[] = {10.0, 100.0}, share = 1e-3;
    CombinationState made{parts, 2, share, std::vector<double>(2 * parts, 1.0 / parts), {}, {}, {}, {}, {}};
    made.P.assign(std::size_t(2) * parts * parts, 0.0);
    for (int j = 0; j < 2; ++j)
        for (int i = 0; i < parts; ++i) made.P[(std::size_t(j) * parts + i) * parts + i] = 1 / ridges[j];
    made.weights.assign(parts, 1.0 / parts);
    made.log_final.assign(3, 0.0);
    made.loss_sum.assign(parts, 0.0);
    made.error_sum.assign(parts, 0.0);
    return made;
}

// First features of some rows, for each part of a model that has any.
struct FirstFeatures {
    struct Of {
        int kept = 0;          // features, without the constant
        bool columns = false;  // whether they are the columns themselves: no few of them stand for the others
        int varying = 0;       // of these, features that are not constant: nothing may depend on the others
        double ridge = 1;
        Buffer<float> values;  // (rows, kept)
    };
    std::vector<Of> parts;
};

struct DriftGroup {
    double forget;
    int most;                // features
    bool resets;             // whether it begins anew when its loss rises
    std::vector<int> parts;  // of the model
    std::vector<std::shared_ptr<Regression>> regressions;
    std::shared_ptr<CombinationState> combination;
    LossRise rise;

    bool works() const { return !regressions.empty(); }

    // Makes what `score` reads.
    void prepare() const {
        for (const auto& each : regressions) each->means();
    }

    void add_class(const Primitives<float>& with, double log_odds) {
        for (auto& each : regressions) each->add_class(with, log_odds);
    }

    bool has_unchecked(double rows) const {
        return std::any_of(regressions.begin(), regressions.end(), [&](const auto& each) { return each->unchecked() >= rows; });
    }

    std::size_t bytes() const {
        std::size_t total = 0;
        for (const auto& each : regressions) total += each->bytes();
        return total;
    }

    int first(const FirstFeatures::Of& of) const { return of.columns ? of.kept : std::min(of.kept, most); }

    bool fits(const FirstFeatures& F) const {
        for (std::size_t j = 0; j < parts.size(); ++j)
            if (parts[j] < 0 || std::size_t(parts[j]) >= F.parts.size() || F.parts[parts[j]].kept == 0 ||
                regressions[j]->rank() != first(F.parts[parts[j]]) + 1)
                return false;
        return true;
    }

    void fork() {
        for (auto& each : regressions) each = std::make_shared<Regression>(*each);
        if (combination) combination = std::make_shared<CombinationState>(*combination);
    }

    void stop() {
        parts.clear();
        regressions.clear();
        combination.reset();
        rise = LossRise();
    }

    // Begins with some parts of a model, knowing nothing.
    void begin(const FirstFeatures& F, const std::vector<int>& chosen, int outputs) {
        combination = std::make_shared<CombinationState>(even_combination(int(chosen.size())));
        parts = chosen;
        for (int part : parts) {
            const FirstFeatures::Of& of = F.parts[part];
            const int rank = first(of) + 1, tiles = (rank + kTile - 1) / kTile;
            std::vector<double> w(std::size_t(outputs) * tiles * kTile, 0.0);
            std::vector<float> P(std::size_t(tiles) * rank * kTile, 0.0f);
            for (int j = 0; j < rank; ++j) P[(std::size_t(j / kTile) * rank + j) * kTile + j % kTile] = float(1 / of.ridge);
            const double trace[2] = {rank / of.ridge, rank / of.ridge};
            regressions.push_back(std::make_shared<Regression>(rank, tiles, outputs, w.data(), P.data(), trace));
        }
    }

    // Features of rows from `begin` on as a regression takes them, (n, width).
    const float* features(const FirstFeatures& F, std::size_t j, std::size_t begin, std::size_t n, Buffer<float>& into) const {
        const FirstFeatures::Of& of = F.parts[parts[j]];
        const std::size_t width = regressions[j]->width(), rank = std::size_t(regressions[j]->rank());
        into.at_least(n * width);
        for (std::size_t t = 0; t < n; ++t) {
            float* row = into.data() + t * width;
            std::copy_n(of.values.data() + (begin + t) * of.kept, rank - 1, row);
            row[rank - 1] = 1.0f;
            std::fill(row + rank, row + width, 0.0f);
        }
        return into.data();
    }

    // Scores (n, parts, outputs) by the regressions of rows from `begin` on, each just before it is learned; `seen` rows came
    // before these. The combination does not learn them: a group that begins anew in their midst keeps what it knew by then.
    void learn_regressions(const Primitives<float>& with, const FirstFeatures& F, std::size_t begin, std::size_t n,
                           const double* targets, const double* weight, std::int64_t seen, Task task, int outputs,
                           std::vector<double>& S) {
        const std::size_t m = parts.size(), o = std::size_t(outputs);
        static thread_local Buffer<float> G;
        static thread_local std::vector<double> scores;
        S.resize(n * m * o);
        scores.resize(n * o);
        for (std::size_t j = 0; j < m; ++j) {
            Regression& r = *regressions[j];
            const FirstFeatures::Of& of = F.parts[parts[j]];
            const double loosen = (1 - forget) * (of.columns ? of.varying + 1 : r.rank());
            for (std::size_t done = 0; done < n;) {
                const std::size_t count = std::min<std::size_t>(kBlock - (std::size_t(seen) + done) % kBlock, n - done);
                r.learn(with, features(F, j, begin + done, count, G), targets + done * o, weight + done, count, task, loosen,
                        seen + std::int64_t(done), scores.data() + done * o);
                done += count;
            }
            for (std::size_t t = 0; t < n; ++t) std::copy_n(scores.data() + t * o, o, S.data() + (t * m + j) * o);
        }
        if (task == Task::multiclass) centre_scores(S.data(), n * m, outputs);
    }

    // Scores of the group by those of its regressions, before the combination learns the row.
    void combine_and_learn(Combiner& combiner, const double* S, const double* target, double weight, double* said) {
        combiner.score(S, said);
        combiner.learn(S, target, weight, combination->loss_sum.data(), combination->error_sum.data());
    }

    // Learns rows with the regressions and with the combination.
    void learn(const Primitives<float>& with, const FirstFeatures& F, const double* targets, const double* weight,
               std::size_t n, std::int64_t seen, Task task, int outputs) {
        const std::size_t o = std::size_t(outputs);
        std::vector<double> S, said(o);
        learn_regressions(with, F, 0, n, targets, weight, seen, task, outputs, S);
        Combiner combiner(combination->view(), outputs, task);
        for (std::size_t t = 0; t < n; ++t)
            combine_and_learn(combiner, S.data() + t * parts.size() * o, targets + t * o, weight[t], said.data());
    }

    // Scores of rows by what is known now; of a single row as the next of the open blocks, if asked.
    void score(const Primitives<float>& with, const FirstFeatures& F, std::size_t n, Task task, int outputs, bool as_next,
               double* said) const {
        const std::size_t m = parts.size(), o = std::size_t(outputs);
        Buffer<float> G;
        std::vector<double> S(n * m * o);
        for (std::size_t j = 0; j < m; ++j) {
            const Regression& r = *regressions[j];
            const float* rows = features(F, j, 0, n, G);
            if (as_next) {
                r.score(with, rows, S.data() + j * o);
                continue;
            }
            const std::vector<double>& means = r.means();
            for (std::size_t t = 0; t < n; ++t)
                for (std::size_t k = 0; k < o; ++k)
                    S[(t * m + j) * o + k] = with.dot(rows + t * r.width(), means.data() + k * r.width(), r.rank());
        }
        if (task == Task::multiclass) centre_scores(S.data(), n * m, outputs);
        Combiner combiner(combination->view(), outputs, task);
        for (std::size_t t = 0; t < n; ++t) combiner.score(S.data() + t * m * o, said + t * o);
    }
};

}  // namespace bomkl::automatic
