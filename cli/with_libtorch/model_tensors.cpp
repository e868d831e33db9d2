#include <algorithm>
#include <iostream>

#include "accelerate/base/text.h"
#include "accelerate/parallel/module_tree.h"
#include "accelerate/tensor/construction/init_on_device.h"
#include "accelerate/tensor/module_view.h"
#include "accelerate/transformers/models/auto_model.h"
#include "cli/with_libtorch/tasks.h"

namespace accelerate::cli {
namespace {

void list(const std::string& name, std::int64_t elements, std::int64_t bytes, const char* kind) {
  std::cout << "T\t" << name << "\t" << elements << "\t" << bytes << "\t" << kind << "\n";
}

}  // namespace

void list_model_types() {
  for (const std::string& type : known_model_types(Task::base)) std::cout << type << "\n";
}

void list_model_tensors(const std::filesystem::path& config) {
  const auto values = AutoConfig::from_pretrained(
      config.has_parent_path() ? config.parent_path().string() : ".", {}, config.filename());
  const auto scope = init_empty_weights();
  const auto model = AutoModel::from_config(values);
  const ModuleView view = view_of(*model);
  const auto whole = model->python_no_split_modules();
  for (const NamedModule& module : view.modules)
    if (std::ranges::count(whole, detail::class_word(module.class_name)) > 0)
      std::cout << "U\t" << module.name << "\n";
  constexpr std::int64_t kFloat = 4;
  for (const auto& [name, tensor] : without_duplicates(view.parameters))
    list(name, tensor.numel(), tensor.numel() * kFloat, "parameter");
  for (const auto& [name, type, elements] : model->python_buffers())
    list(name, elements, elements * static_cast<std::int64_t>(c10::elementSize(type)), "buffer");
}

}  // namespace accelerate::cli
