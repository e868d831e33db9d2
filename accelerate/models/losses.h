// The losses of Transformers' heads.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace accelerate::detail {

/// Labels of this value take no part in a loss.
inline constexpr std::int64_t kIgnoredLabel = -100;

/// Throws UsageError for a label, int64, that is neither one of the classes, of which `logits` have
/// their last dimension, nor ignored. Labels on a GPU are left to LibTorch's kernels.
void check_labels(const at::Tensor& logits, const at::Tensor& labels,
                  std::int64_t ignored = kIgnoredLabel);

/// Mean cross-entropy of `logits`, {N, C}, against `labels`, int64 {N}, without those that are
/// ignored; the sum divided by `num_items` where it is defined. Returns {}. Throws UsageError for a
/// label that is neither a class nor ignored.
/// Source: `fixed_cross_entropy` of Transformers.
[[nodiscard]] at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                       const at::Tensor& num_items = {},
                                       std::int64_t ignored = kIgnoredLabel);

/// The loss of a row's classes. `problem`: regression, single_label_classification or
/// multi_label_classification; empty: found from the number of classes and the type of `labels`.
/// logits: {B, C}; labels: {B} or, of several labels or targets, {B, C}.
/// Source: `ForSequenceClassificationLoss`.
[[nodiscard]] at::Tensor sequence_classification_loss(const at::Tensor& logits,
                                                      const at::Tensor& labels,
                                                      const std::string& problem,
                                                      const at::Tensor& num_items);

/// Mean of the losses of where an answer starts and ends. logits: {B, T}; positions: {B} or {B, 1},
/// of which those outside the text are ignored. Source: `ForQuestionAnsweringLoss`.
[[nodiscard]] at::Tensor question_answering_loss(const at::Tensor& start_logits,
                                                 const at::Tensor& end_logits,
                                                 const at::Tensor& start_positions,
                                                 const at::Tensor& end_positions);

}  // namespace accelerate::detail
