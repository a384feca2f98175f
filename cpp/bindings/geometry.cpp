// The part of bomkl._core that makes views of columns and features of rows.
#include "bindings/auto_arrays.hpp"

using namespace nanobind::literals;

namespace bomkl {

namespace {

using namespace automatic;

std::shared_ptr<Geometry> make_geometry(nb::dict arrays) {
    const auto number = [&](const char* name) { return nb::cast<double>(arrays[name]); };
    const auto sorted = named<double, 2>(arrays, "sorted_columns");
    const auto axes = named<float, 3>(arrays, "axes");
    const std::size_t d = sorted.shape(0), n = sorted.shape(1);
    const char* rule = "the arrays of a geometry do not fit together";
    const auto numbers = [&]<class T>(const char* name, std::size_t size, T) {
        const auto array = named<T, 1>(arrays, name);
        require(array.size() == size, rule);
        return array.data();
    };
    auto made = std::make_shared<Geometry>();
    Columns& c = made->columns;
    c.columns = int(d), c.leading = nb::cast<int>(arrays["leading"]);
    c.common = number("common"), c.clip = number("clip"), c.far = number("far");
    c.axes = axes.data(), c.score_table = numbers("score_table", 2 * n + 1, 0.0);
    c.mean = numbers("mean", d, 0.0), c.deviation = numbers("deviation", d, 0.0), c.middle = numbers("middle", d, 0.0);
    c.normal_mean = numbers("normal_mean", d, 0.0), c.normal_deviation = numbers("normal_deviation", d, 0.0);
    c.relevance_standard = numbers("relevance_standard", d, 0.0f), c.relevance_normal = numbers("relevance_normal", d, 0.0f);
    require(n > 0 && axes.shape(0) == 1 && axes.shape(1) == d && axes.shape(2) == kTile && c.leading >= 0 && c.leading <= kTile,
            rule);
    c.sorted = {sorted.data(), d, n};
    for (const auto& run : c.sorted.runs) made->square_means.push_back(run.least < run.largest ? 1.0f : 0.0f);
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

std::shared_ptr<FeatureMap> make_kernel_map(int view, const char* kernel, double scale, nb::dict arrays) {
    const auto landmarks = named<float, 3>(arrays, "landmarks"), whiten = named<float, 3>(arrays, "whiten");
    const auto norms = named<float, 1>(arrays, "norms");
    const int rank = nb::cast<int>(arrays["rank"]), tiles = int(whiten.shape(0));
    const KernelValues values = AllPoolKernels::find(kernel);
    require(view >= 0 && view < n_views, "unknown view");
    require(values, "cpp/auto/features/pool_kernels.hpp has no kernel of that name");
    require(landmarks.shape(2) == kTile && norms.size() == landmarks.shape(0) * kTile && whiten.shape(2) == kTile &&
                whiten.shape(1) <= norms.size() && rank >= 0 && tiles == (rank + kTile) / kTile,
            "the shapes of a kernel map do not fit together");
    const KernelMap map{values,
                        scale,
                        landmarks.data(),
                        norms.data(),
                        int(whiten.shape(1)),
                        int(landmarks.shape(0)),
                        int(landmarks.shape(1)),
                        whiten.data(),
                        rank,
                        tiles};
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

}  // namespace

void bind_geometry(nb::module_& m) {
    nb::class_<Geometry>(m, "ColumnViews")
        .def_static("of", &make_geometry, "arrays"_a)
        .def("make", &make_views, "x"_a, "out"_a, "Rows in the views of their columns that have a place in `out`.");
    nb::class_<FeatureMap>(m, "FeatureMap")
        .def_static("of_kernel", &make_kernel_map, "view"_a, "kernel"_a, "scale"_a, "arrays"_a)
        .def_static("of_columns", &make_columns_map, "columns"_a, "both"_a, "squares"_a)
        .def("make", &map_rows, "x"_a, "out"_a, "Features of rows in their view.");
}

}  // namespace bomkl
