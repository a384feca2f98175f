// Who may look at a model or change it: one thread at a time, in the order in which they asked, a block of rows each. A
// process is forked between blocks, and the locks of the child are fresh: it has one thread.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <vector>

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

// The locks this thread holds.
inline thread_local std::vector<const ModelLock*> held_locks;

// Keeps forks and blocks apart. A thread that forks may be inside itself, in a Python kernel.
class ForkGate {
public:
    static ForkGate& instance() {
        static ForkGate* const gate = new ForkGate;  // outlives whatever still learns at exit
        return *gate;
    }
    void enter() {
        std::unique_lock<std::mutex> hold(mutex_);
        changed_.wait(hold, [&] { return !forking_; });
        ++inside_;
    }
    void leave() {
        std::lock_guard<std::mutex> hold(mutex_);
        --inside_;
        if (forking_) changed_.notify_all();
    }
    void before_fork() {
        std::unique_lock<std::mutex> hold(mutex_);
        changed_.wait(hold, [&] { return !forking_; });
        forking_ = true;
        changed_.wait(hold, [&] { return inside_ <= mine(); });
    }
    void after_fork_in_parent() {
        std::lock_guard<std::mutex> hold(mutex_);
        forking_ = false;
        changed_.notify_all();
    }
    void after_fork_in_child() {
        new (&mutex_) std::mutex;
        new (&changed_) std::condition_variable;
        forking_ = false;
        inside_ = mine();
        for (ForkAware* lock : locks_) lock->renew();
    }
    // both while the interpreter lock is held, so never during a fork
    void add(ForkAware* lock) { locks_.insert(lock); }
    void remove(ForkAware* lock) { locks_.erase(lock); }

private:
    static int mine() { return held_locks.empty() ? 0 : 1; }

    std::mutex mutex_;
    std::condition_variable changed_;
    bool forking_ = false;
    int inside_ = 0;
    std::set<ForkAware*> locks_;
};

inline ForkAware::ForkAware() { ForkGate::instance().add(this); }
inline ForkAware::~ForkAware() { ForkGate::instance().remove(this); }

class ModelLock : public ForkAware {
public:
    ~ModelLock() = default;

    bool held_by_this_thread() const { return std::find(held_locks.begin(), held_locks.end(), this) != held_locks.end(); }

    void lock() {
        if (held_by_this_thread())
            throw std::runtime_error("A kernel cannot use the model that is calling it: the model would wait for itself.");
        held_locks.reserve(held_locks.size() + 1);
        if (held_locks.empty()) ForkGate::instance().enter();
        std::unique_lock<std::mutex> hold(mutex_);
        const std::uint64_t ticket = next_++;
        served_.wait(hold, [&] { return serving_ == ticket; });
        held_locks.push_back(this);
    }
    void unlock() {
        {
            std::lock_guard<std::mutex> hold(mutex_);
            ++serving_;
            if (serving_ != next_) served_.notify_all();
        }
        held_locks.erase(std::find(held_locks.begin(), held_locks.end(), this));
        if (held_locks.empty()) ForkGate::instance().leave();
    }

    void renew() override {
        new (&mutex_) std::mutex;
        new (&served_) std::condition_variable;
        next_ = held_by_this_thread() ? 1 : 0;
        serving_ = 0;
    }

private:
    std::mutex mutex_;
    std::condition_variable served_;
    std::uint64_t next_ = 0, serving_ = 0;
};

}  // namespace bomkl
