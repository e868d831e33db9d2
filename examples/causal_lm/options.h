// The flags of causal_lm.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "examples/common/flags.h"

struct Options {
  std::string model;                                           ///< A decoder with its tokenizer.
  std::string text = "/usr/share/games/fortunes/songs-poems";  ///< A file in UTF-8.
  std::string output = "causal_lm_output";  ///< Folder that gets the trained model.
  std::string prompt = "I saw the moon";
  std::int64_t block_size = 128;  ///< Tokens in a row.
  std::int64_t batch_size = 4;    ///< Rows in a batch of each process.
  std::int64_t epochs = 1;
  double learning_rate = 2e-5;
  std::int64_t new_tokens = 40;
};

/// Throws std::invalid_argument that says what is allowed.
inline Options parse_options(int argc, char** argv) {
  Options options;
  flags::parse(argc, argv,
               {{"--model", "NAME_OR_DIR", &options.model},
                {"--text", "FILE", &options.text},
                {"--output", "DIR", &options.output},
                {"--prompt", "TEXT", &options.prompt},
                {"--block_size", "N", &options.block_size},
                {"--batch_size", "N", &options.batch_size},
                {"--epochs", "N", &options.epochs},
                {"--learning_rate", "R", &options.learning_rate},
                {"--new_tokens", "N", &options.new_tokens}});
  if (options.block_size < 2)
    throw std::invalid_argument("'--block_size " + std::to_string(options.block_size) +
                                "': a row has 2 tokens or more, each of which predicts the next.");
  if (options.model.empty())
    throw std::invalid_argument(
        "--model is missing: `.venv/bin/python tools/fetch_models.py models smollm2` makes the "
        "folder models/smollm2");
  return options;
}
