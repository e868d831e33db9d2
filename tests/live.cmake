# Tests that run whole programs: the tools, the installed package, the examples, the originals in Python.
add_subdirectory(install)

if(Python3_Interpreter_FOUND)
  add_test(NAME tools.check_layers
           COMMAND ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tests/tools/check_layers_test.py")
endif()
