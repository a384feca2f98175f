// bomkl._core: the engine for two precisions, and what the machine offers.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bindings/python_engine.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace bomkl {

void bind_svmlight(nb::module_& m);
void bind_auto(nb::module_& m, const InstructionSet& (*chosen_set)());
void bind_class_means(nb::module_& m);
void bind_hashed(nb::module_& m);
void bind_wide(nb::module_& m);
void bind_trees(nb::module_& m);
void bind_geometry(nb::module_& m);
void bind_components(nb::module_& m);
void bind_combination(nb::module_& m);
void bind_row_model(nb::module_& m);
void bind_drift(nb::module_& m);
void bind_network(nb::module_& m);
void bind_growth(nb::module_& m);

namespace {

// The best set this machine has, or the one named by the environment variable BOMKL_INSTRUCTION_SET.
const InstructionSet& chosen_set() {
    int count;
    const InstructionSet* sets = instruction_sets(count);
    const char* wanted = std::getenv("BOMKL_INSTRUCTION_SET");
    for (int i = 0; i < count; ++i) {
        if (wanted && *wanted && std::string(wanted) != sets[i].name) continue;
        if (sets[i].supported()) return sets[i];
        if (wanted && *wanted) break;
    }
    throw std::invalid_argument("BOMKL_INSTRUCTION_SET names an instruction set this machine or build does not have: " +
                                std::string(wanted ? wanted : ""));
}

std::vector<std::string> available_sets() {
    int count;
    const InstructionSet* sets = instruction_sets(count);
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i)
        if (sets[i].supported()) names.push_back(sets[i].name);
    return names;
}

// The context manager of bomkl.auto.blas; a thread may enter it several times. limit(True) and limit(False) may be interrupted
// anywhere and called again: whenever an interrupt comes, limit(False) is called after it. Were this written in Python, an
// interrupt before the first line of `__exit__` would leave the limit where it is.
class OneBlasThread {
public:
    explicit OneBlasThread(nb::object limit) : limit_(std::move(limit)) {}
    void enter() {
        if (depth_++ > 0) return;
        try {
            limit_(true);
        } catch (...) {
            --depth_;
            limit_(false);
            throw;
        }
    }
    void exit(const nb::args&) {
        if (--depth_ > 0) return;
        try {
            limit_(false);
        } catch (...) {
            limit_(false);
            throw;
        }
    }

    nb::object& held() { return limit_; }

private:
    nb::object limit_;
    inline static thread_local int depth_ = 0;
};

// What an object holds may hold that very object, as a Python kernel does through its globals: the garbage collector must see
// that circle.
template <class C>
int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (nb::inst_ready(self)) Py_VISIT(nb::inst_ptr<C>(self)->held().ptr());
    return 0;
}
template <class C>
int clear(PyObject* self) {
    nb::inst_ptr<C>(self)->held() = nb::object();
    return 0;
}
template <class C>
PyType_Slot* collected() {
    static PyType_Slot slots[] = {
        {Py_tp_traverse, reinterpret_cast<void*>(traverse<C>)}, {Py_tp_clear, reinterpret_cast<void*>(clear<C>)}, {0, nullptr}};
    return slots;
}

template <class T>
void bind_engine(nb::module_& m, const char* name) {
    using E = PyEngine<T>;
    nb::class_<E>(m, name, nb::type_slots(collected<E>()))
        .def(
            "__init__",
            [](E* self, const nb::dict& config, int features, bool sparse, nb::object call_kernel) {
                new (self) E(config, features, sparse, std::move(call_kernel), chosen_set());
            },
            "config"_a, "features"_a, "sparse"_a, "call_kernel"_a.none())
        .def("learn", &E::learn, "x"_a, "target"_a, "weight"_a.none(), "delta"_a.none(), "n_threads"_a)
        .def("fork", &E::fork, nb::rv_policy::take_ownership)
        .def("learn_one", &E::learn_one, "x"_a.noconvert(), "target"_a, "delta"_a.none())
        .def("score_one", &E::score_one, "x"_a.noconvert())
        .def("score", &E::score, "x"_a, "per_kernel"_a, "n_threads"_a)
        .def("state", &E::state)
        .def("frequencies", &E::frequencies, "kernel"_a)
        .def("load", &E::load, "state"_a)
        .def_prop_ro("sparse", [](E& e) { return e.read([](const auto& engine) { return engine.sparse(); }); })
        .def_prop_ro("n_support", [](E& e) { return e.read([](const auto& engine) { return engine.n_support(); }); })
        .def_prop_ro("n_rows", [](E& e) { return e.read([](const auto& engine) { return engine.state().pool.n_rows(); }); })
        .def_prop_ro("n_seen", [](E& e) { return e.read([](const auto& engine) { return engine.state().n_seen; }); })
        .def_prop_ro("mistakes", [](E& e) { return e.read([](const auto& engine) { return engine.state().mistakes; }); })
        .def_prop_ro("kernel_mistakes",
                     [](E& e) { return e.read([](const auto& engine) { return engine.state().kernel_mistakes; }); })
        .def_prop_ro("log_weights", [](E& e) { return e.read([](const auto& engine) { return engine.state().log_weights; }); })
        .def_prop_ro("bytes", [](E& e) { return e.read([](const auto& engine) { return engine.state().bytes(); }); });
}

}  // namespace
}  // namespace bomkl

NB_MODULE(_core, m) {
    using namespace bomkl;
    m.doc() = "The compiled core of bomkl.";
    // Python does not free what a daemon thread may still use when it exits, and nanobind would report that as leaks
    nb::set_leak_warnings(false);
    // NOLINTNEXTLINE(bugprone-throw-keyword-missing,bugprone-unused-raii): it registers the exception
    nb::exception<NotFiniteError>(m, "NotFiniteError", PyExc_ValueError);
    bind_engine<float>(m, "Engine32");
    bind_engine<double>(m, "Engine64");
    nb::class_<OneBlasThread>(m, "OneBlasThread", nb::type_slots(collected<OneBlasThread>()))
        .def(nb::init<nb::object>(), "limit"_a)
        .def("__enter__", &OneBlasThread::enter)
        .def("__exit__", &OneBlasThread::exit);
    bind_svmlight(m);
    bind_auto(m, &chosen_set);
    SignalWatch::remember_main_thread();
    m.def(
        "before_fork",
        [] {
            nb::gil_scoped_release release;  // whoever is inside may need it to get out
            ForkGate::instance().before_fork();
        },
        "Wait until no thread is in the midst of a block.");
    m.def(
        "after_fork_in_parent", [] { ForkGate::instance().after_fork_in_parent(); }, "Let blocks go on.");
    m.def(
        "after_fork_in_child",
        [] {
            SignalWatch::remember_main_thread();
            ForkGate::instance().after_fork_in_child();
        },
        "Make the locks of all models fresh: their holders are not in this process.");
    bind_class_means(m);
    bind_hashed(m);
    bind_wide(m);
    bind_trees(m);
    bind_geometry(m);
    bind_components(m);
    bind_combination(m);
    bind_row_model(m);
    bind_drift(m);
    bind_network(m);
    bind_growth(m);
    m.def("instruction_sets", &available_sets, "Instruction sets of this build that this machine can run, best first.");
    m.def(
        "instruction_set", [] { return std::string(chosen_set().name); }, "The instruction set new engines use.");
    m.def(
        "exp_many",
        [](nb::ndarray<float, nb::ndim<1>, nb::c_contig> x) { chosen_set().single_precision->exp_many(x.data(), x.size(), 1); },
        "x"_a, "exp of numbers <= 0 in place, as the kernels compute it: the limit benchmarks compare with.");
    m.def(
        "exp_many",
        [](nb::ndarray<double, nb::ndim<1>, nb::c_contig> x) {
            chosen_set().double_precision->exp_many(x.data(), x.size(), 1);
        },
        "x"_a);
    m.def(
        "tanh_many",
        [](nb::ndarray<float, nb::ndim<1>, nb::c_contig> x) { chosen_set().single_precision->tanh_many(x.data(), x.size()); },
        "x"_a, "tanh of numbers, a multiple of 16, in place, as networks compute it.");
}
