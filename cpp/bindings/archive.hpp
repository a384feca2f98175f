// What something has learned as a dict of plain values and arrays, and back. One description of its parts, a template
// `archive(a)`, serves for both: `Saving` writes them down, and `Loading` takes none that does not fit.
#pragma once

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "auto/drift/drift_evidence.hpp"
#include "auto/limits.hpp"
#include "bindings/arrays.hpp"

namespace bomkl::automatic {

using Shape = std::vector<std::size_t>;

class Saving {
public:
    nb::dict out;
    static constexpr bool saving() { return true; }

    template <class T>
    void array(const char* name, const std::vector<T>& values, Shape shape, Limits = {}) {
        std::size_t others = 1;
        for (std::size_t n : shape)
            if (n != kAnyLength) others *= n;
        std::replace(shape.begin(), shape.end(), kAnyLength, values.size() / std::max<std::size_t>(others, 1));
        out[name] = to_numpy(values, shape);
    }
    template <class T>
    void numbers(const char* name, const T* data, std::size_t n, double = 0) {
        out[name] = to_numpy(std::vector<T>(data, data + n));
    }
    void labels(const char* name, const double* data, std::size_t n) { numbers(name, data, n); }
    void number(const char* name, const double& value, Limits = {}) { out[name] = value; }
    void count(const char* name, const std::uint64_t& value, std::uint64_t = 0) { out[name] = value; }
    void integer(const char* name, const std::int64_t& value, std::int64_t = 0) { out[name] = value; }
    void flag(const char* name, const bool& value) { out[name] = value; }
    void integers(const char* name, const std::vector<int>& values) { out[name] = nb::cast(values); }
    void require(const char*, bool, const char*) {}

    template <class T>
    void part(const char* name, T& each) {
        out[name] = saved(each);
    }
    template <class T>
    void parts(const char* name, T& some) {
        nb::list list;
        for (auto& each : some) list.append(saved(each));
        out[name] = list;
    }
    template <class T, class Make>
    void optional(const char* name, std::optional<T>& each, Make&&) {
        out[name] = each ? nb::object(saved(*each)) : nb::none();
    }
    void events(const char* name, std::vector<DriftEvent>& some, std::size_t, std::size_t) {
        nb::list list;
        for (DriftEvent& each : some) {
            nb::dict event;
            event["row"] = each.row;
            event["age"] = each.age;
            event["sudden"] = each.sudden;
            event["strength"] = each.strength;
            event["shifts"] = to_numpy(std::vector<double>(each.shifts));
            event["weights"] = to_numpy(std::vector<double>(each.weights));
            list.append(event);
        }
        out[name] = list;
    }

    template <class T>
    static nb::dict saved(T& each) {
        Saving inside;
        each.archive(inside);
        return inside.out;
    }
};

// Errors are those of bomkl.auto.saved.
class Loading {
public:
    // `classes`: of labels; 0 where they are numbers
    Loading(nb::dict in, std::string owner, double classes = 0)
        : in_(std::move(in)), owner_(std::move(owner)), classes_(classes) {}
    static constexpr bool saving() { return false; }

    template <class T>
    void array(const char* name, std::vector<T>& values, const Shape& shape, Limits limits = {}) {
        nb::ndarray<const T, nb::c_contig, nb::device::cpu> given;
        bool fits = nb::try_cast(value(name), given, false) && given.ndim() == shape.size();
        for (std::size_t i = 0; fits && i < shape.size(); ++i) fits = shape[i] == kAnyLength || shape[i] == given.shape(i);
        require(name, fits, "an array of shape " + text_of(shape) + " and of the type that is saved");
        const T* data = given.data();
        const auto inside = [&](T x) { return double(x) >= limits.low && double(x) <= limits.high; };  // not of NaN
        require(name, std::all_of(data, data + given.size(), inside), "finite numbers" + between(limits.low, limits.high));
        values.assign(data, data + given.size());
    }
    template <class T>
    void numbers(const char* name, T* data, std::size_t n, double low = Limits().low) {
        std::vector<T> values;
        array(name, values, {n}, {low, Limits().high});
        std::copy_n(values.data(), n, data);
    }
    void labels(const char* name, double* data, std::size_t n) {
        numbers(name, data, n);
        const auto is_class = [&](double y) { return y >= 0 && y < classes_ && y == std::floor(y); };
        require(name, classes_ == 0 || std::all_of(data, data + n, is_class), "numbers of classes");
    }
    void number(const char* name, double& number, Limits limits = {}) {
        require(name, nb::try_cast(value(name), number, false) && number >= limits.low && number <= limits.high,
                "a finite number" + between(limits.low, limits.high));
    }
    void count(const char* name, std::uint64_t& number, std::uint64_t most = std::uint64_t(1) << 62) {
        require(name, nb::try_cast(value(name), number, false) && number <= most, "an int" + between(0, most));
    }
    void integer(const char* name, std::int64_t& number, std::int64_t least = 0) {
        constexpr std::int64_t most = std::int64_t(1) << 62;
        require(name, nb::try_cast(value(name), number, false) && number >= least && number <= most,
                "an int" + between(least, most));
    }
    void flag(const char* name, bool& flag) { require(name, nb::try_cast(value(name), flag, false), "True or False"); }
    void integers(const char* name, std::vector<int>& values) {
        require(name,
                nb::try_cast(value(name), values, false) && values.size() <= 64 &&
                    std::all_of(values.begin(), values.end(), [](int part) { return part >= 0; }),
                "a list of at most 64 ints from 0 on");
    }
    void require(const char* name, bool holds, const std::string& rule) const {
        if (!holds)
            throw std::invalid_argument("'" + std::string(name) + "' of the saved " + owner_ + " must be " + rule + ".");
    }

    template <class T>
    void part(const char* name, T& each) {
        load(name, value(name), each);
    }
    template <class T>
    void parts(const char* name, T& some) {
        nb::list list;
        require(name, nb::try_cast(value(name), list, false) && list.size() == some.size(),
                "a list of " + std::to_string(some.size()) + " parts");
        for (std::size_t i = 0; i < some.size(); ++i) load(name, list[i], some[i]);
    }
    template <class T, class Make>
    void optional(const char* name, std::optional<T>& each, Make&& make) {
        each.reset();
        if (value(name).is_none()) return;
        make();
        load(name, value(name), *each);
    }
    void events(const char* name, std::vector<DriftEvent>& some, std::size_t columns, std::size_t experts) {
        nb::list list;
        require(name, nb::try_cast(value(name), list, false) && list.size() <= 256, "a list of at most 256 parts");
        for (nb::handle each : list) {
            Loading inside(dict_of(name, each), name, classes_);
            DriftEvent made{0, 0, false, 0, std::vector<double>(columns), std::vector<double>(experts)};
            inside.integer("row", made.row);
            inside.integer("age", made.age);
            inside.flag("sudden", made.sudden);
            inside.number("strength", made.strength);
            inside.numbers("shifts", made.shifts.data(), columns);
            inside.numbers("weights", made.weights.data(), experts);
            inside.end();
            some.push_back(std::move(made));
        }
    }

    template <class T>
    static void into(T& each, nb::dict state, std::string owner, double classes = 0) {
        Loading inside(std::move(state), std::move(owner), classes);
        each.archive(inside);
        inside.end();
    }

private:
    nb::object value(const char* name) {
        if (!in_.contains(name)) throw std::invalid_argument("The saved " + owner_ + " has no '" + name + "'.");
        if (std::find(taken_.begin(), taken_.end(), name) == taken_.end()) taken_.push_back(name);
        return in_[name];
    }
    nb::dict dict_of(const char* name, nb::handle from) const {
        nb::dict dict;
        require(name, nb::try_cast(from, dict, false), "a dict");
        return dict;
    }
    template <class T>
    void load(const char* name, nb::handle from, T& each) {
        into(each, dict_of(name, from), name, classes_);
    }
    static std::string text_of(const Shape& shape) {
        nb::list sizes;
        for (std::size_t n : shape) sizes.append(n == kAnyLength ? nb::none() : nb::object(nb::int_(n)));
        return nb::repr(nb::tuple(sizes)).c_str();
    }
    template <class Low, class High>
    static std::string between(Low low, High high) {
        return std::string(" from ") + nb::repr(nb::cast(low)).c_str() + " to " + nb::repr(nb::cast(high)).c_str();
    }
    void end() const {
        for (const auto& [name, _] : in_)
            if (const auto text = nb::cast<std::string>(name); std::find(taken_.begin(), taken_.end(), text) == taken_.end())
                throw std::invalid_argument("The saved " + owner_ + " holds what this version does not know: '" + text + "'.");
    }

    nb::dict in_;
    std::string owner_;
    double classes_;
    std::vector<std::string> taken_;
};

// The methods `state` and `restore` of a class that has `archive`.
template <class T, class Class>
Class& with_state(Class& bound) {
    return bound.def("state", [](T& each) { return Saving::saved(each); })
        .def(
            "restore",
            [](T& each, nb::dict state, std::string owner, double classes) {
                Loading::into(each, std::move(state), std::move(owner), classes);
            },
            nb::arg("state"), nb::arg("owner"), nb::arg("classes") = 0.0);
}

}  // namespace bomkl::automatic
