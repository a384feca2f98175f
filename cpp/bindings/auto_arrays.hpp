// What the bindings of Auto models share.
#pragma once

#include <nanobind/stl/shared_ptr.h>

#include <memory>
#include <optional>

#include "auto/rows/model_parts.hpp"
#include "bindings/arrays.hpp"

// A task is a number in Python.
template <>
struct nanobind::detail::type_caster<bomkl::automatic::Task> {
    NB_TYPE_CASTER(bomkl::automatic::Task, const_name("int"))

    bool from_python(handle source, std::uint8_t flags, cleanup_list* cleanup) noexcept {
        make_caster<int> number;
        if (!number.from_python(source, flags, cleanup) || number.value < 0 ||
            number.value > int(bomkl::automatic::Task::huber))
            return false;
        value = bomkl::automatic::Task(number.value);
        return true;
    }
};

namespace bomkl::automatic {

const Primitives<float>& primitives();  // of this machine: auto.cpp

// The interpreter is free while many rows are worked on. Few rows are added to blocks that others may be reading.
class ReleaseForMany {
public:
    explicit ReleaseForMany(std::size_t rows, std::size_t many = kFewRows) {
        if (rows >= many) release_.emplace();
    }

private:
    std::optional<nb::gil_scoped_release> release_;
};

template <class T>
std::shared_ptr<T> forked(const T& part) {
    return std::make_shared<T>(part);
}

template <class T>
std::shared_ptr<T> apart(const T& part, nb::object) {
    return std::make_shared<T>(part.apart());
}

inline std::shared_ptr<const void> kept(nb::object owner) { return std::make_shared<nb::object>(std::move(owner)); }

inline Curve curve_of(const In<double, 1>& numbers) {
    require(numbers.size() == 6, "a curve has six numbers");
    const double* c = numbers.data();
    return {c[0], c[1], c[2], c[3], c[4], c[5]};
}

inline void require_coding(const In<double, 1>& cuts, const In<std::int64_t, 1>& starts, std::size_t columns) {
    require(starts.size() == columns + 1, "the shapes of codes do not fit together");
    for (std::size_t j = 0; j < columns; ++j)
        require(
            starts.data()[j] >= 0 && starts.data()[j] <= starts.data()[j + 1] && starts.data()[j + 1] - starts.data()[j] <= 255,
            "a column has at most 255 cuts");
    require(starts.data()[columns] <= std::int64_t(cuts.size()), "a column has cuts that are not there");
}

// ---------------------------------------------------------------- trees

inline const Node* as_nodes(const In<std::int32_t, 2>& nodes) {
    require(nodes.shape(1) == 2, "a node is two numbers");
    return reinterpret_cast<const Node*>(nodes.data());
}

inline auto nodes_to_numpy(const std::vector<Node>& nodes) {
    return copied(reinterpret_cast<const std::int32_t*>(nodes.data()), {nodes.size(), 2});
}

inline auto arrays_of(const BoostedTrees& trees) {
    return nb::make_tuple(nodes_to_numpy(trees.nodes), to_numpy(trees.roots), to_numpy(trees.outputs), to_numpy(trees.values),
                          to_numpy(trees.base));
}

// Whether trees use only so many columns, and only so many leaves.
inline bool fit_columns(const TreeNodes& trees, std::size_t leaves, std::size_t columns) {
    return sound(trees.nodes, trees.size, trees.roots, std::size_t(trees.trees), leaves, columns);
}

}  // namespace bomkl::automatic
