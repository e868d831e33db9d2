// Dispatching loaders: what travels, what is padded, and how failures reach every rank.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <atomic>

#include "accelerate/data/data_loader.h"
#include "tests/data/numbers.h"
#include "tests/data/streams.h"
#include "tests/support/ranks.h"

namespace accelerate {

/// A batch of the user: what visit_tensors names travels.
struct Tokens {
  at::Tensor ids, mask;
};
void visit_tensors(Tokens& tokens, auto&& fn) {
  fn(tokens.ids);
  fn(tokens.mask);
}

/// Its names stand beside what visit_tensors names.
struct NamedIds {
  at::Tensor ids;
  std::vector<std::string> names;
};
void visit_tensors(NamedIds& named, auto&& fn) {
  fn(named.ids);
}

namespace {

using testing::Brittle;
using testing::CountingReader;
using testing::run_ranks_shared;
using testing::Values;
using testing::values_of;
using Group = std::shared_ptr<Communicator>;

LoaderContext context_of(const Group& group, bool split = false) {
  return {.rank = group->rank(),
          .world_size = group->size(),
          .config = {.split_batches = split, .dispatch_batches = true},
          .communicator = group};
}

TEST(Dispatcher, OnlyRankZeroReads) {
  std::atomic<int> elsewhere = 0;
  run_ranks_shared(3, [&](const Group& group) {
    struct Probe {
      std::atomic<int>* elsewhere;
      int rank;
      [[nodiscard]] std::size_t size() const { return 12; }
      [[nodiscard]] std::int64_t get(std::size_t index) const {
        if (rank != 0) ++*elsewhere;
        return static_cast<std::int64_t>(index);
      }
    };
    auto plain = make_data_loader(Probe{&elsewhere, group->rank()}, {.batch_size = 2});
    Values seen = testing::read_all(prepare_data_loader(plain, context_of(group)));
    EXPECT_EQ(seen.size(), 4U);
    EXPECT_EQ(seen[0], group->rank() * 2);
  });
  EXPECT_EQ(elsewhere, 0);
}

TEST(Dispatcher, DealsOutTheWordsOfAStruct) {
  struct Source {
    [[nodiscard]] std::size_t size() const { return 8; }
    [[nodiscard]] NamedIds get_batch(c10::ArrayRef<std::size_t> indices) const {
      NamedIds batch{torch::empty({0}, at::kLong), {}};
      for (const auto index : indices) {
        batch.ids = torch::cat({batch.ids, torch::tensor({static_cast<std::int64_t>(index)})});
        batch.names.push_back("sample " + std::to_string(index));
      }
      return batch;
    }
  };
  run_ranks_shared(2, [](const Group& group) {
    auto plain = make_data_loader(Source{}, {.batch_size = 2});
    std::size_t seen = 0;
    for (auto& batch : prepare_data_loader(plain, context_of(group))) {
      const Values ids = values_of(batch.ids);
      ASSERT_EQ(batch.names.size(), ids.size());
      for (const auto id : ids) EXPECT_EQ(batch.names[seen++ % 2], "sample " + std::to_string(id));
    }
    EXPECT_EQ(seen, 4U);
  });
}

TEST(Dispatcher, IsTheDefaultForIterableDatasetsOnly) {
  run_ranks_shared(2, [](const Group& group) {
    LoaderContext context = context_of(group);
    context.config.dispatch_batches = std::nullopt;
    EXPECT_TRUE(
        prepare_data_loader(make_data_loader(CountingReader{4}), context).dispatch_batches());
    EXPECT_FALSE(
        prepare_data_loader(make_data_loader(testing::numbers(4)), context).dispatch_batches());
  });
}

TEST(Dispatcher, CarriesNestedBatchesWithTextAndUserStructs) {
  run_ranks_shared(2, [](const Group& group) {
    using Named = std::map<std::string, std::tuple<at::Tensor, std::string>>;
    std::vector<Named> samples;
    for (int i = 0; i < 4; ++i) {
      samples.push_back({{"x", {torch::full({2}, i), "sample " + std::to_string(i)}}});
    }
    auto collate = [](std::vector<Named> some) {
      std::map<std::string, std::pair<at::Tensor, std::vector<std::string>>> batch;
      std::vector<at::Tensor> tensors;
      for (auto& named : some) {
        tensors.push_back(std::get<0>(named["x"]));
        batch["x"].second.push_back(std::get<1>(named["x"]));
      }
      batch["x"].first = torch::stack(tensors);
      return batch;
    };
    auto loader = prepare_data_loader(make_data_loader(samples, {.batch_size = 2}, collate),
                                      context_of(group));
    for (auto& batch : loader) {
      const auto& [tensor, texts] = batch["x"];
      const int first = group->rank() * 2;
      EXPECT_TRUE(at::equal(tensor, torch::tensor({{first, first}, {first + 1, first + 1}})));
      EXPECT_EQ(texts, (std::vector<std::string>{"sample " + std::to_string(first),
                                                 "sample " + std::to_string(first + 1)}));
    }
    auto tokens = [](const std::vector<std::int64_t>& some) {
      return Tokens{torch::tensor(some), torch::tensor(some) > 1};
    };
    for (auto& batch : prepare_data_loader(
             make_data_loader(CountingReader{4}, {.batch_size = 2}, tokens), context_of(group))) {
      EXPECT_EQ(values_of(batch.ids), (Values{group->rank() * 2, group->rank() * 2 + 1}));
      EXPECT_EQ(batch.mask.scalar_type(), at::kBool);
    }
  });
}

// Sample i is a sequence of i + 1 times i.
DataLoader<at::Tensor> ragged(std::int64_t count, std::int64_t batch_size) {
  auto collate = [](const std::vector<std::int64_t>& some) {
    std::int64_t longest = 0;
    for (auto i : some) longest = std::max(longest, i + 1);
    at::Tensor batch = torch::full({static_cast<std::int64_t>(some.size()), longest}, -1L);
    for (std::size_t row = 0; row < some.size(); ++row) {
      batch[static_cast<std::int64_t>(row)].narrow(0, 0, some[row] + 1).fill_(some[row]);
    }
    return batch;
  };
  return make_data_loader(CountingReader{count}, {.batch_size = batch_size}, collate);
}

TEST(Dispatcher, PadsRaggedBatchesByThePadFunctionAlsoWhereTheyAreFilledUp) {
  run_ranks_shared(2, [](const Group& group) {
    std::vector<std::vector<std::int64_t>> shapes;
    auto loader =
        prepare_data_loader(ragged(5, 2), context_of(group), {.pad_fn = PadToLongest{1, -1}});
    Values firsts;
    for (auto& batch : loader) {
      shapes.push_back(batch.sizes().vec());
      firsts.push_back(batch[0][0].item<std::int64_t>());
    }
    EXPECT_EQ(shapes, (std::vector<std::vector<std::int64_t>>{{2, 4}, {1, 5}}));
    EXPECT_EQ(firsts, group->rank() == 0 ? (Values{0, 4}) : (Values{2, 0}));
  });
}

TEST(Dispatcher, RaggedBatchesWithoutAPadFunctionAreAnErrorOnEveryRankWithTheCure) {
  run_ranks_shared(3, [](const Group& group) {
    auto loader = prepare_data_loader(ragged(6, 1), context_of(group));
    try {
      static_cast<void>(loader.begin());
      FAIL() << "nothing was thrown";
    } catch (const DataError& error) {
      EXPECT_NE(describe(error).find("pad_fn"), std::string::npos) << describe(error);
      EXPECT_NE(describe(error).find("[1, 2]"), std::string::npos) << describe(error);
    }
  });
}

TEST(Dispatcher, CutsByTheSliceFunction) {
  run_ranks_shared(2, [](const Group& group) {
    // Every second row instead of consecutive ones.
    auto slice = [](const at::Tensor& batch, const DispatchSlice& part) {
      return batch.slice(0, part.process_index, batch.size(0), part.num_processes).contiguous();
    };
    auto loader = prepare_data_loader(make_data_loader(CountingReader{8}, {.batch_size = 2}),
                                      context_of(group), {.slice_fn = slice});
    const int rank = group->rank();
    EXPECT_EQ(testing::read_all(loader), (Values{rank, rank + 2, rank + 4, rank + 6}));
  });
}

TEST(Dispatcher, ErrorOfTheDatasetReachesEveryRankInItsTurn) {
  for (int workers : {0, 2}) {
    run_ranks_shared(3, [&](const Group& group) {
      auto loader = prepare_data_loader(make_data_loader(Brittle{.count = 20, .broken = {7}},
                                                         {.batch_size = 2, .num_workers = workers}),
                                        context_of(group));
      std::size_t batches = 0;
      try {
        for (auto& batch : loader) batches += batch.defined() ? 1 : 0;
        ADD_FAILURE() << "nothing was thrown";
      } catch (const DataError& error) {
        EXPECT_NE(describe(error).find("sample 7 "), std::string::npos) << describe(error);
        EXPECT_NE(describe(error).find("bad JPEG"), std::string::npos) << describe(error);
      }
      EXPECT_EQ(batches, 1U);
      group->barrier();  // Everybody is here, and nothing is left over.
    });
  }
}

TEST(Dispatcher, WhatCannotBeReadOrDealtIsAnErrorOnEveryRank) {
  const std::vector<std::pair<std::function<at::Tensor()>, std::string>> cases{
      {[]() -> at::Tensor { throw 7; }, "not a std::exception"},
      {[] { return torch::tensor(1.0); }, "no tensor with rows"},
      {[] { return at::Tensor(); }, "no tensor with rows"}};
  for (const auto& [make, expected] : cases) {
    run_ranks_shared(2, [&, &make = make, &expected = expected](const Group& group) {
      auto collate = [&make](const std::vector<std::int64_t>&) { return make(); };
      auto loader =
          prepare_data_loader(make_data_loader(CountingReader{4}, {}, collate), context_of(group));
      try {
        static_cast<void>(loader.begin());
        ADD_FAILURE() << "nothing was thrown: " << expected;
      } catch (const DataError& error) {
        if (group->rank() > 0 || expected != "not a std::exception") {
          EXPECT_NE(describe(error).find(expected), std::string::npos) << describe(error);
        }
      }
    });
  }
}

TEST(Dispatcher, ColumnsOfUnequalLengthAreAnErrorOnEveryRank) {
  run_ranks_shared(2, [](const Group& group) {
    auto collate = [](const std::vector<std::int64_t>& some) {
      return std::pair(torch::tensor(some), torch::zeros({3}));
    };
    auto loader = prepare_data_loader(
        make_data_loader(CountingReader{4}, {.batch_size = 2}, collate), context_of(group));
    EXPECT_THROW(static_cast<void>(loader.begin()), DataError);
  });
}

TEST(Dispatcher, EmptyDatasetsAndSingleSamplesEndOnAllRanks) {
  for (std::int64_t count : {0, 1, 2}) {
    run_ranks_shared(4, [&](const Group& group) {
      auto loader = prepare_data_loader(make_data_loader(CountingReader{count}, {.batch_size = 3}),
                                        context_of(group));
      const Values seen = testing::read_all(loader);
      EXPECT_EQ(seen.size(), count == 0 ? 0U : 1U);  // Repeated where there are too few.
      EXPECT_EQ(loader.epoch(), 1);
    });
  }
}

// A collate function may drop what it does not like.
TEST(Dispatcher, StepsWithoutRowsArePassedOnAndNotUsedToFillUp) {
  run_ranks_shared(2, [](const Group& group) {
    auto from_four = [](const std::vector<std::int64_t>& some) {
      const at::Tensor all = torch::tensor(some);
      return all.masked_select(all >= 4);
    };
    auto loader = prepare_data_loader(
        make_data_loader(CountingReader{7}, {.batch_size = 2}, from_four), context_of(group));
    std::vector<Values> seen;
    for (auto& batch : loader) seen.push_back(values_of(batch));
    const Values last = group->rank() == 0 ? Values{4, 5} : Values{6, 4};
    EXPECT_EQ(seen, (std::vector<Values>{{}, last}));
  });
}

TEST(Dispatcher, BatchesWithOtherKeysAreAnErrorOnEveryRank) {
  run_ranks_shared(2, [](const Group& group) {
    auto named = [](const std::vector<std::int64_t>& some) {
      const std::string name = some[0] < 2 ? "ids" : "mask";
      return std::map<std::string, at::Tensor>{{name, torch::tensor(some)}};
    };
    auto loader = prepare_data_loader(make_data_loader(CountingReader{4}, {.batch_size = 2}, named),
                                      context_of(group));
    try {
      static_cast<void>(loader.begin());
      ADD_FAILURE() << "nothing was thrown";
    } catch (const DataError& error) {
      EXPECT_NE(describe(error).find("keys"), std::string::npos) << describe(error);
    }
  });
}

TEST(Dispatcher, ResumesInTheMiddleOfAnEpoch) {
  for (bool iterable : {false, true}) {
    run_ranks_shared(2, [&](const Group& group) {
      const auto make = [&] {
        const DataLoaderOptions options{.batch_size = 2};
        return prepare_data_loader(iterable ? make_data_loader(CountingReader{11}, options)
                                            : make_data_loader(testing::numbers(11), options),
                                   context_of(group));
      };
      auto whole = make(), resumed = make();
      const Values all = testing::read_all(whole);
      resumed.load_state_dict(
          {.batches = 1, .total_batch_size = 4, .dataset_length = iterable ? -1 : 11});
      EXPECT_EQ(testing::read_all(resumed), Values(all.begin() + 2, all.end()));
    });
  }
}

TEST(Dispatcher, SaysWhatIsMissing) {
  struct Opaque {
    explicit Opaque(int) {}
  };
  auto opaque = make_data_loader(CountingReader{4}, {},
                                 [](const std::vector<std::int64_t>&) { return Opaque(1); });
  EXPECT_THROW(static_cast<void>(prepare_data_loader(
                   opaque, {.world_size = 2, .communicator = single_communicator()})),
               UsageError);
  EXPECT_THROW(static_cast<void>(
                   prepare_data_loader(make_data_loader(CountingReader{4}), {.world_size = 2})),
               UsageError);
}

}  // namespace
}  // namespace accelerate
