// How a question is shown.
#pragma once

#include <string>
#include <vector>

#include "cli/questions/question.h"

namespace accelerate::cli {

/// Returns lines such as "1. multi-GPU", or the choices alone if they are numbers.
[[nodiscard]] std::vector<std::string> numbered_choices(const Question& question);

/// Returns "[no] ", with what an empty answer means, or ": ".
[[nodiscard]] std::string prompt_of(const Question& question);

}  // namespace accelerate::cli
