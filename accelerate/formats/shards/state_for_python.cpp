#include "accelerate/formats/shards/state_for_python.h"

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "accelerate/base/durable_directories.h"
#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/shards/convertible_checkpoint.h"
#include "accelerate/formats/shards/distcp_writer.h"
#include "accelerate/formats/shards/python_values.h"
#include "accelerate/formats/shards/shard_catalogue.h"
#include "accelerate/formats/shards/shard_files.h"
#include "accelerate/formats/shards/value_archive.h"
#include "accelerate/formats/torch_archive/pickle_writer.h"

namespace accelerate {
namespace {

using namespace detail::pickling;
using detail::convert_into;
using detail::ConvertibleCheckpoint;
using detail::python_scaler;
using detail::python_schedule;
using detail::python_value;
using Path = std::filesystem::path;

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

// --- the checkpoint ------------------------------------------------------------------------------

class Converter {
 public:
  Converter(ConvertibleCheckpoint& source, const Path& output, FileSystem& files)
      : source_(source), output_(output), files_(files) {}

  StateForPython convert() {
    for (int i = 0; !source_.tensor_files_of(ConvertibleCheckpoint::numbered("model", i)).empty();
         ++i)
      model(i);
    for (int i = 0; source_.has(ConvertibleCheckpoint::numbered("optimizer", i) + ".json"); ++i)
      optimizer(i);
    for (int i = 0; source_.has(ConvertibleCheckpoint::numbered("scheduler", i) + ".json"); ++i)
      value_file(ConvertibleCheckpoint::numbered("scheduler", i), ".bin", python_schedule);
    if (source_.has("scaler.json")) value_file("scaler", ".pt", python_scaler);
    result_.left = source_.left();
    return std::move(result_);
  }

 private:
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
    const std::string stem = ConvertibleCheckpoint::numbered("model", number);
    source_.convert(stem, [&] {
      const auto catalogue = ShardCatalogue::open(source_.tensor_files_of(stem), files_);
      auto writer = new_folder("pytorch_model_fsdp_" + std::to_string(number));
      for (const auto& tensor : catalogue.tensors())
        add(writer, {"model", name_from_shards(stem, tensor.name)}, tensor);
      writer.finish();
    });
  }

  void optimizer(int number) {
    const std::string stem = ConvertibleCheckpoint::numbered("optimizer", number);
    source_.convert(stem, [&] {
      const Node state = source_.state_of(stem);
      const PythonClass& known = python_class(state);
      const auto paths = source_.tensor_files_of(stem);
      const auto catalogue = ShardCatalogue::open(paths, files_);
      auto writer = new_folder("optimizer_" + std::to_string(number));
      if (const Node* states = state.find("state"))
        for (const auto& [name, line, fields] : states->entries)
          parameter(writer, stem, {ConvertibleCheckpoint::plain(name), fields}, catalogue);
      if (const Node* groups = state.find("param_groups"))
        for (std::size_t g = 0; g < groups->items.size(); ++g)
          group(writer, static_cast<std::int64_t>(g), groups->items[g], known);
      writer.finish();
    });
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
        for (const auto& parameter : value.items)
          names += text(ConvertibleCheckpoint::plain(parameter.text));
        add(name, list(names));
      } else {
        add(name, python_value(value, /*tuples=*/true));
      }
    }
    for (const auto& [name, value] : known.more)
      if (group.find(name) == nullptr) add(name, value == unset ? none() : boolean(value == on));
    if (group.find("initial_lr") == nullptr)
      add("initial_lr",
          python_value(source_.initial_rate(static_cast<std::size_t>(number), group)));
  }

  void value_file(const std::string& stem, const char* extension,
                  const std::function<std::string(const Node&)>& convert) {
    source_.convert(stem, [&] {
      write_file_atomically(files_, output_ / (stem + extension),
                            value_archive(convert(source_.state_of(stem))));
      result_.written.push_back(stem + extension);
    });
  }

  ConvertibleCheckpoint& source_;
  const Path& output_;
  FileSystem& files_;
  StateForPython result_;
};

}  // namespace

StateForPython write_state_for_python(const Path& source, const Path& output, FileSystem& files) {
  StateForPython result;
  convert_into(source, output, files, [&](ConvertibleCheckpoint& checkpoint) {
    result = Converter(checkpoint, output, files).convert();
  });
  return result;
}

}  // namespace accelerate
