// Metrics: what they refuse, what ranks see, what they keep. Their numbers are compared with the
// originals' by tests/transformers/trainer/metrics_live.py.
#include "accelerate/transformers/trainer/metrics/metrics.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cmath>
#include <limits>

#include "accelerate/comm/operations.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::kind_and_message_of;

at::Tensor longs(const std::vector<std::int64_t>& values) {
  return at::tensor(values, at::kLong);
}
at::Tensor doubles(const std::vector<double>& values) {
  return at::tensor(values, at::kDouble);
}

Metrics alone(const Metric& metric) {
  return metric.compute(*single_communicator());
}
double value_of(const Metric& metric) {
  return alone(metric).at(0).second;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

template <typename M>
std::string refusal(M metric, const at::Tensor& predictions, const at::Tensor& labels) {
  return kind_and_message_of(
      [&] { metric.update({.predictions = predictions, .labels = labels}); });
}

// A metric that a user might write: the mean of the predictions.
class MeanPrediction : public Metric {
 public:
  void reset() override { sum_ = count_ = 0; }
  void update(const MetricBatch& batch) override {
    sum_ += batch.predictions.sum(at::kDouble).item<double>();
    count_ += static_cast<double>(batch.predictions.numel());
  }
  [[nodiscard]] Metrics compute(Communicator& communicator) const override {
    const at::Tensor sums = reduce(communicator, doubles({sum_, count_}), ReduceOp::sum);
    return {{"mean", sums[0].item<double>() / sums[1].item<double>()}};
  }
  [[nodiscard]] std::vector<std::string> names() const override { return {"mean"}; }

 private:
  double sum_ = 0, count_ = 0;
};

// Remembers whether the classes came with the batch.
class SeesClasses : public MeanPrediction {
 public:
  void update(const MetricBatch& batch) override { classes = batch.classes; }
  [[nodiscard]] bool reads_classes() const override { return true; }
  at::Tensor classes;
};

TEST(Metrics, TakeTheGreatestOfTheLastDimensionAndTheFirstOfEqualOnes) {
  Accuracy accuracy;
  accuracy.update({at::tensor({1.0, 3.0, 3.0, 5.0, 4.0, 5.0}).reshape({2, 3}), longs({1, 2})});
  EXPECT_EQ(value_of(accuracy), 0.5);
}

TEST(Metrics, LeaveOutWhatIsLabelledIgnored) {
  Accuracy accuracy;
  accuracy.update(
      {longs({0, 1, 2, 99}).reshape({2, 2}), longs({0, 0, -100, -100}).reshape({2, 2})});
  EXPECT_EQ(value_of(accuracy), 0.5);
}

TEST(Metrics, NameTheLabelThatIsNoClassItsRowAndWhatIsAllowed) {
  const std::string error =
      refusal(Accuracy(), at::zeros({2, 3, 5}), longs({0, 1, 2, 3, -100, 7}).reshape({2, 3}));
  EXPECT_EQ(error.rfind("UsageError", 0), 0U) << error;
  for (const char* part : {"label 7", "row 1, token 2", "0 to 4", "5 classes"})
    EXPECT_TRUE(has(error, part)) << error;
  EXPECT_TRUE(has(refusal(F1(), at::zeros({2, 2}), longs({0, -1})), "label -1 of row 1"));
}

TEST(Metrics, NameThePredictionThatIsNoClass) {
  EXPECT_TRUE(
      has(refusal(F1({.num_classes = 3}), longs({0, 3}), longs({0, 1})), "prediction 3 of row 1"));
  EXPECT_TRUE(
      has(refusal(F1(), longs({0, std::int64_t{1} << 40}), longs({0, 1})), "is not a class"));
}

TEST(Metrics, RefuseShapesThatDoNotFit) {
  for (const auto& predictions : {at::zeros({3, 4}), at::zeros({2}), at::zeros({2, 2, 2})})
    EXPECT_TRUE(has(refusal(Accuracy(), predictions, longs({0, 1})), "predictions of shape"));
  EXPECT_TRUE(has(refusal(Accuracy(), at::zeros({2, 2}), doubles({0, 1})), "Double"));
  EXPECT_TRUE(has(refusal(Accuracy(), {}, longs({0, 1})), "undefined"));
  EXPECT_TRUE(has(refusal(Pearson(), at::zeros({2, 2}), at::zeros({2})), "[2, 2]"));
  EXPECT_TRUE(has(refusal(Spearman(), at::zeros({3}), at::zeros({2})), "[3]"));
  EXPECT_TRUE(has(refusal(Perplexity(), at::zeros({2, 5}), longs({0, 1})), "shift_labels"));
  EXPECT_TRUE(has(refusal(Perplexity(), at::zeros({2, 2, 5}), longs({0, 1})), "[2, 2, 5]"));
}

TEST(Metrics, AddNothingOfABatchThatTheyRefuse) {
  F1 metric({.average = "micro"});
  metric.update({longs({0, 1}), longs({0, 1})});
  EXPECT_TRUE(
      has(kind_and_message_of([&] { metric.update({longs({0, 1}), longs({1, -3})}); }), "-3"));
  EXPECT_EQ(value_of(metric), 1.0);
}

TEST(Metrics, OfAnEmptySetAreAUsageError) {
  const MetricBatch ignored{at::zeros({1, 2}), longs({-100})};
  const std::shared_ptr<Metric> all[] = {
      combine({Accuracy()}), combine({F1()}),        combine({MatthewsCorrelation()}),
      combine({Pearson()}),  combine({Spearman()}),  combine({Perplexity()}),
      combine({Recall()}),   combine({Precision()}), combine({SeqevalF1({.id2label = {"O"}})})};
  for (const auto& metric : all)
    EXPECT_TRUE(has(kind_and_message_of([&] { (void)alone(*metric); }), "empty set"));
  Accuracy accuracy;
  accuracy.update(ignored);
  EXPECT_TRUE(has(kind_and_message_of([&] { (void)alone(accuracy); }), "UsageError"));
}

TEST(Metrics, CombinedFindClassesOnceForAll) {
  const auto first = std::make_shared<SeesClasses>();
  const auto both = combine({first, F1(), Accuracy()});
  EXPECT_FALSE(combine({MeanPrediction()})->reads_classes());
  both->update({at::tensor({0.0, 1.0, 1.0, 0.0}).reshape({2, 2}), longs({1, 1})});
  ASSERT_TRUE(first->classes.defined());
  EXPECT_TRUE(first->classes.equal(longs({1, 0})));
}

TEST(Metrics, CombinedKeepTheirOrderAndRefuseANameTwice) {
  const auto metric = combine(
      {MeanPrediction(), F1({.average = "macro", .name = "f1_macro"}), F1({.average = "micro"})});
  EXPECT_EQ(metric->names(), (std::vector<std::string>{"mean", "f1_macro", "f1"}));
  EXPECT_TRUE(has(kind_and_message_of([] { (void)combine({F1(), F1()}); }), "'f1'"));
  EXPECT_TRUE(has(kind_and_message_of([] { (void)combine({std::shared_ptr<F1>()}); }), "null"));
}

TEST(Metrics, OfThreeRanksAreThoseOfAllTheirRows) {
  const at::Tensor x = at::randn({30}, at::kDouble), y = x + at::randn({30}, at::kDouble);
  const at::Tensor logits = at::randn({30, 4}), labels = at::randint(4, {30}, at::kLong);
  const auto make = [] {
    return combine({Accuracy(), F1({.average = "macro"}), MatthewsCorrelation(),
                    Perplexity({.shift_labels = false})});
  };
  const auto whole = make();
  whole->update({logits, labels});
  Spearman spearman;
  spearman.update({x, y});
  const Metrics expected = alone(*whole);
  const double rho = value_of(spearman);
  // Rank 1 has no row.
  const std::int64_t begins[] = {0, 7, 7, 30};
  testing::run_ranks(3, [&](Communicator& communicator) {
    const std::int64_t begin = begins[communicator.rank()], end = begins[communicator.rank() + 1];
    const auto metric = make();
    Spearman own;
    if (begin < end) {
      metric->update({logits.slice(0, begin, end), labels.slice(0, begin, end)});
      own.update({x.slice(0, begin, end), y.slice(0, begin, end)});
    }
    const Metrics found = metric->compute(communicator);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i].second, expected[i].second, 1e-12) << found[i].first;
    EXPECT_EQ(own.compute(communicator)[0].second, rho);
  });
}

TEST(Metrics, OfUsersWorkOnRanksToo) {
  testing::run_ranks(2, [](Communicator& communicator) {
    MeanPrediction metric;
    metric.update({at::full({communicator.rank() + 1}, communicator.rank() * 3.0), {}});
    EXPECT_EQ(metric.compute(communicator)[0].second, 2.0);
  });
}

TEST(Metrics, KeepCountsInsteadOfOutputs) {
  const auto metric = combine({Accuracy(), F1({.average = "macro"}), MatthewsCorrelation(),
                               Perplexity({.shift_labels = false})});
  const at::Tensor logits = at::rand({64, 500}), labels = at::randint(500, {64}, at::kLong);
  for (int i = 0; i < 3; ++i) metric->update({logits, labels});
  const std::size_t before = mallinfo2().uordblks;
  for (int i = 0; i < 50; ++i) metric->update({logits, labels});
  // The outputs are 6.4 MB, and their classes 25 kB.
  EXPECT_LT(mallinfo2().uordblks, before + 20'000);
}

TEST(ClassScores, RefuseOptionsThatAreNotAllowed) {
  const auto error = [](const ClassificationOptions& options) {
    return kind_and_message_of([&] { F1 metric(options); });
  };
  EXPECT_TRUE(has(error({.average = "macor"}), "Did you mean 'macro'?"));
  EXPECT_TRUE(has(error({.average = "micro", .pos_label = 2}), "pos_label"));
  EXPECT_TRUE(has(error({.labels = {1}}), "'binary'"));
  EXPECT_TRUE(has(error({.average = "micro", .labels = {1, 1}}), "twice"));
  EXPECT_TRUE(has(error({.average = "micro", .labels = {-1}}), "-1"));
  EXPECT_TRUE(has(error({.average = "micro", .labels = {3}, .num_classes = 3}), "0 to 2"));
  EXPECT_TRUE(has(error({.num_classes = -1}), "num_classes"));
  EXPECT_TRUE(has(error({.zero_division = 0.5}), "zero_division"));
  EXPECT_TRUE(has(error({.average = "macor"}), "ConfigError"));
}

TEST(ClassScores, RefuseAModelOfAnotherNumberOfClasses) {
  EXPECT_TRUE(
      has(refusal(F1({.num_classes = 3}), at::zeros({1, 4}), longs({0})), "4 classes, but"));
}

TEST(ClassScores, RefuseToCallThreeClassesBinary) {
  F1 metric;
  metric.update({longs({0, 1, 2}), longs({0, 1, 2})});
  EXPECT_TRUE(has(kind_and_message_of([&] { (void)alone(metric); }), "3 occurred"));
}

TEST(ClassScores, AreOfTheClassesThatOccurIfNoneAreNamed) {
  F1 metric({.average = "macro"});  // Class 1 is neither label nor prediction.
  metric.update({longs({0, 2, 2}), longs({0, 2, 3})});
  EXPECT_NEAR(value_of(metric), (1 + 2.0 / 3 + 0) / 3, 1e-15);
}

TEST(ClassScores, LeaveOutUndefinedClassesWhenToldTo) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Precision metric({.average = "macro", .labels = {0, 1, 2}, .zero_division = nan});
  metric.update({longs({0, 0, 1}), longs({0, 1, 1})});
  EXPECT_EQ(value_of(metric), 0.75);
}

TEST(Correlations, OfAConstantAreNan) {
  Pearson pearson;
  Spearman spearman;
  for (int i = 0; i < 7; ++i) {  // 0.1 is no binary fraction: its sums are rounded.
    const MetricBatch batch{at::full({3}, 0.1, at::kDouble), at::randn({3, 1})};
    pearson.update(batch), spearman.update(batch);
  }
  EXPECT_TRUE(std::isnan(value_of(pearson)));
  EXPECT_TRUE(std::isnan(value_of(spearman)));
}

TEST(Correlations, StayWithinOneAndAreWholeForTwoRows) {
  for (int i = 0; i < 200; ++i) {
    const at::Tensor two = at::randn({2}, at::kDouble), five = at::randn({5}, at::kDouble);
    Pearson of_two, of_five;
    of_two.update({two, at::arange(2)}), of_five.update({five, five * 3});
    EXPECT_EQ(std::abs(value_of(of_two)), 1.0);
    EXPECT_LE(value_of(of_five), 1.0);
  }
}

TEST(Correlations, KeepTheirDigitsFarFromZero) {
  const at::Tensor x = at::arange(1000, at::kDouble) / 1024, y = (x * 7).sin();
  Pearson near, far;
  for (std::int64_t i = 0; i < 1000; i += 8) {
    near.update({x.slice(0, i, i + 8), y.slice(0, i, i + 8)});
    far.update({x.slice(0, i, i + 8) + 0x1p40, y.slice(0, i, i + 8)});
  }
  EXPECT_NEAR(value_of(far), value_of(near), 1e-13);
}

TEST(Correlations, OfOneRow) {
  Pearson pearson;
  Spearman spearman;
  pearson.update({doubles({1}), doubles({2})}), spearman.update({doubles({1}), doubles({2})});
  EXPECT_TRUE(has(kind_and_message_of([&] { (void)alone(pearson); }), "single row"));
  EXPECT_TRUE(std::isnan(value_of(spearman)));
}

TEST(Correlations, KeepWhatFloat32CannotTellApart) {
  Spearman spearman;
  spearman.update({at::tensor({1.0F}), at::tensor({3.0F})});
  spearman.update({doubles({2, 2 + 0x1p-40}), doubles({2, 1})});
  EXPECT_NEAR(value_of(spearman), -1.0, 1e-15);
}

TEST(Correlations, RanksWithDifferentDtypesAgree) {
  testing::run_ranks(2, [](Communicator& communicator) {
    Spearman metric;
    if (communicator.rank() == 0) metric.update({at::tensor({1.0F}), at::tensor({1.0F})});
    if (communicator.rank() == 1) metric.update({doubles({2, 3, 4}), longs({2, 4, 3})});
    EXPECT_NEAR(metric.compute(communicator)[0].second, 0.8, 1e-15);
  });
}

TEST(PerplexityMetric, IsTheNumberOfClassesOfAModelThatKnowsNothing) {
  Perplexity shifted, unshifted({.shift_labels = false});
  const MetricBatch batch{at::zeros({2, 3, 50}), at::ones({2, 3}, at::kLong)};
  shifted.update(batch), unshifted.update(batch);
  EXPECT_NEAR(value_of(shifted), 50, 5e-5);
  EXPECT_NEAR(value_of(unshifted), 50, 5e-5);
}

TEST(PerplexityMetric, DoesNotReadLossesAtIgnoredPlaces) {
  Perplexity metric;
  metric.update({doubles({std::log(8.0), std::nan("")}), longs({0, -100})});
  EXPECT_NEAR(value_of(metric), 8, 1e-12);
}

TEST(PerplexityMetric, CutsLargeLogitsIntoParts) {
  // More elements than are turned into losses at once; the last part is smaller.
  const std::int64_t rows = 600, classes = 30'000;
  const at::Tensor logits = at::zeros({rows, classes}), labels = at::zeros({rows}, at::kLong);
  logits.slice(0, 0, rows / 2).select(1, 0).fill_(20);
  Perplexity metric({.shift_labels = false});
  metric.update({logits, labels});
  const double known = std::log1p((classes - 1) * std::exp(-20.0)), unknown = std::log(classes);
  EXPECT_NEAR(value_of(metric), std::exp((known + unknown) / 2), 1e-3);
}

TEST(Seqeval, RefusesOptionsThatAreNotAllowed) {
  const auto error = [](const SeqevalOptions& options) {
    return kind_and_message_of([&] { SeqevalF1 metric(options); });
  };
  const std::vector<std::string> names{"O", "B-PER", "I-PER"};
  EXPECT_TRUE(has(error({}), "id2label"));
  EXPECT_TRUE(has(error({.id2label = {"O", ""}}), "class 1"));
  EXPECT_TRUE(has(error({.id2label = names, .mode = "strickt"}), "Did you mean 'strict'?"));
  EXPECT_TRUE(has(error({.id2label = names, .scheme = "IOB3"}), "IOB2"));
  EXPECT_TRUE(has(error({.id2label = names, .zero_division = 2}), "zero_division"));
  EXPECT_TRUE(has(error({.id2label = names, .mode = "strict", .scheme = "IOE2"}), "'B-PER'"));
}

TEST(Seqeval, RefusesLabelsThatAreNoTags) {
  const SeqevalF1 metric({.id2label = {"O", "B-PER"}});
  EXPECT_TRUE(has(refusal(metric, longs({0}), longs({0})), "{B, T}"));
  EXPECT_TRUE(has(refusal(metric, at::zeros({1, 1, 2}), longs({2}).reshape({1, 1})), "label 2"));
  EXPECT_TRUE(has(refusal(metric, at::zeros({1, 1, 3}), longs({1}).reshape({1, 1})), "3 classes"));
}

TEST(Seqeval, GivesEachTypeOfItsNamesEvenIfNoneOccurs) {
  SeqevalF1 metric({.id2label = {"O", "B-PER", "I-PER", "B-LOC"}, .per_type = true});
  metric.update({longs({1, 2, 0, 1}).reshape({1, 4}), longs({1, 2, 0, 0}).reshape({1, 4})});
  const Metrics expected{
      {"LOC_precision", 0},  {"LOC_recall", 0},         {"LOC_f1", 0},
      {"LOC_number", 0},     {"PER_precision", 0.5},    {"PER_recall", 1},
      {"PER_f1", 1.0 / 1.5}, {"PER_number", 1},         {"overall_precision", 0.5},
      {"overall_recall", 1}, {"overall_f1", 1.0 / 1.5}, {"overall_accuracy", 0.75}};
  EXPECT_EQ(alone(metric), expected);
}

}  // namespace
}  // namespace accelerate
