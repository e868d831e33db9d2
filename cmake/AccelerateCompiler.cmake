# Compiler settings that every target shares, ccache, and the build type when none was chosen.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET default)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "accelerate.cpp needs g++ 12 or newer; found ${CMAKE_CXX_COMPILER_VERSION}. "
                      "Debian 12 and Ubuntu 24.04 bring it with `apt-get install g++`.")
endif()

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# What takes time is in LibTorch, or in the loops of comm/shared_memory, which ask for -O3 themselves. For the rest -O3
# costs a tenth more time to compile and gains none.
string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")

find_program(ACCELERATE_CCACHE ccache)
if(ACCELERATE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # A precompiled header changes its time stamp at every build; these let ccache look past that.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${ACCELERATE_CCACHE})
endif()

# A source that includes torch/torch.h takes up to 2 GB: as many at a time as cores and memory allow.
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
cmake_host_system_information(RESULT memory_mb QUERY TOTAL_PHYSICAL_MEMORY)
math(EXPR libtorch_jobs "${memory_mb} / 2048")
if(libtorch_jobs GREATER cores)
  set(libtorch_jobs ${cores})
elseif(libtorch_jobs LESS 1)
  set(libtorch_jobs 1)
endif()
set_property(GLOBAL PROPERTY JOB_POOLS libtorch=${libtorch_jobs})

add_library(accelerate_options INTERFACE)
target_compile_options(accelerate_options INTERFACE -Wall -Wextra -Wno-unused-parameter)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 warns of overlaps and bounds in every `"text" + std::string` (GCC bugs 105651, 105329).
  target_compile_options(accelerate_options INTERFACE -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)
endif()
if(ACCELERATE_WERROR)
  target_compile_options(accelerate_options INTERFACE -Werror)
endif()
if(ACCELERATE_SANITIZE)
  target_compile_options(accelerate_options INTERFACE -fsanitize=${ACCELERATE_SANITIZE}
                                                      -fno-omit-frame-pointer -g)
  target_link_options(accelerate_options INTERFACE -fsanitize=${ACCELERATE_SANITIZE})
endif()
