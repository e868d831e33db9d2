# Arrow's C++ libraries with Parquet. Sets ArrowParquet_FOUND, ArrowParquet_LIBRARIES, and of the wheel
# ArrowParquet_INCLUDE_DIR and ArrowParquet_LIBRARY_DIR.
#
# Looked for, in this order: an installed Arrow with package files (CMAKE_PREFIX_PATH), and the wheel
# `pyarrow` beside the wheel of LibTorch, whose libraries have names with a version and no package files.
set(_arrow_wheel "${LibTorch_ROOT_DIR}/../pyarrow")
if(NOT TARGET Parquet::parquet_shared)
  find_package(Parquet QUIET CONFIG)
endif()
if(TARGET Parquet::parquet_shared)
  set(ArrowParquet_LIBRARIES Parquet::parquet_shared)
elseif(EXISTS "${_arrow_wheel}/include/parquet/arrow/reader.h")
  get_filename_component(_arrow_wheel "${_arrow_wheel}" REALPATH)
  foreach(_name parquet arrow)
    file(GLOB _found "${_arrow_wheel}/lib${_name}.so.*")
    list(FILTER _found INCLUDE REGEX "\\.so\\.[0-9]+$")
    list(APPEND ArrowParquet_LIBRARIES ${_found})
  endforeach()
  set(ArrowParquet_INCLUDE_DIR "${_arrow_wheel}/include")
  set(ArrowParquet_LIBRARY_DIR "${_arrow_wheel}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ArrowParquet REQUIRED_VARS ArrowParquet_LIBRARIES
  REASON_FAILURE_MESSAGE "Parquet files will be refused. Install the Python package pyarrow beside torch, or Arrow's C++ libraries.")
