# The vocabulary of the scripts in this folder. Every script gets SOURCE, BUILD, WORK and LIBTORCH.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")
unset(ENV{TORCH_INSTALL_PREFIX})

# Runs a command that must succeed; its output is left in `output`.
macro(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "exit code ${code} of: ${ARGN}\n${output}")
  endif()
endmacro()

# Runs a command that must fail with each of `patterns` in what it says (line breaks count as blanks).
macro(failing_step patterns)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " flat "${output}")
  if(code EQUAL 0)
    message(FATAL_ERROR "expected to fail, but passed: ${ARGN}\n${output}")
  endif()
  foreach(pattern ${patterns})
    if(NOT flat MATCHES "${pattern}")
      message(FATAL_ERROR "'${pattern}' is not in what was said by: ${ARGN}\n${output}")
    endif()
  endforeach()
endmacro()

# Installs the build into a prefix and moves it, so that nothing may remember where it was.
macro(install_and_move)
  step("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/first")
  file(RENAME "${WORK}/first" "${WORK}/prefix")
endmacro()

# Configures and builds the project `name` of this folder against the moved prefix.
macro(build_consumer name)
  step("${CMAKE_COMMAND}" -G Ninja -S "${CMAKE_CURRENT_LIST_DIR}/${name}" -B "${WORK}/build"
       "-DCMAKE_PREFIX_PATH=${WORK}/prefix" "-DCMAKE_BUILD_TYPE=${TYPE}" "-DSANITIZE=${SANITIZE}" ${ARGN})
  step("${CMAKE_COMMAND}" --build "${WORK}/build")
endmacro()
