// The flags that both programs take, and the line that both end with.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "examples/cv/fashion_mnist.h"

struct Options {
  std::string data = fashion_mnist::kDefaultFolder;  ///< Folder of the four .gz files.
  std::string output = ".";                          ///< Folder that gets the trained weights.
  std::int64_t epochs = 2;                           ///< Passes over the training images.
  std::uint64_t seed = 42;                           ///< Of the weights and of the order of images.
};

/// A decimal number from 0 up, and nothing else. Throws std::invalid_argument.
inline std::int64_t parse_number(const std::string& name, const std::string& value) {
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < 0) {
    throw std::invalid_argument("'" + name + " " + value +
                                "': a whole number from 0 up is allowed.");
  }
  return number;
}

/// Reads "--name value" pairs. Throws std::invalid_argument, which says what is allowed.
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
    if (name == "--epochs") options.epochs = parse_number(name, value);
    if (name == "--seed") options.seed = static_cast<std::uint64_t>(parse_number(name, value));
  }
  return options;
}

/// "test accuracy: 0.895"; `share` is from 0 to 1.
inline std::string accuracy_line(double share) {
  char line[32];
  std::snprintf(line, sizeof line, "test accuracy: %.3f", share);
  return line;
}
