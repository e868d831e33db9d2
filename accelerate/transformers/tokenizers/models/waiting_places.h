// The places of a word at which one merge may apply.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace accelerate::detail {

/// A queue of places, leftmost first. Nearly all places come from left to right before the first one
/// is taken, so they lie in a list that is sorted once. A place that comes out of order later goes
/// into a heap. Cost: n·log n comparisons for n places, whatever their order.
template <typename Place>
class WaitingPlaces {
 public:
  void add(Place place) {
    const bool is_behind = listed_.empty() || !(place < listed_.back());
    if (is_behind || !has_begun_) {
      is_sorted_ = is_sorted_ && is_behind;
      listed_.push_back(place);
    } else {
      late_.push_back(place);
      std::push_heap(late_.begin(), late_.end(), std::greater<>());
    }
  }

  /// Returns the leftmost place, and takes it out; nullopt if no place is left.
  std::optional<Place> take() {
    if (!has_begun_ && !is_sorted_) std::sort(listed_.begin(), listed_.end());
    has_begun_ = true;
    const bool is_listed = taken_ < listed_.size();
    if (late_.empty() || (is_listed && !(late_.front() < listed_[taken_]))) {
      return is_listed ? std::optional(listed_[taken_++]) : std::nullopt;
    }
    std::pop_heap(late_.begin(), late_.end(), std::greater<>());
    const Place place = late_.back();
    late_.pop_back();
    return place;
  }

 private:
  std::vector<Place> listed_, late_;
  std::size_t taken_ = 0;  // of listed_
  bool is_sorted_ = true, has_begun_ = false;
};

}  // namespace accelerate::detail
