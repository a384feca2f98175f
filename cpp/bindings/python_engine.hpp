// The engine as Python threads use it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "budget/engine_config.hpp"
#include "budget/model_lock.hpp"
#include "budget/signal_watch.hpp"

namespace bomkl {

template <class T>
using Matrix = In<T, 2>;
template <class T>
using Vector = In<T, 1>;

template <class T>
const Primitives<T>& primitives_of(const InstructionSet& set) {
    if constexpr (sizeof(T) == 4)
        return *set.single_precision;
    else
        return *set.double_precision;
}

// An engine that several Python threads may call, the interpreter lock released while it computes.
//
// Several rows are learned from by a fork, which nobody else has yet; it takes the place of this engine when all went well.
// One row may be learned from in place, in one step, as long as there is no fork. So those that read wait for a row at most.
template <class T>
class PyEngine {
public:
    PyEngine(const nb::dict& config, int features, bool sparse, nb::object call_kernel, const InstructionSet& set)
        : config_(Engine<T>::linked(parse_config(config))), features_(checked_features(features)), sparse_(sparse),
          primitives_(primitives_of<T>(set)), call_kernel_(std::move(call_kernel)),
          engine_(engine_of(Engine<T>::empty_state(*config_, features_, sparse_))) {}

    // An engine that goes on from here, while this one stays as it is from now on. What this one has computed about its rows
    // goes with the fork, as in most cases nobody looks at this one any more.
    PyEngine* fork() {
        std::unique_ptr<Engine<T>> engine;
        computing([&](SignalWatch&) {
            Lock lock(lock_);
            if (!at_fork_) at_fork_ = std::make_unique<State<T>>(engine_->state());
            engine = engine_ ? std::move(engine_) : engine_of(*at_fork_);
        });
        return new PyEngine(*this, std::move(engine));
    }

    // To be called by whoever forked the engine, or made it: where one of several rows fails, nobody may use it any more.
    auto learn(nb::object x, Vector<double> target, nb::object weight, nb::object delta, int n_threads) {
        const HeldBatch held = to_batch(x);
        const std::vector<double> weights = optional(weight), deltas = optional(delta);
        const auto rows = std::size_t(held.batch.n), outputs = std::size_t(config_->n_outputs);
        require(
            target.size() == rows && (weights.empty() || weights.size() == rows) && (deltas.empty() || deltas.size() == rows),
            "target, weight and delta must have one entry a row");
        require_aligned(target.data());
        std::vector<double> out(rows * outputs);
        computing([&](SignalWatch& watch) {
            for (std::int64_t start = 0; start < held.batch.n;) {
                {
                    Lock lock(lock_);
                    start = changing_engine().learn_block(
                        held.batch, start, target.data(), weights.empty() ? nullptr : weights.data(),
                        deltas.empty() ? nullptr : deltas.data(), out.data(), n_threads, [&watch] { watch.pause(); });
                }
                if (start < held.batch.n) watch.rest();
            }
        });
        return to_numpy(std::move(out), {rows, outputs});
    }

    // One row, with as little around it as can be: a number where there is one output, else an array. None, with nothing
    // learned, where there is a fork.
    nb::object learn_one(Vector<T> x, double target, std::optional<double> delta) {
        const Batch<T> batch = one_row_batch(x);
        std::vector<double> out(config_->n_outputs);
        bool is_forked = false;
        computing([&](SignalWatch& watch) {
            Lock lock(lock_);
            if ((is_forked = at_fork_ != nullptr)) return;
            engine_->learn_block(batch, 0, &target, nullptr, delta ? &*delta : nullptr, out.data(), 1,
                                 [&watch] { watch.pause(); });
        });
        return is_forked ? nb::none() : one_row(out);
    }
    nb::object score_one(Vector<T> x) {
        std::vector<double> out(config_->n_outputs);
        score_batch(one_row_batch(x), false, out.data(), 1);
        return one_row(out);
    }

    auto score(nb::object x, bool per_kernel, int n_threads) {
        const HeldBatch held = to_batch(x);
        const auto columns = std::size_t(per_kernel ? n_expansions() : config_->n_outputs);
        std::vector<double> out(std::size_t(held.batch.n) * columns);
        score_batch(held.batch, per_kernel, out.data(), n_threads);
        return to_numpy(std::move(out), {std::size_t(held.batch.n), columns});
    }

    nb::dict state() {
        StateArrays<T> arrays;
        std::vector<double> log_weights;
        std::vector<std::int64_t> kernel_mistakes;
        std::int64_t mistakes = 0, n_seen = 0;
        computing([&](SignalWatch&) {
            const State<T> copy = copy_of_state();
            arrays = to_arrays(copy);
            log_weights = copy.log_weights;
            kernel_mistakes = copy.kernel_mistakes;
            mistakes = copy.mistakes;
            n_seen = copy.n_seen;
        });
        nb::dict d;
        if (sparse_) {
            d["row_values"] = to_numpy(std::move(arrays.row_values));
            d["row_columns"] = to_numpy(std::move(arrays.row_columns));
            d["row_starts"] = to_numpy(std::move(arrays.row_starts));
        } else {
            d["rows"] = to_numpy(std::move(arrays.rows), {std::size_t(arrays.n_rows), std::size_t(features_)});
        }
        d["term_starts"] = to_numpy(std::move(arrays.term_starts));
        d["term_rows"] = to_numpy(std::move(arrays.term_rows));
        d["term_coefs"] = to_numpy(std::move(arrays.term_coefs));
        d["scales"] = to_numpy(std::move(arrays.scales));
        d["forgetron"] = to_numpy(std::move(arrays.forgetron));
        d["gram_starts"] = to_numpy(std::move(arrays.gram_starts));
        d["inverse_gram"] = to_numpy(std::move(arrays.inverse_gram));
        if (n_frequencies(config_->learner) > 0) d["feature_weights"] = to_numpy(std::move(arrays.feature_weights));
        d["log_weights"] = to_numpy(std::move(log_weights));
        d["kernel_mistakes"] = to_numpy(std::move(kernel_mistakes));
        d["mistakes"] = mistakes;
        d["n_seen"] = n_seen;
        return d;
    }

    void load(const nb::dict& d) {
        const auto e = std::size_t(n_expansions());
        StateArrays<T> a;
        if (sparse_)
            load_sparse_rows(d, a);
        else
            load_dense_rows(d, a);
        a.term_starts = vector_of(named<std::int64_t, 1>(d, "term_starts"));
        a.term_rows = vector_of(named<std::int32_t, 1>(d, "term_rows"));
        a.term_coefs = vector_of(named<double, 1>(d, "term_coefs"));
        a.scales = vector_of(named<double, 1>(d, "scales"));
        a.forgetron = vector_of(named<double, 1>(d, "forgetron"));
        a.gram_starts = vector_of(named<std::int64_t, 1>(d, "gram_starts"));
        a.inverse_gram = vector_of(named<double, 1>(d, "inverse_gram"));
        if (n_frequencies(config_->learner) > 0) a.feature_weights = vector_of(named<double, 1>(d, "feature_weights"));
        const auto log_weights = vector_of(named<double, 1>(d, "log_weights"));
        const auto kernel_mistakes = vector_of(named<std::int64_t, 1>(d, "kernel_mistakes"));
        require(a.term_coefs.size() == a.term_rows.size() && a.scales.size() == e && a.forgetron.size() == 2 * e &&
                    log_weights.size() == e && kernel_mistakes.size() == e,
                "an array has the wrong length");
        require_starts(a.term_starts, e, a.term_rows.size());
        require_starts(a.gram_starts, e, a.inverse_gram.size());
        const Config& config = *config_;
        for (std::size_t i = 0; i < e; ++i) {
            const auto n = a.term_starts[i + 1] - a.term_starts[i], size = a.gram_starts[i + 1] - a.gram_starts[i];
            require(size == matrix_size(config.learner, n, config.budget), "inverse_gram has the wrong size");
        }
        const auto mistakes = nb::cast<std::int64_t>(d["mistakes"]), n_seen = nb::cast<std::int64_t>(d["n_seen"]);
        const auto is_count = [&](std::int64_t count) { return count >= 0 && count <= n_seen; };
        require(is_count(n_seen) && is_count(mistakes) && std::all_of(kernel_mistakes.begin(), kernel_mistakes.end(), is_count),
                "a count is below zero or above the number of rows");
        require(std::all_of(log_weights.begin(), log_weights.end(), [](double w) { return std::isfinite(w); }),
                "a weight of a kernel is not a number");
        computing([&](SignalWatch&) {
            Lock lock(lock_);
            changing_engine().load(a, log_weights, kernel_mistakes, mistakes, n_seen);
        });
    }

    // Frequencies of a kernel where the rule learns from Fourier features: draws (frequency, column), and their factors.
    auto frequencies(int kernel) {
        const auto shared = read([](const auto& engine) { return engine.state().frequencies; });
        require(shared && kernel >= 0 && std::size_t(kernel) < config_->kernels.size(), "there are no such frequencies");
        const std::size_t n = shared->size();
        const double* factors = shared->factors(kernel);
        return nb::make_tuple(to_numpy(shared->draws(kernel), {n, std::size_t(features_)}),
                              to_numpy(std::vector<double>(factors, factors + n)));
    }

    // What read(engine) returns between two rows.
    template <class Read>
    auto read(Read&& read) {
        std::optional<decltype(read(*engine_))> result;
        computing([&](SignalWatch&) {
            Lock lock(lock_);
            result.emplace(read(std::as_const(engine())));
        });
        return *result;
    }
    nb::object& held() { return call_kernel_; }

private:
    using Lock = std::lock_guard<ModelLock>;

    PyEngine(const PyEngine& other, std::unique_ptr<Engine<T>> engine)
        : config_(other.config_), features_(other.features_), sparse_(other.sparse_), primitives_(other.primitives_),
          call_kernel_(other.call_kernel_), engine_(std::move(engine)) {}

    // Forks have the same kernels, so that whichever of them is there keeps these alive.
    std::unique_ptr<Engine<T>> engine_of(State<T> state) const {
        const auto call_kernel = [kernels = call_kernel_.ptr(), features = features_](int kernel, const T* x, int n, const T* z,
                                                                                      int m, T* out) {
            call(kernels, features, kernel, x, n, z, m, out);
        };
        return std::make_unique<Engine<T>>(config_, primitives_, call_kernel, std::move(state));
    }
    // Under the lock: where the fork took the engine with it, another one of the same state.
    Engine<T>& engine() {
        if (!engine_) engine_ = engine_of(*at_fork_);
        return *engine_;
    }
    Engine<T>& changing_engine() {
        require(!at_fork_, "an engine that was forked stays as it is");
        return *engine_;
    }
    State<T> copy_of_state() {
        Lock lock(lock_);
        return engine_ ? engine_->state() : *at_fork_;
    }
    int n_expansions() const { return config_->n_outputs * int(config_->kernels.size()); }

    void score_batch(const Batch<T>& batch, bool per_kernel, double* out, int n_threads) {
        computing([&](SignalWatch& watch) {
            const auto pause = [&watch] { watch.pause(); };
            std::unique_ptr<typename Engine<T>::Copy> copy;
            {
                Lock lock(lock_);
                if (engine().scores_at_once(batch.n, n_threads))
                    return engine_->score(batch, per_kernel, out, n_threads, pause);
                copy = std::make_unique<typename Engine<T>::Copy>(*engine_);
            }
            copy->scorer.score(batch, per_kernel, out, n_threads, pause);
        });
    }

    struct HeldBatch {  // with the arrays it points to, which are copies where those given were not contiguous
        Batch<T> batch;
        Matrix<T> dense;
        Vector<T> values;
        Vector<std::int32_t> indices;
        Vector<std::int64_t> starts;
    };
    // The kernels of engines that this thread is calling.
    static std::vector<PyObject*>& calling() {
        static thread_local std::vector<PyObject*> kernels;
        return kernels;
    }
    static int checked_features(int features) {
        require(features >= 1, "a model needs at least one column");
        return features;
    }
    template <class Number>
    static void require_aligned(const Number* p) {
        require(reinterpret_cast<std::uintptr_t>(p) % alignof(Number) == 0, "an array is not aligned to its numbers");
    }
    static void require_starts(const std::vector<std::int64_t>& starts, std::size_t n, std::size_t total) {
        require(starts.size() == n + 1 && starts.front() == 0 && starts.back() == std::int64_t(total) &&
                    std::is_sorted(starts.begin(), starts.end()),
                "an array of starts is not ascending from zero to the number of entries");
    }
    static std::vector<double> optional(const nb::object& array) {
        return array.is_none() ? std::vector<double>() : vector_of(nb::cast<Vector<double>>(array));
    }

    void load_dense_rows(const nb::dict& d, StateArrays<T>& a) const {
        const auto rows = nb::cast<Matrix<T>>(d["rows"]);
        require(int(rows.shape(1)) == features_, "rows has the wrong number of columns");
        a.n_rows = int(rows.shape(0));
        a.rows.assign(rows.data(), rows.data() + rows.size());
    }
    void load_sparse_rows(const nb::dict& d, StateArrays<T>& a) const {
        a.row_values = vector_of(named<T, 1>(d, "row_values"));
        a.row_columns = vector_of(named<std::int32_t, 1>(d, "row_columns"));
        a.row_starts = vector_of(named<std::int64_t, 1>(d, "row_starts"));
        require(!a.row_starts.empty() && a.row_values.size() == a.row_columns.size(), "an array has the wrong length");
        require_starts(a.row_starts, a.row_starts.size() - 1, a.row_values.size());
        a.n_rows = int(a.row_starts.size()) - 1;
        for (int s = 0; s < a.n_rows; ++s)
            for (std::int64_t p = a.row_starts[s]; p < a.row_starts[s + 1]; ++p) {
                const std::int32_t least = p == a.row_starts[s] ? 0 : a.row_columns[p - 1] + 1;
                require(a.row_columns[p] >= least && a.row_columns[p] < features_,
                        "the columns of a stored row are not ascending within the features");
            }
    }

    Batch<T> one_row_batch(const Vector<T>& x) const {
        require(int(x.size()) == features_, "X has the wrong number of columns");
        require_aligned(x.data());
        Batch<T> batch;
        batch.n = 1;
        batch.dense = x.data();
        return batch;
    }
    static nb::object one_row(const std::vector<double>& scores) {
        if (scores.size() == 1) return nb::float_(scores[0]);
        return nb::cast(to_numpy(scores));
    }

    // A matrix, or a tuple (values, indices, starts) in CSR form.
    HeldBatch to_batch(const nb::object& x) {
        HeldBatch held;
        Batch<T>& batch = held.batch;
        if (nb::isinstance<nb::tuple>(x)) {
            const auto parts = nb::cast<nb::tuple>(x);
            const Vector<T>& values = held.values = nb::cast<Vector<T>>(parts[0]);
            const Vector<std::int32_t>& indices = held.indices = nb::cast<Vector<std::int32_t>>(parts[1]);
            const Vector<std::int64_t>& starts = held.starts = nb::cast<Vector<std::int64_t>>(parts[2]);
            require_aligned(values.data());
            require_aligned(indices.data());
            require_aligned(starts.data());
            require(starts.size() >= 1 && values.size() == indices.size() && starts.data()[0] >= 0 &&
                        std::is_sorted(starts.data(), starts.data() + starts.size()) &&
                        starts.data()[starts.size() - 1] <= std::int64_t(values.size()),
                    "X must be a CSR matrix with ascending row pointers");
            require(std::all_of(indices.data(), indices.data() + indices.size(),
                                [&](std::int32_t j) { return j >= 0 && j < features_; }),
                    "X must be a CSR matrix whose column indices lie within its columns");
            batch.n = std::int64_t(starts.size()) - 1;
            static const T none{};
            batch.values = values.size() ? values.data() : &none;
            batch.indices = indices.data();
            batch.starts = starts.data();
            return held;
        }
        held.dense = nb::cast<Matrix<T>>(x);
        require(int(held.dense.shape(1)) == features_, "X has the wrong number of columns");
        require_aligned(held.dense.data());
        batch.n = std::int64_t(held.dense.shape(0));
        batch.dense = held.dense.data();
        return held;
    }

    template <class Work>
    void computing(Work&& work) {
        if (!calling().empty() && std::find(calling().begin(), calling().end(), call_kernel_.ptr()) != calling().end())
            throw std::runtime_error("A kernel cannot use the model that is calling it: the model would wait for itself.");
        nb::gil_scoped_release release;
        SignalWatch watch;
        work(watch);
    }

    static void call(PyObject* kernels, int features, int kernel, const T* x, int n, const T* z, int m, T* out) {
        nb::gil_scoped_acquire acquire;
        calling().push_back(kernels);
        try {
            const auto view = [](const T* p, int rows, int columns) {
                return nb::cast(nb::ndarray<nb::numpy, const T>(p, {std::size_t(rows), std::size_t(columns)}, nb::handle()),
                                nb::rv_policy::copy);
            };
            const nb::object result = nb::handle(kernels)(kernel, view(x, n, features), view(z, m, features));
            const auto values = nb::cast<Matrix<T>>(result);
            require(values.shape(0) == std::size_t(n) && values.shape(1) == std::size_t(m),
                    "a kernel matrix has the wrong shape");
            std::copy_n(values.data(), values.size(), out);
        } catch (...) {
            calling().pop_back();
            throw;
        }
        calling().pop_back();
    }

    const std::shared_ptr<const Config> config_;
    const int features_;
    const bool sparse_;
    const Primitives<T>& primitives_;
    nb::object call_kernel_;
    ModelLock lock_;
    std::unique_ptr<Engine<T>> engine_;
    std::unique_ptr<const State<T>> at_fork_;  // what this engine was when it was forked, and still is
};

}  // namespace bomkl
