// The text model of Gemma 3: Gemma 2 with a norm of each query and key, and with rotary embeddings
// of their own for layers that have a window. Source: Gemma Team 2025; `modeling_gemma3.py`.
#include <utility>

#include "accelerate/transformers/models/architectures/decoders/gemma2.h"

namespace accelerate::detail {
namespace {

// Layers without a window read `rope_theta` and `rope_scaling` of older files, layers with a window
// read `rope_local_base_freq`.
Rotary gemma3_rotary(const PretrainedConfig& config, Rotary::Model model) {
  const std::string type = *model.layer_types.begin();
  const bool is_full = type == "full_attention";
  const auto all = config.section("rope_parameters");
  for (const std::string& key : all ? all->keys() : std::vector<std::string>()) {
    if (key == "full_attention" || key == "sliding_attention") continue;
    all->refuse(key, "a rotary embedding under full_attention, and one under sliding_attention");
  }
  const auto given = all ? all->section(type) : std::nullopt;
  PretrainedConfig own = given.value_or(PretrainedConfig());
  if (const auto scaling = config.section("rope_scaling"); is_full && scaling) own.update(*scaling);
  PretrainedConfig with_own = config;
  for (const char* key : {"rope_scaling", "original_max_position_embeddings"}) with_own.erase(key);
  with_own.set_section("rope_parameters", own);
  model.theta_key = is_full ? "rope_theta" : "rope_local_base_freq";
  model.default_theta = is_full ? 1e6 : 1e4;
  return {with_own, model};
}

}  // namespace

Architecture gemma3_text() {
  GemmaFamily family{.class_prefix = "Gemma3",
                     .model_prefix = "Gemma3Text",
                     .has_pattern = true,
                     .caps_scores = false,
                     .has_query_norms = true,
                     .rotary = gemma3_rotary};
  family.defaults.vocab_size = 262208;
  family.defaults.max_position_embeddings = 131072;
  family.defaults.sliding_window_pattern = 6;
  family.defaults.final_logit_softcapping.reset();
  Architecture made = gemma_like("gemma3_text", family);
  made.classes.erase(Task::token_classification);
  made.gguf->architecture = "gemma3";
  made.gguf->inside.insert(made.gguf->inside.end(), {{"attn_q_norm", "self_attn.q_norm"},
                                                     {"attn_k_norm", "self_attn.k_norm"}});
  return made;
}

}  // namespace accelerate::detail
