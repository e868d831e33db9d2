// The originals: golden files that committed Python scripts wrote, and the Python that runs them
// live.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace accelerate::testing {

/// The path of tests/reference/<name>.
inline std::filesystem::path reference_path(const std::string& name) {
  return std::filesystem::path(ACCELERATE_SOURCE_DIR) / "tests" / "reference" / name;
}

/// The text of tests/reference/<name>, or of the file that the environment variable
/// ACCELERATE_GOLDEN_DIR holds instead: so the same rows can be checked with another seed.
inline std::string read_reference(const std::string& name) {
  const char* other = std::getenv("ACCELERATE_GOLDEN_DIR");
  auto path = reference_path(name);
  if (other != nullptr && std::filesystem::exists(std::filesystem::path(other) / name)) {
    path = std::filesystem::path(other) / name;
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("there is no golden file " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The Python with the originals installed: ACCELERATE_TEST_PYTHON, else that of .venv; "" when
/// there is none.
inline std::string reference_python() {
  const char* chosen = std::getenv("ACCELERATE_TEST_PYTHON");
  const std::string python =
      chosen != nullptr ? chosen : std::string(ACCELERATE_SOURCE_DIR) + "/.venv/bin/python";
  return std::filesystem::exists(python) ? python : "";
}

}  // namespace accelerate::testing

/// Skips the test where the originals are not installed; in CI that is a failure.
#define ACCELERATE_NEED_REFERENCE_PYTHON()                                 \
  do {                                                                     \
    if (!::accelerate::testing::reference_python().empty()) break;         \
    if (std::getenv("CI") != nullptr)                                      \
      FAIL() << "no .venv with the originals; scripts/setup makes it";     \
    GTEST_SKIP() << "no .venv with the originals; scripts/setup makes it"; \
  } while (false)
