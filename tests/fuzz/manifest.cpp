// A manifest is refused with a CheckpointError, or names plain files only, each once, and the text
// written of it is read back.
#include "accelerate/formats/manifest.h"

#include <cstdlib>
#include <set>
#include <string_view>

#include "accelerate/base/error.h"

namespace {

using namespace accelerate;

void check(const Manifest& manifest) {
  std::set<std::string> names;
  for (const auto& file : manifest.files) {
    if (file.name.empty() || file.name.find('/') != std::string::npos || file.name == "..")
      std::abort();
    if (!names.insert(file.name).second) std::abort();
  }
  const Manifest again = parse_manifest(manifest_text(manifest), "again");
  if (again.files.size() != manifest.files.size() || again.num_processes != manifest.num_processes)
    std::abort();
  for (const auto& file : again.files)
    if (!names.contains(file.name)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    check(parse_manifest({reinterpret_cast<const char*>(data), size}, "fuzzed"));
  } catch (const CheckpointError&) {
  }
  return 0;
}
