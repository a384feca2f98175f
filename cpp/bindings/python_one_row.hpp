// A learner of Python prepared for single rows: each is scored and learned from in one step.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <optional>

#include "auto/one_row.hpp"
#include "bindings/auto_arrays.hpp"
#include "bindings/to_numpy.hpp"

namespace bomkl::automatic {

namespace nb = nanobind;

const Primitives<float>& primitives();  // of this machine: auto_bindings.cpp

template <class T, int dimensions>
In<T, dimensions> array_of(nb::handle owner, const char* name) {
    return nb::cast<In<T, dimensions>>(owner.attr(name));
}

template <class T, int dimensions>
InOut<T, dimensions> changing_array_of(nb::handle owner, const char* name) {
    return nb::cast<InOut<T, dimensions>>(owner.attr(name));
}

// A learner prepared for single rows. It works on the learner's own arrays, which must not be replaced meanwhile. Every call
// keeps the GIL, so each is one step for other threads and for interrupts. It does not refer to the learner, which keeps it.
class OneRowOfLearner {
public:
    OneRowOfLearner(nb::object learner, nb::object relevance_standard, nb::object relevance_normal, nb::list views, double clip,
                    double far, double largest, int leading, double share, int outputs, int task, double forget,
                    InOut<double, 1> error_rows, In<std::int64_t, 1> places)
        : keep_(nb::make_tuple(relevance_standard, relevance_normal, learner.attr("geometry"))), largest_(largest),
          outputs_(outputs), task_(Task(task)), target_(outputs), error_rows_(error_rows), places_(places) {
        require(task >= 0 && task <= int(Task::huber) && outputs > 0, "unknown task");
        const nb::object geometry = learner.attr("geometry"), combination = learner.attr("combination");
        const Columns columns = columns_from(geometry, relevance_standard, relevance_normal, clip, far, leading);
        const std::size_t d = array_of<double, 1>(geometry, "mean").size();
        const Codes coding = coding_of(geometry, d);
        std::vector<OneComponent> parts;
        std::vector<OneBoosted> boosted;
        std::vector<OneForest> forests;
        std::size_t place = 0;
        for (nb::handle component : nb::object(learner.attr("components"))) {
            keep_ = nb::make_tuple(keep_, component);
            const std::string kind = nb::cast<std::string>(component.attr("kind"));
            const bool newton = kind == "newton" || kind == "curved";
            require(newton || coding.cuts, "trees need codes of the columns");
            if (newton) {
                parts.push_back(newton_of(component, place, nb::cast<int>(views[place]), d, leading, outputs, forget));
                regressions_.push_back(component.attr("regression"));
            } else if (kind == "boosted") {
                boosted.push_back(boosted_of(component, place, d, outputs));
            } else {
                forests.push_back(forest_of(component, place, d, outputs, task));
                forests_.push_back(nb::borrow(component));
            }
            ++place;
        }
        keep_ = nb::make_tuple(keep_, combination);
        require(places_.size() == place &&
                    std::all_of(places_.data(), places_.data() + place,
                                [&](std::int64_t at) { return at >= 0 && std::size_t(at) < error_rows_.size(); }),
                "the errors do not fit their components");
        row_.emplace(primitives(), columns, std::move(parts), coding, std::move(boosted), std::move(forests),
                     combination_of(combination, place, share), outputs_, task_);
    }

    // Scores of scaled targets: a number, or an array where there are several outputs. None where the row is not one of finite
    // numbers or a score is not finite.
    nb::object score(In<double, 1> x) {
        const std::vector<double>* out = scores_of(x);
        return out ? given(*out) : nb::none();
    }

    // Scores a row and learns it: y is a class number or target, `target` the same or scaled. None, with nothing changed,
    // where another thread may be reading this learner, the row closes a block, or `score` would refuse it. What a count of
    // mistakes is kept in, by the name of "_mistakes", is counted up in the same step.
    nb::object learn(nb::object learner, In<double, 1> x, double y, double target, double weight, nb::dict counts) {
        if (nb::cast<bool>(learner.attr("shared")) || !row_->has_room()) return nb::none();
        const std::vector<double>* out = scores_of(x);
        if (!out) return nb::none();
        nb::object found = given(*out);
        const bool mistake = point_error_of(*out, y, target) == 1;
        learn_scored(learner, y, target, weight);
        if (mistake && counts.contains("_mistakes")) counts["_mistakes"] = nb::cast<std::int64_t>(counts["_mistakes"]) + 1;
        return found;
    }

    // Learns the row that was scored last.
    void learn_scored(nb::object learner, double y, double target, double weight) {
        require(row_->scored() && row_->has_room(), "there is no row to learn from");
        set_target(y, target);
        const auto seen = nb::cast<std::int64_t>(learner.attr("seen"));
        add_to_sample(learner.attr("sample"), y, weight, seen);
        row_->learn(target_.data(), weight, loss_sum_.data(), error_sum_.data());
        for (std::size_t i = 0; i < places_.size(); ++i) error_rows_.data()[places_.data()[i]] += 1;
        for (std::size_t i = 0; i < regressions_.size(); ++i) {
            const nb::object& regression = regressions_[i];
            regression.attr("open") = row_->newton()[i].open;
            regression.attr("unchecked") = nb::cast<double>(regression.attr("unchecked")) + std::max(weight, 1.0);
        }
        for (std::size_t i = 0; i < forests_.size(); ++i) forests_[i].attr("open") = row_->forests()[i].open;
        learner.attr("seen") = seen + 1;
    }

private:
    static Columns columns_from(nb::handle geometry, nb::handle relevance_standard, nb::handle relevance_normal, double clip,
                                double far, int leading) {
        return columns_of(array_of<double, 1>(geometry, "mean"), array_of<double, 1>(geometry, "deviation"),
                          array_of<double, 1>(geometry, "middle"), nb::cast<double>(geometry.attr("common")),
                          array_of<double, 2>(geometry, "sorted_columns"), array_of<double, 1>(geometry, "score_table"),
                          array_of<double, 1>(geometry, "normal_mean"), array_of<double, 1>(geometry, "normal_deviation"),
                          array_of<float, 3>(geometry, "axes"), nb::cast<In<float, 1>>(relevance_standard),
                          nb::cast<In<float, 1>>(relevance_normal), clip, far, leading);
    }

    static Codes coding_of(nb::handle geometry, std::size_t d) {
        const nb::object known = geometry.attr("coding");
        if (known.is_none()) return {};
        const auto cuts = array_of<double, 1>(known, "cuts");
        const auto starts = array_of<std::int64_t, 1>(known, "starts");
        require_coding(cuts, starts, d);
        static const double none = 0;  // of columns that are all constant there are no cuts
        return {cuts.size() ? cuts.data() : &none, starts.data()};
    }

    Combination combination_of(nb::handle combination, std::size_t m, double share) {
        auto w = changing_array_of<double, 2>(combination, "stack_w");
        auto P = changing_array_of<double, 3>(combination, "stack_covariance");
        auto weights = changing_array_of<double, 1>(combination, "weights"),
             log_final = changing_array_of<double, 1>(combination, "log_final");
        loss_sum_ = changing_array_of<double, 1>(combination, "loss_sum");
        error_sum_ = changing_array_of<double, 1>(combination, "error_sum");
        require(m > 0 && weights.size() == m && w.shape(1) == m && P.shape(0) == w.shape(0) && P.shape(1) == m &&
                    P.shape(2) == m && log_final.size() == w.shape(0) + 1 && loss_sum_.size() == m && error_sum_.size() == m,
                "the arrays of a combination do not fit together");
        return {int(m), int(w.shape(0)), w.data(), P.data(), weights.data(), log_final.data(), share};
    }

    static constexpr int leading_view = leading;

    static Component regression_of(nb::handle r) {
        auto w = changing_array_of<double, 2>(r, "w");
        auto P = changing_array_of<float, 3>(r, "P"), V = changing_array_of<float, 3>(r, "V");
        auto rows = changing_array_of<float, 2>(r, "rows"), U = changing_array_of<float, 2>(r, "U");
        auto M = changing_array_of<double, 2>(r, "M"), a = changing_array_of<double, 2>(r, "a");
        auto c = changing_array_of<double, 1>(r, "c"), trace = changing_array_of<double, 1>(r, "trace");
        return component(w, P, rows, U, M, c, a, V, trace);
    }

    static OneComponent newton_of(nb::handle component, std::size_t place, int view, std::size_t d, int n_leading, int outputs,
                                  double forget) {
        const nb::object features = component.attr("features"), regression = component.attr("regression");
        OneComponent part{};
        part.place = place;
        part.view = view;
        part.m = regression_of(regression);
        part.open = nb::cast<int>(regression.attr("open"));
        part.loosen = (1 - forget) * part.m.rank;
        if (nb::cast<std::string>(component.attr("kind")) == "curved") {
            require(outputs == 1, "curved targets are numbers");
            part.curve = curve_of(array_of<double, 1>(component, "curve"));
        }
        require(part.open >= 0 && part.open < kBlock && part.m.outputs == outputs && view >= -1 && view < n_views,
                "a component does not fit its learner");
        if (view < 0) {
            part.both = nb::cast<bool>(features.attr("both"));
            part.squares = nb::cast<bool>(features.attr("squares"));
            require((part.both || !part.squares) && std::size_t(part.m.rank) == (1 + part.both + part.squares) * d + 1,
                    "the columns do not fit their component");
        } else {
            part.map = kernel_map(int(view == leading_view ? std::size_t(n_leading) : d),
                                  nb::cast<int>(features.attr("number")), nb::cast<double>(features.attr("scale")),
                                  array_of<float, 3>(features, "landmarks"), array_of<float, 1>(features, "norms"),
                                  array_of<float, 3>(features, "whiten"), nb::cast<int>(features.attr("rank")));
            require(part.map.rank + 1 == part.m.rank && part.map.rank_tiles == part.m.tiles,
                    "a kernel does not fit its component");
        }
        return part;
    }

    static OneBoosted boosted_of(nb::handle component, std::size_t place, std::size_t d, int outputs) {
        const auto nodes = array_of<std::int32_t, 2>(component, "nodes");
        const auto roots = array_of<std::int32_t, 1>(component, "roots"), of = array_of<std::int32_t, 1>(component, "outputs");
        const auto values = array_of<float, 1>(component, "values");
        const auto base = array_of<double, 1>(component, "base");
        require_trees(nodes, roots, values.size(), d);
        require(of.size() == roots.size() && base.size() == std::size_t(outputs) &&
                    std::all_of(of.data(), of.data() + of.size(), [&](std::int32_t k) { return k >= 0 && k < outputs; }),
                "boosted trees do not fit their learner");
        return {place, as_nodes(nodes), roots.data(), of.data(), roots.size(), values.data(), base.data()};
    }

    static OneForest forest_of(nb::handle component, std::size_t place, std::size_t d, int outputs, int task) {
        const auto nodes = array_of<std::int32_t, 2>(component, "nodes");
        const auto roots = array_of<std::int32_t, 1>(component, "roots");
        auto table = changing_array_of<float, 2>(component, "table");
        auto open_leaves = changing_array_of<std::int32_t, 2>(component, "open_leaves");
        auto open_y = changing_array_of<double, 2>(component, "open_y");
        auto open_weight = changing_array_of<double, 1>(component, "open_weight");
        const int open = nb::cast<int>(component.attr("open"));
        require_trees(nodes, roots, table.shape(0), d);
        require(open_y.shape(1) == std::size_t(outputs) && nb::cast<int>(component.attr("task")) == task,
                "a forest does not fit its learner");
        return {place,
                forest_rows(nodes, roots, table, array_of<double, 1>(component, "prior"), open_leaves, open_y, open_weight,
                            task, open),
                open};
    }

    // Puts the row that was scored last among those that wait, where the sample takes it.
    void add_to_sample(const nb::object& sample, double y, double weight, std::int64_t seen) {
        if (sample.is_none()) return;
        std::int64_t at = -1;
        sample_places(nb::cast<std::uint64_t>(sample.attr("seed")), std::uint64_t(seen), 1,
                      nb::cast<std::uint64_t>(sample.attr("size")), &at);
        if (at < 0) return;
        const std::vector<std::uint8_t>& codes = row_->codes();
        nb::cast<nb::list>(sample.attr("waiting"))
            .append(nb::make_tuple(to_numpy(std::vector<std::int64_t>{at}), to_numpy(codes, {std::size_t(1), codes.size()}),
                                   to_numpy(std::vector<double>{y}), to_numpy(std::vector<double>{weight})));
    }

    void set_target(double y, double target) {
        if (task_ != Task::multiclass) {
            target_[0] = target;
            return;
        }
        require(y >= 0 && y < outputs_, "there is no such class");
        std::fill(target_.begin(), target_.end(), 0.0);
        target_[std::size_t(y)] = 1;
    }

    double point_error_of(const std::vector<double>& scores, double y, double target) {
        set_target(y, target);
        return point_error(scores.data(), target_.data(), outputs_, task_);
    }

    nb::object given(const std::vector<double>& scores) const {
        return outputs_ == 1 ? nb::object(nb::float_(scores[0])) : nb::cast(to_numpy(scores));
    }

    // Null where there are none.
    const std::vector<double>* scores_of(const In<double, 1>& x) {
        const auto finite = [](double value) { return std::isfinite(value); };
        if (x.size() != std::size_t(row_->columns()) || !std::all_of(x.data(), x.data() + x.size(), finite)) return nullptr;
        clipped_.resize(x.size());
        for (std::size_t j = 0; j < x.size(); ++j) clipped_[j] = std::clamp(x.data()[j], -largest_, largest_);
        const std::vector<double>& out = row_->score(clipped_.data());
        return std::all_of(out.begin(), out.end(), finite) ? &out : nullptr;
    }

    nb::object keep_;
    std::vector<nb::object> regressions_, forests_;
    double largest_;
    int outputs_;
    Task task_;
    std::vector<double> target_, clipped_;
    InOut<double, 1> loss_sum_, error_sum_, error_rows_;
    In<std::int64_t, 1> places_;
    std::optional<OneRow> row_;
};

}  // namespace bomkl::automatic
