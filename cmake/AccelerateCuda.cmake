# Sets ACCELERATE_CUDA_INCLUDE_DIRS: where the headers are that c10d's NCCL engine and CUDA graphs include, when LibTorch
# has CUDA; empty when it has not, or when ACCELERATE_CUDA is OFF. A CUDA wheel of torch brings most of them in sibling
# packages (nvidia/<package>/include, or nvidia/cu13/include for all of them); a CUDA toolkit and a system NCCL bring all.
option(ACCELERATE_CUDA "Compile the NCCL engine and CUDA graphs when LibTorch has CUDA" ON)

set(ACCELERATE_CUDA_INCLUDE_DIRS "")
if(ACCELERATE_CUDA AND LibTorch_HAS_CUDA)
  set(_headers nccl.h cuda_runtime_api.h cusparse.h cublas_v2.h cusolverDn.h crt/host_config.h nv/target)
  if(NOT LibTorch_ROOT_DIR STREQUAL ACCELERATE_CUDA_LIBTORCH) # What another LibTorch brought is not for this one.
    foreach(_header ${_headers})
      string(MAKE_C_IDENTIFIER ${_header} _name)
      unset(ACCELERATE_${_name}_DIR CACHE)
    endforeach()
    set(ACCELERATE_CUDA_LIBTORCH "${LibTorch_ROOT_DIR}" CACHE INTERNAL "Whose CUDA headers were looked for")
  endif()
  file(GLOB _nvidia LIST_DIRECTORIES true "${LibTorch_ROOT_DIR}/../nvidia/*/include")
  foreach(_header ${_headers})
    string(MAKE_C_IDENTIFIER ${_header} _name)
    find_path(ACCELERATE_${_name}_DIR NAMES ${_header}
              HINTS ${_nvidia} "$ENV{CUDA_HOME}/include" "$ENV{CUDA_HOME}/include/cccl"
              PATHS /usr/local/cuda/include /usr/local/cuda/include/cccl)
    mark_as_advanced(ACCELERATE_${_name}_DIR)
    if(NOT ACCELERATE_${_name}_DIR)
      message(FATAL_ERROR "LibTorch ${LibTorch_VERSION} has CUDA, but ${_header} was not found, which the NCCL engine and "
                          "CUDA graphs need. `scripts/setup --cuda` makes an environment that has it. In another, of the "
                          "same version of CUDA as LibTorch: pip's cuda-toolkit[crt,cccl] brings crt/host_config.h and "
                          "nv/target (packages nvidia-cuda-crt, nvidia-cuda-cccl), the packages that a CUDA wheel of torch "
                          "depends on bring the others, and a CUDA toolkit, named by CUDA_HOME, all but nccl.h "
                          "(nvidia-nccl-cu13, libnccl-dev). -DACCELERATE_CUDA=OFF builds without both.")
    endif()
    list(APPEND ACCELERATE_CUDA_INCLUDE_DIRS "${ACCELERATE_${_name}_DIR}")
  endforeach()
  list(REMOVE_DUPLICATES ACCELERATE_CUDA_INCLUDE_DIRS)
endif()
