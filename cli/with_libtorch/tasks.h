// What the command line asks of the program that has LibTorch. Each task writes to standard output
// and throws what goes wrong.
#pragma once

#include <filesystem>
#include <string>

namespace accelerate::cli {

/// The lines about LibTorch of `accelerate env`.
void describe_libtorch();

/// The model types that AutoModel makes, a line each.
void list_model_types();

/// The tensors of the model of `config`, a line each, as Python's AutoModel makes it:
/// "T", name, elements, bytes in fp32, "parameter" or "buffer", with tabs between; and "U" with the
/// name of each module that stays whole.
void list_model_tensors(const std::filesystem::path& config);

/// One of the two launches of `accelerate test`: the second goes on from what the first one left in
/// `folder`. Rank 0 appends a line a check to results.tsv there, and any rank that cannot start:
/// "ok" or "failed", the check, what was found, milliseconds, with tabs between. Returns the exit
/// code.
int run_self_test(const std::filesystem::path& folder, bool is_second);

}  // namespace accelerate::cli
