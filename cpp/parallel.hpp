// Rows of a block shared out over threads. The work on a row does not depend on which thread does it.
#pragma once

#include <algorithm>
#include <thread>
#include <vector>

namespace bomkl {

// work(begin, end) over 0 to n, in shares that are multiples of the register block; on one thread where `operations` are so
// few that starting another costs more.
template <class Work>
void in_parallel(int n, int n_threads, double operations, Work&& work) {
    constexpr int kRowsAtOnce = 6;
    n_threads = operations < 4e6 ? 1 : std::min(n_threads, (n + kRowsAtOnce - 1) / kRowsAtOnce);
    if (n_threads <= 1) return work(0, n);
    const int share = (n / n_threads + kRowsAtOnce - 1) / kRowsAtOnce * kRowsAtOnce;
    std::vector<std::thread> threads;
    for (int i = 1; i < n_threads; ++i) {
        const int begin = std::min(n, i * share), end = i + 1 == n_threads ? n : std::min(n, (i + 1) * share);
        threads.emplace_back([&work, begin, end] { work(begin, end); });
    }
    work(0, std::min(n, share));
    for (auto& thread : threads) thread.join();
}

}  // namespace bomkl
