// A loader that was made and not prepared gives every rank all samples.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/data/data_loader.h"
#include "tests/data/numbers.h"
#include "tests/support/log_capture.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::LogCapture;
using testing::numbers;
using testing::read_all;
using testing::run_ranks_shared;
using Group = std::shared_ptr<Communicator>;
using Lines = std::vector<std::string>;

LoaderContext loader_context_of(const Group& group, bool dispatches = false) {
  return {.rank = group->rank(),
          .world_size = group->size(),
          .config = {.dispatch_batches = dispatches},
          .communicator = group};
}

// A warning goes out once for each number of samples: every test has a number of its own.
TEST(UnpreparedLoader, WarnsOnceWhenAGroupIteratesIt) {
  const LogCapture log;
  run_ranks_shared(2, [](const Group&) {
    const auto batches = make_data_loader(numbers(4321), {.batch_size = 1000});
    for (int epoch = 0; epoch < 2; ++epoch) EXPECT_EQ(read_all(batches).size(), 4321U);
    EXPECT_EQ(read_all(skip_first_batches(batches, 1)).size(), 3321U);
  });
  const Lines lines = log.lines();
  ASSERT_EQ(lines.size(), 1U);
  for (const char* part : {"WARNING", "each of the 2 ranks", "4321 samples", "prepare()"})
    EXPECT_NE(lines[0].find(part), std::string::npos) << lines[0];
}

TEST(UnpreparedLoader, WarnsOfADatasetThatDoesNotKnowItsSizeToo) {
  const LogCapture log;
  struct Stream {
    int left = 4;
    std::optional<at::Tensor> next() {
      if (left-- > 0) return torch::ones({1});
      return std::nullopt;
    }
  };
  run_ranks_shared(2, [](const Group&) {
    for (auto& batch : make_data_loader(Stream{}, {.batch_size = 2})) EXPECT_EQ(batch.size(0), 2);
  });
  EXPECT_EQ(log.lines().size(), 1U);
}

TEST(UnpreparedLoader, IsInOrderWhereAProcessIsAlone) {
  const LogCapture log;
  EXPECT_EQ(read_all(make_data_loader(numbers(4322))).size(), 4322U);
  run_ranks_shared(1, [](const Group&) { (void)read_all(make_data_loader(numbers(4323))); });
  EXPECT_EQ(log.lines(), Lines());
}

TEST(PreparedLoader, IsInOrderInAGroupAlsoWhereItSkipsOrRankZeroReadsForAll) {
  const LogCapture log;
  run_ranks_shared(2, [](const Group& group) {
    const auto batches = make_data_loader(numbers(48), {.batch_size = 4});
    for (const bool dispatches : {false, true}) {
      const auto loader = prepare_data_loader(batches, loader_context_of(group, dispatches));
      EXPECT_EQ(read_all(loader).size(), 24U);
      EXPECT_EQ(read_all(skip_first_batches(loader, 2)).size(), 16U);
    }
  });
  EXPECT_EQ(log.lines(), Lines());
}

}  // namespace
}  // namespace accelerate
