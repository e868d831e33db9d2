// Writes a checkpoint of save_state as a universal checkpoint of DeepSpeed. Used by `accelerate
// convert-state --to universal`; see docs/convert_state.md and docs/formats/deepspeed.md.
#pragma once

#include <filesystem>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/shards/state_for_python.h"

namespace accelerate {

/// Converts the checkpoint in `source` to a new folder `output`. With load_universal, DeepSpeed
/// reads it under ZeRO 1 to 3 on any number of ranks, by load_state of Python Accelerate, or by
/// load_checkpoint with the tag pytorch_model (pytorch_model_1, … for further models).
/// The checkpoint of a Trainer, which has a trainer_state.json, becomes one of Transformers' Trainer:
/// the tag is global_step<step> then, and config, tokenizer and trainer_state.json are copied.
/// Throws as write_state_for_python(), also for models without an optimizer each, and for names of
/// parameters that are no names of folders. Cost and memory are as there.
StateForPython write_state_for_deepspeed(const std::filesystem::path& source,
                                         const std::filesystem::path& output,
                                         FileSystem& files = real_file_system());

}  // namespace accelerate
