// The part of bomkl._core that owns what the components of a row model have learned.
#include "bindings/archive.hpp"
#include "bindings/auto_arrays.hpp"

using namespace nanobind::literals;

namespace bomkl {

namespace {

using namespace automatic;

TreeNodes tree_nodes(const In<std::int32_t, 2>& nodes, const In<std::int32_t, 1>& roots, std::size_t leaves,
                     std::shared_ptr<const void> keep) {
    require(roots.size() > 0, "there must be trees");
    TreeNodes trees{as_nodes(nodes), nodes.shape(0), roots.data(), int(roots.size()), std::move(keep)};
    require(fit_columns(trees, leaves, std::size_t(1) << 23), "trees must lead from their roots to leaves");
    return trees;
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

auto learn_features(Regression& r, In<float, 2> F, In<double, 2> y, In<double, 1> weight, Task task, double forget,
                    std::int64_t seen) {
    const std::size_t n = F.shape(0), outputs = std::size_t(r.outputs());
    require(F.shape(1) == r.width() && y.shape(0) == n && y.shape(1) == outputs && weight.size() == n && seen >= 0 &&
                r.open() <= seen % kBlock,
            "the rows do not fit the regression");
    std::vector<double> scores(n * outputs);
    {
        const ReleaseForMany release(n);
        r.learn(primitives(), F.data(), y.data(), weight.data(), n, task, (1 - forget) * r.rank(), seen, scores.data());
    }
    return to_numpy(std::move(scores), {n, outputs});
}

// ---------------------------------------------------------------- forests

OnlineForest make_forest(In<std::int32_t, 2> nodes, In<std::int32_t, 1> roots, In<float, 2> table, In<double, 1> prior,
                         int outputs, Task task) {
    require(
        outputs > 0 && table.shape(1) == prior.size() && prior.size() == (task == Task::multiclass ? std::size_t(outputs) : 2),
        "the arrays of a forest do not fit together");
    TreeNodes trees = tree_nodes(nodes, roots, table.shape(0), kept(nb::make_tuple(nodes, roots)));
    return {std::move(trees), vector_of(table), vector_of(prior), outputs, task};
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

}  // namespace

void bind_components(nb::module_& m) {
    nb::class_<Boosted>(m, "BoostedPart")
        .def_static("of", &make_boosted, "nodes"_a, "roots"_a, "outputs"_a, "values"_a, "base"_a)
        .def("scores", &score_boosted, "codes"_a);
    auto bound = nb::class_<Regression>(m, "NewtonRegression");
    with_state<Regression>(bound)
        .def_static("of", &make_regression, "w"_a, "P"_a, "trace"_a)
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
        .def_prop_ro("nbytes", &OnlineForest::bytes)
        .def("close", &OnlineForest::close);
}

}  // namespace bomkl
