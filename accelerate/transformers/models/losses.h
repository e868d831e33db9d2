// The losses of Transformers' heads.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace accelerate::detail {

/// Labels of this value take no part in a loss.
inline constexpr std::int64_t kIgnoredLabel = -100;

/// Throws UsageError for a label, int64, that is neither `ignored` nor a class. The last dimension
/// of `logits` is the number of classes. Labels on a GPU are left to LibTorch's kernels.
void check_labels(const at::Tensor& logits, const at::Tensor& labels,
                  std::int64_t ignored = kIgnoredLabel);

/// Returns logits of 16 bits in fp32, as most of Transformers' losses read them, and others as they
/// are.
[[nodiscard]] at::Tensor in_fp32(const at::Tensor& logits);

/// Returns the mean cross-entropy, {}, of `logits`, {N, C}, against `labels`, int64 {N}, without
/// ignored labels. If `num_items` is defined, returns the sum divided by it. Throws UsageError for
/// a label that is neither a class nor ignored, and for another number of labels.
/// Source: `fixed_cross_entropy` of Transformers.
[[nodiscard]] at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                       const at::Tensor& num_items = {},
                                       std::int64_t ignored = kIgnoredLabel);

/// Returns what a head that classifies rows solves: `problem` (regression,
/// single_label_classification or multi_label_classification). If that is empty, it follows from
/// the number of classes and the type of `labels`.
[[nodiscard]] std::string classification_problem(const std::string& problem, std::int64_t classes,
                                                 const at::Tensor& labels);

/// Returns the loss of a head that classifies rows. `problem`: see classification_problem().
/// logits: {B, C}; labels: {B}, or {B, C} for several labels or targets per row. `num_items`
/// divides the loss of single labels alone.
/// Source: `ForSequenceClassificationLoss`.
[[nodiscard]] at::Tensor sequence_classification_loss(const at::Tensor& logits,
                                                      const at::Tensor& labels,
                                                      const std::string& problem,
                                                      const at::Tensor& num_items);

/// Returns the mean cross-entropy, {}, of `positions`, {B} or {B, 1}, among the places of `logits`,
/// {B, T}. Positions beyond the text are ignored; NaN if all are.
[[nodiscard]] at::Tensor position_loss(const at::Tensor& logits, const at::Tensor& positions);

/// Returns the mean of two losses: for where an answer starts, and for where it ends. See
/// position_loss().
/// Source: `ForQuestionAnsweringLoss`.
[[nodiscard]] at::Tensor question_answering_loss(const at::Tensor& start_logits,
                                                 const at::Tensor& end_logits,
                                                 const at::Tensor& start_positions,
                                                 const at::Tensor& end_positions);

}  // namespace accelerate::detail
