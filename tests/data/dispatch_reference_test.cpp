// Dispatching loaders against two processes of Python Accelerate.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <array>

#include "accelerate/data/data_loader.h"
#include "tests/data/reference.h"
#include "tests/data/streams.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::reference_rows;
using testing::Row;
using testing::text_of;

struct Dispatched {
  std::string text;
  std::string remainder = "none";
  bool ends_right = true;
};

DataLoader<at::Tensor> loader_of(const Row& row, int workers) {
  const DataLoaderOptions options{
      .batch_size = row.number(2), .drop_last = row.flag(4), .num_workers = workers};
  if (row.text(0) == "map") return make_data_loader(torch::arange(row.number(1)), options);
  return make_data_loader(testing::CountingReader{row.number(1)}, options);
}

Dispatched observe(const Row& row, const std::shared_ptr<Communicator>& communicator, int workers) {
  auto state = std::make_shared<GradientState>();
  auto loader = prepare_data_loader(
      loader_of(row, workers), {.rank = communicator->rank(),
                                .world_size = 2,
                                .config = {.split_batches = row.flag(3), .dispatch_batches = true},
                                .gradient_state = state,
                                .communicator = communicator});
  Dispatched seen;
  BatchList batches;
  std::vector<bool> ends;
  for (auto& batch : skip_first_batches(loader, row.number(5))) {
    const auto* data = batch.const_data_ptr<std::int64_t>();
    batches.emplace_back(data, data + batch.numel());
    ends.push_back(state->end_of_dataloader());
    seen.remainder = std::to_string(state->remainder());
  }
  for (std::size_t i = 0; i < ends.size(); ++i)
    seen.ends_right &= ends[i] == (i + 1 == ends.size());
  seen.text = text_of(batches);
  return seen;
}

// kind size batch_size split drop skipped remainder hash text-or-dash. Every third row reads ahead.
TEST(Dispatcher, EqualsPythonOnTwoRanks) {
  const auto lines = reference_rows("dispatcher.txt");
  std::vector<std::array<Dispatched, 2>> seen(lines.size());
  testing::run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& communicator) {
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const Row row(lines[i]);
      if (row.text(6) == "refused") continue;
      seen[i][static_cast<std::size_t>(communicator->rank())] =
          observe(row, communicator, i % 3 == 0 ? 2 : 0);
    }
  });
  std::size_t refused = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Row row(lines[i]);
    const auto& [first, second] = seen[i];
    if (row.text(6) == "refused") {
      EXPECT_THROW(observe(row, single_communicator(), 0), ConfigError) << lines[i];
      ++refused;
      continue;
    }
    if (row.text(6) == "nothing") {
      EXPECT_EQ(first.text + second.text, "") << lines[i];
      continue;
    }
    EXPECT_EQ(first.remainder, row.text(6)) << lines[i];
    EXPECT_EQ(second.remainder, row.text(6)) << lines[i];
    EXPECT_EQ(testing::fnv1a(first.text + "|" + second.text), row.text(7))
        << lines[i] << "\n"
        << first.text << "|" << second.text;
    EXPECT_TRUE(first.ends_right && second.ends_right) << lines[i];
  }
  EXPECT_EQ(lines.size(), 992U);
  EXPECT_GT(refused, 0U);
}

}  // namespace
}  // namespace accelerate
