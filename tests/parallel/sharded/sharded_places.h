// Where whole parameters live on one host, for tests that must hold wherever that is.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "tests/parallel/sharded/sharded_net.h"
#include "tests/support/ranks.h"

namespace accelerate::testing {

struct ShardedPlace {
  std::string name;
  Engine engine;
  FullParametersHome home;
};

inline void PrintTo(const ShardedPlace& place, std::ostream* out) {
  *out << place.name;
}

/// The parameter of INSTANTIATE_TEST_SUITE_P.
inline auto sharded_places() {
  return ::testing::Values(
      ShardedPlace{"Collective", Engine::gloo, FullParametersHome::gathered},
      ShardedPlace{"Windows", Engine::shared_memory, FullParametersHome::gathered},
      ShardedPlace{"Pages", Engine::shared_memory, FullParametersHome::shared_pages});
}

/// Every block is a unit.
inline FullyShardedDataParallelPlugin plugin_of(const ShardedPlace& place) {
  auto plugin = wrapping_blocks();
  plugin.full_parameters = place.home;
  return plugin;
}

inline void run_ranks_at(const ShardedPlace& place, int ranks,
                         const std::function<void(const std::shared_ptr<Communicator>&)>& body) {
  run_ranks_shared(ranks, body, {.engine = place.engine});
}

/// Names a test after its place.
inline constexpr auto kNameOfPlace = [](const auto& info) { return info.param.name; };

}  // namespace accelerate::testing
