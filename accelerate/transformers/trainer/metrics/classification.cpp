#include "accelerate/transformers/trainer/metrics/classification.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate {
namespace detail {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

struct Share {
  std::int64_t hits = 0, predicted = 0, labelled = 0;
};

std::string usual_name(ScoreKind kind) {
  return kind == ScoreKind::f1 ? "f1" : kind == ScoreKind::precision ? "precision" : "recall";
}

void check_average(const ClassificationOptions& options) {
  static const std::vector<std::string> averages{"binary", "micro", "macro", "weighted"};
  const std::string& name = options.average;
  if (std::find(averages.begin(), averages.end(), name) == averages.end())
    throw ConfigError("the average is '" + name + "'; allowed are " + join(averages, ", ") + "." +
                      did_you_mean(name, averages));
  if (name == "binary" && !options.labels.empty())
    throw ConfigError(
        "average 'binary' scores `pos_label` alone, but `labels` are given; leave them out or take "
        "another average");
  if (name != "binary" && options.pos_label != 1)
    throw ConfigError("only average 'binary' reads `pos_label`, but the average is '" + name +
                      "'; to score one class give it as `labels`");
}

void check_class(std::int64_t label, const ClassificationOptions& options, const char* field) {
  const std::int64_t most = options.num_classes > 0 ? options.num_classes : kMostClasses;
  if (label >= 0 && label < most) return;
  throw ConfigError(std::string(field) + " has the class " + std::to_string(label) +
                    "; allowed are 0 to " + std::to_string(most - 1));
}

void check_options(const ClassificationOptions& options) {
  check_average(options);
  if (options.num_classes < 0 || options.num_classes > kMostClasses)
    throw ConfigError("num_classes is " + std::to_string(options.num_classes) +
                      "; allowed are 0, for unknown, to " + std::to_string(kMostClasses));
  check_class(options.pos_label, options, "pos_label");
  for (const std::int64_t label : options.labels) check_class(label, options, "labels");
  const std::set<std::int64_t> distinct(options.labels.begin(), options.labels.end());
  if (distinct.size() != options.labels.size())
    throw ConfigError("`labels` name a class twice; name each once");
  const double value = options.zero_division;
  if (value != 0 && value != 1 && !std::isnan(value))
    throw ConfigError("zero_division is " + std::to_string(value) +
                      "; allowed are 0, 1 and NaN, which leaves a class out of means");
}

Share share_of(const ClassCounts& counts, std::int64_t label) {
  const auto i = static_cast<std::size_t>(label);
  if (i >= counts.hits().size()) return {};
  return {counts.hits()[i], counts.predicted()[i], counts.labelled()[i]};
}

std::vector<std::int64_t> classes_seen(const ClassCounts& counts) {
  std::vector<std::int64_t> seen;
  for (std::size_t i = 0; i < counts.hits().size(); ++i) {
    if (counts.predicted()[i] + counts.labelled()[i] > 0)
      seen.push_back(static_cast<std::int64_t>(i));
  }
  return seen;
}

// The score of one class out of three would say little, and asking for it is the likeliest mistake
// of a first program.
void check_binary(const std::vector<std::int64_t>& seen, std::int64_t pos_label) {
  if (seen.size() > 2)
    throw UsageError("average 'binary' is of two classes, but " + std::to_string(seen.size()) +
                     " occurred; take average 'micro', 'macro' or 'weighted'");
  if (seen.size() == 2 && seen[0] != pos_label && seen[1] != pos_label)
    throw UsageError("pos_label is " + std::to_string(pos_label) + ", but only the classes " +
                     std::to_string(seen[0]) + " and " + std::to_string(seen[1]) +
                     " occurred; set pos_label to one of them");
}

std::vector<Share> shares_of(const ClassCounts& counts, const ClassificationOptions& options) {
  std::vector<std::int64_t> classes = options.labels;
  if (options.average == "binary") {
    check_binary(classes_seen(counts), options.pos_label);
    classes = {options.pos_label};
  } else if (classes.empty()) {
    classes = classes_seen(counts);
  }
  std::vector<Share> shares;
  for (const std::int64_t label : classes) shares.push_back(share_of(counts, label));
  if (options.average != "micro") return shares;
  Share all;
  for (const Share& one : shares) {
    all.hits += one.hits;
    all.predicted += one.predicted;
    all.labelled += one.labelled;
  }
  return {all};
}

double score_of(const Share& share, ScoreKind kind, double zero_division) {
  const double hits = static_cast<double>(share.hits) * (kind == ScoreKind::f1 ? 2 : 1);
  const std::int64_t all = kind == ScoreKind::precision ? share.predicted
                           : kind == ScoreKind::recall  ? share.labelled
                                                        : share.predicted + share.labelled;
  return all == 0 ? zero_division : hits / static_cast<double>(all);
}

// Scores that are NaN take no part. If all weights are 0, they count as equal.
double mean_of(const std::vector<double>& scores, const std::vector<double>& weights) {
  double sum = 0, plain_sum = 0, weight = 0, count = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) continue;
    sum += scores[i] * weights[i];
    weight += weights[i];
    plain_sum += scores[i];
    ++count;
  }
  if (count == 0) return kUndefined;
  return weight == 0 ? plain_sum / count : sum / weight;
}

}  // namespace

ClassScore::ClassScore(ScoreKind kind, ClassificationOptions options)
    : kind_(kind), options_(std::move(options)), counts_(options_.num_classes) {
  check_options(options_);
  if (options_.name.empty()) options_.name = usual_name(kind);
}

Metrics ClassScore::compute(Communicator& communicator) const {
  const ClassCounts counts = counts_.over_all_ranks(communicator);
  require_samples(counts.samples(), options_.name);
  std::vector<double> scores, weights;
  for (const Share& share : shares_of(counts, options_)) {
    scores.push_back(score_of(share, kind_, options_.zero_division));
    weights.push_back(options_.average == "weighted" ? static_cast<double>(share.labelled) : 1.0);
  }
  return {{options_.name, mean_of(scores, weights)}};
}

}  // namespace detail

void Accuracy::update(const MetricBatch& batch) {
  const detail::LabelledClasses kept = detail::labelled_classes(batch);
  for (std::size_t i = 0; i < kept.labels.size(); ++i)
    if (kept.labels[i] == kept.predicted[i]) ++hits_;
  samples_ += static_cast<std::int64_t>(kept.labels.size());
}

Metrics Accuracy::compute(Communicator& communicator) const {
  const auto sums = detail::sum_over_ranks(communicator, {hits_, samples_});
  detail::require_samples(sums[1], name_);
  return {{name_, static_cast<double>(sums[0]) / static_cast<double>(sums[1])}};
}

// With s samples, c hits, and t and p the counts of labels and predictions of a class:
// (c s − Σ t p) / √((s² − Σ p²)(s² − Σ t²)). The counts suffice: no matrix of C × C is needed.
Metrics MatthewsCorrelation::compute(Communicator& communicator) const {
  const detail::ClassCounts counts = counts_.over_all_ranks(communicator);
  detail::require_samples(counts.samples(), name_);
  const auto samples = static_cast<double>(counts.samples());
  double hits = 0, both = 0, predicted = 0, labelled = 0;
  for (std::size_t i = 0; i < counts.hits().size(); ++i) {
    const auto p = static_cast<double>(counts.predicted()[i]);
    const auto t = static_cast<double>(counts.labelled()[i]);
    hits += static_cast<double>(counts.hits()[i]);
    both += t * p;
    predicted += p * p;
    labelled += t * t;
  }
  const double spread = (samples * samples - predicted) * (samples * samples - labelled);
  return {{name_, spread == 0 ? 0.0 : (hits * samples - both) / std::sqrt(spread)}};
}

}  // namespace accelerate
