#include "accelerate/formats/shards/deepspeed_checkpoint.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/safetensors/safetensors_header.h"
#include "accelerate/formats/shards/deepspeed_layout.h"

namespace accelerate {

using detail::DeepSpeedLayout;
using detail::DeepSpeedValue;
using detail::NamedShape;
using detail::open_deepspeed_file;
using detail::refuse_deepspeed;
using detail::root_of;

namespace {

std::vector<std::vector<NamedShape>> groups_of(const TorchArchive& model) {
  std::vector<std::vector<NamedShape>> groups;
  for (const auto& group : root_of(model).at("param_shapes").items())
    groups.push_back(detail::named_shapes(group));
  return groups;
}

// Throws if a file says that the training had another number of ranks.
void check_ranks(const TorchArchive& archive, const DeepSpeedValue& number, std::size_t ranks) {
  const std::int64_t stated = number.number();
  if (stated == static_cast<std::int64_t>(ranks)) return;
  refuse_deepspeed(archive.path(), "it is of a training on " + std::to_string(stated) + " ranks (" +
                                       number.key + "), but files of " + count_of(ranks, "rank") +
                                       " are there: is one missing, or left from another save?");
}

void check_models(const std::vector<TorchArchive>& models, std::size_t ranks) {
  for (const TorchArchive& model : models) {
    const DeepSpeedValue root = root_of(model);
    if (const auto stated = root.find("dp_world_size"); stated && ranks > 0)
      check_ranks(model, *stated, ranks);
  }
}

int stage_of(const DeepSpeedFiles& files, const std::vector<TorchArchive>& models,
             const std::vector<TorchArchive>& optimizers) {
  if (files.universal) return files.model_by_rank() ? 3 : 1;
  if (optimizers.empty()) {
    if (files.model_by_rank() || root_of(models.front()).find("param_shapes"))
      throw CheckpointError(files.folder.string() +
                            " has no files of the optimizer (…_optim_states.pt), which hold the "
                            "fp32 weights: was the folder copied completely?");
    return 0;
  }
  const auto stated = root_of(optimizers.front()).at("optimizer_state_dict").find("zero_stage");
  const std::int64_t stage = stated ? stated->number() : 1;  // BF16_Optimizer states none.
  if (stage < 1 || stage > 3) stated->refuse("is " + std::to_string(stage) + "; known are 1 to 3");
  if ((stage == 3) != files.model_by_rank())
    refuse_deepspeed(optimizers.front().path(),
                     "it is of ZeRO " + std::to_string(stage) + ", but " +
                         files.models.front().filename().string() + " is not");
  return static_cast<int>(stage);
}

}  // namespace

// Finds the weights among the files of a checkpoint.
class DeepSpeedWeights {
 public:
  DeepSpeedWeights(const DeepSpeedCheckpoint& saved, const DeepSpeedOptions& options)
      : saved_(saved), options_(options) {
    for (const auto* archives : {&saved.models_, &saved.optimizers_})
      for (const TorchArchive& archive : *archives)
        files_.push_back({archive.path(), archive.content()});
  }

  ShardCatalogue find() {
    if (saved_.stage_ == 0) {
      for (const auto& [name, value] : model().at("module").entries()) add_whole(name, value, 0);
    } else {
      add_buffers();
      if (!options_.exclude_frozen_parameters) add_frozen();
      if (saved_.files_.universal)
        add_universal();
      else
        add_trained();
      add_shared();
      if (!options_.exclude_frozen_parameters) add_what_else_the_module_has();
    }
    return ShardCatalogue::assemble(std::move(files_), std::move(parts_));
  }

 private:
  [[nodiscard]] DeepSpeedValue model() const { return root_of(saved_.models_.front()); }

  void add_whole(const std::string& name, const DeepSpeedValue& value, std::size_t file) {
    names_.insert(name);
    parts_.push_back(whole_part(name, value.tensor(), file));
  }

  // DeepSpeed's own merge gives buffers in fp32, whatever they were trained in.
  void add_in_fp32(const std::string& name, const DeepSpeedValue& value, std::size_t file) {
    const auto held = detail::as_fp32(value.tensor());
    if (held == nullptr) return add_whole(name, value, file);
    names_.insert(name);
    files_.push_back({value.archive->path(), held});
    parts_.push_back({.name = name,
                      .dtype = DType::f32,
                      .piece = {whole_tile(value.tensor().shape), files_.size() - 1, held->bytes()},
                      .whole_shape = value.tensor().shape});
  }

  void add_buffers() {
    const auto module = model().at("module");
    const auto tensors = module.entries();
    for (const auto& item : model().at("buffer_names").items()) {
      const auto* name = item.value->as<std::string>();
      if (name == nullptr) item.refuse("is " + item.value->describe() + ", no name");
      const auto found =
          std::ranges::find(tensors, *name, [](const auto& one) { return one.first; });
      if (found != tensors.end()) add_in_fp32(*name, found->second, 0);
    }
  }

  // Of stage 3 each rank has a share of every parameter, of other stages the first rank has all.
  void add_frozen() {
    const auto shapes = model().find("frozen_param_shapes");
    if (!shapes) return;
    const bool cut = saved_.stage_ == 3;
    const std::size_t ranks = cut ? saved_.models_.size() : 1;
    const DeepSpeedLayout layout{.stage = 3, .ranks = ranks, .groups = {}};
    for (const NamedShape& one : detail::named_shapes(*shapes)) {
      names_.insert(one.name);
      if (one.numel == 0) parts_.push_back(empty_part(one));
      for (std::size_t r = 0; one.numel > 0 && r < ranks; ++r) {
        const auto fragment = root_of(saved_.models_[r]).at("frozen_param_fragments").at(one.name);
        const std::int64_t begin =
            std::min(one.numel, static_cast<std::int64_t>(r) * layout.share_of(one));
        const std::int64_t numel = std::min(layout.share_of(one), one.numel - begin);
        FlatElements flat;
        flat.add(fragment.tensor(), r);
        flat.find({one.name, one.shape, begin, numel}, 0, parts_);
      }
    }
  }

  static FoundPart empty_part(const NamedShape& shape) {
    return {.name = shape.name,
            .dtype = DType::f32,
            .piece = {whole_tile(shape.shape), 0, {}},
            .whole_shape = shape.shape};
  }

  void add_trained() {
    const DeepSpeedLayout layout = saved_.layout();
    const char* key = saved_.stage_ == 3 ? "fp32_flat_groups" : "single_partition_of_fp32_groups";
    std::vector<std::vector<DeepSpeedValue>> flats;
    for (const TorchArchive& archive : saved_.optimizers_) {
      const auto groups = root_of(archive).at("optimizer_state_dict").at(key);
      flats.push_back(groups.items());
      if (flats.back().size() != layout.groups.size())
        groups.refuse("has " + count_of(flats.back().size(), "group") + ", param_shapes in " +
                      saved_.models_.front().path().string() + " has " +
                      std::to_string(layout.groups.size()));
    }
    const auto flat_of = [&](std::size_t rank, std::size_t group) {
      return std::optional(flats[rank][group]);
    };
    layout.check(flat_of);
    for (const auto& group : layout.groups)
      for (const NamedShape& one : group) names_.insert(one.name);
    auto found =
        layout.parts(flat_of, [](const std::string& name) { return name; }, saved_.models_.size());
    parts_.insert(parts_.end(), found.begin(), found.end());
  }

  void add_universal() {
    for (const auto& [name, entries] : saved_.universal_) {
      if (names_.contains(name) || !saved_.is_parameter(name) || is_shared(name)) continue;
      const auto fp32 = entries.find("fp32");
      if (fp32 == entries.end())
        throw CheckpointError((saved_.files_.folder / "zero" / name).string() + " has no fp32.pt");
      names_.insert(name);
      files_.push_back({fp32->second.path(), fp32->second.content()});
      parts_.push_back(saved_.universal_part(name, fp32->second, files_.size() - 1));
      parts_.back().name = name;
    }
  }

  // Whether the parameter is another one under a second name.
  [[nodiscard]] bool is_shared(const std::string& name) const {
    const auto shared = model().find("shared_params");
    return shared && shared->find(name).has_value();
  }

  // Gives tied parameters their other names.
  void add_shared() {
    const auto shared = model().find("shared_params");
    if (!shared) return;
    for (const auto& [name, value] : shared->entries()) {
      const auto* source = value.value->as<std::string>();
      if (source == nullptr) value.refuse("is " + value.value->describe() + ", no name");
      if (!names_.contains(*source) || !names_.insert(name).second) continue;
      const std::size_t count = parts_.size();
      for (std::size_t i = 0; i < count; ++i) {
        if (parts_[i].name != *source) continue;
        FoundPart copy = parts_[i];
        copy.name = name;
        parts_.push_back(std::move(copy));
      }
    }
  }

  // ZeRO 1 does not list frozen parameters: the module alone has them.
  void add_what_else_the_module_has() {
    if (saved_.stage_ == 3 || model().find("frozen_param_shapes")) return;
    for (const auto& [name, value] : model().at("module").entries())
      if (!names_.contains(name)) add_whole(name, value, 0);
  }

  const DeepSpeedCheckpoint& saved_;
  const DeepSpeedOptions& options_;
  std::vector<ShardFile> files_;
  std::vector<FoundPart> parts_;
  std::set<std::string> names_;
};

DeepSpeedLayout DeepSpeedCheckpoint::layout() const {
  DeepSpeedLayout layout{
      .stage = stage_ == 3 ? 3 : 1, .ranks = optimizers_.size(), .groups = shapes_};
  const auto paddings =
      root_of(optimizers_.front()).at("optimizer_state_dict").find("param_alignment_paddings");
  if (stage_ == 3 || !paddings) return layout;
  const auto groups = paddings->items();
  if (groups.size() != shapes_.size())
    paddings->refuse("has " + count_of(groups.size(), "group") + ", param_shapes has " +
                     std::to_string(shapes_.size()));
  for (std::size_t g = 0; g < groups.size(); ++g) {
    auto& group = layout.paddings.emplace_back();
    for (const auto& item : groups[g].items()) {
      const std::int64_t padding = item.number();
      if (padding < 0 || padding > std::int64_t{1} << 40)
        item.refuse("is " + std::to_string(padding) + ", no padding");
      group.push_back(padding);
    }
    if (group.size() != shapes_[g].size())
      groups[g].refuse("has " + count_of(group.size(), "entry") + " for " +
                       count_of(shapes_[g].size(), "parameter"));
  }
  return layout;
}

bool DeepSpeedCheckpoint::is_parameter(const std::string& name) const {
  const auto module = model().find("module");
  const auto buffers = model().find("buffer_names");
  if (!module || !buffers) return true;
  for (const auto& item : buffers->items())
    if (const auto* buffer = item.value->as<std::string>(); buffer != nullptr && *buffer == name)
      return false;
  return true;
}

FoundPart DeepSpeedCheckpoint::universal_part(const std::string& name, const TorchArchive& archive,
                                              std::size_t file) const {
  const auto root = root_of(archive);
  const auto param = root.find("param").value_or(root);
  FoundPart part = whole_part(name, param.tensor(), file);
  // Those of ZeRO 3 are flat.
  for (const auto& group : shapes_) {
    for (const NamedShape& one : group) {
      if (one.name != name || bytes_of(part.dtype, one.shape) != part.piece.bytes.size()) continue;
      part.piece.tile = whole_tile(one.shape);
      part.whole_shape = one.shape;
    }
  }
  return part;
}

DeepSpeedCheckpoint DeepSpeedCheckpoint::open(const std::filesystem::path& folder,
                                              const DeepSpeedOptions& options, FileSystem& files) {
  DeepSpeedCheckpoint saved;
  saved.files_ = find_deepspeed_files(files, folder, options.tag);
  for (const auto& path : saved.files_.models)
    saved.models_.push_back(open_deepspeed_file(path, files));
  for (const auto& path : saved.files_.optimizers)
    saved.optimizers_.push_back(open_deepspeed_file(path, files));
  saved.stage_ = stage_of(saved.files_, saved.models_, saved.optimizers_);
  if (saved.files_.universal) saved.open_universal(files);
  if (saved.stage_ > 0) saved.shapes_ = groups_of(saved.models_.front());
  for (const TorchArchive& archive : saved.optimizers_)
    if (!saved.files_.universal)
      check_ranks(archive, root_of(archive).at("optimizer_state_dict").at("partition_count"),
                  saved.optimizers_.size());
  check_models(saved.models_, saved.files_.universal ? 0 : saved.optimizers_.size());
  if (saved.stage_ == 3 && !saved.files_.universal &&
      saved.models_.size() != saved.optimizers_.size())
    throw CheckpointError(saved.files_.folder.string() + " has files of the model of " +
                          count_of(saved.models_.size(), "rank") + " and of the optimizer of " +
                          std::to_string(saved.optimizers_.size()));
  saved.weights_ = DeepSpeedWeights(saved, options).find();
  return saved;
}

void DeepSpeedCheckpoint::open_universal(FileSystem& files) {
  const auto zero = files_.folder / "zero";
  for (const auto& name : files.list(zero)) {
    if (files.status(zero / name).kind != FileKind::directory) continue;
    auto& entries = universal_[name];
    for (const auto& file : files.list(zero / name))
      if (file.ends_with(".pt"))
        entries.emplace(file.substr(0, file.size() - 3),
                        open_deepspeed_file(zero / name / file, files));
  }
  const auto common = zero / "optimizer_state.pt";
  if (files.status(common).kind == FileKind::file)
    optimizers_.push_back(open_deepspeed_file(common, files));
}

}  // namespace accelerate
