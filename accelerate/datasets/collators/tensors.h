// Columns of rows as tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/datasets/row.h"
#include "accelerate/tensor/inputs.h"
#include "accelerate/tokenizers/pretrained/pre_trained_tokenizer.h"

namespace accelerate::detail {

/// {rows} or {rows, length} of a column. Throws UsageError for strings, for values of unequal
/// length and for what is missing.
[[nodiscard]] at::Tensor stacked(const std::vector<Row>& rows, std::string_view name);
[[nodiscard]] at::Tensor tensor_of(const BatchEncoding::Column& column);
/// A column of integers. Throws UsageError for another.
[[nodiscard]] BatchEncoding::Column integers_of(const std::vector<Row>& rows,
                                                std::string_view name);

/// The columns that pad() knows filled up, the others but `without` stacked.
[[nodiscard]] Inputs padded(const PreTrainedTokenizer& tokenizer, const std::vector<Row>& rows,
                            const TokenizerPadOptions& options, std::string_view without = {});
/// Throws UsageError for a batch without rows.
void check_rows(const std::vector<Row>& rows);
/// "label" if the rows have it, else "labels".
[[nodiscard]] std::string label_name(const std::vector<Row>& rows);

}  // namespace accelerate::detail
