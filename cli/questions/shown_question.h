// How a question reads.
#pragma once

#include <string>
#include <vector>

#include "cli/questions/question.h"

namespace accelerate::cli {

/// "1. multi-GPU", or the choices alone where they are numbers.
[[nodiscard]] std::vector<std::string> numbered_choices(const Question& question);

/// "[no] ", with what an empty answer means, or ": ".
[[nodiscard]] std::string prompt_of(const Question& question);

}  // namespace accelerate::cli
