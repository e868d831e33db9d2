#include "accelerate/comm/state/project_configuration.h"

#include <string>

#include "accelerate/base/error.h"

namespace accelerate {
namespace {

[[noreturn]] void refuse(const std::string& field, const std::string& sentence) {
  throw ConfigError("project_config." + field + " is " + sentence);
}

}  // namespace

std::filesystem::path project_directory(const std::filesystem::path& project_dir,
                                        const ProjectConfiguration& config) {
  if (!project_dir.empty() && !config.project_dir.empty() && project_dir != config.project_dir)
    throw ConfigError("project_dir is '" + project_dir.string() +
                      "' and project_config.project_dir '" + config.project_dir.string() +
                      "'; set one of them, or both alike");
  const auto directory = project_dir.empty() ? config.project_dir : project_dir;
  if (config.automatic_checkpoint_naming && directory.empty())
    refuse("automatic_checkpoint_naming", "true, and there is no project_dir: set one");
  if (config.total_limit && *config.total_limit < 1)
    refuse("total_limit", std::to_string(*config.total_limit) + "; allowed is 1 or more");
  if (config.total_limit && !config.automatic_checkpoint_naming)
    refuse("total_limit",
           std::to_string(*config.total_limit) +
               ", which has no effect without automatic_checkpoint_naming: set that too");
  if (config.iteration < 0)
    refuse("iteration", std::to_string(config.iteration) + "; allowed is 0 or more");
  return directory;
}

std::filesystem::path logging_directory(const std::filesystem::path& project_dir,
                                        const ProjectConfiguration& config) {
  const auto project = project_directory(project_dir, config);
  return config.logging_dir.empty() ? project : config.logging_dir;
}

}  // namespace accelerate
