#include "accelerate/base/error_name.h"
#include "accelerate/transformers/models/loading/load_weights.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/tensor/stored_values.h"
#include "accelerate/transformers/models/architecture.h"

namespace accelerate::detail {
namespace {

using Step = GgufNames::Step;

const NamePairs kTokenizerIds{{"tokenizer.ggml.bos_token_id", "bos_token_id"},
                              {"tokenizer.ggml.eos_token_id", "eos_token_id"},
                              {"tokenizer.ggml.unknown_token_id", "unk_token_id"},
                              {"tokenizer.ggml.padding_token_id", "pad_token_id"}};

// Returns the architecture of the file. One that asks for the file's name comes before others.
const Architecture& architecture_of(const GgufFile& file) {
  const std::string said = file.text("general.architecture").value_or(""),
                    name = file.text("general.name").value_or("");
  const Architecture* found = nullptr;
  std::vector<std::string> known;
  for (const Architecture& each : architectures()) {
    if (!each.gguf) continue;
    if (each.gguf->name.empty()) known.emplace_back(each.gguf->architecture);
    if (each.gguf->architecture != said) continue;
    if (each.gguf->name == name) return each;
    if (each.gguf->name.empty()) found = &each;
  }
  if (found != nullptr) return *found;
  throw ConfigError("'" + file.path().string() + "': general.architecture is '" + said +
                        "'; those that are read are " + join(known, ", "),
                    error_name::kUnknownArchitecture);
}

std::optional<std::string_view> second_of(const NamePairs& pairs, std::string_view first) {
  const auto found = std::ranges::find(pairs, first, &NamePairs::value_type::first);
  return found == pairs.end() ? std::nullopt : std::optional(found->second);
}

// The name that a tensor has in Transformers, and what is done to the tensor.
struct Placed {
  std::string name;
  Step step = Step::none;
};

Placed place(const GgufNames& names, const std::string& in_file) {
  constexpr std::string_view kLayer = "blk.";
  const Placed unknown{in_file};
  const std::size_t last = in_file.rfind('.');
  if (last == std::string::npos) return unknown;
  const std::string_view stem = std::string_view(in_file).substr(0, last),
                         suffix = std::string_view(in_file).substr(last);
  if (!stem.starts_with(kLayer)) {
    const auto name = second_of(names.outside, stem);
    return name ? Placed{std::string(*name) + std::string(suffix)} : unknown;
  }
  const std::string_view inside = stem.substr(kLayer.size());
  const std::size_t dot = inside.find('.');
  if (dot == std::string_view::npos) return unknown;
  const std::string_view leaf = inside.substr(dot + 1);
  const auto name = second_of(names.inside, leaf);
  if (!name) return unknown;
  Placed placed{std::string(names.layers) + std::string(inside.substr(0, dot + 1)) +
                std::string(*name) + std::string(suffix)};
  const auto step = names.steps.find(leaf);
  if (step != names.steps.end() && (step->second != Step::transpose || suffix == ".weight"))
    placed.step = step->second;
  return placed;
}

DType dtype_of(GgmlType type) {
  if (type == GgmlType::f16) return DType::f16;
  return type == GgmlType::bf16 ? DType::bf16 : DType::f32;
}

// Returns the elements in the order of the file, in fp32.
at::Tensor values_of(const GgufTensor& tensor, const std::shared_ptr<const FileContent>& content) {
  const GgmlBlock block = block_of(tensor.type);
  if (block.elements == 1) {
    TorchTensor stored;
    stored.dtype = dtype_of(tensor.type);
    stored.shape = tensor.shape;
    stored.strides.assign(tensor.shape.size(), 1);
    for (std::size_t i = tensor.shape.size(); !tensor.bytes.empty() && i-- > 1;)
      stored.strides[i - 1] = stored.strides[i] * stored.shape[i];
    stored.bytes = tensor.bytes;
    stored.storage = tensor.name;
    stored.storage_bytes = tensor.bytes.size();
    return tensor_view(stored, content).to(at::kFloat);
  }
  at::Tensor values = at::empty(tensor.shape, at::kFloat);
  const std::span<float> all(values.mutable_data_ptr<float>(),
                             static_cast<std::size_t>(values.numel()));
  constexpr std::int64_t kBlocksAtOnce = 1024;
  at::parallel_for(
      0, values.numel() / block.elements, kBlocksAtOnce, [&](std::int64_t begin, std::int64_t end) {
        const auto part = [&](auto span, std::int64_t each) {
          return span.subspan(static_cast<std::size_t>(begin * each),
                              static_cast<std::size_t>((end - begin) * each));
        };
        dequantize(tensor.type, part(tensor.bytes, block.bytes), part(all, block.elements));
      });
  return values;
}

struct Entry {
  GgufTensor tensor;
  Step step;
};

class Weights {
 public:
  explicit Weights(const GgufFile& file) : content_(file.content()) {
    const GgufNames& names = *architecture_of(file).gguf;
    const std::string prefix = std::string(names.architecture) + ".attention.";
    heads_ = file.integer(prefix + "head_count").value_or(0);
    key_heads_ = file.integer(prefix + "head_count_kv").value_or(0);
    for (const GgufTensor& tensor : file.tensors()) {
      Placed placed = place(names, tensor.name);
      if (names.adds_one_to_norms && tensor.name.ends_with("norm.weight"))
        placed.step = Step::subtract_one;
      check(file, tensor, placed.step);
      outlines.push_back({placed.name, at::empty(shape_of(tensor, placed.step),
                                                 at::TensorOptions(at::kFloat).device(at::kMeta))});
      entries_.emplace(std::move(placed.name), Entry{tensor, placed.step});
    }
  }

  [[nodiscard]] at::Tensor read(const std::string& name) const {
    const Entry& entry = entries_.at(name);
    const at::Tensor values = values_of(entry.tensor, content_);
    if (entry.step == Step::none) return values;
    if (entry.step == Step::subtract_one) return values - 1;
    if (entry.step == Step::transpose) return values.t().contiguous();
    // llama.cpp rotates pairs of neighbours, Transformers the two halves of a head.
    const auto shape = values.sizes().vec();
    return values.unflatten(0, {heads_of(entry.step), -1, 2}).transpose(1, 2).reshape(shape);
  }

  std::vector<NamedTensor> outlines;

 private:
  // If a count is missing, check() drops the step: Transformers then leaves the rows as they are.
  [[nodiscard]] std::int64_t heads_of(Step step) const {
    return step == Step::interleave_queries ? heads_ : key_heads_;
  }
  static std::vector<std::int64_t> shape_of(const GgufTensor& tensor, Step step) {
    auto shape = tensor.shape;
    if (step == Step::transpose) std::ranges::reverse(shape);
    return shape;
  }
  void check(const GgufFile& file, const GgufTensor& tensor, Step& step) const {
    const auto refuse = [&](const std::string& what) {
      throw CheckpointError("cannot load '" + file.path().string() + "': tensor '" + tensor.name +
                            "' " + what);
    };
    if (step == Step::none || step == Step::subtract_one) return;
    if (step == Step::transpose) {
      if (tensor.shape.size() != 2) refuse("has other than two dimensions");
      return;
    }
    if (heads_ < 1 || key_heads_ < 1) {
      step = Step::none;
    } else if (tensor.shape.empty() || tensor.shape[0] / 2 % heads_of(step) != 0 ||
               tensor.shape[0] % 2 != 0) {
      refuse("has rows that do not divide into " + std::to_string(heads_of(step)) +
             " heads of an even size");
    }
  }

  std::shared_ptr<const FileContent> content_;
  std::int64_t heads_ = 0, key_heads_ = 0;
  std::map<std::string, Entry> entries_;
};

}  // namespace

PretrainedConfig config_of_gguf(const GgufFile& file) {
  const Architecture& architecture = architecture_of(file);
  PretrainedConfig config = PretrainedConfig::from_json("{}", file.path().string());
  const GgufNames& names = *architecture.gguf;
  const std::string name = file.text("general.name").value_or("");
  config.set("model_type", std::string(architecture.model_type));
  if (!name.empty()) config.set("_model_name_or_path", name);
  const std::string prefix = std::string(names.architecture) + ".";
  const auto blocks = file.integer(prefix + "block_count").value_or(0);
  if (blocks < 0 || static_cast<std::size_t>(blocks) > file.tensors().size())
    throw CheckpointError("cannot load '" + file.path().string() + "': it promises " +
                          std::to_string(blocks) + " layers and has " +
                          std::to_string(file.tensors().size()) + " tensors");
  for (const auto& [key, to] : names.integers)
    if (const auto value = file.integer(prefix + std::string(key))) config.set(to, *value);
  for (const auto& [key, to] : names.numbers)
    if (const auto value = file.number(prefix + std::string(key))) config.set(to, *value);
  for (const auto& [key, to] : kTokenizerIds)
    if (const auto value = file.integer(key)) config.set(to, *value);
  if (const auto words = file.length("tokenizer.ggml.tokens");
      words && !config.contains("vocab_size"))
    config.set("vocab_size", static_cast<std::int64_t>(*words));
  config.set("tie_word_embeddings", file.find("output.weight") == nullptr);
  return config;
}

WeightReader weights_of_gguf(const GgufFile& file) {
  const auto weights = std::make_shared<const Weights>(file);
  WeightReader reader;
  reader.outlines = weights->outlines;
  reader.read = [weights](const std::string& name) { return weights->read(name); };
  reader.read_range = [weights](const std::string& name, std::int64_t begin, std::int64_t numel) {
    return weights->read(name).reshape({-1}).narrow(0, begin, numel);
  };
  return reader;
}

}  // namespace accelerate::detail
