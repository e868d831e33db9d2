# The source package for Python's torch: pip compiles it against the torch beside it, and the backend's collectives and
# training equal Gloo's. What is missing is told in a sentence.
include("${CMAKE_CURRENT_LIST_DIR}/steps.cmake")

set(env "${WORK}/env")
step("${PYTHON}" "${SOURCE}/tools/make_torch_source.py" "${WORK}/dist")
set(file "${WORK}/dist/accelerate_cpp_torch-0.1.0.tar.gz")
step("${PYTHON}" -c "print(__import__('sysconfig').get_path('purelib'))")
string(STRIP "${output}" packages_of_python)
step("${PYTHON}" -m venv --without-pip "${env}")
file(GLOB packages "${env}/lib/python3*/site-packages")

# Without torch, and without a compiler.
file(ARCHIVE_EXTRACT INPUT "${file}" DESTINATION "${WORK}")
foreach(tool setuptools _distutils_hack)
  file(CREATE_LINK "${packages_of_python}/${tool}" "${packages}/${tool}" SYMBOLIC)
endforeach()
set(setup "${WORK}/accelerate_cpp_torch-0.1.0")
set(in_setup "${CMAKE_COMMAND}" -E chdir "${setup}")
failing_step("torch is missing. Install it first" ${in_setup} "${env}/bin/python" setup.py --version)
file(WRITE "${packages}/tools.pth" "${packages_of_python}\n")
failing_step("the compiler `none` is missing. Install g.. 12" ${in_setup} "${CMAKE_COMMAND}" -E env CXX=none
             "${env}/bin/python" setup.py build_ext --inplace)

find_program(CCACHE ccache)
if(CCACHE)
  set(ENV{CXX} "${CCACHE} g++")
endif()
step("${PYTHON}" -m pip --disable-pip-version-check --python "${env}" install --no-index --no-deps --no-cache-dir --no-build-isolation
     --quiet "${file}")
set(ENV{OMP_NUM_THREADS} 1)
foreach(test collectives training)
  step("${env}/bin/python" -W ignore "${CMAKE_CURRENT_LIST_DIR}/torch_package/${test}_test.py")
  message(STATUS "${output}")
endforeach()
