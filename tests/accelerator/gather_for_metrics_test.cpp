// gather_for_metrics: every sample exactly once, in every combination of dataset, sharing, options
// and ranks. The cases follow upstream's test_metrics.py, which counts 82, 97 and 99 samples.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "accelerate/comm/objects.h"
#include "tests/data/numbers.h"
#include "tests/data/streams.h"
#include "tests/support/pairwise.h"
#include "tests/support/ranks.h"

namespace accelerate {

/// What a model of the user gives for a batch: visit_tensors names the tensors alone.
struct Answers {
  at::Tensor numbers;
  std::vector<std::string> names;
  std::map<std::string, std::vector<double>> scores;
  std::string split;
};
void visit_tensors(Answers& answers, auto&& fn) {
  fn(answers.numbers);
}

/// The compiler cannot see what is in it.
class Hidden {
 public:
  explicit Hidden(at::Tensor numbers = {}) : numbers_(std::move(numbers)) {}
  friend void visit_tensors(Hidden& hidden, auto&& fn) { fn(hidden.numbers_); }
  [[nodiscard]] const at::Tensor& numbers() const { return numbers_; }

 private:
  at::Tensor numbers_;
};
template <>
inline constexpr bool kOnlyTensorsTravel<Hidden> = true;

/// Of a bit-field there is no reference.
struct Flagged {
  at::Tensor numbers;
  unsigned is_last : 1 = 0;
};
void visit_tensors(Flagged& flagged, auto&& fn) {
  fn(flagged.numbers);
}
template <>
inline constexpr bool kOnlyTensorsTravel<Flagged> = true;

namespace {

using testing::counting;
using testing::run_ranks_shared;
using testing::Values;
using testing::values_of;

struct Case {
  std::int64_t samples = 0;
  std::int64_t batch_size = 1;
  bool iterable = false;
  bool split = false, dispatch = false, even = true, drop_last = false;
  int workers = 0;

  [[nodiscard]] std::string text() const {
    return std::to_string(samples) + " samples, batch " + std::to_string(batch_size) +
           (iterable ? ", iterable" : ", map") + (split ? ", split" : "") +
           (dispatch ? ", dispatch" : "") + (even ? ", even" : ", uneven") +
           (drop_last ? ", drop_last" : "") + ", workers " + std::to_string(workers);
  }
  [[nodiscard]] std::int64_t expected(int ranks) const {
    const std::int64_t step = split ? batch_size : batch_size * ranks;
    return drop_last ? samples / step * step : samples;
  }
};

Accelerator accelerator_of(const Case& c, const std::shared_ptr<Communicator>& communicator) {
  return Accelerator({.dataloader_config = {.split_batches = c.split,
                                            .dispatch_batches = c.dispatch,
                                            .even_batches = c.even},
                      .communicator = communicator});
}

DataLoader<at::Tensor> loader_of(const Case& c) {
  const DataLoaderOptions options{
      .batch_size = c.batch_size, .drop_last = c.drop_last, .num_workers = c.workers};
  if (c.iterable) return make_data_loader(testing::CountingReader{c.samples}, options);
  return make_data_loader(torch::arange(c.samples), options);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (std::int64_t samples : {0, 1, 2, 3, 5, 8, 13, 30}) {
    for (std::int64_t batch_size : {1, 2, 4, 12}) {
      for (int bits = 0; bits < 32; ++bits) {
        all.push_back({.samples = samples,
                       .batch_size = batch_size,
                       .iterable = (bits & 1) != 0,
                       .split = (bits & 2) != 0,
                       .dispatch = (bits & 4) != 0,
                       .even = (bits & 8) == 0,
                       .drop_last = (bits & 16) != 0,
                       .workers = bits % 3 == 0 ? 1 : 0});
      }
    }
  }
  return all;
}

class MetricsOnRanks : public ::testing::TestWithParam<int> {};

// Rank 0 has a batch in every step, so it sees all samples; with even batches every rank does.
TEST_P(MetricsOnRanks, EverySampleComesOnceInTheOrderOfTheLoader) {
  const int ranks = GetParam();
  std::size_t tried = 0;
  run_ranks_shared(ranks, [&](const std::shared_ptr<Communicator>& communicator) {
    for (const Case& c : cases()) {
      if (c.split && c.batch_size % ranks != 0) continue;
      Accelerator accelerator = accelerator_of(c, communicator);
      auto loader = accelerator.prepare(loader_of(c));
      Values all;
      for (auto& batch : loader) {
        const Values some = values_of(accelerator.gather_for_metrics(batch));
        all.insert(all.end(), some.begin(), some.end());
      }
      accelerator.wait_for_everyone();
      if (communicator->rank() == 0) ++tried;
      if (communicator->rank() == 0 || c.even || c.dispatch) {
        EXPECT_EQ(all, counting(c.expected(ranks)))
            << c.text() << ", rank " << communicator->rank();
      }
    }
  });
  EXPECT_GT(tried, 500U);
}
INSTANTIATE_TEST_SUITE_P(Ranks, MetricsOnRanks, ::testing::Range(1, testing::extended() ? 5 : 4));

// upstream: test_torch_metrics, with its numbers.
TEST(GatherForMetrics, CountsTheSamplesThatUpstreamsTestsCount) {
  for (int ranks : {1, 2, 3, 4}) {
    run_ranks_shared(ranks, [&](const std::shared_ptr<Communicator>& communicator) {
      for (std::int64_t samples : {82, 97, 99}) {
        for (int bits = 0; bits < 4; ++bits) {
          const Case c{.samples = samples,
                       .batch_size = 12,
                       .split = (bits & 1) != 0,
                       .dispatch = (bits & 2) != 0};
          Accelerator accelerator = accelerator_of(c, communicator);
          auto loader = accelerator.prepare(loader_of(c));
          std::int64_t count = 0;
          for (auto& batch : loader) count += accelerator.gather_for_metrics(batch).size(0);
          EXPECT_EQ(count, samples) << c.text();
        }
      }
    });
  }
}

// upstream: test_mrpc, with a classifier that is right 70 times of 99: repeats would count twice.
TEST(GatherForMetrics, AccuracyOnAnyNumberOfRanksIsThatOfOneProcess) {
  const at::Tensor x = torch::arange(99), label = (x % 10 < 7).to(at::kLong);
  for (int ranks : {1, 2, 3, 4}) {
    run_ranks_shared(ranks, [&](const std::shared_ptr<Communicator>& communicator) {
      for (int bits = 0; bits < 4; ++bits) {
        const Case c{.split = (bits & 1) != 0, .dispatch = (bits & 2) != 0};
        Accelerator accelerator = accelerator_of(c, communicator);
        auto loader = accelerator.prepare(
            make_data_loader(std::tuple(x, label), {.batch_size = 12, .shuffle = true}));
        std::int64_t right = 0, count = 0;
        for (auto& [samples, labels] : loader) {
          const auto [predicted, truth] =
              accelerator.gather_for_metrics(std::tuple(torch::ones_like(samples), labels));
          right += predicted.eq(truth).sum().item<std::int64_t>();
          count += truth.numel();
        }
        EXPECT_EQ(count, 99) << c.text();
        EXPECT_EQ(right, 70) << c.text();
      }
    });
  }
}

TEST(GatherForMetrics, TakesNestedValuesScalarsAndStrings) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& communicator) {
    Accelerator accelerator({.communicator = communicator});
    auto loader = accelerator.prepare(make_data_loader(torch::arange(3)));
    std::vector<std::string> words;
    Values scalars, nested;
    for (auto& batch : loader) {
      const auto value = batch.item<std::int64_t>();
      const std::map<std::string, std::tuple<at::Tensor, at::Tensor>> outputs{
          {"a", {batch, batch * 10}}};
      nested.push_back(std::get<1>(accelerator.gather_for_metrics(outputs)["a"]).numel());
      for (auto number : values_of(accelerator.gather_for_metrics(batch[0]))) {
        scalars.push_back(number);
      }
      for (auto& word : accelerator.gather_for_metrics(
               std::vector<std::string>{"word " + std::to_string(value)})) {
        words.push_back(word);
      }
    }
    EXPECT_EQ(nested, (Values{2, 1}));
    EXPECT_EQ(scalars, (Values{0, 1, 2}));
    EXPECT_EQ(words, (std::vector<std::string>{"word 0", "word 1", "word 2"}));
  });
}

TEST(GatherForMetrics, GathersWordsBesideTensors) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& communicator) {
    Accelerator accelerator({.communicator = communicator});
    auto loader = accelerator.prepare(make_data_loader(torch::arange(5), {.batch_size = 2}));
    std::size_t words = 0;
    for (auto& batch : loader) {
      std::pair outputs(batch, std::vector<std::string>(batch.size(0), "w"));
      const auto [numbers, texts] = accelerator.gather_for_metrics(outputs);
      EXPECT_EQ(static_cast<std::size_t>(numbers.size(0)), texts.size());
      words += texts.size();
    }
    EXPECT_EQ(words, 5U);
  });
}

Answers answers_for(const at::Tensor& batch) {
  Answers answers{.numbers = batch, .names = {}, .scores = {}, .split = "train"};
  for (const auto value : values_of(batch)) {
    answers.names.push_back("sample " + std::to_string(value));
    answers.scores["f1"].push_back(static_cast<double>(value) / 2);
  }
  return answers;
}

TEST(GatherForMetrics, GathersWordsBesideTheTensorsOfAStruct) {
  for (const bool even : {true, false}) {
    run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& communicator) {
      Accelerator accelerator = accelerator_of({.even = even}, communicator);
      auto loader = accelerator.prepare(make_data_loader(torch::arange(5), {.batch_size = 2}));
      Answers all{.numbers = torch::empty({0}, at::kLong), .names = {}, .scores = {}, .split = ""};
      for (auto& batch : loader) {
        const auto step = accelerator.gather_for_metrics(answers_for(batch));
        all.numbers = torch::cat({all.numbers, step.numbers});
        all.names.insert(all.names.end(), step.names.begin(), step.names.end());
        const auto& scores = step.scores.at("f1");
        all.scores["f1"].insert(all.scores["f1"].end(), scores.begin(), scores.end());
        EXPECT_EQ(step.split, "train");
      }
      accelerator.wait_for_everyone();
      if (!even && communicator->rank() > 0) return;  // Had no batch in the last step.
      const Answers expected = answers_for(torch::arange(5));
      EXPECT_EQ(values_of(all.numbers), counting(5));
      EXPECT_EQ(all.names, expected.names);
      EXPECT_EQ(all.scores, expected.scores);
    });
  }
}

TEST(GatherForMetrics, TakesAClassOfWhichOnlyTheTensorsAreToTravel) {
  Accelerator accelerator;
  EXPECT_EQ(values_of(accelerator.gather_for_metrics(Hidden(torch::arange(2))).numbers()),
            counting(2));
  EXPECT_TRUE(detail::Parts<Hidden>::kFacts.seen);
  const auto flagged = accelerator.gather_for_metrics(Flagged{torch::arange(2)});
  EXPECT_EQ(values_of(flagged.numbers), values_of(torch::arange(2)));
}

TEST(GatherForMetrics, KnowsWhichListsCannotBeSent) {
  struct Opaque {
    std::unique_ptr<int> value;
  };
  EXPECT_TRUE((detail::Parts<std::pair<at::Tensor, std::vector<std::string>>>::kFacts.sent));
  EXPECT_FALSE((detail::Parts<std::pair<at::Tensor, std::vector<Opaque>>>::kFacts.sent));
}

TEST(GatherForMetrics, GathersDocumentsOfJson) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& communicator) {
    Accelerator accelerator({.communicator = communicator});
    auto loader = accelerator.prepare(make_data_loader(torch::arange(3)));
    std::vector<nlohmann::json> documents;
    std::vector<nlohmann::ordered_json> ordered;
    for (auto& batch : loader) {
      const std::int64_t id = batch.item<std::int64_t>();
      const std::vector<nlohmann::json> mine{
          {{"id", id}, {"text", "a\nb"}, {"box", {0.5, nullptr}}}};
      for (auto& one : accelerator.gather_object_for_metrics(mine)) documents.push_back(one);
      const std::vector<nlohmann::ordered_json> own{{{"z", id}, {"a", true}}};
      for (auto& one : accelerator.gather_for_metrics(own)) ordered.push_back(one);
    }
    ASSERT_EQ(documents.size(), 3U);
    EXPECT_EQ(documents[2].dump(), R"({"box":[0.5,null],"id":2,"text":"a\nb"})");
    ASSERT_EQ(ordered.size(), 3U);
    EXPECT_EQ(ordered[1].dump(), R"({"z":1,"a":true})");
  });
}

TEST(GatherForMetrics, GathersObjectsOfAnyShape) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& communicator) {
    Accelerator accelerator({.communicator = communicator});
    auto loader = accelerator.prepare(make_data_loader(torch::arange(3)));
    Values lengths;
    for (auto& batch : loader) {
      std::vector<at::Tensor> boxes{torch::zeros({batch.item<std::int64_t>() + 1, 4})};
      for (auto& box : accelerator.gather_object_for_metrics(boxes)) {
        lengths.push_back(box.size(0));
      }
    }
    EXPECT_EQ(lengths, (Values{1, 2, 3}));
  });
}

TEST(GatherForMetrics, CutsBatchesOfTheUserThatWereRepeated) {
  for (bool dispatch : {false, true}) {
    for (bool even : {true, false}) {
      run_ranks_shared(3, [&](const std::shared_ptr<Communicator>& communicator) {
        Accelerator accelerator =
            accelerator_of({.dispatch = dispatch, .even = even}, communicator);
        auto loader = accelerator.prepare(
            make_data_loader(torch::arange(9), {.batch_sampler = [](std::int64_t) {
                               return BatchList{{0, 1}, {2}, {3}, {4, 5, 6}, {7, 8}};
                             }}));
        Values all;
        for (auto& batch : loader) {
          for (auto value : values_of(accelerator.gather_for_metrics(batch))) all.push_back(value);
        }
        accelerator.wait_for_everyone();
        if (communicator->rank() > 0) return;  // May have had no batch in the last step.
        EXPECT_EQ(all, counting(9)) << dispatch << even;
      });
    }
  }
}

TEST(GatherForMetrics, OutsideOfALoopNothingIsCut) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& communicator) {
    Accelerator accelerator({.communicator = communicator});
    EXPECT_EQ(accelerator.gather_for_metrics(torch::zeros({3})).size(0), 6);
  });
}

TEST(GatherForMetrics, ShapesThatDifferAreAnErrorOnAllRanks) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& communicator) {
    Accelerator accelerator = accelerator_of({.even = false}, communicator);
    auto loader = accelerator.prepare(make_data_loader(torch::arange(3), {.batch_size = 2}));
    for (auto& batch : loader) {
      const at::Tensor ragged = torch::zeros({batch.size(0), communicator->rank() + 2});
      EXPECT_THROW(static_cast<void>(accelerator.gather_for_metrics(ragged)), CommError);
    }
  });
}

}  // namespace
}  // namespace accelerate
