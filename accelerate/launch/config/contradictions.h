// What two places say differently of one setting.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {

/// Collects contradictions around DeepSpeed's file, to name all of them at once.
class Contradictions {
 public:
  /// `sentence`: what both places say, without a point.
  void add(std::string sentence) { sentences_.push_back("\n- " + std::move(sentence)); }

  /// Throws ConfigError if there are any.
  void raise() const {
    if (sentences_.empty()) return;
    throw ConfigError(
        "DeepSpeed's settings contradict one another:" + join(sentences_, "") +
            "\nCorrect them; or write \"auto\" in DeepSpeed's file, which leaves a key to "
            "the program and its launcher.",
        error_name::kDeepspeedContradiction);
  }

 private:
  std::vector<std::string> sentences_;
};

}  // namespace accelerate::detail
