// Loaders over iterable datasets, skipping and generator-drawn orders against Accelerate's own.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "accelerate/data/data_loader.h"
#include "tests/data/reference.h"
#include "tests/data/streams.h"

namespace accelerate {
namespace {

using testing::reference_rows;
using testing::Row;
using testing::text_of;

std::string pass(const PreparedLoader<at::Tensor>& loader) {
  BatchList batches;
  for (auto& batch : loader) {
    const auto* data = batch.const_data_ptr<std::int64_t>();
    batches.emplace_back(data, data + batch.numel());
  }
  return text_of(batches);
}

std::string passes(const PreparedLoader<at::Tensor>& loader, int count) {
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) texts.push_back(pass(loader));
  return join(texts, "/");
}

PreparedLoader<at::Tensor> share(const DataLoader<at::Tensor>& plain, int ranks, int rank,
                                 bool split = false, bool seedable = true) {
  return prepare_data_loader(plain, {.rank = rank,
                                     .world_size = ranks,
                                     .config = {.split_batches = split,
                                                .dispatch_batches = false,
                                                .use_seedable_sampler = seedable}});
}

DataLoader<at::Tensor> stream_of(const std::string& kind, std::int64_t size,
                                 const DataLoaderOptions& options) {
  if (kind == "epochs") return make_data_loader(testing::EpochRange(size), options);
  if (kind == "drawn") return make_data_loader(testing::DrawnReader(size), options);
  return make_data_loader(testing::CountingReader{size}, options);
}

// kind size batch_size ranks split drop hash-of-two-epochs first-epoch-or-dash. Every third row
// reads ahead.
TEST(IterableShard, EqualsPythonOverTheWholeGrid) {
  std::size_t rows = 0, refused = 0;
  for (const std::string& line : reference_rows("iterable.txt")) {
    const Row row(line);
    const int ranks = static_cast<int>(row.number(3));
    const DataLoaderOptions options{.batch_size = row.number(2),
                                    .drop_last = row.flag(5),
                                    .num_workers = ++rows % 3 == 0 ? 2 : 0};
    if (row.text(6) == "refused") {
      EXPECT_THROW(share(stream_of(row.text(0), row.number(1), options), ranks, 0, true),
                   ConfigError)
          << line;
      ++refused;
      continue;
    }
    std::vector<std::string> texts;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto plain = stream_of(row.text(0), row.number(1), options);
      texts.push_back(passes(share(plain, ranks, rank, row.flag(4)), 2));
    }
    EXPECT_EQ(testing::fnv1a(join(texts, "|")), row.text(6)) << line << "\n" << texts[0];
  }
  EXPECT_EQ(rows, 3780U);
  EXPECT_GT(refused, 0U);
}

// kind size batch_size ranks skipped [batches of each rank].
TEST(SkipFirstBatches, LeavesWhatPythonLeaves) {
  std::size_t rows = 0;
  for (const std::string& line : reference_rows("skip.txt")) {
    const Row row(line);
    const int ranks = static_cast<int>(row.number(3));
    std::vector<std::string> texts;
    for (int rank = 0; rank < ranks; ++rank) {
      const DataLoaderOptions options{.batch_size = row.number(2)};
      const auto plain = row.text(0) == "map"
                             ? make_data_loader(torch::arange(row.number(1)), options)
                             : stream_of("epochs", row.number(1), options);
      texts.push_back(pass(skip_first_batches(share(plain, ranks, rank), row.number(4))));
    }
    EXPECT_EQ(join(texts, "|"), row.bracketed(5)) << line;
    ++rows;
  }
  EXPECT_EQ(rows, 360U);
}

// size batch_size ranks seed hash-of-four-epochs.
TEST(RandomSampler, DrawsTheOrdersOfPythonsGenerator) {
  std::size_t rows = 0;
  for (const std::string& line : reference_rows("random_sampler.txt")) {
    const Row row(line);
    const int ranks = static_cast<int>(row.number(2));
    std::vector<std::string> texts;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto plain = make_data_loader(torch::arange(row.number(0)),
                                          {.batch_size = row.number(1),
                                           .shuffle = true,
                                           .data_seed = static_cast<std::uint64_t>(row.number(3))});
      texts.push_back(passes(share(plain, ranks, rank, false, false), 4));
    }
    EXPECT_EQ(testing::fnv1a(join(texts, "|")), row.text(4)) << line << "\n" << texts[0];
    ++rows;
  }
  EXPECT_EQ(rows, 40U);
}

}  // namespace
}  // namespace accelerate
