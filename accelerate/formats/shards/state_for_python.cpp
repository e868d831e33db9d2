#include "accelerate/formats/shards/state_for_python.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "accelerate/base/durable_directories.h"
#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/formats/manifest.h"
#include "accelerate/formats/shards/distcp_writer.h"
#include "accelerate/formats/shards/shard_catalogue.h"
#include "accelerate/formats/shards/shard_files.h"
#include "accelerate/formats/shards/value_archive.h"
#include "accelerate/formats/torch_archive/pickle_writer.h"

namespace accelerate {
namespace {

using namespace detail::pickling;
using Path = std::filesystem::path;

constexpr DocumentLimits kStateLimits{.max_bytes = std::size_t{256} << 20, .max_depth = 64};

// --- optimizers of PyTorch -----------------------------------------------------------------------

struct Option {
  std::string_view name;
  enum class Default { off, on, unset } value;
};

// A class of optimizers, and the options that it has in Python and not here.
struct PythonClass {
  std::string_view name;
  std::span<const Option> more;
};

using enum Option::Default;
constexpr std::array kAdamWMore = {Option{"maximize", off},   Option{"foreach", unset},
                                   Option{"capturable", off}, Option{"differentiable", off},
                                   Option{"fused", unset},    Option{"decoupled_weight_decay", on}};
constexpr std::array kAdamMore = {Option{"maximize", off},   Option{"foreach", unset},
                                  Option{"capturable", off}, Option{"differentiable", off},
                                  Option{"fused", unset},    Option{"decoupled_weight_decay", off}};
constexpr std::array kOtherMore = {Option{"maximize", off}, Option{"foreach", unset},
                                   Option{"capturable", off}, Option{"differentiable", off},
                                   Option{"fused", unset}};
constexpr std::array kPythonClasses = {
    PythonClass{"AdamW", kAdamWMore}, PythonClass{"Adam", kAdamMore},
    PythonClass{"SGD", kOtherMore}, PythonClass{"Adagrad", kOtherMore},
    PythonClass{"RMSprop", kOtherMore}};

const PythonClass& python_class(const Node& state) {
  const Node* name = state.find("class");
  const std::string found = name == nullptr ? "?" : name->text;
  const auto known = std::ranges::find(kPythonClasses, found, &PythonClass::name);
  if (known != kPythonClasses.end()) return *known;
  std::vector<std::string> names;
  for (const auto& one : kPythonClasses) names.emplace_back(one.name);
  throw CheckpointError("the optimizer is " + found + "; for Python the states of " +
                        join(names, ", ") + " are written");
}

// --- values --------------------------------------------------------------------------------------

[[noreturn]] void refuse_value(const Node& node) {
  throw CheckpointError("its line " + std::to_string(node.line) +
                        " has a value that is no number, text, list or dict");
}

std::string scalar(const Node& node) {
  if (node.quoted) return text(node.text);
  if (node.text == "true" || node.text == "false") return boolean(node.text == "true");
  if (const auto whole = parse_int(node.text)) return integer(*whole);
  if (const auto number = parse_double(node.text)) return real(*number);
  refuse_value(node);
}

// A state in Python has tuples where ours has lists: "betas".
std::string value_of(const Node& node, bool tuples = false) {
  if (node.is_null()) return none();
  if (node.is_scalar()) return scalar(node);
  if (node.is_sequence()) {
    std::string items;
    for (const auto& item : node.items) items += value_of(item, tuples);
    return tuples ? tuple(items) : list(items);
  }
  std::string entries;
  for (const auto& [key, line, item] : node.entries) {
    if (key == "$number") {
      const double infinity = std::numeric_limits<double>::infinity();
      if (item.text == "Infinity") return real(infinity);
      if (item.text == "-Infinity") return real(-infinity);
      return real(std::numeric_limits<double>::quiet_NaN());
    }
    if (key.starts_with('$')) refuse_value(node);
    entries += text(key) + value_of(item, tuples);
  }
  return dict(entries);
}

// Schedules of PyTorch expect a list of functions, and milestones as counts.
std::string schedule_of(const Node& node) {
  std::string entries;
  for (const auto& [key, line, item] : node.entries) {
    if (key == "milestones" && item.is_sequence()) {
      std::map<std::int64_t, std::int64_t> counts;
      for (const auto& step : item.items) ++counts[parse_int(step.text).value_or(0)];
      std::string pairs;
      for (const auto& [step, count] : counts) pairs += integer(step) + integer(count);
      entries += text(key) + call("collections.Counter", tuple(dict(pairs)));
    } else if (key == "_schedulers" && item.is_sequence()) {
      std::string inner;
      for (const auto& one : item.items) inner += schedule_of(one);
      entries += text(key) + list(inner);
    } else {
      entries += text(key) + value_of(item);
    }
  }
  const Node* rates = node.find("base_lrs");
  if (rates != nullptr && node.find("lr_lambdas") == nullptr) {
    std::string functions;
    for (std::size_t i = 0; i < rates->items.size(); ++i) functions += none();
    entries += text("lr_lambdas") + list(functions);
  }
  return dict(entries);
}

// --- the checkpoint ------------------------------------------------------------------------------

class Converter {
 public:
  Converter(const Path& source, const Path& output, FileSystem& files)
      : source_(source), output_(output), files_(files), manifest_(read_manifest(files, source)) {
    const auto faults = manifest_faults(files, source, manifest_);
    if (!faults.empty())
      throw CheckpointError("the checkpoint " + source.string() +
                            " is damaged: " + join(faults, "; "));
    for (const auto& file : manifest_.files) names_.insert(file.name);
  }

  StateForPython convert() {
    for (int i = 0; !tensor_files_of(numbered("model", i)).empty(); ++i) model(i);
    for (int i = 0; names_.contains(numbered("optimizer", i) + ".json"); ++i) optimizer(i);
    for (int i = 0; names_.contains(numbered("scheduler", i) + ".json"); ++i)
      value_file(numbered("scheduler", i), ".bin", schedule_of);
    if (names_.contains("scaler.json")) value_file("scaler", ".pt", scaler_of);
    for (const auto& name : names_) {
      const auto stem = name.substr(0, name.find('.'));
      const bool is_state = name.ends_with(".json") && name != "accelerator.json";
      if (is_state && !done_.contains(stem)) result_.left.push_back(stem);
    }
    return std::move(result_);
  }

 private:
  static std::string numbered(const std::string& kind, int number) {
    return kind + (number == 0 ? "" : "_" + std::to_string(number));
  }

  static std::string scaler_of(const Node& node) {
    Node known = node;
    std::erase_if(known.entries,
                  [](const NodeEntry& entry) { return entry.key == "_hysteresis_tracker"; });
    return value_of(known);
  }

  [[nodiscard]] std::vector<Path> tensor_files_of(const std::string& stem) const {
    std::vector<Path> paths;
    for (const auto& name : names_) {
      const auto shard = ShardFileName::parse(name);
      if (shard ? shard->stem == stem : name == stem + ".safetensors")
        paths.push_back(source_ / name);
    }
    return paths;
  }

  [[nodiscard]] Node state_of(const std::string& stem) const {
    const Path path = source_ / (stem + ".json");
    return read_json(read_file(files_, path, kStateLimits.max_bytes), path.string(), kStateLimits);
  }

  // Adds "while converting <stem>" to errors.
  void saying(const std::string& stem, const std::function<void()>& step) {
    try {
      step();
    } catch (const UsageError&) {
      throw;
    } catch (const Error&) {
      throw_with_context<CheckpointError>("cannot convert '" + stem + "' of " + source_.string());
    }
    done_.insert(stem);
  }

  DistcpWriter new_folder(const std::string& name) {
    create_directories_durably(files_, output_ / name);
    result_.written.push_back(name);
    return {files_, output_ / name};
  }

  static void add(DistcpWriter& writer, const DistcpPath& path, const ShardedTensor& tensor) {
    writer.add_tensor(path, tensor,
                      [&tensor](const ByteSink& sink) { ShardCatalogue::stream(tensor, sink); });
  }

  void model(int number) {
    const std::string stem = numbered("model", number);
    saying(stem, [&] {
      const auto catalogue = ShardCatalogue::open(tensor_files_of(stem), files_);
      auto writer = new_folder("pytorch_model_fsdp_" + std::to_string(number));
      for (const auto& tensor : catalogue.tensors())
        add(writer, {"model", name_from_shards(stem, tensor.name)}, tensor);
      writer.finish();
    });
  }

  void optimizer(int number) {
    const std::string stem = numbered("optimizer", number);
    saying(stem, [&] {
      const Node state = state_of(stem);
      const PythonClass& known = python_class(state);
      const auto paths = tensor_files_of(stem);
      const auto catalogue = ShardCatalogue::open(paths, files_);
      auto writer = new_folder("optimizer_" + std::to_string(number));
      if (const Node* states = state.find("state"))
        for (const auto& [name, line, fields] : states->entries)
          parameter(writer, stem, {plain(name), fields}, catalogue);
      if (const Node* groups = state.find("param_groups"))
        for (std::size_t g = 0; g < groups->items.size(); ++g)
          group(writer, static_cast<std::int64_t>(g), groups->items[g], known);
      writer.finish();
    });
  }

  // Parameters of a second model are called "model_1:fc.weight" here.
  static std::string plain(const std::string& name) {
    const auto colon = name.find(':');
    return name.starts_with("model_") && colon != std::string::npos ? name.substr(colon + 1) : name;
  }

  struct Parameter {
    std::string name;
    const Node& fields;
  };

  static void parameter(DistcpWriter& writer, const std::string& stem, const Parameter& parameter,
                        const ShardCatalogue& catalogue) {
    for (const auto& [field, line, value] : parameter.fields.entries) {
      const DistcpPath path = {"optimizer", "state", parameter.name, field};
      if (const Node* tensor = value.find("$tensor")) {
        const auto* told_apart = catalogue.find(name_in_shards(stem, tensor->text));
        add(writer, path, told_apart != nullptr ? *told_apart : catalogue.at(tensor->text));
      } else if (!value.is_null()) {  // PyTorch counts steps in tensors.
        const auto count = static_cast<float>(parse_double(value.text).value_or(0));
        writer.add_tensor(path, {"", DType::f32, {}}, [&count](const ByteSink& sink) {
          sink(std::as_bytes(std::span(&count, 1)));
        });
      }
    }
  }

  void group(DistcpWriter& writer, std::int64_t number, const Node& group,
             const PythonClass& known) const {
    const auto add = [&](std::string_view name, const std::string& value) {
      writer.add_value({"optimizer", "param_groups", number, std::string(name)}, value);
    };
    for (const auto& [name, line, value] : group.entries) {
      if (name == "params") {
        std::string names;
        for (const auto& parameter : value.items) names += text(plain(parameter.text));
        add(name, list(names));
      } else {
        add(name, value_of(value, /*tuples=*/true));
      }
    }
    for (const auto& [name, value] : known.more)
      if (group.find(name) == nullptr) add(name, value == unset ? none() : boolean(value == on));
    if (group.find("initial_lr") == nullptr) add("initial_lr", initial_rate(number, group));
  }

  // Schedules here keep the rate with which a group began.
  [[nodiscard]] std::string initial_rate(std::int64_t number, const Node& group) const {
    if (names_.contains("scheduler.json")) {
      const Node schedule = state_of("scheduler");
      const Node* rates = schedule.find("base_lrs");
      if (rates != nullptr && static_cast<std::size_t>(number) < rates->items.size())
        return value_of(rates->items[static_cast<std::size_t>(number)]);
    }
    const Node* rate = group.find("lr");
    return rate == nullptr ? none() : value_of(*rate);
  }

  void value_file(const std::string& stem, const char* extension,
                  const std::function<std::string(const Node&)>& convert) {
    saying(stem, [&] {
      write_file_atomically(files_, output_ / (stem + extension),
                            value_archive(convert(state_of(stem))));
      result_.written.push_back(stem + extension);
    });
  }

  const Path& source_;
  const Path& output_;
  FileSystem& files_;
  Manifest manifest_;
  std::set<std::string> names_, done_;
  StateForPython result_;
};

}  // namespace

StateForPython write_state_for_python(const Path& source, const Path& output, FileSystem& files) {
  if (files.status(output).kind != FileKind::none)
    throw UsageError(output.string() + " exists already: name a new folder");
  const Path within = std::filesystem::weakly_canonical(output).lexically_relative(
      std::filesystem::weakly_canonical(source));
  if (!within.empty() && *within.begin() != "..")
    throw UsageError("the output " + output.string() + " lies in " + source.string() +
                     ", which is to be converted; choose a folder elsewhere");
  Converter converter(source, output, files);
  create_directories_durably(files, output);
  try {
    auto result = converter.convert();
    files.sync_directory(output);
    return result;
  } catch (...) {
    files.remove_tree(output);
    throw;
  }
}

}  // namespace accelerate
