// A native program that fails: `failing_probe KIND MESSAGE` throws on rank 1, or where there is one
// rank. KIND: ours, nested, standard, foreign.
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/base/run_main.h"

namespace {

[[noreturn]] void fail(const std::string& kind, const std::string& message) {
  if (kind == "ours") throw accelerate::DataError(message);
  if (kind == "standard") throw std::out_of_range(message);
  if (kind == "foreign") throw 7;
  try {
    throw accelerate::DataError("line 3 is empty");
  } catch (const accelerate::DataError&) {
    accelerate::throw_with_context<accelerate::ConfigError>(message);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return accelerate::run_main([&] {
    const char* rank = std::getenv("RANK");
    if (argc == 3 && (rank == nullptr || std::string(rank) == "1")) fail(argv[1], argv[2]);
  });
}
