// Names of the functions at addresses of this process.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace accelerate {

/// Looks addresses up in the symbol tables of the program and of its libraries. Reads a file's table
/// once. Not for several threads.
class ProgramSymbols {
 public:
  ProgramSymbols();
  ~ProgramSymbols();
  ProgramSymbols(const ProgramSymbols&) = delete;
  ProgramSymbols& operator=(const ProgramSymbols&) = delete;

  /// Returns e.g. "train(Model&) (trainer)": the demangled function, and the file without its
  /// folder. Of a file without symbols returns "trainer+0x1234", as addr2line takes it. Never
  /// throws for a damaged file.
  [[nodiscard]] std::string name_of(const void* address);

 private:
  struct File;
  File& file_at(const std::string& path);

  std::map<std::string, std::unique_ptr<File>> files_;
};

}  // namespace accelerate
