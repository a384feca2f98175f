// The score of a line of rows under one expansion, kept right while support rows come and go.
//
// Kernel values lie as lines, one for each support row, in columns: the order in which they were computed. The sum is made as
// weighted_sum makes it, place j of the list going to lane j mod 16, with the rows of the line side by side in each lane. Where
// the first of the list is dropped, all others move on by one place and so by one lane: the lanes stay as
// they are, under other numbers, but for the one that began with the dropped row. The lanes are added up in pairs that are half
// of them apart, which does not depend on the number with which one begins. So the rules that forget the oldest row sum one
// lane of sixteen anew; where any other row is dropped, all.
#pragma once

#include "budget/expansion.hpp"
#include "primitives/primitives.hpp"

namespace bomkl {

template <class T>
class LineSum {
public:
    // Kernel values of all places are there, in their order; there can be `most` columns.
    void begin(int places, int most) {
        columns_.count_to(places, most - places);
        summed_ = false;
        places_ = next_ = places;
        most_ = most;
    }
    // Whether there are columns left for all places of the list.
    bool has_room_for(int places) const { return places - places_ <= most_ - next_; }

    void coefs_changed() noexcept { summed_ = false; }
    // A place of the list was dropped. One that came since the last scores has no values yet.
    void dropped(int place) noexcept {
        if (place >= places_) return;
        --places_;
        columns_.erase(place);
        if (place > 0) return void(summed_ = false);
        stale_ |= 1u << first_lane_;
        first_lane_ = (first_lane_ + 1) % kLanes;
    }
    // Scores of the rows, but for the scale; map(slot, line) computes the values of a support row that came since.
    template <class Map>
    const T* scores(const Primitives<T>& primitives, const Expansion<T>& e, const T* values, Map&& map) {
        const int n = e.size(), had = places_;
        for (; places_ < n; ++places_) {
            map(e.slots[places_], next_);
            columns_.push_back(next_++);
        }
        const int* const lines = columns_.data();
        if (!summed_) {
            primitives.sum_line(e.coefs.data(), lines, n, values, lanes_);
            first_lane_ = 0;
        } else if (had == n && stale_ == 0) {
            return sums_;
        } else {
            for (int j = had; j < n; ++j)
                if (!(stale_ & 1u << lane_of(j))) extend(primitives, e, lines, values, j, j + 1);
            for (; stale_; stale_ &= stale_ - 1) {
                const int lane = __builtin_ctz(stale_);
                std::fill_n(lanes_ + lane * kLine<T>, kLine<T>, T(0));
                extend(primitives, e, lines, values, (lane - first_lane_ + kLanes) % kLanes, n);
            }
        }
        stale_ = 0;
        summed_ = true;
        primitives.add_lanes(lanes_, sums_);
        return sums_;
    }

private:
    int lane_of(int place) const { return (first_lane_ + place) % kLanes; }
    void extend(const Primitives<T>& primitives, const Expansion<T>& e, const int* lines, const T* values, int first, int n) {
        primitives.sum_lane(e.coefs.data(), lines, first, n, values, lanes_ + lane_of(first) * kLine<T>);
    }

    alignas(64) T lanes_[kLanes * kLine<T>];
    alignas(64) T sums_[kLine<T>];
    List<int> columns_;  // of every place that has values
    int places_ = 0, next_ = 0, most_ = 0;
    int first_lane_ = 0;  // of place 0
    unsigned stale_ = 0;  // lanes that lost their first place
    bool summed_ = false;
};

}  // namespace bomkl
