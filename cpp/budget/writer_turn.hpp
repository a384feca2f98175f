// Calls that learn: they can be interrupted, and one waits for the other.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>

#include "budget/model_lock.hpp"

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

// Whose turn it is to change a model, from the beginning of a call that learns until it is committed or rolled back.
class WriterTurn : public ForkAware {
public:
    void take(SignalWatch& watch) {
        if (is_mine()) throw std::runtime_error("A model cannot be changed by a function that it calls while it learns.");
        while (!try_take()) {
            wait();
            watch.rest();
        }
    }
    bool is_mine() const { return owner_ == std::this_thread::get_id(); }
    void give() {
        owner_ = std::thread::id();
        if (waiting_ == 0) return;
        std::lock_guard<std::mutex> hold(mutex_);
        free_.notify_one();
    }
    void renew() override {
        new (&mutex_) std::mutex;
        new (&free_) std::condition_variable;
        waiting_ = 0;
        if (!is_mine()) owner_ = std::thread::id();
    }

private:
    bool try_take() {
        std::thread::id nobody;
        return owner_.compare_exchange_strong(nobody, std::this_thread::get_id());
    }
    // Until it may be free, but not so long that an interrupt would have to wait.
    void wait() {
        std::unique_lock<std::mutex> hold(mutex_);
        ++waiting_;
        if (owner_ != std::thread::id()) free_.wait_for(hold, std::chrono::milliseconds(50));
        --waiting_;
    }

    std::atomic<std::thread::id> owner_ = std::thread::id();
    std::atomic<int> waiting_ = 0;
    std::mutex mutex_;
    std::condition_variable free_;
};

}  // namespace bomkl
