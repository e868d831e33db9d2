#include "cli/estimate/model_tensors.h"

#include <algorithm>
#include <array>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/formats/gguf/gguf.h"
#include "accelerate/formats/weights/mapped_weights.h"
#include "cli/torch_program/torch_program.h"

namespace accelerate::cli {
namespace {

namespace fs = std::filesystem;

bool is_floating(DType dtype) {
  constexpr std::array kWhole = {DType::boolean, DType::u8,  DType::i8,  DType::i16, DType::u16,
                                 DType::i32,     DType::u32, DType::i64, DType::u64};
  return std::ranges::find(kWhole, dtype) == kWhole.end();
}

ModelTensors tensors_of_gguf(const fs::path& path) {
  ModelTensors model{.source = path.string(), .tensors = {}};
  const auto file = GgufFile::open(path);
  for (const GgufTensor& tensor : file.tensors())
    model.tensors.push_back(model_tensor({tensor.name, DType::f32, tensor.shape}));
  return model;
}

ModelTensors tensors_of_weights(const fs::path& path) {
  auto mapped = map_weight_files(path);
  (void)remove_ties(mapped.weights);
  ModelTensors model{.source = path.string(), .tensors = {}};
  for (const MappedWeight& weight : mapped.weights)
    model.tensors.push_back(model_tensor({weight.name, weight.tensor.dtype, weight.tensor.shape}));
  return model;
}

bool is_file(const fs::path& path) {
  return real_file_system().status(path).kind == FileKind::file;
}

// Returns the one GGUF file in a folder; empty if none.
fs::path gguf_in(const fs::path& folder) {
  fs::path found;
  for (const std::string& name : real_file_system().list(folder)) {
    if (lower(fs::path(name).extension().string()) != ".gguf") continue;
    if (!found.empty())
      throw ConfigError(folder.string() + " has several GGUF files: name one of them");
    found = folder / name;
  }
  return found;
}

bool has_weights(const fs::path& folder) {
  return std::ranges::any_of(std::array{"model.safetensors", "model.safetensors.index.json",
                                        "pytorch_model.bin", "pytorch_model.bin.index.json"},
                             [&](const char* name) { return is_file(folder / name); });
}

// Quantised weights are packed into other types, so their elements are not the model's elements.
bool is_quantised(const fs::path& config) {
  if (!is_file(config)) return false;
  const std::string text = read_file(real_file_system(), config, DocumentLimits{}.max_bytes);
  const Node values = read_json(text, config.string());
  const Node* quantised = values.find("quantization_config");
  return quantised != nullptr && !quantised->is_null();
}

ModelTensors tensors_of_folder(const fs::path& folder) {
  if (is_quantised(folder / "config.json")) return tensors_of_config(folder / "config.json");
  if (has_weights(folder)) return tensors_of_weights(folder);
  if (const fs::path gguf = gguf_in(folder); !gguf.empty()) return tensors_of_gguf(gguf);
  if (is_file(folder / "config.json")) return tensors_of_config(folder / "config.json");
  throw ConfigError(folder.string() +
                    " has no model: none of model.safetensors, pytorch_model.bin, the .index.json "
                    "of either, a GGUF file, config.json");
}

// Reads lines with tabs: "T", name, elements, bytes, "parameter" or "buffer"; or "U", module. Bytes
// are 4 an element, or the size that an integer buffer has.
ModelTensors read_listing(const std::string& listing, const fs::path& config) {
  ModelTensors model{.source = config.string(), .tensors = {}};
  model.undivided.emplace();
  for (const std::string& line : split(trim(listing), '\n')) {
    const auto cells = split(line, '\t');
    if (cells.size() == 2) model.undivided->push_back(cells[1]);
    if (cells.size() != 5) continue;
    model.tensors.push_back({cells[1], static_cast<std::uint64_t>(parse_int(cells[2]).value_or(0)),
                             static_cast<std::uint64_t>(parse_int(cells[3]).value_or(0)),
                             cells[4] == "parameter"});
  }
  return model;
}

}  // namespace

ModelTensor model_tensor(const TensorSpec& spec) {
  constexpr std::uint64_t kOfFloat = 4;
  std::uint64_t elements = 1;
  for (const std::int64_t size : spec.shape)
    if (size < 0 || __builtin_mul_overflow(elements, static_cast<std::uint64_t>(size), &elements))
      throw CheckpointError("'" + spec.name + "' has a shape that no memory holds");
  if (is_floating(spec.dtype)) return {spec.name, elements, elements * kOfFloat, true};
  return {spec.name, elements, bytes_of(spec.dtype, spec.shape).value_or(elements), false};
}

ModelTensors tensors_of_files(const fs::path& path) {
  const FileKind kind = real_file_system().status(path).kind;
  if (kind == FileKind::directory) return tensors_of_folder(path);
  if (lower(path.extension().string()) == ".gguf") return tensors_of_gguf(path);
  const bool is_config =
      lower(path.extension().string()) == ".json" && !path.string().ends_with(".index.json");
  return is_config ? tensors_of_config(path) : tensors_of_weights(path);
}

ModelTensors tensors_of_config(const fs::path& config) {
  return read_listing(output_of_torch_program({"model-tensors", config.string()}), config);
}

ModelTensors tensors_of(const std::string& model, const std::string& revision) {
  if (model.empty())
    throw ConfigError("MODEL is empty: name a file, a folder or a model of the hub");
  if (real_file_system().status(model).kind != FileKind::none) return tensors_of_files(model);
  return tensors_of_repository(model, revision);
}

}  // namespace accelerate::cli
