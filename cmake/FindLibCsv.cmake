# libcsv 3, a parser of CSV: LibCsv::LibCsv. Its distributions have no package files for CMake.
find_path(LibCsv_INCLUDE_DIR csv.h)
find_library(LibCsv_LIBRARY csv)
if(LibCsv_INCLUDE_DIR)
  file(STRINGS "${LibCsv_INCLUDE_DIR}/csv.h" _libcsv_numbers REGEX "^#define CSV_(MAJOR|MINOR|RELEASE) ")
  string(REGEX REPLACE "#define CSV_[A-Z]+ +" "" _libcsv_numbers "${_libcsv_numbers}")
  string(REPLACE ";" "." LibCsv_VERSION "${_libcsv_numbers}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibCsv REQUIRED_VARS LibCsv_LIBRARY LibCsv_INCLUDE_DIR VERSION_VAR LibCsv_VERSION
  REASON_FAILURE_MESSAGE "csv.h and libcsv were not found. On Debian and Ubuntu: apt-get install libcsv-dev, \
or run scripts/setup.")
mark_as_advanced(LibCsv_INCLUDE_DIR LibCsv_LIBRARY)

if(LibCsv_FOUND AND NOT TARGET LibCsv::LibCsv)
  add_library(LibCsv::LibCsv UNKNOWN IMPORTED)
  set_target_properties(LibCsv::LibCsv PROPERTIES IMPORTED_LOCATION "${LibCsv_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${LibCsv_INCLUDE_DIR}")
endif()
