#include "accelerate/transformers/models/architectures/text_model.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/tensor/compat/matrix_products.h"

namespace accelerate {
namespace {

using Field = at::Tensor TextInputs::*;

constexpr std::array<std::pair<std::string_view, Field>, 12> kFields{{
    {"input_ids", &TextInputs::input_ids},
    {"attention_mask", &TextInputs::attention_mask},
    {"token_type_ids", &TextInputs::token_type_ids},
    {"position_ids", &TextInputs::position_ids},
    {"labels", &TextInputs::labels},
    {"start_positions", &TextInputs::start_positions},
    {"end_positions", &TextInputs::end_positions},
    {"num_items_in_batch", &TextInputs::num_items_in_batch},
    {"cu_seq_lens_q", &TextInputs::cu_seq_lens_q},
    {"decoder_input_ids", &TextInputs::decoder_input_ids},
    {"decoder_attention_mask", &TextInputs::decoder_attention_mask},
    {"encoder_outputs", &TextInputs::encoder_outputs},
}};
constexpr std::size_t kOrdinary = 9;  // The fields before those of encoder-decoder models.

// Tensors of a flattened batch that are not read, as position_ids or cu_seq_lens_q say the same.
constexpr std::array<std::string_view, 4> kSaidTwice{"cu_seq_lens_k", "max_length_q",
                                                     "max_length_k", "seq_idx"};

}  // namespace

std::vector<std::string> TextInputs::names() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kOrdinary; ++i) names.emplace_back(kFields[i].first);
  return names;
}

TextInputs TextInputs::of(const Inputs& inputs, const std::vector<std::string>& allowed) {
  TextInputs found;
  for (const auto& [name, tensor] : inputs) {
    const auto field = std::ranges::find(kFields, name, &std::pair<std::string_view, Field>::first);
    if (std::ranges::find(kSaidTwice, name) != kSaidTwice.end()) continue;
    if (field == kFields.end() || std::ranges::find(allowed, name) == allowed.end()) {
      throw UsageError("the model was given '" + name + "'; it takes " + join(allowed, ", ") +
                       ". Leave the column out by remove_columns or set_format");
    }
    found.*field->second = tensor;
  }
  if (!found.input_ids.defined() && !found.encoder_outputs.defined())
    throw UsageError("the model was given no input_ids");
  return found;
}

ModelOutput TextModel::forward(const TextInputs& inputs) {
  const compat::MatrixProducts products;
  ModelOutput output = output_of(inputs);
  visit_tensors(output, compat::MatrixProducts::extend_to_backward_of);
  return output;
}

}  // namespace accelerate
