#include "accelerate/base/temporary_folder.h"

#include <cerrno>
#include <cstdlib>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"

namespace accelerate {

TemporaryFolder::TemporaryFolder(const std::string& purpose) {
  std::error_code error;
  const auto below = std::filesystem::temp_directory_path(error);
  if (error)
    throw ConfigError("there is no folder for temporary files at " +
                      env("TMPDIR").value_or("/tmp") + ": set TMPDIR to an existing folder");
  std::string name = below / ("accelerate-" + purpose + "-XXXXXX");
  if (::mkdtemp(name.data()) == nullptr) throw FileError("create", name, errno);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace accelerate
