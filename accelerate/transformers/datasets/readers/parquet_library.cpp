#include "accelerate/transformers/datasets/readers/parquet_library.h"

#include <dlfcn.h>

#include <string>

#include "accelerate/base/error.h"
#include "accelerate/base/own_libraries.h"
#include "accelerate/transformers/datasets/readers/chunk_reader.h"

namespace accelerate::detail {
namespace {

// RTLD_DEEPBIND makes Arrow's libraries use the simdjson that they contain, not the one that this
// program has already loaded.
void* opened_plugin(const std::filesystem::path& file) {
#ifdef __SANITIZE_ADDRESS__  // AddressSanitizer refuses RTLD_DEEPBIND.
  return nullptr;
#else
  return dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
#endif
}

}  // namespace

void* parquet_function(const char* name, std::string_view verb,
                       const std::filesystem::path& parquet) {
  const auto file =
      library_folder(reinterpret_cast<const void*>(&opened_plugin)) / "libaccelerate_parquet.so";
  void* plugin = opened_plugin(file);
  if (void* function = plugin == nullptr ? nullptr : dlsym(plugin, name)) return function;
  const char* reason = std::filesystem::exists(file) ? dlerror() : nullptr;
  throw ConfigError(
      "'" + parquet.string() + "' is Parquet, and this build cannot " + std::string(verb) +
      " it: " + (reason != nullptr ? std::string(reason) : file.string() + " is not there") +
      ". Install the Python package pyarrow beside torch (pip install pyarrow), or Arrow's C++ "
      "libraries, and build again");
}

std::unique_ptr<ChunkReader> read_parquet(const std::filesystem::path& file,
                                          const ReaderOptions& options) {
  using MakeReader = ChunkReader* (*)(const std::filesystem::path*, const ReaderOptions*);
  const auto make =
      reinterpret_cast<MakeReader>(parquet_function("accelerate_parquet_reader", "read", file));
  return std::unique_ptr<ChunkReader>(make(&file, &options));
}

}  // namespace accelerate::detail
