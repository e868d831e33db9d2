#include "accelerate/formats/shards/state_for_deepspeed.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "accelerate/base/durable_directories.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/shards/convertible_checkpoint.h"
#include "accelerate/formats/shards/python_values.h"
#include "accelerate/formats/shards/shard_catalogue.h"
#include "accelerate/formats/shards/shard_files.h"
#include "accelerate/formats/shards/value_archive.h"
#include "accelerate/formats/torch_archive/pickle_writer.h"
#include "accelerate/formats/torch_archive/torch_archive_writer.h"

namespace accelerate {
namespace {

using namespace detail::pickling;
using detail::ConvertibleCheckpoint;
using detail::python_value;
using Path = std::filesystem::path;

constexpr const char* kUniversalVersion = "0.19.8";  // Of the DeepSpeed whose format it is.

// Parameters become folders.
void require_name_of_folder(const std::string& name) {
  if (!name.empty() && name != "." && name != ".." &&
      name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos)
    return;
  throw CheckpointError("a parameter is called '" + name +
                        "', which is no name of a folder; rename it in the model");
}

std::string step_tensor() {
  return tensor({"step", DType::f32, {}}, 0);
}

ByteSource bytes_of_step(const float& step) {
  return [&step](const ByteSink& sink) { sink(std::as_bytes(std::span(&step, 1))); };
}

// A model with its optimizer: an engine of DeepSpeed.
class Engine {
 public:
  Engine(ConvertibleCheckpoint& source, int number, FileSystem& files)
      : source_(source),
        number_(number),
        files_(files),
        model_stem_(ConvertibleCheckpoint::numbered("model", number)),
        optimizer_stem_(ConvertibleCheckpoint::numbered("optimizer", number)),
        model_(ShardCatalogue::open(source.tensor_files_of(model_stem_), files)),
        state_(source.state_of(optimizer_stem_)) {
    require_known_optimizer();
    for (const auto& tensor : model_.tensors())
      tensors_.emplace(name_from_shards(model_stem_, tensor.name), &tensor);
    if (const Node* groups = state_.find("param_groups")) groups_ = groups->items;
    for (const Node& group : groups_)
      if (const Node* names = group.find("params"))
        for (const auto& name : names->items)
          trained_.insert(ConvertibleCheckpoint::plain(name.text));
  }

  void write(const Path& folder) {
    create_directories_durably(files_, folder / "zero");
    for (const auto& name : trained_) write_weight(folder / "zero", name);
    write_states(folder / "zero");
    write_common(folder / "zero" / "optimizer_state.pt");
    // Under ZeRO 3 DeepSpeed asks for the second.
    for (const char* prefix : {"", "zero_pp_rank_0_"})
      write_model(folder / (std::string(prefix) + "mp_rank_00_model_states.pt"));
  }

 private:
  // What is read of the others by DeepSpeed depends on its version.
  void require_known_optimizer() const {
    const Node* kind = state_.find("class");
    constexpr std::array kKnown{"Adam", "AdamW", "SGD", "Adagrad", "Lion"};
    if (kind == nullptr || std::ranges::find(kKnown, kind->text) != kKnown.end()) return;
    throw CheckpointError(
        optimizer_stem_ + ".json has the state of " + kind->text +
            "; a universal checkpoint is written of Adam, AdamW, SGD, Adagrad and Lion. Let "
            "DeepSpeed begin with the weights alone.",
        error_name::kOtherOptimizer);
  }

  [[nodiscard]] const ShardedTensor& weight(const std::string& name) const {
    const auto found = tensors_.find(name);
    if (found != tensors_.end()) return *found->second;
    throw CheckpointError("the optimizer steps '" + name + "', which the model does not have");
  }

  void write_tensor(const Path& path, const ShardedTensor& tensor) const {
    TorchArchiveWriter writer(files_, path, {{"param", tensor.dtype, tensor.shape}});
    writer.append([&](const ByteSink& sink) { ShardCatalogue::stream(tensor, sink); });
    writer.commit();
  }

  void write_weight(const Path& zero, const std::string& name) const {
    require_name_of_folder(name);
    create_directories_durably(files_, zero / name);
    write_tensor(zero / name / "fp32.pt", weight(name));
  }

  void write_states(const Path& zero) {
    const Node* states = state_.find("state");
    for (const auto& name : trained_)
      if (states == nullptr || !is_told(*states, name)) write_fresh_state(zero, name);
    if (states == nullptr) return;
    const auto moments = ShardCatalogue::open(source_.tensor_files_of(optimizer_stem_), files_);
    for (const auto& [told, line, fields] : states->entries) {
      const std::string name = ConvertibleCheckpoint::plain(told);
      (void)weight(name);
      for (const auto& [field, at, value] : fields.entries) {
        require_name_of_folder(field);
        if (const Node* tensor = value.find("$tensor")) {
          const auto* found = moments.find(name_in_shards(optimizer_stem_, tensor->text));
          for (const auto& own : names_in_deepspeed(field))
            write_tensor(zero / name / (own + ".pt"),
                         found != nullptr ? *found : moments.at(tensor->text));
        } else if (field == "step" && !value.is_null()) {
          write_step(zero / name / "step.pt", parse_double(value.text).value_or(0));
        }
      }
    }
  }

  // DeepSpeed's own Lion and Adagrad have other names, PyTorch's Adagrad has ours. DeepSpeed's Lion
  // asks for a second moment too, which it never reads.
  [[nodiscard]] std::vector<std::string> names_in_deepspeed(const std::string& field) const {
    const Node* kind = state_.find("class");
    if (kind != nullptr && kind->text == "Lion" && field == "state1")
      return {"exp_avg", "exp_avg_sq"};
    if (kind != nullptr && kind->text == "Adagrad" && field == "sum") return {"sum", "exp_avg_sq"};
    return {field};
  }

  // Whether the states have the parameter, by its own name or beside a second model's.
  static bool is_told(const Node& states, const std::string& name) {
    return std::ranges::any_of(states.entries, [&](const NodeEntry& entry) {
      return ConvertibleCheckpoint::plain(entry.key) == name;
    });
  }

  // A parameter that was not stepped yet has no state here. DeepSpeed asks for zeros.
  void write_fresh_state(const Path& zero, const std::string& name) {
    const ShardedTensor& tensor = weight(name);
    const Node* kind = state_.find("class");
    const std::string own = kind == nullptr ? "" : kind->text;
    if (own != "Adam" && own != "AdamW" && own != "Lion") return;
    for (const char* field : {"exp_avg", "exp_avg_sq"}) {
      TorchArchiveWriter writer(files_, zero / name / (std::string(field) + ".pt"),
                                {{"param", tensor.dtype, tensor.shape}});
      writer.append([&](const ByteSink& sink) {
        ShardCatalogue::stream(tensor, [&](std::span<const std::byte> piece) {
          sink(std::vector<std::byte>(piece.size()));
        });
      });
      writer.commit();
    }
    write_step(zero / name / "step.pt", 0);
  }

  // PyTorch's optimizers count in tensors; DeepSpeed's take these too.
  void write_step(const Path& path, double count) {
    steps_ = std::max(steps_, static_cast<std::int64_t>(count));
    const auto step = static_cast<float>(count);
    TorchArchiveWriter writer(files_, path, {{"step", DType::f32, {}}}, pickle(step_tensor()));
    writer.append(bytes_of_step(step));
    writer.commit();
  }

  [[nodiscard]] std::string group(std::size_t number) const {
    std::string entries;
    for (const auto& [name, line, value] : groups_[number].entries)
      if (name != "params") entries += text(name) + python_value(value, /*tuples=*/true);
    if (groups_[number].find("initial_lr") == nullptr)
      entries += text("initial_lr") + python_value(source_.initial_rate(number, groups_[number]));
    // DeepSpeed's Adam counts here.
    if (steps_ > 0) entries += text("step") + integer(steps_);
    return dict(entries + text("params") + list(integer(static_cast<std::int64_t>(number))));
  }

  // What is not of one parameter: at the top for ZeRO 1 and 2, below optimizer_state_dict for 3.
  void write_common(const Path& path) const {
    std::string groups;
    for (std::size_t g = 0; g < groups_.size(); ++g) groups += group(g);
    // ZeRO 3 gives the same object to all groups: a tensor would count the steps of each.
    const bool is_plain = groups_.size() > 1 || steps_ == 0;
    const std::string step = text("step") + (is_plain ? integer(steps_) : step_tensor());
    const std::string first = dict(integer(0) + dict(step));
    std::string entries = text("ds_version") + text(kUniversalVersion) + text("param_groups") +
                          list(groups) + text("optimizer_state_dict") +
                          dict(text("state") + first + text("param_groups") + list(groups)) +
                          loss_scaler();
    if (is_plain) return write_file_atomically(files_, path, value_archive(dict(entries)));
    const auto count = static_cast<float>(steps_);
    TorchArchiveWriter writer(files_, path, {{"step", DType::f32, {}}}, pickle(dict(entries)));
    writer.append(bytes_of_step(count));
    writer.commit();
  }

  [[nodiscard]] std::string loss_scaler() const {
    if (!source_.has("scaler.json")) return "";
    return detail::deepspeed_scaler(source_.state_of("scaler"));
  }

  // A schedule of PyTorch reads its own keys, one of DeepSpeed's the last.
  [[nodiscard]] std::string schedule() const {
    const std::string stem = ConvertibleCheckpoint::numbered("scheduler", number_);
    if (!source_.has(stem + ".json")) return none();
    const Node state = source_.state_of(stem);
    const Node* epoch = state.find("last_epoch");
    const auto steps = epoch == nullptr ? std::nullopt : parse_int(epoch->text);
    const std::string own = detail::python_schedule(state);
    if (!steps) return own;
    return filled(own, text("last_batch_iteration") + integer(*steps - 1));
  }

  void write_model(const Path& path) const {
    std::vector<const ShardedTensor*> rest;
    std::vector<TensorSpec> specs;
    std::string module, shapes;
    for (const auto& [name, tensor] : tensors_) {
      if (trained_.contains(name)) continue;
      specs.push_back({name, tensor->dtype, tensor->shape});
      module += text(name) + detail::pickling::tensor(specs.back(), rest.size());
      rest.push_back(tensor);
    }
    for (const Node& group : groups_) {
      std::string entries;
      if (const Node* names = group.find("params"))
        for (const auto& item : names->items) {
          const std::string name = ConvertibleCheckpoint::plain(item.text);
          entries += text(name) + torch_size(weight(name).shape);
        }
      shapes += filled(ordered_dict(), entries);
    }
    TorchArchiveWriter writer(
        files_, path, specs,
        pickle(dict(text("module") + filled(ordered_dict(), module) + text("buffer_names") +
                    list("") + text("param_shapes") + list(shapes) + text("shared_params") +
                    dict("") + text("frozen_param_shapes") + none() +
                    text("frozen_param_fragments") + none() + text("lr_scheduler") + schedule() +
                    text("skipped_steps") + integer(0) + text("global_steps") + integer(steps_) +
                    text("dp_world_size") + integer(1) + text("mp_world_size") + integer(1) +
                    text("ds_version") + text(kUniversalVersion))));
    for (const auto* tensor : rest)
      writer.append([&](const ByteSink& sink) { ShardCatalogue::stream(*tensor, sink); });
    writer.commit();
  }

  ConvertibleCheckpoint& source_;
  int number_;
  FileSystem& files_;
  std::string model_stem_, optimizer_stem_;
  ShardCatalogue model_;
  Node state_;
  std::map<std::string, const ShardedTensor*> tensors_;
  std::vector<Node> groups_;
  std::set<std::string> trained_;
  std::int64_t steps_ = 0;
};

// Converts the models with their optimizers. `tag`: how the folder of a number is called.
void convert_engines(ConvertibleCheckpoint& source, const Path& output, FileSystem& files,
                     const std::function<std::string(int)>& tag, StateForPython& result) {
  const auto has_model = [&](int number) {
    return !source.tensor_files_of(ConvertibleCheckpoint::numbered("model", number)).empty();
  };
  const auto has_optimizer = [&](int number) {
    return source.has(ConvertibleCheckpoint::numbered("optimizer", number) + ".json");
  };
  for (int i = 0; has_model(i) || has_optimizer(i); ++i) {
    source.convert(ConvertibleCheckpoint::numbered("model", i), [&] {
      if (!has_model(i) || !has_optimizer(i))
        throw CheckpointError(
            "the checkpoint has no " +
            ConvertibleCheckpoint::numbered(has_model(i) ? "optimizer" : "model", i) +
            "; an engine of DeepSpeed has a model and its optimizer");
      Engine(source, i, files).write(output / tag(i));
    });
    source.convert(ConvertibleCheckpoint::numbered("optimizer", i), [] {});
    result.written.push_back(tag(i));
  }
  if (result.written.empty()) throw CheckpointError("the checkpoint has no model");
}

void convert_schedules(ConvertibleCheckpoint& source, const Path& output, FileSystem& files,
                       const std::string& extension, StateForPython& result) {
  for (int i = 0; source.has(ConvertibleCheckpoint::numbered("scheduler", i) + ".json"); ++i) {
    const std::string stem = ConvertibleCheckpoint::numbered("scheduler", i);
    source.convert(stem, [&] {
      write_file_atomically(files, output / (stem + extension),
                            value_archive(detail::python_schedule(source.state_of(stem))));
    });
    result.written.push_back(stem + extension);
  }
}

// Transformers' Trainer looks for folders by its own names.
StateForPython converted(ConvertibleCheckpoint& source, const Path& output, FileSystem& files) {
  StateForPython result;
  const auto step = source.trainer_step();
  const auto tag = [&](int number) {
    return step && number == 0 ? "global_step" + std::to_string(*step)
                               : ConvertibleCheckpoint::numbered("pytorch_model", number);
  };
  convert_engines(source, output, files, tag, result);
  convert_schedules(source, output, files, step ? ".pt" : ".bin", result);
  if (source.has("scaler.json")) source.convert("scaler", [] {});
  write_file_atomically(files, output / "latest_universal", tag(0));
  result.written.emplace_back("latest_universal");
  if (step)
    for (auto& name : source.copy_trainer_files(output)) result.written.push_back(std::move(name));
  result.left = source.left();
  return result;
}

}  // namespace

StateForPython write_state_for_deepspeed(const Path& source, const Path& output,
                                         FileSystem& files) {
  StateForPython result;
  detail::convert_into(source, output, files, [&](ConvertibleCheckpoint& checkpoint) {
    result = converted(checkpoint, output, files);
  });
  return result;
}

}  // namespace accelerate
