#include "accelerate/tensor/compat/cuda_library.h"

#include <dlfcn.h>

#include <filesystem>

#include "accelerate/base/own_libraries.h"

namespace accelerate::compat {
namespace {

struct CudaLibrary {
  void* handle = nullptr;
  std::string why_not;
};

CudaLibrary opened_cuda_library() {
  const auto file =
      library_folder(reinterpret_cast<const void*>(&cuda_function)) / "libaccelerate_cuda.so";
  if (!std::filesystem::exists(file)) {
    return {nullptr, "this build has no " + file.filename().string() +
                         ", because it was made without CUDA's headers"};
  }
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return {handle, ""};
  return {nullptr, "LibTorch has no CUDA, or another than this build was made with (" +
                       std::string(dlerror()) + ")"};
}

}  // namespace

CudaFunction cuda_function(const char* name) {
  static const CudaLibrary library = opened_cuda_library();
  if (library.handle == nullptr) return {nullptr, library.why_not};
  if (void* const address = dlsym(library.handle, name)) return {address, ""};
  return {nullptr, std::string("libaccelerate_cuda.so is of another version: it has no ") + name};
}

}  // namespace accelerate::compat
