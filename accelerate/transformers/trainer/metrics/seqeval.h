// Scores of chunks in tagged sentences: names of people and places, phrases.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accelerate/transformers/trainer/metrics/metric.h"
#include "accelerate/transformers/trainer/metrics/tag_chunks.h"

namespace accelerate {

struct SeqevalOptions {
  /// The tags of classes 0, 1, …: {"O", "B-PER", "I-PER", …}. Required.
  std::vector<std::string> id2label = {};
  /// "default": the lenient rules of conlleval, which ignore `scheme`. "strict": only chunks that
  /// `scheme` allows count.
  std::string mode = "default";
  std::string scheme = "IOB2";  ///< IOB1, IOB2, IOE1, IOE2, IOBES or BILOU.
  bool suffix = false;          ///< Tags are "PER-B" instead of "B-PER".
  /// Whether each type in `id2label` also gets TYPE_precision, TYPE_recall, TYPE_f1 and
  /// TYPE_number. TYPE_number is the number of its chunks among the labels.
  bool per_type = false;
  double zero_division = 0;         ///< For a precision or recall of 0 / 0: 0 or 1.
  std::string prefix = "overall_";  ///< Before precision, recall, f1 and accuracy.
};

/// overall_precision, overall_recall and overall_f1 over all chunks, and overall_accuracy over all
/// tags. A chunk is right if its type, first word and last word are right. Predictions: {B, T, C}
/// or classes {B, T}; labels: {B, T}. Places labelled -100 are dropped from the sentence before
/// chunks are found. Memory: three counts a type. Source: the package seqeval.
class SeqevalF1 : public Metric {
 public:
  /// Throws ConfigError for options that are not allowed, for an empty id2label, and in strict mode
  /// for a tag that the scheme does not have.
  explicit SeqevalF1(SeqevalOptions options);
  void reset() override;
  /// Throws UsageError for other shapes, and for labels that are not classes.
  void update(const MetricBatch& batch) override;
  /// [collective] Throws UsageError if no rank added a label.
  [[nodiscard]] Metrics compute(Communicator& communicator) const override;
  [[nodiscard]] std::vector<std::string> names() const override;
  [[nodiscard]] bool reads_classes() const override { return true; }

 private:
  using Tags = std::vector<detail::Tag>;
  void add_sentence(const Tags& labels, const Tags& predicted);
  [[nodiscard]] std::vector<detail::TagChunk> chunks(const Tags& tags) const;

  SeqevalOptions options_;
  detail::TagSet tags_;
  detail::TagScheme scheme_;
  // For each type: hits, predicted, labelled. Then the number of right tags and of all tags.
  std::vector<std::int64_t> counts_;
};

}  // namespace accelerate
