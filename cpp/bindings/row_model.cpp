// The part of bomkl._core that owns what the zero-tuning learner has learned.
#include "auto/row_model.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>

#include <optional>

#include "bindings/auto_arrays.hpp"
#include "bindings/to_numpy.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace bomkl {

namespace automatic {
const Primitives<float>& primitives();  // of this machine: auto.cpp
}

namespace {

using namespace automatic;

template <class T, int dimensions>
In<T, dimensions> named(const nb::dict& arrays, const char* name) {
    return nb::cast<In<T, dimensions>>(arrays[name]);
}

std::shared_ptr<const void> kept(nb::object owner) { return std::make_shared<nb::object>(std::move(owner)); }

Task task_of(int task) {
    require(task >= 0 && task <= int(Task::huber), "unknown task");
    return Task(task);
}

template <class T>
auto copied(const T* data, std::initializer_list<std::size_t> shape) {
    std::size_t size = 1;
    for (std::size_t n : shape) size *= n;
    return to_numpy(std::vector<T>(data, data + size), shape);
}

// The interpreter is free while many rows are worked on. Few rows are added to blocks that others may be reading.
class ReleaseForMany {
public:
    explicit ReleaseForMany(std::size_t rows) {
        if (rows >= kFewRows) release_.emplace();
    }

private:
    std::optional<nb::gil_scoped_release> release_;
};

// ---------------------------------------------------------------- what never changes

std::shared_ptr<Geometry> make_geometry(nb::dict arrays) {
    const auto number = [&](const char* name) { return nb::cast<double>(arrays[name]); };
    const auto sorted = named<double, 2>(arrays, "sorted_columns");
    auto made = std::make_shared<Geometry>();
    made->columns =
        columns_of(named<double, 1>(arrays, "mean"), named<double, 1>(arrays, "deviation"), named<double, 1>(arrays, "middle"),
                   number("common"), sorted, named<double, 1>(arrays, "score_table"), named<double, 1>(arrays, "normal_mean"),
                   named<double, 1>(arrays, "normal_deviation"), named<float, 3>(arrays, "axes"),
                   named<float, 1>(arrays, "relevance_standard"), named<float, 1>(arrays, "relevance_normal"), number("clip"),
                   number("far"), nb::cast<int>(arrays["leading"]));
    require(sorted.shape(1) > 0, "a geometry is one of some rows");
    const std::size_t d = std::size_t(made->columns.columns), n = sorted.shape(1);
    for (std::size_t j = 0; j < d; ++j)
        made->square_means.push_back(sorted.data()[j * n] < sorted.data()[j * n + n - 1] ? 1.0f : 0.0f);
    if (arrays.contains("cuts")) {
        const auto cuts = named<double, 1>(arrays, "cuts");
        const auto starts = named<std::int64_t, 1>(arrays, "starts");
        require_coding(cuts, starts, d);
        static const double none = 0;  // of columns that are all constant there are no cuts
        made->cuts = cuts.size() ? cuts.data() : &none;
        made->starts = starts.data();
    }
    made->keep = kept(arrays);
    return made;
}

void make_views(const Geometry& geometry, In<double, 2> x, nb::list out) {
    const std::size_t n = x.shape(0);
    require(x.shape(1) == std::size_t(geometry.columns.columns) && out.size() == n_views,
            "the shapes of the columns do not fit together");
    std::array<float*, n_views> views{};
    for (int view = 0; view < n_views; ++view)
        if (const nb::handle place = out[view]; !place.is_none()) {
            const auto array = nb::cast<InOut<float, 2>>(place);
            require(array.shape(0) == n && array.shape(1) == std::size_t(view_width(geometry.columns, view)),
                    "the shapes of the views do not fit the rows");
            views[view] = array.data();
        }
    require((!views[leading] || views[common]) && (!views[relevant_standard] || views[standard]) &&
                (!views[relevant_normal] || views[normal]),
            "a view needs those it derives from");
    const auto& with = primitives();
    nb::gil_scoped_release release;
    block_views(with, geometry.columns, x.data(), n, views);
}

std::shared_ptr<FeatureMap> make_kernel_map(int view, int kernel, double scale, nb::dict arrays) {
    const auto landmarks = named<float, 3>(arrays, "landmarks"), whiten = named<float, 3>(arrays, "whiten");
    const int rank = nb::cast<int>(arrays["rank"]);
    require(view >= 0 && view < n_views, "unknown view");
    const KernelMap map =
        kernel_map(int(landmarks.shape(1)), kernel, scale, landmarks, named<float, 1>(arrays, "norms"), whiten, rank);
    require(std::size_t(map.rank_tiles) == (std::size_t(rank) + kTile) / kTile,
            "the shapes of a kernel map do not fit together");
    return std::make_shared<FeatureMap>(FeatureMap{view, false, false, map, depths(map), rank + 1, kept(arrays)});
}

std::shared_ptr<FeatureMap> make_columns_map(int columns, bool both, bool squares) {
    require(columns > 0 && (both || !squares), "squares of the columns come with their normal scores");
    return std::make_shared<FeatureMap>(FeatureMap{-1, both, squares, {}, {}, (1 + both + squares) * columns + 1, {}});
}

void map_rows(const FeatureMap& features, In<float, 2> x, InOut<float, 2> out) {
    require(features.view >= 0 && x.shape(1) == std::size_t(features.map.features) && out.shape(0) == x.shape(0) &&
                out.shape(1) == features.width(),
            "the rows do not fit the kernel map");
    const auto& with = primitives();
    nb::gil_scoped_release release;
    kernel_features(with, features.map, features.depths, x.data(), x.shape(0), out.data());
}

TreeNodes tree_nodes(const In<std::int32_t, 2>& nodes, const In<std::int32_t, 1>& roots, std::size_t leaves,
                     std::shared_ptr<const void> keep) {
    require(roots.size() > 0, "there must be trees");
    require_trees(nodes, roots, leaves, std::size_t(1) << 23);
    return {as_nodes(nodes), nodes.shape(0), roots.data(), int(roots.size()), std::move(keep)};
}

// Whether trees use only so many columns.
bool fit_columns(const TreeNodes& trees, std::size_t leaves, std::size_t columns) {
    return sound(trees.nodes, trees.size, trees.roots, std::size_t(trees.trees), leaves, columns);
}

std::shared_ptr<Boosted> make_boosted(In<std::int32_t, 2> nodes, In<std::int32_t, 1> roots, In<std::int32_t, 1> outputs,
                                      In<float, 1> values, In<double, 1> base) {
    const auto fits = [&](std::int32_t k) { return k >= 0 && std::size_t(k) < base.size(); };
    require(outputs.size() == roots.size() && std::all_of(outputs.data(), outputs.data() + outputs.size(), fits),
            "the arrays of boosted trees do not fit together");
    auto keep = kept(nb::make_tuple(nodes, roots, outputs, values, base));
    return std::make_shared<Boosted>(Boosted{tree_nodes(nodes, roots, values.size(), std::move(keep)), outputs.data(),
                                             values.data(), base.data(), base.size()});
}

// ---------------------------------------------------------------- regressions

Regression make_regression(In<double, 2> w, In<float, 3> P, In<double, 1> trace) {
    const std::size_t tiles = P.shape(0), rank = P.shape(1);
    require(P.shape(2) == kTile && rank > 0 && rank <= tiles * kTile && w.shape(0) > 0 && w.shape(1) == tiles * kTile &&
                trace.size() == 2,
            "the arrays of a regression do not fit together");
    return {int(rank), int(tiles), int(w.shape(0)), w.data(), P.data(), trace.data()};
}

// Rows of the open block, as `open_block` gives them.
void restore_block(Regression& r, nb::dict arrays, double unchecked) {
    const auto rows = named<float, 2>(arrays, "rows"), U = named<float, 2>(arrays, "U");
    const auto M = named<double, 2>(arrays, "M"), a = named<double, 2>(arrays, "a");
    const auto c = named<double, 1>(arrays, "c");
    const auto V = named<float, 3>(arrays, "V");
    const std::size_t n = rows.shape(0), width = r.width();
    require(n < kBlock && rows.shape(1) == width && U.shape(0) == n && U.shape(1) == width && M.shape(0) == n &&
                M.shape(1) == n && c.size() == n && a.shape(0) == n && a.shape(1) == std::size_t(r.outputs()) &&
                V.shape(0) == std::size_t(r.tiles()) && V.shape(1) == n && V.shape(2) == kTile && r.open() == 0,
            "the rows of an open block do not fit the regression");
    Component m = r.arrays();
    std::copy_n(rows.data(), rows.size(), m.rows);
    std::copy_n(U.data(), U.size(), m.U);
    for (std::size_t s = 0; s < n; ++s) std::copy_n(M.data() + s * n, n, m.M + s * kBlock);
    std::copy_n(c.data(), n, m.c);
    std::copy_n(a.data(), a.size(), m.a);
    for (std::size_t q = 0; q < V.shape(0); ++q) std::copy_n(V.data() + q * n * kTile, n * kTile, m.V + q * kBlock * kTile);
    r.restore(int(n), unchecked);
}

nb::dict open_block(const Regression& r) {
    const Component m = r.arrays();
    const std::size_t n = std::size_t(r.open()), width = r.width();
    std::vector<double> M(n * n);
    for (std::size_t s = 0; s < n; ++s)
        for (std::size_t t = s + 1; t < n; ++t) M[s * n + t] = m.M[s * kBlock + t];
    std::vector<float> V;
    for (int q = 0; q < m.tiles; ++q) V.insert(V.end(), m.V + q * kBlock * kTile, m.V + q * kBlock * kTile + n * kTile);
    nb::dict out;
    out["rows"] = copied(m.rows, {n, width});
    out["U"] = copied(m.U, {n, width});
    out["M"] = to_numpy(std::move(M), {n, n});
    out["c"] = copied(m.c, {n});
    out["a"] = copied(m.a, {n, std::size_t(m.outputs)});
    out["V"] = to_numpy(std::move(V), {std::size_t(m.tiles), n, std::size_t(kTile)});
    return out;
}

auto learn_features(Regression& r, In<float, 2> F, In<double, 2> y, In<double, 1> weight, int task, double forget,
                    std::int64_t seen) {
    const std::size_t n = F.shape(0), outputs = std::size_t(r.outputs());
    require(F.shape(1) == r.width() && y.shape(0) == n && y.shape(1) == outputs && weight.size() == n && seen >= 0 &&
                r.open() <= seen % kBlock,
            "the rows do not fit the regression");
    std::vector<double> scores(n * outputs);
    {
        const ReleaseForMany release(n);
        r.learn(primitives(), F.data(), y.data(), weight.data(), n, task_of(task), (1 - forget) * r.rank(), seen,
                scores.data());
    }
    return to_numpy(std::move(scores), {n, outputs});
}

// ---------------------------------------------------------------- forests, combination, sample

OnlineForest make_forest(In<std::int32_t, 2> nodes, In<std::int32_t, 1> roots, In<float, 2> table, In<double, 1> prior,
                         int outputs, int task) {
    require(outputs > 0 && table.shape(1) == prior.size() &&
                prior.size() == (task_of(task) == Task::multiclass ? std::size_t(outputs) : 2),
            "the arrays of a forest do not fit together");
    TreeNodes trees = tree_nodes(nodes, roots, table.shape(0), kept(nb::make_tuple(nodes, roots)));
    return {std::move(trees), std::vector<float>(table.data(), table.data() + table.size()),
            std::vector<double>(prior.data(), prior.data() + prior.size()), outputs, Task(task)};
}

void restore_forest(OnlineForest& f, In<std::int32_t, 2> leaves, In<double, 2> y, In<double, 1> weight) {
    const std::size_t n = weight.size(), trees = std::size_t(f.trees().trees);
    const auto exists = [&](std::int32_t leaf) { return leaf >= 0 && std::size_t(leaf) < f.table().size() / f.prior().size(); };
    require(n < kBlock && leaves.shape(0) == trees && leaves.shape(1) == n && y.shape(0) == n &&
                y.shape(1) == std::size_t(f.outputs()) && std::all_of(leaves.data(), leaves.data() + leaves.size(), exists),
            "the rows of an open block do not fit the forest");
    for (std::size_t i = 0; i < trees; ++i) std::copy_n(leaves.data() + i * n, n, f.block().leaves.data() + i * kBlock);
    std::copy_n(y.data(), y.size(), f.block().y.data());
    std::copy_n(weight.data(), n, f.block().weight.data());
    f.restore(int(n));
}

nb::dict forest_arrays(OnlineForest& f) {
    const std::size_t n = std::size_t(f.open()), trees = std::size_t(f.trees().trees), width = f.prior().size();
    std::vector<std::int32_t> leaves(trees * n);
    for (std::size_t i = 0; i < trees; ++i) std::copy_n(f.block().leaves.data() + i * kBlock, n, leaves.data() + i * n);
    nb::dict out;
    out["nodes"] = copied(reinterpret_cast<const std::int32_t*>(f.trees().nodes), {f.trees().size, 2});
    out["roots"] = copied(f.trees().roots, {trees});
    out["table"] = copied(f.table().data(), {f.table().size() / width, width});
    out["prior"] = copied(f.prior().data(), {width});
    out["open_leaves"] = to_numpy(std::move(leaves), {trees, n});
    out["open_y"] = copied(f.block().y.data(), {n, std::size_t(f.outputs())});
    out["open_weight"] = copied(f.block().weight.data(), {n});
    return out;
}

auto learn_codes(OnlineForest& f, In<std::uint8_t, 2> codes, In<double, 2> y, In<double, 1> weight, std::int64_t seen) {
    const std::size_t n = codes.shape(0), outputs = std::size_t(f.outputs());
    require(y.shape(0) == n && y.shape(1) == outputs && weight.size() == n && seen >= 0 && f.open() <= seen % kBlock &&
                fit_columns(f.trees(), f.table().size() / f.prior().size(), codes.shape(1)),
            "the rows do not fit the forest");
    std::vector<double> scores(n * outputs);
    f.learn(codes.data(), codes.shape(1), y.data(), weight.data(), n, seen, scores.data());
    return to_numpy(std::move(scores), {n, outputs});
}

auto score_codes(const OnlineForest& f, In<std::uint8_t, 2> codes) {
    const std::size_t n = codes.shape(0), outputs = std::size_t(f.outputs());
    require(fit_columns(f.trees(), f.table().size() / f.prior().size(), codes.shape(1)), "the rows do not fit the forest");
    std::vector<double> scores(n * outputs);
    f.score(codes.data(), codes.shape(1), n, scores.data());
    return to_numpy(std::move(scores), {n, outputs});
}

auto score_boosted(const Boosted& b, In<std::uint8_t, 2> codes) {
    const std::size_t n = codes.shape(0);
    require(fit_columns(b.trees, std::size_t(1) << 31, codes.shape(1)), "the rows do not fit the trees");
    std::vector<double> scores(n * b.n_outputs);
    boosted_scores(b.trees.nodes, b.trees.roots, b.outputs, std::size_t(b.trees.trees), b.values, b.base, b.n_outputs,
                   codes.data(), n, codes.shape(1), scores.data());
    return to_numpy(std::move(scores), {n, b.n_outputs});
}

CombinationState make_combination(In<double, 2> w, In<double, 3> P, In<double, 1> weights, In<double, 1> log_final,
                                  In<double, 1> loss_sum, In<double, 1> error_sum, double share) {
    const std::size_t m = weights.size(), stacks = w.shape(0);
    require(m > 0 && w.shape(1) == m && P.shape(0) == stacks && P.shape(1) == m && P.shape(2) == m &&
                log_final.size() == stacks + 1 && loss_sum.size() == m && error_sum.size() == m,
            "the arrays of a combination do not fit together");
    const auto vector = [](const auto& array) { return std::vector<double>(array.data(), array.data() + array.size()); };
    return {int(m),           int(stacks),      share, vector(w), vector(P), vector(weights), vector(log_final),
            vector(loss_sum), vector(error_sum)};
}

auto combine_and_learn(CombinationState& c, In<double, 3> S, In<double, 2> y, In<double, 1> weight, int task) {
    const std::size_t n = S.shape(0), m = S.shape(1), outputs = S.shape(2);
    require(m == std::size_t(c.components) && outputs > 0 && y.shape(0) == n && y.shape(1) == outputs && weight.size() == n,
            "the rows do not fit the combination");
    std::vector<double> out(n * outputs), centred(S.data(), S.data() + S.size());
    if (task_of(task) == Task::multiclass) centre_scores(centred.data(), n * m, int(outputs));
    Combiner combine(c.view(), int(outputs), Task(task));
    for (std::size_t t = 0; t < n; ++t) {
        const double* scores = centred.data() + t * m * outputs;
        combine.score(scores, out.data() + t * outputs);
        combine.learn(scores, y.data() + t * outputs, weight.data()[t], c.loss_sum.data(), c.error_sum.data());
    }
    return to_numpy(std::move(out), {n, outputs});
}

auto combine(CombinationState& c, In<double, 3> S, int task) {
    const std::size_t n = S.shape(0), m = S.shape(1), outputs = S.shape(2);
    require(m == std::size_t(c.components) && outputs > 0, "the rows do not fit the combination");
    std::vector<double> out(n * outputs), centred(S.data(), S.data() + S.size());
    if (task_of(task) == Task::multiclass) centre_scores(centred.data(), n * m, int(outputs));
    Combiner combine(c.view(), int(outputs), Task(task));
    for (std::size_t t = 0; t < n; ++t) combine.score(centred.data() + t * m * outputs, out.data() + t * outputs);
    return to_numpy(std::move(out), {n, outputs});
}

// A view of a vector that never changes its length, which keeps its owner.
auto lent(std::vector<double> CombinationState::*member, std::initializer_list<int> dimensions) {
    const std::vector<int> kinds(dimensions);  // -1: stacks, -2: components, -3: stacks and the mixture
    return [member, kinds](nb::handle_t<CombinationState> self) {
        auto& c = nb::cast<CombinationState&>(self);
        std::vector<std::size_t> shape;
        for (int kind : kinds) shape.push_back(std::size_t(kind == -2 ? c.components : c.stacks + (kind == -3)));
        return nb::ndarray<nb::numpy, double>((c.*member).data(), shape.size(), shape.data(), self);
    };
}

StreamSample make_sample(std::uint64_t size, std::uint64_t seed, In<std::uint8_t, 2> codes, In<double, 1> y,
                         In<double, 1> weight) {
    const std::size_t n = codes.shape(0);
    require(y.size() == n && weight.size() == n, "the rows of a sample do not fit together");
    return {size,
            seed,
            {codes.shape(1), std::vector<std::uint8_t>(codes.data(), codes.data() + codes.size()),
             std::vector<double>(y.data(), y.data() + n), std::vector<double>(weight.data(), weight.data() + n)}};
}

void add_to_sample(StreamSample& sample, In<std::uint8_t, 2> codes, In<double, 1> y, In<double, 1> weight, std::uint64_t seen) {
    const std::size_t n = codes.shape(0);
    require(codes.shape(1) == sample.columns() && y.size() == n && weight.size() == n, "the rows do not fit the sample");
    sample.add(codes.data(), y.data(), weight.data(), n, seen);
}

nb::tuple sample_rows(const StreamSample& sample) {
    CodedRows rows = sample.together();
    const std::size_t n = rows.y.size();
    return nb::make_tuple(to_numpy(std::move(rows.codes), {n, rows.columns}), to_numpy(std::move(rows.y)),
                          to_numpy(std::move(rows.weight)));
}

// ---------------------------------------------------------------- the model

Part make_part(nb::handle given) {
    if (nb::isinstance<NewtonPart>(given)) return nb::cast<NewtonPart>(given);
    if (nb::isinstance<OnlineForest>(given)) return nb::cast<std::shared_ptr<OnlineForest>>(given);
    return std::shared_ptr<const Boosted>(nb::cast<std::shared_ptr<Boosted>>(given));
}

NewtonPart make_newton(std::shared_ptr<FeatureMap> features, std::shared_ptr<Regression> regression, nb::object curve,
                       double forget) {
    require(features->rank == regression->rank() && features->width() == regression->width(),
            "the features do not fit the regression");
    std::optional<Curve> bends;
    if (!curve.is_none()) bends = curve_of(nb::cast<In<double, 1>>(curve));
    require(!bends || regression->outputs() == 1, "curved targets are numbers");
    return {std::move(features), std::move(regression), bends, forget};
}

void require_part(const Part& part, const Geometry& geometry, int outputs, Task task) {
    const std::size_t d = std::size_t(geometry.columns.columns);
    if (const auto* newton = std::get_if<NewtonPart>(&part)) {
        const FeatureMap& f = *newton->features;
        require(newton->regression->outputs() == outputs, "a regression does not fit its learner");
        if (f.view < 0)
            require(std::size_t(f.rank) == (1 + f.both + f.squares) * d + 1, "the columns do not fit their component");
        else
            require(f.map.features == view_width(geometry.columns, f.view), "a kernel does not fit its view");
        return;
    }
    require(geometry.cuts, "trees need codes of the columns");
    if (const auto* forest = std::get_if<std::shared_ptr<OnlineForest>>(&part)) {
        const OnlineForest& f = **forest;
        require(f.outputs() == outputs && f.task() == task && fit_columns(f.trees(), f.table().size() / f.prior().size(), d),
                "a forest does not fit its learner");
        return;
    }
    const Boosted& b = *std::get<std::shared_ptr<const Boosted>>(part);
    const auto fits = [&](std::int32_t k) { return k < outputs; };
    require(fit_columns(b.trees, std::size_t(1) << 31, d) && std::all_of(b.outputs, b.outputs + b.trees.trees, fits),
            "boosted trees do not fit their learner");
}

RowModel model_of(std::shared_ptr<Geometry> geometry, nb::list given, nb::object combination, nb::object sample, int task,
                  int outputs, nb::tuple scale) {
    require(outputs > 0 && scale.size() == 2, "a model has outputs and a scale");
    std::vector<Part> parts;
    for (nb::handle each : given) {
        parts.push_back(make_part(each));
        require_part(parts.back(), *geometry, outputs, task_of(task));
    }
    std::shared_ptr<CombinationState> combine;
    if (!combination.is_none()) {
        combine = nb::cast<std::shared_ptr<CombinationState>>(combination);
        require(std::size_t(combine->components) == parts.size(), "the combination does not fit the components");
    }
    std::shared_ptr<StreamSample> rows;
    if (!sample.is_none()) {
        rows = nb::cast<std::shared_ptr<StreamSample>>(sample);
        require(rows->columns() == std::size_t(geometry->columns.columns) && geometry->cuts,
                "the sample does not fit the rows");
    }
    return {std::move(geometry), std::move(parts), std::move(combine),         std::move(rows),
            Task(task),          outputs,          nb::cast<double>(scale[0]), nb::cast<double>(scale[1])};
}

std::size_t learn(RowModel& model, In<double, 2> X, In<double, 1> y, In<double, 1> weight, std::int64_t seen, int threads,
                  InOut<double, 2> out) {
    const std::size_t n = X.shape(0);
    require(model.combination() && X.shape(1) == model.columns() && y.size() == n && weight.size() == n &&
                model.fits_after(seen) && out.shape(0) == n && out.shape(1) == std::size_t(model.outputs()),
            "the rows do not fit the model");
    const auto& with = primitives();
    const ReleaseForMany release(n);
    return model.learn(with, X.data(), y.data(), weight.data(), n, seen, threads, out.data());
}

auto learn_parts(RowModel& model, In<double, 2> X, In<double, 1> y, In<double, 1> weight, std::int64_t seen, int threads) {
    const std::size_t n = X.shape(0), outputs = std::size_t(model.outputs()), m = model.parts().size();
    require(X.shape(1) == model.columns() && y.size() == n && weight.size() == n && model.fits_after(seen),
            "the rows do not fit the model");
    std::vector<double> out;
    out.reserve(n * m * outputs);
    {
        const auto& with = primitives();
        nb::gil_scoped_release release;
        BlockViews views(model.geometry(), model.parts());
        for (std::size_t begin = 0; begin < n;) {
            const std::size_t count = std::min(kChunk - (std::size_t(seen) + begin) % kChunk, n - begin);
            const std::vector<double>& S = model.learn_parts(with, views, X.data() + begin * X.shape(1), y.data() + begin,
                                                             weight.data() + begin, count, seen + std::int64_t(begin), threads);
            out.insert(out.end(), S.begin(), S.end());
            begin += count;
        }
    }
    return to_numpy(std::move(out), {n, m, outputs});
}

void score(const RowModel& model, In<double, 2> X, int threads, InOut<double, 2> out) {
    require(model.combination() && X.shape(1) == model.columns() && out.shape(0) == X.shape(0) &&
                out.shape(1) == std::size_t(model.outputs()),
            "the rows do not fit the model");
    const auto& with = primitives();
    model.prepare();
    nb::gil_scoped_release release;
    model.score(with, X.data(), X.shape(0), threads, out.data());
}

auto score_parts(const RowModel& model, In<double, 2> X) {
    require(X.shape(1) == model.columns(), "the rows do not fit the model");
    const std::size_t n = X.shape(0), outputs = std::size_t(model.outputs()), m = model.size();
    std::vector<double> out(n * m * outputs);
    model.prepare();
    model.score_parts(primitives(), X.data(), n, out.data());
    return to_numpy(std::move(out), {n, m, outputs});
}

// Scores of one row as it would be learned: a number, or an array of several.
nb::object score_next(const RowModel& model, In<double, 1> x) {
    require(model.combination() && x.size() == model.columns(), "the row does not fit the model");
    std::vector<double> out(std::size_t(model.outputs()));
    model.score_next(primitives(), x.data(), out.data());
    return out.size() == 1 ? nb::object(nb::float_(out[0])) : nb::cast(to_numpy(std::move(out)));
}

nb::list parts_of(RowModel& model) {
    nb::list out;
    for (Part& part : model.parts())
        if (const auto* newton = std::get_if<NewtonPart>(&part))
            out.append(nb::cast(newton->regression));
        else if (const auto* forest = std::get_if<std::shared_ptr<OnlineForest>>(&part))
            out.append(nb::cast(*forest));
        else
            out.append(nb::cast(std::const_pointer_cast<Boosted>(std::get<std::shared_ptr<const Boosted>>(part))));
    return out;
}

template <class T>
std::shared_ptr<T> forked(const T& part) {
    return std::make_shared<T>(part);
}

template <class T>
std::shared_ptr<T> apart(const T& part, nb::object) {
    return std::make_shared<T>(part.apart());
}

}  // namespace

void bind_row_model(nb::module_& m) {
    nb::class_<Geometry>(m, "ColumnViews")
        .def_static("of", &make_geometry, "arrays"_a)
        .def("make", &make_views, "x"_a, "out"_a, "Rows in the views of their columns that have a place in `out`.");
    nb::class_<FeatureMap>(m, "FeatureMap")
        .def_static("of_kernel", &make_kernel_map, "view"_a, "kernel"_a, "scale"_a, "arrays"_a)
        .def_static("of_columns", &make_columns_map, "columns"_a, "both"_a, "squares"_a)
        .def("make", &map_rows, "x"_a, "out"_a, "Features of rows in their view.");
    nb::class_<Boosted>(m, "BoostedPart")
        .def_static("of", &make_boosted, "nodes"_a, "roots"_a, "outputs"_a, "values"_a, "base"_a)
        .def("scores", &score_boosted, "codes"_a);
    nb::class_<Regression>(m, "NewtonRegression")
        .def_static(
            "of", [](In<double, 2> w, In<float, 3> P, In<double, 1> trace) { return make_regression(w, P, trace); }, "w"_a,
            "P"_a, "trace"_a)
        .def_prop_ro("rank", &Regression::rank)
        .def_prop_ro("open", &Regression::open)
        .def_prop_ro("unchecked", &Regression::unchecked)
        .def_prop_ro("nbytes", &Regression::bytes)
        .def_prop_ro(
            "w",
            [](const Regression& r) {
                return copied(r.arrays().w, {std::size_t(r.outputs()), r.width()});
            },
            nb::rv_policy::automatic)
        .def_prop_ro(
            "P",
            [](const Regression& r) {
                return copied(r.arrays().P, {std::size_t(r.tiles()), std::size_t(r.rank()), std::size_t(kTile)});
            },
            nb::rv_policy::automatic)
        .def_prop_ro(
            "trace", [](const Regression& r) { return copied(r.arrays().trace, {2}); }, nb::rv_policy::automatic)
        .def("open_block", &open_block)
        .def("restore", &restore_block, "open_block"_a, "unchecked"_a)
        .def("set_checked", &Regression::set_checked)
        .def(
            "set_covariance",
            [](Regression& r, In<float, 3> P, double trace) {
                require(P.shape(0) == std::size_t(r.tiles()) && P.shape(1) == std::size_t(r.rank()) && P.shape(2) == kTile,
                        "the covariance does not fit the regression");
                r.set_covariance(P.data(), trace);
            },
            "P"_a, "trace"_a)
        .def("fork", &forked<Regression>)
        .def("__deepcopy__", &apart<Regression>, "memo"_a)
        .def("score_and_learn", &learn_features, "features"_a, "y"_a, "weight"_a, "task"_a, "forget"_a, "seen"_a)
        .def("means",
             [](const Regression& r) {
                 return copied(r.means().data(), {std::size_t(r.outputs()), r.width()});
             })
        .def("close", [](Regression& r) { r.close(primitives()); })
        .def(
            "add_class", [](Regression& r, double log_odds) { r.add_class(primitives(), log_odds); }, "log_odds"_a);
    nb::class_<OnlineForest>(m, "ForestPart")
        .def_static("of", &make_forest, "nodes"_a, "roots"_a, "table"_a, "prior"_a, "outputs"_a, "task"_a)
        .def_prop_ro("open", &OnlineForest::open)
        .def("arrays", &forest_arrays)
        .def("restore", &restore_forest, "leaves"_a, "y"_a, "weight"_a)
        .def("fork", &forked<OnlineForest>)
        .def("__deepcopy__", &apart<OnlineForest>, "memo"_a)
        .def("score_and_learn", &learn_codes, "codes"_a, "y"_a, "weight"_a, "seen"_a)
        .def("scores", &score_codes, "codes"_a)
        .def_prop_ro("nbytes", [](const OnlineForest& f) { return f.bytes(); })
        .def("close", &OnlineForest::close);
    nb::class_<CombinationState>(m, "Combination")
        .def_static("of", &make_combination, "stack_w"_a, "stack_covariance"_a, "weights"_a, "log_final"_a, "loss_sum"_a,
                    "error_sum"_a, "share"_a)
        .def_prop_ro("stack_w", lent(&CombinationState::w, {-1, -2}), nb::rv_policy::automatic)
        .def_prop_ro("stack_covariance", lent(&CombinationState::P, {-1, -2, -2}), nb::rv_policy::automatic)
        .def_prop_ro("weights", lent(&CombinationState::weights, {-2}), nb::rv_policy::automatic)
        .def_prop_ro("log_final", lent(&CombinationState::log_final, {-3}), nb::rv_policy::automatic)
        .def_prop_ro("loss_sum", lent(&CombinationState::loss_sum, {-2}), nb::rv_policy::automatic)
        .def_prop_ro("error_sum", lent(&CombinationState::error_sum, {-2}), nb::rv_policy::automatic)
        .def("fork", &forked<CombinationState>)
        .def_prop_ro("nbytes",
                     [](const CombinationState& c) {
                         return sizeof(double) * (c.w.size() + c.P.size() + 3 * c.weights.size() + c.log_final.size());
                     })
        .def("scores", &combine, "scores"_a, "task"_a)
        .def("score_and_learn", &combine_and_learn, "scores"_a, "y"_a, "weight"_a, "task"_a);
    nb::class_<StreamSample>(m, "Sample")
        .def_static("of", &make_sample, "size"_a, "seed"_a, "codes"_a, "y"_a, "weight"_a)
        .def("add", &add_to_sample, "codes"_a, "y"_a, "weight"_a, "seen"_a)
        .def("rows", &sample_rows)
        .def_prop_ro("nbytes", [](const StreamSample& sample) { return sample.bytes(); })
        .def("fork", &forked<StreamSample>)
        .def(
            "__deepcopy__", [](const StreamSample& sample, nb::object) { return sample; }, "memo"_a);
    nb::class_<NewtonPart>(m, "NewtonPart")
        .def_static("of", &make_newton, "features"_a, "regression"_a, "curve"_a.none(), "forget"_a);
    nb::class_<RowModel>(m, "RowModel")
        .def_static("of", &model_of, "views"_a, "parts"_a, "combination"_a.none(), "sample"_a.none(), "task"_a, "outputs"_a,
                    "scale"_a)
        .def("fork", &RowModel::fork)
        .def_prop_ro("parts", &parts_of)
        .def_prop_ro("combination", [](const RowModel& model) { return model.combination(); })
        .def_prop_ro("sample", [](const RowModel& model) { return model.sample(); })
        .def_prop_ro("has_unchecked", &RowModel::has_unchecked)
        .def("learn", &learn, "X"_a, "y"_a, "weight"_a, "seen"_a, "threads"_a, "out"_a)
        .def("learn_parts", &learn_parts, "X"_a, "y"_a, "weight"_a, "seen"_a, "threads"_a)
        .def("score", &score, "X"_a, "threads"_a, "out"_a)
        .def("score_parts", &score_parts, "X"_a)
        .def("score_next", &score_next, "x"_a);
}

}  // namespace bomkl
