// The flags that both programs take.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "examples/cv/fashion_mnist.h"

struct Options {
  std::string data = fashion_mnist::kDefaultFolder;  ///< Folder of the four .gz files.
  std::string output = ".";                          ///< Folder that gets the trained weights.
  std::int64_t epochs = 2;                           ///< Passes over the training images.
  std::uint64_t seed = 42;                           ///< Of the weights and of the order of images.
};

/// Reads "--name value" pairs. Throws std::invalid_argument, with what is allowed, for anything
/// else.
inline Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    const bool known =
        name == "--data" || name == "--output" || name == "--epochs" || name == "--seed";
    if (!known || value.empty()) {
      throw std::invalid_argument("'" + name + (known ? "' needs a value" : "' is not a flag") +
                                  ". Allowed: --data DIR --output DIR --epochs N --seed N.");
    }
    if (name == "--data") options.data = value;
    if (name == "--output") options.output = value;
    if (name == "--epochs") options.epochs = std::stoll(value);
    if (name == "--seed") options.seed = std::stoull(value);
  }
  return options;
}
