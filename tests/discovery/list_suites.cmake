# Run by ctest for each test binary (DiscoverSuites.cmake): writes the binary's suites as entries into ${list} and reads them.
if(NOT EXISTS "${program}")
  add_test(${label}.NOT_BUILT "${program}")
  return()
endif()
if("${program}" IS_NEWER_THAN "${list}" OR "${kinds_of_suites}" IS_NEWER_THAN "${list}"
   OR "${CMAKE_CURRENT_LIST_FILE}" IS_NEWER_THAN "${list}")
  execute_process(COMMAND "${program}" --gtest_list_tests OUTPUT_VARIABLE listed RESULT_VARIABLE code ERROR_VARIABLE said TIMEOUT 300)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${program} cannot list its tests (${code}):\n${listed}${said}")
  endif()
  include("${kinds_of_suites}")
  # A line of a suite is `Suite.` or `Suite/0.  # TypeParam = …`, and its tests follow, indented.
  string(REGEX REPLACE "[[;]|]" "_" listed "${listed}")
  string(REGEX MATCHALL "(^|\n)[^ \n][^ \n]*\\.[^\n]*\n " lines "${listed}")
  set(text "")
  foreach(line ${lines})
    string(REGEX REPLACE "^\n?([^ \n]+)\\..*$" "\\1" suite "${line}")
    accelerate_kind_of_suite("${suite}" kind cost)
    string(REPLACE "/" "." file "${label}.${suite}")
    string(APPEND text "add_test([==[${label}.${suite}]==] [==[${program}]==] [==[--gtest_filter=${suite}.*]==]"
                       " [==[--gtest_output=xml:${results}/${file}.xml]==])\n"
                       "set_tests_properties([==[${label}.${suite}]==] PROPERTIES TIMEOUT 900 COST ${cost} ${properties})\n"
                       "set_tests_properties([==[${label}.${suite}]==] PROPERTIES LABELS \"${label};${kind}\")\n")
  endforeach()
  if(text STREQUAL "")
    message(FATAL_ERROR "${program} has no suites")
  endif()
  file(WRITE "${list}" "${text}")
endif()
include("${list}")
