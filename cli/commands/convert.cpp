#include "cli/commands/commands.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/base/untrusted_text.h"
#include "accelerate/formats/weights/mapped_weights.h"

namespace accelerate::cli {
namespace {

namespace fs = std::filesystem;

bool to_one_file(const ConvertOptions& options) {
  return lower(options.destination.extension().string()) == ".safetensors";
}

[[noreturn]] void refuse_taken(const fs::path& path) {
  throw ConfigError("'" + path.string() +
                    "' is there already, and is left as it is: name another destination, or "
                    "replace it with --force");
}

void check_named(const ConvertOptions& options) {
  if (options.source.empty())
    throw ConfigError(
        "SRC is empty: name a file of weights, an index, or a folder. Is a variable "
        "of the shell not set?");
  if (options.destination.empty())
    throw ConfigError(
        "DST is empty: name a *.safetensors file, or a folder. Is a variable of the "
        "shell not set?");
}

void check_destination(const ConvertOptions& options, FileSystem& files) {
  const fs::path& path = options.destination;
  const FileKind kind = files.status(path).kind;
  if (to_one_file(options)) {
    if (options.max_shard_bytes)
      throw ConfigError("--max_shard_size is for a folder, and '" + path.string() +
                        "' is to be one file: leave one of the two out");
    if (kind == FileKind::directory)
      throw ConfigError("'" + path.string() + "' is to be a file, and is a folder");
    if (kind != FileKind::none && !options.force) refuse_taken(path);
    return;
  }
  if (kind == FileKind::none) return;
  if (kind != FileKind::directory)
    throw ConfigError("'" + path.string() +
                      "' is to be a folder, and is a file; a file's name ends in .safetensors");
  if (options.force) return;
  for (const auto& name : files.list(path))
    if (ShardNames().is_own(name)) refuse_taken(path / name);
}

// Tensors that repeat elements of their storage, or share them, are written in full, so a file of a
// few bytes may ask for terabytes. Two cases are usual and allowed: a weight with its transposed
// twin, and small buffers of one number.
void check_size(const ConvertOptions& options, const std::vector<MappedWeight>& weights) {
  if (options.expand) return;
  constexpr std::uint64_t kHarmless = std::uint64_t{1} << 20;
  std::map<std::pair<const FileContent*, std::string>, std::uint64_t> written;
  for (const auto& weight : weights) {
    const TorchTensor& tensor = weight.tensor;
    std::uint64_t& sum = written[{weight.content.get(), tensor.storage}];
    if (!__builtin_add_overflow(sum, tensor.size_bytes(), &sum) &&
        sum <= tensor.storage_bytes + std::max(tensor.storage_bytes, kHarmless))
      continue;
    throw CheckpointError(
        "'" + weight.name +
        "' repeats elements of its storage, or shares them with other tensors: written in full "
        "these take " +
        format_bytes(static_cast<double>(sum)) + ", and the storage has " +
        format_bytes(static_cast<double>(tensor.storage_bytes)) + ". If " +
        options.source.string() + " is to be trusted, pass --expand to write them");
  }
}

WrittenWeights write(const ConvertOptions& options, const MappedWeights& mapped,
                     FileSystem& files) {
  WriteWeightsOptions how;
  how.metadata.insert(mapped.metadata.begin(), mapped.metadata.end());
  how.max_shard_bytes = options.max_shard_bytes.value_or(how.max_shard_bytes);
  const auto sources = weight_sources(mapped.weights);
  return to_one_file(options) ? write_weights_file(sources, options.destination, how, files)
                              : write_weights(sources, options.destination, how, files);
}

bool equal(const TorchTensor& source, const TorchTensor& written) {
  if (source.dtype != written.dtype || source.shape != written.shape) return false;
  bool same = true;
  auto rest = written.bytes;
  source.stream_to([&](std::span<const std::byte> piece) {
    same = same && piece.size() <= rest.size() &&
           (piece.empty() || std::memcmp(piece.data(), rest.data(), piece.size()) == 0);
    rest = rest.subspan(std::min(piece.size(), rest.size()));
  });
  return same && rest.empty();
}

// Reads what was written, as anybody would, and compares it with the source.
void check_written(const ConvertOptions& options, const MappedWeights& mapped, FileSystem& files) {
  const MappedWeights written = map_weight_files(options.destination, {}, files);
  std::map<std::string_view, const TorchTensor*> by_name;
  for (const auto& weight : written.weights) by_name.emplace(weight.name, &weight.tensor);
  bool same = written.weights.size() == mapped.weights.size();
  for (const auto& weight : mapped.weights) {
    const auto found = by_name.find(weight.name);
    same = same && found != by_name.end() && equal(weight.tensor, *found->second);
    if (!same)
      throw CheckpointError("'" + weight.name + "' in " + options.destination.string() +
                            " is not what was written: did something else write there, or is the "
                            "disk damaged?");
  }
}

void describe(const ConvertOptions& options, const std::vector<TiedWeight>& ties,
              const WrittenWeights& written, std::ostream& out) {
  out << count_of(written.tensors, "tensor") << ", "
      << format_bytes(static_cast<double>(written.size_bytes)) << ", equal to those of "
      << options.source.string() << " in every bit\n";
  for (const auto& tie : ties)
    out << "  " << detail::untrusted_line(tie.name) << " is the same memory as "
        << detail::untrusted_line(tie.kept_as) << ", kept once\n";
  const fs::path folder =
      to_one_file(options) ? options.destination.parent_path() : options.destination;
  for (const auto& name : written.files) out << "  " << (folder / name).string() << "\n";
}

constexpr const char* kConvertAbout =
    "Write weights of torch.save, or safetensors, as safetensors files";
constexpr const char* kConvertFooter = R"(
SRC is a file of safetensors or of torch.save (.bin, .pt, .pth, .ckpt; also a TorchScript module or
one saved by LibTorch), an index of several (.index.json), or a folder with model.safetensors,
pytorch_model.bin, or the index of either. Nothing in it is run. DST is a file (*.safetensors), or a
folder, which gets model.safetensors, or shards with an index as Transformers reads them.

Element types stay, tied tensors are written once, and what was written is compared with SRC.
Tensors that repeat elements, or share some, may take more than SRC holds: more than twice as much,
and 1 MiB, is refused unless --expand is given.)";

}  // namespace

int run_convert(const ConvertOptions& options, std::ostream& out) {
  FileSystem& files = real_file_system();
  check_named(options);
  check_destination(options, files);
  MappedWeights mapped = map_weight_files(options.source, {.key = options.key}, files);
  const auto ties = remove_ties(mapped.weights);
  check_size(options, mapped.weights);
  const WrittenWeights written = write(options, mapped, files);
  check_written(options, mapped, files);
  describe(options, ties, written, out);
  return 0;
}

void setup_convert(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("convert", kConvertAbout);
  auto options = std::make_shared<ConvertOptions>();
  command->add_option("SRC", options->source, "What to read")->required()->type_name("");
  command->add_option("DST", options->destination, "What to write")->required()->type_name("");
  command
      ->add_option("--key", options->key,
                   "Take the weights from below this key of the saved dict: state_dict, model, …")
      ->type_name("NAME");
  command
      ->add_option_function<std::string>(
          "--max_shard_size,--max-shard-size",
          [options](const std::string& text) { options->max_shard_bytes = parse_shard_size(text); },
          "Most bytes of a file in a folder [10GB]")
      ->type_name("SIZE");
  command->add_flag("--force", options->force, "Replace weights that are at DST already");
  command->add_flag("--expand", options->expand,
                    "Write tensors that repeat or share elements in full, whatever they take");
  command->footer(kConvertFooter);
  command->callback([options, &exit_code] { exit_code = run_convert(*options, std::cout); });
}

}  // namespace accelerate::cli
