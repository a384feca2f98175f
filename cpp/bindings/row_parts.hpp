// What the bindings of the parts of a row model share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>

#include <optional>

#include "auto/row_model.hpp"
#include "bindings/to_numpy.hpp"
#include "bindings/tree_arrays.hpp"

namespace bomkl::automatic {

namespace nb = nanobind;

const Primitives<float>& primitives();  // of this machine: auto.cpp

template <class T, int dimensions>
In<T, dimensions> named(const nb::dict& arrays, const char* name) {
    return nb::cast<In<T, dimensions>>(arrays[name]);
}

inline std::shared_ptr<const void> kept(nb::object owner) { return std::make_shared<nb::object>(std::move(owner)); }

inline Task task_of(int task) {
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

// Whether trees use only so many columns.
inline bool fit_columns(const TreeNodes& trees, std::size_t leaves, std::size_t columns) {
    return sound(trees.nodes, trees.size, trees.roots, std::size_t(trees.trees), leaves, columns);
}

template <class T>
std::shared_ptr<T> forked(const T& part) {
    return std::make_shared<T>(part);
}

template <class T>
std::shared_ptr<T> apart(const T& part, nb::object) {
    return std::make_shared<T>(part.apart());
}

}  // namespace bomkl::automatic
