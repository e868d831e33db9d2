// Loaders against Accelerate's own: the same batches on every rank, for two epochs.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "accelerate/data/data_loader.h"
#include "tests/data/reference.h"

namespace accelerate {
namespace {

using testing::Row;
using testing::text_of;

/// Its samples are their own indices.
struct Numbers {
  std::size_t count;
  [[nodiscard]] std::size_t size() const { return count; }
  [[nodiscard]] std::int64_t get(std::size_t index) const {
    return static_cast<std::int64_t>(index);
  }
};

Indices indices_of(const at::Tensor& batch) {
  const auto* data = batch.const_data_ptr<std::int64_t>();
  return {data, data + batch.numel()};
}

struct Iterated {
  BatchList batches;
  std::string remainder = "none";
  bool end_only_at_last = true;
};

Iterated iterate(const PreparedLoader<at::Tensor>& loader, const GradientState& state) {
  Iterated seen;
  const std::size_t count = loader.size();
  for (auto& batch : loader) {
    seen.batches.push_back(indices_of(batch));
    seen.remainder = std::to_string(state.remainder());
    seen.end_only_at_last &= state.end_of_dataloader() == (seen.batches.size() == count);
  }
  seen.end_only_at_last &= seen.batches.size() == count && !state.in_dataloader();
  return seen;
}

struct Case {
  std::size_t samples;
  DataLoaderOptions options;
  int ranks = 1;
  DataLoaderConfiguration config = {};
};

struct Observed {
  std::vector<std::string> lengths, counts, remainders, texts;
  std::int64_t total_batch_size = 0;
  bool ends_are_right = true;
};

void observe_rank(const Case& c, int rank, Observed& all) {
  auto state = std::make_shared<GradientState>();
  auto loader = prepare_data_loader(
      make_data_loader(Numbers{c.samples}, c.options),
      {.rank = rank, .world_size = c.ranks, .config = c.config, .gradient_state = state});
  all.lengths.push_back(std::to_string(loader.size()));
  all.total_batch_size = loader.total_batch_size();
  const Iterated first = iterate(loader, *state);
  const Iterated second = iterate(loader, *state);
  all.ends_are_right &= first.end_only_at_last && second.end_only_at_last;
  all.counts.push_back(std::to_string(first.batches.size()));
  all.remainders.push_back(first.remainder);
  all.texts.push_back(text_of(first.batches) + "/" + text_of(second.batches));
}

Observed observe(const Case& c) {
  Observed all;
  for (int rank = 0; rank < c.ranks; ++rank) observe_rank(c, rank, all);
  return all;
}

Case case_of(const Row& row, std::uint64_t seed) {
  return {
      .samples = static_cast<std::size_t>(row.number(0)),
      .options = {.batch_size = row.number(1), .shuffle = row.flag(6), .drop_last = row.flag(5)},
      .ranks = static_cast<int>(row.number(2)),
      .config = {.split_batches = row.flag(3), .even_batches = row.flag(4), .data_seed = seed}};
}

// size batch_size ranks split even drop shuffle | len of each rank | batches of each rank | total
// batch size | remainder of each rank | hash. Every third row reads ahead with two threads.
TEST(PreparedLoader, EqualsPythonOverTheWholeGrid) {
  const std::uint64_t seed = testing::reference_seed("loader.txt");
  std::size_t rows = 0, refused = 0;
  for (const std::string& line : testing::reference_rows("loader.txt")) {
    const Row row(line);
    Case c = case_of(row, seed);
    c.options.num_workers = ++rows % 3 == 0 ? 2 : 0;
    if (row.text(7) == "refused") {
      EXPECT_THROW(observe(c), ConfigError) << line;
      ++refused;
      continue;
    }
    const Observed seen = observe(c);
    EXPECT_EQ(join(seen.counts, ","), row.text(8)) << line;
    EXPECT_EQ(seen.total_batch_size, row.number(9)) << line;
    EXPECT_EQ(join(seen.remainders, ","), row.text(10)) << line;
    EXPECT_EQ(testing::fnv1a(join(seen.texts, "|")), row.text(11)) << line;
    EXPECT_TRUE(seen.ends_are_right) << line;
    EXPECT_EQ(seen.lengths, seen.counts) << line;
    if (!c.config.split_batches || c.config.even_batches) {
      EXPECT_EQ(join(seen.lengths, ","), row.text(7)) << line;
    }
  }
  EXPECT_EQ(rows, 5640U);
  EXPECT_GT(refused, 0U);
}

// size case remainder [batches of rank 0|rank 1], batch size 4.
TEST(PreparedLoader, EqualsPythonOnTwoRanks) {
  std::size_t rows = 0;
  for (const std::string& line : testing::reference_rows("loader_two_ranks.txt")) {
    const Row row(line);
    const std::string& name = row.text(1);
    const Observed seen = observe({.samples = static_cast<std::size_t>(row.number(0)),
                                   .options = {.batch_size = 4, .drop_last = name == "drop_last"},
                                   .ranks = 2,
                                   .config = {.split_batches = name == "split_batches",
                                              .even_batches = name != "even_batches=false"}});
    std::vector<std::string> epochs;
    for (const std::string& text : seen.texts) epochs.push_back(text.substr(0, text.find('/')));
    EXPECT_EQ(join(epochs, "|"), row.bracketed(3)) << line;
    EXPECT_EQ(seen.remainders.front(), row.text(2)) << line;
    ++rows;
  }
  EXPECT_EQ(rows, 20U);
}

}  // namespace
}  // namespace accelerate
