// What all models have in common.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/hub/push.h"
#include "accelerate/models/config/generation_config.h"
#include "accelerate/models/config/pretrained_config.h"
#include "accelerate/models/generation/generate.h"
#include "accelerate/models/layers/attention.h"
#include "accelerate/models/layers/linear.h"
#include "accelerate/models/model_output.h"
#include "accelerate/models/weight_initialiser.h"
#include "accelerate/tensor/divisible_module.h"
#include "accelerate/tensor/inputs.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate {

struct SavePretrainedOptions {
  /// Of processes that share a disk one writes. accelerator.is_main_process().
  bool is_main_process = true;
  /// Writes one file; empty: atomically, as save_weights(). A lambda over accelerator.save().
  std::function<void(const std::vector<NamedTensor>&, const std::filesystem::path&)> save_function =
      {};
  /// "50GB", "200MB", …, decimal: more is written as shards with an index.
  std::string max_shard_size = "50GB";
  /// Instead of the model's own tensors: accelerator.get_state_dict(model).
  std::optional<std::vector<NamedTensor>> state_dict = {};
};

struct ResizeOptions {
  /// Rounds the number up, for kernels that like multiples of 8 or 64.
  std::optional<std::int64_t> pad_to_multiple_of = {};
  /// New rows are drawn around the mean of the old ones; else as a new model's.
  bool mean_resizing = true;
};

/// A model of Transformers: a plain torch::nn::Module whose parameters have the names of its
/// checkpoints. `AutoModel…::from_pretrained` makes one.
class PreTrainedModel : public torch::nn::Module, public DivisibleModule {
 public:
  /// Tensors by the names that Python's forward gives its arguments: input_ids, attention_mask,
  /// token_type_ids, position_ids, labels, …. Throws UsageError for a name that the model does not
  /// take, and for ids beyond the vocabulary or the positions.
  [[nodiscard]] virtual ModelOutput forward(const Inputs& inputs) = 0;

  /// The names that forward() takes; empty where a model of the user's does not say.
  [[nodiscard]] virtual std::vector<std::string> input_names() const { return {}; }

  [[nodiscard]] const PretrainedConfig& config() const { return config_; }
  /// Where the model without a head stands in one with a head: "bert", as in
  /// "bert.pooler.dense.weight".
  [[nodiscard]] const std::string& base_model_prefix() const { return base_model_prefix_; }

  /// Continues rows of text. inputs: input_ids, int64 {B, T}, and attention_mask, {B, T}, 0 at
  /// padding, which stands on the left; without it tokens that are pad_token_id are padding.
  /// Returns int64 {B · num_return_sequences, length}: the prompts with what follows, filled up
  /// with pad_token_id. What `config` leaves open comes from generation_config.json, or else from
  /// config.json. Draws tokens as Python does, from LibTorch's generator, and leaves train() and
  /// eval() as they are. Throws UsageError for a model without a head for the next token and for
  /// values that are not allowed, ConfigError for a key of the model's that is not built. Local; of
  /// a model whose parameters FSDP has divided, to be called within summon_full_params(). Cost: a
  /// forward over the prompt, then one a token over the token alone; on a CPU in fp32 a token takes
  /// as long as reading the weights.
  [[nodiscard]] at::Tensor generate(const Inputs& inputs, const GenerationConfig& config = {},
                                    const GenerateOptions& options = {});
  /// The values of generation_config.json; nullopt where there was none.
  [[nodiscard]] const std::optional<PretrainedConfig>& generation_config() const {
    return generation_config_;
  }
  void set_generation_config(PretrainedConfig values) { generation_config_ = std::move(values); }

  /// Shares what the configuration ties (an output layer with the embeddings).
  virtual void tie_weights() {}
  /// Writes config.json and the weights into `folder`, as Python's from_pretrained reads them; what
  /// is tied once. Local; of a model whose parameters FSDP has divided, without a `state_dict`,
  /// [collective]: rank 0 fetches one whole tensor after the other. Throws CheckpointError,
  /// ConfigError for a size that is none.
  void save_pretrained(const std::filesystem::path& folder,
                       const SavePretrainedOptions& options = {}) const;
  /// Writes config.json, and generation_config.json if there is one, into `folder`:
  /// save_pretrained() without the weights. Local. Throws FileError.
  void save_config(const std::filesystem::path& folder) const;
  /// save_pretrained() into a repository of the hub, made if there is none, in one commit; what the
  /// hub has already is not sent. A repository without README.md gets one. Local or [collective] as
  /// save_pretrained(), where processes other than the main one get an empty CommitInfo. Throws
  /// what save_pretrained(), create_repo() and upload_folder() throw.
  CommitInfo push_to_hub(const std::string& repo_id, const PushToHubOptions& options = {},
                         const SavePretrainedOptions& saving = {}) const;
  /// Gives the embeddings of words, and the output layer, `tokens` rows: those behind are dropped,
  /// new ones made as Transformers makes them, from LibTorch's generator. To be called before
  /// prepare and before optimizers are made. Throws UsageError for less than one, and for a model
  /// without embeddings of words.
  void resize_token_embeddings(std::int64_t tokens, const ResizeOptions& options = {});
  /// No gradients for the parameters whose names begin with `prefix`; all of them without one.
  void freeze(const std::string& prefix = "");

  /// Whether padding is left out of the computation where the attention mask allows it, which
  /// changes no result at attended places but its rounding. Default true.
  void set_drops_padding(bool drops);
  [[nodiscard]] bool drops_padding() const { return drops_padding_; }
  /// While the model trains, layers keep their inputs alone, and backward computes the rest again:
  /// less memory for a second forward, with the same gradients to the bit. A call that asks for
  /// attention weights or uses a cache keeps all. Gradients of gradients (create_graph) are a
  /// UsageError then. Default: off.
  void gradient_checkpointing_enable() { set_recomputes(true); }
  void gradient_checkpointing_disable() { set_recomputes(false); }
  [[nodiscard]] bool is_gradient_checkpointing() const { return recomputes_; }
  /// While the model trains, embeddings of words get noise, uniform between plus and minus
  /// `alpha` / sqrt(T H) for rows of T tokens and H numbers a token; 0: none. Default: 0.
  /// Source: Jain et al. 2023 (NEFTune).
  void set_embedding_noise(double alpha);
  /// "sdpa", by default, or "eager". Throws UsageError for another word.
  void set_attention(const std::string& name);

  /// Of a model below a head that model's plan, and the head as the last group.
  [[nodiscard]] ParallelPlan parallel_plan() const override;

  /// The embeddings of words. Throws UsageError where a model of the user's has none.
  [[nodiscard]] virtual torch::nn::Embedding input_embeddings();
  /// The layer that gives a score for each word, such as lm_head; empty for other heads.
  [[nodiscard]] virtual detail::Linear output_embeddings() { return nullptr; }
  /// Whether a file's tensor that the model does not have is known to be of no use.
  [[nodiscard]] virtual bool ignores(const std::string& name) const;

  /// Gives the parameters that `wants` names their first values, as Transformers does, from
  /// LibTorch's generator: a module behind its children.
  void initialise(detail::WeightInitialiser::Wants wants);

 protected:
  /// `name`: the class of Transformers, by which configurations call it.
  PreTrainedModel(const std::string& name, PretrainedConfig config, std::string base_model_prefix);
  /// To be called at the end of a constructor: initialises the weights that belong to no model
  /// inside this one, then ties.
  void post_init();
  /// The first values of the parameters of `module` itself, one of those below this model.
  virtual void init_weights(torch::nn::Module& module, detail::WeightInitialiser& initialiser);
  [[nodiscard]] detail::AttentionKind attention_kind() const { return attention_; }
  /// The rows of `table` for `ids`, with the noise of set_embedding_noise(). `length`: T.
  [[nodiscard]] at::Tensor embed(torch::nn::Embedding& table, const at::Tensor& ids,
                                 std::int64_t length) const;
  /// forward(hidden), by `layer` and nothing else of the model; computed again in backward where
  /// that is on. What `forward` captures lives until then.
  [[nodiscard]] at::Tensor run_layer(
      const torch::nn::Module& layer, const at::Tensor& hidden,
      const std::function<at::Tensor(const at::Tensor&)>& forward) const;

 private:
  void set_recomputes(bool recomputes);
  void initialise_below(torch::nn::Module& module, detail::WeightInitialiser& initialiser);

  PretrainedConfig config_;
  std::optional<PretrainedConfig> generation_config_;
  std::string base_model_prefix_;
  bool drops_padding_ = true, recomputes_ = false;
  double embedding_noise_ = 0;
  detail::AttentionKind attention_ = detail::AttentionKind::sdpa;
};

}  // namespace accelerate
