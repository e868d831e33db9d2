# PCRE2 10.30 or newer for texts of bytes: PCRE2::PCRE2. Its own package files are not in every distribution.
find_path(PCRE2_INCLUDE_DIR pcre2.h)
find_library(PCRE2_LIBRARY pcre2-8)
if(PCRE2_INCLUDE_DIR)
  file(STRINGS "${PCRE2_INCLUDE_DIR}/pcre2.h" _pcre2_numbers REGEX "^#define PCRE2_(MAJOR|MINOR) ")
  string(REGEX REPLACE "#define PCRE2_[A-Z]+ +" "" _pcre2_numbers "${_pcre2_numbers}")
  string(REPLACE ";" "." PCRE2_VERSION "${_pcre2_numbers}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(PCRE2 REQUIRED_VARS PCRE2_LIBRARY PCRE2_INCLUDE_DIR VERSION_VAR PCRE2_VERSION
  REASON_FAILURE_MESSAGE "pcre2.h and libpcre2-8 were not found. On Debian and Ubuntu: apt-get install libpcre2-dev, \
or run scripts/setup.")
mark_as_advanced(PCRE2_INCLUDE_DIR PCRE2_LIBRARY)

if(PCRE2_FOUND AND NOT TARGET PCRE2::PCRE2)
  add_library(PCRE2::PCRE2 UNKNOWN IMPORTED)
  set_target_properties(PCRE2::PCRE2 PROPERTIES IMPORTED_LOCATION "${PCRE2_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${PCRE2_INCLUDE_DIR}")
endif()
