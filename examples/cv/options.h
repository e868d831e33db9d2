// The flags that both programs take, and the line that both end with.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "examples/common/flags.h"
#include "examples/cv/fashion_mnist.h"

struct Options {
  std::string data = fashion_mnist::kDefaultFolder;  ///< Folder of the four .gz files.
  std::string output = ".";                          ///< Folder that gets the trained weights.
  std::int64_t epochs = 2;                           ///< Passes over the training images.
  std::int64_t seed = 42;                            ///< Decides weights and the images' order.
};

/// Throws std::invalid_argument that says what is allowed.
inline Options parse_options(int argc, char** argv) {
  Options options;
  flags::parse(argc, argv,
               {{"--data", "DIR", &options.data},
                {"--output", "DIR", &options.output},
                {"--epochs", "N", &options.epochs},
                {"--seed", "N", &options.seed}});
  return options;
}

/// Returns, for example, "test accuracy: 0.895"; `share` is from 0 to 1.
inline std::string accuracy_line(double share) {
  char line[32];
  std::snprintf(line, sizeof line, "test accuracy: %.3f", share);
  return line;
}
