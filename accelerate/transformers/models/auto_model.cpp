#include "accelerate/transformers/models/auto_model.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/machine/hardware.h"
#include "accelerate/base/text.h"
#include "accelerate/checkpoint/model_weights.h"
#include "accelerate/launch/config/fsdp_plugin.h"
#include "accelerate/tensor/construction/init_on_device.h"
#include "accelerate/tensor/weights.h"
#include "accelerate/transformers/models/config/limits.h"
#include "accelerate/transformers/models/loading/load_weights.h"

namespace accelerate {
namespace {

using Makers = std::map<std::pair<std::string, Task>, MakeModel>;

// The classes of users, which come before those of the library.
Makers& registered() {
  static Makers all;
  return all;
}

const MakeModel* find_maker(Task task, const std::string& type) {
  if (const auto own = registered().find({type, task}); own != registered().end())
    return &own->second;
  const auto* architecture = detail::find_architecture(type);
  if (architecture == nullptr) return nullptr;
  const auto found = architecture->classes.find(task);
  return found == architecture->classes.end() ? nullptr : &found->second;
}

// Types of Transformers that are not here, and one that is and does the same work.
constexpr std::pair<std::string_view, std::string_view> kInstead[] = {
    {"deberta", "deberta-v2"},
    {"deepseek_v3", "qwen3"},
    {"gemma", "gemma2"},
    {"gemma3n", "gemma3_text"},
    {"gemma3n_text", "gemma3_text"},
    {"gpt_neo", "gpt2"},
    {"gpt_neox", "gpt2"},
    {"gpt_oss", "qwen3"},
    {"granitemoe", "granite"},
    {"llama4", "llama"},
    {"mixtral", "mistral"},
    {"olmo", "olmo2"},
    {"olmoe", "olmo2"},
    {"olmo3", "olmo2"},
    {"opt", "gpt2"},
    {"phi", "phi3"},
    {"phimoe", "phi3"},
    {"qwen2_moe", "qwen2"},
    {"qwen3_moe", "qwen3"},
    {"qwen3_next", "qwen3"},
    {"xlm-roberta-xl", "xlm-roberta"},
    {"longt5", "t5"},
    {"mt5", "t5"},
    {"umt5", "t5"},
    {"led", "bart"},
    {"mbart", "bart"},
    {"pegasus", "bart"},
};

// Names the type among `known` that is nearest to `type`; "" if none is near.
std::string advice_for(const std::string& type, const std::vector<std::string>& known) {
  if (type == "gemma3") {
    return " It reads images too. Its text alone is a 'gemma3_text': in Python, write it by "
           "model.model.language_model.save_pretrained(folder), and open that folder.";
  }
  const auto instead =
      std::ranges::find(kInstead, type, &std::pair<std::string_view, std::string_view>::first);
  if (instead == std::end(kInstead) || std::ranges::find(known, instead->second) == known.end())
    return did_you_mean(type, known);
  return " For the same work take a model of type '" + std::string(instead->second) + "'.";
}

// Says which classes there are for `type`; "" if there is none.
std::string classes_of(const std::string& type) {
  using enum Task;
  constexpr std::pair<Task, std::string_view> kNames[] = {
      {base, "AutoModel"},
      {sequence_classification, "AutoModelForSequenceClassification"},
      {token_classification, "AutoModelForTokenClassification"},
      {question_answering, "AutoModelForQuestionAnswering"},
      {masked_lm, "AutoModelForMaskedLM"},
      {causal_lm, "AutoModelForCausalLM"},
      {multiple_choice, "AutoModelForMultipleChoice"},
      {seq2seq_lm, "AutoModelForSeq2SeqLM"}};
  std::vector<std::string> classes;
  for (const auto& [task, name] : kNames)
    if (find_maker(task, type) != nullptr) classes.emplace_back(name);
  return classes.empty() ? "" : " '" + type + "' has " + join(classes, ", ") + ".";
}

const MakeModel& maker_of(Task task, const PretrainedConfig& config) {
  const std::string type = config.model_type();
  if (const MakeModel* maker = find_maker(task, type)) return *maker;
  const auto known = known_model_types(task);
  throw ConfigError(
      config.name() + ": the model_type is '" + type +
          "'; for this task there are: " + (known.empty() ? "none" : join(known, ", ")) + "." +
          classes_of(type) + advice_for(type, known) + " Or add a class by register_model()",
      error_name::kUnknownArchitecture);
}

// Throws ConfigError if the weights surely take more memory than there is.
void check_fits(const PretrainedConfig& config) {
  const std::string type = config.model_type();
  const auto* architecture = detail::find_architecture(type);
  detail::check_size(config, architecture ? architecture->size_keys : detail::SizeKeys{},
                     memory_bytes());
}

// Where a model comes from: a folder, or a GGUF file in it.
struct Origin {
  std::filesystem::path folder;
  std::optional<GgufFile> gguf;

  Origin(const std::string& name_or_folder, const FromPretrainedOptions& options)
      : folder(detail::fetch_model(name_or_folder, options.hub, options.gguf_file)) {
    if (!options.gguf_file.empty())
      gguf = GgufFile::open(folder / options.gguf_file, copy_on_write_file_system());
  }
  [[nodiscard]] PretrainedConfig config() const {
    return gguf ? detail::config_of_gguf(*gguf)
                : PretrainedConfig::from_pretrained(folder.string());
  }
  [[nodiscard]] WeightReader weights() const {
    return gguf ? detail::weights_of_gguf(*gguf) : weights_at(folder, copy_on_write_file_system());
  }
  [[nodiscard]] std::optional<PretrainedConfig> generation_config() const {
    const char* const kName = "generation_config.json";
    if (gguf || !std::filesystem::is_regular_file(folder / kName)) return std::nullopt;
    return PretrainedConfig::from_pretrained(folder.string(), {}, kName);
  }
  [[nodiscard]] std::string name() const { return gguf ? gguf->path().string() : folder.string(); }
};

void check_is_not_quantised(const PretrainedConfig& config) {
  const auto values = config.section("quantization_config");
  if (!values) return;
  throw ConfigError(config.name() +
                    ": 'quantization_config' says that the weights are stored by '" +
                    values->get<std::string>("quant_method", "a method without a name") +
                    "', which is not read. Take the model as it was before, dequantise it in "
                    "Python, or take a GGUF file by .gguf_file");
}

// Returns `config` with the keys that the architecture reads in place of their aliases.
PretrainedConfig without_aliases(PretrainedConfig config) {
  if (const auto* architecture = detail::find_architecture(config.model_type()))
    for (const auto& [alias, key] : architecture->aliases) config.rename(alias, key);
  return config;
}

PretrainedConfig config_of(const Origin& origin, const FromPretrainedOptions& options) {
  PretrainedConfig config = without_aliases(options.config ? *options.config : origin.config());
  check_is_not_quantised(config);
  if (options.num_labels && !options.id2label.empty() &&
      *options.num_labels != static_cast<std::int64_t>(options.id2label.size())) {
    throw UsageError("num_labels is " + std::to_string(*options.num_labels) +
                     ", and id2label has " + std::to_string(options.id2label.size()) + " names");
  }
  if (options.num_labels) config.set_num_labels(*options.num_labels);
  if (!options.id2label.empty()) config.set_labels(options.id2label);
  return config;
}

// Whether this rank gets its weights from rank 0, when the model is prepared.
bool waits_for_rank_0() {
  return only_rank_zero_loads() && env_int("RANK").value_or(0) != 0;
}

}  // namespace

std::vector<std::string> known_model_types(Task task) {
  std::set<std::string> known;
  for (const auto& architecture : detail::architectures())
    if (architecture.classes.contains(task)) known.emplace(architecture.model_type);
  for (const auto& [key, maker] : registered())
    if (key.second == task) known.insert(key.first);
  return {known.begin(), known.end()};
}

void register_model(const std::string& model_type, Task task, MakeModel make) {
  registered().insert_or_assign({model_type, task}, std::move(make));
}

namespace detail {

std::shared_ptr<PreTrainedModel> model_from_config(Task task, const PretrainedConfig& given) {
  const PretrainedConfig config = without_aliases(given);
  const MakeModel& make = maker_of(task, config);
  const bool takes_memory = !at::empty({0}).is_meta();  // Not within init_empty_weights().
  if (takes_memory) check_fits(config);
  return make(config);
}

std::shared_ptr<PreTrainedModel> model_from_pretrained(Task task, const std::string& name_or_folder,
                                                       const FromPretrainedOptions& options) {
  const Origin origin(name_or_folder, options);
  const PretrainedConfig config = config_of(origin, options);
  const MakeModel& make = maker_of(task, config);
  std::shared_ptr<PreTrainedModel> model;
  {
    // The constructors draw values that are not used: the generator must not advance.
    at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
    const at::Tensor before = generator.get_state();
    const auto scope = init_empty_weights({.include_buffers = true});
    model = make(config);
    generator.set_state(before);
  }
  if (!waits_for_rank_0()) {
    load_pretrained_weights(
        *model, origin.weights(), origin.name(),
        {.dtype = options.dtype, .ignore_mismatched_sizes = options.ignore_mismatched_sizes});
  }
  if (auto values = origin.generation_config()) model->set_generation_config(std::move(*values));
  model->set_attention(options.attn_implementation);
  model->eval();
  return model;
}

}  // namespace detail
}  // namespace accelerate
