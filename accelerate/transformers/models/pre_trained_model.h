// What all models have in common.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/tensor/divisible_module.h"
#include "accelerate/tensor/inputs.h"
#include "accelerate/tensor/module_view.h"
#include "accelerate/transformers/hub/push.h"
#include "accelerate/transformers/models/config/generation_config.h"
#include "accelerate/transformers/models/config/pretrained_config.h"
#include "accelerate/transformers/models/layers/attention.h"
#include "accelerate/transformers/models/layers/linear.h"
#include "accelerate/transformers/models/model_output.h"
#include "accelerate/transformers/models/weight_initialiser.h"
#include "accelerate/transformers/tokenizers/pretrained/pre_trained_tokenizer.h"

namespace accelerate {

struct WeightReader;

struct SavePretrainedOptions {
  /// Whether this process writes. Only one of the processes that share a disk should write: pass
  /// accelerator.is_main_process().
  bool is_main_process = true;
  /// Writes one file, as a lambda that calls accelerator.save() does. If empty, files are written
  /// atomically, as by save_weights().
  std::function<void(const std::vector<NamedTensor>&, const std::filesystem::path&)> save_function =
      {};
  /// The largest size of a file, "50GB", "200MB", …, in decimal units. More is written as shards
  /// with an index.
  std::string max_shard_size = "50GB";
  /// Whether the files are safetensors, or pytorch_model.bin of torch.save, which torch.load reads.
  bool safe_serialization = true;
  /// Written instead of the model's own tensors: accelerator.get_state_dict(model).
  std::optional<std::vector<NamedTensor>> state_dict = {};
};

/// Options of a call of generate(), besides its GenerationConfig.
struct GenerateOptions {
  /// Decodes tokens for stop_strings and stream_text, which need it.
  std::optional<PreTrainedTokenizer> tokenizer = {};
  /// Called with the new tokens of all rows, int64 {rows} on the CPU, as soon as they are there.
  /// Not allowed with a beam search, which knows its tokens only at its end.
  std::function<void(const at::Tensor& tokens)> stream_tokens = {};
  /// Called with new text, without special tokens: whole words, and the rest at the end. Allowed
  /// for one row only.
  std::function<void(std::string_view text)> stream_text = {};
};

struct ResizeOptions {
  /// Rounds the number of rows up, for kernels that are faster with multiples of 8 or 64.
  std::optional<std::int64_t> pad_to_multiple_of = {};
  /// Whether new rows are drawn around the mean of the old ones, instead of as in a new model.
  bool mean_resizing = true;
};

/// A tensor that Python's class keeps beside its parameters.
struct PythonBuffer {
  std::string name;
  at::ScalarType type;
  std::int64_t elements;
};

/// A model of Transformers: a plain torch::nn::Module whose parameters have the names of its
/// checkpoints. `AutoModel…::from_pretrained` makes one.
class PreTrainedModel : public torch::nn::Module, public DivisibleModule {
 public:
  /// Computes the output of the model. `inputs` holds tensors under the names of the arguments of
  /// Python's forward: input_ids, attention_mask, token_type_ids, position_ids, labels, …. Throws
  /// UsageError for a name that the model does not take, and for ids beyond the vocabulary or the
  /// positions.
  [[nodiscard]] virtual ModelOutput forward(const Inputs& inputs) = 0;

  /// The names that forward() takes; empty if a user's model does not override this.
  [[nodiscard]] virtual std::vector<std::string> input_names() const { return {}; }

  [[nodiscard]] const PretrainedConfig& config() const { return config_; }
  /// The name of the model without a head within a model with a head: "bert", as in
  /// "bert.pooler.dense.weight".
  [[nodiscard]] const std::string& base_model_prefix() const { return base_model_prefix_; }

  /// Continues rows of text. inputs: input_ids, int64 {B, T}, and attention_mask, {B, T}, 0 at
  /// padding, which must be on the left. Without a mask, tokens equal to pad_token_id are padding,
  /// unless pad_token_id is an eos_token_id too.
  /// An encoder-decoder model reads input_ids, padded on either side; without a mask it reads all
  /// tokens. It continues decoder_input_ids, or else begins with decoder_start_token_id.
  /// Returns int64 {B · num_return_sequences, length}: each prompt with its continuation, filled up
  /// with pad_token_id. Values that `config` does not set come from generation_config.json, or else
  /// from config.json. Draws tokens as Python does, from LibTorch's generator. Does not change the
  /// mode of train() and eval().
  /// Local. If FSDP has divided the parameters, call it within summon_full_params().
  /// Throws UsageError for a model without a head for the next token, and for values that are not
  /// allowed; ConfigError for a key of the model's configuration that is not supported.
  /// Cost: one forward over the prompt, then for each token one forward over that token alone. On a
  /// CPU in fp32 a token takes as long as reading the weights.
  [[nodiscard]] at::Tensor generate(const Inputs& inputs, const GenerationConfig& config = {},
                                    const GenerateOptions& options = {});
  /// The values of generation_config.json; nullopt if there was no such file.
  [[nodiscard]] const std::optional<PretrainedConfig>& generation_config() const {
    return generation_config_;
  }
  void set_generation_config(PretrainedConfig values) { generation_config_ = std::move(values); }

  /// Shares the parameters that the configuration ties, such as output layer and embeddings.
  virtual void tie_weights() {}
  /// Writes config.json and the weights into `folder`, as Python's from_pretrained reads them. Tied
  /// weights are written once. Local; but [collective] if FSDP has divided the parameters and there
  /// is no `state_dict`: rank 0 then fetches one whole tensor after the other. Throws
  /// CheckpointError, and ConfigError for a max_shard_size that is not valid.
  void save_pretrained(const std::filesystem::path& folder,
                       const SavePretrainedOptions& options = {}) const;
  /// Writes config.json, and generation_config.json if there is one, into `folder`:
  /// save_pretrained() without the weights. Local. Throws FileError.
  void save_config(const std::filesystem::path& folder) const;
  /// Uploads what save_pretrained() writes to a repository of the hub, in one commit. Creates the
  /// repository if there is none, adds a README.md if it lacks one, and does not send what the hub
  /// has already. Local or [collective], as save_pretrained(); processes other than the main one
  /// return an empty CommitInfo. Throws what save_pretrained(), create_repo() and upload_folder()
  /// throw.
  CommitInfo push_to_hub(const std::string& repo_id, const PushToHubOptions& options = {},
                         const SavePretrainedOptions& saving = {}) const;
  /// Gives the word embeddings and the output layer `tokens` rows. Drops the rows beyond that
  /// number, or draws new rows as Transformers does, from LibTorch's generator. Must be called
  /// before prepare() and before optimizers are made. Throws UsageError for less than one token,
  /// and for a model without word embeddings.
  void resize_token_embeddings(std::int64_t tokens, const ResizeOptions& options = {});
  /// Switches gradients off for the parameters whose names begin with `prefix`; for all if it is
  /// empty. Throws UsageError if there is no such parameter.
  void freeze(const std::string& prefix = "");

  /// Sets whether padding is left out of the computation where the attention mask allows it.
  /// Results at attended places change only in rounding. Default: true.
  void set_drops_padding(bool drops);
  [[nodiscard]] bool drops_padding() const { return drops_padding_; }
  /// While the model trains, layers keep only their inputs, and backward computes the rest again.
  /// This saves memory at the cost of a second forward; gradients are the same to the bit. A call
  /// that asks for attention weights or uses a cache keeps everything. Gradients of gradients
  /// (create_graph) then throw UsageError. Default: off.
  void gradient_checkpointing_enable() { set_recomputes(true); }
  /// As gradient_checkpointing_enable(). False where layers share weights: under autocast, the
  /// gradients of a layer's calls would be added in another type.
  bool compute_layers_again() override;
  void gradient_checkpointing_disable() { set_recomputes(false); }
  [[nodiscard]] bool is_gradient_checkpointing() const { return recomputes_; }
  /// While the model trains, adds noise to word embeddings: uniform between plus and minus
  /// `alpha` / sqrt(T H), for rows of T tokens and H numbers per token. 0: no noise. Default: 0.
  /// Source: Jain et al. 2023 (NEFTune).
  void set_embedding_noise(double alpha);
  /// Sets how attention is computed: "sdpa", the default, or "eager". Throws UsageError for another
  /// word.
  void set_attention(const std::string& name);

  /// Returns the plan of the model below the head, with the head as the last group of the pipeline.
  [[nodiscard]] ParallelPlan parallel_plan() const override;

  /// For estimates of what Python's class takes: its buffers, which we compute where they are
  /// needed, and its _no_split_modules.
  [[nodiscard]] virtual std::vector<PythonBuffer> python_buffers() const { return {}; }
  [[nodiscard]] virtual std::vector<std::string> python_no_split_modules() const {
    return no_split_modules();
  }

  /// The word embeddings. Throws UsageError if a user's model does not override this.
  [[nodiscard]] virtual torch::nn::Embedding input_embeddings();
  /// The layer that gives a score for each word, such as lm_head; empty for other heads.
  [[nodiscard]] virtual detail::Linear output_embeddings() { return nullptr; }
  /// A bias for each word that checkpoints hold beside the bias of output_embeddings(); undefined
  /// for most models.
  [[nodiscard]] virtual at::Tensor second_output_bias() { return {}; }
  /// Returns what the decoder of an encoder-decoder model reads so that it predicts `labels`, int64
  /// {B, T}: the `prepare_decoder_input_ids` of DataCollatorForSeq2Seq. Throws UsageError for other
  /// models.
  [[nodiscard]] virtual at::Tensor prepare_decoder_input_ids_from_labels(
      const at::Tensor& labels) const;
  /// Called before `weights` are loaded. Unties what they have with different values, in models whose
  /// configuration does not say what is tied.
  virtual void untie_as(const WeightReader& /*weights*/) {}
  /// Whether the parameter `name` has fp32 in a model that is loaded in fp16.
  [[nodiscard]] virtual bool stays_in_fp32(const std::string& /*name*/) const { return false; }
  /// Called by resize_token_embeddings(): resizes what else has a number for each word.
  virtual void resize_offsets(std::int64_t /*tokens*/) {}
  /// Whether the tensor `name` of a file, which the model does not have, is known to be unneeded.
  [[nodiscard]] virtual bool ignores(const std::string& name) const;

  /// Initialises the parameters for which `wants` is true, as Transformers does, from LibTorch's
  /// generator. Each module comes after its children.
  void initialise(detail::WeightInitialiser::Wants wants);

 protected:
  /// Whether one layer is called several times.
  [[nodiscard]] virtual bool shares_layers() const { return false; }
  /// `name`: Transformers' class, as config.json has it under `architectures`.
  PreTrainedModel(const std::string& name, PretrainedConfig config, std::string base_model_prefix);
  /// Must be called at the end of a constructor. Initialises the weights that belong to no model
  /// inside this one, then ties weights.
  void post_init();
  /// Initialises the parameters of `module`, without its children: this model or a module below it.
  virtual void init_weights(torch::nn::Module& module, detail::WeightInitialiser& initialiser);
  [[nodiscard]] detail::AttentionKind attention_kind() const { return attention_; }
  /// Returns the rows of `table` for `ids`, with the noise of set_embedding_noise(). `length`: T.
  [[nodiscard]] at::Tensor embed(torch::nn::Embedding& table, const at::Tensor& ids,
                                 std::int64_t length) const;
  /// Returns forward(inputs), which must use no part of the model but `layer`, and of the results of
  /// other parts `inputs` alone. With gradient checkpointing, backward computes it again: what
  /// `forward` captures must live until then. `shared`: parameters elsewhere that `forward` reads
  /// too.
  [[nodiscard]] at::Tensor run_layer(
      const torch::nn::Module& layer, const std::vector<at::Tensor>& inputs,
      const std::function<at::Tensor(const std::vector<at::Tensor>&)>& forward,
      const std::vector<at::Tensor>& shared = {}) const;
  /// The standard deviation of new weights.
  [[nodiscard]] virtual double usual_deviation() const;

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
