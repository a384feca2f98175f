// Who may look at a model or change it: one thread at a time, in the order in which they asked, a block of rows each. A
// process is forked between blocks, and the locks of the child are fresh: it has one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <stdexcept>

namespace bomkl {

class ModelLock;

// A lock that a forked process must make fresh.
class ForkAware {
public:
    ForkAware();
    ForkAware(const ForkAware&) = delete;
    ForkAware& operator=(const ForkAware&) = delete;
    // In a child: nobody waits any more, and nobody but this thread can hold it.
    virtual void renew() = 0;

protected:
    ~ForkAware();
};

// The lock that this thread took last of those it holds: the head of a list.
inline thread_local constinit ModelLock* last_held = nullptr;

// Keeps forks and blocks apart. A thread that forks may be inside itself, in a Python kernel.
//
// One row passes it twice, so nobody takes a mutex. Of "I am inside" and "I fork" each side writes its own before it reads the
// other's, and all four steps have one order: of two that come at once, at least one sees the other.
class ForkGate {
public:
    static ForkGate& instance() {
        static ForkGate* const gate = new ForkGate;  // outlives whatever still learns at exit
        return *gate;
    }
    void enter() {
        for (;;) {
            ++inside_;
            if (!forking_) return;
            leave();
            forking_.wait(true);
        }
    }
    void leave() {
        --inside_;
        if (forking_) inside_.notify_all();
    }
    void before_fork() {
        while (forking_.exchange(true)) forking_.wait(true);
        for (int inside = inside_; inside > mine(); inside = inside_) inside_.wait(inside);
    }
    void after_fork_in_parent() {
        forking_ = false;
        forking_.notify_all();
    }
    void after_fork_in_child() {
        forking_ = false;
        inside_ = mine();
        for (ForkAware* lock : locks_) lock->renew();
    }
    // both while the interpreter lock is held, so never during a fork
    void add(ForkAware* lock) { locks_.insert(lock); }
    void remove(ForkAware* lock) { locks_.erase(lock); }

private:
    static int mine() { return last_held ? 1 : 0; }

    std::atomic<bool> forking_ = false;
    std::atomic<int> inside_ = 0;
    std::set<ForkAware*> locks_;
};

inline ForkAware::ForkAware() { ForkGate::instance().add(this); }
inline ForkAware::~ForkAware() { ForkGate::instance().remove(this); }

// Tickets: whoever asks draws the next, and is served when all before it are.
class ModelLock : public ForkAware {
public:
    ~ModelLock() = default;

    bool held_by_this_thread() const {
        for (const ModelLock* each = last_held; each; each = each->held_before_)
            if (each == this) return true;
        return false;
    }

    void lock() {
        if (held_by_this_thread())
            throw std::runtime_error("A kernel cannot use the model that is calling it: the model would wait for itself.");
        if (!last_held) ForkGate::instance().enter();
        const std::uint32_t ticket = next_++;
        for (std::uint32_t serving = serving_; serving != ticket; serving = serving_) serving_.wait(serving);
        held_before_ = last_held;
        last_held = this;
    }
    // In the reverse order of lock, as scopes end.
    void unlock() {
        last_held = held_before_;
        const std::uint32_t served = ++serving_;
        if (served != next_) serving_.notify_all();
        if (!last_held) ForkGate::instance().leave();
    }

    void renew() override {
        next_ = held_by_this_thread() ? 1 : 0;
        serving_ = 0;
    }

private:
    std::atomic<std::uint32_t> next_ = 0, serving_ = 0;
    ModelLock* held_before_ = nullptr;  // by the thread that holds this one
};

}  // namespace bomkl
