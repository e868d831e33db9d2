# Accelerate::launch is usable where there is no LibTorch, and brings none of our build's own targets.
include("${CMAKE_CURRENT_LIST_DIR}/steps.cmake")

install_and_move()
build_consumer(launch_consumer -DLibTorch_PYTHON=/bin/false)
step("${WORK}/build/launch_consumer")
if(NOT output MATCHES "1.50 KB")
  message(FATAL_ERROR "the consumer said: ${output}")
endif()

file(GLOB_RECURSE exported "${WORK}/prefix/*Targets*.cmake")
foreach(file ${exported})
  file(READ "${file}" text)
  if(text MATCHES "accelerate_options|accelerate_core" OR text MATCHES "${SOURCE}/accelerate")
    message(FATAL_ERROR "${file} mentions what only our build has: ${CMAKE_MATCH_0}")
  endif()
endforeach()
