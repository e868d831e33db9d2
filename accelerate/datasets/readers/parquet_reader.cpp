// Opens the library that reads Parquet (parquet_plugin.cpp), if it was built.
#include <dlfcn.h>

#include "accelerate/base/error.h"
#include "accelerate/datasets/readers/chunk_reader.h"

namespace accelerate::detail {
namespace {

using MakeReader = ChunkReader* (*)(const std::filesystem::path*, const ReaderOptions*);

// Beside the library that this is a part of.
std::filesystem::path plugin_file() {
  Dl_info own{};
  dladdr(reinterpret_cast<const void*>(&plugin_file), &own);
  return std::filesystem::path(own.dli_fname).parent_path() / "libaccelerate_parquet.so";
}

// RTLD_DEEPBIND: Arrow's libraries shall use the simdjson that is in them, and not the one which
// this program has loaded already.
void* opened_plugin(const std::filesystem::path& file) {
#ifdef __SANITIZE_ADDRESS__  // It refuses RTLD_DEEPBIND.
  return nullptr;
#else
  return dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
#endif
}

MakeReader maker_of(const std::filesystem::path& parquet) {
  const std::filesystem::path file = plugin_file();
  void* plugin = opened_plugin(file);
  void* maker = plugin == nullptr ? nullptr : dlsym(plugin, "accelerate_parquet_reader");
  if (maker == nullptr) {
    const char* reason = std::filesystem::exists(file) ? dlerror() : nullptr;
    throw ConfigError("'" + parquet.string() + "' is Parquet, and this build cannot read it: " +
                      (reason != nullptr ? std::string(reason) : file.string() + " is not there") +
                      ". Install the Python package pyarrow beside torch (pip install pyarrow), or "
                      "Arrow's C++ libraries, and build again");
  }
  return reinterpret_cast<MakeReader>(maker);
}

}  // namespace

std::unique_ptr<ChunkReader> read_parquet(const std::filesystem::path& file,
                                          const ReaderOptions& options) {
  return std::unique_ptr<ChunkReader>(maker_of(file)(&file, &options));
}

}  // namespace accelerate::detail
