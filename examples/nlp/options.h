// The flags that both programs take, and the line that each epoch ends with.
#pragma once

#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "examples/common/flags.h"

struct Options {
  std::string model;                               ///< Folder, or name in the hub's cache: a BERT.
  std::string data = "/usr/share/games/fortunes";  ///< Folder with a file for each topic.
  std::string output = "nlp_output";               ///< Folder that gets checkpoints and weights.
  std::string resume;  ///< A checkpoint to go on from; "newest": the last one in `output`.
  std::int64_t epochs = 2;
  double learning_rate = 1e-4;
  std::int64_t seed = 42;  ///< Of the new head, dropout and the order of rows.
};

inline constexpr std::int64_t kAccumulated = 2;  // Batches in an optimizer step.

/// Throws std::invalid_argument that says what is allowed.
inline Options parse_options(int argc, char** argv) {
  Options options;
  flags::parse(argc, argv,
               {{"--model", "NAME_OR_DIR", &options.model},
                {"--data", "DIR", &options.data},
                {"--output", "DIR", &options.output},
                {"--resume", "DIR", &options.resume},
                {"--epochs", "N", &options.epochs},
                {"--learning_rate", "R", &options.learning_rate},
                {"--seed", "N", &options.seed}});
  if (options.model.empty())
    throw std::invalid_argument(
        "--model is missing: `.venv/bin/python tools/fetch_models.py models minilm` makes the "
        "folder models/minilm");
  return options;
}

/// Returns, for example, "epoch 1: loss 1.234, accuracy 0.567".
inline std::string epoch_line(std::int64_t epoch, double loss, double accuracy) {
  char line[80];
  std::snprintf(line, sizeof line, "epoch %lld: loss %.3f, accuracy %.3f",
                static_cast<long long>(epoch), loss, accuracy);
  return line;
}
