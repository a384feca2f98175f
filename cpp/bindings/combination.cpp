// The part of bomkl._core that combines components, and that keeps a sample of the stream.
#include "auto/components/combination.hpp"
#include "auto/trees/stream_sample.hpp"
#include "bindings/auto_arrays.hpp"

using namespace nanobind::literals;

namespace bomkl {

namespace {

using namespace automatic;

CombinationState make_combination(In<double, 2> w, In<double, 3> P, In<double, 1> weights, In<double, 1> log_final,
                                  In<double, 1> loss_sum, In<double, 1> error_sum, double share) {
    const std::size_t m = weights.size(), stacks = w.shape(0);
    require(m > 0 && w.shape(1) == m && P.shape(0) == stacks && P.shape(1) == m && P.shape(2) == m &&
                log_final.size() == stacks + 1 && loss_sum.size() == m && error_sum.size() == m,
            "the arrays of a combination do not fit together");
    return {int(m),
            int(stacks),
            share,
            vector_of(w),
            vector_of(P),
            vector_of(weights),
            vector_of(log_final),
            vector_of(loss_sum),
            vector_of(error_sum)};
}

// Scores (n, outputs) of rows; with targets each just before it is learned from.
auto combined(CombinationState& c, In<double, 3> S, Task task, const double* y, const double* weight) {
    const std::size_t n = S.shape(0), m = S.shape(1), outputs = S.shape(2);
    require(m == std::size_t(c.components) && outputs > 0, "the rows do not fit the combination");
    std::vector<double> out(n * outputs), centred = vector_of(S);
    if (task == Task::multiclass) centre_scores(centred.data(), n * m, int(outputs));
    Combiner combine(c.view(), int(outputs), task);
    for (std::size_t t = 0; t < n; ++t) {
        const double* scores = centred.data() + t * m * outputs;
        combine.score(scores, out.data() + t * outputs);
        if (y) combine.learn(scores, y + t * outputs, weight[t], c.loss_sum.data(), c.error_sum.data());
    }
    return to_numpy(std::move(out), {n, outputs});
}

auto score(CombinationState& c, In<double, 3> S, Task task) { return combined(c, S, task, nullptr, nullptr); }

auto learn(CombinationState& c, In<double, 3> S, In<double, 2> y, In<double, 1> weight, Task task) {
    require(y.shape(0) == S.shape(0) && y.shape(1) == S.shape(2) && weight.size() == S.shape(0),
            "the rows do not fit the combination");
    return combined(c, S, task, y.data(), weight.data());
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
    return {size, seed, {codes.shape(1), vector_of(codes), vector_of(y), vector_of(weight)}};
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

}  // namespace

void bind_combination(nb::module_& m) {
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
        .def("scores", &score, "scores"_a, "task"_a)
        .def("score_and_learn", &learn, "scores"_a, "y"_a, "weight"_a, "task"_a);
    nb::class_<StreamSample>(m, "Sample")
        .def_static("of", &make_sample, "size"_a, "seed"_a, "codes"_a, "y"_a, "weight"_a)
        .def("add", &add_to_sample, "codes"_a, "y"_a, "weight"_a, "seen"_a)
        .def("rows", &sample_rows)
        .def_prop_ro("nbytes", &StreamSample::bytes)
        .def("fork", &forked<StreamSample>)
        .def(
            "__deepcopy__", [](const StreamSample& sample, nb::object) { return sample; }, "memo"_a);
}

}  // namespace bomkl
