// Work shared out over threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace bomkl::automatic {

// work(i, scratch) for i from 0 to n - 1, on several threads where `operations` are many. What any throws, the caller gets.
template <class Scratch, class Work>
void share_out(std::size_t n, double operations, int threads, Work&& work) {
    constexpr double kFewOperations = 4e6;
    if (threads <= 1 || n <= 1 || operations < kFewOperations) {
        static thread_local Scratch scratch;
        for (std::size_t i = 0; i < n; ++i) work(i, scratch);
        return;
    }
    std::atomic<std::size_t> next = 0;
    std::atomic_flag failed;
    std::exception_ptr failure;
    const auto take = [&]() noexcept {
        try {
            Scratch scratch;
            for (std::size_t i; (i = next.fetch_add(1)) < n;) work(i, scratch);
        } catch (...) {
            next = n;
            if (!failed.test_and_set()) failure = std::current_exception();
        }
    };
    {
        std::vector<std::jthread> others;
        try {
            for (std::size_t i = 1; i < std::min(n, std::size_t(threads)); ++i) others.emplace_back(take);
        } catch (const std::system_error&) {  // no more threads to be had: those that are there do the work
        } catch (const std::bad_alloc&) {
        }
        take();
    }
    if (failure) std::rethrow_exception(failure);
}

}  // namespace bomkl::automatic
