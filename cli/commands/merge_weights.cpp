#include "cli/commands/commands.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate::cli {
namespace {

constexpr const char* kMergeAbout =
    "Merge the shards of a model into files that every reader understands";
constexpr const char* kMergeFooter = R"(
DIR is a checkpoint of save_state, in shards or not (its checksums are compared first), a folder of
shards of PyTorch's distributed checkpoints (safetensors, or .distcp files with their .metadata), a
state folder that FSDP of Python Accelerate saved, or one with model.safetensors or its index. It
may also be a checkpoint of DeepSpeed (ZeRO 0 to 3 or universal), whose fp32 weights are merged as
its zero_to_fp32.py does. OUT is a folder outside of DIR; it gets model.safetensors, or
several files with an index, as Transformers reads them. Files of an earlier merge there are
replaced. A tensor passes through in pieces: a model may be larger than the memory.)";

void add_flags(CLI::App* command, const std::shared_ptr<MergeCommandOptions>& options) {
  command
      ->add_option_function<std::string>(
          "--max_shard_size,--max-shard-size",
          [options](const std::string& text) {
            options->merge.max_shard_bytes = parse_shard_size(text);
          },
          "Most bytes of a file in OUT [10GB]")
      ->type_name("SIZE");
  command
      ->add_option("--model", options->merge.model,
                   "Which of several models in a checkpoint: model, model_1, …")
      ->type_name("NAME");
  command
      ->add_option("-t,--tag", options->merge.tag,
                   "Which checkpoint of DeepSpeed in DIR; otherwise the one that `latest` names")
      ->type_name("TAG");
  command->add_flag("--exclude_frozen_parameters,--exclude-frozen-parameters",
                    options->merge.exclude_frozen_parameters,
                    "Of a checkpoint of DeepSpeed: leave out what was not trained");
  command->add_flag("--remove_checkpoint_dir,--remove-checkpoint-dir", options->merge.remove_source,
                    "Remove DIR once OUT is on the disk and compared with it");
  command->add_flag(
      "!--unsafe_serialization,!--unsafe-serialization", options->merge.safe_serialization,
      "Write pytorch_model.bin, as torch.save does, for programs that read nothing else");
}

}  // namespace

int run_merge_weights(const MergeCommandOptions& options, std::ostream& out) {
  if (options.source.empty() || options.output.empty())
    throw ConfigError(std::string(options.source.empty() ? "DIR" : "OUT") +
                      " is empty: name a folder. Is a variable of the shell not set?");
  const auto [written, source_files] = merge_weights(options.source, options.output, options.merge);
  out << count_of(written.tensors, "tensor") << ", "
      << format_bytes(static_cast<double>(written.size_bytes)) << ", from "
      << count_of(source_files, "file") << " of " << options.source.string() << "\n";
  for (const auto& name : written.files) out << "  " << (options.output / name).string() << "\n";
  if (options.merge.remove_source) out << "removed " << options.source.string() << "\n";
  return 0;
}

void setup_merge_weights(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("merge-weights", kMergeAbout);
  auto options = std::make_shared<MergeCommandOptions>();
  command->add_option("DIR", options->source, "What to merge")->required()->type_name("");
  command->add_option("OUT", options->output, "Where to write")->required()->type_name("");
  add_flags(command, options);
  command->footer(kMergeFooter);
  command->callback([options, &exit_code] { exit_code = run_merge_weights(*options, std::cout); });
}

}  // namespace accelerate::cli
