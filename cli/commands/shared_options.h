// Flags that several commands have.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/launch/config/cluster_config.h"

namespace accelerate::cli {

// The files of cli/project_template, which the build writes into the program.

/// Returns path and content of each file, with names such as @VERSION@ in the places to fill in.
/// Files in a folder belong to the template of that name.
[[nodiscard]] std::vector<std::pair<std::string_view, std::string_view>> project_files();

/// Reads the word of --mixed_precision. Throws ConfigError for fp8 too, which needs a library that
/// no command can look for.
[[nodiscard]] MixedPrecision offered_precision(const std::string& text);

/// Adds --config_file, which writes into `options->config_file` what named_config_file() has
/// checked. `-` and `_` are the same in flags.
template <typename Options>
CLI::Option* add_config_file(CLI::App* command, const std::shared_ptr<Options>& options,
                             const std::string& help) {
  return command
      ->add_option_function<std::string>(
          "--config_file,--config-file",
          [options](const std::string& text) { options->config_file = named_config_file(text); },
          help)
      ->type_name("FILE");
}

/// Adds --mixed_precision no|fp16|bf16, which writes into `options->mixed_precision`.
template <typename Options>
CLI::Option* add_mixed_precision(CLI::App* command, const std::shared_ptr<Options>& options,
                                 const std::string& help) {
  return command
      ->add_option_function<std::string>(
          "--mixed_precision,--mixed-precision",
          [options](const std::string& text) {
            options->mixed_precision = offered_precision(text);
          },
          help)
      ->type_name("no|fp16|bf16");
}

}  // namespace accelerate::cli
