# Finds LibTorch and defines the target LibTorch::LibTorch.
#
# Looked for, in this order: TORCH_INSTALL_PREFIX (variable or environment), CMAKE_PREFIX_PATH, the
# project's .venv, the Python 3 on PATH (its installed `torch` wheel, found without importing it), and
# LibTorch_LAST_RESORT, which an installed package sets to the LibTorch that it was built with.
# The wheel's own TorchConfig.cmake is not used: in a CUDA wheel it demands the CUDA toolkit, which
# neither this library nor its users need (docs/decisions/libtorch_finder.md).
#
# Sets LibTorch_FOUND, LibTorch_VERSION, LibTorch_ROOT_DIR, LibTorch_HAS_CUDA.
# The cache variable LibTorch_PYTHON names the Python whose wheel is used; empty: the one on PATH.

set(_libtorch_pinned 2.13.0)
set(_libtorch_oldest 2.11)
set(_libtorch_newest 2.14) # The newest that the quick tests have passed with. A newer one is used, with a warning.
set(_libtorch_mark include/torch/csrc/api/include/torch/torch.h)
set(_libtorch_problem "")

# What an earlier run found is forgotten when it is gone or when another place is asked for.
function(_libtorch_forget)
  foreach(_name ROOT_DIR torch_LIBRARY torch_cpu_LIBRARY c10_LIBRARY torch_cuda_LIBRARY c10_cuda_LIBRARY)
    unset(LibTorch_${_name} CACHE)
  endforeach()
endfunction()

# out: the folder of the interpreter's `torch` package, or "".
function(_libtorch_from_python interpreter out)
  execute_process(
    COMMAND "${interpreter}" -c
      "import importlib.util, os; s = importlib.util.find_spec('torch'); print(os.path.dirname(s.origin) if s and s.origin else '')"
    OUTPUT_VARIABLE _path OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(${out} "${_path}" PARENT_SCOPE)
endfunction()

# Sets LibTorch_ROOT_DIR (cache) from prefixes, then from Python, then from the last resort.
function(_libtorch_locate given)
  if(given) # find_path would look into CMAKE_PREFIX_PATH first.
    find_path(LibTorch_ROOT_DIR NAMES ${_libtorch_mark} HINTS ${given} NO_DEFAULT_PATH)
  else()
    find_path(LibTorch_ROOT_DIR NAMES ${_libtorch_mark} PATH_SUFFIXES libtorch torch NO_SYSTEM_ENVIRONMENT_PATH)
  endif()
  if(LibTorch_ROOT_DIR)
    return()
  endif()
  set(LibTorch_PYTHON "" CACHE FILEPATH "Python whose torch wheel is used (empty: the one on PATH)")
  set(_interpreters "${LibTorch_PYTHON}")
  if(NOT LibTorch_PYTHON)
    find_program(_python NAMES python3 python NO_CACHE)
    set(_interpreters "${PROJECT_SOURCE_DIR}/.venv/bin/python" "${_python}")
  endif()
  foreach(_interpreter ${_interpreters})
    if(NOT LibTorch_ROOT_DIR AND EXISTS "${_interpreter}")
      _libtorch_from_python("${_interpreter}" _package)
      if(_package)
        find_path(LibTorch_ROOT_DIR NAMES ${_libtorch_mark} HINTS "${_package}" NO_DEFAULT_PATH)
      endif()
    endif()
  endforeach()
  if(NOT LibTorch_ROOT_DIR AND LibTorch_LAST_RESORT)
    find_path(LibTorch_ROOT_DIR NAMES ${_libtorch_mark} HINTS "${LibTorch_LAST_RESORT}" NO_DEFAULT_PATH)
  endif()
endfunction()

# out: "2.13.0" from the header that has it, or "".
function(_libtorch_read_version out)
  set(${out} "" PARENT_SCOPE)
  foreach(_header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
    if(EXISTS "${LibTorch_ROOT_DIR}/include/${_header}")
      file(READ "${LibTorch_ROOT_DIR}/include/${_header}" _text)
      # 2.13 breaks the line between the name and its value.
      if(_text MATCHES "define TORCH_VERSION[ \\\n]*\"([0-9]+\\.[0-9]+\\.[0-9]+)")
        set(${out} "${CMAKE_MATCH_1}" PARENT_SCOPE)
        return()
      endif()
    endif()
  endforeach()
endfunction()

set(_libtorch_given "${TORCH_INSTALL_PREFIX}")
if(NOT _libtorch_given)
  set(_libtorch_given "$ENV{TORCH_INSTALL_PREFIX}")
endif()
if(LibTorch_ROOT_DIR AND NOT EXISTS "${LibTorch_ROOT_DIR}/${_libtorch_mark}")
  _libtorch_forget()
endif()

if(_libtorch_given AND NOT EXISTS "${_libtorch_given}/${_libtorch_mark}")
  _libtorch_forget()
  set(_libtorch_problem "TORCH_INSTALL_PREFIX is '${_libtorch_given}', but there is no LibTorch in it \
(${_libtorch_mark} is missing). It must be an unpacked LibTorch or the `torch` folder of an installed wheel.")
else()
  if(_libtorch_given AND NOT LibTorch_ROOT_DIR STREQUAL _libtorch_given)
    _libtorch_forget()
  endif()
  _libtorch_locate("${_libtorch_given}")
endif()

set(LibTorch_VERSION "")
if(LibTorch_ROOT_DIR)
  _libtorch_read_version(LibTorch_VERSION)
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" _libtorch_minor "${LibTorch_VERSION}")
  if(_libtorch_minor STREQUAL "" OR _libtorch_minor VERSION_LESS _libtorch_oldest)
    set(_libtorch_problem "LibTorch ${LibTorch_VERSION} in ${LibTorch_ROOT_DIR} is not supported: \
accelerate.cpp is written for ${_libtorch_pinned} and builds with ${_libtorch_oldest} and newer. Install the pinned \
version with `pip install torch==${_libtorch_pinned}`, or point TORCH_INSTALL_PREFIX at one.")
  elseif(_libtorch_minor VERSION_GREATER _libtorch_newest AND NOT LibTorch_FIND_QUIETLY)
    message(WARNING "LibTorch ${LibTorch_VERSION} in ${LibTorch_ROOT_DIR} is newer than ${_libtorch_newest}, the newest that \
accelerate.cpp was tested with. `pip install torch==${_libtorch_pinned}` installs the one that it is written for.")
  endif()
  foreach(_library torch torch_cpu c10 torch_cuda c10_cuda)
    find_library(LibTorch_${_library}_LIBRARY NAMES ${_library}
                 HINTS "${LibTorch_ROOT_DIR}/lib" NO_DEFAULT_PATH)
    mark_as_advanced(LibTorch_${_library}_LIBRARY)
  endforeach()
elseif(NOT _libtorch_problem)
  set(_libtorch_problem "LibTorch was not found. In a checkout of accelerate.cpp run scripts/setup, which puts \
torch ${_libtorch_pinned} into .venv; elsewhere `pip install torch==${_libtorch_pinned}`, or pass \
-DTORCH_INSTALL_PREFIX=DIR or -DCMAKE_PREFIX_PATH=DIR, where DIR is an unpacked LibTorch or the `torch` folder \
of an installed wheel.")
endif()

if(_libtorch_problem)
  set(LibTorch_FOUND FALSE)
  if(LibTorch_FIND_REQUIRED)
    message(FATAL_ERROR "${_libtorch_problem}")
  elseif(NOT LibTorch_FIND_QUIETLY)
    message(STATUS "${_libtorch_problem}")
  endif()
  return()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_torch_LIBRARY LibTorch_torch_cpu_LIBRARY LibTorch_c10_LIBRARY LibTorch_ROOT_DIR
  VERSION_VAR LibTorch_VERSION)

set(LibTorch_HAS_CUDA OFF)
if(LibTorch_torch_cuda_LIBRARY AND LibTorch_c10_cuda_LIBRARY)
  set(LibTorch_HAS_CUDA ON)
endif()

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE
    "${LibTorch_ROOT_DIR}/include" "${LibTorch_ROOT_DIR}/include/torch/csrc/api/include")
  target_compile_definitions(LibTorch::LibTorch INTERFACE USE_C10D_GLOO USE_DISTRIBUTED)
  target_link_libraries(LibTorch::LibTorch INTERFACE
    # Before LibTorch: its libraries for CUDA export parts of an older libstdc++, with which, for
    # example, std::filesystem::remove_all() calls a null pointer.
    # libtorch.so is an empty shell around the others; named for the CUDA kernels that register
    # themselves and that the linker would otherwise drop.
    "-Wl,--no-as-needed" stdc++ ${LibTorch_torch_LIBRARY} ${LibTorch_torch_cpu_LIBRARY}
    ${LibTorch_c10_LIBRARY})
  if(LibTorch_HAS_CUDA)
    target_link_libraries(LibTorch::LibTorch INTERFACE ${LibTorch_torch_cuda_LIBRARY}
                                                       ${LibTorch_c10_cuda_LIBRARY})
  endif()
  target_link_libraries(LibTorch::LibTorch INTERFACE "-Wl,--as-needed")
endif()
