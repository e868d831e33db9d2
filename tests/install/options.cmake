# The project configures with each part switched off, and then has none of that part's targets.
include("${CMAKE_CURRENT_LIST_DIR}/steps.cmake")

macro(configure_with folder)
  step("${CMAKE_COMMAND}" -G Ninja -S "${SOURCE}" -B "${WORK}/${folder}" "-DTORCH_INSTALL_PREFIX=${LIBTORCH}" ${ARGN})
  step("${CMAKE_COMMAND}" --build "${WORK}/${folder}" --target help)
endmacro()

macro(expect_no_target pattern)
  if(output MATCHES "[^\n]*${pattern}[^\n]*: phony")
    message(FATAL_ERROR "a target that was switched off: ${CMAKE_MATCH_0}")
  endif()
endmacro()

if(LIBTORCH)
  configure_with(bare -DACCELERATE_BUILD_CLI=OFF -DACCELERATE_BUILD_TESTS=OFF -DACCELERATE_BUILD_EXAMPLES=OFF
                 -DACCELERATE_BUILD_BENCHMARKS=OFF)
  expect_no_target("accelerate_program")
  expect_no_target("test_")
  expect_no_target("cv_plain")

  configure_with(tests_only -DACCELERATE_BUILD_CLI=OFF)
  expect_no_target("accelerate_program")
  expect_no_target("test_cli")
endif()

configure_with(no_library -DACCELERATE_BUILD_LIBRARY=OFF -DLibTorch_PYTHON=/bin/false)
expect_no_target("libaccelerate.so")
expect_no_target("test_tensor")
expect_no_target("cv_plain")

# The one version that CMake's project() cannot say.
file(READ "${SOURCE}/packaging/vcpkg/vcpkg.json" port)
string(JSON said GET "${port}" version)
if(NOT said STREQUAL VERSION)
  message(FATAL_ERROR "packaging/vcpkg/vcpkg.json says version ${said}, but CMakeLists.txt ${VERSION}")
endif()
