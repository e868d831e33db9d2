// Reads the tensors of a model on the hub.
#include <algorithm>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/formats/safetensors/safetensors_header.h"
#include "accelerate/formats/weights/weight_index.h"
#include "accelerate/transformers/hub/download.h"
#include "accelerate/transformers/hub/file_start.h"
#include "cli/estimate/model_tensors.h"
#include "cli/torch_program/torch_program.h"

namespace accelerate::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

struct Repository {
  const std::string& id;
  HubOptions hub;
};

// Returns the header of a safetensors file. Most headers are shorter than the bytes that the first
// request fetches.
std::string header_of(const Repository& repository, const std::string& file) {
  constexpr std::size_t kLength = 8, kFirst = std::size_t{1} << 18;
  std::string start = read_file_start(repository.id, file, kFirst, repository.hub);
  std::uint64_t length = 0;
  for (std::size_t i = std::min(kLength, start.size()); i-- > 0;)
    length = length << 8 | static_cast<unsigned char>(start[i]);
  const std::string label = "'" + file + "' of " + repository.id;
  if (start.size() < kLength || length > SafetensorsLimits::kHeaderBytes)
    throw CheckpointError(label + " is not a safetensors file");
  if (kLength + length > start.size())
    start = read_file_start(repository.id, file, kLength + length, repository.hub);
  if (kLength + length > start.size()) throw CheckpointError(label + " is cut short");
  const std::string_view json = std::string_view(start).substr(kLength, length);
  return std::string(trim(json));
}

void append_headers(const Repository& repository, const std::string& file, ModelTensors& model) {
  for (const auto& entry : detail::parse_safetensors_header(header_of(repository, file)).tensors)
    model.tensors.push_back(model_tensor(entry));
}

ModelTensors tensors_by_headers(const Repository& repository) {
  ModelTensors model{.source = repository.id, .tensors = {}};
  const auto files = list_repo_files(repository.id, repository.hub).files;
  const auto has = [&](const char* name) { return std::ranges::count(files, name) > 0; };
  if (has(kFile)) {
    append_headers(repository, kFile, model);
    return model;
  }
  if (!has(kIndex))
    throw ConfigError(repository.id +
                      " has neither the configuration of a model that is known here nor weights "
                      "of safetensors: fetch it by `accelerate hub download " +
                      repository.id + "`, and name the file");
  const auto index = read_weight_index(hf_hub_download(repository.id, kIndex, repository.hub));
  for (const std::string& file : index.file_names()) append_headers(repository, file, model);
  return model;
}

bool is_known_type(const fs::path& config) {
  const Node node =
      read_json(read_file(real_file_system(), config, DocumentLimits{}.max_bytes), config.string());
  const Node* type = node.find("model_type");
  const auto known = split(trim(output_of_torch_program({"model-types"})), '\n');
  return type != nullptr && std::ranges::count(known, type->text) > 0;
}

}  // namespace

ModelTensors tensors_of_repository(const std::string& id, const std::string& revision) {
  if (!is_repo_id(id))
    throw ConfigError("'" + id + "' is neither a file nor a folder nor " + detail::kRepoIdRule);
  const Repository repository{
      id,
      {.revision = revision.empty() ? "main" : revision, .show_progress = false, .max_retries = 1}};
  const auto config = fetch_file(id, "config.json", repository.hub);
  if (!config || !has_torch_program() || !is_known_type(*config))
    return tensors_by_headers(repository);
  ModelTensors model = tensors_of_config(*config);
  model.source = "config.json of " + id;
  return model;
}

}  // namespace accelerate::cli
