// Scores of classes: accuracy, F1, precision, recall and Matthews' correlation. All take
// predictions with a last dimension of classes, {…, C}, whose greatest element is the predicted
// class; or integers shaped as the labels, which are the predicted classes. Labels are integers;
// -100 takes no part. Memory: at most 24 bytes a class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accelerate/transformers/trainer/metrics/class_counts.h"
#include "accelerate/transformers/trainer/metrics/metric.h"

namespace accelerate {

/// The share of labels that the model predicts. Source: sklearn.metrics.accuracy_score.
class Accuracy : public Metric {
 public:
  explicit Accuracy(std::string name = "accuracy") : name_(std::move(name)) {}
  void reset() override { hits_ = samples_ = 0; }
  /// Throws UsageError for predictions of another shape, and for labels that are not classes.
  void update(const MetricBatch& batch) override;
  /// [collective] Throws UsageError if no rank added a label.
  [[nodiscard]] Metrics compute(Communicator& communicator) const override;
  [[nodiscard]] std::vector<std::string> names() const override { return {name_}; }
  [[nodiscard]] bool reads_classes() const override { return true; }

 private:
  std::string name_;
  std::int64_t hits_ = 0, samples_ = 0;
};

/// Options of F1, Precision and Recall, as in precision_recall_fscore_support.
struct ClassificationOptions {
  /// "binary": the score of `pos_label`; at most two classes may occur. "micro": the score of the
  /// counts of all classes together. "macro": the mean over classes. "weighted": the mean, weighted
  /// by how often a class is a label.
  std::string average = "binary";
  std::int64_t pos_label = 1;  ///< The class that "binary" scores.
  /// The classes that the averages are over. Empty: all classes that occur as label or prediction.
  std::vector<std::int64_t> labels = {};
  /// The number of classes, for predictions that are classes. 0: the last dimension of predictions
  /// {…, C}; if there is none, it is not checked.
  std::int64_t num_classes = 0;
  /// The score of a class where it is 0 / 0: 0, 1, or NaN, which leaves the class out of means.
  double zero_division = 0;
  std::string name = {};  ///< Empty: "f1", "precision" or "recall".
};

namespace detail {
enum class ScoreKind { f1, precision, recall };

/// What F1, Precision and Recall have in common.
class ClassScore : public Metric {
 public:
  void reset() override { counts_.reset(); }
  /// Throws UsageError for predictions of another shape, and for labels that are not classes.
  void update(const MetricBatch& batch) override { counts_.update(batch); }
  /// [collective] Throws UsageError if no rank added a label. With average "binary" also throws it
  /// if more than two classes occurred, or two classes other than pos_label.
  [[nodiscard]] Metrics compute(Communicator& communicator) const override;
  [[nodiscard]] std::vector<std::string> names() const override { return {options_.name}; }
  [[nodiscard]] bool reads_classes() const override { return true; }

 protected:
  /// Throws ConfigError for options that are not allowed.
  ClassScore(ScoreKind kind, ClassificationOptions options);

 private:
  ScoreKind kind_;
  ClassificationOptions options_;
  ClassCounts counts_;
};
}  // namespace detail

/// 2 · hits / (predicted + labelled): the harmonic mean of precision and recall.
class F1 : public detail::ClassScore {
 public:
  explicit F1(ClassificationOptions options = {})
      : ClassScore(detail::ScoreKind::f1, std::move(options)) {}
};

/// hits / predicted: the share of a class's predictions that are right.
class Precision : public detail::ClassScore {
 public:
  explicit Precision(ClassificationOptions options = {})
      : ClassScore(detail::ScoreKind::precision, std::move(options)) {}
};

/// hits / labelled: the share of a class's labels that are found.
class Recall : public detail::ClassScore {
 public:
  explicit Recall(ClassificationOptions options = {})
      : ClassScore(detail::ScoreKind::recall, std::move(options)) {}
};

/// Matthews' correlation for any number of classes, -1 to 1; 0 where all labels or all predictions
/// are one class. Source: Gorodkin 2004; sklearn.metrics.matthews_corrcoef.
class MatthewsCorrelation : public Metric {
 public:
  explicit MatthewsCorrelation(std::string name = "matthews_correlation")
      : name_(std::move(name)) {}
  void reset() override { counts_.reset(); }
  /// Throws UsageError for predictions of another shape, and for labels that are not classes.
  void update(const MetricBatch& batch) override { counts_.update(batch); }
  /// [collective] Throws UsageError if no rank added a label.
  [[nodiscard]] Metrics compute(Communicator& communicator) const override;
  [[nodiscard]] std::vector<std::string> names() const override { return {name_}; }
  [[nodiscard]] bool reads_classes() const override { return true; }

 private:
  std::string name_;
  detail::ClassCounts counts_;
};

}  // namespace accelerate
