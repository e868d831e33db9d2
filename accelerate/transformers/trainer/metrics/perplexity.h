// How well a language model predicts a text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accelerate/transformers/trainer/metrics/metric.h"

namespace accelerate {

struct PerplexityOptions {
  /// Whether each token's logits are for the next label, as in causal language models, whose labels
  /// are their inputs. False: for the label at the same place, as in masked language models.
  bool shift_labels = true;
  std::string name = "perplexity";
};

/// exp of the mean cross-entropy over all labels other than -100. Each label weighs the same,
/// whatever its batch or rank. Predictions: logits {B, T, V} for labels {B, T}; without shifting
/// also {B, V} for {B}. Or they are float losses shaped as the labels, each at the place of its
/// label; these are never shifted. Memory: two numbers, and 64 MB more while a batch is added.
class Perplexity : public Metric {
 public:
  explicit Perplexity(PerplexityOptions options = {}) : options_(std::move(options)) {}
  void reset() override { sum_ = 0, tokens_ = 0; }
  /// Throws UsageError for other shapes, and for labels that are not classes of the logits.
  void update(const MetricBatch& batch) override;
  /// [collective] Throws UsageError if no rank added a label. Infinity if the mean is above 709.
  [[nodiscard]] Metrics compute(Communicator& communicator) const override;
  [[nodiscard]] std::vector<std::string> names() const override { return {options_.name}; }

 private:
  void add_logits(const at::Tensor& logits, const at::Tensor& labels);
  void add_losses(const at::Tensor& losses, const at::Tensor& labels);

  PerplexityOptions options_;
  double sum_ = 0;           // Sum of losses.
  std::int64_t tokens_ = 0;  // Labels that count.
};

}  // namespace accelerate
