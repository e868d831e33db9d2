// The project's own shared libraries, as this process has loaded them. When they come from two
// installations, or one is loaded twice, the process ends at once with a sentence on stderr: each copy
// would have its own state, such as the group of ranks, and LibTorch refuses to register an operator
// a second time.
#pragma once

#include <filesystem>

namespace accelerate {

/// Returns the folder of the library, or of the program, that contains `function`. Plugins lie there.
[[nodiscard]] std::filesystem::path library_folder(const void* function);

}  // namespace accelerate
