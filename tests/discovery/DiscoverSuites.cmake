# accelerate_discover_suites(TARGET LABEL [PROPERTY VALUE…]): one entry of ctest a suite of TARGET, named LABEL.<suite>.
# A process a test would load LibTorch two thousand times. The suites are asked for when ctest starts, and again only when
# the binary has changed. Each suite writes what its tests did to test_results/<entry>.xml, which tools/check_skips.py reads.
function(accelerate_discover_suites target label)
  set(list "${CMAKE_CURRENT_BINARY_DIR}/${target}_suites.cmake")
  set(include "${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake")
  file(GENERATE OUTPUT "${include}" CONTENT "
set(program [==[$<TARGET_FILE:${target}>]==])
set(list [==[${list}]==])
set(label [==[${label}]==])
set(results [==[${PROJECT_BINARY_DIR}/test_results]==])
set(properties [==[${ARGN}]==])
set(kinds_of_suites [==[${PROJECT_SOURCE_DIR}/tests/discovery/kinds.cmake]==])
include([==[${PROJECT_SOURCE_DIR}/tests/discovery/list_suites.cmake]==])
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${include}")
endfunction()
