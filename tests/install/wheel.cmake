# A wheel made of this build gives a virtual environment the command and a package, with which a new project builds and trains
# on two ranks; another torch is refused with a sentence.
include("${CMAKE_CURRENT_LIST_DIR}/steps.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/fake_libtorch.cmake")

set(env "${WORK}/an env") # A path with a blank.
step("${PYTHON}" "${SOURCE}/tools/make_wheel.py" "${BUILD}" "${WORK}/dist")
file(GLOB wheels "${WORK}/dist/accelerate_cpp-${VERSION}-py3-none-manylinux_2_*_x86_64.whl")
list(LENGTH wheels count)
if(NOT count EQUAL 1)
  message(FATAL_ERROR "expected one manylinux wheel in ${WORK}/dist")
endif()
file(SIZE "${wheels}" size)
math(EXPR mebibytes "${size} / 1048576")
if(mebibytes GREATER 25)
  message(FATAL_ERROR "the wheel has ${mebibytes} MiB; at most 25 are wanted")
endif()
message(STATUS "${wheels}: ${mebibytes} MiB")

# Installed where torch is missing.
step("${PYTHON}" -m venv --without-pip "${env}")
step("${PYTHON}" -m pip --disable-pip-version-check --python "${env}" install --no-index --no-deps --quiet "${wheels}")
file(GLOB packages "${env}/lib/python3*/site-packages")
set(command "${env}/bin/accelerate-cpp")
set(package "${packages}/accelerate_cpp")
step("${command}" --version)
if(NOT output MATCHES "^accelerate ${VERSION}")
  message(FATAL_ERROR "--version said: ${output}")
endif()
set(path "PATH=${env}/bin:$ENV{PATH}")
step("${CMAKE_COMMAND}" -E env "${path}" "${command}" init "${WORK}/demo")
if(NOT output MATCHES "-DCMAKE_PREFIX_PATH='${package}' && cmake --build build\n *accelerate-cpp launch")
  message(FATAL_ERROR "commands that do not work: ${output}")
endif()
set(config --config_file "${WORK}/demo/accelerate.yaml")
string(REGEX MATCH "^[0-9]+\\.[0-9]+" minor "${LIBTORCH_VERSION}")
set(cure "\"torch==${minor}.*\"")
failing_step("no torch in ${packages};${cure}" "${command}" test ${config})

# Another torch.
fake_libtorch("${packages}/torch" 2.9.1)
failing_step("torch 2.9.1 in ${packages}/torch has another binary interface;${cure}" "${command}" test ${config})
step("${command}" launch --cpu --num_processes 1 /bin/true)
if(NOT output MATCHES "another binary interface")
  message(FATAL_ERROR "launch did not tell that torch is another one: ${output}")
endif()
file(REMOVE_RECURSE "${packages}/torch")

# Its own torch.
file(CREATE_LINK "${LIBTORCH}" "${packages}/torch" SYMBOLIC)
step("${env}/bin/python" -m accelerate_cpp --prefix)
string(STRIP "${output}" prefix)
step("${CMAKE_COMMAND}" -S "${WORK}/demo" -B "${WORK}/demo/build" "-DCMAKE_PREFIX_PATH=${prefix}")
step("${CMAKE_COMMAND}" --build "${WORK}/demo/build")
step("${command}" launch ${config} --num_processes 2 "${WORK}/demo/build/train" --epochs 30
     --output "${WORK}/demo/run")
if(NOT output MATCHES "test accuracy: (0\\.9|1\\.0)")
  message(FATAL_ERROR "the new project said: ${output}")
endif()
step("${command}" test ${config})

# A second copy of the library.
set(other "${packages}/other/lib")
file(COPY "${package}/lib/libaccelerate.so.0" DESTINATION "${other}")
file(CREATE_LINK "${packages}" "${WORK}/packages" SYMBOLIC) # LD_PRELOAD knows no path with a blank.
failing_step("this process loads accelerate.cpp from several places .${package}/lib/libaccelerate_transformers.so.0, ${other}/libaccelerate.so.0"
             "${CMAKE_COMMAND}" -E env "LD_PRELOAD=${WORK}/packages/other/lib/libaccelerate.so.0" "${package}/libexec/accelerate/accelerate-torch")

# What a wheel does not have, and the other name of the command.
file(WRITE "${WORK}/launch_only/CMakeLists.txt"
     "cmake_minimum_required(VERSION 3.25)\nproject(x CXX)\nfind_package(Accelerate REQUIRED COMPONENTS launch)\n")
failing_step("has no component 'launch'" "${CMAKE_COMMAND}" -S "${WORK}/launch_only" -B "${WORK}/launch_only/build" "-DCMAKE_PREFIX_PATH=${prefix}")
step("${env}/bin/python" -m accelerate_cpp link)
step("${env}/bin/accelerate" --version)
file(REMOVE "${env}/bin/accelerate")
file(WRITE "${env}/bin/accelerate" "another")
failing_step("is another command" "${env}/bin/python" -m accelerate_cpp link)

# Nothing of the machine that made it.
file(GLOB_RECURSE texts "${package}/*.cmake" "${package}/*.py")
foreach(text ${texts})
  file(READ "${text}" content)
  foreach(place "${SOURCE}" "${BUILD}" "${LIBTORCH}" /usr/lib/)
    string(FIND "${content}" "${place}" at)
    if(NOT at EQUAL -1)
      message(FATAL_ERROR "${text} names ${place} of this machine")
    endif()
  endforeach()
endforeach()
file(GLOB binaries "${package}/lib/*.so*" "${package}/libexec/accelerate/*")
list(FILTER binaries EXCLUDE REGEX "/libaccelerate_cuda\\.so$") # Opened where torch has CUDA.
foreach(binary ${binaries})
  step(objdump -p "${binary}")
  if(output MATCHES "NEEDED +lib(torch|c10)_cuda")
    message(FATAL_ERROR "${binary} asks for a torch that has CUDA")
  endif()
endforeach()
