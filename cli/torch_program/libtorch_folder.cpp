#include "cli/torch_program/libtorch_folder.h"

#include <fstream>
#include <iterator>
#include <regex>
#include <system_error>

#include "accelerate/launch/program.h"

namespace accelerate::cli {
namespace {

namespace fs = std::filesystem;

std::string first_match(const std::string& text, const char* pattern) {
  std::smatch found;
  return std::regex_search(text, found, std::regex(pattern)) ? found.str(1) : "";
}

}  // namespace

fs::path libtorch_link() {
  std::error_code ignored;
  const auto folder = (own_program().parent_path() / "../../etc/accelerate-cpp").lexically_normal();
  return fs::is_directory(folder, ignored) ? folder / "libtorch" : fs::path();
}

fs::path libtorch_place() {
  std::error_code ignored;
  const auto package = own_program().parent_path().parent_path();
  if (fs::exists(package / "__init__.py", ignored)) return package.parent_path() / "torch";
  return libtorch_link();
}

bool has_libtorch(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "lib/libtorch.so", ignored);
}

std::string libtorch_version(const fs::path& folder) {
  // 2.13 breaks the line between the name and its value.
  for (const char* header :
       {"torch/headeronly/version.h", "torch/csrc/api/include/torch/version.h"}) {
    std::ifstream file(folder / "include" / header);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const auto version =
        first_match(text, "define TORCH_VERSION[ \\\\\n]*\"([0-9]+\\.[0-9]+\\.[0-9]+)");
    if (!version.empty()) return version;
  }
  return {};
}

std::string wanted_libtorch() {
  return first_match(ACCELERATE_LIBTORCH, "^([0-9]+\\.[0-9]+)");
}

std::string libtorch_cure() {
  return "`sudo accelerate-cpp setup --torch DIR` sets it up, if DIR has torch " +
         wanted_libtorch() +
         ": `python3 -m venv DIR && DIR/bin/pip install \"torch==" + wanted_libtorch() +
         ".*\"` makes one";
}

}  // namespace accelerate::cli
