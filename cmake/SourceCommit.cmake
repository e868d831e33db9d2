# Writes into OUT a function that returns the commit of the checkout SOURCE: "2d8d6d12abcd", with "-dirty" if tracked files differ from it,
# or "" where there is no checkout or no git. A file that says so already is left alone.
set(commit "")
if(EXISTS "${SOURCE}/.git") # Else git would tell of a checkout around a folder of sources.
  execute_process(COMMAND git -C "${SOURCE}" describe --always --dirty --abbrev=12 --exclude=* OUTPUT_VARIABLE commit
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE ignored)
endif()
file(CONFIGURE OUTPUT "${OUT}" @ONLY CONTENT [[
#include "cli/reference/command_text.h"

std::string accelerate::cli::source_commit() {
  return "@commit@";
}
]])
