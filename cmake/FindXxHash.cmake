# The header of xxHash 0.8 or newer, compiled in where it is included: XxHash::XxHash. Nothing of it is
# needed by who uses the installed package.
find_path(XxHash_INCLUDE_DIR xxhash.h)
if(XxHash_INCLUDE_DIR)
  file(STRINGS "${XxHash_INCLUDE_DIR}/xxhash.h" _xxhash_numbers
       REGEX "^#define XXH_VERSION_(MAJOR|MINOR|RELEASE) ")
  string(REGEX REPLACE "[^0-9;]" "" _xxhash_numbers "${_xxhash_numbers}")
  string(REPLACE ";" "." XxHash_VERSION "${_xxhash_numbers}")
endif()

include(FindPackageHandleStandardArgs)
if(XxHash_VERSION AND XxHash_VERSION VERSION_LESS 0.8) # XXH3 was not final before.
  set(XxHash_INCLUDE_DIR "")
endif()
find_package_handle_standard_args(XxHash REQUIRED_VARS XxHash_INCLUDE_DIR VERSION_VAR XxHash_VERSION
  REASON_FAILURE_MESSAGE "xxhash.h of xxHash 0.8 or newer was not found. On Debian and Ubuntu: \
apt-get install libxxhash-dev, or run scripts/setup.")
mark_as_advanced(XxHash_INCLUDE_DIR)

if(XxHash_FOUND AND NOT TARGET XxHash::XxHash)
  add_library(XxHash::XxHash INTERFACE IMPORTED)
  set_target_properties(XxHash::XxHash PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${XxHash_INCLUDE_DIR}")
endif()
