#include "accelerate/checkpoint/python/python_folder.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

#include "accelerate/formats/manifest.h"
#include "accelerate/formats/shards/deepspeed_files.h"

namespace accelerate {
namespace {

// Whether Python's Trainer, or a model or tokenizer that it saves, writes files of that name.
bool is_name_of_python_trainer(const std::string& name) {
  constexpr std::array kExact = {"trainer_state.json",
                                 "training_args.bin",
                                 "README.md",
                                 "checkpoint-is-incomplete.txt",
                                 "latest",
                                 "zero_to_fp32.py",
                                 "zero_to_torch.py",
                                 "config.json",
                                 "generation_config.json",
                                 "adapter_config.json",
                                 "tokenizer.json",
                                 "tokenizer_config.json",
                                 "special_tokens_map.json",
                                 "added_tokens.json",
                                 "vocab.json",
                                 "vocab.txt",
                                 "merges.txt",
                                 "spiece.model",
                                 "sentencepiece.bpe.model",
                                 "tokenizer.model",
                                 "chat_template.jinja",
                                 "chat_template.json",
                                 "preprocessor_config.json",
                                 "processor_config.json",
                                 "pytorch_model_fsdp_0"};
  if (std::ranges::any_of(kExact, [&](const char* exact) { return name == exact; })) return true;
  const auto is = [&](std::string_view begin, std::initializer_list<std::string_view> ends) {
    return name.starts_with(begin) &&
           std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); });
  };
  return is("model", {".safetensors", ".safetensors.index.json"}) ||
         is("adapter_model", {".safetensors", ".bin"}) ||
         is("pytorch_model", {".bin", ".bin.index.json"}) ||
         is("optimizer", {".pt", ".bin", "_0"}) || is("scheduler", {".pt", ".bin"}) ||
         is("scaler", {".pt"}) || is("sampler", {".bin"}) || is("rng_state", {".pth"}) ||
         is("random_states", {".pkl"}) || is("custom_checkpoint", {".pkl"}) ||
         name.starts_with("global_step");
}

}  // namespace

std::set<std::string> python_names_in(FileSystem& files, const std::filesystem::path& folder) {
  const auto all = files.list(folder);
  return {all.begin(), all.end()};
}

bool is_of_python_trainer(const std::set<std::string>& names) {
  return names.contains("trainer_state.json");
}

StateWriter writer_of(FileSystem& files, const std::filesystem::path& folder) {
  if (files.status(folder).kind != FileKind::directory) return StateWriter::this_library;
  const auto names = python_names_in(files, folder);
  // A checkpoint of ours that has lost its manifest is damaged, not one of Python's.
  if (names.contains(Manifest::kName) || names.contains("accelerator.json"))
    return StateWriter::this_library;
  if (is_of_python_trainer(names)) return StateWriter::python_trainer;
  constexpr std::array kTelling = {"optimizer.bin", "scheduler.bin", "random_states_0.pkl",
                                   "scaler.pt", "custom_checkpoint_0.pkl"};
  const auto is_fsdps = [](const std::string& name) {
    return name.starts_with("pytorch_model_fsdp");
  };
  return std::ranges::any_of(kTelling, [&](const char* name) { return names.contains(name); }) ||
                 std::ranges::any_of(names, is_fsdps) || holds_deepspeed(files, folder)
             ? StateWriter::python_accelerate
             : StateWriter::this_library;
}

bool is_python_checkpoint_alone(FileSystem& files, const std::filesystem::path& folder,
                                std::string& other) {
  if (writer_of(files, folder) != StateWriter::python_trainer) return false;
  const auto names = python_names_in(files, folder);
  const auto found = std::ranges::find_if_not(names, is_name_of_python_trainer);
  if (found == names.end()) return true;
  other = *found;
  return false;
}

}  // namespace accelerate
