#include "accelerate/base/own_libraries.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

namespace accelerate {
namespace {

constexpr std::array<std::string_view, 7> kOwn = {"libaccelerate.so",
                                                  "libaccelerate_transformers.so",
                                                  "libaccelerate_parquet.so",
                                                  "libaccelerate_cuda.so",
                                                  "libaccelerate_decoders.so",
                                                  "libaccelerate_encoders.so",
                                                  "libaccelerate_encoder_decoders.so"};

// Adds the path of a loaded object to the set that `data` points to, if it is a library of ours.
int add_if_own(dl_phdr_info* info, std::size_t /*size*/, void* data) {
  const std::filesystem::path path = info->dlpi_name;
  const std::string name = path.filename();
  const bool is_own = std::ranges::any_of(kOwn, [&](auto own) { return name.starts_with(own); });
  std::error_code ignored;
  if (is_own) {
    static_cast<std::set<std::filesystem::path>*>(data)->insert(
        std::filesystem::weakly_canonical(path, ignored));
  }
  return 0;
}

// Runs when the library is loaded, before its static objects register operators.
[[gnu::constructor(101)]] void require_one_installation() {
  std::set<std::filesystem::path> libraries;
  dl_iterate_phdr(add_if_own, &libraries);
  std::set<std::string> folders, names;
  std::string all;
  for (const auto& library : libraries) {
    folders.insert(library.parent_path());
    const std::string name = library.filename();
    names.insert(name.substr(0, name.find(".so")));
    all += (all.empty() ? "" : ", ") + library.string();
  }
  if (folders.size() <= 1 && names.size() == libraries.size()) return;
  std::fputs(("error: this process loads accelerate.cpp from several places (" + all +
              "). Take one: look at LD_LIBRARY_PATH, and at CMAKE_PREFIX_PATH of the build\n")
                 .c_str(),
             stderr);
  std::_Exit(1);
}

}  // namespace

std::filesystem::path library_folder(const void* function) {
  Dl_info own{};
  return dladdr(function, &own) == 0 ? "" : std::filesystem::path(own.dli_fname).parent_path();
}

}  // namespace accelerate
