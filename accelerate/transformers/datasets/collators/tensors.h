// Converts columns of rows to tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/tensor/inputs.h"
#include "accelerate/transformers/datasets/row.h"
#include "accelerate/transformers/tokenizers/pretrained/pre_trained_tokenizer.h"

namespace accelerate::detail {

/// Stacks a column into {rows} or {rows, length}. Throws UsageError for strings, for lists of
/// unequal length and for missing values.
[[nodiscard]] at::Tensor stacked(const std::vector<Row>& rows, std::string_view name);
[[nodiscard]] at::Tensor tensor_of(const BatchEncoding::Column& column);
/// Returns a column of lists of integers. Throws UsageError for other types.
[[nodiscard]] BatchEncoding::Column integers_of(const std::vector<Row>& rows,
                                                std::string_view name);

/// Pads the columns that pad() knows, and stacks the other columns except `without`.
[[nodiscard]] Inputs padded(const PreTrainedTokenizer& tokenizer, const std::vector<Row>& rows,
                            const TokenizerPadOptions& options, std::string_view without = {});
/// Throws UsageError for a batch without rows.
void check_rows(const std::vector<Row>& rows);
/// Returns "label" if the rows have this column, else "labels".
[[nodiscard]] std::string label_name(const std::vector<Row>& rows);

}  // namespace accelerate::detail
