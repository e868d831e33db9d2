#include "accelerate/formats/shards/deepspeed_layout.h"

#include <algorithm>

#include "accelerate/base/text.h"

namespace accelerate::detail {
namespace {

std::int64_t rounded_up(std::int64_t number, std::int64_t multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

}  // namespace

std::int64_t DeepSpeedLayout::share_of(const NamedShape& parameter) const {
  const auto count = static_cast<std::int64_t>(ranks);
  return (parameter.numel + count - 1) / count;
}

std::int64_t DeepSpeedLayout::padding(std::size_t group, std::size_t parameter) const {
  return paddings.empty() ? 0 : paddings[group][parameter];
}

// Returns the elements that a group takes, in stage 3 on each rank. Sizes are limited to 2^59 each
// (see named_shapes), so a sum beyond 2^62 ends early.
std::int64_t DeepSpeedLayout::needed(std::size_t group) const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < groups[group].size() && sum < std::int64_t{1} << 60; ++i)
    sum += stage == 3 ? share_of(groups[group][i]) : groups[group][i].numel + padding(group, i);
  return sum;
}

void DeepSpeedLayout::check(const FlatOf& flat_of) const {
  const auto align = static_cast<std::int64_t>(2 * ranks);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::int64_t wanted = needed(g);
    std::int64_t held = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      const auto value = flat_of(r, g).value();
      const std::int64_t here = value.flat().shape.front();
      held += here;
      if (stage == 3 && here != wanted)
        value.refuse("has " + std::to_string(here) + " elements; its " +
                     count_of(groups[g].size(), "parameter") + " in param_shapes take " +
                     std::to_string(wanted) + " on each of " + count_of(ranks, "rank"));
    }
    if (stage == 3 || rounded_up(held, align) == rounded_up(wanted, align)) continue;
    flat_of(0, g).value().refuse("has " + std::to_string(held) + " elements on all " +
                                 count_of(ranks, "rank") + "; its " +
                                 count_of(groups[g].size(), "parameter") +
                                 " in param_shapes take " + std::to_string(wanted));
  }
}

std::vector<FoundPart> DeepSpeedLayout::parts(
    const FlatOf& flat_of, const std::function<std::string(const std::string&)>& name_of,
    std::size_t first_file) const {
  std::vector<FoundPart> all;
  for (std::size_t g = 0; stage != 3 && g < groups.size(); ++g) {
    FlatElements flat;
    for (std::size_t r = 0; r < ranks; ++r)
      if (const auto held = flat_of(r, g)) flat.add(held->flat(), first_file + r);
    std::int64_t at = 0;
    for (std::size_t i = 0; i < groups[g].size(); ++i) {
      const NamedShape& one = groups[g][i];
      flat.find({name_of(one.name), one.shape, 0, one.numel}, at, all);
      at += one.numel + padding(g, i);
    }
  }
  for (std::size_t r = 0; stage == 3 && r < ranks; ++r) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      FlatElements flat;
      if (const auto held = flat_of(r, g)) flat.add(held->flat(), first_file + r);
      std::int64_t at = 0;
      for (const NamedShape& one : groups[g]) {
        const std::int64_t share = share_of(one);
        const std::int64_t begin = std::min(one.numel, static_cast<std::int64_t>(r) * share);
        const std::int64_t numel = std::min(share, one.numel - begin);
        flat.find({name_of(one.name), one.shape, begin, numel}, at, all);
        at += share;
      }
    }
  }
  return all;
}

}  // namespace accelerate::detail
