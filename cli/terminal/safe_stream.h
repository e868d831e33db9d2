// What commands print quotes servers, files and programs, whose text a terminal must not obey.
#pragma once

#include <memory>
#include <ostream>

namespace accelerate::cli {

// The standard descriptors.

/// Opens /dev/null for each standard descriptor that is closed. Otherwise a pipe or file of ours
/// could become descriptor 0, 1 or 2 of a rank.
void secure_standard_descriptors();

/// While it lives, all that is written to `stream` passes untrusted_text(). So no command has to
/// know which of its words are somebody else's. Colours and cursor movements do not pass.
class SafeStream {
 public:
  explicit SafeStream(std::ostream& stream);
  ~SafeStream();
  SafeStream(const SafeStream&) = delete;
  SafeStream& operator=(const SafeStream&) = delete;

 private:
  class Filter;

  std::ostream& stream_;
  std::unique_ptr<Filter> filter_;
  std::streambuf* target_;
};

}  // namespace accelerate::cli
