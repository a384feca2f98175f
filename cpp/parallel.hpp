// Rows of a block shared out over threads. The work on a row does not depend on which thread does it.
#pragma once

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace bomkl {

// work(begin, end) over 0 to n, in shares that are multiples of the register block; on one thread where `operations` are so
// few that starting another costs more. A thread takes the next share when it is done with one, because cores are not
// equally fast when others use them, too.
template <class Work>
void in_parallel(int n, int n_threads, double operations, Work&& work) {
    constexpr int kRowsAtOnce = 6, kSharesPerThread = 4;
    n_threads = operations < 4e6 ? 1 : std::min(n_threads, (n + kRowsAtOnce - 1) / kRowsAtOnce);
    if (n_threads <= 1) return work(0, n);
    const int share = (n / (n_threads * kSharesPerThread) + kRowsAtOnce) / kRowsAtOnce * kRowsAtOnce;
    std::atomic<int> next = 0;
    const auto take_shares = [&] {
        for (int begin; (begin = next.fetch_add(share)) < n;) work(begin, std::min(n, begin + share));
    };
    std::vector<std::jthread> threads;
    for (int i = 1; i < n_threads; ++i) threads.emplace_back(take_shares);
    take_shares();
}

}  // namespace bomkl
