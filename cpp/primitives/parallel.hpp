// Rows of a block shared out over threads. The work on a row does not depend on which thread does it.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace bomkl {

// work(begin, end) over 0 to n, in shares that are multiples of the register block; on one thread where `operations` are so
// few that starting another costs more. A thread takes the next share when it is done with one, because cores are not
// equally fast when others use them, too. The calling thread also calls pause() after each of its shares; shares are small
// enough for that to happen every few hundredths of a second. What any of them throws, the caller gets.
template <class Work, class Pause>
void in_parallel(int n, int n_threads, double operations, Work&& work, Pause&& pause) {
    constexpr int kRowsAtOnce = 6, kSharesPerThread = 4;
    constexpr double kFewOperations = 4e6, kOperationsPerPause = 2e8;
    n_threads = operations < kFewOperations ? 1 : std::min(n_threads, (n + kRowsAtOnce - 1) / kRowsAtOnce);
    const double least_shares = std::max(n_threads <= 1 ? 1.0 : n_threads * double(kSharesPerThread),
                                         std::min(double(n), operations / std::max(1, n_threads) / kOperationsPerPause));
    if (n_threads <= 1 && least_shares <= 1) return work(0, n);
    const int share = (int(n / least_shares) + kRowsAtOnce) / kRowsAtOnce * kRowsAtOnce;
    std::atomic<int> next = 0;
    std::atomic_flag failed;
    std::exception_ptr failure;
    const auto take_shares = [&](auto&& after_each) noexcept {
        try {
            for (int begin; (begin = next.fetch_add(share)) < n; after_each()) work(begin, std::min(n, begin + share));
        } catch (...) {
            next = n;  // nobody needs the other shares
            if (!failed.test_and_set()) failure = std::current_exception();
        }
    };
    {
        std::vector<std::jthread> threads;
        try {
            for (int i = 1; i < n_threads; ++i) threads.emplace_back(take_shares, [] {});
        } catch (const std::system_error&) {  // no more threads to be had: those that are there do the work
        } catch (const std::bad_alloc&) {
        }
        take_shares(pause);
    }
    if (failure) std::rethrow_exception(failure);
}

}  // namespace bomkl
