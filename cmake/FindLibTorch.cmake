# Finds LibTorch and defines the target LibTorch::LibTorch.
#
# Looked for, in this order: TORCH_INSTALL_PREFIX (variable or environment), CMAKE_PREFIX_PATH, the
# project's .venv, and the Python 3 on PATH (its installed `torch` wheel, found without importing it).
# The wheel's own TorchConfig.cmake is not used: in a CUDA wheel it demands the CUDA toolkit, which
# neither this library nor its users need.
#
# Sets LibTorch_FOUND, LibTorch_VERSION, LibTorch_ROOT_DIR, LibTorch_HAS_CUDA.

set(_libtorch_supported 2.11 2.12 2.13)
set(_libtorch_pinned 2.13.0)

function(_libtorch_from_python interpreter out)
  execute_process(
    COMMAND "${interpreter}" -c
      "import importlib.util, os; s = importlib.util.find_spec('torch'); print(os.path.dirname(s.origin) if s and s.origin else '')"
    OUTPUT_VARIABLE _path OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(${out} "${_path}" PARENT_SCOPE)
endfunction()

set(_libtorch_hints "")
foreach(_prefix "${TORCH_INSTALL_PREFIX}" "$ENV{TORCH_INSTALL_PREFIX}")
  if(_prefix)
    list(APPEND _libtorch_hints "${_prefix}")
    if(NOT EXISTS "${_prefix}/include/torch/csrc/api/include/torch/torch.h")
      message(FATAL_ERROR "TORCH_INSTALL_PREFIX is '${_prefix}', but there is no LibTorch in it "
                          "(include/torch/csrc/api/include/torch/torch.h is missing).")
    endif()
  endif()
endforeach()

find_path(LibTorch_ROOT_DIR NAMES include/torch/csrc/api/include/torch/torch.h
          HINTS ${_libtorch_hints} PATH_SUFFIXES libtorch torch NO_SYSTEM_ENVIRONMENT_PATH)
if(NOT LibTorch_ROOT_DIR)
  find_program(_libtorch_python NAMES python3 python)
  foreach(_interpreter "${CMAKE_CURRENT_SOURCE_DIR}/.venv/bin/python" "${_libtorch_python}")
    if(NOT LibTorch_ROOT_DIR AND EXISTS "${_interpreter}")
      _libtorch_from_python("${_interpreter}" _libtorch_candidate)
      if(_libtorch_candidate)
        find_path(LibTorch_ROOT_DIR NAMES include/torch/csrc/api/include/torch/torch.h
                  HINTS "${_libtorch_candidate}" NO_DEFAULT_PATH)
      endif()
    endif()
  endforeach()
endif()

if(LibTorch_ROOT_DIR)
  foreach(_header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
    if(NOT LibTorch_VERSION AND EXISTS "${LibTorch_ROOT_DIR}/include/${_header}")
      file(READ "${LibTorch_ROOT_DIR}/include/${_header}" _libtorch_header)
      if(_libtorch_header MATCHES "define TORCH_VERSION \"([0-9]+\\.[0-9]+\\.[0-9]+)")
        set(LibTorch_VERSION "${CMAKE_MATCH_1}")
      endif()
    endif()
  endforeach()
  foreach(_library torch torch_cpu c10)
    find_library(LibTorch_${_library}_LIBRARY NAMES ${_library}
                 HINTS "${LibTorch_ROOT_DIR}/lib" NO_DEFAULT_PATH)
  endforeach()
  foreach(_library torch_cuda c10_cuda)
    find_library(LibTorch_${_library}_LIBRARY NAMES ${_library}
                 HINTS "${LibTorch_ROOT_DIR}/lib" NO_DEFAULT_PATH)
    mark_as_advanced(LibTorch_${_library}_LIBRARY)
  endforeach()
endif()

include(FindPackageHandleStandardArgs)
if(NOT LibTorch_ROOT_DIR AND LibTorch_FIND_REQUIRED)
  message(FATAL_ERROR
    "LibTorch was not found. Run scripts/setup, which puts torch ${_libtorch_pinned} into .venv, or pass "
    "-DTORCH_INSTALL_PREFIX=DIR or -DCMAKE_PREFIX_PATH=DIR, where DIR is an unpacked LibTorch or the "
    "`torch` folder of an installed wheel.")
endif()
if(LibTorch_VERSION)
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" _libtorch_minor "${LibTorch_VERSION}")
  if(NOT _libtorch_minor IN_LIST _libtorch_supported)
    message(FATAL_ERROR
      "LibTorch ${LibTorch_VERSION} in ${LibTorch_ROOT_DIR} is not supported: accelerate.cpp is written "
      "for ${_libtorch_pinned} and also builds with 2.11 and 2.12. Install the pinned version with "
      "`pip install torch==${_libtorch_pinned}`, or point TORCH_INSTALL_PREFIX at one.")
  endif()
endif()
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
    # libtorch.so is an empty shell around the others; named for the CUDA kernels that register
    # themselves and that the linker would otherwise drop.
    "-Wl,--no-as-needed" ${LibTorch_torch_LIBRARY} ${LibTorch_torch_cpu_LIBRARY}
    ${LibTorch_c10_LIBRARY})
  if(LibTorch_HAS_CUDA)
    target_link_libraries(LibTorch::LibTorch INTERFACE ${LibTorch_torch_cuda_LIBRARY}
                                                       ${LibTorch_c10_cuda_LIBRARY})
  endif()
  target_link_libraries(LibTorch::LibTorch INTERFACE "-Wl,--as-needed")
endif()
mark_as_advanced(LibTorch_torch_LIBRARY LibTorch_torch_cpu_LIBRARY LibTorch_c10_LIBRARY)
