// Long calls can be interrupted.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <thread>

namespace bomkl {

namespace nb = nanobind;

// Lets a long call be stopped: looks for signals every few hundredths of a second, in the one thread that gets them.
class SignalWatch {
public:
    // Between two blocks.
    void rest() { check(0.02); }
    // Within a block, and so only where a block takes long: a handler that uses the model then gets an error.
    void pause() { check(0.05); }

    static void remember_main_thread() { main_thread() = std::this_thread::get_id(); }

private:
    using Clock = std::chrono::steady_clock;
    static std::thread::id& main_thread() {
        static std::thread::id id;
        return id;
    }
    void check(double seconds) {
        if (!in_main_thread_) return;
        const auto now = Clock::now();
        if (last_ == Clock::time_point()) last_ = now;  // the first look: one row never takes one
        if (now - last_ < std::chrono::duration<double>(seconds)) return;
        nb::gil_scoped_acquire acquire;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        last_ = Clock::now();
    }

    const bool in_main_thread_ = std::this_thread::get_id() == main_thread();
    Clock::time_point last_;
};

}  // namespace bomkl
