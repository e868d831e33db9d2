// The architectures of this library, by family. BERT's are built in. Every other family is a library
// of its own, which is opened when one of its types is asked for: who needs none need not build it.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "accelerate/base/error.h"
#include "accelerate/base/own_libraries.h"
#include "accelerate/transformers/models/architecture.h"

namespace accelerate::detail {

std::vector<Architecture> bert_family();

namespace {

struct Family {
  std::string_view name;  ///< The folder of its sources, and the end of the library's name.
  std::vector<std::string_view> types;
};

const std::array<Family, 3> kFamilies{{
    {"encoders", {"albert", "deberta-v2", "modernbert", "mpnet"}},
    {"decoders",
     {"gemma2", "gemma3_text", "gpt2", "granite", "llama", "mistral", "olmo2", "phi3", "qwen2",
      "qwen3", "smollm3"}},
    {"encoder_decoders", {"bart", "t5"}},
}};

using Architectures = std::vector<Architecture>;

std::filesystem::path file_of(const Family& family) {
  return library_folder(reinterpret_cast<const void*>(&bert_family)) /
         ("libaccelerate_" + std::string(family.name) + ".so");
}

// Throws ConfigError if the library cannot be opened.
const Architectures& opened(const Family& family) {
  static std::mutex mutex;
  static std::map<std::string_view, const Architectures*> known;
  const std::lock_guard lock(mutex);
  const Architectures*& all = known[family.name];
  if (all != nullptr) return *all;
  const auto file = file_of(family);
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);  // Never closed.
  void* const function = library != nullptr ? dlsym(library, kFamilyFunction) : nullptr;
  if (function == nullptr) {
    throw ConfigError(file.string() + " cannot be opened (" + dlerror() +
                      "). Build and install all of accelerate.cpp from one source");
  }
  all = &reinterpret_cast<FamilyFunction>(function)();
  return *all;
}

const Architectures& built_in() {
  static const Architectures all = bert_family();
  return all;
}

const Architecture* find(const Architectures& all, std::string_view model_type) {
  const auto found = std::ranges::find(all, model_type, &Architecture::model_type);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

const Architecture* find_architecture(std::string_view model_type) {
  if (const Architecture* found = find(built_in(), model_type)) return found;
  for (const Family& family : kFamilies) {
    if (std::ranges::find(family.types, model_type) == family.types.end()) continue;
    if (const auto file = file_of(family); !std::filesystem::exists(file)) {
      throw ConfigError("models of type '" + std::string(model_type) + "' are in " +
                        file.filename().string() + ", which is not in " +
                        file.parent_path().string() + ". Build the target accelerate_" +
                        std::string(family.name) + ", or install the whole library");
    }
    return find(opened(family), model_type);
  }
  return nullptr;
}

const std::vector<Architecture>& architectures() {
  static const Architectures everything = [] {
    Architectures all = built_in();
    for (const Family& family : kFamilies) {
      if (!std::filesystem::exists(file_of(family))) continue;
      const auto& more = opened(family);
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }();
  return everything;
}

}  // namespace accelerate::detail
