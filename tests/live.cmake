# Tests that run whole programs: the installed package, the examples, the originals in Python.
add_subdirectory(install)
