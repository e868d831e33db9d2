# Sets NCCL_INCLUDE_DIRS: where nccl.h and the CUDA headers are that c10d's NCCL engine includes, when LibTorch has
# CUDA; empty when it has not, or when ACCELERATE_NCCL is OFF. A CUDA wheel of torch brings them in sibling packages
# (nvidia/<package>/include, or nvidia/cu13/include for all of them); a CUDA toolkit and a system NCCL do as well.
option(ACCELERATE_NCCL "Compile the NCCL engine when LibTorch has CUDA" ON)

set(NCCL_INCLUDE_DIRS "")
if(ACCELERATE_NCCL AND LibTorch_HAS_CUDA)
  file(GLOB _nvidia LIST_DIRECTORIES true "${LibTorch_ROOT_DIR}/../nvidia/*/include")
  foreach(_header nccl.h cuda_runtime_api.h cusparse.h cublas_v2.h cusolverDn.h)
    find_path(ACCELERATE_${_header}_DIR NAMES ${_header} HINTS ${_nvidia} "$ENV{CUDA_HOME}/include"
              PATHS /usr/local/cuda/include)
    mark_as_advanced(ACCELERATE_${_header}_DIR)
    if(NOT ACCELERATE_${_header}_DIR)
      message(FATAL_ERROR "LibTorch ${LibTorch_VERSION} has CUDA, but ${_header} was not found, which the NCCL engine "
                          "needs. The pip packages that a CUDA wheel of torch depends on bring it; set CUDA_HOME to a "
                          "CUDA toolkit, or pass -DACCELERATE_NCCL=OFF to build with Gloo alone.")
    endif()
    list(APPEND NCCL_INCLUDE_DIRS "${ACCELERATE_${_header}_DIR}")
  endforeach()
  list(REMOVE_DUPLICATES NCCL_INCLUDE_DIRS)
endif()
