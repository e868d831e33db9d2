// The tasks that the command line gives to the program with LibTorch. Each task writes to standard
// output and throws an exception when it fails.
#pragma once

#include <filesystem>
#include <string>

namespace accelerate::cli {

/// Prints the lines about LibTorch of `accelerate env`.
void describe_libtorch();

/// Prints the model types that AutoModel makes, one a line.
void list_model_types();

/// Prints the tensors of the model of `config`, as Python's AutoModel makes it. Each line has "T",
/// name, elements, bytes in fp32, and "parameter" or "buffer", with tabs between. Then prints "U"
/// and the name of each module that stays whole.
void list_model_tensors(const std::filesystem::path& config);

/// Runs one of the two launches of `accelerate test`. The second launch continues from what the first
/// one left in `folder`. Rank 0 appends a line for each check to results.tsv there, and so does any
/// rank that cannot start: "ok" or "failed", the check, what was found, and milliseconds, with tabs
/// between. Returns the exit code.
int run_self_test(const std::filesystem::path& folder, bool is_second);

}  // namespace accelerate::cli
